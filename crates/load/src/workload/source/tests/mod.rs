mod graph;
mod model;

use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::traffic::ReplyOutcome;
use crate::workload::model::{KeyCommand, KeySpace, LengthStep, Order, Placement, Protocol, Sizes, Target, Verb};
use crate::workload::prefill::Prefill;
use crate::workload::units::Share;
use base::units::TimeSpan;
use model::Model;

const NOW: UnixMillis = UnixMillis::from_secs(1_700_000_000);

/// Number of times that each verb had each outcome.
type Counts = BTreeMap<(String, ReplyOutcome), u64>;

/// Passes `answer` to `traffic` in pieces of at most `step` bytes, as an engine does. Returns the outcome.
fn read(traffic: &mut impl Traffic, pending: &mut Pending, answer: &[u8], step: usize) -> Result<ReplyOutcome, String> {
    let mut shown = Vec::new();
    let mut pieces = answer.chunks(step);
    loop {
        let (used, progress) = traffic.answer(pending, &shown);
        shown.drain(..used);
        match progress {
            ReplyProgress::Done { outcome, .. } => {
                let left: usize = shown.len() + pieces.map(<[u8]>::len).sum::<usize>();
                return if left == 0 { Ok(outcome) } else { Err(format!("{left} bytes remained")) };
            }
            ReplyProgress::Garbage(text) => return Err(text.to_owned()),
            ReplyProgress::Elsewhere { target } => return Err(format!("redirected to {target}")),
            ReplyProgress::More => match pieces.next() {
                Some(piece) => shown.extend_from_slice(piece),
                None => return Err(format!("incomplete reply {:?}", String::from_utf8_lossy(answer))),
            },
        }
    }
}

fn answer(protocol: Protocol, model: &mut Model, request: &[u8]) -> Vec<u8> {
    model.resp3 = protocol == Protocol::Resp3;
    if protocol.is_resp() { model.resp(request) } else { model.memcache(request) }
}

/// Sends `requests` requests, with replies in pieces of at most `step` bytes. Returns the counts of outcomes.
fn drive(workload: &Workload, traffic: &mut impl Traffic, model: &mut Model, requests: u64, step: usize) -> Counts {
    let mut counts = Counts::new();
    for _ in 0..requests {
        if traffic.is_exhausted() {
            break;
        }
        let mut out = Vec::new();
        let mut pending = traffic.next(0, &mut out);
        let reply = answer(workload.protocol, model, &out);
        let outcome = read(traffic, &mut pending, &reply, step)
            .unwrap_or_else(|text| panic!("{text}: {:?}", String::from_utf8_lossy(&out)));
        let verb = traffic.verbs()[usize::from(pending.verb)].clone();
        *counts.entry((verb, outcome)).or_default() += 1;
    }
    counts
}

fn workload(protocol: Protocol, verbs: Vec<KeyCommand>) -> Workload {
    let space = KeySpace { count: 100, verbs, value_bytes: Sizes::Range(0, 300), ..KeySpace::default() };
    Workload { protocol, keys: vec![space], verify: false, ..Workload::default() }
}

fn source(workload: &Workload) -> RequestSource {
    workload.validate().unwrap_or_else(|faults| panic!("{faults:?}"));
    RequestSource::new(workload, 0, NOW)
}

fn filled(workload: &Workload) -> Model {
    let mut model = Model::default();
    for thread in 0..workload.threads {
        let mut prefill = Prefill::new(workload, thread, NOW);
        drive(workload, &mut prefill, &mut model, u64::MAX, usize::MAX);
    }
    model
}

fn outcomes(counts: &Counts, verb: &str) -> [u64; 4] {
    [ReplyOutcome::Hit, ReplyOutcome::Miss, ReplyOutcome::Error, ReplyOutcome::Wrong]
        .map(|outcome| counts.get(&(verb.to_owned(), outcome)).copied().unwrap_or(0))
}

/// Returns all verbs that `protocol` supports, except raw commands.
fn verbs(protocol: Protocol, is_hash: bool) -> Vec<Verb> {
    let known = Verb::NAMES.iter().map(|(_, verb)| *verb).filter(|verb| *verb != Verb::Raw);
    known.filter(|verb| verb.is_in(protocol) && verb.is_hash() == is_hash).collect()
}

fn random_sizes(prng: &mut Prng, low: u64, high: u64) -> Sizes {
    let mut two = || {
        let (a, b) = (low + prng.below(high - low + 1), low + prng.below(high - low + 1));
        (a.min(b), a.max(b))
    };
    let ((a, b), (c, d)) = (two(), two());
    match prng.below(3) {
        0 => Sizes::Fixed(a),
        1 => Sizes::Range(a, b),
        _ => Sizes::Steps(vec![LengthStep { from: a, to: b, weight: 1.5 }, LengthStep { from: c, to: d, weight: 3.0 }]),
    }
}

fn random_space(prng: &mut Prng, protocol: Protocol, verify: bool) -> KeySpace {
    let is_hash = protocol.is_resp() && prng.chance(1, 3);
    let mut known = verbs(protocol, is_hash);
    if verify {
        known.retain(|verb| !verb.alters());
    } else if prng.chance(1, 2) {
        known.retain(|verb| !verb.stores());
    } else {
        known.retain(|verb| !matches!(verb, Verb::Incr | Verb::Decr | Verb::MetaArith));
    }
    let command = |prng: &mut Prng| {
        let verb = known[prng.below(known.len() as u64) as usize];
        let many = matches!(verb, Verb::Get | Verb::Gets) && prng.chance(1, 2);
        let keys = if many { 2 + prng.below(30) as u32 } else { 1 };
        let fields = prng.below(5) as u32;
        KeyCommand { keys, fields, delta: prng.below(1000), ..KeyCommand::weighted(verb, 0.1 + prng.unit()) }
    };
    let order = match prng.below(6) {
        0 => Order::Uniform,
        1 => Order::Zipf { exponent: prng.unit() * 2.0 },
        2 => Order::Hot { keys: Share(prng.unit()), requests: Share(prng.unit()) },
        3 => Order::Latest { exponent: prng.unit() },
        4 => Order::Sequential,
        _ => Order::Scan { length: 1 + prng.below(20) },
    };
    let ttls = [TimeSpan::secs(60), TimeSpan::secs(0), TimeSpan::secs(40 * 86_400)];
    KeySpace {
        weight: 0.1 + prng.unit(),
        count: 1 + prng.below(300),
        prefix: ["", "k:", "a-longer-prefix/"][prng.below(3) as usize].into(),
        key_bytes: random_sizes(prng, 26, 250),
        order,
        once: Share(if prng.chance(1, 3) { 0.2 } else { 0.0 }),
        verbs: (0..1 + prng.below(5)).map(|_| command(prng)).collect(),
        value_bytes: random_sizes(prng, 0, 3000),
        compressible: Share(prng.unit()),
        ttl: if is_hash { Vec::new() } else { ttls.iter().map(|ttl| (*ttl, 0.1 + prng.unit())).collect() },
        fields: 1 + prng.below(12) as u32,
    }
}

/// Returns a random valid workload. Each space has its own prefix, so that no key is of two kinds.
fn random_workload(prng: &mut Prng) -> Workload {
    let protocol = [Protocol::Memcache, Protocol::Meta, Protocol::Resp, Protocol::Resp3][prng.below(4) as usize];
    let verify = prng.chance(1, 2);
    let mut keys: Vec<KeySpace> = (0..1 + prng.below(3)).map(|_| random_space(prng, protocol, verify)).collect();
    for (at, space) in keys.iter_mut().enumerate() {
        space.prefix = format!("{at}{}", space.prefix);
    }
    let fill_on_miss = prng.chance(1, 2) && !keys.iter().any(KeySpace::is_counter);
    let (connections, threads) = (8, 1 + prng.below(3) as u32);
    Workload {
        protocol,
        keys,
        verify,
        fill_on_miss,
        connections,
        threads,
        seed: prng.next_u64(),
        ..Workload::default()
    }
}

#[test]
fn every_request_of_any_workload_is_legal_and_its_answer_is_read_however_it_is_cut() {
    let (mut hits, mut misses) = (0, 0);
    for seed in 0..400 {
        let mut prng = Prng::new(seed);
        let workload = random_workload(&mut prng);
        if let Err(faults) = workload.validate() {
            panic!("seed {seed}: {faults:?}");
        }
        let mut model = if prng.chance(1, 2) { filled(&workload) } else { Model::default() };
        for thread in 0..workload.threads {
            let mut source = RequestSource::new(&workload, thread, NOW);
            let step = [1, 7, 100, usize::MAX][prng.below(4) as usize];
            let requests = if step == 1 { 20 } else { 100 };
            let counts = drive(&workload, &mut source, &mut model, requests, step);
            for ((verb, outcome), count) in counts {
                match outcome {
                    ReplyOutcome::Hit => hits += count,
                    ReplyOutcome::Miss => misses += count,
                    other => panic!("seed {seed}: {count} times {other:?} of {verb}: {workload:?}"),
                }
            }
            assert_eq!(source.tally().values_wrong, 0, "seed {seed}");
        }
    }
    assert!(hits > 5000 && misses > 5000, "{hits} hits and {misses} misses");
}

#[test]
fn a_miss_is_filled_and_then_hit() {
    for protocol in [Protocol::Memcache, Protocol::Meta, Protocol::Resp] {
        for keys in [1, 7] {
            let get = KeyCommand { keys, ..KeyCommand::new(Verb::Get) };
            let workload = Workload { fill_on_miss: true, verify: true, ..workload(protocol, vec![get]) };
            let (mut source, mut model) = (source(&workload), Model::default());
            let counts = drive(&workload, &mut source, &mut model, 3000, 50);
            let [fills, ..] = outcomes(&counts, "fill");
            let tally = source.tally();
            assert_eq!(tally.keys_missed, fills + source.follow.queue.len() as u64, "{protocol:?}");
            assert_eq!(model.items.len(), 100);
            // Only a key that is requested again before its fill misses again.
            assert!((100..200).contains(&fills) && tally.keys_found > 1000, "{protocol:?}: {tally:?}, {fills} fills");
            assert_eq!(tally.values_wrong + tally.follow_ups_dropped, 0);
        }
    }
    let verbs =
        vec![KeyCommand::new(Verb::HashGet), KeyCommand::new(Verb::HashGetAll), KeyCommand::new(Verb::HashMultiGet)];
    let workload = Workload { fill_on_miss: true, verify: true, ..workload(Protocol::Resp, verbs) };
    let (mut source, mut model) = (source(&workload), Model::default());
    let counts = drive(&workload, &mut source, &mut model, 3000, 50);
    assert_eq!(model.hashes.len(), 100);
    assert!(model.hashes.values().all(|hash| hash.len() == 10));
    assert_eq!(outcomes(&counts, "fill"), [100, 0, 0, 0]);
}

#[test]
fn a_swap_follows_its_read_with_the_token_that_was_read() {
    for protocol in [Protocol::Memcache, Protocol::Meta] {
        let workload = workload(protocol, vec![KeyCommand::new(Verb::Cas)]);
        let (mut source, mut model) = (source(&workload), filled(&workload));
        let counts = drive(&workload, &mut source, &mut model, 1000, 20);
        assert_eq!(outcomes(&counts, "gets"), [500, 0, 0, 0], "{protocol:?}");
        assert_eq!(outcomes(&counts, "cas"), [500, 0, 0, 0], "{protocol:?}");
        let mut out = Vec::new();
        let mut pending = source.next(0, &mut out);
        let reply = answer(protocol, &mut model, &out);
        model.items.values_mut().for_each(|item| item.cas += 1);
        assert_eq!(read(&mut source, &mut pending, &reply, 9), Ok(ReplyOutcome::Hit));
        let counts = drive(&workload, &mut source, &mut model, 1, 9);
        assert_eq!(outcomes(&counts, "cas"), [0, 1, 0, 0], "another client stored in between");
    }
}

#[test]
fn multi_key_request_counts_each_key_found() {
    for protocol in [Protocol::Memcache, Protocol::Meta, Protocol::Resp] {
        let get = KeyCommand { keys: 10, ..KeyCommand::new(Verb::Get) };
        let workload = Workload { verify: true, ..workload(protocol, vec![get]) };
        let mut model = filled(&workload);
        let text = crate::workload::key::KeyText::new(&workload.keys[0]);
        model.items.retain(|key, _| text.number(key).unwrap().is_multiple_of(4));
        let mut source = source(&workload);
        drive(&workload, &mut source, &mut model, 1000, 33);
        let tally = source.tally();
        assert_eq!(tally.keys_found + tally.keys_missed, 10_000);
        assert!((2300..2700).contains(&tally.keys_found), "{protocol:?}: {tally:?}");
    }
}

#[test]
fn every_kind_of_corruption_is_filed_as_wrong() {
    let space = |verbs| KeySpace { value_bytes: Sizes::Fixed(500), ..workload(Protocol::Resp, verbs).keys.remove(0) };
    let many = KeyCommand { keys: 5, ..KeyCommand::new(Verb::Get) };
    let strings = vec![KeyCommand::new(Verb::Get), many];
    let hashes =
        vec![KeyCommand::new(Verb::HashGet), KeyCommand::new(Verb::HashMultiGet), KeyCommand::new(Verb::HashGetAll)];
    for (protocol, verbs) in [
        (Protocol::Memcache, strings.clone()),
        (Protocol::Meta, strings.clone()),
        (Protocol::Resp, strings),
        (Protocol::Resp, hashes),
    ] {
        let workload = Workload { protocol, keys: vec![space(verbs)], verify: true, ..Workload::default() };
        let corruptions: [fn(&mut Vec<u8>); 5] = [
            |value| value[3] ^= 1,
            |value| value[400] ^= 128,
            |value| value.truncate(499),
            |value| value.push(0),
            |value| value.fill(b'x'),
        ];
        for corrupt in corruptions {
            let (mut source, mut model) = (source(&workload), filled(&workload));
            model.items.values_mut().for_each(|item| corrupt(&mut item.value));
            model.hashes.values_mut().flat_map(BTreeMap::values_mut).for_each(corrupt);
            let counts = drive(&workload, &mut source, &mut model, 200, 90);
            assert!(counts.keys().all(|(_, outcome)| *outcome == ReplyOutcome::Wrong), "{protocol:?}: {counts:?}");
            assert_eq!(source.tally().values_wrong, 200);
        }
        // Each value is valid, but is stored under another key.
        let (mut source, mut model) = (source(&workload), filled(&workload));
        let mut keys: Vec<Vec<u8>> = model.items.keys().cloned().collect();
        keys.sort();
        let first = keys.first().map(|key| model.items[key].value.clone());
        for pair in keys.windows(2) {
            let next = model.items[&pair[1]].value.clone();
            model.items.get_mut(&pair[0]).unwrap().value = next;
        }
        if let Some(first) = first {
            model.items.get_mut(keys.last().unwrap()).unwrap().value = first;
        }
        for hash in model.hashes.values_mut() {
            let mut values: Vec<Vec<u8>> = hash.values().cloned().collect();
            values.rotate_left(1);
            hash.values_mut().zip(values).for_each(|(value, other)| *value = other);
        }
        let counts = drive(&workload, &mut source, &mut model, 200, 90);
        assert!(counts.keys().all(|(_, outcome)| *outcome == ReplyOutcome::Wrong), "{protocol:?}: {counts:?}");
    }
}

#[test]
fn invalid_reply_closes_connection_with_reason() {
    let get = |keys| KeyCommand { keys, ..KeyCommand::new(Verb::Get) };
    for (protocol, keys, reply) in [
        (Protocol::Memcache, 1, "HTTP/1.1 400 Bad Request\r\n"),
        (Protocol::Memcache, 1, "STORED\r\n"),
        (Protocol::Memcache, 1, "VALUE nobodys-key 0 1\r\nx\r\nEND\r\n"),
        (Protocol::Memcache, 1, "VALUE 0000000000000001 0 1\r\nxyz\r\nEND\r\n"),
        (Protocol::Memcache, 2, "VALUE nobodys-key 0 1\r\nx\r\nEND\r\n"),
        (Protocol::Meta, 1, "END\r\n"),
        (Protocol::Meta, 2, "VA 1 kother\r\nx\r\nMN\r\n"),
        (Protocol::Resp, 1, "*0\r\n"),
        (Protocol::Resp, 1, "hello\r\n"),
        (Protocol::Resp, 2, "*1\r\n$-1\r\n"),
        (Protocol::Resp, 2, ":1\r\n"),
        (Protocol::Ping, 1, "PUNG\r\n"),
    ] {
        let verbs = vec![if protocol == Protocol::Ping { KeyCommand::new(Verb::Ping) } else { get(keys) }];
        let workload = Workload { verify: true, ..workload(protocol, verbs) };
        let mut source = source(&workload);
        let mut pending = source.next(0, &mut Vec::new());
        let read = read(&mut source, &mut pending, reply.as_bytes(), usize::MAX);
        assert!(read.is_err_and(|text| !text.contains("incomplete reply")), "{protocol:?}: {reply}");
    }
}

#[test]
fn error_reply_is_counted_and_connection_continues() {
    for (protocol, reply) in [
        (Protocol::Memcache, "SERVER_ERROR out of memory\r\n"),
        (Protocol::Meta, "CLIENT_ERROR bad\r\n"),
        (Protocol::Resp, "-ERR no\r\n"),
        (Protocol::Resp, "-WRONGTYPE other\r\n"),
    ] {
        let workload = workload(protocol, vec![KeyCommand::new(Verb::Set)]);
        let mut source = source(&workload);
        let mut pending = source.next(0, &mut Vec::new());
        assert_eq!(read(&mut source, &mut pending, reply.as_bytes(), 3), Ok(ReplyOutcome::Error));
    }
}

#[test]
fn threads_store_every_key_once_and_end_by_themselves() {
    for protocol in [Protocol::Memcache, Protocol::Meta, Protocol::Resp] {
        let spaces = [1, 10, 1000].map(|count| KeySpace {
            count,
            prefix: format!("{count}:"),
            ttl: vec![(TimeSpan::secs(60), 1.0)],
            ..KeySpace::default()
        });
        let workload =
            Workload { protocol, keys: spaces.into(), connections: 4, threads: 4, verify: true, ..Workload::default() };
        workload.validate().unwrap();
        let mut model = Model::default();
        for thread in 0..4 {
            let mut prefill = Prefill::new(&workload, thread, NOW);
            let left = prefill.left();
            let counts = drive(&workload, &mut prefill, &mut model, u64::MAX, 11);
            assert_eq!(outcomes(&counts, "fill"), [left, 0, 0, 0]);
            assert!(prefill.is_exhausted() && prefill.left() == 0);
        }
        assert_eq!((model.requests, model.items.len()), (1011, 1011), "{protocol:?}");
        assert!(model.exptimes.iter().all(|seconds| *seconds == 60) && model.exptimes.len() == 1011);
    }
}

#[test]
fn a_long_time_to_live_is_an_instant_for_memcached_and_a_length_for_resp() {
    let days = |protocol| {
        let mut workload = workload(protocol, vec![KeyCommand::new(Verb::Set), KeyCommand::new(Verb::Touch)]);
        workload.keys[0].ttl = vec![(TimeSpan::secs(40 * 86_400), 1.0)];
        let (mut source, mut model) = (source(&workload), filled(&workload));
        drive(&workload, &mut source, &mut model, 50, 50);
        model.exptimes.sort_unstable();
        model.exptimes.dedup();
        model.exptimes
    };
    let instant = 1_700_000_000 + 40 * 86_400;
    assert_eq!(days(Protocol::Memcache), [instant]);
    assert_eq!(days(Protocol::Meta), [instant]);
    assert_eq!(days(Protocol::Resp), [40 * 86_400]);
}

#[test]
fn raw_commands_are_sent_as_they_are_written() {
    let raw = |text: &str| KeyCommand { text: text.into(), ..KeyCommand::new(Verb::Raw) };
    for (protocol, text, filed) in [
        (Protocol::Memcache, "set __key__ 0 0 __length__\r\n__data__", "set"),
        (Protocol::Memcache, "get __key__ __key__", "get"),
        (Protocol::Memcache, "mg __key__ v k", "mg"),
        (Protocol::Memcache, "version", "version"),
        (Protocol::Meta, "ms __key__ __length__ T0\r\n__data__", "ms"),
        (Protocol::Resp, "SET __key__ __data__", "set"),
        (Protocol::Resp, "MGET __key__ x:__key__", "mget"),
        (Protocol::Resp, "PING", "ping"),
    ] {
        let workload = workload(protocol, vec![raw(text)]);
        let (mut source, mut model) = (source(&workload), filled(&workload));
        let counts = drive(&workload, &mut source, &mut model, 50, 6);
        assert_eq!(outcomes(&counts, filed)[0], 50, "{text}: {counts:?}");
    }
}

#[test]
fn requests_are_deterministic_per_seed_and_differ_per_thread() {
    let workload =
        Workload { connections: 2, threads: 2, ..workload(Protocol::Memcache, vec![KeyCommand::new(Verb::Set)]) };
    let bytes = |workload: &Workload, thread| {
        let mut source = RequestSource::new(workload, thread, NOW);
        let mut out = Vec::new();
        (0..100).for_each(|_| {
            source.next(0, &mut out);
        });
        out
    };
    assert_eq!(bytes(&workload, 0), bytes(&workload, 0));
    assert_ne!(bytes(&workload, 0), bytes(&workload, 1));
    let other = Workload { seed: 2, ..workload.clone() };
    assert_ne!(bytes(&workload, 0), bytes(&other, 0));
}

#[test]
fn key_is_always_routed_to_its_target() {
    for placement in [Placement::Ketama, Placement::Slots] {
        let target = |at: usize| Target { address: format!("10.0.0.{at}:1"), weight: 1 };
        let workload = Workload {
            placement,
            targets: (1..4).map(target).collect(),
            fill_on_miss: true,
            ..workload(Protocol::Memcache, vec![KeyCommand::new(Verb::Get)])
        };
        let mut source = source(&workload);
        let mut models = [Model::default(), Model::default(), Model::default()];
        for _ in 0..2000 {
            let target = source.target();
            let mut out = Vec::new();
            let mut pending = source.next(0, &mut out);
            let reply = models[target].memcache(&out);
            read(&mut source, &mut pending, &reply, 100).unwrap();
        }
        let held: Vec<usize> = models.iter().map(|model| model.items.len()).collect();
        assert_eq!(held.iter().sum::<usize>(), 100, "{placement:?}: each key is on one target");
        assert!(held.iter().all(|keys| *keys > 10), "{held:?}");
    }
}

#[test]
fn connection_authenticates_before_first_request() {
    let auth = Some(Auth { user: "u".into(), password: "pw".into() });
    let memcached = Workload { auth: auth.clone(), ..workload(Protocol::Memcache, vec![KeyCommand::new(Verb::Get)]) };
    let resp = Workload { auth, database: 3, ..workload(Protocol::Resp, vec![KeyCommand::new(Verb::Get)]) };
    let client_name = "us".to_owned();
    let named = Workload { client_name: client_name.clone(), ..resp.clone() };
    let resp3 = Workload { protocol: Protocol::Resp3, ..named.clone() };
    let alone = Workload { auth: None, database: 0, client_name: String::new(), ..resp3.clone() };
    let by_password = Auth { user: String::new(), password: "pw".into() };
    let password = Workload { auth: Some(by_password), ..alone.clone() };
    for (workload, said) in [
        (memcached, vec!["u pw"]),
        (resp, vec!["u pw", "3"]),
        (named, vec!["u pw", "SETNAME us", "3"]),
        (resp3, vec!["3 AUTH u pw SETNAME us", "3"]),
        (alone, vec!["3"]),
        (password, vec!["3 AUTH default pw"]),
    ] {
        let (mut source, mut model) = (source(&workload), Model::default());
        let mut out = Vec::new();
        let mut pendings = source.greet(0, &mut out);
        assert_eq!(pendings.len(), said.len());
        let reply = answer(workload.protocol, &mut model, &out);
        assert_eq!(model.greeted, said);
        let mut rest = &reply[..];
        for pending in &mut pendings {
            let (used, progress) = source.answer(pending, rest);
            assert!(matches!(progress, ReplyProgress::Done { outcome: ReplyOutcome::Hit, .. }), "{progress:?}");
            rest = &rest[used..];
        }
        assert!(rest.is_empty());
    }
    assert!(!format!("{:?}", Auth { user: "u".into(), password: "secret".into() }).contains("secret"));
}

#[test]
fn huge_value_is_read_without_buffering() {
    for protocol in [Protocol::Memcache, Protocol::Meta, Protocol::Resp] {
        let mut workload = Workload { verify: true, ..workload(protocol, vec![KeyCommand::new(Verb::Get)]) };
        (workload.keys[0].count, workload.keys[0].value_bytes) = (1, Sizes::Fixed(5_000_000));
        let (mut source, mut model) = (source(&workload), filled(&workload));
        let mut out = Vec::new();
        let mut pending = source.next(0, &mut out);
        let reply = answer(protocol, &mut model, &out);
        let (mut shown, mut longest) = (Vec::new(), 0);
        for piece in reply.chunks(10_000) {
            shown.extend_from_slice(piece);
            let (used, progress) = source.answer(&mut pending, &shown);
            shown.drain(..used);
            longest = longest.max(shown.len());
            if let ReplyProgress::Done { outcome, value_bytes } = progress {
                assert_eq!((outcome, value_bytes), (ReplyOutcome::Hit, 5_000_000));
            }
        }
        assert!(shown.is_empty() && longest < 300, "{protocol:?} kept {longest} bytes");
    }
}

#[test]
fn commands_and_key_spaces_match_weights() {
    let space = |prefix: &str, weight, verbs| KeySpace { prefix: prefix.into(), weight, verbs, ..KeySpace::default() };
    let two = vec![KeyCommand::weighted(Verb::Get, 9.0), KeyCommand::weighted(Verb::Set, 1.0)];
    let workload = Workload {
        keys: vec![space("a", 3.0, two), space("b", 1.0, vec![KeyCommand::weighted(Verb::Delete, 7.0)])],
        ..Workload::default()
    };
    let (mut source, mut model) = (source(&workload), Model::default());
    let counts = drive(&workload, &mut source, &mut model, 100_000, usize::MAX);
    let all = |verb| outcomes(&counts, verb).iter().sum();
    crate::workload::draw::chi_square::assert_fits(&[all("get"), all("set"), all("delete")], &[67.5, 7.5, 25.0]);
}

#[test]
fn configured_share_of_requests_uses_one_time_keys() {
    let mut workload = workload(Protocol::Memcache, vec![KeyCommand::new(Verb::Get)]);
    workload.keys[0].once = Share(0.25);
    let mut source = source(&workload);
    let (mut seen, mut once) = (HashSet::new(), 0);
    for _ in 0..20_000 {
        let key = source.next(0, &mut Vec::new()).key;
        once += u64::from(key >= 100);
        assert!(seen.insert(key) || key < 100);
    }
    crate::workload::draw::chi_square::assert_fits(&[once, 20_000 - once], &[1.0, 3.0]);
}

/// Draws a request. Returns its bytes and its pending state.
fn asked(source: &mut RequestSource) -> (Vec<u8>, Pending) {
    let mut out = Vec::new();
    source.target();
    let pending = source.next(0, &mut out);
    (out, pending)
}

#[test]
fn a_redirect_sends_the_same_request_to_the_node_that_is_named() {
    let target = |port: u16| Target { address: format!("127.0.0.1:{port}"), weight: 1 };
    let targets = vec![target(7000), target(7001), target(7002)];
    for verb in [Verb::Get, Verb::Set, Verb::HashGetAll, Verb::HashMultiGet] {
        let mut workload = workload(Protocol::Resp, vec![KeyCommand::new(verb)]);
        (workload.targets, workload.placement) = (targets.clone(), Placement::Slots);
        let mut source = source(&workload);
        let (request, mut pending) = asked(&mut source);
        let key = request.split(|byte| *byte == b'\n').nth(4).unwrap().strip_suffix(b"\r").unwrap().to_vec();
        let slot = crate::workload::place::slot(&key);
        let moved = format!("-MOVED {slot} 127.0.0.1:7002\r\n");
        for cut in 1..moved.len() {
            let mut pending = pending;
            assert_eq!(source.answer(&mut pending, &moved.as_bytes()[..cut]), (0, ReplyProgress::More));
        }
        assert_eq!(
            source.answer(&mut pending, moved.as_bytes()),
            (moved.len(), ReplyProgress::Elsewhere { target: 2 })
        );
        let mut again = Vec::new();
        source.repeat(0, &mut pending, &mut again);
        // The values of two stores differ in their versions; everything else is equal.
        assert_eq!(again.len(), request.len(), "{verb:?}");
        if verb != Verb::Set {
            assert_eq!(again, request, "{verb:?}");
        }
        assert_eq!(source.ring.target(&key), 2, "the slot map was updated");
        let asks = format!("-ASK {slot} :7001\r\n");
        let (used, progress) = source.answer(&mut pending, asks.as_bytes());
        assert_eq!((used, progress), (asks.len(), ReplyProgress::Elsewhere { target: 1 }));
        assert_eq!(source.ring.target(&key), 2, "an ASK redirect does not update the slot map");
        let mut again = Vec::new();
        source.repeat(0, &mut pending, &mut again);
        let asking = b"*1\r\n$6\r\nASKING\r\n";
        assert!(again.starts_with(asking) && again.len() == request.len() + asking.len(), "{verb:?}");
        let reply = [b"+OK\r\n".to_vec(), Model::default().resp(&again[asking.len()..])].concat();
        for step in [1, 3, 100] {
            let mut pending = pending;
            let outcome = read(&mut source, &mut pending, &reply, step).unwrap();
            let expected = if matches!(verb, Verb::Set) { ReplyOutcome::Hit } else { ReplyOutcome::Miss };
            assert_eq!(outcome, expected, "{verb:?}");
        }
    }
}

#[test]
fn server_error_is_quoted_with_remedy() {
    let get = || vec![KeyCommand::new(Verb::Get)];
    for (protocol, answer, told) in [
        (Protocol::Resp, "-NOAUTH Authentication required.\r\n", "NOAUTH Authentication required.; pass a user"),
        (Protocol::Resp3, "-WRONGPASS invalid pair\r\n", "WRONGPASS invalid pair; check the user, the password"),
        (
            Protocol::Resp,
            "-MOVED 1 10.0.0.1:6379\r\n",
            "; the server is part of a cluster: pass every node as a target",
        ),
        (Protocol::Resp, "-ERR what\r\n", "ERR what"),
        (Protocol::Memcache, "CLIENT_ERROR unauthenticated\r\n", "CLIENT_ERROR unauthenticated; pass a user"),
        (Protocol::Meta, "SERVER_ERROR out of memory\r\n", "SERVER_ERROR out of memory"),
    ] {
        let mut source = source(&workload(protocol, get()));
        let (_, mut pending) = asked(&mut source);
        assert_eq!(read(&mut source, &mut pending, answer.as_bytes(), 100), Ok(ReplyOutcome::Error), "{answer}");
        assert!(source.refusal().contains(told), "{}", source.refusal());
    }
    let mut clustered = workload(Protocol::Resp, get());
    let target = |address: &str| Target { address: address.to_owned(), weight: 1 };
    (clustered.targets, clustered.placement) = (vec![target("10.0.0.1:1"), target("10.0.0.2:1")], Placement::Slots);
    let mut source = source(&clustered);
    let (_, mut pending) = asked(&mut source);
    assert_eq!(read(&mut source, &mut pending, b"-MOVED 1 10.0.0.3:1\r\n", 100), Ok(ReplyOutcome::Error));
    assert!(source.refusal().ends_with("that node is not a target: pass every node of the cluster"));
}

#[test]
fn hash_update_reads_first_and_then_writes_on_hit_and_miss() {
    for (verb, second) in [(Verb::HashUpdate, "hset"), (Verb::HashIncr, "hincrby"), (Verb::HashDecr, "hincrby")] {
        for protocol in [Protocol::Resp, Protocol::Resp3] {
            let workload = workload(protocol, vec![KeyCommand { delta: 3, ..KeyCommand::new(verb) }]);
            let (mut source, mut model) = (source(&workload), Model::default());
            let (mut reads, mut changes) = (Vec::new(), Vec::new());
            for turn in 0..200 {
                assert_eq!(source.has_follow_up(), turn % 2 == 1);
                let mut out = Vec::new();
                let mut pending = source.next(0, &mut out);
                let verb = source.verbs()[usize::from(pending.verb)].clone();
                let reply = answer(protocol, &mut model, &out);
                read(&mut source, &mut pending, &reply, 7).unwrap();
                if turn % 2 == 0 { reads.push((verb, pending.key)) } else { changes.push((verb, pending.key)) }
            }
            let key = |number: u64| number & ((1 << FIELD_SHIFT) - 1);
            assert!(reads.iter().all(|(verb, _)| verb == "hgetall") && changes.iter().all(|(verb, _)| verb == second));
            assert!(
                reads.iter().zip(&changes).all(|(read, change)| key(read.1) == key(change.1)),
                "both requests are for the same key"
            );
            let counts = model.hashes.values().filter_map(|hash| hash.get(&b"n"[..]));
            let sum: i64 = counts.map(|count| String::from_utf8(count.clone()).unwrap().parse::<i64>().unwrap()).sum();
            assert_eq!(
                sum,
                match verb {
                    Verb::HashIncr => 300,
                    Verb::HashDecr => -300,
                    _ => 0,
                }
            );
        }
    }
}
