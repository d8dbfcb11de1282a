//! What every operation needs: the per-thread handle, epochs, counters, pins and the vocabulary of operations.

pub(crate) mod counters;
pub(crate) mod epoch;
pub(crate) mod lane;
pub(crate) mod op;
pub(crate) mod pin;
