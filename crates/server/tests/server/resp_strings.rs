//! Tests of commands on strings as bitmaps and HyperLogLogs: comparisons with Debian's Redis over random streams of
//! requests, with values of one item and values in pieces.

use crate::common::redis::{Redis, Replies, both, request, resp};
use crate::common::{pattern, start};
use base::prng::Prng;
use gannet_server::start::ServerConfig;

/// Sends each request of a stream to both servers and compares the replies. Returns the number of replies that are not
/// errors.
fn compare(seed: u64, batches: u32, version: &[u8], mut next: impl FnMut(&mut Prng) -> Vec<Vec<u8>>) -> u32 {
    let running = start(ServerConfig { memory_bytes: 256 << 20, ..both() });
    let (redis, mut ours) = (Redis::start(), resp(&running));
    let mut theirs = Replies::connect(redis.addr);
    let (mut prng, mut answered) = (Prng::new(seed), 0);
    for replies in [&mut ours, &mut theirs] {
        assert!(matches!(replies.ask(&[b"HELLO", version])[0], b'*' | b'%'));
    }
    for batch in 0..batches {
        let requests: Vec<_> = (0..=prng.below(12)).map(|_| next(&mut prng)).collect();
        let bytes: Vec<u8> =
            requests.iter().flat_map(|words| request(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())).collect();
        theirs.client.send(&bytes);
        ours.client.send(&bytes);
        for words in &requests {
            let (ours, theirs) = (ours.next(), theirs.next());
            let show = |bytes: &[u8]| bytes[..bytes.len().min(300)].escape_ascii().to_string();
            let asked: Vec<_> = words.iter().map(|word| show(word)).collect();
            assert!(
                same(words, &ours, &theirs),
                "seed {seed}, batch {batch}: {asked:?}\nours:   {}\ntheirs: {}",
                show(&ours),
                show(&theirs)
            );
            answered += u32::from(ours[0] != b'-');
        }
    }
    running.stop();
    answered
}

/// Returns true if two replies are the same. From version 7.2 on, Redis checks the arguments of `BITCOUNT` and `BITPOS`
/// even if the key does not exist, or has another type. `BITCOUNT` with a start alone is an error in Redis 7.0, and is
/// compared with Valkey elsewhere.
fn same(words: &[Vec<u8>], ours: &[u8], theirs: &[u8]) -> bool {
    let has_start_alone = words.len() == 3 && words[0].eq_ignore_ascii_case(b"BITCOUNT");
    let checks_first = ["BITCOUNT", "BITPOS"].iter().any(|name| words[0].eq_ignore_ascii_case(name.as_bytes()));
    let ignores = matches!(theirs, b":0\r\n" | b":-1\r\n") || theirs.starts_with(b"-WRONGTYPE");
    let is_later_form = has_start_alone && theirs == b"-ERR syntax error\r\n";
    ours == theirs || is_later_form || checks_first && ours.starts_with(b"-ERR") && ignores
}

fn one_of(prng: &mut Prng, words: &[&str]) -> Vec<u8> {
    words[prng.below(words.len() as u64) as usize].into()
}

fn key(prng: &mut Prng) -> Vec<u8> {
    match prng.below(30) {
        0 => b"hash".to_vec(),
        1 => b"none".to_vec(),
        _ => format!("key:{}", prng.below(5)).into_bytes(),
    }
}

/// Returns a value of any length: empty, short, a number, as long as an item, or in pieces.
fn value(prng: &mut Prng) -> Vec<u8> {
    let fill = [0, 0xff, 0x55][prng.below(3) as usize];
    match prng.below(8) {
        0 => Vec::new(),
        1 => prng.below(100_000).to_string().into_bytes(),
        2 => vec![fill; prng.below(300_000) as usize],
        3 => pattern(prng.below(200_000) as usize),
        4 => vec![fill; prng.below(40) as usize],
        _ => (0..prng.below(40)).map(|_| prng.next_u64() as u8).collect(),
    }
}

fn number(prng: &mut Prng) -> Vec<u8> {
    match prng.below(12) {
        0 => one_of(prng, &["-9223372036854775808", "9223372036854775807", "x", "1.5", "", "4294967296", "-"]),
        1 => format!("-{}", prng.below(2_000_000)).into_bytes(),
        2..=4 => format!("-{}", prng.below(40)).into_bytes(),
        5 => prng.below(2_000_000).to_string().into_bytes(),
        _ => prng.below(40).to_string().into_bytes(),
    }
}

fn field(prng: &mut Prng, words: &mut Vec<Vec<u8>>) {
    let kind = match prng.below(20) {
        0 => one_of(prng, &["u64", "i65", "i0", "x", "u08", ""]),
        _ => format!("{}{}", ["u", "i"][prng.below(2) as usize], 1 + prng.below(63)).into_bytes(),
    };
    let place = match prng.below(30) {
        0 => one_of(prng, &["-1", "#-1", "4294967296", "#x", "", "#9223372036854775807"]),
        1 => prng.below(2_000_000).to_string().into_bytes(),
        2..=10 => format!("#{}", prng.below(9)).into_bytes(),
        _ => prng.below(100).to_string().into_bytes(),
    };
    let number = match prng.below(4) {
        0 => number(prng),
        1 => (prng.next_u64() as i64 >> prng.below(64)).to_string().into_bytes(),
        _ => format!("{}", prng.below(600) as i64 - 300).into_bytes(),
    };
    match prng.below(10) {
        0..=2 => words.extend([b"GET".to_vec(), kind, place]),
        3..=4 => words.extend([b"set".to_vec(), kind, place, number]),
        5..=7 => words.extend([b"INCRBY".to_vec(), kind, place, number]),
        8 if prng.below(9) == 0 => words.push(one_of(prng, &["GET", "OVERFLOW", "SET", "x"])),
        _ => {
            let overflow = if prng.below(20) == 0 { b"x".to_vec() } else { one_of(prng, &["WRAP", "sat", "FAIL"]) };
            words.extend([b"OVERFLOW".to_vec(), overflow]);
        }
    }
}

/// Returns a random request on bitmaps.
fn bitmap_request(prng: &mut Prng) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    match prng.below(16) {
        0 => words.extend([b"SET".to_vec(), key(prng), value(prng)]),
        1 => words.extend([one_of(prng, &["GET", "STRLEN", "DEL", "GET"]), key(prng)]),
        2 => words.extend([b"HSET".to_vec(), b"hash".to_vec(), b"f".to_vec(), b"v".to_vec()]),
        3..=4 => {
            let place = if prng.below(3) == 0 { number(prng) } else { prng.below(300).to_string().into_bytes() };
            let bit = if prng.below(15) == 0 { number(prng) } else { one_of(prng, &["0", "1", "1"]) };
            words.extend([b"SETBIT".to_vec(), key(prng), place, bit]);
        }
        5 => words.extend([b"GETBIT".to_vec(), key(prng), number(prng)]),
        6..=8 => {
            words.extend([one_of(prng, &["BITCOUNT", "bitpos"]), key(prng)]);
            if words[0] == b"bitpos" {
                words.push(if prng.below(15) == 0 { number(prng) } else { one_of(prng, &["0", "1"]) });
            }
            words.extend((0..[0, 1, 2, 2, 2, 3][prng.below(6) as usize]).map(|_| number(prng)));
            if prng.below(2) == 0 {
                words.push(one_of(prng, &["BIT", "byte", "BIT", "x"]));
            }
        }
        9..=11 => {
            let operation = one_of(prng, &["AND", "or", "XOR", "NOT", "AND", "NOR"]);
            words.extend([b"BITOP".to_vec(), operation, key(prng)]);
            words.extend((0..1 + prng.below(4)).map(|_| key(prng)));
        }
        12..=14 => {
            words.extend([b"BITFIELD".to_vec(), key(prng)]);
            let operations = if prng.below(12) == 0 { 150 } else { prng.below(6) };
            (0..operations).for_each(|_| field(prng, &mut words));
        }
        _ => {
            words.extend([b"BITFIELD_RO".to_vec(), key(prng)]);
            for _ in 0..prng.below(5) {
                words.extend([b"GET".to_vec(), b"u7".to_vec(), prng.below(70).to_string().into_bytes()]);
            }
            if prng.below(8) == 0 {
                field(prng, &mut words);
            }
        }
    }
    words
}

#[test]
fn bitmaps_are_read_and_changed_as_by_redis() {
    for (seed, version) in [(1, b"2"), (2, b"3")] {
        let answered = compare(seed, 600, version, bitmap_request);
        assert!(answered > 2000, "{answered} replies without an error are too few to prove anything");
    }
}

/// Returns a random request on HyperLogLogs.
fn hyperloglog_request(prng: &mut Prng) -> Vec<Vec<u8>> {
    let key = |prng: &mut Prng| match prng.below(40) {
        0 => b"hash".to_vec(),
        1 => b"text".to_vec(),
        2 => b"none".to_vec(),
        _ => format!("key:{}", prng.below(6)).into_bytes(),
    };
    let mut words = Vec::new();
    match prng.below(14) {
        0 => words.extend([b"HSET".to_vec(), b"hash".to_vec(), b"f".to_vec(), b"v".to_vec()]),
        1 => {
            words.extend([b"SET".to_vec(), b"text".to_vec(), one_of(prng, &["", "5", "HYLL", "HYLL\u{1}00000000000"])])
        }
        2..=5 => {
            words.extend([b"PFADD".to_vec(), key(prng)]);
            let (many, range) = if prng.below(6) == 0 { (300, 1 << 40) } else { (6, 100) };
            let elements = (0..prng.below(many)).map(|_| format!("element:{}", prng.below(range)).into_bytes());
            words.extend(elements);
        }
        6 => words.extend([b"PFCOUNT".to_vec(), key(prng)]),
        7 => {
            words.push(b"PFCOUNT".to_vec());
            words.extend((0..1 + prng.below(20)).map(|_| key(prng)));
        }
        8 => {
            words.push(b"PFMERGE".to_vec());
            words.extend((0..1 + prng.below(5)).map(|_| key(prng)));
        }
        9 => {
            let topic = one_of(prng, &["DECODE", "encoding", "ENCODING", "TODENSE", "x", "GETREG"]);
            words.extend([b"PFDEBUG".to_vec(), topic, key(prng)]);
        }
        10 if prng.below(4) == 0 => words.extend([b"DEL".to_vec(), key(prng)]),
        11 => {
            let mut damaged = [&b"HYLL\x01\0\0\0\0\0\0\0\0\0\0"[..], &[[0, 0x80][prng.below(2) as usize]]].concat();
            let runs: [&[u8]; 7] = [&[0], &[0x3f], &[0x7f, 0xff], &[0x7f, 0xfe], &[0xff], &[0x80], &[0x85]];
            (0..prng.below(5)).for_each(|_| damaged.extend(runs[prng.below(7) as usize]));
            words.extend([b"SET".to_vec(), b"damaged".to_vec(), damaged]);
        }
        12 => {
            let command = one_of(prng, &["PFADD", "PFCOUNT", "PFMERGE"]);
            words.extend([command, b"damaged".to_vec(), format!("{}", prng.below(50)).into_bytes()]);
        }
        _ => words.extend([b"GET".to_vec(), key(prng)]),
    }
    words
}

#[test]
fn hyperloglogs_have_the_bytes_and_counts_of_redis() {
    for (seed, version) in [(1, b"2"), (2, b"3")] {
        let answered = compare(seed, 700, version, hyperloglog_request);
        assert!(answered > 2000, "{answered} replies without an error are too few to prove anything");
    }
}

/// Returns a random request of `LCS`, or one that stores its strings.
fn lcs_request(prng: &mut Prng) -> Vec<Vec<u8>> {
    if prng.below(3) == 0 {
        // Few different bytes have long common subsequences, and many of the same length.
        let kinds = 1 + prng.below(3);
        let most = if prng.below(9) == 0 { 600 } else { 20 };
        let text = (0..prng.below(most)).map(|_| b'a' + prng.below(kinds) as u8).collect();
        return vec![b"SET".to_vec(), key(prng), text];
    }
    let mut words = vec![b"LCS".to_vec(), key(prng), key(prng)];
    for _ in 0..prng.below(4) {
        match prng.below(12) {
            0..=1 => words.push(b"LEN".to_vec()),
            2..=6 => words.push(b"idx".to_vec()),
            7..=8 => words.push(b"WITHMATCHLEN".to_vec()),
            9..=10 => words.extend([b"MINMATCHLEN".to_vec(), number(prng)]),
            _ => words.push(one_of(prng, &["x", "MINMATCHLEN", ""])),
        }
    }
    words
}

#[test]
fn common_subsequences_are_those_of_redis() {
    for (seed, version) in [(1, b"2"), (2, b"3")] {
        let answered = compare(seed, 500, version, lcs_request);
        assert!(answered > 1500, "{answered} replies without an error are too few to prove anything");
    }
}

/// The tables of these requests take many visits. One string is much longer than the other in half of them.
#[test]
fn long_common_subsequences_are_those_of_redis() {
    let (redis, running) = (Redis::start(), start(ServerConfig { memory_bytes: 256 << 20, ..both() }));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let mut prng = Prng::new(4);
    let mut text = |bytes: usize| -> Vec<u8> { (0..bytes).map(|_| b'a' + prng.below(3) as u8).collect() };
    let (even, long, short) = ((text(2500), text(2000)), text(300_000), text(9));
    for (a, b) in [(&even.0, &even.1), (&even.1, &even.0), (&long, &short), (&short, &long)] {
        for client in [&mut ours, &mut theirs] {
            client.ask(&[b"MSET", b"a", a, b"b", b]);
        }
        for line in ["LCS a b", "LCS a b LEN", "LCS a b IDX MINMATCHLEN 3 WITHMATCHLEN"] {
            let [ours, theirs] = [&mut ours, &mut theirs].map(|client| client.text(line));
            assert!(ours == theirs && ours.len() > 1, "{line} of {} and {} bytes", a.len(), b.len());
        }
    }
    let too_long = vec![b'a'; 15_000];
    for client in [&mut ours, &mut theirs] {
        client.ask(&[b"MSET", b"a", &too_long, b"b", &too_long]);
    }
    assert_eq!(ours.text("LCS a b"), theirs.text("LCS a b"));
    running.stop();
}

#[test]
fn values_and_digests_decide_what_is_stored_and_deleted() {
    let running = start(both());
    let mut redis = resp(&running);
    let digest = |value: &[u8]| format!("{:016x}", xxhash_rust::xxh3::xxh3_64(value));
    redis.text("RPUSH list a");
    let exact = "-ERR must be exactly 16 hexadecimal characters";
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let no_string = "-ERR Key should be of string type if conditions are specified";
    let (of_one, of_two) = (digest(b"one"), digest(b"two"));
    for (line, reply) in [
        ("SET a one IFEQ x", "$-1"),
        ("SET a one IFDEQ 0123456789abcdef", "$-1"),
        ("SET a one IFNE one", "+OK"),
        ("SET a two IFNE one", "$-1"),
        ("SET a two IFNE x GET", "$3 one"),
        ("SET b one IFDNE 0123456789abcdef", "+OK"),
        ("SET b one IFDNE 0123", exact),
        ("SET b one IFEQ one IFEQ two", "-ERR syntax error"),
        ("SET b one IFEQ one NX", "-ERR syntax error"),
        ("SET b one IFDEQ", "-ERR syntax error"),
        ("SET list one IFEQ a", wrong),
        ("SET list one IFDNE 0123456789abcdef", wrong),
        (&format!("SET a one IFDEQ {of_one}"), "$-1"),
        (&format!("SET a one IFDEQ {} EX 100", of_two.to_uppercase()), "+OK"),
        ("TTL a", ":100"),
        (&format!("SET a two IFDNE {of_one}"), "$-1"),
        ("DIGEST a", &format!("$16 {of_one}")),
        ("DIGEST none", "$-1"),
        ("DIGEST list", wrong),
        ("DELEX none IFOO x", ":0"),
        ("DELEX none IFDEQ x", ":0"),
        ("DELEX none", ":0"),
        ("DELEX a IFEQ", "-ERR wrong number of arguments for 'delex' command"),
        ("DELEX a IFOO x", "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"),
        ("DELEX list IFOO x", no_string),
        ("DELEX list IFNE x", no_string),
        ("DELEX a IFDEQ x", exact),
        ("DELEX a IFEQ two", ":0"),
        (&format!("DELEX a IFDNE {of_one}"), ":0"),
        (&format!("DELEX a IFDEQ {of_one}"), ":1"),
        ("DELEX b IFNE one", ":0"),
        ("DELEX b IFNE two", ":1"),
        ("DELEX list", ":1"),
        ("DBSIZE", ":0"),
    ] {
        assert_eq!(redis.text(line), reply, "{line}");
    }
    let long = pattern(900_000);
    let of_long = digest(&long);
    redis.ask(&[b"SET", b"long", &long]);
    assert_eq!(redis.text("DIGEST long"), format!("$16 {of_long}"));
    assert_eq!(redis.text(&format!("DELEX long IFDNE {of_long}")), ":0");
    let next = pattern(900_001);
    assert_eq!(redis.ask(&[b"SET", b"long", &next, b"IFDEQ", b"0123456789abcdef"]), b"$-1\r\n");
    assert_eq!(redis.ask(&[b"SET", b"long", &next, b"IFDEQ", of_long.as_bytes()]), b"+OK\r\n");
    redis.text("MULTI");
    redis.text("DIGEST long");
    redis.text(&format!("DELEX long IFDEQ {}", digest(&next)));
    assert_eq!(redis.ask(&[b"EXEC"]), format!("*2\r\n$16\r\n{}\r\n:1\r\n", digest(&next)).as_bytes());
    running.stop();
}

#[test]
fn msetex_stores_all_keys_with_one_expiry_or_none() {
    let running = start(both());
    let mut redis = resp(&running);
    let count = "-ERR invalid numkeys value or out of range";
    for (line, reply) in [
        ("MSETEX 1 a", "-ERR wrong number of arguments for 'msetex' command"),
        ("MSETEX 0 a b", count),
        ("MSETEX x a b", count),
        ("MSETEX 2147483648 a b", count),
        ("MSETEX 2147483647 a b", "-ERR syntax error"),
        ("MSETEX 2 a b c", "-ERR syntax error"),
        ("MSETEX 1 a b nx xx", "-ERR syntax error"),
        ("MSETEX 1 a b get", "-ERR syntax error"),
        ("MSETEX 1 a b ifeq b", "-ERR syntax error"),
        ("MSETEX 1 a b ex 10 keepttl", "-ERR syntax error"),
        ("MSETEX 1 a b ex 0", "-ERR invalid expire time in 'msetex' command"),
        ("MSETEX 2 a 1 b 2 xx", ":0"),
        ("EXISTS a b", ":0"),
        ("MSETEX 2 a 1 b 2 nx ex 100", ":1"),
        ("MSETEX 2 b 3 c 3 nx", ":0"),
        ("TTL b", ":100"),
        ("MSETEX 2 a 3 b 4 xx keepttl", ":1"),
        ("TTL a", ":100"),
        ("GET b", "$1 4"),
        ("MSETEX 2 a 5 a 6", ":1"),
        ("TTL a", ":-1"),
        ("GET a", "$1 6"),
        ("COMMAND GETKEYS MSETEX 2 a 1 b 2 NX", "*2 $1 a $1 b"),
    ] {
        assert_eq!(redis.text(line), reply, "{line}");
    }
    running.stop();
}

#[test]
fn a_key_is_deleted_only_if_it_has_the_given_value() {
    let running = start(both());
    let mut redis = resp(&running);
    redis.text("SET a 12");
    redis.text("HSET hash f v");
    let long = pattern(150_000);
    redis.ask(&[b"SET", b"long", &long]);
    for (line, reply) in [
        ("DELIFEQ a 1", ":0"),
        ("DELIFEQ a 12", ":1"),
        ("DELIFEQ a 12", ":0"),
        ("EXISTS a", ":0"),
        ("DELIFEQ long x", ":0"),
    ] {
        assert_eq!(redis.text(line), reply, "{line}");
    }
    assert!(redis.text("DELIFEQ hash v").starts_with("-WRONGTYPE"));
    assert_eq!(redis.ask(&[b"DELIFEQ", b"long", &long[1..]]), b":0\r\n");
    assert_eq!(redis.ask(&[b"DELIFEQ", b"long", &long]), b":1\r\n");
    assert_eq!(redis.text("EXISTS long hash"), ":1");
    running.stop();
}

/// Regression: a part of a result that could not be stored at once was replaced by the next part, which ended the
/// server when it was found to be too short.
#[test]
fn a_part_of_bitop_that_must_wait_for_memory_is_stored_before_the_next() {
    let running = start(ServerConfig { memory_bytes: 32 << 20, item_bytes_max: 2 << 20, workers: 1, ..both() });
    let mut redis = resp(&running);
    let mut prng = Prng::new(4);
    for round in 0..40 {
        let bytes = if round % 4 == 0 { 16_344 * 40 } else { 300_000 + prng.below(700_000) as usize };
        let value = crate::common::pattern(bytes);
        assert_eq!(redis.ask(&[b"SET", b"s", &value]), b"+OK\r\n");
        for _ in 0..20 {
            let reply = redis.ask(&[b"BITOP", b"NOT", b"d", b"s"]);
            assert_eq!(reply, format!(":{bytes}\r\n").into_bytes());
        }
        let expected: Vec<u8> = value.iter().map(|byte| !byte).collect();
        assert!(redis.ask(&[b"GETRANGE", b"d", b"0", b"-1"]).ends_with(&[&expected[..], b"\r\n"].concat()));
    }
    running.stop();
}

#[test]
fn damaged_hyperloglogs_get_the_errors_of_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let sparse = |runs: &[u8]| [&b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80"[..], runs].concat();
    let values = [
        // Too few and too many registers, a long run that is cut, and more bytes than all registers need.
        sparse(b""),
        sparse(b"\x7f"),
        sparse(b"\x3f\x7f"),
        sparse(b"\x80\x7f\xff"),
        sparse(b"\x7f\xff\x80"),
        sparse(b"\x7f\xff\x40"),
        sparse(b"\x7f\xfe\x40"),
        sparse(b"\x40"),
        sparse(b"\x60\x05\x84\x5f"),
        sparse(b"\x60\x05\x84\x41"),
        sparse(&[0; 32_768]),
        sparse(&[0; 32_769]),
        sparse(&[0x80; 70_000]),
        b"HYLL".to_vec(),
        b"HYLL\x02\0\0\0\0\0\0\0\0\0\0\0".to_vec(),
        [&b"HYLL\0\0\0\0\0\0\0\0\0\0\0\0"[..], &[0; 12_287]].concat(),
        [&b"HYLL\0\0\0\0\0\0\0\0\0\0\0\0"[..], &[0; 40_000]].concat(),
    ];
    let lines = [
        "PFCOUNT h",
        "PFCOUNT h other",
        "PFMERGE to h",
        "PFMERGE to h other",
        "PFMERGE h other",
        "PFDEBUG GETREG h",
        "PFDEBUG TODENSE h",
    ];
    let mut adds: Vec<String> = (0..60).map(|number| format!("PFADD h {number}")).collect();
    adds.extend(["PFADD h", "PFDEBUG DECODE h"].map(str::to_owned));
    for (number, value) in values.iter().enumerate() {
        // Gannet refuses `PFADD` to a value that is longer than any valid one, whatever its runs are.
        let more = if value.len() < 30_000 { &adds[..] } else { &[] };
        for line in lines.iter().copied().chain(more.iter().map(String::as_str)) {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let [ours, theirs] = [&mut ours, &mut theirs].map(|client| {
                client.ask(&[b"DEL", b"to", b"other"]);
                client.ask(&[b"PFADD", b"other", b"a", b"b"]);
                client.ask(&[b"SET", b"h", value]);
                (client.ask(&words), client.ask(&[b"GET", b"h"]), client.ask(&[b"GET", b"to"]))
            });
            assert!(
                ours == theirs,
                "value {number}, {line}: {}, not {}",
                ours.0.escape_ascii(),
                theirs.0.escape_ascii()
            );
        }
    }
    running.stop();
}
