//! Tests plans for topologies that hwloc generates, in comparison with stored plans; and plans that users have edited.
//!
//! `GANNET_KEEP=1` writes the stored topologies and plans again. Review the differences before a commit.

mod plans;
mod tree;

use std::collections::HashMap;
use std::path::PathBuf;

use gannet_doctor::plan::{PlanFormat, Purpose, Role, check, plan};
use gannet_doctor::topology::{Cpu, Nic};
use gannet_doctor::{Topology, Wanted};
use plans::{CASES, by_hwloc};

fn kept(name: &str, kind: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plans")).join(format!("{name}.{kind}"))
}

fn is_keeping() -> bool {
    std::env::var_os("GANNET_KEEP").is_some()
}

/// Checks that `text` equals the stored text, or stores it.
fn compare(name: &str, kind: &str, text: &str) {
    let path = kept(name, kind);
    if is_keeping() {
        std::fs::write(&path, text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == wanted, "{name}.{kind} is not as it is kept; now it is\n{text}");
}

fn topology(name: &str) -> Topology {
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    let table = std::fs::read_to_string(kept(name, "cpus")).unwrap();
    Topology::read(&plans::tree(case, &table).host(None), None).unwrap()
}

#[test]
fn topologies_are_as_hwloc_makes_them() {
    if by_hwloc("core:1 pu:1").is_none() {
        eprintln!("skipped: lstopo is not installed (`apt-get install hwloc-nox`); the kept topologies stand");
        return;
    }
    let mut made = HashMap::new();
    for case in CASES {
        let table = made.entry(case.synthetic).or_insert_with(|| by_hwloc(case.synthetic).unwrap());
        compare(case.name, "cpus", table);
    }
}

#[test]
fn plans_match_the_stored_expected_plans() {
    for case in CASES {
        let table = std::fs::read_to_string(kept(case.name, "cpus")).unwrap();
        let tree = plans::tree(case, &table);
        let topology = Topology::read(&tree.host(None), None).unwrap();
        let made = plan(&topology, &case.wanted).unwrap();
        let formats = PlanFormat::ALL.map(|(name, format)| format!("=== {name}\n{}", made.text(format, &topology)));
        compare(case.name, "plan", &formats.join("\n"));
        let checked = check(&made.json(), &topology).unwrap_or_else(|faults| panic!("{}: {faults:?}", case.name));
        assert_eq!(checked.plan, made, "{}", case.name);
    }
}

#[test]
fn published_plan_for_16_cpus_is_reproduced() {
    let case = CASES.iter().find(|case| case.name == "16-t2a").unwrap();
    let made = plan(&topology("16-t2a"), &case.wanted).unwrap();
    assert_eq!((made.queues, made.cpus_of(Role::Network)), (Some(4), vec![0, 1, 2, 3]));
    assert_eq!((made.cpus_of(Role::Worker).len(), made.cpus_of(Role::Storage).len()), (10, 2));
    for process in 0..2 {
        assert_eq!(made.cpus_of_process(process, Role::Worker).len(), 5);
        assert_eq!(made.cpus_of_process(process, Role::Storage).len(), 1);
    }
}

/// Returns topologies of every small shape: packages, cores per package and CPUs per core, with all CPUs allowed or
/// every third excluded.
fn shapes() -> impl Iterator<Item = Topology> {
    let counts = (1..=3).flat_map(|packages| (1..=12).map(move |cores| (packages, cores)));
    let counts = counts.flat_map(|(packages, cores)| (1..=2).map(move |threads| (packages, cores, threads)));
    counts.flat_map(|(packages, cores, threads)| {
        [(false, None), (false, Some(packages - 1)), (true, None)].map(|(has_gaps, node)| {
            let all = packages * cores;
            let cpu = |number: usize| {
                let core = number % all;
                let package = core / cores;
                let is_allowed = !has_gaps || number % 3 != 1;
                Cpu {
                    number,
                    package,
                    core,
                    l3: Some(package * cores + core % cores / 4 * 4),
                    node: package,
                    is_allowed,
                }
            };
            let nic = Nic { name: "eth0".to_owned(), node, queues: Some(1), queues_max: Some(cores) };
            Topology { cpus: (0..all * threads).map(cpu).collect(), nics: vec![nic], ..Topology::default() }
        })
    })
}

#[test]
fn no_cpu_is_planned_that_may_not_be_used_and_none_twice() {
    let (mut planned, mut refused) = (0, 0);
    for topology in shapes() {
        let usable = topology.cpus.iter().filter(|cpu| cpu.is_allowed).count();
        for workers in [None, Some(1), Some(usable / 2), Some(usable), Some(usable + 1)] {
            for (processes, storage, purpose) in
                [(None, 0, Purpose::Server), (Some(2), 1, Purpose::Server), (None, 0, Purpose::Generator)]
            {
                let sampler = purpose == Purpose::Generator;
                let wanted = Wanted { purpose, workers, queues: None, processes, storage, sampler };
                let Ok(made) = plan(&topology, &wanted) else {
                    refused += 1;
                    let hot = workers.unwrap_or(processes.unwrap_or(1)) + storage * 2 + usize::from(sampler);
                    let spread = processes.is_some();
                    assert!(hot > usable || workers == Some(0) || spread, "{wanted:?} {topology:?}");
                    continue;
                };
                planned += 1;
                check(&made.json(), &topology).unwrap_or_else(|faults| panic!("{faults:?}: {wanted:?} {topology:?}"));
                let numbers: Vec<usize> = made.cpus.iter().map(|row| row.cpu).collect();
                assert_eq!(numbers, topology.cpus.iter().map(|cpu| cpu.number).collect::<Vec<_>>(), "{wanted:?}");
                if let Some(workers) = workers {
                    assert_eq!(made.cpus_of(Role::Worker).len(), workers, "{wanted:?} {topology:?}");
                }
                let threads = made.cpus_of(Role::Storage).len();
                assert_eq!(threads, storage * processes.unwrap_or(1), "{wanted:?} {topology:?}");
                assert_eq!(made.cpus_of(Role::Sampler).len(), usize::from(sampler), "{wanted:?} {topology:?}");
                assert!(!made.cpus_of(Role::Network).is_empty() && !made.cpus_of(Role::Housekeeping).is_empty());
            }
        }
    }
    assert!(planned > 1000 && refused > 100, "{planned} {refused}");
}

#[test]
fn infeasible_plan_request_is_rejected_with_feasible_values() {
    let four = topology("4");
    let refused = |wanted: Wanted| plan(&four, &wanted).unwrap_err().join("\n");
    let text = refused(Wanted { workers: Some(5), ..Wanted::default() });
    assert!(text.contains("5 workers are requested, and 4 CPUs may be used; name 4"), "{text}");
    let text = refused(Wanted { workers: Some(3), queues: Some(2), ..Wanted::default() });
    assert!(text.contains("name 1 queues or fewer"), "{text}");
    for wanted in [
        Wanted { queues: Some(0), ..Wanted::default() },
        Wanted { processes: Some(0), ..Wanted::default() },
        Wanted { processes: Some(usize::MAX), storage: usize::MAX, ..Wanted::default() },
        Wanted { workers: Some(usize::MAX), sampler: true, storage: 1, ..Wanted::default() },
        Wanted { workers: Some(0), ..Wanted::default() },
        Wanted { queues: Some(usize::MAX), ..Wanted::default() },
    ] {
        assert!(plan(&four, &wanted).is_err(), "{wanted:?}");
    }
    let mut none = four.clone();
    none.cpus.iter_mut().for_each(|cpu| cpu.is_allowed = false);
    assert!(plan(&none, &Wanted::default()).unwrap_err()[0].contains("no CPU may be used"));
}

#[test]
fn edited_plan_is_accepted_or_rejected_with_line_and_cpu() {
    let topology = topology("16");
    let text = plan(&topology, &Wanted::default()).unwrap().json();
    let line_of = |cpu: usize| {
        let key = format!("\"cpu\": {cpu},");
        text.lines().position(|line| line.trim() == key).unwrap() + 1
    };
    let changed = |from: &str, to: &str, at: usize| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let line = lines[at - 1..].iter_mut().find(|line| line.contains(from)).unwrap();
        *line = line.replace(from, to);
        check(&lines.join("\n"), &topology)
    };
    for (cpu, from, to, part) in [
        (5, "\"cpu\": 5", "\"cpu\": 99", "CPU 99 is not on this host"),
        (5, "\"cpu\": 5", "\"cpu\": 4", "CPU 4 occurs twice, first on line"),
        (1, "\"queue\": 1", "\"queue\": 0", "CPU 1: queue 0 is CPU 0's already"),
        (1, "\"queue\": 1", "\"queue\": 16", "CPU 1: there is no queue 16; the interface has at most 16"),
        (5, "\"worker\"", "\"storage\", \"worker\"", "CPU 5 has two threads that must not wait"),
        (5, "\"worker\"", "\"wroker\"", "unknown variant `wroker`"),
        (5, "\"worker\"", "", "CPU 5 has no role"),
    ] {
        let faults = changed(from, to, line_of(cpu)).unwrap_err();
        let line = faults.iter().find(|fault| fault.contains(part)).unwrap_or_else(|| panic!("{part}: {faults:?}"));
        let number: usize = line.trim_start_matches("line ").split(':').next().unwrap().parse().unwrap();
        assert!((line_of(cpu)..line_of(cpu) + 4).contains(&number), "{line}, where CPU {cpu} is {}", line_of(cpu));
    }
    let doubts = changed("\"worker\"", "\"worker\", \"housekeeping\"", line_of(5)).unwrap().doubts;
    assert!(doubts.len() == 1 && doubts[0].contains(&format!("line {}: CPU 5", line_of(5))), "{doubts:?}");
    let idle = text.replace("\"worker\"", "\"free\"");
    assert!(check(&idle, &topology).unwrap_err()[0].contains("nothing would serve"));
    let mut small = topology.clone();
    small.cpus[5].is_allowed = false;
    let faults = check(&text, &small).unwrap_err();
    assert_eq!(
        faults,
        [format!("line {}: CPU 5 may not be used: the affinity or the control group excludes it", line_of(5))]
    );
    for garbage in ["", "{", "[]", "{\"version\": 1}", "{\"version\": 2, \"cpus\": []}", "{\"version\":1,\"cpus\":[]}"]
    {
        assert!(check(garbage, &topology).is_err(), "{garbage}");
    }
}

#[test]
fn this_machine_is_planned() {
    let host = gannet_doctor::Host::watch(gannet_doctor::CheckTarget {
        root: "/".into(),
        pid: None,
        window: std::time::Duration::ZERO,
        asked: gannet_doctor::OptInActions::default(),
    });
    let topology = Topology::read(&host, None).unwrap();
    let made = plan(&topology, &Wanted::default()).unwrap();
    let usable = io::affinity::usable_cpus().unwrap();
    assert!(made.cpus_of(Role::Worker).iter().all(|cpu| usable.contains(cpu)), "{made:?}");
    check(&made.json(), &topology).unwrap();
}

/// Returns a topology of sixteen cores, some of which are isolated.
fn sixteen(isolated: &str, allowed: &str, more: &[(&str, &str)]) -> Topology {
    let tree = tree::Tree::new("sixteen");
    for cpu in 0..16 {
        tree.write(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), &cpu.to_string());
    }
    tree.write("/sys/devices/system/cpu/isolated", isolated);
    tree.write("/proc/self/status", &format!("Cpus_allowed_list:\t{allowed}"));
    more.iter().for_each(|(path, text)| tree.write(path, text));
    Topology::read(&tree.host(None), None).unwrap()
}

#[test]
fn cpus_that_were_set_apart_have_the_threads_and_the_network_has_others() {
    let made = plan(&sixteen("0-11", "0-15", &[]), &Wanted::default()).unwrap();
    assert_eq!(made.cpus_of(Role::Worker), (0..12).collect::<Vec<_>>(), "{made:?}");
    assert_eq!(made.cpus_of(Role::Network), (12..16).collect::<Vec<_>>(), "{made:?}");
    let made = plan(&sixteen("2-3", "0-15", &[]), &Wanted { workers: Some(2), ..Wanted::default() }).unwrap();
    assert_eq!((made.cpus_of(Role::Worker), made.cpus_of(Role::Network)), (vec![2, 3], vec![0, 1, 4, 5]), "{made:?}");
    // Isolated CPUs that the affinity excludes are mentioned in a note, and get no thread.
    let made = plan(&sixteen("8-15", "0-7", &[]), &Wanted::default()).unwrap();
    assert!(made.cpus_of(Role::Worker).iter().all(|cpu| *cpu < 8), "{made:?}");
    assert!(made.notes.iter().any(|note| note.starts_with("CPUs 8-15 are set apart")), "{:?}", made.notes);
}

#[test]
fn no_more_workers_are_planned_than_the_group_pays_for_unless_they_are_wished_for() {
    let files = [("/proc/self/cgroup", "0::/"), ("/sys/fs/cgroup/cpu.max", "350000 100000")];
    let topology = sixteen("", "0-15", &files);
    let workers = |workers: Option<usize>| {
        plan(&topology, &Wanted { workers, ..Wanted::default() }).unwrap().cpus_of(Role::Worker).len()
    };
    assert_eq!((workers(None), workers(Some(7))), (3, 7));
}

#[test]
fn queues_that_so_few_cpus_have_no_room_for_are_not_passed_over_in_silence() {
    let topology = topology("2");
    let wanted = Wanted { queues: Some(3), ..Wanted::default() };
    let notes = plan(&topology, &wanted).unwrap().notes.join(" ");
    assert!(notes.contains("3 queues are requested"), "{notes}");
    assert!(!plan(&topology, &Wanted::default()).unwrap().notes.join(" ").contains("are requested"));
}
