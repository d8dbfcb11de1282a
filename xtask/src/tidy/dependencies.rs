//! Checks the packages of `Cargo.lock`: their licences, their sources, and that none is there in several versions.
//!
//! A package in two versions is compiled twice and has to be updated twice. `dependencies.toml` names those that cannot
//! be avoided, with the packages that need them, and the licences that are allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::Command;

use super::Breach;
use serde::Deserialize;
use serde_json::Value;

/// The file with the allowed licences and duplicates.
const RULES: &str = "xtask/src/tidy/dependencies.toml";
/// The only source of packages.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The contents of [`RULES`].
#[derive(Debug, Default, Deserialize)]
struct Rules {
    /// The allowed licences, by their SPDX names.
    licences: BTreeSet<String>,
    /// Packages that are there in several versions, each with the reason.
    duplicates: BTreeMap<String, String>,
}

/// A package of the lock file.
#[derive(Clone, Debug)]
struct Package {
    name: String,
    version: String,
    /// `None` for a package of this repository.
    source: Option<String>,
    licence: Option<String>,
}

/// Checks the packages that `root` depends on. Does nothing if `root` has no lock file.
///
/// # Errors
/// If cargo cannot be run or fails, or if [`RULES`] cannot be read.
pub fn check(root: &Path, faults: &mut Vec<Breach>) -> io::Result<()> {
    if !root.join("Cargo.lock").exists() {
        return Ok(());
    }
    let text = std::fs::read_to_string(root.join(RULES))?;
    let rules: Rules = toml::from_str(&text).map_err(io::Error::other)?;
    check_packages(&packages(root)?, &rules, faults);
    Ok(())
}

/// Returns the packages for this platform, as cargo reports them.
fn packages(root: &Path) -> io::Result<Vec<Package>> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let args = ["metadata", "--format-version=1", "--locked", "--filter-platform", &platform];
    let output = Command::new(cargo).current_dir(root).args(args).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let text = |package: &Value, key: &str| package[key].as_str().map(str::to_owned);
    let all = metadata["packages"].as_array().into_iter().flatten();
    let package = |package: &Value| {
        let (name, version) = (text(package, "name")?, text(package, "version")?);
        Some(Package { name, version, source: text(package, "source"), licence: text(package, "license") })
    };
    Ok(all.filter_map(package).collect())
}

fn check_packages(packages: &[Package], rules: &Rules, faults: &mut Vec<Breach>) {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let Some(source) = &package.source else { continue };
        versions.entry(&package.name).or_default().insert(&package.version);
        let (name, version) = (&package.name, &package.version);
        let mut fault = |why: String| faults.push(Breach::new("Cargo.lock", 0, format!("{name} {version}: {why}")));
        if source != REGISTRY {
            fault(format!("its source is {source}; use a release from the registry"));
        }
        match &package.licence {
            None => fault("it names no licence; use another package".to_owned()),
            Some(licence) if !is_allowed(licence, &rules.licences) => {
                fault(format!("its licence is {licence}; use another package, or allow the licence in {RULES}"));
            }
            Some(_) => {}
        }
    }
    for (name, versions) in &versions {
        if versions.len() > 1 && !rules.duplicates.contains_key(*name) {
            let versions = versions.iter().copied().collect::<Vec<_>>().join(" and ");
            let remedy = format!("use one version, or give the reason in {RULES}");
            faults.push(Breach::new("Cargo.lock", 0, format!("{name} is there in the versions {versions}: {remedy}")));
        }
    }
    for name in rules.duplicates.keys() {
        if versions.get(name.as_str()).is_none_or(|versions| versions.len() < 2) {
            faults.push(Breach::new(RULES, 0, format!("{name} is there in one version or none: remove its line")));
        }
    }
}

/// Returns true if a licence expression of SPDX can be satisfied with the allowed licences. `/` is an old form of `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ").replace(" WITH ", "-WITH-");
    let words: Vec<String> = spaced.split_whitespace().map(|word| word.replace("-WITH-", " WITH ")).collect();
    let mut at = 0;
    any(&words, &mut at, allowed) && at == words.len()
}

fn any(words: &[String], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut holds = all(words, at, allowed);
    while words.get(*at).is_some_and(|word| word == "OR") {
        *at += 1;
        holds |= all(words, at, allowed);
    }
    holds
}

fn all(words: &[String], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut holds = one(words, at, allowed);
    while words.get(*at).is_some_and(|word| word == "AND") {
        *at += 1;
        holds &= one(words, at, allowed);
    }
    holds
}

fn one(words: &[String], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if word != "(" {
        return allowed.contains(word);
    }
    let holds = any(words, at, allowed);
    let is_closed = words.get(*at).is_some_and(|word| word == ")");
    *at += 1;
    holds && is_closed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, licence: Option<&str>) -> Package {
        let licence = licence.map(str::to_owned);
        Package { name: name.to_owned(), version: version.to_owned(), source: Some(REGISTRY.to_owned()), licence }
    }

    fn rules(duplicates: &[&str]) -> Rules {
        Rules {
            licences: ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into(),
            duplicates: duplicates.iter().map(|name| ((*name).to_owned(), "a reason".to_owned())).collect(),
        }
    }

    #[test]
    fn an_expression_is_allowed_if_one_of_its_alternatives_is() {
        let allowed = rules(&[]).licences;
        for expression in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "(MIT OR GPL-3.0) AND ISC",
            "GPL-3.0 OR MIT AND ISC",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(is_allowed(expression, &allowed), "{expression}");
        }
        for expression in
            ["GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR AGPL-3.0) AND MIT", "Apache-2.0", "", "(MIT", "MIT ISC"]
        {
            assert!(!is_allowed(expression, &allowed), "{expression}");
        }
    }

    #[test]
    fn duplicates_licences_and_sources_are_found() {
        let found = |packages: &[Package], duplicates: &[&str]| {
            let mut faults = Vec::new();
            check_packages(packages, &rules(duplicates), &mut faults);
            faults.iter().map(Breach::to_string).collect::<Vec<_>>()
        };
        let twice = [package("a", "1.0.0", Some("MIT")), package("a", "2.0.0", Some("MIT"))];
        assert!(found(&twice, &[])[0].contains("a is there in the versions 1.0.0 and 2.0.0"));
        assert_eq!(found(&twice, &["a"]), [""; 0]);
        assert!(found(&twice[..1], &["a"])[0].contains("remove its line"));
        assert!(found(&[package("b", "1.0.0", Some("GPL-3.0"))], &[])[0].contains("b 1.0.0: its licence is GPL-3.0"));
        assert!(found(&[package("b", "1.0.0", None)], &[])[0].contains("names no licence"));
        let git =
            Package { source: Some("git+https://example.com/b".to_owned()), ..package("b", "1.0.0", Some("MIT")) };
        assert!(found(&[git], &[])[0].contains("use a release"));
        let own = Package { source: None, ..package("c", "0.1.0", None) };
        assert_eq!(found(&[own], &[]), [""; 0]);
    }
}
