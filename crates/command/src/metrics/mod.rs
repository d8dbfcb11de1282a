//! Measurements of the server: latencies by command and part, slow requests, counters and hot keys.
//!
//! ```text
//!   worker 0 ── record ──> Recorder 0 ─┐                        ┌─> quantiles since start, exact maximum
//!   worker 1 ── record ──> Recorder 1 ─┼── admin: Totals ── minus a snapshot a minute old ──> the last minute
//!   worker n ── record ──> Recorder n ─┘
//! ```
//! Invariants: only one worker writes to a recorder. It records with plain loads and stores on its own memory, takes no
//! lock and allocates no memory. A worker never waits for a reader.

pub mod background;
pub mod call_stats;
mod command;
pub mod command_counters;
pub mod command_stats;
pub mod counters;
mod histogram;
pub mod hot_keys;
pub mod info_totals;
mod recorder;
mod slow;
mod slow_client;
pub mod survey;
mod window;

pub use command::{Command, Part};
pub use histogram::{BucketCounts, CoarseHistogram, Histogram, MAX_NS};
pub use recorder::{Recorder, Totals};
pub use slow::{
    LINE_BYTES_MAX as SLOW_LINE_BYTES_MAX, SLOW_MAX, SLOW_REPORTED, SlowLine, SlowLines, SlowReport, SlowRequest,
    SlowRing,
};
pub use slow_client::SlowClient;
pub use window::Window;
