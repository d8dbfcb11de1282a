//! The second tier: what memory evicts goes on living on flash, where a slot of the index names it, and is read back.
//!
//! ```text
//!   background ──offer──> open regions, in chunks of memory ──full──> write queue ──> device      Flash, log
//!                              │ until it is written, a chunk is read where it is
//!   worker ──────ask────> device (its ring, or a thread), or the chunk ──> found, verified ──> collect   Flash, ring
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
//! - An item's checksum is seeded with its region and a number that the region got when it was opened: bytes of an
//!   earlier life or another place never pass for an item ([`mod@entry`]).
//! - What the log, the regions and the devices are is in words, and what is not written yet in chunks, that lie where
//!   the store's memory lies ([`table`]): in a file they outlive the process, and the next one goes on with them.
//! - The threads of this crate alone wait for devices ([`Flash::spawn`]); workers and background leave and fetch. Each
//!   device has its own, so that one which is slow holds up nobody else. A worker with io_uring begins its reads itself
//!   and is told by the kernel ([`mod@ring`]).
//! - A device that fails, or does not answer for ten seconds, is left alone from then on: what was on it are misses
//!   ([`Lost`]).
//!
//! Memory beyond the store's own: [`Flash::memory_bytes`], all of it had at start.
//!
//! Where the index is in the file too, slots name what is on flash, and nothing is read at a start. Where it is not,
//! what is there is found again while the store serves ([`mod@found`]), and the file says what of it is dead
//! ([`mod@marks`]).
#![forbid(unsafe_code)]

mod aligned;
mod begin;
mod budget;
mod counts;
pub mod device;
pub mod entry;
mod file;
mod flash;
mod footer;
mod foreign;
mod found;
mod front;
mod log;
mod marks;
mod queues;
mod reads;
mod reclaim;
mod regions;
mod ring;
mod sim;
mod table;
mod threads;

pub use counts::{DeviceCounts, FlashCounts};
pub use file::{FileDevice, OpenError, is_at};
pub use flash::{Flash, FlashConfig, Lost, OnLost, Wake};
pub use queues::Scratch;
pub use regions::{FlashSizeError, Sizes};
pub use sim::{Faults, SimDisk, SimHand};
pub use table::LeftOnFlash;
pub use threads::Threads;
