//! Authentication: users and their secrets, from a file in memcached's format.
//!
//! ```text
//!   alice:secret\n        a user, a colon, a secret; up to 8 lines of up to 255 bytes
//!   bob:a:b\n             the first colon is the separator: the secret is a:b
//! ```
//! A client sends `user secret`, separated by a space, as the value of its first `set`. A user or a secret that
//! contains a space therefore cannot be used.
//!
//! Invariants: no error, log entry or `Debug` text contains a secret. The time of a check does not depend on the number
//! of correct bytes in a user or a secret.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use subtle::{Choice, ConstantTimeEq};

/// The maximum number of users. Further lines are ignored, as in memcached.
pub const USERS_MAX: usize = 8;
/// The maximum length of a line in bytes, without its line end.
pub const LINE_BYTES_MAX: usize = 255;
/// The maximum size of a file, in bytes. The format has no comments, so a larger file cannot be a password file.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// A user name or a secret, padded to a fixed length. Comparing two of them takes the same time, whatever they contain.
#[derive(Clone)]
struct Padded {
    bytes: [u8; LINE_BYTES_MAX],
    len: u8,
}

impl Padded {
    /// Pads `text`. Returns `None` if `text` is too long for a user name or a secret.
    fn new(text: &[u8]) -> Option<Self> {
        let mut padded = Self { bytes: [0; LINE_BYTES_MAX], len: u8::try_from(text.len()).ok()? };
        padded.bytes[..text.len()].copy_from_slice(text);
        Some(padded)
    }

    fn same(&self, other: &Self) -> Choice {
        self.bytes.ct_eq(&other.bytes) & self.len.ct_eq(&other.len)
    }
}

/// Returns true if `known` contains `digest`. Compares with every known digest, each in the same time.
pub(crate) fn same_digest(known: &[[u8; 32]], digest: &[u8; 32]) -> bool {
    known.iter().fold(Choice::from(0), |any, known| any | known.ct_eq(digest)).into()
}

/// The users of a password file.
#[derive(Clone, Default)]
struct Users {
    entries: Vec<(Padded, Padded)>,
    /// True if the file has more lines than [`USERS_MAX`].
    more: bool,
}

/// The reason why a file cannot be loaded.
#[derive(Debug)]
pub enum AuthError {
    /// The file cannot be read.
    Read(std::io::Error),
    /// The file is too large.
    TooLarge,
    /// A line does not have the form `user:secret`.
    Malformed {
        /// The line's number, from 1.
        line: usize,
    },
    /// A line is too long.
    LineTooLong {
        /// The line's number, from 1.
        line: usize,
    },
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "it cannot be read ({error})"),
            Self::TooLarge => write!(f, "it is larger than {} KiB", FILE_BYTES_MAX >> 10),
            Self::Malformed { line } => write!(f, "line {line} is not user:password"),
            Self::LineTooLong { line } => write!(f, "line {line} is longer than {LINE_BYTES_MAX} bytes"),
        }
    }
}

impl std::error::Error for AuthError {}

impl Users {
    fn read(path: &Path) -> Result<Self, AuthError> {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(AuthError::Read)?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(AuthError::Read)?;
        if bytes.len() as u64 > FILE_BYTES_MAX { Err(AuthError::TooLarge) } else { Self::parse(&bytes) }
    }

    fn parse(bytes: &[u8]) -> Result<Self, AuthError> {
        let mut users = Self::default();
        let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        if bytes.is_empty() {
            return Ok(users);
        }
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if users.entries.len() == USERS_MAX {
                users.more = true;
                break;
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let at = number + 1;
            let Some(colon) = line.iter().position(|byte| *byte == b':').filter(|_| !line.contains(&0)) else {
                return Err(AuthError::Malformed { line: at });
            };
            match (Padded::new(&line[..colon]), Padded::new(&line[colon + 1..])) {
                (Some(user), Some(secret)) if line.len() <= LINE_BYTES_MAX => users.entries.push((user, secret)),
                _ => return Err(AuthError::LineTooLong { line: at }),
            }
        }
        Ok(users)
    }

    /// Returns true if `user` exists and has the secret `secret`. Compares with all users, even after a match, so that
    /// the time does not depend on the user's position.
    fn admits(&self, user: &[u8], secret: &[u8]) -> bool {
        let (Some(user), Some(secret)) = (Padded::new(user), Padded::new(secret)) else { return false };
        let any = self
            .entries
            .iter()
            .fold(Choice::from(0), |any, (known, theirs)| any | (known.same(&user) & theirs.same(&secret)));
        any.into()
    }
}

/// The users of a server, and the file that they are loaded from.
pub struct Auth {
    path: PathBuf,
    users: RwLock<Arc<Users>>,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Auth {
    /// Loads the users of the file at `path`.
    pub fn load(path: &Path) -> Result<Self, AuthError> {
        let users = RwLock::new(Arc::new(Users::read(path)?));
        let auth = Self { path: path.to_owned(), users };
        auth.report();
        Ok(auth)
    }

    /// Reloads the file. If it cannot be loaded, the previous users remain.
    pub fn reload(&self) -> Result<(), AuthError> {
        let users = Arc::new(Users::read(&self.path)?);
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = users;
        self.report();
        Ok(())
    }

    /// Returns the path of the password file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn report(&self) {
        let users = self.users();
        let path = self.path.display();
        if users.more {
            tracing::warn!("{path} has more than {USERS_MAX} lines; further lines are not read");
        }
        if users.entries.is_empty() {
            tracing::warn!("{path} names no user, so every client is refused");
        }
    }

    /// Returns true if `user` exists.
    pub fn has_user(&self, user: &[u8]) -> bool {
        let Some(user) = Padded::new(user) else { return false };
        self.users().entries.iter().any(|(known, _)| bool::from(known.same(&user)))
    }

    /// Returns true if `user` exists and `secret` is its secret.
    pub fn admits(&self, user: &[u8], secret: &[u8]) -> bool {
        self.users().admits(user, secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(text: &[u8]) -> Users {
        Users::parse(text).unwrap()
    }

    #[test]
    fn only_the_whole_user_with_the_whole_secret_is_admitted() {
        let users = users(b"alice:secret\r\nbob:a:b\ncarol:\nlast:end");
        for (user, secret) in [("alice", "secret"), ("bob", "a:b"), ("carol", ""), ("last", "end")] {
            assert!(users.admits(user.as_bytes(), secret.as_bytes()), "{user}");
            assert!(!users.admits(user.as_bytes(), format!("{secret}x").as_bytes()), "{user}");
            assert!(!users.admits(format!("{user}x").as_bytes(), secret.as_bytes()), "{user}");
        }
        for (user, secret) in [("alice", "secre"), ("alic", "secret"), ("alice", "a:b"), ("", ""), ("bob", "a")] {
            assert!(!users.admits(user.as_bytes(), secret.as_bytes()), "{user} {secret}");
        }
        // Padding bytes do not belong to a secret.
        assert!(!users.admits(b"carol", b"\0") && !users.admits(b"alice\0", b"secret"));
        assert!(!users.admits(b"alice", &[b'x'; 300]));
    }

    #[test]
    fn lines_and_users_have_a_maximum() {
        let nine: String = (0..9).map(|user| format!("u{user}:p\n")).collect();
        let nine = users(nine.as_bytes());
        assert!(nine.admits(b"u7", b"p") && !nine.admits(b"u8", b"p") && nine.more);
        let line = |len: usize| format!("u:{}\n", "p".repeat(len - 2));
        assert!(users(line(255).as_bytes()).admits(b"u", "p".repeat(253).as_bytes()));
        assert!(matches!(Users::parse(line(256).as_bytes()), Err(AuthError::LineTooLong { line: 1 })));
    }

    #[test]
    fn a_line_without_a_colon_is_refused_by_its_number_and_without_its_text() {
        for (text, line) in [("\n", 1), ("abc\n", 1), ("a:b\n\n", 2), ("a:b\nsecret", 2), ("a:b\0c\n", 1)] {
            let error = Users::parse(text.as_bytes()).err().expect(text);
            assert!(matches!(error, AuthError::Malformed { line: at } if at == line), "{text:?}: {error}");
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
        assert!(users(b"").entries.is_empty());
    }

    #[test]
    fn failed_reload_preserves_the_loaded_users() {
        let path = std::env::temp_dir().join(format!("gannet-auth-{}", std::process::id()));
        std::fs::write(&path, "a:one\n").unwrap();
        let auth = Auth::load(&path).unwrap();
        std::fs::write(&path, "broken\n").unwrap();
        assert!(auth.reload().is_err() && auth.admits(b"a", b"one"));
        std::fs::write(&path, "a:two\n").unwrap();
        auth.reload().unwrap();
        assert!(auth.admits(b"a", b"two") && !auth.admits(b"a", b"one"));
        assert!(!format!("{auth:?}").contains("two"));
        std::fs::remove_file(&path).unwrap();
        assert!(auth.reload().is_err() && auth.admits(b"a", b"two"));
    }
}
