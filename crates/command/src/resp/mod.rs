//! The Redis protocol (RESP). One call of [`serve`] executes the requests in the bytes that a session has received.
//!
//! ```text
//!   input   [ *2 $3 GET $1 a | *3 $3 SET $1 b $5 hel ]
//!             ^ at             incomplete: NeedInput
//!   serve     parse ──> table: name, arguments, rights ──> the command's function ──> reply
//! ```
//!
//! Invariants:
//! - Replies are in the order of the requests. Room for a reply is ensured before its operation is executed, so no
//!   operation is executed twice and no reply is lost.
//! - A request is consumed when its last reply byte is in the output. If its reply does not fit into the output, a
//!   later call continues the request from its position ([`SessionState::done`]). A request that accesses several keys
//!   atomically becomes a transaction if it cannot be executed at once (`atomic`). It is consumed when it becomes one.
//! - A request is completely in the receive buffer when it is executed. Exceptions are requests with long values or
//!   many keys (see [`long`]).
//! - One table contains the name, arity, keys and documentation of every command ([`catalog::COMMANDS`]). The command
//!   of each request is looked up in this table, and the replies to `COMMAND` are read from it.

mod absent;
pub mod acl;
mod admit;
mod aside;
mod atomic;
mod bits;
mod blocking;
mod call;
mod call_user;
mod carry;
pub mod catalog;
mod client;
mod clients;
mod collection;
mod command_info;
mod config;
pub mod config_hints;
mod config_set;
mod connection;
mod databases;
mod digest;
mod dispatch;
mod dump;
mod elements;
mod encoding;
mod ended;
mod error;
mod expire;
mod found;
mod functions;
mod geo;
pub mod graph;
mod hash;
mod help;
mod hotkeys;
mod hyperloglog;
mod index_places;
mod info;
mod key_specs;
mod keys;
mod latency_graph;
mod lcs;
mod lease;
mod list;
mod listing;
mod long;
mod memory_stats;
mod mget;
mod number;
mod own_transaction;
mod pair;
mod pairs;
mod pattern;
mod pubsub;
mod records;
mod restore;
mod run;
mod scan;
mod scripts;
mod secrets;
mod server;
mod session;
mod set;
mod settle;
mod slices;
mod slowlog;
mod sort;
mod sorted_set;
mod sources;
mod state;
mod statistics;
mod stored;
mod stream;
mod stream_error;
mod string;
pub mod subcommands;
pub mod support;
mod syntax;
mod tracking;
mod transaction;
mod typed;
mod value_reply;
mod walk;

pub(crate) use acl::TokenUser;
pub use atomic::KEYS_AS_ONE_MAX;
pub(crate) use blocking::{has_turn, takes_turns, waits_in_command};
pub(crate) use call_user::{
    CallUser, StreamRight, abandon_query, cache_refusal, call_user, enter_as_token, flush_refusal, home_namespace,
    prepare_publication, speak_version_3, topic_right, unrestricted_user, watch_right,
};
pub use config_set::{ChangedSetting, changed_settings, restore_settings};
pub(crate) use connection::enter_namespace;
pub(crate) use dispatch::release;
pub use dispatch::serve;
pub(crate) use ended::remove_ended;
pub(crate) use graph::{LIMIT_MAX, PARTS_MAX, is_reserved_attribute};
pub use records::index::{insert_persisted, recreate_persisted};
pub(crate) use run::head_key;
pub use scripts::load_persisted;
pub use session::SessionState;
pub(crate) use session::{
    adopt_messages, check_admission, forget_lost_user, has_lost_user, identify, incomplete_bytes, is_auth_delayed,
    is_token, needs_login, session_of_calls,
};
pub use state::script::WorkerScripts;
pub use state::transaction::RetiredTransactions;
pub(crate) use walk::walk_step_ops;

/// The version of Redis whose commands are implemented. Clients and tools compare the three numbers.
pub const REDIS_VERSION: &str = "7.2.4";
