//! Writes reply lines. Each writer documents its maximum length. So a caller can ensure room for the reply before it
//! executes an operation, and no reply is lost afterwards.

use super::error::Error;
use super::key::{KEY_BASE64_BYTES_MAX, KEY_BYTES_MAX, MetaKey, encode};
use super::meta::{Meta, OPAQUE_BYTES_MAX};
use crate::number::{Decimal, U64_DIGITS_MAX, digits_in, put_i64, put_u64, write_digits};
use crate::sink::{FILL_BYTES_MAX, Fixed, Sink};

/// The bytes that end a line, and that follow a value.
pub const CRLF: &[u8] = b"\r\n";
/// The line that ends the reply to a retrieval or to `stats`.
pub const END: &[u8] = b"END\r\n";
/// The reply that a storage command succeeded.
pub const STORED: &[u8] = b"STORED\r\n";
/// The reply that the condition of a storage command did not hold.
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// The reply that the item has another CAS token than the request.
pub const EXISTS: &[u8] = b"EXISTS\r\n";
/// The reply that the item does not exist.
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// The reply that a `delete` succeeded.
pub const DELETED: &[u8] = b"DELETED\r\n";
/// The reply that a `touch` succeeded.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
/// The reply that an administrative command succeeded.
pub const OK: &[u8] = b"OK\r\n";
/// The reply that a `stats reset` succeeded.
pub const RESET: &[u8] = b"RESET\r\n";
/// The reply to `mn`.
pub const META_NOOP: &[u8] = b"MN\r\n";
/// The line that ends an `mgdump`, and the reply to `me` on a miss.
pub const META_END: &[u8] = b"EN\r\n";

/// The maximum length of [`value_header`] in bytes.
pub const VALUE_HEADER_BYTES_MAX: usize = 6 + KEY_BYTES_MAX + 3 * (1 + U64_DIGITS_MAX) + 2;

/// The maximum length of a [`MetaLine`] in bytes: code, length, key in base64 with its `b`, opaque, nine numbers,
/// marks.
pub const META_LINE_BYTES_MAX: usize =
    2 + 1 + U64_DIGITS_MAX + (2 + KEY_BASE64_BYTES_MAX + 2) + (2 + OPAQUE_BYTES_MAX) + 9 * (2 + U64_DIGITS_MAX) + 6 + 2;

/// Writes `VALUE KEY FLAGS LENGTH [CAS]`: at most [`VALUE_HEADER_BYTES_MAX`] bytes.
#[inline]
pub fn value_header(sink: &mut impl Sink, key: &[u8], client_flags: u32, len: u64, cas: Option<u64>) {
    let flags = if client_flags == 0 { None } else { Some(Decimal::new(client_flags.into())) };
    let flags = flags.as_ref().map_or(&b"0"[..], Decimal::as_slice);
    let len = Decimal::new(len);
    let len = len.as_slice();
    let before_cas = 6 + key.len() + 1 + flags.len() + 1 + len.len();
    let cas = cas.map(Decimal::new);
    let cas = cas.as_ref().map_or(&b""[..], Decimal::as_slice);
    let bytes = before_cas + if cas.is_empty() { 0 } else { 1 + cas.len() } + 2;
    sink.fill(bytes, |line| {
        line[..6].copy_from_slice(b"VALUE ");
        let line = put_word(&mut line[6..], key, b' ');
        let line = put_word(line, flags, b' ');
        let line = if cas.is_empty() {
            put_word(line, len, b'\r')
        } else {
            let line = put_word(line, len, b' ');
            put_word(line, cas, b'\r')
        };
        line[0] = b'\n';
    });
}

/// Writes `VALUE KEY FLAGS LENGTH`, the value and its line end, and with `ends` the retrieval's [`END`], to the start
/// of `room`. Returns the number of bytes written. `room` must have room for [`VALUE_HEADER_BYTES_MAX`] bytes, the
/// value and 7 more bytes.
#[inline(always)]
pub fn write_hit(room: &mut [u8], key: &[u8], client_flags: u32, value: &[u8], ends: bool) -> usize {
    let (flags, len) = (u64::from(client_flags), value.len() as u64);
    let flags_at = 6 + key.len() + 1;
    let len_at = flags_at + if flags == 0 { 1 } else { digits_in(flags) } + 1;
    let value_at = len_at + digits_in(len) + 2;
    let value_end = value_at + value.len();
    let whole = value_end + 2 + if ends { END.len() } else { 0 };
    let reply = &mut room[..whole];
    let (line, rest) = reply.split_at_mut(value_at);
    line[..6].copy_from_slice(b"VALUE ");
    line[6..flags_at - 1].copy_from_slice(key);
    line[flags_at - 1] = b' ';
    match flags {
        0 => line[flags_at] = b'0',
        _ => write_digits(&mut line[flags_at..len_at - 1], flags),
    }
    line[len_at - 1] = b' ';
    write_digits(&mut line[len_at..value_at - 2], len);
    line[value_at - 2..].copy_from_slice(CRLF);
    let (bytes, behind) = rest.split_at_mut(value.len());
    bytes.copy_from_slice(value);
    match ends {
        true => behind.copy_from_slice(b"\r\nEND\r\n"),
        false => behind.copy_from_slice(CRLF),
    }
    whole
}

/// Writes `word` and the byte after it, and returns the rest of `line`.
#[inline(always)]
fn put_word<'l>(line: &'l mut [u8], word: &[u8], behind: u8) -> &'l mut [u8] {
    let (place, line) = line.split_at_mut(word.len());
    place.copy_from_slice(word);
    line[0] = behind;
    &mut line[1..]
}

const _: () = assert!(VALUE_HEADER_BYTES_MAX <= FILL_BYTES_MAX);

/// Writes a number on a line of its own: at most 22 bytes.
pub fn number(sink: &mut impl Sink, value: u64) {
    let mut line = Fixed::<{ U64_DIGITS_MAX + 2 }>::new();
    put_u64(&mut line, value);
    line.put(CRLF);
    sink.put(line.as_slice());
}

/// Writes the error line for `error`.
pub fn error(sink: &mut impl Sink, error: Error) {
    sink.put(error.wire());
}

/// Writes `STAT NAME VALUE` with a text.
pub fn stat(sink: &mut impl Sink, name: &str, value: &str) {
    sink.put(b"STAT ");
    sink.put(name.as_bytes());
    sink.put(b" ");
    sink.put(value.as_bytes());
    sink.put(CRLF);
}

/// Writes `STAT NAME VALUE` with a number.
pub fn stat_u64(sink: &mut impl Sink, name: &str, value: u64) {
    sink.put(b"STAT ");
    sink.put(name.as_bytes());
    sink.put(b" ");
    put_u64(sink, value);
    sink.put(CRLF);
}

/// Writes `STAT PREFIX:CLASS:NAME VALUE`, the form of `stats items` (prefix `items`). An empty prefix gives the form of
/// `stats slabs`.
pub fn stat_class(sink: &mut impl Sink, prefix: &str, class: u64, name: &str, value: u64) {
    sink.put(b"STAT ");
    if !prefix.is_empty() {
        sink.put(prefix.as_bytes());
        sink.put(b":");
    }
    put_u64(sink, class);
    sink.put(b":");
    sink.put(name.as_bytes());
    sink.put(b" ");
    put_u64(sink, value);
    sink.put(CRLF);
}

/// A meta reply line under construction, part by part: a code, the value's length if a value follows, and flags. In
/// total it has at most [`META_LINE_BYTES_MAX`] bytes. [`MetaLine::finish`] ends it.
#[derive(Debug)]
#[must_use]
pub struct MetaLine<'s, S> {
    sink: &'s mut S,
}

impl<'s, S: Sink> MetaLine<'s, S> {
    /// Starts a line with the two letters of `code`.
    pub fn new(sink: &'s mut S, code: &[u8; 2]) -> Self {
        sink.put(code);
        Self { sink }
    }

    /// Starts a line that a value of `len` bytes follows.
    pub fn with_value(sink: &'s mut S, len: u64) -> Self {
        sink.put(b"VA ");
        put_u64(sink, len);
        Self { sink }
    }

    /// Writes a flag without a token.
    pub fn mark(&mut self, letter: u8) {
        self.sink.put(&[b' ', letter]);
    }

    /// Writes a flag with a number.
    pub fn number(&mut self, letter: u8, value: u64) {
        self.mark(letter);
        put_u64(self.sink, value);
    }

    /// Writes a flag with a number that may be negative.
    pub fn signed(&mut self, letter: u8, value: i64) {
        self.mark(letter);
        put_i64(self.sink, value);
    }

    /// Writes a flag with a token of at most [`OPAQUE_BYTES_MAX`] bytes; for `k`, [`KEY_BASE64_BYTES_MAX`].
    pub fn token(&mut self, letter: u8, token: &[u8]) {
        self.mark(letter);
        self.sink.put(token);
    }

    /// Writes `k`, and also `b` if the client sent its key in base64.
    pub fn key(&mut self, key: MetaKey<'_>) {
        self.token(b'k', key.token());
        if key.is_encoded() {
            self.mark(b'b');
        }
    }

    /// Writes the flags that every reply repeats, whatever the outcome: `O` and `k`, in the client's order.
    pub fn reflect(&mut self, meta: &Meta<'_>) {
        for word in meta.in_order() {
            match word[0] {
                b'O' => self.token(b'O', &word[1..]),
                b'k' => self.key(meta.key),
                _ => {}
            }
        }
    }

    /// Writes the end of the line.
    pub fn finish(self) {
        self.sink.put(CRLF);
    }
}

/// Writes `key` in the form of dumps and watchers: `%XX` for every byte except letters, digits and `-._~`. The result
/// has at most three times the key's length.
pub fn uri_encoded(sink: &mut impl Sink, key: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            sink.put(&[byte]);
        } else {
            sink.put(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// The metadata of an item that is written in dumps and in replies to `me`.
#[derive(Clone, Copy, Debug)]
pub struct ItemFacts<'k> {
    /// The key.
    pub key: &'k [u8],
    /// In a dump, the second since 1970 at which the item expires; in a reply to `me`, the seconds until its expiry. -1
    /// means that the item never expires.
    pub exp: i64,
    /// In a dump, the second since 1970 of the last access; in a reply to `me`, the seconds since that access.
    pub la: u64,
    /// The CAS token.
    pub cas: u64,
    /// True if the item was read since it was stored.
    pub fetched: bool,
    /// The number of the item's TTL class.
    pub class: u64,
    /// The item's total size in the store, in bytes.
    pub size: u64,
    /// The client's flags.
    pub client_flags: u32,
}

/// The maximum length of a line of [`metadump`] and [`debug`] in bytes.
pub const ITEM_FACTS_BYTES_MAX: usize = 3 * KEY_BYTES_MAX + 7 * (8 + U64_DIGITS_MAX);

/// Writes one line of `lru_crawler metadump`: at most [`ITEM_FACTS_BYTES_MAX`] bytes. As with memcached, the line ends
/// in `\n` without `\r`.
pub fn metadump(sink: &mut impl Sink, item: &ItemFacts<'_>) {
    sink.put(b"key=");
    uri_encoded(sink, item.key);
    item_facts(sink, item);
    sink.put(b" flags=");
    put_u64(sink, item.client_flags.into());
    sink.put(b"\n");
}

/// Writes the reply to `me` on a hit: at most [`ITEM_FACTS_BYTES_MAX`] bytes, also with a base64 token in place of the
/// key.
pub fn debug(sink: &mut impl Sink, key: MetaKey<'_>, item: &ItemFacts<'_>) {
    sink.put(b"ME ");
    sink.put(key.token());
    item_facts(sink, item);
    sink.put(CRLF);
}

fn item_facts(sink: &mut impl Sink, item: &ItemFacts<'_>) {
    sink.put(b" exp=");
    put_i64(sink, item.exp);
    sink.put(b" la=");
    put_u64(sink, item.la);
    sink.put(b" cas=");
    put_u64(sink, item.cas);
    sink.put(if item.fetched { b" fetch=yes" } else { b" fetch=no" });
    sink.put(b" cls=");
    put_u64(sink, item.class);
    sink.put(b" size=");
    put_u64(sink, item.size);
}

/// Writes one line of `stats cachedump`: at most [`ITEM_FACTS_BYTES_MAX`] bytes. A key with bytes that a text line
/// cannot contain is written with `%XX`.
pub fn cachedump(sink: &mut impl Sink, key: &[u8], value_len: u64, ends_at: i64) {
    sink.put(b"ITEM ");
    if key.iter().all(|byte| byte.is_ascii_graphic()) {
        sink.put(key)
    } else {
        uri_encoded(sink, key)
    }
    sink.put(b" [");
    put_u64(sink, value_len);
    sink.put(b" b; ");
    put_i64(sink, ends_at.max(0));
    sink.put(b" s]\r\n");
}

/// Writes one line of `lru_crawler mgdump`: an `mg` command for `key`, in base64 if the key has bytes that a text line
/// cannot contain.
pub fn mgdump(sink: &mut impl Sink, key: &[u8]) {
    sink.put(b"mg ");
    if key.iter().all(|byte| byte.is_ascii_graphic()) {
        sink.put(key);
        sink.put(CRLF);
    } else {
        let mut encoded = [0; KEY_BASE64_BYTES_MAX];
        let len = encode(key, &mut encoded);
        sink.put(&encoded[..len]);
        sink.put(b" b\r\n");
    }
}

/// Returns `value` in decimal, for the body of a reply.
pub fn digits(value: u64) -> Decimal {
    Decimal::new(value)
}
