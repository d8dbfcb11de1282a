//! Functions for commands that reply with a long list. The list is collected outside the output buffer, over several
//! visits. Each visit adds a bounded number of entries.

use super::error::ErrorReply;
use crate::memory::budget::{self, Grant};
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::state::listing::HEAD_BYTES;
use crate::resp::state::listing::Listing;
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use protocol::resp::reply;
use protocol::sink::{Fixed, Sink};

/// The memory that the number of one client takes in [`Listing::ids`], in bytes.
const BYTES_AN_ID: usize = 24;

/// The maximum number of entries of a list that one visit examines, which takes about 100 us.
pub(super) const LISTING_WORK: usize = 512;

/// Returns the list that the request's earlier visits have collected. Returns an empty list in the first visit.
pub(super) fn listing(call: &mut Call<'_, '_>) -> Box<Listing> {
    call.session.listing.take().unwrap_or_default()
}

/// Ends this visit, and retains the list so that the next visit continues it.
pub(super) fn continue_later(call: &mut Call<'_, '_>, listing: Box<Listing>) -> Run {
    retain_listing(call, listing)?;
    call.session.done = call.session.done.max(1);
    call.ops = OPS_A_BATCH;
    call.ctx.note_work(2 * LISTING_WORK);
    Err(SessionWait::Yield.into())
}

/// Retains the list for the next visit, if client memory allows it.
pub(super) fn retain_listing(call: &mut Call<'_, '_>, mut listing: Box<Listing>) -> Result<(), ErrorReply> {
    let bytes = listing.text.capacity() + listing.ids.len() * BYTES_AN_ID;
    let none = || Grant::none(&call.ctx.shared.budget, budget::MemoryUse::Replies);
    if !listing.grant.get_or_insert_with(none).resize(bytes as u64) {
        return Err(ErrorReply::ClientMemory);
    }
    call.session.listing = Some(listing);
    Ok(())
}

/// Replies with the list as an array of bulk strings.
pub(super) fn reply_list(call: &mut Call<'_, '_>, mut listing: Listing) -> Run {
    // From here on, the long reply accounts for the client memory of these bytes.
    listing.grant = None;
    let mut head = Fixed::<HEAD_BYTES>::new();
    reply::array(&mut head, listing.count);
    reply_after_head(call, head.as_slice(), listing.text)
}

/// Replies with the list as text.
pub(super) fn reply_list_text(call: &mut Call<'_, '_>, mut listing: Listing) -> Run {
    listing.grant = None;
    let mut head = Fixed::<HEAD_BYTES>::new();
    reply::text_head(&mut head, call.session.version, b"txt", listing.len() as u64);
    listing.text.put(b"\r\n");
    reply_after_head(call, head.as_slice(), listing.text)
}

fn reply_after_head(call: &mut Call<'_, '_>, head: &[u8], mut text: Vec<u8>) -> Run {
    let from = HEAD_BYTES - head.len();
    text[from..HEAD_BYTES].copy_from_slice(head);
    aside::send_long_reply_from(call, text, from)
}
