//! The endpoint that accepted a connection: its protocol and its namespace.

use segment::Namespace;

/// The protocol of a listener and its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The memcached protocol, with text and meta commands.
    Memcache,
    /// The Redis protocol, versions 2 and 3.
    Resp,
    /// gRPC over HTTP/2.
    Grpc,
}

/// The frames by which a server ends a connection whose client has not authenticated: empty `SETTINGS`, which a client
/// that has sent nothing needs first, and `GOAWAY` for no stream with the error `ENHANCE_YOUR_CALM`. Source: RFC 9113,
/// 3.4, 6.5 and 6.8.
const GRPC_FAREWELL: &[u8] = &[
    0, 0, 0, 4, 0, 0, 0, 0, 0, // SETTINGS
    0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11, // GOAWAY
];

impl Protocol {
    /// Returns the protocol's name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memcache => "memcached",
            Self::Resp => "Redis",
            Self::Grpc => "gRPC",
        }
    }

    /// Returns the error line for a client that connects after the limit of connections was reached.
    ///
    /// A gRPC client that gets frames of HTTP/2 connects again at once. After a reply of HTTP/1.1 it waits first.
    pub const fn refusal(self) -> &'static [u8] {
        match self {
            Self::Memcache => b"ERROR Too many open connections\r\n",
            Self::Resp => b"-ERR max number of clients reached\r\n",
            Self::Grpc => {
                b"HTTP/1.1 503 Too many open connections (maxconns)\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            }
        }
    }

    /// Returns the error line for a client that connects after its address has reached its limit of connections.
    pub const fn source_refusal(self) -> &'static [u8] {
        match self {
            Self::Memcache => b"ERROR Too many open connections from this address (limits.maxconns_per_source)\r\n",
            Self::Resp => b"-ERR max number of clients reached for this address (limits.maxconns_per_source)\r\n",
            Self::Grpc => {
                b"HTTP/1.1 503 Too many open connections from this address (limits.maxconns_per_source)\r\n\
                connection: close\r\ncontent-length: 0\r\n\r\n"
            }
        }
    }

    /// Returns the error line for a client that has not authenticated in time.
    pub const fn login_timeout(self) -> &'static [u8] {
        match self {
            Self::Memcache => b"CLIENT_ERROR no authentication in time (limits.login_timeout)\r\n",
            Self::Resp => b"-NOAUTH no authentication in time (limits.login_timeout)\r\n",
            Self::Grpc => GRPC_FAREWELL,
        }
    }

    /// Returns the error line for a client without TLS on a listener with TLS.
    pub const fn tls_hint(self) -> &'static [u8] {
        match self {
            Self::Memcache => b"SERVER_ERROR this port uses TLS; connect with TLS, or to a port without it\r\n",
            Self::Resp => b"-ERR this port uses TLS; connect with TLS, or to a port without it\r\n",
            Self::Grpc => {
                b"HTTP/1.1 400 This port uses TLS; connect with TLS, or to a port without it\r\n\
                connection: close\r\ncontent-length: 0\r\n\r\n"
            }
        }
    }
}

/// The endpoint that accepted a connection: a protocol, and the initial namespace of the client's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The protocol of the client.
    pub protocol: Protocol,
    /// The namespace of the listener.
    pub namespace: Namespace,
    /// True if the connection was already counted in the listener's namespace when it was accepted.
    pub is_counted: bool,
    /// True if connections of the listener use TLS.
    pub is_tls: bool,
}

impl Endpoint {
    /// Creates the endpoint of a listener with this protocol and namespace.
    pub const fn new(protocol: Protocol, namespace: Namespace) -> Self {
        Self { protocol, namespace, is_counted: false, is_tls: false }
    }

    /// Returns the endpoint of a listener with TLS.
    #[must_use]
    pub const fn over_tls(self) -> Self {
        Self { is_tls: true, ..self }
    }
}

/// Converts a protocol to an endpoint in the default namespace.
impl From<Protocol> for Endpoint {
    fn from(protocol: Protocol) -> Self {
        Self::new(protocol, Namespace::DEFAULT)
    }
}
