//! Tests restarts of the program with a memory file and a second tier. The server is killed while it writes more than
//! fits in memory, and started again, and every value is read.
//!
//! Items may be missing, because memory and flash evict. A read of a key is a miss, or returns the last acknowledged
//! value or the value of a request that was in flight. It must never return an older value, another key's value or a
//! torn value.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use base::prng::Prng;

use crate::common::{PATIENCE, Serving, connect, run};
use crate::restart::{MemoryFile, before_a_kill, kills, seed_told, told, value_of};

/// Number of keys of a connection; twice as many as fit in memory.
pub const KEYS: u64 = 16_000;

/// Number of keys that one request reads.
const ASKED: usize = 50;

/// A file for flash. Dropping this value removes the file.
pub struct FlashFile(pub std::path::PathBuf);

impl FlashFile {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gannet-test-{}-{name}.flash", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Self(path)
    }

    pub fn flag(&self) -> String {
        format!("{}:48MiB", self.0.display())
    }
}

impl Drop for FlashFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn serve(file: &MemoryFile, flash: &FlashFile, index: &str) -> (Serving, SocketAddr) {
    serve_by(file, flash, index, "auto")
}

fn serve_by(file: &MemoryFile, flash: &FlashFile, index: &str, io: &str) -> (Serving, SocketAddr) {
    let flash = flash.flag();
    let words = ["--memcached", "127.0.0.1:0", "--admin", "none", "--workers", "2", "--memory", "16MiB"];
    let place = ["--file", file.path(), "--file-index", index, "--flash", &flash, "--io", io];
    let mut serving = Serving::start(&[&words[..], &place].concat());
    let addr = serving.addr_behind("memcached clients connect to ");
    (serving, addr)
}

/// The possible values of a key: the numbers of the requests that stored them, 0 for a missing item.
#[derive(Clone, Default)]
struct Known {
    acknowledged: u64,
    under_way: Vec<u64>,
    /// Numbers of the requests that were in flight when their connection ended.
    cut: Vec<u64>,
}

/// The keys of a connection, with their possible values.
#[derive(Clone)]
pub struct Ledger {
    writer: u64,
    keys: Vec<Known>,
    /// Number of requests so far.
    number: u64,
}

fn key(writer: u64, place: usize) -> String {
    format!("k-{writer}-{place}")
}

fn value(writer: u64, place: usize, number: u64) -> Vec<u8> {
    value_of(&key(writer, place), number, 100 + (number % 37) as usize * 80)
}

impl Ledger {
    pub fn new(writer: u64) -> Self {
        Self::of(writer, KEYS)
    }

    /// Creates the record of a connection with `keys` keys.
    pub fn of(writer: u64, keys: u64) -> Self {
        assert!(keys.is_multiple_of(ASKED as u64), "{keys} keys are asked for {ASKED} at once");
        Self { writer, keys: vec![Known::default(); keys as usize], number: 0 }
    }

    /// Sends writes until the connection ends or `most` requests were sent. Returns true if all got a reply.
    pub fn write(&mut self, addr: SocketAddr, prng: &mut Prng, most: u64) -> bool {
        for known in &mut self.keys {
            let Known { under_way, cut, .. } = known;
            cut.append(under_way);
        }
        let Ok(stream) = TcpStream::connect(addr) else { return false };
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        for _ in 0..most / 32 {
            let mut asked = VecDeque::new();
            let mut batch = Vec::new();
            for _ in 0..32 {
                self.number += 1;
                let place = prng.below(self.keys.len() as u64) as usize;
                let becomes = if prng.chance(1, 8) { 0 } else { self.number };
                let text = key(self.writer, place);
                if becomes == 0 {
                    batch.extend(format!("delete {text}\r\n").into_bytes());
                } else {
                    let value = value(self.writer, place, becomes);
                    batch.extend(format!("set {text} 0 0 {}\r\n", value.len()).into_bytes());
                    batch.extend([&value[..], b"\r\n"].concat());
                }
                self.keys[place].under_way.push(becomes);
                asked.push_back((place, becomes));
            }
            if stream.get_mut().write_all(&batch).is_err() {
                return false;
            }
            while let Some((place, becomes)) = asked.front().copied() {
                line.clear();
                if !matches!(stream.read_line(&mut line), Ok(1..)) || !line.ends_with('\n') {
                    return false;
                }
                asked.pop_front();
                assert!(["STORED\r\n", "DELETED\r\n", "NOT_FOUND\r\n"].contains(&line.as_str()), "{line:?}");
                let known = &mut self.keys[place];
                known.under_way.remove(0);
                known.acknowledged = becomes;
                known.cut.clear();
            }
        }
        true
    }

    /// Reads every key and checks the values. Returns the number of keys that were found.
    pub fn check(&mut self, addr: SocketAddr, seed: u64) -> u64 {
        let holds = self.ask(addr, seed);
        for (known, holds) in self.keys.iter_mut().zip(&holds) {
            *known = Known { acknowledged: *holds, ..Known::default() };
        }
        holds.into_iter().filter(|holds| *holds != 0).count() as u64
    }

    /// Returns the keys and values that were found by the last check.
    pub fn held(&self) -> impl Iterator<Item = (String, Vec<u8>)> {
        let held = self.keys.iter().enumerate().filter(|(_, known)| known.acknowledged != 0);
        held.map(|(place, known)| (key(self.writer, place), value(self.writer, place, known.acknowledged)))
    }

    /// Returns the request number of the value of every key. A miss may become a hit later.
    fn ask(&self, addr: SocketAddr, seed: u64) -> Vec<u64> {
        let mut stream = BufReader::new(connect(addr));
        let (writer, mut all) = (self.writer, Vec::new());
        for (place, known) in self.keys.iter().enumerate() {
            let name = key(writer, place);
            if place % ASKED == 0 {
                let gets: String =
                    (place..place + ASKED).map(|place| format!("get {}\r\n", key(writer, place))).collect();
                stream.get_mut().write_all(gets.as_bytes()).expect("sends");
            }
            let unanswered = known.cut.iter().chain(&known.under_way);
            let allowed: Vec<u64> = unanswered.chain([&known.acknowledged]).copied().collect();
            let mut holds = 0;
            if let Some(found) = told(&mut stream) {
                let same = allowed.iter().find(|number| **number != 0 && value(writer, place, **number) == found);
                let text = String::from_utf8_lossy(&found[..found.len().min(40)]).into_owned();
                let how = seed_told("restart_flash", seed);
                holds = *same.unwrap_or_else(|| panic!("{how}: {name} holds {text:?}, not one of {allowed:?}"));
            }
            all.push(holds);
        }
        all
    }
}

pub fn stat(addr: SocketAddr, name: &str) -> u64 {
    let mut stream = BufReader::new(connect(addr));
    stream.get_mut().write_all(b"stats\r\n").expect("sends");
    let head = format!("STAT {name} ");
    let lines = stream.lines().map(|line| line.expect("a line")).take_while(|line| line != "END");
    let value = lines.filter_map(|line| line.strip_prefix(&head).map(str::to_owned)).next();
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("there is no {name}"))
}

/// Waits until the server has found all items that the previous process left.
pub fn wait_until_found(addr: SocketAddr) {
    let begun = std::time::Instant::now();
    while stat(addr, "flash_regions_unread") > 0 {
        assert!(begun.elapsed() < PATIENCE, "it is not found");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn flash_items_survive_a_kill_and_are_never_stale() {
    kill_and_go_on("killed", "file", "auto", 1);
}

#[test]
fn flash_items_are_recovered_without_an_index_and_are_never_stale() {
    kill_and_go_on("killed-dram", "dram", "auto", 2);
}

/// Without this setting, few connections are served by epoll. If the kernel refuses io_uring, this is the test with
/// epoll again.
#[test]
fn flash_items_survive_a_kill_with_io_uring() {
    kill_and_go_on("killed-uring", "file", "uring", 3);
}

fn kill_and_go_on(name: &str, index: &str, io: &str, seed: u64) {
    let (file, flash) = (MemoryFile::new(name), FlashFile::new(name));
    let mut prng = Prng::new(seed);
    let mut ledgers = [Ledger::new(0), Ledger::new(1)];
    let (mut checked, mut on_flash) = (0, 0);
    let lives = kills(4);
    for life in 0..=lives {
        let (mut serving, addr) = serve_by(&file, &flash, index, io);
        if life % 2 == 1 {
            // Values that are read before all items are found must be correct too. In every other life of the server,
            // the test reads only after that.
            ledgers[0].ask(addr, seed);
        }
        wait_until_found(addr);
        let found = stat(addr, "flash_items");
        let there: u64 = ledgers.iter_mut().map(|ledger| ledger.check(addr, seed)).sum();
        assert!(life == 0 || there > KEYS, "life {life}: {there} keys of {} are there, {found} on flash", 2 * KEYS);
        (checked, on_flash) = (checked + there, on_flash + found);
        if life == lives {
            break;
        }
        // Sends enough writes to fill the memory at first; later, as many as possible until the kill.
        let seeds = [prng.next_u64(), prng.next_u64()];
        let wait = before_a_kill(std::time::Duration::from_millis(20 + prng.below(300)));
        std::thread::scope(|scope| {
            let writers: Vec<_> = ledgers
                .iter_mut()
                .zip(seeds)
                .map(|(ledger, seed)| {
                    let most = if life == 0 { 2 * KEYS } else { u64::MAX };
                    scope.spawn(move || ledger.write(addr, &mut Prng::new(seed), most))
                })
                .collect();
            if life == 0 {
                writers.into_iter().for_each(|writer| assert!(writer.join().expect("it writes")));
            } else {
                std::thread::sleep(wait);
            }
            serving.signal("KILL");
            serving.ended();
        });
    }
    assert!(on_flash > checked / 4, "{on_flash} of {checked} were on flash");
}

#[test]
fn replaced_flash_device_is_reported_and_its_items_are_lost() {
    let (file, flash) = (MemoryFile::new("exchanged"), FlashFile::new("exchanged"));
    let mut ledger = Ledger::new(0);
    let (mut serving, addr) = serve(&file, &flash, "file");
    assert!(ledger.write(addr, &mut Prng::new(3), 2 * KEYS));
    let before = stat(addr, "flash_items");
    assert!(before > 1000, "{before} items are on flash");
    serving.signal("TERM");
    assert!(serving.ended().success());
    std::fs::remove_file(&flash.0).expect("it is there");
    let (serving, addr) = serve(&file, &flash, "file");
    assert!(serving.lines.iter().any(|line| line.contains("is not what it was")), "{:#?}", serving.lines);
    // A full memory evicts some items to the device at once.
    let after = stat(addr, "flash_items");
    assert!(after < before / 4, "{after} items of {before} are on flash");
    assert!(ledger.check(addr, 3) > 500, "what was in memory is there");
    drop(serving);
    let words = ["serve", "--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "16MiB", "--file", file.path()];
    let (code, _, err) = run(&words);
    assert!(code == 1 && err.contains("pass the same --flash as before"), "{err}");
    let (code, out, err) = run(&["file", "check", file.path()]);
    assert!(code == 0 && out.contains("no fault"), "{out}{err}");
}
