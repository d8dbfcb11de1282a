//! The acceptor: one thread that accepts connections and assigns each to the worker with the fewest connections.
//!
//! Only the acceptor counts the connections of each worker: those that it assigned minus those that the worker reports
//! as ended. So no worker gets more connections than its table holds, whatever the order in which they end.

use crate::handover::{HandoverConnection, ReceivedConnection, ReleasedConnection};
use crate::shared::Shared;
use command::clients::endpoint::{Endpoint, Protocol};
use command::clients::source::ClientSource;
use command::shared::WorkerShared;
use io::listen::{self, Accepted, AcceptedStream, Listener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::time::{Duration, Instant};
use tls::{Application, SecureStream};

/// The maximum number of connections that wait in one worker's queue of new connections (its intake). The limit covers
/// a burst: if a worker is off its CPU for a moment, further connections go to other workers, and stay there.
pub(crate) const INTAKE_MAX: usize = 2048;
/// The pause of the acceptor when the process has no file descriptor left.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// The pause of the acceptor when no worker has taken its new connections yet.
const INTAKE_FULL_PAUSE: Duration = Duration::from_micros(200);
/// The time that workers may take to restore subscribers that were taken over. After that time other connections are
/// served anyway.
const SET_UP_PATIENCE: Duration = Duration::from_secs(1);
/// The refusal of a client that begins a TLS handshake: a record with the fatal alert internal_error, as servers that
/// are out of a resource send.
const TLS_REFUSAL: &[u8] = &[21, 3, 3, 0, 2, 2, 80];
/// The minimum time between two log lines about refused connections.
const LOG_STEP: Duration = Duration::from_secs(1);

/// Returns what the clients of a listener with TLS use within it.
fn application(protocol: Protocol) -> Application {
    Application { is_http2: protocol == Protocol::Grpc, hint: protocol.tls_hint() }
}
/// The number of connections accepted from one listener before the other listeners are checked.
const ACCEPTS_A_VISIT: usize = 64;

/// The acceptor's state.
pub(crate) struct Acceptor {
    pub(crate) listeners: Vec<Listener>,
    /// The protocol and the namespace of the clients of each listener.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) intakes: Vec<SyncSender<ReceivedConnection<SecureStream<AcceptedStream>>>>,
    pub(crate) sessions_max: usize,
    /// The number of connections assigned to each worker since start.
    pub(crate) handed: Vec<u64>,
    /// A bit mask of the workers that were assigned connections since they were last woken.
    pub(crate) to_wake: u128,
    /// Connections that were taken over, to be assigned first.
    pub(crate) moved: Vec<ReleasedConnection<AcceptedStream>>,
    /// The signal to begin. If the sender is dropped, the acceptor never begins.
    pub(crate) go: Receiver<()>,
    /// A reserved file descriptor. If no other descriptor is left, it is released to accept a client and refuse it with
    /// an error.
    pub(crate) reserve: Option<std::fs::File>,
    /// The instant at which a refusal was last logged.
    pub(crate) refusal_logged: Option<Instant>,
}

/// Opens a file that only serves to hold a descriptor.
pub(crate) fn open_reserve() -> Option<std::fs::File> {
    std::fs::File::open("/dev/null").ok()
}

/// A guard that reports, when the acceptor ends for any reason, that no listener exists any more.
struct Accepting(Arc<Shared>);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.threads.accepts(false);
    }
}

impl Acceptor {
    /// Accepts until a stop or a handover is requested. After a handover, returns the listeners. After a stop request,
    /// closes them before any other thread ends.
    pub(crate) fn run(self) -> Vec<Listener> {
        self.shared.threads.accepts(true);
        let accepting = Accepting(Arc::clone(&self.shared));
        let mut listeners = self.accept();
        if accepting.0.threads.stop.is_off() {
            listeners.clear();
        }
        listeners
    }

    fn accept(mut self) -> Vec<Listener> {
        if self.go.recv().is_err() {
            return self.listeners;
        }
        for listener in &mut self.listeners {
            listener.share(false);
        }
        self.hand_over_moved();
        // In a burst of connections, let a worker on the same CPU run first.
        io::affinity::give_way();
        let mut ready = Vec::with_capacity(self.listeners.len());
        let waker = self.shared.threads.acceptor.clone();
        while !self.shared.threads.stop.is_closed() {
            if let Err(error) = listen::wait(&self.listeners, &waker, None, &mut ready) {
                tracing::warn!(%error, "waiting for connections failed");
                std::thread::sleep(RETRY_DELAY);
            }
            let mut exhausted = false;
            for index in &ready {
                for _ in 0..ACCEPTS_A_VISIT {
                    match self.listeners[*index].accept() {
                        Accepted::Stream(stream) => self.hand_over(stream, self.endpoints[*index], None),
                        Accepted::Empty => break,
                        Accepted::NoDescriptor => {
                            exhausted = true;
                            self.refuse_with_reserve(*index);
                            break;
                        }
                    }
                }
            }
            self.wake_workers();
            if exhausted {
                std::thread::sleep(RETRY_DELAY);
            }
        }
        self.listeners
    }

    /// Distributes the connections that were taken over. Subscribers come first. Other connections, which could
    /// publish, are served only after the subscribers are restored.
    fn hand_over_moved(&mut self) {
        let moved = std::mem::take(&mut self.moved);
        let (listening, others): (Vec<_>, Vec<_>) = moved.into_iter().partition(|moved| moved.carried.listens());
        for ReleasedConnection { stream, carried, .. } in listening {
            self.hand_over(stream, carried.endpoint, Some(carried));
        }
        self.wake_workers();
        let end = Instant::now() + SET_UP_PATIENCE;
        let taken = |worker: &WorkerShared| worker.counters.connections_total.value();
        while self.shared.workers.iter().map(taken).sum::<u64>() < self.handed.iter().sum() && Instant::now() < end {
            std::thread::sleep(INTAKE_FULL_PAUSE);
        }
        for ReleasedConnection { stream, carried, .. } in others {
            self.hand_over(stream, carried.endpoint, Some(carried));
        }
        self.wake_workers();
    }

    /// Returns the number of connections that `worker` has or will receive from its intake.
    fn load(&self, worker: usize) -> u64 {
        self.handed[worker].saturating_sub(self.shared.workers[worker].counters.connections_closed.value())
    }

    fn hand_over(
        &mut self,
        mut stream: AcceptedStream,
        mut endpoint: Endpoint,
        carried: Option<Arc<HandoverConnection>>,
    ) {
        let open: u64 = (0..self.intakes.len()).map(|worker| self.load(worker)).sum();
        let connections_max = self.shared.live.connections_max.load(Relaxed);
        let most = if carried.is_some() { 0 } else { self.shared.live.source_connections_max.load(Relaxed) };
        let source = ClientSource::of(stream.peer());
        let Some(entry) = self.shared.sources.enter(source, most) else {
            return self.refuse_source(stream, endpoint, source);
        };
        if open >= connections_max || !self.shared.namespaces.enter(endpoint.namespace) {
            return self.refuse_moved(stream, endpoint, carried.as_deref());
        }
        endpoint.is_counted = true;
        let mut entry = Some(Box::new(entry));
        loop {
            // Tries the least loaded worker first, and the next ones only if that worker's intake is full.
            let mut tried = 0u128;
            while let Some(worker) = (0..self.intakes.len())
                .filter(|worker| tried & (1 << worker) == 0 && self.load(*worker) < self.sessions_max as u64)
                .min_by_key(|worker| self.load(*worker))
            {
                let secure = match endpoint.is_tls {
                    true => SecureStream::secured(stream, application(endpoint.protocol)),
                    false => SecureStream::plain(stream),
                };
                let connection = ReceivedConnection { stream: secure, endpoint, carried: carried.clone(), entry };
                match self.intakes[worker].try_send(connection) {
                    Ok(()) => {
                        self.handed[worker] += 1;
                        self.shared.acceptor.accepted.add(1);
                        self.to_wake |= 1 << worker;
                        return;
                    }
                    Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => {
                        (stream, entry) = (back.stream.into_inner(), back.entry);
                    }
                }
                tried |= 1 << worker;
            }
            if tried == 0 || self.shared.threads.stop.is_off() {
                self.shared.namespaces.leave(endpoint.namespace);
                return self.refuse_moved(stream, endpoint, carried.as_deref());
            }
            // The intakes are full, but some worker has fewer connections than its maximum. Until it takes them,
            // further connections wait in the kernel.
            self.wake_workers();
            std::thread::sleep(INTAKE_FULL_PAUSE);
        }
    }

    /// Wakes the workers that were assigned connections, once for all these connections.
    fn wake_workers(&mut self) {
        while self.to_wake != 0 {
            self.shared.host.wake_worker(self.to_wake.trailing_zeros() as usize);
            self.to_wake &= self.to_wake - 1;
        }
    }

    /// Refuses a connection that was taken over. If it has an unsent reply, it is closed without the refusal line,
    /// which would become part of that reply.
    fn refuse_moved(&mut self, stream: AcceptedStream, endpoint: Endpoint, carried: Option<&HandoverConnection>) {
        if carried.is_some_and(|carried| !carried.output.is_empty()) {
            return self.shared.acceptor.rejected.add(1);
        }
        if self.may_log() {
            let refused = self.shared.acceptor.rejected.value() + 1;
            tracing::warn!(
                "connection refused: as many are open as limits.maxconns or the quota of the namespace allows; \
                 {refused} were refused so far"
            );
        }
        self.refuse(stream, endpoint);
    }

    /// Refuses a client whose address has as many connections as it may have.
    fn refuse_source(&mut self, stream: AcceptedStream, endpoint: Endpoint, source: ClientSource) {
        self.shared.acceptor.source_rejected.add(1);
        if self.may_log() {
            let refused = self.shared.acceptor.source_rejected.value();
            tracing::warn!(
                "connection refused: {source} has as many as limits.maxconns_per_source allows; {refused} were refused \
                 so far"
            );
        }
        stream.refuse(if endpoint.is_tls { TLS_REFUSAL } else { endpoint.protocol.source_refusal() });
    }

    /// Returns true if a refusal may be logged: one a second.
    fn may_log(&mut self) -> bool {
        let now = Instant::now();
        let may = self.refusal_logged.is_none_or(|logged| now.duration_since(logged) >= LOG_STEP);
        if may {
            self.refusal_logged = Some(now);
        }
        may
    }

    fn refuse(&self, stream: AcceptedStream, endpoint: Endpoint) {
        self.shared.acceptor.rejected.add(1);
        stream.refuse(if endpoint.is_tls { TLS_REFUSAL } else { endpoint.protocol.refusal() });
    }

    /// Releases the reserved descriptor for a moment, so that the next client is refused with an error and does not
    /// wait.
    fn refuse_with_reserve(&mut self, listener: usize) {
        self.shared.acceptor.descriptors_exhausted.add(1);
        drop(self.reserve.take());
        if let Accepted::Stream(stream) = self.listeners[listener].accept() {
            self.refuse(stream, self.endpoints[listener]);
        }
        self.reserve = open_reserve();
    }
}
