//! The table `redis`, also named `server`: calls of commands, replies, logging and constants.

use crate::caller::{Caller, beyond_limit, put_bytes};
use crate::catching::error_table;
use crate::events::MachineEvent;
use crate::failure::reply;
use crate::numbers::{number_in, put_general, put_head, to_integer};
use crate::replies::ReplyReader;
use crate::script::digest_in_pieces;
use mlua::{Lua, MultiValue, Scope, Table, Value};

/// The version of Redis whose scripts run unchanged.
const VERSION: (&str, u32) = ("7.0.15", 0x0007_000F);
const LEVELS: [&str; 4] = ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"];
/// The number of bytes whose digest is computed between two chances to suspend the script.
const DIGESTED_BYTES: usize = 16 << 10;
const NOT_WORDS: &str = "ERR Lua redis lib command arguments must be strings or integers";
const ARGUMENTS: &str = "ERR wrong number or type of arguments";

/// Adds the table.
pub(crate) fn add<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
    globals: &Table,
) -> mlua::Result<()> {
    let redis = lua.create_table()?;
    let call = scope.create_function(move |lua, words: MultiValue| match execute(lua, caller, &words)? {
        Called::Value(value) => Ok(value),
        Called::Error(text) => Err(reply(text)),
    })?;
    redis.raw_set("call", call)?;
    let pcall = scope.create_function(move |lua, words: MultiValue| match execute(lua, caller, &words)? {
        Called::Value(value) => Ok(value),
        Called::Error(text) => {
            let table = error_table(lua, &text)?;
            // Redis sets this field too.
            table.raw_set("ignore_error_stats_update", true)?;
            Ok(Value::Table(table))
        }
    })?;
    redis.raw_set("pcall", pcall)?;
    add_replies(lua, scope, caller, &redis)?;
    add_log(lua, &redis)?;
    add_replication(lua, &redis)?;
    let check = scope.create_function(move |_, words: MultiValue| check_rights(caller, &words))?;
    redis.raw_set("acl_check_cmd", check)?;
    redis.raw_set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    redis.raw_set("REDIS_VERSION", VERSION.0)?;
    redis.raw_set("REDIS_VERSION_NUM", VERSION.1)?;
    globals.raw_set("server", &redis)?;
    globals.raw_set("redis", redis)
}

/// The outcome of a command.
enum Called {
    Value(Value),
    /// The text of an error reply.
    Error(Vec<u8>),
}

/// Calls a command.
fn execute(lua: &Lua, caller: &Caller<'_>, words: &MultiValue) -> mlua::Result<Called> {
    if let Err(text) = put_request(caller, words)? {
        return Ok(Called::Error(text.into()));
    }
    caller.suspend(MachineEvent::Call)?;
    let bytes = std::mem::take(&mut caller.exchange.borrow_mut().reply);
    let called = match &bytes[..] {
        [b'-', text @ ..] => Ok(Called::Error(text.strip_suffix(b"\r\n").unwrap_or(text).to_vec())),
        _ => beyond_limit(lua, bytes.len(), || ReplyReader { lua, caller, bytes: &bytes, at: 0 }.value())
            .map(Called::Value),
    };
    let length = bytes.len();
    caller.exchange.borrow_mut().reply = bytes;
    caller.ticks.created(lua, length)?;
    called
}

/// Writes the request of a command. Returns an error reply if `words` are not the words of a request.
///
/// # Errors
/// If the request is too long, or the script must end.
fn put_request(caller: &Caller<'_>, words: &MultiValue) -> mlua::Result<Result<(), &'static str>> {
    let put = put_words(caller, words)?;
    let length = caller.exchange.borrow().request.len();
    caller.work(length / 64)?;
    Ok(put)
}

fn put_words(caller: &Caller<'_>, words: &MultiValue) -> mlua::Result<Result<(), &'static str>> {
    if words.is_empty() {
        return Ok(Err("ERR Please specify at least one argument for this redis lib call"));
    }
    let exchange = &mut *caller.exchange.borrow_mut();
    let out = &mut exchange.request;
    out.clear();
    put_head(out, b'*', words.len());
    exchange.request_words = (words.len() as u32, out.len());
    let mut digits = Vec::new();
    for word in words {
        match word {
            Value::String(text) => put_word(out, &text.as_bytes())?,
            other => {
                let Some(number) = number_in(other) else { return Ok(Err(NOT_WORDS)) };
                digits.clear();
                put_general(&mut digits, number, 17);
                put_word(out, &digits)?;
            }
        }
    }
    Ok(Ok(()))
}

fn put_word(out: &mut Vec<u8>, word: &[u8]) -> mlua::Result<()> {
    put_head(out, b'$', word.len());
    put_bytes(out, word)?;
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Adds `error_reply`, `status_reply`, `sha1hex` and `setresp`.
fn add_replies<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
    redis: &Table,
) -> mlua::Result<()> {
    let error_reply = lua.create_function(|lua, words: MultiValue| {
        let Some(text) = only_string(&words) else { return error_table(lua, ARGUMENTS.as_bytes()) };
        error_table(lua, &with_code(&text))
    })?;
    redis.raw_set("error_reply", error_reply)?;
    let status_reply = lua.create_function(|lua, words: MultiValue| {
        let Some(text) = only_string(&words) else { return error_table(lua, ARGUMENTS.as_bytes()) };
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set("ok", lua.create_string(text)?)?;
        Ok(table)
    })?;
    redis.raw_set("status_reply", status_reply)?;
    let sha1hex = scope.create_function(move |lua, words: MultiValue| {
        let [text] = &words.iter().collect::<Vec<_>>()[..] else { return Err(reply("ERR wrong number of arguments")) };
        let text = lua.coerce_string((*text).clone())?;
        let text = text.map(|text| text.as_bytes().to_vec()).unwrap_or_default();
        let digest = digest_in_pieces(text.chunks(DIGESTED_BYTES), |piece| caller.work(piece.len() / 8))?;
        lua.create_string(digest)
    })?;
    redis.raw_set("sha1hex", sha1hex)?;
    let setresp = scope.create_function(move |lua, words: MultiValue| {
        if words.len() != 1 {
            return Err(reply("ERR redis.setresp() requires one argument."));
        }
        let version = words.front().and_then(|value| lua.coerce_number(value.clone()).ok().flatten());
        let version = version.unwrap_or_default();
        if version != 2.0 && version != 3.0 {
            return Err(reply("ERR RESP version must be 2 or 3."));
        }
        caller.exchange.borrow_mut().calls_in_3 = version == 3.0;
        Ok(())
    })?;
    redis.raw_set("setresp", setresp)
}

/// Returns the only argument, if it is a string.
fn only_string(words: &MultiValue) -> Option<Vec<u8>> {
    match (words.len(), words.front()) {
        (1, Some(Value::String(text))) => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

/// Returns the text of an error reply. A text of one word gets the code `ERR`.
fn with_code(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |at| at + 1);
    if text.contains(&b' ') { text[..end].to_vec() } else { [b"ERR ", &text[..end]].concat() }
}

/// Adds `log` and its levels.
fn add_log(lua: &Lua, redis: &Table) -> mlua::Result<()> {
    for (level, name) in LEVELS.into_iter().enumerate() {
        redis.raw_set(name, level)?;
    }
    let log = lua.create_function(|lua, words: MultiValue| {
        if words.len() < 2 {
            return Err(reply("ERR redis.log() requires two arguments or more."));
        }
        let Some(level) = words.front().and_then(number_in) else {
            return Err(reply("ERR First argument must be a number (log level)."));
        };
        let level = to_integer(level);
        if !(0..=3).contains(&level) {
            return Err(reply("ERR Invalid debug level."));
        }
        let mut text = Vec::new();
        for word in words.iter().skip(1) {
            if let Some(word) = lua.coerce_string(word.clone())? {
                if !text.is_empty() {
                    text.push(b' ');
                }
                put_bytes(&mut text, &word.as_bytes())?;
            }
        }
        let text = String::from_utf8_lossy(&text);
        match level {
            0 => tracing::trace!("script: {text}"),
            1 => tracing::debug!("script: {text}"),
            2 => tracing::info!("script: {text}"),
            _ => tracing::warn!("script: {text}"),
        }
        Ok(())
    })?;
    redis.raw_set("log", log)
}

/// Adds the functions and constants about replication, which have no effect, because there are no replicas.
fn add_replication(lua: &Lua, redis: &Table) -> mlua::Result<()> {
    for (name, value) in [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)] {
        redis.raw_set(name, value)?;
    }
    redis.raw_set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    let set_repl = lua.create_function(|lua, words: MultiValue| {
        if words.len() != 1 {
            return Err(reply("ERR redis.set_repl() requires two arguments."));
        }
        let flags = words.front().and_then(|value| lua.coerce_number(value.clone()).ok().flatten());
        if !(0..=3).contains(&to_integer(flags.unwrap_or_default())) {
            let text = "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
            return Err(reply(text));
        }
        Ok(())
    })?;
    redis.raw_set("set_repl", set_repl)
}

/// Executes `acl_check_cmd`: returns true if the client's user may execute a command.
fn check_rights(caller: &Caller<'_>, words: &MultiValue) -> mlua::Result<bool> {
    put_request(caller, words)?.map_err(reply)?;
    caller.suspend(MachineEvent::Rights)?;
    let allowed = caller.exchange.borrow().reply.clone();
    match &allowed[..] {
        b":1\r\n" => Ok(true),
        b":0\r\n" => Ok(false),
        _ => Err(reply("ERR Invalid command passed to redis.acl_check_cmd()")),
    }
}
