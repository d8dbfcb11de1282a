//! Tests of the Redis protocol over sockets: comparisons of replies with Debian's Redis over random streams of
//! commands, and commands that affect only their own connection.

use crate::commands::read_until;
use crate::common::redis::{Redis, Replies, addr, both, request, resp};
use crate::common::{Client, set, start, value};
use base::prng::Prng;
use command::clients::endpoint::Protocol;
use gannet_server::start::ServerConfig;

/// Returns the words of a random command. Half of the commands are valid.
fn command(prng: &mut Prng) -> Vec<Vec<u8>> {
    if prng.below(5) < 2 {
        return crate::common::hashes::command(prng);
    }
    let key = |prng: &mut Prng| format!("key:{}", prng.below(5)).into_bytes();
    let value = |prng: &mut Prng| -> Vec<u8> {
        match prng.below(9) {
            0 => Vec::new(),
            1 => prng.below(1000).to_string().into_bytes(),
            2 => format!("-{}", prng.below(1000)).into_bytes(),
            3 => i64::MAX.to_string().into_bytes(),
            4 => format!("{}.5", prng.below(100)).into_bytes(),
            5 => vec![b'x'; prng.below(40_000) as usize],
            6 => b"with\r\nline\0ends".to_vec(),
            7 => b"012".to_vec(),
            _ => format!("text {}", prng.below(9)).into_bytes(),
        }
    };
    let number = |prng: &mut Prng| -> Vec<u8> {
        let texts: [&[u8]; 10] =
            [b"1", b"-1", b"0", b"100", b"-5", b"9223372036854775807", b"-9223372036854775808", b"1.5", b"abc", b" 1"];
        texts[prng.below(texts.len() as u64) as usize].to_vec()
    };
    // Also in milliseconds, no key may expire during the test: the two servers would remove it at different times.
    let ends = |prng: &mut Prng| -> Vec<u8> {
        let texts: [&[u8]; 6] = [b"1000000", b"100000000", b"0", b"-1", b"9223372036854775807", b"x"];
        texts[prng.below(texts.len() as u64) as usize].to_vec()
    };
    let mut words: Vec<Vec<u8>> = Vec::new();
    let one_key: [&str; 15] = [
        "GET",
        "STRLEN",
        "TTL",
        "PTTL",
        "TYPE",
        "INCR",
        "DECR",
        "GETDEL",
        "PERSIST",
        "DEL",
        "EXISTS",
        "TOUCH",
        "UNLINK",
        "EXPIRETIME",
        "GETEX",
    ];
    match prng.below(22) {
        0..=5 => {
            words.push(one_key[prng.below(15) as usize].into());
            words.push(key(prng));
        }
        6..=8 => {
            words.extend([b"SET".to_vec(), key(prng), value(prng)]);
            for _ in 0..prng.below(3) {
                match prng.below(9) {
                    0 => words.push(b"NX".to_vec()),
                    1 => words.push(b"xx".to_vec()),
                    2 => words.push(b"GET".to_vec()),
                    3 => words.push(b"KEEPTTL".to_vec()),
                    4 => words.extend([b"EX".to_vec(), ends(prng)]),
                    5 => words.extend([b"px".to_vec(), ends(prng)]),
                    6 => words.extend([b"EXAT".to_vec(), b"4000000000".to_vec()]),
                    7 => words.push(b"NO".to_vec()),
                    _ => words.push(b"EX".to_vec()),
                }
            }
        }
        9 => words.extend([b"append".to_vec(), key(prng), value(prng)]),
        10 => words.extend([b"SETRANGE".to_vec(), key(prng), number(prng), value(prng)]),
        11 => words.extend([b"GETRANGE".to_vec(), key(prng), number(prng), number(prng)]),
        12 => words.extend([["INCRBY", "DECRBY"][prng.below(2) as usize].into(), key(prng), number(prng)]),
        13 => {
            // Numbers whose sums are exact: this server adds 64-bit doubles, Redis 80-bit numbers.
            let texts: [&[u8]; 6] = [b"1", b"-2.5", b"0.25", b"abc", b"1e2", b""];
            let key = format!("float:{}", prng.below(3)).into_bytes();
            words.extend([b"INCRBYFLOAT".to_vec(), key, texts[prng.below(6) as usize].to_vec()]);
        }
        14 => {
            words.push(b"MGET".to_vec());
            words.extend((0..prng.below(6)).map(|_| key(prng)));
        }
        15 => {
            words.push(b"MSET".to_vec());
            words.extend((0..prng.below(6)).map(|i| if i % 2 == 0 { key(prng) } else { value(prng) }));
        }
        16 => {
            words.push(["DEL", "EXISTS", "TOUCH"][prng.below(3) as usize].into());
            words.extend((0..prng.below(5)).map(|_| key(prng)));
        }
        17 | 18 => {
            words.push(["EXPIRE", "pexpire", "EXPIREAT"][prng.below(3) as usize].into());
            words.extend([key(prng), ends(prng)]);
            let options = ["NX", "xx", "GT", "LT", "QQ"];
            words.extend((0..prng.below(3)).map(|_| options[prng.below(5) as usize].into()));
        }
        19 => {
            words.push(["SETNX", "GETSET", "SETEX", "PSETEX"][prng.below(4) as usize].into());
            words.push(key(prng));
            if prng.below(2) == 0 {
                words.push(ends(prng));
            }
            words.push(value(prng));
        }
        20 => {
            words.extend([b"GETEX".to_vec(), key(prng)]);
            match prng.below(4) {
                0 => words.push(b"PERSIST".to_vec()),
                1 => words.extend([b"EX".to_vec(), ends(prng)]),
                2 => words.extend([b"PX".to_vec(), ends(prng), b"x".to_vec()]),
                _ => words.push(b"EX".to_vec()),
            }
        }
        _ => match prng.below(5) {
            0 => words.push(b"PING".to_vec()),
            1 => words.extend([b"PING".to_vec(), value(prng)]),
            2 => words.extend([b"ECHO".to_vec(), value(prng)]),
            3 => words.extend([b"NOSUCHCOMMANDATALL".to_vec(), b"a".to_vec(), b"b c".to_vec()]),
            _ => words.extend([b"SELECT".to_vec(), b"0".to_vec()]),
        },
    }
    words
}

/// Returns true if two replies are the same, apart from the time that passes between them.
fn same(words: &[Vec<u8>], ours: &[u8], theirs: &[u8]) -> bool {
    let number = |reply: &[u8]| {
        let text = reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
        std::str::from_utf8(text).ok()?.parse::<i64>().ok()
    };
    let lasting = ["TTL", "PTTL", "EXPIRETIME"].iter().any(|name| words[0].eq_ignore_ascii_case(name.as_bytes()));
    // The comparison of an expiry, relative to now, with that of an earlier command depends on whether both are in the
    // same millisecond.
    let is = |word: &[u8], names: [&str; 2]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    let compares = is(&words[0], ["EXPIRE", "PEXPIRE"]) && words.iter().skip(3).any(|word| is(word, ["GT", "LT"]));
    match (lasting, number(ours), number(theirs)) {
        (_, Some(0 | 1), Some(0 | 1)) if compares => true,
        // Both have an end, or both have none: the clocks of two commands may be seconds apart on a busy machine.
        (true, Some(a), Some(b)) if a > 0 && b > 0 => a.abs_diff(b) <= 20_000,
        _ => ours == theirs || crate::common::hashes::same_but_for_chance(words, ours, theirs),
    }
}

fn compare(seed: u64, version: &[u8]) {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    for replies in [&mut ours, &mut theirs] {
        assert!(matches!(replies.ask(&[b"HELLO", version])[0], b'*' | b'%'));
    }
    let mut prng = Prng::new(seed);
    let mut of_hashes = 0;
    for batch in 0..700 {
        let commands: Vec<_> = (0..=prng.below(12)).map(|_| command(&mut prng)).collect();
        let bytes: Vec<u8> =
            commands.iter().flat_map(|words| request(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())).collect();
        theirs.client.send(&bytes);
        // Ours in two parts, so that requests are cut anywhere.
        let (one, two) = bytes.split_at(prng.below(bytes.len() as u64) as usize);
        ours.client.send(one);
        ours.client.send(two);
        for words in &commands {
            let (ours, theirs) = (ours.next(), theirs.next());
            let show = |bytes: &[u8]| bytes[..bytes.len().min(300)].escape_ascii().to_string();
            let asked: Vec<_> = words.iter().map(|word| show(word)).collect();
            assert!(
                same(words, &ours, &theirs),
                "seed {seed}, batch {batch}: {asked:?}\nours:   {}\ntheirs: {}",
                show(&ours),
                show(&theirs)
            );
            let nothing: [&[u8]; 7] = [b"-", b":0", b"$-1", b"_", b"*0", b"%0", b"*2\r\n$1\r\n0\r\n*0"];
            let is_told = !nothing.iter().any(|nothing| ours.starts_with(nothing));
            of_hashes += usize::from(is_told && words[0].to_ascii_uppercase().starts_with(b"H"));
        }
    }
    assert!(of_hashes > 200, "{of_hashes} commands on hashes found or did something");
}

#[test]
fn replies_are_those_of_redis_in_version_2() {
    compare(1, b"2");
}

#[test]
fn replies_are_those_of_redis_in_version_3() {
    compare(2, b"3");
}

#[test]
fn values_stored_over_either_protocol_are_readable_over_the_other() {
    let running = start(both());
    let (mut redis, mut memcached) = (resp(&running), Client::connect(addr(&running, Protocol::Memcache)));
    memcached.ask(&set("a", b"from memcached"), b"STORED\r\n");
    assert_eq!(redis.ask(&[b"GET", b"a"]), b"$14\r\nfrom memcached\r\n");
    assert_eq!(redis.ask(&[b"SET", b"b", b"from redis", b"EX", b"100"]), b"+OK\r\n");
    memcached.ask(b"get b\r\n", &value("b", b"from redis"));
    memcached.ask(b"set n 5 0 2\r\n41\r\n", b"STORED\r\n");
    assert_eq!(redis.ask(&[b"INCR", b"n"]), b":42\r\n");
    memcached.ask(b"incr n 1\r\n", b"43\r\n");
    assert_eq!(redis.ask(&[b"GET", b"n"]), b"$2\r\n43\r\n");
    assert_eq!(redis.ask(&[b"DECRBY", b"n", b"50"]), b":-7\r\n");
    memcached.ask(b"get n\r\n", b"VALUE n 5 2\r\n-7\r\nEND\r\n");
    memcached.send(b"mg b t\r\n");
    let left = String::from_utf8(read_until(&mut memcached, b"\r\n")).unwrap();
    let secs = left.trim_end().strip_prefix("HD t").and_then(|secs| secs.parse::<u64>().ok());
    assert!(secs.is_some_and(|secs| (40..=100).contains(&secs)), "{left}");
    running.stop();
}

#[test]
fn long_values_round_trip_over_resp() {
    let running = start(both());
    let mut redis = resp(&running);
    for len in [7_000, 20_000, 120_000, 200_000] {
        let long = crate::common::pattern(len);
        assert_eq!(redis.ask(&[b"SET", b"long", &long]), b"+OK\r\n");
        for words in [&[&b"GET"[..], b"long"][..], &[b"SET", b"long", &long, b"GET"], &[b"GETEX", b"long", b"EX", b"9"]]
        {
            let reply = redis.ask(words);
            assert!(reply.starts_with(format!("${len}\r\n").as_bytes()) && reply.ends_with(b"\r\n"), "{len}");
            assert!(reply[reply.len() - 2 - len..].starts_with(&long), "{len}");
        }
        let reply = redis.ask(&[b"MGET", b"long", b"none", b"long", b"long"]);
        assert_eq!(reply.len(), 4 + 3 * (format!("${len}\r\n").len() + len + 2) + 5, "{len}");
    }
    running.stop();
}

#[test]
fn requests_for_many_keys_that_outrun_the_output_are_answered_whole_and_counted_once() {
    let running = start(both());
    let mut redis = resp(&running);
    let value = "v".repeat(200);
    for i in 0..50 {
        assert_eq!(redis.ask(&[b"SET", format!("key:{i}").as_bytes(), value.as_bytes()]), b"+OK\r\n");
    }
    let keys: Vec<String> = (0..60).map(|i| format!("key:{i}")).collect();
    let words: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain(keys.iter().map(String::as_bytes)).collect();
    // Together they are several times as long as an output, and more operations than an iteration gives to one client.
    redis.client.send(&request(&words).repeat(20));
    let one =
        [b"*60\r\n".to_vec(), format!("$200\r\n{value}\r\n").into_bytes().repeat(50), b"$-1\r\n".repeat(10)].concat();
    for _ in 0..20 {
        assert_eq!(redis.next(), one);
    }
    let info = String::from_utf8(redis.ask(&[b"INFO", b"stats"])).unwrap();
    assert!(info.contains("keyspace_hits:1000\r\nkeyspace_misses:200\r\n"), "{info}");
    running.stop();
}

/// Returns the keys of a whole walk, and the number of calls.
fn walk(redis: &mut Replies) -> (std::collections::HashSet<String>, usize) {
    let (mut cursor, mut replied, mut calls) = ("0".to_owned(), std::collections::HashSet::new(), 0);
    loop {
        let reply = redis.ask(&[b"SCAN", cursor.as_bytes(), b"MATCH", b"user:*", b"COUNT", b"100"]);
        let text = String::from_utf8(reply).unwrap();
        let words = text.split("\r\n").filter(|word| !word.starts_with(['*', '$']) && !word.is_empty());
        let words: Vec<&str> = words.collect();
        cursor = words[0].to_owned();
        replied.extend(words[1..].iter().map(|word| (*word).to_owned()));
        calls += 1;
        if cursor == "0" {
            return (replied, calls);
        }
    }
}

#[test]
fn scan_with_match_returns_every_matching_key_and_no_other() {
    let running = start(both());
    let mut redis = resp(&running);
    for number in 0..1500 {
        let name = format!("{}:{number}", ["user", "page"][number % 2]);
        assert_eq!(redis.ask(&[b"SET", name.as_bytes(), b"v"]), b"+OK\r\n");
    }
    let (replied, calls) = walk(&mut redis);
    assert_eq!(replied.len(), 750);
    assert!(replied.iter().all(|name| name.starts_with("user:")) && calls > 3, "{calls} calls");
    assert_eq!(redis.ask(&[b"DBSIZE"]), b":1500\r\n");
    assert_eq!(redis.ask(&[b"FLUSHALL"]), b"+OK\r\n");
    assert_eq!(walk(&mut redis).0.len(), 0);
    running.stop();
}

#[test]
fn scan_of_few_keys_in_much_memory_takes_few_calls() {
    let running = start(ServerConfig { memory_bytes: 512 << 20, ..both() });
    let mut redis = resp(&running);
    assert_eq!(redis.text("SCAN 0"), "*2 $1 0 *0");
    assert_eq!(redis.text("REC.SCAN people 0"), "*2 $1 0 *0");
    let names: std::collections::HashSet<String> = (0..40).map(|n| format!("user:{n}")).collect();
    for name in &names {
        redis.text(&format!("SET {name} v"));
        assert_eq!(redis.text(&format!("REC.PUT record-{name} IN people BINS age INT 1")), ":1");
    }
    let (replied, calls) = walk(&mut redis);
    assert!(replied == names && calls < 8, "{calls} calls");
    let (mut cursor, mut calls, mut records) = ("0".to_owned(), 0, 0);
    while calls == 0 || cursor != "0" {
        let reply = redis.text(&format!("REC.SCAN people {cursor} COUNT 100"));
        records += reply.matches("record-").count();
        cursor = reply.split(' ').nth(2).unwrap().to_owned();
        calls += 1;
    }
    assert!(calls < 8 && records >= 40, "{calls} calls, {records} records");
    for _ in 0..20 {
        assert!(redis.text("RANDOMKEY").contains("user:"));
    }
    assert_eq!(redis.text("KEYS user:7"), "*1 $6 user:7");
    let mut memcached = Client::connect(addr(&running, Protocol::Memcache));
    let iterations = || running.shared().workers[0].counters.iterations.value();
    let before = iterations();
    for (dump, end) in [("metadump all", "END\r\n"), ("mgdump all", "EN\r\n")] {
        memcached.send(format!("lru_crawler {dump}\r\n").as_bytes());
        let listed = String::from_utf8(read_until(&mut memcached, end.as_bytes())).expect("text");
        assert_eq!(listed.lines().count(), 81, "{dump}: {listed}");
    }
    assert_eq!(redis.text("REC.INDEX CREATE people age INT"), "+OK");
    assert_eq!(redis.text("REC.TRUNCATE people"), ":40");
    let iterations = iterations() - before;
    assert!(iterations < 500, "{iterations} iterations, as if the index were full");
    running.stop();
}

#[test]
fn a_part_of_a_value_is_stored_and_read_wherever_the_whole_may_be_an_item() {
    let running = start(ServerConfig { item_bytes_max: 1 << 20, ..both() });
    let (mut redis, mut memcached) = (resp(&running), Client::connect(addr(&running, Protocol::Memcache)));
    let long = crate::common::pattern(900_000);
    memcached.ask(&set("long", &long), b"STORED\r\n");
    for words in [&[&b"SETRANGE"[..], b"long", b"1048570", b"too long"][..], &[b"SETRANGE", b"new", b"1048576", b"x"]] {
        assert!(redis.ask(words).starts_with(b"-ERR string exceeds maximum"), "{words:?}");
    }
    assert_eq!(redis.ask(&[b"EXISTS", b"new"]), b":0\r\n");
    assert_eq!(redis.ask(&[b"SETRANGE", b"long", b"5", &long[5..8]]), b":900000\r\n");
    assert_eq!(redis.ask(&[b"SETRANGE", b"zeros", b"1000000", b"x"]), b":1000001\r\n");
    assert_eq!(redis.ask(&[b"GETRANGE", b"zeros", b"999998", b"-1"]), b"$3\r\n\0\0x\r\n");
    assert_eq!(redis.ask(&[b"SETRANGE", b"new", b"100000", b"x"]), b":100001\r\n");
    let part = redis.ask(&[b"GETRANGE", b"long", b"400000", b"400009"]);
    assert_eq!(part, [b"$10\r\n", &long[400_000..400_010], b"\r\n"].concat());
    assert_eq!(redis.ask(&[b"STRLEN", b"long"]), b":900000\r\n");
    running.stop();
}

#[test]
fn a_client_that_wants_no_answers_gets_none_until_it_does() {
    let running = start(both());
    let mut redis = resp(&running);
    let long = crate::common::pattern(20_000);
    assert_eq!(redis.ask(&[b"SET", b"long", &long]), b"+OK\r\n");
    redis.client.send(&request(&[b"CLIENT", b"REPLY", b"OFF"]));
    redis.client.send(&request(&[b"GET", b"long"]));
    redis.client.send(&request(&[b"SET", b"k", b"v"]));
    redis.client.send(&request(&[b"MGET", b"long", b"k", b"long"]));
    assert_eq!(redis.ask(&[b"CLIENT", b"REPLY", b"ON"]), b"+OK\r\n");
    redis.client.send(&request(&[b"CLIENT", b"REPLY", b"SKIP"]));
    redis.client.send(&request(&[b"GET", b"long"]));
    assert_eq!(redis.ask(&[b"GET", b"k"]), b"$1\r\nv\r\n");
    running.stop();
}

#[test]
fn unauthenticated_client_may_only_authenticate() {
    let folder = std::env::temp_dir().join(format!("gannet-resp-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("users");
    std::fs::write(&file, "default:secret\nalice:other\n").unwrap();
    let running = start(ServerConfig { auth_file: Some(file), ..both() });
    let mut redis = resp(&running);
    for words in [&[&b"GET"[..], b"a"][..], &[b"PING"], &[b"FLUSHALL"], &[b"HELLO", b"3"]] {
        assert!(redis.ask(words).starts_with(b"-NOAUTH "), "{words:?}");
    }
    assert!(redis.ask(&[b"AUTH", b"wrong"]).starts_with(b"-WRONGPASS "));
    assert_eq!(redis.ask(&[b"AUTH", b"secret"]), b"+OK\r\n");
    assert_eq!(redis.ask(&[b"PING"]), b"+PONG\r\n");
    let mut other = resp(&running);
    assert!(other.ask(&[b"HELLO", b"3", b"AUTH", b"alice", b"other"]).starts_with(b"%7\r\n"));
    let mut third = resp(&running);
    third.client.send(b"*1000\r\n$3\r\nDEL\r\n");
    assert!(third.next().starts_with(b"-ERR Protocol error: unauthenticated multibulk length"));
    running.stop();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn garbage_ends_its_own_connection_and_no_other() {
    let running = start(both());
    let mut good = resp(&running);
    for garbage in
        [&b"*1\r\n!3\r\n"[..], b"*-x\r\n", b"*1\r\n$-5\r\n", b"*2000000\r\n", b"\"open\r\n", b"*1\r\n$3\r\nGETxx"]
    {
        let mut bad = resp(&running);
        bad.client.send(garbage);
        assert!(bad.next().starts_with(b"-ERR Protocol error: "), "{}", garbage.escape_ascii());
        bad.client.expect_end();
        assert_eq!(good.ask(&[b"PING"]), b"+PONG\r\n");
    }
    running.stop();
}

#[test]
fn a_person_at_a_terminal_is_understood() {
    let running = start(both());
    let mut redis = resp(&running);
    redis.client.send(b"set greeting \"hello \\x41\" ex 60\r\n\r\nget greeting\nquit\r\n");
    assert_eq!(redis.next(), b"+OK\r\n");
    assert_eq!(redis.next(), b"$7\r\nhello A\r\n");
    assert_eq!(redis.next(), b"+OK\r\n");
    redis.client.expect_end();
    running.stop();
}

#[test]
fn command_table_longer_than_an_output_is_returned_complete() {
    let running = start(both());
    let mut redis = resp(&running);
    let count = redis.ask(&[b"COMMAND", b"COUNT"]);
    let count: usize = String::from_utf8_lossy(&count[1..count.len() - 2]).parse().unwrap();
    for words in [&[&b"COMMAND"[..]][..], &[b"COMMAND", b"DOCS"], &[b"COMMAND", b"INFO"]] {
        let reply = redis.ask(words);
        let times = if words.len() == 2 && words[1] == b"DOCS" { 2 } else { 1 };
        assert!(reply.starts_with(format!("*{}\r\n", count * times).as_bytes()), "{:?}", &reply[..20]);
    }
    assert!(redis.ask(&[b"COMMAND", b"INFO", b"get", b"nosuch"]).ends_with(b"$-1\r\n"));
    let info = String::from_utf8(redis.ask(&[b"INFO"])).unwrap();
    for part in ["# Server\r\n", "redis_version:", "# Keyspace\r\n", "maxmemory:67108864\r\n"] {
        assert!(info.contains(part), "{part}");
    }
    assert_eq!(redis.ask(&[b"CONFIG", b"GET", b"maxmemory"]), b"*2\r\n$9\r\nmaxmemory\r\n$8\r\n67108864\r\n");
    running.stop();
}

/// Compares the table of the docs page with the commands. With `GANNET_WRITE_DOCS` set, rewrites the table instead.
#[test]
fn the_page_lists_every_command_and_no_other() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol/resp.md");
    let (begin, end) = ("<!-- commands -->\n", "<!-- end of commands -->");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(begin).expect("the page has a table");
    let (rows, behind) = rest.split_once(end).expect("the table has an end");
    let wanted = command::resp::support::page();
    if std::env::var_os("GANNET_WRITE_DOCS").is_some() {
        std::fs::write(path, format!("{before}{begin}{wanted}{end}{behind}")).unwrap();
        return;
    }
    for (row, wanted) in rows.lines().zip(wanted.lines()) {
        assert_eq!(row, wanted, "GANNET_WRITE_DOCS=1 cargo test -p gannet-server --test server the_page writes it");
    }
    assert_eq!(rows.len(), wanted.len(), "rows are missing");
}

#[test]
fn unknown_command_error_suggests_the_nearest_name() {
    let running = start(both());
    let mut redis = resp(&running);
    let mut says = |name: &[u8]| String::from_utf8(redis.ask(&[name, b"x"])).unwrap();
    let head = |name: &str| format!("-ERR unknown command '{name}', with args beginning with: 'x' ");
    assert_eq!(says(b"gett"), head("gett") + "(did you mean 'get'?)\r\n");
    assert_eq!(says(b"quux-nothing"), head("quux-nothing") + "\r\n");
    running.stop();
}

/// Client libraries take "unknown command" for a sign of an old server, and repeat the request in other forms.
#[test]
fn unsupported_redis_command_is_not_taken_for_an_old_server() {
    let running = start(both());
    let mut redis = resp(&running);
    let mut says = |name: &[u8]| String::from_utf8(redis.ask(&[name, b"x"])).unwrap();
    assert_eq!(says(b"Failover"), "-ERR command 'FAILOVER' is not supported by this server: there are no replicas\r\n");
    assert_eq!(
        says(b"SAVE"),
        "-ERR command 'SAVE' is not supported by this server: there are no RDB and AOF files; with `--file` every \
         acknowledged write is in that file, and `--checkpoint` flushes it to its disk\r\n"
    );
    assert_eq!(says(b"cluster"), "-ERR This instance has cluster support disabled\r\n");
    for absent in command::resp::support::ABSENT {
        let error = says(absent.name.as_bytes()).to_lowercase();
        assert!(error.starts_with("-err ") && !error.contains("unknown command"), "{}: {error}", absent.name);
        assert!(!error.contains("did you mean"), "{}: {error}", absent.name);
    }
    running.stop();
}
