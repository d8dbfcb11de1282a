//! The functions of `string` that may take long: searches by patterns, `rep`, and changes of all bytes of a text. They
//! can be interrupted.

use super::args::{Args, type_name};
use super::matcher::{Extent, Matcher, Stop};
use crate::HEAP_BYTES_MAX;
use crate::caller::{Caller, not_enough_memory, put_bytes};
use crate::failure::{passed_on, plain, position};
use crate::numbers::number_in;
use mlua::{Function, Lua, MultiValue, Scope, Table, Value};
use std::cell::Cell;

/// The bytes that have a meaning in patterns.
const SPECIAL: &[u8] = b"^$*+?.([%-";
/// A function that changes a text in its place.
type Change = fn(&mut [u8]);

/// The functions that change all bytes of a text.
const CHANGES: [(&str, Change); 3] =
    [("upper", <[u8]>::make_ascii_uppercase), ("lower", <[u8]>::make_ascii_lowercase), ("reverse", <[u8]>::reverse)];
/// The name under which the registry stores the function that continues `gmatch`.
const NEXT_MATCH: &str = "gannet.next_match";
/// The name under which the registry stores Lua's own `pcall`.
const PCALL: &str = "gannet.pcall";
/// The number of bytes of a pattern that are examined between two chances to suspend the script.
const PATTERN_BYTES_AT_ONCE: usize = 4_096;
/// The number of bytes that `rep` copies between two chances to suspend the script.
const COPIED_BYTES: usize = 256 << 10;

/// Replaces the functions.
pub(crate) fn add<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
    string: &Table,
) -> mlua::Result<()> {
    let find = scope.create_function(move |lua, values: MultiValue| search(caller, &Args::new(lua, &values), true))?;
    string.raw_set("find", find)?;
    let matching =
        scope.create_function(move |lua, values: MultiValue| search(caller, &Args::new(lua, &values), false))?;
    string.raw_set("match", matching)?;
    let gsub = scope.create_function(move |lua, values: MultiValue| substitute(caller, &Args::new(lua, &values)))?;
    string.raw_set("gsub", gsub)?;
    let next = scope.create_function(move |lua, values: MultiValue| next_match(caller, &Args::new(lua, &values)))?;
    lua.set_named_registry_value(NEXT_MATCH, next)?;
    lua.set_named_registry_value(PCALL, lua.globals().raw_get::<Value>("pcall")?)?;
    let gmatch = lua.create_function(|lua, values: MultiValue| iterate(lua, &Args::new(lua, &values)))?;
    string.raw_set("gmatch", &gmatch)?;
    string.raw_set("gfind", gmatch)?;
    for (name, change) in CHANGES {
        let function = scope.create_function(move |lua, values: MultiValue| {
            let mut text = Args::new(lua, &values).string(1)?.as_bytes().to_vec();
            caller.work(text.len() / 16)?;
            change(&mut text);
            caller.long_string(lua, &text)
        })?;
        string.raw_set(name, function)?;
    }
    let rep = scope.create_function(move |lua, values: MultiValue| repeat(caller, &Args::new(lua, &values)))?;
    string.raw_set("rep", rep)
}

/// Returns the error that ends a search. The position is that of the function at `level`.
fn error_of(lua: &Lua, stop: Stop, level: usize) -> mlua::Error {
    match stop {
        Stop::Invalid(problem) => plain(position(lua, level) + problem),
        Stop::End(error) => error,
    }
}

/// Returns the value of the capture with this number. If there are no captures, the first one is the whole match.
fn capture(
    lua: &Lua,
    matcher: &Matcher<'_, '_>,
    text: &[u8],
    number: usize,
    whole: (usize, usize),
) -> Result<Value, Stop> {
    let string = |bytes: &[u8]| lua.create_string(bytes).map(Value::String).map_err(Stop::End);
    match matcher.captures.get(number) {
        None if number == 0 => string(&text[whole.0..whole.1]),
        Some((start, Extent::Length(length))) => string(&text[*start..start + length]),
        Some((start, Extent::Position)) => Ok(Value::Number((start + 1) as f64)),
        Some((_, Extent::Unfinished)) => Err(Stop::Invalid("unfinished capture")),
        None => Err(Stop::Invalid("invalid capture index")),
    }
}

/// Appends the values of all captures, or of the whole match if there are none.
fn put_captures(
    lua: &Lua,
    matcher: &Matcher<'_, '_>,
    text: &[u8],
    whole: (usize, usize),
    into: &mut Vec<Value>,
) -> Result<(), Stop> {
    for number in 0..matcher.captures.len().max(1) {
        into.push(capture(lua, matcher, text, number, whole)?);
    }
    Ok(())
}

/// Executes `find` and `match`.
fn search(caller: &Caller<'_>, args: &Args<'_>, finds: bool) -> mlua::Result<MultiValue> {
    let (lua, text, pattern) = (args.lua, args.string(1)?, args.string(2)?);
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let first = match args.integer_or(3, 1)? {
        first if first < 0 => (text.len() as i64 + first + 1).max(0),
        first => first,
    };
    let first = (first - 1).clamp(0, text.len() as i64) as usize;
    let is_plain = args.value(4).is_some_and(|value| !matches!(value, Value::Nil | Value::Boolean(false)));
    if finds && (is_plain || !has_special(caller, &pattern)?) {
        let found = find_plain(caller, &text[first..], &pattern)?.map(|place| place + first);
        let places = found.map(|place| [(place + 1) as f64, (place + pattern.len()) as f64].map(Value::Number));
        return Ok(places.map_or_else(|| MultiValue::from_iter([Value::Nil]), MultiValue::from_iter));
    }
    let mut matcher = Matcher::new(caller, &text, &pattern)?;
    let is_anchored = pattern.first() == Some(&b'^');
    for at in first..=if is_anchored { first } else { text.len() } {
        let matched = matcher.match_at(at, usize::from(is_anchored)).map_err(|stop| error_of(lua, stop, 1))?;
        let Some(end) = matched else { continue };
        let mut values = Vec::new();
        if finds {
            values.extend([(at + 1) as f64, end as f64].map(Value::Number));
        }
        if !finds || !matcher.captures.is_empty() {
            put_captures(lua, &matcher, &text, (at, end), &mut values).map_err(|stop| error_of(lua, stop, 1))?;
        }
        return Ok(MultiValue::from_vec(values));
    }
    Ok(MultiValue::from_iter([Value::Nil]))
}

/// Returns true if a byte that has a meaning in patterns is in a pattern, before its first zero byte.
fn has_special(caller: &Caller<'_>, pattern: &[u8]) -> mlua::Result<bool> {
    for piece in pattern.chunks(PATTERN_BYTES_AT_ONCE) {
        let end = piece.iter().position(|byte| *byte == 0 || SPECIAL.contains(byte));
        caller.work(end.unwrap_or(piece.len()) / 4)?;
        if let Some(end) = end {
            return Ok(piece[end] != 0);
        }
    }
    Ok(false)
}

/// Returns the first place of `wanted` in a text.
fn find_plain(caller: &Caller<'_>, text: &[u8], wanted: &[u8]) -> mlua::Result<Option<usize>> {
    let Some((first, rest)) = wanted.split_first() else { return Ok(Some(0)) };
    let mut at = 0;
    while let Some(ahead) = caller.position_of(*first, &text[at..])? {
        caller.work(2)?;
        at += ahead;
        if begins_with(caller, &text[at + 1..], rest)? {
            return Ok(Some(at));
        }
        at += 1;
    }
    Ok(None)
}

/// Returns true if a text begins with `wanted`.
fn begins_with(caller: &Caller<'_>, text: &[u8], wanted: &[u8]) -> mlua::Result<bool> {
    if text.len() < wanted.len() {
        return Ok(false);
    }
    for (one, other) in text.chunks(PATTERN_BYTES_AT_ONCE).zip(wanted.chunks(PATTERN_BYTES_AT_ONCE)) {
        let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
        caller.work(same / 4)?;
        if same < other.len() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Executes `gmatch`: returns an iterator over the matches.
fn iterate(lua: &Lua, args: &Args<'_>) -> mlua::Result<Function> {
    let (text, pattern, at) = (args.string(1)?, args.string(2)?, Cell::new(0.0));
    lua.create_function(move |lua, _: MultiValue| {
        let next: Function = lua.named_registry_value(NEXT_MATCH)?;
        let mut values: MultiValue = next.call((&text, &pattern, at.get()))?;
        at.set(values.pop_front().as_ref().and_then(number_in).unwrap_or(f64::MAX));
        Ok(values)
    })
}

/// Returns the position after the next match, and its captures.
fn next_match(caller: &Caller<'_>, args: &Args<'_>) -> mlua::Result<MultiValue> {
    let (lua, text, pattern) = (args.lua, args.string(1)?, args.string(2)?);
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let mut matcher = Matcher::new(caller, &text, &pattern)?;
    for at in args.integer(3)? as usize..=text.len() {
        let Some(end) = matcher.match_at(at, 0).map_err(|stop| error_of(lua, stop, 2))? else { continue };
        let mut values = vec![Value::Number((if end == at { end + 1 } else { end }) as f64)];
        put_captures(lua, &matcher, &text, (at, end), &mut values).map_err(|stop| error_of(lua, stop, 2))?;
        return Ok(MultiValue::from_vec(values));
    }
    Ok(MultiValue::from_iter([Value::Number((text.len() + 1) as f64), Value::Nil]))
}

/// Executes `gsub`.
fn substitute(caller: &Caller<'_>, args: &Args<'_>) -> mlua::Result<(Value, f64)> {
    let (lua, text, pattern) = (args.lua, args.string(1)?, args.string(2)?);
    let new = args.value(3).unwrap_or(&Value::Nil);
    if !matches!(type_name(new), "string" | "number" | "table" | "function") {
        return Err(args.error(3, "string/function/table expected"));
    }
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let most = args.integer_or(4, text.len() as i64 + 1)?;
    let is_anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(caller, &text, &pattern)?;
    let (mut out, mut at, mut count) = (Vec::new(), 0, 0);
    while count < most {
        let matched = matcher.match_at(at, usize::from(is_anchored)).map_err(|stop| error_of(lua, stop, 1))?;
        if let Some(end) = matched {
            count += 1;
            let before = out.len();
            put_new(caller, args, &matcher, &text, (at, end), &mut out)?;
            caller.work((out.len() - before) / 64)?;
        }
        match matched {
            Some(end) if end > at => at = end,
            _ if at < text.len() => {
                out.push(text[at]);
                at += 1;
            }
            _ => break,
        }
        if is_anchored {
            break;
        }
    }
    put_bytes(&mut out, text.get(at..).unwrap_or_default())?;
    caller.work(out.len() / 32)?;
    Ok((Value::String(caller.long_string(lua, &out)?), count as f64))
}

/// Appends the text that replaces a match.
fn put_new(
    caller: &Caller<'_>,
    args: &Args<'_>,
    matcher: &Matcher<'_, '_>,
    text: &[u8],
    whole: (usize, usize),
    out: &mut Vec<u8>,
) -> mlua::Result<()> {
    let lua = args.lua;
    let value = match args.value(3) {
        Some(Value::Table(table)) => {
            let name = capture(lua, matcher, text, 0, whole).map_err(|stop| error_of(lua, stop, 1))?;
            table.get::<Value>(name)?
        }
        Some(Value::Function(function)) => {
            let mut values = Vec::new();
            put_captures(lua, matcher, text, whole, &mut values).map_err(|stop| error_of(lua, stop, 1))?;
            call_function(lua, function, values)?
        }
        _ => return put_template((lua, caller), &args.string(3)?.as_bytes(), matcher, text, whole, out),
    };
    match &value {
        Value::Nil | Value::Boolean(false) => put_bytes(out, &text[whole.0..whole.1]),
        Value::String(new) => put_bytes(out, &new.as_bytes()),
        Value::Number(_) | Value::Integer(_) => {
            let new = lua.coerce_string(value)?;
            put_bytes(out, &new.map(|new| new.as_bytes().to_vec()).unwrap_or_default())
        }
        other => {
            let problem = format!("invalid replacement value (a {})", type_name(other));
            Err(plain(position(lua, 1) + &problem))
        }
    }
}

/// Calls a function of the script. An error passes through with its value.
fn call_function(lua: &Lua, function: &Function, values: Vec<Value>) -> mlua::Result<Value> {
    let pcall: Function = lua.named_registry_value(PCALL)?;
    let (is_done, value) = pcall.call::<(bool, Value)>((function, MultiValue::from_vec(values)))?;
    if is_done { Ok(value) } else { Err(passed_on(value)) }
}

/// Appends a template, in which `%1` stands for a capture.
fn put_template(
    (lua, caller): (&Lua, &Caller<'_>),
    template: &[u8],
    matcher: &Matcher<'_, '_>,
    text: &[u8],
    whole: (usize, usize),
    out: &mut Vec<u8>,
) -> mlua::Result<()> {
    let mut left = template;
    while let Some(place) = caller.position_of(b'%', left)? {
        caller.work(2)?;
        put_bytes(out, &left[..place])?;
        let before = out.len();
        match left.get(place + 1).copied().unwrap_or(0) {
            b'0' => put_bytes(out, &text[whole.0..whole.1])?,
            digit @ b'1'..=b'9' => {
                let value = capture(lua, matcher, text, usize::from(digit - b'1'), whole);
                let value = value.map_err(|stop| error_of(lua, stop, 1))?;
                let new = lua.coerce_string(value)?;
                put_bytes(out, &new.map(|new| new.as_bytes().to_vec()).unwrap_or_default())?;
            }
            other => put_bytes(out, &[other])?,
        }
        caller.work((out.len() - before) / 64)?;
        left = left.get(place + 2..).unwrap_or_default();
    }
    put_bytes(out, left)
}

/// Executes `rep`.
fn repeat(caller: &Caller<'_>, args: &Args<'_>) -> mlua::Result<mlua::LuaString> {
    let (text, count) = (args.string(1)?, args.integer(2)?.max(0) as usize);
    let text = text.as_bytes();
    let length = text.len().checked_mul(count).filter(|length| *length < HEAP_BYTES_MAX);
    let length = length.ok_or_else(not_enough_memory)?;
    let mut out = Vec::with_capacity(length);
    while out.len() < length {
        let part =
            if out.len() < text.len() * 2 { text.len() } else { out.len().min(COPIED_BYTES / text.len() * text.len()) };
        let part = part.max(text.len()).min(length - out.len());
        if out.is_empty() {
            out.extend_from_slice(&text[..part]);
        } else {
            out.extend_from_within(..part);
        }
        caller.work(part / 64)?;
    }
    caller.long_string(args.lua, &out)
}
