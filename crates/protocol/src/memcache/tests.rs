//! Tests of the parser and the reply writers of the text and meta protocols, in particular of invalid and unusual
//! input.

use super::key::KEY_BASE64_BYTES_MAX;
use super::key::KeyScratch;
use super::line::LINE_BYTES_MAX;
use super::meta::MetaStoreMode;
use super::reply::{self, MetaLine};
use super::request::{Dump, Stats, StoreMode, Watch};
use super::*;

fn one(text: &str) -> Request<'_> {
    match parse(text.as_bytes()) {
        Parsed::Request { request, consumed } => {
            assert_eq!(consumed, text.find('\n').unwrap() + 1);
            request
        }
        other => panic!("{text:?} is {other:?}"),
    }
}

/// Parses an invalid line. Returns the error, the number of bytes to discard, and true if the error is suppressed.
fn bad(text: &str) -> (Error, u64, bool) {
    match parse(text.as_bytes()) {
        Parsed::Bad { error, consumed, swallow, quiet } => {
            assert_eq!(consumed, text.find('\n').unwrap() + 1);
            (error, swallow, quiet)
        }
        other => panic!("{text:?} is {other:?}"),
    }
}

fn meta(text: &str) -> key::MetaKey<'_> {
    match one(text) {
        Request::MetaGet(meta) => meta.key,
        other => panic!("{text:?} is {other:?}"),
    }
}

fn long_key() -> String {
    "k".repeat(KEY_BYTES_MAX + 1)
}

#[test]
fn unknown_or_empty_line_is_a_single_error() {
    for line in
        ["\r\n", "\n", "   \r\n", "foo\r\n", "GET a\r\n", "gett a\r\n", "versions\r\n", "mx a\r\n", "\r\r\n", "m\r\n"]
    {
        assert_eq!(bad(line), (Error::UnknownCommand, 0, false), "{line:?}");
    }
}

#[test]
fn a_missing_or_surplus_word_is_an_error_and_never_a_panic() {
    let verbs = "get gets set add replace append prepend cas delete incr decr touch gat mg md ma ms verbosity \
                 cache_memlimit lru_crawler slabs lru";
    for verb in verbs.split_whitespace() {
        assert_eq!(bad(&format!("{verb}\r\n")), (Error::UnknownCommand, 0, false), "{verb}");
    }
    assert_eq!(bad("me\r\n").0, Error::BadFormat);
    assert_eq!(bad("ms a\r\n").0, Error::BadFormat);
    for line in ["delete a 0 noreply x\r\n", "incr a 1 noreply x\r\n", "touch a 1 noreply x\r\n", "flush_all 1 2 3\r\n"]
    {
        assert_eq!(bad(line), (Error::UnknownCommand, 0, false), "{line:?}");
    }
}

#[test]
fn lone_get_fast_path_matches_line_parser() {
    let long = long_key();
    let mut short = 0;
    for key in ["a", "key:000000000000000000001", "\u{fc}", &long, &long[1..], "a b", "a\tb", " a", "a ", "", "a\0"] {
        for end in ["\r\n", "\n", "\r\r\n", " \r\n", "\r", "", "\r\nget b\r\n"] {
            let text = format!("get {key}{end}");
            assert!(same_parsed(parse(text.as_bytes()), parse_line(text.as_bytes())), "{text:?}");
            short += u32::from(lone_get(text.as_bytes()).is_some());
        }
    }
    assert_eq!(short, 8);
}

/// Returns true if both are the same request. Their keys may have been iterated to different positions.
fn same_parsed(short: Parsed<'_>, long: Parsed<'_>) -> bool {
    match (short, long) {
        (
            Parsed::Request { request: Request::Get(short), consumed: a },
            Parsed::Request { request: Request::Get(long), consumed: b },
        ) => a == b && short.with_cas == long.with_cas && short.touch == long.touch && short.keys.eq(long.keys),
        (short, long) => short == long,
    }
}

#[test]
fn plain_set_fast_path_matches_line_parser() {
    let long = long_key();
    let numbers = ["0", "7", "999999999", "1000000000", "0000000001", "4294967296", "-1", "+1", "", "x", "1x"];
    let mut short = 0;
    for key in ["k", "key:000000000000000000001", &long, &long[1..], "a\tb", ""] {
        for flags in numbers {
            for time in numbers {
                for len in numbers {
                    for end in ["\r\n", "\n", " noreply\r\n", " \r\n", "\r", ""] {
                        let text = format!("set {key} {flags} {time} {len}{end}");
                        assert_eq!(parse(text.as_bytes()), parse_line(text.as_bytes()), "{text:?}");
                        short += u32::from(plain_set(text.as_bytes()).is_some());
                    }
                }
            }
        }
    }
    assert_eq!(short, 3 * 3 * 3 * 3);
}

#[test]
fn every_text_command_is_read() {
    let Request::Store(store) = one("set a 5 -1 3\r\n") else { panic!() };
    assert_eq!((store.mode, store.key, store.client_flags, store.exptime), (StoreMode::Set, b"a".as_slice(), 5, -1));
    assert_eq!((store.value_len, store.compare, store.noreply), (3, None, false));
    for (verb, mode) in [
        ("add", StoreMode::Add),
        ("replace", StoreMode::Replace),
        ("append", StoreMode::Append),
        ("prepend", StoreMode::Prepend),
    ] {
        let line = format!("{verb} a 0 0 0 noreply\r\n");
        let Request::Store(store) = one(&line) else { panic!() };
        assert_eq!((store.mode, store.noreply), (mode, true));
    }
    let Request::Store(store) = one("cas a 4294967295 9999999999 1 18446744073709551615 noreply\r\n") else { panic!() };
    assert_eq!((store.compare, store.client_flags, store.noreply), (Some(u64::MAX), u32::MAX, true));
    let Request::Get(get) = one("gats -5  a  b \r\n") else { panic!() };
    assert_eq!((get.keys.collect::<Vec<_>>(), get.with_cas, get.touch), (vec![b"a".as_slice(), b"b"], true, Some(-5)));
    let Request::Get(get) = one("gat 0\r\n") else { panic!() };
    assert_eq!(get.keys.count(), 0);
    assert_eq!(one("delete a 0 noreply\r\n"), Request::Delete { key: b"a", noreply: true });
    assert_eq!(one("delete noreply\r\n"), Request::Delete { key: b"noreply", noreply: false });
    let Request::Arith(arith) = one("decr n 18446744073709551615\r\n") else { panic!() };
    assert_eq!((arith.delta, arith.decrement, arith.noreply), (u64::MAX, true, false));
    assert_eq!(one("touch a 30 noreply\r\n"), Request::Touch { key: b"a", exptime: 30, noreply: true });
    assert_eq!(one("flush_all\r\n"), Request::FlushAll { delay: 0, noreply: false });
    assert_eq!(one("flush_all noreply\r\n"), Request::FlushAll { delay: 0, noreply: true });
    assert_eq!(one("flush_all 10 noreply\r\n"), Request::FlushAll { delay: 10, noreply: true });
    assert_eq!(one("version\r\n"), Request::Version);
    assert_eq!(one("verbosity 1 noreply\r\n"), Request::Verbosity { noreply: true });
    assert_eq!(one("quit\r\n"), Request::Quit);
    assert_eq!(one("shutdown graceful\r\n"), Request::Shutdown { is_valid: true });
    assert_eq!(one("cache_memlimit 64\r\n"), Request::CacheMemlimit { mib: 64, noreply: false });
    assert_eq!(one("cache_memlimit 99999999999\r\n"), Request::CacheMemlimit { mib: u32::MAX, noreply: false });
    assert_eq!(one("stats\r\n"), Request::Stats(Stats::General));
    assert_eq!(one("stats detail dump\r\n"), Request::Stats(Stats::DetailDump));
    assert_eq!(one("stats namespaces\r\n"), Request::Stats(Stats::Namespaces));
    assert_eq!(one("shutdown now\r\n"), Request::Shutdown { is_valid: false });
    assert_eq!(one("stats cachedump 1 20\r\n"), Request::Stats(Stats::Cachedump { class: 1, limit: 20 }));
    assert_eq!(one("watch\r\n"), Request::Watch(Watch { fetchers: true, ..Watch::default() }));
    assert_eq!(
        one("watch mutations evictions\r\n"),
        Request::Watch(Watch { mutations: true, evictions: true, ..Watch::default() })
    );
    assert_eq!(one("lru_crawler metadump all\r\n"), Request::Dump(Dump::Metadump));
    assert_eq!(one("lru_crawler mgdump hash\r\n"), Request::Dump(Dump::Mgdump));
    assert_eq!(one("lru_crawler sleep 10\r\n"), Request::CrawlerSetting);
}

#[test]
fn a_bad_administrative_command_names_its_fault() {
    for (line, error) in [
        ("stats foo\r\n", Error::UnknownCommand),
        ("stats detail\r\n", Error::DetailUsage),
        ("watch fetchers proxyreqs\r\n", Error::WatchUnavailable),
        ("watch fetchers proxyreq\r\n", Error::UnknownCommand),
        ("stats cachedump 1\r\n", Error::CachedumpUsage),
        ("stats cachedump 64 1\r\n", Error::IllegalClass),
        ("slabs nonsense 1\r\n", Error::UnknownCommand),
        ("lru automove 1\r\n", Error::UnknownCommand),
        ("verbosity x\r\n", Error::BadFormat),
        ("cache_memlimit x\r\n", Error::UnknownCommand),
        ("cache_memlimit 99999999999999999999\r\n", Error::UnknownCommand),
        ("lru_crawler metadump 99\r\n", Error::BadClass),
        ("lru_crawler crawl 1\r\n", Error::BadClass),
        ("lru_crawler sleep x\r\n", Error::BadFormat),
        ("slabs reassign 1 2\r\n", Error::NoSlabs),
        ("lru mode flat\r\n", Error::NoSlabs),
        ("flush_all x\r\n", Error::InvalidExptime),
        ("gat x a\r\n", Error::InvalidExptime),
        ("touch a x\r\n", Error::InvalidExptime),
        ("delete a 1\r\n", Error::DeleteUsage),
        ("incr a -1\r\n", Error::InvalidDelta),
        ("incr a 18446744073709551616\r\n", Error::InvalidDelta),
    ] {
        assert_eq!(bad(line), (error, 0, false), "{line:?}");
    }
}

#[test]
fn value_after_bad_line_is_discarded_if_its_length_is_readable() {
    let long = long_key();
    for (line, error) in [
        ("set a x 0 7\r\n".to_owned(), Error::BadFormat),
        ("set a 0 x 7\r\n".to_owned(), Error::BadFormat),
        ("set a -1 0 7\r\n".to_owned(), Error::BadFormat),
        ("set a 4294967296 0 7\r\n".to_owned(), Error::BadFormat),
        (format!("set {long} 0 0 7\r\n"), Error::BadFormat),
        ("cas a 0 0 7\r\n".to_owned(), Error::UnknownCommand),
        ("cas a 0 0 7 x\r\n".to_owned(), Error::BadFormat),
        ("set a 0 0 7 noreply x\r\n".to_owned(), Error::UnknownCommand),
        (format!("ms {long} 7 b\r\n"), Error::KeyEncoding),
        (format!("ms {long} 7\r\n"), Error::BadFormat),
        ("ms a 7 MX\r\n".to_owned(), Error::StoreMode),
        ("ms a 7 M\r\n".to_owned(), Error::ModeLength),
        ("ms a 7 c c\r\n".to_owned(), Error::DuplicateFlag),
        ("ms a 7 Fx\r\n".to_owned(), Error::BadFormat),
        ("ms a 7 Tx q\r\n".to_owned(), Error::BadToken),
        ("ms a 7 b\r\n".to_owned(), Error::KeyEncoding),
    ] {
        assert_eq!(bad(&line), (error, 9, false), "{line:?}");
    }
    for line in ["set a 0 0 -1\r\n", "set a 0 0 x\r\n", "set a 0 0 7x\r\n", "ms a x\r\n", "ms a -1\r\n", "ms a S7\r\n"]
    {
        assert_eq!(bad(line), (Error::BadFormat, 0, false), "{line:?}");
    }
}

#[test]
fn a_value_too_long_to_swallow_ends_the_connection() {
    let most = format!("set a 0 0 {VALUE_BYTES_MAX}\r\n");
    assert!(matches!(one(&most), Request::Store(store) if store.value_len == VALUE_BYTES_MAX));
    for line in ["set a 0 0 2147483646\r\n", "set a 0 0 18446744073709551615 noreply\r\n", "ms a 2147483646 q\r\n"] {
        assert_eq!(parse(line.as_bytes()), Parsed::Fatal(Error::BadFormat), "{line:?}");
    }
}

#[test]
fn noreply_hides_the_errors_of_lines_whose_shape_is_right() {
    let long = long_key();
    for (line, swallow) in [
        (format!("set {long} 0 0 2 noreply\r\n"), 4),
        ("set a x 0 2 noreply\r\n".to_owned(), 4),
        ("set a 0 0 x noreply\r\n".to_owned(), 0),
        ("incr a x noreply\r\n".to_owned(), 0),
        ("touch a x noreply\r\n".to_owned(), 0),
        ("flush_all x noreply\r\n".to_owned(), 0),
        ("delete a 1 noreply\r\n".to_owned(), 0),
        (format!("delete {long} noreply\r\n"), 0),
        ("verbosity noreply\r\n".to_owned(), 0),
    ] {
        let (_, swallowed, quiet) = bad(&line);
        assert_eq!((swallowed, quiet), (swallow, true), "{line:?}");
    }
    assert!(!bad("set a 0 0 2 noreply x\r\n").2, "a line of the wrong shape is always answered");
}

#[test]
fn retrieval_with_an_overlong_key_is_rejected() {
    let long = long_key();
    assert_eq!(bad(&format!("get a {long} b\r\n")), (Error::BadFormat, 0, false));
    assert_eq!(bad(&format!("mg {long}\r\n")), (Error::BadFormat, 0, false));
    let line = format!("get a {} b\r\n", &long[1..]);
    assert!(matches!(one(&line), Request::Get(get) if get.keys.count() == 3));
}

#[test]
fn control_characters_are_part_of_a_key_as_with_memcached() {
    for key in ["\x01", "a\tb", "a\rb", "\x7f", "a\0b", "\u{fc}"] {
        let line = format!("get {key}\r\n");
        let Request::Get(mut get) = one(&line) else { panic!() };
        assert_eq!(get.keys.next(), Some(key.as_bytes()));
    }
}

#[test]
fn a_retrieval_may_name_as_many_keys_as_a_line_holds() {
    let keys = (LINE_BYTES_MAX - 6) / 2;
    let line = format!("get{}\r\n", " k".repeat(keys));
    let Request::Get(get) = one(&line) else { panic!() };
    assert_eq!(get.keys.count(), keys);
    let mut taken = get.keys;
    taken.by_ref().take(keys / 2).for_each(drop);
    assert_eq!(Keys::resume(taken.rest()).count(), keys - keys / 2, "a retrieval goes on where it was left");
}

#[test]
fn unterminated_line_beyond_limit_is_fatal() {
    assert_eq!(parse(&vec![b'x'; LINE_BYTES_MAX - 1]), Parsed::Incomplete);
    assert_eq!(parse(&vec![b'x'; LINE_BYTES_MAX]), Parsed::Fatal(Error::LineTooLong));
}

#[test]
fn binary_protocol_is_detected_by_first_byte() {
    assert_eq!(parse(b"\x80\x00\x00\x01"), Parsed::Fatal(Error::BinaryProtocol));
    assert_eq!(parse(b"\x80"), Parsed::Fatal(Error::BinaryProtocol));
    assert!(matches!(parse(b"get \x80\r\n"), Parsed::Request { .. }));
}

#[test]
fn a_value_ends_by_its_length_and_not_by_a_line_end() {
    assert_eq!(body(b"a\r\nb\r\nget", 4), Body::Value(b"a\r\nb"));
    assert_eq!(body(b"\r\n", 0), Body::Value(b""));
    assert_eq!(body(b"ab\r", 2), Body::Incomplete);
    assert_eq!(body(b"abc\r\n", 2), Body::BadTerminator);
    assert_eq!(body(b"ab\n\r", 2), Body::BadTerminator);
}

#[test]
fn every_meta_flag_is_read() {
    let Request::MetaGet(get) = one("mg YQ== b c C7 E8 f h k l Oxyz q s t u v N30 R-1 T0 Pp L\r\n") else { panic!() };
    assert_eq!((get.compare(), get.token(), get.vivify(), get.recache()), (Some(7), Some(8), Some(30), Some(-1)));
    assert_eq!(get.expire(), Some(0));
    assert!(b"bcfhklqstuv".iter().all(|letter| get.has(*letter)));
    assert_eq!(get.key.bytes(&mut KeyScratch::default()), b"a");
    let Request::MetaStore(set, 2) = one("ms a 2 F4294967295 I MA T60 N5 q\r\n") else { panic!() };
    assert_eq!((set.client_flags(), set.store_mode(), set.expire()), (u32::MAX, MetaStoreMode::Append, Some(60)));
    for (mode, expected) in [
        ("E", MetaStoreMode::Add),
        ("R", MetaStoreMode::Replace),
        ("P", MetaStoreMode::Prepend),
        ("S", MetaStoreMode::Set),
    ] {
        let line = format!("ms a 2 M{mode}\r\n");
        assert!(matches!(one(&line), Request::MetaStore(set, 2) if set.store_mode() == expected));
    }
    let Request::MetaDelete(delete) = one("md a I x T30 E9\r\n") else { panic!() };
    assert!(delete.has(b'I') && delete.has(b'x') && delete.token() == Some(9));
    let Request::MetaArith(arith) = one("ma n N0 J13 D23 M-\r\n") else { panic!() };
    assert_eq!((arith.delta(), arith.initial(), arith.is_decrement(), arith.vivify()), (23, 13, true, Some(0)));
    let Request::MetaArith(arith) = one("ma n\r\n") else { panic!() };
    assert_eq!((arith.delta(), arith.initial(), arith.is_decrement(), arith.vivify()), (1, 0, false, None));
    assert_eq!((arith.compare(), arith.token(), arith.expire()), (None, None, None));
    assert_eq!(one("mn\r\n"), Request::MetaNoop);
    assert!(matches!(one("me YWI= b\r\n"), Request::MetaDebug(key) if key.is_encoded()));
    assert_eq!(meta("mg key\r\n").token(), b"key");
}

#[test]
fn a_bad_meta_flag_names_its_fault() {
    let opaque = "x".repeat(meta::OPAQUE_BYTES_MAX);
    assert!(matches!(one(&format!("mg a O{opaque}\r\n")), Request::MetaGet(_)));
    for (line, error) in [
        ("mg a v v\r\n", Error::DuplicateFlag),
        ("mg a Z\r\n", Error::InvalidFlag),
        ("mg a !\r\n", Error::InvalidFlag),
        ("mg a \u{e9}\r\n", Error::InvalidFlag),
        ("mg a [\r\n", Error::InvalidFlag),
        ("mg a S100\r\n", Error::InvalidFlag),
        ("mg a T\r\n", Error::BadToken),
        ("mg a T1x\r\n", Error::BadToken),
        ("mg a C-1\r\n", Error::BadToken),
        ("mg YQ b\r\n", Error::KeyEncoding),
        ("md a v v\r\n", Error::InvalidOrDuplicateFlag),
        ("md a C\r\n", Error::InvalidOrDuplicateFlag),
        ("ma n D-1\r\n", Error::InvalidOrDuplicateFlag),
        ("ma n MX\r\n", Error::ArithMode),
        ("me YQ b\r\n", Error::BadFormat),
    ] {
        assert_eq!(bad(line), (error, 0, false), "{line:?}");
    }
    assert_eq!(bad(&format!("mg a Ox{opaque}\r\n")).0, Error::OpaqueTooLong);
}

#[test]
fn reply_lines_stay_within_their_stated_maxima() {
    let mut out = Vec::new();
    reply::value_header(&mut out, &[b'k'; KEY_BYTES_MAX], u32::MAX, u64::MAX, Some(u64::MAX));
    assert!(out.len() <= reply::VALUE_HEADER_BYTES_MAX);
    let key = [b'A'; KEY_BASE64_BYTES_MAX - 4];
    let line = format!("mg {}AA== k b O{}\r\n", std::str::from_utf8(&key).unwrap(), "o".repeat(meta::OPAQUE_BYTES_MAX));
    let Request::MetaGet(meta) = one(&line) else { panic!() };
    let mut out = Vec::new();
    let mut reply = MetaLine::with_value(&mut out, u64::MAX);
    reply.reflect(&meta);
    for letter in *b"cfhlst" {
        reply.number(letter, u64::MAX);
    }
    for mark in *b"WXZ" {
        reply.mark(mark);
    }
    reply.finish();
    assert!(out.len() <= reply::META_LINE_BYTES_MAX, "{}", out.len());
    assert!(out.starts_with(b"VA 18446744073709551615 kAAAA"));
    let facts = reply::ItemFacts {
        key: &[0; KEY_BYTES_MAX],
        exp: i64::MIN,
        la: u64::MAX,
        cas: u64::MAX,
        fetched: true,
        class: u64::MAX,
        size: u64::MAX,
        client_flags: u32::MAX,
    };
    let mut out = Vec::new();
    reply::metadump(&mut out, &facts);
    assert!(out.len() <= reply::ITEM_FACTS_BYTES_MAX, "{}", out.len());
}

#[test]
fn reply_lines_read_as_memcached_writes_them() {
    let mut out = Vec::new();
    reply::value_header(&mut out, b"a", 5, 2, None);
    reply::value_header(&mut out, b"a", 0, 0, Some(7));
    reply::number(&mut out, 42);
    reply::stat_u64(&mut out, "pid", 1);
    reply::stat(&mut out, "version", "1");
    reply::stat_class(&mut out, "items", 3, "number", 4);
    reply::stat_class(&mut out, "", 3, "chunk_size", 4);
    reply::uri_encoded(&mut out, b"a b%\xff~");
    reply::mgdump(&mut out, b"a");
    reply::mgdump(&mut out, b"a b");
    let expected = "VALUE a 5 2\r\nVALUE a 0 0 7\r\n42\r\nSTAT pid 1\r\nSTAT version 1\r\nSTAT items:3:number 4\r\n\
                    STAT 3:chunk_size 4\r\na%20b%25%FF~mg a\r\nmg YSBi b\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
