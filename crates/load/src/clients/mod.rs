//! The study of client libraries: how the number of requests in flight decides their throughput and tail.
//!
//! ```text
//!   study   for each repeat, round trip, concurrency, setting and library, one run:
//!     bench       the library's own load program ──> delay_proxy  a connection with a round trip ──> server
//!     table, page                                     medians of the repeats, as a table and as charts
//! ```
//!
//! A run is a process of its own, which prints one JSON object. The proxy delays both directions by half of the round
//! trip, and counts the connections that the library opens.
//!
//! Invariants: the runs of all libraries take turns, so that the state of the machine is the same for all of them. A
//! run without a successful request is reported as such, and is no part of a median. A run in which some requests
//! failed counts, and the table has their share: a cap with a short deadline refuses requests, and must not look idle.

pub mod bench;
pub mod delay_proxy;
pub mod page;
pub mod scenario;
pub mod study;
pub mod table;

#[cfg(test)]
mod tests;
