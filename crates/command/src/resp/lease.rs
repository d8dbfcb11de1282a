//! CAS tokens and leases for Redis clients. They are the same tokens and leases that memcached's meta commands use.
//!
//! ```text
//!   LEASE.GET k ──missing──> [null, won, t]              to one client, which stores a value by LEASE.SET k t value
//!                            [null, wait, t]             to other clients, until the value is stored
//!             ──stale, or expires soon (RECACHE)──> [value, won, t] to one client, [value, wait, t] to the others
//!             ──present──> [value, hit, t]
//! ```

use super::catalog::lower;
use super::error::ErrorReply;
use super::expire::{Deadline, Unit};
use super::value_reply::Identity;
use crate::context::WorkerContext;
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Run};
use crate::resp::string;
use crate::resp::typed;
use crate::resp::value_reply;
use crate::visit::progress::SessionWait;
use protocol::number::Decimal;
use protocol::resp::{Args, reply};
use segment::{Delete, DeleteOutcome, Expire, Fetch, Lease, Put, PutOutcome};

/// Returns the value of [`super::SessionState::sum`] from the moment when the current request wins a lease until its
/// reply is written. The token is that of the item when the request won. It is never 0.
fn won(ctx: &WorkerContext, token: u64) -> i64 {
    let token = if ctx.shared.config.cas { token } else { 0 };
    (token | 1 << 63) as i64
}

/// The maximum number of lookups of `CAS.GET` in one visit. A lookup is repeated if another client changes the value
/// meanwhile. After the last lookup, the request is parked.
const LOOKUPS_MAX: usize = 4;

/// The default duration of a lease, in ms.
const LEASE_MS: u64 = 10_000;

/// Executes `CAS.GET key`: replies with the value and its token.
pub(super) fn cas_get<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let bytes = args.next().unwrap_or_default();
    let (key, mark) = (call.key(bytes), call.out.mark());
    call.room(0)?;
    typed::is_there(call, &key)?;
    for _ in 0..LOOKUPS_MAX {
        let Some((token, identity)) = call.guard.versions().gets(&key)?.map(|item| (item.token, Identity::of(&item)))
        else {
            if value_reply::is_copying(call) {
                return Err(value_reply::copy_again(call));
            }
            call.count_read(false);
            reply::null_array(call.out, call.session.version);
            return Ok(());
        };
        if !value_reply::is_copying(call) {
            reply::array(call.out, 2);
        }
        match value_reply::reply_value(call, &key)? {
            Some(replied) if replied.identity == identity => {
                value_reply::push_rest(call, replied);
                call.count_read(true);
                put_token(call, token);
                return Ok(());
            }
            // Another client stored a new value meanwhile. The lookup is repeated, because the value and the token must
            // belong to the same item.
            Some(other) => {
                value_reply::take_back(call, Some(other), mark);
                if call.collects_replies {
                    return Err(SessionWait::Yield.into());
                }
            }
            // The item with this token no longer has a value.
            None => {
                call.count_read(false);
                put_token(call, token);
                return Ok(());
            }
        }
    }
    Err(SessionWait::Parked.into())
}

/// Executes `CAS.SET key token value [EX seconds | PX ms | EXAT s | PXAT ms]`: replies `OK`, or null if the token does
/// not match.
pub(super) fn cas_set<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    store(call, args, false, "cas.set")
}

/// Executes `LEASE.SET key token value [EX ...]`. Works like `CAS.SET`, except if the key was marked stale after the
/// lease was granted. In that case, the value is stored and marked stale.
pub(super) fn lease_set<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    store(call, args, true, "lease.set")
}

fn store<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>, invalidate: bool, name: &'static str) -> Run {
    let (bytes, token) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let value = args.next().unwrap_or_default();
    let token: u64 =
        std::str::from_utf8(token).ok().and_then(|text| text.parse().ok()).ok_or(ErrorReply::NotInteger)?;
    let expire = deadline(call, &mut args, name)?.unwrap_or(Expire::Never);
    if args.len() > 0 {
        return Err(ErrorReply::Syntax.into());
    }
    // In a store without tokens, no token matches.
    let compare = Some(if call.ctx.shared.config.cas { token } else { u64::MAX });
    typed::room_to_store(call, value.len() as u64)?;
    let key = call.key(bytes);
    typed::is_there(call, &key)?;
    let put = Put { compare, invalidate, expire, ..Put::set(value) };
    match call.guard.items_mut().put(&key, &put)? {
        PutOutcome::Stored { .. } => {
            string::note_store(call);
            call.ctx.note_length(call.session.namespace, bytes, value.len() as u64);
            string::publish_set(call, bytes, expire);
            call.out.push(reply::OK);
        }
        _ => call.null(),
    }
    Ok(())
}

/// Parses a deadline from the next two words, if there are more words.
fn deadline<'c>(call: &Call<'c, '_>, args: &mut Args<'c>, name: &'static str) -> Result<Option<Expire>, ErrorReply> {
    let Some(word) = args.next() else { return Ok(None) };
    let unit = Unit::of(&lower(word)).ok_or(ErrorReply::Syntax)?;
    Deadline::positive(args.next().ok_or(ErrorReply::Syntax)?, unit, call.moment(), name).map(|at| Some(at.expire()))
}

/// Executes `LEASE.GET key [RECACHE ms] [EX seconds | PX ms]`: replies with the value, the word `hit`, `won` or `wait`,
/// and the token. `EX` and `PX` set the duration of the lease, 10 s by default.
pub(super) fn lease_get<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let bytes = args.next().unwrap_or_default();
    let (mut recache_below_ms, mut vivify) = (None, None);
    while let Some(word) = args.next() {
        let number = args.next().ok_or(ErrorReply::Syntax)?;
        match &lower(word)[..] {
            b"recache" if recache_below_ms.is_none() => {
                let ms = u64::try_from(super::number::integer(number)?).map_err(|_| ErrorReply::NotInteger)?;
                recache_below_ms = Some(ms);
            }
            unit => {
                let unit = Unit::of(unit).filter(|_| vivify.is_none()).ok_or(ErrorReply::Syntax)?;
                vivify = Some(Deadline::positive(number, unit, call.moment(), "lease.get")?.expire());
            }
        }
    }
    let lasts = vivify.unwrap_or(Expire::At(call.ctx.now.plus_ms(LEASE_MS)));
    call.room(0)?;
    let fetch = Fetch { vivify: Some(lasts), recache_below_ms, want_token: true, ..Fetch::default() };
    let key = call.key(bytes);
    typed::is_there(call, &key)?;
    let Some(fetched) = call.guard.items_mut().fetch(&key, &fetch)? else { return Err(ErrorReply::OutOfMemory.into()) };
    let is_created = fetched.vivified;
    let (token, stale, identity) = (fetched.item.token, fetched.item.stale, Identity::of(&fetched.item));
    // The store grants a lease once. If the reply had no room and the request is executed again, the session still
    // holds the lease, unless the item has got another token: then another client may hold that of the new item.
    let won = won(call.ctx, token);
    let lease = match fetched.lease {
        Lease::AlreadyWon if call.session.sum == won => Lease::Won,
        lease => lease,
    };
    call.session.sum = if lease == Lease::Won { won } else { 0 };
    // While a client fills a value, the key has an empty placeholder, which is not sent as a value.
    let awaited = lease != Lease::None && !stale && fetched.item.value.client_bytes() == 0;
    let mark = call.out.mark();
    if awaited && value_reply::is_copying(call) {
        return Err(value_reply::copy_again(call));
    }
    if !value_reply::is_copying(call) {
        reply::array(call.out, 3);
    }
    if awaited {
        call.null();
    } else {
        let replied = value_reply::reply_value(call, &key)?;
        if replied.as_ref().map_or(lease == Lease::AlreadyWon, |replied| replied.identity != identity) {
            // Another value was stored meanwhile. Value, state and token must belong to the same item.
            value_reply::take_back(call, replied, mark);
            return Err(SessionWait::Parked.into());
        }
        if let Some(replied) = replied {
            value_reply::push_rest(call, replied);
        }
    }
    call.count_read(!awaited);
    if is_created {
        call.changed(KeyEvent::NEW, bytes);
        call.invalidate(bytes);
    }
    let state: &[u8] = match lease {
        Lease::None => b"hit",
        Lease::Won => b"won",
        Lease::AlreadyWon => b"wait",
    };
    reply::bulk(call.out, state);
    put_token(call, token);
    Ok(())
}

/// Executes `LEASE.STALE key [EX seconds | PX ms]`: marks the value stale. The value remains readable, and the next
/// `LEASE.GET` wins the lease to refill it.
pub(super) fn lease_stale<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let bytes = args.next().unwrap_or_default();
    let expire = deadline(call, &mut args, "lease.stale")?;
    let key = call.key(bytes);
    typed::is_there(call, &key)?;
    let marked = call.guard.items_mut().delete(&key, &Delete { mark_stale: true, expire, ..Delete::default() })?;
    if marked == DeleteOutcome::Deleted && expire.is_some() {
        call.changed(KeyEvent::EXPIRE, bytes);
    }
    call.int((marked == DeleteOutcome::Deleted).into());
    Ok(())
}

/// Writes a token as text. A token has 64 bits, one more than a positive integer of the protocol.
fn put_token(call: &mut Call<'_, '_>, token: u64) {
    let token = call.ctx.client_token(token);
    reply::bulk(call.out, Decimal::new(token).as_slice());
}
