//! Tests of both sides of RESP, in particular of invalid and unusual requests and replies.

use super::client::{
    CommandLine, DEPTH_MAX, Decoder, Event, Garbage, Head, ParsedHead, ParsedValue, Redirect, Step, Value, get, head,
    lone_bulk, set, value,
};
use super::*;

fn parsed<'b>(bytes: &'b [u8], limits: &Limits) -> Parsed<'b> {
    Parser::new().parse(bytes, limits)
}

/// Returns the error line that a client receives before the connection closes.
fn fatal(bytes: &[u8], limits: &Limits) -> String {
    match parsed(bytes, limits) {
        Parsed::Fatal(error) => {
            let mut line = Vec::new();
            error.put(&mut line);
            String::from_utf8(line).unwrap()
        }
        other => panic!("{:?} is {other:?}", bytes.escape_ascii().to_string()),
    }
}

#[test]
fn protocol_errors_use_redis_wording() {
    let long = [b"*".as_slice(), &[b'1'; LINE_BYTES_MAX]].concat();
    let long_length = [b"*1\r\n$".as_slice(), &[b'1'; LINE_BYTES_MAX]].concat();
    let long_inline = [b'x'; LINE_BYTES_MAX];
    let tight = Limits { request_bytes_max: 30, ..Limits::REDIS };
    for (bytes, limits, text) in [
        (long_inline.as_slice(), Limits::REDIS, "too big inline request"),
        (b"SET a \"x\r\n", Limits::REDIS, "unbalanced quotes in request"),
        (&long, Limits::REDIS, "too big mbulk count string"),
        (b"*1048577\r\n", Limits::REDIS, "invalid multibulk length"),
        (b"*x\r\n", Limits::REDIS, "invalid multibulk length"),
        (b"*01\r\n", Limits::REDIS, "invalid multibulk length"),
        (b"*+1\r\n", Limits::REDIS, "invalid multibulk length"),
        (b"*\r\n", Limits::REDIS, "invalid multibulk length"),
        (b"*1\n", Limits::REDIS, "invalid multibulk length"),
        (b"*99999999999999999999\r\n", Limits::REDIS, "invalid multibulk length"),
        (b"*11\r\n", Limits::UNAUTHENTICATED, "unauthenticated multibulk length"),
        (b"*1048577\r\n", Limits::UNAUTHENTICATED, "invalid multibulk length"),
        (&long_length, Limits::REDIS, "too big bulk count string"),
        (b"*1\r\n:4\r\n", Limits::REDIS, "expected '$', got ':'"),
        (b"*1\r\n\n", Limits::REDIS, "expected '$', got ' '"),
        (b"*1\r\n$-1\r\n", Limits::REDIS, "invalid bulk length"),
        (b"*1\r\n$x\r\n", Limits::REDIS, "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", Limits::REDIS, "invalid bulk length"),
        (b"*1\r\n$16385\r\n", Limits::UNAUTHENTICATED, "unauthenticated bulk length"),
        (b"*1\r\n$4\r\nPINGxx", Limits::REDIS, "expected CRLF after an argument"),
        (b"*2\r\n$30\r\n", tight, "too big request"),
    ] {
        assert_eq!(fatal(bytes, &limits), format!("-ERR Protocol error: {text}\r\n"), "{}", bytes.escape_ascii());
        assert!(ProtocolError::ALL.iter().any(|error| text.starts_with(error.text())), "{text}");
    }
}

/// Iteration reads lengths that were accepted before without another check, in a way of its own.
#[test]
fn arguments_of_all_lengths_are_read_again_as_they_were_parsed() {
    let lengths = (0..120).chain([999, 1_000, 9_999, 123_456]);
    let words: Vec<Vec<u8>> = lengths.map(|length| vec![b"\r\n$1"[length % 4]; length]).collect();
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in &words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    let limits = Limits { long_bytes_min: u32::MAX, ..Limits::REDIS };
    let Parsed::Request { args, consumed } = parsed(&request, &limits) else { panic!("the request is whole") };
    assert_eq!(consumed, request.len());
    assert!(args.eq(words.iter().map(Vec::as_slice)));
}

#[test]
fn empty_request_is_skipped_without_reply() {
    for (bytes, taken) in [
        (b"\r\nPING\r\n".as_slice(), 2),
        (b"\n", 1),
        (b"  \t \r\n", 6),
        (b"*0\r\n", 4),
        (b"*-1\r\n*", 5),
        (b"\0GET a\r\n", 8),
    ] {
        assert_eq!(parsed(bytes, &Limits::REDIS), Parsed::Nothing { consumed: taken }, "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_person_may_type_a_command_with_quotes() {
    for (line, words) in [
        ("PING", vec!["PING"]),
        ("  set  a\tb  ", vec!["set", "a", "b"]),
        (r#"set a "b c""#, vec!["set", "a", "b c"]),
        (r#"set a "\x41\n\r\t\b\a\"\\\q\x4""#, vec!["set", "a", "A\n\r\t\u{8}\u{7}\"\\qx4"]),
        (r"set a 'b \'c\' \n'", vec!["set", "a", r"b 'c' \n"]),
        (r#"set "" ''"#, vec!["set", "", ""]),
        (r#"x"y z""#, vec!["xy z"]),
        ("a\0b", vec!["a"]),
    ] {
        let bytes = format!("{line}\r\n");
        let Parsed::Inline { inline, consumed } = parsed(bytes.as_bytes(), &Limits::REDIS) else { panic!("{line}") };
        assert_eq!((consumed, inline.words() as usize), (bytes.len(), words.len()), "{line}");
        let mut usual = Vec::new();
        inline.rewrite(&mut usual);
        let Parsed::Request { args, .. } = parsed(&usual, &Limits::REDIS) else { panic!("{line}") };
        assert!(args.eq(words.iter().map(|word| word.as_bytes())), "{line}");
    }
    for line in [r#"a "b"#, "a 'b", r#"a "b"c"#, "a 'b'c", r#"a "b\""#, r"a 'b\'", "a \"b\0\""] {
        assert!(fatal(format!("{line}\r\n").as_bytes(), &Limits::REDIS).contains("unbalanced quotes"), "{line}");
    }
    let worst = [&b"x ".repeat(LINE_BYTES_MAX / 2 - 1)[..], b"\r\n"].concat();
    let Parsed::Inline { inline, .. } = parsed(&worst, &Limits::REDIS) else { panic!() };
    let mut usual = Vec::new();
    inline.rewrite(&mut usual);
    assert!(usual.len() > 3 * LINE_BYTES_MAX && usual.len() <= INLINE_REWRITTEN_BYTES_MAX);
}

#[test]
fn a_request_in_many_pieces_is_not_looked_at_from_its_start_again() {
    let mut bytes = b"*1000\r\n".to_vec();
    (0..1000).for_each(|_| bytes.extend_from_slice(b"$3\r\nkey\r\n"));
    let mut parser = Parser::new();
    for end in 0..bytes.len() {
        assert_eq!(parser.parse(&bytes[..end], &Limits::REDIS), Parsed::Incomplete);
        // The parser has passed all arguments except the incomplete one.
        let behind = if end < 7 { 0 } else { 7 + (end - 7) / 9 * 9 };
        assert_eq!(parser.at, behind, "after {end} bytes");
    }
    let Parsed::Request { args, consumed } = parser.parse(&bytes, &Limits::REDIS) else { panic!() };
    assert_eq!((args.len(), consumed, parser), (1000, bytes.len(), Parser::new()));
}

#[test]
fn long_value_argument_is_streamed_but_long_first_argument_is_awaited() {
    let limits = Limits { long_bytes_min: 8, ..Limits::REDIS };
    for (bytes, behind) in
        [(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$8\r\n12".as_slice(), 0), (b"*5\r\n$3\r\nSET\r\n$1\r\na\r\n$8\r\n12", 2)]
    {
        let mut parser = Parser::new();
        let Parsed::Head { mut args, value_len: 8, left, consumed } = parser.parse(bytes, &limits) else { panic!() };
        let name = Some(b"SET".as_slice());
        assert_eq!((args.len(), args.next(), args.next(), args.next()), (2, name, Some(&b"a"[..]), None));
        assert_eq!((consumed, left), (24, behind));
        // A caller that declines the long argument waits until it is complete.
        assert_eq!(parser.parse(bytes, &Limits::REDIS), Parsed::Incomplete);
        let whole = [bytes, b"345678\r\n", &b"$1\r\nx\r\n".repeat(behind as usize)].concat();
        let Parsed::Request { args, consumed } = parser.parse(&whole, &Limits::REDIS) else { panic!() };
        assert_eq!((args.len(), consumed, parser), (3 + behind as usize, whole.len(), Parser::new()));
    }
    for bytes in [b"*1\r\n$8\r\n1234567".as_slice(), b"*2\r\n$8\r\n12345678", b"*2\r\n$1\r\na\r\n$7\r\n1234567\r"] {
        assert_eq!(parsed(bytes, &limits), Parsed::Incomplete, "{}", bytes.escape_ascii());
    }
}

#[test]
fn request_longer_than_buffer_is_parsed_argument_by_argument() {
    let limits = Limits { request_bytes_max: 26, ..Limits::REDIS };
    let bytes = b"*4\r\n$3\r\nDEL\r\n$1\r\na\r\n$2\r\nbc\r\n$30\r\nlong";
    let Parsed::Long { mut args, left, consumed } = parsed(bytes, &limits) else { panic!() };
    assert_eq!((args.len(), args.next(), args.wire_bytes()), (2, Some(b"DEL".as_slice()), 7));
    assert_eq!((left, consumed), (2, 20));
    // Wherever a full buffer ends, the parser never asks to wait for more.
    for max in 14..bytes.len() {
        let limits = Limits { request_bytes_max: max, ..Limits::REDIS };
        let shown = parsed(&bytes[..max], &limits);
        assert!(matches!(shown, Parsed::Long { .. }), "{max}: {shown:?}");
        assert_eq!(parsed(bytes, &limits), shown, "{max}");
    }
    let rest = &bytes[consumed..];
    assert_eq!(argument(rest, &limits), Argument::Whole { bytes: b"bc", consumed: 8 });
    assert_eq!(argument(&rest[8..], &limits), Argument::Long { len: 30, consumed: 5 });
    assert_eq!(argument(&rest[8..], &Limits::REDIS), Argument::Incomplete { want: 37 });
    for (bytes, want) in [(&b""[..], 0), (b"$2", 0), (b"$2\r", 0), (b"$2\r\n", 8), (b"$2\r\nbc\r", 8)] {
        assert_eq!(argument(bytes, &limits), Argument::Incomplete { want });
    }
    for (bytes, error) in [
        (&b"+2\r\n"[..], ProtocolError::ExpectedBulk(b'+')),
        (b"$-1\r\n", ProtocolError::Length),
        (b"$2\r\nbcde", ProtocolError::ArgumentEnd),
    ] {
        assert_eq!(argument(bytes, &limits), Argument::Fatal(error));
    }
}

#[test]
fn requests_are_written_as_redis_documents_them() {
    let mut out = Vec::new();
    get(&mut out, b"a");
    set(&mut out, b"a", b"12345678901", None);
    set(&mut out, b"a", b"", Some(60_000));
    CommandLine::new(&mut out, 3).number(0).number(-12).number(i64::MIN);
    CommandLine::new(&mut out, 1).arg_head(5);
    let expected = "*2\r\n$3\r\nGET\r\n$1\r\na\r\n\
                    *3\r\n$3\r\nSET\r\n$1\r\na\r\n$11\r\n12345678901\r\n\
                    *5\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n$2\r\nPX\r\n$5\r\n60000\r\n\
                    *3\r\n$1\r\n0\r\n$3\r\n-12\r\n$20\r\n-9223372036854775808\r\n\
                    *1\r\n$5\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

/// Writes one reply of each type.
fn one_of_each(version: Version) -> String {
    let mut out = Vec::new();
    let sink = &mut out;
    reply::simple(sink, b"OK");
    reply::error(sink, b"ERR no");
    reply::bulk_error(sink, version, b"ERR a\r\nb");
    reply::int(sink, i64::MIN);
    reply::bulk(sink, b"x\r\n");
    reply::null(sink, version);
    reply::null_array(sink, version);
    reply::boolean(sink, version, true);
    reply::boolean(sink, version, false);
    for value in [0.0, -0.0, 3.0, 0.1, -2.5e-7, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        reply::double(sink, version, value);
    }
    reply::big_number(sink, version, b"-123");
    reply::verbatim(sink, version, b"txt", b"hi");
    reply::array(sink, 0);
    reply::map(sink, version, 0);
    reply::set(sink, version, 0);
    reply::push(sink, version, 0);
    String::from_utf8(out).unwrap()
}

#[test]
fn each_type_has_its_form_in_either_version() {
    let version_2 = "+OK\r\n-ERR no\r\n-ERR a  b\r\n:-9223372036854775808\r\n$3\r\nx\r\n\r\n$-1\r\n*-1\r\n:1\r\n:0\r\n\
                     $1\r\n0\r\n$2\r\n-0\r\n$1\r\n3\r\n$3\r\n0.1\r\n$7\r\n-2.5e-7\r\n$6\r\n1e+300\r\n$3\r\ninf\r\n\
                     $4\r\n-inf\r\n$3\r\nnan\r\n$4\r\n-123\r\n$2\r\nhi\r\n*0\r\n*0\r\n*0\r\n*0\r\n";
    assert_eq!(one_of_each(Version::Resp2), version_2);
    let version_3 = "+OK\r\n-ERR no\r\n!8\r\nERR a\r\nb\r\n:-9223372036854775808\r\n$3\r\nx\r\n\r\n_\r\n_\r\n\
                     #t\r\n#f\r\n,0\r\n,-0\r\n,3\r\n,0.1\r\n,-2.5e-7\r\n,1e+300\r\n,inf\r\n,-inf\r\n,nan\r\n\
                     (-123\r\n=6\r\ntxt:hi\r\n*0\r\n%0\r\n~0\r\n>0\r\n";
    assert_eq!(one_of_each(Version::Resp3), version_3);
}

#[test]
fn every_kind_of_garbage_has_its_name() {
    let long = [b"+".as_slice(), &[b'x'; LINE_BYTES_MAX]].concat();
    let deep = [b"*1\r\n".repeat(DEPTH_MAX + 1), b":1\r\n".to_vec()].concat();
    let cases: &[(&[u8], Garbage)] = &[
        (b"HTTP", Garbage::UnknownType),
        (b"STORED\r\n", Garbage::UnknownType),
        (&long, Garbage::LineTooLong),
        (b"+OK\n", Garbage::LineEnd),
        (b"+O\rK\r\n", Garbage::LineEnd),
        (b":1x\r\n", Garbage::Number),
        (b":\r\n", Garbage::Number),
        (b":+1\r\n", Garbage::Number),
        (b":9223372036854775808\r\n", Garbage::Number),
        (b"#1\r\n", Garbage::Number),
        (b",0x1\r\n", Garbage::Number),
        (b",infinity\r\n", Garbage::Number),
        (b"(1.5\r\n", Garbage::Number),
        (b"(-\r\n", Garbage::Number),
        (b"_x\r\n", Garbage::Length),
        (b"$-2\r\n", Garbage::Length),
        (b"$01\r\n", Garbage::Length),
        (b"!-1\r\n", Garbage::Length),
        (b"%-1\r\n", Garbage::Length),
        (b"*x\r\n", Garbage::Length),
        (b"$4294967294\r\n", Garbage::BulkTooLong),
        (b"*2147483648\r\n", Garbage::TooManyValues),
        (b"%1073741824\r\n", Garbage::TooManyValues),
        (&deep, Garbage::TooDeep),
        (b"$?\r\n", Garbage::Streamed),
        (b"*?\r\n", Garbage::Streamed),
        (b";4\r\n", Garbage::Streamed),
        (b"$1\r\nxyz", Garbage::BulkEnd),
        (b"*1\r\n>1\r\n", Garbage::NestedPush),
        (b"|1\r\n+a\r\n+b\r\n>1\r\n", Garbage::NestedPush),
        (b"=3\r\n", Garbage::Verbatim),
        (b"=5\r\ntxtxy\r\n", Garbage::Verbatim),
    ];
    for (bytes, garbage) in cases {
        assert_eq!(value(bytes), ParsedValue::Garbage(*garbage), "{}", bytes[..bytes.len().min(40)].escape_ascii());
    }
    for garbage in Garbage::ALL {
        assert!(cases.iter().any(|case| case.1 == garbage) && !garbage.text().is_empty(), "{garbage:?}");
    }
    let mut decoder = Decoder::new();
    decoder.step(b"*2147483647\r\n").unwrap();
    assert_eq!(decoder.step(b"*2147483647\r\n"), Err(Garbage::TooManyValues));
}

#[test]
fn reply_nesting_is_accepted_up_to_limit_only() {
    let deep = |levels: usize| [b"*1\r\n".repeat(levels), b":7\r\n".to_vec()].concat();
    let bytes = deep(DEPTH_MAX);
    let ParsedValue::Value { mut value, consumed } = value(&bytes) else { panic!() };
    assert_eq!(consumed, bytes.len());
    for _ in 0..DEPTH_MAX {
        value = value.items().next().unwrap();
    }
    assert_eq!(value, Value::Int(7));
}

#[test]
fn a_message_out_of_band_is_a_reply_of_its_own() {
    let bytes = b">2\r\n+message\r\n$1\r\na\r\n+OK\r\n";
    let ParsedValue::Value { value: Value::Push(items), consumed } = value(bytes) else { panic!() };
    assert!(items.eq([Value::Simple(b"message"), Value::Bulk(b"a")]));
    assert!(matches!(value(&bytes[consumed..]), ParsedValue::Value { value: Value::Simple(b"OK"), .. }));
    let (mut decoder, mut at, mut steps) = (Decoder::new(), 0, 0);
    while decoder.left() > 0 {
        let step = decoder.step(&bytes[at..]).unwrap().unwrap();
        (at, steps) = (at + step.consumed, steps + 1);
        assert_eq!(step.last, at == consumed);
    }
    assert_eq!((at, steps), (consumed, 5));
}

#[test]
fn attributes_are_omitted_from_value_tree() {
    let bytes = b"|1\r\n+ttl\r\n*2\r\n:1\r\n:2\r\n*3\r\n:1\r\n|2\r\n+a\r\n:1\r\n+b\r\n:2\r\n:2\r\n$1\r\nx\r\n";
    let ParsedValue::Value { value: Value::Array(items), consumed } = value(bytes) else { panic!() };
    assert_eq!(consumed, bytes.len());
    assert!(items.eq([Value::Int(1), Value::Int(2), Value::Bulk(b"x")]));
}

#[test]
fn strings_and_maps_are_readable_from_value_tree() {
    let ParsedValue::Value { value: map, .. } = value(b"%2\r\n+a\r\n:1\r\n=5\r\ntxt:b\r\n_\r\n") else { panic!() };
    let texts: Vec<_> = map.items().map(|item| item.text()).collect();
    assert_eq!(texts, [Some(b"a".as_slice()), None, Some(b"b"), None]);
    assert_eq!((map.text(), Value::Int(1).items().len()), (None, 0));
}

#[test]
fn a_string_of_four_gibibytes_passes_through_a_small_buffer() {
    let mut decoder = Decoder::new();
    let len = u32::MAX - 2;
    let line = format!("${len}\r\n");
    assert_eq!(decoder.step(line.as_bytes()).unwrap().unwrap().event, Event::Head(Head::Bulk(len)));
    let buffer = vec![b'\r'; 1 << 20];
    let mut bytes = 0;
    while decoder.rest() > 2 {
        let Step { consumed, last: false, .. } = decoder.step(&buffer).unwrap().unwrap() else { panic!() };
        bytes += consumed as u64;
    }
    assert_eq!((bytes, decoder.step(b"\r")), (u64::from(len), Ok(None)));
    assert!(matches!(decoder.step(b"\r\n"), Ok(Some(Step { event: Event::BulkEnd, consumed: 2, last: true }))));
}

#[test]
fn reply_fast_paths_match_general_parser() {
    let mut short = 0;
    for first in ["$", ":", "*", "+", "%"] {
        for text in ["0", "1", "01", "-1", "999999999", "1000000000", "4294967295", "OK", "", "1 ", "\r", "-0"] {
            for end in ["\r\n", "\n", "\r", "", "\r\nx\r\n", "\r\n\r\n"] {
                let bytes = format!("{first}{text}{end}");
                assert_eq!(head(bytes.as_bytes()), client::any_head(bytes.as_bytes()), "{bytes:?}");
                if let Some((bulk, consumed)) = lone_bulk(bytes.as_bytes()) {
                    short += 1;
                    assert_eq!(value(bytes.as_bytes()), ParsedValue::Value { value: Value::Bulk(bulk), consumed });
                }
            }
        }
    }
    assert_eq!(short, 2);
    assert_eq!(head(b""), ParsedHead::Incomplete);
}

#[test]
fn a_decoder_is_two_numbers() {
    for mut decoder in [Decoder::new(), Decoder::default()] {
        assert_eq!(Decoder::resume(decoder.state()), decoder);
        decoder.step(b"*2147483647\r\n").unwrap();
        assert_eq!(Decoder::resume(decoder.state()), decoder);
        decoder.step(b"$5\r\n").unwrap();
        assert_eq!((Decoder::resume(decoder.state()), decoder.rest()), (decoder, 7));
    }
}

#[test]
fn cluster_redirect_is_parsed() {
    let moved = Redirect::new(b"MOVED 3999 127.0.0.1:6381").unwrap();
    assert_eq!(moved, Redirect { slot: 3999, host: b"127.0.0.1", port: 6381, once: false });
    let ask = Redirect::new(b"ASK 16383 2001:db8::1:6381").unwrap();
    assert_eq!(ask, Redirect { slot: 16383, host: b"2001:db8::1", port: 6381, once: true });
    assert_eq!(Redirect::new(b"MOVED 1 :7000").unwrap().host, b"");
    for error in ["ERR no", "MOVED", "MOVED 16384 h:1", "MOVED 1 h", "MOVED 1 h:", "ASK 1 h:65536", "MOVED x h:1", ""] {
        assert_eq!(Redirect::new(error.as_bytes()), None, "{error}");
    }
}

#[test]
fn bulk_string_fast_write_matches_appended_form() {
    for len in [0, 1, 9, 10, 99, 100, 999, 1000, 65_535] {
        let bytes = vec![b'x'; len];
        let (mut put, mut room) = (Vec::new(), vec![b'?'; len + 30]);
        reply::bulk(&mut put, &bytes);
        let written = reply::write_bulk(&mut room, &bytes);
        assert!(room[..written] == put && room[written..].iter().all(|byte| *byte == b'?'), "{len}");
    }
}
