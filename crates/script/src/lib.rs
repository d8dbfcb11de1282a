//! Lua scripts as Redis runs them: the interpreter, its sandbox and its libraries.
//!
//! ```text
//!   the worker's stack                         the machine's own stack
//!     Machine::step(Run) ───────────────────────> compile, execute ...
//!     execute the command <────── MachineEvent::Call ─── redis.call(...)
//!     Machine::step(Reply) ─────────────────────> ... continues with the reply
//!     serve other clients <────── MachineEvent::Tick ─── after some thousand instructions,
//!                                                                        or fewer if strings may be long
//!     Machine::step(Continue) ──────────────────> ...
//!     send the reply      <────── MachineEvent::Done ─── the script's result, as a RESP reply
//! ```
//!
//! A machine is one Lua state that runs one script at a time on its own stack. The script can therefore be suspended
//! anywhere, even inside `pcall`, metamethods, `table.sort` and `string.gsub`, without a thread. A switch between the
//! stacks takes about 10 ns.
//!
//! Invariants:
//! - This crate knows no store, session or clock. A script reaches commands only through [`MachineEvent::Call`].
//! - A machine stays on the thread that created it.
//! - After [`Input::Kill`], the script executes at most a few thousand instructions more, whatever it catches.
//! - What a script makes outside of the Lua heap, such as its result, is at most as long as the heap may be.
//! - Scripts cannot change what other scripts see: globals and library tables are read-only.
#![forbid(unsafe_code)]

mod caller;
mod catching;
mod events;
mod exchange;
mod failure;
mod library;
mod machine;
mod numbers;
mod replies;
mod results;
mod sandbox;
mod script;
mod shebang;
#[cfg(test)]
mod tests;
mod vm;

pub use events::{Input, MachineEvent};
pub use machine::Machine;
pub use script::{Digest, RegisteredFunction, Script, digest_of};
pub use shebang::{Header, HeaderError, LibraryError, ScriptFlags, read_library};

/// The maximum size of the heap of one machine, in bytes. Garbage counts until it is collected.
pub const HEAP_BYTES_MAX: usize = 128 << 20;
