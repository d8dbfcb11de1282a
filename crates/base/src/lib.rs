//! Code that all other crates share: units with their text forms, the two clocks, a seedable PRNG, decimal text, and
//! the search for the nearest name.
//!
//! Nothing here does I/O apart from reading a clock, and nothing allocates.
#![forbid(unsafe_code)]

pub mod clock;
pub mod decimal;
pub mod nearest;
pub mod prng;
pub mod units;
