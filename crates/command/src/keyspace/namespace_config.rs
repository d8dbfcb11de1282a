//! The configuration of a namespace.

use segment::Terms;

/// The maximum number of bytes of a name.
pub const NAME_BYTES_MAX: usize = 63;

/// The configuration of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceConfig {
    /// The name: 1 to [`NAME_BYTES_MAX`] bytes, not a number.
    pub name: String,
    /// The number, less than [`segment::Namespace::MAX`].
    pub number: u8,
    /// Its own memory, in bytes; `None`: it shares that of the default namespace.
    pub memory_bytes: Option<u64>,
    /// True if items are evicted to make room. Otherwise an item that does not fit is refused.
    pub evict: bool,
    /// Default time to live of an item that is stored without one, in ms; 0: none.
    pub ttl_default_ms: u64,
    /// The longest time to live, in ms; 0: any.
    pub ttl_max_ms: u64,
    /// The maximum number of connections at once; 0: as many as the server has.
    pub connections_max: u64,
    /// The maximum number of operations per second; 0: unlimited.
    pub ops_max: u64,
    /// Key prefixes: a key of a memcached connection of a default listener is in this namespace if it begins with one
    /// of these.
    pub prefixes: Vec<String>,
}

impl NamespaceConfig {
    /// Returns the terms that the store enforces for it.
    pub fn terms(&self) -> Terms {
        Terms {
            memory_bytes: self.memory_bytes,
            keeps: !self.evict,
            ttl_default_ms: self.ttl_default_ms,
            ttl_max_ms: self.ttl_max_ms,
        }
    }
}

impl NamespaceConfig {
    /// Returns the configuration of a namespace without a name or limits.
    pub fn plain(number: u8, evict: bool) -> Self {
        Self {
            name: number.to_string(),
            number,
            memory_bytes: None,
            evict,
            ttl_default_ms: 0,
            ttl_max_ms: 0,
            connections_max: 0,
            ops_max: 0,
            prefixes: Vec::new(),
        }
    }
}
