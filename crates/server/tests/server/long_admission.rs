//! Tests of the checks before a long value is stored: they hold when the request is complete, as those of a short
//! request do.

use crate::common::redis::{Redis, Replies, request};
use crate::common::{config, pattern, start, tcp};
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use std::time::{Duration, Instant};

/// Starts a server that stores values above 128 KiB in pieces.
fn started() -> Running {
    start(ServerConfig {
        memcached: Vec::new(),
        resp: vec![ListenAddr::Tcp(([127, 0, 0, 1], 0).into())],
        memory_bytes: 128 << 20,
        item_bytes_max: 16 << 20,
        segment_bytes: Some(1 << 20),
        ..config()
    })
}

#[test]
fn long_value_needs_the_same_rights_to_its_key_as_a_short_one() {
    let (redis, running) = (Redis::start(), started());
    let mut compared = 0;
    for user in ["writer", "reader", "both"] {
        let mut admins = [Replies::connect(redis.addr), Replies::connect(tcp(&running))];
        let mut clients = [Replies::connect(redis.addr), Replies::connect(tcp(&running))];
        for (admin, client) in admins.iter_mut().zip(&mut clients) {
            for (name, rights) in [("writer", "%W~*"), ("reader", "%R~*"), ("both", "~*")] {
                assert_eq!(admin.text(&format!("ACL SETUSER {name} on >p +@all {rights}")), "+OK");
            }
            assert_eq!(client.text(&format!("AUTH {user} p")), "+OK");
        }
        for len in [1, 20_000, 140_000, 3_000_000] {
            let value = pattern(len);
            let mut commands: Vec<Vec<&[u8]>> =
                ["APPEND", "GETSET", "SETNX"].map(|name| vec![name.as_bytes(), b"k", &value[..]]).into();
            commands.push(vec![b"SETRANGE", b"k", b"1", &value]);
            commands.push(vec![b"SETEX", b"k", b"100", &value]);
            for options in ["", "GET", "get XX", "NX GET", "XX", "KEEPTTL", "EX 100", "EX 100 GET", "WHAT GET", "EX"] {
                let mut command: Vec<&[u8]> = vec![b"SET", b"k", &value];
                command.extend(options_of(options));
                commands.push(command);
            }
            for command in commands {
                let [theirs, ours] = [0, 1].map(|server| {
                    assert_eq!(admins[server].text("SET k secret"), "+OK");
                    let reply = clients[server].ask(&command);
                    (reply, admins[server].ask(&[b"GET", b"k"]))
                });
                let shown = (user, len, command[0].escape_ascii(), command[3..].concat().len());
                assert!(ours == theirs, "{shown:?}: {} {}", ours.0.escape_ascii(), theirs.0.escape_ascii());
                compared += usize::from(ours.0.starts_with(b"-NOPERM"));
            }
        }
    }
    assert!(compared >= 40, "{compared} requests were refused");
    running.stop();
}

fn options_of(options: &str) -> Vec<&[u8]> {
    options.split_terminator(' ').map(str::as_bytes).collect()
}

/// Redis 7.0 has no conditions on values.
#[test]
fn condition_on_the_old_value_of_a_long_set_needs_the_right_to_read_it() {
    let running = started();
    let [mut admin, mut client] = [(); 2].map(|()| Replies::connect(tcp(&running)));
    assert_eq!(admin.text("ACL SETUSER writer on >p +@all %W~*"), "+OK");
    assert_eq!(client.text("AUTH writer p"), "+OK");
    assert_eq!(admin.text("SET k secret"), "+OK");
    for len in [1, 20_000, 140_000, 3_000_000] {
        for option in ["IFEQ", "ifne", "IFDEQ", "IFDNE"] {
            for wanted in ["secret", "0123456789abcdef"] {
                let reply = client.ask(&[b"SET", b"k", &pattern(len), option.as_bytes(), wanted.as_bytes()]);
                assert!(reply.starts_with(b"-NOPERM"), "{option} {wanted} {len}: {}", reply.escape_ascii());
            }
        }
    }
    assert_eq!(admin.text("GET k"), "$6 secret");
    running.stop();
}

/// Sends all but the last bytes of a long `SET`, and returns those.
fn send_begin(client: &mut Replies, key: &[u8], len: usize) -> Vec<u8> {
    let mut whole = request(&[b"SET", key, &pattern(len), b"EX", b"100"]);
    let rest = whole.split_off(whole.len() - 9);
    client.client.send(&whole);
    // The server receives these bytes before another client changes what it checks.
    std::thread::sleep(Duration::from_millis(50));
    rest
}

#[test]
fn long_value_is_not_stored_after_its_user_lost_the_right_amid_it() {
    let running = started();
    let mut admin = Replies::connect(tcp(&running));
    for len in [200_000, 3_000_000] {
        for change in ["ACL SETUSER u -set", "ACL SETUSER u resetkeys ~x", "ACL SETUSER u resetkeys %R~*"] {
            let mut client = Replies::connect(tcp(&running));
            assert_eq!(admin.text("ACL SETUSER u reset on >p +@all ~*"), "+OK");
            assert_eq!(client.text("AUTH u p"), "+OK");
            let rest = send_begin(&mut client, b"k", len);
            assert_eq!(admin.text(change), "+OK");
            client.client.send(&rest);
            let reply = client.next();
            assert!(reply.starts_with(b"-NOPERM"), "{change}: {}", reply.escape_ascii());
            assert_eq!(admin.text("EXISTS k"), ":0", "{change}");
            assert_eq!(client.text("PING"), "+PONG");
        }
    }
    running.stop();
}

#[test]
fn long_value_that_is_complete_amid_a_pause_of_writes_is_stored_after_it() {
    let running = started();
    let [mut admin, mut client] = [(); 2].map(|()| Replies::connect(tcp(&running)));
    for (number, len) in [200_000, 3_000_000].into_iter().enumerate() {
        let key = format!("k{number}");
        let rest = send_begin(&mut client, key.as_bytes(), len);
        assert_eq!(admin.text("CLIENT PAUSE 60000 WRITE"), "+OK");
        client.client.send(&rest);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(admin.text(&format!("EXISTS {key}")), ":0");
        assert_eq!(admin.text("CLIENT UNPAUSE"), "+OK");
        assert_eq!(client.next(), b"+OK\r\n");
        assert_eq!(admin.text(&format!("STRLEN {key}")), format!(":{len}"));
    }
    running.stop();
}

#[test]
fn long_value_and_the_request_after_it_each_count_in_the_quota_of_a_user() {
    let running = started();
    let [mut admin, mut client] = [(); 2].map(|()| Replies::connect(tcp(&running)));
    assert_eq!(admin.text("ACL SETUSER u on >p +@all ~* ops=1"), "+OK");
    assert_eq!(client.text("AUTH u p"), "+OK");
    let value = pattern(140_000);
    let pair = [request(&[b"SET", b"k", &value]), request(&[b"GET", b"none"])].concat();
    // A slow machine may take a second for the two requests.
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(1_100));
        let begun = Instant::now();
        client.client.send(&pair);
        let [first, second] = [client.next(), client.next()];
        if begun.elapsed() < Duration::from_millis(900) {
            assert_eq!(first, b"+OK\r\n");
            assert!(second.starts_with(b"-ERR too many"), "{}", second.escape_ascii());
            break;
        }
    }
    running.stop();
}
