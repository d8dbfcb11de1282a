//! One visit of a worker to a session: the reasons why it ends, its share of work, time, and room for replies.
//!
//! ```text
//!   clock ──> pace: may another operation begin?
//!   progress: why a `serve` stopped ──> the worker     out: replies, and when each operation was done
//! ```
//!
//! Nothing here depends on a command, a protocol or a session.

pub mod clock;
pub mod out;
pub mod pace;
pub mod progress;
