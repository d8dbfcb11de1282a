//! Drives the client's decoder over a byte stream as a connection does, and notes what comes out. Shared by tests and
//! fuzz targets.

use gannet_protocol::memcache::client::{Decoder, Event, Expect, Reply, Step, lone_hit};
use gannet_protocol::memcache::{KEY_BYTES_MAX, KeyScratch, VALUE_BYTES_MAX};

/// A connection's reading side: answers to one kind of request, one after the other.
pub struct ReplyWalk {
    expect: Expect,
    rest: u64,
    buffer: Vec<u8>,
    value: Option<Vec<u8>>,
    broken: bool,
    /// What came out, in order; a value is noted once, however many pieces it came in.
    pub events: Vec<String>,
}

impl ReplyWalk {
    /// At the start of an answer.
    pub fn new(expect: Expect) -> Self {
        Self { expect, rest: 0, buffer: Vec::new(), value: None, broken: false, events: Vec::new() }
    }

    /// Takes in `bytes` and does all that can be done.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        while !self.broken && self.step() {}
    }

    fn step(&mut self) -> bool {
        // A decoder made anew for each step: its two parts are all that it knows.
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

/// The reply in words, after checking what every reply promises.
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

/// What comes out of `bytes` in one piece.
pub fn whole(expect: Expect, bytes: &[u8]) -> Vec<String> {
    let mut walk = ReplyWalk::new(expect);
    walk.feed(bytes);
    walk.events
}

/// Asserts that `bytes` cut at `cuts` (ascending) gives what it gives in one piece, and that the short way of a lone
/// hit says the same as the steps.
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
