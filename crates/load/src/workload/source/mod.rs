//! Draws the requests of a workload and reads their replies, for one thread of the engine.
//!
//! ```text
//!   draw      a command (by weight) and a key (by the space's order)          -> Plan
//!   target    the plan's key on the ring                                      (the plan waits for its connection)
//!   next      the plan's bytes, by its route's form                           memcache, resp
//!   answer    the reply's bytes, compared if requested, and its follow-ups    -> Follow: fills, swaps
//!   repeat    the request of a reply that redirected it, once more            (the slot map is updated)
//! ```
//!
//! Invariants: there are no allocations after the buffers have grown. A reply may arrive in any pieces, and no value is
//! stored. The number of waiting follow-ups is bounded, and further ones are counted.

mod memcache;
pub mod progress;
mod resp;
mod route;
mod space;
mod template;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use base::clock::UnixMillis;
use base::prng::{Prng, split_mix};

use super::draw::alias::Alias;
use super::model::{Auth, Workload};
use super::place::Ring;
use crate::traffic::{Pending, ReplyOutcome, ReplyProgress, Traffic};
use route::{RequestForm, Route, Routes};
use space::Space;

pub(super) use route::expect_of;

/// Highest number of waiting follow-ups; further ones are not sent, only counted.
pub const FOLLOW_UPS_MAX: usize = 65_536;

/// Distance between the first versions of two threads' stores, so that no two stores of a run have the same version.
const THREAD_VERSIONS: u64 = 1 << 40;
/// Position of the first field's number within a plan's key, for a hash.
const FIELD_SHIFT: u32 = 48;
/// Largest stored part of an error message, in bytes.
const SAID_BYTES_MAX: usize = 320;

/// Counts of keys and values, which the figures of single requests do not contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerTally {
    /// Number of keys that reads found.
    pub keys_found: u64,
    /// Number of keys that reads did not find.
    pub keys_missed: u64,
    /// Number of values that differ from the expected value, or belong to a key that was not requested.
    pub values_wrong: u64,
    /// Number of fills and swaps that were not sent because too many were waiting.
    pub follow_ups_dropped: u64,
}

/// A drawn request.
#[derive(Clone, Copy, Debug)]
struct DrawnRequest {
    route: usize,
    /// The key's number. For several keys, the base from which they are derived. For a hash, the number of the first
    /// field is in the upper bits.
    key: u64,
    /// The token that a swap compares.
    token: u64,
}

/// Follow-up requests caused by replies.
#[derive(Debug)]
struct Follow {
    queue: VecDeque<DrawnRequest>,
    fill: Vec<usize>,
    tally: AnswerTally,
    /// The text of the last error reply.
    said: Vec<u8>,
}

impl Follow {
    fn push(&mut self, plan: DrawnRequest) {
        if self.queue.len() < FOLLOW_UPS_MAX {
            self.queue.push_back(plan);
        } else {
            self.tally.follow_ups_dropped += 1;
        }
    }

    /// Handles a read that did not find key `number`.
    fn missed(&mut self, route: &Route, number: u64) {
        self.tally.keys_missed += 1;
        if route.fills {
            self.push(DrawnRequest { route: self.fill[route.space], key: number, token: 0 });
        }
        if let (Some(swap), true) = (route.swap, route.swaps_always) {
            self.push(DrawnRequest { route: swap, key: number, token: 0 });
        }
    }

    /// Handles a read that found key `number`, with `token` if the request asked for it.
    fn found(&mut self, route: &Route, number: u64, token: Option<u64>) {
        self.tally.keys_found += 1;
        if let (Some(swap), Some(token)) = (route.swap, token.or(route.swaps_always.then_some(0))) {
            self.push(DrawnRequest { route: swap, key: number, token });
        }
    }
}

/// The requests of one thread.
#[derive(Debug)]
pub struct RequestSource {
    names: Vec<String>,
    routes: Vec<Route>,
    spaces: Vec<Space>,
    picks: Alias,
    greet: Vec<usize>,
    follow: Follow,
    planned: Option<DrawnRequest>,
    ring: Ring,
    prng: Prng,
    version: u64,
    verify: bool,
    auth: Option<Auth>,
    database: u32,
    client_name: String,
    key: Vec<u8>,
    word: Vec<u8>,
}

impl RequestSource {
    /// Creates the requests of thread `thread` of the workload's threads. Times to live above 30 days are sent to
    /// memcached as instants, relative to `now`.
    ///
    /// # Panics
    /// If the workload has faults that [`Workload::validate`] reports, or if it has fewer threads.
    pub fn new(workload: &Workload, thread: u32, now: UnixMillis) -> Self {
        assert!(thread < workload.threads, "the workload has {} threads", workload.threads);
        let routes = Routes::new(workload);
        let waiting = workload.fill_on_miss || routes.all.iter().any(|route| route.swap.is_some());
        let queue = VecDeque::with_capacity(if waiting { FOLLOW_UPS_MAX } else { 0 });
        let longest = workload.keys.iter().map(|space| space.key_bytes.bounds().1).max().unwrap_or(0) as usize;
        Self {
            names: routes.names.0,
            picks: Alias::new(&routes.weights),
            spaces: space::all(workload, thread, now),
            greet: routes.greet,
            follow: Follow {
                queue,
                fill: routes.fill,
                tally: AnswerTally::default(),
                said: Vec::with_capacity(SAID_BYTES_MAX),
            },
            routes: routes.all,
            planned: None,
            ring: Ring::new(workload.placement, &workload.targets),
            prng: Prng::new(split_mix(workload.seed).wrapping_add(u64::from(thread))),
            version: u64::from(thread) * THREAD_VERSIONS,
            verify: workload.verify,
            auth: workload.auth.clone(),
            database: workload.database,
            client_name: workload.client_name.clone(),
            key: Vec::with_capacity(longest),
            word: Vec::new(),
        }
    }

    /// Returns the counts of keys and values, which the figures of single requests do not contain.
    pub const fn tally(&self) -> AnswerTally {
        self.follow.tally
    }

    /// Returns whether a drawn request waits for its connection.
    pub(super) const fn has_planned(&self) -> bool {
        self.planned.is_some()
    }

    /// Makes the next request store key `number` of space `space`.
    pub(super) fn plan_store(&mut self, space: usize, number: u64) {
        self.planned = Some(DrawnRequest { route: self.follow.fill[space], key: number, token: 0 });
    }

    #[inline]
    fn draw(&mut self) -> DrawnRequest {
        if let Some(plan) = self.follow.queue.pop_front() {
            return plan;
        }
        let at = if self.routes.len() == 1 { 0 } else { self.picks.pick(self.prng.next_u64()) };
        let route = &self.routes[at];
        let key = self.spaces[route.space].draw(&mut self.prng, route);
        DrawnRequest { route: at, key, token: 0 }
    }

    /// Handles an error that redirects the request to another node. The request is sent there if the node is a target.
    fn redirect(&mut self, pending: &mut Pending) -> Option<ReplyProgress> {
        let redirect = protocol::resp::client::Redirect::new(&self.follow.said)?;
        let target = self.ring.node(redirect.host, redirect.port)?;
        if !redirect.once {
            self.ring.moved(redirect.slot, target);
        }
        let mut state = progress::AnswerState::of(pending);
        state.forget_answer();
        if redirect.once {
            state.needs_leave();
        }
        state.keep(pending);
        Some(ReplyProgress::Elsewhere { target })
    }

    /// Writes the request of `plan`.
    #[inline]
    fn put(&mut self, plan: DrawnRequest, out: &mut Vec<u8>) -> Pending {
        let route = &self.routes[plan.route];
        let space = &self.spaces[route.space];
        let mut draft =
            RequestDraft { route, space, plan, version: self.version, key: &mut self.key, word: &mut self.word };
        let value_bytes = match &route.wire {
            RequestForm::Ping => {
                out.extend_from_slice(b"PING\r\n");
                0
            }
            RequestForm::RespSelect => {
                resp::put_select(self.database, out);
                0
            }
            RequestForm::Authenticate | RequestForm::RespAuth | RequestForm::RespHello | RequestForm::RespName => {
                greeting(&route.wire, self.auth.as_ref(), &self.client_name, out);
                0
            }
            RequestForm::Resp(verb) => resp::put(&mut draft, *verb, out),
            RequestForm::RespWords(words) => resp::put_words(&mut draft, words, out),
            _ => memcache::put(&mut draft, out),
        };
        self.version += u64::from(value_bytes > 0);
        Pending {
            verb: route.name,
            state: progress::begin(plan.route),
            key: plan.key,
            value_bytes,
            ..Pending::default()
        }
    }
}

/// A request that is being written.
struct RequestDraft<'d> {
    route: &'d Route,
    space: &'d Space,
    plan: DrawnRequest,
    /// Version in the stored value's mark.
    version: u64,
    /// Buffer for a key's text.
    key: &'d mut Vec<u8>,
    /// Buffer for a part of a request.
    word: &'d mut Vec<u8>,
}

/// Buffer for a field's name: `f` and four digits.
type FieldName = [u8; 5];

/// Returns the name of field `field`.
fn field_name(field: u32) -> FieldName {
    let mut name = *b"f0000";
    protocol::number::write_digits(&mut name[1..], field.into());
    name
}

/// Returns the number of the field with this name.
fn field_number(name: &[u8]) -> Option<u32> {
    let digits = name.strip_prefix(b"f").filter(|digits| digits.len() == 4)?;
    protocol::number::parse_u32(digits)
}

impl RequestDraft<'_> {
    fn number(&self) -> u64 {
        self.plan.key & ((1 << FIELD_SHIFT) - 1)
    }

    fn field(&self) -> u32 {
        (self.plan.key >> FIELD_SHIFT) as u32
    }

    /// Returns the text of the request's only key.
    #[inline]
    fn only_key(&mut self) -> &[u8] {
        self.key.clear();
        let number = self.number();
        self.space.text.put(number, self.key);
        self.key
    }
}

fn greeting(wire: &RequestForm, auth: Option<&Auth>, name: &str, out: &mut Vec<u8>) {
    match (wire, auth) {
        (RequestForm::Authenticate, Some(auth)) => {
            protocol::memcache::client::authenticate(out, auth.user.as_bytes(), auth.password.as_bytes());
        }
        (RequestForm::RespAuth, Some(auth)) => resp::put_auth(auth, out),
        (RequestForm::RespHello, auth) => resp::put_hello(auth, name, out),
        (RequestForm::RespName, _) => {
            protocol::resp::client::command(out, [&b"CLIENT"[..], b"SETNAME", name.as_bytes()])
        }
        _ => unreachable!("a connection authenticates only if the workload has a user"),
    }
}

impl Traffic for RequestSource {
    fn verbs(&self) -> &[String] {
        &self.names
    }

    fn target(&mut self) -> usize {
        let plan = self.planned.take().unwrap_or_else(|| self.draw());
        self.planned = Some(plan);
        let route = &self.routes[plan.route];
        let space = &self.spaces[route.space];
        self.key.clear();
        space.text.put(space.key_at(plan.key, 0, route.keys) & ((1 << FIELD_SHIFT) - 1), &mut self.key);
        self.ring.target(&self.key)
    }

    fn has_follow_up(&self) -> bool {
        !self.follow.queue.is_empty()
    }

    fn next(&mut self, _connection: usize, out: &mut Vec<u8>) -> Pending {
        let plan = match self.planned.take() {
            Some(plan) => plan,
            None => self.draw(),
        };
        self.put(plan, out)
    }

    fn answer(&mut self, pending: &mut Pending, bytes: &[u8]) -> (usize, ReplyProgress) {
        let mut state = progress::AnswerState::of(pending);
        if state.waits_for_leave() {
            // `ASKING` has its own reply, before the request's reply.
            let Some(line) = memchr::memchr(b'\n', bytes) else { return (0, ReplyProgress::More) };
            state.has_leave();
            state.keep(pending);
            let (used, progress) = self.answer(pending, &bytes[line + 1..]);
            return (line + 1 + used, progress);
        }
        let route = &self.routes[state.route];
        let reading = AnswerReader {
            route,
            space: &self.spaces[route.space],
            verify: self.verify,
            follow: &mut self.follow,
            state,
            pending,
        };
        let (used, progress) = match &route.wire {
            RequestForm::Ping => pong(bytes),
            RequestForm::Resp(verb) => resp::answer(reading, Some(*verb), bytes),
            RequestForm::RespWords(_)
            | RequestForm::RespAuth
            | RequestForm::RespHello
            | RequestForm::RespName
            | RequestForm::RespSelect => resp::answer(reading, None, bytes),
            _ => memcache::answer(reading, bytes),
        };
        match progress {
            ReplyProgress::Done { outcome: ReplyOutcome::Error, .. } => {
                (used, self.redirect(pending).unwrap_or(progress))
            }
            progress => (used, progress),
        }
    }

    fn refusal(&self) -> String {
        let said = String::from_utf8_lossy(&self.follow.said).into_owned();
        let remedy = match said.split(' ').next().unwrap_or_default() {
            "NOAUTH" => "; pass a user: --user and --password-env, or [auth] in a workload file",
            "WRONGPASS" | "NOPERM" => "; check the user, the password and the user's rights",
            "MOVED" | "ASK" if self.ring.is_slots() => "; that node is not a target: pass every node of the cluster",
            "MOVED" | "ASK" => "; the server is part of a cluster: pass every node as a target, with placement slots",
            "NOPROTO" => "; the server does not support RESP3: use protocol resp",
            _ if said.ends_with("unauthenticated") => "; pass a user: --user and --password-env, or [auth]",
            _ if said.ends_with("authentication failure") => "; check the user and the password",
            _ => "",
        };
        said + remedy
    }

    fn repeat(&mut self, pending: &mut Pending, out: &mut Vec<u8>) {
        let mut state = progress::AnswerState::of(pending);
        if state.waits_for_leave() {
            protocol::resp::client::command(out, [&b"ASKING"[..]]);
        }
        let again = self.put(DrawnRequest { route: state.route, key: pending.key, token: 0 }, out);
        state.forget_answer();
        *pending = again;
        state.keep(pending);
    }

    fn greet(&mut self, _connection: usize, out: &mut Vec<u8>) -> Vec<Pending> {
        let greet = std::mem::take(&mut self.greet);
        let said = greet.iter().map(|route| self.put(DrawnRequest { route: *route, key: 0, token: 0 }, out)).collect();
        self.greet = greet;
        said
    }
}

/// A reply that is being read.
struct AnswerReader<'r> {
    route: &'r Route,
    space: &'r Space,
    verify: bool,
    follow: &'r mut Follow,
    state: progress::AnswerState,
    pending: &'r mut Pending,
}

impl AnswerReader<'_> {
    /// Records an error reply with the text `words`.
    fn failed(&mut self, words: &[u8]) {
        self.state.failed();
        let said = &mut self.follow.said;
        said.clear();
        said.extend_from_slice(&words[..words.len().min(SAID_BYTES_MAX)]);
    }

    /// Completes the reply.
    fn done(&mut self) -> ReplyProgress {
        let progress = self.state.done(self.pending.read_bytes);
        let is_wrong = matches!(progress, ReplyProgress::Done { outcome: crate::traffic::ReplyOutcome::Wrong, .. });
        self.follow.tally.values_wrong += u64::from(is_wrong);
        progress
    }

    /// Returns the number of key `index` of the request.
    fn key_at(&self, index: u32) -> u64 {
        self.space.key_at(self.pending.key, index, self.route.keys)
    }

    /// Records that the keys from `from` to before `to` do not exist.
    fn missed(&mut self, from: u32, to: u32) {
        for index in from..to {
            self.state.missed();
            let number = self.key_at(index) & ((1 << FIELD_SHIFT) - 1);
            self.follow.missed(self.route, number);
        }
    }
}

fn pong(bytes: &[u8]) -> (usize, ReplyProgress) {
    const PONG: &[u8] = b"PONG\r\n";
    let there = bytes.len().min(PONG.len());
    if bytes[..there] != PONG[..there] {
        return (0, ReplyProgress::Garbage("the reply to PING is not PONG"));
    }
    match there == PONG.len() {
        true => (there, ReplyProgress::Done { outcome: crate::traffic::ReplyOutcome::Hit, value_bytes: 0 }),
        false => (0, ReplyProgress::More),
    }
}
