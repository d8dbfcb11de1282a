//! A result in the Prometheus text format.

use std::fmt::Write;

use super::{Connections, Counts, Latencies, RunResult, TlsSessions};

/// Everything worth a graph.
pub fn text(result: &RunResult) -> String {
    let mut out = String::new();
    let figures = &result.figures;
    let gauge = |out: &mut String, name: &str, help: &str, value: f64| {
        let _ = write!(out, "# HELP gannet_load_{name} {help}\n# TYPE gannet_load_{name} gauge\n");
        let _ = writeln!(out, "gannet_load_{name} {value}");
    };
    gauge(&mut out, "valid", "1 if the figures say something about the server.", f64::from(result.invalid.is_none()));
    gauge(&mut out, "whole", "1 if the run came to its end.", f64::from(result.partial.is_none()));
    gauge(&mut out, "offered_per_second", "Requests that were due, a second.", figures.offered_per_s);
    gauge(&mut out, "achieved_per_second", "Answers, a second.", figures.achieved_per_s);
    if let Some(search) = &result.search {
        let answer = search.answer_per_s.unwrap_or(0.0);
        gauge(&mut out, "answer_per_second", "The highest rate that kept the objectives.", answer);
        for (name, value) in [("lower", search.lower_per_s), ("upper", search.upper_per_s)] {
            if let Some(value) = value {
                let help = "An end of the answer's interval.";
                gauge(&mut out, &format!("answer_{name}_per_second"), help, value);
            }
        }
    }
    counts(&mut out, &figures.counts);
    secured(&mut out, &figures.connections);
    out.push_str(
        "# HELP gannet_load_response_quantile_seconds Response time from the intended instant; 1 is the maximum.\n",
    );
    out.push_str("# TYPE gannet_load_response_quantile_seconds gauge\n");
    quantiles(&mut out, "response", "verb=\"\",outcome=\"\"", &figures.response);
    for group in &figures.verbs {
        let labels = format!("verb=\"{}\",outcome=\"{}\"", escape(&group.name), escape(&group.outcome));
        quantiles(&mut out, "response", &labels, &group.response);
    }
    out.push_str("# HELP gannet_load_service_quantile_seconds Service time from the send; 1 is the maximum.\n");
    out.push_str("# TYPE gannet_load_service_quantile_seconds gauge\n");
    quantiles(&mut out, "service", "verb=\"\",outcome=\"\"", &figures.service);
    out
}

/// Handshakes and what they took, of secured connections.
fn secured(out: &mut String, connections: &Connections) {
    if connections.tls.is_empty() {
        return;
    }
    out.push_str(
        "# HELP gannet_load_tls_handshakes_total Connections that were secured.\n\
         # TYPE gannet_load_tls_handshakes_total counter\n",
    );
    for TlsSessions { version, cipher, full, resumed } in &connections.tls {
        for (kind, count) in [("full", full), ("resumed", resumed)] {
            let labels = format!("version=\"{}\",cipher=\"{}\",kind=\"{kind}\"", escape(version), escape(cipher));
            let _ = writeln!(out, "gannet_load_tls_handshakes_total{{{labels}}} {count}");
        }
    }
    out.push_str(
        "# HELP gannet_load_tls_handshake_quantile_seconds What handshakes took; 1 is the maximum.\n\
         # TYPE gannet_load_tls_handshake_quantile_seconds gauge\n",
    );
    quantiles(out, "tls_handshake", "verb=\"\",outcome=\"\"", &connections.handshake);
}

/// Counts as counters.
pub fn counts(out: &mut String, counts: &Counts) {
    for (name, help, value) in [
        ("requests_due_total", "Requests that were due.", counts.due),
        ("requests_answered_total", "Requests with an answer.", counts.answered),
        ("requests_unanswered_total", "Requests that were due and have no answer.", counts.unanswered),
        ("hits_total", "Reads that found their key and writes that were done.", counts.hits),
        ("misses_total", "Reads that found nothing, and writes whose condition did not hold.", counts.misses),
        ("errors_total", "Answers that are errors.", counts.errors),
        ("wrong_values_total", "Values that are not what their key says.", counts.wrong),
        ("late_for_room_total", "Requests sent late since no connection had room.", counts.late_for_room),
        ("late_by_generator_total", "Requests that the generator sent late.", counts.late_by_generator),
        ("connects_total", "Connections that were made.", counts.connects),
        ("sent_bytes_total", "Bytes sent.", counts.sent_bytes),
        ("received_bytes_total", "Bytes received.", counts.received_bytes),
    ] {
        let _ = write!(out, "# HELP gannet_load_{name} {help}\n# TYPE gannet_load_{name} counter\n");
        let _ = writeln!(out, "gannet_load_{name} {value}");
    }
}

/// The quantiles of `latencies`, a line each.
pub fn quantiles(out: &mut String, what: &str, labels: &str, latencies: &Latencies) {
    let quantiles = [
        ("0.5", latencies.p50_ns),
        ("0.9", latencies.p90_ns),
        ("0.99", latencies.p99_ns),
        ("0.999", latencies.p999_ns),
        ("0.9999", latencies.p9999_ns),
        ("1", latencies.max_ns),
    ];
    for (quantile, ns) in quantiles {
        let seconds = ns as f64 / 1e9;
        let _ = writeln!(out, "gannet_load_{what}_quantile_seconds{{{labels},quantile=\"{quantile}\"}} {seconds}");
    }
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
