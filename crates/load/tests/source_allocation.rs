//! Tests that a source allocates no memory after its buffers have grown, for any request and reply.
//!
//! The file has a single test, because the allocator counts only one thread of the process at a time.

use base::clock::UnixMillis;
use gannet_load::traffic::{ReplyOutcome, ReplyProgress, Traffic};
use gannet_load::workload::model::{Order, Sizes};
use gannet_load::workload::{KeyCommand, KeySpace, Protocol, RequestSource, Verb, Workload};
use io::allocation;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

/// Returns a server's reply to the request that is recorded under `name`.
fn answer(protocol: Protocol, name: &str, key: &str, value: &str) -> String {
    let len = value.len();
    match (protocol, name) {
        (Protocol::Resp, "get") => format!("${len}\r\n{value}\r\n"),
        (Protocol::Resp, "get of 2") => "*2\r\n$-1\r\n$-1\r\n".into(),
        (Protocol::Resp, "set" | "fill") => "+OK\r\n".into(),
        (_, "get") => format!("VALUE {key} 0 {len}\r\n{value}\r\nEND\r\n"),
        (_, "get of 2") => "END\r\n".into(),
        _ => "STORED\r\n".into(),
    }
}

#[test]
fn a_warm_source_allocates_nothing() {
    let value = "x".repeat(500);
    for protocol in [Protocol::Memcache, Protocol::Resp] {
        let many = KeyCommand { keys: 2, ..KeyCommand::new(Verb::Get) };
        let space = KeySpace {
            order: Order::Zipf { exponent: 0.99 },
            verbs: vec![KeyCommand::new(Verb::Get), KeyCommand::new(Verb::Set), many],
            value_bytes: Sizes::Range(1, 1000),
            ..KeySpace::default()
        };
        let workload = Workload { protocol, keys: vec![space], fill_on_miss: true, ..Workload::default() };
        workload.validate().expect("it has no fault");
        let mut source = RequestSource::new(&workload, 0, UnixMillis::from_secs(1_700_000_000));
        let names = source.verbs().to_vec();
        let answers: Vec<String> = names.iter().map(|name| answer(protocol, name, "k", &value)).collect();
        let mut out = Vec::new();
        let mut fills = 0u64;
        for round in 0..2 {
            if round == 1 {
                allocation::count_this_thread();
            }
            for _ in 0..20_000 {
                out.clear();
                let mut pending = source.next(0, &mut out);
                let verb = usize::from(pending.verb);
                let (used, progress) = source.answer(&mut pending, answers[verb].as_bytes());
                assert_eq!(used, answers[verb].len());
                assert!(matches!(
                    progress,
                    ReplyProgress::Done { outcome: ReplyOutcome::Hit | ReplyOutcome::Miss, .. }
                ));
                fills += u64::from(names[verb] == "fill");
            }
        }
        assert_eq!(allocation::take_count(), Some(0), "{protocol:?}");
        assert!(fills > 1000, "the misses were filled: {fills}");
    }
}
