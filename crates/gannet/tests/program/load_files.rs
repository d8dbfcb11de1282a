//! Tests wrong workload files and flags of `gannet load`. Each fault is reported with its file, line and remedy, and
//! all of them at once.

use std::path::PathBuf;

use crate::common::{TempFile, free_port, run};

/// The text of a workload file after its valid first line, and the expected error text. The error text contains the
/// number of each wrong line.
struct Case {
    text: &'static str,
    says: &'static [&'static str],
}

const CASES: [Case; 14] = [
    Case { text: "colour = \"red\"\n", says: &[":2: colour: unknown key", "pace, graph, keys\n"] },
    Case {
        text: "[[keys]]\ncount = 10\nvlen = \"30B\"\nverbs = [{ verb = \"get\" }]\n",
        says: &[":4: keys[0].vlen: "],
    },
    Case { text: "[[keys]]\nverbs = [{ verb = \"gte\" }]\n", says: &[":3: keys[0].verbs[0].verb: ", "get"] },
    Case { text: "[[keys]]\nttl = 60\nverbs = [{ verb = \"get\" }]\n", says: &[":3: keys[0].ttl: ", "60s"] },
    Case { text: "[[keys]]\nvalue_bytes = 60\n", says: &[":3: keys[0].value_bytes: ", "name the unit"] },
    Case { text: "[pace]\nkind = \"poisson\"\nrate = 50\n", says: &[":4: pace.rate: ", "/s"] },
    Case {
        text: "[connections]\ncount = 2\nthreads = 4\n",
        says: &["connections.threads: ", "at least one connection per thread"],
    },
    Case {
        text: "verify = true\n[[keys]]\nverbs = [{ verb = \"append\" }]\n",
        says: &[":4: keys[0].verbs[0].verb: ", "cannot be checked"],
    },
    Case {
        text: "[[keys]]\nverbs = [{ verb = \"hget\" }]\n",
        says: &["protocol memcache does not support hget", "valid verbs are: get"],
    },
    Case {
        text: "[targets]\naddresses = [\"a:1\", \"b:1\"]\nplacement = \"ketama\"\n[[keys]]\n\
               verbs = [{ verb = \"get\", keys = 3 }]\n",
        says: &["targets.placement: ", "request one key at a time"],
    },
    Case { text: "verify = true\n[connections]\nblind = true\n", says: &["verify: ", "remove one of the two"] },
    Case { text: "[[keys]]\ncount = 10000\nkey_bytes = \"2B\"\n", says: &["keys[0].key_bytes: ", "use at least"] },
    Case { text: "name = \n[[keys]]\ncount = 5\n", says: &[":2: "] },
    Case { text: "[targets]\naddresses = [\"nowhere\"]\n", says: &["targets.addresses[0]: ", "HOST:PORT"] },
];

#[test]
fn each_fault_of_a_workload_file_has_its_line_and_remedy() {
    for (number, case) in CASES.iter().enumerate() {
        let file = TempFile::new(&format!("faulty-{number}.toml"), &format!("protocol = \"memcache\"\n{}", case.text));
        let (code, out, err) = run(&["load", "--workload", file.path(), "--target", "127.0.0.1:1", "--rate", "10"]);
        assert!(matches!(code, 1 | 2) && out.is_empty(), "{code}: {}: {out}{err}", case.text);
        assert!(err.contains(file.path()), "the file is not named: {err}");
        for part in case.says {
            assert!(err.contains(part), "{part:?} is not said of {:?}: {err}", case.text);
        }
        assert!(err.contains("; "), "there is no remedy: {err}");
    }
}

#[test]
fn all_errors_in_a_workload_file_are_reported_in_line_order() {
    let text = "protocol = \"memcached\"\nseed = \"x\"\n[connections]\ncount = -1\nsockets = 3\n[pace]\n\
                kind = \"fast\"\n[[keys]]\norder = { zipff = 1 }\nverbs = [{ verb = \"set\", wait = 1 }]\n";
    let file = TempFile::new("many.toml", text);
    let (code, _, err) = run(&["load", "--workload", file.path()]);
    assert!(matches!(code, 1 | 2), "{code}: {err}");
    let lines: Vec<u32> =
        err.lines().filter_map(|line| line.split_once(".toml:")?.1.split(':').next()?.parse().ok()).collect();
    assert!([1, 2, 4, 5, 7, 9, 10].iter().all(|line| lines.contains(line)), "{lines:?}: {err}");
    assert!(lines.is_sorted(), "{lines:?}: {err}");
}

#[test]
fn files_that_can_not_be_read_or_written_are_named() {
    let folder = std::env::temp_dir();
    let binary = TempFile::new("binary.toml", "");
    std::fs::write(&binary.0, [0xFF, 0xFE, 0x00]).unwrap();
    for (path, seen) in
        [("/no/such/load.toml", "No such file"), (folder.to_str().unwrap(), "read"), (binary.path(), "not UTF-8")]
    {
        let (code, _, err) = run(&["load", "--workload", path, "--target", "127.0.0.1:1"]);
        assert!(matches!(code, 1 | 2) && err.contains(path) && err.contains(seen), "{path}: {code}: {err}");
    }
    let sizes =
        TempFile::new("sizes.toml", "protocol = \"memcache\"\n[[keys]]\nvalue_bytes = { file = \"none.csv\" }\n");
    let (_, _, err) = run(&["load", "--workload", sizes.path(), "--target", "127.0.0.1:1"]);
    assert!(err.contains(":3: keys[0].value_bytes") && err.contains("none.csv"), "{err}");
}

#[test]
fn conflicting_or_invalid_flags_are_rejected_with_the_correct_usage() {
    let refused = format!("127.0.0.1:{}", free_port());
    let cases: [(&[&str], &[&str]); 10] = [
        (&["--rate", "10", "--requests", "0"], &["--requests: ", "write 1 or more"]),
        (&["--closed", "--rate", "5k"], &["--closed", "--rate"]),
        (&["--workload", "a.toml", "--preset", "pelikan-t2a"], &["--workload", "--preset"]),
        (&["--preset", "pelikan"], &["pelikan"]),
        (&["--rate", "10", "--protocol", "http"], &["--protocol: \"http\"", "memcache"]),
        (&["--rate", "10", "--sampler", "often"], &["--sampler: \"often\""]),
        (&["--rate", "10", "--threads", "9", "--connections", "3"], &["one connection per thread"]),
        (&["--rate", "10", "--assert", "p99>"], &["--assert: "]),
        (&["--rate", "10", "--reads", "1.5"], &["--reads: \"1.5\"", "99%"]),
        (&["--slo", "p99=2ms", "--start", "9k", "--rate-max", "1k"], &["--start: ", "start with a lower"]),
    ];
    for (args, says) in cases {
        let (code, out, err) = run(&[&["load", "--target", &refused][..], args].concat());
        assert!(code == 2 && out.is_empty(), "{args:?}: {code}: {out}{err}");
        for part in says {
            assert!(err.contains(part), "{args:?}: {part} is not in {err}");
        }
    }
}

#[test]
fn unusable_cpu_unknown_host_and_missing_socket_are_reported() {
    let args = ["load", "--rate", "10", "--no-prefill", "--duration", "100ms", "--warm-up", "0s", "--target"];
    // A host name cannot be so long, so no name server is asked for it.
    let unknown = format!("{}:11211", "x".repeat(70));
    let (code, _, err) = run(&[&args[..], &[&unknown]].concat());
    assert!(code == 1 && err.contains(&unknown) && err.contains("check the name"), "{code}: {err}");
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap().to_string();
    let (code, _, err) = run(&[&args[..], &[&target, "--pin", "1000"]].concat());
    assert!(matches!(code, 1 | 2) && err.contains("CPU"), "{code}: {err}");
    let gone: PathBuf = std::env::temp_dir().join("gannet-no-such-folder").join("s.sock");
    let (code, _, err) = run(&[&args[..], &[&format!("unix:{}", gone.display())]].concat());
    assert!(code == 1 && err.contains("gannet-no-such-folder") && err.contains("No such file"), "{code}: {err}");
}

/// A search of an hour must not end with the remark that its results cannot be written.
#[test]
fn file_of_results_that_cannot_be_written_is_refused_before_the_run() {
    let folder = std::env::temp_dir();
    let folder = folder.to_str().unwrap();
    for flag in ["--report", "--json", "--csv"] {
        for path in ["/no-such-folder/results", folder] {
            // Nothing listens there, so a run would fail with another error.
            let target = format!("127.0.0.1:{}", free_port());
            let (code, out, err) = run(&["load", "--target", &target, "--rate", "10", flag, path]);
            assert!(code == 1 && out.is_empty(), "{flag} {path}: {code}: {out}{err}");
            assert!(err.contains(path) && err.contains("use another name"), "{flag} {path}: {err}");
        }
    }
    let path = std::env::temp_dir().join(format!("gannet-{}-unwritten.json", std::process::id()));
    let target = format!("127.0.0.1:{}", free_port());
    let (code, ..) = run(&["load", "--target", &target, "--rate", "10", "--json", path.to_str().unwrap()]);
    assert!(code != 0 && !path.exists(), "a run that failed leaves an empty file");
}
