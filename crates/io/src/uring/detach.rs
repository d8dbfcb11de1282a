//! Detaches streams without closing them: ends all their operations, and returns the received bytes that the owner has
//! not taken and the bytes that the kernel has not sent.

use std::time::Duration;

use super::complete::Until;
use super::memory::INBOUND_BYTES;
use super::slot::{End, EndWatch, Intake, Life, Op, Outgoing};
use super::{LINGER, Uring};
use crate::listen::AcceptedStream;
use crate::{Backend, Detached};

/// Maximum time of one wait for the kernel.
const ROUND: Duration = Duration::from_millis(10);
/// Maximum number of successive waits without progress.
const ROUNDS: usize = 20;

impl Uring {
    /// Detaches all streams together, so that one entry into the kernel serves many.
    pub(super) fn release(&mut self, streams: Vec<AcceptedStream>) -> Vec<Option<Detached<AcceptedStream>>> {
        let indexes: Vec<u32> = streams.iter().map(Self::index).collect();
        for index in &indexes {
            self.slots[*index as usize].leaving = true;
        }
        // Submits the bytes that were taken over, because the peer may still take them.
        self.flush_sends();
        let _ = self.enter(Until::Now);
        let mut left = indexes;
        let mut idle = 0;
        // An entry returns a few dozen completions at most, so this continues as long as there is progress.
        while idle < ROUNDS {
            left.retain(|index| !self.is_over(*index));
            left.iter().for_each(|index| self.end_operations(*index));
            let before = left.len();
            if before == 0 || self.enter(Until::Over(ROUND)).is_err() {
                break;
            }
            left.retain(|index| !self.is_over(*index));
            idle = if left.len() < before { 0 } else { idle + 1 };
        }
        streams.into_iter().map(|stream| self.let_one_go(stream)).collect()
    }

    /// Cancels the operations that watch a stream.
    fn end_operations(&mut self, index: u32) {
        self.cancel_intake(index);
        self.cancel_watch(index);
        let slot = &mut self.slots[index as usize];
        let idle = matches!(slot.outgoing, Outgoing::None | Outgoing::Stalled);
        if slot.poll_out && idle && !std::mem::replace(&mut slot.cancelling_out, true) {
            let target = Op::PollOut.user_data(index, slot.generation);
            self.cancel(target, Op::CancelPollOut, index);
        }
    }

    /// Returns true if the kernel has no operation of the stream left. A send that was cut short has ended; the rest of
    /// its bytes waits for a poll.
    fn is_over(&self, index: u32) -> bool {
        let slot = &self.slots[index as usize];
        let watched = slot.intake != Intake::Off || slot.poll_out || slot.watch == EndWatch::Armed;
        slot.is_quiet() || slot.outgoing == Outgoing::Stalled && !watched
    }

    fn let_one_go(&mut self, stream: AcceptedStream) -> Option<Detached<AcceptedStream>> {
        let index = Self::index(&stream);
        let slot = &self.slots[index as usize];
        if !self.is_over(index) || slot.broken || slot.end == Some(End::Reset) {
            self.slots[index as usize].leaving = false;
            if self.slots[index as usize].outgoing == Outgoing::Stalled {
                self.arm_poll_out(index);
            }
            self.close(stream);
            return None;
        }
        let mut unsent = Vec::new();
        if slot.outgoing == Outgoing::Stalled {
            unsent.extend_from_slice(self.outbound.bytes(slot.block, slot.from..slot.to));
            self.free_block(index);
        }
        let slot = &mut self.slots[index as usize];
        let mut received = vec![0; usize::from(slot.held.count()) * INBOUND_BYTES];
        let count = if received.is_empty() { 0 } else { self.inbound.take(&mut slot.held, &mut received) };
        received.truncate(count);
        let slot = &mut self.slots[index as usize];
        debug_assert_eq!((slot.held.count(), slot.life), (0, Life::Open));
        stream.clear_slot();
        slot.life = Life::Free;
        slot.fd = -1;
        slot.due = super::slot::Due::default();
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(Detached { stream, received, unsent })
    }
}

const _: () = assert!(ROUND.as_millis() as usize * ROUNDS < LINGER.as_millis() as usize);
