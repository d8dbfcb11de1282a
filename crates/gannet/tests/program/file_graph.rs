//! Tests `gannet file` on files of graphs: after a kill, and with every kind of damage. The file never changes.

use std::io::{Seek, SeekFrom, Write};

use crate::common::{Serving, run};
use crate::peers::Folder;
use crate::restart_together::{Redis, killed};

const HEADER: u64 = 4096;

fn serve(path: &str) -> (Serving, Redis) {
    let words = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "none", "--memory", "16MiB"];
    let place = ["--graph-memory", "90MiB", "--graph-file", path, "--workers", "2"];
    let mut serving = Serving::start(&[&words[..], &place].concat());
    let redis = Redis::connect(serving.addr_behind("Redis clients connect to "));
    (serving, redis)
}

/// Returns the file of a server that was killed after it stored edges of every kind.
fn killed_file(folder: &Folder) -> String {
    let path = folder.file("graphs");
    let (serving, mut redis) = serve(&path);
    assert_eq!(redis.ask("G.TYPE social knows UNDIRECTED SCHEMA note kind"), "+OK");
    assert_eq!(redis.ask("G.TYPE social follows"), "+OK");
    assert_eq!(redis.ask("G.TYPE social followers INVERSE follows"), "+OK");
    for node in 1..=300 {
        assert_eq!(redis.ask(&format!("G.ADD social {node} knows {} TS {node}", node + 1)), ":1");
        assert_eq!(redis.ask(&format!("G.ADD social {} follows {node} TS 7", node + 1)), ":1");
    }
    assert_eq!(redis.ask("G.ADD social 1 knows 9 TS 5 ATTR note a,b kind \"q"), ":1");
    assert_eq!(redis.ask("G.ADD social 2 knows 8 TS 5 ATTR note  kind z"), ":1");
    assert_eq!(redis.ask("G.ARCHIVE social 3 knows 4 TS 1000"), ":1");
    assert_eq!(redis.ask("G.DEL social 5 knows 6 TS 1000"), ":1");
    assert_eq!(redis.ask("G.ADD social 7 follows 9 TS 8 NEGATIVE"), ":1");
    assert_eq!(redis.ask("G.NODE SET social 1 person name Ann TS 6"), ":1");
    assert_eq!(redis.ask("G.NODE ARCHIVE social 300"), ":1");
    let (code, _, err) = run(&["file", "check", &path]);
    assert!(code == 1 && err.contains("another process has the file open; stop the server"), "{err}");
    killed(serving);
    path
}

/// Copies a file, and changes bytes of the copy.
fn damaged(folder: &Folder, path: &str, name: &str, offset: u64, bytes: &[u8]) -> String {
    let copy = folder.file(name);
    std::fs::copy(path, &copy).expect("a copy");
    let mut file = std::fs::OpenOptions::new().write(true).open(&copy).expect("opens");
    file.seek(SeekFrom::Start(offset)).expect("seeks");
    file.write_all(bytes).expect("writes");
    copy
}

#[test]
fn killed_graph_file_is_checked_counted_and_dumped_unchanged() {
    let folder = Folder::new("file-graph");
    let path = killed_file(&folder);
    let before = std::fs::read(&path).expect("there");
    let (code, out, err) = run(&["file", "check", &path]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("social knows: 301 lists, 300 live edges, 0 negative, 1 archived, 1 removed\n"), "{out}");
    assert!(out.contains("social follows: ") && out.ends_with("no fault\n"), "{out}");

    let (_, out, _) = run(&["file", "stats", &path, "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    for (name, wanted) in [("graphs", 1), ("edge_types", 3), ("nodes", 301), ("edges_live", 600), ("faults", 0)] {
        assert_eq!(stats[name], wanted, "{name}: {out}");
    }
    assert!(stats["bytes_per_edge"].as_f64().expect("a number") > 8.0);
    let (_, out, _) = run(&["file", "stats", &path]);
    assert!(out.contains("edges_negative          1\n") && out.contains("boot                    this\n"), "{out}");

    let (code, out, err) = run(&["file", "dump", &path]);
    assert_eq!((code, err.as_str()), (0, "gannet: 602 edges\n"));
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0], serde_json::json!({"gannet_graph_dump": 1}));
    let has = |line: serde_json::Value| assert_eq!(lines.iter().filter(|found| **found == line).count(), 1, "{line}");
    has(serde_json::json!({"graph": "social", "declares": "followers", "inverse_of": "follows"}));
    has(serde_json::json!({"graph": "social", "type": "knows", "source": 1, "destination": 9, "time_ms": 5,
        "attributes": [["note", "a,b"], ["kind", "\"q"]]}));
    // An empty attribute differs from none.
    has(serde_json::json!({"graph": "social", "type": "knows", "source": 2, "destination": 8, "time_ms": 5,
        "attributes": [["note", ""], ["kind", "z"]]}));
    // The mark of node 300 hides these.
    for (ty, source, destination, time_ms) in [("knows", 299, 300, 299), ("follows", 300, 299, 7)] {
        has(serde_json::json!({"graph": "social", "type": ty, "source": source, "destination": destination,
            "time_ms": time_ms, "hidden": true}));
    }
    let hidden = lines.iter().filter(|line| line["hidden"] == true);
    assert_eq!(hidden.count(), 4);
    has(serde_json::json!({"graph": "social", "type": "knows", "source": 3, "destination": 4, "time_ms": 1000,
        "state": "archived"}));
    has(serde_json::json!({"graph": "social", "type": "knows", "source": 5, "destination": 6, "time_ms": 1000,
        "state": "removed"}));
    has(serde_json::json!({"graph": "social", "type": "follows", "source": 7, "destination": 9, "time_ms": 8,
        "state": "negative"}));
    has(serde_json::json!({"graph": "social", "node": 1, "time_ms": 6, "type": "person", "bins": [["name", "Ann"]]}));
    has(serde_json::json!({"graph": "social", "node": 300, "state": "archived"}));

    let (code, csv, _) = run(&["file", "dump", &path, "--graph", "social", "--type", "knows"]);
    assert_eq!((code, csv.lines().next()), (0, Some("source,destination,time_ms,note,kind")));
    assert!(csv.contains("\n1,9,5,\"a,b\",\"\"\"q\"\n") && csv.lines().count() == 301, "{csv}");
    // Bulk loads distinguish an empty attribute from an absent one.
    assert!(csv.contains("\n2,8,5,\"\",z\n") && csv.lines().any(|line| line.split(',').count() == 3), "{csv}");
    let (code, _, err) = run(&["file", "dump", &path, "--graph", "social", "--type", "likes"]);
    assert!(code == 1 && err.contains("no edge type 'likes'; choose one of: knows, follows, followers"), "{err}");
    let (code, _, err) = run(&["file", "dump", &path, "--graph", "other", "--type", "likes"]);
    assert!(code == 1 && err.contains("no graph 'other'; choose one of: social"), "{err}");
    let (code, _, err) = run(&["file", "migrate", &path, "--to", &folder.file("new")]);
    assert!(code == 1 && err.contains("a file of graphs, which a server enlarges itself"), "{err}");
    assert!(std::fs::read(&path).expect("there") == before, "a command changed the file");
}

#[test]
fn damage_of_a_graph_file_is_named_with_its_byte() {
    let folder = Folder::new("file-graph-damage");
    let path = killed_file(&folder);
    let contents = std::fs::read(&path).expect("there");
    let word = |at: u64| u32::from_le_bytes(contents[at as usize..][..4].try_into().expect("four bytes"));
    let segment = (0..9).map(|segment| HEADER + segment * (10 << 20)).find(|at| word(*at) & 0xFF_FFFF == 0x47_5247);
    let (segment, number) = segment.map(|at| (at, (at - HEADER) >> 20)).map(|(at, mib)| (at, mib / 10)).expect("used");
    let (first, used) = (segment + 32, u64::from(word(segment + 16)) * 4);
    let middle = first + u64::from(word(first + 4) & 0x3F_FFFF) * 4;

    let torn = damaged(&folder, &path, "torn", middle + 8, &[!contents[middle as usize + 8]]);
    let before = std::fs::read(&torn).expect("there");
    let (code, _, err) = run(&["file", "check", &torn]);
    let length = u64::from(word(middle + 4) & 0x3F_FFFF) * 4;
    assert!(middle + length < segment + used, "records follow the damaged one");
    let wanted = format!(
        "byte {middle}, segment {number}: the checksum or form of a record is wrong, so {length} bytes up to the next \
         record are not read"
    );
    assert!(
        code == 1
            && err.contains(&wanted)
            && err.contains("edges of these records are missing or have an earlier state"),
        "{err}"
    );
    let (code, _, err) = run(&["file", "dump", &torn]);
    assert!(code == 1 && err.contains("faults, so edges may be missing"), "{err}");
    assert!(std::fs::read(&torn).expect("there") == before, "a command changed the file");

    let header = damaged(&folder, &path, "header", segment + 8, &[0xFF; 4]);
    let (code, _, err) = run(&["file", "check", &header]);
    assert!(code == 1 && err.contains(&format!("byte {segment}, segment {number}: the header is wrong")), "{err}");

    let version = damaged(&folder, &path, "version", 4, &[9]);
    let (code, _, err) = run(&["file", "check", &version]);
    assert!(code == 1 && err.contains("version 9, but this build reads version "), "{err}");

    let boot = damaged(&folder, &path, "boot", 16, &[0x55; 16]);
    let (code, out, _) = run(&["file", "check", &boot]);
    assert!(code == 0 && out.starts_with("written before the last boot: a server discards these graphs"), "{out}");
}

#[test]
fn graph_file_that_lost_its_end_is_reported_dumped_and_refused_by_a_server() {
    let folder = Folder::new("file-graph-short");
    let path = killed_file(&folder);
    for bytes in [HEADER + 100, 50 << 20, HEADER + (90 << 20) - 1] {
        let short = damaged(&folder, &path, "short", 0, &[]);
        let file = std::fs::OpenOptions::new().write(true).open(&short).expect("opens");
        file.set_len(bytes).expect("shorter");
        let (code, _, err) = run(&["file", "check", &short]);
        assert!(code == 1 && err.contains(&format!("the file has {bytes} of 94375936 bytes")), "{err}");
        let (code, _, _) = run(&["file", "dump", &short]);
        assert_eq!(code, 1);
        let place = ["--memory", "16MiB", "--graph-memory", "90MiB", "--graph-file", &short];
        let (code, _, err) = run(&[&["serve", "--memcached", "127.0.0.1:0", "--admin", "none"], &place[..]].concat());
        assert!(
            code == 1 && err.contains("it is shorter than its header states, so edges at its end are lost"),
            "{err}"
        );
        assert_eq!(std::fs::metadata(&short).expect("there").len(), bytes);
    }
    let (code, _, err) = run(&["file", "check", &damaged(&folder, &path, "tiny", 0, &[])]);
    assert_eq!(code, 0, "{err}");
    std::fs::write(folder.file("tiny"), b"GGRF").expect("writes");
    let (code, _, err) = run(&["file", "check", &folder.file("tiny")]);
    assert!(code == 1 && err.contains("shorter than its header states"), "{err}");
}

#[test]
fn foreign_file_that_begins_with_zeros_is_refused_and_stays_unchanged() {
    let folder = Folder::new("file-graph-foreign");
    let path = folder.file("image");
    let mut contents = vec![0; (95 << 20) + 7];
    contents[70 << 20] = 1;
    std::fs::write(&path, &contents).expect("writes");
    let place = ["--memory", "16MiB", "--graph-memory", "90MiB", "--graph-file", &path];
    let (code, _, err) = run(&[&["serve", "--memcached", "127.0.0.1:0", "--admin", "none"], &place[..]].concat());
    assert!(code == 1 && err.contains("begins with zeros and contains other data"), "{err}");
    assert!(std::fs::read(&path).expect("there") == contents, "the server changed a foreign file");
    let (code, _, err) = run(&["file", "check", &path]);
    assert!(code == 1 && err.contains("not a gannet memory file"), "{err}");
    let (code, _, err) = run(&["file", "dump", &path, "--graph", "a", "--type", "b"]);
    assert!(code == 1 && err.contains("it is no file of graphs; omit --graph and --type"), "{err}");
}
