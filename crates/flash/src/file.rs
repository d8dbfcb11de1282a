//! A device that is a file or a block device, read and written past the page cache.
//!
//! Invariants:
//! - A device is this process's alone: a block device is opened with `O_EXCL`, which fails while it or a part of it is
//!   mounted, is swap, or is a member of a RAID, a volume group or a mapping; all are locked (`flock`) beside that.
//! - Nothing is written to a device that holds another owner's bytes ([`crate::foreign`]), unless a reset is asked for.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FallocateFlags, FileType, OFlags, fallocate};
use rustix::io::Errno;

use crate::device::Device;
use crate::foreign::{self, Contents};

/// Why a device is not taken.
#[derive(Debug)]
pub enum OpenError {
    /// It cannot be opened to be read and written.
    Open(io::Error),
    /// It is neither a file nor a block device.
    Kind,
    /// A block device, or a file that is to be read alone, that has fewer bytes than were stated.
    Smaller {
        /// Bytes that it has.
        bytes: u64,
    },
    /// There is no room for a file of that size.
    Room(io::Error),
    /// It is in use elsewhere.
    Taken,
    /// The kernel uses the block device or a part of it: it is mounted, swap, or a member of a RAID, a volume group or
    /// a mapping.
    InUse,
    /// It holds another owner's data.
    Foreign(&'static str),
    /// It is not there, and a file in `/dev` would lie in memory.
    NoDevice,
    /// It is not what was there when it was used last, or cannot be read.
    Other,
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open(error) if error.raw_os_error() == Some(Errno::ROFS.raw_os_error()) => {
                f.write_str("its file system is mounted read-only")
            }
            Self::Open(error) => write!(f, "it cannot be opened to be read and written: {error}"),
            Self::Kind => f.write_str("it is neither a file nor a block device"),
            Self::Smaller { bytes } => write!(f, "it has {bytes} bytes, fewer than stated"),
            Self::Room(error) => write!(f, "its file system has no room for a file of that size: {error}"),
            Self::Taken => f.write_str("another process uses it"),
            Self::InUse => f.write_str(
                "it or a part of it is mounted, used as swap, or a member of a RAID, a volume group or a mapping",
            ),
            Self::Foreign(what) => write!(f, "it holds {what}"),
            Self::NoDevice => f.write_str("there is no such device"),
            Self::Other => f.write_str("it is not what the memory file was used with, or cannot be read"),
        }
    }
}

impl std::error::Error for OpenError {}

/// A file or a block device.
#[derive(Debug)]
pub struct FileDevice {
    file: Arc<File>,
    path: PathBuf,
    bytes: u64,
    block_bytes: usize,
    is_file: bool,
    direct: bool,
    /// It is read alone.
    is_view: bool,
}

impl FileDevice {
    /// Opens it, and makes a file that is not there.
    ///
    /// # Errors
    /// See [`OpenError`]. A device that is refused is as it was.
    pub fn open(path: &Path, bytes: u64) -> Result<Self, OpenError> {
        let (file, direct) = open_any(path, false)?;
        Self::of(Arc::new(file), path, bytes, direct, Use::Own)
    }

    /// Opens a device and discards its contents, whatever wrote them. A device in use is refused nevertheless.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn reset(path: &Path, bytes: u64) -> Result<Self, OpenError> {
        let (file, direct) = open_any(path, false)?;
        Self::of(Arc::new(file), path, bytes, direct, Use::Reset)
    }

    /// Opens one that is there to be read alone: it refuses writes, and nothing of it is changed.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn view(path: &Path, bytes: u64) -> Result<Self, OpenError> {
        let (file, direct) = open_any(path, true)?;
        Self::of(Arc::new(file), path, bytes, direct, Use::View)
    }

    /// The device that another process had open, and has locked with all who share this file.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn adopt(file: Arc<File>, path: &Path, bytes: u64) -> Result<Self, OpenError> {
        let flags = rustix::fs::fcntl_getfl(&file).map_err(|error| OpenError::Open(error.into()))?;
        Self::of(file, path, bytes, flags.contains(OFlags::DIRECT), Use::Adopted)
    }

    fn of(file: Arc<File>, path: &Path, bytes: u64, direct: bool, to: Use) -> Result<Self, OpenError> {
        let metadata = file.metadata().map_err(OpenError::Open)?;
        let kind = metadata.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(OpenError::Kind);
        }
        if !lock(&file) {
            return Err(OpenError::Taken);
        }
        let mut block_bytes = BLOCK_BYTES;
        let is_view = to == Use::View;
        let has = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0));
        let has = has.map_err(|error| OpenError::Open(error.into()))?;
        if kind.is_block_device() && has < bytes {
            return Err(OpenError::Smaller { bytes: has });
        }
        take_contents(&file, has, kind.is_file(), to)?;
        if kind.is_block_device() {
            let logical = rustix::fs::ioctl_blksszget(&file).map_or(BLOCK_BYTES, |bytes| bytes as usize);
            block_bytes = logical.clamp(512, BLOCK_BYTES);
        } else if !is_view {
            reserve(&file, bytes).map_err(OpenError::Room)?;
        } else if metadata.len() < bytes {
            return Err(OpenError::Smaller { bytes: metadata.len() });
        }
        Ok(Self { file, path: path.to_owned(), bytes, block_bytes, is_file: kind.is_file(), direct, is_view })
    }

    /// Returns the open file of the device, for [`FileDevice::adopt`]. The device stays locked while this file is open.
    pub fn share(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// It is read and written past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }
}

/// The open file is what is at the path: the same file, or the same block device by whatever name.
///
/// # Errors
/// If `stat` fails.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (ours, theirs) = (rustix::fs::fstat(file)?, rustix::fs::stat(path)?);
    let is_block = |mode| FileType::from_raw_mode(mode) == FileType::BlockDevice;
    if is_block(ours.st_mode) && is_block(theirs.st_mode) {
        return Ok(ours.st_rdev == theirs.st_rdev);
    }
    Ok((ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino))
}

/// Keeps other processes away; false: one has it. Reads that were under way when a process was killed keep its file
/// open for a moment.
fn lock(file: &File) -> bool {
    for _ in 0..LOCK_TRIES {
        if try_lock(file) {
            return true;
        }
        std::thread::sleep(LOCK_WAIT);
    }
    false
}

fn try_lock(file: &File) -> bool {
    // If the file system has no locks, no process is kept away.
    rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

const LOCK_TRIES: usize = 50;
const LOCK_WAIT: std::time::Duration = std::time::Duration::from_millis(20);

/// Every device and every file takes reads and writes of such blocks.
const BLOCK_BYTES: usize = 4096;

/// The use of a device from its opening on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Read and written, if it is empty or a tier's.
    Own,
    /// Read and written, whatever it holds.
    Reset,
    /// Read and written by a process that another one gave it to.
    Adopted,
    /// Read alone.
    View,
}

/// Refuses another owner's data, or throws it away.
fn take_contents(file: &File, bytes: u64, is_file: bool, to: Use) -> Result<(), OpenError> {
    match to {
        Use::Adopted | Use::View => Ok(()),
        Use::Own => match foreign::contents(file, bytes, is_file).map_err(OpenError::Open)? {
            Contents::Nothing | Contents::Tier => Ok(()),
            Contents::Foreign(what) => Err(OpenError::Foreign(what)),
        },
        Use::Reset if is_file => file.set_len(0).map_err(OpenError::Open),
        Use::Reset => foreign::clear(file, bytes).map_err(OpenError::Open),
    }
}

/// A file made here would lie in memory, on devtmpfs: the name of a device is misspelt, or the device is gone.
fn is_missing_device(path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
    let shared_memory = ["/dev/shm", "/dev/hugepages", "/dev/mqueue"];
    !path.exists()
        && folder.is_some_and(|folder| {
            folder.starts_with("/dev") && !shared_memory.iter().any(|other| folder.starts_with(other))
        })
}

/// Opens it past the page cache where that can be: then the second is true.
fn open_any(path: &Path, is_view: bool) -> Result<(File, bool), OpenError> {
    // Not opened to find out: to open a terminal or a watchdog does something.
    if let Ok(metadata) = std::fs::metadata(path) {
        let kind = metadata.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(OpenError::Kind);
        }
        if kind.is_block_device() && !is_view {
            return open_block(path);
        }
    } else if !is_view && is_missing_device(path) {
        return Err(OpenError::NoDevice);
    }
    match open(path, true, is_view) {
        Ok(file) => Ok((file, true)),
        // A file system in memory has no cache to go past.
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            open(path, false, is_view).map(|file| (file, false)).map_err(OpenError::Open)
        }
        Err(error) => Err(OpenError::Open(error)),
    }
}

/// Opens a block device for this process alone.
fn open_block(path: &Path) -> Result<(File, bool), OpenError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags((OFlags::EXCL | OFlags::DIRECT).bits() as i32);
    for _ in 0..LOCK_TRIES {
        match options.open(path) {
            // Reads of a process that was killed may still be under way.
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => std::thread::sleep(LOCK_WAIT),
            opened => return opened.map(|file| (file, true)).map_err(OpenError::Open),
        }
    }
    // A server that runs has it open in this way, and locked.
    let is_locked = File::open(path).is_ok_and(|file| !try_lock(&file));
    Err(if is_locked { OpenError::Taken } else { OpenError::InUse })
}

fn open(path: &Path, direct: bool, is_view: bool) -> io::Result<File> {
    let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
    let mut options = OpenOptions::new();
    options.read(true).write(!is_view).custom_flags(flags.bits() as i32);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_view => {
            options.create(true).mode(0o600).open(path)
        }
        opened => opened,
    }
}

/// Has the file system keep room for all of the file, so that a write cannot fail for want of it later.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        // Where that is not known, a write may find the file system full, and the device is lost then.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            if file.metadata()?.len() < bytes {
                file.set_len(bytes)?;
            }
            let is_long = file.metadata()?.len() >= bytes;
            if is_long { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
        }
        Err(error) => Err(error.into()),
        Ok(()) => Ok(()),
    }
}

impl Device for FileDevice {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        // Through the page cache a read may wait for more than the device.
        self.direct.then(|| self.file.as_fd())
    }

    fn read(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }

    fn write(&self, from: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(from, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn discard(&self, at: u64, bytes: u64) {
        if self.is_view {
            return;
        }
        // Errors are ignored: a discard is only a hint. The room of a file is reserved again at once, while it is
        // available.
        let punched = fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, bytes);
        if punched.is_ok() && self.is_file {
            let _ = fallocate(&self.file, FallocateFlags::KEEP_SIZE, at, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aligned::Aligned;

    fn folder() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("gannet-flash-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn what_is_written_is_read_back_and_a_second_user_is_refused() {
        let path = folder().join("device");
        let device = FileDevice::open(&path, 1 << 20).expect("a file");
        assert_eq!((device.bytes(), device.block_bytes()), (1 << 20, 4096));
        assert_eq!(std::fs::metadata(&path).expect("it was made").len(), 1 << 20);
        let mut bytes = Aligned::new(8192);
        bytes.bytes_mut().iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
        device.write(bytes.bytes(), 65536).expect("written");
        let mut read = Aligned::new(8192);
        device.read(read.bytes_mut(), 65536).expect("read");
        assert_eq!(read.bytes(), bytes.bytes());
        assert!(device.read(read.bytes_mut(), 1 << 20).is_err(), "there is nothing behind the end");
        device.discard(65536, 4096);
        device.read(read.bytes_mut(), 65536 + 4096).expect("read");
        assert_eq!(read.bytes()[..4096], bytes.bytes()[4096..], "what stands beside it stays");
        assert!(matches!(FileDevice::open(&path, 1 << 20), Err(OpenError::Taken)));
        let adopted = FileDevice::adopt(device.share(), &path, 1 << 20).expect("the same file");
        assert_eq!((adopted.is_direct(), is_at(&adopted.share(), &path).expect("both")), (device.is_direct(), true));
        drop(device);
        assert!(matches!(FileDevice::open(&path, 1 << 20), Err(OpenError::Taken)), "who adopted it has it");
        adopted.read(read.bytes_mut(), 65536 + 4096).expect("read");
        assert_eq!(read.bytes()[..4096], bytes.bytes()[4096..]);
        let other = folder().join("other");
        std::fs::write(&other, b"x").expect("written");
        assert!(!is_at(&adopted.share(), &other).expect("both"));
        std::fs::remove_file(&other).expect("removed");
        drop(adopted);
        assert!(matches!(FileDevice::open(&path, 1 << 20), Err(OpenError::Foreign(_))), "no tier has begun it");
        assert!(FileDevice::reset(&path, 1 << 20).is_ok(), "it is free again");
        assert!(FileDevice::open(&path, 1 << 20).is_ok(), "and empty");
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn a_device_that_is_read_alone_is_not_made_not_longer_and_not_written() {
        let path = folder().join("viewed");
        assert!(matches!(FileDevice::view(&path, 1 << 20), Err(OpenError::Open(_))) && !path.exists());
        std::fs::write(&path, vec![7; 1 << 20]).expect("written");
        assert!(matches!(FileDevice::view(&path, 2 << 20), Err(OpenError::Smaller { bytes }) if bytes == 1 << 20));
        let device = FileDevice::view(&path, 1 << 20).expect("it is there");
        let mut page = Aligned::new(4096);
        device.read(page.bytes_mut(), 4096).expect("read");
        assert!(page.bytes().iter().all(|byte| *byte == 7));
        assert!(device.write(page.bytes(), 0).is_err());
        device.discard(0, 4096);
        assert!(matches!(FileDevice::open(&path, 1 << 20), Err(OpenError::Taken)), "nobody writes it meanwhile");
        drop(device);
        assert!(std::fs::read(&path).expect("there") == vec![7; 1 << 20]);
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn what_is_no_device_is_refused_with_the_reason() {
        let refused = |path: &Path, bytes| FileDevice::open(path, bytes).expect_err("refused").to_string();
        assert!(refused(&folder(), 1 << 20).contains("neither a file nor a block device"));
        assert!(refused(Path::new("/dev/null"), 1 << 20).contains("neither a file nor a block device"));
        // Who may write everywhere opens it, and finds that it does not grow.
        let text = refused(Path::new("/proc/version"), 1 << 20);
        assert!(text.contains("cannot be opened") || text.contains("no room"), "{text}");
        let path = folder().join("huge");
        assert!(refused(&path, 1 << 62).contains("no room"), "no file system has so much");
        std::fs::remove_file(&path).expect("removed");
    }
}
