//! The endpoint that accepted a connection: a protocol and a namespace.

use segment::Namespace;

/// The protocol that a listener's clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// memcached's protocol, with text and meta commands.
    Memcache,
    /// Redis's protocol, versions 2 and 3.
    Resp,
}

impl Protocol {
    /// Returns its name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memcache => "memcached",
            Self::Resp => "Redis",
        }
    }

    /// Returns the error line for a client that connects when the limit on connections is reached.
    pub const fn refusal(self) -> &'static [u8] {
        match self {
            Self::Memcache => b"ERROR Too many open connections\r\n",
            Self::Resp => b"-ERR max number of clients reached\r\n",
        }
    }
}

/// The endpoint that accepted a connection: its client's protocol, and the first namespace of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The protocol that its client speaks.
    pub protocol: Protocol,
    /// The namespace of its listener.
    pub namespace: Namespace,
    /// True if the connection was counted in that namespace when it was accepted.
    pub is_counted: bool,
}

impl Endpoint {
    /// Creates the endpoint of a listener.
    pub const fn new(protocol: Protocol, namespace: Namespace) -> Self {
        Self { protocol, namespace, is_counted: false }
    }
}

/// Converts a protocol to its endpoint in the default namespace.
impl From<Protocol> for Endpoint {
    fn from(protocol: Protocol) -> Self {
        Self::new(protocol, Namespace::DEFAULT)
    }
}
