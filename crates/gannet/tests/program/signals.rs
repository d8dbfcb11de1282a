//! Tests the signals of a server process: it serves, reloads and stops.

use crate::common::{Serving, TempFile, ask, connect, page};
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};

const SMALL: [&str; 8] =
    ["--memory", "64MiB", "--workers", "2", "--memcached", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

#[test]
fn server_logs_its_listen_addresses_and_serves_there() {
    let socket = std::env::temp_dir().join(format!("gannet-{}-serves.sock", std::process::id()));
    let unix = format!("unix:{}", socket.display());
    let mut serving = Serving::start(&[&SMALL[..], &["--memcached", &unix]].concat());
    let addr = serving.addr_behind("memcached clients connect to ");
    let line = serving.wait_for("memcached clients connect to unix:");
    assert!(line.contains(&unix), "{line}");
    let admin = serving.addr_behind("metrics are at http://");
    ask(&mut connect(addr), b"set k 0 0 5\r\nhello\r\nget k\r\n", b"STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\n");
    ask(&mut UnixStream::connect(&socket).unwrap(), b"get k\r\n", b"VALUE k 0 5\r\nhello\r\nEND\r\n");
    assert!(page(admin, "/metrics").contains("gannet_lookups_total{result=\"hit\"} 2\n"));
    let config = page(admin, "/config");
    assert!(
        config.contains("memory = \"64MiB\"  # --memory") && config.contains("workers = 2  # --workers"),
        "{config}"
    );
    serving.signal("TERM");
    assert!(serving.ended().success());
    assert!(!socket.exists(), "the socket's file is removed");
}

#[test]
fn workers_run_on_planned_cpus_and_involuntary_switches_are_exported() {
    let any = "127.0.0.1:0";
    let mut serving = Serving::start(&["--memory", "64MiB", "--memcached", any, "--admin", any, "--pin", "auto"]);
    let pinned = io::affinity::usable_cpus().unwrap().len() > 2;
    assert_eq!(serving.lines.iter().any(|line| line.contains("pins no CPUs")), !pinned, "{:?}", serving.lines);
    let admin = serving.addr_behind("metrics are at http://");
    assert_eq!(page(admin, "/config").contains("pin = \"none\""), !pinned);
    let metrics = page(admin, "/metrics");
    for thread in ["worker-0", "admin"] {
        let line = format!("gannet_thread_involuntary_switches_total{{thread=\"{thread}\"}} ");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    let tasks = std::fs::read_dir(format!("/proc/{}/task", serving.pid())).unwrap();
    let status: Vec<String> =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok()).collect();
    let worker = status.iter().find(|status| status.starts_with("Name:\tworker-0\n")).unwrap();
    let allowed = worker.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    assert_eq!(allowed.parse::<usize>().is_ok(), pinned || allowed == "0", "{allowed}");
}

/// On one CPU, a client waited for a slice of the scheduler (4 ms) for each piece of memory that was prefaulted.
#[test]
fn threads_that_get_memory_or_accept_connections_give_way_to_workers() {
    let mut serving = Serving::start(&["--memory", "64MiB", "--memcached", "127.0.0.1:0", "--admin", "none"]);
    connect(serving.addr_behind("memcached clients connect to "));
    // Returns `None` until the thread has its name, because threads start while the server already listens.
    let niceness = |name: &str| {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", serving.pid())).unwrap();
        let mut stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        let stat = stats.find(|stat| stat.contains(&format!("({name})")))?;
        // Fields of `stat` after the name: the state is field 3, the niceness field 19 (proc(5)).
        Some(stat.rsplit(") ").next().and_then(|fields| fields.split(' ').nth(16)?.parse::<i32>().ok()).unwrap())
    };
    let begun = std::time::Instant::now();
    loop {
        let [worker, memory, acceptor] = ["worker-0", "memory", "acceptor"].map(niceness);
        // 19 is the highest niceness; the tests themselves may run with one above 0.
        let given_way = worker.map(|own| (own + 10).min(19));
        if given_way.is_some() && memory == given_way && acceptor == given_way {
            return;
        }
        assert!(begun.elapsed() < crate::common::PATIENCE, "{worker:?}, {memory:?}, {acceptor:?}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn huge_page_coverage_is_logged_without_an_admin_port() {
    let mut serving = Serving::start(&[&SMALL[..6], &["--admin", "none"]].concat());
    let addr = serving.addr_behind("memcached clients connect to ");
    let line = serving.wait_for("huge pages ");
    let had = line.contains("huge pages back ");
    assert!(had != line.contains("the kernel provided none"), "{line}");
    // Clients see the same value as soon as the thread that computed it has published it.
    let told = |text: &str| -> bool {
        let mut stream = connect(addr);
        stream.write_all(b"stats\r\nquit\r\n").unwrap();
        let mut stats = String::new();
        stream.read_to_string(&mut stats).unwrap();
        assert!(stats.contains("STAT huge_pages_asked yes\r\n"), "{stats}");
        stats.contains(text)
    };
    let begun = std::time::Instant::now();
    while told("STAT huge_page_bytes 0\r\n") == had {
        assert!(begun.elapsed() < crate::common::PATIENCE, "{line}");
    }
}

#[test]
fn the_line_to_try_works_in_a_shell() {
    let mut serving = Serving::start(&SMALL);
    let line = serving.wait_for("; try: ");
    let command = line.split("; try: ").nth(1).unwrap();
    let output = std::process::Command::new("bash").args(["-c", command]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\n");
}

#[test]
fn term_and_int_end_it_and_close_its_connections() {
    for signal in ["TERM", "INT"] {
        let mut serving = Serving::start(&SMALL);
        let addr = serving.addr_behind("memcached clients connect to ");
        let mut client = connect(addr);
        ask(&mut client, b"get k\r\n", b"END\r\n");
        serving.signal(signal);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
        assert_eq!(serving.ended().code(), Some(0), "{signal}");
        serving.wait_for("stopped");
    }
}

#[test]
fn reload_applies_live_settings_and_names_those_that_need_a_restart() {
    let file = TempFile::new("reload.toml", "[log]\nlevel = \"info\"\n[limits]\nidle_timeout = \"0s\"\n");
    let mut serving = Serving::start(&[&[file.path()], &SMALL[..]].concat());
    let addr = serving.addr_behind("memcached clients connect to ");
    let admin = serving.addr_behind("metrics are at http://");
    let mut client = connect(addr);
    ask(&mut client, b"get k\r\n", b"END\r\n");
    std::fs::write(&file.0, "[log]\nlevel = \"warn\"\n[limits]\nidle_timeout = \"1s\"\n[commands]\nshutdown = true\n")
        .unwrap();
    serving.signal("HUP");
    let line = serving.wait_for("commands.shutdown");
    assert!(line.contains("WARN") && line.contains("needs a restart"), "{line}");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "the idle connection was closed by the new timeout");
    let config = page(admin, "/config");
    assert!(config.contains("idle_timeout = \"1s\"  # ") && config.contains("shutdown = false  # default"), "{config}");
    std::fs::write(&file.0, "[log]\nlevel = \"loud\"\n[limits]\nidle_timeout = \"9s\"\n").unwrap();
    serving.signal("HUP");
    let line = serving.wait_for("reload: ");
    assert!(line.contains("reload.toml:2: log.level"), "{line}");
    serving.wait_for("no setting was reloaded");
    assert!(page(admin, "/config").contains("idle_timeout = \"1s\""));
    serving.signal("TERM");
    assert!(serving.ended().success());
}

#[test]
fn reload_updates_namespace_settings_and_prefixes_and_names_the_rest() {
    let head = "[store]\nmemory = \"64MiB\"\n";
    let shop = "[[namespace]]\nname = \"shop\"\nmemory = \"8MiB\"\nprefix = \"shop:\"\n";
    let file = TempFile::new("namespaces.toml", &[head, shop].concat());
    let mut serving = Serving::start(&[&[file.path()], &SMALL[2..]].concat());
    let addr = serving.addr_behind("memcached clients connect to ");
    let admin = serving.addr_behind("metrics are at http://");
    let items = |name: &str| {
        let (metrics, line) = (page(admin, "/metrics"), format!("gannet_namespace_items{{namespace=\"{name}\"}} "));
        let found = metrics.lines().find_map(|text| text.strip_prefix(&line));
        found.map(|number| number.parse::<u64>().expect("a number"))
    };
    let mut client = connect(addr);
    ask(&mut client, b"set shop:k 0 0 1\r\nv\r\nset new:k 0 0 1\r\nw\r\n", b"STORED\r\nSTORED\r\n");
    assert_eq!((items("shop"), items("default"), items("cache")), (Some(1), Some(1), None));
    let mut reload = |text: &str, line: &str| {
        std::fs::write(&file.0, [head, text].concat()).expect("the file is written");
        serving.signal("HUP");
        let said = serving.wait_for(line);
        serving.wait_for("reload");
        said
    };
    // Adds a namespace, and moves a prefix to it: keys with that prefix belong to the new namespace now.
    let cache = "[[namespace]]\nname = \"cache\"\nmaxconns = 9\nprefix = [\"shop:\", \"new:\"]\n";
    let moved = shop.replace("shop:", "other:").replace("8MiB", "12MiB");
    reload(&[cache, &moved].concat(), "namespace cache now has ");
    ask(&mut client, b"get shop:k new:k\r\n", b"END\r\n");
    ask(&mut client, b"set new:k 0 0 1\r\nx\r\nset other:k 0 0 1\r\ny\r\n", b"STORED\r\nSTORED\r\n");
    assert_eq!((items("shop"), items("default"), items("cache")), (Some(2), Some(1), Some(1)));
    let list = page(admin, "/namespaces");
    assert!(list.contains("prefix = [\"shop:\", \"new:\"]") && list.contains("memory = \"12MiB\""), "{list}");
    // A fault is reported with its line, and changes nothing.
    let line =
        reload(&[&moved, shop.replace("shop\"", "more\"").replace("shop:", "other:").as_str()].concat(), ":10: ");
    assert!(line.contains("namespace.prefix") && line.contains("already"), "{line}");
    ask(&mut client, b"get other:k new:k\r\n", b"VALUE other:k 0 1\r\ny\r\nVALUE new:k 0 1\r\nx\r\nEND\r\n");
    // A namespace that is no longer in the file remains. If one of its prefixes should move to another namespace, all
    // prefixes remain unchanged.
    let line = reload(&shop.replace("shop:", "new:"), "the prefixes of all namespaces are unchanged");
    assert!(line.contains("\"new:\" already leads to the namespace \"shop\""), "{line}");
    let line = reload(&moved, "namespace cache remains until it is deleted");
    assert!(line.contains("admin port"), "{line}");
    ask(&mut client, b"get other:k new:k\r\n", b"VALUE other:k 0 1\r\ny\r\nVALUE new:k 0 1\r\nx\r\nEND\r\n");
    // Changes that need a restart are reported.
    let listeners = [&moved, "memcached = [\"127.0.0.1:0\"]\n"].concat();
    let line = reload(&[&listeners, cache].concat(), "need a restart");
    assert!(line.contains("namespace shop"), "{line}");
    // A new namespace gets a free number, wherever it is in the file. A number that is in use is refused.
    let numbered = |number: &str| format!("[[namespace]]\nname = \"late\"\n{number}");
    let line = reload(&[&numbered("number = 1\n"), cache].concat(), "cannot create namespace late");
    assert!(line.contains("another namespace has the number 1"), "{line}");
    reload(&[&numbered(""), cache].concat(), "namespace late now has ");
    assert!(page(admin, "/namespaces").contains("name = \"late\"\nnumber = 3\n"));
    serving.signal("TERM");
    assert!(serving.ended().success());
}

/// Returns the datagrams that arrive at a service manager's socket up to the one that contains `last`.
fn notified(socket: &UnixDatagram, last: &str) -> Vec<String> {
    socket.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    let mut states = Vec::new();
    while !states.last().is_some_and(|state: &String| state.contains(last)) {
        let mut state = [0; 256];
        let bytes = socket.recv(&mut state).unwrap_or_else(|error| panic!("no {last} after {states:?}: {error}"));
        states.push(String::from_utf8(state[..bytes].to_vec()).unwrap());
    }
    states
}

#[test]
fn service_manager_learns_that_the_server_is_ready_stops_and_has_another_main_process() {
    let path = std::env::temp_dir().join(format!("gannet-{}-notify.sock", std::process::id()));
    let abstract_name = format!("gannet-{}-notify", std::process::id());
    let by_name = SocketAddr::from_abstract_name(&abstract_name).unwrap();
    let sockets = [
        (path.display().to_string(), UnixDatagram::bind(&path).unwrap()),
        (format!("@{abstract_name}"), UnixDatagram::bind_addr(&by_name).unwrap()),
    ];
    for (name, socket) in sockets {
        let env = [("NOTIFY_SOCKET", &name[..])];
        let ready = |pid: u32| format!("READY=1\nMAINPID={pid}\nSTATUS=serving");
        let mut old = Serving::start_in(&[&SMALL[..6], &["--admin", "none", "--upgradable"]].concat(), &env);
        let addr = old.addr_behind("memcached clients connect to ").to_string();
        assert_eq!(notified(&socket, "READY"), [ready(old.pid())]);
        let flags = ["--workers", "2", "--memcached", &addr, "--admin", "none", "--upgradable", "--upgrade"];
        let mut new = Serving::start_in(&flags, &env);
        assert_eq!(notified(&socket, "READY"), [ready(new.pid())]);
        assert!(old.ended().success());
        assert_eq!(notified(&socket, "MAINPID"), [format!("MAINPID={}", new.pid())], "from the old main process");
        new.signal("TERM");
        assert_eq!(notified(&socket, "STOPPING"), ["STOPPING=1\nSTATUS=stopping"]);
        assert!(new.ended().success());
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn missing_service_manager_is_logged_and_the_server_serves() {
    for name in ["/nonexistent/notify", "vsock:2:1234"] {
        let arguments = [&SMALL[..6], &["--admin", "none"]].concat();
        let mut serving = Serving::start_in(&arguments, &[("NOTIFY_SOCKET", name)]);
        let addr = serving.addr_behind("memcached clients connect to ");
        assert!(serving.wait_for("cannot notify the service manager").contains(name));
        ask(&mut connect(addr), b"get k\r\n", b"END\r\n");
    }
}
