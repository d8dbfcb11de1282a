//! Runs that look for what ordinary tests cannot see: models of interleavings, sanitizers, fuzzing.
//!
//! Each says in one line why it was skipped where the toolchain lacks what it needs.

use std::path::Path;
use std::process::Command;

const HOST: &str = "x86_64-unknown-linux-gnu";

/// Packages that hold unsafe code.
const UNSAFE_PACKAGES: [&str; 3] = ["gannet-arena", "gannet-segment", "gannet-io"];

fn execute(command: &mut Command) -> Result<bool, String> {
    let status = command.status().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    Ok(status.success())
}

fn cargo(root: &Path) -> Command {
    // A toolchain that was chosen by `cargo +name` would be inherited; `rustup run` and the plain name choose anew.
    let mut command = Command::new("cargo");
    command.current_dir(root).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    command
}

fn packages(command: &mut Command) -> &mut Command {
    UNSAFE_PACKAGES.iter().fold(command, |command, package| command.args(["-p", package]))
}

fn has_nightly(component: &str) -> bool {
    let toolchains = Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).output();
    let is_there = toolchains.is_ok_and(|output| output.status.success());
    let program = Command::new("rustup").args(["run", "nightly", "cargo", component, "--version"]).output();
    is_there && (component.is_empty() || program.is_ok_and(|output| output.status.success()))
}

/// The concurrency models of the store, under shuttle's scheduler.
///
/// # Errors
/// When cargo cannot be started.
pub fn models(root: &Path, target: &Path) -> Result<bool, String> {
    println!("models: run by shuttle, which draws schedules from a seed");
    let mut command = cargo(root);
    command.args(["test", "--release", "-p", "gannet-segment", "--lib", "models"]);
    execute(command.env("RUSTFLAGS", "--cfg shuttle").env("CARGO_TARGET_DIR", target.join("shuttle")))
}

/// The tests of the crates with unsafe code, model and stress among them, under AddressSanitizer.
///
/// # Errors
/// When cargo cannot be started.
pub fn asan(root: &Path, target: &Path) -> Result<bool, String> {
    if !has_nightly("") {
        println!("asan: skipped, no nightly toolchain (`rustup toolchain install nightly`)");
        return Ok(true);
    }
    let mut command = cargo(root);
    packages(command.args(["+nightly", "test", "--target", HOST, "--tests"]));
    execute(command.env("RUSTFLAGS", "-Zsanitizer=address").env("CARGO_TARGET_DIR", target.join("asan")))
}

/// Unit tests of the crates with unsafe code that need no system call, under Miri.
///
/// # Errors
/// When cargo cannot be started.
pub fn miri(root: &Path, target: &Path) -> Result<bool, String> {
    if !has_nightly("miri") {
        println!("miri: skipped, no nightly toolchain with Miri (`rustup +nightly component add miri`)");
        return Ok(true);
    }
    let mut command = cargo(root);
    command.args(["+nightly", "miri", "test", "-p", "gannet-segment", "--lib", "raw"]);
    execute(command.env("CARGO_TARGET_DIR", target.join("miri")))
}

/// Unit tests of the crates with unsafe code under valgrind.
///
/// # Errors
/// When cargo cannot be started.
pub fn valgrind(root: &Path) -> Result<bool, String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("valgrind: skipped, it is not installed (`apt-get install valgrind`)");
        return Ok(true);
    }
    let mut command = cargo(root);
    packages(command.args(["test", "--lib"]));
    command.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", "valgrind -q --error-exitcode=99");
    execute(command.env("RUST_TEST_THREADS", "1"))
}

/// Each fuzz target for `seconds` seconds.
///
/// # Errors
/// When the fuzz folder cannot be read or cargo cannot be started.
pub fn fuzz(root: &Path, seconds: u64) -> Result<bool, String> {
    if !has_nightly("fuzz") {
        println!("fuzz: skipped, no nightly toolchain with cargo-fuzz (`cargo install cargo-fuzz`)");
        return Ok(true);
    }
    let folder = std::fs::read_dir(root.join("fuzz/fuzz_targets")).map_err(|error| error.to_string())?;
    let names = folder.filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    for name in names {
        let mut command = cargo(root);
        command.args(["+nightly", "fuzz", "run", &name, "--", &format!("-max_total_time={seconds}")]);
        if !execute(&mut command)? {
            return Ok(false);
        }
    }
    Ok(true)
}
