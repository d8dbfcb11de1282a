//! The first two steps of a batch: gathering sessions with their bytes, and serving them inside one guard.

use super::{BATCH_LONG_MAX, BATCH_OPS_MAX, BATCH_SESSIONS_MAX, Core, Queue, VISIT_BYTES};
use crate::buffers::{Buffers, Class, Input};
use crate::handover::Early;
use crate::session::{Pause, Phase, Place, Session};
use arrayvec::ArrayVec;
use command::session::{Head, SessionState};
use command::visit::progress::{Progress, State};
use command::{memcache, resp};
use io::{Backend, Received};
use segment::Guard;

/// The maximum number of sessions that one gathering visits.
const VISITS_MAX: usize = 4 * BATCH_SESSIONS_MAX;
/// The number of bytes received, discarded, or sent for blocked sessions after which a gathering ends.
const GATHER_BYTES_MAX: u64 = 256 << 10;
/// The number of reply bytes after which a batch serves no further session. It bounds what is sent for one batch.
const REPLY_BYTES_MAX: u64 = 256 << 10;
/// The number of bytes of a long value that one visit copies within the store: about 50 us.
pub(super) const COPIED_BYTES_MAX: u64 = 256 << 10;

/// The prefetched lookup of each session in a batch.
type Heads<'l> = ArrayVec<Option<Head<'l>>, BATCH_SESSIONS_MAX>;

/// Receives once: first from the bytes that came before the connection moved here, then from its stream.
#[inline(always)]
pub(super) fn receive<B: Backend>(
    io: &mut B,
    stream: &B::Stream,
    early: &mut Option<Box<Early>>,
    room: &mut [u8],
) -> Received {
    match early {
        None => io.receive(stream, room),
        Some(_) => receive_early(early, room),
    }
}

#[cold]
fn receive_early(early: &mut Option<Box<Early>>, room: &mut [u8]) -> Received {
    let bytes = early.as_mut().map_or(0, |early| early.take(room));
    if early.as_ref().is_some_and(|early| early.rest().is_empty()) {
        *early = None;
    }
    Received::Bytes(bytes)
}

impl<B: Backend> Core<B> {
    /// Fills the batch from the head of a queue. Returns the number of bytes that finished sessions received and that
    /// were discarded, at least [`VISIT_BYTES`] for each visit.
    ///
    /// A session is visited once. One that becomes ready again meanwhile is served in the next batch. So a gathering
    /// ends whatever peers send: after [`VISITS_MAX`] visits or [`GATHER_BYTES_MAX`] bytes, and one receive.
    pub(super) fn gather(&mut self, queue: Queue) -> usize {
        self.served = 0;
        let (mut received, mut discarded, from) = (0, 0, self.bytes_sent());
        let (sessions_max, waiting) = match queue {
            Queue::Ready => (BATCH_SESSIONS_MAX, self.ready.len()),
            Queue::Long => (BATCH_LONG_MAX, self.long.len()),
        };
        for _ in 0..waiting.min(VISITS_MAX) {
            let moved = self.bytes_sent() - from + (received + discarded) as u64;
            if self.batch.len() == sessions_max || moved >= GATHER_BYTES_MAX {
                break;
            }
            let popped = match queue {
                Queue::Ready => self.ready.pop_front(),
                Queue::Long => self.long.pop_front(),
            };
            let Some(index) = popped else { break };
            let session = self.sessions.at(index);
            session.place = Place::Idle;
            match session.phase {
                Phase::Dead => self.graves.push_back(index),
                Phase::Open | Phase::Finishing if std::mem::take(&mut session.sending) => {
                    self.send_again(index);
                }
                Phase::Finishing => {}
                Phase::Lingering => discarded += VISIT_BYTES + self.linger(index),
                Phase::Open => received += self.prepare(index),
            }
        }
        discarded
    }

    /// Returns the number of bytes that this worker has sent.
    fn bytes_sent(&self) -> u64 {
        self.ctx.counters().bytes_written.value()
    }

    /// Receives for one session, lends it an output if it may have a whole request, and adds it to the batch. Returns
    /// the number of bytes received.
    fn prepare(&mut self, index: u32) -> usize {
        let session = self.sessions.at(index);
        if session.blocked {
            return 0;
        }
        let mut received = 0;
        if !session.servable && session.readable {
            match self.receive(index) {
                Some(bytes) => received = bytes,
                None => return 0,
            }
        }
        let session = self.sessions.at(index);
        if session.servable
            && let Err(class) = lend_output(session, &mut self.buffers)
        {
            self.reclaim_for(index, class);
            return received;
        }
        session.place = Place::Batch;
        self.batch.push(index);
        received
    }

    /// Receives once into the session's buffer. Returns the number of bytes, or `None` if the session cannot be served
    /// now: it waits for a buffer, or is dead.
    fn receive(&mut self, index: u32) -> Option<usize> {
        let session = self.sessions.at(index);
        if session.state.is_arriving() {
            return self.receive_arrival(index);
        }
        let held = session.input.as_ref().map_or(0, Input::len);
        let need = session.input_want.max(held + 1);
        let capacity = session.input.as_ref().map_or(0, Input::capacity);
        if need > capacity {
            if need > self.buffers.big_bytes() {
                // No protocol asks for more than fits. If one did, this connection could never continue.
                self.ctx.counters().protocol_errors.add(1);
                self.kill(index);
                return None;
            }
            let block = match self.buffers.take_input(need) {
                Ok(block) => block,
                Err(class) => {
                    self.reclaim_for(index, class);
                    return None;
                }
            };
            match &mut session.input {
                Some(input) => self.buffers.put_input(input.exchange(block)),
                None => {
                    session.input = Some(Input::new(block));
                    session.held_ns = self.now_ns;
                }
            }
        }
        let (Some(input), Some(stream)) = (&mut session.input, &session.stream) else {
            return None;
        };
        let room = input.room(need);
        let room_bytes = room.len();
        let is_early = session.early.is_some();
        let mut received = 0;
        match receive(&mut self.io, stream, &mut session.early, room) {
            Received::Bytes(bytes) => {
                received = bytes;
                input.received(bytes);
                session.readable = bytes == room_bytes || session.hangup || is_early;
                session.servable = input.len() >= session.input_want;
                if !session.servable {
                    self.holders.note_input(index, input, self.now_ns);
                }
                session.received_ns = self.now_ns;
                self.ctx.counters().bytes_read.add(bytes as u64);
            }
            Received::Blocked => session.readable = false,
            Received::Closed => (session.readable, session.ended) = (false, true),
            Received::Reset => {
                self.kill(index);
                return None;
            }
        }
        if input.len() == 0
            && let Some(input) = session.input.take()
        {
            self.buffers.put_input(input);
        }
        Some(received)
    }

    /// Serves the batch. Returns the number of bytes consumed.
    pub(super) fn serve(&mut self, guard: &mut Guard<'_>, queue: Queue) -> usize {
        self.ctx.batch_ops = 0;
        self.ctx.watch.watched = self.ctx.shared.watch.watched();
        self.ctx.restrain();
        self.ctx.slow_lines.follow(self.ctx.shared.workers[self.ctx.worker].recorder.slow_above_ns(), &self.ctx.clock);
        self.ctx.op_begun = self.ctx.clock.ticks();
        let mut heads = Heads::new();
        self.look_ahead(guard, &mut heads);
        let (mut bytes, mut replies) = (0, 0);
        for number in 0..self.batch.len() {
            if self.ctx.batch_ops >= BATCH_OPS_MAX || replies >= REPLY_BYTES_MAX {
                break;
            }
            // The first session is always visited, so every iteration makes progress.
            if number > 0 && self.ctx.pace.is_over(self.ctx.op_begun) {
                break;
            }
            self.served = number + 1;
            let index = self.batch[number];
            let session = self.sessions.at(index);
            let Some(out) = &mut session.out else { continue };
            if !session.servable {
                continue;
            }
            self.ctx.ready = session.ready_at;
            self.ctx.watch.connection = index;
            // A session without input may still have to request room: its output was full at the last visit.
            let input = session.input.as_ref().map_or(&[][..], Input::bytes);
            guard.begin_request();
            guard.serve(session.token.0, COPIED_BYTES_MAX);
            self.ctx.pace.begin_visit(self.ctx.op_begun, queue == Queue::Long);
            let progress = match &mut session.state {
                SessionState::Memcache(state) => {
                    memcache::serve(guard, input, heads[number], out, state, &mut self.ctx)
                }
                SessionState::Resp(state) => resp::serve(guard, input, heads[number], out, state, &mut self.ctx),
            };
            if let Some(input) = &mut session.input {
                if progress.consumed > 0 {
                    input.consume(progress.consumed);
                    session.held_ns = self.now_ns;
                    bytes += progress.consumed;
                }
                if input.len() > 0 {
                    self.holders.note_input(index, input, self.now_ns);
                } else if let Some(input) = session.input.take() {
                    self.buffers.put_input(input);
                }
            }
            replies += out.unsent();
            let parked = progress.state == State::Parked;
            if !matches!(progress.state, State::NeedInput { .. }) {
                // The visit may not have completed an operation.
                self.ctx.op_begun = self.ctx.clock.ticks();
            }
            apply(session, progress);
            session.paused = progress.state == State::Yield || parked && guard.is_paused();
            if parked && session.paused {
                session.pause = Pause::None;
            } else if parked {
                self.ctx.counters().parked.add(1);
                session.pause = guard.tier().awaited().map_or(Pause::Store, Pause::Flash);
            }
            if session.state.is_arriving() {
                self.note_arrival(index);
            }
        }
        self.ctx.counters().ops.add(self.ctx.batch_ops as u64);
        bytes
    }

    /// Looks up the keys of the batch's first requests, stage by stage, so that their memory accesses overlap. Does
    /// nothing for a single session, which has nothing to overlap with.
    fn look_ahead<'l>(&mut self, guard: &Guard<'l>, heads: &mut Heads<'l>) {
        if self.batch.len() == 1 {
            return heads.push(None);
        }
        for index in &self.batch {
            let session = self.sessions.at(*index);
            let input = session.input.as_ref().filter(|_| session.servable);
            heads.push(input.and_then(|input| session.state.head(guard, input.bytes())));
        }
        heads.iter_mut().flatten().for_each(|head| head.look(guard));
    }

    /// Executes a delayed flush that is due, before this iteration's operations. Returns false if the background thread
    /// is busy and the flush cannot run now. No operation may then run before it.
    pub(super) fn flush_if_due(&mut self, guard: &mut Guard<'_>) -> bool {
        let (flush, now) = (&self.ctx.shared.delayed_flush, self.ctx.now);
        while let Some(namespace) = flush.take(now) {
            if guard.items_mut().flush(namespace).is_err() {
                flush.put_back(namespace, now);
                return false;
            }
        }
        true
    }

    /// Serves nothing. The batch's sessions are served once the store can execute the flush.
    pub(super) fn hold(&mut self) {
        for index in &self.batch {
            let session = self.sessions.at(*index);
            if session.servable {
                session.pause = Pause::Store;
                if let Some(input) = &session.input {
                    self.holders.note_input(*index, input, self.now_ns);
                }
                self.ctx.counters().parked.add(1);
            }
        }
    }
}

/// Updates a session by the result of its `serve`.
fn apply<S>(session: &mut Session<S>, progress: Progress) {
    let left = session.input.as_ref().map_or(0, Input::len);
    (session.input_want, session.out_want, session.pause) = (0, 0, Pause::None);
    match progress.state {
        State::NeedInput { want } => {
            debug_assert!(want == 0 || want > left, "all the bytes it wants are there");
            session.input_want = want;
            session.servable = false;
        }
        // The output may hold a part of a reply, with no received bytes behind its request.
        State::Yield => session.servable = left > 0 || session.state.is_answering(),
        State::OutputFull { want } => {
            // If there is nothing to send, the session waits until other sessions release their pins.
            let longer = session.out.as_ref().is_some_and(|out| want > out.capacity() && !out.is_lent());
            let stuck = session.out.as_ref().is_some_and(|out| out.is_empty()) && !longer;
            session.pause = if stuck { Pause::Store } else { Pause::Output };
            session.out_want = want;
            session.servable = true;
        }
        State::Parked => {
            session.pause = Pause::Store;
            session.servable = true;
        }
        State::Close => {
            session.phase = Phase::Finishing;
            session.servable = false;
        }
    }
}

/// Ensures that a session has an output with room for the next reply. Returns the class of buffers that is used up if
/// not.
fn lend_output<S>(session: &mut Session<S>, buffers: &mut Buffers) -> Result<(), Class> {
    if session.out.is_none() {
        session.out = buffers.take_out();
    }
    let Some(out) = &mut session.out else { return Err(Class::Out) };
    if session.out_want > out.capacity() && out.is_empty() && !out.is_lent() {
        out.lend(buffers.take_big_out().ok_or(Class::BigOut)?);
    }
    Ok(())
}
