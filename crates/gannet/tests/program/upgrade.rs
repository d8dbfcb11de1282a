//! Tests `gannet serve --upgrade`: clients that write during takeovers, refused takeovers, and new processes that end
//! during a takeover.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use base::prng::Prng;
use server::handover::{Received, Takeover};
use server::start::{Server, ServerConfig};

use crate::common::{PATIENCE, Serving, TempFile, ask, connect, gannet, page, run};
use crate::peers::{Folder, until};
use crate::restart::{Ledger, MemoryFile, kills, write};

/// Configuration without eviction, so that a missing item is a lost item.
const KEEPS: &str = "[store]\nevict = false\n";

/// A server that can be taken over, with the addresses for its clients.
pub struct Old {
    pub serving: Serving,
    pub memcached: SocketAddr,
    resp: SocketAddr,
    admin: SocketAddr,
    /// The flags of the process that takes over.
    args: Vec<String>,
}

impl Old {
    /// Starts a server of 32 MiB on free ports. `memory` has the flags for the kind of memory.
    pub fn start(memory: &[&str]) -> Self {
        Self::sized("32MiB", memory)
    }

    pub fn sized(size: &str, memory: &[&str]) -> Self {
        let fixed = ["--memory", size, "--workers", "2"];
        let free = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let mut serving = Serving::start(&[memory, &fixed, &free].concat());
        let memcached = serving.addr_behind("memcached clients connect to ");
        let resp = serving.addr_behind("Redis clients connect to ");
        let admin = serving.addr_behind("metrics are at http://");
        let addrs = [memcached, resp, admin].map(|addr| addr.to_string());
        let named = ["--memcached", &addrs[0], "--resp", &addrs[1], "--admin", &addrs[2]];
        let args = [memory, &fixed, &named].concat().iter().map(|arg| (*arg).to_owned()).collect();
        Self { serving, memcached, resp, admin, args }
    }

    pub fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        self.args.iter().map(String::as_str).chain(more.iter().copied()).collect()
    }

    /// Starts a new process that takes over, and waits for the end of the old process.
    pub fn upgrade(&mut self) {
        let next = Serving::start(&self.args(&["--upgrade"]));
        assert!(self.serving.ended().success(), "{:#?}", self.serving.lines);
        self.serving = next;
    }

    /// Returns the error text of a new process whose takeover must be refused.
    pub fn refusal(&self, args: &[&str]) -> String {
        let (code, _, err) = run(&[&["serve"], args].concat());
        assert_eq!(code, 1, "{err}");
        err
    }
}

/// Increments a counter on one connection until `over` is set. Each reply must be the next number. Returns the last
/// number.
fn count_up(addr: SocketAddr, over: &AtomicBool) -> u64 {
    let client = redis::Client::open(format!("redis://{addr}/")).expect("an address");
    let mut connection = client.get_connection().expect("connects");
    connection.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut count = 0;
    while !over.load(Relaxed) {
        let next: u64 = redis::cmd("INCR").arg("counter").query(&mut connection).expect("the connection goes on");
        count += 1;
        assert_eq!(next, count, "an acknowledged write is lost, or one was done twice");
    }
    count
}

/// Appends unique values to one key, one at a time on one connection. When the value is long, an append may be
/// incomplete at the end of the time for requests in flight. Its connection is then closed, at most once per upgrade,
/// and the append may or may not have been executed.
fn append(addr: SocketAddr, over: &AtomicBool, upgrades: usize) -> Vec<u8> {
    let mut stream = BufReader::new(connect(addr));
    let (mut all, mut cut) = (Vec::new(), 0);
    ask(stream.get_mut(), b"set order 0 0 0\r\n\r\n", b"STORED\r\n");
    for number in 0.. {
        if over.load(Relaxed) || all.len() > 400_000 {
            break;
        }
        let part = format!("{number};");
        let request = format!("append order 0 0 {}\r\n{part}\r\n", part.len());
        let mut line = String::new();
        let sent = stream.get_mut().write_all(request.as_bytes());
        if sent.and_then(|()| stream.read_line(&mut line)).is_ok_and(|bytes| bytes > 0) {
            assert_eq!(line, "STORED\r\n", "after {number} writes");
            all.extend(part.bytes());
            continue;
        }
        cut += 1;
        assert!(
            cut <= upgrades && all.len() > 4 << 10,
            "cut off {cut} times in {upgrades} upgrades, at {} bytes",
            all.len()
        );
        stream = BufReader::new(connect(addr));
        let there = order(&mut stream);
        let is_done = there.len() > all.len();
        all.extend(part.bytes().filter(|_| is_done));
        assert!(there == all, "what was acknowledged is there, and at most what was not");
    }
    all
}

/// Returns the value of the key to which values were appended.
fn order(stream: &mut BufReader<TcpStream>) -> Vec<u8> {
    stream.get_mut().write_all(b"get order\r\n").expect("sends");
    let mut line = String::new();
    stream.read_line(&mut line).expect("an answer");
    let bytes = line.trim_end().rsplit(' ').next().and_then(|bytes| bytes.parse::<usize>().ok());
    let mut value = vec![0; bytes.unwrap_or_else(|| panic!("{line}")) + b"\r\nEND\r\n".len()];
    stream.read_exact(&mut value).expect("the value");
    value.truncate(value.len() - b"\r\nEND\r\n".len());
    value
}

/// Runs clients that write in all ways during several consecutive takeovers.
fn through_upgrades(name: &str, in_file: bool, settings: &str, times: usize) {
    let file = MemoryFile::new(name);
    let config = TempFile::new(&format!("{name}.toml"), &format!("{KEEPS}{settings}"));
    let memory = if in_file { vec!["--file", file.path()] } else { vec!["--upgradable"] };
    let mut old = Old::start(&[&[config.path()][..], &memory].concat());
    let over = AtomicBool::new(false);
    let mut ledgers = [Ledger::default(), Ledger::default()];
    let (memcached, resp) = (old.memcached, old.resp);
    let (counted, appended) = std::thread::scope(|scope| {
        let over = &over;
        let counting = scope.spawn(move || count_up(resp, over));
        let appending = scope.spawn(move || append(memcached, over, times));
        let writers: Vec<_> = (ledgers.iter_mut().enumerate())
            .map(|(writer, ledger)| {
                let (mut prng, mut number) = (Prng::new(writer as u64 + 7), 0);
                scope.spawn(move || {
                    // A client that has not sent the rest of a value in time is disconnected, as when a server stops.
                    let mut cut = 0;
                    loop {
                        write(memcached, ledger, &mut prng, writer as u64, &mut number, over);
                        if over.load(Relaxed) {
                            return number;
                        }
                        cut += 1;
                        assert!(cut <= times, "writer {writer} was cut off {cut} times in {times} upgrades");
                        ledger.check(memcached, 0);
                    }
                })
            })
            .collect();
        for _ in 0..times {
            std::thread::sleep(Duration::from_millis(100));
            old.upgrade();
        }
        std::thread::sleep(Duration::from_millis(50));
        over.store(true, Relaxed);
        let written: u64 = writers.into_iter().map(|writer| writer.join().expect("the writer")).sum();
        assert!(written > 100, "the writers wrote {written} requests");
        (counting.join().expect("the counter"), appending.join().expect("the appender"))
    });
    ledgers.iter_mut().for_each(|ledger| ledger.check(memcached, 0));
    let mut stream = connect(resp);
    let told = format!("${}\r\n{counted}\r\n", counted.to_string().len());
    ask(&mut stream, b"GET counter\r\n", told.as_bytes());
    let head = format!("VALUE order 0 {}\r\n", appended.len());
    ask(&mut connect(memcached), b"get order\r\n", &[head.as_bytes(), &appended, b"\r\nEND\r\n"].concat());
    assert!(counted > 50 && appended.len() > 200, "{counted}, {}", appended.len());
    assert!(page(old.admin, "/metrics").contains("gannet_"), "the admin port goes on");
}

#[test]
fn writers_go_on_through_upgrades_of_a_server_with_a_file_and_lose_nothing() {
    through_upgrades("upgrade-file", true, "", 3);
}

#[test]
fn writers_go_on_through_upgrades_of_a_server_without_a_file_and_lose_nothing() {
    through_upgrades("upgrade-memory", false, "", 3);
}

/// Regression test: the index in DRAM was lost with the old process, so `incr` created counters again that had not been
/// found yet.
#[test]
fn writers_go_on_through_upgrades_of_a_server_with_its_index_in_dram_and_lose_nothing() {
    through_upgrades("upgrade-file-dram", true, "file_index = \"dram\"\n", 3);
    through_upgrades("upgrade-memory-dram", false, "file_index = \"dram\"\n", 2);
}

/// Regression test: in the time between two processes, no process had the names by which a server is found. A process
/// that came right after an upgrade reported that no server runs.
#[test]
fn server_after_an_upgrade_is_found_immediately_by_the_next_upgrade() {
    let mut old = Old::start(&["--upgradable"]);
    let mut client = connect(old.memcached);
    ask(&mut client, b"set k 0 0 1\r\nv\r\n", b"STORED\r\n");
    let args = old.args(&["--upgrade"]);
    let mut next: Vec<Serving> = (0..4).map(|_| Serving::start(&args)).collect();
    ask(&mut client, b"get k\r\n", b"VALUE k 0 1\r\nv\r\nEND\r\n");
    let last = next.pop();
    drop(args);
    [&mut old.serving].into_iter().chain(&mut next).for_each(|served| assert!(served.ended().success()));
    ask(&mut client, b"get k\r\n", b"VALUE k 0 1\r\nv\r\nEND\r\n");
    drop(last);
}

/// Changes the layout's hash in both superblocks of a memory file, with correct checksums.
fn lay_out_otherwise(file: &MemoryFile) {
    let open = std::fs::OpenOptions::new().read(true).write(true).open(file.path()).expect("there");
    for page in 0..2 {
        let mut bytes = [0; 512];
        open.read_exact_at(&mut bytes, page * 4096).expect("a superblock");
        bytes[16] ^= 1;
        let magic = u64::from_le_bytes(*b"GANNETMM");
        let sum = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[..504], magic);
        bytes[504..].copy_from_slice(&sum.to_le_bytes());
        open.write_all_at(&bytes, page * 4096).expect("written");
    }
}

#[test]
fn incompatible_upgrade_is_refused_and_the_running_server_continues() {
    let file = MemoryFile::new("upgrade-refused");
    let mut old = Old::start(&["--file", file.path()]);
    let mut client = connect(old.memcached);
    ask(&mut client, b"set k 0 0 1\r\nv\r\n", b"STORED\r\n");
    let port = old.memcached.to_string();
    let here = ["--memcached", &port, "--admin", "none", "--upgrade"];
    let err = old.refusal(&[&here[..], &["--file", file.path(), "--memory", "48MiB"]].concat());
    assert!(err.contains("--memory 33554432B, not 50331648B"), "{err}");
    let err = old.refusal(&[&here[..], &["--file", file.path(), "--segment", "128KiB"]].concat());
    assert!(err.contains("segments have"), "{err}");
    let err = old.refusal(&[&here[..], &["--upgradable"]].concat());
    assert!(err.contains("its memory is in") && err.contains(file.path()), "{err}");
    let other = MemoryFile::new("upgrade-other");
    std::fs::write(other.path(), b"x").expect("written");
    let err = old.refusal(&[&here[..], &["--file", other.path()]].concat());
    assert!(err.contains("its memory is in"), "{err}");
    lay_out_otherwise(&file);
    let err = old.refusal(&[&here[..], &["--file", file.path()]].concat());
    assert!(err.contains("uses another memory layout"), "{err}");
    old.serving.wait_for("uses another memory layout");
    ask(&mut client, b"get k\r\n", b"VALUE k 0 1\r\nv\r\nEND\r\n");
    old.serving.signal("TERM");
    assert!(old.serving.ended().success());
    let err = old.refusal(&[&here[..], &["--file", file.path()]].concat());
    assert!(err.contains("no server that supports a takeover listens at"), "{err}");
    let private = Old::start(&[]);
    let port = private.memcached.to_string();
    let err = private.refusal(&["--memcached", &port, "--admin", "none", "--upgrade"]);
    assert!(err.contains("memory is private") && err.contains("--upgradable"), "{err}");
    let (code, _, err) = run(&["serve", "--upgrade", "--file", file.path(), "--file-reset"]);
    assert!(code == 2 && err.contains("not discarded"), "{err}");
}

/// With another file of graphs, edges would go to the old one, and a restart would not find them.
#[test]
fn upgrade_with_another_file_of_graphs_is_refused_and_graphs_stay() {
    let folder = Folder::new("upgrade-graphs");
    let (memory, graphs, other) = (folder.file("memory"), folder.file("graphs"), folder.file("other"));
    let graph_memory = ["--graph-memory", "90MiB"];
    for (theirs, ours) in [(None, Some(&other)), (Some(&graphs), Some(&other)), (Some(&graphs), None)] {
        let settings = |graphs: Option<&String>| {
            let file = graphs.map_or(Vec::new(), |file| vec!["--graph-file".to_owned(), file.clone()]);
            [vec!["--file".to_owned(), memory.clone()], graph_memory.map(str::to_owned).to_vec(), file].concat()
        };
        let (theirs, ours) = (settings(theirs), settings(ours));
        let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
        let mut old = Old::start(&theirs);
        let port = old.memcached.to_string();
        let mut new = vec!["--memcached", &port, "--admin", "none", "--upgrade"];
        new.extend(ours.iter().map(String::as_str));
        let err = old.refusal(&new);
        assert!(err.contains("its graphs are in") && err.contains("--graph-file"), "{err}");
        ask(&mut connect(old.memcached), b"set k 0 0 1\r\nv\r\n", b"STORED\r\n");
        old.serving.signal("TERM");
        assert!(old.serving.ended().success());
    }
    assert!(!std::path::Path::new(&other).exists(), "nothing was created for the refused process");
}

/// Environment variable with the step at which the process of [`plays_a_new_process_that_dies`] ends.
pub const STEP: &str = "GANNET_TEST_UPGRADE_STEP";
const PLACE: &str = "GANNET_TEST_UPGRADE_PLACE";
/// Environment variable with the flash of the server that is taken over, if it has any.
const FLASH: &str = "GANNET_TEST_UPGRADE_FLASH";

#[test]
#[ignore = "another test starts it as a process of its own"]
fn plays_a_new_process_that_dies() {
    let step = std::env::var(STEP).expect("a step");
    let place = std::env::var(PLACE).expect("an address");
    let addr = place.parse::<SocketAddr>().expect("an address");
    let memcached = vec![io::listen::ListenAddr::Tcp(addr)];
    let flash = std::env::var(FLASH).ok().map(|flash| flash.parse().expect("a path and a size"));
    let memory_bytes = if flash.is_some() { 16 << 20 } else { 32 << 20 };
    let flash = flash.into_iter().collect();
    let config = ServerConfig { memcached, memory_bytes, flash, ..ServerConfig::default() };
    let taking = Takeover::begin(&config, true).expect("it is offered").expect("its server runs");
    match &step[..] {
        "asked" => std::process::abort(),
        "refused" => {
            drop(taking.receive().expect("it is handed over"));
            taking.fail("on purpose");
            std::process::exit(0);
        }
        _ => {}
    }
    let Received { handover_state, .. } = taking.receive().expect("it is handed over");
    assert!(!handover_state.connections.is_empty() && !handover_state.listeners.is_empty());
    if step == "prepared" {
        let prepared = Server::prepare(config, handover_state).expect("it could serve");
        assert!(prepared.shared().store.reopened().is_some_and(|reopened| reopened.items > 0));
        std::process::abort();
    }
    if step == "confirmed" || step == "served" {
        let prepared = Server::prepare(config, handover_state).expect("it could serve");
        let before = taking.confirm().expect("it may serve").expect("its server runs");
        if step == "served" {
            let _running = prepared.go();
            before.report_serving();
            // Much less than the second for which the running server watches.
            std::thread::sleep(Duration::from_millis(20));
            std::process::abort();
        }
        std::process::abort();
    }
    assert_eq!(step, "received");
    std::process::abort();
}

/// Starts a process that takes over from the server at `from` and ends at the given step.
pub fn dying(step: &str, from: SocketAddr, flash: Option<&str>) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "--ignored", "upgrade::plays_a_new_process_that_dies"]);
    command.env(STEP, step).env(PLACE, from.to_string()).envs(flash.map(|flash| (FLASH, flash)));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

/// Returns the running server's log message about a takeover that ended at this step.
pub fn said_of(step: &str) -> &'static str {
    match step {
        "asked" => "invalid takeover request",
        "refused" => "nothing was handed over: on purpose",
        "confirmed" | "served" => "the new process took over, but the new process ended; this server continues",
        _ => "nothing was handed over: the new process ended",
    }
}

#[test]
fn running_server_continues_if_the_new_process_dies_during_an_upgrade() {
    let mut old = Old::start(&["--upgradable"]);
    let mut client = connect(old.memcached);
    let mut resp = connect(old.resp);
    for (number, step) in ["asked", "received", "refused", "prepared"].into_iter().enumerate() {
        ask(&mut client, format!("set k{number} 0 0 1\r\nv\r\n").as_bytes(), b"STORED\r\n");
        let mut child = dying(step, old.memcached, None);
        // Requests during this time get replies, from either process.
        ask(&mut client, b"get k0\r\n", b"VALUE k0 0 1\r\nv\r\nEND\r\n");
        child.wait().expect("its end");
        old.serving.wait_for(said_of(step));
        ask(
            &mut client,
            format!("get k{number}\r\n").as_bytes(),
            format!("VALUE k{number} 0 1\r\nv\r\nEND\r\n").as_bytes(),
        );
        ask(&mut resp, b"PING\r\n", b"+PONG\r\n");
        ask(&mut connect(old.resp), b"PING\r\n", b"+PONG\r\n");
    }
    assert!(page(old.admin, "/metrics").contains("gannet_"), "the admin port goes on");
    // A new process that has begun to serve may have read from connections, so the old process cannot continue with
    // them.
    for (number, step) in ["confirmed", "served"].into_iter().enumerate() {
        let (mut client, mut resp) = (connect(old.memcached), connect(old.resp));
        ask(&mut client, format!("set s{number} 0 0 1\r\nv\r\n").as_bytes(), b"STORED\r\n");
        let mut child = dying(step, old.memcached, None);
        child.wait().expect("its end");
        old.serving.wait_for(said_of(step));
        assert_eq!(client.read(&mut [0]).ok(), Some(0), "{step}");
        assert_eq!(resp.read(&mut [0]).ok(), Some(0), "{step}");
        ask(&mut connect(old.resp), b"PING\r\n", b"+PONG\r\n");
        let found = format!("VALUE s{number} 0 1\r\nv\r\nEND\r\n");
        ask(&mut connect(old.memcached), format!("get s{number}\r\n").as_bytes(), found.as_bytes());
    }
    let (mut client, mut resp) = (connect(old.memcached), connect(old.resp));
    old.upgrade();
    ask(&mut client, b"get k3\r\n", b"VALUE k3 0 1\r\nv\r\nEND\r\n");
    ask(&mut resp, b"PING\r\n", b"+PONG\r\n");
}

/// Returns whether a server replies at `addr`.
pub fn answers(addr: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(addr) else { return false };
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let mut answer = [0; 4];
    stream.write_all(b"mn\r\n").is_ok() && stream.read_exact(&mut answer).is_ok() && &answer == b"MN\r\n"
}

/// Calls `act` while a client writes, 20 ms after the client's start.
fn while_written<T>(
    addr: SocketAddr,
    ledger: &mut Ledger,
    seed: u64,
    number: &AtomicU64,
    act: impl FnOnce() -> T,
) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        scope.spawn(move || {
            let (mut writing, mut count) = (Prng::new(seed), number.load(Relaxed));
            write(addr, ledger, &mut writing, 0, &mut count, over);
            number.store(count, Relaxed);
        });
        std::thread::sleep(Duration::from_millis(20));
        let acted = act();
        over.store(true, Relaxed);
        acted
    })
}

#[test]
fn acknowledged_writes_survive_a_kill_of_the_new_process() {
    let seed = 11;
    let file = MemoryFile::new("upgrade-killed");
    let config = TempFile::new("upgrade-killed.toml", KEEPS);
    let mut prng = Prng::new(seed);
    let mut ledger = Ledger::default();
    let number = AtomicU64::new(0);
    for round in 0..kills(12) as u64 {
        let old = Old::start(&[config.path(), "--file", file.path()]);
        ledger.check(old.memcached, seed);
        let seeds = [prng.next_u64(), prng.below(8)];
        while_written(old.memcached, &mut ledger, seeds[0], &number, || {
            let args = old.args(&["--upgrade"]);
            let mut command = gannet(&[&["serve"], &args[..]].concat());
            let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
            std::thread::sleep(Duration::from_millis(round % 12 * 8 + seeds[1]));
            child.kill().expect("killed");
            child.wait().expect("its end");
            std::thread::sleep(Duration::from_millis(30));
        });
        let end = Instant::now() + PATIENCE;
        while !answers(old.memcached) {
            assert!(Instant::now() < end, "seed {seed}, round {round}: nobody serves");
        }
        ledger.check(old.memcached, seed);
    }
    let old = Old::start(&[config.path(), "--file", file.path()]);
    ledger.check(old.memcached, seed);
}

/// Regression test: the old process was killed during the handover, and the new process ended too, although it had
/// received everything that it needs to serve.
#[test]
fn new_process_serves_acknowledged_writes_if_the_old_process_is_killed() {
    let seed = 12;
    let file = MemoryFile::new("upgrade-orphan");
    let config = TempFile::new("upgrade-orphan.toml", KEEPS);
    let mut prng = Prng::new(seed);
    let mut ledger = Ledger::default();
    let number = AtomicU64::new(0);
    for round in 0..kills(12) as u64 {
        let mut old = Old::start(&[config.path(), "--file", file.path()]);
        ledger.check(old.memcached, seed);
        let seeds = [prng.next_u64(), prng.below(8)];
        let mut next = while_written(old.memcached, &mut ledger, seeds[0], &number, || {
            let args = old.args(&["--upgrade"]);
            let child = gannet(&[&["serve"], &args[..]].concat()).stderr(Stdio::null()).spawn().expect("it starts");
            std::thread::sleep(Duration::from_millis(round % 12 * 8 + seeds[1]));
            old.serving.signal("KILL");
            old.serving.ended();
            Killed(child)
        });
        let end = Instant::now() + PATIENCE;
        while !answers(old.memcached) {
            assert!(next.0.try_wait().is_ok_and(|ended| ended.is_none()), "seed {seed}, round {round}: it ended too");
            assert!(Instant::now() < end, "seed {seed}, round {round}: nobody serves");
        }
        ledger.check(old.memcached, seed);
        ask(&mut connect(old.resp), b"PING\r\n", b"+PONG\r\n");
        assert!(page(old.admin, "/metrics").contains("gannet_"), "seed {seed}, round {round}: no admin port");
    }
    let old = Old::start(&[config.path(), "--file", file.path()]);
    ledger.check(old.memcached, seed);
}

/// A process that is killed when this value is dropped.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One connection of a busy client, which the server must never close.
struct Busy {
    number: usize,
    stream: BufReader<TcpStream>,
}

impl Busy {
    fn connect(number: usize, addr: SocketAddr) -> Self {
        Self { number, stream: BufReader::new(connect(addr)) }
    }

    fn ask(&mut self, request: &[u8], reply: &[u8]) {
        let number = self.number;
        self.stream.get_mut().write_all(request).unwrap_or_else(|error| panic!("client {number}: {error}"));
        self.expect(reply);
    }

    fn expect(&mut self, reply: &[u8]) {
        let (number, mut got) = (self.number, vec![0; reply.len()]);
        self.stream.read_exact(&mut got).unwrap_or_else(|error| panic!("client {number}: {error}"));
        assert!(got == reply, "client {number}: {}", got[..got.len().min(80)].escape_ascii());
    }
}

/// Runs a client until `over` is set. Its kind depends on `number`. Counts its rounds in `rounds`.
fn be_busy(number: usize, [memcached, resp]: [SocketAddr; 2], over: &AtomicBool, rounds: &AtomicU64) {
    let long = vec![b'a' + (number % 26) as u8; 300_000];
    let set = [format!("set l{number} 0 0 300000\r\n").as_bytes(), &long, b"\r\n"].concat();
    let mut busy = Busy::connect(number, if number % 6 < 3 { memcached } else { resp });
    let mut other = Busy::connect(number, resp);
    if number % 6 == 5 {
        let name = format!("c{number:03}");
        busy.ask(
            format!("SUBSCRIBE {name}\r\n").as_bytes(),
            format!("*3\r\n$9\r\nsubscribe\r\n$4\r\n{name}\r\n:1\r\n").as_bytes(),
        );
    }
    let mut count = 0;
    while !over.load(Relaxed) {
        match number % 6 {
            // Sends a value in pieces.
            0 => busy.ask(&set, b"STORED\r\n"),
            // Reads a value that the server sends in pieces, several times for one request.
            1 => {
                busy.ask(&set, b"STORED\r\n");
                let value = [format!("VALUE l{number} 0 300000\r\n").as_bytes(), &long, b"\r\n"].concat();
                let answer = [&value[..], &value, &value, b"END\r\n"].concat();
                busy.ask(format!("get l{number} none l{number} l{number}\r\n").as_bytes(), &answer);
            }
            // Sends a pipeline of requests.
            2 => {
                let pair = format!("set k{number} 0 0 1\r\nv\r\nget k{number}\r\n");
                let answer = format!("STORED\r\nVALUE k{number} 0 1\r\nv\r\nEND\r\n");
                busy.ask(pair.repeat(200).as_bytes(), answer.repeat(200).as_bytes());
            }
            // Executes a transaction on watched keys.
            3 => {
                let lines = format!("SET t{number} {count}\r\nWATCH t{number}\r\nMULTI\r\nGET t{number}\r\n");
                busy.ask(lines.as_bytes(), b"+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n");
                let text = count.to_string();
                busy.ask(b"EXEC\r\n", format!("*1\r\n${}\r\n{text}\r\n", text.len()).as_bytes());
            }
            // Stores and reads a long value in RESP.
            4 => {
                let head = format!("*3\r\n$3\r\nSET\r\n$4\r\nr{number:03}\r\n$300000\r\n");
                busy.ask(&[head.as_bytes(), &long, b"\r\n"].concat(), b"+OK\r\n");
                busy.ask(format!("STRLEN r{number:03}\r\n").as_bytes(), b":300000\r\n");
            }
            // Subscribes to a channel, and publishes on another connection.
            _ => {
                let (name, text) = (format!("c{number:03}"), count.to_string());
                other.ask(format!("PUBLISH {name} {text}\r\n").as_bytes(), b":1\r\n");
                let message = format!("*3\r\n$7\r\nmessage\r\n$4\r\n{name}\r\n${}\r\n{text}\r\n", text.len());
                busy.expect(message.as_bytes());
            }
        }
        count += 1;
        rounds.store(count, Relaxed);
    }
}

/// Regression test: an upgrade closed 95 of 500 busy connections.
#[test]
fn no_busy_connection_is_closed_by_an_upgrade() {
    const CLIENTS: usize = 48;
    let config = TempFile::new("upgrade-busy.toml", KEEPS);
    let mut old = Old::start(&[config.path(), "--upgradable"]);
    let addrs = [old.memcached, old.resp];
    let over = AtomicBool::new(false);
    let rounds = [const { AtomicU64::new(0) }; CLIENTS];
    std::thread::scope(|scope| {
        let (over, rounds) = (&over, &rounds);
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || be_busy(number, addrs, over, &rounds[number]))).collect();
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(200));
            old.upgrade();
        }
        until("every client has had some rounds or has ended", || {
            rounds.iter().zip(&clients).all(|(rounds, client)| rounds.load(Relaxed) > 3 || client.is_finished())
        });
        over.store(true, Relaxed);
        let closed = clients.into_iter().filter_map(|client| client.join().err()).count();
        assert_eq!(closed, 0, "{:#?}", old.serving.lines);
    });
}

/// A container with its host's network sees the host's abstract sockets, and may run as the same user.
#[test]
fn process_in_another_namespace_takes_nothing_over() {
    let mut old = Old::start(&["--upgradable"]);
    for spaces in [&["--user", "--map-current-user"][..], &["--pid", "--fork", "--kill-child"]] {
        let inside = |program: &str| {
            let mut command = Command::new("unshare");
            command.args(spaces).arg(program).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command
        };
        if !inside("true").status().is_ok_and(|status| status.success()) {
            eprintln!("skipped: this machine gives no namespace with {spaces:?}");
            continue;
        }
        let mut command = inside(env!("CARGO_BIN_EXE_gannet"));
        let output = command.arg("serve").args(old.args(&["--upgrade"])).output().expect("unshare runs");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && err.contains("--upgrade: "), "{spaces:?}: {err}");
        let line = old.serving.wait_for("invalid takeover request: ");
        assert!(line.contains(" namespace"), "{line}");
    }
    ask(&mut connect(old.memcached), b"set a 0 0 1\r\nx\r\n", b"STORED\r\n");
    old.upgrade();
    ask(&mut connect(old.memcached), b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n");
}
