//! Secondary indexes of record sets, and their maintenance.
//!
//! ```text
//!   a change of a record in a set with indexes:
//!     lock      the stripe of its key's hash; if another thread holds it, park
//!     change    the record, and remember the old and new values of its indexed bins
//!     update    insert the new values as entries, then remove the old ones
//!     unlock, and only then reply
//! ```
//!
//! Invariants:
//! - When a change of a record is acknowledged, each of the record's indexed values has an index entry. A query
//!   therefore finds all acknowledged records.
//! - A stale entry may remain after its record was deleted by a key command, was evicted or has expired, or after the
//!   set was truncated. A query verifies each entry against its record, so stale entries never appear in a reply. Each
//!   insertion into an index checks two old entries and removes those that are stale.
//! - The memory of all indexes is subtracted from the store's memory, byte for byte.

use record::{Index, IndexFull, IndexPosting, IndexType};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The maximum number of indexes of all sets together.
pub const INDEXES_MAX: usize = 64;
/// The number of stripes. A stripe is a set of keys, selected by their hashes, that one lock protects.
const STRIPES: usize = 256;
/// The number of old entries that are checked for staleness at each insertion.
const CHECKED_PER_INSERT: usize = 2;

/// The state of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum IndexState {
    /// The index is being filled with the existing records.
    Building,
    /// The index contains all records and serves queries.
    Ready,
    /// An entry did not fit. The index serves no further queries.
    Full,
}

/// A secondary index on one bin of the records of one set.
#[derive(Debug)]
pub struct SetIndex {
    /// The number of the set.
    pub set: u16,
    /// The bin's name.
    pub bin: Box<[u8]>,
    /// The type of the indexed values.
    pub kind: IndexType,
    /// The memory reserved for the index, in bytes.
    pub bytes: u64,
    state: AtomicU8,
    entries: Mutex<(Index, IndexPosting)>,
}

impl SetIndex {
    /// Returns the state of the index.
    pub fn state(&self) -> IndexState {
        match self.state.load(Acquire) {
            0 => IndexState::Building,
            1 => IndexState::Ready,
            _ => IndexState::Full,
        }
    }

    /// Marks the index as ready. The caller calls this function when the index contains all existing records. Does
    /// nothing if the index is full.
    pub fn built(&self) {
        let _ = self.state.compare_exchange(0, IndexState::Ready as u8, AcqRel, Acquire);
    }

    fn lock(&self) -> MutexGuard<'_, (Index, IndexPosting)> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of entries in the index.
    pub fn len(&self) -> usize {
        self.lock().0.len()
    }

    /// Returns true if the index has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns at most `most` entries from `from` to `to`, in order.
    pub fn range(&self, from: IndexPosting, to: IndexPosting, most: usize) -> Vec<IndexPosting> {
        self.lock().0.range(from, to).take(most).collect()
    }

    /// Returns true if the index contains this entry.
    pub fn has(&self, entry: &IndexPosting) -> bool {
        self.lock().0.range(*entry, *entry).next().is_some()
    }

    /// Inserts an entry. Returns up to [`CHECKED_PER_INSERT`] old entries, which the caller must verify against their
    /// records.
    fn insert(&self, entry: IndexPosting) -> [Option<IndexPosting>; CHECKED_PER_INSERT] {
        let (index, at) = &mut *self.lock();
        if index.insert(entry) == Err(IndexFull) {
            self.state.store(IndexState::Full as u8, Release);
        }
        [(); CHECKED_PER_INSERT].map(|()| {
            *at = index.next(*at)?;
            Some(*at)
        })
    }

    /// Removes an entry from the index.
    pub fn remove(&self, entry: &IndexPosting) {
        self.lock().0.remove(entry);
    }
}

/// The index changes that follow from a change of one record.
#[derive(Debug, Default)]
pub struct IndexChanges {
    /// The indexes of the record's set.
    pub of: Vec<Arc<SetIndex>>,
    /// For each index, the positions in the index of the bin's value before the change and after the change. A position
    /// is `None` if the bin does not exist or has a value of another type.
    pub places: Vec<[Option<(u64, u64)>; 2]>,
}

/// All secondary indexes of a server.
#[derive(Debug)]
pub struct Indexes {
    any: AtomicBool,
    list: RwLock<Vec<Arc<SetIndex>>>,
    bytes: AtomicUsize,
    stripes: Box<[Mutex<()>]>,
}

impl Default for Indexes {
    fn default() -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        Self { any: AtomicBool::new(false), list: RwLock::default(), bytes: AtomicUsize::new(0), stripes }
    }
}

/// The reason why an index cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexFault {
    /// The bin has an index already.
    Exists,
    /// There are already [`INDEXES_MAX`] indexes.
    TooMany,
    /// The store cannot work with the memory that would remain.
    NoMemory,
}

impl Indexes {
    /// Returns true if there are indexes. A thread that changes a record must then lock its key's stripe.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Acquire)
    }

    /// Returns the memory reserved for all indexes, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Acquire) as u64
    }

    /// Locks the stripe of a key. `key` is the key's hash. Only the thread that holds the lock may change the key's
    /// record and its index entries. Returns `None` if another thread holds the lock.
    pub fn stripe(&self, key: u64) -> Option<MutexGuard<'_, ()>> {
        match self.stripes[(key >> 8) as usize % STRIPES].try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<SetIndex>>> {
        self.list.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all indexes.
    pub fn all(&self) -> Vec<Arc<SetIndex>> {
        self.read().clone()
    }

    /// Returns the indexes of a set.
    pub fn of(&self, set: u16) -> Vec<Arc<SetIndex>> {
        self.read().iter().filter(|index| index.set == set).cloned().collect()
    }

    /// Returns the index of a bin of a set.
    pub fn find(&self, set: u16, bin: &[u8]) -> Option<Arc<SetIndex>> {
        self.read().iter().find(|index| index.set == set && *index.bin == *bin).cloned()
    }

    /// Creates an index in the state [`IndexState::Building`]. Calls `resize` with the memory of all indexes, including
    /// the new one, in bytes. `resize` must reduce the store to the rest of the memory, and return false if that memory
    /// is too small for the store.
    ///
    /// # Errors
    /// If the index cannot be created: see [`IndexFault`].
    pub fn create(
        &self,
        set: u16,
        bin: &[u8],
        kind: IndexType,
        bytes: u64,
        resize: impl FnOnce(u64) -> bool,
    ) -> Result<Arc<SetIndex>, IndexFault> {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        if list.iter().any(|index| index.set == set && *index.bin == *bin) {
            return Err(IndexFault::Exists);
        }
        if list.len() >= INDEXES_MAX {
            return Err(IndexFault::TooMany);
        }
        // `bytes` comes from a client. The sum is therefore checked for overflow, and the index is allocated only after
        // the store has released the memory.
        let all = self.bytes().checked_add(bytes).ok_or(IndexFault::NoMemory)?;
        let capacity = usize::try_from(bytes).map_err(|_| IndexFault::NoMemory)?;
        if !resize(all) {
            return Err(IndexFault::NoMemory);
        }
        self.bytes.fetch_add(capacity, AcqRel);
        let entries = Mutex::new((Index::new(capacity), IndexPosting::default()));
        let index = Arc::new(SetIndex { set, bin: bin.into(), kind, bytes, state: AtomicU8::new(0), entries });
        list.push(Arc::clone(&index));
        self.any.store(true, Release);
        Ok(index)
    }

    /// Drops an index, and calls `resize` to return the index's memory to the store. Returns true if the index existed.
    pub fn drop_index(&self, set: u16, bin: &[u8], resize: impl FnOnce(u64)) -> bool {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = list.iter().position(|index| index.set == set && *index.bin == *bin) else { return false };
        let index = list.remove(at);
        // Threads that still hold a reference to the index find the index empty.
        *index.lock() = Default::default();
        index.state.store(IndexState::Full as u8, Release);
        self.bytes.fetch_sub(index.bytes as usize, AcqRel);
        self.any.store(!list.is_empty(), Release);
        resize(self.bytes());
        true
    }

    /// Updates the indexes after a change of a record: inserts the entries of its new values, and then removes those of
    /// its old values. The caller has locked the key's stripe. Returns some entries of other records, which the caller
    /// must verify against these records.
    pub fn note(&self, moves: &IndexChanges, key: u64) -> Vec<(Arc<SetIndex>, IndexPosting)> {
        let mut looked = Vec::new();
        for (index, [old, new]) in moves.of.iter().zip(&moves.places) {
            let entry = |(order, more): (u64, u64)| IndexPosting { order, more, key };
            if let Some(new) = new.map(entry).filter(|_| old != new) {
                looked.extend(index.insert(new).into_iter().flatten().map(|entry| (Arc::clone(index), entry)));
            }
            if let Some(old) = old.map(entry).filter(|_| old != new) {
                index.remove(&old);
            }
        }
        looked
    }

    /// Inserts an entry for a record that was stored before the index was created, or that was copied from another
    /// server. The caller has locked the key's stripe.
    pub fn insert_record(&self, index: &SetIndex, place: (u64, u64), key: u64) {
        index.insert(IndexPosting { order: place.0, more: place.1, key });
    }
}
