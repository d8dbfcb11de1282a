//! The command `MGET`. It looks up its keys together, in groups, as consecutive `GET` requests are ([`super::run`]).

use super::error::ErrorReply;
use crate::lookup::run::PROBES_MAX;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::run;
use crate::resp::slices;
use crate::resp::value_reply;
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use arrayvec::ArrayVec;
use protocol::resp::{Args, reply};
use segment::{Key, Prefetched};

/// Executes `MGET`. If an earlier visit has answered some of the keys, continues with the next key.
pub(super) fn mget<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if !call.session.is_answered_in_part() {
        reply::array(call.out, args.len() as u64);
    }
    let mut args = slices::words_left(call, args);
    let (mut reads, mut hits) = (0, 0);
    let ran = loop {
        let mut keys = ArrayVec::<(Key<'c>, usize), PROBES_MAX>::new();
        while keys.len() < PROBES_MAX {
            let before = args.wire_bytes();
            let Some(bytes) = args.next() else { break };
            let key = call.key(bytes);
            call.guard.items().prefetch(&key);
            keys.push((key, before - args.wire_bytes()));
        }
        if keys.is_empty() {
            break Ok(());
        }
        let aheads: ArrayVec<Prefetched<'_>, PROBES_MAX> =
            keys.iter().map(|(key, _)| call.guard.items().prefetch_item(key.key_hash())).collect();
        let done = keys.iter().zip(aheads).try_for_each(|((key, wire_bytes), ahead)| {
            hits += u64::from(one_of_many(call, key, ahead)?);
            slices::words_done(call, 1, *wire_bytes);
            reads += 1;
            Ok(())
        });
        if done.is_err() {
            break done;
        }
    };
    call.count_reads(reads, hits);
    ran
}

/// Replies with the value of one key, or null if the key holds no string. Returns true if the key holds a string.
#[inline(always)]
fn one_of_many(call: &mut Call<'_, '_>, key: &Key<'_>, ahead: Prefetched<'_>) -> Result<bool, Interrupt> {
    if call.ops >= OPS_A_BATCH {
        return Err(SessionWait::Yield.into());
    }
    let short = if value_reply::is_copying(call) { None } else { run::answer_short(call, key, ahead)? };
    let hit = match short {
        Some(hit) => hit,
        None => {
            call.room(0)?;
            match value_reply::value_of(call, key.bytes()) {
                Err(Interrupt::Fault(ErrorReply::WrongType)) => {
                    call.null();
                    false
                }
                read => read?,
            }
        }
    };
    call.ops += 1;
    Ok(hit)
}
