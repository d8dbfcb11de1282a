//! The move of a Redis connection to another worker or process (see [`crate::handover`]).

use super::acl::ClientUser;
use crate::clients::endpoint::{Endpoint, Protocol};
use crate::context::WorkerContext;
use crate::handover::HandoverConnection;
use crate::push::outbox::Subscriber;
use crate::resp::call::Call;
use crate::resp::functions::FUNCTIONS;
use crate::resp::pubsub;
use crate::resp::session::{DatabaseNumbers, SessionState, is_auth_delayed, tracking_of, update_restriction};
use crate::resp::settle;
use crate::resp::state::Answers;
use crate::resp::state::long::Long;
use crate::resp::state::tracking::SessionTracking;
use crate::resp::state::waits::WaitingCommand;
use crate::resp::tracking;
use crate::resp::transaction;
use crate::shared::Shared;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::OutBuffer;
use protocol::resp::Version;
use segment::{Guard, Namespace};

impl SessionState {
    /// Returns the state that is handed over to another process, with the received bytes `input`. Returns `None` if a
    /// request is partly executed.
    pub(crate) fn to_handover(&self, input: &[u8]) -> Option<HandoverConnection> {
        // A command that waits moves as a request that was not executed.
        let waiting = Long::waits_of(&self.long).filter(|waits| waits.rests).and_then(|waits| waits.command.as_ref());
        let is_between = self.done == 0
            && (self.long.is_none() || waiting.is_some())
            && self.under_way.is_none()
            && self.copy.is_none()
            && self.walk.is_none()
            && self.publishing.is_none()
            && self.listing.is_none()
            && self.sum == 0
            && (self.outside.is_none() || is_auth_delayed(self))
            && tracking_of(self).is_none_or(|tracking| tracking.to_handover().is_some())
            && !self.is_replying();
        if !is_between {
            return None;
        }
        Some(HandoverConnection {
            subscriptions: self.subscriber().map(Subscriber::subscriptions).unwrap_or_default(),
            monitors: self.subscriber().is_some_and(Subscriber::monitors),
            tracking: tracking_of(self).and_then(SessionTracking::to_handover),
            transaction: self.transaction.as_ref().map(|transaction| transaction.to_handover()),
            input: waiting
                .map_or_else(Vec::new, WaitingCommand::request)
                .into_iter()
                .chain(input.iter().copied())
                .collect(),
            waits_until: waiting.and_then(|command| command.deadline).map(|deadline| deadline.0),
            namespace: Namespace(self.numbers.database()),
            known: self.known,
            user: self.user.to_handover(),
            is_resp3: self.version == Version::Resp3,
            wants_none: self.answers == Answers::None,
            skips_next: waiting.map_or(self.answers, |command| command.answers) == Answers::SkipNext,
            is_restricted: self.is_restricted,
            ..HandoverConnection::new(Endpoint::new(Protocol::Resp, Namespace(self.numbers.home())))
        })
    }

    /// Adopts the state of a connection that was handed over. If it has no user, or its user no longer exists, the
    /// client must authenticate if the server requires it.
    pub(crate) fn resume_as(&mut self, carried: &HandoverConnection, shared: &Shared) {
        if carried.namespace != self.namespace {
            shared.namespaces.count_in(carried.namespace);
            shared.namespaces.leave(self.namespace);
            self.namespace = carried.namespace;
            self.numbers = DatabaseNumbers::new(carried.namespace.0, self.numbers.home());
        }
        self.user = ClientUser::of(&carried.user, &shared.users);
        // The users of the old process decided that clients without one need no password, unless this process reads its
        // own: as after `CONFIG SET requirepass`, clients from before it go on.
        let has_same_users = shared.users.unsaved().is_some() && shared.auth.is_none();
        self.known = carried.known && (has_same_users || !matches!(self.user, ClientUser::Default));
        self.version = if carried.is_resp3 { Version::Resp3 } else { Version::Resp2 };
        self.answers = match carried {
            HandoverConnection { wants_none: true, .. } => Answers::None,
            HandoverConnection { skips_next: true, .. } => Answers::SkipNext,
            _ => Answers::All,
        };
        update_restriction(self);
        self.is_restricted |= carried.is_restricted;
    }

    /// Restores subscriptions and the transaction. Returns false if client memory is used up.
    pub(crate) fn restore(
        &mut self,
        carried: &HandoverConnection,
        guard: &mut Guard<'_>,
        ctx: &mut WorkerContext,
    ) -> bool {
        settle::settle(self, &ctx.shared.namespaces);
        // The replies to queued requests were sent before the move.
        let mut out = OutBuffer::beside(&ctx.shared.budget);
        out.force_room(LINE_ROOM);
        let transaction = carried.transaction.as_ref();
        let buf = transaction.map_or(&[][..], |transaction| &transaction.queue);
        let out = &mut out;
        let call = &mut Call { collects_replies: true, ..Call::new((guard, ctx), buf, out, self, &FUNCTIONS) };
        let is_subscribed = pubsub::resubscribe(call, &carried.subscriptions, carried.monitors);
        let is_tracking = carried.tracking.as_ref().is_none_or(|carried| tracking::restore(call, carried));
        is_subscribed && is_tracking && transaction.is_none_or(|transaction| transaction::requeue(call, transaction))
    }
}
