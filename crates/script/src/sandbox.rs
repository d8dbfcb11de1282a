//! The globals that scripts see: Lua's functions without access to the system, Redis's functions and libraries.
//!
//! ```text
//!   a script ──> proxy (always empty) ──> the table of globals ──> error: nonexistent global variable
//!                  └─ a write ──> error: readonly table
//! ```
//!
//! Lua 5.1 has no read-only tables. Scripts therefore see empty tables whose metatables read from the real ones and
//! refuse writes.

use crate::caller::{Caller, collect_piece};
use crate::catching::{caught, exposed};
use crate::failure::{at_caller, bad_argument, place_in_script, plain};
use crate::library;
use crate::library::args::type_name;
use mlua::{Function, Lua, MultiValue, Scope, Table, Value};
use std::collections::HashSet;
use std::ffi::c_void;

/// The error about a write to a read-only table.
pub(crate) const READ_ONLY: &str = "Attempt to modify a readonly table";

/// Lua's own globals that scripts may use.
const BASE: &[&str] = &[
    "_VERSION",
    "assert",
    "coroutine",
    "error",
    "gcinfo",
    "getmetatable",
    "ipairs",
    "load",
    "loadstring",
    "math",
    "next",
    "rawequal",
    "select",
    "setmetatable",
    "string",
    "table",
    "tonumber",
    "tostring",
    "type",
];

/// Functions that must not swallow the error that ends a script, `table.sort` with a comparison that can be
/// interrupted, and the functions that compile text, which refuse compiled code: it could break the interpreter.
///
/// As in Redis, an error of the reader of `load` passes through the handler of errors that is in force. That requires a
/// call of Lua's own function by code in Lua.
const WRAPPERS: &str = r"
local pcall, xpcall, resume, sort, caught, exposed, load, loadstring, refuse, work, may_be_long = ...
local type, select, byte, sub = type, select, string.byte, string.sub
-- The number of bytes that are compiled between two chances to suspend the script, and the work that this takes.
local PIECE, PIECE_WORK = 1024, 1500
-- The numbers of elements from which a list is compared by `less`: a long list, and one of strings that may be long.
local LONG_LIST, LIST = 500, 8
local function settle(ok, ...)
  if ok then return true, ... end
  return false, caught(...)
end
local function settle_exposed(ok, ...)
  if ok then return true, ... end
  return false, exposed(...)
end
local function less(a, b) return a < b end
local function is_text(value)
  return type(value) == 'string' or type(value) == 'number'
end
local function check_text(name, place, count, value)
  if is_text(value) then return end
  refuse(name, place, 'string expected, got ' .. (count < place and 'no value' or type(value)))
end
local function compiled(is_refused, f, message)
  if is_refused then return nil, 'compiled code is not accepted' end
  if f then return f end
  return nil, exposed(message)
end
-- Returns a reader of the pieces that `next_piece` returns. It divides long ones.
local function divided(next_piece)
  local text, at, passed = nil, 1, 0
  return function()
    if not text or at > #text then
      text, at = next_piece(), 1
      if type(text) == 'number' then text = text .. '' end
      if text == nil then return nil end
    end
    passed = passed + PIECE
    if #text < PIECE then passed = passed - PIECE + #text end
    if passed >= PIECE then
      passed = 0
      work(PIECE_WORK)
    end
    at = at + PIECE
    return sub(text, at - PIECE, at - 1)
  end
end
return function(...) return settle(pcall(...)) end,
  function(f, handler)
    return settle_exposed(xpcall(f, function(raised) return handler(exposed(raised)) end))
  end,
  function(...)
    if type((...)) ~= 'thread' then refuse('resume', 1, 'coroutine expected') end
    return settle_exposed(resume(...))
  end,
  function(list, comparison)
    if comparison == nil and type(list) == 'table' and #list > LIST and (#list > LONG_LIST or may_be_long()) then
      comparison = less
    end
    return sort(list, comparison)
  end,
  function(...)
    local reader, name = ...
    if type(reader) ~= 'function' then
      refuse('load', 1, 'function expected, got ' .. (select('#', ...) == 0 and 'no value' or type(reader)))
    end
    if name ~= nil then check_text('load', 2, 2, name) end
    local has_begun, is_refused = false, false
    local f, message = load(divided(function()
      local piece = reader()
      if piece ~= nil and not is_text(piece) then refuse(nil, 0, 'reader function must return a string') end
      if piece and piece ~= '' and not has_begun then
        has_begun, is_refused = true, byte(piece) == 27
        if is_refused then return nil end
      end
      return piece
    end), name)
    return compiled(is_refused, f, message)
  end,
  function(...)
    local text, name = ...
    check_text('loadstring', 1, select('#', ...), text)
    if name ~= nil then check_text('loadstring', 2, 2, name) end
    local is_refused = byte(text) == 27
    if is_refused then return compiled(true) end
    if type(text) == 'number' or #text <= PIECE then return compiled(false, loadstring(text, name)) end
    local piece = text
    local function next_piece()
      local whole = piece
      piece = nil
      return whole
    end
    return compiled(false, load(divided(next_piece), name or text))
  end
";

/// The addresses of the read-only tables.
type Proxies = std::rc::Rc<std::cell::RefCell<HashSet<*const c_void>>>;

/// The globals of scripts and of functions.
pub(crate) struct Globals {
    /// The table behind the proxy that scripts see.
    pub(crate) scripts: Table,
    /// The proxy that functions see. They have no `KEYS` and `ARGV`.
    pub(crate) functions: Table,
    /// The metatable of the table `redis` of functions, whose contents depend on whether their library is being loaded.
    redis: Table,
    /// The contents while a library is being loaded, and at other times.
    redis_loading: Table,
    redis_running: Table,
}

impl Globals {
    /// Selects the table `redis` of functions.
    pub(crate) fn set_loading(&self, is_loading: bool) -> mlua::Result<()> {
        self.redis.raw_set("__index", if is_loading { &self.redis_loading } else { &self.redis_running })
    }
}

/// Creates the globals of scripts. Returns the table behind the proxy.
pub(crate) fn create<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
) -> mlua::Result<Globals> {
    let (native, globals) = (lua.globals(), lua.create_table()?);
    for name in BASE {
        globals.raw_set(*name, native.raw_get::<Value>(*name)?)?;
    }
    let clock = lua.create_table()?;
    clock.raw_set("clock", native.raw_get::<Table>("os")?.raw_get::<Value>("clock")?)?;
    globals.raw_set("os", clock)?;
    replace_catching(lua, scope, caller, &native, &globals)?;
    replace_collecting(scope, caller, &globals)?;
    library::add(lua, scope, caller, &globals)?;
    let protector = Protector::new(lua)?;
    library::tables::add(lua, scope, caller, (&native, &globals), protector.is_read_only(lua)?)?;
    let redis_running = globals.raw_get::<Table>("redis")?;
    let redis_loading = library::functions::create(lua, scope, caller, &redis_running)?;
    redis_loading.set_metatable(Some(refusing_unknown(lua)?))?;
    for name in ["string", "table", "math", "os", "coroutine", "redis", "server", "cjson", "cmsgpack", "struct", "bit"]
    {
        if let Value::Table(table) = globals.raw_get(name)? {
            globals.raw_set(name, protector.proxy(lua, table)?)?;
        }
    }
    protect_strings(lua, &protector, &globals)?;
    let proxy = protector.proxy(lua, globals.clone())?;
    globals.raw_set("_G", &proxy)?;
    globals.set_metatable(Some(refusing_unknown(lua)?))?;
    replace_raw_access(lua, &protector, &native, &globals)?;
    lua.set_globals(proxy)?;
    let of_functions = lua.create_table()?;
    for pair in globals.pairs::<Value, Value>() {
        let (name, value) = pair?;
        of_functions.raw_set(name, value)?;
    }
    of_functions.set_metatable(Some(refusing_unknown(lua)?))?;
    let (redis, metatable) = protector.view(lua, redis_running.clone())?;
    of_functions.raw_set("redis", &redis)?;
    of_functions.raw_set("server", redis)?;
    let functions = protector.proxy(lua, of_functions.clone())?;
    of_functions.raw_set("_G", &functions)?;
    Ok(Globals { scripts: globals, functions, redis: metatable, redis_loading, redis_running })
}

/// Creates read-only views of tables.
struct Protector {
    refuse: Function,
    proxies: Proxies,
}

impl Protector {
    fn new(lua: &Lua) -> mlua::Result<Self> {
        let refuse = lua.create_function(|lua, _: MultiValue| Err::<(), _>(at_caller(lua, READ_ONLY)))?;
        Ok(Self { refuse, proxies: Proxies::default() })
    }

    /// Returns a function that returns true for a table that scripts may not change.
    fn is_read_only(&self, lua: &Lua) -> mlua::Result<Function> {
        let proxies = Proxies::clone(&self.proxies);
        lua.create_function(move |_, table: Table| Ok(proxies.borrow().contains(&table.to_pointer())))
    }

    /// Returns a read-only view of a table.
    fn proxy(&self, lua: &Lua, table: Table) -> mlua::Result<Table> {
        self.view(lua, table).map(|(proxy, _)| proxy)
    }

    /// Returns a read-only view of a table, and the metatable of the view.
    fn view(&self, lua: &Lua, table: Table) -> mlua::Result<(Table, Table)> {
        let (proxy, metatable) = (lua.create_table()?, lua.create_table()?);
        metatable.raw_set("__index", table)?;
        metatable.raw_set("__newindex", &self.refuse)?;
        let shown = lua.create_table()?;
        let of_shown = lua.create_table()?;
        of_shown.raw_set("__newindex", &self.refuse)?;
        of_shown.raw_set("__metatable", false)?;
        shown.set_metatable(Some(of_shown))?;
        self.proxies.borrow_mut().insert(shown.to_pointer());
        metatable.raw_set("__metatable", shown)?;
        proxy.set_metatable(Some(metatable.clone()))?;
        self.proxies.borrow_mut().insert(proxy.to_pointer());
        Ok((proxy, metatable))
    }
}

/// Makes the metatable of strings read-only.
fn protect_strings(lua: &Lua, protector: &Protector, globals: &Table) -> mlua::Result<()> {
    let Some(metatable) = lua.type_metatable::<mlua::LuaString>() else { return Ok(()) };
    metatable.raw_set("__index", globals.raw_get::<Value>("string")?)?;
    let shown = lua.create_table()?;
    shown.raw_set("__index", globals.raw_get::<Value>("string")?)?;
    metatable.raw_set("__metatable", protector.proxy(lua, shown)?)
}

/// Returns a metatable that makes reads of names that do not exist an error.
fn refusing_unknown(lua: &Lua) -> mlua::Result<Table> {
    let unknown = lua.create_function(|lua, (_, name): (Value, Value)| {
        let name = match &name {
            Value::String(name) => name.to_string_lossy(),
            other => other.to_string()?,
        };
        Err::<(), _>(at_caller(lua, &format!("Script attempted to access nonexistent global variable '{name}'")))
    })?;
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", unknown)?;
    Ok(metatable)
}

/// Replaces the functions that write to tables, or iterate over them, without regard to metatables.
fn replace_raw_access(lua: &Lua, protector: &Protector, native: &Table, globals: &Table) -> mlua::Result<()> {
    let proxies = Proxies::clone(&protector.proxies);
    let rawset = lua.create_function(move |lua, (table, key, value): (Value, Value, Value)| {
        let Value::Table(table) = table else {
            return Err(bad_argument(lua, 1, &format!("table expected, got {}", type_name(&table))));
        };
        if proxies.borrow().contains(&table.to_pointer()) {
            return Err(plain(READ_ONLY));
        }
        table.raw_set(key, value)?;
        Ok(table)
    })?;
    globals.raw_set("rawset", rawset)?;
    globals.raw_set("setmetatable", refusing_setmetatable(lua, protector)?)?;
    let proxies = Proxies::clone(&protector.proxies);
    let rawget = lua.create_function(move |lua, (table, key): (Value, Value)| {
        let Value::Table(table) = table else {
            return Err(bad_argument(lua, 1, &format!("table expected, got {}", type_name(&table))));
        };
        behind(&proxies, table)?.raw_get::<Value>(key)
    })?;
    globals.raw_set("rawget", rawget)?;
    let (proxies, next) = (Proxies::clone(&protector.proxies), native.raw_get::<Function>("next")?);
    let pairs = lua.create_function(move |lua, values: MultiValue| {
        let table = match values.front() {
            Some(Value::Table(table)) => table.clone(),
            other => {
                let kind = other.map_or("no value", type_name);
                return Err(bad_argument(lua, 1, &format!("table expected, got {kind}")));
            }
        };
        let real = behind(&proxies, table)?;
        Ok((next.clone(), real, Value::Nil))
    })?;
    globals.raw_set("pairs", pairs)
}

/// Creates `setmetatable`, which refuses read-only tables as Redis does: not as tables with a protected metatable.
fn refusing_setmetatable(lua: &Lua, protector: &Protector) -> mlua::Result<Function> {
    let proxies = Proxies::clone(&protector.proxies);
    lua.create_function(move |lua, values: MultiValue| {
        let mut values = values.into_iter();
        let table = match values.next() {
            Some(Value::Table(table)) => table,
            other => {
                let kind = other.as_ref().map_or("no value", type_name);
                return Err(bad_argument(lua, 1, &format!("table expected, got {kind}")));
            }
        };
        let metatable = match values.next() {
            Some(Value::Table(metatable)) => Some(metatable),
            Some(Value::Nil) => None,
            _ => return Err(bad_argument(lua, 2, "nil or table expected")),
        };
        if proxies.borrow().contains(&table.to_pointer()) {
            return Err(plain(READ_ONLY));
        }
        if let Some(old) = table.metatable()
            && !old.raw_get::<Value>("__metatable")?.is_nil()
        {
            return Err(at_caller(lua, "cannot change a protected metatable"));
        }
        table.set_metatable(metatable)?;
        Ok(table)
    })
}

/// Returns the table behind a read-only view, or the table itself if it is no view.
fn behind(proxies: &Proxies, table: Table) -> mlua::Result<Table> {
    match table.metatable() {
        Some(metatable) if proxies.borrow().contains(&table.to_pointer()) => {
            Ok(metatable.raw_get::<Option<Table>>("__index")?.unwrap_or(table))
        }
        _ => Ok(table),
    }
}

/// Replaces the functions that catch errors, those that compile text, and `table.sort`.
fn replace_catching<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
    native: &Table,
    globals: &Table,
) -> mlua::Result<()> {
    let coroutine: Table = native.raw_get("coroutine")?;
    let table: Table = native.raw_get("table")?;
    let caught = scope.create_function(move |lua, raised: Value| caught(caller, lua, raised))?;
    let exposed = scope.create_function(move |lua, raised: Value| exposed(caller, lua, raised))?;
    let refuse = lua.create_function(|lua, (name, place, problem): (Option<String>, usize, String)| {
        let text = match name {
            Some(name) => format!("bad argument #{place} to '{name}' ({problem})"),
            None => problem,
        };
        Err::<(), _>(plain(place_in_script(lua) + &text))
    })?;
    let work = scope.create_function(move |_, units: usize| caller.work(units))?;
    let may_be_long = scope.create_function(move |_, ()| Ok(caller.ticks.may_be_long()))?;
    let natives = (
        native.raw_get::<Value>("pcall")?,
        native.raw_get::<Value>("xpcall")?,
        coroutine.raw_get::<Value>("resume")?,
        table.raw_get::<Value>("sort")?,
        caught,
        exposed,
        native.raw_get::<Value>("load")?,
        native.raw_get::<Value>("loadstring")?,
        refuse,
        work,
        may_be_long,
    );
    let wrappers = lua
        .load(WRAPPERS)
        .set_name("=redis")
        .call::<(Function, Function, Function, Function, Function, Function)>(natives)?;
    let (pcall, xpcall, resume, sort, load, loadstring) = wrappers;
    globals.raw_set("pcall", pcall)?;
    globals.raw_set("xpcall", xpcall)?;
    globals.raw_set("load", load)?;
    globals.raw_set("loadstring", loadstring)?;
    coroutine.raw_set("resume", resume)?;
    table.raw_set("sort", sort)
}

/// Replaces `collectgarbage`: a collection is done in slices, and scripts cannot change the collector's settings.
fn replace_collecting<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
    globals: &Table,
) -> mlua::Result<()> {
    let collect = scope.create_function(move |lua, option: Option<mlua::LuaString>| {
        let option = option.map_or_else(|| "collect".into(), |option| option.to_string_lossy());
        match &option[..] {
            "count" => Ok(Value::Number(lua.used_memory() as f64 / 1024.0)),
            "collect" | "step" => {
                for _ in 0..if option == "step" { 1 } else { 1 << 16 } {
                    if collect_piece(lua)? {
                        break;
                    }
                    caller.work(1_000)?;
                }
                Ok(if option == "step" { Value::Boolean(true) } else { Value::Number(0.0) })
            }
            "stop" | "restart" | "setpause" | "setstepmul" => Ok(Value::Number(0.0)),
            _ => Err(bad_argument(lua, 1, &format!("invalid option '{option}'"))),
        }
    })?;
    globals.raw_set("collectgarbage", collect)
}
