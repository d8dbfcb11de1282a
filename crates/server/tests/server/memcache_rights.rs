//! Tests of the rights of memcached clients: the users of `ACL` log in, and no request goes beyond their rights.

use crate::common::redis::{Replies, both, resp};
use crate::common::{Client, start, tcp, value, wait_until};
use command::keyspace::namespace_config::NamespaceConfig;
use gannet_server::start::{Running, ServerConfig};

const REFUSED: &[u8] = b"CLIENT_ERROR no permission\r\n";

/// Starts a server whose user `default` needs a password. Returns it with a Redis client that may do everything.
fn guarded(config: ServerConfig) -> (Running, Replies) {
    let running = start(config);
    let mut admin = resp(&running);
    for line in ["ACL SETUSER root on >root ~* &* +@all", "AUTH root root", "ACL SETUSER default off"] {
        assert_eq!(admin.text(line), "+OK", "{line}");
    }
    (running, admin)
}

fn log_in(running: &Running, user: &str, password: &str) -> Client {
    let mut client = Client::connect(tcp(running));
    let login = format!("{user} {password}");
    client.ask(format!("set x 0 0 {}\r\n{login}\r\n", login.len()).as_bytes(), b"STORED\r\n");
    client
}

/// Checks that each request is refused, and that the connection then executes further requests.
fn refuse(client: &mut Client, requests: &[&str]) {
    for request in requests {
        client.ask(format!("{request}\r\nmn\r\n").as_bytes(), &[REFUSED, b"MN\r\n"].concat());
    }
}

#[test]
fn memcached_request_needs_the_right_to_the_redis_command_that_does_the_same() {
    let (running, mut admin) = guarded(ServerConfig { dump_command: true, flush_command: true, ..both() });
    assert_eq!(admin.text("MSET n 1 k v"), "+OK");
    // Each command with a request that needs it, and the beginning of its reply.
    let table = [
        ("get", "get k", "VALUE k 0 1\r\nv\r\nEND"),
        ("get", "gets k none", "VALUE k 0 1 "),
        ("get", "mg k v", "VA 1\r\nv"),
        ("get", "me k", "ME k "),
        ("getex", "gat 0 k", "VALUE k 0 1\r\nv\r\nEND"),
        ("getex", "mg k v T0", "VA 1\r\nv"),
        ("getex", "mg none N5", "HD"),
        ("set", "set s 0 0 2\r\nhi", "STORED"),
        ("set", "add s 0 0 2\r\nhi", "NOT_STORED"),
        ("set", "append s 0 0 2\r\nhi", "STORED"),
        ("set", "ms s 2\r\nhi", "HD"),
        ("del", "delete s", "DELETED"),
        ("del", "md none", "HD"),
        ("incrby", "incr n 1", "2"),
        ("incrby", "ma n", "HD"),
        ("decrby", "decr n 1", "2"),
        ("expire", "touch n 0", "TOUCHED"),
        ("config|resetstat", "stats detail on", "OK"),
        ("config|resetstat", "stats reset", "RESET"),
        ("info", "stats settings", "STAT "),
        ("keys", "lru_crawler metadump all", "key="),
        ("keys", "stats cachedump 1 1", "ITEM "),
        ("config|set", "cache_memlimit 64", "OK"),
        ("config|set", "shutdown", "ERROR: shutdown not enabled"),
        ("flushdb", "flush_all", "OK"),
        ("monitor", "watch fetchers", "OK"),
    ];
    for (command, request, reply) in table {
        assert_eq!(admin.text("ACL SETUSER ann reset on >a ~* +@all"), "+OK");
        assert_eq!(admin.text(&format!("ACL SETUSER ann -{command}")), "+OK");
        let mut client = log_in(&running, "ann", "a");
        refuse(&mut client, &[request]);
        assert_eq!(admin.text(&format!("ACL SETUSER ann -@all +{command}")), "+OK");
        client.send(format!("{request}\r\n").as_bytes());
        let mut begin = vec![0; reply.len()];
        std::io::Read::read_exact(&mut client.stream, &mut begin).unwrap();
        assert_eq!(String::from_utf8_lossy(&begin), reply, "{command}: {request}");
    }
    let log = admin.text("ACL LOG 1");
    assert!(log.contains(" monitor ") && log.contains(" ann ") && log.contains("protocol=memcached"), "{log}");
    running.stop();
}

#[test]
fn key_outside_the_patterns_is_refused_in_runs_long_retrievals_and_values() {
    let (running, mut admin) = guarded(both());
    assert_eq!(admin.text("ACL SETUSER ann on >a ~a:* %R~r:* %W~w:* +@all"), "+OK");
    assert_eq!(admin.text("MSET a:1 1 r:1 1 w:1 1 x 1"), "+OK");
    let mut client = log_in(&running, "ann", "a");
    let long = format!("get {} x", ["a:1"; 100].join(" "));
    refuse(
        &mut client,
        &["get x", "get a:1 x", "get w:1", "gat 0 r:1", "delete r:1", "incr w:1 1", "touch r:1 0", "mg x v", &long],
    );
    // The value of a refused request is discarded, however long it is, and is not executed.
    let large = format!("set x 0 0 300000\r\n{}", "flush_all\r\n".repeat(30_000).split_at(300_000).0);
    refuse(&mut client, &["set r:1 0 0 7\r\nget a:1", "ms x 2\r\nhi", &large]);
    client.ask(b"set x 0 0 1 noreply\r\nv\r\nmn\r\n", b"MN\r\n");
    let got = value("a:1", b"1");
    let one = got.strip_suffix(b"END\r\n").unwrap();
    client.ask(b"get a:1\r\nget x\r\nget a:1\r\n", &[&got, REFUSED, &got].concat());
    client.ask(b"get a:1 r:1\r\n", &[one, &value("r:1", b"1")].concat());
    client.ask(b"set w:1 0 0 1\r\n2\r\ntouch w:1 0\r\n", b"STORED\r\nTOUCHED\r\n");
    assert_eq!(admin.text("MGET x w:1 r:1"), "*3 $1 1 $1 2 $1 1");
    // New rules apply to the next request, and the end of the user ends its connection.
    assert_eq!(admin.text("ACL SETUSER ann allkeys"), "+OK");
    client.ask(b"get x\r\n", &value("x", b"1"));
    assert_eq!(admin.text("ACL DELUSER ann"), ":1");
    let _ = std::io::Write::write_all(&mut client.stream, b"get x\r\n");
    let mut rest = Vec::new();
    let _ = std::io::Read::read_to_end(&mut client.stream, &mut rest);
    assert_eq!(String::from_utf8_lossy(&rest), "", "the user is gone");
    running.stop();
}

#[test]
fn user_of_a_namespace_reaches_no_other_by_its_keys_or_by_flush_all() {
    let shop =
        NamespaceConfig { name: "shop".to_owned(), prefixes: vec!["shop:".into()], ..NamespaceConfig::plain(3, true) };
    let (running, mut admin) = guarded(ServerConfig { namespaces: vec![shop], flush_command: true, ..both() });
    assert_eq!(admin.text("ACL SETUSER ann on >a ~* +@all ns=shop"), "+OK");
    let mut client = log_in(&running, "ann", "a");
    client.ask(b"set shop:1 0 0 1\r\nv\r\nget shop:1\r\n", &[b"STORED\r\n", &value("shop:1", b"v")[..]].concat());
    refuse(&mut client, &["get x", "get shop:1 x", "set x 0 0 1\r\nv", "flush_all"]);
    running.stop();
}

/// A client must not send requests for ever because users changed while its value was on the way.
#[test]
fn client_in_the_middle_of_a_value_must_authenticate_before_its_next_request() {
    let running = start(both());
    let mut admin = resp(&running);
    let mut client = Client::connect(tcp(&running));
    client.send(&[b"set big 0 0 400000\r\n", &[b'x'; 200_000][..]].concat());
    // Otherwise the login would come before the value.
    wait_until("the beginning of the value", || {
        running.shared().workers.iter().map(|worker| worker.counters.bytes_read.value()).sum::<u64>() >= 100_000
    });
    assert_eq!(admin.text("ACL SETUSER root on >root ~* &* +@all"), "+OK");
    assert_eq!(admin.text("ACL SETUSER default >secret"), "+OK");
    let rest = [&[b'x'; 200_000][..], b"\r\nset k 0 0 400000\r\n", &[b'y'; 100][..]].concat();
    client.ask(&rest, b"STORED\r\n");
    let mut reply = [0; 20];
    std::io::Read::read_exact(&mut client.stream, &mut reply).unwrap();
    assert_eq!(reply.escape_ascii().to_string(), "CLIENT_ERROR bad aut", "a value of 400 kB is no login");
    assert_eq!((admin.text("AUTH root root"), admin.text("EXISTS k big")), ("+OK".into(), ":1".into()));
    running.stop();
}

#[test]
fn file_users_and_default_with_all_rights_are_not_limited() {
    let file = std::env::temp_dir().join(format!("gannet-rights-{}-{}", std::process::id(), crate::common::io() as u8));
    std::fs::write(&file, "old:secret\n").unwrap();
    let running = start(ServerConfig { auth_file: Some(file.clone()), flush_command: true, ..both() });
    let mut admin = resp(&running);
    assert_eq!(
        (admin.text("AUTH old secret"), admin.text("ACL SETUSER ann on >a ~a* +get")),
        ("+OK".into(), "+OK".into())
    );
    log_in(&running, "old", "secret").ask(b"set x 0 0 1\r\nv\r\nflush_all\r\n", b"STORED\r\nOK\r\n");
    refuse(&mut log_in(&running, "ann", "a"), &["get x", "set a 0 0 1\r\nv"]);
    let mut wrong = Client::connect(tcp(&running));
    wrong.ask(b"set x 0 0 5\r\nann b\r\n", b"CLIENT_ERROR authentication failure\r\n");
    std::fs::remove_file(&file).unwrap();
    running.stop();
    let running = start(ServerConfig { flush_command: true, ..both() });
    let mut admin = resp(&running);
    assert_eq!(admin.text("ACL SETUSER ann on >a ~a* +get"), "+OK");
    let mut open = Client::connect(tcp(&running));
    open.ask(b"set x 0 0 1\r\nv\r\nflush_all\r\n", b"STORED\r\nOK\r\n");
    assert_eq!(admin.text("ACL SETUSER default -flushdb"), "+OK");
    refuse(&mut open, &["flush_all"]);
    running.stop();
}

#[test]
fn memcached_login_waits_for_argon2id_and_admits_only_the_right_password() {
    let (running, _admin) = guarded(both());
    let quick = "$argon2id$v=19$m=64,t=2,p=1$c29tZXNhbHQxNmJ5dGVzMQ$fmqzTU8anUjeUd3fJkFlBcz3+I+1KyWI0vFU6SaH96k";
    let mut admin = resp(&running);
    assert_eq!(admin.text("AUTH root root"), "+OK");
    assert_eq!(admin.text(&format!("ACL SETUSER ann on {quick} ~* +@all")), "+OK");
    for _ in 0..2 {
        let mut client = Client::connect(tcp(&running));
        client.ask(b"get k\r\n", b"CLIENT_ERROR unauthenticated\r\n");
        client.ask(b"set x 0 0 9\r\nann wrong\r\n", b"CLIENT_ERROR authentication failure\r\n");
        client.ask(b"set x 0 0 9\r\nann right\r\nget k\r\n", b"STORED\r\nEND\r\n");
    }
    running.stop();
}
