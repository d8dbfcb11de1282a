use super::*;
use crate::workload::model::{KeyCommand, LengthStep, Order, Sizes, Verb};
use crate::workload::units::Share;

fn read(text: &str) -> Mapped {
    read_text(Path::new("configs/x.toml"), text).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

fn told(text: &str) -> Vec<String> {
    let faults = read_text(Path::new("x.toml"), text).expect_err("a fault");
    faults.iter().map(ToString::to_string).collect()
}

const CURRENT: &str = r#"
[general]
protocol = "memcache"
interval = 60
duration = 300
output_format = "log"
admin = "127.0.0.1:9090"
initial_seed = "7"
[metrics]
output = "rpcperf.parquet"
[debug]
log_level = "info"
log_max_size = 1073741824
[target]
endpoints = [
	"127.0.0.1:11211",
	"unix:///run/m.sock",
]
[client]
threads = 4
poolsize = 20
concurrency = 2
connect_timeout = 10000
request_timeout = 1000
[workload]
threads = 1
[workload.ratelimit]
start = 10_000
end = 100_000
step = 10_000
interval = 30
ramp = "shuffled"
on_ramp_completion = "mirror"
[[workload.keyspace]]
weight = 1
klen = 32
nkeys = 1_000_000
vlen = 128
vkind = "bytes"
compression_ratio = 10.0
ttl = "15m"
commands = [
	{ verb = "get", weight = 80 },
	{ verb = "set", weight = 20 },
	{ verb = "delete", weight = 0 },
]
[tls]
"#;

#[test]
fn a_file_of_version_5_runs_as_it_is() {
    let Mapped { workload, run, notes } = read(CURRENT);
    assert_eq!((workload.protocol, workload.seed), (Protocol::Memcache, 7));
    let addresses: Vec<&str> = workload.targets.iter().map(|target| target.address.as_str()).collect();
    assert_eq!(addresses, ["127.0.0.1:11211", "unix:/run/m.sock"]);
    assert_eq!((workload.connections, workload.threads, workload.depth), (40, 4, 2));
    assert_eq!(workload.tls, Some(link::tls::TlsSettings::default()), "an empty [tls] section enables TLS");
    let files = "[tls]\nca_file = \"a\"\nprivate_key = \"k\"\ncertificate_chain = \"c\"";
    let tls = read(&CURRENT.replace("[tls]", files)).workload.tls.unwrap();
    let named = |path: &str| Some(std::path::PathBuf::from(path));
    assert_eq!((tls.ca, tls.certificate, tls.key), (named("a"), named("c"), named("k")));
    assert_eq!(workload.pace, Pace::Open { rate_per_s: 10_000.0, arrivals: Arrivals::Constant });
    let space = &workload.keys[0];
    assert_eq!((space.count, &space.key_bytes, &space.value_bytes), (1_000_000, &Sizes::Fixed(32), &Sizes::Fixed(128)));
    assert_eq!((space.compressible, &space.ttl), (Share(0.9), &vec![(TimeSpan::secs(900), 1.0)]));
    assert_eq!(space.verbs, [KeyCommand::weighted(Verb::Get, 80.0), KeyCommand::weighted(Verb::Set, 20.0)]);
    assert_eq!((run.duration, run.interval), (Some(TimeSpan::secs(300)), Some(TimeSpan::secs(60))));
    assert_eq!((run.timeout, run.connect_timeout), (Some(TimeSpan::millis(1000)), Some(TimeSpan::millis(10_000))));
    assert_eq!(run.admin.as_deref(), Some("127.0.0.1:9090"));
    let each = TimeSpan::secs(30);
    let steps = Steps { from_per_s: 1e4, to_per_s: 1e5, by_per_s: 1e4, each, shuffled: true, then: Then::Mirror };
    assert_eq!((run.steps, notes.len()), (Some(steps), 3));
}

#[test]
fn hashes_of_a_redis_file_are_read_and_families_that_are_not_here_are_named() {
    let text = r#"
[general]
protocol = "resp"
[target]
endpoints = ["redis://localhost"]
[[workload.keyspace]]
klen = 24
nkeys = 1000
inner_keys_klen = 4
inner_keys_nkeys = 1_000
vkind = "i64"
key_distribution = "zipf"
commands = [
	{ verb = "hget", weight = 30 },
	{ verb = "hget", weight = 10, cardinality = 5 },
	{ verb = "hgetall", weight = 5 },
	{ verb = "hdel", weight = 10 },
	{ verb = "hset", weight = 5, cardinality = 5 },
	{ verb = "lpush", weight = 0, truncate = 10 },
	{ verb = "delete", weight = 5 },
]
ttl = "15m"
"#;
    let Mapped { workload, notes, .. } = read(text);
    assert_eq!((notes.len(), workload.keys[0].ttl.len()), (2, 0));
    assert_eq!(workload.targets[0].address, "localhost:6379");
    let space = &workload.keys[0];
    assert_eq!((space.fields, &space.order), (1000, &Order::Zipf { exponent: 1.0 }));
    let verbs: Vec<(Verb, u32)> = space.verbs.iter().map(|command| (command.verb, command.fields)).collect();
    assert_eq!(
        verbs,
        [
            (Verb::HashGet, 0),
            (Verb::HashMultiGet, 5),
            (Verb::HashGetAll, 0),
            (Verb::HashDelete, 1),
            (Verb::HashSet, 5),
            (Verb::Raw, 0)
        ]
    );
    let told = told(&text.replace("weight = 0", "weight = 1"));
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("x.toml:19: workload.keyspace[0].commands[5].verb: this verb is not supported; set"));
}

const OLDER: &str = r#"
[general]
protocol = "memcache"
interval = 60
windows = 5
service = false
threads = 4
admin = "127.0.0.1:9090"
[target]
endpoints = ["10.0.0.2:12321"]
[connection]
poolsize = 64
[request]
ratelimit = "100000"
[[keyspace]]
commands = [
	{ verb = "get", weight = 80 },
	{ verb = "set", weight = 20 },
]
length = 4
values = [ { length = 256 } ]
ttl = 0
batch_size = 3
"#;

#[test]
fn a_file_of_the_older_form_runs_as_it_is() {
    let Mapped { workload, run, notes } = read(OLDER);
    assert_eq!((workload.connections, workload.threads, workload.depth), (256, 4, 1));
    assert_eq!(workload.pace, Pace::Open { rate_per_s: 100_000.0, arrivals: Arrivals::Constant });
    let space = &workload.keys[0];
    assert_eq!((space.count, &space.key_bytes), (62u64.pow(4), &Sizes::Fixed(4)));
    assert_eq!((&space.value_bytes, space.ttl.len()), (&Sizes::Fixed(256), 0));
    assert_eq!((space.verbs[0].keys, space.verbs[1].keys), (3, 1));
    assert_eq!((run.duration, run.admin.as_deref()), (Some(TimeSpan::secs(300)), Some("127.0.0.1:9090")));
    assert!(notes.is_empty());
    let service = read(&OLDER.replace("service = false", "service = true"));
    assert_eq!(service.run.duration, None);
    let several = read(&OLDER.replace("{ length = 256 }", "{ length = 1, weight = 3 }, { length = 9 }"));
    let step = |bytes, weight| LengthStep { from: bytes, to: bytes, weight };
    assert_eq!(several.workload.keys[0].value_bytes, Sizes::Steps(vec![step(1, 3.0), step(9, 1.0)]));
    let bare = read(&OLDER.replace("\"100000\"", "50000"));
    assert_eq!(bare.workload.pace, Pace::Open { rate_per_s: 50_000.0, arrivals: Arrivals::Constant });
    let closed = read(&OLDER.replace("ratelimit = \"100000\"", ""));
    assert_eq!(closed.workload.pace, Pace::Closed);
}

#[test]
fn each_fault_has_its_line_and_a_remedy() {
    for (text, from, to, part) in [
        (CURRENT, "poolsize = 20", "poolsiez = 20", "x.toml:21: client.poolsiez: unknown key; did you mean pool"),
        (
            CURRENT,
            "\"memcache\"",
            "\"momento\"",
            "x.toml:3: general.protocol: this protocol is not supported; write memcache",
        ),
        (CURRENT, "\"memcache\"", "\"memcahe\"", "x.toml:3: general.protocol: unknown word 'memcahe'; did you"),
        (CURRENT, "klen = 32", "klen = 2", "x.toml:36: workload.keyspace[0].klen: 1000000 keys cannot all"),
        (CURRENT, "step = 10_000\n", "", "x.toml:27: workload.ratelimit: the steps of the rate are incomplete; write"),
        (CURRENT, "start = 10_000", "start = \"fast\"", "x.toml:28: workload.ratelimit.start: expected requests"),
        (
            CURRENT,
            "[tls]",
            "[tls]\nverify_hostname = false",
            "x.toml:48: tls.verify_hostname: the server's name is always",
        ),
        (CURRENT, "[tls]", "[tls]\nprivate_key = \"k\"", "x.toml:48: tls.private_key: there is a key, but no certific"),
        (CURRENT, "[tls]", "[tls]\nca_fil = \"a\"", "x.toml:48: tls.ca_fil: unknown key; did you mean ca_file?"),
        (CURRENT, "verb = \"get\"", "verb = \"gte\"", "x.toml:43: workload.keyspace[0].commands[0].verb: unknown word"),
        (CURRENT, "ttl = \"15m\"", "ttl = \"15q\"", "x.toml:41: workload.keyspace[0].ttl: expected a duration"),
        (CURRENT, "poolsize = 20", "poolsize = 0", "x.toml:19: client: 0 connections; write a number from 1"),
        (CURRENT, "\"127.0.0.1:11211\",", "7,", "x.toml:16: target.endpoints[0]: expected an address"),
        (OLDER, "length = 4", "lenght = 4", "x.toml:20: keyspace[0].lenght: unknown key; did you mean length?"),
        (OLDER, "\"100000\"", "\"many\"", "x.toml:14: request.ratelimit: expected requests per second"),
        (OLDER, "poolsize = 64", "pool = 64", "x.toml:12: connection.pool: unknown key"),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        let told = told(&changed);
        assert!(told.iter().any(|fault| fault.starts_with(part)), "{part}: {told:#?}");
    }
    let nothing = told("");
    assert!(nothing.iter().any(|fault| fault.contains("general: the section [general] is missing")), "{nothing:?}");
    assert!(nothing.iter().any(|fault| fault.contains("workload: the file describes no requests")), "{nothing:?}");
    assert!(read_file(Path::new("/no/such.toml")).unwrap_err()[0].to_string().starts_with("/no/such.toml:1: "));
}
