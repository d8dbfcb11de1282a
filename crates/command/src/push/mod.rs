//! Push messages, which a client did not request: messages of channels ([`outbox`]), changes of keys ([`notify`]), and
//! lines about the server's own events ([`watch`]).

pub mod notify;
pub mod outbox;
pub mod watch;
