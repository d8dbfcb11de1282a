//! The heap: its segments, the limits on memory, and the memory that each namespace may use.
//!
//! ```text
//!   config ──> memory (limits in force) ──> segments (free, open, sealed) <── open (one table a thread)
//!                namespaces (quotas)            prefault (memory from the kernel before it is needed)
//!                shortage (wait or refuse)      samples (of accesses, for the background)
//! ```

pub(crate) mod back_pressure;
pub(crate) mod checksums;
pub(crate) mod config;
pub(crate) mod memory;
pub(crate) mod namespaces;
pub(crate) mod prefault;
pub(crate) mod samples;
pub(crate) mod segments;
