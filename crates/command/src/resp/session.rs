//! The state that the protocol retains of a connection between two visits.

use super::aside::Aside;
use super::long::Long;
use super::{acl, listing, transaction, value_reply, walk};
use crate::push::mail::Publishing;
use crate::visit::clock::Moment;
use protocol::resp::{Parser, Version};
use segment::Namespace;
/// Which requests a client wants to be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Answers {
    #[default]
    All,
    /// All but the next one.
    SkipNext,
    None,
}

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
    pub(super) copying: Option<value_reply::Copying>,
    /// Those that are subscribed know of the change.
    pub(super) is_published: bool,
    /// Time at which a request was begun that may take several visits.
    pub(super) moment: Moment,
    /// All that the request at hand is to store was looked at, and none of it is too long.
    pub(super) fits: bool,
    /// True if the value being read changes so often that its key is to be claimed.
    pub(super) wants_key_locks: bool,
    /// The user that its client acts as.
    pub(super) who: acl::Who,
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
    pub(super) transaction: Option<Box<transaction::Transaction>>,
    /// The transaction that is executed, before any other request.
    pub(super) under_way: Option<Box<transaction::Transaction>>,
    /// A copy of a value in many parts that is under way.
    pub(super) copy: Option<Box<segment::PartsCopy>>,
    /// A publication that is under way.
    pub(super) publishing: Option<Box<Publishing>>,
    /// A list that is put together over several visits.
    pub(super) listing: Option<Box<listing::Listing>>,
    /// A walk over the keys that is under way.
    pub(super) walk: Option<Box<walk::Walk>>,
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
}
