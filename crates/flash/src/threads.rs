//! The threads that wait for devices. Of each device one writes; and one reads through io_uring, beside one that reads
//! what is longer and what the job wants, or some read, where the kernel has no io_uring.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use io::disk::DiskRing;
use io::uring::Unavailable;
use io::waker::Waker;

use crate::flash::{Flash, lock};
use crate::queues::{Flight, Scratch};
use crate::ring::{Ring, SLOT_BYTES, SLOTS};

/// The threads of a tier. Dropping them ends them; what waits is not done then. One that a device does not answer is
/// left alone.
#[derive(Debug)]
pub struct Threads {
    flash: Arc<Flash>,
    handles: Vec<(JoinHandle<()>, Arc<Mutex<Flight>>)>,
    refused: Option<Unavailable>,
}

impl Flash {
    /// Starts the threads. `ring`: reads go through io_uring, where a device and the kernel have it.
    ///
    /// # Errors
    /// When a thread is not to be had.
    pub fn spawn(self: &Arc<Self>, ring: bool) -> std::io::Result<Threads> {
        let mut threads = Threads { flash: Arc::clone(self), handles: Vec::new(), refused: None };
        let devices = self.queues.len();
        for device in 0..devices {
            let has_ring = ring && threads.spawn_ring(device)?;
            for number in 0..if has_ring { 1 } else { Self::readers(devices) } {
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
    /// Why the kernel has no io_uring for these devices, if it was asked and has none.
    pub fn refused(&self) -> Option<&Unavailable> {
        self.refused.as_ref()
    }

    /// Starts the thread that reads a device through io_uring; false: there is none to be had.
    fn spawn_ring(&mut self, device: usize) -> std::io::Result<bool> {
        let Some(file) = self.flash.regions.parts[device].device.file() else { return Ok(false) };
        let waker = Waker::new()?;
        let ring = match DiskRing::open(file, &waker, SLOTS, SLOT_BYTES) {
            Ok(ring) => ring,
            Err(refused) => {
                self.refused = Some(refused);
                return Ok(false);
            }
        };
        let flash = Arc::clone(&self.flash);
        let body = move || Ring::new(&flash, device, ring).run();
        let handle = Builder::new().name(format!("flash{device}-ring")).spawn(body)?;
        self.flash.queues[device].read_by_ring(&waker);
        self.handles.push((handle, Arc::default()));
        Ok(true)
    }

    fn spawn(&mut self, device: usize, name: String, run: fn(&Flash, usize, &mut Scratch)) -> std::io::Result<()> {
        let (flash, mut scratch) = (Arc::clone(&self.flash), self.flash.scratch_of(device));
        let flight = Arc::clone(&scratch.flight);
        let handle = Builder::new().name(name).spawn(move || run(&flash, device, &mut scratch))?;
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
                // A thread that panicked has said so on its own.
                let _ = handle.join();
            }
        }
    }
}
