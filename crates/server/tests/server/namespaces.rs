//! Tests of namespaces over sockets: clients of a namespace neither see nor change items of another namespace, and get
//! no messages about them. Each namespace stays within its quota.

use crate::common::redis::{Replies, request};
use crate::common::{Client, config, pattern, set, start, value, wait_until};
use command::clients::endpoint::{Endpoint, Protocol};
use command::keyspace::namespace_config::NamespaceConfig;
use command::push::notify::KeyEvents;
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use segment::Namespace;
use std::net::SocketAddr;

const SHOP: Namespace = Namespace(3);

fn any() -> ListenAddr {
    ListenAddr::Tcp(([127, 0, 0, 1], 0).into())
}

/// Returns a configuration with listeners of both protocols for the default namespace and for the namespace `shop`,
/// which has these settings.
fn with(terms: NamespaceConfig) -> ServerConfig {
    let shop = NamespaceConfig { name: "shop".to_owned(), number: SHOP.0, ..terms };
    let endpoints = [Protocol::Memcache, Protocol::Resp].map(|protocol| (Endpoint::new(protocol, SHOP), any()));
    ServerConfig { resp: vec![any()], endpoints: endpoints.to_vec(), namespaces: vec![shop], ..config() }
}

fn plain() -> NamespaceConfig {
    NamespaceConfig::plain(SHOP.0, true)
}

fn addr(running: &Running, protocol: Protocol, namespace: Namespace) -> SocketAddr {
    let found = running.endpoints().find_map(|(endpoint, addr)| match addr {
        ListenAddr::Tcp(addr) if (endpoint.protocol, endpoint.namespace) == (protocol, namespace) => Some(*addr),
        _ => None,
    });
    found.expect("a listener of that kind")
}

fn redis(running: &Running, namespace: Namespace) -> Replies {
    Replies::connect(addr(running, Protocol::Resp, namespace))
}

fn memcached(running: &Running, namespace: Namespace) -> Client {
    Client::connect(addr(running, Protocol::Memcache, namespace))
}

fn text(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).into_owned()
}

/// Returns the keys of a whole walk.
fn walk(client: &mut Replies) -> Vec<String> {
    let (mut cursor, mut replied) = ("0".to_owned(), Vec::new());
    loop {
        let reply = text(&client.ask(&[b"SCAN", cursor.as_bytes(), b"COUNT", b"1000"]));
        let mut words = reply.split("\r\n").filter(|word| !word.starts_with(['*', '$']) && !word.is_empty());
        cursor = words.next().expect("a cursor").to_owned();
        replied.extend(words.map(str::to_owned));
        if cursor == "0" {
            return replied;
        }
    }
}

#[test]
fn databases_have_separate_values_walks_and_key_counts() {
    let running = start(with(plain()));
    let mut client = redis(&running, Namespace::DEFAULT);
    for number in 0..16 {
        let number = number.to_string();
        assert_eq!(client.ask(&[b"SELECT", number.as_bytes()]), b"+OK\r\n");
        assert_eq!(client.ask(&[b"SET", b"k", number.as_bytes()]), b"+OK\r\n");
        assert_eq!(client.ask(&[b"SET", &[b"own-", number.as_bytes()].concat(), b"v"]), b"+OK\r\n");
        // Plain requests that follow one another take a shorter way.
        client.client.send(&[request(&[b"GET", b"k"]), request(&[b"GET", b"k"])].concat());
        let bulk = format!("${}\r\n{number}\r\n", number.len());
        assert_eq!((text(&client.next()), text(&client.next())), (bulk.clone(), bulk));
    }
    for number in [9u8, 0, 15] {
        let number = number.to_string();
        client.ask(&[b"SELECT", number.as_bytes()]);
        assert_eq!(client.ask(&[b"GET", b"k"]), format!("${}\r\n{number}\r\n", number.len()).as_bytes());
        assert_eq!(client.ask(&[b"DBSIZE"]), b":2\r\n");
        let keys = text(&client.ask(&[b"KEYS", b"*"]));
        assert!(keys.starts_with("*2\r\n") && keys.contains(&format!("\r\nown-{number}\r\n")), "{keys}");
        let mut replied = walk(&mut client);
        replied.sort();
        replied.dedup();
        assert_eq!(replied, ["k".to_owned(), format!("own-{number}")]);
        let random = text(&client.ask(&[b"RANDOMKEY"]));
        assert!(random.contains("\r\nk\r\n") || random.contains(&format!("own-{number}\r\n")), "{random}");
        assert_eq!(client.ask(&[b"EXISTS", b"own-1", b"own-2"]), b":0\r\n");
    }
    let info = text(&client.ask(&[b"INFO", b"keyspace"]));
    assert!((0..16).all(|number| info.contains(&format!("db{number}:keys=2,"))), "{info}");
    for bad in ["16", "-1"] {
        assert_eq!(client.ask(&[b"SELECT", bad.as_bytes()]), b"-ERR DB index is out of range\r\n", "{bad}");
    }
    assert!(client.ask(&[b"SELECT", b"nowhere"]).starts_with(b"-ERR value is not an integer"));
    assert_eq!(client.ask(&[b"GET", b"k"]), b"$2\r\n15\r\n", "a refused SELECT changes nothing");
    running.stop();
}

#[test]
fn a_name_is_a_number_and_a_listener_a_home() {
    let running = start(with(plain()));
    let (mut client, mut shop) = (redis(&running, Namespace::DEFAULT), redis(&running, SHOP));
    shop.ask(&[b"SET", b"k", b"shop"]);
    assert_eq!(client.ask(&[b"GET", b"k"]), b"$-1\r\n");
    for name in ["shop", "3"] {
        assert_eq!(client.ask(&[b"SELECT", b"default"]), b"+OK\r\n");
        assert_eq!(client.ask(&[b"GET", b"k"]), b"$-1\r\n");
        assert_eq!(client.ask(&[b"SELECT", name.as_bytes()]), b"+OK\r\n");
        assert_eq!(client.ask(&[b"GET", b"k"]), b"$4\r\nshop\r\n");
    }
    let list = text(&client.ask(&[b"CLIENT", b"LIST"]));
    assert_eq!(list.matches(" db=3 ").count(), 2, "{list}");
    // A reset returns the client to the namespace of its listener.
    assert_eq!(client.ask(&[b"RESET"]), b"+RESET\r\n");
    assert_eq!(client.ask(&[b"GET", b"k"]), b"$-1\r\n");
    shop.ask(&[b"SELECT", b"0"]);
    assert_eq!(shop.ask(&[b"RESET"]), b"+RESET\r\n");
    assert_eq!(shop.ask(&[b"GET", b"k"]), b"$4\r\nshop\r\n");
    assert_eq!(running.shared().namespaces.stats(SHOP).connections, 1);
    drop(shop);
    wait_until("the connection's end", || running.shared().namespaces.stats(SHOP).connections == 0);
    running.stop();
}

#[test]
fn flush_affects_the_addressed_database_or_all_also_when_delayed() {
    let running = start(with(plain()));
    let (mut client, mut shop) = (redis(&running, Namespace::DEFAULT), redis(&running, SHOP));
    let (mut plain, mut shops) = (memcached(&running, Namespace::DEFAULT), memcached(&running, SHOP));
    let fill = |client: &mut Replies, shop: &mut Replies| {
        client.ask(&[b"SET", b"k", b"v"]);
        shop.ask(&[b"SET", b"k", b"v"]);
    };
    let here = |client: &mut Replies| client.ask(&[b"EXISTS", b"k"]) == b":1\r\n";
    for (flush, left) in [("FLUSHDB", true), ("FLUSHALL", false)] {
        fill(&mut client, &mut shop);
        assert_eq!(shop.ask(&[flush.as_bytes()]), b"+OK\r\n");
        assert_eq!((here(&mut client), here(&mut shop)), (left, false), "{flush}");
    }
    fill(&mut client, &mut shop);
    shops.ask(b"flush_all\r\n", b"OK\r\n");
    assert_eq!((here(&mut client), here(&mut shop)), (true, false));
    fill(&mut client, &mut shop);
    plain.ask(b"flush_all\r\n", b"OK\r\n");
    assert_eq!((here(&mut client), here(&mut shop)), (false, true));
    fill(&mut client, &mut shop);
    shops.ask(b"flush_all 1\r\n", b"OK\r\n");
    wait_until("the delayed flush", || !here(&mut shop));
    assert!(here(&mut client));
    running.stop();
}

#[test]
fn transaction_spans_databases_and_watch_applies_to_its_own_database() {
    let running = start(with(plain()));
    let (mut client, mut other) = (redis(&running, Namespace::DEFAULT), redis(&running, SHOP));
    for words in [&[&b"MULTI"[..]][..], &[b"SET", b"k", b"0"], &[b"SELECT", b"shop"], &[b"SET", b"k", b"3"]] {
        assert!(client.ask(words).starts_with(b"+"), "{words:?}");
    }
    client.ask(&[b"MSET", b"a", b"1", b"b", b"2"]);
    assert_eq!(client.ask(&[b"EXEC"]), b"*4\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n");
    assert_eq!(client.ask(&[b"MGET", b"k", b"a", b"b"]), b"*3\r\n$1\r\n3\r\n$1\r\n1\r\n$1\r\n2\r\n");
    client.ask(&[b"SELECT", b"0"]);
    assert_eq!(client.ask(&[b"MGET", b"k", b"a"]), b"*2\r\n$1\r\n0\r\n$-1\r\n");
    for (changed_there, executed) in [(false, false), (true, true)] {
        // The same name in another database is another key.
        client.ask(&[b"SELECT", b"3"]);
        assert_eq!(client.ask(&[b"WATCH", b"k"]), b"+OK\r\n");
        client.ask(&[b"SELECT", b"0"]);
        if changed_there {
            other.ask(&[b"SELECT", b"0"]);
        }
        other.ask(&[b"SET", b"k", b"changed"]);
        other.ask(&[b"SELECT", b"3"]);
        client.ask(&[b"MULTI"]);
        client.ask(&[b"PING"]);
        let reply = client.ask(&[b"EXEC"]);
        assert_eq!(reply, if executed { &b"*1\r\n+PONG\r\n"[..] } else { b"*-1\r\n" });
    }
    // Both are watched, each for itself.
    for place in ["0", "3"] {
        client.ask(&[b"SELECT", place.as_bytes()]);
        client.ask(&[b"WATCH", b"k"]);
    }
    other.ask(&[b"SELECT", b"0"]);
    other.ask(&[b"SET", b"k", b"again"]);
    client.ask(&[b"MULTI"]);
    assert_eq!(client.ask(&[b"EXEC"]), b"*-1\r\n");
    running.stop();
}

#[test]
fn notifications_name_the_database() {
    let running = start(ServerConfig { key_events: KeyEvents::of(b"KEA").expect("letters"), ..with(plain()) });
    let (mut listener, mut client) = (redis(&running, Namespace::DEFAULT), redis(&running, SHOP));
    listener.ask(&[b"PSUBSCRIBE", b"__key*@*__:*"]);
    client.ask(&[b"SET", b"k", b"v"]);
    let (space, event) = (text(&listener.next()), text(&listener.next()));
    assert!(space.contains("\r\n__keyspace@3__:k\r\n") && space.contains("\r\nset\r\n"), "{space}");
    assert!(event.contains("\r\n__keyevent@3__:set\r\n") && event.contains("\r\nk\r\n"), "{event}");
    memcached(&running, SHOP).ask(b"delete k\r\n", b"DELETED\r\n");
    let space = text(&listener.next());
    assert!(space.contains("__keyspace@3__:k") && space.contains("\r\ndel\r\n"), "{space}");
    listener.next();
    // What the background removes.
    client.ask(&[b"SET", b"short", b"v", b"PX", b"1"]);
    let replied = std::iter::repeat_with(|| text(&listener.next())).take(12).find(|line| line.contains("expired"));
    assert!(replied.is_some_and(|line| line.contains("@3__")), "its number is told");
    running.stop();
}

#[test]
fn connections_above_the_quota_are_refused_at_the_listener_and_by_select() {
    let running = start(with(NamespaceConfig { connections_max: 2, ..plain() }));
    let mut first = redis(&running, SHOP);
    assert_eq!(first.ask(&[b"PING"]), b"+PONG\r\n");
    let mut second = redis(&running, Namespace::DEFAULT);
    assert_eq!(second.ask(&[b"SELECT", b"shop"]), b"+OK\r\n");
    let mut third = redis(&running, Namespace::DEFAULT);
    third.ask(&[b"SET", b"k", b"v"]);
    assert_eq!(third.ask(&[b"SELECT", b"shop"]), b"-ERR max number of clients of this database reached\r\n");
    assert_eq!(third.ask(&[b"GET", b"k"]), b"$1\r\nv\r\n", "it stays where it was");
    let mut refused = memcached(&running, SHOP);
    refused.expect(b"ERROR Too many open connections\r\n");
    refused.expect_end();
    second.ask(&[b"SELECT", b"0"]);
    assert_eq!(third.ask(&[b"SELECT", b"shop"]), b"+OK\r\n");
    let stats = running.shared().namespaces.stats(SHOP);
    assert_eq!((stats.connections, stats.connections_refused), (2, 2));
    running.stop();
}

#[test]
fn operations_above_the_quota_are_answered_with_each_protocols_error_and_change_nothing() {
    // All operations of an hour are spent, so that none is left however slow this machine is.
    let running = start(with(NamespaceConfig { ops_max: 1, ..plain() }));
    let (mut client, mut shops) = (redis(&running, SHOP), memcached(&running, SHOP));
    let mut free = redis(&running, Namespace::DEFAULT);
    running.shared().namespaces.use_up_quota(SHOP, 3_600_000);
    let refused = b"-ERR too many operations a second for this database, try again later\r\n";
    for words in [&[&b"SET"[..], b"k", b"v"][..], &[b"GET", b"k"], &[b"MSET", b"a", b"1", b"b", b"2"], &[b"MULTI"]] {
        assert_eq!(client.ask(words), refused, "{words:?}");
    }
    assert_eq!(client.ask(&[b"SET", b"long", &pattern(300_000)]), refused);
    assert_eq!(
        (client.ask(&[b"PING"]), client.ask(&[b"SELECT", b"shop"])),
        (b"+PONG\r\n".to_vec(), b"+OK\r\n".to_vec())
    );
    let refused = b"SERVER_ERROR too many operations a second for this namespace, try again later\r\n";
    shops.ask(b"get k\r\n", refused);
    shops.ask(&set("k", b"get k\r\nget k\r\n"), refused);
    shops.ask(&set("long", &pattern(300_000)), refused);
    shops.ask(b"set k 0 0 1 noreply\r\nx\r\nmg k v\r\n", refused);
    shops.ask(b"ms k 2\r\nhi\r\n", refused);
    assert_eq!(free.ask(&[b"SET", b"k", b"v"]), b"+OK\r\n");
    free.ask(&[b"SELECT", b"shop"]);
    assert!(free.ask(&[b"DBSIZE"]).starts_with(b"-ERR too many"));
    assert!(running.shared().namespaces.stats(SHOP).ops_refused >= 11);
    assert_eq!(running.shared().store.namespace_stats(SHOP).items, 0);
    running.stop();
}

#[test]
fn requests_within_the_operation_quota_are_not_refused() {
    let running = start(with(NamespaceConfig { ops_max: 1_000_000, ..plain() }));
    let (mut client, mut shops) = (redis(&running, SHOP), memcached(&running, SHOP));
    let long = pattern(300_000);
    assert_eq!(client.ask(&[b"SET", b"long", &long]), b"+OK\r\n");
    shops.ask(b"get long\r\n", &value("long", &long));
    shops.ask(&set("k", b"v"), b"STORED\r\n");
    client.client.send(&[request(&[b"GET", b"k"]), request(&[b"INCR", b"n"]), request(&[b"GET", b"n"])].concat());
    assert_eq!([client.next(), client.next(), client.next()], [&b"$1\r\nv\r\n"[..], b":1\r\n", b"$1\r\n1\r\n"]);
    assert_eq!(running.shared().namespaces.stats(SHOP).ops_refused, 0);
    running.stop();
}

#[test]
fn namespace_without_eviction_replies_out_of_memory_at_its_quota() {
    let terms = NamespaceConfig { memory_bytes: Some(8 << 20), evict: false, ..plain() };
    let running = start(with(terms));
    let (mut client, mut shops) = (redis(&running, SHOP), memcached(&running, SHOP));
    let value = pattern(5_000);
    // Segments are freed in the background, so a store that refused a value may take the next one.
    let (mut stored, mut refusals) = (0, 0);
    while refusals < 20 {
        let reply = client.ask(&[b"SET", format!("k{stored}").as_bytes(), &value]);
        if reply == b"+OK\r\n" {
            (stored, refusals) = (stored + 1, 0);
        } else {
            assert!(reply.starts_with(b"-OOM "), "{}", reply.escape_ascii());
            refusals += 1;
        }
        assert!(stored < 2000, "the quota is a bound");
    }
    assert!(stored > 1000, "{stored}");
    assert!(client.ask(&[b"SET", b"more", &value]).starts_with(b"-OOM "));
    assert!(client.ask(&[b"HSET", b"hash", b"f", b"v"]).starts_with(b"-OOM "));
    shops.ask(&set("more", &value), b"SERVER_ERROR out of memory storing object\r\n");
    assert_eq!(client.ask(&[b"DBSIZE"]), format!(":{stored}\r\n").as_bytes(), "nothing was lost");
    let mut other = redis(&running, Namespace::DEFAULT);
    assert_eq!(other.ask(&[b"SET", b"more", &value]), b"+OK\r\n", "others have room");
    assert_eq!(running.shared().store.namespace_stats(SHOP).evicted, 0);
    running.stop();
}

#[test]
fn times_to_live_follow_the_namespaces_rule_in_both_protocols() {
    let terms = NamespaceConfig { ttl_default_ms: 100_000, ttl_max_ms: 200_000, ..plain() };
    let running = start(with(terms));
    let (mut client, mut shops) = (redis(&running, SHOP), memcached(&running, SHOP));
    let ttl = |client: &mut Replies, key: &str| {
        let reply = text(&client.ask(&[b"TTL", key.as_bytes()]));
        reply.trim_start_matches(':').trim_end().parse::<i64>().expect("a number")
    };
    let near = |ttl: i64, wanted: i64| (wanted - 60..=wanted).contains(&ttl);
    client.ask(&[b"SET", b"plain", b"v"]);
    client.ask(&[b"SET", b"late", b"v", b"EX", b"5000"]);
    client.ask(&[b"HSET", b"hash", b"f", b"v"]);
    client.ask(&[b"INCR", b"n"]);
    shops.ask(&set("theirs", b"v"), b"STORED\r\n");
    shops.ask(b"set theirs-late 0 5000 1\r\nv\r\n", b"STORED\r\n");
    for (key, wanted) in
        [("plain", 100), ("late", 200), ("hash", 100), ("n", 100), ("theirs", 100), ("theirs-late", 200)]
    {
        let ttl = ttl(&mut client, key);
        assert!(near(ttl, wanted), "{key}: {ttl}");
    }
    client.ask(&[b"EXPIRE", b"plain", b"90000"]);
    assert!(near(ttl(&mut client, "plain"), 200));
    client.ask(&[b"PERSIST", b"plain"]);
    assert!(near(ttl(&mut client, "plain"), 100));
    shops.ask(b"touch plain 0\r\n", b"TOUCHED\r\n");
    assert!(near(ttl(&mut client, "plain"), 100));
    let mut other = redis(&running, Namespace::DEFAULT);
    other.ask(&[b"SET", b"plain", b"v"]);
    assert_eq!(other.ask(&[b"TTL", b"plain"]), b":-1\r\n");
    running.stop();
}

#[test]
fn hot_keys_and_counters_name_their_namespace() {
    let running = start(with(NamespaceConfig { memory_bytes: Some(8 << 20), ..plain() }));
    let (mut client, mut shop) = (redis(&running, Namespace::DEFAULT), redis(&running, SHOP));
    assert_eq!(shop.ask(&[b"SET", b"big:k", &pattern(5_000)]), b"+OK\r\n");
    assert_eq!(client.ask(&[b"SET", b"big:k", &pattern(3_000)]), b"+OK\r\n");
    // One key of 128 is looked at: of 4,000 requests some are.
    let gets = [request(&[b"EXISTS", b"big:k"]), request(&[b"GET", b"none:k"])].concat().repeat(2_000);
    for replies in [&mut client, &mut shop] {
        replies.client.send(&gets);
        (0..4_000).for_each(|_| drop(replies.next()));
    }
    let replied = text(&client.ask(&[b"HOTKEYS", b"big"]));
    let [first, second] = ["$5\r\nbig:k\r\n:5000\r\n$4\r\nshop\r\n", "$5\r\nbig:k\r\n:3000\r\n$7\r\ndefault\r\n"];
    assert!(replied.ends_with(&format!("*2\r\n*3\r\n{first}*3\r\n{second}")), "{replied}");
    for (list, name) in [("keys", "big:k"), ("missed", "none:k"), ("prefixes", "big"), ("missed-prefixes", "none")] {
        let replied = text(&client.ask(&[b"HOTKEYS", list.as_bytes()]));
        let of = |namespace: &str| replied.split("*3\r\n").any(|one| one.contains(name) && one.contains(namespace));
        assert!(of("\r\nshop\r\n") && of("\r\ndefault\r\n"), "{list}: {replied}");
    }
    let mut plain = memcached(&running, Namespace::DEFAULT);
    plain.send(b"stats namespaces\r\nquit\r\n");
    let stats = text(&plain.read_to_end());
    for line in [
        "STAT shop:number 3",
        "STAT shop:curr_items 1",
        "STAT shop:limit_maxbytes 8388608",
        "STAT shop:get_misses 2000",
        "STAT default:get_misses 2000",
        "STAT shop:curr_connections 1",
        "STAT default:number 0",
    ] {
        assert!(stats.contains(&format!("{line}\r\n")), "{line} is not in {stats}");
    }
    assert!(stats.ends_with("END\r\n"), "{stats}");
    let info = text(&client.ask(&[b"INFO", b"namespaces"]));
    assert!(info.contains("# Namespaces\r\nns0:name=default,keys=1,") && info.contains("\r\nns3:name=shop,keys=1,"));
    assert!(text(&client.ask(&[b"INFO", b"everything"])).contains("ns3:name=shop"));
    assert!(!text(&client.ask(&[b"INFO"])).contains("ns3:"), "tools read it, and know nothing of it");
    running.stop();
}

/// Stores values of 8 KiB in the client's namespace until one is refused, at most `most`. Returns their number, and the
/// reply to the last one.
fn fill(client: &mut Replies, most: usize) -> (usize, String) {
    let value = [b'v'; 8 << 10];
    for number in 0..most {
        let reply = client.ask(&[b"SET", format!("k{number}").as_bytes(), &value]);
        if reply != b"+OK\r\n" {
            return (number, reply.escape_ascii().to_string());
        }
    }
    (most, "+OK".to_owned())
}

#[test]
fn nothing_is_evicted_from_namespaces_that_a_client_sets_to_noeviction() {
    let running = start(with(NamespaceConfig { memory_bytes: Some(12 << 20), ..plain() }));
    let mut client = redis(&running, Namespace::DEFAULT);
    let policy = |client: &mut Replies| {
        let shown =
            client.text("CONFIG GET maxmemory-policy").rsplit(' ').next().map(str::to_owned).unwrap_or_default();
        assert!(client.text("INFO memory").contains(&format!("maxmemory_policy:{shown} ")), "{shown}");
        shown
    };
    // A namespace with memory of its own has its own policy.
    assert_eq!(client.text("SELECT shop"), "+OK");
    assert_eq!(policy(&mut client), "allkeys-lfu");
    let (stored, last) = fill(&mut client, 3_000);
    assert_eq!((stored, last), (3_000, "+OK".to_owned()));
    assert_eq!(client.text("CONFIG SET maxmemory-policy noeviction"), "+OK");
    assert_eq!(policy(&mut client), "noeviction");
    client.text("FLUSHDB");
    let (stored, last) = fill(&mut client, 3_000);
    assert!(stored < 3_000 && last.starts_with("-OOM"), "{stored} {last}");
    assert_eq!(client.text("DBSIZE"), format!(":{stored}"));
    assert_eq!(client.text("DEL k0 k1 k2 none"), ":3");
    // The others keep theirs, which they share.
    client.text("SELECT 0");
    assert_eq!(policy(&mut client), "allkeys-lfu");
    assert_eq!(client.text("CONFIG SET maxmemory-policy noeviction"), "+OK");
    client.text("SELECT 5");
    assert_eq!(policy(&mut client), "noeviction");
    let (stored, last) = fill(&mut client, 12_000);
    assert!(stored < 12_000 && last.starts_with("-OOM"), "{stored} {last}");
    assert_eq!(client.text("DBSIZE"), format!(":{stored}"));
    // Items are evicted again.
    assert_eq!(client.text("CONFIG SET maxmemory-policy allkeys-lru"), "+OK");
    assert_eq!(policy(&mut client), "allkeys-lfu");
    let (stored, last) = fill(&mut client, 8_000);
    assert_eq!((stored, last), (8_000, "+OK".to_owned()));
    running.stop();
}
