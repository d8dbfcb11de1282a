//! What requests do to the store: one module for each protocol.
//!
//! ```text
//!   worker ── bytes ──> memcache::serve ── protocol::memcache::parse ──> segment::Turn ──> replies into OutBuffer
//! ```
//!
//! A protocol's `serve` never waits: what it cannot do now it says by its [`crate::context::State`], and is asked again
//! with the same bytes. What it has to remember until then is in its `SessionState`.

pub mod counters;
pub mod memcache;
