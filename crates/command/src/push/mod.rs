//! Push messages, which a client did not request: messages of channels ([`outbox`]), changes of keys ([`notify`]), and
//! lines about the server's own events ([`watch`]). Clients that wait for keys are woken in the same way ([`waiters`]),
//! and clients learn of changes of values that they have cached ([`tracking`]). gRPC clients read the messages of
//! channels from logs ([`topics`]).

pub mod notify;
pub mod outbox;
pub mod topics;
pub mod tracking;
pub mod waiters;
pub mod watch;
