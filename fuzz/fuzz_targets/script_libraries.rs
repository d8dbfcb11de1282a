//! Any bytes as the input of the libraries of scripts: none panics, and what was decoded can be encoded.
#![no_main]

#[path = "../../crates/script/tests/library_walk/mod.rs"]
mod library_walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    library_walk::walk(bytes);
});
