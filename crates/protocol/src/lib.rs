//! Wire protocols as pure functions: they parse received bytes into requests, and encode outcomes as reply bytes.
//!
//! This crate does no I/O, reads no clock and allocates nothing per request. Requests borrow from the receive buffer,
//! and replies go to a [`sink::Sink`] that the caller provides. The server, load generators and fuzzers share this
//! crate.
//!
//! Modules: `memcache` and `resp` each have a parser (`request.rs`), writers of replies (`reply.rs`) and the client's
//! side of the protocol (`client`). `sink` receives replies; `number` reads and writes decimal digits;
//! `http` recognises HTTP, which closes a connection of these protocols. `http2` is the server's side of HTTP/2, and
//! `grpc` has the framing and the messages of gRPC above it.
//!
//! # Example
//! ```
//! use gannet_protocol::memcache::{self, Parsed, Request, reply};
//!
//! let received = b"get greeting\r\nget fare";
//! let Parsed::Request { request: Request::Get(_), consumed } = memcache::parse(received) else { panic!("a get") };
//! assert_eq!(memcache::parse(&received[consumed..]), Parsed::Incomplete);
//!
//! let mut sent = Vec::new();
//! reply::value_header(&mut sent, b"greeting", 0, 5, None);
//! assert_eq!(sent, b"VALUE greeting 0 5\r\n");
//! ```
#![forbid(unsafe_code)]

pub mod grpc;
pub mod http;
pub mod http2;
pub mod memcache;
pub mod number;
pub mod resp;
pub mod sink;
