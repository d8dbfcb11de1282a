//! Counters of one worker: written by it alone, read by any thread.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that one thread writes and all may read. Adding costs a load and a store, no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owner's thread may call it.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets the number, of a gauge. Only the owner's thread may call it.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// Returns the current number.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counters of one worker since the start. Cache-line aligned, so that two workers share no line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// Connections that were handed to it.
    pub connections_total: Counter,
    /// Ended connections.
    pub connections_closed: Counter,
    /// Bytes received.
    pub bytes_read: Counter,
    /// Bytes sent.
    pub bytes_written: Counter,
    /// Event-loop iterations: each waits for events once and handles them.
    pub iterations: Counter,
    /// Iterations that began while the worker polled, without a sleep before them.
    pub turns_polled: Counter,
    /// Batches, each under one guard.
    pub batches: Counter,
    /// Operations executed.
    pub ops: Counter,
    /// Operations that were parked for another iteration, once for each time.
    pub parked: Counter,
    /// Sends that the peer's socket did not take whole.
    pub sends_short: Counter,
    /// Connections dropped because their clients did not read.
    pub slow_readers_dropped: Counter,
    /// Connections dropped because their clients did not read retained replies while client memory was short.
    pub client_memory_dropped: Counter,
    /// Outputs whose pinned values were copied because their readers were slow.
    pub copied_out: Counter,
    /// Values whose senders were so slow that they were moved from their place in the store into a buffer.
    pub moved_out: Counter,
    /// Connections dropped because their request was incomplete and other sessions needed its memory.
    pub slow_senders_dropped: Counter,
    /// Subscribers dropped because more messages waited for them than allowed.
    pub subscribers_dropped: Counter,
    /// Connections closed by the idle timeout.
    pub idle_closed: Counter,
    /// Waits for a receive or an output buffer.
    pub buffer_waits: Counter,
    /// Total time of completed waits for a buffer, in ns.
    pub buffer_wait_ns: Counter,
    /// Gauge: sessions that wait for a buffer now.
    pub buffer_waiters: Counter,
    /// Gauge: time for which the longest waiting session has waited for a buffer, in ns.
    pub buffer_wait_oldest_ns: Counter,
    /// Inputs and outputs whose bytes were set aside, so that another session could use the buffer.
    pub set_aside: Counter,
    /// Requests that were answered with a protocol error; the protocol counts them.
    pub protocol_errors: Counter,
}

impl WorkerCounters {
    /// Returns the number of open connections.
    pub fn connections_open(&self) -> u64 {
        let closed = self.connections_closed.value();
        self.connections_total.value().saturating_sub(closed)
    }
}
