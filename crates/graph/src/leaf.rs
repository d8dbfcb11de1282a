//! Leaves: sorted runs of edges, which never change once written. A list of up to 4,096 edges is one leaf.
//!
//! ```text
//!   word 0  CRC-32C          1  length, kind, flags      2  source
//!   word 3  type, bits 0-7 | number of entries, bits 8-20 | marked, bit 21 | width of numbers, bits 22-26 | of times
//!   word 4  earliest time, 48 bits | sequence number, high 16 bits
//!   word 6  sequence number, low 32 bits
//!           [first node number of the range, end of the range]             if the leaf is one of several
//!           [time at which tombstones were marked, in seconds]             if bit 21 of word 3 is set
//!           width 0: node numbers, ascending, one word each
//!           others:  the first node number, then the differences from it, packed with this width in bits
//!           [times: differences from the earliest, packed]                if not all times are equal
//!           [states: one byte each; 4 is a marked tombstone]               if not all edges are live
//!           [attributes: ends, one word each, then the bytes]              if an edge has some
//!   flags   bit 2 states | 3 attributes | 4 one leaf of several
//! ```
//!
//! Packed numbers follow each other without gaps, the lowest bit first; the last word is filled with zeros. Node
//! numbers have 16 bits if that is enough, because two of them in a word are faster to read. Times have an even width
//! of at most 32 bits, or 64.
//!
//! A leaf holds the latest values of all edges in its range when it was written: those of leaves and edge records with
//! lower sequence numbers. A restart can therefore ignore these records.

use std::sync::atomic::Ordering::Relaxed;

use crate::limits::{LEAF_ENTRIES_MAX, LEAF_WORDS_MAX, TIME_MS_MAX};
use crate::memory::AtomicU32;
use crate::record::{self, RecordKind, RecordRef};

/// The state of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EdgeState {
    /// Present.
    Live = 0,
    /// A second colour of presence, such as a block beside a connection. Queries of neighbours skip it.
    Negative = 1,
    /// Hidden, with its attributes, until it is restored.
    Archived = 2,
    /// Removed. The store retains the time, so that an older addition that arrives later has no effect.
    Removed = 3,
}

impl EdgeState {
    /// Returns the state with this number. Numbers that no state has mean `Removed`.
    pub(crate) fn of(number: u8) -> Self {
        match number {
            0 => Self::Live,
            1 => Self::Negative,
            2 => Self::Archived,
            _ => Self::Removed,
        }
    }
}

const STATES: u32 = 1 << 2;
const ATTRIBUTES: u32 = 1 << 3;
const PART: u32 = 1 << 4;
/// The words before the range, the time of marks and the node numbers.
const HEADER: usize = 7;
/// The bit of word 3 of a leaf with the time at which its tombstones were marked.
const MARKED: u32 = 1 << 21;
/// The first bits of word 3 that hold the width of node numbers, and half of the width of times or [`LONG_TIMES`].
const NUMBER_WIDTH: u32 = 22;
const TIME_WIDTH: u32 = 27;
const WIDTH_MASK: u32 = 0x1F;
/// The mark of times of 64 bits.
const LONG_TIMES: u32 = 17;
/// The width of node numbers of which two are in a word.
const HALF_WORD: u32 = 16;
/// The greatest width of packed node numbers. Wider ones would save less than an eighth.
const NUMBER_WIDTH_MAX: u32 = 28;
/// The number of a marked tombstone's state.
const MARKED_STATE: u8 = 4;
const TIME_BITS: u32 = 48;

/// The place of a leaf: its list, the node numbers that it may hold, and its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafPlace {
    pub(crate) source: u32,
    pub(crate) ty: u8,
    /// The first node number of the range, and its end. The end `u32::MAX` is open.
    pub(crate) range: (u32, u32),
    /// A number below 2^48.
    pub(crate) lsn: u64,
}

/// The range of a list's only leaf.
pub(crate) const WHOLE: (u32, u32) = (0, u32::MAX);

/// An edge in a list, as the writer merges it. The attributes are in the buffer of [`LeafEntries`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafEntry {
    pub(crate) id: u32,
    pub(crate) state: EdgeState,
    /// True for a tombstone that was marked: see `tombstones`.
    pub(crate) is_marked: bool,
    pub(crate) time: u64,
    pub(crate) start: u32,
    pub(crate) bytes: u16,
}

impl LeafEntry {
    fn state_number(&self) -> u8 {
        if self.is_marked { MARKED_STATE } else { self.state as u8 }
    }
}

/// Edges of one list, ascending by node number.
#[derive(Debug, Default)]
pub(crate) struct LeafEntries {
    pub(crate) list: Vec<LeafEntry>,
    pub(crate) text: Vec<u8>,
    /// The time at which marked tombstones were marked, in seconds.
    pub(crate) marked_at: Option<u32>,
}

impl LeafEntries {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.text.clear();
        self.marked_at = None;
    }

    pub(crate) fn attributes(&self, entry: &LeafEntry) -> &[u8] {
        &self.text[entry.start as usize..][..usize::from(entry.bytes)]
    }

    /// Returns ranges of entries that fit into one leaf each.
    pub(crate) fn leaves(&self) -> Vec<std::ops::Range<usize>> {
        let mut ranges = Vec::new();
        self.split(0..self.list.len(), &mut ranges);
        ranges
    }

    fn split(&self, range: std::ops::Range<usize>, ranges: &mut Vec<std::ops::Range<usize>>) {
        let list = &self.list[range.clone()];
        let text: usize = list.iter().map(|entry| usize::from(entry.bytes)).sum();
        // The widest form: 1 word of the number, 2 of the time, a quarter of the state, 1 of the attributes' end.
        let words = HEADER + 3 + list.len() * 4 + text / 4 + list.len() / 4 + 4;
        if list.len() <= 1 || (list.len() <= LEAF_ENTRIES_MAX && (text == 0 || words <= LEAF_WORDS_MAX)) {
            ranges.push(range);
        } else {
            let middle = range.start + list.len() / 2;
            self.split(range.start..middle, ranges);
            self.split(middle..range.end, ranges);
        }
    }

    /// Encodes entries as a leaf.
    pub(crate) fn encode(&self, entries: std::ops::Range<usize>, place: &LeafPlace, out: &mut Vec<u32>) {
        let list = &self.list[entries];
        // One pass: the entries of a full leaf do not fit into the first cache of a CPU.
        let (mut earliest, mut latest, mut states, mut bytes, mut has_marks) = (u64::MAX, 0, 0, 0, false);
        for entry in list {
            (earliest, latest) = (earliest.min(entry.time), latest.max(entry.time));
            (states, bytes) = (states | entry.state as u8, bytes | entry.bytes);
            has_marks |= entry.is_marked;
        }
        let earliest = if list.is_empty() { 0 } else { earliest };
        let (first, last) = (list.first().map_or(0, |entry| entry.id), list.last().map_or(0, |entry| entry.id));
        let widths = Widths { numbers: number_width(list.len(), first, last), times: time_width(latest - earliest) };
        let has = |flag: u32, is: bool| if is { flag } else { 0 };
        let flags = has(STATES, states != EdgeState::Live as u8) | has(ATTRIBUTES, bytes > 0);
        let marked_at = self.marked_at.filter(|_| has_marks);
        begin_leaf(out, flags, place, list.len(), widths, earliest, marked_at);
        push_numbers(out, widths.numbers, first, list.iter().map(|entry| entry.id));
        pack(out, widths.times, list.iter().map(|entry| entry.time - earliest));
        if flags & STATES != 0 {
            let states: Vec<u8> = list.iter().map(LeafEntry::state_number).collect();
            record::push_bytes(out, &states);
        }
        if flags & ATTRIBUTES != 0 {
            let mut text = Vec::new();
            for entry in list {
                text.extend(self.attributes(entry));
                out.push(text.len() as u32);
            }
            record::push_bytes(out, &text);
        }
        record::seal(out);
    }
}

/// The widths in bits of a leaf's node numbers, 0 if each is a word, and of its times, 0 if they are equal.
#[derive(Clone, Copy, Debug)]
struct Widths {
    numbers: u32,
    times: u32,
}

impl Widths {
    /// Reads the widths from word 3. A leaf that this program did not write may have times of another width.
    fn of(properties: u32) -> Self {
        let times = match properties >> TIME_WIDTH & WIDTH_MASK {
            LONG_TIMES => u64::BITS,
            half => half * 2,
        };
        Self { numbers: properties >> NUMBER_WIDTH & WIDTH_MASK, times }
    }

    fn bits(self) -> u32 {
        let times = if self.times == u64::BITS { LONG_TIMES } else { self.times / 2 };
        self.numbers << NUMBER_WIDTH | times << TIME_WIDTH
    }

    /// Returns the number of words of all node numbers, and of all times.
    fn words(self, count: usize) -> (usize, usize) {
        let numbers = if self.numbers == 0 { count } else { 1 + packed_words(count, self.numbers) };
        (numbers, packed_words(count, self.times))
    }
}

/// Returns the width that stores `count` node numbers from `first` to `last`.
fn number_width(count: usize, first: u32, last: u32) -> u32 {
    let width = (u32::BITS - (last - first).leading_zeros()).max(HALF_WORD);
    let is_shorter = 1 + packed_words(count, width) < count.max(4);
    if width <= NUMBER_WIDTH_MAX && count > 2 && is_shorter { width } else { 0 }
}

/// Returns the width of times that are up to `span` later than the earliest.
fn time_width(span: u64) -> u32 {
    match u64::BITS - span.leading_zeros() {
        width @ 0..=32 => width.next_multiple_of(2),
        _ => u64::BITS,
    }
}

fn packed_words(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(32)
}

/// Appends packed numbers of at most 32 bits, or of 64.
fn pack(out: &mut Vec<u32>, width: u32, numbers: impl Iterator<Item = u64>) {
    if width == 0 {
        return;
    }
    if width == u64::BITS {
        return numbers.for_each(|number| record::push_u64(out, number));
    }
    let (mut pending, mut bits) = (0, 0);
    for number in numbers {
        pending |= number << bits;
        bits += width;
        if bits >= u32::BITS {
            out.push(pending as u32);
            pending >>= u32::BITS;
            bits -= u32::BITS;
        }
    }
    if bits > 0 {
        out.push(pending as u32);
    }
}

/// Returns a packed number. `words` begins with the first one, and `width` is 1 to 32 or 64.
#[inline(always)]
fn packed(words: &[AtomicU32], width: u32, index: usize) -> u64 {
    let bit = index * width as usize;
    let (word, shift) = (bit / 32, bit % 32);
    // The number is in this word and the next. If it is in the last word alone, that is read twice.
    let low = words[word].load(Relaxed);
    let high = words[(word + 1).min(words.len() - 1)].load(Relaxed);
    (u64::from(low) | u64::from(high) << 32) >> shift & (u64::MAX >> (u64::BITS - width))
}

fn push_numbers(out: &mut Vec<u32>, width: u32, first: u32, ids: impl Iterator<Item = u32>) {
    if width == 0 {
        return out.extend(ids);
    }
    out.push(first);
    pack(out, width, ids.map(|id| u64::from(id - first)));
}

/// Starts a leaf in `out`.
fn begin_leaf(
    out: &mut Vec<u32>,
    flags: u32,
    place: &LeafPlace,
    entries: usize,
    widths: Widths,
    earliest: u64,
    marked_at: Option<u32>,
) {
    let is_part = place.range != WHOLE;
    record::begin(out, RecordKind::Leaf, flags | if is_part { PART } else { 0 });
    let marked = if marked_at.is_some() { MARKED } else { 0 };
    out.extend([place.source, u32::from(place.ty) | (entries as u32) << 8 | marked | widths.bits()]);
    record::push_u64(out, earliest | place.lsn >> 32 << TIME_BITS);
    out.push(place.lsn as u32);
    if is_part {
        out.extend([place.range.0, place.range.1]);
    }
    out.extend(marked_at);
}

/// Encodes live edges without attributes, of one time, as a leaf.
pub(crate) fn encode_plain(ids: &[u32], time: u64, place: &LeafPlace, out: &mut Vec<u32>) {
    let (first, last) = (ids.first().copied().unwrap_or(0), ids.last().copied().unwrap_or(0));
    let widths = Widths { numbers: number_width(ids.len(), first, last), times: 0 };
    begin_leaf(out, 0, place, ids.len(), widths, time, None);
    push_numbers(out, widths.numbers, first, ids.iter().copied());
    record::seal(out);
}

/// The node numbers of a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Numbers<'a> {
    /// One word each.
    Words(&'a [AtomicU32]),
    /// The first number, and the differences from it, two in a word.
    Halves(u32, &'a [AtomicU32]),
    /// The first number, and the differences from it with this width in bits.
    Packed(u32, u32, &'a [AtomicU32]),
}

impl Numbers<'_> {
    #[inline(always)]
    pub(crate) fn at(self, index: usize) -> u32 {
        match self {
            Self::Words(words) => words[index].load(Relaxed),
            Self::Halves(first, words) => first + (words[index / 2].load(Relaxed) >> (index % 2 * 16) & 0xFFFF),
            Self::Packed(first, width, words) => first + packed(words, width, index) as u32,
        }
    }

    /// Appends the numbers of a range of entries to `out`.
    pub(crate) fn copy(self, range: std::ops::Range<usize>, out: &mut Vec<u32>) {
        let start = out.len();
        out.resize(start + range.len(), 0);
        self.read(range.start, &mut out[start..]);
    }

    /// Reads the numbers of the entries from `start` on, as many as `out` has room for.
    #[inline]
    pub(crate) fn read(self, start: usize, out: &mut [u32]) {
        match self {
            Self::Words(words) => {
                words[start..].iter().zip(out).for_each(|(word, out)| *out = word.load(Relaxed));
            }
            Self::Packed(first, width, words) => {
                let aligned = start.next_multiple_of(BLOCK);
                let (single, rest) = out.split_at_mut(out.len().min(aligned - start));
                single.iter_mut().zip(start..).for_each(|(out, index)| *out = self.at(index));
                let (blocks, after) = rest.as_chunks_mut();
                let end = aligned + blocks.len() * BLOCK;
                for (block, out) in (aligned / BLOCK..).zip(blocks) {
                    unpack(&words[block * width as usize..], width, first, out);
                }
                after.iter_mut().zip(end..).for_each(|(out, index)| *out = self.at(index));
            }
            Self::Halves(first, words) => {
                let (single, rest) = out.split_at_mut(out.len().min(start % 2));
                single.iter_mut().for_each(|out| *out = self.at(start));
                let (pairs, after) = rest.as_chunks_mut();
                let end = start + start % 2 + pairs.len() * 2;
                // Both numbers of a word are computed and stored at once.
                let firsts = u64::from(first) << 32 | u64::from(first);
                for (pair, word) in pairs.iter_mut().zip(&words[start.div_ceil(2)..]) {
                    let word = u64::from(word.load(Relaxed));
                    let both = ((word | word << 16) & 0xFFFF_0000_FFFF).wrapping_add(firsts);
                    *pair = [both as u32, (both >> 32) as u32];
                }
                after.iter_mut().for_each(|out| *out = self.at(end));
            }
        }
    }
}

/// The number of node numbers that are read at once. Packed with any width, they end at the end of a word.
pub(crate) const BLOCK: usize = 32;

/// Unpacks the first [`BLOCK`] numbers. A fixed width turns all shifts into constants.
pub(crate) fn unpack(words: &[AtomicU32], width: u32, first: u32, out: &mut [u32; BLOCK]) {
    match width {
        17 => unpack_fixed::<17>(words, first, out),
        18 => unpack_fixed::<18>(words, first, out),
        19 => unpack_fixed::<19>(words, first, out),
        20 => unpack_fixed::<20>(words, first, out),
        21 => unpack_fixed::<21>(words, first, out),
        22 => unpack_fixed::<22>(words, first, out),
        23 => unpack_fixed::<23>(words, first, out),
        24 => unpack_fixed::<24>(words, first, out),
        _ => out.iter_mut().enumerate().for_each(|(index, out)| *out = first + packed(words, width, index) as u32),
    }
}

#[inline]
fn unpack_fixed<const WIDTH: usize>(words: &[AtomicU32], first: u32, out: &mut [u32; BLOCK]) {
    let words: &[AtomicU32; WIDTH] = words[..WIDTH].try_into().expect("a slice of this length");
    let (mut pending, mut bits, mut next) = (0u64, 0, 0);
    for number in out {
        if bits < WIDTH {
            pending |= u64::from(words[next].load(Relaxed)) << bits;
            bits += 32;
            next += 1;
        }
        *number = first + (pending as u32 & (u32::MAX >> (32 - WIDTH)));
        pending >>= WIDTH;
        bits -= WIDTH;
    }
}

/// Returns true if a record has the form of a leaf: its columns lie inside it, its node numbers ascend, and its times
/// are times. A record whose checksum is right may have another form if another program wrote it.
pub(crate) fn is_well_formed(record: RecordRef<'_>) -> bool {
    if record.len() < HEADER {
        return false;
    }
    let (flags, properties) = (record.flags(), record.word(3));
    let (count, widths) = ((properties >> 8 & 0x1FFF) as usize, Widths::of(properties));
    let is_part = flags & PART != 0;
    let start = HEADER + usize::from(is_part) * 2 + usize::from(properties & MARKED != 0);
    let (number_words, time_words) = widths.words(count);
    let times = start + number_words;
    let states = times + time_words;
    let ends = states + if flags & STATES == 0 { 0 } else { count.div_ceil(4) };
    let text = ends + if flags & ATTRIBUTES == 0 { 0 } else { count };
    if count > LEAF_ENTRIES_MAX || !matches!(widths.times, 0..=32 | 64) || text > record.len() {
        return false;
    }
    let range = if is_part { (record.word(HEADER), record.word(HEADER + 1)) } else { WHOLE };
    // Of packed numbers only the differences are read until the greatest sum is known not to overflow.
    let is_packed = widths.numbers != 0;
    let (first, words) = if is_packed { (record.word(start), start + 1) } else { (0, start) };
    let words = &record.words()[words..times];
    let number = |at: usize| match is_packed {
        true => packed(words, widths.numbers, at) as u32,
        false => words[at].load(Relaxed),
    };
    let earliest = record.long(4) & ((1 << TIME_BITS) - 1);
    let time = |at: usize| match widths.times {
        0 => Some(earliest),
        width => earliest.checked_add(packed(&record.words()[times..states], width, at)),
    };
    let end = |at: usize| at.checked_sub(1).map_or(0, |at| record.word(ends + at) as usize);
    let is_text = |at: usize| end(at + 1).checked_sub(end(at)).is_some_and(|bytes| bytes <= usize::from(u16::MAX));
    let is_in_range = count == 0
        || (first.checked_add(number(0)).is_some_and(|first| first >= range.0)
            && first.checked_add(number(count - 1)).is_some_and(|last| last < range.1));
    range.0 < range.1
        && is_in_range
        && (1..count).all(|at| number(at - 1) < number(at))
        && (0..count).all(|at| time(at).is_some_and(|time| time <= TIME_MS_MAX))
        && (flags & ATTRIBUTES == 0 || ((0..count).all(is_text) && end(count) <= (record.len() - text) * 4))
}

/// A leaf in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf<'a> {
    record: RecordRef<'a>,
    pub(crate) numbers: Numbers<'a>,
    count: usize,
    flags: u32,
    widths: Widths,
    /// The word at which the node numbers begin.
    start: usize,
}

impl<'a> Leaf<'a> {
    #[inline]
    pub(crate) fn of(record: RecordRef<'a>) -> Self {
        let (flags, properties) = (record.flags(), record.word(3));
        let count = (properties >> 8 & 0x1FFF) as usize;
        let start = HEADER + usize::from(flags & PART != 0) * 2 + usize::from(properties & MARKED != 0);
        let widths = Widths::of(properties);
        let words = &record.words()[start..][..widths.words(count).0];
        let numbers = match widths.numbers {
            0 => Numbers::Words(words),
            HALF_WORD => Numbers::Halves(words[0].load(Relaxed), &words[1..]),
            width => Numbers::Packed(words[0].load(Relaxed), width, &words[1..]),
        };
        Self { record, numbers, count, flags, widths, start }
    }

    pub(crate) fn source(self) -> u32 {
        self.record.word(2)
    }

    pub(crate) fn edge_type(self) -> u8 {
        self.record.word(3) as u8
    }

    #[inline]
    pub(crate) fn count(self) -> usize {
        self.count
    }

    #[inline]
    pub(crate) fn all_live(self) -> bool {
        self.flags & STATES == 0
    }

    /// Returns true if all edges are live, without attributes and of this time.
    pub(crate) fn is_plain(self, time: u64) -> bool {
        self.flags & !PART == 0 && self.widths.times == 0 && self.earliest() == time
    }

    fn earliest(self) -> u64 {
        self.record.long(4) & ((1 << TIME_BITS) - 1)
    }

    /// Returns the sequence number: higher than those of all records whose values the leaf includes.
    pub(crate) fn lsn(self) -> u64 {
        u64::from(self.record.word(5) >> (TIME_BITS - 32)) << 32 | u64::from(self.record.word(6))
    }

    /// Returns the first node number that the leaf may hold, and the end of its range.
    pub(crate) fn range(self) -> (u32, u32) {
        let is_part = self.flags & PART != 0;
        if is_part { (self.record.word(HEADER), self.record.word(HEADER + 1)) } else { WHOLE }
    }

    /// Returns the time at which the tombstones in state `MARKED_STATE` were marked, in seconds.
    pub(crate) fn marked_at(self) -> Option<u32> {
        (self.record.word(3) & MARKED != 0).then(|| self.record.word(self.start - 1))
    }

    /// Returns true if an entry is a tombstone.
    pub(crate) fn has_tombstones(self) -> bool {
        !self.all_live() && (0..self.count).any(|index| self.state(index) == EdgeState::Removed)
    }

    /// Returns the index of the first entry whose number is `id` or higher.
    #[inline]
    pub(crate) fn lower_bound(self, id: u32) -> usize {
        let (mut start, mut size) = (0, self.count);
        while size > 0 {
            let half = size / 2;
            if self.numbers.at(start + half) < id {
                start += half + 1;
                size -= half + 1;
            } else {
                size = half;
            }
        }
        start
    }

    #[inline]
    pub(crate) fn find(self, id: u32) -> Option<usize> {
        let index = self.lower_bound(id);
        (index < self.count && self.numbers.at(index) == id).then_some(index)
    }

    /// Returns the words at which the times and the states begin.
    fn columns(self) -> (usize, usize) {
        let (numbers, times) = self.widths.words(self.count);
        (self.start + numbers, self.start + numbers + times)
    }

    pub(crate) fn time(self, index: usize) -> u64 {
        if self.widths.times == 0 {
            return self.earliest();
        }
        let (start, end) = self.columns();
        self.earliest() + packed(&self.record.words()[start..end], self.widths.times, index)
    }

    #[inline]
    pub(crate) fn state(self, index: usize) -> EdgeState {
        if self.all_live() { EdgeState::Live } else { EdgeState::of(self.state_number(index)) }
    }

    fn state_number(self, index: usize) -> u8 {
        self.state_at(self.columns().1, index)
    }

    /// Returns the number of an entry's state. The states begin at word `states`.
    #[inline]
    fn state_at(self, states: usize, index: usize) -> u8 {
        (self.record.word(states + index / 4) >> (index % 4 * 8)) as u8
    }

    /// Appends the attributes of an entry to `out`.
    pub(crate) fn attributes(self, index: usize, out: &mut Vec<u8>) {
        if self.flags & ATTRIBUTES == 0 {
            return;
        }
        let states = if self.all_live() { 0 } else { self.count.div_ceil(4) };
        let ends = self.columns().1 + states;
        let end = self.record.word(ends + index) as usize;
        let start = if index == 0 { 0 } else { self.record.word(ends + index - 1) as usize };
        let text = ends + self.count;
        out.extend((start..end).map(|at| self.record.word(text + at / 4).to_le_bytes()[at % 4]));
    }

    /// Appends a range of entries to `entries`.
    pub(crate) fn read_into(self, range: std::ops::Range<usize>, entries: &mut LeafEntries) {
        let (earliest, (times, states)) = (self.earliest(), self.columns());
        let times = &self.record.words()[times..states];
        let (all_live, has_text) = (self.all_live(), self.flags & ATTRIBUTES != 0);
        entries.list.reserve(range.len());
        let mut numbers = [0; BLOCK];
        for from in range.clone().step_by(BLOCK) {
            let count = (range.end - from).min(BLOCK);
            self.numbers.read(from, &mut numbers[..count]);
            for (index, id) in (from..).zip(numbers).take(count) {
                let start = entries.text.len() as u32;
                if has_text {
                    self.attributes(index, &mut entries.text);
                }
                let bytes = (entries.text.len() as u32 - start) as u16;
                let number = if all_live { 0 } else { self.state_at(states, index) };
                let later = if self.widths.times == 0 { 0 } else { packed(times, self.widths.times, index) };
                let (state, is_marked, time) = (EdgeState::of(number), number == MARKED_STATE, earliest + later);
                entries.list.push(LeafEntry { id, state, is_marked, time, start, bytes });
            }
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::memory::anonymous;

    fn round_trip(list: &[(u32, EdgeState, u64, &[u8])]) {
        let mut entries = LeafEntries::default();
        for (id, state, time, text) in list {
            let start = entries.text.len() as u32;
            entries.text.extend(*text);
            let (id, state, time) = (*id, *state, *time);
            let (bytes, is_marked) = (text.len() as u16, state == EdgeState::Removed);
            entries.list.push(LeafEntry { id, state, is_marked, time, start, bytes });
        }
        entries.marked_at = Some(1_000);
        for range in [WHOLE, (0, u32::MAX - 1)] {
            check_encoded(&entries, list, LeafPlace { source: 7, ty: 3, range, lsn: 0xFEDC_BA98_7654 });
        }
    }

    fn check_encoded(entries: &LeafEntries, list: &[(u32, EdgeState, u64, &[u8])], place: LeafPlace) {
        let mut words = Vec::new();
        entries.encode(0..list.len(), &place, &mut words);
        words[0] = record::checksum(&words, 9);
        let memory = anonymous(words.len() * 4);
        words.iter().zip(&memory).for_each(|(word, to)| to.store(*word, Relaxed));
        let (record, kind) = RecordRef::checked(&memory, 9).expect("sealed");
        let leaf = Leaf::of(record);
        assert_eq!((kind, leaf.source(), leaf.edge_type(), leaf.count()), (RecordKind::Leaf, 7, 3, list.len()));
        assert_eq!((leaf.lsn(), leaf.range()), (place.lsn, place.range));
        let has_marks = entries.list.iter().any(|entry| entry.is_marked);
        assert_eq!((leaf.marked_at(), leaf.has_tombstones()), (entries.marked_at.filter(|_| has_marks), has_marks));
        for (index, (id, state, time, text)) in list.iter().enumerate() {
            let mut got = Vec::new();
            leaf.attributes(index, &mut got);
            assert_eq!((leaf.find(*id), leaf.state(index), leaf.time(index)), (Some(index), *state, *time));
            assert_eq!(got, *text);
        }
        assert_eq!(leaf.find(u32::MAX), None);
        for range in [0..list.len(), 1..list.len(), list.len() / 2..list.len(), 0..list.len() / 2] {
            check_read(leaf, range, list);
        }
    }

    fn check_read(leaf: Leaf<'_>, range: std::ops::Range<usize>, list: &[(u32, EdgeState, u64, &[u8])]) {
        let (mut read, mut numbers) = (LeafEntries::default(), vec![0; range.len()]);
        leaf.read_into(range.clone(), &mut read);
        leaf.numbers.read(range.start, &mut numbers);
        assert_eq!(read.list.len(), range.len());
        for ((entry, number), (id, state, time, text)) in read.list.iter().zip(numbers).zip(&list[range]) {
            assert_eq!((number, entry.id, entry.state, entry.time), (*id, *id, *state, *time));
            assert_eq!((entry.is_marked, read.attributes(entry)), (*state == EdgeState::Removed, *text));
        }
    }

    #[test]
    fn leaf_of_every_form_reads_as_written() {
        use EdgeState::*;
        round_trip(&[(1, Live, 5, b""), (2, Live, 5, b""), (900, Live, 5, b"")]);
        round_trip(&[(1, Live, 5, b""), (2, Removed, 6, b"abcde"), (1 << 20, Archived, 7, b"")]);
        round_trip(&[(1, Negative, 0, b"x"), (9, Live, 1 << 47, b"abc"), (11, Live, 1, b"longer text")]);
        round_trip(&[(4_000_000_000, Live, 1, b"")]);
    }

    #[test]
    fn packed_numbers_and_times_of_every_width_read_as_written() {
        let widths = (10..=32).flat_map(|number| (0..=48).step_by(3).map(move |time| (number, time)));
        for (number_bits, time_bits) in widths {
            let span = (u64::MAX >> (64 - number_bits)) as u32;
            let latest = if time_bits == 0 { 0 } else { u64::MAX >> (64 - time_bits) };
            let first = (u32::MAX - 1).saturating_sub(span).min(77);
            let mut list: Vec<(u32, EdgeState, u64, &[u8])> = (0..40)
                .map(|at| (first + span / 41 * at, EdgeState::Live, latest / 41 * u64::from(at), &b"ab"[..]))
                .collect();
            list.push(((first + span).min(u32::MAX - 2), EdgeState::Archived, latest, b""));
            round_trip(&list);
            round_trip(&list[..3]);
        }
    }

    #[test]
    fn ranges_of_numbers_of_every_width_are_copied_as_single_ones_are_read() {
        for step in (0..29).map(|bits| (1u32 << bits) / 100).filter(|step| *step > 0) {
            let ids: Vec<u32> = (0..100).map(|at| 5 + at * step + at % 2 * (step / 2)).collect();
            let mut words = Vec::new();
            encode_plain(&ids, 1, &LeafPlace { source: 1, ty: 0, range: WHOLE, lsn: 1 }, &mut words);
            let memory = anonymous(words.len() * 4);
            words.iter().zip(&memory).for_each(|(word, to)| to.store(*word, Relaxed));
            let leaf = Leaf::of(RecordRef::at(&memory, 0));
            for (start, end) in (0..=100).flat_map(|start| (start..=100).map(move |end| (start, end))) {
                let mut copied = vec![7];
                leaf.numbers.copy(start..end, &mut copied);
                assert_eq!(copied[1..], ids[start..end], "from {start} to {end} with a step of {step}");
            }
        }
    }

    #[test]
    fn node_numbers_take_a_word_half_of_one_or_the_bits_of_the_greatest() {
        let words = |count: u32, step: u32| {
            let ids: Vec<u32> = (0..count).map(|at| 5 + at * step).collect();
            let mut out = Vec::new();
            encode_plain(&ids, 1, &LeafPlace { source: 1, ty: 0, range: WHOLE, lsn: 1 }, &mut out);
            (out[1] as usize & 0x3F_FFFF, HEADER + ids.len())
        };
        let even = |words: usize| words.next_multiple_of(2);
        assert_eq!(words(100, 600).0, even(HEADER + 1 + 50));
        assert_eq!(words(100, 10_000).0, even(HEADER + 1 + 63), "20 bits each");
        assert_eq!(words(100, 2_700_000).0, even(HEADER + 1 + 88), "28 bits each");
        let (stored, plain) = words(100, 5_000_000);
        assert_eq!(stored, even(plain), "a word each");
        let (stored, plain) = words(2, 9);
        assert_eq!(stored, even(plain), "two numbers are stored as they are");
    }
}
