//! `math.random` with the generator of Redis.

use super::args::Args;
use crate::caller::Caller;
use crate::failure::at_caller;
use mlua::{Lua, MultiValue, Scope, Table};

/// The low bits of the state after `randomseed`.
const SEED_LOW: u64 = 0x330E;
/// The parameters of the generator: `lrand48` of POSIX.
const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const STATE_BITS: u32 = 48;

/// Returns the next number, from 0 up to but excluding 1.
fn next(caller: &Caller<'_>) -> f64 {
    let state = caller.random.get().wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & ((1 << STATE_BITS) - 1);
    caller.random.set(state);
    ((state >> 17) % u64::from(i32::MAX.unsigned_abs())) as f64 / f64::from(i32::MAX)
}

/// Replaces `math.random` and `math.randomseed`.
pub(crate) fn add<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    caller: &'env Caller<'_>,
    math: &Table,
) -> mlua::Result<()> {
    math.raw_set("random", scope.create_function(move |lua, range: MultiValue| random(lua, caller, &range))?)?;
    let seed = scope.create_function(move |lua, seed: MultiValue| {
        let seed = Args::new(lua, &seed).integer(1)?;
        caller.random.set((seed as u64 & 0xFFFF_FFFF) << 16 | SEED_LOW);
        Ok(())
    })?;
    math.raw_set("randomseed", seed)
}

fn random(lua: &Lua, caller: &Caller<'_>, range: &MultiValue) -> mlua::Result<f64> {
    let (number, args) = (next(caller), Args::new(lua, range));
    let integer = |place| args.integer(place).map(|number| i64::from(number as i32));
    let (low, high) = match args.len() {
        0 => return Ok(number),
        1 => (1, integer(1)?),
        2 => (integer(1)?, integer(2)?),
        _ => return Err(at_caller(lua, "wrong number of arguments")),
    };
    if low > high {
        return Err(args.error(args.len(), "interval is empty"));
    }
    Ok((number * (high - low + 1) as f64).floor() + low as f64)
}
