//! Runs servers as child processes: the null server, Gannet and its peers, all started and ended in the same way.

mod port;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::host;
use port::free_port;

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// The null server: the command `null-server` of xtask.
    Null,
    /// Gannet: the release build of this repository.
    Gannet,
    /// The same build with epoll in its workers.
    GannetEpoll,
    /// The same build with io_uring in its workers.
    GannetUring,
    /// Another release build of Gannet, whose path is in the environment variable `GANNET_OTHER_BIN`.
    GannetOther,
    /// `memcached` in the search path.
    Memcached,
    /// Valkey's server ([`crate::valkey::binary`]); its counters and keys are accessed through RESP.
    Valkey,
    /// `redis-server` in the search path.
    Redis,
}

impl ServerKind {
    /// Returns the server's name in printed tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Gannet => "gannet",
            Self::GannetEpoll => "gannet, epoll",
            Self::GannetUring => "gannet, io_uring",
            Self::GannetOther => "gannet, other build",
            Self::Memcached => "memcached",
            Self::Valkey => "valkey",
            Self::Redis => "redis-server",
        }
    }
}

/// The length of the null server's reply, and the number of lines of a request to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullReply {
    /// Length of a reply in bytes.
    pub bytes: usize,
    /// Number of lines of a request.
    pub lines: usize,
}

/// The settings with which a server is started.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// The server's memory limit, in MiB.
    pub memory_mib: u64,
    /// Largest item, in bytes.
    pub item_bytes_max: u64,
    /// Maximum number of simultaneous connections.
    pub connections_max: usize,
    /// The CPU to which the server is pinned. If none, the server may use any CPU.
    pub cpu: Option<usize>,
    /// Number of threads that serve clients.
    pub workers: usize,
    /// The reply of the null server.
    pub null: NullReply,
    /// True if Gannet also serves Redis clients: [`TestServer::resp`].
    pub resp: bool,
    /// True if Gannet also serves gRPC clients: [`TestServer::grpc`].
    pub grpc: bool,
    /// Size of a temporary file for items on flash, in MiB; 0 for none.
    pub flash_mib: u64,
    /// The file with Gannet's memory, if any.
    pub file: Option<MemoryFile>,
}

/// Gannet's memory file (`--file`). It is removed when the [`TestServer`] is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFile {
    /// True if the file is in the directory for temporary files, false if it is in `/dev/shm`.
    pub on_disk: bool,
    /// Further arguments of Gannet, such as the place of the index and the interval of checkpoints.
    pub more: &'static [&'static str],
}

impl ServerOptions {
    /// Returns the options for a server with this limit and memcached's default item size, on any CPU.
    pub fn memory(memory_mib: u64) -> Self {
        Self {
            memory_mib,
            item_bytes_max: 1024 * 1024,
            connections_max: 4096,
            cpu: None,
            workers: 1,
            null: NullReply { bytes: 245, lines: 1 },
            resp: false,
            grpc: false,
            flash_mib: 0,
            file: None,
        }
    }
}

/// A running server. Dropping it ends the server.
#[derive(Debug)]
pub struct TestServer {
    /// The kind of the server.
    pub kind: ServerKind,
    /// The address on which the server listens.
    pub address: SocketAddr,
    /// The address on which the server listens for Redis clients; `address` if there is no separate one.
    pub resp: SocketAddr,
    /// The address on which the server listens for gRPC clients, if [`ServerOptions::grpc`] is set; Gannet only.
    pub grpc: Option<SocketAddr>,
    /// The server's admin port; Gannet only.
    pub admin: Option<SocketAddr>,
    child: Child,
    /// Files that are removed when this value is dropped.
    files: Vec<PathBuf>,
}

const START_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(10);

/// Restricts the calling thread, and all processes that it starts later, to one CPU, or to all of them.
pub fn pin(cpu: Option<usize>) -> Result<(), String> {
    let mut set = CpuSet::new();
    match cpu {
        Some(cpu) => set.set(cpu),
        None => (0..CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu)),
    }
    sched_setaffinity(None, &set).map_err(|error| format!("cannot run on CPU {cpu:?}: {error}"))
}

/// Returns an address at which no server listens now.
pub fn free_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()))
}

/// Returns the path of Gannet's release build: the value of `GANNET_BIN`, or `release/gannet` in the target directory
/// of this program.
///
/// # Errors
/// If it is not built.
pub fn gannet_binary() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("GANNET_BIN") {
        return Ok(path.into());
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = own.parent().and_then(|profile| profile.parent()).unwrap_or(&own);
    let path = target.join("release/gannet");
    match path.exists() {
        true => Ok(path),
        false => Err(format!("{} is not built; run `cargo build --release --bin gannet`", path.display())),
    }
}

impl TestServer {
    /// Starts a server and waits until it accepts connections.
    ///
    /// # Errors
    /// The reason why it did not start, in a sentence.
    pub fn start(kind: ServerKind, options: &ServerOptions) -> Result<Self, String> {
        Self::start_under(&[], kind, options)
    }

    /// Starts a server by the command `under`, such as valgrind with its options, to which the server's own command is
    /// appended.
    ///
    /// # Errors
    /// The reason why it did not start, in a sentence.
    pub fn start_under(under: &[String], kind: ServerKind, options: &ServerOptions) -> Result<Self, String> {
        let address = free_address();
        let is_gannet = matches!(
            kind,
            ServerKind::Gannet | ServerKind::GannetEpoll | ServerKind::GannetUring | ServerKind::GannetOther
        );
        let admin = if is_gannet { Some(free_address()) } else { None };
        let resp = if is_gannet && options.resp { free_address() } else { address };
        let grpc = (is_gannet && options.grpc).then(free_address);
        let mut command = command(kind, options, address, admin)?;
        if resp != address {
            command.args(["--resp", &resp.to_string()]);
        }
        if let Some(grpc) = grpc {
            command.args(["--grpc", &grpc.to_string()]);
        }
        let flash = (options.flash_mib > 0).then(|| std::env::temp_dir().join(format!("flash-{}", address.port())));
        if let Some(path) = &flash {
            let (path, mib) = (path.display(), options.flash_mib);
            match is_gannet {
                true => command.args(["--flash", &format!("{path}:{mib}MiB")]),
                false => command.args(["-o", &format!("ext_path={path}:{mib}m")]),
            };
        }
        let file = options.file.filter(|_| is_gannet).map(|file| {
            let folder = if file.on_disk { std::env::temp_dir() } else { PathBuf::from("/dev/shm") };
            let path = folder.join(format!("memory-{}", address.port()));
            command.arg("--file").arg(&path).args(file.more);
            path
        });
        if let [program, arguments @ ..] = under {
            let inner = command;
            command = Command::new(program);
            command.args(arguments).arg(inner.get_program()).args(inner.get_args());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if options.cpu.is_some() {
            pin(options.cpu)?;
        }
        let child = command.spawn().map_err(|error| format!("{}: {error}", kind.name()));
        if options.cpu.is_some() {
            pin(None)?;
        }
        let mut server =
            Self { kind, address, resp, grpc, admin, child: child?, files: flash.into_iter().chain(file).collect() };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        let started = Instant::now();
        loop {
            if TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("{} ended during its start: {status}", self.kind.name()));
            }
            if started.elapsed() > START_MAX {
                return Err(format!("{} does not listen on {}", self.kind.name(), self.address));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn speaks_resp(&self) -> bool {
        matches!(self.kind, ServerKind::Valkey | ServerKind::Redis)
    }

    /// Returns the server's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the nanoseconds of CPU that all threads of the server have used.
    pub fn cpu_ns(&self) -> u64 {
        host::cpu_ns(self.pid())
    }

    /// Returns the server's resident memory in bytes.
    pub fn rss_bytes(&self) -> u64 {
        host::rss_bytes(self.pid())
    }

    /// Returns the body of the admin port's page at `path`.
    ///
    /// # Errors
    /// If there is no admin port, or if it does not reply.
    pub fn admin_page(&self, path: &str) -> Result<String, String> {
        self.admin_ask("GET", path, "")
    }

    /// Sends `body` to the admin port's page at `path` with the HTTP method PUT.
    ///
    /// # Errors
    /// If there is no admin port, or if it refuses the request.
    pub fn admin_put(&self, path: &str, body: &str) -> Result<(), String> {
        self.admin_ask("PUT", path, body).map(drop)
    }

    fn admin_ask(&self, method: &str, path: &str, body: &str) -> Result<String, String> {
        let admin = self.admin.ok_or("this server has no admin port")?;
        let fetch = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(admin)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
            stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
            let mut reply = String::new();
            stream.read_to_string(&mut reply)?;
            Ok(reply)
        };
        let reply = fetch().map_err(|error| format!("{path}: {error}"))?;
        let (head, body) = reply.split_once("\r\n\r\n").ok_or_else(|| format!("{path}: the reply is not HTTP"))?;
        match head.starts_with("HTTP/1.1 200") {
            true => Ok(body.to_owned()),
            false => Err(format!("{path}: {} {}", head.lines().next().unwrap_or_default(), body.trim_end())),
        }
    }

    /// Returns one counter of the memcached protocol's `stats`, or its equivalent in the reply to Redis's `INFO`; 0 if
    /// the server does not have the counter.
    ///
    /// # Errors
    /// If the server does not reply.
    pub fn stat(&self, name: &str) -> Result<u64, String> {
        let reply = self.stats(if self.speaks_resp() { "INFO" } else { "stats" })?;
        let value_of = |line| match self.speaks_resp() {
            true => str::strip_prefix(line, if name == "evictions" { "evicted_keys" } else { name })?.strip_prefix(':'),
            false => str::strip_prefix(line, "STAT ")?.strip_prefix(name)?.strip_prefix(' '),
        };
        let value = reply.lines().find_map(value_of);
        Ok(value.and_then(|value| value.trim().parse().ok()).unwrap_or(0))
    }

    /// Returns the whole reply to `request`, which asks for counters.
    ///
    /// # Errors
    /// If the server does not reply.
    pub fn stats(&self, request: &str) -> Result<String, String> {
        let fetch = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.write_all(format!("{request}\r\nquit\r\n").as_bytes())?;
            let mut reply = String::new();
            stream.read_to_string(&mut reply)?;
            Ok(reply)
        };
        fetch().map_err(|error| format!("{}: {request}: {error}", self.kind.name()))
    }
}

fn command(
    kind: ServerKind,
    options: &ServerOptions,
    address: SocketAddr,
    admin: Option<SocketAddr>,
) -> Result<Command, String> {
    let port = address.port().to_string();
    Ok(match kind {
        ServerKind::Null => {
            let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
            command.args(["null-server", "--port", &port]);
            command.args(["--reply-bytes", &options.null.bytes.to_string()]);
            command.args(["--request-lines", &options.null.lines.to_string()]);
            command
        }
        ServerKind::Gannet | ServerKind::GannetEpoll | ServerKind::GannetUring | ServerKind::GannetOther => {
            let mut command = Command::new(match kind {
                ServerKind::GannetOther => std::env::var_os("GANNET_OTHER_BIN")
                    .ok_or("GANNET_OTHER_BIN is not set; set it to the path of the other build")?
                    .into(),
                _ => gannet_binary()?,
            });
            command.args(["serve", "--workers", &options.workers.to_string(), "--log", "warn"]);
            command.args(["--maxconns", &options.connections_max.to_string()]);
            match kind {
                ServerKind::GannetEpoll => drop(command.args(["--io", "epoll"])),
                ServerKind::GannetUring => drop(command.args(["--io", "uring"])),
                _ => {}
            }
            command.args(["--memcached", &address.to_string(), "--memory", &format!("{}MiB", options.memory_mib)]);
            command.args(["--item-max", &format!("{}KiB", options.item_bytes_max / 1024)]);
            command.args(admin.iter().flat_map(|admin| ["--admin".to_owned(), admin.to_string()]));
            command
        }
        ServerKind::Memcached => {
            let mut command = Command::new("memcached");
            command.args(["-l", "127.0.0.1", "-U", "0", "-t", &options.workers.to_string(), "-p", &port]);
            command.args(["-c", &options.connections_max.to_string()]);
            command.args(["-m", &options.memory_mib.to_string(), "-I", &options.item_bytes_max.to_string()]);
            if rustix::process::geteuid().is_root() {
                command.args(["-u", "root"]);
            }
            command
        }
        ServerKind::Redis => {
            let mut command = Command::new("redis-server");
            command.args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"]);
            command.args(["--maxclients", &options.connections_max.to_string()]);
            command.args(["--maxmemory", &format!("{}mb", options.memory_mib), "--maxmemory-policy", "allkeys-lru"]);
            command
        }
        ServerKind::Valkey => {
            let mut command = Command::new(crate::valkey::binary(&crate::target_folder(&crate::root()))?);
            command.args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"]);
            command.args(["--io-threads", &options.workers.to_string()]);
            command.args(["--maxclients", &options.connections_max.to_string()]);
            command.args(["--maxmemory", &format!("{}mb", options.memory_mib), "--maxmemory-policy", "allkeys-lru"]);
            command
        }
    })
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // Files may be removed while the server runs: the kernel retains the data of an open file.
        self.files.iter().for_each(|path| drop(std::fs::remove_file(path)));
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // The process may have ended by itself; it remains a zombie with this id until `wait`.
            let _ = kill_process(pid, Signal::TERM);
        }
        let asked = Instant::now();
        while asked.elapsed() < STOP_MAX {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_test_server_stops_listening() {
        let server =
            TestServer::start(ServerKind::Memcached, &ServerOptions::memory(64)).expect("memcached is installed");
        assert_eq!(server.stat("limit_maxbytes").expect("it answers"), 64 * 1024 * 1024);
        let address = server.address;
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }
}
