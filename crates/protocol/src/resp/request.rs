//! Requests as a server reads them: arrays of bulk strings, or words on a line.
//!
//! ```text
//!  *3\r\n $3\r\nSET\r\n $1\r\na\r\n $2\r\nxy\r\n
//!         |--- args: shown again, in place --|   consumed
//! ```
//!
//! A request stays in the receive buffer until it is whole; the parser remembers how far it has looked, so that one
//! that comes in many pieces is not looked at again from its start. A last argument that is long need not be in the
//! buffer: [`Parsed::Head`].

use super::error::ProtocolError;
use super::inline::Inline;
use super::number::{self, Line};
use super::{ARGS_MAX, BULK_BYTES_MAX};

/// What a server takes from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most arguments of a request; at most [`ARGS_MAX`].
    pub args_max: u32,
    /// The longest argument in bytes; at most [`BULK_BYTES_MAX`].
    pub bulk_bytes_max: u32,
    /// The longest request in bytes, all of it that has to be in the buffer.
    pub request_bytes_max: usize,
    /// A last argument from this many bytes on is not waited for: [`Parsed::Head`].
    pub long_bytes_min: u32,
    /// The client has said who it is, or need not.
    pub authenticated: bool,
}

impl Limits {
    /// What Redis takes, and last arguments from 16 KiB on apart.
    pub const REDIS: Self = Self {
        args_max: ARGS_MAX,
        bulk_bytes_max: BULK_BYTES_MAX,
        request_bytes_max: 1 << 30,
        long_bytes_min: 16 * 1024,
        authenticated: true,
    };

    /// What Redis takes from a client that has not said who it is.
    pub const UNAUTHENTICATED: Self =
        Self { args_max: 10, bulk_bytes_max: 16 * 1024, long_bytes_min: u32::MAX, authenticated: false, ..Self::REDIS };
}

/// What a receive buffer begins with.
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
    /// A request whose last argument is long: behind `consumed` come `value_len` bytes and `\r\n`.
    Head {
        /// The arguments but for the last: at least one.
        args: Args<'b>,
        /// Bytes of the last argument.
        value_len: u32,
        /// Bytes up to the last argument's first.
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
    /// The stream cannot be followed any more: tell the client and close.
    Fatal(ProtocolError),
}

/// Reads the requests of one connection. All that it keeps is how far it has looked into the one at the buffer's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parser {
    /// Arguments of the request that is begun; 0: none is.
    args: u32,
    /// Of these, those not seen yet.
    left: u32,
    /// Where the first argument begins.
    first: usize,
    /// Where the next argument begins.
    pub(super) at: usize,
}

impl Parser {
    /// At the start of a request.
    pub const fn new() -> Self {
        Self { args: 0, left: 0, first: 0, at: 0 }
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
            let rest = &buf[self.at..];
            let (len, line_bytes) = match rest {
                [] => return Ok(Parsed::Incomplete),
                [b'$', behind @ ..] => match length(behind, limits)? {
                    None => return Ok(Parsed::Incomplete),
                    Some((len, bytes)) => (len, 1 + bytes),
                },
                [other, ..] => return Err(ProtocolError::ExpectedBulk(*other)),
            };
            if self.left == 1 && self.args > 1 && len >= limits.long_bytes_min {
                let args = Args { rest: &buf[self.first..self.at], left: self.args - 1 };
                let consumed = self.at + line_bytes;
                *self = Self::new();
                return Ok(Parsed::Head { args, value_len: len, consumed });
            }
            let end = line_bytes + len as usize;
            if self.at + end + 2 > limits.request_bytes_max {
                return Err(ProtocolError::RequestTooLong);
            }
            match rest.get(end..end + 2) {
                None => return Ok(Parsed::Incomplete),
                Some(b"\r\n") => self.at += end + 2,
                Some(_) => return Err(ProtocolError::ArgumentEnd),
            }
            self.left -= 1;
        }
        let (args, consumed) = (Args { rest: &buf[self.first..self.at], left: self.args }, self.at);
        *self = Self::new();
        Ok(Parsed::Request { args, consumed })
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
