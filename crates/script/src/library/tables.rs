//! The functions of `table` that may move or copy many elements: `insert`, `remove` and `concat`. They can be
//! interrupted. And `unpack`, whose C code computes the number of results of a long range with an overflow, and may
//! then write behind the stack.
//!
//! Lua's own functions are C code, which the count of instructions does not see. So a script that inserts at the front
//! of a long list would hold its worker for as long as it likes. Long moves and copies are therefore loops in Lua, and
//! short ones remain those of C.

use super::args::{Args, STACK_VALUES_MAX};
use crate::caller::Caller;
use crate::failure::{at_caller, passed_on, place_in_script, plain};
use crate::sandbox::READ_ONLY;
use mlua::{Function, Lua, MultiValue, Scope, Table, Value};

/// The source of the functions.
///
/// An error of C code has the position of its caller, which would be this source. So C code is called by `pcall`, which
/// leaves out the position, and `fail` adds that of the script.
const SOURCE: &str = r"
local insert, remove, concat, is_read_only, fail, created = ...
local type, select, tonumber, rawget, rawset, pcall = type, select, tonumber, rawget, rawset, pcall
local floor, ceil, min, getmetatable, error = math.floor, math.ceil, math.min, getmetatable, error
-- The number of elements that C code moves or copies at a time.
local MOVED, PIECE = 100, 500
-- The length from which the creation of a string is reported.
local LONG = 65536

local function whole(number)
  return number and (number < 0 and ceil(number) or floor(number))
end

local function check(list)
  if getmetatable(list) ~= nil and is_read_only(list) then fail('') end
end

local function settle(name, done, ...)
  if done then return ... end
  fail(name, (...))
end

local function settle_text(done, text)
  if not done then fail('concat', text) end
  if #text >= LONG then created(#text) end
  return text
end

local function joined(list, separator, first, last)
  if last - first < PIECE then
    local done, text = pcall(concat, list, separator, first, last)
    if not done then error(text, 0) end
    return text
  end
  local pieces, count = {}, 0
  for at = first, last, PIECE do
    count = count + 1
    pieces[count] = joined(list, separator, at, min(at + PIECE - 1, last))
  end
  return joined(pieces, separator, 1, count)
end

return function(list, ...)
    local count = select('#', ...)
    if type(list) == 'table' then
      check(list)
      if count == 1 then return insert(list, ...) end
      local place, value = ...
      place = whole(tonumber(place))
      local free = #list + 1
      if count == 2 and place and free - place > MOVED then
        for at = free, place + 1, -1 do rawset(list, at, rawget(list, at - 1)) end
        rawset(list, place, value)
        return
      end
    end
    return settle('insert', pcall(insert, list, ...))
  end,
  function(...)
    local list, place = ...
    if type(list) == 'table' then
      if place == nil then return remove(list) end
      place = whole(tonumber(place))
      local last = #list
      if place and place >= 1 and last - place > MOVED then
        local removed = rawget(list, place)
        for at = place, last - 1 do rawset(list, at, rawget(list, at + 1)) end
        rawset(list, last, nil)
        return removed
      end
    end
    return settle('remove', pcall(remove, ...))
  end,
  function(...)
    local list, separator, first, last = ...
    if type(list) == 'table' then
      first, last = whole(tonumber(first or 1)), whole(tonumber(last or #list))
    end
    local is_text = separator == nil or type(separator) == 'string' or type(separator) == 'number'
    if type(list) == 'table' and is_text and first and last and last - first >= PIECE then
      return settle_text(pcall(joined, list, separator, first, last))
    end
    return settle_text(pcall(concat, ...))
  end
";

/// Replaces the functions. `is_read_only` returns true for a table that scripts may not change.
pub(crate) fn add<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
    (native, globals): (&Table, &Table),
    is_read_only: Function,
) -> mlua::Result<()> {
    let table: Table = globals.raw_get("table")?;
    let fail =
        lua.create_function(|lua, (name, raised): (String, Option<Value>)| Err::<(), _>(failure(lua, &name, raised)))?;
    let created = scope.create_function(move |lua, bytes: usize| {
        caller.ticks.created(lua, bytes)?;
        caller.work(bytes / 32)
    })?;
    let own = |name: &str| table.raw_get::<Value>(name);
    let functions: (Function, Function, Function) = lua
        .load(SOURCE)
        .set_name("=redis")
        .set_environment(native.clone())
        .call((own("insert")?, own("remove")?, own("concat")?, is_read_only, fail, created))?;
    table.raw_set("insert", functions.0)?;
    table.raw_set("remove", functions.1)?;
    table.raw_set("concat", functions.2)?;
    globals.raw_set("unpack", checked_unpack(lua)?)
}

/// Creates `unpack`, which refuses as many results as do not fit on the stack.
fn checked_unpack(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, &values);
        let Some(Value::Table(table)) = args.value(1) else { return Err(args.type_error(1, "table")) };
        // C code takes the lower 32 bits.
        let first = args.integer_or(2, 1)? as i32;
        let last = args.integer_or(3, table.raw_len() as i64)? as i32;
        let results = (i64::from(last) - i64::from(first) + 1).max(0);
        if results + args.len() as i64 > STACK_VALUES_MAX {
            return Err(at_caller(lua, "too many results to unpack"));
        }
        // The C code leaves no room on the stack above its results, which mlua needs to take them.
        let element = |at: i64| table.raw_get::<Value>(at);
        (i64::from(first)..=i64::from(last)).map(element).collect::<mlua::Result<MultiValue>>()
    })
}

/// Returns the error that the function `name` raises after C code has raised an error. Without one, the table is
/// read-only.
fn failure(lua: &Lua, name: &str, raised: Option<Value>) -> mlua::Error {
    match raised {
        None => plain(READ_ONLY),
        Some(Value::String(text)) if text.as_bytes() == b"not enough memory".as_slice() => {
            passed_on(Value::String(text))
        }
        Some(Value::String(text)) => {
            let text = text.to_string_lossy().replacen("to '?'", &format!("to '{name}'"), 1);
            plain(place_in_script(lua) + &text)
        }
        Some(other) => passed_on(other),
    }
}
