//! Entry into the kernel and its results: submission, and the handling of each completion.

use super::memory::NONE;
use super::open::BUFFER_GROUP;
use super::slot::{End, EndWatch, Intake, Life, Op, Outgoing};
use super::{HELD_MAX, LINGER, Uring};
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{cqueue, opcode};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Maximum number of completions that one step copies out of the ring.
const REAP: usize = 64;
/// Maximum number of attempts to make room in a full submission queue.
const PUSH_TRIES: usize = 1000;
/// Flags that ask the kernel to send as much as fits at once, and not to wait. The kernel may wait nevertheless, so a
/// send has ended only when its completion was taken.
const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// The maximum duration of one entry into the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    /// Only as long as submission takes.
    Now,
    /// Until a completion arrives or the time has passed.
    Over(Duration),
    /// Until a completion arrives.
    Ever,
}

fn errno(result: i32) -> Errno {
    Errno::from_raw_os_error(-result)
}

impl Uring {
    /// Puts an entry into the submission queue, and submits the queue first if it is full. Returns false if the kernel
    /// accepts no entries.
    #[must_use]
    fn push(&mut self, entry: &Entry) -> bool {
        #[cfg(test)]
        if self.refusals > 0 {
            self.refusals -= 1;
            return false;
        }
        for _ in 0..PUSH_TRIES {
            // SAFETY: 1. an entry names a descriptor and, for a send, bytes of a block that is Queued or Flying until
            // its completion was taken: no code writes or frees it before; 2. the blocks and the provided buffers live
            // until the reactor's drop has seen every operation end; 3. everything else in an entry is numbers.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return true;
            }
            // The kernel may refuse temporarily (no memory, or completions not yet taken), so this retries.
            let _ = self.ring.submit();
        }
        false
    }

    /// Starts to watch the waker, unless the kernel watches it already. If that fails, the next wait retries. Until
    /// then, the waker does not end a wait.
    pub(super) fn arm_waker(&mut self) {
        if !self.watches_waker {
            let events = u32::from(PollFlags::IN.bits());
            let entry = opcode::PollAdd::new(Fd(self.waker.as_fd().as_raw_fd()), events).multi(true).build();
            self.watches_waker = self.push(&entry.user_data(Op::Waker.user_data(0, 0)));
        }
    }

    /// Starts to watch for bytes of a stream: with a multishot receive, or with a poll if buffers are scarce or not
    /// wanted.
    pub(super) fn arm_intake(&mut self, index: u32) {
        let scarce = self.inbound.lent() < self.inbound.count() / 4;
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.life == Life::Open && slot.intake == Intake::Off && slot.end.is_none());
        slot.cancelling = false;
        if slot.leaving {
            return;
        }
        let (entry, op) = if scarce || slot.bulk {
            slot.intake = Intake::Poll;
            let events = u32::from((PollFlags::IN | PollFlags::RDHUP).bits());
            (opcode::PollAdd::new(Fd(slot.fd), events).build(), Op::PollIn)
        } else {
            slot.intake = Intake::Multishot;
            (opcode::RecvMulti::new(Fd(slot.fd), BUFFER_GROUP).build(), Op::Receive)
        };
        let user_data = op.user_data(index, slot.generation);
        if !self.push(&entry.user_data(user_data)) {
            self.refused_intake(index);
        }
    }

    /// Marks a stream as reset, because the kernel accepted neither a receive nor a poll for it.
    fn refused_intake(&mut self, index: u32) {
        self.slots[index as usize].intake = Intake::Off;
        self.ended(index, End::Reset);
    }

    /// Starts to watch for the end of a stream whose bytes stay unread, unless the kernel watches for it already. The
    /// poll stays armed after the owner reads again, so a stream costs at most one.
    fn arm_watch(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.watch != EndWatch::Off || slot.leaving || slot.end.is_some() {
            return;
        }
        slot.watch = EndWatch::Armed;
        let entry = opcode::PollAdd::new(Fd(slot.fd), u32::from(PollFlags::RDHUP.bits())).build();
        let user_data = Op::Watch.user_data(index, slot.generation);
        if !self.push(&entry.user_data(user_data)) {
            self.slots[index as usize].watch = EndWatch::Off;
            self.ended(index, End::Reset);
        }
    }

    fn watched(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.cancelling_watch = false;
        if slot.leaving {
            slot.watch = EndWatch::Off;
            return;
        }
        slot.watch = EndWatch::Over;
        match slot.life {
            Life::Closing => self.retire(index),
            _ => self.note(index, |due| (due.readable, due.hangup) = (true, true)),
        }
    }

    pub(super) fn cancel_watch(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.watch == EndWatch::Armed && !std::mem::replace(&mut slot.cancelling_watch, true) {
            let target = Op::Watch.user_data(index, slot.generation);
            self.cancel(target, Op::CancelWatch, index);
        }
    }

    pub(super) fn arm_poll_out(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if std::mem::replace(&mut slot.poll_out, true) {
            return;
        }
        let entry = opcode::PollAdd::new(Fd(slot.fd), u32::from(PollFlags::OUT.bits())).build();
        let user_data = Op::PollOut.user_data(index, slot.generation);
        if !self.push(&entry.user_data(user_data)) {
            self.slots[index as usize].poll_out = false;
            self.broke(index);
        }
    }

    /// Cancels an operation. If the kernel refuses, the next wait retries.
    pub(super) fn cancel(&mut self, target: u64, op: Op, index: u32) {
        let user_data = op.user_data(index, self.slots[index as usize].generation);
        let entry = opcode::AsyncCancel::new(target).build().flags(Flags::SKIP_SUCCESS);
        if !self.push(&entry.user_data(user_data)) {
            let slot = &mut self.slots[index as usize];
            match op {
                Op::CancelIntake => slot.cancelling = false,
                Op::CancelWatch => slot.cancelling_watch = false,
                _ => slot.cancelling_out = false,
            }
            self.uncancelled = true;
        }
    }

    /// Retries the refused cancellations.
    #[cold]
    pub(super) fn cancel_again(&mut self) {
        self.uncancelled = false;
        for index in 0..self.slots.len() as u32 {
            self.retire(index);
        }
    }

    pub(super) fn cancel_intake(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let op = match slot.intake {
            Intake::Off => return,
            Intake::Multishot => Op::Receive,
            Intake::Poll => Op::PollIn,
        };
        if !std::mem::replace(&mut slot.cancelling, true) {
            let target = op.user_data(index, slot.generation);
            self.cancel(target, Op::CancelIntake, index);
        }
    }

    /// Turns every queued send into an entry. Returns true if an owner or a closing slot waits for the completion of
    /// one of these sends.
    pub(super) fn flush_sends(&mut self) -> bool {
        let mut awaited = false;
        for number in 0..self.queued.len() {
            let index = self.queued[number];
            let slot = &mut self.slots[index as usize];
            debug_assert_eq!(slot.outgoing, Outgoing::Queued);
            slot.outgoing = Outgoing::Flying;
            awaited |= slot.wants_out || slot.life == Life::Closing;
            let bytes = self.outbound.address(slot.block, slot.from);
            let flags = SEND_FLAGS.bits() as i32;
            let entry = opcode::Send::new(Fd(slot.fd), bytes, (slot.to - slot.from) as u32).flags(flags).build();
            let user_data = Op::Send.user_data(index, slot.generation);
            if self.push(&entry.user_data(user_data)) {
                self.flying += 1;
            } else {
                self.broke(index);
            }
        }
        self.queued.clear();
        awaited
    }

    /// Submits all entries, runs the kernel's deferred work, waits as long as `until` allows, and processes all
    /// completions.
    pub(super) fn enter(&mut self, until: Until) -> std::io::Result<()> {
        // Sends normally complete as soon as they are submitted, so this waits for one completion more than the number
        // of sends in flight.
        let want = 1 + self.flying;
        let result = match until {
            Until::Now => self.ring.submit(),
            Until::Ever => self.ring.submit_and_wait(want),
            Until::Over(time) => {
                let time = Timespec::new().sec(time.as_secs()).nsec(time.subsec_nanos());
                self.ring.submitter().submit_with_args(want, &SubmitArgs::new().timespec(&time))
            }
        };
        match result.map_err(|error| (error.raw_os_error().map(Errno::from_raw_os_error), error)) {
            // BUSY and AGAIN: the completions must be taken first, or the kernel had no memory. The next entry retries.
            Ok(_) | Err((Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN), _)) => {}
            Err((_, error)) => return Err(error),
        }
        self.reap();
        Ok(())
    }

    /// Returns true if there is work for [`Uring::enter`]: deferred work of the kernel, unsubmitted entries or
    /// unprocessed completions.
    pub(super) fn has_news(&mut self) -> bool {
        let queue = self.ring.submission();
        let news = queue.taskrun() || queue.cq_overflow() || !queue.is_empty();
        drop(queue);
        news || !self.ring.completion().is_empty()
    }

    /// Processes all available completions.
    fn reap(&mut self) {
        let mut batch = [const { MaybeUninit::<cqueue::Entry>::uninit() }; REAP];
        loop {
            let entries = self.ring.completion().fill(&mut batch);
            if entries.is_empty() {
                return;
            }
            for entry in entries {
                self.complete(entry.user_data(), entry.result(), entry.flags());
            }
        }
    }

    fn complete(&mut self, user_data: u64, result: i32, flags: u32) {
        let (op, index, life) = Op::parse(user_data);
        if op == Op::Waker {
            if !cqueue::more(flags) {
                self.watches_waker = false;
                self.arm_waker();
            }
            return;
        }
        let is_live = Op::same_life(self.slots[index as usize].generation, life);
        match op {
            Op::CancelIntake | Op::CancelPollOut | Op::CancelWatch if !is_live => {}
            _ if !is_live => unreachable!("{op:?} of slot {index} ended after the slot was given back"),
            Op::Receive => self.received(index, result, flags),
            Op::PollIn => self.polled_in(index, result),
            Op::Send => self.sent(index, result),
            Op::PollOut => self.polled_out(index),
            Op::Watch => self.watched(index),
            // Only a failed cancellation posts a completion: its target had just ended, or was between two polls.
            Op::CancelIntake => {
                self.slots[index as usize].cancelling = false;
                self.retire(index);
            }
            Op::CancelPollOut => {
                self.slots[index as usize].cancelling_out = false;
                self.retire(index);
            }
            Op::CancelWatch => {
                self.slots[index as usize].cancelling_watch = false;
                self.retire(index);
            }
            Op::Waker => unreachable!("handled above"),
        }
    }

    fn received(&mut self, index: u32, result: i32, flags: u32) {
        let turn = self.turn;
        let slot = &mut self.slots[index as usize];
        let open = slot.life == Life::Open;
        if let Some(buffer) = cqueue::buffer_select(flags) {
            let bytes = if open { result.max(0) as usize } else { 0 };
            if slot.held.count() == 0 {
                slot.held_since = turn;
            }
            self.inbound.hold(&mut slot.held, buffer, bytes);
        }
        let more = cqueue::more(flags);
        if !more {
            slot.intake = Intake::Off;
            slot.cancelling = false;
        }
        if !open {
            return self.retire(index);
        }
        match result {
            0 => self.ended(index, End::Closed),
            1.. => {
                let unread_for_long = slot.held_since != turn && slot.held.count() >= HELD_MAX;
                self.note(index, |due| due.readable = true);
                if !more && !unread_for_long {
                    self.arm_intake(index);
                } else if !more {
                    self.arm_watch(index);
                } else if unread_for_long {
                    self.detours.unread += 1;
                    self.cancel_intake(index);
                }
            }
            _ => match errno(result) {
                // If no buffer is free, the stream is polled and then received from by calls.
                Errno::NOBUFS => self.poll_intake(index),
                Errno::CANCELED if slot.held.count() > 0 => self.arm_watch(index),
                Errno::CANCELED | Errno::INTR | Errno::AGAIN => self.arm_intake(index),
                _ => self.ended(index, End::Reset),
            },
        }
    }

    fn poll_intake(&mut self, index: u32) {
        self.detours.buffers_out += 1;
        let slot = &mut self.slots[index as usize];
        if slot.leaving {
            return;
        }
        slot.intake = Intake::Poll;
        let events = u32::from((PollFlags::IN | PollFlags::RDHUP).bits());
        let entry = opcode::PollAdd::new(Fd(slot.fd), events).build();
        let user_data = Op::PollIn.user_data(index, slot.generation);
        if !self.push(&entry.user_data(user_data)) {
            self.refused_intake(index);
        }
    }

    fn polled_in(&mut self, index: u32, result: i32) {
        let slot = &mut self.slots[index as usize];
        slot.intake = Intake::Off;
        slot.cancelling = false;
        if slot.life == Life::Closing {
            return self.retire(index);
        }
        // If a poll failed, the next call on the socket reports the cause. A leaving stream is polled by its next
        // owner.
        debug_assert!(result > 0 || slot.leaving, "a poll of an open stream ended with {result}");
        slot.direct = true;
        let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        if result & i32::from(ends.bits()) == 0 {
            self.note(index, |due| due.readable = true);
            return self.arm_watch(index);
        }
        if slot.watch == EndWatch::Off {
            slot.watch = EndWatch::Over;
        }
        self.note(index, |due| (due.readable, due.hangup) = (true, true));
    }

    pub(super) fn ended(&mut self, index: u32, end: End) {
        self.slots[index as usize].end = Some(end);
        self.note(index, |due| (due.readable, due.hangup) = (true, true));
    }

    /// Handles the completion of a send. From now on, the kernel no longer reads the stream's block.
    fn sent(&mut self, index: u32, result: i32) {
        let slot = &mut self.slots[index as usize];
        debug_assert_eq!(slot.outgoing, Outgoing::Flying);
        self.flying -= 1;
        match result {
            0.. => {
                slot.from += result as usize;
                assert!(slot.from <= slot.to, "more bytes were sent than queued");
                if slot.from == slot.to { self.sent_whole(index) } else { self.stall(index) }
            }
            _ => match errno(result) {
                Errno::AGAIN | Errno::NOBUFS | Errno::INTR | Errno::NOMEM => self.stall(index),
                _ => self.broke(index),
            },
        }
    }

    fn stall(&mut self, index: u32) {
        self.detours.stalled += 1;
        let slot = &mut self.slots[index as usize];
        slot.outgoing = Outgoing::Stalled;
        if self.slots[index as usize].life == Life::Closing {
            self.lingering.push_back((index, Instant::now()));
        }
        self.arm_poll_out(index);
    }

    /// Handles the permanent failure of a send. The owner's next call reports it, and an event prompts that call.
    fn broke(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.broken = true;
        if slot.outgoing != Outgoing::None {
            self.free_block(index);
            self.unlinger(index);
        }
        if self.slots[index as usize].life == Life::Closing {
            return self.retire(index);
        }
        self.note(index, |due| (due.readable, due.hangup, due.writable) = (true, true, true));
    }

    pub(super) fn free_block(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.outgoing = Outgoing::None;
        self.outbound.put(std::mem::replace(&mut slot.block, NONE));
        (slot.from, slot.to) = (0, 0);
    }

    fn polled_out(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        (slot.poll_out, slot.cancelling_out) = (false, false);
        if slot.leaving && slot.outgoing == Outgoing::Stalled {
            // The next owner of the stream sends the rest.
        } else if slot.outgoing == Outgoing::Stalled {
            slot.outgoing = Outgoing::Queued;
            self.queued.push(index);
            self.unlinger(index);
        } else if slot.life == Life::Closing {
            self.retire(index);
        } else if slot.wants_out {
            self.note(index, |due| due.writable = true);
        }
    }

    fn sent_whole(&mut self, index: u32) {
        self.free_block(index);
        let slot = &mut self.slots[index as usize];
        if std::mem::take(&mut slot.shut_after) {
            self.shut(index);
        }
        let slot = &self.slots[index as usize];
        if slot.life == Life::Closing {
            self.retire(index);
        } else if slot.wants_out {
            self.note(index, |due| due.writable = true);
        }
    }

    pub(super) fn shut(&mut self, index: u32) {
        let fd = self.slots[index as usize].fd;
        self.borrowed(index, fd, |fd| {
            let _ = rustix::net::shutdown(fd, Shutdown::Write);
        });
    }

    /// Advances a closing slot: cancels its operations in the kernel, or frees the slot if none is left.
    pub(super) fn retire(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.life != Life::Closing {
            return;
        }
        self.inbound.discard(&mut slot.held);
        if slot.is_quiet() {
            if let Some(stream) = slot.stream.take() {
                stream.clear_slot();
            }
            slot.life = Life::Free;
            slot.fd = -1;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(index);
            return;
        }
        self.cancel_intake(index);
        self.cancel_watch(index);
        let slot = &mut self.slots[index as usize];
        if slot.poll_out && slot.outgoing == Outgoing::None && !std::mem::replace(&mut slot.cancelling_out, true) {
            let target = Op::PollOut.user_data(index, slot.generation);
            self.cancel(target, Op::CancelPollOut, index);
        }
    }

    fn unlinger(&mut self, index: u32) {
        self.lingering.retain(|(lingering, _)| *lingering != index);
    }

    /// Drops the last bytes of closed connections whose peers have not taken them within `patience`, which is at most
    /// [`LINGER`].
    pub(super) fn end_lingering(&mut self, patience: Duration) {
        debug_assert!(patience <= LINGER);
        while let Some((index, since)) = self.lingering.front().copied()
            && since.elapsed() >= patience
        {
            self.lingering.pop_front();
            self.free_block(index);
            self.retire(index);
        }
    }
}
