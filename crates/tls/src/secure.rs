//! A reactor whose streams may use TLS, over another reactor.
//!
//! ```text
//!   receive   New: is the maximum of handshakes under way? ──yes──> `waiting`, unread, until one ends
//!             Handshake: has this iteration computed its steps? ──yes──> `postponed`, an event in the next iteration
//!             then: socket -> records -> plaintext, until the owner's buffer is full or the socket is empty
//!   send      records that wait first; then plaintext -> records -> socket; what it refuses is kept, and reported to
//!             the owner as it is sent
//!   wait      events of the reactor below; events for `postponed` and `doomed`; a writable socket whose records of the
//!             handshake wait is reported as readable, because `receive` sends them
//! ```
//!
//! A queue contains each stream at most once, and some that are closed. Those are removed when a queue is longer than
//! twice the table of streams, so that no queue grows without bound.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use io::{Backend, Detached, IoEvent, Received, Sent, Token};

use crate::connection::{Connection, Flushed, HANDSHAKE_RECORD, PLAIN_BYTES_MAX, SEAL_BYTES_MAX, Stage};
use crate::failure::{FailureKind, HandshakeFailure};
use crate::figures::adjust;
use crate::settings::UserFrom;
use crate::shared::{Application, Tls};

/// Maximum number of steps of handshakes between two waits. A step of a full handshake takes about 150 us.
pub const STEPS_PER_ITERATION: usize = 2;
/// Number of tokens by which a queue may be longer than twice the table of streams.
const QUEUE_SLACK: usize = 64;
/// Maximum number of overdue connections that are ended between two waits.
const DOOMED_PER_ITERATION: usize = 64;
/// The time for which a failed connection waits for its peer to close.
const FAILED_MAX: Duration = Duration::from_secs(1);
/// The time after which a handshake makes room for another one, if others wait because the maximum is under way.
const SLOW_MAX: Duration = Duration::from_secs(1);
/// Maximum number of bytes of plaintext that are sealed before they are sent.
const SEALED_AT_ONCE: usize = 4 * PLAIN_BYTES_MAX;
/// Size of the buffer for received records.
const RECORDS_BYTES: usize = (64 << 10) + SEAL_BYTES_MAX;

/// A stream with or without TLS.
#[derive(Debug)]
pub struct SecureStream<S> {
    inner: S,
    tls: Option<RefCell<Box<Connection>>>,
}

impl<S> SecureStream<S> {
    /// Creates a stream without TLS.
    pub const fn plain(inner: S) -> Self {
        Self { inner, tls: None }
    }

    /// Creates a stream whose peer begins a handshake.
    pub fn secured(inner: S, application: Application) -> Self {
        Self { inner, tls: Some(RefCell::new(Box::new(Connection::new(application)))) }
    }

    /// Returns true if the stream uses TLS.
    pub const fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the stream below.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

/// The state of a stream, by its token.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    generation: u32,
    /// True if the entry stands for an attached stream with TLS.
    is_attached: bool,
    is_handshaking: bool,
    /// True if the token is in `waiting` or `postponed`.
    is_queued: bool,
    /// True if the peer has closed or reset the connection.
    is_hung_up: bool,
    /// True if records of the library wait for the socket.
    is_flushing: bool,
    /// Set if the next receive ends the connection.
    doom: Option<FailureKind>,
}

/// A reactor whose streams may use TLS, over the reactor `B`.
pub struct Secure<B: Backend> {
    inner: B,
    /// Shared by all reactors.
    #[expect(clippy::redundant_allocation, reason = "each receive clones the Rc, without an atomic operation")]
    tls: Option<Rc<Arc<Tls>>>,
    known: Vec<Known>,
    /// The handshakes under way in the order of their beginnings, with some that have ended.
    begun: VecDeque<(Token, Instant)>,
    /// The connections that have failed, each with the instant of the failure.
    failed: VecDeque<(Token, Instant)>,
    under_way: usize,
    waiting: VecDeque<Token>,
    postponed: VecDeque<Token>,
    doomed: VecDeque<Token>,
    steps_left: usize,
    records: Box<[u8]>,
    sealed: Box<[u8]>,
    plain: Vec<u8>,
}

impl<B: Backend> Secure<B> {
    /// Creates a reactor over `inner`. Without `tls`, all streams must be plain.
    pub fn new(inner: B, tls: Option<Arc<Tls>>) -> Self {
        let bytes = |count: usize| vec![0; if tls.is_some() { count } else { 0 }].into_boxed_slice();
        Self {
            inner,
            known: Vec::new(),
            begun: VecDeque::new(),
            failed: VecDeque::new(),
            under_way: 0,
            waiting: VecDeque::new(),
            postponed: VecDeque::new(),
            doomed: VecDeque::new(),
            steps_left: STEPS_PER_ITERATION,
            records: bytes(RECORDS_BYTES),
            // A record of the library, such as the reply to a request for new keys, may precede the sealed ones.
            sealed: bytes(SEALED_AT_ONCE + 6 * SEAL_BYTES_MAX + 4096),
            plain: Vec::with_capacity(if tls.is_some() { PLAIN_BYTES_MAX } else { 0 }),
            tls: tls.map(Rc::new),
        }
    }

    /// Returns the names of users in the certificate of the stream's client: all candidates, in their order. Returns
    /// `None` if the client has no certificate, or if certificates name no users.
    fn proven(&self, stream: &SecureStream<B::Stream>) -> Option<Vec<String>> {
        let from = self.tls.as_ref()?.current().settings.user_from;
        if from == UserFrom::None {
            return None;
        }
        stream.tls.as_ref()?.borrow().users(from)
    }

    fn known(&mut self, token: Token) -> Option<&mut Known> {
        let known = self.known.get_mut(token.index() as usize)?;
        (known.is_attached && known.generation == token.generation()).then_some(known)
    }

    /// Removes the streams that are closed from queues that are too long.
    fn shorten_queues(&mut self) {
        let (known, most) = (&self.known, 2 * self.known.len() + QUEUE_SLACK);
        let find = |token: Token| {
            let known = known.get(token.index() as usize)?;
            (known.is_attached && known.generation == token.generation()).then_some(known)
        };
        let before = self.waiting.len();
        for queue in [&mut self.waiting, &mut self.postponed, &mut self.doomed] {
            if queue.len() > most {
                queue.retain(|token| find(*token).is_some());
            }
        }
        if self.begun.len() > most {
            self.begun.retain(|(token, _)| find(*token).is_some_and(|known| known.is_handshaking));
        }
        if self.failed.len() > most {
            self.failed.retain(|(token, _)| find(*token).is_some());
        }
        if let Some(tls) = &self.tls {
            adjust(&tls.figures.waiting, self.waiting.len() as i64 - before as i64);
        }
    }

    /// Puts a stream into one of the queues, unless it is in one.
    fn queue(&mut self, token: Token, to: fn(&mut Self) -> &mut VecDeque<Token>) {
        let is_new = self.known(token).is_some_and(|known| !std::mem::replace(&mut known.is_queued, true));
        if is_new {
            to(self).push_back(token);
        }
    }

    fn unqueue(&mut self, token: Token) -> bool {
        self.known(token).is_some_and(|known| std::mem::take(&mut known.is_queued))
    }

    /// Ends the handshake of a stream, successfully or not, and lets another one begin.
    fn leave_handshake(&mut self, token: Token) {
        let left = self.known(token).is_some_and(|known| std::mem::take(&mut known.is_handshaking));
        if left {
            self.under_way -= 1;
            if let Some(tls) = &self.tls {
                adjust(&tls.figures.under_way, -1);
            }
            self.admit_waiting();
        }
    }

    fn admit_waiting(&mut self) {
        while let Some(token) = self.waiting.pop_front() {
            if let Some(tls) = &self.tls {
                adjust(&tls.figures.waiting, -1);
            }
            if self.unqueue(token) {
                self.queue(token, |secure| &mut secure.postponed);
                return;
            }
        }
    }

    /// Marks at most `count` of the oldest handshakes that have lasted for `lasted`, so that they end.
    fn doom_oldest(&mut self, lasted: Duration, count: usize) {
        let mut doomed = 0;
        while let Some((token, begun)) = self.begun.front().copied()
            && doomed < count
        {
            let known = self.known(token);
            let is_over = !known.as_ref().is_some_and(|known| known.is_handshaking && known.doom.is_none());
            if !is_over && begun.elapsed() < lasted {
                return;
            }
            self.begun.pop_front();
            if !is_over && let Some(known) = self.known(token) {
                known.doom = Some(FailureKind::TimedOut);
                self.doomed.push_back(token);
                doomed += 1;
            }
        }
    }

    /// Lets a connection that waits begin, if one may: its predecessor may have ended before it began.
    fn admit_if_idle(&mut self) {
        let may_begin = |tls: &Rc<Arc<Tls>>| self.under_way < tls.handshakes_max();
        if !self.waiting.is_empty() && self.postponed.is_empty() && self.tls.as_ref().is_some_and(may_begin) {
            self.admit_waiting();
        }
    }

    /// Marks overdue handshakes, and failed connections whose peers have had time to close.
    fn doom_overdue(&mut self) {
        if !self.begun.is_empty()
            && let Some(tls) = &self.tls
        {
            let timeout = tls.handshake_timeout();
            let lasted = if self.waiting.is_empty() { timeout } else { timeout.min(SLOW_MAX) };
            self.doom_oldest(lasted, DOOMED_PER_ITERATION);
        }
        while let Some((token, since)) = self.failed.front().copied()
            && since.elapsed() >= FAILED_MAX
        {
            self.failed.pop_front();
            if let Some(known) = self.known(token) {
                known.doom = Some(FailureKind::TimedOut);
                self.doomed.push_back(token);
            }
        }
    }

    /// Counts and logs the failure of a handshake, or of a connection that is open.
    fn fail(tls: &Tls, stream: &B::Stream, connection: &mut Connection, failure: &HandshakeFailure) {
        if std::mem::replace(&mut connection.has_failed, true) {
            return;
        }
        match connection.stage {
            Stage::Open => tls.broke(B::peer(stream), failure),
            _ => tls.fail(B::peer(stream), failure),
        }
    }

    /// Ends the receiving side of a connection, and its handshake if it was under way.
    fn end(&mut self, connection: &mut Connection) {
        self.end_as(connection, Stage::Ended);
    }

    /// Ends the receiving side of a connection after a failure. Records that wait are sent, then the sending side ends.
    /// The peer gets a second to read them.
    fn end_failed(&mut self, stream: &B::Stream, connection: &mut Connection) {
        self.end_as(connection, Stage::Failed);
        connection.shuts_after = true;
        if !connection.has_outgoing() {
            self.inner.shutdown_send(stream);
        } else if !self.flush_own(stream, connection) {
            connection.stage = Stage::Ended;
        }
        self.failed.push_back((connection.token, Instant::now()));
    }

    fn end_as(&mut self, connection: &mut Connection, stage: Stage) {
        let was_open = connection.stage == Stage::Open;
        connection.stage = stage;
        self.leave_handshake(connection.token);
        if was_open && let Some(tls) = &self.tls {
            adjust(&tls.figures.open, -1);
        }
    }

    /// Sends the records of the library that wait. Returns false if the connection is broken.
    fn flush_own(&mut self, stream: &B::Stream, connection: &mut Connection) -> bool {
        let token = connection.token;
        if !connection.has_outgoing() {
            return true;
        }
        let flushed = connection.flush(&mut self.inner, stream);
        let is_blocked = flushed == Flushed::Blocked;
        let was_flushing = self.known(token).is_some_and(|known| std::mem::replace(&mut known.is_flushing, is_blocked));
        if is_blocked {
            self.inner.want_writable(stream, token, true);
        } else if was_flushing && !connection.owner_wants_writable {
            self.inner.want_writable(stream, token, false);
        }
        if flushed == Flushed::All && std::mem::take(&mut connection.shuts_after) {
            self.inner.shutdown_send(stream);
        }
        flushed != Flushed::Reset
    }

    fn receive_secured(&mut self, stream: &B::Stream, cell: &RefCell<Box<Connection>>, into: &mut [u8]) -> Received {
        let connection = &mut **cell.borrow_mut();
        let Some(tls) = self.tls.clone() else { return Received::Reset };
        if !self.flush_own(stream, connection) {
            self.end(connection);
            return Received::Reset;
        }
        if let Some(kind) = self.known(connection.token).and_then(|known| known.doom) {
            if connection.stage != Stage::Failed {
                let failure = HandshakeFailure::new(kind, "its handshake took too long; see tls.handshake_timeout");
                Self::fail(&tls, stream, connection, &failure);
            }
            self.end(connection);
            return Received::Reset;
        }
        if connection.stage == Stage::Failed {
            return self.discard(stream, connection);
        }
        let mut filled = connection.take_opened(into);
        while filled < into.len() && matches!(connection.stage, Stage::New | Stage::Handshake | Stage::Open) {
            if connection.stage != Stage::Open && !self.admit_step(&tls, connection) {
                if connection.stage == Stage::Ended {
                    break;
                }
                return Received::Blocked;
            }
            match self.receive_records(&tls, stream, connection, &mut into[filled..]) {
                ReceiveStep::Opened { bytes, is_empty } => {
                    filled += bytes;
                    if is_empty {
                        break;
                    }
                }
                ReceiveStep::Reset => {
                    self.end(connection);
                    if filled == 0 {
                        return Received::Reset;
                    }
                }
            }
        }
        if !connection.settle() {
            let failure =
                HandshakeFailure::new(FailureKind::NoMemory, "client memory is used up; raise limits.client_memory");
            Self::fail(&tls, stream, connection, &failure);
            self.end(connection);
            return Received::Reset;
        }
        if filled > 0 && connection.stage == Stage::Ended {
            // The end is reported in another call, and the socket may have no event for it.
            self.queue(connection.token, |secure| &mut secure.postponed);
        }
        match (filled, connection.stage) {
            (1.., _) => Received::Bytes(filled),
            (0, Stage::Ended) => Received::Closed,
            (0, _) => Received::Blocked,
        }
    }

    /// Returns true if the next step of a handshake may be computed now. Otherwise the connection has an event later,
    /// or has ended, because its peer hung up while it waited.
    fn admit_step(&mut self, tls: &Tls, connection: &mut Connection) -> bool {
        let token = connection.token;
        if connection.stage == Stage::New && self.under_way >= tls.handshakes_max() {
            if self.known(token).is_some_and(|known| known.is_hung_up) {
                self.end(connection);
                return false;
            }
            let before = self.waiting.len();
            self.queue(token, |secure| &mut secure.waiting);
            if self.waiting.len() > before {
                adjust(&tls.figures.waiting, 1);
                tls.figures.waited.fetch_add(1, Relaxed);
            }
            return false;
        }
        if self.steps_left == 0 {
            tls.figures.postponed.fetch_add(1, Relaxed);
            self.queue(token, |secure| &mut secure.postponed);
        }
        self.steps_left > 0
    }

    /// Receives once on a failed connection, and discards the bytes.
    fn discard(&mut self, stream: &B::Stream, connection: &mut Connection) -> Received {
        match self.inner.receive(stream, &mut self.records) {
            Received::Bytes(bytes) => {
                if bytes == self.records.len() {
                    self.queue(connection.token, |secure| &mut secure.postponed);
                }
                Received::Blocked
            }
            Received::Blocked => Received::Blocked,
            end @ (Received::Closed | Received::Reset) => {
                self.end(connection);
                end
            }
        }
    }

    /// Receives records once, and opens them.
    fn receive_records(
        &mut self,
        tls: &Tls,
        stream: &B::Stream,
        connection: &mut Connection,
        into: &mut [u8],
    ) -> ReceiveStep {
        let mut received = 0;
        let mut is_empty = false;
        if !std::mem::take(&mut connection.is_partial) {
            let want = connection.receive_bytes(into.len()).min(self.records.len());
            match self.inner.receive(stream, &mut self.records[..want]) {
                Received::Bytes(bytes) => {
                    received = bytes;
                    // A receive that does not fill the buffer has emptied the socket, unless the peer has hung up.
                    let is_hung_up = self.known(connection.token).is_some_and(|known| known.is_hung_up);
                    is_empty = bytes < want && !is_hung_up;
                }
                Received::Blocked => return ReceiveStep::Opened { bytes: 0, is_empty: true },
                Received::Closed => {
                    self.ended_by_peer(tls, stream, connection);
                    return ReceiveStep::Opened { bytes: 0, is_empty: true };
                }
                Received::Reset => {
                    if matches!(connection.stage, Stage::Handshake) {
                        Self::fail(tls, stream, connection, &HandshakeFailure::closed());
                    }
                    return ReceiveStep::Reset;
                }
            }
            if connection.stage == Stage::New && !self.begin(tls, stream, connection, received) {
                return ReceiveStep::Opened { bytes: 0, is_empty: true };
            }
        }
        let was_handshaking = connection.stage == Stage::Handshake;
        if was_handshaking {
            self.steps_left = self.steps_left.saturating_sub(1);
        }
        let opened = connection.open(&mut self.records[..received], into);
        let is_broken = !self.flush_own(stream, connection);
        match opened {
            Err(error) => {
                if was_handshaking {
                    // The handshake may have ended in front of the error. The connection was not counted as open.
                    connection.stage = Stage::Handshake;
                }
                Self::fail(tls, stream, connection, &HandshakeFailure::of(&error));
                self.end_failed(stream, connection);
                ReceiveStep::Opened { bytes: 0, is_empty: true }
            }
            Ok(_) if is_broken => ReceiveStep::Reset,
            Ok(opened) => {
                if was_handshaking && connection.stage != Stage::Handshake {
                    self.opened_connection(tls, connection);
                }
                if connection.stage == Stage::Ended && !was_handshaking {
                    adjust(&tls.figures.open, -1);
                }
                if opened.is_partial && opened.bytes == 0 && !connection.has_opened() {
                    // Many records without data: other connections are served first.
                    tls.figures.postponed.fetch_add(1, Relaxed);
                    self.queue(connection.token, |secure| &mut secure.postponed);
                    return ReceiveStep::Opened { bytes: 0, is_empty: true };
                }
                ReceiveStep::Opened { bytes: opened.bytes, is_empty: is_empty && !connection.is_partial }
            }
        }
    }

    /// Begins the handshake of a connection whose first bytes were received. Returns false if they are not TLS.
    fn begin(&mut self, tls: &Tls, stream: &B::Stream, connection: &mut Connection, received: usize) -> bool {
        if received > 0 && self.records[0] != HANDSHAKE_RECORD {
            Self::fail(tls, stream, connection, &HandshakeFailure::not_tls());
            connection.queue_plain(connection.application.hint);
            self.end_failed(stream, connection);
            return false;
        }
        if let Err(error) = connection.begin(tls.config(connection.application), &tls.memory) {
            Self::fail(tls, stream, connection, &HandshakeFailure::of(&error));
            self.end(connection);
            return false;
        }
        self.under_way += 1;
        adjust(&tls.figures.under_way, 1);
        self.begun.push_back((connection.token, Instant::now()));
        if let Some(known) = self.known(connection.token) {
            known.is_handshaking = true;
        }
        true
    }

    /// Records that a handshake has succeeded.
    fn opened_connection(&mut self, tls: &Tls, connection: &Connection) {
        let kind = if connection.is_resumed() { &tls.figures.resumed } else { &tls.figures.full };
        kind.fetch_add(1, Relaxed);
        if connection.stage == Stage::Open {
            adjust(&tls.figures.open, 1);
        }
        self.leave_handshake(connection.token);
    }

    /// Records that the peer has ended the stream below.
    fn ended_by_peer(&mut self, tls: &Tls, stream: &B::Stream, connection: &mut Connection) {
        match connection.stage {
            Stage::Handshake => Self::fail(tls, stream, connection, &HandshakeFailure::closed()),
            Stage::Open => {
                tls.figures.truncated.fetch_add(1, Relaxed);
            }
            Stage::New | Stage::Failed | Stage::Ended => {}
        }
        self.end(connection);
    }

    fn send_secured(&mut self, stream: &B::Stream, cell: &RefCell<Box<Connection>>, parts: &[IoSlice<'_>]) -> Sent {
        let connection = &mut **cell.borrow_mut();
        if connection.has_outgoing() && !self.flush_own(stream, connection) {
            return Sent::Reset;
        }
        let mut reported = connection.take_reportable();
        if connection.has_outgoing() {
            return if reported > 0 { Sent::Bytes(reported) } else { Sent::Blocked };
        }
        // A result that is shorter than the parts means that the socket is full, so that it will report when it is not.
        // The records that waited are sent, but the socket may accept more.
        let mut parts = PlainPieces::new(parts);
        parts.skip(reported);
        loop {
            let mut sealed = 0;
            let mut plain = 0;
            while plain < SEALED_AT_ONCE {
                let piece = parts.next(&mut self.plain);
                if piece.is_empty() {
                    break;
                }
                match connection.seal(piece, &mut self.sealed[sealed..]) {
                    Ok(bytes) => (sealed, plain) = (sealed + bytes, plain + piece.len()),
                    Err(_) => return Sent::Reset,
                }
            }
            if plain == 0 {
                break;
            }
            let records = &self.sealed[..sealed];
            let mut sent = 0;
            while sent < sealed {
                match self.inner.send(stream, &[IoSlice::new(&records[sent..])]) {
                    Sent::Bytes(bytes) => sent += bytes,
                    Sent::Blocked => break,
                    Sent::Reset => return Sent::Reset,
                }
            }
            if sent < sealed {
                reported += connection.keep(records, sent, plain);
                if !connection.settle() {
                    return Sent::Reset;
                }
                break;
            }
            reported += plain;
        }
        if reported > 0 { Sent::Bytes(reported) } else { Sent::Blocked }
    }
}

/// The result of one receive of records.
enum ReceiveStep {
    /// The number of opened bytes, and whether nothing more can be received now.
    Opened { bytes: usize, is_empty: bool },
    /// The connection is broken.
    Reset,
}

/// Cuts the owner's parts into pieces of at most one record.
struct PlainPieces<'p> {
    parts: &'p [IoSlice<'p>],
    at: usize,
}

impl<'p> PlainPieces<'p> {
    fn new(parts: &'p [IoSlice<'p>]) -> Self {
        Self { parts, at: 0 }
    }

    /// Returns the next piece; empty at the end. PlainPieces shorter than a record are gathered in `gathered`.
    fn next<'g>(&mut self, gathered: &'g mut Vec<u8>) -> &'g [u8]
    where
        'p: 'g,
    {
        while let Some(part) = self.parts.first() {
            let rest = &part[self.at..];
            if rest.len() >= PLAIN_BYTES_MAX || self.parts.len() == 1 && !rest.is_empty() {
                let bytes = rest.len().min(PLAIN_BYTES_MAX);
                self.advance(bytes);
                return &rest[..bytes];
            }
            if !rest.is_empty() {
                break;
            }
            self.advance(0);
        }
        gathered.clear();
        while let Some(part) = self.parts.first()
            && gathered.len() < PLAIN_BYTES_MAX
        {
            let rest = &part[self.at..];
            let bytes = rest.len().min(PLAIN_BYTES_MAX - gathered.len());
            gathered.extend_from_slice(&rest[..bytes]);
            self.advance(bytes);
        }
        gathered
    }

    /// Skips bytes that were sealed by an earlier call.
    fn skip(&mut self, mut bytes: usize) {
        while bytes > 0
            && let Some(part) = self.parts.first()
        {
            let now = bytes.min(part.len() - self.at);
            self.advance(now);
            bytes -= now;
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        if self.at == self.parts[0].len() {
            (self.parts, self.at) = (&self.parts[1..], 0);
        }
    }
}

impl<B: Backend> Backend for Secure<B> {
    type Stream = SecureStream<B::Stream>;

    fn peer(stream: &Self::Stream) -> Option<SocketAddr> {
        B::peer(&stream.inner)
    }

    fn descriptor(stream: &Self::Stream) -> Option<u32> {
        B::descriptor(&stream.inner)
    }

    fn local(stream: &Self::Stream) -> Option<SocketAddr> {
        B::local(&stream.inner)
    }

    fn is_movable(stream: &Self::Stream) -> bool {
        !stream.is_secured()
    }

    fn proven_users(&self, stream: &Self::Stream) -> Option<Vec<String>> {
        self.proven(stream)
    }

    fn attach(&mut self, stream: &Self::Stream, token: Token) -> std::io::Result<()> {
        self.inner.attach(&stream.inner, token)?;
        if let Some(cell) = &stream.tls {
            cell.borrow_mut().token = token;
            let index = token.index() as usize;
            if index >= self.known.len() {
                self.known.resize(index + 1, Known::default());
            }
            self.known[index] = Known { generation: token.generation(), is_attached: true, ..Known::default() };
        }
        Ok(())
    }

    fn close(&mut self, stream: Self::Stream) {
        if let Some(cell) = &stream.tls {
            let connection = &mut **cell.borrow_mut();
            connection.seal_end();
            // What the socket does not accept now is lost, as with a plain stream.
            let _ = connection.flush(&mut self.inner, &stream.inner);
            self.end(connection);
            if let Some(known) = self.known(connection.token) {
                *known = Known::default();
            }
        }
        self.inner.close(stream.inner);
    }

    fn detach(&mut self, streams: Vec<Self::Stream>) -> Vec<Option<Detached<Self::Stream>>> {
        debug_assert!(streams.iter().all(|stream| !stream.is_secured()), "the state of TLS cannot leave its reactor");
        let inner = streams.into_iter().map(SecureStream::into_inner).collect();
        let plain =
            |Detached { stream, received, unsent }| Detached { stream: SecureStream::plain(stream), received, unsent };
        self.inner.detach(inner).into_iter().map(|detached| detached.map(plain)).collect()
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<IoEvent>) -> std::io::Result<()> {
        if self.known.is_empty() {
            return self.inner.wait(timeout, events);
        }
        let is_busy = !self.postponed.is_empty() || !self.doomed.is_empty();
        self.inner.wait(if is_busy { Some(Duration::ZERO) } else { timeout }, events)?;
        for event in events.iter_mut() {
            if let Some(known) = self.known(event.token) {
                known.is_hung_up |= event.hangup;
                event.readable |= event.writable && known.is_flushing;
            }
        }
        self.steps_left = STEPS_PER_ITERATION;
        self.doom_overdue();
        self.admit_if_idle();
        self.shorten_queues();
        let readable = |token| IoEvent { token, readable: true, writable: false, hangup: false };
        for _ in 0..self.doomed.len().min(DOOMED_PER_ITERATION).min(events.capacity() - events.len()) {
            let Some(token) = self.doomed.pop_front() else { break };
            events.push(readable(token));
        }
        let others = events.len();
        while events.len() < events.capacity().min(others + STEPS_PER_ITERATION) {
            let Some(token) = self.postponed.pop_front() else { break };
            if self.unqueue(token) {
                events.push(readable(token));
            }
        }
        // The streams that were postponed are served first, so that new ones cannot take their steps again and again.
        let postponed = events.len() - others;
        events.rotate_right(postponed);
        Ok(())
    }

    fn receive(&mut self, stream: &Self::Stream, into: &mut [u8]) -> Received {
        match &stream.tls {
            None => self.inner.receive(&stream.inner, into),
            Some(cell) => self.receive_secured(&stream.inner, cell, into),
        }
    }

    fn send(&mut self, stream: &Self::Stream, parts: &[IoSlice<'_>]) -> Sent {
        match &stream.tls {
            None => self.inner.send(&stream.inner, parts),
            Some(cell) => self.send_secured(&stream.inner, cell, parts),
        }
    }

    fn want_writable(&mut self, stream: &Self::Stream, token: Token, want: bool) {
        let mut wants = want;
        if let Some(cell) = &stream.tls {
            cell.borrow_mut().owner_wants_writable = want;
            wants |= self.known(token).is_some_and(|known| known.is_flushing);
        }
        self.inner.want_writable(&stream.inner, token, wants);
    }

    fn shutdown_send(&mut self, stream: &Self::Stream) {
        let Some(cell) = &stream.tls else { return self.inner.shutdown_send(&stream.inner) };
        let connection = &mut **cell.borrow_mut();
        connection.seal_end();
        connection.shuts_after = connection.has_outgoing();
        if connection.shuts_after {
            self.flush_own(&stream.inner, connection);
        } else {
            self.inner.shutdown_send(&stream.inner);
        }
    }

    fn submit(&mut self) {
        self.inner.submit();
    }
}
