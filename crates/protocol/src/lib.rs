//! Wire protocols as pure functions: bytes in, requests out; outcomes in, reply bytes out.
//!
//! Nothing here does I/O, reads a clock or allocates. Requests borrow from the receive buffer; replies go to a
//! [`sink::Sink`] of the caller. The server, load generators and fuzzers share this crate.
#![forbid(unsafe_code)]

pub mod memcache;
pub mod number;
pub mod resp;
pub mod sink;
