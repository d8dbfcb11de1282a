//! All state of a worker except its store handle. The handle is separate so that a session can be changed while a guard
//! borrows the handle.

use super::state::{BufferPeaks, FlashWaiting, Holders, InPlaceReceives, Pinners};
use crate::buffers::{Buffers, CLASSES};
use crate::handover::{HandoverConnection, ReceivedConnection, ReleasedConnection};
use crate::session::{Pause, Phase, SessionPlace, Table};
use crate::shared::Shared;
use command::clients::audit::{AuditEvent, AuditOrigin};
use command::clients::client_info::{CLIENT_TEXT_MAX, ClientInfo, ClientText};
use command::clients::endpoint::{Endpoint, Protocol};
use command::context::WorkerContext;
use command::session::{has_turn, identify};
use command::visit::clock::{CachedClock, Ticks};
use io::{Backend, IoEvent};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// The maximum number of sessions in one batch.
pub const BATCH_SESSIONS_MAX: usize = 64;

/// The maximum number of sessions in one batch whose request takes many visits.
pub(super) const BATCH_LONG_MAX: usize = 16;

/// The number of operations after which a batch takes no further session.
pub const BATCH_OPS_MAX: usize = 256;

/// The minimum cost of one visit to a session, in parsed bytes. It bounds the number of visits in an iteration.
pub(super) const VISIT_BYTES: usize = 64;

/// The state of a worker, except its store handle.
pub(super) struct Core<B: Backend> {
    pub(super) io: B,
    /// The state that all threads share. `ctx` contains the part that commands use.
    pub(super) shared: Arc<Shared>,
    pub(super) ctx: WorkerContext,
    pub(super) sessions: Table<B::Stream>,
    pub(super) buffers: Buffers,
    pub(super) intake: Receiver<ReceivedConnection<B::Stream>>,
    pub(super) events: Vec<IoEvent>,
    pub(super) ready: VecDeque<u32>,
    /// The sessions whose request takes many visits, whose output takes many sends, or that used their whole share of
    /// the last visit.
    pub(super) long: VecDeque<u32>,
    pub(super) parked: Vec<u32>,
    pub(super) coming: FlashWaiting,
    pub(super) waiting: [VecDeque<u32>; CLASSES.len()],
    pub(super) holders: Holders,
    pub(super) batch: Vec<u32>,
    /// The number of sessions of the batch that were visited. The next batch begins with the unvisited sessions.
    pub(super) served: usize,
    /// Dead sessions whose state is released under the next guard.
    pub(super) ended_sessions: VecDeque<u32>,
    pub(super) born: Ticks,
    pub(super) unix: CachedClock,
    /// The instant of this iteration, in ticks and in ns since the worker started.
    pub(super) iteration_ticks: Ticks,
    pub(super) now_ns: u64,
    pub(super) swept_ns: u64,
    pub(super) sweep_at: usize,
    pub(super) buffer_peaks: BufferPeaks,
    pub(super) pins_checked_ns: u64,
    /// Sessions that were blocked while they held pins. Some of the listed sessions may not be blocked any more.
    pub(super) pin_holders: Pinners,
    /// Sessions that were blocked with replies retained outside the store. Some of the listed sessions may not be
    /// blocked any more.
    pub(super) reply_holders: Vec<u32>,
    /// The bytes of client memory that clients must release, by the last check. Zero if client memory is not short.
    pub(super) memory_wanted: u64,
    /// True if more accepted connections may be waiting in the queue `intake`.
    pub(super) intake_left: bool,
    pub(super) arrivals: InPlaceReceives,
    pub(super) tidied_ns: u64,
    /// The instant at which a stop in progress closes the remaining connections, in ns since the worker started.
    pub(super) stop_deadline_ns: Option<u64>,
    /// Connections with queued push messages. Those that could not send all their messages are at the end.
    pub(super) mail: VecDeque<u32>,
    pub(super) again: Vec<u32>,
    /// True if some connections in `mail` were not visited in this iteration, or key events remain to be published.
    pub(super) mail_left: bool,
    /// The number of successive iterations without a sleep since the store began to wait for other workers.
    pub(super) iterations_without_sleep: u32,
    /// Connections that were taken over from another process and are not restored yet, with their state.
    pub(super) taken_over: Vec<(u32, Arc<HandoverConnection>)>,
    /// Connections that have left the worker for a handover.
    pub(super) moved: Vec<ReleasedConnection<B::Stream>>,
    /// The number of unsent bytes with which further connections may still leave.
    pub(super) output_left: u64,
    /// The number of connections with TLS or gRPC that were closed for a handover.
    pub(super) drained: u64,
    /// The last round of [`crate::threads::Drain`] that the worker answered.
    pub(super) drain_round: u64,
}

/// The queue from which a batch takes its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitQueue {
    /// Sessions that have work to do.
    Ready,
    /// Sessions whose request takes many visits, or that have more requests than one visit serves.
    Long,
}

impl<B: Backend> Core<B> {
    /// Returns true if the iteration has used its time, so that the worker must poll before it visits another session.
    pub(super) fn is_over(&self) -> bool {
        self.ctx.pace.is_over(self.ctx.op_begun)
    }

    /// Adds the client info of a Redis client to the connection table. A client of either protocol on another host must
    /// authenticate if its listener is protected.
    pub(super) fn introduce(&mut self, index: u32, peer: Option<std::net::SocketAddr>, endpoint: Endpoint) {
        let (shared, session) = (&self.ctx.shared, self.sessions.at(index));
        if endpoint.protocol != Protocol::Memcache {
            let client_info = ClientInfo {
                id: shared.clients.next(),
                local: session.stream.as_ref().and_then(B::local),
                since_secs: self.ctx.now.secs(),
                database: endpoint.namespace.0,
                is_grpc: endpoint.protocol == Protocol::Grpc,
                ..ClientInfo::default()
            };
            self.ctx.connection_table().set_client_info(index, client_info);
        }
        let distant = peer.is_some_and(|peer| !peer.ip().to_canonical().is_loopback());
        let is_open = !shared.requires_authentication();
        let has_certificate = endpoint.is_tls && self.shared.requires_certificates();
        let is_protected = match endpoint.protocol {
            Protocol::Memcache => !shared.config.unprotected,
            Protocol::Resp | Protocol::Grpc => shared.config.protected,
        };
        session.state.introduce(is_open, distant && is_protected && !has_certificate);
    }

    /// Authenticates a client whose certificate names a user.
    #[cold]
    pub(super) fn identify(&mut self, index: u32) {
        let session = self.sessions.at(index);
        session.is_unidentified = false;
        let Some(names) = session.stream.as_ref().and_then(|stream| self.io.proven_users(stream)) else { return };
        let user = identify(&mut session.state, &names, &self.ctx.shared);
        let peer = self.ctx.connection_table().peer(index);
        let origin = AuditOrigin::Client(peer, session.state.protocol());
        let Some(user) = user else {
            if let Some(tls) = self.shared.tls() {
                tls.unknown_user(peer, &names);
            }
            let name = names.join(" ");
            self.ctx
                .shared
                .audit
                .record(AuditEvent::LoginFailed, origin, name.as_bytes(), || "by certificate".to_owned());
            return;
        };
        self.ctx.shared.audit.record(AuditEvent::Login, origin, &user, || "by certificate".to_owned());
        let user: ClientText = user.into_iter().take(CLIENT_TEXT_MAX).collect();
        self.ctx.connection_table().client_info(index, |client_info| client_info.user = user.clone());
    }

    /// Records one event of the reactor.
    pub(super) fn note(&mut self, event: IoEvent) {
        let Some(session) = self.sessions.find(event.token) else {
            return;
        };
        session.readable |= event.readable;
        session.hangup |= event.hangup;
        // A resting session notices the end of its connection.
        session.sending |= session.blocked && (event.writable || event.hangup);
        self.make_ready(event.token.index());
    }

    /// Resumes a session that was removed from its list.
    pub(super) fn call_back(&mut self, index: u32) {
        self.sessions.at(index).place = SessionPlace::Idle;
        self.make_ready(index);
    }

    /// Wakes a session that waits for other clients. A session that is not at rest yet finds the reason itself.
    pub(super) fn wake(&mut self, index: u32) {
        let Some(session) = self.sessions.peek_mut(index) else { return };
        if session.phase != Phase::Open || session.pause != Pause::Clients {
            return;
        }
        if session.out.is_some() && !has_turn(&session.state, &self.ctx) {
            // The session is woken again when its output is sent.
            session.mail = true;
            return;
        }
        // A turn is executed even if output is unsent.
        session.blocked &= session.out.is_some();
        (session.pause, session.servable) = (Pause::None, true);
        self.make_ready(index);
    }

    /// Resumes a session at an instant that it has set itself.
    pub(super) fn visit(&mut self, index: u32) {
        if let Some(session) = self.sessions.peek_mut(index).filter(|session| session.phase == Phase::Open) {
            match session.pause {
                Pause::Clients => self.wake(index),
                _ => {
                    session.servable = true;
                    self.make_ready(index);
                }
            }
        }
    }

    /// Puts a session that is in no list at the end of its queue (`ready` or `long`) if it has work to do. A dead
    /// session goes to `ended_sessions` instead.
    pub(super) fn make_ready(&mut self, index: u32) {
        let session = self.sessions.at(index);
        if session.place != SessionPlace::Idle {
            return;
        }
        if session.phase == Phase::Dead {
            self.ended_sessions.push_back(index);
        } else if session.has_work() {
            session.place = SessionPlace::Ready;
            session.ready_at = self.iteration_ticks;
            if session.is_long() { self.long.push_back(index) } else { self.ready.push_back(index) }
        }
    }
}
