//! Tests that parsed requests and replies do not depend on how the stream was cut into pieces, and that each side reads
//! back what the other side writes.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod resp_walk;

use base::prng::Prng;
use gannet_protocol::resp::client::{ParsedValue, Value, command, value};
use gannet_protocol::resp::{Version, reply};
use resp_walk::{assert_cut, replies, requests};

fn seed(test: &str) -> u64 {
    let seed = std::env::var("GANNET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("repeat: GANNET_SEED={seed} cargo test -p gannet-protocol --test resp_stream {test}");
    seed
}

#[test]
fn resp_stream_split_at_any_byte_parses_identically() {
    let (mut cuts, mut events) = (0, 0);
    for file in corpus::bytes("resp") {
        events += requests(&file, &[]).len() + replies(&file, &[]).len();
        for cut in 0..=file.len() {
            assert_cut(&file, &[cut]);
            cuts += 1;
        }
        assert_cut(&file, &(1..file.len()).collect::<Vec<_>>());
    }
    assert!(cuts > 1500 && events > 150, "{cuts} cuts and {events} events are too few to prove anything");
}

#[test]
fn damaged_streams_cut_at_random_bytes_are_the_same_streams() {
    let mut prng = Prng::new(seed("damaged"));
    let seeds = corpus::bytes("resp");
    let mut garbage = 0;
    for _ in 0..5000 {
        let mut stream = Vec::new();
        for _ in 0..1 + prng.below(3) {
            stream.extend_from_slice(&seeds[prng.below(seeds.len() as u64) as usize]);
        }
        corpus::damage(&mut prng, 2, &mut stream);
        let mut cuts: Vec<usize> = (0..prng.below(8)).map(|_| prng.below(stream.len() as u64 + 1) as usize).collect();
        cuts.sort_unstable();
        assert_cut(&stream, &cuts);
        garbage += u32::from(replies(&stream, &[]).last().is_some_and(|event| event.starts_with("garbage")));
    }
    assert!(garbage > 500, "{garbage} damaged streams are too few to prove anything");
}

#[test]
fn any_request_of_the_client_side_is_read_back_by_the_server_side() {
    let mut prng = Prng::new(seed("any_request"));
    let mut long = 0;
    for _ in 0..3000 {
        let mut args: Vec<Vec<u8>> = Vec::new();
        for _ in 0..1 + prng.below(5) {
            let max = if prng.chance(1, 8) { 600 } else { 20 };
            let mut arg = vec![0; prng.below(max) as usize];
            prng.fill(&mut arg);
            args.push(arg);
        }
        let mut bytes = Vec::new();
        command(&mut bytes, args.iter().map(Vec::as_slice));
        let shown: Vec<String> = args.iter().map(|arg| arg.escape_ascii().to_string()).collect();
        let behind = args.iter().skip(1).position(|arg| arg.len() >= 256).map(|at| at + 1);
        let expected = match behind {
            None => vec![format!("{shown:?}")],
            Some(at) => {
                long += 1;
                let value = |arg: &Vec<u8>| format!("long {}", [arg, b"\r\n".as_slice()].concat().escape_ascii());
                let one = |arg: &Vec<u8>| format!("one {}", arg.escape_ascii());
                let head = format!("{:?}, {} and {}", &shown[..at], args[at].len(), args.len() - at - 1);
                let rest = args[at + 1..].iter().map(|arg| if arg.len() >= 256 { value(arg) } else { one(arg) });
                [head, value(&args[at])].into_iter().chain(rest).collect()
            }
        };
        assert_eq!(requests(&bytes, &[]), expected);
        let cut = prng.below(bytes.len() as u64 + 1) as usize;
        assert_eq!(requests(&bytes, &[cut]), expected);
    }
    assert!(long > 100, "{long} long values are too few to prove anything");
}

/// Writes a random reply of any type with the server side; returns its description in the form of [`described`].
fn random_reply(prng: &mut Prng, depth: u32, out: &mut Vec<u8>) -> String {
    let version = Version::Resp3;
    let mut bytes = vec![0; prng.below(12) as usize];
    prng.fill(&mut bytes);
    let line: Vec<u8> = bytes.iter().map(|byte| b' ' + byte % 90).collect();
    if depth > 0 && prng.chance(1, 8) {
        reply::attribute(out, 1);
        random_reply(prng, 0, out);
        random_reply(prng, depth - 1, out);
    }
    let shift = prng.below(64);
    let number = (prng.next_u64() as i64) >> shift;
    match prng.below(if depth > 0 { 13 } else { 10 }) {
        0 => {
            reply::simple(out, &line);
            format!("simple {line:?}")
        }
        1 => {
            reply::error(out, &line);
            format!("error {line:?}")
        }
        2 => {
            reply::bulk_error(out, version, &bytes);
            format!("error {bytes:?}")
        }
        3 => {
            reply::int(out, number);
            format!("int {number}")
        }
        4 => {
            reply::null(out, version);
            "null".to_owned()
        }
        5 => {
            let value = number & 1 == 0;
            reply::boolean(out, version, value);
            format!("boolean {value}")
        }
        6 => {
            let value = f64::from_bits(prng.next_u64());
            let value = if value.is_nan() { number as f64 } else { value };
            reply::double(out, version, value);
            format!("double {value:?}")
        }
        7 => {
            let digits = format!("{number}{}", number.unsigned_abs());
            reply::big_number(out, version, digits.as_bytes());
            format!("big {digits}")
        }
        8 => {
            reply::verbatim(out, version, b"txt", &bytes);
            format!("verbatim txt {bytes:?}")
        }
        9 => {
            reply::bulk(out, &bytes);
            format!("bulk {bytes:?}")
        }
        kind => {
            let len = prng.below(4);
            let (name, len) = match kind {
                10 => (reply::array(out, len), ("array", len)).1,
                11 => (reply::map(out, version, len), ("map", len * 2)).1,
                _ => (reply::set(out, version, len), ("set", len)).1,
            };
            let items: Vec<String> = (0..len).map(|_| random_reply(prng, depth - 1, out)).collect();
            format!("{name} {items:?}")
        }
    }
}

fn described(value: Value<'_>) -> String {
    let items = || value.items().map(described).collect::<Vec<_>>();
    match value {
        Value::Simple(text) => format!("simple {text:?}"),
        Value::Error(text) => format!("error {text:?}"),
        Value::Int(number) => format!("int {number}"),
        Value::Null => "null".to_owned(),
        Value::Boolean(value) => format!("boolean {value}"),
        Value::Double(value) => format!("double {value:?}"),
        Value::BigNumber(digits) => format!("big {}", String::from_utf8_lossy(digits)),
        Value::Verbatim(format, text) => format!("verbatim {} {text:?}", String::from_utf8_lossy(format)),
        Value::Bulk(bytes) => format!("bulk {bytes:?}"),
        Value::Array(_) => format!("array {:?}", items()),
        Value::Map(_) => format!("map {:?}", items()),
        Value::Set(_) => format!("set {:?}", items()),
        Value::Push(_) => format!("push {:?}", items()),
    }
}

#[test]
fn any_reply_of_the_server_side_is_read_back_by_the_client_side() {
    let mut prng = Prng::new(seed("any_reply"));
    let mut bytes_in_all = 0;
    for _ in 0..5000 {
        let mut bytes = Vec::new();
        let expected = random_reply(&mut prng, 4, &mut bytes);
        match value(&bytes) {
            ParsedValue::Value { value, consumed } => {
                assert_eq!((described(value), consumed), (expected, bytes.len()));
            }
            other => panic!("{other:?}: {}", bytes.escape_ascii()),
        }
        for _ in 0..4 {
            let cut = prng.below(bytes.len() as u64) as usize;
            assert_eq!(value(&bytes[..cut]), ParsedValue::Incomplete);
            assert_cut(&bytes, &[cut]);
        }
        bytes_in_all += bytes.len();
    }
    assert!(bytes_in_all > 100_000);
}
