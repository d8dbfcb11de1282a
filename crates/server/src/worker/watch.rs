//! Watchers: publishing what a batch did, and sending the watchers of this worker what waits for them.

use super::Core;
use crate::buffers::OUT_BYTES;
use crate::session::{Phase, Place};
use crate::watch::{QUEUE_BYTES, WATCHERS_MAX};
use io::Backend;

/// Outputs filled for one watcher in one visit: as many as a full queue takes, and one for what came meanwhile.
const FILLS_MAX: usize = QUEUE_BYTES / OUT_BYTES + 1;

impl<B: Backend> Core<B> {
    /// Publishes this worker's lines and serves its watchers. Without a watcher it costs one load.
    pub(super) fn serve_watchers(&mut self) {
        self.watcher_behind = false;
        let shared = &self.ctx.shared;
        if !shared.watch.watched().any() {
            return self.ctx.watch.lines.free();
        }
        self.serve_watched();
    }

    #[cold]
    fn serve_watched(&mut self) {
        let shared = &self.ctx.shared;
        let me = self.ctx.worker;
        shared.watch.publish(&mut self.ctx.watch.lines, |worker| {
            if worker != me {
                shared.workers[worker].waker.wake();
            }
        });
        let mut served = false;
        for slot in 0..WATCHERS_MAX {
            if let Some(index) = self.ctx.shared.watch.waiting(slot, me) {
                self.serve_watcher(slot, index);
                served = true;
            }
        }
        if served {
            self.io.submit();
        }
    }

    /// Sends a watcher what waits for it, as far as its peer takes it.
    fn serve_watcher(&mut self, slot: usize, index: u32) {
        for _ in 0..FILLS_MAX {
            let session = self.sessions.at(index);
            if session.phase != Phase::Open || session.blocked {
                return;
            }
            if session.out.is_none() {
                session.out = self.buffers.take_out();
            }
            let Some(out) = &mut session.out else { break };
            let bytes = self.ctx.shared.watch.take(slot, out.spare());
            out.advance(bytes);
            self.send(index);
            if self.ctx.shared.watch.waiting(slot, self.ctx.worker).is_none() {
                break;
            }
        }
        if self.sessions.at(index).place == Place::Idle {
            self.move_on(index);
        }
        self.watcher_behind |= self.ctx.shared.watch.waiting(slot, self.ctx.worker).is_some();
    }
}
