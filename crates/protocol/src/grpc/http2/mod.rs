//! HTTP/2 (RFC 9113) without I/O: the server's side of a connection.
//!
//! ```text
//!   received bytes ──> Http2::receive ──> Http2Event: Headers, Data, Reset, ...
//!                          │     └── frames that answer at once (SETTINGS, PING, WINDOW_UPDATE, RST_STREAM) ──> sink
//!   replies ─────────> Http2::send_headers, send_data: within the peer's windows ──> sink
//! ```
//!
//! `frame` has the layout of frames, `hpack` and `huffman` the compression of headers, and `connection` the states of
//! streams, flow control and limits.

mod connection;
mod frame;
pub mod hpack;
mod huffman;

pub use connection::{CONTROL_BYTES_MAX, Http2, Http2Event, STREAMS_MAX};
pub use frame::ErrorCode;
