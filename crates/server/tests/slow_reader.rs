//! Tests a client that sends requests and does not read. The test has its own process, because it measures the whole
//! process.

mod common;

use common::{Client, config, pattern, resident, set, settled_resident, start, tcp, value, wait_until};
use gannet_server::config::kinds::IoChoice;
use gannet_server::start::ServerConfig;
use std::time::Duration;

#[test]
fn a_reader_that_does_not_read_grows_no_memory_and_is_dropped() {
    [IoChoice::Epoll, IoChoice::Uring].into_iter().for_each(stall);
}

fn stall(io: IoChoice) {
    let mut config = ServerConfig { io, ..config() };
    config.stall_timeout = Duration::from_millis(1500);
    let running = start(config);
    let mut client = Client::connect(tcp(&running));
    let mut other = Client::connect(tcp(&running));
    client.ask(&set("k", &pattern(30_000)), b"STORED\r\n");
    let before = settled_resident();
    // 60 GB of replies are asked for, none is read.
    let mut writer = client.stream.try_clone().unwrap();
    let flood = std::thread::spawn(move || {
        use std::io::Write;
        let requests = b"get k\r\n".repeat(10_000);
        (0..200).take_while(|_| writer.write_all(&requests).is_ok()).count()
    });
    let counters = &running.shared().workers[0].counters;
    wait_until("the drop", || {
        other.ask(b"get k\r\n", &value("k", &pattern(30_000)));
        counters.slow_readers_dropped.value() == 1
    });
    let rounds = flood.join().unwrap();
    assert!(rounds < 200, "the client was never held back");
    let grown = resident().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more are resident");
    running.stop();
}
