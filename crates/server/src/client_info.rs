//! What a client of Redis says of itself and does, as the other clients see it (`CLIENT LIST`).
//!
//! A client info is in its connection's entry of the [`crate::connection_table::ConnectionTable`], written by the
//! connection's worker and read by any. Its lock is taken when something on it changes, never for an ordinary request.

use arrayvec::ArrayVec;
use std::net::SocketAddr;

/// Text that a client may leave about itself, in bytes.
pub const CLIENT_TEXT_MAX: usize = 64;

/// A text by which a client names itself.
pub type ClientText = ArrayVec<u8, CLIENT_TEXT_MAX>;

/// The info of a client.
#[derive(Clone, Debug, Default)]
pub struct ClientInfo {
    /// The connection's number: unique among all since the server's start, from 1.
    pub id: u64,
    /// Its own end of the connection; `None` for a unix socket.
    pub local: Option<SocketAddr>,
    /// Time at which it connected, in Unix seconds.
    pub since_secs: u64,
    /// The name that it gave itself.
    pub name: ClientText,
    /// Its library.
    pub library: ClientText,
    /// The version of that.
    pub library_version: ClientText,
    /// User that it authenticated as; empty if none.
    pub user: ClientText,
    /// It speaks version 3 of the protocol.
    pub speaks_3: bool,
    /// Its subscriptions to channels, patterns and shard channels.
    pub subscriptions: [u32; 3],
    /// The namespace that it is in.
    pub database: u8,
    /// It monitors.
    pub monitors: bool,
    /// The command that it called last, as it was when it was last looked at.
    pub command: &'static str,
}

impl ClientInfo {
    /// It is subscribed to something.
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions != [0; 3]
    }
}
