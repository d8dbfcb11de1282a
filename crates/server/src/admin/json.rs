//! `/stats.json`: the figures, the latencies and the slow requests as JSON.

use serde_json::{Map, Value, json};

use super::figures::{Figure, Number};
use super::page::Latencies;
use command::keyspace::figures::Figures;
use command::metrics::{BucketCounts, Part, SlowRequest, Totals};

/// Writes the complete JSON document of `/stats.json`.
pub fn write(figures: &[Figure], latencies: &Latencies, spaces: &[Figures], slow: &[SlowRequest]) -> String {
    let figures: Map<String, Value> = figures.iter().map(|figure| (figure.name.to_owned(), value(figure))).collect();
    let document = json!({
        "figures": figures,
        "latency": {
            "minute_seconds": latencies.minute_s,
            "minute": totals(&latencies.minute),
            "start": totals(&latencies.start),
            "namespaces": {
                "minute": by_namespace(&latencies.minute, spaces),
                "start": by_namespace(&latencies.start, spaces),
            },
        },
        "slow": slow.iter().map(request).collect::<Vec<_>>(),
    });
    let mut text = document.to_string();
    text.push('\n');
    text
}

/// Writes `/histograms.json`: the times of all requests since the start, one list for each part of a request's time. An
/// entry is the greatest value of a bucket, in ns, and the number of requests in this bucket. The difference of two
/// readings covers the time between the two readings.
pub fn histograms(start: &Totals) -> String {
    let part = |part: Part| {
        let mut all = BucketCounts::default();
        start.commands().for_each(|command| all.join(start.of(command, part)));
        (part.name().to_owned(), all.filled().map(|(ns, count)| json!([ns, count])).collect::<Value>())
    };
    Value::Object(Part::ALL.into_iter().map(part).collect()).to_string() + "\n"
}

/// Encodes a figure as JSON: one number, or objects nested by label. A histogram's samples nest by suffix after the
/// other labels, and then by `le`.
fn value(figure: &Figure) -> Value {
    let mut root = Value::Null;
    for sample in &figure.samples {
        let mut place = &mut root;
        let what = sample.suffix.trim_start_matches('_');
        let by = figure.labels.iter().filter(|label| **label != "le").count().min(sample.labels.len());
        let path = sample.labels[..by].iter().map(String::as_str).chain((!what.is_empty()).then_some(what));
        for step in path.chain(sample.labels[by..].iter().map(String::as_str)) {
            place = &mut place[step];
        }
        *place = match sample.number {
            Number::Count(count) => json!(count),
            Number::Real(real) => json!(real),
        };
    }
    root
}

fn totals(totals: &Totals) -> Value {
    let parts = |command| {
        let part = |part: Part| (part.name().to_owned(), counts(totals.of(command, part)));
        Value::Object(Part::ALL.into_iter().map(part).collect())
    };
    totals.commands().map(|command| (command.name().to_owned(), parts(command))).collect::<Map<_, _>>().into()
}

fn by_namespace(totals: &Totals, spaces: &[Figures]) -> Value {
    let parts = |space: &Figures| {
        let part = |part: Part| (part.name().to_owned(), counts(&totals.of_namespace(space.namespace, part)));
        Value::Object(Part::ALL.into_iter().map(part).collect())
    };
    spaces.iter().map(|space| (space.name.clone(), parts(space))).collect::<Map<_, _>>().into()
}

fn counts(counts: &BucketCounts) -> Value {
    json!({
        "count": counts.count,
        "mean_ns": counts.mean_ns(),
        "p50_ns": counts.quantile_ns(0.5),
        "p99_ns": counts.quantile_ns(0.99),
        "p999_ns": counts.quantile_ns(0.999),
        "max_ns": counts.max_ns,
    })
}

fn request(slow: &SlowRequest) -> Value {
    json!({
        "at_unix_ms": slow.at.0,
        "worker": slow.worker,
        "command": slow.command.name(),
        "line": slow.line.to_string(),
        "client": slow.client.to_string(),
        "client_name": String::from_utf8_lossy(slow.client.name()),
        "wait_ns": slow.wait_ns,
        "execute_ns": slow.execute_ns,
        "send_ns": slow.send_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::figures::tests::sample_figures;

    #[test]
    fn every_sample_of_every_figure_has_a_place_of_its_own() {
        fn leaves(value: &Value) -> usize {
            value.as_object().map_or(1, |object| object.values().map(leaves).sum())
        }
        for figure in sample_figures() {
            assert_eq!(leaves(&value(&figure)), figure.samples.len(), "{}", figure.name);
        }
        let slices = sample_figures().into_iter().find(|f| f.name == "gannet_background_slice_seconds").unwrap();
        assert_eq!(value(&slices)["evict"]["bucket"]["+Inf"], 0);
        assert_eq!(value(&slices)["populate"]["sum"], 0.0);
    }
}
