//! The number of Lua instructions between two calls of the hook, which suspends scripts.
//!
//! The time of some instructions and C functions is proportional to the length of a string: `..`, `<`, arithmetic with
//! digits, `string.sub`, `tonumber`. Lua counts each as one instruction. No string is longer than the heap, so the hook
//! is called the more often the more memory the script has allocated:
//!
//! ```text
//!   memory of the script   256 KiB   1 MiB   8 MiB   64 MiB
//!   instructions              1000     256      32        4
//! ```
//!
//! That is too often for a script with much data in short strings. So the caller reports ticks that come soon
//! ([`crate::Input::ContinueLonger`]). Each doubles the number, up to 16 times the number above, until a tick takes
//! longer or the heap grows by a quarter.
//!
//! A script can allocate much memory within few instructions. So the number is also corrected at the end of each cycle
//! of the garbage collector, by the finalizer of a sentinel object. A cycle begins when the heap has doubled. While the
//! heap is small, a cycle is executed at once, within the allocation that begins it. Functions of this crate that
//! create a long string correct the number themselves.

use crate::failure::failure_in;
use mlua::state::{GcIncParams, GcMode};
use mlua::{Function, HookTriggers, Lua, VmState};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The number of instructions between two ticks.
const INSTRUCTIONS_A_TICK: u32 = 5_000;
/// The maximum number of instructions between two calls of the hook.
const PERIOD_MAX: u32 = 1_000;
/// The maximum of the bytes of all strings that instructions between two calls of the hook pass over.
const PASSED_BYTES_MAX: usize = PERIOD_MAX as usize * (256 << 10);
/// The binary logarithm of the maximum by which ticks that come soon multiply the period.
const LONGER_SHIFT_MAX: u32 = 4;
/// The length from which a string's creation corrects the period.
pub(crate) const LONG_BYTES: usize = 64 << 10;
/// The maximum size of a heap whose garbage is collected in whole cycles. A cycle then takes about 0.2 ms at most. Also
/// the maximum size of a heap at the begin of a script that is assumed to contain no long string.
const SMALL_BYTES: usize = 1 << 20;
/// The size of a heap up to which no garbage is collected.
const UNCOLLECTED_BYTES: usize = 256 << 10;
/// Lua's own pause of the collector, in percent, and its step multiplier.
const PAUSE_PERCENT: usize = 200;
const STEP_MULTIPLIER: i32 = 200;
/// A step multiplier with which a step of the collector is a whole cycle.
const WHOLE_CYCLE: i32 = 10_000_000;
/// The number of cycles after which the script is suspended. The count of instructions may end within a finalizer,
/// where Lua calls no hook.
const CYCLES_A_TICK: u32 = 8;
/// The number of scripts after which the sentinel is replaced if it has reported no cycle: its finalizer may have
/// failed.
const SCRIPTS_WITHOUT_CYCLE_MAX: u32 = 4_096;
/// The source of the function that creates the sentinel, or removes it. A finalizer creates the next sentinel.
const SENTINEL: &str = r"
local newproxy, getmetatable, follow = ...
local current = 0
return function(is_wanted)
  current = current + 1
  local own = current
  if not is_wanted then return end
  getmetatable(newproxy(true)).__gc = function(ended)
    if own ~= current then return end
    newproxy(ended)
    follow()
  end
end
";

/// The state of a machine's hook.
pub(crate) struct Ticks {
    /// The maximum number of instructions until the next call of the hook.
    period: Cell<u32>,
    /// The number of instructions since the last tick.
    executed: Cell<u32>,
    /// The bytes that instructions since the last tick may have passed over.
    passed_bytes: Cell<usize>,
    /// The number of cycles of the collector since the last tick.
    cycles: Cell<u32>,
    /// The number of times by which ticks that came soon have doubled the period.
    longer_shift: Cell<u32>,
    /// The size of the heap from which that number is zero again, in bytes.
    distrusted_bytes: Cell<usize>,
    /// The memory at the begin of the script that is assumed to contain no long string, in bytes.
    base_bytes: Cell<usize>,
    /// True if the collector executes whole cycles.
    collects_whole: Cell<bool>,
    scripts_without_cycle: Cell<u32>,
    /// The function that suspends the script.
    tick: RefCell<Option<Function>>,
    /// True if the script could not be suspended, because it had used up its stack. It must then end, because it would
    /// hold up other clients.
    pub(crate) is_stuck: Cell<bool>,
}

impl Default for Ticks {
    fn default() -> Self {
        Self {
            period: Cell::new(PERIOD_MAX),
            executed: Cell::new(0),
            passed_bytes: Cell::new(0),
            cycles: Cell::new(0),
            longer_shift: Cell::new(0),
            distrusted_bytes: Cell::new(0),
            base_bytes: Cell::new(SMALL_BYTES),
            collects_whole: Cell::new(false),
            scripts_without_cycle: Cell::new(0),
            tick: RefCell::default(),
            is_stuck: Cell::new(false),
        }
    }
}

impl Ticks {
    /// Installs the hook, which calls `tick` to suspend the script. Returns the function that creates the sentinel, or
    /// removes it.
    pub(crate) fn install(self: &Rc<Self>, lua: &Lua, tick: Function) -> mlua::Result<Function> {
        *self.tick.borrow_mut() = Some(tick);
        self.set_hook(lua, PERIOD_MAX)?;
        let ticks = Rc::clone(self);
        let follow = lua.create_function(move |lua, ()| ticks.end_cycle(lua))?;
        let own = |name: &str| lua.globals().raw_get::<Function>(name);
        lua.load(SENTINEL).set_name("=redis").call((own("newproxy")?, own("getmetatable")?, follow))
    }

    /// Removes the sentinel and the function that suspends the script.
    pub(crate) fn end(&self, sentinel: &Function) -> mlua::Result<()> {
        *self.tick.borrow_mut() = None;
        sentinel.call(false)
    }

    /// Prepares for a script.
    pub(crate) fn begin(self: &Rc<Self>, lua: &Lua, sentinel: &Function) -> mlua::Result<()> {
        self.base_bytes.set(lua.used_memory().min(SMALL_BYTES));
        self.distrusted_bytes.set(0);
        let scripts = self.scripts_without_cycle.get() + 1;
        self.scripts_without_cycle.set(scripts);
        if scripts >= SCRIPTS_WITHOUT_CYCLE_MAX {
            self.scripts_without_cycle.set(0);
            sentinel.call::<()>(true)?;
        }
        let period = self.adapted(lua);
        if period == self.period.get() { Ok(()) } else { self.set_hook(lua, period) }
    }

    /// Corrects the period after a string of this length was created.
    pub(crate) fn created(self: &Rc<Self>, lua: &Lua, bytes: usize) -> mlua::Result<()> {
        if bytes < LONG_BYTES { Ok(()) } else { self.follow(lua) }
    }

    /// Returns true if the script's strings may be long.
    pub(crate) fn may_be_long(&self) -> bool {
        self.period.get() < PERIOD_MAX
    }

    /// Corrects the period after a cycle of the collector.
    fn end_cycle(self: &Rc<Self>, lua: &Lua) -> mlua::Result<()> {
        self.scripts_without_cycle.set(0);
        let used = lua.used_memory();
        let pause = if used <= SMALL_BYTES { UNCOLLECTED_BYTES * 100 / used.max(1) } else { 0 };
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(pause.max(PAUSE_PERCENT) as i32)));
        self.cycles.set(self.cycles.get() + 1);
        if self.cycles.get() >= CYCLES_A_TICK { self.set_hook(lua, 1) } else { self.follow(lua) }
    }

    /// Reduces the period, and the hook's of the current coroutine. Never raises it: the count of the hook would begin
    /// again, and might never end.
    fn follow(self: &Rc<Self>, lua: &Lua) -> mlua::Result<()> {
        let before = self.period.get();
        let period = self.adapted(lua);
        if period < before { self.set_hook(lua, period) } else { Ok(()) }
    }

    /// Adapts the collector to the memory in use. Returns the period for it.
    fn adapted(&self, lua: &Lua) -> u32 {
        let used = lua.used_memory();
        let collects_whole = used <= SMALL_BYTES;
        if collects_whole != self.collects_whole.replace(collects_whole) {
            let multiplier = if collects_whole { WHOLE_CYCLE } else { STEP_MULTIPLIER };
            lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().step_multiplier(multiplier)));
        }
        if used >= self.distrusted_bytes.get() {
            self.longer_shift.set(0);
            self.distrusted_bytes.set(used + used / 4);
        }
        let period = period_for(self.own_bytes(lua));
        (period << self.longer_shift.get()).min(PERIOD_MAX)
    }

    /// Returns the memory that may contain long strings of the script.
    fn own_bytes(&self, lua: &Lua) -> usize {
        lua.used_memory().saturating_sub(self.base_bytes.get())
    }

    /// Records that the latest tick came soon, or that it did not.
    pub(crate) fn ticked(&self, is_soon: bool) {
        self.longer_shift.set(if is_soon { (self.longer_shift.get() + 1).min(LONGER_SHIFT_MAX) } else { 0 });
    }

    /// Sets the hook of the current coroutine, and of those that it will create.
    fn set_hook(self: &Rc<Self>, lua: &Lua, period: u32) -> mlua::Result<()> {
        self.period.set(period);
        let ticks = Rc::clone(self);
        let triggers = HookTriggers::new().every_nth_instruction(period);
        lua.set_global_hook(triggers, move |lua, _| ticks.hook(lua, period).map(|()| VmState::Continue))
    }

    /// Suspends the script if it is time. The hook was called after `before` instructions of this coroutine.
    fn hook(self: &Rc<Self>, lua: &Lua, before: u32) -> mlua::Result<()> {
        let period = self.adapted(lua);
        if period != before {
            self.set_hook(lua, period)?;
        }
        self.executed.set(self.executed.get() + before);
        self.passed_bytes.set(self.passed_bytes.get() + before as usize * self.own_bytes(lua));
        let is_short = self.executed.get() < INSTRUCTIONS_A_TICK;
        let is_due = self.passed_bytes.get() >= PASSED_BYTES_MAX || self.cycles.get() >= CYCLES_A_TICK;
        if is_short && !is_due && !self.may_be_long() {
            return Ok(());
        }
        self.passed_bytes.set(0);
        self.cycles.set(0);
        if !is_short {
            self.executed.set(0);
        }
        let tick = self.tick.borrow().clone();
        let ticked = tick.map_or(Ok(()), |tick| tick.call::<()>(is_short));
        let is_stuck = ticked.as_ref().is_err_and(|error| failure_in(error).is_none());
        self.is_stuck.set(self.is_stuck.get() || is_stuck);
        ticked
    }
}

/// Returns the number of instructions until the next call of the hook, for a script that has allocated `bytes`. A power
/// of two, or the maximum.
fn period_for(bytes: usize) -> u32 {
    let instructions = (PASSED_BYTES_MAX / bytes.max(1)) as u32;
    if instructions >= PERIOD_MAX { PERIOD_MAX } else { 1 << instructions.max(1).ilog2() }
}
