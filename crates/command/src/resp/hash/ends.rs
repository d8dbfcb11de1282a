//! Commands on the expiry of hash fields: `HEXPIRE` and `HTTL` with their variants, and commands that read or store
//! values and change their expiry, such as `HGETEX` and `HSETEX`.

use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::error::ErrorReply;
use crate::resp::expire::{Deadline, Options, Unit};
use crate::resp::hash;
use crate::resp::number::integer;
use crate::resp::pairs::Pairs;
use crate::resp::slices::{self, FIELDS_A_SLICE, Slices};
use crate::resp::string;
use crate::resp::typed;
use crate::resp::typed::{Edited, KeyParts, put_text, record, reply_bytes};
use crate::visit::out::LINE_ROOM;
use crate::visit::progress::SessionWait;
use protocol::resp::reply::NUMBER_LINE_BYTES_MAX;
use protocol::resp::{Args, reply};
use record::{Bin, Edit, Name, Value};
use segment::Expire;

/// The number that a command replies for a field that does not exist.
const NONE: i64 = -2;
/// The number that a command replies for a field without an expiry.
const NO_EXPIRY: i64 = -1;

/// Parses the word `FIELDS`, the number of fields, and the words of these fields, with `each` words for each field.
/// Returns the words of the fields. Returns an error if their number differs.
fn fields<'c>(word: Option<&[u8]>, mut args: Args<'c>, each: usize) -> Result<Args<'c>, ErrorReply> {
    if word.map(lower).is_none_or(|word| word[..] != *b"fields") {
        return Err(ErrorReply::FieldsMissing);
    }
    let count = integer(args.next().ok_or(ErrorReply::FieldsMissing)?)?;
    if count < 1 {
        return Err(ErrorReply::FieldsCount);
    }
    if usize::try_from(count).ok().and_then(|count| count.checked_mul(each)) != Some(args.len()) {
        return Err(ErrorReply::FieldCountDiffers);
    }
    Ok(args)
}

/// Returns the instant of a deadline as the expiry of a field, in milliseconds since the epoch. Returns an error if a
/// field cannot have an expiry that late.
fn end_ms(deadline: Deadline, command: &'static str) -> Result<u64, ErrorReply> {
    let Expire::At(at) = deadline.expire() else { return Err(ErrorReply::ExpireTime(command)) };
    if at.0 > record::END_MS_MAX { Err(ErrorReply::ExpireTime(command)) } else { Ok(at.0) }
}

/// Parses an option that sets an expiry, such as `EX 10`. Returns the expiry in milliseconds since the epoch, or `None`
/// if `word` is not the name of such an option.
fn option_end(
    word: &[u8],
    args: &mut Args<'_>,
    call: &Call<'_, '_>,
    command: &'static str,
) -> Result<Option<u64>, ErrorReply> {
    let Some(unit) = Unit::of(word) else { return Ok(None) };
    let text = args.next().ok_or(ErrorReply::Syntax)?;
    end_ms(Deadline::positive(text, unit, call.moment(), command)?, command).map(Some)
}

/// Writes the header of an array of `fields` elements, if no earlier visit has written it.
fn fields_head(call: &mut Call<'_, '_>, fields: usize) {
    if call.session.done == 0 {
        reply::array(call.out, fields as u64);
    }
}

/// Calls `each` to change each of the fields `names`, and replies with an array of the returned numbers. `all` contains
/// all arguments of the command, and ends with `names`.
fn change_each_and_reply<'c>(
    call: &mut Call<'c, '_>,
    (name, event): (&'static str, KeyEvent),
    all: Args<'c>,
    names: Args<'c>,
    each: impl Fn(&mut Edit<'_>, &Name<'_>) -> Result<i64, ErrorReply>,
) -> Run {
    let key = all.into_iter().next().unwrap_or_default();
    let mut slices = Slices::begin(call, (name, all), key, (names, 1), false)?;
    while let Some((slice, _)) = slices.next(call)? {
        typed::answer_fits(call, (slice.len() + 1) * reply::NUMBER_LINE_BYTES_MAX)?;
        let replied = typed::edit_record(call, key, None, event, &mut |_, edit, _| {
            let mut replied = Vec::with_capacity(slice.len());
            for name in slice {
                replied.push(each(edit, &Name::new(name))?);
            }
            Ok(if replied.iter().any(|replied| *replied > 0) { Edited::Store(replied) } else { Edited::Keep(replied) })
        })?;
        fields_head(call, names.len());
        replied.iter().for_each(|number| reply::int(call.out, *number));
    }
    Ok(())
}

fn expire_fields<'c>(call: &mut Call<'c, '_>, all: Args<'c>, unit: Unit, name: &'static str) -> Run {
    let mut args = all.after_first();
    let time = args.next().unwrap_or_default();
    let moment = call.moment();
    let deadline = Deadline::read(time, unit, moment, name)?;
    if integer(time)? < 0 {
        return Err(ErrorReply::ExpireBelowZero.into());
    }
    let (mut options, mut word) = (Options::default(), args.next());
    if let Some(found) = word.and_then(Options::of) {
        (options, word) = (found, args.next());
    }
    let names = fields(word, args, 1)?;
    let (end, past) = (end_ms(deadline, name)?, deadline.is_past(moment.now));
    let event = if past { KeyEvent::HDEL } else { KeyEvent::HEXPIRE };
    if !past && call.session.done == 0 {
        typed::room_to_store(call, 0)?;
    }
    change_each_and_reply(call, (name, event), all, names, |edit, name| expire_field(edit, name, options, end, past))
}

/// Replies with one number for each field: the result of `show`, called with the field's expiry and the current
/// wall-clock time, both in milliseconds since the epoch.
fn reply_expiries<'c>(
    call: &mut Call<'c, '_>,
    command: &'static str,
    all: Args<'c>,
    show: impl Fn(u64, u64) -> u64,
) -> Run {
    let mut args = all;
    let (key, moment) = (call.key(args.next().unwrap_or_default()), call.moment());
    let (now_ms, wall) = (moment.now.0, |ms| moment.to_wall(base::clock::UnixMillis(ms)).0);
    let names = fields(args.next(), args, 1)?;
    let end_of = |bin: Option<Bin<'_>>, now_ms| match bin.map(|bin| bin.end_ms) {
        None => NONE,
        Some(None) => NO_EXPIRY,
        Some(Some(end)) => show(wall(end), wall(now_ms)) as i64,
    };
    if names.len() as u32 > FIELDS_A_SLICE {
        return hash::reply_each(call, command, all, names, |out, bin, now_ms| {
            slices::collect_room(out, 0)?;
            reply::int(out, end_of(bin, now_ms));
            Ok(())
        });
    }
    typed::answer_fits(call, (names.len() + 1) * reply::NUMBER_LINE_BYTES_MAX)?;
    let item = call.guard.items().get(&key);
    let parts = KeyParts::new(call.guard, key);
    let record = record(item.as_ref(), call.ctx.view(), &parts)?;
    reply::array(call.out, names.len() as u64);
    for name in names {
        let bin = record.as_ref().map(|record| record.find(&Name::new(name), now_ms)).transpose()?.flatten();
        reply::int(call.out, end_of(bin, now_ms));
    }
    Ok(())
}

/// Checks that the reply has room for the values of all fields, before the first slice of them is changed. May take
/// several visits, with the key locked.
fn values_fit<'c>(call: &mut Call<'c, '_>, key: &[u8], names: Args<'c>) -> Run {
    if !call.collects_replies || call.session.fits {
        return Ok(());
    }
    let mut left = slices::words_left(call, names);
    while left.len() > 0 {
        let (slice, behind) = left.split(FIELDS_A_SLICE);
        let (key, now_ms) = (call.key(key), call.ctx.view().now_ms);
        let item = call.guard.items().get(&key);
        let parts = KeyParts::new(call.guard, key);
        let record = record(item.as_ref(), call.ctx.view(), &parts)?;
        for name in slice {
            let bin = record.as_ref().map(|record| record.find(&Name::new(name), now_ms)).transpose()?.flatten();
            call.session.sum += bin.map_or(NUMBER_LINE_BYTES_MAX, |bin| reply_bytes(&bin.value)) as i64;
        }
        slices::words_done(call, slice.len() as u32, slice.wire_bytes());
        call.ops += slice.len();
        left = behind;
        if left.len() > 0 && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    slices::collect_room(call.out, call.session.sum as usize + NUMBER_LINE_BYTES_MAX)?;
    (call.session.done, call.session.passed, call.session.sum, call.session.fits) = (0, (0, 0), 0, true);
    Ok(())
}

/// Replies with the values of fields, and calls `each` to change each field that exists. If `removes` is true, a fault
/// after earlier slices were changed ends the command: the reply has null for each field that remains.
fn reply_values_and_change<'c>(
    call: &mut Call<'c, '_>,
    (name, event, removes): (&'static str, KeyEvent, bool),
    all: Args<'c>,
    names: Args<'c>,
    each: impl Fn(&mut Edit<'_>, &Name<'_>) -> Result<bool, ErrorReply>,
) -> Run {
    let key = all.into_iter().next().unwrap_or_default();
    values_fit(call, key, names)?;
    let mut slices = Slices::begin(call, (name, all), key, (names, 1), false)?;
    while let Some((slice, _)) = slices.next(call)? {
        let (room, version) = (call.out.room(), call.session.version);
        call.guard.spare_segments(!removes);
        let replied = typed::edit_record(call, key, None, event, &mut |_, edit, _| {
            let (mut replied, mut changed) = (Vec::new(), false);
            for name in slice {
                let name = Name::new(name);
                match edit.bin(&name)? {
                    None => reply::null(&mut replied, version),
                    Some(bin) => {
                        replied.reserve(reply_bytes(&bin.value));
                        put_text(&mut replied, &bin.value);
                        changed |= each(edit, &name)?;
                    }
                }
            }
            // If the reply does not fit into the output buffer, the record is left unchanged.
            let fits = replied.len() + LINE_ROOM <= room;
            Ok(if fits && changed { Edited::Store(replied) } else { Edited::Keep(replied) })
        });
        call.guard.spare_segments(false);
        let replied = match replied {
            Err(Interrupt::Fault(_)) if removes && call.session.done > 0 => {
                // The room for these lines was checked at the beginning.
                (call.session.done..names.len() as u32).for_each(|_| reply::null(call.out, version));
                return Ok(());
            }
            replied => replied?,
        };
        typed::answer_fits(call, replied.len())?;
        fields_head(call, names.len());
        call.out.push(&replied);
    }
    Ok(())
}

/// Sets the expiry of one field, and returns the number to reply for it.
fn expire_field(
    edit: &mut Edit<'_>,
    name: &Name<'_>,
    options: Options,
    end: u64,
    past: bool,
) -> Result<i64, ErrorReply> {
    let Some(bin) = edit.bin(name)? else { return Ok(NONE) };
    let at = |end| Expire::At(base::clock::UnixMillis(end));
    if !options.allow(bin.end_ms.map_or(Expire::Never, at), at(end)) {
        return Ok(0);
    }
    if past {
        edit.remove(name)?;
        return Ok(2);
    }
    edit.set_end(name, Some(end))?;
    Ok(1)
}

pub(in super::super) fn hexpire<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    expire_fields(call, args, Unit::Seconds, "hexpire")
}

pub(in super::super) fn hpexpire<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    expire_fields(call, args, Unit::Millis, "hpexpire")
}

pub(in super::super) fn hexpireat<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    expire_fields(call, args, Unit::UnixSeconds, "hexpireat")
}

pub(in super::super) fn hpexpireat<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    expire_fields(call, args, Unit::UnixMillis, "hpexpireat")
}

pub(in super::super) fn httl<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    // Rounds up to whole seconds, as Redis does for fields. For keys, Redis rounds to the nearest second.
    reply_expiries(call, "httl", args, |end, now| (end - now).div_ceil(1000))
}

pub(in super::super) fn hpttl<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_expiries(call, "hpttl", args, |end, now| end - now)
}

pub(in super::super) fn hexpiretime<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_expiries(call, "hexpiretime", args, |end, _| end.div_ceil(1000))
}

pub(in super::super) fn hpexpiretime<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_expiries(call, "hpexpiretime", args, |end, _| end)
}

pub(in super::super) fn hpersist<'c>(call: &mut Call<'c, '_>, all: Args<'c>) -> Run {
    let mut args = all.after_first();
    let names = fields(args.next(), args, 1)?;
    change_each_and_reply(call, ("hpersist", KeyEvent::HPERSIST), all, names, |edit, name| {
        Ok(match edit.bin(name)?.map(|bin| bin.end_ms) {
            None => NONE,
            Some(None) => NO_EXPIRY,
            Some(Some(_)) => {
                edit.set_end(name, None)?;
                1
            }
        })
    })
}

pub(in super::super) fn hgetdel<'c>(call: &mut Call<'c, '_>, all: Args<'c>) -> Run {
    let mut args = all.after_first();
    let names = fields(args.next(), args, 1)?;
    reply_values_and_change(call, ("hgetdel", KeyEvent::HDEL, true), all, names, |edit, name| Ok(edit.remove(name)?))
}

pub(in super::super) fn hgetex<'c>(call: &mut Call<'c, '_>, all: Args<'c>) -> Run {
    let mut args = all.after_first();
    let mut word = args.next();
    let mut end = None;
    if let Some(option) = word.map(lower) {
        if option[..] == *b"persist" {
            (end, word) = (Some(None), args.next());
        } else if let Some(at) = option_end(&option, &mut args, call, "hgetex")? {
            (end, word) = (Some(Some(at)), args.next());
        }
    }
    let names = fields(word, args, 1)?;
    let event = if end == Some(None) { KeyEvent::HPERSIST } else { KeyEvent::HEXPIRE };
    reply_values_and_change(call, ("hgetex", event, false), all, names, |edit, name| match end {
        None => Ok(false),
        Some(end) => Ok(edit.set_end(name, end)?),
    })
}

/// The stages of `HSETEX`, which [`super::super::SessionState::sum`] contains. In the first stage, the command checks
/// the condition for each field. In the second stage, it stores the fields. In the third stage, it was refused, because
/// a field does not meet the condition.
const CHECKING: i64 = 0;
const STORING: i64 = 1;
const REFUSED: i64 = 2;

/// The options of `HSETEX`.
#[derive(Clone, Copy, Debug, Default)]
struct SetOptions {
    /// The condition on the key: `false` if it must not exist, `true` if it must exist.
    key_wanted: Option<bool>,
    /// The condition on the fields: `false` if none of them may exist, `true` if all of them must exist.
    wanted: Option<bool>,
    end: Option<u64>,
    keep: bool,
}

impl SetOptions {
    /// Parses the options. Returns the options, and the words that name the fields and their values.
    fn read<'c>(call: &Call<'c, '_>, mut args: Args<'c>) -> Result<(Self, Args<'c>), ErrorReply> {
        let mut options = Self::default();
        loop {
            let word = args.next();
            match word.map(lower).as_deref() {
                Some(b"nx") if options.key_wanted != Some(true) => options.key_wanted = Some(false),
                Some(b"xx") if options.key_wanted != Some(false) => options.key_wanted = Some(true),
                Some(b"fnx") if options.wanted != Some(true) => options.wanted = Some(false),
                Some(b"fxx") if options.wanted != Some(false) => options.wanted = Some(true),
                Some(b"keepttl") if options.end.is_none() && !options.keep => options.keep = true,
                Some(b"fields") | None => return Ok((options, fields(word, args, 2)?)),
                Some(option) => {
                    let free = options.end.is_none() && !options.keep;
                    let end = option_end(option, &mut args, call, "hsetex")?.filter(|_| free);
                    options.end = Some(end.ok_or(ErrorReply::Syntax)?);
                }
            }
        }
    }

    /// Returns true if there is a condition.
    fn has_condition(self) -> bool {
        self.key_wanted.is_some() || self.wanted.is_some()
    }

    /// Returns true if the key, which exists if `exists` is true, or a field does not meet its condition.
    fn refuses(self, exists: bool, edit: &mut Edit<'_>, fields: Args<'_>) -> Result<bool, ErrorReply> {
        if self.key_wanted.is_some_and(|wanted| wanted != exists) {
            return Ok(true);
        }
        let Some(wanted) = self.wanted else { return Ok(false) };
        for (name, _) in Pairs(fields) {
            if wanted != edit.bin(&Name::new(name))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

pub(in super::super) fn hsetex<'c>(call: &mut Call<'c, '_>, all: Args<'c>) -> Run {
    let mut args = all;
    let key = args.next().unwrap_or_default();
    let (options, words) = SetOptions::read(call, args)?;
    if call.collects_replies && call.session.sum == CHECKING && options.has_condition() {
        // The key is locked. The command checks all fields before it stores the first one, so it stores either all
        // fields or none.
        let mut slices = Slices::begin(call, ("hsetex", all), key, (words, 2), true)?;
        while let Some((slice, _)) = slices.next(call)? {
            let is_refused = typed::edit_record(call, key, None, KeyEvent::HSET, &mut |old, edit, _| {
                Ok(Edited::Keep(options.refuses(old.is_some(), edit, slice)?))
            })?;
            if is_refused {
                call.session.sum = REFUSED;
            }
        }
        if call.session.sum == CHECKING {
            call.session.end_request();
            call.session.sum = STORING;
        }
    }
    if call.session.sum == REFUSED {
        call.int(0);
        return Ok(());
    }
    let looks_here = !call.collects_replies;
    let mut slices = Slices::begin(call, ("hsetex", all), key, (words, 2), true)?;
    while let Some((slice, is_first)) = slices.next(call)? {
        // Fields whose end has passed are removed at once, and the key with its last field.
        let has_ended = options.end.is_some_and(|end| end <= call.ctx.now.0);
        let stored = typed::edit_record(call, key, None, KeyEvent::HSET, &mut |old, edit, _| {
            if !is_first && !has_ended && old.is_none() {
                return Ok(Edited::Keep(None));
            }
            if looks_here && options.refuses(old.is_some(), edit, slice)? {
                return Ok(Edited::Keep(Some(false)));
            }
            for (name, value) in Pairs(slice) {
                let name = Name::new(name);
                edit.set(&name, &Value::of_text(value), options.keep)?;
                if options.end.is_some() {
                    edit.set_end(&name, options.end)?;
                }
            }
            Ok(Edited::Store(Some(true)))
        })?;
        match stored {
            Some(true) => {}
            Some(false) => call.session.sum = REFUSED,
            None => return Err(Slices::restart(call)),
        }
    }
    if call.session.sum == REFUSED {
        call.int(0);
        return Ok(());
    }
    string::note_store(call);
    if options.end.is_some() {
        call.changed(KeyEvent::HEXPIRE, key);
    }
    call.int(1);
    Ok(())
}
