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
//! - An item's checksum is seeded with its region and a number that the region got when it was opened. So bytes of an
//!   earlier life or another place never pass for an item ([`mod@entry`]).
//! - The state of the log, the regions and the devices is in words, and unwritten data is in chunks. Both lie where the
//!   store's memory lies ([`table`]): in a file they outlive the process, and the next one goes on with them.
//! - Only the threads of this crate wait for devices ([`Flash::spawn`]); workers and background leave requests and
//!   fetch results. Each device has its own threads, so a slow device delays no other. A worker with io_uring begins
//!   its reads itself, and the kernel notifies it ([`mod@ring`]).
//! - A device that fails, or does not answer for ten seconds, is not used any more: its items are misses ([`Lost`]).
//!
//! Memory beyond the store's own: [`Flash::memory_bytes`], all of it allocated at start.
//!
//! Where the index is in the file too, slots name what is on flash, and nothing is read at a start. Where it is not,
//! what is there is found again while the store serves ([`mod@found`]), and the file says what of it is dead
//! ([`mod@marks`]).
//!
//! # Example
//! ```
//! use base::clock::UnixMillis;
//! use gannet_flash::{Flash, FlashConfig, SimDisk, Sizes};
//! use segment::{IndexPlace, Namespace, Put, StoreConfig, TierGround};
//!
//! let config = StoreConfig {
//!     memory_bytes: 800 << 10,
//!     memory_bytes_max: 0,
//!     segment_bytes: Some(16 << 10),
//!     item_bytes_max: 64 << 10,
//!     handles_max: 1,
//!     hash_seed: 1,
//!     huge_pages: false,
//! };
//! let now = UnixMillis(1_700_000_000_000);
//! // A simulated device; [`FileDevice`] is a real one.
//! let (disk, _) = SimDisk::new(2 << 20, 4096, 1);
//! let sizes = Sizes { region_bytes: 64 << 10, chunk_bytes: 16 << 10 };
//! let plan = sizes.plan(&[2 << 20], 16 << 10, IndexPlace::File);
//! let mut ground = TierGround::lay(&config, None, &plan, now)?;
//! let flash = Flash::new(FlashConfig {
//!     devices: vec![Box::new(disk)],
//!     sizes,
//!     handles: 1,
//!     room: ground.take_room(),
//!     seed: 1,
//!     writes_a_day_bytes: 0,
//!     is_view: false,
//!     on_lost: Box::new(|lost| eprintln!("{lost:?}")),
//! });
//! let (store, _background) = ground.store(flash, now)?;
//! let mut handle = store.handle()?;
//! let mut guard = handle.guard(now);
//! let key = guard.key(Namespace::DEFAULT, b"greeting");
//! guard.put(&key, &Put::set(b"hello")).expect("an empty store has room");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
