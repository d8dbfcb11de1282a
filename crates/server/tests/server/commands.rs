//! Tests of commands at their limits: replies longer than an output buffer, values in pieces, dumps, statistics,
//! delays.

use crate::common::{Client, config, pattern, set, start, tcp, value, wait_until};
use gannet_server::start::ServerConfig;
use io::listen::ListenAddr;
use std::io::Read;
use std::time::Duration;

/// Reads until the reply ends with `end`.
pub(crate) fn read_until(client: &mut Client, end: &[u8]) -> Vec<u8> {
    let mut reply = Vec::new();
    let mut part = vec![0; 256 << 10];
    while !reply.ends_with(end) {
        let read = client.stream.read(&mut part).expect("an answer in time");
        assert!(read > 0, "closed after {} bytes", reply.len());
        reply.extend_from_slice(&part[..read]);
    }
    reply
}

#[test]
fn retrieval_longer_than_every_buffer_is_complete_and_in_order() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    let mut expected = Vec::new();
    let mut request = b"gets".to_vec();
    for number in 0..700 {
        let key = format!("key{number}");
        let bytes = pattern(number * 7);
        if number % 3 != 0 {
            client.ask(&set(&key, &bytes), b"STORED\r\n");
        }
        request.extend_from_slice(format!("  {key}").as_bytes());
    }
    request.extend_from_slice(b" \r\n");
    client.send(&request);
    let with_tokens = read_until(&mut client, b"\r\nEND\r\n");
    // The same request without CAS tokens, so that the replies can be compared byte by byte.
    client.send(&[b"get".as_slice(), &request[4..]].concat());
    for number in (0..700).filter(|number| number % 3 != 0) {
        let bytes = pattern(number * 7);
        expected.extend_from_slice(format!("VALUE key{number} 0 {}\r\n", bytes.len()).as_bytes());
        expected.extend_from_slice(&bytes);
        expected.extend_from_slice(b"\r\n");
    }
    expected.extend_from_slice(b"END\r\n");
    client.expect(&expected);
    assert!(with_tokens.len() > expected.len(), "tokens take room");
    assert!(expected.len() > 1 << 20, "the reply has to be longer than any buffer");
    running.stop();
}

#[test]
fn a_set_that_was_looked_at_beforehand_stores_its_own_key_however_it_is_spaced() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    let long = "k".repeat(250);
    // A tab and a delete are parts of their words, two spaces part words as one does.
    let keys = ["a", "a\tb", "a", "a\x7f", &long, "b", "c"];
    let mut request = b"set x 0 0 1\r\n.\r\n".to_vec();
    for (number, key) in keys.iter().enumerate() {
        let spaces = " ".repeat(1 + number / 3 % 2);
        request.extend_from_slice(format!("set{spaces}{key}{spaces}0 0 1\r\n{number}\r\n").as_bytes());
    }
    request
        .extend_from_slice(format!("set {long}k 0 0 1\r\n!\r\nadd b 0 0 1\r\n!\r\nset c 0 0 2\r\n66\r\n").as_bytes());
    client.send(&request);
    client.expect(&b"STORED\r\n".repeat(1 + keys.len()));
    client.expect(b"CLIENT_ERROR bad command line format\r\nNOT_STORED\r\nSTORED\r\n");
    for (key, value) in [("x", "."), ("a", "2"), ("a\tb", "1"), ("a\x7f", "3"), (&long, "4"), ("b", "5"), ("c", "66")] {
        let expected = format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len());
        client.ask(format!("get {key}\r\n").as_bytes(), expected.as_bytes());
    }
    running.stop();
}

#[test]
fn many_pipelined_requests_of_all_kinds_are_answered_in_order() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    let (mut request, mut expected) = (Vec::new(), Vec::new());
    for number in 0..2000 {
        let key = format!("k{}", number % 7);
        match number % 5 {
            0 => {
                request.extend_from_slice(&set(&key, format!("{number}").as_bytes()));
                expected.extend_from_slice(b"STORED\r\n");
            }
            1 => {
                request.extend_from_slice(
                    format!("set noise 0 0 1 noreply\r\nx\r\nmg absent{number} q\r\nmn\r\n").as_bytes(),
                );
                expected.extend_from_slice(b"MN\r\n");
            }
            2 => {
                request.extend_from_slice(format!("get absent{number}\r\nfoo\r\n").as_bytes());
                expected.extend_from_slice(b"END\r\nERROR\r\n");
            }
            3 => {
                request.extend_from_slice(format!("ms m{number} 2 F3\r\nok\r\nmg m{number} f v k\r\n").as_bytes());
                expected.extend_from_slice(format!("HD\r\nVA 2 f3 km{number}\r\nok\r\n").as_bytes());
            }
            _ => {
                request.extend_from_slice(format!("set n 0 0 4\r\n{:04}\r\nincr n 1\r\n", number % 1000).as_bytes());
                expected.extend_from_slice(format!("STORED\r\n{}\r\n", number % 1000 + 1).as_bytes());
            }
        }
    }
    let mut sender = client.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || std::io::Write::write_all(&mut sender, &request).unwrap());
    client.expect(&expected);
    sending.join().unwrap();
    running.stop();
}

#[test]
fn large_values_of_lengths_near_piece_boundaries_round_trip() {
    let mut settings = config();
    settings.item_bytes_max = 8 << 20;
    let running = start(settings);
    let mut client = Client::connect(tcp(&running));
    let piece = {
        let mut handle = running.shared().store.handle().expect("a spare lane");
        let guard = handle.guard(base::clock::UnixMillis::now());
        guard.sizes().piece_bytes_max()
    };
    for len in [piece - 1, piece, piece + 1, 2 * piece - 1, 2 * piece, 2 * piece + 1, 5 * piece + 3, 3 << 20] {
        let bytes = pattern(len);
        client.ask(&set("large", &bytes), b"STORED\r\n");
        client.ask(b"get large\r\n", &value("large", &bytes));
        client.ask(b"mg large s k\r\n", format!("HD s{len} klarge\r\n").as_bytes());
    }
    running.stop();
}

#[test]
fn more_large_values_than_can_be_pinned_at_once_are_all_sent() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    let bytes = pattern(400_000);
    client.ask(&set("large", &bytes), b"STORED\r\n");
    client.send(format!("get{}\r\nget large\r\n", " large".repeat(40)).as_bytes());
    let one = value("large", &bytes);
    let item = &one[..one.len() - b"END\r\n".len()];
    (0..40).for_each(|_| client.expect(item));
    client.expect(b"END\r\n");
    client.expect(&one);
    wait_until("all pins are given back", || running.shared().pins.used() == 0);
    running.stop();
}

#[test]
fn large_value_without_its_line_end_is_not_stored_and_the_stream_stays_in_step() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    client.ask(&set("large", b"old"), b"STORED\r\n");
    let mut request = set("large", &pattern(300_000));
    let len = request.len();
    request[len - 2..].copy_from_slice(b"xx");
    client.send(&request);
    client.ask(b"get large\r\n", b"CLIENT_ERROR bad data chunk\r\nVALUE large 0 3\r\nold\r\nEND\r\n");
    running.stop();
}

#[test]
fn oversized_set_is_discarded_and_deletes_the_old_item() {
    let mut settings = config();
    settings.item_bytes_max = 100_000;
    let running = start(settings);
    let mut client = Client::connect(tcp(&running));
    for len in [100_000, 200_000, 5_000_000] {
        client.ask(&set("big", b"old"), b"STORED\r\n");
        let mut request = set("big", &pattern(len));
        request.extend_from_slice(b"get big\r\n");
        client.ask(&request, b"SERVER_ERROR object too large for cache\r\nEND\r\n");
        // A conditional store that fails leaves the present item.
        client.ask(&set("big", b"old"), b"STORED\r\n");
        let mut request = set("big", &pattern(len));
        request.splice(..3, *b"add");
        request.extend_from_slice(b"get big\r\n");
        client.ask(&request, b"SERVER_ERROR object too large for cache\r\nVALUE big 0 3\r\nold\r\nEND\r\n");
    }
    running.stop();
}

#[test]
fn value_without_its_line_end_is_not_stored_wherever_it_was_received() {
    let running = start(ServerConfig { segment_bytes: Some(1 << 20), ..config() });
    let mut client = Client::connect(tcp(&running));
    client.ask(&set("k", b"old"), b"STORED\r\n");
    for len in [15_000, 16_384, 16_385, 16_386, 16_387, 30_000, 100_000, 131_072, 131_073, 200_000] {
        for end in [b"xx", b"\rx", b"x\n"] {
            let mut request = set("k", &pattern(len));
            let at = request.len() - 2;
            request[at..].copy_from_slice(end);
            // The first part alone, so that the rest is received into its place if it is to be.
            client.send(&request[..8000]);
            std::thread::sleep(Duration::from_millis(2));
            client.send(&request[8000..]);
            client.ask(b"get k\r\n", b"CLIENT_ERROR bad data chunk\r\nVALUE k 0 3\r\nold\r\nEND\r\n");
        }
    }
    let shared = running.shared().clone();
    running.stop();
    assert_eq!(shared.pins.used(), 0, "what was reserved was given back");
}

#[test]
fn value_partly_received_before_a_flush_is_stored_after_the_flush() {
    let running = start(ServerConfig { segment_bytes: Some(1 << 20), ..config() });
    let (mut client, mut other) = (Client::connect(tcp(&running)), Client::connect(tcp(&running)));
    for len in [20_000, 100_000, 400_000] {
        let request = set("k", &pattern(len));
        client.send(&request[..12_000]);
        wait_until("a place for it", || running.shared().pins.used() > 0);
        other.ask(b"flush_all\r\n", b"OK\r\n");
        client.ask(&request[12_000..], b"STORED\r\n");
        other.ask(b"get k\r\n", &value("k", &pattern(len)));
    }
    running.stop();
}

#[test]
fn disconnect_during_a_large_set_preserves_the_old_value_and_frees_pieces() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    client.ask(&set("large", b"old"), b"STORED\r\n");
    let items = running.shared().store.stats().items;
    for _ in 0..20 {
        let mut leaver = Client::connect(tcp(&running));
        leaver.send(&set("large", &pattern(900_000))[..700_000]);
        leaver.ask(b"", b"");
    }
    wait_until("they are gone", || running.shared().connections_open() == 1);
    wait_until("their pieces are gone", || running.shared().store.stats().items == items);
    client.ask(b"get large\r\n", &value("large", b"old"));
    running.stop();
}

#[test]
fn append_to_and_of_large_values_joins_them() {
    let mut settings = config();
    settings.item_bytes_max = 4 << 20;
    let running = start(settings);
    let mut client = Client::connect(tcp(&running));
    let (first, second) = (pattern(300_000), vec![b's'; 250_000]);
    client.ask(&set("joined", &first), b"STORED\r\n");
    let mut append = set("joined", &second);
    append.splice(..3, *b"append");
    client.ask(&append, b"STORED\r\n");
    client.ask(b"prepend joined 0 -1 3\r\nabc\r\n", b"STORED\r\n");
    let whole = [b"abc".as_slice(), &first, &second].concat();
    client.ask(b"get joined\r\n", &value("joined", &whole));
    let mut missing = set("missing", &second);
    missing.splice(..3, *b"append");
    missing.extend_from_slice(b"get missing\r\n");
    client.ask(&missing, b"NOT_STORED\r\nEND\r\n");
    running.stop();
}

#[test]
fn right_to_refill_is_not_lost_when_the_answer_has_to_wait_for_room() {
    let mut settings = config();
    // Values of 100 kB are stored whole, and are longer than an output.
    (settings.memory_bytes, settings.segment_bytes) = (256 << 20, Some(1 << 20));
    let running = start(settings);
    let mut client = Client::connect(tcp(&running));
    client.ask(&set("pinned", &pattern(400_000)), b"STORED\r\n");
    let pinned = value("pinned", &pattern(400_000));
    for len in [20_000, 30_000, 100_000, 500_000] {
        let bytes = pattern(len);
        client.ask(&set("page", &bytes), b"STORED\r\n");
        client.ask(b"md page I\r\n", b"HD\r\n");
        // The earlier replies use all pins of one output.
        client.send(&[b"get pinned\r\n".repeat(8), b"mg page v h\r\n".repeat(5)].concat());
        (0..8).for_each(|_| client.expect(&pinned));
        for number in 0..5 {
            let mark = if number == 0 { "h0 X W" } else { "h1 Z X" };
            client.expect(format!("VA {len} {mark}\r\n").as_bytes());
            client.expect(&bytes);
            client.expect(b"\r\n");
        }
    }
    running.stop();
}

#[test]
fn dump_lists_every_item_exactly_once_if_none_changes() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    let mut request = Vec::new();
    for number in 0..20_000 {
        request.extend_from_slice(format!("set dump%{number} {number} 0 1 noreply\r\nx\r\n").as_bytes());
    }
    request.extend_from_slice(b"ms AAE= 1 b\r\nx\r\n");
    client.ask(&request, b"HD\r\n");
    client.send(b"lru_crawler metadump all\r\nmn\r\n");
    let dump = String::from_utf8(read_until(&mut client, b"END\r\nMN\r\n")).unwrap();
    let mut keys: Vec<&str> = dump.lines().filter_map(|line| line.strip_prefix("key=")?.split(' ').next()).collect();
    assert_eq!(keys.len(), 20_001);
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 20_001);
    assert!(keys.contains(&"dump%2519999") && keys.contains(&"%00%01"));
    assert!(dump.contains("key=dump%257 exp=-1 la=") && dump.lines().any(|line| line.ends_with(" flags=19999")));
    client.send(b"lru_crawler mgdump hash\r\n");
    let dump = String::from_utf8(read_until(&mut client, b"\r\nEN\r\n")).unwrap();
    assert_eq!(dump.lines().filter(|line| line.starts_with("mg ")).count(), 20_001);
    assert!(dump.contains("\r\nmg AAE= b\r\n"));
    for (limit, replied) in [(0, 20_001), (777, 777), (1, 1)] {
        client.send(format!("stats cachedump 1 {limit}\r\n").as_bytes());
        let dump = String::from_utf8(read_until(&mut client, b"END\r\n")).unwrap();
        assert_eq!(
            dump.lines().filter(|line| line.starts_with("ITEM ") && line.ends_with(" [1 b; 0 s]")).count(),
            replied
        );
        assert_eq!(dump.lines().count(), replied + 1);
    }
    running.stop();
}

#[test]
fn pipelined_statistics_fill_the_output_many_times_and_stay_whole() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    client.ask(&set("a", b"x"), b"STORED\r\n");
    let topics = ["", " items", " slabs", " settings", " conns", " sizes"];
    let request: String = (0..120).map(|number| format!("stats{}\r\n", topics[number % topics.len()])).collect();
    client.send(format!("{request}mn\r\n").as_bytes());
    let reply = String::from_utf8(read_until(&mut client, b"MN\r\n")).unwrap();
    let tables: Vec<&str> = reply.split("END\r\n").collect();
    assert_eq!(tables.len(), 121);
    for (number, table) in tables[..120].iter().enumerate() {
        assert!(table.lines().all(|line| line.starts_with("STAT ") && line.split(' ').count() >= 3), "{table}");
        assert_eq!(table.lines().count(), tables[number % topics.len()].lines().count(), "table {number}");
    }
    running.stop();
}

/// The statistics that memcstat, memcached_exporter, and the plug-ins of Telegraf and Datadog read.
const READ_BY_TOOLS: &str = "pid uptime time version pointer_size rusage_user rusage_system \
    max_connections curr_connections \
    total_connections rejected_connections connection_structures cmd_get cmd_set cmd_flush cmd_touch \
    get_hits get_misses get_expired get_flushed delete_misses delete_hits incr_misses incr_hits \
    decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large \
    store_no_memory auth_cmds auth_errors bytes_read bytes_written limit_maxbytes accepting_conns \
    listen_disabled_num time_in_listen_disabled_us threads conn_yields hash_power_level hash_bytes \
    hash_is_expanding bytes curr_items total_items expired_unfetched evicted_unfetched evictions \
    reclaimed crawler_reclaimed direct_reclaims slab_reassign_running slabs_moved idle_kicks";

fn stat(client: &mut Client, topic: &str) -> std::collections::HashMap<String, String> {
    client.send(format!("stats{topic}\r\n").as_bytes());
    let reply = String::from_utf8(read_until(client, b"END\r\n")).unwrap();
    let pairs = reply.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn statistics_count_operations_under_the_names_of_memcached() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    client.ask(
        b"set a 0 0 1\r\n1\r\nget a b a\r\ndelete a\r\ndelete a\r\n",
        b"STORED\r\nVALUE a 0 1\r\n1\r\nVALUE a 0 1\r\n1\r\nEND\r\nDELETED\r\nNOT_FOUND\r\n",
    );
    client.ask(
        b"set n 0 0 1\r\n1\r\nincr n 1\r\nincr m 1\r\ndecr n 1\r\ndecr m 1\r\n",
        b"STORED\r\n2\r\nNOT_FOUND\r\n1\r\nNOT_FOUND\r\n",
    );
    client.ask(b"cas n 0 0 1 1\r\nx\r\ncas m 0 0 1 1\r\nx\r\n", b"EXISTS\r\nNOT_FOUND\r\n");
    // The get leaves with the flush: a worker seals the flushed segment between batches, and the background may have
    // drained it, and the key with it, before a get that came later.
    client.ask(
        b"touch n 0\r\ntouch m 0\r\nmg n\r\nmg m\r\nflush_all\r\nget n\r\n",
        b"TOUCHED\r\nNOT_FOUND\r\nHD\r\nEN\r\nOK\r\nEND\r\n",
    );
    let replied = stat(&mut client, "");
    for name in READ_BY_TOOLS.split_whitespace() {
        assert!(replied.contains_key(name), "{name} is not told");
    }
    for (name, value) in [
        ("cmd_get", "6"),
        ("get_hits", "3"),
        ("get_misses", "3"),
        ("get_flushed", "1"),
        ("cmd_set", "4"),
        ("total_items", "2"),
        ("delete_hits", "1"),
        ("delete_misses", "1"),
        ("incr_hits", "1"),
        ("incr_misses", "1"),
        ("decr_hits", "1"),
        ("decr_misses", "1"),
        ("cas_badval", "1"),
        ("cas_misses", "1"),
        ("cas_hits", "0"),
        ("touch_hits", "1"),
        ("touch_misses", "1"),
        ("cmd_touch", "2"),
        ("cmd_flush", "1"),
        ("cmd_meta", "2"),
        ("curr_connections", "1"),
        ("threads", "1"),
    ] {
        assert_eq!(replied[name], value, "{name}");
    }
    client.ask(b"stats reset\r\n", b"RESET\r\n");
    let reset = stat(&mut client, "");
    for name in ["cmd_get", "get_flushed", "get_expired", "expired_unfetched", "evictions", "total_connections"] {
        assert_eq!(reset[name], "0", "{name}");
    }
    // The request for these statistics.
    assert_eq!((reset["bytes_read"].as_str(), reset["bytes_written"].as_str()), ("7", "7"));
    assert_eq!(stat(&mut client, " settings")["item_size_max"], (1 << 20).to_string());
    client.ask(b"set a 0 0 1\r\n1\r\n", b"STORED\r\n");
    let slabs = stat(&mut client, " slabs");
    assert!(slabs["1:used_chunks"].parse::<u64>().unwrap() >= 1 && slabs["active_slabs"] == "1", "{slabs:?}");
    running.stop();
}

#[test]
fn retrievals_that_touch_count_as_touches_only() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    client.ask(
        b"set n 0 0 1\r\n1\r\ngat 0 n z\r\nmg n T0\r\nmg z T0\r\nmg z N0 T0\r\nmg y N0\r\nmg n q v\r\nmg x q\r\nmn\r\n",
        b"STORED\r\nVALUE n 0 1\r\n1\r\nEND\r\nHD\r\nEN\r\nHD W\r\nHD W\r\nVA 1\r\n1\r\nMN\r\n",
    );
    client.send(b"gats 0 n\r\n");
    read_until(&mut client, b"END\r\n");
    let replied = stat(&mut client, "");
    for (name, value) in [
        ("cmd_get", "4"),
        ("get_hits", "2"),
        ("get_misses", "2"),
        ("cmd_touch", "5"),
        ("touch_hits", "4"),
        ("touch_misses", "1"),
    ] {
        assert_eq!(replied[name], value, "{name}");
    }
    running.stop();
}

#[test]
fn delayed_flush_runs_when_due_and_an_immediate_flush_cancels_it() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    client.ask(b"set a 0 0 1\r\nx\r\nflush_all 1\r\nget a\r\n", b"STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    wait_until("the flush", || {
        client.send(b"mg a\r\n");
        matches!(read_until(&mut client, b"\r\n").as_slice(), b"EN\r\n")
    });
    client.ask(b"flush_all 1\r\nflush_all\r\nset a 0 0 1\r\nx\r\n", b"OK\r\nOK\r\nSTORED\r\n");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    client.ask(b"mg a\r\n", b"HD\r\n");
    running.stop();
}

#[test]
fn items_end_by_relative_and_absolute_times() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    let now = base::clock::UnixMillis::now().secs();
    client.ask(b"set past 0 -1 1\r\nx\r\n", b"STORED\r\n");
    client.ask(format!("set later 0 {} 1\r\nx\r\n", now + 5000).as_bytes(), b"STORED\r\n");
    client.ask(format!("set gone 0 {} 1\r\nx\r\n", now - 5000).as_bytes(), b"STORED\r\n");
    client.ask(b"set soon 0 1 1\r\nx\r\nget past gone soon\r\n", &[&b"STORED\r\n"[..], &value("soon", b"x")].concat());
    client.send(b"mg later t\r\n");
    let left = String::from_utf8(read_until(&mut client, b"\r\n")).unwrap();
    let passed = base::clock::UnixMillis::now().secs() - now;
    let secs = left.trim_end().strip_prefix("HD t").and_then(|secs| secs.parse::<u64>().ok()).expect(&left);
    assert!((4999 - passed..=5000).contains(&secs), "{left} after {passed} s");
    wait_until("the end of an item", || {
        client.send(b"mg soon\r\n");
        read_until(&mut client, b"\r\n") == b"EN\r\n"
    });
    running.stop();
}

#[test]
fn binary_protocol_and_overlong_lines_get_an_error_and_a_close() {
    let running = start(config());
    let mut binary = Client::connect(tcp(&running));
    binary.send(b"\x80\x0b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(binary.read_to_end(), b"CLIENT_ERROR the binary protocol is not spoken here\r\n");
    let mut endless = Client::connect(tcp(&running));
    endless.send(&vec![b'x'; 65 << 10]);
    assert_eq!(endless.read_to_end(), b"CLIENT_ERROR line too long\r\n");
    running.stop();
}

#[test]
fn shutdown_stops_the_server_only_where_that_is_allowed() {
    let mut settings = config();
    settings.shutdown_command = true;
    let running = start(settings);
    let mut client = Client::connect(tcp(&running));
    client.ask(b"shutdown now\r\n", b"CLIENT_ERROR invalid shutdown mode\r\n");
    client.send(b"shutdown graceful\r\n");
    client.expect_end();
    wait_until("the stop", || running.shared().threads.stop.is_off());
    running.stop();
}

#[test]
fn stats_items_describe_evicted_and_expired_items() {
    let running = start(ServerConfig { memory_bytes: 8 << 20, ..config() });
    let mut client = Client::connect(tcp(&running));
    let value = "v".repeat(1000);
    for number in 0..20_000 {
        let ttl = if number % 4 == 0 { 0 } else { 3600 };
        client.send(format!("set filler-{number} 0 {ttl} 1000 noreply\r\n{value}\r\n").as_bytes());
    }
    client.ask(
        b"set short 0 1 1\r\nx\r\nset read 0 1 1\r\nx\r\nget read\r\n",
        b"STORED\r\nSTORED\r\nVALUE read 0 1\r\nx\r\nEND\r\n",
    );
    // An expiry is counted when the item is removed. A change that finds an expired item removes it.
    wait_until("they have ended", || {
        client.send(b"get read\r\n");
        read_until(&mut client, b"END\r\n") == b"END\r\n"
    });
    client.ask(&set("short", b"y"), b"STORED\r\n");
    client.ask(&set("read", b"y"), b"STORED\r\n");
    let (items, general) = (stat(&mut client, " items"), stat(&mut client, ""));
    let replied = |name: &str| -> u64 { items[&format!("items:1:{name}")].parse().expect("a number") };
    let (evicted, with_ttl) = (replied("evicted"), replied("evicted_nonzero"));
    assert!(evicted > 5000 && replied("evicted_unfetched") == evicted, "{items:?}");
    assert!((evicted / 2..evicted).contains(&with_ttl), "three in four had a TTL: {items:?}");
    assert!(replied("age") <= 60 && replied("evicted_time") <= 60, "{items:?}");
    assert_eq!((replied("reclaimed"), replied("expired_unfetched")), (2, 1), "{items:?}");
    assert_eq!(general["expired_unfetched"], "1");
    wait_until("the oldest item is a second old", || stat(&mut client, " items")["items:1:age"] != "0");
    running.stop();
}

#[test]
fn memory_limit_changes_under_load_and_retained_items_stay_readable() {
    let running = start(ServerConfig { memory_bytes: 32 << 20, memory_bytes_max: 96 << 20, ..config() });
    let mut client = Client::connect(tcp(&running));
    let value = "v".repeat(1000);
    let mut next = 0;
    let mut fill = |client: &mut Client, count: usize| {
        for _ in 0..count {
            client.send(format!("set filler-{next} 0 0 1000 noreply\r\n{value}\r\n").as_bytes());
            next += 1;
        }
        client.ask(b"mn\r\n", b"MN\r\n");
        next
    };
    let held = |client: &mut Client| -> u64 { stat(client, "")["memory_held_bytes"].parse().expect("a number") };
    fill(&mut client, 40_000);
    let small: u64 = stat(&mut client, "")["curr_items"].parse().expect("a number");
    client.ask(b"cache_memlimit 96\r\n", b"OK\r\n");
    fill(&mut client, 110_000);
    let (large, general) = (stat(&mut client, "")["curr_items"].parse::<u64>(), stat(&mut client, ""));
    assert!(large.expect("a number") > small * 28 / 10, "{small} items at first: {general:?}");
    assert_eq!((&general["limit_maxbytes"][..], &general["memory_bytes_max"][..]), ("100663296", "100663296"));
    client.ask(b"cache_memlimit 32 noreply\r\nmn\r\n", b"MN\r\n");
    let newest = fill(&mut client, 1000) - 1;
    wait_until("the memory is small again", || held(&mut client) <= 32 << 20);
    let left: u64 = stat(&mut client, "")["curr_items"].parse().expect("a number");
    assert!(left * 100 > small * 90, "{small} items fitted at first, {left} are left");
    client.send(format!("get filler-{newest}\r\n").as_bytes());
    assert!(read_until(&mut client, b"END\r\n").starts_with(b"VALUE filler-"), "the newest stays");
    client.ask(b"cache_memlimit 97\r\n", b"MEMLIMIT_ADJUST_FAILED the greatest limit, in MiB, is 96\r\n");
    client.send(b"cache_memlimit 1\r\n");
    let refused = String::from_utf8(read_until(&mut client, b"\r\n")).expect("text");
    let least = refused.strip_prefix("MEMLIMIT_TOO_SMALL the least limit, in MiB, is ").expect(&refused).trim();
    client.ask(format!("cache_memlimit {least}\r\n").as_bytes(), b"OK\r\n");
    assert_eq!(stat(&mut client, " settings")["maxbytes"], (least.parse::<u64>().unwrap() << 20).to_string());
    running.stop();
}

#[test]
fn stats_conns_lists_connections_with_peers_until_they_close() {
    let path = std::env::temp_dir().join(format!("gannet-conns-{}.sock", std::process::id()));
    let unix = ListenAddr::Unix { path: path.clone(), mode: 0o600 };
    let mut config = ServerConfig { workers: 2, ..config() };
    config.memcached.push(unix);
    let running = start(config);
    let (mut first, second) = (Client::connect(tcp(&running)), Client::connect(tcp(&running)));
    let third = std::os::unix::net::UnixStream::connect(&path).expect("the unix socket");
    let mut watcher = Client::connect(tcp(&running));
    watcher.ask(b"watch mutations\r\n", b"OK\r\n");
    let addresses = |client: &mut Client| {
        let replied = stat(client, " conns");
        let mut addresses: Vec<String> = replied
            .iter()
            .filter(|(name, _)| {
                name.ends_with(":addr") && replied[&name.replace(":addr", ":state")] != "conn_listening"
            })
            .map(|(_, address)| address.clone())
            .collect();
        addresses.sort();
        addresses
    };
    let of = |client: &Client| format!("tcp:{}", client.stream.local_addr().expect("an address"));
    let mut expected = vec![of(&first), of(&second), of(&watcher), "unix:".to_owned()];
    expected.sort();
    wait_until("all are told", || addresses(&mut first) == expected);
    wait_until("the watcher is told as one", || stat(&mut first, " conns").values().any(|state| state == "conn_watch"));
    let replied = stat(&mut first, " conns");
    assert_eq!(replied.values().filter(|state| *state == "conn_listening").count(), 2);
    let silent = replied.iter().filter(|(name, _)| name.ends_with(":secs_since_last_cmd"));
    assert!(silent.clone().count() == 4 && silent.clone().all(|(_, secs)| secs.parse::<u64>().is_ok_and(|s| s < 60)));
    drop((second, third, watcher));
    wait_until("who closed is not told", || addresses(&mut first) == [of(&first)]);
    running.stop();
}

#[test]
fn large_value_counts_once_in_every_figure() {
    let running = start(ServerConfig { memory_bytes: 32 << 20, ..config() });
    let mut client = Client::connect(tcp(&running));
    let value = pattern(900 << 10);
    (0..20).for_each(|number| client.ask(&set(&format!("large-{number}"), &value), b"STORED\r\n"));
    let (general, items) = (stat(&mut client, ""), stat(&mut client, " items"));
    assert_eq!(
        (&general["curr_items"][..], &general["total_items"][..], &items["items:1:number"][..]),
        ("20", "20", "20")
    );
    let store = running.shared().store_stats();
    assert!(store.values == 20 && store.items > 1000, "{store:?}");
    assert_eq!(running.shared().store.namespace_stats(segment::Namespace::DEFAULT).values, 20);
    (20..100).for_each(|number| client.ask(&set(&format!("large-{number}"), &value), b"STORED\r\n"));
    let mut last = (0, 0);
    wait_until("each value is stored or was evicted once", || {
        let general = stat(&mut client, "");
        let count = |name: &str| general[name].parse::<u64>().expect("a number");
        last = (count("curr_items"), count("evictions"));
        last.0 + last.1 == 100
    });
    assert!(last.1 > 60, "{last:?}");
    client.ask(b"flush_all\r\n", b"OK\r\n");
    wait_until("the flushed values are removed", || stat(&mut client, "")["curr_items"] == "0");
    let flushed = running.shared().store_stats().flushed;
    assert_eq!(flushed, last.0);
    running.stop();
}

/// A meta get may create an item with an expiry in the past, and set another past expiry in the same request. The item
/// then expires at once.
#[test]
fn a_meta_get_that_makes_an_item_with_a_time_that_is_past_and_ends_it_is_answered() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    for (vivify, touch) in [("-1", "-1"), ("-9223372036854775808", "-1"), ("-1", "-9223372036854775807")] {
        client.ask(format!("mg none v N{vivify} T{touch}\r\n").as_bytes(), b"VA 0 W\r\n\r\n");
        client.ask(b"mg none v\r\n", b"EN\r\n");
    }
    running.stop();
}
