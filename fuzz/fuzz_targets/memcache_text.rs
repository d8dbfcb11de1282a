//! Any bytes, cut anywhere: no panic, every promise about requests holds, and the cut changes nothing.
#![no_main]

#[path = "../../crates/protocol/tests/walk/mod.rs"]
mod walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The place of the cut follows from the bytes, so that one input is one run.
    let cut = bytes.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    walk::assert_cut(bytes, &[cut % (bytes.len() + 1)]);
});
