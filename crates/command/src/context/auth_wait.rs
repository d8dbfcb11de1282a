//! The wait of a connection whose authentication attempt is delayed ([`crate::clients::auth_delay`]), or whose password
//! another thread checks ([`crate::clients::argon2id`]).
//!
//! ```text
//!   attempt ──> after failures: until a deadline ──> password unknown: until its check is done ──> result
//!                                                         └─ queue full: until a deadline ─┘
//! ```
//! The connection rests until the worker's deadline is due, or the other thread wakes it. Its request remains in the
//! input, and is executed again then.

use crate::clients::argon2id::Argon2idHash;
use crate::clients::audit::AuditEvent;
use crate::clients::endpoint::Protocol;
use crate::clients::source::ClientSource;
use crate::context::{WorkerContext, audit};
use base::clock::UnixMillis;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

/// The time after which an attempt that found the queue of checks full tries again, in ms.
const QUEUE_RETRY_MS: u64 = 20;

/// The wait of a connection's current authentication attempt.
#[derive(Debug, Default)]
pub(crate) struct AuthWait {
    /// The latest deadline of the attempt.
    until: Option<UnixMillis>,
    /// The check of the password, once it is queued. True when it is done.
    check: Option<Arc<AtomicBool>>,
    /// True if the attempt was delayed because of earlier failures, and so is already counted as failed.
    was_delayed: bool,
}

impl AuthWait {
    /// Returns true if an attempt of the connection waits.
    pub(crate) fn is_waiting(&self) -> bool {
        self.until.is_some() || self.check.is_some()
    }

    /// Returns true if the attempt was delayed because of earlier failures.
    pub(crate) fn was_delayed(&self) -> bool {
        self.was_delayed
    }

    /// Returns true if the attempt that is at the start of the connection's input must not be executed yet. The
    /// connection must then rest, with the request unconsumed, until the worker's deadline for it is due.
    pub(crate) fn must_wait(&mut self, ctx: &mut WorkerContext) -> bool {
        let (now, connection) = (ctx.now, ctx.push.watch.connection);
        if !self.is_waiting()
            && let Some(delay_ms) = ctx.shared.auth_delay.begin(source(ctx), now)
        {
            self.was_delayed = true;
            self.until = Some(UnixMillis(now.0 + delay_ms));
        }
        let waits = self.until.filter(|until| now < *until);
        if let Some(until) = waits {
            ctx.deadlines.add(until, connection);
        }
        waits.is_some()
    }

    /// Returns true if the connection must rest, with the request unconsumed, until another thread has checked the
    /// password against `hashes`. Returns false if the check is done. The hashes then know the right password.
    pub(crate) fn must_check(
        &mut self,
        ctx: &mut WorkerContext,
        password: &[u8],
        hashes: Vec<Arc<Argon2idHash>>,
    ) -> bool {
        if let Some(is_done) = &self.check {
            return !is_done.load(Acquire);
        }
        let is_done = Arc::new(AtomicBool::new(false));
        let (shared, worker, connection) = (Arc::clone(&ctx.shared), ctx.worker, ctx.push.watch.connection);
        let (password, done) = (password.to_vec(), Arc::clone(&is_done));
        let job = move || {
            hashes.iter().for_each(|hash| _ = hash.verify(&password));
            done.store(true, Release);
            shared.mark_messages(worker, connection);
        };
        if ctx.shared.host.hash_aside(Box::new(job), Some(source(ctx).number())) {
            self.check = Some(is_done);
        } else {
            let until = UnixMillis(ctx.now.0 + QUEUE_RETRY_MS);
            self.until = Some(until);
            ctx.deadlines.add(until, connection);
        }
        true
    }

    /// Records the result of the attempt.
    pub(crate) fn end(self, ctx: &WorkerContext, (user, protocol): (&[u8], Protocol), is_admitted: bool) {
        let source = source(ctx);
        let event = if is_admitted { AuditEvent::Login } else { AuditEvent::LoginFailed };
        audit(ctx, event, (user, protocol), String::new);
        if is_admitted {
            ctx.shared.auth_delay.succeed(source);
        } else {
            ctx.shared.auth_delay.fail(source, (user, protocol.name()), self.was_delayed, ctx.now);
        }
    }

    /// Ends the wait of a connection that ends, or of an attempt that cannot wait.
    pub(crate) fn abandon(self, ctx: &mut WorkerContext) {
        if let Some(until) = self.until {
            ctx.deadlines.remove(until, ctx.push.watch.connection);
        }
    }
}

/// Returns the source of the current connection.
fn source(ctx: &WorkerContext) -> ClientSource {
    ClientSource::of(ctx.connection_table().peer(ctx.push.watch.connection))
}
