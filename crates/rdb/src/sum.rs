//! The checksum of files and payloads.

use crc::{CRC_64_REDIS, Crc, Digest, Table};

use crate::{Damage, malformed};

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The first version with a checksum.
pub(crate) const VERSION_MIN: u32 = 5;
/// Bytes of the checksum after the last entry, in version 5 and later, and at the end of a payload.
pub(crate) const SUM_BYTES: u64 = 8;
/// A checksum that is computed while the bytes are read.
pub(crate) struct RunningSum(Digest<'static, u64, Table<16>>);

impl Default for RunningSum {
    fn default() -> Self {
        Self(CRC.digest())
    }
}

impl std::fmt::Debug for RunningSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RunningSum")
    }
}

impl RunningSum {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn end(self) -> u64 {
        self.0.finalize()
    }
}

/// Returns the checksum of bytes, as at the end of files and payloads.
pub fn sum_of(bytes: &[u8]) -> u64 {
    CRC.checksum(bytes)
}

/// Returns the damage of an input whose checksum at `offset` differs from that of its bytes.
pub(crate) fn differs(offset: u64, stored: u64, own: u64) -> Damage {
    let what = format!(
        "the stored checksum is {stored:#018x}, the computed one {own:#018x}: the file is damaged or truncated"
    );
    malformed(offset, what)
}
