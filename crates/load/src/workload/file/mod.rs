//! Parses workload files in TOML. Unknown keys are refused; all faults are reported at once, each with its line and
//! remedy.
//!
//! ```text
//! name, about, protocol, seed, prefill, fill_on_miss, verify
//! [targets]      addresses, weights, placement, tls      [auth]  user, password, password_env, database, cache
//! [connections]  count, threads, pin, depth, batch, reconnect, storm, blind, name
//! [pace]         kind, and its parameters: rate, on, off, to, over, swing, period, file, speed
//! [graph]        name, type, scale, edges_per_node, file, endpoints, queries, targets, page, hops, budget, writes,
//!                write_edges; replaces the keys
//! [[keys]]       weight, count, prefix, key_bytes, order, once, value_bytes, compressible, ttl, fields
//!                verbs = [{ verb, weight, keys, delta, fields, flags, command }, ...]
//! ```
//!
//! Absent fields have their defaults. Sizes, durations, rates and shares must have a unit; a bare number is refused.

pub(super) mod distribution;
mod graph;
pub(crate) mod reader;
mod shapes;
#[cfg(test)]
mod tests;
mod write;

pub use write::{PASSWORD_VARIABLE, Password};

use std::io::Read as _;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::fault::{FaultPlace, WorkloadFault};
use super::model::{Arrivals, Auth, KeyCommand, KeySpace, Pace, Placement, Protocol, Target, Verb, Workload};
use link::tls;
use reader::{DocumentReader, Section, put};

/// Largest size of a workload file in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

impl Workload {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// All faults of the file and of its workload, in the order of lines.
    pub fn read_file(path: &Path) -> Result<Self, Vec<WorkloadFault>> {
        let text = text_of(path, FILE_BYTES_MAX).map_err(|(what, remedy)| {
            vec![WorkloadFault::new("", what, remedy).at(FaultPlace::File { path: path.to_owned(), line: 1 })]
        })?;
        Self::read_text(path, &text)
    }

    /// Parses `text`, the content of the file at `path`. Relative paths in it start at the file's directory.
    ///
    /// # Errors
    /// As for [`Workload::read_file`].
    pub fn read_text(path: &Path, text: &str) -> Result<Self, Vec<WorkloadFault>> {
        let mut reader = DocumentReader::new(path, text);
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            reader.syntax(error);
        }
        let mut workload = Self::default();
        root(&mut reader, document.get_ref(), &mut workload);
        if let Err(faults) = workload.validate() {
            // A field that could not be parsed has its default, which may contradict other fields. Such follow-up
            // faults are not reported.
            let unsaid = !reader.has_faults();
            if unsaid {
                reader.located(faults);
            }
        }
        let faults = reader.into_faults();
        if faults.is_empty() { Ok(workload) } else { Err(faults) }
    }
}

/// Returns the text of the file at `path`. The error has a description and a remedy.
pub(crate) fn text_of(path: &Path, bytes_max: u64) -> Result<String, (String, &'static str)> {
    let remedy = "name a file that exists and is readable";
    let file = std::fs::File::open(path).map_err(|error| (format!("cannot open the file ({error})"), remedy))?;
    let mut bytes = Vec::new();
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes);
    read.map_err(|error| (format!("cannot read the file ({error})"), remedy))?;
    if bytes.len() as u64 > bytes_max {
        return Err((format!("the file is larger than {} MiB", bytes_max >> 20), "name a smaller file"));
    }
    String::from_utf8(bytes).map_err(|_| ("the file is not UTF-8 text".to_owned(), "name a text file"))
}

fn root<'t>(reader: &mut DocumentReader<'t>, table: &DeTable<'t>, workload: &mut Workload) {
    let mut root = Section::new("", table);
    put(&mut workload.name, reader.text(&mut root, "name"));
    put(&mut workload.about, reader.text(&mut root, "about"));
    put(&mut workload.protocol, reader.word(&mut root, "protocol", &Protocol::NAMES));
    put(&mut workload.seed, reader.count(&mut root, "seed"));
    put(&mut workload.prefill, reader.switch(&mut root, "prefill"));
    put(&mut workload.fill_on_miss, reader.switch(&mut root, "fill_on_miss"));
    put(&mut workload.verify, reader.switch(&mut root, "verify"));
    if let Some(section) = reader.table(&mut root, "targets") {
        targets(reader, section, workload);
    }
    if let Some(section) = reader.table(&mut root, "auth") {
        auth(reader, section, workload);
    }
    if let Some(section) = reader.table(&mut root, "connections") {
        connections(reader, section, workload);
    }
    if let Some(section) = reader.table(&mut root, "pace") {
        put(&mut workload.pace, pace(reader, section));
    }
    if let Some(section) = reader.table(&mut root, "graph") {
        if root.has("keys") {
            let what = "a workload of a graph has no keys";
            reader.located(vec![WorkloadFault::new("graph", what, "remove [graph], or [[keys]]")]);
        }
        workload.graph = Some(graph::graph(reader, section));
    }
    let spaces = reader.list(&mut root, "keys", "write [[keys]] above each key space");
    for (at, (path, value)) in spaces.iter().flatten().enumerate() {
        if at == 0 {
            workload.keys.clear();
        }
        match value.get_ref().as_table() {
            Some(table) => workload.keys.push(space(reader, Section::new(path.clone(), table), workload.protocol)),
            None => reader.misshapen(path, value, "a table", "write [[keys]] above each key space"),
        }
    }
    if !root.has("keys") && workload.protocol == Protocol::Ping {
        workload.keys = vec![KeySpace { verbs: vec![KeyCommand::new(Verb::Ping)], ..KeySpace::default() }];
    }
    reader.end(root);
}

fn targets<'t>(reader: &mut DocumentReader<'t>, mut section: Section<'_, 't>, workload: &mut Workload) {
    let remedy = "write [\"127.0.0.1:11211\"]";
    for (path, value) in reader.list(&mut section, "addresses", remedy).unwrap_or_default() {
        match value.get_ref() {
            DeValue::String(address) => workload.targets.push(Target { address: address.to_string(), weight: 1 }),
            _ => reader.misshapen(&path, value, "an address", "write it in double quotes, as in \"127.0.0.1:11211\""),
        }
    }
    let weights = reader.list(&mut section, "weights", "write one number per address, as in [1, 2]");
    if let Some(weights) = &weights
        && weights.len() != workload.targets.len()
    {
        let at = weights.first().map_or(0, |(_, value)| value.span().start);
        let what = format!("there are {} weights for {} addresses", weights.len(), workload.targets.len());
        reader.fault(at, &section.field("weights"), what, "write one number per address");
    }
    for ((path, value), target) in weights.iter().flatten().zip(&mut workload.targets) {
        put(&mut target.weight, reader.as_number(path, value).map(|weight| weight as u32));
    }
    put(&mut workload.placement, reader.word(&mut section, "placement", &Placement::NAMES));
    if let Some(section) = reader.table(&mut section, "tls") {
        workload.tls = Some(tls(reader, section));
    }
    reader.end(section);
}

/// Reads the table `tls`. An empty table enables TLS with the defaults.
fn tls<'t>(reader: &mut DocumentReader<'t>, mut section: Section<'_, 't>) -> tls::TlsSettings {
    let mut settings = tls::TlsSettings::default();
    let mut file =
        |reader: &mut DocumentReader<'t>, key| reader.text(&mut section, key).map(|file| reader.folder().join(file));
    settings.ca = file(reader, "ca");
    settings.certificate = file(reader, "certificate");
    settings.key = file(reader, "key");
    settings.server_name = reader.text(&mut section, "server_name");
    put(&mut settings.insecure, reader.switch(&mut section, "insecure"));
    put(&mut settings.resume, reader.switch(&mut section, "resume"));
    put(&mut settings.versions, reader.parsed(&mut section, "versions"));
    reader.end(section);
    // The files are checked here, so that their faults have a line.
    if let Err(faults) = tls::TlsClient::new(&settings) {
        reader.located(faults.into_iter().map(WorkloadFault::from).collect());
    }
    settings
}

fn auth<'t>(reader: &mut DocumentReader<'t>, mut section: Section<'_, 't>, workload: &mut Workload) {
    let user = reader.text(&mut section, "user");
    let mut password = reader.text(&mut section, "password");
    if let Some(variable) = reader.text(&mut section, "password_env") {
        match std::env::var(&variable) {
            Ok(word) => password = Some(word),
            Err(_) => {
                let what = format!("the environment variable {variable} is not set");
                let remedy = format!("set it, as in {variable}=secret gannet load ...");
                reader.located(vec![WorkloadFault::new("auth.password_env", what, remedy)]);
            }
        }
    }
    if user.is_some() || password.is_some() {
        workload.auth = Some(Auth { user: user.unwrap_or_default(), password: password.unwrap_or_default() });
    }
    put(&mut workload.database, reader.small(&mut section, "database"));
    put(&mut workload.cache, reader.text(&mut section, "cache"));
    reader.end(section);
}

fn connections<'t>(reader: &mut DocumentReader<'t>, mut section: Section<'_, 't>, workload: &mut Workload) {
    put(&mut workload.connections, reader.small(&mut section, "count"));
    put(&mut workload.pin, reader.cpus(&mut section, "pin"));
    if !workload.pin.is_empty() {
        workload.threads = workload.pin.len() as u32;
    }
    put(&mut workload.threads, reader.small(&mut section, "threads"));
    put(&mut workload.batch, reader.small(&mut section, "batch"));
    workload.depth = workload.batch;
    put(&mut workload.depth, reader.small(&mut section, "depth"));
    put(&mut workload.reconnect_per_s, reader.rate(&mut section, "reconnect"));
    workload.storm_every = reader.span(&mut section, "storm").or(workload.storm_every);
    put(&mut workload.timeout, reader.span(&mut section, "timeout"));
    put(&mut workload.blind, reader.switch(&mut section, "blind"));
    put(&mut workload.client_name, reader.text(&mut section, "name"));
    reader.end(section);
}

/// The kind of a pace.
#[derive(Clone, Copy)]
enum PaceKind {
    Closed,
    Constant,
    Poisson,
    OnOff,
    Ramp,
    Sine,
    Trace,
}

const KINDS: [(&str, PaceKind); 7] = [
    ("closed", PaceKind::Closed),
    ("constant", PaceKind::Constant),
    ("poisson", PaceKind::Poisson),
    ("on-off", PaceKind::OnOff),
    ("ramp", PaceKind::Ramp),
    ("sine", PaceKind::Sine),
    ("trace", PaceKind::Trace),
];

fn pace<'t>(reader: &mut DocumentReader<'t>, mut section: Section<'_, 't>) -> Option<Pace> {
    let kind = reader.word(&mut section, "kind", &KINDS);
    let Some(kind) = kind else {
        if !section.has("kind") {
            let what = "the kind of pace is missing";
            reader.located(vec![WorkloadFault::new("pace", what, "write kind = \"poisson\" and rate = \"50k/s\"")]);
        }
        return None;
    };
    if matches!(kind, PaceKind::Closed) {
        reader.end(section);
        return Some(Pace::Closed);
    }
    let rate = if matches!(kind, PaceKind::Trace) { None } else { reader.rate(&mut section, "rate") };
    let arrivals = match kind {
        PaceKind::Closed | PaceKind::Poisson => Arrivals::Poisson,
        PaceKind::Constant => Arrivals::Constant,
        PaceKind::OnOff => Arrivals::OnOff {
            on: reader.span(&mut section, "on").unwrap_or_default(),
            off: reader.span(&mut section, "off").unwrap_or_default(),
        },
        PaceKind::Ramp => Arrivals::Ramp {
            to_per_s: reader.rate(&mut section, "to").unwrap_or_default(),
            over: reader.span(&mut section, "over").unwrap_or_default(),
        },
        PaceKind::Sine => Arrivals::Sine {
            swing: reader.share(&mut section, "swing").unwrap_or_default(),
            period: reader.span(&mut section, "period").unwrap_or_default(),
        },
        PaceKind::Trace => Arrivals::Trace {
            path: reader.text(&mut section, "file").map(|file| reader.folder().join(file)).unwrap_or_default(),
            speed: reader.number(&mut section, "speed").unwrap_or(1.0),
        },
    };
    reader.end(section);
    Some(Pace::Open { rate_per_s: rate.unwrap_or(0.0), arrivals })
}

fn space<'t>(reader: &mut DocumentReader<'t>, mut section: Section<'_, 't>, protocol: Protocol) -> KeySpace {
    let mut space = KeySpace::default();
    put(&mut space.weight, reader.number(&mut section, "weight"));
    put(&mut space.count, reader.count(&mut section, "count"));
    put(&mut space.prefix, reader.text(&mut section, "prefix"));
    put(&mut space.key_bytes, shapes::sizes(reader, &mut section, "key_bytes"));
    put(&mut space.order, shapes::order(reader, &mut section, "order"));
    put(&mut space.once, reader.share(&mut section, "once"));
    put(&mut space.value_bytes, shapes::sizes(reader, &mut section, "value_bytes"));
    put(&mut space.compressible, reader.share(&mut section, "compressible"));
    put(&mut space.ttl, shapes::ttl(reader, &mut section, "ttl"));
    put(&mut space.fields, reader.small(&mut section, "fields"));
    let remedy = "write verbs = [{ verb = \"get\", weight = 9 }, { verb = \"set\", weight = 1 }]";
    let verbs = reader.list(&mut section, "verbs", remedy);
    for (at, (path, value)) in verbs.iter().flatten().enumerate() {
        if at == 0 {
            space.verbs.clear();
        }
        match value.get_ref().as_table() {
            Some(table) => space.verbs.extend(command(reader, Section::new(path.clone(), table))),
            None => reader.misshapen(path, value, "a table", remedy),
        }
    }
    if !section.has("verbs") && protocol == Protocol::Ping {
        space.verbs = vec![KeyCommand::new(Verb::Ping)];
    }
    reader.end(section);
    space
}

fn command<'t>(reader: &mut DocumentReader<'t>, mut section: Section<'_, 't>) -> Option<KeyCommand> {
    let verb = reader.word(&mut section, "verb", &Verb::NAMES);
    let Some(verb) = verb else {
        if !section.has("verb") {
            let name = section.path.clone();
            reader.located(vec![WorkloadFault::new(
                name,
                "the verb is missing",
                "write { verb = \"get\", weight = 1 }",
            )]);
        }
        return None;
    };
    let mut command = KeyCommand::new(verb);
    put(&mut command.weight, reader.number(&mut section, "weight"));
    match verb {
        Verb::Get | Verb::Gets | Verb::Set => put(&mut command.keys, reader.small(&mut section, "keys")),
        Verb::Incr | Verb::Decr | Verb::HashIncr | Verb::HashDecr => {
            put(&mut command.delta, reader.count(&mut section, "delta"))
        }
        Verb::HashSet | Verb::HashMultiGet | Verb::HashDelete => {
            put(&mut command.fields, reader.small(&mut section, "fields"));
        }
        Verb::MetaGet | Verb::MetaSet | Verb::MetaDelete | Verb::MetaArith => {
            put(&mut command.text, reader.text(&mut section, "flags"));
        }
        Verb::Raw => put(&mut command.text, reader.text(&mut section, "command")),
        _ => {}
    }
    reader.end(section);
    Some(command)
}
