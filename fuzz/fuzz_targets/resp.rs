//! Any bytes as requests to a server and as replies to a client, cut anywhere: no panic, every promise holds, the ways
//! to read a reply agree, and the cut changes nothing.
#![no_main]

#[path = "../../crates/protocol/tests/resp_walk/mod.rs"]
mod resp_walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The place of the cut follows from the bytes, so that one input is one run.
    let cut = bytes.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    resp_walk::assert_cut(bytes, &[cut % (bytes.len() + 1)]);
});
