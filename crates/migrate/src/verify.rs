//! Reads what was copied at both ends and compares.

use serde::{Deserialize, Serialize};

use super::item::{Item, Lookup};

/// Differences whose keys are listed.
const EXAMPLES_MAX: usize = 10;
/// Bytes of a key that are shown.
const KEY_BYTES_SHOWN: usize = 60;
/// Expiries may be this far apart.
const EXPIRY_MS: u64 = 1_000;
/// And this much further where a server counts in seconds that are not those of this host's clock.
const SECONDS_MS: u64 = 1_000;

/// Result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Keys that were read at the source, and so looked for at the target.
    pub looked_for: u64,
    /// Equal at both ends.
    pub same: u64,
    /// Not at the target.
    pub missing: u64,
    /// With another value.
    pub value_differs: u64,
    /// With other client flags.
    pub flags_differ: u64,
    /// Expiring at another time.
    pub expiry_differs: u64,
    /// Some of the keys that differ and how.
    pub examples: Vec<String>,
}

/// Properties that are compared beside the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    /// Client flags are kept by both ends.
    pub flags: bool,
    /// Expiries are reported by both ends.
    pub expiry: bool,
    /// One end counts seconds.
    pub seconds: bool,
}

impl Verified {
    /// Keys that are not the same.
    pub const fn differ(&self) -> u64 {
        self.looked_for - self.same
    }

    /// Adds what was found at the target of `item`.
    pub(super) fn add(&mut self, item: &Item, found: &Lookup, measure: Measure) {
        self.looked_for += 1;
        let (count, how) = match found {
            Lookup::Gone => (&mut self.missing, "it is not at the target".to_owned()),
            Lookup::Unfit(why) => (&mut self.value_differs, format!("another type is at the target ({why})")),
            Lookup::Item(there) if !there.value.is_same(&item.value) => {
                let (own, other) = (item.value.bytes(), there.value.bytes());
                (&mut self.value_differs, format!("another value of {other} bytes is at the target, not that of {own}"))
            }
            Lookup::Item(there) if measure.flags && there.client_flags != item.client_flags => {
                let what = format!("its flags are {} at the target, not {}", there.client_flags, item.client_flags);
                (&mut self.flags_differ, what)
            }
            Lookup::Item(there) if measure.expiry => match apart(item, there) {
                Some(Ok(ms)) if ms <= EXPIRY_MS + if measure.seconds { SECONDS_MS } else { 0 } => {
                    self.same += 1;
                    return;
                }
                None => {
                    self.same += 1;
                    return;
                }
                Some(Ok(ms)) => (&mut self.expiry_differs, format!("its expiries are {ms} ms apart")),
                Some(Err(what)) => (&mut self.expiry_differs, what.to_owned()),
            },
            Lookup::Item(_) => {
                self.same += 1;
                return;
            }
        };
        *count += 1;
        if self.examples.len() < EXAMPLES_MAX {
            let key = &item.key[..item.key.len().min(KEY_BYTES_SHOWN)];
            self.examples.push(format!("{}: {how}", key.escape_ascii()));
        }
    }
}

/// Returns the least distance between two expiries, in milliseconds; `None`: neither has one.
fn apart(own: &Item, there: &Item) -> Option<Result<u64, &'static str>> {
    match (own.expire_at, there.expire_at) {
        (None, None) => None,
        (Some(at), Some(other)) => {
            let slack_ms = own.expire_slack_ms + there.expire_slack_ms;
            Some(Ok(at.0.abs_diff(other.0).saturating_sub(slack_ms)))
        }
        (Some(_), None) => Some(Err("it never expires at the target")),
        (None, Some(_)) => Some(Err("it expires at the target alone")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::KeyValue;
    use base::clock::UnixMillis;

    fn item(value: &str, client_flags: u32, expire_ms: Option<u64>) -> Item {
        let value = KeyValue::Bytes(value.as_bytes().to_vec());
        Item { key: b"k\0ey".to_vec(), value, client_flags, expire_at: expire_ms.map(UnixMillis), expire_slack_ms: 0 }
    }

    #[test]
    fn each_difference_is_told_apart_and_by_its_key() {
        let own = item("v", 7, Some(1_000_000));
        let strict = Measure { flags: true, expiry: true, seconds: false };
        let mut verified = Verified::default();
        for there in [
            Lookup::Item(item("v", 7, Some(1_001_000))),
            Lookup::Gone,
            Lookup::Unfit("list".into()),
            Lookup::Item(item("w", 7, Some(1_000_000))),
            Lookup::Item(item("v", 8, Some(1_000_000))),
            Lookup::Item(item("v", 7, Some(1_001_001))),
            Lookup::Item(item("v", 7, None)),
        ] {
            verified.add(&own, &there, strict);
        }
        let Verified { looked_for, same, missing, value_differs, flags_differ, expiry_differs, examples } = &verified;
        assert_eq!((*looked_for, *same, *missing, *value_differs, *flags_differ, *expiry_differs), (7, 1, 1, 2, 1, 2));
        assert!(examples.len() == 6 && examples.iter().all(|line| line.starts_with("k\\x00ey: ")), "{examples:?}");
        assert_eq!(verified.differ(), 6);
    }

    #[test]
    fn what_an_end_does_not_keep_is_not_compared() {
        let own = item("v", 7, Some(1_000_000));
        let mut verified = Verified::default();
        verified.add(
            &own,
            &Lookup::Item(item("v", 0, Some(1_002_000))),
            Measure { flags: false, expiry: true, seconds: true },
        );
        verified.add(&own, &Lookup::Item(item("v", 7, None)), Measure { flags: true, expiry: false, seconds: true });
        assert_eq!((verified.same, verified.differ()), (2, 0));
    }

    #[test]
    fn hashes_are_the_same_in_any_order() {
        let hash = |fields: &[(&str, &str)]| {
            KeyValue::Hash(fields.iter().map(|(f, v)| (f.as_bytes().to_vec(), v.as_bytes().to_vec())).collect())
        };
        assert!(hash(&[("a", "1"), ("b", "2")]).is_same(&hash(&[("b", "2"), ("a", "1")])));
        assert!(!hash(&[("a", "1")]).is_same(&hash(&[("a", "2")])));
    }
}
