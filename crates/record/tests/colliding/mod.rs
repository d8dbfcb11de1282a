//! Names that clients could compute to have one hash, if large values hashed names without a salt. Shared by tests of
//! several crates.
//!
//! FNV-1a replaces the low byte of its state, which then is any byte that a client wants, and multiplies it. So each
//! byte of a name adds a chosen difference times a known power of the prime. A row of [`ROWS`] is a set of differences
//! whose sum is 0 modulo 2^64: the shortest ones that a lattice reduction finds. Any sum of rows changes a name and
//! leaves its hash.

use base::prng::Prng;
use std::collections::BTreeSet;

const BYTES: usize = 16;
const PRIME: u64 = 0x0100_0000_01b3;
const START: u64 = 0xcbf2_9ce4_8422_2325;

#[rustfmt::skip]
const ROWS: [[i16; BYTES]; BYTES] = [
    [-5, 0, 2, -8, 3, 0, 7, 7, 2, -2, -8, -4, -5, -1, 6, 2],
    [-1, 6, -6, 0, -5, -4, 6, 3, 1, 6, -5, -4, -6, 9, 4, 4],
    [5, -3, 9, 3, 3, -5, 0, -11, 3, -9, 6, 3, -2, 1, -1, -8],
    [3, -2, -6, 4, -2, -5, -7, -8, 10, -4, 4, 1, -2, -3, 7, 4],
    [-3, 11, -5, 6, -5, 7, -4, 5, -11, -2, -1, -7, 0, 5, -6, 0],
    [-2, 5, -6, -8, -2, -5, 5, -1, -1, 14, -4, -6, 1, -3, -2, -3],
    [6, -1, 1, -1, -7, -7, 1, 2, 2, -3, 5, 1, -1, -1, -7, 10],
    [-2, 2, 5, -8, -7, -7, 3, 6, 0, 2, 9, 1, -4, 8, 1, -3],
    [-7, -4, -9, 9, 0, -4, -2, 0, 6, 2, 7, 4, -8, 4, 3, -5],
    [-3, 4, 2, -1, 1, -2, 2, 1, 1, -7, 7, -2, 3, 2, 15, 9],
    [7, 7, -1, -1, 3, 2, -6, -13, 7, 12, -2, 2, -2, 2, -6, 5],
    [2, -5, -3, -5, 5, 1, -3, -6, 0, 6, 2, 6, -11, -4, 10, 1],
    [3, 2, 1, 12, -3, 5, 4, 11, 0, 1, 0, -11, 0, 1, 2, -2],
    [-9, 7, 5, 1, -4, -1, -2, 13, -3, -7, -7, 7, 4, -2, 8, -2],
    [-10, -7, 9, -3, 0, 11, 8, -7, 3, -7, -6, -1, 0, 2, 1, -3],
    [-5, -10, 4, 0, 5, -4, -8, 8, -10, -5, -3, -5, -5, 0, 3, -7],
];

/// Returns the FNV-1a hash of a name.
fn fnv(name: &[u8]) -> u64 {
    name.iter().fold(START, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// Returns the name whose bytes set the low bytes of the state to 128 and change them by these differences.
fn name_of(differences: &[i16; BYTES]) -> Option<Vec<u8>> {
    // `state` is that of the name, and `plain` that of the name without differences.
    let (mut state, mut plain, mut name) = (START, START, Vec::with_capacity(BYTES));
    for difference in differences {
        let offset = 128 - i64::from(plain as u8) + i64::from(*difference);
        let low = u8::try_from(i64::from(state as u8) + offset).ok()?;
        name.push(state as u8 ^ low);
        state = (state & !0xff | u64::from(low)).wrapping_mul(PRIME);
        plain = (plain & !0xff | 128).wrapping_mul(PRIME);
    }
    Some(name)
}

/// Returns so many names with one hash.
pub fn names(count: usize) -> Vec<Vec<u8>> {
    let (mut names, mut prng) = (BTreeSet::new(), Prng::new(1));
    while names.len() < count {
        let mut differences = [0; BYTES];
        for _ in 0..4 {
            let (row, sign) = (prng.below(ROWS.len() as u64) as usize, 1 - 2 * prng.below(2) as i16);
            differences.iter_mut().zip(ROWS[row]).for_each(|(sum, of)| *sum += sign * of);
        }
        names.extend(name_of(&differences));
    }
    assert!(names.iter().all(|name| fnv(name) == fnv(names.first().expect("some"))), "the hashes differ");
    names.into_iter().collect()
}
