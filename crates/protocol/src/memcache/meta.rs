//! The meta commands: `mg ms md ma me`, a key and flags of one letter, some with a token behind the letter.
//!
//! The set of flags is one for all commands, as with memcached: a flag that a command has no use for is accepted and
//! ignored. Each flag is given at most once. The order of the flags matters only for the reply, which repeats it:
//! [`Meta::in_order`].

use super::error::Error;
use super::key::MetaKey;
use super::line::Words;
use super::request::Request;
use super::{Fault, text};
use crate::number::{parse_i64, parse_u32, parse_u64};

/// The longest opaque in bytes, without its `O`.
pub const OPAQUE_BYTES_MAX: usize = 32;

/// Which flags were given: one bit a letter.
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

/// A meta command without its verb. Numbers mean something only where their flag was given; the accessors say `None`
/// where it was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta<'b> {
    /// The key.
    pub key: MetaKey<'b>,
    seen: Seen,
    words: Words<'b>,
    client_flags: u32,
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

/// The effect of `ms` on the item that is there (`M`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaStoreMode {
    /// `S`, and without `M`.
    Set,
    /// `E`: store only if nothing is there.
    Add,
    /// `R`: store only if something is there.
    Replace,
    /// `A`.
    Append,
    /// `P`.
    Prepend,
}

impl<'b> Meta<'b> {
    /// The flag `letter` was given.
    ///
    /// # Panics
    /// If `letter` is not a letter: no flag is.
    pub const fn has(&self, letter: u8) -> bool {
        self.seen.has(letter)
    }

    /// As an `mg`, asks for no more than the value, its length, the client's flags and what the request itself says,
    /// and changes nothing.
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

    /// The flags as the client wrote them, in its order, each with its token.
    pub const fn in_order(&self) -> Words<'b> {
        self.words
    }

    /// `F`, or 0.
    pub const fn client_flags(&self) -> u32 {
        self.client_flags
    }

    /// `C`: only if the item's CAS token equals this.
    pub const fn compare(&self) -> Option<u64> {
        if self.has(b'C') { Some(self.compare) } else { None }
    }

    /// Changes the command for a store without CAS tokens: `C` matches nothing, and `E` gives nothing.
    pub const fn without_tokens(&mut self) {
        (self.compare, self.token_is_void) = (u64::MAX, true);
    }

    /// `E`: the CAS token to give the item.
    pub const fn token(&self) -> Option<u64> {
        if self.has(b'E') && !self.token_is_void { Some(self.token) } else { None }
    }

    /// `T`: the item's new expiry, in seconds as the protocol counts them.
    pub const fn expire(&self) -> Option<i64> {
        if self.has(b'T') { Some(self.expire) } else { None }
    }

    /// `N`: the expiry of an item made because none was there.
    pub const fn vivify(&self) -> Option<i64> {
        if self.has(b'N') { Some(self.vivify) } else { None }
    }

    /// `R`: win the right to refill if fewer seconds than this are left.
    pub const fn recache(&self) -> Option<i64> {
        if self.has(b'R') { Some(self.recache) } else { None }
    }

    /// `D`, or 1.
    pub const fn delta(&self) -> u64 {
        self.delta
    }

    /// `J`, or 0.
    pub const fn initial(&self) -> u64 {
        self.initial
    }

    /// `M` of `ms`; `Set` without it.
    pub const fn store_mode(&self) -> MetaStoreMode {
        match self.mode {
            b'E' => MetaStoreMode::Add,
            b'R' => MetaStoreMode::Replace,
            b'A' => MetaStoreMode::Append,
            b'P' => MetaStoreMode::Prepend,
            _ => MetaStoreMode::Set,
        }
    }

    /// `M` of `ma` says to take away.
    pub const fn is_decrement(&self) -> bool {
        matches!(self.mode, b'D' | b'-')
    }

    /// Reads the flags `words` of a command with the key token `key`.
    fn new(key: &'b [u8], words: Words<'b>) -> Result<Self, Error> {
        let mut meta = Self {
            key: MetaKey::UNCHECKED,
            seen: Seen::default(),
            words,
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
        MetaKey::fits(key)?;
        for word in words {
            meta.flag(word[0], &word[1..])?;
        }
        meta.key = MetaKey::new(key, meta.has(b'b'))?;
        Ok(meta)
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
            // Hints to proxies, of any form.
            b'P' | b'L' => {}
            b'O' if token.len() > OPAQUE_BYTES_MAX => return Err(Error::OpaqueTooLong),
            b'O' => {}
            b'C' => self.compare = unsigned()?,
            b'E' => self.token = unsigned()?,
            b'D' => self.delta = unsigned()?,
            b'J' => self.initial = unsigned()?,
            b'F' => self.client_flags = parse_u32(token).ok_or(Error::BadFormat)?,
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

/// The key token and the words behind it.
fn key<'b>(words: &mut Words<'b>) -> Result<&'b [u8], Error> {
    words.next().ok_or(Error::UnknownCommand)
}

pub(super) fn get(mut words: Words<'_>) -> Result<Request<'_>, Fault> {
    let key = key(&mut words)?;
    Ok(Request::MetaGet(Meta::new(key, words)?))
}

/// Reads `ms KEY LENGTH FLAGS`. Errors are reported even with `q`.
pub(super) fn store(mut words: Words<'_>) -> Result<Request<'_>, Fault> {
    let key = key(&mut words)?;
    let value_len = text::value_len(words.next().ok_or(Error::BadFormat)?)?;
    let swallowing = |error| Fault::new(error).swallowing(u64::from(value_len) + 2);
    let meta = Meta::new(key, words).map_err(swallowing)?;
    match meta.mode {
        0 | b'S' | b'E' | b'R' | b'A' | b'P' => Ok(Request::MetaStore(meta, value_len)),
        _ => Err(swallowing(Error::StoreMode)),
    }
}

/// Replaces all faults of flags of `md` and `ma` by one error, as memcached does.
fn one_text(error: Error) -> Error {
    match error {
        Error::BadFormat | Error::KeyEncoding | Error::UnknownCommand => error,
        _ => Error::InvalidOrDuplicateFlag,
    }
}

pub(super) fn delete(mut words: Words<'_>) -> Result<Request<'_>, Fault> {
    let key = key(&mut words)?;
    Ok(Request::MetaDelete(Meta::new(key, words).map_err(one_text)?))
}

pub(super) fn arith(mut words: Words<'_>) -> Result<Request<'_>, Fault> {
    let key = key(&mut words)?;
    let meta = Meta::new(key, words).map_err(one_text)?;
    match meta.mode {
        0 | b'I' | b'+' | b'D' | b'-' => Ok(Request::MetaArith(meta)),
        _ => Err(Error::ArithMode.into()),
    }
}

/// `me KEY [b]`; other words are ignored, as with memcached.
pub(super) fn debug(mut words: Words<'_>) -> Result<Request<'_>, Fault> {
    let key = words.next().ok_or(Error::BadFormat)?;
    let encoded = words.next() == Some(b"b");
    Ok(Request::MetaDebug(MetaKey::new(key, encoded).map_err(|_| Error::BadFormat)?))
}
