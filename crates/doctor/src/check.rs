//! A check, what its probe has seen, and the finding that the two make.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::{Host, Unread};

/// The privilege that a remedy needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Needs {
    /// No privilege.
    Nothing,
    /// The administrator.
    Root,
    /// The administrator and a restart of the host or the server.
    Restart,
}

/// The verdict on a setting or a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It costs tails now, or will under load.
    Bad,
    /// It may cost tails.
    Warn,
    /// It could not be found out here.
    Unknown,
    /// Nothing to do.
    Ok,
}

impl Verdict {
    /// As it is printed.
    pub fn text(self) -> &'static str {
        match self {
            Self::Bad => "BAD",
            Self::Warn => "WARN",
            Self::Unknown => "cannot tell",
            Self::Ok => "ok",
        }
    }
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeResult {
    /// Never [`Verdict::Unknown`]: that is [`Unread`].
    pub verdict: Verdict,
    /// The value that was read, in words.
    pub value: String,
    /// Among findings of the same verdict the heavier comes first: the part of a request's time or of a machine that it
    /// may cost, or 0 where only the setting is known.
    pub weight: f64,
}

impl ProbeResult {
    /// Nothing to do.
    pub fn ok(value: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ok, value: value.into(), weight: 0.0 }
    }

    /// It may cost tails.
    pub fn warn(value: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warn, ..Self::ok(value) }
    }

    /// It costs tails.
    pub fn bad(value: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, ..Self::ok(value) }
    }

    /// Sets the weight.
    pub fn weighing(self, weight: f64) -> Self {
        Self { weight, ..self }
    }

    /// `bad` if the condition holds, else fine.
    pub fn bad_if(is_bad: bool, value: impl Into<String>) -> Self {
        if is_bad { Self::bad(value) } else { Self::ok(value) }
    }

    /// `warn` if the condition holds, else fine.
    pub fn warn_if(is_bad: bool, value: impl Into<String>) -> Self {
        if is_bad { Self::warn(value) } else { Self::ok(value) }
    }
}

/// The result of a probe, or the reason why it could not read.
pub type Probed = Result<ProbeResult, Unread>;

/// One thing that is looked at.
#[derive(Debug)]
pub struct Check {
    /// `group.name`.
    pub id: &'static str,
    /// The files that it reads.
    pub reads: &'static str,
    /// The mechanism by which it costs tails.
    pub mechanism: &'static str,
    /// The remedy.
    pub remedy: &'static str,
    /// The expected effect of the remedy, and its price.
    pub expect: &'static str,
    /// The privilege that the remedy needs.
    pub needs: Needs,
    /// The way to undo the remedy.
    pub undo: &'static str,
    /// The source of the claim.
    pub source: &'static str,
    /// Looks.
    pub probe: fn(&Host) -> Probed,
}

/// The result of a check on a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The check.
    pub id: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The value that was read, or the reason why none was.
    pub value: String,
    /// The mechanism by which it costs tails.
    pub mechanism: String,
    /// The remedy.
    pub remedy: String,
    /// The expected effect of the remedy, and its price.
    #[serde(default)]
    pub expect: String,
    /// The privilege that the remedy needs.
    pub needs: Needs,
    /// The way to undo the remedy.
    pub undo: String,
    /// The files that were read.
    pub reads: String,
    /// The source of the claim.
    pub source: String,
    #[serde(skip)]
    weight: f64,
}

impl Check {
    fn find(&self, host: &Host) -> Finding {
        let (verdict, value, weight) = match (self.probe)(host) {
            Ok(seen) => (seen.verdict, seen.value, seen.weight),
            Err(unread) => (Verdict::Unknown, unread.to_string(), 0.0),
        };
        Finding {
            id: self.id.to_owned(),
            verdict,
            value,
            mechanism: self.mechanism.to_owned(),
            remedy: self.remedy.to_owned(),
            expect: self.expect.to_owned(),
            needs: self.needs,
            undo: self.undo.to_owned(),
            reads: self.reads.to_owned(),
            source: self.source.to_owned(),
            weight,
        }
    }
}

/// Looks at a host. The worst finding comes first, among equals the heavier one.
pub fn run(host: &Host, checks: &[&Check]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = checks.iter().map(|check| check.find(host)).collect();
    findings.sort_by(|a, b| a.verdict.cmp(&b.verdict).then(b.weight.total_cmp(&a.weight)));
    findings
}
