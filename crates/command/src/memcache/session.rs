//! The memcached protocol's state of a connection, which persists between two visits.

use super::state::{Dumping, FirstFetch, Retrieval, Storing};
use crate::clients::endpoint::{Endpoint, Protocol};
use crate::context::AuthWait;
use crate::context::WorkerContext;
use crate::handover::{HandoverConnection, HandoverUser};
use crate::host::ReloadResult;
use crate::keyspace::namespaces::ROUTED;
use crate::keyspace::namespaces::{LIMITED, PAUSED};
use crate::lookup::large::LargeSet;
use crate::push::watch::{Hub, Watching};
use crate::resp::acl::User;
use crate::shared::Shared;
use protocol::memcache::reply;
use segment::{Guard, Namespace};
use std::sync::Arc;

/// The memcached protocol's state of a connection, which persists between calls of `serve`.
#[derive(Default)]
pub struct SessionState {
    /// The namespace of the current request's key.
    pub(crate) namespace: Namespace,
    /// The namespace of the connection's listener.
    pub(super) home: Namespace,
    /// The checks that requests of this session may need before execution. The bits are those of `BatchRoutes::guards`.
    pub(super) guards: u32,
    /// True if the current request has already been counted against the quota of operations per second.
    pub(super) is_counted: bool,
    /// The number of input bytes of a refused request that must still be discarded. Unlimited for a watcher.
    pub(super) discard_bytes: u64,
    /// A retrieval that was partly answered. Its line is at the start of the input.
    pub(super) retrieval: Option<Retrieval>,
    /// The number of sent lines of a statistics table that was partly sent.
    pub(super) lines_done: usize,
    /// The large value that is being received.
    pub(super) large: Option<Storing>,
    /// The dump that is being sent.
    pub(super) dump: Option<Box<Dumping>>,
    /// The result of a fetch that was executed, but whose reply did not fit into the output.
    pub(super) fetched: Option<FirstFetch>,
    /// The reload of certificates that the client waits for.
    pub(super) reload: Option<ReloadResult>,
    /// True if the client has authenticated.
    pub(super) known: bool,
    /// True if the client must authenticate even if the server does not require it, because it is on another host
    /// and connects to a protected listener.
    pub(crate) is_distant: bool,
    /// The user whose rights apply, once users have changed: that of the client's login, or `default`.
    /// `None` for a user of `listen.auth_file`.
    pub(super) user: Option<Arc<User>>,
    /// The wait of the client's authentication attempt.
    pub(crate) auth_wait: Option<Box<AuthWait>>,
    /// The connection's registration as a watcher.
    pub(super) watching: Option<Watching>,
}

/// Returns true if the client still has to authenticate.
pub(crate) fn needs_login(session: &SessionState, shared: &Shared) -> bool {
    !session.known && (session.is_distant || shared.requires_authentication())
}

/// Returns true if the client's user was removed, or if the client is a watcher and must authenticate now.
pub(crate) fn has_lost_user(session: &SessionState, shared: &Shared) -> bool {
    match &session.user {
        Some(user) if session.known => user.is_replaced() && !shared.users.has(&user.name),
        _ => session.watches() && needs_login(session, shared),
    }
}

/// Authenticates the client as the user `name`, without a password. Returns false if there is no such user, or if it
/// is disabled.
pub(crate) fn identify(session: &mut SessionState, name: &[u8], shared: &Shared) -> bool {
    let user = shared.users.find_enabled(name);
    let is_user = user.is_some() || shared.auth.as_ref().is_some_and(|auth| auth.has_user(name));
    if is_user {
        log_in(session, user);
    }
    is_user
}

/// Authenticates the client as `user`, or as a user of `listen.auth_file` if `user` is `None`.
pub(super) fn log_in(session: &mut SessionState, user: Option<Arc<User>>) {
    (session.known, session.user) = (true, user);
}

impl SessionState {
    /// Creates the state of a new connection of a listener with this namespace.
    pub(crate) fn of(namespace: Namespace) -> Self {
        Self { namespace, home: namespace, guards: Self::guards_of(namespace), ..Self::default() }
    }

    /// Releases the connection's resources in the store and its registration as a watcher. The caller calls it once,
    /// when the connection ends.
    pub fn release(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext) {
        if let Some(storing) = self.large.take() {
            storing.large.end(guard, ctx);
        }
        self.watching = None;
        if let Some(wait) = self.auth_wait.take() {
            wait.abandon(ctx);
        }
    }

    /// Returns the large value that is being received.
    #[inline]
    pub(crate) fn large(&self) -> Option<&LargeSet> {
        self.large.as_ref().map(|storing| &storing.large)
    }

    /// Returns the large value that is being received, so that the caller can receive into it.
    pub(crate) fn large_mut(&mut self) -> Option<&mut LargeSet> {
        self.large.as_mut().map(|storing| &mut storing.large)
    }

    /// Returns true if the input begins with a request, or with the request of a partly answered retrieval.
    pub(super) fn is_between_requests(&self) -> bool {
        (self.discard_bytes == 0 || self.watching.is_some())
            && self.lines_done == 0
            && self.large.is_none()
            && self.dump.is_none()
            && self.fetched.is_none()
    }

    /// Returns the state to hand over to another process. `input` holds the bytes that were received and not executed.
    /// Returns `None` if a request is partly executed. A partly answered retrieval is replaced by a retrieval of its
    /// remaining keys.
    pub(crate) fn to_handover(&self, mut input: &[u8]) -> Option<HandoverConnection> {
        if !self.is_between_requests() {
            return None;
        }
        let mut carried = HandoverConnection {
            known: self.known,
            user: match &self.user {
                Some(user) if self.known => HandoverUser::Named(user.name.clone()),
                None if self.known => HandoverUser::OfFile,
                _ => HandoverUser::Anonymous,
            },
            ..HandoverConnection::new(Endpoint::new(Protocol::Memcache, self.home))
        };
        carried.watches = self.watching.as_ref().map_or(0, Watching::kinds);
        if let Some(retrieval) = self.retrieval {
            let line = input.split_off(..retrieval.consumed)?;
            match retrieval.rest_of(line) {
                Some(rest) => carried.input = rest,
                // All keys are answered; only the end of the reply is missing.
                None => carried.output = reply::END.to_vec(),
            }
        }
        carried.input.extend_from_slice(input);
        Some(carried)
    }

    /// Restores the client's authentication after a handover. If its user no longer exists, the client must
    /// authenticate again.
    pub(crate) fn resume_as(&mut self, carried: &HandoverConnection, shared: &Shared) {
        match &carried.user {
            HandoverUser::Named(name) => match shared.users.find(name) {
                Some(user) => log_in(self, Some(user)),
                None => self.known = false,
            },
            // An older process does not name the users of memcached clients, which are those of the file.
            _ => self.known = carried.known,
        }
    }

    /// Restores the registration as a watcher. Returns false if the maximum number of watchers is reached.
    pub(crate) fn restore(&mut self, carried: &HandoverConnection, ctx: &WorkerContext) -> bool {
        if carried.watches != 0 {
            self.watching = Hub::watch_again(&ctx.shared.watch, carried.watches, ctx.worker, ctx.push.watch.connection);
            self.discard_bytes = u64::MAX;
        }
        carried.watches == 0 || self.watching.is_some()
    }

    /// Returns true if lines wait to be sent to this watcher.
    pub(crate) fn has_messages(&self) -> bool {
        self.watching.as_ref().is_some_and(Watching::is_waiting)
    }

    /// Copies the next lines for this watcher to the beginning of `into`, and removes them from the queue. Returns
    /// their length in bytes.
    pub(crate) fn take_messages(&self, into: &mut [u8]) -> usize {
        self.watching.as_ref().map_or(0, |watching| watching.take(into))
    }

    /// Returns true if the current request was partly answered.
    pub(crate) fn is_long(&self) -> bool {
        self.retrieval.is_some() || self.lines_done > 0 || self.dump.is_some()
    }

    /// Returns true if the connection is a watcher.
    pub(crate) fn watches(&self) -> bool {
        self.watching.is_some()
    }

    /// Returns the checks that requests of this listener's clients may need before execution, as bits: quotas of
    /// operations, pauses, routes, and rights.
    pub(super) fn guards_of(home: Namespace) -> u32 {
        1 << home.0 | PAUSED | LIMITED | if home == Namespace::DEFAULT { ROUTED } else { 0 }
    }

    /// Returns the namespace of the connection's listener.
    pub(crate) fn listener_namespace(&self) -> Namespace {
        self.home
    }
}
