//! Compares the names of statistics with those of Debian's memcached.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use crate::common::memcached::Memcached;
use crate::common::{Client, config, start, tcp};
use gannet_server::config::kinds::FlashPlace;

/// Names of memcached 1.6.18 that this server does not report, each with the reason.
const MISSING: [(&str, &str); 8] = [
    ("libevent", "the server does not use libevent"),
    ("reserved_fds", "the limit of connections does not include the server's own descriptors"),
    ("conns:N:listen_addr", "the listener of a connection is not recorded"),
    ("conns:N:secs_since_last_cmd", "a listening socket receives no commands"),
    ("extstore:N:version", "regions of flash have no numbers that clients know"),
    ("extstore:N:bytes", "as above"),
    ("extstore:N:bucket", "as above"),
    ("extstore:N:free_bucket", "as above"),
];

/// Returns the names of settings, which do not depend on flash or TLS.
fn settings(addr: SocketAddr) -> BTreeSet<String> {
    let mut client = Client::connect(addr);
    client.send(b"stats settings\r\nquit\r\n");
    let text = String::from_utf8(client.read_to_end()).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("STAT "));
    lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn settings_of_tls_and_flash_have_names_while_both_are_unused() {
    let (memcached, running) = (Memcached::start(64), start(config()));
    let (theirs, ours) = (settings(memcached.addr), settings(tcp(&running)));
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for prefix in ["ssl_", "ext_"] {
        assert!(theirs.iter().filter(|name| name.starts_with(prefix)).count() >= 10, "{theirs:?}");
    }
    running.stop();
}

/// Returns the names of a server's statistics. Numbers of connections and pages are replaced by N.
fn names(addr: SocketAddr) -> BTreeSet<String> {
    let mut client = Client::connect(addr);
    client.ask(b"set a 0 0 1\r\nx\r\nget a\r\n", b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    let mut found = BTreeSet::new();
    for topic in ["", "settings", "items", "slabs", "conns", "sizes", "extstore"] {
        let mut client = Client::connect(addr);
        client.send(format!("stats {topic}\r\nquit\r\n").as_bytes());
        let text = String::from_utf8(client.read_to_end()).unwrap();
        assert!(text.ends_with("END\r\n"), "{topic}: {text}");
        for line in text.lines().filter_map(|line| line.strip_prefix("STAT ")) {
            let name = line.split(' ').next().unwrap();
            found.insert(match (topic, name.split_once(':')) {
                ("conns" | "extstore", Some((_, name))) => format!("{topic}:N:{name}"),
                _ => name.to_owned(),
            });
        }
    }
    found
}

#[test]
fn statistics_have_every_name_of_memcached_except_those_listed() {
    let folder = std::env::temp_dir();
    let [theirs, ours] =
        ["theirs", "ours"].map(|who| folder.join(format!("gannet-names-{}-{who}", std::process::id())));
    let path = theirs.to_str().unwrap();
    // The user of memcached must be able to write the file.
    let memcached = Memcached::start_with(
        64,
        &["-u", "root", "-o", &format!("ext_page_size=8,ext_wbuf_size=4,ext_path={path}:64m")],
    );
    let mut config = config();
    config.flash = vec![FlashPlace { path: ours.clone(), size: base::units::ByteSize(64 << 20) }];
    let running = start(config);
    let (theirs_named, ours_named) = (names(memcached.addr), names(tcp(&running)));
    let missing: BTreeSet<&str> = theirs_named.difference(&ours_named).map(String::as_str).collect();
    // `secs_since_last_cmd` is only missing for listening sockets, whose names are those of connections.
    let listed = MISSING.iter().map(|(name, _)| *name).filter(|name| *name != "conns:N:secs_since_last_cmd");
    assert_eq!(missing, listed.collect::<BTreeSet<_>>());
    assert!(theirs_named.len() > 200, "{}", theirs_named.len());
    running.stop();
    for path in [theirs, ours] {
        let _ = std::fs::remove_file(path);
    }
}
