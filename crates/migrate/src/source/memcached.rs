//! The keys of a memcached server.

use std::fs::File;
use std::path::PathBuf;

use protocol::memcache::KEY_BYTES_MAX;

use super::keys::{KeyList, KeyListReader};
use super::{BatchRequest, Position, sort_out};
use crate::counts::KeyCounts;
use crate::item::Item;
use crate::memcached::{ListedKey, Memcached};
use crate::place::ServerAddress;
use crate::reconnect::RequestError;
use crate::reconnect::{Context, Reconnecting, persist};
use crate::{CopyJob, MigrateError};

/// Highest number of keys that are examined for one batch.
const EXAMINED_MAX: usize = 20_000;

/// Reason under which keys are counted that this protocol cannot request.
const KEY_LENGTH: &str = "the length of its key: the source's protocol has keys of 1 to 250 bytes";
const _: () = assert!(KEY_BYTES_MAX == 250);

/// A server's keys, listed once and then read in order.
pub(crate) struct Keys {
    server: Memcached,
    list: KeyListReader,
    keys: u64,
    bytes: u64,
}

/// Returns the path of the list beside the journal.
fn list_path(job: &CopyJob) -> Option<PathBuf> {
    let journal = job.journal.as_ref()?;
    let mut name = journal.clone().into_os_string();
    name.push(".keys");
    Some(name.into())
}

impl Keys {
    /// Lists the keys, or opens an existing list.
    pub fn open(
        server: &ServerAddress,
        job: &CopyJob,
        position: Option<&Position>,
        (first, context): (&Context<'_>, &Context<'_>),
    ) -> Result<Self, MigrateError> {
        let mut server = Memcached::new(server, &job.connect);
        persist(&mut server, first, |_| Ok(()))?;
        let path = list_path(job);
        let shown = path.as_ref().map_or("the list of keys".to_owned(), |path| path.display().to_string());
        let failed = |error: std::io::Error| MigrateError::Refused(format!("{shown}: {error}"));
        if let (Some(Position::Keys { offset, keys, bytes }), Some(path)) = (position, &path) {
            let file = File::open(path).map_err(failed)?;
            let found = file.metadata().map_err(failed)?.len();
            if found != *bytes {
                let what =
                    format!("{shown} has {found} bytes, but the journal expects {bytes}; delete both to start over");
                return Err(MigrateError::Refused(what));
            }
            let list = KeyListReader::new(file, *offset, *bytes).map_err(failed)?;
            return Ok(Self { server, list, keys: *keys, bytes: *bytes });
        }
        let mut list = KeyList::create(path.as_deref()).map_err(failed)?;
        let wrong = |error: std::io::Error| RequestError::Refused(format!("{shown}: cannot write the list: {error}"));
        persist(&mut server, context, |server| {
            list.clear().map_err(wrong)?;
            server.list(|listed| {
                if list.keys.is_multiple_of(4096) && (context.is_stopped)() {
                    return Err(RequestError::Stopped);
                }
                list.push(listed).map_err(wrong)
            })
        })?;
        let (keys, bytes) = (list.keys, list.bytes);
        (context.tell)(&format!("{} listed {keys} keys", server.name()));
        let list = KeyListReader::new(list.finish().map_err(failed)?, 0, bytes).map_err(failed)?;
        Ok(Self { server, list, keys, bytes })
    }

    pub fn next(
        &mut self,
        ask: &BatchRequest<'_>,
        counts: &mut KeyCounts,
        context: &Context<'_>,
    ) -> Result<Option<Vec<Item>>, MigrateError> {
        let failed = |error: std::io::Error| MigrateError::Refused(format!("cannot read the list of keys: {error}"));
        let (mut chosen, mut bytes, mut looked_at): (Vec<ListedKey>, u64, usize) = (Vec::new(), 0, 0);
        while chosen.len() < ask.keys_max && bytes < ask.bytes_max && looked_at < EXAMINED_MAX {
            let Some(listed) = self.list.next().map_err(failed)? else { break };
            looked_at += 1;
            if listed.key.is_empty() {
                // A comparison has nothing to read for such a key.
                counts.seen += u64::from(!ask.to_compare);
                if !ask.to_compare {
                    counts.skip(KEY_LENGTH.to_owned());
                }
            } else if ask.takes(&listed.key, counts) {
                bytes += u64::from(listed.bytes);
                chosen.push(listed);
            }
        }
        if looked_at == 0 {
            return Ok(None);
        }
        let keys = chosen.iter().map(|listed| (listed.key.as_slice(), listed.expire_at_s));
        let found = persist(&mut self.server, context, |server| server.read(keys.clone()))?;
        Ok(Some(sort_out(found, counts)))
    }

    pub fn position(&self) -> Position {
        Position::Keys { offset: self.list.offset(), keys: self.keys, bytes: self.bytes }
    }

    pub fn rewind(&mut self) -> Result<(), MigrateError> {
        self.list.rewind().map_err(|error| MigrateError::Refused(format!("cannot read the list of keys: {error}")))
    }

    pub fn share(&self) -> f64 {
        if self.bytes == 0 { 1.0 } else { self.list.offset() as f64 / self.bytes as f64 }
    }

    pub const fn keys(&self) -> u64 {
        self.keys
    }
}
