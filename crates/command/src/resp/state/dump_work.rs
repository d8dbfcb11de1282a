//! The state of `DUMP` and `RESTORE` between two visits.

use crate::memory::budget::Grant;
use crate::resp::state::name_hashes::NameHashes;
use crate::resp::state::stream_intake::StreamRestore;
use crate::resp::state::walk::Reading;
use base::clock::UnixMillis;
use rdb::{DumpCheck, PausedDump, PayloadWriter, ValueType};
use record::StreamId;

/// The part of a payload that is written next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum DumpPart {
    /// The earliest expiry of a hash's fields is searched.
    Earliest,
    /// The value is copied.
    Value,
    /// The checksum is computed.
    Sum,
}

/// The element of a stream that is written next. Groups and their consumers are known by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum StreamPlace {
    /// The entry with this number, or the facts about the stream behind the last entry.
    Entry(u64),
    /// A group, or the end of the stream behind the last group.
    Group(u64),
    /// The first pending entry of a group from an identifier on, or the number of its consumers.
    Pending(u64, StreamId),
    /// A consumer of a group, or the next group behind the last consumer.
    Consumer(u64, u64),
    /// The first pending entry of a consumer of a group from an identifier on, or the next consumer.
    Owned(u64, u64, StreamId),
    End,
}

/// The state of `DUMP`.
pub(in crate::resp) struct DumpWork {
    pub(in crate::resp) part: DumpPart,
    pub(in crate::resp) writer: PayloadWriter,
    pub(in crate::resp) value_type: ValueType,
    /// The next byte of the string to copy, the position in the hash, or the number of the next element.
    pub(in crate::resp) cursor: u64,
    /// The cursor at which the value is complete.
    pub(in crate::resp) end: u64,
    /// The earliest expiry of the hash's fields that was found, by the store's clock.
    pub(in crate::resp) earliest: Option<u64>,
    /// The next element of a stream.
    pub(in crate::resp) place: StreamPlace,
    pub(in crate::resp) reading: Reading,
    /// The share of client memory.
    pub(in crate::resp) grant: Grant,
}

/// A fact about an element besides its texts.
#[derive(Clone, Copy, Debug)]
pub(in crate::resp) enum Detail {
    None,
    /// The expiry of a field by the store's clock.
    End(u64),
    /// The score of a member.
    Score(f64),
}

/// An element of a payload: the ends of its name and of its value in the bytes of all elements.
#[derive(Clone, Copy, Debug)]
struct RestoredElement {
    name_end: usize,
    value_end: usize,
    detail: Detail,
}

/// The elements of a payload. A member of a list, a set or a sorted set is a name without a value.
pub(in crate::resp) struct RestoredElements {
    pub(in crate::resp) value_type: ValueType,
    texts: Vec<u8>,
    elements: Vec<RestoredElement>,
    /// The names, if no name may occur twice.
    names: NameHashes,
}

impl Default for RestoredElements {
    fn default() -> Self {
        let (texts, elements) = (Vec::new(), Vec::new());
        Self { value_type: ValueType::String, texts, elements, names: NameHashes::default() }
    }
}

impl RestoredElements {
    /// Adds an element. Returns false if its name occurs twice in a value other than a list.
    pub(in crate::resp) fn add(&mut self, name: &[u8], value: &[u8], detail: Detail) -> bool {
        if self.value_type != ValueType::List && !self.names.add(name) {
            return false;
        }
        self.texts.extend_from_slice(name);
        let name_end = self.texts.len();
        self.texts.extend_from_slice(value);
        self.elements.push(RestoredElement { name_end, value_end: self.texts.len(), detail });
        true
    }

    /// Returns an element: its name, its value and its detail.
    pub(in crate::resp) fn get(&self, at: usize) -> (&[u8], &[u8], Detail) {
        let begin = at.checked_sub(1).map_or(0, |before| self.elements[before].value_end);
        let RestoredElement { name_end, value_end, detail } = self.elements[at];
        (&self.texts[begin..name_end], &self.texts[name_end..value_end], detail)
    }

    pub(in crate::resp) fn len(&self) -> usize {
        self.elements.len()
    }

    pub(in crate::resp) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Returns the number of bytes of all names and values.
    pub(in crate::resp) fn text_bytes(&self) -> usize {
        self.texts.len()
    }

    /// Returns the number of bytes of memory that the elements occupy, about.
    pub(in crate::resp) fn held_bytes(&self) -> usize {
        let elements = self.elements.capacity() * size_of::<RestoredElement>();
        self.texts.capacity() + elements + self.names.held_bytes()
    }
}

/// The part of `RESTORE` that is done next.
pub(in crate::resp) enum RestoreStage {
    /// The checksum is compared.
    Check(DumpCheck),
    /// The elements are read and checked.
    Read(Box<PausedDump>),
    /// The elements are stored.
    Store {
        /// The number of stored elements.
        done: usize,
        /// True if the store had room for the value.
        is_begun: bool,
        /// True if a part of the value has replaced the old one.
        has_part: bool,
        /// The number of times that the first element was stored again.
        tries: u32,
    },
}

impl Default for RestoreStage {
    fn default() -> Self {
        Self::Check(DumpCheck::default())
    }
}

/// The state of `RESTORE`.
pub(in crate::resp) struct RestoreWork {
    pub(in crate::resp) stage: RestoreStage,
    pub(in crate::resp) elements: RestoredElements,
    /// The elements of a stream.
    pub(in crate::resp) stream: StreamRestore,
    /// The time since which the command waits for room.
    pub(in crate::resp) full_since: Option<UnixMillis>,
    /// The share of client memory.
    pub(in crate::resp) grant: Grant,
}
