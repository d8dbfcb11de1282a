//! The records in segments. A record is a run of 32-bit words that begins at an even word of its segment.
//!
//! ```text
//!   word 0   CRC-32C of the following words (of the first `checked` ones if later words change in place), which
//!            begins with the segment's sequence
//!   word 1   length in words, bits 0-21 | kind, bits 22-25 | flags, bits 26-31
//!   name       [graph] [bytes] [text] [creation]                            creation: 0 or missing in older files
//!   edge type  [number] [kind, order] [other] [cap] [bytes] [text: name, schema]
//!   nodes      [first number] [count] [identifier 2] ..
//!   edge       [source] [destination] [LSN 2] [time 2] [type, state, attribute bytes] [attributes]
//!   leaf       see `leaf`
//!   recent     [source] [type] [leaf] [count] [id, edge record, state] ..  changes that are not in the leaf yet
//!   leaves     [source] [type] [count] [first id, leaf or recent] ..       a long list; entries change in place
//!   mark       [node] [time 2] [archived] [LSN 2]                           node-wide archive and restore
//!   object     [node] [time 2] [removed] [bytes] [text] [LSN 2]             LSNs of both: missing in older files
//!   drop       [graph]                                                      the whole graph is dropped
//!   batch      [LSN at its begin 2] [completed] [own LSN 2]                 the last bulk batch
//!   void       ..                                                           without effect, of any length
//! ```
//!
//! A position is the number of a record's first word in the whole memory, divided by 2. Position 0 means none.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::memory::{AtomicU32, crc32c};

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Name = 1,
    EdgeType = 2,
    Nodes = 3,
    Edge = 4,
    Leaf = 5,
    Recent = 6,
    Leaves = 7,
    Mark = 8,
    Object = 9,
    Batch = 10,
    Drop = 11,
    /// A record that a power loss left incomplete: see `commit`.
    Void = 15,
}

impl RecordKind {
    fn of(bits: u32) -> Option<Self> {
        use RecordKind::*;
        let all = [Name, EdgeType, Nodes, Edge, Leaf, Recent, Leaves, Mark, Object, Batch, Drop, Void];
        all.into_iter().find(|kind| *kind as u32 == bits)
    }

    /// Returns how many words the checksum covers if later words change in place.
    fn checked(self, words: usize) -> usize {
        match self {
            Self::Recent => RECENT_LEAF,
            Self::Leaves => 5,
            Self::Void => HEADER_WORDS,
            _ => words,
        }
    }
}

/// The flag of an edge record that a bulk batch wrote before the lists.
pub(crate) const OF_BATCH: u32 = 1;

/// The number of header words.
pub(crate) const HEADER_WORDS: usize = 2;
/// The maximum length of a record, in words, that the header can state.
const LENGTH_MASK: u32 = (1 << 22) - 1;

/// The words of an edge record before its attributes.
pub(crate) const EDGE_WORDS: usize = 9;
/// The word of a `Recent` record that refers to the leaf.
pub(crate) const RECENT_LEAF: usize = 4;
/// The word of a `Recent` record that holds its number of entries, which grows in place.
pub(crate) const RECENT_COUNT: usize = 5;
/// The words of a `Recent` record before its entries.
pub(crate) const RECENT_WORDS: usize = 6;
/// The words of an entry of a `Recent` record.
pub(crate) const RECENT_ENTRY_WORDS: usize = 3;
/// The words of a mark before its sequence number.
pub(crate) const MARK_WORDS: usize = 6;
/// The words of an object before its text.
pub(crate) const OBJECT_WORDS: usize = 7;
/// The words of a `Leaves` record before its entries.
pub(crate) const LEAVES_WORDS: usize = 5;

/// Starts a record in `out`.
pub(crate) fn begin(out: &mut Vec<u32>, kind: RecordKind, flags: u32) {
    out.clear();
    out.extend([0, (kind as u32) << 22 | flags << 26]);
}

/// Completes a record: its length. Adds a word if the length is odd. The pool adds the checksum.
pub(crate) fn seal(out: &mut Vec<u32>) {
    if !out.len().is_multiple_of(2) {
        out.push(0);
    }
    assert!(out.len() <= LENGTH_MASK as usize, "a record of {} words", out.len());
    out[1] |= out.len() as u32;
}

/// Returns the checksum of a completed record in a segment with this sequence. Records of an earlier use of the segment
/// have other checksums.
pub(crate) fn checksum(record: &[u32], sequence: u32) -> u32 {
    let kind = RecordKind::of(record[1] >> 22 & 15).expect("begun with a kind");
    crc32c(sequence, record[1..kind.checked(record.len())].iter().copied())
}

/// Appends a 64-bit number as two words.
pub(crate) fn push_u64(out: &mut Vec<u32>, value: u64) {
    out.extend([value as u32, (value >> 32) as u32]);
}

/// Appends bytes, padded with zeros to whole words.
pub(crate) fn push_bytes(out: &mut Vec<u32>, bytes: &[u8]) {
    out.extend(bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    }));
}

/// A record in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordRef<'a> {
    words: &'a [AtomicU32],
}

impl<'a> RecordRef<'a> {
    /// Returns the record at `position`, which a list head or another record names. If the writer reuses the segment
    /// meanwhile, the record is garbage but lies inside the memory.
    #[inline]
    pub(crate) fn at(memory: &'a [AtomicU32], position: u32) -> Self {
        let start = position as usize * 2;
        let length = (memory[start + 1].load(Relaxed) & LENGTH_MASK) as usize;
        Self { words: &memory[start..memory.len().min(start + length.max(HEADER_WORDS))] }
    }

    /// Returns the record at the start of `words` if its header has a kind, and a length that is not longer than
    /// `words`. Its checksum may be wrong.
    pub(crate) fn unchecked(words: &'a [AtomicU32]) -> Option<(Self, RecordKind)> {
        let header = words.get(1)?.load(Relaxed);
        let (length, kind) = ((header & LENGTH_MASK) as usize, RecordKind::of(header >> 22 & 15)?);
        let words = words.get(..length).filter(|words| words.len() >= HEADER_WORDS && length.is_multiple_of(2))?;
        Some((Self { words }, kind))
    }

    /// Returns the record at the start of `words`, in a segment with this sequence, if its checksum is right.
    pub(crate) fn checked(words: &'a [AtomicU32], sequence: u32) -> Option<(Self, RecordKind)> {
        let (Self { words }, kind) = Self::unchecked(words)?;
        let length = words.len();
        let checked = words.get(1..kind.checked(length))?;
        let is_right = crc32c(sequence, checked.iter().map(|word| word.load(Relaxed))) == words[0].load(Relaxed);
        is_right.then_some((Self { words }, kind))
    }

    /// Makes the record void. Its length stays.
    pub(crate) fn make_void(self, sequence: u32) {
        let header = self.words[1].load(Relaxed) & LENGTH_MASK | (RecordKind::Void as u32) << 22;
        self.words[1].store(header, Relaxed);
        self.words[0].store(crc32c(sequence, [header].into_iter()), Relaxed);
    }

    /// Makes all words one void record.
    pub(crate) fn fill_void(words: &'a [AtomicU32], sequence: u32) {
        words[1].store(words.len() as u32, Relaxed);
        Self { words }.make_void(sequence);
    }

    #[inline]
    pub(crate) fn kind(self) -> Option<RecordKind> {
        RecordKind::of(self.words[1].load(Relaxed) >> 22 & 15)
    }

    #[inline]
    pub(crate) fn flags(self) -> u32 {
        self.words[1].load(Relaxed) >> 26
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        self.words.len()
    }

    #[inline]
    pub(crate) fn words(self) -> &'a [AtomicU32] {
        self.words
    }

    #[inline]
    pub(crate) fn word(self, at: usize) -> u32 {
        self.words[at].load(Relaxed)
    }

    /// Returns a word that the writer changes in place, with everything that the writer wrote before it.
    #[inline]
    pub(crate) fn published(self, at: usize) -> u32 {
        self.words[at].load(Acquire)
    }

    #[inline]
    pub(crate) fn long(self, at: usize) -> u64 {
        u64::from(self.word(at)) | u64::from(self.word(at + 1)) << 32
    }

    /// Returns the sequence number of the record of a mark or an object, or `None` if an earlier version of this
    /// program wrote the record, which gave it none.
    pub(crate) fn node_lsn(self, kind: RecordKind) -> Option<u64> {
        let at = match kind {
            RecordKind::Mark => MARK_WORDS,
            RecordKind::Object => OBJECT_WORDS + (self.word(6) as usize).div_ceil(4),
            _ => return None,
        };
        (self.len() >= at + 2).then(|| self.long(at))
    }

    /// Appends `bytes` bytes from word `at` to `out`.
    pub(crate) fn copy_bytes(self, at: usize, bytes: usize, out: &mut Vec<u8>) {
        let end = out.len() + bytes;
        out.extend((0..bytes.div_ceil(4)).flat_map(|word| self.word(at + word).to_le_bytes()));
        out.truncate(end);
    }

    /// Returns the type, state and number of attribute bytes of an edge record.
    #[inline]
    pub(crate) fn edge_properties(self) -> (u8, u8, usize) {
        let word = self.word(8);
        (word as u8, (word >> 8) as u8, (word >> 16) as usize)
    }
}
