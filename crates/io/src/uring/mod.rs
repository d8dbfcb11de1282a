//! Sockets through io_uring. The kernel delivers bytes without a receive call, and one system call per iteration does
//! everything else.
//!
//! ```text
//!   wait:    sends of this iteration, new receives ──> io_uring_enter ──> completions ──> events
//!                                                               │
//!   a multishot receive for each stream fills provided buffers (4 KiB each, at most 1024)
//!   receive: the stream's buffers, oldest first ──copied──> the lent buffer; emptied ones go back to the kernel
//!            if the lent buffer has 64 KiB or more: the multishot receive is cancelled, and `recv` calls receive
//!            the remaining bytes without that copy
//!   send:    up to 16 KiB ──copied──> a block of the reactor (at most 128), which the next entry into the kernel sends
//!            more than that, or no block free: sendmsg at once, as with epoll
//! ```
//!
//! A ring's sends ask the kernel not to wait: the kernel cuts a send short if the peer's window is full. Their
//! completions are available when the entry returns, so a wait asks for one completion more than there are sends. A
//! block belongs to the kernel until its send has completed, however long that takes. The rest of a send that was cut
//! short goes out after a poll reports room. Until then, every further send of that stream is blocked.
//!
//! Invariants:
//! - A reactor holds at most [`BYTES_MAX`] bytes, whatever the peers do. If its owner does not read a stream, the
//!   stream's receive is cancelled once it holds [`HELD_MAX`] buffers. If the buffers run out nevertheless, a stream
//!   without a buffer is polled and its bytes are received by calls, so that no stream starves because other streams
//!   hold the buffers. Likewise, a stream without a block sends by calls.
//! - If a stream's bytes stay unread, so that no receive of it is in the kernel, a poll watches for its end. An owner
//!   that rests without reading thus learns that the peer has left.
//! - A stream's bytes keep their order. A stream has one receive at a time, whose buffers are chained in the order of
//!   their completions. Calls are made only while no receive is in the kernel and the chain is empty. A stream has one
//!   send at a time.
//! - A slot is given to the next stream only after every operation of the former one has ended, and the former stream's
//!   descriptor stays open until then. So a completion, or an entry that is not yet submitted, never refers to a
//!   successor.
//! - Errors are stored, and the next call returns them as [`Received::Reset`] or [`Sent::Reset`]. If the kernel does
//!   not accept an operation, only the stream of that operation ends.
//! - Nothing is allocated after [`Opened::reactor`]. Only `wait` blocks.
//! - Bytes that were taken over are sent even if the stream is closed right after. They are dropped after [`LINGER`].
#![allow(unsafe_code)]

mod complete;
mod detach;
mod memory;
mod open;
mod slot;

pub use memory::{INBOUND_BYTES, INBOUND_MAX, OUTBOUND_BYTES, OUTBOUND_MAX};
pub(crate) use open::restrict;
pub use open::{Opened, Unavailable};

use crate::listen::AcceptedStream;
use crate::waker::Waker;
use crate::{Backend, Detached, IoEvent, Received, Sent, Token};
use complete::Until;
use io_uring::IoUring;
use memory::{Inbound, Outbound};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use slot::{Due, End, Intake, Life, Outgoing, UringSlot};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Maximum number of bytes, received or unsent, that one reactor holds.
pub const BYTES_MAX: usize = INBOUND_MAX * INBOUND_BYTES + OUTBOUND_MAX * OUTBOUND_BYTES;
/// Number of unread buffers, held for longer than an iteration, at which a stream's receive is cancelled.
pub const HELD_MAX: u16 = 8;
/// Length of a lent buffer from which on the stream switches to bulk receives: with `recv` system calls, as with epoll.
const BULK_BYTES_MIN: usize = 64 << 10;
/// Length of a lent buffer up to which the stream switches back from bulk receives to the multishot receive.
const SHORT_BYTES_MAX: usize = 16 << 10;
/// Maximum time for which the last bytes of a closed stream wait for its peer.
pub const LINGER: Duration = Duration::from_secs(1);
/// Number of slots beyond the maximum of streams, for closed streams whose operations are still ending.
const CLOSING_MAX: usize = OUTBOUND_MAX + 256;
/// Number of queued sends at which [`Backend::submit`] submits them in mid-iteration.
const SUBMIT_AT: usize = 64;
/// Maximum number of rounds of 10 ms for which the drop waits for the kernel.
const DROP_ROUNDS: usize = 100;

/// Counts of the cases in which a reactor left its fast path, since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detours {
    /// Receives that found no free buffer, so that the stream was polled instead.
    pub buffers_out: u64,
    /// Receives with a `recv` system call instead of the ring.
    pub received_by_call: u64,
    /// Receives cancelled because the owner did not read their stream.
    pub unread: u64,
    /// Receives cancelled because their stream receives long values.
    pub bulk: u64,
    /// Sends that the kernel cut short.
    pub stalled: u64,
    /// Sends with a system call instead of the ring, because they were too long for a block or no block was free.
    pub sent_by_call: u64,
}

/// The io_uring back end.
pub struct Uring {
    // Dropped in this order: the ring before the memory that it may write to.
    ring: IoUring,
    inbound: ManuallyDrop<Inbound>,
    outbound: ManuallyDrop<Outbound>,
    slots: Box<[UringSlot]>,
    free: Vec<u32>,
    /// The slots with a filled send buffer, which the next `io_uring_enter` submits.
    queued: Vec<u32>,
    /// The number of sends that the kernel has not completed.
    flying: usize,
    /// True if the kernel watches the waker.
    watches_waker: bool,
    /// True if the kernel refused to cancel an operation.
    uncancelled: bool,
    /// Number of entries that [`Uring::push`] refuses, for tests.
    #[cfg(test)]
    refusals: u32,
    /// The slots of closed streams with unsent bytes, each with the time since which the stream waits for its peer.
    lingering: VecDeque<(u32, Instant)>,
    /// The slots of streams with pending events.
    due: VecDeque<u32>,
    turn: u64,
    detours: Detours,
    waker: Waker,
}

impl Uring {
    fn new(ring: IoUring, inbound: Inbound, outbound: Outbound, waker: Waker, streams_max: usize) -> Self {
        let count = streams_max + CLOSING_MAX;
        let mut made = Self {
            ring,
            inbound: ManuallyDrop::new(inbound),
            outbound: ManuallyDrop::new(outbound),
            slots: (0..count).map(|_| UringSlot::free()).collect(),
            free: (0..count as u32).rev().collect(),
            queued: Vec::with_capacity(OUTBOUND_MAX),
            flying: 0,
            watches_waker: false,
            uncancelled: false,
            #[cfg(test)]
            refusals: 0,
            lingering: VecDeque::with_capacity(OUTBOUND_MAX),
            due: VecDeque::with_capacity(count),
            turn: 0,
            detours: Detours::default(),
            waker,
        };
        made.arm_waker();
        made
    }

    /// Returns how often the reactor left its fast path.
    pub fn detours(&self) -> Detours {
        self.detours
    }

    /// Returns the slot of an attached stream.
    fn index(stream: &AcceptedStream) -> u32 {
        stream.slot().expect("a stream that was attached")
    }

    /// Records a pending event of a stream, for [`Backend::wait`] to report.
    fn note(&mut self, index: u32, what: impl FnOnce(&mut Due)) {
        let slot = &mut self.slots[index as usize];
        what(&mut slot.due);
        if !std::mem::replace(&mut slot.listed, true) {
            self.due.push_back(index);
        }
    }

    /// Makes a system call on a slot's descriptor.
    fn borrowed<T>(&self, index: u32, fd: RawFd, call: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        let slot = &self.slots[index as usize];
        assert!(slot.life != Life::Free && slot.fd == fd && fd >= 0, "a descriptor of no stream");
        // SAFETY: 1. the stream of an Open slot still exists at its owner, because only `close` takes it; 2. a Closing
        // slot holds the stream itself; 3. the borrow ends with this call.
        call(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Enters the kernel if there is work for it, and processes all completions. Returns true if the kernel was
    /// entered.
    fn refresh(&mut self) -> bool {
        self.has_news() && self.enter(Until::Now).is_ok()
    }

    /// Takes bytes from the stream's buffers. Then, if the stream is read with `recv` calls, takes bytes from the
    /// socket.
    fn take(&mut self, index: u32, into: &mut [u8]) -> Received {
        let slot = &mut self.slots[index as usize];
        slot.bulk = into.len() > SHORT_BYTES_MAX;
        let mut done = self.inbound.take(&mut slot.held, into);
        if into.len() >= BULK_BYTES_MIN && slot.intake == Intake::Multishot && done > 0 && !slot.cancelling {
            self.detours.bulk += 1;
            self.cancel_intake(index);
        }
        let slot = &self.slots[index as usize];
        if slot.held.count() == 0 && slot.end.is_none() && slot.intake == Intake::Off && !slot.direct {
            self.arm_intake(index);
        }
        let slot = &self.slots[index as usize];
        if slot.direct && slot.end.is_none() && done < into.len() {
            done += self.take_direct(index, &mut into[done..]);
        }
        let slot = &self.slots[index as usize];
        match slot.end {
            _ if done > 0 => Received::Bytes(done),
            _ if slot.broken => Received::Reset,
            Some(End::Closed) => Received::Closed,
            Some(End::Reset) => Received::Reset,
            None => Received::Blocked,
        }
    }

    /// Receives with one `recv` call. Returns the number of bytes.
    fn take_direct(&mut self, index: u32, into: &mut [u8]) -> usize {
        self.detours.received_by_call += 1;
        let fd = self.slots[index as usize].fd;
        let result = loop {
            match self.borrowed(index, fd, |fd| rustix::net::recv(fd, &mut *into, RecvFlags::DONTWAIT)) {
                Err(Errno::INTR) => {}
                result => break result.map(|(bytes, _)| bytes),
            }
        };
        match result {
            Ok(bytes) if bytes == into.len() => return bytes,
            Ok(0) => self.ended(index, End::Closed),
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(_) => self.ended(index, End::Reset),
        }
        self.slots[index as usize].direct = false;
        if self.slots[index as usize].end.is_none() {
            self.arm_intake(index);
        }
        result.unwrap_or(0)
    }

    /// Copies `parts` into the stream's queued block or into a free one. Returns false if they do not fit.
    fn take_over(&mut self, index: u32, parts: &[IoSlice<'_>], bytes: usize) -> bool {
        let slot = &mut self.slots[index as usize];
        if bytes > OUTBOUND_BYTES - slot.to {
            return false;
        }
        match slot.outgoing {
            Outgoing::Queued => {}
            Outgoing::None => {
                let Some(block) = self.outbound.take() else { return false };
                (slot.block, slot.from, slot.to, slot.outgoing) = (block, 0, 0, Outgoing::Queued);
                self.queued.push(index);
            }
            Outgoing::Flying | Outgoing::Stalled => return false,
        }
        for part in parts {
            self.outbound.write(slot.block, slot.to, part);
            slot.to += part.len();
        }
        true
    }

    /// Sends with a `sendmsg` call.
    fn send_direct(&mut self, index: u32, parts: &[IoSlice<'_>], bytes: usize) -> Sent {
        self.detours.sent_by_call += 1;
        let fd = self.slots[index as usize].fd;
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let send = |fd: BorrowedFd<'_>| rustix::net::sendmsg(fd, parts, &mut SendAncillaryBuffer::default(), flags);
        let result = loop {
            match self.borrowed(index, fd, send) {
                Err(Errno::INTR) => {}
                result => break result,
            }
        };
        if self.slots[index as usize].wants_out && result != Ok(bytes) {
            self.arm_poll_out(index);
        }
        match result {
            Ok(sent) => Sent::Bytes(sent),
            Err(Errno::AGAIN | Errno::NOBUFS) => Sent::Blocked,
            Err(_) => Sent::Reset,
        }
    }

    fn begin_close(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        debug_assert_eq!(slot.life, Life::Open);
        slot.life = Life::Closing;
        slot.due = Due::default();
        if slot.outgoing == Outgoing::Stalled {
            self.lingering.push_back((index, Instant::now()));
        }
        self.retire(index);
    }

    /// Moves pending events into `events`.
    fn report(&mut self, events: &mut Vec<IoEvent>) {
        while events.len() < events.capacity()
            && let Some(index) = self.due.pop_front()
        {
            let slot = &mut self.slots[index as usize];
            slot.listed = false;
            let due = std::mem::take(&mut slot.due);
            if slot.life == Life::Open && !due.is_empty() {
                let Due { readable, writable, hangup } = due;
                events.push(IoEvent { token: slot.token, readable, writable, hangup });
            }
        }
    }
}

impl Backend for Uring {
    type Stream = AcceptedStream;

    fn peer(stream: &AcceptedStream) -> Option<std::net::SocketAddr> {
        stream.peer()
    }

    fn descriptor(stream: &AcceptedStream) -> Option<u32> {
        Some(stream.descriptor())
    }

    fn local(stream: &AcceptedStream) -> Option<std::net::SocketAddr> {
        stream.local()
    }

    fn attach(&mut self, stream: &AcceptedStream, token: Token) -> std::io::Result<()> {
        assert!(stream.slot().is_none(), "attached twice");
        // A slot of a closed stream becomes free when the stream's operations have ended. Entering the kernel ends
        // them.
        for _ in 0..2 {
            if self.free.is_empty() {
                self.enter(Until::Now)?;
            }
        }
        let index = self.free.pop().ok_or(std::io::ErrorKind::QuotaExceeded)?;
        self.slots[index as usize].open(stream.as_fd().as_raw_fd(), token);
        stream.set_slot(index);
        self.arm_intake(index);
        Ok(())
    }

    fn close(&mut self, stream: AcceptedStream) {
        let Some(index) = stream.slot() else { return };
        self.slots[index as usize].stream = Some(stream);
        self.begin_close(index);
    }

    fn detach(&mut self, streams: Vec<AcceptedStream>) -> Vec<Option<Detached<AcceptedStream>>> {
        self.release(streams)
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<IoEvent>) -> std::io::Result<()> {
        events.clear();
        self.turn += 1;
        self.arm_waker();
        if self.uncancelled {
            self.cancel_again();
        }
        if !self.lingering.is_empty() {
            self.end_lingering(LINGER);
        }
        let awaited = self.flush_sends();
        let has_completions = !self.ring.completion().is_empty();
        let until = match timeout {
            _ if awaited || has_completions || !self.due.is_empty() => Until::Now,
            Some(Duration::ZERO) => Until::Now,
            Some(timeout) => Until::Over(timeout),
            None => Until::Ever,
        };
        if !matches!(until, Until::Now) || self.has_news() {
            self.enter(until)?;
        }
        self.report(events);
        Ok(())
    }

    fn receive(&mut self, stream: &AcceptedStream, into: &mut [u8]) -> Received {
        debug_assert!(!into.is_empty(), "a receive into an empty buffer");
        let index = Self::index(stream);
        match self.take(index, into) {
            // Bytes may have arrived that the kernel has not yet moved into a buffer.
            Received::Blocked if self.refresh() => self.take(index, into),
            received => received,
        }
    }

    fn send(&mut self, stream: &AcceptedStream, parts: &[IoSlice<'_>]) -> Sent {
        let index = Self::index(stream);
        let bytes = parts.iter().map(|part| part.len()).sum();
        debug_assert!(bytes > 0, "a send of no bytes");
        if self.slots[index as usize].broken {
            return Sent::Reset;
        }
        if self.take_over(index, parts, bytes) {
            return Sent::Bytes(bytes);
        }
        if matches!(self.slots[index as usize].outgoing, Outgoing::Queued | Outgoing::Flying) {
            // Earlier bytes must go out first, and must leave their block.
            self.flush_sends();
            if self.enter(Until::Now).is_err() || self.slots[index as usize].broken {
                return Sent::Reset;
            }
        }
        if self.slots[index as usize].outgoing != Outgoing::None {
            Sent::Blocked
        } else if self.take_over(index, parts, bytes) {
            Sent::Bytes(bytes)
        } else {
            self.send_direct(index, parts, bytes)
        }
    }

    fn want_writable(&mut self, stream: &AcceptedStream, token: Token, want: bool) {
        let index = Self::index(stream);
        let slot = &mut self.slots[index as usize];
        debug_assert_eq!(slot.token, token);
        slot.wants_out = want;
        if !want {
            slot.due.writable = false;
        } else if slot.outgoing == Outgoing::None {
            self.arm_poll_out(index);
        }
    }

    fn shutdown_send(&mut self, stream: &AcceptedStream) {
        let index = Self::index(stream);
        if self.slots[index as usize].outgoing == Outgoing::None {
            self.shut(index);
        } else {
            self.slots[index as usize].shut_after = true;
        }
    }

    fn submit(&mut self) {
        if self.queued.len() >= SUBMIT_AT {
            self.flush_sends();
            // If the ring cannot be entered, the next wait fails too and returns the error.
            let _ = self.enter(Until::Now);
        }
    }
}

impl Drop for Uring {
    /// Sends the last bytes of closed streams and ends every operation. Frees the memory only after the kernel has
    /// released it.
    fn drop(&mut self) {
        // A stream that was not closed may be gone, and its descriptor number may belong to another file.
        while let Some(at) = self.queued.iter().position(|index| self.slots[*index as usize].life == Life::Open) {
            let index = self.queued.swap_remove(at);
            self.free_block(index);
        }
        for index in 0..self.slots.len() as u32 {
            if self.slots[index as usize].life == Life::Open {
                self.begin_close(index);
            }
        }
        let is_done = |made: &Self| made.free.len() == made.slots.len();
        for _ in 0..DROP_ROUNDS {
            self.end_lingering(Duration::ZERO);
            if self.uncancelled {
                self.cancel_again();
            }
            self.flush_sends();
            if is_done(self) || self.enter(Until::Over(Duration::from_millis(10))).is_err() {
                break;
            }
        }
        debug_assert!(is_done(self) || std::thread::panicking(), "the kernel still has an operation");
        if is_done(self) {
            debug_assert!(self.outbound.is_whole(), "a block was lost");
            // SAFETY: 1. neither is used again: this is the drop; 2. no slot has an operation, so the kernel no longer
            // writes to a buffer or reads a block.
            unsafe {
                ManuallyDrop::drop(&mut self.inbound);
                ManuallyDrop::drop(&mut self.outbound);
            }
        }
        // Otherwise the memory is leaked. That is safe; a write by the kernel into reused memory would not be.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    const SLOTS: usize = 4;

    fn uring() -> Uring {
        Opened::open(&Waker::new().expect("a descriptor"), SLOTS).expect("this kernel has rings").reactor()
    }

    fn attach(uring: &mut Uring, number: u32) -> (UnixStream, AcceptedStream) {
        let (near, far) = UnixStream::pair().expect("a pair");
        far.set_nonblocking(true).expect("a socket");
        let stream = AcceptedStream::adopt(far.into()).expect("a socket");
        uring.attach(&stream, Token::new(number, 1)).expect("there is room");
        (near, stream)
    }

    fn iteration(uring: &mut Uring) -> Vec<IoEvent> {
        let mut events = Vec::with_capacity(16);
        uring.wait(Some(Duration::from_millis(20)), &mut events).expect("the kernel is entered");
        events
    }

    /// Checks that bytes get through in both directions.
    fn echoes(uring: &mut Uring, near: &mut UnixStream, stream: &AcceptedStream) {
        near.write_all(b"ask").expect("sends");
        let mut bytes = [0; 8];
        while uring.receive(stream, &mut bytes) != Received::Bytes(3) {
            iteration(uring);
        }
        assert_eq!(uring.send(stream, &[IoSlice::new(b"told")]), Sent::Bytes(4));
        iteration(uring);
        near.read_exact(&mut bytes[..4]).expect("an answer");
        assert_eq!((&bytes[..4], uring.flying), (&b"told"[..], 0));
    }

    #[test]
    fn refused_kernel_operation_closes_only_its_own_stream() {
        let mut uring = uring();
        let slots = uring.free.len();
        let (mut near, stays) = attach(&mut uring, 0);
        echoes(&mut uring, &mut near, &stays);
        // A refused receive ends only its stream.
        uring.refusals = 1;
        let (_deaf, deaf) = attach(&mut uring, 1);
        assert!(iteration(&mut uring).iter().any(|event| event.token == Token::new(1, 1) && event.hangup));
        assert_eq!(uring.receive(&deaf, &mut [0; 8]), Received::Reset);
        // A refused send ends only its stream.
        let (_mute, mute) = attach(&mut uring, 2);
        assert_eq!(uring.send(&mute, &[IoSlice::new(b"lost")]), Sent::Bytes(4));
        uring.refusals = 1;
        assert!(iteration(&mut uring).iter().any(|event| event.token == Token::new(2, 1) && event.hangup));
        assert_eq!(uring.send(&mute, &[IoSlice::new(b"lost")]), Sent::Reset);
        // A refused poll for room ends only its stream. The peer takes no bytes.
        let (_full, full) = attach(&mut uring, 3);
        while let Sent::Bytes(_) = uring.send(&full, &[IoSlice::new(&[7; 8000])]) {
            uring.refusals = u32::from(uring.outbound.is_whole());
            iteration(&mut uring);
            uring.refusals = 0;
        }
        echoes(&mut uring, &mut near, &stays);
        // A refused cancellation is retried.
        for stream in [deaf, mute, full] {
            uring.refusals = 1;
            uring.close(stream);
            uring.refusals = 0;
        }
        for _ in 0..100 {
            iteration(&mut uring);
        }
        assert_eq!((uring.free.len(), uring.outbound.is_whole()), (slots - 1, true));
        // A refused watch of the waker is retried.
        uring.watches_waker = false;
        uring.refusals = 1;
        iteration(&mut uring);
        assert!(!uring.watches_waker);
        echoes(&mut uring, &mut near, &stays);
        assert!(uring.watches_waker);
        uring.close(stays);
    }

    /// If a block were reused while the kernel reads it, one client's bytes would be sent to another.
    #[test]
    fn a_block_is_the_kernels_until_its_send_has_completed() {
        let mut uring = uring();
        let (_near, stream) = attach(&mut uring, 0);
        assert_eq!(uring.send(&stream, &[IoSlice::new(b"bytes")]), Sent::Bytes(5));
        uring.flush_sends();
        uring.ring.submit().expect("the kernel is entered");
        // The kernel has sent the block, but the completion was not taken. Until it is taken, no other stream gets the
        // block.
        assert!(!uring.outbound.is_whole() && uring.flying == 1);
        assert_eq!(uring.slots[Uring::index(&stream) as usize].outgoing, Outgoing::Flying);
        uring.enter(Until::Now).expect("the kernel is entered");
        assert!(uring.outbound.is_whole() && uring.flying == 0);
        uring.close(stream);
    }
}
