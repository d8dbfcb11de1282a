//! Any bytes as what coordinator and agents of a run on several hosts say to one another: no panic, the same messages
//! however they are cut, and what was read is sent and read back the same.
#![no_main]

#[path = "../../crates/load/tests/frames_walk/mod.rs"]
mod frames_walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    frames_walk::assert_both_sides(bytes);
});
