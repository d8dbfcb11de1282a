//! A part of a value put in the place of what was there: the rest stays, and so do flags and expiry.
//!
//! ```text
//!   before   [ a b c d e f ]            [ a b ]
//!   offset 2, part X Y                  offset 4, part X Y
//!   after    [ a b X Y e f ]            [ a b 0 0 X Y ]
//! ```
//!
//! The new value is written beside the old one and published in its place: it takes the time of a copy, within one
//! guard.

use crate::core::handle::Guard;
use crate::core::op::{Expire, OpError, Put};
use crate::items::unpublished::{Content, Plan};
use crate::items::write::put::Expect;
use crate::layout::item::Kind;
use crate::layout::key::Key;
use crate::values::source::Source;
use crate::values::writer::LargeWriter;

impl Guard<'_> {
    /// Puts `part`, which is not empty, at `offset` bytes into the key's value, or into none; says how long that is
    /// then, or `None` where a typed value is.
    ///
    /// # Errors
    /// [`OpError::Parked`] (nothing was changed: again in a later iteration), [`OpError::TooLarge`],
    /// [`OpError::OutOfMemory`].
    pub fn splice(&mut self, key: &Key<'_>, offset: u64, part: &[u8]) -> Result<Option<u64>, OpError> {
        self.sample(key, crate::heap::samples::Asked::Store);
        self.retry(|guard| guard.try_splice(key, offset, Source::Bytes(part)))
    }

    /// Puts a large value that was written into the key's value, as [`Guard::splice`] does, and removes its pieces.
    ///
    /// # Errors
    /// If the writer cannot be spliced; it comes back with the error. On [`OpError::Parked`] call again in a later
    /// guard.
    pub fn splice_large(
        &mut self,
        key: &Key<'_>,
        offset: u64,
        writer: LargeWriter,
    ) -> Result<Option<u64>, (LargeWriter, OpError)> {
        self.sample(key, crate::heap::samples::Asked::Store);
        let part = Source::Part(writer.whole());
        match self.retry(|guard| guard.try_splice(key, offset, part)) {
            Ok(len) => {
                self.large_abort(writer);
                Ok(len)
            }
            Err(error) => Err((writer, error)),
        }
    }

    fn try_splice(&mut self, key: &Key<'_>, offset: u64, part: Source<'_>) -> Result<Option<Option<u64>>, OpError> {
        let store = self.store;
        let there = self.snap(key)?;
        let mut digits = [0; 20];
        let (old, client_flags, expire) = match &there {
            None => (Source::Bytes(&[]), 0, Expire::Never),
            Some((seen, _)) if seen.layout.is(Kind::Typed) => return Ok(Some(None)),
            Some((seen, snap)) => {
                store.note_access(seen, self.now);
                let client_flags = seen.layout.client_flags(&store.segments.heap, seen.address);
                (store.source_of(seen, snap, &mut digits), client_flags, snap.expire(store, seen))
            }
        };
        let (old_len, end) = (old.len(), offset.saturating_add(part.len()));
        let total = old_len.max(end);
        self.check_size(key, total)?;
        let sources = [
            old.cut(0, old_len.min(offset)),
            Source::Zeros(offset.saturating_sub(old_len)),
            part,
            old.cut(end.min(old_len), old_len),
        ];
        let expect = Some(Expect::there(there.as_ref().map(|(_, snap)| *snap)));
        let put = Put { client_flags, expire, ..Put::set(&[]) };
        let plan = Plan::of(&put, Kind::Plain, Content::Bytes(&[], &[]));
        if total > self.whole_max(key)
            || sources.iter().any(|source| !matches!(source, Source::Bytes(_) | Source::Zeros(_)))
        {
            return Ok(self.commit_joined(key, &plan, expect, &sources)?.map(|_| Some(total)));
        }
        let mut scratch = std::mem::take(&mut self.own.change);
        scratch.clear();
        for source in &sources {
            match source {
                Source::Bytes(bytes) => scratch.extend_from_slice(bytes),
                _ => scratch.resize(scratch.len() + source.len() as usize, 0),
            }
        }
        let stored = self.commit(key, &Plan { content: Content::Bytes(&scratch, &[]), ..plan }, expect);
        scratch.shrink_to(store.geometry.piece_bytes);
        self.own.change = scratch;
        Ok(stored?.map(|_| Some(total)))
    }
}
