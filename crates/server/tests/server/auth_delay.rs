//! Tests of the delay of authentication attempts after failures from the same source: only such attempts wait, and
//! nothing else waits with them.

use crate::common::redis::{Replies, both, request, resp_addr};
use crate::common::{Client, PATIENCE, start, tcp, wait_until};
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A server whose default user has the password `right`. The password file has the user `ann` with the same password.
struct Guarded {
    running: Running,
    auth: PathBuf,
    socket: PathBuf,
}

impl Guarded {
    fn start(name: &str) -> Self {
        let path = |kind: &str| std::env::temp_dir().join(format!("gannet-{kind}-{name}-{}", std::process::id()));
        let (auth, socket) = (path("auth"), path("socket"));
        std::fs::write(&auth, "ann:right\n").unwrap();
        let mut config = ServerConfig { auth_file: Some(auth.clone()), ..both() };
        config.resp.push(ListenAddr::Tcp("[::1]:0".parse().unwrap()));
        config.resp.push(ListenAddr::Unix { path: socket.clone(), mode: 0o700 });
        Self { running: start(config), auth, socket }
    }

    fn connect(&self) -> Replies {
        Replies::connect(resp_addr(&self.running))
    }

    /// Returns the address for Redis clients that use IPv6.
    fn ipv6(&self) -> SocketAddr {
        let is_ipv6 = |addr: &ListenAddr| if let ListenAddr::Tcp(addr) = addr { Some(*addr) } else { None };
        self.running.addrs().iter().filter_map(is_ipv6).find(SocketAddr::is_ipv6).expect("an IPv6 address")
    }

    fn count(&self, of: fn(&command::metrics::command_counters::CommandTotals) -> u64) -> u64 {
        of(&self.running.shared().command_totals())
    }

    /// Fails often enough for a delay of two seconds.
    fn fail_often(&self) {
        let mut clients: Vec<Replies> = (0..14).map(|_| self.connect()).collect();
        let wrong = request(&[b"AUTH", b"ann", b"wrong"]);
        clients.iter_mut().for_each(|client| client.client.send(&wrong));
        clients.iter_mut().for_each(|client| assert!(client.next().starts_with(b"-WRONGPASS")));
    }

    fn stop(self) {
        self.running.stop();
        let _ = std::fs::remove_file(&self.auth);
    }
}

/// The server's clock counts whole milliseconds, so a delay may be shorter by one.
fn at_least_ms(time: Duration, ms: u64) -> bool {
    time + Duration::from_millis(1) >= Duration::from_millis(ms)
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    (run(), begun.elapsed())
}

#[test]
fn only_attempts_from_the_failed_address_are_answered_late() {
    let guarded = Guarded::start("source");
    let mut known = guarded.connect();
    assert_eq!(known.text("AUTH ann right"), "+OK");
    let mut client = guarded.connect();
    let times: Vec<Duration> = (0..7)
        .map(|_| {
            let (reply, time) = timed(|| client.text("AUTH ann wrong"));
            assert!(reply.starts_with("-WRONGPASS"), "{reply}");
            time
        })
        .collect();
    for (time, least_ms) in times.iter().zip([0, 0, 0, 10, 20, 40, 80]) {
        assert!(at_least_ms(*time, least_ms), "{times:?}");
    }
    assert_eq!(guarded.count(|totals| totals.auth_delayed), 4);
    // Attempts from other sources are not delayed.
    let mut stream = UnixStream::connect(&guarded.socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Client { stream: &mut stream }.ask(&request(&[b"AUTH", b"ann", b"right"]), b"+OK\r\n");
    assert_eq!(Replies::connect(guarded.ipv6()).text("AUTH ann right"), "+OK");
    assert_eq!(guarded.count(|totals| totals.auth_delayed), 4);
    // A success is late too, and then forgets the failures.
    let (reply, time) = timed(|| client.text("HELLO 2 AUTH ann right"));
    assert!(reply.starts_with("*14 ") && at_least_ms(time, 160), "{reply} {time:?}");
    assert!(client.text("AUTH ann wrong").starts_with("-WRONGPASS"));
    assert_eq!(guarded.count(|totals| totals.auth_delayed), 5);
    assert_eq!(guarded.count(|totals| totals.auth_errors), 8);
    let info = client.text("INFO stats");
    assert!(info.contains(" acl_access_denied_auth:8 ") && info.contains(" auth_delayed:5 "), "{info}");
    guarded.stop();
}

#[test]
fn waiting_attempt_holds_up_no_other_client_and_costs_the_worker_nothing() {
    let guarded = Guarded::start("others");
    let mut known = guarded.connect();
    assert_eq!(known.text("AUTH ann right"), "+OK");
    guarded.fail_often();
    let mut clients: Vec<Replies> = (0..200).map(|_| guarded.connect()).collect();
    let begun = Instant::now();
    // The requests behind an attempt wait with it.
    let pipeline = [&request(&[b"AUTH", b"ann", b"right"])[..], b"PING\r\n"].concat();
    clients.iter_mut().for_each(|client| client.client.send(&pipeline));
    wait_until("all attempts to wait", || guarded.count(|totals| totals.auth_delayed) >= 200);
    let worker = &guarded.running.shared().workers[0].counters;
    let before = (worker.iterations.value(), worker.parked.value());
    let slowest = (0..50).map(|_| timed(|| assert_eq!(known.text("PING"), "+PONG")).1).max().unwrap();
    let iterations = worker.iterations.value() - before.0;
    assert!(begun.elapsed() < Duration::from_secs(2), "the machine is too slow for this test");
    assert!(slowest < Duration::from_millis(1000), "{slowest:?}");
    assert!(iterations <= 200 && worker.parked.value() == before.1, "{iterations} iterations for 50 requests");
    for client in &mut clients {
        assert_eq!((client.next(), client.next()), (b"+OK\r\n".to_vec(), b"+PONG\r\n".to_vec()));
    }
    assert!(at_least_ms(begun.elapsed(), 2000));
    guarded.stop();
}

#[test]
fn memcached_attempts_are_delayed_with_those_of_redis_clients() {
    let guarded = Guarded::start("memcached");
    let addr = tcp(&guarded.running);
    let attempt = |client: &mut Client, value: &str, reply: &[u8]| {
        client.ask(format!("set x 0 0 {}\r\n{value}\r\n", value.len()).as_bytes(), reply);
    };
    let failure = b"CLIENT_ERROR authentication failure\r\n";
    let mut client = Client::connect(addr);
    (0..3).for_each(|_| attempt(&mut client, "ann wrong", failure));
    let mut redis = guarded.connect();
    let (_, time) = timed(|| assert!(redis.text("AUTH ann wrong").starts_with("-WRONGPASS")));
    assert!(at_least_ms(time, 10), "{time:?}");
    // Two attempts in one packet: the reply to the first is sent before the second waits.
    client.send(b"set x 0 0 9\r\nann wrong\r\nset x 0 0 9\r\nann right\r\nversion\r\n");
    let (_, first) = timed(|| client.expect(failure));
    let (_, second) = timed(|| client.expect(b"STORED\r\nVERSION "));
    assert!(at_least_ms(first, 20) && at_least_ms(second, 20), "{first:?} {second:?}");
    assert_eq!(guarded.count(|totals| totals.auth_delayed), 3);
    guarded.stop();
}

#[test]
fn client_that_leaves_during_its_delay_frees_its_connection() {
    let guarded = Guarded::start("leaves");
    guarded.fail_often();
    wait_until("no connection", || guarded.running.shared().connections_open() == 0);
    let begun = Instant::now();
    let mut redis = guarded.connect();
    redis.client.send(&request(&[b"AUTH", b"ann", b"wrong"]));
    let mut memcached = Client::connect(tcp(&guarded.running));
    memcached.send(b"set x 0 0 9\r\nann wrong\r\n");
    wait_until("both to wait", || guarded.count(|totals| totals.auth_delayed) == 13);
    drop((redis, memcached));
    wait_until("no connection", || guarded.running.shared().connections_open() == 0);
    assert!(begun.elapsed() < Duration::from_secs(2));
    // Neither attempt was executed.
    assert_eq!(guarded.count(|totals| totals.auth_cmds), 14);
    // A stop waits for no delay.
    let mut last = guarded.connect();
    last.client.send(&request(&[b"AUTH", b"ann", b"right"]));
    wait_until("the attempt to wait", || guarded.count(|totals| totals.auth_delayed) == 14);
    let (_, time) = timed(|| guarded.stop());
    assert!(time < Duration::from_millis(1500), "{time:?}");
    let mut rest = Vec::new();
    let _ = last.client.stream.read_to_end(&mut rest);
    assert_eq!(rest, b"", "a password that was not checked is not accepted");
}

#[test]
fn transaction_with_an_attempt_refuses_it_instead_of_waiting() {
    let guarded = Guarded::start("exec");
    let mut client = guarded.connect();
    assert_eq!(client.text("AUTH ann right"), "+OK");
    (0..3).for_each(|_| assert!(client.text("AUTH ann wrong").starts_with("-WRONGPASS")));
    assert_eq!(client.text("MULTI"), "+OK");
    assert_eq!(client.text("SET k v"), "+QUEUED");
    assert_eq!(client.text("AUTH ann right"), "+QUEUED");
    let replies = client.text("EXEC");
    assert!(replies.starts_with("*2 +OK -ERR cannot authenticate in a transaction"), "{replies}");
    assert_eq!(client.text("GET k"), "$1 v");
    assert_eq!(guarded.count(|totals| totals.auth_cmds), 4);
    guarded.stop();
}
