//! Tests `gannet load --protocol grpc` against `gannet serve`: counts, deadlines, TLS, credentials, caches, presets and
//! a search. The tests check counts, not times.

use std::net::SocketAddr;

use load::result::RunResult;

use crate::common::{Serving, run, run_in};
use crate::load_tls::certified;
use crate::peers::{Folder, LIMITED, is_verdict};

const LISTENERS: [&str; 6] = ["--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "128MiB"];

/// Starts a server. Returns it with its gRPC address.
fn serve(more: &[&str]) -> (Serving, SocketAddr) {
    let mut serving = Serving::start(&[&LISTENERS[..], more].concat());
    let grpc = serving.addr_behind("gRPC clients connect to ");
    (serving, grpc)
}

const PLAIN: [&str; 2] = ["--grpc", "127.0.0.1:0"];

/// Runs the generator, which must end with figures.
fn measured(folder: &Folder, addr: SocketAddr, args: &[&str]) -> RunResult {
    measured_in(folder, addr, args, &[])
}

fn measured_in(folder: &Folder, addr: SocketAddr, args: &[&str], env: &[(&str, &str)]) -> RunResult {
    let (json, target) = (folder.file("out.json"), addr.to_string());
    let base = ["load", "--target", &target, "--protocol", "grpc", "--quiet", "--json", &json];
    let (code, out, err) = run_in(&[&base, args].concat(), env);
    assert!(code == 0 || code == LIMITED, "{args:?} ended with {code}: {out}\n{err}");
    folder.result("out.json")
}

/// Checks that every request had a correct reply.
fn assert_whole(result: &RunResult) {
    let (counts, faults) = (&result.figures.counts, &result.figures.faults);
    assert!(counts.answered > 0 && counts.unanswered == 0, "{counts:?} {faults:?}");
    assert_eq!((counts.errors, counts.wrong), (0, 0), "{counts:?} {faults:?}");
}

const SHORT: [&str; 6] = ["--keys", "500", "--verify", "--duration", "60s", "--closed"];

#[test]
fn closed_loop_has_a_correct_reply_to_every_call() {
    let (_serving, addr) = serve(&PLAIN);
    let folder = Folder::new("load-grpc-closed");
    let depth = ["--connections", "2", "--depth", "100", "--requests", "20000"];
    let result = measured(&folder, addr, &[&SHORT[..], &depth].concat());
    assert_whole(&result);
    assert_eq!((result.figures.counts.answered, result.figures.counts.misses), (20_000, 0));
    assert_eq!(result.targets[0].protocol, "grpc");
    // Without a prefill, and with another cache, there are misses, which are filled.
    let misses = ["--no-prefill", "--fill-on-miss", "--cache", "3", "--reads", "100%"];
    let result = measured(&folder, addr, &[&SHORT[..], &depth, &misses].concat());
    assert_whole(&result);
    let counts = &result.figures.counts;
    assert!(counts.misses >= 500 && counts.hits > counts.misses, "{counts:?}");
}

#[test]
fn more_streams_than_the_server_permits_are_not_sent() {
    let (_serving, addr) = serve(&PLAIN);
    let folder = Folder::new("load-grpc-streams");
    let depth = ["--connections", "1", "--depth", "5000", "--requests", "20000"];
    let result = measured(&folder, addr, &[&SHORT[..], &depth].concat());
    assert_whole(&result);
    assert!(result.figures.faults.is_empty(), "{:?}", result.figures.faults);
}

#[test]
fn open_loop_counts_from_the_intended_instant_and_search_finds_a_rate() {
    let (_serving, addr) = serve(&PLAIN);
    let folder = Folder::new("load-grpc-open");
    let open = ["--keys", "500", "--connections", "2", "--rate", "2k", "--duration", "1s", "--warm-up", "100ms"];
    let result = measured(&folder, addr, &open);
    let counts = &result.figures.counts;
    assert!((1500..2500).contains(&counts.due) && counts.errors + counts.wrong == 0, "{counts:?}");
    let (target, json) = (addr.to_string(), folder.file("search.json"));
    let search = ["load", "--target", &target, "--protocol", "grpc", "--keys", "500", "--slo", "p50=200ms", "--quiet"];
    let short = ["--trial", "200ms", "--warm-up", "100ms", "--rate-max", "4k", "--confirm", "1", "--json", &json];
    let (code, out, err) = run(&[&search[..], &short].concat());
    assert!(is_verdict(code, &out), "{code}: {out}\n{err}");
    assert!(folder.result("search.json").search.is_some());
}

#[test]
fn stalled_server_costs_calls_and_no_connection() {
    let (serving, addr) = serve(&PLAIN);
    let folder = Folder::new("load-grpc-deadline");
    let stall = std::thread::spawn({
        let pid = serving.pid().to_string();
        move || {
            let send = |signal: &str| {
                let sent = std::process::Command::new("kill").args([signal, &pid]).status();
                assert!(sent.expect("kill runs").success());
            };
            std::thread::sleep(std::time::Duration::from_millis(1500));
            send("-STOP");
            std::thread::sleep(std::time::Duration::from_millis(1200));
            send("-CONT");
        }
    });
    let open = ["--keys", "100", "--connections", "2", "--rate", "500", "--duration", "5s", "--warm-up", "0s"];
    let result = measured(&folder, addr, &[&open[..], &["--timeout", "300ms"]].concat());
    stall.join().expect("the signals were sent");
    let (counts, faults) = (&result.figures.counts, &result.figures.faults);
    assert!(counts.errors > 20 && counts.hits > counts.errors, "{counts:?} {faults:?}");
    let late = faults.iter().find(|fault| fault.name == "grpc-deadline-exceeded").expect("calls were late");
    assert!(late.count >= counts.errors, "{faults:?}");
    assert!(faults.iter().all(|fault| fault.name.starts_with("grpc-")), "no connection was lost: {faults:?}");
    assert!(counts.connects <= 2, "{counts:?}");
}

#[test]
fn long_values_batches_and_dictionaries_are_verified() {
    let (_serving, addr) = serve(&PLAIN);
    let folder = Folder::new("load-grpc-verbs");
    let long = ["--connections", "1", "--depth", "20", "--requests", "400", "--value-bytes", "300KiB", "--keys", "40"];
    let result = measured(&folder, addr, &[&long[..], &["--verify", "--duration", "60s", "--closed"]].concat());
    assert_whole(&result);
    let file = folder.written(
        "verbs.toml",
        r#"
name = "verbs"
protocol = "grpc"
prefill = true
verify = true
[connections]
count = 2
depth = 50
[[keys]]
count = 300
prefix = "s:"
ttl = [{ ttl = "1h", weight = 1 }, { ttl = "0s", weight = 1 }]
verbs = [
    { verb = "get" }, { verb = "get", keys = 20 }, { verb = "set" }, { verb = "set", keys = 10 },
    { verb = "add" }, { verb = "replace" }, { verb = "delete" }, { verb = "touch" }, { verb = "ping", weight = 0.1 },
]
[[keys]]
count = 100
prefix = "d:"
fields = 8
verbs = [
    { verb = "hset" }, { verb = "hget" }, { verb = "hmget", fields = 3 }, { verb = "hgetall" },
    { verb = "hdel", fields = 7 }, { verb = "hupdate" },
]
"#,
    );
    let run = ["--workload", &file, "--closed", "--requests", "20000", "--duration", "60s"];
    let result = measured(&folder, addr, &run);
    assert_whole(&result);
    let verbs: Vec<&str> = result.figures.verbs.iter().map(|verb| verb.name.as_str()).collect();
    for verb in ["get of 20", "set of 10", "add", "touch", "hget", "hmget", "hgetall", "hdel", "hset", "ping"] {
        assert!(verbs.contains(&verb), "{verb} is not in {verbs:?}");
    }
    assert!(result.figures.counts.misses > 100, "{:?}", result.figures.counts);
}

#[test]
fn failed_calls_are_counted_by_status_and_a_prefill_names_the_remedy() {
    let (_serving, addr) = serve(&PLAIN);
    let target = addr.to_string();
    let (code, _, err) = run(&[
        "load",
        "--target",
        &target,
        "--protocol",
        "grpc",
        "--closed",
        "--quiet",
        "--cache",
        "nosuch",
        "--keys",
        "10",
    ]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("prefill: 10 of 10 stores failed") && err.contains("NOT_FOUND"), "{err}");
    assert!(err.contains("--cache default"), "{err}");
    let folder = Folder::new("load-grpc-status");
    let none = ["--no-prefill", "--cache", "nosuch", "--closed", "--requests", "100", "--duration", "60s"];
    let result = measured(&folder, addr, &none);
    assert_eq!((result.figures.counts.errors, result.figures.counts.hits), (100, 0));
    assert!(result.figures.faults.iter().any(|fault| fault.name == "grpc-not-found" && fault.count == 100));
}

#[test]
fn faults_of_grpc_workloads_name_their_flag() {
    for (args, text) in [
        (&["--protocol", "memcache", "--cache", "a"][..], "auth.cache: only gRPC calls have a cache; remove the cache"),
        (&["--protocol", "grpc", "--timeout", "0s"], "connections.timeout: the time limit is 0"),
        (&["--protocol", "grpc", "--value-bytes", "11MiB"], "gRPC's longest message, 10MiB"),
    ] {
        let (code, _, err) = run(&[&["load", "--target", "127.0.0.1:1", "--closed"], args].concat());
        assert!(code == 2 && err.contains(text), "{args:?}: {err}");
    }
    let folder = Folder::new("load-grpc-faults");
    for (verb, text) in [
        ("append", "protocol grpc does not support append; valid verbs are: get, set, add"),
        ("mg", "protocol grpc does not support mg"),
    ] {
        let text_of = format!("protocol = \"grpc\"\n[[keys]]\nverbs = [{{ verb = \"{verb}\" }}]\n");
        let file = folder.written("wrong.toml", &text_of);
        let (code, _, err) = run(&["load", "--target", "127.0.0.1:1", "--closed", "--workload", &file]);
        assert!(code != 0 && err.contains(text), "{err}");
    }
}

#[test]
fn tls_agrees_on_http2_and_each_call_has_its_credential() {
    let folder = certified("load-grpc-tls");
    let [ca, certificate, key] = ["ca.pem", "server.pem", "server.key"].map(|name| folder.file(name));
    let tls = ["--grpc", "tls:127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key];
    let (_serving, addr) = serve(&tls);
    let depth = ["--tls-ca", &ca, "--connections", "2", "--depth", "50", "--requests", "5000"];
    let result = measured(&folder, addr, &[&SHORT[..], &depth].concat());
    assert_whole(&result);
    assert_eq!(result.figures.counts.answered, 5000);
    assert!(!result.figures.connections.tls.is_empty());
    let env = [("GANNET_LOAD_TEST", "a-token")];
    let token = ["--password-env", "GANNET_LOAD_TEST"];
    // No user needs a password, so that any token is accepted.
    assert_whole(&measured_in(&folder, addr, &[&SHORT[..], &depth, &token].concat(), &env));
}

#[test]
fn server_with_passwords_counts_calls_without_one_as_unauthenticated() {
    let folder = Folder::new("load-grpc-password");
    let users = folder.written("users", "me:sesame\n");
    let (_serving, addr) = serve(&[&PLAIN[..], &["--auth-file", &users]].concat());
    let env = [("GANNET_LOAD_TEST", "sesame")];
    let few = ["--connections", "2", "--requests", "500"];
    let user = ["--user", "me", "--password-env", "GANNET_LOAD_TEST"];
    assert_whole(&measured_in(&folder, addr, &[&SHORT[..], &few, &user].concat(), &env));
    let result = measured(&folder, addr, &[&SHORT[..], &few, &["--no-prefill"]].concat());
    assert_eq!(result.figures.counts.errors, 500, "{:?}", result.figures.faults);
    assert!(result.figures.faults.iter().any(|fault| fault.name == "grpc-unauthenticated"));
}

#[test]
fn presets_of_the_client_libraries_run() {
    let (_serving, addr) = serve(&PLAIN);
    let folder = Folder::new("load-grpc-presets");
    for (preset, connections) in [
        ("momento-laptop", 2),
        ("momento-in-region-default", 4),
        ("momento-in-region-low-latency", 1),
        ("momento-lambda", 4),
    ] {
        let args = ["--preset", preset, "--requests", "3000", "--duration", "60s", "--keys", "500"];
        let result = measured(&folder, addr, &args);
        assert_whole(&result);
        assert_eq!(result.figures.counts.answered, 3000, "{preset}");
        let text = result.workload.expect("the result has its workload");
        assert!(text.contains(&format!("count = {connections}\n")) && text.contains("timeout = "), "{text}");
    }
}

#[test]
fn restarted_server_is_found_again() {
    let (serving, addr) = serve(&PLAIN);
    let folder = Folder::new("load-grpc-restart");
    let target = addr.to_string();
    let restart = std::thread::spawn(move || {
        let mut serving = serving;
        std::thread::sleep(std::time::Duration::from_millis(1000));
        serving.signal("TERM");
        assert!(serving.ended().success());
        Serving::start(&[&LISTENERS[..], &["--grpc", &target]].concat())
    });
    let open = ["--keys", "100", "--no-prefill", "--connections", "2", "--rate", "300", "--duration", "6s"];
    let result = measured(&folder, addr, &[&open[..], &["--warm-up", "0s"]].concat());
    let _serving = restart.join().expect("the server was restarted");
    let (counts, faults) = (&result.figures.counts, &result.figures.faults);
    assert!(counts.connects >= 2, "{counts:?} {faults:?}");
    // The server completes the calls that it has read before it ends.
    assert!(counts.answered - counts.errors > 500, "{counts:?} {faults:?}");
    assert_eq!(counts.wrong, 0);
}

/// The scenarios that the generator refuses, because it has no near cache. Their folder's README names the reason.
const REFUSED: [&str; 4] = ["near_cache", "near_cache_lost_watch", "near_cache_own_writes", "near_cache_refused_watch"];

#[test]
fn scenarios_of_the_client_libraries_have_the_same_results_for_the_generator() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/clients/scenarios");
    let (mut played, mut refused) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).expect("the scenarios") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let file = path.to_str().expect("a path of text");
        let (code, out, err) = run(&["load", "scenario", file]);
        match code {
            0 => {
                assert!(out.starts_with("ok: ") && out.ends_with(" steps\n"), "{file}: {out}");
                played += 1;
            }
            2 => {
                assert!(err.contains("play it with one of `clients/`"), "{err}");
                refused.push(path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned());
            }
            _ => panic!("{file}: {code}: {out}{err}"),
        }
    }
    refused.sort_unstable();
    assert_eq!(refused, REFUSED);
    assert!(played >= 28, "{played}");
}

#[test]
fn scenario_that_ends_its_server_does_not_end_a_running_one() {
    let (serving, addr) = serve(&[&PLAIN[..], &["--test-faults"]].concat());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/clients/scenarios/reconnect.toml");
    let (code, _, err) = run(&["load", "scenario", file, "--target", &addr.to_string()]);
    assert!(code == 2 && err.contains("leave --target out"), "{code}: {err}");
    assert!(std::path::Path::new(&format!("/proc/{}", serving.pid())).exists());
    let file = file.replace("reconnect", "hit_and_miss");
    let (code, out, err) = run(&["load", "scenario", &file, "--target", &addr.to_string()]);
    assert!(code == 0 && out.starts_with("ok: "), "{code}: {err}");
}

#[test]
fn result_of_a_scenario_that_differs_names_its_step() {
    let (_serving, addr) = serve(&PLAIN);
    let folder = Folder::new("load-grpc-scenario");
    let steps = [("set", "type = \"success\""), ("get", "type = \"hit\", value = \"other\"")];
    let step = |(call, expect): (&str, &str)| {
        let value = if call == "set" { ", value = \"v\"" } else { "" };
        format!("[[steps]]\ncall = \"{call}\"\narguments = {{ key = \"k\"{value} }}\nexpect = {{ {expect} }}\n")
    };
    let text = format!("name = \"differs\"\n{}", steps.map(step).concat());
    let file = folder.written("differs.toml", &text);
    let (code, _, err) = run(&["load", "scenario", &file, "--target", &addr.to_string()]);
    assert!(code == 1 && err.contains("step 2: get: `value` must be \"other\""), "{code}: {err}");
    let (code, _, err) = run(&["load", "scenario", &file, "--target", "127.0.0.1:1"]);
    assert!(code == 1 && err.contains("cannot connect to 127.0.0.1:1") && err.contains("--target HOST:PORT"), "{err}");
}
