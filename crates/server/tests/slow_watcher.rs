//! Tests a watcher that does not read. The test has its own process, because it measures the whole process.

mod common;

use common::{Client, config, resident, settled_resident, start, tcp};
use std::io::{BufRead, BufReader};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

#[test]
fn watcher_that_does_not_read_loses_lines_and_receives_their_count() {
    const ROUNDS: u64 = 400;
    const GETS: u64 = 1000;
    let mut config = config();
    config.workers = 2;
    config.stall_timeout = Duration::from_millis(300);
    let running = start(config);
    settled_resident();
    let mut watcher = Client::connect(tcp(&running));
    watcher.ask(b"watch fetchers\r\n", b"OK\r\n");
    // A second watcher reads continuously, and the first does not delay it.
    let mut reads = Client::connect(tcp(&running));
    reads.ask(b"watch fetchers\r\n", b"OK\r\n");
    let reader = std::thread::spawn(move || count(BufReader::new(reads.stream)));
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(tcp(&running))).collect();
    let gets = "get key-that-is-looked-up-again-and-again\r\n".repeat(GETS as usize);
    let replies = b"END\r\n".repeat(GETS as usize);
    let mut before = 0;
    for round in 0..ROUNDS {
        let at = round as usize % clients.len();
        clients[at].ask(gets.as_bytes(), &replies);
        if round == ROUNDS / 8 {
            // Both servers' sides of the sockets and the queue are full by now.
            before = resident();
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more are resident");
    let hub = running.shared().watch.clone();
    assert!(hub.skipped.load(Relaxed) > GETS, "nothing was lost: {hub:?}");
    // The watcher stays connected, although it has read nothing for longer than the stall timeout.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(hub.watchers(), 2);
    clients[0].ask(b"get end\r\n", b"END\r\n");
    let all = ROUNDS * GETS + 1;
    let (replied, skipped) = count(BufReader::new(watcher.stream));
    assert_eq!(replied + skipped, all, "{replied} lines and {skipped} skipped");
    assert!(skipped > GETS);
    let (replied, skipped) = reader.join().unwrap();
    assert_eq!(replied + skipped, all, "{replied} lines and {skipped} skipped");
    running.stop();
}

/// Counts the lines until the lookup of `end` is reported or lost. Returns the numbers of reported and lost lines.
fn count(lines: impl BufRead) -> (u64, u64) {
    let (mut replied, mut skipped) = (0, 0);
    let mut ends = false;
    for line in lines.lines() {
        let line = line.unwrap();
        match line.strip_prefix("skipped=") {
            Some(lost) => skipped += lost.parse::<u64>().unwrap(),
            None => {
                assert!(line.starts_with("ts=") && line.ends_with(" size=0"), "half a line: {line:?}");
                replied += 1;
                ends = line.contains(" key=end ");
            }
        }
        if ends || replied + skipped == 400 * 1000 + 1 {
            break;
        }
    }
    (replied, skipped)
}
