use super::*;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

/// Returns a result with values in all parts. Its times are multiplied by `scale`.
pub fn sample(scale: u64) -> RunResult {
    let times = |from: u64| {
        let mut histogram = latencies::empty();
        for n in 0..10_000u64 {
            histogram.record((from + n * n / 100) * scale).unwrap();
        }
        Latencies::of(&histogram)
    };
    let group = |name: &str, outcome: &str, from| Group {
        name: name.to_owned(),
        outcome: outcome.to_owned(),
        response: times(from),
        service: times(from / 2),
    };
    let mut result = RunResult::new("sample");
    result.verdict.headline = "96,400/s with p999 at most 2 ms".to_owned();
    result.verdict.limit = Some(Limit {
        what: "the server's busiest thread was at 99 % CPU".to_owned(),
        timeline: "server/thread cpu".to_owned(),
        at_s: 4.0,
        then: vec!["softirq".to_owned()],
    });
    result.started_at_unix_ms = 1_700_000_000_000;
    result.elapsed_s = 12.0;
    result.targets =
        vec![Target { address: "127.0.0.1:11211".into(), protocol: "memcache".into(), server: Some("1.6".into()) }];
    result.tls = Some(Tls::from(&link::tls::TlsSettings::default()));
    result.objectives = vec!["p999 at most 2 ms".to_owned()];
    result.objective_line = Some(ObjectiveLine { share: 0.999, limit_ns: 2_000_000 });
    let counts =
        ReplyCounts { due: 10_000, answered: 10_000, hits: 9_000, misses: 990, errors: 10, ..ReplyCounts::default() };
    result.figures = Figures {
        duration_s: 5.0,
        offered_per_s: 96_400.0,
        achieved_per_s: 96_399.0,
        counts,
        response: times(40_000),
        service: times(30_000),
        verbs: vec![group("get", "hit", 40_000), group("get", "miss", 20_000), group("set", "done", 60_000)],
        sizes: vec![group("up to 256 B", "", 40_000)],
        sampler: Some(times(35_000)),
        connections: Connections {
            time: times(300_000),
            handshake: times(200_000),
            tls: vec![TlsSessions {
                version: "TLS 1.3".into(),
                cipher: "TLS13_AES_256_GCM_SHA384".into(),
                full: 50,
                resumed: 7,
            }],
        },
        faults: vec![FaultCount {
            name: "timeout".into(),
            count: 2,
            first: "127.0.0.1:1 gave no answer in 1 s".into(),
        }],
        generator: Generator {
            lateness: times(100),
            threads: vec![GeneratorThread {
                name: "load-0".into(),
                cpu: Some(3),
                cpu_share: 0.62,
                waiting_share: 0.01,
                involuntary_switches: 3,
            }],
        },
        agents: Vec::new(),
    };
    let second = |n: u64| Interval {
        at_s: n as f64,
        duration_s: 1.0,
        target_per_s: 1000.0 * 2f64.powi(n as i32),
        achieved_per_s: 999.0 * 2f64.powi(n as i32),
        errors: n,
        response: times(40_000 + 1000 * n * n),
    };
    result.intervals = (0..8).map(second).collect();
    result.timelines = vec![
        Timeline {
            source: "server".into(),
            name: "thread cpu".into(),
            unit: "share".into(),
            points: (0..8).map(|n| (f64::from(n), f64::from(n) / 8.0)).collect(),
        },
        Timeline {
            source: "host".into(),
            name: "softirq".into(),
            unit: "share".into(),
            points: (0..8).map(|n| (f64::from(n), 0.01 * f64::from(n))).collect(),
        },
    ];
    let step = |number: u32, phase: &str, rate: f64, passed: bool| StepResult {
        number,
        phase: phase.to_owned(),
        rate_per_s: rate,
        offered_per_s: rate,
        achieved_per_s: rate,
        passed,
        broken: if passed { Vec::new() } else { vec!["p999 is 4 ms".to_owned()] },
        response: times((rate as u64).pow(2) / 20_000),
        ..StepResult::default()
    };
    result.search = Some(SearchResult {
        end: "found".into(),
        answer_per_s: Some(96_400.0),
        lower_per_s: Some(95_000.0),
        upper_per_s: Some(98_000.0),
        confidence: Some(0.9375),
        method: "rise, bisection, repeats".into(),
        steps: vec![
            step(1, "rise", 50_000.0, true),
            step(2, "rise", 100_000.0, false),
            step(3, "bisect", 96_400.0, true),
            step(4, "confirm", 96_400.0, true),
            step(5, "confirm", 98_000.0, false),
        ],
        first_broken: Some(5),
    });
    result.assertions = vec![Assertion { condition: "p999 below 2 ms".into(), value: "1.04 ms".into(), held: true }];
    result.arguments = ["gannet", "load", "--slo", "p999=2ms"].map(str::to_owned).to_vec();
    result.configuration.insert("connections".to_owned(), "50".to_owned());
    result.workload = Some("[keys]\ncount = 1000 # <script>alert(1)</script>\n".to_owned());
    result.machine.cpus = 2;
    result
}

#[test]
fn run_result_round_trips_through_json() {
    let result = sample(1);
    let again = RunResult::from_json(&result.to_json()).unwrap();
    assert!(again == result);
    let histogram = again.figures.response.histogram().unwrap();
    assert_eq!((histogram.len(), Latencies::of(&histogram)), (10_000, result.figures.response));
}

#[test]
fn invalid_result_file_is_rejected_with_reason() {
    let refused = |text: &str| RunResult::from_json(text).unwrap_err();
    assert!(refused("{").contains("not JSON"));
    assert!(refused("{\"a\":1}").contains("not the result"));
    let newer = sample(1).to_json().replace("\"version\":1", "\"version\":2");
    assert!(refused(&newer).contains("version 2"), "{}", refused(&newer));
    let extra = sample(1).to_json().replace("\"elapsed_s\"", "\"elapsed\"");
    assert!(refused(&extra).contains("damaged"));
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/load/result.schema.json");
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert!(published == schema(), "run: cargo run -p gannet -- load schema > docs/load/result.schema.json");
}

#[test]
fn results_add_up_exactly() {
    let (a, b) = (sample(1).figures.response, sample(3).figures.response);
    let both = Latencies::together([&a, &b]);
    assert_eq!((both.count, both.max_ns, both.min_ns), (20_000, b.max_ns, a.min_ns));
    assert!(a.p50_ns < both.p50_ns && both.p50_ns < b.p50_ns);
    assert_eq!(Latencies::together([]), Latencies::default());
}

#[test]
fn interval_log_is_readable_by_hdr_tools() {
    let result = sample(1);
    let log = hdr::log(&result);
    let mut histograms = Vec::new();
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        if let LogEntry::Interval(interval) = entry.expect("a well-formed line") {
            histograms.push((interval.start_timestamp().as_secs(), interval.encoded_histogram().to_owned()));
        }
    }
    assert_eq!(histograms.len(), 8);
    for (second, text) in histograms {
        let histogram = hdr::decode(&text).expect("a histogram");
        assert_eq!(Latencies::of(&histogram), result.intervals[second as usize].response);
    }
}

#[test]
fn tables_have_as_many_cells_as_heads() {
    let result = sample(1);
    for (table, rows) in [(csv::intervals(&result), 8), (csv::steps(&result), 5)] {
        let widths: Vec<usize> = table.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(widths.len(), rows + 1);
        assert!(widths.iter().all(|width| *width == widths[0]), "{table}");
    }
}

#[test]
fn metrics_have_unique_types_and_escaped_labels() {
    let mut result = sample(1);
    result.figures.verbs[0].name = "a\"b\n".to_owned();
    let text = metrics::text(&result);
    let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let mut unique = types.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(types.len(), unique.len());
    assert!(text.contains("verb=\"a\\\"b\\n\",outcome=\"hit\",quantile=\"0.999\""), "{text}");
    assert!(text.contains("gannet_load_answer_per_second 96400\n"));
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
    }
}
