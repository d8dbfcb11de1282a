//! The kinds of access to keys, which rights and signed tokens grant.

/// The bit that stands for read access to a key.
pub const READ: u8 = 1;
/// The bit that stands for write access to a key.
pub const WRITE: u8 = 2;
