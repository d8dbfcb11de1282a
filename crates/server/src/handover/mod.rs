//! A server that hands over to another process all that its clients hold on to: `gannet serve --upgrade`.
//!
//! ```text
//!   the new one                                     the running one
//!   connects by the address to be listened on  ──>  who is it? same user
//!   hello: version; the process      ───────────>
//!                            <───────────────────   offer: addresses, sizes; the memory, devices of flash
//!   do layout and sizes fit? reads the settings,
//!   binds what is not offered
//!   ready                    ───────────────────>   accepts no more; connections leave between two requests;
//!                            <───────────────────   all threads end; the memory is left in order
//!                            connections, listeners, the admin port, the names to be found by
//!   opens the memory, starts its threads
//!   taken                    ───────────────────>
//!                            <───────────────────   go
//!   serves                   ───────────────────>   closes its copies of the connections; watches the new one
//!   over (it ends in order)  ───────────────────>   ends; or ends after a second without a word
//! ```
//!
//! Invariants:
//! - One process works on the memory at a time. The running one goes on only when the new one is gone, and the new one
//!   serves only when it was told to go, or when the running one is gone: `go` is the instant of change.
//! - Somebody serves, whichever process is killed at whatever step. Each has a descriptor of the other's process, so it
//!   knows that the other runs no more and does not only keep silent. The running one goes on with the same sockets and
//!   the same memory; one whose new process ends within the second after `serves` takes the memory and the listeners
//!   back as after a crash. The new one goes on with what it has received, and listens itself where it has not; if that
//!   is nothing yet, it starts as without `--upgrade`.
//! - Nobody is accepted and closed: listeners and connections are open in one of the two throughout.
//! - A refusal says why, to who asked and in the log of the running one.

mod carried;
mod give;
mod names;
mod take;
mod wire;

use std::fs::File;
use std::sync::Arc;

use arena::MapFile;
use io::listen::{Listener, Stream};

use crate::start::Known;
pub(crate) use carried::Early;
pub use carried::{Arrival, Carried, CarriedTransaction, CarriedUser, CarriedWatch, Moved};
pub use give::{Giver, Kept};
pub use names::Names;
pub use take::{Predecessor, Received, Refused, Taking, memory_of_file};

/// What a server leaves to another one.
#[derive(Debug, Default)]
pub struct Estate {
    /// Its listeners, those of the admin port not among them.
    pub listeners: Vec<Listener>,
    /// Its memory, left in order.
    pub memory: Option<Arc<MapFile>>,
    /// Its index, where that is not in the memory.
    pub index: Option<Arc<MapFile>>,
    /// The devices of its second tier, in the order of the configuration of who gets them.
    pub devices: Vec<Arc<File>>,
    /// Its users of the protocol of Redis as lines of a file, if they are not those of its file any more.
    pub users: Option<Vec<u8>>,
    /// All that it knows, for itself: nobody else gets it.
    pub known: Option<Known>,
    /// Its connections.
    pub connections: Vec<Moved<Stream>>,
}
