//! The fields of one header block, with the checks that each field needs by itself or by its place.

use super::name::{FieldName, is_valid_value};
use super::table::ENTRY_OVERHEAD_BYTES;
use std::num::NonZeroU64;

/// A block may be decoded to this many times the list's maximum. Beyond that, following the table costs more work than
/// the connection is worth.
const BOMB_FACTOR: usize = 16;

const _: () = assert!(FieldName::KNOWN <= u64::BITS as usize, "each known name has a bit");

/// A field's place in the bytes of its list.
#[derive(Clone, Copy, Debug)]
struct Stored {
    /// Offset of the name, or of the value if the name is known.
    at: u32,
    /// The number of stored bytes of the name.
    name_len: u32,
    value_len: u32,
    name: FieldName,
}

/// The maximum length of a block that a list remembers, in bytes.
const REMEMBERED_BYTES_MAX: usize = 1024;

/// The decoder of a block, and the number of changes of its table before the block. These and the bytes of the block
/// determine the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockOrigin {
    pub(super) decoder: NonZeroU64,
    pub(super) changes: u64,
}

/// The fields of a header block in their order.
///
/// A worker needs one list for all its connections: the fields are valid until the next block is decoded. After its
/// first blocks, the list allocates nothing.
#[derive(Debug)]
pub struct FieldList {
    pub(super) bytes: Vec<u8>,
    fields: Vec<Stored>,
    /// The block whose fields these are, and its origin; `None` if it is not remembered.
    block: Vec<u8>,
    origin: Option<BlockOrigin>,
    /// By known name: 1 + the index of its first field; 0 if there is none.
    first: [u16; FieldName::KNOWN],
    /// By known name: the bit of a name that has more than one field.
    repeated: u64,
    size_bytes: usize,
    size_max_bytes: usize,
    content_length: Option<u64>,
    too_long: bool,
    malformed: bool,
}

impl FieldList {
    /// Creates an empty list of at most `size_max_bytes`, counted as SETTINGS_MAX_HEADER_LIST_SIZE does: each field's
    /// name, value and 32 bytes.
    ///
    /// # Panics
    /// If the maximum exceeds 1 MiB.
    pub fn new(size_max_bytes: usize) -> Self {
        assert!(size_max_bytes <= 1 << 20, "a header list of {size_max_bytes} bytes is too long");
        Self {
            bytes: Vec::new(),
            fields: Vec::new(),
            block: Vec::new(),
            origin: None,
            first: [0; FieldName::KNOWN],
            repeated: 0,
            size_bytes: 0,
            size_max_bytes,
            content_length: None,
            too_long: false,
            malformed: false,
        }
    }

    /// Removes all fields.
    pub fn clear(&mut self) {
        self.origin = None;
        self.bytes.clear();
        self.fields.clear();
        self.first = [0; FieldName::KNOWN];
        self.repeated = 0;
        self.size_bytes = 0;
        self.content_length = None;
        self.too_long = false;
        self.malformed = false;
    }

    /// Returns true if these are the fields of `block` from `origin`.
    #[inline]
    pub(super) fn is_of(&self, origin: BlockOrigin, block: &[u8]) -> bool {
        self.origin == Some(origin) && self.block == block
    }

    /// Remembers the block whose fields these are. It has left the table as it was, so that an equal block would have
    /// the same fields.
    pub(super) fn set_origin(&mut self, origin: BlockOrigin, block: &[u8]) {
        if block.len() <= REMEMBERED_BYTES_MAX {
            self.block.clear();
            self.block.extend_from_slice(block);
            self.origin = Some(origin);
        }
    }

    /// Returns the value of the first field with a known name.
    #[inline]
    pub fn value(&self, name: FieldName) -> Option<&[u8]> {
        let index = usize::from(*self.first.get(name as usize)?).checked_sub(1)?;
        Some(self.field(&self.fields[index]).1)
    }

    /// Returns true if there is more than one field with a known name.
    #[inline]
    pub fn is_repeated(&self, name: FieldName) -> bool {
        self.repeated & (1 << name as u32) != 0
    }

    /// Iterates over all fields as pairs of name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|stored| self.field(stored))
    }

    /// Iterates over the fields whose names are of class [`FieldName::Other`]: the request's own metadata.
    pub fn others(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().filter(|stored| stored.name == FieldName::Other).map(|stored| self.field(stored))
    }

    /// Returns true if the block had more fields than the list may hold. Then the list lacks fields.
    pub fn is_too_long(&self) -> bool {
        self.too_long
    }

    /// Returns true if the block was decoded to many times the size that the list may hold.
    #[inline(always)]
    pub(super) fn is_bomb(&self) -> bool {
        self.too_long && self.size_bytes > BOMB_FACTOR * self.size_max_bytes
    }

    /// Returns the number of `content-length`.
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Returns true if the fields are a request's (RFC 9113, 8.3.1): all pseudo-headers that a request needs, each
    /// once, before the other fields, and no field that HTTP/2 forbids.
    pub fn is_request(&self) -> bool {
        let has = |name: FieldName| self.first[name as usize] > 0;
        let is_connect = self.value(FieldName::Method) == Some(b"CONNECT");
        let target = if is_connect {
            has(FieldName::Authority) && !has(FieldName::Scheme) && !has(FieldName::Path)
        } else {
            has(FieldName::Scheme) && self.value(FieldName::Path).is_some_and(|path| !path.is_empty())
        };
        // A list that is too long may lack any field.
        !self.malformed && !has(FieldName::Status) && (self.too_long || has(FieldName::Method) && target)
    }

    /// Returns true if the fields are a reply's (RFC 9113, 8.3.2): `:status` once, before the other fields, no other
    /// pseudo-header, and no field that HTTP/2 forbids.
    pub fn is_response(&self) -> bool {
        let has = |name: FieldName| self.first[name as usize] > 0;
        let of_request = [FieldName::Method, FieldName::Scheme, FieldName::Authority, FieldName::Path];
        !self.malformed && has(FieldName::Status) && !of_request.into_iter().any(has)
    }

    /// Returns true if the fields are valid trailers: without pseudo-headers (RFC 9113, 8.1).
    pub fn is_trailers(&self) -> bool {
        !self.malformed && !self.fields.first().is_some_and(|stored| stored.name.is_pseudo())
    }

    fn field(&self, stored: &Stored) -> (&[u8], &[u8]) {
        let at = stored.at as usize;
        let (text, value) =
            self.bytes[at..at + (stored.name_len + stored.value_len) as usize].split_at(stored.name_len as usize);
        (stored.name.text().map_or(text, str::as_bytes), value)
    }

    /// Appends a field of a table. `text` is stored only if `name` is not known.
    #[inline]
    pub(super) fn push(&mut self, name: FieldName, text: &[u8], value: &[u8], valid: bool) {
        self.size_bytes += text.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        if self.size_bytes > self.size_max_bytes {
            self.too_long = true;
            self.malformed |= !valid || name > FieldName::Other;
            return;
        }
        let at = self.bytes.len();
        if name.text().is_none() {
            self.bytes.extend_from_slice(text);
        }
        let value_at = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.store(name, at, value_at, valid);
    }

    /// Makes a field of the bytes from `at`. Its value begins at `value_at`; `text_len` is the length of its name,
    /// which is stored only if it is not known.
    pub(super) fn commit(&mut self, name: FieldName, text_len: usize, at: usize, value_at: usize) {
        self.size_bytes += text_len + self.bytes.len() - value_at + ENTRY_OVERHEAD_BYTES;
        let valid = is_valid_value(&self.bytes[value_at..]);
        if self.size_bytes > self.size_max_bytes {
            self.too_long = true;
            self.malformed |= !valid || name > FieldName::Other;
            return self.bytes.truncate(at);
        }
        self.store(name, at, value_at, valid);
    }

    #[inline]
    fn store(&mut self, name: FieldName, at: usize, value_at: usize, valid: bool) {
        let is_pseudo = name.is_pseudo();
        let after_regular = is_pseudo && self.fields.last().is_some_and(|last| !last.name.is_pseudo());
        self.malformed |= !valid || name > FieldName::Other || after_regular;
        let value_len = (self.bytes.len() - value_at) as u32;
        self.fields.push(Stored { at: at as u32, name_len: (value_at - at) as u32, value_len, name });
        let index = self.fields.len() as u16;
        let Some(first) = self.first.get_mut(name as usize) else { return };
        if *first == 0 {
            *first = index;
        } else {
            self.repeated |= 1 << name as u32;
            self.malformed |= is_pseudo;
        }
        match name {
            FieldName::Te => self.malformed |= !self.bytes[value_at..].eq_ignore_ascii_case(b"trailers"),
            FieldName::ContentLength => self.add_content_length(value_at),
            _ => {}
        }
    }

    /// Reads a `content-length`. A second one must have the same number (RFC 9110, 8.6).
    fn add_content_length(&mut self, value_at: usize) {
        let digits = &self.bytes[value_at..];
        let is_number = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
        let number = digits
            .iter()
            .fold(0u64, |number, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0'))));
        self.malformed |= !is_number || self.content_length.is_some_and(|before| before != number);
        self.content_length = Some(number);
    }
}
