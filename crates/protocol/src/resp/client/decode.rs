//! Replies in, head by head and piece by piece, whatever way they were cut.

use super::garbage::Garbage;
use super::head::{self, Head, ParsedHead, VALUES_MAX};
use crate::resp::number;

/// Reads one reply. Its state is the number of replies within it, itself included, that are still to come, and the part
/// of a string that is.
///
/// A message out of band ([`Head::Push`]) may come where a reply is awaited. It is read as a reply of its own. A caller
/// that sees one begin knows that the request's reply is still to come, and begins a new decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoder {
    /// Replies still to come; 0 when the reply is whole.
    left: u32,
    /// Something of the reply has come.
    begun: bool,
    /// Bytes of a string and its line end that are still to come; 0: a head is next.
    rest: u64,
}

/// The next part of a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'b> {
    /// The head of a reply. Where it announces a string, its pieces and [`Event::BulkEnd`] follow; where it announces
    /// replies, their events follow.
    Head(Head<'b>),
    /// The next bytes of a string: never empty.
    Piece(&'b [u8]),
    /// The string is whole and its line end is right.
    BulkEnd,
}

/// One step of a decoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<'b> {
    /// The part that was read.
    pub event: Event<'b>,
    /// Bytes of the buffer that are used up: at least 1.
    pub consumed: usize,
    /// The reply is whole: the next byte belongs to the next one.
    pub last: bool,
}

/// Bytes behind a string.
const BULK_END_BYTES: u64 = 2;

/// In a decoder's packed state: something of the reply has come.
const BEGUN: u32 = 1 << 31;

impl Decoder {
    /// At the start of a reply.
    #[inline]
    pub const fn new() -> Self {
        Self { left: 1, begun: false, rest: 0 }
    }

    /// All that it is, in two numbers: [`Decoder::resume`] makes the same of them.
    #[inline]
    pub const fn state(&self) -> (u32, u64) {
        (self.left | if self.begun { BEGUN } else { 0 }, self.rest)
    }

    /// The decoder whose [`Decoder::state`] this is.
    #[inline]
    pub const fn resume((left, rest): (u32, u64)) -> Self {
        Self { left: left & !BEGUN, begun: left & BEGUN != 0, rest }
    }

    /// Bytes of the present string that are still to come, its line end included; 0 between strings.
    #[inline]
    pub const fn rest(&self) -> u64 {
        self.rest
    }

    /// Replies within this one, itself included, that are still to come.
    #[inline]
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// Takes the next step over `buf`, which begins where the last step's `consumed` ended. `None`: more bytes are
    /// wanted, and those in `buf` must be shown again with them.
    ///
    /// # Errors
    /// [`Garbage`]: this is no reply. Its bytes are not used up.
    ///
    /// # Panics
    /// After the last step of a reply.
    #[inline]
    pub fn step<'b>(&mut self, buf: &'b [u8]) -> Result<Option<Step<'b>>, Garbage> {
        assert!(self.left > 0, "the reply is whole");
        if self.rest == 0 { self.head(buf) } else { self.string(buf) }
    }

    #[inline]
    fn head<'b>(&mut self, buf: &'b [u8]) -> Result<Option<Step<'b>>, Garbage> {
        let (head, consumed) = match head::head(buf) {
            ParsedHead::Head { head, consumed } => (head, consumed),
            ParsedHead::Incomplete => return Ok(None),
            ParsedHead::Garbage(garbage) => return Err(garbage),
        };
        let mut left = u64::from(self.left) + head.values();
        match head {
            Head::Push(_) if self.begun => return Err(Garbage::NestedPush),
            // The reply that an attribute is about is still to come.
            Head::Attribute(_) => {}
            head => match head.bytes() {
                Some(len) => self.rest = u64::from(len) + BULK_END_BYTES,
                None => left -= 1,
            },
        }
        if left > u64::from(VALUES_MAX) {
            return Err(Garbage::TooManyValues);
        }
        self.left = left as u32;
        self.begun = true;
        Ok(Some(Step { event: Event::Head(head), consumed, last: left == 0 }))
    }

    #[inline]
    fn string<'b>(&mut self, buf: &'b [u8]) -> Result<Option<Step<'b>>, Garbage> {
        if self.rest > BULK_END_BYTES {
            let len = (self.rest - BULK_END_BYTES).min(buf.len() as u64) as usize;
            if len == 0 {
                return Ok(None);
            }
            self.rest -= len as u64;
            return Ok(Some(Step { event: Event::Piece(&buf[..len]), consumed: len, last: false }));
        }
        match buf {
            [b'\r', b'\n', ..] => {
                (self.rest, self.left) = (0, self.left - 1);
                let consumed = BULK_END_BYTES as usize;
                Ok(Some(Step { event: Event::BulkEnd, consumed, last: self.left == 0 }))
            }
            [] | [b'\r'] => Ok(None),
            _ => Err(Garbage::BulkEnd),
        }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

/// A whole bulk string at the start of `buf`, and its bytes with head and line end: what most replies to a `GET` are.
/// Anything else, what is not all there included, is left to [`Decoder`], which reads this form just the same.
#[inline]
pub fn lone_bulk(buf: &[u8]) -> Option<(&[u8], usize)> {
    let (len, bytes) = number::plain(buf.strip_prefix(b"$")?)?;
    let (from, to) = (1 + bytes, 1 + bytes + len as usize);
    match buf.get(from..to + 2)?.split_at(len as usize) {
        (bulk, b"\r\n") => Some((bulk, to + 2)),
        _ => None,
    }
}
