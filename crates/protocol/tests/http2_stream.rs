//! Tests that sessions of HTTP/2 do not depend on how the stream was cut into pieces, and that no damage to them or to
//! their header blocks ends the process.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod http2_walk;

use http2_walk::{assert_blocks, assert_cut, session};

#[test]
fn session_split_at_any_byte_is_the_same_session() {
    let (mut cuts, mut events) = (0, 0);
    for file in corpus::bytes("http2") {
        events += session(&file, &[]).0.len();
        for cut in 0..=file.len() {
            assert_cut(&file, &[cut]);
            cuts += 1;
        }
        assert_cut(&file, &(1..file.len()).collect::<Vec<_>>());
    }
    assert!(cuts > 1500 && events > 40, "{cuts} cuts and {events} events are too few to prove anything");
}

#[test]
fn damaged_sessions_cut_at_random_bytes_are_the_same_sessions() {
    let mut prng = corpus::prng("gannet-protocol", "http2_stream");
    let seeds = corpus::bytes("http2");
    let (mut errors, mut answers) = (0, 0);
    for _ in 0..5000 {
        let mut stream = seeds[prng.below(seeds.len() as u64) as usize].clone();
        if prng.chance(1, 2) {
            corpus::damage(&mut prng, 3, &mut stream);
        } else {
            corpus::change(&mut prng, &mut stream);
        }
        let mut cuts: Vec<usize> = (0..prng.below(6)).map(|_| prng.below(stream.len() as u64 + 1) as usize).collect();
        cuts.sort_unstable();
        assert_cut(&stream, &cuts);
        let events = session(&stream, &[]).0;
        errors += u32::from(events.last().is_some_and(|last| last.starts_with("error")));
        answers += events.iter().filter(|event| event.starts_with("body")).count();
    }
    assert!(errors > 500 && answers > 2000, "{errors} errors and {answers} answers are too few to prove anything");
}

#[test]
fn damaged_header_blocks_are_bounded() {
    let mut prng = corpus::prng("gannet-protocol", "http2_stream");
    let seeds = corpus::bytes("hpack");
    let whole: usize = seeds.iter().map(|seed| assert_blocks(seed)).sum();
    let mut blocks = 0;
    for _ in 0..20_000 {
        let mut bytes = seeds[prng.below(seeds.len() as u64) as usize].clone();
        corpus::change(&mut prng, &mut bytes);
        blocks += assert_blocks(&bytes);
    }
    assert!(whole > 20 && blocks > 20_000, "{whole} and {blocks} blocks are too few to prove anything");
}
