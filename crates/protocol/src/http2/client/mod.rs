//! The client's side of HTTP/2 (RFC 9113), as far as gRPC needs it. No I/O, no clock, no threads.
//!
//! ```text
//!  received bytes ──> receive_reply ──> one ReplyEvent: a reply's fields are in a FieldList,
//!                          │    ▲                       DATA is borrowed in place
//!                          ▼    │
//!             sink   frame, hpack, Streams              (SETTINGS, PING and WINDOW_UPDATE frames, resets)
//!
//!   begin ──> Settings ──> Open ──> GoingAway          any ── connection error ──> Failed
//! ```
//!
//! Invariants:
//! - No stream is opened before the server's SETTINGS arrived, beyond its maximum, or after its GOAWAY.
//! - DATA that the caller sees returns to the windows at once, because the caller uses it at once.
//! - Events depend only on the bytes, never on how they were cut into packets, except that DATA is delivered in parts
//!   as it arrives.
//! - The memory of a connection is bounded by its [`ClientLimits`] and by the number of streams that the caller opens.
//! - A call of [`receive_reply`] handles at most one frame, and writes at most
//!   [`CONTROL_BYTES_MAX`](super::CONTROL_BYTES_MAX) bytes.

mod connection;
mod control;
mod receive;
#[cfg(test)]
mod tests;

pub use connection::{ClientConnection, ClientLimits};
pub use receive::{ReceivedReply, ReplyEvent, receive_reply};
