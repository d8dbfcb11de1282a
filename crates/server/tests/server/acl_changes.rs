//! Tests of changes of users while their clients queue requests, wait, subscribe or monitor, beside Debian's Redis.

use crate::common::redis::{Redis, both, reply_len, request, resp_addr, words};
use crate::common::{Client, start};
use gannet_server::start::ServerConfig;
use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::time::Duration;

/// A client of a scenario.
struct Actor {
    client: Client,
    held: Vec<u8>,
}

impl Actor {
    /// Returns the next reply or message, or `closed` if the server has closed the connection.
    fn next(&mut self) -> String {
        loop {
            if let Some(len) = reply_len(&self.held) {
                return self.held.drain(..len).collect::<Vec<_>>().escape_ascii().to_string();
            }
            let mut room = [0; 4096];
            match self.client.stream.read(&mut room) {
                Ok(0) => return "closed".to_owned(),
                Ok(bytes) => self.held.extend_from_slice(&room[..bytes]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return "closed".to_owned(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Returns the reply to a request. A server that closes the connection may not read the request.
    fn ask(&mut self, line: &str) -> String {
        use std::io::Write;
        let _ = self.client.stream.write_all(&request(&words(line)));
        self.next()
    }
}

/// Removes the time and the address from a line for monitoring clients.
fn without_origin(line: &str) -> String {
    match line.split_once("] ") {
        Some((_, words)) if line.starts_with('+') => words.to_owned(),
        _ => line.to_owned(),
    }
}

/// Executes a scenario at a server, and returns all replies. Each step has the number of a client and a request. A step
/// with `>` instead of a number only receives. A step with `!` only sends.
fn replies(addr: SocketAddr, steps: &str) -> Vec<String> {
    let mut actors: Vec<Actor> = (0..3).map(|_| Actor { client: Client::connect(addr), held: Vec::new() }).collect();
    let mut all = Vec::new();
    for step in steps.split(';') {
        let (who, line) = step.split_once(' ').expect("a step");
        let actor = &mut actors[usize::from(who.as_bytes()[0] - b'0')];
        let reply = match &who[1..] {
            ">" => without_origin(&actor.next()),
            "!" => {
                actor.client.send(&request(&words(line)));
                // The request is received before the next step.
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            _ => actor.ask(line),
        };
        all.push(format!("{step}: {reply}"));
    }
    all
}

/// Steps that create a user, as whom client 1 authenticates.
const USER: &str = "0 ACL SETUSER u on >p ~* &* +@all;1 AUTH u p";

#[test]
fn changed_rights_reach_queued_waiting_and_monitoring_clients_as_in_redis() {
    let scenarios = [
        "1 MULTI;1 SET k v;1 GET k;0 ACL SETUSER u -set;1 EXEC;1 GET k",
        "1 MULTI;1 SET k v;0 ACL SETUSER u resetkeys ~x*;1 EXEC",
        "1 MULTI;1 PUBLISH c v;0 ACL SETUSER u resetchannels;1 EXEC",
        "1 MULTI;1 CONFIG GET save;0 ACL SETUSER u -config|get;1 EXEC",
        "1 MULTI;1 SET k v;0 ACL SETUSER u -@all;1 EXEC;1 DISCARD;0 ACL SETUSER u +@all;1 EXEC",
        "1 MULTI;1 GET k;0 ACL SETUSER u -exec;1 EXEC;0 ACL SETUSER u +exec;1 EXEC;1 GET k",
        "1 WATCH k;1 MULTI;0 ACL SETUSER u -get;1 GET k;1 EXEC;1 PING",
        "1 MULTI;0 ACL DELUSER u;1 PING",
        "1 MULTI;1 SET k v;0 ACL SETUSER u off;1 EXEC;1 GET k",
        "0 ACL SETUSER u resetpass;1 GET k;0 ACL SETUSER u reset;1 GET k;1 PING",
        "0 ACL DELUSER u;0 ACL SETUSER u on >p ~* +@all;1 GET k",
        "1 MONITOR;0 ACL SETUSER u -monitor;0 PING;1> PING;0 GET k;1> GET",
        "1 MONITOR;0 ACL SETUSER u resetchannels resetkeys;0 PING;1> PING",
        "1 MONITOR;0 ACL DELUSER u;1> end",
        "1 MONITOR;0 ACL SETUSER u off;0 PING;1> PING",
        "2 MONITOR;1 GET;1 NEVERHEARD;1 CLIENT NOSUCH;1 PING;2> PING",
        "0 ACL SETUSER u -get;2 MONITOR;1 GET k;1 INCR none x;1 PING;2> PING",
        "2 MONITOR;1 MULTI;1 SET k v;1 GET;1 EXEC;1 PING;2> MULTI;2> PING",
        "2 MONITOR;1 MULTI;1 SET k v;1 INCR k;1 EXEC;2> MULTI;2> SET;2> INCR;2> EXEC",
        "2 MONITOR;1 CONFIG GET nosuch;1 CLIENT KILL ID 9999;1 CLIENT GETNAME;2> name;1 SLOWLOG LEN;1 ROLE;2> x",
        "1 MULTI;1 GET k;1 EXEC x;1 EXEC",
        "0 CLIENT PAUSE 60000 WRITE;1! SET paused v;0 ACL SETUSER u -set;0 CLIENT UNPAUSE;1> reply",
        "0 CLIENT PAUSE 60000 WRITE;1! SET paused v;0 ACL SETUSER u resetkeys;0 CLIENT UNPAUSE;1> reply",
        "0 CLIENT PAUSE 60000 WRITE;1! SET paused v;0 ACL DELUSER u;1> end;0 CLIENT UNPAUSE;0 EXISTS paused",
        "1 SUBSCRIBE c;0 ACL SETUSER u -subscribe;0 PUBLISH c x;1> message",
        "1 SUBSCRIBE c;0 ACL SETUSER u resetchannels;1> end",
        "1 SUBSCRIBE c;0 ACL SETUSER u off;0 PUBLISH c x;1> message",
        "1 HELLO 3;1 SUBSCRIBE c;0 ACL SETUSER u -@all +get;0 PUBLISH c x;1> message;1 SET k v;1 UNSUBSCRIBE",
    ];
    let (redis, running) = (Redis::start(), start(both()));
    let mut differences = Vec::new();
    for scenario in scenarios {
        let steps = format!("0 FLUSHALL;{USER};{scenario};0 ACL DELUSER u");
        let (ours, theirs) = (replies(resp_addr(&running), &steps), replies(redis.addr, &steps));
        let changed = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs && !ours.starts_with("1 HELLO"));
        differences.extend(changed.map(|(ours, theirs)| format!("{scenario}\nours:   {ours}\ntheirs: {theirs}")));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    running.stop();
}

/// Waits until the server has closed the client's connection.
fn expect_closed(actor: &mut Actor, what: &str) {
    let end = std::time::Instant::now() + Duration::from_secs(10);
    while actor.next() != "closed" {
        assert!(std::time::Instant::now() < end, "{what}");
    }
}

/// As in Redis, clients of RESP stay; memcached clients must authenticate, and watchers send no request.
#[test]
fn watcher_is_closed_once_the_server_requires_authentication() {
    for change in ["CONFIG SET requirepass secret", "ACL SETUSER default >secret", "ACL SETUSER default off"] {
        let running = start(both());
        let mut admin = crate::common::redis::resp(&running);
        let mut watcher = Client::connect(crate::common::tcp(&running));
        watcher.ask(b"watch mutations\r\n", b"OK\r\n");
        assert_eq!(admin.text(change), "+OK");
        watcher.stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        watcher.read_to_end();
        running.stop();
    }
}

/// A reload of the file and other changes that no client has called end the clients of removed users too.
#[test]
fn clients_of_a_user_that_a_reload_removes_are_closed_whatever_they_wait_for() {
    let path = std::env::temp_dir().join(format!("gannet-acl-removed-{}", std::process::id()));
    let root = "user root on >root ~* &* +@all\nuser default off\n";
    std::fs::write(&path, format!("{root}user ann on >ann ~* &* +@all\n")).unwrap();
    let running = start(ServerConfig { acl_file: Some(path.clone()), ..both() });
    let addr = resp_addr(&running);
    let passive = ["PING", "SUBSCRIBE c", "BLPOP list 0", "BLMOVE a b LEFT LEFT 0", "MONITOR"].map(|line| {
        let mut actor = Actor { client: Client::connect(addr), held: Vec::new() };
        assert_eq!(actor.ask("AUTH ann ann"), "+OK\\r\\n");
        actor.client.send(&request(&words(line)));
        (line, actor)
    });
    let mut watcher = Client::connect(crate::common::tcp(&running));
    watcher.ask(b"set x 0 0 7\r\nann ann\r\nwatch mutations\r\n", b"STORED\r\nOK\r\n");
    std::thread::sleep(Duration::from_millis(50));
    std::fs::write(&path, root).unwrap();
    running.shared().reload_users();
    for (line, mut actor) in passive {
        expect_closed(&mut actor, line);
    }
    watcher.stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    watcher.read_to_end();
    std::fs::remove_file(&path).unwrap();
    running.stop();
}

#[test]
fn user_of_a_namespace_is_not_told_of_keys_of_another_by_tracking() {
    let running = start(both());
    let mut admin = crate::common::redis::resp(&running);
    assert_eq!(admin.text("ACL SETUSER ann on >ann ~* &* +@all ns=5"), "+OK");
    let mut ann = crate::common::redis::resp(&running);
    assert_eq!(ann.text("AUTH ann ann"), "+OK");
    assert!(ann.text("HELLO 3").starts_with('%'));
    for line in ["CLIENT TRACKING ON BCAST", "CLIENT TRACKING ON", "GET k"] {
        assert!(ann.text(line).starts_with("-NOPERM"), "{line}");
    }
    assert_eq!((ann.text("SELECT 5"), ann.text("CLIENT TRACKING ON BCAST")), ("+OK".to_owned(), "+OK".to_owned()));
    running.stop();
}

/// A user that may write keys must not change what other users execute.
#[test]
fn role_write_cannot_change_functions_scripts_users_or_settings() {
    let running = start(both());
    let mut admin = crate::common::redis::resp(&running);
    assert_eq!(admin.text("ACL SETUSER ann on >ann ~* &* role:write"), "+OK");
    let mut ann = crate::common::redis::resp(&running);
    assert_eq!(ann.text("AUTH ann ann"), "+OK");
    for line in [
        "FUNCTION LOAD #!lua",
        "FUNCTION DELETE x",
        "FUNCTION FLUSH",
        "FUNCTION RESTORE x",
        "SCRIPT FLUSH",
        "EVAL return(1) 0",
        "CONFIG SET timeout 1",
        "ACL LIST",
        "DEBUG SLEEP 0",
        "FLUSHALL",
        "SWAPDB 0 1",
        "CLIENT KILL ID 1",
        "CLIENT PAUSE 1",
        "MONITOR",
    ] {
        let reply = ann.text(line);
        assert!(reply.starts_with("-NOPERM"), "{line}: {reply}");
    }
    assert_eq!(ann.text("SET k v"), "+OK");
    running.stop();
}
