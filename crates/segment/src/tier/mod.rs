//! The store's view of a second tier: a place that evicted items go to and can be read back from.
//!
//! ```text
//!   background:  a drained item ──offer──> the tier copies it, gives its address ──> the slot names that
//!   a handle:      a slot names an address ──ask──> the tier reads ──collect──> the handle: verified bytes, or not
//!   background:  the tier wants a region back ──reclaim──> each of its items: is it still named?
//!   background:  the index is gone with the process before ──find──> each item that is there: a slot names it again
//! ```
//!
//! The store decides which items live. An item on flash is the key's as long as the key's slot names its address, and
//! that changes under the stripe lock like any other item. The tier does not track this. The store reports when no slot
//! names an address any more ([`Tier::release`]); the tier uses that as a count, and it is no promise.
//!
//! - An address is given out once in a life of its region. The tier calls a region free only after each of its items
//!   went through [`Tier::reclaim`].
//! - No method except [`Tier::sync`] waits for a device. The tier refuses what it cannot take now, and the store does
//!   without.
//! - If the index does not outlive the process, the store reports to the tier what the slots would say. [`Tier::name`],
//!   [`Tier::kill`] and [`Tier::change`] count from the instant they return, also for the next process. Of two copies
//!   on flash, the old one is killed before the new one lives, so no key ever has two there. If the process is killed
//!   between the two steps, the item is gone, as if it had been evicted. Of one copy on flash and one in memory, the
//!   new one lives first, and the store has noted both ([`crate::durable::moving`]).

pub(crate) mod by_hash;
pub(crate) mod flash_keys;
pub(crate) mod flash_slots;
pub(crate) mod reads;
pub(crate) mod room;
pub(crate) mod staging;
pub(crate) mod tiered;

use base::clock::UnixMillis;

use crate::index::{Hash, Order};
pub use crate::layout::flash_address::FlashAddress;
use crate::layout::key::{Hasher, Namespace};

/// The part of an item's shape that the store needs when the item comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetainedItem {
    /// Bytes.
    #[default]
    Bytes,
    /// A number, as its eight bytes, little-endian.
    Number,
    /// Something with parts, its kind in front.
    Typed,
}

/// A whole item, with all fields that a second tier has to store.
#[derive(Clone, Copy, Debug)]
pub struct TierItem<'i> {
    /// The hash of its key, by which it is found in its block.
    pub hash: u64,
    /// The namespace's number.
    pub namespace: u8,
    /// The key.
    pub key: &'i [u8],
    /// Shape of the value.
    pub kept: RetainedItem,
    /// The value's bytes.
    pub value: &'i [u8],
    /// Opaque to the store.
    pub client_flags: u32,
    /// Instant at which the item ends, if ever.
    pub expire_at: Option<UnixMillis>,
    /// Its CAS token, if a client knows it.
    pub token: Option<u64>,
    /// Sequence that flushes are compared with.
    pub sequence: u64,
    /// The TTL class that it was in.
    pub class: u8,
    /// True if it was read since it was stored, or was gone before and was stored again.
    pub is_read: bool,
}

impl TierItem<'_> {
    /// Returns the part of the hash that its slot holds besides its place.
    pub fn tag(&self) -> u16 {
        Hash(self.hash).tag()
    }
}

/// The result of a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// Not read yet.
    #[default]
    Nothing,
    /// An item with that hash, whose checksum is right.
    Item(Box<Parts>),
    /// No item in that block is the one: the slot is another key's with the same tag.
    Other,
    /// It could not be read, or is damaged.
    Failed,
}

/// The positions of the item's parts in a read's buffer, and the facts that go with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The namespace's number.
    pub namespace: u8,
    /// The key.
    pub key: std::ops::Range<usize>,
    /// The value.
    pub value: std::ops::Range<usize>,
    /// As [`TierItem::kept`].
    pub kept: RetainedItem,
    /// As [`TierItem::client_flags`].
    pub client_flags: u32,
    /// As [`TierItem::expire_at`].
    pub expire_at: Option<UnixMillis>,
    /// As [`TierItem::token`].
    pub token: Option<u64>,
    /// As [`TierItem::sequence`].
    pub sequence: u64,
}

/// The means by which an item that was read is recognised as the sought one.
#[derive(Clone, Copy, Debug, Default)]
pub enum ReadBy {
    /// Its key has the hash.
    #[default]
    Key,
    /// The hash of its key is one that a slot like this may stand for.
    Slot(SlotMatch),
}

/// Compares keys with what an index slot knows of its item's. Of a slot's hash only those bits count that it knows.
#[derive(Clone, Copy, Debug)]
pub struct SlotMatch {
    pub(crate) hasher: Hasher,
    pub(crate) order: Order,
}

impl SlotMatch {
    /// Returns the hash of a key; `None`: there is no such namespace.
    pub fn hash(&self, namespace: u8, key: &[u8]) -> Option<u64> {
        (usize::from(namespace) < Namespace::MAX).then(|| self.hasher.key(Namespace(namespace), key).hash.0)
    }

    /// Returns true if the slot may be that of a key with this hash.
    pub fn fits(&self, slot_hash: u64, hash: u64) -> bool {
        self.order.slot_hash(Hash(hash)).0 == slot_hash
    }
}

/// A read that a handle requests, and its result.
#[derive(Debug)]
pub struct TierRead {
    /// Handle that the read belongs to.
    pub handle: usize,
    /// The hash of the key that is looked for, or what is known of it.
    pub hash: u64,
    /// Means by which an item at the address is recognised as the one sought.
    pub by: ReadBy,
    /// Address to read.
    pub at: FlashAddress,
    /// Buffer that the tier reads into; the tier makes it as long as it has to be.
    pub buffer: Vec<u8>,
    /// Result of the read.
    pub found: Found,
}

/// The store's verdict on an item in a region that the tier wants back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimed {
    /// No slot names it any more.
    Done,
    /// No slot names this address any more: the item continues at another address.
    Again,
    /// The store cannot decide now: the tier asks again for this item.
    Later,
}

/// The state that a tier has retained from an earlier process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierFound {
    /// Items that slots name, as far as was counted.
    pub items: u64,
    /// True if some of its items are lost: slots may name addresses that [`Tier::may_name`] denies.
    pub lost: bool,
}

/// The result of showing an item that was found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkProgress {
    /// A slot names it.
    Entered,
    /// No slot will name it.
    Gone,
    /// The store cannot decide now: show it again.
    Later,
}

/// The progress of finding all that a tier holds of an earlier process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierFind {
    /// An item was postponed.
    More,
    /// No item is available now.
    Waits,
    /// Every item was shown.
    Whole,
}

/// A visitor of items that are found again. It receives the hash of each item and its address.
pub type TierShow<'v> = dyn FnMut(u64, FlashAddress) -> WalkProgress + 'v;

/// A second tier. See the module `tier`.
pub trait Tier: std::fmt::Debug + Send + Sync {
    /// Takes a copy of the item, which can be read from here on. `None`: it is not taken.
    fn offer(&self, item: &TierItem<'_>) -> Option<FlashAddress>;

    /// Reports that no slot names the address any more, or none ever did.
    fn release(&self, at: FlashAddress);

    /// Begins a read.
    ///
    /// # Errors
    /// The read itself, if too many are in progress: ask again later.
    fn ask(&self, read: TierRead) -> Result<(), TierRead>;

    /// Returns the reads of a handle that have ended, one for each call.
    fn collect(&self, handle: usize) -> Option<TierRead>;

    /// Returns what the tier retains of an earlier process, for the caller that opens the store it goes with.
    fn found(&self) -> TierFound;

    /// Returns true if the address may name an item: of the life that its region is in.
    fn may_name(&self, at: FlashAddress) -> bool;

    /// Reports that a slot is about to name the item there, which was offered last: from here on it lives. Only for a
    /// tier that finds its items again, as is all that follows except the last.
    fn name(&self, at: FlashAddress);

    /// Reports that no slot with this tag names the item there any more: from here on it is dead.
    fn kill(&self, at: FlashAddress, tag: u16);

    /// Reports a change of keys with this hash: any item of theirs that is not found yet is dead from here on.
    fn change(&self, hash: u64);

    /// Returns true if an item with this hash that is being found is dead. Its key's lock is held.
    fn is_gone(&self, hash: u64, at: FlashAddress, tag: u16) -> bool;

    /// Returns true if all is found.
    fn is_found(&self) -> bool;

    /// Shows items of an earlier process, each until it is done with, as long as some are at hand and `show` does not
    /// put one off. Several threads may call it at once.
    fn find(&self, show: &mut TierShow<'_>) -> TierFind;

    /// Shows items of a region that is to be free, each until it is done with, as long as some are at hand and `visit`
    /// does not put one off; true if more are at hand. Of the items, hash and class are left out. `visit` may call
    /// [`Tier::offer`] and [`Tier::release`].
    fn reclaim(&self, now: UnixMillis, visit: &mut Visit<'_>) -> bool;

    /// Syncs all data written so far to the devices, so that it survives a stop of the machine. The caller closes a
    /// store in order, and waits. Data that a device does not take is lost for the next process, which detects that.
    fn sync(&self);
}

/// A visitor of the items of a region. It receives the item, its address, and whether it may continue at another
/// address.
pub type Visit<'v> = dyn FnMut(&TierItem<'_>, FlashAddress, bool) -> Reclaimed + 'v;

/// The parameters of a store with a second tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierPlan {
    /// Slots of the index, which keeps its size: it is changed by the items' keys, and those on flash are far away. A
    /// existing file keeps the number that it was created with.
    pub index_slots: u64,
    /// Bytes of all that the tier lies on: a file that was made beside another tier is refused.
    pub bytes: u64,
    /// Regions that it is cut into.
    pub regions: usize,
    /// The number of words that the tier persists.
    pub words: usize,
    /// The number of chunks of bytes that it persists.
    pub chunks: usize,
    /// Bytes of a chunk, a multiple of a page.
    pub chunk_bytes: usize,
    /// True if it finds its items again, because the index does not outlive the process.
    pub finds: bool,
}
