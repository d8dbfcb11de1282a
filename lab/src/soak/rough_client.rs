//! One blocking connection of a misbehaving client, with its own buffer.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use memchr::memchr;

use super::model::{Values, write_key};
use super::rough::Stored;

const READ_BYTES: usize = 64 << 10;
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A blocking connection with a buffer.
pub struct RoughClient {
    /// The socket.
    pub stream: TcpStream,
    input: Vec<u8>,
    at: usize,
    over: bool,
}

impl RoughClient {
    /// Connects to the server.
    ///
    /// # Errors
    /// If the connection is refused.
    pub fn connect(address: SocketAddr) -> Result<Self, String> {
        let connect = || -> std::io::Result<TcpStream> {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(WAIT_MAX))?;
            stream.set_write_timeout(Some(WAIT_MAX))?;
            Ok(stream)
        };
        let stream = connect().map_err(|error| format!("connecting: {error}"))?;
        Ok(Self { stream, input: Vec::new(), at: 0, over: false })
    }

    /// Returns whether the server has closed the connection.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Sends all bytes.
    ///
    /// # Errors
    /// If the server does not accept them.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| format!("sending: {error}"))
    }

    /// Prepares the connection so that dropping it sends a reset, and the server's next read fails.
    ///
    /// # Errors
    /// If the socket option cannot be set.
    pub fn reset(&mut self) -> Result<(), String> {
        let none = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&self.stream, none).map_err(|error| error.to_string())
    }

    /// Reads a line that must be `due`.
    ///
    /// # Errors
    /// If the connection fails, or if another line arrives.
    pub fn line(&mut self, due: &str) -> Result<(), String> {
        self.one_of(&[due])
    }

    /// Reads a line that must be one of `due`.
    ///
    /// # Errors
    /// If the connection fails, or if another line arrives.
    pub fn one_of(&mut self, due: &[&str]) -> Result<(), String> {
        let line = self.take_line()?;
        match due.iter().any(|due| due.as_bytes() == line) {
            true => Ok(()),
            false => Err(format!("expected {due:?}, received '{}'", String::from_utf8_lossy(&line))),
        }
    }

    /// Reads the reply to a get. Returns true for a hit.
    ///
    /// # Errors
    /// If the connection fails, or if the value is not one of `allowed`.
    pub fn value(&mut self, key: u32, allowed: &[Stored], values: &Values) -> Result<bool, String> {
        let line = self.take_line()?;
        if line == b"END" {
            return Ok(false);
        }
        let mut head = b"VALUE ".to_vec();
        write_key(key, &mut head);
        head.extend_from_slice(b" 5 ");
        let bytes = line.strip_prefix(head.as_slice()).and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok());
        let Some(bytes) = bytes else {
            return Err(format!("a get of key {key} got the reply '{}'", String::from_utf8_lossy(&line)));
        };
        let end: usize = bytes;
        self.fill(end + 2)?;
        let value = &self.input[self.at..self.at + end];
        let is_right = |stored: &Stored| stored.bytes == bytes && values.is_value(key, stored.version, value);
        if !allowed.iter().any(is_right) {
            return Err(format!("key {key}: a wrong value of {bytes} bytes; expected one of {allowed:?}"));
        }
        self.at += end;
        self.line("")?;
        self.line("END")?;
        Ok(true)
    }

    /// Reads at most `count` bytes, each by a separate call, or up to the end of the connection.
    ///
    /// # Errors
    /// If no bytes arrive.
    pub fn read_singly(&mut self, count: usize) -> Result<(), String> {
        for _ in 0..count {
            // The replies may have fewer than `count` bytes in total, so the read does not wait for bytes to arrive.
            let mut byte = [0];
            self.stream.set_nonblocking(true).map_err(|error| error.to_string())?;
            match self.stream.read(&mut byte) {
                Ok(0) => self.over = true,
                Ok(_) => self.input.push(byte[0]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.over = true,
            }
        }
        self.stream.set_nonblocking(false).map_err(|error| error.to_string())
    }

    /// Reads the stream of a `watch` command for a short time.
    ///
    /// # Errors
    /// If the server ends the stream.
    pub fn watched(&mut self) -> Result<(), String> {
        self.stream.set_read_timeout(Some(Duration::from_millis(20))).map_err(|error| error.to_string())?;
        match self.stream.read(&mut [0; READ_BYTES]) {
            Ok(0) => Err("the server closed a watcher's connection".into()),
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Waits until the server closes the connection.
    ///
    /// # Errors
    /// If other bytes arrive.
    pub fn end(&mut self) -> Result<(), String> {
        match self.fill(1) {
            Err(_) if self.over => Ok(()),
            Err(error) => Err(error),
            Ok(()) => Err("there are more replies than requests".into()),
        }
    }

    fn take_line(&mut self) -> Result<Vec<u8>, String> {
        loop {
            if let Some(end) = memchr(b'\n', &self.input[self.at..]) {
                let line = self.input[self.at..self.at + end].strip_suffix(b"\r").map(<[u8]>::to_vec);
                self.at += end + 1;
                return line.ok_or_else(|| "a line has no end".to_owned());
            }
            self.fill(self.input.len() - self.at + 1)?;
        }
    }

    /// Reads until `count` bytes have arrived.
    fn fill(&mut self, bytes: usize) -> Result<(), String> {
        while self.input.len() - self.at < bytes {
            self.input.drain(..self.at);
            self.at = 0;
            let end = self.input.len();
            self.input.resize(end + READ_BYTES, 0);
            let read = self.stream.read(&mut self.input[end..]);
            self.input.truncate(end + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => {
                    self.over = true;
                    return Err("the server closed the connection".into());
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.over = !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                    return Err(format!("reading: {error}"));
                }
            }
        }
        Ok(())
    }
}
