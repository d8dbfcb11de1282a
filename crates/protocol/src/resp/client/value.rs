//! Presents a reply that is completely in memory as a tree, read in place.
//!
//! ```text
//!  *2\r\n $1\r\n0\r\n *2\r\n $1\r\na\r\n $1\r\nb\r\n
//!  Array(items) ->  Bulk("0"), Array(items) -> Bulk("a"), Bulk("b")
//! ```
//!
//! [`value`] walks the whole reply once and checks it. Items are then decoded again on access. Each call with an
//! incomplete reply walks it from its start, so decode long replies with [`super::Decoder`].

use super::garbage::Garbage;
use super::head::{Head, ParsedHead, VALUES_MAX, head};

/// Maximum nesting depth of replies.
pub const DEPTH_MAX: usize = 32;

/// A reply, without its attributes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'b> {
    /// A simple string.
    Simple(&'b [u8]),
    /// An error of either form, beginning with its code.
    Error(&'b [u8]),
    /// An integer.
    Int(i64),
    /// A null of any form.
    Null,
    /// A boolean.
    Boolean(bool),
    /// A double.
    Double(f64),
    /// An integer of any size, in decimal.
    BigNumber(&'b [u8]),
    /// A string.
    Bulk(&'b [u8]),
    /// The three letters of a text's format, and the text.
    Verbatim(&'b [u8], &'b [u8]),
    /// An array of replies.
    Array(Items<'b>),
    /// A RESP3 map: keys and values, alternating.
    Map(Items<'b>),
    /// A RESP3 set: replies that are all different.
    Set(Items<'b>),
    /// A push message.
    Push(Items<'b>),
}

impl<'b> Value<'b> {
    /// Returns the bytes of a string of any form; `None` for other types.
    pub const fn text(&self) -> Option<&'b [u8]> {
        match self {
            Self::Simple(text) | Self::Bulk(text) | Self::Verbatim(_, text) => Some(text),
            _ => None,
        }
    }

    /// Returns the replies within an array, map, set or push message; other types have none.
    pub const fn items(&self) -> Items<'b> {
        match self {
            Self::Array(items) | Self::Map(items) | Self::Set(items) | Self::Push(items) => *items,
            _ => Items { rest: &[], left: 0 },
        }
    }
}

/// The replies within a reply, in order. Each was checked together with the whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items<'b> {
    rest: &'b [u8],
    left: u32,
}

impl<'b> Iterator for Items<'b> {
    type Item = Value<'b>;

    fn next(&mut self) -> Option<Value<'b>> {
        if self.left == 0 {
            return None;
        }
        let (item, consumed) = read(self.rest);
        self.rest = &self.rest[consumed..];
        self.left -= 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Items<'_> {}

/// The result of decoding the start of a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParsedValue<'b> {
    /// The reply is not complete yet.
    Incomplete,
    /// A reply.
    Value {
        /// The reply.
        value: Value<'b>,
        /// Length of the reply in bytes.
        consumed: usize,
    },
    /// Not a valid reply.
    Garbage(Garbage),
}

/// Decodes the complete reply at the start of `buf`.
pub fn value(buf: &[u8]) -> ParsedValue<'_> {
    match extent(buf) {
        Ok(None) => ParsedValue::Incomplete,
        Ok(Some(consumed)) => ParsedValue::Value { value: read(buf).0, consumed },
        Err(garbage) => ParsedValue::Garbage(garbage),
    }
}

/// The number of replies of one level that are outstanding. An attribute before a reply does not count as one.
#[derive(Clone, Copy)]
struct Level {
    left: u64,
    /// True if the level belongs to an attribute. The reply that the attribute describes then follows.
    attribute: bool,
}

/// Checks the reply at the start of `buf` and returns its length in bytes; `None` if it is incomplete.
fn extent(buf: &[u8]) -> Result<Option<usize>, Garbage> {
    let mut levels = [Level { left: 0, attribute: false }; DEPTH_MAX + 1];
    let (mut depth, mut at, mut left_in_all) = (0, 0, 1);
    levels[0].left = 1;
    loop {
        while levels[depth].left == 0 {
            if depth == 0 {
                return Ok(Some(at));
            }
            depth -= 1;
            levels[depth].left -= u64::from(!levels[depth + 1].attribute);
        }
        let (head, consumed) = match head(&buf[at..]) {
            ParsedHead::Head { head, consumed } => (head, consumed),
            ParsedHead::Incomplete => return Ok(None),
            ParsedHead::Garbage(garbage) => return Err(garbage),
        };
        if matches!(head, Head::Push(_)) && at > 0 {
            return Err(Garbage::NestedPush);
        }
        at += consumed;
        if let Some(len) = head.bytes() {
            if matches!((head, buf.get(at + 3)), (Head::Verbatim(_), Some(colon)) if *colon != b':') {
                return Err(Garbage::Verbatim);
            }
            match string_end(&buf[at..], len as usize)? {
                None => return Ok(None),
                Some(end) => at += end,
            }
            levels[depth].left -= 1;
            left_in_all -= 1;
            continue;
        }
        match head {
            Head::Array(_) | Head::Map(_) | Head::Set(_) | Head::Push(_) | Head::Attribute(_) => {
                if depth == DEPTH_MAX {
                    return Err(Garbage::TooDeep);
                }
                depth += 1;
                let attribute = matches!(head, Head::Attribute(_));
                levels[depth] = Level { left: head.values(), attribute };
                left_in_all += head.values();
                left_in_all -= u64::from(!attribute);
                if left_in_all > u64::from(VALUES_MAX) {
                    return Err(Garbage::TooManyValues);
                }
            }
            _ => {
                levels[depth].left -= 1;
                left_in_all -= 1;
            }
        }
    }
}

/// Returns the offset after a string of `len` bytes and its `\r\n`; `None` if the buffer ends before.
fn string_end(buf: &[u8], len: usize) -> Result<Option<usize>, Garbage> {
    match buf.get(len..) {
        None | Some([] | [b'\r']) => Ok(None),
        Some([b'\r', b'\n', ..]) => Ok(Some(len + 2)),
        Some(_) => Err(Garbage::BulkEnd),
    }
}

/// Decodes the reply at the start of `buf`, which [`extent`] has checked, and returns it with its length.
fn read(buf: &[u8]) -> (Value<'_>, usize) {
    let mut at = 0;
    loop {
        let ParsedHead::Head { head, consumed } = head(&buf[at..]) else {
            unreachable!("the reply was checked before");
        };
        at += consumed;
        let behind = &buf[at..];
        let string = |len: u32| (&behind[..len as usize], at + len as usize + 2);
        let plain = |value| (value, at);
        return match head {
            Head::Attribute(_) => {
                at += skip(behind, head.values());
                continue;
            }
            Head::Simple(text) => plain(Value::Simple(text)),
            Head::Error(text) => plain(Value::Error(text)),
            Head::Int(value) => plain(Value::Int(value)),
            Head::Null => plain(Value::Null),
            Head::Boolean(value) => plain(Value::Boolean(value)),
            Head::Double(value) => plain(Value::Double(value)),
            Head::BigNumber(digits) => plain(Value::BigNumber(digits)),
            Head::Bulk(len) => (Value::Bulk(string(len).0), string(len).1),
            Head::BulkError(len) => (Value::Error(string(len).0), string(len).1),
            Head::Verbatim(len) => {
                let (text, end) = string(len);
                (Value::Verbatim(&text[..3], &text[4..]), end)
            }
            Head::Array(_) | Head::Map(_) | Head::Set(_) | Head::Push(_) => {
                let items = Items { rest: behind, left: head.values() as u32 };
                let value = match head {
                    Head::Array(_) => Value::Array(items),
                    Head::Map(_) => Value::Map(items),
                    Head::Set(_) => Value::Set(items),
                    _ => Value::Push(items),
                };
                (value, at + skip(behind, head.values()))
            }
        };
    }
}

/// Returns the length in bytes of the next `left` replies, which were checked before.
fn skip(buf: &[u8], mut left: u64) -> usize {
    let mut at = 0;
    while left > 0 {
        let ParsedHead::Head { head, consumed } = head(&buf[at..]) else {
            unreachable!("the reply was checked before");
        };
        at += consumed + head.bytes().map_or(0, |len| len as usize + 2);
        left += head.values();
        left -= u64::from(!matches!(head, Head::Attribute(_)));
    }
    at
}
