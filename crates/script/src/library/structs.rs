//! The library `struct`: numbers and strings as bytes, by a format.
//!
//! | option | value |
//! |---|---|
//! | `b` `B`, `h` `H`, `i` `I`, `l` `L`, `T` | integers of 1, 2, 4, 8, 8 bytes; `i` and `I` may name a size |
//! | `f` `d` | a float, a double |
//! | `s` | a string that ends with a zero byte |
//! | `cN` | a string of N bytes; `c0` is the whole string, or a string of the preceding number's length |
//! | `x` | a byte of padding |
//! | `<` `>` `!N` space | little-endian, big-endian, alignment, nothing |

use super::args::{Args, check_results};
use crate::caller::{Caller, check_room, put_bytes};
use crate::failure::at_caller;
use crate::numbers::{number_in, to_integer};
use mlua::{Lua, MultiValue, Scope, Table, Value};

/// The maximum size of an integer in bytes.
const INTEGER_BYTES_MAX: usize = 32;
const ALIGNMENT_MAX: usize = 8;
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
const TOO_SHORT: &str = "data string too short";

/// A reader of a format.
struct Format<'f> {
    lua: &'f Lua,
    left: &'f [u8],
    is_big_endian: bool,
    alignment: usize,
}

impl<'f> Format<'f> {
    fn new(lua: &'f Lua, caller: &Caller<'_>, text: &'f [u8]) -> mlua::Result<Self> {
        let end = caller.position_of(0, text)?.unwrap_or(text.len());
        Ok(Self { lua, left: &text[..end], is_big_endian: false, alignment: 1 })
    }

    /// Returns the next option with its size.
    fn next(&mut self) -> mlua::Result<Option<(u8, usize)>> {
        let Some((option, left)) = self.left.split_first() else { return Ok(None) };
        self.left = left;
        let size = match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.count(1)?,
            b'i' | b'I' => {
                let size = self.count(4)?;
                if size > INTEGER_BYTES_MAX {
                    let text = format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(at_caller(self.lua, &text));
                }
                size
            }
            _ => 0,
        };
        Ok(Some((*option, size)))
    }

    /// Reads the number that follows an option.
    fn count(&mut self, default: usize) -> mlua::Result<usize> {
        if !self.left.first().is_some_and(u8::is_ascii_digit) {
            return Ok(default);
        }
        let mut count = 0_i32;
        while let Some((digit, left)) = self.left.split_first().filter(|(digit, _)| digit.is_ascii_digit()) {
            let more = count.checked_mul(10).and_then(|tens| tens.checked_add(i32::from(digit - b'0')));
            count = more.ok_or_else(|| at_caller(self.lua, "integral size overflow"))?;
            self.left = left;
        }
        Ok(count as usize)
    }

    /// Returns the number of bytes of padding before an option.
    fn padding(&self, at: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.alignment);
        size.wrapping_sub(at & (size - 1)) & (size - 1)
    }

    /// Applies an option that has no value.
    fn control(&mut self, args: &Args<'_>, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'<' | b'>' => self.is_big_endian = option == b'>',
            b'!' => {
                let alignment = self.count(ALIGNMENT_MAX)?;
                if !alignment.is_power_of_two() {
                    return Err(at_caller(self.lua, &format!("alignment {alignment} is not a power of 2")));
                }
                self.alignment = alignment;
            }
            other => return Err(args.error(1, &format!("invalid format option '{}'", char::from(other)))),
        }
        Ok(())
    }

    fn put(&self, out: &mut Vec<u8>, mut little_endian: Vec<u8>) {
        if self.is_big_endian {
            little_endian.reverse();
        }
        out.extend_from_slice(&little_endian);
    }

    /// Returns the bytes of a number, lowest first.
    fn little_endian(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        if self.is_big_endian {
            bytes.reverse();
        }
        bytes
    }
}

/// Converts a number to 64 bits as C does on x86-64.
fn bits_of(number: f64) -> u64 {
    if number >= TWO_TO_63 { to_integer(number - TWO_TO_63) as u64 ^ 1 << 63 } else { to_integer(number) as u64 }
}

fn pack(lua: &Lua, caller: &Caller<'_>, values: &MultiValue) -> mlua::Result<mlua::LuaString> {
    let args = Args::new(lua, values);
    let text = args.string(1)?;
    let text = text.as_bytes();
    let mut format = Format::new(lua, caller, &text)?;
    let (mut out, mut place) = (Vec::new(), 2);
    while let Some((option, size)) = format.next()? {
        caller.work(4)?;
        check_room(&out, 0)?;
        out.resize(out.len() + format.padding(out.len(), option, size), 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'i' | b'I' | b'T' => {
                let mut bytes = bits_of(number(&args, place)?).to_le_bytes().to_vec();
                bytes.resize(size, 0);
                format.put(&mut out, bytes);
                place += 1;
            }
            b'x' => out.push(0),
            b'f' => {
                format.put(&mut out, (number(&args, place)? as f32).to_le_bytes().to_vec());
                place += 1;
            }
            b'd' => {
                format.put(&mut out, number(&args, place)?.to_le_bytes().to_vec());
                place += 1;
            }
            b'c' | b's' => {
                let string = given(&args, place, "string").and_then(|()| args.string(place))?;
                let string = string.as_bytes();
                place += 1;
                let length = if size == 0 { string.len() } else { size };
                if string.len() < length {
                    return Err(args.error(place, "string too short"));
                }
                caller.work(length / 64)?;
                put_bytes(&mut out, &string[..length])?;
                out.extend((option == b's').then_some(0));
            }
            other => format.control(&args, other)?,
        }
    }
    caller.long_string(lua, &out)
}

/// Returns an error if there is no argument number `place`. The C library reports a missing argument as nil.
fn given(args: &Args<'_>, place: usize, expected: &str) -> mlua::Result<()> {
    match args.value(place) {
        None => Err(args.error(place, &format!("{expected} expected, got nil"))),
        Some(_) => Ok(()),
    }
}

fn number(args: &Args<'_>, place: usize) -> mlua::Result<f64> {
    given(args, place, "number")?;
    args.number(place)
}

fn unpack(lua: &Lua, caller: &Caller<'_>, values: &MultiValue) -> mlua::Result<MultiValue> {
    let args = Args::new(lua, values);
    let (text, data) = (args.string(1)?, args.string(2)?);
    let (text, data) = (text.as_bytes(), data.as_bytes());
    let first = args.integer_or(3, 1)?;
    if first == 0 {
        return Err(args.error(3, "offset must be 1 or greater"));
    }
    // A negative offset is beyond the end, as an unsigned number.
    let mut at = (first as usize).wrapping_sub(1);
    let mut format = Format::new(lua, caller, &text)?;
    let mut results = Vec::new();
    let part = |at: usize, size: usize| {
        let end = at.checked_add(size).filter(|end| *end <= data.len());
        end.map(|end| &data[at..end]).ok_or_else(|| args.error(2, TOO_SHORT))
    };
    while let Some((option, mut size)) = format.next()? {
        caller.work(10)?;
        at = at.saturating_add(format.padding(at, option, size));
        let bytes = part(at, size)?;
        check_results(&results)?;
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'i' | b'I' | b'T' => {
                results.push(Value::Number(integer(&format.little_endian(bytes), option.is_ascii_lowercase())));
            }
            b'x' => {}
            b'f' | b'd' => results.push(Value::Number(float(&format.little_endian(bytes)))),
            b'c' => {
                if size == 0 {
                    let length = results.pop().as_ref().and_then(number_in);
                    let length = length.ok_or_else(|| at_caller(lua, "format 'c0' needs a previous size"))?;
                    size = bits_of(length) as usize;
                }
                results.push(Value::String(lua.create_string(part(at, size)?)?));
            }
            b's' => {
                let string = data.get(at..).unwrap_or_default();
                let end = caller.position_of(0, string)?;
                let end = end.ok_or_else(|| at_caller(lua, "unfinished string in data"))?;
                results.push(Value::String(lua.create_string(&string[..end])?));
                size = end + 1;
            }
            other => format.control(&args, other)?,
        }
        at += size;
    }
    results.push(Value::Number((at + 1) as f64));
    Ok(MultiValue::from_vec(results))
}

/// Returns the integer with these bytes, lowest first. Bytes beyond the eighth are lost.
fn integer(bytes: &[u8], is_signed: bool) -> f64 {
    let bits = bytes.iter().rev().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    if !is_signed {
        return bits as f64;
    }
    let mask = u64::MAX.wrapping_shl((bytes.len() as u32 * 8).wrapping_sub(1));
    (if bits & mask != 0 { bits | mask } else { bits }) as i64 as f64
}

fn float(bytes: &[u8]) -> f64 {
    match (<[u8; 4]>::try_from(bytes), <[u8; 8]>::try_from(bytes)) {
        (Ok(bytes), _) => f64::from(f32::from_le_bytes(bytes)),
        (_, Ok(bytes)) => f64::from_le_bytes(bytes),
        _ => 0.0,
    }
}

fn size(lua: &Lua, caller: &Caller<'_>, values: &MultiValue) -> mlua::Result<f64> {
    let args = Args::new(lua, values);
    let text = args.string(1)?;
    let text = text.as_bytes();
    let mut format = Format::new(lua, caller, &text)?;
    let mut total = 0;
    while let Some((option, size)) = format.next()? {
        caller.work(2)?;
        total += format.padding(total, option, size);
        match (option, size) {
            (b's', _) => return Err(args.error(1, "option 's' has no fixed size")),
            (b'c', 0) => return Err(args.error(1, "option 'c0' has no fixed size")),
            _ if !option.is_ascii_alphanumeric() => format.control(&args, option)?,
            _ => {}
        }
        total += size;
    }
    Ok(total as f64)
}

/// Creates the library.
pub(crate) fn create<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("pack", scope.create_function(move |lua, values: MultiValue| pack(lua, caller, &values))?)?;
    library.raw_set("unpack", scope.create_function(move |lua, values: MultiValue| unpack(lua, caller, &values))?)?;
    library.raw_set("size", scope.create_function(move |lua, values: MultiValue| size(lua, caller, &values))?)?;
    Ok(library)
}
