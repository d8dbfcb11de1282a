//! Messages that a client did not request: of channels ([`outbox`]), of changed keys ([`notify`]), and of the server's
//! own events ([`watch`]).

pub mod notify;
pub mod outbox;
pub mod watch;
