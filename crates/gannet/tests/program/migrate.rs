//! Tests `gannet migrate` between servers that the tests start: all items of the source are at the target afterwards,
//! even if a process ends in the meantime.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use migrate::CopyOutcome;

use crate::common::{PATIENCE, Serving, free_port, run};
use crate::migrate_peers::{Answer, Kept, Meta, Resp, Value, Values, assert_same, gannet};
use crate::peers::{Folder, Peer};

/// Runs `gannet migrate`, which must end with `code`. Returns the outcome, the output and the error text.
fn migrate(folder: &Folder, args: &[&str], code: i32) -> (CopyOutcome, String, String) {
    let json = folder.file("outcome.json");
    let (got, out, err) = run(&[&["migrate", "--json", &json], args].concat());
    assert_eq!(got, code, "{args:?}: {out}\n{err}");
    let text = std::fs::read_to_string(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
    (outcome_of(&text), out, err)
}

fn outcome_of(text: &str) -> CopyOutcome {
    CopyOutcome::from_json(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Checks that every key is counted exactly once.
fn assert_whole(outcome: &CopyOutcome) {
    assert_eq!(outcome.counts.done(), outcome.counts.seen, "{:?}", outcome.counts);
}

/// Stores items with keys of all kinds (text, spaces, zeros, every length), values up to 1 MiB, flags, and short, long
/// and no times to live. Returns the keys.
fn fill(meta: &mut Meta, count: usize) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for n in 0..count {
        let mut key = format!("key:{n}").into_bytes();
        match n % 10 {
            1 => key.extend_from_slice(b" with\0all\xff\r\n"),
            2 => key.resize(180, b'k'),
            _ => {}
        }
        let value: Vec<u8> = (0..n * 7 % 900).map(|at| (at * n) as u8).collect();
        let ttl_s = [0, 600, 86_400, 90 * 86_400][n % 4];
        meta.set(&key, &value, (n as u32).wrapping_mul(0x0101_0101), ttl_s);
        keys.push(key);
    }
    let large: Vec<u8> = (0..1 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for name in ["large:1", "large:2", "large:3", "large:4", "large:5", "large:6"] {
        meta.set(name.as_bytes(), &large[name.len()..], 7, 3600);
        keys.push(name.into());
    }
    keys
}

#[test]
fn from_memcached_to_gannet_and_back_nothing_is_lost() {
    let Some(old) = Peer::memcached(&["-I", "4m"]) else { return };
    let Some(other) = Peer::memcached(&["-I", "4m"]) else { return };
    let (_serving, port) = gannet();
    let folder = Folder::new("both-ways");
    let keys = fill(&mut Meta::to(old.port), 2000);
    let place = format!("memcached://127.0.0.1:{port}");
    let (outcome, out, err) =
        migrate(&folder, &["--from", &old.place("memcached"), "--to", &place, "--verify", "all"], 0);
    assert_whole(&outcome);
    assert_eq!((outcome.counts.copied, outcome.counts.skipped_sum()), (keys.len() as u64, 0), "{out}");
    assert_eq!(outcome.verified.map(|verified| verified.same), Some(keys.len() as u64), "{out}");
    assert!(err.contains(&format!("listed {} keys", keys.len())), "{err}");
    assert_same(&keys, &mut Meta::to(old.port), &mut Meta::to(port));
    let back = ["--from", &place, "--to", &other.place("memcached"), "--verify", "all", "--quiet"];
    let (outcome, out, err) = migrate(&folder, &back, 0);
    assert_eq!((outcome.counts.copied, outcome.counts.seen), (keys.len() as u64, keys.len() as u64), "{out}");
    assert!(err.is_empty(), "{err}");
    assert_same(&keys, &mut Meta::to(old.port), &mut Meta::to(other.port));
}

#[test]
fn keys_written_by_live_traffic_are_preserved_unless_replaced() {
    let Some(old) = Peer::memcached(&["-I", "4m"]) else { return };
    let (_serving, port) = gannet();
    let folder = Folder::new("live");
    let (mut from, mut to) = (Meta::to(old.port), Meta::to(port));
    for key in ["a", "b", "skip:c", "skip:d", "keep:e"] {
        from.set(key.as_bytes(), b"old", 1, 0);
    }
    to.set(b"a", b"newer", 2, 0);
    let args = ["--from", &old.place("memcached"), "--to", &format!("127.0.0.1:{port}")];
    let chosen = [&args[..], &["--exclude", "skip:", "--verify", "none"]].concat();
    let (outcome, out, _) = migrate(&folder, &chosen, 0);
    assert_whole(&outcome);
    let counts = &outcome.counts;
    assert_eq!((counts.copied, counts.already_there, counts.not_chosen), (2, 1, 2), "{out}");
    assert_eq!((to.read(b"a").unwrap().value, to.read(b"skip:c")), (b"newer".to_vec(), None));
    let (outcome, _, err) = migrate(&folder, &[&args[..], &["--prefix", "a", "--verify", "all"]].concat(), 4);
    let verified = outcome.verified.unwrap();
    assert_eq!((verified.looked_for, verified.value_differs), (1, 1), "{err}");
    assert!(verified.examples[0].starts_with("a: the values differ: "), "{verified:?}");
    let (outcome, out, _) = migrate(&folder, &[&args[..], &["--overwrite", "--verify", "all"]].concat(), 0);
    assert_eq!((outcome.counts.copied, outcome.counts.already_there), (5, 0), "{out}");
    assert_eq!(to.read(b"a"), Some(Kept { value: b"old".to_vec(), flags: 1, expires_ms: None }));
}

/// Stores values of every type, including the difficult cases of each.
fn fill_redis(client: &mut Resp) {
    for n in 0..700 {
        client.say(&format!("SET string:{n} value:{n}"));
        client.say(&format!("HSET hash:{n} field {n} other text"));
    }
    client.ask(&[b"SET", b"bin\0 \xff\r\n", &(0..=255).collect::<Vec<u8>>()]);
    client.ask(&[b"SET", b"", b"of an empty key"]);
    client.ask(&[b"SET", b"large", &vec![b'x'; 1 << 20]]);
    client.ask(&[b"SET", &[b'k'; 400], b"of a long key"]);
    client.say("SET soon v PX 3600500");
    client.say("SET late v PXAT 4102444800123");
    for n in 0..3500 {
        client.say(&format!("HSET wide field:{n} value:{n}"));
    }
    client.say("PEXPIREAT wide 4102444800456");
    client.say("RPUSH list a b c");
    client.say("SADD set a b 1");
    client.say("ZADD zset 1.5 a -2 b");
    client.say("XADD stream 5-1 field value");
    client.say("PEXPIREAT list 4102444800789");
}

#[test]
fn redis_to_redis_copy_preserves_every_type_and_expiry_millisecond() {
    let folder = Folder::new("redis");
    let Some(old) = Peer::redis_in(&folder, &[]) else { return };
    let Some(new) = Peer::redis_in(&folder, &[]) else { return };
    let mut from = Resp::to(old.port);
    from.say("SELECT 3");
    fill_redis(&mut from);
    let (source, target) = (old.place("redis") + "/3", new.place("redis") + "/5");
    let (outcome, out, err) = migrate(&folder, &["--from", &source, "--to", &target, "--verify", "all"], 0);
    assert_whole(&outcome);
    let all = from.all();
    let mut to = Resp::to(new.port);
    to.say("SELECT 5");
    let copied = to.all();
    assert!(all.len() > 1400 && all.keys().eq(copied.keys()), "{out}{err}");
    for (key, own) in &all {
        assert!(*own == copied[key], "{}", key.escape_ascii());
    }
    assert_eq!(outcome.counts.copied, all.len() as u64, "{out}");
    assert_eq!(outcome.verified.unwrap().same, all.len() as u64, "{out}");
    to.say("SELECT 0");
    assert_eq!(to.say("DBSIZE"), Answer::Int(0));
}

/// Returns whether all keys have the same values, and expire in the same second: Gannet counts seconds in a far future.
fn same_values(all: &Values, others: &Values) -> bool {
    let second = |expires: &Answer| if let Answer::Int(ms) = expires { ms.div_euclid(1000) } else { i64::MIN };
    let same = |(key, own): (&Vec<u8>, &Value)| {
        let same = others.get(key).is_some_and(|other| {
            (&own.0, &own.1) == (&other.0, &other.1) && second(&own.2).abs_diff(second(&other.2)) <= 1
        });
        if !same {
            eprintln!("{} differs: {:?}, {:?}", key.escape_ascii(), own.2, others.get(key).map(|other| &other.2));
        }
        same
    };
    all.len() == others.len() && all.iter().all(same)
}

#[test]
fn collections_of_redis_arrive_whole_at_gannet_and_go_back() {
    let folder = Folder::new("collections");
    let Some(old) = Peer::redis_in(&folder, &[]) else { return };
    let ports = ["--resp", "127.0.0.1:0", "--memcached", "127.0.0.1:0", "--admin", "none"];
    let sizes = ["--memory", "128MiB", "--item-max", "4MiB", "--workers", "2"];
    let mut serving = Serving::start(&[&ports[..], &sizes].concat());
    let port = serving.addr_behind("Redis clients connect to ").port();
    let mut from = Resp::to(old.port);
    fill_redis(&mut from);
    // Each of these is too long for one request.
    for n in (0..20_000).step_by(500) {
        let each = |put: fn(u64) -> String| (n..n + 500).map(put).collect::<Vec<_>>().join(" ");
        from.say(&format!("RPUSH long:list {}", each(|n| format!("element-of-the-list:{n}"))));
        from.say(&format!("SADD long:set {}", each(|n| format!("member-of-the-set:{n}"))));
        from.say(&format!("ZADD long:zset {}", each(|n| format!("{} member-of-the-sorted-set:{n}", n / 4))));
    }
    from.say("PEXPIREAT long:set 4102444800321");
    fill_long_stream(&mut from, "long:stream", 500);
    fill_long_stream(&mut from, "longer:stream", 1_500);
    let (source, target) = (old.place("redis"), format!("redis://127.0.0.1:{port}"));
    let (outcome, out, err) = migrate(&folder, &["--from", &source, "--to", &target, "--verify", "all"], 0);
    assert_whole(&outcome);
    assert_eq!(outcome.counts.copied, outcome.counts.seen, "{out}");
    let all = from.all();
    let mut to = Resp::to(port);
    let copied = to.all();
    assert!(same_values(&all, &copied), "{out}{err}");
    assert_eq!(outcome.verified.unwrap().differ(), 0, "{out}");
    let (groups, pending) = (facts_of_stream(&mut from), from.say("XPENDING longer:stream group"));
    assert!(groups.contains("748)") && groups == facts_of_stream(&mut to), "groups differ");
    assert_eq!(to.say("XPENDING longer:stream group"), pending);
    from.say("FLUSHALL");
    let (outcome, out, _) = migrate(&folder, &["--from", &target, "--to", &source, "--verify", "none"], 0);
    assert_eq!(outcome.counts.copied, outcome.counts.seen, "{out}");
    assert!(same_values(&all, &from.all()), "a key differs after its way back");
    assert!(groups == facts_of_stream(&mut from), "groups differ after their way back");
    assert_eq!(from.say("XPENDING longer:stream group"), pending);
}

/// Stores a stream that is too long for one request. Of `delivered` entries and half as many behind them, most are
/// pending, and some of these are deleted.
fn fill_long_stream(client: &mut Resp, key: &str, delivered: usize) {
    for n in 1..=6_000 {
        client.say(&format!("XADD {key} {n}-1 temperature {n} place {}", "cellar".repeat(n % 9)));
    }
    client.say(&format!("XGROUP CREATE {key} group 0"));
    for line in [
        format!("XREADGROUP GROUP group one COUNT {delivered} STREAMS {key} >"),
        format!("XREADGROUP GROUP group two COUNT {} STREAMS {key} >", delivered / 2),
        format!("XDEL {key} 450-1 5000-1"),
        format!("XACK {key} group 5-1 6-1"),
        format!("XTRIM {key} MAXLEN 5900"),
        format!("XGROUP CREATECONSUMER {key} group idle"),
        format!("XADD {key} 7000-1 last entry"),
        format!("XDEL {key} 7000-1"),
    ] {
        client.say(&line);
    }
}

/// Returns the facts about a stream and its groups as text, without the numbers of nodes.
fn facts_of_stream(client: &mut Resp) -> String {
    let text = format!("{:?}", client.say("XINFO STREAM long:stream FULL COUNT 2000"));
    // The reply begins with the length and the numbers of keys and nodes, each behind its name.
    let mut numbers = 0;
    let words = text.split("Int(").filter(|_| {
        numbers += 1;
        !(3..5).contains(&numbers)
    });
    words.collect()
}

#[test]
fn hash_written_by_live_traffic_is_not_merged_with_the_copy() {
    for more in [&[][..], &["--rename-command", "RENAMENX", "", "--rename-command", "RENAME", ""]] {
        let folder = Folder::new(&format!("hashes-{}", more.len()));
        let Some(old) = Peer::redis_in(&folder, &[]) else { return };
        let Some(new) = Peer::redis_in(&folder, more) else { return };
        let (mut from, mut to) = (Resp::to(old.port), Resp::to(new.port));
        from.say("HSET live old 1 both 1");
        from.say("HSET idle old 1");
        from.say("PEXPIREAT live 4102444800000");
        from.say("PEXPIREAT idle 4102444800000");
        to.say("HSET live new 2 both 2");
        let args = ["--from", &old.place("redis"), "--to", &new.place("redis")];
        let (outcome, out, _) = migrate(&folder, &[&args[..], &["--verify", "none"]].concat(), 0);
        assert_eq!((outcome.counts.copied, outcome.counts.already_there), (1, 1), "{more:?} {out}");
        let live = &to.all()[b"live".as_slice()];
        assert!(live.2 == Answer::Int(-1) && format!("{live:?}").matches("Text").count() == 4, "{more:?} {live:?}");
        assert_eq!(to.say("PEXPIRETIME idle"), Answer::Int(4_102_444_800_000), "{more:?}");
        migrate(&folder, &[&args[..], &["--overwrite", "--verify", "all"]].concat(), 0);
        assert!(from.all() == to.all(), "{more:?} {:?}", to.all());
    }
}

#[test]
fn memcached_without_its_crawler_is_refused_with_the_remedy() {
    let Some(old) = Peer::memcached(&["-o", "no_lru_crawler"]) else { return };
    let mut client = Meta::to(old.port);
    client.set(b"key", b"value", 0, 0);
    let (_serving, port) = gannet();
    let (from, to) = (old.place("memcached"), format!("memcached://127.0.0.1:{port}"));
    let copy = || run(&["migrate", "--from", &from, "--to", &to]);
    let (code, _, err) = copy();
    assert!(code == 1 && err.contains("LRU crawler is off; send it \"lru_crawler enable\""), "{code}: {err}");
    assert_eq!(client.ask(b"lru_crawler enable\r\n"), "OK");
    let (code, _, err) = copy();
    assert_eq!((code, Meta::to(port).read(b"key").map(|kept| kept.value)), (0, Some(b"value".to_vec())), "{err}");
}

#[test]
fn types_unsupported_by_memcached_are_reported_with_their_counts() {
    let folder = Folder::new("redis-to-gannet");
    let Some(old) = Peer::redis_in(&folder, &["--requirepass", "s3cret"]) else { return };
    let (_serving, port) = gannet();
    let mut from = Resp::to(old.port);
    from.say("AUTH s3cret");
    fill_redis(&mut from);
    let to = format!("memcached://127.0.0.1:{port}");
    let (code, _, err) = run(&["migrate", "--from", &old.place("redis"), "--to", &to]);
    assert!(code == 1 && err.contains("NOAUTH") && err.contains("redis://:PASSWORD@HOST:PORT"), "{err}");
    let source = format!("redis://:s3cret@127.0.0.1:{}", old.port);
    let (outcome, out, err) = migrate(&folder, &["--from", &source, "--to", &to, "--verify", "all"], 0);
    assert_whole(&outcome);
    assert!(!out.contains("s3cret") && !err.contains("s3cret"), "{out}{err}");
    let skipped: Vec<(&str, u64)> = outcome.counts.skipped.iter().map(|(why, count)| (why.as_str(), *count)).collect();
    let no = |kind: &str| format!("{kind}: the target supports only strings");
    let kinds = [no("hash"), no("list"), no("set"), no("stream"), no("zset")];
    for (kind, count) in kinds.iter().zip([701, 1, 1, 1, 1]) {
        assert!(skipped.contains(&(kind, count)) && out.contains(kind.as_str()), "{kind}: {out}");
    }
    assert!(out.contains("the key is empty") && out.contains("the key is longer than 250 bytes"), "{out}");
    assert_eq!(outcome.counts.copied, 704, "{out}");
    let mut to = Meta::to(port);
    assert_eq!(to.read(b"bin\0 \xff\r\n").unwrap().value, (0..=255).collect::<Vec<u8>>());
    let late = to.read(b"late").unwrap().expires_ms.unwrap();
    assert!(late.0 - 1000 <= 4_102_444_800_123 && 4_102_444_800_123 <= late.1 + 1000, "{late:?}");
}

#[test]
fn keys_and_values_that_memcached_cannot_request_are_skipped_by_their_reason() {
    let args = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "none", "--memory", "64MiB"];
    let mut serving = Serving::start(&[&args[..], &["--workers", "1"]].concat());
    let port = serving.addr_behind("memcached clients connect to ").port();
    let mut redis = Resp::to(serving.addr_behind("Redis clients connect to ").port());
    for key in [&b""[..], &[b'k'; 251], &[b'l'; 1_000], &[0xff; 4_000], &[0xfe; 300]] {
        redis.ask(&[b"SET", key, b"x"]);
    }
    redis.say("SET plain 1");
    redis.say("HSET hash f v");
    redis.say("RPUSH list v");
    let (_target, to) = gannet();
    let folder = Folder::new("not-memcached");
    let (from, to) = (format!("memcached://127.0.0.1:{port}"), format!("memcached://127.0.0.1:{to}"));
    let (outcome, out, _) = migrate(&folder, &["--from", &from, "--to", &to, "--verify", "all"], 0);
    assert_whole(&outcome);
    let counts = &outcome.counts;
    assert_eq!((counts.seen, counts.copied, counts.gone, counts.skipped_sum()), (8, 1, 0, 7), "{out}");
    let count = |why: &str| counts.skipped.iter().find(|(reason, _)| reason.starts_with(why)).map(|(_, count)| *count);
    assert_eq!((count("the length of its key"), count("a hash, a list")), (Some(5), Some(2)), "{out}");
}

#[test]
fn expiries_of_hash_fields_are_copied_and_compared() {
    let begin = || {
        let args = ["--memcached", "none", "--resp", "127.0.0.1:0", "--admin", "none", "--memory", "64MiB"];
        let mut serving = Serving::start(&[&args[..], &["--workers", "1"]].concat());
        let port = serving.addr_behind("Redis clients connect to ").port();
        (serving, Resp::to(port), format!("redis://127.0.0.1:{port}"))
    };
    let ((_source, mut from, source), (_target, mut to, target)) = (begin(), begin());
    from.say("HSET hash a 1 b 2 c 3");
    from.say("HPEXPIREAT hash 4102444800123 FIELDS 2 a b");
    for n in 0..2_500 {
        from.say(&format!("HSET wide field:{n} {n}"));
    }
    from.say("HPEXPIREAT wide 4102444800456 FIELDS 2 field:7 field:2400");
    let folder = Folder::new("field-times");
    let args = ["--from", &source, "--to", &target, "--verify", "all"];
    let (outcome, out, _) = migrate(&folder, &args, 0);
    assert_eq!((outcome.counts.copied, outcome.counts.field_ttls), (2, 0), "{out}");
    for line in ["HPEXPIRETIME hash FIELDS 3 a b c", "HPEXPIRETIME wide FIELDS 3 field:7 field:8 field:2400"] {
        let (own, other) = (format!("{:?}", from.say(line)), format!("{:?}", to.say(line)));
        assert!(own == other && own.contains("4102444800"), "{own} {other}");
    }
    to.say("HPERSIST hash FIELDS 1 a");
    let (outcome, out, _) = migrate(&folder, &args, 4);
    assert_eq!(outcome.verified.map(|verified| (verified.expiry_differs, verified.same)), Some((1, 1)), "{out}");
}

/// A process of `gannet load warm` that a test can end. Dropping this value ends it.
struct Running(Child);

impl Running {
    fn begin(args: &[&str]) -> Self {
        let mut command = crate::common::gannet(&[&["migrate"], args].concat());
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Kills the process with SIGKILL, so that it prints and writes nothing more.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits until the process ends by itself. Returns its exit code.
    fn code(&mut self) -> Option<i32> {
        let mut status = None;
        wait_until("the end of the copy", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `is_so` returns true.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what} does not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the number of keys that the journal reports as copied.
fn journal_copied(path: &str) -> u64 {
    let Ok(text) = std::fs::read_to_string(path) else { return 0 };
    let rest = text.split("\"copied\": ").nth(1).unwrap_or("0");
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

#[test]
fn killed_copy_resumes_from_its_journal() {
    let folder = Folder::new("killed");
    let Some(old) = Peer::memcached(&["-I", "4m"]) else { return };
    let Some(redis) = Peer::redis_in(&folder, &[]) else { return };
    let (_serving, port) = gannet();
    let to = format!("memcached://127.0.0.1:{port}");
    let keys = fill(&mut Meta::to(old.port), 2000);
    let mut client = Resp::to(redis.port);
    (0..2000).for_each(|n| drop(client.say(&format!("SET other:{n} {n}"))));
    client.say("SAVE");
    let dump = folder.file("dump.rdb");
    for (from, count) in [(old.place("memcached"), keys.len() as u64), (redis.place("redis"), 2000), (dump, 2000)] {
        Meta::to(port).ask(b"flush_all\r\n");
        let journal = folder.file("journal.json");
        let _ = std::fs::remove_file(&journal);
        let args = ["--from", &from, "--to", &to, "--resume", &journal];
        let child = Running::begin(&[&args[..], &["--rate", "300"]].concat());
        wait_until("a journal with copied keys", || journal_copied(&journal) >= 200);
        child.kill();
        let told = journal_copied(&journal);
        assert!(told < count, "{from}: it was over before it was killed");
        let (outcome, out, _) = migrate(&folder, &[&args[..], &["--rate", "none", "--verify", "all"]].concat(), 0);
        assert_whole(&outcome);
        let counts = &outcome.counts;
        assert_eq!(
            (counts.seen, counts.copied + counts.already_there, outcome.resumed),
            (count, count, 1),
            "{from} {out}"
        );
        assert!(counts.copied >= told, "{from}: what the journal told is not copied again: {out}");
        assert_eq!(outcome.verified.unwrap().same, count, "{from} {out}");
        let (outcome, out, _) = migrate(&folder, &args, 0);
        assert_eq!((outcome.counts.seen, outcome.resumed), (count, 2), "{out}");
        assert!(out.contains("the journal shows that this copy is complete"), "{out}");
    }
    let other = ["--from", &old.place("memcached"), "--to", "127.0.0.1:1", "--resume", &folder.file("journal.json")];
    let (code, _, err) = run(&[&["migrate"], &other[..]].concat());
    assert!(code == 1 && err.contains("the journal of another copy: it copies from "), "{code}: {err}");
}

#[test]
fn keys_removed_between_listing_and_reading_are_counted_as_gone() {
    let folder = Folder::new("gone");
    let Some(old) = Peer::memcached(&["-I", "4m"]) else { return };
    let (_serving, port) = gannet();
    let mut from = Meta::to(old.port);
    for n in 0..500 {
        from.set(format!("k{n}").as_bytes(), b"v", 0, 0);
    }
    let (json, journal) = (folder.file("gone.json"), folder.file("j"));
    let place = old.place("memcached");
    let to = format!("127.0.0.1:{port}");
    let args = ["--from", &place, "--to", &to, "--resume", &journal, "--json", &json, "--rate", "100", "--quiet"];
    let mut child = Running::begin(&args);
    wait_until("a journal with copied keys", || journal_copied(&journal) >= 20);
    from.ask(b"flush_all\r\n");
    assert_eq!(child.code(), Some(0));
    let outcome = outcome_of(&std::fs::read_to_string(&json).unwrap());
    assert_whole(&outcome);
    let counts = &outcome.counts;
    assert!(counts.gone > 0 && counts.copied >= 20 && counts.gone + counts.copied == 500, "{counts:?}");
}

#[test]
fn copy_continues_after_a_server_restart_and_aborts_if_it_stays_down() {
    let folder = Folder::new("back");
    let Some(old) = Peer::redis_in(&folder, &[]) else { return };
    let Some(new) = Peer::redis_in(&folder, &[]) else { return };
    let mut from = Resp::to(old.port);
    (0..1000).for_each(|n| drop(from.say(&format!("SET k{n} {n}"))));
    let (json, journal) = (folder.file("back.json"), folder.file("j"));
    let (source, target) = (old.place("redis"), new.place("redis"));
    let args = ["--from", &source, "--to", &target, "--resume", &journal, "--json", &json, "--quiet"];
    let mut child = Running::begin(&[&args[..], &["--rate", "200", "--verify", "none", "--retries", "40"]].concat());
    wait_until("a journal with copied keys", || journal_copied(&journal) >= 50);
    let port = new.port;
    drop(new);
    let Some(new) = Peer::redis_at(port, &["--dir", folder.path().to_str().unwrap()]) else { return };
    assert_eq!(child.code(), Some(0));
    let counts = outcome_of(&std::fs::read_to_string(&json).unwrap()).counts;
    assert_eq!((counts.seen, counts.copied), (1000, 1000), "what the first one was answered for counts");
    drop(new);

    let (code, _, err) = run(&["migrate", "--from", &source, "--to", &target]);
    assert!(code == 1 && err.contains(&format!("{target}: Connection refused")), "{code}: {err}");
    let Some(new) = Peer::redis_at(port, &["--dir", folder.path().to_str().unwrap()]) else { return };
    std::fs::remove_file(&journal).unwrap();
    let mut child = Running::begin(&[&args[..], &["--rate", "200", "--retries", "1"]].concat());
    wait_until("a journal with copied keys", || journal_copied(&journal) >= 50);
    drop(new);
    assert_eq!(child.code(), Some(5), "it ended early");
    let outcome = outcome_of(&std::fs::read_to_string(&json).unwrap());
    let why = outcome.ended_early.unwrap();
    assert!(why.starts_with(&target) && why.contains(&format!("continue with --resume {journal}")), "{why}");
    let Some(_new) = Peer::redis_at(port, &["--dir", folder.path().to_str().unwrap()]) else { return };
    let (outcome, out, _) =
        migrate(&folder, &["--from", &source, "--to", &target, "--resume", &journal, "--verify", "none"], 0);
    assert_eq!((outcome.counts.seen, outcome.resumed), (1000, 1), "{out}");
}

/// Copies with `args` and a journal, and restarts a server with `restart` when keys are copied. If `is_resumed`, the
/// copy is killed before that, and resumed after it. Returns the outcome.
fn copy_across_a_restart(
    folder: &Folder,
    args: &[&str],
    is_resumed: bool,
    restart: impl FnOnce() -> Option<()>,
) -> Option<CopyOutcome> {
    let (json, journal) = (folder.file("outcome.json"), folder.file("j"));
    let _ = std::fs::remove_file(&journal);
    let args = [args, &["--resume", &journal, "--retries", "40"]].concat();
    let mut child = Running::begin(&[&args[..], &["--rate", "1000", "--json", &json, "--quiet"]].concat());
    wait_until("a journal with copied keys", || journal_copied(&journal) >= 300);
    let outcome = if is_resumed {
        child.kill();
        restart()?;
        migrate(folder, &args, 0).0
    } else {
        restart()?;
        assert_eq!(child.code(), Some(0));
        outcome_of(&std::fs::read_to_string(&json).unwrap())
    };
    assert_whole(&outcome);
    Some(outcome)
}

/// Checks that the outcome has a note about the restart of the server at `place`.
fn assert_note_of_restart(outcome: &CopyOutcome, place: &str) {
    let note = format!("{place} was restarted: the copy begins again");
    assert!(outcome.notes.iter().any(|found| found.starts_with(&note)), "{}", outcome.text());
}

#[test]
fn no_key_is_lost_if_the_source_restarts_during_the_copy_or_before_it_resumes() {
    let folder = Folder::new("source-restart");
    let Some(old) = Peer::redis_in(&folder, &[]) else { return };
    let (port, place) = (old.port, old.place("redis"));
    let mut client = Resp::to(port);
    (0..2000).for_each(|n| drop(client.say(&format!("SET k{n} {n}"))));
    client.say("SAVE");
    let mut source = Some(old);
    for is_resumed in [false, true] {
        let Some(new) = Peer::redis(&[]) else { return };
        let args = ["--from", &place, "--to", &new.place("redis"), "--verify", "all"];
        let outcome = copy_across_a_restart(&folder, &args, is_resumed, || {
            drop(source.take());
            source = Some(Peer::redis_at(port, &["--dir", folder.path().to_str().unwrap()])?);
            Some(())
        });
        let Some(outcome) = outcome else { return };
        let (counts, text) = (&outcome.counts, outcome.text());
        assert_eq!(Resp::to(new.port).say("DBSIZE"), Answer::Int(2000), "{text}");
        assert_eq!((counts.seen, counts.copied + counts.already_there), (2000, 2000), "{text}");
        assert!(counts.already_there >= 300, "{text}");
        assert_note_of_restart(&outcome, &place);
        assert_eq!(outcome.verified.unwrap().same, 2000, "{text}");
    }
}

#[test]
fn comparison_begins_again_if_the_source_restarts() {
    let folder = Folder::new("compare-restart");
    let Some(old) = Peer::redis_in(&folder, &[]) else { return };
    let Some(new) = Peer::redis(&[]) else { return };
    let (port, place) = (old.port, old.place("redis"));
    let mut client = Resp::to(port);
    (0..2000).for_each(|n| drop(client.say(&format!("SET k{n} {n}"))));
    client.say("SAVE");
    let (json, journal, to) = (folder.file("outcome.json"), folder.file("j"), new.place("redis"));
    let args = ["--from", &place, "--to", &to, "--resume", &journal, "--json", &json, "--quiet"];
    let mut child = Running::begin(&[&args[..], &["--rate", "1000", "--verify", "all", "--retries", "40"]].concat());
    let text = || std::fs::read_to_string(&journal).unwrap_or_default();
    wait_until("the end of the copy itself", || text().contains("\"is_complete\": true"));
    drop(old);
    let Some(_old) = Peer::redis_at(port, &["--dir", folder.path().to_str().unwrap()]) else { return };
    assert_eq!(child.code(), Some(0));
    let outcome = outcome_of(&std::fs::read_to_string(&json).unwrap());
    let text = outcome.text();
    assert!(text.contains(&format!("{place} was restarted: the comparison begins again")), "{text}");
    assert_eq!((outcome.counts.copied, outcome.verified.unwrap().looked_for), (2000, 2000), "{text}");
}

/// Starts Gannet for both protocols on these ports, with an empty store.
fn serve_at(memcached: u16, resp: u16) -> Serving {
    let (memcached, resp) = (format!("127.0.0.1:{memcached}"), format!("127.0.0.1:{resp}"));
    let args = ["--memcached", &memcached, "--resp", &resp, "--admin", "none", "--memory", "64MiB", "--workers", "1"];
    Serving::start(&args)
}

#[test]
fn no_key_is_lost_if_the_target_restarts_during_the_copy_or_before_it_resumes() {
    let folder = Folder::new("target-restart");
    let Some(old) = Peer::redis_in(&folder, &[]) else { return };
    let place = old.place("redis");
    let mut client = Resp::to(old.port);
    (0..2000).for_each(|n| drop(client.say(&format!("SET k{n} {n}"))));
    let (memcached, resp) = (free_port(), free_port());
    for to in [format!("redis://127.0.0.1:{resp}"), format!("memcached://127.0.0.1:{memcached}")] {
        for is_resumed in [false, true] {
            let mut serving = serve_at(memcached, resp);
            // Without a comparison nothing else shows that the target lacks keys.
            let args = ["--from", &place, "--to", &to, "--verify", "none"];
            let outcome = copy_across_a_restart(&folder, &args, is_resumed, || {
                serving.signal("KILL");
                serving.ended();
                serving = serve_at(memcached, resp);
                Some(())
            });
            let outcome = outcome.expect("the server starts");
            let text = outcome.text();
            assert_eq!(Resp::to(resp).say("DBSIZE"), Answer::Int(2000), "{text}");
            assert_eq!((outcome.counts.seen, outcome.counts.copied), (2000, 2000), "{text}");
            assert_note_of_restart(&outcome, &to);
        }
    }
}

#[test]
fn a_saved_file_is_copied_to_either_kind_of_server() {
    let folder = Folder::new("file");
    let Some(old) = Peer::redis_in(&folder, &[]) else { return };
    let mut from = Resp::to(old.port);
    fill_redis(&mut from);
    from.say("SET gone v PX 1");
    from.say("SELECT 2");
    from.say("SET elsewhere v");
    from.say("SELECT 0");
    from.say("SAVE");
    let dump = folder.file("dump.rdb");
    let Some(new) = Peer::redis_in(&folder, &[]) else { return };
    // The new server has loaded the file itself, because both servers use the same directory.
    let mut to = Resp::to(new.port);
    to.say("FLUSHALL");
    let (outcome, out, _) = migrate(&folder, &["--from", &dump, "--to", &new.place("redis"), "--verify", "all"], 0);
    assert_whole(&outcome);
    let all = from.all();
    let copied = to.all();
    assert!(all.keys().eq(copied.keys()), "{out}");
    for (key, own) in &all {
        assert!(*own == copied[key], "{}", key.escape_ascii());
    }
    assert_eq!(outcome.verified.unwrap().same, all.len() as u64, "{out}");
    assert!(
        out.contains("the key is in database 2, but only database 0 is copied; pass --db to copy another"),
        "{out}"
    );

    let (_serving, port) = gannet();
    let place = format!("127.0.0.1:{port}");
    let (outcome, out, _) = migrate(&folder, &["--from", &dump, "--to", &place, "--db", "2"], 0);
    assert_eq!(outcome.counts.copied, 1, "{out}");
    let (outcome, out, _) = migrate(&folder, &["--from", &dump, "--to", &place, "--verify", "all"], 0);
    assert_eq!(outcome.counts.copied, 704, "{out}");
    assert_whole(&outcome);
}

#[test]
fn damaged_dump_is_copied_only_if_accepted_and_up_to_the_damage() {
    let folder = Folder::new("damaged");
    let Some(old) = Peer::redis_in(&folder, &["--rdbcompression", "no"]) else { return };
    let mut from = Resp::to(old.port);
    (0..1000).for_each(|n| drop(from.say(&format!("SET key:{n} value:{n}"))));
    from.say("SAVE");
    let whole = std::fs::read(folder.file("dump.rdb")).unwrap();
    let (_serving, port) = gannet();
    let to = format!("127.0.0.1:{port}");
    let cut = folder.file("cut.rdb");
    let at = whole.len() / 2;
    std::fs::write(&cut, &whole[..at]).unwrap();
    let (code, _, err) = run(&["migrate", "--from", &cut, "--to", &to]);
    assert!(code == 1 && err.contains(&format!("{cut}: byte {}: the stored checksum is", at - 8)), "{code}: {err}");
    assert!(err.contains("--accept-damaged"), "{err}");
    assert_eq!(Meta::to(port).statistic("curr_items"), 0);
    let journal = folder.file("j");
    let args = ["--from", &cut, "--to", &to, "--accept-damaged", "--resume", &journal];
    let (outcome, _, err) = migrate(&folder, &args, 5);
    assert_whole(&outcome);
    let why = outcome.ended_early.unwrap();
    let byte: usize = why.strip_prefix(&format!("{cut}: byte ")).unwrap().split(':').next().unwrap().parse().unwrap();
    assert!(why.contains("the file ends in the middle") && (at - 8..=at).contains(&byte), "{why} {err}");
    let copied = outcome.counts.copied;
    assert!((400..600).contains(&copied), "{copied}");
    assert_eq!((Meta::to(port).statistic("curr_items"), journal_copied(&journal)), (copied, copied));
    let (code, _, err) = run(&["migrate", "--from", "/no/such.rdb", "--to", &to]);
    assert!(code == 1 && err.contains("/no/such.rdb: No such file"), "{err}");
}

#[test]
fn invalid_migrate_arguments_are_reported_together() {
    let args =
        ["--from", "ftp://x", "--to", "dump.rdb", "--rate", "fast", "--bytes", "5", "--verify", "101%", "--limit", "x"];
    let (code, _, err) = run(&[&["migrate"], &args[..]].concat());
    let flags = ["--from: ", "--to: ", "--rate: ", "--bytes: ", "--verify: ", "--limit: "];
    assert!(code == 2 && flags.iter().all(|flag| err.contains(flag)), "{code}: {err}");
    let same = format!("127.0.0.1:{}", free_port());
    let (code, _, err) = run(&["migrate", "--from", &same, "--to", &same]);
    assert!(code == 2 && err.contains("the same server as --from"), "{code}: {err}");
}

/// Returns the lines of a text that run the program.
fn examples(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches("$ "));
    let own = lines.filter(|line| line.starts_with("gannet migrate --"));
    own.map(|line| line.split_whitespace().skip(1).map(str::to_owned).collect()).collect()
}

#[test]
fn every_example_of_the_help_and_of_the_page_runs() {
    let page = include_str!("../../../../docs/migrate.md");
    let (_, help, _) = run(&["migrate", "--help"]);
    let (of_help, of_page) = (examples(&help), examples(page));
    assert!(of_help.len() == 4 && of_page.len() == 5, "{of_help:?} {of_page:?}");
    let folder = Folder::new("examples");
    let Some(memcached) = Peer::memcached(&["-I", "4m"]) else { return };
    let Some(redis) = Peer::redis_in(&folder, &[]) else { return };
    fill(&mut Meta::to(memcached.port), 300);
    let mut client = Resp::to(redis.port);
    fill_redis(&mut client);
    client.say("SET session:1 v");
    client.say("SAVE");
    let mut copied = 0;
    for example in of_help.into_iter().chain(of_page) {
        // Each example runs with its own servers, and without an existing journal.
        let Some(other) = Peer::redis_in(&folder, &["--dbfilename", "none.rdb"]) else { return };
        let (_serving, port) = gannet();
        let _ = std::fs::remove_file(folder.file("move.json"));
        let replaced = |word: &String| {
            let addresses = [("11211", memcached.port), ("11311", port), ("6379", redis.port), ("6380", other.port)];
            let word = addresses.iter().fold(word.clone(), |word, (old, new)| {
                word.replace(&format!("127.0.0.1:{old}"), &format!("127.0.0.1:{new}"))
            });
            if word.ends_with(".rdb") || word.ends_with(".json") { folder.file(&word) } else { word }
        };
        let words: Vec<String> = example.iter().map(replaced).collect();
        let (code, out, err) = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(code, 0, "{example:?}: {out}{err}");
        let line =
            out.lines().find_map(|line| line.trim_start().strip_prefix("copied")).expect("a line of copied keys");
        assert!(!line.trim_start().starts_with("0 "), "{example:?}: {out}");
        copied += 1;
    }
    assert!(copied == 9 && folder.path().join("moved.json").exists());
}

/// Starts a proxy that represents a server without meta commands. A connection that begins with the meta command `mn`
/// gets an error for it; all other bytes are passed to `port` and back. Returns the proxy's port.
fn without_meta(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let mut first = [0; 4];
                if from.read_exact(&mut first).is_ok() && &first == b"mn\r\n" {
                    from.write_all(b"ERROR\r\n").unwrap();
                } else {
                    to.write_all(&first).unwrap();
                }
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
            std::thread::spawn(move || std::io::copy(&mut &server, &mut &client));
        }
    });
    own
}

#[test]
fn copy_from_or_to_a_server_without_meta_commands_uses_text_commands() {
    let folder = Folder::new("old");
    let Some(old) = Peer::memcached(&["-I", "4m"]) else { return };
    let (_serving, port) = gannet();
    let mut from = Meta::to(old.port);
    let keys: Vec<Vec<u8>> = (0..300).map(|n| format!("text:{n}").into_bytes()).collect();
    for (n, key) in keys.iter().enumerate() {
        from.set(key, &vec![b'v'; n * 50], n as u32, [0, 5000][n % 2]);
    }
    from.set(b"not text", b"v", 0, 0);
    let source = format!("127.0.0.1:{}", without_meta(old.port));
    let (outcome, out, _) = migrate(&folder, &["--from", &source, "--to", &format!("127.0.0.1:{port}")], 0);
    assert_whole(&outcome);
    assert_eq!((outcome.counts.copied, outcome.counts.skipped_sum()), (300, 1), "{out}");
    assert!(out.contains("the source does not support meta commands"), "{out}");
    assert_same(&keys, &mut from, &mut Meta::to(port));

    let Some(new) = Peer::memcached(&["-I", "1m"]) else { return };
    from.set(b"large", &vec![b'x'; 2 << 20], 0, 0);
    let target = format!("127.0.0.1:{}", without_meta(new.port));
    let args = ["--from", &old.place("memcached"), "--to", &target, "--verify", "10%"];
    let (outcome, out, _) = migrate(&folder, &args, 0);
    assert_eq!((outcome.counts.copied, outcome.counts.skipped_sum()), (300, 2), "{out}");
    assert!(out.contains("the target does not support meta commands"), "{out}");
    assert!(out.contains("larger than the target allows"), "{out}");
    assert_same(&keys, &mut from, &mut Meta::to(new.port));
}

#[test]
fn copy_authenticates_to_memcached_and_writes_to_a_unix_socket() {
    let folder = Folder::new("auth");
    let users = folder.file("users");
    std::fs::write(&users, "bo:s3cret\n").unwrap();
    // The server drops its privileges before it reads the file again.
    let Some(old) = Peer::memcached(&["-I", "4m", "-Y", &users]) else { return };
    let mut from = Meta::to(old.port);
    assert_eq!(from.ask(b"set auth 0 0 9\r\nbo s3cret\r\n"), "STORED");
    (0..50).for_each(|n| from.set(format!("k{n}").as_bytes(), b"v", n, 0));
    let socket = folder.file("gannet.sock");
    let listen = format!("unix:{socket}");
    let args = ["--memcached", &listen, "--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "64MiB"];
    let mut serving = Serving::start(&args);
    let port = wait_for_port(&mut serving);
    let to = format!("memcached://unix:{socket}");
    let (code, _, err) = run(&["migrate", "--from", &old.place("memcached"), "--to", &to]);
    assert!(
        code == 1 && err.contains("unauthenticated") && err.contains("memcached://USER:PASSWORD@"),
        "{code}: {err}"
    );
    let with = |password: &str| format!("memcached://bo:{password}@127.0.0.1:{}", old.port);
    let (code, _, err) = run(&["migrate", "--from", &with("wrong"), "--to", &to]);
    assert!(code == 1 && !err.contains("wrong@"), "{code}: {err}");
    let (outcome, out, err) = migrate(&folder, &["--from", &with("s3cret"), "--to", &to, "--verify", "all"], 0);
    assert!(outcome.counts.copied == 50 && !out.contains("s3cret") && !err.contains("s3cret"), "{out}{err}");
    assert_eq!(Meta::to(port).read(b"k7").unwrap().flags, 7);
}

/// Returns the port of the TCP listener, whichever listener the log reports first.
fn wait_for_port(serving: &mut Serving) -> u16 {
    loop {
        let line = serving.wait_for("memcached clients connect to ");
        let place = line.split("memcached clients connect to ").nth(1).unwrap();
        if let Some(rest) = place.strip_prefix("127.0.0.1:") {
            return rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap();
        }
    }
}

#[test]
fn silent_or_foreign_server_is_distinguished_from_a_refused_connection() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let odd = TcpListener::bind("127.0.0.1:0").unwrap();
    let odd_place = odd.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut client in odd.incoming().map_while(Result::ok) {
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            // The connection stays open until its client closes it.
            let _ = client.read_to_end(&mut Vec::new());
        }
    });
    let nobody = format!("127.0.0.1:{}", free_port());
    let silent_place = silent.local_addr().unwrap().to_string();
    for (place, what) in [
        (format!("memcached://{silent_place}"), "the server does not reply"),
        (format!("redis://{silent_place}"), "the server does not reply"),
        (format!("memcached://{odd_place}"), "first word is not in the memcached protocol"),
        (format!("redis://{odd_place}"), "first byte is no RESP type"),
        (format!("memcached://{nobody}"), "Connection refused"),
    ] {
        let (code, _, err) = run(&["migrate", "--from", "redis://127.0.0.1:1", "--to", &place, "--timeout", "300ms"]);
        assert!(code == 1 && err.contains(what) && err.contains(&place), "{place}: {code}: {err}");
    }
}

#[test]
fn copy_stopped_at_its_limit_is_completed_by_a_second_run() {
    let folder = Folder::new("limit");
    let Some(old) = Peer::redis_in(&folder, &[]) else { return };
    let (_serving, port) = gannet();
    let mut from = Resp::to(old.port);
    (0..1000).for_each(|n| drop(from.say(&format!("SET k{n} {n}"))));
    let journal = folder.file("j");
    let args = ["--from", &old.place("redis"), "--to", &format!("127.0.0.1:{port}"), "--resume", &journal];
    let (outcome, out, _) = migrate(&folder, &[&args[..], &["--limit", "300", "--rate", "2k"]].concat(), 0);
    let first = outcome.counts.copied;
    assert!((300..500).contains(&first) && outcome.verified.is_none(), "{out}");
    assert!(out.contains("the keys were not compared, because --limit ended the copy early"), "{out}");
    assert_eq!(Meta::to(port).statistic("curr_items"), first);
    let (outcome, out, _) = migrate(&folder, &[&args[..], &["--verify", "all"]].concat(), 0);
    assert_whole(&outcome);
    let counts = &outcome.counts;
    assert_eq!((counts.seen, counts.copied + counts.already_there), (1000, 1000), "{out}");
    assert_eq!(outcome.verified.unwrap().same, 1000, "{out}");
}

#[test]
fn load_warm_is_the_same_command() {
    let (_serving, port) = gannet();
    let folder = Folder::new("alias");
    let source = folder.file("dump.rdb");
    std::fs::write(&source, b"REDIS0004\xfe\x00\x00\x03key\x05value\xff").unwrap();
    let args = ["--from", &source, "--to", &format!("memcached://127.0.0.1:{port}"), "--quiet"];
    let (outcome, out, _) = migrate(&folder, &args, 0);
    assert_eq!((outcome.counts.copied, outcome.counts.already_there), (1, 0), "{out}");
    let (code, out, err) = run(&[&["load", "warm", "--json", &folder.file("outcome.json")], &args[..]].concat());
    let outcome = outcome_of(&std::fs::read_to_string(folder.file("outcome.json")).unwrap());
    assert_eq!((code, outcome.counts.copied, outcome.counts.already_there), (0, 0, 1), "{out}{err}");
}
