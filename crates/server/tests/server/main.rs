//! The server from outside, in one process: each module is a suite of its own (`cargo test -p gannet-server --test
//! server acl`). Suites that measure or change what belongs to the process (resident memory, file descriptors, the
//! allocator) are beside this folder, each its own binary.

#[path = "../common/mod.rs"]
mod common;
#[path = "../sim/mod.rs"]
mod sim;

mod acl;
mod admin;
mod admin_namespaces;
mod bystander;
mod clients;
mod commands;
mod crossings;
mod differential;
mod flash;
mod flash_commands;
mod flash_query;
mod flash_walks;
mod handover;
mod hot_keys;
mod lease;
mod lifecycle;
mod namespaces;
mod prefix_rules;
mod protocol_doc;
mod pubsub;
mod resp;
mod resp_command_streams;
mod resp_hash;
mod resp_large_hash;
mod resp_long;
mod resp_record_index;
mod resp_record_sets;
mod resp_records;
mod simulated;
mod transactions;
mod watch;
mod wire;
