//! Encodes requests of the text protocol. Keys and numbers are written directly to the sink. A value may follow its
//! command line in pieces.
//!
//! A key with a space or a line end would break the stream's framing, so the caller must not pass one. The key's length
//! is always asserted, and its bytes are checked in debug builds.

use super::meta::is_text_key;
use crate::memcache::key::KEY_BYTES_MAX;
use crate::memcache::line::LINE_BYTES_MAX;
use crate::memcache::reply::CRLF;
use crate::memcache::request::{Arith, Store, StoreMode, VALUE_BYTES_MAX};
use crate::number::{digits_in, put_i64, put_u64, write_digits};
use crate::sink::Sink;

const NOREPLY: &[u8] = b" noreply\r\n";

#[inline(always)]
fn put_key(sink: &mut impl Sink, key: &[u8]) {
    assert!(!key.is_empty() && key.len() <= KEY_BYTES_MAX, "a key has 1 to {KEY_BYTES_MAX} bytes");
    debug_assert!(is_text_key(key), "a key of the text protocol has no space and no control character: {key:?}");
    sink.put(key);
}

#[inline(always)]
fn end(sink: &mut impl Sink, noreply: bool) {
    sink.put(if noreply { NOREPLY } else { CRLF });
}

/// Encodes `get KEY`.
///
/// # Panics
/// As for all encoders here: if a key is empty or longer than [`KEY_BYTES_MAX`].
#[inline]
pub fn get(sink: &mut impl Sink, key: &[u8]) {
    sink.put(b"get ");
    put_key(sink, key);
    sink.put(CRLF);
}

fn retrieve<'k>(sink: &mut impl Sink, verb: &[u8], exptime: Option<i64>, keys: impl IntoIterator<Item = &'k [u8]>) {
    sink.put(verb);
    if let Some(exptime) = exptime {
        sink.put(b" ");
        put_i64(sink, exptime);
    }
    // Verb, time and line end have at most 27 bytes.
    let mut bytes = 32;
    for key in keys {
        sink.put(b" ");
        put_key(sink, key);
        bytes += 1 + key.len();
    }
    assert!(bytes > 32, "a retrieval has at least one key");
    assert!(bytes <= LINE_BYTES_MAX, "the keys of one retrieval take more than a line of {LINE_BYTES_MAX} bytes");
    sink.put(CRLF);
}

/// Encodes a `get` of one or more keys.
///
/// # Panics
/// If there is no key, or if the keys take more than [`LINE_BYTES_MAX`] less 32 bytes. 260 keys of any length always
/// fit.
pub fn multi_get<'k>(sink: &mut impl Sink, keys: impl IntoIterator<Item = &'k [u8]>) {
    retrieve(sink, b"get", None, keys);
}

/// Encodes a `gets` of one or more keys: as [`multi_get`], with CAS tokens.
pub fn multi_gets<'k>(sink: &mut impl Sink, keys: impl IntoIterator<Item = &'k [u8]>) {
    retrieve(sink, b"gets", None, keys);
}

/// Encodes a `gat`: as [`multi_get`], with a new expiry time for each item, in the protocol's seconds.
pub fn gat<'k>(sink: &mut impl Sink, exptime: i64, keys: impl IntoIterator<Item = &'k [u8]>) {
    retrieve(sink, b"gat", Some(exptime), keys);
}

/// Encodes a `gats`: as [`gat`], with CAS tokens.
pub fn gats<'k>(sink: &mut impl Sink, exptime: i64, keys: impl IntoIterator<Item = &'k [u8]>) {
    retrieve(sink, b"gats", Some(exptime), keys);
}

/// Encodes the command line of a storage command: `set`, `add`, `replace`, `append` or `prepend`, or `cas` if `compare`
/// is given. `value_len` bytes of value must follow in any number of pieces, then `\r\n`; see [`value`].
///
/// # Panics
/// If `value_len` is above [`VALUE_BYTES_MAX`], or `compare` is given with another mode than `Set`.
#[inline]
pub fn store(sink: &mut impl Sink, store: &Store<'_>) {
    assert!(store.value_len <= VALUE_BYTES_MAX, "a value has at most {VALUE_BYTES_MAX} bytes");
    let verb: &[u8] = match (store.mode, store.compare) {
        (StoreMode::Set, None) => b"set ",
        (StoreMode::Set, Some(_)) => b"cas ",
        (_, Some(_)) => panic!("only a set compares CAS tokens"),
        (StoreMode::Add, None) => b"add ",
        (StoreMode::Replace, None) => b"replace ",
        (StoreMode::Append, None) => b"append ",
        (StoreMode::Prepend, None) => b"prepend ",
    };
    let Store { key, client_flags, exptime, value_len, compare, noreply, .. } = *store;
    sink.put(verb);
    put_key(sink, key);
    if exptime < 0 || compare.is_some() || noreply {
        return store_words(sink, store);
    }
    let (client_flags, exptime, value_len) = (u64::from(client_flags), exptime as u64, u64::from(value_len));
    let (flags_len, exptime_len, len_len) = (digits_in(client_flags), digits_in(exptime), digits_in(value_len));
    sink.fill(flags_len + exptime_len + len_len + 5, |words| {
        let words = put_number(words, client_flags, flags_len);
        let words = put_number(words, exptime, exptime_len);
        let words = put_number(words, value_len, len_len);
        words.copy_from_slice(CRLF);
    });
}

/// Writes a space and `value`, which has `digits` digits; returns the rest of `place`.
#[inline(always)]
fn put_number(place: &mut [u8], value: u64, digits: usize) -> &mut [u8] {
    place[0] = b' ';
    let (place, rest) = place[1..].split_at_mut(digits);
    match place {
        [place] => *place = b'0' + value as u8,
        place => write_digits(place, value),
    }
    rest
}

/// Writes the words after the key of a storage command, in any form.
fn store_words(sink: &mut impl Sink, store: &Store<'_>) {
    sink.put(b" ");
    put_u64(sink, store.client_flags.into());
    sink.put(b" ");
    put_i64(sink, store.exptime);
    sink.put(b" ");
    put_u64(sink, store.value_len.into());
    if let Some(token) = store.compare {
        sink.put(b" ");
        put_u64(sink, token);
    }
    end(sink, store.noreply);
}

/// Encodes a complete value and its line end, to follow the line of a storage command.
#[inline]
pub fn value(sink: &mut impl Sink, value: &[u8]) {
    sink.put(value);
    sink.put(CRLF);
}

/// Encodes the complete request: `set KEY FLAGS EXPTIME LENGTH` and the value.
///
/// # Panics
/// If the value has more than [`VALUE_BYTES_MAX`] bytes.
#[inline]
pub fn set(sink: &mut impl Sink, key: &[u8], client_flags: u32, exptime: i64, bytes: &[u8]) {
    let value_len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mode = StoreMode::Set;
    store(sink, &Store { mode, key, client_flags, exptime, value_len, compare: None, noreply: false });
    value(sink, bytes);
}

/// Encodes a `delete`.
#[inline]
pub fn delete(sink: &mut impl Sink, key: &[u8], noreply: bool) {
    sink.put(b"delete ");
    put_key(sink, key);
    end(sink, noreply);
}

/// Encodes an `incr` or a `decr`.
#[inline]
pub fn arith(sink: &mut impl Sink, arith: &Arith<'_>) {
    sink.put(if arith.decrement { b"decr " } else { b"incr " });
    put_key(sink, arith.key);
    sink.put(b" ");
    put_u64(sink, arith.delta);
    end(sink, arith.noreply);
}

/// Encodes a `touch`, with `exptime` in the protocol's seconds.
#[inline]
pub fn touch(sink: &mut impl Sink, key: &[u8], exptime: i64, noreply: bool) {
    sink.put(b"touch ");
    put_key(sink, key);
    sink.put(b" ");
    put_i64(sink, exptime);
    end(sink, noreply);
}

/// Encodes a `flush_all`, delayed by `delay` seconds if `delay` is not 0.
pub fn flush_all(sink: &mut impl Sink, delay: i64, noreply: bool) {
    sink.put(b"flush_all");
    if delay != 0 {
        sink.put(b" ");
        put_i64(sink, delay);
    }
    end(sink, noreply);
}

/// Encodes a `version`.
pub fn version(sink: &mut impl Sink) {
    sink.put(b"version\r\n");
}

/// Encodes a `verbosity`.
pub fn verbosity(sink: &mut impl Sink, level: u32, noreply: bool) {
    sink.put(b"verbosity ");
    put_u64(sink, level.into());
    end(sink, noreply);
}

/// Encodes a `stats` with the words of its topic, if any, such as `items` or `detail on`.
///
/// # Panics
/// If the topic contains a line end or has more than 64 bytes.
pub fn stats(sink: &mut impl Sink, topic: &[u8]) {
    assert!(topic.len() <= 64 && !topic.iter().any(u8::is_ascii_control), "no topic of stats: {topic:?}");
    sink.put(b"stats");
    if !topic.is_empty() {
        sink.put(b" ");
        sink.put(topic);
    }
    sink.put(CRLF);
}

/// Encodes a `cache_memlimit` with a limit of `mib` MiB.
pub fn cache_memlimit(sink: &mut impl Sink, mib: u32, noreply: bool) {
    sink.put(b"cache_memlimit ");
    put_u64(sink, mib.into());
    end(sink, noreply);
}

/// Encodes `lru_crawler metadump all`, which returns every item's key and facts.
pub fn metadump(sink: &mut impl Sink) {
    sink.put(b"lru_crawler metadump all\r\n");
}

/// Encodes `lru_crawler mgdump all`, which returns every item's key in the form for `mg`.
pub fn mgdump(sink: &mut impl Sink) {
    sink.put(b"lru_crawler mgdump all\r\n");
}

/// Encodes the authentication request that a server with an authentication file expects first: a `set` of `USER
/// SECRET`. The server replies as to a storage command.
pub fn authenticate(sink: &mut impl Sink, user: &[u8], secret: &[u8]) {
    sink.put(b"set auth 0 0 ");
    put_u64(sink, (user.len() + 1 + secret.len()) as u64);
    sink.put(CRLF);
    sink.put(user);
    sink.put(b" ");
    value(sink, secret);
}

/// Encodes a `quit`.
pub fn quit(sink: &mut impl Sink) {
    sink.put(b"quit\r\n");
}
