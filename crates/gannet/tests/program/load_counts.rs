//! Compares the counts of `gannet load` with those of memcached and redis-server, number by number.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use load::result::RunResult;

use crate::common::{PATIENCE, run};
use crate::peers::{Folder, LIMITED};

/// A server that listens on a Unix socket in a temporary directory. Dropping this value ends the server by its process
/// id.
struct Served {
    child: Child,
    folder: Folder,
}

impl Served {
    fn start(name: &str, command: impl FnOnce(&Path) -> Command) -> Self {
        let folder = Folder::new(name);
        let mut command = command(&folder.path().join("s.sock"));
        let child = command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let served = Self { child: child.unwrap_or_else(|error| panic!("{name}: {error}; install it")), folder };
        let end = Instant::now() + PATIENCE;
        while UnixStream::connect(served.socket()).is_err() {
            assert!(Instant::now() < end, "{name} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    fn memcached(name: &str) -> Self {
        Self::start(name, |socket| {
            let mut command = Command::new("memcached");
            command.args(["-u", "nobody", "-t", "1", "-a", "0777", "-s"]).arg(socket);
            command
        })
    }

    fn redis(name: &str) -> Self {
        Self::start(name, |socket| {
            let mut command = Command::new("redis-server");
            command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(socket);
            command
        })
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s.sock")
    }

    fn target(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// Returns the number in the line of the reply to `question` that begins with `head`; 0 if there is no such line.
    fn told(&self, question: &str, head: &str) -> u64 {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{question}\r\nquit\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let rest = text.lines().find_map(|line| line.strip_prefix(head)).unwrap_or("0");
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    }

    fn stat(&self, name: &str) -> u64 {
        self.told("stats", &format!("STAT {name} "))
    }

    fn calls(&self, command: &str) -> u64 {
        self.told("INFO commandstats", &format!("cmdstat_{command}:calls="))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `gannet load` against `served`. Returns its result and its standard output.
fn loaded(served: &Served, args: &[&str]) -> (RunResult, String) {
    let (json, target) = (served.folder.file("a.json"), served.target());
    let usual = ["load", "--target", &target, "--warm-up", "0s", "--quiet", "--json", &json];
    let (code, out, err) = run(&[&usual[..], args].concat());
    assert!(matches!(code, 0 | LIMITED), "{args:?}: {code}: {out}{err}");
    let result = served.folder.result("a.json");
    assert_eq!(result.figures.counts.unanswered, 0, "{out}");
    (result, out)
}

/// Returns the number of replies with this verb and fate.
fn of(result: &RunResult, verb: &str, fate: &str) -> u64 {
    let groups = result.figures.verbs.iter().filter(|group| group.name == verb && group.outcome == fate);
    groups.map(|group| group.response.count).sum()
}

#[test]
fn a_prefilled_run_with_a_sampler_is_counted_by_memcached_alike() {
    for protocol in ["memcache", "meta"] {
        let served = Served::memcached(&format!("sampler-{protocol}"));
        let args = ["--protocol", protocol, "--rate", "2k", "--duration", "500ms", "--keys", "700", "--verify"];
        let (result, out) = loaded(&served, &[&args[..], &["--sampler", "200"]].concat());
        let counts = &result.figures.counts;
        assert_eq!((counts.misses, counts.errors, counts.wrong), (0, 0, 0), "{out}");
        let sampler = result.figures.sampler.as_ref().unwrap();
        assert!((40..=180).contains(&sampler.count), "200 a second for half a second: {}", sampler.count);
        assert!(out.contains("sampler"), "{out}");
        // Bulk and sampler draw from the same workload. The result has counts by verb for the bulk, and only a total
        // for the sampler.
        let answered = served.stat("get_hits") + served.stat("cmd_set") - 700;
        assert_eq!(answered, counts.answered + sampler.count, "{protocol}: {out}");
        assert_eq!(of(&result, "get", "hit") + of(&result, "set", "done"), counts.answered, "{protocol}");
        assert_eq!((served.stat("get_misses"), served.stat("curr_items")), (0, 700), "{protocol}");
    }
}

#[test]
fn a_closed_loop_that_looks_aside_is_counted_by_redis_alike() {
    let served = Served::redis("aside");
    let args = ["--protocol", "resp", "--closed", "--connections", "3", "--depth", "4", "--duration", "300ms"];
    let more = ["--keys", "500", "--reads", "100%", "--no-prefill", "--fill-on-miss", "--verify", "--zipf", "0.8"];
    let (result, out) = loaded(&served, &[&args[..], &more[..]].concat());
    let (hits, misses) = (of(&result, "get", "hit"), of(&result, "get", "miss"));
    assert!(hits > 0 && misses > 0, "{out}");
    // Requests that were sent at the end of the run are in no figure. They are at most those in flight on three
    // connections.
    let is_told = |counted: u64, told: u64| told >= counted && told - counted <= 12;
    let told = |name: &str| served.told("INFO stats", &format!("{name}:"));
    assert!(is_told(hits + misses, served.calls("get")), "{} gets: {out}", served.calls("get"));
    assert!(is_told(hits, told("keyspace_hits")) && is_told(misses, told("keyspace_misses")), "{out}");
    let fills = of(&result, "fill", "done");
    assert!(is_told(fills, served.calls("set")) && is_told(fills, misses), "{} sets: {out}", served.calls("set"));
}
