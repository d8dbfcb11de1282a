//! Secondary indexes of record sets, and how they are maintained.
//!
//! ```text
//!   a change of a record, where there are indexes:
//!     lock      the stripe of its key's hash (or park)
//!     change    the record, and note the values that its indexed bins had and have
//!     note      insert the new values as entries, then remove the old ones
//!     unlock, and only then reply
//! ```
//!
//! Invariants:
//! - Every record that has an indexed value, and whose change was acknowledged, has its entry. So a query finds all
//!   acknowledged records.
//! - A stale entry may remain if a record was deleted as a key, evicted or has expired, or its set was truncated. A
//!   query checks the record, so it never returns a stale entry. Each new entry checks two old ones and removes stale
//!   ones.
//! - The memory of all indexes is taken from that of the store, byte for byte.

use record::{Index, IndexFull, IndexPosting, IndexType};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The maximum number of indexes, over all sets.
pub const INDEXES_MAX: usize = 64;
/// The number of locks that the keys share.
const STRIPES: usize = 256;
/// The number of entries that are checked for each new one.
const CHECKED_PER_INSERT: usize = 2;

/// The state of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum IndexState {
    /// Earlier records are being entered.
    Building,
    /// All records are entered.
    Ready,
    /// There was no room for an entry, and the index serves no more queries.
    Full,
}

/// One index: of one bin of the records of one set.
#[derive(Debug)]
pub struct SetIndex {
    /// The number of the set.
    pub set: u16,
    /// The bin's name.
    pub bin: Box<[u8]>,
    /// Type of its values.
    pub kind: IndexType,
    /// The memory set aside for it, in bytes.
    pub bytes: u64,
    state: AtomicU8,
    entries: Mutex<(Index, IndexPosting)>,
}

impl SetIndex {
    /// Returns its state.
    pub fn state(&self) -> IndexState {
        match self.state.load(Acquire) {
            0 => IndexState::Building,
            1 => IndexState::Ready,
            _ => IndexState::Full,
        }
    }

    /// Marks the index as complete: all earlier records are entered.
    pub fn built(&self) {
        let _ = self.state.compare_exchange(0, IndexState::Ready as u8, AcqRel, Acquire);
    }

    fn lock(&self) -> MutexGuard<'_, (Index, IndexPosting)> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.lock().0.len()
    }

    /// Returns true if it has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns at most `most` entries from `from` to `to`, in order.
    pub fn range(&self, from: IndexPosting, to: IndexPosting, most: usize) -> Vec<IndexPosting> {
        self.lock().0.range(from, to).take(most).collect()
    }

    /// Returns true if it has this entry.
    pub fn has(&self, entry: &IndexPosting) -> bool {
        self.lock().0.range(*entry, *entry).next().is_some()
    }

    /// Inserts an entry. Returns a few others, to be checked.
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

    /// Removes an entry.
    pub fn remove(&self, entry: &IndexPosting) {
        self.lock().0.remove(entry);
    }
}

/// The index changes that a change of one record causes.
#[derive(Debug, Default)]
pub struct IndexChanges {
    /// The indexes of the record's set.
    pub of: Vec<Arc<SetIndex>>,
    /// For each index, the place before and after the change.
    pub places: Vec<[Option<(u64, u64)>; 2]>,
}

/// All indexes.
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
    /// It exists already.
    Exists,
    /// There are [`INDEXES_MAX`] already.
    TooMany,
    /// The store cannot continue with so little memory.
    NoMemory,
}

impl Indexes {
    /// Returns true if there are indexes. A change of a record must then lock its key's stripe.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Acquire)
    }

    /// Returns the memory set aside for all indexes, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Acquire) as u64
    }

    /// Locks a key's stripe, which allows a change of its record and entries. Returns `None` if another thread holds
    /// it.
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

    /// Returns the index of a bin.
    pub fn find(&self, set: u16, bin: &[u8]) -> Option<Arc<SetIndex>> {
        self.read().iter().find(|index| index.set == set && *index.bin == *bin).cloned()
    }

    /// Creates an index, in the state [`IndexState::Building`]. `resize` receives the number of bytes that all indexes
    /// will use, and gives the store the rest of the memory. It returns true if the store can continue.
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
        // `bytes` is a client's number: the sum is checked, and nothing is allocated before the store has made room.
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

    /// Drops an index, and returns its memory through `resize`. Returns true if the index existed.
    pub fn drop_index(&self, set: u16, bin: &[u8], resize: impl FnOnce(u64)) -> bool {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = list.iter().position(|index| index.set == set && *index.bin == *bin) else { return false };
        let index = list.remove(at);
        // A thread that still holds the index finds it empty.
        *index.lock() = Default::default();
        index.state.store(IndexState::Full as u8, Release);
        self.bytes.fetch_sub(index.bytes as usize, AcqRel);
        self.any.store(!list.is_empty(), Release);
        resize(self.bytes());
        true
    }

    /// Inserts and removes the entries that a change of a record has moved. The caller holds the stripe of the key's
    /// hash. Returns entries that must be checked.
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

    /// Inserts the values of a record that is older than its indexes, or was copied.
    /// stripe.
    pub fn insert_record(&self, index: &SetIndex, place: (u64, u64), key: u64) {
        index.insert(IndexPosting { order: place.0, more: place.1, key });
    }
}
