//! Tests that no client delays another: each long command takes many slices, while another client (the bystander) sends
//! `PING` in every event-loop iteration.
//!
//! With the simulated clock, results do not depend on the speed of this machine. An iteration ends by counted work, so
//! the assertions count iterations: a command takes at least the number that follows from its size, and the bystander
//! gets its reply within [`LATE_MAX`] iterations, beside one client with the command or [`CROWD`] clients.
//! `GANNET_BYSTANDER_SCALE=1000000` runs the commands over that many keys and fields, and `--nocapture` prints the CPU
//! time of the longest iteration of each.

mod lab;
mod table;

use crate::common::redis::request;
use crate::sim::bystander::{Bystander, LATE_MAX, cpu_ns};
use command::clients::endpoint::Protocol;
use command::visit::pace::ITERATION_OPS_MAX;
use io::sim::SimClient;
use lab::{Lab, SCALE};
use table::{BystanderCase, Group, Unit, line};

/// The number of clients that run a command at the same time.
const CROWD: usize = 100;
/// The number of iterations for which a crowd is observed.
const CROWD_ITERATIONS: u64 = 40;

/// The maximum number of operations of one iteration: the limit that ends it, and those of the last visit.
const OPS: usize = ITERATION_OPS_MAX + 64;

/// Returns the maximum number of units of a command that one iteration executes.
fn each_iteration(unit: Unit) -> usize {
    match unit {
        Unit::Operation => OPS,
        // A step of a walk counts as an operation for every four keys or fields that it passes, plus a constant.
        Unit::Walked => 4 * OPS,
        // The limit of bytes that one visit copies in the store or into a reply, and that one send accepts.
        Unit::Byte => 256 << 10,
    }
}

/// Creates a server with the number of keys in `GANNET_BYSTANDER_SCALE`, or [`SCALE`].
fn lab() -> Lab {
    Lab::new(std::env::var("GANNET_BYSTANDER_SCALE").map_or(SCALE, |text| text.parse().expect("a number")))
}

impl Lab {
    /// Sends a request `count` times in one pipeline. Returns the number of iterations until all are answered.
    fn iterations_of(&mut self, request: &str, count: usize) -> usize {
        let client = self.world.connect(Protocol::Resp);
        self.world.iterations(3);
        (0..count).for_each(|_| client.send(&line(request)));
        client.send(&line("ECHO all-answered"));
        let (mut end, mut iterations) = (Vec::new(), 0);
        while !end.ends_with(b"all-answered\r\n") {
            self.worker_iteration();
            iterations += 1;
            end.extend(client.take(usize::MAX));
            end.drain(..end.len().saturating_sub(200));
            assert!(iterations < 10_000 && !client.is_closed(), "no reply");
        }
        iterations
    }

    /// Runs an iteration of the worker and a slice of background work. Returns the CPU time of the iteration, in ns.
    fn timed_iteration(&mut self) -> u64 {
        let before = cpu_ns();
        self.worker_iteration();
        let took = cpu_ns() - before;
        self.run_background();
        took
    }

    /// Runs the command by one client, beside a bystander.
    fn run_alone(&mut self, row: &BystanderCase) {
        let mut bystander = Bystander::new(&mut self.world);
        let client = self.world.connect(lab::protocol(row));
        self.world.iterations(3);
        let (after, end) = row.mark();
        client.send(&row.request);
        client.send(&after);
        let (mut got, mut iterations, mut longest_ns) = (Vec::new(), 0, 0);
        while !got.ends_with(end) {
            bystander.ask(iterations);
            longest_ns = self.timed_iteration().max(longest_ns);
            iterations += 1;
            bystander.listen(iterations);
            got.extend(client.take(usize::MAX));
            got.drain(..got.len().saturating_sub(200));
            assert!(iterations < 2_000_000 && !client.is_closed(), "{}: no answer", row.name);
        }
        let name = row.name;
        let iterations_min = (row.units / each_iteration(row.unit) / 2).max(2) as u64;
        let late = bystander.late_max;
        let (length, us) = (row.length(), longest_ns / 1000);
        println!("{name:30} {length:20} {iterations:7} iterations, the longest {us:6} us, PING within {late}");
        assert!(iterations >= iterations_min, "{name}: {iterations} iterations, not {iterations_min} at least");
        assert!(late <= LATE_MAX && bystander.answers > 0, "{name}: a PING took {late} iterations");
        client.close_send();
        bystander.client.close_send();
        self.world.iterations(5);
    }

    /// Runs the command by a crowd of clients at the same time. They disconnect before the command is complete.
    fn run_in_a_crowd(&mut self, row: &BystanderCase) {
        let mut bystander = Bystander::new(&mut self.world);
        let crowd: Vec<SimClient> = (0..CROWD).map(|_| self.world.connect(lab::protocol(row))).collect();
        self.world.iterations(8);
        crowd.iter().for_each(|client| client.send(&row.request));
        // Requests that are long are received in several iterations.
        let received = row.request.len() as u64 * CROWD as u64 / (256 << 10) + 2;
        self.world.iterations(received as usize);
        for iteration in 0..CROWD_ITERATIONS {
            bystander.ask(iteration);
            self.iterate();
            bystander.listen(iteration + 1);
            crowd.iter().for_each(|client| drop(client.take(usize::MAX)));
        }
        let late = bystander.late_max;
        assert!(late <= LATE_MAX, "{}: beside {CROWD} clients a PING took {late} iterations", row.name);
        assert!(bystander.answers >= CROWD_ITERATIONS / LATE_MAX / 2, "{}: {} answers", row.name, bystander.answers);
        crowd.iter().for_each(SimClient::reset);
        bystander.client.close_send();
        while self.world.worker.sessions() > 0 {
            bystander.client.take(usize::MAX);
            self.world.guard();
        }
        let left = self.world.shared.budget.used();
        assert!(left == 0, "{}: {left} bytes of client memory are in use when nobody is there", row.name);
    }

    fn run(&mut self, group: Group) {
        self.fill(&group.fill);
        for row in &group.entries {
            self.run_alone(row);
            // After `run_alone`, such a command would find nothing left to change.
            if !row.is_once {
                self.run_in_a_crowd(row);
            }
        }
    }
}

/// The reply to an unknown command requires a comparison with all command names, so one visit handles only few of them.
#[test]
fn a_pipeline_of_unknown_commands_counts_as_more_than_its_requests() {
    let count = 600;
    let iterations = lab().iterations_of("NOSUCH a", count);
    assert!(iterations >= count / 4, "{count} unknown commands took {iterations} iterations");
}

/// A report on the whole server takes much longer than a read of a key.
#[test]
fn a_pipeline_of_reports_counts_as_more_than_its_requests() {
    let (mut lab, count) = (lab(), 200);
    for report in ["INFO everything", "LATENCY HISTOGRAM", "SLOWLOG GET", "HOTKEYS", "MEMORY STATS"] {
        let iterations = lab.iterations_of(report, count);
        assert!(iterations >= count / 20, "{count} times {report} took {iterations} iterations");
    }
}

#[test]
fn walks_over_all_keys_do_not_delay_other_clients() {
    let mut lab = lab();
    lab.run(table::walks_over_all_keys(lab.scale));
}

#[test]
fn commands_over_many_keys_do_not_delay_other_clients() {
    lab().run(table::commands_over_many_keys());
}

#[test]
fn commands_over_one_large_hash_do_not_delay_other_clients() {
    let mut lab = lab();
    lab.run(table::commands_over_one_large_hash(lab.scale));
}

#[test]
fn commands_over_one_long_value_do_not_delay_other_clients() {
    lab().run(table::commands_over_one_long_value());
}

#[test]
fn commands_over_many_records_do_not_delay_other_clients() {
    let mut lab = lab();
    lab.run(table::commands_over_many_records(lab.scale));
}

#[test]
fn commands_over_one_large_stream_do_not_delay_other_clients() {
    let mut lab = lab();
    lab.run(table::commands_over_one_large_stream(lab.scale / 3));
}
