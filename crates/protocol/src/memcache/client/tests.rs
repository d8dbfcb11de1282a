//! Tests that the server's parser reads every encoded request as intended, and that every invalid or unusual reply has
//! the specified result.

use base::prng::Prng;

use super::reply::{self, plain_value, reply_line};
use super::*;
use crate::memcache::key::KEY_BYTES_MAX;
use crate::memcache::meta::MetaStoreMode;
use crate::memcache::request::{Arith, Store, StoreMode, VALUE_BYTES_MAX};
use crate::memcache::{self, KeyScratch, Request};

/// Returns the request that the server's parser reads from `bytes`, which must contain nothing else.
fn served(bytes: &[u8]) -> Request<'_> {
    match memcache::parse(bytes) {
        memcache::Parsed::Request { request, consumed } => {
            assert_eq!(consumed, bytes.len());
            request
        }
        other => panic!("{:?} is {other:?}", String::from_utf8_lossy(bytes)),
    }
}

fn encoded(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Returns a key of random length. With `any_byte`, the key may contain bytes that the text protocol cannot represent.
fn random_key(prng: &mut Prng, any_byte: bool) -> Vec<u8> {
    let mut key = vec![0; 1 + prng.below(KEY_BYTES_MAX as u64) as usize];
    prng.fill(&mut key);
    if !any_byte {
        for byte in &mut key {
            *byte = if *byte <= b' ' || *byte == 0x7f { b'k' } else { *byte };
        }
    }
    key
}

#[test]
fn every_text_request_is_read_by_the_server_side_as_it_was_meant() {
    let mut prng = Prng::new(11);
    for _ in 0..2000 {
        let key = random_key(&mut prng, false);
        let (key, noreply) = (key.as_slice(), prng.chance(1, 2));
        let shift = prng.below(64);
        let number = prng.next_u64() >> shift;
        let exptime = (prng.next_u64() as i64) >> shift;
        let bytes = encoded(|out| get(out, key));
        assert!(matches!(served(&bytes), Request::Get(get) if get.keys.eq([key])));
        let modes = [StoreMode::Set, StoreMode::Add, StoreMode::Replace, StoreMode::Append, StoreMode::Prepend];
        let mode = modes[prng.below(5) as usize];
        let compare = (mode == StoreMode::Set && noreply).then_some(number);
        let value_len = number as u32 % (VALUE_BYTES_MAX + 1);
        let wanted = Store { mode, key, client_flags: number as u32, exptime, value_len, compare, noreply };
        let bytes = encoded(|out| store(out, &wanted));
        assert_eq!(served(&bytes), Request::Store(wanted));
        let wanted = Arith { key, delta: number, decrement: prng.chance(1, 2), noreply };
        let bytes = encoded(|out| arith(out, &wanted));
        assert_eq!(served(&bytes), Request::Arith(wanted));
        assert_eq!(served(&encoded(|out| delete(out, key, noreply))), Request::Delete { key, noreply });
        assert_eq!(served(&encoded(|out| touch(out, key, exptime, noreply))), Request::Touch { key, exptime, noreply });
        let delay = exptime;
        assert_eq!(served(&encoded(|out| flush_all(out, delay, noreply))), Request::FlushAll { delay, noreply });
        let mib = number as u32;
        let request = Request::CacheMemlimit { mib, noreply };
        assert_eq!(served(&encoded(|out| cache_memlimit(out, mib, noreply))), request);
    }
    assert_eq!(served(&encoded(version)), Request::Version);
    assert_eq!(served(&encoded(quit)), Request::Quit);
    assert_eq!(served(&encoded(meta_noop)), Request::MetaNoop);
    assert_eq!(served(&encoded(|out| verbosity(out, 2, true))), Request::Verbosity { noreply: true });
    assert_eq!(served(&encoded(|out| stats(out, b""))), Request::Stats(memcache::request::Stats::General));
    assert_eq!(
        served(&encoded(|out| stats(out, b"detail on"))),
        Request::Stats(memcache::request::Stats::Detail(true))
    );
    assert_eq!(served(&encoded(metadump)), Request::Dump(memcache::request::Dump::Metadump));
    assert_eq!(served(&encoded(mgdump)), Request::Dump(memcache::request::Dump::Mgdump));
    let bytes = encoded(|out| authenticate(out, b"ann", b"s3cret"));
    assert_eq!(bytes, b"set auth 0 0 10\r\nann s3cret\r\n");
}

#[test]
fn a_whole_set_is_its_line_and_its_value() {
    let bytes = encoded(|out| set(out, b"a", 5, 0, b"1\r\n3"));
    assert_eq!(bytes, b"set a 5 0 4\r\n1\r\n3\r\n");
}

#[test]
fn retrieval_request_preserves_key_order_and_exptime() {
    let keys = [b"a".as_slice(), b"key:2", b"\xc3\xbc"];
    for (with_cas, touch) in [(false, None), (true, None), (false, Some(-1)), (true, Some(60))] {
        let bytes = encoded(|out| match (with_cas, touch) {
            (false, None) => multi_get(out, keys),
            (true, None) => multi_gets(out, keys),
            (false, Some(exptime)) => gat(out, exptime, keys),
            (true, Some(exptime)) => gats(out, exptime, keys),
        });
        let Request::Get(get) = served(&bytes) else { panic!() };
        assert_eq!((get.with_cas, get.touch), (with_cas, touch));
        assert!(get.keys.eq(keys));
    }
    let longest = [b'k'; KEY_BYTES_MAX];
    let bytes = encoded(|out| multi_get(out, std::iter::repeat_n(longest.as_slice(), 260)));
    assert!(matches!(served(&bytes), Request::Get(get) if get.keys.count() == 260));
}

#[test]
#[should_panic(expected = "more than a line")]
fn a_retrieval_longer_than_a_line_is_never_sent() {
    let longest = [b'k'; KEY_BYTES_MAX];
    multi_get(&mut Vec::new(), std::iter::repeat_n(longest.as_slice(), 262));
}

#[test]
#[should_panic(expected = "1 to 250 bytes")]
fn oversized_key_is_never_sent() {
    get(&mut Vec::new(), &[b'k'; KEY_BYTES_MAX + 1]);
}

#[test]
fn any_key_survives_a_meta_request_in_text_or_in_base64() {
    let mut prng = Prng::new(12);
    let (mut plain, mut binary) = (0, 0);
    for round in 0..4000 {
        let key = random_key(&mut prng, round % 2 == 0);
        let (shift, exptime) = (prng.below(64), -(prng.below(100) as i64));
        let number = prng.next_u64() >> shift;
        let bytes = encoded(|out| {
            let opaque = b"op:1";
            MetaRequest::get(out, &key).flag(b'v').flag(b'k').token(b'O', opaque).signed(b'N', exptime).finish();
        });
        let Request::MetaGet(meta) = served(&bytes) else { panic!() };
        assert_eq!(meta.key.bytes(&mut KeyScratch::default()), key);
        assert_eq!(meta.key.is_encoded(), !is_text_key(&key));
        assert!(meta.has(b'v') && meta.has(b'k') && meta.vivify() == Some(exptime));
        if meta.key.is_encoded() {
            binary += 1
        } else {
            plain += 1
        }
        let bytes = encoded(|out| MetaRequest::store(out, &key, 3).number(b'C', number).token(b'M', b"E").finish());
        let Request::MetaStore(meta, 3) = served(&bytes) else { panic!() };
        assert_eq!((meta.compare(), meta.store_mode()), (Some(number), MetaStoreMode::Add));
        let bytes = encoded(|out| MetaRequest::delete(out, &key).flag(b'I').signed(b'T', 30).finish());
        assert!(matches!(served(&bytes), Request::MetaDelete(meta) if meta.expire() == Some(30) && meta.has(b'I')));
        let bytes = encoded(|out| MetaRequest::arith(out, &key).number(b'D', number).token(b'M', b"-").finish());
        assert!(matches!(served(&bytes), Request::MetaArith(meta) if meta.delta() == number && meta.is_decrement()));
        let bytes = encoded(|out| MetaRequest::debug(out, &key).finish());
        assert!(matches!(served(&bytes), Request::MetaDebug(meta) if meta.bytes(&mut KeyScratch::default()) == key));
    }
    assert!(plain >= 2000 && binary > 1000, "{plain} {binary}");
}

#[test]
fn value_line_fast_path_matches_line_parser() {
    let long = "k".repeat(KEY_BYTES_MAX + 1);
    let numbers = ["0", "7", "999999999", "1000000000", "0000000001", "4294967296", "-1", "", "x", "1x"];
    let mut short = 0;
    for key in ["k", "key:0001", &long, &long[1..], "a\tb", ""] {
        for flags in numbers {
            for len in numbers {
                for end in ["\r\n", "\n", " 77\r\n", " \r\n", "\r", "", " 1 2\r\n"] {
                    let text = format!("VALUE {key} {flags} {len}{end}");
                    assert_eq!(reply(text.as_bytes()), reply_line(text.as_bytes()), "{text:?}");
                    short += u32::from(plain_value(text.as_bytes()).is_some());
                }
            }
        }
    }
    assert_eq!(short, 3 * 3 * 3);
}

#[test]
fn common_reply_fast_path_matches_line_parser() {
    let mut short = 0;
    for word in ["END", "STORED", "HD", "EN", "VA", "VA 0", "VA 999999999", "VA 1000000000", "VA x", "VALUE", "E", "H"]
    {
        for flags in ["", " ", " f0", " f0 s3", "  W", " W ", " 0", " O\r", " O\r\r", "x", "\r", " kkey:1 b t-1 Oab"] {
            for end in ["\r\n", "\n", "\r", "", "\r\nEND\r\n"] {
                let text = format!("{word}{flags}{end}");
                let (plain, line) = (reply::plain(text.as_bytes()), reply_line(text.as_bytes()));
                assert_eq!(reply(text.as_bytes()), line, "{text:?}");
                short += u32::from(plain.is_some());
            }
        }
    }
    let long = format!("VA 1 O{}", "x".repeat(REPLY_LINE_BYTES_MAX));
    for len in REPLY_LINE_BYTES_MAX - 64..=REPLY_LINE_BYTES_MAX {
        let text = [&long.as_bytes()[..len - 2], b"\r\n"].concat();
        assert_eq!(reply(&text), reply_line(&text));
        assert_eq!(reply(&text[..len - 1]), reply_line(&text[..len - 1]));
    }
    assert!(short > 60, "{short}");
}

#[test]
fn every_kind_of_garbage_has_its_name() {
    let long = [b'x'; REPLY_LINE_BYTES_MAX];
    let cases: &[(Expect, &[u8], Garbage)] = &[
        (Expect::Store, &long, Garbage::LineTooLong),
        (Expect::Store, b"STORED\n", Garbage::BareNewline),
        (Expect::Store, b"HTTP/1.1 400 Bad Request\r\n", Garbage::UnknownReply),
        (Expect::Store, b"+OK\r\n", Garbage::UnknownReply),
        (Expect::Store, b"\r\n", Garbage::UnknownReply),
        (Expect::Store, b"STORED now\r\n", Garbage::Malformed),
        (Expect::Store, b"STORED \r\n", Garbage::Malformed),
        (Expect::Values, b"VALUE a 0\r\n", Garbage::Malformed),
        (Expect::Values, b"VALUE a 0 x\r\n", Garbage::Malformed),
        (Expect::Values, b"VALUE a 0 1 2 3\r\n", Garbage::Malformed),
        (Expect::Values, b"VALUE a 4294967296 1\r\n", Garbage::Malformed),
        (Expect::Values, b"VALUE a 0 2147483646\r\n", Garbage::ValueTooLong),
        (Expect::Meta, b"VA\r\n", Garbage::Malformed),
        (Expect::Meta, b"VA 2147483646\r\n", Garbage::ValueTooLong),
        (Expect::Meta, b"HD 0\r\n", Garbage::Malformed),
        (Expect::Arith, b"12a\r\n", Garbage::Malformed),
        (Expect::Arith, b"12 1\r\n", Garbage::Malformed),
        (Expect::Arith, b"18446744073709551616\r\n", Garbage::Malformed),
        (Expect::Version, b"VERSION\r\n", Garbage::Malformed),
        (Expect::Stats, b"STAT\r\n", Garbage::Malformed),
        (Expect::Mgdump, b"mg a x\r\n", Garbage::Malformed),
        (Expect::Mgdump, b"mg !! b\r\n", Garbage::Malformed),
        (Expect::Metadump, b"key=a la\n", Garbage::Malformed),
        (Expect::Store, b"END\r\n", Garbage::Unexpected),
        (Expect::Values, b"STORED\r\n", Garbage::Unexpected),
        (Expect::Meta, b"MN\r\n", Garbage::Unexpected),
    ];
    for (expect, bytes, garbage) in cases {
        assert_eq!(Decoder::new(*expect).step(bytes), Err(*garbage), "{}", String::from_utf8_lossy(bytes));
    }
    for bytes in [b"xx".as_slice(), b"\rx", b"x"] {
        assert_eq!(Decoder::resume(Expect::Values, 2).step(bytes), Err(Garbage::ValueEnd));
    }
    for garbage in Garbage::ALL {
        let named = garbage == Garbage::ValueEnd || cases.iter().any(|case| case.2 == garbage);
        assert!(named && !garbage.text().is_empty(), "{garbage:?}");
    }
}

#[test]
fn each_reply_fits_the_answers_it_belongs_to_and_no_other() {
    use Expect::*;
    let table: &[(&[u8], &[Expect], &[Expect])] = &[
        (b"VALUE a 0 1\r\n", &[Values], &[]),
        (b"END\r\n", &[], &[Values, Stats, Metadump]),
        (b"STORED\r\n", &[], &[Store]),
        (b"NOT_STORED\r\n", &[], &[Store]),
        (b"EXISTS\r\n", &[], &[Store]),
        (b"NOT_FOUND\r\n", &[], &[Store, Delete, Arith, Touch]),
        (b"DELETED\r\n", &[], &[Delete]),
        (b"TOUCHED\r\n", &[], &[Touch]),
        (b"7  \r\n", &[], &[Arith]),
        (b"OK\r\n", &[], &[Ok, Stats]),
        (b"RESET\r\n", &[], &[Stats]),
        (b"VERSION 1.6.18\r\n", &[], &[Version]),
        (b"STAT pid 7\r\n", &[Stats], &[]),
        (b"STAT empty\r\n", &[Stats], &[]),
        (b"ITEM a [1 b; 0 s]\r\n", &[Stats], &[]),
        (b"PREFIX a get 1\r\n", &[Stats], &[]),
        (b"HD\r\n", &[UntilNoop], &[Meta]),
        (b"NS O1\r\n", &[UntilNoop], &[Meta]),
        (b"EX\r\n", &[UntilNoop], &[Meta]),
        (b"NF\r\n", &[UntilNoop], &[Meta]),
        (b"EN\r\n", &[UntilNoop], &[Meta, MetaDebug, Mgdump]),
        (b"VA 1 f0\r\n", &[UntilNoop], &[Meta]),
        (b"ME a exp=-1\r\n", &[UntilNoop], &[MetaDebug]),
        (b"MN\r\n", &[], &[UntilNoop]),
        (b"key=a exp=-1\n", &[Metadump], &[]),
        (b"mg a\r\n", &[Mgdump], &[]),
        (
            b"ERROR\r\n",
            &[UntilNoop],
            &[Values, Store, Delete, Arith, Touch, Ok, Version, Stats, Meta, MetaDebug, Metadump, Mgdump],
        ),
    ];
    for (bytes, before, last) in table {
        let ParsedReply::Reply { reply, consumed } = reply(bytes) else { panic!("{}", String::from_utf8_lossy(bytes)) };
        assert_eq!(consumed, bytes.len());
        for (number, expect) in Expect::ALL.into_iter().enumerate() {
            assert_eq!((expect as usize, Expect::from_number(number as u8)), (number, Some(expect)));
            let place = match () {
                () if before.contains(&expect) => ReplyPosition::Before,
                () if last.contains(&expect) => ReplyPosition::Last,
                () => ReplyPosition::Foreign,
            };
            assert_eq!(expect.place(&reply), place, "{expect:?} {reply:?}");
        }
    }
}

#[test]
fn a_value_of_two_gibibytes_passes_through_a_small_buffer() {
    let mut decoder = Decoder::new(Expect::Values);
    let header = format!("VALUE big 0 {VALUE_BYTES_MAX}\r\n");
    let step = decoder.step(header.as_bytes()).unwrap().unwrap();
    assert_eq!((step.consumed, step.last), (header.len(), false));
    let buffer = vec![b'\r'; 1 << 20];
    let mut bytes = 0;
    while let Some(Step { event: Event::Piece(piece), consumed, .. }) = decoder.step(&buffer).unwrap() {
        assert_eq!(piece.len(), consumed);
        bytes += consumed as u64;
        if decoder.rest() == 2 {
            break;
        }
    }
    assert_eq!(bytes, u64::from(VALUE_BYTES_MAX));
    assert_eq!(decoder.step(b"\r"), Ok(None));
    assert!(matches!(decoder.step(b"\r\n"), Ok(Some(Step { event: Event::ValueEnd, consumed: 2, last: false }))));
    assert!(matches!(decoder.step(b"END\r\n"), Ok(Some(Step { last: true, .. }))));
}

#[test]
fn dumped_binary_key_round_trips() {
    let mut prng = Prng::new(13);
    for _ in 0..500 {
        let key = random_key(&mut prng, true);
        let text = encoded(|out| memcache::reply::uri_encoded(out, &key));
        assert_eq!(uri_decoded(&text, &mut [0; KEY_BYTES_MAX]), Some(key.as_slice()));
        let line = encoded(|out| memcache::reply::mgdump(out, &key));
        let ParsedReply::Reply { reply: Reply::Mgdump(dumped), .. } = reply(&line) else { panic!() };
        assert_eq!(dumped.bytes(&mut KeyScratch::default()), key);
    }
    let mut room = [0; KEY_BYTES_MAX];
    for text in [b"".as_slice(), b"%", b"%4", b"%4g", b"%g4", &[b'k'; KEY_BYTES_MAX + 1]] {
        assert_eq!(uri_decoded(text, &mut room), None);
    }
}

#[test]
fn meta_reply_flags_are_looked_up_by_letter() {
    let ParsedReply::Reply { reply: Reply::MetaValue { len: 5, flags }, .. } = reply(b"VA 5 f30 Oab W t-1 c9\r\n")
    else {
        panic!()
    };
    assert_eq!(
        (flags.number(b'f'), flags.token(b'O'), flags.number(b'c')),
        (Some(30), Some(b"ab".as_slice()), Some(9))
    );
    assert_eq!(
        (flags.token(b'W'), flags.token(b't'), flags.number(b't')),
        (Some(b"".as_slice()), Some(&b"-1"[..]), None)
    );
    assert!(flags.has(b'W') && !flags.has(b'X') && flags.token(b'k').is_none());
    assert_eq!(flags.iter().count(), 5);
}
