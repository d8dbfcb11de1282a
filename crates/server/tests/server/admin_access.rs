//! Tests who may use the admin port: hosts, origins and users of requests, over real sockets.

use crate::common::{PATIENCE, config, start};
use gannet_server::admin::{Admin, Bound};
use gannet_server::config::Settings;
use gannet_server::config::kinds::HostNames;
use gannet_server::start::{Running, ServerConfig};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

struct Fixture {
    running: Running,
    admin: SocketAddr,
    _admin: Admin,
}

/// Starts a server, and its admin port at `ip`.
fn fixture(config: ServerConfig, ip: &str) -> Fixture {
    let running = start(config);
    let bound = Bound::bind(SocketAddr::new(ip.parse().expect("an address"), 0)).expect("a port");
    let admin = bound.addr();
    let settings = Settings { admin_hosts: HostNames(vec!["cache1.example".to_owned()]), ..Settings::default() };
    let _admin = bound
        .start(Arc::clone(running.shared()), Arc::new(Mutex::new((settings, Default::default()))))
        .expect("a thread");
    Fixture { running, admin, _admin }
}

/// A response: its status, its head and its body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// Sends a request that begins with `line` and has `headers`, and returns the response.
fn ask(addr: SocketAddr, line: &str, headers: &[String], body: &str) -> Answer {
    let mut stream = TcpStream::connect(addr).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let request = format!("{line}\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    Answer { status: head[9..12].parse().expect("a status"), head: head.to_owned(), body: body.to_owned() }
}

fn host(name: impl std::fmt::Display) -> Vec<String> {
    vec![format!("Host: {name}")]
}

#[test]
fn page_whose_name_resolves_to_this_host_is_refused() {
    let fixture = fixture(config(), "127.0.0.1");
    let (addr, port) = (fixture.admin, fixture.admin.port());
    for name in [addr.to_string(), format!("localhost:{port}"), format!("Cache1.example:{port}"), "[::1]".to_owned()] {
        assert_eq!(ask(addr, "GET /healthz HTTP/1.1", &host(&name), "").status, 200, "{name}");
    }
    for line in
        ["GET /config HTTP/1.1", "GET /config HTTP/1.0", "PUT /config HTTP/1.1", "DELETE /namespaces/a HTTP/1.1"]
    {
        let refused = ask(addr, line, &host(format_args!("evil.example:{port}")), "[limits]\nmaxconns = 7\n");
        assert!(refused.status == 421 && refused.body.contains("listen.admin_hosts"), "{line}: {}", refused.body);
        assert_eq!(refused.body.lines().count(), 1);
    }
    // The names may be changed while the server runs.
    let text = "[listen]\nadmin_hosts = [\"cache2.example\"]\n";
    let changed = ask(addr, "PUT /config HTTP/1.1", &host("cache1.example"), text);
    assert_eq!(changed.status, 200, "{}", changed.body);
    for (name, status) in [("cache1.example", 421), ("cache2.example", 200)] {
        assert_eq!(ask(addr, "GET / HTTP/1.1", &host(name), "").status, status, "{name}");
    }
    fixture.running.stop();
}

#[test]
fn host_is_required_from_http_1_1_on() {
    let fixture = fixture(config(), "127.0.0.1");
    for (line, headers, status) in [
        ("GET /healthz HTTP/1.1", vec![], 400),
        ("GET /healthz HTTP/1.0", vec![], 200),
        ("GET /healthz HTTP/1.1", [host("localhost"), host("localhost")].concat(), 400),
        ("GET /healthz HTTP/1.1", host("a b"), 400),
    ] {
        assert_eq!(ask(fixture.admin, line, &headers, "").status, status, "{line} {headers:?}");
    }
    fixture.running.stop();
}

#[test]
fn web_page_of_another_origin_reads_and_changes_nothing() {
    let fixture = fixture(config(), "127.0.0.1");
    let from = |origin: &str| [host(fixture.admin), vec![format!("Origin: {origin}")]].concat();
    let own = format!("http://{}", fixture.admin);
    for origin in ["http://evil.example", "https://127.0.0.1", "null"] {
        for line in ["GET /config HTTP/1.1", "HEAD / HTTP/1.1", "PUT /config HTTP/1.1", "DELETE /namespaces/a HTTP/1.1"]
        {
            let refused = ask(fixture.admin, line, &from(origin), "[limits]\nmaxconns = 7\n");
            assert!(refused.status == 403 && refused.body.starts_with("web pages "), "{line} {origin}");
        }
    }
    assert_eq!(ask(fixture.admin, "GET /config HTTP/1.1", &from(&own), "").status, 200);
    assert_eq!(ask(fixture.admin, "PUT /config HTTP/1.1", &from(&own), "[limits]\nmaxconns = 7\n").status, 403);
    let config = ask(fixture.admin, "GET /config HTTP/1.1", &host(fixture.admin), "");
    assert!(config.body.contains("maxconns = \"auto\""), "{}", config.body);
    fixture.running.stop();
}

#[test]
fn every_response_forbids_a_browser_to_run_frame_or_guess_it() {
    let fixture = fixture(config(), "127.0.0.1");
    for (line, status) in [
        ("GET / HTTP/1.1", 200),
        ("HEAD /metrics HTTP/1.1", 200),
        ("GET /stats.json HTTP/1.1", 200),
        ("GET /none HTTP/1.1", 404),
        ("POST / HTTP/1.1", 405),
        ("nonsense", 400),
    ] {
        let answer = ask(fixture.admin, line, &host(fixture.admin), "");
        assert_eq!(answer.status, status, "{line}");
        for header in [
            "Content-Security-Policy: default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            "X-Frame-Options: DENY",
            "X-Content-Type-Options: nosniff",
            "Referrer-Policy: no-referrer",
            "Cache-Control: no-store",
        ] {
            assert!(answer.head.lines().any(|line| line == header), "{line}: {header}: {}", answer.head);
        }
        // The policy is enough for pages of these types, which load nothing.
        let content = answer.head.lines().find_map(|line| line.strip_prefix("Content-Type: ")).expect("a type");
        assert!(content.starts_with("text/plain") || content == "application/json", "{line}: {content}");
    }
    fixture.running.stop();
}

#[test]
fn loopback_peer_with_a_mapped_address_may_change_settings() {
    let fixture = fixture(config(), "::ffff:127.0.0.1");
    let changed = ask(fixture.admin, "PUT /config HTTP/1.1", &host(fixture.admin), "[limits]\nmaxconns = 7\n");
    assert_eq!(changed.status, 200, "{}", changed.body);
    fixture.running.stop();
}

#[test]
fn other_hosts_may_read_but_change_nothing() {
    let Some(ip) = crate::clients::other_address() else {
        println!("this machine has no address but loopback: not tried");
        return;
    };
    let fixture = fixture(config(), &ip.to_string());
    assert_eq!(ask(fixture.admin, "GET /healthz HTTP/1.1", &host(fixture.admin), "").status, 200);
    for line in ["PUT /config HTTP/1.1", "PUT /namespaces/a HTTP/1.1", "DELETE /namespaces/a HTTP/1.1"] {
        let refused = ask(fixture.admin, line, &host(fixture.admin), "[limits]\nmaxconns = 7\n");
        assert!(refused.status == 403 && refused.body.contains("only this machine"), "{line}: {}", refused.body);
    }
    fixture.running.stop();
}
