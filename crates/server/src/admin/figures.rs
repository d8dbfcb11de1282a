//! All figures of the server, as a list from which both `/metrics` and `/stats.json` are written.
//!
//! Names end in their unit (`_bytes`, `_seconds`, `_ratio`), or in `_total` for a counter. A label takes its values
//! from a closed set: states, reasons, worker numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use segment::{DRAIN_REASONS, SEGMENT_STATES, StoreStats};

use super::threads::Placed;
use crate::shared::Shared;
use crate::start::sandbox;
use crate::survey::resident_bytes;
use command::keyspace::figures::Figures;
use command::keyspace::graphs::{GraphCounters, GraphQueryKind};
use command::memory::budget::{self, Budget};
use command::metrics::background::{BackgroundCounters, SliceTimes};
use command::metrics::call_stats::{self, MethodSums};
use command::metrics::command_counters::CommandTotals;
use command::metrics::counters::{Counter, WorkerCounters};
use command::metrics::{BucketCounts, Part};
use command::push::topics::TopicFigures;
use command::shared::WorkerShared;
use command::visit::clock::Moment;
use protocol::grpc::Status;

/// Upper bounds of the latency buckets, in ns. A count covers the recorder's own buckets that end at or before the
/// bound. So a value within 3 % of a bound may count in the next bucket.
pub(super) const BOUNDS_NS: [u64; 22] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// The type of a figure, as Prometheus names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only rises.
    Counter,
    /// A number that rises and falls.
    Gauge,
    /// Counts of observations by upper bound, with the sum and the number of all observations.
    Histogram,
}

impl MetricKind {
    /// Returns the type's name in the Prometheus format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The number in a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A count, or a number of bytes.
    Count(u64),
    /// A time in seconds, or a ratio.
    Real(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Real(real) => write!(f, "{real}"),
        }
    }
}

/// One value of a figure, with the values of its labels.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The suffix that a histogram's sample appends to the name.
    pub suffix: &'static str,
    /// The values of the figure's labels, in their order. The `_sum` and `_count` samples of a histogram have no value
    /// for the last label, `le`.
    pub labels: Vec<String>,
    /// The value of the sample.
    pub number: Number,
}

/// A figure with its values.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The figure's name, which ends in the unit.
    pub name: &'static str,
    /// The type of the figure.
    pub kind: MetricKind,
    /// The help text, one sentence.
    pub help: &'static str,
    /// The names of the labels. The last label of a histogram is `le`.
    pub labels: Vec<&'static str>,
    /// The figure's values.
    pub samples: Vec<Sample>,
}

/// The list of figures that [`read`] fills.
struct MetricList(Vec<Figure>);

impl MetricList {
    fn one(&mut self, kind: MetricKind, name: &'static str, help: &'static str, number: Number) {
        let samples = vec![Sample { suffix: "", labels: Vec::new(), number }];
        self.0.push(Figure { name, kind, help, labels: Vec::new(), samples });
    }

    fn total(&mut self, name: &'static str, help: &'static str, count: u64) {
        self.one(MetricKind::Counter, name, help, Number::Count(count));
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, count: u64) {
        self.one(MetricKind::Gauge, name, help, Number::Count(count));
    }

    fn real(&mut self, kind: MetricKind, name: &'static str, help: &'static str, real: f64) {
        self.one(kind, name, help, Number::Real(real));
    }

    /// Adds a figure with one label, and a count for each value of that label.
    fn by<L: ToString>(
        &mut self,
        kind: MetricKind,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) {
        let sample = |(label, count): (L, u64)| (label, Number::Count(count));
        self.numbers_by(kind, name, help, label, values.into_iter().map(sample));
    }

    fn numbers_by<L: ToString>(
        &mut self,
        kind: MetricKind,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = (L, Number)>,
    ) {
        let sample = |(label, number): (L, Number)| Sample { suffix: "", labels: vec![label.to_string()], number };
        let samples = values.into_iter().map(sample).collect();
        self.0.push(Figure { name, kind, help, labels: vec![label], samples });
    }
}

/// Returns `part / whole`, or 0 if `whole` is 0.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Reads all figures. `spaces` has the figures of each namespace.
pub fn read(shared: &Shared, spaces: &[Figures]) -> Vec<Figure> {
    let mut list = MetricList(Vec::with_capacity(96));
    process(&mut list, shared);
    connections(&mut list, shared);
    workers(&mut list, shared);
    threads(&mut list, &super::threads::read(Path::new("/proc/self/task")));
    let mut commands = CommandTotals::default();
    shared.workers.iter().flat_map(|worker| &worker.commands).for_each(|block| commands.add(block));
    authentication(&mut list, shared, &commands);
    sandboxed(&mut list);
    lookups(&mut list, &commands);
    stores(&mut list, &commands);
    let stats = shared.store.stats();
    memory(&mut list, &stats, shared.survey.latest().huge_page_bytes);
    reopened(&mut list, shared);
    checkpoints(&mut list, shared);
    segments(&mut list, &stats);
    endings(&mut list, &stats);
    if let Some(tier) = &shared.threads.flash {
        flash(&mut list, &stats, tier);
    }
    background(&mut list, &shared.background);
    grpc_calls(&mut list, &call_stats::sums(shared.workers.iter().map(|worker| &worker.call_stats)));
    namespaces(&mut list, spaces);
    list.0
}

/// Adds the figures of gRPC calls by method.
fn grpc_calls(list: &mut MetricList, sums: &[MethodSums]) {
    let by_method = || command::grpc::method_names().zip(sums);
    let statuses = by_method().flat_map(|(method, sums)| {
        let counted = Status::ALL.iter().zip(sums.statuses).filter(|(_, count)| *count > 0);
        counted.map(move |(status, count)| Sample {
            suffix: "",
            labels: vec![method.to_owned(), status.name().to_owned()],
            number: Number::Count(count),
        })
    });
    let help = "gRPC calls that ended, by method and status.";
    let (name, labels) = ("gannet_grpc_calls_total", vec!["method", "status"]);
    list.0.push(Figure { name, kind: MetricKind::Counter, help, labels, samples: statuses.collect() });
    let parts = by_method().flat_map(|(method, sums)| {
        let parts = Part::ALL.into_iter().zip(&sums.parts).filter(|(_, counts)| counts.count > 0);
        parts.flat_map(move |(part, counts)| call_times([method, part.name()].map(str::to_owned), counts))
    });
    let help = "Time of executed gRPC calls in the server, by method and part: wait, execute, send.";
    let (name, labels) = ("gannet_grpc_call_seconds", vec!["method", "part", "le"]);
    list.0.push(Figure { name, kind: MetricKind::Histogram, help, labels, samples: parts.collect() });
}

/// Returns the histogram samples of one part of the time of calls.
fn call_times(labels: [String; 2], counts: &BucketCounts) -> Vec<Sample> {
    let sample = |suffix, end: Option<String>, number| {
        let labels = labels.iter().cloned().chain(end).collect();
        Sample { suffix, labels, number }
    };
    let bucket = |bound: u64| sample("_bucket", Some(seconds(bound).to_string()), Number::Count(counts.at_most(bound)));
    let mut samples: Vec<Sample> = BOUNDS_NS.into_iter().map(bucket).collect();
    samples.push(sample("_bucket", Some("+Inf".to_owned()), Number::Count(counts.count)));
    samples.push(sample("_sum", None, Number::Real(seconds(counts.sum_ns))));
    samples.push(sample("_count", None, Number::Count(counts.count)));
    samples
}

/// A namespace's figure: its type, name, help text, and the function that reads it.
type OfSpace = (MetricKind, &'static str, &'static str, fn(&Figures) -> u64);

/// The figures of each namespace.
const OF_SPACES: [OfSpace; 15] = [
    (MetricKind::Gauge, "gannet_namespace_items", "Items in the namespace, by namespace.", |s| s.store.values),
    (MetricKind::Gauge, "gannet_namespace_item_bytes", "Bytes of items with headers and padding, by namespace.", |s| {
        s.store.item_bytes
    }),
    (MetricKind::Gauge, "gannet_namespace_heap_bytes", "Bytes of the namespace's own segments, by namespace.", |s| {
        s.store.heap_bytes
    }),
    (
        MetricKind::Gauge,
        "gannet_namespace_heap_bytes_max",
        "Current limit of the namespace's segments: its quota, or the memory outside all quotas, by namespace.",
        |s| s.store.heap_bytes_max,
    ),
    (MetricKind::Counter, "gannet_namespace_evicted_total", "Items evicted to make room, by namespace.", |s| {
        s.store.evicted
    }),
    (
        MetricKind::Counter,
        "gannet_namespace_expired_total",
        "Items removed because they had expired, by namespace.",
        |s| s.store.expired,
    ),
    (
        MetricKind::Counter,
        "gannet_namespace_flushed_total",
        "Items removed because they were flushed, by namespace.",
        |s| s.store.flushed,
    ),
    (MetricKind::Gauge, "gannet_namespace_connections", "Open connections in the namespace, by namespace.", |s| {
        s.room.connections
    }),
    (
        MetricKind::Counter,
        "gannet_namespace_connections_refused_total",
        "Connections refused above the namespace's limit, by namespace.",
        |s| s.room.connections_refused,
    ),
    (
        MetricKind::Counter,
        "gannet_namespace_ops_refused_total",
        "Requests refused above the namespace's limit, by namespace.",
        |s| s.room.ops_refused,
    ),
    (MetricKind::Counter, "gannet_namespace_hits_total", "Keys looked up and found, by namespace.", |s| {
        s.commands.get_hits
    }),
    (MetricKind::Counter, "gannet_namespace_misses_total", "Keys looked up and not found, by namespace.", |s| {
        s.commands.get_misses
    }),
    (MetricKind::Counter, "gannet_namespace_stored_total", "Items stored by clients, by namespace.", |s| {
        s.commands.items_stored
    }),
    (
        MetricKind::Counter,
        "gannet_namespace_stores_too_large_total",
        "Values refused because they exceed the maximum length, by namespace.",
        |s| s.commands.store_too_large,
    ),
    (
        MetricKind::Counter,
        "gannet_namespace_stores_no_memory_total",
        "Values refused because no memory was free, by namespace.",
        |s| s.commands.store_no_memory,
    ),
];

fn namespaces(list: &mut MetricList, spaces: &[Figures]) {
    for (kind, name, help, of) in OF_SPACES {
        list.by(kind, name, help, "namespace", spaces.iter().map(|space| (space.name.as_str(), of(space))));
    }
}

fn process(list: &mut MetricList, shared: &Shared) {
    let version = [(env!("CARGO_PKG_VERSION"), 1)];
    list.by(MetricKind::Gauge, "gannet_build_info", "Version of this build.", "version", version);
    let moment = Moment { now: shared.now(), wall_lead_ms: shared.wall_ahead_ms() };
    let started_s = moment.to_wall(shared.started).0 as f64 / 1000.0;
    list.real(
        MetricKind::Gauge,
        "gannet_start_time_seconds",
        "Start time of the server, as a Unix timestamp in seconds.",
        started_s,
    );
    let uptime_s = moment.now.ms_since(shared.started) as f64 / 1000.0;
    list.real(MetricKind::Gauge, "gannet_uptime_seconds", "Time since the start of the server.", uptime_s);
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let cpu_s = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    list.real(MetricKind::Counter, "gannet_cpu_seconds_total", "CPU time of all threads.", cpu_s);
    if let Some(bytes) = resident_bytes() {
        list.gauge("gannet_resident_bytes", "Resident memory of the process.", bytes);
    }
}

fn connections(list: &mut MetricList, shared: &Shared) {
    let sum = |counter: fn(&WorkerCounters) -> &Counter| -> u64 {
        shared.workers.iter().map(|worker| counter(&worker.counters).value()).sum()
    };
    list.gauge("gannet_connections", "Open client connections.", shared.connections_open());
    let most = shared.live.connections_max.load(Relaxed);
    list.gauge("gannet_connections_max", "Maximum number of open client connections.", most);
    let accepted = shared.acceptor.accepted.value();
    list.total("gannet_connections_accepted_total", "Client connections accepted.", accepted);
    let rejected = shared.acceptor.rejected.value();
    list.total(
        "gannet_connections_rejected_total",
        "Client connections refused because the maximum was reached.",
        rejected,
    );
    list.total(
        "gannet_source_connections_rejected_total",
        "Client connections refused because their address had as many as limits.maxconns_per_source allows.",
        shared.acceptor.source_rejected.value(),
    );
    let (sources, most) = shared.sources.figures();
    list.gauge("gannet_connection_sources", "Client addresses with open connections.", sources);
    list.gauge("gannet_source_connections_most", "The most open connections of one client address.", most);
    let exhausted = shared.acceptor.descriptors_exhausted.value();
    list.total(
        "gannet_descriptors_exhausted_total",
        "Accepts that failed because no file descriptor was free.",
        exhausted,
    );
    let dropped = [
        ("idle", sum(|c| &c.idle_closed)),
        ("slow_reader", sum(|c| &c.slow_readers_dropped)),
        ("client_memory", sum(|c| &c.client_memory_dropped)),
        ("slow_sender", sum(|c| &c.slow_senders_dropped)),
        ("login_timeout", sum(|c| &c.login_timeouts)),
    ];
    let help = "Client connections that the server closed, by reason.";
    list.by(MetricKind::Counter, "gannet_connections_dropped_total", help, "reason", dropped);
    let received = sum(|c| &c.bytes_read);
    list.total("gannet_received_bytes_total", "Bytes received from clients.", received);
    list.total("gannet_sent_bytes_total", "Bytes sent to clients.", sum(|c| &c.bytes_written));
    list.gauge("gannet_pinned_bytes", "Bytes of the store pinned for values that are being sent.", shared.pins.used());
    client_memory(list, &shared.budget);
    topics(list, shared.topics.figures());
    graphs(list, shared);
    encryption(list, shared);
}

/// A worker's counter: its name, help text, and the function that reads it.
type OfWorker = (&'static str, &'static str, fn(&WorkerCounters) -> u64);

/// The figures of each worker.
const OF_WORKERS: [OfWorker; 11] = [
    ("gannet_worker_ops_total", "Operations executed, by worker.", |c| c.ops.value()),
    ("gannet_worker_turns_total", "Iterations of the event loop, by worker.", |c| c.iterations.value()),
    ("gannet_worker_turns_polled_total", "Iterations of the event loop without a preceding sleep, by worker.", |c| {
        c.turns_polled.value()
    }),
    ("gannet_worker_batches_total", "Batches of operations executed under one epoch guard, by worker.", |c| {
        c.batches.value()
    }),
    ("gannet_worker_parked_total", "Operations parked for a later iteration of the event loop, by worker.", |c| {
        c.parked.value()
    }),
    ("gannet_worker_sends_short_total", "Sends that the socket accepted only in part, by worker.", |c| {
        c.sends_short.value()
    }),
    ("gannet_worker_buffer_waits_total", "Waits for a buffer, by worker.", |c| c.buffer_waits.value()),
    ("gannet_worker_copied_out_total", "Pinned replies copied for slow readers, by worker.", |c| c.copied_out.value()),
    ("gannet_worker_moved_out_total", "Half-received values moved out of the store, by worker.", |c| {
        c.moved_out.value()
    }),
    ("gannet_worker_connections_total", "Connections assigned to the worker since the start, by worker.", |c| {
        c.connections_total.value()
    }),
    ("gannet_worker_received_bytes_total", "Bytes received, by worker.", |c| c.bytes_read.value()),
];

/// Adds the figures of the memory that clients hold outside the store.
fn client_memory(list: &mut MetricList, budget: &Budget) {
    let help = "Bytes that clients hold outside the store, by kind.";
    let kinds = budget::MemoryUse::ALL.map(|kind| (kind.name(), budget.used_by(kind)));
    list.by(MetricKind::Gauge, "gannet_client_memory_bytes", help, "kind", kinds);
    let help = "Maximum number of bytes that clients may hold outside the store (limits.client_memory).";
    list.gauge("gannet_client_memory_bytes_max", help, budget.bytes_max());
    let help = "Requests and messages refused because client memory was full.";
    list.total("gannet_client_memory_refused_total", help, budget.refused());
}

/// Adds the figures of the topics of gRPC clients.
fn topics(list: &mut MetricList, figures: TopicFigures) {
    list.gauge("gannet_topics", "Topics with gRPC subscribers, or with messages for them.", figures.topics);
    let help = "gRPC connections with subscriptions, counted once for each of their topics.";
    list.gauge("gannet_topic_subscribers", help, figures.subscribers);
    let help = "Bytes of the messages that topics hold for slow and returning subscribers.";
    list.gauge("gannet_topic_log_bytes", help, figures.log_bytes);
    list.total("gannet_topic_messages_total", "Messages published to topics.", figures.messages);
    let help = "Gaps reported to subscribers that came too late for messages.";
    list.total("gannet_topic_discontinuities_total", help, figures.gaps);
}

/// Adds the figures of the graph store.
fn graphs(list: &mut MetricList, shared: &Shared) {
    let graphs = &shared.graphs;
    let Some(store) = graphs.store() else { return };
    let sum =
        |of: &dyn Fn(&GraphCounters) -> &Counter| shared.workers.iter().map(|worker| of(&worker.graph).value()).sum();
    let kinds = GraphQueryKind::ALL.map(|kind| (kind.name(), sum(&|counters| &counters.queries[kind as usize])));
    list.by(MetricKind::Counter, "gannet_graph_queries_total", "Queries of graphs, by kind.", "kind", kinds);
    list.total("gannet_graph_edges_touched_total", "Edges that queries touched.", sum(&|counters| &counters.edges));
    list.total("gannet_graph_edges_changed_total", "Edges that were changed.", sum(&|counters| &counters.changed));
    let help = "Changes of graphs refused because all segments were in use.";
    list.total("gannet_graph_refused_total", help, sum(&|counters| &counters.refused));
    let help = "Answers that a budget of edges cut short.";
    list.total("gannet_graph_partial_total", help, sum(&|counters| &counters.partial));
    let help = "Queries of second degrees, by whether the cache had them.";
    let cached = [("hit", sum(&|counters| &counters.cache_hits)), ("miss", sum(&|counters| &counters.cache_misses))];
    list.by(MetricKind::Counter, "gannet_graph_second_degree_total", help, "result", cached);
    let stats = store.stats();
    let used = stats.segments - stats.segments_free - stats.segments_retired;
    let segments = [("free", stats.segments_free), ("retired", stats.segments_retired), ("used", used)];
    let segments = segments.map(|(state, count)| (state, count as u64));
    list.by(MetricKind::Gauge, "gannet_graph_segments", "Segments of the graph store, by state.", "state", segments);
    let help = "Segments of the graph store that were reused in place.";
    list.total("gannet_graph_segments_reused_total", help, stats.segments_recycled);
    list.gauge("gannet_graph_memory_bytes", "Memory of the graph store (graph.memory).", graphs.memory_bytes());
    list.gauge("gannet_graph_live_bytes", "Bytes of live records of graphs.", stats.live_bytes as u64);
    list.gauge("gannet_graph_index_bytes", "Bytes of the index of graphs.", stats.index_bytes as u64);
    let debt = stats.record_bytes.saturating_sub(stats.live_bytes) as u64;
    let help = "Bytes of dead records in segments in use: what compaction may free.";
    list.gauge("gannet_graph_compaction_debt_bytes", help, debt);
    let slices = graphs.compaction.slices.value();
    list.total("gannet_graph_compaction_slices_total", "Slices of compaction of graphs.", slices);
    list.gauge("gannet_graphs", "Graphs.", stats.graphs as u64);
    list.gauge("gannet_graphs_dropping", "Dropped graphs whose memory is not free yet.", stats.graphs_dropping as u64);
    list.total("gannet_graphs_dropped_total", "Graphs that were dropped.", stats.graphs_dropped);
}

fn encryption(list: &mut MetricList, shared: &Shared) {
    let Some(tls) = shared.tls() else { return };
    let (figures, current) = (&tls.figures, tls.current());
    let of = |count: &AtomicU64| count.load(Relaxed);
    list.gauge("gannet_tls_connections", "Encrypted connections.", of(&figures.open));
    let help = "TLS handshakes that succeeded, by whether they resumed an earlier session.";
    let kinds = [("full", of(&figures.full)), ("resumed", of(&figures.resumed))];
    list.by(MetricKind::Counter, "gannet_tls_handshakes_total", help, "kind", kinds);
    let help = "TLS handshakes that failed, by reason; the log describes one a second.";
    let failed = tls::FailureKind::ALL.map(|kind| (kind.name(), of(&figures.failed[kind as usize])));
    list.by(MetricKind::Counter, "gannet_tls_handshakes_failed_total", help, "reason", failed);
    list.gauge("gannet_tls_handshakes_under_way", "TLS handshakes under way.", of(&figures.under_way));
    let help = "Connections that wait unread because tls.handshakes_max handshakes are under way.";
    list.gauge("gannet_tls_handshakes_waiting", help, of(&figures.waiting));
    let help = "Connections that had to wait for tls.handshakes_max.";
    list.total("gannet_tls_handshakes_waited_total", help, of(&figures.waited));
    let help = "Steps of handshakes that were postponed to serve requests first.";
    list.total("gannet_tls_handshakes_postponed_total", help, of(&figures.postponed));
    let help = "Connections closed after their TLS handshake: the peer sent invalid bytes, or memory was short.";
    list.total("gannet_tls_broken_total", help, of(&figures.broken));
    let help = "Clients whose certificates name no enabled user (tls.user_from).";
    list.total("gannet_tls_unknown_users_total", help, of(&figures.unknown_users));
    let help = "Connections that ended without a close_notify.";
    list.total("gannet_tls_truncated_total", help, of(&figures.truncated));
    let help = "Reloads of certificates, by result; after a failed one the earlier certificates stay in use.";
    let reloads = [("ok", of(&figures.reloads)), ("failed", of(&figures.reloads_failed))];
    list.by(MetricKind::Counter, "gannet_tls_reloads_total", help, "result", reloads);
    let now = (shared.now().0.saturating_add_signed(shared.wall_ahead_ms()) / 1000) as i64;
    let help = "Days until a certificate of the server expires, by its file; 0 if it has expired.";
    let days = current
        .certificates
        .iter()
        .map(|facts| (facts.file.display().to_string(), (facts.not_after - now).max(0) as u64 / 86_400));
    list.by(MetricKind::Gauge, "gannet_tls_certificate_expires_in_days", help, "file", days);
}

fn workers(list: &mut MetricList, shared: &Shared) {
    list.gauge("gannet_workers", "Worker threads.", shared.workers.len() as u64);
    for (name, help, of) in OF_WORKERS {
        let values = shared.workers.iter().enumerate().map(|(number, worker)| (number, of(&worker.counters)));
        list.by(MetricKind::Counter, name, help, "worker", values);
    }
    let values = shared.workers.iter().enumerate().map(|(number, w)| (number, w.counters.connections_open()));
    list.by(MetricKind::Gauge, "gannet_worker_connections", "Open connections, by worker.", "worker", values);
    buffers(list, shared);
    let slow = shared.workers.iter().map(|worker| worker.recorder.slow().total()).sum();
    list.total("gannet_slow_requests_total", "Requests slower than log.slow_request.", slow);
}

/// Adds the figures of waits for buffers, and of the bytes that are set aside to avoid such waits.
fn buffers(list: &mut MetricList, shared: &Shared) {
    let mut by = |kind, name, help, of: fn(&WorkerShared) -> Number| {
        let values = shared.workers.iter().enumerate().map(|(number, worker)| (number, of(worker)));
        list.numbers_by(kind, name, help, "worker", values);
    };
    let help = "Time that connections waited for a buffer, by worker.";
    by(MetricKind::Counter, "gannet_worker_buffer_wait_seconds_total", help, |worker| {
        Number::Real(seconds(worker.counters.buffer_wait_ns.value()))
    });
    let help = "Connections that wait for a buffer now, by worker.";
    by(MetricKind::Gauge, "gannet_worker_buffer_waiters", help, |w| Number::Count(w.counters.buffer_waiters.value()));
    let help = "Longest current wait of a connection for a buffer, by worker.";
    by(MetricKind::Gauge, "gannet_worker_buffer_wait_oldest_seconds", help, |worker| {
        Number::Real(seconds(worker.counters.buffer_wait_oldest_ns.value()))
    });
    let help = "Incomplete requests and unread replies set aside to free their buffers, by worker.";
    by(MetricKind::Counter, "gannet_worker_set_aside_total", help, |w| Number::Count(w.counters.set_aside.value()));
    let help = "Incomplete requests that are set aside now, by worker.";
    by(MetricKind::Gauge, "gannet_worker_requests_set_aside", help, |w| Number::Count(w.aside.inputs()));
    let help = "Unread replies that are set aside now, by worker.";
    by(MetricKind::Gauge, "gannet_worker_replies_set_aside", help, |w| Number::Count(w.aside.outputs()));
    let help = "Bytes of requests and replies that are set aside now, by worker.";
    by(MetricKind::Gauge, "gannet_worker_set_aside_bytes", help, |w| Number::Count(w.aside.bytes()));
}

fn threads(list: &mut MetricList, threads: &BTreeMap<String, Placed>) {
    let name = "gannet_thread_involuntary_switches_total";
    let help = "Involuntary context switches, by thread.";
    list.by(
        MetricKind::Counter,
        name,
        help,
        "thread",
        threads.iter().map(|(name, placed)| (name, placed.involuntary_switches)),
    );
    let name = "gannet_thread_migrations_total";
    let help = "Migrations of a thread to another CPU, by thread; absent if the kernel does not report them.";
    let moved = threads.iter().filter_map(|(name, placed)| Some((name, placed.migrations?)));
    list.by(MetricKind::Counter, name, help, "thread", moved);
}

fn authentication(list: &mut MetricList, shared: &Shared, totals: &CommandTotals) {
    list.total("gannet_auth_attempts_total", "Authentication attempts.", totals.auth_cmds);
    list.total("gannet_auth_failures_total", "Authentication attempts that failed.", totals.auth_errors);
    list.total(
        "gannet_audit_dropped_total",
        "Records of the audit log that were dropped, because too many came at once or the file could not be written.",
        shared.audit.dropped(),
    );
    list.total(
        "gannet_auth_delayed_total",
        "Authentication attempts answered late because of earlier failures from the same source.",
        totals.auth_delayed,
    );
    let denied = [
        ("command", totals.denied_commands),
        ("key", totals.denied_keys),
        ("channel", totals.denied_channels),
        ("namespace", totals.denied_namespaces),
    ];
    let help = "Requests refused because their user lacks a right, by the kind of right.";
    list.by(MetricKind::Counter, "gannet_permission_denied_total", help, "right", denied);
    list.total(
        "gannet_user_ops_refused_total",
        "Requests refused because their user's quota of requests per second was used up.",
        totals.user_ops_refused,
    );
    list.gauge(
        "gannet_auth_failure_sources",
        "Client addresses with failed authentication attempts in the last minute.",
        shared.auth_delay.sources() as u64,
    );
}

fn sandboxed(list: &mut MetricList) {
    list.gauge(
        "gannet_sandbox_parts",
        "Parts of the sandbox that the kernel enforces: 0 none, 1 files or system calls, 2 both.",
        sandbox::parts(),
    );
    list.total(
        "gannet_sandbox_refused_calls_total",
        "System calls that the sandbox refused. The first is logged.",
        io::signal::refused::refused_calls(),
    );
}

fn lookups(list: &mut MetricList, totals: &CommandTotals) {
    let mut by_result = |name, help, hits, misses| {
        list.by(MetricKind::Counter, name, help, "result", [("hit", hits), ("miss", misses)]);
    };
    by_result("gannet_lookups_total", "Keys looked up, by result.", totals.get_hits, totals.get_misses);
    by_result("gannet_touches_total", "Keys touched, by result.", totals.touch_hits, totals.touch_misses);
    by_result("gannet_deletes_total", "Deletions, by result.", totals.delete_hits, totals.delete_misses);
    by_result("gannet_increments_total", "Increments, by result.", totals.incr_hits, totals.incr_misses);
    by_result("gannet_decrements_total", "Decrements, by result.", totals.decr_hits, totals.decr_misses);
    let cas = [("hit", totals.cas_hits), ("miss", totals.cas_misses), ("other_token", totals.cas_badval)];
    list.by(MetricKind::Counter, "gannet_compares_total", "Stores with a CAS token, by result.", "result", cas);
    let hit_ratio = ratio(totals.get_hits, totals.get_hits + totals.get_misses);
    list.real(
        MetricKind::Gauge,
        "gannet_hit_ratio",
        "Share of lookups that found their key, since the start.",
        hit_ratio,
    );
}

fn stores(list: &mut MetricList, totals: &CommandTotals) {
    list.total(
        "gannet_storage_commands_total",
        "Storage commands whose value was received completely.",
        totals.cmd_set,
    );
    list.total("gannet_meta_commands_total", "Meta commands.", totals.cmd_meta);
    list.total("gannet_flush_commands_total", "Commands that flush everything.", totals.cmd_flush);
    list.total("gannet_stored_total", "Items stored by clients.", totals.items_stored);
    let refused = [("too_large", totals.store_too_large), ("no_memory", totals.store_no_memory)];
    list.by(
        MetricKind::Counter,
        "gannet_stores_refused_total",
        "Values that were not stored, by reason.",
        "reason",
        refused,
    );
    list.total(
        "gannet_protocol_errors_total",
        "Commands that got a protocol error as their reply.",
        totals.protocol_errors,
    );
    let help = "Times that a session yielded to other sessions before its input was used up.";
    list.total("gannet_session_yields_total", help, totals.yields);
}

/// Adds the figures of checkpoints: the state of the memory that would survive a power loss.
fn checkpoints(list: &mut MetricList, shared: &Shared) {
    let stats = shared.store.checkpoint_stats().unwrap_or_default();
    list.total("gannet_checkpoints_total", "Completed checkpoints of the memory file.", stats.made);
    let help = "Checkpoints that failed because of a write error.";
    list.total("gannet_checkpoint_failures_total", help, stats.failed);
    let help = "Start time of the last checkpoint, as a Unix timestamp in seconds; 0: no checkpoint.";
    list.gauge("gannet_checkpoint_last_seconds", help, stats.last.0 / 1000);
    let help = "Duration of the last checkpoint after all segments were sealed, in microseconds.";
    list.gauge("gannet_checkpoint_duration_us", help, shared.checkpoint_ns.load(Relaxed) / 1000);
    list.gauge("gannet_checkpoint_segments", "Segments in the last checkpoint.", stats.segments);
}

/// Adds the figures of the last reopening of the memory file, if the server has a memory file.
fn reopened(list: &mut MetricList, shared: &Shared) {
    let reopened = shared.store.reopened().copied();
    let how = reopened.map(|reopened| match reopened {
        segment::Reopened { found: false, .. } => "made",
        segment::Reopened { clean: true, .. } => "left in order",
        _ => "left by a kill",
    });
    let samples = ["made", "left in order", "left by a kill"].map(|one| (one, u64::from(how == Some(one))));
    let help = "1 for the memory file's state at the start: made (created), left in order (closed cleanly) or left by \
                a kill (not closed); all 0 without a memory file.";
    list.by(MetricKind::Gauge, "gannet_reopened", help, "how", samples);
    let items = reopened.map_or(0, |reopened| reopened.items);
    list.gauge("gannet_reopened_items", "Items that were in the memory file at the start.", items);
    let help = "Time to open or create the memory at the start.";
    list.real(MetricKind::Gauge, "gannet_reopen_seconds", help, shared.opened_in.as_secs_f64());
}

fn memory(list: &mut MetricList, stats: &StoreStats, huge_page_bytes: u64) {
    let help = "Items in the store; a large value counts once. Expired items count until they are removed.";
    list.gauge("gannet_items", help, stats.values);
    list.gauge("gannet_item_bytes", "Bytes of the items, with headers and padding.", stats.item_bytes);
    let help = "Limit of segments and index together; after a decrease, they shrink to it.";
    list.gauge("gannet_memory_bytes", help, stats.memory_bytes);
    let help = "Bytes held by segments and index; above gannet_memory_bytes while the memory shrinks.";
    list.gauge("gannet_memory_held_bytes", help, stats.held_bytes);
    let help = "Highest limit of the memory that can be set while the server runs.";
    list.gauge("gannet_memory_bytes_max", help, stats.memory_bytes_max);
    list.gauge("gannet_heap_bytes", "Bytes of segments in use.", stats.heap_bytes);
    list.gauge("gannet_dead_bytes", "Bytes in segments that belong to no live item.", stats.dead_bytes);
    list.gauge("gannet_index_bytes", "Bytes of the index.", stats.index_bytes);
    list.gauge("gannet_index_slots", "Slots of the index.", stats.index_slots);
    let load = ratio(stats.items, stats.index_slots);
    list.real(MetricKind::Gauge, "gannet_index_load_ratio", "Share of the index's slots that are in use.", load);
    list.total("gannet_index_growths_total", "Times that the index grew.", stats.index_growths);
    let help = "Times that the index shrank because the memory limit was lowered.";
    list.total("gannet_index_shrinks_total", help, stats.index_shrinks);
    list.total("gannet_index_displaced_total", "Index slots moved to make room.", stats.displaced);
    let asked = u64::from(stats.huge_pages_asked);
    list.gauge("gannet_huge_pages_asked", "1 if huge pages were requested.", asked);
    let help = "Bytes of the store backed by huge pages; at most about 10 s old.";
    list.gauge("gannet_huge_page_bytes", help, huge_page_bytes);
}

fn segments(list: &mut MetricList, stats: &StoreStats) {
    list.gauge("gannet_segment_bytes", "Size of a segment.", stats.segment_bytes);
    let states = SEGMENT_STATES.into_iter().zip(stats.segments);
    list.by(MetricKind::Gauge, "gannet_segments", "Segments, by state.", "state", states);
    let queues = [("small", stats.segments_small), ("main", stats.segments_main)];
    list.by(MetricKind::Gauge, "gannet_segments_queued", "Sealed segments, by eviction queue.", "queue", queues);
    let share = stats.small_percent as f64 / 100.0;
    let help = "Target share of the small queue in the segments: the share with the fewest misses on sampled keys.";
    list.real(MetricKind::Gauge, "gannet_small_queue_share_ratio", help, share);
    let drained = DRAIN_REASONS.into_iter().zip(stats.segments_drained);
    let help = "Segments emptied, by reason.";
    list.by(MetricKind::Counter, "gannet_segments_drained_total", help, "reason", drained);
    list.total("gannet_segments_freed_total", "Segments that became free again.", stats.segments_freed);
}

fn endings(list: &mut MetricList, stats: &StoreStats) {
    list.total("gannet_evicted_total", "Items evicted to make room.", stats.evicted);
    let help = "Evicted items that were never read.";
    list.total("gannet_evicted_unread_total", help, stats.evicted_unread);
    list.total("gannet_evicted_with_ttl_total", "Evicted items that had a TTL.", stats.evicted_with_ttl);
    let help = "Items evicted because a newer item needed their index slot.";
    list.total("gannet_evicted_by_index_total", help, stats.evicted_by_index);
    list.total("gannet_expired_total", "Items removed because they had expired.", stats.expired);
    list.total("gannet_flushed_total", "Items removed because they were flushed.", stats.flushed);
    list.total("gannet_relocated_total", "Items copied to another segment.", stats.relocated);
    list.total(
        "gannet_ghost_hits_total",
        "Stored keys that had recently been evicted, or that had been read and had expired.",
        stats.ghost_hits,
    );
    let help = "Operations parked by the store for a lock or for memory.";
    list.total("gannet_store_parked_total", help, stats.parked);
    let late = [("expired", stats.read_expired), ("flushed", stats.read_flushed)];
    let help = "Reads that found an expired or flushed item, by reason.";
    list.by(MetricKind::Counter, "gannet_reads_of_ended_total", help, "reason", late);
    list.total("gannet_large_broken_total", "Large values discarded because a piece was missing.", stats.large_broken);
    let help = "Damaged items of the memory file, which were removed.";
    list.total("gannet_items_damaged_total", help, stats.damaged);
    let help = "Index slots in the memory file that were cleared because their item was incomplete.";
    list.total("gannet_slots_cleared_total", help, stats.slots_cleared);
    let help = "Pieces and parts of values that were unreferenced after a crash, and were removed.";
    list.total("gannet_orphans_removed_total", help, stats.orphans);
    let help = "Segments that the rebuild of the index has not scanned yet.";
    list.gauge("gannet_index_rebuild_segments", help, stats.rebuild_segments);
    list.gauge("gannet_pins", "Values that are being sent directly from the store.", stats.pins);
}

/// Adds the figures of the second tier.
fn flash(list: &mut MetricList, stats: &StoreStats, tier: &flash::Flash) {
    let counts = tier.counts();
    let devices = || tier.devices().into_iter();
    let help = "Bytes of the device that the server uses, by device.";
    list.by(
        MetricKind::Gauge,
        "gannet_flash_bytes",
        help,
        "device",
        devices().map(|device| (device.name, device.bytes)),
    );
    let help = "1 if the device has failed and is not used any more, by device.";
    let lost = devices().map(|device| (device.name, u64::from(device.lost)));
    list.by(MetricKind::Gauge, "gannet_flash_lost", help, "device", lost);
    list.gauge("gannet_flash_items", "Items on flash.", stats.flash_items);
    list.gauge("gannet_flash_regions_free", "Free regions on flash.", tier.regions().0 as u64);
    let help =
        "Regions written by an earlier server process that are not indexed yet, including the region being read.";
    list.gauge("gannet_flash_regions_unread", help, tier.regions_unread() as u64);
    list.total("gannet_flash_hits_total", "Values returned from flash.", stats.flash_hits);
    list.total("gannet_flash_returned_total", "Items copied from flash back to memory.", stats.flash_back);
    let moved = [("taken", stats.flash_taken), ("again", stats.flash_again), ("evicted", stats.flash_evicted)];
    let help = "Items by outcome: written to flash, kept on flash, or removed to make room on flash.";
    list.by(MetricKind::Counter, "gannet_flash_moved_total", help, "how", moved);
    let failed = [("read", stats.flash_failed), ("region", counts.reclaim_failed)];
    let help = "Items on flash that were damaged or unreadable, by the time of detection.";
    list.by(MetricKind::Counter, "gannet_flash_failed_total", help, "when", failed);
    let help = "Evicted items that were not written to flash, by reason.";
    list.by(MetricKind::Counter, "gannet_flash_refused_total", help, "reason", counts.refusals());
    list.total("gannet_flash_reads_total", "Reads of flash requested.", counts.reads);
    list.total("gannet_flash_read_bytes_total", "Bytes read from flash.", counts.read_bytes);
    list.total("gannet_flash_item_bytes_total", "Bytes of items written to flash.", counts.item_bytes);
    list.total("gannet_flash_written_bytes_total", "Bytes written to devices.", counts.written_bytes);
    list.total("gannet_flash_regions_reclaimed_total", "Regions reclaimed.", counts.regions_reclaimed);
}

fn background(list: &mut MetricList, counters: &BackgroundCounters) {
    let help = "Duration of the longest slice of background work, by kind.";
    let longest = |(kind, times): (_, &SliceTimes)| (kind, Number::Real(seconds(times.longest_ns.load(Relaxed))));
    let name = "gannet_background_slice_max_seconds";
    list.numbers_by(MetricKind::Gauge, name, help, "kind", counters.by_kind().map(longest));
    let help = "CPU time of the longest slice of background work, by kind.";
    let longest = |(kind, times): (_, &SliceTimes)| (kind, Number::Real(seconds(times.longest_cpu_ns.load(Relaxed))));
    let name = "gannet_background_slice_cpu_max_seconds";
    list.numbers_by(MetricKind::Gauge, name, help, "kind", counters.by_kind().map(longest));
    let long = |(kind, times): (_, &SliceTimes)| (kind, Number::Count(times.long.value()));
    let help = "Slices of background work that took more than 1 ms of CPU time, by kind.";
    let name = "gannet_background_slices_long_total";
    list.numbers_by(MetricKind::Counter, name, help, "kind", counters.by_kind().map(long));
    let samples = counters.by_kind().flat_map(|(kind, times)| slices(kind, times)).collect();
    let help = "Duration of slices of background work, by kind.";
    let name = "gannet_background_slice_seconds";
    list.0.push(Figure { name, kind: MetricKind::Histogram, help, labels: vec!["kind", "le"], samples });
}

/// Returns the histogram samples of one kind of background slices.
fn slices(kind: &str, times: &SliceTimes) -> Vec<Sample> {
    let last = times.by_us_log2.len() - 1;
    let mut samples = Vec::with_capacity(last + 3);
    let mut below = 0;
    for (power, counter) in times.by_us_log2.iter().enumerate() {
        below += counter.value();
        let end = if power == last { "+Inf".to_owned() } else { seconds(1000 << power).to_string() };
        samples.push(Sample { suffix: "_bucket", labels: vec![kind.to_owned(), end], number: Number::Count(below) });
    }
    let busy_s = Number::Real(seconds(times.busy_ns.value()));
    samples.push(Sample { suffix: "_sum", labels: vec![kind.to_owned()], number: busy_s });
    samples.push(Sample { suffix: "_count", labels: vec![kind.to_owned()], number: Number::Count(below) });
    samples
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns figures of every type, without a running server.
    pub(crate) fn sample_figures() -> Vec<Figure> {
        let mut list = MetricList(Vec::new());
        let totals = CommandTotals { get_hits: 3, get_misses: 1, ..CommandTotals::default() };
        lookups(&mut list, &totals);
        stores(&mut list, &totals);
        memory(&mut list, &StoreStats::default(), 7);
        segments(&mut list, &StoreStats::default());
        endings(&mut list, &StoreStats::default());
        background(&mut list, &BackgroundCounters::default());
        let worker = Placed { involuntary_switches: 7, migrations: Some(1) };
        threads(&mut list, &BTreeMap::from([("worker-0".to_owned(), worker)]));
        list.0
    }

    #[test]
    fn the_hit_ratio_of_nothing_is_a_number() {
        assert_eq!(ratio(0, 0), 0.0);
        let ratio = sample_figures().into_iter().find(|figure| figure.name == "gannet_hit_ratio").unwrap();
        assert_eq!(ratio.samples[0].number, Number::Real(0.75));
    }

    #[test]
    fn names_carry_their_unit_and_their_kind() {
        for figure in sample_figures() {
            assert_eq!(figure.kind == MetricKind::Counter, figure.name.ends_with("_total"), "{}", figure.name);
            let carried = figure.labels.iter().filter(|label| **label != "le").count();
            assert!(figure.samples.iter().all(|s| s.labels.len() >= carried), "{}", figure.name);
            assert!(figure.samples.iter().all(|s| s.labels.len() <= figure.labels.len()), "{}", figure.name);
            assert!(figure.help.ends_with('.'), "{}", figure.name);
        }
    }
}
