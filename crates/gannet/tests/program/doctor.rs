//! Tests `gannet doctor` by its command line.

use crate::common::run;
use std::path::Path;

/// Creates a tree of a host with these files. Returns its path.
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
fn doctor_reports_five_planted_faults_worst_first() {
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
fn healthy_host_is_reported_in_five_lines() {
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
fn invalid_doctor_arguments_are_rejected_with_a_remedy() {
    for (args, part) in [
        (&["--only", "mem.thq"][..], "the nearest is mem.thp"),
        (&["--pid", "4194399"], "there is no process 4194399"),
        (&["--root", "/no/such/folder"], "is not a directory"),
        (&["explain", "net.somaxcon"], "the nearest is net.somaxconn"),
        (&["diff", "/dev/zero", "/dev/zero"], "/dev/zero: it is longer than 64 MiB"),
        (&["plan", "--check", "/dev/zero"], "/dev/zero: it is longer than 64 MiB"),
    ] {
        let (code, _, err) = run(&[&["doctor"], args].concat());
        assert!(code == 3 && err.contains(part) && err.lines().count() == 1, "{args:?}: {code} {err}");
    }
    let (code, out, _) = run(&["doctor", "explain", "mem.thp-defrag"]);
    assert!(
        code == 0
            && ["reads:", "remedy:", "expect:", "undo:", "source:", "needs:"].iter().all(|part| out.contains(part)),
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
    assert!(out.contains("lim.nofile") && out.contains("could not run here"), "{out}");
}

/// Creates a tree of a host with `count` CPUs. Each CPU is a core, and all share one cache.
fn cpus(name: &str, count: usize) -> std::path::PathBuf {
    let files: Vec<(String, String)> = (0..count)
        .flat_map(|cpu| {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}");
            [
                (format!("{folder}/topology/thread_siblings_list"), cpu.to_string()),
                (format!("{folder}/cache/index3/level"), "3".to_owned()),
                (format!("{folder}/cache/index3/shared_cpu_list"), format!("0-{}", count - 1)),
            ]
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    tree(name, &files)
}

#[test]
fn a_plan_is_printed_changed_and_checked() {
    let root = cpus("plan", 16);
    let at = root.to_str().unwrap();
    let plan = |args: &[&str]| run(&[&["doctor", "plan", "--root", at], args].concat());
    let (code, out, _) = plan(&["--processes", "2", "--storage", "1"]);
    assert!(code == 0 && out.contains("10 workers and 2 storage threads in 2 processes, pinned"), "{out}");
    let (code, out, _) = plan(&["--format", "taskset"]);
    assert!(code == 0 && out.contains("gannet serve --workers 12 --pin 4-15"), "{out}");
    let (_, json, _) = plan(&["--json"]);
    let file = root.join("plan.json");
    std::fs::write(&file, &json).unwrap();
    let file = file.to_str().unwrap();
    let (code, out, err) = plan(&["--check", file, "--format", "systemd"]);
    assert!(code == 0 && out.contains("CPUAffinity=0-15") && err.is_empty(), "{out} {err}");
    std::fs::write(file, json.replace("\"cpu\": 9,", "\"cpu\": 77,")).unwrap();
    let line = json.lines().position(|line| line.contains("\"cpu\": 9,")).unwrap() + 1;
    let (code, _, err) = plan(&["--check", file]);
    let wanted = format!("gannet: {file}: line {line}: CPU 77 is not on this host, or is off");
    assert!(code == 3 && err.starts_with(&wanted) && err.lines().count() == 1, "{err}");
    let (code, _, err) = plan(&["--workers", "17"]);
    assert!(code == 3 && err.contains("16 CPUs may be used; name 16 workers or fewer"), "{err}");
    for wrong in
        [&["--workers", "0"][..], &["--queues", "x"], &["--role", "client"], &["--check", file, "--workers", "1"]]
    {
        assert_eq!(plan(wrong).0, 2, "{wrong:?}");
    }
    let _ = std::fs::remove_dir_all(root);
}

#[test]
fn applied_change_is_reported_persisted_and_undone() {
    let root = tree("apply", &PLANTED);
    let at = root.to_str().unwrap();
    let doctor = |args: &[&str]| run(&[&["doctor"], args, &["--root", at]].concat());
    let mode = || std::fs::read_to_string(root.join("proc/sys/vm/zone_reclaim_mode")).unwrap();
    let (code, out, _) = doctor(&["apply", "--dry-run"]);
    assert!(code == 0 && out.starts_with("#!/bin/sh") && out.contains("zone_reclaim_mode") && mode() == "1", "{out}");
    let (code, _, err) = doctor(&["persist", "--as", "tuned"]);
    assert!(code == 3 && err.contains("`gannet doctor apply` first"), "{err}");
    let (code, out, err) = doctor(&["apply", "--only", "numa.zone-reclaim,mem.overcommit"]);
    assert!(code == 0 && out.contains("(1 -> 0): done") && mode() == "0\n", "{out}");
    assert!(err.contains("mem.overcommit: the remedy is not a setting that the doctor writes"), "{err}");
    let (code, out, _) = doctor(&["persist", "--as", "sysctl.d"]);
    assert!(code == 0 && out.contains("\nvm.zone_reclaim_mode = 0\n"), "{out}");
    let (_, out, _) = doctor(&["undo", "--list"]);
    assert!(out.contains("1 changes not undone"), "{out}");
    let (code, out, _) = doctor(&["undo"]);
    assert!(code == 0 && mode() == "1\n", "{out}");
    let (code, out, _) = doctor(&["undo"]);
    assert!(code == 0 && out == "There is nothing to undo.\n", "{out}");
    let (code, _, err) = doctor(&["undo", "../../etc/passwd"]);
    assert!(code == 3 && err.contains("is not the name of a run"), "{err}");
    let _ = std::fs::remove_dir_all(root);
}

#[test]
fn a_change_of_the_network_is_undone_unless_it_is_confirmed() {
    let root = cpus("timer", 16);
    let file = root.join("sys/class/net/eth0/queues/rx-0/rps_cpus");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::create_dir_all(root.join("sys/class/net/eth0/device")).unwrap();
    let at = root.to_str().unwrap();
    let doctor = |args: &[&str]| run(&[&["doctor"], args, &["--root", at]].concat());
    let held = || std::fs::read_to_string(&file).unwrap();
    // Both runs begin with the same mask. Only the second run is confirmed.
    for (timer, is_confirmed) in [("1", false), ("30", true)] {
        std::fs::write(&file, "00").unwrap();
        let apply = || doctor(&["apply", "--only", "net.rps", "--timer", timer]);
        // The undo of the first run may hold the lock for a moment after its last change.
        let applied = (0..200).map(|_| apply()).find(|(_, _, err)| {
            let is_locked = err.contains("another apply or undo is running");
            std::thread::sleep(std::time::Duration::from_millis(if is_locked { 50 } else { 0 }));
            !is_locked
        });
        let (code, out, err) = applied.expect("the undo ends");
        assert!(code == 0 && out.contains("unless you run: gannet doctor apply --confirm"), "{out} {err}");
        if is_confirmed {
            assert_eq!(held(), "f\n");
            let (code, out, err) = doctor(&["apply", "--confirm"]);
            assert!(code == 0 && out.contains("stays"), "{out} {err}");
            assert_eq!(held(), "f\n");
        } else {
            let end = std::time::Instant::now() + crate::common::PATIENCE;
            while held() != "00\n" {
                assert!(std::time::Instant::now() < end, "it is not undone: {:?}", held());
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
    let _ = std::fs::remove_dir_all(root);
}

#[test]
fn real_kernel_setting_is_applied_and_undone_in_a_network_namespace() {
    let folder = tree("real", &[("begun", "")]);
    let journals = folder.to_str().unwrap();
    let setting = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
    let steps = "set -e; echo 1 > \"$2\"; \"$0\" doctor apply --only net.slow-start-idle --journals \"$1\"; \
                 cat \"$2\"; \"$0\" doctor undo --journals \"$1\"; cat \"$2\"";
    let output = std::process::Command::new("unshare")
        .args(["--net", "sh", "-c", steps, env!("CARGO_BIN_EXE_gannet"), journals, setting])
        .output();
    let Some(output) = output.ok().filter(|output| !String::from_utf8_lossy(&output.stderr).contains("unshare:"))
    else {
        eprintln!("skipped: a network namespace is not to be had (it needs root, and `unshare` of util-linux)");
        return;
    };
    let out = String::from_utf8(output.stdout).unwrap();
    let alone: Vec<&str> = out.lines().filter(|line| line.len() == 1).collect();
    assert!(output.status.success() && alone == ["0", "1"], "{out}{}", String::from_utf8_lossy(&output.stderr));
    let _ = std::fs::remove_dir_all(folder);
}

/// The commands of the README, beside the server that they are written for: it has every default port, in a network of
/// its own.
#[test]
fn versus_and_prove_run_beside_a_server_on_the_default_ports() {
    let folder = tree("beside", &[("proc/sys/vm/delay_ms", "1\n")]);
    let steps = "ip link set lo up || { echo unshare: no loopback >&2; exit 1; }
        \"$0\" serve --memory 32MiB --workers 1 2>/dev/null & server=$!
        until \"$0\" top --once --interval 100ms >/dev/null 2>&1; do kill -0 $server || exit 2; sleep 0.1; done
        other=\"$0 serve --memcached 127.0.0.1:21300 --memory 32MiB --workers 1\"
        \"$0\" load versus --a \"$other\" --b \"$other\" --target 127.0.0.1:21300 --rate 100 --rounds 1 \\
            --duration 200ms --warm-up 50ms --no-prefill --quiet 2>&1; echo \"versus ended with $?\"
        mkfifo \"$1/said\"
        \"$0\" doctor prove --root \"$1\" --set vm.delay_ms=2 --rate 50 --seconds 1 -- --no-prefill --warm-up 0s \\
            2>\"$1/said\" & proof=$!
        grep -m 1 'round 1, ' <\"$1/said\"; kill -INT $proof; wait $proof; cat \"$1/proc/sys/vm/delay_ms\"
        kill $server";
    let output = std::process::Command::new("unshare")
        .args(["--net", "sh", "-c", steps, env!("CARGO_BIN_EXE_gannet"), folder.to_str().unwrap()])
        .output();
    let Some(output) = output.ok().filter(|output| !String::from_utf8_lossy(&output.stderr).contains("unshare:"))
    else {
        eprintln!("skipped: no network namespace (it needs root, and `unshare` of util-linux)");
        return;
    };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // On a busy machine the generator may be the limit, which is no verdict.
    let is_compared = out.contains("versus ended with 0") || out.contains("versus ended with 3");
    assert!(is_compared && out.contains("round 1, ") && out.ends_with("1\n"), "{out}{err}");
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn watch_lists_threads_and_cpus_and_reports_a_missing_process() {
    let own = std::process::id().to_string();
    let (code, out, err) = run(&["doctor", "watch", "--pid", &own, "--once", "--interval", "100ms"]);
    assert!(code == 0 && err.is_empty(), "{code} {err}");
    for part in ["waiting for", "\nCPU ", "\n0 ", "\nthread ", "taken off", "pgscan_direct"] {
        assert!(out.contains(part), "{part:?} is not in\n{out}");
    }
    assert!(!out.contains('\x1b') && out.lines().all(|line| line.chars().count() <= 120), "{out}");
    let (code, _, err) = run(&["doctor", "watch", "--pid", "4194399", "--once"]);
    assert!(code == 3 && err.contains("there is no process 4194399"), "{err}");
    let (code, _, err) = run(&["doctor", "watch", "--once", "--interval", "5"]);
    assert!(code == 2 && err.contains("write it as 1s or 500ms"), "{err}");
}

#[test]
fn bundle_is_written_once_and_never_overwrites_a_file() {
    const SECRET: &str = "hunter2";
    let root = tree("bundle", &PLANTED);
    let mounts = format!("/dev/vda / ext4 rw,relatime 0 0\n/dev/vdb /srv/x/{SECRET} xfs rw,user={SECRET} 0 0");
    std::fs::write(root.join("proc/mounts"), mounts).unwrap();
    std::fs::write(root.join("proc/sys/kernel/hostname"), SECRET).unwrap();
    let (at, file) = (root.to_str().unwrap(), root.join("out.tar.gz"));
    let bundle = || run(&["doctor", "bundle", "--root", at, "--out", file.to_str().unwrap()]);
    let (code, out, err) = bundle();
    assert!(code == 0 && out.contains("review it before you send it"), "{out} {err}");
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.starts_with(&[0x1f, 0x8b]) && bytes.len() > 500);
    let tar = std::process::Command::new("tar").arg("xzf").arg(&file).current_dir(&root).status().unwrap();
    let report = std::fs::read_to_string(root.join("bundle/report.txt")).unwrap();
    assert!(
        tar.success() && report.contains("disk.mount") && report.contains("1 record the time of each read"),
        "{report}"
    );
    let told = std::process::Command::new("grep").args(["-r", SECRET]).arg(root.join("bundle")).output().unwrap();
    assert!(told.stdout.is_empty(), "{}", String::from_utf8_lossy(&told.stdout));
    let (code, _, err) = bundle();
    assert!(code == 3 && err.contains("pass another --out") && std::fs::read(&file).unwrap() == bytes, "{err}");
    let _ = std::fs::remove_dir_all(root);
}

/// Runs the doctor by another program. Returns `None` if that program lacks the right to do so.
fn through(program: &[&str], args: &[&str]) -> Option<(i32, String, String)> {
    let output = std::process::Command::new(program[0])
        .args(&program[1..])
        .arg(env!("CARGO_BIN_EXE_gannet"))
        .args(args)
        .output()
        .ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    if err.contains(&format!("{}: ", program[0])) {
        eprintln!("skipped: {}", err.trim());
        return None;
    }
    Some((output.status.code().unwrap(), out, err))
}

const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

#[test]
fn doctor_without_root_checks_readable_files_and_refuses_to_prove() {
    let Some((code, out, err)) = through(&NOBODY, &["doctor", "--all"]) else { return };
    assert!((0..=2).contains(&code) && err.is_empty(), "{code} {out} {err}");
    let fine: u32 =
        out.lines().last().and_then(|line| line.split(", ").nth(2)?.split(' ').next()?.parse().ok()).unwrap();
    assert!(fine > 15, "{out}");
    let journals = std::env::temp_dir().join(format!("gannet-doctor-nobody-{}", std::process::id()));
    std::fs::create_dir_all(&journals).unwrap();
    let args =
        ["doctor", "prove", "--set", "vm.swappiness=7", "--seconds", "1", "--journals", journals.to_str().unwrap()];
    let (code, _, err) = through(&NOBODY, &args).unwrap();
    assert!(code == 3 && err.contains("run the command as root"), "{code} {err}");
    let _ = std::fs::remove_dir_all(journals);
}

#[test]
fn doctor_in_separate_namespaces_reports_the_processes_there() {
    let unshare = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--uts", "--ipc", "--net"];
    let Some((code, out, err)) = through(&unshare, &["doctor", "--all", "--pid", "1"]) else { return };
    assert!((0..=2).contains(&code) && err.is_empty(), "{code} {out} {err}");
    // The doctor is the first and only process in that namespace.
    assert!(out.contains("process 1 (gannet)") && out.contains("lim.nofile"), "{out}");
}
