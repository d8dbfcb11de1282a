//! The statistics of requests by command name: counts requests that end, for `INFO` and `LATENCY HISTOGRAM`.

use super::acl::number_of;
use super::call::Call;
use super::catalog::{CommandSpec, entry};
use super::error::ErrorReply;
use crate::context::WorkerContext;
use crate::metrics::Command;
use crate::metrics::command_stats::Outcome;
use protocol::resp::Args;

/// The number of a command or subcommand in the statistics, and the kind under which metrics show it.
#[derive(Clone, Copy)]
pub(super) struct StatKey {
    /// `None` for an unknown subcommand.
    pub(super) number: Option<usize>,
    pub(super) kind: Command,
}

impl StatKey {
    /// Returns the numbers of a command, whatever its arguments are.
    #[inline(always)]
    pub(super) fn of_command(entry: &CommandSpec) -> Self {
        Self { number: Some(entry.number), kind: entry.kind }
    }

    /// Returns the numbers for a request of `entry` with the arguments `args`. Reads them only if the command has
    /// subcommands.
    #[inline(always)]
    pub(super) fn of(entry: &CommandSpec, args: Args<'_>) -> Self {
        if entry.is_container() { Self::of_part(entry, args) } else { Self::of_command(entry) }
    }

    #[cold]
    fn of_part(entry: &CommandSpec, mut args: Args<'_>) -> Self {
        let first = args.next();
        let number = number_of(entry, first);
        let is_unknown = first.is_some() && number == entry.number;
        Self { number: (!is_unknown).then_some(number), kind: entry.kind }
    }
}

/// Returns the outcome of a request with this reply, or this beginning of one. Counts the error if the reply is one.
#[inline(always)]
pub(super) fn outcome(reply: &[u8], is_refused: bool, ctx: &WorkerContext) -> Outcome {
    match reply {
        [b'-', line @ ..] => failed(line, is_refused, ctx),
        _ => Outcome::Done,
    }
}

#[cold]
fn failed(line: &[u8], is_refused: bool, ctx: &WorkerContext) -> Outcome {
    ctx.command_stats().record_error(line);
    if is_refused { Outcome::Rejected } else { Outcome::Failed }
}

/// Records a request that ends now: its times, and its statistics. `line` is as in `WorkerContext::ops_done`.
#[inline(always)]
pub(super) fn ended(call: &mut Call<'_, '_>, counted: StatKey, outcome: Outcome, line: &[u8]) {
    let begun = call.ctx.op_begun;
    call.done(counted.kind, line);
    let Some(number) = counted.number else { return };
    let ns = call.ctx.clock.ns_between(begun, call.ctx.op_begun);
    call.ctx.command_stats().record(number, outcome, ns);
}

/// Replies to a plain request with an error. Counts it as a failed request of the command `name`, whose execution is
/// counted with the other plain requests.
#[cold]
pub(super) fn plain_failed(call: &mut Call<'_, '_>, name: &'static str, fault: ErrorReply) {
    let mark = call.out.mark();
    call.fault(fault);
    outcome(call.out.since(mark), false, call.ctx);
    call.ctx.command_stats().record_failure(entry(name).number);
}
