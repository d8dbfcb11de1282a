//! The state that the protocol retains of a connection between two visits.

use super::state::{Dumping, FirstFetch, Retrieval, Storing};
use crate::clients::endpoint::{Endpoint, Protocol};
use crate::context::WorkerContext;
use crate::handover::Carried;
use crate::keyspace::namespaces::PAUSED;
use crate::keyspace::namespaces::ROUTED;
use crate::lookup::large::LargeSet;
use crate::push::watch::{Hub, Watching};
use protocol::memcache::reply;
use segment::{Guard, Namespace};

/// The state that the protocol retains of a connection between calls.
#[derive(Default)]
pub struct SessionState {
    /// Namespace of the key of its request.
    pub(crate) namespace: Namespace,
    /// Namespace of its listener.
    pub(super) home: Namespace,
    /// Checks to make before its requests are done, as bits of [`WorkerContext::guards`].
    pub(super) guards: u32,
    /// True if the current request is already counted among the operations of a second.
    pub(super) is_paid: bool,
    /// Bytes of input that belong to a request that was refused; without end in a watcher.
    pub(super) swallow: u64,
    /// A retrieval that was answered in part; its line is what the input begins with.
    pub(super) retrieval: Option<Retrieval>,
    /// Statistics were answered in part: this many lines are sent.
    pub(super) lines_done: usize,
    /// A large value that is arriving.
    pub(super) large: Option<Storing>,
    /// A dump that is being answered.
    pub(super) dump: Option<Box<Dumping>>,
    /// A fetch was done and its answer did not fit: what its first run found.
    pub(super) fetched: Option<FirstFetch>,
    /// Its client has said who it is.
    pub(super) known: bool,
    /// The connection's place among the watchers.
    pub(super) watching: Option<Watching>,
}

impl SessionState {
    /// Returns the state of a new connection.
    pub(crate) fn of(namespace: Namespace) -> Self {
        Self { namespace, home: namespace, guards: Self::guards_of(namespace), ..Self::default() }
    }

    /// Releases what the connection holds in the store and among the watchers. The caller calls it once, when the
    /// connection ends.
    pub fn release(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext) {
        if let Some(storing) = self.large.take() {
            storing.large.end(guard, ctx);
        }
        self.watching = None;
    }

    /// The value that is arriving.
    #[inline]
    pub(crate) fn large(&self) -> Option<&LargeSet> {
        self.large.as_ref().map(|storing| &storing.large)
    }

    /// Returns the value that is arriving, to receive into.
    pub(crate) fn large_mut(&mut self) -> Option<&mut LargeSet> {
        self.large.as_mut().map(|storing| &mut storing.large)
    }

    /// Returns true if the input begins with a request, or with a retrieval that is answered in part.
    pub(super) fn is_between_requests(&self) -> bool {
        (self.swallow == 0 || self.watching.is_some())
            && self.lines_done == 0
            && self.large.is_none()
            && self.dump.is_none()
            && self.fetched.is_none()
    }

    /// Returns the state that moves to another process, with `input`. `None`: a request is half done. A retrieval that
    /// is answered in part is replaced by one for the keys that are left.
    pub(crate) fn carried(&self, mut input: &[u8]) -> Option<Carried> {
        if !self.is_between_requests() {
            return None;
        }
        let mut carried = Carried { known: self.known, ..Carried::new(Endpoint::new(Protocol::Memcache, self.home)) };
        carried.watches = self.watching.as_ref().map_or(0, Watching::kinds);
        if let Some(retrieval) = self.retrieval {
            let line = input.split_off(..retrieval.consumed)?;
            match retrieval.rest_of(line) {
                Some(rest) => carried.input = rest,
                // All keys are answered.
                None => carried.output = reply::END.to_vec(),
            }
        }
        carried.input.extend_from_slice(input);
        Some(carried)
    }

    /// Goes on as what was carried over.
    pub(crate) fn go_on_as(&mut self, carried: &Carried) {
        self.known = carried.known;
    }

    /// Restores `watch`. Returns false if there are already as many watchers as allowed.
    pub(crate) fn take_up(&mut self, carried: &Carried, ctx: &WorkerContext) -> bool {
        if carried.watches != 0 {
            self.watching = Hub::watch_again(&ctx.shared.watch, carried.watches, ctx.worker, ctx.push.watch.connection);
            self.swallow = u64::MAX;
        }
        carried.watches == 0 || self.watching.is_some()
    }

    /// Returns true if lines wait for this watcher.
    pub(crate) fn has_mail(&self) -> bool {
        self.watching.as_ref().is_some_and(Watching::is_waiting)
    }

    /// Moves the next of them to the front of `into`; returns how many bytes that was.
    pub(crate) fn take_mail(&self, into: &mut [u8]) -> usize {
        self.watching.as_ref().map_or(0, |watching| watching.take(into))
    }

    /// Returns true if the current request was answered in part.
    pub(crate) fn is_long(&self) -> bool {
        self.retrieval.is_some() || self.lines_done > 0 || self.dump.is_some()
    }

    /// Returns true if the connection is a watcher.
    pub(crate) fn watches(&self) -> bool {
        self.watching.is_some()
    }

    /// Returns the checks to make before a request of this listener's clients: the rate of operations, pauses, and
    /// where keys lead.
    pub(super) fn guards_of(home: Namespace) -> u32 {
        1 << home.0 | PAUSED | if home == Namespace::DEFAULT { ROUTED } else { 0 }
    }

    /// The namespace of its listener.
    pub(crate) fn home(&self) -> Namespace {
        self.home
    }
}
