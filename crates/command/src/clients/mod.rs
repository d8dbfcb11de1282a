//! Clients of a server: their authentication, and the connection table that other threads can read.

pub(crate) mod access;
pub(crate) mod argon2id;
pub mod audit;
pub mod auth;
pub mod auth_delay;
pub mod client_info;
pub mod connection_table;
pub mod endpoint;
pub mod faults;
pub mod source;
pub mod tokens;
