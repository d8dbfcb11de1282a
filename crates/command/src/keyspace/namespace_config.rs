//! The configuration of a namespace.

use segment::Terms;

/// The maximum length of a namespace's name, in bytes.
pub const NAME_BYTES_MAX: usize = 63;

/// The configuration of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceConfig {
    /// The name: 1 to [`NAME_BYTES_MAX`] bytes. It must not be a number.
    pub name: String,
    /// The number, which is less than [`segment::Namespace::MAX`].
    pub number: u8,
    /// The memory reserved for the namespace, in bytes. `None`: it shares the memory of the default namespace.
    pub memory_bytes: Option<u64>,
    /// True if the store evicts items to make room for new ones. If false, the store refuses an item that does not fit.
    pub evict: bool,
    /// The time to live of items that are stored without a time to live, in ms. If 0, these items never expire.
    pub ttl_default_ms: u64,
    /// The maximum time to live, in ms. 0: unlimited.
    pub ttl_max_ms: u64,
    /// The maximum number of open connections. 0: only the server's limit applies.
    pub connections_max: u64,
    /// The maximum number of operations per second. 0: unlimited.
    pub ops_max: u64,
    /// Key prefixes. On the default memcached listeners, a key that begins with one of these prefixes is in this
    /// namespace.
    pub prefixes: Vec<String>,
}

impl NamespaceConfig {
    /// Returns the terms that the store enforces for the namespace.
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
