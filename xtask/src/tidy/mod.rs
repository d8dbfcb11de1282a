//! Checks style and architecture: `cargo run -p xtask -- tidy`.
//!
//! ```text
//!   tree ──> text   line and file lengths, stale terms      (any text file)
//!        ├─> rust   function lengths, unsafe, calls, names  (parsed with syn)
//!        ├─> edges  allowed dependencies between crates     (Cargo.toml)
//!        ├─> floors allowed uses between modules            (parsed with syn)
//!        ├─> ports  fixed ports in tests                    (parsed with syn; Python, Go, JavaScript, Java)
//!        ├─> docs   commands, links and paths in documents   (Markdown, Makefile)
//!        └─> house  the structure of each crate             (parsed with syn)
//! ```
//!
//! `commits` checks the subjects of the latest commits, and `dependencies` the packages of other authors. Checks never
//! change files. A fault is printed with the file, the line and the remedy. All faults are printed, not only the first.

mod commits;
mod dependencies;
mod docs;
mod edges;
mod fault;
mod floors;
mod house;
mod imports;
mod ports;
mod rust;
mod sample;
mod text;
mod tree;

use std::path::Path;

pub use fault::Breach;
use tree::Tree;

/// Returns all faults below `root`, sorted, and the number of checked files.
///
/// # Errors
/// If the tree cannot be read.
pub fn faults(root: &Path) -> std::io::Result<(Vec<Breach>, usize)> {
    let tree = Tree::read(root)?;
    let mut faults = Vec::new();
    text::check(&tree, &mut faults);
    rust::check(&tree, &mut faults);
    edges::check(&tree, &mut faults);
    floors::check(&tree, &mut faults);
    ports::check(&tree, &mut faults);
    docs::check(&tree, &mut faults);
    house::check(&tree, &mut faults);
    commits::check(root, &mut faults)?;
    dependencies::check(root, &mut faults)?;
    faults.sort();
    faults.dedup();
    Ok((faults, tree.files.len()))
}

/// Prints every fault below `root`. Returns false if a fault was found, or if there are no files to check.
///
/// # Errors
/// If the tree cannot be read.
pub fn run(root: &Path) -> std::io::Result<bool> {
    let (faults, files) = faults(root)?;
    for fault in &faults {
        println!("{fault}");
    }
    println!("tidy: {files} files, {} faults", faults.len());
    Ok(faults.is_empty() && files > 0)
}

/// Prints the figures of each crate below `root`.
///
/// # Errors
/// If the tree cannot be read.
pub fn house(root: &Path) -> std::io::Result<()> {
    house::print(&Tree::read(root)?);
    Ok(())
}

/// Prints the largest import cycle of one crate below `root`. Returns false if no crate has that name.
///
/// # Errors
/// If the tree cannot be read.
pub fn cycle(root: &Path, name: &str) -> std::io::Result<bool> {
    Ok(house::print_cycle(&Tree::read(root)?, name))
}

/// Prints a random sample of doc comments and strings of each crate below `root`, or of one crate. Without a seed, the
/// hash of the latest commit's parent is the seed. Returns false if no crate has that name.
///
/// # Errors
/// If the tree cannot be read, or if git cannot find the parent.
pub fn sample(root: &Path, only: Option<&str>, seed: Option<String>) -> std::io::Result<bool> {
    let seed = seed.map_or_else(|| sample::parent_hash(root), Ok)?;
    Ok(sample::print(&Tree::read(root)?, only, &seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies below the root");
        let (faults, files) = faults(root).expect("the tree is readable");
        assert!(files > 10, "only {files} files were looked at");
        let lines: Vec<String> = faults.iter().map(Breach::to_string).collect();
        assert!(faults.is_empty(), "\n{}", lines.join("\n"));
    }
}
