//! The facts of items in dumps and in replies to `me`.

use super::garbage::Garbage;
use crate::memcache::key::{KEY_BASE64_BYTES_MAX, KEY_BYTES_MAX, KeyScratch, MetaKey};
use crate::memcache::line::Words;

/// `NAME=VALUE` pairs: `key` (of a metadump alone), `exp`, `la`, `cas`, `fetch`, `cls`, `size`, and others that a
/// server may know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts<'b> {
    words: Words<'b>,
}

impl<'b> Facts<'b> {
    pub(super) fn new(text: &'b [u8]) -> Result<Self, Garbage> {
        let words = Words::new(text);
        for mut word in words {
            if !matches!(take_name(&mut word), Some([_, ..])) {
                return Err(Garbage::Malformed);
            }
        }
        Ok(Self { words })
    }

    /// Names and values in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> + use<'b> {
        self.words.filter_map(|mut word| take_name(&mut word).map(|name| (name, word)))
    }

    /// The value of `name`.
    pub fn value(&self, name: &[u8]) -> Option<&'b [u8]> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

/// Takes what is before the first `=` off `word`, and the `=` with it.
fn take_name<'b>(word: &mut &'b [u8]) -> Option<&'b [u8]> {
    let at = word.iter().position(|byte| *byte == b'=')?;
    let name = &word[..at];
    *word = &word[at + 1..];
    Some(name)
}

/// The key of an `mgdump` line, in base64 where text could not carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MgdumpKey<'b> {
    key: MetaKey<'b>,
}

impl<'b> MgdumpKey<'b> {
    /// Reads `KEY` or `KEY b`.
    pub(super) fn new(text: &'b [u8]) -> Result<Self, Garbage> {
        let mut words = Words::new(text);
        let token = words.next().ok_or(Garbage::Malformed)?;
        let encoded = match words.next() {
            None => false,
            Some(b"b") => true,
            Some(_) => return Err(Garbage::Malformed),
        };
        if words.next().is_some() || token.len() > KEY_BASE64_BYTES_MAX {
            return Err(Garbage::Malformed);
        }
        Ok(Self { key: MetaKey::new(token, encoded).map_err(|_| Garbage::Malformed)? })
    }

    /// The key's bytes; `scratch` is used where it came in base64.
    pub fn bytes<'k>(&self, scratch: &'k mut KeyScratch) -> &'k [u8]
    where
        'b: 'k,
    {
        self.key.bytes(scratch)
    }
}

/// The bytes of a key that a metadump wrote with `%XX` in it, in `room`. `None` if it is no such text or longer than a
/// key.
pub fn uri_decoded<'r>(text: &[u8], room: &'r mut [u8; KEY_BYTES_MAX]) -> Option<&'r [u8]> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let (mut rest, mut len) = (text, 0);
    while let [first, behind @ ..] = rest {
        let byte;
        (byte, rest) = match (first, behind) {
            (b'%', [high, low, behind @ ..]) => (digit(high)? << 4 | digit(low)?, behind),
            (b'%', _) => return None,
            _ => (*first, behind),
        };
        *room.get_mut(len)? = byte;
        len += 1;
    }
    if len == 0 { None } else { Some(&room[..len]) }
}
