//! Reads arbitrary bytes as frames: every seed of the fuzz target, and random mutations of each seed.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod frames_walk;

#[test]
fn every_seed_and_random_changes_of_it_are_messages_or_faults() {
    let mut prng = corpus::prng("gannet-load", "agent_frames");
    let seeds = corpus::seeds("agent_frames");
    let mut messages = 0;
    for (name, bytes) in &seeds {
        let held = frames_walk::assert_both_sides(bytes);
        assert!(held > 0, "{name}: a seed has at least one message");
        messages += held;
        for _ in 0..60 {
            let mut changed = bytes.clone();
            corpus::change(&mut prng, &mut changed);
            frames_walk::assert_both_sides(&changed);
        }
    }
    assert!(seeds.len() >= 5 && messages >= 10, "{} seeds, {messages} messages", seeds.len());
}
