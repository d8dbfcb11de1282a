//! Tests other tools' command lines and files under `gannet load`: every example of the help runs against a server that
//! the test starts. The tests check counts, not times.

use crate::common::{Serving, run};
use crate::peers::{Folder, LIMITED, Peer};

fn memcached() -> (Serving, String) {
    let args = ["--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "64MiB", "--workers", "1"];
    let mut serving = Serving::start(&args);
    let addr = serving.addr_behind("memcached clients connect to ").to_string();
    (serving, addr)
}

/// Returns the examples in the help of `tool`, each as the words after `gannet`.
fn examples(tool: &str) -> Vec<Vec<String>> {
    let (code, help, err) = run(&["load", tool, "--help"]);
    assert_eq!(code, 0, "{err}");
    let lines = help.lines().map(str::trim).filter(|line| line.starts_with("gannet load "));
    lines.map(|line| line.split_whitespace().skip(1).map(str::to_owned).collect()).collect()
}

/// Runs `words`, with our flags `ours` between the tool's name and the tool's words. Returns the output and error text.
fn runs(words: &[String], ours: &[&str]) -> (String, String) {
    let all: Vec<&str> = words[..2]
        .iter()
        .map(String::as_str)
        .chain(ours.iter().copied())
        .chain(words[2..].iter().map(String::as_str))
        .collect();
    let (code, out, err) = run(&all);
    assert!(matches!(code, 0 | LIMITED), "{all:?} ended with {code}: {out}\n{err}");
    assert!(out.contains("response time"), "{all:?}: {out}");
    (out, err)
}

/// Repeats the run of the result `name`, which must have `answers` replies.
fn runs_again(folder: &Folder, name: &str, answers: u64) {
    let json = folder.file("again.json");
    let (code, out, err) = run(&["load", "rerun", &folder.file(name), "--quiet", "--json", &json]);
    assert!(matches!(code, 0 | LIMITED), "{name} again ended with {code}: {out}{err}");
    let again = folder.result("again.json");
    assert_eq!((again.figures.counts.answered, again.figures.counts.errors), (answers, 0), "{out}");
    assert_eq!(again.workload, folder.result(name).workload);
}

#[test]
fn aerospikes_examples_store_every_record_and_read_them_back_with_their_table() {
    let examples = examples("aerospike");
    assert_eq!(examples.len(), 2);
    let Some(redis) = Peer::redis(&[]) else { return };
    let folder = Folder::new("aerospike");
    let port = redis.port.to_string();
    let json = folder.file("a.json");
    for (at, example) in examples.iter().enumerate() {
        let words: Vec<String> =
            example.iter().map(|word| if word == "6379" { port.clone() } else { word.clone() }).collect();
        let (out, _) = runs(&words, &["--json", &json]);
        let result = folder.result("a.json");
        let counts = &result.figures.counts;
        let due = [1000, 2000][at];
        assert_eq!((counts.answered, counts.errors, counts.misses), (due, 0, 0), "{out}");
        assert!(out.contains("write(tps=") && out.contains(" total(tps="), "{out}");
        // The sum of the intervals' counts equals the total.
        let number = |line: &str, before: &str| -> u64 {
            let rest = line.split(before).nth(1).unwrap_or_default();
            rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
        };
        if at == 0 {
            let last = out.lines().rfind(|line| line.contains(" write(count=")).unwrap();
            assert_eq!(number(last, "count="), 1000, "{out}");
        } else {
            assert!(out.lines().any(|line| line.starts_with("20") && number(line, "total(tps=") > 0), "{out}");
        }
        let table: Vec<&str> = out.lines().skip_while(|line| !line.contains("<=1ms")).collect();
        let heads = if at == 1 { "        <=1ms  >1ms  >2ms  >4ms  >8ms" } else { "" };
        assert_eq!(table.first().copied().unwrap_or_default(), heads, "{out}");
        let names: Vec<&str> = result.figures.verbs.iter().map(|group| group.name.as_str()).collect();
        let expected: &[&str] = if at == 1 { &["hset", "hgetall"] } else { &["hset"] };
        assert!(expected.iter().all(|name| names.contains(name)), "{names:?}");
        runs_again(&folder, "a.json", due);
    }
}

#[test]
fn memtiers_example_sends_its_requests_on_every_connection() {
    let (_serving, addr) = memcached();
    let port = addr.rsplit(':').next().unwrap();
    let folder = Folder::new("memtier");
    let own = folder.file("own.json");
    let examples = examples("memtier");
    assert_eq!(examples.len(), 1);
    let mut words: Vec<String> = examples[0].clone();
    words.iter_mut().filter(|word| *word == "11211").for_each(|word| *word = port.to_owned());
    let more = ["-x", "2", "--json-out-file", &own, "--print-percentiles", "50,99.9", "--hide-histogram"];
    words.extend(more.map(str::to_owned));
    let (out, err) = runs(&words, &[]);
    for name in ["own.json", "own-2.json"] {
        let counts = folder.result(name).figures.counts;
        assert_eq!((counts.answered, counts.errors), (2000, 0), "{name}: {out}");
    }
    runs_again(&folder, "own.json", 2000);
    assert!(out.contains("response time: p50 ") && out.contains(", p99.9 "), "{out}");
    assert!(err.contains("note: closed loop, as in memtier") && err.contains("run 2 of 2"), "{err}");
    assert!(err.contains("note: --hide-histogram has no effect"), "{err}");
}

#[test]
fn rpc_perf_example_steps_through_its_rates() {
    let (_serving, addr) = memcached();
    let folder = Folder::new("rpc-perf");
    let text = format!(
        "[general]\nprotocol = \"memcache\"\nduration = 300\n[debug]\nlog_level = \"info\"\n\
         [target]\nendpoints = [\"{addr}\"]\n[client]\nthreads = 1\npoolsize = 4\nconcurrency = 8\n\
         [workload.ratelimit]\nstart = 200\nend = 600\nstep = 200\ninterval = \"200ms\"\n\
         [[workload.keyspace]]\nklen = 16\nnkeys = 100\nvlen = 64\n\
         commands = [{{ verb = \"get\", weight = 8 }}, {{ verb = \"set\", weight = 2 }}]\n"
    );
    let file = folder.written("cache.toml", &text);
    let (html, json) = (folder.file("out.html"), folder.file("a.json"));
    let examples = examples("rpc-perf");
    assert_eq!(examples.len(), 1);
    let words: Vec<String> = examples[0]
        .iter()
        .map(|word| match word.as_str() {
            "cache.toml" => file.clone(),
            "5s" => "800ms".to_owned(),
            "out.html" => html.clone(),
            other => other.to_owned(),
        })
        .collect();
    let (out, err) = runs(&words, &["--json", &json]);
    let result = folder.result("a.json");
    let rates: Vec<f64> = result.search.unwrap().steps.iter().map(|step| step.rate_per_s).collect();
    assert_eq!(rates, [200.0, 400.0, 600.0, 600.0], "the last is kept for the rest of the time: {out}");
    runs_again(&folder, "a.json", result.figures.counts.answered);
    assert!(out.contains("4 rates from 200/s to 600/s") && err.matches("trial ").count() >= 4, "{out}{err}");
    assert!(err.contains("note: [debug] has no effect"), "{err}");
    assert!(std::fs::read_to_string(&html).unwrap().contains("<svg"));
}

#[test]
fn mc_crushers_example_paces_its_lines_in_batches() {
    let (_serving, addr) = memcached();
    let folder = Folder::new("mc-crusher");
    let text = "send=ascii_get,conns=3,pipelines=4,usleep=50000,key_prefix=foo,key_count=100\n\
                send=ascii_set,conns=1,pipelines=4,usleep=50000,key_prefix=foo,key_count=100,value_size=10\n";
    let file = folder.written("paced.conf", text);
    let json = folder.file("a.json");
    let examples = examples("mc-crusher");
    assert_eq!(examples.len(), 1);
    let words: Vec<String> = examples[0]
        .iter()
        .map(|word| match word.as_str() {
            "paced.conf" => file.clone(),
            "127.0.0.1:11211" => addr.clone(),
            "5s" => "500ms".to_owned(),
            other => other.to_owned(),
        })
        .collect();
    runs(&words, &["--json", &json]);
    let result = folder.result("a.json");
    // 4 connections with 4 requests every 50 ms make 320 requests per second, give or take a batch at each end of each
    // thread's run.
    let counts = &result.figures.counts;
    assert!((144..=176).contains(&counts.due) && counts.due.is_multiple_of(4), "{counts:?}");
    assert_eq!((counts.answered, counts.errors), (counts.due, 0));
    assert_eq!(result.configuration["sent together"], "4");
    let names: Vec<&str> = result.figures.verbs.iter().map(|group| group.name.as_str()).collect();
    assert!(names.contains(&"get") && names.contains(&"set"), "{names:?}");
}

#[test]
fn errors_in_tool_arguments_or_files_are_reported_together() {
    let (code, _, err) = run(&["load", "aerospike", "-h", "127.0.0.1", "-o", "X:1", "-zz", "4", "-w", "RUF"]);
    assert!(code == 2 && err.contains("-o: ") && err.contains("-w: RUF is not supported"), "{code}: {err}");
    let (code, _, err) = run(&["load", "memtier", "--ratio", "1", "--pipelin", "4"]);
    assert!(
        code == 2 && err.contains("--ratio: '1' is not a ratio") && err.contains("did you mean --pipeline?"),
        "{err}"
    );
    let folder = Folder::new("wrong");
    let conf = folder.written("c.conf", "send=ascii_gte\nsend=bin_get\n");
    let (code, _, err) = run(&["load", "mc-crusher", &conf]);
    assert!(code == 1 && err.contains("c.conf:1: send") && err.contains("c.conf:2: send"), "{err}");
    let (code, _, err) = run(&["load", "rpc-perf", "/no/such.toml"]);
    assert!(code == 1 && err.contains("/no/such.toml"), "{err}");
    let (code, _, err) = run(&["load", "mc-crusher", &conf, "--duration", "5"]);
    assert!(code == 1 && err.contains("c.conf:1"), "{err}");
}

#[test]
fn batches_of_a_file_a_preset_and_a_flag_are_sent_together() {
    let (_serving, addr) = memcached();
    let folder = Folder::new("batch");
    let text = "protocol = \"memcache\"\n[connections]\nbatch = 8\n[[keys]]\nverbs = [{ verb = \"get\" }]\n";
    let file = folder.written("w.toml", text);
    let json = folder.file("b.json");
    let paced = ["--rate", "800", "--warm-up", "100ms", "--duration", "300ms", "--quiet", "--json", &json];
    let asked = [
        (vec!["--workload", &file], "8", "8"),
        (vec!["--preset", "mc-crusher-paced", "--connections", "2", "--keys", "100"], "50", "100"),
        (vec!["--batch", "16", "--no-prefill"], "16", "64"),
        (vec!["--workload", &file, "--batch", "20"], "20", "20"),
    ];
    for (what, batch, depth) in asked {
        let (code, out, err) = run(&[&["load", "--target", &addr][..], &what, &paced].concat());
        assert!(matches!(code, 0 | LIMITED), "{what:?} ended with {code}: {out}{err}");
        let result = folder.result("b.json");
        let told = |name: &str| result.configuration[name].clone();
        assert_eq!((told("sent together"), told("in flight per connection at most")), (batch.into(), depth.into()));
        let counts = &result.figures.counts;
        let batch: u64 = batch.parse().unwrap();
        assert!(counts.due > 100 && counts.due.is_multiple_of(batch), "{counts:?}");
        assert_eq!((counts.answered, result.figures.response.count, counts.errors), (counts.due, counts.due, 0));
    }
    let (code, _, err) = run(&["load", "--target", &addr, "--rate", "10", "--batch", "8", "--depth", "4"]);
    assert!(code == 2 && err.contains("connections.batch: a batch of 8 exceeds the depth of 4"), "{code}: {err}");
}
