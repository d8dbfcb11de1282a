//! Tests that a warm worker allocates nothing for ordinary requests.
//!
//! The worker's iterations run on the test's thread, where every allocation is counted. The client runs on another
//! thread.

mod common;
#[path = "server/grpc_client.rs"]
#[allow(dead_code, reason = "the other suites use the rest")]
mod grpc_client;

use base::clock::UnixMillis;
use command::clients::endpoint::Protocol;
use command::visit::clock::Clock;
use common::redis::request;
use common::{Client, pattern, set, value};
use gannet_server::start::{ServerConfig, assemble};
use gannet_server::worker::{EVENTS_MAX, Worker, WorkerParts};
use grpc_client::{GET, Grpc, SET, call, item, key, prefixed};
use io::listen::{Accepted, AcceptedStream, ListenAddr, Listener};
use io::waker::Waker;
use io::{Backend, allocation, epoll, uring};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::mpsc::sync_channel;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

/// Returns the memcached requests of one round, each with its expected reply.
fn round() -> Vec<(Vec<u8>, Vec<u8>)> {
    let hundred: Vec<u8> = (0..100).flat_map(|_| b"get small\r\n".to_vec()).collect();
    let hundred_replies: Vec<u8> = (0..100).flat_map(|_| value("small", &pattern(200))).collect();
    let small = value("small", &pattern(200));
    let two = [&small[..small.len() - b"END\r\n".len()], &value("mid", &pattern(20_000))].concat();
    let mut exchanges = vec![
        (set("small", &pattern(200)), b"STORED\r\n".to_vec()),
        (set("mid", &pattern(20_000)), b"STORED\r\n".to_vec()),
        (set("long", &pattern(60_000)), b"STORED\r\n".to_vec()),
        (b"get small\r\n".to_vec(), value("small", &pattern(200))),
        (b"get long\r\n".to_vec(), value("long", &pattern(60_000))),
        (b"get small mid none\r\n".to_vec(), two),
        (hundred, hundred_replies),
    ];
    let lines: [(&str, &str); 14] = [
        ("set n 0 0 2\r\n41\r\n", "STORED\r\n"),
        ("incr n 1\r\n", "42\r\n"),
        ("decr n 2\r\n", "40\r\n"),
        ("touch n 100\r\nmg n v t\r\n", "TOUCHED\r\nVA 2 t100\r\n40\r\n"),
        ("ms m 3 T90 F5\r\nabc\r\n", "HD\r\n"),
        ("mg m v f\r\n", "VA 3 f5\r\nabc\r\n"),
        ("ma n\r\n", "HD\r\n"),
        ("md m\r\n", "HD\r\n"),
        ("append n 0 0 1\r\n7\r\n", "STORED\r\n"),
        ("delete n\r\n", "DELETED\r\n"),
        ("nonsense\r\n", "ERROR\r\n"),
        ("stats detail on\r\n", "OK\r\n"),
        ("get prefix:1\r\n", "END\r\n"),
        ("stats detail off\r\n", "OK\r\n"),
    ];
    exchanges.extend(lines.map(|(ask, reply)| (ask.into(), reply.into())));
    exchanges
}

/// Returns the Redis requests of one round, each with its expected reply.
fn resp_round() -> Vec<(Vec<u8>, Vec<u8>)> {
    let bulk = |bytes: &[u8]| [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let (small, mid, long) = (pattern(200), pattern(20_000), pattern(60_000));
    let get = request(&[b"GET", b"small"]);
    let mget: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain(std::iter::repeat_n(&b"small"[..], 50)).collect();
    let mut exchanges = vec![
        (request(&[b"SET", b"small", &small]), b"+OK\r\n".to_vec()),
        (request(&[b"SET", b"small", &small]).repeat(40), b"+OK\r\n".repeat(40)),
        (request(&[b"SET", b"mid", &mid]), b"+OK\r\n".to_vec()),
        (request(&[b"SET", b"long", &long, b"EX", b"100"]), b"+OK\r\n".to_vec()),
        (request(&[b"SET", b"long", &long]), b"+OK\r\n".to_vec()),
        (get.clone(), bulk(&small)),
        (get.repeat(100), bulk(&small).repeat(100)),
        (request(&[b"GET", b"long"]), bulk(&long)),
        (request(&mget), [b"*50\r\n".to_vec(), bulk(&small).repeat(50)].concat()),
    ];
    let short: [(&[&[u8]], &[u8]); 13] = [
        (&[b"GET", b"none"], b"$-1\r\n"),
        (&[b"SET", b"n", b"41", b"PX", b"100000"], b"+OK\r\n"),
        (&[b"INCR", b"n"], b":42\r\n"),
        (&[b"DECRBY", b"n", b"50"], b":-8\r\n"),
        (&[b"EXPIRE", b"n", b"50"], b":1\r\n"),
        (&[b"EXPIRE", b"n", b"500"], b":1\r\n"),
        (&[b"TTL", b"n"], b":500\r\n"),
        (&[b"APPEND", b"n", b"7"], b":3\r\n"),
        (&[b"GETSET", b"n", b"x"], b"$3\r\n-87\r\n"),
        (&[b"SETRANGE", b"n", b"3", b"yz"], b":5\r\n"),
        (&[b"EXISTS", b"n", b"small", b"none"], b":2\r\n"),
        (&[b"DEL", b"n"], b":1\r\n"),
        (&[b"NONSENSE"], b"-ERR unknown command 'NONSENSE', with args beginning with: \r\n"),
    ];
    exchanges.extend(short.map(|(words, reply)| (request(words), reply.to_vec())));
    exchanges
}

/// The connection of a gRPC client. Its calls have other streams in each round, so a round is no list of bytes.
struct GrpcRounds {
    grpc: Grpc,
    next_stream: u32,
}

impl GrpcRounds {
    fn connect(addr: SocketAddr) -> Self {
        Self { grpc: Grpc::connect_to(addr), next_stream: 1 }
    }

    /// Sends calls in one piece, and checks their replies.
    fn ask(&mut self, calls: &[(&str, Vec<u8>, &[u8])]) {
        let streams: Vec<u32> = (0..calls.len() as u32).map(|at| self.next_stream + 2 * at).collect();
        self.next_stream += 2 * calls.len() as u32;
        let frames = streams.iter().zip(calls).flat_map(|(stream, (path, message, _))| call(*stream, path, message));
        self.grpc.client.send(&frames.collect::<Vec<u8>>());
        for (answer, (path, _, reply)) in self.grpc.answers(&streams).iter().zip(calls) {
            assert_eq!((&answer.status[..], &answer.data[..]), ("0", *reply), "{path}");
        }
    }

    /// Sends gets, as many at once as a connection may have. A request that is not received in one piece takes memory
    /// until it is complete, so there are no batches of sets.
    fn round(&mut self) {
        let hit = |value: &[u8]| {
            prefixed(|out| {
                out.uint(1, 2).bytes(2, value);
            })
        };
        let result = |number| {
            prefixed(|out| {
                out.uint(1, number);
            })
        };
        let small = pattern(200);
        let small_hit = hit(&small);
        let miss = result(3);
        let stored = result(1);
        self.ask(&[(SET, item("small", &small), &stored[..])]);
        self.ask(&[(GET, key("small"), &small_hit[..])]);
        self.ask(&[(GET, key("none"), &miss[..])]);
        self.ask(&vec![(GET, key("small"), &small_hit[..]); 100]);
    }
}

/// A client that talks one protocol in rounds.
enum Talker {
    Lines(Client, Vec<(Vec<u8>, Vec<u8>)>),
    Grpc(GrpcRounds),
}

impl Talker {
    fn connect(protocol: Protocol, addr: SocketAddr) -> Self {
        match protocol {
            Protocol::Grpc => Self::Grpc(GrpcRounds::connect(addr)),
            Protocol::Resp => Self::Lines(Client::connect(addr), resp_round()),
            _ => Self::Lines(Client::connect(addr), round()),
        }
    }

    fn talk(&mut self) {
        match self {
            Self::Lines(client, round) => round.iter().for_each(|(ask, reply)| client.ask(ask, reply)),
            Self::Grpc(rounds) => rounds.round(),
        }
    }
}

/// Allocations are counted on one thread at a time, so one test covers both reactors and all protocols.
#[test]
fn a_warm_worker_allocates_nothing_for_ordinary_requests() {
    for protocol in [Protocol::Memcache, Protocol::Resp, Protocol::Grpc] {
        serve_and_count(protocol, |waker| epoll::Opened::open(waker).unwrap().reactor(EVENTS_MAX));
        serve_and_count(protocol, |waker| uring::Opened::open(waker, 16).unwrap().reactor());
    }
}

fn serve_and_count<B: Backend<Stream = AcceptedStream>>(protocol: Protocol, reactor: impl FnOnce(&Waker) -> B) {
    let config = ServerConfig { segment_bytes: Some(1 << 20), connections_max: 16, ..common::config() };
    let listener = Listener::open(&ListenAddr::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    let ListenAddr::Tcp(addr) = *listener.addr() else { panic!("a TCP address") };
    let (shared, _background) = assemble(config, UnixMillis::now()).unwrap();
    let waker = shared.threads.workers[0].waker.clone();
    let (intake, receiver) = sync_channel(4);
    let mut worker = Worker::new(WorkerParts {
        io: reactor(&waker),
        handle: shared.store.handle().unwrap(),
        shared: shared.clone(),
        number: 0,
        intake: receiver,
        clock: Clock::machine(),
        sessions_max: 16,
    });
    // All the worker's counters are warm after one round; only then is counted.
    let (warm, done, taken) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    let counted = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Talker::connect(protocol, addr);
            client.talk();
            // A watcher that has come and gone leaves nothing to pay for.
            let mut watcher = Client::connect(addr);
            if protocol == Protocol::Memcache {
                watcher.ask(b"watch fetchers mutations\r\n", b"OK\r\n");
            }
            client.talk();
            drop(watcher);
            while shared.watch.watchers() > 0 || shared.connections_open() > 1 {
                std::thread::yield_now();
            }
            client.talk();
            warm.store(true, Release);
            (0..20).for_each(|_| client.talk());
            done.store(true, Release);
            waker.wake();
            // A connection that ends gives memory back: not while that is counted.
            while !taken.load(Acquire) {
                std::thread::yield_now();
            }
        });
        let mut accepted = 0;
        while !warm.load(Acquire) {
            if let Accepted::Stream(stream) = listener.accept() {
                intake.send((stream, protocol.into()).into()).unwrap();
                accepted += 1;
            }
            waker.wake();
            worker.iterate();
        }
        assert_eq!(accepted, 2);
        assert!(protocol != Protocol::Memcache || shared.watch.written.load(Relaxed) > 100, "nothing was watched");
        allocation::count_this_thread();
        while !done.load(Acquire) {
            worker.iterate();
        }
        let counted = allocation::take_count();
        taken.store(true, Release);
        counted
    });
    assert_eq!(counted, Some(0), "allocator calls on the worker's thread");
    // The counter counts: the proof is an allocation.
    allocation::count_this_thread();
    drop(std::hint::black_box(Box::new(7)));
    assert_eq!(allocation::take_count(), Some(2));
    assert!(shared.workers[0].counters.ops.value() > 20 * 118);
}
