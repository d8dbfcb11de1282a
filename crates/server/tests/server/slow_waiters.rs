//! Clients in blocking commands that receive messages and read nothing. Their turns, deadlines and ends must not wait
//! until they read: otherwise one of them stops every client that fills its key, and `SWAPDB` stops the server.

use crate::common::redis::{Replies, both, request, resp, words};
use crate::common::{start, wait_until};
use gannet_server::start::{Running, ServerConfig};
use std::time::{Duration, Instant};

/// The time that a reply may take on a busy machine, although no client may wait for it at all.
const SOON: Duration = Duration::from_secs(10);

/// Requests that give a client messages, and the request of another client that causes one, with `#` for 8 KB.
const SOURCES: &[(&str, &str)] = &[("SUBSCRIBE news", "PUBLISH news #"), ("PSUBSCRIBE n*", "PUBLISH news #")];

fn servers() -> impl Iterator<Item = Running> {
    [1, 2].into_iter().map(|workers| start(ServerConfig { workers, ..both() }))
}

fn waiting(control: &mut Replies) -> usize {
    let info = control.text("INFO clients");
    let field = info.split(' ').find_map(|word| word.strip_prefix("blocked_clients:")).expect("the field");
    field.parse().expect("a number")
}

/// Sends the requests of a client that waits in `command`. Fills the client's output with messages, of which it reads
/// nothing. Returns the client and its id.
fn slow_waiter(running: &Running, (source, message): (&str, &str), command: &str) -> (Replies, String) {
    let mut control = resp(running);
    control.text("CONFIG SET notify-keyspace-events KEA");
    let before = waiting(&mut control);
    let mut client = resp(running);
    rustix::net::sockopt::set_socket_recv_buffer_size(&client.client.stream, 256 << 10).expect("a socket");
    client.text("HELLO 3");
    client.text("CLIENT SETNAME slow");
    let id = client.text("CLIENT ID")[1..].to_owned();
    client.client.send(&request(&words(source)));
    client.next();
    client.client.send(&request(&words(command)));
    wait_until("the client waits", || waiting(&mut control) > before);
    // More than the kernel takes, and less than the queue of a subscriber.
    for number in 0..900 {
        control.text(&message.replace('#', &format!("{number:x>8000}")));
    }
    wait_until(&format!("the output of the client of {source} is full"), || {
        let list = control.text("CLIENT LIST");
        let line = list.split("id=").find(|line| line.starts_with(&format!("{id} "))).expect("the client");
        line.contains(" obl=") && !line.contains(" obl=0 ")
    });
    (client, id)
}

/// Reads messages of a client up to the reply of its request.
fn reply_behind_messages(client: &mut Replies) -> Vec<u8> {
    loop {
        let next = client.next();
        if !next.starts_with(b">") && !next.starts_with(b"+") {
            return next;
        }
    }
}

fn soon(what: &str, begun: Instant) {
    assert!(begun.elapsed() < SOON, "{what} took {:?}", begun.elapsed());
}

#[test]
fn waiter_that_reads_nothing_takes_its_turn_and_holds_up_no_client_that_pushes() {
    for running in servers() {
        for source in SOURCES {
            let mut others = [resp(&running), resp(&running), resp(&running)];
            let (mut slow, _) = slow_waiter(&running, *source, "BLPOP jobs 0");
            let begun = Instant::now();
            let mut later = resp(&running);
            later.client.send(&request(&words("BLPOP jobs 0")));
            wait_until("the second client waits", || waiting(&mut others[0]) == 2);
            assert_eq!(others[1].text("RPUSH jobs one two"), ":2");
            assert_eq!(later.next(), b"*2\r\n$4\r\njobs\r\n$3\r\ntwo\r\n", "{source:?}");
            assert_eq!((others[2].text("EXISTS jobs"), waiting(&mut others[0])), (":0".to_owned(), 0));
            soon("the turn", begun);
            assert_eq!(reply_behind_messages(&mut slow), b"*2\r\n$4\r\njobs\r\n$3\r\none\r\n", "{source:?}");
        }
        running.stop();
    }
}

#[test]
fn waiter_that_reads_nothing_ends_at_its_deadline_and_by_client_unblock() {
    for running in servers() {
        for (command, end, reply) in [
            ("BLPOP jobs 4", "PING", &b"_\r\n"[..]),
            ("BLPOP jobs 0", "CLIENT UNBLOCK ID", b"_\r\n"),
            (
                "BLMOVE jobs done LEFT LEFT 0",
                "CLIENT UNBLOCK ID ERROR",
                b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n",
            ),
        ] {
            let mut control = resp(&running);
            let (mut slow, id) = slow_waiter(&running, SOURCES[0], command);
            let begun = Instant::now();
            control.text(&end.replace("ID", &id));
            wait_until("the wait ends", || waiting(&mut control) == 0);
            soon("the end", begun);
            assert_eq!(control.text("RPUSH jobs x"), ":1");
            assert_eq!(control.text("DEL jobs"), ":1", "a client that no longer waits takes nothing");
            assert_eq!(reply_behind_messages(&mut slow), reply, "{command}");
        }
        running.stop();
    }
}

#[test]
fn swapdb_waits_for_no_client_that_reads_nothing() {
    for running in servers() {
        let (mut slow, _) = slow_waiter(&running, SOURCES[0], "BLPOP jobs 0");
        let (mut control, mut other) = (resp(&running), resp(&running));
        other.text("SELECT 5");
        let begun = Instant::now();
        control.client.send(&request(&words("SWAPDB 0 1")));
        for number in 1..20 {
            assert_eq!(other.text("INCR k"), format!(":{number}"));
        }
        assert_eq!(control.next(), b"+OK\r\n");
        assert_eq!(control.text("RPUSH jobs one"), ":1");
        assert_eq!(control.text("EXISTS jobs"), ":0");
        soon("the swap", begun);
        assert_eq!(reply_behind_messages(&mut slow), b"*2\r\n$4\r\njobs\r\n$3\r\none\r\n");
        running.stop();
    }
}

#[test]
fn waiter_that_reads_nothing_is_a_slow_reader_and_leaves_its_place() {
    let running = start(ServerConfig { stall_timeout: Duration::from_secs(1), ..both() });
    let mut control = resp(&running);
    let (slow, _) = slow_waiter(&running, SOURCES[0], "BLPOP jobs 0");
    wait_until("the client is closed", || waiting(&mut control) == 0);
    assert_eq!((control.text("RPUSH jobs x"), control.text("LLEN jobs")), (":1".to_owned(), ":1".to_owned()));
    drop(slow);
    running.stop();
}
