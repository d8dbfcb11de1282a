//! Files: the records between keys, and the keys with their elements.

use std::io::Read;

use crate::event::{Event, Key, ModuleType, ValueType};
use crate::input::Input;
use crate::sum;
use crate::value::{VALKEY_VERSION_MIN, ValueWalk, skip_module};
use crate::{Damage, ReadLimits, malformed};

/// The newest supported version of Redis's files: that of Redis 8.8.
pub const VERSION_MAX: u32 = 14;
/// The newest supported version of Valkey's files: that of Valkey 9.
pub(crate) const VALKEY_VERSION_MAX: u32 = 80;
/// Bytes of magic and version.
pub(crate) const HEAD_BYTES: u64 = 9;

pub(crate) mod op {
    /// Redis 8.6: facts about a key for modules. Valkey 9: slots that are being imported.
    pub const KEY_METADATA_OR_SLOT_IMPORT: u8 = 243;
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

/// A position of a reader between two keys. It is sufficient to resume in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Bytes from the start of the file.
    pub offset: u64,
    /// The database of the keys from here on.
    pub db: u32,
    /// The version of the file: up to [`VERSION_MAX`] if Redis wrote it, 80 if Valkey 9 did.
    pub version: u32,
}

/// The reader's place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Between,
    InValue,
    Ended,
}

/// Facts that precede a key.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHead {
    expire_at_ms: Option<u64>,
    idle_s: Option<u64>,
    frequency: Option<u8>,
}

/// An event whose strings are in the reader's buffers.
#[derive(Clone, Copy, Debug)]
enum FileStep {
    Aux,
    Function,
    Key(KeyHead, ValueType),
    Whole(Event<'static>),
}

/// Reads a file, event by event.
pub struct FileReader<R> {
    input: Input<R>,
    version: u32,
    db: u32,
    place: Place,
    /// The key or the name of an auxiliary field, and that field's value.
    texts: [Vec<u8>; 2],
    value: ValueWalk,
}

impl<R: Read> FileReader<R> {
    /// Creates a reader at the start of a file.
    ///
    /// # Errors
    /// [`Damage`] if the input is not such a file, or has an unknown version.
    pub fn new(input: R, limits: ReadLimits) -> Result<Self, Damage> {
        let mut input = Input::new(input, 0, limits);
        let head: [u8; HEAD_BYTES as usize] = input.array()?;
        let version = version(&head)?;
        Ok(Self::at(input, 0, version))
    }

    /// Creates a reader at `mark`; the caller has positioned `input` there. The checksum is not compared.
    pub fn resume(input: R, mark: Mark, limits: ReadLimits) -> Self {
        Self::at(Input::new(input, mark.offset, limits), mark.db, mark.version)
    }

    fn at(input: Input<R>, db: u32, version: u32) -> Self {
        Self { input, version, db, place: Place::Between, texts: [Vec::new(), Vec::new()], value: ValueWalk::none() }
    }

    /// Returns the reader's position. It is a mark to resume at before the first event, after [`Event::KeyEnd`], and
    /// after [`FileReader::skip_value`].
    pub const fn mark(&self) -> Mark {
        Mark { offset: self.input.offset(), db: self.db, version: self.version }
    }

    /// Returns the next event, or `None` at the end of the file, where the checksum is compared.
    ///
    /// # Errors
    /// [`Damage`] if the file ends early or is invalid. The reader cannot be used afterwards.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, Damage> {
        if self.place == Place::InValue {
            return match self.value.next(&mut self.input)? {
                Some(element) => Ok(Some(Event::Element(element))),
                None => {
                    self.place = Place::Between;
                    Ok(Some(Event::KeyEnd))
                }
            };
        }
        let step = self.between()?;
        let [first, second] = &self.texts;
        Ok(step.map(|step| match step {
            FileStep::Aux => Event::Aux { name: first, value: second },
            FileStep::Function => Event::Function(first),
            FileStep::Whole(event) => event,
            FileStep::Key(KeyHead { expire_at_ms, idle_s, frequency }, value_type) => {
                Event::Key(Key { db: self.db, name: first, value_type, expire_at_ms, idle_s, frequency })
            }
        }))
    }

    /// Skips the elements of the current key that are left, and its end.
    ///
    /// # Errors
    /// As [`FileReader::next_event`].
    pub fn skip_value(&mut self) -> Result<(), Damage> {
        if self.place == Place::InValue {
            self.value.skip(&mut self.input)?;
            self.place = Place::Between;
        }
        Ok(())
    }

    /// Reads records up to one that is an event.
    fn between(&mut self) -> Result<Option<FileStep>, Damage> {
        let mut head = KeyHead::default();
        while self.place != Place::Ended {
            let at = self.input.offset();
            match self.input.byte()? {
                op::EXPIRE_MS => head.expire_at_ms = Some(self.input.u64_le()?),
                op::EXPIRE_S => {
                    // The time is signed; an instant before 1970 is in the past like any other.
                    let at_s = i32::from_le_bytes(self.input.array()?);
                    head.expire_at_ms = Some(u64::from(at_s.max(0).unsigned_abs()) * 1000);
                }
                op::IDLE => head.idle_s = Some(self.input.length()?),
                op::FREQUENCY => head.frequency = Some(self.input.byte()?),
                op::SELECT_DB => {
                    let db = self.input.length()?;
                    self.db = u32::try_from(db)
                        .map_err(|_| malformed(at, format!("the database number {db} is not valid")))?;
                }
                op::END => self.end()?,
                op::FUNCTION_EARLY => self.skip_early_function()?,
                op::KEY_METADATA_OR_SLOT_IMPORT => self.skip_metadata()?,
                code @ op::SLOT_INFO..=op::SIZES => return self.record(code).map(Some),
                kind => {
                    let value_type = ValueWalk::type_of(kind, self.version, at)?;
                    self.input.string(&mut self.texts[0])?;
                    self.value.begin(&mut self.input, kind, self.version)?;
                    self.place = Place::InValue;
                    return Ok(Some(FileStep::Key(head, value_type)));
                }
            }
        }
        Ok(None)
    }

    fn end(&mut self) -> Result<(), Damage> {
        if self.version >= sum::VERSION_MIN {
            self.input.check_sum()?;
        }
        self.place = Place::Ended;
        Ok(())
    }

    /// Reads a record that is an event.
    fn record(&mut self, code: u8) -> Result<FileStep, Damage> {
        let (input, db) = (&mut self.input, self.db);
        Ok(match code {
            op::AUX => {
                input.string(&mut self.texts[0])?;
                input.string(&mut self.texts[1])?;
                FileStep::Aux
            }
            op::FUNCTION => {
                input.string(&mut self.texts[0])?;
                FileStep::Function
            }
            op::SIZES => FileStep::Whole(Event::Sizes { db, keys: input.length()?, expiring: input.length()? }),
            op::SLOT_INFO => {
                let (slot, keys, expiring) = (input.length()?, input.length()?, input.length()?);
                FileStep::Whole(Event::Slot { slot, keys, expiring })
            }
            _ => {
                debug_assert_eq!(code, op::MODULE_AUX);
                let module = ModuleType(input.length()?);
                // The opcode of a number, and the time at which the module wrote its data: before or after the keys.
                input.skip_lengths(2)?;
                skip_module(input)?;
                FileStep::Whole(Event::ModuleAux(module))
            }
        })
    }

    /// Skips a function in the format of the candidates of Redis 7.0: name, engine, an optional description, code.
    fn skip_early_function(&mut self) -> Result<(), Damage> {
        self.input.skip_string()?;
        self.input.skip_string()?;
        if self.input.length()? > 0 {
            self.input.skip_string()?;
        }
        self.input.skip_string()
    }

    fn skip_metadata(&mut self) -> Result<(), Damage> {
        if self.version < VALKEY_VERSION_MIN {
            return skip_key_metadata(&mut self.input);
        }
        // The name of the job, then the first and the last slot of each range.
        self.input.skip_string()?;
        let ranges = self.input.length()?;
        (0..ranges).try_for_each(|_| self.input.skip_lengths(2))
    }
}

/// Skips what modules have stored with a key: a number of classes, each with its specification and data.
pub(crate) fn skip_key_metadata<R: Read>(input: &mut Input<R>) -> Result<(), Damage> {
    for _ in 0..input.length()? {
        input.skip(4)?;
        skip_module(input)?;
    }
    Ok(())
}

/// Returns the version in a file's first bytes.
pub(crate) fn version(head: &[u8; HEAD_BYTES as usize]) -> Result<u32, Damage> {
    let (digits, max) = match head {
        [b'R', b'E', b'D', b'I', b'S', digits @ ..] => (&digits[..], 1..=VERSION_MAX),
        [b'V', b'A', b'L', b'K', b'E', b'Y', digits @ ..] => (&digits[..], VALKEY_VERSION_MIN..=VALKEY_VERSION_MAX),
        _ => return Err(malformed(0, "this is not an RDB file: it does not begin with REDIS or VALKEY")),
    };
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
    let at = HEAD_BYTES - digits.len() as u64;
    match number {
        Some(version) if max.contains(&version) => Ok(version),
        Some(version) => {
            let what = format!(
                "RDB version {version} is not supported ({} to {} are); copy from the server itself",
                max.start(),
                max.end()
            );
            Err(malformed(at, what))
        }
        None => Err(malformed(at, "the RDB version is not a number")),
    }
}
