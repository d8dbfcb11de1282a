//! Errors as scripts see them: the results of `pcall`, `xpcall` and `coroutine.resume`, and error replies.

use crate::caller::Caller;
use crate::failure::{Failure, failure_in, reply};
use crate::numbers::put_general;
use mlua::{Lua, Table, Value};

/// Appends an error reply. Line ends become spaces.
pub(crate) fn put_error(out: &mut Vec<u8>, text: &[u8]) {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |at| at + 1);
    out.push(b'-');
    out.extend(text[..end].iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

/// Returns the text of an error reply for a value that a script has raised.
pub(crate) fn text_of(raised: &Value) -> Vec<u8> {
    let text = match raised {
        Value::Table(table) => {
            return match table.raw_get::<Value>("err") {
                Ok(Value::String(text)) => text.as_bytes().to_vec(),
                _ => b"ERR unknown error".to_vec(),
            };
        }
        Value::Error(error) => return described(error),
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Nil => b"nil".to_vec(),
        Value::Boolean(flag) => flag.to_string().into_bytes(),
        Value::Number(number) => {
            let mut text = Vec::new();
            put_general(&mut text, *number, 14);
            text
        }
        Value::Integer(number) => number.to_string().into_bytes(),
        other => format!("{}: {:p}", other.type_name(), other.to_pointer()).into_bytes(),
    };
    [b"ERR ", &text[..]].concat()
}

/// Returns the text of an error reply for an error of a Rust function.
pub(crate) fn described(error: &mlua::Error) -> Vec<u8> {
    match failure_in(error) {
        Some(Failure { raised: Some(raised), .. }) => text_of(raised),
        Some(Failure { text, is_reply: true, .. }) => text.clone(),
        Some(Failure { text, .. }) => [b"ERR ", &text[..]].concat(),
        None => match error {
            mlua::Error::MemoryError(_) => b"ERR not enough memory".to_vec(),
            error => format!("ERR {}", error.to_string().lines().next().unwrap_or_default()).into_bytes(),
        },
    }
}

/// Returns the value that `pcall` returns for an error: the text of an error reply instead of its table, as in Redis.
pub(crate) fn caught(caller: &Caller<'_>, lua: &Lua, raised: Value) -> mlua::Result<Value> {
    caller.check_alive()?;
    let exposed = exposed(caller, lua, raised)?;
    if let Value::Table(table) = &exposed
        && let text @ Value::String(_) = table.raw_get::<Value>("err")?
    {
        return Ok(text);
    }
    Ok(exposed)
}

/// Returns the value that a script sees for an error that a Rust function may have raised.
pub(crate) fn exposed(caller: &Caller<'_>, lua: &Lua, raised: Value) -> mlua::Result<Value> {
    caller.check_alive()?;
    let Value::Error(error) = &raised else { return Ok(raised) };
    match failure_in(error) {
        Some(Failure { raised: Some(raised), .. }) => Ok(raised.clone()),
        Some(Failure { text, is_reply: false, .. }) => Ok(Value::String(lua.create_string(text)?)),
        Some(Failure { text, .. }) => error_table(lua, text).map(Value::Table),
        None => Ok(Value::String(lua.create_string(described(error).strip_prefix(b"ERR ").unwrap_or_default())?)),
    }
}

/// Returns the table that represents an error reply in a script.
pub(crate) fn error_table(lua: &Lua, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("err", lua.create_string(text)?)?;
    Ok(table)
}

/// Returns an error for a reply that does not follow the protocol.
pub(crate) fn malformed() -> mlua::Error {
    reply("ERR the reply of a command could not be read")
}
