//! The outcome of a copy: a table for users, JSON for programs.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::counts::KeyCounts;
use super::verify::Verified;
use page::words::grouped;

/// The outcome of a copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CopyOutcome {
    /// The source.
    pub from: String,
    /// The target.
    pub to: String,
    /// Outcomes of all keys.
    pub counts: KeyCounts,
    /// Result of the comparison, if there was one.
    pub verified: Option<Verified>,
    /// Duration of the copy in seconds, over all processes that took part in it.
    pub seconds: f64,
    /// Number of times that the copy was resumed.
    pub resumed: u32,
    /// The reason why the copy ended early; `None` if it is complete.
    pub ended_early: Option<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// State of a copy in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyProgress<'a> {
    /// `copying` or `comparing`.
    pub what: &'static str,
    /// Outcomes of the keys so far.
    pub counts: &'a KeyCounts,
    /// Known keys with a final outcome.
    pub done: u64,
    /// Total number of keys, if known.
    pub keys: Option<u64>,
    /// Completed share, 0 to 1, if known.
    pub share: Option<f64>,
    /// Recent rate in keys per second.
    pub keys_per_s: f64,
    /// Recent rate in bytes per second.
    pub bytes_per_s: f64,
    /// Remaining time in seconds, if it can be estimated.
    pub left_s: Option<f64>,
}

/// Formats `bytes` in the largest unit that gives a whole part.
pub(crate) fn size(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1000.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1000.0, unit + 1);
    }
    let digits = if unit == 0 || value >= 100.0 { 0 } else { 1 };
    format!("{value:.digits$} {}", units[unit])
}

pub(crate) fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, _) if seconds < 10.0 => format!("{seconds:.1} s"),
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

impl CopyProgress<'_> {
    /// Formats the progress as one line.
    pub fn line(&self) -> String {
        let mut line = format!("{} {}", self.what, grouped(self.done as f64));
        if let Some(keys) = self.keys {
            let _ = write!(line, " of {}", grouped(keys as f64));
        }
        if let Some(share) = self.share {
            let _ = write!(line, " ({:.0} %)", share * 100.0);
        }
        let _ = write!(line, "  {}/s  {}/s", grouped(self.keys_per_s), size(self.bytes_per_s));
        let counts = self.counts;
        let parts = [
            ("already there", counts.already_there),
            ("gone", counts.gone),
            ("expired", counts.expired),
            ("skipped", counts.skipped_sum()),
            ("REFUSED", counts.refused_sum()),
        ];
        for (what, count) in parts.into_iter().filter(|(_, count)| *count > 0) {
            let _ = write!(line, "  {what} {}", grouped(count as f64));
        }
        if let Some(left_s) = self.left_s {
            let _ = write!(line, "  {} left", span(left_s));
        }
        line
    }
}

impl CopyOutcome {
    /// Formats the outcome as a table.
    pub fn text(&self) -> String {
        let counts = &self.counts;
        let mut out = String::new();
        if let Some(why) = &self.ended_early {
            let _ = writeln!(out, "ENDED EARLY: {why}");
        }
        let per_s = counts.done() as f64 / self.seconds.max(1e-3);
        let again = match self.resumed {
            0 => String::new(),
            times => format!(", resumed {times} times"),
        };
        let _ = writeln!(out, "{} to {} in {}, {}/s{again}", self.from, self.to, span(self.seconds), grouped(per_s));
        let mut row = |what: &str, count: u64, more: &str| {
            let _ = writeln!(out, "  {what:<14} {:>15}  {more}", grouped(count as f64));
        };
        row("seen", counts.seen, "");
        row("copied", counts.copied, &size(counts.bytes as f64));
        row("already there", counts.already_there, "already at the target, left unchanged");
        for (what, count, more) in [
            ("gone", counts.gone, "evicted, deleted or expired at the source before they were read"),
            ("expired", counts.expired, "during the copy"),
            ("not chosen", counts.not_chosen, "excluded by --prefix or --exclude"),
            ("not reached", counts.seen.saturating_sub(counts.done()), "seen, but not processed before the copy ended"),
            ("without flags", counts.without_flags, "of the copied keys: the target does not store client flags"),
            ("field expiries", counts.field_ttls, "expiries of single hash fields, which the target does not have"),
        ] {
            if count > 0 {
                row(what, count, more);
            }
        }
        for (why, count) in &counts.skipped {
            row("skipped", *count, why);
        }
        for (why, count) in &counts.refused {
            row("REFUSED", *count, why);
        }
        if let Some(verified) = &self.verified {
            out.push_str(&verified_text(verified));
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        let lines: Vec<&str> = out.lines().map(str::trim_end).collect();
        lines.join("\n") + "\n"
    }

    /// Parses the output of [`Self::to_json`].
    ///
    /// # Errors
    /// A description of the fault.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Returns the outcome as JSON, for programs.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("an outcome is plain data") + "\n"
    }
}

pub(crate) fn verified_text(verified: &Verified) -> String {
    let looked_for = grouped(verified.looked_for as f64);
    if verified.differ() == 0 {
        return format!("verified {looked_for} keys at both ends: all are equal\n");
    }
    let mut out = format!("verified {looked_for} keys at both ends: {} DIFFER:", grouped(verified.differ() as f64));
    for (what, count) in [
        ("missing", verified.missing),
        ("only at the target", verified.extra),
        ("with another value", verified.value_differs),
        ("with other flags", verified.flags_differ),
        ("with another expiry", verified.expiry_differs),
    ] {
        if count > 0 {
            let _ = write!(out, " {} {what}", grouped(count as f64));
        }
    }
    out.push('\n');
    for example in &verified.examples {
        let _ = writeln!(out, "  {example}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_not_copied_is_missing_from_the_table() {
        let mut counts =
            KeyCounts { seen: 1_234_567, copied: 1_234_000, bytes: 5_500_000_000, gone: 3, ..KeyCounts::default() };
        counts.skip("list: no place".into());
        counts.refuse("SERVER_ERROR out of memory".into());
        let verified =
            Verified { looked_for: 9, same: 8, missing: 1, examples: vec!["k: why".into()], ..Verified::default() };
        let outcome =
            CopyOutcome { counts, verified: Some(verified), seconds: 3_700.0, resumed: 2, ..CopyOutcome::default() };
        let text = outcome.text();
        for part in [
            "1,234,567",
            "5.5 GB",
            "1 h 1 min",
            "resumed 2 times",
            "list: no place",
            "REFUSED",
            "1 DIFFER: 1 missing",
            "  k: why",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(CopyOutcome::from_json(&outcome.to_json()).unwrap(), outcome);
    }
}
