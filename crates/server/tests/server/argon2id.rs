//! Tests of logins with Argon2id hashes of passwords: a thread of its own computes them, and only the client waits.

use crate::common::redis::{Replies, both, request, resp_addr};
use crate::common::{PATIENCE, start, wait_until};
use command::config::PasswordHash;
use gannet_server::start::{Running, ServerConfig};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A hash of `right` that takes less than a millisecond.
const QUICK: &str = "$argon2id$v=19$m=64,t=2,p=1$c29tZXNhbHQxNmJ5dGVzMQ$fmqzTU8anUjeUd3fJkFlBcz3+I+1KyWI0vFU6SaH96k";
/// A hash of `right` that takes some tenths of a second.
const LONG: &str = "$argon2id$v=19$m=65536,t=8,p=1$YW5vdGhlcnNhbHQxNmJ5dA$S8KwwBz7IPmXelIMjFusgKdIWpZJjU415RqhFLE1zcY";

/// A server with a file of users. The default user may do everything without a password.
struct Guarded {
    running: Running,
    file: PathBuf,
}

impl Guarded {
    fn start(name: &str, users: &str) -> Self {
        let name = format!("gannet-argon2id-{name}-{}-{}", std::process::id(), crate::common::io() as u8);
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, users).unwrap();
        Self { running: start(ServerConfig { acl_file: Some(file.clone()), ..both() }), file }
    }

    fn connect(&self) -> Replies {
        Replies::connect(resp_addr(&self.running))
    }

    fn login(&self, user: &str, password: &str) -> String {
        self.connect().text(&format!("AUTH {user} {password}"))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

#[test]
fn argon2id_hash_admits_only_the_right_password() {
    let lines = format!("user slow on {QUICK} +@all ~*\nuser off {QUICK}\nuser plain on >right +@all ~*\n");
    let guarded = Guarded::start("only", &lines);
    for (user, password, is_right) in [
        ("slow", "wrong", false),
        ("slow", "right", true),
        ("slow", "wrong", false),
        ("slow", QUICK, false),
        ("slow", "right", true),
        ("plain", "right", true),
        ("plain", "wrong", false),
        ("off", "right", false),
        ("nobody", "right", false),
    ] {
        let reply = guarded.login(user, password);
        assert_eq!(
            reply,
            if is_right { "+OK" } else { "-WRONGPASS invalid username-password pair or user is disabled." }
        );
        let mut client = guarded.connect();
        let reply = client.text(&format!("HELLO 2 AUTH {user} {password}"));
        assert_eq!(reply.starts_with('*'), is_right, "{user} {password}: {reply}");
        // Each source may fail a few times at once.
        assert_eq!(guarded.login("plain", "right"), "+OK");
    }
}

#[test]
fn new_password_is_stored_as_argon2id_and_survives_save_and_load() {
    let guarded = Guarded::start("new", "");
    let mut admin = guarded.connect();
    assert_eq!(admin.text("ACL SETUSER ann on >one >two +get ~a"), "+OK");
    let list = admin.text("ACL LIST");
    assert_eq!(list.matches("$argon2id$v=19$m=19456,t=2,p=1$").count(), 2, "{list}");
    assert!(!list.contains('#') && admin.text("ACL GETUSER ann").contains(" $argon2id$"), "{list}");
    assert_eq!(admin.text("ACL SETUSER ann >one"), "+OK");
    assert_eq!(admin.text("ACL LIST").len(), list.len(), "the same password is not stored twice");
    assert_eq!((admin.text("ACL SAVE"), admin.text("ACL LOAD")), ("+OK".into(), "+OK".into()));
    let saved = std::fs::read_to_string(&guarded.file).unwrap();
    assert!(saved.contains(" $argon2id$") && !saved.contains('#'), "{saved}");
    assert_eq!((guarded.login("ann", "one"), guarded.login("ann", "two")), ("+OK".into(), "+OK".into()));
    assert_eq!(admin.text("ACL SETUSER ann <one"), "+OK");
    assert!(admin.text("ACL SETUSER ann <one").contains("does not exist"));
    assert!(guarded.login("ann", "one").starts_with("-WRONGPASS") && guarded.login("ann", "two") == "+OK");
    // In a transaction, and by requirepass.
    assert_eq!((admin.text("MULTI"), admin.text("ACL SETUSER bob on >three")), ("+OK".into(), "+QUEUED".into()));
    assert_eq!((admin.text("SET k v"), admin.text("EXEC")), ("+QUEUED".into(), "*2 +OK +OK".into()));
    assert_eq!(
        (guarded.login("bob", "three"), admin.text("CONFIG SET requirepass four timeout 0")),
        ("+OK".into(), "+OK".into())
    );
    assert!(admin.text("ACL GETUSER default").contains(" $argon2id$"));
    assert_eq!(
        (guarded.connect().text("AUTH four"), guarded.connect().text("PING")),
        ("+OK".into(), "-NOAUTH Authentication required.".into())
    );
    assert!(admin.text(&format!("ACL SETUSER ann {}", QUICK.replace("m=64", "m=999999"))).contains("exceeds"));
    let many = "ACL SETUSER ann ".to_owned() + &[">p"; 9].join(" ");
    assert_eq!(admin.text(&many), "-ERR a request can add or remove 8 passwords at most; send several requests");
}

#[test]
fn sha256_setting_stores_new_passwords_as_redis_does() {
    let running = start(ServerConfig { password_hash: PasswordHash::Sha256, ..both() });
    let mut admin = Replies::connect(resp_addr(&running));
    assert_eq!(admin.text("ACL SETUSER ann on >one"), "+OK");
    let list = admin.text("ACL LIST");
    assert!(list.contains("#7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"), "{list}");
    assert_eq!(Replies::connect(resp_addr(&running)).text("AUTH ann one"), "+OK");
}

#[test]
fn long_check_delays_only_its_own_client() {
    let guarded = Guarded::start("long", &format!("user slow on {LONG} +@all ~*\n"));
    let mut admin = guarded.connect();
    let begun = Instant::now();
    let mut client = guarded.connect();
    client.client.send(&[&request(&[b"AUTH", b"slow", b"right"])[..], b"PING\r\n"].concat());
    let mut pings = 0;
    client.client.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut first = [0; 1];
    while client.client.stream.peek(&mut first).is_err() {
        assert_eq!(admin.text("PING"), "+PONG");
        pings += 1;
    }
    let checked = begun.elapsed();
    client.client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!((client.next(), client.next()), (b"+OK\r\n".to_vec(), b"+PONG\r\n".to_vec()));
    assert!(pings >= 10, "{pings} requests of another client in {checked:?}");
    // The password is known now: a reconnect needs no check.
    let times = (0..5).map(|_| {
        let begun = Instant::now();
        assert_eq!(guarded.login("slow", "right"), "+OK");
        begun.elapsed()
    });
    let least = times.min().unwrap();
    assert!(least < checked / 4, "{least:?} instead of {checked:?}");
}

#[test]
fn more_logins_than_the_queue_holds_are_all_answered() {
    let guarded = Guarded::start("queue", &format!("user ann on {QUICK}\nuser slow on {LONG}\n"));
    // While the thread computes the long hash, the queue fills up.
    let mut slow = guarded.connect();
    slow.client.send(&request(&[b"AUTH", b"slow", b"right"]));
    let mut clients: Vec<Replies> = (0..200).map(|_| guarded.connect()).collect();
    clients.iter_mut().for_each(|client| client.client.send(&request(&[b"AUTH", b"ann", b"right"])));
    clients.iter_mut().for_each(|client| assert_eq!(client.next(), b"+OK\r\n"));
    assert_eq!(slow.next(), b"+OK\r\n");
    // A client may leave during its check.
    let mut leaving = guarded.connect();
    leaving.client.send(&request(&[b"AUTH", b"slow", b"wrong"]));
    drop((leaving, clients, slow));
    wait_until("no connection", || guarded.running.shared().connections_open() == 0);
}

#[test]
fn transaction_refuses_a_login_that_needs_a_check() {
    let guarded = Guarded::start("exec", &format!("user ann on {QUICK} +@all ~*\n"));
    let mut client = guarded.connect();
    for reply in ["*1 -ERR cannot authenticate in a transaction", "*1 +OK"] {
        assert_eq!((client.text("MULTI"), client.text("AUTH ann right")), ("+OK".into(), "+QUEUED".into()));
        let replies = client.text("EXEC");
        assert!(replies.starts_with(reply), "{replies}");
        assert_eq!(guarded.login("ann", "right"), "+OK", "now the password is known");
    }
}

/// A hash takes some tenths of a second. Behind those of sixty attempts, a login would wait for half a minute.
#[test]
fn attempts_of_one_address_do_not_keep_the_login_of_another_waiting() {
    let guarded = Guarded::start("many", &format!("user ann on {LONG} +@all ~*\n"));
    let failed = || guarded.running.shared().stats_since_reset().auth_errors;
    let attempt = request(&[b"AUTH", b"ann", b"wrong"]);
    let attackers: Vec<_> = (0..60)
        .map(|_| {
            let mut client = crate::limits::connect_from([127, 0, 9, 9], resp_addr(&guarded.running));
            client.send(&attempt);
            client
        })
        .collect();
    wait_until("the first check", || failed() > 0);
    let before = failed();
    assert_eq!(guarded.login("ann", "right"), "+OK");
    let meanwhile = failed() - before;
    assert!(meanwhile <= 5, "{meanwhile} attempts of another address were checked first");
    drop(attackers);
}
