//! The memcached protocol on the store: one call serves the bytes that a session has received.
//!
//! ```text
//!   input   [ get a\r\n | get b c\r\n | set d 0 0 5\r\nval          ]
//!             ^ at        retrieval      incomplete: NeedInput
//!   serve     probe a, b, c: hash, prefetch  ->  look up in order  ->  replies in order            run.rs
//! ```
//!
//! Invariants:
//! - Replies are in the order of the requests. Room for a reply is ensured before its operation is executed, so no
//!   operation is executed twice and no reply is lost.
//! - A request is consumed when its last reply byte is in the output. A retrieval or a table of statistics that is
//!   longer than the output continues from its position ([`SessionState::retrieval`], [`SessionState::lines_done`]).
//! - A large value is written piece by piece ([`crate::lookup::large`]); a session holds at most one.

mod auth;
mod call;
mod dispatch;
mod dump;
mod exptime;
mod get;
mod guarded;
mod large;
mod meta;
mod run;
mod session;
mod small;
mod state;
mod stats;
mod store;
mod watch;

use protocol::memcache::reply;

pub use dispatch::serve;
pub(crate) use run::{head_key, head_set_key};
pub use session::SessionState;

/// The version that the server reports to clients: that of the memcached whose protocol it implements, then our own.
/// Clients and tools compare the three numbers to decide which commands they may send and how strict a server is.
pub const VERSION: &str = concat!("1.6.45-gannet-", env!("CARGO_PKG_VERSION"));

/// Room for the longest one-line reply and for the end of a retrieval after it, in bytes.
const LINE_ROOM: usize = crate::visit::out::LINE_ROOM;

const _: () = assert!(reply::META_LINE_BYTES_MAX + 32 <= LINE_ROOM);
const _: () = assert!(reply::ITEM_FACTS_BYTES_MAX + 32 <= LINE_ROOM);
const _: () = assert!(reply::VALUE_HEADER_BYTES_MAX + 32 <= LINE_ROOM);
