//! Reads lengths and strings, and counts the offset.

use std::io::Read;

use crate::sum::{RunningSum, SUM_BYTES};
use crate::{Damage, ReadLimits, What, malformed, unreadable};

/// Largest buffer reserved for a string before its bytes arrive. Beyond it, the buffer grows with the bytes, because a
/// claimed length may be wrong. A larger buffer is freed when the next string is read.
pub(crate) const RESERVED_BYTES_MAX: usize = 1 << 20;
/// Largest expansion ratio of a compressed string.
const EXPANSION_MAX: u64 = 300;
/// Number of bytes that are skipped at a time.
const SKIP_BYTES: usize = 4 << 10;

/// A length, or the special form in its place.
enum Length {
    Plain(u64),
    /// The number of a string's special form.
    Special(u8),
}

/// An input that counts its bytes.
pub(crate) struct Input<R> {
    inner: R,
    offset: u64,
    limits: ReadLimits,
    /// The checksum of the bytes so far, if the input was read from its start.
    sum: Option<RunningSum>,
    /// The bytes of a compressed string.
    compressed: Vec<u8>,
}

impl<R: Read> Input<R> {
    /// Creates an input; `inner` is positioned at `offset`.
    pub(crate) fn new(inner: R, offset: u64, limits: ReadLimits) -> Self {
        let sum = (offset == 0).then(RunningSum::default);
        Self { sum, ..Self::without_sum(inner, offset, limits) }
    }

    /// Creates an input that computes no checksum; `inner` is positioned at `offset`.
    pub(crate) fn without_sum(inner: R, offset: u64, limits: ReadLimits) -> Self {
        Self { inner, offset, limits, sum: None, compressed: Vec::new() }
    }

    /// Returns the offset from the start of the input.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Counts bytes that were read.
    fn count(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        if let Some(sum) = &mut self.sum {
            sum.add(bytes);
        }
    }

    /// Reads as many bytes as `bytes` has.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Damage> {
        self.inner.read_exact(bytes).map_err(|error| unreadable(self.offset, error))?;
        self.count(bytes);
        Ok(())
    }

    /// Reads the next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the next byte.
    pub(crate) fn byte(&mut self) -> Result<u8, Damage> {
        self.array().map(|[byte]| byte)
    }

    /// Reads the next 8 bytes as a number whose lowest byte comes first.
    pub(crate) fn u64_le(&mut self) -> Result<u64, Damage> {
        self.array().map(u64::from_le_bytes)
    }

    /// Replaces the contents of `out` by the next `len` bytes.
    fn bytes(&mut self, len: u64, out: &mut Vec<u8>) -> Result<(), Damage> {
        let at = self.offset;
        if len > self.limits.string_bytes_max {
            let max = self.limits.string_bytes_max;
            return Err(malformed(at, format!("a string of {len} bytes exceeds the limit of {max} bytes")));
        }
        empty(out, len);
        let result = self.inner.by_ref().take(len).read_to_end(out);
        self.count(out);
        result.map_err(|error| unreadable(self.offset, error))?;
        if out.len() as u64 == len { Ok(()) } else { Err(Damage { offset: self.offset, what: What::Truncated }) }
    }

    /// Skips the next `len` bytes.
    pub(crate) fn skip(&mut self, len: u64) -> Result<(), Damage> {
        let mut left = len;
        let mut bytes = [0; SKIP_BYTES];
        while left > 0 {
            let part = left.min(SKIP_BYTES as u64) as usize;
            self.fill(&mut bytes[..part])?;
            left -= part as u64;
        }
        Ok(())
    }

    fn any_length(&mut self) -> Result<Length, Damage> {
        let at = self.offset;
        let first = self.byte()?;
        let low = u64::from(first & 0x3F);
        Ok(match first >> 6 {
            0 => Length::Plain(low),
            1 => Length::Plain(low << 8 | u64::from(self.byte()?)),
            2 => match first {
                0x80 => Length::Plain(u32::from_be_bytes(self.array()?).into()),
                0x81 => Length::Plain(u64::from_be_bytes(self.array()?)),
                _ => return Err(malformed(at, format!("a length begins with the unknown byte {first:#04x}"))),
            },
            _ => Length::Special(first & 0x3F),
        })
    }

    /// Reads a length or a number.
    pub(crate) fn length(&mut self) -> Result<u64, Damage> {
        let at = self.offset;
        match self.any_length()? {
            Length::Plain(length) => Ok(length),
            Length::Special(_) => Err(malformed(at, "found a string instead of a number")),
        }
    }

    /// Reads `count` numbers that are not needed.
    pub(crate) fn skip_lengths(&mut self, count: u64) -> Result<(), Damage> {
        (0..count).try_for_each(|_| self.length().map(drop))
    }

    /// Replaces the contents of `out` by a string, in any of its forms.
    pub(crate) fn string(&mut self, out: &mut Vec<u8>) -> Result<(), Damage> {
        let at = self.offset;
        let number = match self.any_length()? {
            Length::Plain(length) => return self.bytes(length, out),
            Length::Special(0) => i64::from(i8::from_le_bytes(self.array()?)),
            Length::Special(1) => i64::from(i16::from_le_bytes(self.array()?)),
            Length::Special(2) => i64::from(i32::from_le_bytes(self.array()?)),
            Length::Special(3) => return self.compressed(at, out),
            Length::Special(form) => return Err(malformed(at, format!("a string has the unknown encoding {form}"))),
        };
        decimal(number, out);
        Ok(())
    }

    /// Reads a compressed string that began at `at`.
    fn compressed(&mut self, at: u64, out: &mut Vec<u8>) -> Result<(), Damage> {
        let (packed, len) = (self.length()?, self.length()?);
        let max = self.limits.string_bytes_max.min(packed.saturating_mul(EXPANSION_MAX));
        if len > max {
            return Err(malformed(at, format!("{packed} compressed bytes cannot expand to {len} bytes")));
        }
        let mut compressed = std::mem::take(&mut self.compressed);
        let read = self.bytes(packed, &mut compressed);
        let is_whole = read.is_ok() && expand(&compressed, len, out);
        self.compressed = compressed;
        read?;
        if is_whole { Ok(()) } else { Err(malformed(at, "cannot expand a compressed string")) }
    }

    /// Skips a string.
    pub(crate) fn skip_string(&mut self) -> Result<(), Damage> {
        let at = self.offset;
        match self.any_length()? {
            Length::Plain(length) => self.skip(length),
            Length::Special(form @ 0..=2) => self.skip(1 << form),
            Length::Special(3) => {
                let packed = self.length()?;
                self.length()?;
                self.skip(packed)
            }
            Length::Special(form) => Err(malformed(at, format!("a string has the unknown encoding {form}"))),
        }
    }

    /// Reads the checksum at the end of a file. A checksum of 0 is absent.
    pub(crate) fn check_sum(&mut self) -> Result<(), Damage> {
        let (at, own) = (self.offset, self.sum.take().map(RunningSum::end));
        let stored = u64::from_le_bytes(self.array::<{ SUM_BYTES as usize }>()?);
        match own {
            Some(own) if stored != 0 && stored != own => Err(crate::sum::differs(at, stored, own)),
            _ => Ok(()),
        }
    }
}

/// Empties a buffer and reserves memory for `len` bytes, as far as a claimed length is trusted.
fn empty(out: &mut Vec<u8>, len: u64) {
    if out.capacity() > RESERVED_BYTES_MAX {
        *out = Vec::new();
    }
    out.clear();
    out.reserve(usize::try_from(len).unwrap_or(usize::MAX).min(RESERVED_BYTES_MAX));
}

/// Replaces the contents of `out` by a number as text.
pub(crate) fn decimal(value: i64, out: &mut Vec<u8>) {
    use std::io::Write;
    out.clear();
    write!(out, "{value}").expect("a vector takes all bytes");
}

/// Expands LZF data: literal runs of bytes, and copies of earlier output. Returns false unless the result has exactly
/// `len` bytes.
///
/// ```text
///  000LLLLL                     L + 1 bytes follow
///  LLLOOOOO OOOOOOOO            copy L + 2 bytes from O + 1 bytes back
///  111OOOOO LLLLLLLL OOOOOOOO   copy L + 9 bytes from O + 1 bytes back
/// ```
pub(crate) fn expand(packed: &[u8], len: u64, out: &mut Vec<u8>) -> bool {
    empty(out, len);
    expand_into(packed, len, out).is_some() && out.len() as u64 == len
}

fn expand_into(packed: &[u8], len: u64, out: &mut Vec<u8>) -> Option<()> {
    let mut rest = packed;
    while let [control, behind @ ..] = rest {
        let high = usize::from(control >> 5);
        if high == 0 {
            let (run, behind) = behind.split_at_checked(usize::from(*control) + 1)?;
            out.extend_from_slice(run);
            rest = behind;
        } else {
            let (more, behind) =
                if high == 7 { behind.split_first().map(|(l, b)| (usize::from(*l), b))? } else { (0, behind) };
            let (low, behind) = behind.split_first()?;
            let back = (usize::from(control & 0x1F) << 8 | usize::from(*low)) + 1;
            let mut left = high + more + 2;
            let from = out.len().checked_sub(back)?;
            // The copied range may overlap the bytes being written.
            while left > 0 {
                let part = left.min(out.len() - from);
                out.extend_from_within(from..from + part);
                left -= part;
            }
            rest = behind;
        }
        if out.len() as u64 > len {
            return None;
        }
    }
    Some(())
}
