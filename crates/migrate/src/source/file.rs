//! The entries of a file saved by Redis or Valkey.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use base::clock::UnixMillis;

use super::{BatchRequest, Position};
use crate::counts::KeyCounts;
use crate::item::{Item, KeyValue};
use crate::rdb::{Content, Damage, Mark, RdbReader, check};
use crate::reconnect::Context;
use crate::{CopyJob, MigrateError};

const BUFFER_BYTES: usize = 256 << 10;
/// Highest number of entries that are examined for one batch.
const EXAMINED_MAX: usize = 20_000;

/// The entries of a file, in their order.
pub(crate) struct Entries {
    path: PathBuf,
    file: File,
    reader: RdbReader<BufReader<File>>,
    db: u32,
    bytes: u64,
    sum: Option<u64>,
    /// Position after the last entry that was read.
    mark: Mark,
    /// The reason why reading ended. It is reported after the items read before it have been taken.
    fault: Option<MigrateError>,
}

/// The reason why an entry is not copied.
enum SkipReason {
    OtherDb,
    Unasked,
}

fn damaged(path: &Path, damage: Damage) -> MigrateError {
    MigrateError::Damaged(format!("{}: {damage}", path.display()))
}

impl Entries {
    /// Opens `path`. Reads the whole file once to check its checksum, so that damaged data is not copied.
    pub fn open(
        path: &Path,
        job: &CopyJob,
        position: Option<&Position>,
        context: &Context<'_>,
    ) -> Result<Self, MigrateError> {
        let failed = |error: std::io::Error| MigrateError::Refused(format!("{}: {error}", path.display()));
        let mut file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let sum = match check(&file, bytes) {
            Ok(checked) => checked.sum,
            Err(damage) if job.accept_damaged => {
                (context.tell)(&format!("{}: {damage}; the readable part of the file is copied", path.display()));
                None
            }
            Err(damage) => {
                let what = format!("{}: {damage}; pass --accept-damaged to copy the readable part", path.display());
                return Err(MigrateError::Damaged(what));
            }
        };
        if sum.is_none() && !job.accept_damaged {
            (context.tell)(&format!("{} was saved without a checksum: damage may go unnoticed", path.display()));
        }
        let mark = match position {
            Some(Position::File { mark, bytes: known, sum: known_sum }) if (*known, *known_sum) == (bytes, sum) => {
                Some(*mark)
            }
            Some(_) => {
                let what = "the journal belongs to another file; pass another journal, or delete this one";
                return Err(MigrateError::Refused(format!("{}: {what}", path.display())));
            }
            None => None,
        };
        file.seek(SeekFrom::Start(mark.map_or(0, |mark| mark.offset))).map_err(failed)?;
        let input = BufReader::with_capacity(BUFFER_BYTES, file.try_clone().map_err(failed)?);
        let reader = match mark {
            Some(mark) => RdbReader::resume(input, mark),
            None => RdbReader::new(input).map_err(|damage| damaged(path, damage))?,
        };
        let mark = reader.mark();
        Ok(Self { path: path.to_owned(), file, reader, db: job.file_db, bytes, sum, mark, fault: None })
    }

    pub fn next(&mut self, ask: &BatchRequest<'_>, counts: &mut KeyCounts) -> Result<Option<Vec<Item>>, MigrateError> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let now = UnixMillis::now();
        let (mut items, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
        self.reader.list_elements(ask.to_compare);
        while items.len() < ask.keys_max && bytes < ask.bytes_max && looked_at < EXAMINED_MAX {
            let (mut left, mut taken) = (None, false);
            let own_db = self.db;
            let entry = self.reader.next(|db, key| {
                if db != own_db {
                    left = Some(SkipReason::OtherDb);
                } else if !ask.takes(key, counts) {
                    left = Some(SkipReason::Unasked);
                }
                taken = left.is_none();
                taken
            });
            if entry.is_err() && taken {
                // The value cannot be read, so the key does not count as readable.
                counts.seen -= 1;
            }
            let entry = match entry {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(damage) if looked_at == 0 => return Err(damaged(&self.path, damage)),
                Err(damage) => {
                    self.fault = Some(damaged(&self.path, damage));
                    break;
                }
            };
            self.mark = self.reader.mark();
            looked_at += 1;
            match left {
                Some(SkipReason::Unasked) => continue,
                Some(SkipReason::OtherDb) => {
                    counts.seen += 1;
                    counts.skip(format!(
                        "the key is in database {}, but only database {own_db} is copied; pass --db to copy another",
                        entry.db
                    ));
                    continue;
                }
                None => {}
            }
            if entry.expire_at.is_some_and(|at| at <= now) {
                counts.expired += 1;
                continue;
            }
            let Some(value) = value_of(entry.content, ask, counts) else { continue };
            let item = Item { key: entry.key, value, client_flags: 0, expire_at: entry.expire_at, expire_slack_ms: 0 };
            bytes += item.weight();
            items.push(item);
        }
        Ok(if looked_at == 0 { None } else { Some(items) })
    }

    pub const fn position(&self) -> Position {
        Position::File { mark: self.mark, bytes: self.bytes, sum: self.sum }
    }

    pub fn rewind(&mut self) -> Result<(), MigrateError> {
        let failed = |error: std::io::Error| MigrateError::Refused(format!("{}: {error}", self.path.display()));
        self.file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let input = BufReader::with_capacity(BUFFER_BYTES, self.file.try_clone().map_err(failed)?);
        self.reader = RdbReader::new(input).map_err(|damage| damaged(&self.path, damage))?;
        self.mark = self.reader.mark();
        Ok(())
    }

    pub fn share(&self) -> f64 {
        self.mark.offset as f64 / self.bytes.max(1) as f64
    }
}

/// Returns the value to copy; `None` if the target cannot store it, which is counted.
fn value_of(content: Content, ask: &BatchRequest<'_>, counts: &mut KeyCounts) -> Option<KeyValue> {
    let kind = match content {
        Content::Bytes(bytes) => return Some(KeyValue::Bytes(bytes)),
        Content::Passed(kind) => {
            counts.skip(format!("{kind}: values of modules cannot be copied from a file"));
            return None;
        }
        Content::Hash(fields) if ask.target.has_types() => return Some(KeyValue::Hash(fields)),
        Content::Dump(kind, payload) if ask.target.has_types() => {
            return Some(KeyValue::Dump(kind.to_owned(), payload));
        }
        Content::Elements(kind, elements) if ask.target.has_types() => {
            return Some(KeyValue::Elements(kind.to_owned(), elements));
        }
        Content::Hash(..) => "hash",
        Content::Dump(kind, _) | Content::Elements(kind, _) => kind,
    };
    counts.skip(format!("{kind}: the target supports only strings"));
    None
}
