//! Loads the snapshot: each key becomes a request, or several.

use std::time::{SystemTime, UNIX_EPOCH};

use rdb::{Damage, Element, Event, FileReader, Key, ReadLimits, ValueType};

use super::job::ImportJob;
use super::missing::KeyUse;
use super::pipe::{Awaited, TargetPipe, count_evictions, database_of};
use super::primary::SnapshotInput;
use super::value::{SnapshotKey, ValueSender};
use crate::MigrateError;
use crate::reconnect::RequestError;

/// The reason why a snapshot was not loaded.
#[derive(Debug)]
pub(super) enum LoadError {
    /// The source was lost, or refuses.
    Source(RequestError),
    /// The target was lost, or refuses.
    Target(RequestError),
    /// The snapshot is damaged, or has data of an unknown kind.
    Damaged(MigrateError),
}

/// The loading of one snapshot.
pub(super) struct SnapshotLoad<'a> {
    /// The parameters of the import.
    pub job: &'a ImportJob,
    /// The target.
    pub pipe: &'a mut TargetPipe,
    /// Returns whether the user has stopped the import.
    pub is_stopped: &'a dyn Fn() -> bool,
    /// Called after each key.
    pub after_key: &'a mut dyn FnMut(&TargetPipe),
}

impl SnapshotLoad<'_> {
    /// Loads the whole snapshot.
    pub fn run(&mut self, input: &mut SnapshotInput<'_>) -> Result<(), LoadError> {
        let mut reader = match FileReader::new(&mut *input, ReadLimits::default()) {
            Ok(reader) => reader,
            Err(damage) => return Err(cause(input, &damage)),
        };
        let result = loop {
            match self.step(&mut reader) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
            self.pipe.ledger.counts.bytes = reader.mark().offset;
            self.pipe.watch_evictions();
            (self.after_key)(self.pipe);
        };
        match result {
            Ok(()) => {}
            Err(Stumble::Target(error)) => return Err(LoadError::Target(error)),
            Err(Stumble::Damage(damage)) => return Err(cause(input, &damage)),
        }
        input.finish().map_err(LoadError::Source)?;
        self.pipe.ledger.counts.bytes = input.read;
        self.pipe.drain(self.is_stopped).map_err(LoadError::Target)?;
        count_evictions(self.pipe).map_err(LoadError::Target)
    }

    /// Reads one record with all that belongs to it. Returns false at the end.
    fn step(&mut self, reader: &mut FileReader<&mut SnapshotInput<'_>>) -> Result<bool, Stumble> {
        let (mut key, db, value_type) = match reader.next_event()? {
            None => return Ok(false),
            Some(Event::Key(Key { db, name, value_type, expire_at_ms, .. })) => {
                (SnapshotKey { name: name.to_vec(), expire_at_ms }, db, value_type)
            }
            Some(Event::Function(code)) => {
                let words: [&[u8]; 4] = [b"FUNCTION", b"LOAD", b"REPLACE", code];
                self.pipe.put_words(Awaited::Function, &words);
                self.pipe.make_room(self.is_stopped)?;
                return Ok(true);
            }
            Some(Event::ModuleAux(module)) => {
                self.pipe.ledger.counts.refuse(format!("data of the module {module} outside keys"));
                return Ok(true);
            }
            Some(_) => return Ok(true),
        };
        if self.takes(&mut key, db)? {
            self.send(key, value_type, reader)?;
        } else {
            reader.skip_value()?;
        }
        Ok(true)
    }

    /// Selects the key's database. Returns false for a key that is not stored, and counts it.
    fn takes(&mut self, key: &mut SnapshotKey, db: u32) -> Result<bool, Stumble> {
        let Some(to) = self.job.db_at_target(db) else {
            self.pipe.ledger.counts.not_chosen += 1;
            return Ok(false);
        };
        if let Some(refusal) = self.pipe.select(to, self.is_stopped)? {
            self.pipe.ledger.counts.refuse(format!("key of database {db}: {refusal}"));
            return Ok(false);
        }
        // A later command of the stream may extend a key that has expired.
        key.expire_at_ms = key.expire_at_ms.map(|at| self.pipe.held.hold(at));
        if key.expire_at_ms.is_some_and(|at| at <= now_ms()) {
            self.pipe.ledger.counts.expired += 1;
            return Ok(false);
        }
        Ok(true)
    }

    fn send(
        &mut self,
        key: SnapshotKey,
        value_type: ValueType,
        reader: &mut FileReader<&mut SnapshotInput<'_>>,
    ) -> Result<(), Stumble> {
        let keys = KeyUse::of_value(database_of(self.pipe), &key.name);
        let mut sender = ValueSender::new(key, value_type);
        while let Some(Event::Element(element)) = reader.next_event()? {
            if let Element::Module(module) = element {
                self.pipe.ledger.counts.refuse(format!("value of the module {module}"));
                self.pipe.missing.refused(keys.written().cloned(), std::iter::empty())?;
                reader.skip_value()?;
                return Ok(());
            }
            sender.add(&element, self.pipe)?;
            self.pipe.make_room(self.is_stopped)?;
        }
        sender.end(self.pipe, self.is_stopped)?;
        self.pipe.make_room(self.is_stopped)?;
        Ok(())
    }
}

/// The reason why a step failed.
enum Stumble {
    Damage(Damage),
    Target(RequestError),
}

impl From<Damage> for Stumble {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

impl From<RequestError> for Stumble {
    fn from(error: RequestError) -> Self {
        Self::Target(error)
    }
}

/// Returns the time of this host's clock, in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Returns why the reader failed: the connection, or the bytes.
fn cause(input: &mut SnapshotInput<'_>, damage: &Damage) -> LoadError {
    match input.failure() {
        Some(failure) => LoadError::Source(failure),
        None => LoadError::Damaged(MigrateError::Damaged(format!(
            "the snapshot cannot be read: {damage}; the target's databases have the part before it; check the network \
             and the source's memory, and import again with --flush"
        ))),
    }
}
