//! Writes header fields: from the static table, or as literals without indexing. There is no state, so a block can be
//! a constant, and the peer's table needs no memory.

use super::integer;
use super::static_table;
use crate::sink::Sink;

/// A change of the dynamic table's maximum size to 0. It must begin the first block after the peer has lowered its
/// SETTINGS_HEADER_TABLE_SIZE below the default (RFC 7541, 4.2).
pub const TABLE_SIZE_0: u8 = 0x20;

/// The maximum number of bytes of a field beside its name and its value.
pub const FIELD_OVERHEAD_BYTES_MAX: usize = 1 + 5 + 5;

/// Appends the field at `index` of the static table.
pub fn indexed(sink: &mut impl Sink, index: u8) {
    debug_assert!((1..=static_table::LEN).contains(&usize::from(index)));
    sink.put(&[0x80 | index]);
}

/// Appends a field with the name at `name_index` of the static table.
pub fn with_indexed_name(sink: &mut impl Sink, name_index: u8, value: &[u8]) {
    debug_assert!((1..=static_table::LEN).contains(&usize::from(name_index)));
    integer::encode(sink, 0x00, 4, usize::from(name_index));
    string(sink, value);
}

/// Appends a field. `name` must be lowercase.
pub fn literal(sink: &mut impl Sink, name: &[u8], value: &[u8]) {
    sink.put(&[0]);
    string(sink, name);
    string(sink, value);
}

/// Appends a field whose value has `value_len` bytes, which `write` must append.
pub fn literal_of_parts<S: Sink>(sink: &mut S, name: &[u8], value_len: usize, write: impl FnOnce(&mut S)) {
    sink.put(&[0]);
    string(sink, name);
    integer::encode(sink, 0x00, 7, value_len);
    write(sink);
}

/// Appends a string without Huffman code: it is short, and the peer copies it faster than it decodes it.
pub fn string(sink: &mut impl Sink, text: &[u8]) {
    integer::encode(sink, 0x00, 7, text.len());
    sink.put(text);
}
