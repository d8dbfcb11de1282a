//! The interface between the requests of a workload and the engine that sends them.
//!
//! The engine moves bytes and reads clocks; a [`Traffic`] draws requests and reads replies. Each traffic belongs to one
//! thread of the engine and serves all its connections, which reply in the order of their requests. The connections of
//! a multiplexed traffic reply in any order: each request has a stream of its connection.
//!
//! ```text
//!   engine: a request is due      -> Traffic::target()                    the target of the request
//!                                    Traffic::next(connection, out)       bytes to send, and the Pending request
//!   engine: bytes were received   -> Traffic::answer(pending, bytes)      consumed bytes; done, or more is needed
//!           it was redirected     -> Traffic::repeat(pending, out)        the same request, for another target
//!   engine: the connection is new -> Traffic::greet(connection, out)      authentication, selection, HELLO
//!
//!   multiplexed: bytes were received -> Traffic::arrived(connection, ..)  consumed bytes; a stream's end, or more
//!                a deadline passed   -> Traffic::expire(connection, ..)   the stream is canceled
//! ```

/// A request in flight, with the state needed to read and record its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Index of the request's verb in [`Traffic::verbs`], under which the reply is recorded.
    pub verb: u8,
    /// State of the traffic's parser between two pieces of the reply.
    pub state: u32,
    /// The stream of the request, if the traffic is multiplexed. Streams of a connection ascend.
    pub stream: u32,
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
    /// A query whose budget did not suffice for the whole answer.
    Partial,
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

/// What bytes of a multiplexed connection have caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamProgress {
    /// More bytes are needed.
    More,
    /// The server has accepted the connection: requests may be sent.
    Ready,
    /// The reply to the request of a stream is complete.
    Done {
        /// The stream.
        stream: u32,
        /// The outcome of the reply.
        outcome: ReplyOutcome,
        /// Bytes of the value in the reply.
        value_bytes: u64,
    },
    /// The server has not processed the request of a stream; [`Traffic::repeat`] sends it again. The request's time
    /// continues from its start.
    Again {
        /// The stream.
        stream: u32,
    },
    /// The bytes violate the protocol; the connection cannot be used further.
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

    /// Returns whether the replies of a connection arrive in any order. If so, the engine calls [`Traffic::arrived`]
    /// instead of [`Traffic::answer`], a request past its time limit ends without its connection, and a connection is
    /// up from [`StreamProgress::Ready`] on.
    fn is_multiplexed(&self) -> bool {
        false
    }

    /// Reads bytes of a multiplexed connection from the front of `bytes`, up to the next end of a stream. Appends to
    /// `out` what the connection has to send for them. Returns the number of consumed bytes and what they have caused.
    /// With [`StreamProgress::More`] the next call gets the remaining bytes again, followed by new ones.
    fn arrived(&mut self, _connection: usize, _bytes: &[u8], _out: &mut Vec<u8>) -> (usize, StreamProgress) {
        unreachable!("this traffic is not multiplexed");
    }

    /// Returns the highest number of requests that a multiplexed connection may have in flight; `None` if it accepts no
    /// further ones, ever.
    fn streams_max(&self, _connection: usize) -> Option<usize> {
        Some(usize::MAX)
    }

    /// Cancels the request of a stream, because its time limit is past. [`Traffic::refusal`] then explains it.
    fn expire(&mut self, _connection: usize, _stream: u32, _out: &mut Vec<u8>) {
        unreachable!("this traffic is not multiplexed");
    }

    /// Returns the name under which the last error reply is counted.
    fn error_name(&self) -> &'static str {
        "error-answer"
    }

    /// Returns the text of the last error reply, with a remedy.
    fn refusal(&self) -> String {
        String::new()
    }

    /// Appends the request of `pending` again, for `connection`, after [`ReplyProgress::Elsewhere`] or
    /// [`StreamProgress::Again`]. The engine calls this only for a traffic that returns this progress.
    fn repeat(&mut self, _connection: usize, _pending: &mut Pending, _out: &mut Vec<u8>) {
        unreachable!("this traffic never repeats a request");
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

    fn is_multiplexed(&self) -> bool {
        (**self).is_multiplexed()
    }

    fn arrived(&mut self, connection: usize, bytes: &[u8], out: &mut Vec<u8>) -> (usize, StreamProgress) {
        (**self).arrived(connection, bytes, out)
    }

    fn streams_max(&self, connection: usize) -> Option<usize> {
        (**self).streams_max(connection)
    }

    fn expire(&mut self, connection: usize, stream: u32, out: &mut Vec<u8>) {
        (**self).expire(connection, stream, out);
    }

    fn error_name(&self) -> &'static str {
        (**self).error_name()
    }

    fn repeat(&mut self, connection: usize, pending: &mut Pending, out: &mut Vec<u8>) {
        (**self).repeat(connection, pending, out);
    }

    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) -> Vec<Pending> {
        (**self).greet(connection, out)
    }
}
