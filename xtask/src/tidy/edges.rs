//! The levels of the crates. A crate depends only on crates of lower levels, or on a crate of its own level that
//! `ALLOWED` names: `flash` and `tls` use `io`, and `trace` uses `load`. ARCHITECTURE.md shows the same levels.

use super::Breach;
use super::tree::Tree;

/// Each crate with the crates that its code may use. A crate that is missing in this list is a fault.
const ALLOWED: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("arena", &["base"]),
    ("page", &[]),
    ("segment", &["base", "arena"]),
    ("protocol", &["base"]),
    ("record", &["base", "segment"]),
    ("rdb", &["base"]),
    ("graph", &["base", "arena", "segment"]),
    ("cluster", &["base"]),
    ("script", &["base"]),
    ("command", &["base", "segment", "protocol", "record", "rdb", "script", "graph"]),
    ("io", &["base", "arena"]),
    ("flash", &["base", "arena", "segment", "io"]),
    ("tls", &["io"]),
    (
        "server",
        &["base", "arena", "segment", "protocol", "record", "command", "graph", "cluster", "io", "flash", "tls"],
    ),
    ("grpc", &["base", "segment", "protocol", "record", "cluster", "server"]),
    ("link", &[]),
    ("load", &["base", "page", "protocol", "graph", "io", "link"]),
    // A replay implements the load engine's trait for a source of requests.
    ("trace", &["base", "protocol", "link", "load"]),
    ("migrate", &["base", "page", "protocol", "rdb", "link"]),
    ("doctor", &["base", "arena", "graph", "page", "io"]),
    (
        "gannet",
        &[
            "base", "arena", "segment", "protocol", "graph", "command", "io", "server", "grpc", "link", "load",
            "trace", "migrate", "doctor", "page", "tls",
        ],
    ),
    ("testbed", &["load"]),
    // The peers of gRPC figures, in a workspace of their own.
    ("grpc_peers", &[]),
    ("xtask", &["base", "rdb", "load", "testbed"]),
    ("long_commands", &["base", "segment", "protocol", "record", "rdb", "command", "io", "server"]),
    ("lab", &["base", "segment", "flash", "load", "trace", "migrate", "testbed"]),
];

/// The crates of [`ALLOWED`] by level. Even a crate's tests may not use crates of higher levels.
const LEVELS: [(&str, &[&str]); 6] = [
    ("L0", &["base", "arena", "page"]),
    ("L1", &["segment", "protocol", "record", "rdb", "script", "graph", "cluster"]),
    ("L2", &["command", "io", "flash", "tls", "link"]),
    ("L3", &["server", "grpc", "load", "trace", "migrate", "doctor"]),
    ("L4", &["gannet", "testbed"]),
    ("L5", &["xtask", "lab", "long_commands", "grpc_peers"]),
];

/// The document that must show each crate's level.
const DRAWING: &str = "ARCHITECTURE.md";

/// Returns the text that the document must contain: a line for each level, the highest first, with its crates in
/// `tree`.
fn picture(tree: &Tree) -> String {
    let exists = |name: &&&str| tree.files.iter().any(|file| file.crate_name() == Some(name));
    let line = |(level, names): &(&str, &[&str])| {
        let names: Vec<&str> = names.iter().filter(exists).copied().collect();
        format!("{level}  {}\n", names.join("  "))
    };
    LEVELS.iter().rev().map(line).collect()
}

/// Checks that the document shows the levels of this file.
fn check_drawing(tree: &Tree, faults: &mut Vec<Breach>) {
    let picture = picture(tree);
    if tree.file(DRAWING).is_some_and(|page| !page.text.contains(&picture)) {
        faults.push(Breach::new(DRAWING, 0, format!("draw the crates as tidy enforces them:\n{picture}")));
    }
}

/// Checks the dependencies in every crate's manifest, and the levels that the document shows.
pub fn check(tree: &Tree, faults: &mut Vec<Breach>) {
    check_drawing(tree, faults);
    for file in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let Some(name) = file.crate_name().filter(|_| file.is_in_crate_root()) else { continue };
        let manifest: toml::Table = match file.text.parse() {
            Ok(manifest) => manifest,
            Err(error) => {
                faults.push(Breach::new(&file.path, 0, format!("the manifest is not valid: {error}")));
                continue;
            }
        };
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            let message = format!("crate '{name}' has no level; add it to the allow-list in xtask/src/tidy/edges.rs");
            faults.push(Breach::new(&file.path, 0, message));
            continue;
        };
        for dependency in edges(&manifest, &["dependencies", "build-dependencies"]) {
            if !allowed.contains(&dependency.as_str()) {
                let message = format!("'{name}' may not depend on '{dependency}'; allowed are {allowed:?}");
                faults.push(Breach::new(&file.path, line_of(&file.text, &dependency), message));
            }
        }
        for dependency in edges(&manifest, &["dev-dependencies"]) {
            if level(&dependency) > level(name) {
                let message = format!("tests of '{name}' may not depend on '{dependency}', which is on a higher level");
                faults.push(Breach::new(&file.path, line_of(&file.text, &dependency), message));
            }
        }
    }
}

fn level(name: &str) -> usize {
    LEVELS.iter().position(|(_, names)| names.contains(&name)).unwrap_or(LEVELS.len())
}

/// Returns the workspace's own crates in the `kinds` tables of a manifest, including `[target.*]` tables.
fn edges(manifest: &toml::Table, kinds: &[&str]) -> Vec<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let per_target = targets.into_iter().flat_map(toml::Table::values).filter_map(toml::Value::as_table);
    let tables = std::iter::once(manifest).chain(per_target);
    let tables = tables.flat_map(|table| kinds.iter().filter_map(|kind| table.get(*kind)?.as_table()));
    let mut found: Vec<String> = tables.flat_map(toml::Table::iter).filter_map(|(k, v)| own_crate(k, v)).collect();
    found.sort();
    found.dedup();
    found
}

fn own_crate(key: &str, value: &toml::Value) -> Option<String> {
    let package = value.get("package").and_then(toml::Value::as_str).unwrap_or(key);
    let name = package.strip_prefix("gannet-").unwrap_or(package);
    let is_path = value.get("path").is_some() || package.starts_with("gannet-");
    (is_path || ALLOWED.iter().any(|(known, _)| *known == name)).then(|| name.to_owned())
}

fn line_of(text: &str, dependency: &str) -> usize {
    text.lines().position(|line| line.contains(dependency)).map_or(0, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(path: &str, manifest: &str) -> Vec<String> {
        let mut faults = Vec::new();
        check(&Tree::of(&[(path, manifest)]), &mut faults);
        faults.iter().map(Breach::to_string).collect()
    }

    #[test]
    fn dependency_on_a_crate_of_an_equal_or_higher_level_is_reported() {
        let up = "[dependencies]\nserver = { workspace = true }\n";
        assert_eq!(faults_of("crates/segment/Cargo.toml", up).len(), 1);
        let sideways = "[dependencies]\nx = { package = \"gannet-segment\", path = \"../segment\" }\n";
        assert_eq!(faults_of("crates/protocol/Cargo.toml", sideways).len(), 1);
        let hidden = "[target.'cfg(unix)'.dependencies]\ngannet-server = { path = \"../server\" }\n";
        assert_eq!(faults_of("crates/io/Cargo.toml", hidden).len(), 1);
        let test_only = "[dev-dependencies]\nserver = { workspace = true }\n";
        assert_eq!(faults_of("crates/io/Cargo.toml", test_only).len(), 1);
    }

    #[test]
    fn an_edge_downwards_and_a_foreign_crate_are_allowed() {
        let good = "[dependencies]\nbase = { workspace = true }\nmemchr = { workspace = true }\n\
                    [dev-dependencies]\nprotocol = { workspace = true }\n";
        assert!(faults_of("crates/segment/Cargo.toml", good).is_empty());
        assert!(faults_of("fuzz/Cargo.toml", "[dependencies]\nserver = {}\n").is_empty());
    }

    #[test]
    fn level_diagram_that_differs_from_the_levels_is_reported() {
        let faults = |drawing: &str| {
            let manifests = ["io", "base", "load"].map(|name| format!("crates/{name}/Cargo.toml"));
            let manifests: Vec<(&str, &str)> = manifests.iter().map(|path| (path.as_str(), "")).collect();
            let mut faults = Vec::new();
            check_drawing(&Tree::of(&[manifests, vec![(DRAWING, drawing)]].concat()), &mut faults);
            faults.len()
        };
        assert_eq!(faults("L5  \nL4  \nL3  load\nL2  io\nL1  \nL0  base\n"), 0);
        assert_eq!(faults("L5  \nL4  \nL3  \nL2  io  load\nL1  \nL0  base\n"), 1);
    }

    #[test]
    fn a_crate_without_a_level_is_found() {
        assert_eq!(faults_of("crates/extra/Cargo.toml", "[package]\nname = \"gannet-extra\"\n").len(), 1);
    }

    #[test]
    fn the_allow_list_itself_never_points_up() {
        for (name, allowed) in ALLOWED {
            for dependency in *allowed {
                assert!(level(dependency) <= level(name), "{name} -> {dependency}");
            }
        }
    }
}
