//! Runs the generator against memcached and redis-server, as Debian packages them.
//!
//! The tests compare the generator's counts with the server's counters, which must be equal. A run ends after a number
//! of requests, never after a time.

mod common;
mod ketama;
mod memcached;
mod others;
mod redis;
