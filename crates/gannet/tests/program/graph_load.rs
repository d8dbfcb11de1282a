//! Tests of `gannet graph load` with a real server: refused lines, compressed files, errors, and loads that resume
//! after both the client and the server were killed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use base::prng::Prng;

use crate::common::{Serving, gannet, run};
use crate::peers::Folder;
use crate::restart_together::{Redis, killed};

fn serve(folder: &Folder) -> (Serving, SocketAddr) {
    serve_with(folder, &["--graph-memory", "90MiB"])
}

fn serve_with(folder: &Folder, more: &[&str]) -> (Serving, SocketAddr) {
    serve_at("127.0.0.1:0", folder, more)
}

fn serve_at(resp: &str, folder: &Folder, more: &[&str]) -> (Serving, SocketAddr) {
    let file = folder.file("graphs");
    let words = ["--memcached", "127.0.0.1:0", "--resp", resp, "--admin", "none", "--memory", "16MiB"];
    let mut serving = Serving::start(&[&words[..], &["--graph-file", &file], more].concat());
    let addr = serving.addr_behind("Redis clients connect to ");
    (serving, addr)
}

/// Runs `gannet graph load`. Returns the exit code, standard output and standard error.
fn load(addr: SocketAddr, file: &str, more: &[&str]) -> (i32, String, String) {
    let server = addr.to_string();
    run(&[&["graph", "load", file, "--server", &server, "--graph", "g", "--type", "knows"], more].concat())
}

#[test]
fn files_of_every_form_are_loaded_and_refused_lines_are_named() {
    let folder = Folder::new("graph-load");
    let (serving, addr) = serve(&folder);
    let redis = &mut Redis::connect(addr);
    assert_eq!(redis.ask("G.TYPE g knows UNDIRECTED"), "+OK");
    let csv = "source,destination,ms\n1,2\n2,x\n2,3,5\n3,3\n4,5";
    std::fs::write(folder.file("a.csv"), csv).expect("written");
    let (code, out, err) = load(addr, &folder.file("a.csv"), &["--format", "csv"]);
    assert_eq!(code, 3, "{out}{err}");
    assert!(out.starts_with("3 edges, 3 changed, 2 refused"), "{out}");
    assert!(err.contains("line 3: the destination 'x'") && err.contains("line 5: it leads"), "{err}");
    assert!(!std::path::Path::new(&folder.file("a.csv.gannet-load")).exists(), "a complete load leaves no journal");
    // Each form has the same lines, of which the second load changes none.
    let text: String = (10..40_010).map(|node| format!("{node} {}\n", node + 1)).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).expect("compressed");
    let gzip = gzip.finish().expect("compressed");
    std::fs::write(folder.file("half.gz"), &gzip[..gzip.len() / 2]).expect("written");
    std::fs::write(folder.file("edges.gz"), gzip).expect("written");
    std::fs::write(folder.file("edges.zst"), zstd::encode_all(text.as_bytes(), 1).expect("ok")).expect("written");
    for (file, out_begins) in
        [("edges.gz", "40000 edges, 40000 changed, 0 refused"), ("edges.zst", "40000 edges, 0 changed, 0 refused")]
    {
        let (code, out, err) = load(addr, &folder.file(file), &["--part-size", "64KiB"]);
        assert_eq!(code, 0, "{file}: {out}{err}");
        assert!(out.starts_with(out_begins), "{file}: {out}");
    }
    assert_eq!(redis.ask("G.COUNT g 20000 knows"), ":2");
    for (file, more, code_wanted, text) in [
        ("nothing", &[][..], 1, "No such file or directory (os error 2); check the path"),
        ("half.gz", &[], 1, "the file may be incomplete: copy it again"),
        ("edges.gz", &["--type", "likes"], 2, "cannot be used multiple times"),
        ("edges.gz", &["--part-size", "1B"], 2, "--part-size: \"1B\" is not from 16KiB to 64MiB"),
    ] {
        let (code, out, err) = load(addr, &folder.file(file), more);
        assert!(code == code_wanted && err.contains(text), "{file} {more:?}: {code} {out}{err}");
    }
    let file = folder.file("edges.zst");
    let server = addr.to_string();
    let (code, _, err) = run(&["graph", "load", &file, "--server", &server, "--graph", "g", "--type", "likes"]);
    assert!(code == 1 && err.contains("cannot find the edge type") && err.contains("use G.TYPE"), "{code} {err}");
    killed(serving);
    let (code, _, err) = load(addr, &file, &["--retries", "0"]);
    assert!(code == 1 && err.contains("check that the server is running"), "{code} {err}");
    assert!(!std::path::Path::new(&folder.file("edges.zst.gannet-load")).exists(), "no part was acknowledged");
}

#[test]
fn part_as_long_as_an_item_is_loaded_and_a_longer_one_names_the_option() {
    let folder = Folder::new("graph-load-part");
    let (_serving, addr) = serve_with(&folder, &["--item-max", "1MiB", "--graph-memory", "90MiB"]);
    let redis = &mut Redis::connect(addr);
    assert_eq!(redis.ask("G.TYPE g knows"), "+OK");
    // Comments make a long text of few edges. The last line has no end.
    let text: String = (1..=3 << 9).map(|node| format!("#{:4090}\n{node} {}\n", "", node + 1)).collect();
    let file = folder.file("edges");
    std::fs::write(&file, text.trim_end()).expect("written");
    assert!(text.len() > 6 << 20);
    for (size, changed) in [("1MB", 1536), ("1MiB", 0)] {
        let (code, out, err) = load(addr, &file, &["--part-size", size]);
        assert_eq!(code, 0, "{size}: {out}{err}");
        assert!(out.starts_with(&format!("1536 edges, {changed} changed, 0 refused")), "{size}: {out}");
    }
    let (code, out, err) = load(addr, &file, &["--part-size", "2MiB"]);
    let remedy = "longer than an item may be: raise `store.item_max`, or pass a smaller --part-size";
    assert!(code == 1 && err.contains("lines 1 to ") && err.contains(remedy), "{code} {out}{err}");
}

#[test]
fn refused_line_after_two_million_others_is_named() {
    let folder = Folder::new("graph-load-line");
    let (_serving, addr) = serve(&folder);
    let redis = &mut Redis::connect(addr);
    assert_eq!(redis.ask("G.TYPE g knows"), "+OK");
    let file = folder.file("edges");
    std::fs::write(&file, "#\n".repeat(2_000_000) + "7 x\n7 8\n").expect("written");
    let (code, out, err) = load(addr, &file, &["--part-size", "256KiB"]);
    assert!(code == 3 && out.starts_with("1 edges, 1 changed, 1 refused"), "{code} {out}{err}");
    assert!(err.contains("line 2000001: the destination 'x' is not a number"), "{err}");
}

/// Writes a file of edges with long attributes. Returns its path.
fn file_of_long_edges(folder: &Folder, edges: u64) -> String {
    let path = folder.file("long.csv");
    let mut text = String::new();
    for edge in 0..edges {
        writeln!(text, "{},{},5,{edge:0240}", edge % 1000 + 1, edge / 1000 + 2000).expect("text");
    }
    std::fs::write(&path, text).expect("written");
    path
}

#[test]
fn load_into_a_full_server_names_lines_and_remedy_and_resumes_with_more_memory() {
    const EDGES: u64 = 250_000;
    let folder = Folder::new("graph-load-full");
    let file = file_of_long_edges(&folder, EDGES);
    let (serving, addr) = serve(&folder);
    assert_eq!(Redis::connect(addr).ask("G.TYPE g knows SCHEMA note"), "+OK");
    let words = ["--format", "csv", "--part-size", "256KiB", "--resume"];
    let (code, out, err) = load(addr, &file, &words);
    assert!(code == 1 && err.contains(" of the text: ") && err.contains("lines "), "{code} {out}{err}");
    let remedy = "OOM graph memory is full: remove edges, or start the server with a larger --graph-memory";
    assert!(err.contains(remedy) && err.contains("the same command continues the load"), "{err}");
    killed(serving);
    let (_serving, addr) = serve_with(&folder, &["--graph-memory", "256MiB"]);
    let (code, out, err) = load(addr, &file, &words);
    assert!(code == 0 && out.starts_with(&format!("{EDGES} edges, ")), "{code} {out}{err}");
    assert!(err.contains("the server was restarted since the first part"), "{err}");
    let redis = &mut Redis::connect(addr);
    for node in [1, 500, 1000] {
        assert_eq!(redis.ask(&format!("G.COUNT g {node} knows")), ":250", "node {node}");
    }
}

#[test]
fn load_whose_server_closes_midway_names_lines_and_resumes() {
    const EDGES: u64 = 70_000;
    let folder = Folder::new("graph-load-close");
    let file = file_of_long_edges(&folder, EDGES);
    let (serving, addr) = serve(&folder);
    let redis = &mut Redis::connect(addr);
    assert_eq!(redis.ask("G.TYPE g knows SCHEMA note"), "+OK");
    let server = addr.to_string();
    let words = ["graph", "load", &file, "--server", &server, "--graph", "g", "--type", "knows", "--format", "csv"];
    let more = ["--part-size", "64KiB", "--resume", "--retries", "0"];
    let client = gannet(&[&words[..], &more].concat()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let client = client.expect("it runs");
    // Every thousandth line has this source, so several parts are acknowledged then.
    while redis.ask("G.COUNT g 1 knows")[1..].parse::<u64>().expect("a number") < 5 {
        std::thread::sleep(Duration::from_millis(1));
    }
    killed(serving);
    let ended = client.wait_with_output().expect("a child");
    let err = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && err.contains("cannot load: lines "), "{err}");
    assert!(err.contains("check that the server is running; the same command continues the load"), "{err}");
    let (code, _, err) = load(addr, &file, &["--format", "csv", "--retries", "0"]);
    assert!(code == 1 && err.contains("pass --resume to continue it"), "{code} {err}");
    let (_serving, addr) = serve(&folder);
    let (code, out, err) = load(addr, &file, &[&["--format", "csv"][..], &more].concat());
    assert!(code == 0 && out.starts_with(&format!("{EDGES} edges, ")), "{code} {out}{err}");
    let redis = &mut Redis::connect(addr);
    for node in [1, 500, 1000] {
        assert_eq!(redis.ask(&format!("G.COUNT g {node} knows")), ":70", "node {node}");
    }
}

#[test]
fn load_during_which_the_server_restarts_is_complete_and_notes_it() {
    const EDGES: u64 = 70_000;
    let folder = Folder::new("graph-load-restart");
    let file = file_of_long_edges(&folder, EDGES);
    let (serving, addr) = serve(&folder);
    assert_eq!(Redis::connect(addr).ask("G.TYPE g knows SCHEMA note"), "+OK");
    let server = addr.to_string();
    let words = ["graph", "load", &file, "--server", &server, "--graph", "g", "--type", "knows", "--format", "csv"];
    let more = ["--part-size", "64KiB", "--retries", "40"];
    let client = gannet(&[&words[..], &more].concat()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let client = client.expect("it runs");
    let redis = &mut Redis::connect(addr);
    while redis.ask("G.COUNT g 1 knows")[1..].parse::<u64>().expect("a number") < 5 {
        std::thread::sleep(Duration::from_millis(1));
    }
    killed(serving);
    let (_serving, addr) = serve_at(&server, &folder, &["--graph-memory", "90MiB"]);
    let ended = client.wait_with_output().expect("a child");
    let err = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && err.contains("the server was restarted since the first part"), "{err}");
    let redis = &mut Redis::connect(addr);
    for node in [1, 500, 1000] {
        assert_eq!(redis.ask(&format!("G.COUNT g {node} knows")), ":70", "node {node}");
    }
}

#[test]
fn load_resumes_after_the_client_and_the_server_were_killed() {
    const NODES: u64 = 5000;
    let folder = Folder::new("graph-load-kill");
    let (mut prng, mut text, mut degrees) = (Prng::new(7), String::new(), vec![0u64; NODES as usize + 1]);
    let mut edges = std::collections::BTreeSet::new();
    while edges.len() < 200_000 {
        let (a, b) = (prng.below(NODES) + 1, prng.below(NODES) + 1);
        if a != b && edges.insert((a.min(b), a.max(b))) {
            writeln!(text, "{a} {b}").expect("text");
            degrees[a as usize] += 1;
            degrees[b as usize] += 1;
        }
    }
    let file = folder.file("edges");
    std::fs::write(&file, text).expect("written");
    for attempt in 0..40 {
        let (serving, addr) = serve(&folder);
        let redis = &mut Redis::connect(addr);
        assert_eq!(redis.ask("G.TYPE g knows UNDIRECTED"), "+OK");
        let server = addr.to_string();
        let words = ["graph", "load", &file, "--server", &server, "--graph", "g", "--type", "knows", "--part-size"];
        let mut client = gannet(&[&words[..], &["16KiB", "--resume", "--quiet"]].concat()).spawn().expect("it runs");
        let end = Instant::now() + Duration::from_millis(if attempt < 6 { 250 } else { 60_000 });
        let mut status = None;
        while status.is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            status = client.try_wait().expect("a child");
        }
        match status {
            Some(status) => {
                client.wait().expect("a child");
                assert!(status.success(), "{status}");
                for (node, degree) in degrees.iter().enumerate().skip(1) {
                    assert_eq!(redis.ask(&format!("G.COUNT g {node} knows")), format!(":{degree}"), "node {node}");
                }
                killed(serving);
                assert!(attempt > 0, "the load was complete before the first kill");
                return;
            }
            None if attempt % 2 == 0 => {
                client.kill().expect("killed");
                client.wait().expect("a child");
                killed(serving);
            }
            None => {
                killed(serving);
                client.kill().expect("killed");
                client.wait().expect("a child");
            }
        }
    }
    panic!("the load was never complete");
}

#[test]
fn line_longer_than_a_part_is_refused_and_the_lines_after_it_are_loaded() {
    let folder = Folder::new("graph-load-long-line");
    let (_serving, addr) = serve(&folder);
    let redis = &mut Redis::connect(addr);
    assert_eq!(redis.ask("G.TYPE g knows"), "+OK");
    let file = folder.file("edges");
    std::fs::write(&file, format!("1 2\n{}\n3 4\n", "5".repeat(5_000_000))).expect("written");
    let (code, out, err) = load(addr, &file, &["--timeout", "5s", "--retries", "0"]);
    assert!(code == 3 && out.starts_with("2 edges, 2 changed, 1 refused"), "{code} {out}{err}");
    assert!(err.contains("line 2: it is longer than a part of 1000000 bytes"), "{err}");
    assert_eq!(redis.ask("G.COUNT g 3 knows"), ":1");
}

#[test]
fn load_of_a_damaged_file_resumes_with_a_whole_copy_and_with_no_other_file() {
    let folder = Folder::new("graph-load-copy");
    let (_serving, addr) = serve(&folder);
    assert_eq!(Redis::connect(addr).ask("G.TYPE g knows"), "+OK");
    let (file, mut prng) = (folder.file("edges.zst"), Prng::new(3));
    let text: String = (1..=60_000).map(|line| format!("{line} {}\n", prng.below(1 << 40) + 60_001)).collect();
    let whole = zstd::encode_all(text.as_bytes(), 1).expect("compressed");
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("written");
    let (code, out, err) = load(addr, &file, &["--part-size", "64KiB"]);
    assert!(code == 1 && err.contains("copy it again; the same command with --resume continues"), "{code} {out}{err}");
    let other = zstd::encode_all(text.replace("7 ", "8 ").as_bytes(), 1).expect("compressed");
    std::fs::write(&file, other).expect("written");
    let (code, out, err) = load(addr, &file, &["--resume"]);
    let remedy = "is not the one that was loaded; pass the same file, or delete the journal to begin again\n";
    assert!(code == 1 && err.ends_with(remedy), "{code} {out}{err}");
    std::fs::write(&file, whole).expect("written");
    let (code, out, err) = load(addr, &file, &["--resume"]);
    assert!(code == 0 && out.starts_with("60000 edges, 60000 changed, 0 refused"), "{code} {out}{err}");
}

/// Runs `gannet graph load` into a file of graphs. Returns the exit code, standard output and standard error.
fn load_offline(folder: &Folder, file: &str, more: &[&str]) -> (i32, String, String) {
    let graphs = folder.file("graphs");
    run(&[&["graph", "load", file, "--graph-file", &graphs, "--graph", "g", "--type", "knows"], more].concat())
}

#[test]
fn file_of_graphs_is_created_and_loaded_and_then_served() {
    let folder = Folder::new("graph-load-file");
    let file = folder.file("edges.csv");
    let text: String = (10..40_010).map(|node| format!("{node},{},7,old\n", node + 1)).collect();
    std::fs::write(&file, format!("{text}1,1\n")).expect("written");
    let csv = ["--format", "csv", "--graph-memory", "90MiB"];
    let declared = [&csv[..], &["--declare", "UNDIRECTED SCHEMA note"]].concat();
    for (more, code_wanted, text) in [
        (&csv[..], 1, "it has no graph 'g'; pass --declare, which creates graph and edge type"),
        (&["--declare", "SIDEWAYS"], 2, "--declare: "),
        (&["--server", "127.0.0.1:1"], 2, "cannot be used with"),
        (&["--graph-memory", "1MiB"], 1, "graph"),
    ] {
        let (code, out, err) = load_offline(&folder, &file, more);
        assert!(code == code_wanted && err.contains(text), "{more:?}: {code} {out}{err}");
    }
    for changed in [40_000, 0] {
        let (code, out, err) = load_offline(&folder, &file, &declared);
        assert!(code == 3 && out.starts_with(&format!("40000 edges, {changed} changed, 1 refused")), "{out}{err}");
        assert!(err.contains("line 40001: it leads"), "{err}");
    }
    let (code, out, err) = load_offline(&folder, &file, &["--declare", "UNDIRECTED SORT TIME"]);
    assert!(code == 1 && err.contains("cannot load into "), "a type with other properties: {code} {out}{err}");
    let (serving, addr) = serve(&folder);
    let redis = &mut Redis::connect(addr);
    assert_eq!(redis.ask("G.COUNT g 20000 knows"), ":2");
    assert_eq!(redis.ask("G.DIST g 10 knows 13"), ":0 :3");
    let (code, out, err) = load_offline(&folder, &file, &csv);
    assert!(code == 1 && err.contains("another process"), "a server has the file open: {code} {out}{err}");
    killed(serving);
    let (code, out, err) = run(&["file", "check", &folder.file("graphs")]);
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn text_whose_edges_would_reserve_more_than_the_memory_at_once_is_loaded_in_batches() {
    let folder = Folder::new("graph-load-file-batches");
    let file = folder.file("edges");
    std::fs::write(&file, (1..=500_000).map(|node| format!("{node} {}\n", node + 1)).collect::<String>()).expect("ok");
    let words = ["--part-size", "32MiB", "--graph-memory", "128MiB", "--declare", "UNDIRECTED"];
    let (code, out, err) = load_offline(&folder, &file, &words);
    assert!(code == 0 && out.starts_with("500000 edges, 500000 changed, 0 refused"), "{code} {out}{err}");
}

#[test]
fn load_into_a_full_file_names_the_remedy_and_resumes_with_more_memory() {
    const EDGES: u64 = 250_000;
    let folder = Folder::new("graph-load-file-full");
    let file = file_of_long_edges(&folder, EDGES);
    let words = ["--format", "csv", "--part-size", "1MiB", "--resume", "--declare", "SCHEMA note"];
    let (code, out, err) = load_offline(&folder, &file, &[&words[..], &["--graph-memory", "90MiB"]].concat());
    let remedy = "the memory for graphs is full; pass a larger --graph-memory; the same command continues the load";
    assert!(code == 1 && err.contains(" of the text: ") && err.contains(remedy), "{code} {out}{err}");
    let (code, out, err) = load_offline(&folder, &file, &[&words[..], &["--graph-memory", "512MiB"]].concat());
    assert!(code == 0 && out.starts_with(&format!("{EDGES} edges, ")), "{code} {out}{err}");
    let (code, out, err) = run(&["file", "stats", &folder.file("graphs"), "--json"]);
    assert!(code == 0 && out.contains("250000"), "{code} {out}{err}");
}

#[test]
fn load_into_a_file_resumes_after_kills() {
    let folder = Folder::new("graph-load-file-kill");
    let (file, graphs, mut prng) = (folder.file("edges"), folder.file("graphs"), Prng::new(9));
    let mut edges = std::collections::BTreeSet::new();
    while edges.len() < 300_000 {
        edges.insert((prng.below(5_000) + 1, prng.below(1 << 20) + 5_001));
    }
    let text: String = edges.iter().map(|(source, destination)| format!("{source} {destination}\n")).collect();
    std::fs::write(&file, text).expect("written");
    let words = ["graph", "load", &file, "--graph-file", &graphs, "--graph", "g", "--type", "knows", "--resume"];
    let more = ["--declare", "UNDIRECTED", "--part-size", "64KiB", "--quiet"];
    let mut kills = 0;
    loop {
        let client = gannet(&[&words[..], &more].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut client = client.expect("it runs");
        let end = Instant::now() + Duration::from_millis(if kills < 6 { 150 + 50 * kills } else { 120_000 });
        while Instant::now() < end && client.try_wait().expect("a child").is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        if client.try_wait().expect("a child").is_none() {
            client.kill().expect("killed");
            kills += 1;
        }
        let ended = client.wait_with_output().expect("a child");
        if ended.status.success() {
            let out = String::from_utf8_lossy(&ended.stdout);
            assert!(out.starts_with("300000 edges, ") && kills > 0, "after {kills} kills: {out}");
            break;
        }
        assert!(ended.status.code().is_none(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    let (code, out, err) = run(&["file", "check", &graphs]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, _) = run(&["file", "dump", &graphs, "--graph", "g", "--type", "knows"]);
    let pair = |line: &str| {
        let mut fields = line.split(',').map(|field| field.parse::<u64>().unwrap_or(0));
        (fields.next().unwrap_or(0), fields.next().unwrap_or(0))
    };
    let dumped: std::collections::BTreeSet<_> =
        out.lines().map(pair).map(|(a, b)| (a.min(b), a.max(b))).filter(|(a, _)| *a > 0).collect();
    assert!(code == 0 && dumped == edges, "{} edges of {}", dumped.len(), edges.len());
}
