use super::*;
use crate::format::{
    Blocks, Header, KEY_TEXT_BYTES_MIN, RequestOutcome, Selection, Summary, Times, TraceEntry, TraceReader, Verb,
    put_key,
};
use load::schedule::{Next, OpenInstants};
use load::traffic::{Pending, ReplyOutcome as Filed, ReplyProgress, Traffic};
use load::workload::units::Share;
use std::path::PathBuf;

struct TempFile(PathBuf);

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn trace(name: &str, entries: &[TraceEntry]) -> TempFile {
    let path = std::env::temp_dir().join(format!("gannet-replay-{}-{name}", std::process::id()));
    let mut bytes = Header::default().bytes().to_vec();
    let mut blocks = Blocks::default();
    for entry in entries {
        bytes.extend(blocks.push(entry).into_iter().flatten());
    }
    bytes.extend(blocks.take().into_iter().flatten());
    bytes.extend(blocks.end(&Summary::default()));
    std::fs::write(&path, bytes).unwrap();
    TempFile(path)
}

fn script(protocol: Protocol) -> Script {
    Script {
        protocol,
        targets: Vec::new(),
        placement: Placement::Any,
        auth: None,
        verify: true,
        fill_on_miss: true,
        value_bytes: 100,
        value_bytes_max: 1 << 20,
        ttl_divisor: 1.0,
        now_s: 1_700_000_000,
        values: Arc::new(Values::new(Share(0.0))),
        altered: Arc::new(Altered::default()),
    }
}

fn playback(script: &Script, name: &str, entries: &[TraceEntry]) -> Playback {
    let file = trace(name, entries);
    let feed = Feed::start(TraceReader::open(&Selection::new(&file.0)).unwrap(), 1, Deal::InTurn).unwrap();
    let playback = Playback::new(script, &feed, 0);
    assert!(!playback.is_exhausted(), "the file is opened before it is removed");
    playback
}

fn text(entry: &TraceEntry) -> String {
    let mut out = Vec::new();
    put_key(entry.key, entry.key_bytes, &mut out);
    String::from_utf8(out).unwrap()
}

fn of(verb: Verb, key: u64) -> TraceEntry {
    TraceEntry { verb, key, key_bytes: 14, value_bytes: 30, ttl_s: 60, ..TraceEntry::default() }
}

/// Returns the pending state and the text of the next request.
fn sent(playback: &mut Playback) -> (Pending, String) {
    let (pending, out) = sent_bytes(playback);
    (pending, String::from_utf8_lossy(&out).into_owned())
}

fn sent_bytes(playback: &mut Playback) -> (Pending, Vec<u8>) {
    let mut out = Vec::new();
    let pending = playback.next(0, &mut out);
    (pending, out)
}

/// Passes the reply `bytes` in pieces of `step` bytes, each after the unconsumed rest. Returns the outcome.
fn answered(playback: &mut Playback, mut pending: Pending, bytes: &[u8], step: usize) -> Filed {
    let (mut kept, mut left) = (Vec::new(), bytes);
    loop {
        let (front, back) = left.split_at(left.len().min(step));
        assert!(!front.is_empty(), "the reply is incomplete: {:?}", String::from_utf8_lossy(bytes));
        kept.extend_from_slice(front);
        left = back;
        let (used, progress) = playback.answer(&mut pending, &kept);
        kept.drain(..used);
        match progress {
            ReplyProgress::Done { outcome, .. } => {
                assert!(kept.is_empty() && left.is_empty(), "bytes remain after the reply");
                return outcome;
            }
            ReplyProgress::More => {}
            other => panic!("{other:?}: {:?}", String::from_utf8_lossy(bytes)),
        }
    }
}

#[test]
fn every_verb_has_its_words_in_every_protocol() {
    let key = text(&of(Verb::Get, 77));
    let expected = [
        (Verb::Get, format!("get {key}\r\n"), format!("mg {key} v\r\n"), "GET"),
        (Verb::Gets, format!("gets {key}\r\n"), format!("mg {key} c v\r\n"), "GET"),
        (Verb::Set, format!("set {key} 0 60 30\r\n"), format!("ms {key} 30 T60\r\n"), "SET"),
        (Verb::Add, format!("add {key} 0 60 30\r\n"), format!("ms {key} 30 ME T60\r\n"), "SET"),
        (Verb::Replace, format!("replace {key} 0 60 30\r\n"), format!("ms {key} 30 MR T60\r\n"), "SET"),
        (Verb::Cas, format!("cas {key} 0 60 30 0\r\n"), format!("ms {key} 30 C0 T60\r\n"), "SET"),
        (Verb::Append, format!("append {key} 0 60 30\r\n"), format!("ms {key} 30 MA T60\r\n"), "APPEND"),
        (Verb::Prepend, format!("prepend {key} 0 60 30\r\n"), format!("ms {key} 30 MP T60\r\n"), "APPEND"),
        (Verb::Delete, format!("delete {key}\r\n"), format!("md {key}\r\n"), "DEL"),
        (Verb::Incr, format!("incr {key} 1\r\n"), format!("ma {key}\r\n"), "INCRBY"),
        (Verb::Decr, format!("decr {key} 1\r\n"), format!("ma {key} MD\r\n"), "DECRBY"),
        (Verb::Touch, format!("touch {key} 60\r\n"), format!("mg {key} T60\r\n"), "EXPIRE"),
        (Verb::Gat, format!("gat 60 {key}\r\n"), format!("mg {key} v T60\r\n"), "GETEX"),
        (Verb::HashGet, format!("get {key}\r\n"), format!("mg {key} v\r\n"), "HGET"),
        (Verb::HashSet, format!("set {key} 0 60 30\r\n"), format!("ms {key} 30 T60\r\n"), "HSET"),
        (Verb::HashDelete, format!("delete {key}\r\n"), format!("md {key}\r\n"), "HDEL"),
        (Verb::HashGetAll, format!("get {key}\r\n"), format!("mg {key} v\r\n"), "HGETALL"),
    ];
    assert_eq!(expected.len(), Verb::ALL.len());
    for (verb, classic, meta, resp) in expected {
        for (protocol, begins) in [(Protocol::Memcache, classic), (Protocol::Meta, meta)] {
            let (pending, words) = sent_bytes(&mut playback(&script(protocol), "words", &[of(verb, 77)]));
            assert!(words.starts_with(begins.as_bytes()), "{words:?} for {begins:?}");
            assert_eq!(words.len(), begins.len() + if verb.writes() { 32 } else { 0 });
            assert_eq!((pending.verb, pending.value_bytes), (verb as u8, if verb.writes() { 30 } else { 0 }));
        }
        let (_, words) = sent_bytes(&mut playback(&script(Protocol::Resp), "words", &[of(verb, 77)]));
        let mut parser = protocol::resp::Parser::new();
        let parsed = parser.parse(&words, &protocol::resp::Limits::REDIS);
        let protocol::resp::Parsed::Request { mut args, consumed } = parsed else { panic!("{words:?}") };
        assert_eq!((args.next(), args.next(), consumed), (Some(resp.as_bytes()), Some(key.as_bytes()), words.len()));
    }
}

#[test]
fn replayed_values_are_verified_however_the_reply_is_split() {
    for (len, step) in [(5, 1), (30, 1), (30, 7), (4000, 100), (4000, 1 << 20)] {
        let set = TraceEntry { value_bytes: len, ..of(Verb::Set, 9) };
        let get = TraceEntry { verb: Verb::Get, ..set };
        let key = text(&get);
        for flip in [false, true] {
            let mut playback = playback(&script(Protocol::Memcache), "verify", &[set, get]);
            let mut out = Vec::new();
            let pending = playback.next(0, &mut out);
            assert_eq!(answered(&mut playback, pending, b"STORED\r\n", step), Filed::Hit);
            let line = out.iter().position(|byte| *byte == b'\n').unwrap();
            let mut value = out[line + 1..out.len() - 2].to_vec();
            if flip {
                value[len as usize - 1] ^= 1;
            }
            let (pending, _) = sent(&mut playback);
            let head = format!("VALUE {key} 0 {len}\r\n");
            let answer = [head.as_bytes(), &value, b"\r\nEND\r\n"].concat();
            let filed = answered(&mut playback, pending, &answer, step);
            assert_eq!(filed, if flip { Filed::Wrong } else { Filed::Hit }, "{len} in {step}");
        }
    }
}

#[test]
fn a_key_that_was_appended_to_is_not_compared_any_more() {
    let entries = [of(Verb::Append, 9), of(Verb::Get, 9), of(Verb::Get, 10)];
    let mut playback = playback(&script(Protocol::Memcache), "altered", &entries);
    let (pending, _) = sent(&mut playback);
    assert_eq!(answered(&mut playback, pending, b"NOT_STORED\r\n", 100), Filed::Miss);
    for (entry, filed) in [(&entries[1], Filed::Hit), (&entries[2], Filed::Wrong)] {
        let (pending, _) = sent(&mut playback);
        let answer = format!("VALUE {} 0 3\r\nabc\r\nEND\r\n", text(entry));
        assert_eq!(answered(&mut playback, pending, answer.as_bytes(), 4), filed);
    }
}

#[test]
fn every_missed_key_of_a_multi_get_is_filled() {
    let entries: Vec<TraceEntry> = (0..4).map(|key| TraceEntry { joined: key > 0, ..of(Verb::Get, key) }).collect();
    let keys: Vec<String> = entries.iter().map(text).collect();
    let filled = |playback: &mut Playback| {
        let mut filled = Vec::new();
        while playback.has_follow_up() {
            let (pending, words) = sent(playback);
            assert_eq!(playback.verbs()[usize::from(pending.verb)], "fill");
            filled.push(keys.iter().position(|key| words.contains(key.as_str())).unwrap());
            let reply: &[u8] = match playback.protocol() {
                Protocol::Resp => b"+OK\r\n",
                Protocol::Meta => b"HD\r\n",
                _ => b"STORED\r\n",
            };
            assert_eq!(answered(playback, pending, reply, 2), Filed::Hit);
        }
        filled
    };
    for step in [1, 5, 1000] {
        let unverified = |protocol| Script { verify: false, ..script(protocol) };
        let mut classic = playback(&unverified(Protocol::Memcache), "many", &entries);
        let (pending, words) = sent(&mut classic);
        assert_eq!(words, format!("get {}\r\n", keys.join(" ")));
        let answer = format!("VALUE {} 0 2\r\nab\r\nVALUE {} 0 1\r\nc\r\nEND\r\n", keys[1], keys[2]);
        assert_eq!(answered(&mut classic, pending, answer.as_bytes(), step), Filed::Miss);
        assert_eq!(filled(&mut classic), [0, 3]);
        let mut meta = playback(&unverified(Protocol::Meta), "many", &entries);
        let (pending, words) = sent(&mut meta);
        assert!(words.ends_with("v k q\r\nmn\r\n"), "{words}");
        let answer = format!("VA 2 k{}\r\nab\r\nMN\r\n", keys[3]);
        assert_eq!(answered(&mut meta, pending, answer.as_bytes(), step), Filed::Miss);
        assert_eq!(filled(&mut meta), [0, 1, 2]);
        let mut resp = playback(&unverified(Protocol::Resp), "many", &entries);
        let (pending, words) = sent(&mut resp);
        assert!(words.starts_with("*5\r\n$4\r\nMGET\r\n"), "{words}");
        assert_eq!(answered(&mut resp, pending, b"*4\r\n$2\r\nab\r\n$-1\r\n$0\r\n\r\n$-1\r\n", step), Filed::Miss);
        assert_eq!(filled(&mut resp), [1, 3]);
        for playback in [&classic, &meta, &resp] {
            assert!(playback.is_exhausted());
        }
    }
}

#[test]
fn a_swap_carries_the_token_that_was_read() {
    let mut playback = playback(&script(Protocol::Memcache), "cas", &[of(Verb::Gets, 9), of(Verb::Cas, 9)]);
    let (pending, _) = sent(&mut playback);
    let answer = format!("VALUE {} 0 3 4711\r\nabc\r\nEND\r\n", text(&of(Verb::Gets, 9)));
    answered(&mut playback, pending, answer.as_bytes(), 1000);
    let (pending, words) = sent(&mut playback);
    assert!(words.contains(" 0 60 30 4711\r\n"), "{words}");
    assert_eq!(answered(&mut playback, pending, b"EXISTS\r\n", 1000), Filed::Miss);
}

#[test]
fn reconnected_connection_expects_no_earlier_replies() {
    let mut playback = playback(&script(Protocol::Memcache), "again", &[of(Verb::Get, 1), of(Verb::Delete, 2)]);
    playback.greet(0, &mut Vec::new());
    sent(&mut playback);
    assert!(playback.greet(0, &mut Vec::new()).is_empty());
    let (pending, _) = sent(&mut playback);
    assert_eq!(answered(&mut playback, pending, b"DELETED\r\n", 3), Filed::Hit);
}

#[test]
fn lanes_together_have_every_request_once_at_its_instant_and_a_keys_requests_in_order() {
    let mut prng = base::prng::Prng::new(3);
    let entries: Vec<TraceEntry> = (0..30_000u32)
        .map(|number| TraceEntry {
            at_us: u64::from(number) * 10,
            connection: number,
            joined: number > 0 && prng.chance(1, 3),
            ..of(Verb::Get, prng.below(500))
        })
        .collect();
    let file = trace("shares", &entries);
    let feed = Arc::new(Feed::start(TraceReader::open(&Selection::new(&file.0)).unwrap(), 3, Deal::ByKey).unwrap());
    let shares: Vec<Vec<TraceEntry>> = std::thread::scope(|scope| {
        let share = |thread: usize| {
            let feed = feed.clone();
            scope.spawn(move || {
                let mut instants = feed.open(thread, 3);
                let (mut share, mut at) = (Vec::new(), Vec::new());
                for chunk in feed.entries(thread).unwrap() {
                    share.extend_from_slice(&chunk);
                    let wanted = share.iter().filter(|entry| !entry.joined).count();
                    while at.len() < wanted {
                        match instants() {
                            Next::At(ns) => at.push(ns / 1000),
                            Next::NotYet => std::thread::yield_now(),
                            Next::End => panic!("{} instants of {wanted} requests", at.len()),
                        }
                    }
                }
                let requests = share.iter().filter(|entry| !entry.joined).map(|entry| entry.at_us);
                assert_eq!(requests.collect::<Vec<_>>(), at);
                share
            })
        };
        let threads: Vec<_> = (0..3).map(share).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(shares.iter().all(|share| share.len() > 2000), "every share has entries");
    let mut all: Vec<TraceEntry> = shares.concat();
    all.sort_by_key(|entry| entry.connection);
    assert_eq!(all, entries);
    assert_eq!(feed.end().map(|end| end.entries), Some(30_000));
}

#[test]
fn a_file_is_read_no_faster_than_it_is_replayed() {
    let entries: Vec<TraceEntry> = (0..600_000).map(|key| of(Verb::Delete, key)).collect();
    let file = trace("bounded", &entries);
    let feed = Feed::start(TraceReader::open(&Selection::new(&file.0)).unwrap(), 1, Deal::InTurn).unwrap();
    let share = feed.entries(0).unwrap();
    let first = share.recv().unwrap();
    assert_eq!(feed.end(), None, "the share holds {SHARE_CHUNKS_MAX} chunks, and the trace has more");
    assert_eq!(first.len() + share.iter().map(|chunk| chunk.len()).sum::<usize>(), 600_000);
}

#[test]
fn prefill_stores_each_key_that_was_read_and_present_exactly_once() {
    let miss = TraceEntry { outcome: RequestOutcome::Miss, ..of(Verb::Get, 1) };
    let unknown = TraceEntry { value_bytes: 0, ..of(Verb::Get, 2) };
    let hit = TraceEntry { outcome: RequestOutcome::Hit, ..of(Verb::Gets, 3) };
    let entries =
        [miss, unknown, hit, hit, of(Verb::Set, 4), of(Verb::Get, 0), of(Verb::Delete, 5), of(Verb::HashGet, 6)];
    let file = trace("prefill", &entries);
    let ask = Selection { times: Times::Ignored, ..Selection::new(&file.0) };
    let feed = Feed::start(TraceReader::open(&ask).unwrap(), 1, Deal::InTurn).unwrap();
    let mut prefill = Prefill::new(&script(Protocol::Resp), &feed, 0);
    let mut words = String::new();
    while !prefill.is_exhausted() {
        let mut out = Vec::new();
        prefill.next(0, &mut out);
        words.push_str(&String::from_utf8_lossy(&out));
    }
    let stored: Vec<u64> = (0..7).filter(|key| words.matches(&text(&of(Verb::Get, *key))).count() == 1).collect();
    assert_eq!(stored, [0, 3, 6]);
    assert_eq!((words.matches("\r\nSET\r\n").count(), words.matches("\r\nHSET\r\n").count()), (2, 1));
}

#[test]
fn lengths_and_times_to_live_follow_the_script() {
    let script = Script { ttl_divisor: 100.0, value_bytes_max: 50, ..script(Protocol::Memcache) };
    assert_eq!([0, 1, 100, 101, 86_400].map(|ttl_s| script.ttl_s(ttl_s)), [0, 1, 1, 2, 864]);
    assert_eq!([0, 30, 51].map(|bytes| script.sent_bytes(bytes)), [50, 30, 50]);
    let long = TraceEntry { ttl_s: u32::MAX, key_bytes: 0, ..of(Verb::Set, 1) };
    let (_, words) = sent(&mut playback(&script, "long", &[long]));
    let exptime = 1_700_000_000 + u64::from(u32::MAX).div_ceil(100);
    assert!(words.starts_with(&format!("set {} 0 {exptime} 30\r\n", text(&long))), "{words}");
    assert_eq!(text(&long).len(), KEY_TEXT_BYTES_MIN);
}
