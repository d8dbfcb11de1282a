//! Tests a server without free file descriptors. The test has its own process, because the limit applies to the whole
//! process.

mod common;

use common::{Client, config, start, tcp, wait_until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::{Duration, Instant};

/// Lowers the limit of descriptors to the number in use, and fills all gaps below it. Returns the files that fill the
/// gaps.
fn use_up() -> Vec<std::fs::File> {
    let numbers = std::fs::read_dir("/proc/self/fd").unwrap();
    let highest = numbers.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u64>().ok()).max();
    let limit = Rlimit { current: highest.map(|number| number + 3), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

#[test]
fn descriptor_exhaustion_refuses_clients_without_spinning_the_acceptor() {
    let running = start(config());
    let mut old = Client::connect(tcp(&running));
    old.ask(b"get x\r\n", b"END\r\n");
    let before = getrlimit(Resource::Nofile);
    let begun = Instant::now();
    let mut fillers = use_up();
    // The client's socket uses the descriptor that becomes free.
    fillers.pop();
    let mut refused = Client::connect(tcp(&running));
    refused.expect(b"ERROR Too many open connections\r\n");
    old.ask(b"get x\r\n", b"END\r\n");
    std::thread::sleep(Duration::from_millis(500));
    let exhausted = running.shared().acceptor.descriptors_exhausted.value();
    // The acceptor pauses for 50 ms after each attempt.
    let most = 10 + begun.elapsed().as_millis() as u64 / 50;
    assert!((1..=most).contains(&exhausted), "{exhausted} tries");
    setrlimit(Resource::Nofile, before).unwrap();
    drop(fillers);
    wait_until("a new connection is served", || {
        let mut client = Client::connect(tcp(&running));
        client.send(b"mn\r\n");
        let mut reply = [0; 4];
        std::io::Read::read_exact(&mut client.stream, &mut reply).is_ok() && &reply == b"MN\r\n"
    });
    running.stop();
}
