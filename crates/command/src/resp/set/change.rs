//! Commands that change one set, or move an element from one set to another.

use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::words;
use crate::resp::collection::{self, Effect};
use crate::resp::slices::Slices;
use crate::resp::typed::Edited;
use protocol::resp::Args;
use record::{Name, TextSets};

pub(in crate::resp) fn sadd<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key] = words(args);
    let mut slices = Slices::begin(call, ("sadd", args), key, (args.after_first(), 1), true)?;
    while let Some((elements, is_first)) = slices.next(call)? {
        let added = collection::change_and_notify::<TextSets, _>(call, key, KeyEvent::SADD, &mut |old, set| {
            if old.is_none() && !is_first {
                return Ok(Edited::Keep(None));
            }
            let mut added = 0;
            for element in elements {
                added += i64::from(set.add(&Name::new(element))?);
            }
            Ok(if added > 0 { Edited::Store(Some(added)) } else { Edited::Keep(Some(0)) })
        })?;
        // The set was removed after an earlier visit of this command added elements. The command restarts.
        let Some(added) = added else { return Err(Slices::restart(call)) };
        call.session.sum += added;
    }
    call.int(call.session.sum);
    Ok(())
}

pub(in crate::resp) fn srem<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key] = words(args);
    let mut slices = Slices::begin(call, ("srem", args), key, (args.after_first(), 1), false)?;
    while let Some((elements, _)) = slices.next(call)? {
        call.session.sum += collection::change_and_notify::<TextSets, _>(call, key, KeyEvent::SREM, &mut |_, set| {
            let mut removed = 0;
            for element in elements {
                removed += i64::from(set.remove(&Name::new(element))?);
            }
            Ok(if removed > 0 { Edited::Store(removed) } else { Edited::Keep(0) })
        })?;
    }
    call.int(call.session.sum);
    Ok(())
}

/// The state of a move after the element was added, in [`crate::resp::session::SessionState::done`].
const ADDED: u32 = 1;

/// Moves an element from one set to another. The keys are locked, so the two changes are one to other clients.
pub(in crate::resp) fn smove<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [from, to, element] = words(args);
    let name = Name::new(element);
    let is_there =
        collection::look::<TextSets, _>(call, from, |_, set| Ok(set.map(|set| set.contains(&name)).transpose()?))?;
    if is_there.is_some() {
        collection::look::<TextSets, _>(call, to, |_, _| Ok(()))?;
    }
    if is_there != Some(true) || from == to {
        call.int((is_there == Some(true)).into());
        return Ok(());
    }
    if call.session.done < ADDED {
        // The other set shrinks by as much, so a full store executes the move as it executes removals.
        let (is_new, _) = collection::change_sparing::<TextSets, _>(call, to, &mut |_, set| {
            let is_new = set.add(&name)?;
            Ok(if is_new { Edited::Store(true) } else { Edited::Keep(false) })
        })?;
        call.session.sum = is_new.into();
        call.session.done = ADDED;
    }
    let (_, removed) = collection::change::<TextSets, _>(call, from, &mut |_, set| {
        let is_removed = set.remove(&name)?;
        Ok(if is_removed { Edited::Store(()) } else { Edited::Keep(()) })
    })?;
    collection::notify(call, from, KeyEvent::SREM, removed);
    let added = Effect { is_changed: call.session.sum == 1, is_removed: false };
    collection::notify(call, to, KeyEvent::SADD, added);
    call.int(1);
    Ok(())
}
