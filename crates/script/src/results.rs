//! Conversion of a script's result to a reply, as in Redis.

use crate::caller::{Caller, check_room, put_bytes};
use crate::catching::put_error;
use crate::numbers::{number_in, put_general, put_head, to_integer};
use mlua::{Lua, LuaString, Table, Value};

/// The maximum depth of nested tables in a result.
const DEPTH_MAX: usize = 1_000;
/// The work of writing one value, in units of [`Caller::work`].
const VALUE_WORK: usize = 20;
/// The work of counting one element of a table.
const PASSED_WORK: usize = 5;

/// The strings that most scripts need: the names of the fields that give a table a meaning, and those of globals.
pub(crate) struct Names {
    err: LuaString,
    ok: LuaString,
    double: LuaString,
    map: LuaString,
    set: LuaString,
    big_number: LuaString,
    verbatim: LuaString,
    /// The names of the globals with the keys and the arguments of a script.
    pub(crate) keys: LuaString,
    pub(crate) args: LuaString,
}

impl Names {
    /// Creates the names.
    pub(crate) fn new(lua: &Lua) -> mlua::Result<Self> {
        Ok(Self {
            err: lua.create_string("err")?,
            ok: lua.create_string("ok")?,
            double: lua.create_string("double")?,
            map: lua.create_string("map")?,
            set: lua.create_string("set")?,
            big_number: lua.create_string("big_number")?,
            verbatim: lua.create_string("verbatim_string")?,
            keys: lua.create_string("KEYS")?,
            args: lua.create_string("ARGV")?,
        })
    }
}

/// Appends the reply for a script's result, in version 3 or 2 of the protocol.
pub(crate) fn put_result(
    caller: &Caller<'_>,
    names: &Names,
    out: &mut Vec<u8>,
    value: &Value,
    in_3: bool,
) -> mlua::Result<()> {
    let has_booleans = caller.exchange.borrow().calls_in_3;
    Writer { caller, names, out, in_3, has_booleans }.value(value, 0)
}

struct Writer<'w, 'y> {
    caller: &'w Caller<'y>,
    names: &'w Names,
    out: &'w mut Vec<u8>,
    in_3: bool,
    /// True if the script has chosen version 3, which has booleans. Version 2 replies with them as with 1 and 0.
    has_booleans: bool,
}

impl Writer<'_, '_> {
    fn head(&mut self, kind: u8, count: usize) {
        put_head(self.out, kind, count);
    }

    fn bulk(&mut self, bytes: &[u8]) -> mlua::Result<()> {
        self.head(b'$', bytes.len());
        self.long(bytes)?;
        self.out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Writes bytes that may be many.
    fn long(&mut self, bytes: &[u8]) -> mlua::Result<()> {
        self.caller.work(bytes.len() / 64)?;
        put_bytes(self.out, bytes)
    }

    /// Writes a text in one line: line ends become spaces.
    fn line(&mut self, text: &[u8]) -> mlua::Result<()> {
        self.caller.work(text.len() / 8)?;
        check_room(self.out, text.len())?;
        self.out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
        self.out.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn null(&mut self) {
        self.out.extend_from_slice(if self.in_3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.caller.work(VALUE_WORK)?;
        check_room(self.out, 0)?;
        match value {
            Value::String(text) => return self.bulk(&text.as_bytes()),
            Value::Number(number) => self.integer(to_integer(*number)),
            Value::Integer(number) => self.integer(*number),
            Value::Boolean(flag) if self.has_booleans && self.in_3 => {
                self.out.extend_from_slice(if *flag { b"#t\r\n" } else { b"#f\r\n" })
            }
            Value::Boolean(true) => self.integer(1),
            Value::Boolean(false) if self.has_booleans => self.integer(0),
            Value::Table(_) if depth >= DEPTH_MAX => put_error(self.out, b"ERR reached lua stack limit"),
            Value::Table(table) => return self.table(table, depth),
            _ => self.null(),
        }
        Ok(())
    }

    fn integer(&mut self, number: i64) {
        self.out.push(b':');
        if number < 0 {
            self.out.push(b'-');
        }
        let digits = &mut [0; base::decimal::DIGITS_ALL_MAX];
        self.out.extend_from_slice(base::decimal::digits(number.unsigned_abs(), digits));
        self.out.extend_from_slice(b"\r\n");
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        if let Value::String(text) = table.raw_get(&self.names.err)? {
            self.caller.work(text.as_bytes().len() / 8)?;
            check_room(self.out, text.as_bytes().len())?;
            put_error(self.out, &text.as_bytes());
            return Ok(());
        }
        if let Value::String(text) = table.raw_get(&self.names.ok)? {
            self.out.push(b'+');
            return self.line(&text.as_bytes());
        }
        if let Some(number) = number_in(&table.raw_get(&self.names.double)?) {
            return self.double(number);
        }
        if let Value::Table(map) = table.raw_get(&self.names.map)? {
            return self.pairs(&map, true, depth);
        }
        if let Value::Table(set) = table.raw_get(&self.names.set)? {
            return self.pairs(&set, false, depth);
        }
        if let Value::String(digits) = table.raw_get(&self.names.big_number)? {
            return self.big_number(&digits.as_bytes());
        }
        if let Value::Table(verbatim) = table.raw_get(&self.names.verbatim)?
            && let Value::String(text) = verbatim.raw_get("string")?
            && let Value::String(format) = verbatim.raw_get("format")?
        {
            return self.verbatim(&format.as_bytes(), &text.as_bytes());
        }
        self.array(table, depth)
    }

    fn double(&mut self, number: f64) -> mlua::Result<()> {
        let mut text = Vec::new();
        put_general(&mut text, number, 17);
        if !self.in_3 {
            return self.bulk(&text);
        }
        self.out.push(b',');
        self.out.extend_from_slice(&text);
        self.out.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn big_number(&mut self, digits: &[u8]) -> mlua::Result<()> {
        if self.in_3 {
            self.out.push(b'(');
        } else {
            self.head(b'$', digits.len());
        }
        self.line(digits)
    }

    fn verbatim(&mut self, format: &[u8], text: &[u8]) -> mlua::Result<()> {
        if !self.in_3 {
            return self.bulk(text);
        }
        let mut name = [b' '; 3];
        format.iter().zip(&mut name).for_each(|(byte, place)| *place = *byte);
        self.head(b'=', text.len() + 4);
        self.out.extend_from_slice(&name);
        self.out.push(b':');
        self.long(text)?;
        self.out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Writes a table as a map, or its keys as a set.
    fn pairs(&mut self, table: &Table, is_map: bool, depth: usize) -> mlua::Result<()> {
        let mut count = 0;
        for pair in table.pairs::<Value, Value>() {
            self.caller.work(PASSED_WORK)?;
            pair?;
            count += 1;
        }
        match (self.in_3, is_map) {
            (true, true) => self.head(b'%', count),
            (true, false) => self.head(b'~', count),
            (false, true) => self.head(b'*', count * 2),
            (false, false) => self.head(b'*', count),
        }
        for pair in table.pairs::<Value, Value>() {
            let (name, value) = pair?;
            self.value(&name, depth + 1)?;
            if is_map {
                self.value(&value, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Writes the elements of a table before the first one that is nil.
    fn array(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let mut count = table.raw_len();
        // The length operator may skip holes.
        for place in 1..=count {
            self.caller.work(PASSED_WORK)?;
            if table.raw_get::<Value>(place)?.is_nil() {
                count = place - 1;
                break;
            }
        }
        self.head(b'*', count);
        for place in 1..=count {
            let value = table.raw_get::<Value>(place)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }
}
