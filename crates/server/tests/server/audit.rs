//! Tests of the audit log: it has each change with its user and address, and no secret.

use crate::common::redis::{both, resp};
use crate::common::{Client, start, tcp};
use gannet_server::start::{AuditConfig, ServerConfig};

#[test]
fn audit_log_has_each_change_with_its_user_and_no_secret() {
    let name = format!("gannet-audit-test-{}-{}", std::process::id(), crate::common::io() as u8);
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let audit = Some(AuditConfig { path: path.clone(), bytes_max: 1 << 20, files_max: 2 });
    let users = path.with_extension("users");
    std::fs::write(&users, "user default on nopass ~* &* +@all\n").unwrap();
    let acl_file = Some(users.clone());
    let running = start(ServerConfig { audit, acl_file, flush_command: true, debug_command: true, ..both() });
    let mut admin = resp(&running);
    for line in [
        "ACL SETUSER ann on >s3cret-1 <s3cret-1 >s3cret-2 ~* +@all",
        "ACL SETUSER gone",
        "AUTH ann s3cret-2",
        "CONFIG SET timeout 7 notify-keyspace-events KEA",
        "DEBUG SLEEP 0.001",
        "FLUSHDB",
        "FLUSHALL",
        "SWAPDB 0 1",
    ] {
        assert_eq!(admin.text(line), "+OK", "{line}");
    }
    assert_eq!(admin.text("ACL DELUSER gone"), ":1");
    assert!(admin.text("AUTH bob s3cret-3").starts_with("-WRONGPASS"));
    assert!(admin.text("HELLO 3 AUTH bob s3cret-4").starts_with("-WRONGPASS"));
    assert_eq!(admin.text("CONFIG SET requirepass s3cret-5"), "+OK");
    let mut memcached = Client::connect(tcp(&running));
    memcached.ask(b"set x 0 0 12\r\nann s3cret-6\r\n", b"CLIENT_ERROR authentication failure\r\n");
    memcached.ask(b"set x 0 0 12\r\nann s3cret-2\r\n", b"STORED\r\n");
    memcached.ask(b"flush_all\r\n", b"OK\r\n");
    running.shared().reload_users();
    std::fs::write(&users, "nonsense\n").unwrap();
    running.shared().reload_users();
    running.stop();
    let text = std::fs::read_to_string(&path).expect("the log");
    assert!(!text.contains("s3cret"), "{text}");
    let events: Vec<String> = text
        .lines()
        .map(|line| {
            let read: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let field = |name: &str| read[name].as_str().unwrap_or_default().to_owned();
            assert!(
                field("time").ends_with('Z')
                    && (field("source").starts_with("127.0.0.1:") || field("event") == "users_reload")
            );
            [field("event"), field("user"), field("protocol"), field("detail")].join("|")
        })
        .collect();
    let results = ["was read", "was refused; the previous users remain"];
    let reloads = results.map(|result| format!("users_reload|||{} {result}", users.display()));
    let expected = [
        "acl|default|Redis|SETUSER ann on >(redacted) <(redacted) >(redacted) ~* +@all",
        "acl|default|Redis|SETUSER gone",
        "login|ann|Redis|",
        "config|ann|Redis|CONFIG SET timeout 7 notify-keyspace-events KEA",
        "command|ann|Redis|DEBUG SLEEP 0.001",
        "flush|ann|Redis|FLUSHDB default",
        "flush|ann|Redis|FLUSHALL",
        "flush|ann|Redis|SWAPDB 0 1",
        "acl|ann|Redis|DELUSER gone",
        "login_failed|bob|Redis|",
        "login_failed|bob|Redis|",
        "config|ann|Redis|CONFIG SET requirepass (redacted)",
        "login_failed|ann|memcached|",
        "login|ann|memcached|",
        "flush|ann|memcached|flush_all 0",
        &reloads[0],
        &reloads[1],
    ];
    assert_eq!(events, expected);
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&users).unwrap();
}

#[test]
fn audit_log_that_cannot_be_opened_prevents_the_start() {
    let audit = Some(AuditConfig { path: "/nonexistent/audit.log".into(), bytes_max: 1 << 20, files_max: 2 });
    let refused = gannet_server::start::Server::start(ServerConfig { audit, ..both() });
    let error = refused.err().expect("an error").to_string();
    assert!(error.starts_with("cannot open the audit log /nonexistent/audit.log: "), "{error}");
}
