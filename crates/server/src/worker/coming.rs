//! Sessions whose request waits for flash: each is called back when what it waits for has come, and not before.
//!
//! ```text
//!   parked for a read ──> reads ──its read has come──────────────> ready
//!   parked for room ────> room ──so many reads as could be asked for──> ready, in the order in which they came
//! ```
//!
//! - A session is in one of the two at most ([`crate::session::Place::Coming`]), so they have as many places as there
//!   are sessions.
//! - Each read that is waited for comes, at the latest when its device is given up; the handle's bell rings for it.
//! - What has come is asked for before a worker sleeps: any iteration in the store may have taken it in.

use std::collections::VecDeque;

use io::Backend;
use segment::{Awaited, ThreadHandle};

use super::Core;

/// Who waits for flash, of one worker.
#[derive(Debug, Default)]
pub(super) struct Coming {
    /// The hash of what is waited for, and the session.
    reads: Vec<(u64, u32)>,
    room: VecDeque<u32>,
    /// What has come; empty between two looks, as is the next one.
    landed: Vec<u64>,
    called: Vec<u32>,
}

impl Coming {
    pub(super) fn wait(&mut self, awaited: Awaited, session: u32) {
        match awaited {
            Awaited::Read(hash) => self.reads.push((hash, session)),
            Awaited::Room => self.room.push_back(session),
        }
    }

    /// Somebody waits who will not be called back by a read of his own.
    pub(super) fn wants_room(&self) -> bool {
        !self.room.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.room.is_empty()
    }
}

impl<B: Backend> Core<B> {
    /// An iteration begins: takes in what has come, and calls back who waited for it, and as many as there is room for.
    pub(super) fn call_back_landed(&mut self, handle: &mut ThreadHandle) {
        if self.coming.is_empty() {
            return;
        }
        drop(handle.guard(self.ctx.now));
        self.call_back_read(handle);
        // One at least: his asking makes room where what was read is of use to nobody any more.
        self.call_back_coming(handle.reads_free().max(1), |_| false);
    }

    /// The iteration ends: calls back whose read was taken in meanwhile.
    pub(super) fn call_back_landed_since(&mut self, handle: &mut ThreadHandle) {
        if !self.coming.is_empty() {
            self.call_back_read(handle);
        }
    }

    fn call_back_read(&mut self, handle: &mut ThreadHandle) {
        let mut landed = std::mem::take(&mut self.coming.landed);
        handle.take_landed(&mut landed);
        if !landed.is_empty() {
            self.call_back_coming(0, |hash| landed.contains(&hash));
        }
        landed.clear();
        self.coming.landed = landed;
    }

    /// Calls back whose read it is, and so many who wait for room.
    pub(super) fn call_back_coming(&mut self, room: usize, is_there: impl Fn(u64) -> bool) {
        let mut called = std::mem::take(&mut self.coming.called);
        let Coming { reads, room: waiting, .. } = &mut self.coming;
        called.extend(reads.extract_if(.., |(hash, _)| is_there(*hash)).map(|(_, session)| session));
        called.extend(waiting.drain(..room.min(waiting.len())));
        called.drain(..).for_each(|session| self.call_back(session));
        self.coming.called = called;
    }
}
