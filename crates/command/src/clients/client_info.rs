//! The info of a Redis client that other clients can list (`CLIENT LIST`).
//!
//! A client info is in its connection's entry of the connection table ([`super::connection_table`]), written by the
//! connection's worker and read by any thread. Its lock is taken when the info changes, never for an ordinary request.

use arrayvec::ArrayVec;
use std::net::SocketAddr;

/// The maximum length of a text that a client sets about itself, in bytes.
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
    /// The name that the client set.
    pub name: ClientText,
    /// Its library.
    pub library: ClientText,
    /// The version of the library.
    pub library_version: ClientText,
    /// The user that it authenticated as; empty if none.
    pub user: ClientText,
    /// True if it uses version 3 of the protocol.
    pub is_resp3: bool,
    /// Its subscriptions to channels, patterns and shard channels.
    pub subscriptions: [u32; 3],
    /// The namespace that it is in.
    pub database: u8,
    /// True if it monitors.
    pub monitors: bool,
    /// Its last command, as of the worker's last sweep.
    pub command: &'static str,
}

impl ClientInfo {
    /// Returns true if it has a subscription.
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions != [0; 3]
    }
}
