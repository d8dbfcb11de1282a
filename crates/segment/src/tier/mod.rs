//! The store's interface to a second tier, to which evicted items are written and from which they can be read again.
//!
//! ```text
//!   background:  a drained item ──offer──> the tier copies it and returns an address ──> the slot names the address
//!   a handle:    a slot names an address ──ask──> the tier reads ──collect──> the handle gets verified bytes or none
//!   background:  the tier needs a free region ──reclaim──> the store checks for each item whether a slot names it
//!   background:  the index was lost with the previous process ──find──> a slot names each item that was found again
//! ```
//!
//! The store decides which items live. An item on flash is the key's as long as the key's slot names its address, and
//! slots change only under the stripe lock. The tier does not track slots. The store reports when no slot names an
//! address any more ([`Tier::release`]). The tier only counts these reports and does not rely on them.
//! - The tier assigns an address at most once in a life of its region. A region becomes free only after
//!   [`Tier::reclaim`] has handled each of its items.
//! - No method except [`Tier::sync`] waits for a device. The tier refuses an item or a read that it cannot accept now:
//!   the store then evicts the item, or requests the read again later.
//! - If the index does not outlive the process, the store also reports changes of slots to the tier. [`Tier::name`],
//!   [`Tier::kill`] and [`Tier::change`] take effect when they return, also for the next process. If an item moves on
//!   flash, the old copy dies before the new copy is live, so no key ever has two copies on flash. If the process is
//!   killed between the two steps, the item is lost, as if it had been evicted. If an item moves between memory and
//!   flash, the new copy is live first, and the store has recorded both copies ([`crate::durable::moving`]).

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

/// The form of an item's value, which the store needs when it brings the item back to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetainedItem {
    /// Bytes.
    #[default]
    Bytes,
    /// A number, as its eight bytes, little-endian.
    Number,
    /// A typed value, whose first byte is its type.
    Typed,
}

/// A whole item, with all fields that a second tier has to store.
#[derive(Clone, Copy, Debug)]
pub struct TierItem<'i> {
    /// The hash of the item's key, by which the item is found in its block.
    pub hash: u64,
    /// The namespace's number.
    pub namespace: u8,
    /// The key.
    pub key: &'i [u8],
    /// The form of the value.
    pub kept: RetainedItem,
    /// The value's bytes.
    pub value: &'i [u8],
    /// The client flags, which the store does not interpret.
    pub client_flags: u32,
    /// The instant at which the item expires, or `None` if it never expires.
    pub expire_at: Option<UnixMillis>,
    /// The item's CAS token, if a client knows the token.
    pub token: Option<u64>,
    /// The sequence number of the item's segment. If it is below that of a flush, the flush has ended the item.
    pub sequence: u64,
    /// The TTL class of the segment that held the item in memory.
    pub class: u8,
    /// True if the item was read after it was stored, or if it was stored while its key had a ghost.
    pub is_read: bool,
}

impl TierItem<'_> {
    /// Returns the tag, which the item's slot stores.
    pub fn tag(&self) -> u16 {
        Hash(self.hash).tag()
    }
}

/// The result of a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// The read is not complete yet.
    #[default]
    Nothing,
    /// The item was read, and its checksum is correct.
    Item(Box<Parts>),
    /// The block does not contain the item: the slot belongs to another key with the same tag.
    Other,
    /// The item could not be read, or is damaged.
    Failed,
}

/// The positions of an item's key and value in a read's buffer, and the item's other fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The namespace's number.
    pub namespace: u8,
    /// The key.
    pub key: std::ops::Range<usize>,
    /// The value.
    pub value: std::ops::Range<usize>,
    /// The form of the value: see [`TierItem::kept`].
    pub kept: RetainedItem,
    /// The client flags: see [`TierItem::client_flags`].
    pub client_flags: u32,
    /// The expiry: see [`TierItem::expire_at`].
    pub expire_at: Option<UnixMillis>,
    /// The CAS token: see [`TierItem::token`].
    pub token: Option<u64>,
    /// The sequence number: see [`TierItem::sequence`].
    pub sequence: u64,
}

/// The comparison that decides whether an item in the block is the one that is sought.
#[derive(Clone, Copy, Debug, Default)]
pub enum ReadBy {
    /// The item's key must have the hash of the read.
    #[default]
    Key,
    /// The slot must be one that the item's key can have.
    Slot(SlotMatch),
}

/// A comparison of keys with an index slot. The comparison uses only the bits of the hash that the slot determines.
#[derive(Clone, Copy, Debug)]
pub struct SlotMatch {
    pub(crate) hasher: Hasher,
    pub(crate) order: Order,
}

impl SlotMatch {
    /// Returns the hash of a key, or `None` if there is no such namespace.
    pub fn hash(&self, namespace: u8, key: &[u8]) -> Option<u64> {
        (usize::from(namespace) < Namespace::MAX).then(|| self.hasher.key(Namespace(namespace), key).hash.0)
    }

    /// Returns true if the slot may belong to a key with this hash.
    pub fn fits(&self, slot_hash: u64, hash: u64) -> bool {
        self.order.slot_hash(Hash(hash)).0 == slot_hash
    }
}

/// A read that a handle requests, and its result.
#[derive(Debug)]
pub struct TierRead {
    /// The number of the handle that requested the read.
    pub handle: usize,
    /// The hash of the sought key, or the bits of it that the slot determines.
    pub hash: u64,
    /// The comparison by which the sought item is recognised.
    pub by: ReadBy,
    /// The address to read.
    pub at: FlashAddress,
    /// The buffer into which the tier reads. The tier resizes the buffer as needed.
    pub buffer: Vec<u8>,
    /// The result of the read.
    pub found: Found,
}

/// The store's decision on an item in a region that the tier reclaims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimed {
    /// No slot names the item any more.
    Done,
    /// No slot names this address any more, because the item has moved to another address.
    Again,
    /// The store cannot decide now. The tier visits this item again later.
    Later,
}

/// The state that a tier has retained from an earlier process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierFound {
    /// The number of items that slots name, as counted by the earlier process.
    pub items: u64,
    /// True if some of the tier's items are lost. Slots may then name addresses for which [`Tier::may_name`] returns
    /// false.
    pub lost: bool,
}

/// The store's decision on an item of an earlier process that the tier has found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkProgress {
    /// A slot now names the item.
    Entered,
    /// No slot will name the item, because the item is dead.
    Gone,
    /// The store cannot decide now. The tier shows the item again later.
    Later,
}

/// The progress of the search for all items that a tier holds from an earlier process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierFind {
    /// The store postponed the decision on an item.
    More,
    /// No item is ready now; the tier is still reading.
    Waits,
    /// Every item was shown, and the search is complete.
    Whole,
}

/// A visitor of items that are found again. It receives the hash of each item and its address.
pub type TierShow<'v> = dyn FnMut(u64, FlashAddress) -> WalkProgress + 'v;

/// The interface of a second tier. See the module `tier`.
pub trait Tier: std::fmt::Debug + Send + Sync {
    /// Copies the item, which can be read from then on. Returns the item's address, or `None` if the tier does not
    /// accept the item.
    fn offer(&self, item: &TierItem<'_>) -> Option<FlashAddress>;

    /// Reports that no slot names the address any more, or that no slot has ever named it.
    fn release(&self, at: FlashAddress);

    /// Begins a read.
    ///
    /// # Errors
    /// Returns `read` if too many reads are in progress. The caller tries again later.
    fn ask(&self, read: TierRead) -> Result<(), TierRead>;

    /// Returns a completed read of a handle, or `None` if there is none.
    fn collect(&self, handle: usize) -> Option<TierRead>;

    /// Returns the state that the tier has retained from an earlier process, for the opening of the tier's store.
    fn found(&self) -> TierFound;

    /// Returns true if the address may name an item, because it belongs to the current life of its region.
    fn may_name(&self, at: FlashAddress) -> bool;

    /// Reports that a slot is about to name the item at the address, which was offered last. The item is live from then
    /// on. This method and those below, except [`Tier::reclaim`] and [`Tier::sync`], are only called for a tier that
    /// finds its items again ([`TierPlan::finds`]).
    fn name(&self, at: FlashAddress);

    /// Reports that no slot with this tag names the item at the address any more. The item is dead from then on.
    fn kill(&self, at: FlashAddress, tag: u16);

    /// Reports a change of a key with this hash. Items with this hash that the search has not found yet are dead from
    /// then on.
    fn change(&self, hash: u64);

    /// Returns true if an item with this hash, which the search shows, is dead. The caller holds the stripe lock of its
    /// key.
    fn is_gone(&self, hash: u64, at: FlashAddress, tag: u16) -> bool;

    /// Returns true if the search for items of an earlier process is complete.
    fn is_found(&self) -> bool;

    /// Shows items of an earlier process to `show`, each repeatedly until `show` has decided on it. Stops if no item is
    /// ready or `show` postpones an item. Several threads may call this method at the same time.
    fn find(&self, show: &mut TierShow<'_>) -> TierFind;

    /// Shows items of a region that the tier reclaims to `visit`, each repeatedly until `visit` has decided on it.
    /// Stops if no item is ready or `visit` postpones an item. Returns true if more items are ready. The items' hash
    /// and class are not set. `visit` may call [`Tier::offer`] and [`Tier::release`].
    fn reclaim(&self, now: UnixMillis, visit: &mut Visit<'_>) -> bool;

    /// Syncs all data written so far to the devices, so that it survives a power failure, and waits for them. Called
    /// when a store is closed cleanly. If a device fails to write data, the next process detects that this data is
    /// lost.
    fn sync(&self);
}

/// A visitor of the items of a region. It receives the item, its address, and whether the item may be moved to another
/// address on flash.
pub type Visit<'v> = dyn FnMut(&TierItem<'_>, FlashAddress, bool) -> Reclaimed + 'v;

/// The parameters of a store with a second tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierPlan {
    /// The number of slots of the index. The index never grows, because growth needs the hashes of all keys, and
    /// reading the keys on flash would take too long. An existing file retains the number with which it was created.
    pub index_slots: u64,
    /// The size of the tier's devices together, in bytes. A memory file that was created with another size is refused.
    pub bytes: u64,
    /// The number of regions of the tier.
    pub regions: usize,
    /// The number of words that the tier persists.
    pub words: usize,
    /// The number of chunks of bytes that the tier persists.
    pub chunks: usize,
    /// The length of a chunk in bytes, a multiple of the page size.
    pub chunk_bytes: usize,
    /// True if the tier finds its items again, because the index does not outlive the process.
    pub finds: bool,
}
