//! Replies of commands that first collect elements in client memory, in an order, and then reply with them.

use super::call::{Call, Interrupt, Run};
use super::collection;
use super::error::ErrorReply;
use super::slices;
use super::sources;
use super::state::walk::Walk;
use super::stored::Find;
use super::typed;
use crate::visit::progress::SessionWait;
use protocol::resp::Args;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::Fixed;

/// The maximum length of a reply of one visit in bytes, and of the results that one step appends, except the last.
pub(super) const STEP_BYTES: usize = 16 << 10;

/// Replies with an array of the results that `find` appends to its last argument as replies, and counts in
/// `walk.wanted`. If `is_long`, or if the reply is, the command takes several visits, with `key` locked, which is the
/// first of `args`.
pub(super) fn reply<'c>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    (key, is_long): (&[u8], bool),
    find: &mut Find<'_>,
) -> Run {
    if call.collects_replies {
        let mut walk = call.session.walk.take().unwrap_or_default();
        let ran = reply_over_visits(call, args, &mut walk, find);
        return slices::end_visit(call, walk, ran);
    }
    let (mut walk, mut found, mut is_last) = (Walk::default(), Vec::new(), false);
    while !is_long && !is_last && found.len() <= STEP_BYTES {
        is_last = find(call, &mut walk, &mut found)?;
    }
    if !is_last {
        return Err(collection::take_visits(call, name, args, key));
    }
    match typed::answer_fits(call, found.len()) {
        Err(Interrupt::Fault(ErrorReply::AnswerTooLong)) => Err(collection::take_visits(call, name, args, key)),
        ran => ran.map(|()| {
            reply::array(call.out, walk.wanted);
            call.out.push(&found);
        }),
    }
}

fn reply_over_visits(call: &mut Call<'_, '_>, args: Args<'_>, walk: &mut Walk, find: &mut Find<'_>) -> Run {
    let (keys, _) = args.split(1);
    sources::begin(call, &mut walk.reading, keys)?;
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    loop {
        // An earlier visit may have had no room for these.
        put_found(call, walk)?;
        let mut found = std::mem::take(&mut walk.found);
        let is_last = find(call, walk, &mut found);
        walk.found = found;
        let is_last = is_last?;
        put_found(call, walk)?;
        if is_last {
            sources::check(call, &mut walk.reading, keys)?;
            break;
        }
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    reply::array(&mut line, walk.wanted);
    call.out.fill_head(head, line.as_slice());
    Ok(())
}

/// Moves the found results to the output.
fn put_found(call: &mut Call<'_, '_>, walk: &mut Walk) -> Run {
    if !walk.found.is_empty() {
        slices::collect_room(call.out, walk.found.len())?;
        call.out.push(&walk.found);
        walk.found.clear();
    }
    Ok(())
}
