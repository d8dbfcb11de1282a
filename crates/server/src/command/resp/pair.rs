//! Two keys, or many, as one: `RENAME`, `RENAMENX`, `COPY`, `MSET`, `MSETNX`.
//!
//! Their keys are claimed when they are called (`atomic`), so what is looked at stays as it is. A part that is done is
//! noted in [`super::SessionState::done`], so that what parks in between goes on behind it.

use super::error::Fault;
use super::table::lower;
use super::typed::{KeyParts, View, live, record};
use super::{Call, Run, Stop};
use crate::context::{OPS_A_BATCH, State};
use crate::notify::Event;
use protocol::resp::{Args, reply};
use record::Edit;
use segment::{Change, Delete, Expire, Item, OpError, PutMode, Value};

/// What is done about a target that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Replaced,
    Kept,
}

/// What became of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copied {
    Done,
    NoSource,
    TargetKept,
}

pub(super) fn rename<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (from, to) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    call.rename(from, to, Target::Replaced)?;
    call.out.push(reply::OK);
    Ok(())
}

pub(super) fn renamenx<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (from, to) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let renamed = call.rename(from, to, Target::Kept)?;
    call.int(renamed.into());
    Ok(())
}

/// `COPY source target [DB number] [REPLACE]`
pub(super) fn copy<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (from, to) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let mut target = Target::Kept;
    while let Some(word) = args.next() {
        match &lower(word)[..] {
            b"replace" => target = Target::Replaced,
            b"db" => {
                if call.database(args.next().ok_or(Fault::Syntax)?)? != call.session.namespace {
                    return Err(Fault::AcrossDatabases.into());
                }
            }
            _ => return Err(Fault::Syntax.into()),
        }
    }
    if from == to {
        return Err(Fault::SameKey.into());
    }
    let copied = call.copy_item(from, to, target)?;
    if copied == Copied::Done {
        call.changed(Event::COPY_TO, to);
    }
    call.int((copied == Copied::Done).into());
    Ok(())
}

pub(super) fn mset<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if !args.len().is_multiple_of(2) {
        return Err(Fault::Arity("mset").into());
    }
    call.store_pairs(args)?;
    call.out.push(reply::OK);
    Ok(())
}

pub(super) fn msetnx<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if !args.len().is_multiple_of(2) {
        return Err(Fault::Arity("msetnx").into());
    }
    let is_begun = call.session.done > 0;
    if !is_begun && args.step_by(2).any(|key| live(call.turn.peek(&call.key(key)), call.ctx.view()).is_some()) {
        call.int(0);
        return Ok(());
    }
    call.store_pairs(args)?;
    call.int(1);
    Ok(())
}

/// A record of many parts is put together anew, since its parts are its key's.
fn copy_in_parts(
    [from, to]: [KeyParts<'_>; 2],
    item: &Item<'_>,
    view: View<'_>,
    bytes: &mut Vec<u8>,
    parts: &mut segment::Parts,
) -> Change<Copied> {
    let mut made = record::Parts::default();
    let mut copy = || {
        let Some(record) = record(Some(item), view, &from)? else { return Ok(None) };
        Ok::<_, Fault>(Edit::copy_of(&record, view.now_ms, bytes)?.finish_with(&to, &mut made)?)
    };
    // One that has lost a part counts as missing.
    let kind = copy().ok().flatten();
    (parts.bytes, parts.new, parts.gone) = (made.bytes, made.new, made.gone);
    match kind {
        Some(kind) => Change::StoreTyped { kind: kind as u8, expire: item.expire, answer: Copied::Done },
        None => Change::Keep(Copied::NoSource),
    }
}

impl<'c> Call<'c, '_> {
    /// Stores all values or, if one is too long or there is no room, none.
    fn store_pairs(&mut self, args: Args<'c>) -> Run {
        if self.session.done == 0 {
            let (mut keys, mut bytes) = (args, 0);
            while let (Some(key), Some(value)) = (keys.next(), keys.next()) {
                self.turn.check_fits(&self.key(key), value.len() as u64)?;
                bytes += value.len() as u64;
            }
            if self.ctx.is_full(bytes) {
                return Err(OpError::OutOfMemory.into());
            }
        }
        let mut pairs = args.skip(self.session.done as usize);
        while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
            if self.ops >= OPS_A_BATCH {
                return Err(State::Yield.into());
            }
            self.store_plain(key, value, PutMode::Set, Expire::Never)?;
            self.session.done += 2;
            self.ops += 1;
        }
        Ok(())
    }

    /// Whether the item was renamed; false if a target is there that is kept.
    fn rename(&mut self, from: &[u8], to: &[u8], target: Target) -> Result<bool, Stop> {
        if self.session.done == 0 {
            if from == to {
                let there = live(self.turn.peek(&self.key(from)), self.ctx.view()).is_some();
                return if there { Ok(target == Target::Replaced) } else { Err(Fault::NoKey.into()) };
            }
            match self.copy_item(from, to, target)? {
                Copied::Done => self.session.done = 1,
                Copied::NoSource => return Err(Fault::NoKey.into()),
                Copied::TargetKept => return Ok(false),
            }
        }
        let key = self.key(from);
        self.turn.delete(&key, &Delete::default())?;
        self.changed(Event::RENAME_FROM, from);
        self.changed(Event::RENAME_TO, to);
        Ok(true)
    }

    /// Stores what `from` has under `to`: value, flags and end.
    fn copy_item(&mut self, from: &[u8], to: &[u8], target: Target) -> Result<Copied, Stop> {
        let shared = std::sync::Arc::clone(&self.ctx.shared);
        let stripe = match shared.indexes.any() {
            true => Some(shared.indexes.stripe(self.key(to).hash()).ok_or(State::Parked)?),
            false => None,
        };
        let copied = self.copy_alone(from, to, target)?;
        if stripe.is_some() && copied == Copied::Done {
            // A copy that has lost a part already is gone.
            let _ = self.enter_in(to, &mut |set| shared.indexes.of(set));
        }
        Ok(copied)
    }

    fn copy_alone(&mut self, from: &[u8], to: &[u8], target: Target) -> Result<Copied, Stop> {
        let (from, to, view) = (self.key(from), self.key(to), self.ctx.view());
        let copied = self.turn.change_parts(&to, &mut |turn, there, bytes, parts| {
            let Some(item) = live(turn.peek(&from), view) else { return Change::Keep(Copied::NoSource) };
            if target == Target::Kept && live(there.copied(), view).is_some() {
                return Change::Keep(Copied::TargetKept);
            }
            if let Value::Typed { kind, .. } = item.value
                && kind & segment::KIND_IN_PARTS != 0
            {
                return copy_in_parts([KeyParts::new(turn, from), KeyParts::new(turn, to)], &item, view, bytes, parts);
            }
            if !turn.copy_range(&from, item.value, 0..item.value_len(), &mut |part| bytes.extend_from_slice(part)) {
                // It has lost a piece, and counts as missing.
                return Change::Keep(Copied::NoSource);
            }
            let (expire, answer) = (item.expire, Copied::Done);
            match item.value {
                Value::Typed { kind, .. } => Change::StoreTyped { kind, expire, answer },
                _ => Change::Store { client_flags: item.client_flags, expire, answer },
            }
        })?;
        if copied == Copied::Done {
            self.note_store();
        }
        Ok(copied)
    }
}
