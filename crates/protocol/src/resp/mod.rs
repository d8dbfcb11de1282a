//! RESP, the protocol of Redis, in versions 2 and 3 and in both directions.
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
//! | null | `_` | `$-1`, or `*-1` where an array was expected |
//! | boolean, double, big number | `#` `,` `(` | integer 1 or 0, bulk string, bulk string |
//! | bulk error, verbatim string | `!` `=` | error, bulk string |
//! | map, set, push | `%` `~` `>` | array |
//! | attribute | `\|` | omitted |
//!
//! Invariants:
//! - Nothing is copied or allocated: arguments and replies borrow from the receive buffer, and a long value never has
//!   to be in memory as a whole.
//! - Results depend only on the bytes, never on how they were cut into packets.
//! - Every count and every length has a maximum, which is checked before the number is used.
//! - The server reports a client's protocol error in Redis's words, then closes the connection.

pub mod client;
mod error;
mod inline;
mod lone;
mod number;
pub mod reply;
mod request;

pub use error::ProtocolError;
pub use inline::{INLINE_REWRITTEN_BYTES_MAX, Inline, split_line};
pub use lone::{Lone, lone};
pub use request::{Args, Argument, Limits, Parsed, Parser, argument};

/// The protocol version of a connection: 2 until the client sends `HELLO 3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// Version 2, which every client supports.
    #[default]
    Resp2,
    /// Version 3, which has its own types for maps, sets, numbers and push messages.
    Resp3,
}

/// The maximum length of a line, in bytes, including its end. A line is an inline command, a count, a simple string or
/// an error.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// The maximum length of a bulk string in bytes: Redis's default.
pub const BULK_BYTES_MAX: u32 = 512 * 1024 * 1024;

/// The maximum number of arguments in a request: Redis's limit.
pub const ARGS_MAX: u32 = 1024 * 1024;

#[cfg(test)]
mod tests;
