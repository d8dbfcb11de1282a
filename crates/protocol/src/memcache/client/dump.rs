//! The facts about items in dumps and in replies to `me`.

use super::garbage::Garbage;
use crate::memcache::key::{KEY_BASE64_BYTES_MAX, KEY_BYTES_MAX, KeyScratch, MetaKey};
use crate::memcache::line::Words;

/// `NAME=VALUE` pairs: `key` (only in a metadump), `exp`, `la`, `cas`, `fetch`, `cls`, `size`, and others that a server
/// may add.
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

    /// Returns names and values in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> + use<'b> {
        self.words.filter_map(|mut word| take_name(&mut word).map(|name| (name, word)))
    }

    /// Returns the value of `name`.
    pub fn value(&self, name: &[u8]) -> Option<&'b [u8]> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

/// Removes the part before the first `=` and the `=` from `word`, and returns that part.
fn take_name<'b>(word: &mut &'b [u8]) -> Option<&'b [u8]> {
    let at = word.iter().position(|byte| *byte == b'=')?;
    let name = &word[..at];
    *word = &word[at + 1..];
    Some(name)
}

/// The key of an `mgdump` line. It is in base64 if the text protocol cannot represent the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MgdumpKey<'b> {
    key: MetaKey<'b>,
}

impl<'b> MgdumpKey<'b> {
    /// Parses `KEY` or `KEY b`.
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

    /// Returns the key's bytes. Uses `scratch` if the key was in base64.
    pub fn bytes<'k>(&self, scratch: &'k mut KeyScratch) -> &'k [u8]
    where
        'b: 'k,
    {
        self.key.bytes(scratch)
    }
}

/// Decodes a metadump's key with `%XX` escapes into `room`. Returns `None` if the text is not valid or is longer than a
/// key may be.
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
