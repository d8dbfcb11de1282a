//! incr and decr.

use crate::core::handle::Guard;
use crate::core::op::{Arith, ArithOutcome, Expire, OpError};
use crate::core::snap::Snap;
use crate::core::store::Seen;
use crate::items::unpublished::{Content, Plan};
use crate::items::write::put::Expect;
use crate::items::write::rewrite::{Rewrite, TokenRule};
use crate::layout::item::{CAS_FIELD, CAS_TAKEN, Kind, NUM};
use crate::layout::key::Key;

/// The longest text that is read as a number, in bytes: the digits of 2^64 - 1.
const NUMBER_TEXT_MAX: usize = 20;

/// Parses an unsigned decimal number of 64 bits, with spaces behind it allowed.
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

impl Guard<'_> {
    /// Adds to or takes from a number.
    ///
    /// # Errors
    /// [`OpError::Parked`]: nothing was changed, again in a later iteration.
    pub fn arith(&mut self, key: &Key<'_>, arith: &Arith) -> Result<ArithOutcome, OpError> {
        // The reply has to report the new expiry as it is.
        let ruled = |expire| self.store.spaces.expire(key.namespace, expire, self.now);
        let (expire, vivify) = (arith.expire.map(ruled), arith.vivify.map(|(number, expire)| (number, ruled(expire))));
        let arith = Arith { expire, vivify, ..*arith };
        self.retry(|guard| guard.try_arith(key, &arith))
    }

    fn try_arith(&mut self, key: &Key<'_>, arith: &Arith) -> Result<Option<ArithOutcome>, OpError> {
        let Some((seen, snap)) = self.snap(key)? else { return self.vivify_number(key, arith) };
        if arith.compare.is_some_and(|compare| compare != snap.token) {
            return Ok(Some(ArithOutcome::Exists));
        }
        let number = if seen.layout.has(NUM) {
            Some(snap.number)
        } else if seen.layout.kind() == Kind::Plain {
            parse_number(seen.layout.value(&self.store.segments.heap, seen.address))
        } else {
            None
        };
        let Some(number) = number else { return Ok(Some(ArithOutcome::NotNumber)) };
        if self.can_add_in_place(&seen, arith) {
            return self.add_in_place(key, arith);
        }
        let value = apply(arith, number);
        let rewrite = Rewrite {
            content: Some(Content::Number(value)),
            expire: arith.expire,
            token: arith.token.map_or(TokenRule::New, TokenRule::Give),
            taken: arith.want_token,
            ..Rewrite::SAME
        };
        let done = self.rewrite(key, &seen, snap, rewrite)?;
        Ok(done.map(|copy| outcome(arith, value, copy.token, copy.expire)))
    }

    fn can_add_in_place(&self, seen: &Seen<'_>, arith: &Arith) -> bool {
        let layout = &seen.layout;
        layout.has(NUM)
            && !self.copies_all()
            && arith.expire.is_none()
            && arith.token.is_none()
            && (layout.has(CAS_FIELD) || !(layout.has(CAS_TAKEN) || arith.want_token))
    }

    /// Adds where the number stands. Everything is decided again under the lock, so a busy counter never starts over.
    fn add_in_place(&mut self, key: &Key<'_>, arith: &Arith) -> Result<Option<ArithOutcome>, OpError> {
        let store = self.store;
        let tokens = self.tokens_of_change();
        let locked = self.lock(key)?;
        let Some(there) = store.live(store.find_locked(&locked, key), self.now) else { return Ok(None) };
        if !self.can_add_in_place(&there, arith) {
            return Ok(None);
        }
        let snap = Snap::of(store, &there);
        if arith.compare.is_some_and(|compare| compare != snap.token) {
            return Ok(Some(ArithOutcome::Exists));
        }
        let value = apply(arith, snap.number);
        store.store_number(&there, value, tokens);
        crate::index::bump(there.word, there.slot);
        Ok(Some(outcome(arith, value, tokens.after, store.expire(&there))))
    }

    fn vivify_number(&mut self, key: &Key<'_>, arith: &Arith) -> Result<Option<ArithOutcome>, OpError> {
        if arith.compare.is_some() || arith.vivify.is_none() {
            return Ok(Some(ArithOutcome::NotFound));
        }
        let (value, expire) = arith.vivify.unwrap_or((0, Expire::Never));
        self.check_size(key, DIGITS_MAX)?;
        let plan = Plan {
            expire,
            token: arith.token,
            taken: arith.want_token,
            ..Plan::bare(Kind::Plain, Content::Number(value))
        };
        let done = self.commit(key, &plan, Some(Expect::there(None)))?;
        Ok(done.map(|token| outcome(arith, value, token, self.written_expire(key, expire))))
    }
}

/// Digits of the longest number.
const DIGITS_MAX: u64 = 20;

fn outcome(arith: &Arith, value: u64, token: u64, expire: Expire) -> ArithOutcome {
    ArithOutcome::Number { value, token: if arith.want_token { token } else { 0 }, expire }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_with_spaces_behind_and_nothing_else() {
        assert_eq!(parse_number(b"0"), Some(0));
        assert_eq!(parse_number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_number(b"12  "), Some(12));
        for bad in [&b""[..], b" ", b" 1", b"-1", b"1a", b"18446744073709551616", b"1 2", b"000000000000000000001"] {
            assert_eq!(parse_number(bad), None, "{bad:?}");
        }
    }
}
