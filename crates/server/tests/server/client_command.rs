//! Tests of `CLIENT REPLY`, `CLIENT PAUSE`, and the fields of `CLIENT LIST`, beside Debian's Redis.

use crate::common::redis::{Redis, Replies, addr, both, request, resp, resp_addr, words};
use crate::common::{Client, start, wait_until};
use command::clients::endpoint::Protocol;
use gannet_server::start::{Running, ServerConfig};
use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Sends the commands, which semicolons separate, as one pipeline over a new connection. Returns all replies. The reply
/// to the last command ends with `end`.
fn pipeline(addr: SocketAddr, commands: &str, end: &[u8]) -> String {
    let mut client = Client::connect(addr);
    let bytes: Vec<u8> = commands.split(';').flat_map(|line| request(&words(line))).collect();
    client.send(&bytes);
    let (mut got, mut room) = (Vec::new(), [0; 4096]);
    while !got.ends_with(end) {
        let bytes = client.stream.read(&mut room).expect("a reply");
        assert!(bytes > 0, "{commands}: closed behind {}", got.escape_ascii());
        got.extend_from_slice(&room[..bytes]);
    }
    got.escape_ascii().to_string()
}

/// Pipelines of clients that switch replies off.
const SWITCHES: [&str; 25] = [
    "CLIENT REPLY SKIP;PING;ECHO a",
    "CLIENT REPLY SKIP;CLIENT REPLY SKIP;ECHO a;ECHO b",
    "CLIENT REPLY SKIP;CLIENT REPLY ON;ECHO a",
    "CLIENT REPLY SKIP;CLIENT REPLY OFF;ECHO a;ECHO b;CLIENT REPLY ON;ECHO c",
    "CLIENT REPLY OFF;CLIENT REPLY SKIP;ECHO a;CLIENT REPLY ON;ECHO b",
    "CLIENT REPLY OFF;SUBSCRIBE a b;CLIENT REPLY ON;PING;UNSUBSCRIBE a;UNSUBSCRIBE;PING",
    "CLIENT REPLY OFF;SSUBSCRIBE s;SUNSUBSCRIBE;PSUBSCRIBE p;PUNSUBSCRIBE;UNSUBSCRIBE",
    "CLIENT REPLY SKIP;SUBSCRIBE a b;PING",
    "CLIENT REPLY SKIP;UNSUBSCRIBE;PING",
    "SUBSCRIBE a;CLIENT REPLY OFF;PING;CLIENT REPLY ON;PING",
    "CLIENT REPLY OFF;MULTI;SET k 1;GET k;EXEC;CLIENT REPLY ON;ECHO c",
    "CLIENT REPLY SKIP;MULTI;SET k 1;EXEC;ECHO c",
    "MULTI;CLIENT REPLY OFF;ECHO a;GET k;EXEC;ECHO b;CLIENT REPLY ON;ECHO c",
    "MULTI;ECHO x;CLIENT REPLY OFF;CLIENT REPLY ON;ECHO y;EXEC;ECHO d",
    "SET k v;MULTI;CLIENT REPLY SKIP;GET k;EXEC;ECHO c;ECHO d",
    "CLIENT REPLY SKIP;MULTI;CLIENT REPLY SKIP;EXEC;PING;PING",
    "CLIENT REPLY SKIP;EXEC;PING",
    "CLIENT REPLY SKIP;RESET;PING",
    "CLIENT REPLY OFF;RESET;PING",
    "CLIENT REPLY SKIP;FOO;PING",
    "CLIENT REPLY SKIP;GET;CLIENT NOSUCH;PING",
    "CLIENT REPLY OFF;MSET a 1 b 2;MGET a b;CLIENT REPLY SKIP;DEL a b;GET a;CLIENT REPLY ON;EXISTS a b",
    "CLIENT REPLY SKIP;MSET a 1 b 2;MGET a b",
    "CLIENT REPLY x;CLIENT REPLY;CLIENT REPLY ON x;CLIENT REPLY SKIP;CLIENT REPLY x;PING;PING",
    "CLIENT REPLY OFF;HELLO 3;CLIENT REPLY ON;PING",
];

/// A client that misses one reply, or receives one too many, takes every later reply for that to another request.
#[test]
fn client_with_replies_off_receives_the_same_bytes_as_from_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    for version in ["2", "3"] {
        for commands in SWITCHES {
            let commands = format!("{commands};RESET;PING;ECHO the-end");
            let ask = |addr| pipeline(addr, &format!("HELLO {version};{commands}"), b"$7\r\nthe-end\r\n");
            let (ours, theirs) = (ask(resp_addr(&running)), ask(redis.addr));
            // The replies to HELLO differ.
            let replies = |all: &str| all.split_once("modules\\r\\n*0\\r\\n").expect("HELLO").1.to_owned();
            assert_eq!(replies(&ours), replies(&theirs), "{commands} in version {version}");
        }
    }
    running.stop();
}

#[test]
fn subscriber_with_replies_off_receives_messages() {
    let running = start(both());
    for version in ["2", "3"] {
        let (mut subscriber, mut publisher) = (resp(&running), resp(&running));
        subscriber.text(&format!("HELLO {version}"));
        subscriber.client.send(&request(&words("CLIENT REPLY OFF")));
        assert!(subscriber.text("SUBSCRIBE c").ends_with("$9 subscribe $1 c :1"));
        assert_eq!(publisher.text("PUBLISH c text"), ":1");
        assert!(String::from_utf8(subscriber.next()).expect("text").ends_with("$1\r\nc\r\n$4\r\ntext\r\n"));
        subscriber.client.send(&request(&words("PING")));
        assert!(subscriber.text("UNSUBSCRIBE c").ends_with("$11 unsubscribe $1 c :0"), "PING is not answered");
    }
    running.stop();
}

/// Returns the value of a field of `INFO clients`.
fn info(client: &mut Replies, name: &str) -> String {
    let text = String::from_utf8(client.ask(&[b"INFO", b"clients"])).expect("text");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.expect("the field").to_owned()
}

/// Returns true if a request of a new client waits, because clients are paused, and false if it gets a reply.
fn waits(control: &mut Replies, addr: SocketAddr, commands: &str) -> bool {
    let mut client = Client::connect(addr);
    commands.split(';').for_each(|line| client.send(&request(&words(line))));
    client.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let replies = commands.split(';').count();
    let mut got = Vec::new();
    for _ in 0..10_000 {
        let mut room = [0; 4096];
        if let Ok(bytes) = client.stream.read(&mut room) {
            got.extend_from_slice(&room[..bytes]);
        }
        if got.iter().filter(|byte| **byte == b'\n').count() >= replies {
            return false;
        }
        if info(control, "blocked_clients") == "1" {
            return true;
        }
    }
    panic!("{commands}: neither answered nor waiting");
}

#[test]
fn pause_of_writes_delays_the_same_commands_as_in_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let addrs = [resp_addr(&running), redis.addr];
    let [mut ours, mut theirs] = addrs.map(Replies::connect);
    for commands in [
        "GET k",
        "SET k 1",
        "SET k",
        "PUBLISH a b",
        "SPUBLISH a b",
        "EXISTS k",
        "EXPIRE k 1",
        "FLUSHALL",
        "MULTI;EXEC",
        "MULTI;GET k;EXEC",
        "MULTI;SET k 1",
        "MULTI;PUBLISH a b",
        "SUBSCRIBE a",
        "CLIENT ID",
        "XGROUP CREATE k g $",
        "XGROUP HELP",
        "XINFO STREAM k",
        "OBJECT ENCODING k",
        "MEMORY USAGE k",
        "FUNCTION FLUSH",
        "FUNCTION LIST",
        "MULTI;XGROUP CREATE k g $",
        "PING",
    ] {
        let [ours, theirs] = [(&mut ours, addrs[0]), (&mut theirs, addrs[1])].map(|(control, addr)| {
            assert_eq!(control.text("CLIENT PAUSE 60000 WRITE"), "+OK");
            let waits = waits(control, addr, commands);
            assert_eq!(control.text("CLIENT UNPAUSE"), "+OK");
            wait_until("the end of the pause", || info(control, "blocked_clients") == "0");
            waits
        });
        assert_eq!(ours, theirs, "{commands}");
    }
    for line in [
        "CLIENT PAUSE x",
        "CLIENT PAUSE -1",
        "CLIENT PAUSE 9223372036854775807",
        "CLIENT UNPAUSE",
        "CLIENT PAUSE x y",
        "CLIENT PAUSE 1 WRITE x",
        "CLIENT PAUSE 0",
        "CLIENT UNPAUSE x",
    ] {
        assert_eq!(ours.text(line), theirs.text(line), "{line}");
    }
    running.stop();
}

#[test]
fn info_counts_the_clients_that_a_pause_delays_until_they_leave_or_it_ends() {
    let running = start(ServerConfig { workers: 2, ..both() });
    let mut control = resp(&running);
    control.text("CLIENT PAUSE 60000 WRITE");
    let mut waiting: Vec<Replies> = (0..3).map(|_| resp(&running)).collect();
    waiting.iter_mut().for_each(|client| client.client.send(&request(&[b"SET", b"k", b"v"])));
    wait_until("three to wait", || info(&mut control, "blocked_clients") == "3");
    let listed = |control: &mut Replies| control.text("CLIENT LIST").matches(" flags=b ").count();
    assert_eq!(listed(&mut control), 3);
    let all = control.text("CLIENT LIST");
    let delayed = all.split("id=").find(|line| line.contains(" flags=b ")).expect("a client that waits");
    let id = delayed.split(' ').next().expect("its number");
    assert_eq!(control.text(&format!("CLIENT KILL ID {id}")), ":1");
    wait_until("one to leave", || info(&mut control, "blocked_clients") == "2");
    // A later, weaker and shorter pause changes nothing.
    control.text("CLIENT PAUSE 60000 ALL");
    control.client.send(&request(&words("CLIENT PAUSE 1 WRITE")));
    let mut reader = resp(&running);
    reader.client.send(&request(&[b"GET", b"k"]));
    wait_until("the reader and the control to wait", || paused(&running) == 4);
    running.shared().live.pause.end();
    assert_eq!(control.next(), b"+OK\r\n");
    control.text("CLIENT UNPAUSE");
    let mut replied = 0;
    for client in &mut waiting {
        let mut reply = [0; 5];
        replied += usize::from(client.client.stream.read_exact(&mut reply).is_ok_and(|()| &reply == b"+OK\r\n"));
    }
    assert_eq!(replied, 2, "all but the killed client");
    assert!(reader.next().starts_with(b"$"));
    assert_eq!((info(&mut control, "blocked_clients").as_str(), listed(&mut control)), ("0", 0));
    running.stop();
}

/// Returns the number of clients that wait in the current pause.
fn paused(running: &Running) -> u64 {
    running.shared().workers.iter().map(|worker| worker.counters.paused_clients.value()).sum()
}

#[test]
fn pause_of_all_delays_the_same_commands_as_in_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let addrs = [resp_addr(&running), redis.addr];
    let lines = [
        "PING",
        "CLIENT UNPAUSE",
        "CLIENT ID",
        "CLIENT LIST",
        "CLIENT PAUSE 1",
        "CLIENT NONE",
        "CLIENT",
        "GET",
        "NONE",
        "MULTI",
        "QUIT",
        "RESET",
        "AUTH a b",
        "HELLO 9",
        "INFO",
        "SUBSCRIBE a",
        "SET k v",
    ];
    let begun = addrs.map(|addr| {
        assert_eq!(Replies::connect(addr).text("CLIENT PAUSE 20000 ALL"), "+OK");
        let begin = |line: &&str| {
            let mut client = Client::connect(addr);
            client.send(&request(&words(line)));
            client
        };
        let clients = lines.iter().map(begin).collect::<Vec<Client>>();
        // Both servers read requests in the order of their arrival. When a later request has been refused, which no
        // pause delays, the requests above have been read; after the next one, they have been replied to.
        (0..2).for_each(|_| assert!(Replies::connect(addr).text("NONE").starts_with("-ERR unknown command")));
        clients
    });
    let waits = begun.map(|clients: Vec<Client>| {
        let waits = |client: Client| {
            client.stream.set_nonblocking(true).expect("a socket");
            (&client.stream).read(&mut [0; 4096]).is_err()
        };
        clients.into_iter().map(waits).collect::<Vec<bool>>()
    });
    let of = |waits: &[bool]| lines.iter().zip(waits.to_vec()).map(|(line, waits)| (*line, waits)).collect::<Vec<_>>();
    assert_eq!(of(&waits[0]), of(&waits[1]));
    assert!(waits[0].contains(&true) && waits[0].contains(&false));
    running.stop();
}

#[test]
fn client_that_leaves_during_a_pause_frees_its_slot_and_its_request_is_dropped() {
    let running = start(both());
    let (mut control, mut gone, mut memcached) =
        (resp(&running), resp(&running), Client::connect(addr(&running, Protocol::Memcache)));
    control.text("SET k v");
    control.text("CLIENT PAUSE 60000 WRITE");
    gone.client.send(&request(&[b"SET", b"k", b"w"]));
    memcached.send(b"set k 0 0 1\r\nx\r\n");
    wait_until("the client to wait", || info(&mut control, "blocked_clients") == "1");
    let open = || running.shared().connections_open();
    assert_eq!(open(), 3);
    drop((gone, memcached));
    wait_until("both to leave", || open() == 1);
    assert_eq!((info(&mut control, "blocked_clients").as_str(), paused(&running)), ("0", 0));
    assert_eq!((control.text("CLIENT UNPAUSE").as_str(), control.text("GET k").as_str()), ("+OK", "$1 v"));
    running.stop();
}

fn field<'l>(line: &'l str, name: &str) -> &'l str {
    line.split([' ', '\n']).find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).expect("the field")
}

#[test]
fn fields_of_client_info_are_those_of_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let begun = Instant::now();
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    for line in ["CLIENT INFO", "CLIENT LIST", "CLIENT LIST TYPE normal"] {
        let (ours, theirs) = (ours.text(line), theirs.text(line));
        for name in ["qbuf", "argv-mem", "multi", "multi-mem", "obl", "oll", "omem", "events", "cmd", "flags"] {
            assert_eq!(field(&ours, name), field(&theirs, name), "{line}: {name}\n{ours}\n{theirs}");
        }
        let number = |name| field(&ours, name).parse::<u64>().expect("a number");
        // A client that has just sent a request may have waited for its turn on a busy machine.
        assert!(number("idle") <= begun.elapsed().as_secs(), "{ours}");
        assert!(number("tot-mem") > number("qbuf") + number("qbuf-free") && number("qbuf-free") > 0, "{ours}");
    }
    // An open transaction, and the last command with its subcommand, are visible to other clients.
    let [mut our_other, mut their_other] = [resp_addr(&running), redis.addr].map(Replies::connect);
    for (client, other) in [(&mut our_other, &mut ours), (&mut their_other, &mut theirs)] {
        for line in ["CLIENT SETNAME other", "MULTI", "SET k v", "CLIENT GETNAME"] {
            client.text(line);
        }
        let line = |other: &mut Replies| {
            let all = other.text("CLIENT LIST");
            all.split("id=").find(|line| line.contains(" name=other ")).expect("its line").to_owned()
        };
        wait_until("the sweep", || field(&line(other), "cmd") == "client|getname");
        let line = line(other);
        assert_eq!((field(&line, "multi"), field(&line, "flags"), field(&line, "events")), ("2", "x", "r"), "{line}");
        assert!(field(&line, "multi-mem").parse::<u64>().expect("a number") > 0, "{line}");
    }
    running.stop();
}

#[test]
fn reset_retains_the_library_of_the_client() {
    let running = start(both());
    let mut client = resp(&running);
    for line in ["CLIENT SETINFO lib-name mine", "CLIENT SETINFO lib-ver 1.2", "CLIENT SETNAME me"] {
        assert_eq!(client.text(line), "+OK");
    }
    assert_eq!(client.text("RESET"), "+RESET");
    let line = client.text("CLIENT INFO");
    assert_eq!(
        (field(&line, "lib-name"), field(&line, "lib-ver"), field(&line, "name")),
        ("mine", "1.2", ""),
        "{line}"
    );
    running.stop();
}
