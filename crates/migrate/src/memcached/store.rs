//! Stores items and returns their outcomes.

use base::clock::UnixMillis;
use protocol::memcache::KEY_BYTES_MAX;
use protocol::memcache::client::{self, Expect, MetaCode, MetaRequest, Reply, is_text_key};
use protocol::memcache::request::{Store, StoreMode, VALUE_BYTES_MAX};

use super::{Memcached, text};
use crate::item::{Item, KeyValue};
use crate::reconnect::RequestError;
use crate::target::StoreOutcome;

/// Returns the reason why memcached cannot store a key with any value; otherwise `None`.
pub(crate) fn why_unstorable(key: &[u8]) -> Option<String> {
    match key.len() {
        0 => Some("the key is empty".to_owned()),
        1..=KEY_BYTES_MAX => None,
        _ => Some(format!("the key is longer than {KEY_BYTES_MAX} bytes")),
    }
}

impl Memcached {
    /// Stores the items that have no outcome yet, in one exchange.
    pub fn store(
        &mut self,
        items: &[Item],
        overwrite: bool,
        outcomes: &mut [Option<StoreOutcome>],
    ) -> Result<(), RequestError> {
        let now = UnixMillis::now();
        let mut sent = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            if outcomes[at].is_some() {
                continue;
            }
            let KeyValue::Bytes(value) = &item.value else {
                outcomes[at] = Some(StoreOutcome::Unfit(
                    "the target uses the memcached protocol, which supports only strings".to_owned(),
                ));
                continue;
            };
            outcomes[at] = self.unfit(item, value, now);
            if outcomes[at].is_none() {
                let exptime_s = item.expire_at.map_or(0, |at| exptime(at, now, self.skew_s));
                self.put(item, value, exptime_s, overwrite);
                sent.push(at);
            }
        }
        let expect = if self.has_meta { Expect::Meta } else { Expect::Store };
        for at in sent {
            outcomes[at] = Some(self.answer(expect, |reply, _| {
                Ok(match reply {
                    Reply::Meta { code: MetaCode::Done, .. } | Reply::Stored => StoreOutcome::Copied,
                    Reply::Meta { code: MetaCode::NotStored, .. } | Reply::NotStored => StoreOutcome::There,
                    Reply::Error(error) if error.line().ends_with(b"object too large for cache") => {
                        StoreOutcome::Unfit("the item is larger than the target allows".to_owned())
                    }
                    Reply::Error(error) => StoreOutcome::Refused(text(error.line())),
                    _ => {
                        return Err(RequestError::Refused("the server sent an unexpected reply to a store".to_owned()));
                    }
                })
            })?);
        }
        Ok(())
    }

    fn unfit(&self, item: &Item, value: &[u8], now: UnixMillis) -> Option<StoreOutcome> {
        if item.expire_at.is_some_and(|at| at <= now) {
            return Some(StoreOutcome::Expired);
        }
        let why = why_unstorable(&item.key).or_else(|| {
            if value.len() > VALUE_BYTES_MAX as usize {
                return Some("the item is larger than the target allows".to_owned());
            }
            let plain = self.has_meta || is_text_key(&item.key);
            (!plain).then(|| {
                "the target does not support meta commands, and text commands cannot contain this key".to_owned()
            })
        });
        why.map(StoreOutcome::Unfit)
    }

    fn put(&mut self, item: &Item, value: &[u8], exptime_s: i64, overwrite: bool) {
        let (out, value_len) = (self.link.out(), value.len() as u32);
        let Item { key, client_flags, .. } = item;
        if self.has_meta {
            let mut request = MetaRequest::store(out, key, value_len).signed(b'T', exptime_s);
            if *client_flags != 0 {
                request = request.number(b'F', (*client_flags).into());
            }
            if !overwrite {
                request = request.token(b'M', b"E");
            }
            request.finish();
        } else {
            let mode = if overwrite { StoreMode::Set } else { StoreMode::Add };
            let (client_flags, exptime) = (*client_flags, exptime_s);
            client::store(out, &Store { mode, key, client_flags, exptime, value_len, compare: None, noreply: false });
        }
        client::value(self.link.out(), value);
    }
}

/// Returns the expiry as the protocol represents an instant: the nearest second since 1970, but never a past one.
fn exptime(expire_at: UnixMillis, now: UnixMillis, skew_s: i64) -> i64 {
    expire_at.plus_ms(500).secs().max(now.secs() + 1).saturating_add_signed(skew_s) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_rounded_to_nearest_second_of_server_clock() {
        let now = UnixMillis(1_800_000_000_250);
        assert_eq!(exptime(UnixMillis(1_800_000_100_499), now, 0), 1_800_000_100);
        assert_eq!(exptime(UnixMillis(1_800_000_100_500), now, 0), 1_800_000_101);
        assert_eq!(exptime(UnixMillis(1_800_000_100_000), now, -40), 1_800_000_060);
        assert_eq!(
            exptime(UnixMillis(1_800_000_000_251), now, 0),
            1_800_000_001,
            "an item with 1 ms to live has not expired"
        );
    }
}
