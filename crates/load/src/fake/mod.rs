//! Servers whose delays are known, so that what the generator reports can be compared with what is so.
//!
//! ```text
//!   Script      when the answer to a request is due: pure arithmetic on its arrival
//!     Server    on sockets, one thread                 SimNet    under a simulated clock: exact
//!   Lines       the traffic that both understand: a line asks, a fixed answer comes
//! ```

mod lines;
mod script;
mod server;
mod sim;

pub use lines::OneKeyRequests;
pub use script::{Delay, Misconduct, Script, Stall};
pub use server::{FakeServer, Served};
pub use sim::{SimNet, simulate, simulate_sampler};
