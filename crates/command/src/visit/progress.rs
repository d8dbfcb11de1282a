//! The result of one visit to a session: how much input was consumed, and why the visit ended.

/// The maximum number of operations that one session executes before the worker serves the other sessions of its batch.
pub const OPS_A_BATCH: usize = 64;

/// The cost of a report on the whole server, such as `INFO`, in operations. A visit makes one report at most, because a
/// report reads the counters of all workers, namespaces and commands.
pub const REPORT_OPS: usize = OPS_A_BATCH;

/// The progress of one call of `serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of consumed input bytes. The caller does not pass these bytes to `serve` again.
    pub consumed: usize,
    /// The reason why the call ended.
    pub state: SessionWait,
}

/// The reason why a call of `serve` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionWait {
    /// The unconsumed input is an incomplete request, or empty. The next call makes progress once `want` bytes are
    /// available, counted from the first unconsumed byte. If `want` is 0, the number is unknown. If the input is empty
    /// and `want` is 0, the session is between two requests, and a stopping server may close it. Inside a large or a
    /// discarded value, `want` is at least 1.
    NeedInput {
        /// The number of unconsumed bytes at which the next step is possible.
        want: usize,
    },
    /// The session has executed [`OPS_A_BATCH`] operations or used up its time slice. More requests may be available.
    Yield,
    /// The output has no room for the next reply, which needs `want` bytes or a pin. When the output has been sent, the
    /// worker calls `serve` again, with an empty output buffer of at least `want` bytes.
    OutputFull {
        /// The room that the next reply needs, in bytes: at most a header and the longest value that is not large.
        want: usize,
    },
    /// The operation must be retried in a later iteration. The request was not consumed, and nothing was changed.
    Parked,
    /// The session waits for other clients. The worker does not serve it until it is woken, or its deadline is due.
    Blocked,
    /// The worker must send the output and then close the connection.
    Close,
}
