//! Starts a server for a run, and ends it afterwards.

use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use crate::Failure;

/// Time limit for a server to start listening, and to end.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);

/// Returns whether a server listens at `target`.
pub fn listens(target: &str) -> bool {
    match target.strip_prefix("unix:") {
        Some(path) => std::os::unix::net::UnixStream::connect(path).is_ok(),
        None => std::net::TcpStream::connect(target).is_ok(),
    }
}

/// A server that this process started.
pub struct StartedServer {
    child: Child,
}

impl StartedServer {
    /// Returns the server's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts `command` and waits until it listens at `target`.
    pub fn start(command: &str, target: &str) -> Result<Self, Failure> {
        let failed = |what: String| Failure::Failed(vec![format!("{command}: {what}")]);
        // The shell replaces itself by the server (exec), so that the child process is the server.
        let child = Process::new("sh")
            .args(["-c", &format!("exec {command}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed(format!("cannot start it ({error})")))?;
        let mut server = Self { child };
        let begun = Instant::now();
        while !listens(target) {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(failed(format!(
                    "it ended with {status} before it listened on {target}; run it manually to see why"
                )));
            }
            if begun.elapsed() > PATIENCE {
                return Err(failed(format!("it does not listen on {target} after 30 s; start it with that address")));
            }
            std::thread::sleep(LOOK);
        }
        Ok(server)
    }

    /// Ends the server with SIGTERM; if it does not end in time, with SIGKILL.
    pub fn end(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for StartedServer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}
