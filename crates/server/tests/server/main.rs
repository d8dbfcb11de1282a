//! Tests of the server from outside, in one process. Each module is a suite (`cargo test -p gannet-server --test server
//! acl`). A suite that measures or changes the process (resident memory, file descriptors, the allocator) is a separate
//! binary, in the parent folder.

// The certificates of tests name the crate so.
extern crate tls as gannet_tls;

#[path = "../../../tls/tests/tls/files.rs"]
mod certificate_files;
#[path = "../common/mod.rs"]
mod common;
#[path = "../sim/mod.rs"]
mod sim;

mod acl;
mod acl_changes;
mod admin;
mod admin_access;
mod admin_namespaces;
mod argon2id;
mod audit;
mod auth_delay;
mod blocking;
mod bystander;
mod client_command;
mod clients;
mod command_info;
mod commands;
mod containers;
mod crossings;
mod differential;
mod flash;
mod flash_commands;
mod flash_query;
mod flash_walks;
mod form_changes;
mod full_replies;
mod full_store;
mod functions;
mod graph;
mod graph_drop;
mod graph_load;
mod grpc;
mod grpc_client;
mod grpc_graphs;
mod grpc_steps;
mod grpc_tokens;
mod grpc_topics;
mod handover;
mod hot_keys;
mod info;
mod lease;
mod lifecycle;
mod limits;
mod long_admission;
mod memcache_names;
mod memcache_rights;
mod memcache_table;
mod name_collisions;
mod namespaces;
mod one_key;
mod prefix_rules;
mod protocol_doc;
mod pubsub;
mod random_keys;
mod resp;
mod resp_collections;
mod resp_command_streams;
mod resp_databases;
mod resp_details;
mod resp_dump;
mod resp_dump_streams;
mod resp_elements;
mod resp_encodings;
mod resp_forms;
mod resp_hash;
mod resp_large_hash;
mod resp_long;
mod resp_record_index;
mod resp_record_sets;
mod resp_records;
mod resp_sort_geo;
mod resp_sorted_sets;
mod resp_streams;
mod resp_strings;
mod resp_valkey;
mod scripts;
mod simulated;
mod slow_waiters;
mod swapdb;
mod tls_clients;
mod tracking;
mod transactions;
mod watch;
mod wire;
