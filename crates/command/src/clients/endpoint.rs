//! The endpoint that a connection came in at: a protocol and a namespace.

use segment::Namespace;

/// The protocol that a listener's clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// memcached's, text and meta.
    Memcache,
    /// That of Redis, in its versions 2 and 3.
    Resp,
}

impl Protocol {
    /// Its name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memcache => "memcached",
            Self::Resp => "Redis",
        }
    }

    /// The error line sent to a client that connects when the limit on connections is reached.
    pub const fn refusal(self) -> &'static [u8] {
        match self {
            Self::Memcache => b"ERROR Too many open connections\r\n",
            Self::Resp => b"-ERR max number of clients reached\r\n",
        }
    }
}

/// The endpoint that a connection came in at: its client's protocol, and the namespace that its keys are in at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The protocol that its client speaks.
    pub protocol: Protocol,
    /// The namespace of its listener.
    pub namespace: Namespace,
    /// True if the connection was counted in that namespace when it came in.
    pub is_counted: bool,
}

impl Endpoint {
    /// The endpoint of a listener.
    pub const fn new(protocol: Protocol, namespace: Namespace) -> Self {
        Self { protocol, namespace, is_counted: false }
    }
}

/// The endpoint to the default namespace.
impl From<Protocol> for Endpoint {
    fn from(protocol: Protocol) -> Self {
        Self::new(protocol, Namespace::DEFAULT)
    }
}
