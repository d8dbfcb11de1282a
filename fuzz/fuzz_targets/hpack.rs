//! Any bytes as HPACK header blocks, each after its length: no panic, bounded lists and tables, and the fields as
//! literals are decoded to the same.
#![no_main]

#[path = "../../crates/protocol/tests/http2_walk/mod.rs"]
mod http2_walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    http2_walk::assert_blocks(bytes);
});
