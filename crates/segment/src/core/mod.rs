//! The base of every operation: the per-thread handle, epochs, counters, pins, and the types of requests and results.

pub(crate) mod capacity;
pub(crate) mod counters;
pub(crate) mod ended_keys;
pub(crate) mod epoch;
pub(crate) mod facets;
pub(crate) mod handle;
pub(crate) mod lookup;
pub(crate) mod op;
pub(crate) mod open;
pub(crate) mod pin;
pub(crate) mod snap;
pub(crate) mod store;
