//! Parses the requests that a server receives: arrays of bulk strings, or words on a line.
//!
//! ```text
//!  *3\r\n $3\r\nSET\r\n $1\r\na\r\n $2\r\nxy\r\n
//!         |----- args, borrowed in place ----|   consumed
//! ```
//!
//! A request stays in the receive buffer until it is complete. The parser remembers its position, so that a request
//! that arrives in many pieces is not parsed again from its start. A long argument need not fit in the buffer
//! ([`Parsed::Head`]), nor need a request that is longer than the buffer ([`Parsed::Long`]). The rest of such requests
//! is read argument by argument ([`argument`]).

use super::error::ProtocolError;
use super::inline::Inline;
use super::number::{self, Line};
use super::{ARGS_MAX, BULK_BYTES_MAX};

/// A server's limits on the requests of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of arguments in a request; at most [`ARGS_MAX`].
    pub args_max: u32,
    /// The maximum length of an argument in bytes; at most [`BULK_BYTES_MAX`].
    pub bulk_bytes_max: u32,
    /// The maximum number of buffered bytes of one request. A longer request is parsed in parts: see [`Parsed::Long`].
    pub request_bytes_max: usize,
    /// Arguments of this length or more, except the first one, are not buffered: see [`Parsed::Head`].
    pub long_bytes_min: u32,
    /// True if the client has authenticated, or need not.
    pub authenticated: bool,
}

impl Limits {
    /// The limits of Redis. Arguments of 16 KiB or more are read separately.
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

/// The result of parsing the start of a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'b> {
    /// The request is not complete yet.
    Incomplete,
    /// A request.
    Request {
        /// The arguments, at least one.
        args: Args<'b>,
        /// The length of the request in bytes.
        consumed: usize,
    },
    /// A request with a long argument. After `consumed`, `value_len` bytes and `\r\n` follow, then `left` more
    /// arguments.
    ///
    /// To accept such a request, read the rest without this parser and continue with [`Parser::new`]. To decline it,
    /// parse again with a larger [`Limits::long_bytes_min`].
    Head {
        /// The arguments before the long one, at least one.
        args: Args<'b>,
        /// The length of the long argument in bytes.
        value_len: u32,
        /// The number of arguments after the long one.
        left: u32,
        /// The number of bytes before the long argument's first byte.
        consumed: usize,
    },
    /// A request that is longer than [`Limits::request_bytes_max`]. After `consumed`, `left` more arguments follow.
    /// Read them with [`argument`], then continue with [`Parser::new`].
    Long {
        /// The arguments before the one that does not fit, at least one.
        args: Args<'b>,
        /// The number of arguments left: the one that does not fit, and those after it.
        left: u32,
        /// The number of bytes before that argument's length.
        consumed: usize,
    },
    /// An inline command: words on a line. The caller must rewrite it to an array of bulk strings and parse that.
    Inline {
        /// The words.
        inline: Inline<'b>,
        /// The length of the line, including its end.
        consumed: usize,
    },
    /// An empty line or an empty array: not a request, and without a reply.
    Nothing {
        /// The length of the empty line or array, in bytes.
        consumed: usize,
    },
    /// The rest of the stream cannot be parsed: send the error to the client and close the connection.
    Fatal(ProtocolError),
}

/// Parses the requests of one connection. The state is only the position in the request at the buffer's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parser {
    /// The number of arguments of the current request; 0 if none has begun.
    args: u32,
    /// The number of those arguments that are not parsed yet.
    left: u32,
    /// Offset of the first argument.
    first: usize,
    /// Offset of the next argument.
    pub(super) at: usize,
}

impl Parser {
    /// Creates a parser at the start of a request.
    pub const fn new() -> Self {
        Self { args: 0, left: 0, first: 0, at: 0 }
    }

    /// Returns true if no request has begun.
    #[inline(always)]
    pub const fn is_at_start(&self) -> bool {
        self.args == 0
    }

    /// Parses the request at the start of `buf`. After [`Parsed::Incomplete`], pass the same bytes again, followed by
    /// more. After any other result, pass the bytes after `consumed`.
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
        let may_be_short = limits.long_bytes_min.min(limits.bulk_bytes_max) > number::SHORT_MAX;
        while self.left > 0 {
            // If a length line does not end where the request must end, its argument does not fit either.
            let rest = &buf[self.at..buf.len().min(limits.request_bytes_max).max(self.at)];
            if may_be_short && let Some(bytes) = short(rest) {
                self.at += bytes;
                self.left -= 1;
                continue;
            }
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

    /// Returns the arguments that are parsed so far.
    #[inline(always)]
    fn seen<'b>(&self, buf: &'b [u8]) -> Args<'b> {
        Args { rest: &buf[self.first..self.at], left: self.args - self.left }
    }

    #[cold]
    fn too_long<'b>(&mut self, buf: &'b [u8]) -> Result<Parsed<'b>, ProtocolError> {
        if self.left == self.args {
            // Without a first argument, the command is unknown.
            return Err(ProtocolError::RequestTooLong);
        }
        let (args, left, consumed) = (self.seen(buf), self.left, self.at);
        *self = Self::new();
        Ok(Parsed::Long { args, left, consumed })
    }
}

/// The result of parsing an argument of a request that is read piece by piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'b> {
    /// The argument is incomplete.
    Incomplete {
        /// The number of bytes needed to continue, from the start of the argument; 0 if that is unknown.
        want: usize,
    },
    /// An argument.
    Whole {
        /// The argument's bytes.
        bytes: &'b [u8],
        /// The length of the argument in bytes, including its length line and its end.
        consumed: usize,
    },
    /// An argument that exceeds [`Limits::request_bytes_max`] or reaches [`Limits::long_bytes_min`]. After `consumed`,
    /// `len` bytes and `\r\n` follow.
    Long {
        /// The length of the argument in bytes.
        len: u32,
        /// The number of bytes before its first byte.
        consumed: usize,
    },
    /// The rest of the stream cannot be parsed: send the error to the client and close the connection.
    Fatal(ProtocolError),
}

/// Parses the argument at the start of `buf`, one of those left after [`Parsed::Long`] or [`Parsed::Head`].
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

/// Parses an argument count, and returns the count and the length of its line; `None` if the line is incomplete. As
/// with Redis, a count below 0 means 0.
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

/// Parses an argument length, and returns it together with the length of its line; `None` if the line is incomplete.
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

/// Returns the bytes of the argument at the start of `rest`, with its length line and its end, if it is complete and
/// its length has one digit or two. Nearly all arguments are such; all others need [`length`].
#[inline(always)]
fn short(rest: &[u8]) -> Option<usize> {
    let (len, line_bytes) = match rest {
        [b'$', behind @ ..] => number::short(behind)?,
        _ => return None,
    };
    let end = 1 + line_bytes + len as usize;
    (rest.get(end..end + 2) == Some(b"\r\n")).then_some(end + 2)
}

/// Parses words on a line that ends in `\r\n` or in `\n` alone. A line of HTTP is an error.
fn inline(buf: &[u8]) -> Result<Parsed<'_>, ProtocolError> {
    use crate::memcache::line::{self, Line};
    const _: () = assert!(line::LINE_BYTES_MAX == super::LINE_BYTES_MAX);
    match line::line(buf) {
        Line::Incomplete => Ok(Parsed::Incomplete),
        Line::TooLong => Err(ProtocolError::InlineTooLong),
        Line::Complete { text, .. } if crate::http::is_http(text) => Err(ProtocolError::Http),
        Line::Complete { text, consumed } => Ok(match Inline::new(text)? {
            Some(inline) => Parsed::Inline { inline, consumed },
            None => Parsed::Nothing { consumed },
        }),
    }
}

/// The arguments of a request in order, in place in the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Args<'b> {
    /// Well-formed bulk strings, one after the other.
    rest: &'b [u8],
    left: u32,
}

impl<'b> Args<'b> {
    /// Restores the last `left` arguments of a request that was parsed before. `rest` must hold exactly these
    /// arguments.
    ///
    /// Iteration panics or returns other bytes of `rest` if it holds anything else, so never pass client bytes that
    /// were not parsed as a request.
    pub fn resumed(rest: &'b [u8], left: u32) -> Self {
        Self { rest, left }
    }

    /// Returns the arguments after the first `args`, which take `bytes` bytes including their length lines and ends.
    #[must_use]
    pub fn after(self, args: u32, bytes: usize) -> Self {
        Self { rest: &self.rest[bytes..], left: self.left.saturating_sub(args) }
    }

    /// Returns the encoded remaining arguments, including their length lines and ends.
    pub fn wire(&self) -> &'b [u8] {
        self.rest
    }

    /// Returns the arguments after the first one.
    #[must_use]
    pub fn after_first(mut self) -> Self {
        self.next();
        self
    }

    /// Splits off the first `args` arguments, or all if there are fewer. Returns them and the rest.
    pub fn split(self, args: u32) -> (Self, Self) {
        let mut behind = self;
        let count = (0..args).take_while(|_| behind.next().is_some()).count() as u32;
        (Self { rest: &self.rest[..self.rest.len() - behind.rest.len()], left: count }, behind)
    }

    /// Returns the length in bytes of the remaining arguments, including their length lines and ends.
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
        // Every length up to the maximum has the simple form.
        const _: () = assert!(BULK_BYTES_MAX < 1_000_000_000);
        let (len, bytes) = number::accepted(&self.rest[1..]);
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
