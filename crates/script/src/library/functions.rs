//! The table `redis` while a library is being loaded: registers functions, and calls no commands.

use super::args::Args;
use crate::caller::{Caller, not_enough_memory};
use crate::failure::reply;
use crate::script::RegisteredFunction;
use crate::shebang::{NAME_RULE, is_name, read_flag};
use mlua::{Function, Lua, MultiValue, Scope, Table, Value};

/// The fields of `redis` that a library may use while it is being loaded.
const SAME: &[&str] = &[
    "LOG_DEBUG",
    "LOG_VERBOSE",
    "LOG_NOTICE",
    "LOG_WARNING",
    "REDIS_VERSION",
    "REDIS_VERSION_NUM",
    "error_reply",
    "log",
    "sha1hex",
    "status_reply",
];
/// The maximum length in bytes of the names and descriptions of a library's functions together.
const REGISTERED_BYTES_MAX: usize = 1 << 20;
/// The name under which the registry stores the functions of the library that is being loaded.
pub(crate) const LOADING: &str = "gannet.loading";

/// Creates the table from the table `redis` of scripts.
pub(crate) fn create<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
    redis: &Table,
) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for name in SAME {
        table.raw_set(*name, redis.raw_get::<Value>(*name)?)?;
    }
    let register = scope.create_function(move |lua, values: MultiValue| {
        let (function, callback) = read(lua, &values)?;
        let bytes = function.name.len() + function.description.as_deref().unwrap_or_default().len();
        caller.work(bytes / 16)?;
        if !is_name(&function.name) {
            return Err(reply(NAME_RULE));
        }
        let functions: Table = lua.named_registry_value(LOADING)?;
        let name = lua.create_string(&function.name)?;
        if !functions.raw_get::<Value>(&name)?.is_nil() {
            return Err(reply("ERR Function already exists in the library"));
        }
        let mut exchange = caller.exchange.borrow_mut();
        exchange.registered_bytes += bytes;
        if exchange.registered_bytes > REGISTERED_BYTES_MAX {
            return Err(not_enough_memory());
        }
        exchange.registered.push(function);
        drop(exchange);
        functions.raw_set(name, callback)
    })?;
    table.raw_set("register_function", register)?;
    Ok(table)
}

/// Reads the arguments of `register_function`: a name and a function, or a table of named arguments.
fn read(lua: &Lua, values: &MultiValue) -> mlua::Result<(RegisteredFunction, Function)> {
    let args = Args::new(lua, values);
    match (args.len(), args.value(1), args.value(2)) {
        (1, Some(Value::Table(named)), _) => read_named(lua, named),
        (1, ..) => Err(reply(
            "ERR calling redis.register_function with a single argument is only applicable to Lua table (representing \
             named arguments).",
        )),
        (2, Some(name), Some(callback)) => {
            let name = text(lua, name)
                .ok_or_else(|| reply("ERR first argument to redis.register_function must be a string"))?;
            let Value::Function(callback) = callback else {
                return Err(reply("ERR second argument to redis.register_function must be a function"));
            };
            Ok((RegisteredFunction { name, ..RegisteredFunction::default() }, callback.clone()))
        }
        _ => Err(reply("ERR wrong number of arguments to redis.register_function")),
    }
}

/// Returns the bytes of a string or a number.
fn text(lua: &Lua, value: &Value) -> Option<Box<[u8]>> {
    match value {
        Value::String(_) | Value::Number(_) | Value::Integer(_) => {
            Some(lua.coerce_string(value.clone()).ok()??.as_bytes().as_ref().into())
        }
        _ => None,
    }
}

fn read_named(lua: &Lua, named: &Table) -> mlua::Result<(RegisteredFunction, Function)> {
    let must_be = |name: &str, what: &str| {
        reply(format!("ERR {name} argument given to redis.register_function must be a {what}"))
    };
    let (mut function, mut callback, mut has_name) = (RegisteredFunction::default(), None, false);
    for pair in named.pairs::<Value, Value>() {
        let (name, value) = pair?;
        let name = if let Value::String(name) = &name { name.as_bytes().to_vec() } else { Vec::new() };
        match &name[..] {
            b"function_name" => {
                function.name = text(lua, &value).ok_or_else(|| must_be("function_name", "string"))?;
                has_name = true;
            }
            b"description" => {
                let description = text(lua, &value).ok_or_else(|| must_be("description", "string"))?;
                function.description = Some(description);
            }
            b"callback" => match value {
                Value::Function(value) => callback = Some(value),
                _ => return Err(must_be("callback", "function")),
            },
            b"flags" => read_flags(&mut function, &value)?,
            _ => return Err(reply("ERR unknown argument given to redis.register_function")),
        }
    }
    if !has_name {
        return Err(reply("ERR redis.register_function must get a function name argument"));
    }
    let callback = callback.ok_or_else(|| reply("ERR redis.register_function must get a callback argument"))?;
    Ok((function, callback))
}

fn read_flags(function: &mut RegisteredFunction, value: &Value) -> mlua::Result<()> {
    let Value::Table(flags) = value else {
        let text = "ERR flags argument to redis.register_function must be a table representing function flags";
        return Err(reply(text));
    };
    for flag in flags.sequence_values::<Value>() {
        let Value::String(name) = flag? else { return Err(reply("ERR unknown flag given")) };
        let name = read_flag(&mut function.flags, &name.as_bytes()).ok_or_else(|| reply("ERR unknown flag given"))?;
        if !function.flag_names.contains(&name) {
            function.flag_names.push(name);
        }
    }
    Ok(())
}
