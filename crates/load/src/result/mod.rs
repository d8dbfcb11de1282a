//! The result of a run as plain data. The JSON file, the report, the comparison and the cost of a request all use it.
//!
//! ```text
//!   RunResult ── verdict      one sentence, and the bottleneck
//!             ├─ search       every trial, the answer and its interval     (of a search)
//!             ├─ figures      totals, percentiles, verbs, sizes            (of the answer's trials, or of the one run)
//!             ├─ intervals    the same figures second by second
//!             ├─ timelines    host, server and generator during the run
//!             └─ machine, arguments, configuration
//! ```
//!
//! `docs/load/result.schema.json` describes the JSON; it is generated from these types, and a test compares the two.
//! Times are in nanoseconds unless the name has another unit, shares are between 0 and 1, rates are per second, and
//! names end with the unit.
//!
//! Invariants: histograms are stored whole, so that results can be combined exactly. A result that is incomplete or
//! invalid is marked in [`RunResult::partial`] or [`RunResult::invalid`].

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

use crate::workload::graph::GraphQuery;

pub use connections::{Connections, Tls, TlsSessions};
pub use latencies::Latencies;
pub use searched::{SearchResult, StepResult};

/// The value of [`RunResult::format`].
pub const FORMAT: &str = "gannet-load-result";
/// The format's version. A reader accepts only its own version.
pub const VERSION: u32 = 1;
/// The longest JSON file that is accepted, in bytes.
pub const JSON_BYTES_MAX: u64 = 256 << 20;

/// The stored result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// Always `gannet-load-result`.
    pub format: String,
    /// The format's version.
    pub version: u32,
    /// The build that wrote the result.
    pub program: String,
    /// A display name, for the columns of a comparison.
    pub name: String,
    /// The reason why the figures are not valid for the server, if they are not.
    pub invalid: Option<String>,
    /// The reason why the run is incomplete, if it is.
    pub partial: Option<String>,
    /// True if a run at a rate broke its objectives, or if a search found no rate that meets them.
    pub is_broken: bool,
    /// The outcome in words.
    pub verdict: Verdict,
    /// Beginning of the run, as Unix time in milliseconds.
    pub started_at_unix_ms: u64,
    /// Length of the whole run, in seconds.
    pub elapsed_s: f64,
    /// The servers.
    pub targets: Vec<Target>,
    /// TLS options of the run; `null` without TLS.
    pub tls: Option<Tls>,
    /// Arrival of the requests: open or closed loop, and the schedule.
    pub arrivals: Arrivals,
    /// The objectives, in words.
    pub objectives: Vec<String>,
    /// The objective for the highest percentile as (share, limit in ns), for plots.
    pub objective_line: Option<ObjectiveLine>,
    /// The search, if the run was one.
    pub search: Option<SearchResult>,
    /// Figures of the run, or of the trials at the answer of a search.
    pub figures: Figures,
    /// The same figures for each interval of the whole time.
    pub intervals: Vec<Interval>,
    /// Activity of host, server and generator during the run.
    pub timelines: Vec<Timeline>,
    /// The assertions, and whether each held.
    pub assertions: Vec<Assertion>,
    /// The command line, word by word.
    pub arguments: Vec<String>,
    /// Settings in force, by name.
    pub configuration: BTreeMap<String, String>,
    /// The complete workload as the text of a workload file, including all settings from files, presets and flags.
    pub workload: Option<String>,
    /// The flags that repeat the run with this workload, one per element: `--rate=5000`.
    #[serde(default)]
    pub again: Vec<String>,
    /// The generator's machine; for a run on several hosts, the coordinator's machine.
    pub machine: Machine,
    /// For a run on several hosts, the agents.
    #[serde(default)]
    pub agents: Vec<AgentHost>,
}

/// Name of the setting of a graph's writes in [`RunResult::configuration`].
pub const EDGE_WRITES: &str = "edges written per second";

/// One of several hosts that ran the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentHost {
    /// Address that the host's agent listens on.
    pub name: String,
    /// The agent's build.
    pub program: String,
    /// The agent's machine.
    pub machine: Machine,
}

/// The outcome in words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// One sentence.
    pub headline: String,
    /// Further remarks, one sentence each.
    pub notes: Vec<String>,
    /// Description of the bottleneck.
    pub limit: Option<Limit>,
}

/// The bottleneck that limited the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// The bottleneck in words.
    pub what: String,
    /// The timeline that shows the bottleneck: `source/name`.
    pub timeline: String,
    /// Time at which the timeline rose, in seconds since the start.
    pub at_s: f64,
    /// Other timelines that rose later, in order, each in words.
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
    /// Each request has an instant at which it is due, regardless of earlier replies.
    Open {
        /// The schedule, in words.
        schedule: String,
        /// The requested rate per second; `null` in a search.
        rate_per_s: Option<f64>,
    },
    /// The next request waits for a reply, so response times do not include the waiting caused by a stall.
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
    /// Describes the arrivals in words.
    pub fn words(&self) -> String {
        match self {
            Self::Open { schedule, .. } => format!("open loop, {schedule} arrivals"),
            Self::Closed { depth } => {
                format!("CLOSED LOOP, {depth} in flight per connection: times exclude the waiting caused by stalls")
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

/// The figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Time during which requests were due, in seconds.
    pub duration_s: f64,
    /// Requests that were due, per second.
    pub offered_per_s: f64,
    /// Replies per second.
    pub achieved_per_s: f64,
    /// Counts of requests, bytes and connections.
    pub counts: ReplyCounts,
    /// Response times: from the instant at which a request was due to its reply.
    pub response: Latencies,
    /// Service times: from the instant at which a request was sent to its reply.
    pub service: Latencies,
    /// Times by verb and outcome.
    pub verbs: Vec<Group>,
    /// Times by size of the value.
    pub sizes: Vec<Group>,
    /// Response times of the sampler, a paced stream on its own connections.
    pub sampler: Option<Latencies>,
    /// The load's connections: the time to open them, and their TLS parameters.
    #[serde(default)]
    pub connections: Connections,
    /// Failures, the most frequent first.
    pub faults: Vec<FaultCount>,
    /// The generator's own figures.
    pub generator: Generator,
    /// For a run on several hosts, the figures of each agent. The other fields cover all agents together.
    #[serde(default)]
    pub agents: Vec<AgentFigures>,
}

/// The figures of one agent in a run on several hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentFigures {
    /// Address that the agent listens on.
    pub name: String,
    /// Requests that were due on the agent, per second.
    pub offered_per_s: f64,
    /// Replies to the agent, per second.
    pub achieved_per_s: f64,
    /// Counts of the agent's requests, bytes and connections.
    pub counts: ReplyCounts,
    /// Response times: from the instant at which a request was due to its reply.
    pub response: Latencies,
    /// Lateness of the generator: from the intended instant to the send.
    pub lateness: Latencies,
    /// The reason why the agent was the bottleneck, if it was.
    pub limit: Option<String>,
    /// The reason why the agent was lost before the end, if it was. The figures are then those that it had reported
    /// before.
    pub lost: Option<String>,
    /// Largest possible error of the common start on the agent, in nanoseconds.
    pub start_uncertainty_ns: u64,
    /// The shortest round trip to the agent, in nanoseconds.
    pub round_trip_ns: u64,
    /// The agent's wall clock minus the coordinator's, in milliseconds.
    pub wall_clock_offset_ms: i64,
}

/// A kind of failure with its count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultCount {
    /// A short, stable name.
    pub name: String,
    /// Number of times.
    pub count: u64,
    /// The first occurrence in full.
    pub first: String,
}

impl Figures {
    /// Returns for each kind of query with a budget: its name, its replies, and the partial ones among them.
    pub fn partial_replies(&self) -> Vec<(&str, u64, u64)> {
        let count = |name: &str, outcome: &str| {
            let groups = self.verbs.iter().filter(|group| group.name == name && group.outcome == outcome);
            groups.map(|group| group.response.count).sum::<u64>()
        };
        let kinds = GraphQuery::NAMES.into_iter().filter(|(_, query)| query.has_budget());
        let counted = kinds.map(|(name, _)| {
            let partial = count(name, "partial");
            (name, count(name, "complete") + partial, partial)
        });
        counted.filter(|(_, replies, _)| *replies > 0).collect()
    }

    /// Returns the number of requests with this outcome.
    pub fn with_outcome(&self, outcome: &str) -> u64 {
        self.verbs.iter().filter(|group| group.outcome == outcome).map(|group| group.response.count).sum()
    }
}

/// Counts of requests and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplyCounts {
    /// Requests that were due.
    pub due: u64,
    /// Requests with a reply, including errors.
    pub answered: u64,
    /// Requests that were due and got no reply; their waiting time counts up to the end.
    pub unanswered: u64,
    /// Requests that were never sent, because no connection had room; part of `unanswered`.
    pub unsent: u64,
    /// Reads that found their key, and writes that succeeded.
    pub hits: u64,
    /// Reads that did not find their key, and writes whose condition failed.
    pub misses: u64,
    /// Replies that are errors.
    pub errors: u64,
    /// Replies with a wrong value for the key.
    pub wrong: u64,
    /// Requests sent more than 1 ms late because no connection had room.
    pub late_for_room: u64,
    /// Requests sent more than 1 ms late although there was room.
    pub late_by_generator: u64,
    /// Requests that were due before the measured part; no other count includes them.
    pub warm_up: u64,
    /// Connections that were opened, including the first ones.
    pub connects: u64,
    /// Redirects to another node of a cluster; the time of a redirected request continues.
    #[serde(default)]
    pub redirects: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
}

impl ReplyCounts {
    /// Adds the counts of `other`.
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

/// The figures of a group of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The verb or the size class of the group.
    pub name: String,
    /// `hit`, `miss`, `complete`, `partial`, `error`, `wrong` or `lost`; empty for all outcomes.
    pub outcome: String,
    /// Response times.
    pub response: Latencies,
    /// Service times.
    pub service: Latencies,
}

/// The resources that the generator used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// Lateness of the sends.
    pub lateness: Latencies,
    /// The generator's threads.
    pub threads: Vec<GeneratorThread>,
}

/// A thread of the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GeneratorThread {
    /// The thread's name.
    pub name: String,
    /// The CPU that the thread was pinned to, if any.
    pub cpu: Option<u64>,
    /// Share of the time that the thread worked, 0 to 1.
    pub cpu_share: f64,
    /// Share of the time that the thread was runnable and had no CPU, 0 to 1.
    pub waiting_share: f64,
    /// Number of times that the kernel preempted the thread.
    pub involuntary_switches: u64,
}

/// The figures of one interval of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Beginning of the interval, in seconds since the start.
    pub at_s: f64,
    /// Length of the interval, in seconds.
    pub duration_s: f64,
    /// The requested rate per second; 0 in a closed loop.
    pub target_per_s: f64,
    /// Replies per second.
    pub achieved_per_s: f64,
    /// Replies that are errors.
    pub errors: u64,
    /// Response times of the replies that arrived in the interval.
    pub response: Latencies,
}

/// A figure over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// Origin of the figure: `host`, `server` or `generator`.
    pub source: String,
    /// Name of the series.
    pub name: String,
    /// Unit of the figure: `share`, `bytes`, `per_s` or `count`.
    pub unit: String,
    /// Points of time and value; times are in seconds since the start.
    pub points: Vec<(f64, f64)>,
}

/// An assertion about the run and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Assertion {
    /// The asserted condition in words.
    pub condition: String,
    /// The actual value in words.
    pub value: String,
    /// True if the condition held.
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
    /// Number of CPUs that the generator may use.
    pub cpus: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// The frequency governor, if there is one.
    pub governor: Option<String>,
    /// True if the hypervisor flag is set: other guests may take CPU time.
    pub virtual_machine: bool,
}

/// The reasons for a partial result after a stop by the user: of a run, and of a search.
pub(crate) const STOPPED: [&str; 2] = [
    "the run was stopped before its end; the figures cover the shortened run",
    "the search was stopped before its end",
];

/// Returns the JSON schema of a result.
pub fn schema() -> String {
    let schema = schemars::schema_for!(RunResult);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    text.push('\n');
    text
}

impl RunResult {
    /// Returns an empty result.
    pub fn new(name: &str) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            program: concat!("gannet ", env!("CARGO_PKG_VERSION")).to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Returns whether a user stopped the run before its end.
    pub fn is_stopped(&self) -> bool {
        self.partial.as_ref().is_some_and(|why| STOPPED.iter().any(|stopped| why == stopped))
    }

    /// Returns the name of the stream beside the requests: the latency sampler, or the writes of a graph.
    pub fn second_stream(&self) -> &'static str {
        if self.configuration.contains_key(EDGE_WRITES) { "edge writes" } else { "sampler" }
    }

    /// Describes the arrival of the requests and the transport in words.
    pub fn manner(&self) -> String {
        let label = self.figures.connections.label();
        let over = match &self.tls {
            None => String::new(),
            Some(_) if label.is_empty() => ", over TLS".to_owned(),
            Some(_) => format!(", over {label}"),
        };
        format!("{}{over}", self.arrivals.words())
    }

    /// Returns the result as JSON.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string(self).expect("plain data is JSON");
        text.push('\n');
        text
    }

    /// Parses the JSON text of a result.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let loose: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| format!("this is not JSON ({error}); pass a file that --json wrote"))?;
        if loose["format"] != FORMAT {
            return Err("this JSON is not the result of a run; pass a file that --json wrote".to_owned());
        }
        if loose["version"] != VERSION {
            let version = &loose["version"];
            return Err(format!(
                "this result has version {version}, but this build reads version {VERSION}; use the build that wrote it"
            ));
        }
        serde_json::from_value(loose).map_err(|error| format!("this result is damaged: {error}; repeat the run"))
    }
}

#[cfg(test)]
pub(crate) mod tests;
