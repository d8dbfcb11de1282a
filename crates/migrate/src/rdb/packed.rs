//! Small hashes stored in a single string: listpack, ziplist or zipmap. The functions return their elements in order,
//! or `None` if the string is invalid.

use super::input::decimal;

/// Reads bytes from the front of a string.
struct Cursor<'b>(&'b [u8]);

impl<'b> Cursor<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    /// Reads an unsigned little-endian number of up to 8 bytes.
    fn unsigned(&mut self, bytes: usize) -> Option<u64> {
        Some(self.take(bytes)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Reads a signed number with this number of bytes.
    fn signed(&mut self, bytes: usize) -> Option<i64> {
        let unused = 64 - 8 * bytes as u32;
        Some((self.unsigned(bytes)? << unused) as i64 >> unused)
    }

    fn string(&mut self, len: u64) -> Option<Vec<u8>> {
        self.take(usize::try_from(len).ok()?).map(<[u8]>::to_vec)
    }
}

/// Returns the number of bytes of the length after an element of a listpack, which is used to read it backwards.
const fn back_bytes(len: usize) -> usize {
    match len {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

/// Returns the elements of a listpack.
pub(super) fn listpack(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut cursor = Cursor(bytes);
    // Skips the total bytes and the number of elements (if below 65,535); neither is needed.
    cursor.take(6)?;
    let mut elements = Vec::new();
    loop {
        let before = cursor.0.len();
        let first = cursor.byte()?;
        let element = match first {
            0xFF => return cursor.0.is_empty().then_some(elements),
            0x00..=0x7F => decimal(first.into()),
            0x80..=0xBF => cursor.string(u64::from(first & 0x3F))?,
            0xC0..=0xDF => {
                let value = i64::from(first & 0x1F) << 8 | i64::from(cursor.byte()?);
                decimal(if value >= 1 << 12 { value - (1 << 13) } else { value })
            }
            0xE0..=0xEF => {
                let len = u64::from(first & 0x0F) << 8 | u64::from(cursor.byte()?);
                cursor.string(len)?
            }
            0xF0 => {
                let len = cursor.unsigned(4)?;
                cursor.string(len)?
            }
            0xF1..=0xF3 => decimal(cursor.signed(usize::from(first - 0xEF))?),
            0xF4 => decimal(cursor.signed(8)?),
            _ => return None,
        };
        cursor.take(back_bytes(before - cursor.0.len()))?;
        elements.push(element);
    }
}

/// Returns the elements of a ziplist.
pub(super) fn ziplist(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut cursor = Cursor(bytes);
    cursor.take(10)?;
    let mut elements = Vec::new();
    loop {
        // The length of the previous element, which is used to read it backwards, or the end.
        match cursor.byte()? {
            0xFF => return cursor.0.is_empty().then_some(elements),
            0xFE => {
                cursor.take(4)?;
            }
            _ => {}
        }
        let first = cursor.byte()?;
        elements.push(match first {
            0x00..=0x3F => cursor.string(first.into())?,
            0x40..=0x7F => {
                let len = u64::from(first & 0x3F) << 8 | u64::from(cursor.byte()?);
                cursor.string(len)?
            }
            0x80..=0xBF => {
                let len = cursor.take(4)?.iter().fold(0, |len, byte| len << 8 | u64::from(*byte));
                cursor.string(len)?
            }
            0xC0 => decimal(cursor.signed(2)?),
            0xD0 => decimal(cursor.signed(4)?),
            0xE0 => decimal(cursor.signed(8)?),
            0xF0 => decimal(cursor.signed(3)?),
            0xFE => decimal(cursor.signed(1)?),
            0xF1..=0xFD => decimal(i64::from(first & 0x0F) - 1),
            _ => return None,
        });
    }
}

/// Returns the elements of a zipmap: fields and values alternate.
pub(super) fn zipmap(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut cursor = Cursor(bytes);
    cursor.byte()?;
    let mut elements = Vec::new();
    loop {
        let len = match cursor.byte()? {
            0xFF => return (cursor.0.is_empty() && elements.len().is_multiple_of(2)).then_some(elements),
            0xFE => cursor.unsigned(4)?,
            len => len.into(),
        };
        let is_value = !elements.len().is_multiple_of(2);
        let unused = if is_value { usize::from(cursor.byte()?) } else { 0 };
        elements.push(cursor.string(len)?);
        cursor.take(unused)?;
    }
}
