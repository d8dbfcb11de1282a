//! Resolves the user's settings for this host: replaces `auto` by a value, and reports a fault for each setting that
//! this machine cannot satisfy.

use base::units::{ByteSize, TimeSpan};
use command::keyspace::graph_commits::GraphSync;
use io::listen::ListenAddr;
use segment::Namespace;

use super::exposure::{exposure, is_local};
use super::fault::{ConfigFault, Origin};
use super::file::Origins;
use super::host::Host;
use super::kinds::{AdminAddress, ListenAddress, Pin, is_same};
use super::namespaces;
use super::settings::Settings;
use super::value::{Auto, Wrong};
use crate::log::audit::AuditConfig;
use crate::start::graphs::GRAPH_BYTES_MIN;
use crate::start::{ServerConfig, TlsConfig};
use command::clients::endpoint::{Endpoint, Protocol};
use command::keyspace::namespace_config::NamespaceConfig;
use tls::{ClientAuth, UserFrom};

/// The divisor that derives the `auto` memory size from the host's memory.
const MEMORY_SHARE: u64 = 4;
/// The minimum of the `auto` memory size, if the host has at least twice as much memory.
const MEMORY_AUTO_MIN: ByteSize = ByteSize::mib(64);
/// The divisor that derives the `auto` maximum length of an item from the memory. A resize must leave room for a few
/// items.
const ITEM_SHARE: u64 = 64;
/// The bounds of the `auto` maximum length of an item: the maxima of memcached and of Redis.
const ITEM_AUTO_MIN: ByteSize = ByteSize::mib(1);
const ITEM_AUTO_MAX: ByteSize = ByteSize::mib(512);
/// The maximum number of connections for `auto`, if the limit of open files allows so many.
pub const MAXCONNS_AUTO: u64 = 10_000;
/// The number of file descriptors for other uses than clients: standard streams, log, listeners, admin connections.
const FILES_FIXED: u64 = 128;
/// The number of file descriptors of a worker in addition to its clients: reactor and waker.
const FILES_A_WORKER: u64 = 4;
/// The maximum number of workers.
const WORKERS_MAX: u64 = crate::start::WORKERS_MAX as u64;

/// The resolved settings that the server is started with.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The configuration of the server.
    pub server: ServerConfig,
    /// The settings. The `auto` of the memory, the workers, the connections, the items and the namespaces' numbers is
    /// replaced by the value in use.
    pub resolved: Settings,
    /// True if the maximum length of an item follows from the memory.
    derives_item_max: bool,
    /// The number of file descriptors that the process needs.
    pub files: u64,
    /// Notes for the operator that are not errors, one sentence in each.
    pub notes: Vec<String>,
}

impl Plan {
    /// Adopts memory of this size, that of a server or a file that is taken over, in place of the configured one.
    pub fn adopt_memory(&mut self, bytes: u64) {
        let memory = ByteSize(bytes);
        (self.server.memory_bytes, self.resolved.memory) = (bytes, Auto::Is(memory));
        if self.derives_item_max {
            let item_max = derived_item_max(memory);
            (self.server.item_bytes_max, self.resolved.item_max) = (item_max.0, Auto::Is(item_max));
        }
    }
}

/// Resolves the settings for `host`. `origins` has the origin of each setting.
///
/// # Errors
/// If settings contradict each other, or this host cannot provide them: a fault for each.
pub fn plan(settings: &Settings, origins: &Origins, host: &Host) -> Result<Plan, Vec<ConfigFault>> {
    let mut planner = Planner::new(settings, origins, host);
    let (workers, memory) = (planner.workers(settings), planner.memory(settings));
    planner.sizes_and_places(settings, memory);
    let pin = planner.pin(settings, workers);
    let (maxconns, files) = planner.maxconns(settings, workers);
    let namespaces = planner.namespaces(settings, memory);
    let notes = planner.finish()?;
    let (item_max, derives_item_max) = (item_max(settings, memory), settings.item_max.explicit().is_none());
    let resolved = resolve_auto(settings, (memory, workers, maxconns, item_max), &namespaces.0);
    let server = ServerConfig {
        memcached: plain_addrs(&settings.memcached, settings),
        resp: plain_addrs(&settings.resp, settings),
        endpoints: [own_endpoints(settings), namespaces.1].concat(),
        tls: tls(settings),
        namespaces: namespaces.0,
        admin: admin_addr(settings),
        memory_bytes: memory.0,
        memory_bytes_max: memory_most(host).0,
        workers: workers as usize,
        io: settings.io,
        pin,
        busy_poll: settings.busy_poll.as_duration(),
        connections_max: maxconns as usize,
        idle_timeout: (settings.idle_timeout.0 > 0).then(|| settings.idle_timeout.as_duration()),
        stall_timeout: settings.stall_timeout.as_duration(),
        login_timeout: settings.login_timeout.as_duration(),
        source_connections_max: settings.maxconns_per_source,
        tcp_keepalive: settings.tcp_keepalive.as_duration(),
        stop_timeout: settings.stop_timeout.as_duration(),
        item_bytes_max: item_max.0,
        segment_bytes: settings.segment.explicit().map(|size| size.0 as u32),
        hash_seed: None,
        huge_pages: settings.huge_pages,
        shutdown_command: settings.shutdown,
        ipv6_only: settings.ipv6_only,
        backlog: settings.backlog as i32,
        requests_a_visit: settings.requests_a_visit as usize,
        auth_file: settings.auth_file.0.clone(),
        token_key_file: settings.token_key.0.clone(),
        acl_file: settings.acl_file.0.clone(),
        password_hash: settings.password_hash,
        audit: audit(settings),
        evict: settings.evict,
        file: settings.file.0.clone(),
        file_index: settings.file_index,
        checkpoint: (settings.checkpoint.0 > 0).then(|| settings.checkpoint.as_duration()),
        flash: settings.flash.0.clone(),
        flash_item_bytes: settings.flash_item.0,
        flash_writes_a_day_bytes: settings.flash_writes.0,
        upgradable: settings.upgradable,
        prefix_stats: settings.prefix_stats,
        prefix_delimiter: settings.prefix_delimiter.0,
        cas: settings.cas,
        flush_command: settings.flush_all,
        dump_command: settings.dump,
        watch_command: settings.watch,
        protected: settings.protected,
        unprotected: settings.unprotected,
        disabled: settings.disabled.0.clone(),
        debug_command: settings.debug,
        test_faults: settings.test_faults,
        key_events: settings.keyspace_events,
        subscriber_backlog_bytes: settings.subscriber_backlog.0,
        client_memory_bytes: settings.client_memory.explicit().map(|size| size.0),
        ..ServerConfig::default()
    };
    Ok(Plan { server: with_graphs(server, settings), resolved, derives_item_max, files, notes })
}

/// Returns the configuration with the settings of the graph store.
fn with_graphs(server: ServerConfig, settings: &Settings) -> ServerConfig {
    let (graph_memory_bytes, graph_file) = (settings.graph_memory.0, settings.graph_file.0.clone());
    let graph_tombstone_age_s = (settings.graph_tombstone_age.0 / TimeSpan::secs(1).0) as u32;
    let graph_sync = settings.graph_sync;
    ServerConfig { graph_memory_bytes, graph_file, graph_sync, graph_tombstone_age_s, ..server }
}

fn tls(settings: &Settings) -> Option<TlsConfig> {
    settings.uses_tls().then(|| TlsConfig { settings: settings.tls(), limits: settings.tls_limits() })
}

fn audit(settings: &Settings) -> Option<AuditConfig> {
    let path = settings.audit.0.clone()?;
    Some(AuditConfig { path, bytes_max: settings.audit_size.0, files_max: settings.audit_files })
}

/// Returns the settings with the values that stand for `auto`: the memory, the workers, the connections and the items.
fn resolve_auto(
    settings: &Settings,
    (memory, workers, maxconns, item_max): (ByteSize, u64, u64, ByteSize),
    namespaces: &[NamespaceConfig],
) -> Settings {
    let (memory, workers, maxconns) = (Auto::Is(memory), Auto::Is(workers), Auto::Is(maxconns));
    let mut resolved = Settings { memory, workers, maxconns, item_max: Auto::Is(item_max), ..settings.clone() };
    for (namespace, config) in resolved.namespaces.iter_mut().zip(namespaces) {
        namespace.number = Auto::Is(config.number.into());
    }
    resolved
}

/// Returns the maximum length of an item.
fn item_max(settings: &Settings, memory: ByteSize) -> ByteSize {
    settings.item_max.explicit().unwrap_or(derived_item_max(memory))
}

fn derived_item_max(memory: ByteSize) -> ByteSize {
    ByteSize((memory.0 / ITEM_SHARE).clamp(ITEM_AUTO_MIN.0, ITEM_AUTO_MAX.0))
}

fn listen_addr(endpoint: &ListenAddress, settings: &Settings) -> ListenAddr {
    match endpoint {
        ListenAddress::Tcp(address) | ListenAddress::Tls(address) => ListenAddr::Tcp(*address),
        ListenAddress::Unix(path) => ListenAddr::Unix { path: path.clone(), mode: settings.unix_mode.0 },
    }
}

fn is_tls(address: &ListenAddress) -> bool {
    matches!(address, ListenAddress::Tls(_))
}

/// Returns the addresses of listeners without TLS.
fn plain_addrs(addresses: &[ListenAddress], settings: &Settings) -> Vec<ListenAddr> {
    addresses.iter().filter(|address| !is_tls(address)).map(|address| listen_addr(address, settings)).collect()
}

/// Returns the listeners in the default namespace with TLS, and those for gRPC clients.
fn own_endpoints(settings: &Settings) -> Vec<(Endpoint, ListenAddr)> {
    let of = |protocol: Protocol, addresses: &[ListenAddress]| {
        let addresses = addresses.iter().filter(|address| is_tls(address));
        let endpoint = Endpoint::from(protocol).over_tls();
        addresses.map(|address| (endpoint, listen_addr(address, settings))).collect::<Vec<_>>()
    };
    let grpc = settings.grpc.iter().filter(|address| !is_tls(address));
    let grpc = grpc.map(|address| (Endpoint::from(Protocol::Grpc), listen_addr(address, settings)));
    let secure =
        [(Protocol::Memcache, &settings.memcached), (Protocol::Resp, &settings.resp), (Protocol::Grpc, &settings.grpc)];
    secure.into_iter().flat_map(|(protocol, addresses)| of(protocol, addresses)).chain(grpc).collect()
}

fn admin_addr(settings: &Settings) -> Option<std::net::SocketAddr> {
    settings.admin.ip()
}

/// A listener of the settings.
struct Listener<'s> {
    protocol: Protocol,
    address: &'s ListenAddress,
    /// The path of the setting that contains the address.
    path: &'static str,
    /// The name of the namespace whose settings contain the address.
    namespace: Option<&'s str>,
}

/// Returns all listeners: those of the default namespace first, then those of the other namespaces.
fn listeners(settings: &Settings) -> Vec<Listener<'_>> {
    let main = [
        ("listen.memcached", Protocol::Memcache, &settings.memcached),
        ("listen.resp", Protocol::Resp, &settings.resp),
        ("listen.grpc", Protocol::Grpc, &settings.grpc),
    ];
    let main = main.into_iter().map(|(path, protocol, addresses)| (path, None, protocol, addresses));
    let others = settings.namespaces.iter().flat_map(|namespace| {
        let both = [(Protocol::Memcache, &namespace.memcached), (Protocol::Resp, &namespace.resp)];
        both.map(|(protocol, addresses)| (namespaces::TABLE, Some(namespace.name.0.as_str()), protocol, addresses))
    });
    let listeners = main.chain(others).flat_map(|(path, namespace, protocol, addresses)| {
        addresses.iter().map(move |address| Listener { protocol, address, path, namespace })
    });
    listeners.collect()
}

struct Planner<'p> {
    origins: &'p Origins,
    host: &'p Host,
    faults: Vec<ConfigFault>,
    notes: Vec<String>,
}

impl<'a> Planner<'a> {
    /// Begins with the addresses.
    fn new(settings: &Settings, origins: &'a Origins, host: &'a Host) -> Self {
        let mut planner = Self { origins, host, faults: Vec::new(), notes: Vec::new() };
        planner.addresses(settings);
        planner
    }

    /// Returns the notes, or the faults if there are some.
    fn finish(self) -> Result<Vec<String>, Vec<ConfigFault>> {
        if self.faults.is_empty() { Ok(self.notes) } else { Err(self.faults) }
    }

    fn fault(&mut self, path: &'static str, what: String, remedy: String) {
        let origin = self.origins.get(path).cloned().unwrap_or(Origin::Default);
        self.faults.push(ConfigFault::new(origin, path, Wrong::new(what, remedy)));
    }

    fn addresses(&mut self, settings: &Settings) {
        let listeners = listeners(settings);
        if listeners.is_empty() {
            let remedy = "give at least one, as in [\"127.0.0.1:11211\"]";
            self.fault("listen.memcached", "there is no address to listen on".to_owned(), remedy.to_owned());
        }
        for (place, listener) in listeners.iter().enumerate() {
            let address = listener.address;
            let is_earlier = listeners[..place].iter().any(|earlier| is_same(earlier.address, address));
            if listener.path == namespaces::TABLE && is_earlier {
                let remedy = "give each namespace an address of its own".to_owned();
                self.fault(namespaces::TABLE, format!("{address} is listed twice"), remedy);
            }
            match address.ip() {
                Some(address) if admin_addr(settings) == Some(address) && address.port() != 0 => {
                    let what = format!("{address} is an address for clients too");
                    self.fault("listen.admin", what, "give the admin port an address of its own".to_owned());
                }
                _ => {}
            }
            self.exposure(settings, listener);
        }
        self.tls(settings);
        if let AdminAddress::At(address) = settings.admin
            && !is_local(address.ip())
        {
            self.notes.push(format!("the admin port {address} can be reached from other machines"));
        }
    }

    /// Refuses a listener that clients on other machines can use without authenticating, unless the operator insists.
    /// Notes other risks.
    fn exposure(&mut self, settings: &Settings, listener: &Listener<'_>) {
        let (protocol, address) = (listener.protocol, listener.address);
        let exposure = exposure(settings, protocol, address);
        if exposure.is_refused(settings, protocol) {
            let space = listener.namespace.map_or(String::new(), |name| format!(" for the namespace {name}"));
            let what = format!(
                "cannot listen on {address}{space}: other machines can reach it, and {} clients need no password",
                protocol.name()
            );
            let remedy = "set listen.auth_file (--auth-file FILE) or listen.acl_file (--acl-file FILE), listen on a \
                          loopback address such as 127.0.0.1, or pass --unprotected (listen.unprotected = true)";
            self.fault(listener.path, what, remedy.to_owned());
        } else if let Some(risk) = exposure.risk(protocol) {
            self.notes
                .push(format!("{address} can be reached from other machines, and {risk}: keep it behind a firewall"));
        }
    }

    /// Checks the settings of TLS, without reading their files.
    fn tls(&mut self, settings: &Settings) {
        let (certs, keys) = (settings.tls_cert.0.len(), settings.tls_key.0.len());
        if settings.uses_tls() && certs == 0 {
            let what = "a listener uses TLS, but there is no certificate".to_owned();
            let remedy = "name a PEM file with the certificate, and one with its key in tls.key".to_owned();
            self.fault("tls.cert", what, remedy);
        }
        if keys > 1 && keys != certs {
            let what = format!("there are {keys} keys for {certs} certificates");
            self.fault("tls.key", what, "name one key for each certificate, in the same order".to_owned());
        }
        if settings.tls_client_auth != ClientAuth::No && settings.tls_client_ca.0.is_none() {
            let what = "client certificates are requested, but there is no CA to verify them with".to_owned();
            self.fault("tls.client_ca", what, "name a PEM file with the certificate of their CA".to_owned());
        }
        if settings.tls_user_from != UserFrom::None && settings.tls_client_auth == ClientAuth::No {
            let what = "users cannot come from client certificates, because none are requested".to_owned();
            self.fault("tls.user_from", what, "set tls.client_auth to optional or required".to_owned());
        }
        if !settings.uses_tls() && certs > 0 {
            let note = "there is a certificate, but no listener uses TLS: write tls: before an address";
            self.notes.push(note.to_owned());
        }
    }

    fn workers(&mut self, settings: &Settings) -> u64 {
        let parallelism = self.host.parallelism().min(WORKERS_MAX);
        let workers = settings.workers.explicit().unwrap_or(parallelism);
        if workers > parallelism {
            self.notes.push(format!(
                "{workers} workers share {parallelism} CPUs: they wait for each other, and tail latency grows"
            ));
        }
        workers
    }

    fn memory(&mut self, settings: &Settings) -> ByteSize {
        let host = ByteSize(self.host.memory_bytes());
        let Some(memory) = settings.memory.explicit() else {
            let least = MEMORY_AUTO_MIN.0.min(host.0 / 2);
            // The size is rounded down to MiB, for readability.
            return ByteSize::mib((host.0 / MEMORY_SHARE).max(least) >> 20);
        };
        if memory >= host {
            let owner = if self.host.cgroup_bytes.is_some() { "the control group" } else { "the machine" };
            let what = format!("{memory} is not less than {owner}'s {}", about(host));
            self.fault("store.memory", what, format!("write at most {}", memory_most(self.host)));
        }
        memory
    }

    /// Returns the namespaces with their numbers, and their listeners.
    fn namespaces(
        &mut self,
        settings: &Settings,
        memory: ByteSize,
    ) -> (Vec<NamespaceConfig>, Vec<(Endpoint, ListenAddr)>) {
        let numbers = namespaces::numbers(&settings.namespaces).unwrap_or_default();
        let quotas: u64 =
            settings.namespaces.iter().filter_map(|namespace| namespace.memory.explicit()).map(|m| m.0).sum();
        if quotas > memory.0 / 5 * 4 {
            let what = format!(
                "the namespaces reserve {} together, more than four fifths of the memory, {memory}",
                about(ByteSize(quotas))
            );
            let remedy = format!("reserve at most {}, or raise store.memory", about(ByteSize(memory.0 / 5 * 4)));
            self.fault("namespace", what, remedy);
        }
        let (mut configs, mut endpoints) = (Vec::new(), Vec::new());
        for (wanted, number) in settings.namespaces.iter().zip(numbers) {
            configs.push(wanted.config(number));
            for (protocol, addresses) in [(Protocol::Memcache, &wanted.memcached), (Protocol::Resp, &wanted.resp)] {
                let endpoint = Endpoint::new(protocol, Namespace(number));
                let endpoint = |address| if is_tls(address) { endpoint.over_tls() } else { endpoint };
                endpoints.extend(addresses.iter().map(|address| (endpoint(address), listen_addr(address, settings))));
            }
        }
        (configs, endpoints)
    }

    fn sizes_and_places(&mut self, settings: &Settings, memory: ByteSize) {
        self.segment(settings);
        self.item_max(settings, memory);
        self.huge_pages(settings);
        self.graphs(settings);
        self.flash(settings);
        self.checkpoint(settings);
    }

    fn segment(&mut self, settings: &Settings) {
        let Some(segment) = settings.segment.explicit().filter(|segment| !segment.0.is_power_of_two()) else { return };
        let lower = 1u64 << segment.0.ilog2();
        let remedy = format!("write {} or {}", ByteSize(lower), ByteSize(lower * 2));
        self.fault("store.segment", format!("{segment} is not a power of two"), remedy);
    }

    fn item_max(&mut self, settings: &Settings, memory: ByteSize) {
        if let Some(item_max) = settings.item_max.explicit().filter(|item_max| item_max.0 > memory.0 / 2) {
            let what = format!("an item of {item_max} does not fit into half of the memory, {memory}");
            let remedy = format!("write at most {}, or give more memory", about(ByteSize(memory.0 / 2)));
            self.fault("store.item_max", what, remedy);
        }
    }

    /// Checks the settings of checkpoints, flash and huge pages.
    fn checkpoint(&mut self, settings: &Settings) {
        let every = settings.checkpoint;
        if every.0 == 0 {
            return;
        }
        if every < TimeSpan::secs(1) {
            let what = format!("a checkpoint every {every} is too frequent to write the whole memory to a disk");
            self.fault("store.checkpoint", what, "write 1s or more, or 0s for none".to_owned());
        }
        if settings.file.0.is_none() {
            let what = "there is no memory file to write to a disk".to_owned();
            self.fault("store.checkpoint", what, "name one: store.file".to_owned());
        }
    }

    fn graphs(&mut self, settings: &Settings) {
        let bytes = settings.graph_memory.0;
        if bytes != 0 && bytes < GRAPH_BYTES_MIN {
            let what = format!("{} are too few: the pool needs {}", settings.graph_memory, ByteSize(GRAPH_BYTES_MIN));
            self.fault("graph.memory", what, "write that or more, or 0B for no graph store".to_owned());
        }
        if bytes == 0 && settings.graph_file.0.is_some() {
            let what = "there is no memory to hold in it".to_owned();
            self.fault("graph.file", what, "set graph.memory, as in 256MiB".to_owned());
        }
        if settings.graph_sync != GraphSync::Never && settings.graph_file.0.is_none() {
            let what = "there is no file to write to a disk".to_owned();
            self.fault("graph.sync", what, "name one on a disk: graph.file".to_owned());
        }
    }

    fn flash(&mut self, settings: &Settings) {
        let places = &settings.flash.0;
        if places.is_empty() {
            return;
        }
        if !settings.evict {
            let what = "flash stores only evicted items, and eviction is turned off".to_owned();
            self.fault("store.flash", what, "set store.evict to true".to_owned());
        }
        let bytes: Vec<u64> = places.iter().map(|place| place.size.0).collect();
        if let Err(error) = flash::Sizes::of(&bytes) {
            self.fault("store.flash", format!("the devices together are {error}"), "give another size".to_owned());
        }
    }

    fn huge_pages(&mut self, settings: &Settings) {
        if settings.huge_pages && !self.host.huge_pages {
            self.notes.push(
                "this kernel gives no huge pages, without which reads of a large store take twice as long; allow \
                 them with `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`"
                    .to_owned(),
            );
        }
    }

    fn pin(&mut self, settings: &Settings, workers: u64) -> Vec<usize> {
        let Pin::Cpus(cpus) = &settings.pin else { return Vec::new() };
        if let Err(refused) = io::affinity::check_usable(cpus, &self.host.cpus) {
            self.fault("threads.pin", refused.what, refused.remedy);
        } else if (cpus.len() as u64) < workers {
            let what = format!("{} CPUs are named for {workers} workers", cpus.len());
            self.fault("threads.pin", what, format!("name {workers} CPUs, or set threads.workers to {}", cpus.len()));
        }
        cpus.clone()
    }

    /// Returns the number of connections, and the number of file descriptors that the whole process needs.
    fn maxconns(&mut self, settings: &Settings, workers: u64) -> (u64, u64) {
        let others = settings.namespaces.iter().map(|namespace| namespace.memcached.len() + namespace.resp.len());
        let listeners =
            (settings.memcached.len() + settings.resp.len() + settings.grpc.len() + others.sum::<usize>()) as u64;
        let fixed = files_fixed(workers, listeners);
        let room = connections_room(self.host, workers, listeners);
        let Some(maxconns) = settings.maxconns.explicit() else {
            let maxconns = MAXCONNS_AUTO.min(room).max(1);
            if maxconns < MAXCONNS_AUTO {
                let files = self.host.files_max;
                self.notes.push(format!("the limit of {files} open files allows {maxconns} connections"));
            }
            return (maxconns, fixed + maxconns);
        };
        if maxconns > room {
            let what = format!(
                "{maxconns} connections need {} open files and the limit is {}",
                fixed + maxconns,
                self.host.files_max
            );
            let least = if room > 0 { format!(", or write at most {room}") } else { String::new() };
            let remedy = format!("raise it with `ulimit -n {}` or LimitNOFILE= in the unit{least}", fixed + maxconns);
            self.fault("limits.maxconns", what, remedy);
        }
        (maxconns, fixed + maxconns)
    }
}

/// Returns the maximum sensible size of the store on this host. The remaining memory is for the kernel and the
/// connections.
fn memory_most(host: &Host) -> ByteSize {
    ByteSize::mib((host.memory_bytes() >> 20) * 9 / 10)
}

/// Returns the number of file descriptors for other uses than clients.
fn files_fixed(workers: u64, listeners: u64) -> u64 {
    FILES_FIXED + workers * FILES_A_WORKER + listeners
}

/// Returns the number of connections that the limit of open files allows.
pub fn connections_room(host: &Host, workers: u64, listeners: u64) -> u64 {
    host.files_max.saturating_sub(files_fixed(workers, listeners))
}

/// Formats a size, rounded down to whole MiB.
fn about(size: ByteSize) -> String {
    ByteSize::mib(size.0 >> 20).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::read_text;
    use crate::config::table::setting;
    use std::path::Path;

    fn host() -> Host {
        Host {
            cpus: vec![0, 1, 2, 3],
            cpu_quota_percent: None,
            machine_bytes: 8 << 30,
            cgroup_bytes: None,
            files_max: 20_000,
            huge_pages: true,
        }
    }

    fn with(values: &[(&str, &str)], host: &Host) -> Result<Plan, Vec<ConfigFault>> {
        let mut settings = Settings::default();
        for (path, text) in values {
            setting(path).unwrap().set(&mut settings, &[text]).unwrap();
        }
        plan(&settings, &Origins::new(), host)
    }

    fn fault(values: &[(&str, &str)]) -> String {
        let faults = with(values, &host()).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults[0].to_string()
    }

    #[test]
    fn defaults_use_a_quarter_of_the_memory_and_a_worker_per_cpu() {
        let plan = with(&[], &host()).unwrap();
        assert_eq!((plan.server.memory_bytes, plan.server.workers, plan.server.connections_max), (2 << 30, 4, 10_000));
        assert!(plan.files > 10_000 && plan.notes.is_empty(), "{plan:?}");
        let small = Host { cgroup_bytes: Some(1 << 30), cpu_quota_percent: Some(150), files_max: 1024, ..host() };
        let plan = with(&[], &small).unwrap();
        assert_eq!((plan.server.memory_bytes, plan.server.workers), (256 << 20, 2));
        assert!(plan.server.connections_max < 1024 && plan.files <= 1024);
        assert!(plan.notes[0].contains("1024 open files"), "{:?}", plan.notes);
    }

    #[test]
    fn settings_beyond_the_host_limits_are_refused_with_the_limit() {
        let text = fault(&[("store.memory", "9GiB")]);
        assert!(text.contains("store.memory") && text.contains("the machine's 8GiB"), "{text}");
        let text = fault(&[("limits.maxconns", "50000")]);
        assert!(text.contains("ulimit -n 50") && text.contains("at most 19"), "{text}");
        let text = fault(&[("threads.pin", "0-4"), ("threads.workers", "4")]);
        assert!(text.contains("CPU 4") && text.contains("0-3"), "{text}");
        let text = fault(&[("threads.pin", "0-1")]);
        assert!(text.contains("2 CPUs are named for 4 workers"), "{text}");
        let text = fault(&[("store.memory", "32MiB"), ("store.item_max", "17MiB")]);
        assert!(text.contains("half of the memory"), "{text}");
        let text = fault(&[("store.segment", "100KiB")]);
        assert!(text.contains("write 64KiB or 128KiB"), "{text}");
    }

    #[test]
    fn a_second_tier_needs_eviction_and_a_size() {
        let flash = ("store.flash", "/tmp/x:1GiB");
        let plan = with(&[flash], &host()).unwrap();
        assert_eq!((plan.server.flash.len(), plan.server.flash_item_bytes), (1, 512));
        assert!(with(&[flash, ("store.file", "/tmp/y")], &host()).is_ok());
        assert!(with(&[flash, ("store.file", "/tmp/y"), ("store.file_index", "dram")], &host()).is_ok());
        assert!(with(&[flash, ("store.upgradable", "true"), ("store.file_index", "dram")], &host()).is_ok());
        assert!(with(&[flash, ("store.upgradable", "true")], &host()).is_ok());
        assert!(fault(&[flash, ("store.evict", "false")]).contains("store.evict"));
        assert!(fault(&[("store.flash", "/tmp/x:1MiB")]).contains("too small"));
    }

    #[test]
    fn checkpoints_need_a_file() {
        let (every, file) = (("store.checkpoint", "60s"), ("store.file", "/tmp/y"));
        let plan = with(&[every, file], &host()).unwrap();
        assert_eq!(plan.server.checkpoint, Some(std::time::Duration::from_secs(60)));
        assert!(with(&[file], &host()).unwrap().server.checkpoint.is_none());
        assert!(fault(&[every]).contains("store.file"));
        assert!(with(&[every, file, ("store.flash", "/tmp/x:1GiB")], &host()).is_ok());
        assert!(fault(&[file, ("store.checkpoint", "10ms")]).contains("write 1s"));
    }

    #[test]
    fn all_contradictory_settings_are_reported_at_once() {
        let faults = with(&[("listen.admin", "127.0.0.1:11211"), ("store.memory", "1TiB")], &host()).unwrap_err();
        let names: Vec<&str> = faults.iter().map(|fault| fault.name.as_str()).collect();
        assert_eq!(names, ["listen.admin", "store.memory"]);
        let none = Settings { memcached: Vec::new(), ..Settings::default() };
        assert!(plan(&none, &Origins::new(), &host()).is_err());
    }

    #[test]
    fn an_open_memcached_listener_is_refused_with_every_remedy() {
        let text = fault(&[("listen.memcached", "0.0.0.0:11211")]);
        assert_eq!(
            text,
            "default: listen.memcached: cannot listen on 0.0.0.0:11211: other machines can reach it, and memcached \
             clients need no password; set listen.auth_file (--auth-file FILE) or listen.acl_file (--acl-file FILE), \
             listen on a loopback address such as 127.0.0.1, or pass --unprotected (listen.unprotected = true)"
        );
        let notes = |values: &[(&str, &str)]| with(values, &host()).unwrap().notes.join("\n");
        assert!(notes(&[("listen.memcached", "0.0.0.0:1"), ("listen.auth_file", "/x")]).contains("unencrypted"));
        assert!(notes(&[("listen.resp", "[::]:1")]).contains("(listen.protected)"));
        assert!(notes(&[("listen.resp", "[::]:1"), ("listen.protected", "false")]).contains("need no password"));
        let local = [("listen.memcached", "[::ffff:127.0.0.1]:1"), ("listen.admin", "[::ffff:127.0.0.1]:2")];
        assert_eq!(notes(&local), "");
        assert!(notes(&[("listen.admin", "0.0.0.0:2")]).contains("the admin port 0.0.0.0:2 can be reached"));
    }

    #[test]
    fn an_open_listener_of_a_namespace_is_refused_with_its_name_and_line() {
        let text = "[listen]\nadmin = \"none\"\n[[namespace]]\nname = \"shop\"\nmemcached = [\"0.0.0.0:7\"]\n\
                    resp = [\"0.0.0.0:8\"]\n";
        let (mut settings, mut origins) = (Settings::default(), Origins::new());
        read_text(Path::new("g.toml"), text, &mut settings, &mut origins).unwrap();
        let faults = plan(&settings, &origins, &host()).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        let text = faults[0].to_string();
        assert!(text.starts_with("g.toml:3: namespace: cannot listen on 0.0.0.0:7 for the namespace shop: "), "{text}");
        settings.unprotected = true;
        assert_eq!(plan(&settings, &origins, &host()).unwrap().notes.len(), 2);
    }

    #[test]
    fn valid_settings_that_risk_latency_or_exposure_produce_notes() {
        let (open, insists) = (("listen.memcached", "0.0.0.0:1"), ("listen.unprotected", "true"));
        let plan = with(&[open, insists, ("threads.workers", "9")], &host()).unwrap();
        assert!(plan.notes.iter().any(|note| note.contains("clients need no password")), "{:?}", plan.notes);
        assert!(plan.notes.iter().any(|note| note.contains("9 workers share 4 CPUs")), "{:?}", plan.notes);
        let small_pages = Host { huge_pages: false, ..host() };
        assert!(with(&[], &small_pages).unwrap().notes[0].contains("no huge pages"));
        assert!(with(&[("store.huge_pages", "false")], &small_pages).unwrap().notes.is_empty());
    }
}
