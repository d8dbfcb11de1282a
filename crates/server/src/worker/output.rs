//! The last third of a batch: sending, and what becomes of a session after that.

use super::{Core, Queue};
use crate::out::{OutBuffer, PARTS_MAX};
use crate::session::{Pause, Phase, Place};
use io::{Backend, Received, Sent};
use std::io::IoSlice;

/// Bytes of one session that are sent before others have their iteration: a socket whose peer reads all the time would
/// take a long value in one.
const SEND_BYTES_MAX: usize = 256 << 10;
/// Receives that throw away what a finished session still gets, for each visit.
const LINGER_RECEIVES: usize = 16;
/// Bytes that a finished session may still send before its connection is closed without waiting for its end.
const LINGER_BYTES_MAX: usize = 1 << 20;
/// Time for which a finished session waits for its peer to close.
pub(super) const LINGER_NS: u64 = 1_000_000_000;

impl<B: Backend> Core<B> {
    /// Sends for the sessions of the batch that were visited, and notes who has more to do. The others stay first.
    pub(super) fn settle(&mut self, queue: Queue) {
        for number in (self.served..self.batch.len()).rev() {
            self.stay_first(self.batch[number], queue);
        }
        for number in 0..self.served {
            let index = self.batch[number];
            let session = self.sessions.at(index);
            session.place = Place::Idle;
            // A session that goes on in this iteration collects its replies for one send, while there is room for them.
            let goes_on = session.has_work() && session.pause == Pause::None;
            if !(goes_on && session.out.as_ref().is_some_and(|out| out.has_batch_room())) {
                self.send(index);
            }
            self.move_on(index);
        }
        self.batch.clear();
    }

    /// Puts a session of the batch that was not visited back where it was taken from.
    fn stay_first(&mut self, index: u32, queue: Queue) {
        let session = self.sessions.at(index);
        session.place = Place::Idle;
        if !session.has_work() {
            self.send(index);
            return self.move_on(index);
        }
        session.place = Place::Ready;
        match queue {
            Queue::Ready => self.ready.push_front(index),
            Queue::Long => self.long.push_front(index),
        }
    }

    /// A blocked session can be written to again.
    pub(super) fn send_again(&mut self, index: u32) {
        self.send(index);
        self.move_on(index);
    }

    /// Sends as much as the peer's socket takes, and at most [`SEND_BYTES_MAX`]: the rest goes on behind new requests.
    pub(super) fn send(&mut self, index: u32) {
        let mut left = SEND_BYTES_MAX;
        loop {
            let session = self.sessions.at(index);
            let (Some(out), Some(stream)) = (&mut session.out, &session.stream) else {
                return;
            };
            if out.is_empty() {
                break;
            }
            let (sent, offered) = offer(&mut self.io, stream, out, &self.ctx.shared.store, left);
            match sent {
                Sent::Bytes(bytes) => {
                    self.ctx.counters().bytes_written.add(bytes as u64);
                    session.moved_ns = self.now_ns;
                    if out.advance_sent(bytes) {
                        break;
                    }
                    left -= bytes;
                    if bytes == offered && left > 0 {
                        continue;
                    }
                    // Its socket may take more, so nothing will report that it does.
                    session.sending = bytes == offered;
                }
                Sent::Blocked => {}
                Sent::Reset => return self.kill(index),
            }
            let pins = out.pinned_bytes() > 0;
            if !session.sending && !std::mem::replace(&mut session.armed, true) {
                self.ctx.counters().sends_short.add(1);
                self.io.want_writable(stream, session.token, true);
            }
            let keeps = session.state.reply_held().is_some();
            if !std::mem::replace(&mut session.blocked, true) {
                session.moved_ns = self.now_ns;
                self.holders.note_output(index, self.now_ns);
                if pins {
                    self.note_pinner(index);
                }
            }
            if keeps {
                self.note_keeper(index);
            }
            return;
        }
        let session = self.sessions.at(index);
        session.blocked = false;
        if std::mem::take(&mut session.armed)
            && let Some(stream) = &session.stream
        {
            self.io.want_writable(stream, session.token, false);
        }
        self.sent_all(index);
    }

    /// Everything is sent: records the times, and gives the buffer back.
    fn sent_all(&mut self, index: u32) {
        let Some(mut out) = self.sessions.at(index).out.take() else {
            return;
        };
        let clock = &self.ctx.clock;
        let now = clock.ticks();
        let recorder = &self.ctx.shared.workers[self.ctx.worker].recorder;
        for op in out.ops() {
            let parts = [(op.ready, op.begun), (op.begun, op.ended), (op.ended, now)];
            let parts_ns = parts.map(|(from, to)| clock.ns_between(from, to));
            recorder.record_in(op.namespace, op.count, parts_ns);
            if recorder.record(op.command, op.count, parts_ns) {
                recorder.keep_slow(op.command, self.ctx.slow_lines.of(op.begun), parts_ns);
            }
        }
        self.empty(&mut out);
        self.buffers.put_out(out);
    }

    /// Forgets an output's bytes and lets its pins go.
    fn empty(&self, out: &mut OutBuffer) {
        out.clear(|pinned| self.ctx.unpin(pinned));
    }

    /// Decides what comes next for a session that is noted nowhere.
    pub(super) fn move_on(&mut self, index: u32) {
        // During a hand-over an idle connection moves; only a stop closes it.
        let stopping = self.stop_deadline_ns.is_some() && !self.ctx.shared.stop.hands_over();
        let session = self.sessions.at(index);
        debug_assert_eq!(session.place, Place::Idle);
        if session.phase == Phase::Dead {
            return;
        }
        if session.blocked {
            return self.make_ready(index);
        }
        if std::mem::take(&mut session.mail) {
            self.mail.push_back(index);
        }
        let silent = session.out.is_none();
        if session.phase == Phase::Finishing {
            if silent {
                self.finish(index);
            }
        } else if session.phase == Phase::Open && silent && session.ended && !session.servable && !session.readable {
            self.kill(index);
        } else if session.phase == Phase::Open && silent && stopping && session.at_rest() {
            self.finish(index);
        } else if session.pause == Pause::Store {
            session.place = Place::Parked;
            self.parked.push(index);
        } else if let Pause::Flash(awaited) = session.pause {
            session.place = Place::Coming;
            self.coming.wait(awaited, index);
        } else {
            self.make_ready(index);
        }
    }

    /// All is said: closes, or first lets the peer read it if bytes of its own are still on the way.
    pub(super) fn finish(&mut self, index: u32) {
        let session = self.sessions.at(index);
        if session.ended || (!session.readable && session.input.is_none()) {
            return self.kill(index);
        }
        session.phase = Phase::Lingering;
        (session.moved_ns, session.discarded) = (self.now_ns, 0);
        session.servable = false;
        if let Some(input) = session.input.take() {
            self.buffers.put_input(input);
        }
        if let Some(stream) = &session.stream {
            self.io.shutdown_send(stream);
        }
        self.make_ready(index);
    }

    /// Throws away what a finished session still receives, until its peer closes, for [`LINGER_NS`] and
    /// [`LINGER_BYTES_MAX`] at most. Returns how many bytes this visit threw away.
    #[cold]
    #[inline(never)]
    pub(super) fn linger(&mut self, index: u32) -> usize {
        let (mut waste, mut bytes) = ([0u8; 4096], 0);
        let session = self.sessions.at(index);
        let is_over = self.now_ns.saturating_sub(session.moved_ns) >= LINGER_NS;
        let mut ends = is_over || session.discarded >= LINGER_BYTES_MAX;
        for _ in 0..LINGER_RECEIVES {
            let Some(stream) = session.stream.as_ref().filter(|_| !ends) else { break };
            match self.io.receive(stream, &mut waste) {
                Received::Bytes(received) => bytes += received,
                Received::Blocked => {
                    session.readable = false;
                    break;
                }
                Received::Closed | Received::Reset => ends = true,
            }
        }
        session.discarded += bytes;
        if ends {
            self.kill(index);
        } else {
            self.make_ready(index);
        }
        bytes
    }

    /// Closes at once, whatever is unsent. The slot is given back when no list notes it.
    pub(super) fn kill(&mut self, index: u32) {
        let session = self.sessions.at(index);
        debug_assert_ne!(session.phase, Phase::Dead, "killed twice");
        session.phase = Phase::Dead;
        if let Some(stream) = session.stream.take() {
            self.io.close(stream);
        }
        if let Some(input) = session.input.take() {
            self.buffers.put_input(input);
        }
        if session.place == Place::Idle {
            self.graves.push_back(index);
        }
        if let Some(mut out) = session.out.take() {
            self.empty(&mut out);
            self.buffers.put_out(out);
        }
    }
}

/// One send of what is next, at most `bytes_max` of it; says how much was offered too.
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

/// The same of bytes with values pinned between them.
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
