//! Tests memcached's flags for items in a file (`-e`) and on flash (`-o ext_path`), and the files that memcached
//! leaves.

use crate::memcached::{Peer, Which};
use crate::peers::Folder;
use std::io::{Read, Write};

fn gannet(name: &str, flags: &str) -> Peer {
    Peer::start(Which::Gannet, name, &format!("-p {{port}} -l 127.0.0.1 -u root {flags}"))
}

fn memcached(name: &str, flags: &str) -> Peer {
    Peer::start(Which::Memcached, name, &format!("-p {{port}} -l 127.0.0.1 -u root {flags}"))
}

/// Length of the values, in bytes.
const VALUE_BYTES: usize = 10_000;

fn value(number: usize) -> String {
    format!("{number:0>VALUE_BYTES$}")
}

/// Number of requests that are sent before the first reply is read.
const GETS: usize = 16;

/// Stores `count` values, as many as one request takes at a time.
fn fill(peer: &Peer, count: usize) {
    for first in (0..count).step_by(100) {
        store(peer, first..count.min(first + 100));
    }
}

/// Stores the values with these numbers.
fn store(peer: &Peer, numbers: std::ops::Range<usize>) {
    let set = |number| format!("set k{number} 7 0 {VALUE_BYTES}\r\n{}\r\n", value(number));
    let sets: Vec<String> = numbers.map(set).collect();
    assert_eq!(peer.ask(&sets.concat()), "STORED\r\n".repeat(sets.len()));
}

/// Stores `count` values, and waits whenever the device does not keep up: it then refuses items.
fn fill_as_fast_as_flash(peer: &Peer, count: usize) {
    let mut refused = 0;
    for first in (0..count).step_by(10) {
        store(peer, first..count.min(first + 10));
        let now = stat(peer, "flash_items_refused");
        if std::mem::replace(&mut refused, now) < now {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

/// Returns the value of the statistic `name`.
fn stat(peer: &Peer, name: &str) -> u64 {
    let lines = peer.ask("stats\r\n");
    let found = lines.lines().find_map(|line| line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {name} in {lines}")).parse().unwrap()
}

#[test]
fn three_times_the_memory_is_read_back_through_ext_path() {
    let folder = Folder::new("ext");
    let flags = format!(
        "-m 16 -o ext_page_size=8,ext_wbuf_size=4,ext_item_size=512,ext_item_age=0,ext_low_ttl=60,\
         ext_recache_rate=2000,ext_compact_under=4,ext_drop_under=4,ext_max_frag=0.8,ext_max_sleep=1000,ext_threads=2,\
         ext_io_depth=16,slab_automove_freeratio=0.02,ext_path={}:128m",
        folder.file("ext")
    );
    let peer = gannet("ext", &flags);
    let count = 3 * (16 << 20) / VALUE_BYTES;
    fill_as_fast_as_flash(&peer, count);
    let mut stream = peer.connect().expect("it serves");
    let (mut found, mut missing) = (0, Vec::new());
    for number in 0..count {
        if number % GETS == 0 {
            let numbers = number..count.min(number + GETS);
            let gets: String = numbers.map(|number| format!("get k{number}\r\n")).collect();
            stream.write_all(gets.as_bytes()).unwrap();
        }
        let expected = format!("VALUE k{number} 7 {VALUE_BYTES}\r\n{}\r\nEND\r\n", value(number));
        let mut answer = vec![0; "END\r\n".len()];
        stream.read_exact(&mut answer).unwrap();
        if answer == b"END\r\n" {
            missing.push(number);
            continue;
        }
        let mut rest = vec![0; expected.len() - answer.len()];
        stream.read_exact(&mut rest).unwrap();
        assert!([answer, rest].concat() == expected.as_bytes(), "k{number} has another value");
        found += 1;
    }
    // A device that is slower than the writes of the test loses items, which are counted.
    let refused = stat(&peer, "flash_items_refused") as usize;
    assert!(missing.len() <= refused + count / 5000, "{missing:?}, {refused} refused");
    assert!(found >= count * 9 / 10, "{found} of {count}");
    let log = peer.stderr();
    for option in ["ext_page_size", "ext_item_age", "ext_max_frag", "ext_io_depth", "slab_automove_freeratio"] {
        assert_eq!(log.matches(&format!("-o {option} has no effect here")).count(), 1, "{option}: {log}");
    }
}

#[test]
fn memory_file_survives_the_signal_of_a_graceful_restart_and_a_kill() {
    let folder = Folder::new("memory");
    let flags = format!("-m 64 -e {}", folder.file("items"));
    let start = || gannet("memory", &flags);
    let mut peer = start();
    assert_eq!(peer.ask("set a 5 0 3\r\nabc\r\n"), "STORED\r\n");
    peer.signal("USR1");
    assert_eq!(peer.ended(), Some(0));
    let mut peer = start();
    assert_eq!(peer.settings()["memory_file"], folder.file("items"));
    assert_eq!(peer.ask("get a\r\nset b 0 0 1\r\nx\r\n"), "VALUE a 5 3\r\nabc\r\nEND\r\nSTORED\r\n");
    peer.signal("KILL");
    peer.ended();
    let mut peer = start();
    assert_eq!(peer.ask("get b\r\n"), "VALUE b 0 1\r\nx\r\nEND\r\n");
    peer.signal("USR1");
    peer.ended();
    let other = gannet("memory", &flags.replace("-m 64", "-m 80"));
    assert_eq!(other.ask("get a b\r\nset c 0 0 1\r\ny\r\n"), "END\r\nSTORED\r\n");
    assert!(other.stderr().contains("items is emptied: it was created with -m"), "{}", other.stderr());
}

#[test]
fn files_of_memcached_are_emptied_and_those_of_other_programs_never() {
    let folder = Folder::new("left");
    let (items, storage) = (folder.file("items"), folder.file("storage"));
    let flags = format!("-m 64 -e {items} -o ext_page_size=8,ext_wbuf_size=4,ext_path={storage}:128m");
    // The items have to be longer than the minimum for external storage, and more than the memory holds.
    let mut theirs = memcached("left", &flags.replace(&format!("-e {items}"), ""));
    fill(&theirs, 2 * (64 << 20) / VALUE_BYTES);
    theirs.signal("TERM");
    theirs.ended();
    let mut theirs = memcached("left", &format!("-m 64 -e {items}"));
    theirs.ask("set a 5 0 3\r\nabc\r\n");
    theirs.signal("USR1");
    theirs.ended();
    assert!(folder.path().join("items.meta").exists());
    let peer = gannet("left", &flags);
    assert_eq!(peer.ask("get a\r\n"), "END\r\n");
    assert!(!folder.path().join("items.meta").exists(), "memcached would read the file by it");
    for path in [&items, &storage] {
        assert!(peer.stderr().contains(&format!("{path} holds items of memcached")), "{}", peer.stderr());
    }
    drop(peer);
    for (path, flags) in [
        (folder.written("mine", &"mine".repeat(5000)), "-e"),
        (folder.written("mine.ext", &"mine".repeat(5000)), "-o ext_page_size=8,ext_path"),
    ] {
        let (flags, size) = if flags == "-e" { ("-e ", "") } else { (flags, ":128m") };
        let sign = if size.is_empty() { "" } else { "=" };
        let mut peer = gannet("left", &format!("-m 64 {flags}{sign}{path}{size}"));
        assert_eq!((peer.pid, peer.ended()), (None, Some(1)), "{path}");
        let errors = peer.stderr();
        assert!(errors.contains("remove") && !errors.contains("--"), "{errors}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine".repeat(5000));
    }
}
