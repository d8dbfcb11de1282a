//! Converts arguments to the description of a session. Reports all faults at once, each with its flag and remedy.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use base::units::{ByteSize, TimeSpan};
use clap::ArgMatches;
use link::Address;
use link::tls::{Maker, TlsClient, TlsSettings as Tls};
use load::engine::{Config, Load, Sampler, Wait};
use load::result::{Arrivals, EDGE_WRITES, Machine, RunResult};
use load::schedule::SendPlan;
use load::search::SearchSettings;
use load::search::objective::Condition;
use load::search::rate::{RATE_MAX, Rate};
use load::session::{Job, Mode, Stepped};
use load::workload::file::Password;
use load::workload::graph::{EdgeFile, EdgeOrigin, Endpoints, GraphLoad};
use load::workload::model::{self, Auth, KeyCommand, Order, Pace, Placement, Protocol, Sizes, Verb};
use load::workload::{Workload, WorkloadFault, presets};

use super::{plan, recipe};
use crate::Failure;

/// A run as the arguments describe it.
pub struct LoadRun {
    /// The session's configuration, without the sources of its requests.
    pub job: Job,
    /// The workload.
    pub workload: Workload,
    /// Notes about another tool's flags that have a slightly different meaning here, one sentence each.
    pub notes: Vec<String>,
}

/// Reads flags and collects their faults.
pub struct Flags<'a> {
    /// The arguments.
    pub matches: &'a ArgMatches,
    /// Faults of the flags, one line each.
    pub faults: Vec<String>,
    notes: Vec<String>,
}

impl<'a> Flags<'a> {
    /// Creates a reader of `matches`.
    pub const fn new(matches: &'a ArgMatches) -> Self {
        Self { matches, faults: Vec::new(), notes: Vec::new() }
    }

    /// Returns the flag's text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.matches.get_one::<String>(name).map(String::as_str)
    }

    /// Records a fault of the flag `name`.
    pub fn fault(&mut self, name: &str, what: impl Display) {
        self.faults.push(format!("--{name}: {what}"));
    }

    /// Returns the flag's value, parsed by `read`; `None` if it is absent or invalid.
    pub fn read<T, E: Display>(&mut self, name: &str, read: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        match read(self.text(name)?) {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(name, error);
                None
            }
        }
    }

    /// Returns the flag's parsed value.
    pub fn parsed<T: FromStr<Err: Display>>(&mut self, name: &str) -> Option<T> {
        self.read(name, str::parse)
    }

    /// Returns the flag's value as a whole number.
    pub fn whole<T: FromStr>(&mut self, name: &str) -> Option<T> {
        self.read(name, |text| {
            text.replace('_', "")
                .parse::<T>()
                .map_err(|_| format!("{text:?} is not a whole number; write one, as in 50"))
        })
    }

    /// Returns the flag's value as a duration.
    pub fn span(&mut self, name: &str) -> Option<Duration> {
        self.time_span(name).map(|span| Duration::from_nanos(span.as_ns()))
    }

    /// Returns the flag's value as a duration, in the type that workloads use.
    pub fn time_span(&mut self, name: &str) -> Option<TimeSpan> {
        let units =
            |text: &str| text.parse::<TimeSpan>().map_err(|error| format!("{text:?}: {error}; {}", error.remedy()));
        self.read(name, units)
    }

    /// Returns the flag's value as a size in bytes.
    pub fn size(&mut self, name: &str) -> Option<u64> {
        let units =
            |text: &str| text.parse::<ByteSize>().map_err(|error| format!("{text:?}: {error}; {}", error.remedy()));
        self.read(name, units).map(|size| size.0)
    }

    /// Returns the flag's value, a percentage, as a share from 0 to 1.
    pub fn percent(&mut self, name: &str) -> Option<f64> {
        self.read(name, |text| {
            let value = text.strip_suffix('%').and_then(|digits| digits.trim().parse::<f64>().ok());
            let value = value.filter(|value| (0.0..=100.0).contains(value));
            value
                .map(|value| value / 100.0)
                .ok_or_else(|| format!("{text:?} is not a percentage; write one, as in 99%"))
        })
    }

    /// Returns all conditions of a flag that may be repeated.
    pub fn conditions(&mut self, name: &str) -> Vec<Condition> {
        let texts: Vec<String> = self.matches.get_many::<String>(name).into_iter().flatten().cloned().collect();
        let mut list = Vec::new();
        for text in texts {
            match Condition::parse_list(&text) {
                Ok(some) => list.extend(some),
                Err(error) => self.fault(name, error),
            }
        }
        list
    }
}

/// Returns the conditions of `--assert`.
pub fn assertions(matches: &ArgMatches) -> Result<Vec<Condition>, Failure> {
    let mut flags = Flags::new(matches);
    let list = flags.conditions("assert");
    if flags.faults.is_empty() { Ok(list) } else { Err(Failure::Usage(flags.faults)) }
}

/// Reads a run from the arguments.
pub fn ask(matches: &ArgMatches) -> Result<LoadRun, Failure> {
    let mut flags = Flags::new(matches);
    let mut workload = workload(&mut flags)?;
    let objectives = flags.conditions("slo");
    let assertions = flags.conditions("assert");
    if let Some(path) = flags.text("arrivals").and_then(|kind| kind.strip_prefix("trace:")).map(Into::into) {
        let speed = speed(&mut flags).unwrap_or(1.0);
        workload.pace = Pace::Open { rate_per_s: 0.0, arrivals: model::Arrivals::Trace { path, speed } };
    }
    let mode = mode(&mut flags, &workload, &objectives);
    // By default, a closed loop has one request in flight, and an open loop has room for a burst.
    if workload.depth == 0 {
        workload.depth = if matches!(mode, Mode::Closed) { workload.batch } else { workload.batch.max(64) };
    }
    let mut config = config(&mut flags, &workload, &mode);
    if let Err(faults) = workload.validate() {
        flags.faults.extend(faults.iter().map(ToString::to_string));
    }
    // Both `validate` and `secured` report TLS settings that contradict each other, so duplicates are dropped.
    match secured(workload.tls.as_ref()) {
        Ok(client) => config.tls = client,
        Err(faults) => {
            let new: Vec<String> = faults.into_iter().filter(|fault| !flags.faults.contains(fault)).collect();
            flags.faults.extend(new);
        }
    }
    if flags.faults.is_empty() {
        flags.faults.extend(config.faults());
    }
    if !flags.faults.is_empty() {
        return Err(Failure::Usage(flags.faults));
    }
    let known = known(matches, &workload, &mode, &config);
    let notes = flags.notes;
    Ok(LoadRun { job: Job { known, config, mode, objectives, assertions, sources: Vec::new() }, workload, notes })
}

/// Returns the workload of the file, or the default one, with the flags applied.
fn workload(flags: &mut Flags<'_>) -> Result<Workload, Failure> {
    let lines = |faults: Vec<WorkloadFault>| faults.iter().map(ToString::to_string).collect();
    let mut workload = match (flags.text("workload"), flags.text("preset")) {
        (Some(path), _) if path.ends_with(".json") => recipe::workload(Path::new(path))?,
        (Some(path), _) => Workload::read_file(Path::new(path)).map_err(|faults| Failure::Failed(lines(faults)))?,
        (None, Some(name)) => presets::preset(name).map_err(|faults| Failure::Usage(lines(faults)))?,
        (None, None) => plain(),
    };
    let targets: Vec<model::Target> = flags
        .matches
        .get_many::<String>("target")
        .into_iter()
        .flatten()
        .map(|address| model::Target { address: address.clone(), weight: 1 })
        .collect();
    if !targets.is_empty() {
        workload.targets = targets;
    }
    let protocols = Protocol::NAMES;
    if let Some(protocol) = flags.read("protocol", |text| {
        let known = protocols.iter().find(|(name, _)| *name == text).map(|(_, protocol)| *protocol);
        known.ok_or_else(|| format!("{text:?} is not a protocol; write memcache, meta, resp, resp3 or grpc"))
    }) {
        workload.protocol = protocol;
    }
    if let Some(placement) = flags.read("placement", |text| {
        let known = Placement::NAMES.iter().find(|(name, _)| *name == text).map(|(_, placement)| *placement);
        known.ok_or_else(|| format!("{text:?} is not a placement; write any, ketama or slots"))
    }) {
        workload.placement = placement;
    }
    auth(flags, &mut workload);
    if let Some(cache) = flags.text("cache") {
        workload.cache = cache.to_owned();
    }
    workload.timeout = flags.time_span("timeout").unwrap_or(workload.timeout);
    workload.connections = flags.whole("connections").unwrap_or(workload.connections);
    reached(flags, &mut workload);
    workload.depth = flags.whole("depth").unwrap_or(workload.depth);
    if let Some(batch) = flags.whole("batch") {
        // If the user did not set the depth, it is at least the size of a batch.
        let follows = workload.depth != 0 && flags.text("depth").is_none();
        workload.depth = if follows { workload.depth.max(batch) } else { workload.depth };
        workload.batch = batch;
    }
    workload.seed = flags.whole("seed").unwrap_or(workload.seed);
    workload.prefill &= !flags.matches.get_flag("no-prefill");
    workload.fill_on_miss |= flags.matches.get_flag("fill-on-miss");
    workload.verify |= flags.matches.get_flag("verify");
    if workload.graph.is_some() {
        no_keys(flags);
    } else {
        keys(flags, &mut workload);
    }
    graph(flags, &mut workload);
    if let Some(tls) = &mut workload.tls {
        tls.http2 = workload.protocol == Protocol::Grpc;
    }
    Ok(workload)
}

/// Reads user and password.
pub fn auth(flags: &mut Flags<'_>, workload: &mut Workload) {
    let user = flags.text("user").map(str::to_owned);
    let password = flags.read("password-env", |variable| {
        std::env::var(variable)
            .map_err(|_| format!("the environment variable {variable} is not set; set it before the command"))
    });
    if user.is_some() || password.is_some() {
        let known = workload.auth.take();
        let (known_user, known_password) = known.map(|auth| (auth.user, auth.password)).unwrap_or_default();
        workload.auth = Some(Auth { user: user.unwrap_or(known_user), password: password.unwrap_or(known_password) });
    }
}

/// Reads the flags for threads and their CPUs, for reconnects and for TLS.
pub fn reached(flags: &mut Flags<'_>, workload: &mut Workload) {
    pins(flags, workload);
    workload.threads = flags.whole("threads").unwrap_or(workload.threads);
    if let Some(rate) = flags.parsed::<Rate>("reconnect") {
        workload.reconnect_per_s = rate.per_s();
    }
    workload.storm_every = flags.time_span("storm").or(workload.storm_every);
    tls(flags, &mut workload.tls);
}

/// Reads the TLS flags. Any of them enables TLS. Each overrides a setting of `known`, the TLS settings of the workload.
fn tls(flags: &mut Flags<'_>, known: &mut Option<Tls>) {
    const TEXTS: [&str; 5] = ["tls-ca", "tls-cert", "tls-key", "tls-server-name", "tls-versions"];
    const SWITCHES: [&str; 3] = ["tls", "tls-insecure", "tls-no-resume"];
    // Not every subcommand with TLS has the flag that only enables it.
    let is_set = |name: &&str| flags.matches.try_get_one::<bool>(name).ok().flatten() == Some(&true);
    let wanted = TEXTS.iter().any(|name| flags.text(name).is_some()) || SWITCHES.iter().any(is_set);
    if !wanted {
        return;
    }
    let versions = flags.parsed("tls-versions");
    let file = |name: &str| flags.text(name).map(PathBuf::from);
    let settings = known.get_or_insert_default();
    settings.ca = file("tls-ca").or(settings.ca.take());
    if let Some(certificate) = file("tls-cert") {
        // The key in the workload file belongs to the certificate in that file.
        (settings.certificate, settings.key) = (Some(certificate), None);
    }
    settings.key = file("tls-key").or(settings.key.take());
    settings.server_name = flags.text("tls-server-name").map(str::to_owned).or(settings.server_name.take());
    settings.versions = versions.unwrap_or(settings.versions);
    settings.resume &= !flags.matches.get_flag("tls-no-resume");
    settings.insecure |= flags.matches.get_flag("tls-insecure");
}

/// Applies the TLS flags to `known`.
pub fn tls_flags(matches: &ArgMatches, known: &mut Option<Tls>) -> Result<(), Vec<String>> {
    let mut flags = Flags { matches, faults: Vec::new(), notes: Vec::new() };
    tls(&mut flags, known);
    if flags.faults.is_empty() { Ok(()) } else { Err(flags.faults) }
}

/// Reads the TLS material of `settings`; reports every error with its remedy.
pub fn secured(settings: Option<&Tls>) -> Result<Option<TlsClient>, Vec<String>> {
    let client = settings.map(TlsClient::new).transpose();
    client.map_err(|errors| errors.into_iter().map(|error| WorkloadFault::from(error).to_string()).collect())
}

/// Returns the TLS of connections to `address`, if a flag requests it.
///
/// # Errors
/// A usage error for each wrong flag and file.
pub fn tls_maker(matches: &ArgMatches, address: &str) -> Result<Option<Maker>, Failure> {
    let mut settings = None;
    tls_flags(matches, &mut settings).map_err(Failure::Usage)?;
    let client = secured(settings.as_ref()).map_err(Failure::Usage)?;
    Ok(client.map(|client| client.maker(&[Address::Tcp(address.to_owned())], 1)))
}

/// Reads `--pin`. Without `--threads`, there is a thread for each CPU in the list. If the sampler has no separate CPU,
/// a CPU of the list is reserved for it.
fn pins(flags: &mut Flags<'_>, workload: &mut Workload) {
    let text = |name: &str| flags.matches.try_get_one::<String>(name).ok().flatten();
    let for_sampler =
        usize::from((text("sampler").or(text("graph-writes"))).is_some() && text("sampler-cpu").is_none());
    let wanted = doctor::Wanted {
        purpose: doctor::plan::Purpose::Generator,
        workers: text("threads").and_then(|threads| threads.parse().ok()),
        sampler: for_sampler == 1,
        ..doctor::Wanted::default()
    };
    let note = std::cell::Cell::new(None);
    let pin = flags.read("pin", |text| match text {
        "auto" => crate::doctor::plan::pins(&crate::doctor::plan::for_this_process(&wanted)?).or_else(|why| {
            note.set(Some(format!("--pin auto pins no CPUs: {why}")));
            Ok(Vec::new())
        }),
        list => io::affinity::read_cpus(list).map_err(|refused| refused.to_string()),
    });
    flags.notes.extend(note.take());
    let Some(pin) = pin.filter(|pin| !pin.is_empty()) else { return };
    workload.threads = pin.len().saturating_sub(for_sampler).max(1) as u32;
    workload.pin = pin;
}

/// Returns the workload of a run without a file.
fn plain() -> Workload {
    let mut workload = Workload { name: "plain".to_owned(), connections: 50, prefill: true, ..Workload::default() };
    workload.keys[0].count = 100_000;
    workload.keys[0].verbs = vec![KeyCommand::weighted(Verb::Get, 0.9), KeyCommand::weighted(Verb::Set, 0.1)];
    // 0 means that no depth is set yet; the default is chosen when the pace is known.
    workload.depth = 0;
    workload
}

/// Reads the flags that describe keys and values; they apply to every key space.
fn keys(flags: &mut Flags<'_>, workload: &mut Workload) {
    let count = flags.whole::<u64>("keys");
    let (key_bytes, value_bytes) = (flags.size("key-bytes"), flags.size("value-bytes"));
    let reads = flags.percent("reads");
    let zipf = flags.read("zipf", |text| {
        let exponent = text.parse::<f64>().ok().filter(|exponent| exponent.is_finite() && *exponent >= 0.0);
        exponent.ok_or_else(|| format!("{text:?} is not an exponent; write a number of at least 0, as in 0.99"))
    });
    for space in &mut workload.keys {
        space.count = count.unwrap_or(space.count);
        space.key_bytes = key_bytes.map_or_else(|| space.key_bytes.clone(), Sizes::Fixed);
        space.value_bytes = value_bytes.map_or_else(|| space.value_bytes.clone(), Sizes::Fixed);
        if let Some(exponent) = zipf {
            space.order = Order::Zipf { exponent };
        }
        if let Some(reads) = reads {
            let both = [(Verb::Get, reads), (Verb::Set, 1.0 - reads)];
            let used = both.into_iter().filter(|(_, weight)| *weight > 0.0);
            space.verbs = used.map(|(verb, weight)| KeyCommand::weighted(verb, weight)).collect();
        }
    }
}

/// Reports flags that describe keys.
fn no_keys(flags: &mut Flags<'_>) {
    for name in ["keys", "key-bytes", "value-bytes", "reads", "zipf"] {
        if flags.text(name).is_some() {
            flags.fault(name, "the workload is that of a graph, which has no keys; remove the flag");
        }
    }
}

/// Reads the flags that describe a graph.
fn graph(flags: &mut Flags<'_>, workload: &mut Workload) {
    let scale = flags.whole("graph-scale");
    let file = flags.read("graph-edges", |path| EdgeFile::read(Path::new(path)));
    let endpoints = flags.read("graph-endpoints", |text| {
        let known = Endpoints::NAMES.iter().find(|(name, _)| *name == text).map(|(_, endpoints)| *endpoints);
        known.ok_or_else(|| format!("{text:?} is not a kind of endpoints; write degree or uniform"))
    });
    let writes = flags.parsed::<Rate>("graph-writes");
    let Some(load) = &mut workload.graph else {
        for name in ["graph-scale", "graph-edges", "graph-endpoints", "graph-writes"] {
            if flags.text(name).is_some() {
                flags.fault(name, "the workload has no graph; pass --preset graphdb, or a file with [graph]");
            }
        }
        return;
    };
    if let Some(new) = scale {
        let edges_per_node = match load.origin {
            EdgeOrigin::Rmat { edges_per_node, .. } => edges_per_node,
            EdgeOrigin::File(_) => 16,
        };
        load.origin = EdgeOrigin::Rmat { scale: new, edges_per_node };
    }
    if let Some(file) = file {
        load.origin = EdgeOrigin::File(file);
    }
    load.endpoints = endpoints.unwrap_or(load.endpoints);
    load.writes_per_s = writes.map_or(load.writes_per_s, Rate::per_s);
}

fn mode(flags: &mut Flags<'_>, workload: &Workload, objectives: &[Condition]) -> Mode {
    let rate = flags.parsed::<Rate>("rate");
    if flags.matches.get_flag("closed") {
        return Mode::Closed;
    }
    let is_trace = matches!(&workload.pace, Pace::Open { arrivals: model::Arrivals::Trace { .. }, .. });
    if is_trace && flags.text("arrivals").is_none_or(|kind| kind.starts_with("trace:")) {
        if rate.is_some() {
            flags.fault("rate", "a trace determines when requests are due; remove the rate, or pass --speed 2");
        }
        return Mode::Traced;
    }
    if let Some(rate) = rate {
        return Mode::AtRate(rate);
    }
    if let Some(rates) = flags.read("rates", |text| text.split(',').map(str::parse).collect::<Result<Vec<Rate>, _>>()) {
        let each = flags.span("trial").unwrap_or(SearchSettings::default().trial);
        return Mode::Steps(Stepped { rates, each });
    }
    if !objectives.is_empty() {
        return Mode::Search(settings(flags, objectives));
    }
    match (&workload.pace, flags.text("workload").or(flags.text("preset")).is_some()) {
        (Pace::Open { rate_per_s, .. }, _) => Mode::AtRate(Rate::new(*rate_per_s)),
        (Pace::Closed, true) => Mode::Closed,
        (Pace::Closed, false) => {
            flags
                .faults
                .push("select a mode: --slo p999=2ms to search, --rate 50k for one rate, or --closed".to_owned());
            Mode::Closed
        }
    }
}

fn settings(flags: &mut Flags<'_>, objectives: &[Condition]) -> SearchSettings {
    let usual = SearchSettings::default();
    let settings = SearchSettings {
        objectives: objectives.to_vec(),
        start: flags.parsed("start").unwrap_or(usual.start),
        step: flags.parsed("step"),
        rate_max: flags.parsed("rate-max").unwrap_or(Rate::new(RATE_MAX)),
        trial: flags.span("trial").unwrap_or(usual.trial),
        warm_up: flags.span("warm-up").unwrap_or(usual.warm_up),
        tolerance: flags.percent("tolerance").unwrap_or(usual.tolerance),
        confirmations: flags.whole("confirm").unwrap_or(usual.confirmations),
        throughput_min: flags.percent("throughput-min").unwrap_or(usual.throughput_min),
        ..usual
    };
    if settings.tolerance < 0.001 {
        flags.fault("tolerance", "the bracket cannot be narrower than 0.1 %; write 1%");
    }
    if !(1..=20).contains(&settings.confirmations) {
        flags.fault("confirm", "write 1 to 20 trials; 5 give an interval of 94 %");
    }
    if settings.trial < Duration::from_millis(100) {
        flags.fault("trial", "a trial must be at least 100ms long");
    }
    if settings.start > settings.rate_max {
        flags.fault("start", "it is above --rate-max; start with a lower rate");
    }
    settings
}

fn config(flags: &mut Flags<'_>, workload: &Workload, mode: &Mode) -> Config {
    let arrivals = flags.text("arrivals").map(str::to_owned);
    let speed = speed(flags);
    let plan = plan::plan(&workload.pace, arrivals.as_deref(), speed);
    let plan = plan.unwrap_or_else(|wrong| {
        flags.fault("arrivals", wrong);
        SendPlan::poisson()
    });
    let nanos = |span: Duration| span.as_nanos() as u64;
    let duration_ns = flags.span("duration").map_or(Config::default().duration_ns, nanos);
    let usual = config_of(workload, mode, plan, duration_ns);
    let requests_max = flags.whole("requests");
    if requests_max == Some(0) {
        flags.fault("requests", "a run without requests measures nothing; write 1 or more");
    }
    Config {
        // If the number of requests is limited, the last reply could arrive before a warm-up ends. So such a run has no
        // warm-up by default.
        warm_up_ns: flags.span("warm-up").map_or(if requests_max.is_some() { 0 } else { 1_000_000_000 }, nanos),
        requests_max,
        connect_timeout_ns: flags.span("connect-timeout").map_or(usual.connect_timeout_ns, nanos),
        wait: if flags.matches.get_flag("poll") { Wait::Poll } else { Wait::Sleep },
        sampler: sampler(flags, &usual, workload),
        ..usual
    }
}

/// Returns the speed of a trace relative to its recording.
pub fn speed(flags: &mut Flags<'_>) -> Option<f64> {
    flags.read("speed", |text| {
        let speed = text.parse::<f64>().ok().filter(|speed| (1e-6..=1e6).contains(speed));
        speed.ok_or_else(|| format!("{text:?} is not a speed; write a number above 0, as in 2 for twice as fast"))
    })
}

/// Returns the configuration of a workload, for `duration_ns` nanoseconds without a warm-up.
pub fn config_of(workload: &Workload, mode: &Mode, plan: SendPlan, duration_ns: u64) -> Config {
    let usual = Config::default();
    let load = match (matches!(mode, Mode::Closed), workload.blind) {
        (true, true) => Load::Blind(None),
        (true, false) => Load::Closed,
        (false, true) => Load::Blind(Some(plan)),
        (false, false) => Load::Open(plan),
    };
    Config {
        targets: workload.targets.iter().filter_map(|target| target.address.parse().ok()).collect(),
        routed: workload.placement != model::Placement::Any,
        threads: workload.threads as usize,
        cpus: workload.pin.clone(),
        connections: workload.connections as usize,
        depth: workload.depth as usize,
        batch: workload.batch as usize,
        timeout_ns: workload.timeout.as_ns(),
        load,
        seed: workload.seed,
        duration_ns,
        slice_ns: (duration_ns / 10).clamp(20_000_000, 1_000_000_000),
        reconnect: load::engine::Reconnect {
            per_s: workload.reconnect_per_s,
            storm_every_ns: workload.storm_every.map_or(0, |every| every.as_ns()),
            ..usual.reconnect
        },
        ..usual
    }
}

/// Reads the second stream: the sampler, or the writes of a graph. By default, it uses the CPU that follows the load
/// threads' CPUs in the list.
fn sampler(flags: &mut Flags<'_>, bulk: &Config, workload: &Workload) -> Option<Sampler> {
    let writes_per_s = workload.graph.as_ref().map_or(0.0, GraphLoad::write_requests_per_s);
    let rate = if writes_per_s > 0.0 {
        if flags.text("sampler").is_some() {
            flags.fault("sampler", "the second stream writes the graph's edges; remove it, or the writes");
        }
        Rate::new(writes_per_s)
    } else {
        flags.parsed::<Rate>("sampler")?
    };
    let target = flags.parsed("sampler-target").or_else(|| bulk.targets.first().cloned())?;
    let cpu = flags.whole("sampler-cpu").or_else(|| bulk.cpus.get(bulk.threads).copied());
    Some(Sampler { target, connections: 1, rate_per_s: rate.per_s(), cpu })
}

/// Describes the CPUs of the threads.
fn pinned(config: &Config) -> String {
    let bulk = match config.cpus.get(..config.threads) {
        Some(cpus) if !cpus.is_empty() => io::affinity::show_cpus(cpus),
        _ => "no".to_owned(),
    };
    match config.sampler.as_ref().and_then(|sampler| sampler.cpu) {
        Some(cpu) => format!("{bulk}; sampler: {cpu}"),
        None => bulk,
    }
}

/// Returns the parts of the result that are known before the run.
pub fn known(matches: &ArgMatches, workload: &Workload, mode: &Mode, config: &Config) -> RunResult {
    let first = workload.targets.first().map_or("?", |target| target.address.as_str());
    let name = matches.get_one::<String>("name").map_or(first, String::as_str);
    let mut known = RunResult::new(name);
    known.arguments = std::env::args().collect();
    known.machine = Machine::here();
    known.arrivals = match mode {
        Mode::Closed => Arrivals::Closed { depth: config.depth as u64 },
        Mode::AtRate(rate) => Arrivals::Open { schedule: plan::words(&config.load), rate_per_s: Some(rate.per_s()) },
        Mode::Search(_) | Mode::Steps(_) | Mode::Traced => {
            Arrivals::Open { schedule: plan::words(&config.load), rate_per_s: None }
        }
    };
    known.workload = Some(recipe::in_force(workload, mode, config).to_toml(Password::LeftOut));
    known.again = recipe::flags(matches, mode, config);
    let settings = [
        ("connections", config.connections.to_string()),
        ("threads", config.threads.to_string()),
        ("pinned to CPUs", pinned(config)),
        ("in flight per connection at most", config.depth.to_string()),
        ("sent together", config.batch.to_string()),
        ("seed", config.seed.to_string()),
        ("workload", workload.name.clone()),
    ];
    let writes = workload.graph.iter().filter(|graph| graph.writes_per_s > 0.0);
    let writes = writes.map(|graph| (EDGE_WRITES, graph.writes_per_s.to_string()));
    known.configuration = settings.into_iter().chain(writes).map(|(name, value)| (name.to_owned(), value)).collect();
    known
}
