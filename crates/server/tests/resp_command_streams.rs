//! Whole streams of Redis's commands, cut anywhere and damaged: the answers are the same, and nothing is left behind.

mod resp_commands;

use base::prng::Prng;
use resp_commands::{assert_cut, is_timeless, replies};
use std::path::Path;

fn corpus() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/resp_commands");
    let mut files: Vec<_> = std::fs::read_dir(root)
        .expect("the seed corpus is in the repository")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).expect("a readable file")).collect()
}

#[test]
fn a_stream_of_commands_is_answered_alike_however_it_is_cut() {
    let mut prng = Prng::new(5);
    let (mut answered, mut timeless) = (0, 0);
    for file in corpus() {
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
    let corpus = corpus();
    for _ in 0..60 {
        let mut stream = corpus[prng.below(corpus.len() as u64) as usize].clone();
        stream.extend_from_slice(&corpus[prng.below(corpus.len() as u64) as usize]);
        for _ in 0..prng.below(4) {
            let at = prng.below(stream.len() as u64) as usize;
            stream[at] = prng.next_u64() as u8;
        }
        let cut = prng.below(stream.len() as u64 + 1) as usize;
        assert_cut(&stream, &[cut]);
    }
}
