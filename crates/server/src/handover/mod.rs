//! The handover of a server's memory, listeners and connections to another process: `gannet serve --upgrade`.
//!
//! ```text
//!   the new process                                 the running process
//!   finds the server by a listening address    ──>  checks that the peer has the same user
//!   hello: version, its pidfd        ───────────>
//!                            <───────────────────   offer: addresses, sizes; the memory, devices of flash
//!   do layout and sizes fit? reads the settings,
//!   binds addresses that are not offered
//!   ready                    ───────────────────>   accepts no more clients; connections leave between requests;
//!                            <───────────────────   all threads end; the store is closed normally
//!                            connections, listeners, the admin port, the names by which it is found
//!   opens the memory, starts its threads
//!   taken                    ───────────────────>
//!                            <───────────────────   go
//! serves                   ───────────────────>   closes its copies of the connections; watches the new process
//!   over (on a normal exit)  ───────────────────>   exits; without `over` it exits a second after `serves`
//! ```
//!
//! Invariants:
//! - One process works on the memory at a time. The running process resumes only after the new process has exited. The
//!   new process serves only after it received `go`, or after the running process has exited.
//! - If either process is killed at any step, the other one serves. Each holds a pidfd of the other, so it can
//!   distinguish an exit from silence. The running process resumes with the same sockets and the same memory. If the
//!   new process exits within a second after `serves`, the running process takes memory and listeners back, as after a
//!   crash. If the running process is killed, the new process continues with what it has received and binds the missing
//!   addresses itself. If the new process has received nothing yet, it starts as without `--upgrade`.
//! - No client is accepted and then closed: listeners and connections are open in one of the two processes throughout.
//! - A refusal gives the reason, to the new process and in the log of the running process.

mod give;
mod moved;
mod names;
mod take;
mod wire;

use std::fs::File;
use std::sync::Arc;

use arena::MapFile;
use io::listen::{AcceptedStream, Listener};

use crate::start::opened::LoadedUsers;
pub use command::handover::{HandoverConnection, HandoverTransaction, HandoverUser, HandoverWatch};
use command::resp::ChangedSetting;
pub use give::{Giver, ResumeState};
pub(crate) use moved::EarlyInput;
pub use moved::{ReceivedConnection, ReleasedConnection};
pub use names::Names;
pub use take::{Predecessor, Received, Refused, Takeover, memory_of_file};

/// The state that a server hands over to another server.
#[derive(Debug, Default)]
pub struct HandoverState {
    /// The server's listeners, except that of the admin port.
    pub listeners: Vec<Listener>,
    /// The memory of the store, which was closed normally.
    pub memory: Option<Arc<MapFile>>,
    /// A copy of the index, if the index is not in the memory file.
    pub index: Option<Arc<MapFile>>,
    /// The devices of the second tier, in the order of the new process's configuration.
    pub devices: Vec<Arc<File>>,
    /// The memory of the graph store, if it is in a file.
    pub graphs: Option<Arc<MapFile>>,
    /// The Redis users as lines of an ACL file, if commands have changed them since the file was read or written.
    pub users: Option<Vec<u8>>,
    /// The settings that `CONFIG SET` has changed.
    pub settings: Vec<ChangedSetting>,
    /// The server's users, for the case that this process resumes. Never sent to another process.
    pub known: Option<LoadedUsers>,
    /// The open connections with their state.
    pub connections: Vec<ReleasedConnection<AcceptedStream>>,
}
