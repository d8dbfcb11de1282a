//! Values with parts, as the bytes of one item: bytes in, bytes out.
//!
//! ```text
//!   item of the store    key ──> type byte ──> bytes
//!                                [`Kind`]      [`Record`] reads them, [`Edit`] writes new ones
//! ```
//!
//! A record is a revision and bins: names with values of a type, each of which may have an end of its own. Clients
//! of Redis call it a hash, and its bins fields. The bytes are drawn in `docs/format/record.md`.
//!
//! Nothing here knows a store, a protocol, a clock or a thread. Damaged bytes are an error ([`Damaged`]), no panic.
#![forbid(unsafe_code)]

mod coding;
mod edit;
mod kind;
mod read;
mod value;

pub use edit::Edit;
pub use kind::Kind;
pub use read::{Bin, Bins, Record};
pub use value::{Digits, Name, Value, ValueType};

/// Bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the bytes are no record")
    }
}

impl std::error::Error for Damaged {}

/// The latest end that a bin may have, in milliseconds since the epoch: what its six bytes say.
pub const END_MS_MAX: u64 = (1 << 48) - 1;

/// The longest name of a bin that a record command takes, in bytes. A hash's field may be as long as its item.
pub const BIN_NAME_BYTES_MAX: usize = 63;
