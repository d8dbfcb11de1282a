//! The state of `RESTORE` of a stream. The payload is read twice: first all of it is checked, then its elements are
//! stored. Only the pending entries of one group and the elements of one edit are in memory.

use crate::resp::state::name_hashes::NameHashes;
use rdb::{Element, PausedDump, StreamTotals};
use record::{Damaged, PendingEntry, StreamEdit, StreamGroup, StreamId, StreamState};

/// The reason why an element of a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum IntakeError {
    /// The element contradicts others, or is out of order.
    Bad,
    /// An entry or a name is too long for a part of a value.
    TooLong,
}

/// An element that is stored. Texts are known by their numbers.
#[derive(Clone, Copy, Debug)]
enum StoredElement {
    /// An entry, and the number of its first field. It has all texts up to the next element.
    Entry(StreamId, usize),
    Totals(StreamTotals),
    Group {
        name: usize,
        last: StreamId,
        read: Option<u64>,
    },
    Consumer {
        name: usize,
        seen_ms: u64,
    },
    Pending {
        id: StreamId,
        delivered_ms: u64,
        deliveries: u32,
    },
}

/// The elements of one edit.
#[derive(Default)]
struct StreamBatch {
    texts: Vec<u8>,
    /// The end of each text.
    ends: Vec<usize>,
    elements: Vec<StoredElement>,
}

impl StreamBatch {
    /// Adds a text. Returns its number.
    fn add_text(&mut self, text: &[u8]) -> usize {
        self.texts.extend_from_slice(text);
        self.ends.push(self.texts.len());
        self.ends.len() - 1
    }

    fn text(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.texts[begin..self.ends[at]]
    }

    /// Returns the texts of the entry at `at`, whose first one is `first`.
    fn words(&self, at: usize, first: usize) -> impl Iterator<Item = &[u8]> + Clone {
        let behind = self.elements[at + 1..].iter().find_map(|element| match element {
            StoredElement::Entry(_, first) => Some(*first),
            StoredElement::Group { name, .. } | StoredElement::Consumer { name, .. } => Some(*name),
            StoredElement::Totals(_) | StoredElement::Pending { .. } => None,
        });
        (first..behind.unwrap_or(self.ends.len())).map(|at| self.text(at))
    }

    /// Returns the last element, if more texts may be added to it: its identifier and the number of its first text.
    fn open(&self) -> Option<(StreamId, usize)> {
        match self.elements.last() {
            Some(StoredElement::Entry(id, first)) => Some((*id, *first)),
            _ => None,
        }
    }

    /// Returns the number of elements to which no texts will be added.
    fn complete(&self) -> usize {
        self.elements.len() - usize::from(self.open().is_some())
    }

    /// Returns the number of bytes of the texts of these elements.
    fn complete_bytes(&self) -> usize {
        let texts = self.open().map_or(self.ends.len(), |(_, first)| first);
        texts.checked_sub(1).map_or(0, |last| self.ends[last])
    }

    /// Removes the complete elements.
    fn drop_complete(&mut self) {
        if self.complete() == 0 {
            return;
        }
        let (open, begin) = (self.open(), self.complete_bytes());
        self.elements.clear();
        self.texts.drain(..begin);
        self.ends.drain(..open.map_or(self.ends.len(), |(_, first)| first));
        self.ends.iter_mut().for_each(|end| *end -= begin);
        self.elements.extend(open.map(|(id, _)| StoredElement::Entry(id, 0)));
    }
}

/// The number of bytes of a stored element besides its texts, about: those of a pending entry.
const ELEMENT_BYTES: usize = 64;

/// A pending entry of the current group.
#[derive(Clone, Copy, Debug)]
struct PendingRead {
    id: StreamId,
    delivered_ms: u64,
    deliveries: u32,
    is_owned: bool,
}

/// The part of the payload to which the last element belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum IntakePart {
    #[default]
    Entries,
    Totals,
    Group,
    Consumer,
}

/// Checks the elements of a stream's payload, and collects those of the next edit.
#[derive(Default)]
pub(in crate::resp) struct StreamIntake {
    part: IntakePart,
    entries: u64,
    /// The identifiers of the first and the last entry.
    first: StreamId,
    last: StreamId,
    /// The length of the current entry in bytes, at most.
    entry_bytes: usize,
    state: StreamState,
    /// True if the payload has no counters of entries, as those of Redis before 7.0.
    lacks_counters: bool,
    groups: u64,
    /// The names of groups, each with 0, and those of consumers, each with the number of its group.
    names: NameHashes,
    pending: Vec<PendingRead>,
    owned: usize,
    batch: StreamBatch,
}

fn of(id: rdb::StreamId) -> StreamId {
    StreamId { ms: id.ms, seq: id.seq }
}

/// Returns an error unless `holds`.
fn check(holds: bool) -> Result<(), IntakeError> {
    if holds { Ok(()) } else { Err(IntakeError::Bad) }
}

/// Returns an error if an element with a text is too long.
fn check_name(name: &[u8], bytes_max: usize) -> Result<(), IntakeError> {
    let words = std::iter::once(name);
    if record::entry_bytes_max(words) > bytes_max { Err(IntakeError::TooLong) } else { Ok(()) }
}

impl StreamIntake {
    /// Adds the next element of the payload. No element may be longer than `bytes_max`.
    pub(in crate::resp) fn add(&mut self, element: &Element<'_>, bytes_max: usize) -> Result<(), IntakeError> {
        match *element {
            Element::Entry(id) if self.part == IntakePart::Entries => {
                check(of(id) > self.last)?;
                self.last = of(id);
                if self.entries == 0 {
                    self.first = self.last;
                }
                (self.entries, self.entry_bytes) = (self.entries + 1, record::entry_bytes_max(std::iter::empty()));
                self.batch.elements.push(StoredElement::Entry(self.last, self.batch.ends.len()));
            }
            Element::Field { name, value, .. } if self.part == IntakePart::Entries && self.entries > 0 => {
                let empty = record::entry_bytes_max(std::iter::empty());
                self.entry_bytes += record::entry_bytes_max([name, value].into_iter()) - empty;
                if self.entry_bytes > bytes_max {
                    return Err(IntakeError::TooLong);
                }
                self.batch.add_text(name);
                self.batch.add_text(value);
            }
            Element::Totals(totals) if self.part == IntakePart::Entries => {
                check(totals.length == self.entries && of(totals.last_id) >= self.last)?;
                check(totals.entries_added >= totals.length && totals.entries_added <= i64::MAX as u64)?;
                self.part = IntakePart::Totals;
                self.lacks_counters = totals.first_id.is_none();
                self.state.len = self.entries;
                self.state.last = of(totals.last_id);
                self.state.deleted_max = of(totals.max_deleted_id);
                self.state.added = totals.entries_added;
                self.batch.elements.push(StoredElement::Totals(totals));
            }
            Element::Group { name, last_id, entries_read } if self.part >= IntakePart::Totals => {
                self.end_group()?;
                check_name(name, bytes_max)?;
                check(self.names.add((0u64, name)))?;
                (self.groups, self.part) = (self.groups + 1, IntakePart::Group);
                let last = of(last_id);
                let read = entries_read.filter(|read| *read <= i64::MAX as u64);
                let read =
                    if self.lacks_counters { StreamGroup::read_until(&self.state, last, self.first) } else { read };
                let name = self.batch.add_text(name);
                self.batch.elements.push(StoredElement::Group { name, last, read });
            }
            Element::Pending { id, delivered_at_ms, deliveries } if self.part == IntakePart::Group => {
                check(self.pending.last().is_none_or(|last| last.id < of(id)))?;
                let deliveries = u32::try_from(deliveries).unwrap_or(u32::MAX);
                let pending = PendingRead { id: of(id), delivered_ms: delivered_at_ms, deliveries, is_owned: false };
                self.pending.push(pending);
            }
            Element::Consumer { name, seen_at_ms, .. } if self.part >= IntakePart::Group => {
                check_name(name, bytes_max)?;
                check(self.names.add((self.groups, name)))?;
                self.part = IntakePart::Consumer;
                let name = self.batch.add_text(name);
                self.batch.elements.push(StoredElement::Consumer { name, seen_ms: seen_at_ms });
            }
            Element::Owned(id) if self.part == IntakePart::Consumer => {
                let PendingRead { id, delivered_ms, deliveries, .. } = *self.own(of(id))?;
                self.batch.elements.push(StoredElement::Pending { id, delivered_ms, deliveries });
            }
            // A pending entry that its consumer has rejected counts as acknowledged.
            Element::Unowned(id) if self.part >= IntakePart::Group => self.own(of(id)).map(drop)?,
            // Identifiers of producers have no place in a stored stream.
            Element::Producer(_) | Element::Produced { .. } if self.part >= IntakePart::Totals => {}
            _ => return Err(IntakeError::Bad),
        }
        Ok(())
    }

    /// Marks a pending entry of the current group as one that has an owner. It has none yet.
    fn own(&mut self, id: StreamId) -> Result<&PendingRead, IntakeError> {
        let at = self.pending.binary_search_by_key(&id, |pending| pending.id).map_err(|_| IntakeError::Bad)?;
        let pending = &mut self.pending[at];
        check(!std::mem::replace(&mut pending.is_owned, true))?;
        self.owned += 1;
        Ok(pending)
    }

    /// Checks that all pending entries of the current group have an owner.
    fn end_group(&mut self) -> Result<(), IntakeError> {
        check(std::mem::take(&mut self.owned) == self.pending.len())?;
        self.pending.clear();
        Ok(())
    }

    /// Checks that the payload is complete.
    pub(in crate::resp) fn end(&mut self) -> Result<(), IntakeError> {
        check(self.part >= IntakePart::Totals)?;
        self.end_group()
    }

    /// Returns the number of elements that can be stored.
    pub(in crate::resp) fn complete(&self) -> usize {
        self.batch.complete()
    }

    /// Returns the number of bytes that the complete elements will occupy when they are stored, about.
    pub(in crate::resp) fn stored_bytes(&self) -> usize {
        self.batch.complete_bytes() + self.complete() * ELEMENT_BYTES
    }

    /// Removes the elements that can be stored.
    pub(in crate::resp) fn drop_complete(&mut self) {
        self.batch.drop_complete();
    }

    /// Stores the complete elements. `numbers` are those of the current group and consumer. Returns those of the last
    /// element.
    pub(in crate::resp) fn store(
        &self,
        stream: &mut StreamEdit<'_>,
        numbers: (u32, u32),
    ) -> Result<(u32, u32), Damaged> {
        let (mut group, mut consumer) = numbers;
        for (at, element) in self.batch.elements[..self.complete()].iter().enumerate() {
            match *element {
                StoredElement::Entry(id, first) => stream.append(id, self.batch.words(at, first))?,
                StoredElement::Totals(totals) => {
                    stream.set_state(of(totals.last_id), of(totals.max_deleted_id), totals.entries_added);
                }
                StoredElement::Group { name, last, read } => {
                    let name = self.batch.text(name);
                    stream.groups().create_group(name, last, read)?;
                    let created: StreamGroup = stream.groups().group(name)?.ok_or(Damaged)?;
                    group = created.number;
                }
                StoredElement::Consumer { name, seen_ms } => {
                    consumer = stream.groups().see_consumer(group, self.batch.text(name), seen_ms)?.0.number;
                }
                StoredElement::Pending { id, delivered_ms, deliveries } => {
                    stream.groups().deliver(group, id, &PendingEntry { consumer, delivered_ms, deliveries })?;
                }
            }
        }
        Ok((group, consumer))
    }

    /// Returns the number of bytes of memory that the elements occupy, about.
    pub(in crate::resp) fn held_bytes(&self) -> usize {
        let StreamBatch { texts, ends, elements } = &self.batch;
        let pending = self.pending.capacity() * size_of::<PendingRead>();
        let batch = texts.capacity() + ends.capacity() * size_of::<usize>();
        pending + batch + elements.capacity() * size_of::<StoredElement>() + self.names.held_bytes()
    }
}

/// The state of `RESTORE` of a stream.
#[derive(Default)]
pub(in crate::resp) struct StreamRestore {
    pub(in crate::resp) intake: StreamIntake,
    /// The number of bytes that the elements will occupy, about.
    pub(in crate::resp) bytes: usize,
    /// The position of the second reading; `None` before its first step.
    pub(in crate::resp) reader: Option<Box<PausedDump>>,
    /// True if elements were stored.
    pub(in crate::resp) is_stored: bool,
    /// The numbers of the group and the consumer that were stored last.
    pub(in crate::resp) numbers: (u32, u32),
}
