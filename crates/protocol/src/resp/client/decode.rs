//! Decodes replies in heads and pieces, independent of how the stream was cut into packets.

use super::garbage::Garbage;
use super::head::{self, Head, ParsedHead, VALUES_MAX};
use crate::resp::number;

/// Decodes one reply. The decoder's state consists of the number of outstanding replies (the reply itself and replies
/// nested in it) and the number of outstanding bytes of the current string.
///
/// A push message ([`Head::Push`]) may arrive where a reply is expected. It is decoded as a reply of its own. A caller
/// that receives [`Head::Push`] knows that the request's reply is outstanding, and creates a new decoder for that
/// reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoder {
    /// Number of replies outstanding; 0 if the reply is complete.
    left: u32,
    /// True if a part of the reply has arrived.
    begun: bool,
    /// Number of bytes of a string and its line end that are outstanding; 0 if a head is next.
    rest: u64,
}

/// The next part of a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'b> {
    /// The head of a reply. If it announces a string, the string's pieces and [`Event::BulkEnd`] follow. If it
    /// announces replies, their events follow.
    Head(Head<'b>),
    /// The next bytes of a string; never empty.
    Piece(&'b [u8]),
    /// The string is complete and its line end is correct.
    BulkEnd,
}

/// One step of a decoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<'b> {
    /// The decoded part.
    pub event: Event<'b>,
    /// Number of bytes consumed from the buffer, at least 1.
    pub consumed: usize,
    /// True if the reply is complete. The next byte belongs to the next reply.
    pub last: bool,
}

/// Length of the line end after a string.
const BULK_END_BYTES: u64 = 2;

/// Bit in a decoder's packed state: a part of the reply has arrived.
const BEGUN: u32 = 1 << 31;

impl Decoder {
    /// Creates a decoder at the start of a reply.
    #[inline]
    pub const fn new() -> Self {
        Self { left: 1, begun: false, rest: 0 }
    }

    /// Returns the whole state as two numbers; [`Decoder::resume`] restores it.
    #[inline]
    pub const fn state(&self) -> (u32, u64) {
        (self.left | if self.begun { BEGUN } else { 0 }, self.rest)
    }

    /// Creates a decoder in the state that [`Decoder::state`] returned.
    #[inline]
    pub const fn resume((left, rest): (u32, u64)) -> Self {
        Self { left: left & !BEGUN, begun: left & BEGUN != 0, rest }
    }

    /// Returns the number of bytes of the current string that are outstanding, including its line end; 0 between
    /// strings.
    #[inline]
    pub const fn rest(&self) -> u64 {
        self.rest
    }

    /// Returns the number of replies within this one, including itself, that are outstanding.
    #[inline]
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// Decodes the next part of `buf`, which must begin where the last step's `consumed` ended. Returns `None` if more
    /// bytes are needed; then pass the bytes in `buf` again, followed by more.
    ///
    /// # Errors
    /// [`Garbage`] if the bytes are not a valid reply. The bytes are not consumed.
    ///
    /// # Panics
    /// If called after the last step of a reply.
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
            // The reply that the attribute belongs to is outstanding.
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

/// Decodes a complete bulk string at the start of `buf`, as in most replies to a `GET`. Returns the string and its
/// encoded length, including head and line end. Returns `None` for every other reply, also an incomplete one. For them,
/// the caller uses [`Decoder`], which also decodes this form.
#[inline]
pub fn lone_bulk(buf: &[u8]) -> Option<(&[u8], usize)> {
    let (len, bytes) = number::plain(buf.strip_prefix(b"$")?)?;
    let (from, to) = (1 + bytes, 1 + bytes + len as usize);
    match buf.get(from..to + 2)?.split_at(len as usize) {
        (bulk, b"\r\n") => Some((bulk, to + 2)),
        _ => None,
    }
}
