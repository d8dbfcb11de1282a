//! Tests of clients that send half of a request, do not read, or continue to send when they are no longer served, while
//! other clients are served.

use crate::common::redis::request;
use crate::common::{self, pattern, set, value};
use crate::sim::World;
use command::clients::endpoint::Protocol::{self, Memcache, Resp};
use gannet_server::buffers::aside_bytes_max;
use gannet_server::start::ServerConfig;
use io::sim::{Faults, SimClient};
use std::sync::atomic::Ordering::Relaxed;

/// The number of clients with half of a request: more than a worker has buffers.
const HALVES: usize = 700;
/// The maximum number of iterations until a bystander gets its reply. One may be spent on a full batch before its own.
const TURNS_MAX: usize = 2;

fn config() -> ServerConfig {
    ServerConfig { connections_max: 2000, ..common::config() }
}

/// Sends a request over each protocol, and asserts that the replies arrive within [`TURNS_MAX`] iterations.
pub fn ask_beside(world: &mut World, bystanders: &[SimClient; 2], what: &str) {
    let get = [&b"get by\r\n"[..], b"*2\r\n$3\r\nGET\r\n$2\r\nby\r\n"];
    let expected = [value("by", b"stander"), b"$7\r\nstander\r\n".to_vec()];
    bystanders.iter().zip(get).for_each(|(client, get)| client.send(get));
    let mut got = [Vec::new(), Vec::new()];
    for _ in 0..TURNS_MAX {
        world.guard();
        got.iter_mut().zip(bystanders).for_each(|(got, client)| got.extend(client.take(1 << 20)));
    }
    assert!(got == expected, "{what}: {:?} in {TURNS_MAX} turns", got.map(|got| got.escape_ascii().to_string()));
}

pub fn bystanders(world: &mut World) -> [SimClient; 2] {
    let clients = [world.connect(Memcache), world.connect(Resp)];
    clients[0].send(&set("by", b"stander"));
    world.iterations(4);
    assert_eq!(clients[0].take(100), b"STORED\r\n");
    clients
}

/// A request that is split in two, and its reply.
struct Cut {
    protocol: Protocol,
    half: Vec<u8>,
    rest: Vec<u8>,
    reply: &'static [u8],
}

fn cut(protocol: Protocol, request: &[u8], at: usize, reply: &'static [u8]) -> Cut {
    Cut { protocol, half: request[..at].to_vec(), rest: request[at..].to_vec(), reply }
}

/// Returns requests that are split at each kind of place: in the line, before the value, in the value, and in the final
/// line end.
fn cuts() -> Vec<Cut> {
    let x = "x".repeat(200);
    let resp_set = format!("*3\r\n$3\r\nSET\r\n$1\r\nh\r\n$100\r\n{}\r\n", &x[..100]);
    let resp_get = format!("*2\r\n$3\r\nGET\r\n$200\r\n{x}\r\n");
    let set = format!("set h 0 0 100\r\n{}\r\n", &x[..100]);
    let meta = format!("ms h 100 T0\r\n{}\r\n", &x[..100]);
    let get = format!("get {x}\r\n");
    vec![
        cut(Memcache, set.as_bytes(), 25, b"STORED\r\n"),
        cut(Memcache, set.as_bytes(), set.len() - 1, b"STORED\r\n"),
        cut(Memcache, set.as_bytes(), 15, b"STORED\r\n"),
        cut(Memcache, set.as_bytes(), 7, b"STORED\r\n"),
        cut(Memcache, meta.as_bytes(), 20, b"HD\r\n"),
        cut(Memcache, get.as_bytes(), 100, b"END\r\n"),
        cut(Resp, resp_set.as_bytes(), 1, b"+OK\r\n"),
        cut(Resp, resp_set.as_bytes(), 18, b"+OK\r\n"),
        cut(Resp, resp_set.as_bytes(), 40, b"+OK\r\n"),
        cut(Resp, resp_get.as_bytes(), 60, b"$-1\r\n"),
        cut(Resp, b"GET nobody\r\n", 6, b"$-1\r\n"),
        cut(Resp, b"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n", 20, b"-ERR AUTH"),
    ]
}

#[test]
fn partial_requests_of_more_clients_than_buffers_delay_no_client() {
    for (number, cut) in cuts().into_iter().enumerate() {
        let what = format!("cut {number}, {:?}", cut.half.escape_ascii().to_string());
        let mut world = World::new(number as u64, Faults::NONE, config());
        let bystanders = bystanders(&mut world);
        let halves: Vec<SimClient> = (0..HALVES).map(|_| world.connect(cut.protocol)).collect();
        world.iterations(HALVES / 64 + 1);
        halves.iter().for_each(|client| client.send(&cut.half));
        world.iterations(HALVES / 64 + 1);
        ask_beside(&mut world, &bystanders, &what);
        let begun_ns = world.clock_ns.load(Relaxed);
        while world.worker.buffers_lent() > 0 {
            world.guard();
            let after_ns = world.clock_ns.load(Relaxed) - begun_ns;
            assert!(after_ns < 20_000_000, "{what}: {} lent after {after_ns} ns", world.worker.buffers_lent());
        }
        let worker = &world.shared.workers[0];
        assert_eq!((worker.aside.inputs(), worker.counters.buffer_waits.value()), (HALVES as u64, 0), "{what}");
        assert!(worker.aside.bytes() < 400 * HALVES as u64, "{what}: {} bytes", worker.aside.bytes());
        halves.iter().for_each(|client| client.send(&cut.rest));
        world.iterations(HALVES / 16);
        for (client, half) in halves.iter().enumerate() {
            let got = half.take(1000);
            assert!(got.starts_with(cut.reply), "{what}, client {client}: {:?}", got.escape_ascii().to_string());
        }
        let aside = &world.shared.workers[0].aside;
        assert_eq!((aside.bytes(), aside.inputs(), world.worker.buffers_lent()), (0, 0, 0), "{what}");
    }
}

#[test]
fn partial_logins_of_unauthenticated_clients_delay_no_client() {
    let path = std::env::temp_dir().join(format!("gannet-half-users-{}", std::process::id()));
    std::fs::write(&path, "user:secret\n").expect("a file of users");
    let mut world = World::new(9, Faults::NONE, ServerConfig { auth_file: Some(path.clone()), ..config() });
    std::fs::remove_file(path).expect("it is read at the start");
    let login = b"set auth 0 0 11\r\nuser secret\r\n";
    let known = world.connect(Memcache);
    known.send(login);
    let strangers: Vec<SimClient> = (0..HALVES).map(|_| world.connect(Memcache)).collect();
    world.iterations(HALVES / 64 + 1);
    assert_eq!(known.take(100), b"STORED\r\n");
    // All of them each time: a client that has logged in stores a key of that name.
    for at in [3, 17, 25] {
        let halves = &strangers;
        halves.iter().for_each(|stranger| stranger.send(&login[..at]));
        world.iterations(HALVES / 64 + 1);
        known.send(b"get nothing\r\n");
        world.iterations(TURNS_MAX);
        assert_eq!(known.take(100), b"END\r\n", "halves of {at} bytes");
        halves.iter().for_each(|stranger| stranger.send(&login[at..]));
        world.iterations(HALVES / 16);
        assert!(halves.iter().all(|stranger| stranger.take(100) == b"STORED\r\n"), "halves of {at} bytes");
    }
}

/// Tests requests that never complete: lines, arrays, and announced values that do not arrive.
#[test]
fn announced_lengths_and_endless_lines_delay_no_client() {
    let long = pattern(40_000).iter().map(|byte| b'a' + byte % 26).collect::<Vec<_>>();
    let halves: [(Protocol, Vec<u8>); 6] = [
        (Memcache, [b"get ", &long[..]].concat()),
        (Memcache, [b"add h 0 0 100000\r\n", &long[..]].concat()),
        (Memcache, b"set h 0 0 900000\r\nxxx".to_vec()),
        (Resp, b"*3\r\n$3\r\nSET\r\n$1\r\nh\r\n$500000000\r\nxxx".to_vec()),
        (Resp, b"*1048576\r\n$4\r\nMGET\r\n$1\r\na\r\n".to_vec()),
        (Resp, [b"*2\r\n$3\r\nGET\r\n$15000\r\n", &long[..9000]].concat()),
    ];
    for (number, (protocol, half)) in halves.into_iter().enumerate() {
        let mut world = World::new(number as u64, Faults::NONE, ServerConfig { memory_bytes: 512 << 20, ..config() });
        let bystanders = bystanders(&mut world);
        let clients: Vec<SimClient> = (0..300).map(|_| world.connect(protocol)).collect();
        clients.iter().for_each(|client| client.send(&half));
        world.iterations(200);
        ask_beside(&mut world, &bystanders, &format!("half {number}"));
        // Values that were received in their place are moved from there after a second.
        world.clock_ns.fetch_add(1_500_000_000, Relaxed);
        world.iterations(100);
        ask_beside(&mut world, &bystanders, &format!("half {number}, later"));
        world.clock_ns.fetch_add(40_000_000_000, Relaxed);
        world.iterations(3000);
        ask_beside(&mut world, &bystanders, &format!("half {number}, after the stall timeout"));
        assert!(clients.iter().filter(|client| client.is_closed()).count() == 0, "half {number}: nobody had to go");
    }
}

#[test]
fn oldest_partial_request_is_closed_with_an_error_if_memory_is_used_up() {
    for (protocol, begin, error) in [
        (Memcache, &b"get "[..], &b"SERVER_ERROR out of memory reading request\r\n"[..]),
        (Resp, &b"*2\r\n$3\r\nGET\r\n$15000\r\n"[..], &b"-ERR cannot read request: memory"[..]),
    ] {
        let mut world = World::new(1, Faults::NONE, config());
        let bystanders = bystanders(&mut world);
        let half = [begin, &vec![b'a'; 14_000]].concat();
        let mut clients = Vec::new();
        for _ in 0..HALVES {
            let client = world.connect(protocol);
            world.guard();
            client.send(&half);
            world.guard();
            clients.push(client);
        }
        ask_beside(&mut world, &bystanders, "a full budget");
        let worker = &world.shared.workers[0];
        let most = aside_bytes_max(world.shared.config.memory_bytes, 1);
        assert!(worker.aside.bytes() <= most && worker.aside.bytes() > most / 2, "{} bytes", worker.aside.bytes());
        let closed = clients.iter().filter(|client| client.is_closed()).count();
        assert!((50..HALVES).contains(&closed), "{closed} closed");
        assert_eq!(worker.counters.slow_senders_dropped.value(), closed as u64);
        for (number, client) in clients.iter().enumerate() {
            assert_eq!(client.is_closed(), number < closed, "client {number} of {closed} closed: not the oldest");
            assert_eq!(client.take(1000).starts_with(error), number < closed, "client {number}");
        }
    }
}

#[test]
fn clients_that_do_not_read_hold_up_neither_senders_nor_readers() {
    let faults = Faults { window_bytes: 2000, ..Faults::NONE };
    let mut world = World::new(3, faults, ServerConfig { memory_bytes: 512 << 20, ..config() });
    let bystanders = bystanders(&mut world);
    let setter = world.connect(Memcache);
    setter.send(&set("k", &pattern(6000)));
    world.iterations(10);
    assert_eq!(setter.take(100), b"STORED\r\n");
    // Each has an output that is not taken, and behind it requests and half of one.
    let clients: Vec<SimClient> = (0..HALVES / 2).map(|_| world.connect(Memcache)).collect();
    let requests = [&b"get k\r\n".repeat(20)[..], b"set h 0 0 100\r\nxxx"].concat();
    clients.iter().for_each(|client| client.send(&requests));
    world.iterations(60);
    ask_beside(&mut world, &bystanders, "slow readers");
    let worker = &world.shared.workers[0];
    assert!(worker.aside.outputs() > 100, "{} outputs are set aside", worker.aside.outputs());
    assert_eq!(worker.counters.slow_readers_dropped.value(), 0);
    let reply = value("k", &pattern(6000)).repeat(20);
    for (number, client) in clients.iter().enumerate() {
        let mut got = Vec::new();
        for _ in 0..400 {
            got.extend(client.take(1 << 20));
            if got.len() >= reply.len() {
                break;
            }
            world.guard();
        }
        assert!(got == reply, "client {number}: {} bytes of {}", got.len(), reply.len());
    }
    world.iterations(20);
    let aside = &world.shared.workers[0].aside;
    assert_eq!(aside.outputs(), 0, "{} bytes", aside.bytes());
}

#[test]
fn a_wait_for_a_buffer_is_counted_and_timed() {
    let config = ServerConfig { connections_max: 200, segment_bytes: Some(1 << 20), ..common::config() };
    let mut world = World::new(5, Faults::NONE, config);
    let clients: Vec<SimClient> = (0..60).map(|_| world.connect(Resp)).collect();
    clients[0].send(&request(&[b"HSET", b"h", b"f", &pattern(100_000)]));
    world.iterations(6);
    assert_eq!(clients[0].take(100), b":1\r\n");
    // One batch has more long replies than there are outputs for them: a field's value is copied, and not pinned.
    clients.iter().for_each(|client| client.send(&request(&[b"HGET", b"h", b"f"])));
    let counters = |world: &World| {
        let counters = &world.shared.workers[0].counters;
        [&counters.buffer_waits, &counters.buffer_wait_ns, &counters.buffer_waiters].map(|one| one.value())
    };
    let mut waiters_most = 0;
    for _ in 0..200 {
        world.guard();
        waiters_most = waiters_most.max(counters(&world)[2]);
    }
    let [waits, ns, waiters] = counters(&world);
    assert!(waits > 0 && ns > 0 && waiters_most > 0 && waiters == 0, "{waits} {ns} {waiters_most} {waiters}");
    let reply = [b"$100000\r\n", &pattern(100_000)[..], b"\r\n"].concat();
    assert!(clients.iter().all(|client| client.take(1 << 20) == reply));
}

/// The maximum number of bytes that an iteration receives from one connection that is not served: the iteration's limit
/// plus one receive.
const TURN_BYTES: u64 = 512 << 10;

#[test]
fn discarded_input_takes_a_bounded_share_of_each_iteration() {
    let flood = vec![b'x'; 8 << 20];
    for (number, (protocol, begin, closes)) in [
        (Memcache, &b"quit\r\n"[..], true),
        (Resp, b"*1\r\n$4\r\nQUIT\r\n", true),
        // Lines and lengths that cannot be parsed.
        (Memcache, &[b'g'; 70_000], true),
        (Resp, b"*3\r\n$3\r\nSET\r\n+oops\r\n", true),
        (Memcache, b"set k 0 0 999999999\r\n", false),
        (Resp, b"*3\r\n$3\r\nFOO\r\n$1\r\nk\r\n$500000000\r\n", false),
    ]
    .into_iter()
    .enumerate()
    {
        let mut world = World::new(number as u64, Faults::NONE, config());
        let bystanders = bystanders(&mut world);
        let clients: Vec<SimClient> = (0..3).map(|_| world.connect(protocol)).collect();
        world.iterations(3);
        for client in &clients {
            client.send(begin);
            client.send(&flood);
        }
        let (mut most, begun) = (0, world.received_bytes());
        for _ in 0..20 {
            let before = world.received_bytes();
            ask_beside(&mut world, &bystanders, &format!("flood {number}"));
            most = most.max((world.received_bytes() - before) / TURNS_MAX as u64);
        }
        assert!(most > 0 && most <= TURN_BYTES, "flood {number}: {most} bytes in a turn");
        if closes {
            world.iterations(200);
            let received = world.received_bytes() - begun;
            assert!(received < 3 * (3 << 20), "flood {number}: {received} bytes of finished connections");
            assert!(clients.iter().all(SimClient::is_closed) && world.worker.sessions() == 2, "flood {number}");
        }
    }
}

#[test]
fn client_that_trickles_bytes_after_quit_is_closed() {
    let mut world = World::new(7, Faults::NONE, config());
    let bystanders = bystanders(&mut world);
    let client = world.connect(Memcache);
    client.send(b"quit\r\nmore");
    world.iterations(2);
    let begun_ns = world.clock_ns.load(Relaxed);
    while world.worker.sessions() > bystanders.len() {
        client.send(b"x");
        world.guard();
        world.clock_ns.fetch_add(10_000_000, Relaxed);
        let after_ms = (world.clock_ns.load(Relaxed) - begun_ns) / 1_000_000;
        assert!(after_ms < 2500, "it lingers for {after_ms} ms");
    }
}

#[test]
fn long_value_is_sent_over_many_iterations_even_to_a_fast_reader() {
    const BYTES: usize = 32 << 20;
    let config = ServerConfig { item_bytes_max: 64 << 20, memory_bytes: 512 << 20, ..config() };
    let mut world = World::new(8, Faults::NONE, config);
    let bystanders = bystanders(&mut world);
    let client = world.connect(Memcache);
    client.send(&set("long", &pattern(BYTES)));
    let mut stored = Vec::new();
    while stored.len() < b"STORED\r\n".len() {
        world.guard();
        stored.extend(client.take(100));
    }
    client.send(b"get long\r\nget by\r\n");
    let expected = [value("long", &pattern(BYTES)), value("by", b"stander")].concat();
    let (mut got, mut most) = (Vec::new(), 0);
    while got.len() < expected.len() {
        let before = got.len();
        ask_beside(&mut world, &bystanders, "a long value");
        got.extend(client.take(usize::MAX));
        most = most.max((got.len() - before) / TURNS_MAX);
        assert!(got.len() > before, "{} of {} bytes", got.len(), expected.len());
    }
    assert!(got == expected && most <= 1 << 20, "{most} bytes in a turn");
    assert_eq!(world.shared.pins.used(), 0);
}
