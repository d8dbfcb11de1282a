//! Tests `gannet import` with real servers: all types, writers during and after the snapshot, lost connections, and
//! data that the target refuses.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::redis::{Connection, FromRedisValue, cmd};
use migrate::ImportOutcome;

use crate::common::{PATIENCE, Serving, free_port, run};
use crate::peers::{Folder, Peer, until};

/// Starts Gannet with the Redis protocol. Returns the server and its address.
pub fn serving() -> (Serving, String) {
    serving_with(&["--memory", "256MiB"])
}

/// Starts Gannet as [`serving`], with these arguments for its memory.
fn serving_with(memory: &[&str]) -> (Serving, String) {
    let port = free_port();
    let resp = format!("127.0.0.1:{port}");
    let free = ["--memcached", "127.0.0.1:0", "--admin", "none", "--workers", "1"];
    (Serving::start(&[&["--resp", &resp][..], &free, memory].concat()), format!("redis://{resp}"))
}

/// Starts redis-server so that it begins a snapshot at once.
fn redis(folder: &Folder, more: &[&str]) -> Option<Peer> {
    Peer::redis_in(folder, &[&["--repl-diskless-sync-delay", "0"], more].concat())
}

pub fn connect(address: &str) -> Connection {
    ::redis::Client::open(address).unwrap().get_connection_with_timeout(PATIENCE).expect("a connection")
}

pub fn ask<T: FromRedisValue>(connection: &mut Connection, words: &[&str]) -> T {
    let mut command = cmd(words[0]);
    command.arg(&words[1..]).query(connection).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// An import that runs. Dropping this value ends it.
pub struct Importing {
    child: Child,
    json: String,
}

impl Importing {
    pub fn begin(folder: &Folder, from: &str, to: &str, more: &[&str]) -> Self {
        let json = folder.file("outcome.json");
        let args = [&["import", from, "--to", to, "--json", &json][..], more].concat();
        let child = crate::common::gannet(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { child, json }
    }

    /// Waits until the import ends by itself. Returns its exit code and outcome.
    pub fn ended(&mut self) -> (Option<i32>, ImportOutcome) {
        let mut status = None;
        until("the end of the import", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let outcome = ImportOutcome::from_json(&std::fs::read_to_string(&self.json).unwrap()).unwrap();
        (status.and_then(|status| status.code()), outcome)
    }

    /// Sends Ctrl-C.
    pub fn interrupt(&self) {
        let sent = std::process::Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Importing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The source does not begin its snapshot within the time of the test.
#[test]
fn import_that_is_interrupted_before_the_snapshot_ends_early_and_not_with_a_failure() {
    let folder = Folder::new("import-early");
    let Some(source) = Peer::redis_in(&folder, &["--repl-diskless-sync-delay", "600"]) else { return };
    let (_serving, to) = serving();
    let from = source.place("redis");
    let args = ["import", &from, "--to", &to];
    let child = crate::common::gannet(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut importing = Importing { child, json: String::new() };
    let mut watcher = connect(&from);
    until("the replica", || ask::<String>(&mut watcher, &["INFO", "replication"]).contains("connected_slaves:1"));
    importing.interrupt();
    let mut status = None;
    until("the end of the import", || {
        status = importing.child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(5));
}

/// Stores keys of each type, small and large.
fn fill(server: &mut Connection) {
    for n in 0..2000 {
        ask::<()>(server, &["SET", &format!("s:{n}"), &format!("value {}", n * n)]);
    }
    ask::<()>(server, &["SET", "s:expires", "v", "PXAT", "4102444800123"]);
    ask::<()>(server, &["SET", "s:gone", "v", "PX", "1"]);
    ask::<()>(server, &["SET", "s:packed", &"abc".repeat(100_000)]);
    cmd("SET").arg("s:binary\r\n").arg((0..=255).collect::<Vec<u8>>()).exec(server).unwrap();
    ask::<()>(server, &["SETBIT", "s:bits", "1000", "1"]);
    ask::<()>(server, &["PFADD", "s:hll", "a", "b", "c"]);
    let many: Vec<String> = (0..5000u64).map(|n| format!("{}", n * n * n)).chain(["x".repeat(10_000)]).collect();
    let few = ["a", "", "-1", "4096", "9223372036854775807"];
    for (size, members) in [("few", few.to_vec()), ("many", many.iter().map(String::as_str).collect())] {
        let pairs: Vec<&str> = members.iter().flat_map(|member| [*member, *member]).collect();
        let scores: Vec<String> = (0..members.len()).map(|n| format!("{}", (n as f64 - 3.0) / 7.0)).collect();
        let scored: Vec<&str> =
            scores.iter().zip(&members).flat_map(|(score, member)| [score.as_str(), *member]).collect();
        for (command, values) in [("RPUSH", &members), ("SADD", &members), ("ZADD", &scored), ("HSET", &pairs)] {
            let key = format!("{command}:{size}");
            ask::<()>(server, &[&[command, &key][..], values].concat());
            ask::<()>(server, &["COPY", &key, &format!("{key}:expires")]);
            ask::<()>(server, &["PEXPIREAT", &format!("{key}:expires"), "4102444800123"]);
        }
    }
    for (size, entries) in [("few", 5), ("many", 30_000)] {
        let key = format!("XADD:{size}");
        let mut adds = ::redis::pipe();
        (1..=entries).for_each(|n| {
            adds.cmd("XADD").arg(&key).arg(format!("{n}-{}", n % 3)).arg("field").arg(n).ignore();
        });
        adds.exec(server).unwrap();
        ask::<()>(server, &["XGROUP", "CREATE", &key, "group", "0"]);
        ask::<::redis::Value>(server, &["XREADGROUP", "GROUP", "group", "one", "COUNT", "400", "STREAMS", &key, ">"]);
        ask::<()>(server, &["XACK", &key, "group", "1-1", "2-2"]);
        ask::<()>(server, &["XDEL", &key, "3-0"]);
    }
    ask::<()>(server, &["SADD", "SADD:integers", "1", "-2", "70000"]);
    ask::<()>(server, &["ZADD", "ZADD:odd", "inf", "a", "-inf", "b", "0.1", "c", "1e300", "d"]);
    ask::<()>(server, &["SELECT", "3"]);
    ask::<()>(server, &["SET", "other", "3"]);
    ask::<()>(server, &["SELECT", "0"]);
    ask::<()>(server, &["FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 7 end)"]);
}

/// A client that changes the keys of all types until it is stopped.
struct Writer {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Writer {
    fn start(address: &str) -> Self {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (stop, mut server) = (is_stopped.clone(), connect(address));
        let thread = std::thread::spawn(move || {
            let mut rounds = 0;
            // The group exists if the source was filled.
            let _ = cmd("XGROUP").arg(&["CREATE", "XADD:many", "group", "0", "MKSTREAM"]).exec(&mut server);
            while !stop.load(Ordering::Relaxed) {
                write(&mut server, rounds);
                rounds += 1;
            }
            rounds
        });
        Self { is_stopped, thread }
    }

    fn stop(self) -> u64 {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn write(server: &mut Connection, round: u64) {
    let (n, other) = (round.to_string(), (round % 50).to_string());
    for words in [
        &["INCR", "w:counter"][..],
        &["SET", &format!("w:s:{other}"), &n, "EX", "1000"],
        &["APPEND", "w:text", &n],
        &["DEL", &format!("s:{}", round % 2000)],
        &["RPUSH", "RPUSH:many", &n],
        &["LPOP", "RPUSH:many"],
        &["SADD", "SADD:many", &n],
        &["SPOP", "SADD:many"],
        &["ZINCRBY", "ZADD:many", "0.1", &other],
        &["HINCRBYFLOAT", "w:hash", &other, "0.25"],
        &["XADD", "XADD:many", "MAXLEN", "~", "30000", "*", "field", &n],
        &["XREADGROUP", "GROUP", "group", &other, "COUNT", "3", "STREAMS", "XADD:many", ">"],
        &["XAUTOCLAIM", "XADD:many", "group", "two", "0", "0", "COUNT", "1"],
        &["RENAME", "w:text", "w:renamed"],
        &["EXPIRE", "w:renamed", "500"],
        &["SELECT", "5"],
        &["INCR", "w:counter"],
        &["SELECT", "0"],
    ] {
        ask::<::redis::Value>(server, words);
    }
    let script = "redis.call('INCR', 'w:script') redis.call('SELECT', '6') redis.call('RPUSH', 'w:list', ARGV[1]) \
                  redis.call('INCR', 'w:script')";
    ask::<()>(server, &["EVAL", script, "0", &n]);
    let mut transaction = ::redis::pipe();
    transaction.atomic().cmd("INCR").arg("w:one").cmd("INCR").arg("w:two");
    transaction.exec(server).unwrap();
}

fn assert_equal(outcome: &ImportOutcome) {
    assert_eq!(outcome.ended_early, None, "{outcome:?}");
    assert_eq!((outcome.lag_bytes, outcome.counts.refused_sum()), (Some(0), 0), "{}", outcome.text());
    let verified = outcome.verified.as_ref().expect("a comparison");
    assert_eq!((verified.differ(), verified.missing), (0, 0), "{}", outcome.text());
}

/// Stores hashes some of whose fields expire, which Redis 7.0 does not have.
fn fill_fields(server: &mut Connection) {
    for (key, fields) in [("fields:few", 5), ("fields:many", 4000)] {
        for n in 0..fields {
            ask::<()>(server, &["HSET", key, &format!("f{n}"), &n.to_string()]);
        }
        ask::<Vec<i64>>(server, &["HPEXPIREAT", key, "4102444800123", "FIELDS", "2", "f1", "f3"]);
        ask::<Vec<i64>>(server, &["HPEXPIRE", key, "1", "FIELDS", "1", "f4"]);
    }
}

#[test]
fn imported_data_equals_the_source_after_a_cut_over_under_writers() {
    for (program, diskless) in [("redis", "yes"), ("redis", "no"), ("valkey", "yes")] {
        let folder = Folder::new("import");
        let args = ["--repl-diskless-sync", diskless];
        let source = match program {
            "redis" => redis(&folder, &args),
            _ => Peer::valkey_in(&folder, &[&args[..], &["--repl-diskless-sync-delay", "0"]].concat()),
        };
        let Some(source) = source else { return };
        let address = source.place("redis");
        fill(&mut connect(&address));
        if program == "valkey" {
            fill_fields(&mut connect(&address));
        }
        let (_serving, to) = serving();
        let writer = Writer::start(&address);
        let mut importing = Importing::begin(&folder, &address, &to, &["--cut-over", "--verify", "all"]);
        let mut target = connect(&to);
        until("commands are applied", || ask::<Option<u64>>(&mut target, &["GET", "w:counter"]).unwrap_or(0) > 10);
        std::thread::sleep(Duration::from_millis(500));
        assert!(importing.child.try_wait().unwrap().is_none(), "the source was not quiet");
        let rounds = writer.stop();
        let (code, outcome) = importing.ended();
        assert_equal(&outcome);
        assert_eq!((code, outcome.full_syncs), (Some(0), 1), "{}", outcome.text());
        // The writers remove some keys before the snapshot.
        assert!(outcome.counts.keys > 1000 && outcome.counts.commands > 100, "{}", outcome.text());
        assert_eq!(outcome.counts.functions, 1);
        assert_eq!(ask::<u64>(&mut target, &["GET", "w:counter"]), rounds);
        assert_eq!(ask::<u64>(&mut target, &["FCALL", "f", "0"]), 7);
        let mut from = connect(&address);
        for key in ["XADD:few", "XADD:many"] {
            for words in [["XPENDING", key, "group"], ["XINFO", "GROUPS", key]] {
                // Redis does not send `entries-read` to its replicas.
                let [ours, theirs] = [&mut target, &mut from]
                    .map(|server| format!("{:?}", ask::<::redis::Value>(server, &words)))
                    .map(|reply| reply.split("entries-read").next().map(str::to_owned));
                assert_eq!(ours, theirs, "{words:?}");
            }
        }
        for key in ["fields:few", "fields:many"] {
            let [ours, theirs] = [&mut target, &mut from].map(|server| {
                let fields = ["HPEXPIRETIME", key, "FIELDS", "4", "f0", "f1", "f3", "f4"];
                let times = (program == "valkey").then(|| ask::<Vec<i64>>(server, &fields));
                (times, ask::<u64>(server, &["HLEN", key]))
            });
            assert_eq!(ours, theirs, "{program}: {key}");
        }
        ask::<()>(&mut target, &["SELECT", "6"]);
        assert_eq!(ask::<u64>(&mut target, &["GET", "w:script"]), rounds);
    }
}

#[test]
fn commands_are_applied_once_when_the_source_is_lost_and_data_is_loaded_again_when_it_was_restarted() {
    let folder = Folder::new("import-lost");
    let Some(source) = redis(&folder, &[]) else { return };
    let (address, port) = (source.place("redis"), source.port);
    let (_serving, to) = serving();
    let mut target = connect(&to);
    let args = ["--cut-over", "--verify", "all", "--retries", "40"];
    let mut importing = Importing::begin(&folder, &address, &to, &args);
    let writer = Writer::start(&address);
    let mut admin = connect(&address);
    let mut executed = 20;
    for _ in 0..=5 {
        // A replica that receives what the source executed after the kill is attached again.
        until("commands are applied", || {
            ask::<Option<u64>>(&mut target, &["GET", "w:counter"]).unwrap_or(0) > executed
        });
        until("the replica is attached", || ask::<u64>(&mut admin, &["CLIENT", "KILL", "TYPE", "replica"]) == 1);
        executed = ask(&mut admin, &["GET", "w:counter"]);
    }
    let rounds = writer.stop();
    until("all is applied", || ask::<u64>(&mut target, &["GET", "w:counter"]) == rounds);
    // The source ends without a file, and another one with the same address has other data.
    ask::<()>(&mut admin, &["SET", "only-before", "v"]);
    drop(source);
    let Some(source) = Peer::redis_at(port, &["--repl-diskless-sync-delay", "0"]) else { return };
    ask::<()>(&mut connect(&source.place("redis")), &["SET", "only-after", "v"]);
    let (code, outcome) = importing.ended();
    assert_equal(&outcome);
    assert_eq!((code, outcome.full_syncs), (Some(0), 2), "{}", outcome.text());
    assert!(outcome.partial_syncs >= 5, "{}", outcome.text());
    assert_eq!(ask::<Option<String>>(&mut target, &["GET", "only-after"]).as_deref(), Some("v"));
    assert_eq!(ask::<u64>(&mut target, &["DBSIZE"]), 1, "keys of the earlier data stay");
}

/// Stores keys that take this many bytes together, so that a snapshot is not loaded at once.
fn pad(server: &mut Connection, bytes: usize) {
    const VALUE_BYTES: usize = 500;
    let mut sets = ::redis::pipe();
    for n in 0..bytes / VALUE_BYTES {
        // Different values, which a snapshot cannot compress.
        let value: String =
            (0..VALUE_BYTES as u64).map(|at| char::from(33 + ((n as u64 + 7) * at * at % 89) as u8)).collect();
        sets.cmd("SET").arg(format!("pad:{n}")).arg(value).ignore();
    }
    sets.exec(server).unwrap();
}

#[test]
fn key_that_the_source_keeps_extending_does_not_expire_while_the_target_is_behind() {
    let folder = Folder::new("import-extended");
    let Some(source) = redis(&folder, &[]) else { return };
    let address = source.place("redis");
    let mut server = connect(&address);
    pad(&mut server, 4_000_000);
    for n in 0..20 {
        ask::<()>(&mut server, &["HSET", &format!("session:{n}"), "first", "1"]);
        ask::<()>(&mut server, &["PEXPIRE", &format!("session:{n}"), "1000"]);
    }
    ask::<()>(&mut server, &["SET", "expires", "v", "PX", "1500"]);
    ask::<()>(&mut server, &["SET", "in-2101", "v", "EXAT", "4150000007"]);
    ask::<()>(&mut server, &["SET", "renamed", "v", "PX", "60000"]);
    let (_serving, to) = serving();
    let args = ["--rate", "1MB", "--cut-over", "--verify", "all"];
    let mut importing = Importing::begin(&folder, &address, &to, &args);
    let (begun, mut target) = (Instant::now(), connect(&to));
    let mut was_behind = false;
    while begun.elapsed() < Duration::from_secs(6) {
        for n in 0..20 {
            let key = format!("session:{n}");
            ask::<()>(&mut server, &["HINCRBY", &key, "visits", "1"]);
            ask::<()>(&mut server, &["PEXPIRE", &key, "1000"]);
            // A key that was created after the snapshot, and is extended too.
            let created = format!("created:{n}");
            if ask::<u64>(&mut server, &["PEXPIRE", &created, "1000"]) == 0 {
                ask::<()>(&mut server, &["SET", &created, "v", "PX", "1000"]);
            }
        }
        if begun.elapsed() < Duration::from_secs(2) {
            was_behind |= ask::<u64>(&mut target, &["EXISTS", "created:0"]) == 0;
            let _ = cmd("RENAMENX").arg("renamed").arg("moved").exec(&mut server);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let (code, outcome) = importing.ended();
    assert!(was_behind, "the snapshot was loaded before a key could expire");
    assert_eq!(outcome.ended_early, None, "{outcome:?}");
    // The last expiry may pass between the two reads of the comparison.
    let gone = ask::<u64>(&mut server, &["EXISTS", "session:0"]) == 0;
    assert!(code == Some(0) || gone, "{code:?}: {}", outcome.text());
    assert_eq!((outcome.full_syncs, outcome.counts.refused_sum()), (1, 0), "{}", outcome.text());
    for key in ["in-2101", "moved"] {
        let [ours, theirs] = [&mut target, &mut server].map(|side| ask::<i64>(side, &["PEXPIRETIME", key]));
        assert_eq!(ours, theirs, "{key}");
    }
    assert_eq!(ask::<u64>(&mut target, &["EXISTS", "expires"]), 0);
}

#[test]
fn key_whose_change_the_target_refused_is_missing_until_it_is_replaced() {
    let folder = Folder::new("import-refused");
    let Some(source) = redis(&folder, &[]) else { return };
    let address = source.place("redis");
    let mut server = connect(&address);
    ask::<()>(&mut server, &["SET", "plain", "1"]);
    let (_serving, to) = serving_with(&["--memory", "256MiB", "--item-max", "1MiB"]);
    let mut importing = Importing::begin(&folder, &address, &to, &[]);
    let mut target = connect(&to);
    until("the snapshot", || ask::<Option<String>>(&mut target, &["GET", "plain"]).is_some());
    let long = "x".repeat(3_000_000);
    for words in [
        &["SET", "big", &long][..],
        &["APPEND", "big", "y"],
        &["SET", "other", &long],
        &["APPEND", "other", "y"],
        &["SET", "other", "short"],
        &["APPEND", "other", "y"],
        &["RENAME", "big", "moved"],
        &["SET", "last", "1"],
    ] {
        ask::<::redis::Value>(&mut server, words);
    }
    until("the stream", || ask::<Option<String>>(&mut target, &["GET", "last"]).is_some());
    until("the deletions", || ask::<u64>(&mut target, &["EXISTS", "big", "moved"]) == 0);
    assert_eq!(ask::<String>(&mut target, &["GET", "other"]), "shorty");
    importing.interrupt();
    let (code, outcome) = importing.ended();
    assert_eq!(code, Some(1), "{}", outcome.text());
    let listed = "keys are missing at the target, because it refused a change of them: ";
    let note = outcome.notes.iter().find_map(|note| note.split_once(listed));
    assert!(note.is_some_and(|(_, keys)| keys.contains("moved") && !keys.contains("other")), "{:?}", outcome.notes);
}

#[test]
fn keys_that_the_target_evicts_are_counted_and_make_the_import_fail() {
    let folder = Folder::new("import-evicted");
    let Some(source) = redis(&folder, &[]) else { return };
    let address = source.place("redis");
    let mut server = connect(&address);
    pad(&mut server, 40_000_000);
    let (_serving, to) = serving_with(&["--memory", "32MiB"]);
    let (code, outcome) = Importing::begin(&folder, &address, &to, &["--cut-over"]).ended();
    let [stored, all] = [connect(&to), server].map(|mut side| ask::<u64>(&mut side, &["DBSIZE"]));
    assert!(stored < all, "the target has room for everything");
    let evicted = outcome.counts.refused.iter().find(|(why, _)| why.contains("evicted by the target"));
    assert_eq!(evicted.map(|(_, count)| *count), Some(all - stored), "{}", outcome.text());
    assert_eq!(code, Some(1), "{}", outcome.text());
}

#[test]
fn source_that_stops_replying_is_not_taken_for_a_quiet_one() {
    let folder = Folder::new("import-frozen");
    let Some(source) = redis(&folder, &[]) else { return };
    let address = source.place("redis");
    let mut server = connect(&address);
    ask::<()>(&mut server, &["SET", "before", "1"]);
    let id = ask::<String>(&mut server, &["INFO", "server"]);
    let id = id.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().to_owned();
    let signal = |name: &str| {
        let sent = std::process::Command::new("kill").args([name, &id]).status();
        assert!(sent.expect("kill runs").success());
    };
    let (_serving, to) = serving();
    let mut target = connect(&to);
    let mut importing = Importing::begin(&folder, &address, &to, &["--cut-over", "--timeout", "1s"]);
    until("the snapshot is loaded", || ask::<u64>(&mut target, &["EXISTS", "before"]) == 1);
    signal("-STOP");
    std::thread::sleep(Duration::from_secs(5));
    let is_running = importing.child.try_wait().unwrap().is_none();
    signal("-CONT");
    ask::<()>(&mut server, &["SET", "after", "1"]);
    assert!(is_running, "{:?}", importing.ended());
    let (code, outcome) = importing.ended();
    assert_eq!((code, outcome.lag_bytes), (Some(0), Some(0)), "{}", outcome.text());
    assert_eq!(ask::<u64>(&mut target, &["EXISTS", "after"]), 1, "{}", outcome.text());
}

#[test]
fn interrupted_import_keeps_what_it_applied_and_reports_the_lag() {
    let folder = Folder::new("import-stop");
    let Some(source) = redis(&folder, &[]) else { return };
    let address = source.place("redis");
    let mut server = connect(&address);
    ask::<()>(&mut server, &["SET", "before", "1"]);
    ask::<()>(&mut server, &["SELECT", "2"]);
    ask::<()>(&mut server, &["SET", "in-two", "1"]);
    let (_serving, to) = serving();
    let mut importing = Importing::begin(&folder, &format!("{address}/2"), &format!("{to}/4"), &[]);
    let mut target = connect(&format!("{to}/4"));
    until("the snapshot is loaded", || ask::<u64>(&mut target, &["DBSIZE"]) == 1);
    ask::<()>(&mut server, &["SET", "later", "1"]);
    ask::<()>(&mut server, &["COPY", "later", "copied", "DB", "2"]);
    ask::<()>(&mut server, &["MOVE", "later", "7"]);
    ask::<()>(&mut server, &["COPY", "copied", "elsewhere", "DB", "7"]);
    ask::<()>(&mut server, &["SELECT", "0"]);
    ask::<()>(&mut server, &["SET", "in-zero", "1"]);
    assert_eq!(ask::<u64>(&mut server, &["WAIT", "1", "5000"]), 1, "the import acknowledges what it has applied");
    assert_eq!(ask::<u64>(&mut target, &["EXISTS", "in-two", "later", "copied"]), 2);
    ask::<()>(&mut server, &["COPY", "in-zero", "from-zero", "DB", "2"]);
    until("the replica has acknowledged everything", || {
        let replication: String = ask(&mut server, &["INFO", "replication"]);
        let offset = |name: &str| {
            let rest = replication.split(name).nth(1)?;
            Some(rest.chars().take_while(char::is_ascii_digit).collect::<String>())
        };
        offset(",offset=").is_some() && offset(",offset=") == offset("master_repl_offset:")
    });
    importing.interrupt();
    let (code, outcome) = importing.ended();
    assert_eq!((code, outcome.lag_bytes), (Some(1), Some(0)), "{}", outcome.text());
    assert_eq!(outcome.counts.refused.values().sum::<u64>(), 1, "{}", outcome.text());
    assert!(outcome.text().contains("COPY: it brings keys of a database that is not imported"), "{}", outcome.text());
    assert_eq!(outcome.counts.not_chosen, 3, "a key of the snapshot and two commands: {}", outcome.text());
    assert_eq!(ask::<u64>(&mut target, &["DBSIZE"]), 2);
    let (code, _, err) = run(&["import", &address, "--to", &to]);
    assert!(code == 1 && err.contains("database 4 has 2 keys") && err.contains("pass --flush"), "{code}: {err}");
}

#[test]
fn source_that_cannot_be_imported_is_reported_with_its_remedy() {
    let folder = Folder::new("import-bad");
    let (mut serving, to) = serving();
    let memcached = serving.addr_behind("memcached clients connect to ");
    let Some(closed) = redis(&folder, &["--requirepass", "secret"]) else { return };
    let port = closed.port;
    let begun = Instant::now();
    for (from, expected) in [
        (format!("redis://127.0.0.1:{port}"), "NOAUTH"),
        (format!("redis://:wrong@127.0.0.1:{port}"), "write the right user and password in the address"),
        (format!("redis://{memcached}"), "it replies as memcached does"),
        (format!("redis://127.0.0.1:{}", free_port()), "Connection refused"),
    ] {
        let (code, _, err) = run(&["import", &from, "--to", &to]);
        assert!(code == 1 && err.contains("cannot import: ") && err.contains(expected), "{from}: {code}: {err}");
        assert!(!err.contains("wrong@"), "{err}");
    }
    for (args, expected) in [
        (["import", "memcached://h:1", "--to", &to], "use gannet migrate"),
        (["import", "dump.rdb", "--to", &to], "gannet migrate --from"),
        (["import", &to, "--to", &to], "it is the same server"),
        (["import", "redis://h:1", "--to", &format!("{to}/3")], "name one of the source too"),
    ] {
        let (code, _, err) = run(&args);
        assert!(code == 2 && err.contains(expected), "{args:?}: {code}: {err}");
    }
    assert!(begun.elapsed() < PATIENCE);
    assert!(!serving.has_ended());
}
