//! Follows memcached's text and meta commands.

use std::collections::VecDeque;

use protocol::memcache::client::{self, Expect, MetaCode, ParsedReply, Reply, ReplyPosition};
use protocol::memcache::meta::{Meta, MetaStoreMode};
use protocol::memcache::request::{Store, StoreMode};
use protocol::memcache::{KeyScratch, Parsed, Request, parse};
use xxhash_rust::xxh3::xxh3_64;

use super::{Ledger, Pen, Seen};
use crate::format::{RequestOutcome, TraceEntry, Verb};

/// The maximum number of requests of a connection that wait for their replies. If more requests wait, the replies of
/// the connection are no longer followed.
const WAITING_MAX: usize = 1 << 16;
const CRLF: &[u8; 2] = b"\r\n";

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Memcache {
    requests: OneWay,
    answers: OneWay,
    waiting: VecDeque<PendingRequest>,
}

/// The state of one direction of a connection.
#[derive(Debug, Default)]
struct OneWay {
    is_lost: bool,
    /// The beginning of an incomplete line.
    kept: Vec<u8>,
    /// The number of remaining bytes of a value, including its line end.
    rest: u64,
    /// True if the value's line end is checked.
    ends: bool,
}

/// A request that waits for its reply.
#[derive(Debug)]
struct PendingRequest {
    /// The number of the request's first entry in the ledger.
    number: u64,
    /// The number of the request's entries; 0 if the request has no entries.
    keys: u32,
    /// The number of keys with a reply.
    answered: u32,
    expect: Expect,
    /// For a quiet request (`q`), its outcome if the server sends no reply.
    quiet: Option<RequestOutcome>,
    /// True if the request is `mn`.
    is_noop: bool,
    /// The hash of the key and the opaque of a quiet request, by which the reply is recognised; 0 if the request is not
    /// quiet.
    key: u64,
    opaque: u64,
}

impl PendingRequest {
    const fn new(number: u64, keys: u32, expect: Expect) -> Self {
        Self { number, keys, answered: 0, expect, quiet: None, is_noop: false, key: 0, opaque: 0 }
    }
}

impl OneWay {
    /// Skips the rest of a value at the front of `bytes`. Returns the number of skipped bytes; `None` if the value's
    /// line end is wrong.
    fn skip(&mut self, bytes: &[u8]) -> Option<usize> {
        let passed = self.rest.min(bytes.len() as u64) as usize;
        if self.ends {
            for (at, byte) in bytes[..passed].iter().enumerate() {
                let left = self.rest - at as u64;
                if left <= 2 && *byte != CRLF[(2 - left) as usize] {
                    return None;
                }
            }
        }
        self.rest -= passed as u64;
        Some(passed)
    }

    /// Passes the bytes to `take` line by line, after the stored beginning of a line. `take` returns the number of
    /// bytes that it used, or `None` if it cannot continue. Returns false if the stream cannot be followed any further.
    fn feed(&mut self, bytes: &[u8], mut take: impl FnMut(&mut Self, &[u8]) -> Option<usize>) -> bool {
        if self.is_lost {
            return true;
        }
        let mut kept = std::mem::take(&mut self.kept);
        let had_kept = !kept.is_empty();
        if had_kept {
            kept.extend_from_slice(bytes);
        }
        let shown = if had_kept { &kept[..] } else { bytes };
        let mut at = 0;
        while at < shown.len() {
            let used = if self.rest > 0 { self.skip(&shown[at..]) } else { take(self, &shown[at..]) };
            match used {
                None => {
                    self.is_lost = true;
                    return false;
                }
                Some(0) => break,
                Some(used) => at += used,
            }
        }
        if had_kept {
            kept.drain(..at);
        } else {
            kept.extend_from_slice(&bytes[at..]);
        }
        self.kept = kept;
        true
    }
}

impl Memcache {
    /// Reads bytes that the client sent. Returns false if the stream cannot be followed any further.
    pub fn asked(&mut self, bytes: &[u8], pen: &Pen, ledger: &mut Ledger, seen: &mut Seen) -> bool {
        let (waiting, follows) = (&mut self.waiting, !self.answers.is_lost);
        let mut noting = Noting { pen, ledger, seen, waiting, follows, overheard: false };
        let followed = self.requests.feed(bytes, |stream, line| noting.line(stream, line));
        let overheard = noting.overheard;
        if overheard || self.waiting.len() > WAITING_MAX {
            self.give_up_answers(ledger);
            return followed && overheard;
        }
        followed
    }

    /// Reads bytes that the server sent. Returns false if the stream cannot be followed any further.
    pub fn answered(&mut self, bytes: &[u8], pen: &Pen, ledger: &mut Ledger) -> bool {
        let waiting = &mut self.waiting;
        let followed = self.answers.feed(bytes, |stream, line| {
            let (reply, consumed) = match client::reply(line) {
                ParsedReply::Incomplete => return Some(0),
                ParsedReply::Garbage(_) => return None,
                ParsedReply::Reply { reply, consumed } => (reply, consumed),
            };
            if let Reply::Value(client::ValueHeader { len, .. }) | Reply::MetaValue { len, .. } = reply {
                stream.rest = u64::from(len) + 2;
            }
            matched(waiting, &reply, pen, ledger).then_some(consumed)
        });
        if !followed {
            self.give_up_answers(ledger);
        }
        followed
    }

    /// Stops following replies: the outcomes of waiting and later requests are unknown.
    pub fn give_up_answers(&mut self, ledger: &mut Ledger) {
        self.answers.is_lost = true;
        for ask in self.waiting.drain(..) {
            settle(&ask, 0, ask.keys, RequestOutcome::Unknown, ledger);
        }
    }
}

/// A request's line with the state needed to add it to the ledger.
struct Noting<'n> {
    pen: &'n Pen,
    ledger: &'n mut Ledger,
    seen: &'n mut Seen,
    waiting: &'n mut VecDeque<PendingRequest>,
    /// True if replies are followed.
    follows: bool,
    /// Set to true if the server sends unrequested data after this request.
    overheard: bool,
}

impl Noting<'_> {
    fn line(&mut self, stream: &mut OneWay, line: &[u8]) -> Option<usize> {
        match parse(line) {
            Parsed::Incomplete => Some(0),
            Parsed::Fatal(_) => None,
            Parsed::Bad { consumed, swallow, quiet, .. } => {
                // An unknown word may be a command of a newer server; its reply is one line.
                self.other(if quiet { None } else { Some(Expect::Ok) });
                (stream.rest, stream.ends) = (swallow, false);
                Some(consumed)
            }
            Parsed::Request { request, consumed } => {
                let value_len = match &request {
                    Request::Store(store) => Some(store.value_len),
                    Request::MetaStore(_, len) => Some(*len),
                    _ => None,
                };
                self.request(&request);
                if let Some(len) = value_len {
                    (stream.rest, stream.ends) = (u64::from(len) + 2, true);
                }
                Some(consumed)
            }
        }
    }

    /// Counts a request without an entry.
    fn other(&mut self, expect: Option<Expect>) {
        self.seen.other_requests += 1;
        if let (Some(expect), true) = (expect, self.follows) {
            self.waiting.push_back(PendingRequest::new(0, 0, expect));
        }
    }

    fn entry(&self, verb: Verb, key: &[u8]) -> TraceEntry {
        let Pen { secret, at_us, connection, .. } = self.pen;
        let (key, key_bytes) = (secret.hash(key), key.len() as u32);
        TraceEntry { at_us: *at_us, key, key_bytes, connection: *connection, verb, ..TraceEntry::default() }
    }

    fn one(&mut self, entry: TraceEntry, expect: Option<Expect>) {
        let expect = expect.filter(|_| self.follows);
        let number = self.ledger.add(entry, expect.is_some());
        if let Some(expect) = expect {
            self.waiting.push_back(PendingRequest::new(number, 1, expect));
        }
    }

    fn request(&mut self, request: &Request<'_>) {
        let expected = |noreply: bool, expect| (!noreply).then_some(expect);
        match request {
            Request::Get(get) => {
                let ttl_s = get.touch.map_or(0, |exptime| self.pen.ttl_s(exptime));
                let verb = match (get.touch, get.with_cas) {
                    (Some(_), _) => Verb::Gat,
                    (None, true) => Verb::Gets,
                    (None, false) => Verb::Get,
                };
                let mut ask = PendingRequest::new(0, 0, Expect::Values);
                for key in get.keys {
                    let entry = TraceEntry { ttl_s, joined: ask.keys > 0, ..self.entry(verb, key) };
                    let number = self.ledger.add(entry, self.follows);
                    ask.number = if ask.keys == 0 { number } else { ask.number };
                    ask.keys += 1;
                }
                if self.follows {
                    self.waiting.push_back(ask);
                }
            }
            Request::Store(store) => {
                let entry = TraceEntry {
                    value_bytes: store.value_len,
                    ttl_s: self.pen.ttl_s(store.exptime),
                    ..self.entry(stored(store), store.key)
                };
                self.one(entry, expected(store.noreply, Expect::Store));
            }
            Request::Delete { key, noreply } => {
                self.one(self.entry(Verb::Delete, key), expected(*noreply, Expect::Delete));
            }
            Request::Arith(arith) => {
                let verb = if arith.decrement { Verb::Decr } else { Verb::Incr };
                self.one(self.entry(verb, arith.key), expected(arith.noreply, Expect::Arith));
            }
            Request::Touch { key, exptime, noreply } => {
                let entry = TraceEntry { ttl_s: self.pen.ttl_s(*exptime), ..self.entry(Verb::Touch, key) };
                self.one(entry, expected(*noreply, Expect::Touch));
            }
            Request::MetaGet(meta) => self.meta(read(meta), meta, 0, RequestOutcome::Miss),
            Request::MetaStore(meta, len) => self.meta(meta_stored(meta), meta, *len, RequestOutcome::Hit),
            Request::MetaDelete(meta) => self.meta(Verb::Delete, meta, 0, RequestOutcome::Unknown),
            Request::MetaArith(meta) => {
                let verb = if meta.is_decrement() { Verb::Decr } else { Verb::Incr };
                self.meta(verb, meta, 0, RequestOutcome::Unknown);
            }
            Request::MetaNoop => {
                self.seen.other_requests += 1;
                if self.follows {
                    self.waiting
                        .push_back(PendingRequest { is_noop: true, ..PendingRequest::new(0, 0, Expect::UntilNoop) });
                }
            }
            Request::FlushAll { noreply, .. }
            | Request::Verbosity { noreply }
            | Request::CacheMemlimit { noreply, .. } => self.other(expected(*noreply, Expect::Ok)),
            Request::Version => self.other(Some(Expect::Version)),
            Request::Stats(_) => self.other(Some(Expect::Stats)),
            Request::CrawlerSetting | Request::RefreshCerts => self.other(Some(Expect::Ok)),
            Request::MetaDebug(_) => self.other(Some(Expect::MetaDebug)),
            Request::Dump(protocol::memcache::request::Dump::Metadump) => self.other(Some(Expect::Metadump)),
            Request::Dump(protocol::memcache::request::Dump::Mgdump) => self.other(Some(Expect::Mgdump)),
            Request::Quit => self.other(None),
            Request::Watch(_) | Request::Shutdown { .. } => {
                self.other(None);
                self.overheard = true;
            }
        }
    }

    /// Records a meta command; a quiet one (`q`) gets no reply if its outcome is `silent`.
    fn meta(&mut self, verb: Verb, meta: &Meta<'_>, value_bytes: u32, silent: RequestOutcome) {
        let mut scratch = KeyScratch::default();
        let ttl_s = meta.expire().map_or(0, |exptime| self.pen.ttl_s(exptime));
        let entry = TraceEntry { value_bytes, ttl_s, ..self.entry(verb, meta.key.bytes(&mut scratch)) };
        let number = self.ledger.add(entry, self.follows);
        if !self.follows {
            return;
        }
        let opaque = meta.in_order().find(|word| word[0] == b'O');
        self.waiting.push_back(PendingRequest {
            quiet: meta.has(b'q').then_some(silent),
            key: xxh3_64(meta.key.token()),
            opaque: opaque.map_or(0, |word| xxh3_64(&word[1..])),
            ..PendingRequest::new(number, 1, Expect::Meta)
        });
    }
}

fn stored(store: &Store<'_>) -> Verb {
    match (store.mode, store.compare) {
        (_, Some(_)) => Verb::Cas,
        (StoreMode::Set, None) => Verb::Set,
        (StoreMode::Add, None) => Verb::Add,
        (StoreMode::Replace, None) => Verb::Replace,
        (StoreMode::Append, None) => Verb::Append,
        (StoreMode::Prepend, None) => Verb::Prepend,
    }
}

fn meta_stored(meta: &Meta<'_>) -> Verb {
    match (meta.compare(), meta.store_mode()) {
        (Some(_), _) => Verb::Cas,
        (None, MetaStoreMode::Set) => Verb::Set,
        (None, MetaStoreMode::Add) => Verb::Add,
        (None, MetaStoreMode::Replace) => Verb::Replace,
        (None, MetaStoreMode::Append) => Verb::Append,
        (None, MetaStoreMode::Prepend) => Verb::Prepend,
    }
}

fn read(meta: &Meta<'_>) -> Verb {
    match (meta.has(b'T'), meta.has(b'v'), meta.has(b'c')) {
        (true, false, _) => Verb::Touch,
        (true, true, _) => Verb::Gat,
        (false, _, true) => Verb::Gets,
        (false, _, false) => Verb::Get,
    }
}

// --- replies ---

/// Settles the keys of `ask` from `from` to before `to` that are still open.
fn settle(ask: &PendingRequest, from: u32, to: u32, outcome: RequestOutcome, ledger: &mut Ledger) {
    for at in from..to {
        ledger.settle(ask.number + u64::from(at), outcome, None);
    }
}

/// Returns true if `reply` belongs to the quiet request `ask`; `None` if that cannot be determined.
fn belongs(ask: &PendingRequest, reply: &Reply<'_>) -> Option<bool> {
    let flags = match reply {
        Reply::Meta { flags, .. } | Reply::MetaValue { flags, .. } => flags,
        Reply::Error(_) => return None,
        _ => return Some(false),
    };
    if let Some(opaque) = flags.token(b'O') {
        return Some(xxh3_64(opaque) == ask.opaque);
    }
    if let Some(key) = flags.token(b'k') {
        return Some(xxh3_64(key) == ask.key);
    }
    (ask.opaque != 0).then_some(false)
}

fn outcome(reply: &Reply<'_>) -> RequestOutcome {
    match reply {
        Reply::NotStored | Reply::Exists | Reply::NotFound => RequestOutcome::Miss,
        Reply::Meta { code: MetaCode::Done, .. } => RequestOutcome::Hit,
        Reply::Meta { .. } => RequestOutcome::Miss,
        Reply::Error(_) => RequestOutcome::Error,
        _ => RequestOutcome::Hit,
    }
}

/// Finds the request of `reply`. Returns false if no request matches, because replies cannot be followed any further
/// then.
fn matched(waiting: &mut VecDeque<PendingRequest>, reply: &Reply<'_>, pen: &Pen, ledger: &mut Ledger) -> bool {
    while let Some(ask) = waiting.front_mut() {
        let Some(silent) = ask.quiet else { break };
        let belongs = belongs(ask, reply);
        if belongs == Some(false) {
            settle(ask, 0, 1, silent, ledger);
            waiting.pop_front();
            continue;
        }
        let (known, bytes) = match reply {
            Reply::MetaValue { len, .. } => (RequestOutcome::Hit, Some(*len)),
            reply => (outcome(reply), None),
        };
        let is_sure = belongs == Some(true);
        ledger.settle(ask.number, if is_sure { known } else { RequestOutcome::Unknown }, bytes.filter(|_| is_sure));
        waiting.pop_front();
        return true;
    }
    let Some(ask) = waiting.front_mut() else { return false };
    match (ask.expect.place(reply), reply) {
        (ReplyPosition::Foreign, _) => return false,
        // The late reply of a quiet command that another reply has already settled.
        (ReplyPosition::Before, _) if ask.is_noop => return true,
        (ReplyPosition::Before, Reply::Value(header)) => {
            found(ask, header, pen, ledger);
            return true;
        }
        (ReplyPosition::Before, _) => return true,
        (ReplyPosition::Last, Reply::MetaValue { len, .. }) => {
            ledger.settle(ask.number, RequestOutcome::Hit, Some(*len))
        }
        (ReplyPosition::Last, Reply::End) => settle(ask, ask.answered, ask.keys, RequestOutcome::Miss, ledger),
        (ReplyPosition::Last, reply) => settle(ask, ask.answered, ask.keys, outcome(reply), ledger),
    }
    waiting.pop_front();
    true
}

/// Records a hit for the requested key whose value the server sent, and a miss for each requested key that the server
/// skipped before it.
fn found(ask: &mut PendingRequest, header: &client::ValueHeader<'_>, pen: &Pen, ledger: &mut Ledger) {
    let key = pen.secret.hash(header.key);
    let mut numbers = (ask.answered..ask.keys).map(|at| (at, ask.number + u64::from(at)));
    let at = numbers.find(|(_, number)| ledger.entry(*number).is_some_and(|entry| entry.key == key));
    // If no entry matches, the ledger has already written the request's entries with an unknown outcome.
    if let Some((at, number)) = at {
        settle(ask, ask.answered, at, RequestOutcome::Miss, ledger);
        ledger.settle(number, RequestOutcome::Hit, Some(header.len));
        ask.answered = at + 1;
    }
}
