//! Runs the client's decoder over a byte stream as a connection does, and records the results. Shared by tests and fuzz
//! targets.

use gannet_protocol::memcache::client::{Decoder, Event, Expect, Reply, Step, lone_hit};
use gannet_protocol::memcache::{KEY_BYTES_MAX, KeyScratch, VALUE_BYTES_MAX};

/// The reading side of a connection: responses to one kind of request, one after another.
pub struct ReplyWalk {
    expect: Expect,
    rest: u64,
    buffer: Vec<u8>,
    value: Option<Vec<u8>>,
    broken: bool,
    /// The events in order. A value is recorded as one event, even if the decoder returned it in several pieces.
    pub events: Vec<String>,
}

impl ReplyWalk {
    /// Creates a walk at the start of a response.
    pub fn new(expect: Expect) -> Self {
        Self { expect, rest: 0, buffer: Vec::new(), value: None, broken: false, events: Vec::new() }
    }

    /// Adds `bytes` and decodes as much as possible.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        while !self.broken && self.step() {}
    }

    fn step(&mut self) -> bool {
        // A new decoder for each step proves that these two parts are its whole state.
        let mut decoder = Decoder::resume(self.expect, self.rest);
        let step = match decoder.step(&self.buffer) {
            Ok(Some(step)) => step,
            Ok(None) => return false,
            Err(garbage) => {
                assert_eq!((decoder.expect(), decoder.rest()), (self.expect, self.rest));
                self.events.push(format!("garbage: {garbage}"));
                self.broken = true;
                return false;
            }
        };
        let Step { event, consumed, last } = step;
        assert!(consumed > 0 && consumed <= self.buffer.len(), "{step:?} of {} bytes", self.buffer.len());
        match event {
            Event::Reply(reply) => {
                self.events.push(note(&reply));
                if matches!(reply, Reply::Value(_) | Reply::MetaValue { .. }) {
                    assert!(!last && decoder.rest() >= 2);
                    self.value = Some(Vec::new());
                } else {
                    assert_eq!(decoder.rest(), 0);
                }
            }
            Event::Piece(piece) => {
                assert_eq!(piece.len(), consumed);
                self.value.as_mut().expect("a piece follows a header").extend_from_slice(piece);
            }
            Event::ValueEnd => {
                assert_eq!((consumed, decoder.rest()), (2, 0));
                self.events.push(format!("value {:?}", self.value.take().expect("an end follows a header")));
            }
        }
        self.rest = decoder.rest();
        if last {
            self.events.push("last".to_owned());
        }
        self.buffer.drain(..consumed);
        true
    }
}

/// Checks the guarantees of every reply, and describes the reply in words.
fn note(reply: &Reply<'_>) -> String {
    match reply {
        Reply::Value(header) => {
            assert!(!header.key.is_empty() && header.key.len() <= KEY_BYTES_MAX && header.len <= VALUE_BYTES_MAX);
        }
        Reply::Meta { flags, .. } | Reply::MetaValue { flags, .. } => {
            flags.iter().for_each(|(letter, _)| assert!(letter.is_ascii_alphabetic() && flags.has(letter)));
        }
        Reply::Mgdump(key) => {
            let mut scratch = KeyScratch::default();
            assert!((1..=KEY_BYTES_MAX).contains(&key.bytes(&mut scratch).len()));
        }
        Reply::MetaDebug { facts, .. } | Reply::Metadump(facts) => {
            facts.iter().for_each(|(name, _)| assert!(!name.is_empty() && facts.value(name).is_some()));
        }
        _ => {}
    }
    format!("{reply:?}")
}

/// Returns the events of `bytes` in one piece.
pub fn whole(expect: Expect, bytes: &[u8]) -> Vec<String> {
    let mut walk = ReplyWalk::new(expect);
    walk.feed(bytes);
    walk.events
}

/// Asserts that `bytes` cut at `cuts` (ascending) cause the same events as in one piece. Also asserts that the fast
/// path for a lone hit agrees with the steps.
pub fn assert_cut(expect: Expect, bytes: &[u8], cuts: &[usize]) {
    let in_one = whole(expect, bytes);
    let mut walk = ReplyWalk::new(expect);
    let mut from = 0;
    for &cut in cuts {
        walk.feed(&bytes[from..cut]);
        from = cut;
    }
    walk.feed(&bytes[from..]);
    assert_eq!(walk.events, in_one, "cut at {cuts:?}: {:?}", String::from_utf8_lossy(bytes));
    if let Some((hit, consumed)) = lone_hit(bytes) {
        let steps = whole(Expect::Values, &bytes[..consumed]);
        assert_eq!(steps[1..], [format!("value {:?}", hit.value), "End".to_owned(), "last".to_owned()]);
    }
}
