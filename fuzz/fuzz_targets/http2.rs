//! Any bytes after a client's HTTP/2 preface, cut anywhere: no panic, output that a client can read, bounded buffers,
//! and the cut changes nothing.
#![no_main]

#[path = "../../crates/protocol/tests/http2_walk/mod.rs"]
mod http2_walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The place of the cut follows from the bytes, so that one input is one run.
    let cut = bytes.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    http2_walk::assert_cut(bytes, &[cut % (bytes.len() + 1)]);
});
