//! The program as a process of its own, ended by its id when a test is over.

#[path = "../../../server/tests/common/request.rs"]
mod request;

pub use request::request;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// No test waits longer for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The program.
pub fn gannet(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs it to its end: exit code, standard output, standard error.
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

/// A port that nobody listens on now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A file that is gone when the test is over.
pub struct TempFile(pub PathBuf);

impl TempFile {
    pub fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gannet-{}-{name}", std::process::id()));
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

/// A running server whose log is read line by line.
pub struct Serving {
    child: Child,
    log: Receiver<String>,
    pub lines: Vec<String>,
}

impl Serving {
    /// Starts `gannet serve` with `args` and waits until it says that it is up.
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
        let mut serving = Self { child, log, lines: Vec::new() };
        serving.wait_for("gannet is ready");
        serving
    }

    /// Waits for a line with `text`, and gives it.
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

    /// The address behind `text` in the log.
    pub fn addr_behind(&mut self, text: &str) -> SocketAddr {
        let line = self.wait_for(text);
        let rest = line.split(text).nth(1).unwrap();
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':')).unwrap_or(rest.len());
        rest[..end].parse().unwrap_or_else(|_| panic!("no address in {line:?}"))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// It has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
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
    }
}

/// A client connection.
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

/// The body of a page of the admin port.
pub fn page(addr: SocketAddr, path: &str) -> String {
    let mut stream = connect(addr);
    stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}
