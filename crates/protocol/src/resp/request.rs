//! Requests as a server reads them: arrays of bulk strings, or words on a line.
//!
//! ```text
//!  *3\r\n $3\r\nSET\r\n $1\r\na\r\n $2\r\nxy\r\n
//!         |--- args: shown again, in place --|   consumed
//! ```
//!
//! A request stays in the receive buffer until it is whole; the parser remembers how far it has looked, so that one
//! that comes in many pieces is not looked at again from its start. An argument that is long need not be in the buffer
//! ([`Parsed::Head`]), nor need a request that is longer than the buffer ([`Parsed::Long`]): what is left of those is
//! read argument by argument ([`argument`]).

use super::error::ProtocolError;
use super::inline::Inline;
use super::number::{self, Line};
use super::{ARGS_MAX, BULK_BYTES_MAX};

/// The limits of a server for the requests of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most arguments of a request; at most [`ARGS_MAX`].
    pub args_max: u32,
    /// The longest argument in bytes; at most [`BULK_BYTES_MAX`].
    pub bulk_bytes_max: u32,
    /// The longest request in bytes, all of it that has to be in the buffer.
    pub request_bytes_max: usize,
    /// An argument from this many bytes on, unless it is the first one, is not waited for: [`Parsed::Head`].
    pub long_bytes_min: u32,
    /// The client has said who it is, or need not.
    pub authenticated: bool,
}

impl Limits {
    /// The limits of Redis; arguments from 16 KiB on are read apart.
    pub const REDIS: Self = Self {
        args_max: ARGS_MAX,
        bulk_bytes_max: BULK_BYTES_MAX,
        request_bytes_max: 1 << 30,
        long_bytes_min: 16 * 1024,
        authenticated: true,
    };

    /// The limits of Redis for a client that has not authenticated.
    pub const UNAUTHENTICATED: Self =
        Self { args_max: 10, bulk_bytes_max: 16 * 1024, long_bytes_min: u32::MAX, authenticated: false, ..Self::REDIS };
}

/// The beginning of a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'b> {
    /// Not a whole request yet.
    Incomplete,
    /// A request.
    Request {
        /// Its arguments: at least one.
        args: Args<'b>,
        /// Its bytes.
        consumed: usize,
    },
    /// A request with a long argument: behind `consumed` come its `value_len` bytes and `\r\n`, and then `left` more.
    ///
    /// Who takes it from here reads the rest without this parser, and goes on with [`Parser::new`]. Who does not parses
    /// again with a longer [`Limits::long_bytes_min`].
    Head {
        /// The arguments before the long one: at least one.
        args: Args<'b>,
        /// Bytes of the long one.
        value_len: u32,
        /// Arguments behind it.
        left: u32,
        /// Bytes up to its first.
        consumed: usize,
    },
    /// A request that is longer than [`Limits::request_bytes_max`]: behind `consumed` come `left` more arguments. Go on
    /// with [`argument`], and behind those with [`Parser::new`].
    Long {
        /// The arguments before the one that does not fit: at least one.
        args: Args<'b>,
        /// That one and those behind it.
        left: u32,
        /// Bytes up to its length.
        consumed: usize,
    },
    /// Words on a line: to be rewritten to the usual form and read again.
    Inline {
        /// The words.
        inline: Inline<'b>,
        /// Bytes of the line, its end included.
        consumed: usize,
    },
    /// An empty line or an array of nothing: no request, and no reply to it.
    Nothing {
        /// Its bytes.
        consumed: usize,
    },
    /// The stream cannot be followed any more: send the error to the client and close.
    Fatal(ProtocolError),
}

/// Reads the requests of one connection. All that it keeps is how far it has looked into the one at the buffer's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parser {
    /// Arguments of the request that is begun; 0: none is.
    args: u32,
    /// Of these, those not seen yet.
    left: u32,
    /// Offset of the first argument.
    first: usize,
    /// Offset of the next argument.
    pub(super) at: usize,
}

impl Parser {
    /// At the start of a request.
    pub const fn new() -> Self {
        Self { args: 0, left: 0, first: 0, at: 0 }
    }

    /// No request is begun.
    #[inline(always)]
    pub const fn is_at_start(&self) -> bool {
        self.args == 0
    }

    /// Reads the request at the start of `buf`. After [`Parsed::Incomplete`] the same bytes are shown again with more
    /// behind them; after anything else, what is behind `consumed`.
    #[inline]
    pub fn parse<'b>(&mut self, buf: &'b [u8], limits: &Limits) -> Parsed<'b> {
        match self.walk(buf, limits) {
            Ok(parsed) => parsed,
            Err(error) => Parsed::Fatal(error),
        }
    }

    #[inline]
    fn walk<'b>(&mut self, buf: &'b [u8], limits: &Limits) -> Result<Parsed<'b>, ProtocolError> {
        if self.args == 0 {
            let (args, consumed) = match buf.first() {
                None => return Ok(Parsed::Incomplete),
                Some(b'*') => match count(&buf[1..], limits)? {
                    None => return Ok(Parsed::Incomplete),
                    Some((args, consumed)) => (args, 1 + consumed),
                },
                Some(_) => return inline(buf),
            };
            if args == 0 {
                return Ok(Parsed::Nothing { consumed });
            }
            *self = Self { args, left: args, first: consumed, at: consumed };
        }
        while self.left > 0 {
            // A length that does not end where the request has to is one of an argument that does not.
            let rest = &buf[self.at..buf.len().min(limits.request_bytes_max).max(self.at)];
            let (len, line_bytes) = match rest {
                [b'$', behind @ ..] => match length(behind, limits)? {
                    None if buf.len() < limits.request_bytes_max => return Ok(Parsed::Incomplete),
                    None => return self.too_long(buf),
                    Some((len, bytes)) => (len, 1 + bytes),
                },
                [] if buf.len() < limits.request_bytes_max => return Ok(Parsed::Incomplete),
                [] => return self.too_long(buf),
                [other, ..] => return Err(ProtocolError::ExpectedBulk(*other)),
            };
            if len >= limits.long_bytes_min && self.left < self.args {
                let consumed = self.at + line_bytes;
                return Ok(Parsed::Head { args: self.seen(buf), value_len: len, left: self.left - 1, consumed });
            }
            let end = line_bytes + len as usize;
            if self.at + end + 2 > limits.request_bytes_max {
                return self.too_long(buf);
            }
            match rest.get(end..end + 2) {
                None => return Ok(Parsed::Incomplete),
                Some(b"\r\n") => self.at += end + 2,
                Some(_) => return Err(ProtocolError::ArgumentEnd),
            }
            self.left -= 1;
        }
        let (args, consumed) = (self.seen(buf), self.at);
        *self = Self::new();
        Ok(Parsed::Request { args, consumed })
    }

    /// The arguments that are whole.
    #[inline(always)]
    fn seen<'b>(&self, buf: &'b [u8]) -> Args<'b> {
        Args { rest: &buf[self.first..self.at], left: self.args - self.left }
    }

    #[cold]
    fn too_long<'b>(&mut self, buf: &'b [u8]) -> Result<Parsed<'b>, ProtocolError> {
        if self.left == self.args {
            // Nothing says what it would be.
            return Err(ProtocolError::RequestTooLong);
        }
        let (args, left, consumed) = (self.seen(buf), self.left, self.at);
        *self = Self::new();
        Ok(Parsed::Long { args, left, consumed })
    }
}

/// The beginning of an argument of a request that is not read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'b> {
    /// It is not whole, and this many bytes are needed to go on; 0 if that is not known.
    Incomplete {
        /// Bytes from the argument's first on.
        want: usize,
    },
    /// An argument.
    Whole {
        /// It.
        bytes: &'b [u8],
        /// Its bytes with its length and its end.
        consumed: usize,
    },
    /// One that is longer than [`Limits::request_bytes_max`] or [`Limits::long_bytes_min`]: behind `consumed` come
    /// `len` bytes and `\r\n`.
    Long {
        /// Its bytes.
        len: u32,
        /// Bytes up to its first.
        consumed: usize,
    },
    /// The stream cannot be followed any more: send the error to the client and close.
    Fatal(ProtocolError),
}

/// Reads the argument at the start of `buf`: one of those that [`Parsed::Long`] or [`Parsed::Head`] says are left.
pub fn argument<'b>(buf: &'b [u8], limits: &Limits) -> Argument<'b> {
    let (len, line_bytes) = match buf {
        [] => return Argument::Incomplete { want: 0 },
        [b'$', behind @ ..] => match length(behind, limits) {
            Ok(None) => return Argument::Incomplete { want: 0 },
            Ok(Some((len, bytes))) => (len, 1 + bytes),
            Err(error) => return Argument::Fatal(error),
        },
        [other, ..] => return Argument::Fatal(ProtocolError::ExpectedBulk(*other)),
    };
    let end = line_bytes + len as usize;
    if len >= limits.long_bytes_min || end + 2 > limits.request_bytes_max {
        return Argument::Long { len, consumed: line_bytes };
    }
    match buf.get(end..end + 2) {
        None => Argument::Incomplete { want: end + 2 },
        Some(b"\r\n") => Argument::Whole { bytes: &buf[line_bytes..end], consumed: end + 2 },
        Some(_) => Argument::Fatal(ProtocolError::ArgumentEnd),
    }
}

/// A count of arguments and its line's bytes; `None`: not all there. A count below 0 is one of 0, as with Redis.
#[inline(always)]
fn count(buf: &[u8], limits: &Limits) -> Result<Option<(u32, usize)>, ProtocolError> {
    let (count, bytes) = match number::plain(buf) {
        Some((count, bytes)) => (i64::from(count), bytes),
        None => match number::line(buf) {
            Line::Incomplete => return Ok(None),
            Line::TooLong => return Err(ProtocolError::CountTooLong),
            Line::BareNewline => return Err(ProtocolError::Count),
            Line::Complete(text, bytes) => (base::decimal::parse_signed(text).ok_or(ProtocolError::Count)?, bytes),
        },
    };
    match u32::try_from(count.max(0)) {
        Ok(count) if count <= limits.args_max.min(ARGS_MAX) => Ok(Some((count, bytes))),
        Ok(count) if count <= ARGS_MAX && !limits.authenticated => Err(ProtocolError::UnauthenticatedCount),
        _ => Err(ProtocolError::Count),
    }
}

/// A length of an argument and its line's bytes; `None`: not all there.
#[inline(always)]
fn length(buf: &[u8], limits: &Limits) -> Result<Option<(u32, usize)>, ProtocolError> {
    let (length, bytes) = match number::plain(buf) {
        Some((length, bytes)) => (i64::from(length), bytes),
        None => match number::line(buf) {
            Line::Incomplete => return Ok(None),
            Line::TooLong => return Err(ProtocolError::LengthTooLong),
            Line::BareNewline => return Err(ProtocolError::Length),
            Line::Complete(text, bytes) => (base::decimal::parse_signed(text).ok_or(ProtocolError::Length)?, bytes),
        },
    };
    match u32::try_from(length) {
        Ok(length) if length <= limits.bulk_bytes_max.min(BULK_BYTES_MAX) => Ok(Some((length, bytes))),
        Ok(length) if length <= BULK_BYTES_MAX && !limits.authenticated => Err(ProtocolError::UnauthenticatedLength),
        _ => Err(ProtocolError::Length),
    }
}

/// Words on a line that ends in `\r\n` or in `\n` alone.
fn inline(buf: &[u8]) -> Result<Parsed<'_>, ProtocolError> {
    use crate::memcache::line::{self, Line};
    const _: () = assert!(line::LINE_BYTES_MAX == super::LINE_BYTES_MAX);
    match line::line(buf) {
        Line::Incomplete => Ok(Parsed::Incomplete),
        Line::TooLong => Err(ProtocolError::InlineTooLong),
        Line::Complete { text, consumed } => Ok(match Inline::new(text)? {
            Some(inline) => Parsed::Inline { inline, consumed },
            None => Parsed::Nothing { consumed },
        }),
    }
}

/// The arguments of a request, in order, each where it lies in the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Args<'b> {
    /// Well-formed bulk strings, one behind the other.
    rest: &'b [u8],
    left: u32,
}

impl<'b> Args<'b> {
    /// The last `left` arguments of a request that was read before: `rest` holds them and nothing else.
    ///
    /// Iterating panics if it does not, so `rest` is never what a client sent without having been read as a request.
    pub fn resumed(rest: &'b [u8], left: u32) -> Self {
        Self { rest, left }
    }

    /// Those behind the first `args`, which take `bytes` with their lengths and ends.
    #[must_use]
    pub fn behind(self, args: u32, bytes: usize) -> Self {
        Self { rest: &self.rest[bytes..], left: self.left.saturating_sub(args) }
    }

    /// Those that are left as they came, with their lengths and ends.
    pub fn wire(&self) -> &'b [u8] {
        self.rest
    }

    /// Those behind the first one.
    #[must_use]
    pub fn behind_first(mut self) -> Self {
        self.next();
        self
    }

    /// The first `args` of them, or all if there are fewer, and those behind.
    pub fn split(self, args: u32) -> (Self, Self) {
        let mut behind = self;
        let count = (0..args).take_while(|_| behind.next().is_some()).count() as u32;
        (Self { rest: &self.rest[..self.rest.len() - behind.rest.len()], left: count }, behind)
    }

    /// Bytes of those that are left, with their lengths and ends.
    pub fn wire_bytes(&self) -> usize {
        self.rest.len()
    }
}

impl<'b> Iterator for Args<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        if self.left == 0 {
            return None;
        }
        // Every length up to the maximum has the plain form.
        const _: () = assert!(BULK_BYTES_MAX < 1_000_000_000);
        let (len, bytes) = number::plain(&self.rest[1..]).expect("the length was read before, as part of the request");
        let (arg, rest) = self.rest[1 + bytes..].split_at(len as usize);
        self.rest = &rest[2..];
        self.left -= 1;
        Some(arg)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Args<'_> {}
