//! The tests of the wire once more, with workers that use io_uring: `common::io` goes by this binary's name.
// Each file brings its own copy of `common`, as it does when it stands alone.
#![allow(clippy::duplicate_mod)]

#[path = "commands.rs"]
mod commands;
#[path = "differential.rs"]
mod differential;
#[path = "flash_query.rs"]
mod flash_query;
#[path = "lifecycle.rs"]
mod lifecycle;
#[path = "watch.rs"]
mod watch;
#[path = "wire.rs"]
mod wire;
