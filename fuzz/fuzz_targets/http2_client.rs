//! Any bytes of a server to an HTTP/2 client, cut anywhere: no panic, bounded output and buffers, events of open
//! streams only, and the cut changes nothing.
#![no_main]

#[path = "../../crates/protocol/tests/http2_client_walk/mod.rs"]
mod http2_client_walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The place of the cut follows from the bytes, so that one input is one run.
    let cut = bytes.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    http2_client_walk::assert_cut(bytes, &[cut % (bytes.len() + 1)]);
});
