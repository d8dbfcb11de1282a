//! Answers in: reply lines and the pieces of values, whatever way they were cut.

use super::expect::{Expect, Place};
use super::garbage::Garbage;
use super::reply::{self, Parsed, Reply, plain_value};

/// Reads the answer to one request. It is the request's [`Expect`] and how much of a value is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoder {
    expect: Expect,
    /// Bytes of a value and its line end that are still to come; 0: a line is next.
    rest: u64,
}

/// The next part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// A reply line. Where it announces a value, its pieces and [`Event::ValueEnd`] follow.
    Reply(Reply<'b>),
    /// The next bytes of a value: never empty.
    Piece(&'b [u8]),
    /// The value is whole and its line end is right.
    ValueEnd,
}

/// One step of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'b> {
    /// The part that was read.
    pub event: Event<'b>,
    /// Bytes of the buffer that are used up: at least 1.
    pub consumed: usize,
    /// The answer is whole: the next byte belongs to the next request's.
    pub last: bool,
}

/// Bytes behind a value.
const VALUE_END_BYTES: u64 = 2;

impl Decoder {
    /// At the start of an answer.
    #[inline]
    pub const fn new(expect: Expect) -> Self {
        Self { expect, rest: 0 }
    }

    /// Returns a decoder in the state whose [`Decoder::rest`] this is.
    #[inline]
    pub const fn resume(expect: Expect, rest: u64) -> Self {
        Self { expect, rest }
    }

    /// Returns the kind of answer that is expected.
    #[inline]
    pub const fn expect(&self) -> Expect {
        self.expect
    }

    /// Bytes of the present value that are still to come, its line end included; 0 between values.
    #[inline]
    pub const fn rest(&self) -> u64 {
        self.rest
    }

    /// Takes the next step over `buf`, which begins where the last step's `consumed` ended. `None`: more bytes are
    /// wanted, and those in `buf` must be shown again with them.
    ///
    /// # Errors
    /// [`Garbage`]: this is no answer. Its bytes are not used up.
    #[inline]
    pub fn step<'b>(&mut self, buf: &'b [u8]) -> Result<Option<Step<'b>>, Garbage> {
        if self.rest == 0 { self.line(buf) } else { self.value(buf) }
    }

    #[inline]
    fn line<'b>(&mut self, buf: &'b [u8]) -> Result<Option<Step<'b>>, Garbage> {
        let (reply, consumed) = match reply::reply(buf) {
            Parsed::Reply { reply, consumed } => (reply, consumed),
            Parsed::Incomplete => return Ok(None),
            Parsed::Garbage(garbage) => return Err(garbage),
        };
        let place = self.expect.place(&reply);
        if place == Place::Foreign {
            return Err(Garbage::Unexpected);
        }
        self.rest = match reply {
            Reply::Value(reply::ValueHeader { len, .. }) | Reply::MetaValue { len, .. } => {
                u64::from(len) + VALUE_END_BYTES
            }
            _ => 0,
        };
        Ok(Some(Step { event: Event::Reply(reply), consumed, last: place == Place::Last && self.rest == 0 }))
    }

    #[inline]
    fn value<'b>(&mut self, buf: &'b [u8]) -> Result<Option<Step<'b>>, Garbage> {
        if self.rest > VALUE_END_BYTES {
            let len = (self.rest - VALUE_END_BYTES).min(buf.len() as u64) as usize;
            if len == 0 {
                return Ok(None);
            }
            self.rest -= len as u64;
            return Ok(Some(Step { event: Event::Piece(&buf[..len]), consumed: len, last: false }));
        }
        match buf {
            [b'\r', b'\n', ..] => {
                self.rest = 0;
                // Of all answers with a value only that of one meta command ends with it.
                let last = self.expect == Expect::Meta;
                Ok(Some(Step { event: Event::ValueEnd, consumed: VALUE_END_BYTES as usize, last }))
            }
            [] | [b'\r'] => Ok(None),
            _ => Err(Garbage::ValueEnd),
        }
    }
}

/// A lone `get`'s hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit<'b> {
    /// The key.
    pub key: &'b [u8],
    /// The flags that the client stored with the value.
    pub client_flags: u32,
    /// The value.
    pub value: &'b [u8],
}

/// The whole answer to a `get` of one key that was found, in its plainest form, and its bytes. Anything else, what is
/// not all there included, is left to [`Decoder`], which reads this form just the same.
#[inline]
pub fn lone_hit(buf: &[u8]) -> Option<(Hit<'_>, usize)> {
    const BEHIND: &[u8; 7] = b"\r\nEND\r\n";
    let (header, consumed) = plain_value(buf)?;
    let value_end = consumed + header.len as usize;
    let behind: &[u8; 7] = buf.get(value_end..)?.first_chunk()?;
    if behind != BEHIND {
        return None;
    }
    let value = &buf[consumed..value_end];
    Some((Hit { key: header.key, client_flags: header.client_flags, value }, value_end + BEHIND.len()))
}
