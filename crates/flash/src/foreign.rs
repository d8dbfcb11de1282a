//! Detects what a device holds before it is used: a tier's data, nothing, or another owner's data.
//!
//! A tier accepts a device only if the device has a tier's front ([`crate::front`]) or is empty. All other contents
//! belong to another owner and stay unchanged, unless the operator requests a reset.
//!
//! ```text
//!                     front is the tier's                        front is not the tier's
//!   device            no known signature in the first 1 MiB      first and last 1 MiB are zero
//!   regular file      the same                                   every byte is zero (holes are not read)
//! ```
//!
//! - The tier writes one page of the first 1 MiB. Any signature there was written later, or by an owner before the
//!   tier.
//! - After the first 1 MiB, a tier stores client data, which may look like a signature. So that part is not compared.
//! - The signatures are those that `libblkid` knows and that a server host may have. They only name the contents: a
//!   device with other data and no known signature is refused too.
//! - Only [`clear`] writes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::aligned::{ALIGN, Aligned};
use crate::front;

/// Number of bytes that are read at the start and at the end of a device.
const WINDOW_BYTES: u64 = 1 << 20;

/// The contents of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// No data: all examined bytes are zero.
    Nothing,
    /// A tier's data.
    Tier,
    /// Another owner's data, with a description for messages.
    Foreign(&'static str),
}

/// The name of contents without a known signature.
pub(crate) const UNKNOWN: &str = "data of another program";

/// Offsets of a signature, in bytes.
enum At {
    /// Offsets from the start of the device.
    Start(&'static [u64]),
    /// The offset `(size - back) & !(align - 1) + plus`, where `size` is the device's size.
    End { back: u64, align: u64, plus: u64 },
    /// Every `step` bytes, from offset `from` to before offset `to`.
    Each { from: u64, to: u64, step: u64 },
}

struct Signature {
    name: &'static str,
    at: At,
    magic: &'static [u8],
}

const fn start(name: &'static str, at: &'static [u64], magic: &'static [u8]) -> Signature {
    Signature { name, at: At::Start(at), magic }
}

const fn end(name: &'static str, back: u64, align: u64, plus: u64, magic: &'static [u8]) -> Signature {
    Signature { name, at: At::End { back, align, plus }, magic }
}

/// Offsets of the signature of swap space, which lies at the end of the first page, for pages of 4 KiB to 64 KiB.
const SWAP: &[u64] = &[0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6];
const LUKS_SECOND: &[u64] = &[0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000];
const LVM: &[u64] = &[0x018, 0x218, 0x418, 0x618];
const VOLUME_DESCRIPTORS: &[u64] = &[0x8001, 0x8801, 0x9001];
const MD: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
const MD_SWAPPED: &[u8] = &[0xa9, 0x2b, 0x4e, 0xfc];
const UFS: &[u64] = &[8192 + 1372, 65536 + 1372, 262_144 + 1372];

/// Known signatures, the more specific ones first: a file system's boot sector ends like a partition table.
const SIGNATURES: &[Signature] = &[
    start("an ext2, ext3 or ext4 file system", &[0x438], &[0x53, 0xef]),
    start("an XFS file system", &[0], b"XFSB"),
    start("an XFS log", &[0, 512], &[0xfe, 0xed, 0xba, 0xbe]),
    start("a Btrfs file system", &[0x1_0040], b"_BHRfS_M"),
    start("an F2FS file system", &[0x400, 0x1400], &[0x10, 0x20, 0xf5, 0xf2]),
    start("a bcachefs file system", &[0x1018], &[0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9]),
    start("a bcache device", &[0x1018], &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca]),
    Signature {
        name: "a ZFS pool",
        at: At::Each { from: 0x2_0000, to: 0x4_0000, step: 1024 },
        magic: &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0],
    },
    Signature {
        name: "a ZFS pool",
        at: At::Each { from: 0x2_0000, to: 0x4_0000, step: 1024 },
        magic: &[0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c],
    },
    start("a ReiserFS file system", &[0x2034, 0x1_0034], b"ReIsEr"),
    start("a Reiser4 file system", &[0x1_0000], b"ReIsEr4"),
    start("a JFS file system", &[0x8000], b"JFS1"),
    start("an OCFS2 file system", &[0x400, 0x800, 0x1000, 0x2000], b"OCFSV2"),
    start("a GFS2 file system", &[0x1_0000], &[0x01, 0x16, 0x19, 0x70]),
    start("an APFS container", &[0x20], b"NXSB"),
    start("an HFS file system", &[0x400], b"BD"),
    start("an HFS+ file system", &[0x400], b"H+"),
    start("an HFS+ file system", &[0x400], b"HX"),
    start("a UFS file system", UFS, &[0x54, 0x19, 0x01, 0x00]),
    start("a UFS file system", UFS, &[0x19, 0x01, 0x54, 0x19]),
    start("a NILFS2 file system", &[0x406], &[0x34, 0x34]),
    start("an EROFS file system", &[0x400], &[0xe2, 0xe1, 0xf5, 0xe0]),
    start("a SquashFS file system", &[0], b"hsqs"),
    start("a SquashFS file system", &[0], b"sqsh"),
    start("a cramfs file system", &[0, 512], &[0x45, 0x3d, 0xcd, 0x28]),
    start("a romfs file system", &[0], b"-rom1fs-"),
    start("an ISO 9660 file system", VOLUME_DESCRIPTORS, b"CD001"),
    start("a UDF file system", VOLUME_DESCRIPTORS, b"BEA01"),
    start("a UDF file system", VOLUME_DESCRIPTORS, b"NSR0"),
    start("an exFAT file system", &[3], b"EXFAT   "),
    start("a BitLocker volume", &[3], b"-FVE-FS-"),
    start("an NTFS file system", &[3], b"NTFS    "),
    start("a ReFS file system", &[3], b"ReFS\0"),
    start("a FAT file system", &[0x52], b"FAT32   "),
    start("a FAT file system", &[0x36], b"FAT1"),
    start("a FAT file system", &[0x36], b"MSDOS"),
    start("swap space", SWAP, b"SWAPSPACE2"),
    start("swap space", SWAP, b"SWAP-SPACE"),
    start("a suspended system", SWAP, b"S1SUSPEND"),
    start("a suspended system", SWAP, b"S2SUSPEND"),
    start("a suspended system", SWAP, b"ULSUSPEND"),
    start("a suspended system", SWAP, b"LINHIB0001"),
    start("an LVM physical volume", LVM, b"LVM2 001"),
    start("an LVM physical volume", &[0], b"HM\x01\0"),
    start("an LVM physical volume", &[0], b"HM\x02\0"),
    start("an LVM snapshot", &[0], b"SnAp"),
    start("a LUKS volume", &[0], b"LUKS\xba\xbe"),
    start("a LUKS volume", LUKS_SECOND, b"SKUL\xba\xbe"),
    start("a member of a Linux RAID", &[0, 4096], MD),
    start("a member of a Linux RAID", &[0, 4096], MD_SWAPPED),
    end("a member of a Linux RAID", 8192, 4096, 0, MD),
    end("a member of a Linux RAID", 65536, 65536, 0, MD),
    end("a member of a Linux RAID", 65536, 65536, 0, MD_SWAPPED),
    end("a member of an Intel RAID", 1024, 512, 0, b"Intel Raid ISM Cfg Sig."),
    end("a member of a DDF RAID", 512, 512, 0, &[0xde, 0x11, 0xde, 0x11]),
    end("a member of a DDF RAID", 512, 512, 0, &[0x11, 0xde, 0x11, 0xde]),
    end("a DRBD device", 4096, 4096, 60, &[0x83, 0x74, 0x02, 0x67]),
    end("a DRBD device", 4096, 4096, 60, &[0x83, 0x74, 0x02, 0x6b]),
    end("a DRBD device", 4096, 4096, 60, &[0x83, 0x74, 0x02, 0x6c]),
    end("a DRBD device", 4096, 4096, 60, &[0x83, 0x74, 0x02, 0x6d]),
    start("a Ceph BlueStore device", &[0], b"bluestore block device"),
    start("a VDO volume", &[0], b"dmvdo001"),
    start("a dm-verity tree", &[0], b"verity\0\0"),
    start("a dm-integrity volume", &[0], b"integrt\0"),
    start("a Stratis device", &[516, 4612], b"!Stra0tis"),
    start("an Oracle ASM disk", &[0x20], b"ORCLDISK"),
    start("a GPT partition table", &[512, 4096], b"EFI PART"),
    end("a GPT partition table", 512, 512, 0, b"EFI PART"),
    end("a GPT partition table", 4096, 4096, 0, b"EFI PART"),
    start("a BSD disk label", &[0x40, 0x200], &[0x57, 0x45, 0x56, 0x82]),
    start("a Sun disk label", &[508], &[0xda, 0xbe]),
    start("a partition table", &[510], &[0x55, 0xaa]),
];

/// The start and the end of a device.
struct Windows {
    bytes: u64,
    front: Aligned,
    /// Number of bytes of `front` that were read from the device.
    front_bytes: usize,
    back: Aligned,
    back_at: u64,
    back_bytes: usize,
}

impl Windows {
    fn read(file: &File, bytes: u64) -> io::Result<Self> {
        let mut front = Aligned::new(WINDOW_BYTES as usize);
        let front_bytes = read_up_to(file, front.bytes_mut(), 0)?;
        let mut back = Aligned::new(WINDOW_BYTES as usize + ALIGN);
        let back_at = bytes.saturating_sub(WINDOW_BYTES) & !(ALIGN as u64 - 1);
        let back_bytes = read_up_to(file, back.bytes_mut(), back_at)?;
        Ok(Self { bytes, front, front_bytes, back, back_at, back_bytes })
    }

    fn front(&self) -> &[u8] {
        &self.front.bytes()[..self.front_bytes]
    }

    fn back(&self) -> &[u8] {
        &self.back.bytes()[..self.back_bytes]
    }

    fn front_has(&self, at: u64, magic: &[u8]) -> bool {
        self.front().get(at as usize..).is_some_and(|bytes| bytes.starts_with(magic))
    }

    fn back_has(&self, at: u64, magic: &[u8]) -> bool {
        let within = at.checked_sub(self.back_at).and_then(|at| self.back().get(at as usize..));
        within.is_some_and(|bytes| bytes.starts_with(magic))
    }

    fn has(&self, signature: &Signature, with_end: bool) -> bool {
        let Signature { at, magic, .. } = signature;
        match at {
            At::Start(offsets) => offsets.iter().any(|at| self.front_has(*at, magic)),
            At::Each { from, to, step } => (*from..*to).step_by(*step as usize).any(|at| self.front_has(at, magic)),
            At::End { back, align, plus } if with_end => {
                let at = self.bytes.checked_sub(*back).map(|at| (at & !(align - 1)) + plus);
                at.is_some_and(|at| self.back_has(at, magic))
            }
            At::End { .. } => false,
        }
    }

    /// Returns the name of the first signature found. Signatures at the device's end are tried only if `with_end` is
    /// true.
    fn signature(&self, with_end: bool) -> Option<&'static str> {
        SIGNATURES.iter().find(|signature| self.has(signature, with_end)).map(|signature| signature.name)
    }
}

/// Reads from `at` until the end of the device or of `into`. Returns the number of bytes read.
fn read_up_to(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < into.len() {
        match file.read_at(&mut into[read..], at + read as u64) {
            Ok(0) => break,
            // A read that ends within a block has reached the end of the file.
            Ok(more) if !more.is_multiple_of(512) => return Ok(read + more),
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Returns true if a regular file contains only zeros. Holes and unwritten space are not read.
fn is_empty_file(file: &File, bytes: u64) -> io::Result<bool> {
    let mut window = Aligned::new(WINDOW_BYTES as usize);
    let mut at = 0;
    while at < bytes {
        at = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data & !(ALIGN as u64 - 1),
            // Only a hole follows the last data.
            Err(Errno::NXIO) => return Ok(true),
            // The file system does not report holes, so everything counts as data.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOTTY) => at,
            Err(error) => return Err(error.into()),
        };
        let read = read_up_to(file, window.bytes_mut(), at)?;
        if !is_zero(&window.bytes()[..read]) {
            return Ok(false);
        }
        if read == 0 {
            return Ok(true);
        }
        at += read as u64;
    }
    Ok(true)
}

/// Returns what a device of `bytes` bytes holds. This considers the whole device, even if only a part will be used.
///
/// # Errors
/// If the device cannot be read.
pub(crate) fn contents(file: &File, bytes: u64, is_file: bool) -> io::Result<Contents> {
    if bytes == 0 {
        return Ok(Contents::Nothing);
    }
    let windows = Windows::read(file, bytes)?;
    let is_tier = front::is_tier(windows.front());
    if let Some(name) = windows.signature(!is_tier) {
        return Ok(Contents::Foreign(name));
    }
    let is_empty = || match is_file {
        true => is_empty_file(file, bytes),
        false => Ok(is_zero(windows.front()) && is_zero(windows.back())),
    };
    Ok(match is_tier {
        true => Contents::Tier,
        false if is_empty()? => Contents::Nothing,
        false => Contents::Foreign(UNKNOWN),
    })
}

/// Zeroes the start and the end of a block device, so that no owner's signature remains.
///
/// # Errors
/// If the device cannot be written.
pub(crate) fn clear(file: &File, bytes: u64) -> io::Result<()> {
    let zeros = Aligned::new(WINDOW_BYTES as usize);
    let front = WINDOW_BYTES.min(bytes);
    file.write_all_at(&zeros.bytes()[..front as usize], 0)?;
    let back = bytes.saturating_sub(WINDOW_BYTES) & !(ALIGN as u64 - 1);
    let zeros = Aligned::new((bytes - back) as usize);
    file.write_all_at(zeros.bytes(), back)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Temp(PathBuf);

    impl Temp {
        fn of(name: &str, bytes: &[u8]) -> (Self, File) {
            let path = std::env::temp_dir().join(format!("gannet-foreign-{}-{name}", std::process::id()));
            std::fs::write(&path, bytes).expect("written");
            let file = File::options().read(true).write(true).open(&path).expect("there");
            (Self(path), file)
        }
    }

    impl Drop for Temp {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Returns the offsets of a signature on a device of `bytes` bytes.
    fn offsets(signature: &Signature, bytes: u64) -> Vec<u64> {
        match &signature.at {
            At::Start(offsets) => offsets.to_vec(),
            At::Each { from, to, step } => vec![*from, to - step],
            At::End { back, align, plus } => vec![((bytes - back) & !(align - 1)) + plus],
        }
    }

    #[test]
    fn every_foreign_signature_is_found_on_a_device_of_any_length() {
        const BYTES: u64 = (3 << 20) + 512 * 3;
        let (_temp, file) = Temp::of("signatures", &vec![0; BYTES as usize]);
        let mut tried = 0;
        for signature in SIGNATURES {
            for at in offsets(signature, BYTES) {
                let is_at_start = !matches!(signature.at, At::End { .. });
                for bytes in [BYTES, BYTES - 512 * 3].into_iter().take(if is_at_start { 2 } else { 1 }) {
                    file.write_all_at(signature.magic, at).expect("written");
                    let found = contents(&file, bytes, false).expect("read");
                    assert!(
                        matches!(found, Contents::Foreign(name) if name != UNKNOWN),
                        "{} at {at:#x}",
                        signature.name
                    );
                    assert_eq!(found, contents(&file, bytes, true).expect("read"));
                    // A tier's front covers only the first bytes.
                    if is_at_start && at >= 64 {
                        front::write_for_test(&file);
                        assert_eq!(contents(&file, bytes, false).expect("read"), found);
                        file.write_all_at(&[0; 64], 0).expect("written");
                    }
                    file.write_all_at(&vec![0; signature.magic.len()], at).expect("written");
                    tried += 1;
                }
            }
        }
        assert!(tried > 120, "{tried} were tried");
        assert_eq!(contents(&file, BYTES, false).expect("read"), Contents::Nothing);
    }

    #[test]
    fn any_byte_that_is_not_zero_makes_a_file_another_owners() {
        let (_temp, file) = Temp::of("bytes", &[]);
        assert_eq!(contents(&file, 0, true).expect("read"), Contents::Nothing);
        for at in [0, 700, 4096, (1 << 20) - 1, (1 << 20) + 77, (5 << 20) + 3] {
            file.set_len(8 << 20).expect("longer");
            assert_eq!(contents(&file, 8 << 20, true).expect("read"), Contents::Nothing, "holes");
            file.write_all_at(&[1], at).expect("written");
            assert_eq!(contents(&file, 8 << 20, true).expect("read"), Contents::Foreign(UNKNOWN), "{at}");
            file.set_len(0).expect("cut");
        }
        file.write_all_at(b"a short text", 0).expect("written");
        assert_eq!(contents(&file, 12, true).expect("read"), Contents::Foreign(UNKNOWN));
    }

    #[test]
    fn tier_data_after_its_header_is_never_taken_for_a_foreign_signature() {
        let (_temp, file) = Temp::of("own", &vec![0; 4 << 20]);
        front::write_for_test(&file);
        for signature in SIGNATURES.iter().filter(|signature| matches!(signature.at, At::End { .. })) {
            for at in offsets(signature, 4 << 20) {
                file.write_all_at(signature.magic, at).expect("written");
                assert_eq!(contents(&file, 4 << 20, true).expect("read"), Contents::Tier, "{}", signature.name);
            }
        }
    }

    #[test]
    fn cleared_device_has_no_signature_at_its_start_or_end() {
        const BYTES: u64 = (3 << 20) + 512;
        let (_temp, file) = Temp::of("clear", &vec![7; BYTES as usize]);
        for at in SIGNATURES.iter().flat_map(|signature| offsets(signature, BYTES)) {
            file.write_all_at(&[1], at).expect("written");
        }
        clear(&file, BYTES).expect("cleared");
        assert_eq!(contents(&file, BYTES, false).expect("read"), Contents::Nothing);
        assert_eq!(contents(&file, BYTES, true).expect("read"), Contents::Foreign(UNKNOWN), "its middle stays");
        let (_temp, file) = Temp::of("clear-short", &[7; 4096]);
        clear(&file, 4096).expect("cleared");
        assert_eq!(contents(&file, 4096, true).expect("read"), Contents::Nothing);
    }
}
