//! `gannet doctor plan`, and the CPU plan of `--pin auto`.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use doctor::plan::{PROCESSES_MAX, PlanFormat, Purpose, Role, check, measured, plan};
use doctor::{CheckTarget, CpuPlan, Host, OptInActions, Topology, Wanted};

use super::args::{failed, pid, read_named, root, target};
use crate::{Failure, print, warn};

/// Highest number of threads or queues that the arguments accept.
const COUNT_MAX: u64 = io::affinity::CPU_NUMBER_END as u64;

/// The subcommand's arguments.
pub fn command() -> Command {
    let count = |name: &'static str, help: &'static str, most: u64| {
        let value = value_parser!(u64).range(u64::from(name != "storage")..=most);
        Arg::new(name).long(name).value_parser(value).value_name("N").help(help)
    };
    Command::new("plan")
        .about("Plan the use of each CPU, with reasons: threads, network queues, everything else; changes nothing")
        .after_help(
            "Examples:\n  gannet doctor plan\n  gannet doctor plan --processes 2 --storage 1 --format systemd\n  \
             gannet doctor plan --json > plan.json; $EDITOR plan.json; gannet doctor plan --check plan.json",
        )
        .arg(
            Arg::new("role")
                .long("role")
                .value_name("ROLE")
                .value_parser(["server", "generator"])
                .default_value("server")
                .help("Program to plan for"),
        )
        .arg(count("queues", "Number of CPUs with one network queue each [default: by the rules]", COUNT_MAX))
        .arg(count("workers", "Worker threads of all processes together [default: all that fit]", COUNT_MAX))
        .arg(count("processes", "Processes; each stays within one memory node if it fits", PROCESSES_MAX as u64))
        .arg(count("storage", "Storage threads of each process, for servers that have them", COUNT_MAX))
        .arg(Arg::new("sampler").long("sampler").action(ArgAction::SetTrue).help("Reserve a CPU for a sampler"))
        .arg(
            Arg::new("measure")
                .long("measure")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["queues", "check"])
                .help("Choose the CPUs for the network by the host's current activity; run the planned load meanwhile"),
        )
        .arg(
            Arg::new("seconds")
                .long("seconds")
                .value_parser(value_parser!(u64).range(1..=600))
                .value_name("SECONDS")
                .default_value("5")
                .help("Time that --measure watches"),
        )
        .arg(pid("Plan only the CPUs that this process may use"))
        .arg(root())
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the plan as JSON, which can be edited"),
        )
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .value_parser(PlanFormat::ALL.map(|(name, _)| name))
                .default_value("table")
                .conflicts_with("json")
                .help("Print the plan in this format"),
        )
        .arg(
            Arg::new("check")
                .long("check")
                .value_name("PLAN.json")
                .conflicts_with_all(["queues", "workers", "processes", "storage", "sampler"])
                .help("Check an edited plan from --json against the host"),
        )
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let measures = matches.get_flag("measure");
    let seconds = *matches.get_one::<u64>("seconds").expect("it has a default");
    let target = target(matches, if measures { Duration::from_secs(seconds) } else { Duration::ZERO })?;
    let unread = |why: doctor::host::Unread| failed(vec![why.to_string()]);
    let pid = target.pid;
    let host = Host::watch(target);
    let topology = Topology::read(&host, pid).map_err(unread)?;
    let made = match matches.get_one::<String>("check") {
        None if measures => {
            let (wanted, note) = measured(&host, &topology, wanted(matches)).map_err(unread)?;
            let mut made = plan(&topology, &wanted).map_err(failed)?;
            made.notes.insert(0, note);
            made
        }
        None => plan(&topology, &wanted(matches)).map_err(failed)?,
        Some(path) => {
            let text = read_named(path)?;
            let checked = check(&text, &topology)
                .map_err(|faults| failed(faults.iter().map(|fault| format!("{path}: {fault}")).collect()))?;
            for doubt in checked.doubts {
                warn(&format!("gannet: {path}: {doubt}"));
            }
            checked.plan
        }
    };
    let name = matches.get_one::<String>("format").expect("it has a default");
    let format =
        PlanFormat::ALL.into_iter().find(|(known, _)| known == name).map_or(PlanFormat::Table, |(_, format)| format);
    print(&if matches.get_flag("json") { made.json() } else { made.text(format, &topology) })
}

fn wanted(matches: &ArgMatches) -> Wanted {
    let count = |name: &str| matches.get_one::<u64>(name).map(|count| *count as usize);
    let is_generator = matches.get_one::<String>("role").is_some_and(|role| role == "generator");
    Wanted {
        purpose: if is_generator { Purpose::Generator } else { Purpose::Server },
        workers: count("workers"),
        queues: count("queues"),
        processes: count("processes"),
        storage: count("storage").unwrap_or(0),
        sampler: matches.get_flag("sampler"),
    }
}

/// Describes the CPU plan of a host in words, or returns the reason why the host has none.
pub fn of_host(host: &Host) -> String {
    let topology = match Topology::read(host, None) {
        Ok(topology) => topology,
        Err(why) => return format!("{why}\n"),
    };
    match plan(&topology, &Wanted::default()) {
        Ok(plan) => plan.text(PlanFormat::Table, &topology),
        Err(faults) => faults.join("\n") + "\n",
    }
}

/// Returns the plan for this process on this host, for `--pin auto`.
///
/// # Errors
/// A message that names the part of the plan that does not fit the host, or the file that cannot be read.
pub fn for_this_process(wanted: &Wanted) -> Result<CpuPlan, String> {
    let host = Host::watch(CheckTarget {
        root: "/".into(),
        pid: None,
        window: Duration::ZERO,
        asked: OptInActions::default(),
    });
    let topology = Topology::read(&host, None).map_err(|why| why.to_string())?;
    plan(&topology, wanted).map_err(|faults| faults.join("; "))
}

/// Returns the CPUs of the workers, followed by the sampler's CPU. If the plan pins no threads, returns the reason.
pub fn pins(plan: &CpuPlan) -> Result<Vec<usize>, String> {
    if !plan.pinned {
        return Err(plan.notes.join(" "));
    }
    Ok([plan.cpus_of(Role::Worker), plan.cpus_of(Role::Sampler)].concat())
}
