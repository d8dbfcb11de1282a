//! Requests: their header fields, and their messages while they arrive.

use super::calls::Method;
use super::compression::{Decompression, Encoding};
use super::plan::{CallError, message_error, no_memory};
use crate::clients::faults::CallFaults;
use crate::context::WorkerContext;
use crate::memory::budget::{Grant, MemoryUse};
use crate::visit::clock::Ticks;
use base::clock::UnixMillis;
use protocol::grpc::{MessagePart, MessageReader, Refusal};
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
    /// The encoding of the request's messages if they are compressed, and true if the present message is.
    pub(super) encoding: Encoding,
    is_compressed: bool,
    /// The message while it is decompressed.
    decompression: Option<Box<Decompression>>,
    /// The memory of the request's names, in bytes, as far as it counts for this request.
    own_bytes: usize,
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
            encoding: Encoding::Identity,
            is_compressed: false,
            decompression: None,
            own_bytes: 0,
            grant: None,
            faults: None,
        }
    }

    /// Returns the share of client memory of the request, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.grant.as_ref().map_or(0, Grant::bytes)
    }

    /// Returns true if the last byte received is not the last one of a message.
    pub(super) fn is_cut(&self) -> bool {
        self.reader.finish().is_err()
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
            encoding: self.encoding,
            is_compressed: std::mem::take(&mut self.is_compressed),
            decompression: None,
            own_bytes: std::mem::take(&mut self.own_bytes),
            grant: self.grant.take(),
            faults: self.faults,
        }
    }

    /// Returns true if the time limit of the request is past.
    pub(super) fn is_late(&self, ctx: &WorkerContext) -> bool {
        self.timeout_ns.is_some_and(|limit| ctx.clock.ns_between(self.begun, ctx.clock.ticks()) >= limit)
    }

    /// Returns the instant at which the time limit of the request is past; `None` if it has none.
    pub(super) fn deadline(&self, ctx: &WorkerContext) -> Option<UnixMillis> {
        let elapsed_ns = ctx.clock.ns_between(self.begun, ctx.clock.ticks());
        let left_ms = self.timeout_ns.map(|limit| limit.saturating_sub(elapsed_ns).div_ceil(1_000_000));
        left_ms.map(|left_ms| UnixMillis(ctx.now.0.saturating_add(left_ms)))
    }

    /// Charges the memory of the request's names. Returns false if client memory is used up.
    pub(super) fn charge_names(&mut self, bytes: usize, ctx: &WorkerContext) -> bool {
        self.own_bytes = bytes;
        bytes == 0 || self.charge(bytes, ctx)
    }

    /// Charges `bytes` further bytes to client memory. Returns false if client memory is used up.
    fn charge(&mut self, bytes: usize, ctx: &WorkerContext) -> bool {
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
            match self.reader.next(bytes).map_err(message_error)? {
                MessagePart::More => return Ok(()),
                MessagePart::Start { .. } if self.is_whole => {
                    return Err(CallError::second_message());
                }
                MessagePart::Start { compressed: true, .. } => {
                    self.encoding.check()?;
                    self.is_compressed = true;
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

impl CallRequest {
    /// Decompresses the next part of a complete message. Returns true when the message can be decoded.
    ///
    /// # Errors
    /// If the message is malformed or too long, or client memory is used up.
    pub(super) fn decompress(&mut self, ctx: &WorkerContext) -> Result<bool, CallError> {
        if !self.is_compressed {
            return Ok(true);
        }
        let mut decompression = match self.decompression.take() {
            Some(decompression) => decompression,
            None => Box::new(Decompression::begin(self.encoding, std::mem::take(&mut self.message))?),
        };
        let is_complete = decompression.step()?;
        let own_bytes = self.own_bytes;
        let bytes = if is_complete {
            self.is_compressed = false;
            self.message = decompression.into_message();
            self.message.capacity()
        } else {
            self.decompression.insert(decompression).bytes()
        };
        let grant = self.grant.get_or_insert_with(|| Grant::none(&ctx.shared.budget, MemoryUse::Requests));
        if grant.resize((own_bytes + bytes) as u64) { Ok(is_complete) } else { Err(no_memory()) }
    }
}
