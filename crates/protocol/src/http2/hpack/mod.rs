//! HPACK, the compression of header fields (RFC 7541).
//!
//! ```text
//!  block bytes ──> integer, huffman ──> HpackDecoder ──> FieldList   the fields of one block, classified
//!                                          │ ▲
//!                                          ▼ │
//!                                    static_table, DynamicTable
//!  encode: indexed fields and literals without indexing; no table, no state
//! ```
//!
//! Invariants:
//! - The dynamic table takes at most [`TABLE_BYTES_MAX`] bytes as RFC 7541 counts them.
//! - The work for a block is linear in its length. A field that is repeated by its index is copied only while the
//!   list has room.
//! - A block that is longer than the list is decoded to its end, so that the table stays equal to the peer's.
//! - The fields of a block depend on the bytes of the block and the table before it alone. So a list keeps its fields
//!   if the next block is equal, from the same decoder, and the table has not changed. Calls that differ in no field,
//!   as those without a deadline or with one in coarse units, have their fields decoded once.

mod decoder;
pub mod encode;
mod field_list;
mod huffman;
mod integer;
mod name;
mod static_table;
mod table;

pub use decoder::{HpackDecoder, HpackError};
pub use field_list::FieldList;
pub use huffman::{HuffmanError, decode as decode_huffman};
pub use name::FieldName;
pub use table::TABLE_BYTES_MAX;

#[cfg(test)]
mod tests;
