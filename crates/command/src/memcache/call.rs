//! The state of one visit to a session, which every command uses while it executes.

use super::session::SessionState;
use crate::context::WorkerContext;
use crate::lookup::ahead::NextSet;
use crate::metrics::Command;
use crate::metrics::command_counters::CommandCounters;
use crate::visit::out::OutBuffer;
use crate::visit::progress::SessionWait;
use protocol::memcache::meta::Meta;
use protocol::memcache::{Error, KeyScratch};
use segment::Guard;

/// The state of one call of [`super::serve`]. A step that cannot continue returns the [`SessionWait`] that ends the
/// call.
pub(super) struct Call<'c, 'l> {
    pub(super) guard: &'c mut Guard<'l>,
    pub(super) buf: &'c [u8],
    /// The number of consumed bytes of `buf`.
    pub(super) at: usize,
    /// The offset of the current request's line in `buf`, in bytes.
    pub(super) line_at: usize,
    pub(super) out: &'c mut OutBuffer,
    pub(super) session: &'c mut SessionState,
    pub(super) ctx: &'c mut WorkerContext,
    /// The number of executed operations, plus the difference between `OPS_A_BATCH` and the configured maximum for a
    /// visit.
    pub(super) ops: usize,
    /// True if each request must be checked before it is executed; see [`super::guarded`].
    pub(super) guarded: bool,
    /// The maximum number of keys that are looked up together.
    pub(super) run_max: usize,
    /// The prefetched next `set`, if there is one in the input.
    pub(super) next_set: Option<NextSet>,
}

/// The result of a step. `Err` holds the reason why the call ends.
pub(super) type Step = Result<(), SessionWait>;

impl<'c> Call<'c, '_> {
    /// Samples the key of a request for the statistics of hot keys. Called before the request is executed.
    #[inline(always)]
    pub(super) fn sample(&mut self, key: &[u8], is_read: bool) {
        if self.ctx.sampler.should_sample(1) {
            self.sample_key(key, is_read);
        }
    }

    /// Samples the key of a meta command for the statistics of hot keys. Called before the command is executed.
    #[inline(always)]
    pub(super) fn sample_meta(&mut self, meta: &Meta<'c>, is_read: bool) {
        if self.ctx.sampler.should_sample(1) {
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

    /// Returns the unconsumed input.
    pub(super) fn rest(&self) -> &'c [u8] {
        &self.buf[self.at..]
    }

    pub(super) fn counters(&self) -> &CommandCounters {
        &self.ctx.shared.workers[self.ctx.worker].commands[usize::from(self.session.namespace.0)]
    }

    /// Returns [`SessionWait::OutputFull`] if the output has no room for `bytes` bytes.
    pub(super) fn room(&self, bytes: usize) -> Step {
        if self.out.room() < bytes { Err(SessionWait::OutputFull { want: bytes }) } else { Ok(()) }
    }

    /// Records that the current operation was executed and that its reply is in the output.
    pub(super) fn done(&mut self, command: Command) {
        self.ops += 1;
        self.ctx.ops_done(self.out, self.session.namespace, (command, 1), &self.buf[self.line_at..]);
    }

    /// Excludes the current line from the slow log. The line is no request, so it may be a password: a part of a value
    /// whose header was refused, or a request of another protocol.
    pub(super) fn hide_line(&mut self) {
        self.line_at = self.buf.len();
    }

    /// Answers and consumes a request that needs only a fixed reply.
    pub(super) fn answer(&mut self, line: &[u8], consumed: usize) -> Step {
        self.out.push(line);
        self.at += consumed;
        self.done(Command::Other);
        Ok(())
    }

    /// Refuses a command, for example because the configuration disables it or a quota is used up. Replies with
    /// `error`, unless `quiet` is set.
    #[cold]
    pub(super) fn refused(&mut self, error: Error, quiet: bool, consumed: usize) -> Step {
        self.answer(if quiet { b"" } else { error.wire() }, consumed)
    }

    /// Returns the request. If the store has no CAS tokens, removes them from the request first.
    #[inline]
    pub(super) fn tokens<'m>(&self, meta: &'m mut Meta<'c>) -> &'m Meta<'c> {
        if !self.ctx.shared.config.cas {
            meta.without_tokens();
        }
        meta
    }
}
