//! HyperLogLogs: estimates of the number of distinct elements, in the bytes of Redis.
//!
//! ```text
//!   0        4          5        8             16
//!   "HYLL" | encoding | unused | cached count | registers
//!              0 dense: 16,384 registers of six bits, the low bits first: 12,304 bytes in all
//!              1 sparse: runs of equal registers ([`sparse`])
//! ```
//!
//! The cached count is a little-endian number. If its highest bit is set, the count must be computed.
//!
//! An element selects a register by 14 bits of its hash. The register keeps the maximum of the number of trailing zeros
//! in the other bits, plus one.

mod estimate;
mod murmur;
mod sparse;

use crate::Damaged;
use estimate::{Histogram, estimate};
use sparse::{Opcode, Position, Set};
use std::io::Write as _;

/// The number of bits of the hash that select a register.
const REGISTER_BITS: u32 = 14;
/// The number of the other bits of the hash.
pub(crate) const HASH_BITS_LEFT: u32 = 64 - REGISTER_BITS;
/// The number of registers.
pub const REGISTERS: usize = 1 << REGISTER_BITS;
/// The length of the header in bytes.
pub const HEADER_BYTES: usize = 16;
const MAGIC: &[u8; 4] = b"HYLL";
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// The offset of the encoding, and the range of the cached count.
const ENCODING_AT: usize = 4;
const CACHED: std::ops::Range<usize> = 8..16;
/// The bit in the last byte of the cached count that marks the count as outdated.
const OUTDATED: u8 = 0x80;
/// The length of the registers in the dense representation, in bytes.
const DENSE_REGISTERS_BYTES: usize = REGISTERS * 6 / 8;
/// The length of a dense HyperLogLog in bytes, which is the maximum length of a HyperLogLog.
pub const DENSE_BYTES: usize = HEADER_BYTES + DENSE_REGISTERS_BYTES;

const _: () = assert!(DENSE_BYTES == 12_304, "the length that Redis accepts");

/// The error that a value is not a HyperLogLog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHyperLogLog;

/// The register that an element selects, and the value that the element gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Element {
    register: usize,
    value: u8,
}

impl Element {
    fn of(bytes: &[u8]) -> Self {
        let hash = murmur::hash(bytes);
        let rest = hash >> REGISTER_BITS | 1 << HASH_BITS_LEFT;
        Self { register: hash as usize % REGISTERS, value: rest.trailing_zeros() as u8 + 1 }
    }
}

/// Returns true if the value is in the dense representation.
///
/// # Errors
/// [`NotHyperLogLog`] if the value does not have the form of a HyperLogLog. The runs of a sparse one are not checked.
pub fn is_dense(value: &[u8]) -> Result<bool, NotHyperLogLog> {
    match value.get(ENCODING_AT) {
        Some(&DENSE) if value.starts_with(MAGIC) && value.len() == DENSE_BYTES => Ok(true),
        Some(&SPARSE) if value.starts_with(MAGIC) && value.len() >= HEADER_BYTES => Ok(false),
        _ => Err(NotHyperLogLog),
    }
}

/// Writes a HyperLogLog without elements to `value`, which is empty.
pub fn write_empty(value: &mut Vec<u8>) {
    value.extend_from_slice(MAGIC);
    value.extend_from_slice(&[SPARSE, 0, 0, 0]);
    value.extend_from_slice(&[0; 8]);
    value.extend_from_slice(&sparse::long_zero(REGISTERS));
}

/// Returns true if the addition of an element would not change a HyperLogLog. May return false although it would not.
pub fn has(value: &[u8], element: &[u8]) -> bool {
    let Element { register, value: new } = Element::of(element);
    is_dense(value) == Ok(true) && dense_register(&value[HEADER_BYTES..], register) >= new
}

/// Adds an element to a HyperLogLog. Returns true if a register changed.
///
/// # Errors
/// [`Damaged`] if the runs of a sparse HyperLogLog are invalid.
pub fn add(value: &mut Vec<u8>, element: &[u8]) -> Result<bool, Damaged> {
    set(value, Element::of(element), &mut { Position::START })
}

/// Sets the register of an element to its value if the register is smaller. Returns true if the register changed. In
/// the sparse representation, the search for the register begins at `from`.
fn set(value: &mut Vec<u8>, element: Element, from: &mut Position) -> Result<bool, Damaged> {
    if value[ENCODING_AT] == SPARSE {
        match sparse::set(value, element, from)? {
            Set::Changed => {
                outdate(value);
                return Ok(true);
            }
            Set::Unchanged => return Ok(false),
            Set::NoRoom => {
                make_dense(value)?;
            }
        }
    }
    let registers = &mut value[HEADER_BYTES..];
    if dense_register(registers, element.register) >= element.value {
        return Ok(false);
    }
    set_dense_register(registers, element.register, element.value);
    outdate(value);
    Ok(true)
}

/// Marks the cached count as outdated.
pub fn outdate(value: &mut [u8]) {
    value[CACHED.end - 1] |= OUTDATED;
}

/// Returns the cached count, unless it is outdated.
pub fn cached_count(value: &[u8]) -> Option<u64> {
    let count: [u8; 8] = value.get(CACHED)?.try_into().ok()?;
    (count[7] & OUTDATED == 0).then_some(u64::from_le_bytes(count))
}

/// Stores the count in the header.
pub fn cache_count(value: &mut [u8], count: u64) {
    value[CACHED].copy_from_slice(&count.to_le_bytes());
}

/// Returns the estimated number of distinct elements, computed from the registers.
///
/// # Errors
/// [`Damaged`] if the runs of a sparse HyperLogLog are invalid.
pub fn count(value: &[u8]) -> Result<u64, Damaged> {
    let mut histogram: Histogram = [0; 64];
    let registers = &value[HEADER_BYTES..];
    if value[ENCODING_AT] == DENSE {
        for_dense(registers, |_, register| histogram[usize::from(register)] += 1);
    } else {
        sparse::for_runs(registers, |_, run| histogram[usize::from(run.value())] += run.registers as u32)?;
    }
    Ok(estimate(&histogram))
}

/// Converts a HyperLogLog to the dense representation. Returns false if it was dense already.
///
/// # Errors
/// [`Damaged`] if the runs of a sparse HyperLogLog are invalid. The value is then unchanged.
pub fn make_dense(value: &mut Vec<u8>) -> Result<bool, Damaged> {
    if value[ENCODING_AT] == DENSE {
        return Ok(false);
    }
    let mut registers = Registers::default();
    registers.merge(value)?;
    value.truncate(HEADER_BYTES);
    value[ENCODING_AT] = DENSE;
    value.resize(DENSE_BYTES, 0);
    registers.pack(&mut value[HEADER_BYTES..]);
    Ok(true)
}

/// Writes the runs of a sparse HyperLogLog as text, as Redis's `PFDEBUG DECODE` does.
pub fn decode(value: &[u8], text: &mut Vec<u8>) {
    let mut rest = &value[HEADER_BYTES..];
    while let Some(run) = sparse::Run::read(rest) {
        let separator = if text.is_empty() { "" } else { " " };
        let registers = run.registers;
        match run.opcode {
            Opcode::Zero => write!(text, "{separator}z:{registers}"),
            Opcode::LongZero => write!(text, "{separator}Z:{registers}"),
            Opcode::Value(value) => write!(text, "{separator}v:{value},{registers}"),
        }
        .expect("a vector takes all bytes");
        rest = rest.get(run.bytes()..).unwrap_or_default();
    }
}

/// Returns a register of the dense representation.
fn dense_register(registers: &[u8], number: usize) -> u8 {
    let (at, shift) = (number * 6 / 8, number * 6 % 8);
    let high = registers.get(at + 1).map_or(0, |byte| u16::from(*byte));
    ((u16::from(registers[at]) | high << 8) >> shift) as u8 & 0x3f
}

fn set_dense_register(registers: &mut [u8], number: usize, value: u8) {
    let (at, shift) = (number * 6 / 8, number * 6 % 8);
    let (mask, bits) = (0x3f_u16 << shift, u16::from(value) << shift);
    registers[at] = registers[at] & !(mask as u8) | bits as u8;
    if let Some(high) = registers.get_mut(at + 1) {
        *high = *high & !((mask >> 8) as u8) | (bits >> 8) as u8;
    }
}

/// Calls `each` with all registers of the dense representation: their numbers and values.
#[inline(always)]
fn for_dense(registers: &[u8], mut each: impl FnMut(usize, u8)) {
    for (group, [a, b, c]) in registers.as_chunks::<3>().0.iter().enumerate() {
        let four = u32::from_le_bytes([*a, *b, *c, 0]);
        for place in 0..4 {
            each(4 * group + place, (four >> (6 * place)) as u8 & 0x3f);
        }
    }
}

/// The maximum of each register over several HyperLogLogs.
#[derive(Debug)]
pub struct Registers {
    values: Box<[u8; REGISTERS]>,
    /// True if one of the HyperLogLogs was dense.
    is_dense: bool,
}

impl Default for Registers {
    fn default() -> Self {
        Self { values: Box::new([0; REGISTERS]), is_dense: false }
    }
}

impl Registers {
    /// Adds the elements of a HyperLogLog.
    ///
    /// # Errors
    /// [`Damaged`] if the runs of a sparse HyperLogLog are invalid.
    pub fn merge(&mut self, value: &[u8]) -> Result<(), Damaged> {
        let (maxima, registers) = (&mut self.values, &value[HEADER_BYTES..]);
        if value[ENCODING_AT] == DENSE {
            self.is_dense = true;
            for_dense(registers, |number, register| maxima[number] = maxima[number].max(register));
            return Ok(());
        }
        sparse::for_runs(registers, |first, run| {
            if let Opcode::Value(value) = run.opcode {
                maxima[first..first + run.registers].iter_mut().for_each(|register| *register = (*register).max(value));
            }
        })
    }

    /// Returns all registers.
    pub fn values(&self) -> &[u8; REGISTERS] {
        &self.values
    }

    /// Returns the estimated number of distinct elements.
    pub fn count(&self) -> u64 {
        let mut histogram: Histogram = [0; 64];
        self.values.iter().for_each(|value| histogram[usize::from(value & 0x3f)] += 1);
        estimate(&histogram)
    }

    /// Writes the registers in the dense representation.
    fn pack(&self, dense: &mut [u8]) {
        let groups = dense.as_chunks_mut::<3>().0.iter_mut();
        for (group, four) in groups.zip(self.values.as_chunks::<4>().0) {
            let bits = four.iter().rev().fold(0_u32, |bits, value| bits << 6 | u32::from(*value));
            group.copy_from_slice(&bits.to_le_bytes()[..3]);
        }
    }

    /// Adds the elements to the HyperLogLog `value`. Converts it to the dense representation if a merged one was dense.
    ///
    /// # Errors
    /// [`Damaged`] if the runs of a sparse HyperLogLog are invalid.
    pub fn add_to(&self, value: &mut Vec<u8>) -> Result<(), Damaged> {
        if self.is_dense {
            make_dense(value)?;
        }
        let mut from = Position::START;
        for (register, new) in self.values.iter().enumerate().filter(|(_, new)| **new > 0) {
            set(value, Element { register, value: *new }, &mut from)?;
        }
        outdate(value);
        Ok(())
    }
}

/// Tests this module in a running server: packing of registers, and the error of estimates. Returns false if a result
/// is wrong. Takes about 200 us.
pub fn self_test() -> bool {
    let mut registers = Registers::default();
    registers.values.iter_mut().enumerate().for_each(|(number, value)| *value = (number * 7 % 51) as u8);
    let mut packed = vec![0; DENSE_REGISTERS_BYTES];
    registers.pack(&mut packed);
    let mut is_right = true;
    for_dense(&packed, |number, value| is_right &= value == registers.values[number]);
    let mut value = Vec::new();
    write_empty(&mut value);
    let mut added = 0;
    for elements in [50, 200, 4000] {
        for number in added..elements {
            is_right &= add(&mut value, &u64::to_le_bytes(number)).is_ok();
        }
        added = elements;
        // The standard error is 1.04 / sqrt(16,384), which is 0.8 %.
        is_right &= count(&value).is_ok_and(|count| count.abs_diff(elements) <= 1 + elements / 25);
        is_right &= make_dense(&mut value).is_ok();
        is_right &= count(&value).is_ok_and(|count| count.abs_diff(elements) <= 1 + elements / 25);
    }
    is_right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hyperloglog_counts_within_its_error_in_both_representations() {
        assert!(self_test());
        let mut value = Vec::new();
        write_empty(&mut value);
        assert_eq!((count(&value), cached_count(&value)), (Ok(0), Some(0)));
        let mut changed = 0;
        for number in 0..100_000_u32 {
            changed += u32::from(add(&mut value, format!("element:{number}").as_bytes()).unwrap());
        }
        assert_eq!(is_dense(&value), Ok(true));
        assert!((count(&value).unwrap() as i64 - 100_000).abs() < 3000 && changed < 100_000);
        assert_eq!(cached_count(&value), None);
        cache_count(&mut value, 7);
        assert_eq!(cached_count(&value), Some(7));
        assert!(has(&value, b"element:5") && !add(&mut value, b"element:5").unwrap());
    }

    #[test]
    fn sparse_and_dense_registers_are_equal_after_every_element() {
        let mut sparse = Vec::new();
        write_empty(&mut sparse);
        let mut dense = sparse.clone();
        make_dense(&mut dense).unwrap();
        for number in 0..5000_u64 {
            let element = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
            let changed = add(&mut sparse, &element).unwrap();
            assert_eq!(changed, add(&mut dense, &element).unwrap(), "{number}");
            if number % 100 == 0 {
                assert_eq!(count(&sparse), count(&dense), "{number}");
            }
        }
        make_dense(&mut sparse).unwrap();
        assert_eq!(sparse, dense);
    }

    /// A merge sets registers in ascending order, and continues the search where the last one ended.
    #[test]
    fn merged_bytes_are_those_of_one_search_for_each_register() {
        for elements in [1, 5, 60, 300, 900, 2000] {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            write_empty(&mut one);
            write_empty(&mut other);
            for number in 0..elements {
                add(if number % 3 == 0 { &mut one } else { &mut other }, &u64::to_le_bytes(number)).unwrap();
            }
            let mut merged = Registers::default();
            [&one, &other].into_iter().for_each(|value| merged.merge(value).unwrap());
            let mut by_one_search_each = one.clone();
            for (register, value) in merged.values.iter().enumerate().filter(|(_, value)| **value > 0) {
                let element = Element { register, value: *value };
                set(&mut by_one_search_each, element, &mut { Position::START }).unwrap();
            }
            outdate(&mut by_one_search_each);
            merged.add_to(&mut one).unwrap();
            assert_eq!(one, by_one_search_each, "{elements} elements");
            assert_eq!(count(&one).unwrap(), merged.count());
        }
    }

    #[test]
    fn damaged_runs_are_an_error_and_never_a_panic() {
        let mut value = Vec::new();
        write_empty(&mut value);
        for number in 0..500_u32 {
            add(&mut value, &number.to_le_bytes()).unwrap();
        }
        assert!(value.len() > HEADER_BYTES + 500);
        let mut failed = 0;
        for at in HEADER_BYTES..value.len() {
            for byte in [0, 0x7f, 0x80, 0xff] {
                let mut bad = value.clone();
                bad[at] = byte;
                failed += usize::from(count(&bad).is_err());
                let _ = (Registers::default().merge(&bad), add(&mut bad.clone(), b"x"), make_dense(&mut bad.clone()));
                bad.truncate(at);
                assert_eq!(count(&bad), Err(Damaged), "{at}");
                assert_eq!(make_dense(&mut bad), Err(Damaged));
            }
        }
        assert!(failed > 1000, "{failed}");
        for bad in [&b""[..], b"HYLL", b"HYLL\x02\0\0\0\0\0\0\0\0\0\0\0", b"HYLL\0\0\0\0\0\0\0\0\0\0\0\0", b"hyll\x01"]
        {
            assert_eq!(is_dense(bad), Err(NotHyperLogLog));
        }
    }
}
