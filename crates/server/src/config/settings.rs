//! A struct with the typed values of all settings.

use base::units::{ByteSize, TimeSpan};
use segment::IndexPlace;

use super::kinds::{
    AdminAddress, CommandNames, Delimiter, FilePath, FlashPlaces, HostNames, IoChoice, ListenAddress, LogFormat,
    LogLevel, Pin, UnixMode,
};
use super::namespaces::NamespaceSettings;
use super::table::SETTINGS;
use super::value::Auto;
use command::push::notify::KeyEvents;

/// The user's settings, with `auto` not resolved yet. The table of settings ([`SETTINGS`]) describes each field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table of settings documents each field")]
pub struct Settings {
    pub memcached: Vec<ListenAddress>,
    pub resp: Vec<ListenAddress>,
    pub admin: AdminAddress,
    pub admin_hosts: HostNames,
    pub unix_mode: UnixMode,
    pub ipv6_only: bool,
    pub backlog: u64,
    pub auth_file: FilePath,
    pub acl_file: FilePath,
    pub protected: bool,
    pub unprotected: bool,
    pub memory: Auto<ByteSize>,
    pub segment: Auto<ByteSize>,
    pub item_max: ByteSize,
    pub huge_pages: bool,
    pub lock: bool,
    pub evict: bool,
    pub file: FilePath,
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
    pub keyspace_events: KeyEvents,
    pub prefix_stats: bool,
    pub prefix_delimiter: Delimiter,
    pub log_level: LogLevel,
    pub log_format: LogFormat,
    pub slow_request: TimeSpan,
    pub namespaces: Vec<NamespaceSettings>,
}

impl Settings {
    /// Sets the listeners of a server whose configuration names none: the default ports of memcached and Redis.
    pub fn listen_on_default_ports(&mut self) {
        self.resp = vec![ListenAddress::Tcp(([127, 0, 0, 1], 6379).into())];
    }

    /// Returns settings with all fields at zero, into which the table's defaults are read.
    fn blank() -> Self {
        Self {
            memcached: Vec::new(),
            resp: Vec::new(),
            admin: AdminAddress::None,
            admin_hosts: HostNames(Vec::new()),
            unix_mode: UnixMode(0),
            ipv6_only: false,
            backlog: 0,
            auth_file: FilePath(None),
            acl_file: FilePath(None),
            protected: false,
            unprotected: false,
            memory: Auto::Auto,
            segment: Auto::Auto,
            item_max: ByteSize(0),
            huge_pages: false,
            lock: false,
            evict: false,
            file: FilePath(None),
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
            keyspace_events: KeyEvents(0),
            prefix_stats: false,
            prefix_delimiter: Delimiter(b':'),
            log_level: LogLevel::Off,
            log_format: LogFormat::Text,
            slow_request: TimeSpan(0),
            namespaces: Vec::new(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let mut settings = Self::blank();
        for setting in &SETTINGS {
            let read = (setting.value)(&mut settings).read_all(setting.default);
            read.expect("a test reads every default");
        }
        settings
    }
}
