//! The published policies, from libCacheSim: a Python environment of its own under the target folder.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Access, Stream, gannet};

/// In the order of `peers.py`.
pub const POLICIES: [&str; 5] = ["LRU", "SIEVE", "S3-FIFO", "W-TinyLFU", "ARC"];
const LIBRARY: &str = "libcachesim==0.3.5";
const SCRIPT: &str = include_str!("peers.py");

/// An environment in which the library is installed.
#[derive(Debug)]
pub struct Peers {
    folder: PathBuf,
}

impl Peers {
    /// Makes the environment, if it is not there.
    ///
    /// # Errors
    /// When Python or the library is not to be had.
    pub fn install(target: &Path) -> Result<Self, String> {
        let folder = target.join("policy");
        let peers = Self { folder };
        if !peers.python().exists() {
            std::fs::create_dir_all(&peers.folder).map_err(|error| format!("{}: {error}", peers.folder.display()))?;
            output(Command::new("python3").args(["-m", "venv"]).arg(&peers.folder))?;
        }
        output(Command::new(peers.python()).args(["-m", "pip", "install", "--quiet", LIBRARY]))?;
        Ok(peers)
    }

    fn python(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// Misses of each policy at each size; `None` where the library cannot tell.
    ///
    /// # Errors
    /// When the script fails; its last words.
    pub fn misses(&self, stream: &Stream, accesses: &[Access], sizes: &[u64]) -> Result<Vec<Vec<Option<u64>>>, String> {
        let lifetimes = accesses.iter().any(|access| access.ttl_ms > 0);
        let trace = self.folder.join(format!("{}.trace", stream.name));
        let write = || -> std::io::Result<()> {
            let mut file = std::io::BufWriter::new(std::fs::File::create(&trace)?);
            for access in accesses {
                let bytes = gannet::cost_bytes(access);
                if lifetimes {
                    for word in [access.key, access.at_ms, access.ttl_ms, bytes] {
                        file.write_all(&word.to_le_bytes())?;
                    }
                } else {
                    // Nothing here looks ahead: the next access is told as "none".
                    file.write_all(&((access.at_ms / 1000) as u32).to_le_bytes())?;
                    file.write_all(&access.key.to_le_bytes())?;
                    file.write_all(&(bytes as u32).to_le_bytes())?;
                    file.write_all(&(-1i64).to_le_bytes())?;
                }
            }
            file.flush()
        };
        write().map_err(|error| format!("{}: {error}", trace.display()))?;
        let mut command = Command::new(self.python());
        let kind = if lifetimes { "lifetimes" } else { "for-ever" };
        command.args(["-c", SCRIPT, kind]).arg(&trace).args(sizes.iter().map(u64::to_string));
        let text = output(&mut command)?;
        std::fs::remove_file(&trace).map_err(|error| format!("{}: {error}", trace.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("peers.py: {error}: {text}"))
    }
}

fn output(command: &mut Command) -> Result<String, String> {
    let done = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{}: {}", done.status, String::from_utf8_lossy(&done.stderr)));
    }
    String::from_utf8(done.stdout).map_err(|error| error.to_string())
}
