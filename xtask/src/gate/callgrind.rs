//! A server under callgrind, whose counts can be set to zero and read while it runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::server::{ServerKind, ServerOptions, TestServer};

/// A server that is counted. Dropping it ends the server and removes the files.
pub struct Counted {
    /// `None` only while it is dropped.
    server: Option<TestServer>,
    folder: PathBuf,
}

/// The first bytes of callgrind's files.
const OUT: &str = "out";

impl Counted {
    /// Starts a server with one worker under callgrind.
    ///
    /// # Errors
    /// When valgrind or the server is missing or does not start.
    pub fn start(kind: ServerKind) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("gannet-gate-{}-{}", std::process::id(), kind.name()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let under: Vec<String> = std::iter::once("valgrind".to_owned()).chain(options(&folder)).collect();
        let connections_max = if kind == ServerKind::Memcached { open_files_under_valgrind() } else { 64 };
        let options = ServerOptions { connections_max, resp: true, ..ServerOptions::memory(64) };
        let server = TestServer::start_under(&under, kind, &options)?;
        Ok(Self { server: Some(server), folder })
    }

    /// The server.
    pub fn server(&self) -> &TestServer {
        self.server.as_ref().expect("it is there until it is dropped")
    }

    /// Sets all counts to zero.
    ///
    /// # Errors
    /// When callgrind does not answer.
    pub fn zero(&self) -> Result<(), String> {
        control(self.server().pid(), "--zero")
    }

    /// The busiest thread's instructions since the last [`Counted::zero`].
    ///
    /// # Errors
    /// When callgrind does not answer, or writes what cannot be read.
    pub fn take(&self) -> Result<u64, String> {
        take(self.server().pid(), &self.folder)
    }
}

/// Returns the options of callgrind that [`take`] depends on: its counts go to files in `folder`.
pub fn options(folder: &Path) -> [String; 4] {
    let out = format!("--callgrind-out-file={}", folder.join(OUT).display());
    ["-q".into(), "--tool=callgrind".into(), "--separate-threads=yes".into(), out]
}

/// Dumps the counts of a process, removes their files and returns the busiest thread's instructions.
///
/// # Errors
/// If callgrind does not reply, or a file of counts cannot be parsed.
pub fn take(pid: u32, folder: &Path) -> Result<u64, String> {
    control(pid, "--dump")?;
    let mut most = 0;
    for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        most = most.max(instructions(&path)?);
        std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if most == 0 { Err("callgrind wrote no counts".into()) } else { Ok(most) }
}

/// Sends callgrind an action on the counts of a process: `--zero` or `--dump`.
///
/// # Errors
/// If `callgrind_control` is missing or reports a failure.
pub fn control(pid: u32, action: &str) -> Result<(), String> {
    let output = Command::new("callgrind_control")
        .args([action, &pid.to_string()])
        .output()
        .map_err(|error| format!("callgrind_control, which comes with valgrind: {error}"))?;
    // It exits with 0 whatever happens, and says OK when it was done.
    let said = String::from_utf8_lossy(&output.stdout);
    match said.contains("OK.") {
        true => Ok(()),
        false => Err(format!("callgrind_control {action}: {said}{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// The limit of open files that a program finds under valgrind, which keeps `RESERVED` for itself and lets no program
/// change it. memcached sets the limit to its connections, so it must be started with as many.
fn open_files_under_valgrind() -> usize {
    const RESERVED: u64 = 12;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX - RESERVED);
    ((current + RESERVED).min(limit.maximum.unwrap_or(u64::MAX)) - RESERVED) as usize
}

/// The count that a file of callgrind's ends with: `totals: N`. A file without one (a thread that did nothing) has 0.
fn instructions(path: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let Some(total) = text.lines().find_map(|line| line.strip_prefix("totals: ")) else { return Ok(0) };
    total.trim().parse().map_err(|_| format!("{}: totals: {total}", path.display()))
}

impl Drop for Counted {
    fn drop(&mut self) {
        // First the server, which writes its last counts there.
        drop(self.server.take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
