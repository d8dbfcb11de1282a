//! A server as a process: it serves, reloads and stops.

use crate::common::{Serving, TempFile, ask, connect, page};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const SMALL: [&str; 8] =
    ["--memory", "64MiB", "--workers", "2", "--memcached", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

#[test]
fn it_says_where_it_listens_and_serves_there() {
    let socket = std::env::temp_dir().join(format!("gannet-{}-serves.sock", std::process::id()));
    let unix = format!("unix:{}", socket.display());
    let mut serving = Serving::start(&[&SMALL[..], &["--memcached", &unix]].concat());
    let addr = serving.addr_behind("memcached clients connect to ");
    let line = serving.wait_for("memcached clients connect to unix:");
    assert!(line.contains(&unix), "{line}");
    let admin = serving.addr_behind("metrics are at http://");
    ask(&mut connect(addr), b"set k 0 0 5\r\nhello\r\nget k\r\n", b"STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\n");
    ask(&mut UnixStream::connect(&socket).unwrap(), b"get k\r\n", b"VALUE k 0 5\r\nhello\r\nEND\r\n");
    assert!(page(admin, "/metrics").contains("gannet_lookups_total{result=\"hit\"} 2\n"));
    let config = page(admin, "/config");
    assert!(
        config.contains("memory = \"64MiB\"  # --memory") && config.contains("workers = 2  # --workers"),
        "{config}"
    );
    serving.signal("TERM");
    assert!(serving.ended().success());
    assert!(!socket.exists(), "the socket's file is removed");
}

#[test]
fn what_was_had_of_huge_pages_is_said_without_an_admin_port_too() {
    let mut serving = Serving::start(&[&SMALL[..6], &["--admin", "none"]].concat());
    let addr = serving.addr_behind("memcached clients connect to ");
    let line = serving.wait_for("huge pages ");
    let had = line.contains("huge pages stand behind ");
    assert!(had != line.contains("none were had"), "{line}");
    // The same is told to a client as soon as the thread that found it out has published it.
    let told = |text: &str| -> bool {
        let mut stream = connect(addr);
        stream.write_all(b"stats\r\nquit\r\n").unwrap();
        let mut stats = String::new();
        stream.read_to_string(&mut stats).unwrap();
        assert!(stats.contains("STAT huge_pages_asked yes\r\n"), "{stats}");
        stats.contains(text)
    };
    let begun = std::time::Instant::now();
    while told("STAT huge_page_bytes 0\r\n") == had {
        assert!(begun.elapsed() < crate::common::PATIENCE, "{line}");
    }
}

#[test]
fn the_line_to_try_works_in_a_shell() {
    let mut serving = Serving::start(&SMALL);
    let line = serving.wait_for("; try: ");
    let command = line.split("; try: ").nth(1).unwrap();
    let output = std::process::Command::new("bash").args(["-c", command]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\n");
}

#[test]
fn term_and_int_end_it_and_close_its_connections() {
    for signal in ["TERM", "INT"] {
        let mut serving = Serving::start(&SMALL);
        let addr = serving.addr_behind("memcached clients connect to ");
        let mut client = connect(addr);
        ask(&mut client, b"get k\r\n", b"END\r\n");
        serving.signal(signal);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
        assert_eq!(serving.ended().code(), Some(0), "{signal}");
        serving.wait_for("stopped");
    }
}

#[test]
fn a_reload_takes_what_is_live_and_names_what_is_not() {
    let file = TempFile::new("reload.toml", "[log]\nlevel = \"info\"\n[limits]\nidle_timeout = \"0s\"\n");
    let mut serving = Serving::start(&[&[file.path()], &SMALL[..]].concat());
    let addr = serving.addr_behind("memcached clients connect to ");
    let admin = serving.addr_behind("metrics are at http://");
    let mut client = connect(addr);
    ask(&mut client, b"get k\r\n", b"END\r\n");
    std::fs::write(&file.0, "[log]\nlevel = \"warn\"\n[limits]\nidle_timeout = \"1s\"\n[commands]\nshutdown = true\n")
        .unwrap();
    serving.signal("HUP");
    let line = serving.wait_for("commands.shutdown");
    assert!(line.contains("WARN") && line.contains("needs a restart"), "{line}");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "the idle connection was closed by the new timeout");
    let config = page(admin, "/config");
    assert!(config.contains("idle_timeout = \"1s\"  # ") && config.contains("shutdown = false  # default"), "{config}");
    std::fs::write(&file.0, "[log]\nlevel = \"loud\"\n[limits]\nidle_timeout = \"9s\"\n").unwrap();
    serving.signal("HUP");
    let line = serving.wait_for("reload: ");
    assert!(line.contains("reload.toml:2: log.level"), "{line}");
    serving.wait_for("nothing was reloaded");
    assert!(page(admin, "/config").contains("idle_timeout = \"1s\""));
    serving.signal("TERM");
    assert!(serving.ended().success());
}
