//! The part of a server's configuration that commands use.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// An address that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix {
        /// Path of the socket.
        path: PathBuf,
        /// The permissions of the socket file, as mode bits.
        mode: u32,
    },
}

/// The hash under which new passwords of Redis users are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PasswordHash {
    /// Argon2id, with a salt.
    #[default]
    Argon2id,
    /// SHA-256 without a salt, as in Redis.
    Sha256,
}

/// The configuration of commands. It does not change while the server runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses of the memcached protocol.
    pub memcached: Vec<Address>,
    /// Addresses of the Redis protocol.
    pub resp: Vec<Address>,
    /// The namespaces with listeners of their own: a bit for each number.
    pub listener_namespaces: u16,
    /// The first port of the Redis protocol with TLS; 0 if there is none.
    pub tls_port: u16,
    /// The memory of the store and the indexes at the start, in bytes.
    pub memory_bytes: u64,
    /// The number of worker threads, at most [`WORKERS_MAX`].
    pub workers: usize,
    /// The maximum number of open connections.
    pub connections_max: usize,
    /// The time without received bytes after which a connection is closed.
    pub idle_timeout: Option<Duration>,
    /// The maximum size of an item in bytes: key plus value.
    pub item_bytes_max: u64,
    /// True if the `shutdown` command is enabled.
    pub shutdown_command: bool,
    /// The length of each listener's accept queue in the kernel, in connections.
    pub backlog: i32,
    /// The time without packets after which a TCP connection is probed; zero for the kernel's default.
    pub tcp_keepalive: std::time::Duration,
    /// The maximum number of requests that one session executes before the worker serves other sessions. At most
    /// [`crate::visit::progress::OPS_A_BATCH`].
    pub requests_a_visit: usize,
    /// The file with the users of the Redis protocol and their rights. The server reads it at start and by `ACL LOAD`,
    /// and writes it by `ACL SAVE`.
    pub acl_file: Option<PathBuf>,
    /// The hash under which new passwords of Redis users are stored.
    pub password_hash: PasswordHash,
    /// The file with the memory of the store.
    pub memory_file: Option<PathBuf>,
    /// True if the store evicts items to make room for new ones. If false, the store refuses an item that does not fit.
    pub evict: bool,
    /// The byte that ends the prefix of a key.
    pub prefix_delimiter: u8,
    /// True if items have CAS tokens. If false, every token is reported as 0, and no token matches.
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
    /// The names of the disabled Redis commands, in lower case.
    pub disabled: Vec<String>,
    /// True if the Redis command `DEBUG` is enabled.
    pub debug_command: bool,
    /// Facts about the process.
    pub process: ProcessFacts,
}

/// Facts about the process, as of its start.
#[derive(Clone, Debug, Default)]
pub struct ProcessFacts {
    /// The path of the program. Empty if the kernel does not report it.
    pub executable: PathBuf,
    /// The working directory. Empty if the kernel does not report it.
    pub directory: PathBuf,
    /// The configuration file. Empty if there is none.
    pub config_file: PathBuf,
    /// The kernel interface by which workers wait for connections, once they do.
    pub multiplexing: OnceLock<&'static str>,
    /// True if the server reports its state to systemd.
    pub is_supervised: bool,
}

/// The number of times per second that background work runs, at least.
pub const BACKGROUND_HZ: u64 = 50;

/// The maximum number of worker threads.
pub const WORKERS_MAX: usize = 128;
