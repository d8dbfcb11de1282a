//! The wait of a connection whose authentication attempt is delayed ([`crate::clients::auth_delay`]).
//!
//! Such a connection rests until a deadline of its worker. Its request remains in the input, and is executed again
//! then.

use crate::clients::endpoint::Protocol;
use crate::clients::source::ClientSource;
use crate::context::WorkerContext;
use base::clock::UnixMillis;

/// The delay of a connection's current authentication attempt: the instant at which it ends, if the attempt is delayed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AuthWait(Option<UnixMillis>);

impl AuthWait {
    /// Returns true if an attempt of the connection is delayed.
    pub(crate) fn is_waiting(self) -> bool {
        self.0.is_some()
    }

    /// Returns true if the attempt that is at the start of the connection's input must not be executed yet. The
    /// connection must then rest, with the request unconsumed, until the worker's deadline for it is due.
    pub(crate) fn must_wait(&mut self, ctx: &mut WorkerContext) -> bool {
        let (now, connection) = (ctx.now, ctx.push.watch.connection);
        let until = match self.0 {
            Some(until) => until,
            None => {
                let Some(delay_ms) = ctx.shared.auth_delay.begin(source(ctx), now) else { return false };
                let until = UnixMillis(now.0 + delay_ms);
                self.0 = Some(until);
                until
            }
        };
        let waits = now < until;
        if waits {
            ctx.deadlines.add(until, connection);
        }
        waits
    }

    /// Records the result of the attempt.
    pub(crate) fn end(self, ctx: &WorkerContext, (user, protocol): (&[u8], Protocol), is_admitted: bool) {
        let (source, was_delayed) = (source(ctx), self.is_waiting());
        if is_admitted {
            ctx.shared.auth_delay.succeed(source);
        } else {
            ctx.shared.auth_delay.fail(source, (user, protocol), was_delayed, ctx.now);
        }
    }

    /// Ends the delay of a connection that ends.
    pub(crate) fn abandon(self, ctx: &mut WorkerContext) {
        if let Some(until) = self.0 {
            ctx.deadlines.remove(until, ctx.push.watch.connection);
        }
    }
}

/// Returns the source of the current connection.
fn source(ctx: &WorkerContext) -> ClientSource {
    ClientSource::of(ctx.connection_table().peer(ctx.push.watch.connection))
}
