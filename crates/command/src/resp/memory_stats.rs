//! `MEMORY STATS`: the memory of the server, with the names and the order of Redis. A field of a feature that the
//! server lacks (replicas, an append-only file, a cluster) is 0, as in Redis while the feature is unused.

use crate::keyspace::namespaces::Namespaces;
use crate::resp::call::{Call, Run};
use crate::resp::slowlog::SLOT_BYTES;
use crate::shared::Shared;
use crate::visit::out::OutBuffer;
use crate::visit::progress::REPORT_OPS;
use protocol::resp::{Version, reply};
use segment::Namespace;

/// A value of the reply.
enum MemoryValue {
    Bytes(i64),
    Ratio(f64),
    /// The bytes that the keys of a database take in the index.
    Database(u64),
}

use MemoryValue::{Bytes, Database, Ratio};

/// Returns the databases that have keys, with the bytes that these take in the index.
fn databases(shared: &Shared) -> Vec<(String, MemoryValue)> {
    let databases = shared.namespaces.databases();
    let keys = |Namespace(database)| (database, shared.store.keys(databases.namespace(database)));
    let filled = Namespaces::numbers().map(keys).filter(|(_, keys)| *keys > 0);
    filled.map(|(database, keys)| (format!("db.{database}"), Database(keys * SLOT_BYTES))).collect()
}

/// Returns the fields of the reply.
fn fields(shared: &Shared) -> Vec<(String, MemoryValue)> {
    let (stats, found) = (shared.store_stats(), shared.survey.latest());
    let (used, items, resident) = (stats.used_bytes(), stats.item_bytes, found.resident_bytes);
    let peak = shared.survey.used_peak_bytes(used);
    let (_, evals) = shared.scripts.cached();
    let functions = shared.scripts.libraries.now().bytes() as u64;
    let ratio = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let bytes = |name: &str, bytes: u64| (name.to_owned(), Bytes(bytes as i64));
    let part = |name: &str, ratio: f64| (name.to_owned(), Ratio(ratio));
    let above = |name: &str| (name.to_owned(), Bytes(resident as i64 - used as i64));
    let mut fields = vec![
        bytes("peak.allocated", peak),
        bytes("total.allocated", used),
        bytes("startup.allocated", 0),
        bytes("replication.backlog", 0),
        bytes("clients.slaves", 0),
        bytes("clients.normal", shared.budget.used()),
        bytes("cluster.links", 0),
        bytes("aof.buffer", 0),
        bytes("lua.caches", evals),
        bytes("functions.caches", functions),
    ];
    fields.extend(databases(shared));
    fields.extend([
        bytes("overhead.total", used.saturating_sub(items)),
        bytes("keys.count", stats.values),
        bytes("keys.bytes-per-key", used / stats.values.max(1) * u64::from(stats.values > 0)),
        bytes("dataset.bytes", items),
        part("dataset.percentage", ratio(items, used) * 100.0),
        part("peak.percentage", ratio(used, peak) * 100.0),
        // The store has one allocator, whose segments it reports as used: it is never fragmented.
        bytes("allocator.allocated", used),
        bytes("allocator.active", used),
        bytes("allocator.resident", resident),
        part("allocator-fragmentation.ratio", 1.0),
        bytes("allocator-fragmentation.bytes", 0),
        part("allocator-rss.ratio", ratio(resident, used)),
        above("allocator-rss.bytes"),
        part("rss-overhead.ratio", 1.0),
        bytes("rss-overhead.bytes", 0),
        part("fragmentation", ratio(resident, used)),
        above("fragmentation.bytes"),
        bytes("pubsub.bytes", shared.channels.bytes()),
        bytes("maxmemory", stats.memory_bytes),
    ]);
    fields
}

/// Replies to `MEMORY STATS`.
pub(super) fn reply(call: &mut Call<'_, '_>) -> Run {
    call.ops += REPORT_OPS;
    let (fields, version): (_, Version) = (fields(&call.ctx.shared), call.session.version);
    reply::map(call.out, version, fields.len() as u64);
    for (name, value) in fields {
        reply::bulk(call.out, name.as_bytes());
        match value {
            Bytes(bytes) => reply::int(call.out, bytes),
            Ratio(ratio) => reply::double(call.out, version, ratio),
            Database(bytes) => database(call.out, version, bytes),
        }
    }
    Ok(())
}

/// Writes the figures of a database. Times to live are stored in the items, and the server has no cluster slots.
fn database(out: &mut OutBuffer, version: Version, bytes: u64) {
    let figures =
        [("overhead.hashtable.main", bytes), ("overhead.hashtable.expires", 0), ("overhead.hashtable.slot-to-keys", 0)];
    reply::map(out, version, figures.len() as u64);
    for (name, bytes) in figures {
        reply::bulk(out, name.as_bytes());
        reply::int(out, bytes as i64);
    }
}
