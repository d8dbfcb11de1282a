//! Whole streams of Redis's commands, cut anywhere and damaged: the answers are the same, and nothing is left behind.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod resp_commands;

use base::prng::Prng;
use resp_commands::{assert_cut, is_timeless, replies};

#[test]
fn a_stream_of_commands_is_answered_alike_however_it_is_cut() {
    let mut prng = Prng::new(5);
    let (mut answered, mut timeless) = (0, 0);
    for file in corpus::bytes("resp_commands") {
        answered += replies(&file, &[]).len();
        timeless += usize::from(is_timeless(&file));
        for _ in 0..4 {
            let mut cuts: Vec<usize> = (0..3).map(|_| prng.below(file.len() as u64 + 1) as usize).collect();
            cuts.sort_unstable();
            assert_cut(&file, &cuts);
        }
    }
    assert!(answered > 1000 && timeless >= 5, "{answered} bytes and {timeless} files are too few to prove anything");
}

#[test]
fn damaged_streams_of_commands_leave_nothing_behind() {
    let mut prng = Prng::new(6);
    let seeds = corpus::bytes("resp_commands");
    for _ in 0..60 {
        let mut stream = seeds[prng.below(seeds.len() as u64) as usize].clone();
        stream.extend_from_slice(&seeds[prng.below(seeds.len() as u64) as usize]);
        corpus::damage(&mut prng, 3, &mut stream);
        let cut = prng.below(stream.len() as u64 + 1) as usize;
        assert_cut(&stream, &[cut]);
    }
}
