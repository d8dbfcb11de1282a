//! TTL classes: items that end at about the same time live in the same segment, which then expires whole.
//!
//! ```text
//! class    0      1       2     ...   18        19      ...   22       23
//! TTL   <= 8 s  <= 16 s  <= 32 s    24.3 d    48.5 d        388 d    longer, or never
//!       |---------- expiry in ms ----------|  | in 10 ms ------|     in s
//! ```
//!
//! An item's expiry is a u32 relative to its segment's creation, in the unit of the segment. Segments of classes 19 to
//! 22 that an older build opened count seconds; a flag in the header distinguishes them. A segment is created at a
//! multiple of its unit. An expiry is rounded down to the unit, so that no item lives longer than its client requested.
//! A relative expiry of 0 is written as 1. A segment's creation time is one unit before its opening, so an item with
//! expiry 1 has already expired.

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
/// The last class whose expiries are in units of [`FINE_MS`]: 8 s * 2^22 is 388 days.
const LAST_FINE_CLASS: u8 = 22;
/// The unit of expiries between 24 and 388 days, in milliseconds. It divides a second, so that whole seconds are exact.
const FINE_MS: u64 = 10;
const SECOND_MS: u64 = 1000;

impl Expire {
    /// Returns the unit, in milliseconds, to which the store rounds this expiry down if an item is written at `now`: 1,
    /// 10, or 1000.
    pub fn unit_ms(self, now: UnixMillis) -> u64 {
        unit_ms(class_of(self, now), true)
    }
}

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

/// Returns the unit of expiries in a segment, in milliseconds: 1, 10 or 1000. `is_fine` is the flag of the segment's
/// header: see [`crate::layout::header::kind_of`].
#[inline(always)]
pub(crate) fn unit_ms(class: u8, is_fine: bool) -> u64 {
    if class <= LAST_MS_CLASS {
        1
    } else if is_fine && class <= LAST_FINE_CLASS {
        FINE_MS
    } else {
        SECOND_MS
    }
}

/// Returns true if two classes count expiries in the same unit, so that an item of one may live in a segment of the
/// other.
pub(crate) fn same_unit(a: u8, b: u8) -> bool {
    unit_ms(a, true) == unit_ms(b, true)
}

/// Returns the creation time for a segment with expiries in this unit that is opened now: one unit before now. So an
/// item whose expiry has passed, and is stored as 1, has expired from the beginning.
pub(crate) fn creation(unit_ms: u64, now: UnixMillis) -> UnixMillis {
    UnixMillis((now.0 / unit_ms).saturating_sub(1) * unit_ms)
}

/// Returns the expiry word of an item that ends at `at`, in a segment with this unit that was created at `created`. The
/// word is rounded down to a whole unit, so that no item lives longer than its client requested.
pub(crate) fn relative(unit_ms: u64, created: UnixMillis, at: UnixMillis) -> u32 {
    u32::try_from(at.ms_since(created) / unit_ms).unwrap_or(u32::MAX).max(1)
}

/// Returns the expiry that is stored for an item written at `now` with expiry `expire`, in the unit of its class. An
/// instant in the past does not change.
pub(crate) fn written(expire: Expire, now: UnixMillis) -> Expire {
    match expire {
        Expire::At(at) if at > now => {
            let unit = expire.unit_ms(now);
            Expire::At(UnixMillis(at.0 / unit * unit))
        }
        past_or_never => past_or_never,
    }
}

/// Returns the instant at which an item with the expiry word `relative` ends.
#[inline(always)]
pub(crate) fn absolute(unit_ms: u64, created: UnixMillis, relative: u32) -> UnixMillis {
    created.plus_ms(u64::from(relative) * unit_ms)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn class_after(ms: u64) -> u8 {
        class_of(Expire::At(UnixMillis(1_000_000 + ms)), UnixMillis(1_000_000))
    }

    #[test]
    fn classes_double_from_eight_seconds() {
        assert_eq!([class_after(0), class_after(8_000), class_after(8_001)], [0, 0, 1]);
        assert_eq!([class_after(16_000), class_after(16_001)], [1, 2]);
        assert_eq!(class_after(24 * DAY_MS), 18);
        assert_eq!([class_after(388 * DAY_MS), class_after(389 * DAY_MS)], [22, 23]);
        assert_eq!(class_of(Expire::Never, UnixMillis(5)), CLASS_NEVER);
    }

    #[test]
    fn an_expiry_written_in_any_unit_is_exact_to_it_and_never_late() {
        let now = UnixMillis(1_700_000_000_123);
        for (class, is_fine) in (0..=CLASS_NEVER).flat_map(|class| [(class, true), (class, false)]) {
            let unit = unit_ms(class, is_fine);
            let created = creation(unit, now);
            for ttl_ms in [1000, 1999, 8_000, DAY_MS, 20 * DAY_MS + 7] {
                let at = now.plus_ms(ttl_ms);
                let back = absolute(unit, created, relative(unit, created, at));
                assert!(back <= at && at.ms_since(back) < unit, "class {class} ttl {ttl_ms}");
                let whole = UnixMillis(at.0 / 1000 * 1000);
                assert_eq!(absolute(unit, created, relative(unit, created, whole)), whole, "class {class}");
            }
        }
    }

    #[test]
    fn stored_expiry_equals_predicted_expiry() {
        let now = UnixMillis(1_700_000_000_123);
        for ttl_ms in [1, 999, 8_000, DAY_MS, 24 * DAY_MS, 25 * DAY_MS, 388 * DAY_MS, 400 * DAY_MS] {
            let expire = Expire::At(now.plus_ms(ttl_ms));
            let unit = expire.unit_ms(now);
            let created = creation(unit, now);
            let back = absolute(unit, created, relative(unit, created, now.plus_ms(ttl_ms)));
            assert_eq!(written(expire, now), Expire::At(back), "ttl {ttl_ms}");
        }
        let past = Expire::At(UnixMillis(now.0 - 5));
        assert_eq!((written(past, now), written(Expire::Never, now)), (past, Expire::Never));
    }

    #[test]
    fn an_item_whose_time_is_past_has_ended_from_the_first() {
        let now = UnixMillis(1_700_000_000_123);
        for unit in [1, FINE_MS, SECOND_MS] {
            let created = creation(unit, now);
            for at in [now.0, now.0 - 1, now.0 - 5000, 0] {
                assert!(absolute(unit, created, relative(unit, created, UnixMillis(at))) <= now, "unit {unit}");
            }
        }
    }

    #[test]
    fn the_longest_ttl_of_a_unit_fits_after_the_open_time_of_its_segment() {
        for class in [LAST_MS_CLASS, LAST_FINE_CLASS] {
            let longest = (FIRST_CLASS_MS << class) + open_ms_max(class);
            assert!(longest / unit_ms(class, true) < u64::from(u32::MAX), "class {class}");
        }
    }
}
