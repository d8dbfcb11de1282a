//! The state of a gRPC connection between two visits.

use super::calls::Decode;
use super::execution::Execution;
use super::plan::{CallError, Commands};
use crate::context::WorkerContext;
use crate::memory::budget::{Grant, MemoryUse};
use crate::resp;
use crate::visit::clock::Ticks;
use protocol::grpc::Status;
use protocol::grpc::http2::Http2;
use segment::{Guard, Namespace};
use std::collections::VecDeque;

/// A request that is not complete, or has not begun.
pub(super) struct CallRequest {
    pub(super) stream: u32,
    /// The function that decodes the message; `None` if the request is one of HTTP and not of gRPC.
    pub(super) decode: Option<Decode>,
    /// The cache that the request names, if it names one.
    pub(super) cache: Option<Box<[u8]>>,
    /// The token of the request; empty if it has none.
    pub(super) token: Box<[u8]>,
    /// The instant at which the request began, and its time limit in ns; 0 if it has none.
    pub(super) begun: Ticks,
    pub(super) timeout_ns: u64,
    /// The message, with its prefix, as far as it was received.
    pub(super) message: Vec<u8>,
    /// The share of client memory of the message.
    pub(super) grant: Grant,
}

/// A reply that is not completely sent.
pub(super) struct Reply {
    pub(super) stream: u32,
    /// The messages with their prefixes, or the error. `None` is the reply to a request of HTTP.
    pub(super) result: Option<Result<Vec<u8>, CallError>>,
    /// The share of client memory of the messages, and the instant at which they were complete.
    pub(super) held: Option<(Grant, Ticks)>,
    /// The number of bytes of the messages that are written; `None` if the headers are not.
    pub(super) sent: Option<usize>,
}

/// The state of a gRPC connection between two visits.
pub struct GrpcSession {
    /// The state of HTTP/2, from the first byte on.
    pub(super) http: Option<Box<Http2>>,
    /// The Redis session that executes the commands of calls.
    redis: resp::SessionState,
    /// Requests whose messages are incomplete. At most one for each open stream.
    pub(super) receiving: Vec<CallRequest>,
    /// Complete requests, in the order of their ends. At most one for each open stream.
    pub(super) waiting: VecDeque<CallRequest>,
    /// The call in execution, and its stream.
    pub(super) running: Option<(u32, Box<Execution>)>,
    /// Replies that are not completely written. At most one for each open stream.
    pub(super) replies: VecDeque<Reply>,
    /// The last cache that a request named, and its namespace.
    cache: Option<(Box<[u8]>, Namespace)>,
    /// The number of changes of namespaces when the cache was found. Another change may have given its name to another
    /// namespace.
    seen_namespaces: u64,
    /// True if the Redis session may watch the key of an earlier call.
    may_watch: bool,
    /// The share of client memory of the connection itself.
    grant: Option<Grant>,
    /// The token of the user that the Redis session has; empty if it has authenticated none.
    token: Box<[u8]>,
    /// The second in which the counters of idle frames were last relaxed.
    pub(super) relaxed_secs: u64,
    /// True if the connection ends when its replies are sent.
    pub(super) is_ending: bool,
}

impl CallRequest {
    /// Charges the request with room for `message_bytes` bytes to client memory. Returns false if client memory is used
    /// up.
    pub(super) fn reserve(&mut self, message_bytes: usize) -> bool {
        let metadata_bytes = self.token.len() + self.cache.as_ref().map_or(0, |cache| cache.len());
        self.grant.resize((size_of::<Self>() + metadata_bytes + message_bytes) as u64)
    }
}

impl Reply {
    /// Creates the reply with an error.
    pub(super) fn error(stream: u32, error: CallError) -> Self {
        Self { stream, result: Some(Err(error)), held: None, sent: None }
    }
}

impl GrpcSession {
    /// Returns the state of a new connection.
    pub(crate) fn of(namespace: Namespace) -> Self {
        Self {
            http: None,
            redis: resp::session_of_calls(namespace),
            receiving: Vec::new(),
            waiting: VecDeque::new(),
            running: None,
            replies: VecDeque::new(),
            cache: None,
            seen_namespaces: 0,
            may_watch: false,
            grant: None,
            token: Box::default(),
            relaxed_secs: 0,
            is_ending: false,
        }
    }

    /// Returns the Redis session that executes the commands of calls.
    pub(crate) fn redis(&self) -> &resp::SessionState {
        &self.redis
    }

    pub(crate) fn redis_mut(&mut self) -> &mut resp::SessionState {
        &mut self.redis
    }

    /// Returns true if a call is in execution, or its request or reply is incomplete.
    pub(crate) fn is_serving(&self) -> bool {
        self.has_work() || !self.receiving.is_empty()
    }

    /// Returns true if a call waits to be executed or replied to.
    pub(crate) fn has_work(&self) -> bool {
        self.running.is_some() || !self.waiting.is_empty() || !self.replies.is_empty()
    }

    /// Returns the instant since which a reply waits for its client, and the length of such replies in bytes.
    pub(crate) fn reply_held(&self) -> Option<(Ticks, u64)> {
        let bytes = self.replies.iter().filter_map(|reply| reply.held.as_ref()).map(|(grant, _)| grant.bytes()).sum();
        let oldest = self.replies.iter().filter_map(|reply| reply.held.as_ref()).map(|(_, since)| *since).next();
        oldest.map(|since| (since, bytes))
    }

    /// Releases what the connection holds. Returns false if the caller must call this function again in a later
    /// iteration: a transaction that has begun is completed, as for a Redis client that leaves.
    pub(crate) fn release(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext) -> bool {
        self.running = None;
        resp::release(&mut self.redis, guard, ctx)
    }

    /// Begins the execution of a request.
    ///
    /// # Errors
    /// If it cannot be executed.
    pub(super) fn begin(&mut self, request: CallRequest, ctx: &WorkerContext) -> Result<Execution, CallError> {
        let Some(decode) = request.decode else { return Err(CallError::unexpected()) };
        let plan = decode.plan(&request.message, &ctx.shared)?;
        let namespace = match (plan.namespace, decode) {
            (None, Decode::Items(_)) => self.namespace(request.cache.as_deref().unwrap_or_default(), ctx)?,
            (namespace, _) => namespace,
        };
        let mut preamble = Commands::default();
        if request.token != self.token {
            // A call without a token must not have the rights of an earlier one.
            preamble.add(&[b"RESET"]);
            if let Some(words) = credentials(&request.token, ctx) {
                preamble.add(&words);
            }
            self.token.clone_from(&request.token);
        } else if self.may_watch {
            preamble.add(&[b"UNWATCH"]);
        }
        self.may_watch = plan.watches;
        // The message is no longer needed: its share of client memory is free for the commands.
        drop(request);
        Execution::new(plan, preamble, namespace, ctx)
    }

    /// Returns the namespace of a cache; `None` for that of the listener.
    fn namespace(&mut self, cache: &[u8], ctx: &WorkerContext) -> Result<Option<Namespace>, CallError> {
        if cache.is_empty() {
            return Ok(None);
        }
        let changes = ctx.shared.namespaces.changes();
        match &self.cache {
            Some((name, namespace)) if **name == *cache && changes == self.seen_namespaces => Ok(Some(*namespace)),
            _ => {
                let found = ctx.shared.namespaces.find(cache).ok_or_else(|| {
                    let name = String::from_utf8_lossy(cache);
                    CallError::new(Status::NotFound, format!("the cache {name} does not exist; create it first"))
                })?;
                (self.cache, self.seen_namespaces) = (Some((cache.into(), found)), changes);
                Ok(Some(found))
            }
        }
    }

    /// Permits the client further idle frames once a second.
    pub(super) fn relax(&mut self, now_secs: u64) {
        if self.relaxed_secs != now_secs
            && let Some(http) = &mut self.http
        {
            http.relax();
            self.relaxed_secs = now_secs;
        }
    }

    /// Forgets the token, because it may not have been accepted.
    pub(super) fn forget_token(&mut self) {
        self.token = Box::from(&b"\0"[..]);
    }

    /// Charges the connection's memory, of which `http_bytes` are those of HTTP/2, to client memory. Returns false if
    /// client memory is used up.
    pub(super) fn account(&mut self, http_bytes: usize, ctx: &WorkerContext) -> bool {
        let bytes = (http_bytes + size_of::<Self>()) as u64;
        let grant = self.grant.get_or_insert_with(|| Grant::none(&ctx.shared.budget, MemoryUse::Requests));
        grant.bytes() == bytes || grant.resize(bytes)
    }
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
