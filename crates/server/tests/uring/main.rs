//! Runs the suites over sockets again with workers that use io_uring. `common::io` selects io_uring by this binary's
//! name.

#[path = "../common/mod.rs"]
mod common;

#[path = "../server/commands.rs"]
mod commands;
#[path = "../server/differential.rs"]
mod differential;
#[path = "../server/flash_query.rs"]
mod flash_query;
#[path = "../server/lifecycle.rs"]
mod lifecycle;
#[path = "../server/watch.rs"]
mod watch;
#[path = "../server/wire.rs"]
mod wire;
