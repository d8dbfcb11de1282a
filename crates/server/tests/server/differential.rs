//! Sends a random stream of commands, split at random positions, to Debian's memcached and to this server, and compares
//! the replies.
//!
//! CAS tokens are numbered by their first appearance, so that the comparison shows which of them are equal. Intended
//! differences (docs/protocol/memcache.md lists them) are not generated, or are made equal in [`Reply::parse_all`].

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::common::memcached::Memcached;
use crate::common::{PATIENCE, config, start, tcp};
use base::prng::Prng;

/// One line of a reply with its value, in which CAS tokens are replaced by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reply {
    words: Vec<String>,
    value: Option<Vec<u8>>,
}

/// A connection to one of the two servers.
struct Peer {
    stream: TcpStream,
    /// Number of each token, in order of first appearance.
    numbers: HashMap<u64, usize>,
    /// The tokens by number.
    tokens: Vec<u64>,
    batches: u64,
}

impl Peer {
    fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, numbers: HashMap::new(), tokens: Vec::new(), batches: 0 }
    }

    /// Sends a batch in parts, split at positions from `cuts`, and reads all its replies.
    fn ask(&mut self, batch: &[Piece], cuts: &mut Prng) -> Vec<Reply> {
        self.batches += 1;
        let end = format!("EN kno_such_key Oend{}\r\n", self.batches);
        let mut bytes = Vec::new();
        for piece in batch {
            match piece {
                Piece::Bytes(part) => bytes.extend_from_slice(part),
                Piece::Token(number) => bytes.extend_from_slice(self.tokens[*number].to_string().as_bytes()),
            }
        }
        bytes.extend_from_slice(format!("mg no_such_key k Oend{}\r\n", self.batches).as_bytes());
        let mut reader = self.stream.try_clone().unwrap();
        // Both sides of a large batch at once, so that neither waits for the other's buffer.
        let received = std::thread::scope(|scope| {
            let answers = scope.spawn(move || {
                let mut all = Vec::new();
                let mut part = vec![0; 64 << 10];
                while !all.ends_with(end.as_bytes()) {
                    let read = reader.read(&mut part).expect("an answer in time");
                    assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&all));
                    all.extend_from_slice(&part[..read]);
                }
                all
            });
            let mut from = 0;
            while from < bytes.len() {
                let most = if cuts.chance(1, 4) { 8 } else { 1 << cuts.below(20) };
                let to = bytes.len().min(from + 1 + cuts.below(most) as usize);
                self.stream.write_all(&bytes[from..to]).unwrap();
                from = to;
            }
            answers.join().unwrap()
        });
        self.parse_all(&received)
    }

    fn parse_all(&mut self, mut bytes: &[u8]) -> Vec<Reply> {
        let mut replies = Vec::new();
        while !bytes.is_empty() {
            let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a line");
            let line = std::str::from_utf8(&bytes[..end]).expect("keys of these tests are text");
            bytes = &bytes[end + 2..];
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let len_word = match words[0].as_str() {
                "VALUE" => Some(3),
                "VA" => Some(1),
                _ => None,
            };
            let value = len_word.map(|at| {
                let len: usize = words[at].parse().unwrap();
                assert_eq!(&bytes[len..len + 2], b"\r\n");
                let value = bytes[..len].to_vec();
                bytes = &bytes[len + 2..];
                // memcached pads a number that lost digits with spaces.
                let value = if is_number(&value) { value.trim_ascii_end().to_vec() } else { value };
                words[at] = value.len().to_string();
                value
            });
            // memcached returns a key in the form in which it was first stored, this server in the form of the request.
            if let Some(at) = words.iter().position(|word| word == "b") {
                let key =
                    ENCODED.iter().find(|(base64, _)| words[at - 1][1..] == **base64).expect("a key of the script");
                words[at - 1] = format!("k{}", key.1);
                words.remove(at);
            }
            if words[0] == "VALUE" && words.len() == 5 {
                words[4] = self.number(&words[4]);
            }
            if matches!(words[0].as_str(), "VA" | "HD") {
                for word in &mut words[1..] {
                    if let Some(token) = word.strip_prefix('c') {
                        *word = format!("c{}", self.number(token));
                    }
                }
            }
            replies.push(Reply { words, value });
        }
        replies
    }

    fn number(&mut self, token: &str) -> String {
        let token: u64 = token.parse().unwrap();
        let next = self.tokens.len();
        let number = *self.numbers.entry(token).or_insert(next);
        if number == next {
            self.tokens.push(token);
        }
        format!("#{number}")
    }
}

fn is_number(value: &[u8]) -> bool {
    !value.is_empty() && value.trim_ascii_end().iter().all(u8::is_ascii_digit)
}

/// Returns true if two replies are equivalent. Remaining seconds may differ, because the servers read their clocks at
/// different instants.
fn same(ours: &Reply, theirs: &Reply) -> bool {
    let near = |a: &str, b: &str| match (a.strip_prefix('t'), b.strip_prefix('t')) {
        (Some(a), Some(b)) => {
            let (a, b): (i64, i64) = (a.parse().unwrap(), b.parse().unwrap());
            (a < 0) == (b < 0) && (a - b).abs() <= 2
        }
        _ => false,
    };
    // An append that would make an item too long is an error here, and only not stored there. The item stays in both.
    let too_long = ours.words.join(" ") == "SERVER_ERROR object too large for cache";
    if too_long && matches!(theirs.words[0].as_str(), "NOT_STORED" | "NS") {
        return true;
    }
    ours.value == theirs.value
        && ours.words.len() == theirs.words.len()
        && ours.words.iter().zip(&theirs.words).all(|(a, b)| a == b || (ours.words[0].len() == 2 && near(a, b)))
}

/// A part of a batch: bytes, or a CAS token, which has a different value on each server.
enum Piece {
    Bytes(Vec<u8>),
    Token(usize),
}

/// Keys that are sent in base64, and their bytes.
const ENCODED: [(&str, &str); 3] = [("YjE=", "b1"), ("YjIy", "b22"), ("AAECAw==", "\0\u{1}\u{2}\u{3}")];

/// A generator of random commands. It uses three kinds of keys: `k` for texts, `n` for numbers, and `b`, which are sent
/// in base64.
struct Script {
    prng: Prng,
    pieces: Vec<Piece>,
    made: BTreeMap<&'static str, u64>,
    tokens: usize,
}

impl Script {
    fn push(&mut self, name: &'static str, text: impl AsRef<[u8]>) {
        *self.made.entry(name).or_default() += 1;
        self.pieces.push(Piece::Bytes(text.as_ref().to_vec()));
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.prng.below(from.len() as u64) as usize]
    }

    fn key(&mut self) -> String {
        let number = self.prng.below(12);
        // One key as long as can be.
        if number == 11 { format!("k{}", "x".repeat(249)) } else { format!("k{number}") }
    }

    fn number_key(&mut self) -> String {
        format!("n{}", self.prng.below(4))
    }

    fn exptime(&mut self) -> &'static str {
        self.pick(&["0", "0", "0", "1000", "2592000", "2000000000", "-1"])
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.prng.below(40) {
            0 => 100_000 + self.prng.below(700_000),
            1..=5 => self.prng.below(40_000),
            6..=9 => 0,
            _ => self.prng.below(200),
        };
        let mut value = vec![0; len as usize];
        self.prng.fill(&mut value);
        // Values that look like commands and line ends.
        if len >= 16 && self.prng.chance(1, 4) {
            value[..16].copy_from_slice(b"\r\nget k1\r\nEND\r\n ");
        }
        // Never a number: those belong to the `n` keys.
        if let Some(first) = value.first_mut() {
            *first = b'v';
        }
        value
    }

    fn with_value(&mut self, name: &'static str, line: String, value: &[u8]) {
        let mut bytes = line.into_bytes();
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
        self.push(name, bytes);
    }

    fn text_store(&mut self) {
        let verb = self.pick(&["set", "set", "add", "replace", "append", "prepend"]);
        let (key, exptime, value) = (self.key(), self.exptime(), self.value());
        let noreply = self.pick(&["", "", "", " noreply"]);
        let flags = self.pick(&["0", "1", "4294967295", "77"]);
        self.with_value(verb, format!("{verb} {key} {flags} {exptime} {}{noreply}", value.len()), &value);
    }

    fn cas(&mut self) {
        let (key, value) = (self.key(), self.value());
        let noreply = self.pick(&["", "", " noreply"]);
        if self.tokens == 0 || self.prng.chance(1, 5) {
            return self.with_value(
                "cas",
                format!("cas {key} 0 0 {} 18446744073709551000{noreply}", value.len()),
                &value,
            );
        }
        // Mostly a token that was seen lately, so that many are still right.
        let back = 1 + self.prng.below(self.tokens.min(6) as u64) as usize;
        self.push("cas", format!("cas {key} 9 0 {} ", value.len()));
        self.pieces.push(Piece::Token(self.tokens - back));
        self.pieces.push(Piece::Bytes(format!("{noreply}\r\n").into_bytes()));
        self.pieces.push(Piece::Bytes([&value, b"\r\n".as_slice()].concat()));
    }

    fn retrieval(&mut self) {
        let verb = self.pick(&["get", "get", "gets", "gets", "gat", "gats"]);
        let mut line = verb.to_owned();
        if verb.starts_with("gat") {
            line += " ";
            line += self.pick(&["0", "1000", "-1", "2000000000"]);
        }
        let count = if self.prng.chance(1, 10) { 1 + self.prng.below(60) } else { 1 + self.prng.below(3) };
        for _ in 0..count {
            line += self.pick(&[" ", " ", "  "]);
            line += &if self.prng.chance(1, 4) { self.number_key() } else { self.key() };
        }
        line += self.pick(&["\r\n", "\r\n", " \r\n", "\n"]);
        self.push(verb, line);
    }

    fn number(&mut self) {
        let key = self.number_key();
        match self.prng.below(8) {
            0 => {
                // Below 2^63: for larger numbers memcached 1.6.18 looks for a minus sign beyond the end of the value.
                let value =
                    self.pick(&["0", "10", "99", "1000000000000000000", "18446744073709551616", "", "12a", "7 "]);
                self.with_value("set a number", format!("set {key} 3 0 {}", value.len()), value.as_bytes());
            }
            1..=4 => {
                let verb = self.pick(&["incr", "decr"]);
                let delta = self.pick(&["1", "9", "90", "1000", "1000000000000", "x", "-1", ""]);
                let noreply = self.pick(&["", "", " noreply"]);
                self.push(verb, format!("{verb} {key} {delta}{noreply}\r\n"));
            }
            _ => {
                let mut line = format!("ma {key}");
                // No `T`: memcached 1.6.18 forgets it when it makes a new item for the number.
                for flag in [" N1000", " J13", " D3", " q", " v", " t", " k", " O77"] {
                    // memcached's `q` does not hide the answer to a number that `N` made.
                    if self.prng.chance(1, 4) && !(flag == " q" && line.contains(" N")) {
                        line += flag;
                    }
                }
                line += self.pick(&["", "", " MI", " M+", " MD", " M-", " MX", " M", " D1 D2"]);
                self.push("ma", line + "\r\n");
            }
        }
    }

    /// Returns a key for a meta command, and the `b` flag if the key is in base64.
    fn meta_key(&mut self) -> (String, &'static str) {
        if self.prng.chance(1, 4) {
            let (base64, _) = ENCODED[self.prng.below(ENCODED.len() as u64) as usize];
            (base64.to_owned(), " b")
        } else {
            (self.key(), "")
        }
    }

    fn meta_get(&mut self) {
        let (key, encoded) = self.meta_key();
        let mut line = format!("mg {key}{encoded}");
        for flag in
            [" v", " v", " c", " f", " k", " O1234", " q", " s", " t", " u", " P1 Lx", " T1000", " N2000", " R30"]
        {
            if self.prng.chance(1, 5) {
                line += flag;
            }
        }
        self.push("mg", line + "\r\n");
    }

    fn meta_store(&mut self) {
        let ((key, encoded), value) = (self.meta_key(), self.value());
        let mut line = format!("ms {key} {}{encoded}", value.len());
        for flag in [" c", " k", " O9", " q", " F5", " T3000", " I", " F7"] {
            if self.prng.chance(1, 6) {
                line += flag;
            }
        }
        line += self.pick(&["", "", "", " MS", " ME", " MR", " MA", " MP", " MX", " Z", " Fx"]);
        // `I` asks which token is the smaller, and the servers number tokens differently.
        if self.tokens > 0 && !line.contains(" I") && self.prng.chance(1, 4) {
            let back = 1 + self.prng.below(self.tokens.min(6) as u64) as usize;
            self.push("ms", line + " C");
            self.pieces.push(Piece::Token(self.tokens - back));
            self.pieces.push(Piece::Bytes([b"\r\n", value.as_slice(), b"\r\n"].concat()));
        } else {
            self.with_value("ms", line, &value);
        }
    }

    fn meta_delete(&mut self) {
        let (key, encoded) = self.meta_key();
        let mut line = format!("md {key}{encoded}");
        for flag in [" I", " I", " T1000", " k", " O5", " C18446744073709551000", " Z"] {
            if self.prng.chance(1, 6) {
                line += flag;
            }
        }
        self.push("md", line + "\r\n");
    }

    fn odd(&mut self) {
        let key = self.key();
        let long = "l".repeat(251);
        let big = "x".repeat(1_500_000);
        let unknown = self.pick(&["foo\r\n", "GET a\r\n", "get\r\n", "\r\n", "set a\r\n", "mx a\r\n"]);
        let flush = self.pick(&["flush_all\r\n", "flush_all noreply\r\n", "flush_all x\r\n"]);
        match self.prng.below(13) {
            0 => self.push("mn", "mn\r\n"),
            1 => self.push("unknown", unknown),
            2 => self.with_value("a value cut short", format!("set {key} 0 0 5"), b"vvvvvvvv"),
            3 => self.push("a bad length", format!("set {key} 0 0 -5\r\nset {key} 0 0 x\r\n")),
            4 => self.push("a long key", format!("delete {long}\r\nincr {long} 1\r\ntouch {long} 0\r\n")),
            5 => self.with_value("too large", format!("set {key} 0 0 {}", big.len()), big.as_bytes()),
            6 => self.with_value("too large", format!("ms {key} {} q", big.len()), big.as_bytes()),
            7 => self.push("flush_all", flush),
            8 => self.push("verbosity", "verbosity 1\r\nverbosity\r\n"),
            9 => {
                self.push("bad numbers", format!("touch {key} x\r\ngat x {key}\r\nincr {key} 99999999999999999999\r\n"))
            }
            10 => self.push("delete forms", format!("delete {key} 0\r\ndelete {key} 0 noreply\r\ndelete {key} 9\r\n")),
            11 => self.push("bad flags", format!("mg {key} v v\r\nmg {key} !\r\nmg {key} T\r\nmg {key} b\r\n")),
            _ => self.push("lone", format!("mg {key}\r\nme no_such\r\nme\r\n")),
        }
    }

    fn command(&mut self) {
        let key = self.key();
        match self.prng.below(20) {
            0..=3 => self.text_store(),
            4..=5 => self.cas(),
            6..=9 => self.retrieval(),
            10..=11 => self.number(),
            12..=13 => self.meta_get(),
            14..=15 => self.meta_store(),
            16 => self.meta_delete(),
            17 => {
                let noreply = self.pick(&["", "", " noreply"]);
                self.push("delete", format!("delete {key}{noreply}\r\n"));
            }
            18 => {
                let (exptime, noreply) = (self.exptime(), self.pick(&["", "", " noreply"]));
                self.push("touch", format!("touch {key} {exptime}{noreply}\r\n"));
            }
            _ => self.odd(),
        }
    }
}

#[test]
fn random_requests_get_the_same_replies_as_from_debian_memcached() {
    let seed: u64 = std::env::var("GANNET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let batches: u64 = std::env::var("GANNET_BATCHES").ok().and_then(|count| count.parse().ok()).unwrap_or(1200);
    println!(
        "repeat: GANNET_SEED={seed} GANNET_BATCHES={batches} cargo test -p gannet-server --test server differential"
    );
    let memcached = Memcached::start(512);
    let mut settings = config();
    settings.memory_bytes = 512 << 20;
    let running = start(settings);
    let (mut theirs, mut ours) = (Peer::connect(memcached.addr), Peer::connect(tcp(&running)));
    let mut script = Script { prng: Prng::new(seed), pieces: Vec::new(), made: BTreeMap::new(), tokens: 0 };
    let mut cuts = Prng::new(seed ^ 0x5eed);
    let mut codes: BTreeMap<String, u64> = BTreeMap::new();
    for batch in 0..batches {
        script.pieces.clear();
        for _ in 0..1 + script.prng.below(16) {
            script.command();
        }
        let expected = theirs.ask(&script.pieces, &mut cuts);
        let got = ours.ask(&script.pieces, &mut cuts);
        for number in 0..expected.len().max(got.len()) {
            let (theirs, ours) = (expected.get(number), got.get(number));
            let equal = matches!((ours, theirs), (Some(ours), Some(theirs)) if same(ours, theirs));
            assert!(
                equal,
                "batch {batch}, reply {number}\nmemcached: {}\nours:      {}\n{}",
                show(theirs),
                show(ours),
                replied(&script)
            );
            *codes.entry(expected[number].words[0].clone()).or_default() += 1;
        }
        script.tokens = theirs.tokens.len();
        assert_eq!(ours.tokens.len(), script.tokens);
    }
    println!("commands: {:?}\nreplies: {codes:?}\ntokens: {}", script.made, script.tokens);
    for code in [
        "VALUE",
        "VA",
        "HD",
        "EN",
        "END",
        "STORED",
        "NOT_STORED",
        "EXISTS",
        "NOT_FOUND",
        "DELETED",
        "TOUCHED",
        "NS",
        "NF",
        "EX",
        "ERROR",
        "CLIENT_ERROR",
        "SERVER_ERROR",
    ] {
        assert!(codes.get(code).is_some_and(|seen| *seen >= batches / 200), "{code} was not reached often: {codes:?}");
    }
    assert!(script.tokens as u64 > batches / 4, "{} tokens", script.tokens);
    running.stop();
}

fn show(reply: Option<&Reply>) -> String {
    reply.map_or("nothing".to_owned(), |reply| {
        let value = reply
            .value
            .as_ref()
            .map(|value| format!("{} bytes {:?}", value.len(), String::from_utf8_lossy(&value[..value.len().min(40)])));
        format!("{:?} {value:?}", reply.words)
    })
}

/// Formats the batch with shortened values.
fn replied(script: &Script) -> String {
    let mut text = String::new();
    for piece in &script.pieces {
        match piece {
            Piece::Bytes(bytes) => text += &format!("{:?}\n", String::from_utf8_lossy(&bytes[..bytes.len().min(120)])),
            Piece::Token(number) => text += &format!("#{number}\n"),
        }
    }
    text
}
