//! Commands that store elements under a key, in place of its value. They find the elements in other keys.
//!
//! ```text
//!   find ──> collected elements ──> some at a time into the destination, while more are found
//!            (client memory)        after the last is found, if the destination is one of the sources
//! ```
//!
//! A command that loses a source or the stored part of its result between two visits starts over ([`super::sources`]).

use super::collection::{self, Effect};
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::{CommandSpec, STORED};
use crate::resp::error::ErrorReply;
use crate::resp::sources;
use crate::resp::state::walk::Walk;
use crate::resp::typed::{self, Edited};
use crate::visit::progress::SessionWait;
use protocol::resp::Args;
use record::{Collection, Damaged, ListEdit, ListEnd, Lists, Name, SetEdit, SortedSetEdit, SortedSets, TextSets};

/// The number of elements that one change stores.
pub(super) const STORED_A_STEP: u64 = 64;
/// The number of stored elements that cost one operation.
const STORED_AN_OP: usize = 4;
/// The room in bytes that a result needs for each of its elements, if their length is not known.
const ELEMENT_BYTES: u64 = 32;
/// The length in bytes of the score and of the length before each collected element.
const SCORE_BYTES: usize = 8;
const LEN_BYTES: usize = 4;

/// A type of collection that elements are stored in.
pub(super) trait Storable: Collection {
    /// Adds an element, which is not there yet unless the collection is a list.
    fn add(edit: &mut Self::Edit<'_>, score: f64, text: &[u8]) -> Result<(), Damaged>;

    /// Returns the number of elements.
    fn count(edit: &Self::Edit<'_>) -> u64;
}

impl Storable for TextSets {
    fn add(edit: &mut SetEdit<'_>, _: f64, text: &[u8]) -> Result<(), Damaged> {
        edit.add(&Name::new(text)).map(drop)
    }

    fn count(edit: &SetEdit<'_>) -> u64 {
        edit.len()
    }
}

impl Storable for SortedSets {
    fn add(edit: &mut SortedSetEdit<'_>, score: f64, text: &[u8]) -> Result<(), Damaged> {
        edit.set(text, None, score)
    }

    fn count(edit: &SortedSetEdit<'_>) -> u64 {
        edit.len()
    }
}

impl Storable for Lists {
    fn add(edit: &mut ListEdit<'_>, _: f64, text: &[u8]) -> Result<(), Damaged> {
        edit.push(ListEnd::Right, text)
    }

    fn count(edit: &ListEdit<'_>) -> u64 {
        edit.len()
    }
}

/// Appends an element to those that are collected.
pub(super) fn collect(found: &mut Vec<u8>, score: f64, text: &[u8]) {
    found.extend_from_slice(&score.to_bits().to_le_bytes());
    found.extend_from_slice(&(text.len() as u32).to_le_bytes());
    found.extend_from_slice(text);
}

/// Removes and returns the first of the collected elements in `found`.
fn next_collected<'f>(found: &mut &'f [u8]) -> Option<(f64, &'f [u8])> {
    let (score, behind) = found.split_first_chunk::<SCORE_BYTES>()?;
    let (len, behind) = behind.split_first_chunk::<LEN_BYTES>()?;
    let (text, behind) = behind.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *found = behind;
    Some((f64::from_bits(u64::from_le_bytes(*score)), text))
}

/// The place where elements are stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destination<'c> {
    pub(super) key: &'c [u8],
    /// The keys in which elements are found.
    pub(super) sources: Args<'c>,
    /// True if no element is found in the destination, so that it may change before all are found.
    pub(super) is_apart: bool,
    /// The event of a result that is not empty.
    pub(super) event: KeyEvent,
}

/// Returns the key in which an earlier visit of the request began to store a result that is complete.
pub(super) fn continued<'c>(call: &Call<'c, '_>, entry: &CommandSpec, args: Args<'c>) -> Option<&'c [u8]> {
    let is_complete = call.session.walk.as_ref().is_some_and(|walk| walk.ended.is_some());
    let mut keys = entry.keys_of(args).filter(|_| is_complete);
    if entry.keys.1 == STORED { keys.nth(1) } else { keys.next() }
}

/// Finds more elements from the position of the walk on, and appends them with [`collect`]. Returns true after the last
/// element.
pub(super) type Find<'f> = dyn FnMut(&mut Call<'_, '_>, &mut Walk, &mut Vec<u8>) -> Result<bool, Interrupt> + 'f;

/// Stores the elements that `find` returns, at most `most` of them, and replies with their number. If `is_long`, the
/// command takes several visits. The keys are locked, unless there are more than [`super::atomic::KEYS_AS_ONE_MAX`].
pub(super) fn store<C: Storable>(
    call: &mut Call<'_, '_>,
    to: Destination<'_>,
    (most, is_long): (u64, bool),
    find: &mut Find<'_>,
) -> Run {
    if call.session.walk.is_none() {
        if !call.collects_replies && is_long {
            return Err(SessionWait::Yield.into());
        }
        typed::room_to_store(call, most.saturating_mul(ELEMENT_BYTES))?;
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let mut ran = match sources::begin(call, &mut walk.reading, to.sources) {
        Ok(()) => store_over_visits::<C>(call, to, find, &mut walk),
        stop => stop,
    };
    if walk.reading.is_new() {
        // The next visit starts over. What is stored is replaced or removed.
        let has_part = walk.has_part || walk.keys > 0;
        walk = Box::new(Walk { reading: walk.reading, has_part, ..Walk::default() });
    }
    if let Err(fault) = &ran
        && walk.keys > 0
        && typed::waits_for_room(call, fault, &mut walk.full_since)
    {
        ran = Err(SessionWait::Yield.into());
    }
    if matches!(ran, Err(Interrupt::State(_))) && !walk.reserve(&call.ctx.shared.budget) {
        ran = Err(ErrorReply::ClientMemory.into());
    }
    if let Err(Interrupt::Fault(_)) = ran
        && (walk.keys > 0 || walk.has_part)
    {
        match collection::remove(call, to.key) {
            // The next visit finds the same fault and tries again to remove the part of the result.
            Err(state @ Interrupt::State(_)) => ran = Err(state),
            removed => {
                let effect = Effect { is_changed: false, is_removed: removed? };
                collection::notify(call, to.key, to.event, effect);
            }
        }
    }
    if matches!(ran, Err(Interrupt::State(_))) {
        call.session.walk = Some(walk);
        call.session.done = call.session.done.max(1);
        return ran;
    }
    if ran.is_err() {
        call.session.end_request();
        return ran;
    }
    let is_removed = walk.keys == 0 && collection::remove(call, to.key)?;
    collection::notify(call, to.key, to.event, Effect { is_changed: walk.keys > 0, is_removed });
    call.int(walk.keys as i64);
    Ok(())
}

/// Collects elements in `walk.found`, and stores them. `walk.keys` elements are stored, and `walk.examined` bytes of
/// those found are. `walk.ended` is set when all are found.
fn store_over_visits<C: Storable>(
    call: &mut Call<'_, '_>,
    to: Destination<'_>,
    find: &mut Find<'_>,
    walk: &mut Walk,
) -> Run {
    loop {
        // Elements that wait for room are stored before more are found, so that they do not accumulate.
        if walk.ended.is_none() && !(to.is_apart && walk.examined < walk.found.len()) {
            let mut found = std::mem::take(&mut walk.found);
            let ended = find(call, walk, &mut found);
            walk.found = found;
            if ended? {
                sources::check(call, &mut walk.reading, to.sources)?;
                walk.ended = Some(0);
            }
        }
        if (to.is_apart || walk.ended.is_some()) && walk.examined < walk.found.len() {
            let left = &walk.found[walk.examined..];
            let Some((count, stored_bytes)) = store_some::<C>(call, to.key, left, walk.keys == 0)? else {
                return Err(sources::start_over(call, &mut walk.reading));
            };
            walk.keys = count;
            walk.examined += stored_bytes;
            call.ops += STORED_A_STEP as usize / STORED_AN_OP;
        }
        if walk.examined == walk.found.len() {
            walk.found.clear();
            walk.examined = 0;
            if walk.ended.is_some() {
                return Ok(());
            }
        }
        if call.collects_replies && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
}

/// Stores some collected elements, in place of the key's value if they are the first. Returns the number of elements of
/// the destination, and of the bytes that were stored. Returns `None` if the elements that were stored before are lost.
fn store_some<C: Storable>(
    call: &mut Call<'_, '_>,
    to: &[u8],
    found: &[u8],
    is_first: bool,
) -> Result<Option<(u64, usize)>, Interrupt> {
    let stored = collection::change_from::<C, _>(call, to, is_first, &mut |old, edit| {
        if old.is_none() && !is_first {
            return Ok(Edited::Keep(None));
        }
        let mut left = found;
        for _ in 0..STORED_A_STEP {
            let Some((score, text)) = next_collected(&mut left) else { break };
            C::add(edit, score, text)?;
        }
        Ok(Edited::Store(Some((C::count(edit), found.len() - left.len()))))
    })?;
    Ok(stored.0)
}
