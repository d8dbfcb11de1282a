//! Parses and encodes the keys in command lines.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memrchr;

use super::error::Error;
use super::line::Words;

/// The maximum length of a decoded key, in bytes.
pub const KEY_BYTES_MAX: usize = 250;

/// The maximum length of a key in base64, in bytes: 4 characters for every 3 bytes of the key, rounded up.
pub const KEY_BASE64_BYTES_MAX: usize = KEY_BYTES_MAX.div_ceil(3) * 4;

/// A buffer for the decoded bytes of one key. The buffer is used only if a key must be decoded.
#[derive(Debug, Default)]
pub struct KeyScratch(Option<[u8; KEY_BYTES_MAX]>);

/// Returns `key` if its length is 1 to [`KEY_BYTES_MAX`] bytes, otherwise an error.
pub(super) fn plain(key: &[u8]) -> Result<&[u8], Error> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX { Err(Error::BadFormat) } else { Ok(key) }
}

/// Returns true if a word of `text` is longer than [`KEY_BYTES_MAX`]. Searches backwards for the last space of each
/// stretch of 251 bytes. All words before that space are short enough, so most bytes are not examined.
fn has_long_word(mut text: &[u8]) -> bool {
    while text.len() > KEY_BYTES_MAX {
        match memrchr(b' ', &text[..=KEY_BYTES_MAX]) {
            Some(space) => text = &text[space + 1..],
            None => return true,
        }
    }
    false
}

/// The keys of one retrieval in order, each of at most [`KEY_BYTES_MAX`] bytes. The number of keys is limited only by
/// the maximum line length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys<'b> {
    words: Words<'b>,
}

impl<'b> Keys<'b> {
    /// Creates the list of keys from all words of `words`.
    pub(super) fn new(words: Words<'b>) -> Result<Self, Error> {
        if has_long_word(words.rest()) {
            return Err(Error::BadFormat);
        }
        Ok(Self { words })
    }

    /// Returns the text after the keys that were iterated so far. [`Keys::resume`] continues from that text.
    pub const fn rest(&self) -> &'b [u8] {
        self.words.rest()
    }

    /// Continues the iteration from a text that [`Keys::rest`] returned.
    pub const fn resume(rest: &'b [u8]) -> Self {
        Self { words: Words::new(rest) }
    }
}

impl<'b> Iterator for Keys<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        self.words.next()
    }
}

/// The key of a meta command: the bytes of the key, or their base64 form if the flag `b` is set. The parser has
/// verified the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaKey<'b> {
    token: &'b [u8],
    encoded: bool,
}

impl<'b> MetaKey<'b> {
    /// A placeholder that is used until the flags are parsed. The flags determine whether the token is in base64.
    pub(super) const UNCHECKED: Self = Self { token: b"", encoded: false };

    /// Returns an error if `token` is too long for a key in any form. This check does not need the flags.
    pub(super) fn fits(token: &[u8]) -> Result<(), Error> {
        if token.len() > KEY_BASE64_BYTES_MAX { Err(Error::BadFormat) } else { Ok(()) }
    }

    pub(super) fn new(token: &'b [u8], encoded: bool) -> Result<Self, Error> {
        if !encoded {
            plain(token)?;
        } else if token.is_empty() || token.len() > KEY_BASE64_BYTES_MAX {
            return Err(Error::BadFormat);
        } else if decode(token, &mut [0; KEY_BYTES_MAX]).is_none() {
            return Err(Error::KeyEncoding);
        }
        Ok(Self { token, encoded })
    }

    /// Returns the key token as the client sent it.
    pub const fn token(&self) -> &'b [u8] {
        self.token
    }

    /// Returns true if the key token is in base64.
    pub const fn is_encoded(&self) -> bool {
        self.encoded
    }

    /// Returns the key's bytes. Uses `scratch` if the token is in base64.
    pub fn bytes<'k>(&self, scratch: &'k mut KeyScratch) -> &'k [u8]
    where
        'b: 'k,
    {
        if !self.encoded {
            return self.token;
        }
        let room = scratch.0.insert([0; KEY_BYTES_MAX]);
        let len = decode(self.token, room).expect("the key's encoding was checked when it was parsed");
        &room[..len]
    }
}

fn decode(token: &[u8], room: &mut [u8; KEY_BYTES_MAX]) -> Option<usize> {
    // The base64 library requires room for its estimate of the length, which exceeds the result by up to two bytes.
    let mut wide = [0; KEY_BASE64_BYTES_MAX / 4 * 3];
    let len = STANDARD.decode_slice(token, &mut wide).ok()?;
    room.get_mut(..len).filter(|room| !room.is_empty())?.copy_from_slice(&wide[..len]);
    Some(len)
}

/// Writes `key` in base64 to `out`, and returns the number of bytes written.
pub fn encode(key: &[u8], out: &mut [u8; KEY_BASE64_BYTES_MAX]) -> usize {
    assert!(key.len() <= KEY_BYTES_MAX, "a key has at most {KEY_BYTES_MAX} bytes");
    STANDARD.encode_slice(key, out).expect("the room is that of the longest key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_key_is_accepted_up_to_limit_only() {
        let bytes: Vec<u8> = (0..=255).cycle().take(KEY_BYTES_MAX + 1).collect();
        let mut out = [0; KEY_BASE64_BYTES_MAX];
        let len = encode(&bytes[..KEY_BYTES_MAX], &mut out);
        assert_eq!(len, KEY_BASE64_BYTES_MAX);
        let key = MetaKey::new(&out, true).unwrap();
        assert_eq!(key.bytes(&mut KeyScratch::default()), &bytes[..KEY_BYTES_MAX]);
        let mut long = [0; KEY_BASE64_BYTES_MAX];
        assert_eq!(STANDARD.encode_slice(&bytes, &mut long), Ok(KEY_BASE64_BYTES_MAX));
        assert_eq!(MetaKey::new(&long, true), Err(Error::KeyEncoding));
    }

    #[test]
    fn overlong_word_is_found_at_any_position() {
        let mut prng = base::prng::Prng::new(9);
        let (mut long, mut fine) = (0, 0);
        for _ in 0..20_000 {
            let mut text = Vec::new();
            while text.len() < 1500 {
                let near = KEY_BYTES_MAX as u64 - 3 + prng.below(4);
                let rare = u64::from(prng.chance(1, 30));
                text.extend(std::iter::repeat_n(
                    b'k',
                    (if prng.chance(1, 3) { near + rare } else { prng.below(60) }) as usize,
                ));
                text.extend(std::iter::repeat_n(b' ', 1 + prng.below(3) as usize));
            }
            let expected = Words::new(&text).any(|word| word.len() > KEY_BYTES_MAX);
            assert_eq!(has_long_word(&text), expected, "{:?}", String::from_utf8_lossy(&text));
            if expected { long += 1 } else { fine += 1 }
        }
        assert!(long > 100 && fine > 100, "{long} {fine}");
    }

    #[test]
    fn invalid_base64_key_is_rejected() {
        for token in ["YQ", "YQ=", "!!", "=", "====", "YR==", "YWI=YWI="] {
            assert_eq!(MetaKey::new(token.as_bytes(), true), Err(Error::KeyEncoding), "{token}");
        }
        assert_eq!(MetaKey::new(b"", false), Err(Error::BadFormat));
        assert_eq!(MetaKey::new(&[b'k'; 251], false), Err(Error::BadFormat));
    }
}
