//! Tests every check on three trees: without the problem, with the problem, and without the files that the check reads.

mod tree;
mod trees;

use std::time::Duration;

use gannet_doctor::checks::select;
use gannet_doctor::{Check, CheckTarget, Host, OptInActions, Report, Verdict, checks, run};
use tree::Tree;
use trees::{CASES, Case, Files, PID};

/// Creates a tree of these files.
fn tree_of(name: &str, files: &[&Files]) -> Tree {
    let tree = Tree::new(name);
    files.iter().copied().flatten().for_each(|(file, text)| tree.write(file, text));
    tree
}

fn one(id: &str) -> Vec<&'static Check> {
    select(&[id.to_owned()]).unwrap()
}

fn found(name: &str, case: &Case, files: &[&Files]) -> (Verdict, String) {
    let tree = tree_of(&format!("{}-{name}", case.id), files);
    let finding = run(&tree.host(Some(PID)), &one(case.id)).remove(0);
    (finding.verdict, finding.value)
}

#[test]
fn every_check_distinguishes_good_from_bad_settings() {
    for case in CASES {
        let (verdict, value) = found("good", case, &[case.common, case.good]);
        assert_eq!(verdict, Verdict::Ok, "{}: {value}", case.id);
        if !case.bad.is_empty() {
            let (verdict, value) = found("bad", case, &[case.common, case.bad]);
            assert_eq!(verdict, case.verdict, "{}: {value}", case.id);
        }
    }
}

#[test]
fn no_check_is_without_its_trees() {
    for check in checks::all() {
        let case = CASES.iter().find(|case| case.id == check.id);
        assert!(case.is_some(), "{} has no trees in tests/trees", check.id);
    }
    assert_eq!(checks::all().count(), CASES.len(), "a tree of no check, or a check that is there twice");
}

#[test]
fn missing_inputs_are_reported_as_unknown() {
    let tree = tree_of("empty", &[]);
    for pid in [None, Some(PID)] {
        for finding in run(&tree.host(pid), &select(&[]).unwrap()) {
            assert_eq!(finding.verdict, Verdict::Unknown, "{}: {}", finding.id, finding.value);
            assert!(!finding.value.is_empty(), "{}", finding.id);
        }
    }
    let host = tree.host(None);
    let report = Report::new(&host, None, run(&host, &select(&[]).unwrap()));
    assert_eq!(report.exit_code(), 3);
    assert!(report.text(false).contains("No check could run") && !report.text(false).contains("Nothing was found"));
}

/// Parts of paths of things that a host may lack without an error: a CPU, a node, a thread, an open file, a queue.
const THINGS: [&str; 8] =
    ["/online", "/cpulist", "/task/", "/fd/", "/queues/", "/topology/", "/cache/", "/device/uevent"];
/// For some checks, a file that may be absent: the check needs it only if another file says so, or its absence has a
/// meaning.
const MAY_BE_ABSENT: [(&str, &str); 9] = [
    // Limits in bytes exist, no quota is set, and nothing is swapped.
    ("mem.dirty", "dirty_ratio"),
    ("cg.cpu-quota", "cpu.stat"),
    ("mem.swap", "swappiness"),
    ("lim.memlock", "swaps"),
    // The device's name is sufficient, another file has more information, or another file decides.
    ("disk.scheduler", "rotational"),
    ("disk.readahead", "loop0"),
    ("irq.affinity", "smp_affinity_list"),
    ("clock.slew", "/proc/2/comm"),
    // Some kernels have no watchdog.
    ("clock.ticks", "nmi_watchdog"),
];

#[test]
fn no_file_that_is_missing_makes_a_check_fine() {
    let mut judged = 0;
    for case in CASES {
        let files: Vec<(&str, &str)> = case.common.iter().chain(case.good).copied().collect();
        for at in 0..files.len() {
            let mut left = files.clone();
            let (gone, _) = left.remove(at);
            let (verdict, value) = found("one-gone", case, &[&left]);
            let may = MAY_BE_ABSENT.iter().any(|(id, part)| *id == case.id && gone.contains(part));
            let is_thing = THINGS.iter().any(|part| gone.contains(part));
            assert!(verdict != Verdict::Ok || may || is_thing, "{}: fine without {gone}: {value}", case.id);
            judged += u32::from(!may && !is_thing);
        }
    }
    assert!(judged > 80, "{judged}");
}

#[test]
fn every_check_has_all_parts_and_a_two_sentence_mechanism() {
    let mut ids = std::collections::BTreeSet::new();
    for check in checks::all() {
        let Check { id, reads, mechanism, remedy, expect, undo, source, .. } = check;
        assert!(ids.insert(id), "{id} is there twice");
        for part in [reads, mechanism, remedy, expect, undo, source] {
            assert!(!part.trim().is_empty() && !part.contains("  "), "{id}: {part:?}");
        }
        let ends =
            mechanism.match_indices('.').filter(|(at, _)| mechanism[at + 1..].chars().next().is_none_or(|c| c == ' '));
        assert_eq!(ends.count(), 2, "{id}: {mechanism}");
        assert!(mechanism.ends_with('.') && mechanism.len() <= 300, "{id}: {}: {mechanism}", mechanism.len());
    }
    assert_eq!(ids.len(), 72, "docs/doctor/README.md has a table of them");
}

#[test]
fn oversized_and_special_files_are_not_read() {
    let limits = "Max open files            6000                 6000                 files";
    let tree = tree_of("many", &[&[("/proc/7/limits", limits), ("/proc/7/task/7/comm", "a")]]);
    let fds = tree.0.join("proc/7/fd");
    std::fs::create_dir_all(&fds).unwrap();
    (0..5500).for_each(|fd| drop(std::fs::File::create(fds.join(fd.to_string())).unwrap()));
    let finding = run(&tree.host(Some(PID)), &one("lim.nofile")).remove(0);
    assert_eq!((finding.verdict, finding.value.as_str()), (Verdict::Bad, "5500 open, 6000 allowed"));

    let long = tree.0.join("proc/7/maps");
    std::fs::File::create(&long).unwrap().set_len(gannet_doctor::host::FILE_BYTES_MAX + 1).unwrap();
    std::fs::create_dir_all(tree.0.join("proc/sys/vm")).unwrap();
    std::fs::write(tree.0.join("proc/sys/vm/max_map_count"), "1048576").unwrap();
    std::os::unix::fs::symlink("/dev/zero", tree.0.join("proc/sys/vm/overcommit_memory")).unwrap();
    for (id, why) in [("mem.map-count", "longer than"), ("mem.overcommit", "not a regular file")] {
        let finding = run(&tree.host(Some(PID)), &one(id)).remove(0);
        assert_eq!(finding.verdict, Verdict::Unknown, "{id}: {}", finding.value);
        assert!(finding.value.contains(why), "{id}: {}", finding.value);
    }
}

#[test]
fn garbage_input_is_reported_as_unknown_and_other_checks_continue() {
    for case in CASES {
        let files: Vec<(&str, &str)> =
            case.common.iter().chain(case.good).map(|(file, _)| (*file, "\u{1}garbage (")).collect();
        let (verdict, value) = found("garbage", case, &[&files]);
        // Some files may contain any word, and of some only the existence matters.
        let is_word = matches!(
            case.id,
            "cpu.isolated"
                | "cpu.mitigations"
                | "cpu.governor"
                | "cloud.burstable"
                | "sys.kernel"
                | "net.qdisc"
                | "disk.scheduler"
                | "clock.source"
                | "irq.irqbalance"
                | "mem.swap"
                | "net.rps"
                | "net.xps"
                | "net.queues"
                | "numa.nic-node"
        );
        if !is_word {
            assert_eq!(verdict, Verdict::Unknown, "{}: {value}", case.id);
        }
    }
    let tree = tree_of("binary", &[]);
    std::fs::create_dir_all(tree.0.join("proc/sys/vm")).unwrap();
    std::fs::write(tree.0.join("proc/sys/vm/zone_reclaim_mode"), [0xff, 0xfe, b'1']).unwrap();
    let finding = run(&tree.host(None), &one("numa.zone-reclaim")).remove(0);
    assert_eq!(finding.verdict, Verdict::Unknown);
    assert!(finding.value.contains("zone_reclaim_mode"), "{}", finding.value);
}

#[test]
fn the_worst_comes_first() {
    let files: Vec<&Files> = CASES.iter().flat_map(|case| [case.common, case.bad]).collect();
    let tree = tree_of("worst", &files);
    let findings = run(&tree.host(Some(PID)), &select(&[]).unwrap());
    assert!(findings.is_sorted_by_key(|finding| finding.verdict));
    assert!(findings.iter().filter(|finding| finding.verdict == Verdict::Bad).count() > 5);
}

#[test]
fn a_name_that_is_no_check_has_the_nearest_named() {
    let faults = select(&["mem.thq".to_owned(), "net".to_owned()]).unwrap_err();
    assert!(faults.len() == 1 && faults[0].contains("mem.thp"), "{faults:?}");
    assert!(select(&["net".to_owned()]).unwrap().iter().all(|check| check.id.starts_with("net.")));
}

#[test]
fn a_host_is_looked_at_without_privileges() {
    let host = Host::watch(CheckTarget {
        root: "/".into(),
        pid: Some(std::process::id()),
        window: Duration::from_millis(20),
        asked: OptInActions::default(),
    });
    let findings = run(&host, &select(&[]).unwrap());
    let told = findings.iter().filter(|finding| finding.verdict != Verdict::Unknown).count();
    assert!(told > 20, "{told} of {} could be told", findings.len());
}
