//! Streams: nodes of entries, and the elements behind them.

use super::write::{CountedParts, Misplaced, id_as_bytes, id_as_lengths, length, raw};
use crate::event::{Element, StreamId, StreamTotals};
use crate::packed::back_bytes;
use crate::stream::SAME_FIELDS;

/// Highest number of entries and of bytes of a stream's node, as the defaults of Redis.
const NODE_ENTRIES_MAX: i64 = 100;
const NODE_BYTES_MAX: usize = 4096;

/// The fields of an entry: names and values alternate.
#[derive(Debug, Default)]
struct Fields {
    bytes: Vec<u8>,
    /// The end of each string.
    ends: Vec<usize>,
}

impl Fields {
    fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    fn text(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[at]]
    }

    fn texts(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|at| self.text(at))
    }

    fn names(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).step_by(2).map(|at| self.text(at))
    }

    fn values(&self) -> impl Iterator<Item = &[u8]> {
        (1..self.ends.len()).step_by(2).map(|at| self.text(at))
    }
}

/// A listpack that is being written.
#[derive(Debug, Default)]
struct Listpack {
    bytes: Vec<u8>,
    count: usize,
}

impl Listpack {
    fn number(&mut self, number: i64) {
        let begin = self.bytes.len();
        let out = &mut self.bytes;
        match number {
            0..=127 => out.push(number as u8),
            -4096..=4095 => out.extend_from_slice(&(0xC000 | (number as u16 & 0x1FFF)).to_be_bytes()),
            -32_768..=32_767 => {
                out.push(0xF1);
                out.extend_from_slice(&(number as i16).to_le_bytes());
            }
            -8_388_608..=8_388_607 => {
                out.push(0xF2);
                out.extend_from_slice(&number.to_le_bytes()[..3]);
            }
            -2_147_483_648..=2_147_483_647 => {
                out.push(0xF3);
                out.extend_from_slice(&(number as i32).to_le_bytes());
            }
            _ => {
                out.push(0xF4);
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        self.end(begin);
    }

    fn text(&mut self, text: &[u8]) {
        if let Some(number) = base::decimal::parse_signed(text) {
            return self.number(number);
        }
        let begin = self.bytes.len();
        match text.len() {
            len @ 0..=63 => self.bytes.push(0x80 | len as u8),
            len @ 64..=4095 => self.bytes.extend_from_slice(&(0xE000 | len as u16).to_be_bytes()),
            len => {
                self.bytes.push(0xF0);
                self.bytes.extend_from_slice(&(len as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text);
        self.end(begin);
    }

    /// Appends the length of the element that began at `begin`: 7 bits a byte, the highest first; all bytes but the
    /// first have the highest bit.
    fn end(&mut self, begin: usize) {
        let len = self.bytes.len() - begin;
        let bytes = back_bytes(len);
        for at in (0..bytes).rev() {
            let bits = (len >> (7 * at)) as u8 & 0x7F;
            self.bytes.push(if at + 1 == bytes { bits } else { bits | 0x80 });
        }
        self.count += 1;
    }

    /// Appends the whole listpack to `out`, as a string.
    fn finish(self, out: &mut Vec<u8>) {
        let bytes = self.bytes.len() + 7;
        length(out, bytes as u64);
        out.extend_from_slice(&(bytes as u32).to_le_bytes());
        out.extend_from_slice(&u16::try_from(self.count).unwrap_or(u16::MAX).to_le_bytes());
        out.extend_from_slice(&self.bytes);
        out.push(0xFF);
    }
}

/// A node of a stream that is being written.
#[derive(Debug)]
struct StreamNode {
    id: StreamId,
    /// The fields of the first entry, whose names other entries may share.
    first: Fields,
    entries: Listpack,
    count: i64,
}

impl StreamNode {
    /// Appends an entry to the node.
    fn add(&mut self, id: StreamId, fields: &Fields, is_first: bool) {
        let shares = is_first || self.first.names().eq(fields.names());
        let out = &mut self.entries;
        let before = out.count;
        out.number(if shares { SAME_FIELDS } else { 0 });
        out.number(id.ms.wrapping_sub(self.id.ms).cast_signed());
        out.number(id.seq.wrapping_sub(self.id.seq).cast_signed());
        if shares {
            fields.values().for_each(|value| out.text(value));
        } else {
            out.number((fields.ends.len() / 2) as i64);
            fields.texts().for_each(|text| out.text(text));
        }
        out.number((out.count - before) as i64);
        self.count += 1;
    }

    /// Appends the node to `out`.
    fn finish(self, out: &mut Vec<u8>) {
        let mut head = Listpack::default();
        head.number(self.count);
        head.number(0);
        head.number((self.first.ends.len() / 2) as i64);
        self.first.names().for_each(|name| head.text(name));
        head.number(0);
        head.bytes.extend_from_slice(&self.entries.bytes);
        head.count += self.entries.count;
        length(out, 16);
        id_as_bytes(out, self.id);
        head.finish(out);
    }
}

/// Divides the entries of a stream into nodes.
#[derive(Debug, Default)]
pub(super) struct NodeWriter {
    /// The number of nodes that were written.
    pub(super) count: u64,
    node: Option<StreamNode>,
    entry: Option<(StreamId, Fields)>,
}

impl NodeWriter {
    /// Begins an entry. Appends to `out` the node before it, if that is full.
    pub(super) fn entry(&mut self, id: StreamId, out: &mut Vec<u8>) {
        self.end_entry(out);
        self.entry = Some((id, Fields::default()));
    }

    /// Appends a field to the current entry.
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Misplaced> {
        let (_, fields) = self.entry.as_mut().ok_or(Misplaced)?;
        fields.push(name);
        fields.push(value);
        Ok(())
    }

    fn end_entry(&mut self, out: &mut Vec<u8>) {
        let Some((id, fields)) = self.entry.take() else { return };
        let is_full = |node: &StreamNode| node.count >= NODE_ENTRIES_MAX || node.entries.bytes.len() >= NODE_BYTES_MAX;
        if self.node.as_ref().is_some_and(is_full) {
            self.end_node(out);
        }
        match &mut self.node {
            Some(node) => node.add(id, &fields, false),
            None => {
                let mut node = StreamNode { id, first: Fields::default(), entries: Listpack::default(), count: 0 };
                node.add(id, &fields, true);
                node.first = fields;
                self.node = Some(node);
            }
        }
    }

    fn end_node(&mut self, out: &mut Vec<u8>) {
        if let Some(node) = self.node.take() {
            self.count += 1;
            node.finish(out);
        }
    }

    /// Appends the last node to `out`.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        self.end_entry(out);
        self.end_node(out);
    }
}

/// Appends the facts about a whole stream, behind its nodes.
pub(super) fn totals(out: &mut Vec<u8>, totals: &StreamTotals) {
    length(out, totals.length);
    id_as_lengths(out, totals.last_id);
    id_as_lengths(out, totals.first_id.unwrap_or_default());
    id_as_lengths(out, totals.max_deleted_id);
    length(out, totals.entries_added);
}

/// Appends the begin of a group.
pub(super) fn group(out: &mut Vec<u8>, name: &[u8], last_id: StreamId, entries_read: Option<u64>) {
    raw(out, name);
    id_as_lengths(out, last_id);
    length(out, entries_read.unwrap_or(u64::MAX));
}

/// Appends a pending entry of a group.
pub(super) fn pending(out: &mut Vec<u8>, id: StreamId, delivered_at_ms: u64, deliveries: u64) {
    id_as_bytes(out, id);
    out.extend_from_slice(&delivered_at_ms.to_le_bytes());
    length(out, deliveries);
}

/// Appends the begin of a consumer.
pub(super) fn consumer(out: &mut Vec<u8>, name: &[u8], seen_at_ms: u64) {
    raw(out, name);
    out.extend_from_slice(&seen_at_ms.to_le_bytes());
}

/// The state of a stream that is being written.
#[derive(Debug, Default)]
pub(super) struct StreamEncoder {
    nodes: Vec<u8>,
    entries: NodeWriter,
    totals: Option<StreamTotals>,
    first_id: Option<StreamId>,
    groups: CountedParts,
    in_group: bool,
    /// The pending entries of the current group: id, time of delivery, number of deliveries.
    pending: Vec<(StreamId, u64, u64)>,
    consumers: CountedParts,
    in_consumer: bool,
    owned: CountedParts,
}

impl StreamEncoder {
    pub(super) fn add(&mut self, element: &Element<'_>) -> Result<(), Misplaced> {
        match *element {
            Element::Entry(id) if self.totals.is_none() => {
                self.first_id.get_or_insert(id);
                self.entries.entry(id, &mut self.nodes);
            }
            Element::Field { name, value, .. } => self.entries.field(name, value)?,
            Element::Totals(totals) if self.totals.is_none() => {
                self.entries.end(&mut self.nodes);
                self.totals = Some(totals);
            }
            Element::Group { name, last_id, entries_read } if self.totals.is_some() => {
                self.end_group();
                self.in_group = true;
                group(self.groups.part(), name, last_id, entries_read);
            }
            Element::Pending { id, delivered_at_ms, deliveries } if self.in_group => {
                self.pending.push((id, delivered_at_ms, deliveries));
            }
            Element::Consumer { name, seen_at_ms, .. } if self.in_group => {
                self.end_consumer();
                self.in_consumer = true;
                consumer(self.consumers.part(), name, seen_at_ms);
            }
            Element::Owned(id) if self.in_consumer => id_as_bytes(self.owned.part(), id),
            // The encoding has no pending entries without a consumer, so they count as acknowledged.
            Element::Unowned(id) if self.in_group => self.forget_pending(id),
            // The encoding has no place for producers.
            Element::Producer(_) | Element::Produced { .. } => {}
            _ => return Err(Misplaced),
        }
        Ok(())
    }

    fn end_consumer(&mut self) {
        if std::mem::take(&mut self.in_consumer) {
            self.owned.flush(&mut self.consumers.bytes);
        }
    }

    /// Removes a pending entry. They are in the order of their ids.
    fn forget_pending(&mut self, id: StreamId) {
        if let Ok(at) = self.pending.binary_search_by_key(&id, |(id, ..)| *id) {
            self.pending.remove(at);
        }
    }

    fn end_group(&mut self) {
        self.end_consumer();
        if std::mem::take(&mut self.in_group) {
            let out = &mut self.groups.bytes;
            length(out, self.pending.len() as u64);
            for (id, delivered_at_ms, deliveries) in self.pending.drain(..) {
                pending(out, id, delivered_at_ms, deliveries);
            }
            self.consumers.flush(&mut self.groups.bytes);
        }
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Misplaced> {
        let facts = self.totals.ok_or(Misplaced)?;
        self.end_group();
        length(out, self.entries.count);
        out.append(&mut self.nodes);
        totals(out, &StreamTotals { first_id: facts.first_id.or(self.first_id), ..facts });
        self.groups.flush(out);
        Ok(())
    }
}
