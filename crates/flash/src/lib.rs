//! The second tier: what memory evicts goes on living on flash, where a slot of the index names it, and is read back.
//!
//! ```text
//!   background ──offer──> open regions, in chunks of memory ──full──> write queue ──> device      Flash, log
//!                              │ until it is written, a chunk is read where it is
//!   worker ──────ask────> read queue ──> device, or the chunk ──> found, verified ──> collect     Flash
//!   background <─reclaim─ items of the region that goes next, chunk by chunk <── device           reclaim
//! ```
//!
//! A device is cut into regions of 16 MiB. A region is written once, from its first chunk to its last, with items whose
//! time to live is alike, and is then read only, until each of its items has been shown to the store and it is free.
//! Nothing is ever changed in place: what is overwritten or deleted is no longer named.
//!
//! ```text
//!   Free ──offer──> Open ──last chunk full──> Sealed ──chosen──> Reclaimed ──every item shown──> Free
//! ```
//!
//! - An item's checksum is seeded with its region, the region's life and a secret of this process: bytes of an earlier
//!   life, another place or another process never pass for an item ([`mod@entry`]).
//! - The threads of this crate alone wait for devices ([`Flash::spawn`]); workers and background leave and fetch.
//! - A device that fails is left alone from then on: what was on it are misses ([`Lost`]).
//!
//! Memory beyond the store's own: [`Flash::memory_bytes`], all of it had at start.
//!
//! What is absent: nothing is read when a process begins, so what an earlier one wrote is gone.
#![forbid(unsafe_code)]

mod aligned;
pub mod device;
pub mod entry;
mod file;
mod flash;
mod log;
mod reclaim;
mod regions;
mod sim;
mod threads;

pub use file::{FileDevice, OpenError};
pub use flash::{DeviceCounts, Flash, FlashConfig, FlashCounts, Lost, OnLost, Scratch, Wake};
pub use regions::{FlashSizeError, Sizes};
pub use sim::{Faults, SimDisk, SimHand};
pub use threads::Threads;
