//! One connection, and the table of a worker's connections.

use crate::buffers::{BYTES_A_CONNECTION_MAX, Input};
use crate::clock::Ticks;
use crate::command::{Door, SessionState};
use crate::handover::Early;
use crate::out::OutBuffer;
use io::Token;
use segment::Awaited;

/// The list that a session is in. It is in one place at most, so every list is as long as the table at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere: an event will bring it back.
    Idle,
    /// To be served in this iteration or the next.
    Ready,
    /// To be served in the next iteration: the store could not do its request in this one.
    Parked,
    /// Until what it waits for has come from flash, or can be asked for there.
    Coming,
    /// Until a buffer is free.
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
    /// It is read and served.
    Open,
    /// Its output is sent, nothing more is served.
    Finishing,
    /// All is sent and the peer was told; what it still sends is thrown away, so that the kernel does not answer it
    /// with a reset that would overtake our last words.
    Lingering,
    /// Closed; the slot is given back when no list notes it any more.
    Dead,
}

/// Why the last `serve` stopped, where that matters after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Nothing holds it up.
    None,
    /// Its output must go out first.
    Output,
    /// The store needs another iteration.
    Store,
    /// Something is to come from flash.
    Flash(Awaited),
}

/// One connection of a worker.
pub(crate) struct Session<S> {
    pub(crate) token: Token,
    /// `None` once it is dead.
    pub(crate) stream: Option<S>,
    pub(crate) input: Option<Input>,
    /// Bytes that are to be received before those of the stream.
    pub(crate) early: Option<Box<Early>>,
    pub(crate) out: Option<Box<OutBuffer>>,
    /// State of the protocol.
    pub(crate) state: SessionState,
    pub(crate) place: Place,
    pub(crate) phase: Phase,
    /// The kernel may hold bytes for it.
    pub(crate) readable: bool,
    /// Its peer has closed: a short receive does not mean that nothing more is there.
    pub(crate) hangup: bool,
    /// The end of the stream was received.
    pub(crate) ended: bool,
    /// Its output is not all sent; nothing more is served before it is.
    pub(crate) blocked: bool,
    /// Its back end reports when its socket takes more.
    pub(crate) armed: bool,
    /// It has output that its socket may take now.
    pub(crate) sending: bool,
    /// It has used its share of the last visit, and goes on behind those that have new requests.
    pub(crate) paused: bool,
    /// It has mail, and was blocked or in the middle of a reply when that was found out.
    pub(crate) mail: bool,
    /// True if the received bytes may hold a whole request.
    pub(crate) servable: bool,
    /// Why it was not served further.
    pub(crate) pause: Pause,
    /// Bytes of input that the next step needs.
    pub(crate) input_want: usize,
    /// Room that the next reply needs.
    pub(crate) out_want: usize,
    /// Bytes that were thrown away since it was finished.
    pub(crate) discarded: usize,
    /// Since when it waits for a buffer, in ns of the worker's life.
    pub(crate) waits_ns: u64,
    /// Time at which its bytes were known to be there.
    pub(crate) ready_at: Ticks,
    /// Time at which it last received, in ns of the worker's life.
    pub(crate) received_ns: u64,
    /// Since when its input waits to become a whole request, in ns of the worker's life.
    pub(crate) held_ns: u64,
    /// Time at which its output last moved, in ns of the worker's life.
    pub(crate) moved_ns: u64,
}

impl<S> Session<S> {
    fn new(token: Token, stream: S, door: Door, now_ns: u64) -> Self {
        Self {
            token,
            stream: Some(stream),
            input: None,
            early: None,
            out: None,
            state: SessionState::new(door),
            place: Place::Idle,
            phase: Phase::Open,
            readable: false,
            hangup: false,
            ended: false,
            blocked: false,
            armed: false,
            sending: false,
            paused: false,
            mail: false,
            servable: false,
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

    /// Returns whether there is anything to do for it now.
    pub(crate) fn has_work(&self) -> bool {
        match self.phase {
            Phase::Open => self.sending || !self.blocked && (self.readable || self.servable),
            Phase::Finishing => self.sending,
            Phase::Dead => false,
            Phase::Lingering => self.readable,
        }
    }

    /// Returns whether it comes behind new requests: its request takes many visits, or its output many sends.
    pub(crate) fn is_long(&self) -> bool {
        self.sending || self.paused || self.state.is_long()
    }

    /// Nothing received is left, nothing is unsent and no request is half done.
    pub(crate) fn at_rest(&self) -> bool {
        let idle = self.input.is_none() && self.out.is_none() && self.input_want == 0 && !self.readable;
        idle && !self.state.is_receiving()
    }
}

/// A worker's connections: room for all of them made at start and touched when it is first used, each slot with a
/// generation that makes late events harmless.
pub(crate) struct Table<S> {
    /// As many as were ever in use at once.
    slots: Vec<Option<Session<S>>>,
    generations: Vec<u32>,
    free: Vec<u32>,
    sessions_max: usize,
}

/// Its slot here, its places in the worker's lists, and its entry in the connection table.
const _: () = assert!(size_of::<Option<Session<io::listen::Stream>>>() + 100 <= BYTES_A_CONNECTION_MAX);

impl<S> Table<S> {
    /// Room for `sessions_max` connections.
    pub(crate) fn new(sessions_max: usize) -> Self {
        assert!(sessions_max > 0 && sessions_max < u32::MAX as usize, "sessions_max {sessions_max}");
        Self {
            slots: Vec::with_capacity(sessions_max),
            generations: vec![0; sessions_max],
            free: (0..sessions_max as u32).rev().collect(),
            sessions_max,
        }
    }

    /// Slots in use.
    pub(crate) fn len(&self) -> usize {
        self.sessions_max - self.free.len()
    }

    /// All slots from here on have never been used.
    pub(crate) fn used_high(&self) -> usize {
        self.slots.len()
    }

    /// The token that the next session gets, or `None` if the table is full.
    pub(crate) fn next_token(&self) -> Option<Token> {
        let index = *self.free.last()?;
        Some(Token::new(index, self.generations[index as usize]))
    }

    /// Takes the slot that [`Table::next_token`] named.
    pub(crate) fn insert(&mut self, stream: S, door: Door, now_ns: u64) -> u32 {
        let token = self.next_token().expect("the caller asked for a token");
        self.free.pop();
        let index = token.index();
        if index as usize == self.slots.len() {
            // Slots come off in order until they come back.
            self.slots.push(None);
        }
        self.slots[index as usize] = Some(Session::new(token, stream, door, now_ns));
        index
    }

    /// Gives a dead session's slot back, and its protocol state to the caller.
    pub(crate) fn remove(&mut self, index: u32) -> SessionState {
        let session = self.slots[index as usize].take().expect("a slot in use");
        debug_assert!(session.phase == Phase::Dead && session.input.is_none() && session.out.is_none());
        self.generations[index as usize] = self.generations[index as usize].wrapping_add(1);
        self.free.push(index);
        session.state
    }

    /// The session that an event means, if it still lives.
    pub(crate) fn find(&mut self, token: Token) -> Option<&mut Session<S>> {
        let session = self.slots.get_mut(token.index() as usize)?.as_mut()?;
        (session.token == token && session.phase != Phase::Dead).then_some(session)
    }

    /// The session in a slot in use.
    pub(crate) fn at(&mut self, index: u32) -> &mut Session<S> {
        self.slots[index as usize].as_mut().expect("a slot in use")
    }

    /// The session in a slot, if one is there, to be changed.
    pub(crate) fn peek_mut(&mut self, index: u32) -> Option<&mut Session<S>> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// The session in a slot, if one is there.
    pub(crate) fn peek(&self, index: usize) -> Option<&Session<S>> {
        self.slots[index].as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Protocol;

    #[test]
    fn an_event_for_an_earlier_life_of_a_slot_finds_no_one() {
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
