//! Routes from key prefixes to namespaces, for memcached connections of the default listeners.
//!
//! ```text
//!   "app1:" -> 1, "app1:tmp:" -> 2
//!   rules in byte order:             [ app1:  | app1:tmp: ]      "app1:x"      -> app1:      -> 1
//!                                        ^------- prefix of      "app1:tmp:y"  -> app1:tmp:  -> 2
//!                                                                "app2:z"      -> no rule    -> default namespace
//! ```
//! If several rules match a key, each shorter rule is a prefix of each longer rule. Consider the last rule, in byte
//! order, that is not greater than the key. This rule either matches the key, or begins with every rule that matches
//! the key. A lookup therefore needs one binary search. From the rule that it finds, the lookup goes to the longest
//! other rule that is a prefix of that rule, and so on until a rule matches the key.
//!
//! Invariant: if several rules match a key, the longest one applies.

use segment::Namespace;

/// The maximum length of a prefix in bytes, which is the maximum length of a memcached key.
pub const PREFIX_BYTES_MAX: usize = 250;
/// The maximum number of prefixes of one namespace.
pub const PREFIXES_MAX: usize = 64;

/// A rule that routes keys with one prefix to a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    prefix: Box<[u8]>,
    namespace: Namespace,
    /// The position in `rules` of the longest other rule whose prefix is a prefix of this rule's prefix.
    longest_prefix: Option<usize>,
}

/// All routes of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The rules, in the byte order of their prefixes.
    rules: Vec<Rule>,
    /// A bit set: bit `n` is set if a rule leads to namespace number `n`.
    to: u32,
}

impl Routes {
    /// Creates the routes from pairs of a prefix and its namespace. If a prefix occurs twice, the first pair applies.
    pub fn new<'p>(prefixes: impl IntoIterator<Item = (&'p [u8], Namespace)>) -> Self {
        let rule =
            |(prefix, namespace): (&[u8], Namespace)| Rule { prefix: prefix.into(), namespace, longest_prefix: None };
        let mut rules: Vec<Rule> = prefixes.into_iter().map(rule).collect();
        rules.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        rules.dedup_by(|later, first| later.prefix == first.prefix);
        for place in 1..rules.len() {
            let mut within = Some(place - 1);
            while let Some(other) = within.filter(|other| !rules[place].prefix.starts_with(&rules[*other].prefix)) {
                within = rules[other].longest_prefix;
            }
            rules[place].longest_prefix = within;
        }
        let to = rules.iter().fold(0, |to, rule| to | 1 << rule.namespace.0);
        Self { rules, to }
    }

    /// Returns true if there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns a bit set of the namespaces that routed keys can be in: the default namespace, and each namespace to
    /// which a rule leads. Bit `n` stands for namespace number `n`.
    pub fn reached(&self) -> u32 {
        self.to | 1 << Namespace::DEFAULT.0
    }

    /// Returns the namespace to which a key is routed.
    pub fn find(&self, key: &[u8]) -> Namespace {
        let above = self.rules.partition_point(|rule| *rule.prefix <= *key);
        let mut place = above.checked_sub(1);
        while let Some(rule) = place.map(|place| &self.rules[place]) {
            if key.starts_with(&rule.prefix) {
                return rule.namespace;
            }
            place = rule.longest_prefix;
        }
        Namespace::DEFAULT
    }

    /// Returns the position of the first rule in `prefixes` that has no effect, and the position of the rule that makes
    /// it ineffective. A rule has no effect if its prefix is a duplicate, or if the longest shorter rule that matches
    /// its prefix leads to the same namespace. Without such a shorter rule, a rule to the default namespace has no
    /// effect either, because all keys without a rule are in the default namespace. In that case, the second position
    /// is `None`.
    pub fn find_ineffective(prefixes: &[(&[u8], Namespace)]) -> Option<(usize, Option<usize>)> {
        prefixes.iter().enumerate().find_map(|(place, (prefix, namespace))| {
            if let Some(same) = prefixes[..place].iter().position(|(other, _)| other == prefix) {
                return Some((place, Some(same)));
            }
            let shorter = |(_, (other, _)): &(usize, &(&[u8], Namespace))| other.len() < prefix.len();
            let others =
                prefixes.iter().enumerate().filter(shorter).filter(|(_, (other, _))| prefix.starts_with(other));
            match others.max_by_key(|(_, (other, _))| other.len()) {
                Some((other, (_, to))) if to == namespace => Some((place, Some(other))),
                None if *namespace == Namespace::DEFAULT => Some((place, None)),
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn longest_matching_prefix_selects_the_namespace() {
        let of = |rules: &[(&'static str, u8)]| {
            Routes::new(rules.iter().map(|(prefix, to)| (prefix.as_bytes(), Namespace(*to))))
        };
        let routes = of(&[("app1:tmp:", 2), ("app1:", 1), ("app1:a", 0), ("b", 3), ("b", 4)]);
        for (key, to) in [
            ("app1:", 1),
            ("app1:tm", 1),
            ("app1:tmp:", 2),
            ("app1:tmp:x", 2),
            ("app1:tmpx", 1),
            ("app1:z", 1),
            ("app1:abc", 0),
            ("app1", 0),
            ("app", 0),
            ("", 0),
            ("b", 3),
            ("bb", 3),
            ("c", 0),
        ] {
            assert_eq!(routes.find(key.as_bytes()), Namespace(to), "{key:?}");
        }
        assert!(of(&[]).is_empty() && of(&[]).find(b"x") == Namespace::DEFAULT);
        assert_eq!(routes.reached(), 0b1111);
    }

    #[test]
    fn find_agrees_with_a_linear_search() {
        let mut prng = Prng::new(5);
        let mut word =
            |len_max: u64| -> Vec<u8> { (0..prng.below(len_max + 1)).map(|_| b'a' + prng.below(2) as u8).collect() };
        for round in 0..300 {
            let prefixes: Vec<(Vec<u8>, Namespace)> =
                (0..round % 20).map(|number| (word(6), Namespace(number as u8 % 16))).collect();
            let routes = Routes::new(prefixes.iter().map(|(prefix, to)| (&prefix[..], *to)));
            for _ in 0..100 {
                let key = word(9);
                let longest = prefixes.iter().filter(|(prefix, _)| key.starts_with(prefix));
                // Of equal prefixes, the first one applies.
                let longest = longest.rev().max_by_key(|(prefix, _)| prefix.len());
                let wanted = longest.map_or(Namespace::DEFAULT, |(_, to)| *to);
                assert_eq!(routes.find(&key), wanted, "{key:?} by {prefixes:?}");
            }
        }
    }

    #[test]
    fn ineffective_rules_are_found() {
        let idle = |rules: &[(&'static str, u8)]| {
            let rules: Vec<_> = rules.iter().map(|(prefix, to)| (prefix.as_bytes(), Namespace(*to))).collect();
            Routes::find_ineffective(&rules)
        };
        assert_eq!(idle(&[("a:", 1), ("b:", 2), ("a:b:", 2), ("a:b:c:", 1), ("a:x:", 0)]), None);
        assert_eq!(idle(&[("a:", 1), ("a:", 2)]), Some((1, Some(0))));
        assert_eq!(idle(&[("a:b:", 1), ("a:", 1)]), Some((0, Some(1))));
        assert_eq!(idle(&[("a:b:c:", 1), ("a:", 1), ("a:b:", 1)]), Some((0, Some(2))));
        assert_eq!(idle(&[("a:", 0)]), Some((0, None)));
    }
}
