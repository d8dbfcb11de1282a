//! Tests the contents of a bundle, and that it has no private data.

mod tree;
mod trees;

use std::io::Read;

use gannet_doctor::bundle::Bundle;
use gannet_doctor::{Host, checks, run};
use tree::Tree;
use trees::{CASES, PID};

fn all_checks() -> Vec<&'static gannet_doctor::Check> {
    checks::all().collect()
}

fn packed(host: &Host, pid: Option<u32>) -> Vec<u8> {
    Bundle::of(&host.tape(), pid).write(Vec::new()).unwrap()
}

#[test]
fn the_tree_of_a_bundle_has_the_same_findings_as_the_host() {
    let mut compared = 0;
    for case in CASES.iter().filter(|case| !case.bad.is_empty()) {
        let tree = Tree::new(case.id);
        for (path, text) in case.common.iter().chain(case.bad) {
            tree.write(path, text);
        }
        let host = tree.host(Some(PID)).taped();
        let only: Vec<_> = checks::all().filter(|check| check.id == case.id).collect();
        let here = run(&host, &only);
        let there = Tree::new("unpacked");
        let archive = packed(&host, Some(PID));
        tar::Archive::new(flate2::read::GzDecoder::new(&archive[..])).unpack(&there.0).unwrap();
        let root = there.0.join("bundle/tree");
        let again = run(&Host::now(root, Some(PID)), &only);
        // The number of a process's open files is a count of private names, which the bundle does not contain.
        // Neither the command line nor certificates and settings, which have names, are in the bundle.
        if matches!(case.id, "lim.nofile" | "lim.nproc" | "tls.expiry") {
            continue;
        }
        assert_eq!(here[0].verdict, again[0].verdict, "{}: {} / {}", case.id, here[0].value, again[0].value);
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
}

/// Regression test: tar could not unpack the archive of a host whose network device is a symbolic link, as network
/// devices always are.
#[test]
fn file_read_through_a_symlink_is_restored_by_tar() {
    let tree = Tree::new("links");
    tree.write("/sys/devices/virtio2/uevent", "DRIVER=virtio_net");
    tree.write("/sys/class/net/eth0/mtu", "1500");
    let device = tree.0.join("sys/class/net/eth0/device");
    std::os::unix::fs::symlink("../../../devices/virtio2", device).unwrap();
    let host = tree.host(None).taped();
    let read = |host: &Host| {
        (host.read("/sys/class/net/eth0/device/uevent").ok(), host.link_name("/sys/class/net/eth0/device"))
    };
    let here = read(&host);
    assert!(here.0.is_some() && here.1.is_some(), "{here:?}");
    let archive = packed(&host, None);
    let there = Tree::new("links-unpacked");
    let file = there.0.join("bundle.tar.gz");
    std::fs::write(&file, archive).unwrap();
    let tar = std::process::Command::new("tar").arg("xzf").arg(&file).current_dir(&there.0).status().unwrap();
    assert!(tar.success());
    assert_eq!(read(&Host::now(there.0.join("bundle/tree"), None)), here);
}

#[test]
fn no_secret_that_lies_about_on_a_host_is_in_its_bundle() {
    const SECRET: &str = "hunter2";
    let tree = Tree::new("secrets");
    for (path, text) in CASES.iter().flat_map(|case| case.common.iter().chain(case.bad)) {
        tree.write(path, text);
    }
    let maps = format!("7f00-7f01 r--p 00000000 08:01 77 /home/{SECRET}/key.pem\n");
    for (path, text) in [
        ("/proc/sys/kernel/hostname", SECRET.to_owned()),
        ("/proc/7/environ", format!("PASSWORD={SECRET}")),
        ("/proc/7/cmdline", format!("server --password={SECRET}")),
        ("/proc/7/maps", maps),
        ("/proc/7/numa_maps", format!("7f00 bind:0 file=/home/{SECRET} mapped=3 N0=5 N1=6\n")),
        ("/proc/8/comm", SECRET.to_owned()),
        ("/proc/1/comm", SECRET.to_owned()),
        (
            "/proc/mounts",
            format!(
                "//nas/{SECRET} /srv/x/{SECRET} cifs rw,username={SECRET},password={SECRET} 0 0\n/dev/vda / ext4 rw 0 0"
            ),
        ),
        ("/etc/default/irqbalance", format!("# {SECRET}\nTOKEN={SECRET}\nIRQBALANCE_BANNED_CPULIST=\n")),
        ("/etc/shadow", SECRET.to_owned()),
    ] {
        tree.write(path, &text);
    }
    let host = tree.host(Some(PID)).taped();
    run(&host, &all_checks());
    let read = host.tape();
    assert!(read.files.values().any(|text| text.contains(SECRET)), "else nothing is proved");
    let archive = packed(&host, Some(PID));
    let mut entries = 0;
    for entry in tar::Archive::new(flate2::read::GzDecoder::new(&archive[..])).entries().unwrap() {
        let mut entry = entry.unwrap();
        let (name, mut bytes) = (entry.path().unwrap().display().to_string(), Vec::new());
        entry.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!name.contains(SECRET) && !text.contains(SECRET), "{name}: {text}");
        assert!(!["environ", "cmdline", "shadow"].iter().any(|secret| name.ends_with(secret)), "{name}");
        entries += 1;
    }
    assert!(entries > 60, "{entries}");
}

#[test]
fn entries_too_large_for_the_bundle_are_listed() {
    let mut bundle = Bundle::of(&Default::default(), None);
    bundle.add("huge.txt", "x".repeat(2 << 20));
    let archive = bundle.write(Vec::new()).unwrap();
    let mut names = Vec::new();
    for entry in tar::Archive::new(flate2::read::GzDecoder::new(&archive[..])).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        names.push((entry.path().unwrap().display().to_string(), text));
    }
    assert_eq!(names.len(), 2);
    assert!(names[1].0 == "bundle/left-out.txt" && names[1].1 == "huge.txt: 2097152 bytes\n", "{names:?}");
}
