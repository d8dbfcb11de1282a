//! Keeps keys alive until the target has caught up with the source.
//!
//! A replica applies each command later than the source. If a key expires meanwhile at the target, a later command that
//! gives it more time finds no key, and the key is lost. The source's own replicas therefore never expire keys: they
//! wait for the source's `DEL`. A target expires keys by its own clock, so the import stores them with a later expiry
//! until it has caught up, and then sets their own:
//!
//! ```text
//!   stored with expiry T          held: HELD_FROM_MS + number x 1 s; a table has T by number
//!   caught up                     SCAN, PEXPIRETIME; each key with a held expiry gets its T
//! ```
//!
//! A command that changes the expiry replaces the held one, so only the last expiry of a key is set. The number is in
//! the expiry itself, so that it follows a key through `RENAME` and `COPY`.
//!
//! Bounds: 8 bytes for each expiry that was held, for at most [`HELD_MAX`] of them; later ones are stored as they are.
//! If the import is killed before it has caught up, the keys stay with their held expiries until it begins again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::pipe::{Awaited, TargetPipe, scan};
use super::snapshot::now_ms;
use crate::reconnect::RequestError;

/// First held expiry, in milliseconds since 1970: in the year 2101.
const HELD_FROM_MS: u64 = 4_150_000_000_000;
/// Step between held expiries: late expiries are exact to a second.
const STEP_MS: u64 = 1_000;
/// Highest number of held expiries; the last one is before the end of 32-bit seconds.
const HELD_MAX: usize = 1 << 27;
/// Expiries within this time are held: an import is expected to catch up before.
const HELD_WITHIN_MS: u64 = 86_400_000;
/// Time before its own expiry in which a key stays held: the command that extends it may be on its way.
const NEAR_MS: u64 = 2_000;
/// Keys that are looked at in one step.
const KEYS_MAX: usize = 512;
/// Pause between two walks over the keys.
const WALK_EVERY: Duration = Duration::from_secs(1);

const _: () = assert!(HELD_FROM_MS / 1_000 + (HELD_MAX as u64) < u32::MAX as u64);

/// A walk over the target's keys.
#[derive(Debug)]
struct ExpiryWalk {
    /// The databases that were not reached yet; the last one is being read.
    databases: Vec<u32>,
    cursor: u64,
    /// True if a key stays held, or if a key was moved during the walk, which may have missed it.
    is_partial: bool,
}

/// The expiries that are not set yet.
#[derive(Debug, Default)]
pub(super) struct HeldExpiries {
    /// The own expiries of held keys, in milliseconds since 1970.
    own_ms: Vec<u64>,
    /// Keys by database that have their own expiry again, which reads as a held one.
    alike: BTreeMap<(u32, Vec<u8>), u64>,
    /// True until the target has caught up.
    is_holding: bool,
    walk: Option<ExpiryWalk>,
    /// Time of the next walk.
    walk_at: Option<Instant>,
}

impl HeldExpiries {
    /// Begins to hold expiries, because the target is behind the source.
    pub fn begin(&mut self) {
        (self.is_holding, self.walk) = (true, None);
    }

    /// Discards all held expiries, because the target's keys are deleted.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Ends the holding, because the target has caught up. The keys get their own expiries by [`step`].
    pub fn caught_up(&mut self) {
        self.is_holding = false;
    }

    /// Returns whether further expiries are held.
    pub const fn is_holding(&self) -> bool {
        self.is_holding
    }

    /// Returns whether no key has a held expiry.
    pub const fn is_empty(&self) -> bool {
        self.own_ms.is_empty()
    }

    /// Returns the expiry to store for a key that expires at `own_ms`.
    pub fn hold(&mut self, own_ms: u64) -> u64 {
        // An own expiry that reads as a held one has to be restored too.
        let is_alike = self.number(own_ms, HELD_MAX).is_some() && (self.is_holding || !self.is_empty());
        let is_near = self.is_holding && own_ms <= now_ms().saturating_add(HELD_WITHIN_MS);
        if !(is_alike || is_near) || self.own_ms.len() == HELD_MAX {
            return own_ms;
        }
        self.own_ms.push(own_ms);
        HELD_FROM_MS + (self.own_ms.len() as u64 - 1) * STEP_MS
    }

    /// Returns the number in a held expiry below `count`.
    fn number(&self, at_ms: u64, count: usize) -> Option<usize> {
        let number = at_ms.checked_sub(HELD_FROM_MS)?.div_ceil(STEP_MS) as usize;
        (number < count).then_some(number)
    }

    /// Notes that a key was moved, so that a walk may miss it.
    pub fn moved(&mut self) {
        if let Some(walk) = &mut self.walk {
            walk.is_partial = true;
        }
    }

    /// Returns whether the next step of a walk is due.
    pub fn is_due(&self) -> bool {
        !self.is_holding && !self.is_empty() && self.walk_at.is_none_or(|at| Instant::now() >= at)
    }
}

/// Executes one step of the walk that gives held keys their own expiries. At the end of the import, `is_last` is true:
/// then no key stays held.
pub(super) fn step(
    pipe: &mut TargetPipe,
    databases: &[u32],
    is_last: bool,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), RequestError> {
    let walk = pipe.held.walk.get_or_insert_with(|| ExpiryWalk {
        databases: databases.to_vec(),
        cursor: 0,
        is_partial: false,
    });
    let Some((db, cursor)) = walk.databases.last().map(|db| (*db, walk.cursor)) else {
        let is_partial = walk.is_partial;
        pipe.held.walk = None;
        pipe.held.walk_at = Some(Instant::now() + WALK_EVERY);
        if !is_partial {
            pipe.held.clear();
        }
        return Ok(());
    };
    pipe.select(db, is_stopped)?;
    pipe.drain(is_stopped)?;
    let (next, keys) = scan(pipe, cursor, KEYS_MAX)?;
    for key in keys {
        let words: [&[u8]; 2] = [b"PEXPIRETIME", &key];
        let name = key.clone();
        pipe.put_words(Awaited::Expiry(name), &words);
        pipe.make_room(is_stopped)?;
    }
    pipe.drain(is_stopped)?;
    let (now, mut stays) = (now_ms(), false);
    for (key, at_ms) in std::mem::take(&mut pipe.ledger.expiries) {
        let held = &pipe.held;
        let Some(own_ms) = held.number(at_ms, held.own_ms.len()).map(|number| held.own_ms[number]) else { continue };
        if held.alike.get(&(db, key.clone())).is_some_and(|own_ms| own_ms.div_ceil(STEP_MS) == at_ms.div_ceil(STEP_MS))
        {
            continue;
        }
        if !is_last && own_ms <= now.saturating_add(NEAR_MS) {
            stays = true;
            continue;
        }
        if held.number(own_ms, HELD_MAX).is_some() {
            pipe.held.alike.insert((db, key.clone()), own_ms);
        }
        pipe.ledger.counts.expired += u64::from(own_ms <= now);
        pipe.put_words(Awaited::Own, &[b"PEXPIREAT", &key, own_ms.to_string().as_bytes()]);
        pipe.make_room(is_stopped)?;
    }
    pipe.drain(is_stopped)?;
    if let Some(walk) = &mut pipe.held.walk {
        walk.is_partial |= stays;
        walk.cursor = next;
        if next == 0 {
            walk.databases.pop();
        }
    }
    Ok(())
}

/// Gives all held keys their own expiries, because the import ends.
pub(super) fn finish(
    pipe: &mut TargetPipe,
    databases: &[u32],
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), RequestError> {
    pipe.held.caught_up();
    pipe.held.walk = None;
    while !pipe.held.is_empty() {
        step(pipe, databases, true, is_stopped)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_within_a_day_is_held_until_the_target_has_caught_up() {
        let mut held = HeldExpiries::default();
        assert_eq!(held.hold(1), 1, "nothing is held before the snapshot");
        held.begin();
        let soon = now_ms() + 5_000;
        let (first, second) = (held.hold(1), held.hold(soon));
        assert_eq!((first, second), (HELD_FROM_MS, HELD_FROM_MS + STEP_MS));
        assert_eq!(held.number(second, 2).map(|number| held.own_ms[number]), Some(soon));
        let late = now_ms() + 2 * HELD_WITHIN_MS;
        assert_eq!(held.hold(late), late);
        held.caught_up();
        assert_eq!(held.hold(soon), soon);
        assert!(held.is_due() && !held.is_empty());
    }

    #[test]
    fn own_expiry_that_reads_as_a_held_one_is_held_too() {
        let mut held = HeldExpiries::default();
        held.begin();
        let alike = HELD_FROM_MS + 77 * STEP_MS;
        let stored = held.hold(alike);
        assert_eq!(stored, HELD_FROM_MS);
        assert_eq!(held.number(stored, 1).map(|number| held.own_ms[number]), Some(alike));
    }
}
