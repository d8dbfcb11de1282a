//! A connection of Redis's protocol that goes on in another worker or process: see [`crate::handover`].

use super::acl::Who;
use super::{Answers, SessionState};
use crate::command::{Door, Protocol};
use crate::handover::{Carried, CarriedUser};
use crate::shared::Shared;
use protocol::resp::Version;

impl SessionState {
    /// What is to be carried over; `None`: it is in the midst of something.
    pub(in crate::command) fn carried(&self) -> Option<Carried> {
        let is_between = self.done == 0
            && self.long.is_none()
            && self.under_way.is_none()
            && self.copy.is_none()
            && self.walk.is_none()
            && self.publishing.is_none()
            && self.listing.is_none()
            && self.sleeps_until_ms == 0
            && self.answers != Answers::SkipNext
            && !self.is_answering();
        if !is_between || self.stays() {
            return None;
        }
        Some(Carried {
            namespace: self.namespace,
            known: self.known,
            user: self.who.carried(),
            speaks_3: self.version == Version::Resp3,
            wants_none: self.answers == Answers::None,
            held_off: self.held_off,
            ..Carried::new(Door::new(Protocol::Resp, self.home))
        })
    }

    /// It is subscribed to something, or has begun a transaction: nobody else could go on with that.
    pub(in crate::command) fn stays(&self) -> bool {
        self.subscriber().is_some() || self.transaction.is_some()
    }

    /// Goes on as what was carried over, of a user that there is.
    pub(in crate::command) fn go_on_as(&mut self, carried: &Carried, shared: &Shared) {
        if carried.namespace != self.namespace {
            shared.namespaces.count_in(carried.namespace);
            shared.namespaces.leave(self.namespace);
            self.namespace = carried.namespace;
        }
        self.who = Who::of(&carried.user, &shared.users);
        let is_gone = matches!(self.who, Who::Default) && carried.user != CarriedUser::Nobody;
        self.known = carried.known && !is_gone;
        self.version = if carried.speaks_3 { Version::Resp3 } else { Version::Resp2 };
        self.answers = if carried.wants_none { Answers::None } else { Answers::All };
        self.held_off |= carried.held_off;
    }
}
