//! Formats the outcomes of all guests as one table, with the mean of each count per phase and its confidence interval.
//! Formats every phase as a line of CSV.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;

/// The counters that are reported for each mode.
const FIGURES: [&str; 8] = [
    "pgscan_direct",
    "pgscan_kswapd",
    "zone_reclaim_success",
    "zone_reclaim_failed",
    "workingset_refault_file",
    "pgmajfault",
    "major_faults",
    "numa_miss",
];

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the mean of a figure with its 95 % confidence interval, or only the mean if there are too few rounds.
fn cell(outcome: &Value, setting: usize, figure: &str) -> String {
    let is_it = |mean: &&Value| mean["figure"] == figure && mean["setting"].as_u64() == Some(setting as u64);
    if let Some(mean) = list(&outcome["means"]).iter().find(is_it) {
        let number = |name: &str| mean[name].as_f64().unwrap_or(f64::NAN);
        let (mean, low, high) = (number("mean"), number("low"), number("high"));
        return if low == high { format!("{mean:.0}") } else { format!("{mean:.0} ({low:.0} to {high:.0})") };
    }
    let own = list(&outcome["phases"]).iter().filter(|phase| phase["setting"].as_u64() == Some(setting as u64));
    let values: Vec<f64> = own.filter_map(|phase| phase["figures"][figure].as_f64()).collect();
    if values.is_empty() { "-".to_owned() } else { format!("{:.0}", values.iter().sum::<f64>() / values.len() as f64) }
}

fn mode(setting: &Value) -> &str {
    setting.as_str().and_then(|name| name.rsplit('=').next()).unwrap_or("?")
}

/// Returns the table, with a row for each guest and mode.
pub fn markdown(outcomes: &[(String, Value)]) -> String {
    let mut text =
        format!("| guest | mode | runs | {} |\n|---|---|---|{}\n", FIGURES.join(" | "), "---|".repeat(FIGURES.len()));
    for (name, outcome) in outcomes {
        for (at, setting) in list(&outcome["settings"]).iter().enumerate() {
            let phases = list(&outcome["phases"]).iter();
            let runs = phases.filter(|phase| phase["setting"].as_u64() == Some(at as u64)).count();
            let cells: Vec<String> = FIGURES.iter().map(|figure| cell(outcome, at, figure)).collect();
            let _ = writeln!(text, "| {name} | {} | {runs} | {} |", mode(setting), cells.join(" | "));
        }
    }
    text
}

/// Returns every phase as a line, with the figures of all phases as columns.
pub fn csv(outcomes: &[(String, Value)]) -> String {
    let phases = || {
        outcomes
            .iter()
            .flat_map(|(name, outcome)| list(&outcome["phases"]).iter().map(move |phase| (name, outcome, phase)))
    };
    let figures: BTreeSet<&String> =
        phases().filter_map(|(.., phase)| phase["figures"].as_object()).flat_map(|figures| figures.keys()).collect();
    let names: Vec<&str> = figures.iter().map(|name| name.as_str()).collect();
    let mut text = format!("guest,mode,round,{}\n", names.join(","));
    for (name, outcome, phase) in phases() {
        let mode = mode(&outcome["settings"][phase["setting"].as_u64().unwrap_or(u64::MAX) as usize]);
        let value = |figure: &&String| {
            phase["figures"][figure.as_str()].as_f64().map_or(String::new(), |value| format!("{value}"))
        };
        let values: Vec<String> = figures.iter().map(value).collect();
        let _ = writeln!(text, "{name},{mode},{},{}", phase["round"], values.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Vec<(String, Value)> {
        let phase = |round: u32, setting: usize, scanned: f64| {
            let figures = serde_json::json!({"count": 9.0, "pgscan_direct": scanned});
            serde_json::json!({"round": round, "setting": setting, "figures": figures})
        };
        let phases = [phase(0, 0, 0.0), phase(0, 1, 100.0), phase(1, 1, 300.0), phase(1, 0, 0.0)];
        let means =
            [serde_json::json!({"figure": "pgscan_direct", "setting": 1, "mean": 200.4, "low": 90.0, "high": 310.0})];
        let settings = ["vm.zone_reclaim_mode=0", "vm.zone_reclaim_mode=7"];
        vec![(
            "6.12-classic-local".to_owned(),
            serde_json::json!({"settings": settings, "phases": phases, "means": means}),
        )]
    }

    #[test]
    fn table_row_shows_the_mean_and_its_interval_if_known() {
        let text = markdown(&outcome());
        assert!(text.contains("| 6.12-classic-local | 0 | 2 | 0 | - |"), "{text}");
        assert!(text.contains("| 6.12-classic-local | 7 | 2 | 200 (90 to 310) | - |"), "{text}");
    }

    #[test]
    fn a_line_has_the_mode_of_its_phase() {
        let text = csv(&outcome());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "guest,mode,round,count,pgscan_direct");
        assert_eq!((lines.len(), lines[2]), (5, "6.12-classic-local,7,0,9,100"));
    }
}
