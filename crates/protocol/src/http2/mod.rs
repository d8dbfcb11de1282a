//! The server's side of HTTP/2 (RFC 9113), as far as gRPC needs it. No I/O, no clock, no threads.
//!
//! ```text
//!  received bytes ──> receive ──> one FrameEvent: a request's fields are in a FieldList,
//!                          │    ▲                        DATA is borrowed in place
//!                          ▼    │
//!        control sink   frame, hpack, Streams, Guard     (SETTINGS, PING and WINDOW_UPDATE frames, resets, GOAWAY)
//!                               │
//!  reply sink    <── send_headers, send_data, claim_whole_reply; consumed, reset
//! ```
//!
//! Invariants:
//! - Events depend only on the bytes, never on how they were cut into packets, except that DATA is delivered in parts
//!   as it arrives.
//! - A connection's memory is bounded by its [`ConnectionLimits`]. An idle connection has at most [`IDLE_BYTES_MAX`]
//!   bytes; the table of streams exists only while it is in use.
//! - Once a connection has served as many streams at a time as it will, no request allocates memory.
//! - A call of [`receive`](receive()) handles at most one frame, and writes at most [`CONTROL_BYTES_MAX`] bytes.
//! - Each kind of frame that makes the server work without a request has a budget, which [`ServerConnection::tick`]
//!   renews.
//!
//! [`client`] has the client's side, which shares `frame`, `hpack` and `streams`.

pub mod client;
mod connection;
mod context;
mod control;
mod data;
mod event;
pub mod frame;
mod guard;
pub mod hpack;
mod receive;
mod request;
mod send;
mod streams;

pub use connection::{CONTROL_BYTES_MAX, ConnectionLimits, IDLE_BYTES_MAX, ServerConnection};
pub use event::{FrameEvent, Received};
pub use frame::ErrorCode;
pub use hpack::{FieldList, FieldName};
pub use receive::receive;
pub use send::{data_frames_bytes, headers_frames_bytes};

#[cfg(test)]
mod tests;
