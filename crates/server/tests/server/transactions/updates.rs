//! Updates of one number by two clients of a server with two workers. One client increments it, with 500 requests in
//! flight. The other reads the number, and replaces it by a much larger number if it is unchanged. The final number
//! must be the sum of all acknowledged updates.
//!
//! `GANNET_UPDATES_MS` sets the duration of each kind of swap.

use super::{both, start};
use crate::common::redis::{Replies, resp_addr};
use crate::common::{Client, tcp, wait_until};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The amount that a swap adds: far more than the sum of all increments.
const SWAP: u64 = 1_000_000_000_000;
/// The number of requests that the incrementing client sends at once.
const DEPTH: usize = 500;

fn run_ms() -> u64 {
    std::env::var("GANNET_UPDATES_MS").map_or(600, |text| text.parse().expect("GANNET_UPDATES_MS is a number"))
}

/// Sends increments until `stop` is set. Counts the acknowledged increments.
fn count(addr: SocketAddr, request: &[u8], stop: &AtomicBool, acknowledged: &AtomicU64) {
    let mut client = Client::connect(addr);
    let mut replies = BufReader::new(client.stream.try_clone().expect("a second handle"));
    let (batch, mut line) = (request.repeat(DEPTH), String::new());
    while !stop.load(Relaxed) {
        client.send(&batch);
        for _ in 0..DEPTH {
            line.clear();
            replies.read_line(&mut line).expect("a reply");
            let number = line.trim_end().trim_start_matches(':');
            assert!(number.parse::<u64>().is_ok(), "{line:?} is no number");
        }
        acknowledged.fetch_add(DEPTH as u64, Relaxed);
    }
}

/// A memcached client that reads replies line by line.
struct Lines {
    client: Client,
    replies: BufReader<TcpStream>,
}

impl Lines {
    fn connect(addr: SocketAddr) -> Self {
        let client = Client::connect(addr);
        let replies = BufReader::new(client.stream.try_clone().expect("a second handle"));
        Self { client, replies }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.replies.read_line(&mut line).expect("a reply");
        line.trim_end().to_owned()
    }

    fn ask(&mut self, request: &str) -> String {
        self.client.send(request.as_bytes());
        self.line()
    }

    /// Reads a value of `len` bytes, which the previous line announced, as a number.
    fn value(&mut self, len: &str) -> u64 {
        let mut bytes = vec![0; len.parse::<usize>().expect("a length") + 2];
        self.replies.read_exact(&mut bytes).expect("a value");
        std::str::from_utf8(&bytes).expect("text").trim_end().parse().expect("a number")
    }
}

/// An attempt to add [`SWAP`]. Returns true if the new number was stored.
type Swap = Box<dyn FnMut() -> bool + Send>;

fn by_gets_and_cas(memcached: SocketAddr, _: SocketAddr) -> Swap {
    let mut lines = Lines::connect(memcached);
    Box::new(move || {
        let head = lines.ask("gets n\r\n");
        let words: Vec<&str> = head.split(' ').collect();
        let (value, token) = (lines.value(words[3]), words[4]);
        assert_eq!(lines.line(), "END");
        let next = (value + SWAP).to_string();
        lines.ask(&format!("cas n 0 0 {} {token}\r\n{next}\r\n", next.len())) == "STORED"
    })
}

fn by_gats_and_cas(memcached: SocketAddr, _: SocketAddr) -> Swap {
    let (mut lines, mut guard) = (Lines::connect(memcached), 0);
    Box::new(move || {
        guard += 1;
        let head = lines.ask(&format!("gats {} n\r\n", 1000 + guard % 7));
        let words: Vec<&str> = head.split(' ').collect();
        let (value, token) = (lines.value(words[3]), words[4]);
        assert_eq!(lines.line(), "END");
        let next = (value + SWAP).to_string();
        lines.ask(&format!("cas n 0 0 {} {token}\r\n{next}\r\n", next.len())) == "STORED"
    })
}

fn by_meta(memcached: SocketAddr, _: SocketAddr) -> Swap {
    let mut lines = Lines::connect(memcached);
    Box::new(move || {
        let head = lines.ask("mg n v c\r\n");
        let words: Vec<&str> = head.split(' ').collect();
        let (value, token) = (lines.value(words[1]), &words[2][1..]);
        let next = (value + SWAP).to_string();
        lines.ask(&format!("ms n {} C{token}\r\n{next}\r\n", next.len())) == "HD"
    })
}

/// Swaps with a token from `me`. The token is read before the value, so that it is never newer than the value.
fn by_meta_debug(memcached: SocketAddr, _: SocketAddr) -> Swap {
    let mut lines = Lines::connect(memcached);
    Box::new(move || {
        let facts = lines.ask("me n\r\n");
        let token = facts.split(' ').find_map(|fact| fact.strip_prefix("cas=")).expect("a token").to_owned();
        let head = lines.ask("get n\r\n");
        let value = lines.value(head.rsplit(' ').next().expect("a length"));
        assert_eq!(lines.line(), "END");
        let next = (value + SWAP).to_string();
        lines.ask(&format!("cas n 0 0 {} {token}\r\n{next}\r\n", next.len())) == "STORED"
    })
}

/// Swaps with a meta arithmetic command that compares the token itself.
fn by_meta_arithmetic(memcached: SocketAddr, _: SocketAddr) -> Swap {
    let mut lines = Lines::connect(memcached);
    Box::new(move || {
        let head = lines.ask("mg n v c\r\n");
        let words: Vec<&str> = head.split(' ').collect();
        let (value, token) = (lines.value(words[1]), words[2][1..].to_owned());
        let reply = lines.ask(&format!("ma n C{token} D{SWAP} v\r\n"));
        let Some(len) = reply.strip_prefix("VA ") else {
            assert_eq!(reply, "EX");
            return false;
        };
        let now = lines.value(len);
        assert_eq!(now, value + SWAP, "added to another number than the one that was compared");
        true
    })
}

fn number(reply: &[u8]) -> u64 {
    let text = std::str::from_utf8(reply).expect("text");
    text.trim_end().rsplit("\r\n").next().expect("a line").parse().unwrap_or_else(|_| panic!("{text:?}"))
}

fn by_watch(_: SocketAddr, resp: SocketAddr) -> Swap {
    let mut replies = Replies::connect(resp);
    Box::new(move || {
        assert_eq!(replies.ask(&[b"WATCH", b"n"]), b"+OK\r\n");
        let next = (number(&replies.ask(&[b"GET", b"n"])) + SWAP).to_string();
        assert_eq!(replies.ask(&[b"MULTI"]), b"+OK\r\n");
        assert_eq!(replies.ask(&[b"SET", b"n", next.as_bytes()]), b"+QUEUED\r\n");
        replies.ask(&[b"EXEC"]) == b"*1\r\n+OK\r\n"
    })
}

fn by_tokens_of_resp(_: SocketAddr, resp: SocketAddr) -> Swap {
    let mut replies = Replies::connect(resp);
    Box::new(move || {
        let reply = String::from_utf8(replies.ask(&[b"CAS.GET", b"n"])).expect("text");
        let lines: Vec<&str> = reply.split("\r\n").collect();
        let next = (lines[2].parse::<u64>().expect("a number") + SWAP).to_string();
        replies.ask(&[b"CAS.SET", b"n", lines[4].as_bytes(), next.as_bytes()]) == b"+OK\r\n"
    })
}

/// Runs swaps concurrently with a client that increments over memcached's protocol or RESP, and checks the sum.
fn acknowledged_adds_up(swap_by: fn(SocketAddr, SocketAddr) -> Swap, counts_by_resp: bool) {
    let running = start(both(2));
    let (memcached, resp) = (tcp(&running), resp_addr(&running));
    assert_eq!(Replies::connect(resp).ask(&[b"SET", b"n", b"0"]), b"+OK\r\n");
    let (addr, request): (_, &[u8]) =
        if counts_by_resp { (resp, b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n") } else { (memcached, b"incr n 1\r\n") };
    let stop = AtomicBool::new(false);
    let [counted, swapped, tried] = [const { AtomicU64::new(0) }; 3];
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| count(addr, request, &stop, &counted));
        let swapping = scope.spawn(|| {
            let mut swap = swap_by(memcached, resp);
            while !stop.load(Relaxed) {
                swapped.fetch_add(u64::from(swap()), Relaxed);
                tried.fetch_add(1, Relaxed);
            }
        });
        std::thread::sleep(Duration::from_millis(run_ms()));
        // A busy machine needs longer for as many as prove anything.
        wait_until("enough updates", || {
            let is_enough = counted.load(Relaxed) > 1000 && tried.load(Relaxed) > 20;
            is_enough || counting.is_finished() || swapping.is_finished()
        });
        stop.store(true, Relaxed);
    });
    let [counted, swapped, tried] = [counted, swapped, tried].map(AtomicU64::into_inner);
    let last = number(&Replies::connect(resp).ask(&[b"GET", b"n"]));
    println!("{counted} counted, {swapped} of {tried} swaps stored");
    let lost = (counted + swapped * SWAP) as i128 - last as i128;
    assert_eq!(lost, 0, "{counted} counted and {swapped} of {tried} swaps make another number than {last}");
    running.stop();
}

#[test]
fn no_acknowledged_update_is_lost_to_gets_and_cas() {
    acknowledged_adds_up(by_gets_and_cas, false);
}

#[test]
fn no_acknowledged_update_is_lost_to_gats_and_cas() {
    acknowledged_adds_up(by_gats_and_cas, false);
}

#[test]
fn no_acknowledged_update_is_lost_to_a_meta_get_and_a_meta_set() {
    acknowledged_adds_up(by_meta, false);
}

#[test]
fn no_acknowledged_update_is_lost_to_a_token_that_me_shows() {
    acknowledged_adds_up(by_meta_debug, false);
}

#[test]
fn no_acknowledged_update_is_lost_to_a_meta_get_and_arithmetic() {
    acknowledged_adds_up(by_meta_arithmetic, false);
}

#[test]
fn no_acknowledged_update_is_lost_to_a_watched_transaction() {
    acknowledged_adds_up(by_watch, true);
}

#[test]
fn no_acknowledged_update_is_lost_to_tokens_of_resp() {
    acknowledged_adds_up(by_tokens_of_resp, true);
}
