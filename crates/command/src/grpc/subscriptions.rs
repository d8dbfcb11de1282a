//! The subscriptions of a connection to topics.
//!
//! ```text
//!   Subscribe ──> heartbeat ──> messages from the topic's log, as the client's windows allow ──> ...
//!                     └── every HEARTBEAT_MS without messages: heartbeat
//! ```
//!
//! A subscription has at most one reply that is not written. It reads the next messages from the log when that is
//! written, so that a client that does not read holds no messages.
//!
//! Bounds: a subscription takes a stream, so that the limit of streams bounds their number. Their memory is part of the
//! connection's state, and each reply counts as client memory.

use super::calls::add_heartbeat;
use super::credentials::{self, SignedToken};
use super::plan::{CallError, TopicRequest, add_message};
use super::replies::{Reply, Wire};
use crate::clients::faults::FAULT_TEXT;
use crate::clients::tokens::{Claims, TokenError};
use crate::context::WorkerContext;
use crate::memory::budget::{Grant, MemoryUse};
use crate::push::outbox::Outbox;
use crate::push::topics::{Discontinuity, NumberedMessage, READ_MAX, TopicPosition};
use crate::resp::{self, TopicRight};
use arrayvec::ArrayVec;
use base::clock::UnixMillis;
use protocol::grpc::{Status, reply};
use protocol::http2::ServerConnection;
use protocol::sink::Sink;
use segment::Namespace;
use std::sync::Arc;

/// The time between two messages of a stream, in ms. A heartbeat shows a client that an idle subscription works.
const HEARTBEAT_MS: u64 = 5_000;

/// The text of the end of a subscription when its server leaves.
const LEAVING_TEXT: &str = "the server stops or is replaced; subscribe again";

/// A subscription.
struct Subscription {
    stream: u32,
    namespace: Namespace,
    cache: Option<Arc<[u8]>>,
    topic: Arc<[u8]>,
    position: TopicPosition,
    /// The gap before the next message, if it is not written.
    gap: Option<Discontinuity>,
    /// The instant of the next heartbeat, if no message comes before.
    heartbeat_at: UnixMillis,
    user: resp::CallUser,
    /// The claims of the signed token of the subscription, if it has one.
    claims: Option<Arc<Claims>>,
    /// The numbers of changes of users and of namespaces at the last check of the subscription.
    checked_at: (u64, u64),
    /// The number of messages after which a fault ends the stream, and its status.
    cut: Option<(u64, Status)>,
}

/// The subscriptions of a connection.
pub(super) struct Subscriptions {
    all: Vec<Subscription>,
    outbox: Arc<Outbox>,
    /// True if a subscription may have messages in its log.
    may_have_messages: bool,
}

impl Subscriptions {
    /// Returns the instant of the first heartbeat.
    pub(super) fn next_heartbeat(&self) -> Option<UnixMillis> {
        self.all.iter().map(|subscription| subscription.heartbeat_at).min_by_key(|at| at.0)
    }

    /// Writes the ends of all streams, because the connection ends.
    pub(super) fn say_goodbye(&self, http: &mut ServerConnection, out: &mut impl Sink) {
        for subscription in &self.all {
            reply::end(http, subscription.stream, Status::Unavailable, LEAVING_TEXT, out);
        }
    }

    /// Returns the memory of the subscriptions, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let names = self.all.iter().map(|subscription| subscription.topic.len()).sum::<usize>();
        size_of::<Self>() + self.all.capacity() * size_of::<Subscription>() + names
    }

    fn shares_topic(&self, namespace: Namespace, topic: &[u8]) -> bool {
        self.all.iter().any(|other| other.namespace == namespace && *other.topic == *topic)
    }

    /// Ends the subscription of a stream, if there is one.
    pub(super) fn end(&mut self, stream: u32, ctx: &WorkerContext) {
        if let Some(place) = self.all.iter().position(|subscription| subscription.stream == stream) {
            let Subscription { namespace, topic, .. } = self.all.swap_remove(place);
            if !self.shares_topic(namespace, &topic) {
                ctx.shared.topics.unsubscribe((namespace, &topic), &self.outbox, ctx.now);
            }
        }
    }

    /// Ends all subscriptions.
    pub(super) fn end_all(&mut self, ctx: &WorkerContext) {
        while let Some(stream) = self.all.last().map(|subscription| subscription.stream) {
            self.end(stream, ctx);
        }
    }
}

/// Begins a subscription of a stream in the namespace of the Redis session, with its user. `signed` is the token of
/// that user if it is signed, and `cut` a fault that ends the stream.
pub(super) fn subscribe(
    subscriptions: &mut Option<Box<Subscriptions>>,
    (redis, signed): (&resp::SessionState, Option<&SignedToken>),
    stream: u32,
    request: &TopicRequest,
    cut: Option<(u64, Status)>,
    ctx: &WorkerContext,
) -> Result<(), CallError> {
    let namespace = redis.namespace;
    credentials::check_login(redis, ctx)?;
    let user = resp::call_user(redis);
    check_right(&user, namespace, &request.topic, ctx)?;
    let subscriptions = subscriptions.get_or_insert_with(|| {
        let outbox = ctx.shared.channels.outbox(ctx.worker, ctx.push.watch.connection);
        Box::new(Subscriptions { all: Vec::new(), outbox, may_have_messages: false })
    });
    let is_new = !subscriptions.shares_topic(namespace, &request.topic);
    let name = (namespace, &request.topic[..]);
    let Some((position, gap)) = ctx.shared.topics.subscribe(name, &subscriptions.outbox, is_new, request.from, ctx.now)
    else {
        let text = "no further topic: client memory is used up (limits.client_memory), or there are too many topics";
        return Err(CallError::new(Status::ResourceExhausted, text));
    };
    subscriptions.all.push(Subscription {
        stream,
        namespace,
        cache: request.cache.clone(),
        topic: Arc::clone(&request.topic),
        position,
        gap,
        heartbeat_at: UnixMillis(ctx.now.0 + HEARTBEAT_MS),
        user,
        claims: signed.filter(|_| resp::is_token(redis)).map(|signed| Arc::clone(&signed.claims)),
        checked_at: (ctx.shared.users.changes(), ctx.shared.namespaces.changes()),
        cut,
    });
    subscriptions.may_have_messages = true;
    Ok(())
}

fn check_right(
    user: &resp::CallUser,
    namespace: Namespace,
    topic: &[u8],
    ctx: &WorkerContext,
) -> Result<(), CallError> {
    match resp::topic_right(user, &ctx.shared, namespace, topic) {
        TopicRight::Granted => Ok(()),
        TopicRight::Denied => Err(CallError::new(Status::PermissionDenied, "the user may not subscribe to this topic")),
        TopicRight::Unknown => Err(CallError::new(Status::Unauthenticated, "the user no longer exists")),
    }
}

/// Queues the next messages and heartbeats of all subscriptions without a reply that waits. Returns true if any was
/// queued.
pub(super) fn advance(
    subscriptions: &mut Option<Box<Subscriptions>>,
    wire: &mut Wire,
    is_leaving: bool,
    ctx: &WorkerContext,
) -> bool {
    let Some(subscriptions) = subscriptions else { return false };
    let is_signalled = subscriptions.outbox.take_signal();
    let is_due = subscriptions.next_heartbeat().is_some_and(|at| at.0 <= ctx.now.0);
    if !is_signalled && !is_due && !is_leaving && !subscriptions.may_have_messages {
        return false;
    }
    let replies = &mut wire.replies;
    subscriptions.may_have_messages = false;
    let (mut ended, queued) = (Vec::new(), replies.len());
    for subscription in &mut subscriptions.all {
        if replies.iter().any(|reply| reply.stream == subscription.stream) {
            subscriptions.may_have_messages = true;
            continue;
        }
        match subscription.next(is_leaving, ctx) {
            Ok(Some((reply, has_more))) => {
                subscriptions.may_have_messages |= has_more;
                replies.push_back(reply);
            }
            Ok(None) => {}
            Err(error) => {
                ended.push(subscription.stream);
                replies.push_back(Reply::error(subscription.stream, error));
            }
        }
    }
    let has_queued = replies.len() > queued;
    ended.into_iter().for_each(|stream| subscriptions.end(stream, ctx));
    has_queued
}

impl Subscription {
    /// Returns the next reply with messages, and true if the log has more; `None` if there is nothing to say.
    ///
    /// # Errors
    /// The reason why the stream ends.
    fn next(&mut self, is_leaving: bool, ctx: &WorkerContext) -> Result<Option<(Reply, bool)>, CallError> {
        self.check(ctx)?;
        let mut read = ArrayVec::new();
        let topic = (self.namespace, &self.topic[..]);
        let (gap, has_more) = ctx.shared.topics.read(topic, &mut self.position, &mut read);
        let gap = self.gap.take().or(gap);
        let mut messages = Vec::new();
        if let Some(gap) = gap {
            add_gap(&mut messages, gap);
        }
        self.add_messages(&mut messages, &read)?;
        if messages.is_empty() {
            if is_leaving {
                return Err(CallError::new(Status::Unavailable, LEAVING_TEXT));
            }
            if self.heartbeat_at.0 > ctx.now.0 {
                return Ok(None);
            }
            add_heartbeat(&mut messages);
        }
        self.heartbeat_at = UnixMillis(ctx.now.0 + HEARTBEAT_MS);
        let mut grant = Grant::none(&ctx.shared.budget, MemoryUse::Replies);
        grant.force(messages.capacity() as u64);
        let reply = Reply::messages(self.stream, messages, grant, ctx.clock.ticks()).staying_open();
        Ok(Some((reply, has_more)))
    }

    /// Adds the messages that were read. A fault may end the stream before them.
    fn add_messages(
        &mut self,
        messages: &mut Vec<u8>,
        read: &ArrayVec<NumberedMessage, READ_MAX>,
    ) -> Result<(), CallError> {
        for (sequence, message) in read {
            if let Some((left, status)) = &mut self.cut {
                if *left == 0 && messages.is_empty() {
                    return Err(CallError::new(*status, FAULT_TEXT));
                }
                if *left == 0 {
                    self.position.sequence = *sequence;
                    return Ok(());
                }
                *left -= 1;
            }
            let page = self.position.page;
            add_message(messages, |out| {
                out.message(1, |item| {
                    let kind = if message.is_text { 1 } else { 2 };
                    item.uint(1, *sequence);
                    item.message(2, |value| {
                        value.item(kind, &message.value);
                    });
                    item.bytes(3, &message.publisher).uint(4, page);
                });
            });
        }
        Ok(())
    }

    /// Checks that the subscription may continue, if users or namespaces have changed.
    fn check(&mut self, ctx: &WorkerContext) -> Result<(), CallError> {
        let changes = (ctx.shared.users.changes(), ctx.shared.namespaces.changes());
        if let Some(claims) = &self.claims {
            if claims.is_expired(credentials::now_secs(ctx)) {
                return Err(CallError::new(Status::Unauthenticated, TokenError::Expired.to_string()));
            }
            if self.checked_at.0 != changes.0 {
                credentials::check_issuer(claims, &ctx.shared)?;
            }
        }
        if self.checked_at != changes {
            check_right(&self.user, self.namespace, &self.topic, ctx)?;
            if let Some(cache) = &self.cache
                && ctx.shared.namespaces.find(cache) != Some(self.namespace)
            {
                return Err(CallError::new(Status::NotFound, "the cache of the topic was deleted"));
            }
            self.checked_at = changes;
        }
        Ok(())
    }
}

/// Adds 2 a gap (1 last sequence number, 2 new sequence number, 3 new page).
fn add_gap(messages: &mut Vec<u8>, gap: Discontinuity) {
    add_message(messages, |out| {
        out.message(2, |out| {
            out.uint(1, gap.last_sequence).uint(2, gap.next.sequence).uint(3, gap.next.page);
        });
    });
}
