//! The parameters, the progress and the outcome of an import.

use std::collections::BTreeMap;
use std::fmt::Write;

use page::words::grouped;
use serde::{Deserialize, Serialize};

use crate::counts::add;
use crate::outcome::{size, span, verified_text};
use crate::place::ServerAddress;
use crate::reconnect::{ConnectSettings, RetryPolicy};
use crate::verify::Verified;

/// The keys that are compared at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportPart {
    /// No keys.
    None,
    /// A random sample of about this many keys.
    Keys(u64),
    /// All keys.
    All,
}

/// The parameters of an import.
#[derive(Clone, Debug)]
pub struct ImportJob {
    /// The server to attach to.
    pub from: ServerAddress,
    /// The server that gets the data.
    pub to: ServerAddress,
    /// The only database to import, and its number at the target. Without it, all are imported under their numbers.
    pub db: Option<(u32, u32)>,
    /// True to empty the target's databases before the import.
    pub flush: bool,
    /// Highest number of bytes of the snapshot per second.
    pub bytes_per_s: Option<u64>,
    /// True to end when the target has everything and the source is quiet.
    pub cut_over: bool,
    /// The keys that are compared at the end.
    pub verify: ImportPart,
    /// Connection settings for the servers.
    pub connect: ConnectSettings,
    /// Rules for attaching again after a lost connection.
    pub retries: RetryPolicy,
}

impl ImportJob {
    /// Returns the number at the target of a database of the source; `None` if it is not imported.
    pub(super) fn db_at_target(&self, db: u32) -> Option<u32> {
        match self.db {
            None => Some(db),
            Some((from, to)) => (from == db).then_some(to),
        }
    }
}

/// Counts of an import, since its last full synchronization.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportCounts {
    /// Keys of the snapshot that were stored.
    pub keys: u64,
    /// Bytes of the snapshot that were read.
    pub bytes: u64,
    /// Keys that had expired when they were stored, or when the target had caught up.
    pub expired: u64,
    /// Function libraries that were stored.
    pub functions: u64,
    /// Commands of the source that were executed at the target.
    pub commands: u64,
    /// Keys and commands of databases that are not imported.
    pub not_chosen: u64,
    /// Keys, commands and other data that the target does not have now, by reason.
    pub refused: BTreeMap<String, u64>,
}

impl ImportCounts {
    /// Counts something that the target does not take.
    pub(super) fn refuse(&mut self, reason: String) {
        add(&mut self.refused, reason);
    }

    /// Returns the number of keys, commands and other data that the target did not take.
    pub fn refused_sum(&self) -> u64 {
        self.refused.values().sum()
    }
}

/// State of an import in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportProgress<'a> {
    /// `loading`, `following` or `comparing`.
    pub what: &'static str,
    /// The counts so far.
    pub counts: &'a ImportCounts,
    /// Length of the snapshot in bytes, if known.
    pub snapshot_bytes: Option<u64>,
    /// Recent rate in bytes of the source per second.
    pub bytes_per_s: f64,
    /// Bytes of the source's stream of commands that the target has not executed yet, if known.
    pub lag_bytes: Option<u64>,
}

impl ImportProgress<'_> {
    /// Formats the progress as one line.
    pub fn line(&self) -> String {
        let counts = self.counts;
        let mut line = format!("{} {} keys  {}", self.what, grouped(counts.keys as f64), size(counts.bytes as f64));
        if let Some(bytes) = self.snapshot_bytes.filter(|bytes| *bytes > 0) {
            let _ = write!(line, " of {}", size(bytes as f64));
        }
        let _ = write!(line, "  {}/s", size(self.bytes_per_s));
        if counts.commands > 0 {
            let _ = write!(line, "  commands {}", grouped(counts.commands as f64));
        }
        match self.lag_bytes {
            Some(lag) => drop(write!(line, "  lag {} B", grouped(lag as f64))),
            None if self.what == "following" => line.push_str("  lag unknown"),
            None => {}
        }
        if counts.refused_sum() > 0 {
            let _ = write!(line, "  REFUSED {}", grouped(counts.refused_sum() as f64));
        }
        line
    }
}

/// Receiver of an import's progress.
pub trait ImportView {
    /// Reports the progress, several times a second.
    fn progress(&mut self, progress: &ImportProgress<'_>);
    /// Receives a note for the user.
    fn note(&mut self, text: &str);
}

/// The outcome of an import.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportOutcome {
    /// The source.
    pub from: String,
    /// The target.
    pub to: String,
    /// The counts.
    pub counts: ImportCounts,
    /// Number of full synchronizations.
    pub full_syncs: u64,
    /// Number of times that the stream was continued after a lost connection.
    pub partial_syncs: u64,
    /// Bytes of the source's stream of commands that the target had not executed at the end, if known.
    pub lag_bytes: Option<u64>,
    /// Result of the comparison, if there was one.
    pub verified: Option<Verified>,
    /// Duration in seconds.
    pub seconds: f64,
    /// The reason why the import ended before the target had all data; `None` if it had.
    pub ended_early: Option<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl ImportOutcome {
    /// Formats the outcome as a table.
    pub fn text(&self) -> String {
        let counts = &self.counts;
        let mut out = String::new();
        if let Some(why) = &self.ended_early {
            let _ = writeln!(out, "ENDED EARLY: {why}");
        }
        let _ = writeln!(out, "{} to {} in {}", self.from, self.to, span(self.seconds));
        row(&mut out, "keys", counts.keys, &format!("of a snapshot of {}", size(counts.bytes as f64)));
        row(&mut out, "commands", counts.commands, "of the source's clients, executed after the snapshot");
        for (what, count, more) in [
            ("functions", counts.functions, "function libraries"),
            ("expired", counts.expired, "during the import"),
            ("not chosen", counts.not_chosen, "keys and commands of other databases"),
            ("synchronized", self.full_syncs, "times from a snapshot; the counts are those of the last time"),
            ("continued", self.partial_syncs, "times after a lost connection, without a snapshot"),
        ] {
            if count > u64::from(what == "synchronized") {
                row(&mut out, what, count, more);
            }
        }
        for (why, count) in &counts.refused {
            row(&mut out, "REFUSED", *count, why);
        }
        match self.lag_bytes {
            Some(lag) => row(&mut out, "lag", lag, "bytes of commands that the target has not executed"),
            None => drop(writeln!(out, "  lag                    unknown")),
        }
        out.extend(self.verified.as_ref().map(verified_text));
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        let lines: Vec<&str> = out.lines().map(str::trim_end).collect();
        lines.join("\n") + "\n"
    }

    /// Returns the outcome as JSON, for programs.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("an outcome is plain data") + "\n"
    }

    /// Parses the output of [`Self::to_json`].
    ///
    /// # Errors
    /// A description of the fault.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

fn row(out: &mut String, what: &str, count: u64, more: &str) {
    let _ = writeln!(out, "  {what:<14} {:>15}  {more}", grouped(count as f64));
}
