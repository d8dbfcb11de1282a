//! The configuration of a server, and the reasons why a server cannot start.

use crate::config::kinds::{FlashPlace, IoChoice};
use crate::log::audit::AuditConfig;
use command::clients::endpoint::{Endpoint, Protocol};
use command::config::{PasswordHash, WORKERS_MAX};
use command::keyspace::graph_commits::GraphSync;
use command::keyspace::namespace_config::NamespaceConfig;
use command::push::notify::KeyEvents;
use command::resp::acl::FileError;
use io::listen::ListenAddr;
use segment::{IndexPlace, StoreConfig};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The configuration of TLS.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// The certificates, versions and ciphers.
    pub settings: tls::TlsSettings,
    /// The limits of handshakes.
    pub limits: tls::HandshakeLimits,
}

/// The configuration of a server. All sizes are in bytes.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The listening addresses for the memcached protocol.
    pub memcached: Vec<ListenAddr>,
    /// The listening addresses for the Redis protocol. The two lists together have at least one address.
    pub resp: Vec<ListenAddr>,
    /// The file that the settings were read from, for persisting changes.
    pub config_file: Option<std::path::PathBuf>,
    /// Additional listeners, for the keys of other namespaces.
    pub endpoints: Vec<(Endpoint, ListenAddr)>,
    /// The certificates and limits of the listeners with TLS.
    pub tls: Option<TlsConfig>,
    /// The configured namespaces.
    pub namespaces: Vec<NamespaceConfig>,
    /// The address of the admin port, if there is an admin port.
    pub admin: Option<std::net::SocketAddr>,
    /// The memory of the store's heap and index, in bytes. The connections' buffers need further memory: at most
    /// [`crate::buffers::BYTES_A_WORKER_MAX`] for each worker. With io_uring, [`io::uring::BYTES_MAX`] for each worker
    /// and 128 bytes for each connection are needed too.
    pub memory_bytes: u64,
    /// The upper bound of `memory_bytes` while the server runs; a smaller value counts as `memory_bytes`. The server
    /// reserves address space for it, but no memory.
    pub memory_bytes_max: u64,
    /// The number of worker threads.
    pub workers: usize,
    /// The reactor with which the workers wait for their sockets.
    pub io: IoChoice,
    /// The CPUs that the workers are pinned to, round robin. If the list is empty, workers are not pinned.
    pub pin: Vec<usize>,
    /// The time for which a worker polls its sockets before it sleeps.
    pub busy_poll: Duration,
    /// The maximum number of connections at once. Further connections are refused.
    pub connections_max: usize,
    /// The time without received bytes after which a connection is closed.
    pub idle_timeout: Option<Duration>,
    /// The time after which a stalled connection is closed. It is stalled if its client reads nothing of its output, or
    /// if it holds an incomplete request while others wait for its buffer.
    pub stall_timeout: Duration,
    /// The time in which a client has to authenticate, if the server requires it. Zero: any time.
    pub login_timeout: Duration,
    /// The maximum number of connections from one address. 0: no limit.
    pub source_connections_max: u64,
    /// The time without packets after which the kernel asks the peer of a TCP connection whether it is still there.
    /// Zero: the kernel's default.
    pub tcp_keepalive: Duration,
    /// The time for which a stop waits for requests in flight before it closes their connections.
    pub stop_timeout: Duration,
    /// The maximum size of an item (key and value together), in bytes.
    pub item_bytes_max: u64,
    /// The size of a segment, in bytes; `None`: derived from the memory size.
    pub segment_bytes: Option<u32>,
    /// The seed of the store's hash; `None`: random.
    pub hash_seed: Option<u64>,
    /// True if the store requests huge pages.
    pub huge_pages: bool,
    /// True if the `shutdown` command is enabled.
    pub shutdown_command: bool,
    /// True if IPv6 listeners accept no IPv4 clients.
    pub ipv6_only: bool,
    /// The number of connections that may wait in the kernel to be accepted, for each address.
    pub backlog: i32,
    /// The number of requests of one session that are served before the other sessions, at most
    /// [`command::visit::progress::OPS_A_BATCH`].
    pub requests_a_visit: usize,
    /// The file of users and their secrets. Without this file, every client may use the server.
    pub auth_file: Option<std::path::PathBuf>,
    /// The file that users of the Redis protocol and their rights are read from and written to.
    pub acl_file: Option<std::path::PathBuf>,
    /// The hash under which new passwords of Redis users are stored.
    pub password_hash: PasswordHash,
    /// The audit log, if there is one.
    pub audit: Option<AuditConfig>,
    /// True if items are evicted to make room. Otherwise an item that does not fit is refused.
    pub evict: bool,
    /// The file that contains the store's memory. Without it, the memory belongs to the process.
    pub file: Option<std::path::PathBuf>,
    /// The place of the index, for a store with a memory file.
    pub file_index: IndexPlace,
    /// The interval at which the whole memory file is flushed to disk, to survive a power loss.
    pub checkpoint: Option<Duration>,
    /// True if the existing contents of the memory file are discarded at start.
    pub file_reset: bool,
    /// True if memory without a file can be taken over by another process.
    pub upgradable: bool,
    /// The devices and files that evicted items are written to.
    pub flash: Vec<FlashPlace>,
    /// True if flash devices are reset at start. All their contents are lost, including another owner's data.
    pub flash_reset: bool,
    /// The mean size of an item on flash, in bytes.
    pub flash_item_bytes: u64,
    /// The number of bytes that may be written to devices per day; 0: no limit.
    pub flash_writes_a_day_bytes: u64,
    /// True if requests are counted by key prefix from the start.
    pub prefix_stats: bool,
    /// The delimiter that ends a prefix.
    pub prefix_delimiter: u8,
    /// True if items have CAS tokens. Otherwise the token of every item is reported as 0 and never matches.
    pub cas: bool,
    /// True if the `flush_all` command is enabled.
    pub flush_command: bool,
    /// True if commands that list keys are enabled.
    pub dump_command: bool,
    /// True if the `watch` command is enabled.
    pub watch_command: bool,
    /// True if Redis clients on other hosts must authenticate.
    pub protected: bool,
    /// True if memcached clients on other hosts need not authenticate, unless the server requires it of all clients.
    pub unprotected: bool,
    /// The Redis commands that are disabled, in lower case.
    pub disabled: Vec<String>,
    /// True if the Redis command `DEBUG` is enabled.
    pub debug_command: bool,
    /// The file with the key that signs tokens; `None` for a random key.
    pub token_key_file: Option<std::path::PathBuf>,
    /// The memory of the graph store, in bytes; 0: there is none.
    pub graph_memory_bytes: u64,
    /// The file with the memory of the graph store; `None`: it ends with the server.
    pub graph_file: Option<std::path::PathBuf>,
    /// The time at which changes of graphs are committed to the disk of their file.
    pub graph_sync: GraphSync,
    /// The time, in seconds, for which removed edges retain their effect on older additions.
    pub graph_tombstone_age_s: u32,
    /// True if gRPC calls may ask for faults.
    pub test_faults: bool,
    /// The key events that are published.
    pub key_events: KeyEvents,
    /// The maximum number of message bytes that wait for one subscriber. The connection of a subscriber with more
    /// waiting bytes is closed.
    pub subscriber_backlog_bytes: u64,
    /// The maximum number of bytes that connections hold outside the store. `None`: a share of the size of the store,
    /// see [`command::memory::budget::Budget::auto`].
    pub client_memory_bytes: Option<u64>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            memcached: vec![ListenAddr::Tcp(([127, 0, 0, 1], 11211).into())],
            resp: Vec::new(),
            config_file: None,
            endpoints: Vec::new(),
            tls: None,
            namespaces: Vec::new(),
            admin: None,
            memory_bytes: 64 << 20,
            memory_bytes_max: 1 << 30,
            workers: 1,
            io: IoChoice::Auto,
            pin: Vec::new(),
            busy_poll: Duration::ZERO,
            connections_max: 4096,
            idle_timeout: None,
            stall_timeout: Duration::from_secs(30),
            login_timeout: Duration::ZERO,
            source_connections_max: 0,
            tcp_keepalive: Duration::ZERO,
            stop_timeout: Duration::from_secs(10),
            item_bytes_max: 1 << 20,
            segment_bytes: None,
            hash_seed: None,
            huge_pages: true,
            shutdown_command: false,
            ipv6_only: false,
            backlog: io::listen::BACKLOG,
            requests_a_visit: command::visit::progress::OPS_A_BATCH,
            auth_file: None,
            acl_file: None,
            password_hash: PasswordHash::default(),
            audit: None,
            evict: true,
            file: None,
            file_index: IndexPlace::File,
            checkpoint: None,
            file_reset: false,
            upgradable: false,
            flash: Vec::new(),
            flash_reset: false,
            flash_item_bytes: 512,
            flash_writes_a_day_bytes: 0,
            prefix_stats: false,
            prefix_delimiter: b':',
            cas: true,
            flush_command: true,
            dump_command: true,
            watch_command: true,
            protected: true,
            unprotected: false,
            disabled: Vec::new(),
            debug_command: false,
            graph_memory_bytes: 0,
            graph_sync: GraphSync::Never,
            graph_tombstone_age_s: 3600,
            graph_file: None,
            test_faults: false,
            token_key_file: None,
            key_events: KeyEvents::default(),
            subscriber_backlog_bytes: 8 << 20,
            client_memory_bytes: None,
        }
    }
}

impl ServerConfig {
    /// Returns the configuration with the bound addresses: each port 0 is replaced by the port that the kernel chose.
    /// `addrs` are in the order of [`super::Running::addrs`].
    #[must_use]
    pub fn at(mut self, addrs: &[ListenAddr]) -> Self {
        let endpoints = self.endpoints.iter_mut().map(|(_, addr)| addr);
        for (asked, had) in self.memcached.iter_mut().chain(&mut self.resp).chain(endpoints).zip(addrs) {
            asked.clone_from(had);
        }
        self
    }

    /// Returns the maximum number of connections of one worker. The acceptor selects the least loaded worker, so an
    /// even share with a small margin is never exceeded.
    pub(crate) fn sessions_max(&self) -> usize {
        self.connections_max.div_ceil(self.workers) + 1
    }
}

/// The reason why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// The configuration cannot be satisfied.
    Config(&'static str),
    /// An address could not be bound.
    Bind {
        /// The protocol that the address is for.
        protocol: Protocol,
        /// The address that could not be bound.
        addr: ListenAddr,
        /// The kernel's reason.
        error: std::io::Error,
    },
    /// The file of users cannot be loaded.
    Auth {
        /// The path of the file or device.
        path: std::path::PathBuf,
        /// The cause.
        error: command::clients::auth::AuthError,
    },
    /// The key that signs tokens cannot be loaded.
    TokenKey {
        /// The path of the file.
        path: std::path::PathBuf,
        /// The cause.
        error: command::clients::tokens::KeyError,
    },
    /// The file of users and rights cannot be loaded.
    Rights {
        /// The path of the file or device.
        path: std::path::PathBuf,
        /// The cause.
        error: FileError,
    },
    /// The file of the audit log cannot be opened.
    Audit {
        /// The path of the file.
        path: std::path::PathBuf,
        /// The kernel's reason.
        error: std::io::Error,
    },
    /// The store refused the settings of a namespace, such as its quota.
    Namespace {
        /// The name of the namespace.
        name: String,
        /// The cause.
        error: segment::TermsError,
    },
    /// The configured number of a namespace differs from its number in the memory file.
    NamespaceMoved {
        /// The name of the namespace.
        name: String,
        /// The namespace number in the memory file.
        kept: u8,
        /// The configured namespace number.
        asked: u8,
    },
    /// The certificates or other settings of TLS cannot be used.
    Tls(Vec<tls::SettingError>),
    /// The store could not be created.
    Store(segment::StartError),
    /// The memory file cannot be opened.
    File {
        /// The path of the file or device.
        path: std::path::PathBuf,
        /// The cause.
        error: arena::OpenError,
    },
    /// The graph store cannot be opened.
    Graphs {
        /// The path of the file.
        path: std::path::PathBuf,
        /// The cause and the remedy.
        what: String,
    },
    /// A device of the second tier cannot be used.
    Flash {
        /// The path of the file or device.
        path: std::path::PathBuf,
        /// The cause.
        error: flash::OpenError,
    },
    /// No file descriptor is left, or no thread could be created.
    Resource(std::io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(fault) => f.write_str(fault),
            Self::Bind { addr, error, .. } => write!(f, "cannot listen on {addr}: {error}"),
            Self::TokenKey { path, error } => {
                write!(f, "cannot load the key of tokens in {} (--token-key): {error}", path.display())
            }
            Self::Auth { path, error } => write!(f, "cannot load the users of {}: {error}", path.display()),
            Self::Rights { path, error } => write!(f, "cannot load the users of {}: {error}", path.display()),
            Self::Audit { path, error } => write!(f, "cannot open the audit log {}: {error}", path.display()),
            Self::Namespace { name, error } => write!(f, "cannot create the namespace {name}: {error}"),
            Self::NamespaceMoved { name, kept, asked } => {
                write!(f, "the items of the namespace {name} are under number {kept}, not {asked}")
            }
            Self::Tls(faults) => {
                let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("; "))
            }
            Self::Store(error) => write!(f, "cannot create the store: {error}"),
            Self::File { path, error } => write!(f, "cannot open the memory file {}: {error}", path.display()),
            Self::Graphs { path, what } => write!(f, "cannot open the graphs in {}: {what}", path.display()),
            Self::Flash { path, error } => write!(f, "cannot use {} for items on flash: {error}", path.display()),
            Self::Resource(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<command::keyspace::metadata::NumberDiffers> for StartError {
    fn from(differs: command::keyspace::metadata::NumberDiffers) -> Self {
        let command::keyspace::metadata::NumberDiffers { name, kept, asked } = differs;
        Self::NamespaceMoved { name, kept, asked }
    }
}

impl From<std::io::Error> for StartError {
    fn from(error: std::io::Error) -> Self {
        Self::Resource(error)
    }
}

/// The number of store handles in addition to the workers'. The admin port, tools in this process, and the thread that
/// enters stored records into secondary indexes use them.
pub const SPARE_HANDLES: usize = 3;

/// Returns the address of every listener, with the protocol and namespace of its clients.
pub(crate) fn endpoints(config: &ServerConfig) -> Vec<(Endpoint, ListenAddr)> {
    let of = |addrs: &[ListenAddr], protocol: Protocol| {
        addrs.iter().map(|addr| (Endpoint::from(protocol), addr.clone())).collect::<Vec<_>>()
    };
    [of(&config.memcached, Protocol::Memcache), of(&config.resp, Protocol::Resp), config.endpoints.clone()].concat()
}

pub(crate) fn check(config: &ServerConfig) -> Result<(), StartError> {
    if endpoints(config).is_empty() {
        return Err(StartError::Config("no address to listen on"));
    }
    if config.tls.is_none() && endpoints(config).iter().any(|(endpoint, _)| endpoint.is_tls) {
        return Err(StartError::Config("a listener uses TLS, but there is no certificate"));
    }
    if config.workers == 0 || config.workers > WORKERS_MAX {
        return Err(StartError::Config("the number of workers must be from 1 to 128"));
    }
    if !(1..=command::visit::progress::OPS_A_BATCH).contains(&config.requests_a_visit) {
        return Err(StartError::Config("the number of requests a visit must be from 1 to 64"));
    }
    if config.connections_max == 0 {
        return Err(StartError::Config("at least one connection must be allowed"));
    }
    Ok(())
}

/// Returns the greatest number of workers, at most that of `config`, whose open segments fit into the store's memory.
/// Returns at least 1.
pub fn workers_that_fit(config: &ServerConfig) -> usize {
    let store = store_config(config);
    let fits = |workers: &usize| store.has_room_for(workers + SPARE_HANDLES);
    (1..=config.workers).rev().find(fits).unwrap_or(1)
}

pub(crate) fn store_config(config: &ServerConfig) -> StoreConfig {
    StoreConfig {
        memory_bytes: config.memory_bytes,
        memory_bytes_max: config.memory_bytes_max,
        segment_bytes: config.segment_bytes,
        item_bytes_max: config.item_bytes_max,
        handles_max: config.workers + SPARE_HANDLES,
        hash_seed: config.hash_seed.unwrap_or_else(|| RandomState::new().hash_one(0)),
        huge_pages: config.huge_pages,
    }
}
