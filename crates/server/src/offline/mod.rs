//! What lies in a memory file that no server has: every live item, told one after another, and nothing of the file is
//! changed.
//!
//! ```text
//!   file ── maps of this process alone ── opened as at a start: mended there ── walk over the keys ── one entry each
//! ```
//!
//! Invariants:
//! - What is told is what a server that opened the file now would answer.
//! - Memory is bounded by the pages that mending touches and the largest value.

mod json;

use std::path::Path;
use std::sync::Arc;

use arena::MapFile;
use base::clock::UnixMillis;
use record::{Digits, Kind, Record, Source};
use segment::{Expire, Item, Key, Lane, Namespace, Turn, Value, file_config, file_index};

use crate::namespaces::Namespaces;
use crate::shared::Shared;
use crate::start::{Left, ServerConfig, StartError, assemble_in};

pub use json::line;

/// A memory file that is read.
pub struct Offline {
    shared: Arc<Shared>,
    lane: Lane,
    _background: segment::Background,
}

/// One item.
pub struct Entry<'e> {
    /// Where its key is.
    pub namespace: Namespace,
    /// Its key.
    pub key: &'e [u8],
    /// The flags that a client of memcached gave it.
    pub client_flags: u32,
    /// When it ends, if it does.
    pub ends: Option<UnixMillis>,
    /// Its value.
    pub value: Told<'e>,
}

/// A value.
pub enum Told<'e> {
    /// A string, a number's digits.
    Bytes(&'e [u8]),
    /// A hash, or a record.
    Record(Record<'e>),
}

/// What was told, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Items that were told.
    pub told: u64,
    /// Items that are there and cannot be read: a part of them is lost, or their bytes are damaged.
    pub lost: u64,
}

impl Offline {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// As for a server that is started with it.
    pub fn open(path: &Path) -> Result<Self, StartError> {
        let file = MapFile::view(path).map_err(|error| StartError::File { path: path.to_owned(), error })?;
        let file = Arc::new(file);
        let fault = |fault| StartError::Store(segment::StartError::File { path: path.to_owned(), fault });
        let store = file_config(&file).map_err(fault)?;
        let index = file_index(&file).map_err(fault)?;
        let config = ServerConfig {
            memory_bytes: store.memory_bytes,
            segment_bytes: store.segment_bytes,
            file_index: index,
            huge_pages: false,
            ..ServerConfig::default()
        };
        let (shared, mut background) =
            assemble_in(config, Left { memory: Some(file), ..Left::default() }, UnixMillis::now())?;
        while shared.store.is_rebuilding() {
            background.slice(UnixMillis::now(), &mut || false);
        }
        let lane = shared.store.lane().expect("the first lane");
        Ok(Self { shared, lane, _background: background })
    }

    /// Tells every live item, those of one namespace after those of another. What `each` answers ends it.
    ///
    /// # Errors
    /// What `each` answers.
    pub fn each<E>(&mut self, each: &mut dyn FnMut(&Entry<'_>) -> Result<(), E>) -> Result<Counts, E> {
        let (mut counts, clock) = (Counts::default(), self.shared.clock());
        let mut value = Vec::new();
        for namespace in Namespaces::numbers() {
            let mut cursor = Some(0);
            while let Some(at) = cursor {
                let turn = self.lane.turn(clock.unix());
                let mut keys = Vec::new();
                cursor = turn.scan(namespace, at, &mut |item| keys.push(item.key.to_vec()));
                for key in &keys {
                    match tell(&self.shared, &turn, namespace, key, &mut value, each)? {
                        Some(true) => counts.told += 1,
                        Some(false) => counts.lost += 1,
                        None => {}
                    }
                }
            }
        }
        Ok(counts)
    }

    /// The names of namespaces and of sets of records, as the server keeps them: a line each.
    pub fn names(&self) -> Vec<String> {
        json::names(&self.shared)
    }
}

/// Tells one item. `None`: it is not there, or a client would see nothing of it; false: it cannot be read.
fn tell<E>(
    shared: &Shared,
    turn: &Turn<'_>,
    namespace: Namespace,
    bytes: &[u8],
    whole: &mut Vec<u8>,
    each: &mut dyn FnMut(&Entry<'_>) -> Result<(), E>,
) -> Result<Option<bool>, E> {
    let key = turn.key(namespace, bytes);
    let Some(item) = turn.peek(&key) else { return Ok(None) };
    let entry = |value| Entry { namespace, key: bytes, client_flags: item.client_flags, ends: ends_of(&item), value };
    let Value::Typed { kind, bytes: typed } = item.value else {
        whole.clear();
        let len = item.value_len();
        if !turn.copy_range(&key, item.value, 0..len, &mut |part| whole.extend_from_slice(part)) {
            return Ok(Some(false));
        }
        return each(&entry(Told::Bytes(whole))).map(|()| Some(true));
    };
    let parts = KeyParts { turn, key };
    let record = Kind::of(kind).map(|kind| Record::of(kind, typed, &shared.sets, &parts));
    let Some(Ok(record)) = record else { return Ok(Some(false)) };
    // Of a set that was truncated nothing is there any more.
    let Some(record) = record else { return Ok(None) };
    match is_whole(&record, turn.now()) {
        Some(0) => Ok(None),
        Some(_) => each(&entry(Told::Record(record))).map(|()| Some(true)),
        None => Ok(Some(false)),
    }
}

/// How many bins it has; `None`: it cannot be read to its end.
fn is_whole(record: &Record<'_>, now: UnixMillis) -> Option<usize> {
    record.bins(now.0).try_fold(0, |count, bin| bin.ok().map(|_| count + 1))
}

fn ends_of(item: &Item<'_>) -> Option<UnixMillis> {
    match item.expire {
        Expire::Never => None,
        Expire::At(at) => Some(at),
    }
}

/// Where the parts of a large record are.
#[derive(Debug)]
struct KeyParts<'t> {
    turn: &'t Turn<'t>,
    key: Key<'t>,
}

impl Source for KeyParts<'_> {
    fn part(&self, object: u64, number: u64) -> Option<&[u8]> {
        self.turn.part(&self.key, object, number)
    }

    fn fresh(&self) -> u64 {
        unreachable!("nothing is written")
    }
}

/// A bin's name as text.
fn name_text<'n>(name: &'n record::Value<'n>, digits: &'n mut Digits) -> &'n [u8] {
    name.text(digits)
}
