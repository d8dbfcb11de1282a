//! `lru_crawler metadump` and `mgdump`, `stats cachedump`: every item, in as many calls as it takes.

use super::{Call, LINE_ROOM, Step, exptime};
use crate::context::{OPS_A_BATCH, State};
use crate::metrics::Command;
use protocol::memcache::KEY_BYTES_MAX;
use protocol::memcache::reply::{self, ItemFacts};
use protocol::memcache::request::Dump;
use segment::{Item, Stride};

/// How a dump tells an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// `key=... exp=...`.
    Metadump,
    /// `mg KEY`.
    Mgdump,
    /// `ITEM KEY [...]`, at most so many of them.
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

/// Where a dump is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dumping {
    /// Items told in all.
    told_all: u64,
    /// Where the store's walk goes on.
    cursor: u64,
    /// Items of the part at `cursor` that are told already.
    told: usize,
}

/// The same where items are on flash too.
#[derive(Debug, Default)]
pub(super) struct DumpingTiers {
    told_all: u64,
    cursor: u32,
    stride: Stride,
    /// Lines that are not told yet.
    lines: Vec<u8>,
    is_ended: bool,
}

impl Call<'_, '_> {
    /// Tells the next items where some are on flash: what a step finds is told once it has come to its end.
    fn dump_tiers(&mut self, format: Format, consumed: usize) -> Step {
        let mut dumping = self.session.dump_tiers.take().unwrap_or_default();
        let told = self.dump_step(format, &mut dumping);
        if told.is_err() || !dumping.is_ended {
            self.session.dump_tiers = Some(dumping);
            return told;
        }
        self.dump_done(format, consumed);
        Ok(())
    }

    fn dump_step(&mut self, format: Format, dumping: &mut DumpingTiers) -> Step {
        if dumping.lines.is_empty() && !dumping.is_ended {
            let DumpingTiers { told_all, cursor, stride, lines, .. } = dumping;
            let next = self.turn.walk(self.session.namespace, *cursor, stride, &mut |item| {
                if !matches!(format, Format::Cachedump(most) if *told_all >= most) {
                    *told_all += 1;
                    tell(lines, format, item);
                }
            });
            let next = next.map_err(|_| State::Parked)?;
            let is_enough = matches!(format, Format::Cachedump(most) if *told_all >= most);
            dumping.is_ended = next.is_none() || is_enough;
            dumping.cursor = next.unwrap_or(0);
            // A part of the walk is as much work as many lookups.
            self.ops += OPS_A_BATCH / 8;
        }
        let part = dumping.lines.len().min(self.out.room());
        self.out.push(&dumping.lines[..part]);
        dumping.lines.drain(..part);
        self.room(LINE_ROOM)
    }

    fn dump_done(&mut self, format: Format, consumed: usize) {
        self.out.push(format.end());
        self.at += consumed;
        self.done(if matches!(format, Format::Cachedump(_)) { Command::Stats } else { Command::Other });
    }

    /// Tells the next items. The line is consumed with the last one, so that the session is asked again until then.
    pub(super) fn dump(&mut self, format: Format, consumed: usize) -> Step {
        if self.turn.is_tiered() {
            return self.dump_tiers(format, consumed);
        }
        let mut dumping = self.session.dump.unwrap_or_default();
        let mut seen = 0;
        let mut want = None;
        let out = &mut *self.out;
        let next = self.turn.crawl(self.session.namespace, dumping.cursor, 1, &mut |item| {
            seen += 1;
            if want.is_some()
                || seen <= dumping.told
                || matches!(format, Format::Cachedump(most) if dumping.told_all >= most)
            {
                return;
            }
            // Room for the end of the dump is kept too.
            let line = line_room(item);
            want = (out.room() < line).then_some(line);
            if want.is_none() {
                dumping.told += 1;
                dumping.told_all += 1;
                tell(out, format, item);
            }
        });
        if let Some(want) = want {
            self.session.dump = Some(dumping);
            return Err(State::OutputFull { want });
        }
        let enough = matches!(format, Format::Cachedump(most) if dumping.told_all >= most);
        match next.filter(|_| !enough) {
            Some(cursor) => {
                self.session.dump = Some(Dumping { cursor, told: 0, ..dumping });
                // A part of the walk is as much work as many lookups: let others go first after eight of them.
                self.ops += OPS_A_BATCH / 8;
            }
            None => {
                self.room(LINE_ROOM)?;
                self.session.dump = None;
                self.dump_done(format, consumed);
            }
        }
        Ok(())
    }
}

/// Room for the longest line about an item, and for the end of the dump. Clients of Redis store keys of up to 64 KiB,
/// which a line may write as three bytes for each.
fn line_room(item: &Item<'_>) -> usize {
    LINE_ROOM + if item.key.len() > KEY_BYTES_MAX { 3 * item.key.len() } else { 0 }
}

fn tell(out: &mut impl protocol::sink::Sink, format: Format, item: &Item<'_>) {
    match format {
        // No `mg` names such a key.
        Format::Mgdump if item.key.len() > KEY_BYTES_MAX => {}
        Format::Cachedump(_) => reply::cachedump(out, item.key, item.value_len(), exptime::ends_at(item.expire)),
        Format::Mgdump => reply::mgdump(out, item.key),
        Format::Metadump => reply::metadump(
            out,
            &ItemFacts {
                key: item.key,
                exp: exptime::ends_at(item.expire),
                la: item.last_access.secs(),
                cas: item.token,
                fetched: item.fetched,
                class: item.ttl_class.into(),
                size: item.stored_bytes,
                client_flags: item.client_flags,
            },
        ),
    }
}
