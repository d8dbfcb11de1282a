//! Messages that a client did not request: of channels ([`mail`]), of changed keys ([`notify`]), and of the server's
//! own events ([`watch`]).

pub mod mail;
pub mod notify;
pub mod watch;
