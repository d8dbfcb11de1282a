//! A gRPC client with a queue of requests, deadlines and retries, as the client libraries have them.
//!
//! ```text
//!   call ──> in flight < max? ──yes──> attempt ──> reply, or an error that is not retried
//!                 │ no                  ^    │
//!                 └──> queue (FIFO) ────┘    └──> UNAVAILABLE or INTERNAL: the next attempt
//! ```
//!
//! All calls share one connection, since no scenario has more calls in flight than a connection has streams.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use protocol::grpc::Status;

use super::connection::{CallConnection, StreamRequest};

/// The longest time in which a queued call does not notice that it was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(10);

/// The limits of a client. The defaults are those of the preset `Laptop.v1` of `clients/presets.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientOptions {
    /// The time from the start of a call to its result.
    pub(super) deadline: Duration,
    /// The maximum number of calls that await replies.
    pub(super) requests_in_flight_max: usize,
    /// The maximum number of calls that wait in the client.
    pub(super) requests_queued_max: usize,
    /// The maximum number of retries of a call.
    pub(super) retry_count: u64,
}

impl ClientOptions {
    pub(super) const LAPTOP_V1: Self = Self {
        deadline: Duration::from_secs(15),
        requests_in_flight_max: 200,
        requests_queued_max: 16_384,
        retry_count: 3,
    };
}

/// A call of a scenario.
#[derive(Clone, Debug)]
pub(super) struct CallRequest {
    /// `/package.Service/Method`.
    pub(super) path: String,
    /// The cache.
    pub(super) cache: String,
    /// The metadata by which the call asks for faults.
    pub(super) metadata: Vec<(String, String)>,
    /// The request.
    pub(super) message: Vec<u8>,
    /// The time after which the client gives up; that of the client if absent.
    pub(super) deadline: Option<Duration>,
    /// True if a repetition of the call changes nothing, so that it may be retried.
    pub(super) is_repeatable: bool,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEnd {
    /// A status of the server or of the connection.
    Status(Status),
    /// The deadline passed in the client's queue.
    QueueTimeout,
    /// The client's queue was full.
    QueueFull,
}

/// The reply to a call.
#[derive(Debug)]
pub(super) struct CallReply {
    /// The end; the messages are complete if it is the status `Ok`.
    pub(super) end: CallEnd,
    /// The status's text.
    pub(super) text: String,
    /// The messages.
    pub(super) messages: Vec<Vec<u8>>,
}

/// The metrics of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Metrics {
    pub(super) in_flight: usize,
    pub(super) queued: usize,
    pub(super) retries: u64,
    pub(super) resumes: u64,
    /// The number of calls that were in flight or queued.
    pub(super) begun: u64,
}

#[derive(Default)]
struct State {
    /// The calls that wait, in order.
    queue: VecDeque<u64>,
    metrics: Metrics,
}

/// A client of one server.
pub(super) struct CallClient {
    address: SocketAddr,
    options: ClientOptions,
    state: Mutex<State>,
    changed: Condvar,
    connection: Mutex<Option<Arc<CallConnection>>>,
}

impl CallClient {
    /// Creates a client, which connects at its first call.
    pub(super) fn new(address: SocketAddr, options: ClientOptions) -> Arc<Self> {
        let (state, changed) = (Mutex::new(State::default()), Condvar::new());
        Arc::new(Self { address, options, state, changed, connection: Mutex::new(None) })
    }

    /// Returns the metrics.
    pub(super) fn metrics(&self) -> Metrics {
        let state = self.lock();
        Metrics { queued: state.queue.len(), ..state.metrics }
    }

    /// Counts a subscription that was continued.
    pub(super) fn count_resume(&self) {
        self.lock().metrics.resumes += 1;
    }

    /// Returns a connection that accepts streams.
    ///
    /// # Errors
    /// If none can be opened by the instant `until`. The text says why.
    pub(super) fn connection(&self, until: Instant) -> Result<Arc<CallConnection>, String> {
        let mut current = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = &*current
            && !connection.is_ending()
        {
            return Ok(Arc::clone(connection));
        }
        // Calls that are in flight on the previous one hold it until they end.
        *current = None;
        let opened = Arc::new(CallConnection::open(self.address, until)?);
        *current = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Executes a call, which waits in the queue while too many others are in flight.
    pub(super) fn call(&self, call: &CallRequest, cancelled: &AtomicBool) -> CallReply {
        let until = Instant::now() + call.deadline.unwrap_or(self.options.deadline);
        if let Err((end, text)) = self.enter(until, cancelled) {
            return CallReply { end, text: text.to_owned(), messages: Vec::new() };
        }
        let mut retries_left = if call.is_repeatable { self.options.retry_count } else { 0 };
        let reply = loop {
            let reply = self.attempt(call, until, cancelled);
            let may_retry = matches!(reply.end, CallEnd::Status(Status::Unavailable | Status::Internal));
            if !may_retry || retries_left == 0 || Instant::now() >= until {
                break reply;
            }
            retries_left -= 1;
            self.lock().metrics.retries += 1;
        };
        self.lock().metrics.in_flight -= 1;
        self.changed.notify_all();
        reply
    }

    fn attempt(&self, call: &CallRequest, until: Instant, cancelled: &AtomicBool) -> CallReply {
        let failed = |(status, text)| CallReply { end: CallEnd::Status(status), text, messages: Vec::new() };
        let connection = match self.connection(until) {
            Ok(connection) => connection,
            Err(_) if Instant::now() >= until => {
                return failed((Status::DeadlineExceeded, "no connection within the deadline; raise it".to_owned()));
            }
            Err(cause) => return failed((Status::Unavailable, cause)),
        };
        let CallRequest { path, cache, metadata, message, .. } = call;
        let timeout = until.saturating_duration_since(Instant::now());
        match connection.send(&StreamRequest { path, cache, metadata, message }, Some(timeout)) {
            Ok(stream) => {
                let ((status, text), messages) = connection.finish(stream, until, || cancelled.load(Ordering::Relaxed));
                CallReply { end: CallEnd::Status(status), text, messages }
            }
            Err(end) => failed(end),
        }
    }

    /// Waits for a place among the calls in flight.
    fn enter(&self, until: Instant, cancelled: &AtomicBool) -> Result<(), (CallEnd, &'static str)> {
        let ClientOptions { requests_in_flight_max, requests_queued_max, .. } = self.options;
        let mut state = self.lock();
        if state.queue.is_empty() && state.metrics.in_flight < requests_in_flight_max {
            state.metrics.in_flight += 1;
            state.metrics.begun += 1;
            return Ok(());
        }
        if state.queue.len() >= requests_queued_max {
            return Err((CallEnd::QueueFull, "the client's queue is full; raise requests_queued_max, or call less"));
        }
        state.metrics.begun += 1;
        let ticket = state.metrics.begun;
        state.queue.push_back(ticket);
        let failure = loop {
            if state.queue.front() == Some(&ticket) && state.metrics.in_flight < requests_in_flight_max {
                state.queue.pop_front();
                state.metrics.in_flight += 1;
                // The next one may have a place too.
                self.changed.notify_all();
                return Ok(());
            }
            if cancelled.load(Ordering::Relaxed) {
                break (CallEnd::Status(Status::Cancelled), "the call was cancelled in the queue; call again");
            }
            if Instant::now() >= until {
                break (CallEnd::QueueTimeout, "the deadline passed in the client's queue; raise it, or call less");
            }
            let left = until.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), CANCEL_CHECK);
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        state.queue.retain(|queued| *queued != ticket);
        self.changed.notify_all();
        Err(failure)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
