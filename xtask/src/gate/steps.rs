//! Counts the instructions per step of commands that take many slices. A step is a key, a field, a record or a KiB.
//!
//! The commands run under a simulated clock in the program `lab/long_commands/src/main.rs`, whose
//! documentation describes the lines that it exchanges with this module. With a real clock, callgrind is so slow that
//! each slice would end after one step. The program is always built from this checkout, even if `GANNET_BIN` names
//! another server.
//!
//! This module does not limit its waits for the program, because the program always ends: at the end of its input, or
//! if a command is not complete after a million iterations.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use testbed::target_folder;

use super::{callgrind, near};
use crate::machines::cargo;

/// Path of the file of stored costs, which has a line for each command.
pub const KEPT: &str = "xtask/src/gate/steps.toml";
/// The option by which callgrind counts only the instructions of this function and of the functions that it calls.
const COUNTED: &str = "--toggle-collect=*worker_iteration*";

/// Makes the C library copy without `rep movsb`. Callgrind counts an instruction for each byte of it, and the library
/// uses it or not as the distance between source and target is, which differs from run to run.
const COPIES: &str = "glibc.cpu.x86_rep_movsb_threshold=1099511627776:glibc.cpu.x86_rep_stosb_threshold=1099511627776";

/// The cargo command that builds the program, beside the server with the features that the server has without it.
const BUILD: [&str; 7] = ["build", "--release", "--quiet", "--package", "gannet", "--package", "long_commands"];

/// The cost of one command, per step.
pub struct Price {
    pub command: String,
    /// The unit: `operation`, `walked over` (one key, field or record that a walk visits), or `KiB`.
    pub unit: &'static str,
    /// Instructions per unit.
    pub instructions: u64,
}

/// The program of long commands, under callgrind. Dropping this value closes the program's input, which ends the
/// program, and removes callgrind's files.
struct Program {
    /// Valgrind, in whose process the program runs.
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Process id that the program printed.
    pid: u32,
    folder: PathBuf,
}

impl Program {
    fn start(root: &Path) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("gannet-gate-{}-steps", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut command = Command::new("valgrind");
        command.args(callgrind::options(&folder)).arg(COUNTED).arg(target_folder(root).join("release/long_commands"));
        command.env("GLIBC_TUNABLES", COPIES).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("valgrind: {error}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("the program's output is not a pipe")?;
        let mut program = Self { child, input, output: BufReader::new(output), pid: 0, folder };
        let line = program.read()?.ok_or("the program of long commands did not start")?;
        let pid = line.strip_prefix("pid ").and_then(|pid| pid.parse().ok());
        program.pid = pid.ok_or_else(|| format!("the program of long commands printed {line:?}"))?;
        Ok(program)
    }

    /// Reads the program's next output line; `None` at the end.
    fn read(&mut self) -> Result<Option<String>, String> {
        let mut line = String::new();
        let bytes = self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok((bytes > 0).then(|| line.trim_end().to_owned()))
    }

    /// Sends the program an empty line, for which it waits before it continues.
    fn go_on(&mut self) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("the program's input is closed")?;
        input.write_all(b"\n").and_then(|()| input.flush()).map_err(|error| error.to_string())
    }

    /// Runs the next command and measures its cost; `None` after the last one.
    fn next(&mut self) -> Result<Option<Price>, String> {
        let Some(line) = self.read()? else { return Ok(None) };
        let (command, unit, units) = parse(&line)?;
        callgrind::control(self.pid, "--zero")?;
        self.go_on()?;
        match self.read()?.as_deref() {
            Some("done") => {}
            other => return Err(format!("{command}: the command did not complete: {other:?}")),
        }
        let instructions = callgrind::take(self.pid, &self.folder)?;
        self.go_on()?;
        Ok(Some(Price { command: command.to_owned(), unit, instructions: instructions.div_ceil(units) }))
    }
}

/// Parses a command's line: its name, the unit, and the number of units, at least 1.
fn parse(line: &str) -> Result<(&str, &'static str, u64), String> {
    let error = || format!("cannot parse the command's line {line:?}: want NAME, UNITS and UNIT, separated by tabs");
    let words: Vec<&str> = line.split('\t').collect();
    let &[command, units, unit] = words.as_slice() else { return Err(error()) };
    let units: u64 = units.parse().map_err(|_| error())?;
    let (unit, units) = match unit {
        "Byte" => ("KiB", units >> 10),
        "Walked" => ("walked over", units),
        "Operation" => ("operation", units),
        _ => return Err(error()),
    };
    Ok((command, unit, units.max(1)))
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Builds the program and the server with one cargo command, so that they share the build of the crates below them.
///
/// # Errors
/// If cargo fails.
pub fn build(root: &Path) -> Result<(), String> {
    let status = cargo(root).args(BUILD).status().map_err(|error| format!("cargo: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("cannot build the program of long commands: cargo: {status}")),
    }
}

/// Measures the cost of every command. The program must be built.
///
/// # Errors
/// If the program ends early, or if callgrind does not reply.
pub fn count(root: &Path) -> Result<Vec<Price>, String> {
    let mut program = Program::start(root)?;
    let mut prices = Vec::new();
    while let Some(price) = program.next()? {
        prices.push(price);
    }
    match program.child.wait() {
        Ok(status) if status.success() => Ok(prices),
        Ok(status) => Err(format!("the program of long commands: {status}")),
        Err(error) => Err(format!("valgrind: {error}")),
    }
}

/// Returns the costs by the names of the commands.
pub fn by_name(prices: &[Price]) -> BTreeMap<String, u64> {
    prices.iter().map(|price| (price.command.clone(), price.instructions)).collect()
}

/// Returns the commands whose cost differs from the stored cost, that have no stored cost, or that were not measured.
pub fn strayed(prices: &[Price], kept: &BTreeMap<String, u64>) -> Vec<String> {
    let now = by_name(prices);
    let gone = kept.keys().filter(|command| !now.contains_key(*command));
    let is_kept = |price: &&Price| kept.get(&price.command).is_some_and(|was| near(price.instructions, *was));
    let other = prices.iter().filter(|price| !is_kept(price)).map(|price| &price.command);
    gone.chain(other).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_that_differs_is_new_or_is_missing_strays() {
        let price = |command: &str, instructions| Price { command: command.into(), unit: "KiB", instructions };
        let kept = BTreeMap::from([("GET".into(), 1000), ("SET".into(), 1000), ("DEL".into(), 1000)]);
        let prices = [price("GET", 1030), price("SET", 939), price("COPY", 5)];
        assert_eq!(strayed(&prices, &kept), ["DEL", "SET", "COPY"]);
        assert!(strayed(&[price("GET", 1)], &BTreeMap::from([("GET".into(), 1)])).is_empty());
    }

    #[test]
    fn a_line_names_a_command_its_length_and_its_unit() {
        assert_eq!(parse("KEYS *\t10000\tWalked"), Ok(("KEYS *", "walked over", 10_000)));
        assert_eq!(parse("GET\t41943040\tByte"), Ok(("GET", "KiB", 40_960)));
        assert_eq!(parse("GET\t5\tByte"), Ok(("GET", "KiB", 1)), "never a division by zero");
        for line in ["", "GET\t5", "GET\tmany\tByte", "GET\t5\tInch", "GET\t5\tByte\t"] {
            assert!(parse(line).is_err(), "{line:?}");
        }
    }
}
