//! A connection's protocol, endpoint and state between two calls of its protocol's `serve`.

use crate::context::WorkerContext;
use crate::handover::HandoverConnection;
use crate::lookup::large::LargeSet;
use crate::push::outbox::{MessageCheck, Subscriber};
use crate::shared::Shared;
use crate::visit::clock::Ticks;
use crate::{grpc, memcache, resp};
use segment::{Guard, Namespace, Store};

use crate::clients::client_info::ClientMemory;
use crate::clients::endpoint::{Endpoint, Protocol};
use crate::lookup::ahead::NextSet;
pub use crate::lookup::ahead::{PrefetchedHead, ReadHead};

/// The state of a connection that its protocol retains between two calls of `serve`.
pub enum SessionState {
    /// A memcached client.
    Memcache(memcache::SessionState),
    /// A Redis client.
    Resp(resp::SessionState),
    /// A gRPC client.
    Grpc(Box<grpc::GrpcSession>),
}

/// Prepares a session for messages that another client has redirected to it, if there are any. `connection` is the
/// session's number in the worker.
pub fn adopt_messages(session: &mut SessionState, ctx: &WorkerContext, connection: u32) {
    if let SessionState::Resp(state) = session {
        resp::adopt_messages(state, ctx, connection);
    }
}

/// Authenticates the client as the first of `names` that is the name of an enabled user: the names in the certificate
/// of the client. Returns the user's name, or `None` if there is no such user.
pub fn identify(session: &mut SessionState, names: &[String], shared: &Shared) -> Option<Vec<u8>> {
    let is_user = |name: &&[u8]| match session {
        SessionState::Memcache(state) => memcache::identify(state, name, shared),
        SessionState::Resp(state) => resp::identify(state, name, shared),
        SessionState::Grpc(state) => state.identify(name, shared),
    };
    names.iter().map(String::as_bytes).find(is_user).map(<[u8]>::to_vec)
}

/// Returns true if the client still has to authenticate.
pub fn needs_login(session: &SessionState, shared: &Shared) -> bool {
    match session {
        SessionState::Memcache(state) => memcache::needs_login(state, shared),
        SessionState::Resp(state) => resp::needs_login(state, shared),
        SessionState::Grpc(state) => resp::needs_login(state.redis(), shared),
    }
}

/// Returns true if users have changed so that the connection must be closed: its user was removed, or it receives
/// events, or waits in a command, and must authenticate now. All others are refused at their next request.
pub fn has_lost_user(session: &SessionState, shared: &Shared) -> bool {
    match session {
        SessionState::Memcache(state) => memcache::has_lost_user(state, shared),
        SessionState::Resp(state) => resp::has_lost_user(state, shared),
        SessionState::Grpc(state) => state.has_lost_user(shared),
    }
}

/// Returns the bytes of client memory that hold an incomplete request or transaction of a Redis client: queued
/// requests, watched keys, and the received part of a request over several keys. For a gRPC client, see
/// [`SessionState::reply_held`].
pub fn incomplete_bytes(session: &SessionState) -> u64 {
    if let SessionState::Resp(state) = session { resp::incomplete_bytes(state) } else { 0 }
}

/// Returns true if memory waits for a gRPC client, although the socket accepts bytes: for larger windows, or for the
/// rest of its requests.
#[inline]
pub fn waits_for_window(session: &SessionState) -> bool {
    matches!(session, SessionState::Grpc(state) if state.reply_held().is_some())
}

/// Returns true if a connection with messages must be visited: they wait in the log of a topic.
pub fn is_visited_for_messages(session: &SessionState) -> bool {
    matches!(session, SessionState::Grpc(_))
}

/// Returns true if the client waits in a blocking command.
pub fn waits_in_command(session: &SessionState) -> bool {
    matches!(session, SessionState::Resp(state) if resp::waits_in_command(state))
}

/// Returns true if the client waits in a blocking command, and can take a turn whatever output is unsent.
#[inline]
pub fn takes_turns(session: &SessionState) -> bool {
    matches!(session, SessionState::Resp(state) if resp::takes_turns(state))
}

/// Returns true if a client that waits in a blocking command has a reason to go on.
pub fn has_turn(session: &SessionState, ctx: &WorkerContext) -> bool {
    matches!(session, SessionState::Resp(state) if resp::has_turn(state, ctx))
}

/// Prepares the client of a connection that cannot move for the end of the connection: the server stops, or another
/// process takes over.
pub fn leave(session: &mut SessionState) {
    if let SessionState::Grpc(state) = session {
        state.leave();
    }
}

/// Returns the bytes to send before the end of an idle connection, after [`leave`].
pub fn farewell(session: &mut SessionState) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let SessionState::Grpc(state) = session {
        state.say_farewell(&mut bytes);
    }
    bytes
}

impl SessionState {
    /// Returns the first request (the head) of `buf`, which holds the session's received bytes, if that request is
    /// plain. Prefetches the index bucket of the head's key.
    #[inline]
    pub fn head<'l>(&self, guard: &Guard<'l>, buf: &[u8]) -> Option<PrefetchedHead<'l>> {
        let ((bytes, consumed), namespace) = match self {
            Self::Memcache(state) => match memcache::head_key(buf, state) {
                Some(head) => (head, state.namespace),
                None => {
                    let key = memcache::head_set_key(buf, state)?;
                    return Some(PrefetchedHead::Set(NextSet::prefetch_keys(guard, state.namespace, 0, key)));
                }
            },
            Self::Resp(state) => (resp::head_key(buf, state)?, state.namespace),
            Self::Grpc(_) => return None,
        };
        Some(PrefetchedHead::read(guard, &guard.key(namespace, bytes), consumed))
    }

    /// Creates the state of a new connection that was accepted at `endpoint`.
    pub fn new(endpoint: Endpoint) -> Self {
        match endpoint.protocol {
            Protocol::Memcache => Self::Memcache(memcache::SessionState::of(endpoint.namespace)),
            Protocol::Resp => Self::Resp(resp::SessionState::of(endpoint.namespace)),
            Protocol::Grpc => Self::Grpc(Box::new(grpc::GrpcSession::of(endpoint.namespace))),
        }
    }

    /// Returns the protocol of the client.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Memcache(_) => Protocol::Memcache,
            Self::Resp(_) => Protocol::Resp,
            Self::Grpc(_) => Protocol::Grpc,
        }
    }

    /// Returns the namespace that counts the connection.
    #[inline]
    pub fn namespace(&self) -> Namespace {
        match self {
            Self::Memcache(state) => state.listener_namespace(),
            Self::Resp(state) => state.namespace,
            Self::Grpc(state) => state.redis().namespace,
        }
    }

    /// Releases the connection's resources in the store and its registration as a watcher or subscriber. When the
    /// connection ends, the caller calls this function once an iteration until it returns true.
    pub fn release(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext) -> bool {
        match self {
            Self::Memcache(state) => {
                state.release(guard, ctx);
                true
            }
            Self::Resp(state) => resp::release(state, guard, ctx),
            Self::Grpc(state) => state.release(guard, ctx),
        }
    }

    /// Returns the state to hand over to another process. `input` holds the bytes that were received and not executed.
    /// Returns `None` if a request is partly executed.
    pub fn to_handover(&self, input: &[u8]) -> Option<HandoverConnection> {
        match self {
            Self::Memcache(state) => state.to_handover(input),
            Self::Resp(state) => state.to_handover(input),
            // The client connects again: the state of HTTP/2 does not move.
            Self::Grpc(_) => None,
        }
    }

    /// Removes and returns the connection's subscriptions.
    pub fn take_subscriber(&mut self) -> Option<Subscriber> {
        match self {
            Self::Memcache(_) | Self::Grpc(_) => None,
            Self::Resp(state) => state.take_subscriber(),
        }
    }

    /// Restores subscriptions and transaction after a handover. Returns false if client memory is used up.
    pub fn restore(&mut self, carried: &HandoverConnection, guard: &mut Guard<'_>, ctx: &mut WorkerContext) -> bool {
        match self {
            Self::Memcache(state) => state.restore(carried, ctx),
            Self::Resp(state) => state.restore(carried, guard, ctx),
            Self::Grpc(_) => false,
        }
    }

    /// Adopts the settings of a connection that was handed over from another process.
    pub fn resume_as(&mut self, carried: &HandoverConnection, shared: &Shared) {
        match self {
            Self::Memcache(state) => state.resume_as(carried, shared),
            Self::Resp(state) => state.resume_as(carried, shared),
            Self::Grpc(_) => {}
        }
    }

    /// Returns the long value that the session is receiving.
    #[inline]
    fn large(&self) -> Option<&LargeSet> {
        match self {
            Self::Memcache(state) => state.large(),
            Self::Resp(state) => state.large(),
            Self::Grpc(_) => None,
        }
    }

    fn large_mut(&mut self) -> Option<&mut LargeSet> {
        match self {
            Self::Memcache(state) => state.large_mut(),
            Self::Resp(state) => state.large_mut(),
            Self::Grpc(_) => None,
        }
    }

    /// Returns true if the current request needs several visits.
    pub fn is_long(&self) -> bool {
        match self {
            Self::Memcache(state) => state.is_long(),
            Self::Resp(state) => state.is_long(),
            Self::Grpc(state) => state.redis().is_long(),
        }
    }

    /// Returns true if the session is receiving a value in place.
    #[inline]
    pub fn is_arriving(&self) -> bool {
        self.large().is_some_and(LargeSet::is_arriving)
    }

    /// Returns the instant at which the worker began to receive the current part of a value in place. Returns `None` if
    /// no part is being received in place, or if that part is complete.
    pub fn arriving_since(&self) -> Option<Ticks> {
        self.large().and_then(LargeSet::arriving_since)
    }

    /// Returns the memory in the store into which the rest of the current part must be received.
    pub fn in_place_room<'a>(&'a mut self, store: &'a Store) -> Option<&'a mut [u8]> {
        self.large_mut().and_then(|large| large.room(store))
    }

    /// Records that `bytes` bytes were received into the memory that [`SessionState::in_place_room`] returned.
    pub fn arrived(&mut self, bytes: usize) {
        if let Some(large) = self.large_mut() {
            large.receive(bytes);
        }
    }

    /// Returns the length of the part that is being received in place, in bytes, its line end included.
    pub fn in_place_bytes(&self) -> usize {
        self.large().map_or(0, LargeSet::part_bytes)
    }

    /// Moves the bytes of the value that were received in place into `buffer`, which then receives the rest. Returns
    /// the number of bytes moved.
    pub fn move_to_buffer(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext, buffer: &mut [u8]) -> usize {
        self.large_mut().map_or(0, |large| large.move_out(guard, ctx, buffer))
    }

    /// Returns true if a part of a request is consumed and the rest has not been received yet.
    pub fn is_taking_in(&self) -> bool {
        match self {
            Self::Memcache(state) => state.large().is_some(),
            Self::Resp(state) => state.is_taking_in(),
            Self::Grpc(_) => false,
        }
    }

    /// Returns true if a request is partly executed: some of its bytes are consumed, or it needs further visits.
    pub fn is_receiving(&self) -> bool {
        match self {
            Self::Memcache(state) => state.large().is_some(),
            Self::Resp(state) => state.is_receiving(),
            Self::Grpc(state) => state.is_serving(),
        }
    }

    /// Returns true if the client waits for events: a memcached watcher, a Redis client in a blocking command, or a
    /// client whose authentication attempt is delayed.
    pub fn watches(&self) -> bool {
        match self {
            Self::Memcache(state) => state.watches() || state.auth_wait.is_some(),
            Self::Resp(state) => resp::waits_in_command(state) || resp::is_auth_delayed(state),
            Self::Grpc(state) => resp::is_auth_delayed(state.redis()),
        }
    }

    /// Returns true if push messages wait to be sent to the client.
    pub fn has_messages(&self) -> bool {
        match self {
            Self::Memcache(state) => state.has_messages(),
            Self::Resp(state) => state.has_messages(),
            Self::Grpc(_) => false,
        }
    }

    /// Decides whether queued push messages may be sent. Users may have changed since the last call.
    pub fn check_messages(&mut self, shared: &Shared) -> MessageCheck {
        match self {
            Self::Memcache(_) | Self::Grpc(_) => MessageCheck::Send,
            Self::Resp(state) => state.check_messages(&shared.users),
        }
    }

    /// Copies the next push messages to the beginning of `into`, and removes them from the queue. Returns their length
    /// in bytes.
    pub fn take_messages(&mut self, into: &mut [u8]) -> usize {
        match self {
            Self::Memcache(state) => state.take_messages(into),
            Self::Resp(state) => state.take_messages(into),
            Self::Grpc(_) => 0,
        }
    }

    /// Returns true if a reply is only partly written. No other bytes may be written before the rest of that reply.
    pub fn is_replying(&self) -> bool {
        match self {
            Self::Memcache(_) => false,
            Self::Resp(state) => state.is_replying(),
            Self::Grpc(state) => state.has_work(),
        }
    }

    /// Returns true if the session executes a request that its client may cancel by further bytes.
    #[inline]
    pub fn may_be_cancelled(&self) -> bool {
        matches!(self, Self::Grpc(state) if state.may_be_cancelled())
    }

    /// Returns the instant since which a reply is held outside the store for the client, and the reply's length in
    /// bytes. Returns `None` if no reply is held.
    pub fn reply_held(&self) -> Option<(Ticks, u64)> {
        match self {
            Self::Memcache(_) => None,
            Self::Resp(state) => state.reply_held(),
            Self::Grpc(state) => state.reply_held(),
        }
    }

    /// Returns true if the client is subscribed to a channel, a pattern or a topic. The idle timeout then does not
    /// apply.
    pub fn listens(&self) -> bool {
        match self {
            Self::Memcache(_) => false,
            Self::Resp(state) => state.is_subscribed(),
            Self::Grpc(state) => state.is_subscribed(),
        }
    }

    /// Returns the name of the last command that a Redis client called, which is empty if there is none, and the memory
    /// of the client's transaction and held reply. Returns `None` for a memcached client.
    pub fn activity(&self) -> Option<(&'static str, ClientMemory)> {
        match self {
            Self::Memcache(_) => None,
            Self::Resp(state) => Some(state.activity()),
            Self::Grpc(state) => Some(state.redis().activity()),
        }
    }

    /// Records the rights of a new connection. `is_admitted`: the server requires no authentication, so a Redis client
    /// need not authenticate later either. `is_distant`: protected mode covers the client, so it must authenticate.
    pub fn introduce(&mut self, is_admitted: bool, is_distant: bool) {
        match self {
            Self::Memcache(state) => state.is_distant = is_distant,
            Self::Resp(state) => state.introduce(is_admitted, is_distant),
            Self::Grpc(state) => state.redis_mut().introduce(is_admitted, is_distant),
        }
    }
}
