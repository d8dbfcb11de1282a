//! Tests of a client's connection: against a server's connection, and against frames that break the protocol.

use base::prng::Prng;

use super::super::connection::{ConnectionLimits, ServerConnection};
use super::super::event::FrameEvent;
use super::super::frame::{
    ErrorCode, FRAME_HEADER_BYTES, PAYLOAD_BYTES_MAX, STREAM_ID_MAX, flag, kind, put_goaway, put_header,
    put_rst_stream, put_settings, put_window_update, setting,
};
use super::super::hpack::{FieldList, FieldName, encode};
use super::super::receive;
use super::*;

/// A connection of a client with what the caller has seen of it.
struct Client {
    connection: ClientConnection,
    fields: FieldList,
    out: Vec<u8>,
    events: Vec<String>,
}

fn block() -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    encode::with_indexed_name(&mut block, 4, b"/gannet.v1.Cache/Get");
    encode::with_indexed_name(&mut block, 31, b"application/grpc");
    block
}

impl Client {
    fn new() -> Self {
        let mut out = Vec::new();
        let connection = ClientConnection::begin(ClientLimits::DEFAULT, &mut out);
        Self { connection, fields: FieldList::new(16 * 1024), out: Vec::new(), events: Vec::new() }
    }

    /// Creates a client whose server has sent `settings`.
    fn with(settings: &[(u16, u32)]) -> Self {
        let mut client = Self::new();
        let mut input = Vec::new();
        put_settings(&mut input, settings);
        assert_eq!(client.receive(&input), 0);
        assert_eq!(client.events, ["ready"]);
        client.events.clear();
        client.out.clear();
        client
    }

    fn open(&mut self) -> u32 {
        self.connection.open(&block(), true, 7, &mut self.out).expect("there is room")
    }

    /// Handles all whole frames. Returns the number of bytes that are left.
    fn receive(&mut self, mut input: &[u8]) -> usize {
        loop {
            let received = receive_reply(&mut self.connection, input, &mut self.fields, &mut self.out);
            input = &input[received.consumed..];
            let text = match received.event {
                ReplyEvent::Incomplete => return input.len(),
                ReplyEvent::Nothing => continue,
                ReplyEvent::Ready => "ready".to_owned(),
                ReplyEvent::Headers { stream, user, end_stream } => {
                    assert_eq!(user, 7);
                    format!("headers {stream}{}", if end_stream { " end" } else { "" })
                }
                ReplyEvent::Data { stream, bytes, end_stream, .. } => {
                    format!("data {stream} {}{}", bytes.len(), if end_stream { " end" } else { "" })
                }
                ReplyEvent::Reset { stream, code, .. } => format!("reset {stream} {}", code.0),
                ReplyEvent::WindowOpened { stream } => format!("window {}", stream.unwrap_or(0)),
                ReplyEvent::GoAway { last_stream, code } => format!("goaway {last_stream} {}", code.0),
                ReplyEvent::ConnectionError { code, text } => {
                    self.events.push(format!("error {}: {text}", code.0));
                    return 0;
                }
            };
            self.events.push(text);
        }
    }

    /// Asserts that `input` ends the connection with `code`, by a GOAWAY frame.
    fn assert_fails(mut self, input: &[u8], code: ErrorCode, text: &str) {
        self.receive(input);
        let last = self.events.last().cloned().unwrap_or_default();
        assert!(last.starts_with(&format!("error {}: ", code.0)) && last.contains(text), "{last}, not {text}");
        assert!(self.out.windows(4).any(|bytes| bytes == code.0.to_be_bytes()), "GOAWAY has the code");
        assert!(self.connection.is_ending() && self.connection.room() == 0);
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_header(&mut out, kind, flags, stream, payload.len());
    out.extend_from_slice(payload);
    out
}

fn reply_headers(stream: u32, flags: u8) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS | flags, stream, b"\x88")
}

#[test]
fn request_before_the_servers_settings_is_not_sent() {
    let mut client = Client::new();
    assert_eq!(client.connection.room(), 0);
    assert_eq!(client.connection.open(&block(), true, 0, &mut client.out), None);
    assert!(client.out.is_empty());
    let mut client = Client::with(&[(setting::MAX_CONCURRENT_STREAMS, 2)]);
    assert_eq!((client.open(), client.open(), client.connection.room()), (1, 3, 0));
    assert_eq!(client.connection.open_whole(&block(), 1, 0, &mut client.out), None);
    client.receive(&reply_headers(1, flag::END_STREAM));
    assert_eq!((client.events, client.connection.room()), (vec!["headers 1 end".to_owned()], 1));
}

#[test]
fn client_and_server_agree_about_every_byte_of_every_window() {
    let mut prng = Prng::new(3);
    let mut client = Client::new();
    let mut to_server = Vec::new();
    client.connection = ClientConnection::begin(ClientLimits::DEFAULT, &mut to_server);
    let mut server = ServerConnection::new(ConnectionLimits::DEFAULT);
    let (mut server_fields, mut to_client) = (FieldList::new(16 * 1024), Vec::new());
    // Requests and replies of up to 400 KB, of which both sides count the bytes that arrived.
    let (mut unsent, mut unanswered) = (Vec::<(u32, usize)>::new(), Vec::<(u32, usize)>::new());
    let (mut sent, mut come, mut replied, mut read, mut ends) = (0, 0, 0, 0, 0);
    let reply_block = b"\x88\x0f\x10\x10application/grpc";
    for turn in 0..20_000 {
        if turn < 2000 && client.connection.room() > 0 && unsent.len() < 20 {
            let len = prng.below(400_000) as usize;
            let stream = client.connection.open(&block(), false, 7, &mut to_server).expect("there is room");
            unsent.push((stream, len));
        }
        unsent.retain_mut(|(stream, left)| {
            let part = client.connection.send_data(*stream, &vec![0; *left], true, &mut to_server);
            (*left, sent) = (*left - part, sent + part);
            *left > 0
        });
        let pass = to_server.len().min(prng.below(40_000) as usize);
        let mut input = &to_server[..pass];
        loop {
            let received = receive(&mut server, input, &mut server_fields, &mut to_client);
            input = &input[received.consumed..];
            match received.event {
                FrameEvent::Incomplete => break,
                FrameEvent::Data { stream, bytes, end_stream, .. } => {
                    come += bytes.len();
                    server.consumed(stream, bytes.len(), &mut to_client);
                    if end_stream {
                        assert!(server.send_headers(stream, reply_block, false, &mut to_client));
                        unanswered.push((stream, prng.below(400_000) as usize));
                    }
                }
                FrameEvent::ConnectionError { text, .. } => panic!("{text}"),
                _ => {}
            }
        }
        to_server.drain(..pass - input.len());
        unanswered.retain_mut(|(stream, left)| {
            let part = server.send_data(*stream, &vec![0; *left], false, &mut to_client);
            (*left, replied) = (*left - part, replied + part);
            *left > 0 || !server.send_headers(*stream, b"\0\x0bgrpc-status\x010", true, &mut to_client)
        });
        let pass = to_client.len().min(prng.below(40_000) as usize);
        let mut input = &to_client[..pass];
        loop {
            let received = receive_reply(&mut client.connection, input, &mut client.fields, &mut to_server);
            input = &input[received.consumed..];
            match received.event {
                ReplyEvent::Incomplete => break,
                ReplyEvent::Data { bytes, .. } => read += bytes.len(),
                ReplyEvent::Headers { end_stream: true, .. } => {
                    assert_eq!(client.fields.value(FieldName::GrpcStatus), Some(&b"0"[..]));
                    ends += 1;
                }
                ReplyEvent::ConnectionError { text, .. } => panic!("{text}"),
                _ => {}
            }
        }
        to_client.drain(..pass - input.len());
        if turn >= 2000 && server.open_streams() + client.connection.open_streams() == 0 {
            break;
        }
    }
    assert!(ends > 50 && sent > 10_000_000, "{ends} replies and {sent} bytes are too few to prove anything");
    assert_eq!((sent, replied, client.connection.open_streams()), (come, read, 0));
}

#[test]
fn lowered_initial_window_makes_windows_negative_until_they_are_opened() {
    let mut client = Client::with(&[]);
    let stream = client.connection.open(&block(), false, 7, &mut client.out).expect("there is room");
    assert_eq!(client.connection.send_data(stream, &[0; 50_000], false, &mut client.out), 50_000);
    let mut input = Vec::new();
    put_settings(&mut input, &[(setting::INITIAL_WINDOW_SIZE, 10_000)]);
    put_window_update(&mut input, stream, 30_000);
    client.receive(&input);
    assert_eq!(client.connection.window(stream), Some(0), "15,535 - 55,535 + 30,000 is below 0");
    let mut input = Vec::new();
    put_window_update(&mut input, stream, 20_001);
    client.receive(&input);
    assert_eq!(client.connection.window(stream), Some(10_001));
    assert_eq!(client.connection.open_whole(&block(), 10_001, 7, &mut client.out), None, "beyond a new window");
    assert!(client.connection.open_whole(&block(), 10_000, 7, &mut client.out).is_some());
}

#[test]
fn goaway_stops_new_streams_and_keeps_present_ones() {
    let mut client = Client::with(&[]);
    let (first, second) = (client.open(), client.open());
    let mut input = Vec::new();
    put_goaway(&mut input, first, ErrorCode::NO_ERROR, "");
    client.receive(&input);
    assert_eq!(client.events, ["goaway 1 0"]);
    assert!(client.connection.is_ending() && client.connection.room() == 0);
    assert!(client.connection.discard(second) && !client.connection.discard(second));
    client.receive(&reply_headers(first, flag::END_STREAM));
    assert_eq!(client.events[1], "headers 1 end");
    assert_eq!(client.connection.open_streams(), 0);
}

#[test]
fn reply_that_ends_before_its_request_stops_the_request() {
    let mut client = Client::with(&[]);
    let stream = client.connection.open(&block(), false, 7, &mut client.out).expect("there is room");
    client.out.clear();
    client.receive(&reply_headers(stream, flag::END_STREAM));
    assert_eq!(client.events, ["headers 1 end"]);
    let mut reset = Vec::new();
    put_rst_stream(&mut reset, stream, ErrorCode::CANCEL);
    assert_eq!(client.out, reset);
    assert_eq!(client.connection.send_data(stream, &[0; 10], true, &mut client.out), 0);
}

#[test]
fn frames_of_a_reset_stream_are_ignored_and_charged_to_the_connection_only() {
    let mut client = Client::with(&[]);
    let stream = client.open();
    assert!(client.connection.reset(stream, ErrorCode::CANCEL, &mut client.out));
    client.out.clear();
    let data = frame(kind::DATA, 0, stream, &[0; PAYLOAD_BYTES_MAX]);
    for _ in 0..(8 << 20) / PAYLOAD_BYTES_MAX {
        client.receive(&data);
    }
    client.receive(&reply_headers(stream, 0));
    assert!(client.events.is_empty(), "{:?}", client.events);
    let mut update = Vec::new();
    put_window_update(&mut update, 0, 8 << 20);
    assert_eq!(client.out, update, "the connection's window is opened again");
}

#[test]
fn malformed_replies_end_their_stream_and_not_the_connection() {
    let mut status = Vec::new();
    encode::literal(&mut status, b"grpc-status", b"0");
    let headers = |stream| reply_headers(stream, 0);
    let data = |stream, bytes: &[u8]| frame(kind::DATA, 0, stream, bytes);
    let fields = |stream, flags, block: &[u8]| frame(kind::HEADERS, flag::END_HEADERS | flags, stream, block);
    let mut with_length = b"\x88".to_vec();
    encode::literal(&mut with_length, b"content-length", b"3");
    let mut as_request = b"\x88".to_vec();
    encode::literal(&mut as_request, b":path", b"/");
    for (input, code) in [
        (data(1, b"x"), ErrorCode::PROTOCOL_ERROR),
        (fields(1, 0, &status), ErrorCode::PROTOCOL_ERROR),
        (fields(1, 0, &as_request), ErrorCode::PROTOCOL_ERROR),
        ([headers(1), fields(1, 0, &status)].concat(), ErrorCode::PROTOCOL_ERROR),
        ([headers(1), reply_headers(1, flag::END_STREAM)].concat(), ErrorCode::PROTOCOL_ERROR),
        ([fields(1, 0, &with_length), data(1, b"four")].concat(), ErrorCode::PROTOCOL_ERROR),
        ([fields(1, 0, &with_length), fields(1, flag::END_STREAM, &status)].concat(), ErrorCode::PROTOCOL_ERROR),
        (frame(kind::WINDOW_UPDATE, 0, 1, &[0; 4]), ErrorCode::PROTOCOL_ERROR),
        (frame(kind::WINDOW_UPDATE, 0, 1, &STREAM_ID_MAX.to_be_bytes()), ErrorCode::FLOW_CONTROL_ERROR),
    ] {
        let mut client = Client::with(&[]);
        client.open();
        client.out.clear();
        client.receive(&input);
        assert_eq!(client.events.last(), Some(&format!("reset 1 {}", code.0)), "{input:?}");
        let mut reset = Vec::new();
        put_rst_stream(&mut reset, 1, code);
        assert_eq!(client.out, reset);
        assert_eq!(client.connection.room(), (STREAM_ID_MAX as usize - 3) / 2, "the connection continues");
    }
}

#[test]
fn frames_that_break_the_connection_end_it_with_their_code() {
    use ErrorCode as Code;
    let mut goaway_short = frame(kind::GOAWAY, 0, 0, &[0; 7]);
    goaway_short.extend_from_slice(&[0; 64]);
    let mut no_table = vec![0xc0 | 62u8];
    no_table.insert(0, 0x88);
    for (input, code, text) in [
        (frame(kind::HEADERS, flag::END_HEADERS, 3, b"\x88"), Code::PROTOCOL_ERROR, "idle"),
        (frame(kind::HEADERS, flag::END_HEADERS, 2, b"\x88"), Code::PROTOCOL_ERROR, "idle"),
        (frame(kind::DATA, 0, 3, b"x"), Code::PROTOCOL_ERROR, "idle"),
        (frame(kind::DATA, flag::PADDED, 1, b"\x05abc"), Code::PROTOCOL_ERROR, "padding"),
        (frame(kind::RST_STREAM, 0, 3, &[0; 4]), Code::PROTOCOL_ERROR, "idle"),
        (frame(kind::RST_STREAM, 0, 1, &[0; 3]), Code::FRAME_SIZE_ERROR, "RST_STREAM"),
        (frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4]), Code::PROTOCOL_ERROR, "0 bytes"),
        (frame(kind::WINDOW_UPDATE, 0, 0, &STREAM_ID_MAX.to_be_bytes()), Code::FLOW_CONTROL_ERROR, "window"),
        (frame(kind::PING, 0, 0, &[0; 7]), Code::FRAME_SIZE_ERROR, "PING"),
        (frame(kind::PING, 0, 1, &[0; 8]), Code::PROTOCOL_ERROR, "PING"),
        (frame(kind::SETTINGS, 0, 0, &[0; 5]), Code::FRAME_SIZE_ERROR, "SETTINGS"),
        (frame(kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 1]), Code::PROTOCOL_ERROR, "PUSH"),
        (frame(kind::SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]), Code::FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE"),
        (frame(kind::SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1]), Code::PROTOCOL_ERROR, "MAX_FRAME_SIZE"),
        (frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0; 5]), Code::PROTOCOL_ERROR, "PUSH_PROMISE"),
        (frame(kind::CONTINUATION, 0, 1, b"\x88"), Code::PROTOCOL_ERROR, "CONTINUATION"),
        (
            [frame(kind::HEADERS, 0, 1, b"\x88"), frame(kind::PING, 0, 0, &[0; 8])].concat(),
            Code::PROTOCOL_ERROR,
            "CONTINUATION expected",
        ),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, &[0xff]), Code::COMPRESSION_ERROR, "integer"),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, &no_table), Code::COMPRESSION_ERROR, "index"),
        (vec![0xff; FRAME_HEADER_BYTES], Code::FRAME_SIZE_ERROR, "longer"),
        (goaway_short, Code::FRAME_SIZE_ERROR, "GOAWAY"),
    ] {
        let mut client = Client::with(&[]);
        client.open();
        client.assert_fails(&input, code, text);
    }
    let first = frame(kind::PING, 0, 0, &[0; 8]);
    Client::new().assert_fails(&first, Code::PROTOCOL_ERROR, "the first frame is not SETTINGS");
    Client::new().assert_fails(b"HTTP/1.1 400 Bad Request\r\n", Code::PROTOCOL_ERROR, "not SETTINGS");
    let long = frame(kind::CONTINUATION, 0, 1, &[0; PAYLOAD_BYTES_MAX]);
    let mut client = Client::with(&[]);
    client.open();
    client.assert_fails(
        &[frame(kind::HEADERS, 0, 1, b"\x88"), long.clone(), long.clone(), long].concat(),
        Code::ENHANCE_YOUR_CALM,
        "header block too long",
    );
}

#[test]
fn server_that_exceeds_a_window_is_refused() {
    let limits =
        ClientLimits { stream_window_bytes: 65_535, connection_window_bytes: 1 << 20, ..ClientLimits::DEFAULT };
    let mut client = Client::with(&[]);
    client.connection.limits = limits;
    client.open();
    client.receive(&reply_headers(1, 0));
    if let Some(stream) = client.connection.streams.find_mut(1) {
        stream.receive_window = 10;
    }
    client.receive(&frame(kind::DATA, 0, 1, &[0; 11]));
    assert_eq!(client.events.last().map(String::as_str), Some("reset 1 3"));
    client.connection.receive_window = 10;
    client.assert_fails(&frame(kind::DATA, 0, 1, &[0; 11]), ErrorCode::FLOW_CONTROL_ERROR, "connection's window");
}

#[test]
fn pings_settings_and_table_sizes_are_acknowledged() {
    let mut client = Client::with(&[]);
    let mut input = frame(kind::PING, 0, 0, b"12345678");
    input.extend(frame(kind::PING, flag::ACK, 0, b"abcdefgh"));
    put_settings(&mut input, &[(setting::HEADER_TABLE_SIZE, 0)]);
    input.extend(frame(kind::SETTINGS, flag::ACK, 0, b""));
    input.extend(frame(99, 0xff, 5, b"an extension"));
    input.extend(frame(kind::PRIORITY, 0, 1, &[0; 5]));
    assert_eq!(client.receive(&input), 0);
    let mut expected = frame(kind::PING, flag::ACK, 0, b"12345678");
    expected.extend(frame(kind::SETTINGS, flag::ACK, 0, b""));
    assert_eq!(client.out, expected);
    client.out.clear();
    client.open();
    assert_eq!(client.out[FRAME_HEADER_BYTES], encode::TABLE_SIZE_0, "the next block acknowledges the table's size");
    client.out.clear();
    client.open();
    assert_eq!(client.out[FRAME_HEADER_BYTES], 0x83);
}

#[test]
fn informational_reply_precedes_the_reply() {
    let mut client = Client::with(&[]);
    client.open();
    let mut early = Vec::new();
    encode::with_indexed_name(&mut early, 8, b"103");
    client.receive(&frame(kind::HEADERS, flag::END_HEADERS, 1, &early));
    client.receive(&reply_headers(1, flag::END_STREAM));
    assert_eq!(client.events, ["headers 1 end"]);
}

#[test]
fn exhausted_identifiers_end_the_connection_before_it_fails() {
    let mut client = Client::with(&[]);
    client.connection.next_stream = STREAM_ID_MAX - 2;
    assert!(client.connection.is_ending());
    let last = client.open();
    assert_eq!((last, client.connection.room()), (STREAM_ID_MAX - 2, 0));
}
