//! Tests `gannet load` against redis-servers that require a password, and against a cluster of them. Connections
//! authenticate, and requests follow redirects. The tests check counts, not times.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use load::result::RunResult;

use crate::common::{PATIENCE, TempFile, free_port, gannet, run};
use crate::peers::{Folder, LIMITED, Peer, until};

/// Returns the server's reply to a command: its first line, and the text after that line if there is any.
fn says(peer: &Peer, words: &str) -> String {
    let mut stream = TcpStream::connect(peer.addr()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("{words}\r\n").as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let Some(length) = line.strip_prefix('$').and_then(|length| length.trim().parse::<usize>().ok()) else {
        return line.trim().to_owned();
    };
    let mut text = vec![0; length];
    reader.read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Runs `gannet load` with `args`, and with `SECRET` in the environment. Returns the exit code, output and error text.
fn load_with(secret: &str, args: &[&str]) -> (i32, String, String) {
    let output = gannet(&[&["load"], args].concat()).env("SECRET", secret).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn connection_authenticates_and_shows_the_server_error_if_refused() {
    let Some(redis) =
        Peer::redis(&["--requirepass", "word-of-all", "--user", "me", "on", ">word-of-mine", "~*", "+@all"])
    else {
        return;
    };
    let target = redis.target();
    let json = TempFile::new("auth.json", "");
    let usual = ["--target", &target, "--rate", "500", "--duration", "200ms", "--warm-up", "0ms", "--keys", "100"];
    let quiet = ["--quiet", "--json", json.path(), "--password-env", "SECRET"];
    for (secret, who) in [
        ("word-of-mine", &["--protocol", "resp", "--user", "me"][..]),
        ("word-of-mine", &["--protocol", "resp3", "--user", "me"]),
        ("word-of-all", &["--protocol", "resp"]),
        ("word-of-all", &["--protocol", "resp3"]),
    ] {
        let (code, out, err) = load_with(secret, &[&usual[..], &quiet, who].concat());
        assert!(matches!(code, 0 | LIMITED), "{who:?} ended with {code}: {out}{err}");
        let text = std::fs::read_to_string(json.path()).unwrap();
        assert!(!text.contains(secret), "a result tells no password");
        let counts = RunResult::from_json(&text).unwrap().figures.counts;
        assert!(counts.due > 20 && counts.hits == counts.due, "{who:?}: {counts:?}");
    }
    for protocol in ["resp", "resp3"] {
        let (code, _, err) =
            load_with("wrong", &[&usual[..], &quiet, &["--protocol", protocol, "--user", "me"]].concat());
        let said = if protocol == "resp" {
            "the request auth got the reply WRONGPASS"
        } else {
            "the request hello got the reply WRONGPASS"
        };
        assert!(code == 1 && err.contains(said), "{protocol}: {code}: {err}");
        assert!(
            err.contains("check the user, the password") && !err.contains("check that the server is running"),
            "{err}"
        );
    }
    let (code, out, _) = run(&[&["load", "--protocol", "resp", "--no-prefill"][..], &usual].concat());
    assert!(matches!(code, 0 | LIMITED) && out.contains("NOAUTH Authentication required."), "{code}: {out}");
    assert!(out.contains("pass a user: --user and --password-env"), "{out}");
    let (code, _, err) = run(&[&["load", "--protocol", "resp"][..], &usual].concat());
    assert!(code == 1 && err.contains("NOAUTH"), "the prefill fails: {code}: {err}");
    let (code, _, err) = run(&[&["load", "--password-env", "NO_SUCH_VARIABLE"][..], &usual].concat());
    assert!(code == 2 && err.contains("the environment variable NO_SUCH_VARIABLE is not set"), "{code}: {err}");
}

#[test]
fn memcached_connection_authenticates_before_the_first_request() {
    let file = TempFile::new("users.txt", "me:sesame\n");
    let Some(memcached) = Peer::memcached(&["-Y", file.path()]) else { return };
    let target = memcached.target();
    let usual = ["--target", &target, "--rate", "500", "--duration", "200ms", "--warm-up", "0ms", "--keys", "100"];
    let who = ["--user", "me", "--password-env", "SECRET"];
    let right = load_with("sesame", &[&usual[..], &who].concat());
    let wrong = load_with("wrong", &[&usual[..], &who].concat());
    let nobody = run(&[&["load", "--no-prefill"][..], &usual].concat());
    assert!(matches!(right.0, 0 | LIMITED) && right.1.contains(" 0 errors"), "{right:?}");
    assert!(wrong.0 == 1 && wrong.2.contains("authentication failure; check the user and the password"), "{wrong:?}");
    assert!(nobody.1.contains("unauthenticated; pass a user"), "{nobody:?}");
}

/// A cluster of three nodes, each with a third of the slots. The directory is removed last.
struct Cluster {
    nodes: Vec<Peer>,
    _folder: Folder,
}

impl Cluster {
    fn start() -> Option<Self> {
        let folder = Folder::new("cluster");
        let mut nodes = Vec::new();
        for number in 0..3 {
            let dir = folder.path().join(number.to_string());
            std::fs::create_dir(&dir).unwrap();
            // Passes the port for connections between nodes. The default is 10000 above the node's port, which may be
            // too high.
            let bus = free_port().to_string();
            let dir = dir.to_str().unwrap();
            let args = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--dir", dir];
            nodes.push(Peer::redis(&args)?);
        }
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(nodes.iter().map(Peer::target)).arg("--cluster-yes");
        let made = create.stdin(Stdio::null()).output().expect("redis-cli comes with redis-server");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        let is_ok = |node: &Peer| says(node, "CLUSTER INFO").contains("cluster_state:ok");
        until("every node knows the cluster", || nodes.iter().all(is_ok));
        Some(Self { nodes, _folder: folder })
    }
}

#[test]
fn requests_go_to_the_node_that_redirects_name_and_count_once() {
    let Some(cluster) = Cluster::start() else { return };
    let json = TempFile::new("cluster.json", "");
    let [first, second, third] = [0, 1, 2].map(|at| cluster.nodes[at].target());
    // The slot of this key is migrating from its node to the next node, and requests for absent keys are redirected
    // there.
    let key = "0000000000000007";
    let slot: u16 = says(&cluster.nodes[0], &format!("CLUSTER KEYSLOT {key}")).trim_start_matches(':').parse().unwrap();
    let from = usize::from(slot >= 5461) + usize::from(slot >= 10_923);
    let to = (from + 1) % 3;
    let id = |at: usize| says(&cluster.nodes[at], "CLUSTER MYID");
    assert_eq!(says(&cluster.nodes[to], &format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(from))), "+OK");
    assert_eq!(says(&cluster.nodes[from], &format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(to))), "+OK");
    // The order of the targets differs from that of the slots, so most requests go to the wrong node first.
    let nodes = ["--target", &third, "--target", &first, "--target", &second];
    let usual = ["--placement", "slots", "--keys", "300", "--connections", "6", "--verify", "--quiet"];
    let paced = ["--rate", "1000", "--duration", "500ms", "--warm-up", "0ms", "--json", json.path()];
    for protocol in ["resp", "resp3"] {
        let args = [&["load", "--protocol", protocol][..], &nodes, &usual, &paced].concat();
        let (code, out, err) = run(&args);
        assert!(matches!(code, 0 | LIMITED), "{protocol} ended with {code}: {out}{err}");
        let figures = RunResult::from_json(&std::fs::read_to_string(json.path()).unwrap()).unwrap().figures;
        let counts = figures.counts;
        assert_eq!((counts.errors, counts.misses, counts.wrong, counts.unanswered), (0, 0, 0, 0), "{out}");
        assert!(counts.due > 300 && counts.hits == counts.due, "{counts:?}");
        assert_eq!(figures.response.count, counts.due, "a redirected request is one request");
        assert!(counts.redirects > 50 && counts.redirects < counts.due, "{counts:?}");
        assert!(out.contains("redirects to other nodes"), "{out}");
    }
    let asked = says(&cluster.nodes[to], "INFO commandstats");
    assert!(asked.contains("cmdstat_asking"), "the slot that moves was asked for where it goes: {asked}");
    let two = ["--target", &first, "--target", &second];
    let (_, out, _) = run(&[&["load", "--protocol", "resp", "--no-prefill"][..], &two, &usual, &paced].concat());
    assert!(out.contains("that node is not a target: pass every node of the cluster"), "{out}");
}
