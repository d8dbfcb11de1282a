//! Values that are packed in one string: listpack, ziplist, intset or zipmap.

use std::ops::Range;

/// The layout of a packed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// ```text
    /// bytes u32 | elements u16 | encoding content length-backwards | ... | 0xFF
    /// ```
    Listpack,
    /// ```text
    /// bytes u32 | offset of the last u32 | elements u16 | length of the previous, encoding, content | ... | 0xFF
    /// ```
    Ziplist,
    /// ```text
    /// bytes of a number u32 | numbers u32 | number | ...
    /// ```
    Intset,
    /// ```text
    /// fields u8 | length field | length unused value unused-bytes | ... | 0xFF
    /// ```
    Zipmap,
}

/// An element of a packed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The element's place in the string.
    Bytes(Range<usize>),
    /// A number, whose text is the element.
    Number(i64),
}

/// The string is not a valid packed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invalid;

/// Reads the elements of a packed value in order. It retains only its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedCursor {
    packing: Packing,
    at: usize,
    /// The number of elements read; for an intset, the number of bytes of a number.
    state: usize,
}

/// Reads bytes of a string from a position.
struct Bytes<'b> {
    all: &'b [u8],
    at: usize,
}

impl Bytes<'_> {
    fn range(&mut self, len: u64) -> Result<Range<usize>, Invalid> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        let end = end.filter(|end| *end <= self.all.len()).ok_or(Invalid)?;
        let range = self.at..end;
        self.at = end;
        Ok(range)
    }

    fn byte(&mut self) -> Result<u8, Invalid> {
        let byte = *self.all.get(self.at).ok_or(Invalid)?;
        self.at += 1;
        Ok(byte)
    }

    /// Reads an unsigned number of up to 8 bytes, whose lowest byte comes first.
    fn unsigned(&mut self, bytes: usize) -> Result<u64, Invalid> {
        let range = self.range(bytes as u64)?;
        Ok(self.all[range].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Reads a signed number of up to 8 bytes, whose lowest byte comes first.
    fn signed(&mut self, bytes: usize) -> Result<i64, Invalid> {
        let unused = 64 - 8 * bytes as u32;
        Ok((self.unsigned(bytes)? << unused) as i64 >> unused)
    }

    fn number(&mut self, bytes: usize) -> Result<Piece, Invalid> {
        self.signed(bytes).map(Piece::Number)
    }

    fn string(&mut self, len: u64) -> Result<Piece, Invalid> {
        self.range(len).map(Piece::Bytes)
    }

    /// Reads the second byte of a length of 12 or 14 bits.
    fn long_length(&mut self, high: u8) -> Result<u64, Invalid> {
        Ok(u64::from(high) << 8 | u64::from(self.byte()?))
    }

    fn is_at_end(&self) -> bool {
        self.at == self.all.len()
    }
}

/// Returns the number of bytes of the length after an element of a listpack, which is used to read it backwards.
pub(crate) const fn back_bytes(len: usize) -> usize {
    match len {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

impl PackedCursor {
    /// Creates a cursor before the first element of `all`.
    pub(crate) fn new(packing: Packing, all: &[u8]) -> Result<Self, Invalid> {
        let mut bytes = Bytes { all, at: 0 };
        let mut state = 0;
        match packing {
            Packing::Listpack => bytes.range(6).map(drop)?,
            Packing::Ziplist => bytes.range(10).map(drop)?,
            Packing::Zipmap => bytes.range(1).map(drop)?,
            Packing::Intset => {
                state = bytes.unsigned(4)? as usize;
                let count = bytes.unsigned(4)? as usize;
                if ![2, 4, 8].contains(&state) || all.len() - 8 != count.saturating_mul(state) {
                    return Err(Invalid);
                }
            }
        }
        Ok(Self { packing, at: bytes.at, state })
    }

    /// Returns the next element, if there is one.
    pub(crate) fn next(&mut self, all: &[u8]) -> Result<Option<Piece>, Invalid> {
        let mut bytes = Bytes { all, at: self.at };
        let piece = match self.packing {
            Packing::Listpack => listpack(&mut bytes)?,
            Packing::Ziplist => ziplist(&mut bytes)?,
            Packing::Intset if bytes.is_at_end() => None,
            Packing::Intset => Some(bytes.number(self.state)?),
            Packing::Zipmap => zipmap(&mut bytes, self.state % 2 == 1)?,
        };
        if piece.is_none() && !bytes.is_at_end() {
            return Err(Invalid);
        }
        if self.packing == Packing::Zipmap {
            self.state += 1;
        }
        self.at = bytes.at;
        Ok(piece)
    }

    /// Returns the next element, which must be a number.
    pub(crate) fn number(&mut self, all: &[u8]) -> Result<i64, Invalid> {
        match self.next(all)? {
            Some(Piece::Number(number)) => Ok(number),
            _ => Err(Invalid),
        }
    }

    /// Returns the next element, which must exist.
    pub(crate) fn piece(&mut self, all: &[u8]) -> Result<Piece, Invalid> {
        self.next(all)?.ok_or(Invalid)
    }
}

fn listpack(bytes: &mut Bytes<'_>) -> Result<Option<Piece>, Invalid> {
    let before = bytes.at;
    let first = bytes.byte()?;
    let piece = match first {
        0xFF => return Ok(None),
        0x00..=0x7F => Piece::Number(first.into()),
        0x80..=0xBF => bytes.string(u64::from(first & 0x3F))?,
        0xC0..=0xDF => {
            let value = bytes.long_length(first & 0x1F)? as i64;
            Piece::Number(if value >= 1 << 12 { value - (1 << 13) } else { value })
        }
        0xE0..=0xEF => {
            let len = bytes.long_length(first & 0x0F)?;
            bytes.string(len)?
        }
        0xF0 => {
            let len = bytes.unsigned(4)?;
            bytes.string(len)?
        }
        0xF1..=0xF3 => bytes.number(usize::from(first - 0xEF))?,
        0xF4 => bytes.number(8)?,
        _ => return Err(Invalid),
    };
    bytes.range(back_bytes(bytes.at - before) as u64)?;
    Ok(Some(piece))
}

fn ziplist(bytes: &mut Bytes<'_>) -> Result<Option<Piece>, Invalid> {
    // The length of the previous element, which is used to read it backwards, or the end.
    match bytes.byte()? {
        0xFF => return Ok(None),
        0xFE => bytes.range(4).map(drop)?,
        _ => {}
    }
    let first = bytes.byte()?;
    let piece = match first {
        0x00..=0x3F => bytes.string(first.into())?,
        0x40..=0x7F => {
            let len = bytes.long_length(first & 0x3F)?;
            bytes.string(len)?
        }
        0x80..=0xBF => {
            // The only length here whose highest byte comes first.
            let len = bytes.unsigned(4)? as u32;
            bytes.string(len.swap_bytes().into())?
        }
        0xC0 => bytes.number(2)?,
        0xD0 => bytes.number(4)?,
        0xE0 => bytes.number(8)?,
        0xF0 => bytes.number(3)?,
        0xFE => bytes.number(1)?,
        0xF1..=0xFD => Piece::Number(i64::from(first & 0x0F) - 1),
        _ => return Err(Invalid),
    };
    Ok(Some(piece))
}

fn zipmap(bytes: &mut Bytes<'_>, is_value: bool) -> Result<Option<Piece>, Invalid> {
    let len = match bytes.byte()? {
        0xFF if is_value => return Err(Invalid),
        0xFF => return Ok(None),
        0xFE => bytes.unsigned(4)?,
        len => len.into(),
    };
    let unused = if is_value { bytes.byte()? } else { 0 };
    let piece = bytes.string(len)?;
    bytes.range(unused.into())?;
    Ok(Some(piece))
}
