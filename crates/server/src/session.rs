//! The state of one connection, and the table of a worker's connections.

use crate::buffers::{BYTES_A_CONNECTION_MAX, Input};
use crate::handover::EarlyInput;
use command::clients::endpoint::Endpoint;
use command::clients::source::SourceEntry;
use command::push::watch::CloseReason;
use command::session::{SessionState, takes_turns};
use command::visit::clock::Ticks;
use command::visit::out::OutBuffer;
use io::Token;
use segment::Awaited;

/// The list that contains a session. A session is in at most one list, so no list is longer than the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionPlace {
    /// No list: an event will resume the session.
    Idle,
    /// Waiting to be served in this iteration or the next.
    Ready,
    /// Waiting for the next iteration, because the store could not execute its request in the current iteration.
    Parked,
    /// Waiting until a read from flash has completed, or until a read can be started.
    AwaitsFlash,
    /// Waiting for a buffer.
    Waiting,
    /// In the batch that is being served.
    Batch,
}

/// The phase of a session's life.
///
/// ```text
///   Open ──> Finishing ──> Lingering ──> Dead        Open, Finishing -> Dead too; never back
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Requests are received and served.
    Open,
    /// The remaining output is sent, and no further request is served.
    Finishing,
    /// All output is sent and the sending side is shut down. Later input is discarded, because otherwise the kernel
    /// would reply to it with a reset that could overtake the last reply.
    Lingering,
    /// Closed. The slot is released once no list holds the session.
    Dead,
}

const NS_A_SECOND: u64 = 1_000_000_000;

/// The reason why the last visit to a session ended, if the reason affects the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The session need not wait.
    None,
    /// The session's output must be sent first.
    Output,
    /// The store can execute the request only in a later iteration.
    Store,
    /// A value must be read from flash.
    Flash(Awaited),
    /// Another client must fill a key, or serve those that wait for it. The session rests ([`Session::blocked`]).
    Clients,
}

/// One connection of a worker.
pub(crate) struct Session<S> {
    pub(crate) token: Token,
    /// The socket; `None` once the session is dead.
    pub(crate) stream: Option<S>,
    pub(crate) input: Option<Input>,
    /// Bytes that were received before the connection moved to this worker. They precede the bytes of the stream.
    pub(crate) early: Option<Box<EarlyInput>>,
    pub(crate) out: Option<Box<OutBuffer>>,
    /// The state of the protocol.
    pub(crate) state: SessionState,
    pub(crate) place: SessionPlace,
    pub(crate) phase: Phase,
    /// True if the kernel may hold received bytes for the session.
    pub(crate) readable: bool,
    /// True if the peer has closed its end. In that case a short receive does not mean that nothing more can be
    /// received.
    pub(crate) hangup: bool,
    /// True if the end of the stream was received.
    pub(crate) ended: bool,
    /// True if a part of the output is unsent, or if the session rests because it waits for other clients. The session
    /// is not served until all output is sent, or until it is woken ([`Session::takes_turn`]).
    pub(crate) blocked: bool,
    /// True if the reactor will report when the socket accepts more bytes.
    pub(crate) armed: bool,
    /// True if the session has output that the socket may accept now.
    pub(crate) sending: bool,
    /// True if the last visit ended because the session had used its share. It then continues after the sessions with
    /// new requests.
    pub(crate) paused: bool,
    /// True if the session has queued push messages that could not be sent because it was blocked or in the middle of a
    /// reply.
    pub(crate) mail: bool,
    /// True if the client may have proved a user by its certificate, which is checked when it sends its first bytes.
    pub(crate) is_unidentified: bool,
    /// True if the received bytes may contain a complete request.
    pub(crate) servable: bool,
    /// The connection as counted for its source. Ends with the session.
    pub(crate) entry: Option<Box<SourceEntry>>,
    /// The instant at which the connection began, in seconds since the worker started.
    pub(crate) opened_secs: u32,
    /// The reason for the end of the connection, once it has ended.
    pub(crate) close_reason: CloseReason,
    /// The reason why the last visit ended.
    pub(crate) pause: Pause,
    /// The number of input bytes that the next step needs.
    pub(crate) input_want: u32,
    /// The room that the next reply needs, in bytes.
    pub(crate) out_want: u32,
    /// The number of bytes that were discarded since the session finished.
    pub(crate) discarded: u32,
    /// The instant since which the session waits for a buffer, in ns since the worker started.
    pub(crate) waits_ns: u64,
    /// The instant at which the worker learned that bytes were available to receive, in ticks.
    pub(crate) ready_at: Ticks,
    /// The instant at which the session last received bytes, in ns since the worker started.
    pub(crate) received_ns: u64,
    /// The instant since which the input has been an incomplete request, in ns since the worker started.
    pub(crate) held_ns: u64,
    /// The instant at which bytes of the output were last sent, in ns since the worker started.
    pub(crate) moved_ns: u64,
}

impl<S> Session<S> {
    fn new(token: Token, stream: S, endpoint: Endpoint, now_ns: u64) -> Self {
        Self {
            token,
            stream: Some(stream),
            input: None,
            early: None,
            out: None,
            state: SessionState::new(endpoint),
            place: SessionPlace::Idle,
            phase: Phase::Open,
            readable: false,
            hangup: false,
            ended: false,
            blocked: false,
            armed: false,
            sending: false,
            paused: false,
            mail: false,
            is_unidentified: endpoint.is_tls,
            servable: false,
            entry: None,
            opened_secs: (now_ns / NS_A_SECOND) as u32,
            close_reason: CloseReason::default(),
            pause: Pause::None,
            input_want: 0,
            out_want: 0,
            discarded: 0,
            waits_ns: now_ns,
            ready_at: Ticks::default(),
            received_ns: now_ns,
            held_ns: now_ns,
            moved_ns: now_ns,
        }
    }

    /// Returns the time since the connection began, in ns, or up to a second less.
    pub(crate) fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub((u64::from(self.opened_secs) + 1) * NS_A_SECOND)
    }

    /// Returns true if the session has work to do now.
    pub(crate) fn has_work(&self) -> bool {
        match self.phase {
            Phase::Open if self.blocked => self.sending || self.takes_turn(),
            Phase::Open => self.sending || self.readable || self.servable,
            Phase::Finishing => self.sending,
            Phase::Dead => false,
            Phase::Lingering => self.readable,
        }
    }

    /// Returns true if the session is served although a part of its output is unsent: it waits in a blocking command
    /// and was woken, and other clients wait until it has had its turn.
    pub(crate) fn takes_turn(&self) -> bool {
        self.servable && self.phase == Phase::Open && takes_turns(&self.state)
    }

    /// Returns true if the session rests until another client wakes it, or its deadline is due.
    pub(crate) fn rests(&self) -> bool {
        self.blocked && self.out.is_none() && self.pause == Pause::Clients
    }

    /// Returns true if the session is served after new requests, because its request takes many visits, or its output
    /// many sends.
    pub(crate) fn is_long(&self) -> bool {
        self.sending || self.paused || self.state.is_long()
    }

    /// Returns true if no received or unsent bytes are left and no request is partly executed.
    pub(crate) fn is_idle(&self) -> bool {
        let idle = self.input.is_none() && self.out.is_none() && self.input_want == 0 && !self.readable;
        idle && !self.state.is_receiving()
    }
}

/// A worker's connections. The memory for all slots is reserved at start and first touched when a slot is first used.
/// Each slot has a generation, so that late events for an earlier session are ignored.
pub(crate) struct Table<S> {
    /// The slots. Their number is the maximum number of sessions that existed at the same time.
    slots: Vec<Option<Session<S>>>,
    generations: Vec<u32>,
    free: Vec<u32>,
    sessions_max: usize,
}

/// A session's slot, its entries in the worker's lists and its entry in the connection table fit into
/// [`BYTES_A_CONNECTION_MAX`].
const _: () = assert!(size_of::<Option<Session<io::listen::AcceptedStream>>>() + 100 <= BYTES_A_CONNECTION_MAX);

impl<S> Table<S> {
    /// Creates a table for `sessions_max` connections.
    pub(crate) fn new(sessions_max: usize) -> Self {
        assert!(sessions_max > 0 && sessions_max < u32::MAX as usize, "sessions_max {sessions_max}");
        Self {
            slots: Vec::with_capacity(sessions_max),
            generations: vec![0; sessions_max],
            free: (0..sessions_max as u32).rev().collect(),
            sessions_max,
        }
    }

    /// Returns the number of slots in use.
    pub(crate) fn len(&self) -> usize {
        self.sessions_max - self.free.len()
    }

    /// Returns the first slot number that has never been used.
    pub(crate) fn used_high(&self) -> usize {
        self.slots.len()
    }

    /// Returns the token of the next session, or `None` if the table is full.
    pub(crate) fn next_token(&self) -> Option<Token> {
        let index = *self.free.last()?;
        Some(Token::new(index, self.generations[index as usize]))
    }

    /// Adds a session in the slot that [`Table::next_token`] returned. Returns the slot number.
    pub(crate) fn insert(&mut self, stream: S, endpoint: Endpoint, now_ns: u64) -> u32 {
        let token = self.next_token().expect("the caller asked for a token");
        self.free.pop();
        let index = token.index();
        if index as usize == self.slots.len() {
            // New slots are added in order, until freed ones can be reused.
            self.slots.push(None);
        }
        self.slots[index as usize] = Some(Session::new(token, stream, endpoint, now_ns));
        index
    }

    /// Frees a dead session's slot. Returns its protocol state.
    pub(crate) fn remove(&mut self, index: u32) -> SessionState {
        let session = self.slots[index as usize].take().expect("a slot in use");
        debug_assert!(session.phase == Phase::Dead && session.input.is_none() && session.out.is_none());
        self.generations[index as usize] = self.generations[index as usize].wrapping_add(1);
        self.free.push(index);
        session.state
    }

    /// Returns the session with the token of an event, if the session is still alive.
    pub(crate) fn find(&mut self, token: Token) -> Option<&mut Session<S>> {
        let session = self.slots.get_mut(token.index() as usize)?.as_mut()?;
        (session.token == token && session.phase != Phase::Dead).then_some(session)
    }

    /// Returns the session in a used slot.
    pub(crate) fn at(&mut self, index: u32) -> &mut Session<S> {
        self.slots[index as usize].as_mut().expect("a slot in use")
    }

    /// Returns a mutable reference to the session in a slot, if there is one.
    pub(crate) fn peek_mut(&mut self, index: u32) -> Option<&mut Session<S>> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// Returns the session in a slot, if there is one.
    pub(crate) fn peek(&self, index: usize) -> Option<&Session<S>> {
        self.slots[index].as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::clients::endpoint::Protocol;

    #[test]
    fn event_for_an_earlier_generation_of_a_slot_finds_no_session() {
        let mut table: Table<()> = Table::new(2);
        let first = table.next_token().unwrap();
        let index = table.insert((), Protocol::Memcache.into(), 0);
        assert!(table.find(first).is_some());
        table.at(index).phase = Phase::Dead;
        assert!(table.find(first).is_none(), "a dead session is not found");
        table.remove(index);
        let second = table.next_token().unwrap();
        assert_eq!((second.index(), second.generation()), (first.index(), first.generation() + 1));
        table.insert((), Protocol::Memcache.into(), 0);
        assert!(table.find(first).is_none() && table.find(second).is_some());
    }

    #[test]
    fn a_full_table_gives_no_token() {
        let mut table: Table<()> = Table::new(1);
        table.insert((), Protocol::Memcache.into(), 0);
        assert_eq!((table.next_token(), table.len(), table.used_high()), (None, 1, 1));
    }
}
