//! Named workloads: published benchmarks, and workloads derived from published data of production caches.
//!
//! ```text
//! pelikan-t2a, memcached-pmem-zipf-99r, ...    a file in crates/load/presets/
//! twitter:cluster12                            a row of data/twitter-2020Mar.md
//! meta:kvcache_reg                             the files in data/meta-kvcache_reg/
//! ```

mod meta;
#[cfg(test)]
mod tests;
mod twitter;

use std::path::Path;

use base::nearest::nearest;

use super::fault::WorkloadFault;
use super::model::Workload;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../presets/", $name, ".toml")))),*]
    };
}

const FILES: [(&str, &str); 17] = files![
    "pelikan-t2a",
    "memcached-pmem-uniform-100r",
    "memcached-pmem-uniform-99r",
    "memcached-pmem-uniform-90r",
    "memcached-pmem-zipf-100r",
    "memcached-pmem-zipf-99r",
    "memcached-pmem-zipf-90r",
    "mc-crusher-paced",
    "aerospike-ec2",
    "momento-naive-5000",
    "momento-laptop",
    "momento-in-region-default",
    "momento-in-region-low-latency",
    "momento-lambda",
    "momento-inregion-200",
    "momento-inregion-25",
    "graphdb",
];

/// Returns the names of all presets.
pub fn names() -> Vec<String> {
    let files = FILES.iter().map(|(name, _)| (*name).to_owned());
    let twitter = twitter::clusters().map(|name| format!("twitter:{name}"));
    let meta = meta::NAMES.iter().map(|name| format!("meta:{name}"));
    files.chain(twitter).chain(meta).collect()
}

/// Returns the text of a preset's file, which a user can copy and edit. Returns `None` for presets derived from
/// data.
pub fn text(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Returns the preset `name`.
///
/// # Errors
/// If there is no such preset; the fault's remedy suggests the nearest name.
pub fn preset(name: &str) -> Result<Workload, Vec<WorkloadFault>> {
    if let Some(text) = text(name) {
        return Workload::read_text(Path::new(name), text);
    }
    let drawn = match name.split_once(':') {
        Some(("twitter", cluster)) => twitter::workload(cluster),
        Some(("meta", cache)) => meta::workload(cache),
        _ => None,
    };
    drawn.ok_or_else(|| {
        let names = names();
        let remedy = match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}?"),
            None => {
                let files = FILES.map(|(name, _)| name).join(", ");
                format!(
                    "valid names are {files}, twitter:cluster1 to cluster54, and meta: with {}",
                    meta::NAMES.join(", ")
                )
            }
        };
        vec![WorkloadFault::new("preset", format!("unknown preset '{name}'"), remedy)]
    })
}
