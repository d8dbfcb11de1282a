//! Runs tools that find faults which ordinary tests miss: models of thread interleavings, sanitizers, fuzzing.
//!
//! A tool is skipped if the toolchain lacks a component; the function then prints one line with the reason.

use std::path::Path;
use std::process::Command;

/// Packages that contain unsafe code.
const UNSAFE_PACKAGES: [&str; 3] = ["gannet-arena", "gannet-segment", "gannet-io"];

fn execute(command: &mut Command) -> Result<bool, String> {
    let status = command.status().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    Ok(status.success())
}

/// Returns a cargo command in `root`, with the toolchain that `root` selects.
pub fn cargo(root: &Path) -> Command {
    // Removes the variables by which the command would inherit a toolchain that the user chose with `cargo +NAME`.
    let mut command = Command::new("cargo");
    command.current_dir(root).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    command
}

fn packages(command: &mut Command) -> &mut Command {
    UNSAFE_PACKAGES.iter().fold(command, |command, package| command.args(["-p", package]))
}

/// Returns this machine's target triple. Builds with sanitizers pass it as `--target`, so that cargo does not
/// instrument build scripts.
fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|error| format!("rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not print its host".to_owned())
}

const NO_NIGHTLY: &str = "no nightly toolchain (`rustup toolchain install nightly`)";

fn has_nightly() -> bool {
    nightly_runs(&["rustc", "--version"])
}

fn nightly_runs(arguments: &[&str]) -> bool {
    let output = Command::new("rustup").args(["run", "nightly"]).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// Runs the concurrency models: the store under shuttle's scheduler, then the protocols that depend on memory orders
/// under loom.
///
/// # Errors
/// If cargo cannot be started.
pub fn models(root: &Path, target: &Path) -> Result<bool, String> {
    println!("models: run by shuttle, which draws schedules from a seed");
    let ran = models_under(root, target, "shuttle", &["--lib", "models"])?;
    println!("models: run by loom, which tries all executions of the C++ memory model up to a bound");
    Ok(models_under(root, target, "loom", &["--test", "loom"])? && ran)
}

fn models_under(root: &Path, target: &Path, tool: &str, which: &[&str]) -> Result<bool, String> {
    let mut command = cargo(root);
    command.args(["test", "--profile", "models", "-p", "gannet-segment"]).args(which);
    // Each schedule maps and unmaps memory. With a second thread in the process, each unmapping interrupts the other
    // CPU, so two threads need much more CPU time than one.
    command.args(["--", "--test-threads=1"]);
    execute(command.env("RUSTFLAGS", format!("--cfg {tool}")).env("CARGO_TARGET_DIR", target.join(tool)))
}

/// Runs the tests of the crates with unsafe code, including models and stress tests, under AddressSanitizer.
///
/// # Errors
/// If cargo cannot be started.
pub fn asan(root: &Path, target: &Path) -> Result<bool, String> {
    if !has_nightly() {
        println!("asan: skipped, {NO_NIGHTLY}");
        return Ok(true);
    }
    let mut command = cargo(root);
    packages(command.args(["+nightly", "test", "--target", &host()?, "--tests"]));
    execute(command.env("RUSTFLAGS", "-Zsanitizer=address").env("CARGO_TARGET_DIR", target.join("asan")))
}

/// Runs the unit tests of the crates with unsafe code that make no system calls, under Miri.
///
/// # Errors
/// If cargo cannot be started.
pub fn miri(root: &Path, target: &Path) -> Result<bool, String> {
    if !nightly_runs(&["cargo", "miri", "--version"]) {
        println!("miri: skipped, no nightly toolchain with Miri (`rustup +nightly component add miri`)");
        return Ok(true);
    }
    let mut command = cargo(root);
    command.args(["+nightly", "miri", "test", "-p", "gannet-segment", "--lib", "raw"]);
    execute(command.env("CARGO_TARGET_DIR", target.join("miri")))
}

/// Cargo's setting that runs every test program under valgrind. Only definite leaks count, because the test harness
/// references a few blocks only by inner pointers, and valgrind reports such blocks as possibly lost.
const VALGRIND: &str = "target.'cfg(all())'.runner = ['valgrind', '-q', '--error-exitcode=99', '--leak-check=full', \
    '--show-leak-kinds=definite', '--errors-for-leak-kinds=definite']";

/// Runs the unit tests of the crates with unsafe code under valgrind.
///
/// # Errors
/// If cargo cannot be started.
pub fn valgrind(root: &Path) -> Result<bool, String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("valgrind: skipped, because it is not installed (`apt-get install valgrind`)");
        return Ok(true);
    }
    let mut command = cargo(root);
    packages(command.args(["test", "--lib", "--config", VALGRIND]));
    execute(command.env("RUST_TEST_THREADS", "1"))
}

/// Compiler flags that instrument a program for libFuzzer: AddressSanitizer, and counters of edges and comparisons.
const FUZZ_FLAGS: &str = "--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module -Cdebug-assertions \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// Runs each fuzz target for `seconds` seconds, from its seeds in the repository. New inputs are stored in the target
/// directory: inputs that reach new code in `fuzz/found/TARGET`, and a failing input as `fuzz/TARGET-crash-...`.
///
/// # Errors
/// If a directory cannot be read or created, or if cargo or a target cannot be started.
pub fn fuzz(root: &Path, target: &Path, seconds: u64) -> Result<bool, String> {
    if !has_nightly() {
        println!("fuzz: skipped, {NO_NIGHTLY}");
        return Ok(true);
    }
    let (target, host) = (target.join("fuzz"), host()?);
    let mut build = cargo(root);
    build.args(["+nightly", "build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", &host]);
    if !execute(build.env("RUSTFLAGS", FUZZ_FLAGS).env("CARGO_TARGET_DIR", &target))? {
        return Ok(false);
    }
    let folder = std::fs::read_dir(root.join("fuzz/fuzz_targets")).map_err(|error| error.to_string())?;
    let names = folder.filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    for name in names {
        let found = target.join("found").join(&name);
        std::fs::create_dir_all(&found).map_err(|error| error.to_string())?;
        println!("fuzz: {name}, {seconds} s");
        let mut run = Command::new(target.join(&host).join("release").join(&name));
        run.arg(format!("-max_total_time={seconds}"));
        run.arg(format!("-artifact_prefix={}/{name}-", target.display()));
        if !execute(run.args([found, root.join("fuzz/corpus").join(&name)]))? {
            return Ok(false);
        }
    }
    Ok(true)
}
