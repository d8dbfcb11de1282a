//! The outcomes of all guests as one table: the mean count of a phase, and whether it differs from mode 0's.

use std::fmt::Write;

use serde_json::Value;

/// What is told of each mode.
const FIGURES: [&str; 7] = [
    "pgscan_direct",
    "pgscan_kswapd",
    "zone_reclaim_success",
    "zone_reclaim_failed",
    "workingset_refault_file",
    "pgmajfault",
    "major_faults",
];

/// The values of a figure over the phases of a setting.
fn values(outcome: &Value, setting: usize, figure: &str) -> Vec<f64> {
    let phases = outcome["phases"].as_array().map(Vec::as_slice).unwrap_or_default();
    let own = phases.iter().filter(|phase| phase["setting"].as_u64() == Some(setting as u64));
    own.filter_map(|phase| phase["figures"][figure].as_f64()).collect()
}

/// Mean, least and greatest: all that a few runs tell without a model of them.
fn cell(values: &[f64]) -> String {
    if values.is_empty() {
        return "-".to_owned();
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let (least, greatest) =
        values.iter().fold((f64::MAX, f64::MIN), |(low, high), &value| (low.min(value), high.max(value)));
    if least == greatest { format!("{mean:.0}") } else { format!("{mean:.0} ({least:.0}-{greatest:.0})") }
}

/// The table, a row for each guest and mode.
pub fn markdown(outcomes: &[(String, Value)]) -> String {
    let mut text =
        format!("| guest | mode | runs | {} |\n|---|---|---|{}\n", FIGURES.join(" | "), "---|".repeat(FIGURES.len()));
    for (name, outcome) in outcomes {
        let settings = outcome["settings"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (at, setting) in settings.iter().enumerate() {
            let mode = setting.as_str().and_then(|name| name.rsplit('=').next()).unwrap_or("?");
            let runs = values(outcome, at, "count").len();
            let cells: Vec<String> = FIGURES.iter().map(|figure| cell(&values(outcome, at, figure))).collect();
            let _ = writeln!(text, "| {name} | {mode} | {runs} | {} |", cells.join(" | "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_mean_and_the_ends_of_its_runs() {
        let phase = |setting: usize, scanned: f64| {
            let figures = serde_json::json!({"count": 9.0, "pgscan_direct": scanned});
            serde_json::json!({"setting": setting, "figures": figures})
        };
        let phases = [phase(0, 0.0), phase(1, 100.0), phase(1, 300.0), phase(0, 0.0)];
        let outcome =
            serde_json::json!({"settings": ["vm.zone_reclaim_mode=0", "vm.zone_reclaim_mode=7"], "phases": phases});
        let text = markdown(&[("6.12-classic-local".to_owned(), outcome)]);
        assert!(text.contains("| 6.12-classic-local | 0 | 2 | 0 | - |"), "{text}");
        assert!(text.contains("| 6.12-classic-local | 7 | 2 | 200 (100-300) | - |"), "{text}");
    }
}
