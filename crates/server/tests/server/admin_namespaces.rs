//! Tests that the admin port creates, changes and drops namespaces, and writes them to the configuration file.

use crate::common::redis::Replies;
use crate::common::{PATIENCE, config, start};
use command::clients::endpoint::Protocol;
use gannet_server::admin::{Admin, Bound};
use gannet_server::config::file::{Origins, read_file};
use gannet_server::config::{NamespaceSettings, Settings};
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use segment::Namespace;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

struct Fixture {
    running: Running,
    admin: SocketAddr,
    _admin: Admin,
}

fn fixture(config_file: Option<PathBuf>) -> Fixture {
    let any = ListenAddr::Tcp(([127, 0, 0, 1], 0).into());
    let running = start(ServerConfig { config_file, resp: vec![any], ..config() });
    let bound = Bound::bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let admin = bound.addr();
    let settings = Arc::new(Mutex::new((Settings::default(), Origins::new())));
    let _admin = bound.start(Arc::clone(running.shared()), settings).expect("a thread");
    Fixture { running, admin, _admin }
}

impl Fixture {
    /// Sends a request and returns the status and the body of the response.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.admin).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let length = body.len();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head[9..12].parse().expect("a status"), body.to_owned())
    }

    fn redis(&self) -> Replies {
        let addr = self.running.listeners().find_map(|(protocol, addr)| match addr {
            ListenAddr::Tcp(addr) if protocol == Protocol::Resp => Some(*addr),
            _ => None,
        });
        Replies::connect(addr.expect("an address"))
    }
}

fn in_file(path: &Path) -> Vec<NamespaceSettings> {
    let mut settings = Settings::default();
    read_file(path, &mut settings, &mut Origins::new()).expect("a right file");
    settings.namespaces
}

#[test]
fn a_namespace_is_created_changed_and_dropped_while_clients_use_it() {
    let fixture = fixture(None);
    let mut client = fixture.redis();
    assert!(client.ask(&[b"SELECT", b"shop"]).starts_with(b"-ERR"));
    let (status, body) = fixture.ask("PUT", "/namespaces/shop", "memory = \"8MiB\"\nops_max = 1000000\n");
    assert!(status == 200 && body.contains("shop: memory was \"auto\" and is \"8MiB\""), "{body}");
    assert!(body.contains("shop: number was \"auto\" and is 1"), "{body}");
    assert_eq!(client.ask(&[b"SELECT", b"shop"]), b"+OK\r\n");
    client.ask(&[b"SET", b"k", b"v"]);
    let stats = |fixture: &Fixture| fixture.running.shared().store.namespace_stats(Namespace(1));
    let (items, most) = (stats(&fixture).items, stats(&fixture).heap_bytes_max);
    assert!(items == 1 && (7 << 20..=8 << 20).contains(&most), "{most}");
    // Omitted keys remain unchanged.
    let (status, body) = fixture.ask("PUT", "/namespaces/shop", "memory = \"12MiB\"\n");
    assert_eq!((status, body.as_str()), (200, "shop: memory was \"8MiB\" and is \"12MiB\"\n"));
    assert!(stats(&fixture).heap_bytes_max > most);
    let (status, list) = fixture.ask("GET", "/namespaces", "");
    assert!(status == 200 && list.contains("name = \"shop\"") && list.contains("ops_max = 1000000"), "{list}");
    let (_, metrics) = fixture.ask("GET", "/metrics", "");
    for line in ["gannet_namespace_items{namespace=\"shop\"} 1", "gannet_namespace_connections{namespace=\"shop\"} 1"] {
        assert!(metrics.contains(line), "{line}");
    }
    assert!(
        metrics
            .contains("gannet_namespace_request_quantile_seconds{namespace=\"shop\",part=\"wait\",quantile=\"0.99\"}")
    );
    let (status, body) = fixture.ask("DELETE", "/namespaces/shop", "");
    assert_eq!((status, body.as_str()), (200, "shop was deleted; 1 connections are in database 1\n"));
    // Its client remains connected, to an empty database.
    assert_eq!(client.ask(&[b"GET", b"k"]), b"$-1\r\n");
    assert_eq!(client.ask(&[b"SET", b"k", b"again"]), b"+OK\r\n");
    assert!(client.ask(&[b"SELECT", b"shop"]).starts_with(b"-ERR"));
    fixture.running.stop();
}

#[test]
fn invalid_namespace_requests_are_refused_with_a_reason() {
    let fixture = fixture(None);
    for (method, path, body, status, why) in [
        ("PUT", "/namespaces/a%20b", "", 400, "not a valid namespace name"),
        ("PUT", "/namespaces/7", "", 400, "not a valid namespace name"),
        ("PUT", "/namespaces/shop", "memroy = 1\n", 400, "did you mean memory?"),
        ("PUT", "/namespaces/shop", "memory = 5\n", 400, "needs a unit"),
        ("PUT", "/namespaces/shop", "name = \"other\"\n", 400, "cannot be changed"),
        ("PUT", "/namespaces/shop", "memory = \"63MiB\"\n", 409, "more than the other quotas leave"),
        ("PUT", "/namespaces/shop", "memory = \"1MiB\"\n", 409, "too small"),
        ("PUT", "/namespaces/shop", "resp = [\"127.0.0.1:1\"]\n", 409, "need a restart"),
        ("PUT", "/namespaces/shop?keep=true", "memory = \"8MiB\"\n", 409, "without a file"),
        ("PUT", "/namespaces/shop?kep=true", "", 400, "only ?keep=true is allowed"),
        ("PUT", "/config", "[[namespace]]\nname = \"a\"\n", 409, "/namespaces/NAME"),
        ("DELETE", "/namespaces/shop", "", 404, "no such namespace"),
        ("DELETE", "/namespaces/default", "", 409, "cannot be deleted"),
        ("DELETE", "/config", "", 405, "PUT is allowed for"),
    ] {
        let (got, text) = fixture.ask(method, path, body);
        assert!(got == status && text.contains(why), "{method} {path} {body}: {got} {text}");
    }
    assert_eq!(fixture.ask("GET", "/namespaces", ""), (200, String::new()));
    assert_eq!(fixture.running.shared().namespaces.named(), []);
    fixture.running.stop();
}

#[test]
fn persisted_namespaces_are_written_to_the_file_and_other_text_stays() {
    let folder = std::env::temp_dir().join(format!("gannet-namespaces-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (file, target) = (folder.join("gannet.toml"), folder.join("deployed.toml"));
    let text = "# Ours.\n[store]\nmemory = \"64MiB\" # enough\n\n[log]\nlevel = \"warn\"\n";
    std::fs::write(&target, text).expect("a file");
    std::os::unix::fs::symlink(&target, &file).expect("a link");
    let fixture = fixture(Some(file.clone()));
    assert_eq!(fixture.ask("PUT", "/namespaces/cache", "ttl_max = \"1h\"\n").0, 200);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), text, "nobody asked for it");
    let (status, body) = fixture.ask("PUT", "/namespaces/shop?keep=true", "memory = \"8MiB\"\n");
    assert!(status == 200 && body.contains("gannet.toml was written"), "{body}");
    let names: Vec<String> = in_file(&file).into_iter().map(|namespace| namespace.name.0).collect();
    assert_eq!(names, ["cache", "shop"]);
    let written = std::fs::read_to_string(&file).expect("a file");
    assert!(written.starts_with(text.trim_end()) && written.contains("number = 2"), "{written}");
    assert_eq!(fixture.ask("DELETE", "/namespaces/cache?keep=true", "").0, 200);
    assert_eq!(in_file(&file).len(), 1);
    assert_eq!(std::fs::read_link(&file).expect("still a link"), target);
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 2, "no other file is left");
    // A configuration file that has become invalid is not rewritten.
    std::fs::write(&file, "[store]\nmemroy = 1\n").expect("a file");
    let (status, body) = fixture.ask("PUT", "/namespaces/shop?keep=true", "maxconns = 9\n");
    assert!(status == 500 && body.contains("cannot write"), "{body}");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "[store]\nmemroy = 1\n");
    fixture.running.stop();
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}
