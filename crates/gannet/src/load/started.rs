//! Starts a server for a run, and ends it afterwards.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command as Process, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Failure;

/// Time limit for a server to start listening, and to end.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);
/// Time for which the last lines of a server that has ended are awaited. A process that it left may hold its output.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Number of a server's last lines that are retained, and their length in bytes.
const LINES: usize = 4;
const LINE_BYTES_MAX: u64 = 400;
/// The admin port of a Gannet that is started for a run: any free one, beside a server with the default port.
const FREE_ADMIN: &str = "--admin 127.0.0.1:0";

/// Returns whether a server listens at `target`.
pub fn listens(target: &str) -> bool {
    match target.strip_prefix("unix:") {
        Some(path) => std::os::unix::net::UnixStream::connect(path).is_ok(),
        None => std::net::TcpStream::connect(target).is_ok(),
    }
}

/// Adds a free admin port to a command that runs `gannet serve` without naming one.
///
/// A settings file (`.toml`) may name one, so such a command is left as it is.
pub fn with_free_ports(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().map(|word| word.trim_matches(['\'', '"'])).collect();
    let is_serve = |pair: &[&str]| pair[0].rsplit('/').next() == Some("gannet") && pair[1] == "serve";
    let names_ports = |word: &&str| *word == "--admin" || word.starts_with("--admin=") || word.ends_with(".toml");
    match words.windows(2).any(is_serve) && !words.iter().any(names_ports) {
        true => format!("{command} {FREE_ADMIN}"),
        false => command.to_owned(),
    }
}

/// The last lines that a server has printed, which a thread reads.
struct Output {
    lines: Arc<Mutex<VecDeque<String>>>,
    reader: JoinHandle<()>,
}

impl Output {
    /// Starts to read the pipe, until its last writer closes it.
    fn read(pipe: PipeReader) -> std::io::Result<Self> {
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let filled = lines.clone();
        let reader = std::thread::Builder::new().name("output".to_owned()).spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while pipe.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                let text: String = String::from_utf8_lossy(&line).chars().filter(|c| !c.is_control()).collect();
                line.clear();
                let mut filled = filled.lock().unwrap_or_else(PoisonError::into_inner);
                if !text.trim().is_empty() {
                    filled.push_back(text.trim().to_owned());
                }
                if filled.len() > LINES {
                    filled.pop_front();
                }
            }
        })?;
        Ok(Self { lines, reader })
    }

    /// Returns the last lines of a server that has ended.
    fn last(&self) -> Vec<String> {
        let begun = Instant::now();
        while !self.reader.is_finished() && begun.elapsed() < LAST_WORDS {
            std::thread::sleep(LOOK);
        }
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// A server that this process started.
pub struct StartedServer {
    child: Child,
    output: Output,
}

impl StartedServer {
    /// Returns the server's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts `command` and waits until it listens at `target`.
    ///
    /// # Errors
    /// If the server ends before or does not listen in time: the reason, and the last lines that it printed.
    pub fn start(command: &str, target: &str) -> Result<Self, Failure> {
        let mut server = Self::spawn(command)
            .map_err(|error| Failure::Failed(vec![format!("cannot start `{command}`: {error}")]))?;
        let begun = Instant::now();
        while !listens(target) {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(server.failed(command, &format!("it ended with {status} before it listened on {target}")));
            }
            if begun.elapsed() > PATIENCE {
                let _ = server.child.kill();
                let _ = server.child.wait();
                let what = format!("it does not listen on {target} after 30 s; start it with that address");
                return Err(server.failed(command, &what));
            }
            std::thread::sleep(LOOK);
        }
        Ok(server)
    }

    fn spawn(command: &str) -> std::io::Result<Self> {
        let (reader, writer) = std::io::pipe()?;
        let errors = writer.try_clone()?;
        // The shell replaces itself by the server (exec), so that the child process is the server. The command, which
        // holds the writing ends of the pipe, is dropped here, so that the pipe ends with the server.
        let child = Process::new("sh")
            .args(["-c", &format!("exec {command}")])
            // Ctrl-C goes to the terminal's process group. This process ends the server itself, after the run.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(errors)
            .spawn()?;
        Ok(Self { child, output: Output::read(reader)? })
    }

    /// Returns the failure of a server that has ended, with its last lines.
    fn failed(&self, command: &str, what: &str) -> Failure {
        let printed = self.output.last();
        let mut lines = vec![format!("cannot start `{command}`: {what}")];
        match printed.is_empty() {
            true => lines.push("it printed nothing; run it manually to see why".to_owned()),
            false => lines.extend(printed.iter().map(|line| format!("it printed: {line}"))),
        }
        // memcached's own line names the flag, but no user for it.
        if printed.iter().any(|line| line.contains("can't run as root without the -u switch")) {
            lines.push("add -u and a user to its command, as in memcached -u daemon".to_owned());
        }
        Failure::Failed(lines)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn started_gannet_takes_a_free_admin_port_unless_its_command_names_one() {
        for command in [
            "gannet serve --memcached 127.0.0.1:1",
            "taskset -c 0 ./target/release/gannet serve",
            "'/opt/gannet' serve --memory 64MiB",
        ] {
            assert_eq!(with_free_ports(command), format!("{command} {FREE_ADMIN}"));
        }
        for command in [
            "gannet serve --admin none",
            "gannet serve --admin=127.0.0.1:1",
            "gannet serve here.toml",
            "memcached -p 1",
            "gannet memcached -p 1",
        ] {
            assert_eq!(with_free_ports(command), command);
        }
    }

    #[test]
    fn server_that_ends_at_its_start_is_reported_with_its_last_lines() {
        let target = "unix:/no/such/socket";
        let lines = |command: &str| match StartedServer::start(command, target) {
            Err(Failure::Failed(lines)) => lines,
            _ => Vec::new(),
        };
        let said = lines("sh -c 'echo one; echo two 1>&2; exit 7'");
        assert!(said[0].contains("exit status: 7") && said[0].contains("before it listened on unix:"), "{said:?}");
        assert_eq!(said[1..], ["it printed: one", "it printed: two"]);
        let said = lines("sh -c 'exit 3'");
        assert_eq!(said[1], "it printed nothing; run it manually to see why");
        let long = lines("sh -c 'yes x | head -c 100000; echo end'");
        assert_eq!((long.len(), long[LINES].as_str()), (1 + LINES, "it printed: end"));
    }
}
