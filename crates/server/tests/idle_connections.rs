//! Tests thousands of connections, most of them idle. The test has its own process, because it measures the whole
//! process.

mod common;

use common::{Client, config, resident, set, settled_resident, start, tcp, value, wait_until};
use gannet_server::buffers::BYTES_A_CONNECTION_MAX;
use gannet_server::config::kinds::IoChoice;
use gannet_server::start::ServerConfig;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of connections to open, and the minimum number for the test.
const WANTED: usize = 10_000;
const LEAST: usize = 5000;
/// The bytes of this process for the client's side of a connection, and for memory that is used for the first time.
const CLIENT_BYTES: u64 = 16;
const ONCE_BYTES: u64 = 1 << 20;

/// Returns the number of pairs of descriptors that the process may open.
fn pairs_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("up to the hard limit");
    let most = limit.maximum.map_or(usize::MAX, |maximum| maximum as usize);
    most.saturating_sub(200) / 2
}

#[test]
fn ten_thousand_idle_connections_cost_a_kibibyte_each_and_are_all_served() {
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
