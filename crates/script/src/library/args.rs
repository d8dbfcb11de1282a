//! Arguments of library functions, checked as Lua's C functions check them.

use crate::failure::bad_argument;
use crate::numbers::to_integer;
use mlua::{Lua, LuaString, MultiValue, Value};

/// The number of values that the stack of a C function holds (`LUAI_MAXCSTACK`).
pub(super) const STACK_VALUES_MAX: i64 = 8_000;

/// The arguments of one call.
pub(crate) struct Args<'a> {
    pub(crate) lua: &'a Lua,
    values: &'a MultiValue,
}

impl<'a> Args<'a> {
    pub(crate) fn new(lua: &'a Lua, values: &'a MultiValue) -> Self {
        Self { lua, values }
    }

    /// Returns the number of arguments.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the argument number `place`, counted from 1.
    pub(crate) fn value(&self, place: usize) -> Option<&'a Value> {
        self.values.get(place - 1)
    }

    /// Returns true if the argument is missing or nil.
    pub(crate) fn is_absent(&self, place: usize) -> bool {
        self.value(place).is_none_or(Value::is_nil)
    }

    /// Returns an error about an argument.
    pub(crate) fn error(&self, place: usize, problem: &str) -> mlua::Error {
        bad_argument(self.lua, place, problem)
    }

    /// Returns an error about an argument that is not of the expected type.
    pub(crate) fn type_error(&self, place: usize, expected: &str) -> mlua::Error {
        let kind = self.value(place).map_or("no value", type_name);
        self.error(place, &format!("{expected} expected, got {kind}"))
    }

    /// Returns an argument that is a number, or a string with a number.
    pub(crate) fn number(&self, place: usize) -> mlua::Result<f64> {
        let number = match self.value(place) {
            Some(Value::Number(number)) => Some(*number),
            Some(Value::Integer(number)) => Some(*number as f64),
            Some(text @ Value::String(_)) => self.lua.coerce_number(text.clone())?,
            _ => None,
        };
        number.ok_or_else(|| self.type_error(place, "number"))
    }

    /// Returns an argument as an integer, as `luaL_checkinteger` does.
    pub(crate) fn integer(&self, place: usize) -> mlua::Result<i64> {
        self.number(place).map(to_integer)
    }

    /// Returns an argument as an integer, or `default` if it is absent.
    pub(crate) fn integer_or(&self, place: usize, default: i64) -> mlua::Result<i64> {
        if self.is_absent(place) { Ok(default) } else { self.integer(place) }
    }

    /// Returns an argument that is a string or a number, as a string.
    pub(crate) fn string(&self, place: usize) -> mlua::Result<LuaString> {
        match self.value(place) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(number @ (Value::Number(_) | Value::Integer(_))) => {
                self.lua.coerce_string(number.clone())?.ok_or_else(|| self.type_error(place, "string"))
            }
            _ => Err(self.type_error(place, "string")),
        }
    }
}

/// Returns an error if a function cannot return one value more, because the stack is full then.
pub(crate) fn check_results(results: &[Value]) -> mlua::Result<()> {
    if results.len() < STACK_VALUES_MAX as usize { Ok(()) } else { Err(mlua::Error::StackError) }
}

/// Returns the name of a value's type, as Lua's `type` does.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) | Value::Number(_) => "number",
        Value::LightUserData(_) | Value::UserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}
