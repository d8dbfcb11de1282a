//! A device: what regions lie on.

use std::io;

use rustix::fd::BorrowedFd;

/// A device of a stated size, read and written in whole blocks from any thread.
pub trait Device: std::fmt::Debug + Send + Sync {
    /// Its size, in bytes.
    fn bytes(&self) -> u64;

    /// Reads and writes begin and end at multiples of so many bytes: 512 or 4096.
    fn block_bytes(&self) -> usize;

    /// Returns the name of the device, for the operator who has to replace it.
    fn name(&self) -> String;

    /// The open file that it is, if reads may be asked of the kernel without a thread that waits.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads all of `into`, which begins at a multiple of a page.
    ///
    /// # Errors
    /// If the device fails, or has fewer bytes than were asked for.
    fn read(&self, into: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes all of `from`, which begins at a multiple of a page.
    ///
    /// # Errors
    /// If the device fails.
    fn write(&self, from: &[u8], at: u64) -> io::Result<()>;

    /// Makes all writes so far durable, whatever becomes of the machine.
    ///
    /// # Errors
    /// If the device fails.
    fn sync(&self) -> io::Result<()>;

    /// Discards a range that is no longer needed, which reduces the device's own work. If the device does not support
    /// it, nothing is lost.
    fn discard(&self, at: u64, bytes: u64);
}
