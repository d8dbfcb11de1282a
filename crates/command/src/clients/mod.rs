//! Clients of a server: their passwords, and the state of each connection that other threads can read.

pub mod auth;
pub mod client_info;
pub mod connection_table;
pub mod endpoint;
