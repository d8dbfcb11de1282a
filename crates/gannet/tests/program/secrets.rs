//! Plants a password in every place where a client or a file can send one, and searches all outputs of the server for
//! them.

use crate::common::{Serving, TempFile, connect, page, request};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// The text that all planted passwords contain.
const MARK: &str = "hidden-";

/// The pages of the admin port.
const PAGES: [&str; 9] = [
    "/",
    "/metrics",
    "/stats.json",
    "/histograms.json",
    "/slow",
    "/hotkeys",
    "/hotkeys.json",
    "/config",
    "/namespaces",
];

/// The reports for Redis clients. `ACL LIST` and `ACL GETUSER` return digests of passwords, as in Redis.
const REPORTS: [&str; 14] = [
    "SLOWLOG GET -1",
    "CLIENT LIST",
    "CLIENT INFO",
    "ACL LOG 128",
    "ACL LIST",
    "ACL GETUSER dora",
    "ACL GETUSER default",
    "INFO everything",
    "COMMAND LIST",
    "LATENCY DOCTOR",
    "LATENCY HISTOGRAM",
    "FUNCTION STATS",
    "HOTKEYS",
    "MEMORY STATS",
];

/// A connection whose replies are read up to a known text.
struct Talk {
    stream: TcpStream,
    /// All that was received.
    received: String,
}

impl Talk {
    fn new(addr: SocketAddr) -> Self {
        Self { stream: connect(addr), received: String::new() }
    }

    /// Sends `bytes`, and receives until `end` has arrived. Returns what was received.
    fn ask(&mut self, bytes: &[u8], end: &str) -> String {
        self.stream.write_all(bytes).expect("sends");
        self.until(end)
    }

    /// Receives until `end` has arrived. Returns what was received since the last call.
    fn until(&mut self, end: &str) -> String {
        let from = self.received.len();
        while !self.received[from..].contains(end) {
            let mut room = [0; 64 << 10];
            let bytes = self.stream.read(&mut room);
            let bytes =
                bytes.unwrap_or_else(|error| panic!("{error} instead of {end:?}: {:?}", &self.received[from..]));
            assert!(bytes > 0, "closed after {:?}", &self.received[from..]);
            self.received.push_str(&String::from_utf8_lossy(&room[..bytes]));
        }
        self.received[from..].to_owned()
    }

    /// Sends the words of a Redis request. Returns the reply.
    fn redis(&mut self, words: &[&str]) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.marked(request(&words))
    }

    /// Sends lines as Redis requests, all at once. Returns the replies. A transaction must end within the lines.
    fn lines(&mut self, lines: &[&str]) -> String {
        let requests = lines.iter().map(|line| request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
        self.marked(requests.collect::<Vec<_>>().concat())
    }

    fn line(&mut self, line: &str) -> String {
        self.lines(&[line])
    }

    /// Sends requests, and one whose reply marks the end of the replies.
    fn marked(&mut self, mut requests: Vec<u8>) -> String {
        requests.extend(request(&[b"ECHO", b"the-end"]));
        self.ask(&requests, "$7\r\nthe-end\r\n")
    }
}

/// All outputs of a server, by name.
fn outputs(client: &mut Talk, admin: SocketAddr) -> Vec<(String, String)> {
    let reports = REPORTS.into_iter().map(|line| (line.to_owned(), client.line(line)));
    let mut all: Vec<_> = reports.collect();
    all.extend(PAGES.into_iter().map(|path| (path.to_owned(), page(admin, path))));
    all
}

fn assert_hidden(outputs: &[(String, String)]) {
    let mut found = outputs.iter().filter(|(_, text)| text.contains(MARK)).peekable();
    let line = |text: &str| text.lines().find(|line| line.contains(MARK)).unwrap_or_default().to_owned();
    let first = found.peek().map(|(name, text)| (name.clone(), line(text)));
    assert_eq!(first, None, "all with a secret: {:?}", found.map(|(name, _)| name).collect::<Vec<_>>());
}

#[test]
fn no_output_contains_a_password_that_a_client_or_a_file_has_sent() {
    let auth = TempFile::new("secrets-auth", "alice:hidden-file\n");
    let acl = TempFile::new("secrets-acl", "user carl on >hidden-acl ~* &* +@all\n");
    let config = TempFile::new(
        "secrets.toml",
        &format!(
            "[listen]\nmemcached = [\"127.0.0.1:0\"]\nresp = [\"127.0.0.1:0\"]\nadmin = \"127.0.0.1:0\"\n\
             auth_file = \"{}\"\nacl_file = \"{}\"\n[store]\nmemory = \"64MiB\"\n[threads]\nworkers = 1\n\
             [log]\nlevel = \"trace\"\nslow_request = \"1us\"\n",
            auth.path(),
            acl.path()
        ),
    );
    let mut serving = Serving::start(&[config.path()]);
    let memcached = serving.addr_behind("memcached clients connect to ");
    let resp = serving.addr_behind("Redis clients connect to ");
    let admin = serving.addr_behind("metrics are at http://");

    let mut watcher = Talk::new(memcached);
    watcher.ask(b"set x 0 0 17\r\nalice hidden-file\r\n", "STORED\r\n");
    watcher.ask(b"watch fetchers mutations evictions connevents deletions\r\n", "OK\r\n");
    let mut monitor = Talk::new(resp);
    monitor.ask(&request(&[b"AUTH", b"carl", b"hidden-acl"]), "+OK\r\n");
    monitor.ask(&request(&[b"MONITOR"]), "+OK\r\n");

    // Refused attempts, and requests of a client that has not authenticated.
    let mut client = Talk::new(resp);
    for (line, error) in [
        ("CONFIG SET slowlog-log-slower-than 0 requirepass hidden-1", "NOAUTH"),
        ("AUTH hidden-2", "WRONGPASS"),
        ("HELLO 3 AUTH nobody hidden-3", "WRONGPASS"),
        ("AUHT hidden-4", "unknown command"),
    ] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        assert!(client.ask(&request(&words), "\r\n").contains(error), "{line}");
    }
    assert!(client.ask(b"AUTH carl hidden-acl\r\nPING\r\n", "+PONG\r\n").contains("+OK"));
    assert!(client.line("HELLO 3 AUTH carl hidden-acl SETNAME me").contains("proto"));
    assert!(client.line("CONFIG SET slowlog-log-slower-than 0").contains("+OK"));
    let digest = "#5b11618c2e44027877d0cd0921ed166b9f176f50587fc91e7534dd2946db77d6";
    for line in [
        "ACL SETUSER dora on >hidden-5 +get",
        "ACL SETUSER dora <hidden-6",
        "ACL SETUSER dora on hidden-7",
        "ACL SETUSER dora #hidden-8",
        "ACL SETUSER dora !hidden-9",
        &format!("ACL SETUSER dora {digest}"),
        "ACL DRYRUN dora AUTH hidden-10",
        "COMMAND GETKEYS AUTH hidden-11",
        "CONFIG SET requirepass hidden-12",
        "CONFIG SET timeout 0 masterauth hidden-13",
        "CONFIG SET tls-key-file-pass hidden-14",
        "CONFIG SET hidden-15 timeout",
        "CONFIG SETT requirepass hidden-16",
        "MIGRATE 127.0.0.1 1 k 0 10 AUTH2 carl hidden-17",
        "hidden-18",
        "SET AUTH public",
    ] {
        let _ = client.line(line);
    }
    let _ = client.lines(&[
        "MULTI",
        "AUTH carl hidden-acl",
        "HELLO 3 AUTH nobody hidden-19",
        "CONFIG SET requirepass hidden-20",
        "ACL SETUSER dora >hidden-21",
        "EXEC",
    ]);
    let _ = client.lines(&["MULTI", "AUHT hidden-22", "EXEC"]);
    let calls = [
        "return {redis.pcall('auth', 'hid'..'den-23')",
        "redis.pcall('config', 'set', 'requirepass', 'hid'..'den-24')",
        "redis.pcall('acl', 'setuser', 'dora', '>hid'..'den-25')}",
    ];
    let calls = &calls.join(", ");
    assert!(client.redis(&["EVAL", calls, "0"]).contains("not allowed"));
    let long = "hidden-26".repeat(8000);
    let _ = client.redis(&["AUTH", "carl", &long]);
    let _ = client.redis(&["ACL", "SETUSER", "dora", &format!(">{long}")]);
    let _ = client.redis(&["CONFIG", "SET", "requirepass", &long]);

    // memcached: a wrong password, three malformed logins, and bytes of a password in the place of a request.
    for bytes in [
        &b"set a 0 0 15\r\nalice hidden-27\r\n"[..],
        b"set a 0 0 9\r\nhidden-28\r\n",
        b"set a 0 0 15\r\nalice hidden-29xx",
        b"AUTH alice hidden-30\r\n",
    ] {
        Talk::new(memcached).ask(bytes, "\r\n");
    }
    let mut cache = Talk::new(memcached);
    cache.ask(b"set x 0 0 17\r\nalice hidden-file\r\n", "STORED\r\n");
    cache.ask(b"set x 0 0 17\r\nalice hidden-file\r\n", "STORED\r\n");
    for bytes in [&b"alice hidden-31\r\n"[..], b"set x 0 0 y\r\nAUTH hidden-32\r\n", b"AUTH alice hidden-33\r\n"] {
        cache.ask(bytes, "ERROR");
        cache.ask(b"mn\r\n", "MN\r\n");
    }

    // Files: valid, then malformed.
    assert!(client.line("ACL SAVE").contains("+OK"));
    assert!(client.line("ACL LOAD").contains("+OK"));
    std::fs::write(auth.path(), "hidden-34\n").unwrap();
    std::fs::write(acl.path(), "user x on hidden-35\nhidden-36\n").unwrap();
    assert!(client.line("ACL LOAD").contains("-ERR"));
    serving.signal("HUP");
    serving.wait_for("cannot load users from");
    serving.wait_for("cannot load users from");

    let mut all = outputs(&mut client, admin);
    all.push(("CONFIG GET *".into(), client.line("CONFIG GET *")));
    for topic in ["", " settings", " conns", " items", " slabs", " sizes", " detail dump", " threads"] {
        let report = cache.ask(format!("stats{topic}\r\nmn\r\n").as_bytes(), "MN\r\n");
        all.push((format!("stats{topic}"), report));
    }
    let _ = client.line("ECHO last-request");
    monitor.until("last-request");
    cache.ask(b"set last 0 0 1\r\n1\r\n", "STORED\r\n");
    watcher.until("key=last");
    all.push(("MONITOR".into(), monitor.received));
    all.push(("watch".into(), watcher.received));
    serving.signal("TERM");
    serving.ended();
    serving.read_all();
    all.push(("log".into(), serving.lines.join("\n")));
    assert_hidden(&all);
    // The outputs have contents.
    let of = |name: &str| &all.iter().find(|(known, _)| known == name).expect("an output").1;
    assert!(of("MONITOR").contains("\"AUTH\" \"(redacted)\"") && of("MONITOR").contains("\"SET\" \"AUTH\" \"public\""));
    let slow = of("SLOWLOG GET -1");
    assert!(slow.contains("AUTH\r\n$10\r\n(redacted)") && slow.contains("requirepass\r\n$10\r\n(redacted)"), "{slow}");
    assert!(of("watch").contains("conn_new") && of("/slow").contains("AUTH (redacted)"));
    assert!(of("ACL LOG 128").contains("nobody") && of("log").contains("gannet is ready"));
}

/// As in Redis, `CONFIG GET requirepass` returns the password, to clients with the right to read the configuration.
#[test]
fn only_config_get_returns_the_password_that_config_set_has_set() {
    let any = "127.0.0.1:0";
    let args = ["--memory", "64MiB", "--workers", "1", "--memcached", any, "--resp", any, "--admin", any];
    let mut serving = Serving::start(&args);
    let resp = serving.addr_behind("Redis clients connect to ");
    let admin = serving.addr_behind("metrics are at http://");
    let (mut client, mut monitor) = (Talk::new(resp), Talk::new(resp));
    monitor.ask(&request(&[b"MONITOR"]), "+OK\r\n");
    for line in [
        "CONFIG SET slowlog-log-slower-than 0 requirepass hidden-1",
        "config set REQUIREPASS hidden-2",
        "AUTH hidden-2",
    ] {
        assert!(client.line(line).starts_with("+OK"), "{line}");
    }
    let replies = client.lines(&["MULTI", "CONFIG SET timeout 0 requirepass hidden-3", "AUTH hidden-3", "EXEC"]);
    assert!(replies.contains("*2\r\n+OK\r\n+OK"), "{replies}");
    let mut other = Talk::new(resp);
    assert!(other.line("AUTH hidden-3").starts_with("+OK"));
    let mut all = outputs(&mut client, admin);
    for line in ["CONFIG GET requirepass", "CONFIG GET *"] {
        let settings = client.line(line);
        assert_eq!(settings.matches(MARK).count(), 1, "{line}: {settings}");
    }
    let _ = client.line("ECHO last-request");
    monitor.until("last-request");
    all.push(("MONITOR".into(), monitor.received));
    serving.signal("TERM");
    serving.ended();
    serving.read_all();
    all.push(("log".into(), serving.lines.join("\n")));
    assert_hidden(&all);
}
