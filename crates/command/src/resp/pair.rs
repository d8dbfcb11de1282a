//! Commands that change several keys atomically: `RENAME`, `RENAMENX`, `COPY`, `MOVE`, `MSET`, `MSETEX`,
//! `MSETNX`.
//!
//! Before such a command runs, the module `atomic` locks its keys, so that no other client changes them meanwhile. A
//! command with more than `KEYS_AS_ONE_MAX` keys runs without locks. Completed steps are recorded in
//! [`super::SessionState::done`], so that a parked command continues after them.

use super::atomic;
use super::catalog::{self, lower};
use super::error::ErrorReply;
use super::number::integer;
use super::string::SetOptions;
use super::typed::live;
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::words;
use crate::resp::connection;
use crate::resp::records::index;
use crate::resp::slices;
use crate::resp::string;
use crate::resp::typed;
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use protocol::resp::{Args, reply};
use record::Kind;
use segment::{
    Attempts, CopyStep, Delete, Expire, Item, Key, Loaded, Namespace, PartsCopy, Replaced, Replacement, Value,
};

/// The effect of a command on an existing target key: the target is replaced, or kept unchanged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Replaced,
    Kept,
}

/// The value of [`super::SessionState::done`] when a rename has stored a copy under the new key.
const COPIED: u32 = 1;
/// The value of [`super::SessionState::done`] when both keys of a rename share the parts of the value.
const MOVED: u32 = 2;

/// A key of a command, in its namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
struct KeyIn<'k> {
    namespace: Namespace,
    bytes: &'k [u8],
}

impl<'k> KeyIn<'k> {
    /// Returns a key in the session's namespace.
    fn session(call: &Call<'_, '_>, bytes: &'k [u8]) -> Self {
        Self { namespace: call.session.namespace, bytes }
    }

    fn key(self, call: &Call<'_, '_>) -> Key<'k> {
        call.guard.key(self.namespace, self.bytes)
    }

    fn changed(self, call: &mut Call<'_, '_>, event: KeyEvent) {
        call.changed_in(self.namespace, event, self.bytes);
    }
}

/// The result of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copied {
    Done,
    /// The head of the value was copied, and both keys now share the value's parts.
    Moved,
    NoSource,
    TargetKept,
    /// The namespace of the target was flushed during the copy, and the copy has to start over.
    TargetFlushed,
}

pub(super) fn rename<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (from, to) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let (from, to) = (KeyIn::session(call, from), KeyIn::session(call, to));
    rename_key(call, from, to, Target::Replaced)?;
    call.out.push(reply::OK);
    Ok(())
}

pub(super) fn renamenx<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (from, to) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let (from, to) = (KeyIn::session(call, from), KeyIn::session(call, to));
    let renamed = rename_key(call, from, to, Target::Kept)?;
    call.int(renamed.into());
    Ok(())
}

/// Executes `COPY source target [DB number] [REPLACE]`.
pub(super) fn copy<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (from, to) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let (from, mut to) = (KeyIn::session(call, from), KeyIn::session(call, to));
    let mut target = Target::Kept;
    while let Some(word) = args.next() {
        match &lower(word)[..] {
            b"replace" => target = Target::Replaced,
            b"db" => to.namespace = connection::database(call, args.next().ok_or(ErrorReply::Syntax)?)?,
            _ => return Err(ErrorReply::Syntax.into()),
        }
    }
    if from == to {
        return Err(ErrorReply::SameKey.into());
    }
    call.ctx.check_room(to.namespace, 0)?;
    let copied = copy_item(call, from, to, target)?;
    if copied == Copied::Done {
        // As in Redis, a target that is replaced also counts as new.
        to.changed(call, KeyEvent::NEW);
        to.changed(call, KeyEvent::COPY_TO);
    }
    call.int((copied == Copied::Done).into());
    Ok(())
}

/// Returns true if the command runs with its keys not locked, because it has only one key. A command that looks at the
/// key and then changes it must lock the key first.
fn is_unlocked(call: &Call<'_, '_>) -> bool {
    !call.collects_replies && !call.guard.locks().is_attached()
}

/// Executes `MOVE key database`. The value is copied, and then deleted under its old key.
pub(super) fn move_key<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, database] = words(args);
    let from = KeyIn::session(call, key);
    let to = KeyIn { namespace: connection::database(call, database)?, ..from };
    if from == to {
        return Err(ErrorReply::SameKey.into());
    }
    if is_unlocked(call) {
        return atomic::run_as_one(call, catalog::entry("move"), args);
    }
    if call.session.done == 0 {
        if copy_item(call, from, to, Target::Kept)? != Copied::Done {
            call.int(0);
            return Ok(());
        }
        call.session.done = COPIED;
    }
    let old = from.key(call);
    call.guard.items_mut().delete(&old, &Delete::default())?;
    to.changed(call, KeyEvent::NEW);
    from.changed(call, KeyEvent::MOVE_FROM);
    to.changed(call, KeyEvent::MOVE_TO);
    call.int(1);
    Ok(())
}

pub(super) fn mset<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if !args.len().is_multiple_of(2) {
        return Err(ErrorReply::Arity("mset").into());
    }
    store_pairs(call, args, (&SetOptions::default(), Expire::Never))?;
    call.out.push(reply::OK);
    Ok(())
}

/// Executes `MSETEX numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | EXAT time | PXAT time |
/// KEEPTTL]`.
pub(super) fn msetex<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let (count, words) = args.split(1);
    let count = integer(count.into_iter().next().unwrap_or_default()).ok().and_then(|count| i32::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(ErrorReply::KeyCountRange)? as u32;
    if words.len() as u64 / 2 < count.into() {
        return Err(ErrorReply::Syntax.into());
    }
    let (pairs, options) = words.split(2 * count);
    let (options, must_exist) = SetOptions::of_several(options)?;
    let expire = options.expire(call.moment(), "msetex")?;
    if must_exist.is_some() && is_unlocked(call) {
        return atomic::run_as_one(call, catalog::entry("msetex"), args);
    }
    if let Some(must_exist) = must_exist
        && call.session.done == 0
    {
        for key in pairs.step_by(2) {
            if typed::is_there(call, &call.key(key))? != must_exist {
                call.int(0);
                return Ok(());
            }
        }
    }
    store_pairs(call, pairs, (&options, expire))?;
    call.int(1);
    Ok(())
}

pub(super) fn msetnx<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if !args.len().is_multiple_of(2) {
        return Err(ErrorReply::Arity("msetnx").into());
    }
    if is_unlocked(call) {
        return atomic::run_as_one(call, catalog::entry("msetnx"), args);
    }
    let is_begun = call.session.done > 0;
    for key in args.step_by(2).filter(|_| !is_begun) {
        if typed::is_there(call, &call.key(key))? {
            call.int(0);
            return Ok(());
        }
    }
    store_pairs(call, args, (&SetOptions::default(), Expire::Never))?;
    call.int(1);
    Ok(())
}

/// Stores all values of the request. Stores none of them if a value is too long, or if there is not enough memory for
/// all of them.
fn store_pairs<'c>(call: &mut Call<'c, '_>, args: Args<'c>, options: (&SetOptions<'_>, Expire)) -> Run {
    if call.session.done == 0 {
        let (mut keys, mut bytes) = (args, 0);
        while let (Some(key), Some(value)) = (keys.next(), keys.next()) {
            call.guard.sizes().check_fits(&call.key(key), value.len() as u64)?;
            bytes += value.len() as u64;
        }
        call.ctx.check_room(call.session.namespace, bytes)?;
    }
    let mut pairs = slices::words_left(call, args);
    loop {
        let before = pairs.wire_bytes();
        let (Some(key), Some(value)) = (pairs.next(), pairs.next()) else { return Ok(()) };
        if call.ops >= OPS_A_BATCH {
            return Err(SessionWait::Yield.into());
        }
        string::store_with(call, key, value, options)?;
        slices::words_done(call, 2, before - pairs.wire_bytes());
        call.ops += 1 + value.len() / (4 << 10);
    }
}

/// Renames a key. Returns false if the target exists and must not be replaced.
fn rename_key(call: &mut Call<'_, '_>, from: KeyIn<'_>, to: KeyIn<'_>, target: Target) -> Result<bool, Interrupt> {
    if call.session.done == 0 {
        if from == to {
            return if typed::is_there(call, &from.key(call))? {
                Ok(target == Target::Replaced)
            } else {
                Err(ErrorReply::NoKey.into())
            };
        }
        match store_under(call, to, &mut |call| move_or_copy(call, from, to, target))? {
            Copied::Done => call.session.done = COPIED,
            Copied::Moved => call.session.done = MOVED,
            Copied::NoSource => return Err(ErrorReply::NoKey.into()),
            Copied::TargetKept | Copied::TargetFlushed => return Ok(false),
        }
    }
    let (key, new) = (from.key(call), to.key(call));
    match call.session.done {
        MOVED => drop(call.guard.renames().unshare(&key, &new)?),
        _ => drop(call.guard.items_mut().delete(&key, &Delete::default())?),
    }
    to.changed(call, KeyEvent::NEW);
    from.changed(call, KeyEvent::RENAME_FROM);
    to.changed(call, KeyEvent::RENAME_TO);
    Ok(true)
}

/// Calls `store`, which stores a value under `to`. If the value is a record, adds it to the indexes of its set.
fn store_under<'c, 'l>(
    call: &mut Call<'c, 'l>,
    to: KeyIn<'_>,
    store: &mut dyn FnMut(&mut Call<'c, 'l>) -> Result<Copied, Interrupt>,
) -> Result<Copied, Interrupt> {
    let shared = std::sync::Arc::clone(&call.ctx.shared);
    let stripe = match shared.indexes.any() {
        true => Some(shared.indexes.stripe(to.key(call).hash()).ok_or(SessionWait::Parked)?),
        false => None,
    };
    let stored = store(call)?;
    if matches!(stored, Copied::Done | Copied::Moved) {
        string::note_store(call);
        if stripe.is_some() {
            // Indexing fails if a part of the record is lost. Such a record counts as missing.
            let _ = index::enter_in(call, to.key(call), &mut |set| shared.indexes.of(set));
        }
    }
    Ok(stored)
}

/// Stores the item of `from` under `to`, with its value, flags and expiry. If the value is stored in parts, only its
/// head is copied, and both keys then share the parts.
fn move_or_copy(call: &mut Call<'_, '_>, from: KeyIn<'_>, to: KeyIn<'_>, target: Target) -> Result<Copied, Interrupt> {
    if let Some(ended) = is_refused(call, from, to, target)? {
        return Ok(ended);
    }
    let (of_from, of_to) = (from.key(call), to.key(call));
    if call.guard.renames().share(&of_from, &of_to)? {
        return Ok(Copied::Moved);
    }
    copy_whole(call, from, to, target)
}

/// Returns the reason for which a copy is refused, or `None` if the copy may proceed.
fn is_refused(
    call: &mut Call<'_, '_>,
    from: KeyIn<'_>,
    to: KeyIn<'_>,
    target: Target,
) -> Result<Option<Copied>, Interrupt> {
    let (of_from, of_to) = (from.key(call), to.key(call));
    if !typed::is_there(call, &of_from)? {
        return Ok(Some(Copied::NoSource));
    }
    let is_kept = target == Target::Kept && typed::is_there(call, &of_to)?;
    // If the target shares parts with the source, an earlier visit of the same rename has stored it.
    Ok((is_kept && !call.guard.parts().shares(&of_from, &of_to)).then_some(Copied::TargetKept))
}

/// Copies an item, so that each key has its own value. A value in parts is copied over several visits.
fn copy_item(call: &mut Call<'_, '_>, from: KeyIn<'_>, to: KeyIn<'_>, target: Target) -> Result<Copied, Interrupt> {
    let kind = kind_of(call, from);
    if from.namespace != to.namespace && kind.is_some_and(|kind| matches!(kind, Kind::InSet | Kind::LargeInSet)) {
        return Err(ErrorReply::OtherDatabase.into());
    }
    if call.session.copy.is_none() && !kind.is_some_and(Kind::is_large) {
        return store_under(call, to, &mut |call| copy_whole(call, from, to, target));
    }
    if call.session.copy.is_none() {
        if let Some(ended) = is_refused(call, from, to, target)? {
            return Ok(ended);
        }
        call.session.copy = call.guard.parts().begin_copy(&from.key(call), &to.key(call)).map(Box::new);
    }
    let Some(mut copy) = call.session.copy.take() else { return Ok(Copied::NoSource) };
    let copied = copy_on(call, from, to, &mut copy);
    match &copied {
        Ok(Copied::Done) => {}
        Err(Interrupt::State(_)) => call.session.copy = Some(copy),
        _ => {
            let to = to.key(call);
            call.guard.renames().abort_copy(&to, &copy);
        }
    }
    match copied {
        Ok(Copied::TargetFlushed) => Err(SessionWait::Yield.into()),
        copied => copied,
    }
}

/// Returns the type of a key's value, if it is a value with parts.
fn kind_of(call: &Call<'_, '_>, key: KeyIn<'_>) -> Option<Kind> {
    match call.guard.items().peek(&key.key(call))?.value {
        Value::Typed { kind, .. } => Kind::of(kind),
        _ => None,
    }
}

/// Continues to copy a value in parts.
fn copy_on(call: &mut Call<'_, '_>, from: KeyIn<'_>, to: KeyIn<'_>, copy: &mut PartsCopy) -> Result<Copied, Interrupt> {
    let keys = (from.key(call), to.key(call));
    loop {
        if call.ops >= OPS_A_BATCH {
            return Err(SessionWait::Yield.into());
        }
        call.ops += 1;
        match call.guard.renames().copy_part(&keys.0, &keys.1, copy)? {
            CopyStep::More => {}
            // A part of the value is lost, so the key counts as missing.
            CopyStep::Lost => return Ok(Copied::NoSource),
            CopyStep::All => break,
        }
    }
    store_under(call, to, &mut |call| {
        let keys = (from.key(call), to.key(call));
        let is_whole = call.guard.renames().finish_copy(&keys.0, &keys.1, copy)?;
        Ok(match is_whole {
            true => Copied::Done,
            false if kind_of(call, from).is_some_and(Kind::is_large) => Copied::TargetFlushed,
            false => Copied::NoSource,
        })
    })
}

/// Copies a value that is stored in one item, or in pieces, from one key to another.
fn copy_whole(call: &mut Call<'_, '_>, from: KeyIn<'_>, to: KeyIn<'_>, target: Target) -> Result<Copied, Interrupt> {
    let (from, to, view) = (from.key(call), to.key(call), call.ctx.view());
    let is_large = |item: Item<'_>| matches!(item.value, Value::Large(_));
    if call.guard.items().peek(&from).is_some_and(is_large) {
        if target == Target::Kept && live(call.guard.items().peek(&to), view).is_some() {
            return Ok(Copied::TargetKept);
        }
        return Ok(call.guard.large().copy(&from, &to)?.map_or(Copied::NoSource, |()| Copied::Done));
    }
    let mut bytes = call.ctx.scratch(call.guard);
    let mut attempts = Attempts::default();
    loop {
        let Loaded { item: there, version } = call.guard.items().load(&to, &mut attempts)?;
        let Some(item) = live(call.guard.items().peek(&from), view) else { return Ok(Copied::NoSource) };
        if target == Target::Kept && live(there, view).is_some() {
            return Ok(Copied::TargetKept);
        }
        bytes.clear();
        bytes.reserve_exact(item.value_len() as usize);
        let range = 0..item.value_len();
        if !call.guard.pieces().copy_range(&from, item.value, range, &mut |part| bytes.extend_from_slice(part)) {
            // A piece of the value is lost, so the key counts as missing.
            return Ok(Copied::NoSource);
        }
        let Item { expire, client_flags, .. } = item;
        let new = match item.value {
            Value::Typed { kind, .. } => Replacement::Typed { kind, bytes: &bytes, parts: None, expire },
            _ => Replacement::Bytes { value: &bytes, client_flags, expire },
        };
        if call.guard.items_mut().replace(&to, &version, new)? == Replaced::Done {
            return Ok(Copied::Done);
        }
    }
}
