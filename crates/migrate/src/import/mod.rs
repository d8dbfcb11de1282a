//! Imports the data of a Redis or Valkey server: attaches to it as a replica, loads its snapshot into another server,
//! and then follows its commands.
//!
//! ```text
//!                   primary                                             pipe
//!   Redis   --- +FULLRESYNC, RDB ---> snapshot: one request per key ---> SET, RESTORE, RPUSH ...     Gannet
//!   Valkey  --- commands ----------->     tail: each in its order ----> the same commands
//!           <-- REPLCONF ACK offset -----------------------------------< replies
//! ```
//!
//! ```text
//!           attach                  loaded                lag 0, quiet
//!   start ---------> snapshot ----------------> tail ----------------------> compared, done
//!           full         |                      |  ^
//!             ^          | lost                 |  | +CONTINUE: from the offset after the last applied command
//!             '----------'----------------------'--'
//!               +FULLRESYNC: the databases are emptied and loaded again
//! ```
//!
//! - `job`: the parameters, the counts and the outcome
//! - `primary`: the connection to the source: handshake, snapshot bytes, acknowledgements
//! - `snapshot`, `value`: keys of the snapshot, as requests
//! - `tail`: commands of the source, as requests
//! - `held`: expiries that are set when the target has caught up
//! - `missing`: keys that the target lacks because it refused a change of them
//! - `pipe`: the connection to the target, with the requests that wait for replies
//! - `session`: the states above; `compare`: both servers afterwards
//!
//! Invariants:
//! - Each command of the source is sent to the target at most once. After a loss of the source, the stream continues
//!   behind the last command that was sent. After a loss of the target with unanswered requests, nothing shows
//!   which of them were executed, so the databases are emptied and loaded again.
//! - A transaction that the source's loss cuts off is discarded, and read again from its beginning.
//! - Nothing is dropped silently: each key and command that the target does not take, and each key that it evicts, is
//!   counted by its reason.
//! - No key has a value that the source never had: a key whose change was refused is missing at the target.
//! - A key does not expire at the target while a command that extends it is still to be applied.
//! - The source is only read. The target's databases are emptied only if they were empty at the start, or if the user
//!   allows it.
//! - Memory is bounded by the largest element of a value or command (up to three copies), plus a page of
//!   [`value::PAGE_BYTES_MAX`] bytes, plus the unanswered requests: [`pipe::REQUESTS_MAX`] of them and
//!   [`pipe::UNANSWERED_BYTES_MAX`] bytes, plus 8 bytes for each held expiry, plus the names of missing keys. A stream
//!   is one element. The source's own buffer grows while the target is slower than the source's clients.

mod compare;
mod held;
mod job;
mod missing;
mod pipe;
mod primary;
mod session;
mod snapshot;
mod tail;
mod value;

pub use job::{ImportCounts, ImportJob, ImportOutcome, ImportPart, ImportProgress, ImportView};
pub use session::import;
