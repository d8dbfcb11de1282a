//! Starting and stopping a server inside this process.

use io::listen::ListenAddr;
use std::time::Duration;

/// What a server is started with. All sizes are bytes.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where the memcached protocol is served. At least one.
    pub memcached: Vec<ListenAddr>,
    /// Where the admin port listens, if anywhere.
    pub admin: Option<std::net::SocketAddr>,
    /// Heap and index of the store, and the connections' buffers on top of them; see [`ServerConfig::buffer_bytes`].
    pub memory_bytes: u64,
    /// Worker threads.
    pub workers: usize,
    /// The CPUs that the workers are pinned to, one after another and round again; empty: not pinned.
    pub pin: Vec<usize>,
    /// Connections at once; the next one is refused.
    pub connections_max: usize,
    /// A connection that sent nothing for so long is closed.
    pub idle_timeout: Option<Duration>,
    /// A connection that takes nothing of its output for so long is dropped; so is one that holds back half a request
    /// for so long while others wait for its buffer.
    pub stall_timeout: Duration,
    /// How long a stop waits for requests in flight before it closes their connections.
    pub stop_timeout: Duration,
    /// Longest item, key and value.
    pub item_bytes_max: u64,
    /// Size of a segment; `None`: from the memory's size.
    pub segment_bytes: Option<u32>,
    /// Seed of the store's hash; `None`: random.
    pub hash_seed: Option<u64>,
    /// Ask for huge pages.
    pub huge_pages: bool,
    /// The `shutdown` command is obeyed.
    pub shutdown_command: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            memcached: vec![ListenAddr::Tcp(([127, 0, 0, 1], 11211).into())],
            admin: None,
            memory_bytes: 64 << 20,
            workers: 1,
            pin: Vec::new(),
            connections_max: 4096,
            idle_timeout: None,
            stall_timeout: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(10),
            item_bytes_max: 1 << 20,
            segment_bytes: None,
            hash_seed: None,
            huge_pages: true,
            shutdown_command: false,
        }
    }
}
