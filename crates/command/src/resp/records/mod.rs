//! The commands `REC.*`, which access records with typed bins. They store items in the same format as hash commands. In
//! addition, they return the types of bins and the revisions of records, and their error replies contain the key and
//! the name of the bin.
//!
//! ```text
//!   request ──> key, Options (conditions), list of Op (operations) ──> a change of one item, or an error and no change
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

/// The reason why a command leaves a record unchanged. The connection stays open.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Refusal<'c> {
    /// The record does not exist.
    NotFound,
    /// The record already exists.
    Exists,
    /// The record's revision, and the condition that it does not meet.
    Revision(u32, Check),
    /// The bin's name, the type of its value, and the type that the operation requires.
    BinType(&'c [u8], ValueType, ValueType),
    /// The bin's name, and the type whose range the sum exceeds.
    BinRange(&'c [u8], ValueType),
    /// The bin's name, and a type whose values cannot be added or appended.
    BinOperation(&'c [u8], ValueType),
    /// The bin's name, and the requested type. The given text is not a value of this type.
    BinValue(&'c [u8], ValueType),
    /// The bin's name, and a word that is not the name of a type.
    UnknownType(&'c [u8], &'c [u8]),
    /// A bin name or map key that is empty or too long.
    BinName(&'c [u8]),
    /// The number of the record's set (`None` if the record is in no set), and the number of the requested set.
    OtherSet(Option<u16>, u16),
    /// The record does not match the filter.
    Filtered,
    /// The bin's name, an index outside the bin's list, and the number of values in the list.
    BinIndex(&'c [u8], i64, usize),
    /// The name of a bin whose lists and maps are nested too deep.
    BinDepth(&'c [u8]),
}

/// A condition on a record's revision. A record that does not exist has revision 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Equal(u32),
    Greater(u32),
}

/// The maximum number of bytes of a key, bin name or value that an error reply quotes.
const SHOWN_MAX: usize = 96;

impl Refusal<'_> {
    /// Writes the error reply.
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
            Self::NotFound => put("it does not exist"),
            Self::Exists => put("it already exists"),
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
                put(" is not supported by this operation");
            }
            Self::BinRange(_, wanted) => {
                put("the sum is out of the range of ");
                put(wanted.name());
            }
            Self::BinValue(_, wanted) => {
                put("the given value is not of type ");
                put(wanted.name());
            }
            Self::UnknownType(_, word) => {
                put("unknown type '");
                shown(line, word, SHOWN_MAX);
                line.put(b"'; the types are INT, FLOAT, BOOL, STR, BYTES, LIST and MAP");
            }
            Self::BinName(_) => put("a name must have 1 to 63 bytes"),
            Self::OtherSet(has, wanted) => {
                for (words, set) in [("it belongs to ", has), (", not to ", Some(wanted))] {
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
            Self::Filtered => put("it does not match the filter"),
            Self::BinIndex(_, index, values) => {
                put("its list has ");
                line.put(Decimal::new(values as u64).as_slice());
                line.put(b" values, none at index ");
                line.put(if index < 0 { b"-" } else { b"" });
                line.put(Decimal::new(index.unsigned_abs()).as_slice());
            }
            Self::BinDepth(_) => put("lists and maps cannot be nested more than 8 deep"),
        }
    }
}

const _: () = assert!(BIN_NAME_BYTES_MAX == 63 && SET_NAME_BYTES_MAX == 63, "the error says so");
const _: () = assert!(record::DEPTH_MAX == 8 && record::SETS_MAX == 1023, "the error says so");

/// The reason why a request fails. Each kind of reason has its own form of error reply.
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

/// Writes the error reply of a request that was not executed.
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

/// The conditions under which a command changes a record, and the record's new expiry.
#[derive(Debug, Default)]
struct Options<'c> {
    presence: Option<Presence>,
    check: Option<Check>,
    expire: Option<Expire>,
    /// The name of a set. An existing record must belong to this set, and a new record is added to it.
    set: Option<&'c [u8]>,
    filter: Option<Filter<'c>>,
}

/// The condition on the record's existence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// The record must not exist.
    Create,
    /// The record must exist.
    Update,
    /// There is no condition. If the record exists, the command removes its previous bins.
    Replace,
}

impl<'c> Options<'c> {
    /// Parses options up to the word `until`, or up to the end of the request if `until` is empty. `until` is in lower
    /// case.
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

    /// Returns an error if the existing record `old` does not meet the conditions. `set` is the number of the set that
    /// the record must belong to.
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

/// Returns the name of a set from a request, or an error if the name is missing, empty or too long.
fn set_name(word: Option<&[u8]>) -> Result<&[u8], ErrorReply> {
    let name = word.ok_or(ErrorReply::Syntax)?;
    if (1..=SET_NAME_BYTES_MAX).contains(&name.len()) { Ok(name) } else { Err(ErrorReply::SetName) }
}

fn revision(args: &mut Args<'_>) -> Result<u32, ErrorReply> {
    u32::try_from(integer(args.next().ok_or(ErrorReply::Syntax)?)?).map_err(|_| ErrorReply::NotInteger)
}

/// Returns a bin name or a map key from a request unchanged, or an error if it is empty or too long.
fn bin_name(name: &[u8]) -> Result<&[u8], Refusal<'_>> {
    if (1..=BIN_NAME_BYTES_MAX).contains(&name.len()) { Ok(name) } else { Err(Refusal::BinName(name)) }
}

/// Parses `text` as a value of the type that `word` names.
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

/// Writes a value. Uses the reply type that corresponds to the value's type, if the session's version of the protocol
/// has such a reply type.
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
