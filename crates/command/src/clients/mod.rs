//! Clients of a server: their passwords, and the facts that are known about each connection.

pub mod auth;
pub mod client_info;
pub mod connection_table;
pub mod endpoint;
