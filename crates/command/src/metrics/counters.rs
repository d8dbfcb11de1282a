//! Counters of one worker, which only that worker writes and any thread may read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that one thread writes and any thread may read. Adding to the counter costs a load and a store, but no
/// locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n` to the counter. Only the thread that owns the counter may call this function.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets the value of a gauge. Only the thread that owns the counter may call this function.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// Returns the current value.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counters of one worker since start. They are aligned so that two workers never share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// Connections that the worker has received from the acceptor or a handover.
    pub connections_total: Counter,
    /// Connections that have ended.
    pub connections_closed: Counter,
    /// Bytes that were received.
    pub bytes_read: Counter,
    /// Bytes that were sent.
    pub bytes_written: Counter,
    /// Receives that returned bytes.
    pub receives: Counter,
    /// Sends for which the kernel accepted bytes.
    pub sends: Counter,
    /// Gauge: the most bytes that a Redis client had sent without being served, in the last seconds.
    pub input_bytes_max: Counter,
    /// Gauge: the most bytes of replies that a Redis client had not read, in the last seconds.
    pub output_bytes_max: Counter,
    /// Event-loop iterations. In each iteration, the worker waits for events once and handles them.
    pub iterations: Counter,
    /// Iterations that began while the worker was polling, without a sleep before them.
    pub turns_polled: Counter,
    /// Batches, each of which is executed under one guard.
    pub batches: Counter,
    /// Operations that were executed.
    pub ops: Counter,
    /// The Redis clients that have had to wait in the pause `paused_in` (`CLIENT PAUSE`) and are still connected.
    pub paused_clients: Counter,
    /// The number of the last pause in which a client of the worker had to wait.
    pub paused_in: Counter,
    /// The number of times that an operation was parked until a later iteration.
    pub parked: Counter,
    /// Sends for which the kernel accepted only a part of the bytes.
    pub sends_short: Counter,
    /// Connections that were closed because their clients did not read.
    pub slow_readers_dropped: Counter,
    /// Connections that were closed because their clients did not read retained replies while client memory was short.
    pub client_memory_dropped: Counter,
    /// Outputs whose pinned values were copied because the client was a slow reader.
    pub copied_out: Counter,
    /// Values that were moved from their place in the store into a buffer because the client was a slow sender.
    pub moved_out: Counter,
    /// Connections that were closed because their request stayed incomplete while other sessions needed its buffer.
    pub slow_senders_dropped: Counter,
    /// Subscribers that were dropped because their unsent messages exceeded the limit.
    pub subscribers_dropped: Counter,
    /// Connections that were closed by the idle timeout.
    pub idle_closed: Counter,
    /// Connections that were closed because their clients did not authenticate in time.
    pub login_timeouts: Counter,
    /// The number of times that a session waited for a receive or an output buffer.
    pub buffer_waits: Counter,
    /// The total time of completed waits for a buffer, in ns.
    pub buffer_wait_ns: Counter,
    /// Gauge: the number of sessions that wait for a buffer.
    pub buffer_waiters: Counter,
    /// Gauge: the time for which the longest waiting session has waited for a buffer, in ns.
    pub buffer_wait_oldest_ns: Counter,
    /// Inputs and outputs that were set aside, so that another session could use their buffer.
    pub set_aside: Counter,
    /// Requests that were answered with a protocol error. The code of each protocol counts them.
    pub protocol_errors: Counter,
}

impl WorkerCounters {
    /// Returns the number of open connections.
    pub fn connections_open(&self) -> u64 {
        let closed = self.connections_closed.value();
        self.connections_total.value().saturating_sub(closed)
    }
}
