//! `gannet doctor prove`: measures on this host whether a change helps, in alternating rounds without and with the
//! change.
//!
//! ```text
//!   change     --remedy ID, --set NAME=VALUE or --pin CPUS ─> change      applies and undoes the change
//!   server     started for the proof, or already running   ─> trial       sends requests by `gannet load`'s engine
//!              running, under its real traffic (--live)    ─> live        reads the server's histograms twice
//!   rounds     both sides, in an order drawn from the seed ─> doctor::prove: intervals, verdict
//!   output     text, JSON, one HTML page                   ─> page
//! ```
//! With --root, the settings are files below that directory; requests and kernel counters are always those of this
//! host. The host is restored however the command ends: after a failed round, Ctrl-C or a crash. Only a change that
//! helped may stay.

mod change;
mod live;
mod page;
mod trial;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::prng::split_mix;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use doctor::check::{Check, Verdict as Found};
use doctor::checks::nearest_of;
use doctor::prove::{
    Measured, Proof, ProofRound, ProofVerdict, ROUNDS_MAX, ROUNDS_MIN, ROUNDS_MIN_LIVE, Side, Subject, judge, number,
    order, text,
};
use doctor::tune::{Setting, TunePlan, draft_remedy, draft_settings, is_setting, is_written};
use doctor::{Host, checks};
use load::result::Machine;
use load::session::RunControl;
use load::timeline::locate;

use super::args::{self, failed};
use super::tune;
use crate::load::{compare::write, run::PARTIAL, stop};
use crate::{Failure, print, warn};
use change::{HostChange, HostSettings};
use live::{Live, apart};
use trial::{Bench, settle};

/// The exit code if the change has no proven benefit.
const NOT_HELPED: u8 = 1;
/// Pause after a change, before the measurement.
const SETTLE: Duration = Duration::from_secs(1);

fn value(name: &'static str, placeholder: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(placeholder).help(help)
}

/// The subcommand's arguments.
pub fn command() -> Command {
    let command = Command::new("prove")
        .about(
            "Measure whether a change helps: rounds with and without it, p999 with intervals; a change that does not \
             help is undone",
        )
        .after_help(
            "Each round measures both sides, in an order drawn from the seed. Flags after -- are flags of `gannet \
             load`.\nExit codes: 0 the change helped and stays; 1 it did not help, or the result is unclear, and it \
             was undone; 2 wrong arguments; 3 it could not be applied or measured, and was undone.\n\nExamples:\n  \
             gannet doctor prove --remedy mem.min-free --report min-free.html\n  gannet doctor prove --pin auto --slo \
             p999=2ms\n  gannet doctor prove --set vm.swappiness=10 --target 127.0.0.1:6379 --rate 20k -- --protocol \
             resp",
        )
        .next_help_heading("Change under test")
        .arg(value("remedy", "ID", "Remedy of a check [default: the remedy of each finding, one by one]"))
        .arg(
            value("set", "NAME=VALUE", "Setting, as in vm.swappiness=10 or /sys/...=never; may be repeated")
                .action(ArgAction::Append),
        )
        .arg(value("pin", "CPULIST", "CPUs of the workers of a server started for the proof: auto, or as in 0-3"))
        .group(ArgGroup::new("what").args(["remedy", "set", "pin"]));
    let command = command
        .next_help_heading("On what")
        .arg(
            value("live", "ADMIN-ADDR", "Send no load; measure the real traffic of the server with this admin port")
                .conflicts_with_all(["target", "server", "rate", "slo", "trial", "pin", "flags"]),
        )
        .arg(value("target", "HOST:PORT", "Address of the server [default: a Gannet started for each measurement]"))
        .arg(
            value("server", "COMMAND", "Command that starts the server at --target, once per measurement")
                .requires("target"),
        )
        .arg(args::pid("Process id of the server, if it is not found by its port"));
    let command = command
        .next_help_heading("Measurement")
        .arg(value(
            "rate",
            "RATE",
            "Requests per second [default: a rate within the generator's capacity, found by trials]",
        ))
        .arg(value(
            "slo",
            "LIST",
            "Objectives, as in p999=2ms: each measurement then also searches the highest rate within them",
        ))
        .arg(value("trial", "DURATION", "Length of each trial of that search").default_value("2s"))
        .arg(
            value("rounds", "N", "Number of rounds [default: 5; 7 with --live]")
                .value_parser(value_parser!(u64).range(ROUNDS_MIN as u64..=ROUNDS_MAX as u64)),
        )
        .arg(
            value("seconds", "SECONDS", "Length of each side's measurement in a round")
                .default_value("30")
                .value_parser(value_parser!(u64).range(1..=3600)),
        )
        .arg(
            value("seed", "N", "Seed of the order and the intervals [default: the time]")
                .value_parser(value_parser!(u64)),
        )
        .arg(Arg::new("flags").value_name("FLAGS").last(true).num_args(1..).help("More flags of `gannet load`"));
    command
        .next_help_heading("Output")
        .arg(value("report", "FILE.html", "Write an HTML report in one file"))
        .arg(value("json", "FILE", "Write the result as JSON"))
        .arg(tune::flag("undo", "Undo the change even if it helped"))
        .arg(args::root())
        .arg(tune::journals())
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let run_control = Arc::new(RunControl::default());
    let mut changes = wanted(matches)?;
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        // The seed is short enough to be typed.
        split_mix(now) % 1_000_000
    });
    let mut bench = meter(matches)?;
    let rounds = rounds_wanted(matches, &bench)?;
    let names: Vec<&str> = changes.iter().map(|(subject, _)| subject.change.as_str()).collect();
    if let Some(line) = several(&names) {
        warn(&line);
    }
    warn(&length(&bench, changes.len() as u64, rounds));
    stop::run_control(&run_control)?;
    let mut proofs = Vec::new();
    for (subject, change) in &mut changes {
        if run_control.is_stopped() {
            break;
        }
        subject.seed = seed;
        let proof = proved(matches, subject, change, &mut bench, &run_control)?;
        print(&(text(&proof) + "\n"))?;
        proofs.push(proof);
    }
    if let Some(path) = matches.get_one::<String>("report") {
        write(Path::new(path), &page::html(&proofs))?;
    }
    if let Some(path) = matches.get_one::<String>("json") {
        let json = serde_json::to_string_pretty(&proofs).expect("a proof is plain JSON");
        write(Path::new(path), &(json + "\n"))?;
    }
    if run_control.is_stopped() {
        let rounds: usize = proofs.iter().map(|proof| proof.rounds.len()).sum();
        let line = format!("PARTIAL: the proof was stopped after {rounds} whole rounds");
        return Err(Failure::Code(PARTIAL, vec![line]));
    }
    let helped = proofs.iter().any(|proof| proof.verdict == ProofVerdict::Helped);
    if helped { Ok(()) } else { Err(Failure::Code(NOT_HELPED, Vec::new())) }
}

/// The method by which both sides are measured.
enum Meter {
    /// By requests from this host's generator.
    Load(Bench),
    /// By the server's counters of its real traffic.
    Live(Live),
}

impl Meter {
    fn measure(&mut self, pin: Option<&str>, run_control: &RunControl) -> Result<Measured, Failure> {
        match self {
            Self::Load(bench) => bench.measure(pin, run_control),
            Self::Live(live) => live.measure(run_control),
        }
    }

    /// Returns the reason for the rate, in words.
    fn why(&self) -> String {
        match self {
            Self::Load(bench) => bench.why.clone(),
            Self::Live(_) => String::new(),
        }
    }

    /// Describes the server and its load.
    fn words(&self) -> (String, String) {
        match self {
            Self::Load(bench) => (bench.server_words(), bench.load_words()),
            Self::Live(live) => {
                let load = format!("its own traffic for {} s, according to its histograms", live.seconds);
                (format!("the server with the admin port {}", live.admin), load)
            }
        }
    }
}

fn meter(matches: &ArgMatches) -> Result<Meter, Failure> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let pid = matches.get_one::<u32>("pid").copied();
    let seconds = *matches.get_one::<u64>("seconds").expect("it has a default");
    if let Some(admin) = text("live") {
        let wrong =
            || Failure::Usage(vec![format!("--live: '{admin}' is not an address; write it as in 127.0.0.1:9555")]);
        let addr: SocketAddr = admin.parse().map_err(|_| wrong())?;
        return Ok(Meter::Live(Live { admin: addr, pid: pid.or_else(|| locate::listener(&admin)), seconds }));
    }
    Ok(Meter::Load(Bench {
        server: text("server"),
        target: text("target"),
        pid,
        rate: text("rate"),
        why: text("rate").map_or(String::new(), |rate| format!("{}/s by --rate", rate.trim_end_matches("/s"))),
        seconds,
        slo: text("slo"),
        trial: text("trial").expect("it has a default"),
        flags: matches.get_many::<String>("flags").into_iter().flatten().cloned().collect(),
        is_filled: false,
    }))
}

/// Lists the changes, if there are several.
fn several(names: &[&str]) -> Option<String> {
    let count = names.len();
    let remedy = "--remedy ID measures only one";
    (count > 1).then(|| format!("{count} changes are measured one after the other: {}; {remedy}", names.join(", ")))
}

/// Describes the expected time of all proofs, in words.
fn length(meter: &Meter, changes: u64, rounds: u64) -> String {
    let (measurement_s, before_s, each_s) = match meter {
        Meter::Load(bench) => (bench.measurement_s(), bench.calibration_s(), bench.seconds),
        Meter::Live(live) => (live.seconds + SETTLE.as_secs(), 0, live.seconds),
    };
    let least_s = before_s + changes * rounds * 2 * measurement_s;
    let most_s = before_s + changes * (rounds + rounds.div_ceil(2)) * 2 * measurement_s;
    let each = if changes == 1 { "" } else { " of each" };
    let changes = if changes == 1 { "1 change".to_owned() } else { format!("{changes} changes") };
    format!(
        "expected time: {}, at most {} if rounds have to be repeated ({changes}, {rounds} rounds{each}, 2 measurements \
         of {each_s} s in each); --seconds and --rounds shorten it, Ctrl-C ends it and undoes the change",
        minutes(least_s),
        minutes(most_s)
    )
}

/// Formats a number of seconds as `7 min 40 s`.
fn minutes(seconds: u64) -> String {
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

/// Returns the number of rounds, or an error if the user requests fewer rounds than a verdict needs.
fn rounds_wanted(matches: &ArgMatches, meter: &Meter) -> Result<u64, Failure> {
    let least = if matches!(meter, Meter::Live(_)) { ROUNDS_MIN_LIVE } else { ROUNDS_MIN } as u64;
    match matches.get_one::<u64>("rounds").copied() {
        Some(rounds) if rounds < least => {
            Err(Failure::Usage(vec![format!("--rounds: at least {least} rounds are needed for a verdict")]))
        }
        rounds => Ok(rounds.unwrap_or(least)),
    }
}

/// Returns the changes to measure, each with a description for the report.
fn wanted(matches: &ArgMatches) -> Result<Vec<(Subject, HostChange)>, Failure> {
    let root = tune::root_of(matches)?;
    let host = Host::now(root.clone(), matches.get_one::<u32>("pid").copied());
    let folder = tune::folder(matches, &root);
    let settings = |change: &str, mechanism: Option<&str>, draft: TunePlan| {
        let mut subject = subject(change, mechanism);
        subject.steps.clone_from(&draft.steps);
        (subject, HostChange::Settings(HostSettings::new(root.clone(), folder.clone(), draft)))
    };
    if let Some(cpus) = matches.get_one::<String>("pin") {
        return pinned(matches, cpus).map(|pinned| vec![pinned]);
    }
    if let Some(wishes) = matches.get_many::<String>("set") {
        let wishes: Vec<Setting> = wishes.map(|wish| setting(wish)).collect::<Result<_, _>>()?;
        let name: Vec<String> = wishes.iter().map(|wish| format!("{}={}", wish.path, wish.value)).collect();
        let name = name.join(" ");
        let draft = draft_settings(&host, &name, wishes);
        none_beside(&draft)?;
        return Ok(vec![settings(&name, None, draft)]);
    }
    if let Some(id) = matches.get_one::<String>("remedy") {
        let Some(check) = checks::all().find(|check| check.id == id) else {
            return Err(failed(vec![format!(
                "{id:?} is not a check{}; `gannet doctor list` lists all",
                nearest_of(id)
            )]));
        };
        let draft = draft_remedy(&host, check);
        none_beside(&draft)?;
        return Ok(vec![settings(check.id, Some(check.mechanism), draft)]);
    }
    let finds =
        |check: &&Check| is_written(check.id) && (check.probe)(&host).is_ok_and(|seen| seen.verdict != Found::Ok);
    let drafts = checks::all().filter(finds).map(|check| (check, draft_remedy(&host, check)));
    let drafts = drafts.filter(|(_, draft)| !draft.steps.is_empty());
    let all: Vec<_> = drafts.map(|(check, draft)| settings(check.id, Some(check.mechanism), draft)).collect();
    if all.is_empty() {
        return Err(failed(vec!["no finding has a remedy by settings; pass --remedy, --set or --pin".into()]));
    }
    Ok(all)
}

/// Refuses a remedy that has no settings to write on this host, or whose settings already have the new values.
fn none_beside(draft: &TunePlan) -> Result<(), Failure> {
    if let Some((check, why)) = draft.beside.first() {
        return Err(failed(vec![format!("{check} cannot be proved here: {why}")]));
    }
    if draft.steps.is_empty() {
        return Err(failed(vec!["all settings already have these values, so there is nothing to compare".to_owned()]));
    }
    Ok(())
}

/// Parses `vm.swappiness=10` or `/sys/kernel/mm/ksm/run=0`.
fn setting(text: &str) -> Result<Setting, Failure> {
    let (name, value) =
        text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty()).ok_or_else(|| {
            Failure::Usage(vec![format!("--set: {text:?} is not NAME=VALUE; write it as in vm.swappiness=10")])
        })?;
    let path = match name.starts_with('/') {
        true => name.to_owned(),
        false => format!("/proc/sys/{}", name.replace('.', "/")),
    };
    if !is_setting(&path) {
        let what = "no setting of the kernel; name one as in vm.swappiness=10, or a file below /proc/sys, /proc/irq \
                    or /sys";
        return Err(Failure::Usage(vec![format!("--set: {path} is {what}")]));
    }
    Ok(Setting { path, value: value.to_owned() })
}

fn pinned(matches: &ArgMatches, cpus: &str) -> Result<(Subject, HostChange), Failure> {
    if matches.contains_id("target") && !matches.contains_id("server") {
        let line = "--pin: a running server cannot be pinned by the doctor; pass --server to start one";
        return Err(Failure::Usage(vec![line.to_owned()]));
    }
    if cpus == "auto"
        && let Err(why) =
            super::plan::for_this_process(&doctor::Wanted::default()).and_then(|plan| super::plan::pins(&plan))
    {
        return Err(failed(vec![format!("--pin auto pins no CPUs: {why}; name the CPUs, as in --pin 0-1")]));
    }
    let mechanism = "A thread that is not pinned migrates between CPUs and queues behind other threads.";
    Ok((subject(&format!("pin {cpus}"), Some(mechanism)), HostChange::Pins(cpus.to_owned())))
}

fn subject(change: &str, mechanism: Option<&str>) -> Subject {
    let machine = Machine::here();
    let mib = machine.memory_bytes >> 20;
    let kind = if machine.virtual_machine { "a virtual machine" } else { "a machine" };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
    Subject {
        change: change.to_owned(),
        mechanism: mechanism.map(str::to_owned),
        host: host.map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned()),
        machine: format!("{kind} with {} CPUs ({}), {mib} MiB, {}", machine.cpus, machine.cpu, machine.kernel),
        ..Subject::default()
    }
}

/// Runs all rounds of one change, and keeps or undoes the change.
fn proved(
    matches: &ArgMatches,
    subject: &mut Subject,
    change: &mut HostChange,
    bench: &mut Meter,
    run_control: &RunControl,
) -> Result<Proof, Failure> {
    let rounds = rounds_wanted(matches, bench)?;
    change.check().map_err(|why| failed(vec![why]))?;
    if let Meter::Load(bench) = bench {
        match bench.calibrate(change.pin(Side::Before), run_control) {
            Err(_) if stop::explains_failure(run_control) => {}
            calibrated => calibrated?,
        }
    }
    (subject.server, subject.load) = bench.words();
    subject.rate = bench.why();
    let measured = self::rounds(subject, change, bench, rounds, run_control);
    // Restores the host first, even if a round failed.
    let back = change.set(Side::Before).map_err(|why| failed(vec![why]));
    let measured = measured?;
    back?;
    let mut proof = judge(subject.clone(), measured);
    let stays = proof.verdict == ProofVerdict::Helped && !matches.get_flag("undo") && !run_control.is_stopped();
    proof.end = match stays {
        true => change.keep().map_err(|why| failed(vec![why]))?,
        false => "The change was undone: the host is in its original state.".to_owned(),
    };
    Ok(proof)
}

/// Runs rounds until enough of them are valid. Invalid rounds are repeated, up to half of the requested number.
fn rounds(
    subject: &Subject,
    change: &mut HostChange,
    bench: &mut Meter,
    wanted: u64,
    run_control: &RunControl,
) -> Result<Vec<ProofRound>, Failure> {
    let mut rounds: Vec<ProofRound> = Vec::new();
    let counted = |rounds: &[ProofRound]| rounds.iter().filter(|round| round.fault().is_none()).count() as u64;
    warn(&format!("{}: {}; {}; seed {}", subject.change, subject.server, subject.load, subject.seed));
    if !subject.rate.is_empty() {
        warn(&format!("the rate: {}", subject.rate));
    }
    let is_wanted = |rounds: &[ProofRound]| {
        counted(rounds) < wanted && (rounds.len() as u64) < wanted + wanted.div_ceil(2) && !run_control.is_stopped()
    };
    while is_wanted(&rounds) {
        let both = order(subject.seed, rounds.len() as u64);
        let (mut before, mut changed) = (None, None);
        for side in both {
            change.set(side).map_err(|why| failed(vec![why]))?;
            settle(SETTLE, run_control);
            let measured = match bench.measure(change.pin(side), run_control) {
                Err(_) if stop::explains_failure(run_control) => return Ok(rounds),
                measured => measured?,
            };
            if run_control.is_stopped() {
                return Ok(rounds);
            }
            print_round(rounds.len(), side, &measured);
            match side {
                Side::Before => before = Some(measured),
                Side::Changed => changed = Some(measured),
            }
        }
        if let (Some(before), Some(mut changed)) = (before, changed) {
            if matches!(bench, Meter::Live(_)) && changed.fault.is_none() {
                changed.fault = apart(&before, &changed);
            }
            rounds.push(ProofRound { first: both[0], before, changed });
        }
    }
    Ok(rounds)
}

/// Prints a measurement as a line on standard error.
fn print_round(round: usize, side: Side, measured: &Measured) {
    let side = if side == Side::Before { "without the change" } else { "changed  " };
    let figures: Vec<String> =
        measured.judged().map(|(figure, value)| format!("{} {}", figure.name, number(figure.unit, value))).collect();
    match &measured.fault {
        Some(fault) => warn(&format!("round {}, {side}: does not count: {fault}", round + 1)),
        None => warn(&format!("round {}, {side}: {}", round + 1, figures.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_of_all_findings_lists_its_changes_and_the_time_of_all() {
        assert_eq!(several(&["mem.thp"]), None);
        let line = several(&["mem.thp", "net.qdisc"]).unwrap();
        assert_eq!(
            line,
            "2 changes are measured one after the other: mem.thp, net.qdisc; --remedy ID measures only one"
        );
        let live = Meter::Live(Live { admin: "127.0.0.1:1".parse().unwrap(), pid: None, seconds: 29 });
        let (one, two) = (length(&live, 1, 7), length(&live, 2, 7));
        assert!(
            one.starts_with("expected time: 7 min, at most 11 min") && one.contains("(1 change, 7 rounds, 2 "),
            "{one}"
        );
        assert!(two.starts_with("expected time: 14 min,") && two.contains("(2 changes, 7 rounds of each, "), "{two}");
    }
}
