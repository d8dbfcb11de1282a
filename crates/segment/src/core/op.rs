//! Requests to the store and their results. The types are plain values that depend on no protocol and no clock.
//!
//! The names are the store's own. Each protocol layer maps every result to its reply text.

use base::clock::UnixMillis;

pub use crate::layout::ttl::Expire;

/// The way in which a [`Put`] treats an existing item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutMode {
    /// Store the value whether or not the key has an item.
    Set,
    /// Store only if the key has no item.
    Add,
    /// Store only if the key has an item.
    Replace,
    /// Append the value to the existing one; the item retains its flags and expiry.
    Append,
    /// Prepend the value to the existing one; the item retains its flags and expiry.
    Prepend,
}

/// One storage request.
#[derive(Clone, Copy, Debug)]
pub struct Put<'v> {
    /// Treatment of an existing item.
    pub mode: PutMode,
    /// The value's bytes.
    pub value: &'v [u8],
    /// Flags that are opaque to the store.
    pub client_flags: u32,
    /// Expiry of the item.
    pub expire: Expire,
    /// If given, store only if the item's CAS token equals this token. The result is `NotFound` if the key has no item.
    pub compare: Option<u64>,
    /// With `compare`: if `compare` is *smaller* than the item's token, store the value nevertheless and mark the item
    /// stale.
    pub invalidate: bool,
    /// The CAS token of the new item, instead of a token that the store generates.
    pub token: Option<u64>,
    /// With `Append` and `Prepend`: if the key has no item, store the value as a new item with this expiry.
    pub vivify: Option<Expire>,
    /// Report the new item's CAS token in [`PutOutcome::Stored`].
    pub want_token: bool,
}

impl<'v> Put<'v> {
    /// Returns true if the value is stored regardless of the key's existing item.
    #[inline]
    pub fn is_unconditional(&self) -> bool {
        self.mode == PutMode::Set && self.compare.is_none()
    }

    /// Returns an unconditional `Set` without expiry or flags.
    pub const fn set(value: &'v [u8]) -> Self {
        Self {
            mode: PutMode::Set,
            value,
            client_flags: 0,
            expire: Expire::Never,
            compare: None,
            invalidate: false,
            token: None,
            vivify: None,
            want_token: false,
        }
    }
}

/// New bytes for a part of a value.
#[derive(Clone, Copy, Debug)]
pub struct Patch<'v> {
    /// The offset of the part in the value, in bytes.
    pub at: u64,
    /// The new bytes of the part, at least one.
    pub bytes: &'v [u8],
}

/// The result of patches of a large value that write only one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patched {
    Done,
    /// The head or the piece has changed. Nothing was changed.
    Stale,
    /// The patches change several pieces, or must write the whole value for another reason. Nothing was changed.
    Unfit,
}

/// The maximum number of patches of one change.
pub const PATCHES_MAX: usize = 16;

/// The result of a [`Put`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The value was stored.
    Stored {
        /// The new item's CAS token if it was wanted, else 0.
        token: u64,
        /// The length of the whole value after this request, in bytes, including the old value of an `Append` or
        /// `Prepend`.
        bytes: u64,
    },
    /// The mode's condition did not hold.
    NotStored,
    /// The item's CAS token differs from `compare`.
    Exists,
    /// `compare` was given and the key has no item.
    NotFound,
    /// The existing item is typed: no bytes can be appended or prepended to it.
    WrongType,
}

/// One deletion request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delete {
    /// If given, act only if the item's CAS token equals this token.
    pub compare: Option<u64>,
    /// Mark the item stale instead of removing it; its CAS token changes.
    pub mark_stale: bool,
    /// With `mark_stale`: the item's new expiry.
    pub expire: Option<Expire>,
    /// Remove the value (and client flags) but keep the item.
    pub drop_value: bool,
    /// With `mark_stale` or `drop_value`: the CAS token to give the item.
    pub token: Option<u64>,
    /// Change nothing if the value is typed ([`DeleteOutcome::Typed`]).
    pub spares_typed: bool,
}

/// The result of a [`Delete`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// The item was removed, marked stale or emptied, as requested.
    Deleted,
    /// There was no item.
    NotFound,
    /// There was no item for clients, because it had expired. The delete has removed it, before the background did.
    Expired,
    /// The item's CAS token differs from `compare`.
    Exists,
    /// The value is typed, and the delete spares it.
    Typed,
}

/// One arithmetic request.
#[derive(Clone, Copy, Debug)]
pub struct Arith {
    /// Number to add or to subtract.
    pub delta: u64,
    /// Subtract, and stop at 0; if false, add, and wrap at 2^64.
    pub decrement: bool,
    /// If the key has no item: store this number with this expiry (`delta` is not applied).
    pub vivify: Option<(u64, Expire)>,
    /// The item's new expiry.
    pub expire: Option<Expire>,
    /// If given, act only if the item's CAS token equals this token.
    pub compare: Option<u64>,
    /// The CAS token to give the item.
    pub token: Option<u64>,
    /// Report the item's CAS token.
    pub want_token: bool,
}

/// The result of an [`Arith`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithOutcome {
    /// The number is now `value`.
    Number {
        /// The number after the operation.
        value: u64,
        /// The CAS token if it was wanted, else 0.
        token: u64,
        /// Expiry of the item before this operation; `None` if this operation created it.
        expire_before: Option<Expire>,
        /// Expiry of the item.
        expire: Expire,
    },
    /// There was no item, and `vivify` was not given.
    NotFound,
    /// The value is not an unsigned decimal number of 64 bits.
    NotNumber,
    /// The item's CAS token differs from `compare`.
    Exists,
}

/// The side effects of a meta get.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fetch {
    /// Give the item this expiry.
    pub touch: Option<Expire>,
    /// On a miss, store an empty item with this expiry and win the right to fill it.
    pub vivify: Option<Expire>,
    /// Win the right to refill if the item expires in less than this number of milliseconds.
    pub recache_below_ms: Option<u64>,
    /// The CAS token of an item that `vivify` creates.
    pub token: Option<u64>,
    /// Give the item an exact CAS token, which changes with every later write.
    pub want_token: bool,
    /// Begin to record the time of the last access and whether the item was fetched.
    pub want_access: bool,
    /// Do not count this fetch as an access (frequency, last access, fetched).
    pub no_bump: bool,
}

/// The state of the right to fill an item that is missing, stale or about to expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// No caller has the right to fill the item.
    None,
    /// This caller has just won the right to fill.
    Won,
    /// Another caller has the right to fill the item.
    AlreadyWon,
}

/// The result of a [`Fetch`]. The item has the state after the fetch's side effects, except that `fetched` and
/// `last_access` have the values from before.
#[derive(Clone, Copy, Debug)]
pub struct Fetched<'t> {
    /// The item.
    pub item: Item<'t>,
    /// State of the right to fill the item.
    pub lease: Lease,
    /// True if this fetch created the item.
    pub vivified: bool,
    /// Expiry of the item before this fetch; `Never` if this fetch created it.
    pub expire_before: Expire,
}

/// A value as the store holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'t> {
    /// The bytes, readable until the guard ends.
    Bytes(&'t [u8]),
    /// An unsigned number, which clients see as its decimal digits.
    Integer(u64),
    /// A value in pieces; see `LargeValues::pin`.
    Large(LargeRef),
    /// A value with parts, stored by [`crate::Replacement::Typed`]. Readable until the guard ends.
    Typed {
        /// The value's type; opaque to the store.
        kind: u8,
        /// Data of the caller, opaque to the store.
        bytes: &'t [u8],
    },
}

/// A reference to a large value, which is stored as an object of pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeRef {
    /// The object number, with which the pieces' hidden keys begin.
    pub object: u64,
    /// The length of all pieces together, in bytes.
    pub bytes: u64,
    /// The number of pieces that were replaced by a change of the value, modulo 2^24.
    pub revision: u32,
}

impl LargeRef {
    /// Returns a number that identifies the object and its revision.
    pub fn identity(&self) -> u64 {
        // Object numbers are consecutive, so their high bits are 0.
        self.object.rotate_left(24) ^ u64::from(self.revision)
    }
}

/// An item as one read saw it. The item is borrowed from the guard: its memory is not reused before the guard ends.
#[derive(Clone, Copy, Debug)]
pub struct Item<'t> {
    /// The key's bytes.
    pub key: &'t [u8],
    /// The value.
    pub value: Value<'t>,
    /// Data of the caller, opaque to the store.
    pub client_flags: u32,
    /// Expiry of the item.
    pub expire: Expire,
    /// The item's CAS token. The token is exact only if a `gets` or `want_token` requested it; otherwise it is the
    /// token that a `gets` would return now.
    pub token: u64,
    /// True if the item was read before.
    pub fetched: bool,
    /// Time of the last read or write, to the second. If no request has asked for access times before, it is the
    /// creation time of the item's segment.
    pub last_access: UnixMillis,
    /// True if the item is stale: readable, but a client should refill it.
    pub stale: bool,
    /// The item's size in the store, in bytes, header and padding included.
    pub stored_bytes: u64,
    /// The TTL class of the item's segment.
    pub ttl_class: u8,
}

impl Item<'_> {
    /// Returns the value's length as a client sees it, in bytes.
    pub fn value_len(&self) -> u64 {
        self.value.client_bytes()
    }

    /// Returns [`Item::stored_bytes`], and the bytes of the pieces of a large value.
    pub fn bytes_with_pieces(&self) -> u64 {
        self.stored_bytes + if let Value::Large(large) = self.value { large.bytes } else { 0 }
    }
}

impl Value<'_> {
    /// Returns the value's length as a client sees it, in bytes.
    #[inline]
    pub fn client_bytes(&self) -> u64 {
        match self {
            Value::Bytes(bytes) | Value::Typed { bytes, .. } => bytes.len() as u64,
            Value::Integer(number) => decimal_len(*number),
            Value::Large(large) => large.bytes,
        }
    }
}

/// Returns the number of decimal digits of `number`.
pub const fn decimal_len(number: u64) -> u64 {
    match number.checked_ilog10() {
        Some(log) => log as u64 + 1,
        None => 1,
    }
}

/// The reason why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpError {
    /// A lock is held or no segment is free. Nothing was changed: park the operation, end the guard, and retry the
    /// operation in the next guard.
    Parked,
    /// The key and the value together exceed the maximum item size.
    TooLarge,
    /// No item can be evicted to make room: every segment is open or pinned.
    OutOfMemory,
}

impl std::fmt::Display for OpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Parked => "the operation must wait for a lock or for memory",
            Self::TooLarge => "object too large for cache",
            Self::OutOfMemory => "out of memory storing object",
        })
    }
}

impl std::error::Error for OpError {}
