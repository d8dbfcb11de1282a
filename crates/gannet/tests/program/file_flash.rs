//! Looking at a memory file whose items are on flash too, and moving out of it: `gannet file dump`, `stats`, `check`
//! and `migrate`.

use std::collections::HashMap;
use std::net::SocketAddr;

use base::prng::Prng;

use crate::common::{Serving, connect, run};
use crate::file_out::answers;
use crate::restart::{MemoryFile, wait_until_whole};
use crate::restart_flash::{FlashFile, KEYS, Ledger, stat, wait_until_found};

/// Number of times that an item of each kind is stored, between the other items.
const PARTS: u64 = 30;

/// Starts a server with a memory file and flash. Returns its addresses for memcached and Redis clients.
fn serve(file: &MemoryFile, flash: &FlashFile, index: &str) -> (Serving, SocketAddr, SocketAddr) {
    let flash = flash.flag();
    let words = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "none", "--memory", "16MiB"];
    let place = ["--file", file.path(), "--file-index", index, "--flash", &flash];
    let mut serving = Serving::start(&[&words[..], &place].concat());
    let memcached = serving.addr_behind("memcached clients connect to ");
    let resp = serving.addr_behind("Redis clients connect to ");
    (serving, memcached, resp)
}

#[test]
fn dump_lists_flash_items_without_changing_file_or_flash() {
    dump_of("file");
}

#[test]
fn dump_finds_flash_items_without_a_persistent_index() {
    dump_of("dram");
}

fn dump_of(index: &str) {
    let named = format!("dump-flash-{index}");
    let (file, flash) = (MemoryFile::new(&named), FlashFile::new(&named));
    let mut ledger = Ledger::new(0);
    let (mut serving, addr, resp) = serve(&file, &flash, index);
    let mut prng = Prng::new(5);
    // If the device is slower than the writes, some items are dropped. A part of the items of each kind remains.
    for part in 0..PARTS {
        answers(&mut connect(resp), &kinds(part));
        assert!(ledger.write(addr, &mut prng, 3 * KEYS / PARTS));
    }
    assert!(stat(addr, "flash_items") > KEYS / 4, "much is on flash");
    serving.signal("KILL");
    serving.ended();
    let before = [&file.path().into(), &flash.0].map(|path: &std::path::PathBuf| std::fs::read(path).expect("there"));

    let (code, _, err) = run(&["file", "dump", file.path()]);
    assert!(code == 1 && err.contains("to `gannet file dump`"), "{err}");
    let (code, out, err) = run(&["file", "dump", file.path(), "--flash", &flash.flag()]);
    assert_eq!(code, 0, "{err}");
    let (lines, mut told) = (lines(&out), HashMap::new());
    for line in &lines {
        let key = line["key"].as_str().expect("a key").to_owned();
        assert!(told.insert(key, line).is_none(), "{line} is told twice");
    }
    let of = |kind: &str| (0..PARTS).filter_map(|part| told.get(&format!("{kind}-{part}"))).collect::<Vec<_>>();
    let kinds_told = [of("few"), of("there"), of("person")];
    assert!(kinds_told.iter().all(|lines| lines.len() > 1), "{kinds_told:?}");
    let [few, there, person] = &kinds_told;
    assert!(few.iter().all(|line| line["bins"].as_array().is_some_and(|bins| bins.len() == 2)), "{few:?}");
    assert!(there.iter().all(|line| line["namespace"] == 5 && line["ends_ms"] == 4_102_444_800_000_u64), "{there:?}");
    assert!(person.iter().all(|line| line["set"] == "people"), "{person:?}");
    assert!(of("ended").is_empty());
    let others = kinds_told.iter().map(Vec::len).sum::<usize>();
    let (code, out, err) = run(&["file", "check", file.path()]);
    assert!(code == 0 && out.contains("no fault"), "{out}{err}");
    assert_eq!(out.contains("slots that refer to items on flash"), index == "file", "{out}");
    let (code, stats, err) = run(&["file", "stats", file.path()]);
    let items = stats.lines().find_map(|line| line.strip_prefix("flash_items")).expect("a line");
    assert!(code == 0 && items.trim().parse::<u64>().expect("a number") > KEYS / 4, "{stats}{err}");
    let other = FlashFile::new(&format!("{named}-other"));
    std::fs::write(&other.0, vec![0; before[1].len()]).expect("written");
    let (code, _, err) = run(&["file", "dump", file.path(), "--flash", &other.flag()]);
    assert!(code == 1 && err.contains("is not the device that the memory file was used with"), "{err}");
    let after = [&file.path().into(), &flash.0].map(|path: &std::path::PathBuf| std::fs::read(path).expect("there"));
    assert!(before == after, "a dump changed something");

    let (serving, addr, resp) = serve(&file, &flash, index);
    wait_until_found(addr);
    let asked: String = (0..PARTS).map(|part| format!("EXISTS few-{part}\r\n")).collect();
    for (part, answer) in answers(&mut connect(resp), &asked).lines().take(PARTS as usize).enumerate() {
        assert!(answer == ":0" || told.contains_key(&format!("few-{part}")), "few-{part} is there, and was not told");
    }
    ledger.check(addr, 5);
    let mut held = 0;
    for (key, value) in ledger.held() {
        let line = told.get(&key).unwrap_or_else(|| panic!("{key} is there, and was not told"));
        assert_eq!(line["value"].as_str().map(str::as_bytes), Some(&value[..]), "{key}");
        held += 1;
    }
    // A read brings its item back from flash, and may displace other items.
    assert!(told.len() - others - held < KEYS as usize / 50, "{} were told, {held} are there", told.len());
    assert!(held as u64 > KEYS / 2, "{held} are there");
    drop(serving);
}

/// Returns requests that store an item of each kind.
fn kinds(part: u64) -> String {
    format!(
        "HSET few-{part} a 1 b two\r\nSELECT 5\r\nSET there-{part} x PXAT 4102444800000\r\nSELECT 0\r\n\
         SET ended-{part} x PX 1\r\nREC.PUT person-{part} IN people BINS name STR Ann\r\n"
    )
}

/// Returns the lines of a dump that describe items.
fn lines(out: &str) -> Vec<serde_json::Value> {
    let all = out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    all.filter(|line| line["key"].is_string()).collect()
}

#[test]
fn migrated_file_has_all_memory_items_and_flash_items_that_fit() {
    std::thread::scope(|scope| {
        for index in ["file", "dram"] {
            scope.spawn(move || migrate_of(index));
        }
    });
}

fn migrate_of(index: &str) {
    let named = |what: &str| format!("migrate-flash-{index}-{what}");
    let (file, flash) = (MemoryFile::new(&named("from")), FlashFile::new(&named("flash")));
    let mut ledger = Ledger::new(0);
    let (mut serving, addr, resp) = serve(&file, &flash, index);
    answers(&mut connect(resp), &kinds(0));
    assert!(ledger.write(addr, &mut Prng::new(6), 2 * KEYS));
    assert!(stat(addr, "flash_items") > KEYS / 4, "much is on flash");
    serving.signal("KILL");
    serving.ended();
    let read =
        || [file.path().into(), flash.0.clone()].map(|path: std::path::PathBuf| std::fs::read(path).expect("there"));
    let (before, flag) = (read(), flash.flag());
    let (code, out, err) = run(&["file", "dump", file.path(), "--flash", &flag]);
    assert_eq!(code, 0, "{err}");
    let all = lines(&out).len() as u64;

    let without = MemoryFile::new(&named("without"));
    let (code, _, err) = run(&["file", "migrate", file.path(), "--to", without.path()]);
    assert!(code == 1 && err.contains("the same --flash as before"), "{err}");
    assert!(!std::path::Path::new(without.path()).exists(), "nothing is made of it");

    for (memory, has_room) in [("96MiB", true), ("16MiB", false)] {
        let to = MemoryFile::new(&named(memory));
        let words = ["file", "migrate", file.path(), "--to", to.path(), "--memory", memory, "--flash", &flag];
        let (code, out, err) = run(&words);
        let items: u64 = out.split(' ').next().and_then(|count| count.parse().ok()).expect("a number");
        match has_room {
            true => assert!(code == 0 && items == all, "{items} of {all}: {err}"),
            false => {
                let refused = format!("{} items do not fit", all - items);
                assert!(code == 1 && items > KEYS / 4 && items < all && err.contains(&refused), "{items}: {err}");
            }
        }
        let (code, checked, err) = run(&["file", "check", to.path()]);
        assert!(code == 0 && checked.contains("no fault"), "{checked}{err}");
        let words = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "none", "--memory", memory];
        let place = ["--file", to.path(), "--file-index", index];
        let mut serving = Serving::start(&[&words[..], &place].concat());
        let addr = serving.addr_behind("memcached clients connect to ");
        if index == "dram" {
            wait_until_whole(&mut serving);
        }
        let there = stat(addr, "curr_items");
        assert!(there <= items && there + KEYS / 50 > items, "{there} of {items}: what is there was copied");
        // Checks that every value is the last one that was stored.
        let held = ledger.clone().check(addr, 6);
        assert!(held <= items && held + KEYS / 50 > items, "{held} of {items} are told");
    }
    assert!(before == read(), "migrating changed something");
}
