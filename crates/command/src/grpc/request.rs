//! Requests: their header fields, and their messages while they arrive.

use super::calls::Method;
use super::plan::{CallError, no_memory};
use crate::clients::faults::CallFaults;
use crate::context::WorkerContext;
use crate::memory::budget::{Grant, MemoryUse};
use crate::visit::clock::Ticks;
use protocol::grpc::{MessageError, MessagePart, MessageReader, Refusal, Status};
use std::sync::Arc;

/// A request that is not complete, or has not begun.
pub(super) struct CallRequest {
    pub(super) stream: u32,
    /// The method, or the reason why the request is not a call. Such a request of HTTP is read to its end before it is
    /// refused, because clients expect no reply before.
    pub(super) method: Result<&'static Method, Refusal>,
    /// The cache that the request names, if it names one.
    pub(super) cache: Option<Arc<[u8]>>,
    /// The token of the request; empty if it has none.
    pub(super) token: Arc<[u8]>,
    /// The address under which the client knows the server, if the call issues a token.
    pub(super) authority: Arc<[u8]>,
    /// The instant at which the request began, and its time limit in ns; `None` if it has none.
    begun: Ticks,
    timeout_ns: Option<u64>,
    /// The instant at which the last bytes of the request were received.
    pub(super) received: Ticks,
    reader: MessageReader,
    /// The message, as far as it was received.
    pub(super) message: Vec<u8>,
    /// True if the message is complete. A queued request without one is the end of a request with several.
    pub(super) is_whole: bool,
    /// The share of client memory of the request.
    grant: Option<Grant>,
    /// The faults that the request asks for.
    pub(super) faults: Option<CallFaults>,
}

impl CallRequest {
    /// Creates the request of a stream of which nothing but the header fields was received, at the instant `begun`.
    pub(super) fn new(
        stream: u32,
        method: Result<&'static Method, Refusal>,
        (cache, token): (Option<Arc<[u8]>>, Arc<[u8]>),
        begun: Ticks,
        timeout_ns: Option<u64>,
    ) -> Self {
        Self {
            stream,
            method,
            cache,
            token,
            authority: Arc::default(),
            begun,
            timeout_ns,
            received: begun,
            reader: MessageReader::new(),
            message: Vec::new(),
            is_whole: false,
            grant: None,
            faults: None,
        }
    }

    /// Returns the share of client memory of the request, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.grant.as_ref().map_or(0, Grant::bytes)
    }

    /// Returns true if nothing of the message was received.
    pub(super) fn is_new(&self) -> bool {
        self.reader.is_new() && !self.is_whole
    }

    /// Removes a complete message of a request with several, as a request of its own.
    pub(super) fn take_message(&mut self) -> Self {
        Self {
            stream: self.stream,
            method: self.method,
            cache: self.cache.clone(),
            token: Arc::clone(&self.token),
            authority: Arc::clone(&self.authority),
            begun: self.begun,
            received: self.received,
            timeout_ns: self.timeout_ns,
            reader: MessageReader::new(),
            message: std::mem::take(&mut self.message),
            is_whole: std::mem::take(&mut self.is_whole),
            grant: self.grant.take(),
            faults: self.faults,
        }
    }

    /// Returns true if the time limit of the request is past.
    pub(super) fn is_late(&self, ctx: &WorkerContext) -> bool {
        self.timeout_ns.is_some_and(|limit| ctx.clock.ns_between(self.begun, ctx.clock.ticks()) >= limit)
    }

    /// Charges `bytes` further bytes to client memory. Returns false if client memory is used up.
    pub(super) fn charge(&mut self, bytes: usize, ctx: &WorkerContext) -> bool {
        let grant = self.grant.get_or_insert_with(|| Grant::none(&ctx.shared.budget, MemoryUse::Requests));
        grant.resize(grant.bytes() + bytes as u64)
    }

    /// Appends received bytes, and removes those that are used: all, or those of one message of several. Each byte of
    /// the message is stored once. Room for it doubles up to its length: a client holds no more than twice of what it
    /// has sent.
    ///
    /// # Errors
    /// If the bytes are not messages, or more than one for a request of one, or client memory is used up.
    pub(super) fn append(&mut self, bytes: &mut &[u8], ctx: &WorkerContext) -> Result<(), CallError> {
        if self.method.is_err() {
            *bytes = &[];
            return Ok(());
        }
        let is_streaming = self.method.is_ok_and(|method| method.is_streaming);
        loop {
            if self.is_whole && is_streaming {
                return Ok(());
            }
            match self.reader.next(bytes).map_err(error_of)? {
                MessagePart::More => return Ok(()),
                MessagePart::Start { .. } if self.is_whole => {
                    let text = "the call has more than one request message; send one";
                    return Err(CallError::new(Status::Unimplemented, text));
                }
                MessagePart::Start { compressed: true, .. } => {
                    let text = "the message is compressed; send it without compression";
                    return Err(CallError::new(Status::Unimplemented, text));
                }
                MessagePart::Start { .. } => {}
                MessagePart::Bytes { bytes: part, last } => {
                    let wanted = self.message.len() + part.len();
                    if wanted > self.message.capacity() {
                        let room = if last { wanted } else { wanted.max(2 * self.message.capacity()) };
                        if !self.charge(room - self.message.capacity(), ctx) {
                            return Err(no_memory());
                        }
                        self.message.reserve_exact(room - self.message.len());
                    }
                    self.message.extend_from_slice(part);
                    self.is_whole = last;
                    self.received = ctx.clock.ticks();
                }
            }
        }
    }
}

/// Returns the error of a call whose request is not one message.
pub(super) fn error_of(error: MessageError) -> CallError {
    match error {
        MessageError::TooLong => {
            let error =
                CallError::new(Status::ResourceExhausted, "the message is longer than 10 MiB; send less in one call");
            error.beyond("request_size_limit_exceeded")
        }
        MessageError::Flag => CallError::new(Status::Internal, "the prefix of the message is malformed"),
        MessageError::Truncated => CallError::new(Status::Internal, "the request ended within its message"),
    }
}
