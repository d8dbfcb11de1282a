//! TTL classes: items that end at about the same time live in the same segment, which then expires whole.
//!
//! ```text
//! class    0      1       2     ...   18        19      ...   22       23
//! TTL   <= 8 s  <= 16 s  <= 32 s    24.3 d    48.5 d        388 d    longer, or never
//!       |---------- expiry in ms ----------|  |-------- expiry in s --------|
//! ```
//!
//! An item's expiry is a u32 relative to its segment's creation, in milliseconds in classes up to 24 days, and in
//! seconds in longer classes, whose segments are created at a whole second. A relative expiry of 0 is written as 1. A
//! segment's creation time is one unit before its opening, so an item with expiry 1 has already expired.

use base::clock::UnixMillis;

/// The time at which an item stops being readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expire {
    /// Only eviction, deletion or a flush ends it.
    Never,
    /// Not readable at or after this instant. If the instant is in the past, the item is stored but never readable.
    At(UnixMillis),
}

/// The class of items that never expire: the last of 24 classes.
pub(crate) const CLASS_NEVER: u8 = 23;
const FIRST_CLASS_MS: u64 = 8_000;
/// The last class whose expiries are in milliseconds: 8 s * 2^18 is 24.3 days.
const LAST_MS_CLASS: u8 = 18;

/// Returns the TTL class of an item that is stored at `now` and expires at `expire`.
pub(crate) fn class_of(expire: Expire, now: UnixMillis) -> u8 {
    let Expire::At(at) = expire else { return CLASS_NEVER };
    let ttl_ms = at.ms_since(now).max(1);
    let doublings = ttl_ms.div_ceil(FIRST_CLASS_MS).next_power_of_two().ilog2();
    (doublings as u8).min(CLASS_NEVER)
}

/// Returns how long a segment of `class` may stay open, in milliseconds: an eighth of the class's TTL.
pub(crate) fn open_ms_max(class: u8) -> u64 {
    if class == CLASS_NEVER { u64::MAX } else { (FIRST_CLASS_MS << class) / 8 }
}

/// Returns the unit of expiries in a class, in milliseconds: 1 or 1000.
fn unit_ms(class: u8) -> u64 {
    if class <= LAST_MS_CLASS { 1 } else { 1000 }
}

/// Returns true if two classes count expiries in the same unit, so that an item of one may live in a segment of the
/// other.
pub(crate) fn same_unit(a: u8, b: u8) -> bool {
    unit_ms(a) == unit_ms(b)
}

/// Returns the creation time for a segment of `class` that is opened now: one unit before now. So an item whose expiry
/// has passed, and is stored as 1, has expired from the beginning.
pub(crate) fn creation(class: u8, now: UnixMillis) -> UnixMillis {
    UnixMillis((now.0 / unit_ms(class)).saturating_sub(1) * unit_ms(class))
}

/// Returns the expiry word of an item that ends at `at`, in a segment of `class` created at `created`. The word is
/// rounded up to a whole unit, so that no item ends early. An instant in the past still lies in the past afterwards.
pub(crate) fn relative(class: u8, created: UnixMillis, at: UnixMillis, now: UnixMillis) -> u32 {
    let ms = at.ms_since(created);
    let units = if at <= now { ms / unit_ms(class) } else { ms.div_ceil(unit_ms(class)) };
    u32::try_from(units).unwrap_or(u32::MAX).max(1)
}

/// Returns the expiry that is stored for an item written at `now` with expiry `expire`, in the unit of its class. An
/// instant in the past does not change.
pub(crate) fn written(expire: Expire, now: UnixMillis) -> Expire {
    match expire {
        Expire::At(at) if at > now => {
            let unit = unit_ms(class_of(expire, now));
            Expire::At(UnixMillis(at.0.div_ceil(unit).saturating_mul(unit)))
        }
        past_or_never => past_or_never,
    }
}

/// Returns the instant at which an item with the expiry word `relative` ends.
#[inline(always)]
pub(crate) fn absolute(class: u8, created: UnixMillis, relative: u32) -> UnixMillis {
    created.plus_ms(u64::from(relative) * unit_ms(class))
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn class_after(ms: u64) -> u8 {
        class_of(Expire::At(UnixMillis(1_000_000 + ms)), UnixMillis(1_000_000))
    }

    #[test]
    fn classes_double_from_eight_seconds() {
        assert_eq!([class_after(0), class_after(8_000), class_after(8_001)], [0, 0, 1]);
        assert_eq!([class_after(16_000), class_after(16_001)], [1, 2]);
        assert_eq!(class_after(24 * 86_400_000), 18);
        assert_eq!([class_after(388 * 86_400_000), class_after(389 * 86_400_000)], [22, 23]);
        assert_eq!(class_of(Expire::Never, UnixMillis(5)), CLASS_NEVER);
    }

    #[test]
    fn an_expiry_written_in_any_class_is_exact_to_its_unit_and_never_early() {
        let now = UnixMillis(1_700_000_000_123);
        for class in 0..=CLASS_NEVER {
            let created = creation(class, now);
            for ttl_ms in [1, 999, 8_000, 86_400_000, 20 * 86_400_000] {
                let at = now.plus_ms(ttl_ms);
                let back = absolute(class, created, relative(class, created, at, now));
                assert!(back >= at && back.ms_since(at) < unit_ms(class), "class {class} ttl {ttl_ms}");
            }
        }
    }

    #[test]
    fn stored_expiry_equals_predicted_expiry() {
        let now = UnixMillis(1_700_000_000_123);
        for ttl_ms in [1, 999, 8_000, 86_400_000, 24 * 86_400_000, 25 * 86_400_000, 400 * 86_400_000] {
            let expire = Expire::At(now.plus_ms(ttl_ms));
            let class = class_of(expire, now);
            let created = creation(class, now);
            let back = absolute(class, created, relative(class, created, now.plus_ms(ttl_ms), now));
            assert_eq!(written(expire, now), Expire::At(back), "ttl {ttl_ms}");
        }
        let past = Expire::At(UnixMillis(now.0 - 5));
        assert_eq!((written(past, now), written(Expire::Never, now)), (past, Expire::Never));
    }

    #[test]
    fn an_item_whose_time_is_past_has_ended_from_the_first() {
        let now = UnixMillis(1_700_000_000_123);
        for class in 0..=CLASS_NEVER {
            let created = creation(class, now);
            for at in [now.0, now.0 - 1, now.0 - 5000, 0] {
                assert!(
                    absolute(class, created, relative(class, created, UnixMillis(at), now)) <= now,
                    "class {class}"
                );
            }
        }
    }

    #[test]
    fn the_longest_ttl_of_a_millisecond_class_fits_after_its_open_time() {
        let longest = (FIRST_CLASS_MS << LAST_MS_CLASS) + open_ms_max(LAST_MS_CLASS);
        assert!(longest < u64::from(u32::MAX));
    }
}
