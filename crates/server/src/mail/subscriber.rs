//! A connection that is told what it did not ask for: what it is subscribed to, and its mailbox.

use super::channels::{Channels, Kind};
use super::mailbox::Mailbox;
use super::names::{Hashed, Name};
use protocol::resp::Version;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Names that one client is subscribed to at most.
pub const SUBSCRIPTIONS_MAX: usize = 100_000;

/// Why a subscription is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The client has [`SUBSCRIPTIONS_MAX`].
    TooMany,
    /// The memory for mail is used up.
    NoMemory,
}

/// A subscriber. Dropped, it is subscribed to nothing.
#[derive(Debug)]
pub(crate) struct Subscriber {
    channels: Arc<Channels>,
    mailbox: Arc<Mailbox>,
    names: [BTreeSet<Name>; 3],
    /// Subscribed off in [`Channels`] and not yet in `names`.
    left: Option<Name>,
    monitors: bool,
}

impl Subscriber {
    /// Connection `connection` of worker `worker`, subscribed to nothing yet.
    pub(crate) fn new(channels: &Arc<Channels>, worker: usize, connection: u32) -> Self {
        Self {
            channels: Arc::clone(channels),
            mailbox: channels.mailbox(worker, connection),
            names: Default::default(),
            left: None,
            monitors: false,
        }
    }

    /// Subscriptions of a kind.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.names[kind as usize].len()
    }

    /// It is subscribed to nothing, and does not monitor.
    pub(crate) fn is_idle(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty) && !self.monitors
    }

    /// It is subscribed to something.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.names.iter().any(|names| !names.is_empty())
    }

    /// It monitors.
    pub(crate) fn monitors(&self) -> bool {
        self.monitors
    }

    /// Subscribes to `name`, unless it is already.
    pub(crate) fn subscribe(&mut self, kind: Kind, name: &[u8]) -> Result<(), Refused> {
        if self.find(kind, name).is_some() {
            return Ok(());
        }
        if self.names.iter().map(BTreeSet::len).sum::<usize>() >= SUBSCRIPTIONS_MAX {
            return Err(Refused::TooMany);
        }
        let name = self.channels.name(name);
        if !self.channels.subscribe(kind, &name, &self.mailbox) {
            return Err(Refused::NoMemory);
        }
        self.names[kind as usize].insert(name);
        Ok(())
    }

    fn find(&self, kind: Kind, name: &[u8]) -> Option<&Name> {
        self.names[kind as usize].get(&(self.channels.hash(name), name) as &dyn Hashed)
    }

    /// No message for `name` comes in from here on. What had come in is taken before [`Subscriber::forget`].
    pub(crate) fn leave(&mut self, kind: Kind, name: &[u8]) {
        self.left = self.find(kind, name).cloned();
        if let Some(name) = &self.left {
            self.channels.unsubscribe(kind, name, &self.mailbox);
        }
    }

    /// The name that was left.
    pub(crate) fn left(&self) -> Option<Arc<[u8]>> {
        self.left.as_ref().map(Name::shared)
    }

    /// Does not count the name that was left any more.
    pub(crate) fn forget(&mut self, kind: Kind) {
        if let Some(name) = self.left.take() {
            self.names[kind as usize].remove(&name);
        }
    }

    /// Returns all names that it is subscribed to, each with the number of its kind.
    pub(crate) fn subscriptions(&self) -> Vec<(u8, Vec<u8>)> {
        let of = |kind: Kind| self.names[kind as usize].iter().map(move |name| (kind as u8, name.bytes().to_vec()));
        Kind::ALL.into_iter().flat_map(of).collect()
    }

    /// Some name of a kind that it is subscribed to.
    pub(crate) fn some_name(&self, kind: Kind) -> Option<Arc<[u8]>> {
        self.names[kind as usize].first().map(Name::shared)
    }

    /// Ends at most `most` subscriptions, and drops as many messages; true if nothing is left of either. Takes no
    /// message from its first call on.
    pub(crate) fn end_some(&mut self, most: usize) -> bool {
        let dropped = self.mailbox.drop_some(most);
        let mut left = most;
        for kind in Kind::ALL {
            while let Some(name) = self.names[kind as usize].first() {
                if left == 0 {
                    return false;
                }
                left -= 1;
                self.channels.unsubscribe(kind, name, &self.mailbox);
                self.names[kind as usize].pop_first();
            }
        }
        dropped
    }

    /// Is told of every command from now on. False if as many are as may be.
    pub(crate) fn monitor(&mut self) -> bool {
        self.monitors = self.monitors || self.channels.monitor(&self.mailbox);
        self.monitors
    }

    /// Something waits, or the mailbox broke.
    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.mailbox.is_waiting()
    }

    /// The mailbox broke: the connection is to be closed.
    pub(crate) fn is_broken(&self) -> bool {
        self.mailbox.is_broken()
    }

    /// Moves what is next to the front of `into`; returns how many bytes that was.
    pub(crate) fn take(&self, into: &mut [u8], version: Version) -> usize {
        self.mailbox.take(into, version)
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        while !self.end_some(usize::MAX) {}
        if self.monitors {
            self.channels.unmonitor(&self.mailbox);
        }
    }
}
