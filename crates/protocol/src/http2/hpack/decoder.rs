//! Decodes header blocks (RFC 7541, 3 and 6).

use super::field_list::{BlockOrigin, FieldList};
use super::huffman;
use super::integer;
use super::name::FieldName;
use super::static_table;
use super::table::{DynamicTable, TABLE_BYTES_MAX, TableField};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The causes by which a block cannot be decoded. The table is unknown then, so the connection must be closed with
/// COMPRESSION_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends inside a field, or an integer is too large.
    Integer,
    /// An index beyond the tables, or index 0.
    Index,
    /// A string that is cut off or not a valid Huffman code.
    String,
    /// A change of the table's size that exceeds the maximum or follows a field.
    TableSize,
    /// A block whose fields are a large multiple of what the list may hold: a decompression bomb.
    Bomb,
}

impl HpackError {
    /// Returns the text for the debug data of GOAWAY.
    pub fn text(self) -> &'static str {
        match self {
            Self::Integer => "header block: invalid integer",
            Self::Index => "header block: invalid index",
            Self::String => "header block: invalid string",
            Self::TableSize => "header block: invalid table size update",
            Self::Bomb => "header block: decompresses to too many bytes",
        }
    }
}

/// The number of decoders that the process has created.
static DECODERS: AtomicU64 = AtomicU64::new(0);

/// The decoder of one direction of a connection: its dynamic table.
#[derive(Debug)]
pub struct HpackDecoder {
    table: DynamicTable,
    /// The number of this decoder, which no other one of the process has.
    number: NonZeroU64,
}

impl Default for HpackDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl HpackDecoder {
    /// Creates a decoder with an empty table of at most [`TABLE_BYTES_MAX`] bytes.
    pub fn new() -> Self {
        Self { table: DynamicTable::new(), number: NonZeroU64::MIN.saturating_add(DECODERS.fetch_add(1, Relaxed)) }
    }

    /// Decodes `block`, a whole header block, to `list`, which it clears first.
    ///
    /// If the list is too short for the fields, the rest of the block is decoded for the table only. A block that is
    /// equal to the last one is not decoded again, if that left the table as it was: its fields are still in the list.
    #[inline]
    pub fn decode(&mut self, block: &[u8], list: &mut FieldList) -> Result<(), HpackError> {
        let origin = BlockOrigin { decoder: self.number, changes: self.table.changes() };
        if list.is_of(origin, block) {
            return Ok(());
        }
        self.decode_fields(block, list)?;
        if self.table.changes() == origin.changes {
            list.set_origin(origin, block);
        }
        Ok(())
    }

    fn decode_fields(&mut self, block: &[u8], list: &mut FieldList) -> Result<(), HpackError> {
        list.clear();
        let mut rest = block;
        let mut may_resize = true;
        while let Some(first) = rest.first() {
            match first {
                0x80.. => {
                    let (index, used) = integer::decode(rest, 7).ok_or(HpackError::Integer)?;
                    rest = &rest[used..];
                    let field = self.field(index)?;
                    list.push(field.name, field.text, field.value, field.valid);
                }
                0x40..=0x7f => rest = self.literal(rest, 6, true, list)?,
                0x20..=0x3f => {
                    let (size, used) = integer::decode(rest, 5).ok_or(HpackError::Integer)?;
                    // Only at the start of a block (RFC 7541, 4.2).
                    if !may_resize || size > TABLE_BYTES_MAX {
                        return Err(HpackError::TableSize);
                    }
                    self.table.resize(size);
                    rest = &rest[used..];
                    continue;
                }
                // Without indexing, or never indexed: the same to a decoder that forwards nothing.
                0x00..=0x1f => rest = self.literal(rest, 4, false, list)?,
            }
            if list.is_bomb() {
                return Err(HpackError::Bomb);
            }
            may_resize = false;
        }
        Ok(())
    }

    /// Returns the number of bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.table.heap_bytes()
    }

    /// Frees the heap memory that the present entries do not need.
    pub fn shrink(&mut self) {
        self.table.shrink();
    }

    #[inline]
    fn field(&self, index: usize) -> Result<TableField<'_>, HpackError> {
        match index.checked_sub(1 + static_table::LEN) {
            Some(index) => self.table.field(index).ok_or(HpackError::Index),
            None => {
                let index = index.checked_sub(1).ok_or(HpackError::Index)?;
                let field = &static_table::FIELDS[index];
                let (text, value) = (field.text.as_bytes(), field.value.as_bytes());
                Ok(TableField { name: field.name, text, value, valid: true })
            }
        }
    }

    /// Decodes a literal field, whose first byte has `prefix_bits` bits of the name's index. Returns the rest.
    fn literal<'b>(
        &mut self,
        block: &'b [u8],
        prefix_bits: u32,
        insert: bool,
        list: &mut FieldList,
    ) -> Result<&'b [u8], HpackError> {
        let (index, used) = integer::decode(block, prefix_bits).ok_or(HpackError::Integer)?;
        let mut rest = &block[used..];
        let at = list.bytes.len();
        let name = if index == 0 {
            rest = string(rest, &mut list.bytes)?;
            FieldName::of(&list.bytes[at..])
        } else {
            let field = self.field(index)?;
            list.bytes.extend_from_slice(field.text);
            field.name
        };
        let text_len = list.bytes.len() - at;
        if name.text().is_some() {
            list.bytes.truncate(at);
        }
        let value_at = list.bytes.len();
        rest = string(rest, &mut list.bytes)?;
        if insert {
            let text = name.text().map_or(&list.bytes[at..value_at], str::as_bytes);
            self.table.insert(name, text, &list.bytes[value_at..]);
        }
        list.commit(name, text_len, at, value_at);
        Ok(rest)
    }

    #[cfg(test)]
    pub(super) fn table_size_bytes(&self) -> usize {
        self.table.size_bytes()
    }

    /// Returns the fields of the dynamic table, the newest first.
    #[cfg(test)]
    pub(super) fn table_fields(&self) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("a text");
        let field = |field: TableField<'_>| (text(field.text), text(field.value));
        (0..).map_while(|index| self.table.field(index)).map(field).collect()
    }
}

/// Decodes the string at the start of `block` (RFC 7541, 5.2) and appends it to `out`. Returns the rest.
fn string<'b>(block: &'b [u8], out: &mut Vec<u8>) -> Result<&'b [u8], HpackError> {
    let (len, used) = integer::decode(block, 7).ok_or(HpackError::Integer)?;
    let (text, rest) = block[used..].split_at_checked(len).ok_or(HpackError::String)?;
    if block[0] & 0x80 == 0 {
        out.extend_from_slice(text);
    } else {
        huffman::decode(text, out).map_err(|_| HpackError::String)?;
    }
    Ok(rest)
}
