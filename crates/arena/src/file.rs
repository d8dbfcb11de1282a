//! A file that contains the maps of a store. This process locks the file, and allocates disk space before it writes to
//! the maps.
//!
//! ```text
//!   open or create -> lock, or fail -> set_bytes -> allocate(range) -> Map::of_file(range)
//!                                                   punch(range): deallocates it again
//! ```
//!
//! Invariants:
//! - One process has the file open at a time. It holds an exclusive lock, which the kernel releases when the process
//!   ends.
//! - Opening an existing file does not change it.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::PAGE_BYTES;
use rustix::fs::{FallocateFlags, FlockOperation, MemfdFlags, SeekFrom};
use rustix::fs::{fallocate, flock, fstatfs, memfd_create, seek};

/// Number of attempts to lock the file. The kernel may still be tearing down a killed process that held the lock.
const LOCK_TRIES: usize = 100;
/// Pause between two attempts to lock the file.
const LOCK_WAIT: Duration = Duration::from_millis(10);

/// The reason why a file was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// An error from the operating system.
    Io(io::Error),
    /// Another process has the file open.
    Locked,
    /// The path names a folder, socket, pipe or device.
    NotAFile,
    /// The file belongs to another user, who could change it at any time.
    OtherOwner {
        /// The user who owns the file.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// Users other than the owner may write to the file. The number is its permission bits.
    WritableByOthers(u32),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Locked => f.write_str("another process has the file open"),
            Self::NotAFile => f.write_str("not a regular file"),
            Self::OtherOwner { owner, user } => {
                write!(f, "it belongs to the user with the id {owner}, and this process runs as {user}")
            }
            Self::WritableByOthers(mode) => write!(f, "other users may write to it (its mode is {mode:04o})"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The kind of storage under a file, as far as it matters for a memory map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Memory (tmpfs). Its contents are lost when the machine loses power.
    Tmpfs,
    /// Memory in huge pages (hugetlbfs).
    HugePages,
    /// Any other file system, usually on a disk. The kernel writes dirty pages back.
    Disk,
}

/// Maximum number of parts with data of which a view of a file consists. The kernel limits the maps of a process.
const PARTS_MAX: usize = 4096;

/// Numbers by which `statfs` identifies file systems.
const TMPFS_MAGIC: u64 = 0x0102_1994;
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// An open and locked file.
#[derive(Debug)]
pub struct MapFile {
    file: File,
    path: PathBuf,
    medium: Medium,
    /// True if maps of this file are private: writes to them never reach the file.
    is_view: bool,
}

impl MapFile {
    /// Opens the file for this process alone. Creates an empty file, accessible to its owner only, if none exists.
    ///
    /// # Errors
    /// See [`OpenError`]. An existing file is left unchanged. The file must belong to this process's user, and no other
    /// user may have the right to write to it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_with(path, true)
    }

    /// Opens a file that exists.
    ///
    /// # Errors
    /// As for [`MapFile::open`], and if the file does not exist.
    pub fn open_there(path: &Path) -> Result<Self, OpenError> {
        Self::open_with(path, false)
    }

    /// Opens an existing file through private maps, to try something out on it. Only this process sees writes to the
    /// maps, and the file stays unchanged. Fails if another process has the file open.
    ///
    /// # Errors
    /// As for [`MapFile::open_there`]. Read permission is enough.
    pub fn view(path: &Path) -> Result<Self, OpenError> {
        check_kind(path)?;
        let file = File::open(path)?;
        lock(&file)?;
        let medium = medium_of(&file)?;
        Ok(Self { file, path: path.to_owned(), medium, is_view: true })
    }

    /// Returns the file with private maps, as [`MapFile::view`] opens it.
    #[must_use]
    pub fn into_view(self) -> Self {
        Self { is_view: true, ..self }
    }

    fn open_with(path: &Path, make: bool) -> Result<Self, OpenError> {
        check_kind(path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(make).truncate(false).mode(0o600);
        // The kernel refuses to open another user's file in /dev/shm for writing, with an error that does not say why.
        if let Ok(meta) = std::fs::metadata(path) {
            check_owner(&meta)?;
        }
        let file = options.open(path)?;
        check_owner(&file.metadata()?)?;
        lock(&file)?;
        let medium = medium_of(&file)?;
        Ok(Self { file, path: path.to_owned(), medium, is_view: false })
    }

    /// Creates an unnamed file in memory, for tests and for passing to another process.
    ///
    /// # Errors
    /// If `memfd_create` fails.
    pub fn in_memory() -> io::Result<Self> {
        let fd = memfd_create("gannet", MemfdFlags::CLOEXEC)?;
        Ok(Self { file: fd.into(), path: PathBuf::from("shared memory"), medium: Medium::Tmpfs, is_view: false })
    }

    /// Takes over a file that another process opened, locked and passed to this one. The lock belongs to the open file
    /// description, so it stays in force. `path` is the path under which the other process opened the file.
    ///
    /// # Errors
    /// If the descriptor is not a regular file, or if `fstat` fails.
    pub fn adopt(fd: OwnedFd, path: &Path) -> io::Result<Self> {
        let file = File::from(fd);
        if !file.metadata()?.file_type().is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let medium = medium_of(&file)?;
        Ok(Self { file, path: path.to_owned(), medium, is_view: false })
    }

    /// Returns true if `path` names this file now.
    ///
    /// # Errors
    /// If `stat` fails.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        let (ours, theirs) = (self.file.metadata()?, std::fs::metadata(path)?);
        Ok((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the kind of storage under the file.
    pub fn medium(&self) -> Medium {
        self.medium
    }

    /// Returns true if maps of this file are private copies; see [`MapFile::view`].
    pub fn is_view(&self) -> bool {
        self.is_view
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the length of the file, holes included.
    ///
    /// # Errors
    /// If `fstat` fails.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Sets the file's length. Growth adds a hole that reads as zero; shrinking discards the bytes past the new end.
    ///
    /// # Errors
    /// If `ftruncate` fails.
    pub fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        assert!(!self.is_view, "a view is read-only");
        self.file.set_len(bytes)
    }

    /// Allocates disk space for a range, so that no later write to it fails for lack of space. The contents stay
    /// unchanged.
    ///
    /// # Errors
    /// `ENOSPC`; `EOPNOTSUPP` on file systems that allocate only as they write.
    pub fn allocate(&self, at: u64, bytes: u64) -> io::Result<()> {
        if self.is_view {
            return Ok(());
        }
        loop {
            match fallocate(&self.file, FallocateFlags::empty(), at, bytes) {
                Err(rustix::io::Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }

    /// Deallocates a range's space. The range becomes a hole that reads as zero.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the file system does not support holes.
    pub fn punch(&self, at: u64, bytes: u64) -> io::Result<()> {
        assert!(!self.is_view, "a view is read-only");
        if bytes == 0 {
            return Ok(());
        }
        Ok(fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, bytes)?)
    }

    /// Returns the parts of a range that a map of the file has to contain. In a view on tmpfs these are the parts with
    /// data, unless there are too many: even a read of a hole takes space there, and ends the process if there is none.
    pub(crate) fn mapped_parts(&self, at: u64, bytes: u64) -> io::Result<Vec<std::ops::Range<u64>>> {
        let end = at + bytes;
        if !self.is_view || self.medium != Medium::Tmpfs {
            return Ok(std::iter::once(at..end).collect());
        }
        let (page, mut parts, mut from) = (PAGE_BYTES as u64, Vec::new(), at);
        while from < end {
            // A failed seek means that no data follows.
            let Ok(data) = seek(&self.file, SeekFrom::Data(from)) else { break };
            if data >= end {
                break;
            }
            let hole = seek(&self.file, SeekFrom::Hole(data))?.next_multiple_of(page).min(end);
            parts.push((data / page * page).max(at)..hole);
            if parts.len() > PARTS_MAX {
                return Ok(std::iter::once(at..end).collect());
            }
            from = hole;
        }
        Ok(parts)
    }

    /// Copies the file's present contents into an unnamed file in memory. The copy has the contents that another
    /// process would find in the file if this process were killed now.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub fn image(&self) -> io::Result<Self> {
        let image = Self::in_memory()?;
        let end = self.bytes()?;
        image.set_bytes(end)?;
        let mut at = 0;
        while at < end {
            // Holes are skipped. A failed seek means that no data follows.
            let Ok(from) = seek(&self.file, SeekFrom::Data(at)) else { break };
            let to = seek(&self.file, SeekFrom::Hole(from))?;
            let mut bytes = vec![0; (to - from) as usize];
            self.file.read_exact_at(&mut bytes, from)?;
            image.file.write_all_at(&bytes, from)?;
            at = to;
        }
        Ok(image)
    }

    /// Flushes data and metadata to the disk, if the file lies on one.
    ///
    /// # Errors
    /// If `fsync` fails.
    pub fn sync(&self) -> io::Result<()> {
        if self.medium == Medium::Disk && !self.is_view { self.file.sync_all() } else { Ok(()) }
    }

    /// Flushes the file's data to the disk, as [`MapFile::sync`] does. Metadata that is not needed to read the data
    /// back may stay unflushed.
    ///
    /// # Errors
    /// If `fdatasync` fails.
    pub fn sync_data(&self) -> io::Result<()> {
        if self.medium == Medium::Disk && !self.is_view { self.file.sync_data() } else { Ok(()) }
    }
}

/// Environment variable that overrides the machine's boot ID, for tests of power loss. A release build ignores it: a
/// server that takes one boot for another would trust pages that were never synced.
pub const BOOT_ID_VARIABLE: &str = "GANNET_TEST_BOOT_ID";

/// Returns the ID of the machine's current boot; `None` if the kernel does not report it.
pub fn boot_id() -> Option<u128> {
    let text = match boot_id_override() {
        Some(text) => text,
        None => std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?,
    };
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok().filter(|id| *id != 0)
}

/// Returns the value of [`BOOT_ID_VARIABLE`]; always `None` in a release build.
pub fn boot_id_override() -> Option<String> {
    if cfg!(debug_assertions) { std::env::var(BOOT_ID_VARIABLE).ok() } else { None }
}

fn check_kind(path: &Path) -> Result<(), OpenError> {
    if let Ok(meta) = std::fs::metadata(path) {
        let kind = meta.file_type();
        if kind.is_dir() || kind.is_socket() || kind.is_fifo() || kind.is_char_device() || kind.is_block_device() {
            return Err(OpenError::NotAFile);
        }
    }
    Ok(())
}

/// Checks that only this process's user may write to the file. In a folder of all users, such as /dev/shm, another user
/// may have created the file first, and could then change the store's memory under it.
fn check_owner(meta: &Metadata) -> Result<(), OpenError> {
    let (owner, user) = (meta.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(OpenError::OtherOwner { owner, user });
    }
    match meta.mode() & 0o7777 {
        mode if mode & 0o022 != 0 => Err(OpenError::WritableByOthers(mode)),
        _ => Ok(()),
    }
}

/// Locks the file for this process alone.
fn lock(file: &File) -> Result<(), OpenError> {
    let mut tries = LOCK_TRIES;
    while let Err(error) = flock(file, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK {
            return Err(OpenError::Io(error.into()));
        }
        tries -= 1;
        if tries == 0 {
            return Err(OpenError::Locked);
        }
        std::thread::sleep(LOCK_WAIT);
    }
    Ok(())
}

impl AsFd for MapFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn medium_of(file: &File) -> io::Result<Medium> {
    Ok(match fstatfs(file)?.f_type as u64 {
        TMPFS_MAGIC => Medium::Tmpfs,
        HUGETLBFS_MAGIC => Medium::HugePages,
        _ => Medium::Disk,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Map;
    use std::sync::Arc;

    /// Returns a path that only this test uses.
    fn temp(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("gannet-arena-{}-{name}", std::process::id()))
    }

    #[test]
    fn mapped_writes_persist_in_the_file_and_a_released_page_reads_as_zero() {
        let file = Arc::new(MapFile::in_memory().expect("a file"));
        file.set_bytes(4 * PAGE_BYTES as u64).expect("length");
        file.allocate(0, 4 * PAGE_BYTES as u64).expect("space");
        let map = |at: usize, pages: usize| {
            Map::of_file(&file, (at * PAGE_BYTES) as u64, pages * PAGE_BYTES, false).expect("map")
        };
        let first = map(1, 3);
        for page in 0..3 {
            // SAFETY: 1. the offset is inside the map; 2. the test's thread alone uses it.
            unsafe { first.start().as_ptr().add(page * PAGE_BYTES).write(7) };
        }
        first.release(PAGE_BYTES, PAGE_BYTES).expect("released");
        drop(first);
        let again = map(1, 3);
        // SAFETY: as above.
        let read = |page: usize| unsafe { again.start().as_ptr().add(page * PAGE_BYTES).read() };
        assert_eq!([read(0), read(1), read(2)], [7, 0, 7]);
        assert_eq!(again.start().as_ptr() as usize % crate::HUGE_PAGE_BYTES, 0);
        again.allocate(PAGE_BYTES, PAGE_BYTES).expect("space");
        assert_eq!(read(1), 0);
    }

    #[test]
    fn the_machines_run_has_a_number_that_stays() {
        assert!(boot_id().is_some() && boot_id() == boot_id());
    }

    #[test]
    fn writes_to_a_private_view_never_reach_the_file() {
        let path = temp("view");
        std::fs::write(&path, vec![7; 2 * PAGE_BYTES]).expect("written");
        let view = Arc::new(MapFile::view(&path).expect("there"));
        assert!(matches!(MapFile::open(&path), Err(OpenError::Locked)), "the file is locked");
        let map = Map::of_file(&view, PAGE_BYTES as u64, PAGE_BYTES, false).expect("map");
        // SAFETY: 1. the offset is inside the map; 2. the test's thread alone uses it.
        unsafe {
            assert_eq!(map.start().as_ptr().read(), 7);
            map.start().as_ptr().write(8);
        }
        map.populate(0, PAGE_BYTES).expect("nothing to do");
        view.sync().expect("nothing to do");
        // SAFETY: as above.
        assert_eq!(unsafe { map.start().as_ptr().read() }, 8);
        drop((map, view));
        assert_eq!(std::fs::read(&path).expect("there"), vec![7; 2 * PAGE_BYTES]);
        std::fs::remove_file(&path).expect("removed");
    }

    /// A full tmpfs ends a process that reads a hole through a map of the file.
    #[test]
    fn reads_of_holes_through_a_view_take_no_space() {
        let file = MapFile::in_memory().expect("a file");
        file.set_bytes(8 * PAGE_BYTES as u64).expect("length");
        for page in [1, 2, 5] {
            file.file.write_all_at(&[7; PAGE_BYTES], (page * PAGE_BYTES) as u64).expect("written");
        }
        let view = Arc::new(file.into_view());
        let blocks = || view.file.metadata().expect("metadata").blocks();
        let before = blocks();
        for (at, pages, expected) in [(0, 8, &[0, 7, 7, 0, 0, 7, 0, 0][..]), (2, 3, &[7, 0, 0]), (6, 2, &[0, 0])] {
            let map = Map::of_file(&view, (at * PAGE_BYTES) as u64, pages * PAGE_BYTES, false).expect("map");
            for (page, expected) in expected.iter().enumerate() {
                // SAFETY: 1. the offset is inside the map; 2. the test's thread alone uses it.
                let [first, last] = [0, PAGE_BYTES - 1]
                    .map(|within| unsafe { map.start().as_ptr().add(page * PAGE_BYTES + within).read() });
                assert_eq!([first, last], [*expected; 2], "page {page} from {at}");
            }
        }
        assert_eq!(blocks(), before);
    }

    #[test]
    fn second_open_of_a_file_fails_as_locked_and_a_directory_is_rejected() {
        let path = temp("lock");
        let first = MapFile::open(&path).expect("made");
        assert_eq!((first.bytes().expect("length"), first.path()), (0, path.as_path()));
        // A lock belongs to the open file description, so a second `open` fails even within one process.
        assert!(matches!(MapFile::open(&path), Err(OpenError::Locked)));
        drop(first);
        assert!(MapFile::open(&path).is_ok());
        std::fs::remove_file(&path).expect("removed");
        assert!(matches!(MapFile::open(&std::env::temp_dir()), Err(OpenError::NotAFile)));
        assert!(matches!(MapFile::open(&path.join("no/such")), Err(OpenError::Io(_))));
    }

    /// Such a user could change the memory of the store, or hand it forged contents.
    #[test]
    fn file_that_another_user_may_write_to_is_refused_and_unchanged() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let path = temp("owner");
        std::fs::write(&path, "theirs").expect("written");
        for mode in [0o620, 0o602, 0o666] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its mode");
            assert!(matches!(MapFile::open(&path), Err(OpenError::WritableByOthers(found)) if found == mode));
            assert!(MapFile::open_there(&path).is_err());
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("its mode");
        drop(MapFile::open(&path).expect("readers do no harm"));
        // Only the superuser can give a file to another user.
        if chown(&path, Some(65_534), None).is_ok() {
            assert!(matches!(MapFile::open(&path), Err(OpenError::OtherOwner { owner: 65_534, user: 0 })));
            assert!(MapFile::view(&path).is_ok(), "to read it is safe");
        }
        assert_eq!(std::fs::read(&path).expect("there"), b"theirs");
        std::fs::remove_file(&path).expect("removed");
    }
}
