//! The command lines of Aerospike's benchmarks: the Java client's (`-b 10 -o S:10 -latency 5,1`) and asbench's
//! (`-o S10,S10 --latency`), on servers that speak RESP.
//!
//! | Aerospike's benchmark | this generator |
//! |---|---|
//! | record, bin | hash, field |
//! | `I` | every key once, in order: `HSET` of all fields |
//! | `RU,p` | `HGETALL` (for a single bin `HGET`) in p percent of requests, otherwise `HSET` |
//! | `RMU` | `HGETALL`, then `HSET` of the same key |
//! | `RMI`, `RMD` | `HGETALL`, then `HINCRBY` of a separate field, up or down |
//! | `DB` | `HDEL` of all fields |
//! | a thread of the synchronous client | a connection with one request in flight |
//! | `-B n` | n requests sent together |

mod intervals;
mod latency;
mod object;

pub use intervals::Intervals;
pub use latency::{LatencyTable, Tps, printed, tps_line};

use base::units::TimeSpan;

use super::flags::{Flag, Flags, Takes};
use super::{Mapped, Run, address, checked};
use crate::workload::fault::WorkloadFault;
use crate::workload::model::{
    Arrivals, Auth, KeyCommand, KeySpace, Order, Pace, Protocol, Sizes, Target, Verb, Workload,
};

/// The benchmark that a command line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The Java client's benchmark: `-b` is the number of bins, `-o S:10` their contents.
    Java,
    /// asbench: `-b` is the name of a bin, `-o S10` the contents.
    Asbench,
}

/// A command line of an Aerospike benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Aerospike {
    /// The benchmark that the command line belongs to.
    pub form: Form,
    /// The equivalent workload and run.
    pub mapped: Mapped,
    /// The requested table of latencies, if any.
    pub latency: Option<LatencyTable>,
    /// True for `-w I`, which writes every record once.
    pub inserts: bool,
}

const VALUE: Takes = Takes::Value;
const NOTHING: Takes = Takes::Nothing;

const JAVA: [Flag; 35] = [
    (&["-h", "--hosts"], VALUE),
    (&["-p", "--port"], VALUE),
    (&["-U", "--user"], VALUE),
    (&["-P", "--password"], VALUE),
    (&["-n", "--namespace"], VALUE),
    (&["-s", "--set"], VALUE),
    (&["-k", "--keys"], VALUE),
    (&["-S", "--startkey", "-K"], VALUE),
    (&["-l", "--keylength"], VALUE),
    (&["-b", "--bins"], VALUE),
    (&["-o", "--objectSpec"], VALUE),
    (&["-R", "--random"], NOTHING),
    (&["-w", "--workload"], VALUE),
    (&["-z", "--threads"], VALUE),
    (&["-a", "--async"], NOTHING),
    (&["-C", "--asyncMaxCommands"], VALUE),
    (&["-W", "--eventLoops"], VALUE),
    (&["-g", "--throughput"], VALUE),
    (&["-t", "--transactions"], VALUE),
    (&["-T", "--timeout"], VALUE),
    (&["-e", "--expirationTime"], VALUE),
    (&["-B", "--batchSize"], VALUE),
    (&["-latency", "--latency"], VALUE),
    (&["-N", "--reportNotFound"], NOTHING),
    (&["-D", "--debug", "-d"], NOTHING),
    (&["-r", "--replica"], VALUE),
    (&["-Y", "--connPoolsPerNode"], VALUE),
    (&["-maxRetries", "--maxRetries"], VALUE),
    (&["-sleepBetweenRetries", "--sleepBetweenRetries"], VALUE),
    (&["-tls", "--tlsEnable"], NOTHING),
    (&["-te", "--tlsEncryptOnly"], NOTHING),
    (&["-tp", "--tlsProtocols"], VALUE),
    (&["-tlsCiphers", "--tlsCipherSuite"], VALUE),
    (&["-tr", "--tlsRevoke"], VALUE),
    (&["-tlsLoginOnly", "--tlsLoginOnly"], NOTHING),
];

const ASBENCH: [Flag; 50] = [
    (&["-h", "--hosts"], VALUE),
    (&["-p", "--port"], VALUE),
    (&["-U", "--user"], VALUE),
    (&["-P", "--password"], Takes::Attached),
    (&["-n", "--namespace"], VALUE),
    (&["-s", "--set"], VALUE),
    (&["-k", "--keys"], VALUE),
    (&["-S", "-K", "--start-key"], VALUE),
    (&["--bin", "-b"], VALUE),
    (&["-o", "--object-spec"], VALUE),
    (&["--read-bins"], VALUE),
    (&["--write-bins"], VALUE),
    (&["--compression-ratio"], VALUE),
    (&["-R", "--random"], NOTHING),
    (&["-w", "--workload"], VALUE),
    (&["-z", "--threads"], VALUE),
    (&["-a", "--async"], NOTHING),
    (&["-C", "-c", "--async-max-commands"], VALUE),
    (&["-W", "--event-loops"], VALUE),
    (&["-g", "--throughput"], VALUE),
    (&["--duration", "-t"], VALUE),
    (&["-T", "--timeout"], VALUE),
    (&["-e", "--expiration-time"], VALUE),
    (&["-B", "--batch-size", "--batch-read-size"], VALUE),
    (&["-latency", "-L", "--latency"], Takes::Numbers),
    (&["--percentiles"], VALUE),
    (&["--output-file"], VALUE),
    (&["--output-period"], VALUE),
    (&["--hdr-hist"], VALUE),
    (&["-D", "--debug", "-d"], NOTHING),
    (&["-r", "--replica"], VALUE),
    (&["-Y", "--conn-pools-per-node"], VALUE),
    (&["--max-retries"], VALUE),
    (&["--sleep-between-retries"], VALUE),
    (&["--socket-timeout"], VALUE),
    (&["-N", "--read-mode-sc"], VALUE),
    (&["-tls", "--tls-enable"], NOTHING),
    (&["--tls-name"], VALUE),
    (&["--tls-cafile"], VALUE),
    (&["--tls-capath"], VALUE),
    (&["--tls-certfile"], VALUE),
    (&["--tls-keyfile"], VALUE),
    (&["--tls-keyfile-password"], VALUE),
    (&["--tls-protocols"], VALUE),
    (&["--tls-cipher-suite"], VALUE),
    (&["--tls-crl-check"], NOTHING),
    (&["--tls-crl-check-all"], NOTHING),
    (&["--tls-cert-blacklist"], VALUE),
    (&["--tls-log-session-info"], NOTHING),
    (&["--tls-login-only"], NOTHING),
];

/// Flags without an effect here, each with the reason.
const IGNORED: [(&str, &str); 9] = [
    ("-R", "values are always random bytes"),
    ("-N", "misses are always counted separately"),
    ("-D", "the report already contains what a debug log would show"),
    ("-r", "there are no replicas to choose from"),
    ("-Y", "the number of connections equals the number of threads, or of asynchronous commands"),
    ("-maxRetries", "requests are never retried; each is counted with its first outcome"),
    ("--max-retries", "requests are never retried; each is counted with its first outcome"),
    ("-sleepBetweenRetries", "requests are never retried; each is counted with its first outcome"),
    ("--sleep-between-retries", "requests are never retried; each is counted with its first outcome"),
];

/// The flags that set each field of a workload.
const NAMES: [(&str, &str); 10] = [
    ("targets.tls", "-tls"),
    ("targets", "-h"),
    ("auth", "-U and -P"),
    ("connections.batch", "-B"),
    ("connections", "-z"),
    ("pace", "-g"),
    ("keys[0].count", "-k"),
    ("keys[0].key_bytes", "-l"),
    ("keys[0].fields", "-b"),
    ("keys[0].value_bytes", "-o"),
];

/// The port of a RESP server; Aerospike uses 3000.
const RESP_PORT: u64 = 6379;

impl Aerospike {
    /// Parses the arguments of `gannet load aerospike`. Without `form`, the flags decide which benchmark they belong
    /// to. At most `cpus` threads drive the connections.
    ///
    /// # Errors
    /// Every fault, each with its flag and remedy.
    pub fn read(args: &[String], form: Option<Form>, cpus: u32) -> Result<Self, Vec<WorkloadFault>> {
        let form = form.unwrap_or_else(|| form_of(args));
        let table: &[Flag] = if form == Form::Java { &JAVA } else { &ASBENCH };
        let mut flags = Flags::read(args, table);
        let mut notes = Vec::new();
        let mut run = Run { interval: Some(TimeSpan::secs(1)), ..Run::default() };
        let mut workload = whole(&mut flags, form, cpus, &mut notes);
        let space = &mut workload.keys[0];
        records(&mut flags, form, space, &mut notes);
        commands(&mut flags, space, &mut run, &mut notes);
        times(&mut flags, form, &mut run);
        let latency = flags.text("-latency").map(str::to_owned);
        let latency = latency.and_then(|text| match LatencyTable::read(if text.is_empty() { "7,1" } else { &text }) {
            Ok(table) => Some(table),
            Err(remedy) => {
                flags.fault("-latency", format!("'{text}' is not a table of latencies"), remedy);
                None
            }
        });
        for (name, why) in IGNORED {
            if flags.has(name) {
                notes.push(format!("{name} has no effect: {why}"));
            }
        }
        let inserts = flags.text("-w") == Some("I");
        let mapped = checked(Mapped { workload, run, notes }, flags.faults, &NAMES)?;
        Ok(Self { form, mapped, latency, inserts })
    }
}

/// Returns the benchmark that `args` belong to. Long flags of asbench contain dashes, and its object specifications
/// contain no colon.
fn form_of(args: &[String]) -> Form {
    let value_of = |name: &str| args.windows(2).find(|two| two[0] == name).map(|two| two[1].as_str());
    let own = |word: &String| {
        let name = word.split('=').next().unwrap_or(word);
        let is_in = |table: &[Flag]| table.iter().any(|(names, _)| names.contains(&name));
        is_in(&ASBENCH) && !is_in(&JAVA)
    };
    let bin_name = value_of("-b").is_some_and(|bins| bins.parse::<u64>().is_err());
    let bare_length =
        value_of("-o").is_some_and(|spec| !spec.contains(':') && spec.contains(|c: char| c.is_ascii_digit()));
    if args.iter().any(own) || bin_name || bare_length { Form::Asbench } else { Form::Java }
}

/// Reads the servers, connections and pace.
fn whole(flags: &mut Flags, form: Form, cpus: u32, notes: &mut Vec<String>) -> Workload {
    let port = flags.count("-p").unwrap_or(RESP_PORT);
    if !flags.has("-p") {
        notes.push(format!("without -p the port is {RESP_PORT}, the port of RESP servers, not Aerospike's 3000"));
    }
    let hosts = flags.text("-h").unwrap_or("127.0.0.1").to_owned();
    let hosts = hosts.split(',').filter(|host| !host.is_empty());
    let hosts: Vec<(String, Option<&str>)> = hosts.map(tls_name).collect();
    let targets: Vec<Target> =
        hosts.iter().map(|(host, _)| Target { address: address(host, port), weight: 1 }).collect();
    let mut names: Vec<String> = hosts.iter().filter_map(|(_, name)| name.map(str::to_owned)).collect();
    names.dedup();
    if names.len() > 1 {
        flags.fault("-h", "several hosts with TLS names are not supported", "run one benchmark per host");
    }
    let tls = super::tls::of_aerospike(flags, names.pop(), notes);
    let placement = if targets.len() > 1 {
        notes.push("several hosts share the keys by hash slot, in equal ranges in the given order".to_owned());
        crate::workload::model::Placement::Slots
    } else {
        crate::workload::model::Placement::Any
    };
    let threads = flags.small("-z").unwrap_or(16);
    let is_async = flags.has("-a");
    let (commands_max, loops) = (if form == Form::Java { 100 } else { 50 }, 1);
    let commands_max = flags.small("-C").unwrap_or(commands_max);
    let loops = flags.small("-W").unwrap_or(loops);
    let (connections, wanted) = if is_async { (commands_max, loops) } else { (threads, threads) };
    if is_async {
        notes.push("-a: each command in flight uses its own connection".to_owned());
    }
    let batch = flags.small("-B").unwrap_or(1).max(1);
    if batch > 1 {
        notes.push(format!("-B: RESP reads one hash per command, so {batch} requests are sent together"));
    }
    let pace = match flags.number("-g") {
        Some(rate_per_s) if rate_per_s > 0.0 => Pace::Open { rate_per_s, arrivals: Arrivals::Constant },
        _ => Pace::Closed,
    };
    let password = flags.text("-P").map(str::to_owned);
    if password.as_deref() == Some("") {
        flags.fault("-P", "the password is missing", "write it after the flag, as in -Psecret");
    }
    let auth = (flags.has("-U") || password.is_some()).then(|| Auth {
        user: flags.text("-U").unwrap_or_default().to_owned(),
        password: password.unwrap_or_default(),
    });
    Workload {
        name: "aerospike".into(),
        about: "records stored as hashes, from a command line of an Aerospike benchmark".into(),
        protocol: Protocol::Resp,
        targets,
        tls,
        placement,
        auth,
        connections,
        threads: wanted.min(cpus).clamp(1, connections.max(1)),
        depth: batch,
        batch,
        pace,
        keys: vec![KeySpace::default()],
        ..Workload::default()
    }
}

/// Parses `HOST:TLSNAME:PORT` into a host and a TLS name; an IPv6 address is in brackets.
fn tls_name(text: &str) -> (String, Option<&str>) {
    let (host, rest) = match text.find(']') {
        Some(end) => text.split_at(end + 1),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    match rest.strip_prefix(':').and_then(|rest| rest.split_once(':')) {
        Some((name, port)) if port.parse::<u16>().is_ok() && !name.is_empty() && !name.contains(':') => {
            (format!("{host}:{port}"), Some(name))
        }
        _ => (text.to_owned(), None),
    }
}

/// Reads the keys, bins and their contents.
fn records(flags: &mut Flags, form: Form, space: &mut KeySpace, notes: &mut Vec<String>) {
    space.count = flags.count("-k").unwrap_or(if form == Form::Java { 100_000 } else { 1_000_000 });
    if flags.count("-S").is_some_and(|start| start > 1) {
        let remedy = "remove it; to separate several generators, give each its own set with -s";
        flags.fault("-S", "keys always begin at the first key here", remedy);
    }
    if let Some(namespace) = flags.text("-n")
        && namespace != "test"
    {
        notes.push(format!("-n {namespace}: RESP has no namespaces; the server's first database is used"));
    }
    if let Some(set) = flags.text("-s").map(str::to_owned) {
        space.prefix = format!("{set}:");
    }
    // The legacy flag -l sets the length of the whole key. Without the flag, a key has room for any number.
    let least = space.prefix.len() as u64 + 20;
    space.key_bytes = Sizes::Fixed(flags.count("-l").unwrap_or(least));
    let specification = flags.text("-o").unwrap_or(if form == Form::Java { "I" } else { "I4" }).to_owned();
    let object = object::read(&specification).unwrap_or_else(|(what, remedy)| {
        flags.fault("-o", what, remedy);
        object::Object::default()
    });
    let bins = match form {
        Form::Java => flags.count("-b").unwrap_or(1),
        Form::Asbench => object.bins() as u64,
    };
    space.fields = u32::try_from(bins).unwrap_or(u32::MAX);
    space.value_bytes = object.value_bytes(bins);
    space.compressible = object.compressible();
    if let Some(ratio) = flags.number("--compression-ratio") {
        space.compressible = crate::workload::units::Share((1.0 - ratio).max(0.0));
        if !(0.0..=1.0).contains(&ratio) || ratio == 0.0 {
            flags.fault(
                "--compression-ratio",
                format!("{ratio} is out of range"),
                "pass a number above 0 and at most 1",
            );
        }
    }
    if let Some(text) = flags.text("-e").map(str::to_owned) {
        match text.parse::<i64>() {
            Ok(1..) => notes.push("-e has no effect: the fields of a hash do not expire".to_owned()),
            // 0 is the namespace's default and -1 means no expiry; here both mean no expiry.
            Ok(-1 | 0) => {}
            _ => flags.fault("-e", format!("'{text}' is not a time to live"), "write seconds, or -1 for no expiry"),
        }
    }
}

/// Returns the number of bins in a list such as `1,3,5`.
fn some_bins(flags: &mut Flags, name: &str, fields: u32) -> u32 {
    let Some(text) = flags.text(name).map(str::to_owned) else { return 0 };
    let bins: Vec<_> = text.split(',').map(|bin| bin.trim().parse::<u32>().ok()).collect();
    if bins.iter().any(|bin| !bin.is_some_and(|bin| (1..=fields).contains(&bin))) {
        flags.fault(
            name,
            format!("'{text}' is not a list of bins"),
            format!("write numbers from 1 to {fields}, as in 1,2"),
        );
    }
    bins.len() as u32
}

/// Parses the workload of `-w`.
fn commands(flags: &mut Flags, space: &mut KeySpace, run: &mut Run, notes: &mut Vec<String>) {
    const REMEDY: &str = "write I, RU,80, RU,80,50,100 (percentages of reads, and of reads and writes with all bins), \
                          RR,80, RUD,80,10, RMU, RMI, RMD or DB";
    let text = flags.text("-w").unwrap_or("RU,50").to_owned();
    let mut words = text.split(',').map(str::trim);
    let kind = words.next().unwrap_or_default().to_owned();
    let numbers: Vec<Option<f64>> =
        words.map(|word| word.parse::<f64>().ok().filter(|share| (0.0..=100.0).contains(share))).collect();
    if numbers.contains(&None) || numbers.len() > 3 {
        flags.fault("-w", format!("'{text}' is not a workload"), REMEDY);
        return;
    }
    let share = |at: usize, default: f64| numbers.get(at).copied().flatten().unwrap_or(default) / 100.0;
    let (reads, all_read, all_written) = (share(0, 50.0), share(1, 100.0), share(2, 100.0));
    let (read_bins, write_bins) =
        (some_bins(flags, "--read-bins", space.fields), some_bins(flags, "--write-bins", space.fields));
    let read = if read_bins > 0 {
        KeyCommand { fields: read_bins, ..KeyCommand::new(Verb::HashMultiGet) }
    } else {
        KeyCommand::new(Verb::HashGetAll)
    };
    let write = |weight| KeyCommand { fields: write_bins, ..KeyCommand::weighted(Verb::HashSet, weight) };
    let mixed = |reads: f64, writes: f64| {
        vec![
            KeyCommand { weight: reads * all_read, ..read.clone() },
            KeyCommand::weighted(Verb::HashGet, reads * (1.0 - all_read)),
            write(writes * all_written),
            KeyCommand { fields: 1, ..write(writes * (1.0 - all_written)) },
        ]
    };
    let mut verbs = match kind.as_str() {
        "I" if numbers.is_empty() => {
            space.order = Order::Sequential;
            run.requests_max = Some(space.count);
            vec![KeyCommand::new(Verb::HashSet)]
        }
        "RU" | "RUD" if kind == "RU" || numbers.len() == 2 => match kind.as_str() {
            "RU" => mixed(reads, 1.0 - reads),
            // The second number is the percentage of updates; the rest of the writes are deletions.
            _ => {
                let updates = share(1, 0.0).min(1.0 - reads);
                let raw = KeyCommand::weighted(Verb::Raw, 1.0 - reads - updates);
                let deletes = KeyCommand { text: "DEL __key__".into(), ..raw };
                vec![KeyCommand { weight: reads, ..read }, write(updates), deletes]
            }
        },
        "RR" => {
            notes.push("RR: a replace writes all bins; fields that are not in the request remain".to_owned());
            mixed(reads, 1.0 - reads)
        }
        "RMU" => vec![KeyCommand::new(Verb::HashUpdate)],
        "RMI" | "RMD" => {
            notes.push(format!("{kind}: the counter is a separate field, n, because the other fields hold bytes"));
            vec![KeyCommand::new(if kind == "RMI" { Verb::HashIncr } else { Verb::HashDecr })]
        }
        "DB" => vec![KeyCommand::new(Verb::HashDelete)],
        "RUF" | "TXN" => {
            let what = format!("{kind} is not supported: RESP servers do not run Aerospike's functions");
            flags.fault("-w", what, REMEDY);
            return;
        }
        _ => {
            flags.fault("-w", format!("'{text}' is not a workload"), REMEDY);
            return;
        }
    };
    verbs.retain(|command| command.weight > 0.0);
    space.verbs = verbs;
}

/// Reads the length of the run and the paths of its results.
fn times(flags: &mut Flags, form: Form, run: &mut Run) {
    match form {
        Form::Java => {
            if let Some(transactions) = flags.count("-t").filter(|count| *count > 0) {
                run.requests_max = Some(run.requests_max.map_or(transactions, |most| most.min(transactions)));
            }
        }
        Form::Asbench => run.duration = flags.count("--duration").filter(|count| *count > 0).map(TimeSpan::secs),
    }
    run.timeout = flags.count("-T").filter(|ms| *ms > 0).map(TimeSpan::millis);
    run.out = flags.text("--output-file").map(Into::into);
    run.hdr = flags.text("--hdr-hist").map(Into::into);
    if let Some(seconds) = flags.count("--output-period").filter(|count| *count > 0) {
        run.interval = Some(TimeSpan::secs(seconds));
    }
    if let Some(percentiles) = flags.percentiles("--percentiles", "write 50,90,99,99.9") {
        run.percentiles = percentiles;
    }
}

#[cfg(test)]
mod tests;
