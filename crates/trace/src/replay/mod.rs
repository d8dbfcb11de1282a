//! Replays a trace as a load: its requests at its instants, against any server.
//!
//! ```text
//!   Reader ── a separate thread ──────> Feed ──┬─ a share for each thread of the engine ──> Playback   requests
//!                                              └─ the same entries' instants ───────────> schedule    instants
//! ```
//!
//! At the trace's own pace, a request goes to the share of its (first) key, so that requests for one key are sent in
//! the trace's order.
//!
//! Invariants: the n-th instant of a share belongs to its n-th request. A share holds at most [`SHARE_CHUNKS_MAX`]
//! chunks, so the file is read only as fast as it is replayed. Instants are the trace's own, even if the file is read
//! late.

mod answer;
mod feed;
mod playback;
mod request;
mod stored;
#[cfg(test)]
mod tests;

pub use feed::{Deal, Feed, FeedEnd, SHARE_CHUNKS_MAX};
pub use playback::{Playback, Prefill};
pub use stored::Altered;

use std::sync::Arc;

use load::workload::model::{Auth, Placement, Protocol, Target};
use load::workload::value::Values;

/// The maximum number of keys in one request; this number always fits on a memcached line.
pub const REQUEST_KEYS_MAX: usize = 256;

/// The settings of a replay.
#[derive(Clone, Debug)]
pub struct Script {
    /// The server's protocol: memcached text, meta commands or RESP.
    pub protocol: Protocol,
    /// The servers.
    pub targets: Vec<Target>,
    /// The rule that assigns keys to servers.
    pub placement: Placement,
    /// The user and password of a new connection.
    pub auth: Option<Auth>,
    /// True to compare every value that is read byte by byte, except values of keys that were altered in place.
    pub verify: bool,
    /// True to store a key after a read that misses.
    pub fill_on_miss: bool,
    /// The length of values whose length the trace does not contain, in bytes.
    pub value_bytes: u32,
    /// Largest length of a value in bytes; longer values are cut.
    pub value_bytes_max: u32,
    /// The divisor of times to live; the result is at least a second.
    pub ttl_divisor: f64,
    /// Current time in seconds since 1970. Times to live above 30 days are sent to memcached as instants relative to
    /// it.
    pub now_s: u64,
    /// The bodies of values.
    pub values: Arc<Values>,
    /// Keys whose values can no longer be checked.
    pub altered: Arc<Altered>,
}

impl Script {
    /// Returns the length of the value sent for a recorded length of `value_bytes`; 0 means that the trace does not
    /// contain it.
    pub fn sent_bytes(&self, value_bytes: u32) -> u32 {
        if value_bytes == 0 { self.value_bytes } else { value_bytes }.min(self.value_bytes_max)
    }

    /// Returns the time to live sent for `ttl_s`, in seconds; 0 for no expiry.
    pub fn ttl_s(&self, ttl_s: u32) -> u64 {
        if ttl_s == 0 { 0 } else { (f64::from(ttl_s) / self.ttl_divisor).ceil().max(1.0) as u64 }
    }
}
