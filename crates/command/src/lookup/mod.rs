//! Lookups of both protocols: groups of keys, values on flash, and values that are too long for a buffer.
//!
//! ```text
//!   ahead    prefetches the first keys of a batch of sessions before any session is served
//!   run      looks up the keys of consecutive plain requests together
//!   values   puts a value into a reply: copied, pinned, or read from flash first (flash)
//!   large    receives long values into the store in pieces
//! ```

pub mod ahead;
pub(crate) mod flash;
pub(crate) mod large;
pub(crate) mod run;
pub(crate) mod values;
