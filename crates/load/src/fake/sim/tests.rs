//! Compares the reported figures under a simulated clock with computed ones, class by class.

use super::*;
use crate::engine::join::SAMPLER_SEED;
use crate::engine::{Load, Reconnect, Sampler};
use crate::fake::{Delay, Stall};
use crate::measure::{Fate, Histogram};
use crate::schedule::{RateShape, SendPlan, Spacing};
use link::Address;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn config(connections: usize, depth: usize) -> Config {
    Config {
        targets: vec![Address::Tcp("127.0.0.1:1".to_owned())],
        connections,
        depth,
        duration_ns: 10 * S,
        ..Config::default()
    }
}

fn simulated(script: &Script, config: &Config, rate_per_s: f64) -> Snapshot {
    let net = SimNet::new(script.clone(), 100, config.connections);
    simulate(net, config, OneKeyRequests::new(100), &Control::new(rate_per_s)).unwrap().0
}

fn classes(histogram: &Histogram) -> Vec<(u64, u64)> {
    histogram.classes().collect()
}

/// Computes the response and service times of one connection without the engine. Requests are due at `intended_ns`, and
/// at most `depth` are in flight.
fn computed(script: &Script, intended_ns: &[u64], depth: usize) -> (Histogram, Histogram) {
    let (mut response, mut service) = (Histogram::new(), Histogram::new());
    let (mut answers, mut free_ns): (Vec<u64>, u64) = (Vec::new(), 0);
    for (number, intended) in intended_ns.iter().enumerate() {
        let room_ns = if number >= depth { answers[number - depth] } else { 0 };
        let sent = room_ns.max(*intended);
        free_ns = script.answer_ns(sent, free_ns, number as u64);
        let answer = free_ns.max(answers.last().copied().unwrap_or(0));
        answers.push(answer);
        response.record(answer - intended);
        service.record(answer - sent);
    }
    (response, service)
}

fn every(ns: u64, count: u64) -> Vec<u64> {
    (0..count).map(|number| number * ns).collect()
}

#[test]
fn a_fixed_delay_is_reported_as_it_is() {
    let script = Script::fixed(700_000);
    let snapshot = simulated(&script, &config(1, 16), 1_000.0);
    let (response, service) = computed(&script, &every(MS, 10_000), 16);
    assert_eq!(classes(&snapshot.response), classes(&response));
    assert_eq!(classes(&snapshot.service), classes(&service));
    assert_eq!(snapshot.response.quantile_ns(0.999), response.quantile_ns(0.5));
    assert_eq!((snapshot.lateness.max_ns(), snapshot.held_up.max_ns()), (0, 0));
    assert_eq!(snapshot.totals.answered, 10_000);
    assert_eq!(snapshot.timeline.iter().filter(|slice| slice.measured && slice.answered > 990).count(), 10);
}

#[test]
fn two_kinds_of_delays_are_reported_with_their_shares() {
    let delay = Delay::Bimodal { fast_ns: 200_000, slow_ns: 9 * MS, slow_per_10k: 150 };
    let script = Script { delay, ..Script::fixed(0) };
    let (response, service) = computed(&script, &every(500_000, 20_000), 64);
    let snapshot = simulated(&script, &config(1, 64), 2_000.0);
    assert_eq!(classes(&snapshot.response), classes(&response));
    assert_eq!(classes(&snapshot.service), classes(&service));
    assert!(snapshot.response.quantile_ns(0.999) > 8 * MS && snapshot.response.quantile_ns(0.5) < MS);
}

#[test]
fn poisson_arrivals_at_queue_match_computed_waits() {
    let script = Script::queue(80_000);
    let plan = SendPlan::poisson();
    let mut intents = crate::schedule::Intents::new(&plan, 10_000.0, 0, 1, 7);
    let mut intended = Vec::new();
    while intents.peek_ns() < 10 * S {
        intended.push(intents.take_ns());
    }
    let (response, service) = computed(&script, &intended, 4);
    let config = Config { load: Load::Open(plan), seed: 7, ..config(1, 4) };
    let snapshot = simulated(&script, &config, 10_000.0);
    assert_eq!(classes(&snapshot.response), classes(&response));
    assert_eq!(classes(&snapshot.service), classes(&service));
    assert!(snapshot.totals.late_for_room > 0, "some requests wait because four are in flight");
    // M/D/1 at a load of 0.8: the mean wait is load / (2 (1 - load)) of the service time.
    let wait_ns = snapshot.response.mean_ns() - 80_000.0;
    assert!((wait_ns / 160_000.0 - 1.0).abs() < 0.1, "{wait_ns}");
}

#[test]
fn stall_is_measured_by_open_loop_and_missed_by_closed_loop() {
    let stall = Stall { begin_ns: 4 * S, length_ns: 500 * MS };
    let script = Script { stall: Some(stall), ..Script::fixed(100_000) };
    let snapshot = simulated(&script, &config(1, 1), 1_000.0);
    let (response, service) = computed(&script, &every(MS, 10_000), 1);
    assert_eq!(classes(&snapshot.response), classes(&response));
    assert_eq!(classes(&snapshot.service), classes(&service));
    assert!(snapshot.response.quantile_ns(0.99) > 350 * MS, "5 % of the requests were due within the stall");
    assert!(snapshot.service.quantile_ns(0.99) < MS, "at most one request was in flight");
    assert!(snapshot.totals.late_for_room > 400);
    let closed = simulated(&script, &Config { load: Load::Closed, ..config(1, 1) }, 0.0);
    assert!(closed.response.quantile_ns(0.999) < MS, "the blind spot of a closed loop");
    assert!(closed.response.max_ns() >= 500 * MS);
}

#[test]
fn the_sampler_sees_the_stall_that_a_closed_bulk_hides() {
    let stall = Stall { begin_ns: 4 * S, length_ns: 500 * MS };
    let script = Script { stall: Some(stall), ..Script::fixed(100_000) };
    let target = Address::Tcp("127.0.0.1:1".to_owned());
    let sampler = Some(Sampler { target, connections: 1, rate_per_s: 200.0, cpu: None });
    let config = Config { load: Load::Closed, sampler, seed: 3, ..config(4, 1) };
    let bulk = simulated(&script, &config, 0.0);
    assert!(bulk.response.quantile_ns(0.9999) < MS && bulk.totals.due > 300_000, "{:?}", bulk.totals);
    // The control's rate of 77 per second applies only to the bulk load; the sampler must not use it.
    let net = SimNet::new(script.clone(), 100, 1);
    let (seen, net) = simulate_sampler(net, &config, OneKeyRequests::new(100), &Control::new(77.0)).unwrap();
    let mut intents = crate::schedule::Intents::new(&SendPlan::poisson(), 200.0, 0, 1, 3 ^ SAMPLER_SEED);
    let intended: Vec<u64> = std::iter::repeat_with(|| intents.take_ns()).take_while(|ns| *ns < 10 * S).collect();
    let (response, service) = computed(&script, &intended, 1);
    assert_eq!(classes(&seen.response), classes(&response));
    assert_eq!(classes(&seen.service), classes(&service));
    assert_eq!((seen.totals.due, net.requests()), (intended.len() as u64, intended.len() as u64));
    assert!((1_850..2_150).contains(&intended.len()), "paced: {}", intended.len());
    assert!(seen.response.quantile_ns(0.99) > 350 * MS, "5 % of its requests were due within the stall");
    let none = Config { sampler: None, ..config };
    let missing = simulate_sampler(SimNet::new(script, 100, 1), &none, OneKeyRequests::new(100), &Control::new(0.0));
    assert!(matches!(missing, Err(Error::Config(_))));
}

#[test]
fn unsent_requests_are_counted_with_their_wait() {
    let config = Config { duration_ns: S, drain_ns: 100 * MS, ..config(4, 2) };
    let snapshot = simulated(&Script::queue(MS), &config, 3_000.0);
    let totals = snapshot.totals;
    assert_eq!(totals.due, 3_000);
    assert_eq!(snapshot.response.count(), 3_000, "the figures contain each due request once");
    assert_eq!(totals.answered + totals.lost + totals.unsent, 3_000);
    assert!((1_099..=1_101).contains(&totals.answered), "{}", totals.answered);
    assert!(totals.unsent > 1_800 && snapshot.response.max_ns() >= 700 * MS, "{totals:?}");
    assert!(snapshot.timeline.iter().any(|slice| slice.behind_ns > 600 * MS));
}

#[test]
fn a_rate_that_changes_while_it_runs_loses_and_repeats_nothing() {
    let config = config(1, 64);
    let control = Control::new(1_000.0);
    let net = SimNet::new(Script::fixed(MS), 100, 1);
    // The traffic changes the rate at given requests, which makes the instants of the changes exact.
    struct Changing<'a>(OneKeyRequests, u64, &'a Control);
    impl Traffic for Changing<'_> {
        fn verbs(&self) -> &[String] {
            self.0.verbs()
        }
        fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> crate::traffic::Pending {
            self.1 += 1;
            match self.1 {
                2_001 => self.2.set_rate(4_000.0),
                10_001 => self.2.set_rate(500.0),
                _ => {}
            }
            self.0.next(connection, out)
        }
        fn answer(
            &mut self,
            pending: &mut crate::traffic::Pending,
            bytes: &[u8],
        ) -> (usize, crate::traffic::ReplyProgress) {
            self.0.answer(pending, bytes)
        }
        fn greet(&mut self, connection: usize, out: &mut Vec<u8>) -> Vec<crate::traffic::Pending> {
            self.0.greet(connection, out)
        }
    }
    let (snapshot, net) = simulate(net, &config, Changing(OneKeyRequests::new(100), 0, &control), &control).unwrap();
    // 2 s at 1000, 2 s at 4000, 6 s at 500. The core applies a change in the turn after the request that made it.
    assert!((12_997..=13_003).contains(&net.requests()), "{}", net.requests());
    assert_eq!(snapshot.totals.due, net.requests());
    assert_eq!(snapshot.lateness.max_ns(), 0);
    let rates: Vec<u64> = snapshot.timeline.iter().map(|slice| slice.sent).collect();
    assert!(rates[1].abs_diff(1_000) < 3 && rates[3].abs_diff(4_000) < 3 && rates[7].abs_diff(500) < 3, "{rates:?}");
}

#[test]
fn generator_lateness_is_separated_from_server_lateness() {
    let net = SimNet::new(Script::fixed(300_000), 100, 8).with_oversleep(2 * MS);
    let config = Config { duration_ns: 2 * S, ..config(8, 1) };
    let (snapshot, _) = simulate(net, &config, OneKeyRequests::new(100), &Control::new(100.0)).unwrap();
    assert_eq!(snapshot.totals.late_by_generator, snapshot.totals.sent - 1, "every request except the first");
    assert_eq!(snapshot.totals.late_for_room, 0);
    let limits = crate::engine::limits(&crate::engine::GeneratorUse::default(), &snapshot, MS);
    assert!(matches!(limits[..], [crate::engine::Limit::Late { .. }]), "{limits:?}");
    // The wait counts in the response, as it would for the user.
    assert!(snapshot.response.quantile_ns(0.5) >= 2 * MS + 300_000);
}

#[test]
fn server_close_or_garbage_loses_only_in_flight_requests() {
    for (what, name) in [(Misconduct::Close, "closed-by-server"), (Misconduct::Garbage, "garbage")] {
        let script = Script::fixed(MS).with_misconduct(100, what);
        let config = Config {
            duration_ns: 2 * S,
            reconnect: Reconnect { pause_ns: 5 * MS, ..Reconnect::default() },
            ..config(3, 4)
        };
        let snapshot = simulated(&script, &config, 1_000.0);
        let totals = snapshot.totals;
        assert_eq!((totals.due, snapshot.response.count()), (2_000, 2_000), "{name}");
        assert_eq!(totals.answered + totals.lost, 2_000, "{name}");
        assert!((20..=80).contains(&totals.lost), "{name}: {}", totals.lost);
        let fault = snapshot.faults.iter().find(|fault| fault.name == name).unwrap();
        assert_eq!(fault.count, 20, "{name}");
        assert!(fault.first.starts_with("127.0.0.1:1: "), "{}", fault.first);
        // The last failure is at the end of the run, when connections are no longer reopened.
        assert_eq!(totals.connects, 3 + 19, "{name}: every other failed connection was reopened");
        let lost = snapshot.cells.iter().filter(|cell| cell.fate == Fate::Lost);
        assert_eq!(lost.map(|cell| cell.response.count()).sum::<u64>(), totals.lost);
    }
}

#[test]
fn missing_reply_times_out_and_is_recorded_with_its_timeout() {
    let script = Script::fixed(MS).with_misconduct(500, Misconduct::Silence);
    let config = Config { duration_ns: 2 * S, timeout_ns: 100 * MS, ..config(8, 1) };
    let snapshot = simulated(&script, &config, 1_000.0);
    let timeouts = snapshot.faults.iter().find(|fault| fault.name == "timeout").unwrap().count;
    assert_eq!((timeouts, snapshot.totals.lost), (4, 4));
    assert!(snapshot.response.max_ns() >= 100 * MS && snapshot.response.max_ns() < 120 * MS);
    assert_eq!(snapshot.totals.answered, 1_996);
}

#[test]
fn refused_connections_are_named_and_the_others_carry_the_load() {
    let net = SimNet::new(Script::fixed(MS), 100, 8).with_connections_max(3);
    let config = Config { duration_ns: S, ..config(8, 4) };
    let (snapshot, _) = simulate(net, &config, OneKeyRequests::new(100), &Control::new(1_000.0)).unwrap();
    assert_eq!(snapshot.totals.answered, 1_000);
    let fault = snapshot.faults.iter().find(|fault| fault.name == "connect-refused").unwrap();
    assert!(fault.count >= 5, "{fault:?}");
    let net = SimNet::new(Script::fixed(MS), 100, 8).with_connections_max(0);
    let refused = simulate(net, &config, OneKeyRequests::new(100), &Control::new(1_000.0));
    assert!(matches!(refused, Err(Error::Connect { .. })));
}

#[test]
fn reconnects_follow_configured_rate_without_losing_requests() {
    let reconnect = Reconnect { per_s: 50.0, pause_ns: MS, storm_every_ns: 0 };
    let snapshot = simulated(&Script::fixed(MS), &Config { reconnect, ..config(10, 1) }, 2_000.0);
    assert!((505..=511).contains(&snapshot.totals.connects), "{}", snapshot.totals.connects);
    assert_eq!((snapshot.totals.answered, snapshot.totals.lost), (20_000, 0));
    let reconnect = Reconnect { per_s: 0.0, pause_ns: MS, storm_every_ns: 2 * S };
    let snapshot = simulated(&Script::fixed(MS), &Config { reconnect, ..config(10, 1) }, 2_000.0);
    assert_eq!(snapshot.totals.connects, 10 + 4 * 10, "storms at 2, 4, 6 and 8 s");
    assert_eq!((snapshot.totals.answered, snapshot.totals.lost), (20_000, 0));
}

#[test]
fn warm_up_requests_are_excluded_from_figures() {
    let config = Config { warm_up_ns: 2 * S, duration_ns: 3 * S, ..config(2, 8) };
    let snapshot = simulated(&Script::fixed(MS), &config, 1_000.0);
    assert_eq!((snapshot.totals.warm_up, snapshot.totals.due, snapshot.response.count()), (2_000, 3_000, 3_000));
    assert_eq!(snapshot.measured_ns, 3 * S);
    assert_eq!(snapshot.timeline.iter().map(|slice| u64::from(slice.measured)).sum::<u64>(), 3);
}

#[test]
fn a_shape_without_a_request_for_long_ends_all_the_same() {
    let shape = RateShape::OnOff { on_ns: 10 * MS, off_ns: 990 * MS };
    let load = Load::Open(SendPlan::Rate { pace: Spacing::Even, shape });
    let snapshot = simulated(&Script::fixed(MS), &Config { load, ..config(16, 16) }, 100.0);
    assert_eq!(snapshot.totals.answered, 1_000, "the mean rate equals the requested rate");
    let silent = simulated(&Script::fixed(MS), &config(1, 1), 0.0);
    assert_eq!((silent.totals.due, silent.measured_ns), (0, 10 * S));
}

#[test]
fn blind_sending_follows_schedule_and_counts_received_bytes() {
    let load = Load::Blind(Some(SendPlan::constant()));
    let config = Config { load, duration_ns: S, ..config(2, 1) };
    let net = SimNet::new(Script::fixed(MS), 100, 2);
    let (snapshot, net) = simulate(net, &config, OneKeyRequests::new(100), &Control::new(5_000.0)).unwrap();
    assert_eq!((snapshot.totals.sent, net.requests()), (5_000, 5_000));
    let answer_bytes = OneKeyRequests::answer_of(100).len() as u64;
    assert!(snapshot.totals.bytes_received > 4_900 * answer_bytes);
    assert_eq!(snapshot.service.count(), 0, "no reply is matched with a request");
}

/// Computes the times as [`computed`] does, for batches of `batch` requests that are due at the instants `intended_ns`.
/// A batch waits until the connection has room for all its requests.
fn computed_batches(script: &Script, intended_ns: &[u64], batch: usize, depth: usize) -> (Histogram, Histogram) {
    let (mut response, mut service) = (Histogram::new(), Histogram::new());
    let (mut answers, mut free_ns): (Vec<u64>, u64) = (Vec::new(), 0);
    for intended in intended_ns {
        let answered_before = (answers.len() + batch).saturating_sub(depth);
        let room_ns = if answered_before > 0 { answers[answered_before - 1] } else { 0 };
        let sent = room_ns.max(*intended);
        for _ in 0..batch {
            free_ns = script.answer_ns(sent, free_ns, answers.len() as u64);
            let answer = free_ns.max(answers.last().copied().unwrap_or(0));
            answers.push(answer);
            response.record(answer - intended);
            service.record(answer - sent);
        }
    }
    (response, service)
}

#[test]
fn batch_is_sent_in_a_single_send_and_timed_from_its_due_instant() {
    // 2500 batches of 8, one every 4 ms. At 20 us per request a batch takes 160 us; at 600 us it takes 4.8 ms, so later
    // batches wait for room.
    for (service_ns, depth) in [(20_000, 8), (20_000, 32), (600_000, 8), (600_000, 16)] {
        let script = Script::queue(service_ns);
        let config = Config { batch: 8, duration_ns: 10 * S, drain_ns: 10 * S, ..config(1, depth) };
        let net = SimNet::new(script.clone(), 100, 1);
        let (snapshot, net) = simulate(net, &config, OneKeyRequests::new(100), &Control::new(2_000.0)).unwrap();
        let (response, service) = computed_batches(&script, &every(4 * MS, 2_500), 8, depth);
        assert_eq!(classes(&snapshot.response), classes(&response), "{service_ns} {depth}");
        assert_eq!(classes(&snapshot.service), classes(&service), "{service_ns} {depth}");
        assert_eq!(snapshot.totals.answered, 20_000);
        let others: Vec<_> = net.sends().keys().filter(|requests| *requests % 8 != 0).collect();
        assert!(others.is_empty() && net.sends()[&8] > 2_000, "{:?}", net.sends());
        assert_eq!(snapshot.timeline[4].rate_per_s, 2_000.0, "the rate counts requests, not batches");
    }
}

#[test]
fn batches_round_robin_over_connections_and_follow_live_rate() {
    let config = Config { batch: 10, duration_ns: 2 * S, ..config(4, 10) };
    let net = SimNet::new(Script::fixed(MS), 100, 4);
    let control = Control::new(1_000.0);
    struct Faster<'a>(OneKeyRequests, &'a Control, u64);
    impl Traffic for Faster<'_> {
        fn verbs(&self) -> &[String] {
            self.0.verbs()
        }
        fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> crate::traffic::Pending {
            // All requests of batch b are on connection b modulo 4.
            assert_eq!(connection as u64, self.2 / 10 % 4, "request {}", self.2);
            self.2 += 1;
            if self.2 == 1_000 {
                self.1.set_rate(3_000.0);
            }
            self.0.next(connection, out)
        }
        fn answer(
            &mut self,
            pending: &mut crate::traffic::Pending,
            bytes: &[u8],
        ) -> (usize, crate::traffic::ReplyProgress) {
            self.0.answer(pending, bytes)
        }
        fn greet(&mut self, connection: usize, out: &mut Vec<u8>) -> Vec<crate::traffic::Pending> {
            self.0.greet(connection, out)
        }
    }
    let (snapshot, net) = simulate(net, &config, Faster(OneKeyRequests::new(100), &control, 0), &control).unwrap();
    // One second at 1000 and one second at 3000 requests per second, in batches of ten.
    assert!((3_970..=4_030).contains(&snapshot.totals.due), "{:?}", snapshot.totals);
    assert_eq!(net.sends().keys().copied().collect::<Vec<_>>(), [10]);
    assert_eq!(snapshot.totals.answered, snapshot.totals.due);
}

#[test]
fn a_closed_loop_of_batches_sends_the_next_when_it_fits_whole() {
    for (depth, largest) in [(8, 8), (12, 8), (16, 16)] {
        let load = Load::Closed;
        let config = Config { batch: 8, load, requests_max: Some(1_003), ..config(2, depth) };
        let net = SimNet::new(Script::queue(50_000), 100, 2);
        let (snapshot, net) = simulate(net, &config, OneKeyRequests::new(100), &Control::new(0.0)).unwrap();
        assert_eq!((snapshot.totals.answered, net.requests()), (1_003, 1_003), "the last batch has three requests");
        assert_eq!(net.sends().keys().max(), Some(&largest), "{:?}", net.sends());
        let whole: u64 = net.sends().iter().filter(|(requests, _)| **requests % 8 == 0).map(|(_, sends)| sends).sum();
        assert!(whole >= 62 && net.sends().keys().filter(|requests| *requests % 8 != 0).count() <= 1);
    }
}

#[test]
fn blind_batches_and_those_that_are_given_up_are_counted_by_request() {
    let load = Load::Blind(Some(SendPlan::constant()));
    let config = Config { load, batch: 50, depth: 50, duration_ns: S, ..config(2, 1) };
    let net = SimNet::new(Script::fixed(MS), 100, 2);
    let (snapshot, net) = simulate(net, &config, OneKeyRequests::new(100), &Control::new(5_000.0)).unwrap();
    assert_eq!((snapshot.totals.sent, net.requests(), net.sends()[&50]), (5_000, 5_000, 100));
    // Without a plan, a thread waits only for room to send. The simulated server always has room, so no time passes.
    let config = Config { load: Load::Blind(None), requests_max: Some(100_000), ..config };
    let net = SimNet::new(Script::fixed(MS), 100, 2);
    let (snapshot, net) = simulate(net, &config, OneKeyRequests::new(100), &Control::new(0.0)).unwrap();
    assert_eq!((net.requests(), snapshot.measured_ns), (100_000, 0));
    let config = Config { batch: 4, duration_ns: S, drain_ns: 100 * MS, ..self::config(4, 8) };
    let snapshot = simulated(&Script::queue(MS), &config, 3_000.0);
    let totals = snapshot.totals;
    assert_eq!((totals.due, snapshot.response.count()), (3_000, 3_000));
    assert_eq!(totals.answered + totals.lost + totals.unsent, 3_000);
    assert!(totals.unsent > 1_800, "{totals:?}");
}

/// Requests of which every tenth gets a redirect to the second target, the number of times in the last field.
struct Moving(OneKeyRequests, u64, u32);

impl Traffic for Moving {
    fn verbs(&self) -> &[String] {
        self.0.verbs()
    }

    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> crate::traffic::Pending {
        self.1 += 1;
        crate::traffic::Pending { key: self.1, ..self.0.next(connection, out) }
    }

    fn answer(
        &mut self,
        pending: &mut crate::traffic::Pending,
        bytes: &[u8],
    ) -> (usize, crate::traffic::ReplyProgress) {
        let (used, progress) = self.0.answer(pending, bytes);
        let is_whole = matches!(progress, crate::traffic::ReplyProgress::Done { .. });
        if is_whole && pending.key.is_multiple_of(10) && pending.state < self.2 {
            pending.state += 1;
            return (used, crate::traffic::ReplyProgress::Elsewhere { target: 1 });
        }
        (used, progress)
    }

    fn refusal(&self) -> String {
        "MOVED again".to_owned()
    }

    fn repeat(&mut self, _connection: usize, _pending: &mut crate::traffic::Pending, out: &mut Vec<u8>) {
        self.0.next(0, out);
    }

    fn greet(&mut self, connection: usize, out: &mut Vec<u8>) -> Vec<crate::traffic::Pending> {
        self.0.greet(connection, out)
    }
}

fn moving(net: SimNet, load: Load, times: u32) -> (Snapshot, SimNet) {
    let targets = [1, 2].map(|port| Address::Tcp(format!("127.0.0.1:{port}"))).to_vec();
    let requests_max = matches!(load, Load::Closed).then_some(2_000);
    let config = Config { targets, routed: true, duration_ns: 2 * S, load, requests_max, ..config(2, 64) };
    simulate(net, &config, Moving(OneKeyRequests::new(100), 0, times), &Control::new(1_000.0)).unwrap()
}

#[test]
fn redirected_request_counts_once_with_total_time() {
    for load in [Load::Open(SendPlan::constant()), Load::Closed] {
        let (snapshot, net) = moving(SimNet::new(Script::fixed(MS), 100, 2), load, 1);
        let totals = snapshot.totals;
        assert_eq!((totals.due, totals.sent, totals.answered, totals.redirects), (2_000, 2_000, 2_000, 200));
        assert_eq!((totals.errors, net.requests()), (0, 2_200));
        let mut expected = Histogram::new();
        expected.record_n(MS, 1_800);
        expected.record_n(2 * MS, 200);
        assert_eq!(classes(&snapshot.response), classes(&expected));
        assert_eq!(classes(&snapshot.service), classes(&expected));
        assert_eq!(snapshot.lateness.count(), 2_000, "the lateness of a redirected request is recorded once");
    }
}

#[test]
fn a_request_that_is_sent_round_and_round_is_an_error_in_the_end() {
    let (snapshot, net) = moving(SimNet::new(Script::fixed(MS), 100, 2), Load::Open(SendPlan::constant()), u32::MAX);
    let totals = snapshot.totals;
    assert_eq!((totals.answered, totals.errors, totals.redirects), (2_000, 200, 200 * 16));
    assert_eq!(net.requests(), 2_000 + 200 * 16);
    let fault = snapshot.faults.iter().find(|fault| fault.name == "error-answer").unwrap();
    assert_eq!((fault.count, fault.first.as_str()), (200, "127.0.0.1:2: MOVED again"));
}

#[test]
fn requests_redirected_to_an_unreachable_node_are_lost() {
    let net = SimNet::new(Script::fixed(MS), 100, 2).with_connections_max(1);
    let (snapshot, _) = moving(net, Load::Open(SendPlan::constant()), 1);
    let totals = snapshot.totals;
    assert_eq!((totals.due, totals.answered, totals.lost, snapshot.response.count()), (2_000, 1_800, 200, 2_000));
    assert!(
        snapshot.faults.iter().any(|fault| fault.first.contains("200 requests redirected to this target got no reply"))
    );
}
