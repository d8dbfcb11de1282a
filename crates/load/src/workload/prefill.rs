//! Stores every key of a workload once, before a run.
//!
//! The threads share the keys: thread t of n stores the numbers t, t + n, ... of each space, in order, one space after
//! the other. Keys that are requested only once are not stored.

use base::clock::UnixMillis;

use super::draw::order::ThreadShare;
use super::model::Workload;
use super::source::RequestSource;
use crate::traffic::{Pending, ReplyProgress, StreamProgress, Traffic};

/// The prefill of one thread.
#[derive(Debug)]
pub struct Prefill {
    source: RequestSource,
    parts: Vec<ThreadShare>,
    space: usize,
    index: u64,
    left: u64,
}

impl Workload {
    /// Returns the number of stores of a prefill for each key space, or for the graph.
    pub fn prefill_requests(&self) -> Vec<u64> {
        match &self.graph {
            Some(graph) => vec![graph.fill_requests()],
            None => self.keys.iter().map(|space| space.count).collect(),
        }
    }
}

impl Prefill {
    /// Creates the prefill of thread `thread` of the workload's threads.
    ///
    /// # Panics
    /// As for [`RequestSource::new`].
    pub fn new(workload: &Workload, thread: u32, now: UnixMillis) -> Self {
        let own = |count| {
            (u64::from(thread) < count).then(|| ThreadShare::new(count, thread.into(), workload.threads.into()))
        };
        let counts = workload.prefill_requests();
        let parts: Vec<Option<ThreadShare>> = counts.into_iter().map(own).collect();
        let left = parts.iter().flatten().map(|part| part.count).sum();
        let parts = parts.into_iter().map(|part| part.unwrap_or(ThreadShare::EMPTY)).collect();
        Self { source: RequestSource::new(workload, thread, now), parts, space: 0, index: 0, left }
    }

    /// Returns the number of keys that this thread still has to store.
    pub const fn left(&self) -> u64 {
        self.left
    }

    fn plan(&mut self) {
        if self.source.has_planned() {
            return;
        }
        while self.index == self.parts[self.space].count {
            (self.space, self.index) = (self.space + 1, 0);
        }
        self.source.plan_store(self.space, self.parts[self.space].number(self.index));
        self.index += 1;
    }
}

impl Traffic for Prefill {
    fn verbs(&self) -> &[String] {
        self.source.verbs()
    }

    fn target(&mut self) -> usize {
        self.plan();
        self.source.target()
    }

    fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> Pending {
        assert!(self.left > 0, "every key has been stored");
        self.plan();
        self.left -= 1;
        self.source.next(connection, out)
    }

    fn answer(&mut self, pending: &mut Pending, bytes: &[u8]) -> (usize, ReplyProgress) {
        self.source.answer(pending, bytes)
    }

    fn refusal(&self) -> String {
        self.source.refusal()
    }

    fn is_multiplexed(&self) -> bool {
        self.source.is_multiplexed()
    }

    fn arrived(&mut self, connection: usize, bytes: &[u8], out: &mut Vec<u8>) -> (usize, StreamProgress) {
        self.source.arrived(connection, bytes, out)
    }

    fn streams_max(&self, connection: usize) -> Option<usize> {
        self.source.streams_max(connection)
    }

    fn expire(&mut self, connection: usize, stream: u32, out: &mut Vec<u8>) {
        self.source.expire(connection, stream, out);
    }

    fn error_name(&self) -> &'static str {
        self.source.error_name()
    }

    fn repeat(&mut self, connection: usize, pending: &mut Pending, out: &mut Vec<u8>) {
        self.source.repeat(connection, pending, out);
    }

    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) -> Vec<Pending> {
        self.source.greet(connection, out)
    }
}
