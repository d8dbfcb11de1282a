//! `/stats.json`: the figures, the latencies and the slow requests for programs.

use serde_json::{Map, Value, json};

use super::figures::{Figure, Number};
use super::page::Latencies;
use crate::metrics::{Counts, Part, SlowRequest, Totals};

/// The whole document.
pub fn write(figures: &[Figure], latencies: &Latencies, slow: &[SlowRequest]) -> String {
    let figures: Map<String, Value> = figures.iter().map(|figure| (figure.name.to_owned(), value(figure))).collect();
    let document = json!({
        "figures": figures,
        "latency": {
            "minute_seconds": latencies.minute_s,
            "minute": totals(&latencies.minute),
            "start": totals(&latencies.start),
        },
        "slow": slow.iter().map(request).collect::<Vec<_>>(),
    });
    let mut text = document.to_string();
    text.push('\n');
    text
}

/// One number, or an object of them by label.
fn value(figure: &Figure) -> Value {
    let number = |number: &Number| match number {
        Number::Count(count) => json!(count),
        Number::Real(real) => json!(real),
    };
    match figure.samples.as_slice() {
        [sample] if figure.label.is_none() => number(&sample.number),
        samples => {
            let mut object = Map::new();
            for sample in samples {
                let value = number(&sample.number);
                match (sample.suffix.trim_start_matches('_'), sample.label.clone()) {
                    ("", label) => drop(object.insert(label.unwrap_or_default(), value)),
                    (suffix, None) => drop(object.insert(suffix.to_owned(), value)),
                    (suffix, Some(label)) => object.entry(suffix).or_insert_with(|| json!({}))[label] = value,
                }
            }
            object.into()
        }
    }
}

fn totals(totals: &Totals) -> Value {
    let parts = |command| {
        let part = |part: Part| (part.name().to_owned(), counts(totals.of(command, part)));
        Value::Object(Part::ALL.into_iter().map(part).collect())
    };
    totals.commands().map(|command| (command.name().to_owned(), parts(command))).collect::<Map<_, _>>().into()
}

fn counts(counts: &Counts) -> Value {
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
        "wait_ns": slow.wait_ns,
        "execute_ns": slow.execute_ns,
        "send_ns": slow.send_ns,
    })
}
