//! `cjson.encode`: writes a Lua value as JSON.

use super::{DEPTH_MAX, InvalidNumbers, Settings};
use crate::caller::{Caller, check_room};
use crate::failure::at_caller;
use crate::library::args::type_name;
use crate::numbers::{number_in, put_general};
use mlua::{Lua, LuaString, Table, Value};
use std::io::Write as _;

/// The number of bytes of a string that are written between two chances to suspend the script.
const STRING_BYTES_AT_ONCE: usize = 4_096;

/// Returns the JSON text of a value.
pub(super) fn encode(lua: &Lua, caller: &Caller<'_>, settings: &Settings, value: &Value) -> mlua::Result<LuaString> {
    let mut writer = Writer { lua, caller, settings, out: Vec::new(), depth: 0 };
    writer.value(value)?;
    caller.long_string(lua, &writer.out)
}

struct Writer<'w, 'y> {
    lua: &'w Lua,
    caller: &'w Caller<'y>,
    settings: &'w Settings,
    out: Vec<u8>,
    depth: i64,
}

impl Writer<'_, '_> {
    fn refuse(&self, value: &Value, reason: &str) -> mlua::Error {
        at_caller(self.lua, &format!("Cannot serialise {}: {reason}", type_name(value)))
    }

    fn value(&mut self, value: &Value) -> mlua::Result<()> {
        self.caller.work(10)?;
        check_room(&self.out, 0)?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Boolean(flag) => self.out.extend_from_slice(if *flag { b"true" } else { b"false" }),
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Table(table) => return self.table(table),
            other => {
                let number = number_in(other).ok_or_else(|| self.refuse(other, "type not supported"))?;
                self.number(number, other)?;
            }
        }
        Ok(())
    }

    fn number(&mut self, number: f64, value: &Value) -> mlua::Result<()> {
        match self.settings.encode_invalid.get() {
            _ if number.is_finite() => {}
            InvalidNumbers::Refused => return Err(self.refuse(value, "must not be NaN or Inf")),
            InvalidNumbers::Accepted if number.is_nan() => {
                self.out.extend_from_slice(b"nan");
                return Ok(());
            }
            InvalidNumbers::Accepted => {}
            InvalidNumbers::Null => {
                self.out.extend_from_slice(b"null");
                return Ok(());
            }
        }
        put_general(&mut self.out, number, self.settings.precision.get() as usize);
        Ok(())
    }

    fn string(&mut self, text: &[u8]) -> mlua::Result<()> {
        self.out.push(b'"');
        for piece in text.chunks(STRING_BYTES_AT_ONCE) {
            self.caller.work(piece.len() / 4)?;
            check_room(&self.out, piece.len())?;
            self.put_escaped(piece);
        }
        self.out.push(b'"');
        Ok(())
    }

    /// Writes a part of a string.
    fn put_escaped(&mut self, text: &[u8]) {
        for byte in text {
            match byte {
                b'"' | b'\\' | b'/' => self.out.extend_from_slice(&[b'\\', *byte]),
                8 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                12 => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                // Writing to a vector cannot fail.
                0..32 | 127 => drop(write!(self.out, "\\u{byte:04x}")),
                _ => self.out.push(*byte),
            }
        }
    }

    fn table(&mut self, table: &Table) -> mlua::Result<()> {
        let length = self.array_length(table)?;
        self.depth += 1;
        if self.depth > self.settings.encode_depth.get().min(DEPTH_MAX) {
            return Err(at_caller(self.lua, &format!("Cannot serialise, excessive nesting ({})", self.depth)));
        }
        match length {
            Some(length) => self.array(table, length)?,
            None => self.object(table)?,
        }
        self.depth -= 1;
        Ok(())
    }

    /// Returns the number of elements if a table is an array, which may have holes.
    fn array_length(&self, table: &Table) -> mlua::Result<Option<i32>> {
        // The C library computes with 32-bit integers; so large indexes are no indexes of an array.
        let (mut most, mut count) = (0_i32, 0_i32);
        for pair in table.pairs::<Value, Value>() {
            self.caller.work(4)?;
            let (name, _) = pair?;
            let Some(index) = number_in(&name).filter(|index| index.floor() == *index && *index >= 1.0) else {
                return Ok(None);
            };
            if index > f64::from(most) {
                most = if index > f64::from(i32::MAX) { i32::MIN } else { index as i32 };
            }
            count = count.wrapping_add(1);
        }
        let (ratio, safe) = (self.settings.sparse_ratio.get(), self.settings.sparse_safe.get());
        if ratio > 0 && i64::from(most) > i64::from(count) * ratio && i64::from(most) > safe {
            if !self.settings.sparse_convert.get() {
                return Err(self.refuse(&Value::Table(table.clone()), "excessively sparse array"));
            }
            return Ok(None);
        }
        Ok((most > 0).then_some(most))
    }

    fn array(&mut self, table: &Table, length: i32) -> mlua::Result<()> {
        self.out.push(b'[');
        for place in 1..=length {
            if place > 1 {
                self.out.push(b',');
            }
            let value = table.raw_get::<Value>(place)?;
            self.value(&value)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table) -> mlua::Result<()> {
        self.out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (name, value) = pair?;
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            match (&name, number_in(&name)) {
                (Value::String(text), _) => self.string(&text.as_bytes())?,
                (_, Some(number)) => {
                    self.out.push(b'"');
                    self.number(number, &name)?;
                    self.out.push(b'"');
                }
                _ => return Err(self.refuse(&name, "table key must be a number or string")),
            }
            self.out.push(b':');
            self.value(&value)?;
        }
        self.out.push(b'}');
        Ok(())
    }
}
