//! Servers with known delays, to compare the generator's report with the true times.
//!
//! ```text
//!   Script      the instant of each reply, computed from the request's arrival
//!     Server    on sockets, one thread                 SimNet    under a simulated clock: exact
//!   Lines       the traffic of both: request lines with a fixed reply
//! ```

mod lines;
mod script;
mod server;
mod sim;

pub use lines::OneKeyRequests;
pub use script::{Delay, Misconduct, Script, Stall};
pub use server::{FakeServer, Served};
pub use sim::{SimNet, simulate, simulate_sampler};
