//! Record sets: what the records of a set have in common is kept once, outside of them.
//!
//! ```text
//!   Sets ── number ──> Set: name, generation, names of bins ── number ──> Cell: length 1, name 63
//!             ^                                                  ^
//!             └── the first bytes of a record of the set         └── in a record, in the place of a bin's name
//! ```
//!
//! Invariants:
//! - What was added stays, under its number, for the life of the server: a record may name it. Readers take no lock.
//! - A name that finds no room is refused from then on for ever, so a bin has its number in all records of a set or its
//!   text in all. Bounds: [`SETS_MAX`], [`BIN_NAMES_MAX`] in a set and [`BIN_NAMES_ALL_MAX`] in all sets; 4 MiB.
//! - Numbers alone point from one part to another.
//! - An addition that outlives the process is passed to a [`Keeper`] before any record can name it, in the order of its
//!   numbers.

use std::sync::atomic::{
    AtomicU16, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::{BIN_NAME_BYTES_MAX, Name};

/// Number of sets at most, over all namespaces.
pub const SETS_MAX: usize = 1023;
/// Bins of different names in one set that are kept by number; further ones are kept by name, in each record.
pub const BIN_NAMES_MAX: usize = 1008;
/// Number of names of bins at most, over all sets.
pub const BIN_NAMES_ALL_MAX: usize = 32 << 10;
/// The longest name of a set, in bytes.
pub const SET_NAME_BYTES_MAX: usize = 63;

/// Chains that the names of a set, or the sets, are spread over.
const CHAINS: usize = 128;
/// Names in the first chunk; each further one has twice as many.
const CHUNK_FIRST: usize = 16;
const CHUNKS: usize = 6;

const _: () = assert!(CHUNK_FIRST * ((1 << CHUNKS) - 1) == BIN_NAMES_MAX);
const _: () = assert!(SET_NAME_BYTES_MAX == BIN_NAME_BYTES_MAX);

/// A name, and the number of the next one in its chain and one; 0: none.
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

/// The chain of a name.
fn chain(name: &[u8]) -> usize {
    crate::hash(name) as usize % CHAINS
}

/// A set of records.
#[derive(Debug)]
pub struct Set {
    number: u16,
    namespace: u8,
    name: Cell,
    /// Records of another generation are gone.
    generation: AtomicU32,
    chains: [AtomicU16; CHAINS],
    chunks: [OnceLock<Box<[OnceLock<Cell>]>>; CHUNKS],
    names: AtomicUsize,
    /// Changes of which the owner of the set's indexes has to be notified; see [`Set::mark`].
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

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        self.name.name()
    }

    /// The namespace that it is in.
    pub fn namespace(&self) -> u8 {
        self.namespace
    }

    /// Returns the generation that its records must have to be there: another after each truncation.
    pub fn generation(&self) -> u32 {
        self.generation.load(Acquire)
    }

    /// A number for who keeps something about each set; 0 at first.
    pub fn mark(&self) -> u32 {
        self.marks.load(Acquire)
    }

    /// Gives it that number.
    pub fn set_mark(&self, mark: u32) {
        self.marks.store(mark, Release);
    }

    /// The bins that any of its records had, by number.
    pub fn bins(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.names.load(Acquire) as u16).filter_map(|number| self.bin(number))
    }

    fn cell(&self, number: u16) -> Option<&OnceLock<Cell>> {
        let place = usize::from(number) + CHUNK_FIRST;
        let chunk = (place / CHUNK_FIRST).ilog2() as usize;
        self.chunks.get(chunk)?.get()?.get(place - (CHUNK_FIRST << chunk))
    }

    /// The name of this number.
    pub(crate) fn bin(&self, number: u16) -> Option<&[u8]> {
        self.cell(number)?.get().map(Cell::name)
    }

    /// The number of a name, if it has one.
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

/// An addition to the sets, or a change of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added<'n> {
    /// A set, whose number is one more than that of the one before.
    Set {
        /// The namespace that it is in.
        namespace: u8,
        /// Name of the set.
        name: &'n [u8],
    },
    /// A name of a bin, whose number is one more than that of the one before in its set.
    Bin {
        /// The set's number.
        set: u16,
        /// The name.
        name: &'n [u8],
    },
    /// A set was truncated, and its records are of this generation from then on.
    Generation {
        /// The set's number.
        set: u16,
        /// The generation.
        generation: u32,
    },
}

/// A keeper of additions that outlive the process.
pub trait Keeper: std::fmt::Debug + Send + Sync {
    /// Keeps it; false if it cannot, and then it is not added.
    fn keep(&self, added: &Added<'_>) -> bool;
}

/// All sets.
#[derive(Debug)]
pub struct Sets {
    keeper: Option<Box<dyn Keeper>>,
    chains: [AtomicU16; CHAINS],
    sets: Box<[OnceLock<Box<Set>>]>,
    /// Number of sets, and of names of bins in all of them.
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    sets: usize,
    names: usize,
}

/// There is no room for another set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySets;

impl Default for Sets {
    fn default() -> Self {
        Self::new()
    }
}

impl Sets {
    /// None yet.
    pub fn new() -> Self {
        Self {
            keeper: None,
            chains: [const { AtomicU16::new(0) }; CHAINS],
            sets: (0..SETS_MAX).map(|_| OnceLock::new()).collect(),
            counts: Mutex::default(),
        }
    }

    /// Passes additions to `keeper` from here on.
    pub fn keep_by(&mut self, keeper: Box<dyn Keeper>) {
        self.keeper = Some(keeper);
    }

    fn keeps(&self, added: Added<'_>) -> bool {
        self.keeper.as_ref().is_none_or(|keeper| keeper.keep(&added))
    }

    /// Adds what was kept: in the order in which it was. What does not fit is left out.
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

    /// Everything that was added, as [`Sets::restore`] takes it.
    pub fn added(&self, each: &mut dyn FnMut(Added<'_>)) {
        for set in self.all() {
            each(Added::Set { namespace: set.namespace, name: set.name() });
            set.bins().for_each(|name| each(Added::Bin { set: set.number, name }));
            each(Added::Generation { set: set.number, generation: set.generation() });
        }
    }

    /// Ends every record that the set has: at once, whatever their number. False if that cannot be kept, and was not
    /// done.
    pub fn truncate(&self, set: &Set) -> bool {
        let _counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = set.generation() + 1;
        let kept = self.keeps(Added::Generation { set: set.number, generation });
        if kept {
            set.generation.store(generation, Release);
        }
        kept
    }

    /// The set of this number.
    #[inline]
    pub fn of(&self, number: u16) -> Option<&Set> {
        self.sets.get(usize::from(number))?.get().map(|set| &**set)
    }

    /// The set of this name.
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

    /// All sets, by number.
    pub fn all(&self) -> impl Iterator<Item = &Set> {
        (0..SETS_MAX as u16).map_while(|number| self.of(number))
    }

    /// The set of this name, which has 1 to [`SET_NAME_BYTES_MAX`] bytes; it is made if it is not there.
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

    /// Has these names be known by number in a set, as far as there is room: before a record is written that has them.
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
            // From here on no name gets a number in this set, also when others are full alone.
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

/// The set of a record that is read or written, with all of them: new names need their count.
#[derive(Clone, Copy, Debug)]
pub struct InSet<'s> {
    pub(crate) sets: &'s Sets,
    pub(crate) set: &'s Set,
}

impl<'s> InSet<'s> {
    /// This set, which is one of `sets`.
    pub fn new(sets: &'s Sets, set: &'s Set) -> Self {
        Self { sets, set }
    }

    /// The set.
    pub fn set(&self) -> &'s Set {
        self.set
    }
}

/// The number of a name in a set, or what stands for it in a record of no set.
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
    fn a_name_has_its_number_in_one_set_alone_and_keeps_it() {
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
    fn names_that_many_threads_learn_at_once_have_one_number_each() {
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
