//! Tests of `COMMAND`: what it reports about every command, compared with Debian's Redis.

use crate::common::redis::{Redis, Replies, both, resp};
use crate::common::start;
use command::resp::catalog::COMMANDS;
use std::collections::BTreeMap;

/// A reply. The elements of a set are sorted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tree {
    Text(String),
    Number(i64),
    Null,
    Array(Vec<Tree>),
    Set(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
}

/// Reads the reply at the start of `bytes`, and the rest.
pub(super) fn tree(bytes: &[u8]) -> (Tree, &[u8]) {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a line");
    let (line, mut rest) = (std::str::from_utf8(&bytes[1..end]).unwrap(), &bytes[end + 2..]);
    let count = || line.parse::<usize>().unwrap();
    let mut next = || {
        let (element, behind) = tree(rest);
        rest = behind;
        element
    };
    let read = match bytes[0] {
        b'$' | b'*' if line == "-1" => Tree::Null,
        b'$' => {
            let text = rest[..count()].escape_ascii().to_string();
            rest = &rest[count() + 2..];
            Tree::Text(text)
        }
        b':' => Tree::Number(line.parse().unwrap()),
        b'_' => Tree::Null,
        b'*' => Tree::Array((0..count()).map(|_| next()).collect()),
        b'~' => {
            let mut elements: Vec<Tree> = (0..count()).map(|_| next()).collect();
            elements.sort();
            Tree::Set(elements)
        }
        b'%' => Tree::Map((0..count()).map(|_| (next(), next())).collect()),
        _ => Tree::Text(line.to_owned()),
    };
    (read, rest)
}

fn array(tree: &Tree) -> &[Tree] {
    match tree {
        Tree::Array(elements) | Tree::Set(elements) => elements,
        other => panic!("not an array: {other:?}"),
    }
}

/// Returns the entries of a reply to `COMMAND`, by name, with those of subcommands. In the entry of a container, the
/// list of subcommands is empty.
fn entries(reply: &Tree) -> BTreeMap<String, Tree> {
    let mut all = BTreeMap::new();
    for entry in array(reply) {
        let mut elements = array(entry).to_vec();
        let Tree::Text(name) = &elements[0] else { panic!("no name: {entry:?}") };
        let name = name.clone();
        all.extend(entries(&elements[9]));
        elements[9] = Tree::Set(Vec::new());
        all.insert(name, Tree::Array(elements));
    }
    all
}

/// Commands that have more arguments since Redis 7.2, which Redis 7.0 refuses.
const LONGER: [&str; 2] = ["zrank", "zrevrank"];

#[test]
fn every_command_is_described_as_by_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let [ours, theirs] = [&mut ours, &mut theirs].map(|client| {
        client.text("HELLO 3");
        entries(&tree(&client.ask(&[b"COMMAND"])).0)
    });
    let mut compared = 0;
    for (name, entry) in &ours {
        // Redis 7.0 does not have the others.
        if let Some(wanted) = theirs.get(name) {
            let from = if LONGER.contains(&&name[..]) { 2 } else { 0 };
            assert_eq!(array(entry)[from..], array(wanted)[from..], "{name}");
            compared += 1;
        }
    }
    assert!(compared > 140, "{compared} commands and subcommands were compared");
    for entry in COMMANDS {
        assert!(ours.contains_key(entry.name), "{}", entry.name);
    }
    running.stop();
}

#[test]
fn keys_and_lists_of_commands_are_those_of_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    for client in [&mut ours, &mut theirs] {
        client.text("HELLO 3");
    }
    for line in [
        "COMMAND INFO config|get nosuch get|x OBJECT|Encoding",
        "COMMAND INFO nosuch",
        "COMMAND LIST FILTERBY MODULE x",
        "COMMAND LIST FILTERBY ACLCAT nosuch",
        "COMMAND LIST FILTERBY ACLCAT @connection",
        "COMMAND LIST FILTERBY",
        "COMMAND LIST FILTERBY x y",
        "COMMAND LIST x",
        "COMMAND LIST FILTERBY PATTERN a b",
        "COMMAND GETKEYS",
        "COMMAND GETKEYS GET",
        "COMMAND GETKEYS GET a b",
        "COMMAND GETKEYS NOSUCH a",
        "COMMAND GETKEYS PING a",
        "COMMAND GETKEYS MSET a 1 b",
        "COMMAND GETKEYS OBJECT ENCODING a",
        "COMMAND GETKEYS OBJECT nosuch a",
        "COMMAND GETKEYS OBJECT a",
        "COMMAND GETKEYS MEMORY USAGE a",
        "COMMAND GETKEYS SPUBLISH c m",
        "COMMAND GETKEYS SSUBSCRIBE c m",
        "COMMAND GETKEYSANDFLAGS SET a b GET",
        "COMMAND GETKEYSANDFLAGS SET a b",
        "COMMAND GETKEYSANDFLAGS SET a b EX 1 get",
        "COMMAND GETKEYSANDFLAGS SET a GET",
        "COMMAND GETKEYSANDFLAGS BITFIELD a GET u8 0 OVERFLOW SAT get i3 7",
        "COMMAND GETKEYSANDFLAGS BITFIELD a GET u8 0 INCRBY u8 0 1",
        "COMMAND GETKEYSANDFLAGS BITFIELD a GET u8",
        "COMMAND GETKEYSANDFLAGS",
        "COMMAND GETKEYS SET|x a",
        "COMMAND GETKEYS config|get a",
        "COMMAND GETKEYS config get",
        "COMMAND GETKEYS ZUNIONSTORE to 2 a b WEIGHTS 1 2",
        "COMMAND GETKEYSANDFLAGS ZINTERSTORE to 1 to",
        "COMMAND GETKEYS SORT a BY b* LIMIT 0 5 GET STORE STORE to",
        "COMMAND GETKEYS SORT a STORE to store other",
        "COMMAND GETKEYS SORT_RO a BY b* STORE to",
        "COMMAND DOCS nosuch",
        "COMMAND COUNT x",
    ] {
        let [ours, theirs] =
            [&mut ours, &mut theirs].map(|client| tree(&client.ask(&crate::common::redis::words(line))).0);
        assert_eq!(ours, theirs, "{line}");
    }
    let mut with_keys = 0;
    for entry in COMMANDS.iter().filter(|entry| !entry.since.is_empty() && entry.since < "7.2") {
        if LONGER.contains(&entry.name) {
            continue;
        }
        let most = entry.arity.unsigned_abs().max(3) + 3;
        for words in 2..most {
            let args: String = (1..words).map(|n| format!(" a{n}")).collect();
            for form in ["GETKEYS", "GETKEYSANDFLAGS"] {
                let line = format!("COMMAND {form} {}{args}", entry.name);
                let ask = |client: &mut Replies| tree(&client.ask(&crate::common::redis::words(&line))).0;
                let (ours, theirs) = (ask(&mut ours), ask(&mut theirs));
                assert_eq!(ours, theirs, "{line}");
                with_keys += usize::from(matches!(ours, Tree::Array(_)));
            }
        }
    }
    assert!(with_keys > 200, "{with_keys} requests with keys");
    for filter in
        ["ACLCAT connection", "ACLCAT DANGEROUS", "ACLCAT read", "PATTERN con*", "PATTERN H?ET*", "PATTERN *|*"]
    {
        let line = format!("COMMAND LIST FILTERBY {filter}");
        let [ours, theirs] = [&mut ours, &mut theirs].map(|client| {
            let mut names = array(&tree(&client.ask(&crate::common::redis::words(&line))).0).to_vec();
            names.sort();
            names
        });
        let known = entries(&tree(&resp3(redis.addr).ask(&[b"COMMAND"])).0);
        let is_known = |name: &Tree| matches!(name, Tree::Text(name) if known.contains_key(name));
        let ours: Vec<Tree> = ours.into_iter().filter(is_known).collect();
        assert!(!ours.is_empty() && ours.iter().all(|name| theirs.contains(name)), "{line}: {ours:?} {theirs:?}");
    }
    running.stop();
}

fn resp3(addr: std::net::SocketAddr) -> Replies {
    let mut client = Replies::connect(addr);
    client.text("HELLO 3");
    client
}

/// A request with many names must not be parsed from its start again for each name.
#[test]
fn command_info_of_many_names_is_answered_whole() {
    let running = start(both());
    let mut client = resp(&running);
    let one = client.ask(&[b"COMMAND", b"INFO", b"get"]);
    let one = one.strip_prefix(b"*1\r\n").unwrap();
    let mut words: Vec<&[u8]> = vec![b"COMMAND", b"INFO"];
    words.extend(std::iter::repeat_n([&b"get"[..], b"x"], 1500).flatten());
    let reply = client.ask(&words);
    assert_eq!(reply, [b"*3000\r\n", &[one, b"$-1\r\n"].concat().repeat(1500)[..]].concat());
    let docs = client.ask(&[b"COMMAND", b"DOCS", b"config|get", b"nosuch"]);
    assert!(docs.starts_with(b"*2\r\n$10\r\nconfig|get\r\n*8\r\n$7\r\nsummary\r\n"), "{}", docs.escape_ascii());
    running.stop();
}
