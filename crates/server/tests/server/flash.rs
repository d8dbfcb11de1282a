//! Tests of a server with little memory and a flash file of eight times the size: items that do not fit into memory are
//! served from the file, in order, to clients of both protocols.

use crate::common::redis::request;
use crate::common::tiered::{Tiered, bytes_of, key};
use crate::common::{Client, set, value, wait_until};
use command::metrics::hot_keys::HotKeyList;
use std::io::{BufRead, BufReader, Read, Write};

/// Returns the values that the server returns for `get` lines of several keys.
fn read_lines(client: &mut Client, lines: &[Vec<u64>]) -> Vec<Vec<(u64, Vec<u8>)>> {
    let text = |line: &Vec<u64>| {
        let keys: Vec<String> = line.iter().map(|number| key(*number)).collect();
        format!("get {}\r\n", keys.join(" "))
    };
    client.stream.write_all(lines.iter().map(text).collect::<String>().as_bytes()).expect("sends");
    let mut reader = BufReader::new(&client.stream);
    let answers = lines.iter().map(|_| {
        let mut replied = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line");
            if line == "END\r\n" {
                return replied;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!((words[0], words[2]), ("VALUE", "0"), "{line}");
            let mut bytes = vec![0; words[3].parse::<usize>().expect("a length") + 2];
            reader.read_exact(&mut bytes).expect("a value");
            bytes.truncate(bytes.len() - 2);
            replied.push((words[1].strip_prefix("filler:").expect("a key").parse().expect("a number"), bytes));
        }
    });
    answers.collect()
}

const KEYS: u64 = 50_000;

#[test]
fn pipelines_of_memory_and_flash_items_are_served_from_small_memory() {
    let tiered = Tiered::start("mixed");
    tiered.fill(0..KEYS);
    let before = tiered.stats();
    assert!(before.flash_items > KEYS / 2, "most items are in the file: {before:?}");
    let mut random = base::prng::Prng::new(5);
    let mut client = tiered.memcached();
    let (mut hits, mut asked) = (0, 0);
    for _ in 0..150 {
        // Lines of one key and of several, of which some were stored last and are in memory.
        let lines: Vec<Vec<u64>> = (0..20)
            .map(|_| {
                let recent = random.chance(1, 3);
                let from = if recent { KEYS - 1500 } else { 0 };
                (0..1 + random.below(5)).map(|_| from + random.below(KEYS - from)).collect()
            })
            .collect();
        for (line, replied) in lines.iter().zip(read_lines(&mut client, &lines)) {
            asked += line.len();
            hits += replied.len();
            let mut left = line.iter();
            for (number, bytes) in replied {
                assert!(left.any(|asked| *asked == number), "{number} is out of order in {line:?}");
                assert!(bytes == bytes_of(number), "{number} has another value");
            }
        }
    }
    assert!(hits * 10 > asked * 9, "{hits} of {asked} keys are there: {:?}", tiered.stats());

    let mut redis = tiered.resp();
    for _ in 0..150 {
        let numbers: Vec<u64> = (0..40).map(|_| random.below(KEYS)).collect();
        let gets: Vec<u8> = numbers.iter().flat_map(|n| request(&[b"GET", key(*n).as_bytes()])).collect();
        redis.client.send(&gets);
        for number in &numbers {
            let (reply, bytes) = (redis.next(), bytes_of(*number));
            let want = [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat();
            assert!(reply == want || reply == b"$-1\r\n", "{number}: {}", reply[..20].escape_ascii());
        }
    }
    let after = tiered.stats();
    assert!(after.flash_hits > before.flash_hits + 3000, "{after:?}");
    assert_eq!(after.flash_failed, 0);
    let replied = tiered.running.shared().hot_keys(2, 100);
    let missed: u64 = replied.list(HotKeyList::Missed).iter().map(|leader| leader.amount).sum();
    assert!(missed < asked as u64 / 5, "what is in the file is no miss: {missed} of {asked}");
}

#[test]
fn requests_proceed_while_another_request_waits_for_flash() {
    let tiered = Tiered::start("beside");
    tiered.fill(0..KEYS);
    let (mut far, mut near) = (tiered.memcached(), tiered.memcached());
    near.ask(&set("near", b"by"), b"STORED\r\n");
    for number in 0..200 {
        far.send(format!("get {}\r\n", key(number * 7)).as_bytes());
        near.ask(b"get near\r\n", &value("near", b"by"));
        read_answer(&mut far);
    }
    assert!(tiered.stats().flash_hits > 50, "{:?}", tiered.stats());
}

#[test]
fn parked_request_resumes_only_when_its_own_flash_read_completes() {
    let tiered = Tiered::start("many");
    tiered.fill(0..KEYS);
    let parked = || tiered.running.shared().workers[0].counters.parked.value();
    // More than a worker reads at once: the rest waits for room.
    let mut clients: Vec<Client> = (0..200).map(|_| tiered.memcached()).collect();
    let (hits_before, parked_before) = (tiered.stats().flash_hits, parked());
    for round in 0..20 {
        let number = |client: usize| (round * 200 + client as u64) * 7 % (KEYS / 2);
        for (at, client) in clients.iter_mut().enumerate() {
            client.send(format!("get {}\r\n", key(number(at))).as_bytes());
        }
        for (at, client) in clients.iter_mut().enumerate() {
            let replied = read_answer(client);
            let want = value(&key(number(at)), &bytes_of(number(at)));
            assert!(replied == want || replied == b"END\r\n", "{}: {} bytes", number(at), replied.len());
        }
    }
    let (hits, parked) = (tiered.stats().flash_hits - hits_before, parked() - parked_before);
    assert!(hits > 2000, "{:?}", tiered.stats());
    assert!(parked < hits * 3, "{parked} times something was parked for {hits} hits");
}

#[test]
fn disconnects_during_flash_reads_release_their_sessions() {
    let tiered = Tiered::start("gone");
    tiered.fill(0..KEYS);
    for round in 0..50 {
        let mut clients: Vec<Client> = (0..100).map(|_| tiered.memcached()).collect();
        for (at, client) in clients.iter_mut().enumerate() {
            client.send(format!("get {}\r\n", key((round * 100 + at as u64) % (KEYS / 2))).as_bytes());
        }
    }
    wait_until("all are gone", || tiered.running.shared().connections_open() == 0);
}

/// Reads the reply to a `get`, including its end.
fn read_answer(client: &mut Client) -> Vec<u8> {
    let (mut seen, mut part) = (Vec::new(), [0; 4096]);
    while !seen.ends_with(b"END\r\n") {
        let bytes = client.stream.read(&mut part).expect("an answer");
        assert!(bytes > 0, "closed behind {}", seen.escape_ascii());
        seen.extend_from_slice(&part[..bytes]);
    }
    seen
}

#[test]
fn deleted_overwritten_or_flushed_items_do_not_return_from_flash() {
    let tiered = Tiered::start("gone");
    tiered.fill(0..KEYS);
    let mut client = tiered.memcached();
    let numbers = || (0..KEYS).step_by(17);
    for number in numbers() {
        let key = key(number);
        if number % 2 == 0 {
            client.send(format!("delete {key}\r\n").as_bytes());
            let mut reply = [0; 9];
            client.stream.read_exact(&mut reply).expect("a reply");
            if &reply == b"NOT_FOUND" {
                client.expect(b"\r\n");
            }
        } else {
            client.ask(&set(&key, b"new"), b"STORED\r\n");
        }
    }
    // Enough to have the new values go to the file, too.
    tiered.fill(KEYS..KEYS + 15_000);
    let mut new = 0;
    for number in numbers() {
        let replied = read_lines(&mut client, &[vec![number]]).pop().expect("an answer");
        match replied.first() {
            None => {}
            Some((_, bytes)) => {
                assert!(number % 2 == 1 && bytes == b"new", "{number} came back");
                new += 1;
            }
        }
    }
    assert!(new > numbers().count() / 3, "what was overwritten is there: {new}");
    client.ask(b"flush_all\r\n", b"OK\r\n");
    for number in numbers() {
        assert_eq!(read_lines(&mut client, &[vec![number]]), [vec![]], "{number} outlived the flush");
    }
}
