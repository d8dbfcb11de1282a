//! A subscriber: a connection's subscriptions and its outbox.

use super::channels::{ChannelKind, Channels};
use super::names::{ChannelName, Hashed};
use super::queue::{Outbox, Receiver};
use protocol::resp::Version;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

/// The maximum number of channels and patterns to which one client is subscribed.
pub const SUBSCRIPTIONS_MAX: usize = 100_000;

/// The reason why a subscription is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The client already has [`SUBSCRIPTIONS_MAX`] subscriptions.
    TooMany,
    /// The memory for subscriptions is used up.
    NoMemory,
}

/// The decision whether the queued messages of a connection may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageCheck {
    /// They may be sent.
    Send,
    /// The check of the client's rights continues at the next visit. No message may be sent before.
    Unfinished,
    /// The client's user has lost the right to a channel to which the client is subscribed. The connection must be
    /// closed.
    RightLost,
    /// The messages exceeded their limit. The connection must be closed.
    QueueBroken,
}

/// A connection's subscriptions and its outbox. When a `Subscriber` is dropped, its subscriptions end.
#[derive(Debug)]
pub struct Subscriber {
    channels: Arc<Channels>,
    outbox: Arc<Outbox>,
    names: [BTreeSet<ChannelName>; 3],
    /// A name that was already unsubscribed in [`Channels`] but is still in `names`.
    left: Option<ChannelName>,
    monitors: bool,
    /// True if the outbox is needed without subscriptions: for invalidations of keys that this client, or one that
    /// redirects to it, has read.
    is_tracking: bool,
    check: RightsCheck,
}

/// The progress of the check that the client may still have its subscriptions.
#[derive(Debug, Default)]
struct RightsCheck {
    /// The number of changes of the users at the last completed check.
    completed_at: u64,
    /// The number of changes of the users at the start of the check in progress, and the last checked subscription.
    in_progress: Option<(u64, ChannelKind, ChannelName)>,
}

impl Subscriber {
    /// Creates a subscriber for connection `connection` of worker `worker`, without subscriptions.
    pub(crate) fn new(channels: &Arc<Channels>, worker: usize, connection: u32) -> Self {
        Self::with_outbox(channels, channels.outbox(worker, connection))
    }

    /// Creates a subscriber for the connection of an outbox, without subscriptions.
    pub(crate) fn with_outbox(channels: &Arc<Channels>, outbox: Arc<Outbox>) -> Self {
        Self {
            channels: Arc::clone(channels),
            outbox,
            names: Default::default(),
            left: None,
            monitors: false,
            is_tracking: false,
            check: RightsCheck::default(),
        }
    }

    /// Returns true if all subscriptions were checked when the users had changed `changes` times.
    #[inline]
    pub(crate) fn is_checked(&self, changes: u64) -> bool {
        self.check.completed_at == changes
    }

    /// Checks the next subscriptions, at most `most`, after users have changed: `changes` is their number of changes.
    /// Returns false if `allows` refuses one, and true if it allows all. Returns `None` if some are not checked yet.
    pub(crate) fn check(
        &mut self,
        changes: u64,
        most: usize,
        allows: impl Fn(ChannelKind, &[u8]) -> bool,
    ) -> Option<bool> {
        let resumed = self.check.in_progress.take().filter(|(since, ..)| *since == changes);
        let (first, mut after) = match resumed {
            Some((_, kind, name)) => (kind, Bound::Excluded(name)),
            None => (ChannelKind::ALL[0], Bound::Unbounded),
        };
        let mut left = most;
        for kind in ChannelKind::ALL.into_iter().skip(first as usize) {
            for name in self.names[kind as usize].range((after, Bound::Unbounded)) {
                if !allows(kind, name.bytes()) {
                    return Some(false);
                }
                left -= 1;
                if left == 0 {
                    self.check.in_progress = Some((changes, kind, name.clone()));
                    return None;
                }
            }
            after = Bound::Unbounded;
        }
        self.check.completed_at = changes;
        Some(true)
    }

    /// Returns the number of the client's subscriptions of a kind.
    pub(crate) fn count(&self, kind: ChannelKind) -> usize {
        self.names[kind as usize].len()
    }

    /// Returns true if the client has no subscription, is not in MONITOR mode, and receives no invalidations.
    pub(crate) fn is_idle(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty) && !self.monitors && !self.is_tracking
    }

    /// Records whether the outbox is needed for invalidations.
    pub(crate) fn set_tracking(&mut self, is_tracking: bool) {
        self.is_tracking = is_tracking;
    }

    /// Returns the outbox.
    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// Returns true if the client has a subscription.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.names.iter().any(|names| !names.is_empty())
    }

    /// Returns true if the client is in MONITOR mode.
    pub(crate) fn monitors(&self) -> bool {
        self.monitors
    }

    /// Subscribes to `name`. Does nothing if the client is already subscribed to it.
    pub(crate) fn subscribe(&mut self, kind: ChannelKind, name: &[u8]) -> Result<(), Refused> {
        if self.find(kind, name).is_some() {
            return Ok(());
        }
        if self.names.iter().map(BTreeSet::len).sum::<usize>() >= SUBSCRIPTIONS_MAX {
            return Err(Refused::TooMany);
        }
        let name = self.channels.name(name);
        if !self.channels.subscribe(kind, &name, &self.outbox) {
            return Err(Refused::NoMemory);
        }
        self.names[kind as usize].insert(name);
        Ok(())
    }

    fn find(&self, kind: ChannelKind, name: &[u8]) -> Option<&ChannelName> {
        self.names[kind as usize].get(&(self.channels.hash(name), name) as &dyn Hashed)
    }

    /// Unsubscribes from `name`, so that no further message is queued for it. The caller sends the messages that are
    /// queued already, and then calls [`Subscriber::forget`].
    pub(crate) fn leave(&mut self, kind: ChannelKind, name: &[u8]) {
        self.left = self.find(kind, name).cloned();
        if let Some(name) = &self.left {
            self.channels.unsubscribe(kind, name, &self.outbox);
        }
    }

    /// Returns the name of the last [`Subscriber::leave`], until it is forgotten.
    pub(crate) fn left(&self) -> Option<Arc<[u8]>> {
        self.left.as_ref().map(ChannelName::shared)
    }

    /// Removes the name of the last [`Subscriber::leave`] from the counted subscriptions.
    pub(crate) fn forget(&mut self, kind: ChannelKind) {
        if let Some(name) = self.left.take() {
            self.names[kind as usize].remove(&name);
        }
    }

    /// Returns all subscriptions, each with the number of its kind.
    pub(crate) fn subscriptions(&self) -> Vec<(u8, Vec<u8>)> {
        let of =
            |kind: ChannelKind| self.names[kind as usize].iter().map(move |name| (kind as u8, name.bytes().to_vec()));
        ChannelKind::ALL.into_iter().flat_map(of).collect()
    }

    /// Returns the first subscribed name of a kind, if there is one.
    pub(crate) fn some_name(&self, kind: ChannelKind) -> Option<Arc<[u8]>> {
        self.names[kind as usize].first().map(ChannelName::shared)
    }

    /// Ends at most `most` subscriptions, and drops at most `most` queued messages. Returns true if no subscription and
    /// no message remains. After the first call, the outbox accepts no further messages.
    pub(crate) fn end_some(&mut self, most: usize) -> bool {
        let dropped = self.outbox.drop_some(most);
        let mut left = most;
        for kind in ChannelKind::ALL {
            while let Some(name) = self.names[kind as usize].first() {
                if left == 0 {
                    return false;
                }
                left -= 1;
                self.channels.unsubscribe(kind, name, &self.outbox);
                self.names[kind as usize].pop_first();
            }
        }
        dropped
    }

    /// Starts MONITOR mode, in which the client receives every command. Returns false if too many connections are
    /// already in that mode.
    pub(crate) fn monitor(&mut self) -> bool {
        self.monitors = self.monitors || self.channels.monitor(&self.outbox);
        self.monitors
    }

    /// Returns true if a message is queued or the outbox is broken.
    #[inline]
    pub fn has_messages(&self) -> bool {
        self.outbox.is_waiting()
    }

    /// Returns true if a message was sent only in part.
    pub(crate) fn is_in_message(&self) -> bool {
        self.outbox.is_in_message()
    }

    /// Returns true if the outbox is broken, so that the connection must be closed.
    pub fn is_broken(&self) -> bool {
        self.outbox.is_broken()
    }

    /// Moves the next bytes of queued messages to the beginning of `into`. Returns the number of these bytes.
    pub fn take(&self, into: &mut [u8], version: Version) -> usize {
        self.outbox.take(into, Receiver { version, is_subscribed: self.is_subscribed() })
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        while !self.end_some(usize::MAX) {}
        if self.monitors {
            self.channels.unmonitor(&self.outbox);
        }
        // The connection may remain open, and receive the invalidations of other clients.
        self.outbox.reopen();
    }
}
