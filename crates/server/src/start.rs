//! Starting and stopping a server inside this process.

use crate::config::kinds::{FlashPlace, IoChoice};
use crate::handover::Estate;
use crate::running::Doors;
use crate::shared::Shared;
use crate::threads::Threads;
use crate::tier::Tiered;
use arena::MapFile;
use base::clock::UnixMillis;
use command::clients::auth::Auth;
use command::clients::connection_table::ConnectionTable;
use command::clients::endpoint::{Endpoint, Protocol};
use command::config::{Address, Config};
use command::keyspace::delayed_flush::DelayedFlush;
use command::keyspace::metadata::Kept;
use command::keyspace::namespace_config::NamespaceConfig;
use command::keyspace::namespaces::Namespaces;
use command::keyspace::prefixes::Prefixes;
use command::memory::budget::Budget;
use command::memory::pins::PinBudget;
use command::metrics::Recorder;
use command::metrics::background::BackgroundCounters;
use command::metrics::command_counters::{CommandCounters, CommandShared};
use command::metrics::counters::WorkerCounters;
use command::metrics::hot_keys::{HotKeys, Minutes};
use command::metrics::survey::Survey;
use command::push::mail::{Channels, Post};
use command::push::notify::KeyEvents;
use command::push::watch::Hub;
use command::resp::acl::{FileError, Users};
use command::resp::make_kept;
use command::shared::{AcceptorCounters, Clients, Live, PauseSwitch, WorkerShared};
use command::visit::clock::Origin;
use io::listen::{ListenAddr, Listener, bind_patiently};
use segment::{IndexPlace, Power, Store, StoreConfig, StoreFile};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};
use std::time::Duration;

pub use crate::running::{Ended, Prepared, Running};

pub use command::config::WORKERS_MAX;

/// The number of store handles beyond the workers': for the admin port, for tools in this process, and for the thread
/// that fills rebuilt indexes.
const LANES_SPARE: usize = 3;

/// The configuration of a server. All sizes are in bytes.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Addresses of the memcached protocol.
    pub memcached: Vec<ListenAddr>,
    /// Addresses of the Redis protocol. At least one address in all.
    pub resp: Vec<ListenAddr>,
    /// The file that the settings are from, to persist changes.
    pub config_file: Option<std::path::PathBuf>,
    /// Additional listeners, for the keys of other namespaces.
    pub endpoints: Vec<(Endpoint, ListenAddr)>,
    /// The namespaces that have names and terms.
    pub namespaces: Vec<NamespaceConfig>,
    /// Address of the admin port, if there is one.
    pub admin: Option<std::net::SocketAddr>,
    /// The memory of the store's heap and index. The connections' buffers come on top: at most
    /// [`crate::buffers::BYTES_A_WORKER_MAX`] for each worker, and with io_uring [`io::uring::BYTES_MAX`] and 128 bytes
    /// for each connection more.
    pub memory_bytes: u64,
    /// The upper bound of `memory_bytes` while the server runs; a smaller value counts as `memory_bytes`. It reserves
    /// address space, no memory.
    pub memory_bytes_max: u64,
    /// The number of worker threads.
    pub workers: usize,
    /// The reactor with which the workers wait for their sockets.
    pub io: IoChoice,
    /// The CPUs that the workers are pinned to, round robin. Empty: not pinned.
    pub pin: Vec<usize>,
    /// Time for which a worker polls its sockets before it sleeps.
    pub busy_poll: Duration,
    /// The maximum number of connections at once. Further connections are refused.
    pub connections_max: usize,
    /// The time without received bytes after which a connection is closed.
    pub idle_timeout: Option<Duration>,
    /// The time after which a stalled connection is closed: one that takes nothing of its output, or that holds an
    /// incomplete request while others wait for its buffer.
    pub stall_timeout: Duration,
    /// Time for which a stop waits for requests in flight before it closes their connections.
    pub stop_timeout: Duration,
    /// The maximum size of an item, key and value.
    pub item_bytes_max: u64,
    /// The size of a segment; `None`: derived from the memory size.
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
    /// File of users and their secrets; without it every client may use the server.
    pub auth_file: Option<std::path::PathBuf>,
    /// File that users of the Redis protocol and their rights are read from and written to.
    pub acl_file: Option<std::path::PathBuf>,
    /// True if items are evicted to make room. Otherwise an item that does not fit is refused.
    pub evict: bool,
    /// The file that holds the store's memory. Without it, the memory belongs to the process.
    pub file: Option<std::path::PathBuf>,
    /// Place of the index of a store in a file.
    pub file_index: IndexPlace,
    /// The interval at which the whole memory file is flushed to disk, to survive a power loss.
    pub checkpoint: Option<Duration>,
    /// True if the file's contents are discarded.
    pub file_reset: bool,
    /// True if memory without a file can be taken over by another process.
    pub upgradable: bool,
    /// Devices and files that evicted items go to.
    pub flash: Vec<FlashPlace>,
    /// True if flash devices are reset. All their contents are lost, also another owner's data.
    pub flash_reset: bool,
    /// The mean size of an item on flash, in bytes.
    pub flash_item_bytes: u64,
    /// Bytes that may be written to devices a day; 0: no limit.
    pub flash_writes_a_day_bytes: u64,
    /// True if requests are counted by key prefix from the start.
    pub prefix_stats: bool,
    /// The delimiter that ends a prefix.
    pub prefix_delimiter: u8,
    /// True if items have CAS tokens. Otherwise their token is reported as 0 and matches nothing.
    pub cas: bool,
    /// True if the `flush_all` command is enabled.
    pub flush_command: bool,
    /// True if commands that list keys are enabled.
    pub dump_command: bool,
    /// True if the `watch` command is enabled.
    pub watch_command: bool,
    /// True if Redis clients from other hosts are refused while no users are configured.
    pub protected: bool,
    /// The Redis commands that are disabled, in lower case.
    pub disabled: Vec<String>,
    /// True if the Redis command `DEBUG` is enabled.
    pub debug_command: bool,
    /// The key events that are published.
    pub key_events: KeyEvents,
    /// The maximum number of message bytes that wait for one subscriber. A subscriber further behind is closed.
    pub subscriber_backlog_bytes: u64,
    /// The maximum number of bytes that connections hold outside the store. `None`: a share of the store, see
    /// [`command::memory::budget::Budget::auto`].
    pub client_memory_bytes: Option<u64>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            memcached: vec![ListenAddr::Tcp(([127, 0, 0, 1], 11211).into())],
            resp: Vec::new(),
            config_file: None,
            endpoints: Vec::new(),
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
            disabled: Vec::new(),
            debug_command: false,
            key_events: KeyEvents::default(),
            subscriber_backlog_bytes: 8 << 20,
            client_memory_bytes: None,
        }
    }
}

impl ServerConfig {
    /// Returns the configuration with the addresses that were bound: a port 0 becomes the real port. `addrs` are in the
    /// order of [`Running::addrs`].
    #[must_use]
    pub fn at(mut self, addrs: &[ListenAddr]) -> Self {
        let endpoints = self.endpoints.iter_mut().map(|(_, addr)| addr);
        for (asked, had) in self.memcached.iter_mut().chain(&mut self.resp).chain(endpoints).zip(addrs) {
            asked.clone_from(had);
        }
        self
    }

    /// Returns the maximum number of connections of one worker. The acceptor selects the least loaded worker, so an
    /// even share and a small margin are never exceeded.
    pub(crate) fn sessions_max(&self) -> usize {
        self.connections_max.div_ceil(self.workers) + 1
    }
}

/// The reason why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// The configuration is impossible.
    Config(&'static str),
    /// An address could not be bound.
    Bind {
        /// The address.
        addr: ListenAddr,
        /// The kernel's reason.
        error: std::io::Error,
    },
    /// The file of users cannot be loaded.
    Auth {
        /// Path of the file.
        path: std::path::PathBuf,
        /// The cause.
        error: command::clients::auth::AuthError,
    },
    /// The file of users and rights cannot be loaded.
    Rights {
        /// Path of the file.
        path: std::path::PathBuf,
        /// The cause.
        error: FileError,
    },
    /// The store refused the terms of a namespace.
    Namespace {
        /// The namespace.
        name: String,
        /// The cause.
        error: segment::TermsError,
    },
    /// The configuration gives a namespace a number that differs from the one in the memory file.
    NamespaceMoved {
        /// The namespace.
        name: String,
        /// The number of its items in the memory file.
        kept: u8,
        /// The configured number.
        asked: u8,
    },
    /// The store could not be created.
    Store(segment::StartError),
    /// The memory file cannot be opened.
    File {
        /// Path of the file.
        path: std::path::PathBuf,
        /// The cause.
        error: arena::OpenError,
    },
    /// A device of the second tier cannot be used.
    Flash {
        /// Path of the file.
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
            Self::Bind { addr, error } => write!(f, "cannot listen on {addr}: {error}"),
            Self::Auth { path, error } => write!(f, "cannot take the users of {}: {error}", path.display()),
            Self::Rights { path, error } => write!(f, "cannot take the users of {}: {error}", path.display()),
            Self::Namespace { name, error } => write!(f, "cannot make the namespace {name}: {error}"),
            Self::NamespaceMoved { name, kept, asked } => {
                write!(f, "the items of the namespace {name} are under number {kept}, not {asked}")
            }
            Self::Store(error) => write!(f, "cannot make the store: {error}"),
            Self::File { path, error } => write!(f, "cannot open the memory file {}: {error}", path.display()),
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

/// The server.
pub struct Server;

impl Server {
    /// Binds the addresses, creates the store and starts all threads. When it returns, clients can connect.
    pub fn start(config: ServerConfig) -> Result<Running, StartError> {
        Ok(Self::prepare(config, Estate::default())?.go())
    }

    /// Prepares a server that continues what another one handed over: its memory, its connections, and its listeners
    /// that `config` also names. No client is served before [`Prepared::go`]. If the prepared server is dropped
    /// instead, the other server can resume with all of it.
    pub fn prepare(config: ServerConfig, estate: Estate) -> Result<Prepared, StartError> {
        check(&config)?;
        io::allocation::return_free_memory_early();
        let Estate { listeners: mut left, memory, index, devices, users, known, connections } = estate;
        let mut bound = |addr: &ListenAddr| match left.iter().position(|listener| listener.addr() == addr) {
            Some(at) => Ok(left.swap_remove(at)),
            None => bind(&config, addr),
        };
        let mut listeners = endpoints(&config).iter().map(|(_, addr)| bound(addr)).collect::<Result<Vec<_>, _>>()?;
        let backlog = config.backlog;
        let (shared, background) =
            assemble_in(config, Left { memory, index, devices, known, is_view: false }, UnixMillis::now())?;
        if let Some(users) = users {
            let path = shared.config.acl_file.clone().unwrap_or_default();
            shared.users.take_up(&users).map_err(|error| StartError::Rights { path, error })?;
        }
        // Not earlier: if the memory file were refused after this, connected clients would be reset.
        for listener in &mut listeners {
            let addr = listener.addr().clone();
            bind_patiently(|| listener.listen(backlog)).map_err(|error| StartError::Bind { addr, error })?;
        }
        Running::prepare(shared, background, Doors { listeners, left, connections })
    }
}

/// Binds the addresses of `config` that name a port and that `is_had` does not report as handed over.
///
/// # Errors
/// [`StartError::Bind`].
pub fn bind_ahead(config: &ServerConfig, is_had: impl Fn(&ListenAddr) -> bool) -> Result<Vec<Listener>, StartError> {
    let names_port = |addr: &ListenAddr| !matches!(addr, ListenAddr::Tcp(addr) if addr.port() == 0);
    let wanted = endpoints(config).into_iter().map(|(_, addr)| addr).filter(|addr| names_port(addr) && !is_had(addr));
    wanted.map(|addr| bind(config, &addr)).collect()
}

fn bind(config: &ServerConfig, addr: &ListenAddr) -> Result<Listener, StartError> {
    bind_patiently(|| Listener::bind(addr, config.ipv6_only))
        .map_err(|error| StartError::Bind { addr: addr.clone(), error })
}

/// Returns every listener with its protocol and namespace.
pub(crate) fn endpoints(config: &ServerConfig) -> Vec<(Endpoint, ListenAddr)> {
    let of = |addrs: &[ListenAddr], protocol: Protocol| {
        addrs.iter().map(|addr| (Endpoint::from(protocol), addr.clone())).collect::<Vec<_>>()
    };
    [of(&config.memcached, Protocol::Memcache), of(&config.resp, Protocol::Resp), config.endpoints.clone()].concat()
}

fn check(config: &ServerConfig) -> Result<(), StartError> {
    if endpoints(config).is_empty() {
        return Err(StartError::Config("no address to listen on"));
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

pub(crate) fn store_config(config: &ServerConfig) -> StoreConfig {
    StoreConfig {
        memory_bytes: config.memory_bytes,
        memory_bytes_max: config.memory_bytes_max,
        segment_bytes: config.segment_bytes,
        item_bytes_max: config.item_bytes_max,
        handles_max: config.workers + LANES_SPARE,
        hash_seed: config.hash_seed.unwrap_or_else(|| RandomState::new().hash_one(0)),
        huge_pages: config.huge_pages,
    }
}

fn load_users(config: &ServerConfig) -> Result<Option<Auth>, StartError> {
    let load =
        |path: &std::path::PathBuf| Auth::load(path).map_err(|error| StartError::Auth { path: path.clone(), error });
    config.auth_file.as_ref().map(load).transpose()
}

fn load_rights(config: &ServerConfig, budget: &Arc<Budget>) -> Result<Users, StartError> {
    let path = config.acl_file.as_deref();
    Users::new(path, config.auth_file.is_none(), budget)
        .map_err(|error| StartError::Rights { path: path.map(Into::into).unwrap_or_default(), error })
}

/// The users of a server, for the server that resumes in the same process after a failed takeover.
#[derive(Debug)]
pub struct Known {
    pub(crate) auth: Option<Arc<Auth>>,
    /// The Redis users, as lines of an ACL file.
    pub(crate) rights: Vec<u8>,
}

/// Checks that the files of users can be loaded. A new process calls it before the running server hands over.
///
/// # Errors
/// If a file cannot be loaded.
pub fn check_users(config: &ServerConfig) -> Result<(), StartError> {
    load_users(config)?;
    load_rights(config, &Budget::new(config.memory_bytes, config.client_memory_bytes)).map(drop)
}

/// The store that another server handed over.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Its memory.
    pub(crate) memory: Option<Arc<MapFile>>,
    /// A copy of its index, if the index is not in the memory file.
    pub(crate) index: Option<Arc<MapFile>>,
    /// Its devices of flash, in the order of the configuration.
    pub(crate) devices: Vec<Arc<File>>,
    /// The users of this process, so that their files are not read again.
    pub(crate) known: Option<Known>,
    /// True if the store is only read and nothing of it is changed.
    pub(crate) is_view: bool,
}

/// The store, its background, and its second tier.
pub(crate) type Opened = (Arc<Store>, segment::Background, Option<Tiered>);

fn open_store(config: &ServerConfig, left: Left, now: UnixMillis) -> Result<Opened, StartError> {
    if !config.flash.is_empty() {
        return crate::tier::open(config, &store_config(config), left, now);
    }
    let (store, background) = match memory_file(config, left.memory)? {
        None => Store::new(&store_config(config), now),
        Some(file) => Store::in_file(&store_config(config), &StoreFile { index_left: left.index, ..file }, now),
    }
    .map_err(StartError::Store)?;
    Ok((store, background, None))
}

/// Returns the file that holds the store's memory, if any: the one that was handed over, the configured one, or an
/// unnamed one that can be handed over.
pub(crate) fn memory_file(config: &ServerConfig, left: Option<Arc<MapFile>>) -> Result<Option<StoreFile>, StartError> {
    let (file, reset) = match (left, &config.file) {
        (Some(file), _) => (file, false),
        (None, Some(path)) => {
            let file = MapFile::open(path).map_err(|error| StartError::File { path: path.clone(), error })?;
            (Arc::new(file), config.file_reset)
        }
        (None, None) if config.upgradable => (Arc::new(MapFile::in_memory()?), false),
        (None, None) => return Ok(None),
    };
    let boot = arena::boot_id();
    if boot.is_none() && config.checkpoint.is_some() {
        let error =
            "the kernel does not tell its runs apart (/proc/sys/kernel/random/boot_id): leave --checkpoint away";
        return Err(std::io::Error::other(error).into());
    }
    if arena::boot_id_told().is_some() {
        tracing::warn!("{} says which run of the machine this is: that is for tests alone", arena::BOOT_ID_VARIABLE);
    }
    let power = Power { boot: boot.unwrap_or(0), checkpoints: config.checkpoint.is_some() };
    Ok(Some(StoreFile { file, reset, index: config.file_index, index_left: None, power }))
}

/// Creates the store and all that a server's threads share, and starts nothing. For [`Server::start`], and for a
/// simulation that runs the workers itself. `started` is the wall-clock time now.
pub fn assemble(config: ServerConfig, started: UnixMillis) -> Result<(Arc<Shared>, segment::Background), StartError> {
    assemble_in(config, Left::default(), started)
}

/// Returns the state of a worker that other threads see.
fn worker_shared(config: &ServerConfig) -> WorkerShared {
    WorkerShared {
        counters: WorkerCounters::default(),
        commands: std::array::from_fn(|_| CommandCounters::default()),
        recorder: Recorder::default(),
        aside: Arc::default(),
        connection_table: ConnectionTable::new(config.sessions_max()),
        hot_keys: HotKeys::default(),
        post: Post::default(),
    }
}

/// Returns the part of the configuration that commands use.
fn command_config(config: &ServerConfig) -> Config {
    let address = |addr: &ListenAddr| match addr {
        ListenAddr::Tcp(addr) => Address::Tcp(*addr),
        ListenAddr::Unix { path, mode } => Address::Unix { path: path.clone(), mode: *mode },
    };
    Config {
        memcached: config.memcached.iter().map(address).collect(),
        resp: config.resp.iter().map(address).collect(),
        workers: config.workers,
        connections_max: config.connections_max,
        idle_timeout: config.idle_timeout,
        item_bytes_max: config.item_bytes_max,
        shutdown_command: config.shutdown_command,
        backlog: config.backlog,
        requests_a_visit: config.requests_a_visit,
        acl_file: config.acl_file.clone(),
        evict: config.evict,
        prefix_delimiter: config.prefix_delimiter,
        cas: config.cas,
        flush_command: config.flush_command,
        dump_command: config.dump_command,
        watch_command: config.watch_command,
        protected: config.protected,
        disabled: config.disabled.clone(),
        debug_command: config.debug_command,
    }
}

/// Returns memcached and Redis users: `known` ones if given, else those of the files.
fn users(
    config: &ServerConfig,
    known: Option<Known>,
    budget: &Arc<Budget>,
) -> Result<(Option<Arc<Auth>>, Users), StartError> {
    let Some(Known { auth, rights }) = known else {
        return Ok((load_users(config)?.map(Arc::new), load_rights(config, budget)?));
    };
    let path = config.acl_file.as_deref();
    let refused = |error| StartError::Rights { path: path.map(Into::into).unwrap_or_default(), error };
    let users = Users::of_lines(path, config.auth_file.is_none(), budget, &rights).map_err(refused)?;
    Ok((auth, users))
}

/// Returns the initial values of the settings that a reload may change.
fn live(config: &ServerConfig) -> Live {
    Live {
        connections_max: AtomicU64::new(config.connections_max as u64),
        pause: PauseSwitch::default(),
        slow_reset_ms: AtomicU64::new(0),
        latency_reset_ms: AtomicU64::new(0),
        key_events: AtomicU32::new(0),
        idle_timeout_ms: AtomicU64::new(config.idle_timeout.map_or(0, |t| t.as_millis() as u64)),
        stall_timeout_ms: AtomicU64::new(config.stall_timeout.as_millis() as u64),
    }
}

/// Creates the store and the shared state like [`assemble`], in the memory that another server left, if there is any.
pub(crate) fn assemble_in(
    config: ServerConfig,
    left: Left,
    started: UnixMillis,
) -> Result<(Arc<Shared>, segment::Background), StartError> {
    let begun = std::time::Instant::now();
    let mut left = left;
    let known = left.known.take();
    let (store, background, tiered) = open_store(&config, left, started)?;
    let wall = started;
    let started = store.reopened().map_or(wall, |reopened| reopened.at);
    let (flash, flash_files) = tiered.map(|tiered| (tiered.flash, tiered.files)).unzip();
    let opened_in = begun.elapsed();
    if !config.evict {
        store.keep_all();
    }
    let kept = Kept::read(&store);
    let namespaces = Namespaces::kept_in(&store);
    for namespace in kept.configured(&config.namespaces)? {
        namespaces
            .set(&store, &namespace)
            .map_err(|error| StartError::Namespace { name: namespace.name.clone(), error })?;
    }
    let watch = Arc::new(Hub::default());
    let budget = Budget::new(config.memory_bytes, config.client_memory_bytes);
    let (auth, users) = users(&config, known, &budget)?;
    let channels = Channels::new(&watch, &budget, config.subscriber_backlog_bytes);
    let threads = Arc::new(Threads::new(config.workers, flash)?);
    let commands = command::shared::Shared {
        config: command_config(&config),
        host: Arc::clone(&threads) as _,
        live: live(&config),
        workers: (0..config.workers).map(|_| worker_shared(&config)).collect(),
        commands: CommandShared::default(),
        clients: Clients::default(),
        acceptor: AcceptorCounters::default(),
        background: BackgroundCounters::default(),
        survey: Survey::new(&store),
        pins: PinBudget::new(config.memory_bytes),
        namespaces,
        delayed_flush: DelayedFlush::kept_in(&store),
        users,
        auth,
        prefixes: Prefixes::new(config.prefix_delimiter),
        sets: kept.sets,
        minutes: Minutes::new(config.prefix_delimiter, started),
        indexes: command::keyspace::indexes::Indexes::default(),
        watch,
        channels: Arc::new(channels),
        budget,
        started,
        origin: Origin::new(begun, started),
        wall_ahead_ms: AtomicI64::new(0),
        store,
    };
    commands.set_wall_ahead_ms(wall.0 as i64 - started.0 as i64);
    commands.watch.count_prefixes(config.prefix_stats);
    commands.set_key_events(config.key_events);
    make_kept(&commands, &kept.indexes);
    let shared = Shared {
        commands: Arc::new(commands),
        threads,
        config,
        opened_in,
        checkpoint_ns: AtomicU64::new(0),
        flash_files: flash_files.unwrap_or_default(),
    };
    Ok((Arc::new(shared), background))
}
