//! Tests that decoded responses do not depend on how the stream was cut into pieces, and that the client decodes what
//! the crate's server side writes.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod reply_walk;

use base::prng::Prng;
use gannet_protocol::memcache::client::Expect;
use gannet_protocol::memcache::reply::{self, ItemFacts, MetaLine};
use gannet_protocol::memcache::{Error, Parsed, Request, parse};
use reply_walk::{assert_cut, whole};

/// Splits a corpus file into the expected response, which its first byte encodes, and the stream after it.
fn split(file: &[u8]) -> (Expect, &[u8]) {
    let (first, stream) = file.split_first().expect("a corpus file is not empty");
    let number = (first - b'a') % Expect::ALL.len() as u8;
    (Expect::from_number(number).expect("a number below their count"), stream)
}

#[test]
fn reply_split_at_any_byte_parses_identically() {
    let (mut cuts, mut events) = (0, 0);
    for file in corpus::bytes("memcache_reply") {
        let (expect, stream) = split(&file);
        events += whole(expect, stream).len();
        for cut in 0..=stream.len() {
            assert_cut(expect, stream, &[cut]);
            cuts += 1;
        }
        assert_cut(expect, stream, &(1..stream.len()).collect::<Vec<_>>());
    }
    assert!(cuts > 800 && events > 60, "{cuts} cuts and {events} events are too few to prove anything");
}

#[test]
fn damaged_answers_cut_at_random_bytes_are_the_same_answers() {
    let seed = std::env::var("GANNET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("repeat: GANNET_SEED={seed} cargo test -p gannet-protocol --test memcache_replies");
    let mut prng = Prng::new(seed);
    let corpus = corpus::bytes("memcache_reply");
    let mut garbage = 0;
    for _ in 0..3000 {
        let file = &corpus[prng.below(corpus.len() as u64) as usize];
        let (expect, stream) = split(file);
        let mut stream = [stream, stream].concat();
        for _ in 0..prng.below(3) {
            let at = prng.below(stream.len() as u64) as usize;
            stream[at] = prng.next_u64() as u8;
        }
        let mut cuts: Vec<usize> = (0..prng.below(8)).map(|_| prng.below(stream.len() as u64 + 1) as usize).collect();
        cuts.sort_unstable();
        assert_cut(expect, &stream, &cuts);
        garbage += u32::from(whole(expect, &stream).last().is_some_and(|event| event.starts_with("garbage")));
    }
    assert!(garbage > 300, "{garbage} damaged streams are too few to prove anything");
}

#[test]
fn every_error_the_server_words_is_read_as_an_error_and_ends_the_answer() {
    for error in Error::ALL {
        for expect in Expect::ALL {
            let events = whole(expect, error.wire());
            assert!(events[0].starts_with("Error("), "{error}: {events:?}");
            assert_eq!(events.len() == 2, expect != Expect::UntilNoop, "{error} {expect:?}: {events:?}");
        }
    }
}

/// Writes one response of a random kind with the crate's server side. Returns its kind and the events that the decoder
/// must report.
fn answer(prng: &mut Prng, out: &mut Vec<u8>) -> (Expect, Vec<String>) {
    let mut key = vec![0; 1 + prng.below(250) as usize];
    key.fill_with(|| b'!' + prng.below(90) as u8);
    let shift = prng.below(64);
    let number = prng.next_u64() >> shift;
    match prng.below(4) {
        0 => {
            let cas = prng.chance(1, 2).then_some(number);
            let mut events = Vec::new();
            for _ in 0..prng.below(3) {
                let mut value = vec![0; prng.below(40) as usize];
                prng.fill(&mut value);
                let flags = (prng.next_u64() >> (32 + shift / 2)) as u32;
                reply::value_header(out, &key, flags, value.len() as u64, cas);
                out.extend_from_slice(&value);
                out.extend_from_slice(reply::CRLF);
                let len = value.len();
                events.push(format!(
                    "Value(ValueHeader {{ key: {key:?}, client_flags: {flags}, len: {len}, cas: {cas:?} }})"
                ));
                events.push(format!("value {value:?}"));
            }
            out.extend_from_slice(reply::END);
            events.push("End".to_owned());
            (Expect::Values, events)
        }
        1 => {
            reply::number(out, number);
            (Expect::Arith, vec![format!("Number({number})")])
        }
        2 => {
            let name = "curr_items";
            reply::stat_u64(out, name, number);
            reply::stat(out, "version", "1.6.18 of a kind");
            reply::stat_class(out, "items", 3, "age", number);
            out.extend_from_slice(reply::END);
            let stat = |name: &str, value: &str| {
                format!("Stat {{ name: {:?}, value: {:?} }}", name.as_bytes(), value.as_bytes())
            };
            let number = number.to_string();
            let events = vec![stat(name, &number), stat("version", "1.6.18 of a kind"), stat("items:3:age", &number)];
            (Expect::Stats, [events, vec!["End".to_owned()]].concat())
        }
        _ => {
            let facts = ItemFacts {
                key: &key,
                exp: -1,
                la: number,
                cas: number,
                fetched: true,
                class: 1,
                size: 60,
                client_flags: 2,
            };
            reply::metadump(out, &facts);
            out.extend_from_slice(reply::END);
            let line = out.split(|byte| *byte == b'\n').next().expect("a line");
            let words: Vec<_> = line.split(|byte| *byte == b' ').collect();
            assert_eq!(words.len(), 8);
            let event = format!("Metadump(Facts {{ words: Words {{ rest: {line:?} }} }})");
            (Expect::Metadump, vec![event, "End".to_owned()])
        }
    }
}

#[test]
fn server_replies_parse_back_at_any_split() {
    let seed = std::env::var("GANNET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("repeat: GANNET_SEED={seed} cargo test -p gannet-protocol --test memcache_replies");
    let mut prng = Prng::new(seed);
    for _ in 0..2000 {
        let mut bytes = Vec::new();
        let (expect, mut events) = answer(&mut prng, &mut bytes);
        events.push("last".to_owned());
        assert_eq!(whole(expect, &bytes), events);
        let cut = prng.below(bytes.len() as u64 + 1) as usize;
        assert_cut(expect, &bytes, &[cut]);
    }
}

#[test]
fn server_meta_line_parses_back_with_every_flag_and_token() {
    let Parsed::Request { request: Request::MetaGet(meta), .. } = parse(b"mg YSBi b v k O42 f s t\r\n") else {
        panic!()
    };
    let mut bytes = Vec::new();
    let mut line = MetaLine::with_value(&mut bytes, 3);
    line.reflect(&meta);
    line.number(b'f', 7);
    line.number(b's', 3);
    line.signed(b't', -1);
    line.mark(b'W');
    line.finish();
    bytes.extend_from_slice(b"xyz\r\n");
    let events = whole(Expect::Meta, &bytes);
    assert!(events[0].starts_with("MetaValue { len: 3,"), "{events:?}");
    assert_eq!(events[1..], [format!("value {:?}", b"xyz"), "last".to_owned()]);
    (0..=bytes.len()).for_each(|cut| assert_cut(Expect::Meta, &bytes, &[cut]));
}
