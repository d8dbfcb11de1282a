use std::path::Path;

use base::units::TimeSpan;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;
use crate::workload::model::{LengthStep, Order, Sizes};
use crate::workload::units::Share;

fn faults(text: &str) -> Vec<WorkloadFault> {
    Workload::read_text(Path::new("load.toml"), text).err().unwrap_or_default()
}

#[test]
fn a_whole_file_is_read() {
    let text = r#"
name = "all"
about = "everything"
protocol = "resp"
seed = 7
prefill = true
fill_on_miss = true
verify = true
[targets]
addresses = ["10.0.0.1:6379", "unix:/run/cache.sock"]
weights = [1, 3]
placement = "ketama"
[auth]
user = "u"
password = "p"
database = 3
[connections]
count = 64
threads = 2
depth = 8
batch = 4
reconnect = "10/s"
storm = "30s"
[pace]
kind = "on-off"
rate = "50k/s"
on = "100ms"
off = "900ms"
[[keys]]
weight = 2
count = 1_000
prefix = "user:"
key_bytes = { from = "12B", to = "20B" }
order = { hot = { keys = "1%", requests = "99%" } }
once = "0%"
value_bytes = [{ bytes = "64B", weight = 3 }, { from = "1KiB", to = "2KiB" }]
compressible = "50%"
ttl = [{ ttl = "1h", weight = 3 }, { ttl = "0s" }]
verbs = [{ verb = "get", weight = 90 }, { verb = "set", weight = 10 }]
[[keys]]
order = { zipf = 1 }
fields = 5
verbs = [{ verb = "hmget", fields = 2 }]
"#;
    let workload = Workload::read_text(Path::new("load.toml"), text).unwrap();
    assert_eq!((workload.protocol, workload.seed, workload.database), (Protocol::Resp, 7, 3));
    assert!(workload.prefill && workload.fill_on_miss && workload.verify && !workload.blind);
    assert_eq!(workload.targets[1], Target { address: "unix:/run/cache.sock".into(), weight: 3 });
    assert_eq!((workload.connections, workload.threads, workload.depth, workload.batch), (64, 2, 8, 4));
    assert_eq!((workload.reconnect_per_s, workload.storm_every), (10.0, Some(TimeSpan::secs(30))));
    let arrivals = Arrivals::OnOff { on: TimeSpan::millis(100), off: TimeSpan::millis(900) };
    assert_eq!(workload.pace, Pace::Open { rate_per_s: 50e3, arrivals });
    let first = &workload.keys[0];
    assert_eq!((first.weight, first.count, first.prefix.as_str()), (2.0, 1000, "user:"));
    assert_eq!(first.key_bytes, Sizes::Range(12, 20));
    assert_eq!(first.order, Order::Hot { keys: Share(0.01), requests: Share(0.99) });
    let step = |from, to, weight| LengthStep { from, to, weight };
    assert_eq!(first.value_bytes, Sizes::Steps(vec![step(64, 64, 3.0), step(1024, 2048, 1.0)]));
    assert_eq!(first.ttl, [(TimeSpan::secs(3600), 3.0), (TimeSpan::secs(0), 1.0)]);
    assert_eq!(first.verbs, [KeyCommand::weighted(Verb::Get, 90.0), KeyCommand::weighted(Verb::Set, 10.0)]);
    assert_eq!(workload.keys[1].order, Order::Zipf { exponent: 1.0 });
    assert_eq!(workload.keys[1].verbs[0].fields, 2);
}

#[test]
fn every_pace_is_read() {
    let open = |arrivals| Pace::Open { rate_per_s: 1000.0, arrivals };
    for (text, pace) in [
        ("kind = \"closed\"", Pace::Closed),
        ("kind = \"constant\"\nrate = \"1k/s\"", open(Arrivals::Constant)),
        ("kind = \"poisson\"\nrate = \"1k/s\"", open(Arrivals::Poisson)),
        (
            "kind = \"ramp\"\nrate = \"1k/s\"\nto = \"2k/s\"\nover = \"60s\"",
            open(Arrivals::Ramp { to_per_s: 2000.0, over: TimeSpan::secs(60) }),
        ),
        (
            "kind = \"sine\"\nrate = \"1k/s\"\nswing = \"50%\"\nperiod = \"10s\"",
            open(Arrivals::Sine { swing: Share(0.5), period: TimeSpan::secs(10) }),
        ),
        (
            "kind = \"trace\"\nfile = \"t.csv\"\nspeed = 2",
            Pace::Open { rate_per_s: 0.0, arrivals: Arrivals::Trace { path: "dir/t.csv".into(), speed: 2.0 } },
        ),
    ] {
        let read = Workload::read_text(Path::new("dir/load.toml"), &format!("[pace]\n{text}\n"));
        assert_eq!(read.map(|workload| workload.pace), Ok(pace), "{text}");
    }
}

#[test]
fn an_empty_file_is_the_default_workload() {
    assert_eq!(Workload::read_text(Path::new("x"), ""), Ok(Workload::default()));
    let ping = Workload::read_text(Path::new("x"), "protocol = \"ping\"").unwrap();
    assert_eq!(ping.keys[0].verbs, [KeyCommand::new(Verb::Ping)]);
}

/// Texts with one fault each: the text, the fault's line, and parts of the fault's description and remedy.
const WRONG: [(&str, usize, &str, &str); 64] = [
    ("nmae = \"x\"\n", 1, "unknown key", "did you mean name?"),
    ("qqqq = 1\n", 1, "unknown key", "valid keys here are: name"),
    ("name = 1\n", 1, "expected text, found 1", "double quotes"),
    ("name = \"x\"\nname = \"y\"\n", 2, "duplicate key", "keep only one"),
    ("protocol = \"rsep\"\n", 1, "unknown word 'rsep'", "did you mean \"resp\"?"),
    ("protocol = \"http\"\n", 1, "unknown word", "memcache, meta, resp, resp3, ping"),
    ("seed = \"1\"\n", 1, "whole number", "without quotes"),
    ("seed = -1\n", 1, "whole number", "at least 0"),
    ("verify = 1\n", 1, "true or false", "without quotes"),
    ("targets = 1\n", 1, "expected a table", "[targets]"),
    ("[targets]\naddresses = \"h:1\"\n", 2, "expected a list", "[\"127.0.0.1:11211\"]"),
    ("[targets]\naddresses = [\n1]\n", 3, "expected an address", "double quotes"),
    ("[targets]\naddresses = [\"h:1\",\n\"h\"]\n", 3, "'h' is not an address", "HOST:PORT"),
    ("[targets]\naddresses = [\"unix:\"]\n", 2, "not an address", "unix:PATH"),
    ("[targets]\naddresses = [\"h:1\"]\nweights = [1, 2]\n", 3, "2 weights for 1 addresses", "one number per address"),
    ("[targets]\naddresses = [\"h:1\"]\nweights = [0]\n", 2, "0 as the weight of a target", "from 1"),
    ("[targets]\naddress = [\"h:1\"]\n", 2, "unknown key", "did you mean addresses?"),
    ("[auth]\nuser = \"u\"\npassword = \"a b\"\n", 3, "password is not valid", "without spaces"),
    ("[auth]\npassword = \"p\"\n", 1, "user's name is not valid", "1 to 250"),
    ("[auth]\ndatabase = 1\n", 2, "only RESP has databases", "remove"),
    ("[connections]\ncount = 0\n", 2, "0 connections", "from 1 to 1000000"),
    ("[connections]\nthreads = 2\n", 2, "2 threads for 1", "one connection per thread"),
    ("[connections]\nbatch = 8\ndepth = 4\n", 2, "exceeds the depth of 4", "raise connections.depth"),
    ("[connections]\nstorm = \"1us\"\n", 2, "a storm every 1us", "at least 10ms"),
    ("[connections]\nreconnect = 10\n", 2, "expected a rate, found 10", "50k/s"),
    ("verify = true\n[connections]\nblind = true\n", 1, "not parsed", "remove one"),
    ("[pace]\nrate = \"1k/s\"\n", 1, "kind of pace is missing", "kind = \"poisson\""),
    ("[pace]\nkind = \"poisson\"\n", 1, "no request is ever due", "50k/s"),
    ("[pace]\nkind = \"poisson\"\nrate = \"fast\"\n", 3, "expected a rate", "50k/s"),
    ("[pace]\nkind = \"constant\"\nrate = \"1k/s\"\non = \"1s\"\n", 4, "unknown key", "keys here are: kind, rate"),
    ("[pace]\nkind = \"on-off\"\nrate = \"1k/s\"\non = \"1s\"\n", 1, "the length of a pause is 0", "100ms"),
    ("[pace]\nkind = \"sine\"\nrate = \"1k/s\"\nswing = 0.5\nperiod = \"1s\"\n", 4, "in percent", "25%"),
    ("[pace]\nkind = \"sine\"\nrate = \"1k/s\"\nswing = \"5%\"\nperiod = 10\n", 5, "needs a unit", "60s"),
    ("[pace]\nkind = \"trace\"\n", 1, "the trace file is missing", "name a file"),
    ("keys = 1\n", 1, "expected a list", "[[keys]]"),
    ("[[keys]]\ncount = 0\n", 2, "0 keys", "from 1 to"),
    ("[[keys]]\ncuont = 5\n", 2, "unknown key", "did you mean count?"),
    ("[[keys]]\nkey_bytes = 16\n", 2, "needs a unit", "512MiB"),
    ("[[keys]]\nkey_bytes = \"3B\"\n", 2, "distinct texts of 3 bytes", "at least \"4B\""),
    ("[[keys]]\nkey_bytes = \"251B\"\n", 2, "too long", "at most 250"),
    ("[[keys]]\nonce = \"1%\"\nkey_bytes = \"6B\"\n", 3, "requested once", "\"7B\""),
    ("[[keys]]\nprefix = \"a b\"\n", 2, "a key cannot contain spaces, control characters", "without spaces"),
    ("[[keys]]\nvalue_bytes = { from = \"2B\", to = \"1B\" }\n", 2, "is reversed", "the shorter length first"),
    ("[[keys]]\nvalue_bytes = { from = \"2B\" }\n", 2, "expected a range", "to = \"1KiB\""),
    ("[[keys]]\nvalue_bytes = [{ weight = 2 }]\n", 2, "a length with its weight", "bytes = \"64B\""),
    ("[[keys]]\nvalue_bytes = [{ bytes = \"1B\", weight = -2 }]\n", 2, "negative", "from 0"),
    ("[[keys]]\nvalue_bytes = []\n", 2, "0 lengths", "from 1"),
    ("[[keys]]\nvalue_bytes = { file = \"/no/such\" }\n", 2, "cannot open the file", "name a file"),
    ("[[keys]]\nvalue_bytes = \"2GiB\"\n", 2, "too long", "1073741824"),
    ("[[keys]]\norder = \"zipf\"\n", 2, "an order of keys", "{ zipf = 0.99 }"),
    ("[[keys]]\norder = { zipf = -1 }\n", 2, "out of range", "from 0 to 64"),
    ("[[keys]]\norder = { zpif = 1 }\n", 2, "unknown key", "did you mean zipf?"),
    ("[[keys]]\norder = { hot = { keys = \"10%\", request = \"1%\" } }\n", 2, "unknown key", "did you mean requests?"),
    ("[[keys]]\nttl = 60\n", 2, "needs a unit", "60s"),
    ("[[keys]]\nttl = \"100ms\"\n", 2, "whole seconds", "60s or 2h"),
    ("[[keys]]\nttl = [{ weight = 2 }]\n", 2, "expected a time to live", "ttl = \"1h\""),
    ("[[keys]]\nverbs = [{ verb = \"gte\" }]\n", 2, "unknown word", "did you mean \"get\"?"),
    ("[[keys]]\nverbs = [{ weight = 1 }]\n", 2, "the verb is missing", "verb = \"get\""),
    ("[[keys]]\nverbs = [{ verb = \"hget\" }]\n", 2, "memcache does not support hget", "valid verbs are: get"),
    ("[[keys]]\nverbs = [{ verb = \"add\", keys = 2 }]\n", 2, "unknown key", "keys here are: verb, weight"),
    (
        "[[keys]]\nverbs = [{ verb = \"set\", keys = 2 }]\n",
        2,
        "only a get can request several keys",
        "with gRPC also set",
    ),
    ("[[keys]]\nverbs = [{ verb = \"get\", weight = 0 }]\n", 2, "weight 0", "at least one of them"),
    ("[[keys]]\nverbs = [{ verb = \"mg\", flags = \"v q\" }]\n", 2, "q and b", "remove the flag"),
    (
        "verify = true\n[[keys]]\nverbs = [{ verb = \"get\" },\n{ verb = \"append\" }]\n",
        4,
        "append stores",
        "remove it",
    ),
];

#[test]
fn every_kind_of_fault_has_its_line_and_a_remedy() {
    let mut unlike = Vec::new();
    for (text, line, what, remedy) in WRONG {
        let found = faults(text);
        let alike = |fault: &WorkloadFault| {
            fault.to_string().starts_with(&format!("load.toml:{line}: "))
                && fault.what.contains(what)
                && fault.remedy.contains(remedy)
        };
        if found.len() != 1 || !alike(&found[0]) {
            let shown: Vec<String> = found.iter().map(WorkloadFault::to_string).collect();
            unlike.push(format!("{text} wants line {line}, '{what}', '{remedy}': {}", shown.join(" | ")));
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
}

#[test]
fn all_config_errors_are_reported_at_once_in_line_order() {
    let found =
        faults("seed = -1\n[connections]\ncuont = 1\nreconnect = 5\n[[keys]]\nttl = 60\nverbs = [{ verb = \"x\" }]\n");
    let lines: Vec<&FaultPlace> = found.iter().map(|fault| &fault.place).collect();
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(lines.is_sorted());
}

#[test]
fn missing_workload_file_is_named_in_error() {
    let found = Workload::read_file(Path::new("/no/such/load.toml")).unwrap_err();
    assert!(found[0].to_string().starts_with("/no/such/load.toml:1: cannot open the file"), "{found:?}");
}

#[test]
fn the_documents_file_is_read() {
    let page = include_str!("../../../../../docs/load/workload.md");
    let begin = page.find("```toml\n").expect("the page shows a file") + "```toml\n".len();
    let text = &page[begin..begin + page[begin..].find("```").expect("the file ends")];
    let workload = Workload::read_text(Path::new("docs/load/workload.md"), text).unwrap();
    assert_eq!((workload.name.as_str(), workload.keys.len()), ("sessions", 2));
    for (name, verb) in Verb::NAMES {
        assert!(page.contains(&format!("`{name}`")), "the page names {verb:?}");
    }
    let fault = &faults(&format!("{}[[keys]]\nttl = 60\n", "\n".repeat(10)))[0];
    assert!(page.contains(&fault.to_string()), "{fault}");
}

#[test]
fn a_fault_of_tls_has_the_line_of_its_field() {
    let folder = std::env::temp_dir().join(format!("gannet-workload-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join("ca.pem"), ca.pem()).unwrap();
    let read = |text: &str| Workload::read_text(&folder.join("w.toml"), text);
    let text = "[targets]\naddresses = [\"h:1\"]\n[targets.tls]\nca = \"ca.pem\"\nversions = \"1.3\"\nresume = false\n";
    let tls = read(text).unwrap().tls.unwrap();
    let expected = tls::TlsSettings {
        ca: Some(folder.join("ca.pem")),
        versions: tls::Versions::Tls13,
        resume: false,
        ..tls::TlsSettings::default()
    };
    assert_eq!(tls, expected, "files are looked for beside the workload");
    assert_eq!(read("[targets.tls]\ninsecure = true\n").unwrap().tls.map(|tls| tls.insecure), Some(true));
    assert_eq!(read("").unwrap().tls, None);
    for (from, to, part) in [
        ("\"ca.pem\"", "\"no.pem\"", "w.toml:4: targets.tls.ca: '"),
        ("\"1.3\"", "\"1.1\"", "w.toml:5: targets.tls.versions: TLS version '1.1' is not supported; write 1.2"),
        ("resume = false", "key = \"k\"", "w.toml:6: targets.tls.key: there is a key, but no certificate"),
        ("resume", "resmue", "w.toml:6: targets.tls.resmue: unknown key; did you mean resume?"),
    ] {
        let faults = read(&text.replace(from, to)).unwrap_err();
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert!(lines.iter().any(|fault| fault.contains(part)), "{part}: {lines:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn settings_of_a_graph_are_lost_in_a_result() {
    let folder = std::env::temp_dir().join(format!("gannet-workload-graph-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("edges.txt"), "1 2\n2 3\n").unwrap();
    let read = |text: &str| Workload::read_text(&folder.join("w.toml"), &format!("protocol = \"resp\"\n{text}"));
    let rest = "name = \"g\"\ntype = \"t\"\nendpoints = \"uniform\"\ntargets = [1, 7]\npage = 9\nhops = 2\n\
                budget = 77\nwrites = \"1500/s\"\nwrite_edges = 3\n\
                queries = [{ query = \"path\", weight = 2.5 }, { query = \"g.add\" }]\n";
    for origin in ["scale = 5\nedges_per_node = 3\n", "file = \"edges.txt\"\n"] {
        let workload = read(&format!("[graph]\n{origin}{rest}")).unwrap();
        let load = workload.graph.as_ref().unwrap();
        let text = workload.to_toml(Password::Written);
        assert_eq!(Workload::read_text(Path::new("again.toml"), &text).unwrap(), workload, "{text}");
        assert_eq!(load.origin.count(), if origin.contains("scale") { 96 } else { 2 });
        assert_eq!((load.targets, load.page, load.hops, load.budget), ((1, 7), 9, 2, Some(77)));
        assert_eq!((load.writes_per_s, load.write_edges, load.queries.len()), (1500.0, 3, 2));
    }
    for (text, part) in [
        ("[graph]\nscale = 32\n", "graph.scale: 32 as the scale; write a number from 1 to 31"),
        ("[graph]\nscael = 3\n", "w.toml:3: graph.scael: unknown key; did you mean scale?"),
        ("[graph]\nqueries = [{ query = \"dits\" }]\n", "unknown word 'dits'; did you mean \"dist\"?"),
        ("[graph]\nqueries = [{ weight = 1 }]\n", "the query is missing; write { query = \"dist\", weight = 1 }"),
        ("[graph]\nqueries = [{ query = \"dist\", weight = 0 }]\n", "every query has the weight 0; give at least"),
        ("[graph]\ntargets = [5]\n", "graph.targets: these are not two whole numbers; write [10, 50]"),
        ("[graph]\ntargets = [9, 5]\n", "graph.targets: 5 destinations; write a number from 9 to 4096"),
        ("[graph]\nwrites = 7\n", "graph.writes: "),
        ("[graph]\nfile = \"no.txt\"\n", "no.txt:1: cannot read the file of edges: "),
        ("[graph]\nfile = \"edges.txt\"\nscale = 3\n", "a graph from a file has no scale; remove scale and"),
        ("[graph]\n[[keys]]\ncount = 3\n", "graph: a workload of a graph has no keys; remove [graph], or [[keys]]"),
        ("fill_on_miss = true\n[graph]\n", "no query of a graph is followed by a store; remove the setting"),
        ("[targets]\naddresses = [\"h:1\", \"h:2\"]\n[graph]\n", "a graph is on one server; pass one target"),
    ] {
        let lines: Vec<String> = read(text).unwrap_err().iter().map(ToString::to_string).collect();
        assert!(lines.iter().any(|fault| fault.contains(part)), "{part}: {lines:?}");
    }
    let memcached = Workload::read_text(Path::new("w.toml"), "[graph]\n").unwrap_err();
    assert!(
        memcached[0].to_string().contains("a graph is reached by RESP; use protocol resp or resp3"),
        "{memcached:?}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}
