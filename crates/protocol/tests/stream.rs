//! Tests that the requests in a byte stream do not depend on how the stream was cut into pieces. The streams are the
//! corpus files of the fuzz targets.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod walk;

use base::prng::Prng;
use walk::{assert_cut, whole};

fn seeds() -> Vec<corpus::Seed> {
    [corpus::seeds("memcache_text"), corpus::seeds("memcache_meta")].concat()
}

#[test]
fn stream_split_at_any_byte_yields_same_requests() {
    let mut cuts = 0;
    let mut events = 0;
    for (_, bytes) in seeds() {
        events += whole(&bytes).len();
        if bytes.len() <= 4096 {
            for cut in 0..=bytes.len() {
                assert_cut(&bytes, &[cut]);
                cuts += 1;
            }
        }
    }
    assert!(cuts > 1000 && events > 200, "{cuts} cuts and {events} events are too few to prove anything");
}

#[test]
fn a_stream_cut_at_random_bytes_gives_the_same_requests() {
    let seed = std::env::var("GANNET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("repeat: GANNET_SEED={seed} cargo test -p gannet-protocol --test stream");
    let mut prng = Prng::new(seed);
    let corpus = seeds();
    for _ in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..1 + prng.below(5) {
            bytes.extend_from_slice(&corpus[prng.below(corpus.len() as u64) as usize].1);
        }
        if prng.chance(1, 2) {
            // A damaged stream is tested too.
            for _ in 0..1 + prng.below(8) {
                let at = prng.below(bytes.len() as u64) as usize;
                bytes[at] = prng.next_u64() as u8;
            }
        }
        let mut cuts: Vec<usize> = (0..prng.below(20)).map(|_| prng.below(bytes.len() as u64 + 1) as usize).collect();
        cuts.sort_unstable();
        assert_cut(&bytes, &cuts);
    }
}

#[test]
fn one_byte_at_a_time_gives_the_same_requests() {
    for (_, bytes) in seeds() {
        if bytes.len() <= 4096 {
            assert_cut(&bytes, &(1..bytes.len()).collect::<Vec<_>>());
        }
    }
}
