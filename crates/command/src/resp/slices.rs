//! Requests on one key that take several visits: their progress, and the consistency of their reads.
//!
//! ```text
//!   more than a slice ──> a single-command transaction (`atomic`), which stores the words ──visit, visit ...──> reply
//!                           a change: the key is locked, so other clients see the whole change or nothing
//!                           a read:   if the value changes between visits, the read restarts; after several restarts,
//!                                     the key is locked
//! ```
//!
//! Invariants: the cost of a visit depends only on the visit's own work. Words that were processed are never parsed
//! again ([`words_left`]), and a walk over a value continues from the position at which the previous visit ended. No
//! visit does more work than one slice, whatever a client requests.

use super::catalog;
use super::error::ErrorReply;
use super::typed::{KeyParts, record};
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::own_transaction;
use crate::resp::pairs::Pairs;
use crate::resp::session::{LockWish, SessionState};
use crate::resp::state::string_work::StringWork;
use crate::resp::state::transaction::ANSWER_BYTES_MAX;
use crate::resp::state::transaction::Stage;
use crate::resp::state::walk::{MISSING, Reading, Walk};
use crate::resp::typed;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::OutBuffer;
use crate::visit::progress::SessionWait;
use protocol::resp::Args;
use record::{Record, bin_bytes_max};
use segment::{Guard, Key};

/// The number of bytes of fields above which a request takes several visits, and a slice is shortened.
pub(super) const BYTES_A_SLICE: usize = 256 << 10;
/// The maximum number of fields of a request that is executed in one visit.
pub(super) const FIELDS_A_SLICE: u32 = 64;
/// The number of fields that one edit of the value changes, if a request has too many fields for one visit. Each edit
/// may copy a part of the value.
const FIELDS_AN_EDIT: u32 = 16;
/// The cost of changing one field in such an edit, in operations.
const OPS_AN_EDITED_FIELD: usize = 3;
/// The cost of checking the lengths of [`FIELDS_A_SLICE`] fields, in operations.
pub(super) const OPS_PER_CHECK: usize = 8;
/// The number of bytes of a long value that are read between two checks of the slice.
pub(super) const STEP_BYTES: u64 = 64 << 10;
/// The cost of reading [`STEP_BYTES`] bytes, in operations.
pub(super) const STEP_OPS: usize = 16;
/// The number of times that a read starts over before its key is locked.
const RESTARTS_MAX: u32 = 4;

/// Removes and returns the state of an unfinished command on strings.
pub(super) fn take_work(call: &mut Call<'_, '_>) -> Option<StringWork> {
    call.session.walk.take()?.work
}

/// Retains the state of an unfinished command on strings until its next visit.
pub(super) fn retain_work(call: &mut Call<'_, '_>, work: StringWork) {
    call.session.walk = Some(Box::new(Walk { work: Some(work), ..Walk::default() }));
}

/// Returns the words of the request that are not processed yet.
pub(super) fn words_left<'c>(call: &Call<'c, '_>, args: Args<'c>) -> Args<'c> {
    call.args_after(args, call.session.done)
}

/// Records that the next `words` words of the request, which have `bytes` bytes, have been processed.
pub(super) fn words_done(call: &mut Call<'_, '_>, words: u32, bytes: usize) {
    let (_, before) = call.session.passed;
    call.session.done += words;
    call.session.passed = (call.session.done, before + bytes as u32);
}

/// The words of a command that changes fields of one value, divided into slices. One edit of the value changes the
/// fields of one slice.
pub(super) struct Slices<'c> {
    left: Args<'c>,
    /// The number of words of one field.
    field_words: u32,
    /// The number of words of a slice.
    slice_words: u32,
    /// The slice that the last call of [`Slices::next`] returned; `None` before the first call.
    given: Option<Args<'c>>,
}

impl<'c> Slices<'c> {
    /// Begins a visit for the command `name` with the arguments `all`. `words` are those arguments that describe
    /// fields, with `field_words` words for each field. If there are too many fields for one visit, the command becomes
    /// a single-command transaction, which locks the key. `stores` is true if the command may store the words.
    #[inline]
    pub(super) fn begin(
        call: &mut Call<'c, '_>,
        (name, all): (&'static str, Args<'c>),
        key: &[u8],
        (words, field_words): (Args<'c>, u32),
        stores: bool,
    ) -> Result<Self, Interrupt> {
        let is_long = words.len() as u32 > FIELDS_A_SLICE * field_words || words.wire_bytes() > BYTES_A_SLICE;
        if !call.collects_replies && is_long {
            return Err(run_locked(call, name, all, key));
        }
        let is_checked = call.collects_replies || words.wire_bytes() > call.ctx.request_bytes_max;
        if stores && is_checked && !call.session.fits {
            check_lengths(call, words, field_words)?;
        }
        if stores && call.session.done == 0 {
            typed::room_to_store(call, if call.collects_replies { words.wire_bytes() as u64 } else { 0 })?;
        }
        let left = if call.collects_replies { words_left(call, words) } else { words };
        let fields = if is_long { FIELDS_AN_EDIT } else { FIELDS_A_SLICE };
        Ok(Self { left, field_words, slice_words: fields * field_words, given: None })
    }

    /// Returns the next slice of the words, and true if this slice is the first one that changes the value. Records
    /// that the previous slice is done. Returns `None` after the last slice.
    ///
    /// # Errors
    /// [`SessionWait::Yield`] if this visit has used up its share of work. A later visit continues with the next slice.
    #[inline]
    pub(super) fn next(&mut self, call: &mut Call<'c, '_>) -> Result<Option<(Args<'c>, bool)>, Interrupt> {
        if let Some(done) = self.given.take() {
            let fields = done.len() / self.field_words as usize;
            if !call.collects_replies {
                // The cost of the first field is already included in the cost of the request.
                call.ops += OPS_AN_EDITED_FIELD * fields.saturating_sub(1);
                return Ok(None);
            }
            self.slice_done(call, done, fields)?;
        }
        if !call.collects_replies {
            // All fields are changed in this visit.
            self.given = Some(self.left);
            return Ok(Some((self.left, true)));
        }
        if self.left.len() == 0 {
            return Ok(None);
        }
        let (mut words, (mut slice, mut left)) = (self.slice_words, self.left.split(self.slice_words));
        while slice.wire_bytes() > BYTES_A_SLICE && words > self.field_words {
            words = (words / 2).next_multiple_of(self.field_words);
            (slice, left) = self.left.split(words);
        }
        (self.left, self.given) = (left, Some(slice));
        Ok(Some((slice, call.session.done == 0)))
    }

    /// Records that a slice is done, for a request that takes several visits. Returns [`SessionWait::Yield`] if this
    /// visit is used up and more slices follow.
    fn slice_done(&self, call: &mut Call<'_, '_>, done: Args<'_>, fields: usize) -> Run {
        words_done(call, done.len() as u32, done.wire_bytes());
        call.ops += OPS_AN_EDITED_FIELD * fields;
        if self.left.len() > 0 && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
        Ok(())
    }

    /// Resets the progress of the command, because the value that an earlier visit changed no longer exists. Returns
    /// the wait state after which the command starts over.
    pub(super) fn restart(call: &mut Call<'_, '_>) -> Interrupt {
        if call.collects_replies {
            call.session.end_request();
        }
        SessionWait::Yield.into()
    }
}

/// Checks the lengths of all fields before the first of them is stored. Returns an error if any of them is too long.
fn check_lengths<'c>(call: &mut Call<'c, '_>, words: Args<'c>, field_words: u32) -> Run {
    let most = call.guard.sizes().element_bytes_max();
    if words.wire_bytes() <= most {
        call.session.fits = true;
        return Ok(());
    }
    check_slices(call, words, field_words, |slice| {
        let is_too_long = match field_words {
            1 | 3 => slice.into_iter().any(|element| bin_bytes_max(element, b"") > most),
            _ => Pairs(slice).any(|(name, value)| bin_bytes_max(name, value) > most),
        };
        match (is_too_long, field_words) {
            (false, _) => Ok(()),
            (true, 2) => Err(ErrorReply::RecordTooLarge),
            (true, _) => Err(ErrorReply::ElementTooLong),
        }
    })
}

/// Checks all words before the first of them changes the value. Of a request that is too long for one visit, and has
/// not become a transaction yet, checks only the first words: the transaction checks all.
pub(super) fn check_words<'c>(
    call: &mut Call<'c, '_>,
    words: Args<'c>,
    check: impl Fn(&[u8]) -> Result<(), ErrorReply>,
) -> Run {
    match (call.collects_replies, call.session.fits) {
        (_, true) => Ok(()),
        (false, _) => Ok(words.into_iter().take(FIELDS_A_SLICE as usize).try_for_each(check)?),
        (true, _) => check_slices(call, words, 1, |slice| slice.into_iter().try_for_each(&check)),
    }
}

fn check_slices<'c>(
    call: &mut Call<'c, '_>,
    words: Args<'c>,
    field_words: u32,
    check: impl Fn(Args<'c>) -> Result<(), ErrorReply>,
) -> Run {
    let mut left = words_left(call, words);
    while left.len() > 0 {
        let (slice, behind) = left.split(field_words * FIELDS_A_SLICE);
        check(slice)?;
        words_done(call, slice.len() as u32, slice.wire_bytes());
        call.ops += OPS_PER_CHECK;
        left = behind;
        if left.len() > 0 && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    (call.session.done, call.session.passed, call.session.fits) = (0, (0, 0), true);
    Ok(())
}

/// Turns a command that changes one value into a single-command transaction, which locks the key and may take several
/// visits.
pub(super) fn run_locked<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, key: &[u8]) -> Interrupt {
    run_over(call, name, args, key, Stage::Obtaining)
}

/// Turns a command that reads one value into a single-command transaction, which may take several visits. The key is
/// not locked.
pub(super) fn run_reading<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, key: &[u8]) -> Interrupt {
    run_over(call, name, args, key, Stage::Running)
}

fn run_over<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, key: &[u8], stage: Stage) -> Interrupt {
    let entry = catalog::entry(name);
    let mut one = own_transaction::take_empty(call);
    one.key_locks.add(&call.key(key));
    if !one.set_single_request(entry, args, false) {
        own_transaction::recycle(one, call.ctx);
        return ErrorReply::ClientMemory.into();
    }
    one.stage = stage;
    own_transaction::begin(call, one);
    Interrupt::UnderWay
}

/// Calls `look` with the record at a key, or with `None` if the key does not exist. All visits of a request see the
/// same state of the record.
///
/// # Errors
/// If the record has changed since the previous visit. The request is then restarted.
pub(super) fn read_consistently<T>(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    reading: &mut Reading,
    look: impl FnOnce(&mut OutBuffer, Option<&Record<'_>>, u64) -> Result<T, Interrupt>,
) -> Result<T, Interrupt> {
    let (key, view) = (call.key(bytes), call.ctx.view());
    wait_for_lock(call, &key)?;
    let item = call.guard.items().get(&key);
    let parts = KeyParts::new(call.guard, key);
    let record = record(item.as_ref(), view, &parts)?;
    check_identity(call.session, call.guard, reading, record.as_ref().map(Record::identity))?;
    look(call.out, record.as_ref(), view.now_ms)
}

/// Parks the request while another client's key lock set has locked the key.
pub(super) fn wait_for_lock(call: &Call<'_, '_>, key: &Key<'_>) -> Run {
    if call.guard.locks().is_locked_by_other(key) { Err(SessionWait::Parked.into()) } else { Ok(()) }
}

/// Compares the identity of the value that a request reads with that of the previous visit. `None` is a missing value.
///
/// # Errors
/// If the value has changed. The request is then restarted.
pub(super) fn check_identity(
    session: &mut SessionState,
    guard: &Guard<'_>,
    reading: &mut Reading,
    identity: Option<(u64, u32, u64)>,
) -> Run {
    let identity = identity.unwrap_or(MISSING);
    if reading.identity.is_some_and(|before| before != identity) {
        return Err(restart(session, guard, reading));
    }
    reading.identity = Some(identity);
    Ok(())
}

/// Resets the progress of the request, because another client has changed the value. Returns the wait state after which
/// the request starts over. After several restarts, arranges for the request to lock the key.
pub(super) fn restart(session: &mut SessionState, guard: &Guard<'_>, reading: &mut Reading) -> Interrupt {
    session.end_request();
    reading.restarts += 1;
    reading.identity = None;
    let wants_lock = reading.restarts > RESTARTS_MAX && !guard.locks().is_attached();
    session.lock_wish = if wants_lock { LockWish::Keys } else { LockWish::None };
    SessionWait::Yield.into()
}

/// Ends a visit of a walk whose reply is collected in a buffer, after reserved space for the reply's header. If another
/// visit continues the walk, retains the walk and the collected part of the reply. If the request restarts or fails,
/// discards that part.
pub(super) fn end_visit(call: &mut Call<'_, '_>, walk: Box<Walk>, ran: Run) -> Run {
    ran.map_err(|stop| end_unfinished_visit(call, walk, stop))
}

/// Ends a visit, as [`end_visit`] does, that has not completed the walk for the reason `stop`. Returns the reason.
pub(super) fn end_unfinished_visit(call: &mut Call<'_, '_>, mut walk: Box<Walk>, mut stop: Interrupt) -> Interrupt {
    if matches!(stop, Interrupt::State(_)) && !walk.reserve(&call.ctx.shared.budget) {
        stop = ErrorReply::ClientMemory.into();
    }
    if !matches!(stop, Interrupt::State(_)) {
        if let Some(head) = walk.head {
            call.out.cut_to_head(head);
        }
        call.session.end_request();
        return stop;
    }
    if walk.reading.identity.is_none() {
        let reading = std::mem::take(&mut walk.reading);
        if let Some(head) = walk.head {
            call.out.cut_to_head(head);
        }
        walk = Box::new(Walk { reading, ..Walk::default() });
    }
    call.session.walk = Some(walk);
    // With `done` above 0, the caller does not discard the collected part of the reply.
    call.session.done = call.session.done.max(1);
    stop
}

/// Makes room in a collected reply for `bytes` more bytes. Returns false if it would be too long, or client memory is
/// used up. For a command that has changed something and must reply what it has.
pub(super) fn grow_reply(out: &mut OutBuffer, bytes: usize) -> bool {
    let want = bytes + LINE_ROOM;
    out.collected() + want <= ANSWER_BYTES_MAX && out.make_room(want + LINE_ROOM)
}

/// Returns an error unless the collected reply has room for `bytes` more bytes.
pub(super) fn collect_room(out: &OutBuffer, bytes: usize) -> Run {
    let want = bytes + LINE_ROOM;
    if out.collected() + want > ANSWER_BYTES_MAX {
        return Err(ErrorReply::AnswerTooLong.into());
    }
    if out.room() < want { Err(SessionWait::OutputFull { want }.into()) } else { Ok(()) }
}
