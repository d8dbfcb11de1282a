//! Expiry of keys: the parsing of deadlines in arguments, the commands that set an expiry time (`EXPIRE` and its
//! variants), and the commands that return it (`TTL` and its variants).

use super::catalog::lower;
use super::error::ErrorReply;
use super::number::integer;
use super::typed::live;
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Run};
use crate::resp::typed;
use crate::visit::clock::Moment;
use crate::visit::out::OutBuffer;
use base::clock::UnixMillis;
use protocol::resp::Args;
use segment::{Attempts, Expire, Item, Loaded, Replaced, Replacement};

/// The unit of a deadline in an argument, and the instant from which the deadline counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Millis,
    /// Seconds since the Unix epoch.
    UnixSeconds,
    /// Milliseconds since the Unix epoch.
    UnixMillis,
}

impl Unit {
    /// Returns the unit of an option of `SET`, such as `ex`. The option is in lower case.
    pub(super) fn of(option: &[u8]) -> Option<Self> {
        match option {
            b"ex" => Some(Self::Seconds),
            b"px" => Some(Self::Millis),
            b"exat" => Some(Self::UnixSeconds),
            b"pxat" => Some(Self::UnixMillis),
            _ => None,
        }
    }
}

/// An instant at which an item expires, in ms since the Unix epoch by the store's clock. It may be in the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline(i64);

impl Deadline {
    /// Parses the deadline in `text`, an argument of `command`.
    pub(super) fn read(text: &[u8], unit: Unit, moment: Moment, command: &'static str) -> Result<Self, ErrorReply> {
        let number = integer(text)?;
        let fault = ErrorReply::ExpireTime(command);
        let millis = match unit {
            Unit::Seconds | Unit::UnixSeconds => number.checked_mul(1000).ok_or(fault)?,
            Unit::Millis | Unit::UnixMillis => number,
        };
        let base = match unit {
            Unit::Seconds | Unit::Millis => moment.now.0 as i64,
            Unit::UnixSeconds | Unit::UnixMillis => moment.wall_lead_ms.saturating_neg(),
        };
        millis.checked_add(base).map(Self).ok_or(fault)
    }

    /// Parses the deadline of a command that rejects numbers of 0 or below.
    pub(super) fn positive(text: &[u8], unit: Unit, moment: Moment, command: &'static str) -> Result<Self, ErrorReply> {
        if integer(text)? <= 0 {
            return Err(ErrorReply::ExpireTime(command));
        }
        Self::read(text, unit, moment, command)
    }

    /// Returns true if the deadline is not after `now`.
    pub(super) fn is_past(self, now: UnixMillis) -> bool {
        self.0 <= now.0 as i64
    }

    pub(super) fn expire(self) -> Expire {
        Expire::At(UnixMillis(self.0.max(0) as u64))
    }
}

/// Options of `EXPIRE`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    absent: bool,
    present: bool,
    later: bool,
    earlier: bool,
}

impl Options {
    /// Returns the option with the name `word`, in upper or lower case, or `None` if there is no such option.
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        let none = Self::default();
        match &lower(word)[..] {
            b"nx" => Some(Self { absent: true, ..none }),
            b"xx" => Some(Self { present: true, ..none }),
            b"gt" => Some(Self { later: true, ..none }),
            b"lt" => Some(Self { earlier: true, ..none }),
            _ => None,
        }
    }

    /// Parses the options. If an option is unknown, writes an error reply and returns `None`.
    fn read(out: &mut OutBuffer, args: Args<'_>) -> Result<Option<Self>, ErrorReply> {
        let mut options = Self::default();
        for word in args {
            match &lower(word)[..] {
                b"nx" => options.absent = true,
                b"xx" => options.present = true,
                b"gt" => options.later = true,
                b"lt" => options.earlier = true,
                _ => {
                    super::error::option(out, word);
                    return Ok(None);
                }
            }
        }
        if options.absent && (options.present || options.later || options.earlier) {
            return Err(ErrorReply::ExpireOptions);
        }
        if options.later && options.earlier {
            return Err(ErrorReply::ExpireOrder);
        }
        Ok(Some(options))
    }

    /// Returns true if the options allow a change of an item's expiry from `present` to `next`.
    pub(super) fn allow(self, present: Expire, next: Expire) -> bool {
        let ends = |expire| match expire {
            Expire::Never => u64::MAX,
            Expire::At(at) => at.0,
        };
        let lasting = present == Expire::Never;
        !((self.absent && !lasting)
            || (self.present && lasting)
            || (self.later && ends(next) <= ends(present))
            || (self.earlier && ends(next) >= ends(present)))
    }
}

/// The time to live in milliseconds from which on the store may shorten an expiry. Its maximum is 2^32 s from the
/// creation of the item's segment, which may be years old.
const SHORTENED_MS_MIN: u64 = ((1 << 32) - 10 * 366 * 86_400) * 1000;

/// Returns the expiry for which the store would record `next`, for a comparison with the `present` one of an item: it
/// is rounded down to its unit, and one that the store may have shortened as the present one is the same as that.
fn recorded(present: Expire, next: Expire, now: UnixMillis) -> Expire {
    match (present, next) {
        (Expire::At(there), Expire::At(at)) if there.ms_since(now) >= SHORTENED_MS_MIN && at > there => present,
        (_, Expire::At(at)) if at > now => {
            let unit = next.unit_ms(now);
            Expire::At(UnixMillis(at.0 / unit * unit))
        }
        _ => next,
    }
}

fn expire<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>, unit: Unit, name: &'static str) -> Run {
    let bytes = args.next().unwrap_or_default();
    let time = args.next().unwrap_or_default();
    let Some(options) = Options::read(call.out, args)? else { return Ok(()) };
    let moment = call.moment();
    let deadline = Deadline::read(time, unit, moment, name)?;
    let next = deadline.expire();
    let key = call.key(bytes);
    let past = deadline.is_past(moment.now);
    let (mut attempts, mut is_checked) = (Attempts::default(), false);
    let done = loop {
        let Loaded { item, version } = call.guard.items().load(&key, &mut attempts)?;
        if !std::mem::replace(&mut is_checked, true) && item.as_ref().is_some_and(typed::may_have_ended_bins) {
            typed::is_there(call, &key)?;
            continue;
        }
        let allows = |item: Item<'_>| options.allow(item.expire, recorded(item.expire, next, moment.now));
        if !live(item, call.ctx.view()).is_some_and(allows) {
            break false;
        }
        let new = if past { Replacement::Remove } else { Replacement::Expire(next) };
        if call.guard.items_mut().replace(&key, &version, new)? == Replaced::Done {
            break true;
        }
    };
    if done {
        call.changed(if past { KeyEvent::DEL } else { KeyEvent::EXPIRE }, bytes);
    }
    call.int(done.into());
    Ok(())
}

pub(super) fn seconds<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    expire(call, args, Unit::Seconds, "expire")
}

pub(super) fn millis<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    expire(call, args, Unit::Millis, "pexpire")
}

pub(super) fn at<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    expire(call, args, Unit::UnixSeconds, "expireat")
}

pub(super) fn at_millis<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    expire(call, args, Unit::UnixMillis, "pexpireat")
}

pub(super) fn persist<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let bytes = args.next().unwrap_or_default();
    let key = call.key(bytes);
    let (mut attempts, mut is_checked) = (Attempts::default(), false);
    let done = loop {
        let Loaded { item, version } = call.guard.items().load(&key, &mut attempts)?;
        if !std::mem::replace(&mut is_checked, true) && item.as_ref().is_some_and(typed::may_have_ended_bins) {
            typed::is_there(call, &key)?;
            continue;
        }
        if !live(item, call.ctx.view()).is_some_and(|item| item.expire != Expire::Never) {
            break false;
        }
        if call.guard.items_mut().replace(&key, &version, Replacement::Expire(Expire::Never))? == Replaced::Done {
            break true;
        }
    };
    if done {
        call.changed(KeyEvent::PERSIST, bytes);
    }
    call.int(done.into());
    Ok(())
}

/// Calls `show` with the key's expiry time and the current time, both in ms since the Unix epoch by the wall clock, and
/// replies with its result. Replies -1 if the key never expires, and -2 if it does not exist.
fn reply_expiry(call: &mut Call<'_, '_>, mut args: Args<'_>, show: impl Fn(i64, i64) -> i64) -> Run {
    let key = call.key(args.next().unwrap_or_default());
    typed::is_there(call, &key)?;
    let moment = call.moment();
    let replied = match call.guard.items().peek(&key).map(|item| item.expire) {
        None => -2,
        Some(Expire::Never) => -1,
        Some(Expire::At(at)) => show(moment.to_wall(at).0 as i64, moment.to_wall(moment.now).0 as i64),
    };
    call.int(replied);
    Ok(())
}

/// Returns the seconds from `now` to the expiry `at`, to the nearest second as in Redis. If the store has rounded the
/// expiry down to a whole second, returns them rounded up, so that the reply to `TTL` directly after `EX n` is n.
fn seconds_left(at_ms: i64, now_ms: i64) -> i64 {
    let [at, now] = [at_ms, now_ms].map(|ms| UnixMillis(ms as u64));
    let is_whole = Expire::At(at).unit_ms(now) == 1000;
    (at_ms - now_ms + if is_whole { 999 } else { 500 }) / 1000
}

pub(super) fn ttl<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_expiry(call, args, seconds_left)
}

pub(super) fn pttl<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_expiry(call, args, |at, now| at - now)
}

pub(super) fn expiretime<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_expiry(call, args, |at, _| (at + 500) / 1000)
}

pub(super) fn pexpiretime<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_expiry(call, args, |at, _| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_range_deadline_is_rejected_and_a_past_deadline_is_accepted() {
        let now = Moment { now: UnixMillis(1_000_000), wall_lead_ms: 0 };
        let read = |text: &str, unit| Deadline::read(text.as_bytes(), unit, now, "x");
        assert_eq!(read("10", Unit::Seconds), Ok(Deadline(1_010_000)));
        assert_eq!(read("-10", Unit::Millis), Ok(Deadline(999_990)));
        assert_eq!(read("-1", Unit::UnixSeconds), Ok(Deadline(-1000)));
        assert_eq!(read("9223372036854775807", Unit::Seconds), Err(ErrorReply::ExpireTime("x")));
        assert_eq!(read("9223372036854775807", Unit::Millis), Err(ErrorReply::ExpireTime("x")));
        assert_eq!(read("1x", Unit::Millis), Err(ErrorReply::NotInteger));
        assert_eq!(Deadline::positive(b"0", Unit::Millis, now, "x"), Err(ErrorReply::ExpireTime("x")));
        assert_eq!(Deadline(-5).expire(), Expire::At(UnixMillis(0)));
    }

    #[test]
    fn remaining_seconds_of_an_expiry_stored_in_any_unit_do_not_exceed_those_given() {
        const DAY_MS: i64 = 86_400_000;
        let now_ms = 1_700_000_000_999;
        for (days, unit_ms) in [(1, 1), (20, 1), (30, 10), (365, 10), (400, 1000)] {
            let ttl_ms = days * DAY_MS;
            let stored_ms = (now_ms + ttl_ms) / unit_ms * unit_ms;
            assert_eq!(seconds_left(stored_ms, now_ms), ttl_ms / 1000, "{ttl_ms} ms");
        }
        assert_eq!([1499, 1500].map(|left_ms| seconds_left(now_ms + left_ms, now_ms)), [1, 2], "to the nearest second");
    }

    #[test]
    fn an_expiry_is_not_later_than_what_the_store_recorded_for_it() {
        let now = UnixMillis(1_700_000_000_000);
        let at = |ms| Expire::At(now.plus_ms(ms));
        const DAY_MS: u64 = 86_400_000;
        assert_eq!(recorded(at(DAY_MS), at(DAY_MS + 7), now), at(DAY_MS + 7), "exact");
        assert_eq!(recorded(at(30 * DAY_MS), at(30 * DAY_MS + 7), now), at(30 * DAY_MS), "to 10 ms");
        assert_eq!(recorded(at(400 * DAY_MS), at(400 * DAY_MS + 7), now), at(400 * DAY_MS), "to a second");
        let far = at(u64::from(u32::MAX) * 1000 - 5000);
        assert_eq!(recorded(far, Expire::At(UnixMillis(1 << 60)), now), far, "shortened");
        assert_eq!(recorded(far, at(400 * DAY_MS), now), at(400 * DAY_MS), "an earlier one");
        assert_eq!(recorded(far, Expire::At(UnixMillis(5)), now), Expire::At(UnixMillis(5)), "a past one");
    }

    #[test]
    fn an_item_without_an_end_ends_later_than_any_other() {
        let at = |ms| Expire::At(UnixMillis(ms));
        let (later, earlier) =
            (Options { later: true, ..Options::default() }, Options { earlier: true, ..Options::default() });
        assert!(!later.allow(Expire::Never, at(5)) && earlier.allow(Expire::Never, at(5)));
        assert!(later.allow(at(4), at(5)) && !later.allow(at(5), at(5)) && earlier.allow(at(6), at(5)));
    }
}
