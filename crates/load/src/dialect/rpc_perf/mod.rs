//! rpc-perf's TOML files, in version 5 and in the older form.
//!
//! | version 5 | older | here |
//! |---|---|---|
//! | `[general] protocol`, `interval`, `duration` | `protocol`, `interval`, `windows`, `service` | protocol, duration |
//! | `[general] admin` | `admin` | address of the generator's admin port |
//! | `[target] endpoints` | the same | targets; every target receives requests for every key |
//! | `[client] threads`, `poolsize`, `concurrency` | `threads`, `[connection] poolsize` a thread | connections, depth |
//! | `[workload.ratelimit] start`, `end`, `step` | `[request] ratelimit` | rate, steps of the rate |
//! | `[[workload.keyspace]]` | `[[keyspace]]` | key spaces |
//!
//! Without a rate the run is a closed loop: a reply triggers the next request. In rpc-perf a rate limits the sending.
//! Here a rate sets the instant at which each request is due, and response times count from that instant.

mod keyspace;

use std::path::Path;

use base::units::TimeSpan;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Mapped, Run, Steps, Then, address, renamed};
use crate::workload::fault::{FaultPlace, WorkloadFault};
use crate::workload::file::reader::{DocumentReader, Section};
use crate::workload::file::text_of;
use crate::workload::model::{Arrivals, Pace, Protocol, Target, Workload};

/// Largest size of a file in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Names of rpc-perf's protocols, with the equivalent protocol.
const PROTOCOLS: [(&str, Option<Protocol>); 18] = [
    ("memcache", Some(Protocol::Memcache)),
    ("memcached", Some(Protocol::Memcache)),
    ("resp", Some(Protocol::Resp)),
    ("redis", Some(Protocol::Resp)),
    ("ping", Some(Protocol::Ping)),
    ("ascii", Some(Protocol::Ping)),
    ("echo", None),
    ("http1", None),
    ("http2", None),
    ("kafka", None),
    ("momento", None),
    ("momento_http", None),
    ("momento_protosocket", None),
    ("blabber", None),
    ("grpc", None),
    ("mysql", None),
    ("s3", None),
    ("thrift-cache", None),
];

/// Reads the file at `path`, of either form.
///
/// # Errors
/// All faults, in the order of lines.
pub fn read_file(path: &Path) -> Result<Mapped, Vec<WorkloadFault>> {
    let text = text_of(path, FILE_BYTES_MAX).map_err(|(what, remedy)| {
        vec![WorkloadFault::new("", what, remedy).at(FaultPlace::File { path: path.to_owned(), line: 1 })]
    })?;
    read_text(path, &text)
}

/// Parses `text`, the content of the file at `path`.
///
/// # Errors
/// As [`read_file`].
pub fn read_text(path: &Path, text: &str) -> Result<Mapped, Vec<WorkloadFault>> {
    let mut reader = DocumentReader::new(path, text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        reader.syntax(error);
    }
    let mut root = Section::new("", document.get_ref());
    let older = ["keyspace", "request", "connection"].into_iter().any(|key| root.has(key));
    let mut mapped = Mapped {
        workload: Workload {
            name: "rpc-perf".into(),
            about: "a configuration file of rpc-perf".into(),
            keys: Vec::new(),
            ..Workload::default()
        },
        run: Run::default(),
        notes: Vec::new(),
    };
    let general = general(&mut reader, &mut root, &mut mapped);
    targets(&mut reader, &mut root, &mut mapped.workload);
    if older {
        connection(&mut reader, &mut root, &mut mapped.workload, general.threads);
        request(&mut reader, &mut root, &mut mapped);
        keyspace::older(&mut reader, &mut root, &mut mapped);
    } else {
        client(&mut reader, &mut root, &mut mapped, &general);
        workload(&mut reader, &mut root, &mut mapped);
    }
    tls(&mut reader, &mut root, &mut mapped);
    unread(&mut root, &mut mapped.notes);
    reader.end(root);
    if !reader.has_faults()
        && let Err(faults) = mapped.workload.validate()
    {
        // Maps fields of a workload to the places in the file that they come from.
        reader.located(renamed_in(faults, older));
    }
    let faults = reader.into_faults();
    if faults.is_empty() { Ok(mapped) } else { Err(faults) }
}

/// Renames the fields of a workload in `faults` to the names in the file.
fn renamed_in(faults: Vec<WorkloadFault>, older: bool) -> Vec<WorkloadFault> {
    const CURRENT: [(&str, &str); 4] =
        [(".key_bytes", ".klen"), (".count", ".nkeys"), (".value_bytes", ".vlen"), (".verbs", ".commands")];
    const OLDER: [(&str, &str); 4] =
        [(".key_bytes", ".length"), (".count", ".cardinality"), (".value_bytes", ".values"), (".verbs", ".commands")];
    let (keyspace, fields) = if older { ("keyspace", OLDER) } else { ("workload.keyspace", CURRENT) };
    let in_keyspace =
        |rest: &str| fields.iter().fold(rest.to_owned(), |name, (ours, theirs)| name.replace(ours, theirs));
    let faults = faults.into_iter().map(|fault| match fault.name.strip_prefix("keys") {
        Some(rest) => WorkloadFault { name: format!("{keyspace}{}", in_keyspace(rest)), ..fault },
        None => fault,
    });
    let connections = if older { "connection" } else { "client" };
    let pace = if older { "request.ratelimit" } else { "workload.ratelimit" };
    let names = [
        ("targets.tls.certificate", "tls.certificate"),
        ("targets.tls.key", "tls.private_key"),
        ("targets.tls", "tls"),
        ("connections", connections),
        ("pace", pace),
        ("targets", "target.endpoints"),
    ];
    renamed(faults.collect(), &names)
}

/// Parses a number, with or without quotes.
fn loose_number(value: &Spanned<DeValue<'_>>) -> Option<f64> {
    let text = match value.get_ref() {
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok()?.to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::String(text) => text.replace('_', ""),
        _ => return None,
    };
    text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
}

/// Reads a rate per second, with or without quotes.
fn rate<'t>(reader: &mut DocumentReader<'t>, section: &mut Section<'_, 't>, key: &'static str) -> Option<f64> {
    let value = reader.value(section, key)?;
    let number = loose_number(value);
    if number.is_none() {
        reader.misshapen(
            &section.field(key),
            value,
            "requests per second",
            "write a number of at least 0, as in 10_000",
        );
    }
    number
}

/// Reads a duration: a string with its unit, or a number in units of `unit_ns` nanoseconds.
fn span<'t>(
    reader: &mut DocumentReader<'t>,
    section: &mut Section<'_, 't>,
    key: &'static str,
    unit_ns: u64,
) -> Option<TimeSpan> {
    let value = reader.value(section, key)?;
    if let DeValue::String(text) = value.get_ref()
        && let Ok(span) = text.parse()
    {
        return Some(span);
    }
    match loose_number(value) {
        Some(number) => Some(TimeSpan((number * unit_ns as f64) as u64)),
        None => {
            reader.misshapen(&section.field(key), value, "a duration", "write a number, or a duration such as \"15m\"");
            None
        }
    }
}

const SECOND_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;

/// The settings of `[general]` that are not part of the run.
#[derive(Default)]
struct General {
    /// Number of threads, in the older form.
    threads: u32,
}

fn general<'t>(reader: &mut DocumentReader<'t>, root: &mut Section<'_, 't>, mapped: &mut Mapped) -> General {
    let mut general = General { threads: 1 };
    let Some(mut section) = reader.table(root, "general") else {
        let remedy = "write [general] and protocol = \"memcache\" below it";
        reader.fault(0, "general", "the section [general] is missing", remedy);
        return general;
    };
    let run = &mut mapped.run;
    match reader.word(&mut section, "protocol", &PROTOCOLS) {
        Some(Some(protocol)) => mapped.workload.protocol = protocol,
        Some(None) => {
            let value = reader.value(&mut section, "protocol").map_or(0, |value| value.span().start);
            reader.fault(value, "general.protocol", "this protocol is not supported", "write memcache, resp or ping");
        }
        None => {}
    }
    run.interval = span(reader, &mut section, "interval", SECOND_NS);
    run.duration = span(reader, &mut section, "duration", SECOND_NS);
    if let Some(windows) = reader.count(&mut section, "windows") {
        let interval = run.interval.unwrap_or(TimeSpan::secs(60));
        run.duration = Some(TimeSpan(interval.0.saturating_mul(windows)));
    }
    if reader.switch(&mut section, "service") == Some(true) {
        run.duration = None;
    }
    general.threads = reader.small(&mut section, "threads").unwrap_or(1);
    run.admin = reader.text(&mut section, "admin");
    for key in ["metrics_output", "metrics_format", "metrics_interval", "output_format"] {
        if section.has(key) {
            mapped.notes.push(format!("general.{key} has no effect: pass --json and --report to write results"));
        }
    }
    if let Some(value) = reader.value(&mut section, "initial_seed") {
        match loose_number(value) {
            Some(seed) => mapped.workload.seed = seed as u64,
            None => mapped.notes.push("general.initial_seed is not a number; the seed is 1".to_owned()),
        }
    }
    reader.end(section);
    general
}

fn targets<'t>(reader: &mut DocumentReader<'t>, root: &mut Section<'_, 't>, workload: &mut Workload) {
    let remedy = "write endpoints = [\"127.0.0.1:11211\"]";
    let Some(mut section) = reader.table(root, "target") else {
        reader.fault(0, "target", "the file names no server", "write [target] and endpoints = [\"127.0.0.1:11211\"]");
        return;
    };
    let port = if workload.protocol == Protocol::Resp { 6379 } else { 11211 };
    for (path, value) in reader.list(&mut section, "endpoints", remedy).unwrap_or_default() {
        let DeValue::String(text) = value.get_ref() else {
            reader.misshapen(&path, value, "an address", "write it in double quotes");
            continue;
        };
        let endpoint = match (text.strip_prefix("unix://"), text.strip_prefix("redis://")) {
            (Some(path), _) => format!("unix:{path}"),
            (_, Some(host)) => address(host.trim_end_matches('/'), port),
            _ => address(text, port),
        };
        workload.targets.push(Target { address: endpoint, weight: 1 });
    }
    if workload.targets.is_empty() && !reader.has_faults() {
        reader.located(vec![WorkloadFault::new("target", "the file names no server", remedy)]);
    }
    reader.end(section);
}

/// Reads `[connection]` of the older form: each thread has a pool for each endpoint.
fn connection<'t>(reader: &mut DocumentReader<'t>, root: &mut Section<'_, 't>, workload: &mut Workload, threads: u32) {
    let mut pool = 1;
    if let Some(mut section) = reader.table(root, "connection") {
        pool = reader.small(&mut section, "poolsize").unwrap_or(1);
        workload.reconnect_per_s = rate(reader, &mut section, "reconnect").unwrap_or(0.0);
        reader.end(section);
    }
    let endpoints = u32::try_from(workload.targets.len().max(1)).unwrap_or(u32::MAX);
    workload.connections = pool.saturating_mul(threads).saturating_mul(endpoints);
    workload.threads = threads;
}

/// Reads `[request]` of the older form.
fn request<'t>(reader: &mut DocumentReader<'t>, root: &mut Section<'_, 't>, mapped: &mut Mapped) {
    let Some(mut section) = reader.table(root, "request") else { return };
    open(&mut mapped.workload, rate(reader, &mut section, "ratelimit"));
    mapped.run.timeout = span(reader, &mut section, "timeout", MILLISECOND_NS);
    reader.end(section);
}

fn open(workload: &mut Workload, rate: Option<f64>) {
    if let Some(rate_per_s) = rate.filter(|rate| *rate > 0.0) {
        workload.pace = Pace::Open { rate_per_s, arrivals: Arrivals::Constant };
    }
}

/// Reads `[client]` of version 5: the whole run has one pool for each endpoint.
fn client<'t>(reader: &mut DocumentReader<'t>, root: &mut Section<'_, 't>, mapped: &mut Mapped, general: &General) {
    let workload = &mut mapped.workload;
    let endpoints = u32::try_from(workload.targets.len().max(1)).unwrap_or(u32::MAX);
    let (mut threads, mut pool) = (general.threads, 1);
    if let Some(mut section) = reader.table(root, "client") {
        threads = reader.small(&mut section, "threads").unwrap_or(threads);
        pool = reader.small(&mut section, "poolsize").unwrap_or(1);
        workload.depth = reader.small(&mut section, "concurrency").unwrap_or(1);
        mapped.run.connect_timeout = span(reader, &mut section, "connect_timeout", MILLISECOND_NS);
        mapped.run.timeout = span(reader, &mut section, "request_timeout", MILLISECOND_NS);
        open(workload, rate(reader, &mut section, "request_ratelimit"));
        workload.reconnect_per_s = rate(reader, &mut section, "reconnect_rate").unwrap_or(0.0);
        for key in ["read_buffer_size", "write_buffer_size"] {
            if section.has(key) {
                mapped.notes.push(format!("client.{key} has no effect: buffers grow with the data in flight"));
            }
        }
        reader.end(section);
    }
    workload.connections = pool.saturating_mul(endpoints);
    if threads > workload.connections && workload.connections > 0 {
        mapped.notes.push(format!(
            "{threads} threads for {} connections: each thread needs at least one",
            workload.connections
        ));
    }
    workload.threads = threads.min(workload.connections.max(1));
}

/// Reads `[workload]` of version 5.
fn workload<'t>(reader: &mut DocumentReader<'t>, root: &mut Section<'_, 't>, mapped: &mut Mapped) {
    let Some(mut section) = reader.table(root, "workload") else {
        reader.fault(0, "workload", "the file describes no requests", "write [[workload.keyspace]] with commands");
        return;
    };
    // `threads` has no effect here, because each sending thread also draws its requests.
    section.has("threads");
    if section.has("ratelimit") {
        ratelimit(reader, &mut section, mapped);
    }
    keyspace::all(reader, &mut section, mapped);
    for key in ["topics", "leaderboard", "store", "oltp"] {
        if let Some(value) = reader.value(&mut section, key) {
            let name = section.field(key);
            reader.fault(value.span().start, &name, "this workload is not supported", "write [[workload.keyspace]]");
        }
    }
    reader.end(section);
}

const ORDERS: [(&str, bool); 2] = [("linear", false), ("shuffled", true)];
const ENDS: [(&str, Then); 3] = [("stable", Then::Stable), ("loop", Then::Loop), ("mirror", Then::Mirror)];

fn ratelimit<'t>(reader: &mut DocumentReader<'t>, section: &mut Section<'_, 't>, mapped: &mut Mapped) {
    let Some(mut section) = reader.table(section, "ratelimit") else { return };
    let start = rate(reader, &mut section, "start");
    open(&mut mapped.workload, start);
    let end = rate(reader, &mut section, "end");
    let step = rate(reader, &mut section, "step");
    let each = span(reader, &mut section, "interval", SECOND_NS);
    let shuffled = reader.word(&mut section, "ramp", &ORDERS).unwrap_or(false);
    let then = reader.word(&mut section, "on_ramp_completion", &ENDS).unwrap_or_default();
    match (start, end, step, each) {
        (Some(from_per_s), Some(to_per_s), Some(by_per_s), Some(each)) if by_per_s > 0.0 && each.0 > 0 => {
            mapped.run.steps = Some(Steps { from_per_s, to_per_s, by_per_s, each, shuffled, then });
        }
        (_, None, None, _) => {}
        _ => {
            let remedy = "write start, end, step and interval, each above 0";
            let name = section.path.clone();
            reader.located(vec![WorkloadFault::new(name, "the steps of the rate are incomplete", remedy)]);
        }
    }
    reader.end(section);
}

/// Reads `[tls]`. The section secures the connections even if it is empty. Paths are relative to the working directory.
fn tls<'t>(reader: &mut DocumentReader<'t>, root: &mut Section<'_, 't>, mapped: &mut Mapped) {
    let Some(mut section) = reader.table(root, "tls") else { return };
    let mut file = |reader: &mut DocumentReader<'t>, key| reader.text(&mut section, key).map(std::path::PathBuf::from);
    let ca = file(reader, "ca_file");
    let (certificate, chain) = (file(reader, "certificate"), file(reader, "certificate_chain"));
    let key = file(reader, "private_key");
    let mut refused = |key: &'static str, is_wanted: bool, what: &str, remedy: &str| {
        if reader.switch(&mut section, key) == Some(!is_wanted) {
            reader.located(vec![WorkloadFault::new(format!("tls.{key}"), what, remedy)]);
        }
    };
    let remedy = "remove it; pass --tls-server-name for another name, or --tls-insecure to accept any certificate";
    refused("verify_hostname", true, "the server's name is always verified", remedy);
    refused("use_sni", true, "the server's name is always sent", "remove the setting");
    if certificate.is_some() && chain.is_some() {
        let remedy = "write both into one file, the client's certificate first, and name it as certificate_chain";
        reader.located(vec![WorkloadFault::new(
            "tls.certificate",
            "the certificate and its chain must be in one file",
            remedy,
        )]);
    }
    reader.end(section);
    let certificate = chain.or(certificate);
    mapped.workload.tls = Some(link::tls::TlsSettings { ca, certificate, key, ..link::tls::TlsSettings::default() });
}

/// Notes the sections that do not affect the requests.
fn unread(root: &mut Section<'_, '_>, notes: &mut Vec<String>) {
    if root.has("debug") {
        notes.push("[debug] has no effect: the log goes to standard error".to_owned());
    }
    if root.has("metrics") {
        notes.push("[metrics] has no effect: pass --json and --report to write results".to_owned());
    }
}

#[cfg(test)]
mod tests;
