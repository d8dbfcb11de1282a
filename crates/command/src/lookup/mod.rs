//! Lookups of both protocols: groups of keys, values on flash, and values that are too long for a buffer.
//!
//! ```text
//!   ahead    prefetches the first request of each session of a batch before any session is served
//!   run      looks up the keys of consecutive plain requests together
//!   values   writes a value to the output: copies the value, or pins it in the store
//!   flash    reads values that are on flash and not in memory
//!   large    receives long values into the store in pieces
//! ```

pub mod ahead;
pub(crate) mod flash;
pub(crate) mod large;
pub(crate) mod run;
pub(crate) mod values;
