//! Tests of users with rights: the replies equal those of Debian's Redis for the same rules, and no command bypasses
//! the rules.

use crate::common::redis::{Redis, Replies, request};
use crate::common::{Client, config, start, tcp, wait_until};
use command::clients::endpoint::Protocol;
use command::config::PasswordHash;
use command::keyspace::namespace_config::NamespaceConfig;
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use std::net::SocketAddr;

fn served() -> ServerConfig {
    ServerConfig { resp: vec![ListenAddr::Tcp(([127, 0, 0, 1], 0).into())], ..config() }
}

fn addr(running: &Running) -> SocketAddr {
    let found = running.listeners().find_map(|(protocol, addr)| match addr {
        ListenAddr::Tcp(addr) if protocol == Protocol::Resp => Some(*addr),
        _ => None,
    });
    found.expect("an address for clients of Redis")
}

fn ask(replies: &mut Replies, line: &str) -> String {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    String::from_utf8(replies.ask(&words)).expect("text")
}

#[test]
fn every_answer_about_users_and_every_refusal_is_that_of_redis() {
    let config = ServerConfig { password_hash: PasswordHash::Sha256, ..served() };
    let (running, redis) = (start(config), Redis::start());
    let (mut ours, mut theirs) = (Replies::connect(addr(&running)), Replies::connect(redis.addr));
    let lines = [
        "ACL WHOAMI",
        "ACL LIST",
        "ACL USERS",
        "ACL CAT nosuch",
        "ACL GETUSER default",
        "ACL GETUSER nobody",
        "ACL SETUSER bob",
        "ACL LIST",
        "ACL GETUSER bob",
        "ACL SETUSER bob on >pw ~a:* %R~b* &ch* +get",
        "ACL LIST",
        "ACL GETUSER bob",
        "ACL SETUSER bob +nosuch",
        "ACL SETUSER bob +@nosuch",
        "ACL SETUSER bob +client|nosuch",
        "ACL SETUSER bob zzz",
        "ACL SETUSER bob <nope",
        "ACL SETUSER bob #12",
        "ACL SETUSER bob %X~a",
        "ACL LIST",
        "ACL SETUSER al nopass allkeys allchannels allcommands",
        "ACL SETUSER al ~a",
        "ACL SETUSER al &a",
        "ACL SETUSER al -@all +config -config|set",
        "ACL LIST",
        "ACL DRYRUN bob get a:1",
        "ACL DRYRUN bob get b1",
        "ACL DRYRUN bob get c",
        "ACL DRYRUN bob set a:1 x",
        "ACL DRYRUN al config set a b",
        "ACL DRYRUN al config get a",
        "ACL DRYRUN nobody get a",
        "ACL DRYRUN bob nosuch",
        "ACL DRYRUN bob get",
        "ACL DELUSER nobody al",
        "ACL DELUSER default",
        "ACL GENPASS 0",
        "ACL GENPASS x",
        "ACL LOG x",
        "ACL NOSUCH",
        "AUTH nobody",
        "AUTH bob wrong",
        "AUTH nobody pw",
        "ACL SETUSER lim on >p ~k* %R~r* %W~w* &c* +get +set +mget +mset +del +publish +multi +exec +discard \
         +acl|whoami +copy +rename +exists +getdel +incr",
        "SET r1 v",
        "AUTH lim p",
        "ACL WHOAMI",
        "GET x",
        "GET k",
        "SET k 1",
        "GET r1",
        "SET r1 x",
        "SET w1 x",
        "SET w1 y GET",
        "GET w1",
        "MGET k r1 x",
        "MGET k r1",
        "MSET k 1 w1 2",
        "MSET k 1 r1 2",
        "DEL r1",
        "EXISTS r1 w1",
        "EXISTS x",
        "COPY r1 w1 REPLACE",
        "COPY w1 k",
        "RENAME r1 w1",
        "RENAME k w1",
        "GETDEL w1",
        "INCR w1",
        "INCR kn",
        "TTL k",
        "CONFIG GET maxmemory",
        "ACL LIST",
        "PUBLISH x 1",
        "PUBLISH c1 1",
        "SUBSCRIBE c1",
        "MULTI",
        "SET x 1",
        "SET k 1",
        "EXEC",
        "MULTI",
        "SET k 1",
        "FLUSHALL",
        "EXEC",
        "GET k",
        "HELLO 2 AUTH lim wrong",
        "AUTH bob pw",
        "GET a:1",
        "ACL WHOAMI",
    ];
    let differing: Vec<_> = lines
        .into_iter()
        .map(|line| (line, ask(&mut ours, line), ask(&mut theirs, line)))
        .filter(|(_, ours, theirs)| ours != theirs)
        .collect();
    assert!(differing.is_empty(), "{differing:#?}");
    let of_category = |replies: &mut Replies| {
        let text = ask(replies, "ACL CAT transaction");
        let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(of_category(&mut Replies::connect(addr(&running))), of_category(&mut Replies::connect(redis.addr)));
    for (user, allowed) in [("s1", "+subscribe +psubscribe &c*"), ("s2", "+@all &*")] {
        let make = format!("ACL SETUSER {user} on >p {allowed}");
        let (mut ours, mut theirs) = (Replies::connect(addr(&running)), Replies::connect(redis.addr));
        for line in [&make, &format!("AUTH {user} p"), "PSUBSCRIBE c", "SUBSCRIBE x", "PSUBSCRIBE c*", "SUBSCRIBE c1"] {
            assert_eq!(ask(&mut ours, line), ask(&mut theirs, line), "{user}: {line}");
        }
    }
    running.stop();
}

/// A command that only reads its sources must not need the right to write them, and one that returns what it removes
/// needs the right to read it.
#[test]
fn each_key_of_a_command_needs_the_rights_that_redis_requires() {
    let (redis, running) = (Redis::start(), start(served()));
    let mut servers = [Replies::connect(redis.addr), Replies::connect(addr(&running))];
    let mut asked = |line: &str| {
        let [theirs, ours] = servers.each_mut().map(|client| ask(client, line));
        assert_eq!(ours, theirs, "{line}");
        usize::from(ours.contains("OK"))
    };
    asked("ACL SETUSER bob on +@all %R~r* %W~w* %RW~b*");
    let mut allowed = 0;
    for name in ["lpop", "rpop", "zpopmin", "spop", "getdel", "type", "llen", "lrange", "zcard", "getbit"] {
        allowed += ["r", "w", "b"].map(|key| asked(&format!("ACL DRYRUN bob {name} {key} 1 1"))).iter().sum::<usize>();
        allowed += ["r", "w", "b"].map(|key| asked(&format!("ACL DRYRUN bob {name} {key}"))).iter().sum::<usize>();
    }
    for name in ["sadd", "zadd", "hset", "lpush", "append", "incrby", "zincrby", "set", "srem", "expire", "getset"] {
        allowed += ["r", "w", "b"].map(|key| asked(&format!("ACL DRYRUN bob {name} {key} 1 1"))).iter().sum::<usize>();
        allowed += ["r", "w", "b"].map(|key| asked(&format!("ACL DRYRUN bob {name} {key} 1"))).iter().sum::<usize>();
    }
    for line in [
        "xinfo stream KEY",
        "xinfo groups KEY",
        "xinfo consumers KEY g",
        "xgroup create KEY g $",
        "xgroup createconsumer KEY g c",
        "xgroup setid KEY g 0",
        "xgroup destroy KEY g",
        "xgroup delconsumer KEY g c",
        "object encoding KEY",
        "object freq KEY",
        "object idletime KEY",
        "object refcount KEY",
        "memory usage KEY",
    ] {
        let lines = ["r", "w", "b", "x"].map(|key| format!("ACL DRYRUN bob {}", line.replace("KEY", key)));
        allowed += lines.iter().map(|line| asked(line)).sum::<usize>();
    }
    for from in ["r", "w", "b"] {
        for to in ["r", "w", "b"] {
            for (line, behind) in [
                ("sinterstore TO FROM", ""),
                ("sunionstore TO FROM", ""),
                ("zrangestore TO FROM", "0 -1"),
                ("zunionstore TO 1 FROM", ""),
                ("zdiffstore TO 2 FROM FROM", ""),
                ("smove FROM TO", "a"),
                ("lmove FROM TO LEFT", "LEFT"),
                ("rpoplpush FROM TO", ""),
                ("copy FROM TO", ""),
                ("rename FROM TO", ""),
                ("pfmerge TO FROM", ""),
                ("bitop not TO FROM", ""),
            ] {
                let line = format!("{line} {behind}").replace("FROM", from).replace("TO", to);
                allowed += asked(&format!("ACL DRYRUN bob {}", line.trim_end()));
            }
        }
    }
    assert!(allowed > 50, "{allowed} requests were allowed");
    running.stop();
}

#[test]
fn changed_acl_rules_apply_to_open_connections_and_deluser_closes_them() {
    let running = start(served());
    let connect = || Replies::connect(addr(&running));
    let (mut admin, mut ann) = (connect(), connect());
    assert_eq!(ask(&mut admin, "ACL SETUSER ann on >pw ~* +@all"), "+OK\r\n");
    assert_eq!(ask(&mut ann, "AUTH ann pw"), "+OK\r\n");
    assert_eq!(ask(&mut ann, "SET k 1"), "+OK\r\n");
    assert_eq!(ask(&mut admin, "ACL SETUSER ann -set"), "+OK\r\n");
    assert!(ask(&mut ann, "SET k 2").starts_with("-NOPERM"));
    // Also in what is looked up in runs, and where a value arrives in pieces.
    ann.client.send(&[request(&[b"GET", b"k"]), request(&[b"SET", b"k", b"2"]), request(&[b"GET", b"k"])].concat());
    assert_eq!(
        (ann.next(), ann.next()[..7].to_vec(), ann.next()),
        (b"$1\r\n1\r\n".to_vec(), b"-NOPERM".to_vec(), b"$1\r\n1\r\n".to_vec())
    );
    assert!(ann.ask(&[b"SET", b"k", &vec![b'x'; 700_000]]).starts_with(b"-NOPERM"));
    assert_eq!(ask(&mut admin, "ACL SETUSER ann +set resetkeys ~a*"), "+OK\r\n");
    assert!(ann.ask(&[b"SET", b"k", &vec![b'x'; 700_000]]).starts_with(b"-NOPERM"));
    assert_eq!(ann.ask(&[b"SET", b"a", &vec![b'x'; 700_000]]), b"+OK\r\n");
    assert_eq!(ask(&mut ann, "GET k")[..7], *"-NOPERM");
    // Everyone may do everything again.
    assert_eq!(ask(&mut admin, "ACL SETUSER ann allkeys"), "+OK\r\n");
    assert_eq!(ask(&mut ann, "GET k"), "$1\r\n1\r\n");
    assert_eq!(ask(&mut admin, "ACL DELUSER ann"), ":1\r\n");
    ann.client.expect_end();
    let mut late = connect();
    assert!(ask(&mut late, "AUTH ann pw").starts_with("-WRONGPASS"));
    running.stop();
}

#[test]
fn refused_requests_are_counted_by_the_right_that_is_missing() {
    let running = start(served());
    let (mut admin, mut ann) = (Replies::connect(addr(&running)), Replies::connect(addr(&running)));
    assert_eq!(ask(&mut admin, "ACL SETUSER ann on nopass ~a* &news +@all -flushall"), "+OK\r\n");
    assert_eq!(ask(&mut ann, "AUTH ann x"), "+OK\r\n");
    for line in ["FLUSHALL", "GET b", "SET b 1", "PUBLISH other x", "PUBLISH other y", "PUBLISH other z"] {
        assert!(ask(&mut ann, line).starts_with("-NOPERM"), "{line}");
    }
    let info = ask(&mut admin, "INFO stats");
    for field in ["acl_access_denied_cmd:1", "acl_access_denied_key:2", "acl_access_denied_channel:3"] {
        assert!(info.contains(&format!("\r\n{field}\r\n")), "{field}: {info}");
    }
    running.stop();
}

#[test]
fn password_on_the_default_user_requires_auth_in_both_protocols() {
    let running = start(served());
    let connect = || Replies::connect(addr(&running));
    let mut admin = connect();
    assert_eq!(ask(&mut admin, "ACL SETUSER boss on >b ~* &* +@all"), "+OK\r\n");
    assert_eq!(ask(&mut admin, "ACL SETUSER default >secret"), "+OK\r\n");
    let mut client = connect();
    for line in ["GET k", "ACL LIST", "HELLO 3"] {
        assert_eq!(ask(&mut client, line), "-NOAUTH Authentication required.\r\n", "{line}");
    }
    assert!(ask(&mut client, "AUTH wrong").starts_with("-WRONGPASS"));
    assert_eq!(ask(&mut client, "AUTH secret"), "+OK\r\n");
    assert_eq!(ask(&mut client, "ACL WHOAMI"), "$7\r\ndefault\r\n");
    assert!(ask(&mut connect(), "HELLO 2 AUTH boss b").starts_with("*14\r\n"));
    assert_eq!(ask(&mut client, "RESET"), "+RESET\r\n");
    assert!(ask(&mut client, "GET k").starts_with("-NOAUTH"));
    let mut memcached = Client::connect(tcp(&running));
    memcached.ask(b"get k\r\n", b"CLIENT_ERROR unauthenticated\r\n");
    memcached.ask(b"set x 0 0 14\r\ndefault secret\r\nget k\r\n", b"STORED\r\nEND\r\n");
    running.stop();
}

#[test]
fn acl_log_shows_the_name_of_the_refused_login_as_the_client_wrote_it() {
    let (redis, running) = (Redis::start(), start(served()));
    let [ours, theirs] = [addr(&running), redis.addr].map(|addr| {
        let [mut client, mut admin] = [(); 2].map(|()| Replies::connect(addr));
        ["AUTH", "Auth", "auth", "HELLO 3 AUTH", "hello 2 auth"].map(|line| {
            assert!(ask(&mut client, &format!("{line} nobody pw")).starts_with("-WRONGPASS"), "{line}");
            let log = ask(&mut admin, "ACL LOG 1");
            assert_eq!(ask(&mut admin, "ACL LOG RESET"), "+OK\r\n");
            log.split_once("object\r\n").and_then(|(_, rest)| Some(rest.split_once("username")?.0.to_owned()))
        })
    });
    assert!(ours.iter().all(Option::is_some));
    assert_eq!(ours, theirs);
    running.stop();
}

#[test]
fn acl_load_names_a_duplicate_user_and_a_missing_setting() {
    let path = std::env::temp_dir().join(format!("gannet-twice-{}-{}", std::process::id(), crate::common::io() as u8));
    std::fs::write(&path, "user ann on nopass\n").expect("a file");
    let running = start(ServerConfig { acl_file: Some(path.clone()), ..served() });
    let mut admin = Replies::connect(addr(&running));
    std::fs::write(&path, "user ann on nopass\nuser bob on\nuser ann off\n").expect("the file");
    assert_eq!(ask(&mut admin, "ACL LOAD"), "-ERR line 3: Duplicate user 'ann' found\r\n");
    running.stop();
    let _ = std::fs::remove_file(&path);
    let running = start(served());
    let refused = ask(&mut Replies::connect(addr(&running)), "ACL LOAD");
    assert!(refused.contains("not configured to use an ACL file: set listen.acl_file"), "{refused}");
    running.stop();
}

#[test]
fn passwords_do_not_appear_in_slow_log_acl_log_or_monitor() {
    let running = start(served());
    running.shared().workers.iter().for_each(|worker| worker.recorder.set_slow_above_ns(Some(0)));
    let (mut client, mut monitor) = (Replies::connect(addr(&running)), Replies::connect(addr(&running)));
    assert_eq!(ask(&mut monitor, "MONITOR"), "+OK\r\n");
    assert_eq!(ask(&mut client, "ACL SETUSER ann on >hunter2"), "+OK\r\n");
    let wrong = ask(&mut client, "ACL SETUSER ann >hunter2\0 nosuch");
    assert!(wrong.starts_with("-ERR Error in ACL SETUSER modifier 'nosuch'"), "{wrong}");
    assert!(ask(&mut client, "AUTH nobody hunter2").starts_with("-WRONGPASS"));
    assert_eq!(ask(&mut client, "PING"), "+PONG\r\n");
    assert!(!ask(&mut client, "SLOWLOG GET 100").contains("hunter2"));
    assert!(!ask(&mut client, "ACL LOG").contains("hunter2"));
    let (first, seen) = (monitor.next(), String::from_utf8(monitor.next()).unwrap());
    assert!(first.ends_with(b"\"AUTH\" \"(redacted)\" \"(redacted)\"\r\n"), "{}", first.escape_ascii());
    assert!(seen.contains("PING"), "{seen}");
    running.stop();
}

/// Returns the lines that a monitoring client receives for `lines`, without times and addresses, and the words in the
/// slow log, which are cut to 48 bytes.
fn listed(addr: SocketAddr, lines: &[&str]) -> (Vec<String>, Vec<String>) {
    let (mut client, mut monitor) = (Replies::connect(addr), Replies::connect(addr));
    ask(&mut client, "CONFIG SET slowlog-log-slower-than 0");
    ask(&mut client, "SLOWLOG RESET");
    // The slow log has no request of the millisecond of its reset.
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(ask(&mut monitor, "MONITOR"), "+OK\r\n");
    lines.iter().chain([&"ECHO end"]).for_each(|line| _ = ask(&mut client, line));
    let mut seen = Vec::new();
    while seen.last().is_none_or(|line: &String| !line.contains("end")) {
        let line = String::from_utf8(monitor.next()).unwrap();
        seen.push(line.split_once("] ").expect("a line of MONITOR").1.to_owned());
    }
    let slow = ask(&mut client, "SLOWLOG GET 128");
    let words = |entry: &str| {
        // After the words of the request, Redis has the client's address and name, and Gannet the parts of the time.
        let words = entry.split("\r\n").filter(|word| !word.starts_with(['$', '*', ':'])).skip(1);
        words
            .take_while(|word| !word.contains("127.0.0.1:") && !word.starts_with("(wait"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let entries = slow.split("\r\n*").filter(|entry| entry.contains("(redacted)"));
    (seen, entries.map(words).collect())
}

#[test]
fn monitor_and_slow_log_hide_the_same_arguments_as_redis() {
    let lines = [
        "AUTH nobody s1",
        "AUTH default s1",
        "HELLO 2 AUTH nobody s2",
        "HELLO 2 AUTH default s2 SETNAME n",
        "HELLO 2",
        "ACL WHOAMI",
        "ACL SETUSER bob >s3",
        "ACL SETUSER bob on nosuch",
        "CONFIG SET requirepass s4",
        "CONFIG SET timeout 0 REQUIREPASS s4",
        "CONFIG GET requirepass",
        "AUTH s4",
        "MULTI",
        "AUTH s4",
        "AUTH wrong",
        "HELLO 2 AUTH default s4",
        "SET auth k",
        "EXEC",
        "GET auth",
    ];
    let (running, redis) = (start(served()), Redis::start());
    let (ours, theirs) = (listed(addr(&running), &lines), listed(redis.addr, &lines));
    assert_eq!(ours.0, theirs.0);
    // Gannet also lists requests when they are queued by `MULTI`.
    let lines = |lines: &[String]| lines.iter().cloned().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(lines(&ours.1), lines(&theirs.1));
    assert!(ours.1.len() >= 9 && ours.0.len() >= 9, "{ours:#?}");
    running.stop();
}

#[test]
fn queued_commands_are_authorised_again_at_exec_like_in_redis() {
    let (running, redis) = (start(served()), Redis::start());
    let mut both = [addr(&running), redis.addr].map(|addr| [Replies::connect(addr), Replies::connect(addr)]);
    let (admin, ann) = (0, 1);
    for (who, line) in [
        (admin, "ACL SETUSER ann on >pw ~* &* +@all"),
        (ann, "AUTH ann pw"),
        (ann, "MULTI"),
        (ann, "SET k 1"),
        (ann, "GET k"),
        (ann, "PUBLISH ch x"),
        (ann, "SET k 2"),
        (admin, "ACL SETUSER ann -set resetchannels"),
        (ann, "EXEC"),
        (admin, "EXISTS k"),
        // Keys, and the other way round: what may be done when it is executed is executed.
        (admin, "ACL SETUSER ann +set resetkeys ~a*"),
        (ann, "MULTI"),
        (ann, "SET a1 1"),
        (ann, "MSET a2 1 a3 1"),
        (admin, "ACL SETUSER ann resetkeys ~a1 ~a2"),
        (ann, "EXEC"),
        (ann, "GET a1"),
        // Changed by the transaction itself.
        (admin, "ACL SETUSER ann allkeys +@all"),
        (ann, "MULTI"),
        (ann, "GET a1"),
        (ann, "ACL SETUSER ann -get"),
        (ann, "GET a1"),
        (ann, "EXEC"),
        (ann, "GET a1"),
    ] {
        let [ours, theirs] = both.each_mut().map(|clients| ask(&mut clients[who], line));
        assert_eq!(ours, theirs, "{line}");
    }
    let log = ask(&mut both[0][admin], "ACL LOG");
    assert!(log.contains("\r\nmulti\r\n") && log.contains("\r\nset\r\n"), "{log}");
    running.stop();
}

#[test]
fn user_restricted_to_namespaces_cannot_use_keys_of_others() {
    let shop = NamespaceConfig { name: "shop".to_owned(), ..NamespaceConfig::plain(3, true) };
    let running = start(ServerConfig { namespaces: vec![shop], ..served() });
    let (mut admin, mut ann) = (Replies::connect(addr(&running)), Replies::connect(addr(&running)));
    assert_eq!(ask(&mut admin, "SET k default"), "+OK\r\n");
    assert_eq!(ask(&mut admin, "ACL SETUSER ann on >pw ~* &* +@all ns=shop ns=5"), "+OK\r\n");
    assert_eq!(ask(&mut ann, "AUTH ann pw"), "+OK\r\n");
    let dry = |admin: &mut Replies, line: &str| ask(admin, &format!("ACL DRYRUN ann {line}"));
    for (line, object) in [("get k", "default"), ("dbsize", "default"), ("flushall", "all"), ("select 4", "4")] {
        let denied = format!("This user has no permissions to access the '{object}' namespace\r\n");
        assert!(dry(&mut admin, line).ends_with(&denied), "{line}: {}", dry(&mut admin, line));
    }
    for line in ["select 5", "select shop", "ping"] {
        assert_eq!(dry(&mut admin, line), "+OK\r\n", "{line}");
    }
    let refused = "-NOPERM this user has no permissions to use keys of this database\r\n";
    // In the namespace of its listener, the client may execute commands without keys.
    for line in
        ["GET k", "SET k x", "MGET k l", "DBSIZE", "SCAN 0", "KEYS *", "FLUSHDB", "FLUSHALL", "WATCH k", "SELECT 4"]
    {
        assert_eq!(ask(&mut ann, line), refused, "{line}");
    }
    assert_eq!(ann.ask(&[b"SET", b"k", &vec![b'x'; 700_000]]), refused.as_bytes());
    assert_eq!((ask(&mut ann, "PING"), ask(&mut ann, "PUBLISH ch x")), ("+PONG\r\n".into(), ":0\r\n".into()));
    for (namespace, value) in [("shop", "s"), ("5", "f")] {
        assert_eq!(ask(&mut ann, &format!("SELECT {namespace}")), "+OK\r\n");
        assert_eq!(ask(&mut ann, &format!("SET k {value}")), "+OK\r\n");
        assert_eq!(ask(&mut ann, "GET k"), format!("$1\r\n{value}\r\n"));
        assert_eq!(ask(&mut ann, "FLUSHALL"), refused);
        // In runs too, and where a transaction goes elsewhere by its own requests.
        ann.client.send(&[request(&[b"GET", b"k"]), request(&[b"SELECT", b"0"]), request(&[b"GET", b"k"])].concat());
        let [one, select, other] = [ann.next(), ann.next(), ann.next()];
        assert!(one == other && select == refused.as_bytes());
    }
    assert_eq!(ask(&mut ann, "MULTI"), "+OK\r\n");
    assert_eq!(ask(&mut ann, "SELECT 3"), "+QUEUED\r\n");
    assert_eq!(ask(&mut ann, "GET k"), "+QUEUED\r\n");
    assert_eq!(ask(&mut admin, "ACL SETUSER ann allns ns=5"), "+OK\r\n");
    let answer = ask(&mut ann, "EXEC");
    assert!(answer.starts_with("*2\r\n-NOPERM ACLs rules changed") && answer.ends_with("$1\r\nf\r\n"), "{answer}");
    assert!(ask(&mut admin, "ACL LIST").contains(" +@all ns=5\r\n"));
    assert!(ask(&mut admin, "ACL GETUSER ann").contains("$10\r\nnamespaces\r\n$4\r\nns=5\r\n"));
    assert!(ask(&mut admin, "ACL LOG 1").contains("\r\nnamespace\r\n"));
    assert_eq!(ask(&mut admin, "ACL SETUSER ann allns"), "+OK\r\n");
    assert_eq!((ask(&mut ann, "SELECT 0"), ask(&mut ann, "GET k")), ("+OK\r\n".into(), "$7\r\ndefault\r\n".into()));
    running.stop();
}

/// The file of users may be on a disk that takes long. A pipe without a writer stands for such a disk.
#[test]
fn slow_disk_of_the_file_of_users_delays_no_other_client() {
    let path = std::env::temp_dir().join(format!("gannet-users-{}-{}", std::process::id(), crate::common::io() as u8));
    std::fs::write(&path, "user ann on nopass ~* +@all\n").expect("a file");
    let running = start(ServerConfig { acl_file: Some(path.clone()), ..served() });
    let (mut admin, mut other) = (Replies::connect(addr(&running)), Replies::connect(addr(&running)));
    assert_eq!((ask(&mut admin, "ACL SAVE"), ask(&mut admin, "ACL LOAD")), ("+OK\r\n".into(), "+OK\r\n".into()));
    std::fs::remove_file(&path).expect("the file");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
    assert!(made.success());
    admin.client.send(&request(&[b"ACL", b"LOAD"]));
    for _ in 0..100 {
        assert_eq!(ask(&mut other, "PING"), "+PONG\r\n");
    }
    assert!(ask(&mut other, "ACL USERS").contains("\r\nann\r\n"));
    std::fs::write(&path, "user bob on nopass ~* +@all\n").expect("a writer");
    assert_eq!(admin.next(), b"+OK\r\n");
    let users = ask(&mut other, "ACL USERS");
    assert!(users.contains("\r\nbob\r\n") && !users.contains("\r\nann\r\n"), "{users}");
    running.stop();
    let _ = std::fs::remove_file(&path);
}

/// A rule can be as long as a request, and a user can have a thousand rules, so a list of rules needs a limit.
#[test]
fn rules_longer_than_any_answer_are_refused_or_listed_and_end_no_server() {
    let running = start(served());
    let mut admin = Replies::connect(addr(&running));
    let pattern = |number: usize| [format!("~{number}-").as_bytes(), &vec![b'p'; 230_000]].concat();
    let mut taken = [0, 0];
    for number in 0..320 {
        let name = format!("user-{number}");
        for (of, name) in [name.as_bytes(), b"one"].into_iter().enumerate() {
            let answer = admin.ask(&[b"ACL", b"SETUSER", name, &pattern(number)]);
            assert!(answer == b"+OK\r\n" || answer.starts_with(b"-OOM "), "{}", answer.escape_ascii());
            taken[of] += usize::from(answer == b"+OK\r\n");
        }
    }
    assert!(taken[0] > 5 && taken[1] > 5, "{taken:?} are too few rules to prove anything");
    for topic in [&["LIST"][..], &["GETUSER", "one"]] {
        let words: Vec<&[u8]> = [&["ACL"][..], topic].concat().iter().map(|word| word.as_bytes()).collect();
        let answer = admin.ask(&words);
        let refused = answer.starts_with(b"-ERR the reply exceeds") || answer.starts_with(b"-OOM ");
        assert!(refused || answer[0] == b'*' && answer.len() > 230_000 * taken[0].min(taken[1]), "{topic:?}");
        assert_eq!(ask(&mut admin, "PING"), "+PONG\r\n");
    }
    running.stop();
}

/// Connects a user `sub` that subscribes, and changes its rights. Returns the connections of an administrator and of
/// the user.
fn subscribe_and_change(addr: SocketAddr, subscribe: &str, change: &str) -> [Replies; 2] {
    let (mut admin, mut client) = (Replies::connect(addr), Replies::connect(addr));
    ask(&mut admin, "ACL SETUSER sub on nopass +@all allkeys &a* &b*");
    ask(&mut client, "AUTH sub x");
    client.client.send(&request(&subscribe.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
    for _ in 1..subscribe.split(' ').count() {
        client.next();
    }
    ask(&mut admin, &format!("ACL SETUSER sub {change}"));
    // A message that is published after the change does not reach a client that must not have it.
    ask(&mut admin, "PUBLISH c nobody");
    [admin, client]
}

/// Returns true if the user `sub` has a connection.
fn is_connected(admin: &mut Replies) -> bool {
    ask(admin, "CLIENT LIST").contains("user=sub")
}

#[test]
fn a_subscriber_that_loses_its_right_to_a_channel_is_disconnected_as_in_redis() {
    let (running, redis) = (start(served()), Redis::start());
    for (subscribe, change) in [
        ("SUBSCRIBE a1", "resetchannels"),
        ("SUBSCRIBE a1", "resetchannels &a*"),
        ("SUBSCRIBE a1", "resetchannels &b*"),
        ("SUBSCRIBE a1", "resetchannels &a1"),
        ("SUBSCRIBE a1 b1", "resetchannels &a*"),
        ("PSUBSCRIBE a*", "resetchannels &a*"),
        ("PSUBSCRIBE a*", "resetchannels &a1"),
        ("PSUBSCRIBE a*", "allchannels"),
        ("SSUBSCRIBE a1", "resetchannels"),
        ("SSUBSCRIBE a1", "resetchannels &a1"),
        ("SUBSCRIBE a1", "-@all"),
        ("SUBSCRIBE a1", "resetkeys off"),
    ] {
        // Redis closes connections before it reads the next request.
        let [mut their_admin, mut theirs] = subscribe_and_change(redis.addr, subscribe, change);
        let is_open = is_connected(&mut their_admin);
        let [mut admin, mut ours] = subscribe_and_change(addr(&running), subscribe, change);
        if is_open {
            let stays_open = (0..100).all(|_| {
                std::thread::sleep(std::time::Duration::from_millis(2));
                is_connected(&mut admin)
            });
            assert!(stays_open, "{subscribe}, then {change}");
        } else {
            for client in [&mut theirs, &mut ours] {
                assert_eq!(client.client.read_to_end(), b"", "{subscribe}, then {change}");
            }
            wait_until("the user has no connection", || !is_connected(&mut admin));
        }
        for admin in [&mut their_admin, &mut admin] {
            ask(admin, "ACL DELUSER sub");
        }
    }
    running.stop();
}

#[test]
fn a_client_with_more_subscriptions_than_a_visit_checks_gets_no_message_after_it_lost_a_right() {
    let running = start(served());
    let (mut admin, mut client) = (Replies::connect(addr(&running)), Replies::connect(addr(&running)));
    ask(&mut admin, "ACL SETUSER sub on nopass +@all &*");
    ask(&mut client, "AUTH sub x");
    for n in 0..1000 {
        ask(&mut client, &format!("SUBSCRIBE a{n}"));
    }
    ask(&mut admin, "ACL SETUSER sub resetchannels &a*");
    assert_eq!(ask(&mut admin, "PUBLISH a7 one"), ":1\r\n");
    assert_eq!(client.next(), b"*3\r\n$7\r\nmessage\r\n$2\r\na7\r\n$3\r\none\r\n");
    ask(&mut admin, "ACL SETUSER sub resetchannels &a1* &a2* &a3* &a4* &a5* &a6* &a7* &a8*");
    ask(&mut admin, "PUBLISH a7 two");
    assert_eq!(client.client.read_to_end(), b"", "the channels a0 and a9 are no longer allowed");
    running.stop();
}

/// A role stands for rules, in commands and in the file of users.
#[test]
fn role_is_listed_and_saved_as_its_rules_and_limits_its_user() {
    let path = std::env::temp_dir().join(format!("gannet-roles-{}-{}", std::process::id(), crate::common::io() as u8));
    std::fs::write(&path, "user ann on nopass ~a* role:write\n").expect("a file");
    let running = start(ServerConfig { acl_file: Some(path.clone()), ..served() });
    let [mut admin, mut ann] = [(); 2].map(|()| Replies::connect(addr(&running)));
    assert_eq!(ask(&mut ann, "AUTH ann any"), "+OK\r\n");
    assert_eq!((ask(&mut ann, "SET a 1"), ask(&mut ann, "GET a")), ("+OK\r\n".into(), "$1\r\n1\r\n".into()));
    for line in ["GET b", "FLUSHALL", "KEYS *", "ACL LIST"] {
        assert!(ask(&mut ann, line).starts_with("-NOPERM"), "{line}");
    }
    assert_eq!(ask(&mut admin, "ACL SETUSER ann role:read"), "+OK\r\n");
    assert!(ask(&mut ann, "SET a 1").starts_with("-NOPERM") && ask(&mut ann, "PING") == "+PONG\r\n");
    assert!(ask(&mut admin, "ACL LIST").contains(" ~a* resetchannels -@all +@read +@connection -@dangerous\r\n"));
    assert_eq!(ask(&mut admin, "ACL SAVE"), "+OK\r\n");
    let saved = std::fs::read_to_string(&path).expect("saved");
    assert!(saved.contains("-@all +@read +@connection -@dangerous") && !saved.contains("role:"), "{saved}");
    assert!(ask(&mut admin, "ACL SETUSER ann role:reader").contains("Unknown role: use role:read"));
    running.stop();
    let _ = std::fs::remove_file(&path);
}
