//! The memcached text and meta protocols.
//!
//! ```text
//! receive buffer            parse()                          session
//!  "get a b\r\n..."   ->   Request { Get, consumed }    ->  execute, write replies, drop `consumed`
//!  "set a 0 0 2\r\n"  ->   Request { Store, consumed }  ->  then body(): Value | Incomplete | BadTerminator
//!  "set a x 0 2\r\n"  ->   Bad { error, swallow: 4 }    ->  write the error, drop `consumed`, discard 4 bytes more
//!  64 KiB and no \n   ->   Fatal(error)                 ->  write the error, close
//!  binary protocol    ->   Fatal(error)                 ->  write the error, close
//! ```
//!
//! Invariants:
//! - What is returned depends on the bytes alone, never on how they were cut into packets.
//! - Each bad command gets exactly one error line, unless it asked for no reply and its shape could be read.
//! - Wherever the length of a value can be read from a bad line, the value is swallowed: the bytes of a value are never
//!   executed as commands.
//! - Keys have 1 to 250 bytes, anything but space and newline. Control characters are accepted, as memcached does.

pub mod client;
pub mod error;
pub mod key;
pub mod line;
pub mod meta;
pub mod reply;
pub mod request;
mod text;

pub use error::Error;
pub use key::{KEY_BYTES_MAX, KeyScratch, Keys, MetaKey};
pub use request::{Body, Parsed, Request, VALUE_BYTES_MAX};

use line::{Line, Words};

/// Why a line is not a request, and how to go on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fault {
    error: Error,
    /// The client asked for no reply.
    quiet: bool,
    /// Bytes that follow the line and belong to it.
    swallow: u64,
    /// The stream cannot be brought back in step.
    fatal: bool,
}

impl Fault {
    const fn new(error: Error) -> Self {
        Self { error, quiet: false, swallow: 0, fatal: false }
    }

    const fn quiet_if(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    const fn swallowing(self, swallow: u64) -> Self {
        Self { swallow, ..self }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

/// The first byte of every request of memcached's binary protocol; no text command begins with it.
const BINARY_MAGIC: u8 = 0x80;

/// Reads the command line at the start of `buf`.
#[inline]
pub fn parse(buf: &[u8]) -> Parsed<'_> {
    if let Some((store, consumed)) = plain_set(buf) {
        return Parsed::Request { request: Request::Store(store), consumed };
    }
    parse_line(buf)
}

/// `get KEY\r\n`, in its plainest form: what nearly every request is. Gives the key and the bytes of the line. Anything
/// else is left to [`parse`], which reads this form just the same.
#[inline(always)]
pub fn lone_get(buf: &[u8]) -> Option<(&[u8], usize)> {
    let rest = buf.strip_prefix(b"get ")?;
    let len = line::first_blank(rest)?;
    match &rest[len..] {
        [b'\r', b'\n', ..] if (1..=KEY_BYTES_MAX).contains(&len) => Some((&rest[..len], 4 + len + 2)),
        _ => None,
    }
}

/// The key of a line that begins as a plain `set` does, whatever follows the key: enough to ask for what will be
/// changed.
#[inline(always)]
pub fn set_key(buf: &[u8]) -> Option<&[u8]> {
    let rest = buf.strip_prefix(b"set ")?;
    let len = line::first_blank(rest)?;
    (1..=KEY_BYTES_MAX).contains(&len).then(|| &rest[..len])
}

/// `set KEY FLAGS TIME LENGTH` in its plainest form: single spaces and short numbers without a sign. Anything else is
/// left to [`parse_line`], which reads this form just the same.
#[inline]
fn plain_set(buf: &[u8]) -> Option<(request::Store<'_>, usize)> {
    /// Digits that cannot make more than 32 bits, nor more than a value may have.
    const DIGITS_MAX: usize = 9;
    fn number(text: &[u8]) -> Option<(u32, &[u8])> {
        let (mut value, mut at) = (0, 0);
        while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9) {
            if at == DIGITS_MAX {
                return None;
            }
            value = value * 10 + u32::from(digit);
            at += 1;
        }
        if at == 0 { None } else { Some((value, &text[at..])) }
    }
    let rest = buf.strip_prefix(b"set ")?;
    let len = line::first_blank(rest)?;
    if !(1..=KEY_BYTES_MAX).contains(&len) {
        return None;
    }
    let (key, rest) = rest.split_at(len);
    let (client_flags, rest) = number(rest.strip_prefix(b" ")?)?;
    let (exptime, rest) = number(rest.strip_prefix(b" ")?)?;
    let (value_len, rest) = number(rest.strip_prefix(b" ")?)?;
    let rest = rest.strip_prefix(b"\r\n")?;
    let store = request::Store {
        mode: request::StoreMode::Set,
        key,
        client_flags,
        exptime: exptime.into(),
        value_len,
        compare: None,
        noreply: false,
    };
    Some((store, buf.len() - rest.len()))
}

fn parse_line(buf: &[u8]) -> Parsed<'_> {
    if buf.first() == Some(&BINARY_MAGIC) {
        return Parsed::Fatal(Error::BinaryProtocol);
    }
    let (text, consumed) = match line::line(buf) {
        Line::Incomplete => return Parsed::Incomplete,
        Line::TooLong => return Parsed::Fatal(Error::LineTooLong),
        Line::Complete { text, consumed } => (text, consumed),
    };
    match command(text) {
        Ok(request) => Parsed::Request { request, consumed },
        Err(fault) if fault.fatal => Parsed::Fatal(fault.error),
        Err(Fault { error, quiet, swallow, .. }) => Parsed::Bad { error, consumed, swallow, quiet },
    }
}

/// Reads a value of `len` bytes and the `\r\n` behind it at the start of `buf`.
pub fn body(buf: &[u8], len: u32) -> Body<'_> {
    let len = len as usize;
    match buf.get(..len + 2) {
        None => Body::Incomplete,
        Some(bytes) => match bytes.split_at(len) {
            (value, b"\r\n") => Body::Value(value),
            _ => Body::BadTerminator,
        },
    }
}

fn command(text: &[u8]) -> Result<Request<'_>, Fault> {
    let mut words = Words::new(text);
    let verb = words.next().ok_or(Error::UnknownCommand)?;
    match verb {
        b"get" => text::get(words, false),
        b"gets" => text::get(words, true),
        b"mg" => meta::get(words),
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => text::store(verb, words),
        b"ms" => meta::store(words),
        b"delete" => text::delete(words),
        b"incr" => text::arith(words, false),
        b"decr" => text::arith(words, true),
        b"touch" => text::touch(words),
        b"gat" => text::get_and_touch(words, false),
        b"gats" => text::get_and_touch(words, true),
        b"md" => meta::delete(words),
        b"ma" => meta::arith(words),
        b"mn" => Ok(Request::MetaNoop),
        b"me" => meta::debug(words),
        b"flush_all" => text::flush_all(words),
        b"version" => Ok(Request::Version),
        b"verbosity" => text::verbosity(words),
        b"quit" => Ok(Request::Quit),
        b"shutdown" => text::shutdown(words),
        b"cache_memlimit" => text::cache_memlimit(words),
        b"stats" => text::stats(words),
        b"watch" => text::watch(words),
        b"lru_crawler" => text::lru_crawler(words),
        b"slabs" | b"lru" => text::no_slabs(words),
        _ => Err(Error::UnknownCommand.into()),
    }
}

#[cfg(test)]
mod tests;
