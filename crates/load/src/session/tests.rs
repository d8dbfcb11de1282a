use super::*;
use crate::engine::Load;
use crate::fake::{FakeServer, OneKeyRequests};
use crate::result::Arrivals;
use crate::schedule::SendPlan;
use link::Address;

#[derive(Default)]
struct Seen {
    progress: usize,
    steps: Vec<StepResult>,
}

impl View for Seen {
    fn progress(&mut self, _: &RunProgress) {
        self.progress += 1;
    }
    fn step(&mut self, step: &StepResult) {
        self.steps.push(step.clone());
    }
}

fn job(address: &str, mode: Mode) -> Job {
    let load = if matches!(mode, Mode::Closed) { Load::Closed } else { Load::Open(SendPlan::poisson()) };
    let config = Config {
        targets: vec![address.parse::<Address>().unwrap()],
        connections: 4,
        load,
        duration_ns: 600_000_000,
        slice_ns: 100_000_000,
        ..Config::default()
    };
    let conditions = |text: &str| Condition::parse_list(text).unwrap();
    Job {
        known: RunResult::new("test"),
        config,
        mode,
        objectives: conditions("p999=10s"),
        assertions: conditions("rate>1,max<1ns"),
        sources: vec![Box::new(crate::timeline::host::Host::default())],
    }
}

fn session(job: Job, run_control: &RunControl, seen: &mut Seen) -> Result<RunResult, Error> {
    run(job, |_| OneKeyRequests::new(16), run_control, seen)
}

/// A run that ends at a number of requests may be much shorter than a slice of the timeline.
#[test]
fn rate_of_a_run_within_one_slice_is_that_of_its_own_time() {
    let server = FakeServer::start(None, 16, None).unwrap();
    let mut job = job(&server.target().to_string(), Mode::Closed);
    (job.config.requests_max, job.config.slice_ns, job.config.duration_ns) =
        (Some(300), 20_000_000_000, 60_000_000_000);
    let figures = session(job, &RunControl::default(), &mut Seen::default()).unwrap().figures;
    assert_eq!(figures.counts.answered, 300);
    let rate = 300.0 / figures.duration_s;
    assert!((figures.achieved_per_s / rate - 1.0).abs() < 0.01, "{} and {rate}", figures.achieved_per_s);
}

#[test]
fn a_run_at_a_rate_is_filed_whole() {
    let server = FakeServer::start(None, 16, None).unwrap();
    let mut seen = Seen::default();
    let job = job(&server.target().to_string(), Mode::AtRate(Rate::new(500.0)));
    let result = session(job, &RunControl::default(), &mut seen).unwrap();
    let figures = &result.figures;
    assert!(figures.counts.due > 50 && figures.counts.due == figures.counts.answered + figures.counts.unanswered);
    assert_eq!(figures.response.count, figures.counts.due);
    let by_verb: u64 = figures.verbs.iter().map(|group| group.response.count).sum();
    assert_eq!(by_verb, figures.counts.answered, "{:?}", figures.verbs);
    let of_intervals: u64 = result.intervals.iter().map(|interval| interval.response.count).sum();
    assert!(of_intervals > 0 && result.intervals.iter().any(|interval| !interval.response.histogram.is_empty()));
    assert_eq!(result.partial, None);
    assert!(result.verdict.headline.contains("met its objectives: p999 at most 10 s"), "{}", result.verdict.headline);
    let held: Vec<bool> = result.assertions.iter().map(|assertion| assertion.held).collect();
    assert_eq!(held, [true, false]);
    let again = RunResult::from_json(&result.to_json()).unwrap();
    assert!(again == result, "the written result parses to an equal result");
    let measured = result.intervals.iter().filter(|interval| !interval.response.histogram.is_empty());
    let measured_s: f64 = measured.map(|interval| interval.duration_s).sum();
    assert!((measured_s - 0.6).abs() < 1e-6, "the whole of the measured part has histograms: {measured_s}");
}

#[test]
fn search_with_every_objective_met_ends_at_maximum_rate() {
    let server = FakeServer::start(None, 16, None).unwrap();
    let settings = SearchSettings {
        objectives: Condition::parse_list("p50=30s").unwrap(),
        start: Rate::new(200.0),
        rate_max: Rate::new(800.0),
        throughput_min: 0.0,
        trial: Duration::from_millis(200),
        warm_up: Duration::from_millis(100),
        ..SearchSettings::default()
    };
    let mut seen = Seen::default();
    let run_control = RunControl::default();
    let result = session(job(&server.target().to_string(), Mode::Search(settings)), &run_control, &mut seen).unwrap();
    let search = result.search.as_ref().unwrap();
    assert_eq!((search.end.as_str(), search.answer_per_s), ("kept at max", Some(800.0)));
    let rates: Vec<f64> = search.steps.iter().map(|step| step.rate_per_s).collect();
    assert_eq!(rates, [200.0, 400.0, 800.0]);
    assert_eq!(seen.steps, search.steps);
    assert_eq!(result.figures.response.count, search.steps[2].response.count, "the figures are those at the answer");
    assert!(search.steps.windows(2).all(|pair| pair[0].at_s < pair[1].at_s));
    assert!(result.verdict.headline.starts_with("at least 800/s with p50 at most 30 s"));
    assert_eq!(run_control.set_rate(Rate::new(5.0)), Err(RateRefused::Searching));
}

#[test]
fn stopped_session_retains_measurements_and_is_marked_partial() {
    let server = FakeServer::start(None, 16, None).unwrap();
    let (run_control, mut seen) = (RunControl::default(), Seen::default());
    let mut job = job(&server.target().to_string(), Mode::AtRate(Rate::new(200.0)));
    job.config.duration_ns = 600_000_000_000;
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            let patience = Instant::now() + Duration::from_secs(30);
            while run_control.live().is_none_or(|(_, live)| live.totals.answered < 20) && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(5));
            }
            run_control.set_rate(Rate::new(300.0)).unwrap();
            run_control.stop();
        });
        session(job, &run_control, &mut seen).unwrap()
    });
    assert!(result.partial.as_ref().unwrap().contains("stopped"));
    assert!(result.figures.counts.answered >= 20 && result.elapsed_s < 300.0);
}

#[test]
fn closed_loop_verdict_is_labelled_closed_loop() {
    let server = FakeServer::start(None, 16, None).unwrap();
    let mut job = job(&server.target().to_string(), Mode::Closed);
    job.known.arrivals = Arrivals::Closed { depth: 1 };
    let result = session(job, &RunControl::default(), &mut Seen::default()).unwrap();
    assert!(result.verdict.headline.starts_with("closed loop, "), "{}", result.verdict.headline);
    assert!(result.figures.achieved_per_s > 10.0);
}

#[test]
fn a_target_that_refuses_is_an_error_and_no_result() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for mode in [
        Mode::AtRate(Rate::new(10.0)),
        Mode::Search(SearchSettings { warm_up: Duration::ZERO, ..SearchSettings::default() }),
    ] {
        let error = session(job(&address, mode), &RunControl::default(), &mut Seen::default()).unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error}");
    }
}

#[test]
fn consecutive_rates_are_steps_without_objective() {
    let server = FakeServer::start(None, 16, None).unwrap();
    let rates: Vec<Rate> = [400.0, 200.0, 600.0].map(Rate::new).to_vec();
    let mode = Mode::Steps(Stepped { rates, each: Duration::from_millis(200) });
    let mut seen = Seen::default();
    let result = session(job(&server.target().to_string(), mode), &RunControl::default(), &mut seen).unwrap();
    let search = result.search.as_ref().unwrap();
    let rates: Vec<f64> = search.steps.iter().map(|step| step.rate_per_s).collect();
    assert_eq!((rates, search.end.as_str(), search.answer_per_s), (vec![400.0, 200.0, 600.0], "stepped", None));
    assert!(search.steps.iter().all(|step| step.passed) && seen.steps == search.steps);
    let of_steps: u64 = search.steps.iter().map(|step| step.response.count).sum();
    assert_eq!(result.figures.response.count, of_steps, "the figures are those of all rates");
    let headline = &result.verdict.headline;
    assert!(headline.starts_with("3 rates from 200/s to 600/s, 0.2 s each: "), "{headline}");
    assert_eq!((result.partial, result.is_broken), (None, false));
    assert!(result.verdict.notes.is_empty(), "{:?}", result.verdict.notes);
}

#[test]
fn stop_between_rates_reports_number_of_rates_run() {
    let server = FakeServer::start(None, 16, None).unwrap();
    let mode = Mode::Steps(Stepped { rates: vec![Rate::new(100.0); 3], each: Duration::from_millis(100) });
    let run_control = RunControl::default();
    run_control.stop();
    let result = session(job(&server.target().to_string(), mode), &run_control, &mut Seen::default()).unwrap();
    assert_eq!(result.partial.as_deref(), Some("the session was stopped after 0 of 3 rates"));
    assert_eq!(result.verdict.headline, "none of the 3 rates was run");
}

#[test]
fn late_generator_is_reported_with_remedy_once_and_marked_per_line() {
    let server = FakeServer::start(None, 16, None).unwrap();
    let settings = SearchSettings {
        objectives: Condition::parse_list("max<1ns").unwrap(),
        start: Rate::new(300.0),
        trial: Duration::from_millis(150),
        warm_up: Duration::ZERO,
        ..SearchSettings::default()
    };
    let mut seen = Seen::default();
    let mut job = job(&server.target().to_string(), Mode::Search(settings));
    job.config.lateness_ns_max = 0;
    let result = session(job, &RunControl::default(), &mut seen).unwrap();
    let search = result.search.as_ref().unwrap();
    assert_eq!((search.end.as_str(), &seen.steps), ("generator limited", &search.steps));
    assert!(result.invalid.as_ref().unwrap().contains("pin the threads"), "{:?}", result.invalid);
    for step in &search.steps {
        let cause = step.generator_limit.as_ref().unwrap();
        assert!(cause.contains("late by ") && !cause.contains("pin"), "{cause}");
    }
}

/// A server is busy while a trial breaks its objective. The test covers a trial that the generator limited and a trial
/// that it did not limit.
#[test]
fn server_load_is_not_called_the_limit_when_generator_is_limited() {
    let of = |invalid: Option<&str>| {
        let step = StepResult { number: 1, at_s: 1.0, duration_s: 2.0, ..StepResult::default() };
        let busy = crate::result::Timeline {
            source: "server".to_owned(),
            name: "CPU use of the busiest thread".to_owned(),
            unit: "share".to_owned(),
            points: vec![(0.5, 0.1), (1.5, 1.0), (2.5, 1.0)],
        };
        let mut result = RunResult {
            invalid: invalid.map(str::to_owned),
            search: Some(SearchResult { steps: vec![step], ..SearchResult::default() }),
            timelines: vec![busy],
            ..RunResult::new("test")
        };
        verdict::finish(&job("127.0.0.1:1", Mode::Search(SearchSettings::default())), &mut result);
        result.verdict
    };
    assert!(of(None).limit.unwrap().what.contains("the server's busiest thread"));
    let limited = of(Some("GENERATOR LIMITED: late"));
    assert!(limited.limit.is_none() && limited.notes.is_empty(), "{limited:?}");
}
