//! Commands that change fields of a hash.

use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::error::ErrorReply;
use crate::resp::number::{float, integer, put_float};
use crate::resp::pairs::Pairs;
use crate::resp::slices::Slices;
use crate::resp::string;
use crate::resp::typed;
use crate::resp::typed::Edited;
use protocol::resp::{Args, reply};
use record::{Digits, Name, Value};

/// Stores fields. Returns the number of new fields.
fn set<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>, name: &'static str) -> Result<usize, Interrupt> {
    let all = args;
    let key = args.next().unwrap_or_default();
    if !args.len().is_multiple_of(2) {
        return Err(ErrorReply::Arity(name).into());
    }
    let mut slices = Slices::begin(call, (name, all), key, (args, 2), true)?;
    while let Some((pairs, is_first)) = slices.next(call)? {
        let added = typed::edit_record(call, key, None, KeyEvent::HSET, &mut |old, edit, _| {
            if !is_first && old.is_none() {
                // The key was removed after an earlier visit of this command stored fields in it. The command restarts.
                return Ok(Edited::Keep(None));
            }
            Ok(Edited::Store(Some(edit.set_all(Pairs(pairs))?)))
        })?;
        let Some(added) = added else { return Err(Slices::restart(call)) };
        call.session.sum += added as i64;
    }
    string::note_store(call);
    Ok(call.session.sum as usize)
}

pub(in super::super) fn hset<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let added = set(call, args, "hset")?;
    call.int(added as i64);
    Ok(())
}

pub(in super::super) fn hmset<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    set(call, args, "hmset")?;
    call.out.push(reply::OK);
    Ok(())
}

pub(in super::super) fn hsetnx<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let [key, name, value] = [(); 3].map(|()| args.next().unwrap_or_default());
    typed::room_to_store(call, 0)?;
    let (name, value) = (Name::new(name), Value::of_text(value));
    let stored = typed::edit_record(call, key, None, KeyEvent::HSET, &mut |_, edit, _| {
        if edit.bin(&name)?.is_some() {
            return Ok(Edited::Keep(false));
        }
        edit.set(&name, &value, false)?;
        Ok(Edited::Store(true))
    })?;
    if stored {
        string::note_store(call);
    }
    call.int(stored.into());
    Ok(())
}

pub(in super::super) fn hdel<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let all = args;
    let key = args.next().unwrap_or_default();
    let mut slices = Slices::begin(call, ("hdel", all), key, (args, 1), false)?;
    while let Some((names, _)) = slices.next(call)? {
        call.session.sum += typed::edit_record(call, key, None, KeyEvent::HDEL, &mut |_, edit, _| {
            let mut removed = 0;
            for name in names {
                removed += i64::from(edit.remove(&Name::new(name))?);
            }
            Ok(if removed > 0 { Edited::Store(removed) } else { Edited::Keep(0) })
        })?;
    }
    call.int(call.session.sum);
    Ok(())
}

pub(in super::super) fn hincrby<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let [key, name, delta] = [(); 3].map(|()| args.next().unwrap_or_default());
    let delta = integer(delta)?;
    typed::room_to_store(call, 0)?;
    let name = Name::new(name);
    let sum = typed::edit_record(call, key, None, KeyEvent::HINCRBY, &mut |_, edit, _| {
        let present = match edit.bin(&name)?.map(|bin| bin.value) {
            None => 0,
            // A record command may have stored the number as text, so the text is parsed.
            Some(value) => integer(value.text(&mut Digits::new())).map_err(|_| ErrorReply::FieldNotInteger)?,
        };
        let sum = present.checked_add(delta).ok_or(ErrorReply::Overflow)?;
        edit.set(&name, &Value::Integer(sum), true)?;
        Ok(Edited::Store(sum))
    })?;
    string::note_store(call);
    call.int(sum);
    Ok(())
}

pub(in super::super) fn hincrbyfloat<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let [key, name, delta] = [(); 3].map(|()| args.next().unwrap_or_default());
    let delta = float(delta)?;
    typed::room_to_store(call, 0)?;
    if delta.is_infinite() {
        return Err(ErrorReply::InfiniteDelta.into());
    }
    let name = Name::new(name);
    let sum = typed::edit_record(call, key, None, KeyEvent::HINCRBYFLOAT, &mut |_, edit, _| {
        let present = match edit.bin(&name)?.map(|bin| bin.value) {
            None => 0.0,
            Some(value) => float(value.text(&mut Digits::new())).map_err(|_| ErrorReply::FieldNotFloat)?,
        };
        let sum = present + delta;
        if !sum.is_finite() {
            return Err(ErrorReply::NotFinite);
        }
        let mut text = Vec::new();
        put_float(&mut text, sum);
        edit.set(&name, &Value::of_text(&text), true)?;
        Ok(Edited::Store(text))
    })?;
    string::note_store(call);
    reply::bulk(call.out, &sum);
    Ok(())
}
