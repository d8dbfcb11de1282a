//! What is copied: a key with its value, flags and expiry.

use base::clock::UnixMillis;

/// Bytes that an item costs beside its key and value, where batches are measured.
const OVERHEAD_BYTES: u64 = 64;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyValue {
    /// A string.
    Bytes(Vec<u8>),
    /// A hash: fields with their values.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// Another type of Redis: its name, and its serialized form as `DUMP` gives it.
    Dump(String, Vec<u8>),
    /// Another type of Redis, to be compared: its name, and its elements as its own command lists them.
    Elements(String, Vec<Vec<u8>>),
}

impl KeyValue {
    /// Bytes of the value.
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

/// A key with all that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: KeyValue,
    /// Flags that memcached's client stored with the value; 0 if the source has no flags.
    pub client_flags: u32,
    /// Time at which the item expires, by this host's clock.
    pub expire_at: Option<UnixMillis>,
    /// Largest delay of the expiry after `expire_at`, in milliseconds: the duration of the answer, if a time to live
    /// was reported.
    pub expire_slack_ms: u64,
}

impl Item {
    /// Bytes that it counts for where memory is bounded.
    pub fn weight(&self) -> u64 {
        self.key.len() as u64 + self.value.bytes() + OVERHEAD_BYTES
    }
}

/// Outcome of reading a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Here it is.
    Item(Item),
    /// It was evicted, deleted or has expired since its name was known.
    Gone,
    /// The other side has no place for it: why.
    Unfit(String),
}
