//! The state of a gRPC connection between two visits.

use super::calls::{self, Decode, Method, Service};
use super::credentials::{SignedToken, is_signed};
use super::execution::{CallIdentity, Execution};
use super::plain::PlainCalls;
use super::plan::{CallError, CallPlan, Commands, StreamRequest};
use super::replies::{Reply, Timed, Wire};
use super::request::CallRequest;
use super::subscriptions::{self, LEAVING_TEXT, StreamEnds, Subscriptions};
use crate::context::WorkerContext;
use crate::context::grpc_buffers::GrpcBuffers;
use crate::memory::budget::{Grant, MemoryUse};
use crate::resp::{self, TokenUser};
use crate::shared::Shared;
use crate::visit::clock::Ticks;
use base::clock::UnixMillis;
use protocol::grpc::protobuf::Message;
use protocol::grpc::{Refusal, Status, reply};
use protocol::sink::Sink;
use segment::{Guard, Namespace};
use std::collections::VecDeque;
use std::sync::Arc;

/// The least memory of a connection's incomplete requests that counts as held for its client, in bytes. It bounds the
/// number of such connections.
const HELD_REQUEST_BYTES_MIN: u64 = 64 << 10;

/// A call in execution.
pub(super) struct RunningCall {
    pub(super) stream: u32,
    pub(super) method: Result<&'static Method, Refusal>,
    /// The instants at which the request was complete, and at which the execution began.
    pub(super) ready: Ticks,
    pub(super) begun: Ticks,
    pub(super) execution: Box<Execution>,
    /// The cache that the header fields name.
    pub(super) cache: Option<Arc<[u8]>>,
    pub(super) ends: StreamEnds,
}

impl RunningCall {
    /// Returns true if the deadline of the call is past.
    pub(super) fn is_late(&self, ctx: &WorkerContext) -> bool {
        self.ends.deadline.is_some_and(|at| at.0 <= ctx.now.0)
    }

    /// Returns true if the call need not be completed.
    pub(super) fn may_end_early(&self) -> bool {
        self.method.is_ok_and(|method| method.may_end_early) && self.execution.is_authenticated()
    }

    /// Returns the reply to the call, which has just ended, with its times.
    pub(super) fn timed(&self, reply: Reply, ctx: &WorkerContext) -> Reply {
        let times = Some([self.ready, self.begun, ctx.clock.ticks()]);
        match self.method {
            Ok(method) => reply.timed(Timed { method, times }),
            Err(_) => reply,
        }
    }
}

/// The state of a gRPC connection between two visits.
pub struct GrpcSession {
    pub(super) wire: Wire,
    /// The Redis session that executes the commands of calls.
    pub(super) redis: resp::SessionState,
    /// Requests whose messages are incomplete. At most one for each open stream.
    pub(super) receiving: Vec<CallRequest>,
    /// Complete requests, in the order of their ends. At most one for each open stream.
    pub(super) waiting: VecDeque<CallRequest>,
    /// Complete requests that a fault delays, each until an instant. At most one for each open stream.
    pub(super) delayed: Vec<(UnixMillis, CallRequest)>,
    /// The subscriptions to topics, if there are or were any.
    pub(super) subscriptions: Option<Box<Subscriptions>>,
    /// The instant at which the connection is visited even if nothing is received.
    timer: Option<UnixMillis>,
    /// Gets and sets that are executed together. They precede all other calls.
    pub(super) plain: PlainCalls,
    /// The call in execution.
    pub(super) running: Option<RunningCall>,
    /// The last cache that a request named, and its namespace.
    cache: Option<(Arc<[u8]>, Option<Namespace>)>,
    /// The number of changes of namespaces when the cache was found. Another change may have given its name to another
    /// namespace.
    seen_namespaces: u64,
    /// True if the Redis session may watch the key of an earlier call.
    may_watch: bool,
    /// The share of client memory of the connection itself.
    grant: Option<Grant>,
    /// The token of the user that the Redis session has; empty if it has authenticated none.
    token: Arc<[u8]>,
    /// The name in the client's certificate, if it is that of a user: the user of calls without a token.
    identity: Option<Arc<[u8]>>,
    /// The number of changes of users at which the token was accepted.
    authenticated_at: u64,
    /// The signed token of the last call with one.
    pub(super) signed: Option<SignedToken>,
    /// The token of the last request. Requests share it.
    last_token: Arc<[u8]>,
    /// The service and method of the last request.
    last_method: Option<(&'static Service, &'static Method)>,
    /// The instant at which the client's budgets of frames were last renewed.
    relaxed_at: UnixMillis,
    /// True if the connection ends when its replies are sent.
    pub(super) is_ending: bool,
    /// True if the server stops, or another process takes over: the client must connect again.
    pub(super) is_leaving: bool,
    /// True if the client knows it.
    has_said_goodbye: bool,
}

impl GrpcSession {
    /// Returns the state of a new connection.
    pub(crate) fn of(namespace: Namespace) -> Self {
        Self {
            wire: Wire::new(),
            redis: resp::session_of_calls(namespace),
            receiving: Vec::new(),
            waiting: VecDeque::new(),
            delayed: Vec::new(),
            subscriptions: None,
            timer: None,
            plain: PlainCalls::default(),
            running: None,
            cache: None,
            seen_namespaces: 0,
            may_watch: false,
            grant: None,
            token: Arc::default(),
            identity: None,
            authenticated_at: 0,
            signed: None,
            last_token: Arc::default(),
            last_method: None,
            relaxed_at: UnixMillis(0),
            is_ending: false,
            is_leaving: false,
            has_said_goodbye: false,
        }
    }

    /// Returns the Redis session that executes the commands of calls.
    pub(crate) fn redis(&self) -> &resp::SessionState {
        &self.redis
    }

    pub(crate) fn redis_mut(&mut self) -> &mut resp::SessionState {
        &mut self.redis
    }

    /// Authenticates the client by its certificate. Returns false if there is no user with this name.
    pub(crate) fn identify(&mut self, name: &[u8], shared: &Shared) -> bool {
        let is_user = resp::identify(&mut self.redis, name, shared);
        if is_user {
            self.identity = Some(name.into());
        }
        is_user
    }

    /// Returns true if a call is in execution that ends when its client cancels it.
    pub(crate) fn may_be_cancelled(&self) -> bool {
        self.running.as_ref().is_some_and(RunningCall::may_end_early)
    }

    /// Returns true if a call is in execution, or its request or reply is incomplete.
    pub(crate) fn is_serving(&self) -> bool {
        self.has_work() || !self.receiving.is_empty() || !self.delayed.is_empty()
    }

    /// Returns true if a call waits to be executed or replied to.
    pub(crate) fn has_work(&self) -> bool {
        !self.plain.is_empty() || self.running.is_some() || !self.waiting.is_empty() || !self.wire.replies.is_empty()
    }

    /// Returns the instant since which memory waits for its client, and its size in bytes: replies that are not read,
    /// and incomplete requests if they are long together.
    pub(crate) fn reply_held(&self) -> Option<(Ticks, u64)> {
        let replies = self.wire.replies.iter().filter_map(Reply::held);
        let replies = replies.reduce(|(bytes, since), (more, _)| (bytes + more, since));
        let requests = self.receiving.iter().map(|request| (request.held_bytes(), request.received));
        let requests = requests.reduce(|(bytes, last), (more, at)| (bytes + more, last.max(at)));
        let requests = requests.filter(|(bytes, _)| *bytes >= HELD_REQUEST_BYTES_MIN);
        let held = [replies, requests].into_iter().flatten();
        held.reduce(|(bytes, since), (more, at)| (bytes + more, since.min(at))).map(|(bytes, since)| (since, bytes))
    }

    /// Asks the client to connect again: the server stops, or another process takes over. Present calls are completed.
    pub(crate) fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// Writes the frame that asks the client to connect again, if that is due. Later streams are refused, so that the
    /// client can repeat their calls elsewhere.
    pub(crate) fn say_goodbye(&mut self, out: &mut impl Sink) {
        if self.is_leaving && !self.has_said_goodbye && self.wire.http.is_open() {
            self.wire.http.finish(out);
            self.has_said_goodbye = true;
        }
    }

    /// Writes what the client must know before the connection ends: that it must connect again, and that its streams of
    /// events and its delayed calls end.
    pub(crate) fn say_farewell(&mut self, out: &mut impl Sink) {
        self.say_goodbye(out);
        for (_, request) in std::mem::take(&mut self.delayed) {
            reply::end(&mut self.wire.http, request.stream, Status::Unavailable, LEAVING_TEXT, out);
        }
        if let Some(subscriptions) = &self.subscriptions
            && self.wire.replies.is_empty()
        {
            subscriptions.say_goodbye(&mut self.wire.http, out);
        }
    }

    /// Releases what the connection holds. Returns false if the caller must call this function again in a later
    /// iteration: a transaction that has begun is completed, as for a Redis client that leaves.
    pub(crate) fn release(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext) -> bool {
        self.running = None;
        if let Some(mut subscriptions) = self.subscriptions.take() {
            subscriptions.end_all(ctx);
        }
        self.delayed.clear();
        self.set_timer(ctx);
        resp::release(&mut self.redis, guard, ctx)
    }

    /// Returns true if the user of the connection was removed. That of the last call's token ends nothing: other calls
    /// may have other tokens, and each is checked.
    pub(crate) fn has_lost_user(&self, shared: &Shared) -> bool {
        self.token.is_empty() && resp::has_lost_user(&self.redis, shared)
    }

    /// Begins the execution of a request.
    ///
    /// # Errors
    /// If it cannot be executed.
    pub(super) fn begin(&mut self, request: CallRequest, ctx: &WorkerContext) -> Result<Execution, CallError> {
        let Ok(method) = request.method else { return Err(CallError::unexpected()) };
        let mut plan = method.decode.plan(&request.message, &ctx.shared, &request.authority)?;
        let namespace = match (plan.namespace, method.decode) {
            (None, Decode::Items(_) | Decode::Topics(_) | Decode::Graphs(_)) if plan.missing_cache.is_none() => {
                let found = self.namespace(request.cache.clone(), ctx);
                found.unwrap_or_else(|missing| {
                    plan = CallPlan { stays_open: plan.stays_open, ..CallPlan::missing_cache(&missing) };
                    None
                })
            }
            (namespace, _) => namespace,
        };
        let token = own_token(&request, method)?;
        if let Some(missing) = &plan.missing_cache
            && is_signed(&token)
        {
            return Err(self.missing_cache_error(&token, method, missing, ctx));
        }
        let token_user = self.token_user(&token, method, namespace, ctx)?;
        let changes = ctx.shared.users.changes();
        let users_changed = std::mem::replace(&mut self.authenticated_at, changes) != changes;
        let mut preamble = Commands::default();
        let mut identity = None;
        if token != self.token || users_changed && !token.is_empty() && token_user.is_none() {
            // A call without a token must not have the rights of an earlier one, and must not end with its user.
            resp::forget_lost_user(&mut self.redis, &ctx.shared);
            preamble.add(&[b"RESET"]);
            identity = self.identity.clone().filter(|_| token.is_empty());
            if token_user.is_none()
                && let Some(words) = credentials(&token, ctx)
            {
                preamble.add(&words);
            }
            self.token = token;
        } else {
            resp::check_admission(&mut self.redis, &ctx.shared);
            if self.may_watch {
                preamble.add(&[b"UNWATCH"]);
            }
        }
        self.may_watch = plan.watches;
        // The message is no longer needed: its share of client memory is free for the commands.
        drop(request);
        let changes_user = preamble.count > 0;
        let enters = token_user.is_some();
        let execution = Execution::new(plan, preamble, namespace, CallIdentity { token_user, identity }, ctx);
        if let Some(signed) = &mut self.signed {
            signed.enter(enters && execution.is_ok());
        }
        if execution.is_err() && changes_user {
            // The session still has the user of an earlier call.
            self.forget_token();
        }
        execution
    }

    /// Begins the subscription of a call that was executed.
    pub(super) fn subscribe(
        &mut self,
        stream: u32,
        request: StreamRequest,
        ends: StreamEnds,
        guard: &Guard<'_>,
        ctx: &mut WorkerContext,
    ) -> Result<(), CallError> {
        let user = (&self.redis, self.signed.as_ref());
        subscriptions::subscribe(&mut self.subscriptions, user, (stream, ends), request, guard, ctx)
    }

    /// Returns true if a stream waits for the end of requests of other workers.
    pub(super) fn awaits_guards(&self) -> bool {
        self.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.awaits_guards)
    }

    /// Returns the user of a signed token for a call in a namespace; `None` if the token is not signed.
    fn token_user(
        &mut self,
        token: &Arc<[u8]>,
        method: &Method,
        namespace: Option<Namespace>,
        ctx: &WorkerContext,
    ) -> Result<Option<Arc<TokenUser>>, CallError> {
        if !is_signed(token) {
            return Ok(None);
        }
        let signed = SignedToken::of(self.signed.take(), token, ctx)?;
        let signed = self.signed.insert(signed);
        let namespace = namespace.unwrap_or_else(|| resp::home_namespace(&self.redis, ctx));
        let is_on_graphs = matches!(method.decode, Decode::Graphs(_));
        signed.user((method.name, method.access, is_on_graphs), namespace, ctx).map(Some)
    }

    /// Returns the error of a call with a signed token in a cache that does not exist: only a token that would permit
    /// the call in that cache learns that.
    fn missing_cache_error(
        &mut self,
        token: &Arc<[u8]>,
        method: &Method,
        cache: &[u8],
        ctx: &WorkerContext,
    ) -> CallError {
        let is_on_graphs = matches!(method.decode, Decode::Graphs(_));
        let signed = SignedToken::of(self.signed.take(), token, ctx);
        let permitted = signed.and_then(|signed| {
            self.signed.insert(signed).permits_in_missing((method.name, method.access, is_on_graphs), cache)
        });
        permitted.err().unwrap_or_else(|| CallError::no_cache(cache))
    }

    /// Adds a request of which only the header fields were received.
    pub(super) fn add_receiving(&mut self, request: CallRequest) {
        self.wire.http.set_user(request.stream, self.receiving.len() as u32);
        self.receiving.push(request);
    }

    /// Returns the place of the incomplete request of a stream. `guess` is the place that the stream had when it began,
    /// or when its request last moved.
    #[inline]
    pub(super) fn receiving_place(&self, stream: u32, guess: u32) -> Option<usize> {
        let guess = guess as usize;
        match self.receiving.get(guess) {
            Some(request) if request.stream == stream => Some(guess),
            _ => self.receiving.iter().position(|request| request.stream == stream),
        }
    }

    /// Removes the incomplete request at `place`. The last one moves there.
    pub(super) fn take_receiving(&mut self, place: usize) -> CallRequest {
        let request = self.receiving.swap_remove(place);
        if let Some(moved) = self.receiving.get(place) {
            self.wire.http.set_user(moved.stream, place as u32);
        }
        request
    }

    /// Forgets a request with several messages, one of which has failed.
    pub(super) fn forget_request(&mut self, stream: u32) {
        self.receiving.retain(|request| request.stream != stream);
    }

    /// Adds a complete get or set to those that are executed together. Returns false if it must be executed apart: its
    /// message is malformed, or another token or cache needs commands of its own.
    pub(super) fn add_plain(
        &mut self,
        place: usize,
        method: &'static Method,
        message: &[u8],
        buffers: &mut GrpcBuffers,
        ctx: &WorkerContext,
    ) -> bool {
        let is_first = self.running.is_none() && self.waiting.is_empty() && self.plain.may_grow();
        let request = &self.receiving[place];
        if !is_first
            || self.authenticated_at != ctx.shared.users.changes()
            || request.token != self.token
            || self.may_watch
            || request.is_late(ctx)
        {
            return false;
        }
        let (stream, cache) = (request.stream, request.cache.clone());
        let Ok(namespace) = self.namespace(cache, ctx) else { return false };
        if is_signed(&self.token) {
            let of = namespace.unwrap_or_else(|| resp::home_namespace(&self.redis, ctx));
            let covers = |signed: &SignedToken| signed.covers(&self.token, method.access, of, ctx);
            if !self.signed.as_ref().is_some_and(covers) {
                return false;
            }
        }
        let Some(Ok(item)) = method.plain.map(|call| calls::plain_item(call, message)) else { return false };
        if self.plain.is_empty() {
            self.plain.begin(buffers, ctx.ready, self.seen_namespaces);
        }
        self.plain.add(stream, method, namespace, |requests| item.add_command(requests))
    }

    /// Returns a method of a service.
    pub(super) fn method(&mut self, service: &[u8], name: &[u8]) -> Option<&'static Method> {
        match self.last_method {
            Some((last, method)) if last.name.as_bytes() == service && method.name.as_bytes() == name => Some(method),
            _ => {
                let service = calls::service(service)?;
                let method = service.method(name)?;
                self.last_method = Some((service, method));
                Some(method)
            }
        }
    }

    /// Returns the length of the token and cache of a request, unless they are those of the session.
    pub(super) fn own_bytes(&self, request: &CallRequest) -> usize {
        let is_own = |cache: &&Arc<[u8]>| {
            !self.cache.as_ref().is_some_and(|(last, namespace)| namespace.is_some() && Arc::ptr_eq(last, cache))
        };
        let cache_bytes = request.cache.as_ref().filter(is_own).map_or(0, |cache| cache.len());
        if Arc::ptr_eq(&request.token, &self.token) { cache_bytes } else { cache_bytes + request.token.len() }
    }

    /// Returns a token, shared with the last request if that has the same.
    pub(super) fn shared_token(&mut self, token: &[u8]) -> Arc<[u8]> {
        if *self.last_token != *token {
            self.last_token = token.into();
        }
        Arc::clone(&self.last_token)
    }

    /// Returns the name of a cache, shared with the last request if that has the same.
    pub(super) fn shared_cache(&mut self, name: &[u8]) -> Arc<[u8]> {
        match &self.cache {
            Some((last, _)) if **last == *name => Arc::clone(last),
            _ => {
                let shared: Arc<[u8]> = name.into();
                self.cache = Some((Arc::clone(&shared), None));
                shared
            }
        }
    }

    /// Returns the namespace of a cache; `None` for that of the listener. Returns the name of a cache that does not
    /// exist as an error.
    fn namespace(&mut self, cache: Option<Arc<[u8]>>, ctx: &WorkerContext) -> Result<Option<Namespace>, Arc<[u8]>> {
        let Some(cache) = cache.filter(|cache| !cache.is_empty()) else { return Ok(None) };
        let changes = ctx.shared.namespaces.changes();
        match &self.cache {
            Some((name, Some(namespace))) if *name == cache && changes == self.seen_namespaces => Ok(Some(*namespace)),
            _ => {
                let Some(found) = ctx.shared.namespaces.find(&cache) else { return Err(cache) };
                (self.cache, self.seen_namespaces) = (Some((cache, Some(found))), changes);
                Ok(Some(found))
            }
        }
    }

    /// Continues the delayed requests whose delay is over.
    pub(super) fn end_delays(&mut self, now: UnixMillis) {
        if self.timer.is_some_and(|timer| timer.0 <= now.0) {
            self.timer = None;
        }
        while let Some(place) = self.delayed.iter().position(|(until, _)| until.0 <= now.0) {
            self.waiting.push_back(self.delayed.remove(place).1);
        }
    }

    /// Arranges the next visit: for the next heartbeat or the deadline of a subscription, or the end of a delay.
    pub(super) fn set_timer(&mut self, ctx: &mut WorkerContext) {
        let delays = self.delayed.iter().map(|(until, _)| *until);
        let heartbeat = self.subscriptions.as_ref().and_then(|subscriptions| subscriptions.next_visit());
        let next = delays.chain(heartbeat).min_by_key(|at| at.0);
        if next != self.timer {
            let connection = ctx.push.watch.connection;
            self.timer.inspect(|timer| ctx.timers.remove(*timer, connection));
            next.inspect(|next| ctx.timers.add(*next, connection));
            self.timer = next;
        }
    }

    /// Returns true if the client has a stream of events.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.any())
    }

    /// Forgets a stream that was reset. A call in execution is completed if it may have changed items.
    pub(super) fn cancel(&mut self, stream: u32, ctx: &WorkerContext) {
        if self.running.as_ref().is_some_and(|running| running.stream == stream && running.may_end_early())
            && resp::abandon_query(&mut self.redis)
        {
            self.running = None;
        }
        if let Some(subscriptions) = &mut self.subscriptions {
            subscriptions.end(stream, false, ctx);
        }
        self.delayed.retain(|(_, request)| request.stream != stream);
        self.receiving.retain(|request| request.stream != stream);
        self.waiting.retain(|request| request.stream != stream);
        self.wire.replies.retain(|reply| reply.stream != stream);
    }

    /// Renews the client's budgets: of resets with each millisecond, of frames without requests once a second.
    #[inline]
    pub(super) fn relax(&mut self, now: UnixMillis) {
        let before = std::mem::replace(&mut self.relaxed_at, now);
        if before.0 < now.0 {
            self.wire.http.elapse(now.0 - before.0);
        }
        if before.secs() != now.secs() {
            self.wire.http.tick();
        }
    }

    /// Forgets the token, because it may not have been accepted.
    pub(super) fn forget_token(&mut self) {
        self.token = Arc::from(&b"\0"[..]);
    }

    /// Charges the connection's memory to client memory. Returns false if client memory is used up.
    pub(super) fn account(&mut self, ctx: &WorkerContext) -> bool {
        let queues = self.receiving.capacity() * size_of::<CallRequest>()
            + self.waiting.capacity() * size_of::<CallRequest>()
            + self.delayed.capacity() * size_of::<(UnixMillis, CallRequest)>()
            + self.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.bytes())
            + self.wire.replies.capacity() * size_of::<Reply>();
        let signed = self.signed.as_ref().map_or(0, SignedToken::bytes);
        let names =
            signed + self.token.len() + self.last_token.len() + self.cache.as_ref().map_or(0, |(name, _)| name.len());
        let bytes = (size_of::<Self>() + names + queues + self.wire.http.heap_bytes() + self.plain.held_bytes()) as u64;
        let grant = self.grant.get_or_insert_with(|| Grant::none(&ctx.shared.budget, MemoryUse::Requests));
        grant.bytes() == bytes || grant.resize(bytes)
    }
}

/// Returns the token of a request: that of its header, or of its message if the method has a field for it.
fn own_token(request: &CallRequest, method: &Method) -> Result<Arc<[u8]>, CallError> {
    Ok(match method.decode {
        // The tokens in the message authenticate the call, and that in the header may have expired.
        Decode::Tokens(_, 0) => Arc::default(),
        Decode::Tokens(_, field) if request.token.is_empty() => Message::parse(&request.message)?.bytes(field).into(),
        _ => Arc::clone(&request.token),
    })
}

/// Returns the words of the `AUTH` command for a token: `USER:PASSWORD`, or the password of the default user. Returns
/// `None` if there is no token, or if no user needs a password and the token names none of the users.
fn credentials<'t>(token: &'t [u8], ctx: &WorkerContext) -> Option<Vec<&'t [u8]>> {
    let words = match token.iter().position(|byte| *byte == b':') {
        Some(at) => vec![&b"AUTH"[..], &token[..at], &token[at + 1..]],
        None => vec![&b"AUTH"[..], token],
    };
    let names_user = words.len() == 3 && ctx.shared.users.has(words[1]);
    (!token.is_empty() && (names_user || ctx.shared.requires_authentication())).then_some(words)
}
