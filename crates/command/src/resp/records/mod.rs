//! Records with typed bins: `REC.*`. What is stored is what hash commands store; here a bin has a type, a record a
//! revision, and an error names the key and the bin.
//!
//! ```text
//!   request ──> key, Options (when to), Op, Op ... (what to) ──> one change of one item, or an error and none
//! ```

mod batch;
mod given;
pub(super) mod index;
mod operate;
mod ops;
mod query;
mod read;
mod walk;

pub(super) use batch::{mget, mput};
pub(super) use index::index;
pub(super) use operate::{add, append, del, operate, put, touch};
pub(super) use query::query;
pub(super) use read::{exists, get};
pub(super) use walk::{scan, sets, truncate};

use super::catalog::lower;
use super::error::{ErrorReply, Line, shown};
use super::expire::{Deadline, Unit};
use super::number::{float, integer};
use crate::resp::call::{Call, Run};
use crate::visit::clock::Moment;
use base::clock::UnixMillis;
use protocol::number::Decimal;
use protocol::resp::{Args, Version, reply};
use protocol::sink::Sink;
use record::{
    BIN_NAME_BYTES_MAX, Damaged, Filter, FilterError, InSet, Record, SET_NAME_BYTES_MAX, Sets, Value, ValueType,
};
use segment::Expire;

/// Why a record is left as it is. The connection goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Refusal<'c> {
    /// There is none.
    NotFound,
    /// There is one.
    Exists,
    /// Its revision is another one than was asked for.
    Revision(u32, Check),
    /// The bin holds a value of the first type, where one of the second is needed.
    BinType(&'c [u8], ValueType, ValueType),
    /// The sum is not a value of that type.
    BinRange(&'c [u8], ValueType),
    /// There is nothing to be added to, or put behind, a value of this type.
    BinOperation(&'c [u8], ValueType),
    /// The text is no value of the type.
    BinValue(&'c [u8], ValueType),
    /// There is no such type.
    UnknownType(&'c [u8], &'c [u8]),
    /// No name, or one that is too long.
    BinName(&'c [u8]),
    /// It is of another set, or of none, than was asked for.
    OtherSet(Option<u16>, u16),
    /// The record does not match the filter.
    Filtered,
    /// The list in the bin has so many values, and none there.
    BinIndex(&'c [u8], i64, usize),
    /// Lists and maps in each other, too deep.
    BinDepth(&'c [u8]),
}

/// A condition on the revision; a record that is not there has revision 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Equal(u32),
    Greater(u32),
}

/// Bytes of a key, a bin's name or a value that an error repeats.
const SHOWN_MAX: usize = 96;

impl Refusal<'_> {
    /// Puts the error line.
    #[cold]
    fn write(self, out: &mut crate::visit::out::OutBuffer, sets: &Sets, key: &[u8]) {
        let mut line = Line::new();
        let (code, bin) = match self {
            Self::NotFound => ("NOTFOUND", None),
            Self::Exists => ("EXISTS", None),
            Self::Revision(..) => ("REVISION", None),
            Self::OtherSet(..) => ("RECORDSET", None),
            Self::Filtered => ("FILTERED", None),
            Self::BinIndex(bin, ..) => ("BINRANGE", Some(bin)),
            Self::BinDepth(bin) => ("BINVALUE", Some(bin)),
            Self::BinType(bin, ..) | Self::BinOperation(bin, _) => ("BINTYPE", Some(bin)),
            Self::BinRange(bin, _) => ("BINRANGE", Some(bin)),
            Self::BinValue(bin, _) | Self::UnknownType(bin, _) => ("BINVALUE", Some(bin)),
            Self::BinName(bin) => ("BINNAME", Some(bin)),
        };
        let mut put = |text: &str| line.put(text.as_bytes());
        put(code);
        put(" record '");
        shown(&mut line, key, SHOWN_MAX);
        if let Some(bin) = bin {
            line.put(b"', bin '");
            shown(&mut line, bin, SHOWN_MAX);
        }
        line.put(b"': ");
        self.write_reason(sets, &mut line);
        reply::error(out, line.as_slice());
    }

    fn write_reason(self, sets: &Sets, line: &mut Line) {
        let mut put = |text: &str| line.put(text.as_bytes());
        match self {
            Self::NotFound => put("it is not there"),
            Self::Exists => put("it is there"),
            Self::Revision(has, check) => {
                let (words, number) = match check {
                    Check::Equal(wanted) => (", not ", wanted),
                    Check::Greater(most) => (", not above ", most),
                };
                put("its revision is ");
                line.put(Decimal::new(has.into()).as_slice());
                line.put(words.as_bytes());
                line.put(Decimal::new(number.into()).as_slice());
            }
            Self::BinType(_, has, wanted) => {
                ["it holds ", has.name(), ", not ", wanted.name()].into_iter().for_each(put)
            }
            Self::BinOperation(_, given) => {
                put(given.name());
                put(" is no type for this operation");
            }
            Self::BinRange(_, wanted) => {
                put("the sum is out of the range of ");
                put(wanted.name());
            }
            Self::BinValue(_, wanted) => {
                put("what is given is no ");
                put(wanted.name());
            }
            Self::UnknownType(_, word) => {
                put("there is no type '");
                shown(line, word, SHOWN_MAX);
                line.put(b"', but INT, FLOAT, BOOL, STR, BYTES, LIST and MAP");
            }
            Self::BinName(_) => put("a name has 1 to 63 bytes"),
            Self::OtherSet(has, wanted) => {
                for (words, set) in [("it is of ", has), (", not ", Some(wanted))] {
                    line.put(words.as_bytes());
                    match set.and_then(|set| sets.of(set)) {
                        None => line.put(b"no set"),
                        Some(set) => {
                            line.put(b"set '");
                            shown(line, set.name(), SHOWN_MAX);
                            line.put(b"'");
                        }
                    }
                }
            }
            Self::Filtered => put("the filter does not hold"),
            Self::BinIndex(_, index, values) => {
                put("its list has ");
                line.put(Decimal::new(values as u64).as_slice());
                line.put(b" values, and none at ");
                line.put(if index < 0 { b"-" } else { b"" });
                line.put(Decimal::new(index.unsigned_abs()).as_slice());
            }
            Self::BinDepth(_) => put("lists and maps cannot be nested more than 8 deep"),
        }
    }
}

const _: () = assert!(BIN_NAME_BYTES_MAX == 63 && SET_NAME_BYTES_MAX == 63, "the error says so");
const _: () = assert!(record::DEPTH_MAX == 8 && record::SETS_MAX == 1023, "the error says so");

/// The reason why a request fails.
enum Bad<'c> {
    Refusal(Refusal<'c>),
    Fault(ErrorReply),
    Filter(FilterError),
}

impl From<FilterError> for Bad<'_> {
    fn from(error: FilterError) -> Self {
        Self::Filter(error)
    }
}

impl From<Damaged> for Bad<'_> {
    fn from(_: Damaged) -> Self {
        Self::Fault(ErrorReply::Damaged)
    }
}

impl<'c> From<Refusal<'c>> for Bad<'c> {
    fn from(refusal: Refusal<'c>) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<ErrorReply> for Bad<'_> {
    fn from(fault: ErrorReply) -> Self {
        Self::Fault(fault)
    }
}

/// Answers a request that was not begun.
fn bad(call: &mut Call<'_, '_>, key: &[u8], bad: Bad<'_>) -> Run {
    match bad {
        Bad::Fault(fault) => Err(fault.into()),
        Bad::Refusal(refusal) => {
            refusal.write(call.out, &call.ctx.shared.sets, key);
            Ok(())
        }
        Bad::Filter(error) => {
            reply::error(call.out, format!("ERR {error}").as_bytes());
            Ok(())
        }
    }
}

/// The conditions of a change of a record, and its expiry afterwards.
#[derive(Debug, Default)]
struct Options<'c> {
    presence: Option<Presence>,
    check: Option<Check>,
    expire: Option<Expire>,
    /// The name of the set that it is of, or shall be.
    set: Option<&'c [u8]>,
    filter: Option<Filter<'c>>,
}

/// The condition on the record's existence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// Nothing.
    Create,
    /// A record.
    Update,
    /// Whatever it is: its other bins go.
    Replace,
}

impl<'c> Options<'c> {
    /// Reads options up to the word `until`, in small letters, or to the end if that is empty.
    fn read(args: &mut Args<'c>, until: &[u8], moment: Moment, command: &'static str) -> Result<Self, Bad<'c>> {
        let mut options = Self::default();
        loop {
            let Some(word) = args.next().map(lower) else {
                return if until.is_empty() { Ok(options) } else { Err(ErrorReply::Syntax.into()) };
            };
            match &word[..] {
                word if word == until => return Ok(options),
                b"create" if options.presence.is_none() => options.presence = Some(Presence::Create),
                b"update" if options.presence.is_none() => options.presence = Some(Presence::Update),
                b"replace" if options.presence.is_none() => options.presence = Some(Presence::Replace),
                b"ifrev" if options.check.is_none() => options.check = Some(Check::Equal(revision(args)?)),
                b"ifgt" if options.check.is_none() => options.check = Some(Check::Greater(revision(args)?)),
                b"persist" if options.expire.is_none() => options.expire = Some(Expire::Never),
                b"in" if options.set.is_none() => options.set = Some(set_name(args.next())?),
                b"filter" if options.filter.is_none() => {
                    options.filter = Some(Filter::read(args.next().ok_or(ErrorReply::Syntax)?)?);
                }
                word => {
                    let unit = Unit::of(word).filter(|_| options.expire.is_none()).ok_or(ErrorReply::Syntax)?;
                    let text = args.next().ok_or(ErrorReply::Syntax)?;
                    options.expire = Some(Deadline::positive(text, unit, moment, command)?.expire());
                }
            }
        }
    }

    /// Returns whether the existing value may be changed. `set` is the number of the set that it must belong to.
    fn allow(&self, old: Option<&Record<'_>>, set: Option<u16>, now: UnixMillis) -> Result<(), Bad<'static>> {
        self.allow_revision(old.map_or(0, Record::revision))?;
        if let (Some(old), Some(wanted)) = (old, set) {
            let has = old.set().map(|set: InSet<'_>| set.set().number());
            if has != Some(wanted) {
                return Err(Refusal::OtherSet(has, wanted).into());
            }
        }
        match (&self.filter, old) {
            (Some(filter), Some(old)) if !filter.holds(old, now.0)? => Err(Refusal::Filtered.into()),
            _ => Ok(()),
        }
    }

    fn allow_revision(&self, revision: u32) -> Result<(), Refusal<'static>> {
        match self.presence {
            Some(Presence::Create) if revision != 0 => return Err(Refusal::Exists),
            Some(Presence::Update) if revision == 0 => return Err(Refusal::NotFound),
            _ => {}
        }
        match self.check {
            Some(Check::Equal(wanted)) if revision != wanted => Err(Refusal::Revision(revision, Check::Equal(wanted))),
            Some(Check::Greater(most)) if revision <= most => Err(Refusal::Revision(revision, Check::Greater(most))),
            _ => Ok(()),
        }
    }
}

/// The name of a set, as a request may have it.
fn set_name(word: Option<&[u8]>) -> Result<&[u8], ErrorReply> {
    let name = word.ok_or(ErrorReply::Syntax)?;
    if (1..=SET_NAME_BYTES_MAX).contains(&name.len()) { Ok(name) } else { Err(ErrorReply::SetName) }
}

fn revision(args: &mut Args<'_>) -> Result<u32, ErrorReply> {
    u32::try_from(integer(args.next().ok_or(ErrorReply::Syntax)?)?).map_err(|_| ErrorReply::NotInteger)
}

/// A bin's name, as a request may have it.
fn bin_name(name: &[u8]) -> Result<&[u8], Refusal<'_>> {
    if (1..=BIN_NAME_BYTES_MAX).contains(&name.len()) { Ok(name) } else { Err(Refusal::BinName(name)) }
}

/// The value that `text` is, of the type that `word` names.
fn typed<'c>(bin: &'c [u8], word: &'c [u8], text: &'c [u8]) -> Result<Value<'c>, Refusal<'c>> {
    let wanted = ValueType::of(word).ok_or(Refusal::UnknownType(bin, word))?;
    let value = match wanted {
        ValueType::Integer => integer(text).ok().map(Value::Integer),
        ValueType::Float => float(text).ok().filter(|number| number.is_finite()).map(Value::Float),
        ValueType::Bool => match &lower(text)[..] {
            b"1" | b"true" => Some(Value::Bool(true)),
            b"0" | b"false" => Some(Value::Bool(false)),
            _ => None,
        },
        ValueType::Text => Some(Value::Text(text)),
        ValueType::Bytes => Some(Value::Bytes(text)),
        ValueType::List | ValueType::Map => None,
    };
    value.ok_or(Refusal::BinValue(bin, wanted))
}

/// Puts a value as what it is, as far as the protocol's version has a word for it.
fn put_value(to: &mut impl Sink, version: Version, value: &Value<'_>) {
    match *value {
        Value::Integer(number) => reply::int(to, number),
        Value::Float(number) => reply::double(to, version, number),
        Value::Bool(value) => reply::boolean(to, version, value),
        Value::Text(bytes) | Value::Bytes(bytes) => reply::bulk(to, bytes),
        Value::List(list) => {
            reply::array(to, list.values().count() as u64);
            list.values().for_each(|value| put_value(to, version, &value));
        }
        Value::Map(map) => {
            reply::map(to, version, map.pairs().count() as u64);
            for (key, value) in map.pairs() {
                super::typed::put_text(to, &key);
                put_value(to, version, &value);
            }
        }
    }
}
