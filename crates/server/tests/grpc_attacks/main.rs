//! Tests of the gRPC service under attack: requests, streams and subscriptions that are meant to delay other clients or
//! to use up memory. The suite has its own process, because some of its tests measure the whole process.

#[path = "../common/mod.rs"]
mod common;
#[path = "../server/grpc_client.rs"]
#[allow(dead_code, reason = "the other suites use the rest")]
mod grpc_client;
#[path = "../grpc_schema/mod.rs"]
mod grpc_schema;
#[path = "../sim/mod.rs"]
mod sim;

mod calls;
mod compression;
mod fields;
mod flood;
mod sends;
mod streams;
mod topics;
