//! The line between what is asked and how it is carried.
//!
//! The engine moves bytes and reads clocks; a [`Traffic`] draws requests and reads answers. One of them belongs to one
//! thread of the engine and serves all of its connections, which answer in the order of their requests.
//!
//! ```text
//!   engine: a request is due      -> Traffic::target()                    which target it goes to
//!                                    Traffic::next(connection, out)       bytes to send, Pending to keep
//!   engine: bytes have come       -> Traffic::answer(pending, bytes)      so many consumed; done, or more is wanted
//!           it is elsewhere       -> Traffic::repeat(pending, out)        the same request, for another target
//!   engine: the connection is new -> Traffic::greet(connection, out)      authentication, selection, HELLO
//! ```

/// A request on its way: what its answer is read and filed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Which of [`Traffic::verbs`] it is; answers are filed by it.
    pub verb: u8,
    /// Way in which the traffic reads the reply's bytes.
    pub state: u32,
    /// Of an answer that has several parts: those that are still to come, or whatever the traffic wants to know again.
    pub parts: u32,
    /// Number of the key asked for, or whatever the traffic wants to know again.
    pub key: u64,
    /// Of an answer that has come in part: the bytes still to come, or whatever the traffic wants to know again.
    pub rest: u64,
    /// Bytes of value sent with the request; 0 for a read.
    pub value_bytes: u64,
    /// Bytes of value that have come with the answer so far; 0 when it is sent.
    pub read_bytes: u64,
}

/// Outcome as which a reply is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReplyOutcome {
    /// A read that found its key, or a write that was done.
    Hit,
    /// A read that did not find its key, or a write whose condition did not hold.
    Miss,
    /// The server answered with an error.
    Error,
    /// The value was not the one that its key and version say.
    Wrong,
}

/// Progress of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyProgress {
    /// The answer is whole. `value_bytes` of value came with it.
    Done {
        /// Outcome as which it is counted.
        outcome: ReplyOutcome,
        /// Bytes of value that came with it.
        value_bytes: u64,
    },
    /// More bytes are wanted.
    More,
    /// The answer is whole, and says that another target has what was asked for: [`Traffic::repeat`] asks that one. The
    /// request's time goes on from where it began.
    Elsewhere {
        /// Which one.
        target: usize,
    },
    /// These bytes are no answer to this request; the connection cannot be used further.
    Garbage(&'static str),
}

/// Draws requests and reads their answers, for one thread.
pub trait Traffic {
    /// The names of the verbs, in the order of [`Pending::verb`]; at most 64.
    fn verbs(&self) -> &[String];

    /// Which target the next request goes to; [`Traffic::next`] is then called for a connection to that target. Where
    /// every target may be asked for anything it is not called, and the engine spreads requests evenly. It may be asked
    /// several times before that target has room, and answers the same until a follow-up comes in between.
    fn target(&mut self) -> usize {
        0
    }

    /// A request that an answer called for (a fill after a miss, the swap after a `gets`) waits: it is what the next
    /// [`Traffic::next`] gives, and it is due at once, besides what the schedule asks for.
    fn has_follow_up(&self) -> bool {
        false
    }

    /// There is nothing more to ask for, as at the end of a prefill: [`Traffic::next`] must not be called again.
    fn is_exhausted(&self) -> bool {
        false
    }

    /// Appends the next request to `out`. `connection` is the connection's number within the thread.
    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> Pending;

    /// Reads the answer to `pending` from the front of `bytes`: how many of them are used up, and how far it is now.
    /// With [`ReplyProgress::More`] the rest is shown again with more behind it.
    fn answer(&mut self, pending: &mut Pending, bytes: &[u8]) -> (usize, ReplyProgress);

    /// Returns what the server said with the last answer that was an error, and what to do about it.
    fn refusal(&self) -> String {
        String::new()
    }

    /// Appends the request of `pending` once more, which was answered with [`ReplyProgress::Elsewhere`]; only a traffic
    /// that answers so is asked to.
    fn repeat(&mut self, _pending: &mut Pending, _out: &mut Vec<u8>) {
        unreachable!("no answer of this traffic was Elsewhere");
    }

    /// Appends what a new connection says first to `out`, and returns a request to be answered for each part of it.
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
