//! Servers whose delays are known, so that what the generator reports can be compared with what is so.
//!
//! ```text
//!   Script      when the answer to a request is due: pure arithmetic on its arrival
//!     Server    on sockets, one thread
//!   Lines       the traffic that both understand: a line asks, a fixed answer comes
//! ```

mod lines;
mod script;
mod server;

pub use lines::Lines;
pub use script::{Delay, Script, Stall};
pub use server::Server;
