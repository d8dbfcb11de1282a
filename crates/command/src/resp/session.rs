//! The state that the protocol retains of a connection between two visits.

use crate::lookup::large::LargeSet;
use crate::push::mail::Publishing;
use crate::push::mail::Subscriber;
use crate::resp::acl::ClientUser;
use crate::resp::catalog;
use crate::resp::state::Answers;
use crate::resp::state::aside::{Aside, ENDED_A_VISIT};
use crate::resp::state::copying::Copying;
use crate::resp::state::listing::Listing;
use crate::resp::state::long::{Long, LongStage};
use crate::resp::state::transaction::Stage;
use crate::resp::state::transaction::Transaction;
use crate::resp::state::walk::Walk;
use crate::visit::clock::Moment;
use crate::visit::clock::Ticks;
use protocol::resp::Args;
use protocol::resp::{Parser, Version};
use segment::Namespace;

/// The state that the protocol retains of a connection between calls.
#[derive(Default)]
pub struct SessionState {
    /// Namespace of its keys.
    pub(crate) namespace: Namespace,
    /// Namespace of its listener.
    pub(super) home: Namespace,
    /// True if the current request is already counted among the operations of a second.
    pub(super) is_paid: bool,
    pub(super) parser: Parser,
    pub(super) version: Version,
    pub(super) answers: Answers,
    /// Its client has said who it is.
    pub(super) known: bool,
    /// Keys or lines of the request at hand that are answered.
    pub(super) done: u32,
    /// Arguments of the current request that were passed, and the bytes that these take: see `Call::behind`.
    pub(super) passed: (u32, usize),
    /// Sum over the answered keys or lines.
    pub(super) sum: i64,
    /// A value that is copied into the answer over several visits.
    pub(super) copying: Option<Copying>,
    /// Those that are subscribed know of the change.
    pub(super) is_published: bool,
    /// Time at which a request was begun that may take several visits.
    pub(super) moment: Moment,
    /// All that the request at hand is to store was looked at, and none of it is too long.
    pub(super) fits: bool,
    /// True if the value being read changes so often that its key is to be claimed.
    pub(super) wants_key_locks: bool,
    /// The user that its client acts as.
    pub(super) user: ClientUser,
    /// Count of changes to the users at the last check of `who`.
    pub(super) seen_changes: u64,
    /// Count of changes to the users when its client was found to be free to do everything; 0: it was not.
    pub(super) free_at: u64,
    /// A request of which some is consumed.
    pub(super) long: Option<Long>,
    /// The command that it called last.
    pub(super) last: &'static str,
    /// Its client is on another host and could be anyone.
    pub(super) held_off: bool,
    /// End of the current `DEBUG SLEEP`, in Unix ms; 0: none is running.
    pub(super) sleeps_until_ms: u64,
    /// Messages that the client is sent besides replies, if any.
    pub(super) aside: Option<Box<Aside>>,
    /// Keys that are watched and commands that are queued.
    pub(super) transaction: Option<Box<Transaction>>,
    /// The transaction that is executed, before any other request.
    pub(super) under_way: Option<Box<Transaction>>,
    /// A copy of a value in many parts that is under way.
    pub(super) copy: Option<Box<segment::PartsCopy>>,
    /// A publication that is under way.
    pub(super) publishing: Option<Box<Publishing>>,
    /// A list that is put together over several visits.
    pub(super) listing: Option<Box<Listing>>,
    /// A walk over the keys that is under way.
    pub(super) walk: Option<Box<Walk>>,
    /// Time before which a rate-limited walk over records does not go on, in Unix ms.
    pub(super) paced_until_ms: u64,
}

impl SessionState {
    /// Returns the state of a new connection.
    pub(crate) fn of(namespace: Namespace) -> Self {
        Self { namespace, home: namespace, ..Self::default() }
    }

    /// Resets the state of the current request: it is answered.
    #[inline(always)]
    pub(super) fn end_request(&mut self) {
        (self.done, self.passed, self.sum, self.is_published) = (0, (0, 0), 0, false);
        (self.copying, self.fits) = (None, false);
    }

    /// Gives up the current request, with the state that it holds between visits.
    #[cold]
    pub(super) fn give_up(&mut self) {
        (self.walk, self.publishing, self.listing) = (None, None, None);
        self.end_request();
    }

    /// Returns true if a part of the reply to the current request stands, whatever the request waits for.
    pub(super) fn is_answered_in_part(&self) -> bool {
        self.done > 0 || self.copying.is_some()
    }

    /// Returns true if the current request takes many visits.
    pub(crate) fn is_long(&self) -> bool {
        self.under_way.is_some() || self.walk.is_some() || self.listing.is_some() || self.done > 0
    }

    /// Returns true if a transaction was begun whose requests are not all done, or whose replies are not all sent.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// The last command that its client called.
    pub(crate) fn last_command(&self) -> Option<&'static str> {
        (!self.last.is_empty()).then_some(self.last)
    }

    /// Its client may do next to nothing, since it is on another host and could be anyone.
    pub(crate) fn hold_off(&mut self) {
        self.held_off = true;
    }

    pub(in crate::resp) fn subscriber(&self) -> Option<&Subscriber> {
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

    /// Ends some of the client's subscriptions, and forgets some of the messages that wait for it; true if there are
    /// none left. For a connection that ends, or is reset.
    pub(in crate::resp) fn end_some_subscriptions(&mut self) -> bool {
        let subscriber = self.aside.as_mut().and_then(|aside| aside.subscriber.as_mut());
        subscriber.is_none_or(|subscriber| subscriber.end_some(ENDED_A_VISIT))
    }

    pub(in crate::resp) fn is_queueing(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.stage == Stage::Queueing)
    }

    /// The request at hand was refused: if it was to be queued, what is queued will not be executed.
    #[cold]
    pub(in crate::resp) fn spoil(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.is_spoilt |= transaction.stage == Stage::Queueing;
        }
    }

    /// The value that is arriving.
    #[inline]
    pub(crate) fn large(&self) -> Option<&LargeSet> {
        match &self.long {
            Some(Long { stage: LongStage::Value { large, .. }, .. }) => Some(large),
            _ => None,
        }
    }

    /// The same, to receive into.
    pub(crate) fn large_mut(&mut self) -> Option<&mut LargeSet> {
        match &mut self.long {
            Some(Long { stage: LongStage::Value { large, .. }, .. }) => Some(large),
            _ => None,
        }
    }

    /// True if a part of a request is consumed and the rest is still to be received.
    pub(crate) fn is_taking_in(&self) -> bool {
        self.long.is_some()
    }

    /// Some of a request is consumed, or it is under way.
    pub(crate) fn is_receiving(&self) -> bool {
        self.long.is_some() || self.is_under_way()
    }

    /// Gives up all replies, with the places among them. Returns whether the current request is still executed to its
    /// end: one that only reads is not, since no client waits for it.
    pub(in crate::resp) fn goes_on_unanswered(&mut self, mut args: Args<'_>) -> bool {
        let entry = catalog::find(args.next().unwrap_or_default());
        if entry.is_some_and(|entry| entry.has(catalog::Flag::ReadOnly)) {
            self.give_up();
            return false;
        }
        self.copying = None;
        if let Some(walk) = &mut self.walk {
            walk.head = None;
        }
        true
    }

    /// Nothing is half done or out of the ordinary: plain requests may be answered in runs.
    #[inline(always)]
    pub(in crate::resp) fn is_plain(&self) -> bool {
        let whole = self.long.is_none() && self.parser.is_at_start() && self.done == 0;
        let alone = self.aside.is_none() && self.transaction.is_none() && self.under_way.is_none();
        whole && alone && self.answers == Answers::All
    }
}
