//! Reads items by their keys.

use base::clock::UnixMillis;
use protocol::memcache::client::{self, Expect, MetaCode, MetaRequest, Reply, ServerError, is_text_key};

use super::{Memcached, refused, text};
use crate::item::{Item, KeyValue, Lookup};
use crate::reconnect::RequestError;

/// Largest difference in milliseconds at which two reported expiries count as equal. Both reports are in whole seconds.
const SAME_MS: u64 = 2_000;

/// Reason under which values are counted that exist but are not readable with this protocol.
const NOT_A_STRING: &str = "a hash, a list or another type: the source's protocol reads only strings; copy from its \
                            redis:// address";

impl Memcached {
    /// Reads `keys` in one exchange, each with its expiry from the dump. The server does not count this read as a use
    /// of the items.
    pub fn read<'k>(
        &mut self,
        keys: impl Iterator<Item = (&'k [u8], Option<u64>)> + Clone,
    ) -> Result<Vec<Lookup>, RequestError> {
        if !self.has_meta {
            return self.read_text(keys);
        }
        for (key, _) in keys.clone() {
            MetaRequest::get(self.link.out(), key).flag(b'v').flag(b'f').flag(b't').flag(b'u').finish();
        }
        let (skew_s, sent) = (self.skew_s, UnixMillis::now());
        let mut found = Vec::with_capacity(keys.size_hint().0);
        for (key, reported_s) in keys.clone() {
            found.push(self.answer(Expect::Meta, |reply, value| match reply {
                Reply::MetaValue { flags, .. } => {
                    let ttl_s = flags.token(b't').and_then(|ttl| std::str::from_utf8(ttl).ok()?.parse::<i64>().ok());
                    let client_flags = flags.number(b'f').and_then(|flags| u32::try_from(flags).ok());
                    let (Some(ttl_s), Some(client_flags)) = (ttl_s, client_flags) else {
                        return Err(RequestError::Refused(
                            "the server replied to a read without flags or time to live".to_owned(),
                        ));
                    };
                    let expiry = u64::try_from(ttl_s).ok().map(|ttl_s| expiry(sent, ttl_s, reported_s, skew_s));
                    Ok(item(key, value, client_flags, expiry))
                }
                Reply::Meta { code: MetaCode::Miss, .. } => Ok(Lookup::Gone),
                Reply::Error(error) => {
                    Ok(Lookup::Unfit(format!("the server cannot return the value: {}", text(error.line()))))
                }
                _ => Err(RequestError::Refused("the server sent an unexpected reply to a read".to_owned())),
            })?);
        }
        self.distinguish_gone(keys.map(|(key, _)| key), &mut found)?;
        Ok(found)
    }

    /// Asks for the facts about the keys that a read did not find. If the server has such a key, its value is one that
    /// this protocol does not read.
    fn distinguish_gone<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        found: &mut [Lookup],
    ) -> Result<(), RequestError> {
        for (key, _) in keys.zip(found.iter()).filter(|(_, found)| **found == Lookup::Gone) {
            MetaRequest::debug(self.link.out(), key).finish();
        }
        for found in found.iter_mut().filter(|found| **found == Lookup::Gone) {
            let is_there = self.answer(Expect::MetaDebug, |reply, _| match reply {
                Reply::MetaDebug { .. } => Ok(true),
                Reply::Meta { code: MetaCode::Miss, .. } | Reply::Error(ServerError::Command(_)) => Ok(false),
                Reply::Error(error) => Err(refused(error)),
                _ => Err(RequestError::Refused("the server sent an unexpected reply to me".to_owned())),
            })?;
            if is_there {
                *found = Lookup::Unfit(NOT_A_STRING.to_owned());
            }
        }
        Ok(())
    }

    /// Reads `keys` as [`Self::read`] does, with the older text commands.
    fn read_text<'k>(
        &mut self,
        keys: impl Iterator<Item = (&'k [u8], Option<u64>)> + Clone,
    ) -> Result<Vec<Lookup>, RequestError> {
        for (key, _) in keys.clone().filter(|(key, _)| is_text_key(key)) {
            client::get(self.link.out(), key);
        }
        let skew_s = self.skew_s;
        let mut found = Vec::with_capacity(keys.size_hint().0);
        for (key, reported_s) in keys {
            if !is_text_key(key) {
                found.push(Lookup::Unfit(
                    "the source does not support meta commands, and text commands cannot contain this key".to_owned(),
                ));
                continue;
            }
            let mut one = Lookup::Gone;
            while !self.answer(Expect::Values, |reply, value| match reply {
                Reply::Value(header) => {
                    let expiry = reported_s.map(|reported_s| (by_own_clock(reported_s, skew_s), 0));
                    one = item(key, value, header.client_flags, expiry);
                    Ok(false)
                }
                Reply::Error(error) => Err(refused(error)),
                _ => Ok(true),
            })? {}
            found.push(one);
        }
        Ok(found)
    }
}

fn item(key: &[u8], value: &[u8], client_flags: u32, expiry: Option<(UnixMillis, u64)>) -> Lookup {
    let (key, value) = (key.to_vec(), KeyValue::Bytes(value.to_vec()));
    let (expire_at, expire_slack_ms) = expiry.map_or((None, 0), |(at, slack_ms)| (Some(at), slack_ms));
    Lookup::Item(Item { key, value, client_flags, expire_at, expire_slack_ms })
}

/// Converts an instant of the server's clock to this host's clock.
fn by_own_clock(reported_s: u64, skew_s: i64) -> UnixMillis {
    UnixMillis::from_secs(reported_s.saturating_add_signed(-skew_s))
}

/// Returns the expiry of an item, and the largest error of that expiry in milliseconds. `ttl_s` is the remaining time
/// to live that the server reported for a request sent at `sent`. `reported_s` is the expiry from the dump, which is
/// exact unless a client has changed the time to live since.
fn expiry(sent: UnixMillis, ttl_s: u64, reported_s: Option<u64>, skew_s: i64) -> (UnixMillis, u64) {
    let slack_ms = UnixMillis::now().ms_since(sent);
    let read = sent.plus_ms(ttl_s.saturating_mul(1000));
    match reported_s.map(|reported_s| by_own_clock(reported_s, skew_s)) {
        Some(reported) if reported.ms_since(read) <= SAME_MS + slack_ms && read.ms_since(reported) <= SAME_MS => {
            (reported, 0)
        }
        _ => (UnixMillis(read.0 / 1000 * 1000), slack_ms),
    }
}
