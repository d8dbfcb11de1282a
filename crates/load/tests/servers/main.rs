//! The generator against the servers that people run: Debian's memcached and redis-server.
//!
//! What the generator says that it did is compared with what the server says that was done to it: number by number, and
//! exactly. Runs end after so many requests, never after a time.

mod common;
mod ketama;
mod memcached;
mod others;
mod redis;
