//! Starts a server inside this process.

pub mod config;
pub mod encryption;
pub(crate) mod graph_log;
pub mod graphs;
pub(crate) mod opened;
pub mod sandbox;

use self::graphs::OpenGraphs;
use crate::handover::HandoverState;
use crate::log::audit;
pub use crate::log::audit::AuditConfig;
use crate::running::Endpoints;
use crate::shared::Shared;
use crate::threads::Threads;
use crate::tier::Opened;
use base::clock::UnixMillis;
use command::clients::audit::AuditLog;
use command::clients::auth::Auth;
use command::clients::auth_delay::AuthDelay;
use command::clients::connection_table::ConnectionTable;
use command::clients::endpoint::{Endpoint, Protocol};
use command::clients::faults::FaultCounts;
use command::clients::tokens::TokenKey;
use command::config::{Address, Config, ProcessFacts};
use command::keyspace::delayed_flush::DelayedFlush;
use command::keyspace::graphs::GraphCounters;
use command::keyspace::metadata::{MetadataLog, PersistedIndex, PersistedMetadata};
use command::keyspace::namespaces::Namespaces;
use command::keyspace::prefixes::Prefixes;
use command::memory::budget::Budget;
use command::memory::pins::PinBudget;
use command::metrics::Recorder;
use command::metrics::background::BackgroundCounters;
use command::metrics::call_stats::CallStats;
use command::metrics::command_counters::{CommandCounters, CommandShared};
use command::metrics::command_stats::CommandStats;
use command::metrics::counters::WorkerCounters;
use command::metrics::hot_keys::{HotKeys, Minutes};
use command::metrics::survey::Survey;
use command::push::outbox::{Channels, PushQueue};
use command::push::topics::Topics;
use command::push::tracking::Tracking;
use command::push::waiters::Waiters;
use command::push::watch::Hub;
use command::resp::acl::Users;
use command::resp::{load_persisted, recreate_persisted};
use command::shared::{AcceptorCounters, Clients, Live, PauseSwitch, WorkerShared};
use command::visit::clock::Origin;
use config::{check, endpoints, store_config};
use io::listen::{ListenAddr, Listener, bind_patiently};
use opened::{ReleasedStore, memory_file};
use segment::{Namespace, Store, StoreFile};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

pub use crate::running::{EndedThread, Prepared, Running};
pub use config::{SPARE_HANDLES, ServerConfig, StartError, TlsConfig, workers_that_fit};
pub use opened::LoadedUsers;

pub use command::config::WORKERS_MAX;

/// The type whose associated functions start a server.
pub struct Server;

impl Server {
    /// Binds the addresses, creates the store and starts all threads. When it returns, clients can connect.
    pub fn start(config: ServerConfig) -> Result<Running, StartError> {
        Ok(Self::prepare(config, HandoverState::default())?.go())
    }

    /// Prepares a server that continues with the state that another server handed over. The new server takes over the
    /// memory, the connections, and the listeners that `config` also names. No client is served before
    /// [`Prepared::go`]. If the prepared server is dropped instead, the other server can resume with the whole state.
    pub fn prepare(config: ServerConfig, handover_state: HandoverState) -> Result<Prepared, StartError> {
        check(&config)?;
        encryption::check(&config)?;
        if let Some(AuditConfig { path, .. }) = &config.audit {
            audit::open(path).map_err(|error| StartError::Audit { path: path.clone(), error })?;
        }
        io::allocation::return_free_memory_early();
        let HandoverState { listeners: mut left, memory, index, devices, graphs, users, settings, known, connections } =
            handover_state;
        let mut bound = |addr: &ListenAddr| match left.iter().position(|listener| listener.addr() == addr) {
            Some(at) => Ok(left.swap_remove(at)),
            None => bind(&config, addr),
        };
        let endpoints = endpoints(&config);
        let mut listeners = endpoints.iter().map(|(_, addr)| bound(addr)).collect::<Result<Vec<_>, _>>()?;
        let (backlog, keepalive) = (config.backlog, config.tcp_keepalive);
        let (shared, background) = assemble_in(
            config,
            ReleasedStore { memory, index, devices, graphs, known, is_view: false },
            UnixMillis::now(),
        )?;
        if let Some(users) = users {
            let path = shared.config.acl_file.clone().unwrap_or_default();
            shared.users.restore(&users).map_err(|error| StartError::Rights { path, error })?;
        }
        restore_settings(&shared, &settings);
        // Listening must not begin earlier: if the memory file were refused afterwards, connected clients would be
        // reset.
        for (listener, (endpoint, _)) in listeners.iter_mut().zip(&endpoints) {
            let (protocol, addr) = (endpoint.protocol, listener.addr().clone());
            let listening = listener.keep_alive(keepalive).and_then(|()| bind_patiently(|| listener.listen(backlog)));
            listening.map_err(|error| StartError::Bind { protocol, addr, error })?;
        }
        Running::prepare(shared, background, Endpoints { listeners, left, connections })
    }
}

/// Applies the settings that `CONFIG SET` had changed in the server that handed over.
fn restore_settings(shared: &Shared, settings: &[command::resp::ChangedSetting]) {
    if settings.is_empty() {
        return;
    }
    let names: Vec<&str> = settings.iter().map(|(name, ..)| &name[..]).collect();
    tracing::info!("settings that CONFIG SET changed keep their values: {}", names.join(", "));
    for why in command::resp::restore_settings(shared, settings) {
        tracing::warn!("cannot keep the setting {why}; set it again");
    }
}

/// Binds the addresses of `config` whose port is not 0 and for which `is_had` returns false: no listener of theirs is
/// handed over.
///
/// # Errors
/// [`StartError::Bind`].
pub fn bind_ahead(config: &ServerConfig, is_had: impl Fn(&ListenAddr) -> bool) -> Result<Vec<Listener>, StartError> {
    let names_port = |addr: &ListenAddr| !matches!(addr, ListenAddr::Tcp(addr) if addr.port() == 0);
    let wanted = endpoints(config).into_iter().map(|(_, addr)| addr).filter(|addr| names_port(addr) && !is_had(addr));
    wanted.map(|addr| bind(config, &addr)).collect()
}

fn bind(config: &ServerConfig, addr: &ListenAddr) -> Result<Listener, StartError> {
    bind_patiently(|| Listener::bind(addr, config.ipv6_only)).map_err(|error| {
        let endpoint = endpoints(config).into_iter().find(|(_, of)| of == addr);
        let protocol = endpoint.map_or(Protocol::Memcache, |(endpoint, _)| endpoint.protocol);
        StartError::Bind { protocol, addr: addr.clone(), error }
    })
}

fn load_users(config: &ServerConfig) -> Result<Option<Auth>, StartError> {
    let load =
        |path: &std::path::PathBuf| Auth::load(path).map_err(|error| StartError::Auth { path: path.clone(), error });
    config.auth_file.as_ref().map(load).transpose()
}

fn load_token_key(config: &ServerConfig) -> Result<TokenKey, StartError> {
    let load = |path: &std::path::PathBuf| {
        TokenKey::load(path).map_err(|error| StartError::TokenKey { path: path.clone(), error })
    };
    config.token_key_file.as_ref().map_or_else(|| Ok(TokenKey::random()), load)
}

fn load_rights(config: &ServerConfig, budget: &Arc<Budget>) -> Result<Users, StartError> {
    let path = config.acl_file.as_deref();
    Users::new(path, config.auth_file.is_none(), budget)
        .map_err(|error| StartError::Rights { path: path.map(Into::into).unwrap_or_default(), error })
}

/// Checks that the files of users and certificates can be loaded. A new process calls this before the running server
/// hands over.
///
/// # Errors
/// If a file cannot be loaded.
pub fn check_users(config: &ServerConfig) -> Result<(), StartError> {
    encryption::check(config)?;
    load_users(config)?;
    load_token_key(config)?;
    load_rights(config, &Budget::new(config.memory_bytes, config.client_memory_bytes)).map(drop)
}

fn open_store(config: &ServerConfig, left: ReleasedStore, now: UnixMillis) -> Result<Opened, StartError> {
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

/// Creates the store and all state that a server's threads share, and starts no thread. Used by [`Server::start`], and
/// by a simulation that runs the workers itself. `started` is the wall-clock time now.
pub fn assemble(config: ServerConfig, started: UnixMillis) -> Result<(Arc<Shared>, segment::Background), StartError> {
    assemble_in(config, ReleasedStore::default(), started)
}

/// Creates the state of a worker that other threads can access.
fn worker_shared(config: &ServerConfig) -> WorkerShared {
    WorkerShared {
        counters: WorkerCounters::default(),
        commands: std::array::from_fn(|_| CommandCounters::default()),
        recorder: Recorder::default(),
        command_stats: CommandStats::new(command::resp::acl::NUMBER_COUNT),
        call_stats: CallStats::new(command::grpc::method_names().count()),
        graph: GraphCounters::default(),
        aside: Arc::default(),
        connection_table: ConnectionTable::new(config.sessions_max()),
        hot_keys: HotKeys::default(),
        push_queue: PushQueue::default(),
    }
}

/// Returns the first port of the Redis protocol with TLS; 0 if there is none.
fn tls_port(config: &ServerConfig) -> u16 {
    let ports = config.endpoints.iter().filter(|(endpoint, _)| endpoint.is_tls && endpoint.protocol == Protocol::Resp);
    let mut ports =
        ports.filter_map(|(_, addr)| if let ListenAddr::Tcp(addr) = addr { Some(addr.port()) } else { None });
    ports.next().unwrap_or(0)
}

/// Returns the part of the configuration that commands use.
fn command_config(config: &ServerConfig) -> Config {
    let address = |addr: &ListenAddr| match addr {
        ListenAddr::Tcp(addr) => Address::Tcp(*addr),
        ListenAddr::Unix { path, mode } => Address::Unix { path: path.clone(), mode: *mode },
    };
    let is_memcached = |endpoint: &Endpoint| *endpoint == Endpoint::from(Protocol::Memcache).over_tls();
    let encrypted = config.endpoints.iter().filter(|(endpoint, _)| is_memcached(endpoint)).map(|(_, addr)| addr);
    Config {
        memcached: config.memcached.iter().chain(encrypted).map(address).collect(),
        resp: config.resp.iter().map(address).collect(),
        listener_namespaces: config.endpoints.iter().fold(0, |bits, (endpoint, _)| bits | 1 << endpoint.namespace.0),
        tls_port: tls_port(config),
        memory_bytes: config.memory_bytes,
        workers: config.workers,
        connections_max: config.connections_max,
        idle_timeout: config.idle_timeout,
        item_bytes_max: config.item_bytes_max,
        shutdown_command: config.shutdown_command,
        backlog: config.backlog,
        tcp_keepalive: config.tcp_keepalive,
        requests_a_visit: config.requests_a_visit,
        acl_file: config.acl_file.clone(),
        password_hash: config.password_hash,
        memory_file: config.file.clone(),
        evict: config.evict,
        prefix_delimiter: config.prefix_delimiter,
        cas: config.cas,
        flush_command: config.flush_command,
        dump_command: config.dump_command,
        watch_command: config.watch_command,
        protected: config.protected,
        unprotected: config.unprotected,
        disabled: config.disabled.clone(),
        debug_command: config.debug_command,
        process: ProcessFacts {
            executable: std::env::current_exe().unwrap_or_default(),
            directory: std::env::current_dir().unwrap_or_default(),
            config_file: config.config_file.clone().unwrap_or_default(),
            multiplexing: OnceLock::new(),
            is_supervised: std::env::var_os("NOTIFY_SOCKET").is_some(),
        },
    }
}

/// Returns the namespaces of the memory file and of the configuration.
fn namespaces(config: &ServerConfig, kept: &PersistedMetadata, store: &Arc<Store>) -> Result<Namespaces, StartError> {
    let namespaces = Namespaces::persisted_in(store, kept.databases);
    for namespace in kept.configured(&config.namespaces)? {
        namespaces
            .set(store, &namespace)
            .map_err(|error| StartError::Namespace { name: namespace.name.clone(), error })?;
    }
    Ok(namespaces)
}

/// Returns the memcached and Redis users: `known` if given, else the users in the configured files.
fn users(
    config: &ServerConfig,
    known: Option<LoadedUsers>,
    budget: &Arc<Budget>,
) -> Result<(Option<Arc<Auth>>, Users), StartError> {
    let Some(LoadedUsers { auth, rights }) = known else {
        return Ok((load_users(config)?.map(Arc::new), load_rights(config, budget)?));
    };
    let path = config.acl_file.as_deref();
    let refused = |error| StartError::Rights { path: path.map(Into::into).unwrap_or_default(), error };
    let users = Users::from_lines(path, config.auth_file.is_none(), budget, &rights).map_err(refused)?;
    Ok((auth, users))
}

/// Returns the initial values of the settings that a reload may change.
fn live(config: &ServerConfig) -> Live {
    Live {
        connections_max: AtomicU64::new(config.connections_max as u64),
        pause: PauseSwitch::default(),
        slow_entries_max: AtomicU64::new(command::metrics::SLOW_REPORTED),
        memory_below_least: AtomicU64::new(0),
        hints: command::resp::config_hints::Hints::default(),
        password: std::sync::Mutex::default(),
        changed: std::sync::Mutex::default(),
        key_events: AtomicU32::new(0),
        idle_timeout_ms: AtomicU64::new(config.idle_timeout.map_or(0, |t| t.as_millis() as u64)),
        stall_timeout_ms: AtomicU64::new(config.stall_timeout.as_millis() as u64),
        login_timeout_ms: AtomicU64::new(config.login_timeout.as_millis() as u64),
        source_connections_max: AtomicU64::new(config.source_connections_max),
    }
}

/// Restores the secondary indexes and the libraries of functions of earlier processes.
fn restore_persisted(commands: &command::shared::Shared, indexes: &[PersistedIndex], libraries: &[(Vec<u8>, Vec<u8>)]) {
    recreate_persisted(commands, indexes);
    load_persisted(commands, libraries);
    commands.scripts.libraries.persist_by(MetadataLog::of(&commands.store));
}

fn apply_eviction(config: &ServerConfig, store: &Store) {
    if !config.evict {
        store.set_eviction(Namespace::DEFAULT, false);
    }
}

/// Opens the graph store, unless the store is only read.
fn open_graphs(config: &ServerConfig, left: &mut ReleasedStore) -> Result<OpenGraphs, StartError> {
    if left.is_view { Ok(OpenGraphs::default()) } else { graphs::open(config, left.graphs.take()) }
}

/// Creates the store and the shared state like [`assemble`], in the memory that another server handed over, if there is
/// any.
pub(crate) fn assemble_in(
    config: ServerConfig,
    mut left: ReleasedStore,
    started: UnixMillis,
) -> Result<(Arc<Shared>, segment::Background), StartError> {
    let (begun, known) = (std::time::Instant::now(), left.known.take());
    let (opened, (store, background, tiered)) = (open_graphs(&config, &mut left)?, open_store(&config, left, started)?);
    let (wall, started) = (started, store.reopened().map_or(started, |reopened| reopened.at));
    let (flash, flash_files) = tiered.map(|tiered| (tiered.flash, tiered.files)).unzip();
    let (opened_in, kept) = (begun.elapsed(), PersistedMetadata::read(&store));
    apply_eviction(&config, &store);
    let namespaces = namespaces(&config, &kept, &store)?;
    let (watch, budget) = (Arc::new(Hub::default()), Budget::new(config.memory_bytes, config.client_memory_bytes));
    let (auth, users) = users(&config, known, &budget)?;
    let channels = Arc::new(Channels::new(&watch, &budget, config.subscriber_backlog_bytes));
    let threads = Arc::new(Threads::new(config.workers, flash, encryption::open(&config, &budget)?)?);
    let commands = command::shared::Shared {
        scripts: command::keyspace::scripts::Scripts::default(),
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
        cache_creation: Mutex::default(),
        delayed_flush: DelayedFlush::persisted_in(&store),
        users,
        auth,
        auth_delay: AuthDelay::default(),
        sources: Arc::default(),
        audit: AuditLog::new(config.audit.is_some()),
        prefixes: Prefixes::new(config.prefix_delimiter),
        sets: kept.sets,
        minutes: Minutes::new(config.prefix_delimiter, started),
        indexes: command::keyspace::indexes::Indexes::default(),
        topics: Topics::new(&budget),
        token_key: load_token_key(&config)?,
        faults: config.test_faults.then(FaultCounts::default),
        waiters: Waiters::new(&watch),
        tracking: Arc::new(Tracking::new(&watch, &channels)),
        graphs: opened.graphs,
        watch,
        channels,
        budget,
        started,
        origin: Origin::new(begun, started),
        wall_ahead_ms: AtomicI64::new(0),
        store,
    };
    commands.set_wall_ahead_ms(wall.0 as i64 - started.0 as i64);
    commands.watch.count_prefixes(config.prefix_stats);
    commands.set_key_events(config.key_events);
    restore_persisted(&commands, &kept.indexes, &kept.libraries);
    let shared = Shared {
        commands: Arc::new(commands),
        threads,
        config,
        opened_in,
        checkpoint_ns: AtomicU64::new(0),
        flash_files: flash_files.unwrap_or_default(),
        graph_file: opened.file,
        graph_commit_log: Mutex::new(opened.commits),
    };
    Ok((Arc::new(shared), background))
}
