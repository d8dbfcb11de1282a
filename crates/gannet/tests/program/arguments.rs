//! Tests the error messages for wrong arguments, wrong files, and requests that the machine cannot fulfil.

use crate::common::{Serving, TempFile, ask, connect, free_port, gannet, run};
use std::net::TcpListener;
use std::process::Stdio;

/// Runs `gannet serve`, which must fail with the exit code `code`. Returns its error text.
fn refused(args: &[&str], code: i32) -> String {
    let (got, out, err) = run(&[&["serve"], args].concat());
    assert_eq!((got, out.as_str()), (code, ""), "{args:?}: {err}");
    err
}

#[test]
fn the_version_and_the_help_go_to_standard_output() {
    let (code, out, _) = run(&["--version"]);
    assert_eq!((code, out.as_str()), (0, concat!("gannet ", env!("CARGO_PKG_VERSION"), "\n")));
    let (code, out, _) = run(&["serve", "--help"]);
    assert_eq!(code, 0);
    for setting in server::config::table::SETTINGS.iter().filter_map(|setting| setting.flag) {
        assert!(out.contains(&format!("--{setting}")), "--{setting} is not in the help");
    }
    assert!(!out.contains("--udp"), "what a build does not have is not in its help");
}

#[test]
fn help_as_a_word_prints_the_help_of_the_command() {
    let of = |args: &[&str]| {
        let (code, out, err) = run(args);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        out
    };
    for words in [&[][..], &["serve"], &["load", "versus"], &["user", "add"]] {
        assert_eq!(of(&[&["help"], words].concat()), of(&[words, &["--help"]].concat()));
    }
    assert_eq!(of(&["help", "memcached"]), of(&["memcached", "-h"]));
    let (code, out, err) = run(&["help", "nonsense"]);
    assert!(code == 2 && out.is_empty() && err.contains("nonsense"), "{err}");
}

/// Returns the names in the section `Commands` of a help text: one on each line, or several with commas between them.
fn commands_of(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let names = lines.flat_map(|line| {
        let first = line.trim().split("  ").next().unwrap_or_default();
        first.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect::<Vec<_>>()
    });
    names.collect()
}

/// A comparison has no result of one run, so these flags would be ignored, and an assertion would always hold.
#[test]
fn flags_of_a_single_run_are_refused_in_a_comparison() {
    for (flag, value) in [
        ("--json", "v.json"),
        ("--assert", "p50<1ns"),
        ("--csv", "v.csv"),
        ("--hdr", "v.hdr"),
        ("--steps-csv", "v"),
        ("--prometheus", "v"),
    ] {
        let words =
            ["load", "versus", "--a", "true", "--b", "true", "--target", "127.0.0.1:1", "--rate", "1k", flag, value];
        let (code, _, err) = run(&words);
        assert!(code == 2 && err.contains(&format!("{flag}: versus prints its comparison")), "{err}");
    }
}

#[test]
fn short_help_of_every_command_fits_the_screen_and_names_the_long_one() {
    let (mut seen, mut commands, mut ahead) = (0, Vec::new(), vec![Vec::<String>::new()]);
    while let Some(path) = ahead.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        // The -h of memtier_benchmark and of asbench names a host, so it needs a value.
        if matches!(words[..], ["load", "memtier" | "aerospike"]) {
            let (code, _, err) = run(&[&words[..], &["-h"]].concat());
            assert!(code == 2 && err.contains("-h: the value of this flag is missing"), "{err}");
            continue;
        }
        let (code, out, err) = run(&[&words[..], &["-h"]].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{words:?}");
        commands.push(words.join(" "));
        // memcached's own -h lists all flags on several screens, and some tools read it.
        if words == ["memcached"] {
            assert!(out.lines().count() > 100 && out.lines().nth(1).unwrap().starts_with("Usage:"), "{out}");
            continue;
        }
        assert!(out.lines().count() <= 24 && out.lines().all(|line| line.chars().count() <= 80), "{words:?}: {out}");
        let (_, long, _) = run(&[&words[..], &["--help"]].concat());
        assert!(out.contains("--help") && long.contains("Usage: gannet"), "{out}\n{long}");
        seen += out.matches("--").count();
        ahead.extend(commands_of(&out).into_iter().map(|name| [&path[..], &[name]].concat()));
    }
    let (_, adds, _) = run(&["user", "add", "-h"]);
    assert!(adds.contains("  <NAME> ") && adds.contains("  <RULE> "), "{adds}");
    for known in ["serve", "memcached", "load versus", "doctor prove", "top"] {
        assert!(commands.iter().any(|command| command == known), "{known}: {commands:?}");
    }
    assert!(commands.len() > 30, "{commands:?}");
    assert!(seen > 40, "{seen} options");
    // Without a subcommand, the same text is an error.
    let (code, out, err) = run(&["load"]);
    assert!(code == 2 && out.is_empty() && err.contains("Usage: gannet load") && err.lines().count() <= 24, "{err}");
}

#[test]
fn none_turns_a_protocol_off_and_stands_alone() {
    let served = |serving: &Serving| serving.lines.iter().filter(|line| line.contains("clients connect to")).count();
    let mut serving = Serving::start(&["--memcached", "none", "--resp", "127.0.0.1:0", "--admin", "none"]);
    let addr = serving.addr_behind("Redis clients connect to ");
    ask(&mut connect(addr), b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n");
    assert_eq!(served(&serving), 1, "{:#?}", serving.lines);
    let mut serving = Serving::start(&["--memcached", "127.0.0.1:0", "--resp", "none", "--admin", "none"]);
    let addr = serving.addr_behind("memcached clients connect to ");
    ask(&mut connect(addr), b"mn\r\n", b"MN\r\n");
    assert_eq!(served(&serving), 1, "{:#?}", serving.lines);
    for flag in ["--memcached", "--resp", "--grpc"] {
        let err = refused(&[flag, "none", flag, "127.0.0.1:0"], 2);
        assert!(err.contains(&format!("{flag}: \"none\" stands beside addresses; remove it")), "{err}");
    }
    let err = refused(&["--memcached", "none", "--resp", "none"], 1);
    assert!(err.contains("there is no address to listen on; give at least one"), "{err}");
}

#[test]
fn a_wrong_flag_is_wrong_usage_and_all_of_them_are_named() {
    let err = refused(&["--memory", "512", "--log", "inof", "--memcached", "10.1.1.1"], 2);
    for part in ["--memory: ", "\"512MiB\"", "--log: ", "did you mean \"info\"", "10.1.1.1:11211"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert!(refused(&["--workres", "3"], 2).contains("'--workers'"));
    assert_eq!(run(&[]).0, 2);
}

#[test]
fn option_missing_from_this_build_is_rejected_in_a_single_line() {
    for (args, part) in [
        (["--grpc", "127.0.0.1"], "--grpc: \"127.0.0.1\" is not an address"),
        (["--flash", "/tmp/x"], "--flash: \"/tmp/x\" is not a file with a size"),
        (["--udp", "11211"], "--udp: this build does not have memcached over UDP"),
        (["-U", "11211"], "-U: this is a memcached flag; use instead: nothing: UDP"),
        (["-B", "binary"], "-B: this is a memcached flag; use instead: nothing"),
        (["-m", "64"], "-m: this is a memcached flag; use instead: --memory 64MiB"),
        (["--pin", "0-"], "--pin: \"\" is not a CPU number"),
    ] {
        let err = refused(&args, 2);
        assert!(err.contains(part), "{args:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    let (code, _, err) = run(&["file", "mend", "thing"]);
    assert!(code == 2 && err.contains("unrecognized subcommand"), "{err}");
}

#[test]
fn settings_beyond_the_machine_limits_are_rejected_before_start() {
    let err = refused(&["--memory", "60TiB"], 1);
    assert!(err.contains("--memory: store.memory: 60TiB is not less than") && err.contains("write at most"), "{err}");
    let err = refused(&["--memory", "64MiB", "--checkpoint", "5m"], 1);
    assert!(err.contains("there is no memory file") && err.contains("name one: store.file"), "{err}");
    let err = refused(&["--memory", "64MiB", "--pin", "1023"], 1);
    assert!(err.contains("may not run on CPU 1023") && err.contains("choose from"), "{err}");
    let free = ["--memcached", "127.0.0.1:0", "--admin", "none"];
    let err = refused(&[&["--memory", "16MiB", "--workers", "128", "--segment", "1MiB"], &free[..]].concat(), 1);
    assert!(err.contains("too small") && err.contains("at least"), "{err}");
    let limited = format!("ulimit -n 256; exec {} serve --maxconns 5000", env!("CARGO_BIN_EXE_gannet"));
    let output = std::process::Command::new("sh").args(["-c", &limited]).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains("the limit is 256") && err.contains("ulimit -n 5"), "{err}");
}

#[test]
fn listener_that_other_hosts_could_use_without_a_password_is_refused() {
    fn start<'a>(args: &[&'a str]) -> Vec<&'a str> {
        [args, &["--memory", "16MiB", "--admin", "none"]].concat()
    }
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let err = refused(&start(&["--memcached", "127.0.0.1:0", "--memcached", address]), 1);
        assert!(err.contains(&format!("--memcached: listen.memcached: cannot listen on {address}: ")), "{err}");
        for part in ["need no password", "--auth-file FILE", "loopback", "--unprotected"] {
            assert!(err.contains(part), "{part}: {err}");
        }
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    let text = "[listen]\nmemcached = []\n[[namespace]]\nname = \"shop\"\nmemcached = [\"0.0.0.0:0\"]\n";
    let file = TempFile::new("open.toml", text);
    let err = refused(&start(&[file.path()]), 1);
    assert!(err.contains("open.toml:3: namespace: cannot listen on 0.0.0.0:0 for the namespace shop"), "{err}");
    // A check of the file has the same result.
    let (code, _, err) = run(&["config", "--check", file.path()]);
    assert!(code == 1 && err.contains("for the namespace shop"), "{err}");
}

#[test]
fn listener_for_other_hosts_starts_with_users_in_protected_mode_or_if_the_operator_insists() {
    let users = TempFile::new("users", "alice:secret\n");
    let rights = TempFile::new("rights", "user alice on >secret role:admin\n");
    for (args, note, reply) in [
        (&["--memcached", "0.0.0.0:0", "--unprotected"][..], "clients need no password", &b"END\r\n"[..]),
        (
            &["--memcached", "0.0.0.0:0", "--auth-file", users.path()],
            "passwords are sent unencrypted",
            b"CLIENT_ERROR unauthenticated\r\n",
        ),
        (
            &["--memcached", "0.0.0.0:0", "--acl-file", rights.path()],
            "memcached clients there must authenticate (listen.acl_file)",
            b"END\r\n",
        ),
        (&["--memcached", "[::ffff:127.0.0.1]:0"], "", b"END\r\n"),
        (&["--memcached", "127.0.0.1:0", "--resp", "0.0.0.0:0"], "Redis clients there must authenticate", b"$-1\r\n"),
    ] {
        let mut serving = Serving::start(&[args, &["--memory", "16MiB", "--admin", "none"]].concat());
        let noted = serving.lines.iter().find(|line| line.contains("can be reached from other machines"));
        assert_eq!(noted.is_some_and(|line| line.contains(note)), !note.is_empty(), "{args:?}: {noted:?}");
        let protocol = if args.contains(&"--resp") { "Redis" } else { "memcached" };
        let line = serving.wait_for(&format!("{protocol} clients connect to "));
        let port = line.split("; try:").next().unwrap().rsplit(':').next().unwrap();
        let mut client = connect(([127, 0, 0, 1], port.parse().unwrap()).into());
        ask(&mut client, b"get k\r\n", reply);
    }
}

#[test]
fn unix_socket_is_only_for_its_user_by_default() {
    use std::os::unix::fs::PermissionsExt;
    let file = TempFile::new("own.sock", "");
    std::fs::remove_file(file.path()).unwrap();
    let path = format!("unix:{}", file.path());
    let mut serving = Serving::start(&["--memcached", &path, "--admin", "none", "--memory", "16MiB"]);
    serving.wait_for("clients connect to");
    assert_eq!(std::fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn port_in_use_is_reported_for_client_and_admin_listeners() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (taken, free) = (taken.local_addr().unwrap().to_string(), format!("127.0.0.1:{}", free_port()));
    let err = refused(&["--memory", "64MiB", "--memcached", &taken, "--admin", "none"], 1);
    assert!(err.contains(&format!("cannot listen on {taken}: another process listens there")), "{err}");
    assert!(err.contains("--memcached"), "{err}");
    let err = refused(&["--memory", "64MiB", "--memcached", &free, "--admin", &taken], 1);
    assert!(err.contains("another process listens there") && err.contains("--admin"), "{err}");
}

#[test]
fn unix_path_that_is_not_a_socket_is_rejected_and_untouched() {
    let file = TempFile::new("not-a-socket", "precious");
    let path = format!("unix:{}", file.path());
    let err = refused(&["--memory", "64MiB", "--memcached", &path, "--admin", "none"], 1);
    assert!(err.contains("a file that is not a socket is there; remove it"), "{err}");
    assert_eq!(std::fs::read_to_string(&file.0).unwrap(), "precious");
    let err = refused(&["--memory", "64MiB", "--memcached", "unix:/no/such/folder/x", "--admin", "none"], 1);
    assert!(err.contains("there is no folder /no/such/folder"), "{err}");
}

#[test]
fn a_file_is_checked_whole_and_its_faults_have_lines() {
    let text = "[store]\nmemory = 512\n[limits]\nmaxcons = 7\n[log]\nlevel = \"loud\"\n";
    let file = TempFile::new("faults.toml", text);
    let (code, out, err) = run(&["config", "--check", file.path()]);
    assert_eq!((code, out.as_str()), (1, ""));
    let at = |line: u32| err.lines().find(|text| text.contains(&format!("faults.toml:{line}: "))).unwrap_or_default();
    assert!(at(2).contains("\"512MiB\"") && at(4).contains("did you mean maxconns?"), "{err}");
    assert!(at(6).contains("unknown word"), "{err}");
    assert_eq!(err.lines().count(), 3);
    let served = refused(&[file.path()], 1);
    assert_eq!(served, err, "serve and check say the same");
}

/// A file with such paths passed the check, and the server then ended at once.
#[test]
fn check_of_a_file_reports_paths_that_the_server_could_not_use() {
    let text = "[listen]\nauth_file = \"/no/such/users\"\n[store]\nfile = \"/no/such/folder/memory\"\n\
                flash = [\"/dev/null:1GiB\"]\n[graph]\nmemory = \"128MiB\"\nfile = \"/no/such/graphs\"\n";
    let file = TempFile::new("paths.toml", text);
    let (code, out, err) = run(&["config", "--check", file.path()]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    for (line, what) in [
        (2, "there is no file /no/such/users"),
        (4, "there is no folder /no/such/folder"),
        (5, "/dev/null is neither a file nor a block device"),
        (8, "there is no folder /no/such"),
    ] {
        let found = err.lines().find(|text| text.contains(&format!("paths.toml:{line}: "))).unwrap_or_default();
        assert!(found.contains(what), "{line}: {err}");
    }
}

#[test]
fn the_sample_has_no_fault_and_its_reader_may_go() {
    let (code, sample, _) = run(&["config", "--default"]);
    assert_eq!(code, 0);
    let file = TempFile::new("sample.toml", &sample);
    let (code, out, err) = run(&["config", "--check", file.path()]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("no fault"), "{out}");
    let mut gone = gannet(&["config", "--default"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(gone.stdout.take());
    assert!(gone.wait().unwrap().success());
}

#[test]
fn the_page_of_settings_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(path).unwrap();
    let current = server::config::text::docs();
    assert!(page == current, "run: cargo run -p gannet -- config --docs > docs/configuration.md");
}

#[test]
fn every_line_of_a_json_log_is_an_object_until_the_end_and_after_a_failure() {
    let object = |line: &str| -> serde_json::Value {
        let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let time = value["time"].as_str().expect("every line has a time");
        assert!(time.len() == 27 && time.ends_with('Z') && time.contains('T'), "{line}");
        assert!(value["level"].is_string() && value["message"].is_string() && value["fields"].is_object(), "{line}");
        value
    };
    let args = ["--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "16MiB", "--log-format", "json"];
    let mut serving = Serving::start(&args);
    serving.signal("TERM");
    serving.wait_for("stopped");
    let lines: Vec<_> = serving.lines.iter().map(|line| object(line)).collect();
    let ready = lines.iter().find(|line| line["message"] == "gannet is ready").expect("it was ready");
    assert_eq!((&ready["level"], &ready["fields"]["memory"]), (&"INFO".into(), &"16MiB".into()));
    assert_eq!(ready["fields"]["pid"], serving.pid());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let args = ["--memcached", &taken, "--admin", "none", "--memory", "16MiB", "--log-format", "json", "--log", "off"];
    let err = refused(&args, 1);
    let lines: Vec<_> = err.lines().map(object).collect();
    assert!(lines.len() == 1 && lines[0]["message"].as_str().unwrap().contains("another process listens"), "{err}");
    assert!(refused(&["--log-format", "jsn"], 2).contains("did you mean \"json\""));
}

#[test]
fn reader_that_closes_standard_error_does_not_abort_the_program() {
    for args in [&["top", "--once", "127.0.0.1:1"][..], &["load", "--rate"], &["file", "stats", "/no-such-file"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let status = gannet(args).stdout(Stdio::null()).stderr(writer).status().expect("it runs");
        assert!(status.code().is_some_and(|code| code == 1 || code == 2), "{args:?}: {status:?}");
    }
}
