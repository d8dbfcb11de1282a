//! Encodes requests of the meta protocol: a verb, a key in a suitable form, and flags.

use crate::memcache::key::{KEY_BASE64_BYTES_MAX, KEY_BYTES_MAX, encode};
use crate::memcache::line::first_blank_or_delete;
use crate::memcache::reply::CRLF;
use crate::memcache::request::VALUE_BYTES_MAX;
use crate::number::{put_i64, put_u64};
use crate::sink::Sink;

/// Returns true if `key` can be written to a command line without encoding: it contains no space and no control
/// character.
#[inline]
pub fn is_text_key(key: &[u8]) -> bool {
    first_blank_or_delete(key).is_none()
}

/// A meta request under construction, flag by flag; [`MetaRequest::finish`] ends its line. A key that the text protocol
/// cannot represent is sent in base64 with the flag `b`.
///
/// The caller chooses the order of the flags, and may write each flag once. The flag `q` suppresses the reply for the
/// most common outcome. A batch that uses `q` should therefore end with [`meta_noop`].
#[derive(Debug)]
#[must_use]
pub struct MetaRequest<'s, S> {
    sink: &'s mut S,
}

impl<'s, S: Sink> MetaRequest<'s, S> {
    #[inline]
    fn new(sink: &'s mut S, verb: &[u8; 3], key: &[u8], value_len: Option<u32>) -> Self {
        assert!(!key.is_empty() && key.len() <= KEY_BYTES_MAX, "a key has 1 to {KEY_BYTES_MAX} bytes");
        sink.put(verb);
        let encoded = !is_text_key(key);
        if encoded {
            let mut room = [0; KEY_BASE64_BYTES_MAX];
            let len = encode(key, &mut room);
            sink.put(&room[..len]);
        } else {
            sink.put(key);
        }
        if let Some(len) = value_len {
            assert!(len <= VALUE_BYTES_MAX, "a value has at most {VALUE_BYTES_MAX} bytes");
            sink.put(b" ");
            put_u64(sink, len.into());
        }
        if encoded {
            sink.put(b" b");
        }
        Self { sink }
    }

    /// Starts an `mg`: reads an item.
    ///
    /// # Panics
    /// As for all constructors here: if the key is empty or longer than [`KEY_BYTES_MAX`].
    #[inline]
    pub fn get(sink: &'s mut S, key: &[u8]) -> Self {
        Self::new(sink, b"mg ", key, None)
    }

    /// Starts an `ms`: stores an item. `value_len` bytes must follow the line in any number of pieces, then `\r\n`
    /// ([`super::value`]).
    ///
    /// # Panics
    /// If `value_len` is above [`VALUE_BYTES_MAX`].
    #[inline]
    pub fn store(sink: &'s mut S, key: &[u8], value_len: u32) -> Self {
        Self::new(sink, b"ms ", key, Some(value_len))
    }

    /// Starts an `md`: deletes an item, or with `I` marks it as stale.
    #[inline]
    pub fn delete(sink: &'s mut S, key: &[u8]) -> Self {
        Self::new(sink, b"md ", key, None)
    }

    /// Starts an `ma`: increments or decrements a number.
    #[inline]
    pub fn arith(sink: &'s mut S, key: &[u8]) -> Self {
        Self::new(sink, b"ma ", key, None)
    }

    /// Starts an `me`: returns the facts about an item.
    #[inline]
    pub fn debug(sink: &'s mut S, key: &[u8]) -> Self {
        Self::new(sink, b"me ", key, None)
    }

    /// Puts a flag without a token.
    #[inline]
    pub fn flag(self, letter: u8) -> Self {
        debug_assert!(letter.is_ascii_alphabetic(), "a flag is a letter");
        self.sink.put(&[b' ', letter]);
        self
    }

    /// Puts a flag with a number.
    #[inline]
    pub fn number(self, letter: u8, value: u64) -> Self {
        let this = self.flag(letter);
        put_u64(this.sink, value);
        this
    }

    /// Puts a flag with a number that may be negative, such as a time.
    #[inline]
    pub fn signed(self, letter: u8, value: i64) -> Self {
        let this = self.flag(letter);
        put_i64(this.sink, value);
        this
    }

    /// Puts a flag with a token: `O` with at most [`crate::memcache::meta::OPAQUE_BYTES_MAX`] bytes, `M` with one
    /// letter.
    #[inline]
    pub fn token(self, letter: u8, token: &[u8]) -> Self {
        debug_assert!(is_text_key(token), "a token has no space and no control character: {token:?}");
        let this = self.flag(letter);
        this.sink.put(token);
        this
    }

    /// Ends the line.
    #[inline]
    pub fn finish(self) {
        self.sink.put(CRLF);
    }
}

/// Encodes an `mn`. The server replies `MN` after the replies to all earlier requests.
pub fn meta_noop(sink: &mut impl Sink) {
    sink.put(b"mn\r\n");
}
