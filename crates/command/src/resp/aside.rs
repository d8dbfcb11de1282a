//! What is sent beside the replies to the requests at hand: messages that a connection is subscribed to, and the rest
//! of a reply that was longer than the output.
//!
//! ```text
//!   serve:  rest of a long reply ──> messages that wait ──> requests and their replies
//! ```
//!
//! A connection has none of this until it subscribes, monitors, or asks for something long; its requests pay one
//! comparison for it.

use super::error::Fault;
use crate::lookup::values::LINE_ROOM;
use crate::memory::budget::{self, Budget, Grant};
use crate::push::mail::Subscriber;
use crate::resp::call::{Call, Run, Step};
use crate::resp::session::{Answers, SessionState};
use crate::visit::clock::Ticks;
use crate::visit::progress::State;
use protocol::sink::Sink;
use std::sync::Arc;

/// Bytes of one reply that is put together beside the output, at most.
pub(super) const LONG_REPLY_BYTES_MAX: usize = 64 << 20;

/// Initial capacity of such a reply, in bytes.
const LONG_REPLY_BYTES_MIN: usize = 4 << 10;
/// Subscriptions that one visit ends: some 100 us.
const ENDED_A_VISIT: usize = 256;

/// State of a connection beside its requests.
#[derive(Default)]
pub(super) struct Aside {
    pub(super) subscriber: Option<Subscriber>,
    /// A reply of which the first `sent` bytes are in the output.
    long: Vec<u8>,
    sent: usize,
    /// The reply's share of client memory, and the time since which it is held.
    held: Option<(Grant, Ticks)>,
}

/// A reply of any length that is put together beside the output: its bytes are reserved before they are allocated.
pub(super) struct LongReply {
    bytes: Vec<u8>,
    grant: Grant,
    refused: Option<Fault>,
}

impl LongReply {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self { bytes: Vec::new(), grant: Grant::none(budget, budget::Kind::Replies), refused: None }
    }

    /// Makes room for `more` bytes; from a refusal on, for none.
    fn make_room(&mut self, more: usize) -> bool {
        let need = self.bytes.len() + more;
        let capacity = self.bytes.capacity();
        if need <= capacity || self.refused.is_some() {
            return self.refused.is_none();
        }
        let grown = need.max(capacity + capacity / 2).max(LONG_REPLY_BYTES_MIN);
        if need > LONG_REPLY_BYTES_MAX {
            self.refused = Some(Fault::KeysTooLong);
        } else if !self.grant.resize(grown as u64) {
            self.refused = Some(Fault::ClientMemory);
        }
        if self.refused.is_some() {
            self.bytes = Vec::new();
            self.grant.shrink(0);
            return false;
        }
        self.bytes.reserve_exact(grown - self.bytes.len());
        true
    }
}

impl Sink for LongReply {
    fn put(&mut self, bytes: &[u8]) {
        if self.make_room(bytes.len()) {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

impl std::fmt::Write for LongReply {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

impl SessionState {
    /// The last command that its client called.
    pub(crate) fn last_command(&self) -> Option<&'static str> {
        (!self.last.is_empty()).then_some(self.last)
    }

    /// Its client may do next to nothing, since it is on another host and could be anyone.
    pub(crate) fn hold_off(&mut self) {
        self.held_off = true;
    }

    pub(super) fn subscriber(&self) -> Option<&Subscriber> {
        self.aside.as_ref()?.subscriber.as_ref()
    }

    /// There is something for it that it did not ask for.
    pub(crate) fn has_mail(&self) -> bool {
        self.subscriber().is_some_and(Subscriber::has_mail)
    }

    /// There was more of that than may wait.
    pub(crate) fn is_mail_broken(&self) -> bool {
        self.subscriber().is_some_and(Subscriber::is_broken)
    }

    /// Moves what is next of that to the front of `into`; returns how many bytes that was.
    pub(crate) fn take_mail(&mut self, into: &mut [u8]) -> usize {
        self.subscriber().map_or(0, |subscriber| subscriber.take(into, self.version))
    }

    /// A reply was put in part.
    pub(crate) fn is_answering(&self) -> bool {
        self.done != 0
            || self.long.is_some()
            || self.under_way.is_some()
            || self.aside.as_ref().is_some_and(|aside| !aside.long.is_empty())
    }

    /// Since when it keeps an answer that its client is to take, with the bytes that it holds for that; `None`: it has
    /// none.
    pub(crate) fn reply_held(&self) -> Option<(Ticks, u64)> {
        if let Some(transaction) = &self.under_way {
            return transaction.answer_held();
        }
        self.aside.as_ref()?.held.as_ref().map(|(grant, since)| (*since, grant.bytes()))
    }

    /// Removes and returns its subscriptions.
    pub(crate) fn take_subscriber(&mut self) -> Option<Subscriber> {
        self.aside.as_mut()?.subscriber.take()
    }

    /// It is subscribed to something, or monitors.
    pub(crate) fn listens(&self) -> bool {
        self.subscriber().is_some()
    }
}

/// Sends what comes before the next request.
#[inline]
pub(super) fn go_on(call: &mut Call<'_, '_>) -> Step {
    if call.session.aside.is_some() { send_aside(call) } else { Ok(()) }
}

#[cold]
fn send_aside(call: &mut Call<'_, '_>) -> Step {
    let Some(aside) = &mut call.session.aside else { return Ok(()) };
    if !aside.long.is_empty() {
        let rest = &aside.long[aside.sent..];
        let part = rest.len().min(call.out.spare().len());
        call.out.push(&rest[..part]);
        aside.sent += part;
        if aside.sent < aside.long.len() {
            return Err(State::OutputFull { want: LINE_ROOM });
        }
        (aside.long, aside.sent, aside.held) = (Vec::new(), 0, None);
    }
    if aside.subscriber.is_none() {
        call.session.aside = None;
        return Ok(());
    }
    // Between the parts of one reply nothing may come.
    if call.session.is_answering() { Ok(()) } else { take_mail(call) }
}

/// Puts all messages that wait.
pub(super) fn take_mail(call: &mut Call<'_, '_>) -> Step {
    while call.session.has_mail() && !call.session.is_mail_broken() {
        let bytes = call.session.take_mail(call.out.spare());
        call.out.advance(bytes);
        if call.session.has_mail() && call.out.spare().is_empty() {
            return Err(State::OutputFull { want: LINE_ROOM });
        }
    }
    Ok(())
}

/// A reply of any length, to be put together beside the output.
pub(super) fn long_reply(call: &Call<'_, '_>) -> LongReply {
    LongReply::new(&call.ctx.shared.budget)
}

/// Answers with a reply that was put together beside the output, whose length has a bound of its own.
pub(super) fn say_long(call: &mut Call<'_, '_>, reply: Vec<u8>) -> Run {
    say_long_from(call, reply, 0)
}

/// The same with a reply that begins at byte `from`.
pub(super) fn say_long_from(call: &mut Call<'_, '_>, reply: Vec<u8>, from: usize) -> Run {
    let mut long = long_reply(call);
    if reply.len() - from > call.out.room() && !long.grant.resize(reply.capacity() as u64) {
        return Err(Fault::ClientMemory.into());
    }
    long.bytes = reply;
    say_from(call, long, from)
}

/// Answers with a reply that was put together beside the output. One that was refused is an error: its length
/// follows from what clients have stored, so it has no other bound.
pub(super) fn say(call: &mut Call<'_, '_>, reply: LongReply) -> Run {
    say_from(call, reply, 0)
}

fn say_from(call: &mut Call<'_, '_>, reply: LongReply, from: usize) -> Run {
    let LongReply { bytes: mut reply, grant, refused } = reply;
    if let Some(fault) = refused {
        return Err(fault.into());
    }
    if call.session.answers != Answers::All {
        return Ok(());
    }
    if call.beside && call.out.room() < reply.len() - from {
        // The block counts among the answers from here on.
        drop(grant);
        reply.drain(..from);
        call.out.push_block(reply);
        return Ok(());
    }
    let end = from + (reply.len() - from).min(call.out.spare().len());
    call.out.push(&reply[from..end]);
    if end < reply.len() {
        let since = call.ctx.op_begun;
        let aside = call.session.aside.get_or_insert_default();
        (aside.long, aside.sent, aside.held) = (reply, end, Some((grant, since)));
    }
    Ok(())
}

impl SessionState {
    /// Ends some of the client's subscriptions, and forgets some of the messages that wait for it; true if there are
    /// none left. For a connection that ends, or is reset.
    pub(super) fn end_some_subscriptions(&mut self) -> bool {
        let subscriber = self.aside.as_mut().and_then(|aside| aside.subscriber.as_mut());
        subscriber.is_none_or(|subscriber| subscriber.end_some(ENDED_A_VISIT))
    }
}
