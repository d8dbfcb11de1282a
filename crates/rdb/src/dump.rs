//! Payloads of DUMP and RESTORE: a type, its value, a version and a checksum.

use std::fmt;

use crate::event::{Element, ValueType};
use crate::file::{VALKEY_VERSION_MAX, VERSION_MAX, op, skip_key_metadata};
use crate::input::Input;
use crate::sum::{RunningSum, SUM_BYTES, sum_of};
use crate::value::{VALKEY_VERSION_MIN, ValueWalk, kind};
use crate::{Damage, ReadLimits, malformed};

/// The version that payloads have by default: that of Redis 7.0, which newer servers read too.
pub const VERSION: u16 = 10;
/// Bytes of the version.
const VERSION_BYTES: usize = 2;
/// Bytes of version and checksum.
pub(crate) const FOOTER_BYTES: usize = VERSION_BYTES + SUM_BYTES as usize;

/// The reason why a payload is refused.
#[derive(Debug)]
pub enum DumpError {
    /// The version is unknown, or the checksum differs.
    VersionOrSum,
    /// The value is invalid.
    Value(Damage),
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VersionOrSum => f.write_str("the version is unknown or the checksum is wrong"),
            Self::Value(damage) => damage.fmt(f),
        }
    }
}

impl std::error::Error for DumpError {}

/// Returns a payload: type and value, with their footer.
pub(crate) fn sealed(mut body: Vec<u8>, version: u16) -> Vec<u8> {
    body.extend_from_slice(&version.to_le_bytes());
    let sum = sum_of(&body);
    body.extend_from_slice(&sum.to_le_bytes());
    body
}

/// Checks the version and the checksum of a payload in steps.
#[derive(Debug, Default)]
pub struct DumpCheck {
    sum: RunningSum,
    summed: usize,
}

impl DumpCheck {
    /// Adds at most `bytes_max` bytes of the payload to the checksum. Returns true if the checksum is complete and
    /// right.
    ///
    /// # Errors
    /// [`DumpError::VersionOrSum`].
    pub fn advance(&mut self, payload: &[u8], bytes_max: usize) -> Result<bool, DumpError> {
        let (_, version) = split(payload)?;
        let is_known = version <= VERSION_MAX || (VALKEY_VERSION_MIN..=VALKEY_VERSION_MAX).contains(&version);
        let (covered, sum) = payload.split_last_chunk::<{ SUM_BYTES as usize }>().ok_or(DumpError::VersionOrSum)?;
        let end = self.summed.saturating_add(bytes_max).min(covered.len());
        self.sum.add(covered.get(self.summed..end).ok_or(DumpError::VersionOrSum)?);
        self.summed = end;
        if is_known && end < covered.len() {
            return Ok(false);
        }
        let is_same = std::mem::take(&mut self.sum).end().to_le_bytes() == *sum;
        if is_known && is_same { Ok(true) } else { Err(DumpError::VersionOrSum) }
    }
}

/// Splits a payload into its body and its version.
fn split(payload: &[u8]) -> Result<(&[u8], u32), DumpError> {
    let split = payload.len().checked_sub(FOOTER_BYTES).ok_or(DumpError::VersionOrSum)?;
    let (body, footer) = payload.split_at(split);
    Ok((body, u32::from(footer[0]) | u32::from(footer[1]) << 8))
}

/// Reads a payload, element by element.
pub struct DumpReader<'p> {
    input: Input<&'p [u8]>,
    value_type: ValueType,
    value: ValueWalk,
    end: u64,
}

/// Returns true if a payload is that of a string, if it is valid.
pub fn is_text(payload: &[u8]) -> bool {
    payload.first() == Some(&kind::TEXT)
}

/// The position of a reader in its payload, without the payload.
#[derive(Debug)]
pub struct PausedDump {
    offset: u64,
    value_type: ValueType,
    value: ValueWalk,
}

impl<'p> DumpReader<'p> {
    /// Checks version and checksum, and begins to read the value.
    ///
    /// # Errors
    /// See [`DumpError`].
    pub fn new(payload: &'p [u8], limits: ReadLimits) -> Result<Self, DumpError> {
        DumpCheck::default().advance(payload, usize::MAX)?;
        Self::of_checked(payload, limits)
    }

    /// Begins to read the value of a payload that a [`DumpCheck`] has found valid.
    ///
    /// # Errors
    /// See [`DumpError`].
    pub fn of_checked(payload: &'p [u8], limits: ReadLimits) -> Result<Self, DumpError> {
        let (body, version) = split(payload)?;
        Self::begin(body, version, limits).map_err(DumpError::Value)
    }

    fn begin(body: &'p [u8], version: u32, limits: ReadLimits) -> Result<Self, Damage> {
        let mut input = Input::without_sum(body, 0, limits);
        let mut kind = input.byte()?;
        if kind == op::KEY_METADATA_OR_SLOT_IMPORT && version < VALKEY_VERSION_MIN {
            skip_key_metadata(&mut input)?;
            kind = input.byte()?;
        }
        let mut value = ValueWalk::none();
        let value_type = ValueWalk::type_of(kind, version, input.offset())?;
        value.begin(&mut input, kind, version)?;
        Ok(Self { input, value_type, value, end: body.len() as u64 })
    }

    /// Interrupts the read. Returns the state from which [`DumpReader::resume`] continues.
    pub fn pause(self) -> PausedDump {
        PausedDump { offset: self.input.offset(), value_type: self.value_type, value: self.value }
    }

    /// Continues to read a payload.
    ///
    /// # Errors
    /// [`DumpError::VersionOrSum`] if the payload is shorter than the one that was paused.
    pub fn resume(payload: &'p [u8], paused: PausedDump, limits: ReadLimits) -> Result<Self, DumpError> {
        let (body, _) = split(payload)?;
        let PausedDump { offset, value_type, value } = paused;
        let rest = usize::try_from(offset).ok().and_then(|offset| body.get(offset..)).ok_or(DumpError::VersionOrSum)?;
        Ok(Self { input: Input::without_sum(rest, offset, limits), value_type, value, end: body.len() as u64 })
    }

    /// Returns the type of the value.
    pub const fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// Returns the next element, or `None` at the end of the value.
    ///
    /// # Errors
    /// [`Damage`] if the value is invalid, or does not end where the payload ends.
    pub fn next_element(&mut self) -> Result<Option<Element<'_>>, Damage> {
        match self.value.next(&mut self.input)? {
            None if self.input.offset() != self.end => {
                Err(malformed(self.input.offset(), "bytes follow the end of the value"))
            }
            element => Ok(element),
        }
    }
}
