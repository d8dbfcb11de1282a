//! Tests `gannet doctor prove`: a change that helps stays, and in every other case the host is restored.
//!
//! The settings are files of a tree. The server takes the time in such a file for each reply.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, gannet, run};

const SETTING: &str = "proc/sys/vm/delay_ms";

/// A temporary directory with the setting. Dropping this value removes the directory.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, delay_ms: &str) -> Self {
        let root = std::env::temp_dir().join(format!("gannet-prove-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join(SETTING).parent().unwrap()).unwrap();
        std::fs::write(root.join(SETTING), delay_ms).unwrap();
        Self(root)
    }

    fn held(&self) -> String {
        std::fs::read_to_string(self.0.join(SETTING)).unwrap().trim().to_owned()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(&self.held()) {
            assert!(Instant::now() < end, "{what}: it is {:?}", self.held());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts a server that delays each reply by the number of milliseconds in the file. Its threads end with their
/// connections; the accepting thread ends with the test.
fn server(file: &Path) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, file) = (listener.local_addr().unwrap(), file.to_owned());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let file = file.clone();
            std::thread::spawn(move || answer(&stream, &file));
        }
    });
    addr
}

fn answer(mut stream: &TcpStream, file: &Path) {
    for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
        let answer = match line.split(' ').next() {
            Some("get") => {
                let text = std::fs::read_to_string(file).unwrap_or_default();
                std::thread::sleep(Duration::from_millis(text.trim().parse().unwrap_or(0)));
                "END\r\n"
            }
            Some("version") => "VERSION 1\r\n",
            _ => "END\r\n",
        };
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn args(tree: &Tree, target: SocketAddr, value: &str, more: &[&str]) -> Vec<String> {
    let (root, target, set) = (tree.path(""), target.to_string(), format!("vm.delay_ms={value}"));
    let args = ["doctor", "prove", "--root", &root, "--set", &set, "--target", &target, "--rate", "30", "--seed", "5"];
    let load = ["--", "--no-prefill", "--reads", "100%", "--connections", "32", "--warm-up", "0s", "--rate-max", "60"];
    [&args[..], more, &load].concat().into_iter().map(str::to_owned).collect()
}

fn prove(tree: &Tree, target: SocketAddr, value: &str, more: &[&str]) -> (i32, String, String) {
    let args = args(tree, target, value, &[&["--seconds", "1"], more].concat());
    run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_change_that_helps_stays() {
    prove_verdict("helps", "200", "0", "HELPED");
}

#[test]
fn a_change_that_hurts_is_undone() {
    prove_verdict("hurts", "0", "200", "HURT");
}

/// Proves a change of the delay of every reply, in ms. A fifth of a second is far more than a crowded machine adds.
fn prove_verdict(name: &str, before: &str, changed: &str, verdict: &str) {
    let tree = Tree::new(name, before);
    let target = server(&tree.0.join(SETTING));
    let (report, json) = (tree.path("report.html"), tree.path("proof.json"));
    // In addition to the times, measures the rate within an objective. One side never meets the objective, and the
    // other meets it up to the maximum rate.
    let mut more = vec!["--report", &report, "--json", &json];
    if name == "helps" {
        more.extend(["--slo", "p999=100ms", "--trial", "200ms"]);
    }
    let (code, out, err) = prove(&tree, target, changed, &more);
    assert!(out.contains("seed 5") && err.contains("round 5, changed"), "{out} {err}");
    assert!(err.starts_with("expected time: ") && err.contains("(1 change, 5 rounds, 2 measurements of 1 s"), "{err}");
    let (page, json) = (std::fs::read_to_string(&report).unwrap(), std::fs::read_to_string(&json).unwrap());
    assert!(page.contains("<h1>") && !page.contains("<script") && json.contains("\"p999_ns\""));
    // On a crowded machine the generator may be late and report that. Then there is no verdict, and the change is
    // undone.
    if name == "helps" && !out.contains("CANNOT TELL") {
        assert!(json.contains("rate_within_slo_per_s") && out.contains("rate within the SLO"), "{out}");
    }
    let verdict = if out.contains("CANNOT TELL") { "CANNOT TELL" } else { verdict };
    assert!(out.starts_with(&format!("/proc/sys/vm/delay_ms={changed}: {verdict}\n")), "{out}");
    if verdict == "HELPED" {
        assert!(code == 0 && tree.held() == changed && out.contains("The change stays: run "), "{code} {out}");
        let (code, out, _) = run(&["doctor", "undo", "--root", &tree.path("")]);
        assert!(code == 0 && tree.held() == before, "{out}");
    } else {
        assert!(code == 1 && tree.held() == before && out.contains("The change was undone"), "{code} {out}");
        assert!(verdict == "HURT" || out.contains("GENERATOR LIMITED"), "{out}");
    }
}

/// Starts an admin port of a server under steady traffic, whose requests take as long as the file says.
fn admin(file: &Path) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, file) = (listener.local_addr().unwrap(), file.to_owned());
    std::thread::spawn(move || {
        let (begun, mut told, mut counts) = (Instant::now(), 0, std::collections::BTreeMap::new());
        for mut stream in listener.incoming().flatten() {
            let delay_ms: u64 = std::fs::read_to_string(&file).unwrap_or_default().trim().parse().unwrap_or(0);
            // All requests since the last reading took the time that the file contains now.
            let come = begun.elapsed().as_micros() as u64 / 100;
            *counts.entry(1 + delay_ms * 1_000_000).or_insert(0) += come - told;
            told = come;
            let pairs: Vec<String> = counts.iter().map(|(ns, count)| format!("[{ns},{count}]")).collect();
            let pairs = pairs.join(",");
            let body = format!("{{\"wait\":[{pairs}],\"execute\":[{pairs}],\"send\":[{pairs}]}}");
            let mut head = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while head.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                line.clear();
            }
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    addr
}

#[test]
fn helpful_change_is_retained_and_harmful_change_undone_in_live_traffic() {
    let prove = |name: &'static str, before: &'static str, changed: &'static str| {
        std::thread::spawn(move || {
            let tree = Tree::new(name, before);
            let (root, live) = (tree.path(""), admin(&tree.0.join(SETTING)).to_string());
            let set = format!("vm.delay_ms={changed}");
            let args = ["doctor", "prove", "--root", &root, "--set", &set, "--live", &live, "--seconds", "1"];
            (run(&args), tree)
        })
    };
    let (helps, hurts) = (prove("live-helps", "15", "0"), prove("live-hurts", "0", "15"));
    let ((code, out, err), tree) = helps.join().unwrap();
    assert!(code == 0 && out.contains(": HELPED\n  p999, waiting in the server went from 15 ms"), "{out} {err}");
    assert!(tree.held() == "0" && out.contains("The change stays: run "), "{out}");
    let (code, out, _) = run(&["doctor", "undo", "--root", &tree.path("")]);
    assert!(code == 0 && tree.held() == "15", "{out}");
    let ((code, out, err), tree) = hurts.join().unwrap();
    assert!(code == 1 && out.contains(": HURT\n") && tree.held() == "0", "{out} {err}");
    let (code, _, err) = run(&["doctor", "prove", "--set", "vm.x=1", "--live", "nowhere"]);
    assert!(code != 0 && err.contains("vm/x"), "{err}");
}

/// Starts a long proof, and returns while the change is in force.
fn begun(tree: &Tree, target: SocketAddr) -> Child {
    let child = gannet(&[])
        .args(args(tree, target, "1", &["--seconds", "60"]))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    tree.wait_until("it is not changed", |held| held == "1");
    child
}

#[test]
fn a_proof_that_is_killed_leaves_the_host_as_it_was() {
    for signal in ["KILL", "INT", "TERM"] {
        let tree = Tree::new(signal, "0");
        let mut child = begun(&tree, server(&tree.0.join(SETTING)));
        let sent = std::process::Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        tree.wait_until(signal, |held| held == "0");
        let status = child.wait().unwrap();
        assert!(!status.success(), "{signal}: {status}");
        // The process that held the lock has ended too, and nothing remains to be undone.
        let end = Instant::now() + PATIENCE;
        while run(&["doctor", "undo", "--root", &tree.path("")]).1 != "There is nothing to undo.\n" {
            assert!(Instant::now() < end, "{signal}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A process that was killed while it started another one leaves its lock to that one for a moment.
#[test]
fn guard_undoes_the_change_although_another_process_holds_the_lock_at_first() {
    let tree = Tree::new("locked", "0");
    let mut child = begun(&tree, server(&tree.0.join(SETTING)));
    let lock = std::fs::File::open(tree.0.join("var/lib/gannet/doctor/lock")).unwrap();
    let holder = std::thread::spawn(move || {
        lock.lock().unwrap();
        std::thread::sleep(Duration::from_secs(2));
    });
    child.kill().unwrap();
    child.wait().unwrap();
    tree.wait_until("the guard has given up", |held| held == "0");
    holder.join().unwrap();
}

#[test]
fn unreachable_server_aborts_the_proof_and_undoes_the_change() {
    let tree = Tree::new("gone", "0");
    let nobody = format!("127.0.0.1:{}", crate::common::free_port()).parse().unwrap();
    let (code, _, err) = prove(&tree, nobody, "1", &[]);
    assert!(code != 0 && err.contains("cannot open a connection") && tree.held() == "0", "{code} {err}");
}

#[test]
fn unprovable_change_is_rejected_with_the_reason() {
    let tree = Tree::new("wrong", "7");
    let root = tree.path("");
    let nobody = "127.0.0.1:9";
    for (args, code, part) in [
        (&["--set", "vm.delay_ms"][..], 2, "write it as in vm.swappiness=10"),
        (&["--set", "vm.delay_ms=7"], 3, "nothing to compare"),
        (&["--set", "vm.none=7"], 3, "/proc/sys/vm/none does not exist"),
        (&["--set", "/etc/passwd=7"], 2, "/etc/passwd is no setting of the kernel"),
        (&["--remedy", "mem.thq"], 3, "the nearest is mem.thp"),
        (&["--remedy", "lim.nofile"], 3, "the remedy is not a setting that the doctor writes"),
        (&["--remedy", "mem.thp"], 3, "does not exist"),
        (&["--pin", "0", "--target", nobody], 2, "pass --server to start one"),
        (&["--set", "vm.delay_ms=1", "--rounds", "4"], 2, "--rounds"),
        (&["--set", "vm.delay_ms=1", "--target", nobody, "--rate", "5", "--", "--rate", "9"], 2, "gannet load"),
    ] {
        let (got, out, err) = run(&[&["doctor", "prove", "--root", &root], args].concat());
        assert!(got == code && err.contains(part) && tree.held() == "7", "{args:?}: {got} {out} {err}");
    }
}

/// Starts the program as a process group of its own, waits for a line of its standard error that contains `line`, and
/// sends the whole group SIGINT, as Ctrl-C in a terminal does. Returns the exit code, the output and the later errors.
fn interrupted(args: &[&str], line: &str) -> (i32, String, String) {
    let mut command = gannet(args);
    let mut child =
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut heard = String::new();
    while !heard.contains(line) {
        heard.clear();
        assert!(errors.read_line(&mut heard).expect("text") > 0, "{line:?} does not come");
    }
    // In the middle of the measurement of 3 s that the line announces: a busy machine may be late by 2 s.
    std::thread::sleep(Duration::from_millis(1000));
    let sent = std::process::Command::new("kill").args(["-INT", "--", &format!("-{}", child.id())]).status();
    assert!(sent.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    let mut rest = String::new();
    errors.read_to_string(&mut rest).expect("text");
    (output.status.code().expect("it ends by itself"), String::from_utf8_lossy(&output.stdout).into_owned(), rest)
}

#[test]
fn comparison_and_proof_that_ctrl_c_ends_keep_their_figures_and_name_the_stop() {
    let target = format!("127.0.0.1:{}", crate::common::free_port());
    let serve = format!("{} serve --memcached {target} --admin none --memory 32MiB", env!("CARGO_BIN_EXE_gannet"));
    let more = ["--rate", "100", "--rounds", "3", "--duration", "3s", "--warm-up", "50ms", "--no-prefill"];
    let versus = [&["load", "versus", "--a", &serve, "--b", &serve, "--target", &target], &more[..]].concat();
    let (code, out, err) = interrupted(&versus, "round 1 of 3: b");
    assert!(code == 5 && err.contains("PARTIAL: the comparison was stopped after 0 of 3 rounds"), "{code} {err}");
    assert!(out.contains("round 1, a, before the stop:") && out.contains("round 1, b, before the stop:"), "{out}");
    assert!(TcpStream::connect(&target).is_err(), "no server is left");
    let tree = Tree::new("interrupted", "0");
    let root = tree.path("");
    let proof = ["doctor", "prove", "--root", &root, "--set", "vm.delay_ms=1", "--rate", "50", "--seconds", "3"];
    let (code, out, err) = interrupted(&[&proof[..], &["--", "--no-prefill", "--warm-up", "0s"]].concat(), "round 1, ");
    assert!(code == 5 && err.contains("PARTIAL: the proof was stopped after 0 whole rounds"), "{code} {out} {err}");
    assert!(tree.held() == "0" && out.contains("The change was undone"), "{out}");
}
