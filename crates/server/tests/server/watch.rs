//! Tests of watchers over real sockets: comparison of their lines with those of Debian's memcached, and the end of
//! their connections.

use crate::common::memcached::Memcached;
use crate::common::{Client, PATIENCE, config, pattern, set, start, tcp, value, wait_until};
use command::push::watch::WATCHERS_MAX;
use gannet_server::start::{Running, ServerConfig};
use std::io::{BufRead, BufReader, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The connection of a watcher.
struct Watcher {
    lines: BufReader<TcpStream>,
}

impl Watcher {
    fn connect(addr: SocketAddr, what: &str) -> Self {
        let mut client = Client::connect(addr);
        client.ask(format!("watch {what}\r\n").as_bytes(), b"OK\r\n");
        Self { lines: BufReader::new(client.stream) }
    }

    /// Returns the fields of the next line, in order.
    fn next(&mut self) -> Vec<(String, String)> {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line in time");
        let text = line.strip_suffix('\n').expect("a whole line");
        assert!(!text.ends_with('\r'), "{text:?}");
        let field = |word: &str| {
            let (name, value) = word.split_once('=').expect("name=value");
            (name.to_owned(), value.to_owned())
        };
        text.split(' ').map(field).collect()
    }

    /// Returns all lines before the lookup of `key`, which is reported too.
    fn until(&mut self, key: &str) -> Vec<Vec<(String, String)>> {
        let mut lines = Vec::new();
        loop {
            let line = self.next();
            if field(&line, "key") == key {
                return lines;
            }
            lines.push(line);
        }
    }
}

fn field<'l>(line: &'l [(String, String)], name: &str) -> &'l str {
    line.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
}

fn watchers(running: &Running) -> u64 {
    running.shared().watch.watchers()
}

/// Returns the commands that both servers get. Intended differences (docs/protocol/memcache.md) are not among them.
fn script() -> Vec<Vec<u8>> {
    let text = [
        "get a\r\n",
        "set a 0 0 5\r\nhello\r\n",
        "get a\r\n",
        "gets a b\r\n",
        "get b a b\r\nget a\r\n",
        "set a 0 100 5\r\nhello\r\n",
        "set a 0 2000000000 6 noreply\r\nhello!\r\n",
        "touch a 100\r\ntouch zz 100\r\n",
        "gat 100 a zz\r\ngats 0 a\r\n",
        "add a 0 0 1\r\nx\r\nadd b 0 60 1\r\n5\r\n",
        "replace b 0 0 2\r\n55\r\nreplace zz 0 0 1\r\n5\r\n",
        "append zz 0 0 1\r\nz\r\nappend a 0 0 1\r\nz\r\nprepend a 0 0 2\r\nzz\r\n",
        "cas a 0 0 1 18446744073709551000\r\nz\r\ncas zz 0 0 1 1\r\nz\r\n",
        "incr b 1\r\ndecr b 1\r\nincr b 99\r\nincr zz 1\r\nincr a 1\r\n",
        "delete a\r\ndelete a\r\n",
        "mg b v\r\nmg b\r\nmg zz v\r\nmg zz k O1 q\r\n",
        "mg n v N30\r\nmg n v T30\r\nmg n k q u\r\n",
        "ms c 2 T90\r\nxx\r\nms c 2 ME\r\nxx\r\nms c 2 MA\r\nxx\r\nms c 2 MP\r\nxx\r\nms c 2 MR q\r\nxx\r\n",
        "ms c 2 C18446744073709551000\r\nxx\r\nms c 2 MR C18446744073709551000\r\nxx\r\nms zz 2 MA\r\nxx\r\n",
        "ma b\r\nma zz\r\nma c\r\n",
        "md c I T30\r\nmg c v\r\nmd c\r\nmd c\r\nmd c q\r\n",
        "me b\r\nme zz\r\nmn\r\nversion\r\nnonsense\r\n",
        "ms AAECAw== 2 b\r\nxx\r\nmg AAECAw== b v\r\n",
        "set k%/\u{e9}:~-_.\"+ 0 0 1\r\nx\r\nget k%/\u{e9}:~-_.\"+\r\n",
    ];
    let mut script: Vec<Vec<u8>> = text.iter().map(|text| text.as_bytes().to_vec()).collect();
    for (key, len) in [("mid", 20_000), ("big", 600_000)] {
        script.push(set(key, &pattern(len)));
        script.push(format!("get {key} none {key}\r\nget {key}\r\nmg {key} v\r\ngat 10 {key}\r\n").into_bytes());
        script.push(format!("delete {key}\r\n").into_bytes());
    }
    script.push(set(&"l".repeat(250), b"1"));
    script.push(set("large", &pattern(3_000_000)));
    script
}

/// Returns the lines that a watcher of the server at `addr` gets for the script.
fn replied(addr: SocketAddr) -> Vec<Vec<(String, String)>> {
    let mut watcher = Watcher::connect(addr, "fetchers mutations evictions");
    let mut client = Client::connect(addr);
    let mut lines = Vec::new();
    for (number, request) in script().iter().enumerate() {
        // Both servers drop lines under load, so each step is completed before the next.
        let mark = format!("mark{number}");
        client.send(request);
        client.send(format!("get {mark}\r\nmg mark k Oend{number}\r\n").as_bytes());
        let end = format!("EN kmark Oend{number}\r\n");
        let mut reply = Vec::new();
        let mut part = vec![0; 64 << 10];
        while !reply.ends_with(end.as_bytes()) {
            let read = client.stream.read(&mut part).expect("an answer in time");
            assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&reply));
            reply.extend_from_slice(&part[..read]);
        }
        lines.extend(watcher.until(&mark));
        assert_eq!(field(&watcher.next(), "key"), "mark");
    }
    lines
}

#[test]
fn watch_lines_match_memcached_field_by_field() {
    let memcached = Memcached::start(64);
    let running = start(config());
    let (theirs, ours) = (replied(memcached.addr), replied(tcp(&running)));
    let (mut gets, mut stores) = (0, 0);
    for number in 0..theirs.len().max(ours.len()) {
        let (Some(theirs), Some(ours)) = (theirs.get(number), ours.get(number)) else {
            panic!("line {number}\nmemcached: {:?}\nours:      {:?}", theirs.get(number), ours.get(number));
        };
        let names = |line: &[(String, String)]| line.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(ours), names(theirs), "line {number}");
        for ((name, our_value), (_, their_value)) in ours.iter().zip(theirs) {
            let equal = match name.as_str() {
                "ts" => our_value.split('.').map(str::len).eq([10, 6]),
                "gid" => our_value.parse::<u64>().is_ok(),
                // memcached reports neither for a value that is too large: it has other contents in these fields.
                "cfd" | "clsid" if field(theirs, "status") == "too_large" => true,
                "cfd" => our_value.parse::<u64>().is_ok(),
                "clsid" => field(ours, "status") != "found" || our_value.parse::<u8>().is_ok(),
                "ttl" => {
                    let (ours, theirs) = (our_value.parse::<i64>().unwrap(), their_value.parse::<i64>().unwrap());
                    (ours == 0) == (theirs == 0) && (ours - theirs).abs() <= 2
                }
                _ => our_value == their_value,
            };
            assert!(equal, "line {number}, {name}\nmemcached: {theirs:?}\nours:      {ours:?}");
        }
        match field(ours, "type") {
            "item_get" => gets += 1,
            "item_store" => stores += 1,
            other => panic!("{other}"),
        }
    }
    assert!(gets >= 70 && stores >= 25, "{gets} lookups and {stores} stores");
    let gids: Vec<u64> = ours.iter().map(|line| field(line, "gid").parse().unwrap()).collect();
    assert!(gids.is_sorted_by(|a, b| a < b), "the numbers of one connection's lines do not rise");
    running.stop();
}

/// Returns the lines about connections that a watcher of the server at `addr` gets, and the numbers that `stats conns`
/// lists for the clients.
fn connection_lines(addr: SocketAddr) -> Vec<Vec<(String, String)>> {
    let mut watcher = Watcher::connect(addr, "connevents fetchers");
    let mut lines = Vec::new();
    for end in ["close", "quit", "idle"] {
        let mut client = Client::connect(addr);
        let port = client.stream.local_addr().unwrap().port().to_string();
        client.ask(b"get a\r\n", b"END\r\n");
        // The connection that has waited for memcached's start may be reported late. Lookups have no port.
        let mut next = || {
            loop {
                let line = watcher.next();
                if ["", port.as_str()].contains(&field(&line, "rport")) {
                    return line;
                }
            }
        };
        let opened = next();
        assert_eq!((field(&opened, "type"), field(&opened, "rport")), ("conn_new", port.as_str()));
        let lookup = next();
        assert_eq!(field(&lookup, "cfd"), field(&opened, "cfd"), "a connection has one number");
        match end {
            "quit" => client.send(b"quit\r\n"),
            "idle" => client.expect_end(),
            _ => {}
        }
        drop(client);
        let closed = next();
        lines.extend([opened, closed]);
    }
    lines
}

#[test]
fn connections_are_reported_to_watchers_as_by_memcached() {
    let memcached = Memcached::start_with(64, &["-o", "idle_timeout=1"]);
    let mut config = config();
    config.idle_timeout = Some(Duration::from_secs(1));
    let running = start(config);
    let (theirs, ours) = (connection_lines(memcached.addr), connection_lines(tcp(&running)));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let shown = |line: &[(String, String)]| -> Vec<String> {
            let own = ["ts", "gid", "rport", "cfd"];
            let word = |(name, value): &(String, String)| match own.contains(&&**name) {
                true => name.clone(),
                false => format!("{name}={value}"),
            };
            line.iter().map(word).collect()
        };
        assert_eq!(shown(ours), shown(theirs));
    }
    let reasons = ours.iter().map(|line| field(line, "reason")).filter(|reason| !reason.is_empty());
    let reasons: Vec<&str> = reasons.collect();
    assert_eq!(reasons, ["normal", "normal", "idle_timeout"]);
    running.stop();
}

#[test]
fn connection_that_receives_a_value_is_listed_in_that_state_under_the_number_of_its_lines() {
    let running = start(config());
    let mut watcher = Watcher::connect(tcp(&running), "fetchers");
    let mut asks = Client::connect(tcp(&running));
    for request in [&b"set a 0 0 10\r\nabc"[..], b"set a 0 0 900000\r\nabc", b"ms a 5\r\n"] {
        let mut client = Client::connect(tcp(&running));
        client.ask(b"get a\r\n", b"END\r\n");
        let cfd = field(&watcher.next(), "cfd").to_owned();
        client.send(request);
        wait_until("the state of a value", || {
            asks.send(b"stats conns\r\n");
            let mut lines = String::new();
            let mut reader = BufReader::new(asks.stream.try_clone().unwrap());
            while !lines.ends_with("END\r\n") {
                reader.read_line(&mut lines).unwrap();
            }
            lines.contains(&format!("STAT {cfd}:state conn_nread\r\n"))
        });
    }
    running.stop();
}

/// Fills a server with `values` of 10 KB, and returns the first line that a watcher of evictions gets.
fn first_eviction(addr: SocketAddr, values: usize) -> Vec<(String, String)> {
    let mut watcher = Watcher::connect(addr, "evictions");
    let mut client = Client::connect(addr);
    for number in 0..values {
        client.ask(&set(&format!("e {number}").replace(' ', "/"), &pattern(10_000)), b"STORED\r\n");
    }
    watcher.next()
}

#[test]
fn background_evictions_are_reported_to_watchers_in_memcached_form() {
    let memcached = Memcached::start(8);
    let mut config = config();
    config.memory_bytes = 16 << 20;
    let running = start(config);
    let (theirs, ours) = (first_eviction(memcached.addr, 3000), first_eviction(tcp(&running), 6000));
    assert_eq!(
        ours.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        theirs.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    );
    for line in [&ours, &theirs] {
        assert!(field(line, "key").starts_with("e%2F"), "{line:?}");
        let replied = ["type", "fetch", "ttl", "size"].map(|name| field(line, name));
        assert_eq!(replied, ["eviction", "no", "-1", "10000"], "{line:?}");
        assert!(field(line, "la").parse::<u64>().is_ok_and(|seconds| seconds < 60), "{line:?}");
    }
    running.stop();
}

#[test]
fn deletion_is_reported_once_and_only_if_an_item_was_deleted() {
    let running = start(config());
    let mut watcher = Watcher::connect(tcp(&running), "deletions");
    let mut client = Client::connect(tcp(&running));
    client.send(b"set a 0 0 4\r\nabcd\r\ndelete a\r\ndelete a\r\nms b 2\r\nxx\r\nmd b I\r\nmd b\r\nmd b\r\nmn\r\n");
    client.expect(b"STORED\r\nDELETED\r\nNOT_FOUND\r\nHD\r\nHD\r\nHD\r\nNF\r\nMN\r\n");
    for (key, cmd, size) in [("a", "delete", "4"), ("b", "md", "2")] {
        let line = watcher.next();
        assert_eq!(["type", "key", "cmd", "size"].map(|name| field(&line, name)), ["deleted", key, cmd, size]);
    }
    client.ask(b"set c 0 0 1\r\nx\r\ndelete c\r\n", b"STORED\r\nDELETED\r\n");
    assert_eq!(field(&watcher.next(), "key"), "c");
    running.stop();
}

#[test]
fn lookup_whose_reply_waits_for_output_space_is_reported_once() {
    let running = start(config());
    let mut watcher = Watcher::connect(tcp(&running), "fetchers");
    let mut client = Client::connect(tcp(&running));
    client.ask(&set("big", &pattern(900_000)), b"STORED\r\n");
    client.ask(&set("mid", &pattern(20_000)), b"STORED\r\n");
    // Nothing of the answers is read until all is asked for, so every kind of output is full again and again.
    let mut requests = b"get mid mid mid\r\nget big\r\nmg mid v\r\nmg mid N9 v\r\ngat 90 mid mid\r\n".repeat(30);
    requests.extend_from_slice(b"get end\r\n");
    client.send(&requests);
    std::thread::sleep(Duration::from_millis(50));
    let mut reader = client.stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let (mut all, mut part) = (Vec::new(), vec![0; 1 << 20]);
        while !all.ends_with(b"\r\nEND\r\nEND\r\n") {
            let read = reader.read(&mut part).unwrap();
            all.extend_from_slice(&part[..read]);
        }
    });
    let lines = watcher.until("end");
    reading.join().unwrap();
    // The two stores look up what they replace.
    assert_eq!(lines.len(), 2 + 30 * 8);
    assert!(lines[2..].iter().all(|line| field(line, "status") == "found"));
    running.stop();
}

#[test]
fn a_watcher_hears_of_other_workers_connections_and_of_each_by_another_number() {
    let mut config = config();
    config.workers = 2;
    let running = start(config);
    let mut watcher = Watcher::connect(tcp(&running), "fetchers");
    let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(tcp(&running))).collect();
    let mut numbers: Vec<String> = Vec::new();
    for (number, client) in clients.iter_mut().enumerate() {
        client.ask(format!("get k{number}\r\n").as_bytes(), b"END\r\n");
        let line = watcher.next();
        assert_eq!(field(&line, "key"), format!("k{number}"));
        let cfd = field(&line, "cfd").to_owned();
        assert!(!numbers.contains(&cfd), "{cfd} twice");
        numbers.push(cfd);
    }
    let ops = |worker: usize| running.shared().workers[worker].counters.ops.value();
    assert!(ops(0) > 0 && ops(1) > 0, "both workers were watched");
    running.stop();
}

#[test]
fn input_from_a_watcher_is_discarded_and_its_stream_continues() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    client.ask(&set("kept", b"1"), b"STORED\r\n");
    let mut watching = Client::connect(tcp(&running));
    watching.send(b"mn\r\nwatch fetchers\r\nflush_all\r\nget kept\r\nquit\r\n");
    watching.expect(b"MN\r\nOK\r\n");
    watching.send(&b"flush_all\r\n".repeat(20_000));
    let mut watcher = Watcher { lines: BufReader::new(watching.stream) };
    client.ask(b"get kept\r\n", &value("kept", b"1"));
    assert_eq!(field(&watcher.next(), "status"), "found");
    running.stop();
}

#[test]
fn unsupported_watch_name_is_an_error_and_the_connection_continues() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    let refused = b"CLIENT_ERROR only fetchers, mutations, evictions, deletions and connevents can be watched\r\n";
    for name in ["proxyreqs", "proxyevents", "proxyuser", "rawcmds", "sysevents", "fetchers rawcmds"] {
        client.ask(format!("watch {name}\r\n").as_bytes(), refused);
    }
    client.ask(b"watch foo\r\nwatch fetchers foo\r\nget a\r\n", b"ERROR\r\nERROR\r\nEND\r\n");
    assert_eq!(watchers(&running), 0);
    running.stop();
}

#[test]
fn a_watcher_that_leaves_is_forgotten_and_its_place_is_free() {
    let running = start(config());
    let addr = tcp(&running);
    let mut all: Vec<Watcher> = (0..WATCHERS_MAX).map(|_| Watcher::connect(addr, "fetchers mutations")).collect();
    let mut client = Client::connect(addr);
    client.ask(b"watch\r\nget a\r\n", b"WATCHER_TOO_MANY log watcher limit reached\r\nEND\r\n");
    assert_eq!(watchers(&running), WATCHERS_MAX as u64);
    for watcher in &mut all {
        assert_eq!(field(&watcher.next(), "key"), "a");
    }
    // One client shuts down its sending side, as memcached's watchers do to leave. Another closes the connection.
    all[3].lines.get_ref().shutdown(Shutdown::Write).unwrap();
    assert_eq!(all[3].lines.read(&mut [0]).unwrap(), 0, "its end");
    drop(all.remove(7));
    wait_until("two have left", || watchers(&running) == WATCHERS_MAX as u64 - 2);
    let mut next = Watcher::connect(addr, "fetchers");
    client.ask(b"get b\r\n", b"END\r\n");
    assert_eq!(field(&next.next(), "key"), "b");
    drop((all, next));
    wait_until("all have left", || watchers(&running) == 0);
    client.ask(b"get c\r\n", b"END\r\n");
    running.stop();
}

#[test]
fn a_silent_watcher_outlives_the_idle_timeout() {
    let mut config = config();
    config.idle_timeout = Some(Duration::from_millis(900));
    let running = start(config);
    let mut watcher = Watcher::connect(tcp(&running), "");
    let mut idle = Client::connect(tcp(&running));
    // The sweep looks at each once a second.
    idle.expect_end();
    std::thread::sleep(Duration::from_millis(1500));
    Client::connect(tcp(&running)).ask(b"get a\r\n", b"END\r\n");
    assert_eq!(field(&watcher.next(), "key"), "a");
    running.stop();
}

#[test]
fn a_stop_closes_watchers_at_once_whether_they_read_or_not() {
    let stop_timeout = 2 * PATIENCE;
    let running = start(ServerConfig { stop_timeout, ..config() });
    let mut reads = Watcher::connect(tcp(&running), "mutations");
    let blocked = Watcher::connect(tcp(&running), "fetchers");
    let mut client = Client::connect(tcp(&running));
    let gets = format!("get {}\r\n", "k".repeat(250)).repeat(1000);
    wait_until("the watcher is behind", || {
        client.ask(gets.as_bytes(), &b"END\r\n".repeat(1000));
        running.shared().watch.skipped.load(std::sync::atomic::Ordering::Relaxed) > 0
    });
    let begun = Instant::now();
    running.stop();
    assert!(begun.elapsed() < stop_timeout, "{:?}", begun.elapsed());
    assert_eq!(reads.lines.read(&mut [0]).unwrap(), 0, "the end of the stream");
    drop(blocked);
}
