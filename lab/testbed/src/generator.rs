//! Runs `gannet load` as a separate program, as users do, and reads its result.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use load::result::RunResult;

/// A temporary directory for workload files and results. Dropping this value removes the directory.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates the directory in the system's directory for temporary files.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("gannet-generators-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    /// Writes a file in the directory. Returns its path.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.0.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes a copy of the workload that stores every key before the run. Returns its path.
///
/// # Errors
/// If the workload cannot be read, or if the copy cannot be written.
pub fn prefilled(workload: &Path, folder: &Folder) -> Result<PathBuf, String> {
    let text = std::fs::read_to_string(workload).map_err(|error| error.to_string())?;
    folder.write("prefilled.toml", &format!("prefill = true\n{text}"))
}

/// Runs `command` to its end. Returns its standard output.
///
/// # Errors
/// If the command does not start, or fails.
pub fn output(mut command: Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // `gannet load` exits with 3 if it was the bottleneck, which is expected in a closed loop.
    match output.status.code() {
        Some(0 | 3) => Ok(text),
        _ => Err(format!("{name}: {}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

/// Runs `gannet load` with `flags` on a workload. Returns its result.
///
/// # Errors
/// If `gannet load` fails, or if a request did not find its key.
pub fn load_with(addr: &str, workload: &Path, flags: &[&str], folder: &Folder) -> Result<RunResult, String> {
    let json = folder.0.join("ours.json");
    let mut command = Command::new(crate::server::gannet_binary()?);
    command.args(["load", "--target", addr, "--warm-up", "200ms", "--quiet"]).args(flags);
    command.arg("--workload").arg(workload).arg("--json").arg(&json);
    output(command)?;
    let text = std::fs::read_to_string(&json).map_err(|error| format!("{}: {error}", json.display()))?;
    let result = RunResult::from_json(&text).map_err(|error| format!("{}: {error}", json.display()))?;
    let counts = &result.figures.counts;
    if counts.errors + counts.misses + counts.unanswered > 0 {
        return Err(format!("gannet load: a request did not find its key: {counts:?}"));
    }
    Ok(result)
}
