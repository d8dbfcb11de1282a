//! Any bytes as messages of gRPC calls of all methods to a whole worker: no panic, a reply to each call, and nothing is
//! left behind.
#![no_main]

#[path = "../../crates/server/tests/grpc_calls/mod.rs"]
mod grpc_calls;
#[path = "../../crates/server/tests/grpc_schema/mod.rs"]
mod grpc_schema;

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static SCHEMA: LazyLock<grpc_schema::Schema> = LazyLock::new(grpc_schema::Schema::read);

fuzz_target!(|bytes: &[u8]| {
    grpc_calls::run(&SCHEMA, bytes);
});
