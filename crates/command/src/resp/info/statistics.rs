//! The sections of `INFO` on commands and errors.

use super::request::InfoRequest;
use crate::metrics::Command;
use crate::metrics::command_stats::CommandSums;
use crate::metrics::info_totals::InfoTotals;
use crate::resp::acl::name_of;
use crate::resp::catalog::find;
use crate::shared::Shared;
use std::fmt::Write as _;

/// The quantiles of the section `Latencystats`, with their names.
const SHARES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// The statistics of a command, with its name.
pub(in crate::resp) struct Named {
    pub(in crate::resp) name: &'static str,
    pub(in crate::resp) sums: CommandSums,
}

/// Returns the statistics of all commands and subcommands that were requested, in the order of the catalog, with
/// subcommands last. Includes plain requests in `get` and `set`.
pub(in crate::resp) fn named_sums(totals: InfoTotals) -> Vec<Named> {
    let mut all = totals.stats.commands;
    for (command, times) in Command::PLAIN.into_iter().zip(&totals.plain) {
        if let Some(entry) = find(command.name().as_bytes()) {
            all[entry.number].times.join(times);
        }
    }
    let is_used = |sums: &CommandSums| sums.times.count > 0 || sums.failed > 0 || sums.rejected > 0;
    let numbered = all.into_iter().enumerate().filter(|(_, sums)| is_used(sums));
    numbered.map(|(number, sums)| Named { name: name_of(number), sums }).collect()
}

pub(super) fn commands(text: &mut String, shared: &Shared, _: InfoRequest) -> std::fmt::Result {
    for Named { name, sums: CommandSums { times, failed, rejected } } in named_sums(shared.info_since_reset()) {
        let us = times.sum_ns / 1000;
        let us_per_call = times.sum_ns as f64 / 1000.0 / times.count.max(1) as f64;
        write!(
            text,
            "cmdstat_{name}:calls={},usec={us},usec_per_call={us_per_call:.2},rejected_calls={rejected},\
             failed_calls={failed}\r\n",
            times.count
        )?;
    }
    Ok(())
}

pub(super) fn errors(text: &mut String, shared: &Shared, _: InfoRequest) -> std::fmt::Result {
    for (code, count) in shared.info_since_reset().stats.errors {
        if count > 0 {
            write!(text, "errorstat_{}:count={count}\r\n", String::from_utf8_lossy(&code))?;
        }
    }
    Ok(())
}

pub(super) fn latencies(text: &mut String, shared: &Shared, _: InfoRequest) -> std::fmt::Result {
    for Named { name, sums } in named_sums(shared.info_since_reset()) {
        if sums.times.count == 0 {
            continue;
        }
        write!(text, "latency_percentiles_usec_{name}:")?;
        for (place, (share, of)) in SHARES.into_iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(text, "{comma}{share}={:.3}", sums.times.quantile_ns(of) as f64 / 1000.0)?;
        }
        text.push_str("\r\n");
    }
    Ok(())
}
