//! Tests errors before and during a run: the message contains the fault, its place and the remedy, the exit code
//! reports the failure, and the figures measured until then are stored and marked as partial.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use load::result::RunResult;

use crate::common::run;
use crate::peers::{Folder, LIMITED};

/// The exit code of a run that ended early or got no reply; the figures until then are stored.
const PARTIAL: i32 = 5;

/// The misbehaviour of a server.
#[derive(Clone, Copy)]
enum Manner {
    /// Replies to every line with this text.
    Says(&'static str),
    /// Accepts connections and closes them.
    Closes,
    /// Replies to this number of requests, sends half of the next reply, and closes the connection.
    ClosesAfter(u64),
    /// Replies to this number of requests, and to none after them.
    SilentAfter(u64),
    /// Replies to this number of requests, then closes its connections and accepts no more.
    GoneAfter(u64),
    /// Sends the beginning of a value that never ends.
    Endless,
}

/// The reply to `get`: a miss.
const MISS: &[u8] = b"END\r\n";

/// A misbehaving server. Dropping this value ends it.
struct Rough {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Rough {
    fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, stop) = (listener.local_addr().unwrap(), Arc::<AtomicBool>::default());
        let (stopped, answered) = (stop.clone(), Arc::<AtomicU64>::default());
        let thread = std::thread::spawn(move || {
            let mut listener = Some(listener);
            let mut threads = Vec::new();
            while let Some((stream, _)) = listener.as_ref().and_then(|listener| listener.accept().ok()) {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let (stopped, answered) = (stopped.clone(), answered.clone());
                threads.push(std::thread::spawn(move || serve(manner, stream, &answered, &stopped)));
            }
            drop(listener.take());
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });
        Self { addr, stop, thread: Some(thread) }
    }

    fn target(&self) -> String {
        self.addr.to_string()
    }
}

impl Drop for Rough {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.addr));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Serves one connection. An error ends the connection.
fn serve(manner: Manner, mut stream: TcpStream, answered: &AtomicU64, stopped: &AtomicBool) {
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut buffer = [0; 65_536];
    while !stopped.load(Ordering::Relaxed) {
        if matches!(manner, Manner::Closes) {
            return;
        }
        let bytes = match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => return,
        };
        for line in buffer[..bytes].split_inclusive(|byte| *byte == b'\n') {
            // A request for the server's statistics does not count as a client's request.
            let number = if line.starts_with(b"stats") { 0 } else { answered.fetch_add(1, Ordering::Relaxed) };
            let answer: &[u8] = match manner {
                Manner::Says(text) => text.as_bytes(),
                Manner::ClosesAfter(count) if number >= count => {
                    let _ = stream.write_all(&MISS[..2]);
                    return;
                }
                Manner::SilentAfter(count) if number >= count => b"",
                Manner::GoneAfter(count) if number >= count => return stopped.store(true, Ordering::Relaxed),
                Manner::Endless if !line.starts_with(b"stats") => {
                    let _ = stream.write_all(b"VALUE key 0 1000000\r\n");
                    b"x"
                }
                _ => MISS,
            };
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

/// The outcome of a run against a misbehaving server.
struct Came {
    code: i32,
    out: String,
    result: RunResult,
}

/// Runs `gannet load` with `args` against `server`. The result is stored, even if the run fails.
fn against(server: &Rough, name: &str, args: &[&str]) -> Came {
    let folder = Folder::new(name);
    let (json, html) = (folder.file("a.json"), folder.file("a.html"));
    let target = server.target();
    let usual = [
        "load",
        "--target",
        &target,
        "--connections",
        "4",
        "--warm-up",
        "0s",
        "--no-prefill",
        "--quiet",
        "--reads",
        "100%",
    ];
    let (code, out, err) = run(&[&usual[..], args, &["--json", &json, "--report", &html]].concat());
    let text =
        std::fs::read_to_string(&json).unwrap_or_else(|_| panic!("{name}: nothing was kept: {code}: {out}{err}"));
    let result = RunResult::from_json(&text).unwrap();
    let page = std::fs::read_to_string(&html).unwrap();
    if let Some(cause) = &result.partial {
        assert!(out.contains(&format!("PARTIAL: {cause}")), "{name}: {out}");
        assert!(page.contains("PARTIAL"), "{name}: the page does not say it");
        assert!(matches!(code, PARTIAL | LIMITED), "{name}: {code}: {out}{err}");
    }
    let counts = &result.figures.counts;
    assert_eq!(counts.due, counts.answered + counts.unanswered, "{name}: each is in the figures once: {counts:?}");
    Came { code, out, result }
}

impl Came {
    fn has_fault(&self, name: &str, seen: &str) {
        let fault = self.result.figures.faults.iter().find(|fault| fault.name == name);
        let fault = fault.unwrap_or_else(|| panic!("{name}: {:?}: {}", self.result.figures.faults, self.out));
        assert!(fault.count > 0 && fault.first.contains(seen), "{fault:?}");
        assert!(self.out.contains(&format!("fault {name}: ")), "{}", self.out);
    }

    fn is_partial(&self, why: &str) {
        let cause = self.result.partial.as_ref().unwrap_or_else(|| panic!("not marked: {}", self.out));
        assert!(cause.contains(why), "{cause}");
    }
}

const SHORT: [&str; 4] = ["--rate", "400", "--duration", "500ms"];

#[test]
fn garbage_replies_are_shown_with_the_server_and_the_run_fails() {
    for (protocol, said, seen) in [
        ("memcache", "?what was that\r\n", "?what was that"),
        ("meta", "+OK\r\n", "+OK"),
        ("resp", "HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ("memcache", "STORED\r\n", "STORED"),
        // The client may read the head of the reply before the rest arrives.
        ("resp", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "the RESP reply has another type or length than expected"),
    ] {
        let server = Rough::start(Manner::Says(said));
        let came = against(&server, "nonsense", &[&SHORT[..], &["--protocol", protocol]].concat());
        came.is_partial("no request got a reply");
        came.is_partial("check that the server speaks this protocol (--protocol)");
        came.has_fault("garbage", &server.target());
        let first = &came.result.figures.faults.iter().find(|fault| fault.name == "garbage").unwrap().first;
        assert!(first.contains(seen), "{protocol}: {first}");
        assert_eq!(came.result.figures.counts.answered, 0, "{protocol}");
    }
}

#[test]
fn server_that_closes_every_connection_is_reported() {
    let server = Rough::start(Manner::Closes);
    let came = against(&server, "closes", &SHORT);
    came.is_partial("");
    let closed = came.result.figures.faults.iter().filter(|fault| fault.name.contains("by-server"));
    assert!(closed.map(|fault| fault.count).sum::<u64>() > 3, "{}", came.out);
    assert_eq!(came.result.figures.counts.answered, 0);
}

#[test]
fn replies_before_a_mid_reply_close_are_counted() {
    let server = Rough::start(Manner::ClosesAfter(50));
    let came = against(&server, "half", &[&SHORT[..], &["--assert", "unanswered<=1%"]].concat());
    assert!(matches!(came.code, 4 | PARTIAL | LIMITED), "{}: {}", came.code, came.out);
    came.has_fault("closed-by-server", &server.target());
    let counts = &came.result.figures.counts;
    // Closing a socket with unread bytes resets the connection, which may discard replies in flight.
    assert!((1..=50).contains(&counts.answered) && counts.answered == counts.misses, "{counts:?}");
    assert!(came.result.assertions.iter().all(|assertion| !assertion.held), "{}", came.out);
}

#[test]
fn silent_server_causes_timeouts_without_losing_earlier_replies() {
    let server = Rough::start(Manner::SilentAfter(50));
    let came = against(&server, "silent", &[&SHORT[..], &["--timeout", "50ms"]].concat());
    came.has_fault("timeout", "the server did not reply in time");
    assert!((1..=50).contains(&came.result.figures.counts.answered), "{}", came.out);
    assert!(came.result.figures.response.max_ns >= 50_000_000, "the waiting counts");
    let mute = Rough::start(Manner::SilentAfter(0));
    let came = against(&mute, "mute", &SHORT);
    came.is_partial("no request got a reply (unanswered-at-end");
    let endless = Rough::start(Manner::Endless);
    let came = against(&endless, "endless", &[&SHORT[..], &["--timeout", "50ms"]].concat());
    came.is_partial("no request got a reply (timeout");
}

#[test]
fn server_that_exits_leads_to_a_partial_result() {
    let server = Rough::start(Manner::GoneAfter(100));
    let came = against(&server, "gone", &["--rate", "400", "--duration", "1s"]);
    came.is_partial("no connection was up at the end (");
    came.has_fault("connect-refused", "refused");
    let counts = &came.result.figures.counts;
    assert!((1..=100).contains(&counts.answered) && counts.unsent > 0, "{counts:?}");
}

#[test]
fn aborted_search_retains_its_completed_trials() {
    let search = ["--slo", "p50=5s", "--start", "200", "--trial", "300ms", "--throughput-min", "1%", "--depth", "512"];
    let server = Rough::start(Manner::Says("?\r\n"));
    let came = against(&server, "search-nonsense", &search);
    came.is_partial("no request got a reply (garbage");
    let server = Rough::start(Manner::GoneAfter(400));
    let came = against(&server, "search-gone", &search);
    if came.code == PARTIAL {
        came.is_partial("no connection was left at the end of a trial");
        let search = came.result.search.as_ref().unwrap();
        assert!(search.end == "stopped" && !search.steps.is_empty() && search.steps[0].passed, "{:?}", search.steps);
    }
}

#[test]
fn a_prefill_that_fails_ends_it_with_the_first_failure_and_the_remedy() {
    let cases = [
        ("SERVER_ERROR out of memory\r\n", ["20 of 20 stores failed", "give the server more memory"]),
        ("?\r\n", ["no request got a reply (garbage", "speaks this protocol"]),
    ];
    for (said, seen) in cases {
        let server = Rough::start(Manner::Says(said));
        let target = server.target();
        let args = ["load", "--target", &target, "--rate", "10", "--keys", "20", "--quiet", "--timeout", "1s"];
        let (code, out, err) = run(&args);
        assert!(code == 1 && err.contains("prefill: "), "{code}: {out}{err}");
        assert!(seen.iter().all(|part| err.contains(part)) && err.contains(&target), "{err}");
    }
}
