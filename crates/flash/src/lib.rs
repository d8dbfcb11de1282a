//! The second storage tier. Items evicted from memory are written to flash. A slot of the index references each item on
//! flash, and a request reads the item from there.
//!
//! ```text
//!   background ──offer──> open regions, in chunks of memory ──full──> write queue ──> device      Flash, log
//!                              │ until a chunk is written, its items are read from memory
//!   worker ──────ask────> device (through a ring or a thread), or chunk ──> verified item ──> collect   Flash, ring
//!   background <─reclaim─ items of the region to be freed next, chunk by chunk <── device         reclaim
//! ```
//!
//! A device is cut into regions of 16 MiB. A region is written once, from its first chunk to its last, with items of
//! similar time to live. Then it is only read, until each of its items has been shown to the store and the region is
//! freed. Data is never changed in place: an item that is overwritten or deleted is simply no longer referenced.
//!
//! ```text
//!   Free ──offer──> Open ──last chunk full──> Sealed ──chosen──> Reclaimed ──every item shown──> Free
//! ```
//!
//! - An item's checksum is seeded with its region and with a random number (salt) that the region gets whenever it is
//!   opened. So bytes from an earlier life or another position never pass for an item ([`mod@entry`]).
//! - The state of the log, the regions and the devices is stored in words, and unwritten data in chunks. Both lie in
//!   the store's memory ([`table`]). If that is a memory file, they outlive the process, and the next process continues
//!   with them.
//! - Only the threads of this crate wait for devices ([`Flash::spawn`]). Workers and the background leave requests and
//!   collect results. Each device has its own threads, so a slow device does not delay the others. A worker with
//!   io_uring submits its reads itself, and the kernel notifies it ([`mod@ring`]).
//! - A device that fails, or does not answer for ten seconds, is no longer used. Its items are misses ([`Lost`]).
//!
//! Memory beyond the store's own: [`Flash::memory_bytes`], all of it allocated at start.
//!
//! If the index is in the file too, its slots reference the items on flash, and a start reads nothing. Otherwise the
//! items are found again while the store serves ([`mod@found`]), and the file records which of them are dead
//! ([`mod@marks`]).
//!
//! # Example
//! ```
//! use base::clock::UnixMillis;
//! use gannet_flash::{Flash, FlashConfig, SimDisk, Sizes};
//! use segment::{IndexPlace, Namespace, Put, StoreConfig, TierBacking};
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
//! let mut ground = TierBacking::lay(&config, None, &plan, now)?;
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
//! guard.items_mut().put(&key, &Put::set(b"hello")).expect("an empty store has room");
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
pub use table::FlashRemainder;
pub use threads::Threads;
