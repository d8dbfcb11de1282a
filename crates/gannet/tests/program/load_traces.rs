//! Tests `gannet load record` and `gannet load replay` with real servers and with clients that are not aware of the
//! recorder. The tests check counts and sequences, not times.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use load::result::RunResult;
use trace::{RequestOutcome, Selection, TraceEntry, TraceReader, Verb};

use crate::common::{PATIENCE, Serving, ask, connect, free_port, gannet, run};
use crate::peers::{Folder, LIMITED, Peer};

const KEY: &str = "000102030405060708090a0b0c0d0e0f";

fn server() -> (Serving, String) {
    let args = ["--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "64MiB", "--workers", "1"];
    let mut serving = Serving::start(&args);
    let addr = serving.addr_behind("memcached clients connect to ").to_string();
    (serving, addr)
}

/// A running recorder.
struct Recording {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
}

impl Recording {
    /// Waits until the recorder records. Also returns the address for clients, if the recorder is a proxy.
    fn start(args: &[&str]) -> (Self, Option<SocketAddr>) {
        let mut command = gannet(&[&["load", "record", "--quiet"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("recording: "), "{line}");
        let address = line.split("connect to ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        (Self { child, said }, address)
    }

    fn proxy(path: &str, target: &str) -> (Self, SocketAddr) {
        let args = [path, "--listen", "127.0.0.1:0", "--target", target, "--key", KEY];
        let (recording, address) = Self::start(&args);
        (recording, address.expect("it says where it listens"))
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Ends the recorder as Ctrl-C does. Returns its output after that.
    fn ended(mut self) -> String {
        self.signal("INT");
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.said.read_to_string(&mut err).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {out}{err}");
        out
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn entries(path: &str) -> Vec<TraceEntry> {
    let mut reader = TraceReader::open(&Selection::new(path)).unwrap();
    std::iter::from_fn(|| reader.entry().unwrap()).collect()
}

/// Runs a replay, which must end with `code` or report that the generator was the limit. Returns its result and its
/// output.
fn replay(folder: &Folder, args: &[&str], code: i32) -> (RunResult, String) {
    let json = folder.file("replay.json");
    let (got, out, err) = run(&[&["load", "replay"], args, &["--json", &json, "--quiet"]].concat());
    assert!(got == code || got == LIMITED, "{args:?} ended with {got}, not {code}: {out}\n{err}");
    (RunResult::from_json(&std::fs::read_to_string(&json).unwrap()).unwrap(), out + &err)
}

/// Requests on one connection, each with the expected reply.
const TALK: [(&[u8], &[u8]); 11] = [
    (b"set alpha-alpha-1 0 60 5\r\nhello\r\n", b"STORED\r\n"),
    (b"set beta-beta-beta 0 0 300\r\n", b""),
    (b"get alpha-alpha-1 beta-beta-beta nothing-there\r\n", b""),
    (b"add alpha-alpha-1 0 0 1\r\nx\r\n", b"NOT_STORED\r\n"),
    (b"append alpha-alpha-1 0 0 4\r\nmore\r\n", b"STORED\r\n"),
    (b"gets alpha-alpha-1\r\n", b""),
    (b"touch alpha-alpha-1 100\r\n", b"TOUCHED\r\n"),
    (b"delete beta-beta-beta\r\n", b"DELETED\r\n"),
    (b"incr not-a-counter 1\r\n", b"NOT_FOUND\r\n"),
    (b"gat 30 alpha-alpha-1\r\n", b"VALUE alpha-alpha-1 0 9\r\nhellomore\r\nEND\r\n"),
    (b"get nothing-there\r\n", b"END\r\n"),
];

fn talk(addr: SocketAddr) {
    let mut client = connect(addr);
    let body = [b'v'; 300];
    for (at, (asked, answered)) in TALK.iter().enumerate() {
        match at {
            1 => ask(&mut client, &[asked, &body[..], b"\r\n"].concat(), b"STORED\r\n"),
            2 => {
                let head = b"VALUE alpha-alpha-1 0 5\r\nhello\r\nVALUE beta-beta-beta 0 300\r\n";
                ask(&mut client, asked, &[head, &body[..], b"\r\nEND\r\n"].concat());
            }
            5 => {
                client.write_all(asked).unwrap();
                let mut line = String::new();
                let mut reader = BufReader::new(&client);
                while line != "END\r\n" {
                    line.clear();
                    reader.read_line(&mut line).unwrap();
                }
            }
            _ => ask(&mut client, asked, answered),
        }
    }
}

#[test]
fn replayed_recording_repeats_its_verbs_keys_and_sizes() {
    let folder = Folder::new("round");
    let (first, second) = (folder.file("first.trace"), folder.file("second.trace"));
    let (_serving, addr) = server();
    let (recording, proxy) = Recording::proxy(&first, &addr);
    talk(proxy);
    let said = recording.ended();
    assert!(said.contains("13 requests from 1 connections"), "{said}");
    let original = entries(&first);
    let outcomes: Vec<RequestOutcome> = original.iter().map(|entry| entry.outcome).collect();
    use RequestOutcome::{Hit, Miss};
    assert_eq!(outcomes, [Hit, Hit, Hit, Hit, Miss, Miss, Hit, Hit, Hit, Hit, Miss, Hit, Miss]);

    let (_other, addr) = server();
    let (recording, proxy) = Recording::proxy(&second, &addr);
    let target = proxy.to_string();
    let (result, said) = replay(&folder, &[&first, "--target", &target, "--connections", "1", "--verify"], 0);
    assert_eq!(result.figures.counts.wrong, 0, "{said}");
    assert_eq!(result.figures.counts.answered, 11, "requests, that for three keys counted once: {said}");
    recording.ended();
    let again = entries(&second);
    assert_eq!(again.len(), original.len());
    let mut names: HashMap<u64, u64> = HashMap::new();
    for (one, other) in original.iter().zip(&again) {
        assert_eq!((one.verb, one.joined, one.key_bytes), (other.verb, other.joined, other.key_bytes));
        assert_eq!(
            (one.value_bytes, one.ttl_s, one.outcome),
            (other.value_bytes, other.ttl_s, other.outcome),
            "{one:?}"
        );
        assert_eq!(*names.entry(one.key).or_insert(other.key), other.key, "a key is the same one each time");
    }
    assert_eq!(names.values().collect::<std::collections::HashSet<_>>().len(), names.len(), "two keys are two");
}

#[test]
fn a_client_of_debians_memcached_does_not_notice_the_recorder() {
    let Some(memcached) = Peer::memcached(&[]) else { return };
    let folder = Folder::new("capable");
    let trace = folder.file("capable.trace");
    let (recording, proxy) = Recording::proxy(&trace, &memcached.target());
    let capable = |addr: SocketAddr| {
        let port = addr.port().to_string();
        let run = Command::new("memccapable").args(["-h", "127.0.0.1", "-p", &port, "-a"]).output();
        run.map(|output| (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    let (direct, through) = match (capable(memcached.addr()), capable(proxy)) {
        (Ok(direct), Ok(through)) => (direct, through),
        (Err(error), _) | (_, Err(error)) => {
            println!("SKIPPED: memccapable cannot be run ({error}); install libmemcached-tools to run this test");
            return;
        }
    };
    assert!(direct.1.contains("ascii set"), "{direct:?}");
    assert_eq!(direct, through);
    let said = recording.ended();
    let entries = entries(&trace);
    for verb in [Verb::Get, Verb::Gets, Verb::Set, Verb::Add, Verb::Replace, Verb::Cas, Verb::Delete, Verb::Incr] {
        assert!(entries.iter().any(|entry| entry.verb == verb), "{}: {said}", verb.name());
    }
}

#[test]
fn trace_of_a_killed_recorder_is_refused_and_replays_with_a_warning_if_that_is_allowed() {
    let folder = Folder::new("killed");
    let trace = folder.file("killed.trace");
    let (_serving, addr) = server();
    let (mut recording, proxy) = Recording::proxy(&trace, &addr);
    talk(proxy);
    // Completed requests are in the file within two seconds. After the kill the file has no end mark.
    let patience = Instant::now() + PATIENCE;
    while std::fs::metadata(&trace).unwrap().len() < 100 {
        assert!(Instant::now() < patience, "nothing is written");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    recording.signal("KILL");
    recording.child.wait().unwrap();
    let (code, out, err) = run(&["load", "replay", &trace, "--target", &addr]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("killed.trace: the trace has no end") && err.contains("pass --allow-cut"), "{err}");
    let (result, said) = replay(&folder, &[&trace, "--target", &addr, "--allow-cut"], 0);
    assert!(result.figures.counts.answered > 0 && said.contains("its recorder was killed"), "{said}");
}

/// Returns lines of a trace in Twitter's format: `each` reads per second; every fifth key is never stored.
fn lines(seconds: u64, each: u64) -> String {
    let line = |number: u64| {
        let key = number * 7 % 50;
        let (verb, ttl, size) =
            if number.is_multiple_of(3) && !key.is_multiple_of(5) { ("set", 3600, 100) } else { ("get", 0, 100) };
        format!("{},user:{key},20,{size},{},{verb},{ttl}\n", 1000 + number / each, number % 4)
    };
    (0..seconds * each).map(line).collect()
}

#[test]
fn production_lines_are_replayed_at_their_pace_checked_and_filled() {
    let (_serving, addr) = server();
    let folder = Folder::new("lines");
    let trace = folder.written("t.csv", &lines(3, 200));
    let args = [&trace, "--target", &addr, "--speed", "4", "--verify", "--threads", "2", "--connections", "8"];
    let (result, said) = replay(&folder, &args, 0);
    let counts = &result.figures.counts;
    assert_eq!((counts.due, counts.answered, counts.errors, counts.wrong), (600, 600, 0, 0), "{said}");
    assert!(counts.misses > 0 && said.contains("a trace at 4 times its speed"), "{said}");
    assert!(result.figures.duration_s > 0.5, "600 requests of three seconds, four times as fast: {said}");
    // Reads of keys that the trace never stores are hits if the keys are stored before the replay.
    let args = [&trace, "--target", &addr, "--rate", "2k", "--prefill", "--limit", "300", "--protocol", "meta"];
    let (result, said) = replay(&folder, &args, 0);
    let counts = &result.figures.counts;
    assert_eq!((counts.answered, counts.misses, counts.errors), (300, 0, 0), "{said}");
}

#[test]
fn access_trace_fills_missed_keys_and_its_loop_stops_at_the_limit() {
    let Some(redis) = Peer::redis(&[]) else { return };
    let folder = Folder::new("oracle");
    let bytes: Vec<u8> = (0..100u32).flat_map(|at| trace::oracle::access(at / 50, u64::from(at % 10), 64)).collect();
    let trace = folder.file("o.oracleGeneral");
    std::fs::write(&trace, bytes).unwrap();
    let target = redis.target();
    let args =
        [&trace, "--target", &target, "--protocol", "resp", "--speed", "20", "--loop", "--limit", "250", "--verify"];
    let (result, said) = replay(&folder, &args, 0);
    let fills = result.figures.verbs.iter().find(|verb| verb.name == "fill").map_or(0, |verb| verb.response.count);
    assert!(fills >= 10, "each object was stored when it was missed: {fills}: {said}");
    assert_eq!(result.figures.counts.wrong, 0, "{said}");
    assert!(result.figures.counts.misses <= fills && result.figures.counts.answered == 250 + fills, "{said}");
}

#[test]
fn bad_trace_line_is_reported_and_earlier_results_are_retained() {
    let (_serving, addr) = server();
    let folder = Folder::new("bad");
    let bad = folder.written("bad.csv", &format!("{}1003,user:1,20,oops,1,get,0\n", lines(3, 50)));
    let (result, said) = replay(&folder, &[&bad, "--target", &addr, "--speed", "10"], 5);
    assert!(said.contains("bad.csv:151: the value size \"oops\" is not a number"), "{said}");
    assert_eq!(result.figures.counts.answered, 100, "the seconds before the last are whole");
    let empty = folder.written("empty", "");
    let refused = [
        (vec![empty.as_str()], 1, "the file is empty; pass a trace"),
        (vec!["/no/such/trace"], 1, "/no/such/trace: cannot open the file"),
        (vec![bad.as_str(), "--speed", "0"], 2, "--speed: \"0\" is not a speed"),
        (vec![bad.as_str(), "--format", "pcap"], 2, "write recorded, twitter, oracle-general"),
        (vec![bad.as_str(), "--format", "recorded"], 1, "the file is not a recorded trace"),
        (vec![bad.as_str(), "--value-max", "0B"], 2, "--value-max: it must be from 1 to"),
    ];
    for (args, code, part) in refused {
        let (got, _, err) = run(&[&["load", "replay", "--target", &addr], args.as_slice()].concat());
        assert!(got == code && err.contains(part), "{args:?} ended with {got}: {err}");
    }
}

#[test]
fn a_trace_is_the_pace_of_another_workload_by_flag_and_by_file() {
    let (_serving, addr) = server();
    let folder = Folder::new("pace");
    let trace = folder.written("t.csv", &lines(2, 100));
    let json = folder.file("pace.json");
    let due = |args: &[&str]| {
        let (code, out, err) = run(&[&["load", "--warm-up", "0s", "--quiet", "--json", &json], args].concat());
        assert!(code == 0 || code == LIMITED, "{args:?} ended with {code}: {out}{err}");
        let result = RunResult::from_json(&std::fs::read_to_string(&json).unwrap()).unwrap();
        (result.figures.counts.due, out)
    };
    let arrivals = format!("trace:{trace}");
    let flags = ["--target", &addr, "--keys", "100", "--arrivals", &arrivals, "--speed", "5", "--threads", "2"];
    let (count, out) = due(&flags);
    assert!(count == 200 && out.contains("a trace at 5 times its speed"), "{count}: {out}");
    let pace = "[pace]\nkind = \"trace\"\nfile = \"t.csv\"\nspeed = 5.0\n";
    let keys = "[[keys]]\ncount = 100\nverbs = [{ verb = \"set\" }]\n";
    let workload = folder.written("w.toml", &[pace, keys].concat());
    assert_eq!(due(&["--workload", &workload, "--target", &addr]).0, 200);
    let (code, _, err) = run(&["load", "--target", &addr, "--arrivals", "trace:/no/such", "--no-prefill"]);
    assert!(code == 2 && err.contains("--arrivals: /no/such: cannot open the file"), "{err}");
    let (code, _, err) = run(&["load", "--target", &addr, "--arrivals", &arrivals, "--rate", "10"]);
    assert!(code == 2 && err.contains("a trace determines when requests are due"), "{err}");
}

/// Records with `args` while `asks` sends requests.
fn overheard(path: &str, args: &[&str], asks: impl Fn()) -> String {
    let (recording, _) = Recording::start(&[&[path], args].concat());
    // The recorder reports its start before the server has registered it as a watcher, so requests are sent until one
    // is recorded.
    let patience = Instant::now() + PATIENCE;
    loop {
        asks();
        if std::fs::metadata(path).is_ok_and(|file| file.len() > 200) {
            return recording.ended();
        }
        assert!(Instant::now() < patience, "nothing is recorded");
    }
}

#[test]
fn the_watch_streams_of_memcached_gannet_and_redis_become_traces() {
    let folder = Folder::new("watch");
    let (_serving, gannet) = server();
    let memcached = Peer::memcached(&[]);
    let mut servers = vec![("gannet", gannet)];
    servers.extend(memcached.as_ref().map(|memcached| ("memcached", memcached.target())));
    for (name, addr) in servers {
        let trace = folder.file(name);
        let said = overheard(&trace, &["--watch", &addr], || talk(addr.parse().unwrap()));
        let entries = entries(&trace);
        for verb in [Verb::Get, Verb::Set, Verb::Add, Verb::Append] {
            assert!(entries.iter().any(|entry| entry.verb == verb), "{name}: {}: {said}", verb.name());
        }
        let of = |verb: Verb, bytes: u32| entries.iter().filter(|e| (e.verb, e.value_bytes) == (verb, bytes)).count();
        let lookups = entries.iter().filter(|entry| entry.verb == Verb::Set).count();
        assert!(of(Verb::Set, 300) > 0 && of(Verb::Get, 300) > 0 && lookups < entries.len(), "{name}: {said}");
    }
    let Some(redis) = Peer::redis(&[]) else { return };
    let trace = folder.file("redis.csv");
    let said = overheard(&trace, &["--watch", &redis.target(), "--protocol", "resp", "--csv"], || {
        let mut client = connect(redis.addr());
        ask(
            &mut client,
            b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n",
            b"+OK\r\n$5\r\nvalue\r\n",
        );
    });
    let entries = entries(&trace);
    assert_eq!((entries[0].verb, entries[0].key_bytes, entries[0].value_bytes), (Verb::Set, 3, 5), "{said}");
    assert_eq!((entries[1].verb, entries[1].key), (Verb::Get, entries[0].key), "{said}");
}

#[test]
fn recorder_reports_invalid_arguments() {
    let folder = Folder::new("arguments");
    let there = folder.written("there", "kept");
    let refused = format!("127.0.0.1:{}", free_port());
    let cases = [
        (vec![there.as_str(), "--watch", &refused], 1, "check that the server is running"),
        (
            vec![there.as_str(), "--listen", "127.0.0.1:0", "--target", &refused],
            1,
            "name another file, or remove this one",
        ),
        (vec!["new", "--watch", "nowhere"], 2, "HOST:PORT"),
        (vec!["new", "--watch", &refused, "--key", "12"], 2, "the secret must be 32 hexadecimal digits"),
        (vec!["new"], 2, "--listen"),
    ];
    for (args, code, part) in cases {
        let (got, _, err) = run(&[&["load", "record"], args.as_slice()].concat());
        assert!(got == code && err.contains(part), "{args:?} ended with {got}: {err}");
    }
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "kept");
}

/// Runs every example of both helps against servers of this test, shortened.
#[test]
fn every_example_of_the_help_runs() {
    let Some(redis) = Peer::redis(&[]) else { return };
    let folder = Folder::new("examples");
    let (_serving, addr) = server();
    for name in ["day.trace", "cluster52.csv.zst"] {
        folder.written(name, &lines(1, 100));
    }
    let examples = |command: &str| {
        let (_, help, _) = run(&["load", command, "--help"]);
        let begins = format!("gannet load {command} ");
        let own = help.lines().map(str::trim).filter(|line| line.starts_with(&begins)).map(str::to_owned);
        own.collect::<Vec<String>>()
    };
    let (replays, records) = (examples("replay"), examples("record"));
    assert_eq!((replays.len(), records.len()), (3, 3));
    for (at, example) in replays.iter().chain(&records).enumerate() {
        let text = example
            .replace("--duration 60s", "--duration 300ms")
            .replace("--listen 127.0.0.1:11311", "--duration 300ms --listen 127.0.0.1:0")
            .replace("127.0.0.1:11211", &addr)
            .replace("127.0.0.1:6379", &redis.target());
        let words = text.split_whitespace().skip(1).map(|word| match word {
            "day.trace" if at >= replays.len() => folder.file("new.trace"),
            word if word.contains(".trace") || word.contains(".csv") => folder.file(word),
            word => word.to_owned(),
        });
        let words: Vec<String> = words.collect();
        let (code, out, err) = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(matches!(code, 0 | LIMITED), "{words:?} ended with {code}: {out}\n{err}");
    }
}
