//! Any bytes as a sequence of requests, accidents and restarts of a whole server: no panic, nothing is left behind.
#![no_main]

#[path = "../../crates/server/tests/whole_server/mod.rs"]
mod whole_server;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    whole_server::run(bytes);
});
