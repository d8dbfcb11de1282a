//! The streams that tell clients with a near cache which keys have changed.
//!
//! ```text
//!   WatchKeys ──> registered for its prefixes ──> guards that do not report changes yet have ended ──> first event
//!   a change of a key, by any client or by expiry and eviction ──> outbox of the stream ──> its keys
//! ```
//!
//! Invariant: a value that a client reads after the first event, and that changes later, is reported. A client that
//! reads it before, or keeps it beyond the end of the stream, may have an old value: it drops its copies then.
//!
//! Bounds: a stream has at most [`PREFIXES_MAX`] prefixes, and unsent keys as a subscriber of channels
//! (`limits.subscriber_backlog`); a stream with more ends.

use super::plan::{CallError, add_message};
use crate::context::WorkerContext;
use crate::push::outbox::Outbox;
use crate::push::tracking::{PrefixRefused, Tracking, TrackingClient};
use protocol::grpc::Status;
use protocol::resp::client::{ParsedValue, value};
use segment::{Guard, GuardsMet, Namespace};
use std::sync::Arc;

/// The maximum number of bytes of keys in one reply, approximately.
const REPLY_BYTES: usize = 16 << 10;

/// A stream of changed keys.
pub(super) struct KeyWatch {
    tracking: Arc<Tracking>,
    client: Arc<TrackingClient>,
    outbox: Arc<Outbox>,
    prefixes: Vec<Box<[u8]>>,
    /// The guards that must end before the client may read keys.
    awaits: Option<GuardsMet>,
}

impl KeyWatch {
    /// Registers a stream for all changes of keys with these prefixes in a namespace.
    pub(super) fn begin(
        prefixes: &[Box<[u8]>],
        namespace: Namespace,
        guard: &Guard<'_>,
        ctx: &mut WorkerContext,
    ) -> Result<Self, CallError> {
        let shared = &ctx.shared;
        let outbox = shared.channels.stream_outbox(ctx.worker, ctx.push.watch.connection);
        let client = TrackingClient::new(shared.clients.next(), &outbox);
        client.set(None, true, false);
        client.note_namespace(namespace);
        let tracking = Arc::clone(&shared.tracking);
        tracking.begin(&client);
        let mut watch = Self { tracking, client, outbox, prefixes: Vec::new(), awaits: None };
        for prefix in prefixes {
            watch.tracking.add_prefix(prefix, &watch.client).map_err(|refused| {
                let text = match refused {
                    PrefixRefused::TooMany => "all clients together watch too many prefixes; watch fewer",
                    PrefixRefused::NoMemory => "client memory is used up (limits.client_memory); watch later",
                };
                CallError::new(Status::ResourceExhausted, text)
            })?;
            watch.prefixes.push(prefix.clone());
        }
        watch.awaits = Some(guard.locks().meet_guards());
        // Later requests of this batch must report their changes, too.
        ctx.push.watch.watched = ctx.shared.watch.watched();
        Ok(watch)
    }

    /// Returns true if each guard that does not report its changes has ended.
    pub(super) fn has_begun(&mut self, guard: &Guard<'_>) -> bool {
        if self.awaits.as_mut().is_some_and(|met| guard.locks().have_ended(met)) {
            self.awaits = None;
        }
        self.awaits.is_none()
    }

    /// Returns true if keys wait to be sent.
    pub(super) fn has_keys(&self) -> bool {
        self.outbox.is_waiting()
    }

    /// Returns the memory of the stream, in bytes.
    pub(super) fn bytes(&self) -> usize {
        2 * size_of::<Self>() + self.prefixes.iter().map(|prefix| prefix.len() + size_of::<Box<[u8]>>()).sum::<usize>()
    }

    /// Adds the next messages: 1 keys (1 each key), or 2 all keys. Returns true if there are further ones.
    ///
    /// # Errors
    /// If the client was too slow.
    pub(super) fn add_messages(&mut self, messages: &mut Vec<u8>) -> Result<bool, CallError> {
        while messages.len() < REPLY_BYTES {
            let Some(message) = self.outbox.pop() else { break };
            match value(message.bytes()) {
                ParsedValue::Value { value: keys, .. } => add_message(messages, |out| {
                    out.message(1, |out| {
                        keys.items().for_each(|key| {
                            out.item(1, key.text().unwrap_or_default());
                        });
                    });
                }),
                // No bytes stand for all keys.
                _ => add_message(messages, |out| {
                    out.message(2, |_| {});
                }),
            }
        }
        if self.outbox.is_broken() {
            let text =
                "the client did not read the changed keys (limits.subscriber_backlog); drop all copies and watch again";
            return Err(CallError::new(Status::ResourceExhausted, text));
        }
        Ok(self.has_keys())
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        self.prefixes.iter().for_each(|prefix| self.tracking.remove_prefix(prefix, &self.client));
        self.tracking.end(&self.client);
    }
}
