//! A script: its text, and the digest by which clients call it.

use crate::shebang::{Header, ScriptFlags};
use sha1::{Digest as _, Sha1};

/// The SHA-1 digest of a script's text, in lower-case hexadecimal digits.
pub type Digest = [u8; 40];

/// Returns the digest of a text.
pub fn digest_of(text: &[u8]) -> Digest {
    digits_of(Sha1::new_with_prefix(text))
}

/// Returns the digest of the concatenation of `pieces`. Calls `before` before the digest of each piece is computed.
pub(crate) fn digest_in_pieces<'p, E>(
    pieces: impl Iterator<Item = &'p [u8]>,
    mut before: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Digest, E> {
    let mut state = Sha1::new();
    for piece in pieces {
        before(piece)?;
        state.update(piece);
    }
    Ok(digits_of(state))
}

fn digits_of(state: Sha1) -> Digest {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digest = [0; 40];
    for (pair, byte) in digest.chunks_exact_mut(2).zip(state.finalize()) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    digest
}

/// A function that a library has registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisteredFunction {
    /// The name by which clients call the function.
    pub name: Box<[u8]>,
    /// The description, if there is one.
    pub description: Option<Box<[u8]>>,
    /// The flags that have an effect.
    pub flags: ScriptFlags,
    /// The names of all flags.
    pub flag_names: Vec<&'static str>,
}

/// A script that compiles, or a library of functions.
#[derive(Debug)]
pub struct Script {
    /// The number of the script, which no other script of this process has.
    pub number: u64,
    /// The digest of the text.
    pub digest: Digest,
    /// The text.
    pub text: Box<[u8]>,
    /// The flags that the first line of the text declares.
    pub header: Header,
}

impl Script {
    /// Returns the memory of the script, in bytes.
    pub fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.text.len()) as u64
    }
}
