//! Any bytes as a stream of the graph store's Redis commands to a whole worker, cut anywhere: no panic, nothing is left
//! behind, and the cut changes no answer.
#![no_main]

#[path = "../../crates/server/tests/resp_commands/mod.rs"]
mod resp_commands;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The place of the cut follows from the bytes, so that one input is one run.
    let cut = bytes.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    resp_commands::assert_cut(bytes, &[cut % (bytes.len() + 1)]);
});
