//! What is kept of a run, as plain data: the same for the JSON file, the report, the comparison and the price of a
//! request.
//!
//! ```text
//!   RunResult ── verdict      the one sentence, and what the limit was
//!             ├─ search       every trial, the answer and its interval     (of a search)
//!             ├─ figures      totals, percentiles, verbs, sizes            (of the answer's trials, or of the one run)
//!             ├─ intervals    the same second by second
//!             ├─ timelines    host, server and generator meanwhile
//!             └─ machine, arguments, configuration
//! ```
//!
//! `docs/load/result.schema.json` describes the JSON; it is made from these types, and a test holds it to them. Times
//! are in ns, shares between 0 and 1, rates a second, and names end with the unit.
//!
//! Invariants: histograms are kept whole, so that results can be added up exactly; a result that is not whole or not
//! valid says so in [`RunResult::partial`] and [`RunResult::invalid`].

pub mod connections;
pub mod csv;
pub mod from_run;
pub mod hdr;
pub mod latencies;
mod machine;
pub mod metrics;
pub mod searched;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use connections::{Connections, Tls, TlsSessions};
pub use latencies::Latencies;
pub use searched::{SearchResult, StepResult};

/// The value of [`RunResult::format`].
pub const FORMAT: &str = "gannet-load-result";
/// The format's version. A reader takes its own and no other.
pub const VERSION: u32 = 1;
/// The longest JSON file that is read, in bytes.
pub const JSON_BYTES_MAX: u64 = 256 << 20;

/// All that is kept of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// Always `gannet-load-result`.
    pub format: String,
    /// The format's version.
    pub version: u32,
    /// Which build wrote it.
    pub program: String,
    /// A name for people, as in a comparison's columns.
    pub name: String,
    /// Why the figures say nothing about the server, if they do not.
    pub invalid: Option<String>,
    /// Why the run is not whole, if it is not.
    pub partial: Option<String>,
    /// Objectives of a run at a rate were broken, or a search found no rate that keeps them.
    pub is_broken: bool,
    /// The sentence that people came for.
    pub verdict: Verdict,
    /// Beginning: Unix time in ms.
    pub started_at_unix_ms: u64,
    /// Length of the whole run, in s.
    pub elapsed_s: f64,
    /// The servers.
    pub targets: Vec<Target>,
    /// TLS options of the run; `null`: connections were not secured.
    pub tls: Option<Tls>,
    /// Arrival of the requests: open or closed loop, and the schedule.
    pub arrivals: Arrivals,
    /// The objectives, in words.
    pub objectives: Vec<String>,
    /// The lowest percentile objective as (share, limit in ns), for plots.
    pub objective_line: Option<ObjectiveLine>,
    /// The search, if it was one.
    pub search: Option<SearchResult>,
    /// Figures of the run, or of the trials at the answer.
    pub figures: Figures,
    /// The same, interval by interval, of the whole time.
    pub intervals: Vec<Interval>,
    /// Activity of host, server and generator during the run.
    pub timelines: Vec<Timeline>,
    /// Assertions, and whether each held.
    pub assertions: Vec<Assertion>,
    /// The command line, word by word.
    pub arguments: Vec<String>,
    /// Settings in force, by name.
    pub configuration: BTreeMap<String, String>,
    /// The workload, with everything that files, presets and flags set: a workload file's text.
    pub workload: Option<String>,
    /// The flags that a run of this workload takes to be the same again, a word each: `--rate=5000`.
    #[serde(default)]
    pub again: Vec<String>,
    /// Machine of the generator; of a run on several hosts, that of its coordinator.
    pub machine: Machine,
    /// Of a run on several hosts: the agents.
    #[serde(default)]
    pub agents: Vec<AgentHost>,
}

/// One of several hosts that ran the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentHost {
    /// Address at which its agent listens.
    pub name: String,
    /// Which build it is.
    pub program: String,
    /// Its machine.
    pub machine: Machine,
}

/// The outcome in words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// One sentence.
    pub headline: String,
    /// Further remarks, a sentence each.
    pub notes: Vec<String>,
    /// Description of the limit.
    pub limit: Option<Limit>,
}

/// The limit of the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// In words.
    pub what: String,
    /// Its timeline: `source/name`.
    pub timeline: String,
    /// Time at which it rose, in s since the start.
    pub at_s: f64,
    /// Other series that rose, in order, each in words.
    pub then: Vec<String>,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// `HOST:PORT` or `unix:PATH`.
    pub address: String,
    /// `memcache`, `meta` or `resp`.
    pub protocol: String,
    /// Name and version that the server reports.
    pub server: Option<String>,
}

/// Arrival of the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, tag = "loop", rename_all = "lowercase")]
pub enum Arrivals {
    /// Each request has an instant at which it is due, whatever the answers do.
    Open {
        /// The schedule, in words.
        schedule: String,
        /// The rate that was asked for, a second; `null` in a search.
        rate_per_s: Option<f64>,
    },
    /// The next request waits for an answer: response times hide what a stall holds back.
    Closed {
        /// Requests in flight on each connection.
        depth: u64,
    },
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::Open { schedule: "constant".to_owned(), rate_per_s: None }
    }
}

impl Arrivals {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Self::Open { schedule, .. } => format!("open loop, {schedule} arrivals"),
            Self::Closed { depth } => {
                format!("CLOSED LOOP, {depth} in flight a connection: times hide what stalls hold back")
            }
        }
    }
}

/// A percentile and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectiveLine {
    /// The share of requests, 0 to 1.
    pub share: f64,
    /// Limit for the percentile, in ns.
    pub limit_ns: u64,
}

/// Figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Time during which requests were due, in s.
    pub duration_s: f64,
    /// Requests that were due, a second.
    pub offered_per_s: f64,
    /// Answers, a second.
    pub achieved_per_s: f64,
    /// Counts of everything.
    pub counts: Counts,
    /// From the instant at which a request was due to its answer.
    pub response: Latencies,
    /// From the instant at which it was sent to its answer.
    pub service: Latencies,
    /// By verb and outcome.
    pub verbs: Vec<Group>,
    /// By size of the value.
    pub sizes: Vec<Group>,
    /// A paced stream beside the bulk, on connections of its own.
    pub sampler: Option<Latencies>,
    /// Connections of the load: what making them took, and what secured them.
    #[serde(default)]
    pub connections: Connections,
    /// Failures, the most frequent first.
    pub faults: Vec<FaultCount>,
    /// The generator's own figures.
    pub generator: Generator,
    /// Of a run on several hosts: what each agent did; everything above is all of them together.
    #[serde(default)]
    pub agents: Vec<AgentFigures>,
}

/// Share of one agent in a run on several hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentFigures {
    /// Address at which it listens.
    pub name: String,
    /// Requests that were due, a second.
    pub offered_per_s: f64,
    /// Answers, a second.
    pub achieved_per_s: f64,
    /// Counts of everything.
    pub counts: Counts,
    /// From the instant at which a request was due to its answer.
    pub response: Latencies,
    /// Lateness of the generator itself: from the intended instant to the send.
    pub lateness: Latencies,
    /// Why it was the limit, if it was.
    pub limit: Option<String>,
    /// Why it was lost before the end, if it was: the figures are those that it had reported until then.
    pub lost: Option<String>,
    /// By how much the common start may have been off on it, in ns.
    pub start_uncertainty_ns: u64,
    /// The shortest way there and back, in ns.
    pub round_trip_ns: u64,
    /// Its wall clock less the coordinator's, in ms.
    pub wall_clock_offset_ms: i64,
}

/// Something that went wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultCount {
    /// A short name that does not change.
    pub name: String,
    /// Number of times.
    pub count: u64,
    /// The first one in full.
    pub first: String,
}

/// Counts of requests and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Requests that were due.
    pub due: u64,
    /// Requests with an answer, whatever it says.
    pub answered: u64,
    /// Requests that were due and have no answer; their waiting counts up to the end.
    pub unanswered: u64,
    /// Of these: never sent, since no connection had room.
    pub unsent: u64,
    /// Reads that found their key and writes that were done.
    pub hits: u64,
    /// Reads that did not find their key, and writes whose condition did not hold.
    pub misses: u64,
    /// Answers that are errors.
    pub errors: u64,
    /// Values that are not what their key says.
    pub wrong: u64,
    /// Sent more than 1 ms late since no connection had room.
    pub late_for_room: u64,
    /// Sent more than 1 ms late although there was room.
    pub late_by_generator: u64,
    /// Requests that were due before the measured part; they are in no other figure.
    pub warm_up: u64,
    /// Connections that were made, the first ones included.
    pub connects: u64,
    /// Answers that sent a request to another node of a cluster; its time goes on.
    #[serde(default)]
    pub redirects: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
}

impl Counts {
    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        self.due += other.due;
        self.answered += other.answered;
        self.unanswered += other.unanswered;
        self.hits += other.hits;
        self.misses += other.misses;
        self.errors += other.errors;
        self.wrong += other.wrong;
        self.unsent += other.unsent;
        self.late_for_room += other.late_for_room;
        self.late_by_generator += other.late_by_generator;
        self.warm_up += other.warm_up;
        self.connects += other.connects;
        self.redirects += other.redirects;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
    }
}

/// A part of all requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The verb or the size class.
    pub name: String,
    /// `hit`, `miss`, `error`, `wrong`, `lost`; empty for all.
    pub outcome: String,
    /// Response times.
    pub response: Latencies,
    /// Service times.
    pub service: Latencies,
}

/// Resources that the generator used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// Lateness of the sends.
    pub lateness: Latencies,
    /// Its threads.
    pub threads: Vec<GeneratorThread>,
}

/// A thread of the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GeneratorThread {
    /// Its name.
    pub name: String,
    /// The CPU that it was pinned to, if it was.
    pub cpu: Option<u64>,
    /// Share of the time that it worked, 0 to 1.
    pub cpu_share: f64,
    /// Share of the time that it was ready and had no CPU, 0 to 1.
    pub waiting_share: f64,
    /// Number of times that it was taken off its CPU against its will.
    pub involuntary_switches: u64,
}

/// A piece of the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Beginning, in s since the start.
    pub at_s: f64,
    /// Length, in s.
    pub duration_s: f64,
    /// The rate that was asked for then, a second; 0 in a closed loop.
    pub target_per_s: f64,
    /// Answers, a second.
    pub achieved_per_s: f64,
    /// Answers that are errors.
    pub errors: u64,
    /// Response times of answers that came then.
    pub response: Latencies,
}

/// A figure over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// `host`, `server`, `generator`.
    pub source: String,
    /// Name of the series.
    pub name: String,
    /// `share`, `bytes`, `per_s`, `count`.
    pub unit: String,
    /// Points: s since the start, and the figure.
    pub points: Vec<(f64, f64)>,
}

/// An assertion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Assertion {
    /// In words.
    pub condition: String,
    /// The figure, in words.
    pub value: String,
    /// True if it held.
    pub held: bool,
}

/// The machine that the generator ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The kernel's name and release.
    pub kernel: String,
    /// The processor's name.
    pub cpu: String,
    /// CPUs that may be used.
    pub cpus: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// The frequency governor, if there is one.
    pub governor: Option<String>,
    /// The hypervisor flag is set: others may take CPU time.
    pub virtual_machine: bool,
}

/// The JSON schema of a result.
pub fn schema() -> String {
    let schema = schemars::schema_for!(RunResult);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    text.push('\n');
    text
}

impl RunResult {
    /// A result with nothing in it yet.
    pub fn new(name: &str) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            program: concat!("gannet ", env!("CARGO_PKG_VERSION")).to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the arrival of the requests and the transport, in words.
    pub fn manner(&self) -> String {
        let label = self.figures.connections.label();
        let over = match &self.tls {
            None => String::new(),
            Some(_) if label.is_empty() => ", over TLS".to_owned(),
            Some(_) => format!(", over {label}"),
        };
        format!("{}{over}", self.arrivals.words())
    }

    /// The JSON text.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string(self).expect("plain data is JSON");
        text.push('\n');
        text
    }

    /// Reads the JSON text of a result, or says what is wrong with it.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let loose: serde_json::Value =
            serde_json::from_str(text).map_err(|error| format!("this is not JSON ({error}); name a file of --json"))?;
        if loose["format"] != FORMAT {
            return Err("this is JSON, but no result of a run; name a file that --json wrote".to_owned());
        }
        if loose["version"] != VERSION {
            let version = &loose["version"];
            return Err(format!(
                "this result has version {version}, and this build reads {VERSION}; use its own build"
            ));
        }
        serde_json::from_value(loose).map_err(|error| format!("this result is damaged: {error}; run it again"))
    }
}

#[cfg(test)]
pub(crate) mod tests;
