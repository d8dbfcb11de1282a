//! Key prefixes by which memcached clients of the default listeners reach a namespace.

use segment::Namespace;

use super::namespaces::NamespaceSettings;
use super::value::{Words, Wrong};
use command::keyspace::routes::{PREFIX_BYTES_MAX, PREFIXES_MAX, Routes};

/// The key prefixes of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes(pub Vec<String>);

/// Returns the error in `prefix` itself, or `None`. Does not compare it with other prefixes.
fn wrong_with(prefix: &str) -> Option<Wrong> {
    let what = if prefix.is_empty() {
        "an empty prefix matches every key"
    } else if prefix.len() > PREFIX_BYTES_MAX {
        "the prefix is longer than a memcached key"
    } else if prefix.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        "the prefix has spaces or control characters, which memcached keys cannot contain"
    } else {
        return None;
    };
    let remedy = format!("write the beginning of the keys, 1 to {PREFIX_BYTES_MAX} bytes, as in \"app1:\"");
    Some(Wrong::new(format!("{what}: {prefix:.32?}"), remedy))
}

impl Words for Prefixes {
    const PLACEHOLDER: &'static str = "PREFIX";

    fn words(&self) -> &[String] {
        &self.0
    }

    fn of(texts: &[&str]) -> Result<Self, Vec<Wrong>> {
        if texts.len() > PREFIXES_MAX {
            let what = format!("{} prefixes are given, but at most {PREFIXES_MAX} are allowed", texts.len());
            let remedy = "use fewer prefixes, or replace several by a shorter prefix that they share";
            return Err(vec![Wrong::new(what, remedy)]);
        }
        let faults: Vec<Wrong> = texts.iter().filter_map(|text| wrong_with(text)).collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self(texts.iter().map(|text| (*text).to_owned()).collect()))
    }
}

/// Checks that every prefix has an effect. `numbers` has the number of each entry of `namespaces`, in the same order.
///
/// # Errors
/// If a prefix has no effect: the position of its namespace, and the error. The prefix is a duplicate, or a shorter
/// prefix leads to the same namespace.
pub fn check(namespaces: &[NamespaceSettings], numbers: &[u8]) -> Result<(), (usize, Wrong)> {
    let mut all: Vec<(&[u8], Namespace)> = Vec::new();
    let mut whose = Vec::new();
    for (place, (namespace, number)) in namespaces.iter().zip(numbers).enumerate() {
        for prefix in &namespace.prefix.0 {
            all.push((prefix.as_bytes(), Namespace(*number)));
            whose.push((place, prefix));
        }
    }
    let Some((rule, other)) = Routes::find_ineffective(&all) else { return Ok(()) };
    let (place, prefix) = whose[rule];
    let wrong = match other.map(|other| whose[other]) {
        None => Wrong::new(
            format!("keys with the prefix {prefix:?} are in the default namespace already"),
            "remove it, or assign a shorter prefix to another namespace so that this one is an exception",
        ),
        Some((by, same)) if same == prefix => Wrong::new(
            format!("{prefix:?} already leads to the namespace {:?}", namespaces[by].name.0),
            "remove one of them",
        ),
        Some((_, shorter)) => Wrong::new(
            format!("{prefix:?} begins with {shorter:?}, which leads to the same namespace"),
            "remove the longer one",
        ),
    };
    Err((place, wrong))
}
