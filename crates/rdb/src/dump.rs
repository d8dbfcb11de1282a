//! Payloads of DUMP and RESTORE: a type, its value, a version and a checksum.

use std::fmt;

use crate::event::{Element, ValueType};
use crate::file::{VALKEY_VERSION_MAX, VERSION_MAX, op, skip_key_metadata};
use crate::input::Input;
use crate::sum::{SUM_BYTES, sum_of};
use crate::value::{VALKEY_VERSION_MIN, ValueWalk};
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

/// Reads a payload, element by element.
pub struct DumpReader<'p> {
    input: Input<&'p [u8]>,
    value_type: ValueType,
    value: ValueWalk,
    end: u64,
}

impl<'p> DumpReader<'p> {
    /// Checks version and checksum, and begins to read the value.
    ///
    /// # Errors
    /// See [`DumpError`].
    pub fn new(payload: &'p [u8], limits: ReadLimits) -> Result<Self, DumpError> {
        let split = payload.len().checked_sub(FOOTER_BYTES).ok_or(DumpError::VersionOrSum)?;
        let (body, footer) = payload.split_at(split);
        let (version, sum) = footer.split_at(VERSION_BYTES);
        let version = u32::from(version[0]) | u32::from(version[1]) << 8;
        let is_known = version <= VERSION_MAX || (VALKEY_VERSION_MIN..=VALKEY_VERSION_MAX).contains(&version);
        if !is_known || sum != sum_of(&payload[..split + VERSION_BYTES]).to_le_bytes() {
            return Err(DumpError::VersionOrSum);
        }
        Self::begin(body, version, limits).map_err(DumpError::Value)
    }

    fn begin(body: &'p [u8], version: u32, limits: ReadLimits) -> Result<Self, Damage> {
        let mut input = Input::new(body, 0, limits);
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
