//! The unsent messages of one connection.

use super::MessageBudget;
use protocol::resp::Version;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The approximate memory of a message in addition to its text, in bytes: its counters and the allocator's overhead.
pub(crate) const MESSAGE_OVERHEAD: u64 = 64;

/// The size of a message's entry in each queue that holds it, in bytes.
const ENTRY_OVERHEAD: u64 = 16;

/// The form in which a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageForm {
    /// The whole message, encoded for version 3 of the protocol. Version 2 has no push messages, so the first byte is
    /// replaced by the first byte of an array for receivers with version 2.
    Published,
    /// The whole message, only for receivers with version 3.
    Push,
    /// The keys of an invalidation, for the tracking client itself. A client with version 2 does not receive it.
    Invalidation,
    /// The keys of an invalidation that is redirected. A client with version 2 receives it as a message of a channel,
    /// if the client is subscribed to any channel.
    Redirected,
}

/// The properties of a receiver that determine the form of its messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiver {
    pub(crate) version: Version,
    pub(crate) is_subscribed: bool,
}

/// A message that is shared by all its receivers.
#[derive(Debug)]
pub(crate) struct Message {
    form: MessageForm,
    /// The message, or an array of keys. No bytes stand for all keys, which are sent as null.
    bytes: Box<[u8]>,
    budget: Arc<MessageBudget>,
    /// True if the memory of all messages was within its limit when this message was created.
    within: bool,
}

impl Message {
    pub(super) fn new(form: MessageForm, bytes: Vec<u8>, budget: &Arc<MessageBudget>) -> Arc<Self> {
        let within = budget.take(bytes.len() as u64 + MESSAGE_OVERHEAD);
        Arc::new(Self { form, bytes: bytes.into_boxed_slice(), budget: Arc::clone(budget), within })
    }

    /// Returns the bytes of the message, without the texts around them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the texts before and after the message's bytes. Returns `None` if the receiver must not receive it.
    fn frame(&self, receiver: Receiver) -> Option<[&'static [u8]; 2]> {
        let Receiver { version, is_subscribed } = receiver;
        let head: &[u8] = match (self.form, version) {
            (MessageForm::Published, _) | (MessageForm::Push, Version::Resp3) => return Some([b"", b""]),
            (MessageForm::Invalidation | MessageForm::Redirected, Version::Resp3) => b">2\r\n$10\r\ninvalidate\r\n",
            (MessageForm::Redirected, Version::Resp2) if is_subscribed => {
                b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"
            }
            (MessageForm::Push | MessageForm::Invalidation | MessageForm::Redirected, Version::Resp2) => return None,
        };
        let null: &[u8] = if version == Version::Resp3 { b"_\r\n" } else { b"$-1\r\n" };
        Some([head, if self.bytes.is_empty() { null } else { b"" }])
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes.len() as u64 + MESSAGE_OVERHEAD);
    }
}

/// The unsent messages of one connection, in order.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// A unique number. A newer outbox has a higher number.
    pub(crate) id: u64,
    /// The worker of the connection. `connection` is the connection's number in that worker.
    pub(crate) worker: usize,
    pub(crate) connection: u32,
    /// True if a message is queued or the outbox is broken. Only written under the lock.
    waiting: AtomicBool,
    /// True if the connection must be visited, because there is something to read outside the queue.
    signalled: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    messages: VecDeque<Arc<Message>>,
    /// The number of bytes of the first queued message that were already moved into the output, and the texts before
    /// and after the message if it was begun.
    taken: usize,
    frame: [&'static [u8]; 2],
    /// The memory of all queued messages and their entries, as counted against the outbox's maximum, in bytes.
    bytes: u64,
    /// True if the queued messages exceeded the maximum. The connection must be closed, and no further message is
    /// accepted.
    broken: bool,
    /// True if all subscriptions of the connection are being ended, by a command or because the connection closes. No
    /// further message is accepted.
    ended: bool,
    /// True if the connection has ended.
    closed: bool,
}

/// The result of putting a message into an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// The message was queued behind another one, of which the worker has already been notified.
    Behind,
    /// The message is the first in the queue, and the caller must notify the worker.
    First,
    /// The queued messages exceeded their limit or client memory. The outbox is now broken, and the caller must notify
    /// the worker.
    Broke,
    /// The message was not queued, because the outbox was already broken or its subscriptions end.
    Gone,
}

impl Outbox {
    pub(crate) fn new(id: u64, worker: usize, connection: u32) -> Self {
        Self {
            id,
            worker,
            connection,
            waiting: AtomicBool::new(false),
            signalled: AtomicBool::new(false),
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a message is queued or the outbox is broken.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Acquire)
    }

    /// Returns true if a message was taken only in part. Nothing else may be sent before its rest.
    pub(super) fn is_in_message(&self) -> bool {
        let inner = self.lock();
        inner.taken > 0 && !inner.broken && !inner.ended
    }

    /// Requests a visit of the connection. Returns true if none was requested before, so that the caller must notify
    /// the worker.
    pub(crate) fn signal(&self) -> bool {
        !self.signalled.swap(true, AcqRel)
    }

    /// Returns true if a visit was requested, and ends the request. The caller then reads what there is.
    pub(crate) fn take_signal(&self) -> bool {
        self.signalled.load(Relaxed) && self.signalled.swap(false, AcqRel)
    }

    /// Returns true if the queued messages exceeded the maximum.
    pub(crate) fn is_broken(&self) -> bool {
        self.lock().broken
    }

    /// Queues `message`. Breaks the outbox instead if the queue would hold more than `bytes_max` bytes, or if client
    /// memory is exceeded while earlier messages are queued.
    pub(super) fn put(&self, message: &Arc<Message>, bytes_max: u64) -> Queued {
        let mut inner = self.lock();
        if inner.broken || inner.ended {
            return Queued::Gone;
        }
        let bytes = inner.bytes + message.bytes.len() as u64 + ENTRY_OVERHEAD;
        let within = message.budget.take(ENTRY_OVERHEAD) && message.within;
        let behind = !inner.messages.is_empty();
        let was_waiting = self.waiting.swap(true, Release);
        if bytes > bytes_max || (behind && !within) {
            message.budget.give_back(ENTRY_OVERHEAD);
            // The connection drops the queued messages when it ends, a few at a time; see `drop_some`.
            inner.broken = true;
            return Queued::Broke;
        }
        inner.messages.push_back(Arc::clone(message));
        inner.bytes = bytes;
        if was_waiting { Queued::Behind } else { Queued::First }
    }

    /// Copies the next bytes of messages to the beginning of `into`, in the form for `receiver`, and removes them from
    /// the queue. Returns their number.
    pub(super) fn take(&self, into: &mut [u8], receiver: Receiver) -> usize {
        let mut inner = self.lock();
        let mut bytes = 0;
        while bytes < into.len() && !inner.broken && !inner.ended {
            let Some(message) = inner.messages.front().cloned() else { break };
            if inner.taken == 0 {
                let Some(frame) = message.frame(receiver) else {
                    inner.drop_first();
                    continue;
                };
                inner.frame = frame;
            }
            let [head, tail] = inner.frame;
            let is_first = inner.taken == 0;
            let part = copy_from([head, &message.bytes, tail], inner.taken, &mut into[bytes..]);
            if is_first && into[bytes] == b'>' && receiver.version == Version::Resp2 {
                into[bytes] = b'*';
            }
            bytes += part;
            inner.taken += part;
            if inner.taken == head.len() + message.bytes.len() + tail.len() {
                inner.drop_first();
            }
        }
        if inner.messages.is_empty() && !inner.broken {
            self.waiting.store(false, Relaxed);
        }
        bytes
    }

    /// Removes and returns the first message. Only for an outbox whose messages are never taken in parts.
    pub(crate) fn pop(&self) -> Option<Arc<Message>> {
        let mut inner = self.lock();
        let message = inner.messages.front().cloned().filter(|_| !inner.broken);
        if message.is_some() {
            inner.drop_first();
        }
        if inner.messages.is_empty() && !inner.broken {
            self.waiting.store(false, Relaxed);
        }
        message
    }

    /// Accepts messages again after [`Outbox::drop_some`], because the connection remains open.
    pub(super) fn reopen(&self) {
        self.lock().ended = false;
    }

    /// Records that the connection has ended.
    pub(super) fn close(&self) {
        self.lock().closed = true;
    }

    /// Returns true if the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Stops accepting messages, and drops at most `most` of the queued messages. Returns true if no queued message
    /// remains.
    pub(super) fn drop_some(&self, most: usize) -> bool {
        let mut inner = self.lock();
        inner.ended = true;
        if !inner.broken {
            self.waiting.store(false, Relaxed);
        }
        for _ in 0..most.min(inner.messages.len()) {
            inner.drop_first();
        }
        inner.messages.is_empty()
    }
}

/// Copies the bytes of `parts`, joined, from the offset `from` on to the beginning of `into`. Returns their number.
fn copy_from(parts: [&[u8]; 3], mut from: usize, into: &mut [u8]) -> usize {
    let mut copied = 0;
    for part in parts {
        let rest = &part[from.min(part.len())..];
        let count = rest.len().min(into.len() - copied);
        into[copied..copied + count].copy_from_slice(&rest[..count]);
        (from, copied) = (from.saturating_sub(part.len()), copied + count);
    }
    copied
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Inner {
    fn drop_first(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            message.budget.give_back(ENTRY_OVERHEAD);
            self.bytes -= message.bytes.len() as u64 + ENTRY_OVERHEAD;
            self.taken = 0;
        }
        if self.messages.is_empty() {
            // If the queue was long, most of its memory is freed.
            self.messages.shrink_to(16);
        }
    }

    fn clear(&mut self) {
        while !self.messages.is_empty() {
            self.drop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(bytes_max: u64) -> Arc<MessageBudget> {
        Arc::new(MessageBudget(crate::memory::budget::Budget::new(0, Some(bytes_max))))
    }

    fn reader(version: Version) -> Receiver {
        Receiver { version, is_subscribed: true }
    }

    fn message(bytes: Vec<u8>, budget: &Arc<MessageBudget>) -> Arc<Message> {
        Message::new(MessageForm::Published, bytes, budget)
    }

    fn all(outbox: &Outbox, version: Version, room: usize) -> Vec<u8> {
        let mut replied = Vec::new();
        loop {
            let mut into = vec![0; room];
            let taken = outbox.take(&mut into, reader(version));
            replied.extend_from_slice(&into[..taken]);
            if taken == 0 {
                return replied;
            }
        }
    }

    #[test]
    fn messages_are_read_in_order_at_any_buffer_size_with_the_version_marker() {
        let budget = budget(1 << 20);
        for (version, first) in [(Version::Resp2, b'*'), (Version::Resp3, b'>')] {
            for room in [1, 2, 3, 7, 100] {
                let outbox = Outbox::new(1, 0, 0);
                let posted: Vec<_> = (0..3)
                    .map(|n| outbox.put(&message(format!(">{n} text>\n").into_bytes(), &budget), 1 << 20))
                    .collect();
                assert_eq!(posted, [Queued::First, Queued::Behind, Queued::Behind]);
                let expected: Vec<u8> =
                    (0..3).flat_map(|n| format!("{}{n} text>\n", char::from(first)).into_bytes()).collect();
                assert_eq!(all(&outbox, version, room), expected);
                assert!(!outbox.is_waiting());
            }
        }
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_subscriber_over_the_limit_is_dropped_and_notified_once() {
        let budget = budget(1 << 20);
        let outbox = Outbox::new(1, 0, 0);
        let message = message(vec![b'x'; 84], &budget);
        assert_eq!(
            [(); 4].map(|()| outbox.put(&message, 350)),
            [Queued::First, Queued::Behind, Queued::Behind, Queued::Broke]
        );
        assert_eq!(outbox.put(&message, 350), Queued::Gone);
        assert!(outbox.is_waiting() && outbox.is_broken());
        assert_eq!(outbox.take(&mut [0; 10], reader(Version::Resp3)), 0);
        drop(message);
        assert!(!outbox.drop_some(2) && budget.used() > 0 && outbox.drop_some(2));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn dropping_queued_messages_in_steps_does_not_break_the_outbox() {
        let budget = budget(1 << 20);
        let outbox = Outbox::new(1, 0, 0);
        let message = message(vec![b'x'; 84], &budget);
        (0..5).for_each(|_| assert_ne!(outbox.put(&message, 1 << 20), Queued::Gone));
        assert!(!outbox.drop_some(2) && !outbox.is_broken() && !outbox.is_waiting());
        assert_eq!(
            (outbox.put(&message, 1 << 20), outbox.take(&mut [0; 10], reader(Version::Resp3))),
            (Queued::Gone, 0)
        );
        assert!(!outbox.drop_some(2) && outbox.drop_some(2) && !outbox.is_broken());
        drop(message);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn over_the_total_limit_only_slow_subscribers_are_dropped() {
        let budget = budget(1000);
        let (slow, quick) = (Outbox::new(1, 0, 0), Outbox::new(2, 0, 1));
        let (one, two) = (message(vec![b'1'; 800], &budget), message(vec![b'2'; 800], &budget));
        assert_eq!(slow.put(&one, 1 << 20), Queued::First);
        drop(one);
        assert_eq!((slow.put(&two, 1 << 20), quick.put(&two, 1 << 20)), (Queued::Broke, Queued::First));
        drop((two, slow, quick));
        assert_eq!(budget.used(), 0);
    }
}
