//! Requests that Valkey 9.1 has and Debian's Redis does not have, and random requests that follow the arguments which
//! Valkey describes (`COMMAND DOCS`), sent to Valkey and to this server.

use super::command_info::{Tree, tree};
use crate::common::redis::{Redis, Replies, both, resp};
use crate::common::start;
use base::prng::Prng;
use std::collections::BTreeMap;

/// Requests whose replies are the same as those of Valkey.
const SAME: &str = "\
FLUSHALL
GEOADD g 1 1 a 2 2 b 10 10 c -70 40 d 0.5 0.2 e
GEOSEARCH g BYPOLYGON 4 0 0 0 3 3 3 3 0 ASC WITHDIST WITHCOORD WITHHASH
GEOSEARCH g BYPOLYGON 3 0 0 6 0 3 3 DESC WITHDIST
GEOSEARCH g BYPOLYGON 5 0 0 0 3 3 3 3 0 1.5 -1 ASC COUNT 2
GEOSEARCH g FROMLONLAT 1 1 BYPOLYGON 3 0 0 0 3 3 3
GEOSEARCH g FROMMEMBER a BYPOLYGON 3 0 0 0 3 3 3
GEOSEARCH g BYPOLYGON 3 0 0 0 3 3 3 BYRADIUS 1 m
GEOSEARCH g BYRADIUS 1 m BYPOLYGON 3 0 0 0 3 3 3
GEOSEARCH g BYPOLYGON 3 0 0 0 3 3 3 FROMLONLAT 1 1
GEOSEARCH g BYPOLYGON 3 0 0 0 3 3 3 km
GEOSEARCH g BYPOLYGON 4 0 0 0 3 3 3
GEOSEARCH g BYPOLYGON 2 0 0 0 3
GEOSEARCH g BYPOLYGON -1 0 0 0 3
GEOSEARCH g BYPOLYGON 1.5 0 0 0 3 3 3
GEOSEARCH g BYPOLYGON 3 0 0 0 3 3 a
GEOSEARCH g BYPOLYGON 3 0 0 0 3 3 95
GEOSEARCH none BYPOLYGON 3 0 0 0 3 3 3
GEORADIUS g 0 0 1 km BYPOLYGON 3 0 0 0 3 3 3
GEOSEARCHSTORE to g BYPOLYGON 4 0 0 0 3 3 3 3 0
ZRANGE to 0 -1
HSETEX h XX FIELDS 1 a 1
HSETEX h NX XX FIELDS 1 a 1
HSETEX h NX FIELDS 1 a 1
HSETEX h NX FIELDS 1 a 2
HSETEX h XX FXX EX 100 FIELDS 1 a 3
HSETEX h XX FNX FIELDS 1 a 4
HSETEX h FXX XX FIELDS 1 a 5
HSETEX h EX 100 XX FIELDS 1 b 6
HGET h b
SET k foobar
BITCOUNT k
BITCOUNT k 1
BITCOUNT k -1
BITCOUNT k x
BITCOUNT k 0 1 x
BITCOUNT h 1
BITCOUNT none 1
SCRIPT LOAD return(1)
SCRIPT SHOW 0000000000000000000000000000000000000000
SCRIPT SHOW short
SCRIPT SHOW
SCRIPT SHOW 7f923f79fe76194c868d7e1d0820de36700eb649
COMMANDLOG
COMMANDLOG GET
COMMANDLOG GET 10
COMMANDLOG GET -2 slow
COMMANDLOG GET x slow
COMMANDLOG GET 10 other
COMMANDLOG GET 10 large-request
COMMANDLOG LEN
COMMANDLOG LEN other
COMMANDLOG LEN LARGE-REPLY
COMMANDLOG RESET other
COMMANDLOG RESET large-request
COMMANDLOG OTHER
WAITAOF 0 0 0
WAITAOF 1 0 0
WAITAOF 2 0 0
WAITAOF -1 -1 0
WAITAOF 0 1 10
WAITAOF x 0 10
WAITAOF 0 0 x
WAITAOF 0 0 -1
CLUSTERSCAN 0
CLIENT CAPA
CLIENT CAPA other words
CLIENT CAPA REDIRECT
CLIENT IMPORT-SOURCE ON
CLIENT IMPORT-SOURCE OFF
CLIENT IMPORT-SOURCE x
CLIENT LIST NAME
CLIENT LIST OTHER x
CLIENT LIST TYPE x
CLIENT LIST NOT-TYPE x
CLIENT LIST USER nobody
CLIENT LIST NOT-USER nobody
CLIENT LIST IDLE x
CLIENT LIST IDLE 0
CLIENT LIST NOT-IDLE 5
CLIENT LIST FLAGS q
CLIENT LIST NOT-FLAGS q
CLIENT LIST DB 99
CLIENT LIST NOT-DB 99
CLIENT LIST DB x
CLIENT LIST CAPA x
CLIENT LIST NOT-CAPA x
CLIENT LIST SKIPME x
CLIENT LIST SKIPME yes
CLIENT KILL ID 900 901 902
CLIENT KILL ID 0
CLIENT KILL NAME nobody
CLIENT KILL NOT-IP 127.0.0.1
CLIENT KILL FLAGS q
CLIENT KILL USER nobody
CLIENT KILL OTHER x
CONFIG SET hash-max-listpack-entries x
CONFIG SET hash-max-listpack-entries -1
CONFIG SET hash-max-listpack-value x
CONFIG SET list-compress-depth -1
CONFIG SET list-max-listpack-size 99999999999
CONFIG SET active-expire-effort 11
CONFIG SET activedefrag x
CONFIG SET hash-max-listpack-entries 1
CONFIG GET hash-max-listpack-entries
CONFIG GET hash-max-ziplist-entries
OBJECT ENCODING h
CONFIG SET hash-max-listpack-entries 512 lfu-log-factor 11 lazyfree-lazy-expire yes hll-sparse-max-bytes 3kb
CONFIG GET hll-sparse-max-bytes
CONFIG GET lazyfree-lazy-expire
CONFIG RESETSTAT";

/// Filters that select the client itself.
const SELF_FILTERS: [&str; 18] = [
    "NAME bob",
    "NOT-NAME alice",
    "IP 127.0.0.1",
    "NOT-IP 1.2.3.4",
    "DB 3",
    "NOT-DB 0",
    "FLAGS N",
    "NOT-FLAGS P",
    "CAPA r",
    "LIB-NAME library",
    "LIB-VER 7",
    "NOT-LIB-NAME other NOT-LIB-VER 8",
    "USER default TYPE normal",
    "NOT-TYPE pubsub NOT-ADDR 1.2.3.4:5 NOT-LADDR 1.2.3.4:5",
    "NOT-ID 900 901",
    "SKIPME no",
    "NAME alice NAME bob",
    "FLAGS N DB 3 NAME bob",
];

#[test]
fn requests_that_only_valkey_has_get_its_replies() {
    let running = start(both());
    let mut ours = resp(&running);
    let Some(valkey) = Redis::start_valkey() else { return println!("Valkey is not installed: nothing is compared") };
    let mut theirs = Replies::connect(valkey.addr);
    for line in SAME.lines() {
        assert_eq!(ours.shown(line), theirs.shown(line), "{line}");
    }
    for client in [&mut ours, &mut theirs] {
        for line in ["CLIENT SETNAME bob", "CLIENT SETINFO LIB-NAME library", "CLIENT SETINFO LIB-VER 7", "SELECT 3"] {
            assert_eq!(client.text(line), "+OK");
        }
        for filter in SELF_FILTERS {
            let listed = client.text(&format!("CLIENT LIST {filter}"));
            assert!(listed.contains(" name=bob "), "{filter}: {listed}");
            // The filter that selects all others selects none.
            let none = client.text(&format!("CLIENT LIST {filter} SKIPME yes"));
            assert!(!none.contains(" name=bob "), "{filter}: {none}");
        }
        let id = client.text("CLIENT ID")[1..].to_owned();
        for (filter, is_listed) in [
            (format!("ID {id}"), true),
            (format!("ID 900 {id} 901 NAME bob"), true),
            (format!("ID 900 {id} NAME alice"), false),
            (format!("NOT-ID {id}"), false),
            ("NOT-CAPA r".to_owned(), false),
            ("IDLE 100".to_owned(), false),
            ("NOT-FLAGS N".to_owned(), false),
        ] {
            let listed = client.text(&format!("CLIENT LIST {filter}"));
            assert_eq!(listed.contains(" name=bob "), is_listed, "{filter}: {listed}");
        }
    }
    running.stop();
}

#[test]
fn filter_of_clients_with_too_many_words_is_refused_unless_it_is_a_list_of_numbers() {
    let running = start(both());
    let mut client = resp(&running);
    let id = client.text("CLIENT ID")[1..].to_owned();
    let many: Vec<String> = (0..3000).map(|at| (at + 1000).to_string()).collect();
    assert!(client.text(&format!("CLIENT LIST ID {} {id}", many.join(" "))).contains(&format!("id={id} ")));
    let refused = client.text(&format!("CLIENT KILL ID {}", many.join(" ")));
    assert!(refused.starts_with("-ERR a filter has at most 1024 words"), "{refused}");
    let corners = vec!["1 1"; 1025].join(" ");
    let refused = client.text(&format!("GEOSEARCH g BYPOLYGON 1025 {corners}"));
    assert_eq!(refused, "-ERR GEOSEARCH BYPOLYGON must have at most 1024 vertices");
    running.stop();
}

/// An argument of a command, as `COMMAND DOCS` describes it.
#[derive(Debug, Default)]
struct Argument {
    name: String,
    kind: String,
    token: Option<String>,
    flags: Vec<String>,
    parts: Vec<Argument>,
}

impl Argument {
    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }
}

fn list(tree: &Tree) -> &[Tree] {
    if let Tree::Array(elements) = tree { elements } else { &[] }
}

fn text(tree: &Tree) -> String {
    if let Tree::Text(text) = tree { text.clone() } else { String::new() }
}

/// Returns the value of a field of a map that is written as an array.
fn field<'t>(map: &'t Tree, name: &str) -> Option<&'t Tree> {
    list(map).chunks(2).find(|pair| text(&pair[0]) == name).map(|pair| &pair[1])
}

fn arguments(tree: Option<&Tree>) -> Vec<Argument> {
    let each = tree.map(list).unwrap_or_default().iter();
    let read = |tree: &Tree| Argument {
        name: field(tree, "name").map(text).unwrap_or_default().to_ascii_lowercase(),
        kind: field(tree, "type").map(text).unwrap_or_default(),
        token: field(tree, "token").map(text),
        flags: field(tree, "flags").map(list).unwrap_or_default().iter().map(text).collect(),
        parts: arguments(field(tree, "arguments")),
    };
    each.map(read).collect()
}

/// Returns the documentation of all commands and subcommands in a reply to `COMMAND DOCS`, by name.
fn documented(docs: &Tree) -> BTreeMap<String, &Tree> {
    let mut all = BTreeMap::new();
    for pair in list(docs).chunks(2) {
        all.insert(text(&pair[0]), &pair[1]);
        all.append(&mut field(&pair[1], "subcommands").map(documented).unwrap_or_default());
    }
    all
}

/// Returns described arguments with the fields of each in the order of their names, and without explanations.
fn normalized(arguments: Option<&Tree>) -> Vec<Vec<(String, Tree)>> {
    let normalize = |argument: &Tree| {
        let pairs = list(argument).chunks(2).map(|pair| (text(&pair[0]), &pair[1]));
        let mut pairs: Vec<_> = pairs.filter(|(name, _)| name != "summary").collect();
        pairs.sort_by(|one, other| one.0.cmp(&other.0));
        let members = |(name, value): (String, &Tree)| match name.as_str() {
            "arguments" => normalized(Some(value)).into_iter().flatten().collect(),
            _ => vec![(name, value.clone())],
        };
        pairs.into_iter().flat_map(members).collect()
    };
    arguments.map(list).unwrap_or_default().iter().map(normalize).collect()
}

/// A client that shows help or completes commands sees the arguments that it would see with Valkey.
#[test]
fn documented_arguments_are_those_of_valkey() {
    let running = start(both());
    let Some(valkey) = Redis::start_valkey() else { return println!("Valkey is not installed: nothing is compared") };
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(valkey.addr));
    let (ours, _) = tree(&ours.ask(&[b"COMMAND", b"DOCS"])).clone();
    let (theirs, _) = tree(&theirs.ask(&[b"COMMAND", b"DOCS"])).clone();
    let (ours, theirs) = (documented(&ours), documented(&theirs));
    let mut compared = 0;
    for (name, mine) in &ours {
        let arguments = |docs| normalized(field(docs, "arguments"));
        let Some(yours) = theirs.get(name) else {
            let is_bare = arguments(mine).is_empty();
            assert!(is_bare == NO_ARGUMENTS.contains(&name.as_str()), "{name}: {:?}", arguments(mine));
            continue;
        };
        if name.contains('|') {
            assert_eq!(field(mine, "since"), field(yours, "since"), "{name}");
        }
        if name == "set" {
            // The conditions of Redis 8.4 are more than those of Valkey.
            assert!(arguments(mine).len() == arguments(yours).len(), "{:?}", arguments(mine));
            continue;
        }
        assert_eq!(arguments(mine), arguments(yours), "{name}");
        compared += 1;
    }
    assert!(compared > 300, "only {compared} commands were compared");
    running.stop();
}

/// Commands that Valkey does not have, and that have no arguments.
const NO_ARGUMENTS: &[&str] = &["g.compact", "g.node", "g.node|help", "g.segments", "g.snapshot", "rec.sets"];

/// The groups of commands on values, and some keys for each.
const GROUPS: [(&str, &[&str]); 10] = [
    ("bitmap", &["s1", "s2", "num", "none1", "bm"]),
    ("generic", &["s1", "l1", "set1", "z1", "h1", "st1", "geo1", "hll", "none9", "tt"]),
    ("geo", &["geo1", "geo2", "none8"]),
    ("hash", &["h1", "h2", "none3"]),
    ("hyperloglog", &["hll", "hll2", "none2"]),
    ("list", &["l1", "l2", "none4"]),
    ("set", &["set1", "set2", "iset", "none5"]),
    ("sorted-set", &["z1", "z2", "none6", "set1"]),
    ("stream", &["st1", "st2", "none7"]),
    ("string", &["s1", "s2", "num", "fl", "none1"]),
];

/// Commands that are not sent: their replies depend on chance, on the time or on the order of keys, or their
/// differences are documented.
const NOT_SENT: &[&str] = &[
    "dump",
    "expiretime",
    "hexpiretime",
    "hpexpiretime",
    "hpttl",
    "hrandfield",
    "hscan",
    "httl",
    "keys",
    "migrate",
    "move",
    "object|encoding",
    "object|freq",
    "object|help",
    "object|idletime",
    "object|refcount",
    "pexpiretime",
    "pfdebug",
    "pfselftest",
    "pttl",
    "randomkey",
    "restore",
    "scan",
    "spop",
    "srandmember",
    "sscan",
    "ttl",
    "wait",
    "waitaof",
    "xgroup|help",
    "xinfo|consumers",
    "xinfo|help",
    "xinfo|stream",
    "xpending",
    "zrandmember",
    "zscan",
];

/// The state before each request.
const STATE: &str = "\
FLUSHDB
SET s1 foobar
SET s2 abcdefgh
SET num 10
SET fl 3.5
SETBIT bm 100 1
PFADD hll a b c
PFADD hll2 c d
HSET h1 f1 1 f2 abc f3 2.5
HSET h2 f1 x a y b z
RPUSH l1 a b c a b 1
RPUSH l2 x
SADD set1 a b c 1
SADD set2 b c d
SADD iset 1 2 3
ZADD z1 1 a 2 b 3 c 3 d
ZADD z2 5 b -1 e
XADD st1 1-1 f1 v1 f2 v2
XADD st1 2-1 f1 v1
XADD st1 3-5 a b
XGROUP CREATE st1 g1 0
XREADGROUP GROUP g1 c1 COUNT 2 STREAMS st1 >
XADD st2 1-1 a b
GEOADD geo1 1 1 a 2 2 b 10 10 c -70 40 d
GEOADD geo2 5 5 e
SET tt x EX 1000";

/// A number of arguments that is not known before the arguments behind it.
const COUNT: &str = "\0count";

struct Generator {
    prng: Prng,
    group: &'static (&'static str, &'static [&'static str]),
}

impl Generator {
    fn one_of(&mut self, words: &[&str]) -> String {
        words[self.prng.below(words.len() as u64) as usize].to_owned()
    }

    fn value(&mut self, argument: &Argument) -> String {
        let (name, group) = (argument.name.as_str(), self.group.0);
        let is_rare = self.prng.chance(1, 15);
        match argument.kind.as_str() {
            "key" => {
                let keys = if is_rare { GROUPS[self.prng.below(10) as usize].1 } else { self.group.1 };
                self.one_of(keys)
            }
            "integer" if name.contains("block") || group == "stream" && name == "milliseconds" => {
                self.one_of(&["1", "2"])
            }
            "double" if name.contains("timeout") => "0.01".to_owned(),
            "integer"
                if name.contains("numkeys") || name == "numfields" || name == "numids" || name == "num-vertices" =>
            {
                COUNT.to_owned()
            }
            // Whether an entry is idle for some milliseconds depends on the time between two requests.
            "integer" if name.contains("idle") => self.one_of(&["0", "100000"]),
            // Servers write great scores in different digits.
            "integer" if name == "weight" => self.one_of(&["0", "1", "-2", "7"]),
            "integer" if name.contains("seconds") || name.contains("milli") => self.one_of(&["100000", "4000000"]),
            // Servers write great scores in different digits.
            "integer" if is_rare && group != "sorted-set" => {
                self.one_of(&["9223372036854775807", "-9223372036854775808", "1.5", "", " 1", "+1"])
            }
            "integer" => self.one_of(&["0", "1", "2", "3", "5", "10", "-1", "-2", "100", "7", "-100"]),
            "double" if is_rare => self.one_of(&["nan", "abc", ""]),
            "double" if group == "geo" => self.one_of(&["0", "1", "2.5", "-1", "10", "1e3", "100", "5", "-7"]),
            "double" => self.one_of(&["0", "1", "2.5", "-1", "10", "inf", "-inf", "1e3", "100", "5"]),
            "unix-time" => self.one_of(&["4000000000", "3900000000"]),
            "pattern" => self.one_of(&["*", "a*", "f?", "h1_*", "nosort", "#", "w_*", "h1->f1"]),
            _ => self.text(name),
        }
    }

    fn text(&mut self, name: &str) -> String {
        match (self.group.0, name) {
            (
                "stream",
                "id" | "start" | "end" | "lastid" | "min-id" | "threshold" | "max" | "min" | "start-id" | "last-id"
                | "id-or-dollar" | "minid",
            ) => {
                let ids =
                    ["-", "+", "0", "1-1", "2", "2-1", "3-5", "(1-1", "5-0", "$", ">", "0-0", "9-*", "7-7", "8-1"];
                self.one_of(&ids)
            }
            (_, "start" | "end" | "min" | "max" | "stop") => {
                self.one_of(&["-inf", "+inf", "(1", "1", "3", "(3", "-", "+", "[a", "(c", "[c"])
            }
            ("stream", name) if name.contains("group") => self.one_of(&["g1", "g1", "gx"]),
            ("stream", name) if name.contains("consumer") => self.one_of(&["c1", "c2"]),
            (_, "field" | "fields") => self.one_of(&["f1", "f2", "f3", "a", "zz"]),
            (_, "encoding") => self.one_of(&["u8", "i5", "u63", "i64", "u1"]),
            (_, "offset") => self.one_of(&["0", "#1", "5"]),
            _ => self.one_of(&["a", "b", "c", "f1", "1", "10", "foobar", "abc", "x", "", "2.5"]),
        }
    }

    fn add(&mut self, arguments: &[Argument], words: &mut Vec<String>) {
        for argument in arguments {
            if argument.is("optional") && self.prng.chance(if arguments.len() < 5 { 11 } else { 14 }, 20) {
                continue;
            }
            let most = if argument.is("multiple") { 3 } else { 1 };
            for number in 0..1 + self.prng.below(most) {
                let has_token = number == 0 || argument.is("multiple_token");
                if let Some(token) = argument.token.as_ref().filter(|_| has_token) {
                    words.push(token.clone());
                }
                match argument.kind.as_str() {
                    "pure-token" => {}
                    "oneof" if !argument.parts.is_empty() => {
                        let at = self.prng.below(argument.parts.len() as u64) as usize;
                        self.add(&argument.parts[at..=at], words);
                    }
                    "block" => self.add(&argument.parts, words),
                    _ => words.push(self.value(argument)),
                }
            }
        }
    }

    fn request(&mut self, name: &str, arguments: &[Argument]) -> Vec<String> {
        let mut words: Vec<String> = name.to_uppercase().split('|').map(str::to_owned).collect();
        self.add(arguments, &mut words);
        while let Some(at) = words.iter().position(|word| word == COUNT) {
            let is_option = |word: &String| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
            let behind = &words[at + 1..];
            let count = behind.iter().position(is_option).unwrap_or(behind.len());
            let each = if name == "hsetex" || name.starts_with("geo") { 2 } else { 1 };
            let count = if self.prng.chance(1, 20) { self.prng.below(4) as usize } else { count / each };
            words[at] = count.to_string();
        }
        // The identifier of an entry without one depends on the time.
        for word in words.iter_mut().filter(|word| name == "xadd" && *word == "*") {
            "9-*".clone_into(word);
        }
        words
    }
}

/// Sorts the elements of a reply that are not ordered.
fn sorted(name: &str, tree: Tree) -> Tree {
    let is_unordered = ["smembers", "sinter", "sunion", "sdiff", "hkeys", "hvals", "hgetall", "sort", "sort_ro"];
    match tree {
        Tree::Array(mut elements) if is_unordered.contains(&name) || name.starts_with("geo") => {
            elements.sort();
            Tree::Array(elements)
        }
        tree => tree,
    }
}

/// A described command: its name, its group of [`GROUPS`], and its arguments.
type Described = (String, &'static (&'static str, &'static [&'static str]), Vec<Argument>);

/// Reads a number from the environment.
fn number_of(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// `GANNET_SEED` is the seed, and `GANNET_FORMS` the number of requests.
#[test]
fn random_requests_of_the_described_arguments_get_the_replies_of_valkey() {
    let (seed, count) = (number_of("GANNET_SEED", 1), number_of("GANNET_FORMS", 3000));
    let test = "cargo test -p gannet-server --test server random_requests_of_the_described";
    println!("repeat: GANNET_SEED={seed} GANNET_FORMS={count} {test}");
    let running = start(both());
    let mut ours = resp(&running);
    let Some(valkey) = Redis::start_valkey() else { return println!("Valkey is not installed: nothing is compared") };
    let mut theirs = Replies::connect(valkey.addr);
    let (docs, _) = tree(&theirs.ask(&[b"COMMAND", b"DOCS"])).clone();
    let mut commands: Vec<Described> = Vec::new();
    let mut add = |pair: &[Tree]| {
        let group = field(&pair[1], "group").map(text).unwrap_or_default().replace('_', "-");
        let known = GROUPS.iter().find(|known| known.0 == group);
        if let Some(group) = known.filter(|_| !NOT_SENT.contains(&&text(&pair[0])[..])) {
            commands.push((text(&pair[0]), group, arguments(field(&pair[1], "arguments"))));
        }
    };
    for pair in list(&docs).chunks(2) {
        match field(&pair[1], "subcommands") {
            Some(parts) => list(parts).chunks(2).for_each(&mut add),
            None => add(pair),
        }
    }
    // Valkey describes them in an order that depends on its start.
    commands.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(commands.len() > 130, "{} commands are described", commands.len());
    let mut generator = Generator { prng: Prng::new(seed), group: &GROUPS[0] };
    let (mut found, mut compared) = (BTreeMap::new(), [0; 2]);
    for _ in 0..count {
        let at = generator.prng.below(commands.len() as u64) as usize;
        let (name, group, arguments) = &commands[at];
        generator.group = group;
        let words = generator.request(name, arguments);
        let asked: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let [our, their] = [&mut ours, &mut theirs].map(|client| {
            let state =
                STATE.lines().flat_map(|line| crate::common::redis::request(&crate::common::redis::words(line)));
            client.client.send(&state.collect::<Vec<_>>());
            STATE.lines().for_each(|_| drop(client.next()));
            client.ask(&asked)
        });
        compared[usize::from(their.starts_with(b"-"))] += 1;
        let is_same = match (our.starts_with(b"-"), their.starts_with(b"-")) {
            // Error texts differ among the versions of Redis and Valkey.
            (true, true) => true,
            (false, false) => sorted(name, tree(&our).0) == sorted(name, tree(&their).0),
            _ => false,
        };
        if !is_same {
            let [our, their] = [our, their].map(|reply| reply.escape_ascii().to_string());
            found
                .entry(name.clone())
                .or_insert_with(|| format!("{}\n  ours   {our}\n  theirs {their}", words.join(" ")));
        }
    }
    assert!(
        found.is_empty(),
        "{} commands differ:\n{}",
        found.len(),
        found.into_values().collect::<Vec<_>>().join("\n")
    );
    assert!(compared[0] * 3 > count && compared[1] * 10 > count, "{compared:?} replies and errors");
    running.stop();
}
