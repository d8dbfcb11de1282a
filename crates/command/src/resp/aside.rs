//! Output of a connection in addition to the replies to its current requests: messages for a subscriber, and the rest
//! of a reply that did not fit into the output buffer.
//!
//! ```text
//!   serve:  rest of a long reply ──> waiting messages ──> requests and their replies
//! ```
//!
//! A connection has no such output until it subscribes, monitors, or gets a long reply. Until then, the check for such
//! output costs one comparison per request.

use super::error::ErrorReply;
use crate::memory::budget::Grant;
use crate::push::outbox::{MessageCheck, Subscriber};
use crate::resp::call::{Call, Run, Step};
use crate::resp::state::aside::LongReply;
use crate::visit::out::LINE_ROOM;
use crate::visit::progress::SessionWait;

/// Writes the output that must be sent before the reply to the next request.
#[inline]
pub(super) fn send_pending(call: &mut Call<'_, '_>) -> Step {
    if call.session.aside.is_some() { send_aside(call) } else { Ok(()) }
}

#[cold]
fn send_aside(call: &mut Call<'_, '_>) -> Step {
    let Some(aside) = &mut call.session.aside else { return Ok(()) };
    if !aside.long.is_empty() {
        let rest = &aside.long[aside.sent..];
        let part = rest.len().min(call.out.spare().len());
        call.out.push(&rest[..part]);
        aside.sent += part;
        if aside.sent < aside.long.len() {
            return Err(SessionWait::OutputFull { want: LINE_ROOM });
        }
        (aside.long, aside.sent, aside.held) = (Vec::new(), 0, None);
    }
    if aside.subscriber.is_none() && aside.tracking.is_none() {
        call.session.aside = None;
        return Ok(());
    }
    // No message may be written between the parts of one reply, and no reply between the parts of one message. A client
    // that waits may have its turn after a part of a message.
    let is_in_message = || call.session.subscriber().is_some_and(Subscriber::is_in_message);
    if call.session.is_replying() && !is_in_message() { Ok(()) } else { write_messages(call) }
}

/// Moves all waiting messages into the output, unless the worker must check or end the connection first.
pub(super) fn write_messages(call: &mut Call<'_, '_>) -> Step {
    while call.session.has_messages() && call.session.check_messages(&call.ctx.shared.users) == MessageCheck::Send {
        let bytes = call.session.take_messages(call.out.spare());
        call.out.advance(bytes);
        if call.session.has_messages() && call.out.spare().is_empty() {
            return Err(SessionWait::OutputFull { want: LINE_ROOM });
        }
    }
    Ok(())
}

/// Creates an empty reply that is collected outside the output buffer.
pub(super) fn long_reply(call: &Call<'_, '_>) -> LongReply {
    LongReply::new(&call.ctx.shared.budget)
}

/// Sends a reply that was collected outside the output buffer, and whose length the command has limited.
pub(super) fn send_long_reply(call: &mut Call<'_, '_>, reply: Vec<u8>) -> Run {
    send_long_reply_from(call, reply, 0)
}

/// Sends `reply` as [`send_long_reply`] does, without its first `from` bytes.
pub(super) fn send_long_reply_from(call: &mut Call<'_, '_>, reply: Vec<u8>, from: usize) -> Run {
    let mut long = long_reply(call);
    if reply.len() - from > call.out.room() && !long.grant.resize(reply.capacity() as u64) {
        return Err(ErrorReply::ClientMemory.into());
    }
    long.bytes = reply;
    send_reply_from(call, long, from)
}

/// Sends a reply, without its first `from` bytes, that a command has collected after it changed something: even if
/// client memory is used up. `grant` has the client memory that the command has reserved for the reply.
pub(super) fn send_held_reply(call: &mut Call<'_, '_>, (reply, from): (Vec<u8>, usize), grant: Option<Grant>) -> Run {
    let mut long = long_reply(call);
    if let Some(grant) = grant {
        long.grant = grant;
    }
    if reply.len() - from > call.out.room() {
        long.grant.force(reply.capacity() as u64);
    }
    long.bytes = reply;
    send_reply_from(call, long, from)
}

/// Sends a reply that was collected outside the output buffer. If client memory was refused for the reply, or it was
/// too long, returns the error instead.
pub(super) fn send_reply(call: &mut Call<'_, '_>, reply: LongReply) -> Run {
    send_reply_from(call, reply, 0)
}

fn send_reply_from(call: &mut Call<'_, '_>, reply: LongReply, from: usize) -> Run {
    let LongReply { bytes: mut reply, grant, refused } = reply;
    if let Some(fault) = refused {
        return Err(fault.into());
    }
    if !call.session.answers.wants_reply() {
        return Ok(());
    }
    if call.collects_replies && call.out.room() < reply.len() - from {
        // From here on, the output accounts for the client memory of these bytes.
        drop(grant);
        reply.drain(..from);
        call.out.push_block(reply);
        return Ok(());
    }
    let end = from + (reply.len() - from).min(call.out.spare().len());
    call.out.push(&reply[from..end]);
    if end < reply.len() {
        let since = call.ctx.op_begun;
        let aside = call.session.aside.get_or_insert_default();
        (aside.long, aside.sent, aside.held) = (reply, end, Some((grant, since)));
    }
    Ok(())
}
