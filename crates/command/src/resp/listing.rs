//! Lists that take several visits. The list is collected outside the output buffer, a bounded part in each visit.

use super::error::Fault;
use crate::memory::budget::{self, Grant};
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::state::listing::HEAD_BYTES;
use crate::resp::state::listing::Listing;
use crate::visit::progress::{OPS_A_BATCH, State};
use protocol::resp::reply;
use protocol::sink::{Fixed, Sink};

/// The number of bytes of one number in a set of numbers.
const BYTES_AN_ID: usize = 24;

/// The maximum number of entries of a list that one visit examines: about 100 us.
pub(super) const LISTING_WORK: usize = 512;

/// Returns the list of the current request, or an empty list in its first visit.
pub(super) fn listing(call: &mut Call<'_, '_>) -> Box<Listing> {
    call.session.listing.take().unwrap_or_default()
}

/// Continues the list in another visit.
pub(super) fn list_later(call: &mut Call<'_, '_>, listing: Box<Listing>) -> Run {
    keep_listing(call, listing)?;
    call.session.done = call.session.done.max(1);
    call.ops = OPS_A_BATCH;
    call.ctx.note_work(2 * LISTING_WORK);
    Err(State::Yield.into())
}

/// Retains the list for the next visit, if client memory allows it.
pub(super) fn keep_listing(call: &mut Call<'_, '_>, mut listing: Box<Listing>) -> Result<(), Fault> {
    let bytes = listing.text.capacity() + listing.ids.len() * BYTES_AN_ID;
    let none = || Grant::none(&call.ctx.shared.budget, budget::Kind::Replies);
    if !listing.grant.get_or_insert_with(none).resize(bytes as u64) {
        return Err(Fault::ClientMemory);
    }
    call.session.listing = Some(listing);
    Ok(())
}

/// Replies with the list as an array of bulk strings.
pub(super) fn say_list(call: &mut Call<'_, '_>, mut listing: Listing) -> Run {
    // From here on its bytes count among the replies.
    listing.grant = None;
    let mut head = Fixed::<HEAD_BYTES>::new();
    reply::array(&mut head, listing.count);
    say_behind(call, head.as_slice(), listing.text)
}

/// Replies with the list as text.
pub(super) fn say_list_text(call: &mut Call<'_, '_>, mut listing: Listing) -> Run {
    listing.grant = None;
    let mut head = Fixed::<HEAD_BYTES>::new();
    reply::text_head(&mut head, call.session.version, b"txt", listing.len() as u64);
    listing.text.put(b"\r\n");
    say_behind(call, head.as_slice(), listing.text)
}

fn say_behind(call: &mut Call<'_, '_>, head: &[u8], mut text: Vec<u8>) -> Run {
    let from = HEAD_BYTES - head.len();
    text[from..HEAD_BYTES].copy_from_slice(head);
    aside::say_long_from(call, text, from)
}
