//! Formats a result in the Prometheus text format.

use std::fmt::Write;

use super::{Connections, Latencies, ReplyCounts, RunResult, TlsSessions};

/// Returns the metrics of a result.
pub fn text(result: &RunResult) -> String {
    let mut out = String::new();
    let figures = &result.figures;
    let gauge = |out: &mut String, name: &str, help: &str, value: f64| {
        let _ = write!(out, "# HELP gannet_load_{name} {help}\n# TYPE gannet_load_{name} gauge\n");
        let _ = writeln!(out, "gannet_load_{name} {value}");
    };
    gauge(
        &mut out,
        "valid",
        "1 if the figures describe the server; 0 if the run is invalid.",
        f64::from(result.invalid.is_none()),
    );
    gauge(&mut out, "whole", "1 if the run was complete.", f64::from(result.partial.is_none()));
    gauge(&mut out, "offered_per_second", "Requests that were due, per second.", figures.offered_per_s);
    gauge(&mut out, "achieved_per_second", "Replies per second.", figures.achieved_per_s);
    if let Some(search) = &result.search {
        let answer = search.answer_per_s.unwrap_or(0.0);
        gauge(
            &mut out,
            "answer_per_second",
            "The highest rate that met the objectives, in requests per second.",
            answer,
        );
        for (name, value) in [("lower", search.lower_per_s), ("upper", search.upper_per_s)] {
            if let Some(value) = value {
                let help = "Bound of the interval in which the highest rate lies, in requests per second.";
                gauge(&mut out, &format!("answer_{name}_per_second"), help, value);
            }
        }
    }
    counts(&mut out, &figures.counts);
    secured(&mut out, &figures.connections);
    out.push_str(
        "# HELP gannet_load_response_quantile_seconds Response time from the intended instant; quantile 1: maximum.\n",
    );
    out.push_str("# TYPE gannet_load_response_quantile_seconds gauge\n");
    quantiles(&mut out, "response", "verb=\"\",outcome=\"\"", &figures.response);
    for group in &figures.verbs {
        let labels = format!("verb=\"{}\",outcome=\"{}\"", escape(&group.name), escape(&group.outcome));
        quantiles(&mut out, "response", &labels, &group.response);
    }
    out.push_str("# HELP gannet_load_service_quantile_seconds Service time from the send; quantile 1: maximum.\n");
    out.push_str("# TYPE gannet_load_service_quantile_seconds gauge\n");
    quantiles(&mut out, "service", "verb=\"\",outcome=\"\"", &figures.service);
    out
}

/// Writes the number and duration of TLS handshakes.
fn secured(out: &mut String, connections: &Connections) {
    if connections.tls.is_empty() {
        return;
    }
    out.push_str(
        "# HELP gannet_load_tls_handshakes_total TLS handshakes.\n# TYPE gannet_load_tls_handshakes_total counter\n",
    );
    for TlsSessions { version, cipher, full, resumed } in &connections.tls {
        for (kind, count) in [("full", full), ("resumed", resumed)] {
            let labels = format!("version=\"{}\",cipher=\"{}\",kind=\"{kind}\"", escape(version), escape(cipher));
            let _ = writeln!(out, "gannet_load_tls_handshakes_total{{{labels}}} {count}");
        }
    }
    out.push_str(
        "# HELP gannet_load_tls_handshake_quantile_seconds Duration of TLS handshakes; quantile 1: maximum.\n# TYPE \
         gannet_load_tls_handshake_quantile_seconds gauge\n",
    );
    quantiles(out, "tls_handshake", "verb=\"\",outcome=\"\"", &connections.handshake);
}

/// Writes the counts as counters.
pub fn counts(out: &mut String, counts: &ReplyCounts) {
    for (name, help, value) in [
        ("requests_due_total", "Requests that were due.", counts.due),
        ("requests_answered_total", "Requests with a reply.", counts.answered),
        ("requests_unanswered_total", "Requests that were due and got no reply.", counts.unanswered),
        ("hits_total", "Reads that found their key, and writes that succeeded.", counts.hits),
        ("misses_total", "Reads that did not find their key, and writes whose condition failed.", counts.misses),
        ("errors_total", "Replies that are errors.", counts.errors),
        ("wrong_values_total", "Replies with a wrong value for the key.", counts.wrong),
        ("late_for_room_total", "Requests sent late because no connection had room.", counts.late_for_room),
        ("late_by_generator_total", "Requests sent late because of the generator.", counts.late_by_generator),
        ("connects_total", "Connections that were opened.", counts.connects),
        ("sent_bytes_total", "Bytes sent.", counts.sent_bytes),
        ("received_bytes_total", "Bytes received.", counts.received_bytes),
    ] {
        let _ = write!(out, "# HELP gannet_load_{name} {help}\n# TYPE gannet_load_{name} counter\n");
        let _ = writeln!(out, "gannet_load_{name} {value}");
    }
}

/// Writes the quantiles of `latencies`, one per line.
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
