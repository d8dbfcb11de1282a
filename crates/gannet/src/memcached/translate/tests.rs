use super::*;
use server::config::table::SETTINGS;

fn host() -> Host {
    Host {
        cpus: (0..16).collect(),
        cpu_quota_percent: None,
        machine_bytes: 64 << 30,
        cgroup_bytes: None,
        files_max: 20_000,
        huge_pages: true,
    }
}

fn read(line: &str) -> Result<CommandLine, Vec<Refusal>> {
    translate(line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect(), &host())
}

fn served(line: &str) -> Translation {
    match read(line) {
        Ok(CommandLine::Serve(translation)) => *translation,
        other => panic!("{line}: {other:?}"),
    }
}

/// Returns the settings that `line` changes, each as its path and value.
fn changes(line: &str) -> Vec<String> {
    let (without, with) = (served(""), served(line));
    let differs =
        |setting: &&server::config::table::Setting| setting.show(&without.settings) != setting.show(&with.settings);
    let told = SETTINGS.iter().filter(differs).map(|s| format!("{} {}", s.path, s.show(&with.settings)));
    told.collect()
}

#[test]
fn each_memcached_flag_changes_exactly_its_own_setting() {
    for (line, change) in [
        ("-l 127.0.0.1 -p 7", "listen.memcached 127.0.0.1:7"),
        ("-l 127.0.0.1:8,127.0.0.2 -p7", "listen.memcached 127.0.0.1:8, 127.0.0.2:7"),
        ("-p -1 -l 127.0.0.1", "listen.memcached 127.0.0.1:0"),
        ("-s /tmp/x.sock", "listen.memcached unix:/tmp/x.sock"),
        ("-a 0770", "listen.unix_mode 0770"),
        ("-a 7", "listen.unix_mode 0007"),
        ("-A", "commands.shutdown true"),
        ("-m 1024", "store.memory 1GiB"),
        ("-c 2000", "limits.maxconns 2000"),
        ("-k", "store.lock true"),
        ("-t 7", "threads.workers 7"),
        ("-R 20", "limits.requests_a_visit 20"),
        ("-C", "commands.cas false"),
        ("-b 77", "listen.backlog 77"),
        ("-I 2m", "store.item_max 2MiB"),
        ("-I 4K", "store.item_max 4KiB"),
        ("-I 1500", "store.item_max 1500B"),
        ("-F", "commands.flush_all false"),
        ("-M", "store.evict false"),
        ("-Y /etc/users", "listen.auth_file /etc/users"),
        ("-Y users -B ascii", "listen.auth_file users"),
        ("-X", "commands.dump false"),
        ("-W", "commands.watch false"),
        ("-v", "log.level info"),
        ("-vv", "log.level debug"),
        ("-vvvv", "log.level trace"),
        ("-o idle_timeout=77", "limits.idle_timeout 77s"),
        ("-e /dev/shm/items", "store.file /dev/shm/items"),
        ("--memory-file=/dev/shm/items", "store.file /dev/shm/items"),
    ] {
        let changed = changes(line);
        assert!(changed.len() == 1 && changed[0] == change, "{line}: {changed:?}");
    }
    for (line, segment, flash) in [
        ("-o ext_path=/d1/ext:2g,ext_path=/d2/ext:512M:lowttl", "512KiB", "/d1/ext:2GiB, /d2/ext:512MiB"),
        ("-m 1000 -o ext_path=/d1/ext:1t,ext_drop_unread", "1MiB", "/d1/ext:1TiB"),
        ("-m 16 -o ext_path=/d1/ext:1t", "128KiB", "/d1/ext:1TiB"),
    ] {
        let changed = changes(line);
        for change in [format!("store.segment {segment}"), format!("store.flash {flash}")] {
            assert!(changed.contains(&change), "{line}: {changed:?}");
        }
    }
    let prefixes = ["commands.prefix_stats true", "commands.prefix_delimiter #"];
    assert_eq!(
        (changes("-D #"), changes("-D #more")),
        (prefixes.map(str::to_owned).into(), prefixes.map(str::to_owned).into())
    );
    for line in ["", "-B auto", "-B ascii", "-U 0", "-L", "-o modern,maxconns_fast", "-d", "-u x", "-P /p", "-r"] {
        let translation = served(line);
        assert!(changes(line).is_empty() && translation.warnings.is_empty(), "{line}: {:?}", translation.warnings);
    }
}

#[test]
fn defaults_without_flags_match_memcached() {
    let Translation { settings, process, warnings, .. } = served("");
    assert!(warnings.is_empty());
    let show = |path: &str| setting(path).unwrap().show(&settings);
    assert!(show("listen.memcached").starts_with("0.0.0.0:11211"));
    assert_eq!((show("store.memory"), show("limits.maxconns")), ("64MiB".into(), "1024".into()));
    assert_eq!((show("threads.workers"), show("listen.admin")), ("4".into(), "none".into()));
    assert!(process.user.is_none() && process.pid_file.is_none() && !process.daemon && !process.core_files);
    let one = Host { cpus: vec![0], ..host() };
    match translate(Vec::new(), &one) {
        Ok(CommandLine::Serve(translation)) => assert_eq!(translation.settings.workers.explicit(), Some(1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn flag_without_effect_is_accepted_with_a_single_warning() {
    for line in [
        "-f 1.25",
        "-n 48",
        "-N 2",
        "-o hashpower=20",
        "-o no_modern",
        "-o lru_crawler_sleep=100",
        "-U 11211",
        "--udp=11211",
        "-o ext_item_size=600",
        "-o ext_threads=4",
        "-o ext_max_frag=0.9",
        "-m 64m",
        "-m 4",
        "-t 1000",
        "-R 1000",
        "-R -5",
        "-a 9",
        "operand",
        "-o ssl_chain_cert=x",
        "-Z -o ssl_chain_cert=x,ssl_wbuf_size=16",
        "-Z -o ssl_chain_cert=x,ssl_min_version=0",
        "-Z -o ssl_chain_cert=x,ssl_ciphers=HIGH:ECDHE-RSA-AES128-GCM-SHA256",
    ] {
        let line = if line == "-m 4" { "-m 4 -I 1m" } else { line };
        let warnings = served(line).warnings;
        assert_eq!(warnings.len(), 1, "{line}: {warnings:?}");
    }
    assert!(served("--udp-required").warnings.is_empty());
    assert!(served("-o ext_item_age=60").warnings[0].contains("items move to flash when memory is full"));
    assert_eq!(served("-f 1.25 -o hashpower=20,no_lru_crawler").warnings.len(), 3);
}

#[test]
fn options_of_tls_become_settings() {
    let all =
        "ssl_chain_cert=c.pem,ssl_key=k.pem,ssl_ca_cert=ca.pem,ssl_verify_mode=2,ssl_min_version=3,ssl_session_cache";
    let wanted = [
        "listen.memcached tls:127.0.0.1:11211, 127.0.0.1:7",
        "tls.cert c.pem",
        "tls.key k.pem",
        "tls.client_ca ca.pem",
        "tls.client_auth required",
        "tls.versions 1.3",
    ];
    assert_eq!(changes(&format!("-Z -l 127.0.0.1,notls:127.0.0.1:7 -o {all}")), wanted);
    let ciphers = served("-Z -o ssl_chain_cert=c,ssl_ciphers=ECDHE-RSA-AES128-GCM-SHA256:HIGH");
    assert_eq!(setting("tls.ciphers").unwrap().show(&ciphers.settings), "ECDHE-RSA-AES128-GCM-SHA256");
    assert!(ciphers.warnings[0].contains("HIGH"), "{:?}", ciphers.warnings);
    // Without -Z, a certificate changes nothing.
    assert_eq!(changes("-o ssl_chain_cert=c.pem"), [""; 0]);
}

#[test]
fn invalid_or_unsupported_flags_are_rejected_with_the_memcached_code() {
    for (line, code, part) in [
        ("-Q", 1, "unknown flag -Q"),
        ("-p", 1, "needs a value"),
        ("-c 0", 1, "-c is 0"),
        ("-t 0", 1, "-t is 0"),
        ("-R 0", 1, "-R is 0"),
        ("-f 1", 1, "-f is"),
        ("-n 0", 1, "-n is"),
        ("-o bogus", 1, "unknown option bogus"),
        ("-o hashpower=3", 1, "from 12 to 32"),
        ("-I 100", 64, "too small"),
        ("-m abc", 64, "-m: the memory is no number of MiB"),
        ("-I 33m", 64, "half of 64 MiB"),
        ("-m 1", 64, "half of 1 MiB"),
        ("-m 4096 -I 1025m", 64, "too large"),
        ("-B binary", 64, "binary protocol"),
        ("-B foo", 64, "unknown protocol"),
        ("-U 11211 --udp-required", 64, "UDP"),
        ("-Z", 64, "there is no certificate"),
        ("-Z -o ssl_chain_cert=c,ssl_verify_mode=4", 1, "from 0 to 3"),
        ("-Z -o ssl_chain_cert=c,ssl_keyformat=DER", 1, "one of PEM"),
        ("-Y users -B auto", 64, "-B ascii"),
        ("-Y users -B binary", 64, "binary protocol"),
        ("-S", 64, "SASL"),
        ("-Z -o ssl_chain_cert=c,ssl_kernel_tls", 64, "TLS in the kernel"),
        ("-o ssl_chain_cert", 1, "needs a value"),
        ("-o proxy_config=x", 64, "a proxy"),
        ("-o ext_path", 1, "ext_path="),
        ("-o ext_path=/x:1G,ext_path=/x:2G", 64, "listed twice"),
        ("-p 0", 64, "the only listener"),
        ("-p 70000", 64, "port 70000 is too high"),
        ("-p -5 -l 127.0.0.1", 71, "port -5 does not exist"),
        ("-p abc", 64, "-p: \"abc\" is not a port; write a number from 1 to 65535"),
        ("-c 2000000", 71, "lower -c"),
    ] {
        let faults = read(line).expect_err(line);
        assert!(faults.len() == 1 && faults[0].0 == code && faults[0].1.contains(part), "{line}: {faults:?}");
        assert!(faults[0].1.contains("; ") && !faults[0].1.contains('\n'), "{line} has no remedy: {faults:?}");
    }
    assert_eq!(read("-Q -c 0 -B foo").expect_err("three faults").len(), 3);
}

#[test]
fn print_flag_takes_effect_before_errors_in_later_flags() {
    assert!(matches!(read("-V -Q"), Ok(CommandLine::Print(text)) if text.starts_with("memcached 1.6.45-gannet-")));
    assert!(matches!(read("-h"), Ok(CommandLine::Print(text)) if text.contains("--memory-limit=<num>")));
    assert!(matches!(read("--license"), Ok(CommandLine::Print(text)) if text.contains("Apache")));
    assert!(read("-Q -V").is_err());
}
