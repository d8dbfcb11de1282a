//! Topics: the messages of channels with sequence numbers, for gRPC subscribers, which may fall behind or come back.
//!
//! ```text
//!   Publish, PUBLISH ──> topic { page, log: [n-2][n-1][n] } ── signal ──> outbox of each subscribed connection
//!                                      ^         ^                               │ its worker visits it
//!                                  position   position of a subscription <───────┘ reads from the log
//! ```
//!
//! A topic is the channel of that name in one namespace. It exists while a gRPC client is subscribed to it, and for
//! [`RETENTION_MS`] after that, so that a client that connects again misses no message and meets no false gap, also if
//! it had no message yet. If its last client has cancelled the subscription itself, a topic without messages ends at
//! once. A message to a topic that does not exist is not stored. A topic that is created again has a
//! later page, because its sequence numbers begin at 1 again.
//!
//! A subscription is only a position in the log, so that a slow subscriber holds no memory. If messages after its
//! position are no longer in the log, it learns of the gap.
//!
//! Bounds:
//!
//! | bounded | maximum | when it is exceeded |
//! |---|---|---|
//! | topics | [`TOPICS_MAX`] | those without subscribers give way, then a further one is refused |
//! | the log of a topic | [`LOG_MESSAGES_MAX`], [`LOG_BYTES_MAX`] or one message | the oldest are removed |
//! | all logs | a quarter of client memory | logs longer than a topic's share lose their oldest, or all, messages |
//!
//! Invariant: messages have consecutive numbers, and all subscribers read them in that order. While a lock is held,
//! only a bounded number of entries is processed.

use super::outbox::{ChannelName, Hashed, MESSAGE_OVERHEAD, MessageBudget, Outbox, RECEIVERS_A_LOCK, Receivers};
use crate::memory::budget::Budget;
use arrayvec::ArrayVec;
use base::clock::UnixMillis;
use segment::Namespace;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of topics.
pub(crate) const TOPICS_MAX: u64 = 1 << 16;
/// The maximum number of messages in the log of a topic, and their bytes.
const LOG_MESSAGES_MAX: usize = 1024;
const LOG_BYTES_MAX: usize = 1 << 20;
/// The time for which a topic without subscribers is kept, so that a client that connects again continues, in ms.
const RETENTION_MS: u64 = 60_000;
/// The number of parts into which topics are divided. Each part has its own lock.
const PARTS: usize = 16;
/// The maximum number of topics that one call removes from a part.
const REMOVED_MAX: usize = 16;
/// The maximum number of topics and messages that one call visits to shorten logs.
const TRIMMED_MAX: usize = 256;
/// The approximate memory of a topic in addition to its name and log, in bytes.
const TOPIC_OVERHEAD: u64 = 320;
/// The maximum number of messages, and their approximate bytes, that one call reads.
pub(crate) const READ_MAX: usize = 64;
const READ_BYTES: usize = 16 << 10;

/// A message in the log of a topic.
#[derive(Clone, Debug)]
pub(crate) struct TopicMessage {
    pub(crate) value: Arc<[u8]>,
    /// True if the publisher called the value a text.
    pub(crate) is_text: bool,
    /// The identity in the publisher's token; empty if it has none.
    pub(crate) publisher: Arc<[u8]>,
}

/// The progress of one message's publication to a topic.
#[derive(Debug, Default)]
pub(crate) struct TopicPublishing {
    /// True if the publisher called the value a text, false if not; `None` if its protocol has no such distinction.
    is_text: Option<bool>,
    /// The identity in the publisher's token; empty if it has none.
    publisher: Arc<[u8]>,
    is_appended: bool,
    is_done: bool,
    /// The number of the outbox from which the search for the next connection continues.
    from: u64,
    /// The number of signalled connections.
    pub(crate) receivers: u64,
}

impl TopicPublishing {
    /// Creates the publication of a message that the publisher calls a text, or not.
    pub(crate) fn of(is_text: bool, publisher: Arc<[u8]>) -> Self {
        Self { is_text: Some(is_text), publisher, ..Self::default() }
    }
}

impl TopicMessage {
    fn new(value: &[u8], is_text: bool, publisher: Arc<[u8]>) -> Self {
        Self { value: value.into(), is_text, publisher }
    }

    /// Returns the memory of the message, in bytes.
    fn cost(&self) -> u64 {
        self.value.len() as u64 + MESSAGE_OVERHEAD
    }
}

/// The figures of all topics.
#[derive(Clone, Copy, Debug, Default)]
pub struct TopicFigures {
    /// The number of topics.
    pub topics: u64,
    /// The number of subscribed connections, counted once for each of their topics.
    pub subscribers: u64,
    /// The memory of the messages in all logs, in bytes.
    pub log_bytes: u64,
    /// The number of messages that were appended to logs since the start.
    pub messages: u64,
    /// The number of gaps that subscribers met since the start.
    pub gaps: u64,
}

/// The number of the next message of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicPosition {
    /// The page of the sequence numbers; 0 if the client names none.
    pub(crate) page: u64,
    /// The number of the next message, from 1; 0 for the next one that is published.
    pub(crate) sequence: u64,
}

/// A gap before the next message of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Discontinuity {
    /// The number of the last message before the gap; 0 if it is not known.
    pub(crate) last_sequence: u64,
    /// The position after the gap.
    pub(crate) next: TopicPosition,
}

/// The progress of [`Topics::signal_some`].
#[derive(Debug, Default)]
pub struct TopicWalk {
    part: usize,
    topic: Option<(u8, ChannelName)>,
    /// The number of the outbox from which the search in the topic continues.
    from: u64,
}

/// A message with its number.
pub(crate) type NumberedMessage = (u64, TopicMessage);

struct Topic {
    name: ChannelName,
    page: u64,
    /// The number of the next message.
    next: u64,
    log: VecDeque<TopicMessage>,
    /// The cost of the messages in the log, in bytes.
    log_bytes: u64,
    /// The connections that are subscribed, each once.
    readers: Option<Receivers>,
    /// The instant at which the last subscription ended.
    idle_since: UnixMillis,
    /// True if the topic is in the list of topics that had no subscribers.
    is_listed: bool,
    /// The number of deletions of its namespace that the topic has seen.
    epoch: u64,
}

/// The topics of one part, by namespace and name.
#[derive(Default)]
struct TopicPart {
    topics: BTreeMap<(u8, ChannelName), Topic>,
    /// Topics that had no subscribers at an instant, each once, oldest first. A topic may have got subscribers since.
    idle: VecDeque<(UnixMillis, (u8, ChannelName))>,
    /// The topic after which trimming continues.
    trimmed: Option<(u8, ChannelName)>,
}

/// All topics.
pub struct Topics {
    parts: [Mutex<TopicPart>; PARTS],
    hasher: RandomState,
    count: AtomicU64,
    /// The page of the newest topic.
    last_page: AtomicU64,
    /// The cost of all logs, in bytes.
    logs_bytes: AtomicU64,
    /// The connections that are subscribed, counted once for each of their topics.
    readers: AtomicU64,
    /// The messages that were appended to logs, and the gaps that were reported to subscribers.
    appended: AtomicU64,
    gaps: AtomicU64,
    /// The number of deletions of each namespace. A topic that has not seen the last one is reset when it is used.
    epochs: Vec<AtomicU64>,
    budget: MessageBudget,
}

impl std::fmt::Debug for Topics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Topics").field("count", &self.count).finish_non_exhaustive()
    }
}

fn lock(part: &Mutex<TopicPart>) -> MutexGuard<'_, TopicPart> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Topics {
    /// Creates the set without topics. Charges messages to `budget`.
    pub fn new(budget: &Arc<Budget>) -> Self {
        Self {
            parts: Default::default(),
            hasher: RandomState::new(),
            count: AtomicU64::new(0),
            last_page: AtomicU64::new(0),
            logs_bytes: AtomicU64::new(0),
            readers: AtomicU64::new(0),
            appended: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            epochs: (0..=Namespace::MAX).map(|_| AtomicU64::new(0)).collect(),
            budget: MessageBudget(Arc::clone(budget)),
        }
    }

    /// Returns true if there are topics.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Returns the number of connections that are subscribed to a topic.
    pub(crate) fn subscribers(&self, namespace: Namespace, name: &[u8]) -> u64 {
        if !self.any() {
            return 0;
        }
        let key = self.key(namespace, name);
        let part = lock(self.part(&key));
        part.topics.get(&key).and_then(|topic| topic.readers.as_ref()).map_or(0, |readers| readers.len() as u64)
    }

    /// Returns the present figures.
    pub fn figures(&self) -> TopicFigures {
        let of = |count: &AtomicU64| count.load(Relaxed);
        TopicFigures {
            topics: of(&self.count),
            subscribers: of(&self.readers),
            log_bytes: of(&self.logs_bytes),
            messages: of(&self.appended),
            gaps: of(&self.gaps),
        }
    }

    fn key(&self, namespace: Namespace, name: &[u8]) -> (u8, ChannelName) {
        (namespace.0, ChannelName::new(self.hasher.hash_one(name), name))
    }

    fn part(&self, key: &(u8, ChannelName)) -> &Mutex<TopicPart> {
        &self.parts[key.1.parts().0 as usize % PARTS]
    }

    /// Subscribes a connection to a topic, which is created if it does not exist. `is_new`: the connection has no other
    /// subscription to it. Returns the position of the next message, and the gap before it if there is one. Returns
    /// `None` if there are too many topics, or client memory is used up.
    pub(crate) fn subscribe(
        &self,
        (namespace, name): (Namespace, &[u8]),
        outbox: &Arc<Outbox>,
        is_new: bool,
        wanted: TopicPosition,
        now: UnixMillis,
    ) -> Option<(TopicPosition, Option<Discontinuity>)> {
        let key = self.key(namespace, name);
        let mut part = lock(self.part(&key));
        self.remove_idle(&mut part, now, false);
        if !part.topics.contains_key(&key) {
            if !self.take_room(name) {
                // Topics without readers give way.
                self.remove_idle(&mut part, now, true);
                self.remove_idle_elsewhere(now);
                if !self.take_room(name) {
                    return None;
                }
            }
            self.count.fetch_add(1, Relaxed);
            let page = self.next_page(now);
            part.topics.insert(key.clone(), Topic::new(key.1.clone(), page, self.epoch(namespace)));
        }
        let topic = part.topics.get_mut(&key)?;
        self.renew(topic, namespace, now);
        if is_new {
            self.readers.fetch_add(1, Relaxed);
            match &mut topic.readers {
                Some(readers) => readers.add(outbox),
                none => *none = Some(Receivers::One(Arc::clone(outbox))),
            }
        }
        Some(topic.start(wanted))
    }

    /// Returns the page of a new topic: the time, and more than that of any earlier topic.
    fn next_page(&self, now: UnixMillis) -> u64 {
        let later = |last: u64| Some(now.0.max(last + 1));
        let last = self.last_page.fetch_update(Relaxed, Relaxed, later).unwrap_or_default();
        now.0.max(last + 1)
    }

    /// Unsubscribes a connection from a topic. `may_return`: the client did not cancel the subscription itself, so it
    /// may come back and continue.
    pub(crate) fn unsubscribe(
        &self,
        (namespace, name): (Namespace, &[u8]),
        outbox: &Outbox,
        may_return: bool,
        now: UnixMillis,
    ) {
        let key = self.key(namespace, name);
        let mut part = lock(self.part(&key));
        let Some(topic) = part.topics.get_mut(&key) else { return };
        let left = topic.readers.as_mut().and_then(|readers| readers.remove(outbox));
        if left.is_some() {
            self.readers.fetch_sub(1, Relaxed);
        }
        if left == Some(0) {
            topic.readers = None;
            topic.idle_since = now;
            if topic.next == 1 && !may_return && !topic.is_listed {
                self.remove(&mut part, &key);
            } else if !std::mem::replace(&mut topic.is_listed, true) {
                part.idle.push_back((now, key));
            }
        }
        self.remove_idle(&mut part, now, false);
    }

    fn remove(&self, part: &mut TopicPart, key: &(u8, ChannelName)) {
        if let Some(mut topic) = part.topics.remove(key) {
            self.count.fetch_sub(1, Relaxed);
            self.clear(&mut topic);
            self.budget.end_grant(topic.name.bytes().len() as u64 + TOPIC_OVERHEAD);
        }
    }

    /// Removes all messages from the log of a topic.
    fn clear(&self, topic: &mut Topic) {
        while self.remove_oldest(topic) {}
    }

    /// Removes the oldest message from the log of a topic. Returns false if there is none.
    fn remove_oldest(&self, topic: &mut Topic) -> bool {
        let Some(oldest) = topic.log.pop_front() else { return false };
        topic.log_bytes -= oldest.cost();
        self.logs_bytes.fetch_sub(oldest.cost(), Relaxed);
        self.budget.give_back(oldest.cost());
        true
    }

    /// Reserves client memory for a further topic. Returns false if it is used up, or there are too many topics.
    fn take_room(&self, name: &[u8]) -> bool {
        self.count.load(Relaxed) < TOPICS_MAX && self.budget.grant(name.len() as u64 + TOPIC_OVERHEAD)
    }

    fn epoch(&self, namespace: Namespace) -> u64 {
        self.epochs.get(usize::from(namespace.0)).map_or(0, |epoch| epoch.load(Relaxed))
    }

    /// Resets all topics of a namespace that is deleted: their messages are gone, and their numbers begin again on a
    /// later page.
    pub(crate) fn end_namespace(&self, namespace: Namespace) {
        if let Some(epoch) = self.epochs.get(usize::from(namespace.0)) {
            epoch.fetch_add(1, Relaxed);
        }
    }

    /// Resets a topic if its namespace was deleted since it was last used.
    fn renew(&self, topic: &mut Topic, namespace: Namespace, now: UnixMillis) {
        let epoch = self.epoch(namespace);
        if std::mem::replace(&mut topic.epoch, epoch) != epoch {
            self.clear(topic);
            (topic.page, topic.next) = (self.next_page(now), 1);
        }
    }

    /// Returns true if the logs have more than their share of client memory, or client memory is used up.
    fn is_full(&self) -> bool {
        self.logs_bytes.load(Relaxed) > self.budget.bytes_max() / 4 || !self.budget.is_within()
    }

    /// Returns the length of a log that each topic may have, in bytes, while [`Topics::is_full`].
    fn share(&self) -> u64 {
        self.budget.bytes_max() / 4 / self.count.load(Relaxed).max(1)
    }

    /// Shortens further logs that are longer than their share, if the logs are full.
    fn trim(&self, part: &mut TopicPart) {
        let (share, mut work) = (self.share(), TRIMMED_MAX);
        let from = part.trimmed.take().map_or(Bound::Unbounded, Bound::Excluded);
        for (key, topic) in part.topics.range_mut((from, Bound::Unbounded)) {
            if work == 0 || !self.is_full() {
                return;
            }
            while work > 0 && topic.log_bytes > share && self.remove_oldest(topic) {
                work -= 1;
            }
            work = work.saturating_sub(1);
            part.trimmed = Some(key.clone());
        }
        part.trimmed = None;
    }

    /// Removes topics without subscribers of any age from the parts that are free.
    fn remove_idle_elsewhere(&self, now: UnixMillis) {
        for part in &self.parts {
            if let Ok(mut part) = part.try_lock() {
                self.remove_idle(&mut part, now, true);
            }
        }
    }

    /// Continues a publication: appends the message to the log, then signals the subscribed connections. Returns true
    /// when it is complete, or false if `work` is used up: each connection costs one unit. Calls `note` with the worker
    /// and the number of a connection that must be visited.
    pub(crate) fn publish_some(
        &self,
        publishing: &mut TopicPublishing,
        (namespace, name): (Namespace, &[u8]),
        (value, now): (&[u8], UnixMillis),
        work: &mut usize,
        mut note: impl FnMut(usize, u32),
    ) -> bool {
        if !publishing.is_appended {
            let is_text = publishing.is_text.unwrap_or_else(|| std::str::from_utf8(value).is_ok());
            let publisher = Arc::clone(&publishing.publisher);
            let message = TopicMessage::new(value, is_text, publisher);
            publishing.is_done = !self.any() || !self.append(namespace, name, message, now);
            publishing.is_appended = true;
        }
        while !publishing.is_done && *work > 0 {
            let mut next = ArrayVec::new();
            self.readers(namespace, name, publishing.from, &mut next);
            for outbox in &next {
                if outbox.signal() {
                    note(outbox.worker, outbox.connection);
                }
            }
            publishing.receivers += next.len() as u64;
            *work = work.saturating_sub(next.len() + 1);
            match next.last() {
                Some(last) if next.is_full() => publishing.from = last.id + 1,
                _ => publishing.is_done = true,
            }
        }
        publishing.is_done
    }

    /// Appends a message to the log of a topic. Returns false if the topic does not exist.
    fn append(&self, namespace: Namespace, name: &[u8], message: TopicMessage, now: UnixMillis) -> bool {
        let key = self.key(namespace, name);
        let mut part = lock(self.part(&key));
        let Some(topic) = part.topics.get_mut(&key) else { return false };
        self.renew(topic, namespace, now);
        let cost = message.cost();
        self.budget.take(cost);
        self.appended.fetch_add(1, Relaxed);
        self.logs_bytes.fetch_add(cost, Relaxed);
        topic.log.push_back(message);
        topic.log_bytes += cost;
        topic.next += 1;
        let is_long = |topic: &Topic| {
            topic.log.len() > 1 && (topic.log.len() > LOG_MESSAGES_MAX || topic.log_bytes > LOG_BYTES_MAX as u64)
        };
        while is_long(topic) || self.is_full() && topic.log_bytes > self.share() {
            if !self.remove_oldest(topic) {
                break;
            }
        }
        true
    }

    /// Copies the next connections that are subscribed to a topic into `into`, from the outbox number `from` on.
    fn readers(
        &self,
        namespace: Namespace,
        name: &[u8],
        from: u64,
        into: &mut ArrayVec<Arc<Outbox>, RECEIVERS_A_LOCK>,
    ) {
        let key = self.key(namespace, name);
        let part = lock(self.part(&key));
        if let Some(readers) = part.topics.get(&key).and_then(|topic| topic.readers.as_ref()) {
            readers.take(from, into);
        }
    }

    /// Reads the next messages of a subscription, and advances its position. Returns the gap before them if there is
    /// one, and true if there are further messages.
    pub(crate) fn read(
        &self,
        (namespace, name): (Namespace, &[u8]),
        now: UnixMillis,
        position: &mut TopicPosition,
        into: &mut ArrayVec<NumberedMessage, READ_MAX>,
    ) -> (Option<Discontinuity>, bool) {
        let key = self.key(namespace, name);
        let mut part = lock(self.part(&key));
        let Some(topic) = part.topics.get_mut(&key) else { return (None, false) };
        self.renew(topic, namespace, now);
        let (start, gap) = topic.start(*position);
        *position = start;
        self.gaps.fetch_add(u64::from(gap.is_some()), Relaxed);
        let mut bytes = 0;
        let first = (start.sequence - topic.first()) as usize;
        for message in topic.log.range(first..) {
            if into.is_full() || bytes >= READ_BYTES {
                break;
            }
            bytes += message.value.len();
            into.push((position.sequence, message.clone()));
            position.sequence += 1;
        }
        (gap, position.sequence < topic.next)
    }

    /// Removes topics without subscribers whose retention is over, or those of any age.
    fn remove_idle(&self, part: &mut TopicPart, now: UnixMillis, any_age: bool) {
        for _ in 0..REMOVED_MAX {
            let Some((since, key)) = part.idle.front() else { return };
            if !any_age && now.ms_since(*since) < RETENTION_MS {
                return;
            }
            let (since, key) = (*since, key.clone());
            part.idle.pop_front();
            match part.topics.get_mut(&key) {
                None => {}
                Some(topic) if topic.readers.is_some() => topic.is_listed = false,
                // Clients have used it since.
                Some(topic) if topic.idle_since.0 > since.0 && !any_age => {
                    part.idle.push_back((topic.idle_since, key));
                }
                Some(_) => self.remove(part, &key),
            }
        }
    }

    /// Continues to signal the connections of all topics, because namespaces have changed: a subscription ends if its
    /// cache was deleted. Returns true when all are signalled. Each call takes a bounded time.
    pub fn signal_some(&self, walk: &mut TopicWalk, mut note: impl FnMut(usize, u32)) -> bool {
        let mut readers = ArrayVec::<_, RECEIVERS_A_LOCK>::new();
        let Some(part) = self.parts.get(walk.part) else { return true };
        {
            let part = lock(part);
            let from = walk.topic.as_ref().map_or(Bound::Unbounded, Bound::Included);
            match part.topics.range((from, Bound::Unbounded)).find(|(_, topic)| topic.readers.is_some()) {
                None => (walk.part, walk.topic, walk.from) = (walk.part + 1, None, 0),
                Some((key, topic)) => {
                    let from = if walk.topic.as_ref() == Some(key) { walk.from } else { 0 };
                    topic.readers.iter().for_each(|of| of.take(from, &mut readers));
                    walk.topic = Some(key.clone());
                    walk.from = readers.last().map_or(u64::MAX, |last: &Arc<Outbox>| last.id + 1);
                    if !readers.is_full() {
                        let next = part.topics.range((Bound::Excluded(key), Bound::Unbounded)).next();
                        (walk.topic, walk.from) = (next.map(|(key, _)| key.clone()), 0);
                        walk.part += usize::from(walk.topic.is_none());
                    }
                }
            }
        }
        readers.iter().filter(|outbox| outbox.signal()).for_each(|outbox| note(outbox.worker, outbox.connection));
        walk.part == PARTS
    }

    /// Removes topics without subscribers, as [`Topics::subscribe`] does, if a part is free. The background thread
    /// calls this, so that memory is freed although no client subscribes.
    pub fn expire(&self, now: UnixMillis) {
        if self.any() {
            for part in &self.parts {
                if let Ok(mut part) = part.try_lock() {
                    self.remove_idle(&mut part, now, false);
                    if self.is_full() {
                        self.trim(&mut part);
                    }
                }
            }
        }
    }
}

impl Topic {
    fn new(name: ChannelName, page: u64, epoch: u64) -> Self {
        Self {
            name,
            page,
            next: 1,
            log: VecDeque::new(),
            log_bytes: 0,
            readers: None,
            idle_since: UnixMillis::default(),
            is_listed: false,
            epoch,
        }
    }

    /// Returns the number of the first message in the log, or that of the next one if the log is empty.
    fn first(&self) -> u64 {
        self.next - self.log.len() as u64
    }

    /// Returns the position from which a subscription continues that wants the messages from `wanted` on, and the gap
    /// between both if there is one.
    fn start(&self, wanted: TopicPosition) -> (TopicPosition, Option<Discontinuity>) {
        let at = |sequence| TopicPosition { page: self.page, sequence };
        if wanted.sequence == 0 {
            return (at(self.next), None);
        }
        let is_known = wanted.page == self.page || wanted.page == 0;
        let start = match is_known && wanted.sequence <= self.next {
            true => at(wanted.sequence.max(self.first())),
            // The numbers of the client are those of an earlier topic.
            false => at(self.first()),
        };
        // A client that asks for the first message and names no page asks for all that there are.
        let wants_all = wanted == TopicPosition { page: 0, sequence: 1 };
        let is_gap = !wants_all && (!is_known || start.sequence != wanted.sequence);
        let gap = is_gap.then(|| Discontinuity { last_sequence: wanted.sequence - 1, next: start });
        (start, gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: (Namespace, &[u8]) = (Namespace(0), b"news");
    const NOW: UnixMillis = UnixMillis(1_000_000);

    fn topics(bytes_max: u64) -> Topics {
        Topics::new(&Budget::new(0, Some(bytes_max)))
    }

    fn outbox(id: u64) -> Arc<Outbox> {
        Arc::new(Outbox::new(id, 0, id as u32))
    }

    fn publish(topics: &Topics, bytes: usize) -> bool {
        topics.append(NAME.0, NAME.1, TopicMessage::new(&vec![b'x'; bytes], true, Arc::default()), NOW)
    }

    fn sequences(topics: &Topics, position: &mut TopicPosition) -> (Option<Discontinuity>, Vec<u64>) {
        let mut messages = ArrayVec::new();
        let (gap, has_more) = topics.read(NAME, NOW, position, &mut messages);
        assert!(!has_more || !messages.is_empty());
        (gap, messages.iter().map(|(sequence, _)| *sequence).collect())
    }

    #[test]
    fn subscriber_reads_what_is_published_after_it_subscribed() {
        let topics = topics(1 << 20);
        assert!(!publish(&topics, 1));
        let (mut position, gap) =
            topics.subscribe(NAME, &outbox(1), true, TopicPosition::default(), NOW).expect("there is room");
        assert_eq!((position.sequence, gap), (1, None));
        assert!(publish(&topics, 1) && publish(&topics, 1));
        assert_eq!(sequences(&topics, &mut position), (None, vec![1, 2]));
        assert_eq!(sequences(&topics, &mut position), (None, vec![]));
    }

    #[test]
    fn subscriber_that_fell_behind_learns_of_the_gap_once() {
        let topics = topics(64 << 20);
        let (mut position, _) =
            topics.subscribe(NAME, &outbox(1), true, TopicPosition::default(), NOW).expect("there is room");
        (0..LOG_MESSAGES_MAX + 10).for_each(|_| assert!(publish(&topics, 1)));
        let (gap, read) = sequences(&topics, &mut position);
        let gap = gap.expect("ten messages are gone");
        assert_eq!((gap.last_sequence, gap.next.sequence, read[0], read.len()), (0, 11, 11, READ_MAX));
        assert_eq!(sequences(&topics, &mut position).0, None);
        (0..30).for_each(|_| assert!(publish(&topics, LOG_BYTES_MAX / 4)));
        let (gap, read) = sequences(&topics, &mut position);
        assert_eq!((gap.is_some(), read.len()), (true, 1), "a read ends after its number of bytes");
        assert!(topics.read(NAME, NOW, &mut position, &mut ArrayVec::new()).1, "there are more");
    }

    #[test]
    fn client_that_comes_back_continues_and_one_of_an_earlier_topic_learns_of_the_reset() {
        let topics = topics(1 << 20);
        let first = outbox(1);
        let (start, _) = topics.subscribe(NAME, &first, true, TopicPosition::default(), NOW).expect("there is room");
        (0..3).for_each(|_| assert!(publish(&topics, 1)));
        topics.unsubscribe(NAME, &first, true, NOW);
        assert!(publish(&topics, 1), "the topic is kept for clients that come back");
        let wanted = TopicPosition { page: start.page, sequence: 3 };
        let (mut position, gap) = topics.subscribe(NAME, &outbox(2), true, wanted, NOW).expect("there is room");
        assert_eq!((gap, sequences(&topics, &mut position).1), (None, vec![3, 4]));

        let later = UnixMillis(NOW.0 + RETENTION_MS);
        topics.unsubscribe(NAME, &outbox(2), true, later);
        topics.expire(UnixMillis(later.0 + RETENTION_MS));
        assert_eq!(topics.figures().topics, 0);
        let (position, gap) = topics.subscribe(NAME, &outbox(3), true, wanted, later).expect("there is room");
        assert!(position.page > start.page);
        assert_eq!(gap, Some(Discontinuity { last_sequence: 2, next: position }));
    }

    #[test]
    fn logs_stay_within_a_quarter_of_client_memory() {
        let topics = topics(400_000);
        let reader = outbox(1);
        let (mut position, _) =
            topics.subscribe(NAME, &reader, true, TopicPosition::default(), NOW).expect("there is room");
        (0..100).for_each(|_| assert!(publish(&topics, 10_000)));
        assert!(topics.budget.used() <= 110_000, "{}", topics.budget.used());
        assert!(publish(&topics, 500_000), "a message beyond all logs is not kept");
        let (gap, read) = sequences(&topics, &mut position);
        assert_eq!((gap.map(|gap| gap.next.sequence), read), (Some(102), vec![]));
        topics.unsubscribe(NAME, &reader, true, NOW);
        topics.expire(UnixMillis(NOW.0 + RETENTION_MS));
        assert_eq!((topics.figures().topics, topics.budget.used(), topics.logs_bytes.load(Relaxed)), (0, 0, 0));
    }

    #[test]
    fn logs_of_many_topics_leave_client_memory_to_others() {
        const TOPICS: u64 = 500;
        let topics = topics(4 << 20);
        let name = |number: u64| format!("topic {number}");
        for number in 0..TOPICS {
            let name = name(number);
            let wanted = TopicPosition::default();
            topics.subscribe((NAME.0, name.as_bytes()), &outbox(number), true, wanted, NOW).expect("there is room");
        }
        for number in 0..TOPICS {
            let message = TopicMessage::new(&[b'x'; 15_000], true, Arc::default());
            assert!(topics.append(NAME.0, name(number).as_bytes(), message, NOW));
        }
        assert!(topics.logs_bytes.load(Relaxed) <= (1 << 20) + 16_000);
        // Logs that were long before give way to those of others.
        (0..100).for_each(|_| topics.expire(NOW));
        assert!(!topics.is_full());
    }

    #[test]
    fn topics_without_subscribers_give_way_to_new_ones() {
        let topics = topics(200_000);
        let reader = outbox(1);
        let wanted = TopicPosition::default();
        for number in 0..10_000 {
            let name = format!("topic {number}");
            let topic = (NAME.0, name.as_bytes());
            topics.subscribe(topic, &reader, true, wanted, NOW).expect("there is room");
            topics.append(topic.0, topic.1, TopicMessage::new(b"v", true, Arc::default()), NOW);
            topics.unsubscribe(topic, &reader, true, NOW);
        }
        let listed: usize = topics.parts.iter().map(|part| lock(part).idle.len()).sum();
        assert!(
            listed as u64 <= topics.figures().topics && topics.figures().topics < 1_000,
            "{listed} {}",
            topics.figures().topics
        );
    }

    #[test]
    fn topic_that_comes_and_goes_is_listed_once() {
        let topics = topics(1 << 20);
        let reader = outbox(1);
        for round in 0..1_000 {
            topics.subscribe(NAME, &reader, true, TopicPosition::default(), NOW).expect("there is room");
            if round == 500 {
                assert!(publish(&topics, 1));
            }
            topics.unsubscribe(NAME, &reader, true, NOW);
            assert_eq!(topics.figures().topics, 1);
        }
        assert_eq!(topics.parts.iter().map(|part| lock(part).idle.len()).sum::<usize>(), 1);
    }

    #[test]
    fn cancelled_subscriptions_to_topics_without_messages_leave_nothing() {
        let topics = topics(1 << 20);
        let reader = outbox(1);
        for number in 0..1_000 {
            let name = format!("topic {number}");
            let topic = (NAME.0, name.as_bytes());
            topics.subscribe(topic, &reader, true, TopicPosition::default(), NOW).expect("there is room");
            topics.unsubscribe(topic, &reader, false, NOW);
        }
        assert_eq!((topics.figures().topics, topics.budget.used()), (0, 0));
        assert_eq!(topics.parts.iter().map(|part| lock(part).idle.len()).sum::<usize>(), 0);
    }

    #[test]
    fn client_that_comes_back_before_the_first_message_misses_none_and_meets_no_gap() {
        let topics = topics(1 << 20);
        let first = outbox(1);
        let (start, _) = topics.subscribe(NAME, &first, true, TopicPosition::default(), NOW).expect("there is room");
        topics.unsubscribe(NAME, &first, true, NOW);
        let back = UnixMillis(NOW.0 + RETENTION_MS - 1);
        let second = outbox(2);
        assert_eq!(topics.subscribe(NAME, &second, true, start, back), Some((start, None)));
        topics.unsubscribe(NAME, &second, true, back);
        assert!(publish(&topics, 1), "the topic is kept for clients that come back");
        let (mut position, gap) = topics.subscribe(NAME, &outbox(3), true, start, back).expect("there is room");
        assert_eq!((gap, sequences(&topics, &mut position).1), (None, vec![1]));
        topics.unsubscribe(NAME, &outbox(3), true, back);
        topics.expire(UnixMillis(back.0 + RETENTION_MS));
        assert_eq!((topics.figures().topics, topics.budget.used()), (0, 0));
    }

    #[test]
    fn messages_of_a_deleted_namespace_are_gone() {
        let topics = topics(1 << 20);
        let (reader, wanted) = (outbox(1), TopicPosition::default());
        let (mut position, _) = topics.subscribe(NAME, &reader, true, wanted, NOW).expect("there is room");
        assert!(publish(&topics, 1) && publish(&topics, 1));
        topics.end_namespace(NAME.0);
        let (gap, read) = sequences(&topics, &mut position);
        assert_eq!((gap.map(|gap| gap.next), read), (Some(position), vec![]));
        assert_eq!((position.sequence, topics.logs_bytes.load(Relaxed)), (1, 0));
        assert!(publish(&topics, 1));
        assert_eq!(sequences(&topics, &mut position), (None, vec![1]));
    }

    #[test]
    fn change_of_namespaces_signals_each_connection_once() {
        let topics = topics(1 << 24);
        let readers: Vec<_> = (0..300).map(outbox).collect();
        for (number, reader) in readers.iter().enumerate() {
            let name = if number < 200 { "shared".to_owned() } else { format!("own {number}") };
            let topic = (Namespace(number as u8 % 2), name.as_bytes());
            topics.subscribe(topic, reader, true, TopicPosition::default(), NOW).expect("there is room");
        }
        let (mut walk, mut noted, mut steps) = (TopicWalk::default(), Vec::new(), 0);
        while !topics.signal_some(&mut walk, |_, connection| noted.push(connection)) {
            steps += 1;
            assert!(steps < 1_000);
        }
        noted.sort_unstable();
        assert_eq!(noted, (0..300).collect::<Vec<_>>());
        assert!(readers.iter().all(|reader| reader.take_signal()));
    }

    #[test]
    fn topic_that_is_used_again_before_its_retention_ends_is_kept() {
        let topics = topics(1 << 20);
        let (first, second) = (outbox(1), outbox(2));
        let wanted = TopicPosition::default();
        topics.subscribe(NAME, &first, true, wanted, NOW).expect("there is room");
        topics.unsubscribe(NAME, &first, true, NOW);
        topics.subscribe(NAME, &second, true, wanted, NOW).expect("there is room");
        topics.expire(UnixMillis(NOW.0 + 2 * RETENTION_MS));
        assert_eq!(topics.figures().topics, 1);
    }
}
