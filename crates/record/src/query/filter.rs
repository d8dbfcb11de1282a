//! Filters: conditions on the bins of records, which select the records of a request.
//!
//! ```text
//!   filter  = all { "or" all }
//!   all     = one { "and" one }
//!   one     = "not" one | "(" filter ")" | "has" bin | bin compare value | bin "contains" value
//!   compare = "==" | "!=" | "<" | "<=" | ">" | ">="
//!   bin     = a word of letters, digits, "_", "-", "." and ":", or a name in double quotes
//!   value   = a number | "true" | "false" | a text in single quotes
//!
//! Within quotes, a doubled quote stands for one quote.
//! ```
//!
//! A comparison with a missing bin, or with a bin of another type, is false; `!=` is true then. Whole and
//! floating-point numbers are compared as numbers, texts and bytes byte by byte. `contains` looks for a text in a text,
//! a value in a list, or a key in a map.
//!
//! Limits: [`FILTER_BYTES_MAX`], and a nesting depth of [`DEPTH_MAX`].

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::{Damaged, Name, Record, Value};

/// The maximum length of a filter's text, in bytes.
pub const FILTER_BYTES_MAX: usize = 4096;
/// Maximum nesting depth of parentheses and negations.
const DEPTH_MAX: usize = 32;

/// A condition on the bins of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter<'f>(Node<'f>);

/// The reason why a text is not a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// Byte offset of the error in the text.
    pub at: usize,
    /// Description of the token that the parser expected at that offset.
    pub wanted: &'static str,
}

impl std::fmt::Display for FilterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "invalid filter at byte {}: expected {}", self.at, self.wanted)
    }
}

impl std::error::Error for FilterError {}

#[derive(Clone, Debug, PartialEq)]
enum Node<'f> {
    Any(Vec<Self>),
    All(Vec<Self>),
    Not(Box<Self>),
    Has(Cow<'f, [u8]>),
    Contains(Cow<'f, [u8]>, Constant<'f>),
    Compare(Cow<'f, [u8]>, Compare, Constant<'f>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Equal,
    Other,
    Less,
    AtMost,
    More,
    AtLeast,
}

#[derive(Clone, Debug, PartialEq)]
enum Constant<'f> {
    Plain(Value<'f>),
    Text(Cow<'f, [u8]>),
}

impl Constant<'_> {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Plain(value) => *value,
            Self::Text(text) => Value::Text(text),
        }
    }
}

impl<'f> Filter<'f> {
    /// Parses a filter.
    ///
    /// # Errors
    /// [`FilterError`]: the offset of the error, and what the parser expected there.
    pub fn read(text: &'f [u8]) -> Result<Self, FilterError> {
        if text.len() > FILTER_BYTES_MAX {
            return Err(FilterError { at: FILTER_BYTES_MAX, wanted: "the end of the filter (maximum 4096 bytes)" });
        }
        let mut reader = Reader { text, at: 0, depth: 0 };
        let node = reader.any()?;
        reader.space();
        if reader.at < text.len() {
            return Err(reader.error("'and', 'or' or the end of the filter"));
        }
        Ok(Self(node))
    }

    /// Returns true if the filter holds for the bins that are live at `now_ms`.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn holds(&self, record: &Record<'_>, now_ms: u64) -> Result<bool, Damaged> {
        holds(&self.0, &mut |name| Ok(record.find(&Name::new(name), now_ms)?.map(|bin| bin.value)))
    }
}

type Bins<'b, 'v> = dyn FnMut(&[u8]) -> Result<Option<Value<'v>>, Damaged> + 'b;

fn holds<'v>(node: &Node<'_>, bins: &mut Bins<'_, 'v>) -> Result<bool, Damaged> {
    Ok(match node {
        Node::Any(nodes) => {
            for node in nodes {
                if holds(node, bins)? {
                    return Ok(true);
                }
            }
            false
        }
        Node::All(nodes) => {
            for node in nodes {
                if !holds(node, bins)? {
                    return Ok(false);
                }
            }
            true
        }
        Node::Not(node) => !holds(node, bins)?,
        Node::Has(name) => bins(name)?.is_some(),
        Node::Contains(name, constant) => bins(name)?.is_some_and(|value| contains(&value, &constant.value())),
        Node::Compare(name, compare, constant) => {
            let order = bins(name)?.and_then(|value| order(&value, &constant.value()));
            match compare {
                Compare::Equal => order == Some(Ordering::Equal),
                Compare::Other => order != Some(Ordering::Equal),
                Compare::Less => order == Some(Ordering::Less),
                Compare::AtMost => order.is_some_and(Ordering::is_le),
                Compare::More => order == Some(Ordering::Greater),
                Compare::AtLeast => order.is_some_and(Ordering::is_ge),
            }
        }
    })
}

/// Compares two values; `None` if their types cannot be compared.
fn order(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => Some(a.cmp(b)),
        (Value::Integer(a), Value::Float(b)) => order_of_numbers(*a, *b),
        (Value::Float(a), Value::Integer(b)) => order_of_numbers(*b, *a).map(Ordering::reverse),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Text(a) | Value::Bytes(a), Value::Text(b) | Value::Bytes(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// Compares an integer with a floating-point number exactly. A conversion to either type could make them equal.
fn order_of_numbers(a: i64, b: f64) -> Option<Ordering> {
    // The lowest number above all integers, which is also the magnitude of the least integer.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if b >= BEYOND {
        return Some(Ordering::Less);
    }
    if b < -BEYOND {
        return Some(Ordering::Greater);
    }
    let fraction = 0.0.partial_cmp(&(b - b.trunc()))?;
    Some(a.cmp(&(b.trunc() as i64)).then(fraction))
}

fn contains(value: &Value<'_>, wanted: &Value<'_>) -> bool {
    match (value, wanted) {
        (Value::Text(all) | Value::Bytes(all), Value::Text(part)) => {
            part.is_empty() || all.windows(part.len()).any(|window| window == *part)
        }
        (Value::List(list), wanted) => list.values().any(|value| order(&value, wanted) == Some(Ordering::Equal)),
        (Value::Map(map), Value::Text(key)) => map.find(key).is_some(),
        (Value::Map(map), Value::Integer(_)) => map.pairs().any(|(key, _)| key == *wanted),
        _ => false,
    }
}

struct Reader<'f> {
    text: &'f [u8],
    at: usize,
    depth: usize,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':') || byte >= 0x80
}

impl<'f> Reader<'f> {
    fn error(&self, wanted: &'static str) -> FilterError {
        FilterError { at: self.at, wanted }
    }

    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// Returns the next word without consuming it.
    fn word(&mut self) -> &'f [u8] {
        self.space();
        let rest = &self.text[self.at..];
        &rest[..rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len())]
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let takes = self.word().eq_ignore_ascii_case(word.as_bytes());
        self.at += if takes { word.len() } else { 0 };
        takes
    }

    fn takes(&mut self, sign: &str) -> bool {
        self.space();
        let takes = self.text[self.at..].starts_with(sign.as_bytes());
        self.at += if takes { sign.len() } else { 0 };
        takes
    }

    fn any(&mut self) -> Result<Node<'f>, FilterError> {
        let first = self.all()?;
        let mut nodes = vec![first];
        while self.takes_word("or") {
            nodes.push(self.all()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Any(nodes) })
    }

    fn all(&mut self) -> Result<Node<'f>, FilterError> {
        let first = self.one()?;
        let mut nodes = vec![first];
        while self.takes_word("and") {
            nodes.push(self.one()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) })
    }

    fn one(&mut self) -> Result<Node<'f>, FilterError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error("at most 32 nested levels"));
        }
        let node = if self.takes_word("not") {
            Node::Not(Box::new(self.one()?))
        } else if self.takes("(") {
            let node = self.any()?;
            if !self.takes(")") {
                return Err(self.error("')'"));
            }
            node
        } else if self.takes_word("has") {
            Node::Has(self.name()?)
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self) -> Result<Node<'f>, FilterError> {
        let name = self.name()?;
        if self.takes_word("contains") {
            return Ok(Node::Contains(name, self.constant()?));
        }
        let signs = [
            ("==", Compare::Equal),
            ("!=", Compare::Other),
            ("<=", Compare::AtMost),
            (">=", Compare::AtLeast),
            ("<", Compare::Less),
            (">", Compare::More),
        ];
        let found = signs.into_iter().find(|(sign, _)| self.takes(sign));
        let (_, compare) = found.ok_or_else(|| self.error("a comparison operator or 'contains'"))?;
        Ok(Node::Compare(name, compare, self.constant()?))
    }

    fn name(&mut self) -> Result<Cow<'f, [u8]>, FilterError> {
        self.space();
        if self.text.get(self.at) == Some(&b'"') {
            return self.quoted(b'"');
        }
        let word = self.word();
        if word.is_empty() {
            return Err(self.error("a bin name"));
        }
        self.at += word.len();
        Ok(Cow::Borrowed(word))
    }

    fn constant(&mut self) -> Result<Constant<'f>, FilterError> {
        self.space();
        if self.text.get(self.at) == Some(&b'\'') {
            return self.quoted(b'\'').map(Constant::Text);
        }
        for (word, value) in [("true", true), ("false", false)] {
            if self.takes_word(word) {
                return Ok(Constant::Plain(Value::Bool(value)));
            }
        }
        let rest = &self.text[self.at..];
        let is_digit = |byte: &u8| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let word = &rest[..rest.iter().position(is_digit).unwrap_or(rest.len())];
        let number = match base::decimal::parse_signed(word) {
            Some(number) => Some(Value::Integer(number)),
            None => {
                let float = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
                float.filter(|float: &f64| float.is_finite()).map(Value::Float)
            }
        };
        let number = number.ok_or_else(|| self.error("a number, 'true', 'false' or text in single quotes"))?;
        self.at += word.len();
        Ok(Constant::Plain(number))
    }

    /// Parses a quoted text. Within the text, a doubled quote stands for one quote.
    fn quoted(&mut self, quote: u8) -> Result<Cow<'f, [u8]>, FilterError> {
        self.at += 1;
        let begun = self.at;
        let mut made: Option<Vec<u8>> = None;
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.iter().position(|byte| *byte == quote) else {
                self.at = self.text.len();
                return Err(self.error("a closing quote"));
            };
            self.at += end + 1;
            let is_twice = self.text.get(self.at) == Some(&quote);
            if made.is_none() && !is_twice {
                return Ok(Cow::Borrowed(&self.text[begun..self.at - 1]));
            }
            let made = made.get_or_insert_default();
            made.extend_from_slice(&rest[..end]);
            if !is_twice {
                return Ok(Cow::Owned(std::mem::take(made)));
            }
            made.push(quote);
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edit, List, push_value};

    /// Every pair of numbers around the limits of both types has the order of its exact values.
    #[test]
    fn integers_and_floating_point_numbers_are_compared_exactly() {
        let integers = [i64::MIN, i64::MIN + 1, -9_007_199_254_740_993, -2, -1, 0, 1, 2, 9_007_199_254_740_993];
        let integers = integers.into_iter().chain([i64::MAX - 1, i64::MAX]);
        let exact = [-9_223_372_036_854_775_808_i128, -9_007_199_254_740_992, -1, 0, 1, 9_007_199_254_740_992];
        let exact = exact.into_iter().chain([1 << 63, -(1 << 63) - 2048, (1 << 63) - 1024]);
        for (a, b) in integers.flat_map(|a| exact.clone().map(move |b| (a, b))) {
            let expected = i128::from(a).cmp(&b);
            assert_eq!(b as f64 as i128, b, "the number is one of 53 bits");
            assert_eq!(order(&Value::Integer(a), &Value::Float(b as f64)), Some(expected), "{a} and {b}");
            assert_eq!(order(&Value::Float(b as f64), &Value::Integer(a)), Some(expected.reverse()), "{b} and {a}");
        }
        for (a, b, expected) in [
            (1, 1.5, Ordering::Less),
            (2, 1.5, Ordering::Greater),
            (-1, -1.5, Ordering::Greater),
            (-2, -1.5, Ordering::Less),
            (0, -0.0, Ordering::Equal),
            (i64::MAX, f64::INFINITY, Ordering::Less),
            (i64::MIN, f64::NEG_INFINITY, Ordering::Greater),
        ] {
            assert_eq!(order(&Value::Integer(a), &Value::Float(b)), Some(expected), "{a} and {b}");
        }
        assert_eq!(order(&Value::Integer(1), &Value::Float(f64::NAN)), None);
    }

    fn record(to: &mut Vec<u8>) -> Record<'_> {
        let mut list = Vec::new();
        push_value(&Value::Text(b"red"), &mut list);
        push_value(&Value::Integer(7), &mut list);
        let mut edit = Edit::of(None, 0, to).unwrap();
        for (name, value) in [
            (&b"age"[..], Value::Integer(30)),
            (b"city", Value::Text(b"Paris")),
            (b"it's", Value::Bool(true)),
            (b"pi", Value::Float(3.5)),
            (b"tags", Value::List(List::open(&list).unwrap())),
        ] {
            edit.set(&Name::new(name), &value, false).unwrap();
        }
        edit.finish();
        Record::open(to).unwrap()
    }

    #[test]
    fn filter_evaluates_by_its_grammar() {
        let mut bytes = Vec::new();
        let record = record(&mut bytes);
        for (text, holds) in [
            ("age == 30", true),
            ("age==30.0 and age<=30 and age>=30 and not age<30 and not age>30", true),
            ("age != 30 or city == 'Paris'", true),
            ("age == 1 and age == 1 or age == 30", true),
            ("age == 30 or age == 1 and age == 1", true),
            ("(age == 30 or age == 1) and age == 1", false),
            ("NOT (HAS none OR age > 30)", true),
            ("none == 1", false),
            ("none != 1", true),
            ("city < 3", false),
            ("city > 'Oslo'", true),
            ("\"it's\" == true", true),
            ("city == 'it''s'", false),
            ("pi > 3 and pi < 4 and pi == 3.5e0 and pi > -1", true),
            ("tags contains 'red' and tags contains 7 and not tags contains 8", true),
            ("city contains 'ari' and not city contains 'x' and city contains ''", true),
            ("city contains 5", false),
        ] {
            assert_eq!(Filter::read(text.as_bytes()).map(|filter| filter.holds(&record, 0)), Ok(Ok(holds)), "{text}");
        }
    }

    #[test]
    fn invalid_filter_reports_error_position() {
        for (text, at) in [
            ("", 0),
            ("age", 3),
            ("age =", 4),
            ("age == ", 7),
            ("age == x", 7),
            ("age == 'x", 9),
            ("age == 1 age", 9),
            ("(age == 1", 9),
            ("age == 1 and", 12),
            ("has", 3),
            ("== 1", 0),
        ] {
            assert_eq!(Filter::read(text.as_bytes()).map_err(|error| error.at), Err(at), "{text}");
        }
        let deep = |depth| format!("{}age == 1{}", "(".repeat(depth), ")".repeat(depth));
        assert!(Filter::read(deep(31).as_bytes()).is_ok() && Filter::read(deep(32).as_bytes()).is_err());
        assert!(Filter::read(&vec![b' '; FILTER_BYTES_MAX + 1]).is_err());
    }
}
