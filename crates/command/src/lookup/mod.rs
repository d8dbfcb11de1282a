//! Lookups for both protocols: keys in groups, values on flash, values too long for a buffer.
//!
//! ```text
//!   ahead    the first keys of a batch of sessions are prefetched before any session is served
//!   run      plain requests that follow one another are looked up together
//!   values   the ways a value gets into a reply: copied, pinned, or read from flash first (flash)
//!   large    values that are received into the store in pieces
//! ```

pub mod ahead;
pub(crate) mod flash;
pub(crate) mod large;
pub(crate) mod run;
pub(crate) mod values;
