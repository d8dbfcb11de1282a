//! The recorder: writes the requests of live clients as a trace without keys or values.
//!
//! ```text
//!   client ──> proxy ──────────── the same bytes ────────────> server        server ──> watch   its watch stream
//!                └─> Follower: memcache | resp ──> Ledger <─────────────────────────────┘
//!                    requests and replies matched    in the order of requests ──> Tape ──> FILE, by a separate thread
//! ```
//!
//! Invariants: bytes are passed on unchanged, whether the recorder can parse them or not. The file never delays them:
//! entries that cannot be written in time are counted as lost. A key is hashed in place, and values are not examined.
//! Every queue has a maximum.

mod follower;
mod ledger;
mod memcache;
mod monitor;
mod proxy;
mod resp;
mod tape;
#[cfg(test)]
mod tests;
mod watch;

pub use follower::Follower;
pub use ledger::Ledger;
pub use proxy::{CONNECTIONS_MAX, Proxy};
pub use tape::{Tape, TapeError};
pub use watch::{WATCH_COMMANDS, WatchKind, WatchRecording, watch, watched};

use crate::format::{Secret, Summary};

/// The context in which requests are recorded.
#[derive(Clone, Copy, Debug)]
pub struct Pen {
    /// The secret with which keys are hashed.
    pub secret: Secret,
    /// The current instant, in microseconds since the trace's beginning.
    pub at_us: u64,
    /// The current time in seconds since 1970, because memcached interprets long times to live as instants.
    pub now_s: u64,
    /// The connection's number.
    pub connection: u32,
}

impl Pen {
    /// Converts a time in memcached's form to a time to live in seconds; a past instant becomes one second.
    pub fn ttl_s(&self, exptime: i64) -> u32 {
        const RELATIVE_S_MAX: i64 = 30 * 86_400;
        match exptime {
            0 => 0,
            1..=RELATIVE_S_MAX => exptime as u32,
            _ => u32::try_from(exptime.saturating_sub(self.now_s as i64).max(1)).unwrap_or(u32::MAX),
        }
    }
}

/// The counts so far, for the end of the trace.
pub type Seen = Summary;
