//! The result of one visit to a session: how much input was consumed, and why the visit ended.

/// The maximum number of operations that one session executes before the other sessions of its batch are served.
pub const OPS_A_BATCH: usize = 64;

/// The progress of a `serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of input bytes that are consumed and need not be passed again.
    pub consumed: usize,
    /// The reason why it stopped.
    pub state: SessionWait,
}

/// The reason why a `serve` stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionWait {
    /// The rest is an incomplete request, or empty. The next call is useful once `want` bytes were received, counted
    /// from the first unconsumed one; 0 if the number is unknown. An empty rest with 0 means that the session is
    /// between two requests, so a stopping server may close it here. Inside a large or a discarded value, `want` is at
    /// least 1.
    NeedInput {
        /// The length of the unconsumed rest, in bytes, at which the next step is possible.
        want: usize,
    },
    /// [`OPS_A_BATCH`] operations are done, or a slice of time is used up. More requests may be left.
    Yield,
    /// The next reply needs `want` bytes of room, or a pin. The next call must follow when the output was sent, with an
    /// empty buffer of at least that capacity.
    OutputFull {
        /// The room that the next reply needs, in bytes: at most the longest value that is not large, and its header.
        want: usize,
    },
    /// The store needs another iteration. The request was not consumed, and nothing was changed.
    Parked,
    /// The output is to be sent, then the connection closed.
    Close,
}
