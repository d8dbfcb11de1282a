//! The requests that store a key of the snapshot.
//!
//! ```text
//!   string            SET key value PXAT at
//!   one page          RESTORE key at payload REPLACE ABSTTL
//!   several pages     DEL tmp   RPUSH tmp ... (SADD, ZADD, HSET)   HPEXPIREAT tmp ...
//!                     PEXPIREAT tmp at   RENAME tmp key
//!   long stream       DEL tmp   the requests of `LongStream`   PEXPIREAT tmp at   RENAME tmp key
//! ```
//! No client sees a part of a key: a long value is built under a temporary name.

use protocol::resp::BULK_BYTES_MAX;
use protocol::resp::client::CommandLine;
use rdb::{DumpReader, Element, Encoder, FieldTimes, ReadLimits, ValueType};

use super::missing::KeyUse;
use super::pipe::{Awaited, TargetPipe, database_of};
use crate::rdb::same_score;
use crate::reconnect::RequestError;
use crate::redis::LongStream;

/// Bytes of elements that are sent at once.
pub(super) const PAGE_BYTES_MAX: usize = 64 << 10;
/// Highest number of elements that are sent at once.
const PAGE_ELEMENTS_MAX: usize = 1_000;
/// Prefix of the temporary name while a value is built.
const BUILT: &[u8] = b"gannet:import:";

/// A key of the snapshot.
#[derive(Clone, Debug)]
pub(super) struct SnapshotKey {
    /// The key.
    pub name: Vec<u8>,
    /// Time at which the key expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
}

/// The end of an element's bytes in a page, and its other facts.
#[derive(Clone, Copy, Debug)]
struct PageElement {
    name_end: usize,
    value_end: usize,
    score: f64,
    expire_at_ms: Option<u64>,
}

/// Elements of a list, a set, a sorted set or a hash.
#[derive(Debug, Default)]
struct ElementPage {
    bytes: Vec<u8>,
    elements: Vec<PageElement>,
}

impl ElementPage {
    /// Appends an element. Returns false for an element of another type of value.
    fn push(&mut self, element: &Element<'_>) -> bool {
        let (name, value, score, expire_at_ms) = match element {
            Element::Member(member) => (*member, &b""[..], 0.0, None),
            Element::Scored { member, score } => (*member, &b""[..], *score, None),
            Element::Field { name, value, expire_at_ms } => (*name, *value, 0.0, *expire_at_ms),
            _ => return false,
        };
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.elements.push(PageElement { name_end, value_end: self.bytes.len(), score, expire_at_ms });
        true
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= PAGE_BYTES_MAX || self.elements.len() >= PAGE_ELEMENTS_MAX
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.elements.clear();
        if self.bytes.capacity() > 2 * PAGE_BYTES_MAX {
            self.bytes = Vec::new();
        }
    }

    /// Returns each element's name, its value, and its other facts.
    fn each(&self) -> impl Iterator<Item = (&[u8], &[u8], PageElement)> {
        let begins = [0].into_iter().chain(self.elements.iter().map(|element| element.value_end));
        self.elements.iter().zip(begins).map(|(element, begin)| {
            let (name, value) = (begin..element.name_end, element.name_end..element.value_end);
            (&self.bytes[name], &self.bytes[value], *element)
        })
    }

    /// Returns a payload of `RESTORE` with the elements; `None` if there are none.
    fn payload(&self, value_type: ValueType) -> Option<Vec<u8>> {
        let mut encoder = Encoder::new(value_type, FieldTimes::default());
        for (name, value, PageElement { score, expire_at_ms, .. }) in self.each() {
            let added = match value_type {
                ValueType::SortedSet => encoder.add(&Element::Scored { member: name, score }),
                ValueType::Hash => encoder.add(&Element::Field { name, value, expire_at_ms }),
                _ => encoder.add(&Element::Member(name)),
            };
            added.ok()?;
        }
        encoder.finish().ok()
    }

    /// Appends the command that adds the elements to a value.
    fn put(&self, out: &mut Vec<u8>, verb: &str, key: &[u8], value_type: ValueType) {
        let words_each = if matches!(value_type, ValueType::SortedSet | ValueType::Hash) { 2 } else { 1 };
        let line = CommandLine::new(out, 2 + words_each * self.elements.len() as u32).arg(verb.as_bytes()).arg(key);
        self.each().fold(line, |line, (name, value, element)| match value_type {
            ValueType::SortedSet => line.arg(&same_score(element.score)).arg(name),
            ValueType::Hash => line.arg(name).arg(value),
            _ => line.arg(name),
        });
    }
}

/// Sends the value of a key, element by element.
#[derive(Debug)]
pub(super) struct ValueSender {
    key: SnapshotKey,
    value_type: ValueType,
    page: ElementPage,
    stream: Option<Encoder>,
    /// True if a page was sent under the temporary name.
    is_built: bool,
}

impl ValueSender {
    /// Begins a value.
    pub fn new(key: SnapshotKey, value_type: ValueType) -> Self {
        let stream = (value_type == ValueType::Stream).then(|| Encoder::new(value_type, FieldTimes::default()));
        Self { key, value_type, page: ElementPage::default(), stream, is_built: false }
    }

    /// Adds an element, and sends the page if it is full.
    pub fn add(&mut self, element: &Element<'_>, pipe: &mut TargetPipe) -> Result<(), RequestError> {
        let is_known = match (element, &mut self.stream) {
            (Element::Text(text), _) => {
                self.send_text(text, pipe);
                true
            }
            (element, Some(stream)) => stream.add(element).is_ok(),
            (element, None) => self.page.push(element),
        };
        if !is_known {
            return Err(RequestError::Refused(format!("a {} has an element of another type", self.value_type.name())));
        }
        if self.page.is_full() {
            self.send_page(pipe);
        }
        Ok(())
    }

    /// Sends what is left of the value, so that the key is stored.
    pub fn end(self, pipe: &mut TargetPipe, is_stopped: &dyn Fn() -> bool) -> Result<(), RequestError> {
        if self.is_built {
            return self.end_built(pipe, is_stopped);
        }
        if self.value_type != ValueType::String {
            return self.send_whole(pipe, is_stopped);
        }
        Ok(())
    }

    fn send_whole(mut self, pipe: &mut TargetPipe, is_stopped: &dyn Fn() -> bool) -> Result<(), RequestError> {
        let payload = match self.stream.take() {
            Some(stream) => stream.finish().ok(),
            None => self.page.payload(self.value_type),
        };
        let kind = self.value_type.name();
        match payload {
            Some(payload) if self.value_type == ValueType::Stream && payload.len() > PAGE_BYTES_MAX => {
                let Some(stream) = long_stream(&payload) else {
                    return Err(RequestError::Refused("a stream of the snapshot is damaged".to_owned()));
                };
                self.send_long_stream(&stream, pipe, is_stopped)?;
                return self.end_built(pipe, is_stopped);
            }
            Some(payload) if payload.len() <= BULK_BYTES_MAX as usize => {
                let at = self.expiry();
                let words: [&[u8]; 6] = [b"RESTORE", &self.key.name, at.as_bytes(), &payload, b"REPLACE", b"ABSTTL"];
                pipe.put_words(Awaited::KeyEnd("RESTORE", self.keys(pipe)), &words);
            }
            Some(_) => {
                pipe.ledger.counts.refuse(format!("{kind}: it is longer than the protocol allows"));
                pipe.missing.refused(self.keys(pipe).written().cloned(), std::iter::empty())?;
            }
            None => pipe.ledger.counts.refuse(format!("{kind}: it has no elements")),
        }
        Ok(())
    }

    /// Sends the requests that build a long stream under the temporary name.
    fn send_long_stream(
        &self,
        stream: &LongStream,
        pipe: &mut TargetPipe,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), RequestError> {
        let (built, mut ended) = (self.built_name(), Ok(()));
        pipe.put_words(Awaited::Part("DEL"), &[b"DEL", &built]);
        let is_whole = stream.send(&built, &mut |verb, write| {
            if ended.is_ok() {
                ended = pipe.make_room(is_stopped);
            }
            if ended.is_ok() {
                pipe.put(Awaited::Part(verb), write);
            }
        });
        ended?;
        is_whole.ok_or_else(|| RequestError::Refused("a stream of the snapshot is incomplete".to_owned()))
    }

    fn keys(&self, pipe: &TargetPipe) -> KeyUse {
        KeyUse::of_value(database_of(pipe), &self.key.name)
    }

    fn expiry(&self) -> String {
        self.key.expire_at_ms.unwrap_or(0).to_string()
    }

    fn send_text(&self, text: &[u8], pipe: &mut TargetPipe) {
        let SnapshotKey { name, expire_at_ms } = &self.key;
        let at = expire_at_ms.map(|at| at.to_string());
        pipe.put(Awaited::KeyEnd("SET", self.keys(pipe)), |out| {
            let line = CommandLine::new(out, if at.is_some() { 5 } else { 3 }).arg(b"SET").arg(name).arg(text);
            if let Some(at) = &at {
                line.arg(b"PXAT").arg(at.as_bytes());
            }
        });
    }

    fn built_name(&self) -> Vec<u8> {
        [BUILT, &self.key.name].concat()
    }

    fn send_page(&mut self, pipe: &mut TargetPipe) {
        let built = self.built_name();
        let verb = match self.value_type {
            ValueType::List => "RPUSH",
            ValueType::Set => "SADD",
            ValueType::SortedSet => "ZADD",
            _ => "HSET",
        };
        if !self.is_built {
            pipe.put_words(Awaited::Part("DEL"), &[b"DEL", &built]);
            self.is_built = true;
        }
        let (page, value_type) = (&self.page, self.value_type);
        pipe.put(Awaited::Part(verb), |out| page.put(out, verb, &built, value_type));
        for (name, _, element) in page.each() {
            let Some(at) = element.expire_at_ms else { continue };
            let at = at.to_string();
            let words: [&[u8]; 6] = [b"HPEXPIREAT", &built, at.as_bytes(), b"FIELDS", b"1", name];
            pipe.put_words(Awaited::Part("HPEXPIREAT"), &words);
        }
        self.page.clear();
    }

    /// Renames the value. If the target refused a part of it, no client may see the others.
    fn end_built(mut self, pipe: &mut TargetPipe, is_stopped: &dyn Fn() -> bool) -> Result<(), RequestError> {
        if !self.page.elements.is_empty() {
            self.send_page(pipe);
        }
        let built = self.built_name();
        if self.key.expire_at_ms.is_some() {
            pipe.put_words(Awaited::Part("PEXPIREAT"), &[b"PEXPIREAT", &built, self.expiry().as_bytes()]);
        }
        pipe.drain(is_stopped)?;
        if pipe.ledger.has_failed() {
            pipe.put_words(Awaited::KeyEnd("DEL", self.keys(pipe)), &[b"DEL", &built]);
        } else {
            pipe.put_words(Awaited::KeyEnd("RENAME", self.keys(pipe)), &[b"RENAME", &built, &self.key.name]);
        }
        Ok(())
    }
}

/// Reads the elements of a long stream. Returns `None` if the payload is damaged.
fn long_stream(payload: &[u8]) -> Option<LongStream> {
    let (mut stream, mut reader) = (LongStream::default(), DumpReader::new(payload, ReadLimits::default()).ok()?);
    while let Some(element) = reader.next_element().ok()? {
        stream.add(&element)?;
    }
    Some(stream)
}
