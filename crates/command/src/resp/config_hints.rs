//! Settings of Redis about how it stores and evicts values, which have no meaning for this server. `CONFIG SET` accepts
//! valid values of them, because clients and operators set them, and `CONFIG GET` returns what was set. Only
//! `OBJECT ENCODING` uses some of them ([`super::encoding`]), and `XADD` and `XTRIM` with `~` those of streams.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// The values that a setting accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HintKind {
    /// A whole number in this range.
    Number(i64, i64),
    /// A number of bytes.
    Size,
    /// `yes` or `no`.
    Switch,
}

/// A setting: its name, an earlier name of it or an empty text, its kind, and its value at the start.
struct Hint(&'static str, &'static str, HintKind, i64);

const COUNT: HintKind = HintKind::Number(0, i64::MAX);
const INT: i64 = i32::MAX as i64;

/// The settings, with the default values of Redis.
#[rustfmt::skip]
const HINTS: [Hint; 27] = [
    Hint("active-expire-effort", "", HintKind::Number(1, 10), 1),
    Hint("activedefrag", "", HintKind::Switch, 0),
    Hint("activerehashing", "", HintKind::Switch, 1),
    Hint("hash-max-listpack-entries", "hash-max-ziplist-entries", COUNT, 512),
    Hint("hash-max-listpack-value", "hash-max-ziplist-value", HintKind::Size, 64),
    Hint("hll-sparse-max-bytes", "", HintKind::Size, 3000),
    Hint("lazyfree-lazy-eviction", "", HintKind::Switch, 0),
    Hint("lazyfree-lazy-expire", "", HintKind::Switch, 0),
    Hint("lazyfree-lazy-server-del", "", HintKind::Switch, 0),
    Hint("lazyfree-lazy-user-del", "", HintKind::Switch, 0),
    Hint("lazyfree-lazy-user-flush", "", HintKind::Switch, 0),
    Hint("lfu-decay-time", "", HintKind::Number(0, INT), 1),
    Hint("lfu-log-factor", "", HintKind::Number(0, INT), 10),
    Hint("list-compress-depth", "", HintKind::Number(0, INT), 0),
    Hint("list-max-listpack-size", "list-max-ziplist-size", HintKind::Number(i32::MIN as i64, INT), -2),
    Hint("maxmemory-eviction-tenacity", "", HintKind::Number(0, 100), 10),
    Hint("maxmemory-samples", "", HintKind::Number(1, INT), 5),
    Hint("rdbcompression", "", HintKind::Switch, 1),
    Hint("replica-lazy-flush", "", HintKind::Switch, 0),
    Hint("set-max-intset-entries", "", COUNT, 512),
    Hint("set-max-listpack-entries", "", COUNT, 128),
    Hint("set-max-listpack-value", "", HintKind::Size, 64),
    Hint("stop-writes-on-bgsave-error", "", HintKind::Switch, 1),
    Hint("stream-node-max-bytes", "", HintKind::Size, 4096),
    Hint("stream-node-max-entries", "", COUNT, 100),
    Hint("zset-max-listpack-entries", "zset-max-ziplist-entries", COUNT, 128),
    Hint("zset-max-listpack-value", "zset-max-ziplist-value", HintKind::Size, 64),
];

/// Returns all names with the numbers of their settings.
pub(super) fn names() -> impl Iterator<Item = (usize, &'static str)> {
    let each = HINTS.iter().enumerate().flat_map(|(at, hint)| [(at, hint.0), (at, hint.1)]);
    each.filter(|(_, name)| !name.is_empty())
}

/// Returns the number and the name of the setting with this name, in lower case.
pub(super) fn find(name: &[u8]) -> Option<(usize, &'static str)> {
    names().find(|(_, known)| known.as_bytes() == name)
}

/// Returns the number of the setting with this name, for a constant.
pub(super) const fn number_of(name: &str) -> usize {
    let mut at = 0;
    while !is_same(HINTS[at].0.as_bytes(), name.as_bytes()) {
        at += 1;
    }
    at
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Returns the kind of setting number `at`.
pub(super) fn kind(at: usize) -> HintKind {
    HINTS[at].2
}

/// The values of the settings.
#[derive(Debug)]
pub struct Hints([AtomicI64; HINTS.len()]);

impl Default for Hints {
    fn default() -> Self {
        Self(std::array::from_fn(|at| AtomicI64::new(HINTS[at].3)))
    }
}

impl Hints {
    pub(super) fn set(&self, at: usize, value: i64) {
        self.0[at].store(value, Relaxed);
    }

    /// Returns the value of a setting as `CONFIG GET` does.
    pub(super) fn text(&self, at: usize) -> String {
        let value = self.0[at].load(Relaxed);
        match HINTS[at].2 {
            HintKind::Switch => if value == 0 { "no" } else { "yes" }.to_owned(),
            _ => value.to_string(),
        }
    }

    /// Returns the value of setting number `at`, a number or a size.
    pub(super) fn value(&self, at: usize) -> u64 {
        u64::try_from(self.0[at].load(Relaxed)).unwrap_or(0)
    }

    /// Returns the value of the setting `name`, a number or a size.
    pub(super) fn number(&self, name: &str) -> u64 {
        let (at, _) = find(name.as_bytes()).expect("a setting of this table");
        self.value(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_returns_what_was_set_under_either_of_its_names() {
        let hints = Hints::default();
        assert!(HINTS.is_sorted_by(|a, b| a.0 < b.0));
        let (at, _) = find(b"hash-max-ziplist-entries").expect("the earlier name");
        hints.set(at, 7);
        assert_eq!((hints.number("hash-max-listpack-entries"), hints.text(at)), (7, "7".to_owned()));
        assert_eq!(hints.value(number_of("stream-node-max-entries")), 100);
        let (at, _) = find(b"activerehashing").expect("the setting");
        assert_eq!(hints.text(at), "yes");
    }
}
