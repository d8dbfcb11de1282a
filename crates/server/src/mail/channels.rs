//! Who is subscribed to what, and the way of a message to them.

use super::MailBudget;
use super::mailbox::{Mailbox, Message, Posted};
use crate::budget::Budget;
use crate::command::resp::glob::matches;
use crate::watch::Hub;
use protocol::resp::{Version, reply};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections that monitor at once.
pub const MONITORS_MAX: usize = 64;

/// Parts that the names of channels are divided into, each with a lock of its own.
const PARTS: usize = 16;

/// What a subscription costs beside its name, about, in bytes: its places in both maps.
const SUBSCRIPTION_OVERHEAD: u64 = 192;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A channel.
    Channel,
    /// All channels whose names match.
    Pattern,
    /// A channel of the slot that its name hashes to; one node has all slots.
    Shard,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub(crate) const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];

    /// How a message of this kind begins.
    const fn message(self) -> &'static [u8] {
        match self {
            Self::Channel => b"message",
            Self::Pattern => b"pmessage",
            Self::Shard => b"smessage",
        }
    }
}

type Subscribers = HashMap<Arc<[u8]>, Vec<Arc<Mailbox>>>;

/// Everybody who is subscribed.
pub struct Channels {
    /// Channels and shard channels, by a hash of their names.
    named: [[Mutex<Subscribers>; PARTS]; 2],
    patterns: Mutex<Subscribers>,
    monitors: Mutex<Vec<Arc<Mailbox>>>,
    hub: Arc<Hub>,
    hasher: RandomState,
    /// Subscriptions of each kind.
    counts: [AtomicU64; 3],
    budget: Arc<MailBudget>,
    /// Bytes that may wait for one subscriber.
    pub backlog_bytes_max: AtomicU64,
    /// Messages that somebody was subscribed to, once for each of those.
    pub delivered: AtomicU64,
    /// Subscribers that were dropped since they were too far behind.
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
    /// Nobody is subscribed; names and messages are taken from `budget`.
    pub(crate) fn new(hub: &Arc<Hub>, budget: &Arc<Budget>, backlog_bytes_max: u64) -> Self {
        Self {
            named: Default::default(),
            patterns: Mutex::default(),
            monitors: Mutex::default(),
            hub: Arc::clone(hub),
            hasher: RandomState::new(),
            counts: Default::default(),
            budget: Arc::new(MailBudget(Arc::clone(budget))),
            backlog_bytes_max: AtomicU64::new(backlog_bytes_max),
            delivered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    fn part(&self, kind: Kind, name: &[u8]) -> &Mutex<Subscribers> {
        let part = self.hasher.hash_one(name) as usize % PARTS;
        match kind {
            Kind::Channel => &self.named[0][part],
            Kind::Shard => &self.named[1][part],
            Kind::Pattern => &self.patterns,
        }
    }

    /// Bytes of messages that wait and of names.
    pub fn bytes(&self) -> u64 {
        self.budget.used()
    }

    /// Somebody is subscribed to some channel or pattern.
    #[inline]
    pub(crate) fn has_subscribers(&self) -> bool {
        self.counts[Kind::Channel as usize].load(Relaxed) + self.counts[Kind::Pattern as usize].load(Relaxed) > 0
    }

    /// Has `mailbox` be told of `name`, which it was not yet. False if the memory for mail does not allow it.
    pub(super) fn subscribe(&self, kind: Kind, name: &Arc<[u8]>, mailbox: &Arc<Mailbox>) -> bool {
        if !self.budget.grant(name.len() as u64 + SUBSCRIPTION_OVERHEAD) {
            return false;
        }
        lock(self.part(kind, name)).entry(Arc::clone(name)).or_default().push(Arc::clone(mailbox));
        self.counts[kind as usize].fetch_add(1, Relaxed);
        true
    }

    /// Has `mailbox`, which is, not be told of `name` any more.
    pub(super) fn unsubscribe(&self, kind: Kind, name: &[u8], mailbox: &Arc<Mailbox>) {
        let mut part = lock(self.part(kind, name));
        let Some(list) = part.get_mut(name) else { return };
        let Some(place) = list.iter().position(|other| Arc::ptr_eq(other, mailbox)) else { return };
        list.swap_remove(place);
        if list.is_empty() {
            part.remove(name);
        }
        self.counts[kind as usize].fetch_sub(1, Relaxed);
        self.budget.end_grant(name.len() as u64 + SUBSCRIPTION_OVERHEAD);
    }

    /// Has `mailbox` be told of every command. False if as many are as may be.
    pub(super) fn monitor(&self, mailbox: &Arc<Mailbox>) -> bool {
        let mut monitors = lock(&self.monitors);
        let room = monitors.len() < MONITORS_MAX;
        if room {
            monitors.push(Arc::clone(mailbox));
            self.hub.tell_commands(true);
        }
        room
    }

    /// Has it not be told any more.
    pub(super) fn unmonitor(&self, mailbox: &Arc<Mailbox>) {
        let mut monitors = lock(&self.monitors);
        monitors.retain(|other| !Arc::ptr_eq(other, mailbox));
        self.hub.tell_commands(!monitors.is_empty());
    }

    /// Tells those that monitor. `note` is called with a worker and its connection that has mail now.
    pub(crate) fn tell_monitors(&self, line: &[u8], mut note: impl FnMut(usize, u32)) {
        let monitors = lock(&self.monitors);
        if !monitors.is_empty() {
            let message = Message::new(line.to_vec(), &self.budget);
            monitors.iter().for_each(|mailbox| self.put(mailbox, &message, &mut note));
        }
    }

    /// Tells those that are subscribed; returns how many they are, each as often as it is. `note` is called with a
    /// worker and its connection that has mail now.
    pub(crate) fn publish(&self, kind: Kind, name: &[u8], text: &[u8], mut note: impl FnMut(usize, u32)) -> u64 {
        let mut told = 0;
        if self.counts[kind as usize].load(Relaxed) > 0
            && let Some(list) = lock(self.part(kind, name)).get(name)
        {
            let message = self.message(kind, &[name, text]);
            list.iter().for_each(|mailbox| self.put(mailbox, &message, &mut note));
            told += list.len() as u64;
        }
        if kind == Kind::Channel && self.counts[Kind::Pattern as usize].load(Relaxed) > 0 {
            for (pattern, list) in &*lock(&self.patterns) {
                if matches(pattern, name) {
                    let message = self.message(Kind::Pattern, &[pattern, name, text]);
                    list.iter().for_each(|mailbox| self.put(mailbox, &message, &mut note));
                    told += list.len() as u64;
                }
            }
        }
        self.delivered.fetch_add(told, Relaxed);
        told
    }

    fn message(&self, kind: Kind, words: &[&[u8]]) -> Arc<Message> {
        let bytes = words.iter().map(|word| word.len() + 32).sum::<usize>();
        let mut text = Vec::with_capacity(bytes + 48);
        reply::push(&mut text, Version::Resp3, words.len() as u64 + 1);
        reply::bulk(&mut text, kind.message());
        words.iter().for_each(|word| reply::bulk(&mut text, word));
        Message::new(text, &self.budget)
    }

    fn put(&self, mailbox: &Mailbox, message: &Arc<Message>, note: &mut impl FnMut(usize, u32)) {
        match mailbox.put(message, self.backlog_bytes_max.load(Relaxed)) {
            Posted::Queued | Posted::Gone => {}
            Posted::Noted => note(mailbox.worker, mailbox.connection),
            Posted::Broke => {
                self.dropped.fetch_add(1, Relaxed);
                note(mailbox.worker, mailbox.connection);
            }
        }
    }

    /// Names of channels that somebody is subscribed to, with how many are.
    pub(crate) fn each(&self, kind: Kind, mut each: impl FnMut(&[u8], usize)) {
        let parts = match kind {
            Kind::Channel => &self.named[0][..],
            Kind::Shard => &self.named[1][..],
            Kind::Pattern => std::slice::from_ref(&self.patterns),
        };
        for part in parts {
            lock(part).iter().for_each(|(name, list)| each(name, list.len()));
        }
    }

    /// How many are subscribed to one name.
    pub(crate) fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        lock(self.part(kind, name)).get(name).map_or(0, Vec::len)
    }

    /// Different names of a kind that somebody is subscribed to.
    pub(crate) fn names(&self, kind: Kind) -> u64 {
        let mut names = 0;
        self.each(kind, |_, _| names += 1);
        names
    }
}
