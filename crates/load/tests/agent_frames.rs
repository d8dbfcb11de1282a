//! Frames of any bytes: every seed of the fuzz target is walked, and random changes of each.

mod frames_walk;

use std::path::Path;

use base::prng::Prng;

#[test]
fn every_seed_and_random_changes_of_it_are_messages_or_faults() {
    let seed = std::env::var("GANNET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("repeat: GANNET_SEED={seed} cargo test -p gannet-load --test agent_frames");
    let mut prng = Prng::new(seed);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/agent_frames");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the seed corpus is in the repository")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    files.sort();
    let mut messages = 0;
    for path in &files {
        let bytes = std::fs::read(path).expect("a readable file");
        let held = frames_walk::assert_both_sides(&bytes);
        assert!(held > 0, "{}: a seed holds a message at least", path.display());
        messages += held;
        for _ in 0..60 {
            let mut changed = bytes.clone();
            for _ in 0..1 + prng.below(4) {
                let at = prng.below(changed.len() as u64) as usize;
                match prng.below(3) {
                    0 => changed[at] ^= 1 << prng.below(8),
                    1 => changed.truncate(at.max(1)),
                    _ => changed.insert(at, prng.next_u64() as u8),
                }
            }
            frames_walk::assert_both_sides(&changed);
        }
    }
    assert!(files.len() >= 5 && messages >= 10, "{} seeds, {messages} messages", files.len());
}
