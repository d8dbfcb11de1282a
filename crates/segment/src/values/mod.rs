//! Values that consist of several items: large values in pieces, records in parts, and their deferred removal.

pub(crate) mod deferred_free;
pub(crate) mod free_queue;
pub(crate) mod joined;
pub(crate) mod large;
pub(crate) mod orphans;
pub(crate) mod part_sizes;
pub(crate) mod part_walk;
pub(crate) mod parts;
pub(crate) mod patch;
pub(crate) mod rename;
pub(crate) mod source;
pub(crate) mod unfinished;
pub(crate) mod writer;
