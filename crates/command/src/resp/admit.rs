//! Whether a request may be run, and now: who its client is, what it may do, and what all have to wait for.
//!
//! Invariant: where nobody is restrained, a request costs two looks at what the batch and the session know.

use super::acl::Asked;
use super::error::Fault;
use super::table;
use super::{Call, Run, Stop};
use crate::shared::Pause;
use crate::visit::progress::State;

impl<'c> Call<'c, '_> {
    /// Returns whether a request of so many words may be run.
    #[inline(always)]
    pub(super) fn admit_command(&mut self, entry: &'static table::Entry, words: usize, asked: Asked<'_, 'c>) -> Run {
        if !entry.takes(words) {
            return Err(self.refused(entry, Fault::Arity(entry.name)));
        }
        let session = &*self.session;
        let restrained = self.ctx.restrained || self.ctx.rationed_here;
        if restrained || session.held_off || session.aside.is_some() || self.is_stranger() {
            self.may(entry, asked).map_err(|stop| match stop {
                Stop::Fault(fault) => self.refused(entry, fault),
                other => other,
            })?;
        }
        Ok(())
    }

    /// Refuses or puts off what this client may not call, or not now.
    #[cold]
    fn may(&mut self, entry: &'static table::Entry, asked: Asked<'_, 'c>) -> Run {
        if self.is_stranger() && !entry.has(table::Flag::NoAuth) {
            return Err(Fault::NoAuth.into());
        }
        if self.session.held_off && !matches!(entry.name, "ping" | "hello" | "auth" | "quit") {
            return Err(Fault::Protected.into());
        }
        if self.ctx.shared.config.disabled.iter().any(|name| name == entry.name) {
            return Err(Fault::Disabled(entry.name).into());
        }
        self.may_while_subscribed(entry)?;
        if self.ctx.user_changes != 0 {
            self.permit(entry, asked)?;
        }
        let waits = match self.ctx.pause {
            Pause::None => false,
            Pause::Writes => entry.has(table::Flag::Write) || matches!(entry.name, "publish" | "exec"),
            // Who ends the pause must come through.
            Pause::All => entry.name != "client",
        };
        if waits {
            return Err(State::Parked.into());
        }
        // Who finds out where it is, or leaves, does nothing to the keys.
        if self.ctx.rationed_here && !self.session.is_paid && self.session.done == 0 && entry.group != "connection" {
            if !self.ctx.shared.namespaces.take_op(self.session.namespace, self.ctx.now) {
                return Err(Fault::TooManyOps.into());
            }
            self.session.is_paid = true;
        }
        Ok(())
    }

    /// Why a request is neither executed nor queued.
    #[cold]
    pub(super) fn refused(&mut self, entry: &table::Entry, fault: Fault) -> Stop {
        if entry.name == "exec" && matches!(fault, Fault::Arity(_)) {
            // One that is refused ends the transaction.
            self.discard_all();
            return Fault::ExecRefused.into();
        }
        self.session.spoil();
        fault.into()
    }
}
