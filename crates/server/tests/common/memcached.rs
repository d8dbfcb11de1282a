//! Debian's memcached, for comparisons.

use super::PATIENCE;
use super::port::free_port;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Debian's memcached on a free port, which stops when this value is dropped.
pub struct Memcached {
    child: Child,
    pub addr: SocketAddr,
}

impl Memcached {
    /// Starts memcached with `mib` MiB of memory.
    pub fn start(mib: u32) -> Self {
        Self::start_with(mib, &[])
    }

    /// Starts such a server with additional flags.
    pub fn start_with(mib: u32, flags: &[&str]) -> Self {
        let port = free_port();
        let child = Command::new("memcached")
            .args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-u", "nobody", "-m", &mib.to_string()])
            .args(flags)
            .stderr(Stdio::null())
            .spawn()
            .expect("memcached can be run: install the package memcached");
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(addr).is_err() {
            assert!(Instant::now() < deadline, "memcached does not listen on {addr}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child, addr }
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
