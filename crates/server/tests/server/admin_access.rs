//! Tests who may use the admin port: hosts, origins and users of requests, over real sockets.

use crate::common::redis::Replies;
use crate::common::{PATIENCE, config, start};
use base64::prelude::{BASE64_STANDARD, Engine};
use command::clients::endpoint::Protocol;
use gannet_server::admin::{Admin, Bound};
use gannet_server::config::Settings;
use gannet_server::config::kinds::HostNames;
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
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

fn resp_addr(running: &Running) -> SocketAddr {
    let addr = running.listeners().find_map(|(protocol, addr)| match addr {
        ListenAddr::Tcp(addr) if protocol == Protocol::Resp => Some(*addr),
        _ => None,
    });
    addr.expect("an address")
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

/// Returns the headers of a request by the user `pair`, a name and a password with a colon between them.
fn by(pair: &str) -> Vec<String> {
    vec!["Host: localhost".to_owned(), format!("Authorization: Basic {}", BASE64_STANDARD.encode(pair))]
}

/// Sends a harmless change, and returns the status of the response.
/// Returns the status of a change, once no delay after failed attempts refuses it.
fn change(fixture: &Fixture, headers: &[String]) -> u16 {
    loop {
        match change_at_once(fixture, headers) {
            429 => std::thread::sleep(std::time::Duration::from_millis(5)),
            status => return status,
        }
    }
}

fn change_at_once(fixture: &Fixture, headers: &[String]) -> u16 {
    let answer = ask(fixture.admin, "PUT /config HTTP/1.1", headers, "[limits]\nmaxconns = 7\n");
    let challenge = "WWW-Authenticate: Basic realm=\"gannet\", charset=\"UTF-8\"";
    assert_eq!(answer.head.lines().any(|line| line == challenge), answer.status == 401, "{}", answer.head);
    assert!(answer.body.lines().count() <= 1, "{}", answer.body);
    answer.status
}

/// A file that is removed at the end of a test.
struct OwnFile(PathBuf);

impl OwnFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gannet-admin-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("a writable folder");
        Self(path)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn changes_need_a_user_of_the_password_file() {
    let users = OwnFile::new("users", "alice:open:sesame\n");
    let fixture = fixture(ServerConfig { auth_file: Some(users.0.clone()), ..config() }, "127.0.0.1");
    assert_eq!(ask(fixture.admin, "GET /config HTTP/1.1", &host("localhost"), "").status, 200);
    assert_eq!(change(&fixture, &host("localhost")), 401);
    for pair in ["alice:", "alice:open", "alice:open:sesam", "alice:open:sesame1", "Alice:open:sesame", "default:", ":"]
    {
        assert_eq!(change(&fixture, &by(pair)), 401, "{pair}");
    }
    let malformed = [host("localhost"), vec!["Authorization: Basic !".to_owned()]].concat();
    assert_eq!(change(&fixture, &malformed), 401);
    let deleted = ask(fixture.admin, "DELETE /namespaces/a HTTP/1.1", &host("localhost"), "");
    assert_eq!(deleted.status, 401);
    let put = ask(fixture.admin, "PUT /namespaces/a HTTP/1.1", &host("localhost"), "");
    assert_eq!(put.status, 401);
    assert!(!ask(fixture.admin, "GET /namespaces HTTP/1.1", &host("localhost"), "").body.contains("\"a\""));
    // A user is no reason to serve another host, or a web page.
    assert_eq!(change(&fixture, &[by("alice:open:sesame"), vec!["Origin: http://localhost".to_owned()]].concat()), 403);
    assert_eq!(change(&fixture, &by("alice:open:sesame")), 200);
    std::fs::write(&users.0, "bob:other\n").expect("the file");
    fixture.running.shared().reload_users();
    assert_eq!((change(&fixture, &by("alice:open:sesame")), change(&fixture, &by("bob:other"))), (401, 200));
    fixture.running.stop();
}

#[test]
fn failed_attempts_at_the_admin_port_refuse_further_ones_for_a_time_that_grows() {
    let users = OwnFile::new("guesses", "alice:sesame\n");
    let fixture = fixture(ServerConfig { auth_file: Some(users.0.clone()), ..config() }, "127.0.0.1");
    let begun = std::time::Instant::now();
    let checked = || {
        let statuses = (0..200).map(|_| change_at_once(&fixture, &by("alice:x")));
        statuses.filter(|status| *status == 401).count()
    };
    let count = checked();
    // Three are free. The delays of 10, 20, 40 ... ms double, so that t ms have at most log2(t / 10) + 1 attempts.
    let most = 3 + (begun.elapsed().as_millis() / 10 + 1).ilog2() as usize + 1;
    assert!((3..=most).contains(&count), "{count} of at most {most}");
    assert_eq!(change(&fixture, &by("alice:sesame")), 200);
    assert_eq!(change_at_once(&fixture, &by("alice:x")), 401, "a success ends the delay");
    fixture.running.stop();
}

#[test]
fn changes_need_a_redis_user_with_the_rights_of_an_administrator() {
    let users = OwnFile::new(
        "acl",
        "user root on >r ~* &* +@all\nuser keeper on >k +@admin\nuser reader on >x ~* +@read\n\
         user slow on $argon2id$v=19$m=64,t=2,p=1$c29tZXNhbHQxNmJ5dGVzMQ\
         $fmqzTU8anUjeUd3fJkFlBcz3+I+1KyWI0vFU6SaH96k +@all\n\
         user gone off >g ~* &* +@all\nuser shop on >s ~* +@all ns=shop\nuser part on >p ~* +@all -config|set\n",
    );
    let fixture = fixture(ServerConfig { acl_file: Some(users.0.clone()), ..config() }, "127.0.0.1");
    for (pair, status) in [
        ("root:r", 200),
        ("keeper:k", 200),
        ("reader:x", 403),
        ("shop:s", 403),
        ("part:p", 403),
        ("gone:g", 401),
        ("root:x", 401),
        ("slow:wrong", 401),
        ("slow:right", 200),
        ("root:", 401),
        ("nobody:r", 401),
        // The default user has no password here, so anyone could name it.
        ("default:", 401),
        ("default:x", 401),
    ] {
        assert_eq!(change(&fixture, &by(pair)), status, "{pair}");
    }
    assert_eq!(change(&fixture, &host("localhost")), 401);
    fixture.running.stop();
}

#[test]
fn changes_need_a_user_from_the_moment_there_is_one() {
    let any = ListenAddr::Tcp(([127, 0, 0, 1], 0).into());
    let fixture = fixture(ServerConfig { resp: vec![any], ..config() }, "127.0.0.1");
    let mut client = Replies::connect(resp_addr(&fixture.running));
    assert_eq!(change(&fixture, &host("localhost")), 200);
    assert_eq!(client.ask(&[b"CONFIG", b"SET", b"requirepass", b"secret"]), b"+OK\r\n");
    assert_eq!((change(&fixture, &host("localhost")), change(&fixture, &by("default:secret"))), (401, 200));
    assert_eq!(client.ask(&[b"AUTH", b"secret"]), b"+OK\r\n");
    assert_eq!(client.ask(&[b"CONFIG", b"SET", b"requirepass", b""]), b"+OK\r\n");
    assert_eq!(change(&fixture, &host("localhost")), 200);
    // A default user that may not do everything shows that not every client is an operator.
    assert_eq!(client.ask(&[b"ACL", b"SETUSER", b"default", b"-flushall"]), b"+OK\r\n");
    assert_eq!(change(&fixture, &host("localhost")), 401);
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
