//! The push queue: messages to connections that did not request them, from any thread.
//!
//! ```text
//!   any worker ── PUBLISH, a change of a key ──> Channels ──> Outbox of each  subscriber ──┐
//!   any worker, background ── lines of `watch` ──> watch::Hub ──> queue of each watcher ───┤
//!   any worker ── CLIENT KILL ─────────────────────────────────────────────────────────────┤
//!                                                            entry: the connection's number v
//!                                   the connection's worker  <── woken ──  Post of that worker
//!                                             └── moves waiting messages into the output, and sends
//! ```
//!
//! A worker checks its [`PushQueue`] once a batch and once an iteration, which costs one load while it is empty. A
//! message is written between two replies, never inside a reply.
//!
//! Bounds:
//!
//! | what | at most | beyond it |
//! |---|---|---|
//! | messages that one subscriber has not taken | `limits.subscriber_backlog` | the subscriber is dropped and counted |
//! | all messages, and names | client memory ([`crate::memory::budget`]) | slow subscribers are dropped, new refused |
//! | names that one client is subscribed to | [`SUBSCRIPTIONS_MAX`] | `SUBSCRIBE` is refused |
//! | connections that monitor | [`MONITORS_MAX`] | `MONITOR` is refused |
//! | entries of a [`PushQueue`] | one for each connection and kind of message | cannot happen |
//!
//! Work that grows with subscriptions is done in slices. A publication stores the receiver and the pattern after which
//! it continues. An ending connection removes a few subscriptions and messages in each visit. A worker sends messages
//! to a few connections in each visit. Key events that take more than a slice wait in the worker's queue
//! (`WorkerContext::unpublished`). If that queue is long, the worker's requests wait.
//!
//! Invariants:
//! - Without subscribers nothing is allocated, and no thread waits for a subscriber.
//! - A lock is held for a bounded number of entries, never while a pattern is matched and never during a system call.
//! - Mailboxes are filled under the lock of the name. So a connection that has unsubscribed was sent every message that
//!   counted it as a receiver.

mod channels;
mod names;
mod queue;
mod subscriber;

pub(crate) use channels::{ChannelKind, NamesCursor, Publishing};
pub use channels::{Channels, MONITORS_MAX};
pub(crate) use names::ChannelName;
pub use subscriber::SUBSCRIPTIONS_MAX;
pub use subscriber::{Refused, Subscriber};

use crate::memory::budget::{self, Budget};
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};

/// The connections of one worker that have queued messages.
#[derive(Debug, Default)]
pub struct PushQueue {
    any: AtomicBool,
    notes: Mutex<Vec<u32>>,
}

impl PushQueue {
    /// Records that `connection` has queued messages. Returns true if the worker must be woken for it.
    pub fn note(&self, connection: u32) -> bool {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        !self.any.swap(true, Release)
    }

    /// Returns true if there is something to take.
    #[inline]
    pub fn has(&self) -> bool {
        self.any.load(Acquire)
    }

    /// Moves the recorded connections to the end of `into`.
    pub fn take(&self, into: &mut impl Extend<u32>) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Relaxed);
        into.extend(notes.drain(..));
    }
}

/// The client memory that all queued messages share.
#[derive(Debug)]
pub(crate) struct MessageBudget(Arc<Budget>);

impl MessageBudget {
    /// Takes `bytes` for a message. Returns true if the total is still within the bound.
    fn take(&self, bytes: u64) -> bool {
        self.0.take(budget::MemoryUse::Messages, bytes)
    }

    /// Returns the bytes of a message.
    fn give_back(&self, bytes: u64) {
        self.0.release(budget::MemoryUse::Messages, bytes);
    }

    /// Reserves `bytes` for a subscription, if they are within the bound.
    fn grant(&self, bytes: u64) -> bool {
        self.0.reserve(budget::MemoryUse::Subscriptions, bytes)
    }

    /// Returns the bytes of a subscription.
    fn end_grant(&self, bytes: u64) {
        self.0.release(budget::MemoryUse::Subscriptions, bytes);
    }

    fn used(&self) -> u64 {
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
