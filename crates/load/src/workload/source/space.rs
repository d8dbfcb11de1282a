//! A key space, prepared for drawing.

use std::sync::Arc;

use base::clock::UnixMillis;
use base::prng::{Prng, split_mix};

use super::super::draw::alias::Alias;
use super::super::draw::lengths::Lengths;
use super::super::draw::order::Chooser;
use super::super::key::{KeyText, ttl_word, value_word};
use super::super::model::{KeySpace, Verb, Workload};
use super::super::value::Values;
use super::exchange::FIELD_SHIFT;
use super::route::{RequestForm, Route};

/// Longest relative time to live in seconds; memcached treats larger numbers as instants.
const RELATIVE_S_MAX: u64 = 30 * 86_400;

/// The initial value of a counter.
const COUNTER: &[u8] = b"0";

/// A key space of one thread.
#[derive(Debug)]
pub struct Space {
    /// Spelling of the keys.
    pub text: KeyText,
    /// The bodies of values.
    pub values: Arc<Values>,
    /// Number of fields of a hash.
    pub fields: u32,
    /// Chooses the keys of the requests.
    chooser: Chooser,
    /// Number of coins, of 2^64, that select a key that is requested once.
    once: u64,
    lengths: Lengths,
    ttl: Option<(Alias, Box<[u64]>)>,
    is_counter: bool,
    is_hash: bool,
    now_s: u64,
}

/// Creates the spaces of `workload`. Spaces with the same compressibility share the bodies of their values.
pub fn all(workload: &Workload, thread: u32, now: UnixMillis) -> Vec<Space> {
    let mut bodies: Vec<(f64, Arc<Values>)> = Vec::new();
    let of = |space: &KeySpace| {
        let share = space.compressible;
        let known = bodies.iter().find(|(known, _)| *known == share.0).map(|(_, values)| Arc::clone(values));
        let values = known.unwrap_or_else(|| Arc::new(Values::new(share)));
        bodies.push((share.0, Arc::clone(&values)));
        Space::new(space, values, thread, workload.threads, now)
    };
    workload.keys.iter().map(of).collect()
}

impl Space {
    fn new(space: &KeySpace, values: Arc<Values>, thread: u32, threads: u32, now: UnixMillis) -> Self {
        let weights: Vec<f64> = space.ttl.iter().map(|(_, weight)| *weight).collect();
        let seconds = space.ttl.iter().map(|(ttl, _)| ttl.as_ns() / 1_000_000_000).collect();
        Self {
            text: KeyText::new(space),
            values,
            fields: space.fields,
            chooser: Chooser::new(&space.order, space.count, thread.into(), threads.into()),
            once: (space.once.0 * 2f64.powi(64)) as u64,
            lengths: Lengths::new(&space.value_bytes),
            ttl: (!weights.is_empty()).then(|| (Alias::new(&weights), seconds)),
            is_counter: space.is_counter(),
            is_hash: space.is_hash(),
            now_s: now.secs(),
        }
    }

    /// Draws the key, or the base of several keys, of a request by `route`. For a hash the result includes the first
    /// field.
    #[inline]
    pub fn draw(&mut self, prng: &mut Prng, route: &Route) -> u64 {
        if route.keys > 1 {
            return self.chooser.draw_many(prng, route.keys.into());
        }
        if self.once > 0 && prng.next_u64() < self.once {
            return self.text.once(prng.next_u64());
        }
        let number = self.chooser.draw(prng, route.stores);
        let names_field = match &route.wire {
            RequestForm::Resp(Verb::HashGet | Verb::HashMultiGet | Verb::HashDelete) => true,
            RequestForm::Grpc(call) => call.names_field(),
            _ => false,
        };
        if names_field { number | prng.below(self.fields.into()) << FIELD_SHIFT } else { number }
    }

    /// Returns key `index` of a request for `keys` keys with this base.
    #[inline]
    pub fn key_at(&self, base: u64, index: u32, keys: u32) -> u64 {
        if keys <= 1 {
            return base;
        }
        if self.once > 0 {
            let coin = split_mix(split_mix(base).wrapping_add(index.into()));
            if coin < self.once {
                return self.text.once(split_mix(coin));
            }
        }
        self.chooser.nth(base, index.into())
    }

    /// Returns the length of a key's value in bytes; for a hash, the length of one field's value.
    #[inline]
    pub fn value_bytes(&self, number: u64, field: u32) -> u64 {
        if self.is_counter {
            return COUNTER.len() as u64;
        }
        match self.lengths.fixed() {
            Some(bytes) => bytes,
            None => self.lengths.pick(value_word(number, field.into())),
        }
    }

    /// Returns the mark of a value.
    pub fn mark(&self, number: u64, field: u32) -> u64 {
        let mark = self.text.mark(number);
        if self.is_hash { split_mix(mark ^ u64::from(field)) } else { mark }
    }

    /// Appends the value of `len` bytes of key `number`, or of one field of a hash.
    #[inline]
    pub fn put_value(&self, number: u64, field: u32, version: u64, len: u64, out: &mut Vec<u8>) {
        if self.is_counter {
            out.extend_from_slice(COUNTER);
        } else {
            self.values.put(self.mark(number, field), version, len, out);
        }
    }

    /// Returns a key's time to live in seconds; 0 for no expiry.
    #[inline]
    pub fn ttl_s(&self, number: u64) -> u64 {
        self.ttl.as_ref().map_or(0, |(alias, seconds)| seconds[alias.pick(ttl_word(number))])
    }

    /// Returns a key's time to live in memcached's form: an instant if it is long.
    #[inline]
    pub fn exptime(&self, number: u64) -> i64 {
        match self.ttl_s(number) {
            seconds @ 0..=RELATIVE_S_MAX => seconds as i64,
            seconds => (self.now_s + seconds) as i64,
        }
    }
}
