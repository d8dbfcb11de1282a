//! Runs every command of the README and of the load generator's pages, shortened, against servers of this test.

use std::path::{Path, PathBuf};

use crate::common::{Serving, free_port, gannet};
use crate::peers::{Folder, Peer, is_verdict};

/// Words of commands that need other processes or files. Other tests, in files that contain these words, run such
/// commands.
const ELSEWHERE: [&str; 8] = ["agent", "clients", "--agents", "record", "replay", "rerun", "--tls-ca", "migrate"];

/// Texts in the pages' commands, each with its replacement here: shorter runs, and servers of this test.
const SHORT: [(&str, &str); 18] = [
    ("127.0.0.1:11311", "MEMCACHED"),
    ("gannet serve --memcached", "gannet serve --memory 64MiB --memcached"),
    ("127.0.0.1:11211", "MEMCACHED"),
    ("127.0.0.1:7000", "GRPC"),
    ("127.0.0.1:6400", "GRAPH"),
    ("--graph-scale 20", "--graph-scale 8"),
    ("edges.txt", "FOLDER/edges.txt"),
    ("-p 11211", "-p MEMCACHED_PORT"),
    ("-p 6379", "-p REDIS_PORT"),
    ("127.0.0.1:11300", "127.0.0.1:FREE_PORT"),
    ("-u daemon -p 11300", "-u nobody -l 127.0.0.1 -U 0 -p FREE_PORT"),
    ("-k 10000000", "-k 500"),
    ("-w RU,80", "-t 500 -w RU,80"),
    ("-t 4 -c 50", "-t 1 -c 5"),
    ("--test-time 30", "--test-time 1"),
    ("--rate 5k", "--rate 200 --keys 100"),
    ("cache.toml", "FOLDER/cache.toml"),
    ("paced.conf", "FOLDER/paced.conf"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the paths of the README and of the load generator's pages.
fn pages() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root().join("docs/load")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = folder.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.push(root().join("README.md"));
    pages
}

/// Returns whether another test file contains this word.
fn is_tried_elsewhere(word: &str) -> bool {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program");
    let mut files = std::fs::read_dir(tests).unwrap().map(|entry| entry.unwrap().path());
    let named = format!("\"{word}\"");
    files.any(|path| {
        let is_other = path.extension().is_some_and(|end| end == "rs") && !path.ends_with("load_docs.rs");
        is_other && std::fs::read_to_string(&path).unwrap().contains(&named)
    })
}

/// Returns the commands of a page: lines of its code blocks.
fn commands(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let lines = text.lines().map(|line| line.trim().trim_start_matches("$ ").trim_start_matches("target/release/"));
    lines.filter(|line| line.starts_with("gannet load ") && !line.contains('`')).map(str::to_owned).collect()
}

/// Splits a line with single quotes into words, as a shell does.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        if at % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// Returns the flags to append to a command so that it ends soon.
pub fn ends_soon(line: &str) -> &'static str {
    match line.split_whitespace().nth(2).unwrap_or_default() {
        "aerospike" | "memtier" | "cost" | "compare" => "",
        "self-test" => " --part 100ms",
        "versus" => " --rounds 1 --duration 200ms --warm-up 100ms --no-prefill --quiet",
        "rpc-perf" | "mc-crusher" if line.contains("--duration") => " --quiet",
        "rpc-perf" | "mc-crusher" => " --duration 300ms --quiet",
        flag if !flag.starts_with("--") => panic!("nobody has said here how to run: {line}"),
        _ if line.contains("graphdb") && line.contains("--slo") => {
            " --start 200 --rate-max 400 --trial 150ms --warm-up 100ms --quiet --throughput-min 1%"
        }
        _ if line.contains("--graph-writes") => " --graph-scale 8 --duration 300ms --warm-up 100ms --quiet",
        _ if line.contains("graphdb") => " --duration 300ms --warm-up 100ms --quiet",
        _ if line.contains("--slo") => {
            " --start 200 --rate-max 400 --trial 150ms --warm-up 100ms --keys 100 --quiet --throughput-min 1%"
        }
        _ if line.contains("--duration") => " --warm-up 100ms --quiet",
        _ => " --duration 300ms --warm-up 100ms --keys 100 --quiet",
    }
}

/// The outcome of objectives and assertions depends on the load of this machine, so any verdict is accepted, but no
/// error.
#[test]
fn every_command_of_the_pages_runs() {
    let folder = Folder::new("docs");
    let cache = "[general]\nprotocol = \"memcache\"\nduration = 1\n[target]\nendpoints = [\"MEMCACHED\"]\n\
                 [client]\nthreads = 1\npoolsize = 2\nconcurrency = 4\n[workload.ratelimit]\nstart = 200\n\
                 [[workload.keyspace]]\nklen = 16\nnkeys = 100\nvlen = 64\n\
                 commands = [{ verb = \"get\", weight = 8 }, { verb = \"set\", weight = 2 }]\n";
    let args = ["--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "64MiB", "--workers", "1"];
    let mut serving = Serving::start(&[&args[..], &["--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0"]].concat());
    let addr = serving.addr_behind("memcached clients connect to ");
    let graph = serving.addr_behind("Redis clients connect to ");
    let grpc = serving.addr_behind("gRPC clients connect to ");
    let redis = Peer::redis(&[]).expect("redis-server is installed");
    folder.written("cache.toml", &cache.replace("MEMCACHED", &addr.to_string()));
    let paced = "send=ascii_get,conns=2,pipelines=4,usleep=50000,key_prefix=foo,key_count=100\n";
    folder.written("paced.conf", paced);
    folder.written("edges.txt", "1 2\n2 3\n3 4\n");
    let beside = Path::new(env!("CARGO_BIN_EXE_gannet")).parent().unwrap().display().to_string();
    let path = format!("{beside}:{}", std::env::var("PATH").unwrap_or_default());
    let mut seen = 0;
    for line in pages().iter().flat_map(|page| commands(page)) {
        if let Some(word) = ELSEWHERE.iter().find(|word| line.split_whitespace().any(|part| part == **word)) {
            assert!(is_tried_elsewhere(word), "no test names {word}: {line}");
            continue;
        }
        let mut text = SHORT.iter().fold(line.clone(), |text, (long, short)| text.replace(long, short));
        text.push_str(ends_soon(&line));
        let text = text
            .replace("MEMCACHED_PORT", &addr.port().to_string())
            .replace("MEMCACHED", &addr.to_string())
            .replace("GRPC", &grpc.to_string())
            .replace("GRAPH", &graph.to_string())
            .replace("REDIS_PORT", &redis.port.to_string())
            .replace("FREE_PORT", &free_port().to_string())
            .replace("FOLDER", &folder.path().display().to_string());
        let text = text.replace("--duration 30s", "--duration 300ms").replace("--duration 10s", "--duration 300ms");
        let written =
            |word: String| match !word.contains('/') && [".html", ".json"].iter().any(|end| word.ends_with(end)) {
                true => folder.file(&word),
                false => word,
            };
        let words: Vec<String> = words(&text).into_iter().skip(1).map(written).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = gannet(&words).current_dir(root()).env("PATH", &path).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let code = output.status.code().expect("it ends by itself");
        assert!(is_verdict(code, &out), "{text} ended with {code}: {out}\n{err}");
        assert!(!out.is_empty(), "{text} said nothing");
        seen += 1;
    }
    assert!(seen >= 14, "{seen} commands");
}

/// The complete workload file on the page can be run, and the page's faulty example causes the error message on the
/// page.
#[test]
fn workload_example_on_its_docs_page_parses_and_its_error_matches() {
    let page = std::fs::read_to_string(root().join("docs/load/workload.md")).unwrap();
    let toml = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a whole file");
    let workload = load::workload::Workload::read_text(Path::new("load.toml"), toml);
    let workload = workload.unwrap_or_else(|faults| panic!("{faults:?}"));
    assert_eq!((workload.targets.len(), workload.keys.len()), (2, 2));
    let shown = page.lines().find(|line| line.starts_with("load.toml:12: ")).expect("a fault is shown");
    let faulty = format!("{}[[keys]]\nttl = 60\n", "\n".repeat(10));
    let faults = load::workload::Workload::read_text(Path::new("load.toml"), &faulty).unwrap_err();
    assert_eq!(faults[0].to_string(), shown);
}
