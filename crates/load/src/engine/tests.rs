//! Tests of the engine on sockets. Times are only compared where a busy machine can not change the outcome.

use super::*;
use crate::fake::{Lines, Server};
use crate::schedule::Plan;

fn config(address: std::net::SocketAddr) -> Config {
    Config {
        targets: vec![Target::Tcp(address.to_string())],
        duration_ns: 300_000_000,
        slice_ns: 50_000_000,
        drain_ns: 20_000_000_000,
        timeout_ns: 20_000_000_000,
        ..Config::default()
    }
}

#[test]
fn every_request_of_an_open_loop_is_answered_and_filed_once() {
    let server = Server::start(None, 200, None).unwrap();
    let config = Config { threads: 2, connections: 5, depth: 4, ..config(server.address()) };
    let run = run(&config, |_| Lines::new(200), &Control::new(10_000.0)).unwrap();
    let totals = run.bulk.totals;
    assert_eq!(totals.due, 3_000, "0.3 s at 10000 a second");
    assert_eq!((totals.sent, totals.answered, totals.hits, totals.unsent), (3_000, 3_000, 3_000, 0));
    assert_eq!(run.bulk.response.count(), 3_000);
    assert_eq!(run.bulk.service.count(), 3_000);
    assert_eq!(run.bulk.lateness.count(), 3_000);
    assert_eq!(run.bulk.timeline.iter().map(|slice| slice.answered).sum::<u64>(), 3_000);
    assert_eq!(run.bulk.cells.len(), 1);
    assert_eq!((run.kind, run.ending), (LoopKind::Open, Ending::Complete));
    assert_eq!(run.bulk.faults, []);
    assert_eq!(run.watched.threads.len(), 2);
}

#[test]
fn a_closed_loop_ends_with_its_requests() {
    let server = Server::start(None, 200, None).unwrap();
    let config = Config {
        load: Load::Closed,
        depth: 16,
        connections: 3,
        requests_max: Some(10_001),
        ..config(server.address())
    };
    let run = run(&config, |_| Lines::new(200), &Control::new(0.0)).unwrap();
    assert_eq!((run.kind, run.ending), (LoopKind::Closed, Ending::Exhausted));
    assert_eq!(run.bulk.totals.answered, 10_001);
    assert_eq!(server.stop().answered, 10_001);
}

#[test]
fn a_refused_connection_is_an_error_that_says_where() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = run(&config(port), |_| Lines::new(1), &Control::new(1.0)).unwrap_err().to_string();
    assert!(error.contains(&port.to_string()) && error.contains("refused"), "{error}");
}

#[test]
fn a_run_without_a_target_is_refused_with_every_fault() {
    let config = Config { depth: 0, load: Load::Open(Plan::constant()), ..Config::default() };
    let Err(Error::Config(faults)) = run(&config, |_| Lines::new(1), &Control::new(1.0)) else { panic!("refused") };
    assert_eq!(faults.len(), 2, "{faults:?}");
}
