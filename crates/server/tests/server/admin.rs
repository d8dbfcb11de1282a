//! Tests of the admin port over real sockets, with well-behaved and misbehaving clients.

use crate::common::redis::{both, resp};
use crate::common::{Client, PATIENCE, config, start, tcp};
use gannet_server::admin::{Admin, Bound};
use gannet_server::config::{Settings, live};
use gannet_server::start::{Running, ServerConfig};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

struct Fixture {
    running: Running,
    admin: SocketAddr,
    _admin: Admin,
}

fn fixture() -> Fixture {
    fixture_of(config())
}

fn fixture_of(mut config: ServerConfig) -> Fixture {
    config.workers = 2;
    config.graph_memory_bytes = 90 << 20;
    let running = start(config);
    let settings = Settings { slow_request: base::units::TimeSpan(1), ..Settings::default() };
    live::apply(&settings, running.shared());
    let bound = Bound::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let admin = bound.addr();
    let settings = Arc::new(Mutex::new((settings, Default::default())));
    let _admin = bound.start(Arc::clone(running.shared()), settings).unwrap();
    Fixture { running, admin, _admin }
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends `bytes` and returns the whole response, up to the end of the stream or a reset.
fn exchange(addr: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(addr);
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        answer.extend_from_slice(&chunk[..count]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Requests a page and returns its status and body.
fn page(addr: SocketAddr, path: &str) -> (u16, String) {
    let answer = exchange(addr, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
    assert_eq!(length.parse(), Ok(body.len()));
    (head[9..12].parse().unwrap(), body.to_owned())
}

/// Returns the value of one series of the metrics page.
fn metric(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is missing")).parse().unwrap()
}

fn use_the_server(running: &Running) {
    let mut client = Client::connect(tcp(running));
    client.ask(b"set k 0 0 5\r\nhello\r\n", b"STORED\r\n");
    for _ in 0..50 {
        client.ask(b"get k\r\n", b"VALUE k 0 5\r\nhello\r\nEND\r\n");
        client.ask(b"get none\r\n", b"END\r\n");
    }
}

#[test]
fn hot_keys_page_lists_a_long_value_and_rejects_unknown_parameters() {
    let fixture = fixture();
    Client::connect(tcp(&fixture.running))
        .ask(&crate::common::set("big:key", &crate::common::pattern(5000)), b"STORED\r\n");
    let (status, text) = page(fixture.admin, "/hotkeys");
    assert!(status == 200 && text.contains("\n          5000  big:key\n"), "{text}");
    let (status, json) = page(fixture.admin, "/hotkeys.json?minutes=1440&count=100");
    assert!(
        status == 200 && json.contains(r#""big":[{"amount":5000,"name":"big:key","namespace":"default"}]"#),
        "{json}"
    );
    assert_eq!(
        page(fixture.admin, "/hotkeys?hours=1"),
        (400, "unknown parameter 'hours'; write minutes=60 or count=20\n".to_owned())
    );
}

#[test]
fn admin_pages_show_client_activity() {
    let fixture = fixture();
    use_the_server(&fixture.running);
    // An operation's times are recorded when its reply was sent, perhaps after the client has read it.
    let begun = Instant::now();
    let metrics = loop {
        let (status, metrics) = page(fixture.admin, "/metrics");
        assert_eq!(status, 200);
        let gets = "gannet_request_seconds_count{command=\"get\",part=\"execute\"} 100\n";
        if metrics.contains(gets) {
            break metrics;
        }
        assert!(begun.elapsed() < PATIENCE, "{metrics}");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(metric(&metrics, "gannet_lookups_total{result=\"hit\"}"), 50.0);
    assert_eq!(metric(&metrics, "gannet_lookups_total{result=\"miss\"}"), 50.0);
    assert_eq!(metric(&metrics, "gannet_hit_ratio"), 0.5);
    assert_eq!(metric(&metrics, "gannet_items"), 1.0);
    assert_eq!(metric(&metrics, "gannet_workers"), 2.0);
    assert_eq!(metric(&metrics, "gannet_request_seconds_bucket{command=\"set\",part=\"wait\",le=\"+Inf\"}"), 1.0);
    let p50 = "gannet_request_quantile_seconds{command=\"get\",part=\"execute\",window=\"minute\",quantile=\"0.5\"}";
    assert!(metric(&metrics, p50) > 0.0);
    let (status, stats) = page(fixture.admin, "/stats.json");
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert_eq!((status, &stats["latency"]["start"]["get"]["execute"]["count"]), (200, &serde_json::json!(100)));
    assert_eq!(stats["figures"]["gannet_lookups_total"]["hit"], 50);
    let slow = stats["slow"].as_array().unwrap();
    assert!(!slow.is_empty(), "with a threshold of 1 ns every request is slow");
    assert!(slow.iter().all(|request| request["client"].as_str().unwrap().starts_with("127.0.0.1:")), "{slow:?}");
    let (_, histograms) = page(fixture.admin, "/histograms.json");
    let histograms: serde_json::Value = serde_json::from_str(&histograms).unwrap();
    let executed = histograms["execute"].as_array().unwrap().iter().map(|pair| pair[1].as_u64().unwrap()).sum::<u64>();
    let counted = stats["latency"]["start"].as_object().unwrap().values();
    assert_eq!(executed, counted.map(|times| times["execute"]["count"].as_u64().unwrap()).sum::<u64>());
    let (_, slow) = page(fixture.admin, "/slow");
    assert!(slow.lines().any(|line| line.contains("  get ") && line.ends_with("  get none")), "{slow}");
    assert!(page(fixture.admin, "/config").1.contains("memory = \"auto\"  # default"));
    fixture.running.stop();
}

/// Sends a PUT and returns the status and body of the response.
fn put(addr: SocketAddr, path: &str, body: &str) -> (u16, String) {
    let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = exchange(addr, format!("{head}{body}").as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head[9..12].parse().unwrap(), body.to_owned())
}

#[test]
fn config_put_applies_all_live_settings_or_none_and_explains_refusals() {
    let fixture = fixture();
    use_the_server(&fixture.running);
    let store = || &fixture.running.shared().store;
    let (status, body) = put(fixture.admin, "/config", "[store]\nmemory = \"128MiB\"\n[limits]\nmaxconns = 7\n");
    assert_eq!((status, store().memory_bytes()), (200, 128 << 20), "{body}");
    assert!(body.contains("store.memory was auto and is 128MiB\n") && body.contains("limits.maxconns"), "{body}");
    crate::common::wait_until("the memory is there", || store().stats().held_bytes > 127 << 20);
    assert_eq!(metric(&page(fixture.admin, "/metrics").1, "gannet_connections_max"), 7.0);
    assert!(page(fixture.admin, "/config").1.contains("memory = \"128MiB\"  # PUT /config:2"));
    for (body, status, said) in [
        ("[store]\nmemory = \"96MiB\"\nsegment = \"1MiB\"\n", 409, "store.segment: auto stays, 1MiB needs a restart"),
        ("[log]\nlevel = \"debug\"\n", 409, "SIGHUP"),
        ("[store]\nmemroy = \"96MiB\"\n", 400, "PUT /config:2: store.memroy: there is no such setting; did you mean"),
        ("[store]\nmemory = 96\n", 400, "store.memory"),
        ("[store]\nmemory = \"60TiB\"\n", 400, "write at most"),
        ("[store]\nmemory = \"16MiB\"\nitem_max = \"1MiB\"\n[limits]\nmaxconns = 0\n", 400, "limits.maxconns"),
    ] {
        let (got, answer) = put(fixture.admin, "/config", body);
        assert!(got == status && answer.contains(said), "{body}: {got} {answer}");
        assert_eq!(store().memory_bytes(), 128 << 20, "{body}");
    }
    assert_eq!(put(fixture.admin, "/metrics", "").0, 405);
    // The setting is changed by a client's command: the page shows the value in force and its origin.
    let mut client = Client::connect(tcp(&fixture.running));
    client.ask(b"cache_memlimit 32\r\n", b"OK\r\n");
    crate::common::wait_until("the memory is small", || store().stats().held_bytes <= 32 << 20);
    assert!(page(fixture.admin, "/config").1.contains("memory = \"32MiB\"  # cache_memlimit"));
    client.ask(b"get k\r\n", b"VALUE k 0 5\r\nhello\r\nEND\r\n");
    fixture.running.stop();
}

#[test]
fn the_page_of_figures_is_current() {
    let fixture = fixture();
    use_the_server(&fixture.running);
    let (_, metrics) = page(fixture.admin, "/metrics");
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/admin.md")).unwrap();
    let has_feature = |row: &&str| row.starts_with("| `gannet_tls_") || row.starts_with("| `gannet_flash_");
    let written: Vec<&str> =
        docs.lines().filter(|line| line.starts_with("| `gannet_")).filter(|row| !has_feature(row)).collect();
    let lines: Vec<&str> = metrics.lines().collect();
    let mut families = 0;
    for (at, line) in lines.iter().enumerate() {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) else { continue };
        let kind = lines[at + 1].rsplit_once(' ').unwrap().1;
        let begin = format!("| `{name}` | {kind} | ");
        let row = written.iter().find(|row| row.starts_with(&begin));
        assert!(row.is_some_and(|row| row.ends_with(&format!(" | {help} |"))), "docs/admin.md: {begin}... | {help} |");
        families += 1;
    }
    assert_eq!(families, written.len(), "docs/admin.md names a figure that is not there");
    fixture.running.stop();
}

#[test]
fn an_unknown_page_lists_the_known_ones_and_health_follows_the_stop() {
    let fixture = fixture();
    let (status, body) = page(fixture.admin, "/metricz");
    assert!(status == 404 && body.contains("/metrics"), "{body}");
    assert_eq!(page(fixture.admin, "/?a=b").0, 200);
    assert_eq!(page(fixture.admin, "/healthz?verbose"), (200, "ok\n".to_owned()));
    fixture.running.shared().request_stop();
    assert_eq!(page(fixture.admin, "/healthz").0, 503);
    fixture.running.stop();
}

#[test]
fn garbage_gets_a_status_or_an_end_and_the_next_scrape_is_served() {
    let fixture = fixture();
    assert!(exchange(fixture.admin, b"set k 0 0 5\r\nhello\r\n").starts_with("HTTP/1.1 400 "));
    assert!(exchange(fixture.admin, b"DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 405 "));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    assert!(exchange(fixture.admin, long.as_bytes()).starts_with("HTTP/1.1 431 "));
    let mut prng = base::prng::Prng::new(9);
    for _ in 0..200 {
        let mut bytes = vec![0; 1 + prng.below(300) as usize];
        prng.fill(&mut bytes);
        bytes.extend_from_slice(b"\r\n\r\n");
        let answer = exchange(fixture.admin, &bytes);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert_eq!(page(fixture.admin, "/healthz").0, 200);
    fixture.running.stop();
}

#[test]
fn unfinished_scrapes_do_not_block_other_scrapes() {
    let fixture = fixture();
    let mut stuck: Vec<TcpStream> = (0..100).map(|_| connect(fixture.admin)).collect();
    for (number, stream) in stuck.iter_mut().enumerate() {
        if number % 2 == 0 {
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ");
        }
    }
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(page(fixture.admin, "/metrics").0, 200);
    }
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    // The last silent connection gets an error, or is dropped, at its deadline.
    let mut last = stuck.pop().unwrap();
    let mut answer = Vec::new();
    let _ = last.read_to_end(&mut answer);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    fixture.running.stop();
}

#[test]
fn graphs_are_counted_while_they_exist_while_their_memory_is_in_use_and_after_their_drop() {
    let fixture = fixture_of(both());
    let redis = &mut resp(&fixture.running);
    let counts = || {
        let page = page(fixture.admin, "/metrics").1;
        ["gannet_graphs", "gannet_graphs_dropping", "gannet_graphs_dropped_total"].map(|name| metric(&page, name))
    };
    assert_eq!(counts(), [0.0, 0.0, 0.0]);
    for name in ["a", "b"] {
        assert_eq!(redis.text(&format!("G.TYPE {name} knows UNDIRECTED")), "+OK");
        assert_eq!(redis.text(&format!("G.ADD {name} 1 knows 2")), ":1");
    }
    assert_eq!(counts(), [2.0, 0.0, 0.0]);
    // The segments stay while a reader may be in them.
    let store = fixture.running.shared().graphs.store().expect("memory for graphs").clone();
    let mut reader = store.reader().expect("more readers than workers");
    let guard = reader.enter();
    assert_eq!(redis.text("G.DROP a"), ":1");
    assert_eq!(counts(), [1.0, 1.0, 1.0]);
    drop(guard);
    crate::common::wait_until("the memory of the graph is free", || counts() == [1.0, 0.0, 1.0]);
}

/// An open segment is mostly unwritten, which compaction cannot free.
#[test]
fn compaction_debt_of_graphs_counts_no_unwritten_room() {
    let fixture = fixture_of(both());
    let redis = &mut resp(&fixture.running);
    assert_eq!(redis.text("G.TYPE g knows UNDIRECTED"), "+OK");
    let mut change = |command: &str, targets: std::ops::Range<u64>| {
        for from in targets.step_by(500) {
            let edges: String = (from..from + 500).map(|target| format!(" 1 knows {target}")).collect();
            assert_eq!(redis.text(&format!("{command} g{edges}")), ":500");
        }
    };
    let debt = || metric(&page(fixture.admin, "/metrics").1, "gannet_graph_compaction_debt_bytes");
    change("G.ADD", 1000..2000);
    let first = debt();
    assert!(first < 1_048_576.0, "{first} bytes");
    change("G.ADD", 2000..12_000);
    change("G.DEL", 2000..12_000);
    let last = debt();
    assert!(last > first + 262_144.0, "{first} bytes became {last} when 10,000 edges were removed");
}
