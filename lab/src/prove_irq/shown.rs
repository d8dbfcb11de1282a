//! Checks a run of `gannet doctor prove` in the guest: its report, its journals and the kernel's settings. Every
//! verdict of `prove` is accepted.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// Minimum number of rounds for a verdict.
const ROUNDS_MIN: usize = 5;

/// The files that the guest wrote.
pub struct GuestFiles {
    /// The report of `prove`, as written by `--json`.
    proof: Value,
    /// For each run that changed settings: the records of its journal, in order.
    journals: Vec<Vec<Value>>,
    /// CPUs of each interrupt, by the interrupt's number, before the run of `prove`.
    before: Places,
    after: Places,
    undone: Places,
    /// Numbers of the NIC's interrupts that have arrived on each CPU: a list from before the run of `prove`, and a list
    /// from after it.
    came: Vec<Vec<u64>>,
}

type Places = BTreeMap<String, String>;

impl GuestFiles {
    /// Reads the output files and the output lines of the guest.
    ///
    /// # Errors
    /// A file that is missing or cannot be read.
    pub fn read(found: &Path, said: &[String]) -> Result<Self, String> {
        let text = |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
        let wrong = |path: &Path, error| format!("{}: {error}", path.display());
        let path = found.join("proof.json");
        let proofs: Value = serde_json::from_str(&text(&path)?).map_err(|error| wrong(&path, error))?;
        let folder = found.join("journals");
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut journals = Vec::new();
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            if path.extension().is_some_and(|end| end == "jsonl") {
                let text = text(&path)?;
                let records = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
                journals.push(records.map_err(|error| wrong(&path, error))?);
            }
        }
        let places = |when: &str| places(said, when);
        let came = said.iter().filter_map(|line| line.strip_prefix("guest: came "));
        let came = came.map(|line| line.split(' ').filter_map(|count| count.parse().ok()).collect()).collect();
        let [before, after, undone] = ["before", "after", "undone"].map(places);
        Ok(Self { proof: proofs[0].clone(), journals, before, after, undone, came })
    }
}

fn places(said: &[String], when: &str) -> Places {
    let line = said.iter().find_map(|line| line.strip_prefix(&format!("guest: {when} "))).unwrap_or_default();
    line.split(' ').filter_map(|pair| pair.split_once('=')).map(|(irq, cpu)| (irq.to_owned(), cpu.to_owned())).collect()
}

/// Returns a step's interrupt, with its original CPU and its CPU with the remedy.
fn step(value: &Value) -> Option<(&str, &str, &str)> {
    let irq = value["new"]["path"].as_str()?.strip_prefix("/proc/irq/")?.strip_suffix("/smp_affinity_list")?;
    Some((irq, value["old"].as_str()?, value["new"]["value"].as_str()?))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns true if a run's records show that each step was written, then read back, and then undone.
fn is_whole(records: &[Value], steps: &[(&str, &str, &str)]) -> bool {
    steps.iter().enumerate().all(|(at, known)| {
        let at_of = |kind: &str| records.iter().position(|record| record[kind]["at"].as_u64() == Some(at as u64));
        let (Some(change), Some(done), Some(undone)) = (at_of("change"), at_of("done"), at_of("undone")) else {
            return false;
        };
        let is_recorded = step(&records[change]["change"]["step"]).as_ref() == Some(known);
        let is_read_back = records[done]["done"]["now"] == known.2;
        is_recorded && is_read_back && change < done && done < undone
    })
}

/// Returns all deviations from the expected state.
pub fn faults(seen: &GuestFiles) -> Vec<String> {
    let mut faults = Vec::new();
    let mut must = |is_so: bool, fault: String| {
        if !is_so {
            faults.push(fault);
        }
    };
    let steps: Vec<_> = list(&seen.proof["subject"]["steps"]).iter().filter_map(step).collect();
    let side = |of: fn(&(&str, &str, &str)) -> (String, String)| steps.iter().map(of).collect::<Places>();
    let (old, new) = (side(|s| (s.0.into(), s.1.into())), side(|s| (s.0.into(), s.2.into())));
    must(
        !steps.is_empty() && old == seen.before,
        format!("the remedy is for {old:?}, but the guest has {:?}", seen.before),
    );
    must(steps.iter().all(|(_, old, new)| old != new), format!("the remedy moves no interrupt: {steps:?}"));
    let counted = |round: &&Value| round["before"]["fault"].is_null() && round["changed"]["fault"].is_null();
    let rounds = list(&seen.proof["rounds"]);
    let counted = rounds.iter().filter(counted).count();
    let verdict = seen.proof["verdict"].as_str().unwrap_or("none");
    must(
        counted >= ROUNDS_MIN,
        format!("only {counted} of {} rounds are valid; the verdict is {verdict}", rounds.len()),
    );
    let stays = seen.proof["end"].as_str().is_some_and(|end| end.starts_with("The change stays"));
    must(
        stays == (verdict == "helped"),
        format!("the verdict is {verdict}, but the report ends with {}", seen.proof["end"]),
    );
    let runs = rounds.len() + usize::from(stays);
    // If two measurements with the change follow one another, they share one run that changes the settings.
    must(
        (runs.div_ceil(2)..=runs).contains(&seen.journals.len()),
        format!("there are {} journals for {runs} runs", seen.journals.len()),
    );
    let torn = seen.journals.iter().filter(|records| !is_whole(records, &steps)).count();
    must(torn == 0, format!("{torn} journals do not record that each step was written, read back and undone"));
    let expected = if stays { &new } else { &old };
    must(
        seen.after == *expected,
        format!("after the proof the state is {:?}, but {expected:?} is expected", seen.after),
    );
    must(seen.undone == old, format!("after the undo the state is {:?}, but it was {old:?}", seen.undone));
    for cpus in [&old, &new] {
        for cpu in cpus.values().filter_map(|cpu| cpu.parse::<usize>().ok()) {
            let counts: Vec<u64> = seen.came.iter().filter_map(|counts| counts.get(cpu).copied()).collect();
            let has_grown = matches!(counts[..], [first, last] if first < last);
            must(
                has_grown,
                format!("no interrupts arrived on CPU {cpu} while they were assigned to it: {:?}", seen.came),
            );
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step_of(irq: u32) -> Value {
        json!({"check": "irq.affinity", "old": "1", "back": {}, "new": {
            "path": format!("/proc/irq/{irq}/smp_affinity_list"), "value": "0"}})
    }

    fn pairs(cpu: &str) -> Places {
        ["25", "26"].map(|irq| (irq.to_owned(), cpu.to_owned())).into()
    }

    /// Returns the files of a guest in which the remedy did not help.
    fn seen() -> GuestFiles {
        let records: Vec<Value> = vec![
            json!({"begin": {}}),
            json!({"change": {"at": 0, "step": step_of(25)}}),
            json!({"done": {"at": 0, "now": "0"}}),
            json!({"change": {"at": 1, "step": step_of(26)}}),
            json!({"done": {"at": 1, "now": "0"}}),
            json!({"undone": {"at": 1, "how": "written"}}),
            json!({"undone": {"at": 0, "how": "written"}}),
        ];
        let round = json!({"before": {"fault": null}, "changed": {"fault": null}});
        let proof = json!({
            "subject": {"steps": [step_of(25), step_of(26)]}, "rounds": vec![round; 5],
            "verdict": "no-difference", "end": "The change was undone: the host is in its original state."
        });
        let came = vec![vec![0, 9, 0], vec![70, 90, 0]];
        let [before, after, undone] = ["1"; 3].map(pairs);
        GuestFiles { proof, journals: vec![records; 5], before, after, undone, came }
    }

    fn is_told(change: impl FnOnce(&mut GuestFiles), part: &str) {
        let mut seen = seen();
        change(&mut seen);
        let faults = faults(&seen);
        assert!(faults.iter().any(|fault| fault.contains(part)), "{part}: {faults:?}");
    }

    #[test]
    fn each_missing_step_of_the_remedy_is_reported() {
        assert_eq!(faults(&seen()), Vec::<String>::new());
        is_told(|seen| seen.before = pairs("2"), "the guest has");
        is_told(|seen| seen.proof["rounds"] = json!([]), "only 0 of 0 rounds are valid");
        is_told(|seen| seen.proof["end"] = json!("The change stays: run 1"), "the verdict is no-difference");
        is_told(|seen| seen.journals.truncate(2), "2 journals for 5 runs");
        is_told(|seen| seen.journals[3][2] = json!({"done": {"at": 0, "now": "1"}}), "1 journals do not record");
        is_told(|seen| seen.journals[3].truncate(5), "1 journals do not record");
        is_told(|seen| seen.after = pairs("0"), "after the proof the state is");
        is_told(|seen| seen.undone = pairs("0"), "after the undo the state is");
        is_told(|seen| seen.came[1][0] = 0, "no interrupts arrived on CPU 0");
    }

    #[test]
    fn helpful_change_that_stays_until_undone_is_no_fault() {
        let mut seen = seen();
        seen.proof["verdict"] = json!("helped");
        seen.proof["end"] = json!("The change stays: run 6");
        seen.after = pairs("0");
        seen.journals.push(seen.journals[0].clone());
        assert_eq!(faults(&seen), Vec::<String>::new());
    }

    #[test]
    fn guest_values_are_parsed_from_its_output_lines() {
        let said = ["guest: 6.1", "guest: before 25=1 26=1", "guest: came 0 9 0"].map(str::to_owned);
        assert_eq!((places(&said, "before"), places(&said, "after")), (pairs("1"), Places::new()));
    }
}
