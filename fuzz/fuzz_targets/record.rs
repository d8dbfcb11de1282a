//! Any bytes as a record: nothing that is asked of them panics, and what is made of good ones is good.
#![no_main]

#[path = "../../crates/record/tests/record_walk/mod.rs"]
mod record_walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    record_walk::walk(bytes);
});
