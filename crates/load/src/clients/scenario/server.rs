//! A server of a scenario's own, which the scenario pauses, kills, stops and starts again.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Time limit for the start, the end and the pause of a server.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// The pause between two checks of a server's state.
const CHECK: Duration = Duration::from_millis(5);

/// A server on a port that it keeps over restarts. It is killed when it is dropped.
pub(super) struct Server {
    program: PathBuf,
    connections_max: i64,
    /// The address of its gRPC port.
    pub(super) address: SocketAddr,
    child: Option<Child>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A process that has ended already is not an error.
            drop(child.kill().and_then(|()| child.wait()));
        }
    }
}

impl Server {
    /// Starts a server: the program `program`, with faults on request.
    ///
    /// # Errors
    /// If there is no free port, or if the server does not start.
    pub(super) fn start(program: &Path, connections_max: i64) -> Result<Self, String> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| format!("cannot find a free port: {error}"))?;
        let mut server = Self { program: program.to_owned(), connections_max, address, child: None };
        server.launch()?;
        Ok(server)
    }

    /// Executes a step with `server`.
    ///
    /// # Errors
    /// If the step is unknown, or if the server does not get into the state.
    pub(super) fn step(&mut self, step: &str) -> Result<(), String> {
        match step {
            "start" if self.child.is_some() => Err("the server runs already; stop or kill it first".to_owned()),
            "start" => self.launch(),
            "pause" => {
                self.signal(Signal::STOP)?;
                self.until("the server is not paused", Self::is_paused)
            }
            "resume" => self.signal(Signal::CONT),
            "kill" | "stop" => {
                self.signal(if step == "kill" { Signal::KILL } else { Signal::TERM })?;
                self.until("the server does not end", |server| {
                    server.child.as_mut().is_none_or(|child| matches!(child.try_wait(), Ok(Some(_))))
                })?;
                self.child = None;
                Ok(())
            }
            _ => Err(format!("`server` is {step}; it is pause, resume, kill, stop or start")),
        }
    }

    fn launch(&mut self) -> Result<(), String> {
        let (grpc, connections_max) = (self.address.to_string(), self.connections_max.to_string());
        let fixed = ["serve", "--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "128MiB", "--workers", "1"];
        let given = ["--log", "warn", "--test-faults", "--maxconns", &connections_max, "--grpc", &grpc];
        let mut command = Command::new(&self.program);
        let child = command.args(fixed).args(given).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        self.child = Some(child.map_err(|error| format!("cannot start {}: {error}", self.program.display()))?);
        self.until("the server does not start; see its messages", |server| {
            TcpStream::connect_timeout(&server.address, Duration::from_secs(1)).is_ok()
        })
    }

    fn pid(&self) -> Result<Pid, String> {
        let id = self.child.as_ref().map_or(0, Child::id).cast_signed();
        Pid::from_raw(id).ok_or_else(|| "the server does not run; start it first".to_owned())
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        kill_process(self.pid()?, signal).map_err(|error| format!("cannot signal the server: {error}"))
    }

    /// Returns true if all threads are stopped: a worker on another CPU runs on for a moment.
    fn is_paused(&mut self) -> bool {
        let Some(child) = &self.child else { return false };
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", child.id())) else { return false };
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The state follows the name, which is in parentheses.
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    }

    fn until(&mut self, fault: &str, mut is_reached: impl FnMut(&mut Self) -> bool) -> Result<(), String> {
        let until = Instant::now() + WAIT_MAX;
        while !is_reached(self) {
            if Instant::now() >= until {
                return Err(format!("{fault} within {} s", WAIT_MAX.as_secs()));
            }
            std::thread::sleep(CHECK);
        }
        Ok(())
    }
}
