//! The client's side of the memcached text and meta protocols: encodes requests and decodes replies.
//!
//! ```text
//! caller                      encode                     server
//!  get(sink, b"a")      ->   "get a\r\n"            ->
//!                             decode
//!  Reply(Value a, 3)    <-   "VALUE a 0 3\r\n"      <-   a header; the value's bytes follow
//!  Piece(b"x"), ...     <-   "x" "yz"               <-   in pieces of any length
//!  ValueEnd             <-   "\r\n"                 <-
//!  Reply(End), last     <-   "END\r\n"              <-   the response is complete
//! ```
//!
//! Invariants:
//! - Nothing is copied or allocated: replies borrow from the receive buffer, and a value never has to be in memory as a
//!   whole.
//! - Between two steps, a decoder's state is only [`Decoder::expect`] and [`Decoder::rest`], 9 bytes. A caller with a
//!   million requests in flight can store this state in its own data structures.
//! - Results depend only on the bytes, not on how they were cut: the pieces of a value always join to the same value.
//! - Bytes that are not a valid response cause a specific [`Garbage`] error. The decoder never guesses.

mod decode;
mod dump;
mod encode;
mod expect;
mod garbage;
mod meta;
mod reply;

pub use decode::{Decoder, Event, Hit, Step, lone_hit};
pub use dump::{Facts, MgdumpKey, uri_decoded};
pub use encode::{
    arith, authenticate, cache_memlimit, delete, flush_all, gat, gats, get, metadump, mgdump, multi_get, multi_gets,
    quit, set, stats, store, touch, value, verbosity, version,
};
pub use expect::{Expect, ReplyPosition};
pub use garbage::Garbage;
pub use meta::{MetaRequest, is_text_key, meta_noop};
pub use reply::{MetaCode, MetaFlags, ParsedReply, REPLY_LINE_BYTES_MAX, Reply, ServerError, ValueHeader, reply};

#[cfg(test)]
mod tests;
