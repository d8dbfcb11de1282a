//! Measures over sockets how long a client's `PING` waits while another client runs a long command, for Gannet and for
//! its peers redis-server and memcached.
//!
//! ```text
//!   bystander  a PING is due every 500 us; each is timed from its due instant, so a stall counts for every
//!              PING that was due during it
//!   noise      one connection: sends the long command, then a request whose reply marks the command's end;
//!              repeats both
//! ```
//!
//! Each server has one thread on CPU 0. Both clients share CPU 1; the noise has the lowest priority. A test of the
//! server runs the same commands under a simulated clock, where the machine's speed has no influence.

#[path = "../../../crates/server/tests/server/bystander/table.rs"]
mod table;
#[path = "../../../crates/server/tests/common/request.rs"]
mod wire_request;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::rounds::{GENERATOR_CPU, SERVER_CPU};
use table::{BystanderCase, Group, Wire};
use testbed::server::{ServerKind, ServerOptions, TestServer, pin};
use wire_request::request;

/// Time between two instants at which a `PING` is due.
const PERIOD: Duration = Duration::from_micros(500);
/// Time limit of a command.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Pause after a server was filled.
const SETTLES: Duration = Duration::from_millis(500);
const MIB: usize = 1 << 20;

/// The size of the measurement.
struct BystanderPlan {
    /// Number of keys, or of fields, that are stored for a command that walks over all of them.
    scale: usize,
    /// Time for which the noise repeats a command.
    turn: Duration,
}

/// The result of one command on one server.
struct BystanderTimes {
    /// Times of the bystander's requests in ns, in ascending order.
    times_ns: Vec<u64>,
    /// Number of times that the command was run.
    done: u64,
}

impl BystanderTimes {
    fn us(&self, share: f64) -> u64 {
        let last = self.times_ns.len().saturating_sub(1);
        let at = ((self.times_ns.len() as f64 * share) as usize).min(last);
        self.times_ns.get(at).map_or(0, |ns| ns / 1000)
    }

    /// Returns one server's columns of the table.
    fn columns(&self) -> String {
        format!("{} | {} / {} / {}", self.done, self.us(0.5), self.us(0.999), self.us(1.0))
    }
}

/// Runs the measurement and prints the results.
///
/// # Errors
/// If a server does not start, or if a client gets no reply.
pub fn run(quick: bool, rows: &[String]) -> Result<(), String> {
    let plan = match quick {
        true => BystanderPlan { scale: 30_000, turn: Duration::from_millis(200) },
        false => BystanderPlan { scale: 1_000_000, turn: Duration::from_secs(2) },
    };
    println!(
        "A PING is due every {PERIOD:?}, and its time counts from that instant. Meanwhile another client repeats a \
         command for {:?}, or runs it once if only its first run takes long. Commands that walk over all keys or \
         fields find {} of them. The peer is memcached for its protocol's commands, and redis-server for all others; \
         a dash if the peer does not have the command, or closes the connection because the command is too long.\n",
        plan.turn, plan.scale
    );
    println!(
        "| command | length | gannet, done | PING p50 / p999 / max, us | peer, done | PING p50 / p999 / max, us |\n\
         |---|---|---|---|---|---|"
    );
    pin(Some(GENERATOR_CPU))?;
    let groups: [fn(usize) -> Group; 6] = [
        table::walks_over_all_keys,
        |_| table::commands_over_many_keys(),
        table::commands_over_one_large_hash,
        |_| table::commands_over_one_long_value(),
        table::commands_over_many_records,
        table::commands_over_one_large_stream,
    ];
    let mut alone = true;
    for group in groups {
        let mut group = group(plan.scale);
        let is_asked = |name: &str| rows.is_empty() || rows.iter().any(|row| name.starts_with(row.as_str()));
        group.entries.retain(|entry| is_asked(entry.name));
        for wire in [Wire::Resp, Wire::Memcache] {
            let entries: Vec<&BystanderCase> = group.entries.iter().filter(|entry| entry.wire == wire).collect();
            if !entries.is_empty() {
                compare(&group, wire, &entries, &plan, std::mem::take(&mut alone))?;
            }
        }
    }
    pin(None)
}

/// Measures the commands of a protocol on Gannet, and then on the peer. The two servers do not run at the same time,
/// because they share a CPU and even an idle server uses some of it.
fn compare(
    group: &Group,
    wire: Wire,
    entries: &[&BystanderCase],
    plan: &BystanderPlan,
    alone: bool,
) -> Result<(), String> {
    let peer = if wire == Wire::Resp { ServerKind::Redis } else { ServerKind::Memcached };
    let alone = alone.then_some(None);
    let runs: Vec<Option<&BystanderCase>> = alone.into_iter().chain(entries.iter().map(|entry| Some(*entry))).collect();
    let own = measure(ServerKind::Gannet, group, wire, &runs, plan)?;
    let peer = measure(peer, group, wire, &runs, plan)?;
    for ((entry, own), peer) in runs.iter().zip(&own).zip(&peer) {
        let (name, length) = entry.map_or(("none", String::new()), |entry| (entry.name, entry.length()));
        print(name, &length, [own, peer]);
    }
    Ok(())
}

/// Returns the results of each command on a server of this kind. An entry `None` of `runs` measures the bystander
/// alone. A result is `None` if the server does not have the command, or closes the connection because of its length.
fn measure(
    kind: ServerKind,
    group: &Group,
    wire: Wire,
    runs: &[Option<&BystanderCase>],
    plan: &BystanderPlan,
) -> Result<Vec<Option<BystanderTimes>>, String> {
    let options = ServerOptions {
        cpu: Some(SERVER_CPU),
        resp: true,
        item_bytes_max: 128 * MIB as u64,
        ..ServerOptions::memory(if plan.scale > 100_000 { 4096 } else { 1024 })
    };
    let server = TestServer::start(kind, &options)?;
    let address = if wire == Wire::Resp { server.resp } else { server.address };
    fill(&server, group).map_err(|error| format!("{}: filling: {error}", kind.name()))?;
    std::thread::sleep(SETTLES);
    let one = |entry: Option<&BystanderCase>| -> std::io::Result<Option<BystanderTimes>> {
        if let Some(entry) = entry
            && !has_command(address, entry)?
        {
            return Ok(None);
        }
        match beside(address, wire, entry, plan) {
            Err(error) if [ErrorKind::ConnectionReset, ErrorKind::Unsupported].contains(&error.kind()) => Ok(None),
            outcome => outcome.map(Some),
        }
    };
    let named = |entry: Option<&BystanderCase>, error| {
        format!("{}: {}: {error}", kind.name(), entry.map_or("none", |e| e.name))
    };
    runs.iter().map(|entry| one(*entry).map_err(|error| named(*entry, error))).collect()
}

fn print(name: &str, length: &str, outcomes: [&Option<BystanderTimes>; 2]) {
    let columns =
        |outcome: &Option<BystanderTimes>| outcome.as_ref().map_or("- | -".to_owned(), BystanderTimes::columns);
    println!("| {name} | {length} | {} |", outcomes.map(columns).join(" | "));
}

fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    Ok(stream)
}

/// Returns the words of a RESP request: the command's name and its arguments.
fn words(request: &[u8]) -> Vec<&[u8]> {
    let (mut words, mut rest) = (Vec::new(), request);
    while let Some(end) = memchr::memmem::find(rest, b"\r\n") {
        let (head, behind) = (&rest[..end], &rest[end + 2..]);
        rest = behind;
        if let Some(length) = head.strip_prefix(b"$") {
            let length = std::str::from_utf8(length).ok().and_then(|text| text.parse::<usize>().ok());
            let Some(word) = length.and_then(|length| rest.get(..length)) else { break };
            words.push(word);
            rest = rest.get(word.len() + 2..).unwrap_or_default();
        }
    }
    words
}

/// Converts a RESP `SET` to memcached's `set`. The keys for memcached are stored with no other command.
fn in_memcached(request: &[u8]) -> Vec<u8> {
    let words = words(request);
    let (key, value) = (words[1], words[2]);
    let length = value.len().to_string();
    [b"set ", key, b" 0 0 ", length.as_bytes(), b"\r\n", value, b"\r\n"].concat()
}

/// Stores the keys that the commands use. Stops without an error at the first batch of commands that a peer does not
/// know.
fn fill(server: &TestServer, group: &Group) -> std::io::Result<()> {
    let mut stream = connect(server.resp)?;
    let mut buffer = vec![0; 64 << 10];
    for batch in group.fill.chunks(500) {
        let requests: Vec<Vec<u8>> = match server.kind {
            ServerKind::Memcached => batch.iter().map(|request| in_memcached(request)).collect(),
            _ => batch.to_vec(),
        };
        stream.write_all(&requests.concat())?;
        let mut lines = 0;
        while lines < batch.len() {
            let bytes = stream.read(&mut buffer)?;
            if bytes == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if buffer.starts_with(b"-ERR unknown") {
                return Ok(());
            }
            lines += memchr::memchr_iter(b'\n', &buffer[..bytes]).count();
        }
    }
    Ok(())
}

/// Returns whether the server has the command. memcached supports all commands used here.
fn has_command(address: SocketAddr, entry: &BystanderCase) -> std::io::Result<bool> {
    if entry.wire == Wire::Memcache {
        return Ok(true);
    }
    let mut stream = connect(address)?;
    let request = words(&entry.request);
    let name = request.first().map(|word| String::from_utf8_lossy(word)).unwrap_or_default();
    stream.write_all(&table::line(&format!("COMMAND INFO {name}")))?;
    let mut answer = [0; 9];
    stream.read_exact(&mut answer)?;
    Ok(!answer.starts_with(b"*1\r\n*-1") && !answer.starts_with(b"*1\r\n_") && !answer.starts_with(b"*1\r\n$-1"))
}

/// Times the bystander's requests while another client runs the command of `entry`, or alone if that is `None`.
fn beside(
    address: SocketAddr,
    wire: Wire,
    entry: Option<&BystanderCase>,
    plan: &BystanderPlan,
) -> std::io::Result<BystanderTimes> {
    let over = AtomicBool::new(false);
    let mut bystander = connect(address)?;
    std::thread::scope(|scope| {
        let noise = scope.spawn(|| {
            let done = entry.map_or_else(|| Ok(wait(plan.turn)), |entry| run_again_and_again(address, entry, plan));
            over.store(true, Relaxed);
            done
        });
        let times = time_pings(&mut bystander, wire, &over);
        over.store(true, Relaxed);
        let done = noise.join().map_err(|_| std::io::Error::other("a client's thread panicked"))??;
        Ok(BystanderTimes { times_ns: times?, done })
    })
}

fn wait(time: Duration) -> u64 {
    std::thread::sleep(time);
    0
}

/// Runs the command at least once, and repeats it until the time is over unless only its first run takes long. Returns
/// the number of runs.
fn run_again_and_again(address: SocketAddr, entry: &BystanderCase, plan: &BystanderPlan) -> std::io::Result<u64> {
    // This thread receives a few MiB of replies. The low priority prevents that the bystander waits for it.
    let _ = rustix::process::nice(19);
    let mut stream = connect(address)?;
    let (mark, end) = entry.mark();
    let request = [&entry.request[..], &mark].concat();
    let (begun, mut done) = (Instant::now(), 0);
    let mut buffer = vec![0; 256 << 10];
    while done == 0 || (!entry.is_once && begun.elapsed() < plan.turn) {
        stream.write_all(&request)?;
        let (mut tail, mut first) = (Vec::new(), true);
        while !tail.ends_with(end) {
            let bytes = stream.read(&mut buffer)?;
            if bytes == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if std::mem::take(&mut first) && (buffer[0] == b'-' || buffer.starts_with(b"ERROR")) {
                let kind = if buffer[0] == b'-' { ErrorKind::Other } else { ErrorKind::Unsupported };
                let answer = String::from_utf8_lossy(&buffer[..bytes.min(100)]).into_owned();
                return Err(std::io::Error::new(kind, answer));
            }
            tail.extend_from_slice(&buffer[bytes.saturating_sub(end.len())..bytes]);
            tail.drain(..tail.len().saturating_sub(end.len()));
        }
        done += 1;
    }
    Ok(done)
}

/// Sends a `PING`, or memcached's `mn`, every [`PERIOD`] until `over` is set. Returns the times in ns, in ascending
/// order.
fn time_pings(stream: &mut TcpStream, wire: Wire, over: &AtomicBool) -> std::io::Result<Vec<u64>> {
    let (request, answer): (&[u8], &[u8]) = match wire {
        Wire::Resp => (b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"),
        Wire::Memcache => (b"mn\r\n", b"MN\r\n"),
    };
    let (mut times_ns, mut got) = (Vec::new(), vec![0; answer.len()]);
    let mut due = Instant::now();
    // A stall counts for all requests that were due during it, even if the command ends before they are sent.
    while !over.load(Relaxed) || due < Instant::now() {
        let now = Instant::now();
        if now < due {
            std::thread::sleep(due - now);
        }
        // If this thread's sleep ended late, that is not the server's delay, so the time counts from the sleep's end.
        let from = if now < due { Instant::now() } else { due };
        stream.write_all(request)?;
        stream.read_exact(&mut got)?;
        times_ns.push(from.elapsed().as_nanos() as u64);
        due += PERIOD;
    }
    times_ns.sort_unstable();
    Ok(times_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resp_set_is_translated_to_memcached() {
        let request = table::line("SET key value");
        assert_eq!(words(&request), [&b"SET"[..], b"key", b"value"]);
        assert_eq!(in_memcached(&request), b"set key 0 0 5\r\nvalue\r\n");
    }

    #[test]
    fn bystander_is_timed_beside_commands_of_redis_and_memcached() {
        let plan = BystanderPlan { scale: 1000, turn: Duration::from_millis(20) };
        let group = table::commands_over_many_keys();
        let entries: Vec<&BystanderCase> = group.entries.iter().collect();
        for (kind, wire) in [(ServerKind::Redis, Wire::Resp), (ServerKind::Memcached, Wire::Memcache)] {
            let server = TestServer::start(kind, &ServerOptions::memory(64)).expect("it is installed");
            fill(&server, &group).expect("it takes them");
            // memcached refuses a `gat` line of that length.
            for entry in entries.iter().filter(|entry| entry.wire == wire && !entry.name.starts_with("gat")) {
                assert!(has_command(server.address, entry).expect("it answers"), "{}", entry.name);
                let outcome = beside(server.address, wire, Some(entry), &plan).expect("both are answered");
                assert!(outcome.done > 0 && outcome.us(1.0) >= outcome.us(0.5), "{}", entry.name);
            }
            if kind == ServerKind::Redis {
                let records = table::commands_over_many_records(10);
                fill(&server, &records).expect("it refuses");
                assert!(!has_command(server.address, &records.entries[0]).expect("it answers"));
            }
        }
    }
}
