//! Reads items by their keys, in a few round trips with bounded replies.
//!
//! ```text
//!   1  STRLEN of all keys                         lengths of strings; errors for keys of other types
//!   2  TYPE, expiry, HLEN, MEMORY USAGE of the keys of other types
//!      then for as many keys as fit into `bytes_max`, at least one:
//!   3  expiry and GET of strings
//!   4  HGETALL of small hashes, DUMP of other types; HSCAN of large hashes, page by page, one hash at a time
//!   5  HPEXPIRETIME of the fields of all hashes, if the server has it
//! ```

use base::clock::UnixMillis;
use protocol::resp::client::{CommandLine, Value as Answer};

use super::{Redis, odd, page, text, trouble};
use crate::item::{HashField, Item, KeyValue, Lookup};
use crate::rdb::same_score;
use crate::reconnect::RequestError;

/// Number of fields above which a hash is read page by page, so that no single command takes long on the server.
const FIELDS_AT_ONCE_MAX: i64 = 1_000;

/// Kinds of values that the reader can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// True to read hashes.
    pub hashes: bool,
    /// The form in which other types are read: for a restore, or for a comparison.
    pub others: Others,
    /// Bytes of values in one round trip. A larger value has a round trip of its own.
    pub bytes_max: u64,
}

/// The form in which other types are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// Other types are not read.
    No,
    /// Values are serialised by `DUMP`.
    Dumped,
    /// Values are listed element by element.
    Listed,
}

/// The reply of `HPEXPIRETIME` for a field that does not exist.
const NO_FIELD: i64 = -2;
/// Assumed bytes of a hash field if the server does not report them.
const FIELD_BYTES: u64 = 256;

/// The expiry of a key, and its largest delay in milliseconds.
type Expiry = Option<(UnixMillis, u64)>;

/// A key that does not hold a string.
struct NonString {
    kind: String,
    expiry: Expiry,
    fields: i64,
    bytes: u64,
}

/// Facts about a key before its value is read.
enum KeyFacts {
    /// A string of this many bytes; 0 if the key does not exist.
    String(u64),
    /// Another type.
    Other(NonString),
}

impl Redis {
    /// Reads the first keys of `keys`: at least one, and as many as `wanted` allows. The results are in the same order.
    pub fn read(&mut self, keys: &[&[u8]], wanted: Wanted) -> Result<Vec<Lookup>, RequestError> {
        let known = self.look(keys)?;
        let mut bytes = 0;
        let count = known.iter().take_while(|known| {
            let own = match known {
                KeyFacts::String(bytes) => *bytes,
                KeyFacts::Other(kept) => kept.bytes,
            };
            let fits = bytes == 0 || bytes + own <= wanted.bytes_max;
            bytes += own + 1;
            fits
        });
        let count = count.count();
        let mut found = vec![Lookup::Gone; count];
        let (mut strings, mut others) = (Vec::new(), Vec::new());
        for (at, known) in known.into_iter().take(count).enumerate() {
            match known {
                KeyFacts::String(_) => strings.push(at),
                KeyFacts::Other(kept) => others.push((at, kept)),
            }
        }
        self.strings(keys, &strings, &mut found)?;
        self.others(keys, others, wanted, &mut found)?;
        Ok(found)
    }

    fn look(&mut self, keys: &[&[u8]]) -> Result<Vec<KeyFacts>, RequestError> {
        for key in keys {
            self.put(&[b"STRLEN", key]);
        }
        let mut known = Vec::with_capacity(keys.len());
        for _ in keys {
            known.push(self.answer(|answer| match answer {
                Answer::Int(len) => Ok(Some(KeyFacts::String(len.max(0) as u64))),
                Answer::Error(error) if error.starts_with(b"WRONGTYPE") => Ok(None),
                Answer::Error(error) => Err(trouble(error)),
                _ => Err(odd("STRLEN")),
            })?);
        }
        let sent = UnixMillis::now();
        for (key, _) in keys.iter().zip(&known).filter(|(_, known)| known.is_none()) {
            self.put(&[b"TYPE", key]);
            self.put_expiry(key);
            self.put(&[b"HLEN", key]);
            self.put(&[b"MEMORY", b"USAGE", key]);
        }
        let mut all = Vec::with_capacity(keys.len());
        for known in known {
            all.push(match known {
                Some(known) => known,
                None => KeyFacts::Other(self.kept(sent)?),
            });
        }
        Ok(all)
    }

    fn kept(&mut self, sent: UnixMillis) -> Result<NonString, RequestError> {
        let kind = self.answer(|answer| match answer {
            Answer::Error(error) => Err(trouble(error)),
            answer => answer.text().map(text).ok_or_else(|| odd("TYPE")),
        })?;
        let expiry = self.expiry(sent)?;
        let number = |answer: Answer<'_>| Ok(if let Answer::Int(number) = answer { number.max(0) } else { 0 });
        let fields = self.answer(number)?;
        let reported = self.answer(number)? as u64;
        let bytes = if reported == 0 { fields as u64 * FIELD_BYTES } else { reported };
        Ok(NonString { kind, expiry, fields, bytes })
    }

    fn strings(&mut self, keys: &[&[u8]], now: &[usize], found: &mut [Lookup]) -> Result<(), RequestError> {
        let sent = UnixMillis::now();
        for at in now {
            self.put_expiry(keys[*at]);
            self.put(&[b"GET", keys[*at]]);
        }
        for at in now {
            let expiry = self.expiry(sent)?;
            let value = self.answer(|answer| match answer {
                Answer::Error(error) if error.starts_with(b"WRONGTYPE") => Ok(None),
                Answer::Error(error) => Err(trouble(error)),
                Answer::Null => Ok(None),
                answer => answer.text().map(|value| Some(value.to_vec())).ok_or_else(|| odd("GET")),
            })?;
            if let Some(value) = value {
                found[*at] = item(keys[*at], KeyValue::Bytes(value), expiry);
            }
        }
        Ok(())
    }

    fn put_expiry(&mut self, key: &[u8]) {
        self.put(&[if self.has_expire_time { b"PEXPIRETIME" } else { b"PTTL" }, key]);
    }

    /// Reads the reply to [`Self::put_expiry`], which was sent at `sent`. The result is relative to this host's clock.
    fn expiry(&mut self, sent: UnixMillis) -> Result<Expiry, RequestError> {
        let (is_instant, skew_ms) = (self.has_expire_time, self.skew_ms);
        self.answer(|answer| match answer {
            Answer::Int(ms) => Ok(u64::try_from(ms).ok().map(|ms| match is_instant {
                true => (UnixMillis(ms.saturating_add_signed(-skew_ms)), 0),
                false => (sent.plus_ms(ms), UnixMillis::now().ms_since(sent)),
            })),
            Answer::Error(error) => Err(trouble(error)),
            _ => Err(odd("PTTL")),
        })
    }

    fn others(
        &mut self,
        keys: &[&[u8]],
        others: Vec<(usize, NonString)>,
        wanted: Wanted,
        found: &mut [Lookup],
    ) -> Result<(), RequestError> {
        for (at, kept) in &others {
            match way(kept, wanted) {
                Way::Whole => self.put(&[b"HGETALL", keys[*at]]),
                Way::Dump => self.put(&[b"DUMP", keys[*at]]),
                _ => {}
            }
        }
        let mut later = Vec::new();
        for (at, kept) in others {
            let value = match way(&kept, wanted) {
                Way::Unfit(why) => {
                    found[at] = Lookup::Unfit(why);
                    continue;
                }
                Way::Pages | Way::List => {
                    later.push((at, kept));
                    continue;
                }
                Way::None => continue,
                Way::Whole => self.answer(|answer| Ok(hash(&answer)))?,
                Way::Dump => match self.dumped(&kept.kind)? {
                    Ok(value) => value,
                    Err(why) => {
                        found[at] = Lookup::Unfit(why);
                        continue;
                    }
                },
            };
            if let Some(value) = value {
                found[at] = item(keys[at], value, kept.expiry);
            }
        }
        for (at, kept) in later {
            let value = match way(&kept, wanted) {
                Way::Pages => self.pages(keys[at])?,
                _ => self.elements(keys[at], &kept.kind)?,
            };
            found[at] = match value {
                Some(value) => item(keys[at], value, kept.expiry),
                None => Lookup::Gone,
            };
        }
        if self.has_field_times { field_times(self, found) } else { Ok(()) }
    }

    /// Reads the reply to `DUMP`: a value, `None` for a missing key, or the reason why the server cannot dump it.
    fn dumped(&mut self, kind: &str) -> Result<Result<Option<KeyValue>, String>, RequestError> {
        self.answer(|answer| match answer {
            Answer::Error(error) if error.starts_with(b"ERR this server cannot dump") => {
                Ok(Err(format!("{kind}: the source cannot dump values of this type")))
            }
            Answer::Error(error) => Err(trouble(error)),
            answer => Ok(Ok(answer.text().map(|bytes| KeyValue::Dump(kind.to_owned(), bytes.to_vec())))),
        })
    }

    /// Reads a large hash page by page.
    fn pages(&mut self, key: &[u8]) -> Result<Option<KeyValue>, RequestError> {
        let mut fields = Vec::new();
        let mut cursor = 0u64;
        loop {
            let (at, count) = (cursor.to_string(), FIELDS_AT_ONCE_MAX.to_string());
            let args: [&[u8]; 5] = [b"HSCAN", key, at.as_bytes(), b"COUNT", count.as_bytes()];
            let (next, some) = self.request(&args, |answer| page(&answer))?;
            fields.append(&mut pairs(some));
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        // The walk may return a field twice while the hash table grows.
        fields.sort_unstable();
        fields.dedup_by(|later, earlier| later.name == earlier.name);
        Ok((!fields.is_empty()).then_some(KeyValue::Hash(fields)))
    }

    /// Reads all elements of a value, in an order that is the same on every server.
    fn elements(&mut self, key: &[u8], kind: &str) -> Result<Option<KeyValue>, RequestError> {
        let args: &[&[u8]] = match kind {
            "list" => &[b"LRANGE", key, b"0", b"-1"],
            "set" => &[b"SMEMBERS", key],
            "zset" => &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
            _ => &[b"XRANGE", key, b"-", b"+"],
        };
        let mut elements = Vec::new();
        self.request(args, |answer| listed(&answer, &mut elements))?;
        match kind {
            "set" => elements.sort_unstable(),
            "zset" => elements.iter_mut().skip(1).step_by(2).for_each(normalise),
            _ => {}
        }
        Ok(Some(KeyValue::Elements(kind.to_owned(), elements)))
    }
}

/// Reads the expiries of the fields of all hashes, and removes fields that have expired meanwhile.
fn field_times(server: &mut Redis, found: &mut [Lookup]) -> Result<(), RequestError> {
    for lookup in &*found {
        let Lookup::Item(Item { key, value: KeyValue::Hash(fields), .. }) = lookup else { continue };
        for page in fields.chunks(FIELDS_AT_ONCE_MAX as usize) {
            let line = CommandLine::new(server.link.out(), 4 + page.len() as u32).arg(b"HPEXPIRETIME").arg(key);
            let line = line.arg(b"FIELDS").number(page.len() as i64);
            page.iter().fold(line, |line, field| line.arg(&field.name));
        }
    }
    let skew_ms = server.skew_ms;
    for lookup in found {
        let Lookup::Item(Item { value: KeyValue::Hash(fields), .. }) = lookup else { continue };
        let mut times = Vec::with_capacity(fields.len());
        for page in fields.chunks(FIELDS_AT_ONCE_MAX as usize) {
            let read = server.answer(|answer| match answer {
                Answer::Error(error) if error.starts_with(b"WRONGTYPE") => Ok(Vec::new()),
                Answer::Error(error) => Err(trouble(error)),
                answer => Ok(answer.items().map(|time| if let Answer::Int(ms) = time { ms } else { -1 }).collect()),
            })?;
            let unknown = page.len().saturating_sub(read.len());
            times.extend(read.into_iter().take(page.len()).chain(std::iter::repeat_n(-1, unknown)));
        }
        let mut times = times.into_iter();
        fields.retain_mut(|field| {
            let ms = times.next().unwrap_or(-1);
            field.expire_at = u64::try_from(ms).ok().map(|ms| UnixMillis(ms.saturating_add_signed(-skew_ms)));
            ms != NO_FIELD
        });
        if fields.is_empty() {
            *lookup = Lookup::Gone;
        }
    }
    Ok(())
}

/// The way in which a key of another type is read.
enum Way {
    Whole,
    Pages,
    Dump,
    List,
    None,
    Unfit(String),
}

fn way(kept: &NonString, wanted: Wanted) -> Way {
    match (kept.kind.as_str(), wanted.others) {
        ("none", _) => Way::None,
        // The key was just deleted and recreated as a string.
        ("string", _) => Way::Unfit("the key's type changed during the read".to_owned()),
        ("hash", _) if !wanted.hashes => Way::Unfit("hash: the target supports only strings".to_owned()),
        ("hash", _) if kept.fields <= FIELDS_AT_ONCE_MAX => Way::Whole,
        ("hash", _) => Way::Pages,
        (_, Others::Dumped) => Way::Dump,
        ("list" | "set" | "zset" | "stream", Others::Listed) => Way::List,
        (kind, Others::Listed) => Way::Unfit(format!("{kind}: the elements of this type cannot be listed")),
        (kind, Others::No) => Way::Unfit(format!("{kind}: the target supports only strings")),
    }
}

fn item(key: &[u8], value: KeyValue, expiry: Expiry) -> Lookup {
    let (expire_at, expire_slack_ms) = expiry.map_or((None, 0), |(at, slack_ms)| (Some(at), slack_ms));
    Lookup::Item(Item { key: key.to_vec(), value, client_flags: 0, expire_at, expire_slack_ms })
}

/// Converts a reply to `HGETALL`; `None` if the hash does not exist any more.
fn hash(answer: &Answer<'_>) -> Option<KeyValue> {
    let mut elements = Vec::new();
    listed(answer, &mut elements)?;
    let fields = pairs(elements);
    (!fields.is_empty()).then_some(KeyValue::Hash(fields))
}

/// Converts alternating names and values to fields.
fn pairs(elements: Vec<Vec<u8>>) -> Vec<HashField> {
    let mut pairs = Vec::with_capacity(elements.len() / 2);
    let mut elements = elements.into_iter();
    while let (Some(name), Some(value)) = (elements.next(), elements.next()) {
        pairs.push(HashField::new(name, value));
    }
    pairs
}

/// Replaces the text of a score by the text that all servers' scores have in a comparison.
fn normalise(score: &mut Vec<u8>) {
    if let Some(number) = std::str::from_utf8(score).ok().and_then(|text| text.parse().ok()) {
        *score = same_score(number);
    }
}

/// Appends all strings of a reply to `into`, in order.
fn listed(answer: &Answer<'_>, into: &mut Vec<Vec<u8>>) -> Option<()> {
    match answer {
        Answer::Array(items) | Answer::Map(items) | Answer::Set(items) => {
            items.clone().try_for_each(|item| listed(&item, into))
        }
        Answer::Null => Some(()),
        answer => {
            into.push(answer.text()?.to_vec());
            Some(())
        }
    }
}
