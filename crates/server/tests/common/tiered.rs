//! A server with little memory, and a flash file for the items that do not fit into memory.

use super::redis::{Replies, both, resp};
use super::{Client, set, start, tcp, wait_until};
use base::units::ByteSize;
use gannet_server::config::kinds::FlashPlace;
use gannet_server::start::{Running, ServerConfig};
use segment::{IndexPlace, StoreStats};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub const MEMORY: u64 = 16 << 20;
pub const FILE: u64 = 8 * MEMORY;

/// A server with a flash file, which is deleted at the end of the test.
pub struct Tiered {
    pub running: Running,
    files: Files,
}

/// The flash file, and the memory file with the place of its index, if there is one.
struct Files(PathBuf, Option<(PathBuf, IndexPlace)>);

impl Drop for Files {
    fn drop(&mut self) {
        let memory = self.1.as_ref().map(|(memory, _)| memory);
        for path in [Some(&self.0), memory].into_iter().flatten() {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Files {
    fn serve(self) -> Tiered {
        let flash = vec![FlashPlace { path: self.0.clone(), size: ByteSize(FILE) }];
        let (file, index) = self.1.clone().unzip();
        let file_index = index.unwrap_or(IndexPlace::File);
        let config = ServerConfig { memory_bytes: MEMORY, flash, file, file_index, ..both() };
        Tiered { running: start(config), files: self }
    }
}

impl Tiered {
    pub fn start(name: &str) -> Self {
        Self::start_in(name, None)
    }

    /// Starts the server like [`Tiered::start`], with a memory file if `index` is given: the place of its index.
    pub fn start_in(name: &str, index: Option<IndexPlace>) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("gannet-flash-{}-{number}-{name}", std::process::id()));
        let memory = index.map(|index| (path.with_extension("memory"), index));
        Files(path, memory).serve()
    }

    /// Restarts the server, and waits until all its items are found.
    pub fn again(self) -> Self {
        let Self { running, files } = self;
        running.stop();
        let tiered = files.serve();
        wait_until("all is found", || !tiered.running.shared().store.is_finding());
        tiered
    }

    /// Truncates the flash file to length 0.
    pub fn fail(&self) {
        std::fs::File::options().write(true).open(&self.files.0).expect("it is there").set_len(0).expect("it is cut");
    }

    pub fn stats(&self) -> StoreStats {
        self.running.shared().store.stats()
    }

    pub fn memcached(&self) -> Client {
        Client::connect(tcp(&self.running))
    }

    pub fn resp(&self) -> Replies {
        resp(&self.running)
    }

    /// Returns the keys that exist. A key does not exist if another key with the same tag took its slot.
    pub fn there(&self, keys: std::ops::Range<u64>) -> HashSet<Vec<u8>> {
        let mut client = self.memcached();
        let mut there = HashSet::new();
        for from in keys.clone().step_by(50) {
            let batch: Vec<String> = (from..(from + 50).min(keys.end)).map(key).collect();
            client.stream.write_all(format!("get {}\r\n", batch.join(" ")).as_bytes()).expect("sends");
            let mut reader = BufReader::new(&client.stream);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a line");
                if line == "END\r\n" {
                    break;
                }
                let words: Vec<&str> = line.split_whitespace().collect();
                there.insert(words[1].as_bytes().to_vec());
                let bytes = words[3].parse::<u64>().expect("a length") + 2;
                std::io::copy(&mut Read::by_ref(&mut reader).take(bytes), &mut std::io::sink()).expect("a value");
            }
        }
        there
    }

    /// Stores values of the keys, and waits now and then until the evicted items are in the file.
    pub fn fill(&self, keys: std::ops::Range<u64>) {
        let mut client = self.memcached();
        let flash = self.running.shared().threads.flash.as_ref().expect("there is one");
        for from in keys.clone().step_by(500) {
            let batch: Vec<u64> = (from..(from + 500).min(keys.end)).collect();
            let bytes: Vec<u8> = batch.iter().flat_map(|number| set(&key(*number), &bytes_of(*number))).collect();
            client.send(&bytes);
            client.expect(&b"STORED\r\n".repeat(batch.len()));
            wait_until("the file takes it", || flash.waiting().1 <= 2);
        }
    }
}

pub fn key(number: u64) -> String {
    format!("filler:{number}")
}

/// Returns the value of a key: up to two thousand bytes that identify the key.
pub fn bytes_of(number: u64) -> Vec<u8> {
    let mut random = base::prng::Prng::new(number);
    let mut bytes = vec![0; 300 + random.below(1700) as usize];
    random.fill(&mut bytes);
    bytes
}
