//! Push queues and outboxes: messages from any thread to connections that did not request them.
//!
//! ```text
//!   any worker ── PUBLISH, a change of a key ──> Channels ──> outbox of each subscriber ───┐
//!   any worker, background ── lines of `watch` ──> watch::Hub ──> queue of each watcher ───┤
//!   any worker ── CLIENT KILL ─────────────────────────────────────────────────────────────┤
//!                                                            entry: the connection's number v
//!                                   the connection's worker  <── woken ──  PushQueue of that worker
//!                                             └── moves queued messages into the output, and sends them
//! ```
//!
//! A worker checks its [`PushQueue`] once in each batch and once in each iteration. While the queue is empty, a check
//! costs one load. A message is written between two replies, never inside a reply.
//!
//! Bounds:
//!
//! | bounded | maximum | when it is exceeded |
//! |---|---|---|
//! | unsent messages of one subscriber | `limits.subscriber_backlog` | the subscriber is dropped and counted |
//! | all messages and names | client memory ([`Budget`]) | slow subscribers are dropped, subscriptions are refused |
//! | subscriptions of one client | [`SUBSCRIPTIONS_MAX`] | `SUBSCRIBE` is refused |
//! | connections in MONITOR mode | [`MONITORS_MAX`] | `MONITOR` is refused |
//! | entries of a [`PushQueue`] | one for each connection and kind of message | cannot happen |
//!
//! Work that grows with the number of subscriptions is done in slices. A publication stores the receiver and the
//! pattern after which it continues. A closing connection removes a few subscriptions and messages in each visit. A
//! worker sends messages to a few connections in each visit. Key events that take more than one slice wait in the
//! worker's queue (`WorkerContext::unpublished`). If that queue is long, the worker executes no further requests until
//! it is shorter.
//!
//! Invariants:
//! - Without subscribers, no memory is allocated. No thread ever waits for a subscriber.
//! - While a lock is held, only a bounded number of entries is processed. No lock is held while a pattern is matched or
//!   during a system call.
//! - Outboxes are filled under the lock of the channel's name. A connection that has unsubscribed has therefore
//!   received every message that counted it as a receiver.

mod channels;
mod names;
mod queue;
mod subscriber;

pub(crate) use channels::{ChannelKind, NamesCursor, Publishing};
pub use channels::{Channels, MONITORS_MAX};
pub(crate) use names::{ChannelName, Hashed, RECEIVERS_A_LOCK, Receivers};
pub(crate) use queue::{MESSAGE_OVERHEAD, Message, MessageForm, Outbox};
pub use subscriber::SUBSCRIPTIONS_MAX;
pub use subscriber::{MessageCheck, Refused, Subscriber};

use crate::memory::budget::{self, Budget};
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};

/// The push queue of one worker: its connections with queued messages.
#[derive(Debug, Default)]
pub struct PushQueue {
    any: AtomicBool,
    notes: Mutex<Vec<u32>>,
}

impl PushQueue {
    /// Records that `connection` has queued messages. Returns true if the caller must wake the worker.
    pub fn note(&self, connection: u32) -> bool {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        !self.any.swap(true, Release)
    }

    /// Returns true if a connection is recorded.
    #[inline]
    pub fn has(&self) -> bool {
        self.any.load(Acquire)
    }

    /// Removes the recorded connections and appends them to `into`.
    pub fn take(&self, into: &mut impl Extend<u32>) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Relaxed);
        into.extend(notes.drain(..));
    }
}

/// The client memory for all queued messages and subscriptions.
#[derive(Debug)]
pub(crate) struct MessageBudget(pub(super) Arc<Budget>);

impl MessageBudget {
    /// Reserves `bytes` bytes for a message, even if this exceeds the limit of client memory. Returns true if the total
    /// is within the limit.
    pub(super) fn take(&self, bytes: u64) -> bool {
        self.0.take(budget::MemoryUse::Messages, bytes)
    }

    /// Returns the bytes of a message to the budget.
    pub(super) fn give_back(&self, bytes: u64) {
        self.0.release(budget::MemoryUse::Messages, bytes);
    }

    /// Reserves `bytes` bytes for a subscription. Reserves nothing and returns false if this would exceed the limit of
    /// client memory.
    pub(super) fn grant(&self, bytes: u64) -> bool {
        self.0.reserve(budget::MemoryUse::Subscriptions, bytes)
    }

    /// Returns the bytes of a subscription to the budget.
    pub(super) fn end_grant(&self, bytes: u64) {
        self.0.release(budget::MemoryUse::Subscriptions, bytes);
    }

    /// Returns the maximum of client memory, in bytes.
    pub(super) fn bytes_max(&self) -> u64 {
        self.0.bytes_max()
    }

    /// Returns true if client memory is not used up.
    pub(super) fn is_within(&self) -> bool {
        self.0.used() <= self.0.bytes_max()
    }

    pub(super) fn used(&self) -> u64 {
        self.0.used_by(budget::MemoryUse::Messages) + self.0.used_by(budget::MemoryUse::Subscriptions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_is_woken_for_the_first_note_alone_and_gets_all() {
        let post = PushQueue::default();
        assert!(!post.has() && post.note(3) && !post.note(4) && post.has());
        let mut taken = vec![1];
        post.take(&mut taken);
        assert_eq!((taken, post.has()), (vec![1, 3, 4], false));
        assert!(post.note(5));
    }
}
