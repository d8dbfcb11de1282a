//! Parses the meta commands `mg ms md ma me`: a key, and flags of one letter, some with a token after the letter.
//!
//! As with memcached, all commands have the same set of flags. A command ignores flags that do not apply to it. Each
//! flag may occur once. A reply repeats the flags in the order of the request ([`Meta::in_order`]). In an `mg`, the
//! order of `N`, `T` and `t` also changes their effect.

use super::error::Error;
use super::key::{KEY_BYTES_MAX, MetaKey};
use super::line::Words;
use super::request::Request;
use super::{Fault, text};
use crate::number::{parse_i64, parse_u64};

/// The maximum length of the opaque in bytes, without its `O`.
pub const OPAQUE_BYTES_MAX: usize = 32;

/// The set of flags that occurred, one bit for each letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen(u64);

impl Seen {
    const fn bit(letter: u8) -> u64 {
        assert!(letter.is_ascii_alphabetic());
        1 << (letter - b'A')
    }

    const fn has(self, letter: u8) -> bool {
        self.0 & Self::bit(letter) != 0
    }
}

/// A meta command without its verb. The numeric fields are valid only if their flags occurred; otherwise their
/// accessors return `None` or a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta<'b> {
    /// The key.
    pub key: MetaKey<'b>,
    seen: Seen,
    words: Words<'b>,
    opaque_fits: bool,
    client_flags: u64,
    mode: u8,
    compare: u64,
    token: u64,
    token_is_void: bool,
    expire: i64,
    vivify: i64,
    recache: i64,
    delta: u64,
    initial: u64,
}

/// The effect of `ms` on an existing item (`M`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaStoreMode {
    /// `S`, or no `M`: store in any case.
    Set,
    /// `E`: store only if no item exists.
    Add,
    /// `R`: store only if an item exists.
    Replace,
    /// `A`: append to the existing value.
    Append,
    /// `P`: prepend to the existing value.
    Prepend,
}

impl<'b> Meta<'b> {
    /// Returns true if the flag `letter` occurred.
    ///
    /// # Panics
    /// If `letter` is not a letter.
    pub const fn has(&self, letter: u8) -> bool {
        self.seen.has(letter)
    }

    /// Returns true if the command, as an `mg`, changes nothing and requests only the value, its length, the client's
    /// flags and parts of the request itself.
    #[inline]
    pub const fn is_plain_read(&self) -> bool {
        const PLAIN: u64 = Seen::bit(b'v')
            | Seen::bit(b'k')
            | Seen::bit(b'O')
            | Seen::bit(b'f')
            | Seen::bit(b's')
            | Seen::bit(b'q')
            | Seen::bit(b'b')
            | Seen::bit(b'P')
            | Seen::bit(b'L');
        self.seen.0 & !PLAIN == 0
    }

    /// Returns the flags in the client's order, each with its token.
    pub const fn in_order(&self) -> Words<'b> {
        self.words
    }

    /// Returns the client's flags (`F`), or 0. `ms` is refused if they have more than 32 bits; other commands ignore
    /// them.
    pub const fn client_flags(&self) -> u32 {
        self.client_flags as u32
    }

    /// Returns the CAS token that the item must have (`C`).
    pub const fn compare(&self) -> Option<u64> {
        if self.has(b'C') { Some(self.compare) } else { None }
    }

    /// Changes the command for a store without CAS tokens: `C` never matches, and `E` has no effect.
    pub const fn without_tokens(&mut self) {
        (self.compare, self.token_is_void) = (u64::MAX, true);
    }

    /// Returns the CAS token that the item will receive (`E`).
    pub const fn token(&self) -> Option<u64> {
        if self.has(b'E') && !self.token_is_void { Some(self.token) } else { None }
    }

    /// Returns the item's new expiry time (`T`), in the protocol's seconds.
    pub const fn expire(&self) -> Option<i64> {
        if self.has(b'T') { Some(self.expire) } else { None }
    }

    /// Returns the expiry time of an item that is created on a miss (`N`).
    pub const fn vivify(&self) -> Option<i64> {
        if self.has(b'N') { Some(self.vivify) } else { None }
    }

    /// Returns the remaining time in seconds below which a client wins the right to refill the item (`R`).
    pub const fn recache(&self) -> Option<i64> {
        if self.has(b'R') { Some(self.recache) } else { None }
    }

    /// Returns the delta (`D`), or 1.
    pub const fn delta(&self) -> u64 {
        self.delta
    }

    /// Returns the initial value (`J`), or 0.
    pub const fn initial(&self) -> u64 {
        self.initial
    }

    /// Returns the mode of an `ms` (`M`), or `Set`.
    pub const fn store_mode(&self) -> MetaStoreMode {
        match self.mode {
            b'E' => MetaStoreMode::Add,
            b'R' => MetaStoreMode::Replace,
            b'A' => MetaStoreMode::Append,
            b'P' => MetaStoreMode::Prepend,
            _ => MetaStoreMode::Set,
        }
    }

    /// Returns true if the mode of an `ma` (`M`) is to decrement.
    pub const fn is_decrement(&self) -> bool {
        matches!(self.mode, b'D' | b'-')
    }

    /// Parses the flags `words` of a command with the key token `key`, which [`fits`].
    fn new(key: &'b [u8], words: Words<'b>) -> Result<Self, Error> {
        let mut meta = Self {
            key: MetaKey::UNCHECKED,
            seen: Seen::default(),
            words,
            opaque_fits: true,
            client_flags: 0,
            mode: 0,
            compare: 0,
            token: 0,
            token_is_void: false,
            expire: 0,
            vivify: 0,
            recache: 0,
            delta: 1,
            initial: 0,
        };
        let mut fault = None;
        for word in words {
            match meta.flag(word[0], &word[1..]) {
                Ok(()) => {}
                Err(error @ (Error::InvalidFlag | Error::DuplicateFlag)) => return Err(error),
                // Of several errors, memcached reports the last, except for `F`, whose error has no text of its own.
                Err(Error::BadFormat) => fault = fault.or(Some(Error::BadFormat)),
                Err(error) => fault = Some(error),
            }
            if word[0] == b'b' {
                match MetaKey::new(key, true) {
                    Ok(key) => meta.key = key,
                    Err(error) => fault = Some(error),
                }
            }
        }
        if let Some(error) = fault {
            return Err(error);
        }
        if !meta.has(b'b') {
            meta.key = MetaKey::new(key, false)?;
        }
        Ok(meta)
    }

    /// Returns an error if the opaque is too long. memcached checks it after everything else.
    fn with_short_opaque(self) -> Result<Self, Error> {
        if self.opaque_fits { Ok(self) } else { Err(Error::OpaqueTooLong) }
    }

    fn flag(&mut self, letter: u8, token: &[u8]) -> Result<(), Error> {
        if !letter.is_ascii_alphabetic() {
            return Err(Error::InvalidFlag);
        }
        if self.seen.has(letter) {
            return Err(Error::DuplicateFlag);
        }
        self.seen.0 |= Seen::bit(letter);
        let unsigned = || parse_u64(token).ok_or(Error::BadToken);
        let signed = || parse_i64(token).ok_or(Error::BadToken);
        match letter {
            b'b' | b'c' | b'f' | b'h' | b'k' | b'l' | b'q' | b's' | b't' | b'u' | b'v' | b'x' | b'I' => {}
            // `P` and `L` are hints for proxies, with any token.
            b'P' | b'L' => {}
            b'O' => self.opaque_fits = token.len() <= OPAQUE_BYTES_MAX,
            b'C' => self.compare = unsigned()?,
            b'E' => self.token = unsigned()?,
            b'D' => self.delta = parse_u64(token).ok_or(Error::InvalidMetaDelta)?,
            b'J' => self.initial = parse_u64(token).ok_or(Error::InvalidInitial)?,
            b'F' => self.client_flags = parse_u64(token).ok_or(Error::BadFormat)?,
            b'T' => self.expire = signed()?,
            b'N' => self.vivify = signed()?,
            b'R' => self.recache = signed()?,
            b'M' => match token {
                [mode] => self.mode = *mode,
                _ => return Err(Error::ModeLength),
            },
            _ => return Err(Error::InvalidFlag),
        }
        Ok(())
    }
}

/// Returns the key token, and advances `words` past that token.
fn key<'b>(words: &mut Words<'b>) -> Result<&'b [u8], Error> {
    words.next().ok_or(Error::UnknownCommand)
}

/// Returns an error if the key token is too long. Only a key in base64, with the flag `b` among `flags`, may have more
/// than [`KEY_BYTES_MAX`] bytes. memcached reports such a key before any error in the flags.
fn fits(key: &[u8], mut flags: Words<'_>) -> Result<(), Error> {
    if key.len() > KEY_BYTES_MAX && !flags.any(|flag| flag[0] == b'b') {
        return Err(Error::BadFormat);
    }
    MetaKey::fits(key)
}

pub(super) fn get(mut words: Words<'_>) -> Result<Request<'_>, Fault> {
    let key = key(&mut words)?;
    fits(key, words)?;
    Ok(Request::MetaGet(Meta::new(key, words)?.with_short_opaque()?))
}

/// Parses `ms KEY LENGTH FLAGS`. Errors are reported even with `q`.
pub(super) fn store(mut words: Words<'_>) -> Result<Request<'_>, Fault> {
    let key = key(&mut words)?;
    let value_len = text::value_len(words.next().ok_or(Error::BadFormat)?)?;
    let swallowing = |error| Fault::new(error).swallowing(u64::from(value_len) + 2);
    fits(key, words).map_err(swallowing)?;
    let meta = Meta::new(key, words).map_err(swallowing)?;
    if meta.client_flags > u64::from(u32::MAX) {
        return Err(swallowing(Error::BadFormat));
    }
    match meta.mode {
        0 | b'S' | b'E' | b'R' | b'A' | b'P' => {
            Ok(Request::MetaStore(meta.with_short_opaque().map_err(swallowing)?, value_len))
        }
        _ => Err(swallowing(Error::StoreMode)),
    }
}

/// Replaces all flag errors of `md` and `ma` by one error, as memcached does.
fn one_text(error: Error) -> Error {
    match error {
        Error::KeyEncoding => error,
        _ => Error::InvalidOrDuplicateFlag,
    }
}

pub(super) fn delete(mut words: Words<'_>) -> Result<Request<'_>, Fault> {
    let key = key(&mut words)?;
    fits(key, words)?;
    Ok(Request::MetaDelete(Meta::new(key, words).map_err(one_text)?.with_short_opaque()?))
}

pub(super) fn arith(mut words: Words<'_>) -> Result<Request<'_>, Fault> {
    let key = key(&mut words)?;
    fits(key, words)?;
    let meta = Meta::new(key, words).map_err(one_text)?;
    match meta.mode {
        0 | b'I' | b'+' | b'D' | b'-' => Ok(Request::MetaArith(meta.with_short_opaque()?)),
        _ => Err(Error::ArithMode.into()),
    }
}

/// Parses `me KEY [b]`. As with memcached, any other words are ignored.
pub(super) fn debug(mut words: Words<'_>) -> Result<Request<'_>, Fault> {
    let key = words.next().ok_or(Error::BadFormat)?;
    let encoded = words.next() == Some(b"b");
    Ok(Request::MetaDebug(MetaKey::new(key, encoded).map_err(|_| Error::BadFormat)?))
}
