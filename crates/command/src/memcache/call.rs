//! One visit to a session: the state that every command needs while it runs.

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

/// One call of [`super::serve`]. A step that cannot continue returns the state that ends the call.
pub(super) struct Call<'c, 'l> {
    pub(super) guard: &'c mut Guard<'l>,
    pub(super) buf: &'c [u8],
    /// The number of bytes of `buf` that are consumed.
    pub(super) at: usize,
    /// Offset of the line of the current request, in bytes.
    pub(super) line_at: usize,
    pub(super) out: &'c mut OutBuffer,
    pub(super) session: &'c mut SessionState,
    pub(super) ctx: &'c mut WorkerContext,
    /// The number of executed operations, plus those that the session may not execute in this visit.
    pub(super) ops: usize,
    /// True if each request is checked before it is executed: see [`super::guarded`].
    pub(super) guarded: bool,
    /// The maximum number of keys that are looked up together.
    pub(super) run_max: usize,
    /// The next `set`, if one was found in the input.
    pub(super) next_set: Option<NextSet>,
}

/// The result of a step. `Err` is the reason why the call ends.
pub(super) type Step = Result<(), SessionWait>;

impl<'c> Call<'c, '_> {
    /// Samples the key of a request for the hot keys, before the request is executed.
    #[inline(always)]
    pub(super) fn sample(&mut self, key: &[u8], is_read: bool) {
        if self.ctx.sampler.should_sample(1) {
            self.sample_key(key, is_read);
        }
    }

    /// Samples the key of a meta command for the hot keys, before the command is executed.
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

    /// Returns the input that has not been consumed.
    pub(super) fn rest(&self) -> &'c [u8] {
        &self.buf[self.at..]
    }

    pub(super) fn counters(&self) -> &CommandCounters {
        &self.ctx.shared.workers[self.ctx.worker].commands[usize::from(self.session.namespace.0)]
    }

    /// Returns an error unless `bytes` fit into the output.
    pub(super) fn room(&self, bytes: usize) -> Step {
        if self.out.room() < bytes { Err(SessionWait::OutputFull { want: bytes }) } else { Ok(()) }
    }

    /// Records that the current operation is executed and its reply is in the output.
    pub(super) fn done(&mut self, command: Command) {
        self.ops += 1;
        self.ctx.ops_done(self.out, self.session.namespace, (command, 1), &self.buf[self.line_at..]);
    }

    /// Answers a request that needs nothing but a reply.
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

    /// Returns the request without CAS tokens if the store has none, or unchanged.
    #[inline]
    pub(super) fn tokens<'m>(&self, meta: &'m mut Meta<'c>) -> &'m Meta<'c> {
        if !self.ctx.shared.config.cas {
            meta.without_tokens();
        }
        meta
    }
}
