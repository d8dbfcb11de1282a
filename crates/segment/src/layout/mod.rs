//! The bytes of the store: each structure in shared memory, its fields, and how they are read and written.
//!
//! Floor 1 of the crate. Nothing here knows a store: every function takes the memory that it works on.

pub(crate) mod flash_address;
pub(crate) mod header;
pub(crate) mod hidden_key;
pub(crate) mod item;
pub(crate) mod key;
pub(crate) mod parts_head;
pub(crate) mod persistent;
#[allow(unsafe_code)]
pub(crate) mod raw;
pub(crate) mod slot;
pub(crate) mod ttl;
