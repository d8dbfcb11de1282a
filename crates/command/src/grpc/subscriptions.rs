//! The streams of events of a connection: of topics, of changes of keys, and of the server's health.
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
use super::key_watch::KeyWatch;
use super::plan::{CallError, StreamRequest, TopicRequest, add_message};
use super::replies::{Reply, Wire};
use crate::clients::faults::FAULT_TEXT;
use crate::clients::tokens::{Claims, TokenError};
use crate::context::WorkerContext;
use crate::memory::budget::{Grant, MemoryUse};
use crate::push::outbox::Outbox;
use crate::push::topics::{Discontinuity, NumberedMessage, READ_MAX, TopicPosition};
use crate::resp::{self, StreamRight};
use arrayvec::ArrayVec;
use base::clock::UnixMillis;
use protocol::grpc::{Status, reply};
use protocol::http2::ServerConnection;
use protocol::sink::Sink;
use segment::{Guard, Namespace};
use std::sync::Arc;

/// The time between two messages of a stream, in ms. A heartbeat shows a client that an idle subscription works.
const HEARTBEAT_MS: u64 = 5_000;

/// The text of the end of a stream when its server leaves.
pub(super) const LEAVING_TEXT: &str = "the server stops or is replaced; call again";

/// The reasons for which a stream ends before its client ends it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamEnds {
    /// The number of messages after which a fault ends the stream, and its status.
    pub(super) cut: Option<(u64, Status)>,
    /// The instant after which the client no longer waits.
    pub(super) deadline: Option<UnixMillis>,
}

/// The events of a subscription.
enum EventSource {
    /// The messages of a topic.
    Topic(TopicReader),
    /// The changes of keys.
    Keys(Box<KeyWatch>, Vec<Box<[u8]>>),
    /// The server's health, which changes only when the server leaves.
    Health,
}

/// A subscription to a topic.
struct TopicReader {
    topic: Arc<[u8]>,
    position: TopicPosition,
    /// The gap before the next message, if it is not written.
    gap: Option<Discontinuity>,
    /// True if heartbeats name the position, from which a client continues that has received no message.
    has_positions: bool,
    /// True if the first heartbeat, which precedes all messages, was added.
    has_begun: bool,
    /// The number of messages after which a fault ends the stream, and its status.
    cut: Option<(u64, Status)>,
}

/// The stream of events of a call.
struct Subscription {
    stream: u32,
    namespace: Namespace,
    /// The cache that the request names; `None` for that of the listener.
    cache: Option<Arc<[u8]>>,
    source: EventSource,
    /// The instant of the next heartbeat, if no message comes before. A stream of health has none.
    heartbeat_at: Option<UnixMillis>,
    /// The instant at which the stream ends.
    deadline: Option<UnixMillis>,
    user: resp::CallUser,
    /// The claims of the signed token of the subscription, if it has one.
    claims: Option<Arc<Claims>>,
    /// The numbers of changes of users and of namespaces at the last check of the subscription.
    checked_at: (u64, u64),
}

/// The subscriptions of a connection.
pub(super) struct Subscriptions {
    all: Vec<Subscription>,
    /// The outbox by which the connection is visited when a topic has messages.
    outbox: Arc<Outbox>,
    /// True if a subscription may have messages that are not queued as replies.
    may_have_messages: bool,
    /// True if a subscription to changes of keys waits for the end of requests of other workers.
    pub(super) awaits_guards: bool,
}

impl Subscriptions {
    /// Returns the instant of the first heartbeat or deadline.
    pub(super) fn next_visit(&self) -> Option<UnixMillis> {
        let visits = self.all.iter().flat_map(|subscription| [subscription.heartbeat_at, subscription.deadline]);
        visits.flatten().min_by_key(|at| at.0)
    }

    /// Returns true if there is a subscription.
    pub(super) fn any(&self) -> bool {
        !self.all.is_empty()
    }

    /// Writes the ends of all streams, because the connection ends.
    pub(super) fn say_goodbye(&self, http: &mut ServerConnection, out: &mut impl Sink) {
        for subscription in &self.all {
            reply::end(http, subscription.stream, Status::Unavailable, LEAVING_TEXT, out);
        }
    }

    /// Returns the memory of the subscriptions, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let names = self.all.iter().map(|subscription| subscription.source.bytes()).sum::<usize>();
        size_of::<Self>() + self.all.capacity() * size_of::<Subscription>() + names
    }

    fn shares_topic(&self, namespace: Namespace, topic: &[u8]) -> bool {
        let reads = |source: &EventSource| matches!(source, EventSource::Topic(reader) if *reader.topic == *topic);
        self.all.iter().any(|other| other.namespace == namespace && reads(&other.source))
    }

    /// Ends the subscription of a stream, if there is one. `may_return`: its client did not cancel it.
    pub(super) fn end(&mut self, stream: u32, may_return: bool, ctx: &WorkerContext) {
        if let Some(place) = self.all.iter().position(|subscription| subscription.stream == stream) {
            let Subscription { namespace, source, .. } = self.all.swap_remove(place);
            if let EventSource::Topic(TopicReader { topic, .. }) = source
                && !self.shares_topic(namespace, &topic)
            {
                ctx.shared.topics.unsubscribe((namespace, &topic), &self.outbox, may_return, ctx.now);
            }
        }
    }

    /// Ends all subscriptions.
    pub(super) fn end_all(&mut self, ctx: &WorkerContext) {
        while let Some(stream) = self.all.last().map(|subscription| subscription.stream) {
            self.end(stream, true, ctx);
        }
    }
}

/// Begins a subscription of a stream in the namespace of the Redis session, with its user. `signed` is the token of
/// that user if it is signed.
pub(super) fn subscribe(
    subscriptions: &mut Option<Box<Subscriptions>>,
    (redis, signed): (&resp::SessionState, Option<&SignedToken>),
    (stream, ends): (u32, StreamEnds),
    request: StreamRequest,
    guard: &Guard<'_>,
    ctx: &mut WorkerContext,
) -> Result<(), CallError> {
    let namespace = redis.namespace;
    let user = resp::call_user(redis);
    let subscriptions = subscriptions.get_or_insert_with(|| {
        let outbox = ctx.shared.channels.outbox(ctx.worker, ctx.push.watch.connection);
        Box::new(Subscriptions { all: Vec::new(), outbox, may_have_messages: false, awaits_guards: false })
    });
    let (cache, source) = match request {
        StreamRequest::Health => (None, EventSource::Health),
        StreamRequest::Topic(request) => {
            credentials::check_login(redis, ctx)?;
            check(resp::topic_right(&user, &ctx.shared, namespace, &request.topic))?;
            let cache = request.cache.clone();
            (cache, EventSource::Topic(read_topic(subscriptions, namespace, request, ends.cut, ctx)?))
        }
        StreamRequest::Keys { cache, prefixes } => {
            credentials::check_login(redis, ctx)?;
            check(resp::watch_right(&user, &ctx.shared, namespace, &prefixes))?;
            (cache, EventSource::Keys(Box::new(KeyWatch::begin(&prefixes, namespace, guard, ctx)?), prefixes))
        }
    };
    subscriptions.all.push(Subscription {
        stream,
        namespace,
        cache,
        // The first heartbeat is due when the stream has begun.
        heartbeat_at: match source {
            EventSource::Topic(_) | EventSource::Keys(..) => Some(ctx.now),
            EventSource::Health => None,
        },
        deadline: ends.deadline,
        source,
        user,
        claims: signed.filter(|_| resp::is_token(redis)).map(|signed| Arc::clone(&signed.claims)),
        checked_at: (ctx.shared.users.changes(), ctx.shared.namespaces.changes()),
    });
    subscriptions.may_have_messages = true;
    Ok(())
}

fn read_topic(
    subscriptions: &Subscriptions,
    namespace: Namespace,
    request: TopicRequest,
    cut: Option<(u64, Status)>,
    ctx: &WorkerContext,
) -> Result<TopicReader, CallError> {
    let TopicRequest { topic, from, has_positions, .. } = request;
    let is_new = !subscriptions.shares_topic(namespace, &topic);
    let begun = ctx.shared.topics.subscribe((namespace, &topic), &subscriptions.outbox, is_new, from, ctx.now);
    let Some((position, gap)) = begun else {
        let text = "no further topic: client memory is used up (limits.client_memory), or there are too many topics";
        return Err(CallError::new(Status::ResourceExhausted, text));
    };
    Ok(TopicReader { topic, position, gap, has_positions, has_begun: false, cut })
}

fn check(right: StreamRight) -> Result<(), CallError> {
    match right {
        StreamRight::Granted => Ok(()),
        StreamRight::Denied => Err(CallError::stream_denied()),
        StreamRight::Unknown => Err(CallError::new(Status::Unauthenticated, "the user no longer exists")),
    }
}

/// Queues the next messages and heartbeats of all subscriptions without a reply that waits. Returns true if any was
/// queued.
pub(super) fn advance(
    subscriptions: &mut Option<Box<Subscriptions>>,
    wire: &mut Wire,
    is_leaving: bool,
    guard: &Guard<'_>,
    ctx: &WorkerContext,
) -> bool {
    let Some(subscriptions) = subscriptions else { return false };
    let is_signalled = subscriptions.outbox.take_signal();
    let is_due = subscriptions.next_visit().is_some_and(|at| at.0 <= ctx.now.0);
    let have_keys = || subscriptions.all.iter().any(|subscription| subscription.source.has_keys());
    if !is_signalled && !is_due && !is_leaving && !subscriptions.may_have_messages && !have_keys() {
        return false;
    }
    let replies = &mut wire.replies;
    (subscriptions.may_have_messages, subscriptions.awaits_guards) = (false, false);
    let (mut ended, queued) = (Vec::new(), replies.len());
    for subscription in &mut subscriptions.all {
        if replies.iter().any(|reply| reply.stream == subscription.stream) {
            // The reply that waits is a sign of life when the client opens its window.
            let next = UnixMillis(ctx.now.0 + HEARTBEAT_MS);
            subscription.heartbeat_at = subscription.heartbeat_at.map(|at| if at.0 > next.0 { at } else { next });
            subscriptions.may_have_messages = true;
            continue;
        }
        if let EventSource::Keys(watch, _) = &mut subscription.source
            && !watch.has_begun(guard)
        {
            (subscriptions.may_have_messages, subscriptions.awaits_guards) = (true, true);
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
    ended.into_iter().for_each(|stream| subscriptions.end(stream, true, ctx));
    has_queued
}

impl EventSource {
    fn bytes(&self) -> usize {
        match self {
            Self::Topic(reader) => reader.topic.len(),
            Self::Keys(watch, _) => watch.bytes(),
            Self::Health => 0,
        }
    }

    /// Returns the position that a heartbeat names.
    fn next_position(&self) -> TopicPosition {
        match self {
            Self::Topic(reader) => reader.next_position(),
            Self::Keys(..) | Self::Health => TopicPosition::default(),
        }
    }

    fn has_keys(&self) -> bool {
        matches!(self, Self::Keys(watch, _) if watch.has_keys())
    }
}

impl Subscription {
    /// Returns the next reply with messages, and true if there are more; `None` if there is nothing to say.
    ///
    /// # Errors
    /// The reason why the stream ends.
    fn next(&mut self, is_leaving: bool, ctx: &WorkerContext) -> Result<Option<(Reply, bool)>, CallError> {
        self.check(ctx)?;
        if self.deadline.is_some_and(|at| at.0 <= ctx.now.0) {
            return Err(CallError::new(Status::DeadlineExceeded, "the deadline of the stream is past"));
        }
        let mut messages = Vec::new();
        let has_more = match &mut self.source {
            EventSource::Topic(reader) => reader.add_messages(self.namespace, &mut messages, ctx)?,
            EventSource::Keys(watch, _) => watch.add_messages(&mut messages)?,
            EventSource::Health => false,
        };
        if messages.is_empty() {
            if is_leaving {
                return Err(CallError::new(Status::Unavailable, LEAVING_TEXT));
            }
            if self.heartbeat_at.is_none_or(|at| at.0 > ctx.now.0) {
                return Ok(None);
            }
            add_heartbeat(&mut messages, self.source.next_position());
        }
        self.heartbeat_at = self.heartbeat_at.map(|_| UnixMillis(ctx.now.0 + HEARTBEAT_MS));
        let mut grant = Grant::none(&ctx.shared.budget, MemoryUse::Replies);
        grant.force(messages.capacity() as u64);
        let reply = Reply::messages(self.stream, messages, grant, ctx.clock.ticks()).staying_open();
        Ok(Some((reply, has_more)))
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
        if self.checked_at == changes {
            return Ok(());
        }
        if let Some(cache) = &self.cache
            && ctx.shared.namespaces.find(cache) != Some(self.namespace)
        {
            return Err(CallError::new(Status::NotFound, "the cache was deleted"));
        }
        match &self.source {
            EventSource::Topic(reader) => {
                check(resp::topic_right(&self.user, &ctx.shared, self.namespace, &reader.topic))?;
            }
            EventSource::Keys(_, prefixes) => {
                check(resp::watch_right(&self.user, &ctx.shared, self.namespace, prefixes))?;
            }
            EventSource::Health => {}
        }
        self.checked_at = changes;
        Ok(())
    }
}

impl TopicReader {
    /// Returns the position of the next message. Before a gap is written it is not known: a client that continued
    /// there would not learn of the gap.
    fn next_position(&self) -> TopicPosition {
        if self.has_positions && self.gap.is_none() { self.position } else { TopicPosition::default() }
    }

    /// Adds the next messages of the topic's log. Returns true if there are more. A fault may end the stream before
    /// them.
    fn add_messages(
        &mut self,
        namespace: Namespace,
        messages: &mut Vec<u8>,
        ctx: &WorkerContext,
    ) -> Result<bool, CallError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            add_heartbeat(messages, self.next_position());
        }
        let mut read: ArrayVec<NumberedMessage, READ_MAX> = ArrayVec::new();
        let (gap, has_more) = ctx.shared.topics.read((namespace, &self.topic), ctx.now, &mut self.position, &mut read);
        let gap = match (self.gap.take(), gap) {
            // The messages after the first gap are gone too.
            (Some(first), Some(second)) => Some(Discontinuity { last_sequence: first.last_sequence, ..second }),
            (first, second) => first.or(second),
        };
        if let Some(gap) = gap {
            add_gap(messages, gap);
        }
        for (sequence, message) in &read {
            if let Some((left, status)) = &mut self.cut {
                if *left == 0 && messages.is_empty() {
                    return Err(CallError::new(*status, FAULT_TEXT));
                }
                if *left == 0 {
                    self.position.sequence = *sequence;
                    return Ok(true);
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
        Ok(has_more)
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
