//! The protocol of Redis over the store: one call serves what a session has received.
//!
//! ```text
//!   input   [ *2 $3 GET $1 a | *3 $3 SET $1 b $5 hel ]
//!             ^ at             not all there: NeedInput
//!   serve     parse ──> table: name, arguments, who may ──> the command's function ──> reply
//! ```
//!
//! Invariants:
//! - Replies are in the order of the requests. Room for a reply is made sure of before its operation is done, so no
//!   operation is done twice and no reply is lost.
//! - A request is consumed when its last reply byte is in the output. One whose reply is longer than the output goes on
//!   where it was left ([`SessionState::done`]); one over several keys, which are read or changed as one, has become a
//!   transaction then (`atomic`), and is consumed.
//! - A request lies whole in the receive buffer, but for long values and requests of many keys: [`long`].
//! - What a command is, its name, arity, keys and text, stands in one table ([`catalog::COMMANDS`]), by which requests
//!   are looked up and `COMMAND` is answered.

pub mod acl;
mod admit;
mod aside;
mod atomic;
mod call;
mod carry;
pub mod catalog;
mod client;
mod clients;
mod config;
mod connection;
mod dispatch;
mod error;
mod expire;
mod functions;
mod hash;
mod hotkeys;
mod index_places;
mod info;
mod keys;
mod lease;
mod listing;
mod long;
mod mget;
mod number;
mod own_transaction;
mod pair;
mod pairs;
mod pattern;
mod pubsub;
mod records;
mod run;
mod scan;
mod session;
mod slices;
mod slowlog;
mod state;
mod string;
pub mod support;
mod transaction;
mod typed;
mod value_reply;
mod walk;

pub use atomic::KEYS_AS_ONE_MAX;
pub(crate) use dispatch::release;
pub use dispatch::serve;
pub use records::index::{enter_kept, make_kept};
pub(crate) use run::head_key;
pub use session::SessionState;
pub use state::transaction::Spares;
pub(crate) use walk::walk_step_ops;

/// The version of Redis whose commands these are. Clients and tools compare the three numbers.
pub const REDIS_VERSION: &str = "7.2.4";
