//! Tests of `gannet serve` with TLS: what it logs about clients and files that do not fit, and what its own tools say.

use crate::common::{Serving, ask, connect, page, run};
use crate::load_tls::certified;
use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

/// Waits until the server may log another event of a connection: it logs one a second.
fn pause() {
    std::thread::sleep(Duration::from_millis(1100));
}

fn start(args: &[&str]) -> (Serving, [SocketAddr; 3]) {
    let listeners = ["--memcached", "tls:127.0.0.1:0", "--resp", "tls:127.0.0.1:0", "--admin", "tls:127.0.0.1:0"];
    let mut serving = Serving::start(&[&listeners[..], &["--memory", "64MiB"], args].concat());
    let memcached = serving.addr_behind("memcached clients connect to ");
    let resp = serving.addr_behind("Redis clients connect to ");
    let admin = serving.addr_behind("metrics are at https://");
    (serving, [memcached, resp, admin])
}

#[test]
fn each_mistake_of_a_client_has_a_line_with_the_remedy() {
    let folder = certified("mistakes");
    let [ca, server, key, own, own_key] =
        ["ca.pem", "server.pem", "server.key", "client.pem", "client.key"].map(|name| folder.file(name));
    let files = ["--tls-cert", &server, "--tls-key", &key, "--tls-client-ca", &ca];
    let users = ["--tls-client-auth", "optional", "--tls-user-from", "cn"];
    let (mut serving, [memcached, resp, admin]) = start(&[&files[..], &users[..]].concat());
    // The tools name the missing flag, and the generator sends no request.
    for (protocol, addr) in [("memcache", memcached), ("resp", resp)] {
        let target = addr.to_string();
        let (code, _, err) =
            run(&["load", "--target", &target, "--protocol", protocol, "--rate", "100", "--duration", "1s"]);
        assert!(code != 0 && err.contains("this port uses TLS; pass --tls-ca FILE"), "{err}");
        assert!(!err.contains("prefill"), "{err}");
    }
    let (code, _, err) = run(&["top", &admin.to_string(), "--once"]);
    assert!(code != 0 && err.contains("uses TLS; pass --tls-ca FILE"), "{err}");
    // The hello of a client of TLS 1.1, without extensions.
    pause();
    let hello = [&[22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 2][..], &[7; 32], &[0, 0, 2, 0xc0, 9, 1, 0]].concat();
    let mut old = connect(resp);
    std::io::Write::write_all(&mut old, &hello).expect("sent");
    old.read_to_end(&mut Vec::new()).expect("an alert and the end");
    let line = serving.wait_for("it supports none of the allowed versions; see tls.versions");
    assert!(line.contains("the TLS handshake of 127.0.0.1:"), "{line}");
    // The lines that were left out are counted by their kinds: a busy machine may log some of these.
    pause();
    for _ in 0..20 {
        ask(&mut connect(resp), b"PING\r\n", b"-ERR this port uses TLS; connect with TLS, or to a port without it\r\n");
    }
    pause();
    let target = resp.to_string();
    let certificate = ["--tls-ca", &ca, "--tls-cert", &own, "--tls-key", &own_key];
    let short = ["--connections", "1", "--rate", "100", "--duration", "200ms", "--warm-up", "0s", "--no-prefill"];
    let load = [&["load", "--target", &target, "--protocol", "resp"], &certificate[..], &short[..]].concat();
    run(&load);
    let line = serving.wait_for("which is no enabled user; add the user");
    assert!(line.contains("names [\"client\"]") && line.contains(" not_tls"), "{line}");
}

/// The figures of TLS and flash exist only in a server that uses them; the server's own tests check all others.
#[test]
fn the_page_of_figures_lists_those_of_tls_and_flash() {
    let folder = certified("figures");
    let (cert, key) = (folder.file("server.pem"), folder.file("server.key"));
    let flash = format!("{}:48MiB", folder.file("flash"));
    let listeners = ["--memcached", "127.0.0.1:0", "--resp", "tls:127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let options = ["--memory", "16MiB", "--flash", &flash, "--tls-cert", &cert, "--tls-key", &key];
    let mut serving = Serving::start(&[&listeners[..], &options].concat());
    let metrics = page(serving.addr_behind("metrics are at http://"), "/metrics");
    let docs = include_str!("../../../../docs/admin.md");
    let mut written: Vec<&str> = docs.lines().filter(|line| line.starts_with("| `gannet_")).collect();
    let lines: Vec<&str> = metrics.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) else { continue };
        let kind = lines[at + 1].rsplit_once(' ').expect("a line with the type").1;
        let (begin, end) = (format!("| `{name}` | {kind} | "), format!(" | {help} |"));
        let row = written.iter().position(|row| row.starts_with(&begin) && row.ends_with(&end));
        written.swap_remove(row.unwrap_or_else(|| panic!("docs/admin.md lacks: {begin}...{end}")));
    }
    assert!(written.is_empty(), "docs/admin.md names figures that do not exist: {written:?}");
}

#[test]
fn reload_with_a_broken_certificate_changes_all_but_tls_and_says_so() {
    let folder = certified("reload");
    let config = |key: &str, maxconns: u32| {
        let (cert, key) = (folder.file("server.pem"), folder.file(key));
        let listen = "[listen]\nmemcached = \"tls:127.0.0.1:0\"\nadmin = \"none\"\n[store]\nmemory = \"64MiB\"\n";
        let text = format!("{listen}[tls]\ncert = {cert:?}\nkey = {key:?}\n[limits]\nmaxconns = {maxconns}\n");
        folder.written("gannet.toml", &text)
    };
    let mut serving = Serving::start(&[&config("server.key", 500)]);
    config("client.key", 400);
    serving.signal("HUP");
    serving.wait_for("the earlier certificates stay in use: tls.key: the key in ");
    serving.wait_for("limits.maxconns: changed from 500 to 400");
    serving.wait_for("reloaded, except for [tls], whose earlier settings and certificates stay in use");
    assert!(!serving.lines.iter().any(|line| line.contains("tls.key: changed")), "{:#?}", serving.lines);
    config("server.key", 300);
    serving.signal("HUP");
    serving.wait_for("limits.maxconns: changed from 400 to 300");
    serving.wait_for("gannet::serve: reloaded");
    assert!(!serving.lines.last().unwrap().contains("except"));
}
