//! Runs the search against a model of a server with known capacity: one queue, one worker, replies in order of arrival.

use base::prng::Prng;

use super::*;

/// A queue with one worker, by Lindley's recursion: a request waits for the work that remains when it arrives.
struct QueueModel {
    prng: Prng,
    service: Service,
    /// One trial in this number has a stall of 20 ms in its middle; 0 for no stalls.
    stall_every: u64,
    generator_max_per_s: f64,
    trials: u64,
    asked_s: f64,
}

enum Service {
    /// Every request takes the same time.
    Fixed { ns: f64 },
    /// The times are exponentially distributed with this mean.
    Exponential { ns: f64 },
}

impl QueueModel {
    fn new(seed: u64, service: Service) -> Self {
        Self { prng: Prng::new(seed), service, stall_every: 0, generator_max_per_s: f64::MAX, trials: 0, asked_s: 0.0 }
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.prng.unit()).ln()
    }
}

impl Trial for QueueModel {
    fn run(&mut self, ask: TrialRequest) -> Result<Observed, Stop> {
        self.trials += 1;
        self.asked_s += ask.duration.as_secs_f64();
        let stalls = self.stall_every > 0 && self.prng.chance(1, self.stall_every);
        let (end_ns, gap_ns) = (ask.duration.as_nanos() as f64, 1e9 / ask.rate.per_s());
        let mut response_ns = Histogram::new_with_bounds(1, 100_000_000_000, 3).unwrap();
        let mut due = 0u64;
        let (mut now, mut free_at, mut answered_in_time) = (0.0, 0.0f64, 0u64);
        let mut stall_at = if stalls { end_ns / 2.0 } else { f64::MAX };
        loop {
            now += self.exponential(gap_ns);
            if now >= end_ns {
                break;
            }
            due += 1;
            if now >= stall_at {
                free_at = free_at.max(now) + 20e6;
                stall_at = f64::MAX;
            }
            let service = match self.service {
                Service::Fixed { ns } => ns,
                Service::Exponential { ns } => self.exponential(ns),
            };
            free_at = free_at.max(now) + service;
            answered_in_time += u64::from(free_at <= end_ns);
            response_ns.saturating_record((free_at - now) as u64);
        }
        let limited = ask.rate.per_s() > self.generator_max_per_s;
        Ok(Observed {
            began_s: self.asked_s - ask.duration.as_secs_f64(),
            offered_per_s: due as f64 / ask.duration.as_secs_f64(),
            achieved_per_s: answered_in_time as f64 / ask.duration.as_secs_f64() * if limited { 0.5 } else { 1.0 },
            answered: response_ns.len(),
            unanswered: 0,
            errors: 0,
            misses: 0,
            response_ns,
            generator_limit: limited.then(|| "one thread is at 100 % CPU".to_owned()),
        })
    }
}

fn settings(slo: &str) -> SearchSettings {
    SearchSettings {
        objectives: Condition::parse_list(slo).unwrap(),
        trial: Duration::from_secs(5),
        warm_up: Duration::from_secs(1),
        ..SearchSettings::default()
    }
}

/// Returns the capacity of a queue with exponential service times of rate mu. With Poisson arrivals of rate lambda the
/// response time is exponential with rate mu - lambda. So p999 is at most T if lambda is at most mu - ln(1000) / T.
fn capacity_per_s(mu: f64, limit_s: f64) -> f64 {
    mu - 1000f64.ln() / limit_s
}

#[test]
fn search_finds_capacity_of_noisy_queue_within_three_percent() {
    let truth = capacity_per_s(20_000.0, 2e-3);
    let mut covered = 0;
    for seed in 1..=12 {
        let mut queue = QueueModel::new(seed, Service::Exponential { ns: 50_000.0 });
        let found = search(&settings("p999=2ms"), &mut queue, &mut |_| {});
        assert_eq!(found.end, End::Found, "seed {seed}");
        let answer = found.answer.unwrap();
        assert!((answer.per_s() / truth - 1.0).abs() < 0.03, "seed {seed}: {answer} and not {truth}");
        let Interval { lower, upper, confidence } = found.interval.unwrap();
        assert!(lower <= answer && answer < upper, "seed {seed}: {lower} {answer} {upper}");
        assert!(lower.per_s() > truth * 0.9 && upper.per_s() < truth * 1.1, "seed {seed}: {lower} to {upper}");
        covered += u32::from(lower.per_s() <= truth && truth <= upper.per_s());
        assert_eq!(confidence, Some(0.9375));
        assert!(found.at_answer().len() >= 3, "seed {seed}");
        assert!(found.at_answer().iter().all(|step| step.ask.phase == TrialPhase::Confirm), "seed {seed}");
        assert!(found.first_broken().unwrap().ask.rate > answer);
    }
    assert!(covered >= 11, "the truth is in {covered} of 12 intervals");
}

#[test]
fn throughput_search_finds_fixed_service_rate_within_three_percent() {
    let mut queue = QueueModel::new(3, Service::Fixed { ns: 100_000.0 });
    let found = search(&settings("p50=1s"), &mut queue, &mut |_| {});
    let answer = found.answer.unwrap().per_s();
    assert!((answer / 10_000.0 - 1.0).abs() < 0.03, "{answer} and not 10000");
}

#[test]
fn the_tightest_of_several_objectives_decides() {
    let run = |slo| search(&settings(slo), &mut QueueModel::new(5, Service::Exponential { ns: 50_000.0 }), &mut |_| {});
    let (loose, both) = (run("p999=2ms"), run("p999=2ms,p50=100us"));
    // p50 is at most 100 us if lambda is at most mu - ln(2) / 100 us = 13,069 per second.
    let answer = both.answer.unwrap().per_s();
    assert!((answer / (20_000.0 - 2f64.ln() / 1e-4) - 1.0).abs() < 0.03, "{answer}");
    assert!(loose.answer > both.answer);
    assert!(both.first_broken().unwrap().broken[0].starts_with("p50 is "));
}

#[test]
fn the_same_seed_gives_the_same_search() {
    let run = || {
        let mut queue = QueueModel::new(9, Service::Exponential { ns: 50_000.0 });
        let found = search(&settings("p999=2ms"), &mut queue, &mut |_| {});
        found.steps.iter().map(|step| (step.ask.rate.per_s(), step.passed())).collect::<Vec<_>>()
    };
    let first = run();
    assert_eq!(first, run());
    assert!(first.len() > 12);
}

#[test]
fn lone_stalls_do_not_set_the_bracket() {
    let mut queue = QueueModel::new(4, Service::Exponential { ns: 50_000.0 });
    queue.stall_every = 8;
    let found = search(&settings("p999=2ms"), &mut queue, &mut |_| {});
    let truth = capacity_per_s(20_000.0, 2e-3);
    let answer = found.answer.unwrap().per_s();
    assert!(answer > truth * 0.85 && answer < truth * 1.03, "{answer} of {truth}, in {} trials", queue.trials);
}

#[test]
fn a_generator_that_is_the_limit_ends_the_search_as_such() {
    let mut queue = QueueModel::new(1, Service::Exponential { ns: 50_000.0 });
    queue.generator_max_per_s = 5_000.0;
    let found = search(&settings("p999=2ms"), &mut queue, &mut |_| {});
    assert_eq!(found.end, End::GeneratorLimited("one thread is at 100 % CPU".to_owned()));
    assert_eq!(found.answer, Some(Rate::new(4000.0)), "the answer is the highest rate that met the objectives before");
    assert_eq!(found.interval, None);
    let limited = found.steps.iter().filter(|step| step.observed.generator_limit.is_some());
    assert_eq!(limited.count(), 2, "the limited trial was repeated once");
}

#[test]
fn steps_reproduce_the_method_of_adding_a_fixed_rate() {
    let mut queue = QueueModel::new(1, Service::Exponential { ns: 50_000.0 });
    let settings = SearchSettings { step: Some(Rate::new(1000.0)), ..settings("p999=2ms") };
    let found = search(&settings, &mut queue, &mut |_| {});
    let rates: Vec<f64> = found.steps.iter().map(|step| step.ask.rate.per_s()).collect();
    assert!(rates.windows(2).all(|pair| pair[1] - pair[0] == 1000.0), "{rates:?}");
    let interval = found.interval.unwrap();
    assert_eq!((interval.upper.per_s() - interval.lower.per_s(), interval.confidence), (1000.0, None));
    assert_eq!(found.steps.iter().filter(|step| !step.passed()).count(), 1);
}

#[test]
fn search_respects_rate_and_trial_bounds() {
    let mut queue = QueueModel::new(1, Service::Exponential { ns: 50_000.0 });
    let capped = SearchSettings { rate_max: Rate::new(3000.0), ..settings("p999=2ms") };
    let found = search(&capped, &mut queue, &mut |_| {});
    assert_eq!((found.end, found.answer), (End::KeptAtMax, Some(Rate::new(3000.0))));
    let found = search(&settings("p50=1us"), &mut queue, &mut |_| {});
    assert_eq!((found.end, found.answer), (End::NeverKept, None));
    let few = SearchSettings { trials_max: 4, ..settings("p999=2ms") };
    let found = search(&few, &mut queue, &mut |_| {});
    assert_eq!((found.end, found.steps.len()), (End::TrialsUsedUp, 4));
}

#[test]
fn stopped_search_retains_best_rate() {
    struct Breaks(QueueModel);
    impl Trial for Breaks {
        fn run(&mut self, ask: TrialRequest) -> Result<Observed, Stop> {
            if ask.number == 4 { Err(Stop::Failed("refused".to_owned())) } else { self.0.run(ask) }
        }
    }
    let mut seen = 0;
    let mut breaks = Breaks(QueueModel::new(1, Service::Exponential { ns: 50_000.0 }));
    let found = search(&settings("p999=2ms"), &mut breaks, &mut |_| seen += 1);
    assert_eq!((found.end, seen), (End::Stopped(Stop::Failed("refused".to_owned())), 3));
    assert_eq!(found.answer, Some(Rate::new(4000.0)));
}
