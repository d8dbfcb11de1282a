//! Runs streams of Redis commands through a worker on a simulated network. Used by a test and a fuzz target.

use base::clock::UnixMillis;
use command::clients::endpoint::Protocol;
use command::visit::clock::Clock;
use gannet_server::start::{ServerConfig, assemble};
use gannet_server::worker::{EVENTS_MAX, Worker, WorkerParts};
use io::sim::{Faults, Sim};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;

const START_NS: u64 = 1_700_000_000_000_000_000;
/// The number of iterations without a byte after which no further reply is expected.
const SILENT_TURNS: usize = 12;

/// Returns a server's replies to `bytes`, sent in parts that end at `cuts` (ascending). Then disconnects the client and
/// asserts that nothing is held for it.
pub fn replies(bytes: &[u8], cuts: &[usize]) -> Vec<u8> {
    let config = ServerConfig {
        memory_bytes: 32 << 20,
        item_bytes_max: 4 << 20,
        segment_bytes: Some(256 << 10),
        connections_max: 4,
        workers: 1,
        hash_seed: Some(7),
        huge_pages: false,
        graph_memory_bytes: 90 << 20,
        ..ServerConfig::default()
    };
    let clock_ns = Arc::new(AtomicU64::new(START_NS));
    let now = UnixMillis(START_NS / 1_000_000);
    let (shared, mut background) = assemble(config, now).expect("a store");
    let io = Sim::new(1, Faults::NONE, Arc::clone(&clock_ns), EVENTS_MAX);
    let (dialler, (intake, receiver)) = (io.dialler(), sync_channel(4));
    let handle = shared.store.handle().expect("the first lane");
    let clock = Clock::Simulated(Arc::clone(&clock_ns));
    let mut worker = Worker::new(WorkerParts {
        io,
        handle,
        shared: Arc::clone(&shared),
        number: 0,
        intake: receiver,
        clock,
        sessions_max: 4,
    });
    let (client, stream) = dialler.connect();
    intake.send((stream, Protocol::Resp.into()).into()).expect("room in the intake");
    let mut got = Vec::new();
    let mut iterations = |least: usize| {
        let (mut silent, mut done) = (0, 0);
        while silent < SILENT_TURNS || done < least {
            if !worker.iterate() {
                break;
            }
            background.slice(now, &mut || false);
            let taken = client.take(usize::MAX);
            silent = if taken.is_empty() { silent + 1 } else { 0 };
            got.extend(taken);
            done += 1;
        }
        (worker.sessions(), worker.buffers_lent())
    };
    let mut from = 0;
    for &cut in cuts {
        client.send(&bytes[from..cut]);
        iterations(0);
        from = cut;
    }
    client.send(&bytes[from..]);
    iterations(bytes.len() / 1000);
    client.close_send();
    assert_eq!(iterations(0), (0, 0), "sessions and buffers are given back");
    assert_eq!((shared.pins.used(), shared.store.stats().pins), (0, 0), "pins and places are given back");
    got
}

/// Returns true if the replies depend only on the requests, not on the time or on the number of iterations.
pub fn is_timeless(bytes: &[u8]) -> bool {
    let text = bytes.to_ascii_lowercase();
    let says = |word: &str| text.windows(word.len()).any(|window| window == word.as_bytes());
    let timed =
        ["info", "time", "ttl", "client", "random", "scan", "object", "ex", "px", "debug", "monitor", "subscribe"];
    // Edges without a time get that of the server, and figures change with the epochs of iterations.
    let graphs = ["g.get", "withattr", "g.node", "g.query", "g.stats", "g.segments"];
    !timed.into_iter().chain(graphs).chain(["hello"]).any(says)
}

/// Asserts that `bytes` get the same replies whole and split at `cuts`, if their replies depend only on the requests.
pub fn assert_cut(bytes: &[u8], cuts: &[usize]) {
    let whole = replies(bytes, &[]);
    let cut = replies(bytes, cuts);
    if is_timeless(bytes) {
        assert!(whole == cut, "cut at {cuts:?}: {}", bytes[..bytes.len().min(2000)].escape_ascii());
    }
}
