//! Storage commands whose value is longer than what a buffer is for: it goes into the store as it arrives.

use super::store::Plan;
use super::{Call, Step};
use crate::lookup::large::{ARRIVING_BYTES_MIN, Advance, LargeSet};
use crate::visit::progress::State;
use protocol::memcache::{Error, KEY_BYTES_MAX};
use segment::OpError;

/// A storage command whose value is arriving.
pub(super) struct Storing {
    pub(super) large: LargeSet,
    plan: Plan,
}

/// Such keys are kept in the session.
const _: () = assert!(KEY_BYTES_MAX <= 250);

impl Call<'_, '_> {
    /// The line of a large value has arrived.
    pub(super) fn large_begin(&mut self, plan: Plan, key: &[u8], value_len: u32, consumed: usize) -> Step {
        if self.ctx.shared.host.is_draining() {
            // The process that takes over begins it.
            return Err(State::Parked);
        }
        let name = self.guard.key(self.session.namespace, key);
        match self.guard.large().begin(&name, value_len.into(), plan.pieces_end()) {
            Ok(writer) => {
                self.at += consumed;
                let large = LargeSet::pieces(writer, key, self.ctx).expect("a short key is always kept");
                self.session.large = Some(Storing { large, plan });
            }
            Err(error) => {
                self.not_stored(&plan, key, error)?;
                self.at += consumed;
                self.session.swallow = u64::from(value_len) + 2;
                self.done(plan.command);
            }
        }
        Ok(())
    }

    /// The line of a value that is stored whole has arrived, and not all of the value: has the rest received into its
    /// place. False if it is to be received into a buffer.
    pub(super) fn whole_begin(&mut self, plan: &Plan, key: &[u8], value_len: u32, consumed: usize) -> bool {
        // What a condition comes to is not known before all is there.
        if (value_len as usize) < ARRIVING_BYTES_MIN || !plan.replaces() || self.ctx.shared.host.is_draining() {
            return false;
        }
        let Some(mut large) = LargeSet::whole(value_len as usize, key, self.ctx) else { return false };
        let rest = &self.buf[self.at + consumed..];
        match large.begin_arrival(self.guard, self.ctx, rest, &plan.put(b"")) {
            Some(taken) => {
                self.at += consumed + taken;
                self.session.large = Some(Storing { large, plan: *plan });
                true
            }
            None => {
                large.end(self.guard, self.ctx);
                false
            }
        }
    }

    /// Takes the next part of the value that is arriving, or stores it.
    pub(super) fn large_go_on(&mut self) -> Step {
        let Some(mut storing) = self.session.large.take() else { return Ok(()) };
        let rest = self.rest();
        match storing.large.go_on(self.guard, self.ctx, rest, &storing.plan.put(b"")) {
            Advance::Wait { consumed, want } => {
                self.at += consumed;
                self.session.large = Some(storing);
                Err(State::NeedInput { want })
            }
            Advance::Part { consumed } => {
                self.at += consumed;
                self.session.large = Some(storing);
                Ok(())
            }
            Advance::Unended { consumed } => {
                self.at += consumed;
                storing.large.end(self.guard, self.ctx);
                self.refuse(&storing.plan, Error::BadDataChunk);
                Ok(())
            }
            Advance::Failed(error) => self.large_failed(storing, error),
            Advance::Complete { held } => self.large_store(storing, held),
        }
    }

    /// All of the value is there, `held` bytes of it in the input.
    fn large_store(&mut self, mut storing: Storing, held: usize) -> Step {
        let Storing { large, plan } = &mut storing;
        let (rest, bytes) = (self.rest(), large.bytes());
        let before = self.seen(&self.guard.key(self.session.namespace, large.key()));
        match large.store(self.guard, self.ctx, rest, &plan.put(b"")) {
            Ok(outcome) => {
                self.stored(plan, large.key(), before, outcome, bytes);
                self.at += held;
                self.done(plan.command);
                storing.large.end(self.guard, self.ctx);
                Ok(())
            }
            Err(error) => self.large_failed(storing, error),
        }
    }

    /// The store does not take the value: says so, and swallows what is left of it; or it does not take it yet.
    fn large_failed(&mut self, storing: Storing, error: OpError) -> Step {
        if let Err(state) = self.not_stored(&storing.plan, storing.large.key(), error) {
            self.session.large = Some(storing);
            return Err(state);
        }
        self.session.swallow = storing.large.unread();
        storing.large.end(self.guard, self.ctx);
        self.done(storing.plan.command);
        Ok(())
    }
}
