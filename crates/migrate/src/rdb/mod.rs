//! Reads the files that Redis and Valkey save: keys with their values and expiries.
//!
//! ```text
//!  "REDIS0010" | aux: name, value ... | select db 0 | sizes | [expiry] type key value ... | 0xFF | CRC-64, 8 bytes
//!   magic, version                                     `---- entry, once per key ----'
//!
//!   input   bytes with their offset: lengths, strings in all encodings, including compressed ones
//!   packed  values stored in a single string: listpack, ziplist, zipmap
//!   value   the types of values: read (strings, hashes) or skipped (all others)
//!   sum     the checksum of the whole file, checked before anything else is used
//! ```
//!
//! Versions 1 to 12 are supported. Strings and hashes become values. Lists, sets, sorted sets, streams and values of
//! modules are skipped, so that they can be counted by type.
//!
//! Invariants: no input causes a panic. Memory use is at most a small multiple of the file's actual size, whatever
//! lengths the file claims. Every error has the offset of the byte at which reading ended.

mod input;
mod packed;
mod sum;
mod value;

use std::fmt;
use std::io::{self, Read};

use base::clock::UnixMillis;

use input::Input;
pub use sum::{Checked, check};

/// The newest supported version.
pub const VERSION_MAX: u32 = 12;
/// Bytes of the checksum after the last entry, in version 5 and later.
const SUM_BYTES: u64 = 8;
/// Bytes of magic and version.
const HEAD_BYTES: u64 = 9;

mod op {
    pub const SLOT_INFO: u8 = 244;
    pub const FUNCTION: u8 = 245;
    pub const FUNCTION_EARLY: u8 = 246;
    pub const MODULE_AUX: u8 = 247;
    pub const IDLE: u8 = 248;
    pub const FREQUENCY: u8 = 249;
    pub const AUX: u8 = 250;
    pub const SIZES: u8 = 251;
    pub const EXPIRE_MS: u8 = 252;
    pub const EXPIRE_S: u8 = 253;
    pub const SELECT_DB: u8 = 254;
    pub const END: u8 = 255;
}

/// The reason why a file cannot be read further, with the offset.
#[derive(Debug)]
pub struct Damage {
    /// Bytes from the start of the file.
    pub offset: u64,
    /// The kind of the damage.
    pub what: What,
}

/// A kind of damage.
#[derive(Debug)]
pub enum What {
    /// The file ends in the middle of an element.
    Truncated,
    /// The bytes are invalid.
    Malformed(String),
    /// The system could not read the file.
    System(io::Error),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Truncated => write!(f, "byte {}: the file ends in the middle of an element", self.offset),
            What::Malformed(what) => write!(f, "byte {}: {what}", self.offset),
            What::System(error) => write!(f, "byte {}: cannot read the file ({error})", self.offset),
        }
    }
}

impl std::error::Error for Damage {}

/// Content of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A string.
    Bytes(Vec<u8>),
    /// A hash: fields and values in the file's order, and the number of fields whose own expiry was dropped.
    Hash(Vec<(Vec<u8>, Vec<u8>)>, u64),
    /// A value that was skipped; the type's name as in `TYPE`.
    Passed(&'static str),
}

/// A key of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdbEntry {
    /// The number of the database.
    pub db: u32,
    /// The key.
    pub key: Vec<u8>,
    /// Time at which the key expires.
    pub expire_at: Option<UnixMillis>,
    /// Content of the key.
    pub content: Content,
}

/// A position of a reader between two entries. It is sufficient to resume in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Mark {
    /// Bytes from the start of the file.
    pub offset: u64,
    /// The database of the entries from here on.
    pub db: u32,
    /// The version of the file.
    pub version: u32,
}

/// Reads the entries in the file's order.
#[derive(Debug)]
pub struct RdbReader<R> {
    input: Input<R>,
    db: u32,
    version: u32,
    ended: bool,
}

impl<R: Read> RdbReader<R> {
    /// Creates a reader at the start of a file.
    ///
    /// # Errors
    /// [`Damage`] if the input is not such a file, or has an unknown version.
    pub fn new(input: R) -> Result<Self, Damage> {
        let mut input = Input::new(input, 0);
        let head: [u8; HEAD_BYTES as usize] = input.array()?;
        let version = version(&head)?;
        Ok(Self { input, db: 0, version, ended: false })
    }

    /// Creates a reader at `mark`; the caller has positioned `input` there.
    pub fn resume(input: R, mark: Mark) -> Self {
        Self { input: Input::new(input, mark.offset), db: mark.db, version: mark.version, ended: false }
    }

    /// Returns the reader's position, at which the next entry begins.
    pub const fn mark(&self) -> Mark {
        Mark { offset: self.input.offset(), db: self.db, version: self.version }
    }

    /// Returns the next key, if there is one. If `is_wanted` returns false for its database and key, its value is
    /// skipped to save memory.
    ///
    /// # Errors
    /// [`Damage`] if the file ends early or is invalid. The reader cannot be used afterwards.
    pub fn next(&mut self, mut is_wanted: impl FnMut(u32, &[u8]) -> bool) -> Result<Option<RdbEntry>, Damage> {
        let mut expire_at = None;
        while !self.ended {
            let at = self.input.offset();
            match self.input.byte()? {
                op::EXPIRE_MS => expire_at = Some(UnixMillis(u64::from_le_bytes(self.input.array()?))),
                op::EXPIRE_S => {
                    // The time is signed; an instant before 1970 is in the past like any other.
                    let at_s = i32::from_le_bytes(self.input.array()?);
                    expire_at = Some(UnixMillis::from_secs(at_s.max(0).unsigned_abs().into()));
                }
                op::SELECT_DB => {
                    let db = self.input.length()?;
                    self.db = u32::try_from(db)
                        .map_err(|_| malformed(at, format!("the database number {db} is not valid")))?;
                }
                op::END => self.ended = true,
                code @ op::SLOT_INFO..=op::SIZES => self.pass_over(code)?,
                kind => {
                    let key = self.input.string()?;
                    let wanted = is_wanted(self.db, &key);
                    let content = value::read(&mut self.input, kind, wanted, at)?;
                    return Ok(Some(RdbEntry { db: self.db, key, expire_at, content }));
                }
            }
        }
        Ok(None)
    }

    /// Skips a record between entries.
    fn pass_over(&mut self, code: u8) -> Result<(), Damage> {
        let lengths = |input: &mut Input<R>, count: u32| -> Result<(), Damage> {
            (0..count).try_for_each(|_| input.length().map(drop))
        };
        match code {
            op::SLOT_INFO => lengths(&mut self.input, 3),
            op::SIZES => lengths(&mut self.input, 2),
            op::IDLE => lengths(&mut self.input, 1),
            op::FREQUENCY => self.input.byte().map(drop),
            op::FUNCTION => self.input.skip_string(),
            op::AUX => {
                self.input.skip_string()?;
                self.input.skip_string()
            }
            op::FUNCTION_EARLY => {
                self.input.skip_string()?;
                self.input.skip_string()?;
                if self.input.length()? > 0 {
                    self.input.skip_string()?;
                }
                self.input.skip_string()
            }
            _ => {
                debug_assert_eq!(code, op::MODULE_AUX);
                lengths(&mut self.input, 3)?;
                value::skip_module(&mut self.input)
            }
        }
    }
}

fn malformed(offset: u64, what: impl Into<String>) -> Damage {
    Damage { offset, what: What::Malformed(what.into()) }
}

/// Returns the version in a file's first bytes.
fn version(head: &[u8; HEAD_BYTES as usize]) -> Result<u32, Damage> {
    let (magic, digits) = head.split_at(5);
    if magic != b"REDIS" {
        let hint = if head.starts_with(b"VALKEY") {
            "; Valkey 9 and later write such files, so copy from the server instead"
        } else {
            ""
        };
        return Err(malformed(0, format!("this is not an RDB file: it does not begin with REDIS{hint}")));
    }
    let version = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
    match version {
        Some(version @ 1..=VERSION_MAX) => Ok(version),
        Some(version) => {
            let what =
                format!("RDB version {version} is not supported (1 to {VERSION_MAX} are); copy from the server itself");
            Err(malformed(5, what))
        }
        None => Err(malformed(5, "the RDB version is not a number")),
    }
}

#[cfg(test)]
mod tests;
