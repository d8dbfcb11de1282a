//! `/hotkeys` and `/hotkeys.json`: the keys of the last minutes with the most requests, the largest values or the most
//! misses.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::time::rfc3339;
use crate::shared::Shared;
use command::metrics::hot_keys::{
    HotKeyList, HotKeyReport, LEADERS_MAX, Leader, MINUTES_MAX, NAMES_PER_LIST, SAMPLED_ONE_IN, SketchName,
};
use segment::Namespace;

/// The parameters of a query: `minutes=60&count=20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    minutes: usize,
    count: usize,
}

impl Query {
    /// Parses the part of a URL after the `?`.
    ///
    /// # Errors
    /// If a parameter is wrong: a description for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut query = Self { minutes: 1, count: NAMES_PER_LIST };
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (place, most) = match name {
                "minutes" => (&mut query.minutes, MINUTES_MAX),
                "count" => (&mut query.count, LEADERS_MAX),
                _ => return Err(format!("unknown parameter '{name}'; write minutes=60 or count=20\n")),
            };
            let number = value.parse().ok().filter(|number| *number <= most);
            *place = number.ok_or_else(|| format!("'{value}' of '{name}' is not a number from 0 to {most}\n"))?;
        }
        Ok(query)
    }

    fn read(self, shared: &Shared) -> HotKeyReport {
        shared.hot_keys(self.minutes, self.count)
    }
}

/// Returns a key name as text, with an ellipsis at the end if the name is truncated.
fn shown(name: &SketchName) -> String {
    let mut text: String = String::from_utf8_lossy(&name.bytes).chars().flat_map(visible).collect();
    if name.is_cut {
        text.push('…');
    }
    text
}

/// Returns `letter`, escaped if it is a control character, so that a name cannot move a terminal's cursor.
fn visible(letter: char) -> impl Iterator<Item = char> {
    let (plain, escaped) =
        if letter.is_control() { (None, Some(letter.escape_default())) } else { (Some(letter), None) };
    plain.into_iter().chain(escaped.into_iter().flatten())
}

/// Writes the lists of hot keys as JSON.
pub fn json(shared: &Shared, query: Query) -> String {
    let hot = query.read(shared);
    let namespace = |name: &SketchName| shared.namespaces.name(name.namespace);
    let leader = |leader: &Leader| {
        let (name, namespace) = (shown(&leader.name), namespace(&leader.name));
        json!({ "name": name, "amount": leader.amount, "namespace": namespace })
    };
    let list =
        |list: HotKeyList| (list.name().to_owned(), hot.list(list).iter().map(leader).collect::<Vec<_>>().into());
    let lists: Map<String, Value> = HotKeyList::ALL.into_iter().map(list).collect();
    let lost: u64 = shared.workers.iter().map(|worker| worker.hot_keys.lost.value()).sum();
    let document = json!({
        "from_unix_ms": hot.from.0,
        "sampled_one_in": SAMPLED_ONE_IN,
        "samples_lost": lost,
        "lists": lists,
    });
    format!("{document}\n")
}

/// Writes the lists of hot keys as plain text.
pub fn text(shared: &Shared, query: Query) -> String {
    let hot = query.read(shared);
    let mut text =
        format!("Since {}; requests are estimates: one key in {SAMPLED_ONE_IN} is sampled.\n", rfc3339(hot.from));
    for list in HotKeyList::ALL {
        let (title, unit) = match list {
            HotKeyList::Keys => ("most requested keys", "requests"),
            HotKeyList::Big => ("keys with the longest values", "bytes"),
            HotKeyList::Missed => ("missing keys with the most reads", "requests"),
            HotKeyList::Prefixes => ("most requested prefixes", "requests"),
            HotKeyList::MissedPrefixes => ("prefixes of missing keys with the most reads", "requests"),
        };
        let _ = writeln!(text, "\n{unit:>14}  {title}");
        for leader in hot.list(list) {
            let _ = write!(text, "{:>14}  {}", leader.amount, shown(&leader.name));
            if leader.name.namespace != Namespace::DEFAULT {
                let _ = write!(text, "  in {}", shared.namespaces.name(leader.name.namespace));
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_keys_query_accepts_only_minutes_and_count() {
        assert_eq!(Query::parse(""), Ok(Query { minutes: 1, count: NAMES_PER_LIST }));
        assert_eq!(Query::parse("minutes=60&count=3"), Ok(Query { minutes: 60, count: 3 }));
        for wrong in ["minutes", "minutes=1441", "count=-1", "hours=1", "count=x"] {
            assert!(Query::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_cannot_move_a_cursor() {
        let bytes = b"a\x1b[2J\xff".iter().copied().collect();
        let name = SketchName { bytes, is_cut: true, namespace: Namespace::DEFAULT };
        assert_eq!(shown(&name), "a\\u{1b}[2J\u{fffd}…");
    }
}
