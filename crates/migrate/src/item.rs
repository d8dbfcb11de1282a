//! A copied item: a key with its value, flags and expiry.

use base::clock::UnixMillis;

/// Assumed overhead of an item in bytes, for limits on memory.
const OVERHEAD_BYTES: u64 = 64;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyValue {
    /// A string.
    Bytes(Vec<u8>),
    /// A hash: fields with their values.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
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
            Self::Hash(fields) => fields.iter().map(|(field, value)| (field.len() + value.len()) as u64).sum(),
            Self::Elements(_, elements) => elements.iter().map(|element| element.len() as u64).sum(),
        }
    }

    /// Returns whether both values are equal. The order of a hash's fields does not matter.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Hash(fields), Self::Hash(others)) => {
                let sorted = |fields: &[(Vec<u8>, Vec<u8>)]| {
                    let mut fields = fields.to_vec();
                    fields.sort_unstable();
                    fields.dedup();
                    fields
                };
                sorted(fields) == sorted(others)
            }
            (value, other) => value == other,
        }
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
