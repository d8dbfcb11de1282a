//! Selects the workers' reactor: epoll or io_uring, the same for all workers.

use crate::config::kinds::IoChoice;
use crate::handover::{ReceivedConnection, ReleasedConnection};
use crate::shared::Shared;
use crate::worker::{EVENTS_MAX, Worker, WorkerParts};
use command::visit::clock::Clock;
use io::listen::AcceptedStream;
use io::waker::Waker;
use io::{epoll, uring};
use segment::ThreadHandle;
use std::io::Result;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use tls::{Secure, SecureStream};

/// An open reactor that is passed to its worker's thread.
pub(crate) enum Opened {
    Epoll(epoll::Opened),
    Uring(Box<uring::Opened>),
}

/// The minimum number of connections per worker for which `auto` selects io_uring. With fewer connections, io_uring
/// costs more than it saves (docs/decisions/0003-io-uring.md).
const AUTO_URING_SESSIONS_MIN: usize = 16;

/// Opens a reactor for each of `wakers`, all of one kind. If io_uring is not available, opens epoll reactors and logs
/// the cause and the remedy, as a warning if io_uring was requested.
///
/// # Errors
/// If the process has no file descriptor left.
pub(crate) fn open(choice: IoChoice, wakers: &[&Waker], sessions_max: usize) -> Result<Vec<Opened>> {
    let wanted = match choice {
        IoChoice::Auto => sessions_max >= AUTO_URING_SESSIONS_MIN,
        IoChoice::Epoll => false,
        IoChoice::Uring => true,
    };
    if wanted {
        let open = |waker: &&Waker| uring::Opened::open(waker, sessions_max).map(|it| Opened::Uring(Box::new(it)));
        match wakers.iter().map(open).collect() {
            Ok(reactors) => return Ok(reactors),
            Err(uring::Unavailable { step, error, remedy }) if choice == IoChoice::Uring => {
                tracing::warn!(step, %error, remedy, "io_uring is not available; the workers use epoll");
            }
            Err(uring::Unavailable { step, error, .. }) => {
                tracing::info!(step, %error, "io_uring is not available; the workers use epoll");
            }
        }
    }
    wakers.iter().map(|waker| epoll::Opened::open(waker).map(Opened::Epoll)).collect()
}

impl Opened {
    /// Returns the reactor's kind, which is never `Auto`.
    pub(crate) fn kind(&self) -> IoChoice {
        match self {
            Self::Epoll(_) => IoChoice::Epoll,
            Self::Uring(_) => IoChoice::Uring,
        }
    }

    /// Runs a worker on the calling thread. Returns the connections that left the worker in a handover.
    pub(crate) fn run(
        self,
        number: usize,
        shared: Arc<Shared>,
        handle: ThreadHandle,
        intake: Receiver<ReceivedConnection<SecureStream<AcceptedStream>>>,
        clock: Clock,
        sessions_max: usize,
    ) -> Vec<ReleasedConnection<AcceptedStream>> {
        let tls = shared.tls().cloned();
        let moved = match self {
            Self::Epoll(opened) => {
                let io = Secure::new(opened.reactor(EVENTS_MAX), tls);
                Worker::new(WorkerParts { io, handle, shared, number, intake, clock, sessions_max }).run()
            }
            Self::Uring(opened) => {
                let io = Secure::new(opened.reactor(), tls);
                Worker::new(WorkerParts { io, handle, shared, number, intake, clock, sessions_max }).run()
            }
        };
        // Only connections without TLS leave a worker.
        moved.into_iter().map(|released| released.map(SecureStream::into_inner)).collect()
    }
}
