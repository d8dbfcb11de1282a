//! A copied item: a key with its value, flags and expiry.

use std::collections::BTreeMap;

use base::clock::UnixMillis;

/// Assumed overhead of an item in bytes, for limits on memory.
const OVERHEAD_BYTES: u64 = 64;

/// A field of a hash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HashField {
    /// The name.
    pub name: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// Time at which the field expires, by this host's clock. `None` if it does not expire, or if the source has no
    /// such times.
    pub expire_at: Option<UnixMillis>,
}

impl HashField {
    /// Returns a field that does not expire.
    pub const fn new(name: Vec<u8>, value: Vec<u8>) -> Self {
        Self { name, value, expire_at: None }
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyValue {
    /// A string.
    Bytes(Vec<u8>),
    /// A hash: its fields.
    Hash(Vec<HashField>),
    /// A value of another Redis type: the type's name, and its serialised form from `DUMP`.
    Dump(String, Vec<u8>),
    /// A value of another Redis type, for comparison: the type's name, and its elements.
    Elements(String, Vec<Vec<u8>>),
}

impl KeyValue {
    /// Returns the bytes of the value.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) | Self::Dump(_, bytes) => bytes.len() as u64,
            Self::Hash(fields) => fields.iter().map(|field| (field.name.len() + field.value.len()) as u64).sum(),
            Self::Elements(_, elements) => elements.iter().map(|element| element.len() as u64).sum(),
        }
    }

    /// Returns whether both values are equal. The order of a hash's fields and their expiries do not matter.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Hash(fields), Self::Hash(others)) => {
                let sorted = |fields: &[HashField]| {
                    let mut fields: Vec<_> =
                        fields.iter().map(|field| (field.name.clone(), field.value.clone())).collect();
                    fields.sort_unstable();
                    fields.dedup();
                    fields
                };
                sorted(fields) == sorted(others)
            }
            (value, other) => value == other,
        }
    }

    /// Returns the number of fields that expire by themselves; 0 for other types.
    pub fn expiring_fields(&self) -> u64 {
        match self {
            Self::Hash(fields) => fields.iter().filter(|field| field.expire_at.is_some()).count() as u64,
            _ => 0,
        }
    }

    /// Returns the number of fields of both values whose expiries differ by more than `ms` milliseconds.
    pub fn other_field_expiries(&self, other: &Self, ms: u64) -> u64 {
        let (Self::Hash(fields), Self::Hash(others)) = (self, other) else { return 0 };
        let times: BTreeMap<&[u8], Option<UnixMillis>> =
            others.iter().map(|field| (field.name.as_slice(), field.expire_at)).collect();
        let differs = |field: &&HashField| match (field.expire_at, times.get(field.name.as_slice())) {
            (_, None) | (None, Some(None)) => false,
            (Some(at), Some(Some(other))) => at.0.abs_diff(other.0) > ms,
            (Some(_), Some(None)) | (None, Some(Some(_))) => true,
        };
        fields.iter().filter(differs).count() as u64
    }
}

/// A key with its value, flags and expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: KeyValue,
    /// Flags that a memcached client stored with the value; 0 if the source has no flags.
    pub client_flags: u32,
    /// Time at which the item expires, by this host's clock.
    pub expire_at: Option<UnixMillis>,
    /// Maximum delay from `expire_at` to the actual expiry, in milliseconds. If the source reported a time to live,
    /// the delay is the time from the request to its reply.
    pub expire_slack_ms: u64,
}

impl Item {
    /// Returns the bytes that the item counts for in limits on memory.
    pub fn weight(&self) -> u64 {
        self.key.len() as u64 + self.value.bytes() + OVERHEAD_BYTES
    }
}

/// Outcome of reading a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The item.
    Item(Item),
    /// The key was evicted, was deleted or has expired since it was listed.
    Gone,
    /// The key's value cannot be read or copied, for this reason.
    Unfit(String),
}
