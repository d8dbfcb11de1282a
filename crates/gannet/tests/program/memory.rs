//! Tests the memory limit: the resident memory stays below `--memory` plus the documented constant, whatever is stored.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, Serving, TempFile, ask, connect, request};

/// Returns the documented constant: 16 MiB for the program, 17 MiB per worker for its buffers and histograms, and the
/// memory of the worker's reactor, which is 6 MiB larger with io_uring. The constant is that of a release build. The
/// file of a build for tests is larger: 17.1 MiB of it are resident in an idle server, 9.7 MiB in a release build
/// (`RssFile` in /proc/PID/status). This function adds the difference, rounded up.
fn constant_bytes(workers: u64, io: &str) -> u64 {
    let reactor = if io == "uring" { 6 } else { 0 };
    let program = if cfg!(debug_assertions) { 24 } else { 16 };
    (program + (17 + reactor) * workers) << 20
}

fn resident_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmRSS:")
}

fn status_bytes(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a process has it");
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("a number of kB") << 10
}

fn locked_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmLck:")
}

/// The server reserves far more address space than it uses, so locking all of it would take the machine's memory.
/// Locked memory must also return to the kernel when the limit is lowered.
#[test]
fn locked_memory_is_only_the_used_part_and_is_freed_when_lowered() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root may lock as much memory as it likes");
        return;
    }
    let file = TempFile::new("lock.toml", "[store]\nlock = true\n");
    let args = [file.path(), "--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "256MiB", "--workers", "1"];
    let mut serving = Serving::start(&args);
    let addr = serving.addr_behind("memcached clients connect to ");
    let pid = serving.pid();
    assert!(locked_bytes(pid) > 256 << 20, "nothing is locked: {}", locked_bytes(pid));
    assert!(resident_bytes(pid) < 128 << 20, "memory is resident before it is used: {}", resident_bytes(pid));
    let mut client = connect(addr);
    let value = vec![b'v'; 100_000];
    for number in 0..2000 {
        write!(client, "set key-{number} 0 0 {}\r\n", value.len()).expect("sends");
        client.write_all(&[&value[..], b"\r\n"].concat()).expect("sends");
        let mut stored = [0; 8];
        client.read_exact(&mut stored).expect("a reply");
    }
    let full = resident_bytes(pid);
    assert!(full > 180 << 20, "{full} bytes are resident with 200 MB of values");
    client.write_all(b"cache_memlimit 64\r\n").expect("sends");
    let begun = std::time::Instant::now();
    while resident_bytes(pid) > 120 << 20 {
        assert!(begun.elapsed() < PATIENCE, "{} are still resident", resident_bytes(pid));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Stores values of every size and lifetime, five times the memory in total, by two clients at once. Samples the
/// resident memory after each batch.
fn fill_with_every_size_and_lifetime(io: &str) {
    let args = ["--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "64MiB", "--workers", "2"];
    let mut serving = Serving::start(&[&args[..], &["--maxconns", "500", "--io", io]].concat());
    let addr = serving.addr_behind("memcached clients connect to ");
    let pid = serving.pid();
    let mut clients = [connect(addr), connect(addr)];
    let value = vec![b'v'; 1 << 20];
    let (mut sent, mut stored, mut highest) = (0u64, 0u64, 0);
    let mut random = base::prng::Prng::new(9);
    while sent < 5 * (64 << 20) {
        for client in &mut clients {
            let mut batch = Vec::new();
            let mut replies = 0;
            for _ in 0..100 {
                let bytes = match random.below(300) {
                    0 => random.below(900_000),
                    1..=9 => random.below(60_000),
                    10..=99 => random.below(4_000),
                    _ => random.below(200),
                } as usize;
                let ttl = [0, 1, 10, 300, 86_400][random.below(5) as usize];
                write!(batch, "set key-{} 0 {ttl} {bytes}\r\n", random.below(200_000)).expect("to memory");
                batch.extend_from_slice(&value[..bytes]);
                batch.extend_from_slice(b"\r\n");
                replies += 1;
            }
            sent += batch.len() as u64;
            client.write_all(&batch).expect("sends");
            let mut answers = vec![0; replies * b"STORED\r\n".len()];
            client.read_exact(&mut answers).expect("a reply to each");
            assert!(answers.chunks(8).all(|answer| answer == b"STORED\r\n"), "every value is stored");
            stored += replies as u64;
        }
        highest = highest.max(resident_bytes(pid));
    }
    let most = (64 << 20) + constant_bytes(2, io);
    assert!(highest <= most, "{highest} bytes were resident, {most} are promised ({stored} values stored)");
    assert!(highest > 64 << 20, "the memory was filled: {highest} bytes");
}

#[test]
fn no_mix_grows_the_process_past_the_promise_with_epoll() {
    fill_with_every_size_and_lifetime("epoll");
}

/// If the kernel refuses io_uring, the server uses epoll, and this is the same test again.
#[test]
fn no_mix_grows_the_process_past_the_promise_with_io_uring() {
    fill_with_every_size_and_lifetime("uring");
}

/// The minimum limit of client memory, which applies in addition to the memory of these tests.
const CLIENT_BYTES: u64 = 16 << 20;
/// Number of clients of each kind. `GANNET_MEMORY_CLIENTS=1000` is the long form.
const CLIENTS: usize = 24;

/// Returns the bytes that `clients` clients may hold in addition: 1 KiB each, and 4 MiB for requests and replies that
/// are set aside when there are more clients than buffers.
fn waiting_bytes(clients: usize) -> u64 {
    let set_aside = if clients > CLIENTS { 4 << 20 } else { 0 };
    set_aside + ((clients as u64) << 10)
}

fn number_of(variable: &str) -> Option<usize> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// The requests of a client of each kind, and the number of bytes that the client reads before it stops to read: enough
/// that its requests have been executed. The memory that each client holds has no limit of its own, only a common limit
/// for all clients.
type Sends = fn(usize) -> Vec<u8>;
const QUEUED: usize = 300;
const KINDS: [(&str, usize, Sends); 7] = [
    ("answers of a transaction", b"+OK\r\n".len() + QUEUED * b"+QUEUED\r\n".len() + 1, |_| {
        let get = request(&[b"GET", b"long"]);
        [request(&[b"MULTI"]), get.repeat(QUEUED), request(&[b"EXEC"])].concat()
    }),
    ("queued requests", 1, |_| [request(&[b"MULTI"]), request(&[b"SET", b"q", &[b'q'; 100_000]]).repeat(40)].concat()),
    ("keys that are watched", 1, |number| {
        let keys: Vec<String> = (0..4000).map(|at| format!("watched-{number}-{at}-{}", "w".repeat(200))).collect();
        keys.iter().map(|key| request(&[b"WATCH", key.as_bytes()])).collect::<Vec<_>>().concat()
    }),
    ("one long reply", 1, |_| request(&[b"HGETALL", b"hash"]).repeat(4)),
    ("a walk over all keys", 1, |_| request(&[b"KEYS", b"*"])),
    ("names of channels", 1, |number| {
        let names: Vec<String> = (0..4000).map(|at| format!("channel-{number}-{at}-{}", "c".repeat(200))).collect();
        names.iter().map(|name| request(&[b"SUBSCRIBE", name.as_bytes()])).collect::<Vec<_>>().concat()
    }),
    ("messages", 1, |_| request(&[b"SUBSCRIBE", b"news"])),
];

/// Fills the store, including a long value and a long hash.
fn fill(resp: SocketAddr) {
    let mut client = connect(resp);
    for batch in 0..100 {
        let value = vec![b'v'; 1000];
        let sets = (0..1000).map(|at| request(&[b"SET", format!("key-{}", batch * 1000 + at).as_bytes(), &value]));
        client.write_all(&sets.collect::<Vec<_>>().concat()).expect("sends");
        let mut answers = vec![0; 1000 * b"+OK\r\n".len()];
        client.read_exact(&mut answers).expect("a reply to each");
    }
    ask(&mut client, &request(&[b"SET", b"long", &[b'l'; 200_000]]), b"+OK\r\n");
    for batch in 0..40 {
        let fields: Vec<String> = (0..100).map(|at| format!("field-{batch}-{at}-{}", "f".repeat(500))).collect();
        let words: Vec<&[u8]> = [&b"HSET"[..], b"hash"]
            .into_iter()
            .chain(fields.iter().flat_map(|field| [field.as_bytes(), field.as_bytes()]))
            .collect();
        ask(&mut client, &request(&words), b":100\r\n");
    }
}

/// Returns the highest resident memory during `time`, while a client gets replies.
fn highest_of(serving: &Serving, beside: &mut TcpStream, time: Duration) -> u64 {
    let (begun, mut highest) = (Instant::now(), 0);
    while begun.elapsed() < time {
        highest = highest.max(resident_bytes(serving.pid()));
        ask(beside, b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n");
        std::thread::sleep(Duration::from_millis(10));
    }
    highest
}

fn serve_both(memory: &str) -> (Serving, SocketAddr) {
    let args = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "none", "--memory", memory];
    let mut serving = Serving::start(&[&args[..], &["--workers", "1", "--io", "epoll"]].concat());
    let resp = serving.addr_behind("Redis clients connect to ");
    (serving, resp)
}

#[test]
fn clients_that_do_not_read_cannot_exceed_the_memory_bound() {
    let (serving, resp) = serve_both("64MiB");
    fill(resp);
    let clients = number_of("GANNET_MEMORY_CLIENTS").unwrap_or(CLIENTS);
    let most = (64 << 20) + CLIENT_BYTES + constant_bytes(1, "epoll") + waiting_bytes(clients);
    // Runs the kinds in both orders, because the memory that one kind has freed must not prevent another kind from
    // working, whichever is first.
    for (kind, reads, sends) in KINDS.into_iter().chain(KINDS.into_iter().rev()) {
        let mut beside = connect(resp);
        let mut held: Vec<TcpStream> = Vec::new();
        for number in 0..clients {
            let mut client = connect(resp);
            client.set_write_timeout(Some(Duration::from_millis(500))).expect("a socket");
            // The server may have closed the client's connection; its request has been tested then.
            let _ = client.write_all(&sends(number));
            held.push(client);
        }
        for client in &mut held {
            let _ = client.read_exact(&mut vec![0; reads]);
        }
        if kind == "messages" {
            for _ in 0..200 {
                beside.write_all(&request(&[b"PUBLISH", b"news", &[b'n'; 100_000]])).expect("sends");
                let mut line = Vec::new();
                while !line.ends_with(b"\r\n") {
                    let mut byte = [0];
                    beside.read_exact(&mut byte).expect("how many were told");
                    line.extend(byte);
                }
            }
        }
        let highest = highest_of(&serving, &mut beside, Duration::from_millis(700));
        println!("{kind}: {highest} bytes were resident, {most} are promised");
        assert!(highest <= most, "{kind}: {highest} bytes were resident, {most} are promised");
    }
}

#[test]
fn rules_of_users_grow_the_process_no_further_than_promised_and_are_given_back() {
    let (serving, resp) = serve_both("64MiB");
    fill(resp);
    let mut admin = connect(resp);
    let before = highest_of(&serving, &mut admin, Duration::from_millis(300));
    let patterns: Vec<String> = (0..200).map(|at| format!("~{at}-{}", "p".repeat(400))).collect();
    let mut refused = 0;
    let users = number_of("GANNET_MEMORY_CLIENTS").unwrap_or(300);
    for number in 0..users {
        let name = format!("user-{number}");
        let words = [&b"ACL"[..], b"SETUSER", name.as_bytes()].into_iter().chain(patterns.iter().map(String::as_bytes));
        admin.write_all(&request(&words.collect::<Vec<_>>())).expect("sends");
        let mut answer = [0; 5];
        admin.read_exact(&mut answer).expect("a reply");
        if answer != *b"+OK\r\n" {
            assert_eq!(&answer, b"-OOM ");
            refused += 1;
            let mut byte = [0];
            while byte != *b"\n" {
                admin.read_exact(&mut byte).expect("the line");
            }
        }
    }
    let highest = highest_of(&serving, &mut admin, Duration::from_millis(300));
    let most = before + CLIENT_BYTES;
    assert!(highest <= most, "{highest} bytes were resident, {most} are promised, {refused} users refused");
    assert!(refused > 0 && refused < users, "{refused} of {users} were refused");
    assert!(highest > before + (3 << 20), "{before} and then {highest} bytes: too few rules to prove anything");
    for number in 0..users {
        let name = format!("user-{number}");
        admin.write_all(&request(&[b"ACL", b"DELUSER", name.as_bytes()])).expect("sends");
        admin.read_exact(&mut [0; 4]).expect("a number");
    }
    let begun = Instant::now();
    while resident_bytes(serving.pid()) > before + (2 << 20) {
        let resident = resident_bytes(serving.pid());
        assert!(begun.elapsed() < PATIENCE, "{resident} bytes are resident, {before} were before");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Stores the smallest possible items, more than any memory of the test can hold: `GANNET_TINY_ITEMS=10000000`.
#[test]
fn tiny_items_grow_the_process_no_further_than_promised() {
    let items = number_of("GANNET_TINY_ITEMS").unwrap_or(1_000_000);
    let (serving, resp) = serve_both("64MiB");
    let mut client = connect(resp);
    let (mut sent, mut highest) = (0, 0);
    while sent < items {
        let count = 5000.min(items - sent);
        let sets = (sent..sent + count).map(|at| request(&[b"SET", format!("{at:x}").as_bytes(), b"1"]));
        client.write_all(&sets.collect::<Vec<_>>().concat()).expect("sends");
        let mut answers = vec![0; count * b"+OK\r\n".len()];
        client.read_exact(&mut answers).expect("a reply to each");
        sent += count;
        highest = highest.max(resident_bytes(serving.pid()));
    }
    let most = (64 << 20) + CLIENT_BYTES + constant_bytes(1, "epoll");
    assert!(highest <= most, "{highest} bytes were resident, {most} are promised");
}
