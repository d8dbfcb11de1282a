//! Tests thousands of connections, most of them idle. The test has its own process, because it measures the whole
//! process.

mod common;

use command::memory::budget::MemoryUse;
use common::redis::{both, resp_addr};
use common::{Client, config, resident, set, settled_resident, start, tcp, value, wait_until};
use gannet_server::buffers::BYTES_A_CONNECTION_MAX;
use gannet_server::config::kinds::IoChoice;
use gannet_server::start::ServerConfig;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// The number of connections to open, and the minimum number for the test.
const WANTED: usize = 10_000;
const LEAST: usize = 5000;
/// The bytes of this process for the client's side of a connection, and for memory that is used for the first time.
const CLIENT_BYTES: u64 = 16;
const ONCE_BYTES: u64 = 1 << 20;

/// A lock of each test, because the tests measure the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns the number of pairs of descriptors that the process may open.
fn pairs_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("up to the hard limit");
    let most = limit.maximum.map_or(usize::MAX, |maximum| maximum as usize);
    most.saturating_sub(200) / 2
}

#[test]
fn ten_thousand_idle_connections_cost_a_kibibyte_each_and_are_all_served() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let count = WANTED.min(pairs_max());
    assert!(count >= LEAST, "raise the hard limit of open files: {count} connections are too few for this test");
    for (io, each) in [(IoChoice::Epoll, BYTES_A_CONNECTION_MAX), (IoChoice::Uring, BYTES_A_CONNECTION_MAX + 128)] {
        let running = start(ServerConfig { io, connections_max: count + 1, ..config() });
        let mut first = Client::connect(tcp(&running));
        first.ask(&set("k", b"v"), b"STORED\r\n");
        let mut clients: Vec<Client> = Vec::with_capacity(count);
        let before = settled_resident();
        for _ in 0..count {
            let mut client = Client::connect(tcp(&running));
            client.ask(b"get k\r\n", &value("k", b"v"));
            clients.push(client);
        }
        let grown = resident().saturating_sub(before);
        let most = count as u64 * (each as u64 + CLIENT_BYTES) + ONCE_BYTES;
        println!("{io:?}: {count} connections, {} bytes each", grown / count as u64);
        assert!(grown <= most, "{grown} bytes for {count} connections, {} each", grown / count as u64);
        // A tenth of them at once: more than there are buffers.
        for round in 0..3 {
            clients.iter_mut().skip(round).step_by(10).for_each(|client| client.send(b"get k\r\n"));
            clients.iter_mut().skip(round).step_by(10).for_each(|client| client.expect(&value("k", b"v")));
        }
        // Half of a request of each: they hold no buffer, and the first one is served beside them.
        clients.iter_mut().for_each(|client| client.send(b"get k"));
        let worker = &running.shared().workers[0];
        wait_until("all halves are set aside", || worker.aside.inputs() == count as u64);
        (0..20).for_each(|_| first.ask(b"get k\r\n", &value("k", b"v")));
        assert!(worker.aside.bytes() < 128 * count as u64, "{} bytes", worker.aside.bytes());
        clients.iter_mut().for_each(|client| client.send(b"\r\n"));
        clients.iter_mut().for_each(|client| client.expect(&value("k", b"v")));
        assert_eq!(worker.aside.bytes(), 0);
        drop(clients);
        wait_until("they are gone", || running.shared().connections_open() == 1);
        first.ask(b"get k\r\n", &value("k", b"v"));
        running.stop();
    }
}

#[test]
fn ten_thousand_clients_wait_for_one_key_and_are_served_in_their_order() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let count = WANTED.min(pairs_max());
    assert!(count >= LEAST, "raise the hard limit of open files: {count} connections are too few for this test");
    let running = start(ServerConfig { workers: 2, connections_max: count + 2, ..both() });
    let shared = running.shared();
    let mut producer = Client::connect(resp_addr(&running));
    let mut clients: Vec<Client> = Vec::with_capacity(count);
    for number in 0..count {
        let mut client = Client::connect(resp_addr(&running));
        client.send(b"BLPOP k 0\r\n");
        clients.push(client);
        if number % 16 == 0 || number + 1 == count {
            wait_until("all wait", || shared.waiters.blocked() == number as u64 + 1);
        }
    }
    let bytes = shared.budget.used_by(MemoryUse::Queued) / count as u64;
    assert!((1..1024).contains(&bytes), "{bytes} bytes of client memory for each");
    let begun = std::time::Instant::now();
    for first in (0..count).step_by(1000) {
        let elements: Vec<String> = (first..(first + 1000).min(count)).map(|number| number.to_string()).collect();
        producer.ask(
            format!("RPUSH k {}\r\n", elements.join(" ")).as_bytes(),
            format!(":{}\r\n", elements.len()).as_bytes(),
        );
    }
    println!("{count} clients, {bytes} bytes each, served in {:?}", begun.elapsed());
    let mut numbers = Vec::new();
    for client in &mut clients {
        client.expect(b"*2\r\n$1\r\nk\r\n$");
        let mut rest = [0; 16];
        let bytes = client.stream.read(&mut rest).expect("an element");
        let text = String::from_utf8_lossy(&rest[..bytes]).into_owned();
        numbers.push(text.split("\r\n").nth(1).and_then(|number| number.parse::<usize>().ok()).expect("a number"));
    }
    // Within a group of 16, which were sent together, the workers may have read them in any order.
    assert!(numbers.iter().enumerate().all(|(place, number)| place.abs_diff(*number) < 32));
    assert_eq!((shared.waiters.blocked(), shared.budget.used_by(MemoryUse::Queued)), (0, 0));
}
