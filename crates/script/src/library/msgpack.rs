//! The library `cmsgpack`: MessagePack, with the texts and limits of lua-cmsgpack 0.4.0.

use super::args::{Args, check_results};
use crate::caller::{Caller, check_room, put_bytes};
use crate::failure::{at_caller, bad_argument, plain};
use crate::numbers::{number_in, to_integer};
use mlua::{Lua, MultiValue, Scope, Table, Value};

/// The depth at which nested tables are packed as nil.
const PACK_DEPTH_MAX: usize = 16;
/// The maximum depth of nested values that are unpacked.
const UNPACK_DEPTH_MAX: usize = 2_000;

/// Creates the library.
pub(crate) fn create<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let pack = scope.create_function(move |lua, values: MultiValue| {
        if values.is_empty() {
            return Err(bad_argument(lua, 0, "MessagePack pack needs input."));
        }
        let mut packer = Packer { caller, out: Vec::new() };
        values.iter().try_for_each(|value| packer.value(value, 0))?;
        caller.long_string(lua, &packer.out)
    })?;
    library.raw_set("pack", pack)?;
    let all = scope.create_function(move |lua, values: MultiValue| unpack(caller, &Args::new(lua, &values), 0, 0))?;
    library.raw_set("unpack", all)?;
    let one = scope.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, &values);
        let offset = args.integer_or(2, 0)?;
        unpack(caller, &args, 1, i64::from(offset as i32))
    })?;
    library.raw_set("unpack_one", one)?;
    let limit = scope.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, &values);
        let (limit, offset) = (args.integer(2)?, args.integer_or(3, 0)?);
        unpack(caller, &args, i64::from(limit as i32), i64::from(offset as i32))
    })?;
    library.raw_set("unpack_limit", limit)?;
    library.raw_set("_NAME", "cmsgpack")?;
    library.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    library.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    library.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(library)
}

struct Packer<'p, 'y> {
    caller: &'p Caller<'y>,
    out: Vec<u8>,
}

impl Packer<'_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.caller.work(10)?;
        check_room(&self.out, 0)?;
        match value {
            Value::Boolean(flag) => self.out.push(if *flag { 0xC3 } else { 0xC2 }),
            Value::String(text) => {
                let text = text.as_bytes();
                self.caller.work(text.len() / 64)?;
                self.head(text.len(), (0xA0, 31), Some(0xD9), 0xDA);
                put_bytes(&mut self.out, &text)?;
            }
            Value::Table(table) if depth < PACK_DEPTH_MAX => return self.table(table, depth),
            other => match number_in(other) {
                Some(number) => self.number(number),
                None => self.out.push(0xC0),
            },
        }
        Ok(())
    }

    /// Writes the head of a value with a length: in one byte up to a limit, then with 8, 16 or 32 bits. `long` is the
    /// mark of a length of 16 bits; the next mark is that of 32 bits.
    fn head(&mut self, length: usize, (short, short_max): (u8, usize), byte: Option<u8>, long: u8) {
        match (length, byte) {
            _ if length <= short_max => self.out.push(short | length as u8),
            (..=0xFF, Some(mark)) => self.out.extend_from_slice(&[mark, length as u8]),
            (..=0xFFFF, _) => {
                self.out.push(long);
                self.out.extend_from_slice(&(length as u16).to_be_bytes());
            }
            _ => {
                self.out.push(long + 1);
                self.out.extend_from_slice(&(length as u32).to_be_bytes());
            }
        }
    }

    fn number(&mut self, number: f64) {
        let whole = to_integer(number);
        // The lowest integer also stands for numbers out of range.
        if whole as f64 == number {
            return self.integer(whole);
        }
        let float = number as f32;
        if f64::from(float) == number {
            self.out.push(0xCA);
            self.out.extend_from_slice(&float.to_be_bytes());
        } else {
            self.out.push(0xCB);
            self.out.extend_from_slice(&number.to_be_bytes());
        }
    }

    fn integer(&mut self, number: i64) {
        let bytes = number.to_be_bytes();
        let (mark, length) = match number {
            -32..=0x7F => return self.out.push(number as u8),
            0x80..=0xFF => (0xCC, 1),
            0x100..=0xFFFF => (0xCD, 2),
            0x1_0000..=0xFFFF_FFFF => (0xCE, 4),
            0x1_0000_0000.. => (0xCF, 8),
            -0x80..-32 => (0xD0, 1),
            -0x8000..-0x80 => (0xD1, 2),
            -0x8000_0000..-0x8000 => (0xD2, 4),
            ..-0x8000_0000 => (0xD3, 8),
        };
        self.out.push(mark);
        self.out.extend_from_slice(&bytes[8 - length..]);
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let (count, is_array) = self.measure(table)?;
        if is_array {
            self.head(count, (0x90, 15), None, 0xDC);
            for place in 1..=count {
                let value = table.get::<Value>(place)?;
                self.value(&value, depth + 1)?;
            }
            return Ok(());
        }
        self.head(count, (0x80, 15), None, 0xDE);
        for pair in table.pairs::<Value, Value>() {
            let (name, value) = pair?;
            self.value(&name, depth + 1)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }

    /// Returns the number of entries of a table, and true if its keys are the numbers from 1 to that number.
    fn measure(&self, table: &Table) -> mlua::Result<(usize, bool)> {
        let (mut count, mut most, mut has_only_indexes) = (0_usize, 0.0_f64, true);
        for pair in table.pairs::<Value, Value>() {
            self.caller.work(4)?;
            let index = number_in(&pair?.0).filter(|index| *index > 0.0 && f64::from(*index as i32) == *index);
            has_only_indexes &= index.is_some();
            most = most.max(index.unwrap_or(0.0));
            count += 1;
        }
        Ok((count, has_only_indexes && most == count as f64))
    }
}

/// Unpacks values. If `limit` and `offset` are 0, unpacks all of them. Otherwise unpacks at most `limit` values from
/// `offset`, and the first result is the next offset, or -1 at the end.
fn unpack(caller: &Caller<'_>, args: &Args<'_>, limit: i64, offset: i64) -> mlua::Result<MultiValue> {
    let (lua, text) = (args.lua, args.string(1)?);
    let bytes = text.as_bytes();
    if offset < 0 || limit < 0 {
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {}.", bytes.len());
        return Err(at_caller(lua, &text));
    }
    if offset as usize > bytes.len() {
        let text = format!("Start offset {offset} greater than input length {}.", bytes.len());
        return Err(at_caller(lua, &text));
    }
    let unpacks_all = limit == 0 && offset == 0;
    let mut reader = Unpacker { lua, caller, left: &bytes[offset as usize..] };
    let mut values = Vec::new();
    while !reader.left.is_empty() && (unpacks_all || (values.len() as i64) < limit) {
        check_results(&values)?;
        values.push(reader.value(0)?);
    }
    if !unpacks_all {
        let next = if reader.left.is_empty() { -1.0 } else { (bytes.len() - reader.left.len()) as f64 };
        values.insert(0, Value::Number(next));
    }
    Ok(MultiValue::from_vec(values))
}

struct Unpacker<'u, 'y> {
    lua: &'u Lua,
    caller: &'u Caller<'y>,
    left: &'u [u8],
}

impl<'u> Unpacker<'u, '_> {
    fn take(&mut self, length: usize) -> mlua::Result<&'u [u8]> {
        let (bytes, left) =
            self.left.split_at_checked(length).ok_or_else(|| at_caller(self.lua, "Missing bytes in input."))?;
        self.left = left;
        Ok(bytes)
    }

    /// Reads an unsigned number of `length` bytes.
    fn unsigned(&mut self, length: usize) -> mlua::Result<u64> {
        Ok(self.take(length)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    /// Reads a signed number of `length` bytes.
    fn signed(&mut self, length: usize) -> mlua::Result<i64> {
        let unused = 64 - 8 * length as u32;
        Ok((self.unsigned(length)? << unused) as i64 >> unused)
    }

    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        self.caller.work(10)?;
        let mark = self.take(1)?[0];
        let number = match mark {
            0..=0x7F => f64::from(mark),
            0xE0..=0xFF => f64::from(mark as i8),
            // As in the C library, an unsigned number of 64 bits counts as a signed one.
            0xCC..=0xCF => self.unsigned(1 << (mark - 0xCC))? as i64 as f64,
            0xD0..=0xD3 => self.signed(1 << (mark - 0xD0))? as f64,
            0xCA => f64::from(f32::from_bits(self.unsigned(4)? as u32)),
            0xCB => f64::from_bits(self.unsigned(8)?),
            _ => return self.other(mark, depth),
        };
        Ok(Value::Number(number))
    }

    fn other(&mut self, mark: u8, depth: usize) -> mlua::Result<Value> {
        match mark {
            0xC0 => Ok(Value::Nil),
            0xC2 | 0xC3 => Ok(Value::Boolean(mark == 0xC3)),
            0xA0..=0xBF => self.string(usize::from(mark & 0x1F)),
            0xD9..=0xDB => {
                let length = self.unsigned(1 << (mark - 0xD9))?;
                self.string(length as usize)
            }
            0x90..=0x9F => self.array(u64::from(mark & 0xF), depth),
            0xDC | 0xDD => {
                let length = self.unsigned(2 << (mark - 0xDC))?;
                self.array(length, depth)
            }
            0x80..=0x8F => self.map(u64::from(mark & 0xF), depth),
            0xDE | 0xDF => {
                let length = self.unsigned(2 << (mark - 0xDE))?;
                self.map(length, depth)
            }
            _ => Err(at_caller(self.lua, "Bad data format in input.")),
        }
    }

    fn string(&mut self, length: usize) -> mlua::Result<Value> {
        self.caller.work(length / 64)?;
        let bytes = self.take(length)?;
        self.lua.create_string(bytes).map(Value::String)
    }

    fn array(&mut self, count: u64, depth: usize) -> mlua::Result<Value> {
        self.check_depth(depth, "mp_decode_to_lua_array")?;
        let table = self.lua.create_table()?;
        for place in 1..=count {
            let value = self.value(depth + 1)?;
            table.raw_set(place, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: u64, depth: usize) -> mlua::Result<Value> {
        self.check_depth(depth, "mp_decode_to_lua_hash")?;
        let table = self.lua.create_table()?;
        for _ in 0..count {
            let (name, value) = (self.value(depth + 1)?, self.value(depth + 1)?);
            if name.is_nil() {
                return Err(plain("table index is nil"));
            }
            if number_in(&name).is_some_and(f64::is_nan) {
                return Err(plain("table index is NaN"));
            }
            table.raw_set(name, value)?;
        }
        Ok(Value::Table(table))
    }

    fn check_depth(&self, depth: usize, function: &str) -> mlua::Result<()> {
        if depth < UNPACK_DEPTH_MAX {
            return Ok(());
        }
        Err(at_caller(self.lua, &format!("stack overflow (in function {function})")))
    }
}
