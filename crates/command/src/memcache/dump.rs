//! Commands that list all items, in several calls if necessary: `lru_crawler metadump` and `mgdump`, `stats cachedump`.

use super::call::{Call, Step};
use super::state::Dumping;
use super::{LINE_ROOM, exptime};
use crate::metrics::Command;
use crate::resp::walk_step_ops;
use crate::visit::clock::Moment;
use crate::visit::progress::SessionWait;
use protocol::memcache::KEY_BYTES_MAX;
use protocol::memcache::reply::{self, ItemFacts};
use protocol::memcache::request::Dump;
use segment::Item;

/// The format of an item in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// `key=... exp=...`.
    Metadump,
    /// `mg KEY`.
    Mgdump,
    /// `ITEM KEY [...]`, for at most this many items.
    Cachedump(u64),
}

impl Format {
    fn end(self) -> &'static [u8] {
        match self {
            Self::Mgdump => reply::META_END,
            Self::Metadump | Self::Cachedump(_) => reply::END,
        }
    }
}

impl From<Dump> for Format {
    fn from(dump: Dump) -> Self {
        match dump {
            Dump::Metadump => Self::Metadump,
            Dump::Mgdump => Self::Mgdump,
        }
    }
}

/// Lists the next items. The items of a step are written when the step is complete. The request line is consumed with
/// the last item, so that the worker serves the session again until then.
pub(super) fn dump(call: &mut Call<'_, '_>, format: Format, consumed: usize) -> Step {
    let dumping = call.session.dump.take();
    let mut dumping = dumping.unwrap_or_else(|| Dumping::from(call.guard.walks().first_cursor()));
    let step = dump_step(call, format, &mut dumping);
    if step.is_err() || !dumping.is_ended {
        call.session.dump = Some(dumping);
        step?;
        return if call.ops >= call.ctx.pace.share() { Err(SessionWait::Yield) } else { Ok(()) };
    }
    dump_done(call, format, consumed);
    Ok(())
}

fn dump_step(call: &mut Call<'_, '_>, format: Format, dumping: &mut Dumping) -> Step {
    if dumping.lines.is_empty() && !dumping.is_ended {
        let Dumping { listed, cursor, stride, lines, .. } = dumping;
        let (before, moment) = (*listed as usize, call.ctx.moment());
        let next = call.guard.walks().walk(call.session.namespace, *cursor, stride, &mut |item| {
            if !matches!(format, Format::Cachedump(most) if *listed >= most) {
                *listed += 1;
                write_item(lines, format, item, moment);
            }
        });
        let next = next.map_err(|_| SessionWait::Parked)?;
        let is_enough = matches!(format, Format::Cachedump(most) if *listed >= most);
        dumping.is_ended = next.is_none() || is_enough;
        dumping.cursor = next.unwrap_or(0);
        call.ops += walk_step_ops(*listed as usize - before);
    }
    let part = dumping.lines.len().min(call.out.room());
    call.out.push(&dumping.lines[..part]);
    dumping.lines.drain(..part);
    call.room(LINE_ROOM)
}

fn dump_done(call: &mut Call<'_, '_>, format: Format, consumed: usize) {
    call.out.push(format.end());
    call.at += consumed;
    call.done(if matches!(format, Format::Cachedump(_)) { Command::Stats } else { Command::Other });
}

fn write_item(out: &mut impl protocol::sink::Sink, format: Format, item: &Item<'_>, moment: Moment) {
    match format {
        // An `mg` cannot request a key of this length.
        Format::Mgdump if item.key.len() > KEY_BYTES_MAX => {}
        Format::Cachedump(_) => {
            reply::cachedump(out, item.key, item.value_len(), exptime::ends_at(item.expire, moment))
        }
        Format::Mgdump => reply::mgdump(out, item.key),
        Format::Metadump => reply::metadump(
            out,
            &ItemFacts {
                key: item.key,
                exp: exptime::ends_at(item.expire, moment),
                la: moment.to_wall(item.last_access).secs(),
                cas: item.token,
                fetched: item.fetched,
                class: item.ttl_class.into(),
                size: item.bytes_with_pieces(),
                client_flags: item.client_flags,
            },
        ),
    }
}
