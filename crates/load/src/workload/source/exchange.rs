//! The shared state of the protocols' modules: a request that is being written, a reply that is being read, and the
//! follow-ups that replies cause.

use std::collections::VecDeque;

use super::progress::AnswerState;
use super::route::Route;
use super::space::Space;
use crate::traffic::{Pending, ReplyOutcome, ReplyProgress};

/// Highest number of waiting follow-ups; further ones are not sent, only counted.
pub const FOLLOW_UPS_MAX: usize = 65_536;

/// Position of the first field's number within a plan's key, for a hash.
pub const FIELD_SHIFT: u32 = 48;
/// Largest stored part of an error message, in bytes.
pub const SAID_BYTES_MAX: usize = 320;

/// Counts of keys and values, which the figures of single requests do not contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerTally {
    /// Number of keys that reads found.
    pub keys_found: u64,
    /// Number of keys that reads did not find.
    pub keys_missed: u64,
    /// Number of values that differ from the expected value, or belong to a key that was not requested.
    pub values_wrong: u64,
    /// Number of fills and swaps that were not sent because too many were waiting.
    pub follow_ups_dropped: u64,
}

/// A drawn request.
#[derive(Clone, Copy, Debug)]
pub struct DrawnRequest {
    /// Index of the route.
    pub route: usize,
    /// The key's number. For several keys, the base from which they are derived. For a hash, the number of the first
    /// field is in the upper bits.
    pub key: u64,
    /// The token that a swap compares.
    pub token: u64,
}

/// Follow-up requests caused by replies.
#[derive(Debug)]
pub struct Follow {
    /// Requests that wait to be sent.
    pub queue: VecDeque<DrawnRequest>,
    /// For each space, the route that stores a missed key.
    pub fill: Vec<usize>,
    /// The counts so far.
    pub tally: AnswerTally,
    /// The text of the last error reply.
    pub said: Vec<u8>,
}

impl Follow {
    fn push(&mut self, plan: DrawnRequest) {
        if self.queue.len() < FOLLOW_UPS_MAX {
            self.queue.push_back(plan);
        } else {
            self.tally.follow_ups_dropped += 1;
        }
    }

    /// Handles a read that did not find key `number`.
    pub fn missed(&mut self, route: &Route, number: u64) {
        self.tally.keys_missed += 1;
        if route.fills {
            self.push(DrawnRequest { route: self.fill[route.space], key: number, token: 0 });
        }
        if let (Some(swap), true) = (route.swap, route.swaps_always) {
            self.push(DrawnRequest { route: swap, key: number, token: 0 });
        }
    }

    /// Handles a read that found key `number`, with `token` if the request asked for it.
    pub fn found(&mut self, route: &Route, number: u64, token: Option<u64>) {
        self.tally.keys_found += 1;
        if let (Some(swap), Some(token)) = (route.swap, token.or(route.swaps_always.then_some(0))) {
            self.push(DrawnRequest { route: swap, key: number, token });
        }
    }
}

/// A request that is being written.
pub struct RequestDraft<'d> {
    pub route: &'d Route,
    pub space: &'d Space,
    pub plan: DrawnRequest,
    /// Version in the stored value's mark.
    pub version: u64,
    /// Buffer for a key's text.
    pub key: &'d mut Vec<u8>,
    /// Buffer for a part of a request.
    pub word: &'d mut Vec<u8>,
}

/// Buffer for a field's name: `f` and four digits.
pub type FieldName = [u8; 5];

/// Returns the name of field `field`.
pub fn field_name(field: u32) -> FieldName {
    let mut name = *b"f0000";
    protocol::number::write_digits(&mut name[1..], field.into());
    name
}

/// Returns the number of the field with this name.
pub fn field_number(name: &[u8]) -> Option<u32> {
    let digits = name.strip_prefix(b"f").filter(|digits| digits.len() == 4)?;
    protocol::number::parse_u32(digits)
}

/// Returns the number of fields that a request names.
fn named_fields(route: &Route, space: &Space) -> u32 {
    if route.fields == 0 { space.fields } else { route.fields.min(space.fields) }
}

impl RequestDraft<'_> {
    /// Returns the number of the only key.
    pub fn number(&self) -> u64 {
        self.plan.key & ((1 << FIELD_SHIFT) - 1)
    }

    /// Returns the number of the first field.
    pub fn field(&self) -> u32 {
        (self.plan.key >> FIELD_SHIFT) as u32
    }

    /// Returns the number of fields that the request names.
    pub fn named(&self) -> u32 {
        named_fields(self.route, self.space)
    }

    /// Returns the text of the request's only key.
    #[inline]
    pub fn only_key(&mut self) -> &[u8] {
        self.key.clear();
        let number = self.number();
        self.space.text.put(number, self.key);
        self.key
    }
}

/// A reply that is being read.
pub struct AnswerReader<'r> {
    pub route: &'r Route,
    pub space: &'r Space,
    pub verify: bool,
    pub follow: &'r mut Follow,
    pub state: AnswerState,
    pub pending: &'r mut Pending,
}

impl AnswerReader<'_> {
    /// Records an error reply with the text `words`.
    pub fn failed(&mut self, words: &[u8]) {
        self.state.failed();
        let said = &mut self.follow.said;
        said.clear();
        said.extend_from_slice(&words[..words.len().min(SAID_BYTES_MAX)]);
    }

    /// Completes the reply.
    pub fn done(&mut self) -> ReplyProgress {
        let progress = self.state.done(self.pending.read_bytes);
        let is_wrong = matches!(progress, ReplyProgress::Done { outcome: ReplyOutcome::Wrong, .. });
        self.follow.tally.values_wrong += u64::from(is_wrong);
        progress
    }

    /// Returns the number of fields that the request names.
    pub fn named(&self) -> u32 {
        named_fields(self.route, self.space)
    }

    /// Returns the number of key `index` of the request.
    pub fn key_at(&self, index: u32) -> u64 {
        self.space.key_at(self.pending.key, index, self.route.keys)
    }

    /// Records that the keys from `from` to before `to` do not exist.
    pub fn missed(&mut self, from: u32, to: u32) {
        for index in from..to {
            self.state.missed();
            let number = self.key_at(index) & ((1 << FIELD_SHIFT) - 1);
            self.follow.missed(self.route, number);
        }
    }
}
