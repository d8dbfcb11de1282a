//! The metadata log of a server with a memory file. Its metadata records describe the sets of records with their bins
//! and secondary indexes, and the namespaces with their names and terms (limits and settings).
//!
//! ```text
//!   record kind 1 | fields
//!          1  a set: namespace 1, name           2  a bin: set 2, name           3  a generation: set 2, generation 4
//!          4  a namespace: number 1, then a line of JSON                         5  a removed namespace: number 1
//!          6  an index: set 2, type 1, memory 8, bin     7  a removed index: set 2, bin
//!          8  a library of functions: its text           9  a removed library: its name
//!         10  the namespaces of all databases: 8, four bits for each
//! ```
//!
//! Invariants:
//! - Metadata is persisted before a client or an item refers to it.
//! - Metadata records are read in order. If several describe the same object, the last one applies. At each start, and
//!   whenever the log fills half of its space, the log is rewritten with one record for each object.

use std::sync::Arc;

use record::{Added, IndexType, SetStore};
use segment::{NoteFault, Store};

use crate::keyspace::databases::Databases;
use crate::keyspace::namespace_config::NamespaceConfig;

const SET: u8 = 1;
const BIN: u8 = 2;
const GENERATION: u8 = 3;
const NAMESPACE: u8 = 4;
const NAMESPACE_REMOVED: u8 = 5;
const INDEX: u8 = 6;
const INDEX_REMOVED: u8 = 7;
const LIBRARY: u8 = 8;
const LIBRARY_REMOVED: u8 = 9;
const DATABASES: u8 = 10;

/// The metadata log. It appends metadata records to the store.
#[derive(Clone, Debug)]
pub struct MetadataLog(Arc<Store>);

impl MetadataLog {
    /// Returns the metadata log of `store`.
    pub fn of(store: &Arc<Store>) -> Self {
        Self(Arc::clone(store))
    }

    fn append(&self, note: &[u8]) -> Result<(), NoteFault> {
        self.0.append_metadata(note).inspect_err(|error| tracing::error!("cannot persist a metadata record: {error}"))
    }

    /// Appends a metadata record with the name and the terms of a namespace.
    ///
    /// # Errors
    /// If there is no room for the record.
    pub fn namespace(&self, config: &NamespaceConfig) -> Result<(), NoteFault> {
        self.append(&namespace_note(config))
    }

    /// Appends a metadata record of the removal of a namespace's name and terms.
    ///
    /// # Errors
    /// If there is no room for the record.
    pub fn namespace_removed(&self, number: u8) -> Result<(), NoteFault> {
        self.append(&[NAMESPACE_REMOVED, number])
    }

    /// Appends a metadata record with the definition of a secondary index.
    ///
    /// # Errors
    /// If there is no room for the record.
    pub fn index(&self, index: &PersistedIndex) -> Result<(), NoteFault> {
        self.append(&index_note(index))
    }

    /// Appends a metadata record with the text of a library of functions.
    ///
    /// # Errors
    /// If there is no room for the record.
    pub fn library(&self, text: &[u8]) -> Result<(), NoteFault> {
        self.append(&library_note(text))
    }

    /// Appends a metadata record of the removal of a library of functions.
    ///
    /// # Errors
    /// If there is no room for the record.
    pub fn library_removed(&self, name: &[u8]) -> Result<(), NoteFault> {
        self.append(&[&[LIBRARY_REMOVED], name].concat())
    }

    /// Appends a metadata record with the namespaces of all databases.
    ///
    /// # Errors
    /// If there is no room for the record.
    pub fn databases(&self, databases: Databases) -> Result<(), NoteFault> {
        self.append(&databases_note(databases))
    }

    /// Appends a metadata record of the removal of a bin's index.
    ///
    /// # Errors
    /// If there is no room for the record.
    pub fn index_removed(&self, set: u16, bin: &[u8]) -> Result<(), NoteFault> {
        self.append(&[&[INDEX_REMOVED][..], &set.to_le_bytes(), bin].concat())
    }
}

impl SetStore for MetadataLog {
    fn keep(&self, added: &Added<'_>) -> bool {
        Self::append(self, &added_note(added)).is_ok()
    }
}

fn added_note(added: &Added<'_>) -> Vec<u8> {
    match *added {
        Added::Set { namespace, name } => [&[SET, namespace][..], name].concat(),
        Added::Bin { set, name } => [&[BIN][..], &set.to_le_bytes(), name].concat(),
        Added::Generation { set, generation } => {
            [&[GENERATION][..], &set.to_le_bytes(), &generation.to_le_bytes()].concat()
        }
    }
}

/// Decodes a metadata record that describes a set, a bin or a set's generation. Returns `None` for a record of another
/// kind.
fn added_of(note: &[u8]) -> Option<Added<'_>> {
    let (kind, rest) = note.split_first()?;
    let set = || Some(u16::from_le_bytes(rest.get(..2)?.try_into().ok()?));
    match *kind {
        SET => rest.split_first().map(|(namespace, name)| Added::Set { namespace: *namespace, name }),
        BIN => Some(Added::Bin { set: set()?, name: &rest[2..] }),
        GENERATION => {
            let generation = u32::from_le_bytes(rest.get(2..6)?.try_into().ok()?);
            Some(Added::Generation { set: set()?, generation })
        }
        _ => None,
    }
}

fn namespace_note(config: &NamespaceConfig) -> Vec<u8> {
    let text = serde_json::json!({
        "name": config.name,
        "memory_bytes": config.memory_bytes,
        "evict": config.evict,
        "ttl_default_ms": config.ttl_default_ms,
        "ttl_max_ms": config.ttl_max_ms,
        "connections_max": config.connections_max,
        "ops_max": config.ops_max,
        "prefixes": config.prefixes,
    });
    [&[NAMESPACE, config.number][..], text.to_string().as_bytes()].concat()
}

fn namespace_of(note: &[u8]) -> Option<NamespaceConfig> {
    let [NAMESPACE, number, text @ ..] = note else { return None };
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    let count = |name: &str| value[name].as_u64();
    Some(NamespaceConfig {
        name: value["name"].as_str()?.to_owned(),
        number: *number,
        memory_bytes: count("memory_bytes"),
        evict: value["evict"].as_bool()?,
        ttl_default_ms: count("ttl_default_ms")?,
        ttl_max_ms: count("ttl_max_ms")?,
        connections_max: count("connections_max")?,
        ops_max: count("ops_max")?,
        prefixes: serde_json::from_value(value["prefixes"].clone()).ok()?,
    })
}

/// The definition of a secondary index. Only the definition is persisted; the index's entries are rebuilt at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistedIndex {
    /// The number of the record set.
    pub set: u16,
    /// The type of the indexed values.
    pub kind: IndexType,
    /// The memory reserved for the index, in bytes.
    pub bytes: u64,
    /// The bin's name.
    pub bin: Box<[u8]>,
}

fn library_note(text: &[u8]) -> Vec<u8> {
    [&[LIBRARY], text].concat()
}

fn databases_note(databases: Databases) -> Vec<u8> {
    [&[DATABASES][..], &databases.packed().to_le_bytes()].concat()
}

fn index_note(index: &PersistedIndex) -> Vec<u8> {
    let kind = u8::from(index.kind == IndexType::Text);
    [&[INDEX][..], &index.set.to_le_bytes(), &[kind], &index.bytes.to_le_bytes(), &index.bin].concat()
}

fn index_of(note: &[u8]) -> Option<PersistedIndex> {
    let [INDEX, a, b, kind, rest @ ..] = note else { return None };
    let (bytes, bin) = rest.split_at_checked(8)?;
    Some(PersistedIndex {
        set: u16::from_le_bytes([*a, *b]),
        kind: if *kind == 0 { IndexType::Integer } else { IndexType::Text },
        bytes: u64::from_le_bytes(bytes.try_into().ok()?),
        bin: bin.into(),
    })
}

/// The error that a namespace has different numbers in the configuration and in the memory file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberDiffers {
    /// The name of the namespace.
    pub name: String,
    /// The number under which the memory file stores its items.
    pub kept: u8,
    /// The number in the configuration.
    pub asked: u8,
}

/// The metadata that was read from the log at start.
#[derive(Debug, Default)]
pub struct PersistedMetadata {
    /// The sets and bins.
    pub sets: record::Sets,
    /// The named namespaces.
    pub namespaces: Vec<NamespaceConfig>,
    /// The secondary indexes.
    pub indexes: Vec<PersistedIndex>,
    /// The namespaces of all databases.
    pub databases: Databases,
    /// The names and texts of the libraries of functions.
    pub libraries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl PersistedMetadata {
    /// Reads the metadata log of a store, and rewrites it with one record for each object.
    pub fn read(store: &Arc<Store>) -> Self {
        let mut kept = Self::default();
        store.each_note(&mut |note| kept.take(note));
        if let Err(error) = store.rewrite_notes(&kept.notes()) {
            tracing::warn!("cannot rewrite the metadata log: {error}");
        }
        kept.sets.persist_by(Box::new(MetadataLog::of(store)));
        kept
    }

    /// Returns the metadata as encoded metadata records, one for each object.
    fn notes(&self) -> Vec<Vec<u8>> {
        let mut notes = Vec::new();
        self.sets.added(&mut |added| notes.push(added_note(&added)));
        notes.extend(self.namespaces.iter().map(namespace_note));
        notes.extend(self.indexes.iter().map(index_note));
        if self.databases != Databases::default() {
            notes.push(databases_note(self.databases));
        }
        notes.extend(self.libraries.iter().map(|(_, text)| library_note(text)));
        notes
    }

    /// Rewrites the metadata log if it is long, for example after many names or indexes were created and dropped.
    pub fn shorten(store: &Store) {
        if store.notes_are_long() {
            let made = store.renew_notes(|notes| {
                let mut kept = Self::default();
                notes.iter().for_each(|note| kept.take(note));
                kept.notes()
            });
            if let Err(error) = made {
                tracing::warn!("cannot rewrite the metadata log: {error}");
            }
        }
    }

    /// Returns the namespaces of the server: all configured namespaces, and each persisted namespace whose number the
    /// configuration does not use.
    ///
    /// # Errors
    /// If a persisted namespace has another number in the configuration.
    pub fn configured(&self, configured: &[NamespaceConfig]) -> Result<Vec<NamespaceConfig>, NumberDiffers> {
        for asked in configured {
            if let Some(kept) = self.namespaces.iter().find(|kept| kept.name == asked.name)
                && kept.number != asked.number
            {
                let (name, kept, asked) = (asked.name.clone(), kept.number, asked.number);
                return Err(NumberDiffers { name, kept, asked });
            }
        }
        let is_left = |kept: &&NamespaceConfig| configured.iter().all(|asked| asked.number != kept.number);
        let left = self.namespaces.iter().filter(is_left).cloned();
        Ok(configured.iter().cloned().chain(left).collect())
    }

    fn take(&mut self, note: &[u8]) {
        if let Some(added) = added_of(note) {
            self.sets.restore(&added);
        } else if let Some(config) = namespace_of(note) {
            self.namespaces.retain(|other| other.number != config.number && other.name != config.name);
            self.namespaces.push(config);
        } else if let [NAMESPACE_REMOVED, number] = note {
            self.namespaces.retain(|other| other.number != *number);
        } else if let Some(index) = index_of(note) {
            self.indexes.push(index);
        } else if let [INDEX_REMOVED, a, b, bin @ ..] = note {
            let set = u16::from_le_bytes([*a, *b]);
            self.indexes.retain(|index| index.set != set || *index.bin != *bin);
        } else if let [LIBRARY, text @ ..] = note
            && let Ok((name, _)) = script::read_library(text)
        {
            self.libraries.retain(|(other, _)| *other != name);
            self.libraries.push((name, text.to_vec()));
        } else if let [DATABASES, packed @ ..] = note
            && let Ok(packed) = packed.try_into()
        {
            self.databases = Databases::of(u64::from_le_bytes(packed)).unwrap_or_default();
        } else if let [LIBRARY_REMOVED, name @ ..] = note {
            self.libraries.retain(|(other, _)| other != name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_round_trips_and_the_last_record_wins() {
        let shop = NamespaceConfig { name: "shop".to_owned(), ops_max: 7, ..NamespaceConfig::plain(3, false) };
        let cart = NamespaceConfig { memory_bytes: Some(5 << 20), ..NamespaceConfig::plain(4, true) };
        let mut kept = PersistedMetadata::default();
        let set = Added::Set { namespace: 2, name: b"people" };
        let bin = Added::Bin { set: 0, name: b"age" };
        let generation = Added::Generation { set: 0, generation: 9 };
        let index = PersistedIndex { set: 0, kind: IndexType::Text, bytes: 1 << 20, bin: b"age"[..].into() };
        for note in [
            namespace_note(&cart),
            namespace_note(&NamespaceConfig { ops_max: 1, ..shop.clone() }),
            added_note(&set),
            added_note(&bin),
            added_note(&generation),
            namespace_note(&shop),
            vec![NAMESPACE_REMOVED, 4],
            index_note(&index),
            index_note(&PersistedIndex { bin: b"city"[..].into(), ..index.clone() }),
            [&[INDEX_REMOVED, 0, 0][..], b"city"].concat(),
            library_note(b"#!lua name=one\nold"),
            library_note(b"#!lua name=two\n"),
            library_note(b"#!lua name=one\nnew"),
            [&[LIBRARY_REMOVED], &b"two"[..]].concat(),
            databases_note(Databases::default()),
            databases_note(Databases::of(0xFEDC_BA98_7654_3201).expect("all namespaces once")),
            vec![DATABASES, 1],
            vec![200, 1],
            vec![],
        ] {
            kept.take(&note);
        }
        assert_eq!((kept.databases.namespace(0).0, kept.databases.namespace(1).0), (1, 0));
        assert_eq!(kept.libraries, [(b"one".to_vec(), b"#!lua name=one\nnew".to_vec())]);
        assert_eq!((kept.namespaces, kept.indexes), (vec![shop], vec![index]));
        let mut added = Vec::new();
        kept.sets.added(&mut |one| added.push(added_note(&one)));
        assert_eq!(added, [set, bin, generation].map(|one| added_note(&one)));
    }
}
