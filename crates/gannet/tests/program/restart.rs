//! Tests restarts of the program with a memory file: the server is killed during writes and started again, and every
//! value is read.
//!
//! Writers record outside the server which requests were acknowledged, and which were sent without a reply so far.
//! After a kill, each key must have the last acknowledged value, or the value of a request that was in flight. These
//! servers evict nothing, so a missing item is a lost item. A failure reports its seed.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use base::prng::Prng;

use crate::common::{PATIENCE, Serving, TempFile, ask, connect, run};

/// A memory file, on tmpfs if available. Dropping this value removes the file.
pub struct MemoryFile(PathBuf);

impl MemoryFile {
    pub fn new(name: &str) -> Self {
        let shm = Path::new("/dev/shm");
        if shm.is_dir() { Self::within(shm, name) } else { Self::on_disk(name) }
    }

    /// Creates a memory file in a directory that may be on a disk, so that checkpoints have to wait.
    pub fn on_disk(name: &str) -> Self {
        Self::within(&std::env::temp_dir(), name)
    }

    fn within(folder: &Path, name: &str) -> Self {
        let path = folder.join(format!("gannet-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Self(path)
    }

    /// Replaces the contents of the file.
    pub fn write(&self, bytes: &[u8]) {
        std::fs::write(&self.0, bytes).expect("written");
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("a path of text")
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub fn serve(file: &MemoryFile, more: &[&str]) -> (Serving, SocketAddr) {
    let fixed = ["--memcached", "127.0.0.1:0", "--admin", "none", "--file", file.path(), "--memory", "32MiB"];
    let mut serving = Serving::start(&[more, &fixed].concat());
    let addr = serving.addr_behind("memcached clients connect to ");
    (serving, addr)
}

/// Returns the number of times that a test kills its server: its default, or its share of `GANNET_KILLS`, which is a
/// thousand with `make torture`.
pub fn kills(share: usize) -> usize {
    let all = std::env::var("GANNET_KILLS").ok().and_then(|kills| kills.parse::<usize>().ok()).unwrap_or(KILLS);
    (all * share).div_ceil(KILLS)
}

/// Returns the time for which a server runs before it is killed. With `GANNET_SLOWER`, for an emulated machine, the
/// time is longer by that factor.
pub fn before_a_kill(time: Duration) -> Duration {
    let slower: u32 = std::env::var("GANNET_SLOWER").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    time * slower
}

/// Returns the beginning of a failure's message: the seed, and the variable that sets the number of kills.
pub fn seed_told(what: &str, seed: u64) -> String {
    format!("{what} with seed {seed} (set GANNET_KILLS for more kills)")
}

/// Default number of kills of all tests together.
const KILLS: usize = 50;

/// The possible values of a key: the last acknowledged value, and the value after each request in flight.
#[derive(Default)]
struct Known {
    acknowledged: Option<Vec<u8>>,
    under_way: VecDeque<Option<Vec<u8>>>,
}

impl Known {
    fn latest(&self) -> &Option<Vec<u8>> {
        self.under_way.back().unwrap_or(&self.acknowledged)
    }
}

/// A connection's keys, and the order of its requests without a reply.
#[derive(Default)]
pub struct Ledger {
    keys: BTreeMap<String, Known>,
    asked: VecDeque<String>,
}

impl Ledger {
    fn send(&mut self, key: String, becomes: Option<Vec<u8>>) {
        self.keys.entry(key.clone()).or_default().under_way.push_back(becomes);
        self.asked.push_back(key);
    }

    /// Records that the oldest request got its reply, and so was executed.
    fn answered(&mut self) {
        let key = self.asked.pop_front().expect("an answer has its request");
        let known = self.keys.get_mut(&key).expect("it was sent");
        known.acknowledged = known.under_way.pop_front().expect("it was under way");
    }

    /// Reads all keys after a kill, and checks the values. From then on, these values are the acknowledged ones.
    pub fn check(&mut self, addr: SocketAddr, seed: u64) {
        self.asked.clear();
        let mut stream = BufReader::new(connect(addr));
        for (key, known) in &mut self.keys {
            let found = get(&mut stream, key);
            let allowed = found == known.acknowledged || known.under_way.contains(&found);
            let short = |value: &Option<Vec<u8>>| {
                value.as_ref().map(|v| (v.len(), String::from_utf8_lossy(&v[..v.len().min(40)]).into_owned()))
            };
            assert!(
                allowed,
                "seed {seed}: {key} holds {:?}, and {:?} was acknowledged; under way: {:?}",
                short(&found),
                short(&known.acknowledged),
                known.under_way.iter().map(short).collect::<Vec<_>>()
            );
            known.acknowledged = found;
            known.under_way.clear();
        }
    }
}

pub fn get(stream: &mut BufReader<TcpStream>, key: &str) -> Option<Vec<u8>> {
    stream.get_mut().write_all(format!("get {key}\r\n").as_bytes()).expect("sends");
    told(stream)
}

/// Reads the reply to a get of one key.
pub fn told(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a line");
    if line == "END\r\n" {
        return None;
    }
    let len: usize = line.trim_end().rsplit(' ').next().and_then(|len| len.parse().ok()).expect("a length");
    let mut value = vec![0; len + 2 + 5];
    stream.read_exact(&mut value).expect("the value");
    assert!(value.ends_with(b"\r\nEND\r\n"), "{line:?}");
    value.truncate(len);
    Some(value)
}

/// Returns a value whose bytes all depend on the key and the number of the request.
pub fn value_of(key: &str, number: u64, bytes: usize) -> Vec<u8> {
    format!("{key}={number};").into_bytes().into_iter().cycle().take(bytes.max(1)).collect()
}

/// Returns the next request: its bytes, its key, and the key's value after it.
fn request(ledger: &Ledger, prng: &mut Prng, writer: u64, number: u64) -> (String, Vec<u8>, Option<Vec<u8>>) {
    let kind = prng.below(20);
    let key = match kind {
        0..=1 => format!("n-{writer}-{}", prng.below(10)),
        2 => format!("large-{writer}-{}", prng.below(4)),
        _ => format!("k-{writer}-{}", prng.below(200)),
    };
    let present = ledger.keys.get(&key).and_then(|known| known.latest().clone());
    let set = |value: Vec<u8>, ttl: u64| {
        let head = format!("set {key} 0 {ttl} {}\r\n", value.len());
        ([head.as_bytes(), &value, b"\r\n"].concat(), Some(value))
    };
    let (bytes, becomes) = match (kind, present) {
        (0..=1, None) => set(b"1000".to_vec(), 0),
        (0..=1, Some(text)) => {
            let count: u64 = String::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a number");
            (format!("incr {key} 7\r\n").into_bytes(), Some((count + 7).to_string().into_bytes()))
        }
        (2, _) => set(value_of(&key, number, 9_000 + prng.below(50_000) as usize), 0),
        (3..=5, Some(_)) => (format!("delete {key}\r\n").into_bytes(), None),
        (6..=7, Some(present)) if present.len() < 2000 => {
            let part = value_of("+", number, 12);
            let head = format!("append {key} 0 0 {}\r\n", part.len());
            ([head.as_bytes(), &part, b"\r\n"].concat(), Some([present, part].concat()))
        }
        _ => set(value_of(&key, number, 1 + prng.below(300) as usize), if kind < 10 { 1_000_000 } else { 0 }),
    };
    (key, bytes, becomes)
}

/// Sends writes until the server is gone, or until `killed` requests the end.
pub fn write(
    addr: SocketAddr,
    ledger: &mut Ledger,
    prng: &mut Prng,
    writer: u64,
    number: &mut u64,
    killed: &AtomicBool,
) {
    let Ok(stream) = TcpStream::connect(addr) else { return };
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while !killed.load(Relaxed) {
        let mut batch = Vec::new();
        for _ in 0..=prng.below(16) {
            *number += 1;
            let (key, bytes, becomes) = request(ledger, prng, writer, *number);
            batch.extend(bytes);
            ledger.send(key, becomes);
        }
        if stream.get_mut().write_all(&batch).is_err() {
            return;
        }
        while !ledger.asked.is_empty() {
            line.clear();
            if !matches!(stream.read_line(&mut line), Ok(1..)) || !line.ends_with('\n') {
                return;
            }
            let is_number = line.trim_end().parse::<u64>().is_ok();
            let done = is_number || ["STORED\r\n", "DELETED\r\n"].contains(&line.as_str());
            assert!(done, "an answer of another kind: {line:?}");
            ledger.answered();
        }
    }
}

/// Waits until the rebuild of the index is complete.
pub fn wait_until_whole(serving: &mut Serving) {
    // The rebuild of a small index is complete before the server reports that it serves.
    let whole = "the index was rebuilt";
    if !serving.lines.iter().any(|line| line.contains(whole)) {
        serving.wait_for(whole);
    }
}

/// Kills a server during writes, `kills` times, and checks all values each time.
fn torture(seed: u64, kills: usize, index: &str, checkpoints: bool) {
    let name = format!("torture-{seed}");
    let file = if checkpoints { MemoryFile::on_disk(&name) } else { MemoryFile::new(&name) };
    let text = format!("[store]\nevict = false\nfile_index = \"{index}\"\n");
    let config = TempFile::new(&format!("torture-{seed}.toml"), &text);
    let mut ledgers = [Ledger::default(), Ledger::default()];
    let mut numbers = [0; 2];
    let mut prng = Prng::new(seed);
    let start = |round: usize, more: &[&str]| {
        let every: &[&str] = if checkpoints { &["--checkpoint", "1s"] } else { &[] };
        let (mut serving, addr) = serve(&file, &[&[config.path()], every, more].concat());
        if index == "dram" && round > 0 {
            wait_until_whole(&mut serving);
        }
        (serving, addr)
    };
    // A slow machine needs more rounds until there are enough requests to prove anything.
    for round in 0..10 * kills {
        if round >= kills && numbers.iter().all(|number| *number > 100) {
            break;
        }
        let (mut serving, addr) = start(round, &["--workers", "2"]);
        ledgers.iter_mut().for_each(|ledger| ledger.check(addr, seed));
        let killed = AtomicBool::new(false);
        // The first checkpoint begins about 50 ms after the start. Its length depends on the disk.
        let most = if checkpoints { 160 } else { 80 };
        let wait = before_a_kill(Duration::from_millis(2 + prng.below(most)));
        let seeds = [prng.next_u64(), prng.next_u64()];
        std::thread::scope(|scope| {
            for (writer, (ledger, number)) in ledgers.iter_mut().zip(&mut numbers).enumerate() {
                let (mut prng, killed) = (Prng::new(seeds[writer]), &killed);
                scope.spawn(move || write(addr, ledger, &mut prng, writer as u64, number, killed));
            }
            std::thread::sleep(wait);
            serving.signal("KILL");
            killed.store(true, Relaxed);
            serving.ended();
        });
    }
    let (_serving, addr) = start(kills, &[]);
    ledgers.iter_mut().for_each(|ledger| ledger.check(addr, seed));
    assert!(numbers.iter().all(|number| *number > 100), "the writers wrote {numbers:?} requests");
}

#[test]
fn acknowledged_writes_survive_a_kill() {
    std::thread::scope(|scope| {
        let kinds = [(1, "file", false, 7), (2, "dram", false, 6), (5, "file", true, 6), (6, "dram", true, 6)];
        for (seed, index, checkpoints, kills) in kinds {
            scope.spawn(move || torture(seed, self::kills(kills), index, checkpoints));
        }
    });
}

#[test]
fn a_graceful_stop_leaves_everything_and_tokens_stay_unique() {
    let file = MemoryFile::new("graceful");
    let (mut serving, addr) = serve(&file, &[]);
    assert!(serving.lines.iter().any(|line| line.contains("in the new file")), "{:#?}", serving.lines);
    let mut stream = connect(addr);
    ask(&mut stream, b"set k 5 0 5\r\nhello\r\n", b"STORED\r\n");
    let token = |stream: &mut TcpStream| {
        stream.write_all(b"gets k\r\n").expect("sends");
        let mut answer = BufReader::new(&*stream);
        let mut line = String::new();
        answer.read_line(&mut line).expect("a line");
        let head = line.clone();
        while line != "END\r\n" {
            line.clear();
            answer.read_line(&mut line).expect("a line");
        }
        head.trim_end().rsplit(' ').next().and_then(|token| token.parse::<u64>().ok()).expect("a token")
    };
    let before = token(&mut stream);
    drop(stream);
    serving.signal("TERM");
    assert!(serving.ended().success());
    let (serving, addr) = serve(&file, &[]);
    assert!(
        serving.lines.iter().any(|line| line.contains("was closed properly: it has 1 items")),
        "{:#?}",
        serving.lines
    );
    let mut stream = connect(addr);
    ask(&mut stream, b"get k\r\n", b"VALUE k 5 5\r\nhello\r\nEND\r\n");
    assert_eq!(token(&mut stream), before, "the value is the same, and so is its token");
    ask(&mut stream, format!("cas k 0 0 1 {before}\r\nx\r\n").as_bytes(), b"STORED\r\n");
    ask(&mut stream, format!("cas k 0 0 1 {before}\r\ny\r\n").as_bytes(), b"EXISTS\r\n");
    assert!(token(&mut stream) > before);
}

#[test]
fn foreign_memory_file_is_rejected_with_a_remedy_and_unchanged() {
    let file = MemoryFile::new("refused");
    std::fs::write(&file.0, vec![7; 100_000]).expect("written");
    let fixed = ["serve", "--memcached", "127.0.0.1:0", "--admin", "none", "--file", file.path()];
    let refusal = |more: &[&str]| {
        let (code, _, err) = run(&[&fixed, more].concat());
        assert_eq!(code, 1, "{err}");
        err
    };
    let err = refusal(&["--memory", "32MiB"]);
    assert!(err.contains("not a gannet memory file") && err.contains("--file-reset"), "{err}");
    assert_eq!(std::fs::read(&file.0).expect("read"), vec![7; 100_000]);
    let (mut serving, addr) = serve(&file, &["--file-reset"]);
    ask(&mut connect(addr), b"set k 0 0 1\r\nv\r\n", b"STORED\r\n");
    let err = refusal(&["--memory", "32MiB"]);
    assert!(err.contains("another process has the file open"), "{err}");
    serving.signal("KILL");
    serving.ended();
    let (code, out, err) = run(&["file", "check", file.path()]);
    assert!(code == 0 && out.contains("items: 1,") && out.contains("no fault"), "{out}{err}");
    let (code, out, err) = run(&["file", "stats", file.path()]);
    assert!(code == 0 && out.contains("memory_bytes            33554432") && out.contains("was killed"), "{out}{err}");
    assert_eq!(run(&["file", "stats", "/no/such"]).0, 1);
    let err = refusal(&["--memory", "32MiB", "--file-index", "dram"]);
    assert!(err.contains("its index is in the file") && err.contains("--file-index file"), "{err}");
    let err = refusal(&["--memory", "48MiB"]);
    assert!(err.contains("created with --memory 33554432") && err.contains("--memory"), "{err}");
    let err = refusal(&["--memory", "32MiB", "--segment", "128KiB"]);
    assert!(err.contains("segments have"), "{err}");
    let (_serving, addr) = serve(&file, &[]);
    ask(&mut connect(addr), b"get k\r\n", b"VALUE k 0 1\r\nv\r\nEND\r\n");
}

#[test]
fn a_file_that_is_cut_short_ends_the_server_with_a_line_that_names_it() {
    let file = MemoryFile::new("cut");
    let (mut serving, addr) = serve(&file, &[]);
    ask(&mut connect(addr), b"set k 0 0 1\r\nv\r\n", b"STORED\r\n");
    std::fs::OpenOptions::new().write(true).open(&file.0).expect("there").set_len(0).expect("cut");
    // The background thread reads the segment headers within a slice.
    let line = serving.wait_for("cannot read or write the memory file");
    assert!(line.contains(file.path()), "{line}");
    let status = serving.ended();
    assert_eq!(status.code(), Some(74), "{status}");
}

#[test]
fn flushed_items_stay_flushed_and_expiring_items_expire_after_a_kill() {
    let file = MemoryFile::new("flushed");
    let (mut serving, addr) = serve(&file, &[]);
    let mut stream = connect(addr);
    ask(&mut stream, b"set old 0 0 1\r\nv\r\nflush_all\r\n", b"STORED\r\nOK\r\n");
    ask(&mut stream, b"set short 0 1 1\r\nv\r\nset new 0 0 1\r\nv\r\n", b"STORED\r\nSTORED\r\n");
    serving.signal("KILL");
    serving.ended();
    let (_serving, addr) = serve(&file, &[]);
    let mut stream = connect(addr);
    ask(&mut stream, b"get old new\r\n", b"VALUE new 0 1\r\nv\r\nEND\r\n");
    // The item expires by the wall clock, whichever process serves it.
    std::thread::sleep(Duration::from_millis(1100));
    ask(&mut stream, b"get short\r\n", b"END\r\n");
}

/// docs/restart.md documents this for `ls` and `du`.
#[test]
fn memory_file_is_about_twice_as_long_as_its_allocated_space() {
    use std::os::unix::fs::MetadataExt;
    let file = MemoryFile::new("length");
    let (_serving, _) = serve(&file, &[]);
    let metadata = std::fs::metadata(&file.0).expect("there");
    let (memory, space) = (32 << 20, metadata.blocks() * 512);
    assert!((memory..memory + (2 << 20)).contains(&space), "{space} bytes of space");
    assert!(
        (2 * memory + (8 << 20)..2 * memory + (12 << 20)).contains(&metadata.len()),
        "{} bytes long",
        metadata.len()
    );
}
