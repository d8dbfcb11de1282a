//! The commands of the memcached protocol. One call executes the requests that a session has received.
//!
//! ```text
//!   input   [ get a\r\n | get b c\r\n | set d 0 0 5\r\nval          ]
//!             ^ at        retrieval      incomplete: NeedInput
//!   serve     probe a, b, c: hash, prefetch  ->  look up in order  ->  replies in order            run.rs
//! ```
//!
//! Invariants:
//! - Replies are in the order of the requests. An operation is executed only after room for its reply is ensured. No
//!   operation is therefore executed twice, and no reply is lost.
//! - A request is consumed when the last byte of its reply is in the output. If a retrieval or a table of statistics is
//!   longer than the output, it continues from its position ([`SessionState::retrieval`],
//!   [`SessionState::lines_done`]).
//! - A large value is written in pieces ([`crate::lookup::large`]). A session receives at most one large value at a
//!   time.

mod auth;
mod call;
mod dispatch;
mod dump;
mod exptime;
mod get;
mod guarded;
mod large;
mod meta;
mod rights;
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
pub(crate) use session::{has_lost_user, identify, needs_login};
pub use watch::report_connection;

/// The version that the server reports to clients: the version of memcached whose protocol it implements, then its own.
/// Clients and tools compare the first three numbers to decide which commands they may send and how strict the server
/// is.
pub const VERSION: &str = concat!("1.6.45-gannet-", env!("CARGO_PKG_VERSION"));

/// The room for the longest one-line reply and for the end of a retrieval after it, in bytes.
const LINE_ROOM: usize = crate::visit::out::LINE_ROOM;

const _: () = assert!(reply::META_LINE_BYTES_MAX + 32 <= LINE_ROOM);
const _: () = assert!(reply::ITEM_FACTS_BYTES_MAX + 32 <= LINE_ROOM);
const _: () = assert!(reply::VALUE_HEADER_BYTES_MAX + 32 <= LINE_ROOM);
