//! Memory files and flash files that earlier builds wrote, opened by this one: a new build must read what runs today.
//!
//! ```text
//!   conformance/images/NAME.memory.zst   a memory file, compressed
//!                      NAME.flash.zst    its flash file, if it has one
//!                      NAME.json         the server's flags, and requests with the replies of the build that wrote it
//! ```
//!
//! A new version of a format gets a new NAME; the old images stay. `GANNET_WRITE_IMAGES=1 cargo test -p gannet --test
//! program images` writes those of this build's versions that are missing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{PATIENCE, Serving, connect, request};
use crate::restart::{MemoryFile, wait_until_whole};
use crate::restart_flash::FlashFile;

/// An image of this build: its name, the server's flags, the values of 3,840 bytes that it holds beside the rest, and
/// the signal that ends the server.
struct ImageKind {
    name: &'static str,
    flags: &'static [&'static str],
    has_flash: bool,
    values: usize,
    signal: &'static str,
}

/// One image for each location of the index, and one with flash.
const KINDS: [ImageKind; 3] = [
    ImageKind {
        name: "memory-5-index-in-file",
        flags: &["--memory", "16MiB"],
        has_flash: false,
        values: 200,
        signal: "TERM",
    },
    ImageKind {
        name: "memory-5-index-in-dram",
        flags: &["--memory", "16MiB", "--file-index", "dram"],
        has_flash: false,
        values: 200,
        signal: "KILL",
    },
    ImageKind {
        name: "memory-5-flash-1",
        flags: &["--memory", "16MiB"],
        has_flash: true,
        values: 6000,
        signal: "TERM",
    },
];

/// 2100-01-01 in seconds since 1970.
const EXPIRES_AT: u64 = 4_102_444_800;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/images")
}

/// A server on an image's files, and its addresses.
struct Opened {
    serving: Serving,
    memcached: SocketAddr,
    resp: SocketAddr,
}

fn serve(memory: &MemoryFile, flash: Option<&FlashFile>, flags: &[&str]) -> Opened {
    let flash = flash.map(FlashFile::flag);
    let flash: Vec<&str> = flash.iter().flat_map(|flag| ["--flash", flag]).collect();
    let fixed = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "none", "--file", memory.path()];
    let mut serving = Serving::start(&[&fixed[..], flags, &flash].concat());
    let mut addr = |text: &str| match serving.lines.iter().find_map(|line| line.split(text).nth(1)) {
        Some(rest) => rest.split(|c: char| c.is_whitespace() || c == ',').next().unwrap().parse().expect("an address"),
        None => serving.addr_behind(text),
    };
    let memcached = addr("memcached clients connect to ");
    let resp = addr("Redis clients connect to ");
    Opened { serving, memcached, resp }
}

/// The request that follows each request, and its reply: all bytes before that are the reply to compare.
const END: [(&[u8], &[u8]); 2] = [(b"mn\r\n", b"MN\r\n"), (b"ECHO the-end\r\n", b"$7\r\nthe-end\r\n")];

/// Sends `bytes` and returns the whole reply.
fn reply(addr: SocketAddr, bytes: &[u8], (ask, end): (&[u8], &[u8])) -> Vec<u8> {
    let mut stream = BufReader::new(connect(addr));
    stream.get_mut().write_all(&[bytes, ask].concat()).expect("sends");
    let mut reply = Vec::new();
    while !reply.ends_with(end) {
        let read = stream.read_until(b'\n', &mut reply).expect("a reply");
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&reply));
    }
    reply.truncate(reply.len() - end.len());
    reply
}

impl Opened {
    /// The reply to a line: one that begins with `>` goes to the memcached port, others are words of a Redis client.
    fn reply(&self, line: &str) -> String {
        let bytes = match line.strip_prefix('>') {
            Some(line) => reply(self.memcached, format!("{line}\r\n").as_bytes(), END[0]),
            None => {
                let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                reply(self.resp, &request(&words), END[1])
            }
        };
        String::from_utf8(bytes).expect("a reply of text")
    }
}

/// Requests that store one item of each kind.
fn stores() -> Vec<String> {
    let fields: String = (0..3000).map(|number| format!(" field:{number} value:{number}")).collect();
    let long = "long ".repeat(60_000).replace(' ', "-");
    let mut lines = vec![
        "SET text hello".to_owned(),
        "SET number 41".to_owned(),
        "INCR number".to_owned(),
        ">set flagged 7 0 5\r\nworld".to_owned(),
        ">set swapped 0 0 3\r\none".to_owned(),
        "SET ends later".to_owned(),
        format!("EXPIREAT ends {EXPIRES_AT}"),
        "SET ended now PX 1".to_owned(),
        "SET gone x".to_owned(),
        "DEL gone".to_owned(),
        format!("SET long {long}"),
        "APPEND long end".to_owned(),
        "HSET hash a 1 b 2".to_owned(),
        format!("HSET large{fields}"),
        format!("HEXPIREAT large {EXPIRES_AT} FIELDS 1 field:7"),
        "REC.PUT p:1 IN people BINS name STR ann age INT 40".to_owned(),
        "REC.PUT p:2 IN people BINS name STR bob age INT 41".to_owned(),
    ];
    lines.push("REC.INDEX CREATE people age INT".to_owned());
    lines
}

/// Requests whose replies are kept with an image of so many values.
fn questions(values: usize) -> Vec<String> {
    let one = [
        "GET text",
        "GET number",
        ">gets flagged",
        ">gets swapped",
        "GET ends",
        "EXPIRETIME ends",
        "GET ended",
        "GET gone",
        "STRLEN long",
        "GETRANGE long 299990 -1",
        "HGETALL hash",
        "HLEN large",
        "HMGET large field:0 field:1500 field:2999 none",
        "HEXPIRETIME large FIELDS 1 field:7",
        "REC.GET p:1",
        "REC.GET p:2 TYPED",
        "REC.QUERY people age BETWEEN 41 50",
    ];
    let more = (0..values).step_by((values / 40).max(1)).map(|number| format!("GETRANGE value:{number} 3820 -1"));
    one.into_iter().map(str::to_owned).chain(more).collect()
}

fn compress(path: &Path, name: &str) {
    let bytes = std::fs::read(path).expect("the file is there");
    let packed = zstd::encode_all(&bytes[..], 19).expect("compressed");
    std::fs::write(folder().join(name), packed).expect("written");
}

fn unpack(name: &str, path: &Path) {
    let packed = std::fs::File::open(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut bytes = Vec::new();
    zstd::Decoder::new(packed).expect("a frame").read_to_end(&mut bytes).expect("decompressed");
    std::fs::write(path, bytes).expect("written");
}

/// Writes an image of this build.
fn write(kind: &ImageKind) {
    let (memory, flash) = (MemoryFile::new(kind.name), FlashFile::new(kind.name));
    let flash = kind.has_flash.then_some(&flash);
    let mut opened = serve(&memory, flash, kind.flags);
    for number in 0..kind.values {
        let value = format!("{number:08}").repeat(480);
        assert_eq!(opened.reply(&format!("SET value:{number} {value}")), "+OK\r\n");
    }
    for line in stores() {
        let reply = opened.reply(&line);
        assert!(!reply.contains("ERR") && !reply.starts_with('-'), "{reply}");
    }
    std::thread::sleep(Duration::from_millis(100));
    let replies: Vec<(String, String)> =
        questions(kind.values).into_iter().map(|line| (opened.reply(&line), line)).map(|(a, b)| (b, a)).collect();
    opened.serving.signal(kind.signal);
    opened.serving.ended();
    compress(Path::new(memory.path()), &format!("{}.memory.zst", kind.name));
    if let Some(flash) = flash {
        compress(&flash.0, &format!("{}.flash.zst", kind.name));
    }
    let page = json!({ "flags": kind.flags, "replies": replies });
    let page = serde_json::to_string_pretty(&page).expect("text") + "\n";
    std::fs::write(folder().join(format!("{}.json", kind.name)), page).expect("written");
}

/// Opens an image and compares every reply.
fn check(name: &str) {
    let text = std::fs::read_to_string(folder().join(format!("{name}.json"))).expect("the replies");
    let page: Value = serde_json::from_str(&text).expect("JSON");
    let (memory, flash) = (MemoryFile::new(&format!("image-{name}")), FlashFile::new(&format!("image-{name}")));
    unpack(&format!("{name}.memory.zst"), Path::new(memory.path()));
    let has_flash = folder().join(format!("{name}.flash.zst")).exists();
    if has_flash {
        unpack(&format!("{name}.flash.zst"), &flash.0);
    }
    let flags: Vec<&str> = page["flags"].as_array().expect("flags").iter().filter_map(Value::as_str).collect();
    let mut opened = serve(&memory, has_flash.then_some(&flash), &flags);
    if flags.contains(&"dram") {
        // Items are found while the index is rebuilt.
        wait_until_whole(&mut opened.serving);
    }
    let replies = page["replies"].as_array().expect("replies");
    assert!(replies.len() > 40, "{name}: {} replies are too few to prove anything", replies.len());
    for pair in replies {
        let line = pair[0].as_str().expect("a request");
        let mut reply = opened.reply(line);
        // A secondary index is rebuilt while the server serves.
        let end = Instant::now() + PATIENCE;
        while reply.starts_with("-BUILDING") && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
            reply = opened.reply(line);
        }
        assert_eq!(reply, pair[1].as_str().expect("a reply"), "{name}: {line}");
    }
    assert_eq!(opened.reply("SET text changed"), "+OK\r\n", "{name}: an old file takes writes");
    assert_eq!(opened.reply("GET text"), "$7\r\nchanged\r\n");
}

#[test]
fn files_that_earlier_builds_wrote_are_served_whole() {
    if std::env::var_os("GANNET_WRITE_IMAGES").is_some() {
        let is_missing = |kind: &&ImageKind| !folder().join(format!("{}.json", kind.name)).exists();
        KINDS.iter().filter(is_missing).for_each(write);
    }
    let files = std::fs::read_dir(folder()).expect("conformance/images").map(|entry| entry.expect("readable").path());
    let pages = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let names: Vec<String> =
        pages.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
    for kind in &KINDS {
        assert!(names.iter().any(|name| name == kind.name), "no image {}: see this module's first lines", kind.name);
    }
    names.iter().for_each(|name| check(name));
}

/// The first bytes of a memory file: magic, version and hash of the layout. Of a flash file: magic and version.
const FRONTS: [(&str, usize); 2] = [("memory", 24), ("flash", 16)];

#[test]
fn the_versions_that_this_build_writes_have_images() {
    let (memory, flash) = (MemoryFile::new("image-version"), FlashFile::new("image-version"));
    drop(serve(&memory, Some(&flash), &["--memory", "16MiB"]));
    for ((ending, len), path) in FRONTS.into_iter().zip([Path::new(memory.path()), &flash.0]) {
        let front = |path: &Path| std::fs::read(path).expect("the file is there")[..len].to_vec();
        let image = MemoryFile::new(&format!("image-front-{ending}"));
        let is_alike = |kind: &&ImageKind| {
            unpack(&format!("{}.{ending}.zst", kind.name), Path::new(image.path()));
            front(Path::new(image.path())) == front(path)
        };
        let has_one = KINDS.iter().filter(|kind| kind.has_flash || ending == "memory").all(|kind| is_alike(&kind));
        assert!(has_one, "a new version of the {ending} file needs new images: see this module's first lines");
    }
}
