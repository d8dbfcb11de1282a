//! Tests of the Redis commands for operators: they list, kill and pause connections, change settings, and read the slow
//! log.

use crate::common::redis::{Redis, Replies, request};
use crate::common::{Client, config, start, tcp, wait_until};
use command::clients::endpoint::Protocol;
use command::config::PasswordHash;
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Returns a configuration with two workers, so that connections belong to different workers.
fn both() -> ServerConfig {
    ServerConfig { resp: vec![ListenAddr::Tcp(([127, 0, 0, 1], 0).into())], workers: 2, ..config() }
}

fn addr(running: &Running) -> SocketAddr {
    let found = running.listeners().find_map(|(protocol, addr)| match addr {
        ListenAddr::Tcp(addr) if protocol == Protocol::Resp => Some(*addr),
        _ => None,
    });
    found.expect("an address of this protocol")
}

fn resp(running: &Running) -> Replies {
    Replies::connect(addr(running))
}

fn text(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).into_owned()
}

/// Returns the lines of the reply to `CLIENT LIST` with the arguments `words`.
fn list(client: &mut Replies, words: &[&[u8]]) -> Vec<String> {
    let reply = text(&client.ask(&[&[&b"CLIENT"[..], b"LIST"], words].concat()));
    assert!(reply.starts_with('$'), "{reply}");
    reply.lines().filter(|line| line.starts_with("id=")).map(str::to_owned).collect()
}

fn field<'l>(line: &'l str, name: &str) -> &'l str {
    line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).expect("the field")
}

#[test]
fn client_list_shows_every_connection_with_its_client_info() {
    let running = start(both());
    let mut clients: Vec<Replies> = (0..6).map(|_| resp(&running)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&[b"CLIENT", b"SETNAME", format!("client-{number}").as_bytes()]), b"+OK\r\n");
    }
    assert_eq!(clients[1].ask(&[b"CLIENT", b"SETINFO", b"lib-name", b"test(x)"]), b"+OK\r\n");
    assert!(clients[2].ask(&[b"HELLO", b"3"]).starts_with(b"%7"));
    assert!(clients[3].ask(&[b"SUBSCRIBE", b"c", b"d"]).starts_with(b"*3"));
    let lines = list(&mut clients[0], &[]);
    assert_eq!(lines.len(), 6, "{lines:?}");
    for (number, client) in clients.iter().enumerate() {
        let line = lines.iter().find(|line| field(line, "name") == format!("client-{number}")).expect("its line");
        assert_eq!(field(line, "addr"), client.client.stream.local_addr().unwrap().to_string());
        assert_eq!(field(line, "laddr"), addr(&running).to_string());
        assert_eq!(field(line, "resp"), if number == 2 { "3" } else { "2" });
        assert_eq!((field(line, "sub"), field(line, "flags")), if number == 3 { ("2", "P") } else { ("0", "N") });
        assert_eq!(field(line, "lib-name"), if number == 1 { "test(x)" } else { "" });
    }
    assert_eq!(list(&mut clients[0], &[b"TYPE", b"pubsub"]).len(), 1);
    assert_eq!(list(&mut clients[0], &[b"TYPE", b"replica"]).len(), 0);
    let id = field(&lines[4], "id").to_owned();
    assert_eq!(list(&mut clients[0], &[b"ID", id.as_bytes(), b"999999"]).len(), 1);
    assert!(clients[0].ask(&[b"CLIENT", b"LIST", b"ID", b"x"]).starts_with(b"-ERR Invalid client ID"));
    assert!(clients[0].ask(&[b"CLIENT", b"LIST", b"TYPE", b"x"]).starts_with(b"-ERR Unknown client type"));
    let info = text(&clients[0].ask(&[b"CLIENT", b"INFO"]));
    assert!(info.contains("name=client-0") && info.contains("cmd=client|info"), "{info}");
    clients.remove(5);
    wait_until("the end of its line", || list(&mut clients[0], &[]).len() == 5);
    running.stop();
}

#[test]
fn a_client_that_is_killed_is_closed_and_no_other() {
    let running = start(both());
    let mut clients: Vec<Replies> = (0..8).map(|_| resp(&running)).collect();
    let mut ids = Vec::new();
    for client in &mut clients {
        let id = text(&client.ask(&[b"CLIENT", b"ID"]));
        ids.push(id.trim_start_matches(':').trim_end().to_owned());
    }
    assert_eq!(clients[0].ask(&[b"CLIENT", b"KILL", b"ID", ids[1].as_bytes()]), b":1\r\n");
    clients[1].client.expect_end();
    let peer = clients[2].client.stream.local_addr().unwrap().to_string();
    assert_eq!(clients[0].ask(&[b"CLIENT", b"KILL", peer.as_bytes()]), b"+OK\r\n");
    clients[2].client.expect_end();
    assert!(clients[0].ask(&[b"CLIENT", b"KILL", b"1.2.3.4:5"]).starts_with(b"-ERR No such client"));
    // The asking connection is skipped unless the request includes it. So is a connection that fails one of the
    // conditions.
    assert_eq!(clients[0].ask(&[b"CLIENT", b"KILL", b"ID", ids[0].as_bytes()]), b":0\r\n");
    assert!(clients[3].ask(&[b"SUBSCRIBE", b"c"]).starts_with(b"*3"));
    assert_eq!(clients[0].ask(&[b"CLIENT", b"KILL", b"TYPE", b"pubsub"]), b":1\r\n");
    clients[3].client.expect_end();
    let laddr = addr(&running).to_string();
    assert_eq!(clients[0].ask(&[b"CLIENT", b"KILL", b"LADDR", laddr.as_bytes(), b"MAXAGE", b"1000"]), b":0\r\n");
    assert_eq!(clients[0].ask(&[b"CLIENT", b"KILL", b"USER", b"default", b"ID", ids[4].as_bytes()]), b":1\r\n");
    clients[4].client.expect_end();
    assert_eq!(clients[5].ask(&[b"PING"]), b"+PONG\r\n");
    assert_eq!(clients[0].ask(&[b"CLIENT", b"KILL", b"LADDR", laddr.as_bytes(), b"SKIPME", b"no"]), b":4\r\n");
    for number in [0, 5, 6, 7] {
        clients[number].client.expect_end();
    }
    assert_eq!(resp(&running).ask(&[b"PING"]), b"+PONG\r\n");
    running.stop();
}

#[test]
fn clients_wait_while_they_are_paused_and_go_on_when_that_ends() {
    let running = start(both());
    let (mut one, mut other) = (resp(&running), resp(&running));
    assert_eq!(one.ask(&[b"CLIENT", b"PAUSE", b"60000", b"WRITE"]), b"+OK\r\n");
    assert_eq!(other.ask(&[b"GET", b"k"]), b"$-1\r\n");
    other.client.send(&request(&[b"SET", b"k", b"v"]));
    // The request is not executed during the pause, however long the other worker takes to notice the pause.
    for _ in 0..50 {
        assert_eq!(one.ask(&[b"GET", b"k"]), b"$-1\r\n");
    }
    assert_eq!(one.ask(&[b"CLIENT", b"UNPAUSE"]), b"+OK\r\n");
    assert_eq!(other.next(), b"+OK\r\n");
    assert_eq!(one.ask(&[b"CLIENT", b"PAUSE", b"60000"]), b"+OK\r\n");
    other.client.send(&request(&[b"GET", b"k"]));
    running.shared().live.pause.end();
    assert_eq!(other.next(), b"$1\r\nv\r\n");
    // memcached clients wait too. During a pause of writes, reads do not wait.
    let mut plain = Client::connect(tcp(&running));
    plain.ask(b"get k\r\n", b"VALUE k 0 1\r\nv\r\nEND\r\n");
    assert_eq!(one.ask(&[b"CLIENT", b"PAUSE", b"60000", b"WRITE"]), b"+OK\r\n");
    for (change, answer) in [
        (&b"set k 0 0 1\r\nw\r\n"[..], &b"STORED\r\n"[..]),
        (b"gat 100 k\r\n", b"VALUE k 0 1\r\nw\r\nEND\r\n"),
        (b"mg k T0 v\r\n", b"VA 1\r\nw\r\n"),
        (b"md k\r\n", b"HD\r\n"),
    ] {
        plain.ask(
            b"mg k v\r\nget none\r\n",
            if change[0] == b's' { b"VA 1\r\nv\r\nEND\r\n" } else { b"VA 1\r\nw\r\nEND\r\n" },
        );
        plain.send(change);
        for _ in 0..20 {
            assert_eq!(one.ask(&[b"EXISTS", b"k"]), b":1\r\n", "nothing is changed");
        }
        assert_eq!(one.ask(&[b"CLIENT", b"UNPAUSE"]), b"+OK\r\n");
        plain.expect(answer);
        assert_eq!(one.ask(&[b"CLIENT", b"PAUSE", b"60000", b"WRITE"]), b"+OK\r\n");
    }
    assert_eq!(one.ask(&[b"CLIENT", b"PAUSE", b"60000"]), b"+OK\r\n");
    plain.send(b"get k\r\n");
    running.shared().live.pause.end();
    plain.expect(b"END\r\n");
    one.ask(&[b"SET", b"k", b"v"]);
    assert_eq!(one.ask(&[b"CLIENT", b"PAUSE", b"30"]), b"+OK\r\n");
    assert_eq!(other.ask(&[b"GET", b"k"]), b"$1\r\nv\r\n", "a pause ends by itself");
    assert!(one.ask(&[b"CLIENT", b"PAUSE", b"-1"]).starts_with(b"-ERR timeout"));
    running.stop();
}

#[test]
fn config_set_applies_live_settings_and_refuses_invalid_sets_as_a_whole() {
    let running = start(both());
    let mut client = resp(&running);
    let is = |client: &mut Replies, name: &str, value: &str| {
        let reply = text(&client.ask(&[b"CONFIG", b"GET", name.as_bytes()]));
        assert!(reply.ends_with(&format!("\r\n{value}\r\n")), "{name}: {reply:?} instead of {value}");
    };
    for (name, value, shown) in [
        ("notify-keyspace-events", "KEA", "AKE"),
        ("timeout", "300", "300"),
        ("maxclients", "100", "100"),
        ("slowlog-log-slower-than", "1500", "1500"),
        ("slowlog-log-slower-than", "-1", "-1"),
        ("latency-monitor-threshold", "7", "7"),
        ("maxmemory", "80mb", "83886080"),
        ("client-output-buffer-limit", "pubsub 1mb 0 0", "normal 0 0 0 slave 0 0 0 pubsub 1048576 0 0"),
        ("save", "", ""),
    ] {
        assert_eq!(client.ask(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()]), b"+OK\r\n", "{name} {value}");
        is(&mut client, name, shown);
    }
    assert_eq!(client.ask(&[b"CONFIG", b"SET", b"timeout", b"0", b"maxclients", b"90"]), b"+OK\r\n");
    for (words, error) in [
        (
            &[&b"timeout"[..], b"5", b"maxclients", b"0"][..],
            "-ERR CONFIG SET failed (possibly related to argument 'maxc",
        ),
        (
            &[b"timeout", b"5", b"databases", b"8"],
            "-ERR CONFIG SET failed (possibly related to argument 'databases') - ",
        ),
        (&[b"nosuch", b"5"], "-ERR Unknown option"),
        (&[b"notify-keyspace-events", b"KQ"], "-ERR CONFIG SET failed"),
    ] {
        let reply = text(&client.ask(&[&[&b"CONFIG"[..], b"SET"], words].concat()));
        assert!(reply.starts_with(error), "{reply}");
    }
    is(&mut client, "timeout", "0");
    assert!(client.ask(&[b"CONFIG", b"REWRITE"]).starts_with(b"-ERR cannot rewrite the configuration file"));
    client.ask(&[b"GET", b"none"]);
    assert!(text(&client.ask(&[b"INFO", b"stats"])).contains("keyspace_misses:1\r\n"));
    assert_eq!(client.ask(&[b"CONFIG", b"RESETSTAT"]), b"+OK\r\n");
    assert!(text(&client.ask(&[b"INFO", b"stats"])).contains("keyspace_misses:0\r\n"));
    running.stop();
}

#[test]
fn limit_below_the_least_memory_refuses_growth_only_until_it_is_raised() {
    let running = start(both());
    let mut client = resp(&running);
    let ask = |client: &mut Replies, line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        text(&client.ask(&words)).trim_end().to_owned()
    };
    const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(ask(&mut client, "SET there 1"), "+OK");
    assert_eq!(ask(&mut client, "RPUSH list a b"), ":2");
    let before = ask(&mut client, "CONFIG GET maxmemory");
    assert_eq!(ask(&mut client, "CONFIG SET maxmemory 1"), "+OK");
    assert_eq!(ask(&mut client, "CONFIG GET maxmemory"), "*2\r\n$9\r\nmaxmemory\r\n$1\r\n1");
    for line in ["SET new 1", "RPUSH list c", "HSET h f v", "INCR there", "APPEND there x"] {
        assert_eq!(ask(&mut client, line), OOM, "{line}");
    }
    let script = client.ask(&[b"EVAL", b"return redis.call('set', KEYS[1], 1)", b"1", b"new"]);
    assert!(text(&script).starts_with("-OOM"), "{}", text(&script));
    assert_eq!(ask(&mut client, "GET there"), "$1\r\n1");
    assert_eq!(ask(&mut client, "LPOP list"), "$1\r\na");
    // A refused command spoils its transaction.
    assert_eq!(ask(&mut client, "MULTI"), "+OK");
    assert_eq!(ask(&mut client, "SET new 1"), OOM);
    assert!(ask(&mut client, "EXEC").starts_with("-EXECABORT"));
    assert_eq!(ask(&mut client, "DEL there"), ":1");
    assert_eq!(ask(&mut client, "CONFIG SET maxmemory 0"), "+OK");
    assert_eq!(ask(&mut client, "CONFIG GET maxmemory"), before);
    assert_eq!(ask(&mut client, "SET new 1"), "+OK");
    running.stop();
}

/// Requests to `CONFIG` that both servers answer alike. `~` stands for a space within a word.
const CONFIG_ALIKE: &str = "\
    CONFIG SET maxmemory abc
    CONFIG SET maxmemory -1
    CONFIG SET maxmemory 1tb
    CONFIG SET maxmemory 0
    CONFIG SET maxmemory-policy nosuch
    CONFIG SET maxmemory-policy ALLKEYS-LFU
    CONFIG GET maxmemory-policy
    CONFIG SET maxmemory-policy NoEviction
    CONFIG GET maxmemory-policy
    CONFIG SET maxmemory-policy allkeys-lfu
    CONFIG GET maxmemory-policy
    CONFIG SET client-output-buffer-limit x
    CONFIG SET client-output-buffer-limit nosuch~1~2~3
    CONFIG SET client-output-buffer-limit pubsub~1mb~2~x
    CONFIG SET client-output-buffer-limit pubsub~1xb~2~3
    CONFIG SET client-output-buffer-limit pubsub~1mb~2mb~-3
    CONFIG SET client-output-buffer-limit pubsub~1mb~2mb
    CONFIG SET client-output-buffer-limit PubSub~1mb~2mb~3
    CONFIG GET slowlog-max-len
    CONFIG SET slowlog-max-len abc
    CONFIG SET slowlog-max-len 10
    CONFIG GET slowlog-max-len
    CONFIG SET slowlog-log-slower-than abc
    CONFIG SET slowlog-log-slower-than -2
    CONFIG SET slowlog-log-slower-than 1.5
    CONFIG SET slowlog-log-slower-than 9223372036854775808
    CONFIG SET slowlog-log-slower-than 10000
    CONFIG GET slowlog-log-slower-than
    CONFIG SET maxclients abc
    CONFIG SET timeout -1
    CONFIG SET timeout abc
    CONFIG SET timeout 2147483648
    CONFIG SET timeout 2147483647
    CONFIG SET TIMEOUT 0
    CONFIG SET nosuch 1
    CONFIG SET timeout 5 nosuch 1
    CONFIG SET timeout abc nosuch 1
    CONFIG GET timeout
    CONFIG SET timeout 5 timeout 6
    CONFIG SET timeout 5 maxclients
    CONFIG SET databases 3
    CONFIG SET appendonly maybe
    CONFIG SET appendonly NO
    CONFIG SET protected-mode maybe
    CONFIG SET latency-tracking YES
    CONFIG SET latency-monitor-threshold -1
    CONFIG SET latency-monitor-threshold abc
    CONFIG SET notify-keyspace-events q
    CONFIG SET notify-keyspace-events KEAn
    CONFIG GET notify-keyspace-events
    CONFIG SET notify-keyspace-events nm
    CONFIG GET notify-keyspace-events
    CONFIG SET notify-keyspace-events Kgnd
    CONFIG GET Notify-Keyspace-Events
    CONFIG SET timeout 7 slowlog-max-len 3
    CONFIG GET timeout
    CONFIG GET slowlog-max-len SLOWLOG-max-len
    CONFIG GET slowlog-max-le?
    CONFIG GET nosuch also-not
    CONFIG GET requirepass
    CONFIG SET requirepass one~two timeout abc
    CONFIG GET requirepass
    CONFIG SET requirepass one
    CONFIG GET requirepass
    ACL LIST
    PING
    CONFIG SET requirepass two
    ACL LIST
    RESET
    GET key
    AUTH one
    AUTH two
    PING
    CONFIG SET requirepass ~
    ACL LIST
    RESET
    GET key";

#[test]
fn config_replies_are_those_of_redis() {
    let config = ServerConfig { password_hash: PasswordHash::Sha256, ..both() };
    let (redis, running) = (Redis::start(), start(config));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    for line in CONFIG_ALIKE.lines() {
        let words: Vec<String> = line.trim().split(' ').map(|word| word.replace('~', " ")).collect();
        let words: Vec<&[u8]> = words.iter().map(|word| if word == " " { &b""[..] } else { word.as_bytes() }).collect();
        let [ours, theirs] = [&mut ours, &mut theirs].map(|client| text(&client.ask(&words)));
        assert_eq!(ours, theirs, "{line}");
    }
    // The server has always a limit, and returns to that of its start.
    assert_eq!(ours.text("CONFIG SET maxmemory 80mb"), "+OK");
    assert_eq!(ours.text("CONFIG SET maxmemory 0"), "+OK");
    assert_eq!(ours.text("CONFIG GET maxmemory"), "*2 $9 maxmemory $8 67108864");
    assert_eq!(ours.text("CONFIG SET maxmemory-policy allkeys-lru"), "+OK");
    let refused = ours.text("CONFIG SET maxmemory-policy volatile-lru");
    assert!(refused.contains("the policy is allkeys-lfu; choose allkeys-lfu or noeviction"), "{refused}");
    running.stop();
}

#[test]
fn a_client_that_connected_without_a_password_stays_when_one_is_set() {
    let running = start(both());
    let (mut old, mut other) = (resp(&running), resp(&running));
    assert_eq!(other.text("PING"), "+PONG");
    assert_eq!(old.text("CONFIG SET requirepass secret"), "+OK");
    let mut new = resp(&running);
    wait_until("the password", || {
        new = resp(&running);
        new.text("GET key").starts_with("-NOAUTH")
    });
    assert_eq!(new.text("AUTH secret"), "+OK");
    for client in [&mut old, &mut other, &mut new] {
        assert_eq!(client.text("SET key value"), "+OK");
    }
    let slow = old.text("SLOWLOG GET -1");
    assert!(!slow.contains("secret"), "{slow}");
    running.stop();
}

#[test]
fn slow_log_entries_show_wait_execute_and_send_times() {
    let running = start(both());
    let mut client = resp(&running);
    assert_eq!(client.ask(&[b"SLOWLOG", b"LEN"]), b":0\r\n");
    assert_eq!(client.ask(&[b"LATENCY", b"LATEST"]), b"*0\r\n");
    // Everything is slow.
    assert_eq!(client.ask(&[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"]), b"+OK\r\n");
    assert_eq!(client.ask(&[b"SET", b"some key", b"v"]), b"+OK\r\n");
    wait_until("the entry", || text(&client.ask(&[b"SLOWLOG", b"GET", b"-1"])).contains("\r\nSET\r\n"));
    let slow = text(&client.ask(&[b"SLOWLOG", b"GET", b"-1"]));
    assert!(slow.contains("\r\n$3\r\nSET\r\n$4\r\nsome\r\n$3\r\nkey\r\n$1\r\nv\r\n"), "{slow}");
    assert!(slow.contains("(wait ") && slow.contains(" us, execute ") && slow.contains(" us, send "), "{slow}");
    assert!(client.ask(&[b"SLOWLOG", b"GET", b"1"]).starts_with(b"*1\r\n*6\r\n:"));
    let latest = text(&client.ask(&[b"LATENCY", b"LATEST"]));
    assert!(latest.starts_with("*1\r\n*4\r\n$7\r\ncommand\r\n:"), "{latest}");
    assert!(client.ask(&[b"LATENCY", b"HISTORY", b"command"]).starts_with(b"*"));
    assert!(text(&client.ask(&[b"LATENCY", b"DOCTOR"])).contains("requests took longer than 0 us"));
    assert_eq!(client.ask(&[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"-1"]), b"+OK\r\n");
    wait_until("all to be forgotten", || {
        client.ask(&[b"SLOWLOG", b"RESET"]);
        client.ask(&[b"SLOWLOG", b"LEN"]) == b":0\r\n"
    });
    assert_eq!(client.ask(&[b"LATENCY", b"RESET", b"nosuch"]), b":0\r\n");
    assert_eq!(client.ask(&[b"LATENCY", b"RESET"]), b":1\r\n");
    assert_eq!(client.ask(&[b"LATENCY", b"HISTORY", b"command"]), b"*0\r\n");
    running.stop();
}

#[test]
fn slow_log_entries_have_the_address_and_the_name_of_their_client() {
    let running = start(both());
    let (mut client, mut other) = (resp(&running), resp(&running));
    assert_eq!(client.text("CLIENT SETNAME reports-of-the-night-shift"), "+OK");
    let peer = |replies: &mut Replies| {
        let line = replies.text("CLIENT INFO");
        field(&line, "addr").to_owned()
    };
    let (own, others) = (peer(&mut client), peer(&mut other));
    assert_eq!(client.ask(&[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"]), b"+OK\r\n");
    assert_eq!(other.ask(&[b"ECHO", b"plain"]), b"$5\r\nplain\r\n");
    client.client.send(&[request(&[b"MULTI"]), request(&[b"ECHO", b"queued"]), request(&[b"EXEC"])].concat());
    (0..3).for_each(|_| drop(client.next()));
    drop(other);
    let entries = || {
        let slow = text(&resp(&running).ask(&[b"SLOWLOG", b"GET", b"-1"]));
        slow.split("\r\n*6\r\n").map(str::to_owned).collect::<Vec<_>>()
    };
    let of = |word: &str| entries().into_iter().find(|entry| entry.contains(&format!("\r\n{word}\r\n")));
    wait_until("the entries", || of("plain").is_some() && of("queued").is_some());
    let (plain, queued) = (of("plain").unwrap(), of("queued").unwrap());
    assert!(plain.contains(&format!("\r\n{others}\r\n$0\r\n")), "{plain}");
    // A name is cut to 24 bytes.
    assert!(queued.contains(&format!("\r\n{own}\r\n$24\r\nreports-of-the-night-shi")), "{queued}");
    running.stop();
}

#[test]
fn latency_commands_report_times_by_command_and_part() {
    let running = start(both());
    let mut client = resp(&running);
    (0..10).for_each(|_| assert_eq!(client.ask(&[b"GET", b"k"]), b"$-1\r\n"));
    // Times are kept when the reply was sent, which the last one's may just have been.
    wait_until("all times", || text(&client.ask(&[b"LATENCY", b"HISTOGRAM", b"get"])).contains("calls\r\n:10\r\n"));
    let histogram = text(&client.ask(&[b"LATENCY", b"HISTOGRAM", b"get", b"nosuch"]));
    assert!(histogram.starts_with("*2\r\n$3\r\nget\r\n*4\r\n$5\r\ncalls\r\n:10\r\n$14\r\nhistogram_usec\r\n"));
    assert!(histogram.ends_with(":10\r\n"), "{histogram}");
    let explained = text(&client.ask(&[b"LATENCY", b"EXPLAIN", b"GET"]));
    assert!(explained.starts_with("*2\r\n$3\r\nget\r\n*8\r\n$5\r\ncalls\r\n:10\r\n$4\r\nwait\r\n"), "{explained}");
    for word in ["execute", "send", "p50_us", "p99_us", "p999_us", "max_us"] {
        assert!(explained.contains(word), "{word}: {explained}");
    }
    running.stop();
}

#[test]
fn memory_usage_reports_the_bytes_of_a_key_and_null_for_a_missing_key() {
    let running = start(both());
    let mut client = resp(&running);
    assert_eq!(client.ask(&[b"SET", b"key", &[b'v'; 1000]]), b"+OK\r\n");
    let bytes = text(&client.ask(&[b"MEMORY", b"USAGE", b"key"]));
    let bytes: u64 = bytes.trim_start_matches(':').trim_end().parse().unwrap();
    assert!((1000..1100).contains(&bytes), "{bytes}");
    assert_eq!(client.ask(&[b"MEMORY", b"USAGE", b"none", b"SAMPLES", b"5"]), b"$-1\r\n");
    assert!(text(&client.ask(&[b"MEMORY", b"STATS"])).contains("keys.count\r\n:1\r\n"));
    assert!(text(&client.ask(&[b"MEMORY", b"DOCTOR"])).contains("There is room."));
    running.stop();
}

/// A value above the longest whole item is stored in pieces, which hold nearly all of its bytes.
#[test]
fn sizes_of_a_key_count_the_pieces_of_its_value_in_every_protocol() {
    let running = start(ServerConfig { memory_bytes: 64 << 20, item_bytes_max: 8 << 20, ..both() });
    let mut client = resp(&running);
    let number = |text: &str| text.parse::<usize>().unwrap_or_else(|_| panic!("{text:?} is no number"));
    for len in [100, 5_000, 60_000, 66_000, 600_000, 5_000_000] {
        let value = vec![b'v'; len];
        let half = &value[..len / 2];
        let check = |bytes: usize, of: &str| {
            assert!((len..len + len / 50 + 200).contains(&bytes), "{bytes} bytes of {len} in {of}");
        };
        assert_eq!(client.text("FLUSHALL"), "+OK");
        client.ask(&[b"SET", b"set", &value]);
        client.ask(&[b"SET", b"append", half]);
        client.ask(&[b"APPEND", b"append", half]);
        client.ask(&[b"COPY", b"set", b"copy"]);
        client.ask(&[b"SETRANGE", b"range", (len - 1).to_string().as_bytes(), b"v"]);
        client.ask(&[b"SETBIT", b"bit", (len * 8 - 1).to_string().as_bytes(), b"1"]);
        client.ask(&[b"BITOP", b"NOT", b"op", b"set"]);
        client.ask(&[b"RPUSH", b"list", half, half]);
        for key in ["set", "append", "copy", "range", "bit", "op", "list"] {
            let usage = client.text(&format!("MEMORY USAGE {key}"));
            check(number(usage.trim_start_matches(':')), &format!("MEMORY USAGE {key}"));
        }
        let mut other = Client::connect(tcp(&running));
        other.send(b"me set\r\nlru_crawler metadump all\r\nquit\r\n");
        let lines = text(&other.read_to_end());
        let of_key = |line: &&str| line.starts_with("ME set ") || line.starts_with("key=set ");
        let sizes = lines.lines().filter(of_key).map(|line| {
            let size = line.split("size=").nth(1).and_then(|rest| rest.split_whitespace().next());
            check(number(size.unwrap_or(line)), line);
        });
        assert_eq!(sizes.count(), 2, "{lines}");
    }
    running.stop();
}

#[test]
fn commands_that_are_disabled_are_refused_and_debug_is_unless_it_is_allowed() {
    let disabled = vec!["flushall".to_owned(), "monitor".to_owned()];
    let running = start(ServerConfig { disabled, ..both() });
    let mut client = resp(&running);
    for name in [&b"FLUSHALL"[..], b"monitor"] {
        assert!(text(&client.ask(&[name])).contains("is disabled by this server's configuration"));
    }
    assert_eq!(client.ask(&[b"PING"]), b"+PONG\r\n");
    assert!(client.ask(&[b"DEBUG", b"SLEEP", b"0"]).starts_with(b"-ERR DEBUG command not allowed"));
    running.stop();
    let running = start(ServerConfig { debug_command: true, workers: 1, ..both() });
    let (mut sleeper, mut other) = (resp(&running), resp(&running));
    sleeper.client.send(&request(&[b"DEBUG", b"SLEEP", b"0.2"]));
    (0..20).for_each(|_| assert_eq!(other.ask(&[b"PING"]), b"+PONG\r\n"));
    assert_eq!(sleeper.next(), b"+OK\r\n");
    running.stop();
}

/// Returns an address of this machine other than loopback, if it has one. Sends nothing.
pub fn other_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|addr| addr.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[test]
fn remote_clients_are_denied_in_protected_mode_without_users() {
    let Some(ip) = other_address() else {
        println!("this machine has no address but loopback: not tried");
        return;
    };
    let both_sides = vec![ListenAddr::Tcp((ip, 0).into()), ListenAddr::Tcp(([127, 0, 0, 1], 0).into())];
    let running = start(ServerConfig { resp: both_sides, ..both() });
    let mut client = resp(&running);
    for words in [&[&b"GET"[..], b"k"][..], &[b"CONFIG", b"GET", b"*"], &[b"RESET"], &[b"SUBSCRIBE", b"c"]] {
        assert!(client.ask(words).starts_with(b"-DENIED The user default needs no password"), "{words:?}");
    }
    assert_eq!(client.ask(&[b"PING"]), b"+PONG\r\n");
    assert!(client.ask(&[b"HELLO", b"3"]).starts_with(b"%7"));
    assert!(client.ask(&[b"GET", b"k"]).starts_with(b"-DENIED"));
    assert_eq!(client.ask(&[b"QUIT"]), b"+OK\r\n");
    // A login counts if it needs a password, until it is reset.
    let local = running.listeners().filter_map(|(protocol, addr)| match addr {
        ListenAddr::Tcp(addr) if protocol == Protocol::Resp => Some(*addr),
        _ => None,
    });
    let mut local = Replies::connect(local.last().expect("two addresses"));
    assert_eq!(local.text("ACL SETUSER ann on >ann ~* &* +@all"), "+OK");
    let mut client = resp(&running);
    let denied = |client: &mut Replies| client.text("GET k").starts_with("-DENIED");
    assert!(client.text("AUTH default x") == "+OK" && denied(&mut client), "default needs no password");
    assert_eq!((client.text("AUTH ann ann"), client.text("GET k")), ("+OK".to_owned(), "$-1".to_owned()));
    assert!(client.text("RESET") == "+RESET" && denied(&mut client), "the login is gone");
    // So must a client that connected while `default` needed a password.
    assert_eq!(local.text("CONFIG SET requirepass secret"), "+OK");
    let mut client = resp(&running);
    assert!(client.text("GET k").starts_with("-NOAUTH"));
    assert_eq!((local.text("AUTH ann ann"), local.text("ACL SETUSER default nopass")), ("+OK".into(), "+OK".into()));
    assert!(denied(&mut client));
    running.stop();
    let trusting = vec![ListenAddr::Tcp((ip, 0).into())];
    let running = start(ServerConfig { resp: trusting, protected: false, ..both() });
    assert_eq!(resp(&running).ask(&[b"GET", b"k"]), b"$-1\r\n");
    running.stop();
}

#[test]
fn remote_memcached_clients_must_log_in_unless_the_listener_is_unprotected() {
    let Some(ip) = other_address() else {
        println!("this machine has no address but loopback: not tried");
        return;
    };
    let listen = |unprotected| ServerConfig { memcached: vec![ListenAddr::Tcp((ip, 0).into())], unprotected, ..both() };
    let running = start(listen(false));
    let mut local = resp(&running);
    assert_eq!(local.text("ACL SETUSER ann on >ann ~* &* +@all"), "+OK");
    let mut client = Client::connect(tcp(&running));
    let refusal = b"CLIENT_ERROR unauthenticated: clients on other hosts must log in (listen.unprotected)\r\n";
    for request in [&b"get k\r\n"[..], b"mg k v\r\n", b"stats\r\n", b"flush_all\r\n", b"mn\r\n"] {
        client.ask(request, refusal);
    }
    client.ask(b"set x 0 0 9\r\ndefault x\r\n", b"CLIENT_ERROR authentication failure\r\n");
    client.ask(b"get k\r\n", refusal);
    client.ask(b"set x 0 0 7\r\nann ann\r\n", b"STORED\r\n");
    client.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n");
    // A pipeline behind a login that fails is refused too.
    let mut other = Client::connect(tcp(&running));
    other.send(b"get k\r\nset x 0 0 5\r\nann x\r\nget k\r\n");
    other.expect(&[&refusal[..], b"CLIENT_ERROR authentication failure\r\n", refusal].concat());
    running.stop();
    let running = start(listen(true));
    Client::connect(tcp(&running)).ask(b"get k\r\n", b"END\r\n");
    running.stop();
}

/// Replies and errors of the commands that both servers support have the same text.
#[test]
fn an_operator_is_answered_as_by_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let mut differ = Vec::new();
    for words in [
        &[&b"CLIENT"[..], b"KILL", b"ID", b"0"][..],
        &[b"CLIENT", b"KILL", b"ID", b"12345678"],
        &[b"CLIENT", b"KILL", b"NOSUCH", b"1"],
        &[b"CLIENT", b"KILL", b"TYPE", b"nosuch"],
        &[b"CLIENT", b"KILL", b"1.1.1.1:1"],
        &[b"CLIENT", b"LIST", b"NOSUCH"],
        &[b"CLIENT", b"PAUSE", b"x"],
        &[b"CLIENT", b"PAUSE", b"5", b"x"],
        &[b"CLIENT", b"UNPAUSE"],
        &[b"CLIENT", b"GETREDIR"],
        &[b"CLIENT", b"NO-EVICT", b"on"],
        &[b"CLIENT", b"NO-EVICT", b"x"],
        &[b"CONFIG", b"SET", b"notify-keyspace-events", b"KEA"],
        &[b"CONFIG", b"GET", b"notify-keyspace-events"],
        &[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"-1"],
        &[b"CONFIG", b"GET", b"slowlog-log-slower-than"],
        &[b"CONFIG", b"RESETSTAT"],
        &[b"SLOWLOG", b"RESET"],
        &[b"SLOWLOG", b"LEN"],
        &[b"SLOWLOG", b"GET"],
        &[b"SLOWLOG", b"GET", b"-2"],
        &[b"SLOWLOG", b"GET", b"x"],
        &[b"LATENCY", b"LATEST"],
        &[b"LATENCY", b"HISTORY", b"nosuch"],
        &[b"LATENCY", b"RESET"],
        &[b"MEMORY", b"USAGE", b"nosuch"],
        &[b"MEMORY", b"USAGE", b"nosuch", b"SAMPLES"],
        &[b"MEMORY", b"USAGE", b"nosuch", b"SAMPLES", b"-1"],
        &[b"MEMORY", b"USAGE", b"nosuch", b"SAMPLES", b"x"],
        &[b"MEMORY", b"USAGE", b"nosuch", b"x"],
        &[b"CLIENT", b"KILL", b"USER", b"nosuch"],
        &[b"HELLO", b"x"],
        &[b"HELLO", b"2", b"x"],
        &[b"HELLO", b"2", b"AUTH", b"a"],
        &[b"HELLO", b"2", b"SETNAME"],
        &[b"SRANDMEMBER", b"nosuch", b"-9223372036854775808"],
        &[b"SRANDMEMBER", b"nosuch", b"-9223372036854775807"],
        &[b"SLOWLOG"],
        &[b"LATENCY"],
    ] {
        let (ours, theirs) = (text(&ours.ask(words)), text(&theirs.ask(words)));
        if ours != theirs {
            differ.push((words.iter().map(|word| text(word)).collect::<Vec<_>>(), ours, theirs));
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
    running.stop();
}

#[test]
fn script_that_may_write_waits_during_a_pause_of_writes() {
    let running = start(both());
    let (mut one, mut other) = (resp(&running), resp(&running));
    const LIBRARY: &[u8] = b"#!lua name=lib\n\
        redis.register_function('put', function(keys) return redis.call('SET', keys[1], 'w') end)\n\
        redis.register_function{function_name='see', flags={'no-writes'}, \
        callback=function(keys) return redis.call('GET', keys[1]) end}";
    assert_eq!(one.ask(&[b"FUNCTION", b"LOAD", LIBRARY]), b"$3\r\nlib\r\n");
    const PUT: &[u8] = b"return redis.call('SET', KEYS[1], 'w')";
    const SEE: &[u8] = b"#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])";
    let load = |client: &mut Replies, text: &[u8]| client.ask(&[b"SCRIPT", b"LOAD", text])[5..45].to_vec();
    let (put, see) = (load(&mut one, PUT), load(&mut one, SEE));
    other.ask(&[b"SET", b"k", b"v"]);
    for words in [[&b"EVAL"[..], PUT], [b"EVALSHA", &put], [b"FCALL", b"put"]] {
        assert_eq!(one.ask(&[b"CLIENT", b"PAUSE", b"60000", b"WRITE"]), b"+OK\r\n");
        for reads in [[&b"EVAL"[..], SEE], [b"EVALSHA", &see], [b"FCALL", b"see"], [b"EVAL_RO", b"return 'v'"]] {
            let seen = other.ask(&[reads[0], reads[1], b"1", b"k"]);
            assert_eq!(seen, b"$1\r\nv\r\n", "{:?} waits", String::from_utf8_lossy(reads[0]));
        }
        other.client.send(&request(&[words[0], words[1], b"1", b"k"]));
        for _ in 0..30 {
            assert_eq!(one.ask(&[b"GET", b"k"]), b"$1\r\nv\r\n", "{:?}", String::from_utf8_lossy(words[0]));
        }
        assert_eq!(one.ask(&[b"CLIENT", b"UNPAUSE"]), b"+OK\r\n");
        assert_eq!(other.next(), b"+OK\r\n");
        other.ask(&[b"SET", b"k", b"v"]);
    }
    // A script that is queued makes its transaction wait.
    assert_eq!(other.ask(&[b"MULTI"]), b"+OK\r\n");
    assert_eq!(other.ask(&[b"EVAL", PUT, b"1", b"k"]), b"+QUEUED\r\n");
    assert_eq!(one.ask(&[b"CLIENT", b"PAUSE", b"60000", b"WRITE"]), b"+OK\r\n");
    other.client.send(&request(&[b"EXEC"]));
    for _ in 0..30 {
        assert_eq!(one.ask(&[b"GET", b"k"]), b"$1\r\nv\r\n");
    }
    assert_eq!(one.ask(&[b"CLIENT", b"UNPAUSE"]), b"+OK\r\n");
    assert_eq!(other.next(), b"*1\r\n+OK\r\n");
    running.stop();
}

/// Requests before and after a reset begin in the same millisecond.
#[test]
fn reset_of_the_slow_log_removes_all_earlier_requests_and_no_later_one() {
    let running = start(both());
    let mut client = resp(&running);
    client.ask(&[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"]);
    for round in 0..100 {
        for _ in 0..3 {
            client.ask(&[b"GET", b"old"]);
        }
        assert_eq!(client.ask(&[b"SLOWLOG", b"RESET"]), b"+OK\r\n");
        client.ask(&[b"GET", b"new"]);
        let log = String::from_utf8(client.ask(&[b"SLOWLOG", b"GET", b"128"])).unwrap();
        assert!(log.contains("\r\nnew\r\n") && !log.contains("\r\nold\r\n"), "round {round}: {log}");
    }
    client.ask(&[b"LATENCY", b"RESET"]);
    client.ask(&[b"GET", b"new"]);
    assert!(client.ask(&[b"LATENCY", b"HISTORY", b"command"]).starts_with(b"*"));
    running.stop();
}
