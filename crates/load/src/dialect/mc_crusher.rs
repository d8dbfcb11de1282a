//! mc-crusher's configuration files. Each line describes one kind of connection as comma-separated `key=value` pairs.
//!
//! ```text
//!   send=ascii_get,recv=blind_read,conns=400,pipelines=50,usleep=75000,key_prefix=foo,key_count=125000000,thread=2
//! ```
//!
//! Each line becomes a key space; its weight is its share of all requests. Every connection sends `pipelines` requests
//! at a time, every `usleep` microseconds or without a pause, and discards replies without parsing them. All lines of a
//! run must have the same rhythm; other lines are refused.

use std::path::Path;

use base::nearest::nearest;

use super::{Mapped, Run, address, checked};
use crate::workload::fault::{FaultPlace, WorkloadFault};
use crate::workload::model::{
    Arrivals, KeyCommand, KeySpace, Order, Pace, Placement, Protocol, Sizes, Target, Verb, Workload,
};

/// Number of keys of a line without `key_count`.
const KEYS: u64 = 200_000;

const KEYS_KNOWN: [&str; 24] = [
    "send",
    "recv",
    "conns",
    "thread",
    "pipelines",
    "usleep",
    "mget_count",
    "key_prefix",
    "key_count",
    "key_prealloc",
    "key_randomize",
    "key_file",
    "live_rand",
    "live_rand_zipf",
    "zipf_skew",
    "value_size",
    "value",
    "host",
    "ip",
    "port",
    "sock",
    "exptime",
    "flags",
    "stop_after",
];

const SENDS: [(&str, Verb); 7] = [
    ("ascii_get", Verb::Get),
    ("ascii_mget", Verb::Get),
    ("ascii_set", Verb::Set),
    ("ascii_incr", Verb::Incr),
    ("ascii_decr", Verb::Decr),
    ("ascii_delete", Verb::Delete),
    ("ascii_touch", Verb::Touch),
];

/// The settings that fields of a workload come from; the line is found by its key space.
const NAMES: [(&str, &str); 5] = [
    ("targets", "host and port"),
    ("connections.batch", "pipelines"),
    ("connections.depth", "pipelines"),
    ("connections", "conns and thread"),
    ("pace", "usleep"),
];

/// A parsed line.
struct ParsedLine {
    line: usize,
    connections: u64,
    threads: u64,
    pipelines: u64,
    pause_us: u64,
    blind: bool,
    target: Option<String>,
    stop_after: Option<u64>,
    space: KeySpace,
}

impl ParsedLine {
    /// Returns the line's number of requests, relative to other lines with the same pause.
    fn requests(&self) -> f64 {
        (self.connections * self.pipelines) as f64
    }
}

/// Parses `text`, the content of the configuration file at `path`. Requests go to `target` unless a line names another
/// one; the default is 127.0.0.1:11211.
///
/// # Errors
/// Every fault, each with its line and remedy.
pub fn read_text(path: &Path, text: &str, target: Option<&str>) -> Result<Mapped, Vec<WorkloadFault>> {
    let mut faults = Vec::new();
    let mut notes = Vec::new();
    let mut kinds: Vec<ParsedLine> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line_text = line.trim();
        if !line_text.is_empty() && !line_text.starts_with('#') {
            let mut reader = ConfLine { path, line: at + 1, pairs: Vec::new(), faults: &mut faults };
            kinds.extend(reader.kind(line_text, &mut notes));
        }
    }
    let place = |line| FaultPlace::File { path: path.to_owned(), line };
    let Some(first) = kinds.first() else {
        if faults.is_empty() {
            let remedy = "write one kind per line, as in send=ascii_get,recv=blind_read,conns=50";
            faults.push(WorkloadFault::new("", "the file describes no connections", remedy).at(place(1)));
        }
        return Err(faults);
    };
    let rhythm = |kind: &ParsedLine| (kind.pipelines, kind.pause_us, kind.blind, kind.target.clone(), kind.stop_after);
    for other in kinds.iter().filter(|kind| rhythm(kind) != rhythm(first)) {
        let what = format!("pipelines, usleep, recv, host or stop_after differs from line {}", first.line);
        let remedy = "put these lines into separate files and run them at the same time";
        faults.push(WorkloadFault::new("", what, remedy).at(place(other.line)));
    }
    let lines: Vec<usize> = kinds.iter().map(|kind| kind.line).collect();
    let mapped = mapped(kinds, target, notes);
    checked(mapped, faults, &NAMES).map_err(|mut faults| {
        for fault in faults.iter_mut().filter(|fault| fault.place == FaultPlace::Given) {
            let space = fault.name.strip_prefix("keys[").and_then(|name| name.split(']').next());
            let line = space.and_then(|at| lines.get(at.parse::<usize>().ok()?)).unwrap_or(&lines[0]);
            fault.place = place(*line);
        }
        faults
    })
}

fn mapped(kinds: Vec<ParsedLine>, target: Option<&str>, notes: Vec<String>) -> Mapped {
    let saturated = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let connections = saturated(kinds.iter().map(|kind| kind.connections).sum());
    let threads = saturated(kinds.iter().map(|kind| kind.threads).sum());
    let requests: f64 = kinds.iter().map(ParsedLine::requests).sum();
    let first = &kinds[0];
    let pace = match first.pause_us {
        0 => Pace::Closed,
        us => Pace::Open { rate_per_s: requests * 1e6 / us as f64, arrivals: Arrivals::Constant },
    };
    let batch = saturated(first.pipelines);
    let address = first.target.clone().or(target.map(str::to_owned)).unwrap_or_else(|| "127.0.0.1:11211".into());
    let run = Run { requests_max: first.stop_after, ..Run::default() };
    let workload = Workload {
        name: "mc-crusher".into(),
        about: "kinds of connections from an mc-crusher configuration file".into(),
        protocol: Protocol::Memcache,
        targets: vec![Target { address, weight: 1 }],
        placement: Placement::Any,
        connections,
        threads,
        depth: batch,
        batch,
        blind: first.blind,
        pace,
        keys: kinds.into_iter().map(|kind| KeySpace { weight: kind.requests(), ..kind.space }).collect(),
        ..Workload::default()
    };
    Mapped { workload, run, notes }
}

/// A line that is being parsed.
struct ConfLine<'l> {
    path: &'l Path,
    line: usize,
    pairs: Vec<(&'l str, &'l str)>,
    faults: &'l mut Vec<WorkloadFault>,
}

impl<'l> ConfLine<'l> {
    fn fault(&mut self, name: &str, what: impl Into<String>, remedy: impl Into<String>) {
        let place = FaultPlace::File { path: self.path.to_owned(), line: self.line };
        self.faults.push(WorkloadFault::new(name, what, remedy).at(place));
    }

    fn text(&self, name: &str) -> Option<&'l str> {
        self.pairs.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn count(&mut self, name: &str) -> Option<u64> {
        let text = self.text(name)?;
        let count = text.replace('_', "").parse().ok();
        if count.is_none() {
            self.fault(name, format!("'{text}' is not a whole number"), "write digits only, as in 1000");
        }
        count
    }

    fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| text != "0")
    }

    fn take_apart(&mut self, text: &'l str) {
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                self.fault("", format!("'{part}' has no value"), "write key=value, separated by commas");
                continue;
            };
            if KEYS_KNOWN.contains(&key) {
                self.pairs.push((key, value));
                continue;
            }
            let remedy = match nearest(key, KEYS_KNOWN) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("valid values are: {}", KEYS_KNOWN.join(", ")),
            };
            self.fault(key, "unknown key", remedy);
        }
    }

    fn kind(&mut self, text: &'l str, notes: &mut Vec<String>) -> Option<ParsedLine> {
        let before = self.faults.len();
        self.take_apart(text);
        let command = self.command();
        let blind = self.blind();
        let threads = self.count("thread").unwrap_or(1).max(1);
        let kind = ParsedLine {
            line: self.line,
            connections: self.count("conns").unwrap_or(1).saturating_mul(threads),
            threads,
            pipelines: self.count("pipelines").unwrap_or(1),
            pause_us: self.count("usleep").unwrap_or(0),
            blind,
            target: self.target(),
            stop_after: self.count("stop_after").filter(|count| *count > 0),
            space: self.space(command?, notes),
        };
        (self.faults.len() == before).then_some(kind)
    }

    fn command(&mut self) -> Option<KeyCommand> {
        let names = || SENDS.iter().map(|(name, _)| *name);
        let Some(send) = self.text("send") else {
            self.fault("send", "the setting send is missing", "write send=ascii_get");
            return None;
        };
        let Some((_, verb)) = SENDS.iter().find(|(name, _)| *name == send) else {
            let (what, remedy) = if send.starts_with("bin_") {
                (format!("{send} uses memcached's binary protocol"), "use the text form, as in ascii_get".to_owned())
            } else {
                let near = nearest(send, names());
                let all = || format!("valid values are: {}", names().collect::<Vec<_>>().join(", "));
                let remedy = near.map_or_else(all, |near| format!("did you mean {near}?"));
                (format!("'{send}' is not a valid value of send"), remedy)
            };
            self.fault("send", what, remedy);
            return None;
        };
        let mut command = KeyCommand::new(*verb);
        if send == "ascii_mget" {
            command.keys = u32::try_from(self.count("mget_count").unwrap_or(2)).unwrap_or(u32::MAX);
        }
        Some(command)
    }

    fn blind(&mut self) -> bool {
        match self.text("recv") {
            Some("blind_read" | "blind_recv") => true,
            Some(other) => {
                let remedy = "write recv=blind_read, or remove it to have replies parsed and timed";
                self.fault("recv", format!("'{other}' is not a valid value of recv"), remedy);
                false
            }
            None => false,
        }
    }

    fn target(&mut self) -> Option<String> {
        if let Some(path) = self.text("sock") {
            return Some(format!("unix:{path}"));
        }
        let port = self.count("port");
        match self.text("host").or(self.text("ip")) {
            Some(host) => Some(address(host, port.unwrap_or(11211))),
            None => port.map(|port| format!("127.0.0.1:{port}")),
        }
    }

    fn space(&mut self, command: KeyCommand, notes: &mut Vec<String>) -> KeySpace {
        let prefix = self.text("key_prefix").unwrap_or("foo").to_owned();
        let count = self.count("key_count").unwrap_or(KEYS);
        let digits = count.max(2).ilog10() as usize + 1;
        let exponent = match self.text("zipf_skew").unwrap_or("0.99").parse::<f64>() {
            Ok(exponent) => exponent,
            Err(_) => {
                self.fault("zipf_skew", "the value is not a number", "write a number such as 0.90");
                0.0
            }
        };
        let order = match () {
            () if self.is_on("live_rand_zipf") => Order::Zipf { exponent },
            () if self.is_on("live_rand") || self.is_on("key_randomize") => Order::Uniform,
            () => Order::Sequential,
        };
        if self.text("key_file").is_some() {
            notes.push(format!("line {}: key_file is ignored; keys are generated from their numbers", self.line));
        }
        let ttl = self.count("exptime").filter(|seconds| *seconds > 0);
        let value = self.text("value").map(|value| value.len() as u64);
        let value_bytes = self.count("value_size").or(value).unwrap_or(64);
        KeySpace {
            count,
            key_bytes: Sizes::Fixed((prefix.len() + digits) as u64),
            prefix,
            order,
            verbs: vec![command],
            value_bytes: Sizes::Fixed(value_bytes),
            ttl: ttl.map(|seconds| (base::units::TimeSpan::secs(seconds), 1.0)).into_iter().collect(),
            ..KeySpace::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Mapped {
        read_text(Path::new("conf/x"), text, None).unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
    }

    #[test]
    fn mc_crusher_sample_conf_files_parse_unmodified() {
        let get = read("send=ascii_get,recv=blind_read,conns=50,key_prefix=foobar,key_prealloc=1,pipelines=8\n");
        let workload = &get.workload;
        assert_eq!((workload.connections, workload.threads, workload.depth, workload.batch), (50, 1, 8, 8));
        assert!(workload.blind && workload.pace == Pace::Closed && get.notes.is_empty());
        let space = &workload.keys[0];
        assert_eq!((space.prefix.as_str(), space.count, &space.order), ("foobar", 200_000, &Order::Sequential));
        assert_eq!((&space.key_bytes, &space.verbs), (&Sizes::Fixed(12), &vec![KeyCommand::new(Verb::Get)]));
        let load =
            read("send=ascii_set,recv=blind_read,conns=5,key_prefix=foobar,value_size=2,value=hi,key_prealloc=0");
        assert_eq!(load.workload.keys[0].value_bytes, Sizes::Fixed(2));
        let mget = read("send=ascii_mget,recv=blind_read,conns=48,mget_count=50,thread=2,live_rand=1,key_count=1000");
        assert_eq!((mget.workload.connections, mget.workload.threads), (96, 2));
        assert_eq!((mget.workload.keys[0].verbs[0].keys, &mget.workload.keys[0].order), (50, &Order::Uniform));
    }

    #[test]
    fn paced_lines_become_a_rate_and_their_parts_of_it() {
        let text = "# 90:10\n\
            send=ascii_get,recv=blind_read,conns=360,pipelines=50,usleep=75000,key_prefix=foobarbazqux,\
            key_count=125000000,live_rand_zipf=1,zipf_skew=0.90\n\n\
            send=ascii_set,recv=blind_read,conns=40,pipelines=50,usleep=75000,key_prefix=foobarbazqux,\
            key_count=125000000,live_rand_zipf=1,zipf_skew=0.90,value_size=256,exptime=60\n";
        let workload = read(text).workload;
        let rate_per_s = 400.0 * 50.0 * 1e6 / 75_000.0;
        assert_eq!(workload.pace, Pace::Open { rate_per_s, arrivals: Arrivals::Constant });
        assert_eq!((workload.connections, workload.threads, workload.batch), (400, 2, 50));
        let weights: Vec<f64> = workload.keys.iter().map(|space| space.weight).collect();
        assert_eq!(weights, [18_000.0, 2_000.0]);
        assert_eq!(workload.keys[1].order, Order::Zipf { exponent: 0.90 });
        assert_eq!(workload.keys[1].ttl, [(base::units::TimeSpan::secs(60), 1.0)]);
    }

    #[test]
    fn a_line_may_name_its_server() {
        let of = |text: &str| read(text).workload.targets[0].address.clone();
        assert_eq!(of("send=ascii_get,host=10.0.0.1,port=7"), "10.0.0.1:7");
        assert_eq!(of("send=ascii_get,port=7"), "127.0.0.1:7");
        assert_eq!(of("send=ascii_get,sock=/run/m.sock"), "unix:/run/m.sock");
        let given = read_text(Path::new("c"), "send=ascii_get", Some("h:1")).unwrap();
        assert_eq!(given.workload.targets[0].address, "h:1");
        assert_eq!(of("send=ascii_get"), "127.0.0.1:11211");
    }

    #[test]
    fn each_fault_has_its_line_and_a_remedy() {
        let text = "send=ascii_gte\nsend=bin_get\nrecv=blind_read\nsend=ascii_get,recv=x,cons=5,stray\n\
                    send=ascii_get,conns=x,zipf_skew=y\n";
        let faults = read_text(Path::new("c"), text, None).unwrap_err();
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        for part in [
            "c:1: send: 'ascii_gte' is not a valid value of send; did you mean ascii_get?",
            "c:2: send: bin_get uses memcached's binary protocol; use the text form, as in ascii_get",
            "c:3: send: the setting send is missing; write send=ascii_get",
            "c:4: cons: unknown key; did you mean conns?",
            "c:4: 'stray' has no value; write key=value, separated by commas",
            "c:4: recv: 'x' is not a valid value of recv; write recv=blind_read",
            "c:5: conns: 'x' is not a whole number; write digits only, as in 1000",
            "c:5: zipf_skew: the value is not a number; write a number such as 0.90",
        ] {
            assert!(told.iter().any(|fault| fault.starts_with(part)), "{part}: {told:#?}");
        }
        assert_eq!(told.len(), 8, "{told:#?}");
    }

    #[test]
    fn lines_with_rhythms_of_their_own_and_illegal_values_are_named_by_line() {
        let told = |text: &str| read_text(Path::new("c"), text, None).unwrap_err()[0].to_string();
        let mixed = "send=ascii_mget,mget_count=50,conns=50\nsend=ascii_set,conns=20,pipelines=8\n";
        assert!(told(mixed).starts_with("c:2: pipelines, usleep"), "{}", told(mixed));
        let keys = "send=ascii_get\nsend=ascii_get,key_count=0\n";
        assert!(told(keys).starts_with("c:2: keys[1].count: 0 keys"), "{}", told(keys));
        assert!(told("\n# nothing\n").starts_with("c:1: the file describes no connections"));
        assert!(told("send=ascii_get,conns=0").starts_with("c:1: conns and thread: 0 connections"));
        let many = "send=ascii_mget,mget_count=5000";
        assert!(told(many).contains("5000 keys in a request"), "{}", told(many));
    }
}
