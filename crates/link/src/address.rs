//! The address of a server, and connections to it.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The address of a server. Its serialised form is its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Address {
    /// A host name or address and a port.
    Tcp(String),
    /// A unix socket.
    Unix(PathBuf),
}

/// The error for a text that is not an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError(pub String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not an address; write HOST:PORT as in 127.0.0.1:11211 or [::1]:11211, or unix:PATH", self.0)
    }
}

impl std::error::Error for AddressError {}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let fault = || AddressError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(fault()) } else { Ok(Self::Unix(path.into())) };
        }
        let address = text.strip_prefix("tcp:").unwrap_or(text);
        let (host, port) = address.rsplit_once(':').ok_or_else(fault)?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || (host.contains(':') && !bracketed) || port.parse::<u16>().is_err() {
            return Err(fault());
        }
        Ok(Self::Tcp(address.to_owned()))
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An address whose host name has been resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

fn no_address() -> std::io::Error {
    std::io::Error::new(ErrorKind::NotFound, "the name has no address")
}

impl Address {
    /// Resolves the host name and returns its first address.
    ///
    /// # Errors
    /// If the name is unknown or has no address.
    pub fn resolve(&self) -> std::io::Result<Resolved> {
        match self {
            Self::Unix(path) => Ok(Resolved::Unix(path.clone())),
            Self::Tcp(address) => address.to_socket_addrs()?.next().map(Resolved::Tcp).ok_or_else(no_address),
        }
    }
}

impl Resolved {
    /// Begins to connect a new non-blocking socket. Returns the socket, and true if it is already connected. Otherwise
    /// the socket becomes writable when the attempt has ended.
    ///
    /// # Errors
    /// If no socket can be created, or if the connection fails at once.
    pub fn begin(&self) -> std::io::Result<(OwnedFd, bool)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, connected) = match self {
            Self::Tcp(address) => {
                let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
                sockopt::set_tcp_nodelay(&socket, true)?;
                let connected = rustix::net::connect(&socket, address);
                (socket, connected)
            }
            Self::Unix(path) => {
                let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
                let connected = rustix::net::connect(&socket, &SocketAddrUnix::new(path.as_path())?);
                (socket, connected)
            }
        };
        match connected {
            Ok(()) => Ok((socket, true)),
            Err(Errno::INPROGRESS) => Ok((socket, false)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Connects to the first address of `address` (`HOST:PORT`) that accepts the connection. `timeout` applies to each
/// address.
///
/// # Errors
/// If the name is unknown, or no address accepts the connection: the error of the last address.
pub fn connect_tcp(address: &str, timeout: Duration) -> std::io::Result<TcpStream> {
    let mut last = no_address();
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_address_parses_back() {
        for text in ["127.0.0.1:11211", "cache.example:1", "[::1]:6379", "unix:/run/a b.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("tcp:h:1".parse::<Address>().unwrap().to_string(), "h:1");
    }

    #[test]
    fn address_without_port_or_path_is_rejected_with_remedy() {
        for text in ["", "localhost", "unix:", ":1", "h:", "h:65536", "::1:6379", "h:x"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
    }
}
