//! The side of a machine that runs on its own stack: it suspends, and returns when the caller resumes it.

use crate::HEAP_BYTES_MAX;
use crate::events::{Input, MachineEvent};
use crate::exchange::SharedExchange;
use crate::failure;
use corosensei::Yielder;
use mlua::{Lua, LuaString};
use std::cell::Cell;
use std::rc::Rc;
use ticks::Ticks;

mod ticks;

/// The amount of work of Rust functions between two ticks, in units of about 10 ns.
const WORK_A_TICK: usize = 4_000;

/// The number of bytes that a search for one byte examines between two counts of work.
const SEARCHED_BYTES: usize = 16 << 10;

/// The maximum number of bytes of values that are created at once beyond the limit of the heap.
const BEYOND_LIMIT_BYTES_MAX: usize = 64 << 10;

/// The state of a new generator of random numbers.
const FIRST_STATE: u64 = 0x1234_ABCD_330E;

/// The connection of the Lua state to the machine's caller.
pub(crate) struct Caller<'y> {
    yielder: &'y Yielder<Input, MachineEvent>,
    pub(crate) exchange: SharedExchange,
    /// The input that ends the script, once it was received.
    ended: Cell<Option<Input>>,
    work: Cell<usize>,
    /// The hook, which suspends the script.
    pub(crate) ticks: Rc<Ticks>,
    /// The state of the random number generator. As in Redis, it continues from script to script.
    pub(crate) random: Cell<u64>,
}

impl<'y> Caller<'y> {
    pub(crate) fn new(yielder: &'y Yielder<Input, MachineEvent>, exchange: SharedExchange) -> Self {
        Self {
            yielder,
            exchange,
            ended: Cell::new(None),
            work: Cell::new(0),
            ticks: Rc::default(),
            random: Cell::new(FIRST_STATE),
        }
    }

    /// Suspends with `event` until the caller gives a script or stops the machine.
    pub(crate) fn idle(&self, event: MachineEvent) -> Input {
        self.ticks.is_stuck.set(false);
        match self.ended.take() {
            Some(Input::Stop) => Input::Stop,
            _ => self.yielder.suspend(event),
        }
    }

    /// Suspends within a script.
    ///
    /// # Errors
    /// If the script must end.
    pub(crate) fn suspend(&self, event: MachineEvent) -> mlua::Result<()> {
        self.check_alive()?;
        // The caller does not count the work between two commands.
        if event == MachineEvent::Tick {
            self.work.set(0);
        }
        let input = self.yielder.suspend(event);
        if event == MachineEvent::ShortTick {
            self.ticks.ticked(input == Input::ContinueLonger);
        }
        if matches!(input, Input::Kill | Input::Stop) {
            self.ended.set(Some(input));
        }
        self.check_alive()
    }

    /// Returns an error if the script must end.
    pub(crate) fn check_alive(&self) -> mlua::Result<()> {
        match self.ended.get() {
            None if self.ticks.is_stuck.get() => Err(failure::reply("ERR stack overflow")),
            None => Ok(()),
            Some(_) => Err(failure::reply("ERR Script killed by user with SCRIPT KILL.")),
        }
    }

    /// Records work of a Rust function, and suspends if it was much.
    ///
    /// # Errors
    /// If the script must end.
    pub(crate) fn work(&self, units: usize) -> mlua::Result<()> {
        self.work.set(self.work.get() + units);
        if self.work.get() < WORK_A_TICK { Ok(()) } else { self.suspend(MachineEvent::Tick) }
    }

    /// Creates a string that may be long.
    ///
    /// # Errors
    /// If the heap is full.
    pub(crate) fn long_string(&self, lua: &Lua, text: &[u8]) -> mlua::Result<LuaString> {
        let string = lua.create_string(text)?;
        self.ticks.created(lua, text.len())?;
        Ok(string)
    }

    /// Returns the first place of a byte in a text. The search can be interrupted.
    ///
    /// # Errors
    /// If the script must end.
    pub(crate) fn position_of(&self, wanted: u8, text: &[u8]) -> mlua::Result<Option<usize>> {
        for (number, piece) in text.chunks(SEARCHED_BYTES).enumerate() {
            let place = piece.iter().position(|byte| *byte == wanted);
            self.work(place.unwrap_or(piece.len()) / 16)?;
            if let Some(place) = place {
                return Ok(Some(number * SEARCHED_BYTES + place));
            }
        }
        Ok(None)
    }
}

/// Calls `create`, which creates values of about `bytes` bytes and executes no Lua code. If these are few, the heap may
/// exceed its limit meanwhile: `mlua` then creates a value without a protected call, which costs several times as much
/// as a short value.
pub(crate) fn beyond_limit<T>(lua: &Lua, bytes: usize, create: impl FnOnce() -> mlua::Result<T>) -> mlua::Result<T> {
    if bytes > BEYOND_LIMIT_BYTES_MAX {
        return create();
    }
    lua.set_memory_limit(0)?;
    let created = create();
    lua.set_memory_limit(HEAP_BYTES_MAX)?;
    created
}

/// The number of steps of Lua's collector in one piece of a collection. A step examines about 2 KB.
const STEPS_A_PIECE: usize = 64;

/// Collects garbage for about 100 us. Returns true at the end of a collection.
pub(crate) fn collect_piece(lua: &Lua) -> mlua::Result<bool> {
    for _ in 0..STEPS_A_PIECE {
        if lua.gc_step()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the error that Lua raises if the heap is full.
pub(crate) fn not_enough_memory() -> mlua::Error {
    failure::plain("not enough memory")
}

/// Returns an error if an output with `more` bytes would be longer than the heap may be. An output is what functions of
/// this crate collect for a script outside of the heap. It may refer to one long string many times.
pub(crate) fn check_room(out: &[u8], more: usize) -> mlua::Result<()> {
    if out.len().saturating_add(more) <= HEAP_BYTES_MAX { Ok(()) } else { Err(not_enough_memory()) }
}

/// Appends bytes to an output.
///
/// # Errors
/// If the output would be longer than the heap may be.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) -> mlua::Result<()> {
    check_room(out, bytes.len())?;
    out.extend_from_slice(bytes);
    Ok(())
}
