//! Decodes reply lines. Each line is decoded on its own, without knowledge of the request.

use memchr::memchr;

use super::dump::{Facts, MgdumpKey};
use super::garbage::Garbage;
use crate::memcache::key::{KEY_BASE64_BYTES_MAX, KEY_BYTES_MAX};
use crate::memcache::line::{Words, first_blank, first_control};
use crate::memcache::request::VALUE_BYTES_MAX;
use crate::number::{parse_u32, parse_u64};

/// Maximum length of a reply line, including its end.
pub const REPLY_LINE_BYTES_MAX: usize = 4096;

/// The result of decoding the start of a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedReply<'b> {
    /// The line is not complete yet.
    Incomplete,
    /// A reply line. If it announces a value, the value follows after `consumed`.
    Reply {
        /// The decoded reply.
        reply: Reply<'b>,
        /// Length of the line, including its end.
        consumed: usize,
    },
    /// Not a reply line.
    Garbage(Garbage),
}

/// One reply line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'b> {
    /// `VALUE`: a value follows.
    Value(ValueHeader<'b>),
    /// `END`.
    End,
    /// `STORED`.
    Stored,
    /// `NOT_STORED`.
    NotStored,
    /// `EXISTS`.
    Exists,
    /// `NOT_FOUND`.
    NotFound,
    /// `DELETED`.
    Deleted,
    /// `TOUCHED`.
    Touched,
    /// `OK`.
    Ok,
    /// `RESET`.
    Reset,
    /// The new value of `incr` and `decr`.
    Number(u64),
    /// `VERSION`, with the version's text.
    Version(&'b [u8]),
    /// `STAT NAME VALUE`. The value may be empty or contain spaces.
    Stat {
        /// The name.
        name: &'b [u8],
        /// The value.
        value: &'b [u8],
    },
    /// A line of `stats cachedump` or `stats detail dump`, including its first word.
    Listed(&'b [u8]),
    /// `HD`, `EN`, `NS`, `EX` or `NF`.
    Meta {
        /// The outcome.
        code: MetaCode,
        /// The flags that the request asked for, with their values.
        flags: MetaFlags<'b>,
    },
    /// `VA`: a value of `len` bytes follows.
    MetaValue {
        /// Length of the value, without its line end.
        len: u32,
        /// The flags that the request asked for, with their values.
        flags: MetaFlags<'b>,
    },
    /// `MN`.
    MetaNoop,
    /// `ME`, with the facts about an item.
    MetaDebug {
        /// The key as the client sent it.
        key: &'b [u8],
        /// The facts.
        facts: Facts<'b>,
    },
    /// A line of `lru_crawler metadump`, with the facts about an item, including `key`.
    Metadump(Facts<'b>),
    /// A line of `lru_crawler mgdump`, with a key.
    Mgdump(MgdumpKey<'b>),
    /// The server reports an error.
    Error(ServerError<'b>),
}

/// `VALUE KEY FLAGS LENGTH [CAS]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueHeader<'b> {
    /// The key.
    pub key: &'b [u8],
    /// The flags that the client stored with the value.
    pub client_flags: u32,
    /// Length of the value, without its line end.
    pub len: u32,
    /// The CAS token, in replies to `gets` and `gats`.
    pub cas: Option<u64>,
}

/// The outcome that a meta reply without a value reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaCode {
    /// `HD`: the command succeeded, or the item was found and its value not requested.
    Done,
    /// `EN`: the item was not found (reads), or the `mgdump` ends.
    Miss,
    /// `NS`: the item was not stored.
    NotStored,
    /// `EX`: the item has another CAS token.
    Exists,
    /// `NF`: the item was not found (writes).
    NotFound,
}

/// The flags of a meta reply. Each is one letter and a token, which may be empty. They are parsed on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaFlags<'b> {
    words: Words<'b>,
}

impl<'b> MetaFlags<'b> {
    /// Returns letters and tokens in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'b [u8])> + use<'b> {
        self.words.map(|word| (word[0], &word[1..]))
    }

    /// Returns the token of `letter`, which is empty if the flag has none; `None` if the flag is missing.
    #[inline]
    pub fn token(&self, letter: u8) -> Option<&'b [u8]> {
        self.iter().find(|(found, _)| *found == letter).map(|(_, token)| token)
    }

    /// Returns true if the reply has the flag.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.token(letter).is_some()
    }

    /// Returns the token of `letter` as a number.
    pub fn number(&self, letter: u8) -> Option<u64> {
        self.token(letter).and_then(parse_u64)
    }

    #[inline]
    fn new(text: &'b [u8]) -> Result<Self, Garbage> {
        let words = Words::new(text);
        for word in words {
            if !word[0].is_ascii_alphabetic() {
                return Err(Garbage::Malformed);
            }
        }
        Ok(Self { words })
    }
}

/// An error in the server's words, without its line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerError<'b> {
    /// `ERROR`, alone or with a reason: the command does not exist or is not allowed.
    Command(&'b [u8]),
    /// `CLIENT_ERROR`: the request is invalid.
    Client(&'b [u8]),
    /// `SERVER_ERROR`: the server could not execute the request.
    Server(&'b [u8]),
    /// `BUSY`, `BADCLASS` and similar: the administrative command is not possible now.
    Refused(&'b [u8]),
}

impl<'b> ServerError<'b> {
    /// Returns the whole line.
    pub const fn line(self) -> &'b [u8] {
        match self {
            Self::Command(line) | Self::Client(line) | Self::Server(line) | Self::Refused(line) => line,
        }
    }
}

/// Decodes the reply line at the start of `buf`.
#[inline]
pub fn reply(buf: &[u8]) -> ParsedReply<'_> {
    match plain(buf) {
        Some((reply, consumed)) => ParsedReply::Reply { reply, consumed },
        None => reply_line(buf),
    }
}

/// Decodes the most common replies in their simplest form. Returns `None` for all other replies, also incomplete ones.
/// For them, the caller uses [`reply_line`], which gives the same result for these forms.
#[inline(always)]
pub(super) fn plain(buf: &[u8]) -> Option<(Reply<'_>, usize)> {
    match buf {
        [b'V', b'A', b'L', ..] => plain_value(buf).map(|(value, consumed)| (Reply::Value(value), consumed)),
        [b'E', b'N', b'D', b'\r', b'\n', ..] => Some((Reply::End, 5)),
        [b'S', b'T', b'O', b'R', b'E', b'D', b'\r', b'\n', ..] => Some((Reply::Stored, 8)),
        [b'V', b'A', b' ', behind @ ..] => plain_meta_value(buf.len(), behind),
        [b'H', b'D', behind @ ..] => plain_meta(MetaCode::Done, behind),
        [b'E', b'N', behind @ ..] => plain_meta(MetaCode::Miss, behind),
        _ => None,
    }
}

/// The maximum number of digits that the fast path accepts. Such numbers fit in 32 bits and do not exceed the maximum
/// length of a value.
const PLAIN_DIGITS_MAX: usize = 9;

/// The maximum length of flags that the fast path accepts, in bytes. With such flags, a line cannot exceed its maximum
/// length, whatever precedes the flags.
const PLAIN_FLAGS_BYTES_MAX: usize = REPLY_LINE_BYTES_MAX - 32;

/// Parses a number of at most [`PLAIN_DIGITS_MAX`] digits, and returns it with the rest of the text.
#[inline(always)]
fn plain_number(text: &[u8]) -> Option<(u32, &[u8])> {
    let (mut value, mut at) = (0, 0);
    while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9) {
        if at == PLAIN_DIGITS_MAX {
            return None;
        }
        value = value * 10 + u32::from(digit);
        at += 1;
    }
    if at == 0 { None } else { Some((value, &text[at..])) }
}

/// Decodes `VALUE KEY FLAGS LENGTH\r\n` in its simplest form: single spaces and short numbers. Returns `None` for all
/// other forms. For them, the caller uses [`reply_line`], which gives the same result for this form.
#[inline(always)]
pub(super) fn plain_value(buf: &[u8]) -> Option<(ValueHeader<'_>, usize)> {
    let rest = buf.strip_prefix(b"VALUE ")?;
    let len = first_blank(rest)?;
    if !(1..=KEY_BYTES_MAX).contains(&len) {
        return None;
    }
    let (key, rest) = rest.split_at(len);
    let (client_flags, rest) = match rest {
        [b' ', b'0', rest @ ..] if !rest.first().is_some_and(u8::is_ascii_digit) => (0, rest),
        rest => plain_number(rest.strip_prefix(b" ")?)?,
    };
    let (len, rest) = plain_number(rest.strip_prefix(b" ")?)?;
    let rest = rest.strip_prefix(b"\r\n")?;
    Some((ValueHeader { key, client_flags, len, cas: None }, buf.len() - rest.len()))
}

/// Decodes the rest of a meta reply, after its code.
#[inline(always)]
fn plain_meta(code: MetaCode, behind: &[u8]) -> Option<(Reply<'_>, usize)> {
    let (flags, taken) = plain_flags(behind)?;
    Some((Reply::Meta { code, flags }, 2 + taken))
}

/// Decodes `behind`, which follows the code VA and a space in a buffer of `buf_len` bytes. Returns the reply's head and
/// its length, from the start of the buffer.
#[inline(always)]
fn plain_meta_value(buf_len: usize, behind: &[u8]) -> Option<(Reply<'_>, usize)> {
    let (len, behind) = plain_number(behind)?;
    let (flags, taken) = plain_flags(behind)?;
    Some((Reply::MetaValue { len, flags }, buf_len - behind.len() + taken))
}

/// Decodes flags, each after a space, up to the end of the line. Returns them with their length, including the line
/// end.
#[inline(always)]
fn plain_flags(text: &[u8]) -> Option<(MetaFlags<'_>, usize)> {
    if let [b'\r', b'\n', ..] = text {
        return Some((MetaFlags { words: Words::new(b"") }, 2));
    }
    let at = first_control(text)?;
    if !text[at..].starts_with(b"\r\n") || at > PLAIN_FLAGS_BYTES_MAX {
        return None;
    }
    let flags = text[..at].strip_prefix(b" ")?;
    let is_flag = |first: &u8| first.is_ascii_alphabetic();
    if !flags.first().is_none_or(is_flag) || flags.windows(2).any(|two| two[0] == b' ' && !is_flag(&two[1])) {
        return None;
    }
    Some((MetaFlags { words: Words::new(flags) }, at + 2))
}

pub(super) fn reply_line(buf: &[u8]) -> ParsedReply<'_> {
    let window = &buf[..buf.len().min(REPLY_LINE_BYTES_MAX)];
    let Some(at) = memchr(b'\n', window) else {
        return match window.len() {
            REPLY_LINE_BYTES_MAX => ParsedReply::Garbage(Garbage::LineTooLong),
            _ => ParsedReply::Incomplete,
        };
    };
    // Lines of a metadump end in `\n` without `\r`.
    let text = match window[..at].strip_suffix(b"\r") {
        Some(text) => text,
        None if window.starts_with(b"key=") => &window[..at],
        None => return ParsedReply::Garbage(Garbage::BareNewline),
    };
    match line(text) {
        Ok(reply) => ParsedReply::Reply { reply, consumed: at + 1 },
        Err(garbage) => ParsedReply::Garbage(garbage),
    }
}

/// Decodes a reply line. `text` does not include the line end.
fn line(text: &[u8]) -> Result<Reply<'_>, Garbage> {
    let (word, rest) = match text.iter().position(|byte| *byte == b' ') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let alone = |reply| if rest.is_none() { Ok(reply) } else { Err(Garbage::Malformed) };
    let flags = || MetaFlags::new(rest.unwrap_or_default());
    let meta = |code| flags().map(|flags| Reply::Meta { code, flags });
    match word {
        b"HD" => meta(MetaCode::Done),
        b"EN" => meta(MetaCode::Miss),
        b"VA" => meta_value(rest.unwrap_or_default()),
        b"END" => alone(Reply::End),
        b"STORED" => alone(Reply::Stored),
        b"VALUE" => value(Words::new(rest.unwrap_or_default())).map(Reply::Value),
        b"NS" => meta(MetaCode::NotStored),
        b"EX" => meta(MetaCode::Exists),
        b"NF" => meta(MetaCode::NotFound),
        b"MN" => alone(Reply::MetaNoop),
        b"NOT_STORED" => alone(Reply::NotStored),
        b"EXISTS" => alone(Reply::Exists),
        b"NOT_FOUND" => alone(Reply::NotFound),
        b"DELETED" => alone(Reply::Deleted),
        b"TOUCHED" => alone(Reply::Touched),
        b"OK" => alone(Reply::Ok),
        b"RESET" => alone(Reply::Reset),
        b"VERSION" => rest.map(Reply::Version).ok_or(Garbage::Malformed),
        b"STAT" => stat(rest.ok_or(Garbage::Malformed)?),
        b"ITEM" | b"PREFIX" => Ok(Reply::Listed(text)),
        b"ME" => debug(rest.ok_or(Garbage::Malformed)?),
        b"mg" => MgdumpKey::new(rest.ok_or(Garbage::Malformed)?).map(Reply::Mgdump),
        b"ERROR" | b"ERROR:" => Ok(Reply::Error(ServerError::Command(text))),
        b"CLIENT_ERROR" => Ok(Reply::Error(ServerError::Client(text))),
        b"SERVER_ERROR" => Ok(Reply::Error(ServerError::Server(text))),
        b"BUSY"
        | b"BADCLASS"
        | b"NOSPARE"
        | b"NOTFULL"
        | b"UNSAFE"
        | b"SAME"
        | b"MEMLIMIT_TOO_SMALL"
        | b"WATCHER_TOO_MANY"
        | b"WATCHER_FAILED" => Ok(Reply::Error(ServerError::Refused(text))),
        [b'0'..=b'9', ..] => number(word, rest.unwrap_or_default()),
        _ if word.starts_with(b"key=") => Facts::new(text).map(Reply::Metadump),
        _ => Err(Garbage::UnknownReply),
    }
}

fn value_len(word: &[u8]) -> Result<u32, Garbage> {
    match parse_u64(word).ok_or(Garbage::Malformed)? {
        len if len <= u64::from(VALUE_BYTES_MAX) => Ok(len as u32),
        _ => Err(Garbage::ValueTooLong),
    }
}

fn value(mut words: Words<'_>) -> Result<ValueHeader<'_>, Garbage> {
    let mut word = || words.next().ok_or(Garbage::Malformed);
    let (key, client_flags, len) = (word()?, word()?, word()?);
    if key.len() > KEY_BYTES_MAX {
        return Err(Garbage::Malformed);
    }
    let client_flags = parse_u32(client_flags).ok_or(Garbage::Malformed)?;
    let cas = match word() {
        Ok(cas) => Some(parse_u64(cas).ok_or(Garbage::Malformed)?),
        Err(_) => None,
    };
    match word() {
        Ok(_) => Err(Garbage::Malformed),
        Err(_) => Ok(ValueHeader { key, client_flags, len: value_len(len)?, cas }),
    }
}

/// Decodes `LENGTH FLAGS`.
fn meta_value(rest: &[u8]) -> Result<Reply<'_>, Garbage> {
    let mut words = Words::new(rest);
    let len = value_len(words.next().ok_or(Garbage::Malformed)?)?;
    Ok(Reply::MetaValue { len, flags: MetaFlags::new(words.rest())? })
}

fn stat(rest: &[u8]) -> Result<Reply<'_>, Garbage> {
    let at = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
    match rest.split_at(at) {
        (b"", _) => Err(Garbage::Malformed),
        (name, value) => Ok(Reply::Stat { name, value: value.strip_prefix(b" ").unwrap_or(value) }),
    }
}

fn debug(rest: &[u8]) -> Result<Reply<'_>, Garbage> {
    let mut words = Words::new(rest);
    let key = words.next().filter(|key| key.len() <= KEY_BASE64_BYTES_MAX).ok_or(Garbage::Malformed)?;
    Ok(Reply::MetaDebug { key, facts: Facts::new(words.rest())? })
}

/// Decodes the reply to an `incr` or `decr`. Spaces may follow a number that `decr` made shorter.
fn number<'b>(word: &[u8], behind: &[u8]) -> Result<Reply<'b>, Garbage> {
    match parse_u64(word) {
        Some(value) if behind.iter().all(|byte| *byte == b' ') => Ok(Reply::Number(value)),
        _ => Err(Garbage::Malformed),
    }
}
