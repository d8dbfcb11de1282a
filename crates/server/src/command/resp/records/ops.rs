//! What is done to the bins of a record: one operation after another, each on what the ones before it have left.

use super::{Bad, Refusal, bin_name, put_value, typed};
use crate::command::resp::error::Fault;
use crate::command::resp::table::lower;
use protocol::resp::{Args, Version, reply};
use record::{Damaged, Edit, Name, Value, ValueType};

/// One operation on one bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Op<'c> {
    /// The bin is this.
    Put(&'c [u8], Value<'c>),
    /// A number is added to the bin; where there is none, to 0.
    Add(&'c [u8], Value<'c>),
    /// Text or bytes come behind what the bin holds.
    Append(&'c [u8], Value<'c>),
    /// Text or bytes come before what the bin holds.
    Prepend(&'c [u8], Value<'c>),
    /// The bin goes.
    Delete(&'c [u8]),
    /// The bin is told.
    Get(&'c [u8]),
}

impl<'c> Op<'c> {
    /// Reads one operation: its word has been read.
    fn read(word: &[u8], args: &mut Args<'c>) -> Result<Self, Bad<'c>> {
        let word = lower(word);
        let name = bin_name(args.next().ok_or(Fault::Syntax)?)?;
        match &word[..] {
            b"del" => return Ok(Self::Delete(name)),
            b"get" => return Ok(Self::Get(name)),
            b"put" | b"add" | b"append" | b"prepend" => {}
            _ => return Err(Fault::Syntax.into()),
        }
        let (kind, text) = (args.next().ok_or(Fault::Syntax)?, args.next().ok_or(Fault::Syntax)?);
        let value = typed(name, kind, text)?;
        let fits = |types: [ValueType; 2]| match types.contains(&value.value_type()) {
            true => Ok(()),
            false => Err(Refusal::BinOperation(name, value.value_type())),
        };
        Ok(match &word[..] {
            b"put" => Self::Put(name, value),
            b"add" => fits([ValueType::Integer, ValueType::Float]).map(|()| Self::Add(name, value))?,
            b"append" => fits([ValueType::Text, ValueType::Bytes]).map(|()| Self::Append(name, value))?,
            _ => fits([ValueType::Text, ValueType::Bytes]).map(|()| Self::Prepend(name, value))?,
        })
    }

    /// All operations up to the end: with `word`, bins that are all treated so, without the word before each.
    pub(super) fn read_all(word: Option<&[u8]>, mut args: Args<'c>) -> Result<Vec<Self>, Bad<'c>> {
        let mut ops = Vec::with_capacity(args.len() / 2);
        while args.len() > 0 {
            let word = word.unwrap_or_else(|| args.next().unwrap_or_default());
            ops.push(Self::read(word, &mut args)?);
        }
        if ops.is_empty() { Err(Fault::Syntax.into()) } else { Ok(ops) }
    }

    /// It changes the record, or may.
    pub(super) fn writes(&self) -> bool {
        !matches!(self, Self::Get(_))
    }

    /// Does it, and puts what is told of it. Gives whether the record is another one.
    pub(super) fn apply(&self, edit: &mut Edit<'_>, told: &mut Vec<u8>, version: Version) -> Result<bool, Stopped<'c>> {
        match *self {
            Self::Put(bin, value) => {
                edit.set(&Name::new(bin), &value, false)?;
                told.extend_from_slice(reply::OK);
            }
            Self::Delete(bin) => {
                let gone = edit.remove(&Name::new(bin))?;
                reply::int(told, gone.into());
                return Ok(gone);
            }
            Self::Get(bin) => {
                match edit.bin(&Name::new(bin))? {
                    Some(bin) => put_value(told, version, &bin.value),
                    None => reply::null(told, version),
                }
                return Ok(false);
            }
            Self::Add(bin, delta) => {
                let name = Name::new(bin);
                let sum = sum(bin, edit.bin(&name)?.map(|bin| bin.value), delta)?;
                edit.set(&name, &sum, true)?;
                put_value(told, version, &sum);
            }
            Self::Append(bin, value) | Self::Prepend(bin, value) => {
                let name = Name::new(bin);
                let behind = matches!(self, Self::Append(..));
                let joined = match edit.bin(&name)?.map(|bin| bin.value) {
                    None => Vec::new(),
                    Some(there) => join(bin, there, value, behind)?,
                };
                let joined = match (value, joined.is_empty()) {
                    (value, true) => value,
                    (Value::Text(_), false) => Value::Text(&joined),
                    _ => Value::Bytes(&joined),
                };
                edit.set(&name, &joined, true)?;
                told.extend_from_slice(reply::OK);
            }
        }
        Ok(true)
    }
}

/// Why an operation was not done.
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

/// Both texts or both bytes, end to end.
fn join<'c>(bin: &'c [u8], there: Value<'_>, value: Value<'c>, behind: bool) -> Result<Vec<u8>, Refusal<'c>> {
    match (there, value) {
        (Value::Text(there), Value::Text(value)) | (Value::Bytes(there), Value::Bytes(value)) => {
            Ok(if behind { [there, value].concat() } else { [value, there].concat() })
        }
        (there, value) => Err(Refusal::BinType(bin, there.value_type(), value.value_type())),
    }
}
