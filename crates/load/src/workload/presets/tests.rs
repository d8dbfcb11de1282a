use base::clock::UnixMillis;
use protocol::memcache::{Body, Parsed, Request, body, parse};
use protocol::resp;

use super::super::model::{Order, Pace, Protocol, Verb};
use super::super::source::{RequestSource, grpc_requests_read};
use super::*;
use crate::traffic::Traffic;

/// Returns the number of requests that the protocol crate's parsers find in `bytes`, which must contain only requests.
fn requests(protocol: Protocol, mut bytes: &[u8]) -> u64 {
    let mut requests = 0;
    while !bytes.is_empty() {
        let used = if protocol == Protocol::Resp {
            let limits = resp::Limits { long_bytes_min: u32::MAX, ..resp::Limits::REDIS };
            match resp::Parser::new().parse(bytes, &limits) {
                resp::Parsed::Request { consumed, .. } => consumed,
                other => panic!("{other:?}"),
            }
        } else {
            match parse(bytes) {
                Parsed::Request { request: Request::Store(store), consumed } => {
                    assert!(matches!(body(&bytes[consumed..], store.value_len), Body::Value(_)));
                    consumed + store.value_len as usize + 2
                }
                Parsed::Request { consumed, .. } => consumed,
                other => panic!("{other:?} of {:?}", String::from_utf8_lossy(bytes)),
            }
        };
        (bytes, requests) = (&bytes[used..], requests + 1);
    }
    requests
}

#[test]
fn every_preset_is_valid_and_sends_only_legal_requests() {
    let names = names();
    assert!(names.len() > 60, "{}", names.len());
    for name in names {
        let workload = preset(&name).unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
        workload.validate().unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
        assert_eq!(workload.name, name);
        assert!(!workload.about.is_empty());
        let mut source = RequestSource::new(&workload, 0, UnixMillis::from_secs(1_700_000_000));
        if workload.protocol == Protocol::Grpc {
            assert_eq!(grpc_requests_read(&mut source, 200), 200, "{name}");
            continue;
        }
        let mut out = Vec::new();
        (0..200).for_each(|_| {
            source.next(0, &mut out);
        });
        assert_eq!(requests(workload.protocol, &out), 200, "{name}");
    }
}

#[test]
fn presets_match_published_figures() {
    let items = |name: &str| {
        let workload = preset(name).unwrap();
        let space = &workload.keys[0];
        (
            space.count,
            space.key_bytes.mean_bytes(),
            space.value_bytes.mean_bytes(),
            workload.connections * workload.depth,
        )
    };
    assert_eq!(items("pelikan-t2a"), (1_000_000, 4.0, 256.0, 1024));
    assert_eq!(items("memcached-pmem-zipf-99r"), (125_000_000, 30.0, 256.0, 2400));
    assert_eq!(items("aerospike-ec2"), (10_000_000, 23.0, 10.0, 200));
    assert_eq!(items("momento-naive-5000").3, 5000);
    assert_eq!(items("momento-laptop").3, 200);
    assert_eq!(items("momento-inregion-200").3, 200);
    assert_eq!(items("momento-inregion-25").3, 25);
    let paced = preset("mc-crusher-paced").unwrap();
    let Pace::Open { rate_per_s, .. } = paced.pace else { panic!("{:?}", paced.pace) };
    assert!((rate_per_s - 400.0 * 50.0 / 0.075).abs() < 1.0);
}

#[test]
fn presets_of_client_libraries_have_the_values_of_their_table() {
    let table: toml::Table = include_str!("../../../../../clients/presets.toml").parse().unwrap();
    for (name, path) in [
        ("momento-laptop", &["Laptop"][..]),
        ("momento-in-region-default", &["InRegion", "Default"]),
        ("momento-in-region-low-latency", &["InRegion", "LowLatency"]),
        ("momento-lambda", &["Lambda"]),
    ] {
        let section = path.iter().fold(&table, |table, key| table[*key].as_table().unwrap())["v1"].as_table().unwrap();
        let value = |key: &str| section[key].as_integer().unwrap() as u32;
        let workload = preset(name).unwrap();
        assert_eq!(workload.protocol, Protocol::Grpc);
        assert_eq!(workload.connections, value("connections_max"), "{name}");
        assert_eq!(workload.connections * workload.depth, value("requests_in_flight_max"), "{name}");
        assert!(workload.depth <= value("streams_per_connection"), "{name}");
        assert_eq!(workload.timeout.as_ns(), u64::from(value("deadline_ms")) * 1_000_000, "{name}");
    }
}

#[test]
fn twitter_preset_matches_its_published_row() {
    let workload = preset("twitter:cluster4").unwrap();
    let space = &workload.keys[0];
    assert_eq!(space.key_bytes.bounds(), (67, 67));
    assert_eq!(space.value_bytes.mean_bytes(), 2439.0);
    assert_eq!(space.order, Order::Zipf { exponent: 1.1004 });
    assert!((space.once.0 - 0.2933 / 26.5).abs() < 1e-9);
    assert_eq!(space.ttl.len(), 6);
    assert_eq!((space.ttl[2].0.as_ns(), space.ttl[2].1), (3_600_000_000_000, 0.13));
    assert_eq!(workload.pace, Pace::Open { rate_per_s: 5260.0, arrivals: Default::default() });
    assert!(!workload.fill_on_miss && preset("twitter:cluster2").unwrap().fill_on_miss);
    let counters = preset("twitter:cluster22").unwrap();
    assert_eq!(counters.keys.len(), 2);
    assert_eq!(counters.keys[1].verbs[0].verb, Verb::Incr);
    assert_eq!((counters.keys[0].weight, counters.keys[1].weight), (0.82, 0.18));
}

#[test]
fn unknown_preset_suggests_nearest_name() {
    let remedy = |name: &str| preset(name).unwrap_err()[0].to_string();
    assert!(remedy("pelican-t2a").contains("did you mean pelikan-t2a?"));
    assert!(remedy("twitter:cluster5").contains("did you mean twitter:cluster"), "it has no figures");
    assert!(remedy("meta:kvcache").contains("meta:kvcache_reg"));
    assert!(remedy("x").contains("pelikan-t2a, "));
    assert!(text("pelikan-t2a").unwrap().contains("1024") && text("meta:cdn").is_none());
}
