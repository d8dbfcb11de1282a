//! The front of a device. It holds the device's own number, which identifies the device after a restart.
//!
//! ```text
//!   0         8         16       24             32        40                56
//!  +---------+---------+--------+--------------+---------+-----------------+-----------+
//!  |GANNETFL | version | number | region bytes | regions | zeros           | checksum  |  ... zeros up to 4096
//!  +---------+---------+--------+--------------+---------+-----------------+-----------+
//! ```
//!
//! The number is random. A process that does not continue with the device's contents writes a new number. So a process
//! that expects the earlier contents detects that the device was replaced, or that another process has used the device
//! since.

use std::io;

use xxhash_rust::xxh3::xxh3_64;

use crate::aligned::{ALIGN, Aligned};
use crate::device::Device;
use crate::regions::Sizes;

const MAGIC: u64 = u64::from_le_bytes(*b"GANNETFL");
const VERSION: u64 = 1;

/// Returns the number of bytes before the first region. It is a power of two, so that regions begin at offsets that
/// suit devices.
pub(crate) fn front_bytes(sizes: Sizes) -> u64 {
    sizes.region_bytes.min(1 << 20) as u64
}

/// Returns the number of regions that a device of `bytes` bytes has room for.
pub(crate) fn regions_of(bytes: u64, sizes: Sizes) -> u64 {
    bytes.saturating_sub(front_bytes(sizes)) / sizes.region_bytes as u64
}

fn words(number: u64, regions: u64, sizes: Sizes) -> [u64; 8] {
    let mut words = [MAGIC, VERSION, number, sizes.region_bytes as u64, regions, 0, 0, 0];
    words[7] = xxh3_64(&bytes(&words[..7]));
    words
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns true if the first bytes of a device are a tier's front, of any version and any region size.
pub(crate) fn is_tier(first: &[u8]) -> bool {
    first.starts_with(&MAGIC.to_le_bytes())
}

/// Returns the number of a device; `None` if the device has no valid front with these sizes.
///
/// # Errors
/// If the device fails.
pub(crate) fn read(device: &dyn Device, regions: u64, sizes: Sizes) -> io::Result<Option<u64>> {
    let mut page = Aligned::new(ALIGN);
    device.read(page.bytes_mut(), 0)?;
    let number = u64::from_le_bytes(page.bytes()[16..24].try_into().expect("eight bytes"));
    Ok((page.bytes()[..64] == bytes(&words(number, regions, sizes))).then_some(number))
}

/// Writes a front with the device's number and these sizes.
///
/// # Errors
/// If the device fails.
pub(crate) fn write(device: &dyn Device, number: u64, regions: u64, sizes: Sizes) -> io::Result<()> {
    let mut page = Aligned::new(ALIGN);
    page.bytes_mut()[..64].copy_from_slice(&bytes(&words(number, regions, sizes)));
    device.write(page.bytes(), 0)
}

/// Writes a front to the first bytes of a file.
#[cfg(test)]
pub(crate) fn write_for_test(file: &std::fs::File) {
    let sizes = Sizes { region_bytes: 1 << 19, chunk_bytes: 1 << 18 };
    std::os::unix::fs::FileExt::write_all_at(file, &bytes(&words(7, 1, sizes)), 0).expect("written");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDisk;

    #[test]
    fn device_header_returns_its_id_only_for_the_same_size_and_layout() {
        let (disk, _) = SimDisk::new(8 << 20, 512, 1);
        let sizes = Sizes { region_bytes: 1 << 19, chunk_bytes: 1 << 18 };
        assert_eq!(read(&disk, 15, sizes).expect("read"), None);
        write(&disk, 77, 15, sizes).expect("written");
        assert_eq!(read(&disk, 15, sizes).expect("read"), Some(77));
        assert_eq!(read(&disk, 14, sizes).expect("read"), None, "of another size");
        assert_eq!(read(&disk, 15, Sizes { region_bytes: 1 << 20, ..sizes }).expect("read"), None, "cut otherwise");
        let mut page = Aligned::new(ALIGN);
        page.bytes_mut().fill(9);
        disk.write(page.bytes(), 0).expect("written");
        assert_eq!(read(&disk, 15, sizes).expect("read"), None, "somebody else's");
    }
}
