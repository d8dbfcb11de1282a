//! Key events about keys that do not exist: `new` if a command creates the key, `keymiss` if it reads the key. While
//! such events are published, each request first records which of its keys do not exist.
//!
//! ```text
//!   GETSET k v ──> k does not exist ──> read: a miss ──> stored: `keymiss`, `new`, then `set`
//!   MGET a b   ──> b does not exist ──> read: a miss ──> at the end: `keymiss`
//! ```

use super::call::{Call, Interrupt, Run};
use super::catalog::{CommandSpec, Flag};
use super::error::ErrorReply;
use super::key_specs::only_gets_fields;
use super::state::absent::AbsentKeys;
use super::typed;
use crate::push::notify::KeyEvent;
use protocol::resp::Args;

/// Executes a request with `run`, and publishes which of its keys it has missed. [`Call::changed`] publishes which of
/// its keys it has created.
#[cold]
#[inline(never)]
pub(super) fn run<'c, 'l>(
    call: &mut Call<'c, 'l>,
    entry: &CommandSpec,
    args: Args<'c>,
    run: impl FnOnce(&mut Call<'c, 'l>) -> Run,
) -> Run {
    // A script looks up no keys itself: each command that it calls is recorded for itself.
    if call.session.absent.is_none() && !entry.has(Flag::PubSub) && !entry.runs_script() {
        let mut absent = Box::<AbsentKeys>::default();
        for (number, key) in entry.keys_of(args).enumerate().filter(|(_, key)| is_absent(call, key)) {
            absent.add(key, reads(entry, args, number));
        }
        call.session.absent = Some(absent);
    }
    let ran = run(call);
    end(call, &ran);
    ran
}

/// Executes with `run` a part of a request, which accesses one key, as [`run`] executes a whole one. `is_read` is true
/// if it reads the key.
#[inline]
pub(super) fn run_part<'c, 'l>(
    call: &mut Call<'c, 'l>,
    key: &[u8],
    is_read: bool,
    run: impl FnOnce(&mut Call<'c, 'l>) -> Run,
) -> Run {
    if !call.ctx.push.watch.watched.has_absence_events() {
        return run(call);
    }
    if call.session.absent.is_none() {
        let mut absent = Box::<AbsentKeys>::default();
        if is_absent(call, key) {
            absent.add(key, is_read);
        }
        call.session.absent = Some(absent);
    }
    let ran = run(call);
    end(call, &ran);
    ran
}

/// Publishes the misses of a request that is complete. The keys of a request that continues remain recorded.
fn end(call: &mut Call<'_, '_>, ran: &Run) {
    let is_answered_in_part = call.session.is_answered_in_part();
    let continues = match ran {
        Ok(()) | Err(Interrupt::Quit | Interrupt::Fault(_) | Interrupt::Queued) => false,
        Err(Interrupt::State(_)) => true,
        // A transaction executes the request again from its beginning, unless a part of it is done.
        Err(Interrupt::UnderWay) => is_answered_in_part,
    };
    if continues {
        return;
    }
    let absent = call.session.absent.take();
    let is_looked_up = matches!(ran, Ok(()) | Err(Interrupt::Fault(ErrorReply::NoKey)));
    if let Some(mut absent) = absent.filter(|_| is_looked_up) {
        absent.take_misses().for_each(|key| call.changed(KeyEvent::KEYMISS, key));
    }
}

/// Returns true if a key does not exist. A key that may be on flash counts as existing.
fn is_absent(call: &Call<'_, '_>, key: &[u8]) -> bool {
    let key = call.key(key);
    let is_in_memory = typed::live(call.guard.items().peek(&key), call.ctx.view()).is_some();
    !is_in_memory && !call.guard.walks().hash_may_be_on_flash(key.hash())
}

/// Returns true if a request reads the key with this number among its keys, so that Redis reports a miss. Redis reports
/// none for a key that a command looks up in order to change it, or only inspects.
fn reads(entry: &CommandSpec, mut args: Args<'_>, number: usize) -> bool {
    match entry.name {
        "object" | "memory" => false,
        "getset" | "getdel" | "getex" | "hgetdel" | "hgetex" | "lease.get" | "pfmerge" => true,
        "copy" => number == 0,
        "bitop" | "sdiffstore" | "sinterstore" | "sunionstore" => number > 0,
        "zdiffstore" | "zinterstore" | "zunionstore" | "zrangestore" | "geosearchstore" => number > 0,
        "sort" | "georadius" | "georadiusbymember" => number == 0,
        "bitfield" => only_gets_fields(args),
        "set" => args.by_ref().skip(2).any(|word| word.eq_ignore_ascii_case(b"get")),
        _ => entry.has(Flag::ReadOnly),
    }
}
