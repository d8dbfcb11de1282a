//! The test bed for the measurements of `xtask` and `lab`: servers as child processes, facts about the host, and other
//! projects' programs.
//!
//! ```text
//!   xtask  bench, gate ─┐
//!   lab    rigs ────────┴──> server       null, Gannet, memcached, Valkey, redis-server; dropping a server ends it
//!                            generator    `gannet load` as a separate program
//!                            host         CPU time and memory of processes, description of the machine
//!                            clock        a server's clock, moved forward or slowed down
//!                            needs        Debian packages with other projects' programs
//! ```
#![forbid(unsafe_code)]

pub mod clock;
pub mod generator;
pub mod host;
pub mod needs;
pub mod null_server;
pub mod server;
pub mod valkey;

use std::env;
use std::path::{Path, PathBuf};

/// Returns the repository's root.
///
/// # Panics
/// If this crate is not two directories below the root.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.expect("the crate is two directories below the root").to_path_buf()
}

/// Returns cargo's target directory.
pub fn target_folder(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}
