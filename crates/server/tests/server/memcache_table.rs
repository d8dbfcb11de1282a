//! Sends every text and meta command in valid, malformed and boundary forms to Debian's memcached and to this server,
//! whole and split at random positions, and compares the replies.
//!
//! The remaining differences are listed in [`DIFFERENCES`] with their reasons. `docs/memcached.md` has the same table,
//! with both replies: `GANNET_WRITE_DOCS=1 cargo test -p gannet-server --test server memcache_table` writes its source.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Shutdown, SocketAddr};

use crate::common::memcached::Memcached;
use crate::common::{Client, config, start, tcp};
use base::prng::Prng;

/// The part of the page on memcached's flags with the differences.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../gannet/src/memcached/page_differences.md");

/// The requests, one on a line, in which `\r`, `\n`, `\t` and `\0` stand for bytes. `@s` is the key of the text `abc`
/// with the client flags 5, `@n` that of the number 10, and `@k` has no item. `@long` is a key of 251 bytes, `@full`
/// one of 250.
const REQUESTS: &str = include_str!("memcache_requests.txt");

/// Requests with other replies than memcached 1.6.18 has, each with the reason.
const DIFFERENCES: &[(&str, &str)] = &[
    ("set @k x 0 3\r\nabc\r\n", DISCARDED),
    ("set @k 0 x 3\r\nabc\r\n", DISCARDED),
    ("set @k -1 0 3\r\nabc\r\n", DISCARDED),
    ("set @k 4294967296 0 3\r\nabc\r\n", FLAG_BITS),
    ("set @long 0 0 3\r\nabc\r\n", DISCARDED),
    ("set @k 0 0 3 noreply extra\r\nabc\r\n", DISCARDED),
    ("append @s x x 3\r\nxyz\r\n", DISCARDED),
    ("cas @s 0 0 3 x\r\nxyz\r\n", DISCARDED),
    ("cas @s 0 0 3 -1\r\nxyz\r\n", DISCARDED),
    ("cas @s 0 0 3 1 noreply extra\r\nxyz\r\n", DISCARDED),
    ("cas @long 0 0 3 1\r\nxyz\r\n", DISCARDED),
    ("cas @s 0 0 3 99999999999999999999\r\nxyz\r\n", DISCARDED),
    ("decr @n 3\r\nget @n\r\n", "a number has no spaces after it"),
    ("mg @s x\r\n", "a flag of memcached 1.6.45"),
    ("ms @long 3\r\nxyz\r\n", DISCARDED),
    ("ms @k 3 s\r\nabc\r\n", "memcached 1.6.45 returns the size, too"),
    ("ma @n O@o33\r\nmg @n v\r\n", "a command that is refused changes nothing"),
    ("md @k q\r\n", "`q` hides `NF`, as documented"),
    ("md !! b\r\n", "the reply of `mg` and `ms`"),
    ("md @s x\r\nmg @s v f\r\n", "a flag of memcached 1.6.45"),
    ("ma !! b\r\n", "the reply of `mg` and `ms`"),
    ("cache_memlimit 1\r\n", "the bounds depend on the store and the machine"),
    ("cache_memlimit 0\r\n", "the bounds depend on the store and the machine"),
    ("slabs automove 1\r\n", NO_SLABS),
    ("slabs reassign 1 2\r\n", NO_SLABS),
    ("lru mode flat\r\n", NO_SLABS),
    ("lru tune 10 25 0.1 2.0\r\n", NO_SLABS),
    ("lru temp_ttl 5\r\n", NO_SLABS),
    ("lru_crawler mgdump x\r\n", "a command of memcached 1.6.45"),
    ("lru_crawler enable\r\n", "expiry always runs"),
    ("extstore free_memchunks 1 1\r\n", "flash needs no tuning"),
    ("get @s\0x\r\n", "NUL is an ordinary byte of a key"),
    ("gat 2147483648 @s\r\nget @s\r\n", TIME_BITS),
    ("gat 4294967295 @s\r\nget @s\r\n", TIME_BITS),
    ("set @k 0 2147483648 3\r\nabc\r\nget @k\r\n", TIME_BITS),
    ("set @k 0 4294967295 3\r\nabc\r\nget @k\r\n", TIME_BITS),
    ("set @k 18446744073709551615 0 3\r\nabc\r\n", FLAG_BITS),
    ("set @k 18446744073709551616 0 3\r\nabc\r\n", DISCARDED),
    ("add @k 0 2147483648 3\r\nabc\r\nget @k\r\n", TIME_BITS),
    ("add @k 4294967296 0 3\r\nabc\r\n", FLAG_BITS),
    ("append @s 18446744073709551616 0 3\r\nxyz\r\n", DISCARDED),
    ("cas @s 0 0 3 noreply\r\nxyz\r\n", DISCARDED),
    ("touch @s 2147483648\r\nget @s\r\n", TIME_BITS),
    ("touch @s 4294967295\r\nget @s\r\n", TIME_BITS),
    ("mg @s O@o32\r\n", OPAQUE),
    ("mg @s T2147483648\r\nget @s\r\n", TIME_BITS),
    ("ms @k 3 O@o32\r\nabc\r\n", OPAQUE),
    ("ms @k 3 F4294967296\r\nabc\r\n", FLAG_BITS),
    ("ms @k 3 T2147483648\r\nabc\r\nget @k\r\n", TIME_BITS),
    ("ms @long 3 Jx\r\nxyz\r\n", DISCARDED),
    ("ma @k N2147483648 v\r\nget @k\r\n", TIME_BITS),
    ("watch rawcmds\r\n", NO_EVENTS),
    ("watch proxyreqs\r\n", NO_EVENTS),
    ("watch proxyevents\r\n", NO_EVENTS),
    ("watch proxyuser\r\n", NO_EVENTS),
    ("watch sysevents\r\n", NO_EVENTS),
    ("watch deletions\r\n", "an event of memcached 1.6.45"),
];
const DISCARDED: &str = "the value of a refused command is discarded, never executed as a command";
const FLAG_BITS: &str = "client flags have 32 bits; none are lost silently";
const NO_EVENTS: &str = "such events never occur here, so a watcher would wait in vain";
const OPAQUE: &str = "the documented limit of 32 bytes; memcached, its newest version too, counts the `O`";
const TIME_BITS: &str = "a time has 64 bits; memcached, its newest version too, cuts it to a signed number of 32 bits";
const NO_SLABS: &str = "the store has no slab classes and no LRU lists";

fn requests() -> Vec<String> {
    let unescape = |line: &str| {
        [("\\r", "\r"), ("\\n", "\n"), ("\\t", "\t"), ("\\0", "\0")]
            .iter()
            .fold(line.to_owned(), |text, (from, to)| text.replace(from, to))
    };
    REQUESTS.lines().filter(|line| !line.starts_with('#')).map(unescape).collect()
}

/// Replaces the placeholders of a request by those of row `number`.
fn filled(request: &str, number: usize) -> Vec<u8> {
    let words = [
        ("@s", format!("s{number}")),
        ("@n", format!("n{number}")),
        ("@k", format!("k{number}")),
        ("@long", "l".repeat(251)),
        ("@full", format!("{number:f>250}")),
        ("@o31", "o".repeat(31)),
        ("@o32", "o".repeat(32)),
        ("@o33", "o".repeat(33)),
        ("@big", "b".repeat(1_048_577)),
        ("@x2000", "x".repeat(2000)),
    ];
    words.iter().fold(request.to_owned(), |text, (name, word)| text.replace(name, word)).into_bytes()
}

/// Sends the parts one after another, then the end of the stream. Returns the whole reply.
fn ask(addr: SocketAddr, parts: &[&[u8]]) -> String {
    let mut client = Client::connect(addr);
    client.stream.set_nodelay(true).unwrap();
    for (number, part) in parts.iter().enumerate() {
        if number > 0 && !part.is_empty() {
            // So short a pause lets the server receive the parts one by one.
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
        if client.stream.write_all(part).is_err() {
            break;
        }
    }
    let _ = client.stream.shutdown(Shutdown::Write);
    String::from_utf8_lossy(&client.read_to_end()).into_owned()
}

/// Replaces in a reply what the two servers choose themselves: tokens, and facts of the store.
fn plain(reply: &str, number: usize) -> String {
    let mut text = String::new();
    for line in reply.split_inclusive("\r\n") {
        let (words, end) = line.strip_suffix("\r\n").map_or((line, ""), |words| (words, "\r\n"));
        let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let is_meta = matches!(words[0].as_str(), "HD" | "VA" | "ME" | "NF" | "NS" | "EX");
        if words[0] == "VALUE" && words.len() == 5 {
            words[4] = "TOKEN".to_owned();
        }
        if words[0] == "VERSION" {
            words = vec!["VERSION N".to_owned()];
        }
        for word in &mut words[1..] {
            let own = ["cas=", "la=", "cls=", "size="].iter().find(|name| is_meta && word.starts_with(**name));
            if let Some(name) = own {
                *word = format!("{name}N");
            } else if is_meta && word.strip_prefix('l').is_some_and(|secs| secs.parse::<u64>().is_ok()) {
                *word = "lN".to_owned();
            } else if is_meta && word.strip_prefix('c').is_some_and(|token| token.parse::<u64>().is_ok()) {
                *word = "cTOKEN".to_owned();
            }
        }
        text += &words.join(" ");
        text += end;
    }
    let text = text.replace(&"l".repeat(251), "@long").replace(&"x".repeat(2000), "@x2000");
    let text = text.replace(&format!("{number:f>250}"), "@full");
    let text = text.replace(&"o".repeat(32), "@o32").replace(&"o".repeat(31), "@o31");
    ["s", "n", "k"].iter().fold(text, |text, key| text.replace(&format!("{key}{number}"), &format!("@{key}")))
}

/// Formats bytes on one line of the table.
fn shown(text: &str) -> String {
    match text.is_empty() {
        true => "nothing".to_owned(),
        false => format!("`{}`", text.escape_debug().to_string().replace('|', "\\|")),
    }
}

#[test]
fn every_command_in_every_form_is_answered_as_by_debian_memcached_or_listed() {
    let seed: u64 = std::env::var("GANNET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("repeat: GANNET_SEED={seed} cargo test -p gannet-server --test server memcache_table");
    let mut prng = Prng::new(seed);
    let memcached = Memcached::start(64);
    let running = start(config());
    let (mut page, mut faults, mut differ) = (String::new(), String::new(), Vec::new());
    for (number, request) in requests().iter().enumerate() {
        // Each attempt has keys of its own.
        let one = |addr, number: usize, split: Option<u64>| {
            let items = format!("set s{number} 5 0 3\r\nabc\r\nset n{number} 0 0 2\r\n10\r\n");
            assert_eq!(ask(addr, &[items.as_bytes()]), "STORED\r\nSTORED\r\n");
            let bytes = filled(request, number);
            let at = split.map_or(bytes.len(), |at| 1 + (at % bytes.len() as u64) as usize);
            plain(&ask(addr, &[&bytes[..at], &bytes[at..]]), number)
        };
        let (theirs, ours) = (one(memcached.addr, number, None), one(tcp(&running), number, None));
        for attempt in 1..=2 {
            let at = prng.below(1 << 30);
            let split = one(tcp(&running), number + 1000 * attempt, Some(at));
            if split != ours {
                let _ = writeln!(faults, "{request:?} split at {at}: {split:?} instead of {ours:?}");
            }
        }
        let listed = DIFFERENCES.iter().find(|(listed, _)| *listed == request.as_str());
        match (theirs == ours, listed) {
            (true, None) => {}
            (true, Some(_)) => {
                let _ = writeln!(faults, "{request:?} is listed, but both servers reply {ours:?}");
            }
            (false, None) => {
                let _ = writeln!(faults, "{request:?}: memcached replies {theirs:?}, this server {ours:?}");
            }
            (false, Some((_, why))) => {
                differ.push(request.clone());
                let _ = writeln!(page, "| {} | {} | {} | {why} |", shown(request), shown(&ours), shown(&theirs));
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
    let unsent =
        DIFFERENCES.iter().map(|(request, _)| *request).find(|request| !differ.iter().any(|sent| sent == request));
    assert_eq!(unsent, None, "a listed request is not sent");
    if std::env::var_os("GANNET_WRITE_DOCS").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let page_there = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        page_there == page,
        "GANNET_WRITE_DOCS=1 cargo test -p gannet-server --test server memcache_table writes it"
    );
    running.stop();
}

/// Words of which a random request consists. Values with documented differences that depend on the state are left out:
/// times and client flags of more than 31 and 32 bits, opaques of 32 bytes, and the flags `x` and `E` of memcached
/// 1.6.45.
const KEYS: [&str; 9] = ["@s", "@s", "@n", "@n", "@k", "@k", "@long", "@full", "!!@k"];
#[rustfmt::skip]
const NUMBERS: [&str; 14] = [
    "0", "1", "3", "-1", "007", "+1", "1x", "x", "1.5", "4294967295", "18446744073709551615", "18446744073709551616",
    "noreply", "2592000",
];
const TIMES: [&str; 10] = ["0", "0", "100", "-1", "2592000", "2147483647", "x", "1x", "99999999999999999999", "+5"];
#[rustfmt::skip]
const META_FLAGS: [&str; 52] = [
    "v", "k", "f", "s", "t", "c", "h", "l", "u", "b", "I", "q", "O", "O77", "O@o31", "O@o33", "T0", "T100", "Tx", "T",
    "T1x", "R30", "R", "Rx", "F5", "F", "Fx", "F-1", "J13", "J", "Jx", "J-1", "D5", "D", "Dx", "C1", "C", "Cx", "MI",
    "MD", "M+", "M-", "MS", "ME", "MR", "MA", "MX", "M", "MXX", "P1", "!", "Z",
];

/// Returns a random request in the form of a row of [`REQUESTS`].
fn random_request(prng: &mut Prng) -> String {
    let of = |prng: &mut Prng, words: &[&str]| words[prng.below(words.len() as u64) as usize].to_owned();
    let verbs = [
        "get",
        "gets",
        "gat",
        "gats",
        "set",
        "add",
        "replace",
        "append",
        "prepend",
        "cas",
        "delete",
        "incr",
        "decr",
        "touch",
        "mg",
        "ms",
        "md",
        "ma",
        "me",
        "verbosity",
        "mn",
    ];
    let verb = of(prng, &verbs);
    let key = of(prng, &KEYS);
    let mut words = vec![verb.clone()];
    match &verb[..] {
        "get" | "gets" => words.push(key),
        "gat" | "gats" => words.extend([of(prng, &TIMES), key]),
        "set" | "add" | "replace" | "append" | "prepend" | "cas" => {
            let flags = if prng.chance(1, 4) { of(prng, &["x", "-1", "1x", "4294967295"]) } else { "5".to_owned() };
            let len = if prng.chance(1, 8) { of(prng, &["x", "-1", "3x", "2", "4"]) } else { "3".to_owned() };
            words.extend([key, flags, of(prng, &TIMES), len]);
            if verb == "cas" {
                words.push(of(prng, &NUMBERS));
            }
            if prng.chance(1, 4) {
                words.push(of(prng, &["noreply", "noreply", "more"]));
            }
        }
        "touch" => words.extend([key, of(prng, &TIMES)]),
        "incr" | "decr" => words.extend([key, of(prng, &NUMBERS)]),
        "delete" => words.extend([key, of(prng, &["0", "1", "noreply", "0 noreply", "x"])]),
        "verbosity" => words.push(of(prng, &NUMBERS)),
        "mn" => {}
        _ => {
            words.push(key);
            if verb == "ms" {
                words.push(if prng.chance(1, 10) { of(prng, &["x", "3x", "2", "-1"]) } else { "3".to_owned() });
            }
            for _ in 0..prng.below(5) {
                words.push(of(prng, &META_FLAGS));
            }
            // memcached 1.6.18 returns no size from `ms`, shows the time left as negative in `me`, and accepts no
            // base64 of more than 250 bytes.
            words.retain(|word| word != "s" || verb != "ms");
            // memcached skips bytes that are not base64, if enough others remain.
            if words[1] == "!!@k" && words.contains(&"b".to_owned()) {
                words[1] = "!!".to_owned();
            }
            if verb == "me" || words.contains(&"b".to_owned()) && words[1] == "@long" {
                words[1] = "@k".to_owned();
            }
        }
    }
    if prng.chance(1, 12) {
        words.pop();
    }
    let line = words.join(" ") + "\r\n";
    let stores = ["set", "add", "replace", "append", "prepend", "cas", "ms"].contains(&&verb[..]);
    if stores { line + "abc\r\n" } else { line }
}

/// Returns true if two replies to a random request differ only as the page says.
fn is_documented(request: &str, ours: &str, theirs: &str) -> bool {
    let words: Vec<&str> = request.split_whitespace().collect();
    let has = |flag: &str| words.contains(&flag);
    let is_meta = |verbs: &[&str]| verbs.contains(&words[0]);
    // The value of a refused command is discarded here, and executed as a command there.
    let value_is_executed = request.ends_with("abc\r\n") && theirs == format!("{ours}ERROR\r\n");
    let hides_miss = is_meta(&["md", "ma"]) && has("q") && ours.is_empty() && theirs.starts_with("NF");
    let decodes = is_meta(&["md", "ma"]) && has("b") && ours == "CLIENT_ERROR error decoding key\r\n";
    let is_refused_first = is_meta(&["ma"]) && ours == "CLIENT_ERROR opaque token too long\r\n";
    let finds_no_number = theirs == "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    if is_refused_first && finds_no_number {
        return true;
    }
    value_is_executed || hides_miss || decodes && theirs == "CLIENT_ERROR invalid or duplicate flag\r\n"
}

/// Removes the lengths of values from the reply to a `get`, and the spaces after numbers that `decr` has shortened.
fn without_padding(items: &str) -> String {
    let lines = items.lines().map(|line| match line.starts_with("VALUE ") {
        true => line.rsplit_once(' ').expect("a length").0,
        false => line.trim_end(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Random requests have the replies of memcached, apart from the differences of [`is_documented`]. `GANNET_SEED` is the
/// seed, and `GANNET_FORMS` the number of requests.
#[test]
fn random_requests_of_each_command_are_answered_as_by_debian_memcached() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (seed, rounds) = (number("GANNET_SEED", 1), number("GANNET_FORMS", 4000));
    println!("repeat: GANNET_SEED={seed} GANNET_FORMS={rounds} cargo test -p gannet-server --test server each_command");
    let mut prng = Prng::new(seed);
    let (memcached, running) = (Memcached::start(64), start(config()));
    let (mut faults, mut errors, mut documented) = (String::new(), 0, 0);
    for number in 0..rounds as usize {
        let request = random_request(&mut prng);
        // One connection for each part, because a request may close its own.
        let [(ours, our_items), (theirs, their_items)] = [tcp(&running), memcached.addr].map(|addr| {
            let items = format!("set s{number} 5 0 3\r\nabc\r\nset n{number} 0 0 2\r\n10\r\n");
            assert_eq!(ask(addr, &[items.as_bytes()]), "STORED\r\nSTORED\r\n");
            let reply = plain(&ask(addr, &[&filled(&request, number)]), number);
            let items = ask(addr, &[format!("get s{number} n{number} k{number}\r\n").as_bytes()]);
            (reply, without_padding(&items))
        });
        let is_listed = ours != theirs && is_documented(&request, &ours, &theirs);
        documented += u64::from(is_listed);
        errors += u64::from(ours.contains("ERROR"));
        // memcached finds an opaque that is too long only after it has executed the command.
        let is_refused_late = ours == theirs && ours == "CLIENT_ERROR opaque token too long\r\n";
        if our_items != their_items && !is_refused_late || ours != theirs && !is_listed {
            let _ = writeln!(faults, "{request:?}: memcached replies {theirs:?}, this server {ours:?}");
            if our_items != their_items {
                let _ = writeln!(faults, "  items: {their_items:?} and {our_items:?}");
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
    assert!(errors * 4 > rounds && errors * 4 < rounds * 3 && documented * 5 < rounds, "{errors} {documented}");
    running.stop();
}
