//! Tests that execute the seeds of the fuzz target `grpc_calls`, whole and damaged.

#[path = "../../../../fuzz/corpus.rs"]
mod corpus;
#[path = "../grpc_calls/mod.rs"]
mod grpc_calls;

use crate::grpc_schema;
use crate::grpc_schema::Schema;
use base::prng::Prng;
use grpc_calls::{Reached, input, run};
use protocol::grpc::protobuf::Encoder;
use std::collections::HashSet;

const TARGET: &str = "grpc_calls";

/// The number of damaged inputs.
const DAMAGED: usize = 40;

/// Returns a seed for each service: for each of its methods a request with all fields, in two ways, and an empty one.
fn seeds_of_the_schema(schema: &Schema) -> Vec<(String, Vec<u8>)> {
    let mut seeds: Vec<(String, Vec<u8>)> = Vec::new();
    for (place, method) in schema.methods.iter().enumerate() {
        let service = method.path.split('/').nth(1).expect("a service").to_owned();
        let whole = schema.request(method, b"1");
        // One of the requests is not exactly one message.
        let malformed = input(place, [8, 16, 32, 10][place % 4], &whole);
        let calls = [input(place, 64, &whole), input(place, 2, b""), input(place, 4, &whole), malformed].concat();
        // An input has a bounded number of calls.
        match seeds.iter_mut().rev().find(|(name, bytes)| name.starts_with(&service) && bytes.len() < 300) {
            Some((_, bytes)) => bytes.extend(calls),
            None => {
                let part = seeds.iter().filter(|(name, _)| name.starts_with(&service)).count();
                seeds.push((format!("{service}-{part}"), calls));
            }
        }
    }
    // A message that a subscriber receives, and a stream that is reset while its call waits behind others.
    let place = |path: &str| schema.methods.iter().position(|method| method.path == path).expect("a method");
    let mut topic = Encoder::new();
    topic.bytes(2, b"t").message(3, |value| {
        value.item(1, b"text");
    });
    let (subscribe, publish) = (place("/gannet.v1.Topics/Subscribe"), place("/gannet.v1.Topics/Publish"));
    let set = schema.request(&schema.methods[place("/gannet.v1.Cache/Set")], b"k");
    let mixed = [
        input(subscribe, 0, topic.as_slice()),
        input(publish, 0, topic.as_slice()),
        input(place("/gannet.v1.Invalidations/WatchKeys"), 0, b""),
        input(place("/gannet.v1.Cache/Set"), 4, &set),
        input(place("/gannet.v1.Cache/Set"), 5, &set),
        input(place("/gannet.v1.Caches/FlushCache"), 0, b""),
    ];
    seeds.push(("mixed".to_owned(), mixed.concat()));
    seeds
}

#[test]
fn seeds_reach_every_method() {
    let schema = Schema::read();
    if std::env::var_os("GANNET_WRITE_SEEDS").is_some() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/grpc_calls");
        std::fs::create_dir_all(folder).expect("a folder");
        for (name, bytes) in seeds_of_the_schema(&schema) {
            std::fs::write(format!("{folder}/{name}"), bytes).expect("a writable folder");
        }
    }
    let (mut methods, mut calls) = (HashSet::new(), 0);
    for (_, bytes) in corpus::seeds(TARGET) {
        let Reached { methods: reached, calls: more } = run(&schema, &bytes);
        methods.extend(reached);
        calls += more;
    }
    let missing: Vec<&str> =
        (0..schema.methods.len()).filter(|at| !methods.contains(at)).map(|at| &schema.methods[at].path[..]).collect();
    println!("{calls} calls of {} methods", methods.len());
    assert!(missing.is_empty(), "no seed reaches {missing:?}; write the seeds with GANNET_WRITE_SEEDS=1");
}

#[test]
fn damaged_calls_have_replies_and_leave_nothing() {
    let schema = Schema::read();
    let mut prng: Prng = corpus::prng("gannet-server", "grpc_attacks");
    let (seeds, mut calls) = (corpus::bytes(TARGET), 0);
    for _ in 0..DAMAGED {
        let mut bytes = seeds[prng.below(seeds.len() as u64) as usize].clone();
        bytes.extend_from_slice(&seeds[prng.below(seeds.len() as u64) as usize]);
        corpus::damage(&mut prng, 40, &mut bytes);
        calls += run(&schema, &bytes).calls;
    }
    assert!(calls > DAMAGED * 4, "{calls} calls are too few to prove anything");
}
