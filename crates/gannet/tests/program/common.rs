//! Runs the program as a separate process, which is ended by its process id at the end of a test.

#[path = "../../../../lab/testbed/src/server/port.rs"]
mod port;
#[path = "../../../server/tests/common/request.rs"]
mod request;

pub use port::free_port;
pub use request::request;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Maximum time for which a test waits for an event.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a command that runs the program with `args`.
pub fn gannet(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs the program to its end. Returns the exit code, standard output and standard error.
pub fn run(args: &[&str]) -> (i32, String, String) {
    run_in(args, &[])
}

/// The same with more in its environment.
pub fn run_in(args: &[&str], env: &[(&str, &str)]) -> (i32, String, String) {
    let ran = gannet(args).envs(env.iter().copied()).output();
    let Output { status, stdout, stderr } = ran.expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("its output is text");
    (status.code().expect("it ends by itself"), text(stdout), text(stderr))
}

/// A temporary file. Dropping this value removes the file.
pub struct TempFile(pub PathBuf);

impl TempFile {
    pub fn new(name: &str, text: &str) -> Self {
        // Tests of one process run at the same time, and some of them share a function that names a file.
        static FILES: AtomicU32 = AtomicU32::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("gannet-{}-{number}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A running server, whose log is read line by line.
pub struct Serving {
    child: Child,
    log: Receiver<String>,
    pub lines: Vec<String>,
    /// True if the test causes refusals by the sandbox. Otherwise a refusal is a fault of its lists.
    pub is_refused: bool,
}

impl Serving {
    /// Starts `gannet serve` with `args`, and waits until the log reports that it serves.
    pub fn start(args: &[&str]) -> Self {
        Self::start_in(args, &[])
    }

    /// The same with more in its environment.
    pub fn start_in(args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = gannet(&[&["serve"], args].concat());
        let mut child = command.envs(env.iter().copied()).stderr(Stdio::piped()).spawn().expect("the program runs");
        let stderr = child.stderr.take().unwrap();
        let (sender, log) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut serving = Self { child, log, lines: Vec::new(), is_refused: false };
        serving.wait_for("gannet is ready");
        serving.assert_free_ports();
        serving
    }

    /// Checks that no listener has a default port, on which two runs of the tests would meet.
    fn assert_free_ports(&self) {
        let has_default = |line: &&String| [":11211", ":6379", ":9555"].iter().any(|port| line.contains(port));
        assert_eq!(self.lines.iter().find(has_default), None, "pass --memcached, --resp and --admin with port 0");
    }

    /// Waits for a log line that contains `text`. Returns the line.
    pub fn wait_for(&mut self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self.log.recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|_| panic!("{text:?} was not logged: {:#?}", self.lines));
            self.lines.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Reads the rest of the log of a server that has ended.
    pub fn read_all(&mut self) {
        self.lines.extend(self.log.iter());
    }

    /// Returns the address that follows `text` in the log.
    pub fn addr_behind(&mut self, text: &str) -> SocketAddr {
        let line = self.wait_for(text);
        let rest = line.split(text).nth(1).unwrap();
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':')).unwrap_or(rest.len());
        rest[..end].parse().unwrap_or_else(|_| panic!("no address in {line:?}"))
    }

    /// Returns the server's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the server a signal, given by its name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Returns whether the server has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the server's end. Returns its exit status.
    pub fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it does not end: {:#?}", self.lines);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !self.is_refused && !std::thread::panicking() {
            // The log of a process that it has started may go on, so this does not wait for the end of the log.
            self.lines.extend(self.log.try_iter());
            let refused = self.lines.iter().find(|line| line.contains("the sandbox refused"));
            assert_eq!(refused, None, "the lists of the sandbox lack a system call");
        }
    }
}

/// Opens a client connection.
pub fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends `request` and reads exactly `reply`.
pub fn ask(stream: &mut (impl Read + Write), request: &[u8], reply: &[u8]) {
    stream.write_all(request).expect("sends");
    let mut bytes = vec![0; reply.len()];
    stream.read_exact(&mut bytes).expect("the whole reply");
    assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(reply));
}

/// Returns the body of the admin port's page at `path`.
pub fn page(addr: SocketAddr, path: &str) -> String {
    let mut stream = connect(addr);
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}
