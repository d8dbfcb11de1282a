//! Tests of `DUMP` and `RESTORE` of streams: they are exchanged with Debian's Redis in both directions.

use super::resp_collections::Requests;
use super::resp_dump::{bulk, sealed, servers};
use crate::common::redis::{Replies, both, request, resp};
use crate::common::start;
use base::prng::Prng;
use gannet_server::start::ServerConfig;

/// Returns the whole description of a stream, without the numbers of nodes, which depend on the implementation.
fn described(server: &mut Replies, key: &str) -> Vec<u8> {
    let reply = server.ask(&[b"XINFO", b"STREAM", key.as_bytes(), b"FULL", b"COUNT", b"0"]);
    let mut numbers = 0;
    let lines = reply.split_inclusive(|byte| *byte == b'\n').map(|line| {
        numbers += usize::from(line[0] == b':');
        if line[0] == b':' && (2..4).contains(&numbers) { b":N\r\n" } else { line }
    });
    lines.collect::<Vec<_>>().concat()
}

/// Moves a stream, and checks that it is the same afterwards.
fn moved(what: &str, key: &str, [from, to]: [&mut Replies; 2]) {
    let payload = from.ask(&[b"DUMP", key.as_bytes()]);
    let restored = to.ask(&[b"RESTORE", b"moved", b"0", bulk(&payload), b"REPLACE"]);
    assert_eq!(restored, b"+OK\r\n", "{what}: {}", restored.escape_ascii());
    let (one, other) = (described(from, key), described(to, "moved"));
    assert!(one == other, "{what}\n{}\n{}", one.escape_ascii(), other.escape_ascii());
}

/// Sends random requests on streams to both servers. Moves the streams again and again, in both directions.
fn move_random_streams(seed: u64, count: usize, is_large: bool) -> usize {
    let (_redis, running, mut ours, mut theirs) = servers();
    let mut requests = Requests { prng: Prng::new(seed), is_large, in_multi: false };
    let mut pending = 0;
    for number in 0..count {
        let is_plain = number % 5 == 0;
        let words = if is_plain { requests.stream_request() } else { requests.group_request() };
        if !["MULTI", "EXEC", "PEXPIRE"].contains(&&words[0][..]) {
            let bytes = request(&words.iter().map(String::as_bytes).collect::<Vec<_>>());
            for server in [&mut ours, &mut theirs] {
                server.client.send(&bytes);
                server.next();
            }
        }
        if number % 40 > 0 {
            continue;
        }
        let encoding = ["yes 100", "no 7", "yes 0"][number / 40 % 3];
        let (compression, entries) = encoding.split_once(' ').expect("two words");
        theirs.text(&format!("CONFIG SET rdbcompression {compression} stream-node-max-entries {entries}"));
        for key in ["stream1", "stream2", "stream3"] {
            if ours.text(&format!("EXISTS {key}")) == ":0" {
                continue;
            }
            moved(&format!("seed {seed}, request {number}, to Redis"), key, [&mut ours, &mut theirs]);
            moved(&format!("seed {seed}, request {number}, from Redis"), key, [&mut theirs, &mut ours]);
            for group in ["group1", "group2", "g"] {
                pending += usize::from(ours.shown(&format!("XPENDING moved {group}")).contains("consumer-"));
            }
        }
    }
    running.stop();
    pending
}

#[test]
fn random_streams_are_the_same_after_they_moved_from_redis_or_to_it() {
    let pending = move_random_streams(51, 2_500, false) + move_random_streams(52, 700, true);
    assert!(pending > 20, "{pending} streams with pending entries are too few to prove anything");
}

/// Adds `count` entries to a stream, of which some are delivered to the consumers of a group. They are short, so that a
/// payload of many fits into a request.
fn fill(server: &mut Replies, count: usize) {
    let mut all = Vec::new();
    for n in 1..=count {
        let (id, name) = (format!("{n}-1"), if n % 50 == 0 { "g" } else { "f" });
        all.extend(request(&[b"XADD", b"stream", id.as_bytes(), name.as_bytes(), format!("{}", n % 10).as_bytes()]));
    }
    server.client.send(&all);
    (0..count).for_each(|_| assert_eq!(server.next()[0], b'$'));
    server.text("XGROUP CREATE stream group 0");
    for part in 0..3 {
        let most = (count / 9).min(300);
        let read = server.text(&format!("XREADGROUP GROUP group consumer:{part} COUNT {most} STREAMS stream >"));
        assert!(read.starts_with("*1"), "{read}");
    }
}

#[test]
fn stream_of_100_000_entries_is_the_same_after_it_moved_from_redis_or_to_it() {
    let (_redis, running, mut ours, mut theirs) = servers();
    fill(&mut ours, 100_000);
    moved("to Redis", "stream", [&mut ours, &mut theirs]);
    // The payload must fit into a request.
    theirs.text("XTRIM moved MAXLEN 8000");
    moved("from Redis", "moved", [&mut theirs, &mut ours]);
    let added = theirs.text("XADD moved 100001-* a 1");
    assert_eq!(ours.text("XADD moved 100001-* a 1"), added);
    for line in ["XREADGROUP GROUP group consumer:1 COUNT 2 STREAMS moved >", "XACK moved group 5-1 6-1 7-1"] {
        assert_eq!(ours.text(line), theirs.text(line), "{line}");
    }
    running.stop();
}

/// The numbers and strings of an uncompressed payload.
struct Lengths<'p> {
    bytes: &'p [u8],
    at: usize,
}

impl Lengths<'_> {
    fn number(&mut self) -> u64 {
        let bytes = &self.bytes[self.at..];
        let big = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let (len, number) = match bytes[0] {
            byte @ 0..0x40 => (1, byte.into()),
            byte @ 0x40..0x80 => (2, u64::from(byte & 0x3f) << 8 | u64::from(bytes[1])),
            0x80 => (5, big(&bytes[1..5])),
            _ => (9, big(&bytes[1..9])),
        };
        self.at += len;
        number
    }

    fn skip_string(&mut self) {
        let len = self.number();
        self.at += len as usize;
    }

    /// Skips numbers, and returns their bytes.
    fn numbers(&mut self, count: usize) -> &[u8] {
        let from = self.at;
        (0..count).for_each(|_| {
            self.number();
        });
        &self.bytes[from..self.at]
    }
}

/// Returns an uncompressed payload of the second form in another form: the first, or the third.
fn in_form(payload: &[u8], form: usize) -> Vec<u8> {
    let mut from = Lengths { bytes: &payload[..payload.len() - 10], at: 1 };
    let mut body = vec![[15, 19, 21][form - 1]];
    (0..from.number()).for_each(|_| (0..2).for_each(|_| from.skip_string()));
    body.extend_from_slice(&payload[1..from.at]);
    body.extend_from_slice(from.numbers(3));
    let counters = from.numbers(5).to_vec();
    body.extend(counters.iter().filter(|_| form > 1));
    let groups = from.number();
    body.push(u8::try_from(groups).expect("few groups"));
    for _ in 0..groups {
        let name = from.at;
        from.skip_string();
        from.numbers(2);
        body.extend_from_slice(&payload[name..from.at]);
        let read = from.numbers(1).to_vec();
        body.extend(read.iter().filter(|_| form > 1));
        let pending = from.at;
        (0..from.number()).for_each(|_| {
            from.at += 24;
            from.number();
        });
        let consumers = from.number();
        body.extend_from_slice(&payload[pending..from.at]);
        for _ in 0..consumers {
            let consumer = from.at;
            from.skip_string();
            from.at += 8;
            body.extend_from_slice(&payload[consumer..from.at]);
            // The time of the last delivery.
            body.extend_from_slice(&[7; 8][..if form == 3 { 8 } else { 0 }]);
            let owned = from.at;
            (0..from.number()).for_each(|_| from.at += 16);
            body.extend_from_slice(&payload[owned..from.at]);
        }
    }
    assert_eq!(from.at, from.bytes.len());
    sealed(&body)
}

#[test]
fn streams_in_the_forms_of_redis_6_and_7_2_are_restored() {
    let (_redis, running, mut ours, mut theirs) = servers();
    theirs.text("CONFIG SET rdbcompression no");
    fill(&mut theirs, 90);
    for line in ["XDEL stream 5-1 7-1", "XGROUP CREATE stream last $", "XGROUP CREATE stream middle 20"] {
        theirs.text(line);
    }
    let payload = bulk(&theirs.ask(&[b"DUMP", b"stream"])).to_vec();
    assert_eq!(in_form(&payload, 2), payload);
    for server in [&mut ours, &mut theirs] {
        let reply = server.ask(&[b"RESTORE", b"first", b"0", &in_form(&payload, 1)]);
        assert_eq!(reply.escape_ascii().to_string(), "+OK\\r\\n");
    }
    assert_eq!(
        described(&mut ours, "first").escape_ascii().to_string(),
        described(&mut theirs, "first").escape_ascii().to_string()
    );
    assert_eq!(ours.ask(&[b"RESTORE", b"third", b"0", &in_form(&payload, 3)]), b"+OK\r\n");
    assert!(described(&mut ours, "third") == described(&mut theirs, "stream"));
    running.stop();
}

#[test]
fn damaged_stream_leaves_the_old_value_as_it_was() {
    let (_redis, running, mut ours, mut theirs) = servers();
    theirs.text("CONFIG SET rdbcompression no");
    fill(&mut theirs, 60);
    ours.text("RPUSH other old");
    let payload = bulk(&theirs.ask(&[b"DUMP", b"stream"])).to_vec();
    let body = &payload[..payload.len() - 10];
    let seed = 71;
    let (mut prng, mut refused, mut restored) = (Prng::new(seed), 0, 0);
    for number in 0..4_000 {
        let mut damaged = body.to_vec();
        // Mostly behind the entries, where each byte matters.
        let from = if prng.chance(1, 3) { 1 } else { damaged.len() / 3 };
        for _ in 0..=prng.below(3) {
            let at = from + prng.below((damaged.len() - from) as u64) as usize;
            damaged[at] = if prng.chance(1, 2) { prng.next_u64() as u8 } else { damaged[at] ^ 1 << prng.below(8) };
        }
        if prng.chance(1, 8) {
            damaged.truncate(1 + prng.below(damaged.len() as u64 - 1) as usize);
        }
        let reply = ours.ask(&[b"RESTORE", b"other", b"0", &sealed(&damaged), b"REPLACE"]);
        if reply == b"+OK\r\n" {
            restored += 1;
            let all = described(&mut ours, "other");
            assert!(all[0] == b'*', "seed {seed}, number {number}: {}", all.escape_ascii());
            let payload = ours.ask(&[b"DUMP", b"other"]);
            let again = ours.ask(&[b"RESTORE", b"again", b"0", bulk(&payload), b"REPLACE"]);
            assert_eq!(again, b"+OK\r\n", "seed {seed}, number {number}");
            assert!(all == described(&mut ours, "again"), "seed {seed}, number {number}");
            ours.text("DEL other");
            ours.text("RPUSH other old");
        } else {
            refused += 1;
            let is_known = reply == b"-ERR Bad data format\r\n" || reply.ends_with(b"exceeds this server's limit\r\n");
            assert!(is_known, "seed {seed}, number {number}: {}", reply.escape_ascii());
            assert_eq!(ours.text("LRANGE other 0 -1"), "*1 $3 old", "seed {seed}, number {number}");
        }
    }
    assert!(refused > 300 && restored > 300, "{refused} refused, {restored} restored");
    running.stop();
}

#[test]
fn full_store_keeps_the_old_value_of_a_restored_stream() {
    let running = start(ServerConfig { memory_bytes: 16 << 20, evict: false, ..both() });
    let mut ours = resp(&running);
    fill(&mut ours, 2_500);
    let payload = bulk(&ours.ask(&[b"DUMP", b"stream"])).to_vec();
    let before = described(&mut ours, "stream");
    let mut copies = 0;
    // Segments are freed at any time, so a store that refused a value may take the next one.
    loop {
        let reply = ours.ask(&[b"RESTORE", format!("copy:{copies}").as_bytes(), b"0", &payload]);
        if reply == b"+OK\r\n" {
            copies += 1;
            assert!(copies < 400, "the store is never full");
            continue;
        }
        assert!(reply.starts_with(b"-OOM "), "{}", reply.escape_ascii());
        assert_eq!(ours.text(&format!("EXISTS copy:{copies}")), ":0");
        let reply = ours.ask(&[b"RESTORE", b"stream", b"0", &payload, b"REPLACE"]);
        assert!(described(&mut ours, "stream") == before, "after {}", reply.escape_ascii());
        if reply.starts_with(b"-OOM ") {
            break;
        }
        assert_eq!(reply.escape_ascii().to_string(), "+OK\\r\\n");
    }
    running.stop();
}
