//! Tests checkpoints. A server is killed, its file is changed to a state that a disk may have after a power failure,
//! and the server is started again as if the machine had been rebooted.
//!
//! ```text
//!   a server makes its first checkpoint ... early copy ... changes ... kill ... late copy
//!   an image: each page is that of either copy, by chance; no sync came between them
//! ```

use std::io::{BufReader, Write};
use std::net::SocketAddr;

use base::prng::Prng;

use crate::common::{Serving, TempFile, ask, connect, run_in};
use crate::restart::{get, kills, wait_until_whole};

/// The environment variable with the boot id that the process uses instead of the machine's.
pub const BOOT: &str = "GANNET_TEST_BOOT_ID";
/// Number of keys that are stored before the checkpoint; the next constant is the number of those that are not changed
/// afterwards.
const KEYS: u64 = 900;
const UNTOUCHED: u64 = 750;
const PAGE: usize = 4096;

pub fn boot(run: u64) -> String {
    format!("{run:032x}")
}

fn serve(file: &TempFile, config: &TempFile, run: u64) -> (Serving, SocketAddr, SocketAddr) {
    serve_with(file, &["--checkpoint", "1h", config.path()], run)
}

fn serve_with(file: &TempFile, more: &[&str], run: u64) -> (Serving, SocketAddr, SocketAddr) {
    let fixed = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "none", "--workers", "2"];
    let memory = ["--file", file.path(), "--memory", "32MiB"];
    let mut serving = Serving::start_in(&[&fixed[..], &memory, more].concat(), &[(BOOT, &boot(run))]);
    let memcached = serving.addr_behind("memcached clients connect to ");
    let redis = serving.addr_behind("Redis clients connect to ");
    (serving, memcached, redis)
}

/// Returns the value of a key after `change` changes.
fn value(key: u64, change: u64) -> String {
    format!("{key}={change};").repeat(1 + (key % 160) as usize)
}

fn set(stream: &mut (impl Write + std::io::Read), key: u64, change: u64) {
    let value = value(key, change);
    ask(stream, format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len()).as_bytes(), b"STORED\r\n");
}

/// Changes a text and a number together, in a transaction.
fn together(redis: SocketAddr, round: u64) {
    let mut stream = connect(redis);
    let word = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    let command = |words: &[&str]| format!("*{}\r\n{}", words.len(), words.iter().map(|w| word(w)).collect::<String>());
    let set = command(&["SET", "text", &round.to_string()]);
    let all = [command(&["MULTI"]), set, command(&["INCR", "count"]), command(&["EXEC"])].concat();
    let told = format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:{round}\r\n");
    ask(&mut stream, all.as_bytes(), told.as_bytes());
}

/// The state of a server at its kill: its contents, and the possible contents of its disk.
struct Lost {
    early: Vec<u8>,
    late: Vec<u8>,
}

/// Starts a server, stores items before its checkpoint, changes some of them after it, and kills the server.
fn lose(name: &str, config: &TempFile) -> Lost {
    let file = TempFile::new(&format!("power-{name}"), "");
    let (mut serving, memcached, redis) = serve(&file, config, 1);
    let mut stream = connect(memcached);
    (0..KEYS).for_each(|key| set(&mut stream, key, 0));
    (1..=7).for_each(|round| together(redis, round));
    drop(stream);
    serving.signal("TERM");
    assert!(serving.ended().success());
    // The first checkpoint of the next process contains all of these items.
    let (mut serving, memcached, redis) = serve(&file, config, 1);
    let made = "the first checkpoint is on the disk";
    if !serving.lines.iter().any(|line| line.contains(made)) {
        serving.wait_for(made);
    }
    let early = std::fs::read(&file.0).expect("read");
    let mut stream = connect(memcached);
    for key in UNTOUCHED..KEYS {
        match key % 3 {
            0 => ask(&mut stream, format!("delete k{key}\r\n").as_bytes(), b"DELETED\r\n"),
            _ => set(&mut stream, key, 1),
        }
    }
    (KEYS..KEYS + 100).for_each(|key| set(&mut stream, key, 1));
    (8..=12).for_each(|round| together(redis, round));
    drop(stream);
    serving.signal("KILL");
    serving.ended();
    Lost { early, late: std::fs::read(&file.0).expect("read") }
}

/// Opens one image, and checks that it has the contents of the checkpoint.
fn check(image: &TempFile, config: &TempFile, told: &str) {
    let env = [(BOOT, &*boot(2))];
    let (code, out, err) = run_in(&["file", "stats", image.path()], &env);
    assert!(code == 0 && out.contains("a server continues from the checkpoint at"), "{told}: {out}{err}");
    let (code, out, err) = run_in(&["file", "check", image.path()], &env);
    assert!(code == 0 && out.contains("restarted") && out.contains("no fault"), "{told}: {out}{err}");
    let (code, dumped, err) = run_in(&["file", "dump", image.path()], &env);
    assert!(code == 0, "{told}: {err}");
    let there = dumped.lines().filter(|line| line.contains("\"key\"")).count();
    let new = TempFile::new(&format!("power-migrated-{}", told.replace([' ', ','], "-")), "");
    std::fs::remove_file(&new.0).expect("it is there");
    let (code, out, err) = run_in(&["file", "migrate", image.path(), "--to", new.path()], &env);
    assert!(
        code == 0 && out.starts_with(&format!("{there} items were copied to ")),
        "{told}: {there} dumped, {out}{err}"
    );
    let (mut serving, memcached, _) = serve(image, config, 2);
    let says = |text: &str| serving.lines.iter().any(|line| line.contains(text));
    assert!(says("power was lost while") && says("resumes from the checkpoint of"), "{:#?}", serving.lines);
    wait_until_whole(&mut serving);
    let mut stream = BufReader::new(connect(memcached));
    let mut hits = 0;
    for key in 0..KEYS + 100 {
        let found = get(&mut stream, &format!("k{key}"));
        let was = value(key, 0).into_bytes();
        // Nothing that was stored after the checkpoint may be found.
        assert!(found.is_none() || key < KEYS && found == Some(was), "{told}: k{key} is {found:?}");
        let is_dumped = dumped.contains(&format!("\"key\":\"k{key}\""));
        assert_eq!(is_dumped, found.is_some(), "{told}: what is dumped is what a server finds, but k{key}");
        hits += u64::from(key < UNTOUCHED && found.is_some());
    }
    // Items of a segment that was not full when it was sealed may have been moved since.
    assert!(hits > UNTOUCHED / 2, "{told}: {hits} are there of {UNTOUCHED} that nobody changed");
    let [text, count] = ["text", "count"].map(|key| get(&mut stream, key));
    for part in [text, count].into_iter().flatten() {
        assert_eq!(String::from_utf8_lossy(&part), "7", "{told}: a part of a transaction of behind the checkpoint");
    }
    // The server accepts new writes on this state.
    set(stream.get_mut(), 0, 2);
    assert_eq!(get(&mut stream, "k0"), Some(value(0, 2).into_bytes()), "{told}");
}

/// Returns a mix of both copies, and the number of pages from each. Of ten changed pages, about `late_of_ten` come from
/// the late copy.
pub fn mix(early: &[u8], late: &[u8], late_of_ten: u64, prng: &mut Prng) -> (Vec<u8>, usize, usize) {
    let (mut bytes, mut as_early, mut as_late) = (early.to_vec(), 0, 0);
    for (at, page) in late.chunks(PAGE).enumerate() {
        let there = &mut bytes[at * PAGE..][..page.len()];
        if there == page {
            continue;
        }
        let is_late = prng.chance(late_of_ten, 10);
        if is_late {
            there.copy_from_slice(page);
        }
        (as_early, as_late) = (as_early + usize::from(!is_late), as_late + usize::from(is_late));
    }
    (bytes, as_early, as_late)
}

fn power_goes(index: &'static str, seed: u64, images: usize) {
    let config = TempFile::new(&format!("power-{index}.toml"), &format!("[store]\nfile_index = \"{index}\"\n"));
    let Lost { early, late } = lose(index, &config);
    assert_eq!(early.len(), late.len());
    let mut prng = Prng::new(seed);
    let (mut old, mut new) = (0, 0);
    for number in 0..images {
        // Covers the range from the loss of all writes to the loss of none.
        let of_ten = [0, 10, 5, 1, 9][number % 5];
        let told = format!("index in {index}, seed {seed}, image {number}");
        let (bytes, as_early, as_late) = mix(&early, &late, of_ten, &mut prng);
        (old, new) = (old + as_early, new + as_late);
        let image = TempFile::new(&format!("power-{index}-{number}"), "");
        std::fs::write(&image.0, &bytes).expect("written");
        check(&image, &config, &told);
    }
    assert!(old > 10 && new > 10, "{old} pages as they were synced, {new} as they became");
}

#[test]
fn power_loss_preserves_checkpointed_items_and_no_partial_newer_writes() {
    std::thread::scope(|scope| {
        for (seed, index) in [(1, "file"), (2, "dram")] {
            scope.spawn(move || power_goes(index, seed, kills(5)));
        }
    });
}

#[test]
fn file_without_checkpoints_warns_after_a_reboot() {
    let file = TempFile::new("power-none", "");
    let says = |serving: &Serving| serving.lines.iter().any(|line| line.contains("no checkpoints"));
    let (mut serving, memcached, _) = serve_with(&file, &[], 1);
    set(&mut connect(memcached), 1, 0);
    serving.signal("KILL");
    serving.ended();
    let stats = |run: u64| run_in(&["file", "stats", file.path()], &[(BOOT, &*boot(run))]).1;
    assert!(stats(1).contains("left                    yes, or the last server was killed"), "{}", stats(1));
    assert!(stats(2).contains("and there are no checkpoints"), "{}", stats(2));
    // Within the same boot, all items are found.
    let (mut serving, memcached, _) = serve_with(&file, &[], 1);
    assert!(!says(&serving));
    assert_eq!(get(&mut BufReader::new(connect(memcached)), "k1"), Some(value(1, 0).into_bytes()));
    serving.signal("KILL");
    serving.ended();
    let (mut serving, _, _) = serve_with(&file, &[], 2);
    assert!(says(&serving), "{:#?}", serving.lines);
    serving.signal("TERM");
    assert!(serving.ended().success());
    // After an orderly end, all items are found in another boot too.
    let (serving, _, _) = serve_with(&file, &[], 3);
    assert!(!says(&serving), "{:#?}", serving.lines);
}
