//! The walk over a Redis server's keys.

use std::collections::VecDeque;

use super::{BatchRequest, Position, sort_out};
use crate::counts::KeyCounts;
use crate::item::Item;
use crate::place::ServerAddress;
use crate::reconnect::{Context, Reconnecting, persist};
use crate::redis::{Others, Redis, Wanted};
use crate::{BATCH_KEYS_MAX, CopyJob, MigrateError};

/// A server's keys, read page by page.
pub(crate) struct KeyWalk {
    server: Redis,
    cursor: u64,
    is_over: bool,
    page: VecDeque<Vec<u8>>,
    /// Highest number of keys of the next read: twice the number of keys that the last read returned.
    keys_at_once: usize,
}

impl KeyWalk {
    /// Connects, and continues from `position` if the server has not been restarted.
    pub fn open(
        server: &ServerAddress,
        job: &CopyJob,
        position: Option<&Position>,
        context: &Context<'_>,
    ) -> Result<Self, MigrateError> {
        let mut server = Redis::new(server, &job.connect);
        let (mut cursor, mut is_over) = (0, false);
        if let Some(Position::Cursor { cursor: next, is_over: was_over, run_id }) = position {
            server.run.expect(run_id);
            (cursor, is_over) = (*next, *was_over);
        }
        persist(&mut server, context, |_| Ok(()))?;
        if server.run.has_ended() {
            (cursor, is_over) = (0, false);
        }
        Ok(Self { server, cursor, is_over, page: VecDeque::new(), keys_at_once: BATCH_KEYS_MAX })
    }

    /// Returns the next items. Returns none if the server was restarted, because the cursor is not valid any more.
    pub fn next(
        &mut self,
        ask: &BatchRequest<'_>,
        counts: &mut KeyCounts,
        context: &Context<'_>,
    ) -> Result<Option<Vec<Item>>, MigrateError> {
        if self.page.is_empty() {
            if self.is_over {
                return Ok(None);
            }
            let cursor = self.cursor;
            let scanned = persist(&mut self.server, context, |server| {
                if server.run.has_ended() { Ok(None) } else { server.scan(cursor, ask.keys_max).map(Some) }
            })?;
            let Some((next, keys)) = scanned else { return Ok(Some(Vec::new())) };
            self.page = keys.into_iter().filter(|key| ask.takes(key, counts)).collect();
            (self.cursor, self.is_over) = (next, next == 0);
        }
        let keys: Vec<&[u8]> = self.page.iter().take(self.keys_at_once.min(ask.keys_max)).map(Vec::as_slice).collect();
        if keys.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let others = match (ask.target.has_types(), ask.to_compare) {
            (false, _) => Others::No,
            (true, false) => Others::Dumped,
            (true, true) => Others::Listed,
        };
        let wanted = Wanted { hashes: ask.target.has_types(), others, bytes_max: ask.bytes_max };
        let found = persist(&mut self.server, context, |server| server.read(&keys, wanted))?;
        self.keys_at_once = (found.len() * 2).clamp(1, BATCH_KEYS_MAX);
        self.page.drain(..found.len());
        Ok(Some(sort_out(found, counts)))
    }

    /// Returns the current position; `None` in the middle of a page.
    pub fn position(&self) -> Option<Position> {
        let (cursor, is_over, run_id) = (self.cursor, self.is_over, self.server.run.id().to_owned());
        self.page.is_empty().then_some(Position::Cursor { cursor, is_over, run_id })
    }

    /// Returns a sentence about a restart of the server, once. The walk must be rewound then.
    pub fn take_restart(&mut self) -> Option<String> {
        let name = self.server.name().to_owned();
        self.server.run.take_end(&name)
    }

    pub fn rewind(&mut self) {
        self.page.clear();
        (self.cursor, self.is_over) = (0, false);
    }

    pub fn share(&self, seen: u64) -> Option<f64> {
        if self.is_over { Some(1.0) } else { self.keys().map(|keys| (seen as f64 / keys as f64).min(0.99)) }
    }

    pub const fn has_field_times(&self) -> bool {
        self.server.has_field_times
    }

    pub fn keys(&self) -> Option<u64> {
        Some(self.server.keys).filter(|keys| *keys > 0)
    }
}
