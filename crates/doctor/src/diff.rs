//! Compares two reports, such as those of two hosts, or of one host before and after a change.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::check::Finding;
use crate::report::Report;

/// Returns a line for each check whose verdict or value differs, or that only one report contains. The text is empty if
/// the reports are equal.
pub fn diff(a: &Report, b: &Report) -> String {
    let by_id = |report: &Report| -> BTreeMap<String, Finding> {
        report.findings.iter().map(|finding| (finding.id.clone(), finding.clone())).collect()
    };
    let (first, second) = (by_id(a), by_id(b));
    let mut ids: Vec<&String> = first.keys().chain(second.keys()).collect();
    ids.sort();
    ids.dedup();
    let text_of = |finding: Option<&Finding>| {
        finding.map_or_else(|| "not examined".to_owned(), |found| format!("{}: {}", found.verdict.text(), found.value))
    };
    let mut text = String::new();
    for id in ids {
        let (one, other) = (first.get(id), second.get(id));
        let same = match (one, other) {
            (Some(one), Some(other)) => one.verdict == other.verdict && one.value == other.value,
            _ => false,
        };
        if !same {
            let _ = writeln!(text, "{id}\n  {:<12} {}\n  {:<12} {}", a.host, text_of(one), b.host, text_of(other));
        }
    }
    text
}
