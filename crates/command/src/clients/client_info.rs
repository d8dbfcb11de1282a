//! The info about a Redis client that other clients can list (`CLIENT LIST`).
//!
//! A client info is stored in its connection's entry of the connection table ([`super::connection_table`]). The
//! connection's worker writes it, and any thread may read it. Its lock is taken when the info changes, but never for an
//! ordinary request.

use arrayvec::ArrayVec;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The maximum length of a text that a client reports about itself, in bytes.
pub const CLIENT_TEXT_MAX: usize = 64;

/// A text that a client reports about itself.
pub type ClientText = ArrayVec<u8, CLIENT_TEXT_MAX>;

/// The properties of a client that tracks keys, as other clients see them. Any thread may change them.
#[derive(Debug, Default)]
pub struct TrackingFlags {
    /// True if the client receives all changes of some prefixes.
    pub broadcasts: AtomicBool,
    /// True if the client to which the invalidations are redirected has ended.
    pub is_broken: AtomicBool,
    /// The id of the client to which the invalidations are redirected; 0 if there is none.
    pub redirect: AtomicU64,
}

/// The info about a client.
#[derive(Clone, Debug, Default)]
pub struct ClientInfo {
    /// The connection's number, from 1. It is unique since the server's start.
    pub id: u64,
    /// The local address of the connection. `None` for a unix socket.
    pub local: Option<SocketAddr>,
    /// The instant at which the client connected, in Unix seconds.
    pub since_secs: u64,
    /// The name that the client set.
    pub name: ClientText,
    /// The name of the client's library.
    pub library: ClientText,
    /// The version of the library.
    pub library_version: ClientText,
    /// The user that the client has authenticated as. Empty if none.
    pub user: ClientText,
    /// True if the connection is one of gRPC, whose calls have users of their own. The user is that of the last one.
    pub is_grpc: bool,
    /// True if the client uses version 3 of the Redis protocol.
    pub is_resp3: bool,
    /// The numbers of subscriptions to channels, patterns and shard channels.
    pub subscriptions: [u32; 3],
    /// The number of the client's current namespace.
    pub database: u8,
    /// True if the client has stated that it follows redirections (`CLIENT CAPA`). This server sends none.
    pub can_redirect: bool,
    /// True if the client is in MONITOR mode.
    pub monitors: bool,
    /// The properties of the client if it tracks keys.
    pub tracking: Option<Arc<TrackingFlags>>,
    /// True if the connection ends.
    pub is_ending: bool,
    /// The client's last command, with its subcommand, as of the worker's last sweep.
    pub command: &'static str,
    /// The number of the last pause in which a request of the client had to wait.
    pub paused_in: u64,
    /// True while the client waits in a blocking command.
    pub is_waiting: bool,
    /// The deadline of the client's first request, a blocking command that has waited in another process, in ms of the
    /// store's clock.
    pub waits_until: Option<u64>,
    /// The end of its wait that another client has requested and that is not executed yet.
    pub unblocked: Option<Unblock>,
    /// The memory of the connection.
    pub memory: ClientMemory,
}

/// The reply to a blocking command that another client ends (`CLIENT UNBLOCK`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblock {
    /// The reply at the deadline.
    Timeout,
    /// An error.
    Error,
}

/// The maximum memory of an idle connection, in bytes. Such a connection holds no buffer.
pub const CONNECTION_BYTES_MAX: usize = 1 << 10;

/// The memory of a connection, as of the worker's last sweep.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientMemory {
    /// The received bytes that were not executed yet.
    pub query_bytes: usize,
    /// The free bytes of the receive buffer.
    pub query_free_bytes: usize,
    /// The length of the words of the request in execution, in bytes.
    pub args_bytes: usize,
    /// The number of requests that are queued in a transaction; `None` without a transaction.
    pub queued: Option<u32>,
    /// The memory of the queued requests and the watched keys, in bytes.
    pub queue_bytes: u64,
    /// The bytes of replies in the send buffer that were not sent yet.
    pub reply_bytes: u64,
    /// The length of the send buffer, in bytes.
    pub reply_capacity: usize,
    /// The bytes of a reply that are held outside the send buffer.
    pub held_bytes: u64,
    /// True if the socket accepts no more bytes for now.
    pub is_sending: bool,
}

impl ClientMemory {
    /// Returns the memory of the connection with all its buffers, in bytes.
    pub fn total_bytes(&self) -> u64 {
        let buffers = self.query_bytes + self.query_free_bytes + self.args_bytes + self.reply_capacity;
        (CONNECTION_BYTES_MAX + buffers) as u64 + self.queue_bytes + self.held_bytes
    }
}

impl ClientInfo {
    /// Returns true if the client has a subscription.
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions != [0; 3]
    }
}
