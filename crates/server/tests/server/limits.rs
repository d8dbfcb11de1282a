//! Limits that protect the server from many connections, and from clients that do nothing.

use crate::common::redis::{Replies, both, request};
use crate::common::{Client, start, wait_until};
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Returns the addresses for memcached clients and for Redis clients.
fn addresses(running: &Running) -> [SocketAddr; 2] {
    let tcp =
        running.addrs().iter().filter_map(|addr| if let ListenAddr::Tcp(addr) = addr { Some(*addr) } else { None });
    tcp.collect::<Vec<_>>()[..2].try_into().expect("two addresses")
}

/// Connects from another loopback address.
fn connect_from(source: [u8; 4], to: SocketAddr) -> Client {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&fd, &SocketAddr::from((source, 0))).expect("a loopback address");
    connect(&fd, &to).expect("connects");
    Client { stream: TcpStream::from(fd) }
}

#[test]
fn source_with_as_many_connections_as_allowed_is_refused_and_others_are_not() {
    let running = start(ServerConfig { source_connections_max: 4, workers: 2, ..both() });
    let [memcached, resp] = addresses(&running);
    let mut open: Vec<Client> = (0..4).map(|number| Client::connect([memcached, resp][number % 2])).collect();
    for (number, client) in open.iter_mut().enumerate() {
        let (request, reply): (&[u8], &[u8]) =
            if number % 2 == 0 { (b"get x\r\n", b"END\r\n") } else { (b"PING\r\n", b"+PONG\r\n") };
        client.ask(request, reply);
    }
    for (addr, line) in [(memcached, "ERROR Too many open"), (resp, "-ERR max number of clients")] {
        let got = String::from_utf8(Client::connect(addr).read_to_end()).expect("text");
        assert!(got.starts_with(line) && got.contains("limits.maxconns_per_source"), "{got}");
    }
    let refused = || running.shared().acceptor.source_rejected.value();
    assert_eq!((refused(), running.shared().acceptor.rejected.value()), (2, 0));
    let mut other = connect_from([127, 0, 0, 2], memcached);
    other.ask(b"get x\r\n", b"END\r\n");
    assert_eq!(running.shared().sources.figures(), (2, 4));
    open.pop();
    wait_until("the end is counted", || running.shared().sources.figures() == (2, 3));
    Client::connect(resp).ask(b"PING\r\n", b"+PONG\r\n");
    wait_until("the end is counted", || running.shared().sources.figures() == (2, 3));
    running.shared().live.source_connections_max.store(0, Relaxed);
    open.extend((0..20).map(|_| Client::connect(memcached)));
    open.iter_mut().skip(3).for_each(|client| client.ask(b"get x\r\n", b"END\r\n"));
    drop((open, other));
    wait_until("all ends are counted", || running.shared().sources.figures() == (0, 0));
    assert_eq!(refused(), 2);
    running.stop();
}

#[test]
fn client_that_does_not_authenticate_in_time_is_closed_whatever_it_sends() {
    let users = std::env::temp_dir().join(format!("gannet-login-{}", std::process::id()));
    std::fs::write(&users, "ann:right\n").expect("written");
    let login_timeout = Duration::from_millis(1500);
    let running = start(ServerConfig { auth_file: Some(users.clone()), login_timeout, ..both() });
    let [memcached, resp] = addresses(&running);
    let begun = Instant::now();
    let mut known = [Replies::connect(resp)];
    assert_eq!(known[0].ask(&[b"AUTH", b"ann", b"right"]), b"+OK\r\n");
    let mut known_too = Client::connect(memcached);
    known_too.ask(b"set auth 0 0 9\r\nann right\r\n", b"STORED\r\n");
    let silent = [Client::connect(memcached), Client::connect(resp)];
    let mut half = Client::connect(resp);
    half.send(b"*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$5\r\nri");
    let busy = std::thread::spawn(move || {
        let mut client = Client::connect(resp);
        let ping = request(&[b"PING"]);
        let mut got = Vec::new();
        loop {
            let mut room = [0; 1024];
            let sent = std::io::Write::write(&mut client.stream, &ping).unwrap_or(0);
            let read = std::io::Read::read(&mut client.stream, &mut room).unwrap_or(0);
            got.extend_from_slice(&room[..read]);
            if sent == 0 || read == 0 {
                return got;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let ends = silent.map(|mut client| String::from_utf8(client.read_to_end()).expect("text"));
    assert_eq!(ends[0], "CLIENT_ERROR no authentication in time (limits.login_timeout)\r\n");
    assert_eq!(ends[1], "-NOAUTH no authentication in time (limits.login_timeout)\r\n");
    assert!(begun.elapsed() >= login_timeout, "{:?}", begun.elapsed());
    assert!(String::from_utf8_lossy(&half.read_to_end()).starts_with("-NOAUTH no auth"), "a half request ends too");
    let got = String::from_utf8_lossy(&busy.join().expect("no panic")).into_owned();
    assert!(got.ends_with("(limits.login_timeout)\r\n"), "{got}");
    let closed: u64 = running.shared().workers.iter().map(|worker| worker.counters.login_timeouts.value()).sum();
    assert_eq!(closed, 4);
    assert!(known[0].ask(&[b"SET", b"k", b"v"]).starts_with(b"+OK"), "who has authenticated stays");
    known_too.ask(b"get k\r\n", b"VALUE k 0 1\r\nv\r\nEND\r\n");
    running.stop();
    std::fs::remove_file(users).expect("the file");
}

#[test]
fn accepted_connections_are_probed_after_the_configured_time() {
    let running = start(ServerConfig { tcp_keepalive: Duration::from_secs(120), ..both() });
    let [memcached, _] = addresses(&running);
    let mut client = Client::connect(memcached);
    client.ask(b"get x\r\n", b"END\r\n");
    // The other end of the connection is in this process, too.
    let local = client.stream.local_addr().expect("an address");
    let ours = (3..1024).find_map(|fd| {
        let path = format!("/proc/self/fd/{fd}");
        let is_socket = std::fs::read_link(&path).is_ok_and(|link| link.to_string_lossy().starts_with("socket:"));
        if !is_socket {
            return None;
        }
        let pidfd =
            rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty()).ok()?;
        let flags = rustix::process::PidfdGetfdFlags::empty();
        let copy = TcpStream::from(rustix::process::pidfd_getfd(pidfd, fd, flags).ok()?);
        (copy.peer_addr().ok()? == local).then_some(copy)
    });
    let accepted = ours.expect("the server's end");
    assert_eq!(sockopt::tcp_keepidle(&accepted).expect("an option"), Duration::from_secs(120));
    assert_eq!(sockopt::tcp_keepintvl(&accepted).expect("an option"), Duration::from_secs(40));
    assert_eq!(sockopt::tcp_keepcnt(&accepted).expect("an option"), 3);
    running.stop();
}
