//! The bytes of the store: each structure in shared memory, its fields, and how they are read and written. This is the
//! lowest layer of the crate. It does not depend on a store: every function takes the memory that it reads or writes.

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
