//! Clocks of a child process that its parent controls: it moves them forward or slows them down.
//!
//! ```text
//!   time in the child = start + (real time - start) / divisor + offset
//! ```
//!
//! The child is the unchanged release binary. A library in `LD_PRELOAD` (`clock.c`) changes the time that
//! `clock_gettime` returns. The soak moves the clock forward at some points; in between, the clock runs at the usual
//! speed. The gate slows the clock down, so that a server under valgrind does not run out of time within an iteration.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LIBRARY: &str = include_str!("clock.c");
/// Time to wait after a change of the clock: twice the interval at which a worker reads the system clock. Between two
/// readings, the worker derives the time from the CPU's time-stamp counter, which the preloaded library cannot change.
const SEEN_AFTER: Duration = Duration::from_millis(20);

/// The clock of one child process. Dropping this value removes the file from which the preloaded library reads the
/// clock's offset and divisor.
#[derive(Debug)]
pub struct Clock {
    begun: Instant,
    begun_unix_ms: u64,
    offset_ms: u64,
    divisor: u32,
    file: File,
    library: PathBuf,
    path: PathBuf,
}

impl Clock {
    /// Builds the library in `folder`, for a clock with an offset of 0 that runs at the usual speed.
    ///
    /// # Errors
    /// If the C compiler fails, or the folder is not writable.
    pub fn build(folder: &Path) -> Result<Self, String> {
        Self::build_slow(folder, 1)
    }

    /// Builds the library in `folder`, for a clock with an offset of 0 that advances by one `divisor`-th of real time.
    ///
    /// # Errors
    /// If the C compiler fails, or the folder is not writable.
    pub fn build_slow(folder: &Path, divisor: u32) -> Result<Self, String> {
        let describe = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(describe)?;
        let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
        std::fs::write(&source, LIBRARY).map_err(describe)?;
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-Wall", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
        match cc.status() {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("cc {}: {status}", source.display())),
            Err(error) => return Err(format!("cc: {error}; a C compiler is needed for the server's clock")),
        }
        let path = folder.join(format!("clock-{}", std::process::id()));
        let file = File::create(&path).map_err(describe)?;
        let numbers = [0i64.to_le_bytes(), i64::from(divisor).to_le_bytes()].concat();
        file.write_all_at(&numbers, 0).map_err(describe)?;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun_unix_ms = unix.as_millis() as u64;
        Ok(Self { begun: Instant::now(), begun_unix_ms, offset_ms: 0, divisor, file, library, path })
    }

    /// Returns the words to put before a server's command, so that the server runs with this clock.
    pub fn prefix(&self) -> Vec<String> {
        vec![
            "env".into(),
            format!("LD_PRELOAD={}", self.library.display()),
            format!("TESTBED_CLOCK={}", self.path.display()),
        ]
    }

    /// Returns the milliseconds that have passed on this clock since it was built.
    pub fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64 / u64::from(self.divisor) + self.offset_ms
    }

    /// Returns this clock's time in whole seconds since 1970.
    pub fn unix_s(&self) -> u64 {
        (self.begun_unix_ms + self.now_ms()) / 1000
    }

    /// Moves this clock forward by `seconds`, and waits until every worker of the server has read the new time.
    ///
    /// # Errors
    /// If the file is not writable.
    pub fn step(&mut self, seconds: u64) -> Result<(), String> {
        self.offset_ms += seconds * 1000;
        let ns = (self.offset_ms * 1_000_000) as i64;
        self.file.write_all_at(&ns.to_le_bytes(), 0).map_err(|error| format!("{}: {error}", self.path.display()))?;
        std::thread::sleep(SEEN_AFTER);
        Ok(())
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        // An error is ignored: it only leaves a few bytes in the clock's directory.
        let _ = std::fs::remove_file(&self.path);
    }
}
