//! Every check on a tree on which it is fine, on one on which it is not, and on one without its files.

mod trees;

use std::path::PathBuf;
use std::time::Duration;

use gannet_doctor::check::select;
use gannet_doctor::{Check, Host, Target, Verdict, checks, run};
use trees::{CASES, Case, Files, PID};

/// A folder that is gone in the end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[&Files]) -> Self {
        let path = std::env::temp_dir().join(format!("gannet-doctor-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        for (file, text) in files.iter().copied().flatten() {
            let place = path.join(file.trim_start_matches('/'));
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, text).unwrap();
        }
        Self(path)
    }

    fn host(&self, pid: Option<u32>) -> Host {
        Host::watch(Target { root: self.0.clone(), pid, window: Duration::ZERO })
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn one(id: &str) -> Vec<&'static Check> {
    select(&[id.to_owned()]).unwrap()
}

fn found(name: &str, case: &Case, files: &[&Files]) -> (Verdict, String) {
    let tree = Tree::new(&format!("{}-{name}", case.id), files);
    let finding = run(&tree.host(Some(PID)), &one(case.id)).remove(0);
    (finding.verdict, finding.value)
}

#[test]
fn a_check_tells_what_is_fine_from_what_is_not() {
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
fn what_is_absent_is_never_fine() {
    let tree = Tree::new("empty", &[]);
    for pid in [None, Some(PID)] {
        for finding in run(&tree.host(pid), &select(&[]).unwrap()) {
            assert_eq!(finding.verdict, Verdict::Unknown, "{}: {}", finding.id, finding.value);
            assert!(!finding.value.is_empty(), "{}", finding.id);
        }
    }
}

#[test]
fn garbage_is_named_and_the_rest_goes_on() {
    for case in CASES {
        let files: Vec<(&str, &str)> =
            case.common.iter().chain(case.good).map(|(file, _)| (*file, "\u{1}garbage (")).collect();
        let (verdict, value) = found("garbage", case, &[&files]);
        // Some files may hold any word, and of some only their presence counts.
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
    let tree = Tree::new("binary", &[]);
    std::fs::create_dir_all(tree.0.join("proc/sys/vm")).unwrap();
    std::fs::write(tree.0.join("proc/sys/vm/zone_reclaim_mode"), [0xff, 0xfe, b'1']).unwrap();
    let finding = run(&tree.host(None), &one("numa.zone-reclaim")).remove(0);
    assert_eq!(finding.verdict, Verdict::Unknown);
    assert!(finding.value.contains("zone_reclaim_mode"), "{}", finding.value);
}

#[test]
fn the_worst_comes_first() {
    let files: Vec<&Files> = CASES.iter().flat_map(|case| [case.common, case.bad]).collect();
    let tree = Tree::new("worst", &files);
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
    let host =
        Host::watch(Target { root: "/".into(), pid: Some(std::process::id()), window: Duration::from_millis(20) });
    let findings = run(&host, &select(&[]).unwrap());
    let told = findings.iter().filter(|finding| finding.verdict != Verdict::Unknown).count();
    assert!(told > 20, "{told} of {} could be told", findings.len());
}
