//! `watch`, and the lines about other commands that are sent to watchers.
//!
//! As in memcached, every command that needs an existing item reports a lookup, even if the command changes the item. A
//! `set` therefore reports an `item_get` of the previous item and then an `item_store`. Only for this purpose is the
//! previous item looked up, and only while there are watchers.

use super::call::{Call, Step};
use super::exptime;
use super::state::Plan;
use crate::context::WorkerContext;
use crate::keyspace::prefixes::Count;
use crate::push::notify::KeyEvent;
use crate::push::watch::{CloseReason, Hub, LineHead, StoreEvent, WatchKind, Watched};
use crate::visit::progress::SessionWait;
use protocol::memcache::request::Watch;
use protocol::memcache::{Error, reply};
use segment::{Expire, Item, Key, OpError, PutOutcome};

/// The reported time to live of a value that expired before it was stored: -1 as a 32-bit number, as in memcached.
const TTL_PAST: u64 = u32::MAX as u64;

/// The result of a lookup, as a watcher's line reports it.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchedLookup {
    pub(super) found: bool,
    class: u8,
    value_len: u64,
}

impl WatchedLookup {
    /// A lookup that found no item.
    pub(super) const MISS: Self = Self { found: false, class: 0, value_len: 0 };

    /// Creates the result of a lookup that found `item`, or no item.
    pub(super) fn of(item: Option<&Item<'_>>) -> Self {
        item.map_or(Self::MISS, |item| Self { found: true, class: item.ttl_class, value_len: item.value_len() })
    }
}

/// Registers this connection as a watcher. Its further input is discarded.
pub(super) fn watch(call: &mut Call<'_, '_>, watch: Watch, consumed: usize) -> Step {
    let shared = &call.ctx.shared;
    if shared.host.is_stopping() {
        call.at += consumed;
        return Err(SessionWait::Close);
    }
    let mut kinds = Watched::default();
    for (wanted, kind) in [
        (watch.fetchers, WatchKind::Fetchers),
        (watch.mutations, WatchKind::Mutations),
        (watch.evictions, WatchKind::Evictions),
        (watch.deletions, WatchKind::Deletions),
        (watch.connections, WatchKind::Connections),
    ] {
        if wanted {
            kinds = kinds.and(kind);
        }
    }
    let Some(watching) = Hub::watch(&shared.watch, kinds, call.ctx.worker, call.ctx.push.watch.connection) else {
        return call.answer(Error::TooManyWatchers.wire(), consumed);
    };
    call.session.watching = Some(watching);
    call.session.discard_bytes = u64::MAX;
    call.answer(reply::OK, consumed)
}

/// Returns true if there are watchers, or other reasons to inspect requests: see [`Watched::any`].
#[inline]
pub(super) fn watched(call: &Call<'_, '_>) -> bool {
    call.ctx.push.watch.watched.any()
}

/// Counts a request for `key` by the key's prefix, if that is enabled.
#[inline]
pub(super) fn count_prefix(call: &Call<'_, '_>, key: &[u8], count: Count) {
    if call.ctx.push.watch.watched.counts_prefixes() {
        call.ctx.shared.prefixes.count(key, count);
    }
}

/// Returns the item that a command is about to find. Returns `None` unless [`watched`] is true.
#[inline]
pub(super) fn look_up_watched(call: &Call<'_, '_>, key: &Key<'_>) -> Option<WatchedLookup> {
    watched(call).then(|| WatchedLookup::of(call.guard.items().peek(key).as_ref()))
}

/// Returns the number of the connection's file descriptor.
fn cfd(call: &Call<'_, '_>) -> u64 {
    call.ctx.connection_table().descriptor(call.ctx.push.watch.connection).into()
}

/// Reports to watchers that connection `connection` of this worker has opened, or that it ends for `reason`.
pub fn report_connection(ctx: &mut WorkerContext, connection: u32, reason: Option<CloseReason>) {
    if !ctx.shared.watch.watched().has(WatchKind::Connections) {
        return;
    }
    let (peer, descriptor) = (ctx.connection_table().peer(connection), ctx.connection_table().descriptor(connection));
    let head = LineHead { now: ctx.now, gid: ctx.shared.watch.number() };
    let reason = reason.map(CloseReason::name);
    ctx.push.watch.lines.write_line(WatchKind::Connections, |line| head.connection(line, peer, reason, descriptor));
}

fn line_head(call: &Call<'_, '_>) -> LineHead {
    LineHead { now: call.ctx.now, gid: call.ctx.shared.watch.number() }
}

/// Reports a lookup of `key` to watchers, and whether the key was found. `seen` is the existing item, if there are
/// watchers.
#[inline]
pub(super) fn report_get(call: &mut Call<'_, '_>, key: &[u8], seen: Option<WatchedLookup>, found: bool) {
    if let Some(seen) = seen
        && call.ctx.push.watch.watched.has(WatchKind::Fetchers)
    {
        report_lookup(call, key, if found { seen } else { WatchedLookup::MISS }, found);
    }
}

#[cold]
fn report_lookup(call: &mut Call<'_, '_>, key: &[u8], seen: WatchedLookup, found: bool) {
    let (head, cfd) = (line_head(call), cfd(call));
    let lines = &mut call.ctx.push.watch.lines;
    lines.write_line(WatchKind::Fetchers, |line| head.item_get(line, key, found, seen.class, cfd, seen.value_len));
}

/// Publishes a key event about a change of `key`, if key events are enabled, invalidates the copies of Redis clients
/// that have cached the value, and announces the change to those that wait for the key.
#[inline]
pub(super) fn changed(call: &mut Call<'_, '_>, event: KeyEvent, key: &[u8]) {
    if call.ctx.push.watch.watched.reports_changes() {
        report_change(call, event, key);
    }
}

/// Reports to Redis clients that a delete has removed an item that had expired.
pub(super) fn report_expired(call: &mut Call<'_, '_>, key: &[u8]) {
    if call.ctx.push.watch.watched.reports_changes() {
        call.ctx.report_expired(call.session.namespace, key);
    }
}

/// Invalidates the copies of Redis clients that have cached the value of `key`, which was marked as stale, emptied, or
/// created without a value. Announces the change to the clients that wait for the key.
pub(super) fn invalidated(call: &mut Call<'_, '_>, key: &[u8]) {
    announce(call, key);
    if call.ctx.push.watch.watched.has_trackers() {
        call.ctx.invalidate(call.session.namespace, key, 0);
    }
}

#[cold]
fn report_change(call: &mut Call<'_, '_>, event: KeyEvent, key: &[u8]) {
    let (watched, namespace) = (call.ctx.push.watch.watched, call.session.namespace);
    if event.concerns_waiters() {
        announce(call, key);
    }
    if watched.has_trackers() && event.is_change() {
        call.ctx.invalidate(namespace, key, 0);
    }
    if watched.has_key_events() {
        call.ctx.publish_change(namespace, event, key);
    }
}

/// Announces a change of `key` to the Redis clients that wait for it. No reply waits for their turns: a change by this
/// protocol gives them no elements, but may remove the stream of a group.
fn announce(call: &mut Call<'_, '_>, key: &[u8]) {
    if call.ctx.push.watch.watched.has_waiters() {
        let key = call.guard.key(call.session.namespace, key);
        call.ctx.announce(&key);
    }
}

/// Publishes the key events about a key that a retrieval has looked up: that the key was missed, unless the retrieval
/// is a hit, and that the retrieval has created the key, if it has.
pub(super) fn report_retrieved(call: &mut Call<'_, '_>, key: &[u8], hit: bool, is_created: bool) {
    if !hit || is_created {
        changed(call, KeyEvent::KEYMISS, key);
    }
    if is_created {
        invalidated(call, key);
        changed(call, KeyEvent::NEW, key);
    }
}

/// Publishes a key event about a change of an item's expiry.
pub(super) fn report_touched(call: &mut Call<'_, '_>, key: &[u8], expire: Expire) {
    let event = match expire {
        Expire::Never => KeyEvent::PERSIST,
        _ if exptime::is_past(expire, call.ctx.now) => KeyEvent::DEL,
        Expire::At(_) => KeyEvent::EXPIRE,
    };
    changed(call, event, key);
}

/// Reports to subscribers and watchers that the command `cmd` removed the item of `key`.
pub(super) fn report_deleted(call: &mut Call<'_, '_>, key: &[u8], seen: Option<WatchedLookup>, cmd: &'static str) {
    changed(call, KeyEvent::DEL, key);
    if let Some(seen) = seen
        && call.ctx.push.watch.watched.has(WatchKind::Deletions)
    {
        let head = line_head(call);
        let lines = &mut call.ctx.push.watch.lines;
        lines.write_line(WatchKind::Deletions, |line| head.deleted(line, key, cmd, seen.class, seen.value_len));
    }
}

/// Reports to watchers the item that the command found, and then the outcome for its value of `value_len` bytes.
pub(super) fn report_stored(
    call: &mut Call<'_, '_>,
    plan: &Plan,
    key: &[u8],
    before: Option<WatchedLookup>,
    outcome: PutOutcome,
    value_len: u64,
) {
    let Some(before) = before else { return };
    report_get(call, key, Some(before), before.found);
    let status = match outcome {
        PutOutcome::Stored { .. } => "stored",
        PutOutcome::NotStored | PutOutcome::WrongType => "not_stored",
        PutOutcome::Exists => "exists",
        PutOutcome::NotFound => "not_found",
    };
    let (seen, expire) = match outcome {
        PutOutcome::Stored { .. } => describe_stored(call, key, value_len, plan.put.expire),
        _ => (WatchedLookup { found: false, class: 0, value_len }, plan.put.expire),
    };
    let cmd = plan.watched_name();
    report_store(call, key, status, cmd, expire, seen);
    if matches!(outcome, PutOutcome::Stored { .. }) {
        let joins = matches!(cmd, "append" | "prepend");
        if !before.found {
            changed(call, KeyEvent::NEW, key);
        }
        changed(call, if joins { KeyEvent::APPEND } else { KeyEvent::SET }, key);
        if !joins && expire != Expire::Never {
            changed(call, KeyEvent::EXPIRE, key);
        }
    }
}

/// Reports to watchers and subscribers that an `ma` created a number of `digits` digits for `key`.
pub(super) fn report_number_created(call: &mut Call<'_, '_>, key: &[u8], digits: u64, expire: Expire) {
    let (seen, expire) = describe_stored(call, key, digits, expire);
    report_store(call, key, "stored", "add", expire, seen);
    changed(call, KeyEvent::NEW, key);
}

/// Returns the item that was just stored, and its expiry. If the item no longer exists, returns the requested values.
fn describe_stored(call: &Call<'_, '_>, key: &[u8], value_len: u64, expire: Expire) -> (WatchedLookup, Expire) {
    let item = call.guard.items().peek(&call.guard.key(call.session.namespace, key));
    item.map_or((WatchedLookup { found: false, class: 0, value_len }, expire), |item| {
        (WatchedLookup::of(Some(&item)), item.expire)
    })
}

/// Reports to watchers that a value was refused. `before` is the item that the refusal removed, if any.
pub(super) fn report_refused(
    call: &mut Call<'_, '_>,
    plan: &Plan,
    key: &[u8],
    error: OpError,
    before: Option<WatchedLookup>,
) {
    if !watched(call) {
        return;
    }
    if before.is_some_and(|seen| seen.found) {
        // The value that could not be replaced was removed.
        changed(call, KeyEvent::DEL, key);
    }
    let status = if error == OpError::TooLarge { "too_large" } else { "no_memory" };
    report_store(call, key, status, plan.watched_name(), Expire::Never, WatchedLookup::MISS);
    report_get(call, key, before, before.is_some_and(|seen| seen.found));
}

#[cold]
fn report_store(
    call: &mut Call<'_, '_>,
    key: &[u8],
    status: &'static str,
    cmd: &'static str,
    expire: Expire,
    seen: WatchedLookup,
) {
    if !call.ctx.push.watch.watched.has(WatchKind::Mutations) {
        return;
    }
    let ttl = match expire {
        Expire::Never => 0,
        _ if exptime::is_past(expire, call.ctx.now) => TTL_PAST,
        _ => exptime::seconds_left(expire, call.ctx.now).unsigned_abs(),
    };
    let (head, cfd) = (line_head(call), cfd(call));
    let event = StoreEvent { status, cmd, ttl, class: seen.class, cfd, size: seen.value_len };
    call.ctx.push.watch.lines.write_line(WatchKind::Mutations, |line| head.item_store(line, key, &event));
}
