//! Errors that functions of this crate raise in a script.
//!
//! A Rust function can raise only a userdata value. `pcall`, `xpcall` and `coroutine.resume` of the sandbox turn it
//! into the value that Redis raises: a string, or a table with the field `err`.

use crate::script::Script;
use mlua::{Error, Lua, Value};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The name of the sandbox's own functions in positions.
const SANDBOX: &str = "redis";
/// The number of levels of the stack that may lie between an error and the script's function.
const LEVELS_MAX: usize = 8;

/// The script in execution and the name of its chunk, which the Lua state holds as its data.
pub(crate) type Running = Rc<RefCell<Option<(Arc<Script>, &'static str)>>>;

/// An error that a function raised.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The text, with the position in the script if it is not a reply.
    pub(crate) text: Vec<u8>,
    /// True if the text is an error reply, which begins with a code.
    pub(crate) is_reply: bool,
    /// The value that a function of the script has raised, which passes through a Rust function. The text is then
    /// empty.
    pub(crate) raised: Option<Value>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text))
    }
}

impl std::error::Error for Failure {}

/// Returns the failure that caused an error.
pub(crate) fn failure_in(error: &mlua::Error) -> Option<&Failure> {
    error.chain().find_map(|cause| cause.downcast_ref::<Failure>())
}

/// Returns an error with the text of an error reply.
pub(crate) fn reply(text: impl Into<Vec<u8>>) -> Error {
    Error::external(Failure { text: text.into(), is_reply: true, raised: None })
}

/// Returns the error with which a Rust function passes on the value that a function of the script has raised.
pub(crate) fn passed_on(raised: Value) -> Error {
    match raised {
        Value::Error(error) => *error,
        raised => Error::external(Failure { text: Vec::new(), is_reply: false, raised: Some(raised) }),
    }
}

/// Returns an error without a position.
pub(crate) fn plain(text: impl Into<Vec<u8>>) -> Error {
    Error::external(Failure { text: text.into(), is_reply: false, raised: None })
}

/// Returns an error whose text begins with the position of the function's caller, as `luaL_error` does.
pub(crate) fn at_caller(lua: &Lua, text: &str) -> Error {
    let mut whole = position(lua, 1).into_bytes();
    whole.extend_from_slice(text.as_bytes());
    plain(whole)
}

/// Returns the position of the function at `level`, or nothing if it is not a Lua function.
pub(crate) fn position(lua: &Lua, level: usize) -> String {
    let place = lua.inspect_stack(level, |debug| {
        let line = debug.current_line()?;
        Some(format!("{}:{line}: ", debug.source().short_src.as_deref().unwrap_or("?")))
    });
    place.flatten().unwrap_or_default()
}

/// Returns the position in the script: that of the first function on the stack which is not of the sandbox. How many
/// are of the sandbox depends on whether they were called last in their caller, whose place they then take. If that was
/// the whole script, the position is known only of a script with one line.
pub(crate) fn place_in_script(lua: &Lua) -> String {
    let mut places = (1..LEVELS_MAX).map(|level| position(lua, level));
    let place = places.find(|place| !place.is_empty() && !place.starts_with(SANDBOX));
    place.or_else(|| only_line(lua).map(|(chunk, line)| format!("{}:{line}: ", &chunk[1..]))).unwrap_or_default()
}

/// Returns the name of the chunk of the script in execution, and its line, if it has only one.
pub(crate) fn only_line(lua: &Lua) -> Option<(&'static str, i32)> {
    let running = lua.app_data_ref::<Running>()?;
    let running = running.borrow();
    let (script, chunk) = running.as_ref()?;
    let text = &script.text[script.header.skipped..];
    let mut lines = (1..).zip(text.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.trim_ascii().is_empty());
    match (lines.next(), lines.next()) {
        (Some((line, _)), None) => Some((*chunk, line)),
        _ => None,
    }
}

/// Returns an error about an argument of a function, as `luaL_argerror` does.
pub(crate) fn bad_argument(lua: &Lua, number: usize, problem: &str) -> Error {
    let called = lua.inspect_stack(0, |debug| {
        let names = debug.names();
        let name = names.name.map(|name| name.into_owned());
        (name.unwrap_or_else(|| "?".into()), names.name_what == Some("method"))
    });
    let (name, is_method) = called.unwrap_or_else(|| ("?".into(), false));
    match (is_method, number) {
        (true, 1) => at_caller(lua, &format!("calling '{name}' on bad self ({problem})")),
        (true, _) => at_caller(lua, &format!("bad argument #{} to '{name}' ({problem})", number.saturating_sub(1))),
        (false, _) => at_caller(lua, &format!("bad argument #{number} to '{name}' ({problem})")),
    }
}
