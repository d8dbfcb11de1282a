//! Whether the load generator can be believed: its times beside computed ones, its throughput beside other generators'.
//!
//! ```text
//!   accuracy   a fake server with known delays on sockets   percentiles beside those of the same run under a
//!                                                           simulated clock, which arithmetic confirms in its tests
//!   agree      redis-server and memcached, closed loop      requests a second beside redis-benchmark's and memcaslap's
//! ```
//! Both are timed, so that neither is a test.

pub mod accuracy;
pub mod agree;
