//! Meta's caches: popularity by groups of keys, sizes of keys and values, and the share of reads for keys that are not
//! requested again.
//!
//! The keys are those of the popularity file, read look-aside. A key that is too short to be unique is lengthened as
//! needed. No key is longer than memcached accepts.

use super::super::file::distribution;
use super::super::key;
use super::super::model::{KeyCommand, KeySpace, LengthStep, Order, Sizes, Verb, Workload};
use super::super::units::Share;

/// The names of the caches.
pub const NAMES: [&str; 3] = ["kvcache_reg", "cdn", "graph_cache_leader_assocs"];

macro_rules! data {
    ($name:literal) => {
        [
            include_str!(concat!("../../../../../data/meta-", $name, "/config.json")),
            include_str!(concat!("../../../../../data/meta-", $name, "/pop.json")),
            include_str!(concat!("../../../../../data/meta-", $name, "/sizes.json")),
        ]
    };
}

/// Returns the workload of cache `name`; `None` if there is no such cache.
pub fn workload(name: &str) -> Option<Workload> {
    let [config, popularity, sizes] = match name {
        "kvcache_reg" => data!("kvcache_reg"),
        "cdn" => data!("cdn"),
        "graph_cache_leader_assocs" => data!("graph_cache_leader_assocs"),
        _ => return None,
    };
    let config: serde_json::Value = serde_json::from_str(config).ok()?;
    let config = &config["test_config"];
    let ratio = |name: &str| config[name].as_f64().unwrap_or(0.0);
    let groups = distribution::popularity_json(popularity).ok()?;
    let mut space = KeySpace {
        count: groups.iter().map(|(keys, _)| keys).sum(),
        order: Order::Groups(groups),
        once: Share(ratio("loneGetRatio") / (ratio("getRatio") + ratio("loneGetRatio"))),
        verbs: vec![KeyCommand::new(Verb::Get)],
        value_bytes: distribution::sizes_json(sizes).ok()?,
        ..KeySpace::default()
    };
    let least = key::bytes_least(&space);
    let edges: Vec<u64> = config["keySizeRange"].as_array()?.iter().filter_map(serde_json::Value::as_u64).collect();
    let weights = config["keySizeRangeProbability"].as_array()?.iter().filter_map(serde_json::Value::as_f64);
    let bound = |bytes: u64| bytes.clamp(least, key::MEMCACHED_BYTES_MAX);
    let steps = edges.windows(2).zip(weights);
    space.key_bytes = Sizes::Steps(
        steps.map(|(edge, weight)| LengthStep { from: bound(edge[0]), to: bound(edge[1]), weight }).collect(),
    );
    Some(Workload {
        name: format!("meta:{name}"),
        about: format!("Meta's {name}: popularity and sizes as published with cachebench, over {} keys", space.count),
        connections: 100,
        fill_on_miss: config["enableLookaside"].as_bool().unwrap_or(true),
        keys: vec![space],
        ..Workload::default()
    })
}
