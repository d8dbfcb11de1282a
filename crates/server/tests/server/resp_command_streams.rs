//! Tests with streams of Redis commands that are split anywhere and damaged: the replies stay the same, and the server
//! holds nothing afterwards. Also tests that no sequence of requests of both protocols ends a server.

#[path = "../../../../fuzz/corpus.rs"]
mod corpus;
#[path = "../resp_commands/mod.rs"]
mod resp_commands;
#[path = "../whole_server/mod.rs"]
mod whole_server;

use crate::common::request::request;
use base::prng::Prng;
use command::clients::endpoint::Protocol;
use command::resp::catalog::COMMANDS;
use resp_commands::{assert_cut, is_timeless, replies};
use std::time::{Duration, Instant};
use whole_server::Reached;

#[test]
fn a_stream_of_commands_is_answered_alike_however_it_is_cut() {
    answered_alike("resp_commands");
}

#[test]
fn a_stream_of_graph_commands_is_answered_alike_however_it_is_cut() {
    answered_alike("graph_commands");
}

/// Answers every seed of a fuzz target, whole and cut.
fn answered_alike(target: &str) {
    let mut prng = Prng::new(5);
    let (mut answered, mut timeless) = (0, 0);
    for file in corpus::bytes(target) {
        answered += replies(&file, &[]).len();
        timeless += usize::from(is_timeless(&file));
        for _ in 0..4 {
            let mut cuts: Vec<usize> = (0..3).map(|_| prng.below(file.len() as u64 + 1) as usize).collect();
            cuts.sort_unstable();
            assert_cut(&file, &cuts);
        }
    }
    assert!(answered > 1000 && timeless >= 4, "{answered} bytes and {timeless} files are too few to prove anything");
}

#[test]
fn damaged_command_streams_leave_nothing_allocated() {
    let mut prng = Prng::new(6);
    let seeds = [corpus::bytes("resp_commands"), corpus::bytes("graph_commands")].concat();
    for _ in 0..60 {
        let mut stream = seeds[prng.below(seeds.len() as u64) as usize].clone();
        stream.extend_from_slice(&seeds[prng.below(seeds.len() as u64) as usize]);
        corpus::damage(&mut prng, 3, &mut stream);
        let cut = prng.below(stream.len() as u64 + 1) as usize;
        assert_cut(&stream, &[cut]);
    }
}

/// The default duration of the seeded run of the whole server, in seconds; `GANNET_WHOLE_SECONDS` overrides it.
const WHOLE_SECONDS: u64 = 12;
/// The number of failed inputs after which the seeded run ends.
const FAILURES_MAX: usize = 8;
/// The maximum number of bytes of choices in one input of the seeded run.
const WHOLE_BYTES_MAX: u64 = 6000;

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// The maximum CPU time of an iteration of the worker in the seeded run, in ns. The longest iteration of a server
/// without optimisations takes 10 ms.
const ITERATION_CPU_NS_MAX: u64 = 100_000_000;

/// Returns the CPU time of this thread, in ns.
fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Runs one input of the seeded run. A failure prints how to repeat it.
fn whole_run(seed: u64) -> Option<Reached> {
    let mut prng = Prng::new(seed);
    let len = 200 + prng.below(WHOLE_BYTES_MAX);
    let bytes: Vec<u8> = (0..len).map(|_| prng.next_u64() as u8).collect();
    let ran = std::panic::catch_unwind(|| whole_server::run_measured(&bytes, cpu_ns));
    let test = "cargo test -p gannet-server --test server no_sequence";
    ran.inspect_err(|_| println!("repeat: GANNET_SEED={seed} GANNET_WHOLE_SECONDS=0 {test}")).ok()
}

#[test]
fn no_request_sequence_crashes_the_server_or_leaks_resources() {
    let seed = number_of("GANNET_SEED").unwrap_or(1);
    let lasts = Duration::from_secs(number_of("GANNET_WHOLE_SECONDS").unwrap_or(WHOLE_SECONDS));
    let (begun, mut replied, mut cases, mut reached) = (Instant::now(), Instant::now(), 0, Reached::default());
    let mut failed = Vec::new();
    while cases == 0 || begun.elapsed() < lasts && failed.len() < FAILURES_MAX {
        match whole_run(seed + cases) {
            Some(ran) => reached = reached.and(ran),
            None => failed.push(seed + cases),
        }
        cases += 1;
        if replied.elapsed() > Duration::from_secs(60) {
            replied = Instant::now();
            println!("{cases} cases in {} s from seed {seed}: {reached:?}", begun.elapsed().as_secs());
        }
    }
    println!("{cases} cases in {} s from seed {seed}: {reached:?}", begun.elapsed().as_secs());
    assert!(failed.is_empty(), "the seeds {failed:?} of {cases} failed");
    let enough = reached.resp > 200 && reached.memcache > 200 && reached.restarts > 0 && reached.reply_bytes > 10_000;
    assert!(enough || lasts.is_zero(), "{reached:?} is too little to prove anything");
    assert!(reached.longest_ns < ITERATION_CPU_NS_MAX, "{reached:?}: an iteration delays all other clients");
}

#[test]
fn every_seed_of_the_whole_server_runs_to_its_end() {
    for (name, bytes) in corpus::seeds("whole_server") {
        let reached = whole_server::run(&bytes);
        assert!(reached.resp + reached.memcache > 0, "{name} asks nothing");
    }
}

#[test]
fn every_resp_command_has_a_template_for_the_whole_server_test() {
    let named: Vec<&str> = whole_server::commands::RESP.iter().map(|(name, _)| *name).collect();
    let there: Vec<&str> = COMMANDS.iter().map(|entry| entry.name).collect();
    assert_eq!(named, there, "a command of the table has no template, or the other way round");
}

/// A sum that overflows must fail a test, and must never abort a release build.
#[test]
#[should_panic(expected = "attempt to add with overflow")]
fn a_sum_that_wraps_fails_a_test() {
    let most = std::hint::black_box(u64::MAX);
    let _ = std::hint::black_box(most + std::hint::black_box(1));
}

/// The store asserts the maximum key length, so each command that creates an item must check the length first.
#[test]
fn a_key_longer_than_keys_may_be_is_refused_by_every_command_that_would_store_it() {
    let (long, short) = (vec![b'k'; 70_000], b"short");
    let fields: Vec<Vec<u8>> = (0..400).map(|n| format!("a-field-of-some-length-{n}").into_bytes()).collect();
    let mut hash: Vec<&[u8]> = vec![b"HSET", b"hash"];
    fields.iter().for_each(|field| hash.extend([&field[..], &field[..]]));
    let mut requests = vec![request(&hash), request(&[b"SET", short, &vec![b'v'; 300_000]])];
    let stored = requests.len();
    for line in [
        "INCR @",
        "DECR @",
        "INCRBY @ 5",
        "DECRBY @ 5",
        "INCRBYFLOAT @ 1",
        "LEASE.GET @",
        "SET @ v",
        "SETNX @ v",
        "GETSET @ v",
        "APPEND @ v",
        "SETRANGE @ 3 v",
        "SETBIT @ 3 1",
        "BITFIELD @ SET u8 0 1",
        "BITOP NOT @ short",
        "PFADD @ a",
        "PFMERGE @ none",
        "HSET @ f v",
        "HINCRBY @ f 1",
        "HSETEX @ FIELDS 1 f v",
        "REC.PUT @ BINS b INT 1",
        "RENAME short @",
        "RENAME hash @",
        "COPY short @",
        "COPY hash @",
        "MSET @ v",
        "MSETNX @ v",
        "LEASE.SET @ 0 v",
        "CAS.SET @ 0 v",
    ] {
        let words: Vec<&[u8]> =
            line.split(' ').map(|word| if word == "@" { &long[..] } else { word.as_bytes() }).collect();
        requests.push(request(&words));
    }
    requests.push(request(&[b"EXISTS", &long, short, b"hash"]));
    let requests: Vec<_> = requests.into_iter().map(|request| (Protocol::Resp, request)).collect();
    let replied = whole_server::answers(&requests);
    for ((_, request), replied) in requests.iter().zip(&replied).skip(stored).take(requests.len() - stored - 1) {
        let refused = replied.starts_with(b"-") || replied == b"$-1\r\n";
        assert!(refused, "{} is answered {}", request[..40].escape_ascii(), replied.escape_ascii());
    }
    assert_eq!(replied.last().unwrap(), b":2\r\n", "what was to be renamed is there, and nothing under the long key");
}

/// Redis clients store keys of up to 64 KiB, 16 KiB here. A dump writes up to three bytes for each byte of a key.
#[test]
fn metadump_lists_keys_that_memcached_clients_cannot_name() {
    let keys = [vec![b'a'; 300], vec![0xff; 300], vec![b'b'; 15_000], vec![b' '; 15_000], b"c".to_vec()];
    let mut requests: Vec<_> = keys.iter().map(|key| (Protocol::Resp, request(&[b"SET", &key[..], b"v"]))).collect();
    for line in ["lru_crawler metadump all", "lru_crawler mgdump all", "stats cachedump 1 0", "version"] {
        requests.push((Protocol::Memcache, format!("{line}\r\n").into_bytes()));
    }
    let replied = whole_server::answers(&requests);
    assert!(replied[..keys.len()].iter().all(|replied| replied == b"+OK\r\n"));
    let [meta, mg, cache] = [0, 1, 2].map(|dump| String::from_utf8_lossy(&replied[keys.len() + dump]).into_owned());
    assert_eq!((meta.matches("key=").count(), meta.matches("%FF").count()), (5, 300), "whole keys are told");
    assert_eq!((meta.matches("%20").count(), mg.as_str()), (15_000, "mg c\r\nEN\r\n"));
    assert_eq!(cache.matches("ITEM ").count(), 5);
    assert!(replied.last().unwrap().starts_with(b"VERSION"));
}
