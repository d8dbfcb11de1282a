//! Tests of gRPC's framing: what clients send that is unusual or wrong, and the bytes of replies.

use base::prng::Prng;

use super::reply::{
    self, HEADERS_BLOCK, OK_TRAILERS_BLOCK, TRAILERS_BYTES_MAX, UNARY_HEAD_BYTES_MAX, UNARY_TAIL_BYTES,
};
use super::*;
use crate::http2::frame::{FRAME_HEADER_BYTES, FrameHeader, PREFACE, flag, kind, put_header, put_settings};
use crate::http2::hpack::{FieldList, FieldName, HpackDecoder, encode};
use crate::http2::{ConnectionLimits, FrameEvent, ServerConnection, receive};

#[test]
fn timeout_has_up_to_eight_digits_and_a_unit() {
    for (value, ns) in [
        ("1H", 3_600_000_000_000),
        ("2M", 120_000_000_000),
        ("3S", 3_000_000_000),
        ("250m", 250_000_000),
        ("99999999u", 99_999_999_000),
        ("0n", 0),
        ("00000010n", 10),
        ("99999999H", u64::MAX),
        ("5000000H", 18_000_000_000_000_000_000),
    ] {
        assert_eq!(parse_timeout_ns(value.as_bytes()), Some(ns), "{value}");
    }
    for value in ["", "1", "S", "100000000m", "-1S", "+1S", "1s", "1 S", "1.5S", "1SS", "1\u{b5}"] {
        assert_eq!(parse_timeout_ns(value.as_bytes()), None, "{value}");
    }
}

#[test]
fn statuses_have_their_codes() {
    for (code, status) in Status::ALL.into_iter().enumerate() {
        assert_eq!((usize::from(status.code()), status.digits()), (code, &*code.to_string()));
        assert_eq!(Status::parse(status.digits().as_bytes()), Some(status));
    }
    for digits in ["", "17", "00", "01", "-1", "x"] {
        assert_eq!(Status::parse(digits.as_bytes()), None);
    }
    assert_eq!(Status::Cancelled.name(), "CANCELLED");
}

#[test]
fn message_text_survives_percent_encoding() {
    for (text, encoded) in [
        ("plain text", "plain text"),
        ("100%", "100%25"),
        ("a\r\nb", "a%0D%0Ab"),
        ("\u{e9}", "%C3%A9"),
        ("~\u{7f}", "~%7F"),
        ("", ""),
    ] {
        let (mut out, mut back) = (Vec::new(), Vec::new());
        percent::encode(&mut out, text.as_bytes());
        assert_eq!(
            (String::from_utf8_lossy(&out).as_ref(), out.len()),
            (encoded, percent::encoded_len(text.as_bytes()))
        );
        percent::decode(&mut back, &out);
        assert_eq!(back, text.as_bytes());
    }
    for broken in ["%", "%4", "%zz", "a%", "100% of"] {
        let mut back = Vec::new();
        percent::decode(&mut back, broken.as_bytes());
        assert_eq!(back, broken.as_bytes());
    }
}

fn messages(body: &[u8], cuts: &[usize]) -> Result<Vec<(bool, Vec<u8>)>, MessageError> {
    let (mut reader, mut messages, mut from) = (MessageReader::new(), Vec::new(), 0);
    let mut open: Option<(bool, u32, Vec<u8>)> = None;
    for cut in cuts.iter().copied().chain([body.len()]) {
        let mut part = &body[from..cut];
        from = cut;
        loop {
            match reader.next(&mut part)? {
                MessagePart::More => break,
                MessagePart::Start { compressed, len } => open = Some((compressed, len, Vec::new())),
                MessagePart::Bytes { bytes, last } => {
                    open.as_mut().unwrap().2.extend_from_slice(bytes);
                    if last {
                        let (compressed, len, message) = open.take().unwrap();
                        assert_eq!(message.len(), len as usize);
                        messages.push((compressed, message));
                    }
                }
            }
        }
        assert!(part.is_empty());
    }
    reader.finish()?;
    Ok(messages)
}

#[test]
fn messages_cut_anywhere_are_the_same_messages() {
    let mut body = Vec::new();
    let expected = [(false, b"first".to_vec()), (true, Vec::new()), (false, Vec::new()), (true, vec![9; 300])];
    for (compressed, message) in &expected {
        body.push(u8::from(*compressed));
        body.extend_from_slice(&(message.len() as u32).to_be_bytes());
        body.extend_from_slice(message);
    }
    assert_eq!(messages(&body, &(1..body.len()).collect::<Vec<_>>()), Ok(expected.to_vec()));
    for cut in 0..=body.len() {
        assert_eq!(messages(&body, &[cut]), Ok(expected.to_vec()), "cut at {cut}");
        let is_end = [0, 10, 15, 20, body.len()].contains(&cut);
        assert_eq!(messages(&body[..cut], &[]).is_ok(), is_end, "ended at {cut}");
    }
    assert_eq!(whole_message(&body[..10]), Some((false, &b"first"[..])));
    assert_eq!(whole_message(&body[10..15]), Some((true, &b""[..])));
    assert!(whole_message(&body).is_none() && whole_message(&body[..9]).is_none() && whole_message(b"").is_none());
}

#[test]
fn message_that_is_too_long_or_has_an_unknown_flag_is_an_error_before_its_first_byte() {
    let prefix = |flag, len: u32| [&[flag][..], &len.to_be_bytes()].concat();
    assert_eq!(messages(&prefix(0, MESSAGE_BYTES_MAX + 1), &[]), Err(MessageError::TooLong));
    assert_eq!(messages(&prefix(0, u32::MAX), &[]), Err(MessageError::TooLong));
    assert_eq!(messages(&prefix(2, 0), &[]), Err(MessageError::Flag));
    assert_eq!(messages(&prefix(0, MESSAGE_BYTES_MAX), &[]), Err(MessageError::Truncated));
    assert_eq!(whole_message(&prefix(2, 0)), None);
}

fn fields(fields: &[(&str, &str)]) -> FieldList {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| encode::literal(&mut block, name.as_bytes(), value.as_bytes()));
    let mut list = FieldList::new(1000);
    HpackDecoder::new().decode(&block, &mut list).unwrap();
    list
}

#[test]
fn request_that_is_no_call_is_refused_as_the_mapping_asks() {
    let call = |method, path, content_type, timeout| {
        let list =
            fields(&[(":method", method), (":path", path), ("content-type", content_type), ("grpc-timeout", timeout)]);
        Call::of(&list).map(|call| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            (text(call.service), text(call.method), call.timeout_ns)
        })
    };
    let expected = Ok(("a.b.Cache".to_owned(), "Get".to_owned(), Some(1_000_000)));
    for content_type in [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc;x=y",
        "application/grpc+proto;x=y",
        "Application/gRPC",
    ] {
        assert_eq!(call("POST", "/a.b.Cache/Get", content_type, "1m"), expected, "{content_type}");
    }
    for content_type in [
        "application/json",
        "application/grpc+json",
        "application/grpc+",
        "application/grpc+protox",
        "application/grpc-web",
        "application/grpcx",
        "",
        "application/grp",
    ] {
        assert_eq!(call("POST", "/a/b", content_type, "1m"), Err(Refusal::ContentType), "{content_type}");
    }
    assert_eq!(call("GET", "/a/b", "application/grpc", "1m"), Err(Refusal::Method));
    assert_eq!(call("POST", "/a/b", "application/grpc", "1x"), Err(Refusal::Timeout));
    for path in ["a/b", "/", "/a", "/a/", "//b", "", "*"] {
        assert_eq!(call("POST", path, "application/grpc", "1m"), Err(Refusal::Path), "{path}");
    }
    for (name, value) in [("cache", "a"), ("grpc-timeout", "1m")] {
        let base = [(":method", "POST"), (":path", "/a/b"), ("content-type", "application/grpc"), (name, value)];
        assert!(Call::of(&fields(&base)).is_ok());
        let twice = fields(&[&base[..], &[(name, value)]].concat());
        assert_eq!(Call::of(&twice), Err(Refusal::Duplicate), "{name}");
    }
    let long = fields(&[(":method", "POST"), ("x", &"y".repeat(2000))]);
    assert_eq!(Call::of(&long), Err(Refusal::TooLong));
    let list = fields(&[(":method", "POST"), (":path", "/a/b"), ("content-type", "application/grpc")]);
    assert_eq!(Call::of(&list).unwrap().timeout_ns, None);
}

/// Opens a connection with requests on the streams 1, 3, 5 ... that are complete.
fn connection(streams: u32) -> ServerConnection {
    let mut bytes = PREFACE.to_vec();
    put_settings(&mut bytes, &[]);
    for stream in 0..streams {
        let block = [0x83, 0x86, 0x84];
        put_header(&mut bytes, kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 2 * stream + 1, block.len());
        bytes.extend_from_slice(&block);
    }
    let (mut connection, mut list) = (ServerConnection::new(ConnectionLimits::DEFAULT), FieldList::new(1000));
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let received = receive(&mut connection, rest, &mut list, &mut Vec::new());
        assert!(!matches!(received.event, FrameEvent::ConnectionError { .. }));
        rest = &rest[received.consumed..];
    }
    connection
}

/// Describes frames as a client reads them.
fn described(bytes: &[u8]) -> Vec<String> {
    let (mut rest, mut described, mut decoder) = (bytes, Vec::new(), HpackDecoder::new());
    while let Some(header) = FrameHeader::parse(rest) {
        let (payload, behind) = rest[FRAME_HEADER_BYTES..].split_at(header.len);
        rest = behind;
        let end = if header.has(flag::END_STREAM) { " end" } else { "" };
        described.push(match header.kind {
            kind::HEADERS => {
                assert!(header.has(flag::END_HEADERS));
                let mut list = FieldList::new(16 * 1024);
                decoder.decode(payload, &mut list).unwrap();
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let fields: Vec<String> = list.iter().map(|(name, value)| text(name) + "=" + &text(value)).collect();
                format!("{}: {}{end}", header.stream, fields.join(", "))
            }
            _ => format!("{}: {}{end}", header.stream, payload.escape_ascii()),
        });
    }
    assert!(rest.is_empty());
    described
}

#[test]
fn unary_reply_is_three_frames_around_the_message() {
    let (mut connection, mut sent) = (connection(2), Vec::new());
    assert!(reply::begin_unary(&mut connection, 1, 5, &mut sent));
    assert!(sent.len() <= UNARY_HEAD_BYTES_MAX);
    sent.extend_from_slice(b"hello");
    let before = sent.len();
    reply::end_unary(1, &mut sent);
    assert_eq!(sent.len() - before, UNARY_TAIL_BYTES);
    let frames =
        ["1: :status=200, content-type=application/grpc", "1: \\x00\\x00\\x00\\x00\\x05hello", "1: grpc-status=0 end"];
    assert_eq!(described(&sent), frames);
    assert!(!reply::begin_unary(&mut connection, 1, 5, &mut sent), "the stream is closed");

    // The same by parts.
    let mut parts = Vec::new();
    assert!(reply::headers(&mut connection, 3, &mut parts));
    assert_eq!(connection.send_data(3, b"\0\0\0\0\x05hello", false, &mut parts), 10);
    assert!(reply::trailers(&mut connection, 3, Status::Ok, "", &[], &mut parts));
    assert_eq!(described(&parts), frames.map(|frame| frame.replace("1: ", "3: ")));
    assert_eq!(connection.open_streams(), 0);
}

#[test]
fn reply_beyond_the_window_or_a_frame_is_sent_by_parts() {
    let (mut connection, mut sent) = (connection(5), Vec::new());
    assert!(!reply::begin_unary(&mut connection, 1, 16_384 - 4, &mut sent) && sent.is_empty());
    for stream in [1, 3, 5] {
        assert!(reply::begin_unary(&mut connection, stream, 16_384 - 5, &mut sent));
    }
    assert_eq!(connection.window(7), Some(65_535 - 3 * 16_384));
    assert!(!reply::begin_unary(&mut connection, 7, 16_384 - 5, &mut sent));
    assert!(reply::headers(&mut connection, 7, &mut sent));
    assert!(!reply::begin_unary(&mut connection, 7, 1, &mut sent), "header fields are sent once");
}

#[test]
fn failure_is_one_block_and_its_text_is_bounded() {
    let (mut connection, mut sent) = (connection(5), Vec::new());
    let metadata = [("err", &b"no such cache"[..]), ("long", &[b'x'; 8000]), ("more", b"1")];
    assert!(reply::trailers_only(
        &mut connection,
        1,
        Status::NotFound,
        "cache \u{201c}a\u{201d}",
        &metadata,
        &mut sent
    ));
    assert_eq!(
        described(&sent),
        ["1: :status=200, content-type=application/grpc, grpc-status=5, grpc-message=cache %E2%80%9Ca%E2%80%9D, \
          err=no such cache, more=1 end"]
    );
    sent.clear();
    let text = "\u{e9}".repeat(10_000);
    let metadata = [("x", &[b'x'; 3000][..]), ("y", &[b'y'; 3000])];
    assert!(reply::trailers_only(&mut connection, 3, Status::Internal, &text, &metadata, &mut sent));
    assert!(sent.len() <= TRAILERS_BYTES_MAX);
    assert!(described(&sent)[0].contains(&"%C3%A9".repeat(256)) && !described(&sent)[0].contains("y=yyy"));
    for (stream, refusal, status) in [(5, Refusal::Method, "405, allow=POST"), (7, Refusal::ContentType, "415")] {
        sent.clear();
        assert!(reply::refuse(&mut connection, stream, refusal, &mut sent));
        let text = described(&sent).concat();
        assert!(text.contains(&format!(":status={status}, content-type")) && text.contains("grpc-status=13"), "{text}");
    }
    for refusal in Refusal::ALL {
        assert!(!refusal.text().is_empty() && refusal.status() != Status::Ok);
    }
}

#[test]
fn constants_are_what_the_encoder_writes() {
    let mut block = Vec::new();
    encode::indexed(&mut block, 8);
    encode::with_indexed_name(&mut block, 31, b"application/grpc");
    assert_eq!(block, HEADERS_BLOCK);
    block.clear();
    encode::literal(&mut block, b"grpc-status", b"0");
    assert_eq!(block, OK_TRAILERS_BLOCK);
    let list = fields(&[("grpc-status", "0")]);
    assert_eq!(list.value(FieldName::GrpcStatus), Some(&b"0"[..]));
}

#[test]
fn random_bodies_never_panic() {
    let mut prng = Prng::new(5);
    let mut read = 0;
    for _ in 0..20_000 {
        let mut body = vec![0; prng.below(30) as usize];
        body.iter_mut().for_each(|byte| *byte = if prng.chance(1, 8) { prng.below(4) as u8 } else { 0 });
        let cut = prng.below(body.len() as u64 + 1) as usize;
        assert_eq!(messages(&body, &[cut]), messages(&body, &[]));
        read += messages(&body, &[]).map_or(0, |messages| messages.len());
    }
    assert!(read > 20, "{read} messages are too few to prove anything");
}
