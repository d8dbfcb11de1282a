//! The device interface: regions lie on devices.

use std::io;

use rustix::fd::BorrowedFd;

/// A device of a fixed size. Any thread may read and write it, in whole blocks.
pub trait Device: std::fmt::Debug + Send + Sync {
    /// Returns the size in bytes.
    fn bytes(&self) -> u64;

    /// Returns the block size in bytes, 512 or 4096. Reads and writes begin and end at its multiples.
    fn block_bytes(&self) -> usize;

    /// Returns the name of the device, for the operator who has to replace it.
    fn name(&self) -> String;

    /// Returns the device's open file, if reads of it can be submitted to the kernel without a thread that waits.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Fills `into`, which must begin at a multiple of a page.
    ///
    /// # Errors
    /// If the device fails, or has fewer bytes than requested.
    fn read(&self, into: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes all of `from`, which must begin at a multiple of a page.
    ///
    /// # Errors
    /// If the device fails.
    fn write(&self, from: &[u8], at: u64) -> io::Result<()>;

    /// Makes all writes so far durable, even across a power loss.
    ///
    /// # Errors
    /// If the device fails.
    fn sync(&self) -> io::Result<()>;

    /// Discards a range that is no longer needed, which reduces the device's own work. If the device does not support
    /// it, nothing is lost.
    fn discard(&self, at: u64, bytes: u64);
}
