//! The users of a server with their passwords, the file that stores the users, and the log of refused requests.
//!
//! Invariants:
//! - The server stores only the Argon2id hash or the SHA-256 of a password. Neither of them, nor the password, is in a
//!   log line or a `Debug` text. An error quotes a digest, or a password to remove, only to the client that sent it, as
//!   in Redis.
//! - The time of a password check does not depend on how many bytes of the password are right.
//! - A change of a user creates a new [`User`], so a thread that holds the old [`User`] never sees a partial change.

use super::rights::{Rights, RuleError, hex};
use crate::clients::argon2id::{self, Argon2idHash};
use crate::clients::auth::same_digest;
use crate::keyspace::op_quota::OpQuota;
use crate::memory::budget::{self, Budget, Grant};
use base::clock::UnixMillis;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// The maximum number of users.
pub const USERS_MAX: usize = 1000;
/// The maximum number of bytes of a user's name.
pub const NAME_BYTES_MAX: usize = crate::clients::client_info::CLIENT_TEXT_MAX;
/// The maximum number of passwords of one user.
const PASSWORDS_MAX: usize = 100;
/// The maximum number of Argon2id hashes of one user. A failed login takes as long as the checks of all of them.
const HASHES_MAX: usize = 4;
/// The maximum number of refusals in the log.
const LOG_MAX: usize = 128;
/// The maximum length of a key, channel or command name in a log entry, in bytes. Longer names are truncated, because a
/// client can choose their length.
const LOG_OBJECT_BYTES_MAX: usize = 1024;
/// The time in ms after a refusal, or after its last repetition, during which an equal refusal is counted in the same
/// log entry.
const LOG_SAME_MS: u64 = 60_000;
/// The maximum size of a file of users, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The approximate overhead of each allocated block of memory, in bytes.
pub(super) const BLOCK_BYTES: usize = 32;
/// The name of the user whose rights a client has before it authenticates.
pub const DEFAULT: &[u8] = b"default";

const SYNTAX: RuleError = "Syntax error";
const NO_PASSWORD: RuleError = "The password you are trying to remove from the user does not exist";
const BAD_HASH: RuleError =
    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters";
const TOO_MANY: RuleError = "The user has the maximum number of passwords";
/// The error for a change that needs more client memory than is available for users.
pub(super) const NO_MEMORY: RuleError =
    "users and their rules have reached their memory limit: raise limits.client_memory";

/// A user.
pub struct User {
    pub(crate) name: Vec<u8>,
    pub(super) is_on: bool,
    pub(crate) no_password: bool,
    /// The SHA-256 digests of passwords.
    digests: Vec<[u8; 32]>,
    hashes: Vec<Arc<Argon2idHash>>,
    pub(crate) rights: Rights,
    /// The quota of requests per second, which all versions of the user share.
    ops: Arc<OpQuota>,
    /// True once the server's users have another version of this user, or none.
    replaced: AtomicBool,
    /// The user's share of client memory, which is reserved when the user is added to the server's users. When the user
    /// is changed, the old version retains its share until no connection refers to that version.
    held: Option<Grant>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &String::from_utf8_lossy(&self.name)).finish_non_exhaustive()
    }
}

impl User {
    pub(super) fn new(name: &[u8]) -> Self {
        Self {
            name: name.to_vec(),
            is_on: false,
            no_password: false,
            digests: Vec::new(),
            hashes: Vec::new(),
            rights: Rights::none(),
            ops: Arc::default(),
            replaced: AtomicBool::new(false),
            held: None,
        }
    }

    /// Creates the user of a signed token, with these rights; `None` for all rights.
    pub(in crate::resp) fn of_token(name: &[u8], rights: Option<Rights>) -> Arc<Self> {
        let rights = rights.unwrap_or_else(Rights::all);
        Arc::new(Self { is_on: true, rights, ..Self::new(name) })
    }

    /// Returns a copy that can be changed.
    pub(super) fn copy(&self) -> Self {
        let (digests, hashes, rights) = (self.digests.clone(), self.hashes.clone(), self.rights.clone());
        let ops = Arc::clone(&self.ops);
        Self { digests, hashes, rights, ops, is_on: self.is_on, no_password: self.no_password, ..Self::new(&self.name) }
    }

    /// Returns true if the server's users have another version of this user, or none.
    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Acquire)
    }

    /// Takes a request from the user's quota of requests per second. Returns false if it is used up.
    #[inline]
    pub(crate) fn take_op(&self, now: UnixMillis) -> bool {
        self.rights.ops_max() == 0 || self.ops.take(now)
    }

    /// Returns the memory that the user occupies, in bytes: the struct, the user's entry in the map, and all allocated
    /// blocks.
    fn cost(&self) -> u64 {
        let name = 2 * (self.name.len() + BLOCK_BYTES);
        let own = size_of::<Self>() + size_of::<OpQuota>() + self.digests.len() * 32 + 3 * BLOCK_BYTES;
        let of_hash = |hash: &Arc<Argon2idHash>| size_of::<Argon2idHash>() + hash.text().len() + 3 * BLOCK_BYTES;
        let hashes: usize = self.hashes.iter().map(of_hash).sum();
        (name + own + hashes) as u64 + self.rights.cost()
    }

    /// Completes a user whose rules are all applied: reserves its client memory, and sets its quota.
    fn reserve_memory(mut self, budget: &Arc<Budget>) -> Result<Arc<Self>, RuleError> {
        self.rights.shrink();
        let held = budget.grant(budget::MemoryUse::Rules, self.cost()).ok_or(NO_MEMORY)?;
        Ok(self.complete(held))
    }

    fn complete(mut self, held: Grant) -> Arc<Self> {
        self.held = Some(held);
        self.ops.set(self.rights.ops_max());
        Arc::new(self)
    }

    fn default_user(is_open: bool) -> Self {
        Self { is_on: is_open, no_password: is_open, rights: Rights::all(), ..Self::new(DEFAULT) }
    }

    /// Applies a rule to the user, such as `on`, `>password` or `+get`.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.rights.apply(rule)?.is_some() {
            return Ok(());
        }
        match (&rule.to_ascii_lowercase()[..], rule) {
            (b"on", _) => self.is_on = true,
            (b"off", _) => self.is_on = false,
            (b"nopass", _) => self.remove_passwords(true),
            (b"resetpass", _) => self.remove_passwords(false),
            (b"reset", _) => *self = Self { ops: Arc::clone(&self.ops), ..Self::new(&self.name) },
            (b"sanitize-payload" | b"skip-sanitize-payload" | b"clearselectors", _) => {}
            (_, [b'>', password @ ..]) => self.add(Sha256::digest(password).into())?,
            (_, [b'<', password @ ..]) => self.remove(&Sha256::digest(password).into())?,
            (_, [b'$', ..]) => self.add_hash(Arc::new(Argon2idHash::parse(rule)?))?,
            (_, [b'!', b'$', ..]) => self.remove_hash(&rule[1..])?,
            (_, [b'#', text @ ..]) => self.add(unhex(text).ok_or(BAD_HASH)?)?,
            (_, [b'!', text @ ..]) => self.remove(&unhex(text).ok_or(BAD_HASH)?)?,
            _ => return Err(SYNTAX),
        }
        Ok(())
    }

    /// Applies a rule whose password was hashed or found by [`PasswordRules::work`].
    fn apply_worked(&mut self, rule: &[u8], done: Result<Arc<Argon2idHash>, RuleError>) -> Result<(), RuleError> {
        match rule {
            [b'>', password @ ..] => {
                self.add_hash(done?)?;
                // The password is no longer stored as SHA-256.
                let digest: [u8; 32] = Sha256::digest(password).into();
                self.digests.retain(|known| *known != digest);
                Ok(())
            }
            [_, password @ ..] => match done {
                Ok(hash) => self.remove_hash(hash.text().as_bytes()),
                Err(_) => self.remove(&Sha256::digest(password).into()),
            },
            [] => Err(SYNTAX),
        }
    }

    fn add_hash(&mut self, hash: Arc<Argon2idHash>) -> Result<(), RuleError> {
        if !self.hashes.iter().any(|known| known.text() == hash.text()) {
            if self.hashes.len() == HASHES_MAX {
                return Err(TOO_MANY);
            }
            self.hashes.push(hash);
        }
        self.no_password = false;
        Ok(())
    }

    fn remove_hash(&mut self, text: &[u8]) -> Result<(), RuleError> {
        let place = self.hashes.iter().position(|known| known.text().as_bytes() == text).ok_or(NO_PASSWORD)?;
        self.hashes.remove(place);
        Ok(())
    }

    /// Makes the password of `hash` the only one.
    pub(super) fn set_password(&mut self, hash: Argon2idHash) {
        self.remove_passwords(false);
        self.hashes.push(Arc::new(hash));
    }

    /// Returns the form in which the user's passwords are stored, for people.
    pub(super) fn password_forms(&self) -> &'static str {
        match (self.no_password, self.hashes.is_empty(), self.digests.is_empty()) {
            (true, ..) => "none needed",
            (_, false, true) => "argon2id",
            (_, false, false) => "argon2id, sha256",
            (_, true, false) => "sha256",
            (_, true, true) => "certificate only",
        }
    }

    fn remove_passwords(&mut self, no_password: bool) {
        (self.no_password, self.digests, self.hashes) = (no_password, Vec::new(), Vec::new());
    }

    fn add(&mut self, digest: [u8; 32]) -> Result<(), RuleError> {
        if !self.digests.contains(&digest) {
            if self.digests.len() == PASSWORDS_MAX {
                return Err(TOO_MANY);
            }
            self.digests.push(digest);
        }
        self.no_password = false;
        Ok(())
    }

    fn remove(&mut self, digest: &[u8; 32]) -> Result<(), RuleError> {
        let place = self.digests.iter().position(|known| known == digest).ok_or(NO_PASSWORD)?;
        self.digests.remove(place);
        Ok(())
    }

    /// Returns true if `password` is one of the user's passwords. Always compares it with all of them, so that the time
    /// does not reveal which one matched. If an Argon2id hash of the password has not been checked in this process yet,
    /// returns false.
    fn admits(&self, password: &[u8]) -> bool {
        let digest: [u8; 32] = Sha256::digest(password).into();
        let any = same_digest(&self.digests, &digest);
        let any = self.hashes.iter().fold(any, |any, hash| any | hash.was_verified(password));
        self.is_on && (self.no_password || any)
    }

    /// Returns the user's flags, without the flags about rights.
    pub(super) fn flags(&self) -> Vec<&'static str> {
        let first = if self.is_on { "on" } else { "off" };
        [first].into_iter().chain(self.no_password.then_some("nopass")).collect()
    }

    /// Returns the user's passwords as stored: the SHA-256 in hexadecimal digits, and then the Argon2id hashes.
    pub(super) fn stored_passwords(&self) -> impl Iterator<Item = String> {
        let hashes = self.hashes.iter().map(|hash| hash.text().to_owned());
        self.digests.iter().map(|digest| hex(digest)).chain(hashes)
    }

    /// Returns the line of the user in the file of users, which describes the user completely.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = [b"user ", &self.name[..]].concat();
        let mut put = |word: &[u8]| {
            line.push(b' ');
            line.extend_from_slice(word);
        };
        self.flags().into_iter().for_each(|flag| put(flag.as_bytes()));
        self.digests.iter().for_each(|digest| put(format!("#{}", hex(digest)).as_bytes()));
        self.hashes.iter().for_each(|hash| put(hash.text().as_bytes()));
        let (keys, channels) = (self.rights.keys_text(), self.rights.channels_text());
        if !keys.is_empty() {
            put(&keys);
        }
        if channels != b"&*" {
            put(b"resetchannels");
        }
        if !channels.is_empty() {
            put(&channels);
        }
        put(self.rights.commands_text().as_bytes());
        if !self.rights.all_namespaces() {
            put(&self.rights.namespaces_text());
        }
        if self.rights.ops_max() > 0 {
            put(format!("ops={}", self.rights.ops_max()).as_bytes());
        }
        line
    }
}

fn unhex(text: &[u8]) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut digest = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(digest)
}

/// A refused request or a failed authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// `auth`, `command`, `key`, `channel` or `namespace`.
    pub(crate) reason: &'static str,
    /// `toplevel` or `multi`.
    pub(crate) context: &'static str,
    /// The name of the refused command, key, channel or namespace.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
}

/// An entry of the log of refusals.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    pub(super) refusal: Refusal,
    pub(super) count: u64,
    pub(super) number: u64,
    pub(super) created: UnixMillis,
    pub(super) updated: UnixMillis,
    pub(super) client: String,
}

#[derive(Default)]
struct Log {
    entries: VecDeque<Logged>,
    next: u64,
}

type ByName = BTreeMap<Vec<u8>, Arc<User>>;

/// The result of work on the file of users: the users that were read, or `None` if the file was written.
pub(in crate::resp) type FileResult = Result<Option<ByName>, FileError>;

/// Work on the file of users that another thread does for a request. The thread sets the result, and then drops its
/// reference.
pub(in crate::resp) type FileWork = Arc<OnceLock<FileResult>>;

/// The users of a server.
pub struct Users {
    budget: Arc<Budget>,
    by_name: RwLock<Arc<ByName>>,
    /// The number of changes of the users. 0 means that there is only the default user, unchanged.
    changes: AtomicU64,
    /// True if the default user cannot be used without a password, so that clients must authenticate.
    asks: AtomicBool,
    /// True if a command has changed users since the file was read or written.
    unsaved: AtomicBool,
    log: Mutex<Log>,
    path: Option<PathBuf>,
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Users").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The reason why a file of users cannot be loaded or saved.
#[derive(Debug)]
pub enum FileError {
    /// The configuration names no file.
    None,
    /// The file could not be read or written, for this reason.
    Io(std::io::Error),
    /// The server stopped before the file was read or written.
    Stopped,
    /// The file is longer than [`FILE_BYTES_MAX`], or the users would be.
    TooLong,
    /// The users need more client memory than there is for users.
    NoMemory,
    /// The number of the malformed line, counted from 1, and the reason. The line's text is not reported, because it
    /// may contain a password.
    Line(usize, String),
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped => write!(f, "the server stops"),
            Self::TooLong => {
                write!(f, "a file of users has at most {} MiB; remove users or rules", FILE_BYTES_MAX >> 20)
            }
            Self::NoMemory => write!(f, "{NO_MEMORY}"),
            Self::None => write!(f, "This Redis instance is not configured to use an ACL file: set listen.acl_file"),
            Self::Io(error) => write!(f, "the file cannot be read or written ({error})"),
            Self::Line(line, why) => write!(f, "line {line}: {why}"),
        }
    }
}

impl Users {
    /// Creates the default user and the users of the file at `path`. The default user has all rights. If `is_open` is
    /// false, the default user is disabled, so clients must authenticate first.
    ///
    /// # Errors
    /// If the file cannot be loaded.
    pub fn new(path: Option<&Path>, is_open: bool, budget: &Arc<Budget>) -> Result<Self, FileError> {
        let users = Self::alone(path, is_open, budget);
        if path.is_some() {
            users.load()?;
        }
        Ok(users)
    }

    /// Creates the default user and the users in `lines`, which [`Users::lines`] returned. Does not read the file at
    /// `path`.
    ///
    /// # Errors
    /// If the lines are malformed.
    pub fn from_lines(
        path: Option<&Path>,
        is_open: bool,
        budget: &Arc<Budget>,
        lines: &[u8],
    ) -> Result<Self, FileError> {
        let users = Self::alone(path, is_open, budget);
        users.adopt(parse_own(lines, &users.budget)?, false);
        Ok(users)
    }

    fn alone(path: Option<&Path>, is_open: bool, budget: &Arc<Budget>) -> Self {
        let default_user = Arc::new(User::default_user(is_open));
        Self {
            budget: Arc::clone(budget),
            by_name: RwLock::new(Arc::new(BTreeMap::from([(DEFAULT.to_vec(), default_user)]))),
            changes: AtomicU64::new(0),
            asks: AtomicBool::new(!is_open),
            unsaved: AtomicBool::new(false),
            log: Mutex::default(),
            path: path.map(Path::to_owned),
        }
    }

    /// Returns the number of changes of the users. 0 means that every client may execute everything.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Returns true if a client must authenticate before it may execute other commands.
    #[inline]
    pub fn requires_authentication(&self) -> bool {
        self.asks.load(Relaxed)
    }

    /// Returns all users.
    pub(super) fn all(&self) -> Arc<ByName> {
        Arc::clone(&self.by_name.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if there is a user with this name.
    pub fn has(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }

    /// Returns the user `name` if it exists and is enabled.
    pub(crate) fn find_enabled(&self, name: &[u8]) -> Option<Arc<User>> {
        self.find(name).filter(|user| user.is_on)
    }

    /// Returns the user with this name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        self.all().get(name).cloned()
    }

    /// Returns the Argon2id hashes against which the password of a refused login must be checked. Returns as many as
    /// the user with the most has, others' after the user's own, so that the time does not reveal which users exist.
    pub(crate) fn hashes_to_check(&self, name: &[u8], password: &[u8]) -> Vec<Arc<Argon2idHash>> {
        if password.len() > argon2id::PASSWORD_BYTES_MAX {
            return Vec::new();
        }
        let all = self.all();
        let most = all.values().map(|user| user.hashes.len()).max().unwrap_or(0);
        let own = all.get(name).into_iter().flat_map(|user| &user.hashes);
        let others = all.values().filter(|user| user.name != name).flat_map(|user| &user.hashes);
        // A user with fewer hashes than the most implies another user with more.
        own.chain(others).take(most).cloned().collect()
    }

    /// Returns the user with this name, if the password is right. Returns `None` if that is unknown until the password
    /// was checked against [`Users::hashes_to_check`].
    pub(crate) fn admits(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let found = self.find(name);
        // The password is checked even if the name is unknown, so that the time does not reveal whether the user
        // exists.
        let user = found.clone().unwrap_or_else(|| Arc::new(User::new(name)));
        found.filter(|_| user.admits(password))
    }

    fn change<T, E>(&self, change: impl FnOnce(&mut ByName) -> Result<T, E>) -> Result<T, E> {
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = ByName::clone(&by_name);
        let answer = change(&mut changed)?;
        let open = changed.get(DEFAULT).is_some_and(|user| user.is_on && user.no_password);
        let before = std::mem::replace(&mut *by_name, Arc::new(changed));
        for old in before.values().filter(|old| by_name.get(&old.name).is_none_or(|new| !Arc::ptr_eq(old, new))) {
            old.replaced.store(true, Release);
        }
        self.asks.store(!open, Relaxed);
        self.changes.fetch_add(1, Release);
        Ok(answer)
    }

    /// Creates or changes a user. Applies all rules or none. `worked` has the results of [`PasswordRules::work`] for
    /// `rules`, and is empty if they need none.
    ///
    /// # Errors
    /// The position of the first invalid rule in `rules`, and the reason.
    pub(super) fn set(&self, name: &[u8], rules: &[&[u8]], worked: WorkedPasswords) -> Result<(), (usize, RuleError)> {
        let mut worked = worked.into_iter();
        self.change(|users| {
            let mut user = users.get(name).map_or_else(|| User::new(name), |user| user.copy());
            if users.len() >= USERS_MAX && !users.contains_key(name) {
                return Err((usize::MAX, "the maximum number of users is reached"));
            }
            for (number, rule) in rules.iter().enumerate() {
                let done = if PasswordRules::is_worked(rule) { worked.next() } else { None };
                let applied = match done {
                    Some(done) => user.apply_worked(rule, done),
                    None => user.apply(rule),
                };
                applied.map_err(|wrong| (number, wrong))?;
            }
            let user = user.reserve_memory(&self.budget).map_err(|wrong| (usize::MAX, wrong))?;
            users.insert(name.to_vec(), user);
            self.unsaved.store(true, Relaxed);
            Ok(())
        })
    }

    /// Removes users. Returns the names of those that existed.
    pub(super) fn remove<'n>(&self, names: impl Iterator<Item = &'n [u8]>) -> Vec<Vec<u8>> {
        let removed: Result<_, std::convert::Infallible> = self.change(|users| {
            self.unsaved.store(true, Relaxed);
            Ok(names.filter_map(|name| users.remove(name).map(|user| user.name.clone())).collect())
        });
        match removed {
            Ok(removed) => removed,
        }
    }

    /// Reloads the file. If it cannot be loaded, the current users remain.
    ///
    /// # Errors
    /// If the file cannot be loaded.
    pub fn load(&self) -> Result<(), FileError> {
        self.adopt(self.read()?, false);
        Ok(())
    }

    /// Reads the users of the file. May take long, because of the disk.
    ///
    /// # Errors
    /// If the file cannot be loaded.
    pub(super) fn read(&self) -> Result<ByName, FileError> {
        use std::io::Read as _;
        let path = self.path.as_ref().ok_or(FileError::None)?;
        let mut text = Vec::new();
        let file = std::fs::File::open(path).map_err(FileError::Io)?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(FileError::Io)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(FileError::TooLong);
        }
        parse(&text, &self.budget)
    }

    /// Logs how many requests of each user were refused since the last call, because its quota was used up. A thread
    /// that serves no clients calls it once a second.
    pub fn log_refused_ops(&self) {
        if self.changes() == 0 {
            return;
        }
        for user in self.all().values().filter(|user| user.rights.ops_max() > 0) {
            let refused = user.ops.take_unreported();
            if refused > 0 {
                let (name, ops_max) = (String::from_utf8_lossy(&user.name), user.rights.ops_max());
                tracing::warn!("too many requests: user={name:?} ops={ops_max} refused={refused}");
            }
        }
    }

    /// Returns all users in the format of the file, if a command has changed them since the file was read or written.
    pub fn unsaved(&self) -> Option<Vec<u8>> {
        self.unsaved.load(Relaxed).then(|| self.lines())
    }

    /// Returns all users in the format of the file.
    pub fn lines(&self) -> Vec<u8> {
        self.all().values().flat_map(|user| [&user.line()[..], b"\n"].concat()).collect()
    }

    /// Replaces all users with `lines`, which [`Users::unsaved`] returned in the process that handed over.
    ///
    /// # Errors
    /// If the lines are malformed.
    pub fn restore(&self, lines: &[u8]) -> Result<(), FileError> {
        self.adopt(parse_own(lines, &self.budget)?, true);
        Ok(())
    }

    /// Replaces all users with those of a file. The default user remains if the file does not contain it.
    pub(super) fn adopt(&self, read: ByName, unsaved: bool) {
        let Ok(()) = self.change(|users| {
            let default_user = users.get(DEFAULT).cloned();
            *users = read;
            if let Some(user) = default_user {
                users.entry(DEFAULT.to_vec()).or_insert(user);
            }
            self.unsaved.store(unsaved, Relaxed);
            Ok::<_, std::convert::Infallible>(())
        });
    }

    /// Writes all users to the file. May take long, because of the disk. If the write fails, the old file remains
    /// unchanged.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn save(&self) -> Result<(), FileError> {
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.path.as_ref().ok_or(FileError::None)?;
        let lines = self.lines();
        if lines.len() as u64 > FILE_BYTES_MAX {
            return Err(FileError::TooLong);
        }
        // The target of a symbolic link is replaced, not the link.
        let path = &path.canonicalize().unwrap_or_else(|_| path.clone());
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        let write = || -> std::io::Result<()> {
            let mut file =
                std::fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&beside)?;
            file.write_all(&self.lines())?;
            file.sync_all()?;
            std::fs::rename(&beside, path)
        };
        // `unsaved` is cleared before the write. A change during the write sets it again, because the written file may
        // not contain that change.
        self.unsaved.store(false, Relaxed);
        write().map_err(|error| {
            self.unsaved.store(true, Relaxed);
            let _ = std::fs::remove_file(&beside);
            FileError::Io(error)
        })
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a refusal in the log.
    pub(crate) fn refused(&self, mut refusal: Refusal, now: UnixMillis, client: String) {
        refusal.object.truncate(LOG_OBJECT_BYTES_MAX);
        refusal.object.shrink_to_fit();
        let mut log = self.log();
        let same = |known: &&mut Logged| known.refusal == refusal && now.ms_since(known.updated) < LOG_SAME_MS;
        if let Some(known) = log.entries.iter_mut().find(same) {
            known.count += 1;
            known.updated = now;
            return;
        }
        let number = log.next;
        log.next += 1;
        log.entries.push_front(Logged { refusal, count: 1, number, created: now, updated: now, client });
        log.entries.truncate(LOG_MAX);
    }

    /// Returns the latest `count` refusals, the latest first.
    pub(super) fn logged(&self, count: usize) -> Vec<Logged> {
        self.log().entries.iter().take(count).cloned().collect()
    }

    pub(super) fn clear_log(&self) {
        self.log().entries.clear();
    }
}

/// The rules of a request that add or remove a password whose Argon2id hash another thread must compute.
pub(super) struct PasswordRules {
    /// The rules `>password` and `<password`, in their order.
    rules: Vec<Vec<u8>>,
    /// The user's hashes before the request.
    hashes: Vec<Arc<Argon2idHash>>,
}

/// The results of [`PasswordRules::work`], in the order of the rules: for `>password`, a hash of the password; for
/// `<password`, the hash that it matches.
pub(in crate::resp) type WorkedPasswords = Vec<Result<Arc<Argon2idHash>, RuleError>>;

/// Passwords that another thread hashes for a request. The thread sets the result, and then drops its reference.
pub(in crate::resp) type PasswordWork = Arc<OnceLock<WorkedPasswords>>;

/// The maximum number of rules in one request that need Argon2id. They are worked on one after another.
const WORKED_MAX: usize = 2 * HASHES_MAX;

impl PasswordRules {
    /// Returns the rules that need Argon2id, if there are any: `>password` if new passwords are hashed with Argon2id
    /// (`hashes_new`), and `<password` if the user has Argon2id hashes.
    ///
    /// # Errors
    /// If there are too many such rules.
    pub(super) fn of(users: &Users, name: &[u8], rules: &[&[u8]], hashes_new: bool) -> Result<Option<Self>, RuleError> {
        let hashes = users.find(name).map_or_else(Vec::new, |user| user.hashes.clone());
        let adds = hashes_new && rules.iter().any(|rule| rule.starts_with(b">"));
        let removes = !hashes.is_empty() && rules.iter().any(|rule| rule.starts_with(b"<"));
        if !adds && !removes {
            return Ok(None);
        }
        let worked = rules.iter().filter(|rule| Self::is_worked(rule));
        let rules: Vec<_> = worked.map(|rule| rule.to_vec()).collect();
        if rules.len() > WORKED_MAX { Err(TOO_MANY) } else { Ok(Some(Self { rules, hashes })) }
    }

    fn is_worked(rule: &[u8]) -> bool {
        matches!(rule, [b'>' | b'<', ..])
    }

    /// Computes the results. Takes milliseconds for each rule and hash.
    pub(super) fn work(self) -> WorkedPasswords {
        let mut known = self.hashes;
        let one = |rule: Vec<u8>| {
            let password = &rule[1..];
            if let Some(hash) = known.iter().find(|hash| hash.was_verified(password) || hash.verify(password)) {
                return Ok(Arc::clone(hash));
            }
            if rule[0] == b'<' {
                return Err(NO_PASSWORD);
            }
            let created = Arc::new(Argon2idHash::create(password)?);
            known.push(Arc::clone(&created));
            Ok(created)
        };
        self.rules.into_iter().map(one).collect()
    }
}

/// Returns true if `byte` can be in a name or a rule. In a file, white space is between them.
pub(super) fn is_plain(byte: u8) -> bool {
    byte != 0 && !byte.is_ascii_whitespace()
}

/// Returns true if `name` can be a user's name.
pub(super) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| is_plain(*byte))
}

/// Parses a line of a file. Returns `None` if it is empty or a comment.
pub(super) fn parse_line(line: &[u8]) -> Result<Option<User>, String> {
    parse_words(line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty()))
}

fn parse_words<'l>(mut words: impl Iterator<Item = &'l [u8]>) -> Result<Option<User>, String> {
    match words.next() {
        None | Some([b'#', ..]) => return Ok(None),
        Some(b"user") => {}
        Some(_) => return Err("the line does not begin with 'user'".to_owned()),
    }
    let name = words.next().filter(|name| name.len() <= NAME_BYTES_MAX);
    let mut user = User::new(name.ok_or("the name is missing or longer than 64 bytes")?);
    for (place, rule) in words.enumerate() {
        user.apply(rule).map_err(|why| format!("rule {}: {why}", place + 1))?;
    }
    Ok(Some(user))
}

/// Parses the users of a file: lines of the form `user NAME rule ...`, empty lines, and comments that begin with `#`.
///
/// While the present users remain, both share the memory for users. The limit applies to each of them alone, so that a
/// server can load what it has saved.
fn parse(text: &[u8], budget: &Arc<Budget>) -> Result<ByName, FileError> {
    let users = parse_lines(text, parse_line)?;
    let bytes: u64 = users.values().map(User::cost).sum();
    if bytes > budget.bytes_max_of(budget::MemoryUse::Rules) {
        return Err(FileError::NoMemory);
    }
    Ok(complete_all(users, budget))
}

/// Parses lines that [`Users::lines`] returned in this process, or in the one that handed over. Between their words is
/// one space. They are never refused for their memory: they were within the limit when they were added, and without its
/// users a server cannot go on.
fn parse_own(lines: &[u8], budget: &Arc<Budget>) -> Result<ByName, FileError> {
    let one = |line: &[u8]| parse_words(line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()));
    Ok(complete_all(parse_lines(lines, one)?, budget))
}

fn complete_all(users: BTreeMap<Vec<u8>, User>, budget: &Arc<Budget>) -> ByName {
    let complete = |(name, user): (Vec<u8>, User)| {
        let mut held = Grant::none(budget, budget::MemoryUse::Rules);
        held.force(user.cost());
        (name, user.complete(held))
    };
    users.into_iter().map(complete).collect()
}

/// Returns the reason why a file that lists a user twice is refused.
pub(super) fn duplicate(name: &[u8]) -> String {
    format!("Duplicate user '{}' found", name.escape_ascii())
}

fn parse_lines(
    text: &[u8],
    parse_line: impl Fn(&[u8]) -> Result<Option<User>, String>,
) -> Result<BTreeMap<Vec<u8>, User>, FileError> {
    let mut users = BTreeMap::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let wrong = |why: &str| FileError::Line(number + 1, why.to_owned());
        let Some(mut user) = parse_line(line).map_err(|why| wrong(&why))? else { continue };
        user.rights.shrink();
        let name = user.name.clone();
        if users.insert(name.clone(), user).is_some() {
            return Err(wrong(&duplicate(&name)));
        }
        if users.len() > USERS_MAX {
            return Err(wrong("there are more than 1000 users"));
        }
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules<'r>(rules: &[&'r str]) -> Vec<&'r [u8]> {
        rules.iter().map(|rule| rule.as_bytes()).collect()
    }

    #[test]
    fn a_password_lets_in_its_user_alone_and_only_while_that_is_on() {
        let users = Users::new(None, true, &Budget::new(0, None)).unwrap();
        assert_eq!((users.changes(), users.requires_authentication()), (0, false));
        users.set(b"ann", &rules(&["on", ">one", ">two", "+get"]), Vec::new()).unwrap();
        users.set(b"bob", &rules(&[">bob"]), Vec::new()).unwrap();
        for (name, password, admitted) in [
            ("ann", "one", true),
            ("ann", "two", true),
            ("ann", "three", false),
            ("ann", "", false),
            ("bob", "bob", false),
            ("nobody", "one", false),
            ("default", "anything", true),
        ] {
            assert_eq!(users.admits(name.as_bytes(), password.as_bytes()).is_some(), admitted, "{name} {password}");
        }
        users.set(b"ann", &rules(&["<one"]), Vec::new()).unwrap();
        assert!(users.admits(b"ann", b"one").is_none() && users.admits(b"ann", b"two").is_some());
        users.set(b"default", &rules(&["resetpass", ">x"]), Vec::new()).unwrap();
        assert!(users.requires_authentication() && users.changes() == 4);
    }

    #[test]
    fn invalid_acl_rule_rejects_the_whole_rule_list() {
        let users = Users::new(None, true, &Budget::new(0, None)).unwrap();
        assert_eq!(users.set(b"ann", &rules(&["on", "+get", "zzz"]), Vec::new()), Err((2, SYNTAX)));
        assert_eq!(users.set(b"ann", &rules(&["<nope"]), Vec::new()), Err((0, NO_PASSWORD)));
        assert!(users.find(b"ann").is_none() && users.changes() == 0);
    }

    #[test]
    fn argon2id_hash_admits_only_after_its_check_and_its_rules_change_nothing_else() {
        let users = Users::new(None, true, &Budget::new(0, None)).unwrap();
        let hash = argon2id::RIGHT;
        users.set(b"ann", &rules(&["on", hash, hash, "#", ">other"]), Vec::new()).unwrap_err();
        users.set(b"ann", &rules(&["on", hash, hash, ">other"]), Vec::new()).unwrap();
        assert!(users.admits(b"ann", b"other").is_some() && users.admits(b"ann", b"right").is_none());
        let to_check = users.hashes_to_check(b"ann", b"right");
        assert!(to_check.len() == 1 && to_check[0].verify(b"right"));
        assert!(users.admits(b"ann", b"right").is_some() && users.admits(b"ann", hash.as_bytes()).is_none());
        assert_eq!(users.hashes_to_check(b"nobody", b"right").len(), 1, "the time does not reveal which users exist");
        assert!(users.hashes_to_check(b"ann", &[b'x'; argon2id::PASSWORD_BYTES_MAX + 1]).is_empty());
        let line = String::from_utf8(users.find(b"ann").unwrap().line()).unwrap();
        assert!(line.contains(&format!(" {hash} ")) && line.contains(" #"), "{line}");
        // A password that is set again is no longer stored as SHA-256, and is not hashed twice.
        for _ in 0..2 {
            let again = rules(&[">other", ">right"]);
            let worked = PasswordRules::of(&users, b"ann", &again, true).unwrap().expect("work").work();
            users.set(b"ann", &again, worked).unwrap();
            assert_eq!(users.find(b"ann").unwrap().stored_passwords().count(), 2);
        }
        let remove = rules(&["<other", "<nope"]);
        let worked = PasswordRules::of(&users, b"ann", &remove, false).unwrap().expect("work").work();
        assert_eq!(users.set(b"ann", &remove, worked), Err((1, NO_PASSWORD)));
        users.set(b"ann", &rules(&[&format!("!{hash}")]), Vec::new()).unwrap();
        assert!(users.admits(b"ann", b"right").is_none() && users.admits(b"ann", b"other").is_some());
        let many = [">p"; WORKED_MAX + 1];
        assert_eq!(PasswordRules::of(&users, b"ann", &rules(&many), true).err(), Some(TOO_MANY));
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_has_no_password_in_it() {
        let path = std::env::temp_dir().join(format!("gannet-acl-{}", std::process::id()));
        std::fs::write(&path, "# people\n\nuser ann on >secret-word ~a:* %R~b &c* +@read -get\n").unwrap();
        let users = Users::new(Some(&path), true, &Budget::new(0, None)).unwrap();
        let lines = |users: &Users| users.all().values().map(|user| user.line()).collect::<Vec<_>>();
        let before = lines(&users);
        users.save().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("secret-word") && !format!("{users:?}{:?}", users.all()).contains("secret"));
        users.load().unwrap();
        assert_eq!(lines(&users), before);
        assert!(users.admits(b"ann", b"secret-word").is_some());
        for (text, line) in [("user a +get\nuser b zzz\n", 2), ("password\n", 1), ("user a\nuser a\n", 2)] {
            std::fs::write(&path, text).unwrap();
            let error = users.load().unwrap_err();
            assert!(matches!(error, FileError::Line(at, _) if at == line), "{text:?}: {error}");
        }
        assert_eq!(lines(&users), before, "the earlier users remain");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn names_and_rules_with_white_space_are_refused_because_a_file_is_split_there() {
        let users = Users::new(None, true, &Budget::new(0, None)).unwrap();
        for byte in (0..=255u8).filter(|byte| byte.is_ascii_whitespace() || *byte == 0) {
            assert!(!is_name(&[b'a', byte]), "{byte}");
            for rule in [b"~a", b"&a", b"ns"] {
                let rule = if rule == b"ns" { b"ns=a".to_vec() } else { rule.to_vec() };
                let hostile = [&rule[..], &[byte], b"nopass"].concat();
                assert_eq!(users.set(b"ann", &[&hostile], Vec::new()).map_err(|(at, _)| at), Err(0), "{byte}");
            }
        }
        // All others are saved and read again as they are.
        let odd: Vec<u8> = (1..=255u8).filter(|byte| !byte.is_ascii_whitespace()).collect();
        users.set(&odd[..40], &[b"on", &[b"~", &odd[..]].concat()], Vec::new()).unwrap();
        let again = Users::from_lines(None, true, &Budget::new(0, None), &users.lines()).unwrap();
        assert_eq!(again.lines(), users.lines());
    }

    #[test]
    fn users_of_any_admitted_size_are_saved_loaded_and_handed_over_and_longer_files_are_refused_whole() {
        let path = std::env::temp_dir().join(format!("gannet-acl-long-{}", std::process::id()));
        std::fs::write(&path, "user default on nopass ~* +@all\n").unwrap();
        let budget = Budget::new(0, Some(4 << 20));
        let users = Users::new(Some(&path), true, &budget).unwrap();
        let patterns: Vec<Vec<u8>> = (0..900).map(|number| format!("~{number:0200}").into_bytes()).collect();
        let rules: Vec<&[u8]> = patterns.iter().map(|pattern| &pattern[..]).collect();
        let added = (0..9).take_while(|number| users.set(&[b'a' + number], &rules, Vec::new()).is_ok()).count();
        assert!((2..8).contains(&added), "{added} users fill the memory for users");
        users.save().unwrap();
        for _ in 0..3 {
            users.load().expect("what it has saved");
        }
        assert!(budget.used() <= budget.bytes_max() / 2, "the earlier users are released");
        let small = Budget::new(0, Some(1 << 20));
        let lines = users.lines();
        assert_eq!(Users::from_lines(None, true, &small, &lines).expect("handed over").lines(), lines);
        let refused = Users::new(Some(&path), true, &small).unwrap_err();
        assert!(matches!(refused, FileError::NoMemory), "{refused}");
        // The part of a longer file would be another set of rights.
        let long = [&b"#".repeat(FILE_BYTES_MAX as usize - 30)[..], b"\nuser eve on +@all -@dangerous -set\n"].concat();
        std::fs::write(&path, long).unwrap();
        assert!(matches!(users.load(), Err(FileError::TooLong)) && users.lines() == lines);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn repeated_acl_refusal_is_counted_and_the_oldest_entries_are_dropped() {
        let users = Users::new(None, true, &Budget::new(0, None)).unwrap();
        let refusal = |number: u64| Refusal {
            reason: "key",
            context: "toplevel",
            object: number.to_string().into_bytes(),
            user: b"u".to_vec(),
        };
        for at in [0, 59_999, 119_999] {
            users.refused(refusal(0), UnixMillis(at), String::new());
        }
        let counts: Vec<_> = users.logged(9).iter().map(|logged| logged.count).collect();
        assert_eq!(counts, [1, 2]);
        (1..200).for_each(|number| users.refused(refusal(number), UnixMillis(200_000), String::new()));
        assert_eq!((users.logged(999).len(), users.logged(1)[0].number), (LOG_MAX, 200));
        users.clear_log();
        assert!(users.logged(9).is_empty());
    }
}
