//! Tests of key prefixes that route requests on a default memcached listener to namespaces: every command follows them,
//! and a request with keys of several namespaces gets the same reply as in one namespace.

use crate::common::redis::resp;
use crate::common::{Client, config, pattern, set, start, value};
use base::prng::Prng;
use command::clients::endpoint::{Endpoint, Protocol};
use command::keyspace::namespace_config::NamespaceConfig;
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use segment::Namespace;

const SHOP: Namespace = Namespace(3);
const SOLD: Namespace = Namespace(4);

fn any() -> ListenAddr {
    ListenAddr::Tcp(([127, 0, 0, 1], 0).into())
}

fn named(name: &str, namespace: Namespace, prefixes: &[&str]) -> NamespaceConfig {
    let prefixes = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
    NamespaceConfig { name: name.to_owned(), prefixes, ..NamespaceConfig::plain(namespace.0, true) }
}

/// Returns a configuration in which the prefixes `shop:` and `s/` select the namespace of the shop, and `shop:sold:`
/// another namespace. Each of the two also has its own memcached listener.
fn with(shop: NamespaceConfig) -> ServerConfig {
    let endpoints = [SHOP, SOLD].map(|namespace| (Endpoint::new(Protocol::Memcache, namespace), any()));
    let shop = NamespaceConfig { prefixes: vec!["shop:".to_owned(), "s/".to_owned()], ..shop };
    let namespaces = vec![shop, named("sold", SOLD, &["shop:sold:"])];
    ServerConfig { resp: vec![any()], endpoints: endpoints.to_vec(), namespaces, item_bytes_max: 4 << 20, ..config() }
}

fn shop() -> NamespaceConfig {
    named("shop", SHOP, &[])
}

fn memcached(running: &Running, namespace: Namespace) -> Client {
    let found = running.endpoints().find_map(|(endpoint, addr)| match addr {
        ListenAddr::Tcp(addr) if (endpoint.protocol, endpoint.namespace) == (Protocol::Memcache, namespace) => {
            Some(*addr)
        }
        _ => None,
    });
    Client::connect(found.expect("a listener of that kind"))
}

#[test]
fn prefix_rule_routes_every_command_and_preserves_the_prefix() {
    let running = start(with(shop()));
    let mut client = memcached(&running, Namespace::DEFAULT);
    let (mut shops, mut solds) = (memcached(&running, SHOP), memcached(&running, SOLD));
    for (ask, reply) in [
        (&b"set shop:k 7 0 1\r\nv\r\n"[..], &b"STORED\r\n"[..]),
        (b"set shop:sold:k 0 0 4\r\nsold\r\n", b"STORED\r\n"),
        (b"set shop 0 0 1\r\nd\r\n", b"STORED\r\n"),
        (b"append shop:k 0 0 1\r\nw\r\n", b"STORED\r\n"),
        (b"add shop:k 0 0 1\r\nx\r\n", b"NOT_STORED\r\n"),
        (b"touch shop:k 900\r\n", b"TOUCHED\r\n"),
        (b"ms shop:n 2 T0\r\n41\r\n", b"HD\r\n"),
        (b"incr shop:n 1\r\n", b"42\r\n"),
        (b"ma shop:n v\r\n", b"VA 2\r\n43\r\n"),
        (b"mg shop:n v\r\n", b"VA 2\r\n43\r\n"),
        // shop:b64 in base64.
        (b"ms c2hvcDpiNjQ= 1 b\r\ny\r\n", b"HD\r\n"),
        (b"mg c2hvcDpiNjQ= b v\r\n", b"VA 1\r\ny\r\n"),
        (b"set shop:gone 0 0 1\r\nv\r\n", b"STORED\r\n"),
        (b"delete shop:gone\r\n", b"DELETED\r\n"),
        (b"set s/gone 0 0 1\r\nv\r\n", b"STORED\r\n"),
        (b"md s/gone\r\n", b"HD\r\n"),
        (
            b"gat 0 shop:k shop:sold:k shop\r\n",
            b"VALUE shop:k 7 2\r\nvw\r\nVALUE shop:sold:k 0 4\r\nsold\r\nVALUE shop 0 1\r\nd\r\nEND\r\n",
        ),
    ] {
        client.ask(ask, reply);
    }
    // Long values go piece by piece, or straight into the store.
    for bytes in [100_000, 3_000_000].map(pattern) {
        let mut whole = set("shop:long", &bytes);
        let rest = whole.split_off(70_000);
        client.send(&whole);
        std::thread::sleep(std::time::Duration::from_millis(20));
        client.ask(&rest, b"STORED\r\n");
        client.ask(b"get shop:long\r\n", &value("shop:long", &bytes));
        shops.ask(b"get shop:long\r\n", &value("shop:long", &bytes));
    }
    shops.ask(
        b"get shop:k shop:n shop:b64 shop shop:sold:k\r\n",
        b"VALUE shop:k 7 2\r\nvw\r\nVALUE shop:n 0 2\r\n43\r\nVALUE shop:b64 0 1\r\ny\r\nEND\r\n",
    );
    solds.ask(b"get shop:sold:k shop:k\r\n", &value("shop:sold:k", b"sold"));
    let mut redis = resp(&running);
    assert_eq!(redis.ask(&[b"GET", b"shop:k"]), b"$-1\r\n", "the rules are for memcached");
    assert_eq!(redis.ask(&[b"DBSIZE"]), b":1\r\n");
    redis.ask(&[b"SELECT", b"shop"]);
    assert_eq!(
        (redis.ask(&[b"GET", b"shop:k"]), redis.ask(&[b"GET", b"k"])),
        (b"$2\r\nvw\r\n".to_vec(), b"$-1\r\n".to_vec())
    );
    // A rule does not lead away from a listener that has a namespace.
    shops.ask(&set("shop:sold:k", b"shops"), b"STORED\r\n");
    client.ask(b"get shop:sold:k\r\n", &value("shop:sold:k", b"sold"));
    running.stop();
}

#[test]
fn multi_get_across_namespaces_replies_in_request_order() {
    let running = start(with(shop()));
    let mut client = memcached(&running, Namespace::DEFAULT);
    let mut prng = Prng::new(11);
    let key = |prng: &mut Prng| {
        let prefix = ["shop:", "shop:sold:", "", "s/", "shop"][prng.below(5) as usize];
        format!("{prefix}{}", prng.below(30))
    };
    // The present items by key. A key is in one namespace only, so one map is enough.
    let mut there = std::collections::HashMap::new();
    for round in 0..400 {
        let (mut asked, mut wanted) = (String::new(), String::new());
        for _ in 0..prng.below(6) {
            match prng.below(6) {
                0 => {
                    let (key, value) = (key(&mut prng), format!("{round}"));
                    asked += &format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
                    wanted += "STORED\r\n";
                    there.insert(key, value);
                }
                1 => {
                    let key = key(&mut prng);
                    asked += &format!("delete {key}\r\n");
                    wanted += if there.remove(&key).is_some() { "DELETED\r\n" } else { "NOT_FOUND\r\n" };
                }
                2 => {
                    asked += "mn\r\n";
                    wanted += "MN\r\n";
                }
                verb => {
                    let keys: Vec<String> = (0..=prng.below(60)).map(|_| key(&mut prng)).collect();
                    asked += &format!("{} {}\r\n", ["get", "gat 0", "get"][verb as usize - 3], keys.join(" "));
                    for key in &keys {
                        if let Some(value) = there.get(key) {
                            wanted += &format!("VALUE {key} 0 {}\r\n{value}\r\n", value.len());
                        }
                    }
                    wanted += "END\r\n";
                }
            }
        }
        client.ask(asked.as_bytes(), wanted.as_bytes());
    }
    let items = |namespace| running.shared().store.namespace_stats(namespace).items;
    let all: u64 = [Namespace::DEFAULT, SHOP, SOLD].map(items).iter().sum();
    assert!(all == there.len() as u64 && items(SHOP) > 3 && items(SOLD) > 3, "{all} of {}", there.len());
    // A long value between others is sent from the store.
    let long = pattern(200_000);
    client.ask(&set("shop:long", &long), b"STORED\r\n");
    client.ask(&set("x", b"x"), b"STORED\r\n");
    let one = |key, bytes| value(key, bytes)[..value(key, bytes).len() - 5].to_vec();
    let wanted =
        [one("x", b"x"), one("shop:long", &long), one("x", b"x"), one("shop:long", &long), b"END\r\n".to_vec()];
    client.ask(b"get x shop:long nothing x shop:sold:nothing shop:long\r\n", &wanted.concat());
    running.stop();
}

#[test]
fn prefix_routed_keys_use_the_terms_and_counters_of_their_namespace() {
    let terms = NamespaceConfig { ops_max: 1_000_000, ttl_max_ms: 100_000, ..shop() };
    let running = start(with(terms));
    let mut client = memcached(&running, Namespace::DEFAULT);
    client.ask(
        &[&set("shop:k", b"v"), &set("k", b"v"), &b"mg shop:k t\r\nmg k t\r\n"[..]].concat(),
        b"STORED\r\nSTORED\r\nHD t100\r\nHD t-1\r\n",
    );
    client.ask(b"get shop:k k shop:gone\r\n", b"VALUE shop:k 0 1\r\nv\r\nVALUE k 0 1\r\nv\r\nEND\r\n");
    let counters = |namespace: Namespace| {
        let block = &running.shared().workers[0].commands[usize::from(namespace.0)];
        [&block.cmd_set, &block.get_hits, &block.get_misses].map(|counter| counter.value())
    };
    assert_eq!((counters(SHOP), counters(Namespace::DEFAULT)), ([1, 2, 1], [1, 2, 0]));
    // All operations of an hour are spent: what touches the shop is refused, whole, and nothing else.
    running.shared().namespaces.use_up_quota(SHOP, 3_600_000);
    let refused = b"SERVER_ERROR too many operations a second for this namespace, try again later\r\n";
    client.ask(b"get shop:k\r\n", refused);
    client.ask(b"get k shop:k\r\n", refused);
    client.ask(&set("shop:k", b"get k\r\n"), refused);
    client
        .ask(b"get k\r\nget k k\r\n", &[value("k", b"v"), b"VALUE k 0 1\r\nv\r\n".to_vec(), value("k", b"v")].concat());
    assert_eq!(running.shared().namespaces.stats(SHOP).ops_refused, 3);
    // A flush by a client of a namespace's own listener flushes only this namespace.
    memcached(&running, SOLD).ask(b"flush_all\r\n", b"OK\r\n");
    client.ask(&set("shop:sold:k", b"v"), b"STORED\r\n");
    client.ask(b"get k\r\n", &value("k", b"v"));
    client.ask(b"flush_all\r\nget k shop:sold:k\r\n", b"OK\r\nEND\r\n");
    for (namespace, key) in [(Namespace::DEFAULT, "k"), (SOLD, "shop:sold:k")] {
        memcached(&running, namespace).ask(format!("get {key}\r\n").as_bytes(), b"END\r\n");
    }
    running.stop();
}

#[test]
fn rules_that_change_while_a_connection_lives_hold_from_its_next_requests() {
    let running = start(with(shop()));
    let mut client = memcached(&running, Namespace::DEFAULT);
    let put = |config: &NamespaceConfig| {
        running.shared().namespaces.set(&running.shared().store, config).expect("it may be");
    };
    client.ask(&set("shop:k", b"shops"), b"STORED\r\n");
    // Half of a value has been received when the rule is removed: the value is stored in the namespace where it began.
    client.send(b"set shop:half 0 0 300000\r\n");
    client.send(&[b'x'; 100_000]);
    crate::common::wait_until("the half", || running.shared().workers[0].counters.bytes_read.value() > 100_000);
    put(&named("shop", SHOP, &[]));
    put(&named("sold", SOLD, &[]));
    client.ask(&[&[b'x'; 200_000][..], b"\r\n"].concat(), b"STORED\r\n");
    client.ask(b"get shop:k shop:half\r\nget shop:k\r\n", b"END\r\nEND\r\n");
    client.ask(&set("shop:k", b"default"), b"STORED\r\n");
    client.ask(&set("new:k", b"default"), b"STORED\r\n");
    put(&named("shop", SHOP, &["shop:", "new:"]));
    client.ask(b"get shop:k new:k\r\n", &value("shop:k", b"shops"));
    let half = value("shop:half", &[b'x'; 300_000]);
    client.ask(b"get shop:half\r\n", &half);
    // After the namespace is dropped, its prefixes have no effect.
    running.shared().namespaces.unset(&running.shared().store, SHOP, true);
    client.ask(b"get shop:k\r\n", &value("shop:k", b"default"));
    running.stop();
}
