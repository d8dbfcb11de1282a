use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::clock::UnixMillis;
use base::prng::Prng;

use super::clock::{Estimate, HostClock};
use super::greet::{self, About};
use super::join::{Gathered, Reported, joined};
use super::wire::{Frames, ToAgent, ToCoordinator, VERSION, frame, preamble};
use super::*;
use crate::engine::{self, Config, Control, Ending, Error, Limit, Load, Run};
use crate::fake::{Delay, FakeServer, Script};
use crate::measure::{EndedRequest, Fate, RawSlice, Recorder, Snapshot};
use crate::report::terminal::RunProgress;
use crate::result::{RunResult, StepResult};
use crate::schedule::SendPlan;
use crate::search;
use crate::search::objective::Condition;
use crate::search::rate::Rate;
use crate::session::{self, Job, Mode, RunControl, View};
use crate::workload::{KeyCommand, KeySpace, RequestSource, Sizes, Verb, Workload};

const PATIENCE: Duration = Duration::from_secs(30);
const VALUE_BYTES: usize = 16;

struct Unseen;

impl View for Unseen {
    fn progress(&mut self, _: &RunProgress) {}
    fn step(&mut self, _: &StepResult) {}
}

fn agent(ahead_ns: u64, token: Option<&[u8]>) -> Agent {
    Agent::start("127.0.0.1:0", token.map(<[u8]>::to_vec), HostClock::ahead(ahead_ns), |_| {}).unwrap()
}

fn fleet(agents: &[&Agent]) -> Fleet {
    let addresses: Vec<String> = agents.iter().map(|agent| agent.addr().to_string()).collect();
    Fleet::connect(&addresses, None, patient()).unwrap()
}

/// Returns limits with which an agent on a busy machine does not count as lost.
fn patient() -> FleetLimits {
    FleetLimits { uncertainty_max: Duration::from_secs(1), silence_max: PATIENCE }
}

/// Returns a workload that reads the only key of the fake server.
fn workload() -> Workload {
    let space = KeySpace {
        count: 1,
        prefix: "key-".to_owned(),
        key_bytes: Sizes::Fixed(24),
        verbs: vec![KeyCommand::new(Verb::Get)],
        ..KeySpace::default()
    };
    Workload { keys: vec![space], ..Workload::default() }
}

fn config(server: &FakeServer, load: Load) -> Config {
    Config {
        targets: vec![server.target()],
        connections: 5,
        depth: 64,
        load,
        warm_up_ns: 100_000_000,
        duration_ns: 600_000_000,
        slice_ns: 100_000_000,
        drain_ns: 20_000_000_000,
        lateness_ns_max: u64::MAX,
        ..Config::default()
    }
}

fn job(config: Config, mode: Mode) -> Job {
    let objectives = Condition::parse_list("p999=20s").unwrap();
    Job { known: RunResult::new("test"), config, mode, objectives, assertions: Vec::new(), sources: Vec::new() }
}

fn carried(fleet: &mut Fleet, job: Job, run_control: &RunControl) -> Result<RunResult, Error> {
    let workload = workload();
    let carry =
        &mut |config: &Config, control: &Control| fleet.run(config, control, &workload, AgentRequests::Requests);
    session::run_by(job, carry, run_control, &mut Unseen)
}

#[test]
fn two_agents_with_skewed_clocks_match_a_host_with_two_threads() {
    let server = FakeServer::start(None, VALUE_BYTES, None).unwrap();
    let agents = [agent(0, None), agent(1 << 58, None)];
    let config = config(&server, Load::Open(SendPlan::constant()));
    let mut fleet = fleet(&[&agents[0], &agents[1]]);
    let result =
        carried(&mut fleet, job(config.clone(), Mode::AtRate(Rate::new(500.0))), &RunControl::default()).unwrap();
    let figures = &result.figures;
    assert_eq!(result.partial, None);

    let alone = Config { threads: 2, ..config };
    let two = Workload { threads: 2, connections: 5, ..workload() };
    let make = |place: engine::TrafficThread| RequestSource::new(&two, place.thread as u32, UnixMillis(0));
    let alone = engine::run(&alone, make, &Control::new(500.0)).unwrap();
    assert_eq!(figures.counts.due, alone.bulk.totals.due, "agents have the same schedule as a single host");
    assert_eq!(figures.counts.warm_up, alone.bulk.totals.warm_up);

    assert_eq!(figures.response.count, figures.counts.due);
    assert_eq!(figures.counts.answered, figures.counts.due);
    assert_eq!(figures.counts.connects, 5);
    assert_eq!(figures.agents.len(), 2);
    for agent in &figures.agents {
        assert_eq!(agent.counts.due, figures.counts.due / 2, "{}", agent.name);
        assert!(agent.lost.is_none() && agent.round_trip_ns > 0 && agent.start_uncertainty_ns > 0);
    }
    let both = crate::result::Latencies::together(figures.agents.iter().map(|agent| &agent.response));
    assert_eq!(both, figures.response, "the joined histogram is the exact sum of the agents' histograms");
    assert!(result.verdict.notes.iter().any(|note| note.starts_with("slowest agent: 127.0.0.1:")), "{result:?}");
    let with_times = result.intervals.iter().filter(|interval| !interval.response.histogram.is_empty());
    assert!(with_times.count() > 0, "slices have histograms");
    assert!(result.timelines.iter().any(|line| line.name.starts_with("agents, CPU use of the busiest thread/")));
    assert!(RunResult::from_json(&result.to_json()).unwrap() == result);
}

#[test]
fn a_search_a_closed_loop_and_a_second_run_work_over_the_same_agents() {
    let server = FakeServer::start(None, VALUE_BYTES, None).unwrap();
    let agents = [agent(7, None), agent(1 << 40, None), agent(0, None)];
    let mut fleet = fleet(&[&agents[0], &agents[1], &agents[2]]);
    let settings = search::SearchSettings {
        objectives: Condition::parse_list("p50=30s").unwrap(),
        start: Rate::new(200.0),
        rate_max: Rate::new(400.0),
        throughput_min: 0.0,
        trial: Duration::from_millis(200),
        warm_up: Duration::from_millis(100),
        ..search::SearchSettings::default()
    };
    let search = Mode::Search(settings);
    let job_of = |mode, load| job(config(&server, load), mode);
    let result = carried(&mut fleet, job_of(search, Load::Open(SendPlan::poisson())), &RunControl::default()).unwrap();
    let found = result.search.as_ref().unwrap();
    assert_eq!((found.end.as_str(), found.answer_per_s), ("kept at max", Some(400.0)));
    assert_eq!(result.figures.agents.len(), 3);

    let closed = Config { requests_max: Some(1_000), ..config(&server, Load::Closed) };
    let closed = job(Config { duration_ns: 600_000_000_000, warm_up_ns: 0, ..closed }, Mode::Closed);
    let result = carried(&mut fleet, closed, &RunControl::default()).unwrap();
    assert_eq!(
        result.figures.counts.answered, 1_000,
        "the requested number of requests is divided without a remainder"
    );
    assert_eq!(result.partial, None);
}

/// Calls a function that stops or disturbs a long run while it is in progress, and returns the result.
fn in_the_middle(
    fleet: &mut Fleet,
    server: &FakeServer,
    run_control: &RunControl,
    act: impl FnOnce() + Send,
) -> RunResult {
    let mut job = job(config(server, Load::Open(SendPlan::constant())), Mode::AtRate(Rate::new(400.0)));
    job.config.duration_ns = 3_600_000_000_000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let deadline = Instant::now() + PATIENCE;
            let measured = || run_control.live().map_or(0, |(_, live)| live.response.count());
            while measured() < 40 && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            act();
        });
        carried(fleet, job, run_control).unwrap()
    })
}

#[test]
fn stopped_agent_ends_run_is_named_and_its_measurements_are_retained() {
    let server = FakeServer::start(None, VALUE_BYTES, None).unwrap();
    let (stays, dies) = (agent(0, None), agent(5, None));
    let name = dies.addr().to_string();
    let mut fleet = fleet(&[&stays, &dies]);
    let run_control = RunControl::default();
    let result = in_the_middle(&mut fleet, &server, &run_control, move || drop(dies));
    let partial = result.partial.as_deref().unwrap();
    assert!(partial.contains(&format!("agent {name} was lost: the run was stopped on the agent's host")), "{partial}");
    let of = |name: &str| result.figures.agents.iter().find(|agent| agent.name == name).unwrap();
    let lost = of(&name);
    assert!(lost.counts.answered > 0 && lost.lost.is_some(), "{lost:?}");
    assert!(lost.response.count > 0);
    let other = of(&stays.addr().to_string());
    assert!(other.lost.is_none() && other.counts.answered > 0);
    assert_eq!(result.figures.counts.answered, lost.counts.answered + other.counts.answered);
    let next = carried(&mut fleet, job(config(&server, Load::Closed), Mode::Closed), &RunControl::default());
    let next = next.map(drop).unwrap_err().to_string();
    assert!(next.contains(&name) && next.contains("lost"), "{next}");
}

#[test]
fn a_stop_reaches_every_agent_and_they_can_be_used_again() {
    let server = FakeServer::start(None, VALUE_BYTES, None).unwrap();
    let agents = [agent(0, None), agent(0, None)];
    let mut fleet = fleet(&[&agents[0], &agents[1]]);
    let run_control = RunControl::default();
    let result = in_the_middle(&mut fleet, &server, &run_control, || {
        run_control.set_rate(Rate::new(450.0)).unwrap();
        run_control.stop();
    });
    assert!(result.partial.as_deref().unwrap().contains("the run was stopped"), "{:?}", result.partial);
    assert!(result.figures.agents.iter().all(|agent| agent.lost.is_none() && agent.counts.answered > 0));
    let closed = Config { requests_max: Some(10), ..config(&server, Load::Closed) };
    let closed = job(Config { warm_up_ns: 0, ..closed }, Mode::Closed);
    assert_eq!(carried(&mut fleet, closed, &RunControl::default()).unwrap().figures.counts.answered, 10);
}

#[test]
fn an_agent_that_can_not_reach_the_server_is_named_before_the_start() {
    let agents = [agent(0, None)];
    let mut fleet = fleet(&[&agents[0]]);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = FakeServer::start(None, VALUE_BYTES, None).unwrap();
    let mut config = config(&server, Load::Closed);
    config.targets = vec![nobody.to_string().parse().unwrap()];
    let error =
        carried(&mut fleet, job(config, Mode::Closed), &RunControl::default()).map(drop).unwrap_err().to_string();
    let name = agents[0].addr().to_string();
    assert!(error.contains(&format!("agent {name}: cannot open a connection")), "{error}");
}

/// Starts a peer that greets like an agent and then calls `body` for each message.
fn impostor(
    mut body: impl FnMut(ToAgent) -> Vec<ToCoordinator> + Send + 'static,
) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let Ok(((sender, mut receiver), ())) = greet::coordinator(stream, None, &About::default(), || Ok(())) else {
            return;
        };
        while let Ok(message) = receiver.read::<ToAgent>(&mut || Ok(())) {
            for answer in body(message) {
                if sender.send(&answer).is_err() {
                    return;
                }
            }
        }
    });
    (address, thread)
}

/// Replies as an agent that is ready at once and has the coordinator's clock.
fn obedient(message: &ToAgent) -> Vec<ToCoordinator> {
    match message {
        ToAgent::Prepare(prepare) => vec![ToCoordinator::Ready { run: prepare.run }],
        ToAgent::Clock { number } => vec![ToCoordinator::Clock { number: *number, at_ns: 1 << 40, unix_ms: 0 }],
        _ => Vec::new(),
    }
}

#[test]
fn an_agent_that_falls_silent_is_lost_and_named() {
    let server = FakeServer::start(None, VALUE_BYTES, None).unwrap();
    let (address, thread) = impostor(|message| obedient(&message));
    let settings = FleetLimits { silence_max: Duration::from_secs(1), ..patient() };
    let mut fleet = Fleet::connect(std::slice::from_ref(&address), None, settings).unwrap();
    let mut config = config(&server, Load::Closed);
    config.duration_ns = 3_600_000_000_000;
    let run = fleet.run(&config, &Control::new(0.0), &workload(), AgentRequests::Requests).unwrap();
    assert_eq!(run.ending, Ending::HostLost);
    assert!(
        run.hosts[0].lost.as_deref().unwrap().contains("the agent has sent nothing for 1 s"),
        "{:?}",
        run.hosts[0].lost
    );
    drop(fleet);
    thread.join().unwrap();
}

#[test]
fn agent_lost_mid_run_is_named_and_its_reports_are_retained() {
    let server = FakeServer::start(None, VALUE_BYTES, None).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let about = About::default();
        let ((sender, mut receiver), ()) = greet::coordinator(stream, None, &about, || Ok(())).unwrap();
        loop {
            let message = receiver.read::<ToAgent>(&mut || Ok(())).unwrap();
            for answer in obedient(&message) {
                sender.send(&answer).unwrap();
            }
            if let ToAgent::Start { run, .. } = message {
                // Sends the slice of the warm-up and one measured slice.
                for number in [0, 1] {
                    let mut slice = RawSlice { number, sent: 9, ..RawSlice::default() };
                    (0..7).for_each(|time| slice.end(0, Fate::Hit, 1_000 * time));
                    sender.send(&ToCoordinator::Slice { run, slice: Box::new(slice) }).unwrap();
                }
                return;
            }
        }
    });
    let stays = agent(0, None);
    let mut fleet = Fleet::connect(&[stays.addr().to_string(), address.clone()], None, patient()).unwrap();
    let mut config = config(&server, Load::Closed);
    config.duration_ns = 3_600_000_000_000;
    let run = fleet.run(&config, &Control::new(0.0), &workload(), AgentRequests::Requests).unwrap();
    thread.join().unwrap();
    assert_eq!(run.ending, Ending::HostLost);
    let lost = run.hosts.iter().find(|host| host.name == address).unwrap();
    assert!(lost.lost.as_deref().unwrap().starts_with("the peer closed the connection, "), "{:?}", lost.lost);
    let totals = &lost.totals;
    assert_eq!((totals.sent, totals.answered, totals.hits, totals.lost, lost.response.count()), (9, 7, 7, 2, 7));
    assert!(run.hosts[0].lost.is_none() && run.hosts[0].name == stays.addr().to_string());
}

#[test]
fn agent_clock_with_too_large_uncertainty_is_rejected() {
    let server = FakeServer::start(None, VALUE_BYTES, None).unwrap();
    let (address, thread) = impostor(|message| {
        if matches!(message, ToAgent::Clock { .. }) {
            std::thread::sleep(Duration::from_millis(30));
        }
        obedient(&message)
    });
    let settings = FleetLimits { uncertainty_max: Duration::from_millis(10), ..patient() };
    let mut fleet = Fleet::connect(&[address], None, settings).unwrap();
    let config = config(&server, Load::Closed);
    let error = fleet.run(&config, &Control::new(0.0), &workload(), AgentRequests::Requests).unwrap_err().to_string();
    assert!(error.contains("--clock-error-max") && error.contains("10 ms are allowed"), "{error}");
    drop(fleet);
    thread.join().unwrap();
}

#[test]
fn invalid_slice_from_agent_marks_it_lost() {
    let server = FakeServer::start(None, VALUE_BYTES, None).unwrap();
    let (address, thread) = impostor(|message| match message {
        ToAgent::Start { run, .. } => {
            let slice = Box::new(RawSlice { number: u64::MAX, ..RawSlice::default() });
            // A message of another run is stale and has no effect.
            let stale = ToCoordinator::Failed { run: run + 1, why: "stale".to_owned() };
            vec![stale, ToCoordinator::Slice { run, slice }]
        }
        other => obedient(&other),
    });
    let mut fleet = Fleet::connect(&[address], None, patient()).unwrap();
    let config = config(&server, Load::Closed);
    let run = fleet.run(&config, &Control::new(0.0), &workload(), AgentRequests::Requests).unwrap();
    assert!(run.hosts[0].lost.as_deref().unwrap().contains("a timeline slice that is not part of the run"));
    drop(fleet);
    thread.join().unwrap();
}

#[test]
fn garbage_on_the_port_is_let_go_and_the_agent_serves_on() {
    let agent = agent(0, None);
    let mut greeted = preamble(VERSION).to_vec();
    greeted.extend_from_slice(&[0xff; 64]);
    let another_version = preamble(VERSION + 1).to_vec();
    for said in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &[0; 100], &greeted, &another_version, b""] {
        let mut stream = TcpStream::connect(agent.addr()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(said).unwrap();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let introduces = said.starts_with(&wire::MAGIC);
        assert_eq!(answer.starts_with(&preamble(VERSION)), introduces, "{said:?} {answer:?}");
    }
    drop(fleet(&[&agent]));
}

#[test]
fn foreign_server_or_other_agent_version_is_reported_with_remedy() {
    let answering = |bytes: Vec<u8>| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = [0; 14];
            stream.read_exact(&mut seen).unwrap();
            stream.write_all(&bytes).unwrap();
        });
        (address, thread)
    };
    for (bytes, said) in [
        (b"ERROR\r\n".to_vec(), "this is not an agent (it replied \"ERROR\")"),
        (preamble(99).to_vec(), "the peer uses protocol version 99, and this build uses 1; use the same build"),
        (Vec::new(), "the peer closed the connection"),
    ] {
        let (address, thread) = answering(bytes);
        let faults = Fleet::connect(&[address], None, patient()).unwrap_err();
        assert!(faults[0].contains(said), "{faults:?}");
        thread.join().unwrap();
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let twice = Fleet::connect(&[nobody.clone(), nobody.clone()], None, patient()).unwrap_err();
    assert!(twice[0].contains("listed twice"), "{twice:?}");
    let faults = Fleet::connect(&[nobody], None, patient()).unwrap_err();
    assert!(faults[0].contains("gannet load agent --listen"), "{faults:?}");
}

#[test]
fn agent_requires_matching_token_and_public_bind_requires_a_token() {
    let (open, closed) = (agent(0, None), agent(0, Some(b"a token of sixteen")));
    let reach = |agent: &Agent, token: Option<&[u8]>| {
        Fleet::connect(&[agent.addr().to_string()], token, patient()).map(drop).map_err(|faults| faults.join("\n"))
    };
    assert!(reach(&closed, None).unwrap_err().contains("the agent requires a token, and this command has none"));
    assert!(reach(&open, Some(b"x")).unwrap_err().contains("the agent has no token"));
    assert!(reach(&closed, Some(b"another")).unwrap_err().contains("the tokens differ"));
    reach(&closed, Some(b"a token of sixteen")).unwrap();
    let any = (Ipv4Addr::UNSPECIFIED, 0);
    let error = Agent::start(&format!("{}:{}", any.0, any.1), None, HostClock::default(), |_| {}).unwrap_err();
    assert!(error.to_string().contains("--token FILE"), "{error}");
    drop(Agent::start("[::ffff:127.0.0.1]:0", None, HostClock::default(), |_| {}).unwrap());
    drop(Agent::start("0.0.0.0:0", Some(b"t".to_vec()), HostClock::default(), |_| {}).unwrap());
}

#[test]
fn second_coordinator_is_rejected_while_agent_is_in_use() {
    let agent = agent(0, None);
    let first = fleet(&[&agent]);
    let faults = Fleet::connect(&[agent.addr().to_string()], None, patient()).unwrap_err();
    assert!(faults[0].contains("the agent serves another coordinator"), "{faults:?}");
    drop(first);
    drop(fleet(&[&agent]));
}

/// Returns the measurements of one host for the requests `numbers`. A request's number determines its verb, fate and
/// times.
fn snapshot(numbers: impl Iterator<Item = u64>) -> Snapshot {
    let mut recorder = Recorder::new(&["get".to_owned(), "set".to_owned()], 0, 1 << 40);
    for number in numbers {
        let mut random = Prng::new(number);
        let intended_ns = random.below(1 << 39);
        let sent_ns = intended_ns + (random.next_u64() >> (34 + random.below(20)));
        recorder.send(intended_ns, intended_ns, sent_ns);
        let fate = [Fate::Hit, Fate::Miss, Fate::Error, Fate::Lost][random.below(4) as usize];
        let ended = EndedRequest {
            verb: random.below(2) as u8,
            fate,
            read_bytes: random.below(4096),
            written_bytes: 0,
            intended_ns,
            sent_ns,
            ended_ns: sent_ns + (random.next_u64() >> (30 + random.below(20))),
        };
        recorder.end(&ended);
    }
    recorder.finish()
}

fn over(bulk: Snapshot, limits: Vec<Limit>) -> Run {
    let load = Load::Open(SendPlan::poisson());
    let empty = super::join::empty(&Config { load, ..Config::default() }, 0);
    Run { ending: Ending::Complete, bulk, limits, ..empty }
}

/// Returns the run as it is after being sent over the wire.
fn sent(measured: Run) -> Run {
    let message = ToCoordinator::Over { run: 1, measured: Box::new(measured), achieved_per_s: 1.0 };
    let mut frames = Frames::new(wire::FRAME_BYTES_MAX);
    frames.push(&frame(&message).unwrap());
    match frames.next_message().unwrap() {
        Some(ToCoordinator::Over { measured, .. }) => *measured,
        other => panic!("{other:?}"),
    }
}

fn gathered(name: &str, measured: Run) -> Gathered {
    let clock = Estimate { offset_ns: 0, uncertainty_ns: 1, round_trip_ns: 2 };
    Gathered {
        name: name.to_owned(),
        clock,
        wall_offset_ms: 0,
        over: Some((measured, 1.0)),
        reported: Reported::default(),
        lost: None,
    }
}

#[test]
fn joined_agent_histograms_equal_histogram_of_all_samples() {
    let whole = snapshot(0..30_000);
    let parts = (0..3u64).map(|part| {
        let bulk = snapshot((0..30_000).filter(move |number| number % 3 == part));
        gathered(&format!("h{part}"), sent(over(bulk, Vec::new())))
    });
    let run = joined(&Config::default(), parts.collect(), Vec::new(), 7, false);
    assert_eq!(run.bulk.totals, whole.totals);
    for share in [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
        assert_eq!(run.bulk.response.quantile_ns(share), whole.response.quantile_ns(share), "{share}");
    }
    assert_eq!(run.bulk.response.classes().collect::<Vec<_>>(), whole.response.classes().collect::<Vec<_>>());
    assert_eq!(run.bulk.service.classes().collect::<Vec<_>>(), whole.service.classes().collect::<Vec<_>>());
    assert_eq!(run.bulk.lateness.classes().collect::<Vec<_>>(), whole.lateness.classes().collect::<Vec<_>>());
    let cells = |snapshot: &Snapshot| -> Vec<_> {
        let cell = |cell: &crate::measure::Cell| {
            (cell.verb, cell.fate, cell.size, cell.response.classes().collect::<Vec<_>>())
        };
        snapshot.cells.iter().map(cell).collect()
    };
    assert_eq!(cells(&run.bulk), cells(&whole));
    assert!(whole.cells.len() > 10 && run.hosts.len() == 3);
}

#[test]
fn an_agent_that_was_the_limit_makes_the_whole_invalid_and_is_named() {
    let limit = Limit::Late { p99_ns: 9_000_000, max_ns: 1_000_000 };
    let parts = vec![
        gathered("fine:1", over(snapshot(0..10), Vec::new())),
        gathered("slow:2", sent(over(snapshot(10..20), vec![limit]))),
    ];
    let run = joined(&Config::default(), parts, Vec::new(), 7, false);
    let said: Vec<String> = run.limits.iter().map(ToString::to_string).collect();
    assert!(
        said.len() == 1 && said[0].starts_with("agent slow:2: 1 % of the requests were sent at least 9000 us late")
    );
    let carry = &mut |_: &Config, _: &Control| Ok(run.clone());
    let server = FakeServer::start(None, VALUE_BYTES, None).unwrap();
    let job = job(config(&server, Load::Open(SendPlan::poisson())), Mode::AtRate(Rate::new(10.0)));
    let result = session::run_by(job, carry, &RunControl::default(), &mut Unseen).unwrap();
    assert!(result.invalid.unwrap().starts_with("GENERATOR LIMITED: agent slow:2: "));
    assert!(result.verdict.notes.iter().any(|note| note.starts_with("slowest agent: slow:2, ")));
}

#[test]
fn a_damaged_stream_is_a_fault_and_never_a_panic() {
    let seed = 3;
    let mut random = Prng::new(seed);
    let whole = frame(&ToCoordinator::Over {
        run: 1,
        measured: Box::new(over(snapshot(0..50), Vec::new())),
        achieved_per_s: 1.0,
    });
    let whole = whole.unwrap();
    let (mut faults, mut messages) = (0, 0);
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        bytes.truncate(1 + random.below(bytes.len() as u64) as usize);
        bytes.extend_from_slice(&whole);
        let mut frames = Frames::new(wire::GREETING_BYTES_MAX << 8);
        frames.push(&bytes);
        loop {
            match frames.next_message::<ToCoordinator>() {
                Ok(Some(_)) => messages += 1,
                Ok(None) => break,
                Err(_) => {
                    faults += 1;
                    break;
                }
            }
        }
    }
    assert!(faults > 100, "seed {seed}: {faults} faults, {messages} messages");
}

#[test]
fn a_slow_server_is_no_fault_of_an_agent() {
    let script = Script { delay: Delay::Fixed(20_000_000), one_by_one: false, stall: None, misconduct: None };
    let server = FakeServer::start(Some(script), VALUE_BYTES, None).unwrap();
    let agents = Arc::new([agent(0, None), agent(0, None)]);
    let mut fleet = fleet(&[&agents[0], &agents[1]]);
    let job = job(config(&server, Load::Open(SendPlan::constant())), Mode::AtRate(Rate::new(100.0)));
    let result = carried(&mut fleet, job, &RunControl::default()).unwrap();
    assert!(result.figures.response.min_ns >= 20_000_000 && result.partial.is_none());
}
