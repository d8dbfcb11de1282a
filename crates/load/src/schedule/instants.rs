//! Instants that are given and not drawn: a list in memory, or a stream that each thread opens for itself.

use std::fmt;
use std::sync::Arc;

/// The next item of a stream of instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// An instant: nanoseconds from the start.
    At(u64),
    /// It is not known yet: ask again a little later.
    NotYet,
    /// There are no more.
    End,
}

/// Gives each thread of a run its share of a stream of instants.
pub trait OpenInstants: fmt::Debug + Send + Sync {
    /// The share of thread `thread` of `threads`, ascending. It is called in the thread, once a run.
    fn open(&self, thread: usize, threads: usize) -> Stream;

    /// Returns the reason why the stream stopped before its end, and the remedy.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// One thread's share: each call gives the next instant.
pub type Stream = Box<dyn FnMut() -> Next + Send>;

/// Instants of all threads together.
#[derive(Clone, Debug)]
pub enum Instants {
    /// In memory. Thread `i` of `n` takes the numbers `i`, `i + n` ...
    List(Arc<[u64]>),
    /// From elsewhere.
    Stream(Arc<dyn OpenInstants>),
}

impl PartialEq for Instants {
    /// Streams are equal if they are the same one.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(one), Self::List(other)) => one == other,
            (Self::Stream(one), Self::Stream(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Instants {
    /// The number of the first instant of a list that is above the one behind it.
    pub(super) fn descent(&self) -> Option<usize> {
        match self {
            Self::List(list) => list.windows(2).position(|pair| pair[0] > pair[1]),
            Self::Stream(_) => None,
        }
    }

    /// Returns the reason why a stream stopped before its end, and the remedy.
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::List(_) => None,
            Self::Stream(stream) => stream.fault(),
        }
    }

    /// The share of thread `thread` of `threads`.
    pub(super) fn open(&self, thread: usize, threads: usize) -> Stream {
        match self {
            Self::Stream(stream) => stream.open(thread, threads),
            Self::List(list) => {
                let list = list.clone();
                let mut numbers = (thread..list.len()).step_by(threads);
                Box::new(move || numbers.next().map_or(Next::End, |number| Next::At(list[number])))
            }
        }
    }
}
