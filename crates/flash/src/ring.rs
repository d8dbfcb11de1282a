//! Reads that a handle's own thread submits through io_uring. Many reads are in flight at a time, each into a buffer
//! registered with the kernel.
//!
//! ```text
//!   requested ──> slot ──read──> device ──rings the bell of the handle's thread──> collected, searched ──> the handle
//!                        └─ item longer than a slot ──> a thread that waits for the device
//! ```
//!
//! No other thread is involved. On a machine with few CPUs, a thread switch takes longer than a read takes on many
//! devices. If the kernel has no io_uring, or forbids it, threads do the same reads instead ([`crate::threads`]).
//!
//! Only the handle's thread takes a ring's lock, except when the background briefly checks whether devices answer.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use io::disk::{DiskRead, DiskRing};
use segment::{Found, TierRead};

use crate::flash::{Flash, lock};
use crate::queues::Work;
use crate::reads::{Finding, ReadTarget};

/// Number of slots in a ring, which is the maximum number of a handle's reads in flight.
pub(crate) const SLOTS: u16 = 64;
/// Size of a slot's buffer in bytes. It suffices for most items: eight 512-byte blocks, at any position relative to
/// device blocks of 4096 bytes.
pub(crate) const SLOT_BYTES: usize = 8192;

/// A read in flight.
#[derive(Debug)]
struct Flying {
    read: TierRead,
    finding: Finding,
    /// Offset of the wanted bytes within the slot's buffer.
    begin: usize,
    since_ms: u64,
}

/// The reads of a handle that are in flight, if its thread has a ring.
#[derive(Debug, Default)]
pub(crate) struct HandleReads {
    ring: OnceLock<Mutex<Reads>>,
    /// Number of reads in flight, which other threads read without the ring's lock.
    flying: AtomicUsize,
}

#[derive(Debug)]
struct Reads {
    ring: DiskRing,
    flying: Vec<Option<Flying>>,
    ended: Vec<DiskRead>,
    /// Number of reads whose result was reported since the handle last submitted a read.
    completed: usize,
}

impl HandleReads {
    /// Sets the ring of the handle's thread. From now on, the thread submits its own reads, and the ring's bell wakes
    /// the thread when a read completes.
    pub(crate) fn read_by(&self, ring: DiskRing) {
        let flying = (0..SLOTS).map(|_| None).collect();
        let _ =
            self.ring.set(Mutex::new(Reads { ring, flying, ended: Vec::with_capacity(SLOTS.into()), completed: 0 }));
    }

    /// Returns the size of the read buffers in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        if self.ring.get().is_some() { usize::from(SLOTS) * SLOT_BYTES } else { 0 }
    }

    /// Starts a read. Returns an error if the handle has no ring, or if all slots of the ring are in use.
    pub(crate) fn ask(&self, flash: &Flash, read: TierRead) -> Result<(), Unasked> {
        let Some(reads) = self.ring.get() else { return Err(Unasked::NoRing(read)) };
        let (handle, mut reads) = (read.handle, lock(reads));
        let Some(slot) = reads.ring.take() else { return Err(Unasked::Later(read)) };
        reads.completed = 0;
        match flash.finding(read.at) {
            Some(finding) => reads.find_read(flash, slot, read, finding),
            None => reads.tell(flash, slot, read, Found::Failed),
        }
        self.submit(flash, &mut reads);
        if reads.completed > 0 {
            // The read ended without the device, so the kernel will not ring the bell for this read.
            flash.wake(Some(handle));
        }
        Ok(())
    }

    /// Processes completed reads.
    pub(crate) fn collect(&self, flash: &Flash) {
        if self.flying.load(Relaxed) == 0 {
            return;
        }
        let Some(reads) = self.ring.get() else { return };
        let reads = &mut *lock(reads);
        let mut ended = std::mem::take(&mut reads.ended);
        reads.ring.reap(&mut ended);
        ended.drain(..).for_each(|read| reads.end(flash, read));
        reads.ended = ended;
        self.submit(flash, reads);
    }

    fn submit(&self, flash: &Flash, reads: &mut Reads) {
        if let Err(error) = reads.ring.submit() {
            reads.fail(flash, &error);
        }
        self.flying.store(reads.ring.flying(), Relaxed);
    }

    /// Takes unresponsive devices out of use, and fails the reads that wait for them.
    pub(crate) fn fail_slow_reads(&self, flash: &Flash) {
        if self.flying.load(Relaxed) == 0 {
            return;
        }
        let Some(reads) = self.ring.get() else { return };
        let before_ms = flash.slow_before_ms();
        let is_slow = |flying: &&mut Option<Flying>| flying.as_ref().is_some_and(|flying| flying.since_ms < before_ms);
        let slow: Vec<Flying> = lock(reads).flying.iter_mut().filter(is_slow).filter_map(Option::take).collect();
        for Flying { read, .. } in slow {
            let device = flash.regions.device_of(read.at.region());
            flash.lose_slow(&flash.regions.parts[device]);
            flash.done(TierRead { found: Found::Failed, ..read });
        }
    }
}

/// The reason why a read was not started.
pub(crate) enum Unasked {
    NoRing(TierRead),
    Later(TierRead),
}

impl Reads {
    /// Starts a read of the item's bytes from the device, or copies them from memory. Reports the result at once if no
    /// device is needed.
    fn find_read(&mut self, flash: &Flash, slot: u16, mut read: TierRead, mut finding: Finding) {
        loop {
            match flash.place(&finding, &mut read.buffer) {
                ReadTarget::Nowhere => return self.tell(flash, slot, read, Found::Failed),
                ReadTarget::Device => break,
                ReadTarget::Memory => {
                    if let Some(found) = finding.look(&read) {
                        return self.tell(flash, slot, read, found);
                    }
                }
            }
        }
        let (at, bytes, begin) = flash.blocks_around(finding.region, finding.from, finding.bytes);
        let device = flash.regions.device_of(finding.region);
        if flash.regions.parts[device].is_lost() {
            return self.tell(flash, slot, read, Found::Failed);
        }
        if bytes > SLOT_BYTES {
            self.ring.give(slot);
            return flash.queues[device].push(Work::Read(read));
        }
        self.ring.read(slot, device, at, bytes);
        let since_ms = flash.now_ms();
        self.flying[usize::from(slot)] = Some(Flying { read, finding, begin, since_ms });
    }

    fn end(&mut self, flash: &Flash, DiskRead { slot, result }: DiskRead) {
        // An empty slot means that the read was given up, so its result is discarded.
        let Some(Flying { mut read, mut finding, begin, .. }) = self.flying[usize::from(slot)].take() else {
            return self.ring.give(slot);
        };
        let (_, bytes, _) = flash.blocks_around(finding.region, finding.from, finding.bytes);
        let whole = result.and_then(|there| if there < bytes { Err(short()) } else { Ok(()) });
        let part = &flash.regions.parts[flash.regions.device_of(finding.region)];
        if !flash.device_did(part, "a read", whole) {
            return self.tell(flash, slot, read, Found::Failed);
        }
        read.buffer.clear();
        read.buffer.extend_from_slice(&self.ring.bytes(slot)[begin..begin + finding.bytes]);
        flash.counters.read_bytes.fetch_add(finding.bytes as u64, Relaxed);
        match finding.look(&read) {
            Some(found) => self.tell(flash, slot, read, found),
            None => self.find_read(flash, slot, read, finding),
        }
    }

    fn tell(&mut self, flash: &Flash, slot: u16, read: TierRead, found: Found) {
        self.ring.give(slot);
        self.completed += 1;
        flash.complete(TierRead { found, ..read });
    }

    /// Handles an error of the ring itself: fails all its reads in flight, and takes their devices out of use.
    fn fail(&mut self, flash: &Flash, error: &std::io::Error) {
        for Flying { read, .. } in self.flying.iter_mut().filter_map(Option::take) {
            let part = &flash.regions.parts[flash.regions.device_of(read.at.region())];
            flash.device_did::<()>(part, "io_uring", Err(std::io::Error::new(error.kind(), error.to_string())));
            self.completed += 1;
            flash.complete(TierRead { found: Found::Failed, ..read });
        }
    }
}

fn short() -> std::io::Error {
    std::io::ErrorKind::UnexpectedEof.into()
}
