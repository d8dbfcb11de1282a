//! `gannet file`: looks at a memory file that no server has, and changes nothing of it.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use arena::MapFile;
use base::units::ByteSize;
use clap::{Arg, ArgMatches, Command};
use segment::{FAULTS_MAX, FileFault, FileStats, SEGMENT_STATES};

use crate::{Failure, print};

/// The subcommand's arguments.
pub fn command() -> Command {
    let path = || Arg::new("PATH").required(true).help("The memory file, as --file named it");
    Command::new("file")
        .about("Look at a memory file that no server has; nothing of it is changed")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(Command::new("stats").about("What it says of itself: read at once, whatever its size").arg(path()))
        .subcommand(
            Command::new("check")
                .about("Look at every item and every slot of its index; exit code 1 if something is wrong")
                .arg(path()),
        )
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let Some((name, matches)) = matches.subcommand() else { unreachable!("a subcommand is required") };
    let path = Path::new(matches.get_one::<String>("PATH").expect("it is required"));
    let failed = |what: String| Failure::Failed(vec![format!("{}: {what}", path.display())]);
    let file = MapFile::open_there(path).map_err(|error| failed(error.to_string()))?;
    let file = Arc::new(file);
    // What is to be done about a file is for who starts a server on it to say.
    let faulty = |fault: FileFault| failed(fault.to_string());
    match name {
        "stats" => print(&stats(&segment::file_stats(&file).map_err(faulty)?)),
        _ => {
            let check = segment::file_check(&file).map_err(faulty)?;
            let mut text = String::new();
            let _ = writeln!(text, "items: {}, slots that name items: {}", check.items, check.slots);
            let _ = writeln!(
                text,
                "of a crash, and mended when it is opened: {} items without a slot, {} slots that are there twice",
                check.unnamed, check.doubled
            );
            print(&text)?;
            if check.faults.is_empty() {
                return print("no fault\n");
            }
            let most = (check.faults.len() == FAULTS_MAX).then(|| "there may be more".to_owned());
            Err(Failure::Failed(check.faults.into_iter().chain(most).collect()))
        }
    }
}

fn stats(stats: &FileStats) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<24}{value}");
    };
    for (name, value) in &stats.superblock {
        line(name, value.to_string());
    }
    line(
        "left",
        if stats.clean { "in order".to_owned() } else { "in use, or by a process that was killed".to_owned() },
    );
    line("items", stats.items.to_string());
    line("item_bytes", format!("{} ({})", stats.item_bytes, ByteSize(stats.item_bytes >> 20 << 20)));
    for (number, items) in stats.items_by_namespace.iter().enumerate().filter(|(_, items)| **items > 0) {
        line(&format!("items_namespace_{number}"), items.to_string());
    }
    for (state, count) in SEGMENT_STATES.iter().zip(stats.segments) {
        line(&format!("segments_{state}"), count.to_string());
    }
    let [groups, next] = stats.groups;
    line("index_groups", if groups == next { groups.to_string() } else { format!("{groups}, becoming {next}") });
    line("index_locks_held", stats.stripes_held.to_string());
    line("next_sequence", stats.sequence.to_string());
    line("clock_ms", stats.clock.0.to_string());
    line("notes", format!("{}, {} bytes", stats.notes[0], stats.notes[1]));
    text
}
