//! The server, which connects sockets (`io`), commands (`command`) and the item store (`segment`).
//!
//! ```text
//!   acceptor ── new connection ──> worker 0..N   one thread each; owns its connections end to end
//!                                    │  iteration: wait -> receive -> guard: serve -> send
//!                                    v
//!   background thread  <─ unpark ─ store         evicts, expires, grows the index, in slices
//!   survey thread      ── walks ──> segment headers, huge pages: about once a second, for all other threads
//!   admin thread       ── reads ──> counters and latencies of each worker; no worker takes a lock for it
//! ```
//!
//! Invariants: no async runtime. A worker allocates nothing for ordinary requests once it is warm, and waits only in
//! `Backend::wait`. Every queue and buffer has a maximum. Input beyond a maximum gets a named error, or waits unread in
//! the kernel.
#![forbid(unsafe_code)]

pub mod admin;
pub mod background;
pub mod buffers;
mod checkpoint;
pub mod config;
mod graphs;
pub mod handover;
mod listener;
pub mod log;
pub mod offline;
pub mod place;
mod reactor;
mod running;
mod session;
pub mod shared;
pub mod start;
pub mod survey;
pub mod threads;
mod tier;
pub mod worker;
