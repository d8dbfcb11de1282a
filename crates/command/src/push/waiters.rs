//! Clients that wait for keys, as `BLPOP` does: the queue of each key, over all workers.
//!
//! ```text
//!   waiter's worker                          key's queue                        worker of the client that pushes
//!   join ─────────────> [ w1 has the turn | w2 | w3 ... ] <─────────────────────────── announce, after the change
//!     w1: looks at the key under its lock    │
//!       served, or gone ──> end_turn ────────┼──> w2 has the turn, if the key still exists or was announced again
//!       nothing there   ──> end_turn ────────┴──> no turn
//!                                            └──> each `Handoff` of the queue ends: its client replies
//! ```
//!
//! Only the worker of a waiter takes elements for it, in its turn. So no element leaves its key for a client that has
//! timed out, was closed or was killed: such a client passes its turn to the next one. A client whose request filled a
//! key with waiters gets its reply when no waiter has a turn because of this request any more (`Handoff`). So the state
//! that follows a reply is the same as in Redis, where the change serves the waiters.
//!
//! Invariants:
//! - A queue has waiters of one kind, in the order in which they joined. At most one of them has a turn. Clients that
//!   read a stream do not take anything from each other: up to [`READERS_AT_ONCE`] of them have turns, and each has one
//!   after each announcement.
//! - If the key of a queue holds what its waiters wait for, a waiter has a turn, or the change that stored the value is
//!   not announced yet. A waiter that joins an empty queue, or that reads a stream, has a turn at once, and then looks
//!   at the key under a key lock. A guard that began before the lock was acquired has then ended, so its changes are
//!   visible. A later guard sees [`Watched::has_waiters`](crate::push::watch::Watched::has_waiters), and announces its
//!   changes.
//! - An announcement during a turn makes the turns begin again, so that none is lost.
//! - Without waiters, a change costs nothing: workers check a bit of a word that they load in any case. With waiters, a
//!   change of another key costs a load of [`Waiters::may_have`].
//!
//! Bounds: the memory of a waiter and of its entries in queues is reserved from client memory before it joins; a
//! connection waits once. A queue has at most one `Handoff` for each connection.

use crate::keyspace::databases::Databases;
use crate::push::watch::Hub;
use base::clock::UnixMillis;
use segment::Namespace;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of parts into which the queues are divided. Each part has its own lock.
const PARTS: usize = 64;
/// The number of counters of waiters by the hash of their key.
const COUNTERS: usize = 4096;

/// The maximum number of clients that have a turn to read one stream, of those that wait in one queue.
const READERS_AT_ONCE: usize = 64;

/// The kind of value or change for which a waiter waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitKind {
    List,
    SortedSet,
    /// Entries of a stream, as `XREAD` does.
    Entries,
    /// Entries of a stream that are new to a group of consumers, or the end of the group.
    Group,
}

/// The approximate memory of a waiter's entry in a queue, without its key, in bytes.
pub(crate) const ENTRY_BYTES: usize = 256;

/// A key with its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitKey<'k> {
    pub(crate) namespace: Namespace,
    pub(crate) hash: u64,
    pub(crate) bytes: &'k [u8],
    /// The name of the group for [`WaitKind::Group`]. Each group has a queue.
    pub(crate) group: &'k [u8],
}

/// A client that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// The worker of the connection, and its number there.
    pub(crate) worker: usize,
    pub(crate) connection: u32,
    /// The number of the database of the waiter.
    database: u8,
    /// The position of the waiter among all waiters.
    number: u64,
    /// The numbers of the keys, among those of the request, for which the waiter has a turn that it has not begun.
    turns: Mutex<Vec<u32>>,
}

impl Waiter {
    /// Returns true if the waiter has a turn that it has not begun.
    pub(crate) fn has_turns(&self) -> bool {
        !lock(&self.turns).is_empty()
    }

    /// Removes and returns the numbers of the keys for which the waiter has a turn, in the order of the announcements.
    pub(crate) fn take_turns(&self) -> Vec<u32> {
        std::mem::take(&mut *lock(&self.turns))
    }
}

/// The turns of waiters that are caused by one client's request.
#[derive(Debug)]
pub(crate) struct Handoff {
    worker: usize,
    connection: u32,
    /// The number of queues with such turns, plus 1 while the keys are being announced.
    left: AtomicU64,
}

impl Handoff {
    /// Creates a handoff whose announcements have begun, for the client `connection` of worker `worker`.
    pub(crate) fn new(worker: usize, connection: u32) -> Arc<Self> {
        Arc::new(Self { worker, connection, left: AtomicU64::new(1) })
    }

    /// Returns true if no waiter has a turn because of this request any more.
    pub(crate) fn is_done(&self) -> bool {
        self.left.load(Acquire) == 0
    }

    /// Records that one queue is done, or that all keys are announced. Returns true if nothing is left.
    pub(crate) fn end_one(&self) -> bool {
        self.left.fetch_sub(1, AcqRel) == 1
    }
}

/// The waiters for one key, of one kind and group.
#[derive(Debug)]
struct Queue {
    namespace: Namespace,
    kind: WaitKind,
    key: Box<[u8]>,
    group: Box<[u8]>,
    /// Each waiter, with the number of the key in its request.
    waiters: BTreeMap<u64, (Arc<Waiter>, u32)>,
    /// The waiters that have a turn.
    turns: Vec<u64>,
    /// The next turn is that of the first waiter from this number on.
    next: u64,
    /// True if the key was announced during a turn.
    again: bool,
    handoffs: Vec<Arc<Handoff>>,
}

impl Queue {
    fn is_of(&self, kind: WaitKind, key: WaitKey<'_>) -> bool {
        let is_of_group = kind != WaitKind::Group || *self.group == *key.group;
        self.kind == kind && self.is_for(key) && is_of_group
    }

    fn is_for(&self, key: WaitKey<'_>) -> bool {
        self.namespace == key.namespace && *self.key == *key.bytes
    }

    /// Adds a waiter. Returns false if it is in the queue already.
    fn add(&mut self, waiter: &Arc<Waiter>, number: u32) -> bool {
        if self.waiters.contains_key(&waiter.number) {
            return false;
        }
        self.waiters.insert(waiter.number, (Arc::clone(waiter), number));
        true
    }

    /// Gives a turn to a waiter that has joined, if it is the only one or reads a stream.
    fn begin_first_turn(&mut self, waiter: &Waiter, number: u32) {
        if self.waiters.len() == 1 || self.kind == WaitKind::Entries {
            lock(&waiter.turns).push(number);
            self.turns.push(waiter.number);
        }
    }

    /// Begins the turns: those of the first waiters.
    fn begin_turns(&mut self, wake: &mut dyn FnMut(usize, u32)) {
        (self.again, self.next) = (false, 0);
        self.give_turns(wake);
    }

    /// Gives turns to the next waiters, up to as many as may have one. If no waiter has a turn then, the handoffs end.
    fn give_turns(&mut self, wake: &mut dyn FnMut(usize, u32)) {
        let most = if self.kind == WaitKind::Entries { READERS_AT_ONCE } else { 1 };
        while self.turns.len() < most {
            let Some((number, (waiter, key))) = self.waiters.range(self.next..).next() else { break };
            self.next = number + 1;
            if !self.turns.contains(number) {
                self.turns.push(*number);
                lock(&waiter.turns).push(*key);
                wake(waiter.worker, waiter.connection);
            }
        }
        if self.turns.is_empty() {
            self.end_handoffs(wake);
        }
    }

    /// Ends the turn of a waiter.
    fn end_turn(&mut self, waiter: u64, end: TurnEnd, wake: &mut dyn FnMut(usize, u32)) {
        let Some(at) = self.turns.iter().position(|turn| *turn == waiter) else { return };
        self.turns.swap_remove(at);
        let takes = self.kind != WaitKind::Entries;
        if self.again && self.turns.is_empty() || takes && end == TurnEnd::Leaves {
            return self.begin_turns(wake);
        }
        if takes {
            self.next = u64::MAX;
        }
        self.give_turns(wake);
    }

    /// Gives turns because of the requests `handoffs`.
    fn announce(&mut self, handoffs: &[Arc<Handoff>], wake: &mut dyn FnMut(usize, u32)) {
        self.add_handoffs(handoffs);
        if self.turns.is_empty() { self.begin_turns(wake) } else { self.again = true }
    }

    fn end_handoffs(&mut self, wake: &mut dyn FnMut(usize, u32)) {
        for handoff in self.handoffs.drain(..) {
            if handoff.end_one() {
                wake(handoff.worker, handoff.connection);
            }
        }
    }

    fn add_handoffs(&mut self, handoffs: &[Arc<Handoff>]) {
        for handoff in handoffs {
            if !self.handoffs.iter().any(|other| Arc::ptr_eq(other, handoff)) {
                handoff.left.fetch_add(1, AcqRel);
                self.handoffs.push(Arc::clone(handoff));
            }
        }
    }
}

/// The end of a waiter's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// The waiter found nothing, and remains.
    Stays,
    /// The waiter leaves the queue. The key no longer exists.
    LeavesNothing,
    /// The waiter leaves the queue. The key may exist.
    Leaves,
}

type Part = HashMap<u64, Vec<Queue>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All clients that wait for keys.
#[derive(Debug)]
pub struct Waiters {
    hub: Arc<Hub>,
    parts: [Mutex<Part>; PARTS],
    counters: Box<[AtomicU32]>,
    /// The number of waiters that have joined queues.
    joined: Mutex<u64>,
    next: AtomicU64,
    /// The number of clients that wait, for keys or for anything else.
    blocked: AtomicU64,
}

impl Waiters {
    /// Creates the queues without waiters. `hub` shows all workers if clients wait.
    pub fn new(hub: &Arc<Hub>) -> Self {
        Self {
            hub: Arc::clone(hub),
            parts: [(); PARTS].map(|()| Mutex::default()),
            counters: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect(),
            joined: Mutex::new(0),
            next: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
        }
    }

    /// Returns the number of clients that wait in blocking commands.
    pub fn blocked(&self) -> u64 {
        self.blocked.load(Relaxed)
    }

    /// Counts a client that begins to wait, and returns its waiter.
    pub(crate) fn begin(&self, worker: usize, connection: u32, database: u8) -> Arc<Waiter> {
        self.blocked.fetch_add(1, Relaxed);
        let mut joined = lock(&self.joined);
        *joined += 1;
        self.hub.set_waiters(true);
        drop(joined);
        let number = self.next.fetch_add(1, Relaxed);
        Arc::new(Waiter { worker, connection, database, number, turns: Mutex::default() })
    }

    /// Records that a client has ceased to wait. It has left all queues.
    pub(crate) fn end(&self) {
        self.blocked.fetch_sub(1, Relaxed);
        let mut joined = lock(&self.joined);
        *joined -= 1;
        if *joined == 0 {
            self.hub.set_waiters(false);
        }
    }

    fn counter(&self, hash: u64) -> &AtomicU32 {
        &self.counters[(hash as usize) % COUNTERS]
    }

    fn part(&self, hash: u64) -> MutexGuard<'_, Part> {
        lock(&self.parts[(hash >> 32) as usize % PARTS])
    }

    /// Returns false if no client waits for a key with this hash.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        self.counter(hash).load(Relaxed) != 0
    }

    /// Returns true if clients wait for a key.
    pub(crate) fn has(&self, kind: WaitKind, key: WaitKey<'_>) -> bool {
        self.may_have(key.hash)
            && self
                .part(key.hash)
                .get(&key.hash)
                .is_some_and(|queues| queues.iter().any(|queue| queue.is_of(kind, key)))
    }

    /// Adds a waiter to the end of a key's queue. `number` is the number of the key in its request. If the queue was
    /// empty, or for entries of a stream, the waiter has a turn at once.
    pub(crate) fn join(&self, kind: WaitKind, key: WaitKey<'_>, waiter: &Arc<Waiter>, number: u32) {
        self.add(kind, key, waiter, number, true);
    }

    /// Adds a waiter to a key's queue, at the position at which it has begun to wait. It has no turn before the key is
    /// announced.
    pub(crate) fn rejoin(&self, kind: WaitKind, key: WaitKey<'_>, waiter: &Arc<Waiter>, number: u32) {
        self.add(kind, key, waiter, number, false);
    }

    fn add(&self, kind: WaitKind, key: WaitKey<'_>, waiter: &Arc<Waiter>, number: u32, has_turn: bool) {
        let mut part = self.part(key.hash);
        let queues = part.entry(key.hash).or_default();
        let at = queues.iter().position(|queue| queue.is_of(kind, key)).unwrap_or_else(|| {
            queues.push(Queue {
                namespace: key.namespace,
                kind,
                key: key.bytes.into(),
                group: key.group.into(),
                waiters: BTreeMap::new(),
                turns: Vec::new(),
                next: u64::MAX,
                again: false,
                handoffs: Vec::new(),
            });
            queues.len() - 1
        });
        if queues[at].add(waiter, number) {
            self.counter(key.hash).fetch_add(1, Relaxed);
            if kind == WaitKind::Group {
                self.hub.count_group_waiters(true);
            }
            if has_turn {
                queues[at].begin_first_turn(waiter, number);
            }
        }
    }

    /// Announces that a value may have been stored under a key, or removed. Gives turns to the first waiters of each of
    /// its queues, because of the requests `handoffs`. Calls `wake` with the worker and the number of each connection
    /// that can go on.
    pub(crate) fn announce(&self, key: WaitKey<'_>, handoffs: &[Arc<Handoff>], wake: &mut dyn FnMut(usize, u32)) {
        if !self.may_have(key.hash) {
            return;
        }
        let mut part = self.part(key.hash);
        for queue in part.get_mut(&key.hash).into_iter().flatten().filter(|queue| queue.is_for(key)) {
            queue.announce(handoffs, wake);
        }
    }

    /// Announces that all keys of a namespace were removed, or of all namespaces without one, to the members of groups.
    pub(crate) fn announce_flush(&self, namespace: Option<Namespace>, wake: &mut dyn FnMut(usize, u32)) {
        self.announce_removed(&|of, _| namespace.is_none_or(|namespace| of == namespace), wake);
    }

    /// Announces that the keys for which `is_removed` returns true were removed, to the members of groups.
    pub(crate) fn announce_removed(
        &self,
        is_removed: &dyn Fn(Namespace, &[u8]) -> bool,
        wake: &mut dyn FnMut(usize, u32),
    ) {
        if !self.hub.has_group_waiters() {
            return;
        }
        for part in &self.parts {
            let is_concerned =
                |queue: &&mut Queue| queue.kind == WaitKind::Group && is_removed(queue.namespace, &queue.key);
            for queue in lock(part).values_mut().flatten().filter(is_concerned) {
                queue.announce(&[], wake);
            }
        }
    }

    /// Wakes each waiter that is in the queue of a namespace that its database does not have any more. Returns true if
    /// there is none.
    pub(crate) fn wake_moved(&self, databases: Databases, wake: &mut dyn FnMut(usize, u32)) -> bool {
        let mut is_none = true;
        for part in &self.parts {
            for queue in lock(part).values().flatten() {
                let is_moved = |waiter: &Waiter| databases.namespace(waiter.database) != queue.namespace;
                for (waiter, _) in queue.waiters.values().filter(|(waiter, _)| is_moved(waiter)) {
                    is_none = false;
                    wake(waiter.worker, waiter.connection);
                }
            }
        }
        is_none
    }

    /// Calls `each` with the keys of one of the namespaces for which clients wait. A key may be repeated.
    pub(crate) fn each_key(&self, namespaces: [Namespace; 2], each: &mut dyn FnMut(WaitKind, WaitKey<'_>)) {
        for part in &self.parts {
            for (hash, queues) in lock(part).iter() {
                for queue in queues.iter().filter(|queue| namespaces.contains(&queue.namespace)) {
                    let Queue { namespace, kind, key, .. } = queue;
                    each(*kind, WaitKey { namespace: *namespace, hash: *hash, bytes: key, group: b"" });
                }
            }
        }
    }

    /// Returns the requests because of which a waiter has the turn for a key.
    pub(crate) fn handoffs(&self, kind: WaitKind, key: WaitKey<'_>, waiter: &Waiter) -> Vec<Arc<Handoff>> {
        let part = self.part(key.hash);
        let queue = part.get(&key.hash).into_iter().flatten().find(|queue| queue.is_of(kind, key));
        queue.filter(|queue| queue.turns.contains(&waiter.number)).map_or_else(Vec::new, |queue| queue.handoffs.clone())
    }

    /// Ends a waiter's turn for a key, if it has the turn, and removes the waiter from the queue if it leaves.
    pub(crate) fn end_turn(
        &self,
        kind: WaitKind,
        key: WaitKey<'_>,
        waiter: &Waiter,
        end: TurnEnd,
        wake: &mut dyn FnMut(usize, u32),
    ) {
        let mut part = self.part(key.hash);
        let Some(queues) = part.get_mut(&key.hash) else { return };
        let Some(at) = queues.iter().position(|queue| queue.is_of(kind, key)) else { return };
        let queue = &mut queues[at];
        if end != TurnEnd::Stays && queue.waiters.remove(&waiter.number).is_some() {
            self.counter(key.hash).fetch_sub(1, Relaxed);
            if kind == WaitKind::Group {
                self.hub.count_group_waiters(false);
            }
        }
        queue.end_turn(waiter.number, end, wake);
        if queue.waiters.is_empty() {
            queue.end_handoffs(wake);
            queues.swap_remove(at);
            if queues.is_empty() {
                part.remove(&key.hash);
            }
        }
    }
}

/// The connections of one worker that wait until an instant at the latest.
#[derive(Debug)]
pub struct Deadlines {
    by_instant: BTreeSet<(u64, u32)>,
    /// The first instant, in ms.
    first_ms: u64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { by_instant: BTreeSet::new(), first_ms: u64::MAX }
    }
}

impl Deadlines {
    fn set_first(&mut self) {
        self.first_ms = self.by_instant.first().map_or(u64::MAX, |(ms, _)| *ms);
    }

    /// Adds a connection.
    pub(crate) fn add(&mut self, at: UnixMillis, connection: u32) {
        self.by_instant.insert((at.0, connection));
        self.set_first();
    }

    /// Removes a connection that was added for the instant `at`.
    pub(crate) fn remove(&mut self, at: UnixMillis, connection: u32) {
        self.by_instant.remove(&(at.0, connection));
        self.set_first();
    }

    /// Returns true if the first instant has come.
    #[inline]
    pub fn is_due(&self, now: UnixMillis) -> bool {
        self.first_ms <= now.0
    }

    /// Returns the number of milliseconds until the first instant.
    pub fn ms_left(&self, now: UnixMillis) -> u64 {
        self.first_ms.saturating_sub(now.0)
    }

    /// Removes and returns a connection whose instant has come.
    pub fn pop_due(&mut self, now: UnixMillis) -> Option<u32> {
        if !self.is_due(now) {
            return None;
        }
        let connection = self.by_instant.pop_first().map(|(_, connection)| connection);
        self.set_first();
        connection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: WaitKey<'_> = WaitKey { namespace: Namespace(0), hash: 7, bytes: b"k", group: b"" };
    const LIST: WaitKind = WaitKind::List;

    fn waiters(count: usize) -> (Waiters, Vec<Arc<Waiter>>) {
        let all = Waiters::new(&Arc::default());
        let waiters: Vec<_> = (0..count).map(|number| all.begin(number, number as u32, 0)).collect();
        waiters.iter().for_each(|waiter| all.join(LIST, KEY, waiter, 0));
        (all, waiters)
    }

    #[test]
    fn turns_go_to_the_waiters_in_the_order_in_which_they_joined_even_if_some_leave() {
        let (all, waiters) = waiters(4);
        let mut woken = Vec::new();
        let mut wake = |worker, _| woken.push(worker);
        assert_eq!(waiters[0].take_turns(), [0]);
        all.end_turn(LIST, KEY, &waiters[0], TurnEnd::Stays, &mut wake);
        let handoff = Handoff::new(9, 9);
        all.announce(KEY, &[Arc::clone(&handoff)], &mut wake);
        handoff.end_one();
        all.end_turn(LIST, KEY, &waiters[1], TurnEnd::Leaves, &mut wake);
        all.end_turn(LIST, KEY, &waiters[0], TurnEnd::Leaves, &mut wake);
        assert_eq!((waiters[0].take_turns(), waiters[2].take_turns()), (vec![0], vec![0]));
        assert!(!handoff.is_done());
        all.end_turn(LIST, KEY, &waiters[2], TurnEnd::LeavesNothing, &mut wake);
        assert!(handoff.is_done() && waiters[3].take_turns().is_empty());
        all.end_turn(LIST, KEY, &waiters[3], TurnEnd::Leaves, &mut wake);
        assert_eq!(woken, [0, 2, 9]);
        assert!(!all.has(LIST, KEY) && !all.may_have(KEY.hash));
    }

    #[test]
    fn announcement_during_a_turn_is_not_lost() {
        let (all, waiters) = waiters(2);
        all.announce(KEY, &[], &mut |_, _| {});
        assert_eq!(waiters[0].take_turns(), [0]);
        all.end_turn(LIST, KEY, &waiters[0], TurnEnd::Stays, &mut |_, _| {});
        assert_eq!(waiters[0].take_turns(), [0], "the turn begins again");
        all.announce(KEY, &[], &mut |_, _| {});
        all.end_turn(LIST, KEY, &waiters[0], TurnEnd::LeavesNothing, &mut |_, _| {});
        assert_eq!(waiters[1].take_turns(), [0]);
    }

    #[test]
    fn removed_key_gives_a_turn_to_members_of_its_groups_only() {
        let hub = Arc::default();
        let all = Waiters::new(&hub);
        let (list, member) = (all.begin(0, 0, 0), all.begin(1, 1, 0));
        all.join(LIST, KEY, &list, 0);
        assert!(!hub.has_group_waiters());
        all.join(WaitKind::Group, KEY, &member, 0);
        assert!(hub.has_group_waiters());
        for waiter in [&list, &member] {
            assert_eq!(waiter.take_turns(), [0]);
        }
        all.end_turn(LIST, KEY, &list, TurnEnd::Stays, &mut |_, _| {});
        all.end_turn(WaitKind::Group, KEY, &member, TurnEnd::Stays, &mut |_, _| {});
        all.announce_removed(&|_, key| key == b"other", &mut |_, _| {});
        assert!(!member.has_turns());
        all.announce_removed(&|_, key| key == b"k", &mut |_, _| {});
        assert_eq!((member.take_turns(), list.has_turns()), (vec![0], false));
        all.end_turn(WaitKind::Group, KEY, &member, TurnEnd::Leaves, &mut |_, _| {});
        assert!(!hub.has_group_waiters());
    }
}
