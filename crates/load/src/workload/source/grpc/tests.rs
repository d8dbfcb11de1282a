//! Drives gRPC workloads against a server of the protocol crate with a map of items: counts, windows, any order of
//! replies, streams that the server refuses, and its end.

use std::collections::{BTreeMap, HashMap};

use base::prng::Prng;
use protocol::grpc::protobuf::{Encoder, Message};
use protocol::grpc::{Call, Status, message_prefix, reply};
use protocol::http2::{ConnectionLimits, ErrorCode, FieldList, FieldName, FrameEvent, ServerConnection, receive};

use super::super::*;
use super::*;
use crate::workload::model::{KeyCommand, KeySpace, Protocol, Sizes, Verb};
use base::units::TimeSpan;

const NOW: UnixMillis = UnixMillis::from_secs(1_700_000_000);

/// A reply that waits for a window.
struct UnsentReply {
    stream: u32,
    body: Vec<u8>,
    sent: usize,
}

/// A server on the other end of a connection.
pub(in crate::workload) struct Peer {
    http2: ServerConnection,
    fields: FieldList,
    input: Vec<u8>,
    calls: BTreeMap<u32, (String, Vec<u8>)>,
    items: HashMap<Vec<u8>, Vec<u8>>,
    /// Complete calls without a reply.
    ready: Vec<u32>,
    unsent: Vec<UnsentReply>,
    /// Number of complete requests.
    pub requests: u64,
    /// The status of all replies.
    status: Status,
    /// The fields `cache`, `authorization` and `grpc-timeout` of the last call.
    last_fields: [String; 3],
    resets: u64,
}

impl Peer {
    pub fn new(limits: ConnectionLimits) -> Self {
        Self {
            http2: ServerConnection::new(limits),
            fields: FieldList::new(16 * 1024),
            input: Vec::new(),
            calls: BTreeMap::new(),
            items: HashMap::new(),
            ready: Vec::new(),
            unsent: Vec::new(),
            requests: 0,
            status: Status::Ok,
            last_fields: Default::default(),
            resets: 0,
        }
    }

    /// Handles bytes of the client. Frames that answer them are appended to `out`.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut used = 0;
        loop {
            let received = receive(&mut self.http2, &input[used..], &mut self.fields, out);
            used += received.consumed;
            match received.event {
                FrameEvent::Incomplete => break,
                FrameEvent::Headers { stream, end_stream: false } => {
                    let call = Call::of(&self.fields).expect("a call");
                    let method = String::from_utf8(call.method.to_vec()).unwrap();
                    assert!(matches!(call.service, b"gannet.v1.Cache" | b"grpc.health.v1.Health"));
                    self.calls.insert(stream, (method, Vec::new()));
                    let of = |name| String::from_utf8_lossy(self.fields.value(name).unwrap_or_default()).into_owned();
                    self.last_fields = [FieldName::Cache, FieldName::Authorization, FieldName::GrpcTimeout].map(of);
                }
                FrameEvent::Data { stream, bytes, end_stream, .. } => {
                    self.calls.get_mut(&stream).expect("DATA of an open call").1.extend_from_slice(bytes);
                    self.http2.consumed(stream, bytes.len(), out);
                    if end_stream {
                        self.requests += 1;
                        self.ready.push(stream);
                    }
                }
                FrameEvent::WindowOpened { .. } => self.send_rests(out),
                FrameEvent::Reset { stream, .. } => {
                    self.resets += 1;
                    self.ready.retain(|ready| *ready != stream);
                    self.unsent.retain(|reply| reply.stream != stream);
                }
                FrameEvent::Nothing | FrameEvent::PeerGoAway { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        self.input = input[used..].to_vec();
    }

    /// Replies to all complete calls, in an order that `prng` chooses.
    pub fn reply(&mut self, prng: &mut Prng, out: &mut Vec<u8>) {
        while !self.ready.is_empty() {
            let at = prng.below(self.ready.len() as u64) as usize;
            let stream = self.ready.swap_remove(at);
            let (method, body) = self.calls.remove(&stream).expect("a complete call");
            if self.status != Status::Ok {
                assert!(reply::trailers_only(&mut self.http2, stream, self.status, "no: 100 %", &[], out));
                continue;
            }
            assert_eq!(body[..5], message_prefix(body.len() as u32 - 5));
            let messages = self.execute(&method, Message::parse(&body[5..]).expect("a message"));
            let mut body = Vec::new();
            for message in messages {
                body.extend_from_slice(&message_prefix(message.len() as u32));
                body.extend_from_slice(&message);
            }
            assert!(reply::headers(&mut self.http2, stream, out));
            self.unsent.push(UnsentReply { stream, body, sent: 0 });
        }
        self.send_rests(out);
    }

    fn send_rests(&mut self, out: &mut Vec<u8>) {
        let http2 = &mut self.http2;
        self.unsent.retain_mut(|rest| {
            rest.sent += http2.send_data(rest.stream, &rest.body[rest.sent..], false, out);
            if rest.sent < rest.body.len() {
                return true;
            }
            assert!(reply::trailers(http2, rest.stream, Status::Ok, "", &[], out));
            false
        });
    }

    fn execute(&mut self, method: &str, request: Message<'_>) -> Vec<Vec<u8>> {
        let get = |items: &HashMap<Vec<u8>, Vec<u8>>, key: &[u8]| {
            let mut reply = Encoder::new();
            match items.get(key) {
                Some(value) => reply.uint(1, 2).bytes(2, value),
                None => reply.uint(1, 3),
            };
            reply.as_slice().to_vec()
        };
        let nested = |bytes| Message::parse(bytes).expect("a nested message");
        let key = request.bytes(1).to_vec();
        let mut reply = Encoder::new();
        match method {
            "Get" => return vec![get(&self.items, &key)],
            "GetBatch" => return request.all(1).map(|item| get(&self.items, nested(item).bytes(1))).collect(),
            "Set" => {
                self.items.insert(key, request.bytes(2).to_vec());
                reply.uint(1, 1);
            }
            "SetBatch" => {
                return request
                    .all(1)
                    .map(|item| {
                        self.items.insert(nested(item).bytes(1).to_vec(), nested(item).bytes(2).to_vec());
                        vec![8, 1]
                    })
                    .collect();
            }
            "SetIf" => {
                let has = self.items.contains_key(&key);
                let stores = request.try_bytes(4).is_some() == has && request.try_bytes(6).is_some() != has;
                if stores {
                    self.items.insert(key, request.bytes(2).to_vec());
                }
                reply.item(if stores { 1 } else { 2 }, b"");
            }
            "Delete" => {
                self.items.remove(&key);
            }
            "UpdateTtl" => {
                assert!(request.uint(4) >= 1000);
                reply.item(if self.items.contains_key(&key) { 1 } else { 3 }, b"");
            }
            other => panic!("{other}"),
        }
        vec![reply.as_slice().to_vec()]
    }
}

fn workload(verbs: Vec<KeyCommand>, value_bytes: u64) -> Workload {
    let space = KeySpace { count: 50, verbs, value_bytes: Sizes::Fixed(value_bytes), ..KeySpace::default() };
    Workload { protocol: Protocol::Grpc, verify: true, keys: vec![space], ..Workload::default() }
}

fn of(verb: Verb, keys: u32) -> KeyCommand {
    KeyCommand { keys, ..KeyCommand::new(verb) }
}

/// A client and a server on one connection, whose bytes arrive in pieces of at most `step` bytes.
struct Pair {
    source: RequestSource,
    peer: Peer,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    prng: Prng,
    step: usize,
    in_flight: Vec<u32>,
    /// Number of ended requests by verb and outcome.
    counts: BTreeMap<(String, ReplyOutcome), u64>,
    verbs: HashMap<u32, u8>,
    again: Vec<u32>,
}

impl Pair {
    fn new(workload: &Workload, limits: ConnectionLimits, step: usize) -> Self {
        let mut pair = Self {
            source: RequestSource::new(workload, 0, NOW),
            peer: Peer::new(limits),
            to_server: Vec::new(),
            to_client: Vec::new(),
            prng: Prng::new(7),
            step,
            in_flight: Vec::new(),
            counts: BTreeMap::new(),
            verbs: HashMap::new(),
            again: Vec::new(),
        };
        assert!(pair.source.greet(0, &mut pair.to_server).is_empty());
        assert_eq!(pair.source.streams_max(0), Some(0), "nothing may be sent before the server's SETTINGS");
        pair.exchange(false);
        assert_eq!(pair.source.streams_max(0), Some(limits.concurrent_streams_max as usize));
        pair
    }

    /// Sends requests while there is room, up to `depth` in flight.
    fn send(&mut self, depth: usize) {
        while self.in_flight.len() < depth.min(self.source.streams_max(0).unwrap_or(0)) {
            let pending = self.source.next(0, &mut self.to_server);
            self.verbs.insert(pending.stream, pending.verb);
            self.in_flight.push(pending.stream);
        }
    }

    /// Moves bytes in both directions until both sides are silent.
    fn exchange(&mut self, replies: bool) {
        let mut unread = Vec::new();
        loop {
            let sent = std::mem::take(&mut self.to_server);
            self.peer.receive(&sent, &mut self.to_client);
            if replies {
                self.peer.reply(&mut self.prng, &mut self.to_client);
            }
            let come = std::mem::take(&mut self.to_client);
            if come.is_empty() && sent.is_empty() {
                break;
            }
            for piece in come.chunks(self.step) {
                unread.extend_from_slice(piece);
                loop {
                    let (used, progress) = self.source.arrived(0, &unread, &mut self.to_server);
                    unread.drain(..used);
                    match progress {
                        StreamProgress::More => break,
                        StreamProgress::Ready => {}
                        StreamProgress::Done { stream, outcome, .. } => {
                            let at = self.in_flight.iter().position(|known| *known == stream).expect("in flight");
                            self.in_flight.remove(at);
                            let verb = self.source.verbs()[usize::from(self.verbs[&stream])].clone();
                            *self.counts.entry((verb, outcome)).or_default() += 1;
                        }
                        StreamProgress::Again { stream } => {
                            self.in_flight.retain(|known| *known != stream);
                            self.again.push(stream);
                        }
                        StreamProgress::Garbage(text) => panic!("{text}"),
                    }
                }
            }
        }
        assert!(unread.is_empty(), "both sides are silent inside a frame");
    }

    fn count(&self, verb: &str, outcome: ReplyOutcome) -> u64 {
        self.counts.get(&(verb.to_owned(), outcome)).copied().unwrap_or(0)
    }
}

/// Returns the number of requests that a server reads after `source` was asked for `count` of them.
pub(in crate::workload) fn requests_read(source: &mut RequestSource, count: u64) -> u64 {
    let (mut peer, mut prng) = (Peer::new(ConnectionLimits::DEFAULT), Prng::new(1));
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    source.greet(0, &mut to_server);
    for _ in 0..=count {
        peer.receive(&to_server, &mut to_client);
        to_server.clear();
        peer.reply(&mut prng, &mut to_client);
        while let (used, StreamProgress::Ready | StreamProgress::Done { .. }) =
            source.arrived(0, &to_client, &mut to_server)
        {
            to_client.drain(..used);
        }
        to_client.clear();
        if peer.requests < count {
            source.next(0, &mut to_server);
        }
    }
    peer.requests
}

#[test]
fn replies_in_any_order_and_any_pieces_are_counted_by_their_streams() {
    let verbs = vec![
        of(Verb::Get, 1),
        of(Verb::Set, 1),
        of(Verb::Get, 5),
        of(Verb::Set, 3),
        of(Verb::Delete, 1),
        of(Verb::Add, 1),
        of(Verb::Replace, 1),
        of(Verb::Touch, 1),
    ];
    for step in [1, 7, 100, 1 << 20] {
        let mut workload = workload(verbs.clone(), 100);
        workload.keys[0].ttl = vec![(TimeSpan::secs(60), 1.0)];
        let mut pair = Pair::new(&workload, ConnectionLimits::DEFAULT, step);
        for _ in 0..60 {
            pair.send(40);
            pair.exchange(true);
            assert!(pair.in_flight.is_empty(), "each request has its reply");
        }
        for verb in ["get", "get of 5", "add", "replace", "touch"] {
            let (hits, misses) = (pair.count(verb, ReplyOutcome::Hit), pair.count(verb, ReplyOutcome::Miss));
            assert!(hits > 0 && misses > 0, "{verb}: {:?}", pair.counts);
        }
        assert!(pair.count("set of 3", ReplyOutcome::Hit) > 100 && pair.count("set", ReplyOutcome::Miss) == 0);
        let failed = pair.counts.keys().filter(|(_, outcome)| *outcome >= ReplyOutcome::Error).count();
        assert_eq!((failed, pair.peer.requests), (0, 2400), "{:?}", pair.counts);
        let tally = pair.source.tally();
        assert!(tally.keys_found > 0 && tally.keys_missed > 0 && tally.values_wrong == 0, "{tally:?}");
    }
}

#[test]
fn values_larger_than_the_windows_arrive_whole_in_both_directions() {
    let workload = workload(vec![of(Verb::Set, 1), of(Verb::Get, 1)], 700_000);
    let mut pair = Pair::new(&workload, ConnectionLimits::DEFAULT, 50_000);
    for _ in 0..12 {
        pair.send(8);
        pair.exchange(true);
        assert!(pair.in_flight.is_empty(), "a window that is never opened stops a request");
    }
    assert!(pair.count("get", ReplyOutcome::Hit) > 5, "{:?}", pair.counts);
    assert_eq!(pair.count("get", ReplyOutcome::Wrong) + pair.count("get", ReplyOutcome::Error), 0);
    assert!(pair.peer.items.values().all(|value| value.len() == 700_000));
}

#[test]
fn changed_value_counts_as_wrong() {
    let mut pair = Pair::new(&workload(vec![of(Verb::Get, 1)], 100), ConnectionLimits::DEFAULT, 1 << 20);
    for number in 0..50 {
        let mut key = Vec::new();
        pair.source.spaces[0].text.put(number, &mut key);
        pair.peer.items.insert(key, vec![b'x'; 100]);
    }
    pair.send(20);
    pair.exchange(true);
    assert_eq!(pair.count("get", ReplyOutcome::Wrong), 20);
    assert_eq!(pair.source.tally().values_wrong, 20);
}

#[test]
fn server_that_permits_few_streams_gets_no_more() {
    let limits = ConnectionLimits { concurrent_streams_max: 3, ..ConnectionLimits::DEFAULT };
    let mut pair = Pair::new(&workload(vec![of(Verb::Set, 1)], 10), limits, 1 << 20);
    for _ in 0..20 {
        pair.send(100);
        assert_eq!(pair.in_flight.len(), 3);
        pair.exchange(true);
    }
    assert_eq!((pair.count("set", ReplyOutcome::Hit), pair.again.len()), (60, 0));
}

#[test]
fn requests_after_the_last_stream_of_goaway_are_sent_again_and_no_new_ones() {
    let mut pair = Pair::new(&workload(vec![of(Verb::Set, 1)], 10), ConnectionLimits::DEFAULT, 1 << 20);
    pair.send(4);
    pair.exchange(false);
    let before = pair.in_flight.clone();
    pair.send(10);
    // The server ends before it has read the last six requests.
    pair.peer.http2.finish(&mut pair.to_client);
    pair.to_server.clear();
    pair.exchange(true);
    assert_eq!(pair.source.streams_max(0), None, "the connection has no further use");
    assert_eq!(pair.count("set", ReplyOutcome::Hit), 4);
    assert!(pair.in_flight.is_empty() && pair.again.len() == 6);
    assert!(pair.again.iter().all(|stream| !before.contains(stream)));
    assert!(pair.again.is_sorted(), "they keep their order");
}

#[test]
fn refused_stream_is_sent_again() {
    let mut pair = Pair::new(&workload(vec![of(Verb::Set, 1)], 10), ConnectionLimits::DEFAULT, 1 << 20);
    pair.send(3);
    let streams = pair.in_flight.clone();
    let sent = std::mem::take(&mut pair.to_server);
    pair.peer.receive(&sent, &mut pair.to_client);
    pair.peer.http2.reset(streams[1], ErrorCode::REFUSED_STREAM, &mut pair.to_client);
    pair.peer.ready.retain(|stream| *stream != streams[1]);
    pair.exchange(true);
    assert_eq!(pair.again, [streams[1]]);
    let state = progress::begin(0);
    let mut pending = Pending { stream: streams[1], state, ..Pending::default() };
    pair.source.repeat(0, &mut pending, &mut pair.to_server);
    assert!(pending.stream > streams[2]);
    pair.verbs.insert(pending.stream, pending.verb);
    pair.in_flight.push(pending.stream);
    pair.exchange(true);
    assert_eq!(pair.count("set", ReplyOutcome::Hit), 3);
}

#[test]
fn failed_call_is_counted_by_its_status_with_a_remedy() {
    for (status, name, remedy) in [
        (Status::NotFound, "grpc-not-found", "--cache"),
        (Status::Unauthenticated, "grpc-unauthenticated", "--password-env"),
        (Status::ResourceExhausted, "grpc-resource-exhausted", "no: 100 %"),
    ] {
        let mut pair = Pair::new(&workload(vec![of(Verb::Get, 1)], 10), ConnectionLimits::DEFAULT, 1 << 20);
        pair.peer.status = status;
        pair.send(2);
        pair.exchange(true);
        assert_eq!(pair.count("get", ReplyOutcome::Error), 2);
        assert_eq!(pair.source.error_name(), name);
        let said = pair.source.refusal();
        assert!(said.starts_with(&format!("{}: no: 100 %", status.name())) && said.contains(remedy), "{said}");
    }
}

#[test]
fn call_past_its_deadline_is_canceled_and_its_late_reply_ignored() {
    let mut pair = Pair::new(&workload(vec![of(Verb::Get, 1)], 10), ConnectionLimits::DEFAULT, 1 << 20);
    pair.send(3);
    let sent = std::mem::take(&mut pair.to_server);
    pair.peer.receive(&sent, &mut pair.to_client);
    let late = pair.in_flight.remove(1);
    pair.source.expire(0, late, &mut pair.to_server);
    // The server replies before it learns of the reset.
    pair.peer.reply(&mut Prng::new(1), &mut pair.to_client);
    pair.exchange(true);
    assert_eq!(pair.count("get", ReplyOutcome::Miss), 2);
    assert!(pair.in_flight.is_empty());
    pair.send(1);
    pair.exchange(true);
    assert_eq!(pair.count("get", ReplyOutcome::Miss), 3, "the connection continues");
}

#[test]
fn each_call_has_the_cache_the_credential_and_the_deadline() {
    let auth = |user: &str| Some(Auth { user: user.to_owned(), password: "sesame".to_owned() });
    for (auth, authorization) in [(None, ""), (auth(""), "sesame"), (auth("me"), "me:sesame")] {
        let base = workload(vec![of(Verb::Get, 1)], 10);
        let workload = Workload { auth, cache: "shop".into(), timeout: TimeSpan::millis(500), ..base };
        assert_eq!(workload.validate(), Ok(()));
        let mut pair = Pair::new(&workload, ConnectionLimits::DEFAULT, 1 << 20);
        pair.send(1);
        pair.exchange(true);
        assert_eq!(pair.peer.last_fields, ["shop", authorization, "500000u"]);
    }
}

#[test]
fn reopened_connection_begins_with_the_preface_and_forgets_its_calls() {
    let mut pair = Pair::new(&workload(vec![of(Verb::Set, 1)], 10), ConnectionLimits::DEFAULT, 1 << 20);
    pair.send(5);
    pair.to_server.clear();
    pair.peer = Peer::new(ConnectionLimits::DEFAULT);
    pair.in_flight.clear();
    pair.source.greet(0, &mut pair.to_server);
    pair.exchange(false);
    pair.send(5);
    pair.exchange(true);
    assert_eq!(pair.count("set", ReplyOutcome::Hit), 5);
}

#[test]
fn reset_of_a_peer_is_no_panic() {
    let mut pair = Pair::new(&workload(vec![of(Verb::Set, 1)], 300_000), ConnectionLimits::DEFAULT, 1 << 20);
    pair.send(4);
    let streams = pair.in_flight.clone();
    let sent = std::mem::take(&mut pair.to_server);
    pair.peer.receive(&sent, &mut pair.to_client);
    for stream in streams {
        pair.peer.http2.reset(stream, ErrorCode::INTERNAL_ERROR, &mut pair.to_client);
    }
    pair.peer.ready.clear();
    pair.exchange(false);
    assert_eq!(pair.count("set", ReplyOutcome::Error), 4);
    assert_eq!(pair.source.error_name(), "grpc-internal");
}
