//! `gannet doctor apply`, `undo` and `persist`.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use doctor::checks::select;
use doctor::tune::{
    Draft, Journal, PersistForm, RunLog, Setting, Settled, StepOutcome, apply, draft, latest, persist, runs, script,
    undo,
};
use doctor::{CheckTarget, Host};

use super::args::{failed, pid, root, target};
use crate::{Failure, print};

/// Seconds that a run with changes to the network waits for its confirmation.
const CONFIRM_S: &str = "60";
/// Interval at which the timer checks whether the run was confirmed.
const LOOK: Duration = Duration::from_millis(200);

pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

pub fn journals() -> Arg {
    Arg::new("journals")
        .long("journals")
        .value_parser(value_parser!(PathBuf))
        .value_name("DIR")
        .help("Where the journals are [default: /var/lib/gannet/doctor, below --root]")
}

/// The subcommands' arguments.
pub fn commands() -> [Command; 3] {
    let run = || Arg::new("run").value_name("RUN").help("The run [default: the latest that is not undone]");
    let apply = Command::new("apply")
        .about("Write the remedies of what is not fine, each in a journal before")
        .after_help(
            "Only settings of the running kernel are written; the boot loader and files are left alone.\nA run that \
             changes the network is undone by itself unless it is confirmed in time.\nExit codes: 0 all is written, or \
             nothing was to be; 1 some was refused or clamped; 3 it could not.",
        )
        .arg(
            Arg::new("only")
                .long("only")
                .value_delimiter(',')
                .value_name("ID,...")
                .help("Only the remedies of these checks or groups"),
        )
        .arg(flag("dry-run", "Print a shell script that would write the same, and write nothing"))
        .arg(flag("confirm", "Keep the latest run: its timer does not undo it").exclusive(false))
        .arg(
            Arg::new("timer")
                .long("timer")
                .value_name("SECONDS")
                .default_value(CONFIRM_S)
                .value_parser(value_parser!(u64).range(0..=3600))
                .help("A run that changes the network is undone after this unless it is confirmed; 0: it is not"),
        )
        .arg(pid("The server's process, whose checks count too"))
        .arg(root())
        .arg(journals());
    let undo = Command::new("undo")
        .about("Take a run back, the last change first")
        .after_help("Exit codes: 0 it is as before; 1 something was left as it is; 3 it could not.")
        .arg(run())
        .arg(flag("force", "Undo also values that another program changed since"))
        .arg(flag("list", "List the runs, and what of them is not undone"))
        .arg(
            Arg::new("unless-confirmed")
                .long("unless-confirmed")
                .hide(true)
                .value_parser(value_parser!(u64))
                .requires("run"),
        )
        .arg(
            Arg::new("when-gone")
                .long("when-gone")
                .hide(true)
                .value_parser(value_parser!(i32).range(1..))
                .requires("run")
                .conflicts_with("unless-confirmed"),
        )
        .arg(root())
        .arg(journals());
    let persist = Command::new("persist")
        .about("Print what sets a run's changes again when the host starts; it is not installed")
        .arg(run())
        .arg(
            Arg::new("as")
                .long("as")
                .required(true)
                .value_parser(PersistForm::ALL.map(|(name, _)| name))
                .help("For sysctl (settings of /proc/sys alone), as a unit, or as a profile of tuned"),
        )
        .arg(root())
        .arg(journals());
    [apply, undo, persist]
}

/// The folder of the journals.
pub fn folder(matches: &ArgMatches, root: &Path) -> PathBuf {
    matches.get_one::<PathBuf>("journals").cloned().unwrap_or_else(|| root.join("var/lib/gannet/doctor"))
}

pub fn words(why: String) -> Failure {
    failed(vec![why])
}

/// Which start of the host this is.
pub fn boot(root: &Path) -> String {
    let text = std::fs::read_to_string(root.join("proc/sys/kernel/random/boot_id"));
    text.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// The tree that the arguments name.
pub fn root_of(matches: &ArgMatches) -> Result<PathBuf, Failure> {
    let root = matches.get_one::<PathBuf>("root").expect("it has a default").clone();
    if root.is_dir() { Ok(root) } else { Err(words(format!("--root: {} is no folder", root.display()))) }
}

/// The run that is named, or the latest that is not undone.
fn run_of(matches: &ArgMatches, folder: &Path) -> Result<Option<String>, Failure> {
    match matches.get_one::<String>("run") {
        Some(run) => Ok(Some(run.clone())),
        None => latest(folder).map_err(words),
    }
}

/// Runs `apply`.
pub fn run_apply(matches: &ArgMatches) -> Result<(), Failure> {
    let target = target(matches, Duration::from_secs(1))?;
    let (root, folder) = (target.root.clone(), folder(matches, &target.root));
    if matches.get_flag("confirm") {
        return confirm(&folder);
    }
    let drafted = drafted(matches, target)?;
    if matches.get_flag("dry-run") {
        return print(&script(&drafted, &root));
    }
    for (check, why) in &drafted.beside {
        eprintln!("gannet: {check}: {why}");
    }
    if drafted.steps.is_empty() {
        return print("Nothing is to be written.\n");
    }
    let mut journal = Journal::begin(&folder, &boot(&root)).map_err(words)?;
    let run = journal.run.clone();
    let timer = *matches.get_one::<u64>("timer").expect("it has a default");
    let is_network = drafted.steps.iter().any(|step| is_network(&step.new.path));
    // Before anything is written: what is written may be what cuts this terminal off.
    if is_network && timer > 0 {
        start_timer(&root, &folder, &run, timer).map_err(words)?;
    }
    let settled = apply(&root, &mut journal, &drafted, &mut |_| {}).map_err(words)?;
    let mut text: String = settled.iter().map(|step| line(step, false)).collect();
    text += &format!("Run {run}; `gannet doctor undo {run}` takes it back.\n");
    if is_network && timer > 0 {
        text += &format!("It changes the network, and is undone in {timer} s unless: gannet doctor apply --confirm\n");
    }
    ended(&text, &settled)
}

fn drafted(matches: &ArgMatches, target: CheckTarget) -> Result<Draft, Failure> {
    let only: Vec<String> = matches.get_many::<String>("only").unwrap_or_default().cloned().collect();
    let checks = select(&only).map_err(failed)?;
    let mut drafted = draft(&Host::watch(target), &checks);
    // If no check is named, only the steps that are written are listed.
    if only.is_empty() {
        drafted.beside.clear();
    }
    Ok(drafted)
}

/// Returns whether a write to the file may cut off connected clients.
fn is_network(path: &str) -> bool {
    ["/sys/class/net/", "/proc/irq/", "/ethtool/"].iter().any(|start| path.starts_with(start))
}

/// Undoes the run later, in a process that outlives this one and its terminal.
fn start_timer(root: &Path, folder: &Path, run: &str, seconds: u64) -> Result<(), String> {
    start_undo(root, folder, run, ["--unless-confirmed", &seconds.to_string()]).map(drop)
}

/// Undoes the run when this process is gone, however it went, unless it is confirmed or undone by then.
pub fn start_guard(root: &Path, folder: &Path, run: &str) -> Result<Child, String> {
    start_undo(root, folder, run, ["--when-gone", &std::process::id().to_string()])
}

fn start_undo(root: &Path, folder: &Path, run: &str, when: [&str; 2]) -> Result<Child, String> {
    use std::os::unix::process::CommandExt;
    // This very program, also when its file was replaced meanwhile.
    let later = std::process::Command::new("/proc/self/exe")
        .args(["doctor", "undo", run])
        .args(when)
        .arg("--root")
        .arg(root)
        .arg("--journals")
        .arg(folder)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    later.map_err(|error| format!("cannot start the process that would undo the run later: {error}"))
}

fn confirm(folder: &Path) -> Result<(), Failure> {
    let Some(run) = latest(folder).map_err(words)? else {
        return Err(words("there is no run to confirm: none is there, or its timer has undone it".to_owned()));
    };
    let (mut journal, _) = Journal::open(folder, &run).map_err(words)?;
    journal.confirm().map_err(words)?;
    print(&format!("Run {run} stays.\n"))
}

/// Runs `undo`.
pub fn run_undo(matches: &ArgMatches) -> Result<(), Failure> {
    let root = root_of(matches)?;
    let folder = folder(matches, &root);
    if matches.get_flag("list") {
        let tell = |run: String| match RunLog::read(&folder, &run) {
            Ok(log) => format!("{run}  {} changes not undone\n", log.open_steps()),
            Err(why) => format!("{run}  {why}\n"),
        };
        return print(&runs(&folder).into_iter().map(tell).collect::<String>());
    }
    let Some(run) = run_of(matches, &folder)? else { return print("Nothing is to be undone.\n") };
    if let Some(seconds) = matches.get_one::<u64>("unless-confirmed")
        && is_confirmed_within(&folder, &run, Duration::from_secs(*seconds))
    {
        return Ok(());
    }
    if let Some(process) = matches.get_one::<i32>("when-gone")
        && is_settled_before_gone(&folder, &run, *process)
    {
        return Ok(());
    }
    let (mut journal, log) = Journal::open(&folder, &run).map_err(words)?;
    let settled =
        undo(&root, &mut journal, &log, &boot(&root), matches.get_flag("force"), &mut |_| {}).map_err(words)?;
    let text: String = settled.iter().map(|step| line(step, true)).collect();
    let log = RunLog::read(&folder, &run).map_err(words)?;
    let end = match log.open_steps() {
        0 => format!("Run {run} is undone.\n"),
        left => format!("{left} changes of run {run} are not undone.\n"),
    };
    ended(&(text + &end), &settled)
}

/// Waits for the confirmation. A journal that cannot be read is not a confirmation.
fn is_confirmed_within(folder: &Path, run: &str, time: Duration) -> bool {
    // Its terminal's end does not end it: it is the last that can help then.
    let _ = rustix::process::setsid();
    let begun = Instant::now();
    loop {
        if RunLog::read(folder, run).is_ok_and(|log| log.is_confirmed) {
            return true;
        }
        if begun.elapsed() >= time {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}

/// Waits until the run is confirmed or undone, or the process is gone.
fn is_settled_before_gone(folder: &Path, run: &str, process: i32) -> bool {
    let _ = rustix::process::setsid();
    let parent = || rustix::process::getppid().map(rustix::process::Pid::as_raw_pid);
    loop {
        // Whose parent is another one has lost its own; the number may be some other process's by now.
        let is_gone = parent() != Some(process);
        if RunLog::read(folder, run).is_ok_and(|log| log.is_confirmed || log.is_over()) {
            return true;
        }
        if is_gone {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}

/// Runs `persist`.
pub fn run_persist(matches: &ArgMatches) -> Result<(), Failure> {
    let root = root_of(matches)?;
    let folder = folder(matches, &root);
    let none = || words("nothing is applied that is not undone; `gannet doctor apply` comes first".to_owned());
    let run = run_of(matches, &folder)?.ok_or_else(none)?;
    let log = RunLog::read(&folder, &run).map_err(words)?;
    let settings: Vec<&Setting> = log.effective().map(|step| &step.new).collect();
    if settings.is_empty() {
        return Err(none());
    }
    let name = matches.get_one::<String>("as").expect("it is required");
    let kept = PersistForm::ALL.into_iter().find(|(known, _)| known == name).expect("the parser knows them").1;
    print(&persist(&settings, kept))
}

/// A step in a line.
fn line(settled: &Settled, is_back: bool) -> String {
    let step = &settled.step;
    let (from, to) = if is_back { (&step.new.value, &step.old) } else { (&step.old, &step.new.value) };
    let what = match &settled.outcome {
        StepOutcome::Done => "done".to_owned(),
        StepOutcome::Clamped(now) => format!("CLAMPED: it is {now}"),
        StepOutcome::Refused(why) => format!("REFUSED: {why}"),
        StepOutcome::Untouched => "it is as before already".to_owned(),
        StepOutcome::Foreign(now) => format!("LEFT: another program changed it to {now}; --force undoes that too"),
        StepOutcome::Restarted => "the host restarted since; its settings are left as its start set them".to_owned(),
    };
    let text = format!("{}: {} ({from} -> {to}): {what}", step.check, step.new.path);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>() + "\n"
}

fn ended(text: &str, settled: &[Settled]) -> Result<(), Failure> {
    print(text)?;
    let whole =
        |step: &Settled| matches!(step.outcome, StepOutcome::Done | StepOutcome::Untouched | StepOutcome::Restarted);
    if settled.iter().all(whole) { Ok(()) } else { Err(Failure::Code(1, Vec::new())) }
}
