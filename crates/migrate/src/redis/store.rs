//! Stores items and returns their outcomes.
//!
//! A hash must appear as a whole, and must not change a hash that live traffic has created in the meantime. So the
//! hash is built under a temporary name and renamed when it is complete:
//!
//! ```text
//!   DEL tmp   HSET tmp f v ...   HPEXPIREAT tmp ...   PEXPIREAT tmp ...   RENAMENX tmp key (or RENAME)   DEL tmp
//! ```
//! Large lists, sets, sorted sets and streams are built in the same way, because one `RESTORE` of them takes long on
//! the server, or does not fit into its buffer. If a server does not support the rename, existing keys are checked
//! first, and then absent fields are set one by one.

use base::clock::UnixMillis;
use protocol::resp::BULK_BYTES_MAX;
use protocol::resp::client::{CommandLine, Value as Answer};
use rdb::{DumpReader, Element, ReadLimits};

use super::stream::LongStream;
use super::{Redis, text, trouble};
use crate::item::{HashField, Item, KeyValue};
use crate::rdb::same_score;
use crate::reconnect::RequestError;
use crate::target::StoreOutcome;

/// Prefix of the temporary name while a hash is built.
const BUILT: &[u8] = b"gannet:warm:";
/// Highest number of fields in one `HSET`.
const FIELDS_AT_ONCE_MAX: usize = 1_000;
/// Bytes of a payload above which a list, a set, a sorted set or a stream is built element by element.
const RESTORED_BYTES_MAX: usize = 64 << 10;
/// Highest number of elements, and of their bytes, in one command that builds such a value.
const ELEMENTS_AT_ONCE_MAX: usize = 1_000;
const ELEMENT_BYTES_AT_ONCE_MAX: usize = 64 << 10;
/// Time to live in milliseconds of an incomplete temporary key, in case the connection breaks.
const LEFT_MS: u64 = 600_000;

/// The words of a command that add one element to a value.
type ElementWords = Vec<Vec<u8>>;

/// Number of replies to a key's requests, and the reply that decides the key's outcome.
struct Sent {
    at: usize,
    answers: usize,
    telling: usize,
}

impl Redis {
    /// Stores the items that have no outcome yet, in one exchange.
    pub fn store(
        &mut self,
        items: &[Item],
        overwrite: bool,
        outcomes: &mut [Option<StoreOutcome>],
    ) -> Result<(), RequestError> {
        if !overwrite && !self.has_rename {
            self.look_for_hashes(items, outcomes)?;
        }
        let now = UnixMillis::now();
        let mut sent = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            if outcomes[at].is_some() {
                continue;
            }
            let is_past = |at: Option<UnixMillis>| at.is_some_and(|at| at <= now);
            let is_empty = matches!(&item.value, KeyValue::Hash(fields)
                if self.has_field_times && fields.iter().all(|field| is_past(field.expire_at)));
            if is_past(item.expire_at) || is_empty {
                outcomes[at] = Some(StoreOutcome::Expired);
                continue;
            }
            if !matches!(item.value, KeyValue::Hash(_)) && item.weight() > u64::from(BULK_BYTES_MAX) {
                outcomes[at] = Some(StoreOutcome::Unfit("the item is larger than the protocol allows".to_owned()));
                continue;
            }
            let (answers, telling) = match &item.value {
                KeyValue::Bytes(value) => self.put_string(item, value, overwrite),
                KeyValue::Hash(fields) => put_hash(self, item, fields, overwrite),
                KeyValue::Dump(kind, bytes) => match self.has_rename.then(|| elements_of(kind, bytes)).flatten() {
                    Some(value) => self.put_built(item, overwrite, |out, built| value.put(out, built)),
                    None => self.put_dump(item, bytes, overwrite),
                },
                KeyValue::Elements(kind, _) => {
                    outcomes[at] = Some(StoreOutcome::Unfit(format!(
                        "{kind}: this value was read for a comparison and cannot be stored"
                    )));
                    continue;
                }
            };
            sent.push(Sent { at, answers, telling });
        }
        let mut again = false;
        for Sent { at, answers, telling } in sent {
            for answer in 0..answers {
                let outcome = self.answer(|answer| outcome_of(&answer))?;
                // If a request was refused before the deciding reply, the key is incomplete despite that reply.
                if answer == telling || matches!(outcome, StoreOutcome::Refused(_)) {
                    outcomes[at].get_or_insert(outcome);
                }
            }
            // Only a key that is built needs several requests.
            if answers > 1 && self.has_rename && matches!(&outcomes[at], Some(StoreOutcome::Unknown)) {
                outcomes[at] = None;
                again = true;
            }
        }
        if again {
            self.has_rename = false;
            return self.store(items, overwrite, outcomes);
        }
        for outcome in outcomes.iter_mut().filter(|outcome| **outcome == Some(StoreOutcome::Unknown)) {
            *outcome = Some(StoreOutcome::Unfit("the target does not support the required command".to_owned()));
        }
        Ok(())
    }

    /// Marks the hashes that already exist at the target.
    fn look_for_hashes(&mut self, items: &[Item], outcomes: &mut [Option<StoreOutcome>]) -> Result<(), RequestError> {
        let is_open = |at: usize| matches!(items[at].value, KeyValue::Hash(_)) && outcomes[at].is_none();
        let open: Vec<usize> = (0..items.len()).filter(|at| is_open(*at)).collect();
        for at in &open {
            self.put(&[b"EXISTS", &items[*at].key]);
        }
        for at in open {
            if self.answer(|answer| outcome_of(&answer))? == StoreOutcome::Copied {
                outcomes[at] = Some(StoreOutcome::There);
            }
        }
        Ok(())
    }

    /// Converts an instant to the server's clock.
    fn at(&self, expire_at: UnixMillis) -> i64 {
        expire_at.0.saturating_add_signed(self.skew_ms) as i64
    }

    fn put_string(&mut self, item: &Item, value: &[u8], overwrite: bool) -> (usize, usize) {
        let at = item.expire_at.map(|expire_at| {
            let ttl_ms = expire_at.ms_since(UnixMillis::now()).max(1) as i64;
            if self.has_set_at { (b"PXAT".as_slice(), self.at(expire_at)) } else { (b"PX".as_slice(), ttl_ms) }
        });
        let args = 3 + if at.is_some() { 2 } else { 0 } + u32::from(!overwrite);
        let mut line = CommandLine::new(self.link.out(), args).arg(b"SET").arg(&item.key).arg(value);
        if let Some((unit, at)) = at {
            line = line.arg(unit).number(at);
        }
        if !overwrite {
            line.arg(b"NX");
        }
        (1, 0)
    }

    fn put_dump(&mut self, item: &Item, bytes: &[u8], overwrite: bool) -> (usize, usize) {
        let at = item.expire_at.map_or(0, |expire_at| self.at(expire_at));
        let line = CommandLine::new(self.link.out(), 5 + u32::from(overwrite));
        let line = line.arg(b"RESTORE").arg(&item.key).number(at).arg(bytes).arg(b"ABSTTL");
        if overwrite {
            line.arg(b"REPLACE");
        }
        (1, 0)
    }

    /// Writes the requests that build a key under a temporary name and rename it. `put` writes those that fill the key,
    /// and returns their number.
    fn put_built(
        &mut self,
        item: &Item,
        overwrite: bool,
        put: impl FnOnce(&mut Vec<u8>, &[u8]) -> usize,
    ) -> (usize, usize) {
        let built = [BUILT, &item.key].concat();
        self.put(&[b"DEL", &built]);
        let mut answers = 1 + put(self.link.out(), &built);
        // The temporary key expires by itself, in case no process resumes the copy.
        let left = UnixMillis::now().plus_ms(LEFT_MS);
        let at = self.at(item.expire_at.unwrap_or(left));
        CommandLine::new(self.link.out(), 3).arg(b"PEXPIREAT").arg(&built).number(at);
        if item.expire_at.is_none() {
            self.put(&[b"PERSIST", &built]);
            answers += 1;
        }
        self.put(&[if overwrite { b"RENAME" } else { b"RENAMENX" }, &built, &item.key]);
        self.put(&[b"DEL", &built]);
        (answers + 3, answers + 1)
    }

    fn put_fields(&mut self, item: &Item, fields: &[HashField], overwrite: bool) -> (usize, usize) {
        let mut answers = 0;
        if overwrite {
            self.put(&[b"DEL", &item.key]);
            answers += 1 + put_pages(self.link.out(), &item.key, fields);
        } else {
            for HashField { name, value, .. } in fields {
                self.put(&[b"HSETNX", &item.key, name, value]);
            }
            answers += fields.len();
        }
        let skew_ms = self.has_field_times.then_some(self.skew_ms);
        answers += put_field_times(self.link.out(), &item.key, fields, skew_ms);
        if let Some(expire_at) = item.expire_at {
            let at = self.at(expire_at);
            CommandLine::new(self.link.out(), 3).arg(b"PEXPIREAT").arg(&item.key).number(at);
            answers += 1;
        }
        // The first field shows whether the hash existed. With overwriting, the number of new fields shows it.
        (answers, usize::from(overwrite))
    }
}

/// Writes the requests that store a hash. Returns the number of replies, and which of them decides the outcome.
fn put_hash(server: &mut Redis, item: &Item, fields: &[HashField], overwrite: bool) -> (usize, usize) {
    if !server.has_rename {
        return server.put_fields(item, fields, overwrite);
    }
    let skew_ms = server.has_field_times.then_some(server.skew_ms);
    server.put_built(item, overwrite, |out, built| {
        put_pages(out, built, fields) + put_field_times(out, built, fields, skew_ms)
    })
}

/// Writes the requests that set fields of a hash. Returns their number.
fn put_pages(out: &mut Vec<u8>, key: &[u8], fields: &[HashField]) -> usize {
    for page in fields.chunks(FIELDS_AT_ONCE_MAX) {
        let mut line = CommandLine::new(out, 2 + 2 * page.len() as u32).arg(b"HSET").arg(key);
        for HashField { name, value, .. } in page {
            line = line.arg(name).arg(value);
        }
    }
    fields.len().div_ceil(FIELDS_AT_ONCE_MAX)
}

/// Writes the requests that set the expiries of fields, one for each run of fields that expire at the same time.
/// Returns their number. `skew_ms` is that of the server's clock; `None` if the server has no such expiries.
fn put_field_times(out: &mut Vec<u8>, key: &[u8], fields: &[HashField], skew_ms: Option<i64>) -> usize {
    let (Some(skew_ms), mut requests) = (skew_ms, 0) else { return 0 };
    for run in fields.chunk_by(|one, next| one.expire_at == next.expire_at) {
        let Some(at) = run[0].expire_at else { continue };
        let at = at.0.saturating_add_signed(skew_ms) as i64;
        for page in run.chunks(FIELDS_AT_ONCE_MAX) {
            let line = CommandLine::new(out, 5 + page.len() as u32).arg(b"HPEXPIREAT").arg(key).number(at);
            let line = line.arg(b"FIELDS").number(page.len() as i64);
            page.iter().fold(line, |line, field| line.arg(&field.name));
            requests += 1;
        }
    }
    requests
}

/// A long value that is built element by element.
enum LongValue {
    /// The command that adds elements, and these, each as the words that the command gets.
    Elements(&'static [u8], Vec<ElementWords>),
    Stream(LongStream),
}

impl LongValue {
    /// Writes the requests that build the value. Returns their number.
    fn put(&self, out: &mut Vec<u8>, key: &[u8]) -> usize {
        match self {
            Self::Elements(verb, elements) => put_elements(out, key, verb, elements),
            Self::Stream(stream) => stream.put(out, key).unwrap_or(0),
        }
    }

    /// Adds the next element of a payload. Returns `None` if it does not fit the type.
    fn add(&mut self, element: &Element<'_>) -> Option<()> {
        match (self, element) {
            (Self::Stream(stream), element) => stream.add(element),
            (Self::Elements(_, elements), Element::Member(member)) => {
                elements.push(vec![member.to_vec()]);
                Some(())
            }
            (Self::Elements(_, elements), Element::Scored { member, score }) => {
                elements.push(vec![same_score(*score), member.to_vec()]);
                Some(())
            }
            _ => None,
        }
    }
}

/// Writes the requests that add elements to a list, a set or a sorted set. `verb` adds words to it. Returns the number
/// of requests.
fn put_elements(out: &mut Vec<u8>, key: &[u8], verb: &[u8], elements: &[ElementWords]) -> usize {
    let (mut commands, mut rest) = (0, elements);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(ELEMENTS_AT_ONCE_MAX).take_while(|words| {
            let fits = bytes < ELEMENT_BYTES_AT_ONCE_MAX;
            bytes += words.iter().map(Vec::len).sum::<usize>();
            fits
        });
        let (some, behind) = rest.split_at(fits.count());
        let words = some.iter().flatten();
        let count = words.clone().count() as u32;
        let line = CommandLine::new(out, 2 + count).arg(verb).arg(key);
        words.fold(line, |line, word| line.arg(word));
        (commands, rest) = (commands + 1, behind);
    }
    commands
}

/// Returns the value of a long payload. Returns `None` if the value is not built element by element, or if the payload
/// cannot be read.
fn elements_of(kind: &str, payload: &[u8]) -> Option<LongValue> {
    let mut value = match kind {
        _ if payload.len() <= RESTORED_BYTES_MAX => return None,
        "list" => LongValue::Elements(b"RPUSH", Vec::new()),
        "set" => LongValue::Elements(b"SADD", Vec::new()),
        "zset" => LongValue::Elements(b"ZADD", Vec::new()),
        "stream" => LongValue::Stream(LongStream::default()),
        _ => return None,
    };
    let mut reader = DumpReader::new(payload, ReadLimits::default()).ok()?;
    while let Some(element) = reader.next_element().ok()? {
        value.add(&element)?;
    }
    Some(value)
}

/// Returns the outcome according to one reply.
fn outcome_of(answer: &Answer<'_>) -> Result<StoreOutcome, RequestError> {
    Ok(match answer {
        Answer::Null | Answer::Int(0) => StoreOutcome::There,
        Answer::Error(error) if error.starts_with(b"BUSYKEY") => StoreOutcome::There,
        Answer::Error(error) if is_unknown(error) => StoreOutcome::Unknown,
        Answer::Error(error) if error.starts_with(b"ERR DUMP payload version") => {
            StoreOutcome::Unfit("the value was serialised by a newer server than the target".to_owned())
        }
        Answer::Error(error) if is_of_the_type(error) => {
            StoreOutcome::Unfit("the target cannot restore values of this type".to_owned())
        }
        Answer::Error(error) if is_of_the_connection(error) => return Err(trouble(error)),
        Answer::Error(error) => StoreOutcome::Refused(text(error)),
        _ => StoreOutcome::Copied,
    })
}

/// Returns whether an error means that the server does not have the command.
fn is_unknown(error: &[u8]) -> bool {
    error.starts_with(b"ERR unknown command")
}

/// Returns whether an error means that a server of this project cannot restore values of the type.
fn is_of_the_type(error: &[u8]) -> bool {
    [&b"ERR this server cannot restore"[..], b"ERR this server cannot dump or restore"]
        .iter()
        .any(|text| error.starts_with(text))
}

/// Returns whether an error concerns the connection, so that every key would be refused.
fn is_of_the_connection(error: &[u8]) -> bool {
    [&b"NOAUTH"[..], b"NOPERM", b"LOADING", b"READONLY", b"MASTERDOWN"].iter().any(|code| error.starts_with(code))
}
