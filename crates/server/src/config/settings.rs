//! A struct with the typed values of all settings.

use base::units::{ByteSize, TimeSpan};
use command::keyspace::graph_commits::GraphSync;
use segment::IndexPlace;

use super::kinds::{
    AdminAddress, CipherNames, CommandNames, Delimiter, FilePath, FilePaths, FlashPlaces, HostNames, IoChoice,
    ListenAddress, LogFormat, LogLevel, Pin, UnixMode,
};
use super::namespaces::NamespaceSettings;
use super::table::SETTINGS;
use super::value::Auto;
use command::config::PasswordHash;
use command::push::notify::KeyEvents;
use tls::{CertificateFiles, ClientAuth, HandshakeLimits, TlsSettings, UserFrom, Versions};

/// The user's settings, with `auto` not resolved yet. The table of settings ([`SETTINGS`]) describes each field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table of settings documents each field")]
pub struct Settings {
    pub memcached: Vec<ListenAddress>,
    pub resp: Vec<ListenAddress>,
    pub grpc: Vec<ListenAddress>,
    pub admin: AdminAddress,
    pub admin_hosts: HostNames,
    pub unix_mode: UnixMode,
    pub ipv6_only: bool,
    pub backlog: u64,
    pub auth_file: FilePath,
    pub token_key: FilePath,
    pub acl_file: FilePath,
    pub password_hash: PasswordHash,
    pub protected: bool,
    pub unprotected: bool,
    pub no_sandbox: bool,
    pub tls_cert: FilePaths,
    pub tls_key: FilePaths,
    pub tls_client_ca: FilePath,
    pub tls_client_auth: ClientAuth,
    pub tls_user_from: UserFrom,
    pub tls_versions: Versions,
    pub tls_ciphers: CipherNames,
    pub tls_resumption: bool,
    pub tls_handshake_timeout: TimeSpan,
    pub tls_handshakes_max: u64,
    pub memory: Auto<ByteSize>,
    pub segment: Auto<ByteSize>,
    pub item_max: Auto<ByteSize>,
    pub huge_pages: bool,
    pub lock: bool,
    pub evict: bool,
    pub file: FilePath,
    pub graph_memory: ByteSize,
    pub graph_file: FilePath,
    pub graph_sync: GraphSync,
    pub graph_tombstone_age: TimeSpan,
    pub file_index: IndexPlace,
    pub checkpoint: TimeSpan,
    pub upgradable: bool,
    pub flash: FlashPlaces,
    pub flash_item: ByteSize,
    pub flash_writes: ByteSize,
    pub workers: Auto<u64>,
    pub io: IoChoice,
    pub pin: Pin,
    pub busy_poll: TimeSpan,
    pub maxconns: Auto<u64>,
    pub idle_timeout: TimeSpan,
    pub stall_timeout: TimeSpan,
    pub login_timeout: TimeSpan,
    pub maxconns_per_source: u64,
    pub tcp_keepalive: TimeSpan,
    pub stop_timeout: TimeSpan,
    pub requests_a_visit: u64,
    pub subscriber_backlog: ByteSize,
    pub client_memory: Auto<ByteSize>,
    pub shutdown: bool,
    pub cas: bool,
    pub flush_all: bool,
    pub dump: bool,
    pub watch: bool,
    pub disabled: CommandNames,
    pub debug: bool,
    pub test_faults: bool,
    pub keyspace_events: KeyEvents,
    pub prefix_stats: bool,
    pub prefix_delimiter: Delimiter,
    pub log_level: LogLevel,
    pub log_format: LogFormat,
    pub audit: FilePath,
    pub audit_size: ByteSize,
    pub audit_files: u64,
    pub slow_request: TimeSpan,
    pub namespaces: Vec<NamespaceSettings>,
}

impl Settings {
    /// Returns true if a listener or the admin port uses TLS.
    pub fn uses_tls(&self) -> bool {
        let others = self.namespaces.iter().flat_map(|namespace| namespace.memcached.iter().chain(&namespace.resp));
        let mut all = self.memcached.iter().chain(&self.resp).chain(&self.grpc).chain(others);
        self.admin.is_tls() || all.any(|address| matches!(address, ListenAddress::Tls(_)))
    }

    /// Returns the settings of TLS. The first key belongs to the first certificate. A single key serves all
    /// certificates, and without a key each certificate's file contains its key.
    pub fn tls(&self) -> TlsSettings {
        let keys = &self.tls_key.0;
        let key = |place: usize, chain: &String| match keys.len() {
            0 => chain.clone(),
            1 => keys[0].clone(),
            _ => keys.get(place).unwrap_or(chain).clone(),
        };
        let files =
            |(place, chain): (usize, &String)| CertificateFiles { chain: chain.into(), key: key(place, chain).into() };
        TlsSettings {
            certificates: self.tls_cert.0.iter().enumerate().map(files).collect(),
            client_ca: self.tls_client_ca.0.clone(),
            client_auth: self.tls_client_auth,
            user_from: self.tls_user_from,
            versions: self.tls_versions,
            ciphers: self.tls_ciphers.0.clone(),
            resumption: self.tls_resumption,
        }
    }

    /// Returns the limits of TLS handshakes.
    pub fn tls_limits(&self) -> HandshakeLimits {
        let handshake_timeout = self.tls_handshake_timeout.as_duration();
        HandshakeLimits { handshake_timeout, handshakes_max: self.tls_handshakes_max }
    }

    /// Sets the listeners of a server whose configuration names none: the default ports of memcached and Redis.
    pub fn listen_on_default_ports(&mut self) {
        self.resp = vec![ListenAddress::Tcp(([127, 0, 0, 1], 6379).into())];
    }

    /// Settings with all fields at zero, into which the table's defaults are read.
    const BLANK: Self = Self {
        memcached: Vec::new(),
        resp: Vec::new(),
        grpc: Vec::new(),
        admin: AdminAddress::None,
        admin_hosts: HostNames(Vec::new()),
        unix_mode: UnixMode(0),
        ipv6_only: false,
        backlog: 0,
        auth_file: FilePath(None),
        token_key: FilePath(None),
        acl_file: FilePath(None),
        password_hash: PasswordHash::Argon2id,
        protected: false,
        unprotected: false,
        no_sandbox: false,
        tls_cert: FilePaths(Vec::new()),
        tls_key: FilePaths(Vec::new()),
        tls_client_ca: FilePath(None),
        tls_client_auth: ClientAuth::No,
        tls_user_from: UserFrom::None,
        tls_versions: Versions::Both,
        tls_ciphers: CipherNames(Vec::new()),
        tls_resumption: false,
        tls_handshake_timeout: TimeSpan(0),
        tls_handshakes_max: 0,
        memory: Auto::Auto,
        segment: Auto::Auto,
        item_max: Auto::Auto,
        huge_pages: false,
        lock: false,
        evict: false,
        file: FilePath(None),
        graph_memory: ByteSize::mib(256),
        graph_file: FilePath(None),
        graph_sync: GraphSync::Never,
        graph_tombstone_age: TimeSpan::secs(3600),
        file_index: IndexPlace::File,
        checkpoint: TimeSpan(0),
        upgradable: false,
        flash: FlashPlaces(Vec::new()),
        flash_item: ByteSize(0),
        flash_writes: ByteSize(0),
        workers: Auto::Auto,
        io: IoChoice::Auto,
        pin: Pin::None,
        busy_poll: TimeSpan(0),
        maxconns: Auto::Auto,
        idle_timeout: TimeSpan(0),
        stall_timeout: TimeSpan(0),
        login_timeout: TimeSpan(0),
        maxconns_per_source: 0,
        tcp_keepalive: TimeSpan(0),
        stop_timeout: TimeSpan(0),
        requests_a_visit: 0,
        subscriber_backlog: ByteSize(0),
        client_memory: Auto::Auto,
        shutdown: false,
        cas: false,
        flush_all: false,
        dump: false,
        watch: false,
        disabled: CommandNames(Vec::new()),
        debug: false,
        test_faults: false,
        keyspace_events: KeyEvents(0),
        prefix_stats: false,
        prefix_delimiter: Delimiter(b':'),
        log_level: LogLevel::Off,
        log_format: LogFormat::Text,
        audit: FilePath(None),
        audit_size: ByteSize(0),
        audit_files: 0,
        slow_request: TimeSpan(0),
        namespaces: Vec::new(),
    };
}

impl Default for Settings {
    fn default() -> Self {
        let mut settings = Self::BLANK;
        for setting in &SETTINGS {
            let read = (setting.value)(&mut settings).read_all(setting.default);
            read.expect("a test reads every default");
        }
        settings
    }
}
