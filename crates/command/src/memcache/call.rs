//! One visit to a session: what every command needs while it runs.

use super::session::SessionState;
use crate::context::WorkerContext;
use crate::lookup::ahead::NextSet;
use crate::metrics::Command;
use crate::metrics::command_counters::CommandCounters;
use crate::visit::out::OutBuffer;
use crate::visit::progress::State;
use protocol::memcache::meta::Meta;
use protocol::memcache::{Error, KeyScratch};
use segment::Guard;

/// One call of [`super::serve`]. Its steps end with the state that keeps the next one from being made.
pub(super) struct Call<'c, 'l> {
    pub(super) guard: &'c mut Guard<'l>,
    pub(super) buf: &'c [u8],
    /// Bytes of `buf` consumed.
    pub(super) at: usize,
    /// Offset of the line of the current request, in bytes.
    pub(super) line_at: usize,
    pub(super) out: &'c mut OutBuffer,
    pub(super) session: &'c mut SessionState,
    pub(super) ctx: &'c mut WorkerContext,
    /// Operations done, and those that the session may not have in this visit.
    pub(super) ops: usize,
    /// Each request is looked at before it is done: [`super::guarded`].
    pub(super) guarded: bool,
    /// Most keys that are looked up together.
    pub(super) run_max: usize,
    /// The `set` that comes next, if there is one.
    pub(super) next_set: Option<NextSet>,
}

/// `Err` says why the call ends here.
pub(super) type Step = Result<(), State>;

impl<'c> Call<'c, '_> {
    /// Looks at the key of a request if it is sampled, before anything is done to it.
    #[inline(always)]
    pub(super) fn sample(&mut self, key: &[u8], is_read: bool) {
        if self.ctx.sampler.takes(1) {
            self.sample_key(key, is_read);
        }
    }

    /// Looks at the key of a meta command if it is sampled, before anything is done to it.
    #[inline(always)]
    pub(super) fn sample_meta(&mut self, meta: &Meta<'c>, is_read: bool) {
        if self.ctx.sampler.takes(1) {
            let mut scratch = KeyScratch::default();
            self.sample_key(meta.key.bytes(&mut scratch), is_read);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn sample_key(&mut self, key: &[u8], is_read: bool) {
        if self.ctx.sampler.next(0, 1).is_some() {
            self.ctx.sample(self.guard, &self.guard.key(self.session.namespace, key), is_read);
        }
    }

    /// Returns the input that has not been consumed.
    pub(super) fn rest(&self) -> &'c [u8] {
        &self.buf[self.at..]
    }

    pub(super) fn counters(&self) -> &CommandCounters {
        &self.ctx.shared.workers[self.ctx.worker].commands[usize::from(self.session.namespace.0)]
    }

    /// Goes on only if `bytes` fit into the output.
    pub(super) fn room(&self, bytes: usize) -> Step {
        if self.out.room() < bytes { Err(State::OutputFull { want: bytes }) } else { Ok(()) }
    }

    /// The operation at hand is done and answered.
    pub(super) fn done(&mut self, command: Command) {
        self.ops += 1;
        self.ctx.ops_done(self.out, self.session.namespace, (command, 1), &self.buf[self.line_at..]);
    }

    /// A request that needs nothing but its answer.
    pub(super) fn answer(&mut self, line: &[u8], consumed: usize) -> Step {
        self.out.push(line);
        self.at += consumed;
        self.done(Command::Other);
        Ok(())
    }

    /// Refuses a command that the configuration disables.
    #[cold]
    pub(super) fn refused(&mut self, error: Error, quiet: bool, consumed: usize) -> Step {
        self.answer(if quiet { b"" } else { error.wire() }, consumed)
    }

    /// The request as a store without CAS tokens has to see it, if this is one.
    #[inline]
    pub(super) fn tokens<'m>(&self, meta: &'m mut Meta<'c>) -> &'m Meta<'c> {
        if !self.ctx.shared.config.cas {
            meta.without_tokens();
        }
        meta
    }
}
