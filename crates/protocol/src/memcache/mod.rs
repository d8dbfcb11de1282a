//! The memcached text and meta protocols.
//!
//! ```text
//! receive buffer            parse()                          session
//!  "get a b\r\n..."   ->   Request { Get, consumed }    ->  execute, write replies, drop `consumed`
//!  "set a 0 0 2\r\n"  ->   Request { Store, consumed }  ->  then body(): Value | Incomplete | BadTerminator
//!  "set a x 0 2\r\n"  ->   Bad { error, swallow: 4 }    ->  write the error, drop `consumed`, discard 4 bytes more
//!  64 KiB and no \n   ->   Fatal(error)                 ->  write the error, close
//!  binary protocol    ->   Fatal(error)                 ->  write the error, close
//!  "POST / HTTP/1.1"  ->   Fatal(error)                 ->  write the error, close
//! ```
//!
//! Invariants:
//! - Results depend only on the bytes, never on how they were cut into packets.
//! - Each invalid command gets exactly one error line, unless it requested no reply and its form could be parsed.
//! - If the length of a value can be read from an invalid line, the value is discarded, so that its bytes are not
//!   executed as commands.
//! - Keys have 1 to 250 bytes, any bytes except space and newline. Control characters are accepted, as by memcached.

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

/// The reason why a line is not a valid request, and how to continue after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fault {
    error: Error,
    /// True if the client requested no reply.
    quiet: bool,
    /// The number of bytes after the line that belong to the invalid request and must be discarded.
    swallow: u64,
    /// True if the start of the next request cannot be found, so that the connection must be closed.
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

/// The first byte of every request of memcached's binary protocol. No text command begins with it.
const BINARY_MAGIC: u8 = 0x80;

/// Parses the command line at the start of the receive buffer `buf`.
#[inline]
pub fn parse(buf: &[u8]) -> Parsed<'_> {
    if let Some((store, consumed)) = plain_set(buf) {
        return Parsed::Request { request: Request::Store(store), consumed };
    }
    parse_line(buf)
}

/// Parses `get KEY\r\n` in its simplest form, which nearly all requests have. Returns the key and the length of the
/// line. Returns `None` for all other forms. For them, the caller uses [`parse`], which gives the same result for this
/// form.
#[inline(always)]
pub fn lone_get(buf: &[u8]) -> Option<(&[u8], usize)> {
    let rest = buf.strip_prefix(b"get ")?;
    let len = line::first_blank(rest)?;
    match &rest[len..] {
        [b'\r', b'\n', ..] if (1..=KEY_BYTES_MAX).contains(&len) => Some((&rest[..len], 4 + len + 2)),
        _ => None,
    }
}

/// Returns the key of a line that begins like a simple `set`, whatever follows the key. The key suffices to prefetch
/// the memory that the command will change.
#[inline(always)]
pub fn set_key(buf: &[u8]) -> Option<&[u8]> {
    let rest = buf.strip_prefix(b"set ")?;
    let len = line::first_blank(rest)?;
    (1..=KEY_BYTES_MAX).contains(&len).then(|| &rest[..len])
}

/// Parses `set KEY FLAGS TIME LENGTH` in its simplest form: single spaces, and short numbers without a sign. Returns
/// `None` for all other forms. For them, the caller uses [`parse_line`], which gives the same result for this form.
#[inline]
fn plain_set(buf: &[u8]) -> Option<(request::Store<'_>, usize)> {
    /// The maximum number of digits that this function accepts. Such numbers fit in 32 bits and do not exceed the
    /// maximum length of a value.
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

/// Reads a value of `len` bytes and its `\r\n` at the start of `buf`.
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
        b"refresh_certs" => Ok(Request::RefreshCerts),
        b"stats" => text::stats(words),
        b"watch" => text::watch(words),
        b"lru_crawler" => text::lru_crawler(words),
        b"slabs" | b"lru" => text::no_slabs(verb, words),
        _ if crate::http::is_http(text) => Err(Fault { fatal: true, ..Fault::new(Error::Http) }),
        _ => Err(Error::UnknownCommand.into()),
    }
}

#[cfg(test)]
mod tests;
