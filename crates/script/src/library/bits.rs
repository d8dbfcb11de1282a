//! The library `bit`: operations on 32-bit integers.

use super::args::Args;
use mlua::{Lua, MultiValue, Table};

/// Added to a number, this moves the lowest 32 bits of the rounded number to the lowest bits of the sum.
const TO_BITS: f64 = 6_755_399_441_055_744.0;

/// Converts a number to 32 bits: rounds it to the nearest integer, modulo 2^32.
fn bits_of(number: f64) -> i32 {
    (number + TO_BITS).to_bits() as i32
}

fn bits(args: &Args<'_>, place: usize) -> mlua::Result<i32> {
    args.number(place).map(bits_of)
}

/// Adds a function of two or more numbers.
fn add_folding(lua: &Lua, library: &Table, name: &str, fold: fn(i32, i32) -> i32) -> mlua::Result<()> {
    let function = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, &values);
        (2..=args.len()).try_fold(bits(&args, 1)?, |sum, place| Ok(fold(sum, bits(&args, place)?)))
    })?;
    library.raw_set(name, function)
}

/// Adds a function of one number.
fn add_changing(lua: &Lua, library: &Table, name: &str, change: fn(i32) -> i32) -> mlua::Result<()> {
    let function = lua.create_function(move |lua, values: MultiValue| bits(&Args::new(lua, &values), 1).map(change))?;
    library.raw_set(name, function)
}

/// Adds a function that shifts its first argument by the second one, modulo 32.
fn add_shifting(lua: &Lua, library: &Table, name: &str, shift: fn(i32, u32) -> i32) -> mlua::Result<()> {
    let function = lua.create_function(move |lua, values: MultiValue| {
        let args = Args::new(lua, &values);
        Ok(shift(bits(&args, 1)?, bits(&args, 2)? as u32 & 31))
    })?;
    library.raw_set(name, function)
}

/// Creates the library.
pub(crate) fn create(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    add_folding(lua, &library, "band", |one, other| one & other)?;
    add_folding(lua, &library, "bor", |one, other| one | other)?;
    add_folding(lua, &library, "bxor", |one, other| one ^ other)?;
    add_changing(lua, &library, "tobit", |bits| bits)?;
    add_changing(lua, &library, "bnot", |bits| !bits)?;
    add_changing(lua, &library, "bswap", i32::swap_bytes)?;
    add_shifting(lua, &library, "lshift", |bits, by| bits << by)?;
    add_shifting(lua, &library, "rshift", |bits, by| (bits as u32 >> by) as i32)?;
    add_shifting(lua, &library, "arshift", |bits, by| bits >> by)?;
    add_shifting(lua, &library, "rol", |bits, by| bits.rotate_left(by))?;
    add_shifting(lua, &library, "ror", |bits, by| bits.rotate_right(by))?;
    let to_hex = lua.create_function(|lua, values: MultiValue| {
        let args = Args::new(lua, &values);
        let bits = bits(&args, 1)?;
        let digits = if args.len() < 2 { 8 } else { self::bits(&args, 2)? };
        let text = if digits < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
        lua.create_string(&text[8 - digits.unsigned_abs().min(8) as usize..])
    })?;
    library.raw_set("tohex", to_hex)?;
    Ok(library)
}
