//! Tests of an unmodified worker on simulated connections, whose faults follow from a seed.
//!
//! Each client uses only its own keys, so the expected replies are known when it sends, and the whole stream of replies
//! is compared. `GANNET_SIM_SEED=n` runs only the seed `n`.

mod answers;
mod half;
mod lost_keys;
mod slices;

use crate::common::redis::request;
use crate::common::{pattern, set, value};
use crate::sim::{START_NS, World};
use base::clock::UnixMillis;
use base::prng::Prng;
use command::clients::endpoint::{Endpoint, Protocol};
use command::keyspace::namespace_config::NamespaceConfig;
use gannet_server::buffers::aside_bytes_max;
use gannet_server::start::ServerConfig;
use io::sim::{Faults, SimClient};
use segment::Namespace;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Returns a configuration with segments of 1 MiB: values of up to 128 KiB are stored in one piece.
fn config(connections_max: usize) -> ServerConfig {
    ServerConfig { connections_max, segment_bytes: Some(1 << 20), ..crate::common::config() }
}

/// A client with its requests and its expected replies.
struct Script {
    client: SimClient,
    name: usize,
    model: HashMap<usize, Vec<u8>>,
    expected: Vec<u8>,
    got: Vec<u8>,
    /// True if the client has reset or ended its connection, and sends nothing more.
    over: bool,
}

impl Script {
    fn key(&self, number: usize) -> String {
        format!("c{}-{number}", self.name)
    }

    /// Sends a few requests and records the expected replies.
    fn speak(&mut self, prng: &mut Prng) {
        for _ in 0..prng.below(12) {
            let number = prng.below(6) as usize;
            let key = self.key(number);
            match prng.below(10) {
                0..=3 => {
                    let held = self.model.get(&number);
                    self.client.send(format!("get {key}\r\n").as_bytes());
                    self.expected.extend(held.map_or(b"END\r\n".to_vec(), |bytes| value(&key, bytes)));
                }
                4..=6 => {
                    let len = match prng.below(20) {
                        0 => prng.below(400_000),
                        1..=3 => prng.below(60_000),
                        _ => prng.below(500),
                    };
                    let bytes = pattern(len as usize);
                    self.client.send(&set(&key, &bytes));
                    self.expected.extend(b"STORED\r\n");
                    self.model.insert(number, bytes);
                }
                7 => {
                    self.client.send(format!("delete {key}\r\n").as_bytes());
                    let was = self.model.remove(&number).is_some();
                    self.expected.extend(if was { &b"DELETED\r\n"[..] } else { b"NOT_FOUND\r\n" });
                }
                8 => {
                    self.client.send(b"bogus\r\nmn\r\n");
                    self.expected.extend(b"ERROR\r\nMN\r\n");
                }
                _ => {
                    // More than one output: all keys, thrice.
                    let keys: Vec<usize> = (0..18).map(|n| n % 6).collect();
                    let names: Vec<String> = keys.iter().map(|n| self.key(*n)).collect();
                    self.client.send(format!("get {}\r\n", names.join(" ")).as_bytes());
                    for (number, name) in keys.iter().zip(&names) {
                        if let Some(bytes) = self.model.get(number) {
                            let reply = value(name, bytes);
                            self.expected.extend(&reply[..reply.len() - 5]);
                        }
                    }
                    self.expected.extend(b"END\r\n");
                }
            }
        }
    }

    fn listen(&mut self, prng: &mut Prng, seed: u64) {
        if prng.chance(1, 3) {
            return;
        }
        self.got.extend(self.client.take(1 + prng.below(200_000) as usize));
        self.check(seed);
    }

    fn check(&self, seed: u64) {
        let len = self.got.len();
        if self.got != self.expected[..len.min(self.expected.len())] {
            let at = self.got.iter().zip(&self.expected).take_while(|(a, b)| a == b).count();
            let show = |bytes: &[u8]| String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 80)]).into_owned();
            let (got, expected) = (show(&self.got), show(&self.expected));
            panic!("GANNET_SIM_SEED={seed}: client {} at byte {at}: {got:?}, not {expected:?}", self.name);
        }
    }
}

/// A connection that watches all events.
struct Watcher {
    client: SimClient,
    got: Vec<u8>,
}

impl Watcher {
    fn new(world: &mut World) -> Self {
        let client = world.connect(Protocol::Memcache);
        client.send(b"watch fetchers mutations evictions\r\n");
        let mut got = Vec::new();
        while got.len() < b"OK\r\n".len() {
            world.guard();
            got.extend(client.take(1));
        }
        assert_eq!(got, b"OK\r\n");
        Self { client, got: Vec::new() }
    }

    /// Reads all current and further lines, then disconnects. Every line must be whole, in order, and either received
    /// or reported as lost.
    fn finish(mut self, world: &mut World, seed: u64, reached: &mut Reached) {
        for _ in 0..200 {
            let before = self.got.len();
            while {
                world.iterations(20);
                let taken = self.client.take(usize::MAX);
                self.got.extend(&taken);
                !taken.is_empty()
            } {}
            if self.got.len() == before && self.got.ends_with(b"\n") {
                break;
            }
        }
        let text = std::str::from_utf8(&self.got).expect("text");
        let (mut replied, mut skipped, mut last) = (0, 0, 0);
        for line in text.lines() {
            if let Some(lost) = line.strip_prefix("skipped=") {
                skipped += lost.parse::<u64>().expect("a number");
                continue;
            }
            let word = line.split(' ').nth(1).and_then(|word| word.strip_prefix("gid=")).expect("a whole line");
            let gid = word.parse::<u64>().expect("a number");
            assert!(gid > last, "GANNET_SIM_SEED={seed}: {gid} after {last}");
            (replied, last) = (replied + 1, gid);
        }
        let hub = &world.shared.watch;
        let all = hub.written.load(Relaxed) + hub.dropped.load(Relaxed);
        assert_eq!(replied + skipped, all, "GANNET_SIM_SEED={seed}: {replied} told, {skipped} skipped");
        reached.lines_told += replied;
        reached.lines_skipped += skipped;
        self.client.close_send();
    }
}

/// Counts of the events that a run has reached, so that a run without such events is noticed.
#[derive(Debug, Default)]
struct Reached {
    replies_bytes: usize,
    sends_short: u64,
    set_aside: u64,
    broken: usize,
    dropped: u64,
    lines_told: u64,
    lines_skipped: u64,
}

fn run(seed: u64, reached: &mut Reached) {
    println!("repeat: GANNET_SIM_SEED={seed} cargo test -p gannet-server --test server simulated");
    let mut prng = Prng::new(seed ^ 0x5151);
    let faults = Faults {
        fragment_bytes_max: [7, 1500, 70_000][prng.below(3) as usize],
        delay_ns_max: [0, 30_000, 3_000_000][prng.below(3) as usize],
        window_bytes: [500, 20_000, 1 << 20][prng.below(3) as usize],
        short_sends: prng.below(600),
        idle_events: prng.below(200),
    };
    let clients = 1 + prng.below(60) as usize;
    let mut world = World::new(seed, faults, ServerConfig { stall_timeout: Duration::from_secs(3600), ..config(64) });
    let fresh = |client, name| Script {
        client,
        name,
        model: HashMap::new(),
        expected: Vec::new(),
        got: Vec::new(),
        over: false,
    };
    let mut scripts: Vec<Script> = (0..clients).map(|name| fresh(world.connect(Protocol::Memcache), name)).collect();
    let mut watchers: Vec<Watcher> = (0..prng.below(3)).map(|_| Watcher::new(&mut world)).collect();
    // A watcher that disconnects must not affect the others.
    let leaver = prng.chance(1, 2).then(|| Watcher::new(&mut world));
    for _ in 0..60 {
        for watcher in &mut watchers {
            if prng.chance(1, 2) {
                watcher.got.extend(watcher.client.take(prng.below(60_000) as usize));
            }
        }
        for script in scripts.iter_mut().filter(|script| !script.over) {
            if prng.chance(1, 3) {
                script.speak(&mut prng);
            }
            if prng.chance(1, 400) {
                script.client.reset();
                script.over = true;
                reached.broken += 1;
            }
            script.listen(&mut prng, seed);
        }
        let iterations = prng.below(4) as usize;
        world.iterations(iterations);
    }
    for script in scripts.iter().filter(|script| !script.over) {
        script.client.close_send();
    }
    if let Some(leaver) = &leaver {
        leaver.client.reset();
    }
    let mut patience = 200_000;
    while world.worker.sessions() > watchers.len() {
        patience -= 1;
        assert!(patience > 0, "GANNET_SIM_SEED={seed}: {} sessions never end", world.worker.sessions());
        world.guard();
        for script in scripts.iter_mut().filter(|script| !script.over) {
            script.got.extend(script.client.take(usize::MAX));
        }
    }
    for watcher in watchers {
        watcher.finish(&mut world, seed, reached);
    }
    while world.worker.sessions() > 0 {
        patience -= 1;
        assert!(patience > 0, "GANNET_SIM_SEED={seed}: {} watchers never end", world.worker.sessions());
        world.guard();
    }
    assert_eq!(world.shared.watch.watchers(), 0, "GANNET_SIM_SEED={seed}: a watcher is left");
    let mut cut_off = Vec::new();
    for script in &mut scripts {
        script.got.extend(script.client.take(usize::MAX));
        script.check(seed);
        let (got, expected) = (script.got.len(), script.expected.len());
        if !script.over && got < expected {
            cut_off.push(format!("client {} read {got} of {expected} bytes", script.name));
        }
        reached.replies_bytes += script.got.len();
    }
    assert_eq!(world.worker.buffers_lent(), 0, "GANNET_SIM_SEED={seed}: a buffer is lost");
    assert_eq!(world.shared.pins.used(), 0, "GANNET_SIM_SEED={seed}: a pin is lost");
    let counters = &world.shared.workers[0].counters;
    // Only a reader that holds pinned values while others wait for theirs may be closed.
    let dropped = counters.slow_readers_dropped.value();
    assert_eq!(
        (cut_off.len() as u64, counters.slow_senders_dropped.value()),
        (dropped, 0),
        "GANNET_SIM_SEED={seed}: {cut_off:?}"
    );
    reached.dropped += dropped;
    reached.sends_short += counters.sends_short.value();
    reached.set_aside += counters.set_aside.value();
}

#[test]
fn replies_stay_complete_and_in_order_under_network_faults() {
    let mut reached = Reached::default();
    if let Ok(seed) = std::env::var("GANNET_SIM_SEED") {
        return run(seed.parse().expect("a number"), &mut reached);
    }
    (0..25).for_each(|seed| run(seed, &mut reached));
    assert!(reached.lines_told > 1000 && reached.lines_skipped > 100, "{reached:?}");
    assert!(reached.replies_bytes > 10_000_000, "{reached:?}");
    assert!(reached.dropped < 20, "{reached:?}");
    assert!(reached.sends_short > 100 && reached.set_aside > 100 && reached.broken > 10, "{reached:?}");
}

#[test]
fn partial_requests_hold_no_long_buffers_and_complete_later() {
    let mut world = World::new(1, Faults::NONE, config(200));
    // There are more of these clients than receive buffers for long requests.
    let holders: Vec<SimClient> = (0..40).map(|_| world.connect(Protocol::Memcache)).collect();
    for (number, holder) in holders.iter().enumerate() {
        // What a condition comes to is not known yet, so it is received into a buffer.
        let mut request = set(&format!("h{number}"), &pattern(100_000));
        request.splice(..3, *b"add");
        holder.send(&request[..50_000]);
    }
    world.iterations(40);
    assert_eq!((world.worker.buffers_lent(), world.shared.workers[0].aside.inputs()), (0, 40));
    let quick = world.connect(Protocol::Memcache);
    quick.send(&[set("small", b"1"), b"get small\r\n".to_vec()].concat());
    world.iterations(20);
    assert_eq!(quick.take(100), [b"STORED\r\n".to_vec(), value("small", b"1")].concat(), "short requests go on");
    world.clock_ns.fetch_add(31_000_000_000, Relaxed);
    world.iterations(2000);
    assert_eq!(world.shared.workers[0].counters.slow_senders_dropped.value(), 0, "nobody needs what they hold");
    for (number, holder) in holders.iter().enumerate() {
        let mut request = set(&format!("h{number}"), &pattern(100_000));
        request.splice(..3, *b"add");
        holder.send(&request[50_000..]);
    }
    world.iterations(100);
    assert!(holders.iter().all(|holder| holder.take(100) == b"STORED\r\n"));
    assert_eq!((world.worker.buffers_lent(), world.shared.workers[0].aside.bytes()), (0, 0));
}

#[test]
fn a_value_whose_sender_is_slow_leaves_its_place_after_a_second_and_arrives_whole() {
    let mut world = World::new(4, Faults::NONE, config(64));
    let (slow, other) = (world.connect(Protocol::Memcache), world.connect(Protocol::Memcache));
    let requests = [set("whole", &pattern(100_000)), set("large", &pattern(300_000))];
    for (request, key) in requests.iter().zip(["whole", "large"]) {
        slow.send(&request[..20_000]);
        world.iterations(3);
        assert!(world.shared.pins.used() > 0, "{key} is received into the store");
        let begun_ns = world.clock_ns.load(Relaxed);
        while world.shared.pins.used() > 0 {
            world.guard();
        }
        let after_ms = (world.clock_ns.load(Relaxed) - begun_ns) / 1_000_000;
        assert!((700..=1300).contains(&after_ms), "{key} kept its place for {after_ms} ms");
        // No reference prevents the reuse of the segment that contained the value.
        for round in 0..1500 {
            other.send(&set(&format!("churn{}", round % 600), &vec![b'x'; 100_000]));
            world.iterations(3);
            other.take(usize::MAX);
        }
        slow.send(&request[20_000..]);
        world.iterations(40);
        assert_eq!(slow.take(100), b"STORED\r\n");
        slow.send(format!("get {key}\r\n").as_bytes());
        world.iterations(20);
        let len = if key == "whole" { 100_000 } else { 300_000 };
        assert!(take_all(&mut world, &slow) == value(key, &pattern(len)), "{key} is what was sent");
    }
    assert_eq!(world.shared.workers[0].counters.moved_out.value(), 2);
}

#[test]
fn slow_senders_give_the_store_its_space_back_after_a_second_and_the_first_go_where_memory_is_used_up() {
    let mut world = World::new(6, Faults::NONE, config(200));
    let holders: Vec<SimClient> = (0..150).map(|_| world.connect(Protocol::Memcache)).collect();
    for (number, holder) in holders.iter().enumerate() {
        holder.send(&set(&format!("h{number}"), &pattern(60_000))[..55_000]);
    }
    let shared = Arc::clone(&world.shared);
    let mut used_most = 0;
    for _ in 0..500 {
        world.guard();
        used_most = used_most.max(shared.pins.used());
    }
    assert!(used_most > 2_000_000 && used_most <= shared.config.memory_bytes / 20, "{used_most} bytes are reserved");
    world.clock_ns.fetch_add(2_000_000_000, Relaxed);
    world.iterations(2000);
    assert_eq!(shared.pins.used(), 0);
    let dropped = shared.workers[0].counters.slow_senders_dropped.value();
    let aside = &shared.workers[0].aside;
    assert!((40..150).contains(&dropped) && aside.inputs() > 0, "{dropped} dropped");
    assert!(aside.bytes() <= aside_bytes_max(shared.config.memory_bytes, 1), "{} bytes", aside.bytes());
    let quick = world.connect(Protocol::Memcache);
    quick.send(&set("quick", &pattern(100_000)));
    world.iterations(20);
    assert_eq!(quick.take(100), b"STORED\r\n");
}

#[test]
fn connection_storm_is_accepted_gradually_without_delaying_requests() {
    let mut world = World::new(9, Faults::NONE, config(600));
    let client = world.connect(Protocol::Memcache);
    client.send(&set("k", b"v"));
    world.iterations(5);
    assert_eq!(client.take(100), b"STORED\r\n");
    let storm: Vec<SimClient> = (0..500).map(|_| world.connect(Protocol::Memcache)).collect();
    storm.iter().for_each(|guest| guest.send(b"get k\r\n"));
    client.send(b"get k\r\n");
    let (mut iterations, begun_ns) = (0, world.clock_ns.load(Relaxed));
    let mut answered_after = None;
    while world.worker.sessions() < 501 {
        let before = world.worker.sessions();
        world.guard();
        iterations += 1;
        assert!(world.worker.sessions() - before <= 64, "{} at once", world.worker.sessions() - before);
        if answered_after.is_none() && client.take(100) == value("k", b"v") {
            answered_after = Some(iterations);
        }
        assert!(iterations < 100, "{} of 501 were taken in", world.worker.sessions());
    }
    assert!(
        iterations >= 8 && answered_after.is_some_and(|iterations| iterations <= 2),
        "{iterations} iterations, {answered_after:?}"
    );
    let waited_ms = (world.clock_ns.load(Relaxed) - begun_ns) / 1_000_000;
    assert!(waited_ms <= 101, "it slept for {waited_ms} ms with connections to take in");
    world.iterations(20);
    assert!(storm.iter().all(|guest| guest.take(100) == value("k", b"v")));
}

#[test]
fn replies_longer_than_an_output_never_wait_for_each_other() {
    // Values of 100 KB are copied, so each reply needs one of a few long outputs, while each session holds a long
    // receive buffer with the next request.
    let mut world = World::new(2, Faults { window_bytes: 3000, ..Faults::NONE }, config(200));
    let clients: Vec<SimClient> = (0..60).map(|_| world.connect(Protocol::Memcache)).collect();
    let bytes = pattern(100_000);
    for (number, client) in clients.iter().enumerate() {
        let key = format!("k{number}");
        let get = format!("get {key}\r\n").into_bytes();
        client.send(&[set(&key, &bytes), get.clone(), set(&key, &bytes), get].concat());
    }
    let mut got: Vec<Vec<u8>> = vec![Vec::new(); clients.len()];
    let expected = 2 * (8 + value("k10", &bytes).len());
    let mut iterations = 0;
    while got.iter().any(|got| got.len() < expected - 2) {
        iterations += 1;
        assert!(iterations < 100_000, "{:?}", got.iter().map(Vec::len).collect::<Vec<_>>());
        world.guard();
        got.iter_mut().zip(&clients).for_each(|(got, client)| got.extend(client.take(1000)));
    }
    assert!(world.shared.workers[0].counters.buffer_waits.value() > 0, "no one had to wait");
}

/// Creates a world with `keys` values of 100 kB, each stored in one piece. The clients' sockets buffer few bytes.
fn world_of_long_values(keys: usize) -> World {
    let faults = Faults { window_bytes: 10_000, ..Faults::NONE };
    let stall_timeout = Duration::from_secs(3600);
    let mut world = World::new(3, faults, ServerConfig { memory_bytes: 256 << 20, stall_timeout, ..config(64) });
    let setter = world.connect(Protocol::Memcache);
    for number in 0..keys {
        setter.send(&set(&format!("k{number}"), &pattern(100_000 + number)));
    }
    world.iterations(4 * keys);
    assert_eq!(setter.take(usize::MAX), b"STORED\r\n".repeat(keys));
    setter.close_send();
    world
}

/// Runs iterations and reads until no more bytes arrive. Returns all bytes.
fn take_all(world: &mut World, client: &SimClient) -> Vec<u8> {
    let mut got = Vec::new();
    loop {
        let taken = client.take(usize::MAX);
        if taken.is_empty() {
            return got;
        }
        got.extend(taken);
        world.iterations(3);
    }
}

#[test]
fn slow_reader_loses_its_pins_after_100_ms_but_receives_all_bytes() {
    let mut world = world_of_long_values(3);
    let (slow, setter) = (world.connect(Protocol::Memcache), world.connect(Protocol::Memcache));
    slow.send(b"get k0 k1\r\nmg k2 v\r\n");
    while world.shared.pins.used() == 0 {
        world.guard();
    }
    let pinned_ns = world.clock_ns.load(Relaxed);
    while world.shared.pins.used() > 0 {
        world.guard();
    }
    let after_ms = (world.clock_ns.load(Relaxed) - pinned_ns) / 1_000_000;
    assert!((100..=150).contains(&after_ms), "the pins were kept for {after_ms} ms");
    assert_eq!(world.shared.store.stats().pins, 0);
    assert_eq!(world.shared.workers[0].counters.copied_out.value(), 1);
    // Reuse the segments that contained the values.
    for _ in 0..4000 {
        setter.send(&set("k0", &vec![b'x'; 100_000]));
        setter.send(&set("k1", &vec![b'x'; 100_000]));
        world.iterations(2);
        setter.take(usize::MAX);
    }
    let got = take_all(&mut world, &slow);
    let first = value("k0", &pattern(100_000));
    let mut expected = first[..first.len() - b"END\r\n".len()].to_vec();
    expected.extend(value("k1", &pattern(100_001)));
    expected.extend([b"VA 100002\r\n", &pattern(100_002)[..], b"\r\n"].concat());
    assert!(got == expected, "{} bytes", got.len());
}

#[test]
fn slow_readers_use_half_of_the_long_blocks_and_lose_no_bytes() {
    let mut world = world_of_long_values(1);
    let slow: Vec<SimClient> = (0..16).map(|_| world.connect(Protocol::Memcache)).collect();
    slow.iter().for_each(|client| client.send(b"get k0\r\n"));
    world.iterations(200);
    let shared = Arc::clone(&world.shared);
    assert_eq!(shared.workers[0].counters.copied_out.value(), 4);
    assert_eq!(shared.store.stats().pins, 12, "the others keep theirs until someone needs the room");
    for client in &slow {
        let got = take_all(&mut world, client);
        assert!(got == value("k0", &pattern(100_000)), "{} bytes", got.len());
    }
    assert_eq!((shared.store.stats().pins, shared.pins.used()), (0, 0));
    // Returned blocks serve the sessions that still wait.
    assert_eq!(world.worker.buffers_lent(), 0);
}

/// The first requests of a batch are prefetched together, before the authentication of their clients is checked.
#[test]
fn unauthenticated_client_in_a_batch_gets_only_an_error() {
    let path = std::env::temp_dir().join(format!("gannet-users-{}", std::process::id()));
    std::fs::write(&path, "user:secret\n").expect("a file of users");
    let mut world = World::new(5, Faults::NONE, ServerConfig { auth_file: Some(path.clone()), ..config(8) });
    std::fs::remove_file(path).expect("it is read at the start");
    let clients: Vec<SimClient> = (0..6).map(|_| world.connect(Protocol::Memcache)).collect();
    for known in clients.iter().step_by(2) {
        known.send(b"set auth 0 0 11\r\nuser secret\r\nset key 0 0 5\r\nvalue\r\n");
    }
    world.iterations(4);
    clients.iter().for_each(|client| drop(client.take(usize::MAX)));
    clients.iter().for_each(|client| client.send(b"get key\r\n"));
    world.iterations(4);
    for (number, client) in clients.iter().enumerate() {
        let expected =
            if number % 2 == 0 { value("key", b"value") } else { b"CLIENT_ERROR unauthenticated\r\n".to_vec() };
        assert_eq!(client.take(usize::MAX), expected, "client {number}");
    }
}

#[test]
fn delayed_flush_runs_before_the_operations_of_the_first_later_iteration() {
    let mut world = World::new(3, Faults::NONE, config(4));
    let client = world.connect(Protocol::Memcache);
    client.send(&[set("k", b"1"), b"flush_all 5\r\nget k\r\n".to_vec()].concat());
    world.iterations(10);
    assert_eq!(client.take(100), [b"STORED\r\nOK\r\n".to_vec(), value("k", b"1")].concat());
    world.clock_ns.fetch_add(6_000_000_000, Relaxed);
    client.send(b"get k\r\n");
    world.iterations(10);
    assert_eq!(client.take(100), b"END\r\n");
}

#[test]
fn nothing_is_read_past_a_delayed_flush_that_meets_the_background_at_work() {
    let mut world = World::new(3, Faults::NONE, config(4));
    let client = world.connect(Protocol::Memcache);
    client.send(&[set("k", &pattern(100)), b"flush_all 1000\r\n".to_vec()].concat());
    world.iterations(10);
    assert_eq!(client.take(100), b"STORED\r\nOK\r\n");
    // Segments whose items have ended are work for the background, which looks at its time every few items.
    for batch in 0..60 {
        let set = |number| format!("set short{batch}-{number} 0 1 500\r\n{}\r\n", "x".repeat(500));
        client.send((0..50).map(set).collect::<String>().as_bytes());
        (0..4).for_each(|_| assert!(world.worker.iterate()));
    }
    assert_eq!(client.take(100_000).len(), 3000 * b"STORED\r\n".len());
    world.clock_ns.fetch_add(3_600_000_000_000, Relaxed);
    let World { worker, background, shared, .. } = &mut world;
    let (mut met, parked) = (false, shared.workers[0].counters.parked.value());
    for _ in 0..100 {
        background.slice(UnixMillis(START_NS / 1_000_000 + 3_600_000), &mut || {
            if !std::mem::replace(&mut met, true) {
                client.send(b"get k\r\nset later 0 0 1\r\nx\r\n");
                (0..3).for_each(|_| assert!(worker.iterate()));
                assert_eq!(client.take(1000), b"", "an answer before the flush");
            }
            false
        });
    }
    assert!(met && shared.workers[0].counters.parked.value() > parked, "the background was at work");
    client.send(b"get later\r\n");
    world.iterations(10);
    assert_eq!(client.take(1000), [b"END\r\nSTORED\r\n".to_vec(), value("later", b"x")].concat());
}

#[test]
fn a_store_without_free_segments_delays_writes_and_loses_none() {
    let mut world = World::new(4, Faults::NONE, ServerConfig { segment_bytes: None, ..config(8) });
    let clients: Vec<SimClient> = (0..4).map(|_| world.connect(Protocol::Memcache)).collect();
    for (number, client) in clients.iter().enumerate() {
        for key in 0..1000 {
            client.send(&set(&format!("k{number}-{key}"), &pattern(20_000)));
        }
    }
    let counters = |world: &World| world.shared.workers[0].counters.parked.value();
    let stored = |got: &[Vec<u8>]| got.iter().map(|got| got.len() / b"STORED\r\n".len()).sum::<usize>();
    let mut got: Vec<Vec<u8>> = vec![Vec::new(); clients.len()];
    let listen = |got: &mut Vec<Vec<u8>>| {
        got.iter_mut().zip(&clients).for_each(|(got, client)| got.extend(client.take(usize::MAX)));
    };
    for _ in 0..1000 {
        // The background work does not run meanwhile.
        assert!(world.worker.iterate());
        listen(&mut got);
    }
    assert!(counters(&world) > 0 && stored(&got) < 4000, "{} parked, {} stored", counters(&world), stored(&got));
    let mut iterations = 0;
    while stored(&got) < 4000 {
        iterations += 1;
        assert!(iterations < 100_000, "{} stored", stored(&got));
        world.guard();
        listen(&mut got);
    }
    assert!(got.iter().all(|got| *got == b"STORED\r\n".repeat(1000)), "a reply is not STORED");
}

/// The maximum number of iterations until a request of the quiet namespace is answered.
const TURNS_WAITED_MAX: usize = 4;

#[test]
fn flooded_namespace_takes_no_memory_or_iterations_from_a_quiet_namespace() {
    const QUIET: Namespace = Namespace(1);
    const NOISY: Namespace = Namespace(2);
    let namespaces = [(QUIET, "quiet"), (NOISY, "noisy")].map(|(namespace, name)| NamespaceConfig {
        name: name.to_owned(),
        memory_bytes: Some(8 << 20),
        ..NamespaceConfig::plain(namespace.0, true)
    });
    let config = ServerConfig { connections_max: 64, namespaces: namespaces.to_vec(), ..crate::common::config() };
    let mut world = World::new(7, Faults::NONE, config);
    let quiet = world.connect(Endpoint::new(Protocol::Memcache, QUIET));
    let flood: Vec<SimClient> = (0..8).map(|_| world.connect(Endpoint::new(Protocol::Memcache, NOISY))).collect();
    let bytes = pattern(1000);
    for number in 0..2000 {
        quiet.send(&set(&format!("key-{number}"), &bytes));
        world.iterations(2);
        assert_eq!(quiet.take(100), b"STORED\r\n");
    }
    let (mut waited_most, mut stored) = (0, 0usize);
    for round in 0..3000usize {
        for (who, client) in flood.iter().enumerate() {
            // Always more requests than an iteration serves.
            for number in 0..16 {
                client.send(&set(&format!("{who}-{round}-{number}"), &bytes));
            }
            stored += client.take(1 << 20).len() / b"STORED\r\n".len();
        }
        let key = format!("key-{}", round * 7 % 2000);
        quiet.send(format!("get {key}\r\n").as_bytes());
        let (expected, mut got, mut waited) = (value(&key, &bytes), Vec::new(), 0);
        while got.len() < expected.len() && waited < 1000 {
            world.guard();
            waited += 1;
            got.extend(quiet.take(1 << 20));
        }
        assert!(got == expected, "round {round}: {} bytes of {}", got.len(), expected.len());
        waited_most = waited_most.max(waited);
    }
    let stats = |namespace| world.shared.store.namespace_stats(namespace);
    assert_eq!((stats(QUIET).evicted, stats(QUIET).items), (0, 2000));
    assert!(stats(NOISY).evicted > 10_000 && stored > 20_000, "{stored} {:?}", stats(NOISY));
    assert!(waited_most <= TURNS_WAITED_MAX, "{waited_most} turns");
}

#[test]
fn a_step_of_the_wall_clock_moves_no_time_to_live_and_instants_of_clients_are_by_the_wall_clock() {
    for step_s in [3600i64, -3600] {
        let mut world = World::new(1, Faults::NONE, config(4));
        let (memcached, resp) = (world.connect(Protocol::Memcache), world.connect(Protocol::Resp));
        let answer = |world: &mut World, client: &SimClient, request: &str| {
            client.send(request.as_bytes());
            world.iterations(6);
            String::from_utf8(client.take(4096)).expect("text")
        };
        let ask = |world: &mut World, client: &SimClient, request: &str, reply: &str| {
            assert_eq!(answer(world, client, request), reply, "{request:?} after {step_s} s");
        };
        ask(&mut world, &memcached, "set span 0 1000 1\r\nv\r\n", "STORED\r\n");
        world.shared.set_wall_ahead_ms(step_s * 1000);
        // Turns take time of the simulation too: some seconds in all.
        let wall = (world.clock_ns.load(Relaxed) / 1_000_000_000).saturating_add_signed(step_s);
        let (at, later_at) = (wall + 1000, wall + 3000);
        ask(&mut world, &memcached, &format!("set instant 0 {at} 1\r\nv\r\n"), "STORED\r\n");
        ask(&mut world, &resp, &format!("set key v exat {at}\r\nset later v exat {later_at}\r\n"), "+OK\r\n+OK\r\n");
        ask(&mut world, &resp, &format!("hset hash f v\r\nhexpireat hash {at} fields 1 f\r\n"), ":1\r\n*1\r\n:1\r\n");
        ask(
            &mut world,
            &resp,
            "expiretime key\r\nhexpiretime hash fields 1 f\r\n",
            &format!(":{at}\r\n*1\r\n:{at}\r\n"),
        );
        let time = answer(&mut world, &resp, "time\r\n");
        let replied: u64 = time.split("\r\n").nth(2).expect("seconds").parse().expect("a number");
        assert!((wall..wall + 60).contains(&replied), "{replied} by a clock of {wall}");
        world.clock_ns.fetch_add(900 * 1_000_000_000, Relaxed);
        ask(&mut world, &memcached, "get span\r\n", "VALUE span 0 1\r\nv\r\nEND\r\n");
        ask(&mut world, &resp, "exists key hash instant\r\n", ":3\r\n");
        world.clock_ns.fetch_add(100 * 1_000_000_000, Relaxed);
        ask(&mut world, &memcached, "get span instant\r\n", "END\r\n");
        ask(&mut world, &resp, "exists key hash later\r\n", ":1\r\n");
    }
}

/// A transaction waits for memory that is never freed, because the background does not run. A stop closes its
/// connection, gives it time to end, and then ends without it.
#[test]
fn command_that_waits_for_ever_does_not_hold_up_a_stop_for_ever() {
    let stop_timeout = Duration::from_secs(8);
    let mut world = World::new(1, Faults::NONE, ServerConfig { stop_timeout, ..config(4) });
    let (filler, client) = (world.connect(Protocol::Resp), world.connect(Protocol::Resp));
    let (long, mut stored) = (pattern(60_000), 0);
    let mut is_stored = true;
    while std::mem::take(&mut is_stored) {
        filler.send(&request(&[b"SET", format!("key-{stored}").as_bytes(), &long]));
        for _ in 0..100 {
            assert!(world.worker.iterate());
            is_stored |= filler.take(100) == b"+OK\r\n";
        }
        stored += 1;
    }
    assert!(stored > 500, "the memory was full after {stored} values");
    let queued = [request(&[b"SET", b"one", &long]), request(&[b"SET", b"two", &long]), request(&[b"EXEC"])].concat();
    client.send(&[request(&[b"MULTI"]), queued].concat());
    let run_for = |world: &mut World, seconds: u64| {
        world.clock_ns.fetch_add(seconds * 1_000_000_000, Relaxed);
        (0..200).all(|_| world.worker.iterate())
    };
    assert!(run_for(&mut world, 0));
    assert_eq!(client.take(1000), b"+OK\r\n+QUEUED\r\n+QUEUED\r\n", "the transaction waits for memory");
    world.shared.request_stop();
    assert!(run_for(&mut world, 0) && run_for(&mut world, 6) && !client.is_closed());
    assert!(run_for(&mut world, 2) && client.is_closed(), "its connection is closed after the time limit");
    assert!(run_for(&mut world, 6), "it may still end");
    assert!(!run_for(&mut world, 2), "the worker ends without it");
}
