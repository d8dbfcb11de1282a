//! Clients with TLS over real sockets.

use crate::certificate_files::{Ca, Folder, client, client_names, replace, settings};
use crate::common::redis::{both, reply_len, request, resp};
use crate::common::{Client, config, io, pattern, set, start, value, wait_until};
use command::clients::endpoint::{Endpoint, Protocol};
use gannet_server::admin::Bound;
use gannet_server::config::Settings;
use gannet_server::config::kinds::{AdminAddress, IoChoice};
use gannet_server::start::{EndedThread, Running, Server, ServerConfig, StartError, TlsConfig};
use io::listen::ListenAddr;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tls::{ClientAuth, HandshakeLimits, TlsSettings, UserFrom};

type Secured = StreamOwned<ClientConnection, TcpStream>;

fn free() -> ListenAddr {
    ListenAddr::Tcp(([127, 0, 0, 1], 0).into())
}

/// A configuration with four listeners: both protocols, without and with TLS.
fn four(settings: TlsSettings, io: IoChoice) -> ServerConfig {
    let limits = HandshakeLimits { handshake_timeout: Duration::from_secs(10), handshakes_max: 1000 };
    let secured = |protocol: Protocol| (Endpoint::from(protocol).over_tls(), free());
    ServerConfig {
        resp: vec![free()],
        endpoints: vec![secured(Protocol::Memcache), secured(Protocol::Resp)],
        tls: Some(TlsConfig { settings, limits }),
        upgradable: true,
        io,
        ..config()
    }
}

fn addr(running: &Running, protocol: Protocol, is_tls: bool) -> SocketAddr {
    let wanted = |(endpoint, _): &(Endpoint, &ListenAddr)| endpoint.protocol == protocol && endpoint.is_tls == is_tls;
    match running.endpoints().find(wanted).expect("a listener").1 {
        ListenAddr::Tcp(addr) => *addr,
        ListenAddr::Unix { .. } => panic!("a TCP address"),
    }
}

fn connect(addr: SocketAddr, config: &Arc<ClientConfig>) -> Client<Secured> {
    let socket = TcpStream::connect(addr).expect("a listener");
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let name = "localhost".try_into().unwrap();
    Client { stream: StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), socket) }
}

/// Sends a Redis command. Returns its reply.
fn ask(client: &mut Client<Secured>, line: &str) -> String {
    client.send(&request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
    let mut reply = Vec::new();
    let mut byte = [0; 1];
    while reply_len(&reply).is_none() {
        client.stream.read_exact(&mut byte).expect("a reply");
        reply.push(byte[0]);
    }
    String::from_utf8_lossy(&reply).into_owned()
}

/// A client in a blocking command, whose output is full of messages that it does not read, takes its turn nevertheless.
#[test]
fn waiter_that_reads_nothing_over_tls_holds_up_no_client_that_pushes() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let running = start(four(settings(&folder, &ca), io));
        let mut slow = connect(addr(&running, Protocol::Resp, true), &client(&ca.pem, None));
        ask(&mut slow, "HELLO 3");
        ask(&mut slow, "SUBSCRIBE news");
        slow.send(&request(&[b"BLPOP", b"jobs", b"0"]));
        let (mut control, message) = (resp(&running), vec![b'x'; 8000]);
        wait_until("the client waits", || control.text("INFO clients").contains("blocked_clients:1"));
        for _ in 0..900 {
            control.ask(&[b"PUBLISH", b"news", &message]);
        }
        let begun = Instant::now();
        assert_eq!([control.text("RPUSH jobs one"), control.text("LLEN jobs")], [":1", ":0"]);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        running.stop();
    }
}

#[test]
fn grpc_clients_agree_on_http2_and_others_are_refused() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let grpc = (Endpoint::from(Protocol::Grpc).over_tls(), free());
        let plain = four(settings(&folder, &ca), io);
        let endpoints = [plain.endpoints.clone(), vec![grpc]].concat();
        let running = start(ServerConfig { endpoints, ..plain });
        let offering = |name: &[u8]| {
            let mut config = client(&ca.pem, None).as_ref().clone();
            config.alpn_protocols = vec![name.to_vec()];
            Arc::new(config)
        };
        let mut secured = connect(addr(&running, Protocol::Grpc, true), &offering(b"h2"));
        // A client's preface and SETTINGS; the server answers with its own SETTINGS.
        secured.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
        let mut head = [0; 9];
        secured.stream.read_exact(&mut head).expect("a frame");
        assert_eq!((head[3], head[4]), (4, 0), "SETTINGS");
        assert_eq!(secured.stream.conn.alpn_protocol(), Some(&b"h2"[..]));
        let mut other = connect(addr(&running, Protocol::Grpc, true), &offering(b"http/1.1"));
        assert!(other.stream.write_all(b"GET / HTTP/1.1\r\n\r\n").is_err() || other.stream.read(&mut head).is_err());
        running.stop();
    }
}

#[test]
fn both_protocols_serve_values_of_all_sizes_with_both_reactors() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let running = start(four(settings(&folder, &ca), io));
        let trusted = client(&ca.pem, None);
        let mut memcached = connect(addr(&running, Protocol::Memcache, true), &trusted);
        let mut redis = connect(addr(&running, Protocol::Resp, true), &trusted);
        for len in [0, 1, 100, 4_000, 16_384, 65_537, 900_000] {
            let bytes = pattern(len);
            memcached.ask(&set("k", &bytes), b"STORED\r\n");
            memcached.ask(b"get k\r\n", &value("k", &bytes));
            redis.send(&request(&[b"SET", b"r", &bytes]));
            redis.expect(b"+OK\r\n");
            redis.ask(&request(&[b"GET", b"r"]), &[format!("${len}\r\n").as_bytes(), &bytes, b"\r\n"].concat());
        }
        let pipeline = b"PING\r\n".repeat(3000);
        redis.ask(&pipeline, &b"+PONG\r\n".repeat(3000));
        // Both kinds of listeners serve the same keys.
        let mut plain = Client::connect(addr(&running, Protocol::Memcache, false));
        plain.ask(b"get k\r\n", &value("k", &pattern(900_000)));
    }
}

#[test]
fn client_without_tls_gets_an_error_of_its_protocol() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let running = start(four(settings(&folder, &ca), io()));
    for (protocol, asked, wanted) in [
        (Protocol::Memcache, "get k\r\n", "SERVER_ERROR this port uses TLS"),
        (Protocol::Resp, "PING\r\n", "-ERR this port"),
    ] {
        let mut plain = Client::connect(addr(&running, protocol, true));
        plain.send(asked.as_bytes());
        let reply = String::from_utf8(plain.read_to_end()).unwrap();
        assert!(reply.starts_with(wanted) && reply.ends_with("\r\n"), "{reply}");
    }
}

#[test]
fn replaced_certificates_are_used_within_a_second_and_no_request_fails() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let files = settings(&folder, &ca);
    let running = start(four(files.clone(), io()));
    let there = addr(&running, Protocol::Resp, true);
    let trusted = client(&ca.pem, None);
    let mut old = connect(there, &trusted);
    ask(&mut old, "SET k v");
    let serial = |client: &mut Client<Secured>| client.stream.conn.peer_certificates().unwrap()[0].to_vec();
    let before = serial(&mut old);
    let new = ca.issue_files(&folder, "new", &["localhost"]);
    replace(&new.chain, &files.certificates[0].chain);
    replace(&new.key, &files.certificates[0].key);
    let replaced = Instant::now();
    loop {
        assert_eq!(ask(&mut old, "GET k"), "$1\r\nv\r\n");
        let mut one = connect(there, &client(&ca.pem, None));
        assert_eq!(ask(&mut one, "GET k"), "$1\r\nv\r\n");
        if serial(&mut one) != before {
            break;
        }
        assert!(replaced.elapsed() < Duration::from_secs(5), "the old certificate is still in use");
    }
    let info = ask(&mut old, "INFO tls");
    assert!(info.contains("tls_reloads:1\r\n") || info.contains("tls_reloads:2\r\n"), "{info}");
    assert!(info.contains("tls_server_cert_expires_in_seconds:"), "{info}");
}

#[test]
fn certificates_of_clients_name_their_users_in_both_protocols() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let users = folder.write("users", "alice:secret\n");
    let files = TlsSettings {
        client_ca: Some(folder.write("clients.crt", &ca.pem)),
        client_auth: ClientAuth::Optional,
        user_from: UserFrom::CommonName,
        ..settings(&folder, &ca)
    };
    let running = start(ServerConfig { auth_file: Some(users), ..four(files, io()) });
    let own = |name: &str| client(&ca.pem, Some(ca.issue(&[], |params| client_names(params, name, &[]))));
    let redis = addr(&running, Protocol::Resp, true);
    let mut alice = connect(redis, &own("alice"));
    assert_eq!(ask(&mut alice, "ACL WHOAMI"), "$5\r\nalice\r\n");
    assert_eq!(ask(&mut alice, "ACL SETUSER bob on >other +get +acl|whoami ~b:*"), "+OK\r\n");
    let mut bob = connect(redis, &own("bob"));
    assert_eq!(ask(&mut bob, "ACL WHOAMI"), "$3\r\nbob\r\n");
    assert_eq!(ask(&mut bob, "GET b:x"), "$-1\r\n");
    assert!(ask(&mut bob, "GET x").starts_with("-NOPERM"), "rights of the named user apply");
    let memcached = addr(&running, Protocol::Memcache, true);
    connect(memcached, &own("bob")).ask(b"get b:x\r\nget x\r\n", b"END\r\nCLIENT_ERROR no permission\r\n");
    assert_eq!(ask(&mut alice, "ACL SETUSER bob off"), "+OK\r\n");
    for stranger in [own("bob"), own("nobody"), client(&ca.pem, None)] {
        assert!(ask(&mut connect(redis, &stranger), "GET b:x").starts_with("-NOAUTH"));
    }
    connect(memcached, &own("alice")).ask(b"get k\r\n", b"END\r\n");
    let mut stranger = connect(memcached, &own("nobody"));
    stranger.ask(b"get k\r\n", b"CLIENT_ERROR unauthenticated\r\n");
    stranger.ask(b"set x 0 0 12\r\nalice secret\r\n", b"STORED\r\n");
}

#[test]
fn handover_closes_connections_with_tls_properly_and_the_next_server_serves_them() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let config = four(settings(&folder, &ca), io);
        let running = start(config.clone());
        let (plain_at, at) = (addr(&running, Protocol::Memcache, false), addr(&running, Protocol::Memcache, true));
        let trusted = client(&ca.pem, None);
        let mut plain = Client::connect(plain_at);
        plain.ask(&set("k", b"v"), b"STORED\r\n");
        let mut secured = connect(at, &trusted);
        secured.ask(b"get k\r\n", &value("k", b"v"));
        let addrs = running.addrs().to_vec();
        running.shared().request_hand_over();
        let EndedThread::HandedOver(state) = running.join() else { panic!("nobody asked for a stop") };
        // Without a close_notify, the library would report an unexpected end.
        assert_eq!(secured.stream.read(&mut [0; 8]).expect("a proper end"), 0, "{io:?}");
        let mut endpoints = config.endpoints.clone();
        (endpoints[0].1, endpoints[1].1) = (addrs[2].clone(), addrs[3].clone());
        let next =
            ServerConfig { memcached: vec![addrs[0].clone()], resp: vec![addrs[1].clone()], endpoints, ..config };
        let _running = Server::prepare(next, state).expect("it goes on").go();
        plain.ask(b"get k\r\n", &value("k", b"v"));
        connect(at, &trusted).ask(b"get k\r\n", &value("k", b"v"));
    }
}

#[test]
fn state_of_tls_has_the_names_of_redis_and_of_memcached() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let files = settings(&folder, &ca);
    let running = start(four(files.clone(), io()));
    let trusted = client(&ca.pem, None);
    let there = addr(&running, Protocol::Resp, true);
    let mut redis = connect(there, &trusted);
    let chain = files.certificates[0].chain.display().to_string();
    assert!(ask(&mut redis, "CONFIG GET tls-cert-file").contains(&chain));
    assert!(ask(&mut redis, "CONFIG GET tls-port").starts_with("*2\r\n$8\r\ntls-port\r\n"));
    assert!(ask(&mut redis, "CONFIG GET tls-auth-clients").contains("\r\nno\r\n"));
    let mut memcached = connect(addr(&running, Protocol::Memcache, true), &trusted);
    memcached.ask(b"refresh_certs\r\nmn\r\n", b"OK\r\nMN\r\n");
    std::fs::remove_file(&files.certificates[0].key).unwrap();
    memcached.send(b"refresh_certs\r\nquit\r\n");
    let reply = String::from_utf8(memcached.read_to_end()).unwrap();
    assert!(reply.starts_with("Error loading the certificates: tls.key: cannot read"), "{reply}");
    let mut memcached = connect(addr(&running, Protocol::Memcache, true), &trusted);
    memcached.send(b"stats settings\r\nstats\r\nquit\r\n");
    let lines = String::from_utf8(memcached.read_to_end()).unwrap();
    for line in ["ssl_enabled yes", &format!("ssl_chain_cert {chain}"), "ssl_verify_mode 0", "ssl_handshake_errors 0"] {
        assert!(lines.contains(&format!("STAT {line}\r\n")), "{line}: {lines}");
    }
    let mut plain = Client::connect(addr(&running, Protocol::Memcache, false));
    plain.ask(b"refresh_certs x\r\n", reply.as_bytes());
}

#[test]
fn config_set_changes_tls_together_or_not_at_all() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let files = settings(&folder, &ca);
    let running = start(four(files.clone(), io()));
    let there = addr(&running, Protocol::Resp, true);
    let mut redis = connect(there, &client(&ca.pem, None));
    let serial = || {
        let mut one = connect(there, &client(&ca.pem, None));
        ask(&mut one, "PING");
        one.stream.conn.peer_certificates().unwrap()[0].to_vec()
    };
    let before = serial();
    let new = ca.issue_files(&folder, "new", &["localhost"]);
    let (chain, key) = (new.chain.display(), new.key.display());
    let refused = ask(&mut redis, &format!("CONFIG SET tls-cert-file {chain}"));
    assert!(
        refused.contains("CONFIG SET failed") && refused.contains("is not the key of the certificate"),
        "{refused}"
    );
    assert!(
        ask(&mut redis, &format!("CONFIG SET tls-cert-file {chain} tls-key-file /none")).contains("cannot read /none")
    );
    assert!(serial() == before, "nothing has changed");
    assert_eq!(ask(&mut redis, &format!("CONFIG SET tls-cert-file {chain} tls-key-file {key}")), "+OK\r\n");
    assert!(serial() != before && ask(&mut redis, "CONFIG GET tls-key-file").contains(&key.to_string()));
    // The same names: the files are read again, as after a renewal.
    replace(&files.certificates[0].chain, &new.chain);
    replace(&files.certificates[0].key, &new.key);
    for line in ["MULTI", &format!("CONFIG SET tls-cert-file {chain}"), "PING"] {
        ask(&mut redis, line);
    }
    assert_eq!(ask(&mut redis, "EXEC"), "*2\r\n+OK\r\n+PONG\r\n");
    assert!(serial() == before);
    assert!(ask(&mut redis, "CONFIG SET tls-auth-clients yes").contains("tls.client_ca"));
    let cas = folder.write("clients.crt", &ca.pem);
    let set = format!("CONFIG SET tls-auth-clients YES tls-ca-cert-file {} tls-protocols tlsv1.3", cas.display());
    assert_eq!(ask(&mut redis, &set), "+OK\r\n");
    assert!(ask(&mut redis, "CONFIG GET tls-protocols").ends_with("\r\nTLSv1.3\r\n"));
    let mut stranger = connect(there, &client(&ca.pem, None));
    assert!(stranger.stream.write_all(b"PING\r\n").and_then(|()| stranger.stream.read_exact(&mut [0; 7])).is_err());
    let own = client(&ca.pem, Some(ca.issue(&[], |params| client_names(params, "bob", &[]))));
    assert_eq!(ask(&mut connect(there, &own), "PING"), "+PONG\r\n");
    assert_eq!(ask(&mut redis, "CONFIG SET tls-auth-clients no tls-session-caching no"), "+OK\r\n");
    assert_eq!(ask(&mut connect(there, &client(&ca.pem, None)), "PING"), "+PONG\r\n");
    for (change, error) in [
        ("tls-protocols TLSv1.1", "older ones are not secure"),
        ("tls-auth-clients maybe", "must be one of the following: no, yes, optional"),
        ("tls-port 1", "immutable"),
        ("tls-cert-file x maxmemory nonsense", "must be a memory value"),
    ] {
        let reply = ask(&mut redis, &format!("CONFIG SET {change}"));
        assert!(reply.contains(error), "{change}: {reply}");
    }
    running.stop();
    let plain = start(both());
    assert!(resp(&plain).text("CONFIG SET tls-cert-file x").contains("no listener uses TLS"));
    assert_eq!(resp(&plain).text("CONFIG SET tls-replication no"), "+OK");
    plain.stop();
}

#[test]
fn refused_connection_gets_an_alert_and_not_a_line() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let running = start(ServerConfig { connections_max: 1, ..four(settings(&folder, &ca), io()) });
    let mut first = Client::connect(addr(&running, Protocol::Memcache, false));
    first.ask(b"mn\r\n", b"MN\r\n");
    let mut second = connect(addr(&running, Protocol::Memcache, true), &client(&ca.pem, None));
    let error = second.stream.write_all(b"mn\r\n").and_then(|()| second.stream.flush()).unwrap_err();
    assert!(error.to_string().contains("InternalError"), "{error}");
}

#[test]
fn missing_certificate_ends_the_start_with_the_remedy() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let files = settings(&folder, &ca);
    std::fs::remove_file(&files.certificates[0].chain).unwrap();
    let Err(error @ StartError::Tls(_)) = Server::start(four(files, io())) else { panic!("it started") };
    let line = gannet_server::config::remedy::start_error(&error);
    assert!(line.starts_with("tls.cert: cannot read") && line.contains("name a file that exists"), "{line}");
}

#[test]
fn half_done_handshakes_do_not_keep_others_from_being_served() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let mut wanted = four(settings(&folder, &ca), io());
    wanted.tls =
        wanted.tls.map(|tls| TlsConfig { limits: HandshakeLimits { handshakes_max: 50, ..tls.limits }, ..tls });
    let running = start(ServerConfig { connections_max: 2000, ..wanted });
    let there = addr(&running, Protocol::Memcache, true);
    let trusted = client(&ca.pem, None);
    let mut bystander = connect(there, &trusted);
    bystander.ask(b"mn\r\n", b"MN\r\n");
    let half: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut socket = TcpStream::connect(there).expect("a listener");
            socket.write_all(&[22, 3, 1, 2, 0, 1, 0, 1]).expect("room");
            socket
        })
        .collect();
    let figures = &running.shared().tls().expect("TLS").figures;
    let load = |count: &std::sync::atomic::AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
    wait_until("the maximum is under way", || load(&figures.under_way) == 50 && load(&figures.waiting) >= 100);
    for _ in 0..100 {
        bystander.ask(b"mn\r\n", b"MN\r\n");
    }
    let begun = Instant::now();
    connect(there, &trusted).ask(b"mn\r\n", b"MN\r\n");
    assert!(begun.elapsed() < Duration::from_secs(15), "a client waits for silent handshakes");
    drop(half);
    wait_until("all have ended", || load(&figures.under_way) == 0 && load(&figures.waiting) == 0);
}

#[test]
fn admin_port_serves_https_and_tells_clients_without_it() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let running = start(four(settings(&folder, &ca), io()));
    let bound = Bound::bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let there = bound.addr();
    let asked = Settings { admin: AdminAddress::Tls(there), ..Settings::default() };
    let asked = Arc::new(std::sync::Mutex::new((asked, Default::default())));
    let _admin = bound.start(Arc::clone(running.shared()), asked).expect("a thread");
    let mut secured = connect(there, &client(&ca.pem, None));
    secured.send(format!("GET /metrics HTTP/1.1\r\nHost: {there}\r\n\r\n").as_bytes());
    let page = String::from_utf8(secured.read_to_end()).unwrap();
    assert!(page.starts_with("HTTP/1.1 200 "), "{}", &page[..page.len().min(300)]);
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "the whole page: {head}");
    assert!(body.contains("gannet_tls_handshakes_total{kind=\"full\"} 1\n"));
    assert!(body.contains("gannet_tls_certificate_expires_in_days{file="));
    // A record that is longer than one read of the port.
    let long = format!("GET /healthz HTTP/1.1\r\nHost: {there}\r\nX: {}\r\n\r\n", "a".repeat(4000));
    let mut secured = connect(there, &client(&ca.pem, None));
    secured.send(long.as_bytes());
    let page = String::from_utf8(secured.read_to_end()).unwrap();
    // The port answers 408 if it waits for a rest that has arrived.
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    let mut plain = Client::connect(there);
    plain.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let reply = String::from_utf8_lossy(&plain.read_to_end()).into_owned();
    assert!(reply.starts_with("HTTP/1.1 400 ") && reply.contains("this port uses TLS: request https://"), "{reply}");
}

#[test]
fn value_of_100_megabytes_survives_key_updates_in_both_directions() {
    const LEN: usize = 100_000_000;
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let config = four(settings(&folder, &ca), io());
    let running = start(ServerConfig { memory_bytes: 400 << 20, item_bytes_max: 128 << 20, ..config });
    let trusted = client(&ca.pem, None);
    let bytes = pattern(LEN);
    let mut one = connect(addr(&running, Protocol::Resp, true), &trusted);
    one.send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${LEN}\r\n").as_bytes());
    for part in bytes.chunks(1 << 20) {
        one.send(part);
        // Asks the server for an update, too.
        one.stream.conn.refresh_traffic_keys().expect("TLS 1.3");
    }
    one.ask(b"\r\n", b"+OK\r\n");
    one.ask(b"GET k\r\n", format!("${LEN}\r\n").as_bytes());
    let mut part = vec![0; 1 << 20];
    for expected in bytes.chunks(part.len()) {
        let part = &mut part[..expected.len()];
        one.stream.read_exact(part).expect("the whole value");
        assert!(part == expected, "the value has changed");
        one.stream.conn.refresh_traffic_keys().expect("TLS 1.3");
    }
    one.expect(b"\r\n");
    running.stop();
}

#[test]
fn certificates_replaced_under_load_lose_no_request_and_no_connection() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let files = settings(&folder, &ca);
    let running = start(four(files.clone(), io()));
    let there = addr(&running, Protocol::Resp, true);
    let (trusted, stop) = (client(&ca.pem, None), AtomicBool::new(false));
    let (requests, connections) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (trusted, stop, requests, connections) = (&trusted, &stop, &requests, &connections);
            scope.spawn(move || {
                let mut one = connect(there, trusted);
                while !stop.load(Relaxed) {
                    if number % 2 == 0 {
                        one = connect(there, trusted);
                        connections.fetch_add(1, Relaxed);
                    }
                    assert_eq!(ask(&mut one, "PING"), "+PONG\r\n");
                    requests.fetch_add(1, Relaxed);
                }
            });
        }
        let (pair, other) = (&files.certificates[0], Ca::new("other").issue_files(&folder, "other", &["localhost"]));
        let reloads = || {
            let figures = &running.shared().tls().expect("TLS").figures;
            (figures.reloads.load(Relaxed), figures.reloads_failed.load(Relaxed))
        };
        for round in 0..90 {
            // A slow machine may look at the files less often than they change.
            if round >= 9 && round % 3 == 0 && reloads().0 >= 2 && reloads().1 >= 2 {
                break;
            }
            let new = ca.issue_files(&folder, &format!("new{round}"), &["localhost"]);
            let broken = folder.file("broken");
            std::fs::write(&broken, &std::fs::read(&new.chain).expect("a file")[..200]).expect("written");
            match round % 3 {
                // A whole pair, in two steps: between them, the key is of another certificate.
                0 => {
                    replace(&new.chain, &pair.chain);
                    std::thread::sleep(Duration::from_millis(700));
                    replace(&new.key, &pair.key);
                }
                1 => replace(&broken, &pair.chain),
                _ => replace(&other.key, &pair.key),
            }
            std::thread::sleep(Duration::from_millis(300));
        }
        stop.store(true, Relaxed);
    });
    let figures = &running.shared().tls().expect("TLS").figures;
    println!("{requests:?} requests, {connections:?} connections");
    assert!(requests.load(Relaxed) > 1000 && connections.load(Relaxed) > 100);
    assert!(figures.reloads.load(Relaxed) >= 2 && figures.reloads_failed.load(Relaxed) >= 2, "{figures:?}");
    running.stop();
}
