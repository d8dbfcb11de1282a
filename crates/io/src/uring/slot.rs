//! The state of one connection in the ring.
//!
//! ```text
//!   life      Free ──attach──> Open ──close──> Closing ──no operation is left──> Free (next generation)
//!   intake    Off ──> Multishot ──(no buffer)──> Off ──> Poll ──> Off, and `direct`: `recv` calls until the
//!                                                                           socket is empty
//!   outgoing  None ──send──> Queued ──submit──> Flying ──completed──> None
//!                              ^                  └─short─> Stalled ──room (POLLOUT)──> Queued
//!                              └────────────────────────────────────────────────────────┘
//!   watch     Off ──(bytes stay unread, so no receive is in the kernel)──> Armed ──the peer has closed──> Over
//! ```
//!
//! Two transitions are deliberately impossible: Closing never returns to Open, and a slot with an operation in the
//! kernel is never Free. So a slot is never reused while a completion for its earlier connection can arrive. The
//! generation in `user_data` is a second check.

use super::memory::{Chain, NONE};
use crate::Token;
use crate::listen::AcceptedStream;
use std::os::fd::RawFd;

/// The purpose of an operation, in the top byte of its `user_data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Op {
    Receive = 1,
    PollIn = 2,
    Send = 3,
    PollOut = 4,
    CancelIntake = 5,
    CancelPollOut = 6,
    Waker = 7,
    Watch = 8,
    CancelWatch = 9,
}

impl Op {
    const ALL: [Self; 9] = [
        Self::Receive,
        Self::PollIn,
        Self::Send,
        Self::PollOut,
        Self::CancelIntake,
        Self::CancelPollOut,
        Self::Waker,
        Self::Watch,
        Self::CancelWatch,
    ];
    const GENERATION_MASK: u32 = 0xFF_FFFF;

    /// Packs `[ op 8 | generation 24 | slot 32 ]`.
    pub(super) const fn user_data(self, slot: u32, generation: u32) -> u64 {
        (self as u64) << 56 | ((generation & Self::GENERATION_MASK) as u64) << 32 | slot as u64
    }

    /// Unpacks the operation, its slot and the low 24 bits of its generation.
    pub(super) fn parse(user_data: u64) -> (Self, u32, u32) {
        let op = Self::ALL[(user_data >> 56) as usize - 1];
        (op, user_data as u32, (user_data >> 32) as u32 & Self::GENERATION_MASK)
    }

    pub(super) const fn same_life(generation: u32, low: u32) -> bool {
        generation & Self::GENERATION_MASK == low
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Free,
    Open,
    Closing,
}

/// The way in which bytes are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intake {
    /// No operation watches for bytes.
    Off,
    Multishot,
    Poll,
}

/// The watch for the end of a stream whose bytes are not received. Its owner may rest without reading, and must learn
/// nevertheless that the peer has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndWatch {
    Off,
    /// A poll for the end is in the kernel. It stays there while bytes are received.
    Armed,
    /// The end was reported.
    Over,
}

/// The state of the bytes that were taken over for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// No bytes were taken over.
    None,
    /// Queued for the next entry; more may still be appended.
    Queued,
    /// In the kernel until the send completes.
    Flying,
    /// The socket's send buffer is full. A poll reports when it has room.
    Stalled,
}

/// The way in which the receiving side ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Closed,
    Reset,
}

/// Events that are pending for the owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) hangup: bool,
}

impl Due {
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

pub(super) struct UringSlot {
    pub(super) life: Life,
    pub(super) generation: u32,
    pub(super) token: Token,
    pub(super) fd: RawFd,
    /// The stream of a closing slot. Its descriptor stays open as long as an operation may name it.
    pub(super) stream: Option<AcceptedStream>,
    pub(super) intake: Intake,
    /// True if the cancellation of the receive or poll was requested.
    pub(super) cancelling: bool,
    pub(super) held: Chain,
    /// The iteration in which the chain began.
    pub(super) held_since: u64,
    /// True if the socket is read with `recv` system calls, because bytes arrived while no buffer was free.
    pub(super) direct: bool,
    /// True if the buffer that the owner passed to the latest receive was longer than [`super::SHORT_BYTES_MAX`]. Then
    /// no multishot receive is started.
    pub(super) bulk: bool,
    pub(super) watch: EndWatch,
    pub(super) cancelling_watch: bool,
    pub(super) end: Option<End>,
    /// True if a send has failed.
    pub(super) broken: bool,
    pub(super) outgoing: Outgoing,
    pub(super) block: u16,
    /// The unsent part of the block.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) poll_out: bool,
    pub(super) cancelling_out: bool,
    pub(super) wants_out: bool,
    /// True if the sending side is shut down after the block was sent.
    pub(super) shut_after: bool,
    /// True if the stream is being detached. No operation watches for its bytes any more.
    pub(super) leaving: bool,
    pub(super) due: Due,
    /// True if the slot is in the list of slots with pending events.
    pub(super) listed: bool,
}

// Limits the memory of a connection besides the shared buffers and the lists.
const _: () = assert!(size_of::<UringSlot>() <= 120);

impl UringSlot {
    pub(super) fn free() -> Self {
        Self {
            life: Life::Free,
            generation: 0,
            token: Token(0),
            fd: -1,
            stream: None,
            intake: Intake::Off,
            cancelling: false,
            held: Chain::EMPTY,
            held_since: 0,
            direct: false,
            bulk: false,
            watch: EndWatch::Off,
            cancelling_watch: false,
            end: None,
            broken: false,
            outgoing: Outgoing::None,
            block: NONE,
            from: 0,
            to: 0,
            poll_out: false,
            cancelling_out: false,
            wants_out: false,
            shut_after: false,
            leaving: false,
            due: Due::default(),
            listed: false,
        }
    }

    /// Resets the slot for a new stream. The slot's generation is retained.
    pub(super) fn open(&mut self, fd: RawFd, token: Token) {
        assert!(self.life == Life::Free && self.is_quiet(), "a slot is reused while the kernel has an operation of it");
        let (generation, listed) = (self.generation, self.listed);
        *self = Self { life: Life::Open, generation, token, fd, listed, ..Self::free() };
    }

    /// Returns true if no operation of this slot is in the kernel or queued.
    pub(super) fn is_quiet(&self) -> bool {
        self.intake == Intake::Off && !self.poll_out && self.watch != EndWatch::Armed && self.outgoing == Outgoing::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_data_round_trips_op_slot_and_generation() {
        for op in Op::ALL {
            for (slot, generation) in [(0, 0), (u32::MAX, 0xFF_FFFF), (7, 0x0100_0003)] {
                let (read, at, low) = Op::parse(op.user_data(slot, generation));
                assert_eq!((read, at), (op, slot));
                assert!(Op::same_life(generation, low) && !Op::same_life(generation + 1, low));
            }
        }
    }
}
