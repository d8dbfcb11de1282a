//! Tests that what an HTTP/2 client sees does not depend on how a server's bytes were cut into pieces, and that no
//! damage to them ends the process.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod http2_client_walk;

use http2_client_walk::{assert_cut, session};

#[test]
fn replies_split_at_any_byte_are_the_same_replies() {
    let (mut cuts, mut events) = (0, 0);
    for file in corpus::bytes("http2_client") {
        events += session(&file, &[]).0.len();
        for cut in 0..=file.len() {
            assert_cut(&file, &[cut]);
            cuts += 1;
        }
        assert_cut(&file, &(1..file.len()).collect::<Vec<_>>());
    }
    assert!(cuts > 600 && events > 30, "{cuts} cuts and {events} events are too few to prove anything");
}

#[test]
fn damaged_replies_cut_at_random_bytes_are_the_same_replies() {
    let mut prng = corpus::prng("gannet-protocol", "http2_client_stream");
    let seeds = corpus::bytes("http2_client");
    let (mut errors, mut ends) = (0, 0);
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
        errors += usize::from(events.iter().any(|event| event.starts_with("error")));
        ends += events.iter().filter(|event| event.starts_with("headers") || event.starts_with("end")).count();
    }
    assert!(errors > 500 && ends > 2000, "{errors} errors and {ends} replies are too few to prove anything");
}
