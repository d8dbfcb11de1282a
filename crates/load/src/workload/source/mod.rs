//! Draws the requests of a workload and reads their replies, for one thread of the engine.
//!
//! ```text
//!   draw      a command (by weight) and a key (by the space's order)          -> Plan
//!   target    the plan's key on the ring                                      (the plan waits for its connection)
//!   next      the plan's bytes, by its route's form                           memcache, resp, grpc
//!   answer    the reply's bytes, compared if requested, and its follow-ups    -> Follow: fills, swaps
//!   repeat    the request of a reply that redirected it, once more            (the slot map is updated)
//! ```
//!
//! Invariants: there are no allocations after the buffers have grown. A reply may arrive in any pieces, and no value is
//! stored. The number of waiting follow-ups is bounded, and further ones are counted.

mod call;
mod exchange;
mod graph;
mod graph_reply;
mod grpc;
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
use super::model::{Auth, Protocol, Workload};
use super::place::Ring;
use crate::traffic::{Pending, ReplyOutcome, ReplyProgress, StreamProgress, Traffic};
use exchange::{AnswerReader, DrawnRequest, FIELD_SHIFT, FOLLOW_UPS_MAX, Follow, RequestDraft, SAID_BYTES_MAX};
use grpc::GrpcClient;
use route::{RequestForm, Route, Routes};
use space::Space;

pub use exchange::AnswerTally;
#[cfg(test)]
pub(super) use grpc::requests_read as grpc_requests_read;
pub(super) use route::expect_of;

/// Distance between the first versions of two threads' stores, so that no two stores of a run have the same version.
const THREAD_VERSIONS: u64 = 1 << 40;

/// The requests of one thread.
#[derive(Debug)]
pub struct RequestSource {
    names: Vec<String>,
    routes: Vec<Route>,
    spaces: Vec<Space>,
    picks: Alias,
    greet: Vec<usize>,
    /// The only route to draw, if there is one.
    only: Option<usize>,
    follow: Follow,
    planned: Option<DrawnRequest>,
    ring: Ring,
    prng: Prng,
    version: u64,
    verify: bool,
    auth: Option<Auth>,
    database: u32,
    client_name: String,
    /// The connections of a workload over gRPC.
    grpc: Option<Box<GrpcClient>>,
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
            only: None,
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
            grpc: (workload.protocol == Protocol::Grpc).then(|| Box::new(GrpcClient::new())),
            key: Vec::with_capacity(longest),
            word: Vec::new(),
        }
    }

    /// Creates the requests of a second stream beside those of [`RequestSource::new`]: the writes of a graph, or
    /// requests as those of thread `thread`.
    ///
    /// # Panics
    /// As for [`RequestSource::new`].
    pub fn beside(workload: &Workload, thread: u32, now: UnixMillis) -> Self {
        let mut source = Self::new(workload, thread, now);
        if workload.graph.as_ref().is_some_and(|graph| graph.writes_per_s > 0.0) {
            source.only = source.routes.iter().position(|route| route.is_write_beside());
            source.prng = Prng::new(split_mix(!workload.seed).wrapping_add(u64::from(thread)));
        }
        source
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
        let at = match self.only {
            Some(route) => route,
            None if self.routes.len() == 1 => 0,
            None => self.picks.pick(self.prng.next_u64()),
        };
        let route = &self.routes[at];
        let key = match &route.wire {
            RequestForm::Graph(_) => self.prng.next_u64(),
            _ => self.spaces[route.space].draw(&mut self.prng, route),
        };
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

    /// Writes the gRPC call of `plan`, on a connection.
    fn put_call(&mut self, connection: usize, plan: DrawnRequest, out: &mut Vec<u8>) -> Pending {
        let route = &self.routes[plan.route];
        let space = &self.spaces[route.space];
        let (version, key, word) = (self.version, &mut self.key, &mut self.word);
        let draft = RequestDraft { route, space, plan, version, key, word };
        let client = self.grpc.as_mut().expect("the workload's protocol is gRPC");
        let pending = client.put(connection, draft, out);
        self.version += u64::from(pending.value_bytes > 0);
        pending
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
            RequestForm::Graph(graph) => {
                graph.put(plan.key, out);
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

    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> Pending {
        let plan = match self.planned.take() {
            Some(plan) => plan,
            None => self.draw(),
        };
        match &self.grpc {
            Some(_) => self.put_call(connection, plan, out),
            None => self.put(plan, out),
        }
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
            RequestForm::Graph(graph) => {
                let (used, progress) = resp::answer(reading, None, bytes);
                (used, graph.outcome(progress))
            }
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
        if let Some(client) = &self.grpc {
            return said + client.remedy();
        }
        let remedy = match said.split(' ').next().unwrap_or_default() {
            "NOAUTH" => "; pass a user: --user and --password-env, or [auth] in a workload file",
            "WRONGPASS" | "NOPERM" => "; check the user, the password and the user's rights",
            "MOVED" | "ASK" if self.ring.is_slots() => "; that node is not a target: pass every node of the cluster",
            "MOVED" | "ASK" => "; the server is part of a cluster: pass every node as a target, with placement slots",
            "ERR" if is_unknown_command(&said) => {
                "; pass the address of a gannet server: --resp HOST:PORT opens its port"
            }
            "NOPROTO" => "; the server does not support RESP3: use protocol resp",
            _ if said.ends_with("unauthenticated") => "; pass a user: --user and --password-env, or [auth]",
            _ if said.ends_with("authentication failure") => "; check the user and the password",
            _ => "",
        };
        said + remedy
    }

    fn is_multiplexed(&self) -> bool {
        self.grpc.is_some()
    }

    fn arrived(&mut self, connection: usize, bytes: &[u8], out: &mut Vec<u8>) -> (usize, StreamProgress) {
        let Self { grpc, routes, spaces, follow, verify, .. } = self;
        let client = grpc.as_mut().expect("the workload's protocol is gRPC");
        client.read(connection, bytes, &mut grpc::CallReplies { routes, spaces, follow, verify: *verify }, out)
    }

    fn streams_max(&self, connection: usize) -> Option<usize> {
        self.grpc.as_ref().map_or(Some(usize::MAX), |client| client.streams_max(connection))
    }

    fn expire(&mut self, connection: usize, stream: u32, out: &mut Vec<u8>) {
        if let Some(client) = &mut self.grpc {
            client.expire(connection, stream, out);
        }
    }

    fn error_name(&self) -> &'static str {
        self.grpc.as_ref().map_or("error-answer", |client| client.error_name())
    }

    fn repeat(&mut self, connection: usize, pending: &mut Pending, out: &mut Vec<u8>) {
        let mut state = progress::AnswerState::of(pending);
        if self.grpc.is_some() {
            *pending = self.put_call(connection, DrawnRequest { route: state.route, key: pending.key, token: 0 }, out);
            return;
        }
        if state.waits_for_leave() {
            protocol::resp::client::command(out, [&b"ASKING"[..]]);
        }
        let again = self.put(DrawnRequest { route: state.route, key: pending.key, token: 0 }, out);
        state.forget_answer();
        *pending = again;
        state.keep(pending);
    }

    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) -> Vec<Pending> {
        if let Some(client) = &mut self.grpc {
            client.begin(connection, out);
        }
        let greet = std::mem::take(&mut self.greet);
        let said = greet.iter().map(|route| self.put(DrawnRequest { route: *route, key: 0, token: 0 }, out)).collect();
        self.greet = greet;
        said
    }
}

/// Returns whether the server does not know a command of the graph store.
fn is_unknown_command(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    said.contains("unknown command") && said.contains("g.")
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
