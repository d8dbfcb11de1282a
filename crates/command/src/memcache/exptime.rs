//! Expiry times in the encoding of the memcached protocol.

use base::clock::UnixMillis;
use segment::Expire;

use crate::visit::clock::Moment;

/// The maximum number of seconds of a relative time: 30 days. A greater number is an absolute time in Unix seconds.
const RELATIVE_SECS_MAX: i64 = 60 * 60 * 24 * 30;

/// Converts an `exptime` to an expiry by the store's clock. 0: the item never expires. Negative: it expires at once. Up
/// to 30 days: seconds from now. Greater: an absolute time by the wall clock, in Unix seconds.
pub(super) fn expire(exptime: i64, moment: Moment) -> Expire {
    match exptime {
        0 => Expire::Never,
        ..0 => Expire::At(UnixMillis(0)),
        1..=RELATIVE_SECS_MAX => Expire::At(moment.now.plus_ms(exptime as u64 * 1000)),
        _ => Expire::At(moment.to_store(UnixMillis::from_secs(exptime as u64))),
    }
}

/// Returns true if an item with this expiry can no longer be read at `now`.
pub(super) fn is_past(expire: Expire, now: UnixMillis) -> bool {
    matches!(expire, Expire::At(at) if at <= now)
}

/// Returns the remaining seconds, rounded up, as the protocol's `t` and `exp` report them. -1: the item never expires.
pub(super) fn seconds_left(expire: Expire, now: UnixMillis) -> i64 {
    match expire {
        Expire::Never => -1,
        Expire::At(at) => i64::try_from(at.ms_since(now).div_ceil(1000)).unwrap_or(i64::MAX),
    }
}

/// Returns the Unix second at which an item expires by the wall clock. -1: the item never expires.
pub(super) fn ends_at(expire: Expire, moment: Moment) -> i64 {
    match expire {
        Expire::Never => -1,
        Expire::At(at) => i64::try_from(moment.to_wall(at).secs()).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_relative_up_to_thirty_days_and_absolute_above() {
        let now = Moment { now: UnixMillis(1_700_000_000_500), wall_lead_ms: 0 };
        assert_eq!(expire(0, now), Expire::Never);
        assert_eq!(expire(-1, now), Expire::At(UnixMillis(0)));
        assert_eq!(expire(i64::MIN, now), Expire::At(UnixMillis(0)));
        assert_eq!(expire(1, now), Expire::At(UnixMillis(1_700_000_001_500)));
        assert_eq!(expire(2_592_000, now), Expire::At(UnixMillis(1_702_592_000_500)));
        assert_eq!(expire(2_592_001, now), Expire::At(UnixMillis(2_592_001_000)));
        assert_eq!(expire(1_800_000_000, now), Expire::At(UnixMillis(1_800_000_000_000)));
        assert_eq!(expire(i64::MAX, now), Expire::At(UnixMillis(u64::MAX)));
        let ahead = Moment { wall_lead_ms: 7000, ..now };
        assert_eq!((expire(1, ahead), expire(-1, ahead)), (expire(1, now), expire(-1, now)));
        assert_eq!(expire(1_800_000_000, ahead), Expire::At(UnixMillis(1_799_999_993_000)));
        assert_eq!(ends_at(expire(1_800_000_000, ahead), ahead), 1_800_000_000);
    }

    #[test]
    fn remaining_seconds_equal_the_requested_ttl_at_first() {
        let now = UnixMillis(1_700_000_000_500);
        let expire = |exptime, now| expire(exptime, Moment { now, wall_lead_ms: 0 });
        assert_eq!(seconds_left(expire(30, now), now), 30);
        assert_eq!(seconds_left(expire(30, now), now.plus_ms(1)), 30);
        assert_eq!(seconds_left(expire(30, now), now.plus_ms(1000)), 29);
        assert_eq!(seconds_left(expire(-1, now), now), 0);
        assert_eq!(seconds_left(Expire::Never, now), -1);
        assert_eq!(ends_at(Expire::Never, Moment::default()), -1);
    }
}
