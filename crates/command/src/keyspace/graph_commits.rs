//! Group commits of the graph store to a disk: the state that workers share with the thread that commits.
//!
//! ```text
//!   worker:  change ──> ask: number of a commit that begins later ──> reply parks until that commit has ended
//!   thread:  begin ──> flush ──> end ──> next, if one was asked for or the interval has passed
//! ```
//!
//! Invariants: workers never wait for the disk; all requests that ask during a commit share the next one.

use base::units::TimeSpan;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::Thread;

/// The time at which changes of graphs are committed to a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GraphSync {
    /// Never: a power loss discards the graphs.
    #[default]
    Never,
    /// Before each reply to a change.
    Always,
    /// In this interval.
    Every(TimeSpan),
}

/// The commits of a server's graph store.
#[derive(Debug, Default)]
pub struct GraphCommits {
    sync: GraphSync,
    /// The number of the last commit that was asked for, that began, and that ended.
    asked: AtomicU64,
    begun: AtomicU64,
    ended: AtomicU64,
    /// True if the disk refused a commit. No later one can be trusted.
    has_failed: AtomicBool,
    /// The thread that commits.
    thread: OnceLock<Thread>,
}

impl GraphCommits {
    /// Creates the state of a store that is committed at these times.
    pub fn new(sync: GraphSync) -> Self {
        Self { sync, ..Self::default() }
    }

    /// Returns the time of commits.
    pub fn sync(&self) -> GraphSync {
        self.sync
    }

    /// Sets the thread that commits.
    pub fn set_thread(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    /// Asks for a commit that begins after this call, and returns its number.
    pub fn ask(&self) -> u64 {
        let number = self.begun.load(SeqCst) + 1;
        if self.asked.fetch_max(number, SeqCst) < number {
            self.thread.get().inspect(|thread| thread.unpark());
        }
        number
    }

    /// Returns true if a commit was asked for that has not begun.
    pub fn is_asked(&self) -> bool {
        self.asked.load(SeqCst) > self.begun.load(SeqCst)
    }

    /// Begins a commit.
    pub fn begin(&self) {
        self.begun.fetch_add(1, SeqCst);
    }

    /// Ends the commit that began last.
    pub fn end(&self) {
        self.ended.store(self.begun.load(SeqCst), SeqCst);
    }

    /// Returns true if the commit with this number has ended.
    pub fn has_ended(&self, number: u64) -> bool {
        self.ended.load(SeqCst) >= number
    }

    /// Returns the number of commits.
    pub fn count(&self) -> u64 {
        self.ended.load(SeqCst)
    }

    /// Records that the disk refused a commit.
    pub fn fail(&self) {
        self.has_failed.store(true, SeqCst);
    }

    /// Returns true if the disk refused a commit.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_during_a_commit_waits_for_the_next_one() {
        let commits = GraphCommits::new(GraphSync::Always);
        assert_eq!((commits.ask(), commits.ask(), commits.is_asked()), (1, 1, true));
        commits.begin();
        assert_eq!((commits.is_asked(), commits.ask(), commits.is_asked()), (false, 2, true));
        commits.end();
        assert_eq!((commits.has_ended(1), commits.has_ended(2)), (true, false));
        commits.begin();
        commits.end();
        assert_eq!((commits.has_ended(2), commits.is_asked()), (true, false));
    }
}
