//! Runs each long command once, for `xtask gate`, which counts the instructions of [`lab::Lab::worker_iteration`]. A
//! worker serves a long command in many steps, and other sessions between the steps.
//!
//! ```text
//!   this program                                the gate
//!     pid 4711                            ──>
//!     KEYS nomatch*<tab>10000<tab>Walked  ──>   sets the counters to zero
//!                                         <──   an empty line
//!     done                                ──>   reads the counters
//!                                         <──   an empty line, and so on to the last command
//! ```
//!
//! The line of a command has three columns: its name, its length (units), and the unit of that length.
//!
//! The commands are those of the bystander test. Under its simulated clock, a worker stops serving a command only after
//! a counted amount of work, so a count does not depend on the machine's speed or on callgrind. The program stops at
//! the end of its standard input.
//!
//! This is a crate, not an example of `server`: an example is built with the features of the dependencies of `server`'s
//! tests, so most of the release build would be repeated for it.

#![forbid(unsafe_code)]

// The modules of the tests use this name.
extern crate server as gannet_server;

#[path = "../../../crates/server/tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "only the test uses its scale")]
#[path = "../../../crates/server/tests/server/bystander/lab.rs"]
mod lab;
#[allow(dead_code, reason = "parts that only tests inspect")]
#[path = "../../../crates/server/tests/sim/mod.rs"]
mod sim;
#[allow(dead_code, reason = "columns of the other users of the table")]
#[path = "../../../crates/server/tests/server/bystander/table.rs"]
mod table;

use common::redis::request;
use lab::Lab;
use std::io::Write;
use std::process::ExitCode;
use table::{BystanderCase, Group};

/// Number of keys, fields or records that a walking command walks over.
const SCALE: usize = 10_000;

/// Waits for a line; returns false at the end of the input.
fn wait() -> bool {
    std::io::stdin().read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0)
}

/// Writes a line for the gate. If the gate has ended, the next [`wait`] finds that.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Runs a command; returns false if the gate has ended.
fn run(lab: &mut Lab, entry: &BystanderCase) -> bool {
    let client = lab.world.connect(lab::protocol(entry));
    lab.world.iterations(3);
    say(&format!("{}\t{}\t{:?}", entry.name, entry.units, entry.unit));
    if !wait() {
        return false;
    }
    let (after, end) = entry.mark();
    lab.drive(&client, &entry.request, &after, end);
    say("done");
    client.close_send();
    lab.world.iterations(5);
    wait()
}

fn run_group(group: Group) -> bool {
    let mut lab = Lab::new(SCALE);
    lab.fill(&group.fill);
    group.entries.iter().all(|entry| run(&mut lab, entry))
}

fn main() -> ExitCode {
    say(&format!("pid {}", std::process::id()));
    let groups: [fn() -> Group; 6] = [
        || table::walks_over_all_keys(SCALE),
        table::commands_over_many_keys,
        || table::commands_over_one_large_hash(SCALE),
        table::commands_over_one_long_value,
        || table::commands_over_many_records(SCALE),
        || table::commands_over_one_large_stream(SCALE),
    ];
    match groups.into_iter().all(|group| run_group(group())) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
