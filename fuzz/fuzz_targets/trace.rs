//! Any bytes as a trace, in every form: no panic, no more entries than bytes can hold, instants that never descend, and
//! what a recorded trace gives is written and read back the same.
#![no_main]

#[path = "../../crates/trace/tests/trace_walk/mod.rs"]
mod trace_walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| trace_walk::assert_all_forms(bytes));
