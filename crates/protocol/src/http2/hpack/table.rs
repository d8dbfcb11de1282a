//! The dynamic table (RFC 7541, 2.3.2 and 4).
//!
//! ```text
//!  bytes    | evicted | oldest name value | ... | newest name value |
//!                     ^ start                                       ^ end
//!  entries  oldest ... newest, each with its position; index 62 is the newest
//! ```
//!
//! Bytes of an entry are contiguous. When the vector is full, the live bytes move to its start: at most
//! [`TABLE_BYTES_MAX`] bytes, at most once for as many inserted bytes.

use std::collections::VecDeque;

use super::name::{FieldName, is_valid_value};

/// The maximum size of a dynamic table as RFC 7541 counts it: the default of SETTINGS_HEADER_TABLE_SIZE.
pub const TABLE_BYTES_MAX: usize = 4096;

/// The number of bytes that each entry counts beside its name and value (RFC 7541, 4.1).
pub(super) const ENTRY_OVERHEAD_BYTES: usize = 32;

/// An entry's place in the bytes of its table.
#[derive(Clone, Copy, Debug)]
struct TableEntry {
    /// Position of the name, or of the value if the name is known. Counted from the table's first byte ever, and wraps.
    at: u32,
    /// The length of the name in bytes, also if the name is known and so not stored.
    name_len: u16,
    value_len: u16,
    name: FieldName,
    /// True if the value is one that a field may have.
    valid: bool,
}

const _: () = assert!(size_of::<TableEntry>() == 12 && TABLE_BYTES_MAX <= u16::MAX as usize);

impl TableEntry {
    fn size_bytes(&self) -> usize {
        usize::from(self.name_len) + usize::from(self.value_len) + ENTRY_OVERHEAD_BYTES
    }

    /// Returns the number of the entry's bytes that are stored.
    fn stored_bytes(&self) -> usize {
        self.stored_name_bytes() + usize::from(self.value_len)
    }

    fn stored_name_bytes(&self) -> usize {
        if self.name.text().is_some() { 0 } else { usize::from(self.name_len) }
    }
}

/// A field of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableField<'t> {
    pub(super) name: FieldName,
    pub(super) text: &'t [u8],
    pub(super) value: &'t [u8],
    pub(super) valid: bool,
}

/// A dynamic table, which takes no heap memory while it is empty.
#[derive(Debug)]
pub(super) struct DynamicTable {
    bytes: Vec<u8>,
    entries: VecDeque<TableEntry>,
    /// Position of `bytes[0]`.
    base: u32,
    /// The size as RFC 7541 counts it.
    size_bytes: u32,
    size_max_bytes: u32,
    /// The number of insertions and changes of the size.
    changes: u64,
}

impl DynamicTable {
    /// Creates an empty table.
    pub(super) const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            entries: VecDeque::new(),
            base: 0,
            size_bytes: 0,
            size_max_bytes: TABLE_BYTES_MAX as u32,
            changes: 0,
        }
    }

    /// Returns the number of changes of the table.
    #[inline]
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the field with `index`, where 0 is the newest.
    #[inline]
    pub(super) fn field(&self, index: usize) -> Option<TableField<'_>> {
        let entry = self.entries.get(self.entries.len().checked_sub(index + 1)?)?;
        let at = entry.at.wrapping_sub(self.base) as usize;
        let (text, value) = self.bytes[at..at + entry.stored_bytes()].split_at(entry.stored_name_bytes());
        let text = entry.name.text().map_or(text, str::as_bytes);
        Some(TableField { name: entry.name, text, value, valid: entry.valid })
    }

    /// Sets the maximum size, which must not exceed [`TABLE_BYTES_MAX`], and evicts what exceeds it.
    pub(super) fn resize(&mut self, max_bytes: usize) {
        debug_assert!(max_bytes <= TABLE_BYTES_MAX);
        self.changes += 1;
        self.size_max_bytes = max_bytes as u32;
        self.evict(max_bytes);
        if self.entries.is_empty() {
            (self.bytes, self.entries) = (Vec::new(), VecDeque::new());
        }
    }

    fn evict(&mut self, max_bytes: usize) {
        while self.size_bytes as usize > max_bytes {
            let entry = self.entries.pop_front().expect("a table without entries has size 0");
            self.size_bytes -= entry.size_bytes() as u32;
        }
    }

    /// Inserts a field and evicts older ones. A field that is larger than the table empties it (RFC 7541, 4.4).
    pub(super) fn insert(&mut self, name: FieldName, text: &[u8], value: &[u8]) {
        self.changes += 1;
        let size = text.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        let Some(left) = (self.size_max_bytes as usize).checked_sub(size) else { return self.evict(0) };
        self.evict(left);
        let stored = if name.text().is_some() { &[] } else { text };
        self.compact(stored.len() + value.len());
        let at = self.base.wrapping_add(self.bytes.len() as u32);
        self.bytes.extend_from_slice(stored);
        self.bytes.extend_from_slice(value);
        let (name_len, value_len) = (text.len() as u16, value.len() as u16);
        self.entries.push_back(TableEntry { at, name_len, value_len, name, valid: is_valid_value(value) });
        self.size_bytes += size as u32;
    }

    /// Moves the live bytes to the start if `more` bytes do not fit behind them.
    fn compact(&mut self, more: usize) {
        if self.bytes.len() + more <= 2 * TABLE_BYTES_MAX {
            return;
        }
        let start = self.entries.front().map_or(self.bytes.len(), |entry| entry.at.wrapping_sub(self.base) as usize);
        self.bytes.drain(..start);
        self.base = self.base.wrapping_add(start as u32);
    }

    /// Returns the number of bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<TableEntry>()
    }

    /// Frees the heap memory that only future entries would need.
    pub(super) fn shrink(&mut self) {
        let start = self.entries.front().map_or(self.bytes.len(), |entry| entry.at.wrapping_sub(self.base) as usize);
        self.bytes.drain(..start);
        self.base = self.base.wrapping_add(start as u32);
        self.bytes.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    #[cfg(test)]
    pub(super) fn size_bytes(&self) -> usize {
        self.size_bytes as usize
    }
}
