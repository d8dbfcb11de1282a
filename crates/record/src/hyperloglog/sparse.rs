//! The sparse representation: runs of equal registers, as a sequence of opcodes.
//!
//! ```text
//!   ZERO    0 0 n n n n n n                       n + 1 registers are 0
//!   XZERO   0 1 n n n n n n   n n n n n n n n     n + 1 registers are 0
//!   VAL     1 v v v v v n n                       n + 1 registers are v + 1
//! ```
//!
//! In a damaged HyperLogLog the last opcode may be cut. As in Redis, its missing byte counts as 0.

use super::{Element, HEADER_BYTES, REGISTERS};
use crate::Damaged;

/// The maximum number of bytes of a sparse HyperLogLog, with its header: the default of Redis's
/// `hll-sparse-max-bytes`.
const SPARSE_BYTES_MAX: usize = 3000;
/// The maximum number of registers of each opcode.
const ZERO_MAX: usize = 64;
const VALUE_RUN_MAX: usize = 4;
/// The maximum value of a register in the sparse representation.
const VALUE_MAX: u8 = 32;
/// The number of opcodes that a change may affect, from the opcode before the changed one on.
const OPCODES_TO_MERGE: usize = 5;

/// An opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    /// One byte for a run of registers that are 0.
    Zero,
    /// Two bytes for a long run of registers that are 0.
    LongZero,
    /// A run of registers with this value.
    Value(u8),
}

/// A run of equal registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) opcode: Opcode,
    pub(super) registers: usize,
}

impl Run {
    /// Returns the number of bytes of the run.
    pub(super) fn bytes(&self) -> usize {
        if self.opcode == Opcode::LongZero { 2 } else { 1 }
    }

    /// Returns the value of the run's registers.
    pub(super) fn value(&self) -> u8 {
        match self.opcode {
            Opcode::Value(value) => value,
            Opcode::Zero | Opcode::LongZero => 0,
        }
    }

    /// Reads the run at the start of `bytes`, which may be cut. Returns `None` if there is none.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let first = *bytes.first()?;
        Some(match first >> 6 {
            0 => Self { opcode: Opcode::Zero, registers: usize::from(first) + 1 },
            1 => {
                let low = bytes.get(1).copied().unwrap_or(0);
                let registers = usize::from(first & 0x3f) << 8 | usize::from(low);
                Self { opcode: Opcode::LongZero, registers: registers + 1 }
            }
            _ => {
                let value = Opcode::Value((first >> 2 & 0x1f) + 1);
                Self { opcode: value, registers: usize::from(first & 3) + 1 }
            }
        })
    }
}

/// Calls `each` with all runs and the number of each run's first register. Returns an error unless the runs cover all
/// registers exactly.
pub(super) fn for_runs(mut bytes: &[u8], mut each: impl FnMut(usize, Run)) -> Result<(), Damaged> {
    let mut first = 0;
    while !bytes.is_empty() {
        let run = Run::read(bytes).ok_or(Damaged)?;
        if first + run.registers > REGISTERS {
            return Err(Damaged);
        }
        each(first, run);
        first += run.registers;
        bytes = bytes.get(run.bytes()..).unwrap_or_default();
    }
    if first == REGISTERS { Ok(()) } else { Err(Damaged) }
}

/// A few opcodes that are being written.
struct Written {
    bytes: [u8; 5],
    len: usize,
}

impl Written {
    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    /// Writes a run of zeros. Writes nothing if `registers` is 0.
    fn zeros(&mut self, registers: usize) {
        match registers {
            0 => {}
            1..=ZERO_MAX => self.push(registers as u8 - 1),
            _ => long_zero(registers).into_iter().for_each(|byte| self.push(byte)),
        }
    }

    /// Writes a run of registers with this value. Writes nothing if `registers` is 0.
    fn values(&mut self, value: u8, registers: usize) {
        if registers > 0 {
            self.push(value_run(value, registers));
        }
    }
}

fn value_run(value: u8, registers: usize) -> u8 {
    0x80 | (value - 1) << 2 | (registers as u8 - 1)
}

/// Returns the opcode of a long run of zeros.
pub(super) fn long_zero(registers: usize) -> [u8; 2] {
    let count = registers - 1;
    [0x40 | (count >> 8) as u8, count as u8]
}

/// The result of setting a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    Changed,
    /// The register already has this value or a greater one.
    Unchanged,
    /// The sparse representation has no room for the value. Nothing was changed.
    NoRoom,
}

/// The position of an opcode: its offset in the bytes of the HyperLogLog, and the first register of its run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    at: usize,
    first: usize,
}

impl Position {
    /// The position of the first opcode.
    pub(super) const START: Self = Self { at: HEADER_BYTES, first: 0 };
}

/// Finds the opcode that covers a register. The search begins at `from`, which becomes the position of the opcode two
/// places before the found one. A search for a greater register may begin there, even after the found opcode was
/// changed. Returns the positions of the found opcode and of the one before it, and the found run.
fn find(bytes: &[u8], register: usize, from: &mut Position) -> Result<(Position, Position, Run), Damaged> {
    let (mut before, mut here) = (*from, *from);
    loop {
        let run = bytes.get(here.at..).and_then(Run::read).ok_or(Damaged)?;
        if register < here.first + run.registers {
            return Ok((here, before, run));
        }
        (*from, before) = (before, here);
        here = Position { at: here.at + run.bytes(), first: here.first + run.registers };
    }
}

/// Sets the register of an element to its value if the register is smaller. `from` is the position at which the search
/// begins; it is then a position for a greater register.
pub(super) fn set(bytes: &mut Vec<u8>, element: Element, from: &mut Position) -> Result<Set, Damaged> {
    let Element { register, value } = element;
    if value > VALUE_MAX {
        return Ok(Set::NoRoom);
    }
    let (Position { at, first }, before, run) = find(bytes, register, from)?;
    if run.value() >= value {
        return Ok(Set::Unchanged);
    }
    if run.registers == 1 && run.opcode != Opcode::LongZero {
        bytes[at] = value_run(value, 1);
    } else {
        let (left, right) = (register - first, first + run.registers - 1 - register);
        let mut new = Written { bytes: [0; 5], len: 0 };
        match run.opcode {
            Opcode::Value(old) => {
                new.values(old, left);
                new.values(value, 1);
                new.values(old, right);
            }
            Opcode::Zero | Opcode::LongZero => {
                new.zeros(left);
                new.values(value, 1);
                new.zeros(right);
            }
        }
        if new.len > run.bytes() && bytes.len() + new.len - run.bytes() > SPARSE_BYTES_MAX {
            return Ok(Set::NoRoom);
        }
        let is_cut = at + run.bytes() > bytes.len();
        if is_cut {
            bytes.push(0);
        }
        bytes.splice(at..at + run.bytes(), new.bytes[..new.len].iter().copied());
        if is_cut {
            bytes.pop();
        }
    }
    merge(bytes, before.at);
    Ok(Set::Changed)
}

/// Joins neighbouring runs of the same value, as far as one opcode covers them. Examines the few opcodes from `at` on.
fn merge(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..OPCODES_TO_MERGE {
        let Some(run) = bytes.get(at..).and_then(Run::read) else { return };
        let behind = at + run.bytes();
        if let Opcode::Value(value) = run.opcode
            && let Some(next) = bytes.get(behind..).and_then(Run::read)
            && next.opcode == run.opcode
            && run.registers + next.registers <= VALUE_RUN_MAX
        {
            bytes[behind] = value_run(value, run.registers + next.registers);
            bytes.remove(at);
            continue;
        }
        at = behind;
    }
}
