//! `MGET`: its keys are looked up together, as those of `GET`s that follow one another ([`super::run`]).

use super::error::Fault;
use super::{Args, Call, Run, Stop, reply};
use crate::lookup::run::PROBES_MAX;
use crate::visit::progress::{OPS_A_BATCH, State};
use arrayvec::ArrayVec;
use segment::{Ahead, Key};

/// Goes on behind the keys that were answered in an earlier call.
pub(super) fn mget<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if !call.session.is_answered_in_part() {
        reply::array(call.out, args.len() as u64);
    }
    let mut args = call.words_left(args);
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
        let aheads: ArrayVec<Ahead<'_>, PROBES_MAX> =
            keys.iter().map(|(key, _)| call.guard.items().prefetch_item(key.key_hash())).collect();
        let done = keys.iter().zip(aheads).try_for_each(|((key, wire_bytes), ahead)| {
            hits += u64::from(call.one_of_many(key, ahead)?);
            call.words_done(1, *wire_bytes);
            reads += 1;
            Ok(())
        });
        if done.is_err() {
            break done;
        }
    };
    call.note_reads(reads, hits);
    ran
}

impl Call<'_, '_> {
    /// Answers one key: null as well where there is something else than a string. Says whether there was a string.
    #[inline(always)]
    fn one_of_many(&mut self, key: &Key<'_>, ahead: Ahead<'_>) -> Result<bool, Stop> {
        if self.ops >= OPS_A_BATCH {
            return Err(State::Yield.into());
        }
        let short = if self.is_copying() { None } else { self.answer_short(key, ahead)? };
        let hit = match short {
            Some(hit) => hit,
            None => {
                self.room(0)?;
                match self.value_of(key.bytes()) {
                    Err(Stop::Fault(Fault::WrongType)) => {
                        self.null();
                        false
                    }
                    read => read?,
                }
            }
        };
        self.ops += 1;
        Ok(hit)
    }
}
