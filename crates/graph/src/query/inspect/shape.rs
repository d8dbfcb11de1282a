//! The forms of records. A restart ignores a record of another form, even if its checksum is right: a file may come
//! from a program that this one does not know.

use crate::leaf;
use crate::limits::{NAME_BYTES_MAX, OBJECT_BYTES_MAX, TIME_MS_MAX, TYPES_MAX};
use crate::memory::AtomicU32;
use crate::paged::PAGE;
use crate::record::{
    EDGE_WORDS, LEAVES_WORDS, MARK_WORDS, OBJECT_WORDS, RECENT_ENTRY_WORDS, RECENT_WORDS, RecordKind, RecordRef,
};

/// The end of sequence numbers: a leaf stores 48 bits of its own.
const LSN_END: u64 = 1 << 48;

/// Returns the record at the start of `words`, in a segment with this sequence, if its checksum and its form are right.
pub(crate) fn whole_record(words: &[AtomicU32], sequence: u32) -> Option<(RecordRef<'_>, RecordKind)> {
    RecordRef::checked(words, sequence).filter(|(record, kind)| is_well_formed(*record, *kind))
}

/// The maximum number of words that the search for whole records reads behind the damaged ones of one segment: it takes
/// some 50 ms.
pub(crate) const SEARCH_WORDS_MAX: usize = 1 << 26;

/// Returns the place of the next whole record behind the damaged one at `from`, or the end of `words` if there is none.
/// `left` is the number of words that the search may still read. If it does not suffice, the rest counts as damaged.
pub(crate) fn next_whole(words: &[AtomicU32], from: usize, sequence: u32, left: &mut usize) -> usize {
    // A record with text from clients is left out as a whole if its length is right: its text could look like a record.
    if let Some((record, RecordKind::Edge | RecordKind::Object)) = RecordRef::unchecked(&words[from..]) {
        let (is_edge, end) = (record.kind() == Some(RecordKind::Edge), from + record.len());
        let kind = if is_edge { RecordKind::Edge } else { RecordKind::Object };
        if has_length(record, kind) && (end == words.len() || whole_record(&words[end..], sequence).is_some()) {
            return end;
        }
    }
    for at in (from + 2..words.len()).step_by(2) {
        let found = RecordRef::unchecked(&words[at..]).filter(|(record, kind)| has_length(*record, *kind));
        // The checksums of the records whose length has no bound cover few words.
        let is_short = |kind| matches!(kind, RecordKind::Recent | RecordKind::Leaves | RecordKind::Void);
        let cost = found.map_or(1, |(record, kind)| if is_short(kind) { 8 } else { record.len() });
        if *left < cost {
            break;
        }
        *left -= cost;
        if found.is_some() && whole_record(&words[at..], sequence).is_some() {
            return at;
        }
    }
    words.len()
}

/// Returns true if a record has the length that its words state, so that a search reads few words of other ones.
fn has_length(record: RecordRef<'_>, kind: RecordKind) -> bool {
    let is = |words: usize| record.len() == words.next_multiple_of(2);
    let text = |bytes: u32| (bytes as usize).div_ceil(4);
    let has = |words: usize| record.len() >= words;
    match kind {
        RecordKind::Name => has(4) && (0..2).any(|creation| is(4 + text(record.word(3)) + creation)),
        RecordKind::EdgeType => has(7) && is(7 + text(record.word(6))),
        RecordKind::Nodes => has(4) && is(4 + record.word(3) as usize * 2),
        RecordKind::Edge => has(EDGE_WORDS) && is(EDGE_WORDS + text(record.edge_properties().2 as u32)),
        RecordKind::Mark => is(MARK_WORDS) || is(MARK_WORDS + 2),
        RecordKind::Object => has(OBJECT_WORDS) && (0..2).any(|lsn| is(OBJECT_WORDS + text(record.word(6)) + 2 * lsn)),
        RecordKind::Batch => is(7),
        RecordKind::Drop => is(3),
        RecordKind::Leaf => leaf::is_well_formed(record),
        RecordKind::Recent | RecordKind::Leaves | RecordKind::Void => true,
    }
}

/// Returns true if every reader of such a record stays inside it, and finds values that the writer could have written.
fn is_well_formed(record: RecordRef<'_>, kind: RecordKind) -> bool {
    let has = |words: usize| record.len() >= words;
    let has_text =
        |at: usize, bytes: u32, most: usize| bytes as usize <= most && has(at + (bytes as usize).div_ceil(4));
    let is_type = |ty: u32| (ty as usize) < TYPES_MAX;
    match kind {
        RecordKind::Name => has(4) && has_text(4, record.word(3), NAME_BYTES_MAX),
        RecordKind::EdgeType => {
            has(7)
                && is_type(record.word(2))
                && record.word(4) as usize <= TYPES_MAX
                && has_text(7, record.word(6), record.len() * 4)
        }
        RecordKind::Nodes => has(4) && is_nodes(record),
        RecordKind::Edge => {
            has(EDGE_WORDS)
                && is_type(record.edge_properties().0.into())
                && record.word(2) != record.word(3)
                && record.long(6) <= TIME_MS_MAX
                && record.long(4) < LSN_END
                && has_text(EDGE_WORDS, record.edge_properties().2 as u32, usize::from(u16::MAX))
        }
        RecordKind::Leaf => leaf::is_well_formed(record) && is_type(record.word(3) & 0xFF),
        RecordKind::Void => true,
        RecordKind::Drop => has(3),
        RecordKind::Recent => has(RECENT_WORDS + RECENT_ENTRY_WORDS) && is_type(record.word(3)),
        RecordKind::Leaves => has(LEAVES_WORDS) && is_type(record.word(3)),
        RecordKind::Batch => has(7) && record.long(2).max(record.long(5)) < LSN_END,
        RecordKind::Mark => has(MARK_WORDS) && record.long(3) <= TIME_MS_MAX && has_lsn(record, kind),
        RecordKind::Object => {
            has(OBJECT_WORDS)
                && record.long(3) <= TIME_MS_MAX
                && has_text(OBJECT_WORDS, record.word(6), OBJECT_BYTES_MAX)
                && has_lsn(record, kind)
        }
    }
}

/// Returns true if the sequence number of a mark or an object is one, or is missing.
fn has_lsn(record: RecordRef<'_>, kind: RecordKind) -> bool {
    record.node_lsn(kind).is_none_or(|lsn| lsn < LSN_END)
}

/// Returns true if a record of nodes has all its identifiers, and a complete block begins where blocks do.
fn is_nodes(record: RecordRef<'_>) -> bool {
    let (first, count) = (record.word(2), record.word(3));
    let is_block = count as usize == PAGE && (first as usize).is_multiple_of(PAGE);
    (count == 1 || is_block) && first.checked_add(count).is_some() && record.len() >= 4 + count as usize * 2
}
