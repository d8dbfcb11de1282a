//! A connection with two buffers: the caller appends requests to one and takes replies from the other.
//!
//! Both directions move at once, so that a server that stops reading until its replies are read cannot deadlock with a
//! client that stops reading until its requests are sent.
//!
//! ```text
//!   out   ---> requests  --->  server
//!   input <--- replies   <---          pump: sends and receives what it can, waits at most `timeout`
//! ```

use std::io::{self, ErrorKind};
use std::time::Duration;

use crate::address::Address;
use crate::stream::{ServerStream, wait_for};
use crate::tls::{Maker, TlsClient};

/// Number of bytes taken from the socket at once.
const CHUNK_BYTES: usize = 128 << 10;
/// Capacity above which an empty buffer is freed, in bytes.
const RETAINED_BYTES_MAX: usize = 8 << 20;

/// A connection with buffers for requests and replies, which can be reopened.
pub struct Link {
    address: Address,
    /// Creates the connection's TLS, if it is used.
    maker: Option<Maker>,
    timeout: Duration,
    stream: Option<ServerStream>,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    taken: usize,
    chunk: Box<[u8]>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("address", &self.address).field("is_up", &self.is_up()).finish_non_exhaustive()
    }
}

impl Link {
    /// Prepares a connection to `address`, not yet connected, over TLS if `tls` is given. A wait for the server fails
    /// after `timeout`.
    pub fn new(address: Address, tls: Option<&TlsClient>, timeout: Duration) -> Self {
        let maker = tls.map(|client| client.maker(std::slice::from_ref(&address), 1));
        Self {
            address,
            maker,
            timeout,
            stream: None,
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            taken: 0,
            chunk: vec![0; CHUNK_BYTES].into(),
        }
    }

    /// Returns whether the connection is open.
    pub const fn is_up(&self) -> bool {
        self.stream.is_some()
    }

    /// Connects, and empties both buffers.
    ///
    /// # Errors
    /// If the server cannot be reached or does not reply in time; a [`crate::tls::Failure`] if TLS fails.
    pub fn connect(&mut self) -> io::Result<()> {
        self.close();
        self.stream = Some(ServerStream::connect(&self.address, self.maker.as_ref(), self.timeout)?);
        Ok(())
    }

    /// Closes the connection, and empties both buffers.
    pub fn close(&mut self) {
        self.stream = None;
        self.out.clear();
        self.input.clear();
        (self.sent, self.taken) = (0, 0);
    }

    /// Returns the buffer to which requests are appended.
    pub const fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Returns the received bytes that have not been taken.
    pub fn input(&self) -> &[u8] {
        &self.input[self.taken..]
    }

    /// Removes the first `bytes` of the input.
    ///
    /// # Panics
    /// If the input is shorter.
    pub fn take(&mut self, bytes: usize) {
        self.taken += bytes;
        assert!(self.taken <= self.input.len(), "only bytes that were received can be taken");
        if self.taken == self.input.len() {
            self.input.clear();
            self.taken = 0;
            if self.input.capacity() > RETAINED_BYTES_MAX {
                self.input = Vec::new();
            }
        }
    }

    /// Sends and receives until at least one byte was received.
    ///
    /// # Errors
    /// If the connection is not open, has failed or was closed by the server, or if nothing arrived within the time
    /// limit.
    pub fn pump(&mut self) -> io::Result<()> {
        loop {
            let sending = !self.flush()?;
            if self.receive()? {
                return Ok(());
            }
            self.stream.as_ref().ok_or(ErrorKind::NotConnected)?.wait(sending)?;
        }
    }

    /// Receives bytes that have arrived, without waiting. Returns false if there are none.
    ///
    /// # Errors
    /// If the connection is not open, has failed or was closed by the server.
    pub fn receive(&mut self) -> io::Result<bool> {
        let stream = self.stream.as_mut().ok_or(ErrorKind::NotConnected)?;
        match stream.receive_now(&mut self.chunk) {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
            Ok(bytes) => {
                if self.taken > 0 {
                    self.input.drain(..self.taken);
                    self.taken = 0;
                }
                self.input.extend_from_slice(&self.chunk[..bytes]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends as many bytes as the socket accepts now. Returns true if none remain.
    ///
    /// # Errors
    /// If the connection is not open or has failed.
    pub fn flush(&mut self) -> io::Result<bool> {
        let stream = self.stream.as_mut().ok_or(ErrorKind::NotConnected)?;
        while self.sent < self.out.len() {
            match stream.send_now(&self.out[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        if !stream.flush_now()? {
            return Ok(false);
        }
        if self.out.capacity() > RETAINED_BYTES_MAX {
            self.out = Vec::new();
        }
        Ok(true)
    }
}

/// Waits at most `timeout` until one of the connections has input, or accepts output that it has to send.
///
/// # Errors
/// If a connection is not open, or the kernel cannot wait.
pub fn wait_any(links: &[&Link], timeout: Duration) -> io::Result<()> {
    let mut waits = Vec::with_capacity(links.len());
    for link in links {
        let stream = link.stream.as_ref().ok_or(ErrorKind::NotConnected)?;
        waits.push(stream.interest(link.sent < link.out.len()));
    }
    wait_for(&mut waits, timeout).map(drop)
}
