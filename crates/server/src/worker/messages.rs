//! The push queue of a worker. Publishes the events of a batch, wakes the workers that have receivers, and sends
//! queued messages to this worker's connections.

use crate::buffers::Class;
use crate::session::{Pause, Phase, SessionPlace};
use crate::worker::core::Core;
use crate::worker::hold;
use crate::worker::output;
use command::push::outbox::MessageCheck;
use command::push::watch::QUEUE_BYTES;
use command::session::{adopt_messages, is_visited_for_messages};
use command::visit::out::OUT_BYTES;
use io::Backend;

/// The maximum number of outputs filled for one session in one visit. A watcher's full queue fills all of these outputs
/// except the last, which is for messages that are queued meanwhile.
const FILLS_MAX: usize = QUEUE_BYTES / OUT_BYTES + 1;

/// The maximum number of connections to which one visit sends messages.
const VISITS_MAX: usize = 32;
/// The number of message bytes after which a visit ends.
const SENT_BYTES_MAX: u64 = 256 << 10;

/// Returns true if a message must be published, or sent to a connection of this worker.
#[inline]
pub(super) fn has_messages<B: Backend>(core: &Core<B>) -> bool {
    let ctx = &core.ctx;
    ctx.push.watch.watched.any()
        || ctx.push.to_wake != 0
        || core.mail_left
        || ctx.shared.workers[ctx.worker].push_queue.has()
}

/// Publishes this worker's lines for watchers, wakes other workers, and sends queued messages to this worker's
/// connections. Without any of this work, a call costs two memory loads.
pub(super) fn send_messages<B: Backend>(core: &mut Core<B>) {
    let ctx = &mut core.ctx;
    if ctx.push.watch.watched.any() {
        ctx.queue_broadcasts();
    }
    if ctx.push.has_unpublished() {
        ctx.publish_waiting();
    }
    if ctx.shared.watch.watched().any() {
        let (shared, lines) = (&ctx.shared, &mut ctx.push.watch.lines);
        let (me, to_wake) = (ctx.worker, &mut ctx.push.to_wake);
        shared.watch.publish(lines, |to, connection| {
            if shared.workers[to].push_queue.note(connection) && to != me {
                *to_wake |= 1 << to;
            }
        });
    } else {
        ctx.push.watch.lines.free();
    }
    while ctx.push.to_wake != 0 {
        ctx.shared.host.wake_worker(ctx.push.to_wake.trailing_zeros() as usize);
        ctx.push.to_wake &= ctx.push.to_wake - 1;
    }
    let post = &ctx.shared.workers[ctx.worker].push_queue;
    if post.has() {
        post.take(&mut core.mail);
    }
    core.mail_left = false;
    if !core.mail.is_empty() {
        deliver(core);
    }
    core.mail_left |= core.ctx.push.has_unpublished();
}

/// Serves the listed connections once: up to [`VISITS_MAX`] of them, or until [`SENT_BYTES_MAX`] are sent. A connection
/// with unsent messages remains in the list, after the others.
#[cold]
fn deliver<B: Backend>(core: &mut Core<B>) {
    let sent_before = core.ctx.counters().bytes_written.value();
    for _ in 0..core.mail.len().min(VISITS_MAX) {
        if core.ctx.counters().bytes_written.value() - sent_before >= SENT_BYTES_MAX {
            break;
        }
        let Some(index) = core.mail.pop_front() else { break };
        if deliver_to(core, index) {
            core.again.push(index);
        }
    }
    core.mail_left = !core.mail.is_empty();
    core.mail.extend(core.again.drain(..));
    core.io.submit();
}

/// Sends as many queued messages to a session as its peer accepts. Returns true if more messages can be sent soon.
fn deliver_to<B: Backend>(core: &mut Core<B>, index: u32) -> bool {
    let mut more = true;
    for _ in 0..FILLS_MAX {
        let Some(session) = core.sessions.peek_mut(index).filter(|session| session.phase == Phase::Open) else {
            return false;
        };
        if core.ctx.connection_table().is_killed(index) {
            output::kill(core, index);
            return false;
        }
        if session.pause == Pause::Clients {
            if session.state.has_messages() {
                match session.state.check_messages(&core.ctx.shared) {
                    MessageCheck::Send => {}
                    MessageCheck::Unfinished => return true,
                    end => return drop_subscriber(core, index, end),
                }
            }
            core.wake(index);
            return false;
        }
        if is_visited_for_messages(&session.state) {
            if session.place == SessionPlace::Batch {
                return true;
            }
            session.servable = true;
            core.make_ready(index);
            return false;
        }
        adopt_messages(&mut session.state, &core.ctx, index);
        match session.state.check_messages(&core.ctx.shared) {
            MessageCheck::Send => {}
            MessageCheck::Unfinished => return true,
            end => return drop_subscriber(core, index, end),
        }
        more = session.state.has_messages();
        if !more {
            break;
        }
        if session.blocked || session.state.is_replying() {
            // The session returns to the message list once its current output is sent.
            session.mail = true;
            return false;
        }
        if session.out.is_none() {
            session.out = core.buffers.take_out();
        }
        if session.out.is_none() {
            // If a blocked session holds an output, that output is freed, and the next visit can use it.
            hold::reclaim(core, Class::Out, index);
            return true;
        }
        let Some(out) = &mut session.out else { return true };
        let bytes = session.state.take_messages(out.spare());
        out.advance(bytes);
        output::send(core, index);
    }
    if core.sessions.at(index).place == SessionPlace::Idle {
        output::move_on(core, index);
    }
    more
}

/// Ends the connection of a subscriber that lost a right, or whose queue is full. Returns false: no more messages can
/// be sent.
fn drop_subscriber<B: Backend>(core: &mut Core<B>, index: u32, end: MessageCheck) -> bool {
    core.ctx.counters().subscribers_dropped.add(u64::from(end == MessageCheck::QueueBroken));
    output::kill(core, index);
    false
}
