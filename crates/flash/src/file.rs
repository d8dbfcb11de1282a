//! A device in a regular file or on a block device. Reads and writes bypass the page cache if possible.
//!
//! Invariants:
//! - A device belongs to this process alone. A block device is opened with `O_EXCL`, which fails while the device or a
//!   part of it is mounted, used as swap, or a member of a RAID, a volume group or a mapping. All devices are also
//!   locked (`flock`).
//! - Nothing is written to a device that holds another owner's data ([`crate::foreign`]), unless the operator requests
//!   a reset.

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

/// The reason why a device is not accepted.
#[derive(Debug)]
pub enum OpenError {
    /// Opening for reading and writing failed.
    Open(io::Error),
    /// The path is neither a regular file nor a block device.
    Kind,
    /// A block device, or a file opened as a view, has fewer bytes than configured.
    Smaller {
        /// The actual size in bytes.
        bytes: u64,
    },
    /// The file system has no room for a file of that size.
    Room(io::Error),
    /// Another process uses the device.
    Taken,
    /// The kernel uses the block device or a part of it: it is mounted, swap, or a member of a RAID, a volume group or
    /// a mapping.
    InUse,
    /// The device holds another owner's data.
    Foreign(&'static str),
    /// The path does not exist, and a new file in `/dev` would lie in memory.
    NoDevice,
    /// The device is not the one with which the memory file was last used, or it cannot be read.
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
            Self::Other => f.write_str("it is not the device that the memory file was used with, or cannot be read"),
        }
    }
}

impl std::error::Error for OpenError {}

/// A device in a regular file or on a block device.
#[derive(Debug)]
pub struct FileDevice {
    file: Arc<File>,
    path: PathBuf,
    bytes: u64,
    block_bytes: usize,
    is_file: bool,
    direct: bool,
    /// True if the device is only read.
    is_view: bool,
}

impl FileDevice {
    /// Opens a device, and creates a file if none exists.
    ///
    /// # Errors
    /// See [`OpenError`]. A refused device is left unchanged.
    pub fn open(path: &Path, bytes: u64) -> Result<Self, OpenError> {
        let (file, direct) = open_any(path, false)?;
        Self::of(Arc::new(file), path, bytes, direct, Use::Own)
    }

    /// Opens a device and discards its contents, whatever their owner. A device in use is still refused.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn reset(path: &Path, bytes: u64) -> Result<Self, OpenError> {
        let (file, direct) = open_any(path, false)?;
        Self::of(Arc::new(file), path, bytes, direct, Use::Reset)
    }

    /// Opens an existing device for reading only. Writes are refused, and its contents stay unchanged.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn view(path: &Path, bytes: u64) -> Result<Self, OpenError> {
        let (file, direct) = open_any(path, true)?;
        Self::of(Arc::new(file), path, bytes, direct, Use::View)
    }

    /// Takes over a device that another process opened. The device's lock belongs to the open file, so both processes
    /// hold the lock.
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

    /// Returns true if reads and writes bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }
}

/// Returns true if `path` names the open file: the same file, or the same block device under any name.
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

/// Locks the file against other processes. Returns false if another process holds the lock. The reads in flight of a
/// killed process keep its lock for a moment, so this function retries for a second.
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
    // If the file system does not support locks, the device is used without a lock.
    rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

/// Maximum number of attempts to lock or open a device.
const LOCK_TRIES: usize = 50;
/// Pause between two of these attempts.
const LOCK_WAIT: std::time::Duration = std::time::Duration::from_millis(20);

/// A block size that all devices and files accept.
const BLOCK_BYTES: usize = 4096;

/// The way in which a device is opened and used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Read and written, if it is empty or belongs to a tier.
    Own,
    /// Read and written, after its contents were discarded.
    Reset,
    /// Read and written, and taken over from another process.
    Adopted,
    /// Only read.
    View,
}

/// Refuses another owner's data, or discards it for a reset.
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

/// Returns true if a file created at `path` would lie in memory, on devtmpfs. In that case the device name is misspelt,
/// or the device is missing.
fn is_missing_device(path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
    let shared_memory = ["/dev/shm", "/dev/hugepages", "/dev/mqueue"];
    !path.exists()
        && folder.is_some_and(|folder| {
            folder.starts_with("/dev") && !shared_memory.iter().any(|other| folder.starts_with(other))
        })
}

/// Opens the device so that reads and writes bypass the page cache, if possible. The second value is true if they do.
fn open_any(path: &Path, is_view: bool) -> Result<(File, bool), OpenError> {
    // Checks the type without opening, because opening a terminal or a watchdog has side effects.
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
        // A file system in memory may refuse `O_DIRECT`, because it has no page cache to bypass.
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            open(path, false, is_view).map(|file| (file, false)).map_err(OpenError::Open)
        }
        Err(error) => Err(OpenError::Open(error)),
    }
}

/// Opens a block device exclusively.
fn open_block(path: &Path) -> Result<(File, bool), OpenError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags((OFlags::EXCL | OFlags::DIRECT).bits() as i32);
    for _ in 0..LOCK_TRIES {
        match options.open(path) {
            // Reads of a killed process may still be in flight.
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => std::thread::sleep(LOCK_WAIT),
            opened => return opened.map(|file| (file, true)).map_err(OpenError::Open),
        }
    }
    // If another Gannet server uses the device, that server also holds the lock.
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

/// Reserves space for the whole file, so that no later write fails for lack of space.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        // This file system cannot reserve space. If it is full later, a write fails, and the device counts as lost.
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
        // A read through the page cache may wait for more than the device, so only direct reads are submitted to
        // io_uring.
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
        // Errors are ignored, because a discard is only a hint. The discarded space of a file is reserved again at
        // once, before another file can take it.
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
    fn device_returns_written_bytes_and_refuses_a_second_open() {
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
    fn read_only_view_never_creates_extends_or_writes_the_device() {
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
    fn invalid_device_is_refused_with_the_reason() {
        let refused = |path: &Path, bytes| FileDevice::open(path, bytes).expect_err("refused").to_string();
        assert!(refused(&folder(), 1 << 20).contains("neither a file nor a block device"));
        assert!(refused(Path::new("/dev/null"), 1 << 20).contains("neither a file nor a block device"));
        // Root can open /proc/version, but cannot extend it.
        let text = refused(Path::new("/proc/version"), 1 << 20);
        assert!(text.contains("cannot be opened") || text.contains("no room"), "{text}");
        let path = folder().join("huge");
        assert!(refused(&path, 1 << 62).contains("no room"), "no file system has so much");
        std::fs::remove_file(&path).expect("removed");
    }
}
