//! Streams: entries in listpacks, groups, consumers, pending entries.
//!
//! ```text
//!  nodes: id of the node, listpack ... | length, last id | from the second form: first id, highest deleted id, added
//!  groups: name, last id, [read] | pending: id, time, deliveries ... | consumers: name, seen, [active], ids ... | ids
//!  from the fourth form: duration, most ids | producers: name, ids ... | two counters
//! ```
//!
//! A node's listpack has the names of fields that most of its entries share:
//!
//! ```text
//!  entries | deleted | fields n | name ... | 0 | flags | ms and seq, as differences | [n] | [name] value ... | length
//! ```

use std::io::Read;

use crate::event::{Element, StreamId, StreamTotals};
use crate::input::Input;
use crate::packed::{Invalid, PackedCursor, Packing};
use crate::step::{ConsumerHead, ElementStep, GroupHead, Strings, broken};
use crate::{Damage, malformed};

/// Flag of an entry that was deleted.
pub(crate) const DELETED: i64 = 1;
/// Flag of an entry with the node's fields.
pub(crate) const SAME_FIELDS: i64 = 2;

/// An entry whose fields are being read.
#[derive(Clone, Copy, Debug)]
struct EntryWalk {
    left: u64,
    /// The names of the node's fields, if the entry has those.
    names: Option<PackedCursor>,
    is_deleted: bool,
}

/// A node whose entries are being read.
#[derive(Debug)]
struct NodeWalk {
    id: StreamId,
    /// The offset of the listpack in the input, for errors.
    at: u64,
    cursor: PackedCursor,
    /// Before the names of the node's fields.
    names: PackedCursor,
    fields: u64,
    entry: Option<EntryWalk>,
}

/// The part of a stream that is read next.
#[derive(Clone, Copy, Debug)]
enum StreamPart {
    Nodes { left: u64 },
    Groups { left: u64 },
    Pending { left: u64 },
    Consumers { left: u64 },
    Owned { left: u64 },
    Unowned { left: u64 },
    Producers { left: u64 },
    Produced { left: u64 },
    End,
}

/// A stream whose elements are being read.
#[derive(Debug)]
pub(crate) struct StreamWalk {
    /// The number of the form: 1 to 5.
    form: u32,
    part: StreamPart,
    node: Option<NodeWalk>,
    groups_left: u64,
    consumers_left: u64,
    producers_left: u64,
}

/// Reads an id that is stored as two numbers.
fn id_of_lengths<R: Read>(input: &mut Input<R>) -> Result<StreamId, Damage> {
    Ok(StreamId { ms: input.length()?, seq: input.length()? })
}

/// Reads an id of 16 bytes.
fn id_of_bytes<R: Read>(input: &mut Input<R>) -> Result<StreamId, Damage> {
    Ok(id(input.array()?))
}

fn id(bytes: [u8; 16]) -> StreamId {
    let both = u128::from_be_bytes(bytes);
    StreamId { ms: (both >> 64) as u64, seq: both as u64 }
}

impl NodeWalk {
    /// Reads a node, and the head of its listpack.
    fn read<R: Read>(input: &mut Input<R>, strings: &mut Strings) -> Result<Self, Damage> {
        let at = input.offset();
        input.string(&mut strings.packed)?;
        let id = strings.packed.as_slice().try_into().map(id);
        let id = id.map_err(|_| malformed(at, "the id of a stream's node does not have 16 bytes"))?;
        let at = input.offset();
        input.string(&mut strings.packed)?;
        Self::begin(id, at, &strings.packed).map_err(|Invalid| broken(at))
    }

    fn begin(id: StreamId, at: u64, all: &[u8]) -> Result<Self, Invalid> {
        let mut cursor = PackedCursor::new(Packing::Listpack, all)?;
        cursor.number(all)?;
        cursor.number(all)?;
        let fields = u64::try_from(cursor.number(all)?).map_err(|_| Invalid)?;
        let names = cursor;
        for _ in 0..fields {
            cursor.piece(all)?;
        }
        cursor.number(all)?;
        Ok(Self { id, at, cursor, names, fields, entry: None })
    }

    /// Returns the next element of the node, if there is one.
    fn next(&mut self, strings: &mut Strings) -> Result<Option<ElementStep>, Invalid> {
        loop {
            let step = match self.entry {
                Some(EntryWalk { left: 0, .. }) => {
                    // The number of elements of the entry, to read it backwards.
                    self.cursor.number(&strings.packed)?;
                    self.entry = None;
                    continue;
                }
                Some(entry) => self.field(entry, strings)?,
                None => match self.next_entry(strings)? {
                    Some(step) => step,
                    None => return Ok(None),
                },
            };
            // A deleted entry still has its fields.
            if self.entry.is_some_and(|entry| !entry.is_deleted) {
                return Ok(Some(step));
            }
        }
    }

    fn next_entry(&mut self, strings: &Strings) -> Result<Option<ElementStep>, Invalid> {
        use crate::packed::Piece::Number;
        let all = &strings.packed;
        let flags = match self.cursor.next(all)? {
            None => return Ok(None),
            Some(Number(flags)) => flags,
            Some(_) => return Err(Invalid),
        };
        let ms = self.id.ms.wrapping_add_signed(self.cursor.number(all)?);
        let seq = self.id.seq.wrapping_add_signed(self.cursor.number(all)?);
        let names = (flags & SAME_FIELDS != 0).then_some(self.names);
        let left = match names {
            Some(_) => self.fields,
            None => u64::try_from(self.cursor.number(all)?).map_err(|_| Invalid)?,
        };
        self.entry = Some(EntryWalk { left, names, is_deleted: flags & DELETED != 0 });
        Ok(Some(ElementStep::Whole(Element::Entry(StreamId { ms, seq }))))
    }

    fn field(&mut self, mut entry: EntryWalk, strings: &mut Strings) -> Result<ElementStep, Invalid> {
        let name = match &mut entry.names {
            Some(names) => names.piece(&strings.packed)?,
            None => self.cursor.piece(&strings.packed)?,
        };
        let value = self.cursor.piece(&strings.packed)?;
        strings.take(name, 0);
        strings.take(value, 1);
        entry.left -= 1;
        self.entry = Some(entry);
        Ok(ElementStep::Field(None))
    }
}

impl StreamWalk {
    /// Begins a stream of form 1 to 5.
    pub(crate) fn begin<R: Read>(input: &mut Input<R>, form: u32) -> Result<Self, Damage> {
        let part = StreamPart::Nodes { left: input.length()? };
        Ok(Self { form, part, node: None, groups_left: 0, consumers_left: 0, producers_left: 0 })
    }

    /// Reads the next element, if there is one.
    pub(crate) fn advance<R: Read>(
        &mut self,
        input: &mut Input<R>,
        strings: &mut Strings,
    ) -> Result<Option<ElementStep>, Damage> {
        loop {
            if let Some(node) = &mut self.node {
                let at = node.at;
                match node.next(strings).map_err(|Invalid| broken(at))? {
                    Some(step) => return Ok(Some(step)),
                    None => self.node = None,
                }
            }
            let step = match self.part {
                StreamPart::Nodes { left } => self.node_or_totals(input, strings, left)?,
                StreamPart::Groups { left } => self.group(input, strings, left)?,
                StreamPart::Pending { left } => self.pending(input, left)?,
                StreamPart::Consumers { left } => self.consumer(input, strings, left)?,
                StreamPart::Owned { left } => self.owned(input, left)?,
                StreamPart::Unowned { left } => self.unowned(input, left)?,
                StreamPart::Producers { left } => self.producer(input, strings, left)?,
                StreamPart::Produced { left } => self.produced(input, strings, left)?,
                StreamPart::End => return Ok(None),
            };
            if step.is_some() {
                return Ok(step);
            }
        }
    }

    fn node_or_totals<R: Read>(
        &mut self,
        input: &mut Input<R>,
        strings: &mut Strings,
        left: u64,
    ) -> Result<Option<ElementStep>, Damage> {
        if let Some(left) = left.checked_sub(1) {
            self.part = StreamPart::Nodes { left };
            self.node = Some(NodeWalk::read(input, strings)?);
            return Ok(None);
        }
        let (length, last_id) = (input.length()?, id_of_lengths(input)?);
        let mut totals = StreamTotals { length, last_id, entries_added: length, ..StreamTotals::default() };
        if self.form >= 2 {
            totals.first_id = Some(id_of_lengths(input)?);
            totals.max_deleted_id = id_of_lengths(input)?;
            totals.entries_added = input.length()?;
        }
        self.part = StreamPart::Groups { left: input.length()? };
        Ok(Some(ElementStep::Whole(Element::Totals(totals))))
    }

    fn group<R: Read>(
        &mut self,
        input: &mut Input<R>,
        strings: &mut Strings,
        left: u64,
    ) -> Result<Option<ElementStep>, Damage> {
        let Some(left) = left.checked_sub(1) else {
            self.part = StreamPart::End;
            if self.form >= 4 {
                // The time for which a producer's ids are retained, and their highest number.
                input.skip_lengths(2)?;
                self.part = StreamPart::Producers { left: input.length()? };
            }
            return Ok(None);
        };
        self.groups_left = left;
        strings.read(input, 0)?;
        let last_id = id_of_lengths(input)?;
        let entries_read = if self.form >= 2 { Some(input.length()?).filter(|read| *read != u64::MAX) } else { None };
        self.part = StreamPart::Pending { left: input.length()? };
        Ok(Some(ElementStep::Group(GroupHead { last_id, entries_read })))
    }

    fn pending<R: Read>(&mut self, input: &mut Input<R>, left: u64) -> Result<Option<ElementStep>, Damage> {
        let Some(left) = left.checked_sub(1) else {
            self.part = StreamPart::Consumers { left: input.length()? };
            return Ok(None);
        };
        self.part = StreamPart::Pending { left };
        let (id, delivered_at_ms) = (id_of_bytes(input)?, input.u64_le()?);
        Ok(Some(ElementStep::Whole(Element::Pending { id, delivered_at_ms, deliveries: input.length()? })))
    }

    fn consumer<R: Read>(
        &mut self,
        input: &mut Input<R>,
        strings: &mut Strings,
        left: u64,
    ) -> Result<Option<ElementStep>, Damage> {
        let Some(left) = left.checked_sub(1) else {
            self.part = match self.form {
                5.. => StreamPart::Unowned { left: input.length()? },
                _ => StreamPart::Groups { left: self.groups_left },
            };
            return Ok(None);
        };
        self.consumers_left = left;
        strings.read(input, 0)?;
        let seen_at_ms = input.u64_le()?;
        let active_at_ms = if self.form >= 3 { Some(input.u64_le()?).filter(|at| *at != u64::MAX) } else { None };
        self.part = StreamPart::Owned { left: input.length()? };
        Ok(Some(ElementStep::Consumer(ConsumerHead { seen_at_ms, active_at_ms })))
    }

    fn owned<R: Read>(&mut self, input: &mut Input<R>, left: u64) -> Result<Option<ElementStep>, Damage> {
        let Some(left) = left.checked_sub(1) else {
            self.part = StreamPart::Consumers { left: self.consumers_left };
            return Ok(None);
        };
        self.part = StreamPart::Owned { left };
        Ok(Some(ElementStep::Whole(Element::Owned(id_of_bytes(input)?))))
    }

    fn unowned<R: Read>(&mut self, input: &mut Input<R>, left: u64) -> Result<Option<ElementStep>, Damage> {
        let Some(left) = left.checked_sub(1) else {
            self.part = StreamPart::Groups { left: self.groups_left };
            return Ok(None);
        };
        self.part = StreamPart::Unowned { left };
        Ok(Some(ElementStep::Whole(Element::Unowned(id_of_bytes(input)?))))
    }

    fn producer<R: Read>(
        &mut self,
        input: &mut Input<R>,
        strings: &mut Strings,
        left: u64,
    ) -> Result<Option<ElementStep>, Damage> {
        let Some(left) = left.checked_sub(1) else {
            // The numbers of ids that were ever added, and of those that were refused.
            input.skip_lengths(2)?;
            self.part = StreamPart::End;
            return Ok(None);
        };
        self.producers_left = left;
        strings.read(input, 0)?;
        self.part = StreamPart::Produced { left: input.length()? };
        Ok(Some(ElementStep::Other(|name| Element::Producer(name))))
    }

    fn produced<R: Read>(
        &mut self,
        input: &mut Input<R>,
        strings: &mut Strings,
        left: u64,
    ) -> Result<Option<ElementStep>, Damage> {
        let Some(left) = left.checked_sub(1) else {
            self.part = StreamPart::Producers { left: self.producers_left };
            return Ok(None);
        };
        self.part = StreamPart::Produced { left };
        strings.read(input, 0)?;
        Ok(Some(ElementStep::Produced(id_of_lengths(input)?)))
    }
}
