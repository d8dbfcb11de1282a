//! The Prometheus text format, version 0.0.4.

use std::fmt::Write;

use super::figures::{BOUNDS_NS, Figure, MetricKind, Sample};
use super::page::Latencies;
use command::keyspace::figures::Figures;
use command::metrics::{Command, Part};

/// The media type that scrapers expect.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The quantiles that are written; 1 is the maximum.
pub const SHARES: [f64; 4] = [0.5, 0.99, 0.999, 1.0];

/// Writes all figures and latencies in the Prometheus format.
pub fn write(figures: &[Figure], latencies: &Latencies, spaces: &[Figures]) -> String {
    let mut out = String::with_capacity(64 << 10);
    for figure in figures {
        header(&mut out, figure.name, figure.help, figure.kind.name());
        for sample in &figure.samples {
            // A histogram's samples append the rest of their name: `_bucket`, `_sum`, `_count`.
            let _ = writeln!(out, "{}{}{} {}", figure.name, sample.suffix, labels(figure, sample), sample.number);
        }
    }
    histograms(&mut out, latencies);
    quantiles(&mut out, latencies);
    namespaces(&mut out, latencies, spaces);
    out
}

fn labels(figure: &Figure, sample: &Sample) -> String {
    let label = |(name, value): (&&str, &String)| format!("{name}=\"{}\"", escaped(value));
    let labels: Vec<String> = figure.labels.iter().zip(&sample.labels).map(label).collect();
    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
}

fn header(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Returns each command that was executed, combined with each part of its time.
fn series(latencies: &Latencies) -> impl Iterator<Item = (Command, Part)> + '_ {
    latencies.start.commands().flat_map(|command| Part::ALL.into_iter().map(move |part| (command, part)))
}

/// Writes the latencies of each namespace that is named or used.
fn namespaces(out: &mut String, latencies: &Latencies, spaces: &[Figures]) {
    let name = "gannet_namespace_request_quantile_seconds";
    let help = "Quantiles of the time of requests since the start, within 1.6 %, by namespace.";
    header(out, name, help, MetricKind::Gauge.name());
    for space in spaces {
        for part in Part::ALL {
            let counts = latencies.start.of_namespace(space.namespace, part);
            for share in SHARES {
                let ns = if share == 1.0 { counts.max_ns } else { counts.quantile_ns(share) };
                let (label, part) = (escaped(&space.name), part.name());
                let labels = format!("namespace=\"{label}\",part=\"{part}\",quantile=\"{share}\"");
                let _ = writeln!(out, "{name}{{{labels}}} {}", seconds(ns));
            }
        }
    }
}

fn histograms(out: &mut String, latencies: &Latencies) {
    let name = "gannet_request_seconds";
    let help = "Time of requests in the server, by command and part: wait, execute, send.";
    header(out, name, help, MetricKind::Histogram.name());
    for (command, part) in series(latencies) {
        let counts = latencies.start.of(command, part);
        let labels = format!("command=\"{}\",part=\"{}\"", command.name(), part.name());
        for bound in BOUNDS_NS {
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{}\"}} {}", seconds(bound), counts.at_most(bound));
        }
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", counts.count);
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}", seconds(counts.sum_ns));
        let _ = writeln!(out, "{name}_count{{{labels}}} {}", counts.count);
    }
}

fn quantiles(out: &mut String, latencies: &Latencies) {
    let name = "gannet_request_quantile_seconds";
    let help = "Quantiles of the time of requests, within 1.6 %, in the last minute and since the start; 1 is the \
                maximum.";
    header(out, name, help, MetricKind::Gauge.name());
    for (command, part) in series(latencies) {
        for (window, totals) in [("minute", &latencies.minute), ("start", &latencies.start)] {
            let counts = totals.of(command, part);
            for share in SHARES {
                let ns = if share == 1.0 { counts.max_ns } else { counts.quantile_ns(share) };
                let _ = writeln!(
                    out,
                    "{name}{{command=\"{}\",part=\"{}\",window=\"{window}\",quantile=\"{share}\"}} {}",
                    command.name(),
                    part.name(),
                    seconds(ns)
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::figures::tests::sample_figures;
    use command::metrics::{Recorder, Totals};
    use std::collections::{HashMap, HashSet};

    fn page() -> String {
        let recorder = Recorder::new();
        for ns in 0..2_000u64 {
            let _ = recorder.record(Command::Get, 1, [ns * 1_000, ns * 10, ns * 100_000]);
            let _ = recorder.record(Command::MetaSet, 1, [5, 6, 7]);
        }
        let start = Totals::read([&recorder]);
        let spaces = [Figures {
            namespace: segment::Namespace::DEFAULT,
            name: "default".to_owned(),
            store: Default::default(),
            room: Default::default(),
            commands: Default::default(),
        }];
        write(&sample_figures(), &Latencies { minute: start.clone(), start, minute_s: 60.0 }, &spaces)
    }

    /// Returns name, labels and value of a sample line, parsed by the format's grammar.
    fn sample(line: &str) -> (String, Vec<(String, String)>, f64) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = match series.split_once('{') {
            None => (series, ""),
            Some((name, rest)) => (name, rest.strip_suffix('}').expect("closed labels")),
        };
        assert!(name.starts_with("gannet_"), "{line}");
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{line}");
        let labels = labels.split(',').filter(|label| !label.is_empty()).map(|label| {
            let (key, value) = label.split_once('=').expect("a label has a value");
            assert!(key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{line}");
            let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).expect("quotes");
            assert!(!value.contains('"'), "{line}");
            (key.to_owned(), value.to_owned())
        });
        (name.to_owned(), labels.collect(), value.parse().expect("a number"))
    }

    #[test]
    fn prometheus_page_is_well_formed_without_duplicate_series() {
        let page = page();
        let (mut types, mut seen, mut helped) = (HashMap::new(), HashSet::new(), HashSet::new());
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(help.ends_with('.') && helped.insert(name.to_owned()), "{line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            } else {
                let (name, labels, value) = sample(line);
                assert!(seen.insert((name.clone(), labels)), "{line}");
                assert!(value.is_finite() && value >= 0.0, "{line}");
                let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
                let family = family.filter(|family| types.get(*family).is_some_and(|kind| kind == "histogram"));
                assert!(types.contains_key(family.unwrap_or(&name)), "{line}");
            }
        }
        assert!(seen.len() > 150, "only {} series", seen.len());
        assert_eq!(types.len(), helped.len());
        assert!(page.ends_with('\n'));
    }

    #[test]
    fn buckets_rise_to_the_count() {
        let page = page();
        let mut last: HashMap<String, f64> = HashMap::new();
        let mut ends = 0;
        for line in page.lines().filter(|line| line.starts_with("gannet_request_seconds_bucket")) {
            let (_, labels, value) = sample(line);
            let key = format!("{:?}", &labels[..2]);
            assert!(value >= last.insert(key, value).unwrap_or(0.0), "{line}");
            if labels[2].1 == "+Inf" {
                assert_eq!(value, 2_000.0);
                ends += 1;
            }
        }
        assert_eq!(ends, 6, "two commands of three parts");
    }
}
