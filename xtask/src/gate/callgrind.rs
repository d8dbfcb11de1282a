//! A server under callgrind, whose counters can be reset and read while it runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::clock::Clock;
use testbed::server::{ServerKind, ServerOptions, TestServer};

/// A server whose instructions callgrind counts. Dropping it ends the server and removes callgrind's files.
pub struct Counted {
    /// `None` only during the drop.
    server: Option<TestServer>,
    folder: PathBuf,
    /// The server's slow clock, which must exist until the server has ended.
    _clock: Clock,
}

/// The factor by which a server's clock runs slower than the machine's. Callgrind slows a server down by a factor of 50
/// to 100, and more on a slow machine. A server ends its iterations and visits after some work or after some time. With
/// the machine's clock, each would end by time and so do less work, by an amount that depends on the machine.
const CLOCK_DIVISOR: u32 = 1000;

/// The beginning of the names of callgrind's files.
const OUT: &str = "out";

impl Counted {
    /// Starts a server with one worker under callgrind.
    ///
    /// # Errors
    /// If valgrind or the server is missing or does not start.
    pub fn start(kind: ServerKind) -> Result<Self, String> {
        // The clock's library is in a directory with this name, and LD_PRELOAD separates its paths by spaces.
        let name = kind.name().replace([' ', ','], "-");
        let folder = std::env::temp_dir().join(format!("gannet-gate-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // The clock has a directory beside `folder`, because `take` parses and removes every file in `folder`.
        let clock = Clock::build_slow(&folder.with_extension("clock"), CLOCK_DIVISOR)?;
        let under =
            clock.prefix().into_iter().chain(["valgrind".to_owned()]).chain(options(&folder)).collect::<Vec<_>>();
        let connections_max = if kind == ServerKind::Memcached { open_files_under_valgrind() } else { 64 };
        let options = ServerOptions { connections_max, resp: true, grpc: true, ..ServerOptions::memory(64) };
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

    /// Returns the busiest thread's instructions since the last [`Counted::zero`] or [`Counted::take`].
    ///
    /// # Errors
    /// If callgrind does not reply, or if its file cannot be parsed.
    pub fn take(&self) -> Result<u64, String> {
        take(self.server().pid(), &self.folder)
    }
}

/// Returns the options of valgrind that [`take`] depends on: callgrind writes each thread's counts to a file in
/// `folder`.
pub fn options(folder: &Path) -> [String; 4] {
    let out = format!("--callgrind-out-file={}", folder.join(OUT).display());
    ["-q".into(), "--tool=callgrind".into(), "--separate-threads=yes".into(), out]
}

/// Dumps the counts of a process, removes their files and returns the busiest thread's instructions. Callgrind resets
/// the counts that it dumps.
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

/// Makes callgrind reset (`--zero`) the counts of a process, or write and reset them (`--dump`).
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

/// Returns the limit of open files that a program has under valgrind. Valgrind reserves `RESERVED` descriptors for
/// itself and lets no program change the limit. memcached tries to set the limit to its maximum of connections, so it
/// must be started with exactly this number of connections.
fn open_files_under_valgrind() -> usize {
    const RESERVED: u64 = 12;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX - RESERVED);
    ((current + RESERVED).min(limit.maximum.unwrap_or(u64::MAX)) - RESERVED) as usize
}

/// Returns the count in a callgrind file's line `totals: N`; 0 if the file has no such line, as for an idle thread.
fn instructions(path: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let Some(total) = text.lines().find_map(|line| line.strip_prefix("totals: ")) else { return Ok(0) };
    total.trim().parse().map_err(|_| format!("{}: totals: {total}", path.display()))
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Ends the server first, because its last counts are written to `folder` at its end.
        drop(self.server.take());
        let _ = std::fs::remove_dir_all(&self.folder);
        let _ = std::fs::remove_dir_all(self.folder.with_extension("clock"));
    }
}
