//! Parsing of typed values in requests. The words of a value follow a bin's name, a list index or a map key.

use super::{Bad, Refusal, bin_name, typed};
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use protocol::resp::Args;
use record::{DEPTH_MAX, List, Map, Value, ValueType, push_value};

/// A value from a request: a scalar as received, or a list or map, encoded from the elements in the request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Given<'c> {
    Plain(Value<'c>),
    List(Vec<u8>),
    Map(Vec<u8>),
}

impl<'c> Given<'c> {
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Self::Plain(value) => *value,
            Self::List(body) => Value::List(List::open(body).expect("encoded from valid values")),
            Self::Map(body) => Value::Map(Map::open(body).expect("encoded from valid values")),
        }
    }

    /// Parses a type and a value. For a list, the number of its values follows the type, and then the type and value of
    /// each. For a map, the number of its keys follows the type, and then each key with the type and value that belong
    /// to it.
    pub(super) fn read(bin: &'c [u8], args: &mut Args<'c>) -> Result<Self, Bad<'c>> {
        Self::read_at(bin, args, 1)
    }

    fn read_at(bin: &'c [u8], args: &mut Args<'c>, depth: usize) -> Result<Self, Bad<'c>> {
        let (kind, text) = (args.next().ok_or(ErrorReply::Syntax)?, args.next().ok_or(ErrorReply::Syntax)?);
        let kind_there = ValueType::of(kind);
        let wanted = match kind_there {
            Some(wanted @ (ValueType::List | ValueType::Map)) => wanted,
            _ => return Ok(Self::Plain(typed(bin, kind, text)?)),
        };
        if depth > DEPTH_MAX {
            return Err(Refusal::BinDepth(bin).into());
        }
        let count = integer(text).ok().and_then(|count| usize::try_from(count).ok());
        let count = count.ok_or(Refusal::BinValue(bin, wanted))?;
        let mut body = Vec::new();
        for _ in 0..count {
            if wanted == ValueType::List {
                push_value(&Self::read_at(bin, args, depth + 1)?.value(), &mut body);
            } else {
                let key = bin_name(args.next().ok_or(ErrorReply::Syntax)?)?;
                let value = Self::read_at(bin, args, depth + 1)?;
                let old = std::mem::take(&mut body);
                Map::open(&old)?.put(key, Some(&value.value()), &mut body);
            }
        }
        Ok(if wanted == ValueType::List { Self::List(body) } else { Self::Map(body) })
    }

    /// Parses a type and a value. Returns an error unless the value is a number.
    pub(super) fn read_number(bin: &'c [u8], args: &mut Args<'c>) -> Result<Value<'c>, Bad<'c>> {
        match Self::read(bin, args)? {
            Self::Plain(value @ (Value::Integer(_) | Value::Float(_))) => Ok(value),
            other => Err(Refusal::BinOperation(bin, other.value().value_type()).into()),
        }
    }

    /// Parses a type and a value. Returns an error unless the value is text or bytes.
    pub(super) fn read_text(bin: &'c [u8], args: &mut Args<'c>) -> Result<Value<'c>, Bad<'c>> {
        match Self::read(bin, args)? {
            Self::Plain(value @ (Value::Text(_) | Value::Bytes(_))) => Ok(value),
            other => Err(Refusal::BinOperation(bin, other.value().value_type()).into()),
        }
    }
}
