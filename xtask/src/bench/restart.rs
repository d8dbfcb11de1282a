//! Measures the time from a server's restart to its first reply, and until it finds all items.
//!
//! Each server is filled with items of 24 + 200 bytes through one connection, then ended and started again:
//!
//! - Gannet is killed (`kill -9`), once with its index in the memory file and once with an index in DRAM, which the
//!   start rebuilds. The latter is also measured with longer items.
//! - memcached with a memory file (`-e`) is stopped gracefully, because it cannot restart otherwise.
//! - redis-server writes its snapshot before it ends, or has a log of its writes and is killed.
//!
//! Memory files are in `/dev/shm`, or in the directory that `GANNET_BENCH_MEMORY` names, because `/dev/shm` can hold
//! only half of the memory by default. The files of redis-server are in the directory for temporary files.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::memory::{ItemShape, SHAPES, StoringClient, key};
use testbed::host;
use testbed::server::{free_address, gannet_binary};

/// 24 and 200 bytes, without a TTL.
const SHAPE: ItemShape = SHAPES[2];
/// Longer items: a rebuild of the index has to read fewer of them per gigabyte.
const LONG_SHAPE: ItemShape = ItemShape { key_bytes: 24, value_bytes: 1000, ttl_s: 0 };
/// Bytes of all keys and values, as a percentage of the memory limit; so few that nothing is evicted.
const FILLED_PERCENT: u64 = 70;
/// Number of keys requested after the start.
const ASKED: u64 = 2000;
/// Maximum time for a server's end, for its start, and until it finds all items.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Pause between an end and a start. memcached's clock of whole seconds runs ahead by up to one second, and it discards
/// a file whose last time is not in the past.
const PAUSE: Duration = Duration::from_secs(3);
/// Interval between two checks whether the server has ended, replies, or finds all items.
const LOOK: Duration = Duration::from_millis(1);

/// The server that is restarted, and the way in which it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    GannetFile,
    GannetDram,
    GannetDramLong,
    Memcached,
    RedisSaved,
    RedisLog,
}

const SUBJECTS: [Subject; 6] = [
    Subject::GannetFile,
    Subject::GannetDram,
    Subject::GannetDramLong,
    Subject::Memcached,
    Subject::RedisSaved,
    Subject::RedisLog,
];

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::GannetFile => "gannet --file",
            Self::GannetDram => "gannet --file, --file-index dram",
            Self::GannetDramLong => "the same, values of 1000 B",
            Self::Memcached => "memcached -e",
            Self::RedisSaved => "redis-server, RDB",
            Self::RedisLog => "redis-server, AOF",
        }
    }

    fn ended_by(self) -> &'static str {
        match self {
            Self::GannetFile | Self::GannetDram | Self::GannetDramLong | Self::RedisLog => "kill -9",
            Self::Memcached => "SIGUSR1",
            Self::RedisSaved => "SHUTDOWN SAVE",
        }
    }

    /// Returns the bytes of memory that must be free. For Gannet and memcached, this includes an index outside the file
    /// in memory. For redis-server, it includes the larger memory that it takes per item.
    fn needed_bytes(self, memory_bytes: u64) -> u64 {
        if self.speaks_resp() { memory_bytes + memory_bytes / 3 } else { memory_bytes + memory_bytes / 8 }
    }

    fn shape(self) -> ItemShape {
        if self == Self::GannetDramLong { LONG_SHAPE } else { SHAPE }
    }

    fn makes_index(self) -> bool {
        matches!(self, Self::GannetDram | Self::GannetDramLong)
    }

    fn speaks_resp(self) -> bool {
        matches!(self, Self::RedisSaved | Self::RedisLog)
    }
}

/// The files of one subject. Dropping it removes them.
#[derive(Debug)]
struct SubjectFiles {
    file: PathBuf,
    folder: PathBuf,
}

impl SubjectFiles {
    fn new() -> Result<Self, String> {
        let name = format!("gannet-bench-restart-{}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        let memory = std::env::var_os("GANNET_BENCH_MEMORY").map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { file: memory.join(name), folder })
    }
}

impl Drop for SubjectFiles {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
        let _ = std::fs::remove_file(self.file.with_extension("meta"));
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A started server. Dropping it kills the server.
#[derive(Debug)]
struct Started {
    child: Child,
    address: SocketAddr,
    admin: SocketAddr,
    begun: Instant,
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The results of one start.
struct Restart {
    end: Duration,
    first_answer: Duration,
    whole: Duration,
    /// The server's CPU time until it found all items, in nanoseconds.
    cpu_ns: u64,
    found: u64,
}

/// Measures with each of these memory sizes in MiB, if the machine has enough free memory. Runs the rows whose names,
/// such as `16384 MiB memcached -e`, begin with one of `rows`, or all rows if `rows` is empty.
///
/// # Errors
/// If a server does not start, does not end, or does not reply.
pub fn run(sizes_mib: &[u64], rows: &[String]) -> Result<(), String> {
    println!(
        "Stores of {} + {} B items that fill {FILLED_PERCENT} % of the memory, ended and restarted; {} CPUs.\n",
        SHAPE.key_bytes,
        SHAPE.value_bytes,
        std::thread::available_parallelism().map_or(1, usize::from)
    );
    println!(
        "| memory | items | server | ended by | s to end | s to first reply | s until all found | CPU s until then, \
         per GiB of items | found |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for memory_mib in sizes_mib {
        let held_bytes = (memory_mib << 20) * FILLED_PERCENT / 100;
        for subject in SUBJECTS {
            let row = format!("{memory_mib} MiB {}", subject.name());
            if !rows.is_empty() && !rows.iter().any(|begin| row.starts_with(begin.as_str())) {
                continue;
            }
            let shape = subject.shape();
            let items = held_bytes / (shape.key_bytes + shape.value_bytes) as u64;
            let needed = subject.needed_bytes(memory_mib << 20);
            if host::memory_available_bytes() < needed {
                let (name, needed_mib) = (subject.name(), needed >> 20);
                println!("| {memory_mib} MiB | | {name} | not measured: {needed_mib} MiB must be free | | | | | |");
                continue;
            }
            let Restart { end, first_answer, whole, cpu_ns, found } = measure(subject, *memory_mib, items)?;
            println!(
                "| {memory_mib} MiB | {items} | {} | {} | {:.2} | {:.3} | {:.3} | {:.2} | {:.1} % |",
                subject.name(),
                subject.ended_by(),
                end.as_secs_f64(),
                first_answer.as_secs_f64(),
                whole.as_secs_f64(),
                cpu_ns as f64 / 1e9 / (held_bytes as f64 / f64::from(1 << 30)),
                found as f64 * 100.0 / ASKED as f64
            );
        }
    }
    println!();
    Ok(())
}

fn measure(subject: Subject, memory_mib: u64, items: u64) -> Result<Restart, String> {
    let place = SubjectFiles::new()?;
    let mut server = start(subject, memory_mib, &place)?;
    first_answer(subject, &mut server)?;
    StoringClient::connect_to(server.address, subject.speaks_resp())?.store(subject.shape(), 0, items)?;
    let end = end(subject, &mut server)?;
    drop(server);
    std::thread::sleep(PAUSE);
    let mut server = start(subject, memory_mib, &place)?;
    let first_answer = first_answer(subject, &mut server)?;
    if subject.makes_index() {
        wait(&mut server, |server| Ok(segments_left(server)? == 0))?;
    }
    let whole = if subject.makes_index() { server.begun.elapsed() } else { first_answer };
    let cpu_ns = host::whole_cpu_ns(server.child.id());
    let mut stream = TcpStream::connect(server.address).map_err(|error| error.to_string())?;
    let mut found = 0;
    for number in 0..ASKED {
        let key = key(subject.shape(), number * (items / ASKED));
        found += u64::from(is_there(subject, &mut stream, &key)? == Some(true));
    }
    Ok(Restart { end, first_answer, whole, cpu_ns, found })
}

fn start(subject: Subject, memory_mib: u64, place: &SubjectFiles) -> Result<Started, String> {
    let (address, admin) = (free_address(), free_address());
    let (port, memory) = (address.port().to_string(), memory_mib.to_string());
    let file = place.file.to_str().expect("the name is text");
    let mut command = match subject {
        Subject::GannetFile | Subject::GannetDram | Subject::GannetDramLong => {
            let mut command = Command::new(gannet_binary()?);
            let index = if subject == Subject::GannetFile { "file" } else { "dram" };
            command.args(["serve", "--log", "error", "--memcached", &address.to_string()]);
            command.args(["--admin", &admin.to_string(), "--memory", &format!("{memory}MiB")]);
            command.args(["--file", file, "--file-index", index]);
            command
        }
        Subject::Memcached => {
            let mut command = Command::new("memcached");
            command.args(["-l", "127.0.0.1", "-U", "0", "-p", &port, "-m", &memory, "-e", file]);
            if rustix::process::geteuid().is_root() {
                command.args(["-u", "root"]);
            }
            command
        }
        Subject::RedisSaved | Subject::RedisLog => {
            let mut command = Command::new("redis-server");
            let log = if subject == Subject::RedisLog { "yes" } else { "no" };
            command.args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", log]);
            command.arg("--dir").arg(&place.folder);
            command
        }
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let child = command.spawn().map_err(|error| format!("{}: {error}", subject.name()))?;
    Ok(Started { child, address, admin, begun })
}

/// Ends the server as [`Subject::ended_by`] describes, and waits for its end. Returns the duration.
fn end(subject: Subject, server: &mut Started) -> Result<Duration, String> {
    let begun = Instant::now();
    match subject {
        Subject::GannetFile | Subject::GannetDram | Subject::GannetDramLong | Subject::RedisLog => {
            server.child.kill().map_err(|error| error.to_string())?;
        }
        Subject::Memcached => {
            let pid = rustix::process::Pid::from_child(&server.child);
            let signal = rustix::process::Signal::USR1;
            rustix::process::kill_process(pid, signal).map_err(|error| error.to_string())?;
        }
        Subject::RedisSaved => {
            let mut stream = TcpStream::connect(server.address).map_err(|error| error.to_string())?;
            stream.write_all(b"SHUTDOWN SAVE\r\n").map_err(|error| error.to_string())?;
        }
    }
    while server.child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if begun.elapsed() > WAIT_MAX {
            return Err(format!("{} does not end", subject.name()));
        }
        std::thread::sleep(LOOK);
    }
    Ok(begun.elapsed())
}

/// Returns the time from the server's start to its first reply. The reply `-LOADING`, which means that the server still
/// loads its data, does not count as a reply.
fn first_answer(subject: Subject, server: &mut Started) -> Result<Duration, String> {
    wait(server, |server| {
        let Ok(mut stream) = TcpStream::connect(server.address) else { return Ok(false) };
        Ok(is_there(subject, &mut stream, "no-such-key")?.is_some())
    })?;
    Ok(server.begun.elapsed())
}

fn wait(server: &mut Started, mut is_so: impl FnMut(&Started) -> Result<bool, String>) -> Result<(), String> {
    while !is_so(server)? {
        if let Ok(Some(status)) = server.child.try_wait() {
            return Err(format!("the server ended during its start: {status}"));
        }
        if server.begun.elapsed() > WAIT_MAX {
            return Err("the server does not start again".to_owned());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Returns whether a key exists; `None` if the server is still loading.
fn is_there(subject: Subject, stream: &mut TcpStream, key: &str) -> Result<Option<bool>, String> {
    let (request, absent) = match subject.speaks_resp() {
        true => (format!("GET {key}\r\n"), "$-1"),
        false => (format!("get {key}\r\n"), "END"),
    };
    let asked = |stream: &mut TcpStream| -> std::io::Result<String> {
        stream.set_read_timeout(Some(WAIT_MAX))?;
        stream.write_all(request.as_bytes())?;
        let (mut answer, mut bytes) = (Vec::new(), [0; 4096]);
        while !is_whole(&answer, subject.shape().value_bytes) {
            match stream.read(&mut bytes)? {
                0 => break,
                read => answer.extend_from_slice(&bytes[..read]),
            }
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = asked(stream).map_err(|error| format!("{}: {error}", subject.name()))?;
    Ok((!answer.is_empty() && !answer.starts_with("-LOADING")).then(|| !answer.starts_with(absent)))
}

/// Returns whether the reply to a get is complete: a line, and a value of `value_bytes` bytes if there is one.
fn is_whole(answer: &[u8], value_bytes: usize) -> bool {
    let head = answer.first();
    match head {
        Some(b'V') => answer.ends_with(b"END\r\n") && answer.len() > value_bytes,
        Some(b'$') if !answer.starts_with(b"$-1") => answer.len() > value_bytes + 4 && answer.ends_with(b"\r\n"),
        _ => answer.ends_with(b"\r\n"),
    }
}

/// Returns the number of segments that the rebuild of the index has not processed yet.
fn segments_left(server: &Started) -> Result<u64, String> {
    let fetch = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(server.admin)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = fetch().map_err(|error| format!("the admin port: {error}"))?;
    let value = |line: &str| line.strip_prefix("gannet_index_rebuild_segments ")?.trim().parse::<f64>().ok();
    text.lines()
        .find_map(value)
        .map(|left| left as u64)
        .ok_or_else(|| "the admin port does not report the rebuild".to_owned())
}
