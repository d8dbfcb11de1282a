//! Lists all keys of a memcached server with their sizes and expiries.

use protocol::memcache::KEY_BYTES_MAX;
use protocol::memcache::client::{Expect, Reply, ServerError, uri_decoded};

use super::{Memcached, refused, text};
use crate::reconnect::RequestError;

/// A key of the dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedKey {
    /// The key. Empty if requests of this protocol cannot contain it: it is empty or longer than [`KEY_BYTES_MAX`].
    /// Clients of other protocols may store such keys at the same server.
    pub key: Vec<u8>,
    /// Bytes of the item on the server; 0 if the server does not report them.
    pub bytes: u32,
    /// Expiry in seconds since 1970 by the server's clock; `None` if the item does not expire or the server does not
    /// report it.
    pub expire_at_s: Option<u64>,
}

/// The error of a server that lists no keys because its crawler is off.
const CRAWLER_OFF: &str = "cannot list the keys: the server's LRU crawler is off; send it \"lru_crawler enable\", or \
                           restart it without -o no_lru_crawler";

/// Returns true if memcached replies with this line because its crawler was never started, or was disabled.
fn is_crawler_off(line: &[u8]) -> bool {
    line.starts_with(b"CLIENT_ERROR lru crawler disabled") || line.starts_with(b"ERROR an unknown error happened")
}

impl Memcached {
    /// Lists all items with `lru_crawler metadump`. The walk over the hash table lists each item once, even while items
    /// change. If the server does not support that walk, the server lists the items by age, and may omit a few items
    /// that other threads use at that moment.
    pub fn list(&mut self, mut each: impl FnMut(&ListedKey) -> Result<(), RequestError>) -> Result<(), RequestError> {
        for walk in ["hash", "all"] {
            self.link.out().extend_from_slice(format!("lru_crawler metadump {walk}\r\n").as_bytes());
            if self.listing(&mut each)? {
                return Ok(());
            }
        }
        Err(RequestError::Refused(
            "cannot list the keys: the server does not support lru_crawler metadump all".to_owned(),
        ))
    }

    /// Lists the items by the given walk. Returns whether the server supports it.
    fn listing(&mut self, each: &mut impl FnMut(&ListedKey) -> Result<(), RequestError>) -> Result<bool, RequestError> {
        enum Next {
            More,
            End,
            Unknown,
        }
        let mut room = [0; KEY_BYTES_MAX];
        loop {
            let next = self.answer(Expect::Metadump, |reply, _| match reply {
                Reply::Metadump(facts) => {
                    let number = |name: &[u8]| {
                        let value = std::str::from_utf8(facts.value(name)?).ok()?;
                        value.parse::<i64>().ok()
                    };
                    let written = facts.value(b"key").unwrap_or_default();
                    let key = uri_decoded(written, &mut room).or_else(|| has_other_length(written).then_some(&[]));
                    let key = key.ok_or_else(|| {
                        RequestError::Refused(format!("cannot parse a dumped key: {}", text(written)))
                    })?;
                    each(&ListedKey {
                        key: key.to_vec(),
                        bytes: number(b"size").map_or(0, |bytes| bytes.clamp(0, u32::MAX.into()) as u32),
                        expire_at_s: number(b"exp").and_then(|at| u64::try_from(at).ok()).filter(|at| *at > 0),
                    })?;
                    Ok(Next::More)
                }
                Reply::End => Ok(Next::End),
                Reply::Error(ServerError::Refused(line)) if line.starts_with(b"BUSY") => {
                    Err(RequestError::Lost("another dump is in progress".to_owned()))
                }
                Reply::Error(ServerError::Refused(line)) if line.starts_with(b"BADCLASS") => Ok(Next::Unknown),
                Reply::Error(error) if error.line().starts_with(b"ERROR metadump not allowed") => {
                    Err(RequestError::Refused(
                        "the server was started with -X, which forbids dumps; restart it without -X".to_owned(),
                    ))
                }
                Reply::Error(error) if is_crawler_off(error.line()) => {
                    Err(RequestError::Refused(CRAWLER_OFF.to_owned()))
                }
                Reply::Error(error) => Err(refused(error)),
                _ => {
                    Err(RequestError::Refused("the server sent an unexpected reply to lru_crawler metadump".to_owned()))
                }
            })?;
            match next {
                Next::More => {}
                Next::End => return Ok(true),
                Next::Unknown => return Ok(false),
            }
        }
    }
}

/// Returns whether an escaped key is well-formed, but empty or longer than this protocol's keys.
fn has_other_length(escaped: &[u8]) -> bool {
    let (mut rest, mut bytes) = (escaped, 0);
    while let [first, behind @ ..] = rest {
        rest = match (first, behind) {
            (b'%', [high, low, behind @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => behind,
            (b'%', _) => return false,
            _ => behind,
        };
        bytes += 1;
    }
    bytes == 0 || bytes > KEY_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_well_formed_key_of_another_length_is_no_fault() {
        let long = |bytes: usize| "%6b".repeat(bytes).into_bytes();
        assert!(has_other_length(b"") && has_other_length(&long(KEY_BYTES_MAX + 1)));
        assert!(has_other_length(&vec![b'k'; 4_000]));
        assert!(!has_other_length(&long(KEY_BYTES_MAX)) && !has_other_length(b"k"));
        assert!(!has_other_length(b"%6") && !has_other_length(&[b"%zz".as_slice(), &long(300)].concat()));
    }
}
