//! The interface between the requests of a workload and the engine that sends them.
//!
//! The engine moves bytes and reads clocks; a [`Traffic`] draws requests and reads replies. Each traffic belongs to one
//! thread of the engine and serves all its connections, which reply in the order of their requests.
//!
//! ```text
//!   engine: a request is due      -> Traffic::target()                    the target of the request
//!                                    Traffic::next(connection, out)       bytes to send, and the Pending request
//!   engine: bytes were received   -> Traffic::answer(pending, bytes)      consumed bytes; done, or more is needed
//!           it was redirected     -> Traffic::repeat(pending, out)        the same request, for another target
//!   engine: the connection is new -> Traffic::greet(connection, out)      authentication, selection, HELLO
//! ```

/// A request in flight, with the state needed to read and record its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Index of the request's verb in [`Traffic::verbs`], under which the reply is recorded.
    pub verb: u8,
    /// State of the traffic's parser between two pieces of the reply.
    pub state: u32,
    /// Remaining parts of a reply with several parts, or other state of the traffic.
    pub parts: u32,
    /// Number of the requested key, or other state of the traffic.
    pub key: u64,
    /// Remaining bytes of a partial reply, or other state of the traffic.
    pub rest: u64,
    /// Bytes of the value sent with the request; 0 for a read.
    pub value_bytes: u64,
    /// Bytes of the value received so far; 0 when the request is sent.
    pub read_bytes: u64,
}

/// The outcome of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReplyOutcome {
    /// A read that found its key, or a write that succeeded.
    Hit,
    /// A read that did not find its key, or a write whose condition failed.
    Miss,
    /// The server answered with an error.
    Error,
    /// The value differs from the value expected for its key and version.
    Wrong,
}

/// Progress of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyProgress {
    /// The reply is complete, with `value_bytes` bytes of value.
    Done {
        /// The outcome of the reply.
        outcome: ReplyOutcome,
        /// Bytes of the value in the reply.
        value_bytes: u64,
    },
    /// More bytes are needed.
    More,
    /// The reply is complete and redirects the request to another target; [`Traffic::repeat`] sends it there. The
    /// request's time continues from its start.
    Elsewhere {
        /// Index of the other target.
        target: usize,
    },
    /// The bytes are not a reply to this request; the connection cannot be used further.
    Garbage(&'static str),
}

/// Draws requests and reads their replies, for one thread.
pub trait Traffic {
    /// Returns the names of the verbs, in the order of [`Pending::verb`]; at most 64.
    fn verbs(&self) -> &[String];

    /// Returns the target of the next request; [`Traffic::next`] is then called for a connection to that target. If any
    /// target may get any request, this is not called, and the engine spreads requests evenly. It may be called several
    /// times before that target has room; the result changes only if a follow-up is queued in between.
    fn target(&mut self) -> usize {
        0
    }

    /// Returns whether a follow-up request waits: a fill after a miss, or the swap after a `gets`. The next
    /// [`Traffic::next`] returns it. It is due at once, in addition to the schedule.
    fn has_follow_up(&self) -> bool {
        false
    }

    /// Returns whether there are no more requests, as at the end of a prefill. [`Traffic::next`] must not be called
    /// after that.
    fn is_exhausted(&self) -> bool {
        false
    }

    /// Appends the next request to `out`. `connection` is the connection's number within the thread.
    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> Pending;

    /// Reads the reply to `pending` from the front of `bytes`. Returns the number of consumed bytes and the progress of
    /// the reply. With [`ReplyProgress::More`] the next call gets the remaining bytes again, followed by new ones.
    fn answer(&mut self, pending: &mut Pending, bytes: &[u8]) -> (usize, ReplyProgress);

    /// Returns the text of the last error reply, with a remedy.
    fn refusal(&self) -> String {
        String::new()
    }

    /// Appends the request of `pending` again, after [`Traffic::answer`] returned [`ReplyProgress::Elsewhere`]. The
    /// engine calls this only for a traffic that returns this progress.
    fn repeat(&mut self, _pending: &mut Pending, _out: &mut Vec<u8>) {
        unreachable!("this traffic never returns Elsewhere");
    }

    /// Appends the greeting of a new connection to `out`. Returns a pending request for each reply to it.
    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) -> Vec<Pending>;
}

impl<T: Traffic + ?Sized> Traffic for Box<T> {
    fn verbs(&self) -> &[String] {
        (**self).verbs()
    }

    fn target(&mut self) -> usize {
        (**self).target()
    }

    fn has_follow_up(&self) -> bool {
        (**self).has_follow_up()
    }

    fn is_exhausted(&self) -> bool {
        (**self).is_exhausted()
    }

    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> Pending {
        (**self).next(connection, out)
    }

    fn answer(&mut self, pending: &mut Pending, bytes: &[u8]) -> (usize, ReplyProgress) {
        (**self).answer(pending, bytes)
    }

    fn refusal(&self) -> String {
        (**self).refusal()
    }

    fn repeat(&mut self, pending: &mut Pending, out: &mut Vec<u8>) {
        (**self).repeat(pending, out);
    }

    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) -> Vec<Pending> {
        (**self).greet(connection, out)
    }
}
