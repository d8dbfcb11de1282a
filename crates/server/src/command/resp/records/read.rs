//! What reads records: where they lie, without a copy.

use super::{bin_name, put_value};
use crate::command::resp::error::Fault;
use crate::command::resp::table::lower;
use crate::command::resp::typed::{self, record, told_bytes};
use crate::command::resp::{Call, Run};
use protocol::resp::{Args, Version, reply};
use record::{Name, Value};
use segment::Expire;

/// The line of a type's name, and what stands around it and a value.
const TYPE_BYTES: usize = 32;

pub(in super::super) fn get<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let bytes = args.next().unwrap_or_default();
    let (mut with_types, mut wanted) = (false, None);
    while let Some(word) = args.next() {
        match &lower(word)[..] {
            b"typed" => with_types = true,
            b"bins" if args.len() > 0 => {
                wanted = Some(args);
                break;
            }
            _ => return Err(Fault::Syntax.into()),
        }
    }
    if let Some(Err(refusal)) =
        wanted.and_then(|mut names| names.find_map(|name| bin_name(name).err().map(Err::<(), _>)))
    {
        refusal.say(call.out, bytes);
        return Ok(());
    }
    let (key, now_ms, version) = (call.key(bytes), call.ctx.now.0, call.session.version);
    let item = call.turn.get(&key);
    let Some(record) = record(item.as_ref(), now_ms)? else {
        reply::null_array(call.out, version);
        call.note_read(false);
        return Ok(());
    };
    let ends = match item.map(|item| item.expire) {
        Some(Expire::At(at)) => at.0 as i64,
        _ => -1,
    };
    let told = |value: &Value<'_>| TYPE_BYTES + told_bytes(value);
    let out = &mut *call.out;
    let head = |out: &mut crate::out::OutBuffer, bins: u64| {
        reply::array(out, 3);
        reply::int(out, record.revision().into());
        reply::int(out, ends);
        reply::map(out, version, bins);
    };
    match wanted {
        None => {
            let (bins, room) = record.bins(now_ms).try_fold((0, 0), |(bins, room), bin| {
                bin.map(|bin| (bins + 1, room + told_bytes(&bin.name) + told(&bin.value)))
            })?;
            typed::answer_room(out, call.ctx.request_bytes_max, room)?;
            head(out, bins);
            for bin in record.bins(now_ms) {
                let bin = bin?;
                typed::put_text(out, &bin.name);
                put_bin(out, version, Some(&bin.value), with_types);
            }
        }
        Some(names) => {
            let found = |name| Ok::<_, Fault>(record.find(&Name::new(name), now_ms)?.map(|bin| bin.value));
            let room = names.into_iter().try_fold(0, |room, name| {
                Ok::<_, Fault>(room + 2 * TYPE_BYTES + name.len() + found(name)?.as_ref().map_or(0, told))
            })?;
            typed::answer_room(out, call.ctx.request_bytes_max, room)?;
            head(out, names.len() as u64);
            for name in names {
                reply::bulk(out, name);
                put_bin(out, version, found(name)?.as_ref(), with_types);
            }
        }
    }
    call.note_read(true);
    Ok(())
}

fn put_bin(out: &mut crate::out::OutBuffer, version: Version, value: Option<&Value<'_>>, with_type: bool) {
    let Some(value) = value else {
        reply::null(out, version);
        return;
    };
    if with_type {
        reply::array(out, 2);
        reply::bulk(out, value.value_type().name().as_bytes());
    }
    put_value(out, version, value);
}

pub(in super::super) fn exists<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    call.number_of(args.next().unwrap_or_default(), |record| Ok(record.revision().into()))
}
