//! Limits that protect the server from many connections, from clients that do nothing, and from users that send too
//! many requests.

use crate::common::redis::{Replies, both, request};
use crate::common::{Client, start, wait_until};
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use std::io::Read as _;
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
pub fn connect_from(source: [u8; 4], to: SocketAddr) -> Client {
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

/// The most requests that a quota allows in the time since `begun`, a burst and two roundings included.
fn allowed(ops: f64, begun: Instant) -> usize {
    (ops * (begun.elapsed().as_secs_f64() + 0.1)) as usize + 2
}

#[test]
fn user_with_a_quota_is_refused_beyond_it_over_all_its_connections_and_others_are_not() {
    const OPS: f64 = 50.0;
    let running = start(ServerConfig { workers: 2, ..both() });
    let [memcached, resp] = addresses(&running);
    let mut admin = Replies::connect(resp);
    let root = ["ACL SETUSER root on >root role:admin", "AUTH root root", "ACL SETUSER default off"];
    for line in root.into_iter().chain(["SET k 1", "ACL SETUSER ann on >ann role:admin ops=50"]) {
        assert_eq!(admin.text(line), "+OK", "{line}");
    }
    assert_eq!(
        admin.text("ACL SETUSER ann ops=x"),
        "-ERR Error in ACL SETUSER modifier 'ops=x': ops= needs the \
        requests per second: a number up to 999999999, or 0 for no limit"
    );
    let begun = Instant::now();
    let mut clients: Vec<Replies> = (0..4).map(|_| Replies::connect(resp)).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.text("AUTH ann ann"), "+OK"));
    let mut text = Client::connect(memcached);
    text.ask(b"set x 0 0 7\r\nann ann\r\n", b"STORED\r\n");
    let refusal = "-ERR too many requests a second for this user (rule ops= of ACL SETUSER), try again later";
    let (mut done, mut refused) = (0, 0);
    let count = |reply: &str, done: &mut usize, refused: &mut u64| match reply {
        "+PONG" | "$1 1" | ":1" => *done += 1,
        _ => {
            assert_eq!(reply, refusal);
            *refused += 1;
        }
    };
    for number in 0..400 {
        for line in ["PING", "GET k", "EVAL return(redis.call('incrby','n',0)+1) 0"] {
            count(&clients[number % 4].text(line), &mut done, &mut refused);
        }
    }
    for _ in 0..100 {
        text.send(b"get k\r\n");
        let mut reply = Vec::new();
        while !reply.ends_with(b"END\r\n") && !reply.ends_with(b"later\r\n") {
            let mut room = [0; 256];
            let len = text.stream.read(&mut room).expect("a reply");
            reply.extend_from_slice(&room[..len]);
        }
        match &reply[..] {
            b"VALUE k 0 1\r\n1\r\nEND\r\n" => done += 1,
            b"SERVER_ERROR too many requests a second for this user (rule ops=), try again later\r\n" => refused += 1,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    assert!((5..=allowed(OPS, begun)).contains(&done), "{done} in {:?}", begun.elapsed());
    assert_eq!(running.shared().stats_since_reset().user_ops_refused, refused);
    // A login is never refused, and others are not.
    let mut other = Replies::connect(resp);
    assert_eq!(other.text("AUTH root root"), "+OK");
    (0..500).for_each(|_| assert_eq!(other.text("PING"), "+PONG"));
    assert_eq!(clients[0].text("AUTH root root"), "+OK");
    assert_eq!(clients[0].text("PING"), "+PONG");
    assert!(other.text("ACL LIST").contains(" ops=50"));
    assert_eq!(other.text("ACL SETUSER ann ops=0"), "+OK");
    (0..200).for_each(|_| assert_eq!(clients[1].text("GET k"), "$1 1"));
    (0..200).for_each(|_| text.ask(b"get k\r\n", b"VALUE k 0 1\r\n1\r\nEND\r\n"));
    running.stop();
}

#[test]
fn refused_request_of_a_transaction_aborts_it_and_a_queued_one_counts_once() {
    let running = start(both());
    let [_, resp] = addresses(&running);
    let mut admin = Replies::connect(resp);
    assert_eq!(admin.text("ACL SETUSER ann on >ann role:admin ops=60"), "+OK");
    let mut client = Replies::connect(resp);
    assert_eq!(client.text("AUTH ann ann"), "+OK");
    // A burst has 6 requests: MULTI, 4 commands and EXEC.
    for (line, reply) in [("MULTI", "+OK"), ("INCR a", "+QUEUED"), ("INCR a", "+QUEUED"), ("INCR a", "+QUEUED")] {
        assert_eq!(client.text(line), reply);
    }
    assert_eq!(client.text("INCR a"), "+QUEUED");
    assert!(client.text("EXEC").starts_with("*4"), "a queued request is not counted again");
    assert_eq!(admin.text("ACL SETUSER ann ops=1"), "+OK");
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(client.text("MULTI"), "+OK");
    assert!(client.text("INCR a").starts_with("-ERR too many requests a second for this user"));
    std::thread::sleep(Duration::from_millis(1100));
    assert!(client.text("EXEC").starts_with("-EXECABORT"));
    running.stop();
}
