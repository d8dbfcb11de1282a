//! HPACK: the compression of header fields (RFC 7541).
//!
//! ```text
//!   field     1 index                                     a field of a table
//!             01 index-or-0 [name] value                  a new entry of the dynamic table
//!             0000, 0001 index-or-0 [name] value          a field that is not entered
//!             001 size                                    a new size of the dynamic table
//!   indexes   1 .. 61 the static table, 62 .. the dynamic table, the newest entry first
//!
//!   dynamic table    bytes [ ........ | name value | name value | ..... room ]
//!                                       ^ oldest     ^ newest
//! ```
//!
//! The dynamic table has memory from its first entry on, and never more than [`TABLE_BYTES`] of entries.

use super::huffman;
use std::collections::VecDeque;

/// The size of the dynamic table, in bytes as RFC 7541, 4.1 counts them: `SETTINGS_HEADER_TABLE_SIZE`.
pub const TABLE_BYTES: usize = 4096;
/// The bytes that each entry counts beside its name and value (RFC 7541, 4.1).
pub const ENTRY_BYTES: usize = 32;
/// The maximum memory that an empty list of fields retains for the next block, in bytes.
const KEPT_BYTES_MAX: usize = 2048;

/// The static table (RFC 7541, appendix A).
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];

/// The maximum size of all fields of a block, as a multiple of the maximum size of its list. It limits the work for
/// blocks whose fields are long entries of the table.
const DECODED_LISTS_MAX: usize = 16;

/// The reason why a header block cannot be decoded. The connection then ends, because both tables may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The block is malformed.
    Malformed,
    /// The fields of the block are far longer than their list may be.
    TooLong,
}

/// An entry of the dynamic table.
#[derive(Clone, Copy, Debug)]
struct TableEntry {
    /// The place of the name in the bytes; the value follows.
    at: usize,
    name: usize,
    value: usize,
}

impl TableEntry {
    const fn size(self) -> usize {
        self.name + self.value + ENTRY_BYTES
    }
}

/// The fields of one header block, or of none.
#[derive(Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    /// The ends of each name and value in `bytes`.
    ends: Vec<(usize, usize)>,
    /// True if fields were left out, because the list was longer than its limit.
    pub is_cut: bool,
}

impl Fields {
    /// Removes all fields. Their memory is retained.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.is_cut = false;
    }

    /// Returns all fields in order: names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut from = 0;
        self.ends.iter().map(move |(name, value)| {
            let field = (&self.bytes[from..*name], &self.bytes[*name..*value]);
            from = *value;
            field
        })
    }

    /// Returns the value of the first field with this name.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(of, _)| *of == name).map(|(_, value)| value)
    }

    /// Removes all fields, and frees their memory if it is more than [`KEPT_BYTES_MAX`].
    pub fn free(&mut self) {
        self.clear();
        if self.memory_bytes() > KEPT_BYTES_MAX {
            (self.bytes, self.ends) = (Vec::new(), Vec::new());
        }
    }

    /// Returns the memory of the fields, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<(usize, usize)>()
    }

    /// Returns the size of the list (RFC 9113, 6.5.2), in bytes.
    fn size(&self) -> usize {
        self.bytes.len() + ENTRY_BYTES * self.ends.len()
    }
}

/// The decoder of a connection's header blocks.
#[derive(Debug)]
pub struct HeaderDecoder {
    bytes: Vec<u8>,
    /// The entries, the oldest first.
    entries: VecDeque<TableEntry>,
    /// The size of all entries.
    size: usize,
    /// The maximum size, which the peer chooses, up to [`TABLE_BYTES`].
    size_max: usize,
}

impl Default for HeaderDecoder {
    fn default() -> Self {
        Self { bytes: Vec::new(), entries: VecDeque::new(), size: 0, size_max: TABLE_BYTES }
    }
}

impl HeaderDecoder {
    /// Decodes a whole header block into `fields`, which are empty. Beyond `list_bytes_max`, fields are decoded and
    /// left out.
    ///
    /// # Errors
    /// If the block is malformed, or its fields are too long together.
    pub fn decode(&mut self, block: &[u8], list_bytes_max: usize, fields: &mut Fields) -> Result<(), DecodeError> {
        let (mut rest, mut is_first, mut decoded) = (block, true, 0);
        while let Some(first) = rest.first() {
            if first & 0xe0 == 0x20 {
                // A change of the size precedes all fields.
                let size;
                (size, rest) = integer(rest, 5)?;
                if !is_first || size > TABLE_BYTES {
                    return Err(DecodeError::Malformed);
                }
                self.size_max = size;
                self.evict(0);
                continue;
            }
            is_first = false;
            let (name_at, is_entered) = (fields.bytes.len(), first & 0xc0 == 0x40);
            let name_end;
            if first & 0x80 != 0 {
                let index;
                (index, rest) = integer(rest, 7)?;
                name_end = self.copy(index, true, &mut fields.bytes)?;
            } else {
                let index;
                (index, rest) = integer(rest, if is_entered { 6 } else { 4 })?;
                if index == 0 {
                    rest = string(rest, &mut fields.bytes)?;
                    name_end = fields.bytes.len();
                } else {
                    name_end = self.copy(index, false, &mut fields.bytes)?;
                }
                rest = string(rest, &mut fields.bytes)?;
            }
            if is_entered {
                self.enter(&fields.bytes[name_at..], name_end - name_at);
            }
            fields.ends.push((name_end, fields.bytes.len()));
            decoded += fields.bytes.len() - name_at + ENTRY_BYTES;
            if decoded > DECODED_LISTS_MAX * list_bytes_max {
                return Err(DecodeError::TooLong);
            }
            if fields.size() > list_bytes_max {
                fields.ends.pop();
                fields.bytes.truncate(name_at);
                fields.is_cut = true;
            }
        }
        Ok(())
    }

    /// Returns the memory of the table, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<TableEntry>()
    }

    /// Appends the name of an indexed field, and its value if `whole`. Returns the end of the name.
    fn copy(&self, index: usize, whole: bool, to: &mut Vec<u8>) -> Result<usize, DecodeError> {
        let (name, value) = match index.checked_sub(1).ok_or(DecodeError::Malformed)? {
            at if at < STATIC.len() => (STATIC[at].0.as_bytes(), STATIC[at].1.as_bytes()),
            at => {
                let newest = self.entries.len().checked_sub(at - STATIC.len() + 1).ok_or(DecodeError::Malformed)?;
                let entry = self.entries[newest];
                self.bytes[entry.at..entry.at + entry.name + entry.value].split_at(entry.name)
            }
        };
        to.extend_from_slice(name);
        let end = to.len();
        if whole {
            to.extend_from_slice(value);
        }
        Ok(end)
    }

    /// Enters a field, given as its name and value without a gap.
    fn enter(&mut self, field: &[u8], name: usize) {
        let entry = TableEntry { at: 0, name, value: field.len() - name };
        self.evict(entry.size());
        if entry.size() > self.size_max {
            // RFC 7541, 4.4: an entry that does not fit empties the table.
            return;
        }
        if self.bytes.len() + field.len() > 2 * TABLE_BYTES {
            let from = self.entries.front().map_or(self.bytes.len(), |oldest| oldest.at);
            self.bytes.drain(..from);
            self.entries.iter_mut().for_each(|entry| entry.at -= from);
        }
        self.size += entry.size();
        self.entries.push_back(TableEntry { at: self.bytes.len(), ..entry });
        self.bytes.extend_from_slice(field);
    }

    /// Evicts the oldest entries until `more` bytes fit.
    fn evict(&mut self, more: usize) {
        while self.size + more > self.size_max
            && let Some(oldest) = self.entries.pop_front()
        {
            self.size -= oldest.size();
        }
        if self.entries.is_empty() {
            self.bytes.clear();
        }
    }
}

/// Reads an integer with a prefix of `bits` bits (RFC 7541, 5.1). No valid integer of a block exceeds 2^28.
fn integer(bytes: &[u8], bits: u32) -> Result<(usize, &[u8]), DecodeError> {
    let (first, mut rest) = bytes.split_first().ok_or(DecodeError::Malformed)?;
    let most = (1usize << bits) - 1;
    let mut value = usize::from(*first) & most;
    if value < most {
        return Ok((value, rest));
    }
    for shift in [0, 7, 14, 21] {
        let (byte, after) = rest.split_first().ok_or(DecodeError::Malformed)?;
        rest = after;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((value, rest));
        }
    }
    Err(DecodeError::Malformed)
}

/// Appends a string (RFC 7541, 5.2). Returns the bytes behind it.
fn string<'b>(bytes: &'b [u8], to: &mut Vec<u8>) -> Result<&'b [u8], DecodeError> {
    let is_coded = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let (len, rest) = integer(bytes, 7)?;
    let (text, rest) = rest.split_at_checked(len).ok_or(DecodeError::Malformed)?;
    if !is_coded {
        to.extend_from_slice(text);
    } else if !huffman::decode(text, to) {
        return Err(DecodeError::Malformed);
    }
    Ok(rest)
}

/// Appends a field that is not entered in a table, with its name (RFC 7541, 6.2.2).
pub fn encode(name: &[u8], value: &[u8], to: &mut Vec<u8>) {
    to.push(0);
    for text in [name, value] {
        let len = text.len();
        match len {
            0..127 => to.push(len as u8),
            _ => {
                let mut rest = len - 127;
                to.push(127);
                while rest >= 128 {
                    to.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                to.push(rest as u8);
            }
        }
        to.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn decode(decoder: &mut HeaderDecoder, hex: &str) -> Result<Vec<(String, String)>, DecodeError> {
        let mut fields = Fields::default();
        decoder.decode(&bytes(hex), 16 << 10, &mut fields)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok(fields.iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    #[test]
    fn requests_of_the_appendix_c_4_are_decoded_with_one_table() {
        let mut decoder = HeaderDecoder::default();
        let first = decode(&mut decoder, "828684418cf1e3c2e5f23a6ba0ab90f4ff").unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut expected = vec![
            pair(":method", "GET"),
            pair(":scheme", "http"),
            pair(":path", "/"),
            pair(":authority", "www.example.com"),
        ];
        assert_eq!(first, expected);
        expected.push(pair("cache-control", "no-cache"));
        assert_eq!(decode(&mut decoder, "828684be5886a8eb10649cbf").unwrap(), expected);
        let third = decode(&mut decoder, "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf").unwrap();
        assert_eq!(third[4], pair("custom-key", "custom-value"));
        assert_eq!((decoder.entries.len(), decoder.size), (3, 164));
    }

    #[test]
    fn entries_are_evicted_when_the_table_is_full_and_their_bytes_reused() {
        let mut decoder = HeaderDecoder::default();
        for round in 0..10_000 {
            let mut block = vec![0x40, 3, b'k', b'e', b'y', 100];
            block.extend_from_slice(format!("{round:0>100}").as_bytes());
            let mut fields = Fields::default();
            decoder.decode(&block, 16 << 10, &mut fields).unwrap();
            assert!(decoder.size <= TABLE_BYTES && decoder.bytes.len() <= 2 * TABLE_BYTES);
            let mut fields = Fields::default();
            decoder.decode(&[0x80 | 62], 16 << 10, &mut fields).unwrap();
            assert_eq!(fields.get(b"key"), Some(format!("{round:0>100}").as_bytes()));
        }
        assert_eq!(decoder.entries.len(), TABLE_BYTES / (103 + ENTRY_BYTES));
    }

    #[test]
    fn malformed_blocks_are_refused() {
        for hex in ["80", "be", "c0", "7f", "ff80808080", "4003", "400161", "82203f", "3fe21f", "00017f", "0082ffff"] {
            assert_eq!(decode(&mut HeaderDecoder::default(), hex), Err(DecodeError::Malformed), "{hex}");
        }
        assert_eq!(
            decode(&mut HeaderDecoder::default(), "3fe11f82").map(|fields| fields.len()),
            Ok(1),
            "4,096 is allowed"
        );
    }

    #[test]
    fn list_beyond_its_limit_is_decoded_for_the_table_and_cut() {
        let (mut decoder, mut fields) = (HeaderDecoder::default(), Fields::default());
        let mut block = bytes("400161");
        block.extend_from_slice(&[5, b'v', b'a', b'l', b'u', b'e']);
        block.extend_from_slice(&[0x80 | 62; 100]);
        decoder.decode(&block, 1_000, &mut fields).unwrap();
        assert!(fields.is_cut && fields.size() <= 1_000 && fields.bytes.capacity() < 10_000);
        assert_eq!((decoder.entries.len(), decoder.size), (1, 38));
        fields.clear();
        block.extend_from_slice(&[0x80 | 62; 400]);
        assert_eq!(decoder.decode(&block, 1_000, &mut fields), Err(DecodeError::TooLong));
    }

    #[test]
    fn blocks_that_repeat_a_long_name_or_field_cost_no_more_than_their_bound() {
        // An entry of 4,000 bytes, and then as a field or as the name of new entries, two bytes each.
        for repeated in [&[0x80 | 62][..], &[0x40 | 62, 0]] {
            let mut block = vec![0x40, 127, 0xa1, 30];
            block.extend_from_slice(&[b'x'; 4_000]);
            block.extend_from_slice(&[1, b'v']);
            block.extend_from_slice(&repeated.repeat(10_000));
            let (mut decoder, mut fields) = (HeaderDecoder::default(), Fields::default());
            assert_eq!(decoder.decode(&block, 16 << 10, &mut fields), Err(DecodeError::TooLong));
            assert!(fields.memory_bytes() < 64 << 10 && decoder.memory_bytes() < 32 << 10);
        }
    }

    #[test]
    fn encoded_fields_are_decoded_as_they_were() {
        let (long, mut block) = (vec![b'x'; 5_000], Vec::new());
        encode(b"grpc-message", b"", &mut block);
        encode(b"a", &long, &mut block);
        let mut fields = Fields::default();
        HeaderDecoder::default().decode(&block, 16 << 10, &mut fields).unwrap();
        assert_eq!((fields.get(b"grpc-message"), fields.get(b"a")), (Some(&b""[..]), Some(&long[..])));
    }
}
