//! Runs the published policies of libCacheSim, in a Python environment in the target directory.
//!
//! The misses of a policy for a trace never change, so they are stored beside the environment and computed only once.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::gannet;
use super::streams::Access;

/// The policies, by their names in `peers.py`.
pub const POLICIES: [&str; 5] = ["LRU", "SIEVE", "S3-FIFO", "W-TinyLFU", "ARC"];
const LIBRARY: &str = "libcachesim==0.3.5";
const SCRIPT: &str = include_str!("peers.py");

/// An environment in which the library is installed.
#[derive(Debug)]
pub struct Peers {
    folder: PathBuf,
}

impl Peers {
    /// Creates the environment if it does not exist.
    ///
    /// # Errors
    /// If Python or the library is not available.
    pub fn install(target: &Path) -> Result<Self, String> {
        let folder = target.join("policy");
        let peers = Self { folder };
        let kept = peers.folder.join("misses");
        std::fs::create_dir_all(&kept).map_err(|error| format!("{}: {error}", kept.display()))?;
        if !peers.python().exists() {
            output(Command::new("python3").args(["-m", "venv"]).arg(&peers.folder))?;
        }
        output(Command::new(peers.python()).args(["-m", "pip", "install", "--quiet", LIBRARY]))?;
        Ok(peers)
    }

    fn python(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// Returns the misses of each policy at each size: a list per size, in the order of [`POLICIES`].
    ///
    /// # Errors
    /// The script's last output, if the script fails.
    pub fn misses(
        &self,
        stream: &str,
        has_lifetimes: bool,
        accesses: &[Access],
        sizes: &[u64],
    ) -> Result<Vec<Vec<u64>>, String> {
        let kept = self.folder.join("misses").join(format!("{stream}-{:016x}.json", digest(accesses, sizes)));
        let by_policy: Vec<Vec<u64>> = match std::fs::read_to_string(&kept) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| format!("{}: {error}", kept.display()))?,
            Err(_) => {
                let by_policy = self.replay(stream, has_lifetimes, accesses, sizes)?;
                let text = serde_json::to_string(&by_policy).map_err(|error| error.to_string())?;
                std::fs::write(&kept, text).map_err(|error| format!("{}: {error}", kept.display()))?;
                by_policy
            }
        };
        Ok((0..sizes.len()).map(|size| by_policy.iter().map(|misses| misses[size]).collect()).collect())
    }

    /// Runs the script and returns a list per policy.
    fn replay(
        &self,
        stream: &str,
        has_lifetimes: bool,
        accesses: &[Access],
        sizes: &[u64],
    ) -> Result<Vec<Vec<u64>>, String> {
        let trace = self.folder.join(format!("{stream}.trace"));
        write(&trace, accesses, has_lifetimes).map_err(|error| format!("{}: {error}", trace.display()))?;
        let kind = if has_lifetimes { "lifetimes" } else { "for-ever" };
        let by_policy = POLICIES.iter().map(|policy| {
            let mut command = Command::new(self.python());
            command.args(["-c", SCRIPT, kind, policy]).arg(&trace).args(sizes.iter().map(u64::to_string));
            let text = output(&mut command)?;
            serde_json::from_str(&text).map_err(|error| format!("peers.py: {error}: {text}"))
        });
        let by_policy = by_policy.collect();
        std::fs::remove_file(&trace).map_err(|error| format!("{}: {error}", trace.display()))?;
        by_policy
    }
}

/// Returns a digest of everything that the misses depend on.
fn digest(accesses: &[Access], sizes: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (LIBRARY, SCRIPT, sizes).hash(&mut hasher);
    for access in accesses {
        (access.key, access.at_ms, access.ttl_ms, gannet::cost_bytes(access)).hash(&mut hasher);
    }
    hasher.finish()
}

/// Writes the trace file for `peers.py`.
fn write(path: &Path, accesses: &[Access], lifetimes: bool) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for access in accesses {
        let bytes = gannet::cost_bytes(access);
        if lifetimes {
            for word in [access.key, access.at_ms, access.ttl_ms, bytes] {
                file.write_all(&word.to_le_bytes())?;
            }
        } else {
            // The format has a field for the key's next access. It is written as "none", because no policy reads it.
            file.write_all(&((access.at_ms / 1000) as u32).to_le_bytes())?;
            file.write_all(&access.key.to_le_bytes())?;
            file.write_all(&(bytes as u32).to_le_bytes())?;
            file.write_all(&(-1i64).to_le_bytes())?;
        }
    }
    file.flush()
}

fn output(command: &mut Command) -> Result<String, String> {
    let done = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{}: {}", done.status, String::from_utf8_lossy(&done.stderr)));
    }
    String::from_utf8(done.stdout).map_err(|error| error.to_string())
}
