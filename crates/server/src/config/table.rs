//! The table of all settings.
//!
//! All texts about settings are generated from this table: the flags and their help, the sample file, the page in
//! `docs/`, and the admin port's page. The table also determines how values are checked, and which settings a reload
//! applies.

use base::units::{ByteSize, TimeSpan};

use super::settings::Settings;
use super::value::{Value, Wrong};
use crate::start::graphs::GRAPH_BYTES_MAX;

/// The effect of a changed value on a running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// A reload by SIGHUP applies the changed value.
    Live,
    /// Only a restart applies the changed value.
    Restart,
}

/// The definition of one setting.
pub struct Setting {
    /// The setting's path in the configuration file: `table.key`.
    pub path: &'static str,
    /// The command-line flag without the dashes, if the setting has a flag.
    pub flag: Option<&'static str>,
    /// The default, as texts. A list has any number of texts, other settings have exactly one.
    pub default: &'static [&'static str],
    /// The lowest and the highest value, in bytes, in nanoseconds or as a count.
    pub range: Option<(u64, u64)>,
    /// The effect of a changed value on a running server.
    pub reload: Reload,
    /// A description of the setting, in whole sentences.
    pub help: &'static str,
    /// Returns the setting's field in a [`Settings`].
    pub value: fn(&mut Settings) -> &mut dyn Value,
}

impl Setting {
    /// Returns the name of the table that contains the setting.
    pub fn table(&self) -> &'static str {
        self.path.split_once('.').expect("every path has a table and a key").0
    }

    /// Returns the setting's key in its table.
    pub fn key(&self) -> &'static str {
        self.path.split_once('.').expect("every path has a table and a key").1
    }

    /// Reads `texts` into `settings` if all of them are correct and in range. Otherwise changes nothing.
    ///
    /// # Errors
    /// If texts are wrong: an error for each.
    pub fn set(&self, settings: &mut Settings, texts: &[&str]) -> Result<(), Vec<Wrong>> {
        let mut changed = settings.clone();
        let value = (self.value)(&mut changed);
        value.read_all(texts)?;
        if let (Some((min, max)), Some(magnitude)) = (self.range, value.magnitude())
            && !(min..=max).contains(&magnitude)
        {
            let side = if magnitude < min { "below the least" } else { "above the greatest" };
            return Err(vec![Wrong::new(
                format!("{} is {side} value", value.show()),
                format!("write a value from {} to {}", value.show_magnitude(min), value.show_magnitude(max)),
            )]);
        }
        *settings = changed;
        Ok(())
    }

    /// Calls `look` with this setting's value in `settings`.
    pub fn view<T>(&self, settings: &Settings, look: impl FnOnce(&dyn Value) -> T) -> T {
        look((self.value)(&mut settings.clone()))
    }

    /// Returns this setting's value in `settings`, as text.
    pub fn show(&self, settings: &Settings) -> String {
        self.view(settings, |value| value.show())
    }

    /// Returns the allowed range as text, if the setting has a range: `1MiB to 1GiB`.
    pub fn show_range(&self) -> Option<String> {
        let (min, max) = self.range?;
        let shown = |value: &dyn Value| format!("{} to {}", value.show_magnitude(min), value.show_magnitude(max));
        Some(self.view(&Settings::default(), shown))
    }
}

/// The tables of the file in their order, each with a description.
pub const TABLES: [(&str, &str); 9] = [
    ("listen", "Where clients and operators connect."),
    ("tls", "Certificates, and how connections are encrypted."),
    ("store", "The memory that items live in."),
    ("graph", "The graph store."),
    ("threads", "The threads that serve."),
    ("limits", "What one client, and all of them, may take."),
    ("commands", "Commands that are not for every client."),
    ("process", "What the process may do on its host."),
    ("log", "What is written to standard error, and the audit log."),
];

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const SECOND: u64 = TimeSpan::secs(1).0;
const DAY: u64 = TimeSpan::secs(86_400).0;

/// Every setting, table by table in the order of [`TABLES`].
pub static SETTINGS: [Setting; 73] = [
    Setting {
        path: "listen.memcached",
        flag: Some("memcached"),
        default: &["127.0.0.1:11211"],
        range: None,
        reload: Reload::Restart,
        help: "Addresses for memcached clients: an IP address and a port, or unix: and a path. Connections to \
               tls: and an address use TLS, which needs tls.cert. Without users every client that can connect \
               may execute every command. So an address that other hosts can reach needs an auth_file, an \
               acl_file, certificates of clients (tls.client_auth = \"required\"), or unprotected. \"none\" \
               turns the protocol off.",
        value: |s| &mut s.memcached,
    },
    Setting {
        path: "listen.resp",
        flag: Some("resp"),
        default: &[],
        range: None,
        reload: Reload::Restart,
        help: "Addresses for Redis clients, as with memcached. Both protocols serve the same keys. If none \
               of memcached, resp and grpc is set, gannet serve listens on 127.0.0.1:6379 for Redis clients; \
               \"none\" prevents that.",
        value: |s| &mut s.resp,
    },
    Setting {
        path: "listen.grpc",
        flag: Some("grpc"),
        default: &[],
        range: None,
        reload: Reload::Restart,
        help: "Addresses for gRPC clients (HTTP/2), as with memcached. Their caches are namespaces, and \
               their items those of the other protocols; docs/grpc.md has the calls.",
        value: |s| &mut s.grpc,
    },
    Setting {
        path: "listen.admin",
        flag: Some("admin"),
        default: &["127.0.0.1:9555"],
        range: None,
        reload: Reload::Restart,
        help: "The address of the admin port, which serves metrics, health and this configuration over HTTP; \
               tls: and an address uses HTTPS, with tls.cert; \"none\" turns it off.",
        value: |s| &mut s.admin,
    },
    Setting {
        path: "listen.admin_hosts",
        flag: None,
        default: &[],
        range: None,
        reload: Reload::Live,
        help: "Names under which the admin port may be requested, as in [\"cache1.example\"]. IP addresses and \
               localhost are always accepted. Requests with another Host header are refused, so that a web page \
               whose name resolves to this host cannot read anything.",
        value: |s| &mut s.admin_hosts,
    },
    Setting {
        path: "listen.unix_mode",
        flag: None,
        default: &["0700"],
        range: None,
        reload: Reload::Restart,
        help: "The permission bits of Unix sockets, octal.",
        value: |s| &mut s.unix_mode,
    },
    Setting {
        path: "listen.ipv6_only",
        flag: None,
        default: &["false"],
        range: None,
        reload: Reload::Restart,
        help: "IPv6 addresses accept no IPv4 clients. If false, [::] accepts both.",
        value: |s| &mut s.ipv6_only,
    },
    Setting {
        path: "listen.backlog",
        flag: None,
        default: &["1024"],
        range: Some((1, 65_535)),
        reload: Reload::Restart,
        help: "Connections that wait in the kernel to be accepted, per address. The kernel's own limit is \
               net.core.somaxconn.",
        value: |s| &mut s.backlog,
    },
    Setting {
        path: "listen.auth_file",
        flag: Some("auth-file"),
        default: &["none"],
        range: None,
        reload: Reload::Restart,
        help: "A file of user:password lines, 8 at most. A memcached client authenticates by sending \"user \
               password\" as the value of its first set. SIGHUP reads the file again. \"none\" requires no \
               password.",
        value: |s| &mut s.auth_file,
    },
    Setting {
        path: "listen.token_key",
        flag: Some("token-key"),
        default: &["none"],
        range: None,
        reload: Reload::Restart,
        help: "A file with the secret key that signs the tokens of gRPC clients, of at least 32 bytes; gannet user \
               token creates it, and makes the first token. \"none\" chooses a random key, so that tokens are \
               valid until the server ends.",
        value: |s| &mut s.token_key,
    },
    Setting {
        path: "listen.acl_file",
        flag: Some("acl-file"),
        default: &["none"],
        range: None,
        reload: Reload::Restart,
        help: "A file of users and their rights, for both protocols: lines of \"user NAME rule ...\", as ACL \
               SAVE writes them. SIGHUP and ACL LOAD read it again. \"none\": users are lost when the server ends.",
        value: |s| &mut s.acl_file,
    },
    Setting {
        path: "listen.password_hash",
        flag: None,
        default: &["argon2id"],
        range: None,
        reload: Reload::Restart,
        help: "The hash under which ACL SETUSER and CONFIG SET requirepass store new passwords: argon2id is \
               salted and slow to guess; sha256 is that of Redis, for tools that read it from ACL LIST or \
               ACL GETUSER. Both are accepted in rules and in the acl_file.",
        value: |s| &mut s.password_hash,
    },
    Setting {
        path: "listen.protected",
        flag: None,
        default: &["true"],
        range: None,
        reload: Reload::Restart,
        help: "Redis clients on other hosts may only use PING, HELLO, AUTH and QUIT until they have \
               authenticated as a user with a password, or by a certificate. Set false only on a trusted \
               network.",
        value: |s| &mut s.protected,
    },
    Setting {
        path: "listen.unprotected",
        flag: Some("unprotected"),
        default: &["false"],
        range: None,
        reload: Reload::Restart,
        help: "Allow memcached clients on other hosts without a password, unless all clients need one. If false, \
               such clients must authenticate, and the server refuses to start with a memcached address other \
               than loopback or unix: and neither auth_file nor acl_file. Set true only on a trusted network.",
        value: |s| &mut s.unprotected,
    },
    Setting {
        path: "tls.cert",
        flag: Some("tls-cert"),
        default: &[],
        range: None,
        reload: Reload::Live,
        help: "PEM files with the certificate of the server and the chain to its CA. With several, a client gets \
               the one for the host name that it requests, or else the first. Changed files are used within a \
               second, by new connections; a broken file is logged and changes nothing.",
        value: |s| &mut s.tls_cert,
    },
    Setting {
        path: "tls.key",
        flag: Some("tls-key"),
        default: &[],
        range: None,
        reload: Reload::Live,
        help: "PEM files with the keys of the certificates, in the same order, without a passphrase. Without this \
               setting, each certificate's file contains its key.",
        value: |s| &mut s.tls_key,
    },
    Setting {
        path: "tls.client_ca",
        flag: Some("tls-client-ca"),
        default: &["none"],
        range: None,
        reload: Reload::Live,
        help: "A PEM file with the CAs of client certificates.",
        value: |s| &mut s.tls_client_ca,
    },
    Setting {
        path: "tls.client_auth",
        flag: Some("tls-client-auth"),
        default: &["no"],
        range: None,
        reload: Reload::Live,
        help: "Whether clients need a certificate that a CA of tls.client_ca has signed: no, optional or required.",
        value: |s| &mut s.tls_client_auth,
    },
    Setting {
        path: "tls.user_from",
        flag: Some("tls-user-from"),
        default: &["none"],
        range: None,
        reload: Reload::Live,
        help: "The part of a client's certificate that names its user, as whom the client is then authenticated: \
               cn (the common name), san-uri (the first URI that names a user), or none.",
        value: |s| &mut s.tls_user_from,
    },
    Setting {
        path: "tls.versions",
        flag: Some("tls-versions"),
        default: &["1.2-1.3"],
        range: None,
        reload: Reload::Live,
        help: "The allowed versions of TLS.",
        value: |s| &mut s.tls_versions,
    },
    Setting {
        path: "tls.ciphers",
        flag: Some("tls-ciphers"),
        default: &[],
        range: None,
        reload: Reload::Live,
        help: "The allowed cipher suites, best first, with their names in RFCs or in OpenSSL. Empty: all supported \
               ones, all of which are secure.",
        value: |s| &mut s.tls_ciphers,
    },
    Setting {
        path: "tls.resumption",
        flag: None,
        default: &["true"],
        range: None,
        reload: Reload::Live,
        help: "Clients that reconnect may resume their session, which costs a fraction of a full handshake. The \
               keys of session tickets are replaced every six hours, and when tls.client_ca changes.",
        value: |s| &mut s.tls_resumption,
    },
    Setting {
        path: "tls.handshake_timeout",
        flag: None,
        default: &["10s"],
        range: Some((TimeSpan::millis(100).0, DAY)),
        reload: Reload::Live,
        help: "The maximum duration of a handshake. Then the connection is closed.",
        value: |s| &mut s.tls_handshake_timeout,
    },
    Setting {
        path: "tls.handshakes_max",
        flag: None,
        default: &["1000"],
        range: Some((1, 1_000_000)),
        reload: Reload::Live,
        help: "The maximum number of handshakes under way. Further connections wait unread until one ends; while they \
               wait, a handshake may last one second only.",
        value: |s| &mut s.tls_handshakes_max,
    },
    Setting {
        path: "store.memory",
        flag: Some("memory"),
        default: &["auto"],
        range: Some((ByteSize::mib(16).0, 64 * TIB)),
        reload: Reload::Live,
        help: "All memory for items, their index and buffers. \"auto\" is a quarter of the memory of the \
               machine, or of the control group of the server.",
        value: |s| &mut s.memory,
    },
    Setting {
        path: "store.segment",
        flag: Some("segment"),
        default: &["auto"],
        range: Some((ByteSize::kib(1).0, ByteSize::mib(1).0)),
        reload: Reload::Restart,
        help: "The size of a segment, the unit in which memory is filled, expired and evicted: a power of two. \
               \"auto\" is 1MiB, or less for a small memory.",
        value: |s| &mut s.segment,
    },
    Setting {
        path: "store.item_max",
        flag: Some("item-max"),
        default: &["auto"],
        range: Some((ByteSize::kib(1).0, GIB)),
        reload: Reload::Restart,
        help: "The largest item, key and value together, at most half of the memory. \"auto\" is a 64th of the memory, \
               from 1MiB to 512MiB. Items larger than a sixteenth of a segment (an eighth with flash, or in segments \
               below 256KiB) are stored in pieces.",
        value: |s| &mut s.item_max,
    },
    Setting {
        path: "store.huge_pages",
        flag: None,
        default: &["true"],
        range: None,
        reload: Reload::Restart,
        help: "Ask the kernel for huge pages. The log and the metrics report how many it granted. Without them \
               reads are slower.",
        value: |s| &mut s.huge_pages,
    },
    Setting {
        path: "store.lock",
        flag: None,
        default: &["false"],
        range: None,
        reload: Reload::Restart,
        help: "Lock all memory of the process, so that the kernel never swaps it out. If the kernel refuses, \
               the log has a warning.",
        value: |s| &mut s.lock,
    },
    Setting {
        path: "store.evict",
        flag: None,
        default: &["true"],
        range: None,
        reload: Reload::Restart,
        help: "Items are evicted to make room for others. If false, a full store refuses new items until others \
               expire or are deleted.",
        value: |s| &mut s.evict,
    },
    Setting {
        path: "store.file",
        flag: Some("file"),
        default: &["none"],
        range: None,
        reload: Reload::Restart,
        help: "A file, best on tmpfs, that holds the memory: every acknowledged write is there again after a \
               restart, a crash of the server or kill -9. The server creates the file if it does not exist, and \
               allocates all of store.memory at once. \"none\": the memory ends with the process.",
        value: |s| &mut s.file,
    },
    Setting {
        path: "store.file_index",
        flag: Some("file-index"),
        default: &["file"],
        range: None,
        reload: Reload::Restart,
        help: "The place of the index of a store in a file. \"file\": in the file, so that all items are found \
               at once after a restart. \"dram\": in the memory of the server, for files on slower devices; it \
               is rebuilt at each start while the server serves, and items that are not found yet are misses.",
        value: |s| &mut s.file_index,
    },
    Setting {
        path: "store.checkpoint",
        flag: Some("checkpoint"),
        default: &["0s"],
        range: Some((0, DAY)),
        reload: Reload::Restart,
        help: "How often the whole memory file is flushed to disk. After a power loss the server resumes from \
               the last checkpoint: newer writes may be lost, and all items on flash are lost. 0s: no \
               checkpoints; after a power loss the file has what the kernel had written back by chance.",
        value: |s| &mut s.checkpoint,
    },
    Setting {
        path: "store.upgradable",
        flag: Some("upgradable"),
        default: &["false"],
        range: None,
        reload: Reload::Restart,
        help: "Without store.file, the memory can still be taken over by a new process with `gannet serve \
               --upgrade`; memory in a file always can. It is then shared memory, allocated whole at the start, \
               with huge pages only if the host grants them to shared memory.",
        value: |s| &mut s.upgradable,
    },
    Setting {
        path: "store.flash",
        flag: Some("flash"),
        default: &[],
        range: None,
        reload: Reload::Restart,
        help: "Files or block devices for evicted items, each with the size to use. A file is created if it \
               does not exist. Data of other programs is never overwritten. A restart discards the items on them, \
               unless store.file is set.",
        value: |s| &mut s.flash,
    },
    Setting {
        path: "store.flash_writes_per_day",
        flag: Some("flash-writes-per-day"),
        default: &["0B"],
        range: None,
        reload: Reload::Restart,
        help: "Maximum number of bytes written to flash per day, on all devices together. A device's rating is its \
               size times its drive writes per day (DWPD). If the budget is short, items that were never read are \
               dropped first. 0B: no limit.",
        value: |s| &mut s.flash_writes,
    },
    Setting {
        path: "store.flash_item",
        flag: None,
        default: &["512B"],
        range: Some((64, 1 << 20)),
        reload: Reload::Restart,
        help: "The mean length of an item on flash, key and value. The index, a part of store.memory, is sized \
               for as many of these items as fit, and keeps that size. It takes at most half of the memory.",
        value: |s| &mut s.flash_item,
    },
    Setting {
        path: "graph.memory",
        flag: Some("graph-memory"),
        default: &["256MiB"],
        range: Some((0, GRAPH_BYTES_MAX)),
        reload: Reload::Restart,
        help: "The memory of the graph store (commands G.*), beside store.memory: edges, lists and objects of nodes. \
               Without graph.file it is used as graphs grow. The index of nodes and lists may take as much again: \
               about 30 bytes a node, and 8 to 530 for each of its lists. At least 90MiB, or 0B for no graph store.",
        value: |s| &mut s.graph_memory,
    },
    Setting {
        path: "graph.file",
        flag: Some("graph-file"),
        default: &["none"],
        range: None,
        reload: Reload::Restart,
        help: "A file, best on tmpfs, that holds the memory of the graph store: every acknowledged change is there \
               again after a restart, a crash of the server or kill -9. It is allocated whole at the start. After a \
               power loss its contents are discarded, unless graph.sync is set. \"none\": the graphs end with the \
               process.",
        value: |s| &mut s.graph_file,
    },
    Setting {
        path: "graph.sync",
        flag: Some("graph-sync"),
        default: &["never"],
        range: None,
        reload: Reload::Restart,
        help: "When changes of graphs are flushed to the disk of graph.file: \"always\" before each reply to a change \
               (many changes share a flush), or in an interval, as in 100ms. After a power loss the graphs are those \
               of the last flush.",
        value: |s| &mut s.graph_sync,
    },
    Setting {
        path: "graph.tombstone_age",
        flag: Some("graph-tombstone-age"),
        default: &["1h"],
        range: Some((0, 30 * DAY)),
        reload: Reload::Restart,
        help: "The time for which a removed edge is remembered, so that an older addition that arrives later has no \
               effect. It takes up to twice the time until the memory is free. While graph memory is full, the time \
               is as short as 10s.",
        value: |s| &mut s.graph_tombstone_age,
    },
    Setting {
        path: "threads.workers",
        flag: Some("workers"),
        default: &["auto"],
        range: Some((1, crate::start::WORKERS_MAX as u64)),
        reload: Reload::Restart,
        help: "Threads that serve clients. \"auto\" is one for each CPU that the server may use.",
        value: |s| &mut s.workers,
    },
    Setting {
        path: "threads.io",
        flag: Some("io"),
        default: &["auto"],
        range: None,
        reload: Reload::Restart,
        help: "How workers wait for their sockets: epoll, or uring (io_uring, from kernel 6.1 on, with at most \
               6MiB of buffers a worker). If the kernel refuses io_uring, the log says why and workers use \
               epoll. \"auto\" is io_uring if available, and epoll with a maxconns below 16.",
        value: |s| &mut s.io,
    },
    Setting {
        path: "threads.pin",
        flag: Some("pin"),
        default: &["none"],
        range: None,
        reload: Reload::Restart,
        help: "The CPUs to bind workers to, one each in the order of the list, as in \"0-3,8\"; \"auto\" uses \
               those of `gannet doctor plan`, and as many workers; \"none\" leaves the choice to the kernel.",
        value: |s| &mut s.pin,
    },
    Setting {
        path: "threads.busy_poll",
        flag: Some("busy-poll"),
        default: &["0s"],
        range: Some((0, SECOND)),
        reload: Reload::Restart,
        help: "How long an idle worker polls before it sleeps, as in \"50us\"; 0s: it sleeps at once. Polling \
               saves the wake-up and uses the whole CPU meanwhile.",
        value: |s| &mut s.busy_poll,
    },
    Setting {
        path: "limits.maxconns",
        flag: Some("maxconns"),
        default: &["auto"],
        range: Some((1, 1_000_000)),
        reload: Reload::Live,
        help: "Connections at once; the next one gets an error line and is closed. \"auto\" is 10000, or less \
               if the limit of open files is lower. A reload accepts a lower value, or a higher one up to the \
               value at start.",
        value: |s| &mut s.maxconns,
    },
    Setting {
        path: "limits.idle_timeout",
        flag: None,
        default: &["0s"],
        range: Some((0, 365 * DAY)),
        reload: Reload::Live,
        help: "A connection without a request for this long is closed; 0s never closes one.",
        value: |s| &mut s.idle_timeout,
    },
    Setting {
        path: "limits.stall_timeout",
        flag: None,
        default: &["30s"],
        range: Some((SECOND / 10, DAY)),
        reload: Reload::Live,
        help: "A client that reads none of its replies for this long is closed. Incomplete requests need no \
               such time: they are set aside within milliseconds, in a sixteenth of the memory, 64MiB at most. \
               If that is used up, the oldest is closed.",
        value: |s| &mut s.stall_timeout,
    },
    Setting {
        path: "limits.login_timeout",
        flag: None,
        default: &["1m"],
        range: Some((0, DAY)),
        reload: Reload::Live,
        help: "A client that has to authenticate and has not done so for this long after it connected is closed with \
               an error line; 0s never closes one.",
        value: |s| &mut s.login_timeout,
    },
    Setting {
        path: "limits.maxconns_per_source",
        flag: None,
        default: &["0"],
        range: Some((0, 1_000_000)),
        reload: Reload::Live,
        help: "Connections at once from one IPv4 address, or from one IPv6 prefix of 64 bits; the next one gets an \
               error line and is closed. Clients behind one proxy have one address. 0 sets no limit.",
        value: |s| &mut s.maxconns_per_source,
    },
    Setting {
        path: "limits.tcp_keepalive",
        flag: None,
        default: &["5m"],
        range: Some((0, DAY)),
        reload: Reload::Restart,
        help: "A TCP connection without packets for this long is probed, and closed if its peer replies to none of 3 \
               probes: the host of a client may have ended without closing it. 0s leaves the kernel's default.",
        value: |s| &mut s.tcp_keepalive,
    },
    Setting {
        path: "limits.stop_timeout",
        flag: None,
        default: &["10s"],
        range: Some((0, 600 * SECOND)),
        reload: Reload::Restart,
        help: "How long requests in flight may take after SIGTERM or SIGINT before their connections are \
               closed. A client that reads none of its replies for 2s is closed earlier. Commands in execution \
               then have as long again, at least 5s, and are abandoned.",
        value: |s| &mut s.stop_timeout,
    },
    Setting {
        path: "limits.requests_a_visit",
        flag: None,
        default: &["64"],
        range: Some((1, command::visit::progress::OPS_A_BATCH as u64)),
        reload: Reload::Restart,
        help: "Requests of one client that are served before other clients get their turn.",
        value: |s| &mut s.requests_a_visit,
    },
    Setting {
        path: "limits.subscriber_backlog",
        flag: None,
        default: &["8MiB"],
        range: Some((ByteSize::kib(16).0, GIB)),
        reload: Reload::Live,
        help: "Messages that may wait for one Redis client that subscribes to channels or monitors; a client \
               that is further behind is closed. client_memory bounds all of them together.",
        value: |s| &mut s.subscriber_backlog,
    },
    Setting {
        path: "limits.client_memory",
        flag: None,
        default: &["auto"],
        range: Some((ByteSize::mib(1).0, 64 * TIB)),
        reload: Reload::Restart,
        help: "All memory that clients hold outside store.memory: queued requests, unread replies, messages, \
               names of channels, rules of users. A request that needs more is refused with an OOM error, after \
               the oldest slow readers were closed. \"auto\" is an eighth of store.memory, at least 16MiB.",
        value: |s| &mut s.client_memory,
    },
    Setting {
        path: "commands.shutdown",
        flag: None,
        default: &["false"],
        range: None,
        reload: Reload::Restart,
        help: "Clients may stop the server with the shutdown command.",
        value: |s| &mut s.shutdown,
    },
    Setting {
        path: "commands.cas",
        flag: None,
        default: &["true"],
        range: None,
        reload: Reload::Restart,
        help: "Items have CAS tokens. If false, all tokens are 0, and a store that compares one never matches.",
        value: |s| &mut s.cas,
    },
    Setting {
        path: "commands.flush_all",
        flag: None,
        default: &["true"],
        range: None,
        reload: Reload::Restart,
        help: "Clients may delete all items with flush_all.",
        value: |s| &mut s.flush_all,
    },
    Setting {
        path: "commands.dump",
        flag: None,
        default: &["true"],
        range: None,
        reload: Reload::Restart,
        help: "Clients may list keys, with stats cachedump and lru_crawler metadump.",
        value: |s| &mut s.dump,
    },
    Setting {
        path: "commands.watch",
        flag: None,
        default: &["true"],
        range: None,
        reload: Reload::Restart,
        help: "Clients may watch fetches, mutations and evictions of items.",
        value: |s| &mut s.watch,
    },
    Setting {
        path: "commands.disabled",
        flag: None,
        default: &[],
        range: None,
        reload: Reload::Restart,
        help: "Redis commands to refuse, as in [\"flushall\", \"monitor\"].",
        value: |s| &mut s.disabled,
    },
    Setting {
        path: "commands.debug",
        flag: None,
        default: &["false"],
        range: None,
        reload: Reload::Restart,
        help: "Redis clients may use DEBUG, which is for tests.",
        value: |s| &mut s.debug,
    },
    Setting {
        path: "commands.test_faults",
        flag: Some("test-faults"),
        default: &["false"],
        range: None,
        reload: Reload::Restart,
        help: "gRPC calls may ask by their metadata for errors, delays and cut streams (docs/grpc.md), to test \
               clients. Not for production.",
        value: |s| &mut s.test_faults,
    },
    Setting {
        path: "commands.keyspace_events",
        flag: None,
        default: &["none"],
        range: None,
        reload: Reload::Live,
        help: "Changes of keys to publish to Redis clients, in the letters of notify-keyspace-events, as in \
               \"KEA\" or \"Ex\"; \"none\" publishes none.",
        value: |s| &mut s.keyspace_events,
    },
    Setting {
        path: "commands.prefix_stats",
        flag: None,
        default: &["false"],
        range: None,
        reload: Reload::Restart,
        help: "Requests are counted by key prefix from the start, at the cost of a lock for each. Clients turn \
               this on and off with stats detail, and read it with stats detail dump.",
        value: |s| &mut s.prefix_stats,
    },
    Setting {
        path: "commands.prefix_delimiter",
        flag: None,
        default: &[":"],
        range: None,
        reload: Reload::Restart,
        help: "The character that ends a key's prefix.",
        value: |s| &mut s.prefix_delimiter,
    },
    Setting {
        path: "process.no_sandbox",
        flag: Some("no-sandbox"),
        default: &["false"],
        range: None,
        reload: Reload::Restart,
        help: "Run without the sandbox. In the sandbox, the server can execute no program, makes only the system calls \
               that it needs, and opens only files beside those that the settings name at the start.",
        value: |s| &mut s.no_sandbox,
    },
    Setting {
        path: "log.level",
        flag: Some("log"),
        default: &["info"],
        range: None,
        reload: Reload::Live,
        help: "The lowest level of entries to write: off, error, warn, info, debug or trace.",
        value: |s| &mut s.log_level,
    },
    Setting {
        path: "log.format",
        flag: Some("log-format"),
        default: &["text"],
        range: None,
        reload: Reload::Restart,
        help: "The form of the log: text, or json, which writes one JSON object for each line, with time, level, \
               target, message and fields.",
        value: |s| &mut s.log_format,
    },
    Setting {
        path: "log.audit",
        flag: None,
        default: &["none"],
        range: None,
        reload: Reload::Restart,
        help: "A file for the audit log: a JSON object for each login, and for each change of users, settings and \
               certificates and each flush, with its user and address. \"none\" records nothing.",
        value: |s| &mut s.audit,
    },
    Setting {
        path: "log.audit_size",
        flag: None,
        default: &["16MiB"],
        range: Some((64 << 10, GIB)),
        reload: Reload::Restart,
        help: "The maximum size of a file of the audit log. A full one is renamed: .1 is added to its name.",
        value: |s| &mut s.audit_size,
    },
    Setting {
        path: "log.audit_files",
        flag: None,
        default: &["4"],
        range: Some((1, 100)),
        reload: Reload::Restart,
        help: "The maximum number of files of the audit log. The oldest is removed.",
        value: |s| &mut s.audit_files,
    },
    Setting {
        path: "log.slow_request",
        flag: None,
        default: &["10ms"],
        range: Some((0, 100 * SECOND)),
        reload: Reload::Live,
        help: "Requests that take longer are recorded with their parts and shown on the admin port; 0s records \
               none.",
        value: |s| &mut s.slow_request,
    },
];

/// Names that scripts may use but that this build does not support: flag, path in the file, and description.
pub const ABSENT: [(&str, &str, &str); 2] = [
    ("udp", "listen.udp", "memcached over UDP, and none is planned: replies of any size can be forged from afar"),
    ("binary", "listen.binary", "memcached's binary protocol, and none is planned: its authors retired it"),
];

/// Returns the setting at `path`.
pub fn setting(path: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_default_is_read_and_is_in_range() {
        for setting in &SETTINGS {
            let mut settings = Settings::default();
            setting.set(&mut settings, setting.default).unwrap_or_else(|wrong| panic!("{}: {wrong:?}", setting.path));
            assert_eq!(setting.view(&settings, |value| value.entries()), setting.default, "{}", setting.path);
        }
    }

    #[test]
    fn names_are_unique_and_tables_are_whole_and_in_order() {
        let mut names = HashSet::new();
        for (flag, path) in SETTINGS.iter().map(|s| (s.flag, s.path)).chain(ABSENT.iter().map(|a| (Some(a.0), a.1))) {
            assert!(names.insert(path.to_owned()), "{path} is there twice");
            assert!(flag.is_none_or(|flag| names.insert(format!("--{flag}"))), "{flag:?} is there twice");
        }
        let mut tables: Vec<&str> = SETTINGS.iter().map(Setting::table).collect();
        tables.dedup();
        assert_eq!(tables, TABLES.map(|(name, _)| name));
    }

    #[test]
    fn two_settings_never_share_a_place() {
        let mut changed = 0;
        for setting in &SETTINGS {
            for text in ["127.0.0.1:7", "7KiB", "77KiB", "17MiB", "7s", "7", "0777", "true", "false", "epoll", "error"]
            {
                let mut settings = Settings::default();
                if setting.set(&mut settings, &[text]).is_err() || settings == Settings::default() {
                    continue;
                }
                changed += 1;
                let differs = |other: &&Setting| other.show(&settings) != other.show(&Settings::default());
                let names: Vec<&str> = SETTINGS.iter().filter(differs).map(|s| s.path).collect();
                assert_eq!(names, [setting.path]);
            }
        }
        assert!(changed >= SETTINGS.len(), "only {changed} changes were tried");
    }

    #[test]
    fn help_is_whole_sentences_and_ranges_hold_their_default() {
        for setting in &SETTINGS {
            assert!(setting.help.ends_with('.') && !setting.help.contains("  "), "{}", setting.path);
            if let Some((min, max)) = setting.range {
                assert!(min < max, "{}", setting.path);
            }
        }
    }

    #[test]
    fn a_value_out_of_range_changes_nothing_and_names_the_range() {
        let mut settings = Settings::default();
        let wrong = setting("store.memory").unwrap().set(&mut settings, &["1MiB"]).unwrap_err();
        assert!(wrong[0].what.contains("below the least"), "{wrong:?}");
        assert!(wrong[0].remedy.contains("16MiB to 64TiB"), "{wrong:?}");
        let wrong = setting("threads.workers").unwrap().set(&mut settings, &["129"]).unwrap_err();
        assert!(wrong[0].what.contains("above the greatest"), "{wrong:?}");
        assert_eq!(settings, Settings::default());
    }
}
