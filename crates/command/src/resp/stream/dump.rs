//! `DUMP` of a stream: its entries, the facts about it, then its groups, each with its pending entries and consumers.

use crate::resp::state::dump_work::StreamPlace;
use rdb::{CountedElement, Misplaced, PayloadWriter, StreamTotals};
use record::{Damaged, Digits, StreamEntry, StreamId, StreamValue};

/// The maximum number of elements that one step writes, the number of texts or bytes after which it writes no more.
const ELEMENTS_A_STEP: usize = 256;
const TEXTS_A_STEP: usize = 512;
const BYTES_A_STEP: usize = 32 << 10;

/// The result of a step.
pub(in crate::resp) struct DumpStep {
    /// The element that is written next.
    pub(in crate::resp) place: StreamPlace,
    /// The number of fields, values and other elements that were written, and of their bytes.
    pub(in crate::resp) texts: usize,
    pub(in crate::resp) bytes: usize,
}

/// Writes elements of a stream from `place` on, all of one kind.
pub(in crate::resp) fn dump_some(
    stream: &StreamValue<'_>,
    place: StreamPlace,
    to: &mut PayloadWriter,
) -> Result<DumpStep, Damaged> {
    let groups = stream.groups();
    let next = match place {
        StreamPlace::Entry(from) if from < stream.len() => return dump_entries(stream, from, to),
        StreamPlace::Entry(_) => dump_totals(stream, to)?,
        StreamPlace::Group(at) if at == stream.state().groups => StreamPlace::End,
        StreamPlace::Group(at) => {
            let (name, group) = groups.at(at)?;
            let pending = groups.pending_count(group.number)?;
            add(to, CountedElement::Group { name, last_id: of(group.last), entries_read: group.read, pending })?;
            StreamPlace::Pending(at, StreamId::MIN)
        }
        StreamPlace::Pending(at, from) => {
            let (_, group) = groups.at(at)?;
            let pending = groups.pending_from(group.number, from)?.map(|pending| {
                let (id, pending) = pending?;
                let deliveries = pending.deliveries.into();
                let element = CountedElement::Pending { id: of(id), delivered_at_ms: pending.delivered_ms, deliveries };
                Ok((id, element))
            });
            let (from, texts) = add_some(to, pending)?;
            if let Some(from) = from {
                return Ok(DumpStep { place: StreamPlace::Pending(at, from), texts, bytes: 0 });
            }
            add(to, CountedElement::Consumers(groups.consumer_count(group.number)?))?;
            StreamPlace::Consumer(at, 0)
        }
        StreamPlace::Consumer(at, consumer) => {
            let (_, group) = groups.at(at)?;
            if consumer == groups.consumer_count(group.number)? {
                StreamPlace::Group(at + 1)
            } else {
                let (name, found) = groups.consumer_at(group.number, consumer)?;
                let owned = groups.owned_count(found.number)?;
                add(to, CountedElement::Consumer { name, seen_at_ms: found.seen_ms, owned })?;
                StreamPlace::Owned(at, consumer, StreamId::MIN)
            }
        }
        StreamPlace::Owned(at, consumer, from) => {
            let (_, group) = groups.at(at)?;
            let (_, found) = groups.consumer_at(group.number, consumer)?;
            let owned =
                groups.owned_from(found.number, from)?.map(|id| id.map(|id| (id, CountedElement::Owned(of(id)))));
            let (from, texts) = add_some(to, owned)?;
            let place = from.map(|from| StreamPlace::Owned(at, consumer, from));
            return Ok(DumpStep { place: place.unwrap_or(StreamPlace::Consumer(at, consumer + 1)), texts, bytes: 0 });
        }
        StreamPlace::End => StreamPlace::End,
    };
    Ok(DumpStep { place: next, texts: 8, bytes: 0 })
}

/// Returns an identifier as payloads have it.
fn of(id: StreamId) -> rdb::StreamId {
    rdb::StreamId { ms: id.ms, seq: id.seq }
}

fn add(to: &mut PayloadWriter, element: CountedElement<'_>) -> Result<(), Damaged> {
    to.add(&element).map_err(|Misplaced| Damaged)
}

/// Writes entries from number `from` on.
fn dump_entries(stream: &StreamValue<'_>, from: u64, to: &mut PayloadWriter) -> Result<DumpStep, Damaged> {
    let (mut count, mut texts, mut bytes) = (0, 0, 0);
    for entry in stream.from(from)?.take(ELEMENTS_A_STEP) {
        let (written, len) = dump_entry(&entry?, to)?;
        (count, texts, bytes) = (count + 1, texts + written, bytes + len);
        if texts >= TEXTS_A_STEP || bytes >= BYTES_A_STEP {
            break;
        }
    }
    Ok(DumpStep { place: StreamPlace::Entry(from + count), texts, bytes })
}

/// Writes an entry. Returns the number of its fields and values, and of their bytes.
fn dump_entry(entry: &StreamEntry<'_>, to: &mut PayloadWriter) -> Result<(usize, usize), Damaged> {
    add(to, CountedElement::Entry(of(entry.id)))?;
    let (mut words, mut texts, mut bytes) = (entry.words(), 0, 0);
    while let Some(name) = words.next() {
        let (name, value) = (name?, words.next().ok_or(Damaged)??);
        let mut digits = [Digits::new(), Digits::new()];
        let [for_name, for_value] = &mut digits;
        let (name, value) = (name.text(for_name), value.text(for_value));
        add(to, CountedElement::Field { name, value })?;
        (texts, bytes) = (texts + 2, bytes + name.len() + value.len());
    }
    Ok((texts, bytes))
}

/// Writes the facts about a stream. Returns the place behind them.
fn dump_totals(stream: &StreamValue<'_>, to: &mut PayloadWriter) -> Result<StreamPlace, Damaged> {
    let state = stream.state();
    let totals = StreamTotals {
        length: state.len,
        last_id: of(state.last),
        first_id: Some(of(stream.first_id()?)),
        max_deleted_id: of(state.deleted_max),
        entries_added: state.added,
    };
    add(to, CountedElement::Totals { totals, groups: state.groups })?;
    Ok(StreamPlace::Group(0))
}

/// Writes elements, each with its identifier, until a step is full. Returns the identifier of the next element, if any,
/// and the number of elements that were written.
fn add_some(
    to: &mut PayloadWriter,
    elements: impl Iterator<Item = Result<(StreamId, CountedElement<'static>), Damaged>>,
) -> Result<(Option<StreamId>, usize), Damaged> {
    let mut count = 0;
    for element in elements {
        let (id, element) = element?;
        if count == ELEMENTS_A_STEP {
            return Ok((Some(id), count));
        }
        add(to, element)?;
        count += 1;
    }
    Ok((None, count))
}
