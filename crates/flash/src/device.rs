//! The interface of the devices on which the tier's regions lie.

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

    /// Returns the device's open file, if its reads can be submitted to io_uring.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads from offset `at` until `into` is full. `into` must begin at a page boundary.
    ///
    /// # Errors
    /// If the device fails, or has fewer bytes than requested.
    fn read(&self, into: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes all of `from` at offset `at`. `from` must begin at a page boundary.
    ///
    /// # Errors
    /// If the device fails.
    fn write(&self, from: &[u8], at: u64) -> io::Result<()>;

    /// Makes all writes so far durable, even across a power loss.
    ///
    /// # Errors
    /// If the device fails.
    fn sync(&self) -> io::Result<()>;

    /// Discards a range whose data is no longer needed, which reduces the device's internal work. A device may ignore
    /// the request.
    fn discard(&self, at: u64, bytes: u64);
}
