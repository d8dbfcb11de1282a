//! `DIGEST`, and conditions on the present value of a key: `IFEQ`, `IFNE`, `IFDEQ` and `IFDNE` of `SET` and `DELEX`.
//! The digest of a value is its XXH3 with 64 bits, as 16 hexadecimal digits.

use super::catalog::lower;
use super::error::ErrorReply;
use super::typed::{live, string};
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::slices::{self, STEP_BYTES, STEP_OPS};
use crate::resp::state::string_work::StringWork;
use crate::resp::state::walk::{MISSING, Walk};
use crate::resp::value_reply::Identity;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, reply};
use segment::{Guard, Item, Key, Value};

/// The number of hexadecimal digits of a digest.
const DIGITS: usize = 16;
/// The maximum number of bytes that a command reads in its first visit.
const FIRST_BYTES_MAX: u64 = 4 * STEP_BYTES;

/// A condition on the present value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueCondition<'c> {
    wanted: &'c [u8],
    /// True if `wanted` is a digest, and false if it is a value.
    is_digest: bool,
    /// True if the value must differ from the wanted one.
    is_negated: bool,
}

/// The digest of an item's value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digest {
    value: u64,
    /// The identity of the item's value.
    identity: Identity,
}

impl<'c> ValueCondition<'c> {
    /// Returns the condition `option wanted`. Returns `None` if there is no such option.
    pub(super) fn of(option: &[u8], wanted: &'c [u8]) -> Option<Self> {
        let (is_digest, is_negated) = match &lower(option)[..] {
            b"ifeq" => (false, false),
            b"ifne" => (false, true),
            b"ifdeq" => (true, false),
            b"ifdne" => (true, true),
            _ => return None,
        };
        Some(Self { wanted, is_digest, is_negated })
    }

    /// Returns the digest of the key's value, if the condition needs it. `request` is the name of the command and its
    /// arguments, with which the command continues if the value is long.
    pub(super) fn digest<'a>(
        &self,
        call: &mut Call<'a, '_>,
        request: Option<(&'static str, Args<'a>)>,
        bytes: &[u8],
    ) -> Result<Option<Digest>, Interrupt> {
        if self.is_digest { digest_of(call, request.map(|of| (of, true)), bytes) } else { Ok(None) }
    }

    /// Returns true if the condition holds for the value of `item`. `digest` is the result of [`Self::digest`].
    ///
    /// # Errors
    /// If the value is no string, or the wanted digest is invalid. Also if the item has changed since its digest was
    /// computed: the request then starts over.
    pub(super) fn holds(
        &self,
        guard: &Guard<'_>,
        key: &Key<'_>,
        item: Option<&Item<'_>>,
        digest: Option<Digest>,
    ) -> Result<bool, Interrupt> {
        let Some(item) = string(item)? else { return Ok(self.is_negated) };
        if !self.is_digest {
            return Ok(equals(guard, key, item.value, self.wanted) != self.is_negated);
        }
        if self.wanted.len() != DIGITS {
            return Err(ErrorReply::Digest.into());
        }
        let digest = digest.filter(|digest| digest.identity == Identity::of(item)).ok_or(SessionWait::Parked)?;
        Ok(digest.digits().eq_ignore_ascii_case(self.wanted) != self.is_negated)
    }
}

impl Digest {
    fn digits(self) -> [u8; DIGITS] {
        std::array::from_fn(|at| b"0123456789abcdef"[(self.value >> (60 - 4 * at)) as usize & 15])
    }
}

/// Returns true if the value of `key`, as a client reads it, equals `bytes`.
fn equals(guard: &Guard<'_>, key: &Key<'_>, value: Value<'_>, mut bytes: &[u8]) -> bool {
    if value.client_bytes() != bytes.len() as u64 || matches!(value, Value::Typed { .. }) {
        return false;
    }
    let mut same = true;
    let whole = guard.pieces().copy_range(key, value, 0..bytes.len() as u64, &mut |part| {
        let (here, behind) = bytes.split_at(part.len());
        same &= here == part;
        bytes = behind;
    });
    whole && same
}

/// Executes `DIGEST key`.
pub(super) fn digest<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let key = args.into_iter().next().unwrap_or_default();
    let digest = digest_of(call, Some((("digest", args), false)), key)?;
    call.count_read(digest.is_some());
    match digest {
        Some(digest) => reply::bulk(call.out, &digest.digits()),
        None => call.null(),
    }
    Ok(())
}

/// A request that continues as a transaction if it takes several visits: its name and arguments, and true if the
/// transaction locks the key.
type Request<'c> = ((&'static str, Args<'c>), bool);

/// Returns the digest of the string at a key, or `None` if the key does not exist. A long value is read over several
/// visits.
fn digest_of<'c>(
    call: &mut Call<'c, '_>,
    request: Option<Request<'c>>,
    bytes: &[u8],
) -> Result<Option<Digest>, Interrupt> {
    let mut walk = call.session.walk.take().unwrap_or_default();
    let read = read_on(call, request, bytes, &mut walk);
    if let Err(Interrupt::State(_)) = read {
        call.session.walk = Some(walk);
    }
    read
}

fn read_on<'c>(
    call: &mut Call<'c, '_>,
    request: Option<Request<'c>>,
    bytes: &[u8],
    walk: &mut Walk,
) -> Result<Option<Digest>, Interrupt> {
    let key = call.key(bytes);
    if call.guard.locks().is_locked_by_other(&key) {
        return Err(SessionWait::Parked.into());
    }
    let item = live(call.guard.items().get(&key), call.ctx.view());
    string(item.as_ref())?;
    let identity = item.as_ref().map(|item| (item.token, 1, item.value_len()));
    if walk.reading.identity.is_some_and(|before| before != identity.unwrap_or(MISSING)) {
        let restart = match request {
            Some(_) => slices::restart(call.session, call.guard, &mut walk.reading),
            None => SessionWait::Yield.into(),
        };
        *walk = Walk { reading: std::mem::take(&mut walk.reading), ..Walk::default() };
        walk.reading.identity = None;
        return Err(restart);
    }
    let Some(item) = item else { return Ok(None) };
    let len = item.value_len();
    if let Some(((name, args), locks)) = request
        && !call.collects_replies
        && len > FIRST_BYTES_MAX
    {
        return Err(if locks {
            slices::run_locked(call, name, args, bytes)
        } else {
            slices::run_reading(call, name, args, bytes)
        });
    }
    walk.reading.identity = identity;
    let mut hash = match walk.work.take() {
        Some(StringWork::Digest(hash)) => hash,
        _ => Box::default(),
    };
    let mut at = walk.cursor;
    while at < len {
        let end = len.min(at + STEP_BYTES);
        if !call.guard.pieces().copy_range(&key, item.value, at..end, &mut |part| hash.update(part)) {
            // A piece of the value is lost, so the key counts as missing.
            return Ok(None);
        }
        call.ops += STEP_OPS * (end - at) as usize / STEP_BYTES as usize;
        (at, walk.cursor) = (end, end);
        if at < len && call.is_slice_used() {
            walk.work = Some(StringWork::Digest(hash));
            return Err(SessionWait::Yield.into());
        }
    }
    Ok(Some(Digest { value: hash.digest(), identity: Identity::of(&item) }))
}
