//! Checks the order of modules in large crates. Each such crate has a stack of floors, and a module may use only
//! modules of its own floor or of lower floors.
//!
//! A floor is a list of modules, by their paths from the crate's root. A module is on the floor that lists the longest
//! prefix of its path, so `locks::words` may be on a lower floor than `locks`. A module without a floor is a fault.

use super::Breach;
use super::imports;
use super::tree::Tree;

/// The floors of `segment`, the lowest first. A module with state that the store in `core` contains is on a lower floor
/// than `core`, even if the other modules of its directory are on a higher one: `values::free_queue` is below `values`.
const SEGMENT: [&[&str]; 12] = [
    &["layout"],
    &["index"],
    &["heap", "core::op", "durable::file::fault", "durable::file::index_place"],
    &[
        "tier",
        "locks::words",
        "locks::undo_log",
        "values::free_queue",
        "values::part_walk",
        "values::orphans",
        "values::source",
        "durable::file",
        "durable::checkpoint::record",
        "durable::checkpoint::progress",
        "durable::rebuild::state",
        "durable::reopen::report",
    ],
    &["core", "tier::flash_slots", "tier::reads"],
    &["core::facets", "core::handle", "items::unpublished", "values::writer", "values::unfinished", "durable::moving"],
    &["items", "tier::tiered", "tier::by_hash"],
    &["values"],
    &["locks"],
    &["durable"],
    &["background"],
    // `zero_valid` belongs to the layout, but uses all types in mapped memory, and no module uses it.
    &["store", "durable::file::copy", "durable::tier_backing", "layout::raw::zero_valid"],
];

/// The floors of `load`, the lowest first. The modules that translate other tools' command lines to workloads use the
/// generator's modules, and not the reverse.
const LOAD: [&[&str]; 7] = [
    &["traffic", "schedule", "search::rate"],
    &["measure", "workload"],
    &["engine", "search"],
    &["fake", "result"],
    &["timeline", "report", "agents"],
    &["session", "selftest", "cost", "clients"],
    &["dialect"],
];

/// The floors of `trace`, the lowest first.
const TRACE: [&[&str]; 3] = [&["format"], &["pace", "record"], &["replay"]];

/// The floors of `command`, the lowest first. A protocol's table of functions is above the commands, because it names
/// their functions and no command uses the table.
const COMMAND: [&[&str]; 19] = [
    &["glob", "visit::clock", "visit::progress", "metrics", "clients::endpoint", "clients::client_info"],
    &["memory", "visit", "host", "config", "clients", "resp::config_hints"],
    &[
        "keyspace::databases",
        "keyspace::namespace_config",
        "keyspace::metadata",
        "keyspace::routes",
        "push",
        "resp::catalog",
        "resp::support",
        "resp::subcommands",
    ],
    &[
        "keyspace",
        "resp::error",
        "resp::stream_error",
        "resp::acl::rights",
        "resp::acl::token_user",
        "resp::acl::users",
    ],
    &["shared", "keyspace::figures", "push::watch::evictions", "handover", "resp::acl::client_user", "resp::state"],
    &["context", "lookup"],
    &["resp::state::long", "memcache::state"],
    &["memcache", "resp"],
    &["grpc::graph_errors", "grpc::item_replies"],
    &["grpc::plan"],
    &["grpc::compression", "grpc::credentials"],
    &["grpc::calls"],
    &["grpc::replies", "grpc::request"],
    &["grpc::key_watch"],
    &["grpc::subscriptions"],
    &["grpc::execution", "grpc::plain"],
    &["grpc::session"],
    &["grpc"],
    &["memcache::dispatch", "resp::dispatch", "resp::functions", "resp::carry", "resp::ended", "session"],
];

/// The floors of `graph`, the lowest first. Queries see a graph through a view, and never its writer.
const GRAPH: [&[&str]; 11] = [
    &["limits", "sync"],
    &["error", "paged", "epoch", "memory"],
    &["record"],
    &["leaf", "schema", "ids", "pool", "bulk::parse", "bulk::sort"],
    &["tombstones", "change"],
    &["state", "bulk::batch"],
    &["list", "query::inspect::shape"],
    &["view"],
    &["query", "append"],
    &["write", "declare"],
    &["compact", "sweep", "store", "commit", "recover", "bulk"],
];

/// The crates that have floors.
const CRATES: [(&str, &[&[&str]]); 5] =
    [("segment", &SEGMENT), ("load", &LOAD), ("trace", &TRACE), ("command", &COMMAND), ("graph", &GRAPH)];

/// Returns whether `named` is a module below `module`. A module declares the modules below it, and a declaration is not
/// a use.
fn is_declaration(module: &str, named: &str) -> bool {
    named.strip_prefix(module).is_some_and(|rest| rest.starts_with("::"))
}

/// Returns the index of a module's floor, or `None` if no floor lists a prefix of the module's path.
fn floor_of(floors: &[&[&str]], module: &str) -> Option<usize> {
    let names = |path: &str| module.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    let of = |(floor, paths): (usize, &&[&str])| {
        paths.iter().filter(|path| names(path)).map(|path| path.len()).max().map(|length| (length, floor))
    };
    floors.iter().enumerate().filter_map(of).max().map(|(_, floor)| floor)
}

/// Checks that no module of the crates with floors uses a module of a higher floor.
pub fn check(tree: &Tree, faults: &mut Vec<Breach>) {
    let sources = imports::sources(tree);
    for (name, floors) in CRATES {
        for (module, named) in sources.get(name).map(|files| imports::imports(files)).unwrap_or_default() {
            let mut fault = |message: String| faults.push(Breach::new(&format!("crates/{name}/src"), 0, message));
            let Some(floor) = floor_of(floors, &module) else {
                fault(format!("'{module}' has no floor; add it to xtask/src/tidy/floors.rs"));
                continue;
            };
            let is_above = |other: &&String| floor_of(floors, other).is_some_and(|above| above > floor);
            for above in named.iter().filter(is_above).filter(|above| !is_declaration(&module, above)) {
                fault(format!("'{module}' uses '{above}' of a higher floor; reverse the dependency"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(path: &str, text: &str) -> Vec<Breach> {
        let root = "mod heap;\nmod layout;\npub use heap::Wide;\n";
        let files =
            [("lib.rs", root), ("heap.rs", "pub struct Wide;\n"), ("layout/mod.rs", "mod key;\n"), (path, text)];
        let files = files.map(|(name, text)| (format!("crates/segment/src/{name}"), text));
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let mut faults = Vec::new();
        check(&Tree::of(&files), &mut faults);
        faults
    }

    #[test]
    fn module_may_use_only_its_own_floor_and_lower_floors() {
        assert_eq!(faults_of("layout/key.rs", "use crate::layout::Bits;\n"), []);
        assert_eq!(faults_of("layout/key.rs", "use crate::heap::Wide;\n").len(), 1);
        assert_eq!(faults_of("layout/key.rs", "fn f() -> crate::Wide {}\n").len(), 1, "by the name that the root has");
        assert_eq!(faults_of("layout/key.rs", "#[cfg(test)]\nmod tests {\n use crate::heap::Wide;\n}\n"), []);
        assert_eq!(faults_of("heap/more.rs", "use crate::layout::Bits;\n"), []);
        assert_eq!(faults_of("attic.rs", "fn f() {}\n").len(), 1, "on no floor");
    }
}
