//! Tests `gannet import` with a primary of this test, which sends snapshots and commands that no installed server
//! sends: encodings of other versions, built by hand from the description of the format, losses at chosen bytes, and
//! damage.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use crate::common::run;
use crate::import::{Importing, ask, connect, serving};
use crate::peers::Folder;

/// Returns the bytes to send in reply to the n-th `PSYNC` with these words, and whether the connection is closed then.
type Script = dyn Fn(usize, &[String]) -> (Vec<u8>, bool) + Send + Sync;

const REPLID: &str = "0123456789abcdef0123456789abcdef01234567";
const MARK: &str = "abcdefghijklmnopqrstuvwxyz0123456789ABCD";

/// Starts a primary. Returns its address.
fn primary(script: impl Fn(usize, &[String]) -> (Vec<u8>, bool) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    let script: Arc<Script> = Arc::new(script);
    let attached = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (script, attached) = (script.clone(), attached.clone());
            std::thread::spawn(move || serve(stream, &*script, &attached));
        }
    });
    address
}

fn serve(stream: TcpStream, script: &Script, attached: &std::sync::atomic::AtomicUsize) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let mut out = stream;
    loop {
        let words = words(&mut input)?;
        let reply = match words.first().map(String::as_str) {
            Some("PING") => b"+PONG\r\n".to_vec(),
            Some("REPLCONF") if words.get(1).is_some_and(|word| word == "ACK") => continue,
            Some("REPLCONF") => b"+OK\r\n".to_vec(),
            Some("PSYNC") => {
                let number = attached.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let (bytes, is_end) = script(number, &words);
                out.write_all(&bytes).ok()?;
                if is_end {
                    let _ = out.shutdown(std::net::Shutdown::Both);
                    return None;
                }
                continue;
            }
            _ => b"-ERR unknown command\r\n".to_vec(),
        };
        out.write_all(&reply).ok()?;
    }
}

/// Reads a request; line ends between requests are skipped.
fn words(input: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let line = |input: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        (input.read_line(&mut line).ok()? > 0).then(|| line.trim().to_owned())
    };
    let mut head = line(input)?;
    while head.is_empty() {
        head = line(input)?;
    }
    let count: usize = head.strip_prefix('*')?.parse().ok()?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let bytes: usize = line(input)?.strip_prefix('$')?.parse().ok()?;
        let mut word = vec![0; bytes + 2];
        input.read_exact(&mut word).ok()?;
        words.push(String::from_utf8_lossy(&word[..bytes]).into_owned());
    }
    Some(words)
}

/// Returns a command as the stream has it.
fn command(words: &[&str]) -> Vec<u8> {
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    let count = words.matches('$').count();
    format!("*{count}\r\n{words}").into_bytes()
}

/// Returns a file with the records `body`, and its checksum.
fn file(head: &[u8], body: &[Vec<u8>]) -> Vec<u8> {
    let mut file = [head, &body.concat(), &[0xFF]].concat();
    let sum = ::rdb::sum_of(&file);
    file.extend_from_slice(&sum.to_le_bytes());
    file
}

/// Returns a string of at most 63 bytes.
fn short(text: &[u8]) -> Vec<u8> {
    assert!(text.len() < 64);
    [&[text.len() as u8][..], text].concat()
}

/// Returns a record of a key: type, key, value.
fn key(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind][..], &short(name.as_bytes()), value].concat()
}

/// Returns a string with a listpack of these entries: short texts, or 64-bit numbers.
fn listpack(entries: &[Result<&str, i64>]) -> Vec<u8> {
    let mut body = Vec::new();
    for entry in entries {
        let bytes = match entry {
            Ok(text) => [&[0x80 | text.len() as u8][..], text.as_bytes()].concat(),
            Err(number) => [&[0xF4][..], &number.to_le_bytes()].concat(),
        };
        body.extend_from_slice(&bytes);
        body.push(bytes.len() as u8);
    }
    let bytes = (body.len() + 7) as u32;
    let packed = [&bytes.to_le_bytes()[..], &(entries.len() as u16).to_le_bytes(), &body, &[0xFF]].concat();
    [&[0x40 | (packed.len() >> 8) as u8, packed.len() as u8][..], &packed].concat()
}

/// Returns a string with a ziplist of these texts.
fn ziplist(texts: &[&str]) -> Vec<u8> {
    let (mut body, mut before) = (Vec::new(), 0);
    for text in texts {
        let entry = [&[before, text.len() as u8][..], text.as_bytes()].concat();
        before = entry.len() as u8;
        body.extend_from_slice(&entry);
    }
    let (bytes, tail) = ((body.len() + 11) as u32, (10 + body.len() - usize::from(before)) as u32);
    let head = [&bytes.to_le_bytes()[..], &tail.to_le_bytes(), &(texts.len() as u16).to_le_bytes()].concat();
    short(&[&head[..], &body, &[0xFF]].concat())
}

/// Time far in the future, in milliseconds.
const LATE_MS: i64 = 4_102_444_800_123;

/// Returns records of versions that are not installed.
fn records() -> Vec<Vec<u8>> {
    let late = LATE_MS.to_le_bytes();
    let strings = [&[0xFA][..], &short(b"redis-ver"), &short(b"7.4.0"), &[0xFA], &short(b"bits"), &[0xC0, 64]].concat();
    let module = |name: &str| {
        let id = [0x81, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
        // A number, a text and the end, each with its opcode.
        key(7, name, &[&id[..], &[2, 9, 5], &short(b"data"), &[0]].concat())
    };
    let aux = [&[0xF7, 0x81, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 2, 1][..], &[2, 9, 0]].concat();
    vec![
        strings,
        aux,
        vec![0xFE, 0, 0xFB, 20, 2],
        key(0, "int", &[0xC1, 0x18, 0xFC]),
        // `abc`, then 9 bytes from 3 bytes back.
        key(0, "lzf", &[0xC3, 7, 12, 2, b'a', b'b', b'c', 0xE0, 0, 2]),
        [&[0xFC][..], &late, &[0xF9, 7], &key(0, "late", &short(b"v"))].concat(),
        [&[0xFC][..], &1000i64.to_le_bytes(), &key(0, "past", &short(b"v"))].concat(),
        [&[0xF8, 9][..], &key(0, "idle", &short(b"v"))].concat(),
        key(9, "zipmap", &short(&[1, 1, b'f', 2, 0, b'v', b'w', 0xFF])),
        key(10, "list-ziplist", &ziplist(&["a", "b"])),
        key(11, "intset", &short(&[2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0xFE, 0xFF])),
        key(12, "zset-ziplist", &ziplist(&["a", "1.5", "b", "inf"])),
        key(13, "hash-ziplist", &ziplist(&["f", "v"])),
        key(14, "quicklist", &[&[2][..], &ziplist(&["a"]), &ziplist(&["b", "c"])].concat()),
        key(16, "hash-listpack", &listpack(&[Ok("f"), Ok("v")])),
        key(17, "zset-listpack", &listpack(&[Ok("a"), Err(2), Ok("b"), Ok("2.5")])),
        key(18, "quicklist2", &[&[2, 1][..], &short(b"plain"), &[2], &listpack(&[Ok("b"), Err(7)])].concat()),
        key(20, "set-listpack", &listpack(&[Ok("a"), Err(-3)])),
        key(
            24,
            "hash-ttl",
            &[&late[..], &[2, 1], &short(b"f"), &short(b"v"), &[0], &short(b"g"), &short(b"w")].concat(),
        ),
        key(25, "hash-ttl-listpack", &[&late[..], &listpack(&[Ok("f"), Ok("v"), Err(LATE_MS)])].concat()),
        module("module"),
        vec![0xFE, 17],
        key(0, "elsewhere", &short(b"v")),
    ]
}

/// Returns the bytes of a full synchronization without a known length, after lines that show that the primary is alive.
fn full_sync(file: &[u8]) -> Vec<u8> {
    let head = format!("+FULLRESYNC {REPLID} 100\r\n\n\n$EOF:{MARK}\r\n");
    [head.as_bytes(), file, MARK.as_bytes()].concat()
}

#[test]
fn encodings_of_versions_that_are_not_installed_are_loaded_and_a_cut_transaction_is_applied_once() {
    let folder = Folder::new("import-encodings");
    let stream = [
        &command(&["SELECT", "0"])[..],
        &command(&["MULTI"]),
        &command(&["SET", "in-zero", "1"]),
        &command(&["SELECT", "2"]),
        &command(&["INCR", "in-two"]),
        &command(&["EXEC"]),
        &command(&["PING"]),
        &command(&["REPLCONF", "GETACK", "*"]),
        &command(&["NEWCOMMAND", "x"]),
        &command(&["MULTI"]),
        &command(&["INCR", "in-two"]),
        &command(&["INCR", "in-two"]),
        &command(&["EXEC"]),
        &command(&["INCR", "last"]),
    ]
    .concat();
    let cut = stream.len() - command(&["EXEC"]).len() - command(&["INCR", "last"]).len() - 5;
    let source = primary(move |number, words| match number {
        0 => ([&full_sync(&file(b"REDIS0012", &records()))[..], &stream[..cut]].concat(), true),
        _ => {
            assert_eq!(words[1], REPLID);
            let offset: usize = words[2].parse().unwrap();
            let rest = &stream[offset - 1 - 100..];
            ([b"+CONTINUE\r\n", rest].concat(), false)
        }
    });
    let (_serving, to) = serving();
    let mut importing = Importing::begin(&folder, &source, &to, &["--cut-over"]);
    let (code, outcome) = importing.ended();
    let text = outcome.text();
    assert_eq!((code, outcome.full_syncs, outcome.partial_syncs), (Some(1), 1, 1), "{text}");
    let refused: Vec<(&str, u64)> = outcome.counts.refused.iter().map(|(why, count)| (why.as_str(), *count)).collect();
    assert!(refused[0].0.starts_with("NEWCOMMAND: "), "{text}");
    assert!(refused[1].0.starts_with("data of the module "), "{text}");
    assert!(refused[2].0.starts_with("key of database 17: ERR DB index is out of range"), "{text}");
    assert!(refused[3].0.starts_with("value of the module "), "{text}");
    assert!(refused.len() == 4 && refused.iter().all(|(_, count)| *count == 1), "{text}");
    assert_eq!((outcome.counts.expired, outcome.counts.keys), (1, 17), "{text}");
    check_values(&to);
}

/// Imports `stream` from a primary that is lost behind the first `cut` bytes and continues it. Returns the target.
fn import_cut(stream: Vec<u8>, cut: usize) -> (crate::common::Serving, String) {
    let folder = Folder::new("import-cut");
    let source = primary(move |number, words| match number {
        0 => ([&full_sync(&file(b"REDIS0012", &[]))[..], &stream[..cut]].concat(), true),
        _ => {
            let offset: usize = words[2].parse().unwrap();
            ([b"+CONTINUE\r\n", &stream[offset - 1 - 100..]].concat(), false)
        }
    });
    let (serving, to) = serving();
    let (code, outcome) = Importing::begin(&folder, &source, &to, &["--cut-over"]).ended();
    let text = outcome.text();
    assert_eq!((code, outcome.full_syncs, outcome.partial_syncs), (Some(0), 1, 1), "{text}");
    (serving, to)
}

#[test]
fn no_part_of_a_long_transaction_that_is_cut_off_is_applied_twice() {
    // The import ends a transaction at each 1,000 commands, so parts of it are executed before it is cut off.
    for executed in [999, 1_000, 1_001, 1_200, 2_300] {
        let begin = [command(&["SELECT", "0"]), command(&["MULTI"])].concat();
        let increment = command(&["INCR", "n"]);
        let stream = [&begin[..], &increment.repeat(2_500), &command(&["EXEC"]), &command(&["INCR", "n"])].concat();
        let (_serving, to) = import_cut(stream, begin.len() + increment.len() * executed);
        assert_eq!(ask::<u64>(&mut connect(&to), &["GET", "n"]), 2_501, "cut after {executed}");
    }
}

#[test]
fn no_part_of_a_transaction_around_a_swap_of_databases_is_applied_twice() {
    let begin = [
        command(&["SELECT", "0"]),
        command(&["MULTI"]),
        command(&["INCR", "n"]),
        command(&["SWAPDB", "0", "1"]),
        command(&["INCRBY", "n", "10"]),
    ]
    .concat();
    let stream = [&begin[..], &command(&["EXEC"])].concat();
    let (_serving, to) = import_cut(stream, begin.len());
    let mut target = connect(&to);
    assert_eq!(ask::<u64>(&mut target, &["GET", "n"]), 10);
    ask::<()>(&mut target, &["SELECT", "1"]);
    assert_eq!(ask::<u64>(&mut target, &["GET", "n"]), 1);
}

/// Checks what the records and the stream of the test have stored.
fn check_values(to: &str) {
    let mut target = connect(to);
    let mut all = |words: &[&str]| ask::<Vec<String>>(&mut target, words);
    assert_eq!(all(&["MGET", "int", "lzf", "late", "idle", "in-zero"]), ["-1000", "abcabcabcabc", "v", "v", "1"]);
    for (key, members) in
        [("list-ziplist", &["a", "b"][..]), ("quicklist", &["a", "b", "c"]), ("quicklist2", &["plain", "b", "7"])]
    {
        assert_eq!(all(&["LRANGE", key, "0", "-1"]), members, "{key}");
    }
    for (key, members) in [("intset", ["-2", "1"]), ("set-listpack", ["-3", "a"])] {
        let mut found = all(&["SMEMBERS", key]);
        found.sort();
        assert_eq!(found, members, "{key}");
    }
    assert_eq!(all(&["ZRANGE", "zset-ziplist", "0", "-1", "WITHSCORES"]), ["a", "1.5", "b", "inf"]);
    assert_eq!(all(&["ZRANGE", "zset-listpack", "0", "-1", "WITHSCORES"]), ["a", "2", "b", "2.5"]);
    assert_eq!(all(&["HGETALL", "zipmap"]), ["f", "vw"]);
    for key in ["hash-ziplist", "hash-listpack", "hash-ttl-listpack"] {
        assert_eq!(all(&["HGETALL", key]), ["f", "v"], "{key}");
    }
    let times = |target: &mut _, key| ask::<Vec<i64>>(target, &["HPEXPIRETIME", key, "FIELDS", "2", "f", "g"]);
    assert_eq!(times(&mut target, "hash-ttl"), [LATE_MS, -1]);
    assert_eq!(times(&mut target, "hash-ttl-listpack"), [LATE_MS, -2]);
    // The expiry of a key so late is rounded down to a second.
    let late: i64 = ask(&mut target, &["PEXPIRETIME", "late"]);
    assert_eq!(late, LATE_MS / 1000 * 1000);
    ask::<()>(&mut target, &["SELECT", "2"]);
    assert_eq!(ask::<Vec<i64>>(&mut target, &["MGET", "in-two", "last"]), [3, 1]);
}

#[test]
fn damage_and_foreign_servers_are_reported_with_place_and_remedy() {
    let (_serving, to) = serving();
    let whole = file(b"REDIS0012", &records());
    let mut damaged = whole.clone();
    let at = damaged.len() - 20;
    damaged[at] ^= 1;
    let valkey = file(b"VALKEY080", &[key(22, "hash", &[&[1][..], &short(b"f"), &short(b"v"), &[0xFF; 8]].concat())]);
    let array = file(b"REDIS0014", &[key(28, "array", &[0])]);
    let sized = |bytes: &[u8], len: usize| [format!("+FULLRESYNC {REPLID} 0\r\n${len}\r\n").as_bytes(), bytes].concat();
    for (bytes, code, expected) in [
        (sized(&damaged, damaged.len()), 5, "the snapshot cannot be read: byte "),
        (sized(&whole[..300], whole.len()), 5, "the server closed the connection"),
        (sized(&whole, whole.len() + 1), 5, "the snapshot does not end where its data ends"),
        (sized(&array, array.len()), 5, "arrays of Redis 8.8 are not supported"),
        ([sized(&valkey, valkey.len()), b"?\r\n".to_vec()].concat(), 5, "the stream of commands is damaged"),
        (b"-ERR unknown command 'PSYNC'\r\n".to_vec(), 1, "use gannet migrate"),
        (b"-NOPERM this user has no permissions\r\n".to_vec(), 1, "the user needs the rights"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), 1, "it replies as a web server does"),
        (Vec::new(), 1, "the server closed the connection"),
    ] {
        let source = primary(move |_, _| (bytes.clone(), true));
        let (found, out, err) = run(&["import", &source, "--to", &to, "--retries", "0", "--quiet", "--flush"]);
        assert!(found == code && err.contains(expected) && err.contains(&source), "{expected}: {found}: {out}{err}");
    }
}
