//! Reads and atomically replaces the file of users.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use command::resp::acl::users_file::UsersFile;

use crate::Failure;

/// The maximum size of a file of users, in bytes, as for the server.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The permissions of a new file.
const MODE: u32 = 0o600;

fn failed(text: String) -> Failure {
    Failure::Failed(vec![text])
}

/// Reads the file.
pub fn read(path: &Path) -> Result<UsersFile, Failure> {
    let unreadable = |error: std::io::Error| failed(format!("cannot read {}: {error}; check --file", path.display()));
    if std::fs::metadata(path).map_err(unreadable)?.len() > FILE_BYTES_MAX {
        return Err(failed(format!(
            "{} is larger than 4 MiB, so it is no file of users; check --file",
            path.display()
        )));
    }
    let text = std::fs::read(path).map_err(unreadable)?;
    UsersFile::parse(&text).map_err(|error| failed(format!("{}: {error}; correct the line", path.display())))
}

/// The new file beside the old one, which excludes other edits. Dropping this value removes the file.
struct NewFile {
    path: PathBuf,
    file: File,
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl NewFile {
    /// Creates the new file for `path`. Fails if another edit has created it.
    fn create(path: &Path) -> Result<Self, Failure> {
        let mut beside = path.to_owned().into_os_string();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let made = OpenOptions::new().create_new(true).write(true).mode(MODE).open(&beside);
        let file = made.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => failed(format!(
                "cannot write {}: {} exists; another edit is under way, or remove that file",
                path.display(),
                beside.display()
            )),
            _ => failed(format!("cannot write {}: {error}; check the permissions of its folder", beside.display())),
        })?;
        Ok(Self { path: beside, file })
    }
}

/// An edit of the file, from its reading to its replacement. No other edit can begin meanwhile.
pub struct Edit {
    path: PathBuf,
    new: NewFile,
    /// The users, to be changed before [`Edit::write`].
    pub users: UsersFile,
}

impl Edit {
    /// Begins an edit. If the file does not exist and `may_create` is true, begins with no users.
    pub fn begin(path: &Path, may_create: bool) -> Result<Self, Failure> {
        // The file behind a symbolic link is replaced, not the link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let new = NewFile::create(&path)?;
        let users = read_or_create(&path, may_create)?;
        Ok(Self { path, new, users })
    }

    /// Replaces the file. After a crash, there is either the old file or the new one. The owner, the group and their
    /// permissions remain; other users of the system lose theirs.
    pub fn write(mut self) -> Result<(), Failure> {
        let text = self.users.text();
        replace(&mut self.new, &self.path, &text).map_err(|error| {
            failed(format!("cannot write {}: {error}; the old file is unchanged", self.path.display()))
        })
    }
}

/// Reads the file. If it does not exist and `may_create` is true, returns no users.
pub fn read_or_create(path: &Path, may_create: bool) -> Result<UsersFile, Failure> {
    let is_missing = || std::fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    if may_create && is_missing() { Ok(UsersFile::default()) } else { read(path) }
}

fn replace(new: &mut NewFile, path: &Path, text: &[u8]) -> std::io::Result<()> {
    let file = &mut new.file;
    if let Ok(old) = std::fs::metadata(path) {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
            std::os::unix::fs::fchown(&*file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(old.mode() & 0o770 | MODE))?;
    }
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&new.path, path)?;
    // The rename itself must survive a power loss.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
