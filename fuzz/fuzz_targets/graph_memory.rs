//! Any records in a graph store's memory, with right checksums: no panic when it opens, is read, changed and compacted,
//! and a second restart has the same edges.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/graph/tests/memory_image/mod.rs"]
mod memory_image;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    memory_image::open(memory_image::memory_of(bytes));
});
