//! A trace as a load: its requests at its instants, against any server.
//!
//! ```text
//!   Reader ── a thread of its own ──> Feed ──┬─ a lane for each thread of the engine ──> Playback   what is sent
//!                                            └─ the same entries' instants ───────────> schedule    when it is due
//! ```
//!
//! At the trace's own pace a request goes to the lane of its (first) key, so that what is asked of one key is asked in
//! the trace's order.
//!
//! Invariants: the n-th instant of a lane is the n-th request's; a lane holds at most [`LANE_CHUNKS_MAX`] chunks, so
//! that the file is read as fast as it is replayed and no faster; an instant is the trace's, however late the file gave
//! it.

mod answer;
mod feed;
mod playback;
mod request;
mod stored;
#[cfg(test)]
mod tests;

pub use feed::{Deal, Feed, FeedEnd, LANE_CHUNKS_MAX};
pub use playback::{Playback, Prefill};
pub use stored::Altered;

use std::sync::Arc;

use load::workload::model::{Auth, Placement, Protocol, Target};
use load::workload::value::Values;

/// Keys of one request at most: so many always fit on a line of memcached's.
pub const REQUEST_KEYS_MAX: usize = 256;

/// How a trace's requests are sent.
#[derive(Clone, Debug)]
pub struct Script {
    /// What the server speaks: memcached's words, meta commands or RESP.
    pub protocol: Protocol,
    /// The servers.
    pub targets: Vec<Target>,
    /// Which of them a key belongs to.
    pub placement: Placement,
    /// What a new connection says about who it is.
    pub auth: Option<Auth>,
    /// Every value that is read is compared byte by byte, but for those of keys that were altered in place.
    pub verify: bool,
    /// A read that misses is followed by a store of its key.
    pub fill_on_miss: bool,
    /// Length of a value of which the trace knows none, in bytes.
    pub value_bytes: u32,
    /// A longer value is cut to it, in bytes.
    pub value_bytes_max: u32,
    /// Times to live are divided by it, and are at least a second.
    pub ttl_divisor: f64,
    /// Times to live above 30 days are sent to memcached as instants, counted from here: seconds since 1970.
    pub now_s: u64,
    /// The bodies of values.
    pub values: Arc<Values>,
    /// Keys whose values cannot be checked any more.
    pub altered: Arc<Altered>,
}

impl Script {
    /// The length of the value that a request for `value_bytes` sends; 0: the trace does not know it.
    pub fn sent_bytes(&self, value_bytes: u32) -> u32 {
        if value_bytes == 0 { self.value_bytes } else { value_bytes }.min(self.value_bytes_max)
    }

    /// The time to live that is sent for `ttl_s`, in seconds; 0: for ever.
    pub fn ttl_s(&self, ttl_s: u32) -> u64 {
        if ttl_s == 0 { 0 } else { (f64::from(ttl_s) / self.ttl_divisor).ceil().max(1.0) as u64 }
    }
}
