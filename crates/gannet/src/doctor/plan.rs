//! `gannet doctor plan`, and the planning behind `--pin auto`.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use doctor::plan::{PROCESSES_MAX, PlanFormat, Purpose, Role, check, measured, plan};
use doctor::{CheckTarget, CpuPlan, Host, OptInActions, Topology, Wanted};

use super::args::{failed, pid, read_named, root, target};
use crate::{Failure, print};

/// Threads and queues at most.
const COUNT_MAX: u64 = io::affinity::CPU_NUMBER_END as u64;

/// The subcommand's arguments.
pub fn command() -> Command {
    let count = |name: &'static str, help: &'static str, most: u64| {
        let value = value_parser!(u64).range(u64::from(name != "storage")..=most);
        Arg::new(name).long(name).value_parser(value).value_name("N").help(help)
    };
    Command::new("plan")
        .about("Which CPU does what, and why: threads, queues of the network, everything else; nothing is changed")
        .after_help(
            "Examples:\n  gannet doctor plan\n  gannet doctor plan --processes 2 --storage 1 --format systemd\n  \
             gannet doctor plan --json > plan.json; $EDITOR plan.json; gannet doctor plan --check plan.json",
        )
        .arg(
            Arg::new("role")
                .long("role")
                .value_parser(["server", "generator"])
                .default_value("server")
                .help("What is to run"),
        )
        .arg(count("queues", "CPUs with a queue of the network interface each [default: by the rules]", COUNT_MAX))
        .arg(count(
            "workers",
            "Worker threads, of all processes [default: as many as the rest has room for]",
            COUNT_MAX,
        ))
        .arg(count("processes", "Processes; each stays within a memory node if it can", PROCESSES_MAX as u64))
        .arg(count("storage", "Storage threads of each process, for servers that have such", COUNT_MAX))
        .arg(Arg::new("sampler").long("sampler").action(ArgAction::SetTrue).help("A CPU for a generator's sampler"))
        .arg(
            Arg::new("measure")
                .long("measure")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["queues", "check"])
                .help("CPUs for the network by what the host does now, under the load that is planned for"),
        )
        .arg(
            Arg::new("seconds")
                .long("seconds")
                .value_parser(value_parser!(u64).range(1..=600))
                .value_name("SECONDS")
                .default_value("5")
                .help("How long --measure watches"),
        )
        .arg(pid("For the CPUs that this process may run on"))
        .arg(root())
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print it as JSON, to be changed"))
        .arg(
            Arg::new("format")
                .long("format")
                .value_parser(PlanFormat::ALL.map(|(name, _)| name))
                .default_value("table")
                .conflicts_with("json")
                .help("Print it as this"),
        )
        .arg(
            Arg::new("check")
                .long("check")
                .value_name("PLAN.json")
                .conflicts_with_all(["queues", "workers", "processes", "storage", "sampler"])
                .help("Take this plan, which --json wrote and a person changed, and check it against the host"),
        )
}

/// Runs it.
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
                eprintln!("gannet: {path}: {doubt}");
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

/// The plan of a host in words, or why there is none.
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

/// The plan for this process on this host, for `--pin auto`.
///
/// # Errors
/// A message that says what does not fit, or what could not be read.
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

/// The CPUs of the workers, if they are to be pinned, then the sampler's; else why not.
pub fn pins(plan: &CpuPlan) -> Result<Vec<usize>, String> {
    if !plan.pinned {
        return Err(plan.notes.join(" "));
    }
    Ok([plan.cpus_of(Role::Worker), plan.cpus_of(Role::Sampler)].concat())
}
