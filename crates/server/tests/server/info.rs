//! Tests of `INFO` and of the statistics by command, compared with Debian's Redis.

use crate::common::redis::{Redis, Replies, both, request, resp, resp_addr};
use crate::common::{start, wait_until};
use gannet_server::start::ServerConfig;
use std::collections::{BTreeMap, BTreeSet};

/// The fields of Redis 7.0 that the server does not report, with the reason.
const MISSING: [(&str, &[&str]); 1] =
    [("expired items leave with their segment, and are not sampled", &["expired_stale_perc"])];

/// Returns the reply to an `INFO` with these words.
fn info(client: &mut Replies, words: &[&str]) -> String {
    let words: Vec<&[u8]> = ["INFO"].iter().chain(words).map(|word| word.as_bytes()).collect();
    let reply = String::from_utf8(client.ask(&words)).unwrap();
    reply.split_once("\r\n").expect("a header").1.strip_suffix("\r\n").expect("an end").to_owned()
}

/// Returns the titles of the sections of a text, in order.
fn titles(text: &str) -> Vec<String> {
    text.split("\r\n").filter_map(|line| line.strip_prefix("# ")).map(str::to_owned).collect()
}

/// Returns the fields of a text, with their values.
fn fields(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split("\r\n").filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn info_has_every_field_of_redis_and_selects_sections_as_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let [our_fields, their_fields] = [&mut ours, &mut theirs].map(|client| fields(&info(client, &["everything"])));
    let missing: BTreeSet<&str> = MISSING.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    for name in their_fields.keys().filter(|name| !missing.contains(&name[..])) {
        assert!(our_fields.contains_key(name), "INFO lacks {name}");
    }
    for name in missing {
        assert!(their_fields.contains_key(name) && !our_fields.contains_key(name), "{name} is not missing");
    }
    let requests: [&[&str]; 12] = [
        &[],
        &["default"],
        &["all"],
        &["everything"],
        &["CPU"],
        &["memory", "Keyspace", "server"],
        &["nosuch"],
        &["commandstats", "nosuch", "errorstats"],
        &["default", "latencystats"],
        &["modules"],
        &["module_list"],
        &["cluster", "cluster"],
    ];
    for words in requests {
        let [our_text, their_text] = [&mut ours, &mut theirs].map(|client| info(client, words));
        let mut of_ours = titles(&our_text);
        of_ours.retain(|title| title != "Namespaces");
        assert_eq!(of_ours, titles(&their_text), "{words:?}");
        assert_eq!(our_text.starts_with("# "), their_text.starts_with("# "), "{words:?}");
    }
    running.stop();
}

/// Returns the names and the values of a map that a RESP2 client receives, in order.
fn pairs(client: &mut Replies, words: &[&[u8]]) -> Vec<(String, String)> {
    let reply = String::from_utf8(client.ask(words)).unwrap();
    let mut lines = reply.split("\r\n").skip(1).filter(|line| !line.starts_with('$'));
    let mut pairs = Vec::new();
    while let (Some(name), Some(value)) = (lines.next(), lines.next()) {
        pairs.push((name.to_owned(), value.to_owned()));
    }
    pairs
}

#[test]
fn memory_stats_has_every_field_of_redis_in_its_order() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    for client in [&mut ours, &mut theirs] {
        assert_eq!(client.ask(&[b"SET", b"key", &[b'v'; 5000]]), b"+OK\r\n");
    }
    let [ours, theirs] = [&mut ours, &mut theirs].map(|client| pairs(client, &[b"MEMORY", b"STATS"]));
    let names = |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let mut of_redis = names(&ours);
    of_redis.retain(|name| !["pubsub.bytes", "maxmemory"].contains(&&name[..]));
    assert_eq!(of_redis, names(&theirs));
    let value = |name: &str| {
        let (_, value) = ours.iter().find(|(field, _)| field == name).unwrap_or_else(|| panic!("{name}: {ours:?}"));
        value.trim_start_matches(':').parse::<f64>().unwrap_or_else(|_| panic!("{name}: {value}"))
    };
    assert_eq!((value("keys.count"), value("overhead.hashtable.main")), (1.0, 8.0));
    assert!(value("dataset.bytes") > 5000.0 && value("maxmemory") == 64.0 * 1024.0 * 1024.0, "{ours:?}");
    assert_eq!(value("overhead.total") + value("dataset.bytes"), value("total.allocated"));
    assert!(value("peak.allocated") >= value("total.allocated") && value("peak.percentage") <= 100.0);
    let share = value("dataset.bytes") * 100.0 / value("total.allocated");
    assert!((value("dataset.percentage") - share).abs() < 0.01, "{ours:?}");
    let resident = value("allocator.resident");
    assert_eq!(value("fragmentation.bytes"), resident - value("total.allocated"));
    running.stop();
}

#[test]
fn info_counts_reads_writes_and_the_buffers_of_clients() {
    let running = start(both());
    let (mut client, mut slow) = (resp(&running), resp(&running));
    let number = |client: &mut Replies, name: &str| {
        fields(&info(client, &["clients", "stats"]))[name].parse::<u64>().unwrap_or_else(|_| panic!("{name}"))
    };
    let before = ["total_reads_processed", "total_writes_processed"].map(|name| number(&mut client, name));
    for _ in 0..10 {
        assert_eq!(client.ask(&[b"PING"]), b"+PONG\r\n");
    }
    let after = ["total_reads_processed", "total_writes_processed"].map(|name| number(&mut client, name));
    // Ten requests, and at least one `INFO`.
    assert!((11..20).contains(&(after[0] - before[0])) && (11..20).contains(&(after[1] - before[1])), "{after:?}");
    // A request that is not complete waits in the buffer of its connection.
    slow.client.send(b"*2\r\n$3\r\nGET\r\n$900\r\n");
    slow.client.send(&[b'k'; 700]);
    wait_until("the sweep sees the buffer", || number(&mut client, "client_recent_max_input_buffer") >= 700);
    assert!(number(&mut client, "client_recent_max_input_buffer") < 100_000);
    assert_eq!(client.ask(&[b"CONFIG", b"RESETSTAT"]), b"+OK\r\n");
    assert!(number(&mut client, "total_reads_processed") < 3 && number(&mut client, "evicted_keys") == 0);
    running.stop();
}

/// A dashboard divides `used_memory` by `maxmemory`. The store reserves its whole memory at the start, which must not
/// count as used.
#[test]
fn used_memory_is_near_zero_while_empty_and_near_maxmemory_while_evicting() {
    for mib in [64u64, 256] {
        let running = start(ServerConfig { memory_bytes: mib << 20, ..both() });
        let mut client = resp(&running);
        let read = |client: &mut Replies| {
            let fields = fields(&info(client, &["memory", "stats"]));
            let number = |name: &str| fields[name].parse::<u64>().unwrap_or_else(|_| panic!("{name}: {fields:?}"));
            let (used, max, dataset) = (number("used_memory"), number("maxmemory"), number("used_memory_dataset"));
            let (peak, overhead) = (number("used_memory_peak"), number("used_memory_overhead"));
            assert!(used <= peak && dataset + overhead == used, "{fields:?}");
            for name in ["used_memory_peak_perc", "used_memory_dataset_perc"] {
                let percent: f64 = fields[name].trim_end_matches('%').parse().unwrap();
                assert!((0.0..=100.0).contains(&percent), "{name}: {fields:?}");
            }
            (used as f64 / max as f64, peak, number("evicted_keys"))
        };
        let (empty, ..) = read(&mut client);
        assert!(empty < 0.05, "{mib} MiB: {empty}");
        let value = vec![b'v'; 10_000];
        let mut number = 0u64;
        let mut store = |client: &mut Replies, mib: u64| {
            for _ in 0..mib {
                for _ in 0..100 {
                    number += 1;
                    client.client.send(&request(&[b"SET", format!("key{number}").as_bytes(), &value]));
                }
                (0..100).for_each(|_| assert_eq!(client.next(), b"+OK\r\n"));
            }
        };
        store(&mut client, mib / 2);
        let (half, ..) = read(&mut client);
        assert!((0.45..0.7).contains(&half), "{mib} MiB: {half}");
        store(&mut client, mib * 3 / 2);
        let mut full = (0.0, 0, 0);
        wait_until("the survey sees a full store", || {
            full = read(&mut client);
            full.0 > 0.85 && full.2 > 0
        });
        assert!(full.0 <= 1.0, "{mib} MiB: {full:?}");
        assert_eq!(client.ask(&[b"FLUSHALL"]), b"+OK\r\n");
        wait_until("the memory is free again", || read(&mut client).0 < 0.1);
        assert!(read(&mut client).1 as f64 > 0.8 * (mib << 20) as f64, "the peak remains");
        running.stop();
    }
}

#[test]
fn info_reports_the_memory_cpu_and_rates_of_the_process() {
    let running = start(both());
    let mut client = resp(&running);
    let value = [b'v'; 1000];
    let begun = std::time::Instant::now();
    loop {
        client.client.send(&request(&[b"SET", b"key", &value]).repeat(100));
        (0..100).for_each(|_| assert_eq!(client.next(), b"+OK\r\n"));
        let fields = fields(&info(&mut client, &[]));
        let number = |name: &str| fields[name].parse::<f64>().unwrap_or_else(|_| panic!("{name}: {}", fields[name]));
        let cpu = number("used_cpu_sys") + number("used_cpu_user");
        if number("instantaneous_ops_per_sec") > 300.0 && cpu > 0.0 {
            let (used, rss) = (number("used_memory"), number("used_memory_rss"));
            assert!(used > 0.0 && number("used_memory_peak") >= used && rss > 1e6, "{fields:?}");
            assert!((number("mem_fragmentation_ratio") - rss / used).abs() < 0.02, "{fields:?}");
            assert!(number("instantaneous_input_kbps") > 100.0 && number("instantaneous_output_kbps") > 0.4);
            assert!(number("total_net_input_bytes") > 100_000.0 && number("total_net_output_bytes") > 500.0);
            assert!(number("total_system_memory") > rss && fields["maxmemory_human"] == "64.00M", "{fields:?}");
            break;
        }
        assert!(begun.elapsed() < crate::common::PATIENCE, "{fields:?}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running.stop();
}

/// Sends requests whose replies are compared only by their first byte: commands of all kinds that succeed, fail or are
/// refused, alone and in transactions.
fn traffic(client: &mut Replies) -> String {
    let long = vec![b'x'; 300_000];
    let lines = [
        "SET k v",
        "GET k",
        "GET none",
        "SET k v EX 100",
        "get k",
        "GET",
        "LPUSHX",
        "INCR k",
        "HSET k f v",
        "HSET h f v",
        "GET h",
        "MGET k none h",
        "MGET",
        "SET k",
        "SET k v NONSENSE",
        "NOSUCHCOMMAND a b",
        "CONFIG GET maxclients",
        "CONFIG SET nosuch 1",
        "OBJECT ENCODING k",
        "CLIENT ID",
        "CLIENT SETNAME a",
        "MULTI",
        "SET t 1",
        "INCR t",
        "HGET t f",
        "EXEC",
        "EXEC",
        "MULTI",
        "GET",
        "EXEC",
        "MULTI",
        "DISCARD",
        "DEL k t h none",
        "PING",
        "AUTH wrong",
        "MSET a 1 b 2",
        "MSETNX a 1 c 3",
        "RENAME none other",
        "COMMAND COUNT",
        "MEMORY USAGE a",
        "DEL s",
        "XADD s * f v",
        "XGROUP CREATECONSUMER s g c",
        "XGROUP CREATE s g $",
        "XGROUP CREATE s g $",
        "EVALSHA x 0",
        "HELLO 9",
        "RESTORE s 0 x",
        "EVAL return{err=ARGV[1]..string.char(32)..ARGV[1]} 0 OWN",
    ];
    let mut heads = String::new();
    for line in lines {
        heads.push(client.shown(line).chars().next().unwrap_or(' '));
    }
    heads.push(char::from(client.ask(&[b"SET", b"long", &long])[0]));
    heads.push(char::from(client.ask(&[b"SETRANGE", b"long", b"-1", &long])[0]));
    // Requests without answers in one packet.
    client.client.send(&request(&[b"INCR", b"n"]).repeat(50));
    (0..50).for_each(|_| heads.push(char::from(client.next()[0])));
    heads
}

/// Returns the counts of each command: calls, rejected and failed calls, without commands that only this test sends.
fn counts(text: &str) -> BTreeMap<String, [u64; 3]> {
    let mut all = BTreeMap::new();
    for (name, value) in fields(text) {
        let Some(name) = name.strip_prefix("cmdstat_") else { continue };
        let part = |wanted: &str| -> u64 {
            let found = value.split(',').find_map(|pair| pair.strip_prefix(wanted)?.strip_prefix('='));
            found.unwrap_or_else(|| panic!("{wanted} in {value}")).parse().unwrap()
        };
        let per_call: f64 = value.split("usec_per_call=").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
        assert!(per_call >= 0.0 && part("usec") < 10_000_000, "{name}: {value}");
        if name != "info" {
            all.insert(name.to_owned(), ["calls", "rejected_calls", "failed_calls"].map(part));
        }
    }
    all
}

#[test]
fn command_and_error_statistics_count_as_redis_and_reset_as_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    for round in 0..2 {
        let [our_heads, their_heads] = [&mut ours, &mut theirs].map(traffic);
        assert_eq!(our_heads, their_heads);
        let [our_text, their_text] = [&mut ours, &mut theirs].map(|client| info(client, &["everything"]));
        let (our_counts, their_counts) = (counts(&our_text), counts(&their_text));
        let names: BTreeSet<&String> = our_counts.keys().chain(their_counts.keys()).collect();
        for name in names {
            // The only command of `traffic` that the server lacks.
            if name != "lpushx" {
                assert_eq!(our_counts.get(name), their_counts.get(name), "round {round}: {name}");
            }
        }
        let (our_fields, their_fields) = (fields(&our_text), fields(&their_text));
        let errors = |fields: &BTreeMap<String, String>| -> Vec<(String, String)> {
            let of_errors = fields.iter().filter(|(name, _)| name.starts_with("errorstat_"));
            of_errors.map(|(name, count)| (name.clone(), count.clone())).collect()
        };
        assert_eq!(errors(&our_fields), errors(&their_fields), "round {round}");
        assert!(our_fields.contains_key("errorstat_OWN") && our_fields.contains_key("errorstat_NOGROUP"));
        assert_eq!(our_fields["total_error_replies"], their_fields["total_error_replies"], "round {round}");
        let latencies = |fields: &BTreeMap<String, String>| -> Vec<String> {
            fields.keys().filter_map(|name| name.strip_prefix("latency_percentiles_usec_")).map(str::to_owned).collect()
        };
        assert_eq!(latencies(&our_fields), latencies(&their_fields));
        assert!(our_fields["latency_percentiles_usec_set"].starts_with("p50="));
        assert_eq!(our_fields["latency_percentiles_usec_set"].matches(',').count(), 2);
        for client in [&mut ours, &mut theirs] {
            assert_eq!(client.text("CONFIG RESETSTAT"), "+OK");
        }
    }
    let [ours, theirs] = [&mut ours, &mut theirs].map(|client| fields(&info(client, &["everything"])));
    for name in ["total_commands_processed", "total_error_replies", "total_connections_received", "keyspace_hits"] {
        assert_eq!(ours[name], theirs[name], "{name}");
    }
    assert_eq!((ours.get("cmdstat_set"), theirs.get("cmdstat_set")), (None, None));
    running.stop();
}

#[test]
fn an_unblocked_wait_counts_as_an_error_as_in_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let [ours, theirs] = [resp_addr(&running), redis.addr].map(|addr| {
        let [mut waiting, mut control] = [(); 2].map(|()| Replies::connect(addr));
        let id = waiting.text("CLIENT ID");
        assert_eq!(control.text("CONFIG RESETSTAT"), "+OK");
        waiting.client.send(&request(&[b"BLPOP", b"none", b"0"]));
        wait_until("the client waits", || info(&mut control, &["clients"]).contains("\r\nblocked_clients:1\r\n"));
        assert_eq!(control.text(&format!("CLIENT UNBLOCK {} ERROR", &id[1..])), ":1");
        assert!(waiting.next().starts_with(b"-UNBLOCKED "));
        let text = info(&mut control, &["everything"]);
        let (fields, counts) = (fields(&text), counts(&text));
        let errors = ["errorstat_UNBLOCKED", "total_error_replies"].map(|name| fields.get(name).cloned());
        (errors, counts.get("blpop").copied())
    });
    assert_eq!(ours, theirs);
    running.stop();
}

/// Returns the commands in a reply to `LATENCY HISTOGRAM` with their calls, after a check of its buckets.
fn histograms(client: &mut Replies, line: &str) -> BTreeMap<String, String> {
    let text = client.shown(line);
    let words: Vec<&str> = text.split(' ').filter(|word| !word.starts_with(['*', '$', '%'])).collect();
    let (mut found, mut at) = (BTreeMap::new(), 0);
    while at < words.len() {
        assert_eq!((words[at + 1], words[at + 3]), ("calls", "histogram_usec"), "{text}");
        found.insert(words[at].to_owned(), words[at + 2].to_owned());
        let buckets = words[at + 4..].iter().take_while(|word| word.starts_with(':'));
        let numbers: Vec<u64> = buckets.map(|word| word[1..].parse().unwrap()).collect();
        let limits: Vec<u64> = numbers.iter().step_by(2).copied().collect();
        let known = |limit: &u64| (0..38).any(|log2| ((1024u64 << log2) + (8 << log2) - 1) / 1000 == *limit);
        assert!(limits.is_sorted() && limits.iter().all(known), "{text}");
        assert_eq!(numbers.last().map(u64::to_string).as_deref(), Some(&words[at + 2][1..]), "{text}");
        at += 4 + numbers.len();
    }
    found
}

#[test]
fn latency_histogram_is_by_command_as_in_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    for line in [
        "SET k v",
        "SET k v EX 5",
        "GET k",
        "MGET k k",
        "CONFIG GET maxclients",
        "CLIENT ID",
        "CLIENT GETNAME",
        "HSET k f v",
        "GET",
    ] {
        for client in [&mut ours, &mut theirs] {
            client.text(line);
        }
    }
    for line in [
        "LATENCY HISTOGRAM",
        "LATENCY HISTOGRAM set get",
        "LATENCY HISTOGRAM nosuch",
        "LATENCY HISTOGRAM config client",
        "LATENCY HISTOGRAM config|get set nosuch",
        "LATENCY HISTOGRAM hset",
        "LATENCY HISTOGRAM mget mget",
    ] {
        assert_eq!(histograms(&mut ours, line), histograms(&mut theirs, line), "{line}");
    }
    running.stop();
}

#[test]
fn keyspace_counts_the_keys_that_expire_as_in_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let keyspace = |client: &mut Replies| {
        let text = info(client, &["keyspace"]);
        let spaces = text.lines().filter_map(|line| line.strip_prefix("db")?.split_once(",avg_ttl"));
        spaces.map(|(counts, _)| counts.to_owned()).collect::<Vec<String>>()
    };
    for lines in [
        &[
            "SET a 1",
            "SET b 1 EX 100",
            "SETEX c 100000 v",
            "HSET h f v",
            "EXPIRE h 50",
            "SELECT 3",
            "SET a 1 EX 9",
            "SELECT 0",
        ][..],
        &["PERSIST b", "EXPIRE a 1000", "DEL c", "SET h v", "EXPIRE a 2000", "COPY a d"],
        &["FLUSHDB", "SET z 1 PX 100000"],
    ] {
        for line in lines {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            assert_eq!(ours.ask(&words), theirs.ask(&words), "{line}");
        }
        let (mut last, wanted) = (Vec::new(), keyspace(&mut theirs));
        wait_until(&format!("{wanted:?} after {lines:?}"), || {
            last = keyspace(&mut ours);
            last == wanted
        });
    }
    running.stop();
}
