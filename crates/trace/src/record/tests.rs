use super::*;
use crate::format::{Header, RequestOutcome, Secret, Selection, TraceEntry, TraceReader, Verb};
use link::Address;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SECRET: Secret = Secret::new([7; 16]);
const PATIENCE: Duration = Duration::from_secs(60);

fn pen(at_us: u64) -> Pen {
    Pen { secret: SECRET, at_us, now_s: 1_700_000_000, connection: 3 }
}

/// Returns the recording of `turns`, pairs of a client's and a server's bytes, each passed in pieces of `step` bytes.
fn recorded(turns: &[(&[u8], &[u8])], step: usize) -> (Vec<TraceEntry>, Seen) {
    let (mut follower, mut ledger, mut seen) = (Follower::default(), Ledger::default(), Seen::default());
    for (at, (asked, answered)) in turns.iter().enumerate() {
        asked.chunks(step).for_each(|piece| follower.asked(piece, &pen(at as u64), &mut ledger, &mut seen));
        answered.chunks(step).for_each(|piece| follower.answered(piece, &pen(at as u64), &mut ledger, &mut seen));
    }
    follower.closed(&mut ledger);
    let mut entries = Vec::new();
    ledger.close(|entry| entries.push(*entry));
    (entries, seen)
}

/// An entry's verb, key, value length in bytes, time to live in seconds, and outcome.
type Line<'k> = (Verb, &'k str, u32, u32, RequestOutcome);

fn assert_lines(turns: &[(&[u8], &[u8])], wanted: &[Line<'_>], others: u64) {
    for step in [1, 3, 1 << 20] {
        let (entries, seen) = recorded(turns, step);
        let got: Vec<_> =
            entries.iter().map(|e| (e.verb, e.key, e.key_bytes, e.value_bytes, e.ttl_s, e.outcome)).collect();
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(verb, key, bytes, ttl_s, outcome)| {
                (*verb, SECRET.hash(key.as_bytes()), key.len() as u32, *bytes, *ttl_s, *outcome)
            })
            .collect();
        assert_eq!(got, wanted, "in pieces of {step} bytes");
        assert_eq!((seen.other_requests, seen.unfollowed), (others, 0), "in pieces of {step} bytes");
    }
}

use RequestOutcome::{Error, Hit, Miss, Unknown};

#[test]
fn classic_commands_are_recorded_with_their_outcomes() {
    assert_lines(
        &[
            (b"set a 0 60 3\r\nxyz\r\n", b"STORED\r\n"),
            (b"get a b c\r\n", b"VALUE a 0 3\r\nxyz\r\nVALUE c 0 5\r\nEND\r\n\r\nEND\r\n"),
            (b"add a 0 0 1\r\n1\r\nreplace z 0 -1 2\r\nab\r\n", b"NOT_STORED\r\nNOT_STORED\r\n"),
            (b"gets c\r\ncas c 0 2592001 4 9\r\nabcd\r\n", b"VALUE c 0 5 9\r\nvalue\r\nEND\r\nEXISTS\r\n"),
            (b"append a 0 0 2 noreply\r\nzz\r\nprepend a 0 0 0\r\n\r\n", b"STORED\r\n"),
            (
                b"incr n 5\r\ndecr n 1\r\n",
                b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\nNOT_FOUND\r\n",
            ),
            (
                b"touch a 30\r\ngat 1700000100 a\r\ndelete a\r\ndelete a\r\n",
                b"TOUCHED\r\nEND\r\nDELETED\r\nNOT_FOUND\r\n",
            ),
            (b"version\r\nstats\r\nflush_all\r\nfancy new thing\r\n", b"VERSION 1\r\nSTAT a 1\r\nEND\r\nOK\r\nOK\r\n"),
            (b"get last\r\n", b""),
        ],
        &[
            (Verb::Set, "a", 3, 60, Hit),
            (Verb::Get, "a", 3, 0, Hit),
            (Verb::Get, "b", 0, 0, Miss),
            (Verb::Get, "c", 5, 0, Hit),
            (Verb::Add, "a", 1, 0, Miss),
            (Verb::Replace, "z", 2, 1, Miss),
            (Verb::Gets, "c", 5, 0, Hit),
            (Verb::Cas, "c", 4, 1, Miss),
            (Verb::Append, "a", 2, 0, Unknown),
            (Verb::Prepend, "a", 0, 0, Hit),
            (Verb::Incr, "n", 0, 0, Error),
            (Verb::Decr, "n", 0, 0, Miss),
            (Verb::Touch, "a", 0, 30, Hit),
            (Verb::Gat, "a", 0, 100, Miss),
            (Verb::Delete, "a", 0, 0, Hit),
            (Verb::Delete, "a", 0, 0, Miss),
            (Verb::Get, "last", 0, 0, Unknown),
        ],
        4,
    );
    let (entries, _) = recorded(&[(b"get a b\r\nget c\r\n", b"END\r\nEND\r\n")], 5);
    assert_eq!(entries.iter().map(|entry| entry.joined).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn quiet_meta_commands_are_matched_by_their_missing_replies() {
    assert_lines(
        &[
            (b"mg a v\r\nmg b c v T60\r\nmg YmluIGtleQ== b v\r\n", b"VA 2\r\nhi\r\nEN\r\nVA 0 b\r\n\r\n"),
            (b"mg a v k q\r\nmg b v k q\r\nmg c v k q\r\nmn\r\n", b"VA 1 kb\r\nx\r\nMN\r\n"),
            (b"mg a v O1 q\r\nmg a v O2 q\r\nmn\r\n", b"VA 3 O2\r\nxyz\r\nMN\r\n"),
            (b"ms a 2 T9 q\r\nhi\r\nms b 1 ME q\r\nx\r\nmd c q\r\nget a\r\n", b"NS\r\nEND\r\n"),
            (b"ma n\r\nma n MD N30\r\nms a 1 C5\r\nx\r\nmd a\r\nme a\r\n", b"HD\r\nNF\r\nEX\r\nHD\r\nEN\r\n"),
        ],
        &[
            (Verb::Get, "a", 2, 0, Hit),
            (Verb::Gat, "b", 0, 60, Miss),
            (Verb::Get, "bin key", 0, 0, Hit),
            (Verb::Get, "a", 0, 0, Miss),
            (Verb::Get, "b", 1, 0, Hit),
            (Verb::Get, "c", 0, 0, Miss),
            (Verb::Get, "a", 0, 0, Miss),
            (Verb::Get, "a", 3, 0, Hit),
            // The reply does not show which of the two stores it belongs to.
            (Verb::Set, "a", 2, 9, Unknown),
            (Verb::Add, "b", 1, 0, Hit),
            (Verb::Delete, "c", 0, 0, Unknown),
            (Verb::Get, "a", 0, 0, Miss),
            (Verb::Incr, "n", 0, 0, Hit),
            (Verb::Decr, "n", 0, 0, Miss),
            (Verb::Cas, "a", 1, 0, Miss),
            (Verb::Delete, "a", 0, 0, Hit),
        ],
        3,
    );
}

#[test]
fn resp_commands_are_recorded_with_their_outcomes() {
    let big = vec![b'v'; 5000];
    let set = [b"*5\r\n$3\r\nset\r\n$1\r\na\r\n$5000\r\n".as_slice(), &big, b"\r\n$2\r\npx\r\n$4\r\n1500\r\n"].concat();
    assert_lines(
        &[
            (&set, b"+OK\r\n"),
            (b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n", b"$3\r\nxyz\r\n$-1\r\n"),
            (b"*4\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", b"*3\r\n$1\r\nx\r\n$-1\r\n$0\r\n\r\n"),
            (b"*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$2\r\n11\r\n$1\r\nb\r\n$3\r\n222\r\n", b"+OK\r\n"),
            (b"*4\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n$2\r\nNX\r\n", b"_\r\n"),
            (b"*4\r\n$5\r\nSETEX\r\n$1\r\na\r\n$2\r\n90\r\n$1\r\n1\r\n", b"-ERR no\r\n"),
            (b"*3\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$3\r\nDEL\r\n$1\r\nc\r\n", b":2\r\n:0\r\n"),
            (b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*3\r\n$6\r\nEXPIRE\r\n$1\r\nn\r\n$2\r\n60\r\n", b":1\r\n:0\r\n"),
            (b"*6\r\n$4\r\nHSET\r\n$1\r\nh\r\n$2\r\nf1\r\n$3\r\nabc\r\n$2\r\nf2\r\n$2\r\nde\r\n", b":0\r\n"),
            (b"*2\r\n$7\r\nHGETALL\r\n$1\r\nh\r\n", b"*4\r\n$2\r\nf1\r\n$3\r\nabc\r\n$2\r\nf2\r\n$2\r\nde\r\n"),
            (b"*3\r\n$4\r\nHGET\r\n$1\r\nh\r\n$1\r\nf\r\n", b">2\r\n+note\r\n$-1\r\n$-1\r\n"),
            (b"PING\r\n\r\nget a\r\n*1\r\n$4\r\nPING\r\n*0\r\n", b"+PONG\r\n$1\r\nx\r\n+PONG\r\n"),
            (
                b"*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nEXEC\r\n",
                b"+OK\r\n+QUEUED\r\n*1\r\n$1\r\nx\r\n",
            ),
        ],
        &[
            (Verb::Set, "a", 5000, 2, Hit),
            (Verb::Get, "a", 3, 0, Hit),
            (Verb::Get, "b", 0, 0, Miss),
            (Verb::Get, "a", 1, 0, Hit),
            (Verb::Get, "b", 0, 0, Miss),
            (Verb::Get, "c", 0, 0, Hit),
            (Verb::Set, "a", 2, 0, Hit),
            (Verb::Set, "b", 3, 0, Hit),
            (Verb::Add, "a", 1, 0, Miss),
            (Verb::Set, "a", 1, 90, Error),
            (Verb::Delete, "a", 0, 0, Hit),
            (Verb::Delete, "b", 0, 0, Hit),
            (Verb::Delete, "c", 0, 0, Miss),
            (Verb::Incr, "n", 0, 0, Hit),
            (Verb::Touch, "n", 0, 60, Miss),
            (Verb::HashSet, "h", 5, 0, Hit),
            (Verb::HashGetAll, "h", 5, 0, Hit),
            (Verb::HashGet, "h", 0, 0, Miss),
            (Verb::Get, "a", 1, 0, Hit),
            (Verb::Get, "a", 0, 0, Unknown),
        ],
        4,
    );
}

#[test]
fn unparsable_traffic_is_counted_once_and_earlier_entries_are_retained() {
    let cases: [&[(&[u8], &[u8])]; 5] = [
        // The binary protocol, a value without its line end, a reply without a request, a reply of another protocol,
        // and bytes that are not a request.
        &[(b"get a\r\n", b"END\r\n"), (b"\x80\x00\x00\x01", b"\x81\x00"), (b"get b\r\n", b"END\r\n")],
        &[(b"get a\r\n", b"END\r\n"), (b"set b 0 0 1\r\nxyz\r\n", b"")],
        &[(b"get a\r\n", b"END\r\nEND\r\n"), (b"get b\r\n", b"END\r\n")],
        &[(b"get a\r\n", b"END\r\n"), (b"get b\r\n", b"HTTP/1.1 400 Bad Request\r\n")],
        &[(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", b"$-1\r\n"), (b"*1\r\n:3\r\n", b"")],
    ];
    for (at, turns) in cases.iter().enumerate() {
        for step in [1, 1 << 20] {
            let (entries, seen) = recorded(turns, step);
            assert_eq!(seen.unfollowed, 1, "case {at}");
            assert_eq!((entries[0].key, entries[0].outcome), (SECRET.hash(b"a"), Miss), "case {at}");
            assert!(entries[1..].iter().all(|entry| entry.outcome == Unknown), "case {at}");
        }
    }
    // After `watch` the server sends unrequested lines, which is not an error.
    let (_, seen) = recorded(&[(b"watch\r\n", b"OK\r\nts=1.2 gid=1 type=item_get key=a\n")], 9);
    assert_eq!(seen.unfollowed, 0);
}

#[test]
fn arbitrary_bytes_cause_no_panic_and_no_request_stays_open() {
    let mut prng = base::prng::Prng::new(11);
    let words: [&[u8]; 16] = [
        b"get a b\r\n",
        b"set k 0 0 4\r\n",
        b"data\r\n",
        b"mg k v q\r\n",
        b"mn\r\n",
        b"VALUE a 0 2\r\n",
        b"END\r\n",
        b"*3\r\n",
        b"$3\r\n",
        b"GET\r\n",
        b"$-1\r\n",
        b"MN\r\n",
        b"STORED\r\n",
        b"+OK\r\n",
        b"\r\n",
        b"VA 2 ka\r\n",
    ];
    for _ in 0..400 {
        let (mut follower, mut ledger, mut seen) = (Follower::default(), Ledger::default(), Seen::default());
        for _ in 0..prng.below(300) {
            let word = words[prng.below(16) as usize];
            let cut = prng.below(word.len() as u64 + 1) as usize;
            let piece = if prng.chance(1, 8) { &word[cut..] } else { word };
            if prng.chance(1, 2) {
                follower.asked(piece, &pen(0), &mut ledger, &mut seen);
            } else {
                follower.answered(piece, &pen(0), &mut ledger, &mut seen);
            }
        }
        follower.closed(&mut ledger);
        ledger.drain(0, |_| {});
        let mut left = 0;
        ledger.close(|_| left += 1);
        assert_eq!(left, 0, "no request stays open after its connection has closed");
    }
}

#[test]
fn a_watch_stream_becomes_requests_and_a_stores_own_lookup_is_none() {
    let lines: [&[u8]; 9] = [
        b"ts=1700000000.5 gid=1 type=item_get key=a%20b status=not_found clsid=0 cfd=9 size=0",
        b"ts=1700000000.900000 gid=2 type=item_get key=a%20b status=not_found clsid=0 cfd=9 size=0",
        b"ts=1700000000.900010 gid=3 type=item_store key=a%20b status=stored cmd=set ttl=60 clsid=1 cfd=9 size=3",
        b"ts=1700000001.000007 gid=4 type=item_get key=c status=found clsid=1 cfd=8 size=5",
        b"skipped=12",
        b"ts=1700000001.47 gid=5 type=item_store key=d status=not_stored cmd=add ttl=0 clsid=1 cfd=8 size=1",
        b"ts=1700000002.000000 gid=6 type=deleted key=c cmd=delete clsid=1 size=5",
        b"ts=1700000002.000000 gid=7 type=eviction key=c fetch=yes ttl=1 la=3 clsid=1 size=5",
        b"",
    ];
    let (mut by, mut ledger, mut seen) = (WatchRecording::new(SECRET), Ledger::default(), Seen::default());
    for line in lines {
        assert!(watched(line, &mut by, &mut ledger, &mut seen), "{:?}", String::from_utf8_lossy(line));
    }
    by.close(&mut ledger);
    let mut got = Vec::new();
    ledger.close(|e| got.push((e.at_us, e.verb, e.key, e.value_bytes, e.ttl_s, e.outcome)));
    let key = |text: &str| SECRET.hash(text.as_bytes());
    let wanted = [
        (0, Verb::Get, key("a b"), 0, 0, Miss),
        (899_995, Verb::Set, key("a b"), 3, 60, Hit),
        (1_000_002, Verb::Get, key("c"), 5, 0, Hit),
        (1_000_042, Verb::Add, key("d"), 1, 0, Miss),
        (1_999_995, Verb::Delete, key("c"), 0, 0, Hit),
    ];
    assert_eq!(got, wanted);
    assert_eq!((seen.lost, seen.other_requests), (12, 1));
    assert!(!watched(b"VALUE a 0 1", &mut by, &mut ledger, &mut seen));
}

#[test]
fn lines_of_monitor_become_requests_whatever_is_quoted_in_them() {
    let lines: [&[u8]; 4] = [
        b"+1700000000.000000 [0 127.0.0.1:4711] \"SET\" \"a \\\"b\\\"\\x00\" \"va\\nue\" \"EX\" \"60\"",
        b"+1700000000.000150 [3 unix:/tmp/x[1] y] \"get\" \"a \\\"b\\\"\\x00\"",
        b"+1700000000.000200 [0 lua] \"PING\"",
        b"+1700000000.000300 [0 127.0.0.1:4711] \"DEL\" \"a\" \"b\"",
    ];
    let (mut by, mut ledger, mut seen) = (WatchRecording::new(SECRET), Ledger::default(), Seen::default());
    for line in lines {
        assert!(by.monitored(line, &mut ledger, &mut seen), "{:?}", String::from_utf8_lossy(line));
    }
    let mut got = Vec::new();
    ledger.close(|e| got.push((e.at_us, e.verb, e.key, e.value_bytes, e.ttl_s, e.joined)));
    let key = |bytes: &[u8]| SECRET.hash(bytes);
    let wanted = [
        (0, Verb::Set, key(b"a \"b\"\0"), 5, 60, false),
        (150, Verb::Get, key(b"a \"b\"\0"), 0, 0, false),
        (300, Verb::Delete, key(b"a"), 0, 0, false),
        (300, Verb::Delete, key(b"b"), 0, 0, true),
    ];
    assert_eq!((got.as_slice(), seen.other_requests), (&wanted[..], 1));
    for wrong in [b"+OK".as_slice(), b"+1700000000.5 [0 x] \"GET\"", b"+1700000000.000000 [0 x] \"GET"] {
        assert!(!by.monitored(wrong, &mut ledger, &mut seen), "{:?}", String::from_utf8_lossy(wrong));
    }
}

// --- the proxy, on sockets ---

/// A proxy in its own thread. Dropping this value ends the proxy.
struct Proxying {
    address: String,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<Seen>>,
    path: std::path::PathBuf,
}

impl Proxying {
    fn start(name: &str, server: &TcpListener, connections_max: usize) -> Self {
        let path = std::env::temp_dir().join(format!("gannet-record-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let tape = Tape::create(&path, &Header::default(), false).unwrap();
        let target: Address = server.local_addr().unwrap().to_string().parse().unwrap();
        let at = "127.0.0.1:0".parse().unwrap();
        let mut proxy = Proxy::listen(&at, &target, tape, SECRET, connections_max).unwrap();
        let (address, stop) = (proxy.address().unwrap(), Arc::new(AtomicBool::new(false)));
        let said = stop.clone();
        let thread = std::thread::spawn(move || {
            proxy.run(&said, &mut |_| {}).unwrap();
            proxy.end().unwrap()
        });
        Self { address, stop, thread: Some(thread), path }
    }

    fn client(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Ends the proxy. Returns its counts and the entries in its file.
    fn ended(mut self) -> (Seen, Vec<TraceEntry>) {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.thread.take().unwrap().join().unwrap();
        let mut reader = TraceReader::open(&Selection::new(&self.path)).unwrap();
        let entries: Vec<TraceEntry> = std::iter::from_fn(|| reader.entry().unwrap()).collect();
        assert_eq!(reader.summary(), Some(seen), "the file ends with the proxy's counts");
        (seen, entries)
    }
}

impl Drop for Proxying {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
fn bytes_pass_unchanged_both_ways_whatever_they_are_and_an_end_is_passed_on() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxying = Proxying::start("bytes", &server, 4);
    let mut prng = base::prng::Prng::new(2);
    let mut sent = vec![0; 3 << 20];
    prng.fill(&mut sent);
    let reversed: Vec<u8> = sent.iter().rev().copied().collect();
    let mut client = proxying.client();
    let (mut at_server, _) = server.accept().unwrap();
    at_server.set_read_timeout(Some(PATIENCE)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut got = Vec::new();
            // The server does not read for a while. The client has to wait, and no bytes are lost.
            std::thread::sleep(Duration::from_millis(50));
            at_server.read_to_end(&mut got).unwrap();
            assert!(got == sent, "the server received the client's bytes");
            at_server.write_all(&reversed).unwrap();
            at_server.shutdown(std::net::Shutdown::Write).unwrap();
        });
        client.write_all(&sent).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert!(got == reversed, "the client received the server's bytes");
    });
    let (seen, entries) = proxying.ended();
    assert_eq!((seen.connections, seen.unfollowed, entries.len()), (1, 1, 0));
}

#[test]
fn client_above_the_maximum_waits_until_another_disconnects() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxying = Proxying::start("maximum", &server, 1);
    let mut first = proxying.client();
    let (mut one, _) = server.accept().unwrap();
    let mut second = proxying.client();
    second.write_all(b"get b\r\n").unwrap();
    first.write_all(b"get a\r\n").unwrap();
    let mut got = [0; 7];
    one.read_exact(&mut got).unwrap();
    server.set_nonblocking(true).unwrap();
    assert!(server.accept().is_err(), "the second client is not forwarded while the first is connected");
    server.set_nonblocking(false).unwrap();
    drop((first, one));
    let (mut other, _) = server.accept().unwrap();
    other.read_exact(&mut got).unwrap();
    other.write_all(b"END\r\n").unwrap();
    let mut end = [0; 5];
    second.read_exact(&mut end).unwrap();
    drop((second, other));
    let (seen, entries) = proxying.ended();
    assert_eq!((seen.connections, entries.len()), (2, 2));
    assert_eq!((entries[0].key, entries[1].key), (SECRET.hash(b"a"), SECRET.hash(b"b")));
    assert_eq!(entries[1].outcome, Miss);
}

#[test]
fn unreachable_server_closes_the_client_connection() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxying = Proxying::start("refused", &server, 4);
    drop(server);
    let mut client = proxying.client();
    let mut got = Vec::new();
    // The client sees the end of the stream or a reset, because the server refused the connection.
    let _ = client.read_to_end(&mut got);
    assert!(got.is_empty());
    assert_eq!(proxying.ended().0.connections, 1);
}

#[test]
fn existing_trace_file_is_not_overwritten() {
    let path = std::env::temp_dir().join(format!("gannet-record-{}-there", std::process::id()));
    std::fs::write(&path, "kept").unwrap();
    let error = Tape::create(&path, &Header::default(), true).unwrap_err().to_string();
    assert!(error.contains("name another file") && std::fs::read(&path).unwrap() == b"kept", "{error}");
    std::fs::remove_file(&path).unwrap();
}
