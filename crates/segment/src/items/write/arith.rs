//! Arithmetic: incr and decr.

use crate::core::facets::Numbers;
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, find_locked, live};
use crate::core::op::{Arith, ArithOutcome, Expire, OpError};
use crate::core::snap::Snap;
use crate::items::unpublished::{Content, Plan};
use crate::items::write::put::Expect;
use crate::items::write::replace::AddOutcome;
use crate::items::write::rewrite::{Rewrite, TokenRule, written_expire};
use crate::items::write::store_number;
use crate::layout::item::{CAS_FIELD, CAS_TAKEN, ItemKind, NUM};
use crate::layout::key::Key;

/// The maximum length of a text that is parsed as a number, in bytes: the number of digits of 2^64 - 1.
const NUMBER_TEXT_MAX: usize = 20;

/// Parses an unsigned decimal number of 64 bits, which spaces may follow.
fn parse_number(text: &[u8]) -> Option<u64> {
    if text.len() > NUMBER_TEXT_MAX {
        return None;
    }
    let digits = text.trim_ascii_end();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|d| *d <= 9)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn apply(arith: &Arith, number: u64) -> u64 {
    if arith.decrement { number.saturating_sub(arith.delta) } else { number.wrapping_add(arith.delta) }
}

impl Numbers<'_, '_> {
    /// Adds to a number, or subtracts from it.
    ///
    /// # Errors
    /// [`OpError::Parked`]: nothing was changed, and the caller tries again in a later iteration.
    pub fn arith(self, key: &Key<'_>, arith: &Arith) -> Result<ArithOutcome, OpError> {
        // The reply has to report the expiry after the namespace's rules were applied.
        let ruled = |expire| self.guard.store.spaces.expire(key.namespace, expire, self.guard.now);
        let (expire, vivify) = (arith.expire.map(ruled), arith.vivify.map(|(number, expire)| (number, ruled(expire))));
        let arith = Arith { expire, vivify, ..*arith };
        self.guard.commits().retry(|guard| try_arith(guard, key, &arith))
    }
}

fn try_arith(guard: &mut Guard<'_>, key: &Key<'_>, arith: &Arith) -> Result<Option<ArithOutcome>, OpError> {
    let Some((seen, snap)) = guard.items().snap(key)? else { return vivify_number(guard, key, arith) };
    if arith.compare.is_some_and(|compare| compare != snap.token) {
        return Ok(Some(ArithOutcome::Exists));
    }
    let number = if seen.layout.has(NUM) {
        Some(snap.number)
    } else if seen.layout.kind() == ItemKind::Plain {
        parse_number(seen.layout.value(&guard.store.segments.heap, seen.address))
    } else {
        None
    };
    let Some(number) = number else { return Ok(Some(ArithOutcome::NotNumber)) };
    if can_add_in_place(guard, &seen, arith) {
        return add_in_place(guard, key, arith);
    }
    let value = apply(arith, number);
    let rewrite = Rewrite {
        content: Some(Content::Number(value)),
        expire: arith.expire,
        token: arith.token.map_or(TokenRule::New, TokenRule::Give),
        taken: arith.want_token,
        ..Rewrite::SAME
    };
    let done = guard.commits().rewrite(key, &seen, snap, rewrite)?;
    let before = Some(seen.expire(guard.store));
    Ok(done.map(|copy| outcome(arith, value, copy.token, (before, copy.expire))))
}

fn can_add_in_place(guard: &Guard<'_>, seen: &FoundItem<'_>, arith: &Arith) -> bool {
    let layout = &seen.layout;
    layout.has(NUM)
        && !guard.copies_all()
        && arith.expire.is_none()
        && arith.token.is_none()
        && (layout.has(CAS_FIELD) || !(layout.has(CAS_TAKEN) || arith.want_token))
}

/// Adds to a number in place. The operation makes all its decisions again under the lock, so an operation on a busy
/// counter never starts over.
fn add_in_place(guard: &mut Guard<'_>, key: &Key<'_>, arith: &Arith) -> Result<Option<ArithOutcome>, OpError> {
    let store = guard.store;
    let tokens = guard.commits().tokens_of_change();
    let locked = guard.locks().lock(key)?;
    let Some(there) = live(store, find_locked(store, &locked, key), guard.now) else { return Ok(None) };
    if !can_add_in_place(guard, &there, arith) {
        return Ok(None);
    }
    let snap = Snap::of(store, &there);
    if arith.compare.is_some_and(|compare| compare != snap.token) {
        return Ok(Some(ArithOutcome::Exists));
    }
    let value = apply(arith, snap.number);
    store_number(store, &there, value, tokens);
    crate::index::bump(there.word, there.slot);
    let expire = there.expire(store);
    Ok(Some(outcome(arith, value, tokens.after, (Some(expire), expire))))
}

fn vivify_number(guard: &mut Guard<'_>, key: &Key<'_>, arith: &Arith) -> Result<Option<ArithOutcome>, OpError> {
    if arith.compare.is_some() || arith.vivify.is_none() {
        return Ok(Some(ArithOutcome::NotFound));
    }
    let (value, expire) = arith.vivify.unwrap_or((0, Expire::Never));
    guard.sizes().check_size(key, DIGITS_MAX)?;
    let plan = Plan {
        expire,
        token: arith.token,
        taken: arith.want_token,
        ..Plan::bare(ItemKind::Plain, Content::Number(value))
    };
    let done = guard.commits().commit(key, &plan, Some(Expect::there(None)))?;
    Ok(done.map(|token| outcome(arith, value, token, (None, written_expire(guard, key, expire)))))
}

/// The maximum number of decimal digits of an unsigned 64-bit number.
const DIGITS_MAX: u64 = base::decimal::DIGITS_ALL_MAX as u64;

fn outcome(arith: &Arith, value: u64, token: u64, (expire_before, expire): (Option<Expire>, Expire)) -> ArithOutcome {
    ArithOutcome::Number { value, token: if arith.want_token { token } else { 0 }, expire_before, expire }
}

impl Numbers<'_, '_> {
    /// Adds to a signed number, or to 0 if the key has no item. The item's expiry does not change.
    ///
    /// # Errors
    /// [`OpError::Parked`] (nothing was changed; the caller tries again in a later iteration),
    /// [`OpError::OutOfMemory`]; [`OpError::TooLarge`]: the key has no item and is too long.
    pub fn add(self, key: &Key<'_>, delta: i64) -> Result<AddOutcome, OpError> {
        self.guard.sample(key, crate::heap::samples::RequestKind::Store);
        self.guard.commits().retry(|guard| try_add(guard, key, delta))
    }
}

fn try_add(guard: &mut Guard<'_>, key: &Key<'_>, delta: i64) -> Result<Option<AddOutcome>, OpError> {
    let Some((seen, snap)) = guard.items().snap(key)? else { return first_number(guard, key, delta) };
    let present = if seen.layout.has(NUM) {
        i64::try_from(snap.number).ok()
    } else if seen.layout.kind() == ItemKind::Plain {
        base::decimal::parse_signed(seen.layout.value(&guard.store.segments.heap, seen.address))
    } else if seen.layout.is(ItemKind::Typed) {
        return Ok(Some(AddOutcome::WrongType));
    } else {
        None
    };
    let Some(present) = present else { return Ok(Some(AddOutcome::NotInteger)) };
    let Some(sum) = present.checked_add(delta) else { return Ok(Some(AddOutcome::Overflow)) };
    if sum >= 0 && can_count_in_place(guard, &seen) {
        return count_in_place(guard, key, delta);
    }
    let mut text = Text::default();
    let rewrite = Rewrite { content: Some(text.content(sum)), token: TokenRule::New, ..Rewrite::SAME };
    Ok(guard.commits().rewrite(key, &seen, snap, rewrite)?.map(|_| AddOutcome::Number(sum)))
}

fn can_count_in_place(guard: &Guard<'_>, seen: &FoundItem<'_>) -> bool {
    seen.layout.has(NUM) && !guard.copies_all() && (seen.layout.has(CAS_FIELD) || !seen.layout.has(CAS_TAKEN))
}

/// Adds to a number in place. The sum is computed again under the lock, so an operation on a busy counter never starts
/// over, unless the sum cannot be stored in place.
fn count_in_place(guard: &mut Guard<'_>, key: &Key<'_>, delta: i64) -> Result<Option<AddOutcome>, OpError> {
    let store = guard.store;
    let tokens = guard.commits().tokens_of_change();
    let locked = guard.locks().lock(key)?;
    let Some(there) = live(store, find_locked(store, &locked, key), guard.now) else { return Ok(None) };
    if !can_count_in_place(guard, &there) {
        return Ok(None);
    }
    let number = i64::try_from(Snap::of(store, &there).number).ok();
    let Some(sum) = number.and_then(|number| number.checked_add(delta)).filter(|sum| *sum >= 0) else {
        return Ok(None);
    };
    store_number(store, &there, sum as u64, tokens);
    crate::index::bump(there.word, there.slot);
    Ok(Some(AddOutcome::Number(sum)))
}

fn first_number(guard: &mut Guard<'_>, key: &Key<'_>, delta: i64) -> Result<Option<AddOutcome>, OpError> {
    let mut text = Text::default();
    guard.sizes().check_size(key, text.0.len() as u64)?;
    let plan = Plan::bare(ItemKind::Plain, text.content(delta));
    Ok(guard.commits().commit(key, &plan, Some(Expect::there(None)))?.map(|_| AddOutcome::Number(delta)))
}

/// A buffer for the digits of a negative number, which an item stores as text.
#[derive(Default)]
struct Text([u8; 20]);

impl Text {
    /// Returns a signed number in the form in which an item stores it.
    fn content(&mut self, number: i64) -> Content<'_> {
        if let Ok(number) = u64::try_from(number) {
            return Content::Number(number);
        }
        let mut digits = [0; 20];
        let digits = base::decimal::digits(number.unsigned_abs(), &mut digits);
        self.0[0] = b'-';
        self.0[1..=digits.len()].copy_from_slice(digits);
        Content::Bytes(&self.0[..=digits.len()], &[])
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_with_optional_trailing_spaces() {
        assert_eq!(parse_number(b"0"), Some(0));
        assert_eq!(parse_number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_number(b"12  "), Some(12));
        for bad in [&b""[..], b" ", b" 1", b"-1", b"1a", b"18446744073709551616", b"1 2", b"000000000000000000001"] {
            assert_eq!(parse_number(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn negative_number_is_stored_as_digits() {
        let mut text = Text::default();
        assert!(matches!(text.content(i64::MIN), Content::Bytes(b"-9223372036854775808", b"")));
        assert!(matches!(text.content(-7), Content::Bytes(b"-7", b"")));
        assert!(matches!(text.content(7), Content::Number(7)));
    }
}
