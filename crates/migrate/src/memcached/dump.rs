//! All keys of a server, with what it says of them.

use protocol::memcache::KEY_BYTES_MAX;
use protocol::memcache::client::{Expect, Reply, ServerError, uri_decoded};

use super::{Memcached, refused, text};
use crate::reconnect::RequestError;

/// A key of the dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedKey {
    /// The key.
    pub key: Vec<u8>,
    /// Bytes that the server keeps for the item, 0 if it does not say.
    pub bytes: u32,
    /// Time at which it expires: seconds since 1970 by the server's clock; `None`: never, or not said.
    pub expire_at_s: Option<u64>,
}

impl Memcached {
    /// Lists all items with `lru_crawler metadump`. The walk over the hash table sees each item once whatever becomes
    /// of it in the meantime; servers that do not know that walk are asked for the one by age, which may miss a few
    /// that are used at that moment.
    pub fn list(&mut self, mut each: impl FnMut(&ListedKey) -> Result<(), RequestError>) -> Result<(), RequestError> {
        for walk in ["hash", "all"] {
            self.link.out().extend_from_slice(format!("lru_crawler metadump {walk}\r\n").as_bytes());
            if self.listing(&mut each)? {
                return Ok(());
            }
        }
        Err(RequestError::Refused(
            "it knows no way to walk over all of its items (lru_crawler metadump all)".to_owned(),
        ))
    }

    /// Returns whether the server knows the walk.
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
                    let key = uri_decoded(written, &mut room).ok_or_else(|| {
                        RequestError::Refused(format!("a dumped key cannot be read: {}", text(written)))
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
                    Err(RequestError::Lost("it is busy with another dump".to_owned()))
                }
                Reply::Error(ServerError::Refused(line)) if line.starts_with(b"BADCLASS") => Ok(Next::Unknown),
                Reply::Error(error) if error.line().starts_with(b"ERROR metadump not allowed") => Err(
                    RequestError::Refused("it was started with -X, which forbids dumps; start it without".to_owned()),
                ),
                Reply::Error(error) => Err(refused(error)),
                _ => Err(RequestError::Refused("it answers a dump with something else".to_owned())),
            })?;
            match next {
                Next::More => {}
                Next::End => return Ok(true),
                Next::Unknown => return Ok(false),
            }
        }
    }
}
