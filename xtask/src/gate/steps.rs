//! The price of a step: instructions a key, field or kilobyte of the commands that take many slices.
//!
//! They run in a program of their own, under a simulated clock, since callgrind's slowness would end each slice of the
//! real server after one or two steps: `crates/server/examples/long_commands.rs`, which says how the two talk.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::callgrind;

/// The prices that are kept, by the names of the commands.
pub const KEPT: &str = "xtask/src/gate/steps.toml";
/// The function in which instructions are counted.
const COUNTED: &str = "--toggle-collect=*worker_iteration*";

/// What one command cost.
pub struct Price {
    pub command: String,
    /// Unit of `instructions`: a key, field or record is an `operation` or is `walked` over.
    pub unit: &'static str,
    /// Instructions a unit.
    pub instructions: u64,
}

/// The program under callgrind. Dropping it ends its input, and with that itself, and removes the files.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The program's own process: `child` is cargo.
    pid: u32,
    folder: PathBuf,
}

impl Program {
    fn start(root: &Path) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("gannet-gate-{}-steps", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut under = vec!["valgrind".to_owned()];
        under.extend(callgrind::options(&folder));
        under.push(COUNTED.into());
        let quoted: Vec<String> = under.iter().map(|word| format!("'{word}'")).collect();
        let mut command = Command::new("cargo");
        command.args(["run", "--release", "--quiet", "--package", "gannet-server", "--example", "long_commands"]);
        command.arg("--config").arg(format!("target.'cfg(all())'.runner = [{}]", quoted.join(", ")));
        command.current_dir(root).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cargo: {error}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("cargo's output is not a pipe")?;
        let mut program = Self { child, input, output: BufReader::new(output), pid: 0, folder };
        let line = program.read()?.ok_or("the program of long commands did not start")?;
        let pid = line.strip_prefix("pid ").and_then(|pid| pid.parse().ok());
        program.pid = pid.ok_or_else(|| format!("the program of long commands says {line:?}"))?;
        Ok(program)
    }

    /// The next line; `None` at the end.
    fn read(&mut self) -> Result<Option<String>, String> {
        let mut line = String::new();
        let bytes = self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok((bytes > 0).then(|| line.trim_end().to_owned()))
    }

    /// Lets it go on.
    fn go_on(&mut self) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("the program's input is closed")?;
        input.write_all(b"\n").and_then(|()| input.flush()).map_err(|error| error.to_string())
    }

    /// Runs the next command and prices it; `None` after the last one.
    fn next(&mut self) -> Result<Option<Price>, String> {
        let Some(line) = self.read()? else { return Ok(None) };
        let words: Vec<&str> = line.split('\t').collect();
        let &[command, units, unit] = words.as_slice() else { return Err(format!("not a command: {line:?}")) };
        let units: u64 = units.parse().map_err(|_| format!("no number of units: {line:?}"))?;
        let (unit, units) = match unit {
            "Byte" => ("KiB", units >> 10),
            "Walked" => ("walked over", units),
            _ => ("operation", units),
        };
        callgrind::control(self.pid, "--zero")?;
        self.go_on()?;
        match self.read()?.as_deref() {
            Some("done") => {}
            other => return Err(format!("{command}: not done: {other:?}")),
        }
        let instructions = callgrind::take(self.pid, &self.folder)?;
        self.go_on()?;
        Ok(Some(Price { command: command.to_owned(), unit, instructions: instructions.div_ceil(units.max(1)) }))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Prices every command.
///
/// # Errors
/// When the program cannot be built, or it or callgrind does not do what it should.
pub fn count(root: &Path) -> Result<Vec<Price>, String> {
    let mut program = Program::start(root)?;
    let mut prices = Vec::new();
    while let Some(price) = program.next()? {
        prices.push(price);
    }
    match program.child.wait() {
        Ok(status) if status.success() => Ok(prices),
        Ok(status) => Err(format!("the program of long commands: {status}")),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

/// Prices by the names of the commands.
pub fn by_name(prices: &[Price]) -> BTreeMap<String, u64> {
    prices.iter().map(|price| (price.command.clone(), price.instructions)).collect()
}
