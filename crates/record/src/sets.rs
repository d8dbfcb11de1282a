//! Record sets: data that the records of a set share is stored once, outside the records.
//!
//! ```text
//!   Sets ── number ──> Set: name, generation, names of bins ── number ──> Cell: length 1, name 63
//!             ^                                                  ^
//!             └── the first bytes of a record of the set         └── in a record, in the place of a bin's name
//! ```
//!
//! Invariants:
//! - The number of a set or of a bin name never changes while the server runs, because a record may refer to it.
//!   Readers take no lock.
//! - A bin name for which there is no room never gets a number later. So a bin is stored by number in all records of a
//!   set, or by text in all of them. Limits: [`SETS_MAX`], [`BIN_NAMES_MAX`] in a set and [`BIN_NAMES_ALL_MAX`] in all
//!   sets; 4 MiB.
//! - Sets and names refer to each other only by number.
//! - Additions that must outlive the process are passed to a [`SetStore`] in the order of their numbers, and before any
//!   record can refer to them.

use std::sync::atomic::{
    AtomicU16, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::{BIN_NAME_BYTES_MAX, Name};

/// Maximum number of sets, over all namespaces.
pub const SETS_MAX: usize = 1023;
/// Maximum number of bin names in one set that are stored by number. Records store further names as text.
pub const BIN_NAMES_MAX: usize = 1008;
/// Maximum number of bin names over all sets.
pub const BIN_NAMES_ALL_MAX: usize = 32 << 10;
/// The maximum length of a set's name, in bytes.
pub const SET_NAME_BYTES_MAX: usize = 63;

/// Number of hash chains over which the names of a set, or the sets, are spread.
const CHAINS: usize = 128;
/// The number of names in the first chunk. Each further chunk holds twice as many names as the previous one.
const CHUNK_FIRST: usize = 16;
const CHUNKS: usize = 6;

const _: () = assert!(CHUNK_FIRST * ((1 << CHUNKS) - 1) == BIN_NAMES_MAX);
const _: () = assert!(SET_NAME_BYTES_MAX == BIN_NAME_BYTES_MAX);

/// A name, and the number plus one of the next name in its hash chain. 0 ends the chain.
#[derive(Debug)]
struct Cell {
    next: u16,
    len: u8,
    bytes: [u8; BIN_NAME_BYTES_MAX],
}

impl Cell {
    fn new(name: &[u8], next: u16) -> Self {
        let mut bytes = [0; BIN_NAME_BYTES_MAX];
        bytes[..name.len()].copy_from_slice(name);
        Self { next, len: name.len() as u8, bytes }
    }

    fn name(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Returns the hash chain of a name.
fn chain(name: &[u8]) -> usize {
    (crate::coding::hash::unkeyed(name) >> 32) as usize % CHAINS
}

/// A set of records.
#[derive(Debug)]
pub struct Set {
    number: u16,
    namespace: u8,
    name: Cell,
    /// The set's generation. Records with another generation count as deleted.
    generation: AtomicU32,
    chains: [AtomicU16; CHAINS],
    chunks: [OnceLock<Box<[OnceLock<Cell>]>>; CHUNKS],
    names: AtomicUsize,
    /// A number that the owner of the set's indexes stores here: see [`Set::mark`].
    marks: AtomicU32,
}

impl Set {
    fn new(number: u16, namespace: u8, name: Cell) -> Self {
        Self {
            number,
            namespace,
            name,
            generation: AtomicU32::new(1),
            chains: [const { AtomicU16::new(0) }; CHAINS],
            chunks: [const { OnceLock::new() }; CHUNKS],
            names: AtomicUsize::new(0),
            marks: AtomicU32::new(0),
        }
    }

    /// Returns the set's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the set's name.
    pub fn name(&self) -> &[u8] {
        self.name.name()
    }

    /// Returns the namespace of the set.
    pub fn namespace(&self) -> u8 {
        self.namespace
    }

    /// Returns the set's current generation. Records with another generation count as deleted. Each truncation changes
    /// the generation.
    pub fn generation(&self) -> u32 {
        self.generation.load(Acquire)
    }

    /// Returns a number that the owner of per-set data can store with the set; 0 at first.
    pub fn mark(&self) -> u32 {
        self.marks.load(Acquire)
    }

    /// Sets the number that [`Set::mark`] returns.
    pub fn set_mark(&self, mark: u32) {
        self.marks.store(mark, Release);
    }

    /// Returns all registered bin names of the set, by number. A name stays registered after its last bin is deleted.
    pub fn bins(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.names.load(Acquire) as u16).filter_map(|number| self.bin(number))
    }

    fn cell(&self, number: u16) -> Option<&OnceLock<Cell>> {
        let place = usize::from(number) + CHUNK_FIRST;
        let chunk = (place / CHUNK_FIRST).ilog2() as usize;
        self.chunks.get(chunk)?.get()?.get(place - (CHUNK_FIRST << chunk))
    }

    /// Returns the bin name with this number.
    pub(crate) fn bin(&self, number: u16) -> Option<&[u8]> {
        self.cell(number)?.get().map(Cell::name)
    }

    /// Returns the number of a bin name, if it has one.
    pub(crate) fn number_of(&self, name: &[u8]) -> Option<u16> {
        let mut at = self.chains[chain(name)].load(Acquire);
        while at > 0 {
            let cell = self.cell(at - 1)?.get()?;
            if cell.name() == name {
                return Some(at - 1);
            }
            at = cell.next;
        }
        None
    }
}

/// An addition to the sets, or a change of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added<'n> {
    /// A new set. Its number is that of the previous set plus one.
    Set {
        /// The namespace of the set.
        namespace: u8,
        /// Name of the set.
        name: &'n [u8],
    },
    /// A new bin name. Its number is that of the previous name in its set plus one.
    Bin {
        /// The set's number.
        set: u16,
        /// The name.
        name: &'n [u8],
    },
    /// The truncation of a set: from now on its records have this generation.
    Generation {
        /// The set's number.
        set: u16,
        /// The generation.
        generation: u32,
    },
}

/// Persists additions that must outlive the process.
pub trait SetStore: std::fmt::Debug + Send + Sync {
    /// Persists an addition. Returns false if that fails. The caller then drops the addition.
    fn keep(&self, added: &Added<'_>) -> bool;
}

/// All sets.
#[derive(Debug)]
pub struct Sets {
    keeper: Option<Box<dyn SetStore>>,
    chains: [AtomicU16; CHAINS],
    sets: Box<[OnceLock<Box<Set>>]>,
    /// Number of sets, and number of bin names in all of them.
    counts: Mutex<SetCounts>,
}

#[derive(Debug, Default)]
struct SetCounts {
    sets: usize,
    names: usize,
}

/// The error that the maximum number of sets is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySets;

impl Default for Sets {
    fn default() -> Self {
        Self::new()
    }
}

impl Sets {
    /// Creates an empty collection of sets.
    pub fn new() -> Self {
        Self {
            keeper: None,
            chains: [const { AtomicU16::new(0) }; CHAINS],
            sets: (0..SETS_MAX).map(|_| OnceLock::new()).collect(),
            counts: Mutex::default(),
        }
    }

    /// Persists every later addition with `keeper`.
    pub fn persist_by(&mut self, keeper: Box<dyn SetStore>) {
        self.keeper = Some(keeper);
    }

    fn keeps(&self, added: Added<'_>) -> bool {
        self.keeper.as_ref().is_none_or(|keeper| keeper.keep(&added))
    }

    /// Restores a persisted addition. Callers restore additions in the order in which they were persisted. An addition
    /// that does not fit is skipped.
    pub fn restore(&self, added: &Added<'_>) {
        match *added {
            Added::Set { namespace, name } if (1..=SET_NAME_BYTES_MAX).contains(&name.len()) => {
                let _ = self.make(namespace, name);
            }
            Added::Bin { set, name } => drop(self.of(set).map(|set| self.learn(set, name))),
            Added::Generation { set, generation } => {
                if let Some(set) = self.of(set) {
                    set.generation.store(generation, Release);
                }
            }
            Added::Set { .. } => {}
        }
    }

    /// Reports every addition, in the order that [`Sets::restore`] requires.
    pub fn added(&self, each: &mut dyn FnMut(Added<'_>)) {
        for set in self.all() {
            each(Added::Set { namespace: set.namespace, name: set.name() });
            set.bins().for_each(|name| each(Added::Bin { set: set.number, name }));
            each(Added::Generation { set: set.number, generation: set.generation() });
        }
    }

    /// Deletes all records of the set at once, in constant time. Returns false, and does nothing, if the change cannot
    /// be persisted.
    pub fn truncate(&self, set: &Set) -> bool {
        let _counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = set.generation() + 1;
        let kept = self.keeps(Added::Generation { set: set.number, generation });
        if kept {
            set.generation.store(generation, Release);
        }
        kept
    }

    /// Returns the set with this number.
    #[inline]
    pub fn of(&self, number: u16) -> Option<&Set> {
        self.sets.get(usize::from(number))?.get().map(|set| &**set)
    }

    /// Returns the set with this name.
    pub fn find(&self, namespace: u8, name: &[u8]) -> Option<&Set> {
        let mut at = self.chains[chain(name)].load(Acquire);
        while at > 0 {
            let set = self.of(at - 1)?;
            if set.name() == name && set.namespace == namespace {
                return Some(set);
            }
            at = set.name.next;
        }
        None
    }

    /// Returns all sets, by number.
    pub fn all(&self) -> impl Iterator<Item = &Set> {
        (0..SETS_MAX as u16).map_while(|number| self.of(number))
    }

    /// Returns the set with this name of 1 to [`SET_NAME_BYTES_MAX`] bytes, and creates it if necessary.
    ///
    /// # Errors
    /// [`TooManySets`].
    pub fn make(&self, namespace: u8, name: &[u8]) -> Result<&Set, TooManySets> {
        assert!((1..=SET_NAME_BYTES_MAX).contains(&name.len()), "a set's name of {} bytes", name.len());
        if let Some(set) = self.find(namespace, name) {
            return Ok(set);
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = self.find(namespace, name) {
            return Ok(set);
        }
        let number = counts.sets;
        let place = self.sets.get(number).ok_or(TooManySets)?;
        if !self.keeps(Added::Set { namespace, name }) {
            return Err(TooManySets);
        }
        let head = &self.chains[chain(name)];
        let cell = Cell::new(name, head.load(Relaxed));
        let set = place.get_or_init(|| Box::new(Set::new(number as u16, namespace, cell)));
        counts.sets += 1;
        head.store(number as u16 + 1, Release);
        Ok(set)
    }

    /// Returns the number of a bin name, and assigns one if there is room. Called before a record that has the bin is
    /// written.
    pub(crate) fn learn(&self, set: &Set, name: &[u8]) -> Option<u16> {
        if let Some(number) = set.number_of(name) {
            return Some(number);
        }
        if !(1..=BIN_NAME_BYTES_MAX).contains(&name.len()) {
            return None;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = set.number_of(name) {
            return Some(number);
        }
        let number = set.names.load(Relaxed);
        if number >= BIN_NAMES_MAX || counts.names >= BIN_NAMES_ALL_MAX {
            // From here on, no further name gets a number in this set, even if only the limit over all sets is reached.
            return None;
        }
        if !self.keeps(Added::Bin { set: set.number, name }) {
            counts.names = BIN_NAMES_ALL_MAX;
            return None;
        }
        let chunk = (number / CHUNK_FIRST + 1).ilog2() as usize;
        set.chunks[chunk].get_or_init(|| (0..CHUNK_FIRST << chunk).map(|_| OnceLock::new()).collect());
        let head = &set.chains[chain(name)];
        let cell = set.cell(number as u16).expect("its chunk is there");
        cell.get_or_init(|| Cell::new(name, head.load(Relaxed)));
        counts.names += 1;
        set.names.store(number + 1, Release);
        head.store(number as u16 + 1, Release);
        Some(number as u16)
    }
}

/// The set of a record that is read or written, and the collection of all sets, which assigns numbers to new names.
#[derive(Clone, Copy, Debug)]
pub struct InSet<'s> {
    pub(crate) sets: &'s Sets,
    pub(crate) set: &'s Set,
}

impl<'s> InSet<'s> {
    /// Creates the pair of `set` and the collection `sets` that contains it.
    pub fn new(sets: &'s Sets, set: &'s Set) -> Self {
        Self { sets, set }
    }

    /// Returns the set.
    pub fn set(&self) -> &'s Set {
        self.set
    }
}

/// Encodes a bin's name: its number in the set, or its text if it has no number or the record is in no set. `learns`: a
/// new name gets a number.
pub(crate) fn coded<'n>(set: Option<InSet<'_>>, name: &Name<'n>, learns: bool) -> crate::coding::Coded<'n> {
    let Some(InSet { sets, set }) = set else { return name.coded };
    let number = if learns { sets.learn(set, name.text) } else { set.number_of(name.text) };
    crate::coding::Coded::of(&match number {
        Some(number) => crate::Value::Integer(number.into()),
        None => crate::Value::Text(name.text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bin_number_is_stable_and_scoped_to_its_set() {
        let sets = Sets::new();
        let (a, b) = (sets.make(0, b"a").unwrap(), sets.make(0, b"b").unwrap());
        let other = sets.make(1, b"a").unwrap();
        assert_eq!((a.number(), b.number(), other.number()), (0, 1, 2));
        assert_eq!(sets.make(0, b"a").unwrap().number(), 0);
        assert_eq!(sets.find(0, b"none").map(Set::number), None);
        for number in 0..BIN_NAMES_MAX as u16 {
            let name = format!("bin {number}");
            assert_eq!(sets.learn(a, name.as_bytes()), Some(number));
            assert_eq!(a.bin(number), Some(name.as_bytes()));
        }
        for number in (0..BIN_NAMES_MAX as u16).rev() {
            assert_eq!(a.number_of(format!("bin {number}").as_bytes()), Some(number));
        }
        assert_eq!(sets.learn(a, b"one more"), None);
        assert_eq!(sets.learn(b, b"one more"), Some(0));
        assert_eq!((sets.learn(b, &[b'x'; 64]), sets.learn(b, b"")), (None, None));
        assert_eq!((a.bins().count(), b.bins().count(), other.bins().count()), (BIN_NAMES_MAX, 1, 0));
    }

    #[test]
    fn sets_and_names_end_at_their_bounds() {
        let sets = Sets::new();
        for number in 0..SETS_MAX {
            assert_eq!(sets.make(0, format!("set {number}").as_bytes()).map(Set::number), Ok(number as u16));
        }
        assert_eq!(sets.make(0, b"one more").map(Set::number), Err(TooManySets));
        assert_eq!(sets.make(0, b"set 7").map(Set::number), Ok(7));
        let mut learned = 0;
        for set in sets.all() {
            learned += (0..1000).filter(|number| sets.learn(set, format!("{number}").as_bytes()).is_some()).count();
        }
        assert_eq!(learned, BIN_NAMES_ALL_MAX);
    }

    #[test]
    fn concurrently_learned_names_have_a_unique_number_each() {
        let sets = Sets::new();
        let set = sets.make(0, b"set").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let sets = &sets;
                scope.spawn(move || {
                    for step in 0..800usize {
                        let name = format!("{}", (step * 7 + thread * 13) % 300);
                        let number = sets.learn(set, name.as_bytes()).expect("there is room");
                        assert_eq!(set.bin(number), Some(name.as_bytes()));
                        assert_eq!(set.number_of(name.as_bytes()), Some(number));
                    }
                });
            }
        });
        assert_eq!(set.bins().count(), 300);
    }
}
