//! The heap: its segments, the limits on memory, and the memory that each namespace may use.
//!
//! ```text
//!   config ──> memory (limits in force) ──> segments (free, open, sealed) <── open (one table for each thread)
//!                namespaces (quotas)            prefault (memory from the kernel before it is needed)
//!                back_pressure (wait or refuse) samples (of requests, for the background)
//! ```

pub(crate) mod back_pressure;
pub(crate) mod checksums;
pub(crate) mod config;
pub(crate) mod memory;
pub(crate) mod namespaces;
pub(crate) mod prefault;
pub(crate) mod samples;
pub(crate) mod segments;
