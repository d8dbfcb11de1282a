//! Runs other projects' servers as separate processes, which are ended by their process ids, and temporary directories
//! for tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use load::result::RunResult;

use crate::common::{PATIENCE, free_port};

/// The exit code if the generator was the limit, which may happen on a busy machine.
pub const LIMITED: i32 = 3;

/// Returns true if a run of the load generator ended with a verdict: all held, the generator was the limit, an
/// objective broke, or a search used up its trials. The machine's load decides which. Everything else is an error,
/// other kinds of a partial run too.
pub fn is_verdict(code: i32, out: &str) -> bool {
    matches!(code, 0 | LIMITED | 4) || (code == 5 && out.contains(" trials were used up before the answer"))
}

/// A temporary directory to which every user may write. Dropping this value removes the directory.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a directory. Its path is unique, even if two directories have the same name.
    pub fn new(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("gannet-{}-{number}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub fn written(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.file(name)
    }

    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Reads the result that a run stored in the file `name`.
    pub fn result(&self, name: &str) -> RunResult {
        RunResult::from_json(&self.text(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits until `holds` returns true.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < patience, "it does not come to that {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A server from a package of the distribution, on its own port.
pub struct Peer {
    child: Child,
    pub port: u16,
}

impl Peer {
    /// Starts `program` and waits until it listens on `port`. Returns `None` and prints a line if the program is not
    /// installed.
    pub fn start_at(port: u16, program: &str, args: &[&str]) -> Option<Self> {
        let started = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = match started {
            Ok(child) => child,
            Err(error) => {
                println!("SKIPPED: {program} can not be started ({error}); install it to run this test");
                return None;
            }
        };
        let mut peer = Self { child, port };
        until(&format!("{program} listens"), || {
            assert!(peer.child.try_wait().unwrap().is_none(), "{program} ended before it listened");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(peer)
    }

    pub fn memcached(more: &[&str]) -> Option<Self> {
        let port = free_port();
        let text = port.to_string();
        let args = ["-l", "127.0.0.1", "-p", &text, "-U", "0", "-u", "nobody", "-t", "1", "-m", "128"];
        Self::start_at(port, "memcached", &[&args[..], more].concat())
    }

    pub fn redis(more: &[&str]) -> Option<Self> {
        Self::redis_at(free_port(), more)
    }

    /// Starts redis-server with its files in `folder`.
    pub fn redis_in(folder: &Folder, more: &[&str]) -> Option<Self> {
        Self::redis(&[&["--dir", folder.path().to_str().unwrap()], more].concat())
    }

    /// Starts Valkey's server, whose binary `VALKEY_BIN` names, with its files in `folder`.
    pub fn valkey_in(folder: &Folder, more: &[&str]) -> Option<Self> {
        let Ok(binary) = std::env::var("VALKEY_BIN") else {
            println!("SKIPPED: VALKEY_BIN is not set; set it to the path of valkey-server to run this part");
            return None;
        };
        let port = free_port();
        let (text, dir) = (port.to_string(), folder.path().to_str().unwrap());
        let args = ["--port", &text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir];
        Self::start_at(port, &binary, &[&args[..], more].concat())
    }

    /// Starts redis-server on `port`. The server has loaded its file when this returns.
    pub fn redis_at(port: u16, more: &[&str]) -> Option<Self> {
        let text = port.to_string();
        let args = ["--port", &text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let redis = Self::start_at(port, "redis-server", &[&args[..], more].concat())?;
        until("redis-server has read its file", || {
            let mut client = TcpStream::connect(redis.addr()).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            client.write_all(b"PING\r\n").unwrap();
            let mut said = [0; 5];
            client.read_exact(&mut said).unwrap();
            &said != b"-LOAD"
        });
        Some(redis)
    }

    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Returns the server's address as text.
    pub fn target(&self) -> String {
        self.addr().to_string()
    }

    /// Returns the server's address with `scheme`, as `gannet migrate` expects it.
    pub fn place(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.addr())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
