//! Reads of one device by one thread, through io_uring: many at once, each into a buffer that the kernel knows.
//!
//! ```text
//!   queue ──> slot ──read──> looked at ──> its lane
//!                    └─ longer than a slot, or the job's ──> a thread that waits for the device
//! ```
//!
//! Where the kernel has no io_uring, or forbids it, threads read instead ([`crate::threads`]), and the same is read.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use io::disk::{DiskRead, DiskRing};
use segment::{Found, TierRead};

use crate::flash::Flash;
use crate::queues::Work;
use crate::reads::{Finding, Place};

/// Reads under way at once: what keeps a device busy.
pub(crate) const SLOTS: u16 = 64;
/// What most items are read with: eight blocks of 512 bytes, wherever they lie in blocks of 4096.
pub(crate) const SLOT_BYTES: usize = 8192;
/// How often a thread with reads under way looks whether the device answers.
const LOOK: Duration = Duration::from_millis(500);

/// A read that is under way.
struct Flying {
    read: TierRead,
    finding: Finding,
    /// Where in the slot's bytes the wanted ones begin.
    begin: usize,
    since_ms: u64,
}

/// The reads of one device.
pub(crate) struct Ring<'f> {
    flash: &'f Flash,
    device: usize,
    ring: DiskRing,
    flying: Vec<Option<Flying>>,
}

impl<'f> Ring<'f> {
    pub(crate) fn new(flash: &'f Flash, device: usize, ring: DiskRing) -> Self {
        Self { flash, device, ring, flying: (0..SLOTS).map(|_| None).collect() }
    }

    /// Reads until all is stopped.
    pub(crate) fn run(&mut self) {
        let mut ended = Vec::with_capacity(usize::from(SLOTS));
        while !self.flash.stopped.load(Relaxed) {
            self.begin_reads();
            let timeout = (self.ring.flying() > 0).then_some(LOOK);
            if let Err(error) = self.ring.wait(timeout, &mut ended) {
                let part = &self.flash.regions.parts[self.device];
                let _ = self.flash.device_did::<()>(part, "io_uring", Err(error));
                // What waits for it is told so at each look.
                std::thread::sleep(LOOK);
            }
            ended.drain(..).for_each(|read| self.end(read));
            self.give_up();
        }
    }

    fn begin_reads(&mut self) {
        while let Some(slot) = self.ring.take() {
            let Some(read) = self.flash.queues[self.device].pop_read() else { return self.ring.give(slot) };
            match self.flash.finding(read.at) {
                Some(finding) => self.look_for(slot, read, finding),
                None => self.tell(slot, read, Found::Failed),
            }
        }
    }

    /// Has the bytes read, or takes them from memory; tells what was found where that needs no device.
    fn look_for(&mut self, slot: u16, mut read: TierRead, mut finding: Finding) {
        loop {
            match self.flash.place(&finding, &mut read.buffer) {
                Place::Nowhere => return self.tell(slot, read, Found::Failed),
                Place::Device => break,
                Place::Memory => {
                    if let Some(found) = finding.look(&read.buffer, read.hash) {
                        return self.tell(slot, read, found);
                    }
                }
            }
        }
        let (at, bytes, begin) = self.flash.blocks_around(finding.region, finding.from, finding.bytes);
        if self.flash.regions.parts[self.device].is_lost() {
            return self.tell(slot, read, Found::Failed);
        }
        if bytes > SLOT_BYTES {
            self.ring.give(slot);
            return self.flash.queues[self.device].push(Work::Read(read));
        }
        self.ring.read(slot, at, bytes);
        let since_ms = self.flash.now_ms();
        self.flying[usize::from(slot)] = Some(Flying { read, finding, begin, since_ms });
    }

    fn end(&mut self, DiskRead { slot, result }: DiskRead) {
        // What was given up is nobody's any more.
        let Some(Flying { mut read, mut finding, begin, .. }) = self.flying[usize::from(slot)].take() else {
            return self.ring.give(slot);
        };
        let (_, bytes, _) = self.flash.blocks_around(finding.region, finding.from, finding.bytes);
        let whole = result.and_then(|there| if there < bytes { Err(short()) } else { Ok(()) });
        let part = &self.flash.regions.parts[self.device];
        if !self.flash.device_did(part, "a read", whole) {
            return self.tell(slot, read, Found::Failed);
        }
        read.buffer.clear();
        read.buffer.extend_from_slice(&self.ring.bytes(slot)[begin..begin + finding.bytes]);
        self.flash.counters.read_bytes.fetch_add(finding.bytes as u64, Relaxed);
        match finding.look(&read.buffer, read.hash) {
            Some(found) => self.tell(slot, read, found),
            None => self.look_for(slot, read, finding),
        }
    }

    fn tell(&mut self, slot: u16, read: TierRead, found: Found) {
        self.ring.give(slot);
        self.flash.done(TierRead { found, ..read });
    }

    /// Takes the device out if it does not answer; who waits for it is told.
    fn give_up(&mut self) {
        let before_ms = self.flash.slow_before_ms();
        let is_slow = |flying: &&mut Option<Flying>| flying.as_ref().is_some_and(|flying| flying.since_ms < before_ms);
        for flying in self.flying.iter_mut().filter(is_slow) {
            self.flash.lose_slow(&self.flash.regions.parts[self.device]);
            let given_up = flying.take().expect("it is slow");
            self.flash.done(TierRead {
                lane: given_up.read.lane,
                hash: given_up.read.hash,
                at: given_up.read.at,
                buffer: Vec::new(),
                found: Found::Failed,
            });
        }
    }
}

fn short() -> std::io::Error {
    std::io::ErrorKind::UnexpectedEof.into()
}
