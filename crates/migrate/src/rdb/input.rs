//! Reads lengths and strings of RDB files, and counts the offset.

use std::io::{ErrorKind, Read};

use super::{Damage, What, malformed};

/// Largest buffer reserved for a string before its bytes arrive. Beyond it, the buffer grows with the bytes, because a
/// claimed length may be wrong.
const RESERVED_BYTES_MAX: usize = 1 << 20;
/// Largest expansion ratio of a compressed string.
const EXPANSION_MAX: u64 = 300;

/// A length, or the special form in its place.
enum Length {
    Plain(u64),
    /// The number of a string's special form.
    Special(u8),
}

/// An input that counts its bytes.
#[derive(Debug)]
pub(super) struct Input<R> {
    inner: R,
    offset: u64,
}

impl<R: Read> Input<R> {
    /// Creates an input; `inner` is positioned at `offset`.
    pub(super) const fn new(inner: R, offset: u64) -> Self {
        Self { inner, offset }
    }

    /// Returns the offset from the start of the file.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    fn failed(&self, error: std::io::Error) -> Damage {
        let what = if error.kind() == ErrorKind::UnexpectedEof { What::Truncated } else { What::System(error) };
        Damage { offset: self.offset, what }
    }

    /// Reads the next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes).map_err(|error| self.failed(error))?;
        self.offset += N as u64;
        Ok(bytes)
    }

    /// Reads the next byte.
    pub(super) fn byte(&mut self) -> Result<u8, Damage> {
        self.array().map(|[byte]| byte)
    }

    /// Reads the next `len` bytes.
    pub(super) fn bytes(&mut self, len: u64) -> Result<Vec<u8>, Damage> {
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(usize::MAX).min(RESERVED_BYTES_MAX));
        let result = self.inner.by_ref().take(len).read_to_end(&mut bytes);
        self.offset += bytes.len() as u64;
        result.map_err(|error| self.failed(error))?;
        if bytes.len() as u64 == len { Ok(bytes) } else { Err(Damage { offset: self.offset, what: What::Truncated }) }
    }

    /// Skips the next `len` bytes.
    pub(super) fn skip(&mut self, len: u64) -> Result<(), Damage> {
        let copied = std::io::copy(&mut self.inner.by_ref().take(len), &mut std::io::sink());
        let copied = copied.map_err(|error| self.failed(error))?;
        self.offset += copied;
        if copied == len { Ok(()) } else { Err(Damage { offset: self.offset, what: What::Truncated }) }
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
    pub(super) fn length(&mut self) -> Result<u64, Damage> {
        let at = self.offset;
        match self.any_length()? {
            Length::Plain(length) => Ok(length),
            Length::Special(_) => Err(malformed(at, "found a string instead of a number")),
        }
    }

    /// Reads a string in any of its forms.
    pub(super) fn string(&mut self) -> Result<Vec<u8>, Damage> {
        let at = self.offset;
        match self.any_length()? {
            Length::Plain(length) => self.bytes(length),
            Length::Special(0) => self.array().map(|byte| decimal(i8::from_le_bytes(byte).into())),
            Length::Special(1) => self.array().map(|bytes| decimal(i16::from_le_bytes(bytes).into())),
            Length::Special(2) => self.array().map(|bytes| decimal(i32::from_le_bytes(bytes).into())),
            Length::Special(3) => {
                let (packed, len) = (self.length()?, self.length()?);
                if len > packed.saturating_mul(EXPANSION_MAX) {
                    return Err(malformed(at, format!("{packed} compressed bytes cannot expand to {len} bytes")));
                }
                let packed = self.bytes(packed)?;
                expand(&packed, len).ok_or_else(|| malformed(at, "cannot expand a compressed string"))
            }
            Length::Special(form) => Err(malformed(at, format!("a string has the unknown encoding {form}"))),
        }
    }

    /// Skips a string.
    pub(super) fn skip_string(&mut self) -> Result<(), Damage> {
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
}

/// Formats a string that was stored as a number.
pub(super) fn decimal(value: i64) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Expands LZF data: literal runs of bytes, and copies of earlier output. Returns `None` unless the result has exactly
/// `len` bytes.
///
/// ```text
///  000LLLLL                     L + 1 bytes follow
///  LLLOOOOO OOOOOOOO            copy L + 2 bytes from O + 1 bytes back
///  111OOOOO LLLLLLLL OOOOOOOO   copy L + 9 bytes from O + 1 bytes back
/// ```
pub(super) fn expand(packed: &[u8], len: u64) -> Option<Vec<u8>> {
    let len = usize::try_from(len).ok()?;
    let mut out = Vec::with_capacity(len.min(RESERVED_BYTES_MAX));
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
            let back = usize::from(control & 0x1F) << 8 | usize::from(*low);
            let from = out.len().checked_sub(back + 1)?;
            // The copied range may overlap the bytes being written.
            for at in from..from + high + more + 2 {
                out.push(out[at]);
            }
            rest = behind;
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}
