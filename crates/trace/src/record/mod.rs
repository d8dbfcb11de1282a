//! The recorder: what clients ask of a server, as a trace without keys or values.
//!
//! ```text
//!   client ──> proxy ──────────── the same bytes ────────────> server        server ──> watch   its watch stream
//!                └─> Follower: memcache | resp ──> Ledger <─────────────────────────────┘
//!                    requests and answers matched    in order of asking ──> Tape ──> FILE, by a thread of its own
//! ```
//!
//! Invariants: bytes are passed as they came, whether they were understood or not; the file never holds up a byte: what
//! it does not take in time is counted as lost; a key is hashed where it lies, and no value is looked at; every queue
//! has a maximum.

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

/// What requests are recorded with.
#[derive(Clone, Copy, Debug)]
pub struct Pen {
    /// What keys are hashed with.
    pub secret: Secret,
    /// Microseconds since the trace's beginning.
    pub at_us: u64,
    /// Seconds since 1970: long times to live are instants in memcached's words.
    pub now_s: u64,
    /// The connection's number.
    pub connection: u32,
}

impl Pen {
    /// Seconds to live of a time as memcached takes it; what is past lives a second.
    pub fn ttl_s(&self, exptime: i64) -> u32 {
        const RELATIVE_S_MAX: i64 = 30 * 86_400;
        match exptime {
            0 => 0,
            1..=RELATIVE_S_MAX => exptime as u32,
            _ => u32::try_from(exptime.saturating_sub(self.now_s as i64).max(1)).unwrap_or(u32::MAX),
        }
    }
}

/// What was seen, for the trace's end.
pub type Seen = Summary;
