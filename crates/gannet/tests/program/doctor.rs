//! `gannet doctor`, as its users call it.

use crate::common::run;
use std::path::Path;

/// A tree of a host with these files.
fn tree(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
    let root = std::env::temp_dir().join(format!("gannet-doctor-program-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(&root).unwrap();
    for (path, text) in files {
        let place = root.join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, text).unwrap();
    }
    root
}

fn on(root: &Path, args: &[&str]) -> (i32, String, String) {
    run(&[&["doctor", "--root", root.to_str().unwrap()], args].concat())
}

const PLANTED: [(&str, &str); 8] = [
    ("proc/sys/vm/zone_reclaim_mode", "1"),
    ("proc/sys/kernel/hostname", "planted"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
    ("sys/kernel/mm/transparent_hugepage/defrag", "[always] defer defer+madvise madvise never"),
    ("proc/sys/net/ipv4/tcp_slow_start_after_idle", "1"),
    ("proc/sys/vm/overcommit_memory", "2"),
    ("proc/sys/kernel/sched_autogroup_enabled", "0"),
    ("proc/sys/net/ipv4/ip_local_port_range", "32768 60999"),
];

#[test]
fn five_planted_faults_are_found_and_the_worst_is_told_first() {
    let root = tree("planted", &PLANTED);
    let (code, out, err) = on(&root, &[]);
    assert_eq!((code, err.as_str()), (2, ""), "{out}");
    let ids = ["numa.zone-reclaim", "mem.thp-defrag", "mem.thp ", "net.slow-start-idle", "mem.overcommit"];
    let places: Vec<usize> = ids.iter().map(|id| out.find(id).unwrap_or_else(|| panic!("{id}: {out}"))).collect();
    assert!(places[..2].iter().max() < places[2..].iter().min(), "{out}");
    assert!(out.starts_with("planted: ") && out.contains("2 bad, 3 to look at, 2 fine"), "{out}");
    let _ = std::fs::remove_dir_all(root);
}

#[test]
fn a_host_that_is_fine_says_so_in_five_lines() {
    let root = tree("fine", &PLANTED[6..]);
    let (code, out, _) = on(&root, &[]);
    assert!(code == 0 && out.lines().count() <= 5 && out.contains("Nothing was found"), "{out}");
    let (code, out, _) = on(&root, &["--only", "net.ports", "--all"]);
    assert!(code == 0 && out.contains("32768 to 60999"), "{out}");
    let _ = std::fs::remove_dir_all(root);
}

#[test]
fn two_hosts_are_put_side_by_side() {
    let (one, other) = (tree("one", &PLANTED), tree("other", &PLANTED[1..]));
    let files = [one.join("a.json"), other.join("b.json")];
    for (root, file) in [&one, &other].into_iter().zip(&files) {
        let (_, json, _) = on(root, &["--json"]);
        std::fs::write(file, json).unwrap();
    }
    let (code, out, _) = run(&["doctor", "diff", files[0].to_str().unwrap(), files[1].to_str().unwrap()]);
    assert_eq!((code, out.lines().count()), (0, 3), "{out}");
    assert!(out.starts_with("numa.zone-reclaim\n") && out.contains("cannot tell"), "{out}");
    let (code, _, err) = run(&["doctor", "diff", files[0].to_str().unwrap(), "/none.json"]);
    assert!(code == 3 && err.contains("/none.json"), "{err}");
    for root in [one, other] {
        let _ = std::fs::remove_dir_all(root);
    }
}

#[test]
fn what_is_asked_wrongly_is_said_with_a_remedy() {
    for (args, part) in [
        (&["--only", "mem.thq"][..], "the nearest is mem.thp"),
        (&["--pid", "4194399"], "there is no process 4194399"),
        (&["--root", "/no/such/folder"], "is no folder"),
        (&["explain", "net.somaxcon"], "the nearest is net.somaxconn"),
    ] {
        let (code, _, err) = run(&[&["doctor"], args].concat());
        assert!(code == 3 && err.contains(part) && err.lines().count() == 1, "{args:?}: {code} {err}");
    }
    let (code, out, _) = run(&["doctor", "explain", "mem.thp-defrag"]);
    assert!(
        code == 0 && ["reads:", "remedy:", "undo:", "source:", "needs:"].iter().all(|part| out.contains(part)),
        "{out}"
    );
    let (_, list, _) = run(&["doctor", "list"]);
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor/README.md")).unwrap();
    for line in list.lines() {
        let id = line.split_whitespace().next().unwrap();
        assert!(page.contains(&format!("`{id}`")), "docs/doctor/README.md has no {id}");
    }
}

#[test]
fn this_machine_and_its_own_process_are_looked_at() {
    let pid = std::process::id().to_string();
    let (code, out, err) = run(&["doctor", "--pid", &pid, "--all"]);
    assert!((0..=2).contains(&code) && err.is_empty(), "{code} {err}");
    assert!(out.contains("lim.nofile") && out.contains("cannot be told here"), "{out}");
}
