//! The libraries of Redis's scripts.

pub(crate) mod args;
mod bits;
pub(crate) mod functions;
mod json;
mod matcher;
mod msgpack;
pub(crate) mod random;
pub(crate) mod redis;
mod strings;
mod strtod;
mod structs;
pub(crate) mod tables;

use crate::caller::Caller;
use mlua::{Lua, Scope, Table};

/// Adds the libraries to the globals.
pub(crate) fn add<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
    globals: &Table,
) -> mlua::Result<()> {
    random::add(scope, caller, &globals.raw_get("math")?)?;
    strings::add(lua, scope, caller, &globals.raw_get("string")?)?;
    redis::add(lua, scope, caller, globals)?;
    globals.raw_set("bit", bits::create(lua)?)?;
    globals.raw_set("cjson", json::create(lua, scope, caller)?)?;
    globals.raw_set("cmsgpack", msgpack::create(lua, scope, caller)?)?;
    globals.raw_set("struct", structs::create(lua, scope, caller)?)
}
