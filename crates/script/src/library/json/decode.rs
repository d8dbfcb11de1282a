//! `cjson.decode`: reads JSON into a Lua value.

use super::{DEPTH_MAX, InvalidNumbers, Settings};
use crate::caller::Caller;
use crate::failure::at_caller;
use crate::library::strtod::prefix_number;
use mlua::{Lua, Table, Value};

/// A part of a JSON text.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Invalid(&'static str),
}

impl Token {
    /// Returns the token's name in errors.
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::Text(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Invalid(problem) => problem,
        }
    }
}

/// Returns the value of a JSON text.
pub(super) fn decode(lua: &Lua, caller: &Caller<'_>, settings: &Settings, text: &[u8]) -> mlua::Result<Value> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(at_caller(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut reader = JsonReader { lua, caller, settings, text, at: 0, token_at: 0, depth: 0 };
    let first = reader.next()?;
    let value = reader.value(first)?;
    match reader.next()? {
        Token::End => Ok(value),
        other => Err(reader.unexpected("the end", &other)),
    }
}

struct JsonReader<'r, 'y> {
    lua: &'r Lua,
    caller: &'r Caller<'y>,
    settings: &'r Settings,
    text: &'r [u8],
    at: usize,
    /// The position of the last token, or of the error in it.
    token_at: usize,
    depth: i64,
}

impl JsonReader<'_, '_> {
    /// Returns the byte `ahead` bytes after the position; a zero byte at the end of the text.
    fn byte(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn unexpected(&self, expected: &str, found: &Token) -> mlua::Error {
        let text = format!("Expected {expected} but found {} at character {}", found.name(), self.token_at + 1);
        at_caller(self.lua, &text)
    }

    fn next(&mut self) -> mlua::Result<Token> {
        self.caller.work(4)?;
        while matches!(self.byte(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
            self.caller.work(1)?;
        }
        self.token_at = self.at;
        let token = match self.byte(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return Ok(Token::End),
            b'"' => return self.string(),
            byte => return Ok(self.word(byte)),
        };
        self.at += 1;
        Ok(token)
    }

    /// Reads a number or a name.
    fn word(&mut self, byte: u8) -> Token {
        let accepts_invalid = self.settings.decode_invalid.get() == InvalidNumbers::Accepted;
        let rest = &self.text[self.at..];
        let names = [(&b"true"[..], Token::Boolean(true)), (b"false", Token::Boolean(false)), (b"null", Token::Null)];
        match byte {
            b'-' | b'0'..=b'9' if !accepts_invalid && is_invalid_number(rest) => Token::Invalid("invalid number"),
            b'-' | b'0'..=b'9' => self.number(),
            b'f' | b'i' | b'I' | b'n' | b'N' | b't' | b'+' => {
                if let Some((name, token)) = names.into_iter().find(|(name, _)| rest.starts_with(name)) {
                    self.at += name.len();
                    return token;
                }
                if accepts_invalid && is_invalid_number(rest) { self.number() } else { Token::Invalid("invalid token") }
            }
            _ => Token::Invalid("invalid token"),
        }
    }

    fn number(&mut self) -> Token {
        match prefix_number(&self.text[self.at..]) {
            Some((number, length)) => {
                self.at += length;
                Token::Number(number)
            }
            None => Token::Invalid("invalid number"),
        }
    }

    fn string(&mut self) -> mlua::Result<Token> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0)).unwrap_or(rest.len());
            self.caller.work(plain / 8 + 1)?;
            out.extend_from_slice(&rest[..plain]);
            self.at += plain;
            let invalid = match self.byte(0) {
                b'"' => {
                    self.at += 1;
                    return Ok(Token::Text(out));
                }
                b'\\' => self.escape(&mut out),
                _ => Some("unexpected end of string"),
            };
            if let Some(problem) = invalid {
                self.token_at = self.at;
                return Ok(Token::Invalid(problem));
            }
        }
    }

    /// Reads an escape sequence. Returns the problem if it is invalid.
    fn escape(&mut self, out: &mut Vec<u8>) -> Option<&'static str> {
        let byte = match self.byte(1) {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'f' => 12,
            b'r' => b'\r',
            b'u' => return if self.unicode(out).is_some() { None } else { Some("invalid unicode escape code") },
            _ => return Some("invalid escape code"),
        };
        out.push(byte);
        self.at += 2;
        None
    }

    /// Returns the number of four hexadecimal digits, `ahead` bytes after the position.
    fn hex(&self, ahead: usize) -> Option<u32> {
        (ahead..ahead + 4).try_fold(0, |sum, place| Some(sum << 4 | char::from(self.byte(place)).to_digit(16)?))
    }

    /// Reads an escaped character. Returns `None` if it is invalid.
    fn unicode(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let mut code = self.hex(2)?;
        let mut length = 6;
        if code & 0xF800 == 0xD800 {
            let low = self.hex(8).filter(|low| low & 0xFC00 == 0xDC00);
            if code & 0x400 != 0 || self.byte(6) != b'\\' || self.byte(7) != b'u' {
                return None;
            }
            code = ((code & 0x3FF) << 10 | low? & 0x3FF) + 0x1_0000;
            length = 12;
        }
        let mut bytes = [0; 4];
        out.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut bytes).as_bytes());
        self.at += length;
        Some(())
    }

    fn value(&mut self, token: Token) -> mlua::Result<Value> {
        match token {
            Token::Text(text) => self.lua.create_string(text).map(Value::String),
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Boolean(flag) => Ok(Value::Boolean(flag)),
            Token::Null => Ok(Value::NULL),
            Token::ObjectBegin => self.nested(Self::object),
            Token::ArrayBegin => self.nested(Self::array),
            other => Err(self.unexpected("value", &other)),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> mlua::Result<Table>) -> mlua::Result<Value> {
        self.depth += 1;
        if self.depth > self.settings.decode_depth.get().min(DEPTH_MAX) {
            let text = format!("Found too many nested data structures ({}) at character {}", self.depth, self.at);
            return Err(at_caller(self.lua, &text));
        }
        let table = read(self)?;
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn object(&mut self) -> mlua::Result<Table> {
        let table = self.lua.create_table()?;
        let mut token = self.next()?;
        if matches!(token, Token::ObjectEnd) {
            return Ok(table);
        }
        loop {
            let Token::Text(name) = token else { return Err(self.unexpected("object key string", &token)) };
            match self.next()? {
                Token::Colon => {}
                other => return Err(self.unexpected("colon", &other)),
            }
            token = self.next()?;
            let value = self.value(token)?;
            table.raw_set(self.lua.create_string(name)?, value)?;
            match self.next()? {
                Token::ObjectEnd => return Ok(table),
                Token::Comma => token = self.next()?,
                other => return Err(self.unexpected("comma or object end", &other)),
            }
        }
    }

    fn array(&mut self) -> mlua::Result<Table> {
        let table = self.lua.create_table()?;
        let mut token = self.next()?;
        if matches!(token, Token::ArrayEnd) {
            return Ok(table);
        }
        for place in 1.. {
            let value = self.value(token)?;
            table.raw_set(place, value)?;
            match self.next()? {
                Token::ArrayEnd => break,
                Token::Comma => token = self.next()?,
                other => return Err(self.unexpected("comma or array end", &other)),
            }
        }
        Ok(table)
    }
}

/// Returns true if a text begins with a number that JSON does not have: with a plus sign, leading zeros, in hexadecimal
/// digits, infinite or NaN.
fn is_invalid_number(text: &[u8]) -> bool {
    if text.first() == Some(&b'+') {
        return true;
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    match text {
        [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
        [] => false,
        [first, ..] if *first <= b'9' => false,
        _ => {
            let starts = |name: &[u8]| text.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(name));
            starts(b"inf") || starts(b"nan")
        }
    }
}
