//! Channels with their subscribers, and the delivery of messages to them.

use super::MessageBudget;
use super::names::{ChannelName, Hashed, RECEIVERS_A_LOCK, Receivers};
use super::queue::{Message, MessageForm, Outbox, Queued};
use crate::glob;
use crate::memory::budget::Budget;
use crate::push::topics::TopicPublishing;
use crate::push::watch::Hub;
use arrayvec::ArrayVec;
use protocol::resp::{Version, reply};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of connections in MONITOR mode.
pub const MONITORS_MAX: usize = 64;

/// The number of parts into which channel names are divided. Each part has its own lock.
const PARTS: usize = 16;

/// The approximate memory of a subscription in addition to its name, in bytes: its entries in the channel's map and in
/// the subscriber's.
const SUBSCRIPTION_OVERHEAD: u64 = 256;

/// The number of match steps that take about as long as putting one message into an outbox.
const STEPS_A_RECEIVER: usize = 64;

/// The kind of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelKind {
    /// A channel, by its exact name.
    Channel,
    /// All channels whose names match a pattern.
    Pattern,
    /// A shard channel, which belongs to a hash slot of a cluster. This server has all slots.
    Shard,
}

impl ChannelKind {
    /// All kinds, in the order of their numbers.
    pub(crate) const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];

    /// Returns the first element of a message to a subscriber of this kind.
    const fn message(self) -> &'static [u8] {
        match self {
            Self::Channel => b"message",
            Self::Pattern => b"pmessage",
            Self::Shard => b"smessage",
        }
    }
}

type Named = BTreeMap<ChannelName, Receivers>;

/// All patterns and their subscribers. A pattern keeps its number while it has subscribers. A newer pattern has a
/// higher number.
#[derive(Default)]
struct Patterns {
    numbers: BTreeMap<ChannelName, u64>,
    by_number: BTreeMap<u64, (ChannelName, Receivers)>,
    next: u64,
}

/// The maximum number of patterns that are copied under one lock. They are then matched without the lock.
const PATTERNS_A_LOCK: usize = 32;

/// The progress of one message's publication. Each slice continues after the last receiver or pattern, so that a client
/// that stays subscribed receives the message once.
#[derive(Debug, Default)]
pub(crate) struct Publishing {
    stage: Stage,
    /// The message, in the form for the receivers of the current stage.
    message: Option<Arc<Message>>,
    /// The number from which the search for the next receiver continues.
    receiver: u64,
    /// The number from which the search for the next pattern continues.
    pattern: u64,
    /// The lowest number of the patterns that were added after the publication began. Subscribers of these patterns do
    /// not receive the message.
    patterns_end: Option<u64>,
    receivers: u64,
    /// The publication to the topic of the same name.
    pub(crate) topic: TopicPublishing,
}

/// The stage of a publication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The message is sent to the subscribers of the channel.
    #[default]
    Named,
    /// Patterns are matched with the channel's name.
    Patterns,
    /// The message is sent to the subscribers of a pattern that matched.
    Matched,
    Done,
}

/// A position in a walk over all names of a kind.
#[derive(Debug, Default)]
pub(crate) struct NamesCursor {
    part: usize,
    after: Option<ChannelName>,
}

/// All channels and patterns with their subscribers.
///
/// A lock is held only to look up and to copy a bounded number of entries. It is never held while a pattern is matched
/// or a queue is filled.
pub struct Channels {
    /// The subscribers of channels and of shard channels, in parts by a hash of the name.
    named: [[Mutex<Named>; PARTS]; 2],
    patterns: Mutex<Patterns>,
    monitors: Mutex<Vec<Arc<Outbox>>>,
    hub: Arc<Hub>,
    hasher: RandomState,
    next_outbox: AtomicU64,
    /// The outboxes of connections that have, or had, subscriptions or receive invalidations, by worker and number.
    outboxes: Mutex<HashMap<(usize, u32), Arc<Outbox>>>,
    outboxes_count: AtomicU64,
    /// The number of subscriptions of each kind.
    counts: [AtomicU64; 3],
    budget: Arc<MessageBudget>,
    /// The maximum number of unsent message bytes in one subscriber's outbox.
    pub backlog_bytes_max: AtomicU64,
    /// The number of delivered messages, counted once for each receiver.
    pub delivered: AtomicU64,
    /// The number of subscribers that were dropped because their unsent messages exceeded the maximum.
    pub dropped: AtomicU64,
}

impl std::fmt::Debug for Channels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channels").field("counts", &self.counts).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Channels {
    /// Creates the channels without subscribers. Charges names and messages to `budget`.
    pub fn new(hub: &Arc<Hub>, budget: &Arc<Budget>, backlog_bytes_max: u64) -> Self {
        Self {
            named: Default::default(),
            patterns: Mutex::default(),
            monitors: Mutex::default(),
            hub: Arc::clone(hub),
            hasher: RandomState::new(),
            next_outbox: AtomicU64::new(1),
            outboxes: Mutex::default(),
            outboxes_count: AtomicU64::new(0),
            counts: Default::default(),
            budget: Arc::new(MessageBudget(Arc::clone(budget))),
            backlog_bytes_max: AtomicU64::new(backlog_bytes_max),
            delivered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Returns the name in the form in which it is stored.
    pub(super) fn name(&self, bytes: &[u8]) -> ChannelName {
        ChannelName::new(self.hash(bytes), bytes)
    }

    /// Returns the hash by which names are ordered.
    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        self.hasher.hash_one(bytes)
    }

    /// Returns the outbox of a connection. Creates it if the connection has none yet.
    pub(crate) fn outbox(&self, worker: usize, connection: u32) -> Arc<Outbox> {
        let mut outboxes = lock(&self.outboxes);
        let new = || Arc::new(Outbox::new(self.next_outbox.fetch_add(1, Relaxed), worker, connection));
        let outbox = Arc::clone(outboxes.entry((worker, connection)).or_insert_with(new));
        self.outboxes_count.store(outboxes.len() as u64, Relaxed);
        outbox.reopen();
        outbox
    }

    /// Creates the outbox of one stream of a connection.
    pub(crate) fn stream_outbox(&self, worker: usize, connection: u32) -> Arc<Outbox> {
        Arc::new(Outbox::new(self.next_outbox.fetch_add(1, Relaxed), worker, connection))
    }

    /// Returns the outbox of a connection if it has messages.
    pub(crate) fn waiting_outbox(&self, worker: usize, connection: u32) -> Option<Arc<Outbox>> {
        if self.outboxes_count.load(Relaxed) == 0 {
            return None;
        }
        lock(&self.outboxes).get(&(worker, connection)).filter(|outbox| outbox.is_waiting()).cloned()
    }

    /// Closes the outbox of a connection that ends, if it has one.
    pub(crate) fn end_outbox(&self, worker: usize, connection: u32) {
        if self.outboxes_count.load(Relaxed) != 0 {
            let mut outboxes = lock(&self.outboxes);
            outboxes.remove(&(worker, connection)).into_iter().for_each(|outbox| outbox.close());
            self.outboxes_count.store(outboxes.len() as u64, Relaxed);
        }
    }

    /// Returns the part that holds the channels or shard channels with this hash.
    fn part(&self, kind: ChannelKind, hash: u64) -> &Mutex<Named> {
        &self.parts(kind)[hash as usize % PARTS]
    }

    fn parts(&self, kind: ChannelKind) -> &[Mutex<Named>; PARTS] {
        &self.named[usize::from(kind == ChannelKind::Shard)]
    }

    /// Returns the client memory of unsent messages and of names, in bytes.
    pub fn bytes(&self) -> u64 {
        self.budget.used()
    }

    /// Returns true if any channel or pattern has a subscriber.
    #[inline]
    pub(crate) fn has_subscribers(&self) -> bool {
        self.counts[ChannelKind::Channel as usize].load(Relaxed)
            + self.counts[ChannelKind::Pattern as usize].load(Relaxed)
            > 0
    }

    /// Subscribes `outbox` to `name`. The caller ensures that `outbox` is not subscribed to this name yet. Returns
    /// false if the memory for subscriptions is used up.
    pub(super) fn subscribe(&self, kind: ChannelKind, name: &ChannelName, outbox: &Arc<Outbox>) -> bool {
        if !self.budget.grant(name.bytes().len() as u64 + SUBSCRIPTION_OVERHEAD) {
            return false;
        }
        if kind == ChannelKind::Pattern {
            let Patterns { numbers, by_number, next } = &mut *lock(&self.patterns);
            let number = *numbers.entry(name.clone()).or_insert_with(|| {
                *next += 1;
                *next
            });
            let there = by_number.get_mut(&number);
            match there {
                Some((_, receivers)) => receivers.add(outbox),
                None => drop(by_number.insert(number, (name.clone(), Receivers::One(Arc::clone(outbox))))),
            }
        } else {
            let one = || Receivers::One(Arc::clone(outbox));
            lock(self.part(kind, name.hash()))
                .entry(name.clone())
                .and_modify(|receivers| receivers.add(outbox))
                .or_insert_with(one);
        }
        self.counts[kind as usize].fetch_add(1, Relaxed);
        true
    }

    /// Unsubscribes `outbox` from `name`. The caller ensures that `outbox` is subscribed to this name.
    pub(super) fn unsubscribe(&self, kind: ChannelKind, name: &ChannelName, outbox: &Outbox) {
        if kind == ChannelKind::Pattern {
            let Patterns { numbers, by_number, .. } = &mut *lock(&self.patterns);
            let Some(number) = numbers.get(name).copied() else { return };
            let left = by_number.get_mut(&number).and_then(|(_, receivers)| receivers.remove(outbox));
            let Some(left) = left else { return };
            if left == 0 {
                by_number.remove(&number);
                numbers.remove(name);
            }
        } else {
            let mut part = lock(self.part(kind, name.hash()));
            let Some(left) = part.get_mut(name).and_then(|receivers| receivers.remove(outbox)) else { return };
            if left == 0 {
                part.remove(name);
            }
        }
        self.counts[kind as usize].fetch_sub(1, Relaxed);
        self.budget.end_grant(name.bytes().len() as u64 + SUBSCRIPTION_OVERHEAD);
    }

    /// Sends every command to `outbox` from now on. Returns false if there are already [`MONITORS_MAX`] monitoring
    /// connections.
    pub(super) fn monitor(&self, outbox: &Arc<Outbox>) -> bool {
        let mut monitors = lock(&self.monitors);
        let room = monitors.len() < MONITORS_MAX;
        if room {
            monitors.push(Arc::clone(outbox));
            self.hub.set_monitors(true);
        }
        room
    }

    /// Stops sending commands to `outbox`.
    pub(super) fn unmonitor(&self, outbox: &Arc<Outbox>) {
        let mut monitors = lock(&self.monitors);
        monitors.retain(|other| !Arc::ptr_eq(other, outbox));
        self.hub.set_monitors(!monitors.is_empty());
    }

    /// Sends a line to all monitoring clients, and returns the number of these clients. For each connection that must
    /// be notified of queued messages, calls `note` with the number of its worker and its own number.
    pub(crate) fn send_to_monitors(&self, line: &[u8], mut note: impl FnMut(usize, u32)) -> usize {
        let monitors: ArrayVec<Arc<Outbox>, MONITORS_MAX> = lock(&self.monitors).iter().cloned().collect();
        if !monitors.is_empty() {
            let message = self.new_message(MessageForm::Published, line.to_vec());
            monitors.iter().for_each(|outbox| self.put(outbox, &message, &mut note));
        }
        monitors.len()
    }

    /// Publishes a message. Returns the number of receivers, counted once for each subscription. For each connection
    /// that must be notified of queued messages, calls `note` with its worker and its number.
    pub(crate) fn publish(&self, kind: ChannelKind, name: &[u8], text: &[u8], note: impl FnMut(usize, u32)) -> u64 {
        let (mut publishing, mut work) = (Publishing::default(), usize::MAX);
        self.publish_some(&mut publishing, kind, (name, text), &mut work, note).unwrap_or(publishing.receivers)
    }

    /// Continues a publication. Returns the number of receivers when it is complete, or `None` if `work` is used up.
    /// Each receiver costs one unit of work. A pattern costs one unit, and one more for every [`STEPS_A_RECEIVER`]
    /// steps that its match may take.
    pub(crate) fn publish_some(
        &self,
        publishing: &mut Publishing,
        kind: ChannelKind,
        (name, text): (&[u8], &[u8]),
        work: &mut usize,
        mut note: impl FnMut(usize, u32),
    ) -> Option<u64> {
        while *work > 0 {
            match publishing.stage {
                Stage::Named => self.publish_to_named(publishing, kind, (name, text), work, &mut note),
                Stage::Patterns => self.match_patterns(publishing, name, work),
                Stage::Matched => self.publish_to_matching(publishing, (name, text), work, &mut note),
                Stage::Done => {
                    self.delivered.fetch_add(publishing.receivers, Relaxed);
                    return Some(publishing.receivers);
                }
            }
        }
        None
    }

    fn publish_to_named(
        &self,
        publishing: &mut Publishing,
        kind: ChannelKind,
        (name, text): (&[u8], &[u8]),
        work: &mut usize,
        note: &mut impl FnMut(usize, u32),
    ) {
        let mut next = ArrayVec::new();
        let is_named = self.counts[kind as usize].load(Relaxed) > 0;
        let hash = if is_named { self.hash(name) } else { 0 };
        let key = (hash, name);
        if is_named && lock(self.part(kind, hash)).contains_key(&key as &dyn Hashed) {
            let message = publishing.message.get_or_insert_with(|| self.message(kind, &[name, text]));
            // The outboxes are filled under the lock. A client that unsubscribes has therefore received every message
            // that counted it as a receiver.
            let part = lock(self.part(kind, hash));
            if let Some(receivers) = part.get(&key as &dyn Hashed) {
                receivers.take(publishing.receiver, &mut next);
                next.iter().for_each(|outbox| self.put(outbox, message, note));
            }
        }
        if publishing.passed(&next, work) {
            let matches = kind == ChannelKind::Channel && self.counts[ChannelKind::Pattern as usize].load(Relaxed) > 0;
            publishing.stage = if matches { Stage::Patterns } else { Stage::Done };
        }
    }

    /// Compares patterns with `name` until a pattern matches, no pattern remains, or `work` is used up. The lock is not
    /// held during a comparison.
    fn match_patterns(&self, publishing: &mut Publishing, name: &[u8], work: &mut usize) {
        let mut next: ArrayVec<(u64, ChannelName), PATTERNS_A_LOCK> = ArrayVec::new();
        {
            let patterns = lock(&self.patterns);
            let end = *publishing.patterns_end.get_or_insert(patterns.next + 1);
            let range = patterns.by_number.range(publishing.pattern..end.max(publishing.pattern));
            next.extend(range.map(|(number, (name, _))| (*number, name.clone())).take(PATTERNS_A_LOCK));
        }
        let is_last = next.len() < PATTERNS_A_LOCK;
        for (number, pattern) in next {
            *work = work.saturating_sub(1 + glob::steps_max(pattern.bytes(), name) / STEPS_A_RECEIVER);
            if glob::matches(pattern.bytes(), name) {
                (publishing.pattern, publishing.stage) = (number, Stage::Matched);
                return;
            }
            publishing.pattern = number + 1;
            if *work == 0 {
                return;
            }
        }
        if is_last {
            publishing.stage = Stage::Done;
        }
    }

    fn publish_to_matching(
        &self,
        publishing: &mut Publishing,
        (name, text): (&[u8], &[u8]),
        work: &mut usize,
        note: &mut impl FnMut(usize, u32),
    ) {
        let mut next = ArrayVec::new();
        let number = publishing.pattern;
        let pattern = lock(&self.patterns).by_number.get(&number).map(|(pattern, _)| pattern.clone());
        if let Some(pattern) = pattern {
            let words = [pattern.bytes(), name, text];
            let message = publishing.message.get_or_insert_with(|| self.message(ChannelKind::Pattern, &words));
            let patterns = lock(&self.patterns);
            if let Some((_, receivers)) = patterns.by_number.get(&number) {
                receivers.take(publishing.receiver, &mut next);
                next.iter().for_each(|outbox| self.put(outbox, message, note));
            }
        }
        if publishing.passed(&next, work) {
            publishing.pattern += 1;
            publishing.stage = Stage::Patterns;
        }
    }

    fn message(&self, kind: ChannelKind, words: &[&[u8]]) -> Arc<Message> {
        let bytes = words.iter().map(|word| word.len() + 32).sum::<usize>();
        let mut text = Vec::with_capacity(bytes + 48);
        reply::push(&mut text, Version::Resp3, words.len() as u64 + 1);
        reply::bulk(&mut text, kind.message());
        words.iter().for_each(|word| reply::bulk(&mut text, word));
        self.new_message(MessageForm::Published, text)
    }

    /// Creates a message, and charges it to client memory.
    pub(crate) fn new_message(&self, form: MessageForm, bytes: Vec<u8>) -> Arc<Message> {
        Message::new(form, bytes, &self.budget)
    }

    /// Reserves client memory for names that a client registers. Returns false if it is used up.
    pub(crate) fn reserve_names(&self, bytes: u64) -> bool {
        self.budget.grant(bytes)
    }

    /// Returns client memory that was reserved with [`Channels::reserve_names`].
    pub(crate) fn release_names(&self, bytes: u64) {
        self.budget.end_grant(bytes);
    }

    /// Puts a message into an outbox. Calls `note` with the worker and the number of the connection if it must be
    /// notified.
    pub(crate) fn put(&self, outbox: &Outbox, message: &Arc<Message>, note: &mut impl FnMut(usize, u32)) {
        match outbox.put(message, self.backlog_bytes_max.load(Relaxed)) {
            Queued::Behind | Queued::Gone => {}
            Queued::First => note(outbox.worker, outbox.connection),
            Queued::Broke => {
                self.dropped.fetch_add(1, Relaxed);
                note(outbox.worker, outbox.connection);
            }
        }
    }

    /// Fills `into` with the next names of channels or shard channels that have subscribers. Returns true if there are
    /// no more names. During a walk, a name that has subscribers the whole time is returned once.
    pub(crate) fn next_names<const N: usize>(
        &self,
        kind: ChannelKind,
        cursor: &mut NamesCursor,
        into: &mut ArrayVec<ChannelName, N>,
    ) -> bool {
        while let Some(part) = self.parts(kind).get(cursor.part) {
            let part = lock(part);
            let from = cursor.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let next = part.range::<ChannelName, _>((from, Bound::Unbounded)).map(|(name, _)| name.clone());
            into.extend(next.take(into.remaining_capacity()));
            if into.is_full() {
                cursor.after = into.last().cloned();
                return false;
            }
            (cursor.part, cursor.after) = (cursor.part + 1, None);
        }
        true
    }

    /// Returns the number of subscribers of a channel or shard channel.
    pub(crate) fn subscribers(&self, kind: ChannelKind, name: &[u8]) -> usize {
        let hash = self.hash(name);
        lock(self.part(kind, hash)).get(&(hash, name) as &dyn Hashed).map_or(0, Receivers::len)
    }

    /// Returns the number of different names of a kind that have subscribers.
    pub(crate) fn names(&self, kind: ChannelKind) -> u64 {
        let names = match kind {
            ChannelKind::Pattern => lock(&self.patterns).numbers.len(),
            _ => self.parts(kind).iter().map(|part| lock(part).len()).sum(),
        };
        names as u64
    }
}

impl Publishing {
    /// Advances past the receivers to which the message was sent. Returns true if the current name has no further
    /// receivers.
    fn passed(&mut self, receivers: &ArrayVec<Arc<Outbox>, RECEIVERS_A_LOCK>, work: &mut usize) -> bool {
        self.receivers += receivers.len() as u64;
        *work = work.saturating_sub(receivers.len() + 1);
        match receivers.last() {
            Some(last) if receivers.is_full() => {
                self.receiver = last.id + 1;
                false
            }
            _ => {
                (self.receiver, self.message) = (0, None);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Subscriber;
    use super::*;
    use base::prng::Prng;

    fn messages(subscriber: &Subscriber) -> usize {
        let mut bytes = vec![0; 1 << 16];
        let taken = subscriber.take(&mut bytes, Version::Resp3);
        bytes[..taken].iter().filter(|byte| **byte == b'>').count()
    }

    /// Subscribers are added and removed between the slices of each publication. A lasting subscriber receives each
    /// message once for each matching subscription. Any other subscriber never receives a message twice.
    #[test]
    fn a_sliced_publication_reaches_lasting_subscribers_once() {
        let channels = Arc::new(Channels::new(&Arc::default(), &Budget::new(0, Some(1 << 30)), 1 << 20));
        let mut prng = Prng::new(3);
        let mut stayers: Vec<_> = (0..300).map(|n| Subscriber::new(&channels, 0, n)).collect();
        for (number, stayer) in stayers.iter_mut().enumerate() {
            stayer.subscribe(ChannelKind::Channel, b"news").expect("room");
            stayer.subscribe(ChannelKind::Pattern, format!("n*{}", ["", "s"][number % 2]).as_bytes()).expect("room");
            stayer.subscribe(ChannelKind::Pattern, format!("other-{number}*").as_bytes()).expect("room");
        }
        let mut others: Vec<Subscriber> = Vec::new();
        let (mut slices, mut came_and_went, mut numbers) = (0, 0, 1000);
        for _ in 0..30 {
            let (mut publishing, mut receivers) = (Publishing::default(), None);
            while receivers.is_none() {
                let mut work = 20;
                receivers = channels.publish_some(
                    &mut publishing,
                    ChannelKind::Channel,
                    (b"news", b"text"),
                    &mut work,
                    |_, _| {},
                );
                slices += 1;
                for _ in 0..4 {
                    if prng.chance(1, 2) || others.is_empty() {
                        numbers += 1;
                        let mut other = Subscriber::new(&channels, 0, numbers);
                        other.subscribe(ChannelKind::Channel, b"news").expect("room");
                        other.subscribe(ChannelKind::Pattern, format!("n*{}", prng.below(3)).as_bytes()).expect("room");
                        others.push(other);
                    } else {
                        let other = others.swap_remove(prng.below(others.len() as u64) as usize);
                        assert!(messages(&other) <= 30);
                        came_and_went += 1;
                    }
                }
            }
            assert!(receivers.is_some_and(|receivers| receivers >= 600), "{receivers:?}");
            for (number, stayer) in stayers.iter().enumerate() {
                assert_eq!(messages(stayer), 2, "stayer {number}");
            }
            assert!(others.iter().all(|other| messages(other) <= 1), "one message, one subscription that matches");
        }
        assert!(slices > 300 && came_and_went > 100, "{slices} {came_and_went}");
        drop((stayers, others));
        assert_eq!(
            (channels.bytes(), channels.names(ChannelKind::Channel), channels.names(ChannelKind::Pattern)),
            (0, 0, 0)
        );
        assert!(!channels.has_subscribers());
    }

    /// Walks over names with a common prefix while other names are added and removed.
    #[test]
    fn a_walk_gives_each_name_that_stays_once() {
        let channels = Arc::new(Channels::new(&Arc::default(), &Budget::new(0, Some(1 << 30)), 1 << 20));
        let (mut stays, mut moves) = (Subscriber::new(&channels, 0, 0), Subscriber::new(&channels, 0, 1));
        let name = |n: u32| [&[b'x'; 100][..], &n.to_be_bytes()].concat();
        (0..1000).for_each(|n| stays.subscribe(ChannelKind::Channel, &name(n)).expect("room"));
        let (mut cursor, mut seen, mut round) = (NamesCursor::default(), std::collections::HashMap::new(), 1000);
        loop {
            let mut names = ArrayVec::<ChannelName, 7>::new();
            let is_end = channels.next_names(ChannelKind::Channel, &mut cursor, &mut names);
            names.iter().for_each(|name| *seen.entry(name.bytes().to_vec()).or_insert(0) += 1);
            if is_end {
                break;
            }
            moves.subscribe(ChannelKind::Channel, &name(round)).expect("room");
            moves.leave(ChannelKind::Channel, &name(round - 3));
            moves.forget(ChannelKind::Channel);
            round += 1;
        }
        assert!(round > 1100 && (0..1000).all(|n| seen.get(&name(n)) == Some(&1)), "{round} rounds");
        assert!(seen.values().all(|times| *times == 1));
    }
}
