//! Decodes responses: reply lines and pieces of values, independent of how the stream was cut into packets.

use super::expect::{Expect, ReplyPosition};
use super::garbage::Garbage;
use super::reply::{self, ParsedReply, Reply, plain_value};

/// Decodes the response to one request. The decoder's state is the request's [`Expect`] and the outstanding length of
/// the current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoder {
    expect: Expect,
    /// The number of bytes of a value and its line end that are outstanding; 0 if a line is next.
    rest: u64,
}

/// The next part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// A reply line. If it announces a value, the value's pieces and [`Event::ValueEnd`] follow.
    Reply(Reply<'b>),
    /// The next bytes of a value; never empty.
    Piece(&'b [u8]),
    /// The value is complete and its line end is correct.
    ValueEnd,
}

/// One step of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'b> {
    /// The decoded part.
    pub event: Event<'b>,
    /// The number of bytes consumed from the buffer, at least 1.
    pub consumed: usize,
    /// True if the response is complete. The next byte belongs to the next response.
    pub last: bool,
}

/// Length of the line end after a value.
const VALUE_END_BYTES: u64 = 2;

impl Decoder {
    /// Creates a decoder at the start of a response.
    #[inline]
    pub const fn new(expect: Expect) -> Self {
        Self { expect, rest: 0 }
    }

    /// Creates a decoder in the state that [`Decoder::rest`] returned.
    #[inline]
    pub const fn resume(expect: Expect, rest: u64) -> Self {
        Self { expect, rest }
    }

    /// Returns the expected response.
    #[inline]
    pub const fn expect(&self) -> Expect {
        self.expect
    }

    /// Returns the number of bytes of the current value that are outstanding, including its line end; 0 between
    /// values.
    #[inline]
    pub const fn rest(&self) -> u64 {
        self.rest
    }

    /// Decodes the next part of `buf`, which must begin where the last step's `consumed` ended. Returns `None` if more
    /// bytes are needed; then pass the bytes in `buf` again, followed by more.
    ///
    /// # Errors
    /// [`Garbage`] if the bytes are not a valid response. The bytes are not consumed.
    #[inline]
    pub fn step<'b>(&mut self, buf: &'b [u8]) -> Result<Option<Step<'b>>, Garbage> {
        if self.rest == 0 { self.line(buf) } else { self.value(buf) }
    }

    #[inline]
    fn line<'b>(&mut self, buf: &'b [u8]) -> Result<Option<Step<'b>>, Garbage> {
        let (reply, consumed) = match reply::reply(buf) {
            ParsedReply::Reply { reply, consumed } => (reply, consumed),
            ParsedReply::Incomplete => return Ok(None),
            ParsedReply::Garbage(garbage) => return Err(garbage),
        };
        let place = self.expect.place(&reply);
        if place == ReplyPosition::Foreign {
            return Err(Garbage::Unexpected);
        }
        self.rest = match reply {
            Reply::Value(reply::ValueHeader { len, .. }) | Reply::MetaValue { len, .. } => {
                u64::from(len) + VALUE_END_BYTES
            }
            _ => 0,
        };
        Ok(Some(Step { event: Event::Reply(reply), consumed, last: place == ReplyPosition::Last && self.rest == 0 }))
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
                // Of all responses with values, only that of a single meta command ends with the value.
                let last = self.expect == Expect::Meta;
                Ok(Some(Step { event: Event::ValueEnd, consumed: VALUE_END_BYTES as usize, last }))
            }
            [] | [b'\r'] => Ok(None),
            _ => Err(Garbage::ValueEnd),
        }
    }
}

/// The hit of a `get` for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit<'b> {
    /// The key.
    pub key: &'b [u8],
    /// The flags that the client stored with the value.
    pub client_flags: u32,
    /// The value.
    pub value: &'b [u8],
}

/// Decodes a complete response to a `get` of one key that hit, and returns the hit with the length of the response.
/// Returns `None` for every other or incomplete response. For them, the caller uses [`Decoder`], which decodes all
/// responses.
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
