//! Sends the requests of one share and reads their replies.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError};

use super::answer::{self, ReplayAnswer};
use super::feed::Chunk;
use super::request::{self, RequestDraft};
use super::{Feed, Script};
use crate::format::{TraceEntry, Verb, put_key};
use load::traffic::{Pending, ReplyProgress, Traffic};
use load::workload::model::Protocol;
use load::workload::place::Ring;
use load::workload::source::progress;

/// The maximum number of waiting fills; further fills are not sent.
pub const FILLS_MAX: usize = 65_536;
/// The distance between the first versions of two threads' stores, so that no two stores of a run have the same
/// version.
const THREAD_VERSIONS: u64 = 1 << 40;
/// The number of stored tokens, by the keys' hashes.
const TOKENS: usize = 1 << 14;

/// The index of the name `fill`, which follows the names of the verbs.
pub(super) const FILL: usize = Verb::ALL.len();
pub(super) const AUTH: usize = FILL + 1;

/// The requests of one thread of a replay.
#[derive(Debug)]
pub struct Playback {
    script: Script,
    names: Vec<String>,
    share: Option<Receiver<Chunk>>,
    /// True if instants determine when a request is due; otherwise the thread waits for the next entry or the end.
    paced: bool,
    ahead: RefCell<Ahead>,
    is_over: Cell<bool>,
    ring: Ring,
    /// Requests of each connection without a reply, oldest first, with one entry per key.
    asked: Vec<VecDeque<TraceEntry>>,
    fills: VecDeque<TraceEntry>,
    tokens: Tokens,
    version: u64,
    key: Vec<u8>,
    word: Vec<u8>,
}

/// Entries that were read from the share and not sent yet.
#[derive(Debug, Default)]
struct Ahead {
    chunk: Chunk,
    at: usize,
}

/// Tokens of `gets` for a later `cas`; only those of the most recently read keys.
#[derive(Debug)]
pub(super) struct Tokens(Box<[(u64, u64)]>);

impl Tokens {
    fn new() -> Self {
        Self(vec![(0, 0); TOKENS].into())
    }

    fn token(&self, key: u64) -> u64 {
        let (known, token) = self.0[key as usize % TOKENS];
        if known == key { token } else { 0 }
    }

    pub(super) fn keep(&mut self, key: u64, token: u64) {
        self.0[key as usize % TOKENS] = (key, token);
    }
}

impl Playback {
    /// Creates the requests of share `thread` of `feed`.
    pub fn new(script: &Script, feed: &Feed, thread: usize) -> Self {
        let verbs = Verb::ALL.iter().map(|(name, _)| *name);
        Self {
            names: verbs.chain(["fill", "auth"]).map(str::to_owned).collect(),
            share: feed.entries(thread),
            paced: feed.is_paced(),
            ahead: RefCell::default(),
            is_over: Cell::new(false),
            ring: Ring::new(script.placement, &script.targets),
            asked: Vec::new(),
            fills: VecDeque::new(),
            tokens: Tokens::new(),
            version: thread as u64 * THREAD_VERSIONS,
            key: Vec::new(),
            word: Vec::new(),
            script: script.clone(),
        }
    }

    #[cfg(test)]
    pub(super) const fn protocol(&self) -> Protocol {
        self.script.protocol
    }

    /// Makes the next entry available and waits for it if `wait` is true. Returns false if there is none now, or no
    /// more at all.
    fn look(&self, wait: bool) -> bool {
        let Some(share) = &self.share else {
            self.is_over.set(true);
            return false;
        };
        let mut ahead = self.ahead.borrow_mut();
        while ahead.at >= ahead.chunk.len() {
            let next = match share.try_recv() {
                Ok(chunk) => Some(chunk),
                Err(TryRecvError::Empty) if wait => share.recv().ok(),
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => None,
            };
            let Some(chunk) = next else {
                self.is_over.set(true);
                return false;
            };
            *ahead = Ahead { chunk, at: 0 };
        }
        true
    }

    /// Returns the next entry; `None` at the end.
    fn peek(&self) -> Option<TraceEntry> {
        if !self.look(true) {
            return None;
        }
        let ahead = self.ahead.borrow();
        Some(ahead.chunk[ahead.at])
    }

    /// Moves the next request to the requests in flight of `connection`. Returns its number of keys.
    fn take(&mut self, connection: usize) -> usize {
        let asked = &mut self.asked[connection];
        if let Some(fill) = self.fills.pop_front() {
            asked.push_back(fill);
            return 1;
        }
        let ahead = self.ahead.get_mut();
        let rest = &ahead.chunk[ahead.at..];
        let count = 1 + rest[1..].iter().take_while(|entry| entry.joined).count();
        asked.extend(&rest[..count]);
        ahead.at += count;
        count
    }

    fn room_for(&mut self, connection: usize) {
        if self.asked.len() <= connection {
            self.asked.resize_with(connection + 1, VecDeque::new);
        }
    }

    /// Writes the request whose keys are the last `count` entries in flight on `connection`.
    fn put(&mut self, connection: usize, count: usize, out: &mut Vec<u8>) -> u64 {
        let asked = &self.asked[connection];
        let first = asked.len() - count;
        let entry = asked[first];
        if count > 1 {
            let mut text = |at: usize, out: &mut Vec<u8>| {
                let entry = asked[first + at];
                put_key(entry.key, entry.key_bytes, out);
            };
            request::put_many(&self.script, entry.verb, count, &mut text, out);
            return 0;
        }
        if entry.verb.alters() {
            self.script.altered.add(entry.key);
        }
        self.key.clear();
        put_key(entry.key, entry.key_bytes, &mut self.key);
        let (version, token) = (self.version, self.tokens.token(entry.key));
        let mut draft =
            RequestDraft { script: &self.script, entry: &entry, key: &self.key, version, token, word: &mut self.word };
        let bytes = draft.put(out);
        self.version += u64::from(bytes > 0);
        bytes
    }
}

impl Traffic for Playback {
    fn verbs(&self) -> &[String] {
        &self.names
    }

    fn target(&mut self) -> usize {
        let next = self.fills.front().copied().or_else(|| self.peek());
        let Some(entry) = next else { return 0 };
        self.key.clear();
        put_key(entry.key, entry.key_bytes, &mut self.key);
        self.ring.target(&self.key)
    }

    fn has_follow_up(&self) -> bool {
        !self.fills.is_empty()
    }

    fn is_exhausted(&self) -> bool {
        if !self.is_over.get() {
            self.look(!self.paced);
        }
        self.is_over.get()
    }

    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> Pending {
        self.room_for(connection);
        let is_fill = self.has_follow_up();
        assert!(is_fill || self.look(true), "the caller has checked that the trace is not at its end");
        let count = self.take(connection);
        let asked = &self.asked[connection];
        let route = if is_fill { FILL } else { asked[asked.len() - count].verb as usize };
        let value_bytes = self.put(connection, count, out);
        Pending {
            verb: route as u8,
            state: progress::begin(route),
            key: connection as u64,
            value_bytes,
            ..Pending::default()
        }
    }

    fn answer(&mut self, pending: &mut Pending, bytes: &[u8]) -> (usize, ReplyProgress) {
        let state = progress::AnswerState::of(pending);
        if state.route == AUTH {
            return answer::greeting(self.script.protocol, pending, state, bytes);
        }
        let connection = pending.key as usize;
        let asked = &self.asked[connection];
        let keys = 1 + asked.iter().skip(1).take_while(|entry| entry.joined).count();
        let reading = ReplayAnswer {
            script: &self.script,
            asked,
            keys,
            fills: &mut self.fills,
            tokens: &mut self.tokens,
            key: &mut self.key,
            state,
            pending,
        };
        let (used, progress) = reading.answer(bytes);
        if matches!(progress, ReplyProgress::Done { .. }) {
            self.asked[connection].drain(..keys);
        }
        (used, progress)
    }

    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) -> Vec<Pending> {
        self.room_for(connection);
        // Requests of the previous connection will get no replies.
        self.asked[connection].clear();
        let Some(auth) = &self.script.auth else { return Vec::new() };
        match self.script.protocol {
            Protocol::Resp if auth.user.is_empty() => {
                protocol::resp::client::command(out, [b"AUTH".as_slice(), auth.password.as_bytes()]);
            }
            Protocol::Resp => {
                let words = [b"AUTH".as_slice(), auth.user.as_bytes(), auth.password.as_bytes()];
                protocol::resp::client::command(out, words);
            }
            _ => protocol::memcache::client::authenticate(out, auth.user.as_bytes(), auth.password.as_bytes()),
        }
        vec![Pending { verb: AUTH as u8, state: progress::begin(AUTH), ..Pending::default() }]
    }
}

/// Stores the keys that a trace reads, before its replay: each key whose read found a value, or whose value's length is
/// given in a trace without outcomes. A key that occurs again soon is not stored again.
#[derive(Debug)]
pub struct Prefill {
    playback: Playback,
    /// The last stored key of each position (hash modulo `STORED`); initially a hash of another position, which
    /// matches no key.
    stored: Box<[u64]>,
}

/// The number of keys that are remembered as stored.
const STORED: usize = 1 << 20;

impl Prefill {
    /// Creates the prefill of share `thread` of `feed`.
    pub fn new(script: &Script, feed: &Feed, thread: usize) -> Self {
        Self { playback: Playback::new(script, feed, thread), stored: (1..=STORED as u64).collect() }
    }

    /// Skips entries that need no store. Returns false if no entry is available.
    fn seek(&self) -> bool {
        while self.playback.look(false) {
            let mut ahead = self.playback.ahead.borrow_mut();
            let entry = ahead.chunk[ahead.at];
            let is_known = entry.value_bytes > 0 || entry.outcome == crate::format::RequestOutcome::Hit;
            let is_wanted = entry.verb.reads() && is_known && entry.outcome != crate::format::RequestOutcome::Miss;
            if is_wanted && self.stored[entry.key as usize % STORED] != entry.key {
                return true;
            }
            ahead.at += 1;
        }
        false
    }
}

impl Traffic for Prefill {
    fn verbs(&self) -> &[String] {
        self.playback.verbs()
    }

    fn target(&mut self) -> usize {
        self.playback.target()
    }

    fn is_exhausted(&self) -> bool {
        // A closed loop calls this before each request, so this waits: returning early would look like an available
        // request.
        while !self.seek() {
            if self.playback.is_over.get() || !self.playback.look(true) {
                return true;
            }
        }
        false
    }

    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> Pending {
        let entry = {
            let ahead = self.playback.ahead.get_mut();
            ahead.at += 1;
            ahead.chunk[ahead.at - 1]
        };
        self.stored[entry.key as usize % STORED] = entry.key;
        let verb = if matches!(entry.verb, Verb::HashGet | Verb::HashGetAll) { Verb::HashSet } else { Verb::Set };
        self.playback.fills.push_back(TraceEntry { verb, joined: false, ..entry });
        self.playback.next(connection, out)
    }

    fn answer(&mut self, pending: &mut Pending, bytes: &[u8]) -> (usize, ReplyProgress) {
        self.playback.answer(pending, bytes)
    }

    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) -> Vec<Pending> {
        self.playback.greet(connection, out)
    }
}
