//! The libraries of functions (`FUNCTION LOAD`), and their serialized form (`FUNCTION DUMP`).
//!
//! ```text
//!   dump   library | library | ... | version 2 | CRC-64 of everything before, 8        little-endian
//!          library: the byte 245, then a string as in RDB files: its length, then the text
//! ```

use crate::keyspace::metadata::MetadataLog;
use rdb::{Event, FileReader, ReadLimits, sum_of};
use script::{RegisteredFunction, Script};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The maximum number of bytes of the texts of all libraries. They fit into the metadata log of a memory file.
pub const LIBRARIES_BYTES_MAX: usize = 1 << 20;
/// The maximum number of libraries.
pub const LIBRARIES_MAX: usize = 1000;
/// The byte before a library in a dump.
const LIBRARY: u8 = 245;
/// The version of RDB files whose strings a dump contains: that of Redis 7.0.
const DUMP_VERSION: u16 = 10;
/// The highest version whose dumps of libraries have the same form.
const DUMP_VERSION_MAX: u16 = 80;
const TAIL_BYTES: usize = 10;
/// The start and the end of an RDB file of the version of a dump.
const FILE_START: &[u8] = b"REDIS0010";
const FILE_END: &[u8] = &[0xFF, 0, 0, 0, 0, 0, 0, 0, 0];
const LIMITS: ReadLimits = ReadLimits { string_bytes_max: LIBRARIES_BYTES_MAX as u64 };

/// A library.
#[derive(Debug)]
pub struct Library {
    /// The name.
    pub name: Box<[u8]>,
    /// The text, with its first line.
    pub script: Arc<Script>,
    /// The functions.
    pub functions: Vec<RegisteredFunction>,
}

/// The libraries at one time.
#[derive(Clone, Debug, Default)]
pub struct LibrarySet {
    /// The libraries, by name.
    pub libraries: BTreeMap<Box<[u8]>, Arc<Library>>,
    /// The functions, by their names in lower case.
    functions: HashMap<Box<[u8]>, (Arc<Library>, usize)>,
    bytes: usize,
}

/// The reason why libraries cannot be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddError {
    /// A library with this name exists.
    Library(Box<[u8]>),
    /// A restored library has the name of an existing one.
    Restored(Box<[u8]>),
    /// Another library has a function with this name.
    Function(Box<[u8]>),
    /// The limits on libraries are reached.
    Full,
}

impl AddError {
    /// Returns the error reply, without `-` and line end.
    pub fn message(&self) -> Vec<u8> {
        match self {
            Self::Library(name) => [&b"ERR Library '"[..], name, b"' already exists"].concat(),
            Self::Restored(name) => [&b"ERR Library "[..], name, b" already exists"].concat(),
            Self::Function(name) => [&b"ERR Function "[..], name, b" already exists"].concat(),
            Self::Full => b"ERR the limit of 1000 libraries or 1 MiB is reached: call FUNCTION DELETE".to_vec(),
        }
    }
}

/// Returns the key of a function in [`LibrarySet::functions`].
fn key_of(name: &[u8]) -> Box<[u8]> {
    name.to_ascii_lowercase().into()
}

impl LibrarySet {
    /// Returns the library with a function, and the function. As in Redis, upper and lower case are equal in names of
    /// functions, but not in those of libraries.
    pub fn function(&self, name: &[u8]) -> Option<(&Arc<Library>, &RegisteredFunction)> {
        let found = match name.iter().any(u8::is_ascii_uppercase) {
            true => self.functions.get(&key_of(name)),
            false => self.functions.get(name),
        };
        found.map(|(library, place)| (library, &library.functions[*place]))
    }

    /// Returns the number of functions.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// Returns the bytes of the texts of all libraries.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a library. If `replaces` is true, a library with the same name is removed first.
    ///
    /// # Errors
    /// If a library or a function with the same name exists, or the limits are reached. The set is then unusable.
    pub fn add(&mut self, library: Arc<Library>, replaces: bool) -> Result<(), AddError> {
        if replaces {
            self.remove(&library.name);
        } else if self.libraries.contains_key(&library.name) {
            return Err(AddError::Library(library.name.clone()));
        }
        if let Some(same) =
            library.functions.iter().find(|function| self.functions.contains_key(&key_of(&function.name)))
        {
            return Err(AddError::Function(same.name.clone()));
        }
        self.bytes += library.script.text.len();
        if self.bytes > LIBRARIES_BYTES_MAX || self.libraries.len() >= LIBRARIES_MAX {
            return Err(AddError::Full);
        }
        for (place, function) in library.functions.iter().enumerate() {
            self.functions.entry(key_of(&function.name)).or_insert_with(|| (Arc::clone(&library), place));
        }
        self.libraries.insert(library.name.clone(), library);
        Ok(())
    }

    /// Adds the libraries of a dump. If `replaces` is true, libraries with the same names are removed.
    ///
    /// # Errors
    /// As [`Self::add`]. An existing library is reported before an existing function, as in Redis.
    pub fn restore(&mut self, libraries: Vec<Arc<Library>>, replaces: bool) -> Result<(), AddError> {
        let is_here = |library: &&Arc<Library>| self.libraries.contains_key(&library.name);
        if let Some(same) = libraries.iter().find(is_here).filter(|_| !replaces) {
            return Err(AddError::Restored(same.name.clone()));
        }
        libraries.into_iter().try_for_each(|library| self.add(library, replaces))
    }

    /// Removes a library. Returns false if there is none with this name.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.libraries.remove(name) else { return false };
        self.bytes -= library.script.text.len();
        library.functions.iter().for_each(|function| drop(self.functions.remove(&key_of(&function.name))));
        true
    }

    /// Returns the serialized libraries.
    pub fn dump(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for library in self.libraries.values() {
            out.push(LIBRARY);
            put_length(&mut out, library.script.text.len());
            out.extend_from_slice(&library.script.text);
        }
        out.extend_from_slice(&DUMP_VERSION.to_le_bytes());
        let sum = sum_of(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }
}

/// The libraries of a server.
#[derive(Debug, Default)]
pub struct Libraries {
    set: Mutex<Arc<LibrarySet>>,
    changes: AtomicU64,
    log: OnceLock<MetadataLog>,
}

impl Libraries {
    fn lock(&self) -> MutexGuard<'_, Arc<LibrarySet>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the log that persists changes.
    pub fn persist_by(&self, log: MetadataLog) {
        let _ = self.log.set(log);
    }

    /// Returns the libraries now.
    pub fn now(&self) -> Arc<LibrarySet> {
        Arc::clone(&self.lock())
    }

    /// Returns the number of changes.
    pub fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Changes the libraries by `change`, which gets a copy of them. If it fails, nothing changes. Returns the result.
    pub fn change<E>(&self, change: impl FnOnce(&mut LibrarySet) -> Result<(), E>) -> Result<(), E> {
        let mut set = self.lock();
        let mut copy = LibrarySet::clone(&set);
        change(&mut copy)?;
        self.persist(&set, &copy);
        *set = Arc::new(copy);
        self.changes.fetch_add(1, Release);
        Ok(())
    }

    /// Persists the difference between two sets. A fault is logged.
    fn persist(&self, before: &LibrarySet, after: &LibrarySet) {
        let Some(log) = self.log.get() else { return };
        for name in before.libraries.keys().filter(|name| !after.libraries.contains_key(*name)) {
            let _ = log.library_removed(name);
        }
        for (name, library) in &after.libraries {
            if before.libraries.get(name).is_none_or(|old| !Arc::ptr_eq(old, library)) {
                let _ = log.library(&library.script.text);
            }
        }
    }
}

/// Appends a length as in RDB files.
fn put_length(out: &mut Vec<u8>, length: usize) {
    match length {
        0..64 => out.push(length as u8),
        64..16_384 => out.extend_from_slice(&[0x40 | (length >> 8) as u8, length as u8]),
        _ => {
            out.push(0x80);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
}

/// Returns the texts of the libraries in a dump, or `None` if the dump is damaged or of an unknown version.
pub fn read_dump(dump: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (body, tail) = dump.split_at_checked(dump.len().checked_sub(TAIL_BYTES)?)?;
    let (version, sum) = tail.split_first_chunk::<2>()?;
    let is_known = u16::from_le_bytes(*version) <= DUMP_VERSION_MAX;
    if !is_known || sum != sum_of(&dump[..dump.len() - sum.len()]).to_le_bytes() {
        return None;
    }
    // The libraries of a dump are those of a file without keys. A checksum of 0 is not compared.
    let file = [FILE_START, body, FILE_END].concat();
    let mut reader = FileReader::new(&file[..], LIMITS).ok()?;
    let mut texts = Vec::new();
    while let Some(event) = reader.next_event().ok()? {
        let Event::Function(text) = event else { return None };
        texts.push(text.to_vec());
    }
    Some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_dumps_are_refused() {
        let dump = LibrarySet::default().dump();
        assert_eq!(read_dump(&dump), Some(Vec::new()));
        for end in 0..dump.len() {
            assert_eq!(read_dump(&dump[..end]), None);
        }
        let text = b"#!lua name=a\n".repeat(20);
        let compressed = [&[245, 0xC3, 17, 0x40, 26, 15][..], b"#!lua name=a\n#!l"].concat();
        let mut short = [&[245, 13][..], &text[..13], &10u16.to_le_bytes()].concat();
        short.extend_from_slice(&sum_of(&short).to_le_bytes());
        assert_eq!(read_dump(&short), Some(vec![text[..13].to_vec()]));
        let mut damaged = [&compressed[..], &10u16.to_le_bytes()].concat();
        damaged.extend_from_slice(&sum_of(&damaged).to_le_bytes());
        assert_eq!(read_dump(&damaged), None);
    }
}
