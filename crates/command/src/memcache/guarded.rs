//! Requests that are looked at before they are done: in a namespace whose operations a second are bounded, on a default
//! listener whose keys lead to several namespaces, and while clients wait (`CLIENT PAUSE` of one of Redis).
//!
//! ```text
//!   get app1:x app1:y z app2:w  ──keys──> 1 1 0 2:  one operation of each        is one refused, all of it is
//!                               ──runs──> [app1:x app1:y] [z] [app2:w] END       a run is in one namespace
//! ```
//!
//! Each request iterations its session to the namespace of its key, or for one without a key to that of its listener.
//! Of a retrieval the keys that follow one another in one namespace are a run, as if the others did not fit, so that
//! everything else about a request knows of one namespace only.
//!
//! Invariant: a session that is between requests and away from its listener's namespace is guarded, so its next
//! request is turned again.

use super::{Call, SessionState, Step};
use crate::keyspace::namespaces::{AWAY, Namespaces, PAUSED, ROUTED};
use crate::lookup::run::PROBES_MAX;
use crate::shared::Pause;
use crate::visit::progress::State;
use protocol::memcache::request::Get;
use protocol::memcache::{Error, KeyScratch, Keys, Request};
use segment::Namespace;

impl SessionState {
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

impl<'c> Call<'c, '_> {
    /// Does a request, unless its namespaces have had as many as they may.
    #[cold]
    pub(super) fn execute_guarded(&mut self, request: Request<'c>, consumed: usize) -> Step {
        let goes_on = self.session.is_paid || !self.session.is_between_requests();
        if !goes_on && self.waits(&request) {
            return Err(State::Parked);
        }
        let reached = self.turn_to_keys(&request);
        if !goes_on && !self.pay(reached) {
            let (value_bytes, quiet) = match request {
                Request::Store(header) => (u64::from(header.value_len) + 2, header.noreply),
                Request::MetaStore(_, value_len) => (u64::from(value_len) + 2, false),
                _ => (0, false),
            };
            self.session.swallow = value_bytes;
            return self.refused(Error::TooManyOps, quiet, consumed);
        }
        let step = self.execute(request, consumed);
        // Asked again, it is the same operation.
        self.session.is_paid = step.is_err() && self.session.is_between_requests();
        step
    }

    /// Returns whether a pause puts the request off. A pause covers requests that change something, or all requests. A
    /// request that was begun goes on, and a client that leaves may.
    fn waits(&self, request: &Request<'_>) -> bool {
        match self.ctx.pause {
            Pause::None => false,
            Pause::Writes => match request {
                Request::Get(get) => get.touch.is_some(),
                Request::MetaGet(meta) => [b'T', b'N'].into_iter().any(|flag| meta.has(flag)),
                Request::Store(_)
                | Request::MetaStore(..)
                | Request::Delete { .. }
                | Request::MetaDelete(_)
                | Request::Arith(_)
                | Request::MetaArith(_)
                | Request::Touch { .. }
                | Request::FlushAll { .. } => true,
                _ => false,
            },
            Pause::All => !matches!(request, Request::Quit | Request::Shutdown { .. }),
        }
    }

    /// One more operation of each of these namespaces, a bit each; false if one of them has had all it may.
    fn pay(&self, reached: u32) -> bool {
        let (guards, now) = (self.ctx.guards, self.ctx.now);
        let mut bounded = Namespaces::numbers().filter(|namespace| reached & guards & 1 << namespace.0 != 0);
        bounded.all(|namespace| self.ctx.shared.namespaces.take_op(namespace, now))
    }

    /// Turns the session to where the first key of a request is; returns all namespaces that it reaches, a bit each.
    fn turn_to_keys(&mut self, request: &Request<'c>) -> u32 {
        let mut scratch = KeyScratch::default();
        let key = match request {
            Request::Get(Get { keys, .. }) => return self.turn_to_run(*keys),
            Request::Store(header) => header.key,
            Request::Delete { key, .. } | Request::Touch { key, .. } => key,
            Request::Arith(arith) => arith.key,
            Request::MetaGet(meta) | Request::MetaDelete(meta) | Request::MetaArith(meta) => {
                meta.key.bytes(&mut scratch)
            }
            Request::MetaStore(meta, _) => meta.key.bytes(&mut scratch),
            Request::MetaDebug(key) => key.bytes(&mut scratch),
            _ => {
                self.turn_home();
                return 1 << self.session.home.0;
            }
        };
        let namespace = self.namespace_of(key);
        self.turn_to(namespace);
        1 << namespace.0
    }

    /// Turns the session to where the first of `keys` is, and bounds the next run to those that follow it there.
    pub(super) fn turn_to_run(&mut self, mut keys: Keys<'c>) -> u32 {
        let Some(first) = keys.next() else { return 0 };
        let namespace = self.namespace_of(first);
        self.turn_to(namespace);
        let (mut reached, mut together) = (1 << namespace.0, Some(1));
        self.run_max = 1;
        for key in keys {
            let other = self.namespace_of(key);
            reached |= 1 << other.0;
            together = together.filter(|_| other == namespace).map(|together| together + 1);
            self.run_max = together.map_or(self.run_max, |together| together.min(PROBES_MAX));
        }
        reached
    }

    /// Turns the session to where a key is.
    pub(super) fn turn_to_key(&mut self, key: &[u8]) {
        self.turn_to(self.namespace_of(key));
    }

    /// Turns the session to its listener's namespace.
    pub(super) fn turn_home(&mut self) {
        self.turn_to(self.session.home);
    }

    fn turn_to(&mut self, namespace: Namespace) {
        (self.session.namespace, self.ctx.namespace) = (namespace, namespace);
        if namespace == self.session.home {
            self.session.guards &= !AWAY;
        } else {
            self.session.guards |= AWAY;
        }
    }

    fn namespace_of(&self, key: &[u8]) -> Namespace {
        if self.ctx.guards & self.session.guards & ROUTED != 0 { self.ctx.routes.find(key) } else { self.session.home }
    }

    /// The namespaces that keys of this connection are in.
    pub(super) fn namespaces_seen(&self) -> impl Iterator<Item = Namespace> + use<> {
        let routed = self.ctx.guards & self.session.guards & ROUTED != 0;
        let home = self.session.home;
        let seen: u32 = if routed { self.ctx.routes.reached() } else { 1 << home.0 };
        Namespaces::numbers().filter(move |namespace| seen & 1 << namespace.0 != 0)
    }
}
