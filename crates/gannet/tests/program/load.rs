//! Tests `gannet load` by its command line, against servers that the tests start. The tests check counts and exit
//! codes, not times. A run that reports a bottleneck in the generator, because the machine is busy, is accepted too.

use load::result::RunResult;

use crate::common::{Serving, connect, free_port, page, run};
use crate::peers::{Folder, LIMITED, is_verdict};

fn server() -> (Serving, String) {
    let args = ["--memcached", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--memory", "64MiB", "--workers", "1"];
    let mut serving = Serving::start(&args);
    let addr = serving.addr_behind("memcached clients connect to ").to_string();
    (serving, addr)
}

/// Runs `gannet load`, which must end with `code` or report that the generator was the limit. Returns the exit code,
/// output and error text.
fn load_ends(args: &[&str], code: i32) -> (i32, String, String) {
    let (got, out, err) = run(&[&["load"], args].concat());
    assert!(got == code || got == LIMITED, "{args:?} ended with {got}, not {code}: {out}\n{err}");
    (got, out, err)
}

#[test]
fn a_run_at_a_rate_leaves_every_file_and_they_agree() {
    let (_serving, addr) = server();
    let folder = Folder::new("files");
    let [json, html, hdr, csv, metrics] =
        ["a.json", "a.html", "a.hlog", "a.csv", "a.prom"].map(|name| folder.file(name));
    let args = ["--target", &addr, "--rate", "500", "--duration", "1s", "--warm-up", "100ms", "--keys", "1000"];
    let files = ["--json", &json, "--report", &html, "--hdr", &hdr, "--csv", &csv, "--prometheus", &metrics];
    let (_, out, err) = load_ends(&[&args[..], &files[..], &["--verify", "--assert", "rate>1"]].concat(), 0);
    assert!(err.contains("prefill: stored 1000 keys"), "{err}");
    let result = RunResult::from_json(&folder.text("a.json")).unwrap();
    let counts = &result.figures.counts;
    assert_eq!((counts.misses, counts.errors, counts.wrong), (0, 0, 0), "every key was stored and read back whole");
    assert!(counts.due > 100 && counts.answered == counts.due, "{counts:?}");
    assert!(result.targets[0].server.as_ref().unwrap().contains("version"));
    assert!(
        result.timelines.iter().any(|line| line.source == "server" && line.name == "CPU use of the busiest thread")
    );
    assert!(out.contains(&result.verdict.headline), "{out}");
    assert!(folder.text("a.html").contains("<svg") && !folder.text("a.html").contains("http://"));
    assert!(folder.text("a.prom").contains(&format!("gannet_load_requests_answered_total {}\n", counts.answered)));
    assert!(folder.text("a.hlog").contains("HIST") && folder.text("a.csv").lines().count() > 5);
}

#[test]
fn a_search_names_a_rate_and_every_trial() {
    let (_serving, addr) = server();
    let folder = Folder::new("search");
    let (json, steps) = (folder.file("s.json"), folder.file("s.csv"));
    let search = ["--slo", "p50=5s,errors=0.01%", "--start", "200", "--rate-max", "400", "--throughput-min", "1%"];
    let short = ["--trial", "300ms", "--warm-up", "100ms", "--keys", "500", "--json", &json, "--steps-csv", &steps];
    let (code, out, err) = load_ends(&[&["--target", &addr][..], &search[..], &short[..]].concat(), 0);
    let result = RunResult::from_json(&folder.text("s.json")).unwrap();
    let search = result.search.unwrap();
    if code == 0 {
        assert_eq!((search.end.as_str(), search.answer_per_s), ("kept at max", Some(400.0)), "{out}");
        assert!(out.starts_with("at least 400/s with p50 at most 5 s and errors at most 0.01%"), "{out}");
    }
    assert_eq!(folder.text("s.csv").lines().count(), search.steps.len() + 1);
    let trials = err.lines().filter(|line| line.starts_with("trial ")).count();
    assert_eq!(trials, search.steps.len(), "a line for each trial: {err}");
}

#[test]
fn closed_loop_is_labelled_and_a_failed_assertion_exits_with_4() {
    let (_serving, addr) = server();
    let args = ["--target", &addr, "--closed", "--connections", "4", "--depth", "2", "--keys", "100", "--no-prefill"];
    let short = ["--duration", "500ms", "--warm-up", "100ms", "--reads", "100%", "--quiet"];
    let (_, out, _) = load_ends(&[&args[..], &short[..], &["--assert", "misses>=100%"]].concat(), 0);
    assert!(out.contains("closed loop, ") && out.contains("CLOSED LOOP, 2 in flight"), "{out}");
    let (code, _, err) = load_ends(&[&args[..], &short[..], &["--assert", "misses=0%,p999<1ns"]].concat(), 4);
    if code == 4 {
        assert_eq!(err.matches("assertion violated").count(), 2, "{err}");
    }
}

#[test]
fn objectives_of_a_run_at_a_rate_that_break_end_with_4() {
    let (_serving, addr) = server();
    let args = ["--target", &addr, "--rate", "300", "--duration", "500ms", "--keys", "100", "--slo", "max=1ns"];
    let (code, out, _) = load_ends(&args, 4);
    assert!(code == LIMITED || out.contains("BROKE its objectives: max is "), "{out}");
}

#[test]
fn a_storm_closes_every_connection_and_loses_no_request() {
    let (_serving, addr) = server();
    let folder = Folder::new("storm");
    let args = ["--target", &addr, "--rate", "500", "--duration", "1s", "--warm-up", "0ms", "--keys", "100"];
    let storms = ["--connections", "5", "--storm", "100ms", "--json", &folder.file("a.json")];
    let (_, out, _) = load_ends(&[&args[..], &storms].concat(), 0);
    let counts = folder.result("a.json").figures.counts;
    assert!(counts.connects >= 15, "each is made anew twice at least: {out}");
    assert_eq!((counts.errors, counts.unanswered, counts.answered), (0, 0, counts.due), "{out}");
}

#[test]
fn the_rate_is_changed_and_the_run_is_ended_from_outside() {
    let (_serving, addr) = server();
    let admin = format!("127.0.0.1:{}", free_port());
    let folder = Folder::new("admin");
    let json = folder.file("a.json");
    let args = ["load", "--target", &addr, "--rate", "200", "--duration", "600s", "--admin", &admin, "--json", &json];
    let mut running = crate::common::gannet(&[&args[..], &["--keys", "100", "--quiet"]].concat())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let patience = std::time::Instant::now() + crate::common::PATIENCE;
    let socket = admin.parse().unwrap();
    let measured = |text: &str| {
        let answered = text.lines().find_map(|line| line.strip_prefix("gannet_load_requests_answered_total "));
        answered.and_then(|count| count.parse::<u64>().ok()).is_some_and(|count| count > 250)
    };
    while std::net::TcpStream::connect(&admin).is_err() || !measured(&page(socket, "/metrics")) {
        assert!(std::time::Instant::now() < patience, "the run does not come about");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let ask = |request: &str| {
        use std::io::{Read, Write};
        let mut stream = connect(socket);
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("PUT /rate HTTP/1.1\r\nContent-Length: 3\r\n\r\n300").contains("300/s from now on"));
    assert!(page(socket, "/metrics").contains("gannet_load_target_per_second 300\n"));
    assert!(ask("POST /quitquitquit HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    let status = running.wait().unwrap();
    assert!(matches!(status.code(), Some(5 | LIMITED)), "{status}");
    let result = RunResult::from_json(&folder.text("a.json")).unwrap();
    assert!(result.partial.unwrap().contains("stopped") && result.figures.counts.answered > 0);
}

#[test]
fn results_are_compared_and_priced() {
    let (_serving, addr) = server();
    let folder = Folder::new("compare");
    let both = ["a.json", "b.json"].map(|name| folder.file(name));
    for (path, name) in both.iter().zip(["before", "after"]) {
        let args = ["--target", &addr, "--rate", "200", "--duration", "400ms", "--keys", "100", "--quiet"];
        load_ends(&[&args[..], &["--json", path, "--name", name]].concat(), 0);
    }
    let page = folder.file("both.html");
    let (code, out, err) = run(&["load", "compare", &both[0], &both[1], "--report", &page]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("a.json: before") && out.contains("b.json: after") && out.contains("p999, response"), "{out}");
    assert!(folder.text("both.html").contains("a.json: before against b.json: after"));
    let (code, _, err) = run(&["load", "compare", &both[0], "/no/such.json"]);
    assert!(code == 1 && err.contains("/no/such.json"), "{err}");
    let prices = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/prices");
    let (code, out, err) = run(&["load", "cost", "--prices", &format!("{prices}/ec2-2014.csv")]);
    assert!(code == 0 && out.contains("c3.8xlarge") && out.contains("2,143 M"), "{out}{err}");
    let nodes = ["--node", "8xdram:32", "--node", "2xdram:16+2xpmem:128"];
    let memory = format!("{prices}/memory-prices-2019.csv");
    let (code, out, _) = run(&[&["load", "cost", "--prices", &memory][..], &nodes[..]].concat());
    assert!(code == 0 && out.contains("1,792") && out.contains("1,392"), "{out}");
}

/// Checks that the results of two runs describe the same load.
fn assert_same(first: &RunResult, second: &RunResult) {
    assert_eq!(first.workload, second.workload);
    assert_eq!((&first.again, &first.configuration), (&second.again, &second.configuration));
    assert_eq!((&first.arrivals, &first.objectives), (&second.arrivals, &second.objectives));
}

#[test]
fn rerun_repeats_a_result_exactly_or_with_new_flags() {
    let (_serving, addr) = server();
    let folder = Folder::new("again");
    let [a, b, c, d] = ["a.json", "b.json", "c.json", "d.json"].map(|name| folder.file(name));
    let result = |name: &str| RunResult::from_json(&folder.text(name)).unwrap();
    let what = ["--preset", "mc-crusher-paced", "--connections", "2", "--keys", "100", "--seed", "9", "--zipf", "0.8"];
    let paced = ["--rate", "1000", "--duration", "300ms", "--warm-up", "100ms", "--quiet", "--assert", "errors<=1%"];
    load_ends(&[&["--target", &addr, "--json", &a][..], &what, &paced].concat(), 0);
    load_ends(&["rerun", &a, "--json", &b, "--quiet"], 0);
    let (first, second) = (result("a.json"), result("b.json"));
    assert_same(&first, &second);
    assert_eq!(first.figures.counts.due, second.figures.counts.due, "the same instants");
    assert_eq!(second.assertions.len(), 1);
    let text = first.workload.as_ref().unwrap();
    assert!(text.contains("seed = 9") && text.contains("zipf = 0.8") && text.contains("batch = 50"), "{text}");
    // A result can be used as a workload file, and flags on the command line override it.
    let closed = ["--closed", "--requests", "250", "--warm-up", "0ms", "--seed", "3"];
    load_ends(&[&["rerun", &a, "--json", &c, "--quiet"][..], &closed].concat(), 0);
    let other = result("c.json");
    assert_eq!((other.figures.counts.answered, other.arrivals), (250, load::result::Arrivals::Closed { depth: 100 }));
    assert!(other.workload.as_ref().unwrap().contains("seed = 3"));
    load_ends(&["--workload", &a, "--rate", "500", "--duration", "100ms", "--json", &c, "--quiet"], 0);
    assert!(result("c.json").workload.as_ref().unwrap().contains("rate = \"500.0/s\""));
    // Repeating the result of a search runs a search again.
    let search = ["--slo", "p50=20s", "--start", "200", "--rate-max", "400", "--trial", "600ms", "--warm-up", "100ms"];
    load_ends(&[&["--target", &addr, "--keys", "100", "--quiet", "--json", &c][..], &search].concat(), 0);
    load_ends(&["rerun", &c, "--json", &d, "--quiet"], 0);
    let (first, second) = (result("c.json"), result("d.json"));
    assert_same(&first, &second);
    assert!(second.search.is_some() && !second.objectives.is_empty());
    let (code, _, err) = run(&["load", "rerun", "/no/such.json"]);
    assert!(code == 1 && err.contains("/no/such.json"), "{code}: {err}");
    std::fs::write(&b, "{\"format\": 1}").unwrap();
    let (code, _, err) = run(&["load", "rerun", &b]);
    assert!(code == 1 && err.contains("b.json: this JSON is not the result of a run"), "{code}: {err}");
}

#[test]
fn every_wrong_argument_is_named_at_once_with_its_remedy() {
    let args = ["load", "--target", "nowhere", "--slo", "p999=2", "--rate", "fast", "--keys", "x", "--trial", "5"];
    let (code, _, err) = run(&args);
    assert_eq!(code, 2, "{err}");
    for part in ["--slo: \"p999=2\"", "as in 60s", "--rate: \"fast\"", "--keys: \"x\"", "nowhere"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let (code, _, err) = run(&["load", "--target", "127.0.0.1:1"]);
    assert!(code == 2 && err.contains("--slo p999=2ms to search, --rate 50k for one rate, or --closed"), "{err}");
    let refused = format!("127.0.0.1:{}", free_port());
    let (code, _, err) = run(&["load", "--target", &refused, "--rate", "10", "--no-prefill"]);
    assert!(code == 1 && err.contains(&refused) && err.contains("check that the server is running"), "{err}");
}

#[test]
fn generator_threads_are_pinned_and_an_unusable_cpu_is_reported() {
    let (_serving, addr) = server();
    let usable = io::affinity::usable_cpus().unwrap();
    let folder = Folder::new("pins");
    let (json, page) = (folder.file("p.json"), folder.file("p.html"));
    let cpu = usable[0].to_string();
    let args = ["--target", &addr, "--rate", "200", "--duration", "300ms", "--keys", "100", "--quiet"];
    load_ends(&[&args[..], &["--pin", &cpu, "--json", &json, "--report", &page]].concat(), 0);
    let result = RunResult::from_json(&folder.text("p.json")).unwrap();
    assert_eq!(result.figures.generator.threads[0].cpu, Some(usable[0] as u64));
    assert_eq!(result.configuration["pinned to CPUs"], cpu);
    assert!(folder.text("p.html").contains("on CPU"));
    load_ends(&[&args[..], &["--pin", "auto", "--json", &json]].concat(), 0);
    let result = RunResult::from_json(&folder.text("p.json")).unwrap();
    assert_eq!(result.configuration["pinned to CPUs"] == "no", usable.len() <= 2, "{:?}", result.configuration);
    let file = folder.file("w.toml");
    std::fs::write(&file, "[connections]\ncount = 4\npin = \"0,3-1\"\n").unwrap();
    let (code, _, err) = run(&["load", "--target", &addr, "--workload", &file, "--closed"]);
    assert!(code == 1 && err.contains("w.toml:3: connections.pin: the range 3-1 ends below its start; write"), "{err}");
    for (pin, part) in [
        ("1023", "this process may not run on CPU 1023; choose from "),
        ("x", "--pin: \"x\" is not a CPU number; write CPU numbers and ranges, as in \"0-3,8\""),
    ] {
        let (code, _, err) = run(&["load", "--target", &addr, "--closed", "--pin", pin]);
        assert!(code == 2 && err.contains(part), "{pin}: {err}");
    }
}

#[test]
fn the_schema_is_printed_and_describes_results() {
    let (code, out, _) = run(&["load", "schema"]);
    assert!(code == 0 && out.contains("\"figures\"") && out.contains("gannet-load-result"), "{out}");
}

#[test]
fn two_servers_are_run_in_turn_and_their_ratios_given() {
    let target = format!("127.0.0.1:{}", free_port());
    let program = env!("CARGO_BIN_EXE_gannet");
    let serve = format!("{program} serve --memcached {target} --admin none --memory 64MiB --workers 1");
    let folder = Folder::new("versus");
    let page = folder.file("v.html");
    let args = ["load", "versus", "--a", &serve, "--b", &serve, "--target", &target, "--rate", "200", "--rounds", "2"];
    let short =
        ["--duration", "300ms", "--warm-up", "100ms", "--keys", "100", "--no-prefill", "--quiet", "--report", &page];
    let (code, out, err) = run(&[&args[..], &short[..]].concat());
    assert!([0, LIMITED].contains(&code), "{code}: {err}");
    let is_verdict = out.contains("replies per second") && out.contains("server CPU per request");
    assert!(is_verdict || code == LIMITED && out.starts_with("no verdict: "), "{out}");
    assert!(folder.text("v.html").contains("2 rounds of both sides, alternating"));
    assert!(std::net::TcpStream::connect(&target).is_err(), "no server is left");
    let (code, _, err) = run(&[&args[..3], &["exit 3", "--b", &serve, "--target", &target, "--closed"]].concat());
    assert!(code == 1 && err.contains("before it listened"), "{err}");
}

#[test]
fn the_self_test_shows_rate_and_timer_error() {
    let (code, out, err) = run(&["load", "self-test", "--part", "100ms"]);
    assert!(
        [0, LIMITED].contains(&code) && out.contains("timer error at ") && out.contains("requests/s"),
        "{out}{err}"
    );
    let (code, _, err) = run(&["load", "self-test", "--part", "5"]);
    assert!(code == 2 && err.contains("--part") && err.contains("as in 60s"), "{err}");
}

/// Returns a command of the help for a server of this test: the same flags, with smaller figures.
fn shortened(example: &str, addr: &str, socket: &str, folder: &Folder) -> Vec<String> {
    let workload = folder.file("shop.toml");
    std::fs::write(&workload, "protocol = \"memcache\"\n[[keys]]\ncount = 100\nverbs = [{ verb = \"get\" }]\n")
        .unwrap();
    let text = example
        .replace("127.0.0.1:11211", addr)
        .replace("10.0.0.9:11211", addr)
        .replace("unix:/run/cache.sock", socket)
        .replace("shop.toml", &workload)
        .replace("out.", &folder.file("out."))
        .replace("--duration 10s", "--duration 300ms")
        .replace("--duration 5s", "--duration 300ms")
        .replace("--start 10k --step 10k", "--start 200 --step 200")
        .replace("--rate 10k", "--rate 200");
    let mut words: Vec<String> = text.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect();
    let mut add = |flags: &[&str]| words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    add(&["--warm-up", "100ms", "--quiet"]);
    if example.contains("--slo") {
        add(&["--trial", "150ms", "--rate-max", "400"]);
        add(if example.contains("--start") { &[] } else { &["--start", "200"] });
    }
    add(if example.contains("--keys") { &[] } else { &["--keys", "200"] });
    words.split_off(1)
}

/// The outcome of a search or an assertion depends on the load of this machine, so any verdict is accepted, but no
/// error.
#[test]
fn every_example_of_the_help_runs() {
    let folder = Folder::new("examples");
    let socket = format!("unix:{}", folder.file("cache.sock"));
    let args = ["--memcached", "127.0.0.1:0", "--memcached", &socket, "--admin", "none", "--memory", "64MiB"];
    let mut serving = Serving::start(&args);
    let addr = serving.addr_behind("memcached clients connect to ").to_string();
    let (_, help, _) = run(&["load", "--help"]);
    let examples: Vec<&str> = help.lines().map(str::trim).filter(|line| line.starts_with("gannet load --")).collect();
    assert_eq!(examples.len(), 8, "{help}");
    let token = folder.file("token");
    std::fs::write(&token, "a token that is long enough").unwrap();
    let (first, second) = (agent(&token), agent(&token));
    let agents = format!("{},{}", first.1, second.1);
    let _ending = Ending(vec![first.0, second.0]);
    for example in examples {
        let mut words = shortened(example, &addr, &socket, &folder);
        if let Some(at) = words.iter().position(|word| word == "--agents") {
            (words[at + 1], words[at + 3]) = (agents.clone(), token.clone());
            words.extend(["--clock-error-max", "2s"].map(str::to_owned));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (code, out, err) = run(&words);
        assert!(is_verdict(code, &out), "{words:?} ended with {code}: {out}\n{err}");
        assert!(out.contains("response time"), "{words:?}: {out}");
    }
    assert!(folder.text("out.html").contains("<svg") && folder.text("out.json").contains("gannet-load-result"));
}

/// Starts an agent as a separate process. Returns the process and the agent's address.
fn agent(token: &str) -> (std::process::Child, String) {
    use std::io::BufRead;
    let mut child = crate::common::gannet(&["load", "agent", "--listen", "127.0.0.1:0", "--token", token])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("agent listens at ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
    (child, address)
}

/// A list of processes, which are ended when this value is dropped, even if the test fails.
struct Ending(Vec<std::process::Child>);

impl Drop for Ending {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn two_agents_run_as_a_single_generator_and_a_killed_agent_is_reported() {
    let (_serving, addr) = server();
    let folder = Folder::new("agents");
    let (token, json, html) = (folder.file("token"), folder.file("a.json"), folder.file("a.html"));
    std::fs::write(&token, "a token that is long enough\n").unwrap();
    let (first, second) = (agent(&token), agent(&token));
    let agents = format!("{},{}", first.1, second.1);
    let mut ending = Ending(vec![first.0, second.0]);
    let together = ["--agents", &agents, "--agents-token", &token, "--clock-error-max", "2s", "--target", &addr];
    let run_of = |more: &[&str], code| load_ends(&[&together[..], more].concat(), code);

    let asked = ["--rate", "400", "--duration", "1s", "--warm-up", "200ms", "--keys", "1001", "--connections", "5"];
    let files = ["--verify", "--assert", "misses<=0%", "--json", &json, "--report", &html];
    let (_, out, err) = run_of(&[&asked[..], &files[..]].concat(), 0);
    assert!(err.contains("prefill: stored 1001 keys"), "{err}");
    assert!(out.contains("slowest agent: 127.0.0.1:"), "{out}");
    let result = RunResult::from_json(&folder.text("a.json")).unwrap();
    let counts = &result.figures.counts;
    assert_eq!((counts.misses, counts.wrong, counts.connects), (0, 0, 5), "each key was stored by one of them");
    assert_eq!((result.agents.len(), result.figures.agents.len()), (2, 2));
    let due: u64 = result.figures.agents.iter().map(|agent| agent.counts.due).sum();
    assert!(counts.due > 100 && due == counts.due && result.figures.response.count == due);
    assert!(folder.text("a.html").contains("<h2>Agents</h2>"));

    let mut victim = ending.0.remove(0);
    let killer = std::thread::spawn(move || {
        // The signal may arrive at any moment: before the start of the run it causes an error, afterwards a partial
        // result.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        victim.kill().unwrap();
        victim.wait().unwrap();
    });
    let (code, out, err) = run(&[
        &["load"],
        &together[..],
        &["--rate", "400", "--duration", "10m", "--keys", "100", "--no-prefill", "--quiet"],
    ]
    .concat());
    killer.join().unwrap();
    assert!([1, LIMITED, 5].contains(&code), "{code}: {out}\n{err}");
    assert!(format!("{out}{err}").contains(&first_of(&agents)), "it is named: {out}\n{err}");
}

fn first_of(agents: &str) -> String {
    let (first, _) = agents.split_once(',').unwrap();
    format!("agent {first}")
}

#[test]
fn an_agent_without_a_token_is_open_to_this_host_alone() {
    let (code, _, err) = run(&["load", "agent", "--listen", "0.0.0.0:0"]);
    assert!(code == 1 && err.contains("--token FILE"), "{code}: {err}");
    let folder = Folder::new("token");
    std::fs::write(folder.file("short"), "abc\n").unwrap();
    let (code, _, err) = run(&["load", "agent", "--listen", "127.0.0.1:0", "--token", &folder.file("short")]);
    assert!(code == 2 && err.contains("fewer than 16 characters"), "{code}: {err}");
    let nobody = format!("127.0.0.1:{}", free_port());
    let (code, _, err) = run(&["load", "--agents", &nobody, "--target", &nobody, "--closed", "--duration", "1s"]);
    assert!(code == 1 && err.contains("gannet load agent --listen"), "{code}: {err}");
}
