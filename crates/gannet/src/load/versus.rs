//! `gannet load versus --a CMD --b CMD`: compares two servers, which run alternately at the same address in each round.

use std::path::Path;
use std::sync::Arc;

use clap::{Arg, ArgMatches, Command};
use load::report::versus::{ROUNDS_MAX, VersusRound, html, text};
use load::session::{Mode, RunControl};
use load::timeline::process::cpu_ns;

use super::args;
use super::ask::ask;
use super::compare::write;
use super::run::one;
use super::started::{StartedServer, listens};
use super::stop;
use super::view::Screen;
use crate::{Failure, print};

/// The subcommand's arguments.
pub fn command() -> Command {
    let value = |name: &'static str, placeholder: &'static str| Arg::new(name).long(name).value_name(placeholder);
    let command = Command::new("versus")
        .about("Alternate two servers, and report the ratios of their figures with confidence intervals")
        .arg(
            value("a", "COMMAND")
                .required(true)
                .help("Command that starts the first server, which must listen at --target"),
        )
        .arg(
            value("b", "COMMAND")
                .required(true)
                .help("Command that starts the second server, which must listen at the same address"),
        )
        .arg(value("rounds", "N").default_value("7").help("Number of rounds, with one run of each server"));
    args::add(command).after_help(
        "Example:\n  gannet load versus --a 'memcached -p 11300' --b 'gannet serve --memcached 127.0.0.1:11300' \
         \\\n    --target 127.0.0.1:11300 --rate 20k --duration 5s --report versus.html",
    )
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let usage = |line: &str| Failure::Usage(vec![line.to_owned()]);
    let command = |side: &str| matches.get_one::<String>(side).map_or("", String::as_str);
    let rounds = matches.get_one::<String>("rounds").and_then(|text| text.parse::<u32>().ok());
    let rounds = rounds.filter(|rounds| (1..=ROUNDS_MAX).contains(rounds));
    let rounds =
        rounds.ok_or_else(|| usage("--rounds: the number must be from 1 to 101; 7 rounds give intervals of 98 %"))?;
    let asked = ask(matches)?;
    if matches!(asked.job.mode, Mode::Closed) && !matches.get_flag("closed") {
        return Err(usage("select what each round runs: --rate 20k, --slo p999=2ms or --closed"));
    }
    let mut screen = Screen::new(matches.get_flag("quiet"));
    for note in &asked.notes {
        screen.line(&format!("note: {note}"));
    }
    let run_control = Arc::new(RunControl::default());
    stop::run_control(&run_control)?;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // The order alternates from round to round, so that no side always runs second, on a warmer machine.
        let order = if round % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
        for side in order {
            if run_control.is_stopped() {
                break;
            }
            screen.line(&format!("round {} of {rounds}: {side}", round + 1));
            let measured = self::round(matches, command(side), &run_control, &mut screen)?;
            if side == "a" {
                a.push(measured)
            } else {
                b.push(measured)
            };
        }
    }
    let whole = a.len().min(b.len());
    a.truncate(whole);
    b.truncate(whole);
    if whole == 0 {
        return Err(Failure::Failed(vec!["the command was stopped before the end of the first round".to_owned()]));
    }
    if let Some(path) = matches.get_one::<String>("report") {
        write(Path::new(path), &html(&a, &b, [command("a"), command("b")]))?;
    }
    print(&text(&a, &b))
}

/// Starts the server, runs one session and ends the server.
fn round(
    matches: &ArgMatches,
    command: &str,
    run_control: &RunControl,
    screen: &mut Screen,
) -> Result<VersusRound, Failure> {
    let asked = ask(matches)?;
    let target = asked.workload.targets.first().map_or("", |target| target.address.as_str()).to_owned();
    if listens(&target) {
        let line = format!("another server listens on {target}; end it, or pass another --target");
        return Err(Failure::Failed(vec![line]));
    }
    let mut server = StartedServer::start(command, &target)?;
    let before = cpu_ns(server.pid());
    let result = one(matches, asked, run_control, screen, None)?;
    let used = cpu_ns(server.pid()).zip(before).map(|(after, before)| after.saturating_sub(before));
    server.end();
    let counts = &result.figures.counts;
    let per_request = used.map(|ns| ns as f64 / (counts.answered + counts.warm_up).max(1) as f64);
    // The server's CPU time includes a prefill and the trials of a search, whose requests are not in the result's
    // count. So the CPU time per request is only known for a run without both.
    let is_plain = result.search.is_none() && matches.get_flag("no-prefill");
    Ok(VersusRound { result, server_cpu_ns: per_request.filter(|_| is_plain) })
}
