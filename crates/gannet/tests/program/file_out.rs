//! Tests the ways to get items out of a memory file: `gannet file dump`, and `gannet file migrate` to other sizes.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;

use crate::common::{PATIENCE, Serving, ask, connect, run};
use crate::restart::{MemoryFile, get, value_of, wait_until_whole};

/// Starts a server on the file. Returns it, and a connection of each protocol.
fn serve(file: &MemoryFile, more: &[&str]) -> (Serving, TcpStream, TcpStream) {
    let free = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "none", "--file", file.path()];
    let mut serving = Serving::start(&[&free[..], more].concat());
    let memcached = connect(serving.addr_behind("memcached clients connect to "));
    let resp = connect(serving.addr_behind("Redis clients connect to "));
    (serving, memcached, resp)
}

/// Sends requests of a Redis client, followed by `PING`. Returns the replies up to the reply to `PING`.
pub fn answers(resp: &mut TcpStream, requests: &str) -> String {
    resp.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    resp.write_all(format!("{requests}PING end-of-it\r\n").as_bytes()).expect("sends");
    let mut all = Vec::new();
    let mut part = [0; 65536];
    while !all.ends_with(b"$9\r\nend-of-it\r\n") {
        let bytes = resp.read(&mut part).expect("an answer");
        assert!(bytes > 0, "the connection ended");
        all.extend_from_slice(&part[..bytes]);
    }
    String::from_utf8(all).expect("text")
}

const FIELDS: usize = 2000;

/// Stores items of every kind. Returns requests of a Redis client that read all of them, so that two stores can be
/// compared.
fn store_all(memcached: &mut TcpStream, resp: &mut TcpStream) -> String {
    ask(memcached, b"set plain 7 0 5\r\nhello\r\n", b"STORED\r\n");
    ask(memcached, b"set number 0 0 2\r\n41\r\nincr number 1\r\n", b"STORED\r\n42\r\n");
    ask(memcached, b"set short 0 1000 3\r\n\xff\x00\n\r\n", b"STORED\r\n");
    let large = value_of("large", 1, 300_000);
    ask(memcached, &[b"set large 0 0 300000\r\n", &large[..], b"\r\n"].concat(), b"STORED\r\n");
    ask(memcached, b"set gone 0 0 1\r\nx\r\ndelete gone\r\n", b"STORED\r\nDELETED\r\n");
    let fields: String = (0..FIELDS).map(|field| format!("HSET many f{field} value-{field}\r\n")).collect();
    answers(resp, &fields);
    answers(
        resp,
        "HSET few a 1 b two\r\nHPEXPIREAT few 4102444800000 FIELDS 1 b\r\nSELECT 5\r\n\
         SET there x PXAT 4102444800000\r\nSELECT 0\r\n\
         REC.PUT person IN people BINS name STR Ann list LIST 2 INT 1 FLOAT 0.5\r\n\
         REC.PUT person BINS done BOOL true\r\n",
    );
    answers(
        resp,
        "RPUSH queue 1 two 3.5\r\nSADD group m1\r\nZADD board 1.5 ann inf bob\r\nXADD log 5-1 name ann\r\n\
         XADD log 6-0 name bob age 7\r\nXADD log 7-0 x y\r\nXDEL log 7-0\r\nXGROUP CREATE log readers 0\r\n\
         XREADGROUP GROUP readers me COUNT 1 STREAMS log >\r\n",
    );
    let members: String = (0..FIELDS).map(|member| format!("RPUSH long element-{member}\r\n")).collect();
    answers(resp, &members);
    "GET plain\r\nGET number\r\nSTRLEN large\r\nEXISTS gone\r\nHLEN many\r\nHGET many f1234\r\nHGETALL few\r\n\
     HPEXPIRETIME few FIELDS 2 a b\r\nSELECT 5\r\nGET there\r\nPEXPIRETIME there\r\nSELECT 0\r\n\
     REC.GET person TYPED\r\nLRANGE queue 0 -1\r\nSMEMBERS group\r\nZRANGE board 0 -1 WITHSCORES\r\n\
     XRANGE log - +\r\nXPENDING log readers\r\nLLEN long\r\nLINDEX long 1234\r\n"
        .to_owned()
}

#[test]
fn a_dump_has_every_live_item_with_its_flags_end_and_namespace_and_leaves_the_file_alone() {
    dump_of("file");
}

#[test]
fn a_dump_of_a_file_without_its_index_has_the_same() {
    dump_of("dram");
}

fn dump_of(index: &str) {
    let file = MemoryFile::new(&format!("dump-{index}"));
    let (mut serving, mut memcached, mut resp) = serve(&file, &["--memory", "32MiB", "--file-index", index]);
    store_all(&mut memcached, &mut resp);
    let (code, _, err) = run(&["file", "dump", file.path()]);
    assert!(code == 1 && err.contains("another process has the file"), "{err}");
    serving.signal("KILL");
    serving.ended();
    let before = std::fs::read(file.path()).expect("there");
    let (code, out, err) = run(&["file", "dump", file.path()]);
    assert_eq!(code, 0, "{err}");
    assert!(std::fs::read(file.path()).expect("there") == before, "a dump changed the file");
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0], serde_json::json!({"gannet_dump": 1}));
    let of = |key: &str| {
        let mut found = lines.iter().filter(|line| line["key"] == *key);
        let line = found.next().unwrap_or_else(|| panic!("{key} is not told"));
        assert!(found.next().is_none(), "{key} is told twice");
        line
    };
    assert_eq!(*of("plain"), serde_json::json!({"namespace": 0, "key": "plain", "flags": 7, "value": "hello"}));
    assert_eq!(of("number")["value"], "42");
    assert_eq!(of("short")["value"], serde_json::json!({"base64": "/wAK"}));
    assert!(of("short")["ends_ms"].as_u64().is_some_and(|ends| ends > 1_700_000_000_000));
    assert_eq!(of("large")["value"].as_str().map(str::as_bytes), Some(&value_of("large", 1, 300_000)[..]));
    assert_eq!(of("many")["bins"].as_array().map(Vec::len), Some(FIELDS));
    let few = of("few")["bins"].as_array().expect("bins").clone();
    assert!(few.contains(&serde_json::json!(["a", 1])), "{few:?}");
    assert!(few.contains(&serde_json::json!(["b", "two", 4_102_444_800_000_u64])), "{few:?}");
    assert_eq!((&of("there")["namespace"], &of("there")["ends_ms"]), (&5.into(), &4_102_444_800_000_u64.into()));
    let person = of("person");
    assert_eq!((&person["set"], &person["revision"]), (&"people".into(), &2.into()));
    let bins = person["bins"].as_array().expect("bins");
    for bin in [
        serde_json::json!(["name", "Ann"]),
        serde_json::json!(["done", true]),
        serde_json::json!(["list", [1, {"float": 0.5}]]),
    ] {
        assert!(bins.contains(&bin), "{bin} is not in {bins:?}");
    }
    assert_eq!(of("queue")["list"], serde_json::json!(["1", "two", "3.5"]));
    assert_eq!(of("group")["members"], serde_json::json!(["m1"]));
    assert_eq!(of("board")["scores"], serde_json::json!([["ann", 1.5], ["bob", "inf"]]));
    let log = &of("log")["stream"];
    assert_eq!(log["entries"], serde_json::json!([["5-1", ["name", "ann"]], ["6-0", ["name", "bob", "age", "7"]]]));
    let ids = ["last_id", "greatest_deleted_id"].map(|name| log[name].as_str().expect("an identifier"));
    assert_eq!((ids, &log["added"]), (["7-0", "7-0"], &3.into()));
    let group = &log["groups"][0];
    assert_eq!((&group["name"], &group["last_id"]), (&"readers".into(), &"5-1".into()));
    let consumer = &group["consumers"][0];
    assert!(consumer["name"] == "me" && consumer["seen_ms"].as_u64().is_some_and(|ms| ms > 1_700_000_000_000));
    assert_eq!((&consumer["pending"][0][0], &consumer["pending"][0][2]), (&"5-1".into(), &1.into()));
    let long = of("long")["list"].as_array().expect("a list");
    assert_eq!((long.len(), &long[1234]), (FIELDS, &"element-1234".into()));
    assert!(lines.iter().all(|line| line["key"] != "gone"));
    assert_eq!(lines.iter().filter(|line| line["key"].is_string()).count(), 13);
    let (code, out, err) = run(&["file", "check", file.path()]);
    assert!(code == 0 && out.contains("no fault"), "{out}{err}");
    assert_eq!(run(&["file", "dump", "/no/such"]).0, 1);
}

#[test]
fn file_migrated_to_other_sizes_holds_the_same_items_as_the_source() {
    migrate_of("file");
}

#[test]
fn a_file_of_other_sizes_without_its_index_holds_the_same() {
    migrate_of("dram");
}

fn migrate_of(index: &str) {
    let named = |what: &str| MemoryFile::new(&format!("migrate-{what}-{index}"));
    let (file, larger, smaller) = (named("from"), named("larger"), named("smaller"));
    let (mut serving, mut memcached, mut resp) = serve(&file, &["--memory", "32MiB", "--file-index", index]);
    let asked = store_all(&mut memcached, &mut resp);
    let expected = answers(&mut resp, &asked);
    assert!(
        expected.contains("value-1234") && expected.contains("Ann") && expected.contains(":4102444800000"),
        "{expected}"
    );
    serving.signal("TERM");
    assert!(serving.ended().success());
    let before = std::fs::read(file.path()).expect("there");
    for (to, memory, segment) in [(&larger, "64MiB", "256KiB"), (&smaller, "24MiB", "64KiB")] {
        let migrated =
            run(&["file", "migrate", file.path(), "--to", to.path(), "--memory", memory, "--segment", segment]);
        assert!(migrated.0 == 0 && migrated.1.contains("13 items were copied to"), "{migrated:?}");
        let (code, out, err) = run(&["file", "check", to.path()]);
        assert!(code == 0 && out.contains("no fault"), "{out}{err}");
        let sizes = ["--memory", memory, "--segment", segment, "--file-index", index];
        let (mut serving, memcached, mut resp) = serve(to, &sizes);
        if index == "dram" {
            wait_until_whole(&mut serving);
        }
        assert_eq!(answers(&mut resp, &asked), expected);
        let mut memcached = BufReader::new(memcached);
        assert_eq!(get(&mut memcached, "large"), Some(value_of("large", 1, 300_000)));
        ask(memcached.get_mut(), b"mg plain f\r\n", b"HD f7\r\n");
        serving.signal("TERM");
        assert!(serving.ended().success());
    }
    assert!(std::fs::read(file.path()).expect("there") == before, "the old file was changed");
    let (code, _, err) = run(&["file", "migrate", file.path(), "--to", larger.path()]);
    assert!(code == 1 && err.contains("the file already exists"), "{err}");
}

#[test]
fn file_whose_namespace_does_not_fit_the_new_sizes_is_not_migrated() {
    let (file, to) = (MemoryFile::new("namespace-from"), MemoryFile::new("namespace-to"));
    let settings = std::env::temp_dir().join(format!("gannet-namespace-{}.toml", std::process::id()));
    std::fs::write(&settings, "[[namespace]]\nname = \"shop\"\nmemory = \"16MiB\"\n").expect("written");
    let (mut serving, ..) = serve(&file, &["--memory", "64MiB", settings.to_str().expect("text")]);
    serving.signal("TERM");
    assert!(serving.ended().success());
    std::fs::remove_file(&settings).expect("removed");
    let migrate = |memory: &str, segment: &str| {
        run(&["file", "migrate", file.path(), "--to", to.path(), "--memory", memory, "--segment", segment])
    };
    let (code, _, err) = migrate("256MiB", "1MiB");
    assert!(code == 1 && err.contains("cannot create the namespace shop there: the quota is too small"), "{err}");
    assert!(err.contains(to.path()) && err.contains(file.path()), "{err}");
    assert!(!std::path::Path::new(to.path()).exists(), "a useless file is left");
    let (code, out, err) = migrate("128MiB", "64KiB");
    assert!(code == 0, "{out}{err}");
    let (mut serving, ..) = serve(&to, &["--memory", "128MiB", "--segment", "64KiB"]);
    serving.signal("TERM");
    assert!(serving.ended().success());
}

#[test]
fn running_program_is_refused_as_a_memory_file_with_the_remedy() {
    let program = env!("CARGO_BIN_EXE_gannet");
    let (code, _, err) = run(&["file", "check", program]);
    assert!(code == 1 && err.contains("is a program that runs, not a memory file; pass the file"), "{code}: {err}");
}
