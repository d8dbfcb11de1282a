//! Tests of the engine on sockets. Times are only compared where a busy machine cannot change the outcome.

#[path = "../../../../lab/testbed/src/server/port.rs"]
mod port;

use super::*;
use crate::fake::{FakeServer, Misconduct, OneKeyRequests, Script};
use crate::measure::Fate;
use crate::schedule::SendPlan;
use crate::traffic::{Pending, ReplyProgress};
use link::Address;
use std::io::{Read, Write};

const MS: u64 = 1_000_000;

fn config(server: &FakeServer) -> Config {
    Config {
        targets: vec![server.target()],
        duration_ns: 300 * MS,
        slice_ns: 50 * MS,
        drain_ns: 20_000 * MS,
        timeout_ns: 20_000 * MS,
        connect_timeout_ns: 20_000 * MS,
        ..Config::default()
    }
}

fn null() -> FakeServer {
    FakeServer::start(None, 200, None).unwrap()
}

/// Returns a path for a unix socket that no other test uses.
fn socket_path(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("gannet-load-{name}-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn every_request_of_an_open_loop_is_answered_and_filed_once() {
    let server = null();
    let config = Config { threads: 2, connections: 5, depth: 4, ..config(&server) };
    let run = run(&config, |_| OneKeyRequests::new(200), &Control::new(10_000.0)).unwrap();
    let totals = run.bulk.totals;
    assert_eq!(totals.due, 3_000, "0.3 s at 10,000 requests per second");
    assert_eq!((totals.sent, totals.answered, totals.hits, totals.unsent), (3_000, 3_000, 3_000, 0));
    assert_eq!(run.bulk.response.count(), 3_000);
    assert_eq!(run.bulk.service.count(), 3_000);
    assert_eq!(run.bulk.lateness.count(), 3_000);
    assert_eq!(run.bulk.timeline.iter().map(|slice| slice.answered).sum::<u64>(), 3_000);
    assert_eq!(run.bulk.cells.len(), 1);
    assert_eq!((run.kind, run.ending), (LoopKind::Open, Ending::Complete));
    assert_eq!(run.bulk.faults, []);
    assert_eq!(run.watched.threads.len(), 2);
    assert!(run.watched.threads.iter().all(|thread| thread.run_ns > 0), "{:?}", run.watched.threads);
    let text = serde_json::to_string(&run).unwrap();
    let read: Run = serde_json::from_str(&text).unwrap();
    assert_eq!((read.bulk.totals, read.limits), (run.bulk.totals, run.limits));
}

#[test]
fn a_closed_loop_ends_with_its_requests() {
    let server = null();
    let config = Config {
        load: Load::Closed,
        depth: 16,
        connections: 3,
        requests_max: Some(10_001),
        duration_ns: 60_000 * MS,
        ..config(&server)
    };
    let run = run(&config, |_| OneKeyRequests::new(200), &Control::new(0.0)).unwrap();
    assert_eq!((run.kind, run.ending), (LoopKind::Closed, Ending::Exhausted));
    assert_eq!(run.bulk.totals.answered, 10_001);
    assert_eq!(server.stop().answered, 10_001);
}

#[test]
fn answers_are_never_reported_sooner_than_the_server_gave_them() {
    let server = FakeServer::start(Some(Script::fixed(3 * MS)), 200, None).unwrap();
    let config = Config { connections: 20, depth: 2, ..config(&server) };
    let run = run(&config, |_| OneKeyRequests::new(200), &Control::new(1_000.0)).unwrap();
    assert_eq!(run.bulk.totals.answered, 300);
    assert!(run.bulk.service.min_ns() >= 3 * MS - 3 * MS / 1_000, "{}", run.bulk.service.min_ns());
    assert!(run.bulk.response.min_ns() >= 3 * MS - 3 * MS / 1_000);
}

#[test]
fn a_stall_on_sockets_is_in_the_response_times() {
    let script = Script::fixed(100_000).with_stall(100 * MS, 100 * MS);
    let server = FakeServer::start(Some(script), 200, None).unwrap();
    let config = Config { connections: 2, depth: 2, ..config(&server) };
    let run = run(&config, |_| OneKeyRequests::new(200), &Control::new(2_000.0)).unwrap();
    assert_eq!((run.bulk.totals.due, run.bulk.totals.answered), (600, 600));
    // A third of the requests were due within the stall; 5 in 6 of them waited more than 16 ms.
    assert!(run.bulk.response.quantile_ns(0.75) >= 16 * MS, "{}", run.bulk.response.quantile_ns(0.75));
    assert!(run.bulk.totals.late_for_room >= 150, "{:?}", run.bulk.totals);
}

#[test]
fn the_sampler_is_reported_apart_from_the_bulk() {
    let path = socket_path("sampler");
    let bulk = FakeServer::start_unix(&path, None, 200).unwrap();
    let sampled = null();
    let sampler = Sampler { target: sampled.target(), connections: 2, rate_per_s: 200.0, cpu: None };
    let config = Config {
        sampler: Some(sampler),
        load: Load::Closed,
        requests_max: Some(5_000),
        duration_ns: 500 * MS,
        ..config(&bulk)
    };
    let places = std::sync::Mutex::new(Vec::new());
    let make = |place: TrafficThread| {
        places.lock().unwrap().push(place.stream);
        OneKeyRequests::new(200)
    };
    let run = run(&config, make, &Control::new(0.0)).unwrap();
    let of_sampler = run.sampler.unwrap().totals;
    assert_eq!(run.bulk.totals.answered, bulk.stop().answered);
    assert_eq!(of_sampler.answered, sampled.stop().answered);
    assert!(of_sampler.answered > 10 && run.bulk.totals.answered > 0, "{of_sampler:?}");
    assert_eq!(run.watched.threads.len(), 2);
    let mut places = places.into_inner().unwrap();
    places.sort_by_key(|stream| *stream == LoadStream::Sampler);
    assert_eq!(places, [LoadStream::Bulk, LoadStream::Sampler]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn every_thread_runs_on_the_cpu_that_was_named_for_it() {
    let server = null();
    let usable = io::affinity::usable_cpus().unwrap();
    let cpus: Vec<usize> = usable.iter().rev().take(2).copied().collect();
    let config = Config { threads: cpus.len(), connections: cpus.len(), cpus: cpus.clone(), ..config(&server) };
    let seen = std::sync::Mutex::new(vec![Vec::new(); cpus.len()]);
    let make = |place: TrafficThread| {
        seen.lock().unwrap()[place.thread] = io::affinity::usable_cpus().unwrap();
        OneKeyRequests::new(200)
    };
    let run = run(&config, make, &Control::new(1_000.0)).unwrap();
    let named: Vec<Vec<usize>> = cpus.iter().map(|cpu| vec![*cpu]).collect();
    assert_eq!(seen.into_inner().unwrap(), named);
    let told: Vec<Option<usize>> = run.watched.threads.iter().map(|thread| thread.cpu).collect();
    assert_eq!(told, cpus.iter().map(|cpu| Some(*cpu)).collect::<Vec<_>>());
}

#[test]
fn unusable_cpus_are_named_with_remedy() {
    let usable = io::affinity::usable_cpus().unwrap();
    let targets = vec![Address::Tcp("127.0.0.1:1".to_owned())];
    let sampler = Sampler { target: targets[0].clone(), connections: 1, rate_per_s: 1.0, cpu: None };
    let alone = Config { targets, cpus: vec![usable[0]], ..Config::default() };
    let told = |config: &Config| config.faults().join("\n");
    assert_eq!(told(&alone), "");
    let away = Config { cpus: vec![1023], ..alone.clone() };
    assert!(told(&away).contains("may not run on CPU 1023; choose from"), "{}", told(&away));
    let few = Config { threads: 2, connections: 2, ..alone.clone() };
    assert!(told(&few).contains("1 CPUs are given for 2 threads; name one CPU per thread"), "{}", told(&few));
    let beside = Config { sampler: Some(sampler.clone()), ..alone.clone() };
    assert!(told(&beside).contains("the sampler has no CPU of its own; name one more"), "{}", told(&beside));
    let shared = Config { sampler: Some(Sampler { cpu: Some(usable[0]), ..sampler }), ..alone };
    assert!(told(&shared).contains(&format!("the sampler would share CPU {}", usable[0])), "{}", told(&shared));
}

#[test]
fn broken_connection_loses_only_in_flight_requests_and_reconnects() {
    for (what, name) in [(Misconduct::Close, "by-server"), (Misconduct::Garbage, "garbage")] {
        let server = FakeServer::start(Some(Script::fixed(50_000).with_misconduct(100, what)), 200, None).unwrap();
        let reconnect = Reconnect { pause_ns: MS, ..Reconnect::default() };
        let config = Config { connections: 4, depth: 2, reconnect, ..config(&server) };
        let run = run(&config, |_| OneKeyRequests::new(200), &Control::new(4_000.0)).unwrap();
        let totals = run.bulk.totals;
        assert_eq!((totals.due, run.bulk.response.count()), (1_200, 1_200), "{name}");
        assert_eq!(totals.answered + totals.lost, 1_200, "{name}: {totals:?}");
        assert!((10..=30).contains(&totals.lost), "{name}: {totals:?}");
        // A server that closes with bytes unread resets instead.
        let faults = run.bulk.faults.iter().filter(|fault| fault.name.contains(name));
        let (count, first) = faults.fold((0, ""), |(count, _), fault| (count + fault.count, &fault.first));
        assert!((10..=15).contains(&count), "{name}: {:?}", run.bulk.faults);
        assert!(first.starts_with(&server.target().to_string()), "{first}");
        assert!(totals.connects > 10, "{name}: {totals:?}");
        let lost = run.bulk.cells.iter().filter(|cell| cell.fate == Fate::Lost);
        assert_eq!(lost.map(|cell| cell.response.count()).sum::<u64>(), totals.lost, "{name}");
    }
}

/// Requests that stop their server at the hundredth reply.
struct Ending100<'a>(OneKeyRequests, u32, &'a std::sync::Mutex<Option<FakeServer>>);

impl Traffic for Ending100<'_> {
    fn verbs(&self) -> &[String] {
        self.0.verbs()
    }

    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> Pending {
        self.0.next(connection, out)
    }

    fn answer(&mut self, pending: &mut Pending, bytes: &[u8]) -> (usize, ReplyProgress) {
        self.1 += 1;
        if self.1 == 100 {
            drop(self.2.lock().unwrap().take());
        }
        self.0.answer(pending, bytes)
    }

    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) -> Vec<Pending> {
        self.0.greet(connection, out)
    }
}

#[test]
fn server_exit_ends_run_as_deserted_with_partial_figures() {
    let server = null();
    // A late generator must not have sent all of them before the server ends.
    let config = Config { connections: 3, depth: 2, drain_ns: 100 * MS, ..config(&server) };
    let server = std::sync::Mutex::new(Some(server));
    let run = run(&config, |_| Ending100(OneKeyRequests::new(200), 0, &server), &Control::new(2_000.0)).unwrap();
    let totals = run.bulk.totals;
    assert_eq!(run.ending, Ending::Deserted);
    assert_eq!((totals.due, run.bulk.response.count()), (600, 600), "{totals:?}");
    assert!(totals.answered >= 100 && totals.unsent > 0, "{totals:?}");
    assert_eq!(totals.answered + totals.lost + totals.unsent, 600);
    assert!(run.bulk.faults.iter().any(|fault| fault.name == "connect-refused"), "{:?}", run.bulk.faults);
}

#[test]
fn stopped_run_retains_its_measurements() {
    let server = null();
    let config = Config { duration_ns: 3_600_000 * MS, slice_ns: 20 * MS, ..config(&server) };
    let control = Control::new(1_000.0);
    let run = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&config, |_| OneKeyRequests::new(200), &control).unwrap());
        while control.live().recent.len() < 5 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let live = control.live();
        assert_eq!(live.phase, RunPhase::Measuring);
        assert!(live.totals.sent > 0 && live.response.count() > 0 && live.elapsed_ns > 0);
        control.stop();
        running.join().unwrap()
    });
    assert_eq!(run.ending, Ending::Stopped);
    assert!(run.bulk.measured_ns >= 100 * MS && run.bulk.measured_ns < 3_600_000 * MS);
    assert_eq!(run.bulk.totals.due, run.bulk.totals.answered);
    assert_eq!(control.live().phase, RunPhase::Over);
}

/// Requests that alternate between two targets.
struct Routed(OneKeyRequests, usize);

impl Traffic for Routed {
    fn verbs(&self) -> &[String] {
        self.0.verbs()
    }

    fn target(&mut self) -> usize {
        usize::from(self.1 % 3 == 2)
    }

    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> Pending {
        self.1 += 1;
        self.0.next(connection, out)
    }

    fn answer(&mut self, pending: &mut Pending, bytes: &[u8]) -> (usize, ReplyProgress) {
        self.0.answer(pending, bytes)
    }

    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) -> Vec<Pending> {
        self.0.greet(connection, out)
    }
}

#[test]
fn requests_go_to_the_target_that_the_traffic_names() {
    let (first, second) = (null(), null());
    let targets = vec![first.target(), second.target()];
    let requests_max = Some(3_000);
    let config = Config { targets, routed: true, threads: 2, connections: 5, requests_max, ..config(&first) };
    let run = run(&config, |_| Routed(OneKeyRequests::new(200), 0), &Control::new(50_000.0)).unwrap();
    assert_eq!(run.bulk.totals.answered, 3_000);
    assert_eq!((first.stop().answered, second.stop().answered), (2_000, 1_000));
}

#[test]
fn blind_sending_counts_received_bytes() {
    let server = null();
    let config = Config { load: Load::Blind(Some(SendPlan::constant())), connections: 2, ..config(&server) };
    let run = run(&config, |_| OneKeyRequests::new(200), &Control::new(5_000.0)).unwrap();
    assert_eq!(run.kind, LoopKind::Blind);
    assert_eq!(run.bulk.totals.due, 1_500);
    assert_eq!((run.bulk.service.count(), run.bulk.totals.answered), (0, 0));
    assert!(run.bulk.totals.bytes_received > 0);
    assert!(server.stop().answered <= run.bulk.totals.sent);
}

#[test]
fn engine_requests_are_answered_by_memcached() {
    let port = port::free_port();
    let args = ["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-u", "nobody", "-t", "1"];
    let mut memcached = std::process::Command::new("memcached").args(args).spawn().expect("memcached is installed");
    let stored = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
        let mut answer = OneKeyRequests::answer_of(200);
        answer.truncate(answer.len() - 5);
        let value = answer.split_off(answer.len() - 202);
        stream.write_all(b"set key-00000000000000000000 0 0 200\r\n").ok()?;
        stream.write_all(&value).ok()?;
        let mut reply = [0; 8];
        stream.read_exact(&mut reply).ok()?;
        Some(reply == *b"STORED\r\n")
    });
    let config = Config {
        targets: vec![Address::Tcp(format!("localhost:{port}"))],
        load: Load::Closed,
        connections: 4,
        depth: 32,
        requests_max: Some(20_000),
        duration_ns: 60_000 * MS,
        timeout_ns: 20_000 * MS,
        ..Config::default()
    };
    let one_by_one = run(&config, |_| OneKeyRequests::new(200), &Control::new(0.0));
    let batches = Config { batch: 16, ..config.clone() };
    let batched = run(&batches, |_| OneKeyRequests::new(200), &Control::new(0.0));
    let paced = Config { load: Load::Open(SendPlan::constant()), requests_max: Some(800), depth: 16, ..batches };
    let paced = run(&paced, |_| OneKeyRequests::new(200), &Control::new(4_000.0));
    memcached.kill().unwrap();
    memcached.wait().unwrap();
    assert_eq!(stored, Some(true));
    for (run, requests) in [(one_by_one, 20_000), (batched, 20_000), (paced, 800)] {
        let run = run.unwrap();
        let totals = run.bulk.totals;
        assert_eq!((totals.answered, totals.hits, totals.value_bytes_read), (requests, requests, 200 * requests));
        assert_eq!(run.bulk.response.count(), requests, "each reply of a batch is recorded separately");
    }
}

#[test]
fn refused_connection_error_names_the_address() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = Config { targets: vec![Address::Tcp(port.to_string())], ..Config::default() };
    let error = run(&config, |_| OneKeyRequests::new(1), &Control::new(1.0)).unwrap_err().to_string();
    assert!(error.contains(&port.to_string()) && error.contains("refused"), "{error}");
    let config = Config { targets: vec![Address::Unix(socket_path("nobody"))], threads: 2, connections: 9, ..config };
    let error = run(&config, |_| OneKeyRequests::new(1), &Control::new(1.0)).unwrap_err().to_string();
    assert!(error.contains("unix:") && error.contains("No such file"), "{error}");
}

#[test]
fn a_run_without_a_target_is_refused_with_every_fault() {
    let config = Config { depth: 0, batch: 2, load: Load::Open(SendPlan::constant()), ..Config::default() };
    let Err(Error::Config(faults)) = run(&config, |_| OneKeyRequests::new(1), &Control::new(1.0)) else {
        panic!("refused")
    };
    assert_eq!(faults.len(), 3, "{faults:?}");
}

#[test]
fn each_cause_that_limits_the_generator_is_named() {
    let thread = |run_ns, polled_ns, preempted_ns| ThreadUse {
        name: "load-0".to_owned(),
        cpu: None,
        wall_ns: 1_000,
        run_ns,
        polled_ns,
        preempted_ns,
        involuntary_switches: 0,
    };
    let watched = |thread, steal_share| GeneratorUse { threads: vec![thread], steal_share, timeline: Vec::new() };
    let calm = crate::measure::Snapshot::default();
    let found = |watched| limits(&watched, &calm, MS);
    assert_eq!(found(watched(thread(1_000, 100, 0), 0.0)), [], "polling does not count as work");
    assert!(matches!(found(watched(thread(1_000, 10, 0), 0.0))[..], [Limit::Cpu { .. }]));
    assert!(matches!(found(watched(thread(500, 0, 200), 0.0))[..], [Limit::Preempted { .. }]));
    assert!(matches!(found(watched(thread(500, 0, 0), 0.2))[..], [Limit::Steal { .. }]));
    let mut late = crate::measure::Snapshot::default();
    late.lateness.record(3 * MS);
    let limits = limits(&watched(thread(500, 0, 0), 0.0), &late, MS);
    assert!(matches!(limits[..], [Limit::Late { .. }]));
    assert!(limits[0].to_string().contains("3000 us late"), "{}", limits[0]);
}
