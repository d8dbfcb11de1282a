//! Starts servers as child processes, runs workloads against them, and reads the counts of both sides.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base::clock::UnixMillis;
use gannet_load::engine::{Config, Control, Load, LoadStream, Run, TrafficThread, run};
use gannet_load::traffic::{Pending, ReplyProgress, StreamProgress, Traffic};
use gannet_load::workload::Workload;
use gannet_load::workload::model::Placement;
use gannet_load::workload::prefill::Prefill;
use gannet_load::workload::source::{AnswerTally, RequestSource};

#[path = "../../../../lab/testbed/src/server/port.rs"]
mod port;

use port::free_port;

/// Time limit of every wait in a test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Counts by name.
pub type Counts = BTreeMap<String, u64>;

/// A server as a child process.
pub struct Server {
    child: Child,
    folder: PathBuf,
    /// `unix:PATH` or `HOST:PORT`.
    pub target: String,
    is_redis: bool,
    /// Bytes that a connection sends before its first request, if the server requires authentication.
    pub greeting: String,
}

/// The kind of socket that a server listens on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Where {
    Tcp,
    Unix,
}

impl Server {
    pub fn memcached(place: Where, more: &[&str]) -> Self {
        Self::start(place, "memcached", |command, socket, port| {
            match place {
                Where::Unix => command.arg("-s").arg(socket).args(["-a", "0777"]),
                Where::Tcp => command.args(["-l", "127.0.0.1", "-U", "0", "-p", port]),
            };
            command.args(["-u", "nobody", "-t", "2", "-m", "256"]).args(more);
        })
    }

    pub fn redis(place: Where, more: &[&str]) -> Self {
        Self::start(place, "redis-server", |command, socket, port| {
            match place {
                Where::Unix => command.args(["--port", "0", "--unixsocket"]).arg(socket),
                Where::Tcp => command.args(["--bind", "127.0.0.1", "--port", port]),
            };
            command.args(["--save", "", "--appendonly", "no", "--loglevel", "warning"]).args(more);
        })
    }

    /// Starts the server. Another process may take the free port before the server binds it; this then tries another
    /// port.
    fn start(place: Where, program: &str, arguments: impl Fn(&mut Command, &Path, &str)) -> Self {
        for attempt in 0..10 {
            let folder = folder(program);
            let socket = folder.join("s.sock");
            let port = free_port().to_string();
            let mut command = Command::new(program);
            arguments(&mut command, &socket, &port);
            let child = command.current_dir(&folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let child = child.unwrap_or_else(|error| panic!("{program}: {error}; apt-get install it"));
            let target = match place {
                Where::Tcp => format!("127.0.0.1:{port}"),
                Where::Unix => format!("unix:{}", socket.display()),
            };
            let is_redis = program == "redis-server";
            let mut server = Self { child, folder, target, is_redis, greeting: String::new() };
            if server.is_up() {
                return server;
            }
            assert!(attempt < 9, "{program} does not start");
        }
        unreachable!("the last attempt returns or panics")
    }

    fn is_up(&mut self) -> bool {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if connect(&self.target).is_ok() {
                // Another server may have taken the port; the child process then exits within this time.
                std::thread::sleep(Duration::from_millis(20));
                return matches!(self.child.try_wait(), Ok(None));
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Sends `text` and reads until the reply ends with `end`.
    pub fn ask(&self, text: &str, end: &str) -> String {
        String::from_utf8_lossy(&self.ask_bytes(text.as_bytes(), end)).into_owned()
    }

    /// Sends `bytes` as [`Self::ask`] does, for requests or replies that are not text.
    pub fn ask_bytes(&self, bytes: &[u8], end: &str) -> Vec<u8> {
        let mut stream = connect(&self.target).expect("the server is up");
        stream.write_all(self.greeting.as_bytes()).expect("it reads");
        stream.write_all(bytes).expect("it reads");
        let mut answer = Vec::new();
        let mut buffer = [0; 65_536];
        while !answer.ends_with(end.as_bytes()) {
            let bytes = stream.read(&mut buffer).expect("it answers");
            assert!(bytes > 0, "it closed after {:?}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&buffer[..bytes]);
        }
        answer
    }

    /// Returns the server's counters. For memcached the names are those of `stats`. For Redis they are `get.calls`,
    /// `get.failed` and so on, and the names of `INFO stats` and `INFO keyspace`.
    pub fn counts(&self) -> Counts {
        if self.is_redis { self.redis_counts() } else { self.memcached_counts() }
    }

    fn memcached_counts(&self) -> Counts {
        let text = self.ask("stats\r\n", "END\r\n");
        let mut counts = Counts::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("STAT ")) {
            if let Some((name, value)) = line.split_once(' ')
                && let Ok(value) = value.parse()
            {
                counts.insert(name.to_owned(), value);
            }
        }
        counts
    }

    fn redis_counts(&self) -> Counts {
        // The reply to `PING` marks the end of the replies.
        let text = self.ask("INFO commandstats\r\nINFO stats\r\nINFO keyspace\r\nPING end\r\n", "$3\r\nend\r\n");
        let mut counts = Counts::new();
        for line in text.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let fields = value.split(',').filter_map(|field| field.split_once('='));
            match name.strip_prefix("cmdstat_") {
                Some(command) => {
                    for (field, value) in fields {
                        let field = field.strip_suffix("_calls").unwrap_or(field);
                        if matches!(field, "calls" | "failed" | "rejected") {
                            counts.insert(format!("{command}.{field}"), value.parse().expect("a count"));
                        }
                    }
                }
                None if name == "db0" => {
                    fields.for_each(|(field, value)| {
                        counts.insert(field.to_owned(), value.parse().unwrap_or(0));
                    });
                }
                None => {
                    if let Ok(value) = value.parse() {
                        counts.insert(name.to_owned(), value);
                    }
                }
            }
        }
        counts
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Creates a temporary folder whose path is short enough for a socket's address. Every user may enter it, because
/// memcached drops its root privileges.
fn folder(name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("gannet-{name}-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the socket");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).expect("its mode");
    folder
}

/// A TCP or unix stream.
pub trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

fn connect(target: &str) -> std::io::Result<Box<dyn Duplex>> {
    match target.strip_prefix("unix:") {
        Some(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(Box::new(stream))
        }
        None => {
            let stream = TcpStream::connect(target)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(Box::new(stream))
        }
    }
}

/// Returns the workload that `text` describes, with these servers as targets.
pub fn workload(text: &str, servers: &[&Server]) -> Workload {
    let mut workload = Workload::read_text(Path::new("test.toml"), text).unwrap_or_else(|faults| {
        panic!("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    });
    for server in servers {
        let address = server.target.clone();
        workload.targets.push(gannet_load::workload::model::Target { address, weight: 1 });
    }
    workload.validate().expect("it has no fault with its targets");
    workload
}

/// A source that adds its tally to the common tally when it is dropped.
struct Tallied<'a> {
    source: RequestSource,
    all: &'a Mutex<AnswerTally>,
}

impl Drop for Tallied<'_> {
    fn drop(&mut self) {
        let (mut all, own) = (self.all.lock().expect("nobody panicked"), self.source.tally());
        all.keys_found += own.keys_found;
        all.keys_missed += own.keys_missed;
        all.values_wrong += own.values_wrong;
        all.follow_ups_dropped += own.follow_ups_dropped;
    }
}

impl Traffic for Tallied<'_> {
    fn verbs(&self) -> &[String] {
        self.source.verbs()
    }

    fn target(&mut self) -> usize {
        self.source.target()
    }

    fn has_follow_up(&self) -> bool {
        self.source.has_follow_up()
    }

    fn is_exhausted(&self) -> bool {
        self.source.is_exhausted()
    }

    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> Pending {
        self.source.next(connection, out)
    }

    fn answer(&mut self, pending: &mut Pending, bytes: &[u8]) -> (usize, ReplyProgress) {
        self.source.answer(pending, bytes)
    }

    fn refusal(&self) -> String {
        self.source.refusal()
    }

    fn is_multiplexed(&self) -> bool {
        self.source.is_multiplexed()
    }

    fn arrived(&mut self, connection: usize, bytes: &[u8], out: &mut Vec<u8>) -> (usize, StreamProgress) {
        self.source.arrived(connection, bytes, out)
    }

    fn streams_max(&self, connection: usize) -> Option<usize> {
        self.source.streams_max(connection)
    }

    fn expire(&mut self, connection: usize, stream: u32, out: &mut Vec<u8>) {
        self.source.expire(connection, stream, out);
    }

    fn error_name(&self) -> &'static str {
        self.source.error_name()
    }

    fn repeat(&mut self, connection: usize, pending: &mut Pending, out: &mut Vec<u8>) {
        self.source.repeat(connection, pending, out);
    }

    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) -> Vec<Pending> {
        self.source.greet(connection, out)
    }
}

/// Returns the configuration of a closed loop of `requests` requests.
pub fn config(workload: &Workload, requests: u64) -> Config {
    Config {
        targets: workload.targets.iter().map(|target| target.address.parse().expect("an address")).collect(),
        routed: workload.placement != Placement::Any,
        threads: workload.threads as usize,
        connections: workload.connections as usize,
        depth: workload.depth as usize,
        load: Load::Closed,
        seed: workload.seed,
        duration_ns: 600_000_000_000,
        timeout_ns: PATIENCE.as_nanos() as u64,
        requests_max: Some(requests),
        ..Config::default()
    }
}

/// The counts of a run.
pub struct Outcome {
    pub run: Run,
    pub tally: AnswerTally,
    /// Number of replies by verb and fate, as in `get hit`.
    pub counts: Counts,
}

impl Outcome {
    fn new(run: Run, tally: AnswerTally) -> Self {
        let mut counts = Counts::new();
        for cell in &run.bulk.cells {
            let name = format!("{} {}", run.bulk.verbs[cell.verb], cell.fate.name());
            *counts.entry(name).or_default() += cell.response.count();
        }
        let totals = run.bulk.totals;
        assert_eq!((totals.lost, totals.unsent), (0, 0), "every request got a reply: {:?}", run.bulk.faults);
        assert_eq!(totals.answered, totals.hits + totals.misses + totals.errors + totals.wrong);
        assert_eq!(totals.answered, counts.values().sum::<u64>(), "each reply is in one cell");
        Self { run, tally, counts }
    }

    /// Returns the number of replies with this verb and fate.
    pub fn of(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Returns the number of replies of a verb, with any fate.
    pub fn all(&self, verb: &str) -> u64 {
        ["hit", "miss", "error", "wrong"].iter().map(|fate| self.of(&format!("{verb} {fate}"))).sum()
    }
}

/// Sends `requests` requests of the workload, and the follow-ups in addition.
pub fn load(workload: &Workload, requests: u64) -> Outcome {
    let all = Mutex::new(AnswerTally::default());
    let now = UnixMillis::now();
    let make = |place: TrafficThread| {
        assert_eq!(place.stream, LoadStream::Bulk);
        Tallied { source: RequestSource::new(workload, place.thread as u32, now), all: &all }
    };
    let run = run(&config(workload, requests), make, &Control::new(0.0)).expect("it can be run");
    let tally = *all.lock().expect("nobody panicked");
    Outcome::new(run, tally)
}

/// Stores every key of the workload once.
pub fn prefill(workload: &Workload) -> Outcome {
    let keys = workload.keys.iter().map(|space| space.count).sum();
    let now = UnixMillis::now();
    let make = |place: TrafficThread| Prefill::new(workload, place.thread as u32, now);
    let run = run(&config(workload, keys), make, &Control::new(0.0)).expect("it can be run");
    Outcome::new(run, AnswerTally::default())
}

/// Returns a function from a counter's name to its increase from `before` to `after`.
pub fn since(before: &Counts, after: &Counts) -> impl Fn(&str) -> u64 + use<> {
    let grown: Counts = after
        .iter()
        .map(|(name, value)| (name.clone(), value.saturating_sub(before.get(name).copied().unwrap_or(0))))
        .collect();
    move |name: &str| grown.get(name).copied().unwrap_or(0)
}
