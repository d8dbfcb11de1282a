//! Hashes: records of which every bin is told as text. Reads are made where the record lies.

mod change;
mod ends;
mod scan;

pub(super) use change::{hdel, hincrby, hincrbyfloat, hmset, hset, hsetnx};
pub(super) use ends::{
    hexpire, hexpireat, hexpiretime, hgetdel, hgetex, hpersist, hpexpire, hpexpireat, hpexpiretime, hpttl, hsetex, httl,
};
pub(super) use scan::{hrandfield, hscan};

use super::typed::{self, KeyParts, put_texts, record};
use super::{Call, Run, Stop};
use protocol::resp::{Args, reply};
use record::{Name, Record};

/// What is told of each field of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telling {
    Names,
    Values,
    Both,
}

impl<'c> Call<'c, '_> {
    /// Gives `look` the record under a key, if there is one, counts the read, and answers with the number it makes.
    pub(super) fn number_of(&mut self, bytes: &[u8], look: impl FnOnce(Record<'_>) -> Result<i64, Stop>) -> Run {
        let key = self.key(bytes);
        let item = self.turn.get(&key);
        let parts = KeyParts::new(self.turn, key);
        let told = record(item.as_ref(), self.ctx.view(), &parts)?.map(look).transpose()?;
        self.note_read(told.is_some());
        self.int(told.unwrap_or(0));
        Ok(())
    }

    fn tell_all(&mut self, name: &'static str, args: Args<'c>, telling: Telling) -> Run {
        self.at_any_length(name, args, |call, args| call.tell_all_here(args, telling))
    }

    fn tell_all_here(&mut self, mut args: Args<'c>, telling: Telling) -> Run {
        let (key, now_ms) = (self.key(args.next().unwrap_or_default()), self.ctx.now.0);
        let (version, bytes_max) = (self.session.version, self.answer_bytes_max());
        let item = self.turn.get(&key);
        let parts = KeyParts::new(self.turn, key);
        let record = record(item.as_ref(), self.ctx.view(), &parts)?;
        let fields = record.as_ref().map_or(Ok(0), |record| record.count(now_ms))? as u64;
        match telling {
            Telling::Both => reply::map(self.out, version, fields),
            _ => reply::array(self.out, fields),
        }
        if let Some(record) = record.as_ref().filter(|record| typed::has_room_for_all(self.out, record)) {
            for bin in record.bins(now_ms) {
                let bin = bin?;
                if telling != Telling::Values {
                    typed::put_text(self.out, &bin.name);
                }
                if telling != Telling::Names {
                    typed::put_text(self.out, &bin.value);
                }
            }
        } else if let Some(record) = &record {
            let parts = record.bins(now_ms).flat_map(|bin| {
                let (name, value) = match bin {
                    Ok(bin) => (Ok(Some(bin.name)), Ok(Some(bin.value))),
                    Err(damaged) => (Err(damaged), Err(damaged)),
                };
                [(telling != Telling::Values).then_some(name), (telling != Telling::Names).then_some(value)]
            });
            put_texts(self.out, version, bytes_max, parts.flatten())?;
        }
        let hit = record.is_some();
        self.note_read(hit);
        Ok(())
    }
}

pub(super) fn hgetall<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.tell_all("hgetall", args, Telling::Both)
}

pub(super) fn hkeys<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.tell_all("hkeys", args, Telling::Names)
}

pub(super) fn hvals<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.tell_all("hvals", args, Telling::Values)
}

/// `HGET` and `HMGET`: some fields of a hash, each null where there is none.
fn tell_some<'c>(call: &mut Call<'c, '_>, bytes: &[u8], names: Args<'c>) -> Run {
    let (key, now_ms, bytes_max) = (call.key(bytes), call.ctx.now.0, call.answer_bytes_max());
    let item = call.turn.get(&key);
    let parts = KeyParts::new(call.turn, key);
    let record = record(item.as_ref(), call.ctx.view(), &parts)?;
    let (record, mut at) = (record.as_ref(), 0);
    let values = names.map(move |name| match record {
        Some(record) => Ok(record.find_behind(&mut at, &Name::new(name), now_ms)?.map(|bin| bin.value)),
        None => Ok(None),
    });
    put_texts(call.out, call.session.version, bytes_max, values)?;
    let hit = record.is_some();
    call.note_read(hit);
    Ok(())
}

pub(super) fn hget<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let key = args.next().unwrap_or_default();
    tell_some(call, key, args)
}

pub(super) fn hmget<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.at_any_length("hmget", args, |call, mut args| {
        let key = args.next().unwrap_or_default();
        reply::array(call.out, args.len() as u64);
        tell_some(call, key, args)
    })
}

pub(super) fn hexists<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (key, name, now_ms) = (args.next().unwrap_or_default(), args.next().unwrap_or_default(), call.ctx.now.0);
    call.number_of(key, |record| Ok(record.find(&Name::new(name), now_ms)?.is_some().into()))
}

pub(super) fn hlen<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (key, now_ms) = (args.next().unwrap_or_default(), call.ctx.now.0);
    call.sweep_ended(key)?;
    call.number_of(key, |record| Ok(record.count(now_ms)? as i64))
}

pub(super) fn hstrlen<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (key, name, now_ms) = (args.next().unwrap_or_default(), args.next().unwrap_or_default(), call.ctx.now.0);
    call.number_of(key, |record| {
        let bin = record.find(&Name::new(name), now_ms)?;
        Ok(bin.map_or(0, |bin| bin.value.text(&mut record::Digits::new()).len()) as i64)
    })
}
