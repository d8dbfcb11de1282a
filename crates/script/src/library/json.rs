//! The library `cjson`: JSON, with the texts, limits and settings of lua-cjson 2.1.0.

mod decode;
mod encode;

use super::args::Args;
use crate::caller::Caller;
use crate::failure::bad_argument;
use mlua::{Lua, MultiValue, Scope, Table, Value};
use std::cell::Cell;
use std::rc::Rc;

/// The hard limit on nested tables, whatever the settings say. The C library has one too, about 2,600.
const DEPTH_MAX: i64 = 2_000;

/// The treatment of numbers that JSON does not have: NaN, infinities, hexadecimal numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InvalidNumbers {
    Refused,
    Accepted,
    Null,
}

/// A function that returns one of the limits on nested tables.
type DepthOf = fn(&Settings) -> &Cell<i64>;

/// The settings of one table of functions.
struct Settings {
    sparse_convert: Cell<bool>,
    sparse_ratio: Cell<i64>,
    sparse_safe: Cell<i64>,
    encode_depth: Cell<i64>,
    decode_depth: Cell<i64>,
    encode_invalid: Cell<InvalidNumbers>,
    decode_invalid: Cell<InvalidNumbers>,
    precision: Cell<i64>,
    keeps_buffer: Cell<bool>,
}

impl Settings {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            sparse_convert: Cell::new(false),
            sparse_ratio: Cell::new(2),
            sparse_safe: Cell::new(10),
            encode_depth: Cell::new(1000),
            decode_depth: Cell::new(1000),
            encode_invalid: Cell::new(InvalidNumbers::Refused),
            decode_invalid: Cell::new(InvalidNumbers::Accepted),
            precision: Cell::new(14),
            keeps_buffer: Cell::new(true),
        })
    }
}

/// Creates the library.
pub(crate) fn create<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
) -> mlua::Result<Table> {
    let library = create_table(lua, scope, caller)?;
    // Tables with their own settings share the settings of the library.
    let same = library.clone();
    library.raw_set("new", lua.create_function(move |lua, ()| copy_of(lua, &same))?)?;
    Ok(library)
}

fn copy_of(lua: &Lua, library: &Table) -> mlua::Result<Table> {
    let copy = lua.create_table()?;
    for pair in library.pairs::<Value, Value>() {
        let (name, value) = pair?;
        copy.raw_set(name, value)?;
    }
    Ok(copy)
}

fn create_table<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
) -> mlua::Result<Table> {
    let (library, settings) = (lua.create_table()?, Settings::new());
    let own = Rc::clone(&settings);
    let encode = scope.create_function(move |lua, values: MultiValue| {
        if values.len() != 1 {
            return Err(bad_argument(lua, 1, "expected 1 argument"));
        }
        encode::encode(lua, caller, &own, values.front().unwrap_or(&Value::Nil))
    })?;
    library.raw_set("encode", encode)?;
    let own = Rc::clone(&settings);
    let decode = scope.create_function(move |lua, values: MultiValue| {
        if values.len() != 1 {
            return Err(bad_argument(lua, 1, "expected 1 argument"));
        }
        let text = Args::new(lua, &values).string(1)?;
        decode::decode(lua, caller, &own, &text.as_bytes())
    })?;
    library.raw_set("decode", decode)?;
    add_depths(lua, &library, &settings)?;
    add_numbers(lua, &library, &settings)?;
    add_sparse(lua, &library, &settings)?;
    library.raw_set("null", Value::NULL)?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    Ok(library)
}

/// Refuses more arguments than `most`.
fn check_count(args: &Args<'_>, most: usize) -> mlua::Result<()> {
    if args.len() > most { Err(args.error(most + 1, "found too many arguments")) } else { Ok(()) }
}

/// Sets an integer setting if there is an argument number `place`. Returns the setting.
fn integer_setting(args: &Args<'_>, place: usize, setting: &Cell<i64>, least: i64, most: i64) -> mlua::Result<f64> {
    if !args.is_absent(place) {
        let value = i64::from(args.integer(place)? as i32);
        if !(least..=most).contains(&value) {
            return Err(args.error(1, &format!("expected integer between {least} and {most}")));
        }
        setting.set(value);
    }
    Ok(setting.get() as f64)
}

/// Sets a boolean setting if there is an argument number `place`. Returns the setting.
fn boolean_setting(args: &Args<'_>, place: usize, setting: &Cell<bool>) -> mlua::Result<bool> {
    match args.value(place) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(value)) => setting.set(*value),
        Some(_) => match &args.string(place)?.as_bytes()[..] {
            b"off" => setting.set(false),
            b"on" => setting.set(true),
            other => return Err(invalid_option(args, other)),
        },
    }
    Ok(setting.get())
}

fn invalid_option(args: &Args<'_>, option: &[u8]) -> mlua::Error {
    args.error(1, &format!("invalid option '{}'", String::from_utf8_lossy(option)))
}

fn add_depths(lua: &Lua, library: &Table, settings: &Rc<Settings>) -> mlua::Result<()> {
    let limits: [(&str, DepthOf); 2] = [
        ("encode_max_depth", |settings| &settings.encode_depth),
        ("decode_max_depth", |settings| &settings.decode_depth),
    ];
    for (name, setting) in limits {
        let settings = Rc::clone(settings);
        let function = lua.create_function(move |lua, values: MultiValue| {
            let args = Args::new(lua, &values);
            check_count(&args, 1)?;
            integer_setting(&args, 1, setting(&settings), 1, i32::MAX.into())
        })?;
        library.raw_set(name, function)?;
    }
    Ok(())
}

fn add_numbers(lua: &Lua, library: &Table, settings: &Rc<Settings>) -> mlua::Result<()> {
    let own = Rc::clone(settings);
    let precision = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, &values);
        check_count(&args, 1)?;
        integer_setting(&args, 1, &own.precision, 1, 14)
    })?;
    library.raw_set("encode_number_precision", precision)?;
    let own = Rc::clone(settings);
    let encode = lua.create_function(move |lua, values: MultiValue| {
        invalid_numbers(lua, &Args::new(lua, &values), &own.encode_invalid, true)
    })?;
    library.raw_set("encode_invalid_numbers", encode)?;
    let own = Rc::clone(settings);
    let decode = lua.create_function(move |lua, values: MultiValue| {
        invalid_numbers(lua, &Args::new(lua, &values), &own.decode_invalid, false)
    })?;
    library.raw_set("decode_invalid_numbers", decode)?;
    let own = Rc::clone(settings);
    let keep = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, &values);
        check_count(&args, 1)?;
        boolean_setting(&args, 1, &own.keeps_buffer)
    })?;
    library.raw_set("encode_keep_buffer", keep)
}

/// Sets the treatment of invalid numbers if there is an argument. Returns the treatment.
fn invalid_numbers(
    lua: &Lua,
    args: &Args<'_>,
    setting: &Cell<InvalidNumbers>,
    may_be_null: bool,
) -> mlua::Result<Value> {
    check_count(args, 1)?;
    match args.value(1) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(false)) => setting.set(InvalidNumbers::Refused),
        Some(Value::Boolean(true)) => setting.set(InvalidNumbers::Accepted),
        Some(_) => match &args.string(1)?.as_bytes()[..] {
            b"off" => setting.set(InvalidNumbers::Refused),
            b"on" => setting.set(InvalidNumbers::Accepted),
            b"null" if may_be_null => setting.set(InvalidNumbers::Null),
            other => return Err(invalid_option(args, other)),
        },
    }
    match setting.get() {
        InvalidNumbers::Null => lua.create_string("null").map(Value::String),
        treatment => Ok(Value::Boolean(treatment == InvalidNumbers::Accepted)),
    }
}

fn add_sparse(lua: &Lua, library: &Table, settings: &Rc<Settings>) -> mlua::Result<()> {
    let own = Rc::clone(settings);
    let sparse = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, &values);
        check_count(&args, 3)?;
        let convert = boolean_setting(&args, 1, &own.sparse_convert)?;
        let ratio = integer_setting(&args, 2, &own.sparse_ratio, 0, i32::MAX.into())?;
        let safe = integer_setting(&args, 3, &own.sparse_safe, 0, i32::MAX.into())?;
        Ok((convert, ratio, safe))
    })?;
    library.raw_set("encode_sparse_array", sparse)
}
