//! The model: the required behaviour of the store, implemented in a simple way.

use std::collections::HashMap;

use base::clock::UnixMillis;
use base::prng::Prng;
use gannet_segment::{Arith, ArithOutcome, Delete, DeleteOutcome, Expire, Fetch, Lease, Put, PutMode, PutOutcome};

/// The maximum length of a key and its value together, in bytes.
const ITEM_BYTES_MAX: usize = 5000;

#[derive(Clone, Debug)]
pub struct ModelItem {
    pub value: Vec<u8>,
    pub client_flags: u32,
    pub expire: Expire,
    pub stale: bool,
    won: bool,
    /// A number that differs from that of every other state of every item.
    version: u64,
    /// The client's own token.
    own_token: Option<u64>,
}

/// A token that a client has received, and the state to which it belongs.
#[derive(Clone, Copy, Debug)]
struct Given {
    token: u64,
    version: u64,
}

#[derive(Debug, Default)]
pub struct Model {
    entries: HashMap<Vec<u8>, ModelItem>,
    given: HashMap<Vec<u8>, Vec<Given>>,
    versions: u64,
}

pub enum Tried {
    Put(PutOutcome),
    TooLarge,
}

fn ended(expire: Expire, now: UnixMillis) -> bool {
    matches!(expire, Expire::At(at) if at <= now)
}

/// Returns the expiry as the store keeps it. An expiry more than 24 days ahead is rounded down to 10 ms, and one more
/// than 388 days ahead to a second, because its segment counts in this unit.
fn kept(expire: Expire, now: UnixMillis) -> Expire {
    match expire {
        Expire::At(at) if at.ms_since(now) > 8_000 << 22 => Expire::At(UnixMillis(at.0 / 1000 * 1000)),
        Expire::At(at) if at.ms_since(now) > 8_000 << 18 => Expire::At(UnixMillis(at.0 / 10 * 10)),
        // The store writes a relative time of 0 as 1, so a time in the past stays in the past, or is the segment's
        // start.
        other => other,
    }
}

impl Model {
    pub fn live(&self, key: &[u8], now: UnixMillis) -> Option<&ModelItem> {
        self.entries.get(key).filter(|e| !ended(e.expire, now))
    }

    pub fn forget(&mut self, key: &[u8]) {
        self.entries.remove(key);
    }

    pub fn flush(&mut self, namespace: u8) {
        self.entries.retain(|key, _| key[0] != b'0' + namespace);
    }

    pub fn give_token(&mut self, key: &[u8], token: u64) {
        let Some(entry) = self.entries.get(key) else { return };
        if let Some(own) = entry.own_token {
            assert_eq!(token, own, "an item's token is the one that its client gave");
        }
        let given = self.given.entry(key.to_vec()).or_default();
        for old in given.iter() {
            assert_eq!(old.token == token, old.version == entry.version, "one token for each state: {given:?}");
        }
        if given.last().is_none_or(|last| last.token != token) {
            given.push(Given { token, version: entry.version });
        }
        if given.len() > 4 {
            given.remove(0);
        }
    }

    /// Returns a token that a client once received for this key, or one that no client received.
    pub fn some_token(&self, key: &[u8], prng: &mut Prng) -> Option<u64> {
        match self.given.get(key).filter(|given| !given.is_empty()) {
            Some(given) if prng.chance(3, 4) => Some(given.last()?.token),
            Some(given) => Some(given[prng.below(given.len() as u64) as usize].token),
            None => Some(1),
        }
    }

    fn token_is(&self, key: &[u8], token: u64) -> bool {
        let Some(entry) = self.entries.get(key) else { return false };
        entry.own_token == Some(token)
            || self
                .given
                .get(key)
                .is_some_and(|given| given.iter().any(|g| g.token == token && g.version == entry.version))
    }

    fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    fn insert(&mut self, key: &[u8], entry: ModelItem, now: UnixMillis) {
        let expire = kept(entry.expire, now);
        self.entries.insert(key.to_vec(), ModelItem { expire, ..entry });
    }

    /// Stores a value. The first character of a key selects its namespace.
    pub fn put(&mut self, key: &[u8], put: &Put<'_>, now: UnixMillis) -> Tried {
        if key.len() - 1 + put.value.len() > ITEM_BYTES_MAX {
            return Tried::TooLarge;
        }
        let there = self.live(key, now).cloned();
        if let Some(compare) = put.compare {
            if there.is_none() {
                return Tried::Put(PutOutcome::NotFound);
            }
            if !self.token_is(key, compare) {
                return Tried::Put(PutOutcome::Exists);
            }
        }
        let joins = matches!(put.mode, PutMode::Append | PutMode::Prepend);
        let fits = match put.mode {
            PutMode::Set => true,
            PutMode::Add => there.is_none(),
            PutMode::Replace => there.is_some(),
            PutMode::Append | PutMode::Prepend => there.is_some() || put.vivify.is_some(),
        };
        if !fits {
            return Tried::Put(PutOutcome::NotStored);
        }
        let version = self.next_version();
        let mut entry = ModelItem {
            value: put.value.to_vec(),
            client_flags: put.client_flags,
            expire: put.vivify.filter(|_| joins).unwrap_or(put.expire),
            stale: false,
            won: false,
            version,
            own_token: put.token,
        };
        if let (true, Some(old)) = (joins, &there) {
            if key.len() - 1 + old.value.len() + put.value.len() > ITEM_BYTES_MAX {
                return Tried::TooLarge;
            }
            entry.value = match put.mode {
                PutMode::Append => [&old.value[..], put.value].concat(),
                _ => [put.value, &old.value[..]].concat(),
            };
            (entry.client_flags, entry.expire) = (old.client_flags, old.expire);
        }
        let bytes = entry.value.len() as u64;
        self.insert(key, entry, now);
        Tried::Put(PutOutcome::Stored { token: 0, bytes })
    }

    pub fn delete(&mut self, key: &[u8], delete: &Delete, now: UnixMillis) -> DeleteOutcome {
        if self.live(key, now).is_none() {
            self.entries.remove(key);
            return DeleteOutcome::NotFound;
        }
        if delete.compare.is_some_and(|token| !self.token_is(key, token)) {
            return DeleteOutcome::Exists;
        }
        if !(delete.mark_stale || delete.drop_value) {
            self.entries.remove(key);
            return DeleteOutcome::Deleted;
        }
        let version = self.next_version();
        let entry = self.entries.get_mut(key).expect("it is live");
        (entry.version, entry.own_token) = (version, None);
        if delete.mark_stale {
            (entry.stale, entry.won) = (true, false);
        }
        if let Some(expire) = delete.expire {
            entry.expire = kept(expire, now);
        }
        if delete.drop_value {
            entry.value.clear();
            entry.client_flags = 0;
        }
        DeleteOutcome::Deleted
    }

    pub fn arith(&mut self, key: &[u8], arith: &Arith, now: UnixMillis) -> ArithOutcome {
        let Some(old) = self.live(key, now).cloned() else {
            return match arith.vivify {
                Some((value, expire)) if arith.compare.is_none() => {
                    let version = self.next_version();
                    let entry = ModelItem {
                        value: value.to_string().into_bytes(),
                        client_flags: 0,
                        expire,
                        stale: false,
                        won: false,
                        version,
                        own_token: arith.token,
                    };
                    self.insert(key, entry, now);
                    ArithOutcome::Number { value, token: 0, expire_before: None, expire: kept(expire, now) }
                }
                _ => ArithOutcome::NotFound,
            };
        };
        if arith.compare.is_some_and(|token| !self.token_is(key, token)) {
            return ArithOutcome::Exists;
        }
        let text = String::from_utf8_lossy(&old.value);
        let digits = text.trim_end_matches(|c: char| c.is_ascii_whitespace());
        let plain = text.len() <= 20 && digits.bytes().all(|b| b.is_ascii_digit());
        let Some(number) = digits.parse::<u64>().ok().filter(|_| plain) else { return ArithOutcome::NotNumber };
        let value = if arith.decrement { number.saturating_sub(arith.delta) } else { number.wrapping_add(arith.delta) };
        let version = self.next_version();
        let (before, expire) = (old.expire, arith.expire.unwrap_or(old.expire));
        let value_text = value.to_string().into_bytes();
        self.insert(key, ModelItem { value: value_text, expire, version, own_token: arith.token, ..old }, now);
        ArithOutcome::Number { value, token: 0, expire_before: Some(kept(before, now)), expire: kept(expire, now) }
    }

    pub fn touch(&mut self, key: &[u8], expire: Expire, now: UnixMillis) -> bool {
        let found = self.live(key, now).is_some();
        if found {
            self.entries.get_mut(key).expect("it is live").expire = kept(expire, now);
        }
        found
    }

    pub fn fetch(&mut self, key: &[u8], fetch: &Fetch, now: UnixMillis) -> Option<(Lease, bool)> {
        if self.live(key, now).is_none() {
            let expire = fetch.vivify?;
            let version = self.next_version();
            let (value, own_token) = (Vec::new(), fetch.token);
            let entry = ModelItem { value, client_flags: 0, expire, stale: false, won: true, version, own_token };
            self.insert(key, entry, now);
            return Some((Lease::Won, true));
        }
        let entry = self.entries.get_mut(key).expect("it is live");
        let ends_soon = match (fetch.recache_below_ms, entry.expire) {
            (Some(below), Expire::At(at)) => at.ms_since(now) < below,
            _ => false,
        };
        let lease = if entry.won {
            Lease::AlreadyWon
        } else if entry.stale || ends_soon {
            entry.won = true;
            Lease::Won
        } else {
            Lease::None
        };
        if let Some(touch) = fetch.touch {
            entry.expire = kept(touch, now);
        }
        Some((lease, false))
    }
}
