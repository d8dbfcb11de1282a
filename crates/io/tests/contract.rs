//! Tests of the contract that every back end for real sockets has to fulfil. The same tests run on each back end.

use base::prng::Prng;
use gannet_io::epoll::{self, Epoll};
use gannet_io::listen::{Accepted, AcceptedStream, ListenAddr, Listener};
use gannet_io::uring::{self, Detours, HELD_MAX, INBOUND_BYTES, INBOUND_MAX, OUTBOUND_BYTES, OUTBOUND_MAX, Uring};
use gannet_io::waker::Waker;
use gannet_io::{Backend, Detached, IoEvent, Received, Sent, Token, allocation};
use std::io::{IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

/// Maximum time for which a test waits for any one event.
const PATIENCE: Duration = Duration::from_secs(60);
const TICK: Option<Duration> = Some(Duration::from_millis(20));

/// A reactor and its sockets.
struct Bench<B: Backend<Stream = AcceptedStream>> {
    io: B,
    waker: Waker,
    listener: Listener,
    events: Vec<IoEvent>,
}

trait Kind: Backend<Stream = AcceptedStream> + Sized {
    const NAME: &'static str;
    fn make(waker: &Waker, streams_max: usize) -> Self;
    /// Checks that the test left the fast path as intended. Does nothing for a back end without a fast path.
    fn check_detours(&self, reached: fn(Detours) -> bool);
}

impl Kind for Epoll {
    const NAME: &'static str = "epoll";
    fn make(waker: &Waker, _: usize) -> Self {
        epoll::Opened::open(waker).unwrap().reactor(64)
    }
    fn check_detours(&self, _: fn(Detours) -> bool) {}
}

impl Kind for Uring {
    const NAME: &'static str = "io_uring";
    fn make(waker: &Waker, streams_max: usize) -> Self {
        uring::Opened::open(waker, streams_max).expect("a kernel with io_uring").reactor()
    }
    fn check_detours(&self, reached: fn(Detours) -> bool) {
        assert!(reached(self.detours()), "{:?}", self.detours());
    }
}

impl<B: Kind> Bench<B> {
    fn new(streams_max: usize) -> Self {
        let waker = Waker::new().unwrap();
        let listener = Listener::open(&ListenAddr::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
        Self { io: B::make(&waker, streams_max), waker, listener, events: Vec::with_capacity(64) }
    }

    /// Opens a connection that is not attached yet; returns the client's end and the server's.
    fn dial(&self) -> (TcpStream, AcceptedStream) {
        let ListenAddr::Tcp(addr) = *self.listener.addr() else { panic!("a TCP address") };
        let client = TcpStream::connect(addr).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.set_nodelay(true).unwrap();
        loop {
            match self.listener.accept() {
                Accepted::Stream(stream) => return (client, stream),
                _ => std::thread::yield_now(),
            }
        }
    }

    fn connect(&mut self, token: Token) -> (TcpStream, AcceptedStream) {
        let (client, stream) = self.dial();
        self.io.attach(&stream, token).unwrap();
        (client, stream)
    }

    /// Waits for an event that `wanted` accepts, and discards all others.
    fn until(&mut self, what: &str, mut wanted: impl FnMut(&IoEvent) -> bool) -> IoEvent {
        let begun = Instant::now();
        loop {
            self.io.wait(TICK, &mut self.events).unwrap();
            if let Some(event) = self.events.iter().find(|event| wanted(event)) {
                return *event;
            }
            assert!(begun.elapsed() < PATIENCE, "{}: no event: {what}", B::NAME);
        }
    }

    fn readable(&mut self, token: Token) -> IoEvent {
        self.until("readable", |event| event.token == token && event.readable)
    }

    /// Receives `count` bytes in pieces of at most `room`, waiting for an event whenever none are available.
    fn collect(&mut self, stream: &AcceptedStream, token: Token, count: usize, room: usize) -> Vec<u8> {
        let (mut got, mut buffer) = (Vec::new(), vec![0; room]);
        while got.len() < count {
            match self.io.receive(stream, &mut buffer) {
                Received::Bytes(bytes) => got.extend_from_slice(&buffer[..bytes]),
                Received::Blocked => drop(self.readable(token)),
                other => panic!("{}: {other:?} after {} bytes", B::NAME, got.len()),
            }
        }
        got
    }

    fn send(&mut self, stream: &AcceptedStream, bytes: &[u8]) -> Sent {
        self.io.send(stream, &[IoSlice::new(bytes)])
    }

    /// Calls `wait` without blocking until nothing is left to submit.
    fn settle(&mut self) {
        for _ in 0..3 {
            self.io.wait(Some(Duration::ZERO), &mut self.events).unwrap();
        }
    }
}

fn pattern(len: usize, salt: u64) -> Vec<u8> {
    (0..len as u64).map(|i| ((i + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

const ONE: Token = Token::new(1, 1);
const TWO: Token = Token::new(2, 1);

/// Runs each test for each back end.
macro_rules! contract {
    ($($name:ident),* $(,)?) => {
        mod on_epoll { $(#[test] fn $name() { super::$name::<super::Epoll>(); })* }
        mod on_uring { $(#[test] fn $name() { super::$name::<super::Uring>(); })* }
    };
}

contract!(
    bytes_that_were_there_before_the_attach_are_reported,
    a_short_receive_has_taken_all_and_the_next_bytes_make_an_event,
    long_values_and_short_ones_in_turn_lose_nothing,
    nothing_there_is_blocked_and_not_closed,
    a_close_by_the_peer_comes_after_its_last_bytes,
    a_reset_by_the_peer_surfaces_at_the_next_call,
    parts_arrive_in_order_over_many_sends_of_any_size,
    a_peer_that_does_not_read_blocks_and_its_reading_makes_an_event,
    writable_is_told_only_to_who_wants_it,
    bytes_taken_over_reach_the_peer_although_the_stream_is_closed_at_once,
    a_shutdown_comes_after_what_was_sent,
    a_waker_of_another_thread_ends_a_wait_each_time,
    a_wait_without_events_ends_in_time,
    a_list_that_is_too_short_loses_no_event,
    a_closed_streams_late_bytes_are_not_its_successors,
    a_stream_that_is_not_read_holds_little_and_loses_nothing,
    end_of_an_unread_stream_is_reported,
    one_stream_that_is_not_read_starves_no_other,
    many_peers_that_do_not_read_starve_no_other,
    a_warm_reactor_allocates_nothing,
    descriptors_are_closed_with_the_streams,
    sends_under_way_when_the_reactor_goes_are_not_lost,
    what_is_detached_goes_on_in_another_reactor_with_every_byte_in_order,
    what_a_peer_did_not_take_goes_along_when_its_stream_is_detached,
    random_echoes_with_pauses_and_closes_keep_every_byte,
);

fn what_is_detached_goes_on_in_another_reactor_with_every_byte_in_order<B: Kind>() {
    let (mut first, mut second) = (Bench::<B>::new(4), Bench::<B>::new(4));
    let (mut client, stream) = first.connect(ONE);
    let (mut silent, other) = first.connect(TWO);
    let (gone, broken) = first.connect(Token::new(3, 1));
    // The owner takes some bytes. Other bytes have arrived but are not taken, and the rest arrives while the stream has
    // no owner.
    let all = pattern(9000, 5);
    client.write_all(&all[..100]).unwrap();
    assert_eq!(first.collect(&stream, ONE, 100, 100), all[..100]);
    client.write_all(&all[100..6000]).unwrap();
    first.readable(ONE);
    assert_eq!(first.send(&stream, b"answer"), Sent::Bytes(6));
    rustix::net::sockopt::set_socket_linger(&gone, Some(Duration::ZERO)).unwrap();
    drop(gone);
    first.until("a reset", |event| event.token == Token::new(3, 1) && event.hangup);
    let mut detached = first.io.detach(vec![stream, other, broken]).into_iter();
    let Detached { stream, received: mut got, unsent } = detached.next().unwrap().expect("it is whole");
    assert!(unsent.is_empty());
    let Detached { stream: other, received, .. } = detached.next().unwrap().expect("it is whole");
    assert!(received.is_empty());
    // The result for the broken stream depends on the back end: epoll does not know that the connection is broken.
    drop(detached.next().unwrap());
    client.write_all(&all[6000..]).unwrap();
    let begun = std::mem::replace(&mut first, second);
    second = begun;
    second.settle();
    first.io.attach(&stream, TWO).unwrap();
    first.io.attach(&other, ONE).unwrap();
    let rest = all.len() - 100 - got.len();
    got.extend(first.collect(&stream, TWO, rest, 700));
    assert!(got == all[100..], "{}: bytes are missing or in another order", B::NAME);
    let mut answer = [0; 6];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer");
    silent.write_all(b"now").unwrap();
    assert_eq!(first.collect(&other, ONE, 3, 100), b"now");
    assert_eq!(first.send(&other, b"heard"), Sent::Bytes(5));
    first.settle();
    silent.read_exact(&mut answer[..5]).unwrap();
    first.io.close(stream);
    first.io.close(other);
    // The reactor that detached the streams again has room for as many streams as before.
    for number in 0..4 {
        let (_, stream) = second.connect(Token::new(number, 9));
        second.io.close(stream);
    }
}

fn what_a_peer_did_not_take_goes_along_when_its_stream_is_detached<B: Kind>() {
    let (mut first, mut second) = (Bench::<B>::new(4), Bench::<B>::new(4));
    let (mut client, stream) = first.connect(ONE);
    let all = pattern(8 << 20, 7);
    let mut taken = 0;
    while let Sent::Bytes(bytes) = first.send(&stream, &all[taken..all.len().min(taken + 9000)]) {
        taken += bytes;
        assert!(taken < all.len(), "{}: a peer that reads nothing takes all", B::NAME);
        first.settle();
    }
    let detached = first.io.detach(vec![stream]).pop().unwrap().expect("it is whole");
    second.io.attach(&detached.stream, TWO).unwrap();
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; taken];
        client.read_exact(&mut got).unwrap();
        got
    });
    let mut unsent = &detached.unsent[..];
    while !unsent.is_empty() {
        match second.send(&detached.stream, unsent) {
            Sent::Bytes(bytes) => unsent = &unsent[bytes..],
            Sent::Blocked => second.settle(),
            Sent::Reset => panic!("{}: it is whole", B::NAME),
        }
    }
    second.settle();
    while !reader.is_finished() {
        second.settle();
    }
    assert!(reader.join().unwrap() == all[..taken], "{}: bytes are missing or in another order", B::NAME);
    second.io.close(detached.stream);
    let (_, stream) = first.connect(TWO);
    first.io.close(stream);
}

fn bytes_that_were_there_before_the_attach_are_reported<B: Kind>() {
    let mut bench = Bench::<B>::new(4);
    let (mut client, stream) = bench.dial();
    client.write_all(b"early").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    bench.io.attach(&stream, ONE).unwrap();
    assert!(!bench.readable(ONE).hangup);
    assert_eq!(bench.collect(&stream, ONE, 5, 100), b"early");
    bench.io.close(stream);
}

fn a_short_receive_has_taken_all_and_the_next_bytes_make_an_event<B: Kind>() {
    let mut bench = Bench::<B>::new(4);
    let (mut client, stream) = bench.connect(ONE);
    for round in 0..100usize {
        let bytes = pattern(1 + round * 97, round as u64);
        client.write_all(&bytes).unwrap();
        bench.readable(ONE);
        assert_eq!(bench.collect(&stream, ONE, bytes.len(), 20_000), bytes, "round {round}");
    }
    // A receive that fills its buffer does not show whether more bytes follow.
    client.write_all(b"abcdef").unwrap();
    bench.readable(ONE);
    let mut two = [0; 2];
    for expected in [b"ab", b"cd", b"ef"] {
        assert_eq!((bench.io.receive(&stream, &mut two), &two), (Received::Bytes(2), expected));
    }
    assert_eq!(bench.io.receive(&stream, &mut two), Received::Blocked);
    bench.io.close(stream);
}

fn nothing_there_is_blocked_and_not_closed<B: Kind>() {
    let mut bench = Bench::<B>::new(4);
    let (_client, stream) = bench.connect(ONE);
    bench.settle();
    for _ in 0..3 {
        assert_eq!(bench.io.receive(&stream, &mut [0; 10]), Received::Blocked);
    }
    bench.io.close(stream);
}

fn a_close_by_the_peer_comes_after_its_last_bytes<B: Kind>() {
    let mut bench = Bench::<B>::new(4);
    let (mut client, stream) = bench.connect(ONE);
    let bytes = pattern(50_000, 3);
    client.write_all(&bytes).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    bench.until("hangup", |event| event.token == ONE && event.readable && event.hangup);
    assert_eq!(bench.collect(&stream, ONE, bytes.len(), 1000), bytes);
    assert_eq!(bench.io.receive(&stream, &mut [0; 10]), Received::Closed);
    // The other direction is still open.
    assert_eq!(bench.send(&stream, b"farewell"), Sent::Bytes(8));
    bench.settle();
    let mut said = [0; 8];
    client.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"farewell");
    bench.io.close(stream);
}

fn a_reset_by_the_peer_surfaces_at_the_next_call<B: Kind>() {
    let mut bench = Bench::<B>::new(4);
    let (mut client, stream) = bench.connect(ONE);
    assert_eq!(bench.send(&stream, b"unread bytes make the close a reset"), Sent::Bytes(35));
    bench.settle();
    client.write_all(b"x").unwrap();
    bench.readable(ONE);
    assert_eq!(bench.collect(&stream, ONE, 1, 10), b"x");
    drop(client);
    let event = bench.until("hangup", |event| event.token == ONE && event.hangup);
    assert!(event.readable);
    assert!(matches!(bench.io.receive(&stream, &mut [0; 10]), Received::Reset | Received::Closed));
    let begun = Instant::now();
    while bench.send(&stream, b"to no one") != Sent::Reset {
        bench.settle();
        assert!(begun.elapsed() < PATIENCE, "sends to no one go on");
    }
    bench.io.close(stream);
}

fn parts_arrive_in_order_over_many_sends_of_any_size<B: Kind>() {
    let mut bench = Bench::<B>::new(4);
    let (mut client, stream) = bench.connect(ONE);
    let lengths = [1, 300, OUTBOUND_BYTES - 1, OUTBOUND_BYTES, OUTBOUND_BYTES + 1, 9, 100_000, 5, 5, 300_000, 2];
    let all: Vec<u8> = pattern(lengths.iter().sum::<usize>() * 5, 1);
    let reader = std::thread::spawn({
        let count = all.len();
        move || {
            let mut got = vec![0; count];
            client.read_exact(&mut got).unwrap();
            got
        }
    });
    let mut rest = &all[..];
    let mut number = 0;
    bench.io.want_writable(&stream, ONE, true);
    while !rest.is_empty() {
        let bytes = &rest[..lengths[number % lengths.len()].min(rest.len())];
        number += 1;
        let (front, back) = bytes.split_at(bytes.len() / 3);
        match bench.io.send(&stream, &[IoSlice::new(front), IoSlice::new(&[]), IoSlice::new(back)]) {
            Sent::Bytes(taken) => rest = &rest[taken..],
            Sent::Blocked => drop(bench.until("writable", |event| event.writable)),
            Sent::Reset => panic!("a reset"),
        }
        if number % 7 == 0 {
            bench.io.submit();
        }
    }
    bench.settle();
    let begun = Instant::now();
    while !reader.is_finished() {
        assert!(begun.elapsed() < PATIENCE, "bytes are missing");
        bench.io.wait(TICK, &mut bench.events).unwrap();
    }
    assert!(reader.join().unwrap() == all, "bytes are out of order");
    bench.io.close(stream);
}

/// Sends until the peer's window and the socket's send buffer are full. Returns the number of bytes taken over.
fn fill<B: Kind>(bench: &mut Bench<B>, stream: &AcceptedStream, piece: &[u8]) -> usize {
    let mut taken = 0;
    loop {
        match bench.send(stream, piece) {
            Sent::Bytes(bytes) => taken += bytes,
            Sent::Blocked => return taken,
            Sent::Reset => panic!("a reset"),
        }
        bench.settle();
    }
}

fn a_peer_that_does_not_read_blocks_and_its_reading_makes_an_event<B: Kind>() {
    for piece in [pattern(1000, 0), pattern(200_000, 0)] {
        let mut bench = Bench::<B>::new(4);
        let (mut client, stream) = bench.connect(ONE);
        let mut taken = fill(&mut bench, &stream, &piece);
        bench.io.want_writable(&stream, ONE, true);
        bench.io.wait(TICK, &mut bench.events).unwrap();
        // The peer's window may have grown meanwhile.
        taken += fill(&mut bench, &stream, &piece);
        for _ in 0..20 {
            // More bytes remain than a back end holds, so progress requires a `writable` event.
            let read = taken - taken / 4;
            client.read_exact(&mut vec![0; read]).unwrap();
            bench.until("writable", |event| event.token == ONE && event.writable);
            taken -= read;
            taken += fill(&mut bench, &stream, &piece);
        }
        bench.io.close(stream);
    }
}

fn writable_is_told_only_to_who_wants_it<B: Kind>() {
    let mut bench = Bench::<B>::new(4);
    let (_client, stream) = bench.connect(ONE);
    for _ in 0..5 {
        bench.io.wait(TICK, &mut bench.events).unwrap();
        assert!(bench.events.iter().all(|event| !event.writable));
    }
    bench.io.want_writable(&stream, ONE, true);
    bench.until("writable", |event| event.token == ONE && event.writable);
    bench.io.want_writable(&stream, ONE, false);
    assert_eq!(bench.send(&stream, b"x"), Sent::Bytes(1));
    for _ in 0..5 {
        bench.io.wait(TICK, &mut bench.events).unwrap();
        assert!(bench.events.iter().all(|event| !event.writable));
    }
    bench.io.close(stream);
}

fn bytes_taken_over_reach_the_peer_although_the_stream_is_closed_at_once<B: Kind>() {
    let mut bench = Bench::<B>::new(4);
    for round in 0..50 {
        let (mut client, stream) = bench.connect(Token::new(1, round));
        assert_eq!(bench.send(&stream, b"last words"), Sent::Bytes(10));
        bench.io.close(stream);
        bench.settle();
        let mut said = Vec::new();
        client.read_to_end(&mut said).unwrap();
        assert_eq!(said, b"last words");
    }
}

fn a_shutdown_comes_after_what_was_sent<B: Kind>() {
    let mut bench = Bench::<B>::new(4);
    let (mut client, stream) = bench.connect(ONE);
    assert_eq!(bench.send(&stream, b"all"), Sent::Bytes(3));
    bench.io.shutdown_send(&stream);
    bench.settle();
    let mut said = Vec::new();
    client.read_to_end(&mut said).unwrap();
    assert_eq!(said, b"all");
    client.write_all(b"still heard").unwrap();
    bench.readable(ONE);
    assert_eq!(bench.collect(&stream, ONE, 11, 100), b"still heard");
    bench.io.close(stream);
}

fn a_waker_of_another_thread_ends_a_wait_each_time<B: Kind>() {
    let mut bench = Bench::<B>::new(4);
    for _ in 0..20 {
        let waker = bench.waker.clone();
        let begun = Instant::now();
        let ringer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            waker.wake();
        });
        while begun.elapsed() < Duration::from_millis(5) {
            bench.io.wait(Some(PATIENCE), &mut bench.events).unwrap();
        }
        assert!(begun.elapsed() < PATIENCE / 2, "a ring was not heard");
        ringer.join().unwrap();
        // A ring while no thread waits ends the next wait.
        bench.settle();
        bench.waker.wake();
        let begun = Instant::now();
        bench.io.wait(Some(PATIENCE), &mut bench.events).unwrap();
        assert!(begun.elapsed() < PATIENCE / 2, "a ring before the wait was not heard");
    }
}

fn a_wait_without_events_ends_in_time<B: Kind>() {
    let mut bench = Bench::<B>::new(4);
    bench.settle();
    let begun = Instant::now();
    bench.io.wait(Some(Duration::from_millis(50)), &mut bench.events).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(45) && bench.events.is_empty(), "{:?}", begun.elapsed());
    bench.io.wait(Some(Duration::ZERO), &mut bench.events).unwrap();
    assert!(begun.elapsed() < PATIENCE);
}

fn a_list_that_is_too_short_loses_no_event<B: Kind>() {
    let mut bench = Bench::<B>::new(100);
    let mut pairs: Vec<_> = (0..100).map(|index| bench.connect(Token::new(index, 0))).collect();
    for (client, _) in &mut pairs {
        client.write_all(b"x").unwrap();
    }
    let mut seen = std::collections::HashSet::new();
    let begun = Instant::now();
    while seen.len() < 100 {
        bench.io.wait(TICK, &mut bench.events).unwrap();
        assert!(bench.events.len() <= 64 && bench.events.capacity() == 64);
        seen.extend(bench.events.iter().map(|event| event.token));
        assert!(begun.elapsed() < PATIENCE, "{} of 100", seen.len());
    }
    pairs.into_iter().for_each(|(_, stream)| bench.io.close(stream));
}

fn a_closed_streams_late_bytes_are_not_its_successors<B: Kind>() {
    let mut bench = Bench::<B>::new(1);
    for life in 0..200 {
        let (mut client, stream) = bench.connect(Token::new(0, life));
        client.write_all(&life.to_le_bytes()).unwrap();
        let got = bench.collect(&stream, Token::new(0, life), 4, 64);
        assert_eq!(got, life.to_le_bytes(), "life {life}");
        // These bytes arrive around the instant of the close, too late to be read.
        client.write_all(&pattern(3000, 9)).unwrap();
        assert_eq!(bench.send(&stream, b"y"), Sent::Bytes(1));
        bench.io.close(stream);
        if life % 3 == 0 {
            bench.settle();
        }
        assert!(bench.events.iter().all(|event| event.token.generation() >= life), "an event of an earlier life");
        bench.events.clear();
    }
}

fn long_values_and_short_ones_in_turn_lose_nothing<B: Kind>() {
    let mut bench = Bench::<B>::new(4);
    let (client, stream) = bench.connect(ONE);
    // Each round sends one long value and then short ones, and waits for the answer to each.
    let (rounds, long, short) = (6, 3 << 20, 700);
    let talker = std::thread::spawn(move || {
        let mut client = client;
        for round in 0..rounds {
            client.write_all(&pattern(long, round)).unwrap();
            client.read_exact(&mut [0]).unwrap();
            for number in 0..20 {
                client.write_all(&pattern(short, round + number)).unwrap();
                client.read_exact(&mut [0]).unwrap();
            }
        }
        client
    });
    for round in 0..rounds {
        assert!(bench.collect(&stream, ONE, long, 200 << 10) == pattern(long, round), "round {round}");
        assert_eq!(bench.send(&stream, b"."), Sent::Bytes(1));
        for number in 0..20 {
            assert!(bench.collect(&stream, ONE, short, 16 << 10) == pattern(short, round + number), "{round}.{number}");
            assert_eq!(bench.send(&stream, b"."), Sent::Bytes(1));
        }
    }
    bench.settle();
    talker.join().unwrap();
    bench.io.check_detours(|detours| detours.bulk > 0 && detours.received_by_call > 0);
    bench.io.close(stream);
}

fn a_stream_that_is_not_read_holds_little_and_loses_nothing<B: Kind>() {
    let mut bench = Bench::<B>::new(4);
    let (mut client, stream) = bench.connect(ONE);
    let all = pattern(30 * INBOUND_BYTES, 2);
    for piece in all.chunks(INBOUND_BYTES) {
        client.write_all(piece).unwrap();
        bench.io.wait(Some(Duration::from_millis(2)), &mut bench.events).unwrap();
    }
    bench.io.check_detours(|detours| detours.unread > 0 && detours.buffers_out == 0);
    assert!(bench.collect(&stream, ONE, all.len(), 10_000) == all, "bytes were lost or moved");
    client.write_all(b"and on").unwrap();
    assert_eq!(bench.collect(&stream, ONE, 6, 10), b"and on");
    bench.io.close(stream);
}

/// The owner of a stream may rest without reading. It must learn that the peer has left in each way of receiving: with
/// a long buffer, with as many unread buffers as a stream may hold, and while buffers are scarce.
fn end_of_an_unread_stream_is_reported<B: Kind>() {
    for is_reset in [false, true] {
        let mut bench = Bench::<B>::new(100);
        let leave = |client: TcpStream| {
            if is_reset {
                rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            }
        };
        // With a long buffer.
        let (mut client, stream) = bench.connect(ONE);
        client.write_all(b"request").unwrap();
        assert_eq!(bench.collect(&stream, ONE, 7, 100_000), b"request");
        for _ in 0..2 {
            client.write_all(b"unread").unwrap();
            assert!(!bench.readable(ONE).hangup, "{}: the peer is there", B::NAME);
            assert_eq!(bench.collect(&stream, ONE, 6, 100_000), b"unread");
        }
        client.write_all(b"unread").unwrap();
        assert!(!bench.readable(ONE).hangup, "{}: the peer is there", B::NAME);
        leave(client);
        bench.until("hangup after a long buffer", |event| event.token == ONE && event.hangup);
        bench.io.close(stream);
        // With all the unread buffers of a stream.
        let (mut client, stream) = bench.connect(TWO);
        for piece in pattern(2 * usize::from(HELD_MAX) * INBOUND_BYTES, 2).chunks(INBOUND_BYTES) {
            client.write_all(piece).unwrap();
            bench.io.wait(Some(Duration::from_millis(2)), &mut bench.events).unwrap();
        }
        leave(client);
        bench.until("hangup of an unread stream", |event| event.token == TWO && event.hangup);
        bench.io.close(stream);
        // While other streams hold the buffers.
        let mut held: Vec<_> = (0..90).map(|index| bench.connect(Token::new(10 + index, 0))).collect();
        for _ in 0..usize::from(HELD_MAX) {
            for (client, _) in &mut held {
                client.write_all(&pattern(INBOUND_BYTES, 5)).unwrap();
            }
            bench.io.wait(Some(Duration::from_millis(2)), &mut bench.events).unwrap();
        }
        for index in [3, 4] {
            let (mut client, stream) = bench.connect(Token::new(index, 2));
            client.write_all(b"unread").unwrap();
            bench.until("bytes", |event| event.token == Token::new(index, 2) && event.readable);
            held.push((client, stream));
        }
        for (at, (client, stream)) in held.into_iter().enumerate().rev() {
            let token = if at < 90 { Token::new(10 + at as u32, 0) } else { Token::new(at as u32 - 87, 2) };
            leave(client);
            bench.until("hangup while buffers are scarce", |event| event.token == token && event.hangup);
            bench.io.close(stream);
        }
    }
}

fn one_stream_that_is_not_read_starves_no_other<B: Kind>() {
    let mut bench = Bench::<B>::new(100);
    let flooders: Vec<_> = (0..8).map(|index| bench.connect(Token::new(10 + index, 0))).collect();
    let mut held = Vec::new();
    for (client, stream) in flooders {
        client.set_nonblocking(true).unwrap();
        held.push((client, stream, 0));
    }
    let piece = pattern(INBOUND_BYTES * 4, 5);
    let (mut client, stream) = bench.connect(ONE);
    let turns = 2 * INBOUND_MAX / usize::from(HELD_MAX);
    for round in 0..turns {
        for (flooder, _, written) in &mut held {
            if let Ok(bytes) = flooder.write(&piece[*written % piece.len()..]) {
                *written += bytes;
            }
        }
        let bytes = pattern(500, round as u64);
        client.write_all(&bytes).unwrap();
        assert_eq!(bench.collect(&stream, ONE, 500, 600), bytes, "round {round}");
    }
    // The bytes that the owner left unread are still complete.
    for (index, (_, stream, written)) in held.into_iter().enumerate() {
        assert!(written > 100_000, "only {written} bytes were written");
        let got = bench.collect(&stream, Token::new(10 + index as u32, 0), written, 10_000);
        assert!(got.chunks(piece.len()).all(|chunk| *chunk == piece[..chunk.len()]), "bytes were lost or moved");
        bench.io.close(stream);
    }
    bench.io.check_detours(|detours| detours.buffers_out > 0 && detours.received_by_call > 0);
    bench.io.close(stream);
}

fn many_peers_that_do_not_read_starve_no_other<B: Kind>() {
    let count = OUTBOUND_MAX as u32 + 10;
    let mut bench = Bench::<B>::new(count as usize + 1);
    let mut slow: Vec<_> = (0..count).map(|index| bench.connect(Token::new(10 + index, 0))).collect();
    let piece = pattern(OUTBOUND_BYTES, 5);
    let mut taken: Vec<usize> = slow.iter().map(|(_, stream)| fill(&mut bench, stream, &piece)).collect();
    let (mut client, stream) = bench.connect(ONE);
    for round in 0..50 {
        let bytes = pattern(1000, round);
        assert_eq!(bench.send(&stream, &bytes), Sent::Bytes(1000), "round {round}");
        bench.settle();
        let mut got = vec![0; 1000];
        client.read_exact(&mut got).unwrap();
        assert_eq!(got, bytes);
    }
    bench.io.check_detours(|detours| detours.stalled >= OUTBOUND_MAX as u64 && detours.sent_by_call >= 50);
    // Peers that start to read receive everything that was taken over.
    for ((client, stream), taken) in slow.drain(..5).zip(&mut taken) {
        let mut reader = client.try_clone().unwrap();
        let count = *taken;
        let reading = std::thread::spawn(move || {
            let mut got = vec![0; count];
            reader.read_exact(&mut got).unwrap();
            got
        });
        let begun = Instant::now();
        while !reading.is_finished() {
            bench.io.wait(TICK, &mut bench.events).unwrap();
            assert!(begun.elapsed() < PATIENCE, "bytes are missing");
        }
        let got = reading.join().unwrap();
        assert!(got.chunks(piece.len()).all(|chunk| *chunk == piece[..chunk.len()]));
        bench.io.close(stream);
    }
    // If a stream were dropped without a close, its descriptor number, with bytes still queued for it, would go to the
    // next connection of the process, in another test.
    slow.into_iter().for_each(|(_, stream)| bench.io.close(stream));
    bench.io.close(stream);
}

/// Only one thread's allocations are counted at a time.
static COUNTING: Mutex<()> = Mutex::new(());

fn a_warm_reactor_allocates_nothing<B: Kind>() {
    let _alone = COUNTING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut bench = Bench::<B>::new(16);
    let (client, stream) = bench.connect(ONE);
    let (mut other, idle) = bench.connect(TWO);
    let count = 300;
    let talker = std::thread::spawn(move || {
        let (mut client, mut buffer) = (client, vec![0; 40_000]);
        for round in 0..count {
            let bytes = &pattern(1 + round * 130, 0);
            client.write_all(bytes).unwrap();
            client.read_exact(&mut buffer[..bytes.len()]).unwrap();
            assert_eq!(&buffer[..bytes.len()], bytes);
        }
        client
    });
    let mut buffer = vec![0; 64 << 10];
    let total: usize = (0..count).map(|round| 1 + round * 130).sum();
    let mut echoed = 0;
    allocation::count_this_thread();
    while echoed < total {
        bench.io.wait(TICK, &mut bench.events).unwrap();
        while let Received::Bytes(bytes) = bench.io.receive(&stream, &mut buffer) {
            let mut rest = &buffer[..bytes];
            while !rest.is_empty() {
                match bench.io.send(&stream, &[IoSlice::new(rest)]) {
                    Sent::Bytes(taken) => rest = &rest[taken..],
                    _ => bench.io.wait(TICK, &mut bench.events).unwrap(),
                }
            }
            echoed += bytes;
        }
    }
    bench.settle();
    bench.io.close(idle);
    bench.settle();
    let calls = allocation::take_count();
    assert_eq!(calls, Some(0), "allocator calls");
    assert_eq!(other.read(&mut buffer).unwrap(), 0, "the close has arrived");
    talker.join().unwrap();
    bench.io.close(stream);
}

fn descriptors_are_closed_with_the_streams<B: Kind>() {
    let mut bench = Bench::<B>::new(8);
    let mut clients = Vec::new();
    for round in 0..20 {
        let (client, stream) = bench.connect(Token::new(0, round));
        bench.io.close(stream);
        bench.settle();
        clients.push(client);
    }
    for mut client in clients {
        let mut said = Vec::new();
        client.read_to_end(&mut said).unwrap();
        assert!(said.is_empty());
    }
}

fn sends_under_way_when_the_reactor_goes_are_not_lost<B: Kind>() {
    let mut bench = Bench::<B>::new(8);
    let (mut client, stream) = bench.connect(ONE);
    let (mut silent, other) = bench.connect(TWO);
    assert_eq!(bench.send(&stream, b"the end"), Sent::Bytes(7));
    bench.io.close(stream);
    bench.io.close(other);
    drop(bench);
    let mut said = Vec::new();
    client.read_to_end(&mut said).unwrap();
    assert_eq!(said, b"the end");
    assert_eq!(silent.read(&mut [0; 10]).unwrap(), 0);
}

/// One connection of the random test: the client has written `written` bytes of its pattern and read `read` back.
struct Echo {
    client: TcpStream,
    stream: AcceptedStream,
    token: Token,
    written: usize,
    read: usize,
    /// Number of bytes that the server has received. `held` contains those that the server has not sent back yet.
    received: usize,
    held: Vec<u8>,
    readable: bool,
    blocked: bool,
}

/// Returns byte `at` of connection `token`'s stream.
fn byte_of(token: Token, at: usize) -> u8 {
    ((at as u64 + token.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

impl Echo {
    fn new<B: Kind>(bench: &mut Bench<B>, token: Token) -> Self {
        let (client, stream) = bench.connect(token);
        client.set_nonblocking(true).unwrap();
        Self {
            client,
            stream,
            token,
            written: 0,
            read: 0,
            received: 0,
            held: Vec::new(),
            readable: true,
            blocked: false,
        }
    }

    fn write(&mut self, bytes: usize) {
        let piece: Vec<u8> = (0..bytes).map(|i| byte_of(self.token, self.written + i)).collect();
        self.written += self.client.write(&piece).unwrap_or(0);
    }

    fn read(&mut self, bytes: usize) {
        let mut buffer = vec![0; bytes];
        let count = self.client.read(&mut buffer).unwrap_or(0);
        for (i, byte) in buffer[..count].iter().enumerate() {
            assert_eq!(*byte, byte_of(self.token, self.read + i), "byte {} of {:?}", self.read + i, self.token);
        }
        self.read += count;
    }

    /// Does one receive and one send of the server.
    fn serve<B: Kind>(&mut self, io: &mut B, room: usize) {
        if self.readable && self.held.len() < 100_000 {
            let mut buffer = vec![0; room];
            match io.receive(&self.stream, &mut buffer) {
                Received::Bytes(bytes) => {
                    for (i, byte) in buffer[..bytes].iter().enumerate() {
                        let at = self.received + i;
                        assert_eq!(*byte, byte_of(self.token, at), "received byte {at} of {:?}", self.token);
                    }
                    self.received += bytes;
                    self.held.extend_from_slice(&buffer[..bytes]);
                    self.readable = bytes == room;
                }
                Received::Blocked => self.readable = false,
                other => panic!("{other:?}"),
            }
        }
        if !self.blocked && !self.held.is_empty() {
            let (front, back) = self.held.split_at(self.held.len() / 2);
            match io.send(&self.stream, &[IoSlice::new(front), IoSlice::new(back)]) {
                Sent::Bytes(bytes) => drop(self.held.drain(..bytes)),
                Sent::Blocked => {
                    self.blocked = true;
                    io.want_writable(&self.stream, self.token, true);
                }
                Sent::Reset => panic!("a reset"),
            }
        }
    }
}

fn random_echoes_with_pauses_and_closes_keep_every_byte<B: Kind>() {
    for seed in 0..2 {
        let mut prng = Prng::new(seed);
        let mut bench = Bench::<B>::new(24);
        let mut echoes: Vec<Echo> = (0..24).map(|index| Echo::new(&mut bench, Token::new(index, 0))).collect();
        let mut whole = 0;
        for step in 0..4000 {
            let last = step >= 3500;
            let echo = &mut echoes[prng.below(24) as usize];
            // Some connections are only written to for a long time, so that windows and buffers fill.
            if !last && prng.chance(3, 4) {
                let longest = if prng.chance(1, 4) { 200_000 } else { 2000 };
                echo.write(1 + prng.below(longest) as usize);
            }
            if last || (!echo.token.index().is_multiple_of(4) && prng.chance(1, 2)) {
                echo.read(1 + prng.below(300_000) as usize);
            }
            if !last && prng.chance(1, 40) {
                let next = Token::new(echo.token.index(), echo.token.generation() + 1);
                let old = std::mem::replace(echo, Echo::new(&mut bench, next));
                whole += old.read;
                bench.io.close(old.stream);
            }
            if last || prng.chance(2, 3) {
                bench.io.wait(Some(Duration::ZERO), &mut bench.events).unwrap();
                for event in &bench.events {
                    let echo = &mut echoes[event.token.index() as usize];
                    assert_eq!(event.token, echo.token, "seed {seed}: an event of an earlier life");
                    echo.readable |= event.readable;
                    echo.blocked &= !event.writable;
                }
                for echo in &mut echoes {
                    echo.serve(&mut bench.io, 1 + prng.below(40_000) as usize);
                }
                bench.io.submit();
            }
        }
        finish(&mut bench, &mut echoes, seed);
        assert!(
            whole + echoes.iter().map(|echo| echo.read).sum::<usize>() > 1_000_000,
            "seed {seed}: nothing was said"
        );
        echoes.into_iter().for_each(|echo| bench.io.close(echo.stream));
    }
}

/// Waits until everything that was written has come back.
fn finish<B: Kind>(bench: &mut Bench<B>, echoes: &mut [Echo], seed: u64) {
    let begun = Instant::now();
    while echoes.iter().any(|echo| echo.read < echo.written) {
        bench.io.wait(Some(Duration::from_millis(1)), &mut bench.events).unwrap();
        for event in &bench.events {
            let echo = &mut echoes[event.token.index() as usize];
            echo.readable |= event.readable;
            echo.blocked &= !event.writable;
        }
        for echo in echoes.iter_mut() {
            echo.serve(&mut bench.io, 50_000);
            echo.read(300_000);
        }
        assert!(begun.elapsed() < PATIENCE, "{}, seed {seed}: bytes are missing", B::NAME);
    }
}
