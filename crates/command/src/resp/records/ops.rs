//! Operations on the bins of a record. The operations of a command are executed in order. Each operation sees the
//! changes of the previous ones.

use super::given::Given;
use super::{Bad, Refusal, bin_name, put_value};
use crate::resp::catalog::lower;
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use protocol::resp::{Args, Version, reply};
use record::{Damaged, Edit, List, Map, Name, Value, ValueType};

/// An operation on a bin.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Op<'c> {
    /// Stores the value in the bin.
    Put(&'c [u8], Given<'c>),
    /// Adds a number to the bin's value, or to 0 if the bin does not exist.
    Add(&'c [u8], Value<'c>),
    /// Appends text or bytes to the bin's value.
    Append(&'c [u8], Value<'c>),
    /// Prepends text or bytes to the bin's value.
    Prepend(&'c [u8], Value<'c>),
    /// Removes the bin.
    Delete(&'c [u8]),
    /// Returns the bin.
    Get(&'c [u8]),
    /// Reads or changes the list in the bin.
    List(&'c [u8], ListOp<'c>),
    /// Reads or changes the map in the bin.
    Map(&'c [u8], MapOp<'c>),
}

/// An operation on a list. A negative index counts from the end of the list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ListOp<'c> {
    Append(Given<'c>),
    Insert(i64, Given<'c>),
    Set(i64, Given<'c>),
    Get(i64),
    Pop(i64),
    /// Retains the given number of values, beginning at the given index, and removes all other values.
    Trim(i64, usize),
    Size,
}

/// An operation on a map.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MapOp<'c> {
    Put(&'c [u8], Given<'c>),
    Add(&'c [u8], Value<'c>),
    Get(&'c [u8]),
    Delete(&'c [u8]),
    Size,
}

impl<'c> Op<'c> {
    /// Parses one operation. `word` is the operation's name, and its arguments are the next words of `args`.
    fn read(word: &[u8], args: &mut Args<'c>) -> Result<Self, Bad<'c>> {
        let word = lower(word);
        let bin = bin_name(args.next().ok_or(ErrorReply::Syntax)?)?;
        Ok(match &word[..] {
            b"put" => Self::Put(bin, Given::read(bin, args)?),
            b"add" => Self::Add(bin, Given::read_number(bin, args)?),
            b"append" => Self::Append(bin, Given::read_text(bin, args)?),
            b"prepend" => Self::Prepend(bin, Given::read_text(bin, args)?),
            b"del" => Self::Delete(bin),
            b"get" => Self::Get(bin),
            [b'l', word @ ..] => Self::List(bin, ListOp::read(word, bin, args)?),
            [b'm', word @ ..] => Self::Map(bin, MapOp::read(word, bin, args)?),
            _ => return Err(ErrorReply::Syntax.into()),
        })
    }

    /// Parses all operations up to the end of the request. If `word` is given, it is the name of every operation, and
    /// `args` contains only the arguments of the operations.
    pub(super) fn read_all(word: Option<&[u8]>, mut args: Args<'c>) -> Result<Vec<Self>, Bad<'c>> {
        let mut ops = Vec::with_capacity(args.len() / 2);
        while args.len() > 0 {
            let word = word.unwrap_or_else(|| args.next().unwrap_or_default());
            ops.push(Self::read(word, &mut args)?);
        }
        if ops.is_empty() { Err(ErrorReply::Syntax.into()) } else { Ok(ops) }
    }

    /// Returns true if the operation may change the record.
    pub(super) fn writes(&self) -> bool {
        use {ListOp as L, MapOp as M};
        !matches!(self, Self::Get(_) | Self::List(_, L::Get(_) | L::Size) | Self::Map(_, M::Get(_) | M::Size))
    }

    /// Executes the operation and writes its reply. Returns true if the record was changed.
    pub(super) fn apply(
        &self,
        edit: &mut Edit<'_>,
        replied: &mut Vec<u8>,
        version: Version,
    ) -> Result<bool, Stopped<'c>> {
        match self {
            Self::Put(bin, given) => {
                edit.set(&Name::new(bin), &given.value(), false)?;
                replied.extend_from_slice(reply::OK);
            }
            Self::Delete(bin) => {
                let gone = edit.remove(&Name::new(bin))?;
                reply::int(replied, gone.into());
                return Ok(gone);
            }
            Self::Get(bin) => {
                put_or_null(replied, version, edit.bin(&Name::new(bin))?.map(|bin| bin.value));
                return Ok(false);
            }
            Self::Add(bin, delta) => {
                let name = Name::new(bin);
                let sum = sum(bin, edit.bin(&name)?.map(|bin| bin.value), *delta)?;
                edit.set(&name, &sum, true)?;
                put_value(replied, version, &sum);
            }
            Self::Append(bin, value) | Self::Prepend(bin, value) => {
                let name = Name::new(bin);
                let behind = matches!(self, Self::Append(..));
                let joined = match edit.bin(&name)?.map(|bin| bin.value) {
                    None => Vec::new(),
                    Some(there) => join(bin, there, *value, behind)?,
                };
                let joined = match (*value, joined.is_empty()) {
                    (value, true) => value,
                    (Value::Text(_), false) => Value::Text(&joined),
                    _ => Value::Bytes(&joined),
                };
                edit.set(&name, &joined, true)?;
                replied.extend_from_slice(reply::OK);
            }
            Self::List(bin, op) => return op.apply(At { bin, edit, replied, version }),
            Self::Map(bin, op) => return op.apply(At { bin, edit, replied, version }),
        }
        Ok(true)
    }
}

/// The context of an operation: the bin's name, the record being edited, and the buffer for the reply.
struct At<'c, 'a, 'e> {
    bin: &'c [u8],
    edit: &'a mut Edit<'e>,
    replied: &'a mut Vec<u8>,
    version: Version,
}

fn put_or_null(replied: &mut Vec<u8>, version: Version, value: Option<Value<'_>>) {
    match value {
        Some(value) => put_value(replied, version, &value),
        None => reply::null(replied, version),
    }
}

fn index<'c>(args: &mut Args<'c>) -> Result<i64, ErrorReply> {
    integer(args.next().ok_or(ErrorReply::Syntax)?)
}

impl<'c> ListOp<'c> {
    fn read(word: &[u8], bin: &'c [u8], args: &mut Args<'c>) -> Result<Self, Bad<'c>> {
        Ok(match word {
            b"append" => Self::Append(Given::read(bin, args)?),
            b"insert" => Self::Insert(index(args)?, Given::read(bin, args)?),
            b"set" => Self::Set(index(args)?, Given::read(bin, args)?),
            b"get" => Self::Get(index(args)?),
            b"pop" => Self::Pop(index(args)?),
            b"trim" => {
                let from = index(args)?;
                Self::Trim(from, usize::try_from(index(args)?).map_err(|_| ErrorReply::OutOfRange)?)
            }
            b"size" => Self::Size,
            _ => return Err(ErrorReply::Syntax.into()),
        })
    }

    fn apply(&self, at: At<'c, '_, '_>) -> Result<bool, Stopped<'c>> {
        let At { bin, edit, replied, version } = at;
        let name = Name::new(bin);
        let there = match edit.bin(&name)?.map(|bin| bin.value) {
            None => None,
            Some(Value::List(list)) => Some(list),
            Some(other) => return Err(Refusal::BinType(bin, other.value_type(), ValueType::List).into()),
        };
        let (is_there, list) = (there.is_some(), there.unwrap_or(List::EMPTY));
        let size = list.values().count();
        // Converts an index to a position from 0 to `size`. The position `size` is the end of the list.
        let place = |index: i64| {
            let place = if index < 0 { index.checked_add(size as i64) } else { Some(index) };
            place.and_then(|place| usize::try_from(place).ok()).filter(|place| *place <= size)
        };
        let none = |index: i64| Refusal::BinIndex(bin, index, size);
        let mut body = Vec::new();
        match self {
            Self::Size => {
                reply::int(replied, size as i64);
                return Ok(false);
            }
            Self::Get(index) => {
                put_or_null(replied, version, place(*index).and_then(|at| list.values().nth(at)));
                return Ok(false);
            }
            Self::Append(given) => {
                list.splice(size, 0, Some(&given.value()), &mut body);
                reply::int(replied, size as i64 + 1);
            }
            Self::Insert(index, given) => {
                let at = place(*index).ok_or_else(|| none(*index))?;
                list.splice(at, 0, Some(&given.value()), &mut body);
                reply::int(replied, size as i64 + 1);
            }
            Self::Set(index, given) => {
                let at = place(*index).filter(|at| *at < size).ok_or_else(|| none(*index))?;
                list.splice(at, 1, Some(&given.value()), &mut body);
                replied.extend_from_slice(reply::OK);
            }
            Self::Pop(index) => {
                let found = place(*index).and_then(|at| Some((at, list.values().nth(at)?)));
                put_or_null(replied, version, found.map(|(_, value)| value));
                let Some((at, _)) = found else { return Ok(false) };
                list.splice(at, 1, None, &mut body);
            }
            Self::Trim(index, count) => {
                let from = place(*index).unwrap_or(if *index < 0 { 0 } else { size });
                let kept = (*count).min(size - from);
                reply::int(replied, (size - kept) as i64);
                if kept == size || !is_there {
                    return Ok(false);
                }
                let mut front = Vec::new();
                list.splice(from + kept, size, None, &mut front);
                List::open(&front)?.splice(0, from, None, &mut body);
            }
        }
        // The list was valid before this operation. The only possible error is therefore that the new value makes the
        // list nested too deep.
        let list = List::open(&body).map_err(|_| Refusal::BinDepth(bin))?;
        edit.set(&name, &Value::List(list), true)?;
        Ok(true)
    }
}

impl<'c> MapOp<'c> {
    fn read(word: &[u8], bin: &'c [u8], args: &mut Args<'c>) -> Result<Self, Bad<'c>> {
        if word == b"size" {
            return Ok(Self::Size);
        }
        let key = args.next().ok_or(ErrorReply::Syntax)?;
        Ok(match word {
            b"put" => Self::Put(key, Given::read(bin, args)?),
            b"add" => Self::Add(key, Given::read_number(bin, args)?),
            b"get" => Self::Get(key),
            b"del" => Self::Delete(key),
            _ => return Err(ErrorReply::Syntax.into()),
        })
    }

    fn apply(&self, at: At<'c, '_, '_>) -> Result<bool, Stopped<'c>> {
        let At { bin, edit, replied, version } = at;
        let name = Name::new(bin);
        let map = match edit.bin(&name)?.map(|bin| bin.value) {
            None => Map::EMPTY,
            Some(Value::Map(map)) => map,
            Some(other) => return Err(Refusal::BinType(bin, other.value_type(), ValueType::Map).into()),
        };
        let mut body = Vec::new();
        match self {
            Self::Size => {
                reply::int(replied, map.pairs().count() as i64);
                return Ok(false);
            }
            Self::Get(key) => {
                put_or_null(replied, version, map.find(key));
                return Ok(false);
            }
            Self::Delete(key) => {
                let gone = map.put(key, None, &mut body);
                reply::int(replied, gone.into());
                if !gone {
                    return Ok(false);
                }
            }
            Self::Put(key, given) => {
                let was_there = map.put(key, Some(&given.value()), &mut body);
                reply::int(replied, (map.pairs().count() + usize::from(!was_there)) as i64);
            }
            Self::Add(key, delta) => {
                let sum = sum(bin, map.find(key), *delta)?;
                map.put(key, Some(&sum), &mut body);
                put_value(replied, version, &sum);
            }
        }
        let map = Map::open(&body).map_err(|_| Refusal::BinDepth(bin))?;
        edit.set(&name, &Value::Map(map), true)?;
        Ok(true)
    }
}

/// The reason why an operation was not executed.
pub(super) enum Stopped<'c> {
    Refusal(Refusal<'c>),
    Damaged,
}

impl<'c> From<Refusal<'c>> for Stopped<'c> {
    fn from(refusal: Refusal<'c>) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<Damaged> for Stopped<'_> {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}

fn sum<'c>(bin: &'c [u8], there: Option<Value<'_>>, delta: Value<'c>) -> Result<Value<'c>, Refusal<'c>> {
    let range = Refusal::BinRange(bin, delta.value_type());
    match (there, delta) {
        (None, delta) => Ok(delta),
        (Some(Value::Integer(there)), Value::Integer(delta)) => {
            there.checked_add(delta).map(Value::Integer).ok_or(range)
        }
        (Some(Value::Float(there)), Value::Float(delta)) => {
            Some(there + delta).filter(|sum| sum.is_finite()).map(Value::Float).ok_or(range)
        }
        (Some(there), delta) => Err(Refusal::BinType(bin, there.value_type(), delta.value_type())),
    }
}

/// Concatenates two values, which must both be text or both be bytes. Appends `value` to `there` if `behind` is true,
/// and prepends it otherwise.
fn join<'c>(bin: &'c [u8], there: Value<'_>, value: Value<'c>, behind: bool) -> Result<Vec<u8>, Refusal<'c>> {
    match (there, value) {
        (Value::Text(there), Value::Text(value)) | (Value::Bytes(there), Value::Bytes(value)) => {
            Ok(if behind { [there, value].concat() } else { [value, there].concat() })
        }
        (there, value) => Err(Refusal::BinType(bin, there.value_type(), value.value_type())),
    }
}
