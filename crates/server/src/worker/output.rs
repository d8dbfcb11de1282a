//! The last step of a batch: sends the replies, and selects the next state of each session.

use crate::buffers::Class;
use crate::session::{Pause, Phase, SessionPlace};
use crate::worker::core::{Core, WaitQueue};
use crate::worker::upkeep;
use command::push::watch::CloseReason;
use command::session::waits_for_window;
use command::visit::out::{OutBuffer, PARTS_MAX};
use io::{Backend, Received, Sent};
use std::io::IoSlice;

/// The maximum number of bytes that are sent for one session before other sessions are served. Without this limit, a
/// peer that reads continuously would receive a long value in one visit.
const SEND_BYTES_MAX: usize = 256 << 10;
/// The maximum number of receive calls in one visit to a finished session, which discard its further input.
const LINGER_RECEIVES: usize = 16;
/// The maximum number of bytes that the peer of a finished session may still send. After more bytes, the connection is
/// closed without waiting for the peer to close.
const LINGER_BYTES_MAX: usize = 1 << 20;
/// The time that a finished session waits for its peer to close.
pub(super) const LINGER_NS: u64 = 1_000_000_000;

/// Sends for the visited sessions of the batch and queues those with more to do. Unvisited sessions stay at the front
/// of the queue.
pub(super) fn settle<B: Backend>(core: &mut Core<B>, queue: WaitQueue) {
    for number in (core.served..core.batch.len()).rev() {
        stay_first(core, core.batch[number], queue);
    }
    for number in 0..core.served {
        let index = core.batch[number];
        let session = core.sessions.at(index);
        session.place = SessionPlace::Idle;
        // A session that continues in this iteration collects its replies for one send, while there is room for them.
        let goes_on = session.has_work() && session.pause == Pause::None;
        if session.blocked {
            // A turn was executed while earlier output was unsent. The socket reports when it accepts more.
            if session.state.reply_held().is_some() {
                upkeep::note_reply_holder(core, index);
            }
        } else if !(goes_on && session.out.as_ref().is_some_and(|out| out.has_batch_room())) {
            send(core, index);
        }
        if waits_for_window(&core.sessions.at(index).state) {
            upkeep::note_reply_holder(core, index);
        }
        move_on(core, index);
    }
    core.batch.clear();
}

/// Returns an unvisited session of the batch to the front of its queue.
fn stay_first<B: Backend>(core: &mut Core<B>, index: u32, queue: WaitQueue) {
    let session = core.sessions.at(index);
    session.place = SessionPlace::Idle;
    if !session.has_work() {
        send(core, index);
        return move_on(core, index);
    }
    session.place = SessionPlace::Ready;
    match queue {
        WaitQueue::Ready => core.ready.push_front(index),
        WaitQueue::Long => core.long.push_front(index),
    }
}

/// Resumes a blocked session whose socket is writable again.
pub(super) fn send_again<B: Backend>(core: &mut Core<B>, index: u32) {
    if core.sessions.at(index).rests() {
        return rest(core, index);
    }
    send(core, index);
    move_on(core, index);
}

/// Sends as much as the peer's socket accepts, at most [`SEND_BYTES_MAX`]. The rest is sent after new requests.
pub(super) fn send<B: Backend>(core: &mut Core<B>, index: u32) {
    let mut left = SEND_BYTES_MAX;
    loop {
        let session = core.sessions.at(index);
        let (Some(out), Some(stream)) = (&mut session.out, &session.stream) else {
            return;
        };
        if out.is_empty() {
            break;
        }
        let (sent, offered) = offer(&mut core.io, stream, out, &core.ctx.shared.store, left);
        match sent {
            Sent::Bytes(bytes) => {
                core.ctx.counters().bytes_written.add(bytes as u64);
                core.ctx.counters().sends.add(1);
                session.moved_ns = core.now_ns;
                if out.advance_sent(bytes) {
                    break;
                }
                left -= bytes;
                if bytes == offered && left > 0 {
                    continue;
                }
                // The socket may accept more, so no event will report that it is writable.
                session.sending = bytes == offered;
            }
            Sent::Blocked => {}
            Sent::Reset => return kill(core, index),
        }
        let pins = out.pinned_bytes() > 0;
        if !session.sending && !std::mem::replace(&mut session.armed, true) {
            core.ctx.counters().sends_short.add(1);
            core.io.want_writable(stream, session.token, true);
        }
        let keeps = session.state.reply_held().is_some();
        if !std::mem::replace(&mut session.blocked, true) {
            session.moved_ns = core.now_ns;
            core.holders.note_output(index, core.now_ns);
            if pins {
                upkeep::note_pinner(core, index);
            }
        }
        if keeps {
            upkeep::note_reply_holder(core, index);
        }
        return;
    }
    let session = core.sessions.at(index);
    session.blocked = false;
    if std::mem::take(&mut session.armed)
        && let Some(stream) = &session.stream
    {
        core.io.want_writable(stream, session.token, false);
    }
    sent_all(core, index);
}

/// Records the request times of a session whose whole output is sent, and returns the output buffer to its pool.
fn sent_all<B: Backend>(core: &mut Core<B>, index: u32) {
    let Some(mut out) = core.sessions.at(index).out.take() else {
        return;
    };
    core.ctx.record_sent(index, out.ops());
    empty(core, &mut out);
    core.buffers.put_out(out);
}

/// Discards the contents of an output and releases its pins.
fn empty<B: Backend>(core: &Core<B>, out: &mut OutBuffer) {
    out.clear(|pinned| core.ctx.unpin(pinned));
}

/// Selects the next state of a session that is in no list.
pub(super) fn move_on<B: Backend>(core: &mut Core<B>, index: u32) {
    // During a handover an idle connection moves. Only a stop closes it.
    let stopping = core.stop_deadline_ns.is_some() && !core.shared.threads.stop.hands_over();
    let session = core.sessions.at(index);
    debug_assert_eq!(session.place, SessionPlace::Idle);
    if session.phase == Phase::Dead {
        return;
    }
    if session.blocked && !session.takes_turn() {
        return core.make_ready(index);
    }
    if !session.blocked && std::mem::take(&mut session.mail) {
        core.mail.push_back(index);
    }
    let silent = session.out.is_none();
    if session.phase == Phase::Finishing {
        if silent {
            finish(core, index);
        }
    } else if session.phase == Phase::Open && silent && session.ended && !session.servable && !session.readable {
        kill(core, index);
    } else if session.phase == Phase::Open && silent && stopping && session.is_idle() {
        farewell(core, index);
        finish(core, index);
    } else if session.pause == Pause::Store {
        session.place = SessionPlace::Parked;
        core.parked.push(index);
    } else if let Pause::Flash(awaited) = session.pause {
        session.place = SessionPlace::AwaitsFlash;
        core.coming.wait(awaited, index);
    } else if session.pause == Pause::Clients {
        rest(core, index);
    } else {
        core.make_ready(index);
    }
}

/// Lets a session rest until another client wakes it. Closes it if its client has left, or if the server stops.
#[cold]
pub(super) fn rest<B: Backend>(core: &mut Core<B>, index: u32) {
    let stopping = core.stop_deadline_ns.is_some() && !core.shared.threads.stop.hands_over();
    let session = core.sessions.at(index);
    if session.state.watches() && (stopping || session.hangup) {
        return kill(core, index);
    }
    session.blocked = true;
}

/// Sends an idle client the last bytes of its protocol. If the socket accepts nothing, they are lost.
pub(super) fn farewell<B: Backend>(core: &mut Core<B>, index: u32) {
    let session = core.sessions.at(index);
    let bytes = command::session::farewell(&mut session.state);
    if !bytes.is_empty()
        && let Some(stream) = &session.stream
    {
        let _ = core.io.send(stream, &[IoSlice::new(&bytes)]);
    }
}

/// Ends a session with an error line, unless a reply is unsent or incomplete.
pub(super) fn refuse<B: Backend>(core: &mut Core<B>, index: u32, line: &[u8]) {
    let session = core.sessions.at(index);
    if session.blocked && !session.rests() {
        return kill(core, index);
    }
    if session.out.is_none()
        && !session.state.is_replying()
        && let Some(stream) = &session.stream
    {
        // If the socket accepts nothing, the error is lost, and the connection is closed anyway.
        let _ = core.io.send(stream, &[IoSlice::new(line)]);
    }
    finish(core, index);
}

/// Ends a session whose replies are all sent. If the peer may still be sending, first gives the peer time to read the
/// replies.
pub(super) fn finish<B: Backend>(core: &mut Core<B>, index: u32) {
    let session = core.sessions.at(index);
    if session.ended || (!session.readable && session.input.is_none()) {
        return kill(core, index);
    }
    session.phase = Phase::Lingering;
    (session.moved_ns, session.discarded) = (core.now_ns, 0);
    session.servable = false;
    if let Some(input) = session.input.take() {
        core.buffers.put_input(input);
    }
    if let Some(stream) = &session.stream {
        core.io.shutdown_send(stream);
    }
    core.make_ready(index);
}

/// Discards the later input of a finished session until its peer closes, for at most [`LINGER_NS`] and
/// [`LINGER_BYTES_MAX`]. Returns the number of bytes that this visit discarded.
#[cold]
#[inline(never)]
pub(super) fn linger<B: Backend>(core: &mut Core<B>, index: u32) -> usize {
    let (mut waste, mut bytes) = ([0u8; 4096], 0);
    let session = core.sessions.at(index);
    let is_over = core.now_ns.saturating_sub(session.moved_ns) >= LINGER_NS;
    let mut ends = is_over || session.discarded >= LINGER_BYTES_MAX as u32;
    for _ in 0..LINGER_RECEIVES {
        let Some(stream) = session.stream.as_ref().filter(|_| !ends) else { break };
        match core.io.receive(stream, &mut waste) {
            Received::Bytes(received) => bytes += received,
            Received::Blocked => {
                session.readable = false;
                break;
            }
            Received::Closed | Received::Reset => ends = true,
        }
    }
    session.discarded += bytes as u32;
    if ends {
        kill(core, index);
    } else {
        core.make_ready(index);
    }
    bytes
}

/// Closes a session at once and discards its unsent bytes. The slot is released when no list holds the session.
pub(super) fn kill<B: Backend>(core: &mut Core<B>, index: u32) {
    let stopping = core.stop_deadline_ns.is_some();
    let session = core.sessions.at(index);
    debug_assert_ne!(session.phase, Phase::Dead, "killed twice");
    let is_done = session.ended || matches!(session.phase, Phase::Finishing | Phase::Lingering);
    session.close_reason = match session.close_reason {
        CloseReason::Error if stopping => CloseReason::Shutdown,
        CloseReason::Error if is_done => CloseReason::Normal,
        known => known,
    };
    session.phase = Phase::Dead;
    if let Some(stream) = session.stream.take() {
        core.io.close(stream);
    }
    if let Some(input) = session.input.take() {
        core.buffers.put_input(input);
    }
    if session.place == SessionPlace::Idle {
        core.ended_sessions.push_back(index);
    }
    if let Some(mut out) = session.out.take() {
        empty(core, &mut out);
        core.buffers.put_out(out);
    }
}

/// Sends at most `bytes_max` bytes of an output, with one call. Returns the result, and the number of bytes offered to
/// the socket.
#[inline(always)]
fn offer<B: Backend>(
    io: &mut B,
    stream: &B::Stream,
    out: &OutBuffer,
    store: &segment::Store,
    bytes_max: usize,
) -> (Sent, usize) {
    if let Some(bytes) = out.plain() {
        let bytes = &bytes[..bytes.len().min(bytes_max)];
        return (io.send(stream, &[IoSlice::new(bytes)]), bytes.len());
    }
    offer_parts(io, stream, out, store, bytes_max)
}

/// Sends at most `bytes_max` bytes of an output with pinned values, with one call.
#[inline(never)]
fn offer_parts<B: Backend>(
    io: &mut B,
    stream: &B::Stream,
    out: &OutBuffer,
    store: &segment::Store,
    bytes_max: usize,
) -> (Sent, usize) {
    let mut parts = [IoSlice::new(&[]); PARTS_MAX];
    let count = out.parts(store, &mut parts, bytes_max);
    let offered = parts[..count].iter().map(|part| part.len()).sum();
    (io.send(stream, &parts[..count]), offered)
}

/// Puts a session into the queue for a buffer. Sends its output first, because its peer may wait for this output.
pub(super) fn wait_for<B: Backend>(core: &mut Core<B>, index: u32, class: Class) {
    send(core, index);
    let session = core.sessions.at(index);
    if session.phase == Phase::Dead || session.blocked {
        return;
    }
    session.place = SessionPlace::Waiting;
    session.waits_ns = core.now_ns;
    if let Some(input) = &session.input {
        core.holders.note_input(index, input, core.now_ns);
    }
    core.holders.is_busy = true;
    core.waiting[class.slot()].push_back(index);
    core.ctx.counters().buffer_waits.add(1);
}
