//! Writes a workload as the text of a workload file, so that a run can be repeated.
//!
//! Invariant: the text of [`Workload::to_toml`] parses to the same workload. It contains a password only if requested;
//! otherwise it refers to the environment variable [`PASSWORD_VARIABLE`].

use std::fmt::Write as _;
use std::path::Path;

use crate::workload::graph::{EdgeOrigin, GraphLoad, GraphQuery};
use crate::workload::model::{
    Arrivals, KeyCommand, KeySpace, LengthStep, Order, Pace, Placement, Sizes, TIMEOUT_DEFAULT, Verb, Workload,
};
use crate::workload::units::Share;
use link::tls;

/// Environment variable that replaces the password in the text.
pub const PASSWORD_VARIABLE: &str = "GANNET_LOAD_PASSWORD";

/// The treatment of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Password {
    /// The text contains the password, for an authorised reader.
    Written,
    /// The text names the environment variable instead, because results and logs contain workloads.
    LeftOut,
}

impl Workload {
    /// Returns the equivalent workload file. Distributions are written in full; a trace is named by its absolute path.
    pub fn to_toml(&self, password: Password) -> String {
        let mut out = String::new();
        put(&mut out, "name", &text(&self.name));
        if !self.about.is_empty() {
            put(&mut out, "about", &text(&self.about));
        }
        put(&mut out, "protocol", &text(self.protocol.name()));
        put(&mut out, "seed", &self.seed.to_string());
        put(&mut out, "prefill", &self.prefill.to_string());
        put(&mut out, "fill_on_miss", &self.fill_on_miss.to_string());
        put(&mut out, "verify", &self.verify.to_string());
        self.put_targets(password, &mut out);
        self.put_connections(&mut out);
        put_pace(&mut out, &self.pace);
        match &self.graph {
            Some(graph) => put_graph(&mut out, graph),
            None => self.keys.iter().for_each(|space| put_space(&mut out, space)),
        }
        out
    }

    fn put_targets(&self, password: Password, out: &mut String) {
        if !self.targets.is_empty() || self.placement != Placement::Any {
            out.push_str("\n[targets]\n");
            let addresses: Vec<String> = self.targets.iter().map(|target| text(&target.address)).collect();
            let weights: Vec<String> = self.targets.iter().map(|target| target.weight.to_string()).collect();
            put(out, "addresses", &format!("[{}]", addresses.join(", ")));
            put(out, "weights", &format!("[{}]", weights.join(", ")));
            put(out, "placement", &text(self.placement.name()));
        }
        if let Some(tls) = &self.tls {
            put_tls(out, tls);
        }
        if self.auth.is_some() || self.database != 0 || !self.cache.is_empty() {
            out.push_str("\n[auth]\n");
            if let Some(auth) = &self.auth {
                put(out, "user", &text(&auth.user));
                match password {
                    Password::Written => put(out, "password", &text(&auth.password)),
                    Password::LeftOut => put(out, "password_env", &text(PASSWORD_VARIABLE)),
                }
            }
            put(out, "database", &self.database.to_string());
            if !self.cache.is_empty() {
                put(out, "cache", &text(&self.cache));
            }
        }
    }

    fn put_connections(&self, out: &mut String) {
        out.push_str("\n[connections]\n");
        put(out, "count", &self.connections.to_string());
        put(out, "threads", &self.threads.to_string());
        if !self.pin.is_empty() {
            put(out, "pin", &text(&io::affinity::show_cpus(&self.pin)));
        }
        put(out, "depth", &self.depth.to_string());
        put(out, "batch", &self.batch.to_string());
        if self.reconnect_per_s > 0.0 {
            put(out, "reconnect", &rate(self.reconnect_per_s));
        }
        if let Some(every) = self.storm_every {
            put(out, "storm", &span(every));
        }
        if self.timeout != TIMEOUT_DEFAULT {
            put(out, "timeout", &span(self.timeout));
        }
        put(out, "blind", &self.blind.to_string());
        if !self.client_name.is_empty() {
            put(out, "name", &text(&self.client_name));
        }
    }
}

fn put(out: &mut String, key: &str, value: &str) {
    let _ = writeln!(out, "{key} = {value}");
}

/// Returns a TOML basic string. JSON's escapes are valid in TOML, except for one control character that JSON does not
/// escape.
fn text(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default().replace('\u{7f}', "\\u007f")
}

/// Formats a number with all digits that are needed to parse it back.
fn number(value: f64) -> String {
    format!("{value:?}")
}

fn rate(per_s: f64) -> String {
    format!("\"{per_s:?}/s\"")
}

fn bytes(bytes: u64) -> String {
    format!("\"{bytes}B\"")
}

fn span(span: base::units::TimeSpan) -> String {
    format!("\"{}ns\"", span.0)
}

/// Formats a share in percent, with all its digits and the decimal point moved by two places.
fn share(share: Share) -> String {
    let digits = share.0.to_string();
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let fraction = format!("{fraction:0<2}");
    let percent = format!("{whole}{}.{}", &fraction[..2], &fraction[2..]);
    let percent = percent.trim_end_matches('.').trim_start_matches('0');
    let zero = if percent.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
    format!("\"{zero}{percent}%\"")
}

/// Writes the section `graph`.
fn put_graph(out: &mut String, load: &GraphLoad) {
    out.push_str("\n[graph]\n");
    put(out, "name", &text(&load.name));
    put(out, "type", &text(&load.edge_type));
    match &load.origin {
        EdgeOrigin::Rmat { scale, edges_per_node } => {
            put(out, "scale", &scale.to_string());
            put(out, "edges_per_node", &edges_per_node.to_string());
        }
        EdgeOrigin::File(file) => {
            let path = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
            put(out, "file", &text(&path.to_string_lossy()));
        }
    }
    put(out, "endpoints", &text(load.endpoints.name()));
    put(out, "targets", &format!("[{}, {}]", load.targets.0, load.targets.1));
    put(out, "page", &load.page.to_string());
    put(out, "hops", &load.hops.to_string());
    if let Some(budget) = load.budget {
        put(out, "budget", &budget.to_string());
    }
    if load.writes_per_s > 0.0 {
        put(out, "writes", &rate(load.writes_per_s));
    }
    put(out, "write_edges", &load.write_edges.to_string());
    let query = |(query, weight): &(GraphQuery, f64)| {
        format!("{{ query = {}, weight = {} }}", text(query.name()), number(*weight))
    };
    let queries: Vec<String> = load.queries.iter().map(query).collect();
    put(out, "queries", &format!("[{}]", queries.join(", ")));
}

fn put_pace(out: &mut String, pace: &Pace) {
    out.push_str("\n[pace]\n");
    let Pace::Open { rate_per_s, arrivals } = pace else { return put(out, "kind", "\"closed\"") };
    let kind = match arrivals {
        Arrivals::Constant => "constant",
        Arrivals::Poisson => "poisson",
        Arrivals::OnOff { .. } => "on-off",
        Arrivals::Ramp { .. } => "ramp",
        Arrivals::Sine { .. } => "sine",
        Arrivals::Trace { .. } => "trace",
    };
    put(out, "kind", &text(kind));
    // A rate of 0, with which a ramp may begin, is written as an absent rate.
    if !matches!(arrivals, Arrivals::Trace { .. }) && *rate_per_s > 0.0 {
        put(out, "rate", &rate(*rate_per_s));
    }
    match arrivals {
        Arrivals::Constant | Arrivals::Poisson => {}
        Arrivals::OnOff { on, off } => {
            put(out, "on", &span(*on));
            put(out, "off", &span(*off));
        }
        Arrivals::Ramp { to_per_s, over } => {
            put(out, "to", &rate(*to_per_s));
            put(out, "over", &span(*over));
        }
        Arrivals::Sine { swing, period } => {
            put(out, "swing", &share(*swing));
            put(out, "period", &span(*period));
        }
        Arrivals::Trace { path, speed } => {
            put(out, "file", &text(&whole(path)));
            put(out, "speed", &number(*speed));
        }
    }
}

fn put_tls(out: &mut String, tls: &tls::TlsSettings) {
    out.push_str("\n[targets.tls]\n");
    for (key, path) in [("ca", &tls.ca), ("certificate", &tls.certificate), ("key", &tls.key)] {
        if let Some(path) = path {
            put(out, key, &text(&whole(path)));
        }
    }
    if let Some(name) = &tls.server_name {
        put(out, "server_name", &text(name));
    }
    put(out, "insecure", &tls.insecure.to_string());
    put(out, "versions", &text(tls.versions.text()));
    put(out, "resume", &tls.resume.to_string());
}

fn whole(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

fn put_space(out: &mut String, space: &KeySpace) {
    out.push_str("\n[[keys]]\n");
    put(out, "weight", &number(space.weight));
    put(out, "count", &space.count.to_string());
    put(out, "prefix", &text(&space.prefix));
    put(out, "key_bytes", &sizes(&space.key_bytes));
    put(out, "order", &order(&space.order));
    put(out, "once", &share(space.once));
    put(out, "value_bytes", &sizes(&space.value_bytes));
    put(out, "compressible", &share(space.compressible));
    if !space.ttl.is_empty() {
        let ttl = space.ttl.iter().map(|(ttl, weight)| format!("{{ ttl = {}, weight = {weight:?} }}", span(*ttl)));
        put(out, "ttl", &format!("[{}]", ttl.collect::<Vec<_>>().join(", ")));
    }
    put(out, "fields", &space.fields.to_string());
    out.push_str("verbs = [\n");
    for command in &space.verbs {
        let _ = writeln!(out, "    {{ {} }},", verb(command));
    }
    out.push_str("]\n");
}

fn sizes(sizes: &Sizes) -> String {
    match sizes {
        Sizes::Fixed(fixed) => bytes(*fixed),
        Sizes::Range(from, to) => format!("{{ from = {}, to = {} }}", bytes(*from), bytes(*to)),
        Sizes::Steps(steps) => {
            let row = |LengthStep { from, to, weight }: &LengthStep| format!("{from},{to},{weight:?}\n");
            format!("{{ rows = \"\"\"\n{}\"\"\" }}", steps.iter().map(row).collect::<String>())
        }
    }
}

fn order(order: &Order) -> String {
    match order {
        Order::Uniform => "\"uniform\"".to_owned(),
        Order::Sequential => "\"sequential\"".to_owned(),
        Order::Zipf { exponent } => format!("{{ zipf = {exponent:?} }}"),
        Order::Latest { exponent } => format!("{{ latest = {exponent:?} }}"),
        Order::Scan { length } => format!("{{ scan = {length} }}"),
        Order::Hot { keys, requests } => {
            format!("{{ hot = {{ keys = {}, requests = {} }} }}", share(*keys), share(*requests))
        }
        Order::Groups(groups) => {
            let row = |(keys, weight): &(u64, f64)| format!("{keys},{weight:?}\n");
            format!("{{ popularity_rows = \"\"\"\n{}\"\"\" }}", groups.iter().map(row).collect::<String>())
        }
    }
}

/// Formats a verb with only the parameters that it takes.
fn verb(command: &KeyCommand) -> String {
    let mut line = format!("verb = {}, weight = {:?}", text(command.verb.name()), command.weight);
    let _ = match command.verb {
        Verb::Get | Verb::Gets => write!(line, ", keys = {}", command.keys),
        Verb::Set if command.keys > 1 => write!(line, ", keys = {}", command.keys),
        Verb::Incr | Verb::Decr | Verb::HashIncr | Verb::HashDecr => write!(line, ", delta = {}", command.delta),
        Verb::HashSet | Verb::HashMultiGet | Verb::HashDelete => write!(line, ", fields = {}", command.fields),
        Verb::MetaGet | Verb::MetaSet | Verb::MetaDelete | Verb::MetaArith => {
            write!(line, ", flags = {}", text(&command.text))
        }
        Verb::Raw => write!(line, ", command = {}", text(&command.text)),
        _ => Ok(()),
    };
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::model::{Auth, Protocol, Target};
    use crate::workload::presets;
    use base::prng::Prng;
    use base::units::TimeSpan;

    fn again(workload: &Workload) -> Workload {
        let text = workload.to_toml(Password::Written);
        Workload::read_text(Path::new("again"), &text).unwrap_or_else(|faults| panic!("{faults:?}\n{text}"))
    }

    #[test]
    fn every_preset_is_read_back_the_same() {
        for name in presets::names() {
            let workload = presets::preset(&name).unwrap();
            assert_eq!(again(&workload), workload, "{name}");
        }
    }

    #[test]
    fn every_field_is_read_back() {
        let space = |order| KeySpace {
            weight: 0.1 + 0.2,
            prefix: "a:".into(),
            key_bytes: Sizes::Range(30, 40),
            order,
            once: Share(0.3),
            compressible: Share(1.0 / 3.0),
            value_bytes: Sizes::Steps(vec![
                LengthStep { from: 1, to: 7, weight: 0.1 },
                LengthStep { from: 9, to: 9, weight: 2e7 },
            ]),
            ttl: vec![(TimeSpan::secs(60), 1.0), (TimeSpan::secs(0), 0.7)],
            verbs: vec![
                KeyCommand { keys: 3, ..KeyCommand::weighted(Verb::Get, 0.7) },
                KeyCommand { delta: 9, ..KeyCommand::new(Verb::Incr) },
                KeyCommand { text: "v t".into(), ..KeyCommand::new(Verb::MetaGet) },
                KeyCommand { text: "set __key__ 0 0 __length__\r\n__data__".into(), ..KeyCommand::new(Verb::Raw) },
            ],
            ..KeySpace::default()
        };
        let hot = Order::Hot { keys: Share(0.07), requests: Share(0.93) };
        let orders = [
            Order::Uniform,
            Order::Zipf { exponent: 0.99 },
            hot,
            Order::Latest { exponent: 1.0 },
            Order::Sequential,
            Order::Scan { length: 9 },
            Order::Groups(vec![(3, 0.25), (70, 1e-9)]),
        ];
        let arrivals = [
            Arrivals::Constant,
            Arrivals::Poisson,
            Arrivals::OnOff { on: TimeSpan::millis(3), off: TimeSpan::millis(7) },
            Arrivals::Ramp { to_per_s: 1234.5, over: TimeSpan::secs(9) },
            Arrivals::Sine { swing: Share(0.4), period: TimeSpan::secs(2) },
            Arrivals::Trace { path: "/tmp/a trace.csv".into(), speed: 1.5 },
        ];
        for arrivals in arrivals {
            let rate_per_s = if matches!(arrivals, Arrivals::Trace { .. }) { 0.0 } else { 1e6 / 3.0 };
            let workload = Workload {
                name: "a \"name\" \u{7f}\t\\".into(),
                about: "two\nlines".into(),
                seed: u64::MAX,
                targets: ["h:1", "unix:/run/x y"].map(|address| Target { address: address.into(), weight: 3 }).to_vec(),
                connections: 70,
                threads: 3,
                pin: vec![5, 0, 1, 2],
                tls: Some(tls::TlsSettings {
                    server_name: Some("cache.example".into()),
                    insecure: true,
                    versions: tls::Versions::Tls13,
                    resume: false,
                    ..tls::TlsSettings::default()
                }),
                depth: 9,
                batch: 4,
                reconnect_per_s: 0.3,
                storm_every: Some(TimeSpan::millis(2500)),
                pace: Pace::Open { rate_per_s, arrivals },
                keys: orders.iter().cloned().map(space).collect(),
                ..Workload::default()
            };
            assert_eq!(again(&workload), workload);
        }
        let resp = Workload {
            protocol: Protocol::Resp3,
            client_name: "us".into(),
            database: 3,
            blind: true,
            placement: Placement::Slots,
            keys: vec![KeySpace {
                verbs: vec![
                    KeyCommand { fields: 3, ..KeyCommand::new(Verb::HashMultiGet) },
                    KeyCommand::new(Verb::HashGet),
                ],
                ..KeySpace::default()
            }],
            ..Workload::default()
        };
        assert_eq!(again(&resp), resp);
        let grpc = Workload {
            protocol: Protocol::Grpc,
            cache: "shop".into(),
            timeout: base::units::TimeSpan::millis(500),
            keys: vec![KeySpace {
                verbs: vec![KeyCommand { keys: 3, ..KeyCommand::new(Verb::Set) }],
                ..KeySpace::default()
            }],
            ..Workload::default()
        };
        assert_eq!(again(&grpc), grpc);
    }

    #[test]
    fn shares_are_read_back_to_the_last_digit() {
        let mut prng = Prng::new(5);
        for _ in 0..20_000 {
            let percent = (prng.below(1_000_001) as f64) / 10_000.0;
            for given in [percent / 100.0, prng.unit(), prng.unit() * 1e-9, 0.0, 1.0].map(Share) {
                let read: Share = share(given).trim_matches('"').parse().unwrap();
                assert_eq!(read, given, "{}", share(given));
            }
        }
    }

    #[test]
    fn password_is_omitted_from_toml_and_its_variable_is_required() {
        let auth = Some(Auth { user: "me".into(), password: "sesame".into() });
        let asked = Workload { auth, ..Workload::default() };
        assert_eq!(again(&asked), asked);
        let text = asked.to_toml(Password::LeftOut);
        assert!(!text.contains("sesame") && text.contains(PASSWORD_VARIABLE) && text.contains("\"me\""), "{text}");
        let told = Workload::read_text(Path::new("again"), &text).unwrap_err()[0].to_string();
        assert!(told.contains("the environment variable GANNET_LOAD_PASSWORD is not set; set it, as in"), "{told}");
    }
}
