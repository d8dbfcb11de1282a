//! A wall clock that the soak controls: the server's clock is the machine's plus an offset, which only grows.
//!
//! The server is the unchanged release binary; a library in `LD_PRELOAD` (`clock.c`) adds the offset to the time of
//! `clock_gettime`. Between two changes time passes normally.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LIBRARY: &str = include_str!("clock.c");
/// Twice the time for which a worker derives the store's clock from the processor's counter, which the library cannot
/// change.
const SEEN_AFTER: Duration = Duration::from_millis(20);

/// The server's wall clock, as known to the soak.
#[derive(Debug)]
pub struct Clock {
    begun: Instant,
    begun_unix_ms: u64,
    offset_ms: u64,
    file: File,
    library: PathBuf,
    path: PathBuf,
}

impl Clock {
    /// Builds the library in `folder` with an offset of 0.
    ///
    /// # Errors
    /// If the C compiler fails, or if the directory cannot be written.
    pub fn build(folder: &Path) -> Result<Self, String> {
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
        file.write_all_at(&0i64.to_le_bytes(), 0).map_err(describe)?;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun_unix_ms = unix.as_millis() as u64;
        Ok(Self { begun: Instant::now(), begun_unix_ms, offset_ms: 0, file, library, path })
    }

    /// Returns the command prefix that gives a server this clock.
    pub fn prefix(&self) -> Vec<String> {
        vec![
            "env".into(),
            format!("LD_PRELOAD={}", self.library.display()),
            format!("SOAK_CLOCK={}", self.path.display()),
        ]
    }

    /// Returns the milliseconds that have passed on the server's clock since the soak began.
    pub fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64 + self.offset_ms
    }

    /// Returns the server's wall clock in whole seconds since 1970.
    pub fn unix_s(&self) -> u64 {
        (self.begun_unix_ms + self.now_ms()) / 1000
    }

    /// Moves the server's clock forward, and waits until every thread of the server has noticed it.
    ///
    /// # Errors
    /// If the file cannot be written.
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
        // If this fails, a few bytes remain in the target directory.
        let _ = std::fs::remove_file(&self.path);
    }
}
