//! The machine's own side: creates the Lua state, and compiles and runs scripts in it.

use crate::HEAP_BYTES_MAX;
use crate::caller::{Caller, beyond_limit, collect_piece};
use crate::catching::{described, error_table, put_error, text_of};
use crate::events::{Input, MachineEvent};
use crate::exchange::SharedExchange;
use crate::failure::{Running, only_line};
use crate::library::functions::LOADING;
use crate::results::{Names, put_result};
use crate::sandbox;
use crate::script::Script;
use corosensei::Yielder;
use mlua::chunk::ChunkMode;
use mlua::{BString, Either, Function, Lua, LuaOptions, StdLib, Table, Value};
use std::cell::RefCell;
use std::sync::Arc;

/// The number of compiled scripts that a machine retains.
const COMPILED_MAX: usize = 1_024;
/// The size of a heap above which a machine collects garbage before it takes the next script, in bytes.
const HEAP_AT_REST_BYTES: usize = 8 << 20;
/// Lua's `xpcall` passes no arguments to the function that it calls.
const CALL_FUNCTION: &str = r"
local xpcall = ...
return function(f, keys, args, handler)
  return xpcall(function() return f(keys, args) end, handler)
end
";
/// The names of the chunks of scripts and of libraries.
const SCRIPT_CHUNK: &str = "@user_script";
const LIBRARY_CHUNK: &str = "@user_function";
/// The name of the chunk with the sandbox's functions in Lua.
const WRAPPERS_SOURCE: &str = "=redis";
/// The source that Lua reports for a function that was replaced by the function that it called last.
const REPLACED: &str = "=(tail call)";
/// The source that Lua reports for code in C.
const C_CODE: &str = "=[C]";

/// Runs scripts until the machine is stopped.
pub(crate) fn serve(yielder: &Yielder<Input, MachineEvent>, first: Input, exchange: &SharedExchange) {
    if first == Input::Stop {
        return;
    }
    let Ok(lua) = Lua::new_with(StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::OS, LuaOptions::new()) else {
        return;
    };
    let caller = Caller::new(yielder, SharedExchange::clone(exchange));
    let error = RefCell::new(None);
    let served = lua.scope(|scope| {
        let tick = scope.create_function(|_, is_short: bool| {
            caller.suspend(if is_short { MachineEvent::ShortTick } else { MachineEvent::Tick })
        })?;
        let sentinel = caller.ticks.install(&lua, tick)?;
        sentinel.call::<()>(true)?;
        let handler = scope.create_function(|lua, raised: Value| {
            let ended = describe(lua, &raised);
            // The error of a reader of `load` becomes the second result of `load`.
            let table = table_of(lua, &raised, &ended).map_or(Value::Nil, Value::Table);
            *error.borrow_mut() = Some(ended);
            Ok(table)
        })?;
        let running = Running::default();
        lua.set_app_data(Running::clone(&running));
        let vm = Vm {
            protected_call: lua.globals().get("xpcall")?,
            call_function: lua
                .load(CALL_FUNCTION)
                .set_name(WRAPPERS_SOURCE)
                .call(lua.globals().get::<Value>("xpcall")?)?,
            libraries: lua.create_table()?,
            library_count: 0,
            globals: sandbox::create(&lua, scope, &caller)?,
            compiled: lua.create_table()?,
            compiled_count: 0,
            names: Names::new(&lua)?,
            handler,
            error: &error,
            running,
            sentinel: sentinel.clone(),
            caller: &caller,
            lua: &lua,
        };
        lua.set_memory_limit(HEAP_BYTES_MAX)?;
        vm.run_scripts();
        caller.ticks.end(&sentinel)
    });
    if let Err(error) = served {
        tracing::error!("cannot create a Lua state: {error}");
    }
}

/// The description of an error that ended a script.
struct Ended {
    text: Vec<u8>,
    /// The name of the chunk and the line at which the error was raised.
    place: Option<(String, i32)>,
}

struct Vm<'s, 'y> {
    lua: &'s Lua,
    caller: &'s Caller<'y>,
    /// Lua's `xpcall`.
    protected_call: Function,
    /// Calls a function of a library with its keys and arguments, as `protected_call`.
    call_function: Function,
    globals: sandbox::Globals,
    /// The functions of the loaded libraries, by the numbers of the libraries and their names.
    libraries: Table,
    library_count: usize,
    /// The compiled scripts, by their numbers.
    compiled: Table,
    compiled_count: usize,
    names: Names,
    handler: Function,
    error: &'s RefCell<Option<Ended>>,
    running: Running,
    /// Creates the sentinel of `caller/ticks.rs`.
    sentinel: Function,
}

impl Vm<'_, '_> {
    fn run_scripts(mut self) {
        let mut event = MachineEvent::Idle;
        loop {
            let input = self.caller.idle(event);
            let script = self.caller.exchange.borrow_mut().script.take();
            let Some(script) = script.filter(|_| input != Input::Stop) else { return };
            let mut result = std::mem::take(&mut self.caller.exchange.borrow_mut().result);
            result.clear();
            self.caller.exchange.borrow_mut().is_uncompiled = false;
            let begun = self.caller.ticks.begin(self.lua, &self.sentinel);
            if let Err(error) = begun.and_then(|()| self.execute(input, &script, &mut result)) {
                result.clear();
                put_error(&mut result, &described(&error));
            }
            self.rest();
            let mut exchange = self.caller.exchange.borrow_mut();
            (exchange.result, exchange.heap_bytes) = (result, self.lua.used_memory());
            event = MachineEvent::Done;
        }
    }

    /// Compiles, loads or runs a script. Appends the result.
    fn execute(&mut self, input: Input, script: &Arc<Script>, result: &mut Vec<u8>) -> mlua::Result<()> {
        let function = self.caller.exchange.borrow_mut().function.take();
        let is_library = input == Input::Load || function.is_some();
        let chunk = if is_library { LIBRARY_CHUNK } else { SCRIPT_CHUNK };
        *self.running.borrow_mut() = Some((Arc::clone(script), chunk));
        if is_library {
            let Some(functions) = self.library_of(script, result)? else { return Ok(()) };
            let Some(name) = function else { return Ok(()) };
            let callback: Function = functions.raw_get(self.lua.create_string(&name)?)?;
            return self.run_function(&name, &callback, result);
        }
        match self.function_of(script) {
            Ok(function) if input == Input::Run => self.run(script, &function, result),
            Ok(_) => Ok(()),
            Err(error) => {
                put_error(result, &compile_error("ERR Error compiling script (new function): ", &error));
                self.caller.exchange.borrow_mut().is_uncompiled = true;
                Ok(())
            }
        }
    }

    /// Returns the functions of a library. Loads the library if it is not loaded. Returns `None`, after an error reply,
    /// if it cannot be loaded.
    fn library_of(&mut self, script: &Script, result: &mut Vec<u8>) -> mlua::Result<Option<Table>> {
        if let Some(functions) = self.libraries.raw_get(script.number)? {
            return Ok(Some(functions));
        }
        let text = &script.text[script.header.skipped..];
        let chunk = self.lua.load(text).set_name(LIBRARY_CHUNK).set_mode(ChunkMode::Text);
        let failed = match chunk.set_environment(self.globals.functions.clone()).into_function() {
            Err(error) => Some(compile_error("ERR Error compiling function: ", &error)),
            Ok(chunk) => self.load(&chunk)?,
        };
        if let Some(text) = failed {
            put_error(result, &text);
            self.caller.exchange.borrow_mut().is_uncompiled = true;
            return Ok(None);
        }
        if self.library_count == COMPILED_MAX {
            (self.libraries, self.library_count) = (self.lua.create_table()?, 0);
        }
        let functions: Table = self.lua.named_registry_value(LOADING)?;
        self.libraries.raw_set(script.number, &functions)?;
        self.library_count += 1;
        Ok(Some(functions))
    }

    /// Executes the text of a library, which registers its functions. Returns the error reply if it fails.
    fn load(&self, chunk: &Function) -> mlua::Result<Option<Vec<u8>>> {
        self.caller.exchange.borrow_mut().registered.clear();
        self.caller.exchange.borrow_mut().registered_bytes = 0;
        self.lua.set_named_registry_value(LOADING, self.lua.create_table()?)?;
        self.globals.set_loading(true)?;
        let called = self.protected_call.call::<(bool, Value)>((chunk, &self.handler));
        self.globals.set_loading(false)?;
        let (is_done, value) = called?;
        if is_done {
            return Ok(None);
        }
        let text = self.error.borrow_mut().take().map_or_else(|| text_of(&value), |ended| ended.text);
        Ok(Some([b"ERR Error registering functions: ", &text[..]].concat()))
    }

    /// Calls a function of a library.
    fn run_function(&self, name: &[u8], callback: &Function, result: &mut Vec<u8>) -> mlua::Result<()> {
        let word_bytes = self.caller.exchange.borrow().word_bytes();
        let (keys, args) = beyond_limit(self.lua, word_bytes, || self.words())?;
        self.caller.ticks.created(self.lua, word_bytes)?;
        let called = self.call_function.call::<(bool, Value)>((callback, keys, args, &self.handler))?;
        self.put_outcome(called, name, result)
    }

    /// Returns the compiled script.
    fn function_of(&mut self, script: &Script) -> mlua::Result<Function> {
        if let Some(function) = self.compiled.raw_get(script.number)? {
            return Ok(function);
        }
        let text = &script.text[script.header.skipped..];
        let function = self.lua.load(text).set_name(SCRIPT_CHUNK).set_mode(ChunkMode::Text).into_function()?;
        if self.compiled_count == COMPILED_MAX {
            (self.compiled, self.compiled_count) = (self.lua.create_table()?, 0);
        }
        self.compiled.raw_set(script.number, &function)?;
        self.compiled_count += 1;
        Ok(function)
    }

    fn run(&self, script: &Arc<Script>, function: &Function, result: &mut Vec<u8>) -> mlua::Result<()> {
        let word_bytes = self.caller.exchange.borrow().word_bytes();
        beyond_limit(self.lua, word_bytes, || {
            let (keys, args) = self.words()?;
            self.globals.scripts.raw_set(&self.names.keys, keys)?;
            self.globals.scripts.raw_set(&self.names.args, args)
        })?;
        self.caller.ticks.created(self.lua, word_bytes)?;
        let called = self.protected_call.call::<(bool, Value)>((function, &self.handler))?;
        self.put_outcome(called, &script.digest, result)
    }

    /// Appends the reply for the outcome of a script or function with this name.
    fn put_outcome(&self, called: (bool, Value), name: &[u8], result: &mut Vec<u8>) -> mlua::Result<()> {
        let (is_done, value) = called;
        if is_done {
            let in_3 = self.caller.exchange.borrow().replies_in_3;
            return put_result(self.caller, &self.names, result, &value, in_3);
        }
        let ended = self.error.borrow_mut().take();
        let Ended { mut text, place } = ended.unwrap_or_else(|| Ended { text: text_of(&value), place: None });
        if let Some((source, line)) = place {
            text.extend_from_slice(b" script: ");
            text.extend_from_slice(name);
            text.extend_from_slice(format!(", on {source}:{line}.").as_bytes());
        }
        put_error(result, &text);
        Ok(())
    }

    /// Returns the keys and the arguments.
    fn words(&self) -> mlua::Result<(Table, Table)> {
        let exchange = self.caller.exchange.borrow();
        // `mlua` puts text into a table without a reference to it. A reference costs more than the string.
        let text_of = |number| match std::str::from_utf8(exchange.word(number)) {
            Ok(text) => Either::Left(text),
            Err(_) => Either::Right(BString::from(exchange.word(number))),
        };
        let table_of = |range: std::ops::Range<usize>| self.lua.create_sequence_from(range.map(text_of));
        Ok((table_of(0..exchange.keys)?, table_of(exchange.keys..exchange.ends.len())?))
    }

    /// Prepares the state for the next script: drops this script's arguments, and collects garbage if there is much.
    fn rest(&self) {
        // A function of a library would see these globals in code that it loads, so no arguments remain in them.
        let scripts = &self.globals.scripts;
        let _ = beyond_limit(self.lua, 0, || {
            scripts.raw_set(&self.names.keys, Value::Nil).and_then(|()| scripts.raw_set(&self.names.args, Value::Nil))
        });
        while self.lua.used_memory() > HEAP_AT_REST_BYTES {
            if collect_piece(self.lua).unwrap_or(true) || self.caller.suspend(MachineEvent::Tick).is_err() {
                break;
            }
        }
    }
}

/// Describes the value that a script has raised. Called as the handler of the error, while the script's stack exists.
fn describe(lua: &Lua, raised: &Value) -> Ended {
    let place_at = |level| {
        lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let is_c = source.what == "C";
            (
                is_c,
                source.source.as_deref().unwrap_or("?").to_owned(),
                debug.current_line().map_or(-1, |line| line as i32),
            )
        })
    };
    let raiser = place_at(1).map_or(1, |(is_c, ..)| if is_c { 2 } else { 1 });
    // The sandbox's own functions are no part of the script, and a caller that was replaced by its last call has no
    // place.
    let mut places = (raiser..)
        .map_while(place_at)
        .map(|(_, source, line)| (source, line))
        .filter(|(source, _)| source != WRAPPERS_SOURCE && source != REPLACED);
    let place = places.next();
    // If no function of the script is left on the stack, the call that ended it has replaced it.
    let is_replaced = place.iter().cloned().chain(places).all(|(source, _)| source == C_CODE);
    let only = if is_replaced { only_line(lua).map(|(chunk, line)| (chunk.to_owned(), line)) } else { None };
    Ended { text: text_of(raised), place: only.or(place) }
}

/// Returns the table that the handler of errors of Redis makes of the value that a script has raised.
fn table_of(lua: &Lua, raised: &Value, ended: &Ended) -> mlua::Result<Table> {
    let table = match raised {
        Value::Table(table) => table.clone(),
        _ => error_table(lua, &ended.text)?,
    };
    if let Some((source, line)) = ended.place.as_ref().filter(|_| table.metatable().is_none()) {
        table.raw_set("source", source.as_str())?;
        table.raw_set("line", *line)?;
    }
    Ok(table)
}

/// Returns the text of the error reply to a script that does not compile. It begins with `start`.
fn compile_error(start: &str, error: &mlua::Error) -> Vec<u8> {
    let text = match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        error => error.to_string(),
    };
    format!("{start}{text}").into_bytes()
}
