//! A server under callgrind, whose counters can be reset and read while it runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::clock::Clock;
use testbed::server::{ServerKind, ServerOptions, TestServer};

/// A server whose instructions are counted. Dropping it ends the server and removes the files.
pub struct Counted {
    /// `None` only during the drop.
    server: Option<TestServer>,
    folder: PathBuf,
    /// The server's clock, until the server has ended.
    _clock: Clock,
}

/// The factor by which a server's clock runs slower than the machine's. Callgrind slows a server down by a factor of 50
/// to 100, on a slow machine more. A server ends its iterations and visits by work and by time. With the machine's
/// clock it would do less in each than at full speed, and how much less would depend on the machine.
const CLOCK_DIVISOR: u32 = 1000;

/// The first bytes of callgrind's files.
const OUT: &str = "out";

impl Counted {
    /// Starts a server with one worker under callgrind.
    ///
    /// # Errors
    /// If valgrind or the server is missing or does not start.
    pub fn start(kind: ServerKind) -> Result<Self, String> {
        // LD_PRELOAD separates its paths by spaces.
        let name = kind.name().replace([' ', ','], "-");
        let folder = std::env::temp_dir().join(format!("gannet-gate-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // Not among the counts, whose folder is read and emptied.
        let clock = Clock::build_slow(&folder.with_extension("clock"), CLOCK_DIVISOR)?;
        let under =
            clock.prefix().into_iter().chain(["valgrind".to_owned()]).chain(options(&folder)).collect::<Vec<_>>();
        let connections_max = if kind == ServerKind::Memcached { open_files_under_valgrind() } else { 64 };
        let options = ServerOptions { connections_max, resp: true, ..ServerOptions::memory(64) };
        let server = TestServer::start_under(&under, kind, &options)?;
        Ok(Self { server: Some(server), folder, _clock: clock })
    }

    /// Returns the server.
    pub fn server(&self) -> &TestServer {
        self.server.as_ref().expect("the server exists until the drop")
    }

    /// Resets all counters.
    ///
    /// # Errors
    /// If callgrind does not reply.
    pub fn zero(&self) -> Result<(), String> {
        control(self.server().pid(), "--zero")
    }

    /// Returns the busiest thread's instructions since the last [`Counted::zero`].
    ///
    /// # Errors
    /// If callgrind does not reply, or if its file cannot be parsed.
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
    if most == 0 { Err("callgrind wrote no counters".into()) } else { Ok(most) }
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
    // Its exit code is always 0; it prints OK on success.
    let said = String::from_utf8_lossy(&output.stdout);
    match said.contains("OK.") {
        true => Ok(()),
        false => Err(format!("callgrind_control {action}: {said}{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Returns the limit of open files that a program has under valgrind, which reserves `RESERVED` for itself and does not
/// allow changes. memcached sets the limit to its connections, so it must be started with as many.
fn open_files_under_valgrind() -> usize {
    const RESERVED: u64 = 12;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX - RESERVED);
    ((current + RESERVED).min(limit.maximum.unwrap_or(u64::MAX)) - RESERVED) as usize
}

/// Returns the count at the end of a callgrind file: `totals: N`. A file without one (of an idle thread) has 0.
fn instructions(path: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let Some(total) = text.lines().find_map(|line| line.strip_prefix("totals: ")) else { return Ok(0) };
    total.trim().parse().map_err(|_| format!("{}: totals: {total}", path.display()))
}

impl Drop for Counted {
    fn drop(&mut self) {
        // The server is dropped first, because it writes its last counters there.
        drop(self.server.take());
        let _ = std::fs::remove_dir_all(&self.folder);
        let _ = std::fs::remove_dir_all(self.folder.with_extension("clock"));
    }
}
