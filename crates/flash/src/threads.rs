//! The threads that wait for devices: some read, one writes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Builder, JoinHandle};

use crate::flash::Flash;

/// The threads of a tier. Dropping them ends them; what waits is not done then.
#[derive(Debug)]
pub struct Threads {
    flash: Arc<Flash>,
    handles: Vec<JoinHandle<()>>,
}

impl Flash {
    /// Starts the threads.
    ///
    /// # Errors
    /// When a thread is not to be had.
    pub fn spawn(self: &Arc<Self>) -> std::io::Result<Threads> {
        let mut threads = Threads { flash: Arc::clone(self), handles: Vec::new() };
        for number in 0..Self::READERS {
            let flash = Arc::clone(self);
            let body = move || flash.run_reads();
            threads.handles.push(Builder::new().name(format!("flash-read-{number}")).spawn(body)?);
        }
        let flash = Arc::clone(self);
        threads.handles.push(Builder::new().name("flash-write".to_owned()).spawn(move || flash.run_writes())?);
        Ok(threads)
    }

    fn run_reads(&self) {
        let mut scratch = self.scratch();
        while !self.stopped.load(Relaxed) {
            if !self.work(&mut scratch) {
                self.wait_for_work();
            }
        }
    }

    fn run_writes(&self) {
        while !self.stopped.load(Relaxed) {
            if !self.write() {
                self.wait_for_writes();
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.flash.stopped.store(true, Relaxed);
        self.flash.wake_all();
        for handle in self.handles.drain(..) {
            // A thread that panicked has said so on its own.
            let _ = handle.join();
        }
    }
}
