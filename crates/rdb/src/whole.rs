//! Checks the checksum of a whole file.

use std::io::{BufReader, Read};

use crate::file::{HEAD_BYTES, op, version};
use crate::sum::{RunningSum, SUM_BYTES, VERSION_MIN, differs};
use crate::{Damage, What, unreadable};

/// Number of bytes per read.
const CHUNK_BYTES: usize = 256 << 10;

/// Facts about a file that was read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The version of the file.
    pub version: u32,
    /// The checksum of the file; `None` if it was written without one.
    pub sum: Option<u64>,
}

/// Reads a file of `len` bytes to its end and compares its checksum, so that damaged data is never used.
///
/// # Errors
/// [`Damage`] if the input is not such a file, or if its bytes have changed.
pub fn check(input: impl Read, len: u64) -> Result<Checked, Damage> {
    let mut input = BufReader::with_capacity(CHUNK_BYTES, input);
    let mut head = [0; HEAD_BYTES as usize];
    input.read_exact(&mut head).map_err(|error| unreadable(0, error))?;
    let version = version(&head)?;
    if version < VERSION_MIN {
        return Ok(Checked { version, sum: None });
    }
    let Some(mut left) = len.checked_sub(HEAD_BYTES + SUM_BYTES) else {
        return Err(Damage { offset: len, what: What::Truncated });
    };
    let mut running = RunningSum::default();
    running.add(&head);
    let mut last = head[head.len() - 1];
    let mut chunk = vec![0; CHUNK_BYTES];
    while left > 0 {
        let wanted = left.min(CHUNK_BYTES as u64) as usize;
        input.read_exact(&mut chunk[..wanted]).map_err(|error| unreadable(len - SUM_BYTES - left, error))?;
        running.add(&chunk[..wanted]);
        last = chunk[wanted - 1];
        left -= wanted as u64;
    }
    let mut sum = [0; SUM_BYTES as usize];
    input.read_exact(&mut sum).map_err(|error| unreadable(len - SUM_BYTES, error))?;
    let (sum, own) = (u64::from_le_bytes(sum), running.end());
    match sum {
        0 if last != op::END => Err(Damage { offset: len, what: What::Truncated }),
        0 => Ok(Checked { version, sum: None }),
        sum if sum == own => Ok(Checked { version, sum: Some(sum) }),
        sum => Err(differs(len - SUM_BYTES, sum, own)),
    }
}
