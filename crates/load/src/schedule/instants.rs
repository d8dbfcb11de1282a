//! Given instants, as opposed to drawn ones: a list in memory, or a stream that each thread opens.

use std::fmt;
use std::sync::Arc;

/// The result of reading the next instant of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// An instant, in nanoseconds from the start.
    At(u64),
    /// The instant is not known yet; the caller must ask again later.
    NotYet,
    /// The stream has ended.
    End,
}

/// Opens each thread's share of a stream of instants.
pub trait OpenInstants: fmt::Debug + Send + Sync {
    /// Opens the share of thread `thread` of `threads`, with instants in ascending order. Each thread calls this once
    /// per run.
    fn open(&self, thread: usize, threads: usize) -> Stream;

    /// Returns the reason why the stream ended early, with the remedy.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// One thread's share of a stream; each call returns the next instant.
pub type Stream = Box<dyn FnMut() -> Next + Send>;

/// The instants of all threads together.
#[derive(Clone, Debug)]
pub enum Instants {
    /// A list in memory. Thread `i` of `n` takes the entries `i`, `i + n` ...
    List(Arc<[u64]>),
    /// A stream from another source.
    Stream(Arc<dyn OpenInstants>),
}

impl PartialEq for Instants {
    /// Compares by identity: streams are equal only if they are the same stream.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(one), Self::List(other)) => one == other,
            (Self::Stream(one), Self::Stream(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Instants {
    /// Returns the index of the first instant of a list that is later than its successor.
    pub(super) fn descent(&self) -> Option<usize> {
        match self {
            Self::List(list) => list.windows(2).position(|pair| pair[0] > pair[1]),
            Self::Stream(_) => None,
        }
    }

    /// Returns the reason why a stream ended early, with the remedy.
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::List(_) => None,
            Self::Stream(stream) => stream.fault(),
        }
    }

    /// Opens the share of thread `thread` of `threads`.
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
