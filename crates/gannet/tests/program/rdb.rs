//! Tests the decoding and encoding of values with real servers: their files and payloads are decoded and compared with
//! what the servers reply, and payloads encoded here are restored by the servers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ::rdb::{DumpReader, Element, Encoder, Event, FieldTimes, FileReader, Key, ReadLimits, ValueType, check};
use ::redis::{Connection, FromRedisValue, Value, cmd};

use crate::peers::{Folder, Peer};

/// A key's value in the same words, whether a server replied it or a payload contained it.
type Words = Vec<String>;

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn connect(peer: &Peer) -> Connection {
    ::redis::Client::open(peer.place("redis")).unwrap().get_connection().expect("a connection")
}

fn ask<T: FromRedisValue>(connection: &mut Connection, words: &[&str]) -> T {
    let mut command = cmd(words[0]);
    command.arg(&words[1..]).query(connection).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// Stores keys of all types that the server encodes in different ways.
fn fill(server: &mut Connection) {
    for (key, value) in
        [("s:int", "-5"), ("s:i16", "1000"), ("s:i32", "-100000"), ("s:i64", "99999999999"), ("s:e", "")]
    {
        ask::<()>(server, &["SET", key, value]);
    }
    ask::<()>(server, &["SET", "s:packed", &"abc".repeat(10_000)]);
    cmd("SET").arg("s:binary\r\n").arg((0..=255).collect::<Vec<u8>>()).exec(server).unwrap();
    ask::<()>(server, &["SET", "s:expires", "v", "PXAT", "4102444800123"]);
    ask::<()>(server, &["PFADD", "s:hll", "a", "b", "c"]);
    let odd = ["a", "", "-1", "127", "128", "-4096", "4095", "-32768", "8388607", "2147483647", "9223372036854775807"];
    let long = ["x".repeat(63), "y".repeat(64), "z".repeat(4095), "w".repeat(4096)];
    let small: Vec<&str> = odd.iter().copied().chain(long.iter().take(1).map(String::as_str)).collect();
    let many: Vec<String> = (0..1500u64).map(|n| format!("{}", n * n * n)).chain(long.clone()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).chain(odd).collect();
    for (size, members) in [("small", &small), ("large", &many)] {
        let pairs: Vec<&str> = members.iter().flat_map(|member| [*member, *member]).collect();
        let scored: Vec<String> = (0..members.len()).map(|n| format!("{}", (n as f64 - 3.0) / 7.0)).collect();
        let scored: Vec<&str> =
            scored.iter().map(String::as_str).zip(members.iter().copied()).flat_map(|(s, m)| [s, m]).collect();
        for (command, key, values) in [
            ("RPUSH", "l", &members[..]),
            ("SADD", "t", &members[..]),
            ("ZADD", "z", &scored[..]),
            ("HSET", "h", &pairs[..]),
        ] {
            ask::<()>(server, &[&[command, &format!("{key}:{size}")][..], values].concat());
        }
    }
    ask::<()>(server, &["SADD", "t:ints", "1", "-2", "70000", "9223372036854775807"]);
    ask::<()>(server, &["SADD", "t:shorts", "1", "2"]);
    ask::<()>(server, &["ZADD", "z:odd", "inf", "a", "-inf", "b", "0.1", "c", "-0", "d", "1e300", "e", "3", "f"]);
    ask::<()>(server, &["DEBUG", "QUICKLIST-PACKED-THRESHOLD", "100B"]);
    ask::<()>(server, &["RPUSH", "l:plain", "a", &"p".repeat(300), "b", &"q".repeat(5000)]);
    ask::<()>(server, &["DEBUG", "QUICKLIST-PACKED-THRESHOLD", "0"]);
    fill_streams(server);
    ask::<()>(server, &["SELECT", "3"]);
    ask::<()>(server, &["SET", "s:other", "db"]);
    ask::<()>(server, &["SELECT", "0"]);
    let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    ask::<()>(server, &["FUNCTION", "LOAD", library]);
}

fn fill_streams(server: &mut Connection) {
    for n in 0..500u32 {
        let (id, value) = (format!("{}-{}", 1000 + n / 3, n % 3), (n * n).to_string());
        let mut words = vec!["XADD", "x:large", &id, "temperature", &value, "place", "cellar"];
        if n % 7 == 0 {
            words.extend(["note", "x"]);
        }
        ask::<()>(server, &words);
        if n < 5 {
            ask::<()>(server, &["XADD", "x:small", &id, "f", &value]);
        }
    }
    ask::<()>(server, &["XDEL", "x:large", "1000-0", "1001-1", "1100-2"]);
    ask::<()>(server, &["XADD", "x:empty", "5-5", "f", "v"]);
    ask::<()>(server, &["XDEL", "x:empty", "5-5"]);
    for (stream, group) in [("x:large", "g"), ("x:large", "h"), ("x:small", "g"), ("x:empty", "g")] {
        ask::<()>(server, &["XGROUP", "CREATE", stream, group, "0"]);
    }
    for (consumer, count) in [("alice", "7"), ("bob", "300")] {
        let read = ["XREADGROUP", "GROUP", "g", consumer, "COUNT", count, "STREAMS", "x:large", ">"];
        ask::<Value>(server, &read);
    }
    ask::<()>(server, &["XACK", "x:large", "g", "1002-0", "1010-1"]);
    ask::<()>(server, &["XGROUP", "CREATECONSUMER", "x:small", "g", "idle"]);
}

/// Returns the value of a key as the server replies it.
fn replied(server: &mut Connection, key: &str) -> Words {
    let kind: String = ask(server, &["TYPE", key]);
    let pairs = |flat: Vec<Vec<u8>>| {
        flat.chunks(2).map(|pair| format!("{}={}", text(&pair[0]), text(&pair[1]))).collect::<Words>()
    };
    let mut words: Words = match kind.as_str() {
        "string" => vec![text(&ask::<Vec<u8>>(server, &["GET", key]))],
        "list" => ask::<Vec<Vec<u8>>>(server, &["LRANGE", key, "0", "-1"]).iter().map(|member| text(member)).collect(),
        "set" => ask::<Vec<Vec<u8>>>(server, &["SMEMBERS", key]).iter().map(|member| text(member)).collect(),
        "zset" => ask::<Vec<(Vec<u8>, f64)>>(server, &["ZRANGE", key, "0", "-1", "WITHSCORES"])
            .iter()
            .map(|(member, score)| format!("{}={score}", text(member)))
            .collect(),
        "hash" => pairs(ask(server, &["HGETALL", key])),
        "stream" => {
            let entries: Vec<(String, Vec<Vec<u8>>)> = ask(server, &["XRANGE", key, "-", "+"]);
            entries.into_iter().map(|(id, fields)| format!("{id} {}", pairs(fields).join(" "))).collect()
        }
        other => panic!("{key}: {other}"),
    };
    match kind.as_str() {
        "set" | "zset" | "hash" => words.sort(),
        "stream" => words.extend(replied_facts(server, key)),
        _ => {}
    }
    words
}

/// Returns the facts of a stream and of its groups as the server replies them.
fn replied_facts(server: &mut Connection, key: &str) -> Words {
    let get = |facts: &HashMap<String, Value>, name: &str| match &facts[name] {
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => text(bytes),
        Value::Nil => "?".to_owned(),
        other => panic!("{name}: {other:?}"),
    };
    let facts: HashMap<String, Value> = ask(server, &["XINFO", "STREAM", key]);
    let names = ["length", "last-generated-id", "max-deleted-entry-id", "entries-added"];
    let mut words = vec![names.map(|name| get(&facts, name)).join(" ")];
    for group in ask::<Vec<HashMap<String, Value>>>(server, &["XINFO", "GROUPS", key]) {
        let name = get(&group, "name");
        words.push(["name", "last-delivered-id", "entries-read"].map(|fact| get(&group, fact)).join(" "));
        let pending: Vec<(String, String, u64, u64)> = ask(server, &["XPENDING", key, &name, "-", "+", "10000"]);
        words.extend(pending.iter().map(|(id, consumer, _, deliveries)| format!("{id} {consumer} {deliveries}")));
        for consumer in ask::<Vec<HashMap<String, Value>>>(server, &["XINFO", "CONSUMERS", key, &name]) {
            words.push(["name", "pending"].map(|fact| get(&consumer, fact)).join(" "));
        }
    }
    words
}

/// Collects the elements of a value, in the words of [`replied`].
#[derive(Default)]
struct Collected {
    words: Words,
    pending: BTreeMap<String, (String, u64)>,
    consumers: Vec<(String, usize)>,
    expiries: BTreeMap<String, u64>,
}

impl Collected {
    fn add(&mut self, element: &Element<'_>, value_type: ValueType) {
        match *element {
            Element::Text(bytes) | Element::Member(bytes) => self.words.push(text(bytes)),
            Element::Scored { member, score } => self.words.push(format!("{}={score}", text(member))),
            Element::Field { name, value, .. } if value_type == ValueType::Stream => {
                let entry = self.words.last_mut().expect("an entry");
                *entry += &format!(" {}={}", text(name), text(value));
            }
            Element::Field { name, value, expire_at_ms } => {
                self.words.push(format!("{}={}", text(name), text(value)));
                self.expiries.extend(expire_at_ms.map(|at| (text(name), at)));
            }
            Element::Entry(id) => self.words.push(id.to_string()),
            Element::Totals(totals) => {
                let (last, deleted) = (totals.last_id, totals.max_deleted_id);
                self.words.push(format!("{} {last} {deleted} {}", totals.length, totals.entries_added));
            }
            Element::Group { name, last_id, entries_read } => {
                self.end_group();
                let read = entries_read.map_or("?".to_owned(), |read| read.to_string());
                self.words.push(format!("{} {last_id} {read}", text(name)));
            }
            Element::Pending { id, deliveries, .. } => {
                self.pending.insert(format!("{:020}-{:020}", id.ms, id.seq), (id.to_string(), deliveries));
            }
            Element::Consumer { name, .. } => self.consumers.push((text(name), 0)),
            Element::Owned(id) => {
                let (name, owned) = self.consumers.last_mut().expect("a consumer");
                *owned += 1;
                let (words, deliveries) =
                    self.pending.get_mut(&format!("{:020}-{:020}", id.ms, id.seq)).expect("pending");
                *words = format!("{id} {name} {deliveries}");
            }
            Element::Unowned(_) | Element::Producer(_) | Element::Produced { .. } | Element::Module(_) => {
                panic!("{element:?}")
            }
        }
    }

    fn end_group(&mut self) {
        self.words.extend(std::mem::take(&mut self.pending).into_values().map(|(words, _)| words));
        self.words.extend(self.consumers.drain(..).map(|(name, owned)| format!("{name} {owned}")));
    }

    fn end(mut self, value_type: ValueType) -> (Words, BTreeMap<String, u64>) {
        self.end_group();
        if matches!(value_type, ValueType::Set | ValueType::SortedSet | ValueType::Hash) {
            self.words.sort();
        }
        (self.words, self.expiries)
    }
}

/// Decodes a payload, and encodes its value again.
fn decoded(payload: &[u8]) -> (Words, Vec<u8>, BTreeMap<String, u64>) {
    let mut reader = DumpReader::new(payload, ReadLimits::default()).unwrap_or_else(|error| panic!("{error}"));
    let value_type = reader.value_type();
    let (mut collected, mut encoder) = (Collected::default(), Encoder::new(value_type, FieldTimes::Valkey));
    while let Some(element) = reader.next_element().unwrap_or_else(|damage| panic!("{damage}")) {
        collected.add(&element, value_type);
        encoder.add(&element).expect("an element of this type");
    }
    let (words, expiries) = collected.end(value_type);
    (words, encoder.finish().expect("a whole value"), expiries)
}

fn keys_of(server: &mut Connection) -> Vec<String> {
    let mut keys: Vec<String> = ask(server, &["KEYS", "*"]);
    keys.sort();
    keys
}

/// Compares the payloads of all keys of `server` with its replies, and restores what is encoded here at `targets`.
/// Returns the numbers of the payloads' types.
fn compare_payloads(server: &mut Connection, targets: &mut [Connection]) -> BTreeSet<u8> {
    let mut kinds = BTreeSet::new();
    for key in keys_of(server) {
        let expected = replied(server, &key);
        let payload: Vec<u8> = ask(server, &["DUMP", &key]);
        kinds.insert(payload[0]);
        let (words, encoded, expiries) = decoded(&payload);
        assert!(words == expected, "{key}: {words:.200?} instead of {expected:.200?}");
        for target in targets.iter_mut().filter(|_| expiries.is_empty()) {
            cmd("RESTORE")
                .arg("restored")
                .arg(0)
                .arg(&encoded)
                .arg("REPLACE")
                .exec(target)
                .unwrap_or_else(|error| panic!("{key}: {error}"));
            let restored = replied(target, "restored");
            assert!(restored == expected, "{key}: {restored:.200?} was restored, not {expected:.200?}");
            ask::<()>(target, &["DEL", "restored"]);
        }
    }
    kinds
}

/// Compares a saved file with the replies of the server that has saved it.
fn compare_file(server: &mut Connection, folder: &Folder, has_frequency: bool) {
    ask::<()>(server, &["SAVE"]);
    let bytes = std::fs::read(folder.path().join("dump.rdb")).unwrap();
    let checked = check(bytes.as_slice(), bytes.len() as u64).unwrap();
    assert!(checked.sum.is_some(), "{checked:?}");
    let mut reader = FileReader::new(bytes.as_slice(), ReadLimits::default()).unwrap();
    let mut found: BTreeMap<String, (Words, Option<u64>)> = BTreeMap::new();
    let (mut current, mut functions, mut aux) = (None, 0, 0);
    while let Some(event) = reader.next_event().unwrap_or_else(|damage| panic!("{damage}")) {
        match event {
            Event::Key(Key { db, name, value_type, expire_at_ms, frequency, .. }) => {
                assert_eq!(frequency.is_some(), has_frequency, "{}", text(name));
                let name =
                    if db == 0 { String::from_utf8(name.to_vec()).unwrap() } else { format!("{db}/{}", text(name)) };
                current = Some((name, value_type, expire_at_ms, Collected::default()));
            }
            Event::Element(element) => {
                let (_, value_type, _, collected) = current.as_mut().expect("a key");
                collected.add(&element, *value_type);
            }
            Event::KeyEnd => {
                let (name, value_type, expire_at_ms, collected) = current.take().expect("a key");
                found.insert(name, (collected.end(value_type).0, expire_at_ms));
            }
            Event::Function(code) => functions += usize::from(code.starts_with(b"#!lua name=lib")),
            Event::Aux { .. } => aux += 1,
            Event::ModuleAux(_) | Event::Sizes { .. } | Event::Slot { .. } => {}
        }
    }
    assert!(functions == 1 && aux >= 4, "{functions} functions, {aux} facts");
    assert_eq!(found.remove("3/s:other"), Some((vec!["db".to_owned()], None)));
    assert_eq!(found.keys().cloned().collect::<Vec<_>>(), keys_of(server));
    for (key, (words, expire_at_ms)) in found {
        assert!(words == replied(server, &key), "{key}: {words:.200?}");
        let at: i64 = ask(server, &["PEXPIRETIME", &key]);
        assert_eq!(expire_at_ms, u64::try_from(at).ok(), "{key}");
    }
}

#[test]
fn files_and_payloads_of_real_servers_are_decoded_and_those_encoded_here_are_restored() {
    let folders = [Folder::new("rdb-redis"), Folder::new("rdb-valkey")];
    let more = ["--enable-debug-command", "yes", "--maxmemory-policy", "allkeys-lfu"];
    let Some(redis) = Peer::redis_in(&folders[0], &more) else { return };
    let valkey = Peer::valkey_in(&folders[1], &["--enable-debug-command", "yes"]);
    let mut server = connect(&redis);
    let mut targets = vec![connect(&redis)];
    targets.extend(valkey.as_ref().map(connect));
    fill(&mut server);
    let common = [0, 2, 4, 5, 11, 16, 17, 18];
    assert_eq!(compare_payloads(&mut server, &mut targets), [&common[..], &[19]].concat().into_iter().collect());
    compare_file(&mut server, &folders[0], true);
    let Some(mut server) = valkey.as_ref().map(connect) else { return };
    fill(&mut server);
    // Values without expiring fields have types that Redis 7.0 does not know, such as sets in listpacks.
    assert_eq!(compare_payloads(&mut server, &mut targets), [&common[..], &[20, 21]].concat().into_iter().collect());
    ask::<()>(&mut server, &["HSET", "h:expiring", "a", "1", "b", "2", "c", "3"]);
    ask::<()>(&mut server, &["HPEXPIREAT", "h:expiring", "4102444800123", "FIELDS", "2", "a", "c"]);
    compare_file(&mut server, &folders[1], false);
    let payload: Vec<u8> = ask(&mut server, &["DUMP", "h:expiring"]);
    let (_, encoded, expiries) = decoded(&payload);
    let expected = ["a", "c"].map(|field| (field.to_owned(), 4_102_444_800_123)).into();
    assert_eq!(expiries, expected);
    cmd("RESTORE").arg("restored").arg(0).arg(&encoded).exec(&mut server).unwrap();
    let times: Vec<i64> = ask(&mut server, &["HPEXPIRETIME", "restored", "FIELDS", "3", "a", "b", "c"]);
    assert_eq!(times, [4_102_444_800_123, -1, 4_102_444_800_123]);
}
