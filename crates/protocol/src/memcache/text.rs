//! Parses the words after the verb of the classic text commands.

use super::error::Error;
use super::key::{Keys, plain};
use super::line::Words;
use super::request::{Arith, Dump, Get, Request, Stats, Store, StoreMode, VALUE_BYTES_MAX, Watch};
use super::{Fault, Request as R};
use crate::number::{parse_i64, parse_u32, parse_u64};

/// The maximum number of words examined after a verb. Only retrievals may have more words.
const WORDS_MAX: usize = 8;

/// The words after a verb that takes a limited number of words.
struct Few<'b> {
    words: [&'b [u8]; WORDS_MAX],
    len: usize,
}

impl<'b> Few<'b> {
    /// Collects all words of `rest`. Returns an error unless their number is `min` to `max`.
    fn new(rest: Words<'b>, min: usize, max: usize) -> Result<Self, Error> {
        let few = Self::first(rest);
        if few.len < min || few.len > max { Err(Error::UnknownCommand) } else { Ok(few) }
    }

    /// Collects the first [`WORDS_MAX`] words of `rest`, and ignores further words.
    fn first(rest: Words<'b>) -> Self {
        let mut few = Self { words: [b""; WORDS_MAX], len: 0 };
        for word in rest.take(WORDS_MAX) {
            few.words[few.len] = word;
            few.len += 1;
        }
        few
    }

    fn as_slice(&self) -> &[&'b [u8]] {
        &self.words[..self.len]
    }

    /// Returns true if the last word is `noreply`.
    fn noreply(&self) -> bool {
        self.as_slice().last() == Some(&b"noreply".as_slice())
    }
}

pub(super) fn get(words: Words<'_>, with_cas: bool) -> Result<Request<'_>, Fault> {
    let keys = Keys::new(words)?;
    if keys.clone().next().is_none() {
        return Err(Error::UnknownCommand.into());
    }
    Ok(R::Get(Get { keys, with_cas, touch: None }))
}

/// Parses `gat` and `gats`. As with memcached, a command without a key retrieves nothing.
pub(super) fn get_and_touch(mut words: Words<'_>, with_cas: bool) -> Result<Request<'_>, Fault> {
    let exptime = words.next().ok_or(Error::UnknownCommand)?;
    let touch = Some(parse_i64(exptime).ok_or(Error::InvalidExptime)?);
    Ok(R::Get(Get { keys: Keys::new(words)?, with_cas, touch }))
}

/// Parses the length word of a storage command: the number of bytes that follow. A length that no value can have is an
/// error.
pub(super) fn value_len(length: &[u8]) -> Result<u32, Fault> {
    match parse_u64(length) {
        Some(len) if len <= u64::from(VALUE_BYTES_MAX) => Ok(len as u32),
        Some(_) => Err(Fault { fatal: true, ..Fault::new(Error::BadFormat) }),
        None => Err(Error::BadFormat.into()),
    }
}

/// Parses the client's flags. `append` and `prepend` ignore them, so they may have more than 32 bits there.
fn client_flags(mode: StoreMode, flags: &[u8]) -> Option<u32> {
    match mode {
        StoreMode::Append | StoreMode::Prepend => parse_u64(flags).map(|flags| flags as u32),
        _ => parse_u32(flags),
    }
}

/// Parses `VERB KEY FLAGS EXPTIME LENGTH [noreply]`; `cas` has its token before `noreply`.
pub(super) fn store<'b>(verb: &[u8], words: Words<'b>) -> Result<Request<'b>, Fault> {
    let few = Few::first(words);
    let is_cas = verb == b"cas";
    let needed = if is_cas { 5 } else { 4 };
    let &[key, flags, exptime, length, ..] = few.as_slice() else { return Err(Error::UnknownCommand.into()) };
    // As with memcached, the last word counts, so that an error in the place of a `cas` token is not sent either.
    let noreply = few.noreply();
    let value_len = match value_len(length) {
        Err(fault) if !fault.fatal && few.len < needed => return Err(Error::UnknownCommand.into()),
        len => len.map_err(|fault| fault.quiet_if(noreply && !fault.fatal))?,
    };
    let swallow = u64::from(value_len) + 2;
    if few.len < needed || few.len > needed + 1 {
        return Err(Fault::new(Error::UnknownCommand).swallowing(swallow));
    }
    let fault = Fault::new(Error::BadFormat).quiet_if(noreply).swallowing(swallow);
    let compare = if is_cas { Some(parse_u64(few.words[4]).ok_or(fault)?) } else { None };
    let mode = match verb {
        b"add" => StoreMode::Add,
        b"replace" => StoreMode::Replace,
        b"append" => StoreMode::Append,
        b"prepend" => StoreMode::Prepend,
        _ => StoreMode::Set,
    };
    Ok(R::Store(Store {
        mode,
        key: plain(key).map_err(|_| fault)?,
        client_flags: client_flags(mode, flags).ok_or(fault)?,
        exptime: parse_i64(exptime).ok_or(fault)?,
        value_len,
        compare,
        noreply,
    }))
}

/// Parses `delete KEY [0] [noreply]`. Old clients send a time of 0.
pub(super) fn delete(words: Words<'_>) -> Result<Request<'_>, Fault> {
    let few = Few::new(words, 1, 3)?;
    let (key, noreply) = match *few.as_slice() {
        [key] | [key, b"0"] => (key, false),
        [key, b"noreply"] | [key, b"0", b"noreply"] => (key, true),
        _ => return Err(Fault::new(Error::DeleteUsage).quiet_if(few.noreply())),
    };
    let key = plain(key).map_err(|error| Fault::new(error).quiet_if(noreply))?;
    Ok(R::Delete { key, noreply })
}

pub(super) fn arith(words: Words<'_>, decrement: bool) -> Result<Request<'_>, Fault> {
    let few = Few::new(words, 2, 3)?;
    let noreply = few.noreply();
    let key = plain(few.words[0]).map_err(|error| Fault::new(error).quiet_if(noreply))?;
    let delta = parse_u64(few.words[1]).ok_or(Fault::new(Error::InvalidDelta).quiet_if(noreply))?;
    Ok(R::Arith(Arith { key, delta, decrement, noreply }))
}

pub(super) fn touch(words: Words<'_>) -> Result<Request<'_>, Fault> {
    let few = Few::new(words, 2, 3)?;
    let noreply = few.noreply();
    let key = plain(few.words[0]).map_err(|error| Fault::new(error).quiet_if(noreply))?;
    let exptime = parse_i64(few.words[1]).ok_or(Fault::new(Error::InvalidExptime).quiet_if(noreply))?;
    Ok(R::Touch { key, exptime, noreply })
}

pub(super) fn flush_all(words: Words<'_>) -> Result<Request<'_>, Fault> {
    let few = Few::new(words, 0, 2)?;
    let noreply = few.noreply();
    let delay = match *few.as_slice() {
        [] | [b"noreply"] => 0,
        [delay, ..] => parse_i64(delay).ok_or(Fault::new(Error::InvalidExptime).quiet_if(noreply))?,
    };
    Ok(R::FlushAll { delay, noreply })
}

pub(super) fn verbosity(words: Words<'_>) -> Result<Request<'_>, Fault> {
    let few = Few::new(words, 1, 2)?;
    let noreply = few.noreply();
    match parse_u64(few.words[0]) {
        Some(_) => Ok(R::Verbosity { noreply }),
        None => Err(Fault::new(Error::BadFormat).quiet_if(noreply)),
    }
}

pub(super) fn shutdown(words: Words<'_>) -> Result<Request<'_>, Fault> {
    match *Few::first(words).as_slice() {
        // The server replies to an unknown mode only if it allows the command.
        [] | [b"graceful"] => Ok(R::Shutdown { is_valid: true }),
        _ => Ok(R::Shutdown { is_valid: false }),
    }
}

pub(super) fn cache_memlimit(words: Words<'_>) -> Result<Request<'_>, Fault> {
    let few = Few::new(words, 1, 2)?;
    let noreply = few.noreply();
    // A number that exceeds every memory is refused as too large, not as an unknown command.
    match parse_u64(few.words[0]).map(|mib| u32::try_from(mib).unwrap_or(u32::MAX)) {
        Some(mib) => Ok(R::CacheMemlimit { mib, noreply }),
        None => Err(Fault::new(Error::UnknownCommand).quiet_if(noreply)),
    }
}

/// The highest number of a slab class that memcached can have.
const CLASS_MAX: u32 = 63;

/// Parses `stats`. As with memcached, words after a known topic are ignored.
pub(super) fn stats(words: Words<'_>) -> Result<Request<'_>, Fault> {
    let few = Few::first(words);
    let topic = match *few.as_slice() {
        [] => Stats::General,
        [b"items", ..] => Stats::Items,
        [b"slabs", ..] => Stats::Slabs,
        [b"settings", ..] => Stats::Settings,
        [b"sizes", ..] => Stats::Sizes,
        [b"conns", ..] => Stats::Conns,
        [b"extstore", ..] => Stats::Extstore,
        [b"reset", ..] => Stats::Reset,
        [b"namespaces", ..] => Stats::Namespaces,
        [b"detail", b"on", ..] => Stats::Detail(true),
        [b"detail", b"off", ..] => Stats::Detail(false),
        [b"detail", b"dump", ..] => Stats::DetailDump,
        [b"detail", ..] => return Err(Error::DetailUsage.into()),
        [b"cachedump", class, limit, ..] => {
            let (class, limit) = (parse_u32(class), parse_u32(limit));
            let (Some(class), Some(limit)) = (class, limit) else { return Err(Error::BadFormat.into()) };
            if class > CLASS_MAX {
                return Err(Error::IllegalClass.into());
            }
            Stats::Cachedump { class, limit }
        }
        [b"cachedump", ..] => return Err(Error::CachedumpUsage.into()),
        _ => return Err(Error::UnknownCommand.into()),
    };
    Ok(R::Stats(topic))
}

/// Parses `watch`. As with memcached, a command without a word watches lookups.
pub(super) fn watch(words: Words<'_>) -> Result<Request<'_>, Fault> {
    let mut watch = Watch::default();
    for word in words {
        match word {
            b"fetchers" => watch.fetchers = true,
            b"mutations" => watch.mutations = true,
            b"evictions" => watch.evictions = true,
            b"deletions" => watch.deletions = true,
            b"connevents" => watch.connections = true,
            b"proxyevents" | b"proxyreqs" | b"proxyuser" | b"rawcmds" | b"sysevents" => {
                return Err(Error::WatchUnavailable.into());
            }
            _ => return Err(Error::UnknownCommand.into()),
        }
    }
    if watch == Watch::default() {
        watch.fetchers = true;
    }
    Ok(R::Watch(watch))
}

/// Parses `lru_crawler`. memcached's crawler finds expired items, which this server does automatically. So commands
/// that switch the crawler, set its pace or request a crawl are accepted without effect. The commands that dump keys
/// are supported.
pub(super) fn lru_crawler(words: Words<'_>) -> Result<Request<'_>, Fault> {
    let number = |word: &[u8]| parse_u32(word).map(|_| R::CrawlerSetting).ok_or(Error::BadFormat.into());
    match *Few::first(words).as_slice() {
        [b"metadump", b"all" | b"hash"] => Ok(R::Dump(Dump::Metadump)),
        [b"mgdump", b"all" | b"hash"] => Ok(R::Dump(Dump::Mgdump)),
        [b"metadump" | b"mgdump", _] => Err(Error::BadClass.into()),
        [b"enable" | b"disable"] | [b"crawl", b"all"] => Ok(R::CrawlerSetting),
        [b"crawl", _] => Err(Error::BadClass.into()),
        [b"sleep" | b"tocrawl", count] => number(count),
        _ => Err(Error::UnknownCommand.into()),
    }
}

/// Parses `slabs` and `lru`, which adjust mechanisms that the server does not have.
pub(super) fn no_slabs<'b>(verb: &[u8], words: Words<'b>) -> Result<Request<'b>, Fault> {
    let few = Few::new(words, 1, WORDS_MAX)?;
    let is_known = match *few.as_slice() {
        [b"automove", _] | [b"reassign", _, _, ..] => verb == b"slabs",
        [b"mode" | b"temp_ttl", _] | [b"tune", _, _, _, _, ..] => verb == b"lru",
        _ => false,
    };
    Err(if is_known { Error::NoSlabs } else { Error::UnknownCommand }.into())
}
