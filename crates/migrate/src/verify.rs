//! Compares copied keys at the source and the target.

use serde::{Deserialize, Serialize};

use super::item::{Item, Lookup};

/// Highest number of differences with a listed key.
const EXAMPLES_MAX: usize = 10;
/// Number of bytes of a key that are displayed.
const KEY_BYTES_SHOWN: usize = 60;
/// Largest allowed difference of expiries, in milliseconds.
const EXPIRY_MS: u64 = 1_000;
/// Additional allowed difference, in milliseconds, if a server counts whole seconds of its own clock.
const SECONDS_MS: u64 = 1_000;

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Keys that were read at the source and looked up at the target.
    pub looked_for: u64,
    /// Keys that are equal at both ends.
    pub same: u64,
    /// Keys that are missing at the target.
    pub missing: u64,
    /// Keys that only the target has, if it was searched for such keys.
    #[serde(default)]
    pub extra: u64,
    /// Keys with another value at the target.
    pub value_differs: u64,
    /// Keys with other client flags at the target.
    pub flags_differ: u64,
    /// Keys with another expiry at the target.
    pub expiry_differs: u64,
    /// Some of the differing keys, with the difference.
    pub examples: Vec<String>,
}

/// The properties that are compared in addition to the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    /// True if both ends store client flags.
    pub flags: bool,
    /// True if both ends report expiries.
    pub expiry: bool,
    /// True if both ends report the expiries of hash fields.
    pub field_expiry: bool,
    /// True if one end counts whole seconds.
    pub seconds: bool,
}

impl Verified {
    /// Returns the number of keys that differ.
    pub const fn differ(&self) -> u64 {
        self.looked_for - self.same + self.extra
    }

    /// Compares `item` with the target's lookup `found`, and counts the result.
    pub(super) fn add(&mut self, item: &Item, found: &Lookup, measure: Measure) {
        self.looked_for += 1;
        let (count, how) = match found {
            Lookup::Gone => (&mut self.missing, "the key is missing at the target".to_owned()),
            Lookup::Unfit(why) => (&mut self.value_differs, format!("the target's value cannot be compared ({why})")),
            Lookup::Item(there) if !there.value.is_same(&item.value) => {
                let (own, other) = (item.value.bytes(), there.value.bytes());
                (
                    &mut self.value_differs,
                    format!("the values differ: {own} bytes at the source, {other} bytes at the target"),
                )
            }
            Lookup::Item(there) if measure.flags && there.client_flags != item.client_flags => {
                let what = format!(
                    "the client flags differ: {} at the target, {} at the source",
                    there.client_flags, item.client_flags
                );
                (&mut self.flags_differ, what)
            }
            Lookup::Item(there)
                if measure.field_expiry && item.value.other_field_expiries(&there.value, EXPIRY_MS) > 0 =>
            {
                let fields = item.value.other_field_expiries(&there.value, EXPIRY_MS);
                (&mut self.expiry_differs, format!("the expiries of {fields} fields differ"))
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
                Some(Ok(ms)) => (&mut self.expiry_differs, format!("the expiries differ by at least {ms} ms")),
                Some(Err(what)) => (&mut self.expiry_differs, what.to_owned()),
            },
            Lookup::Item(_) => {
                self.same += 1;
                return;
            }
        };
        *count += 1;
        self.show(&item.key, &how);
    }

    /// Counts a key that only the target has.
    pub(super) fn add_extra(&mut self, key: &[u8]) {
        self.extra += 1;
        self.show(key, "only the target has the key");
    }

    fn show(&mut self, key: &[u8], how: &str) {
        if self.examples.len() < EXAMPLES_MAX {
            let key = &key[..key.len().min(KEY_BYTES_SHOWN)];
            self.examples.push(format!("{}: {how}", key.escape_ascii()));
        }
    }
}

/// Returns the smallest possible difference between two expiries, in milliseconds; `None` if neither item expires.
fn apart(own: &Item, there: &Item) -> Option<Result<u64, &'static str>> {
    match (own.expire_at, there.expire_at) {
        (None, None) => None,
        (Some(at), Some(other)) => {
            let slack_ms = own.expire_slack_ms + there.expire_slack_ms;
            Some(Ok(at.0.abs_diff(other.0).saturating_sub(slack_ms)))
        }
        (Some(_), None) => Some(Err("the key does not expire at the target")),
        (None, Some(_)) => Some(Err("the key expires only at the target")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{HashField, KeyValue};
    use base::clock::UnixMillis;

    fn item(value: &str, client_flags: u32, expire_ms: Option<u64>) -> Item {
        let value = KeyValue::Bytes(value.as_bytes().to_vec());
        Item { key: b"k\0ey".to_vec(), value, client_flags, expire_at: expire_ms.map(UnixMillis), expire_slack_ms: 0 }
    }

    #[test]
    fn each_kind_of_difference_is_counted_with_its_key() {
        let own = item("v", 7, Some(1_000_000));
        let strict = Measure { flags: true, expiry: true, field_expiry: true, seconds: false };
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
        let Verified { looked_for, same, missing, value_differs, flags_differ, expiry_differs, examples, .. } =
            &verified;
        assert_eq!((*looked_for, *same, *missing, *value_differs, *flags_differ, *expiry_differs), (7, 1, 1, 2, 1, 2));
        assert!(examples.len() == 6 && examples.iter().all(|line| line.starts_with("k\\x00ey: ")), "{examples:?}");
        assert_eq!(verified.differ(), 6);
        verified.add_extra(b"more");
        assert_eq!((verified.differ(), verified.looked_for), (7, 7));
    }

    #[test]
    fn attributes_unsupported_by_either_end_are_not_compared() {
        let own = item("v", 7, Some(1_000_000));
        let mut verified = Verified::default();
        verified.add(
            &own,
            &Lookup::Item(item("v", 0, Some(1_002_000))),
            Measure { flags: false, expiry: true, field_expiry: true, seconds: true },
        );
        verified.add(
            &own,
            &Lookup::Item(item("v", 7, None)),
            Measure { flags: true, expiry: false, field_expiry: true, seconds: true },
        );
        assert_eq!((verified.same, verified.differ()), (2, 0));
    }

    #[test]
    fn expiries_of_hash_fields_are_compared_if_both_ends_report_them() {
        let hash = |ms: &[Option<u64>]| {
            let fields = ms
                .iter()
                .enumerate()
                .map(|(n, at)| HashField { expire_at: at.map(UnixMillis), ..HashField::new(vec![n as u8], vec![]) });
            Item { value: KeyValue::Hash(fields.collect()), ..item("", 0, None) }
        };
        let own = hash(&[Some(5_000), None, Some(9_000_000)]);
        let measure = Measure { flags: true, expiry: true, field_expiry: true, seconds: false };
        let mut verified = Verified::default();
        verified.add(&own, &Lookup::Item(hash(&[Some(6_000), None, Some(9_000_000)])), measure);
        assert_eq!(verified.same, 1);
        let other = hash(&[Some(6_001), Some(1), None]);
        verified.add(&own, &Lookup::Item(other.clone()), Measure { field_expiry: false, ..measure });
        assert_eq!(verified.same, 2);
        verified.add(&own, &Lookup::Item(other), measure);
        assert_eq!((verified.expiry_differs, verified.value_differs), (1, 0));
        assert!(verified.examples[0].ends_with("the expiries of 3 fields differ"), "{:?}", verified.examples);
        assert_eq!(own.value.expiring_fields(), 2);
    }

    #[test]
    fn hashes_are_the_same_in_any_order() {
        let hash = |fields: &[(&str, &str)]| {
            KeyValue::Hash(fields.iter().map(|(f, v)| HashField::new((*f).into(), (*v).into())).collect())
        };
        assert!(hash(&[("a", "1"), ("b", "2")]).is_same(&hash(&[("b", "2"), ("a", "1")])));
        assert!(!hash(&[("a", "1")]).is_same(&hash(&[("a", "2")])));
    }
}
