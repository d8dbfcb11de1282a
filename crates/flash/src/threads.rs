//! The threads that wait for devices. Each device has one thread that writes, and one that does the reads that handles
//! cannot do by themselves ([`crate::ring`]): long items, and chunks for the reclaim job. If the kernel has no
//! io_uring, several threads per device do all reads.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use io::disk::DiskRing;
use io::uring::Unavailable;
use io::waker::Waker;

use crate::flash::{Flash, lock};
use crate::queues::{Flight, Scratch};
use crate::ring::{SLOT_BYTES, SLOTS};

/// The threads of a tier. Dropping this value stops the threads, and queued work is not done. The drop does not wait
/// for a thread whose device does not answer.
#[derive(Debug)]
pub struct Threads {
    flash: Arc<Flash>,
    handles: Vec<(JoinHandle<()>, Arc<Mutex<Flight>>)>,
    refused: Option<Unavailable>,
    begin: fn(),
}

impl Flash {
    /// Starts the device threads. `bells` are the wakers of handles whose threads submit their own reads to io_uring,
    /// if the devices and the kernel support that. A bell is rung when its handle has completed reads to collect. Each
    /// thread first calls `begin`.
    ///
    /// # Errors
    /// If a thread cannot be created.
    pub fn spawn(self: &Arc<Self>, bells: &[Waker], begin: fn()) -> std::io::Result<Threads> {
        let mut threads = Threads { flash: Arc::clone(self), handles: Vec::new(), refused: None, begin };
        let devices = self.queues.len();
        let has_rings = threads.open_rings(bells);
        for device in 0..devices {
            for number in 0..if has_rings { 1 } else { Self::readers(devices) } {
                threads.spawn(device, format!("flash{device}-read-{number}"), Self::run_reads)?;
            }
            threads.spawn(device, format!("flash{device}-write"), Self::run_writes)?;
        }
        Ok(threads)
    }

    fn run_reads(&self, device: usize, scratch: &mut Scratch) {
        while !self.stopped.load(Relaxed) {
            if !self.work_at(device, 0, scratch) {
                self.wait_for_work(device);
            }
        }
    }

    fn run_writes(&self, device: usize, scratch: &mut Scratch) {
        while !self.stopped.load(Relaxed) {
            if !self.write_to(device, scratch) {
                self.wait_for_writes(device);
            }
        }
    }
}

impl Threads {
    /// Returns the reason why io_uring cannot be used for these devices, if opening a ring was tried and failed.
    pub fn refused(&self) -> Option<&Unavailable> {
        self.refused.as_ref()
    }

    /// Opens an io_uring for each handle that has a bell: the waker in `bells` that the kernel rings when a read of the
    /// handle completes. Returns false if no ring was opened.
    fn open_rings(&mut self, bells: &[Waker]) -> bool {
        let parts = &self.flash.regions.parts;
        let Some(files) = parts.iter().map(|part| part.device.file()).collect::<Option<Vec<_>>>() else { return false };
        let rings = bells.iter().map(|bell| DiskRing::open(&files, bell, SLOTS, SLOT_BYTES));
        match rings.collect::<Result<Vec<_>, _>>() {
            Ok(rings) => {
                let handles = self.flash.handles.iter().zip(rings);
                handles.for_each(|(handle, ring)| handle.read_by(ring));
                !bells.is_empty()
            }
            Err(refused) => {
                self.refused = Some(refused);
                false
            }
        }
    }

    fn spawn(&mut self, device: usize, name: String, run: fn(&Flash, usize, &mut Scratch)) -> std::io::Result<()> {
        let (flash, mut scratch, begin) = (Arc::clone(&self.flash), self.flash.scratch_of(device), self.begin);
        let flight = Arc::clone(&scratch.flight);
        let handle = Builder::new().name(name).spawn(move || {
            begin();
            run(&flash, device, &mut scratch);
        })?;
        self.handles.push((handle, flight));
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.flash.stopped.store(true, Relaxed);
        self.flash.wake_all();
        for (handle, flight) in self.handles.drain(..) {
            if *lock(&flight) != Flight::GivenUp {
                // A panicking thread has reported the panic itself.
                let _ = handle.join();
            }
        }
    }
}
