//! Conversion of replies to Lua values, as Redis converts the replies to commands of scripts.

use crate::caller::Caller;
use crate::catching::{error_table, malformed};
use mlua::{Lua, Table, Value};

/// The work of creating one Lua value, in units of [`Caller::work`].
const VALUE_WORK: usize = 10;

/// A reader of one reply.
pub(crate) struct ReplyReader<'r, 'y> {
    pub(crate) lua: &'r Lua,
    pub(crate) caller: &'r Caller<'y>,
    pub(crate) bytes: &'r [u8],
    pub(crate) at: usize,
}

impl<'r> ReplyReader<'r, '_> {
    /// Returns the next line without its end.
    fn line(&mut self) -> mlua::Result<&'r [u8]> {
        let rest = &self.bytes[self.at..];
        let end = rest.windows(2).position(|pair| pair == b"\r\n").ok_or_else(malformed)?;
        self.at += end + 2;
        Ok(&rest[..end])
    }

    fn bulk(&mut self, length: usize) -> mlua::Result<&'r [u8]> {
        let bytes = self.bytes.get(self.at..self.at + length).ok_or_else(malformed)?;
        self.at += length + 2;
        Ok(bytes)
    }

    fn field(&self, name: &str, value: Value) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn string(&self, bytes: &[u8]) -> mlua::Result<Value> {
        self.lua.create_string(bytes).map(Value::String)
    }

    /// Reads the next value.
    pub(crate) fn value(&mut self) -> mlua::Result<Value> {
        self.caller.work(VALUE_WORK)?;
        let line = self.line()?;
        let (kind, rest) = line.split_first().ok_or_else(malformed)?;
        match kind {
            b':' => Ok(Value::Number(integer(rest)? as f64)),
            b'$' | b'*' if rest == b"-1" => Ok(Value::Boolean(false)),
            b'$' => {
                let bytes = self.bulk(integer(rest)? as usize)?;
                self.string(bytes)
            }
            b'+' => self.field("ok", self.string(rest)?),
            b'-' => Ok(Value::Table(error_table(self.lua, rest)?)),
            b'*' | b'>' => self.array(integer(rest)? as usize),
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(rest == b"t")),
            b',' => self.field("double", Value::Number(double(rest)?)),
            b'(' => self.field("big_number", self.string(rest)?),
            b'=' => self.verbatim(integer(rest)? as usize),
            b'%' => {
                let map = self.map(integer(rest)? as usize)?;
                self.field("map", Value::Table(map))
            }
            b'~' => {
                let set = self.set(integer(rest)? as usize)?;
                self.field("set", Value::Table(set))
            }
            _ => Err(malformed()),
        }
    }

    fn array(&mut self, count: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(count.min(1024), 0)?;
        for place in 1..=count {
            let value = self.value()?;
            table.raw_set(place, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize) -> mlua::Result<Table> {
        // Without a capacity, iterations have the same order as in Redis.
        let table = self.lua.create_table()?;
        for _ in 0..count {
            let (name, value) = (self.value()?, self.value()?);
            table.raw_set(name, value)?;
        }
        Ok(table)
    }

    fn set(&mut self, count: usize) -> mlua::Result<Table> {
        // Without a capacity, iterations have the same order as in Redis.
        let table = self.lua.create_table()?;
        for _ in 0..count {
            table.raw_set(self.value()?, true)?;
        }
        Ok(table)
    }

    fn verbatim(&mut self, length: usize) -> mlua::Result<Value> {
        let bytes = self.bulk(length)?;
        let (format, text) = (bytes.get(..3).unwrap_or_default(), bytes.get(4..).unwrap_or_default());
        let table = self.lua.create_table_with_capacity(0, 2)?;
        table.raw_set("format", self.string(format)?)?;
        table.raw_set("string", self.string(text)?)?;
        self.field("verbatim_string", Value::Table(table))
    }
}

fn integer(text: &[u8]) -> mlua::Result<i64> {
    base::decimal::parse_signed(text).ok_or_else(malformed)
}

fn double(text: &[u8]) -> mlua::Result<f64> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(malformed)
}
