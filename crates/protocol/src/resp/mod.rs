//! RESP, the protocol of Redis, in its versions 2 and 3 and in both directions.
//!
//! ```text
//!              client                                   server
//!  request:    client::command(sink, [b"GET", b"a"])    Parser::parse(buf) -> Request { args, consumed }
//!              "*2\r\n$3\r\nGET\r\n$1\r\na\r\n"    ->
//!  reply:      Decoder::step(buf) -> Head, Piece...     reply::bulk(sink, b"x")
//!                                                  <-   "$1\r\nx\r\n"
//! ```
//!
//! | type | first byte | version 2 writes it as |
//! |---|---|---|
//! | simple string, error, integer | `+` `-` `:` | itself |
//! | bulk string, array | `$` `*` | itself |
//! | null | `_` | `$-1`, or `*-1` where an array was asked for |
//! | boolean, double, big number | `#` `,` `(` | integer 1 or 0, bulk string, bulk string |
//! | bulk error, verbatim string | `!` `=` | error, bulk string |
//! | map, set, push | `%` `~` `>` | array |
//! | attribute | `\|` | left out |
//!
//! Invariants:
//! - Nothing is copied or allocated: arguments and replies borrow from the receive buffer, and a long value never has
//!   to be in memory whole.
//! - What is returned depends on the bytes alone, never on how they were cut into packets.
//! - Every count and length has a maximum, checked before anything is done with it.
//! - A server reports a client's fault of the protocol in Redis's words, then closes.

pub mod client;
mod error;
mod inline;
mod lone;
mod number;
pub mod reply;
mod request;

pub use error::ProtocolError;
pub use inline::{INLINE_REWRITTEN_BYTES_MAX, Inline};
pub use lone::{Lone, lone};
pub use request::{Args, Argument, Limits, Parsed, Parser, argument};

/// Which version a connection speaks: 2 until `HELLO 3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// The version that every client speaks.
    #[default]
    Resp2,
    /// With types of its own for maps, sets, numbers and messages out of band.
    Resp3,
}

/// The longest line: an inline command, a count, a simple string or an error, its end included.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// The longest bulk string, in bytes: Redis's default.
pub const BULK_BYTES_MAX: u32 = 512 * 1024 * 1024;

/// The most arguments that a request may have: Redis's limit.
pub const ARGS_MAX: u32 = 1024 * 1024;

#[cfg(test)]
mod tests;
