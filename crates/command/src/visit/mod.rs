//! One visit of a worker to a session: why it ends, its limits of work and time, and room for replies.
//!
//! ```text
//!   clock ──> pace: may another operation begin?
//!   progress: the reason why a `serve` stopped ──> the worker     out: replies, and the times of their operations
//! ```
//!
//! No module here depends on a command, a protocol or a session.

pub mod clock;
pub mod out;
pub mod pace;
pub mod progress;
