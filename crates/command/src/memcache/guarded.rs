//! Guarded sessions, whose requests are checked before execution. A session is guarded if its namespace has a quota of
//! operations per second, or if it uses a default listener whose keys are routed to several namespaces. While a Redis
//! client's `CLIENT PAUSE` delays clients, all sessions are guarded.
//!
//! ```text
//!   get app1:x app1:y z app2:w  ──keys──> 0, 1, 2:  one operation of each namespace
//!                               ──runs──> [app1:x app1:y] [z] [app2:w] END  each run is in one namespace
//! ```
//!
//! A request takes one operation from the quota of each namespace of its keys. If one of these quotas is used up, the
//! whole request is refused.
//!
//! Each request switches its session to the namespace of its key, or to its listener's namespace if it has no key. In a
//! retrieval, only consecutive keys of the same namespace form a run. The remaining keys are processed later, as if
//! they had not fitted into the run. All other code that serves a request therefore handles only one namespace.
//!
//! Invariant: while a session is between two requests and not in its listener's namespace, it is guarded. Its next
//! request therefore switches the namespace again.

use super::call::Call;
use crate::keyspace::namespaces::{Namespaces, ROUTED, ROUTED_AWAY};
use crate::lookup::run::PROBES_MAX;
use crate::shared::Pause;
use protocol::memcache::request::Get;
use protocol::memcache::{KeyScratch, Keys, Request};
use segment::Namespace;

/// Returns true if `CLIENT PAUSE` delays the request. A pause applies to write requests, or to all requests except
/// `quit` and `shutdown`. The caller does not delay a request that has begun.
pub(super) fn is_paused(call: &Call<'_, '_>, request: &Request<'_>) -> bool {
    match call.ctx.admission.pause {
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

/// Takes one operation from the quota of each namespace in `reached`, a set of bits. Returns false if a quota is used
/// up.
pub(super) fn take_quota(call: &Call<'_, '_>, reached: u32) -> bool {
    let (guards, now) = (call.ctx.keys.guards, call.ctx.now);
    let mut bounded = Namespaces::numbers().filter(|namespace| reached & guards & 1 << namespace.0 != 0);
    bounded.all(|namespace| call.ctx.shared.namespaces.take_op(namespace, now))
}

/// Switches the session to the namespace of the first key of a request. Returns a bit for each namespace of the
/// request's keys.
pub(super) fn switch_to_keys<'c>(call: &mut Call<'c, '_>, request: &Request<'c>) -> u32 {
    let mut scratch = KeyScratch::default();
    let key = match request {
        Request::Get(Get { keys, .. }) => return switch_to_run(call, *keys),
        Request::Store(header) => header.key,
        Request::Delete { key, .. } | Request::Touch { key, .. } => key,
        Request::Arith(arith) => arith.key,
        Request::MetaGet(meta) | Request::MetaDelete(meta) | Request::MetaArith(meta) => meta.key.bytes(&mut scratch),
        Request::MetaStore(meta, _) => meta.key.bytes(&mut scratch),
        Request::MetaDebug(key) => key.bytes(&mut scratch),
        _ => {
            switch_to_listener(call);
            return 1 << call.session.home.0;
        }
    };
    let namespace = namespace_of(call, key);
    switch_to(call, namespace);
    1 << namespace.0
}

/// Switches the session to the namespace of the first of `keys`. Limits the next run to this key and the keys that
/// follow it directly in the same namespace. Returns a bit for each namespace of `keys`.
pub(super) fn switch_to_run<'c>(call: &mut Call<'c, '_>, mut keys: Keys<'c>) -> u32 {
    let Some(first) = keys.next() else { return 0 };
    let namespace = namespace_of(call, first);
    switch_to(call, namespace);
    let (mut reached, mut together) = (1 << namespace.0, Some(1));
    call.run_max = 1;
    for key in keys {
        let other = namespace_of(call, key);
        reached |= 1 << other.0;
        together = together.filter(|_| other == namespace).map(|together| together + 1);
        call.run_max = together.map_or(call.run_max, |together| together.min(PROBES_MAX));
    }
    reached
}

/// Switches the session to the namespace of a key.
pub(super) fn switch_to_key(call: &mut Call<'_, '_>, key: &[u8]) {
    switch_to(call, namespace_of(call, key));
}

/// Switches the session back to its listener's namespace.
pub(super) fn switch_to_listener(call: &mut Call<'_, '_>) {
    switch_to(call, call.session.home);
}

fn switch_to(call: &mut Call<'_, '_>, namespace: Namespace) {
    call.session.namespace = namespace;
    if namespace == call.session.home {
        call.session.guards &= !ROUTED_AWAY;
    } else {
        call.session.guards |= ROUTED_AWAY;
    }
}

fn namespace_of(call: &Call<'_, '_>, key: &[u8]) -> Namespace {
    if call.ctx.keys.guards & call.session.guards & ROUTED != 0 {
        call.ctx.keys.routes.find(key)
    } else {
        call.session.home
    }
}

/// Returns the namespaces that keys of this connection can belong to.
pub(super) fn namespaces_of_keys(call: &Call<'_, '_>) -> impl Iterator<Item = Namespace> + use<> {
    let routed = call.ctx.keys.guards & call.session.guards & ROUTED != 0;
    let home = call.session.home;
    let seen: u32 = if routed { call.ctx.keys.routes.reached() } else { 1 << home.0 };
    Namespaces::numbers().filter(move |namespace| seen & 1 << namespace.0 != 0)
}
