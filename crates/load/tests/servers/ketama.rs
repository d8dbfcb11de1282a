//! Compares the placement of keys on several servers with libmemcached's placement.

use gannet_load::workload::model::{Placement, Target};
use gannet_load::workload::place::Ring;

use super::common::{Server, Where, load, prefill, workload};

/// The placement by libmemcached, which `ketama.py` wrote: a line of targets with their weights, then a line with one
/// digit for each of `key-0`, `key-1` ...: the number of the key's target.
const PLACES: &str = include_str!("ketama.txt");

#[test]
fn keys_go_where_libmemcached_puts_them() {
    let lines: Vec<&str> = PLACES.lines().filter(|line| !line.starts_with('#')).collect();
    let mut seen = 0;
    for pair in lines.chunks_exact(2) {
        let target = |text: &str| {
            let (address, weight) = text.split_once('=').expect("ADDRESS=WEIGHT");
            Target { address: address.to_owned(), weight: weight.parse().expect("a weight") }
        };
        let targets: Vec<Target> = pair[0].split(' ').map(target).collect();
        let ring = Ring::new(Placement::Ketama, &targets);
        for (number, place) in pair[1].split(' ').enumerate() {
            let key = format!("key-{number}");
            assert_eq!(ring.target(key.as_bytes()).to_string(), place, "{key} of {}", pair[0]);
            seen += 1;
        }
    }
    assert!(seen > 2_000 && lines.len() >= 14, "{seen} keys of {} lines", lines.len());
}

#[test]
fn each_of_two_servers_holds_the_keys_of_its_part_of_the_ring_and_no_others() {
    let text = r#"
protocol = "memcache"
verify = true
fill_on_miss = true
[targets]
placement = "ketama"
[connections]
count = 8
threads = 2
depth = 4
[[keys]]
count = 3000
prefix = "k:"
order = "sequential"
value_bytes = "100B"
verbs = [{ verb = "get", weight = 9 }, { verb = "delete", weight = 1 }]
"#;
    let servers = [Server::memcached(Where::Tcp, &[]), Server::memcached(Where::Tcp, &[])];
    let workload = workload(text, &[&servers[0], &servers[1]]);
    let ring = Ring::new(Placement::Ketama, &workload.targets);
    let mut due = [0, 0];
    for number in 0..3_000 {
        due[ring.target(format!("k:{number:014}").as_bytes())] += 1;
    }
    assert!(due.iter().all(|keys| *keys > 500), "{due:?}");
    assert_eq!(prefill(&workload).of("fill hit"), 3_000);
    let held = || [0, 1].map(|at: usize| servers[at].counts()["curr_items"]);
    assert_eq!(held(), due);
    let before = [0, 1].map(|at: usize| servers[at].counts());
    let outcome = load(&workload, 12_000);
    assert_eq!((outcome.run.bulk.totals.errors, outcome.run.bulk.totals.wrong), (0, 0), "{:?}", outcome.counts);
    assert_eq!(
        outcome.of("get miss"),
        outcome.all("fill"),
        "keys that were deleted and then missed were stored again on the same target"
    );
    let grown =
        |name: &str| -> u64 { [0, 1].map(|at: usize| servers[at].counts()[name] - before[at][name]).iter().sum() };
    assert_eq!((grown("get_hits"), grown("get_misses")), (outcome.of("get hit"), outcome.of("get miss")));
    assert_eq!((grown("delete_hits"), grown("cmd_set")), (outcome.of("delete hit"), outcome.all("fill")));
    let gone = outcome.of("delete hit") - outcome.all("fill");
    assert_eq!(held().iter().sum::<u64>(), 3_000 - gone, "no key is on both servers");
}
