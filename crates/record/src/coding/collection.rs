//! Lists and maps: values nested in a value, encoded end to end.
//!
//! ```text
//!   list   value value ...
//!   map    key value, key value ...     a key is a text or a whole number; keys are unique
//! ```
//!
//! Invariant: every byte of a [`List`] or [`Map`] was checked when it was opened, so a walk cannot fail. They nest at
//! most [`DEPTH_MAX`] deep.

use crate::coding::{self, Coded};
use crate::{Damaged, Digits, Value};

/// Maximum nesting depth of lists and maps, including the outermost.
pub const DEPTH_MAX: usize = 8;

/// The contents of a list value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct List<'v>(&'v [u8]);

/// The contents of a map value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Map<'v>(&'v [u8]);

/// An iterator over the values of a list, or over the keys and values of a map.
#[derive(Clone, Debug)]
pub struct Values<'v>(&'v [u8]);

impl<'v> Iterator for Values<'v> {
    type Item = Value<'v>;

    fn next(&mut self) -> Option<Value<'v>> {
        if self.0.is_empty() {
            return None;
        }
        let (value, len) = coding::value(self.0).ok()?;
        self.0 = &self.0[len..];
        Some(value)
    }
}

/// Returns the body of an encoded list or map, and true for a map. Returns `None` for any other value.
fn nested(first: u8, all: &[u8]) -> Option<(&[u8], bool)> {
    matches!(first, 0xfc | 0xfd).then(|| (&all[5..], first == 0xfd))
}

/// Checks all values of a body, including nested ones.
fn check(body: &[u8], is_map: bool, depth: usize) -> Result<(), Damaged> {
    if depth > DEPTH_MAX {
        return Err(Damaged);
    }
    let (mut at, mut count) = (0, 0);
    while at < body.len() {
        let len = coding::len(&body[at..])?;
        let all = body.get(at..at + len).ok_or(Damaged)?;
        match nested(all[0], all) {
            Some((inner, inner_is_map)) => check(inner, inner_is_map, depth + 1)?,
            None => drop(coding::value(all)?),
        }
        // A key must be a text or a whole number.
        if is_map && count % 2 == 0 && matches!(all[0], 0xf8..) {
            return Err(Damaged);
        }
        (at, count) = (at + len, count + 1);
    }
    if is_map && count % 2 != 0 { Err(Damaged) } else { Ok(()) }
}

impl<'v> List<'v> {
    /// The empty list.
    pub const EMPTY: Self = Self(b"");

    /// Checks a body and returns its list.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn open(body: &'v [u8]) -> Result<Self, Damaged> {
        check(body, false, 1).map(|()| Self(body))
    }

    pub(crate) fn body(&self) -> &'v [u8] {
        self.0
    }

    /// Returns the values in order.
    pub fn values(&self) -> Values<'v> {
        Values(self.0)
    }

    /// Returns the offset of value `number`, or the end of the body if there are fewer values.
    fn skip(&self, number: usize) -> usize {
        let mut values = Values(self.0);
        for _ in 0..number {
            if values.next().is_none() {
                break;
            }
        }
        self.0.len() - values.0.len()
    }

    /// Appends a copy of this list's body to `to`, in which `insert` replaces `remove` values from index `at` on.
    pub fn splice(&self, at: usize, remove: usize, insert: Option<&Value<'_>>, to: &mut Vec<u8>) {
        let from = self.skip(at);
        let behind = from + List(&self.0[from..]).skip(remove);
        to.extend_from_slice(&self.0[..from]);
        if let Some(value) = insert {
            Coded::of(value).push(to);
        }
        to.extend_from_slice(&self.0[behind..]);
    }
}

impl<'v> Map<'v> {
    /// The empty map.
    pub const EMPTY: Self = Self(b"");

    /// Checks a body and returns its map.
    ///
    /// # Errors
    /// [`Damaged`]. Duplicate keys are not detected.
    pub fn open(body: &'v [u8]) -> Result<Self, Damaged> {
        check(body, true, 1).map(|()| Self(body))
    }

    pub(crate) fn body(&self) -> &'v [u8] {
        self.0
    }

    /// Returns the keys and values, in the order in which the keys were first put.
    pub fn pairs(&self) -> impl Iterator<Item = (Value<'v>, Value<'v>)> + Clone + use<'v> {
        let mut values = Values(self.0);
        std::iter::from_fn(move || Some((values.next()?, values.next()?)))
    }

    /// Returns the value under the key whose text form is `key`.
    pub fn find(&self, key: &[u8]) -> Option<Value<'v>> {
        let key = Value::of_text(key);
        self.pairs().find(|(there, _)| *there == key).map(|(_, value)| value)
    }

    /// Appends a copy of this map's body to `to`, with `value` under the key, or without the key if `value` is `None`.
    /// Returns true if the key existed.
    pub fn put(&self, key: &[u8], value: Option<&Value<'_>>, to: &mut Vec<u8>) -> bool {
        let (key, mut found) = (Value::of_text(key), false);
        for (there, old) in self.pairs() {
            let value = if there == key {
                found = true;
                value
            } else {
                Some(&old)
            };
            if let Some(value) = value {
                Coded::of(&there).push(to);
                Coded::of(value).push(to);
            }
        }
        if let Some(value) = value.filter(|_| !found) {
            Coded::of(&key).push(to);
            Coded::of(value).push(to);
        }
        found
    }
}

/// Appends a value to a list under construction. For a map, append keys and values alternately.
pub fn push_value(value: &Value<'_>, to: &mut Vec<u8>) {
    Coded::of(value).push(to);
}

/// Appends a value as JSON. Bytes that are not valid UTF-8 are copied unchanged.
pub(crate) fn push_json(value: &Value<'_>, to: &mut Vec<u8>) {
    match value {
        Value::Text(text) | Value::Bytes(text) => push_quoted(text, to),
        Value::Bool(value) => to.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::List(list) => {
            to.push(b'[');
            push_with_commas(list.values(), to, |value, to| push_json(&value, to));
            to.push(b']');
        }
        Value::Map(map) => {
            to.push(b'{');
            push_with_commas(map.pairs(), to, |(key, value), to| {
                push_quoted(key.text(&mut Digits::new()), to);
                to.push(b':');
                push_json(&value, to);
            });
            to.push(b'}');
        }
        number => to.extend_from_slice(number.text(&mut Digits::new())),
    }
}

fn push_with_commas<T>(parts: impl Iterator<Item = T>, to: &mut Vec<u8>, mut push: impl FnMut(T, &mut Vec<u8>)) {
    for (number, part) in parts.enumerate() {
        if number > 0 {
            to.push(b',');
        }
        push(part, to);
    }
}

fn push_quoted(text: &[u8], to: &mut Vec<u8>) {
    to.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => to.extend_from_slice(&[b'\\', *byte]),
            0..0x20 => to.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => to.push(*byte),
        }
    }
    to.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_deeply_nested_or_truncated_collection_is_damaged() {
        let mut body = Vec::new();
        for depth in 1..=DEPTH_MAX + 1 {
            assert_eq!(List::open(&body).is_ok(), depth <= DEPTH_MAX, "{depth}");
            let mut outer = Vec::new();
            outer.extend_from_slice(&[0xfc]);
            outer.extend_from_slice(&(body.len() as u32).to_le_bytes());
            outer.extend_from_slice(&body);
            body = outer;
        }
        let mut pair = Vec::new();
        Map::EMPTY.put(b"key", Some(&Value::Integer(5)), &mut pair);
        assert!(Map::open(&pair).is_ok());
        (1..pair.len()).for_each(|cut| assert_eq!(Map::open(&pair[..cut]).err(), Some(Damaged), "{cut}"));
        pair[0] = 0xf9;
        assert_eq!(Map::open(&pair[..2]).err(), Some(Damaged), "a truth is no key");
    }

    #[test]
    fn list_and_map_are_formatted_as_json() {
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        push_value(&Value::Text(b"a\"b\n"), &mut inner);
        push_value(&Value::Bool(true), &mut inner);
        Map::EMPTY.put(b"5", Some(&Value::List(List::open(&inner).unwrap())), &mut outer);
        Map::open(&outer.clone()).unwrap().put(b"f", Some(&Value::Float(0.5)), {
            outer.clear();
            &mut outer
        });
        let text = Value::Map(Map::open(&outer).unwrap()).text(&mut Digits::new()).to_vec();
        assert_eq!(text, br#"{"5":["a\"b\u000a",true],"f":0.5}"#);
    }
}
