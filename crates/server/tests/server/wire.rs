//! Tests of requests over real sockets: pipelines, split input, half-closed connections, unix sockets, many
//! connections.

use crate::common::redis::{both, resp_addr};
use crate::common::{Client, config, pattern, set, start, tcp, value, wait_until};
use io::listen::ListenAddr;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

#[test]
fn a_request_split_at_each_byte_is_answered_as_if_it_was_whole() {
    let running = start(config());
    let request = [set("k", b"val\r\nue"), b"get k\r\nget none\r\n".to_vec()].concat();
    let reply = [b"STORED\r\n".to_vec(), value("k", b"val\r\nue"), b"END\r\n".to_vec()].concat();
    for split in 1..request.len() {
        let mut client = Client::connect(tcp(&running));
        let received = running.shared().workers[0].counters.bytes_read.value();
        client.send(&request[..split]);
        wait_until("the first part's arrival", || {
            running.shared().workers[0].counters.bytes_read.value() >= received + split as u64
        });
        client.send(&request[split..]);
        client.expect(&reply);
    }
    running.stop();
}

#[test]
fn a_long_pipeline_is_answered_in_order_and_other_sessions_are_not_starved() {
    let running = start(config());
    let mut deep = Client::connect(tcp(&running));
    let mut other = Client::connect(tcp(&running));
    for key in 0..1000 {
        deep.ask(&set(&format!("key{key}"), &pattern(200 + key)), b"STORED\r\n");
    }
    let requests: Vec<u8> = (0..20_000).flat_map(|n| format!("get key{}\r\n", n % 1000).into_bytes()).collect();
    let mut reader = Client { stream: deep.stream.try_clone().unwrap() };
    let writer = std::thread::spawn(move || deep.send(&requests));
    other.ask(b"get key1\r\n", &value("key1", &pattern(201)));
    for n in 0..20_000 {
        reader.expect(&value(&format!("key{}", n % 1000), &pattern(200 + n % 1000)));
    }
    writer.join().unwrap();
    running.stop();
}

#[test]
fn a_client_that_closes_its_half_still_gets_its_replies() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    client.send(&[set("a", b"1"), b"get a\r\nget a".to_vec()].concat());
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read_to_end(), [b"STORED\r\n".to_vec(), value("a", b"1")].concat());
    wait_until("the close", || running.shared().connections_open() == 0);
    running.stop();
}

#[test]
fn a_line_longer_than_the_limit_gets_an_error_before_the_close() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    let mut writer = client.stream.try_clone().unwrap();
    let flood = std::thread::spawn(move || {
        use std::io::Write;
        let _ = writer.write_all(&vec![b'x'; 300 << 10]);
    });
    let said = client.read_to_end();
    assert!(said.starts_with(b"CLIENT_ERROR") || said.starts_with(b"ERROR"), "{}", String::from_utf8_lossy(&said));
    flood.join().unwrap();
    running.stop();
}

#[test]
fn values_of_sizes_up_to_the_item_maximum_round_trip() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    for len in [0, 1, 8191, 8192, 16_000, 16_384, 32_700, 65_536, 130_000, 131_072, 140_000, 300_000, 1_000_000] {
        let bytes = pattern(len);
        client.ask(&set("big", &bytes), b"STORED\r\n");
        client.ask(b"get big\r\n", &value("big", &bytes));
    }
    let shared = running.shared().clone();
    running.stop();
    assert_eq!(shared.pins.used(), 0, "every pin was given back");
}

#[test]
fn unix_socket_has_its_mode_and_is_removed_when_the_server_stops() {
    let path = std::env::temp_dir().join(format!("gannet-test-{}.sock", std::process::id()));
    let mut config = config();
    config.memcached.push(ListenAddr::Unix { path: path.clone(), mode: 0o600 });
    let running = start(config.clone());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut client = Client { stream: UnixStream::connect(&path).unwrap() };
    client.ask(&set("u", &pattern(100_000)), b"STORED\r\n");
    client.ask(b"get u\r\n", &value("u", &pattern(100_000)));
    assert!(gannet_server::start::Server::start(config.clone()).is_err(), "a socket in use is not taken over");
    running.stop();
    assert!(!path.exists());

    // A socket file that a killed server has left does not prevent the next start.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    start(config).stop();
}

#[test]
fn a_thousand_connections_on_two_workers_are_all_served() {
    let mut config = config();
    config.workers = 2;
    let running = start(config);
    let addr = tcp(&running);
    // Connect from several threads, so that connections arrive faster than they are accepted.
    let dial = || std::thread::spawn(move || (0..250).map(|_| Client::connect(addr)).collect::<Vec<_>>());
    let dialling: Vec<_> = (0..4).map(|_| dial()).collect();
    let mut clients: Vec<Client> = dialling.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&set(&format!("c{number}"), format!("v{number}").as_bytes()));
    }
    for client in &mut clients {
        client.expect(b"STORED\r\n");
    }
    for (number, client) in clients.iter_mut().enumerate() {
        client.ask(
            format!("get c{number}\r\n").as_bytes(),
            &value(&format!("c{number}"), format!("v{number}").as_bytes()),
        );
    }
    let shares: Vec<u64> = running.shared().workers.iter().map(|w| w.counters.connections_open()).collect();
    assert_eq!(shares, [500, 500], "each new connection goes to the least loaded worker");
    drop(clients);
    wait_until("all closed", || running.shared().connections_open() == 0);
    running.stop();
}

#[test]
fn commands_in_the_body_of_an_http_request_of_a_web_page_are_not_executed() {
    let running = start(both());
    let body = "set k 0 0 1\r\nv\r\nset k 0 0 1\r\nv\r\nSET k v\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    let fields = format!("Host: cache\r\nContent-Length: {}\r\n\r\n", body.len());
    let lines = ["POST / HTTP/1.1", "PUT /k HTTP/1.1", "GET / HTTP/1.1", "DELETE /k HTTP/1.1", "OPTIONS * HTTP/1.1"];
    // The last request begins with a line that a proxy may have changed: its `Host:` closes the connection.
    for line in lines.into_iter().chain(["FETCH /k HTTP/1.1"]) {
        let request = format!("{line}\r\n{fields}{body}");
        for (addr, error) in [
            (tcp(&running), "CLIENT_ERROR this port does not serve HTTP\r\n"),
            (resp_addr(&running), "-ERR Protocol error: this port does not serve HTTP\r\n"),
        ] {
            let mut page = Client::connect(addr);
            page.send(request.as_bytes());
            let reply = String::from_utf8(page.read_to_end()).unwrap();
            assert!(reply.ends_with(error), "{line}: {reply}");
            // Split at each byte of its first lines, the request has the same effect.
            let mut slow = Client::connect(addr);
            for byte in request.bytes().take(line.len() + 20) {
                if slow.stream.write_all(&[byte]).is_err() {
                    break;
                }
            }
            let _ = slow.stream.write_all(&request.as_bytes()[line.len() + 20..]);
            assert!(slow.read_to_end().len() <= reply.len());
        }
    }
    Client::connect(tcp(&running)).ask(b"get k\r\n", b"END\r\n");
    running.stop();
}
