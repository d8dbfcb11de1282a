//! memtier_benchmark's most used flags.
//!
//! | memtier_benchmark | this generator |
//! |---|---|
//! | `-t T`, `-c C` | T threads with C connections each |
//! | `--pipeline P` | P requests in flight on each connection |
//! | `--ratio S:G` | `set` and `get` with these weights |
//! | `-n N` | N requests for each connection; `allkeys`: each key once |
//! | `--key-pattern S:G` | `R` uniform, `S` and `P` sequential, `Z` Zipf, `G` Gaussian around the middle |
//! | `--rate-limiting R` | R requests per second for each connection, open loop |
//!
//! memtier measures in a closed loop, so its reported latencies are too low when the server stalls. Without
//! `--rate-limiting` this run is a closed loop too, and a note reports that.

use base::units::TimeSpan;

use super::flags::{Flag, Flags, Takes};
use super::{Mapped, Run, address, checked};
use crate::workload::fault::WorkloadFault;
use crate::workload::model::{
    Arrivals, Auth, KeyCommand, KeySpace, LengthStep, Order, Pace, Placement, Protocol, Sizes, Target, Verb, Workload,
};
use crate::workload::units::Share;

const VALUE: Takes = Takes::Value;
const NOTHING: Takes = Takes::Nothing;

const FLAGS: [Flag; 50] = [
    (&["--server", "-s", "--host", "-h"], VALUE),
    (&["--port", "-p"], VALUE),
    (&["--unix-socket", "-S"], VALUE),
    (&["--protocol", "-P"], VALUE),
    (&["--authenticate", "-a"], VALUE),
    (&["--select-db"], VALUE),
    (&["--requests", "-n"], VALUE),
    (&["--clients", "-c"], VALUE),
    (&["--threads", "-t"], VALUE),
    (&["--test-time"], VALUE),
    (&["--ratio"], VALUE),
    (&["--pipeline"], VALUE),
    (&["--data-size", "-d"], VALUE),
    (&["--data-size-range"], VALUE),
    (&["--data-size-list"], VALUE),
    (&["--data-size-pattern"], VALUE),
    (&["--random-data", "-R"], NOTHING),
    (&["--data-offset"], VALUE),
    (&["--expiry-range"], VALUE),
    (&["--key-prefix"], VALUE),
    (&["--key-minimum"], VALUE),
    (&["--key-maximum"], VALUE),
    (&["--key-pattern"], VALUE),
    (&["--key-stddev"], VALUE),
    (&["--key-median"], VALUE),
    (&["--key-zipf-exp"], VALUE),
    (&["--rate-limiting"], VALUE),
    (&["--reconnect-interval"], VALUE),
    (&["--multi-key-get"], VALUE),
    (&["--run-count", "-x"], VALUE),
    (&["--distinct-client-seed"], NOTHING),
    (&["--randomize"], NOTHING),
    (&["--hide-histogram"], NOTHING),
    (&["--out-file", "-o"], VALUE),
    (&["--json-out-file"], VALUE),
    (&["--hdr-file-prefix"], VALUE),
    (&["--print-percentiles"], VALUE),
    (&["--cluster-mode"], NOTHING),
    (&["--command"], VALUE),
    (&["--command-ratio"], VALUE),
    (&["--command-key-pattern"], VALUE),
    (&["--debug", "-D"], NOTHING),
    (&["--connection-timeout"], VALUE),
    (&["--tls"], NOTHING),
    (&["--cert"], VALUE),
    (&["--key"], VALUE),
    (&["--cacert"], VALUE),
    (&["--tls-skip-verify"], NOTHING),
    (&["--tls-protocols"], VALUE),
    (&["--sni"], VALUE),
];

/// Flags without an effect here, each with the reason.
const IGNORED: [(&str, &str); 6] = [
    ("--random-data", "values are always random bytes"),
    ("--randomize", "every run is determined by its seed"),
    ("--distinct-client-seed", "every thread always has its own seed"),
    ("--hide-histogram", "nothing is printed unless a flag requests it"),
    ("--debug", "the report already contains what a debug log would show"),
    ("--key-median", "the hot keys may be anywhere in the range"),
];

/// Flags without an equivalent, each with the reason and the remedy.
const REFUSED: [(&str, &str, &str); 3] = [
    (
        "--reconnect-interval",
        "connections are not reopened after a number of requests",
        "set the reconnects per second in a workload file",
    ),
    ("--data-offset", "values are always written whole", "remove the flag"),
    ("--command-key-pattern", "all commands share the keys of one pattern", "use --key-pattern only"),
];

/// The flags that set each field of a workload.
const NAMES: [(&str, &str); 16] = [
    ("targets.tls.certificate", "--cert"),
    ("targets.tls.key", "--key"),
    ("targets.tls.server_name", "--sni"),
    ("targets.tls", "--tls"),
    ("targets", "--server and --port"),
    ("auth.database", "--select-db"),
    ("auth", "--authenticate"),
    ("connections.depth", "--pipeline"),
    ("connections.threads", "--threads"),
    ("connections", "--clients"),
    ("pace", "--rate-limiting"),
    ("keys[0].count", "--key-maximum"),
    ("keys[0].prefix", "--key-prefix"),
    ("keys[0].value_bytes", "--data-size"),
    ("keys[0].order", "--key-pattern"),
    ("keys[0].verbs", "--ratio or --command"),
];

/// The exponent of memtier's Zipf pattern when `--key-zipf-exp` is absent.
const ZIPF_EXPONENT: f64 = 1.0;

/// Parses the arguments of `gannet load memtier`.
///
/// # Errors
/// Every fault, each with its flag and remedy.
pub fn read(args: &[String]) -> Result<Mapped, Vec<WorkloadFault>> {
    let mut flags = Flags::read(args, &FLAGS);
    let mut notes = Vec::new();
    let mut run = Run { interval: Some(TimeSpan::secs(1)), ..Run::default() };
    let mut workload = whole(&mut flags, &mut notes);
    let mut space = KeySpace::default();
    keys(&mut flags, &mut space, &mut notes);
    values(&mut flags, &mut space);
    verbs(&mut flags, &mut space, &mut notes);
    requests(&mut flags, &workload, &mut space, &mut run);
    outputs(&mut flags, &mut run);
    workload.keys = vec![space];
    for (name, why) in IGNORED {
        if flags.has(name) {
            notes.push(format!("{name} has no effect: {why}"));
        }
    }
    for (name, what, remedy) in REFUSED {
        if flags.has(name) {
            flags.fault(name, what, remedy);
        }
    }
    checked(Mapped { workload, run, notes }, flags.faults, &NAMES)
}

fn whole(flags: &mut Flags, notes: &mut Vec<String>) -> Workload {
    let protocol = match flags.text("--protocol").unwrap_or("redis").to_owned().as_str() {
        "redis" | "resp2" => Protocol::Resp,
        "resp3" => Protocol::Resp3,
        "memcache_text" => Protocol::Memcache,
        "memcache_binary" => {
            let remedy = "write --protocol=memcache_text";
            flags.fault("--protocol", "memcached's binary protocol is not supported", remedy);
            Protocol::Memcache
        }
        other => {
            let what = format!("unknown protocol '{other}'");
            flags.fault("--protocol", what, "write redis, resp2, resp3 or memcache_text");
            Protocol::Resp
        }
    };
    let port = flags.count("--port").unwrap_or(6379);
    let target = match flags.text("--unix-socket") {
        Some(path) => format!("unix:{path}"),
        None => address(flags.text("--server").unwrap_or("localhost"), port),
    };
    let threads = flags.small("--threads").unwrap_or(4);
    let clients = flags.small("--clients").unwrap_or(50);
    let connections = threads.saturating_mul(clients);
    let pace = match flags.number("--rate-limiting") {
        Some(rate) if rate > 0.0 => {
            notes.push("--rate-limiting: open loop; response times count from the intended instant".to_owned());
            Pace::Open { rate_per_s: rate * f64::from(connections), arrivals: Arrivals::Constant }
        }
        _ => {
            notes.push("closed loop, as in memtier: while the server stalls, fewer requests are sent".to_owned());
            Pace::Closed
        }
    };
    let auth = flags.text("--authenticate").map(|text| match text.split_once(':') {
        Some((user, password)) => Auth { user: user.to_owned(), password: password.to_owned() },
        None => Auth { user: String::new(), password: text.to_owned() },
    });
    let placement = if flags.has("--cluster-mode") { Placement::Slots } else { Placement::Any };
    Workload {
        name: "memtier".into(),
        about: "a command line of memtier_benchmark".into(),
        protocol,
        targets: vec![Target { address: target, weight: 1 }],
        tls: super::tls::of_memtier(flags, notes),
        placement,
        auth,
        database: flags.small("--select-db").unwrap_or(0),
        connections,
        threads,
        depth: flags.small("--pipeline").unwrap_or(1),
        pace,
        ..Workload::default()
    }
}

/// Splits `text` at `mark` and parses both parts with `read`.
fn pair<T>(text: &str, mark: char, read: impl Fn(&str) -> Option<T>) -> Option<(T, T)> {
    let (first, second) = text.split_once(mark)?;
    Some((read(first.trim())?, read(second.trim())?))
}

fn keys(flags: &mut Flags, space: &mut KeySpace, notes: &mut Vec<String>) {
    space.prefix = flags.text("--key-prefix").unwrap_or("memtier-").to_owned();
    let (least, most) = (flags.count("--key-minimum").unwrap_or(0), flags.count("--key-maximum").unwrap_or(10_000_000));
    if least > most {
        flags.fault(
            "--key-minimum",
            format!("the minimum {least} is above the maximum {most}"),
            "set a minimum that is at most the maximum",
        );
    }
    space.count = most.saturating_sub(least).saturating_add(1);
    let digits = u64::from(most.max(1).ilog10()) + 1;
    space.key_bytes = Sizes::Fixed(space.prefix.len() as u64 + digits);
    let text = flags.text("--key-pattern").unwrap_or("R:R").to_owned();
    let letter = |text: &str| if matches!(text, "R" | "S" | "P" | "G" | "Z") { text.chars().next() } else { None };
    let Some((of_set, of_get)) = pair(&text, ':', letter) else {
        flags.fault("--key-pattern", format!("'{text}' is not a key pattern"), "write two of R, S, P, G, Z, as in R:R");
        return;
    };
    if of_set != of_get {
        notes.push(format!("--key-pattern {text}: sets and gets use the same key order, the order of the gets"));
    }
    let exponent = flags.number("--key-zipf-exp").unwrap_or(ZIPF_EXPONENT);
    space.order = match of_get {
        'S' | 'P' => Order::Sequential,
        'Z' => Order::Zipf { exponent },
        'G' => {
            // 68 percent of a normal distribution lie within one standard deviation of the mean.
            let wide = flags.number("--key-stddev").unwrap_or(space.count as f64 / 6.0) * 2.0;
            notes.push("--key-pattern G: 68 percent of the requests use keys within one standard deviation".to_owned());
            Order::Hot { keys: Share((wide / space.count as f64).clamp(0.0, 1.0)), requests: Share(0.6827) }
        }
        _ => Order::Uniform,
    };
}

fn values(flags: &mut Flags, space: &mut KeySpace) {
    let bytes = |text: &str| text.parse::<u64>().ok();
    if let Some(text) = flags.text("--data-size-list").map(str::to_owned) {
        let steps: Option<Vec<LengthStep>> = text
            .split(',')
            .map(|part| {
                pair(part, ':', bytes).map(|(size, weight)| LengthStep { from: size, to: size, weight: weight as f64 })
            })
            .collect();
        match steps {
            Some(steps) => space.value_bytes = Sizes::Steps(steps),
            None => {
                let remedy = "write SIZE:WEIGHT pairs separated by commas, as in 32:50,1024:50";
                flags.fault("--data-size-list", format!("'{text}' is not a list of sizes"), remedy);
            }
        }
    } else if let Some(text) = flags.text("--data-size-range").map(str::to_owned) {
        match pair(&text, '-', bytes) {
            Some((from, to)) => space.value_bytes = Sizes::Range(from, to),
            None => {
                flags.fault("--data-size-range", format!("'{text}' is not a range"), "write MIN-MAX, as in 32-1024")
            }
        }
    } else {
        space.value_bytes = Sizes::Fixed(flags.count("--data-size").unwrap_or(32));
    }
    if let Some(text) = flags.text("--expiry-range").map(str::to_owned) {
        match pair(&text, '-', bytes).filter(|(from, to)| from <= to) {
            // A few times to live within the range represent all of it.
            Some((from, to)) => {
                let mut seconds: Vec<u64> = (0..=8).map(|part| from + (to - from) * part / 8).collect();
                seconds.dedup();
                space.ttl = seconds.into_iter().map(|seconds| (TimeSpan::secs(seconds), 1.0)).collect();
            }
            None => flags.fault("--expiry-range", format!("'{text}' is not a range"), "write MIN-MAX, as in 60-3600"),
        }
    }
}

fn verbs(flags: &mut Flags, space: &mut KeySpace, notes: &mut Vec<String>) {
    if let Some(command) = flags.text("--command").map(str::to_owned) {
        let weight = flags.number("--command-ratio").unwrap_or(1.0);
        space.verbs = vec![KeyCommand { text: command, ..KeyCommand::weighted(Verb::Raw, weight) }];
        if flags.has("--ratio") {
            notes.push("--command: only this command is sent, and --ratio has no effect".to_owned());
        }
        return;
    }
    let text = flags.text("--ratio").unwrap_or("1:10").to_owned();
    let Some((sets, gets)) = pair(&text, ':', |text| text.parse::<u32>().ok()) else {
        flags.fault("--ratio", format!("'{text}' is not a ratio"), "write SETS:GETS, as in 1:10");
        return;
    };
    let keys = flags.small("--multi-key-get").unwrap_or(0).max(1);
    let get = KeyCommand { keys, ..KeyCommand::weighted(Verb::Get, gets.into()) };
    space.verbs = vec![KeyCommand::weighted(Verb::Set, sets.into()), get];
    space.verbs.retain(|command| command.weight > 0.0);
    if space.verbs.is_empty() {
        flags.fault("--ratio", "the ratio sends no requests at all", "write SETS:GETS, as in 1:10");
    }
}

fn requests(flags: &mut Flags, workload: &Workload, space: &mut KeySpace, run: &mut Run) {
    run.rounds = flags.small("--run-count").unwrap_or(1);
    run.connect_timeout = flags.count("--connection-timeout").filter(|secs| *secs > 0).map(TimeSpan::secs);
    run.duration = flags.count("--test-time").filter(|secs| *secs > 0).map(TimeSpan::secs);
    let text = flags.text("--requests").map(str::to_owned);
    run.requests_max = match text.as_deref() {
        Some("allkeys") => {
            space.order = Order::Sequential;
            Some(space.count)
        }
        Some(_) => flags.count("--requests").map(|each| each.saturating_mul(workload.connections.into())),
        None if run.duration.is_some() => None,
        None => Some(10_000u64.saturating_mul(workload.connections.into())),
    };
    if run.duration.is_some() && text.is_some() {
        flags.fault("--requests", "--test-time already ends the run", "pass only one of the two flags");
    }
}

fn outputs(flags: &mut Flags, run: &mut Run) {
    run.out = flags.text("--out-file").map(Into::into);
    run.json = flags.text("--json-out-file").map(Into::into);
    run.hdr = flags.text("--hdr-file-prefix").map(Into::into);
    if let Some(percentiles) = flags.percentiles("--print-percentiles", "write 50,99,99.9") {
        run.percentiles = percentiles;
    }
}

#[cfg(test)]
mod tests {
    use super::super::flags::words;
    use super::*;

    fn mapped(text: &str) -> Mapped {
        read(&words(text)).unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
    }

    #[test]
    fn without_flags_it_is_memtiers_own_default() {
        let Mapped { workload, run, notes } = mapped("");
        assert_eq!((workload.connections, workload.threads, workload.depth), (200, 4, 1));
        assert_eq!(workload.targets[0].address, "localhost:6379");
        let space = &workload.keys[0];
        assert_eq!(space.verbs, [KeyCommand::weighted(Verb::Set, 1.0), KeyCommand::weighted(Verb::Get, 10.0)]);
        assert_eq!((space.prefix.as_str(), space.count, &space.order), ("memtier-", 10_000_001, &Order::Uniform));
        assert_eq!((&space.value_bytes, run.requests_max), (&Sizes::Fixed(32), Some(2_000_000)));
        assert!(notes.iter().any(|note| note.contains("closed loop")));
    }

    #[test]
    fn a_usual_populate_and_a_usual_mix_are_read() {
        let populate = mapped(
            "--protocol=memcache_text -p 11211 --hide-histogram --key-maximum=1000000 -n allkeys -d 256 \
             --key-pattern=P:P --ratio=1:0 --key-prefix=k",
        );
        assert_eq!(populate.workload.protocol, Protocol::Memcache);
        assert_eq!(populate.workload.keys[0].verbs, [KeyCommand::weighted(Verb::Set, 1.0)]);
        assert_eq!(
            (populate.run.requests_max, &populate.workload.keys[0].order),
            (Some(1_000_001), &Order::Sequential)
        );
        let mix = mapped(
            "-s 10.0.0.1 -a me:secret -t 8 -c 25 --pipeline 16 --ratio 1:9 --data-size-list 32:50,1024:50 \
             --key-pattern Z:Z --key-zipf-exp 0.9 --expiry-range 60-3600 --test-time 30 --rate-limiting 100 \
             --multi-key-get 4 -x 3 --json-out-file o.json --hdr-file-prefix h --print-percentiles 50,99.9 -R",
        );
        let (workload, run) = (&mix.workload, &mix.run);
        assert_eq!((workload.connections, workload.depth), (200, 16));
        assert_eq!(workload.auth, Some(Auth { user: "me".into(), password: "secret".into() }));
        assert_eq!(workload.pace, Pace::Open { rate_per_s: 20_000.0, arrivals: Arrivals::Constant });
        let space = &workload.keys[0];
        assert_eq!((&space.order, space.verbs[1].keys), (&Order::Zipf { exponent: 0.9 }, 4));
        let step = |bytes| LengthStep { from: bytes, to: bytes, weight: 50.0 };
        assert_eq!((&space.value_bytes, space.ttl.len()), (&Sizes::Steps(vec![step(32), step(1024)]), 9));
        assert_eq!((run.rounds, run.duration, run.requests_max), (3, Some(TimeSpan::secs(30)), None));
        assert_eq!((run.percentiles.len(), run.json.is_some(), run.hdr.is_some()), (2, true, true));
    }

    #[test]
    fn patterns_ranges_and_commands_are_read() {
        let order = |text: &str| mapped(&format!("--key-maximum 599 {text}")).workload.keys[0].order.clone();
        assert_eq!(order("--key-pattern S:S"), Order::Sequential);
        assert_eq!(order("--key-pattern Z:Z"), Order::Zipf { exponent: 1.0 });
        assert_eq!(order("--key-pattern G:G"), Order::Hot { keys: Share(1.0 / 3.0), requests: Share(0.6827) });
        assert!(mapped("--key-pattern S:R").notes.iter().any(|note| note.contains("use the same key order")));
        assert_eq!(mapped("--data-size-range 1-9").workload.keys[0].value_bytes, Sizes::Range(1, 9));
        let raw: Vec<String> = ["--command", "HGET __key__ f"].map(str::to_owned).to_vec();
        let raw = read(&raw).unwrap();
        assert_eq!(
            (raw.workload.keys[0].verbs[0].verb, raw.workload.keys[0].verbs[0].text.as_str()),
            (Verb::Raw, "HGET __key__ f")
        );
        assert_eq!(mapped("-S /run/r.sock").workload.targets[0].address, "unix:/run/r.sock");
    }

    #[test]
    fn unsupported_or_invalid_flag_is_rejected_with_remedy() {
        for (text, part) in [
            ("-P memcache_binary", "--protocol: memcached's binary protocol is not supported; write"),
            ("-P http", "--protocol: unknown protocol 'http'"),
            ("--ratio 1", "--ratio: '1' is not a ratio; write SETS:GETS"),
            ("--ratio 0:0", "--ratio: the ratio sends no requests at all"),
            ("--key-pattern X:R", "--key-pattern: 'X:R' is not a key pattern"),
            ("--key-minimum 5 --key-maximum 4", "--key-minimum: the minimum 5 is above the maximum 4"),
            ("--data-size-list 3", "--data-size-list: '3' is not a list of sizes"),
            ("--data-size-range 3", "--data-size-range: '3' is not a range"),
            ("--expiry-range 9-3", "--expiry-range: '9-3' is not a range"),
            ("--test-time 5 -n 5", "--requests: --test-time already ends the run"),
            ("--reconnect-interval 5", "--reconnect-interval: connections are not reopened"),
            ("--print-percentiles x", "--print-percentiles: 'x' is not a list of percentiles"),
            ("--pipeline 0", "--pipeline: 0 requests in flight"),
            ("-d 9999999999", "--data-size: a length of 9999999999 bytes is too long"),
            ("--pipelin 4", "--pipelin: unknown flag; did you mean --pipeline?"),
        ] {
            let faults = read(&words(text)).unwrap_err();
            let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
            assert!(told.iter().any(|fault| fault.starts_with(part)), "{text}: {told:?}");
        }
    }
}
