//! Where a connection goes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// The target of a connection. As data it is its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Target {
    /// A host name or address and a port.
    Tcp(String),
    /// A unix socket.
    Unix(PathBuf),
}

/// A text is not a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError(pub String);

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no target; write HOST:PORT as in 127.0.0.1:11211 or [::1]:11211, or unix:PATH", self.0)
    }
}

impl std::error::Error for TargetError {}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let fault = || TargetError(text.to_owned());
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

impl TryFrom<String> for Target {
    type Error = TargetError;

    fn try_from(text: String) -> Result<Self, TargetError> {
        text.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A target whose name was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Target {
    /// Looks the name up, once, before the run.
    pub(super) fn resolve(&self) -> std::io::Result<Resolved> {
        match self {
            Self::Unix(path) => Ok(Resolved::Unix(path.clone())),
            Self::Tcp(address) => match address.to_socket_addrs()?.next() {
                Some(found) => Ok(Resolved::Tcp(found)),
                None => Err(std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_display_writes_reads_back() {
        for text in ["127.0.0.1:11211", "cache.example:1", "[::1]:6379", "unix:/run/a b.sock"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert_eq!("tcp:h:1".parse::<Target>().unwrap().to_string(), "h:1");
    }

    #[test]
    fn what_names_no_port_or_path_is_refused_with_the_remedy() {
        for text in ["", "localhost", "unix:", ":1", "h:", "h:65536", "::1:6379", "h:x"] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
    }
}
