//! Reads a memory file that no server uses, together with the flash devices that belong to it. Reports every live item,
//! one after another, and changes neither the file nor the flash.
//!
//! ```text
//!   file ── private maps ── opened as at a start, repaired in the maps ── walk over the keys ── one entry each
//!   flash ── read-only ──── items that the index names, or that are found again ──┘
//! ```
//!
//! Invariants:
//! - The reported items are those that a server would serve if it opened the file now.
//! - No device is written. Data that the previous process had not written to the device yet is reported from the file.
//! - Memory is limited to the pages that the repair touches, the largest value and the reads of one step of the walk.

mod collections;
pub mod graph_load;
pub mod graphs;
mod json;

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use arena::MapFile;
use base::clock::UnixMillis;
use command::keyspace::namespace_config::NamespaceConfig;
use flash::{Flash, Scratch};
use record::{Damaged, Digits, Kind, Record, Source};
use segment::{
    Background, Copied, Expire, FileFault, Guard, HandleError, IndexPlace, Item, JoinedParts, Key, Namespace, Store,
    StoreConfig, Stride, TermsError, ThreadHandle, Value, file_config, file_index, file_tier,
};

use crate::config::kinds::FlashPlace;
use crate::shared::Shared;
use crate::start::opened::ReleasedStore;
use crate::start::{ServerConfig, StartError, assemble_in};

pub use flash::FlashRemainder;
pub use json::line;

/// A memory file that is being read.
pub struct Offline {
    /// The configuration of the store in the file.
    pub config: StoreConfig,
    /// The place of the index.
    pub index: IndexPlace,
    shared: Arc<Shared>,
    handle: ThreadHandle,
    _background: Background,
    reads: Reads,
}

/// The pending reads from flash devices, if there are devices. Only these reads make this module wait.
struct Reads(Option<(Arc<Flash>, Scratch)>);

impl Reads {
    /// Completes all reads that were requested.
    fn work(&mut self) {
        if let Some((flash, scratch)) = &mut self.0 {
            while flash.work(scratch) {}
        }
    }
}

/// One exported item.
pub struct ExportedItem<'e> {
    /// The namespace of the key.
    pub namespace: Namespace,
    /// The key.
    pub key: &'e [u8],
    /// The flags that a memcached client stored with the item.
    pub client_flags: u32,
    /// The instant at which the item expires, or `None` if it never expires.
    pub ends: Option<UnixMillis>,
    /// The value of the item.
    pub value: ValueReply<'e>,
}

/// The value of an exported item.
pub enum ValueReply<'e> {
    /// A string, or the digits of a number.
    Bytes(&'e [u8]),
    /// A hash, or a record.
    Record(Record<'e>),
    /// A list, set, sorted set or stream: the name and the value of its member of the line, as JSON.
    Collection(&'e str),
}

/// The numbers of items that were reported and that could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounts {
    /// The number of items that were reported.
    pub reported: u64,
    /// The number of items that exist but cannot be read: a part of them is missing, or their bytes or their device are
    /// damaged.
    pub lost: u64,
}

impl Offline {
    /// Opens the file at `path`, and the flash devices that belong to it.
    ///
    /// # Errors
    /// If a server could not start with this file and these devices, or if a device does not belong to the file.
    pub fn open(path: &Path, flash: &[FlashPlace]) -> Result<Self, StartError> {
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
            flash: flash.to_vec(),
            // A view never evicts to make room.
            evict: false,
            ..ServerConfig::default()
        };
        let left = ReleasedStore { memory: Some(file), is_view: true, ..ReleasedStore::default() };
        let (shared, mut background) = assemble_in(config, left, UnixMillis::now())?;
        let mut reads = Reads(shared.threads.flash.clone().map(|flash| (Arc::clone(&flash), flash.scratch())));
        while shared.store.is_finding() {
            background.slice(UnixMillis::now(), &mut || false);
            reads.work();
        }
        let handle = shared.store.handle().expect("the first lane");
        Ok(Self { config: store, index, shared, handle, _background: background, reads })
    }

    /// Returns the size of the longest item in memory (key and value together), in bytes. Items on flash are no longer
    /// than an eighth of a segment.
    ///
    /// # Errors
    /// If the store has no handle left.
    pub fn longest_item(&self) -> Result<u64, HandleError> {
        segment::longest_item(&self.shared.store, UnixMillis::now())
    }

    /// Checks that another store accepts the memory of all namespaces of this file. Otherwise returns the name of a
    /// namespace, and the cause. The other store has no quotas, and has none afterwards.
    ///
    /// # Errors
    /// The namespace that a server could not create there.
    pub fn check_namespaces(&self, to: &Store) -> Result<(), (String, TermsError)> {
        let mut given = Vec::new();
        let mut refused = Ok(());
        for config in self.shared.namespaces.named() {
            let (number, name) = (Namespace(config.number), config.name.clone());
            match to.give_terms(number, &config.terms()) {
                Ok(()) => given.push(number),
                Err(error) => refused = refused.and(Err((name, error))),
            }
        }
        for number in given {
            let plain = NamespaceConfig::plain(number.0, true).terms();
            to.give_terms(number, &plain).expect("a namespace without a quota fits");
        }
        refused
    }

    /// Copies every live item to an empty store: first the items in memory, then as many of the items on flash as fit.
    ///
    /// # Errors
    /// If a store has no handle left.
    pub fn copy_to(
        &mut self,
        to: &Arc<Store>,
        background: &mut Background,
        now: UnixMillis,
    ) -> Result<Copied, HandleError> {
        let mut copied = segment::copy_store(&self.shared.store, to, background, now)?;
        if self.shared.threads.flash.is_some() {
            let (failed, reads) = (self.flash_failed(), &mut self.reads);
            let on_flash = segment::copy_flash(&mut self.handle, to, background, now, &mut || reads.work())?;
            copied.items += on_flash.items;
            copied.refused += on_flash.refused;
            copied.lost += on_flash.lost + self.flash_failed() - failed;
        }
        Ok(copied)
    }

    /// Calls `each` for every live item. An error of `each` ends the walk.
    ///
    /// # Errors
    /// If `each` returns an error: that error.
    pub fn each<E>(&mut self, each: &mut dyn FnMut(&ExportedItem<'_>) -> Result<(), E>) -> Result<ExportCounts, E> {
        let (mut counts, clock) = (ExportCounts::default(), self.shared.clock());
        let (mut value, failed) = (Vec::new(), self.flash_failed());
        let first = self.handle.guard(clock.unix()).walks().first_cursor();
        let (mut cursor, mut stride) = (Some(first), Stride::default());
        while let Some(at) = cursor {
            let (guard, mut ended) = (self.handle.guard(clock.unix()), None);
            let stepped = guard.walks().walk_all(at, &mut stride, &mut |namespace, item, _| {
                if ended.is_some() {
                    return;
                }
                match report(&self.shared, &guard, namespace, item, &mut value, each) {
                    Ok(Some(true)) => counts.reported += 1,
                    Ok(Some(false)) => counts.lost += 1,
                    Ok(None) => {}
                    Err(error) => ended = Some(error),
                }
            });
            drop(guard);
            if let Some(error) = ended {
                return Err(error);
            }
            match stepped {
                Ok(next) => cursor = next,
                // The value was requested from flash.
                Err(_) => self.reads.work(),
            }
        }
        counts.lost += self.flash_failed() - failed;
        Ok(counts)
    }

    fn flash_failed(&self) -> u64 {
        self.shared.store.stats().flash_failed
    }

    /// Returns the names of namespaces and of sets of records, as the server stores them: one line each.
    pub fn names(&self) -> Vec<String> {
        json::names(&self.shared)
    }
}

/// Returns the description of the items on flash in a memory file, without reading the flash. `None`: there are no such
/// items, or the file has no description. `boot` identifies the machine's current boot, as in [`segment::Power`].
///
/// # Errors
/// If the file cannot be opened.
pub fn left_on_flash(file: &Arc<MapFile>, boot: u128) -> Result<Option<FlashRemainder>, FileFault> {
    let words = file_tier(file, boot)?;
    Ok(words.and_then(|words| FlashRemainder::of(words.count(), |number| words.load(number))))
}

/// Reports one item to `each`. Returns true if it was reported, false if it cannot be read, and `None` if a client
/// would not see it.
fn report<E>(
    shared: &Shared,
    guard: &Guard<'_>,
    namespace: Namespace,
    item: &Item<'_>,
    whole: &mut Vec<u8>,
    each: &mut dyn FnMut(&ExportedItem<'_>) -> Result<(), E>,
) -> Result<Option<bool>, E> {
    let key = guard.key(namespace, item.key);
    let entry =
        |value| ExportedItem { namespace, key: item.key, client_flags: item.client_flags, ends: ends_of(item), value };
    let Value::Typed { kind, bytes: typed } = item.value else {
        whole.clear();
        let len = item.value_len();
        if !guard.pieces().copy_range(&key, item.value, 0..len, &mut |part| whole.extend_from_slice(part)) {
            return Ok(Some(false));
        }
        return each(&entry(ValueReply::Bytes(whole))).map(|()| Some(true));
    };
    let parts = KeyParts { guard, key, joined: OnceCell::new() };
    let Some(kind) = Kind::of(kind) else { return Ok(Some(false)) };
    match collections::member(kind, typed, &parts) {
        Ok(None) => {}
        Ok(Some(member)) => return each(&entry(ValueReply::Collection(&member))).map(|()| Some(true)),
        Err(Damaged) => return Ok(Some(false)),
    }
    let Ok(record) = Record::of(kind, typed, &shared.sets, &parts) else { return Ok(Some(false)) };
    // The record's set was truncated, so the record no longer exists.
    let Some(record) = record else { return Ok(None) };
    match is_whole(&record, guard.now()) {
        Some(0) => Ok(None),
        Some(_) => each(&entry(ValueReply::Record(record))).map(|()| Some(true)),
        None => Ok(Some(false)),
    }
}

/// Returns the number of bins of a record; `None` if the record cannot be read completely.
fn is_whole(record: &Record<'_>, now: UnixMillis) -> Option<usize> {
    record.bins(now.0).try_fold(0, |count, bin| bin.ok().map(|_| count + 1))
}

fn ends_of(item: &Item<'_>) -> Option<UnixMillis> {
    match item.expire {
        Expire::Never => None,
        Expire::At(at) => Some(at),
    }
}

/// Reads the parts of a large record.
#[derive(Debug)]
struct KeyParts<'t> {
    guard: &'t Guard<'t>,
    key: Key<'t>,
    joined: OnceCell<Box<JoinedParts>>,
}

impl Source for KeyParts<'_> {
    fn part(&self, object: u64, number: u64) -> Option<&[u8]> {
        self.guard.parts().joined_part(&self.joined, &self.key, object, number)
    }

    fn fresh(&self) -> u64 {
        unreachable!("nothing is written")
    }

    fn salt(&self) -> u64 {
        unreachable!("nothing is written")
    }
}

/// Returns a bin's name as text.
fn name_text<'n>(name: &'n record::Value<'n>, digits: &'n mut Digits) -> &'n [u8] {
    name.text(digits)
}
