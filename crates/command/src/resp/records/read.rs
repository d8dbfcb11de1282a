//! Commands that read records. They read a record in place, without copying it first.

use super::{Bad, bin_name, put_value};
use crate::resp::call::{Call, Run};
use crate::resp::catalog::lower;
use crate::resp::error::ErrorReply;
use crate::resp::hash;
use crate::resp::records;
use crate::resp::typed::{self, KeyParts, record, reply_bytes};
use crate::visit::out::OutBuffer;
use protocol::resp::{Args, Version, reply};
use protocol::sink::Sink;
use record::{Filter, Name, Record, Value};
use segment::{Expire, Item};

/// An upper bound of the bytes that a reply needs for a value in addition to the value itself: the name of its type and
/// the protocol's headers.
const TYPE_BYTES: usize = 32;

/// The names of the requested bins.
#[derive(Clone, Copy)]
pub(super) enum Names<'c> {
    /// The names are words of the request.
    Words(Args<'c>),
    /// The names are in one word, separated by commas.
    Commas(&'c [u8]),
}

impl<'c> Names<'c> {
    pub(super) fn each(self) -> impl Iterator<Item = &'c [u8]> + Clone {
        let (words, commas) = match self {
            Self::Words(args) => (Some(args), None),
            Self::Commas(word) => (None, Some(word.split(|byte| *byte == b','))),
        };
        words.into_iter().flatten().chain(commas.into_iter().flatten())
    }
}

/// The options of a command that reads records. They select the records and bins in the reply, and determine whether
/// the reply contains the types of values.
#[derive(Default)]
pub(super) struct ReadOptions<'c> {
    pub(super) with_types: bool,
    /// The names of the requested bins, or `None` for all bins.
    pub(super) names: Option<Names<'c>>,
    pub(super) filter: Option<Filter<'c>>,
}

impl<'c> ReadOptions<'c> {
    /// Parses `[TYPED] [FILTER filter] [BINS name ...]`. `other` parses any other word before `BINS`, with its
    /// arguments.
    pub(super) fn read(
        mut args: Args<'c>,
        mut other: impl FnMut(&[u8], &mut Args<'c>) -> Result<(), ErrorReply>,
    ) -> Result<Self, Bad<'c>> {
        let mut telling = Self::default();
        while let Some(word) = args.next() {
            match &lower(word)[..] {
                b"typed" => telling.with_types = true,
                b"filter" if telling.filter.is_none() => {
                    telling.filter = Some(Filter::read(args.next().ok_or(ErrorReply::Syntax)?)?);
                }
                b"bins" if args.len() > 0 => {
                    telling.names = Some(Names::Words(args));
                    break;
                }
                word => other(word, &mut args)?,
            }
        }
        telling.check()
    }

    /// Returns the options unchanged, or an error if the name of a bin is empty or too long.
    pub(super) fn check(self) -> Result<Self, Bad<'c>> {
        if let Some(names) = self.names {
            names.each().try_for_each(|name| bin_name(name).map(|_| ()))?;
        }
        Ok(self)
    }

    /// Returns true if the record matches the filter, or there is no filter.
    pub(super) fn takes(&self, record: &Record<'_>, now_ms: u64) -> Result<bool, ErrorReply> {
        Ok(match &self.filter {
            Some(filter) => filter.holds(record, now_ms)?,
            None => true,
        })
    }

    /// Returns the maximum number of bytes that [`ReadOptions::put`] writes.
    pub(super) fn bytes(&self, record: &Record<'_>, now_ms: u64) -> Result<usize, ErrorReply> {
        let replied = |value: &Value<'_>| TYPE_BYTES + reply_bytes(value);
        let mut bytes = 4 * reply::NUMBER_LINE_BYTES_MAX;
        match self.names {
            None => {
                for bin in record.bins(now_ms) {
                    let bin = bin?;
                    bytes += reply_bytes(&bin.name) + replied(&bin.value);
                }
            }
            Some(names) => {
                let mut at = 0;
                for name in names.each() {
                    let bin = record.find_after(&mut at, &Name::new(name), now_ms)?;
                    bytes += 2 * TYPE_BYTES + name.len() + bin.map_or(0, |bin| replied(&bin.value));
                }
            }
        }
        Ok(bytes)
    }

    /// Writes an array of an item's key and its record. The array is one element of a reply with several records.
    pub(super) fn put_with_key(
        &self,
        out: &mut impl Sink,
        version: Version,
        record: &Record<'_>,
        item: &Item<'_>,
        now_ms: u64,
    ) -> Result<(), ErrorReply> {
        reply::array(out, 4);
        reply::bulk(out, item.key);
        self.put(out, version, record, item.expire, now_ms)
    }

    /// Writes the record's revision, expiry and bins.
    pub(super) fn put(
        &self,
        out: &mut impl Sink,
        version: Version,
        record: &Record<'_>,
        expire: Expire,
        now_ms: u64,
    ) -> Result<(), ErrorReply> {
        reply::int(out, record.revision().into());
        reply::int(out, if let Expire::At(at) = expire { at.0 as i64 } else { -1 });
        match self.names {
            None => {
                reply::map(out, version, record.count(now_ms)? as u64);
                for bin in record.bins(now_ms) {
                    let bin = bin?;
                    typed::put_text(out, &bin.name);
                    self.put_bin(out, version, Some(&bin.value));
                }
            }
            Some(names) => {
                reply::map(out, version, names.each().count() as u64);
                let mut at = 0;
                for name in names.each() {
                    reply::bulk(out, name);
                    let bin = record.find_after(&mut at, &Name::new(name), now_ms)?;
                    self.put_bin(out, version, bin.map(|bin| bin.value).as_ref());
                }
            }
        }
        Ok(())
    }

    fn put_bin(&self, out: &mut impl Sink, version: Version, value: Option<&Value<'_>>) {
        let Some(value) = value else {
            reply::null(out, version);
            return;
        };
        if self.with_types {
            reply::array(out, 2);
            reply::bulk(out, value.value_type().name().as_bytes());
        }
        put_value(out, version, value);
    }
}

/// Writes the record of an item. If there is no item, or its record does not match the filter, writes null instead.
/// Returns true if a record was written.
pub(super) fn reply_record(
    out: &mut OutBuffer,
    version: Version,
    bytes_max: usize,
    item: Option<&Item<'_>>,
    view: typed::View<'_>,
    parts: &KeyParts<'_>,
    telling: &ReadOptions<'_>,
) -> Result<bool, crate::resp::call::Interrupt> {
    let found = match record(item, view, parts)? {
        Some(record) if telling.takes(&record, view.now_ms)? => item.map(|item| (record, item.expire)),
        _ => None,
    };
    let Some((record, expire)) = found else {
        reply::null_array(out, version);
        return Ok(false);
    };
    if telling.names.is_some() || !typed::has_room_for_all(out, &record) {
        typed::answer_room(out, bytes_max, telling.bytes(&record, view.now_ms)?)?;
    }
    reply::array(out, 3);
    telling.put(out, version, &record, expire, view.now_ms)?;
    Ok(true)
}

pub(in super::super) fn get<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    typed::at_any_length(call, "rec.get", args, one)
}

fn one<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let bytes = args.next().unwrap_or_default();
    let telling = match ReadOptions::read(args, |_, _| Err(ErrorReply::Syntax)) {
        Ok(telling) => telling,
        Err(bad) => return records::bad(call, bytes, bad),
    };
    let (key, version, bytes_max) = (call.key(bytes), call.session.version, typed::answer_bytes_max(call));
    let item = call.guard.items().get(&key);
    let parts = KeyParts::new(call.guard, key);
    let hit = reply_record(call.out, version, bytes_max, item.as_ref(), call.ctx.view(), &parts, &telling)?;
    call.count_read(hit);
    Ok(())
}

pub(in super::super) fn exists<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    hash::number_of(call, args.next().unwrap_or_default(), |record| Ok(record.revision().into()))
}
