//! Tests of the files of a server in the sandbox: links, folders that are replaced, and core files.

use crate::common::Serving;
use crate::load_tls::certified;
use crate::peers::Folder;
use crate::sandbox::redis;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Waits until `is_so`, at most 10 seconds. Returns the last value.
fn wait_until(is_so: impl Fn() -> bool) -> bool {
    let pause = || {
        std::thread::sleep(Duration::from_millis(10));
        false
    };
    (0..1000).any(|_| is_so() || pause())
}

const USERS: &str = "user default on nopass ~* &* +@all\n";

/// Starts a server with all files that the settings can name in the folders of `at`: settings, users and audit log.
fn start(at: impl Fn(&str) -> String, extra: &[&str]) -> (Serving, SocketAddr) {
    let listeners = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let settings = at("settings.toml");
    let args = [&listeners[..], &["--memory", "64MiB"], extra, &[&settings]].concat();
    let mut serving = Serving::start(&args);
    let resp = serving.addr_behind("Redis clients connect to ");
    (serving, resp)
}

#[test]
fn files_behind_links_into_other_folders_are_used_as_without_a_sandbox() {
    let folder = Folder::new("sandbox-links");
    let at = |path: &str| folder.path().join(path).display().to_string();
    for name in ["etc", "first", "users", "settings", "logs", "memory", "flash"] {
        std::fs::create_dir(at(name)).expect("a new folder");
    }
    let text = format!("[listen]\nacl_file = {:?}\n[log]\naudit = {:?}\n", at("etc/users"), at("etc/audit"));
    std::fs::write(at("settings/settings.toml"), text).expect("written");
    std::fs::write(at("users/users"), USERS).expect("written");
    for (name, target) in [
        // A chain, with a link among the folders.
        ("etc/settings.toml", "../first/settings.toml"),
        ("first/settings.toml", "../current/settings.toml"),
        ("current", "settings"),
        ("etc/users", "../users/users"),
        ("etc/memory", "../memory/memory"),
        ("etc/flash", "../flash/flash"),
        // The target does not exist yet.
        ("etc/audit", "../logs/audit"),
    ] {
        symlink(target, at(name)).expect("a new link");
    }
    for name in ["memory/memory", "flash/flash"] {
        std::fs::File::create(at(name)).expect("a file");
    }
    let (memory, flash) = (at("etc/memory"), format!("{}:64MiB", at("etc/flash")));
    let in_etc = |name: &str| at(&format!("etc/{name}"));
    let (mut server, resp) = start(in_etc, &["--file", &memory, "--flash", &flash]);
    for line in ["ACL LOAD", "ACL SETUSER ann on", "ACL SAVE", "ACL LOAD"] {
        assert!(redis(resp, line).starts_with("+OK"), "{line}");
    }
    server.signal("HUP");
    server.wait_for("reloaded");
    let audited = || std::fs::read_to_string(at("logs/audit")).is_ok_and(|text| text.contains("\"acl\""));
    assert!(wait_until(audited), "the audit log is written where its link leads");
    server.signal("TERM");
    assert!(server.ended().success());
}

/// Writes a certificate as a mounted secret of Kubernetes does: the files lie in a folder to which `..data` leads, and
/// a renewal replaces this link.
fn mount(folder: &Path, version: &str, from: &str) {
    let files = certified(from);
    std::fs::create_dir(folder.join(version)).expect("a new folder");
    for (name, file) in [("tls.crt", "server.pem"), ("tls.key", "server.key")] {
        std::fs::copy(files.file(file), folder.join(version).join(name)).expect("copied");
        // Fails if the link exists.
        let _ = symlink(format!("..data/{name}"), folder.join(name));
    }
    symlink(version, folder.join("..new")).expect("a new link");
    std::fs::rename(folder.join("..new"), folder.join("..data")).expect("replaced");
}

#[test]
fn mounted_secret_that_is_replaced_within_its_folder_is_read_again() {
    let folder = Folder::new("sandbox-secret");
    mount(folder.path(), "..2024", "secret-2024");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key) = (at("tls.crt"), at("tls.key"));
    let args = ["--memcached", "tls:127.0.0.1:0", "--admin", "none", "--memory", "64MiB"];
    let mut server = Serving::start(&[&args[..], &["--tls-cert", &cert, "--tls-key", &key]].concat());
    mount(folder.path(), "..2025", "secret-2025");
    std::fs::remove_dir_all(folder.path().join("..2024")).expect("removed");
    server.wait_for("new connections use the certificate of ");
    server.signal("HUP");
    server.wait_for("reloaded");
    assert!(!server.lines.iter().any(|line| line.contains("earlier certificates")), "{:#?}", server.lines);
}

#[test]
fn errors_name_the_sandbox_after_a_folder_was_replaced() {
    let folder = Folder::new("sandbox-replaced");
    let at = |path: &str| folder.path().join(path).display().to_string();
    let text = format!("[listen]\nacl_file = {:?}\n[log]\naudit = {:?}\n", at("users/users"), at("logs/audit"));
    let create = || {
        for name in ["settings", "users", "logs"] {
            std::fs::create_dir(at(name)).expect("a new folder");
        }
        std::fs::write(at("settings/settings.toml"), &text).expect("written");
        std::fs::write(at("users/users"), USERS).expect("written");
    };
    create();
    let (mut server, resp) = start(|name| at(&format!("settings/{name}")), &[]);
    for name in ["settings", "users", "logs"] {
        std::fs::remove_dir_all(at(name)).expect("removed");
    }
    create();
    for line in ["ACL LOAD", "ACL SAVE"] {
        let reply = redis(resp, line);
        assert!(reply.starts_with("-ERR") && reply.contains("the sandbox forbids"), "{line}: {reply}");
    }
    server.signal("HUP");
    for begin in ["cannot load users from ", "reload: ", "records of the audit log"] {
        let is_logged = |line: &String| line.contains(begin) && line.contains("the sandbox forbids");
        while !server.lines.iter().any(is_logged) {
            server.wait_for("the sandbox forbids");
        }
    }
    server.signal("TERM");
    assert!(server.ended().success());
}

/// `gannet memcached -r` requests core files, which the kernel writes with the rights of the process.
#[test]
fn core_file_is_written_if_it_was_requested() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.contains('/') || pattern.starts_with('|') {
        return eprintln!("skipped: this machine writes core files elsewhere: {pattern}");
    }
    let folder = Folder::new("sandbox-core");
    let port = crate::common::free_port().to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_gannet"))
        .args(["memcached", "-r", "-u", "root", "-l", "127.0.0.1", "-p", &port, "-m", "64"])
        .current_dir(folder.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    let serves = || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok();
    if !wait_until(serves) {
        let _ = (child.kill(), child.wait());
        return eprintln!("skipped: the limit of this user forbids core files");
    }
    let sent = Command::new("kill").args(["-ABRT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    child.wait().expect("its end");
    let files: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(files.len(), 1, "the core file: {files:?}");
}
