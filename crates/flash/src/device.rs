//! A device: what regions lie on.

use std::io;

use rustix::fd::BorrowedFd;

/// A device of a stated size, read and written in whole blocks from any thread.
pub trait Device: std::fmt::Debug + Send + Sync {
    /// Its size, in bytes.
    fn bytes(&self) -> u64;

    /// Reads and writes begin and end at multiples of so many bytes: 512 or 4096.
    fn block_bytes(&self) -> usize;

    /// What it is called, for whoever has to replace it.
    fn name(&self) -> String;

    /// The open file that it is, if reads may be asked of the kernel without a thread that waits.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads all of `into`, which begins at a multiple of a page.
    ///
    /// # Errors
    /// Whatever the device says; also where less is there than was asked for.
    fn read(&self, into: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes all of `from`, which begins at a multiple of a page.
    ///
    /// # Errors
    /// Whatever the device says.
    fn write(&self, from: &[u8], at: u64) -> io::Result<()>;

    /// Has stay what was written so far, whatever becomes of the machine.
    ///
    /// # Errors
    /// Whatever the device says.
    fn sync(&self) -> io::Result<()>;

    /// Tells the device that a range is of no use to anybody, which makes its own work less. Where it cannot be told,
    /// nothing is lost.
    fn discard(&self, at: u64, bytes: u64);
}
