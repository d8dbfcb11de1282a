//! Tests `gannet top` against a real server: as plain text, and in a separate terminal.

use super::common::{PATIENCE, Serving, TempFile, ask, connect, free_port, gannet, run};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Starts a server and sends it some requests. Returns the server and its admin port.
fn server() -> (Serving, String) {
    let any = "127.0.0.1:0";
    // The namespaces have been read when the server reports that it serves.
    let file = TempFile::new("top.toml", "[[namespace]]\nname = \"shop\"\nprefix = \"shop:\"\n");
    let args = [file.path(), "--memcached", any, "--admin", any, "--memory", "64MiB", "--workers", "2"];
    let mut serving = Serving::start(&args);
    let memcached = serving.addr_behind("memcached clients connect to ");
    let admin = serving.addr_behind("metrics are at http://").to_string();
    let mut stream = connect(memcached);
    let set = format!("set top:key 0 0 2048\r\n{}\r\n", "x".repeat(2048));
    ask(&mut stream, set.as_bytes(), b"STORED\r\n");
    ask(&mut stream, set.replace("top:", "shop:").as_bytes(), b"STORED\r\n");
    ask(&mut stream, b"get none\r\n", b"END\r\n");
    (serving, admin)
}

#[test]
fn top_once_prints_server_activity_as_plain_text() {
    let (_serving, admin) = server();
    let (code, out, err) = run(&["top", &admin, "--once", "--interval", "100ms"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for part in [
        "gannet ",
        &admin,
        " used of 64.0 MiB",
        "\nget ",
        "\nset ",
        "\nworker ",
        "\n1 ",
        "\nshop ",
        "  2.0 KiB top:key",
        "  2.0 KiB shop/shop:",
    ] {
        assert!(out.contains(part), "{part:?} is not in\n{out}");
    }
    assert!(!out.contains('\x1b') && out.lines().all(|line| line.chars().count() <= 120), "{out}");
}

#[test]
fn top_once_adds_the_page_of_graphs_if_there_is_a_graph() {
    let any = "127.0.0.1:0";
    let words = ["--memcached", any, "--resp", any, "--admin", any, "--memory", "16MiB", "--workers", "1"];
    let mut serving = Serving::start(&words);
    let mut redis = crate::restart_together::Redis::connect(serving.addr_behind("Redis clients connect to "));
    let admin = serving.addr_behind("metrics are at http://").to_string();
    let (_, out, _) = run(&["top", &admin, "--once", "--interval", "100ms"]);
    assert!(!out.contains("compaction debt"), "{out}");
    assert_eq!(redis.ask("G.TYPE social knows UNDIRECTED"), "+OK");
    assert_eq!(redis.ask("G.ADD social 1 knows 2"), ":1");
    (0..3).for_each(|_| assert_eq!(redis.ask("G.COUNT social 1 knows"), ":1"));
    let (code, out, _) = run(&["top", &admin, "--once", "--interval", "100ms"]);
    let counted = out.lines().find(|line| line.starts_with("count ")).unwrap_or_else(|| panic!("{out}"));
    assert!(counted.ends_with(" 3"), "{counted}");
    for part in ["segments 1 used, ", "live of 256.0 MiB", "compaction debt ", "\ndistance "] {
        assert!(code == 0 && out.contains(part), "{part:?} is not in\n{out}");
    }
}

#[test]
fn top_reports_unreachable_server_and_invalid_arguments_with_a_remedy() {
    let nobody = format!("127.0.0.1:{}", free_port());
    let (code, out, err) = run(&["top", &nobody, "--once"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains(&nobody) && err.contains("listen.admin"), "{err}");
    // A port of clients is named, at once.
    let (serving, _) = server();
    let memcached = serving.lines.iter().find_map(|line| line.split("memcached clients connect to ").nth(1)).unwrap();
    let memcached = memcached.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':')).next().unwrap();
    let (code, _, err) = run(&["top", memcached, "--once"]);
    assert!(code == 1 && err.contains("is a port for memcached clients; pass the server's admin port"), "{err}");
    for (args, part) in [
        (["top", "nowhere", "--once"], "write it as 127.0.0.1:9555"),
        (["top", "--interval", "5"], "write it as 1s or 500ms"),
        (["top", "--interval", "1ms"], "from 100ms to 1h"),
    ] {
        let (code, _, err) = run(&args);
        assert!(code == 2 && err.contains(part), "{args:?}: {err}");
    }
}

/// Opens a new terminal of 100 columns and 40 rows. Returns both ends.
fn terminal() -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    tcsetwinsize(&theirs, Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (ours, theirs)
}

#[test]
fn in_a_terminal_it_draws_until_a_key_ends_it_and_leaves_the_terminal_as_it_was() {
    draw_until(None);
}

#[test]
fn signal_that_ends_it_leaves_the_terminal_as_it_was() {
    draw_until(Some("TERM"));
    draw_until(Some("HUP"));
}

/// Draws in a terminal until a signal, or the key q, ends the program.
fn draw_until(signal: Option<&str>) {
    let (serving, admin) = server();
    let (ours, theirs) = terminal();
    let modes = tcgetattr(&theirs).unwrap().local_modes;
    let side = || Stdio::from(theirs.try_clone().unwrap());
    let mut command = gannet(&["top", &admin, "--interval", "100ms"]);
    let mut child = command.stdin(side()).stdout(side()).stderr(side()).spawn().expect("the program runs");
    let mut screen = File::from(ours);
    let (sender, drawn) = channel();
    let mut reader = screen.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut chunk) {
            let _ = sender.send(chunk[..count].to_vec());
        }
    });
    let end = Instant::now() + PATIENCE;
    let mut seen = String::new();
    let mut wait_for = |text: &str| {
        while !seen.contains(text) {
            let bytes = drawn.recv_timeout(end.saturating_duration_since(Instant::now()));
            seen += &String::from_utf8_lossy(&bytes.unwrap_or_else(|_| panic!("{text:?} is not in {seen:?}")));
        }
        seen.clear();
    };
    // The program switches to the alternate screen, draws the lists at the bottom, and draws them again later.
    wait_for("\x1b[?1049h");
    wait_for("top:key");
    wait_for("top:key");
    screen.write_all(b"?").unwrap();
    wait_for("order by requests/s");
    screen.write_all(b"?s").unwrap();
    wait_for(", by execute p999");
    screen.write_all(b"g").unwrap();
    wait_for("this server has no graph; a client creates one with G.TYPE");
    screen.write_all(b"g").unwrap();
    wait_for("top:key");
    if signal.is_none() {
        // A stopped server does not reply. Its old figures are marked within seconds.
        serving.signal("STOP");
        wait_for("has not replied for 1 s; the server is stopped or overloaded");
        wait_for("the figures below are ");
        serving.signal("CONT");
        wait_for("top:key");
    }
    screen.write_all(b" ").unwrap();
    wait_for("paused: space resumes");
    match signal {
        None => screen.write_all(b"q").unwrap(),
        Some(name) => {
            let sent = std::process::Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
            assert!(sent.expect("kill runs").success());
        }
    }
    wait_for("\x1b[?1049l");
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > end => {
                let _ = child.kill();
                panic!("it does not end");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert!(status.success());
    assert_eq!(tcgetattr(&theirs).unwrap().local_modes, modes, "the terminal is as it was");
}
