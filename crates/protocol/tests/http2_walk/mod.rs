//! Walks of HTTP/2 sessions and header blocks, for tests and fuzz targets.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};

use gannet_protocol::grpc::{Call, MessagePart, MessageReader, Status, reply};
use gannet_protocol::http2::frame::{FRAME_HEADER_BYTES, FrameHeader, PREFACE, flag, kind};
use gannet_protocol::http2::hpack::{FieldList, HpackDecoder, encode};
use gannet_protocol::http2::{CONTROL_BYTES_MAX, ConnectionLimits, ErrorCode, FrameEvent, ServerConnection, receive};

/// The length of the long replies, which exceed the initial window.
const LONG_BYTES: usize = 70_000;

/// A server with the simplest caller: it answers each complete request by its stream's identifier.
struct Walk {
    connection: ServerConnection,
    fields: FieldList,
    /// All that was written.
    output: Vec<u8>,
    events: Vec<String>,
    /// The bytes of each open request, and the reader of its messages.
    bodies: BTreeMap<u32, (Vec<u8>, MessageReader)>,
    /// The bytes that long replies still have to send.
    unsent: BTreeMap<u32, usize>,
    failed: bool,
}

impl Walk {
    fn new() -> Self {
        let limits = ConnectionLimits { concurrent_streams_max: 10, ..ConnectionLimits::DEFAULT };
        Self {
            connection: ServerConnection::new(limits),
            fields: FieldList::new(limits.header_list_bytes_max as usize),
            output: Vec::new(),
            events: Vec::new(),
            bodies: BTreeMap::new(),
            unsent: BTreeMap::new(),
            failed: false,
        }
    }

    /// Handles all whole frames of `input`, and returns the number of bytes that were consumed.
    fn receive(&mut self, input: &[u8]) -> usize {
        let mut at = 0;
        while !self.failed {
            let mut control = Vec::new();
            let received = receive(&mut self.connection, &input[at..], &mut self.fields, &mut control);
            assert!(control.len() <= CONTROL_BYTES_MAX && received.consumed <= input.len() - at);
            self.output.extend_from_slice(&control);
            assert_eq!(received.consumed == 0, received.event == FrameEvent::Incomplete);
            if received.consumed == 0 {
                break;
            }
            at += received.consumed;
            self.event(received.event);
        }
        at
    }

    fn event(&mut self, event: FrameEvent<'_>) {
        match event {
            FrameEvent::Incomplete | FrameEvent::Nothing => {}
            FrameEvent::Headers { stream, end_stream } | FrameEvent::HeadersTooLong { stream, end_stream } => {
                self.describe_fields(&format!("request {stream}"));
                self.connection.set_user(stream, !stream);
                assert!(self.bodies.insert(stream, Default::default()).is_none());
                if let Err(refusal) = Call::of(&self.fields) {
                    self.events.push(format!("{refusal:?}"));
                }
                if end_stream {
                    self.answer(stream);
                }
            }
            FrameEvent::Data { stream, user, bytes, end_stream } => {
                assert_eq!(user, !stream);
                self.message(stream, bytes);
                if end_stream {
                    self.answer(stream);
                }
            }
            FrameEvent::Trailers { stream, user } => {
                assert_eq!(user, !stream);
                self.describe_fields(&format!("trailers {stream}"));
                self.answer(stream);
            }
            FrameEvent::Reset { stream, user, code } => {
                assert_eq!(user, !stream);
                self.bodies.remove(&stream);
                self.unsent.remove(&stream);
                self.events.push(format!("reset {stream} {}", code.0));
            }
            FrameEvent::WindowOpened { stream: Some(stream) } => self.send(stream),
            FrameEvent::WindowOpened { stream: None } => {
                self.unsent.keys().copied().collect::<Vec<_>>().into_iter().for_each(|stream| self.send(stream));
            }
            FrameEvent::PeerGoAway { code } => self.events.push(format!("goaway {}", code.0)),
            FrameEvent::ConnectionError { code, text } => {
                self.failed = true;
                self.events.push(format!("error {}: {text}", code.0));
            }
        }
    }

    fn describe_fields(&mut self, what: &str) {
        let field = |(name, value): (&[u8], &[u8])| format!("{}={}", name.escape_ascii(), value.escape_ascii());
        let fields: Vec<String> = self.fields.iter().map(field).collect();
        self.events.push(format!("{what}: {}", fields.join(" ")));
    }

    fn message(&mut self, stream: u32, bytes: &[u8]) {
        let (body, reader) = self.bodies.get_mut(&stream).expect("DATA only of open requests");
        body.extend_from_slice(bytes);
        let mut rest = bytes;
        while let Ok(part) = reader.next(&mut rest) {
            if part == MessagePart::More {
                break;
            }
        }
    }

    /// Answers a complete request: by one piece, by parts, by a failure or by a reset.
    fn answer(&mut self, stream: u32) {
        let (body, reader) = self.bodies.remove(&stream).expect("a request is answered once");
        let text = format!("body {stream}: {} {:?}", body.escape_ascii(), reader.finish());
        self.events.push(text);
        let (connection, output) = (&mut self.connection, &mut self.output);
        connection.consumed(stream, body.len(), output);
        match stream / 2 % 4 {
            0 if reply::begin_unary(connection, stream, 5, output) => {
                output.extend_from_slice(b"hello");
                reply::end_unary(stream, output);
            }
            3 => connection.reset(stream, ErrorCode::INTERNAL_ERROR, output),
            2 => assert!(reply::trailers_only(connection, stream, Status::NotFound, "no item", &[], output)),
            _ => {
                assert!(reply::headers(connection, stream, output));
                self.unsent.insert(stream, LONG_BYTES);
                self.send(stream);
            }
        }
    }

    fn send(&mut self, stream: u32) {
        let Some(left) = self.unsent.get_mut(&stream) else { return };
        let window = self.connection.window(stream).expect("an unsent reply has a stream");
        let accepted = self.connection.send_data(stream, &vec![0; *left], false, &mut self.output);
        assert_eq!(accepted, window.min(*left));
        *left -= accepted;
        if *left == 0 {
            self.unsent.remove(&stream);
            assert!(reply::trailers(&mut self.connection, stream, Status::Ok, "", &[], &mut self.output));
        }
    }

    /// Checks that a client can read the output, and that nothing follows a stream's end.
    fn check_output(&self) {
        let (mut rest, mut ended) = (&self.output[..], BTreeSet::new());
        let (mut decoder, mut fields) = (HpackDecoder::new(), FieldList::new(16 * 1024));
        while let Some(header) = FrameHeader::parse(rest) {
            let (payload, behind) = rest[FRAME_HEADER_BYTES..].split_at(header.len);
            rest = behind;
            if matches!(header.kind, kind::HEADERS | kind::DATA) {
                assert!(!ended.contains(&header.stream), "a frame after the end of stream {}", header.stream);
            }
            if header.kind == kind::HEADERS {
                decoder.decode(payload, &mut fields).expect("a block that a client can decode");
            }
            if header.kind == kind::RST_STREAM || header.kind <= kind::HEADERS && header.has(flag::END_STREAM) {
                ended.insert(header.stream);
            }
        }
        assert!(rest.is_empty(), "the output ends inside a frame");
    }
}

/// Plays the bytes after a client's preface, cut into pieces at `cuts`. Returns the events and the output.
pub fn session(bytes: &[u8], cuts: &[usize]) -> (Vec<String>, Vec<u8>) {
    let mut walk = Walk::new();
    let (mut unread, mut from) = (PREFACE.to_vec(), 0);
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        unread.extend_from_slice(&bytes[from..cut]);
        from = cut;
        let consumed = walk.receive(&unread);
        unread.drain(..consumed);
        assert!(walk.failed || unread.len() < FRAME_HEADER_BYTES + (1 << 14), "no more than a frame is buffered");
    }
    walk.check_output();
    walk.connection.tick();
    walk.connection.tick();
    assert_eq!(walk.connection.open_streams() == 0, walk.bodies.is_empty() && walk.unsent.is_empty());
    (walk.events, walk.output)
}

/// Asserts that cuts change neither the events nor the output.
pub fn assert_cut(bytes: &[u8], cuts: &[usize]) {
    assert_eq!(session(bytes, &[]), session(bytes, cuts), "cut at {cuts:?}");
}

/// Decodes header blocks, each after its length in two bytes, and asserts that lists are bounded, and that their fields
/// as literals are decoded to the same. Returns the number of blocks.
pub fn assert_blocks(bytes: &[u8]) -> usize {
    const LIST_BYTES_MAX: usize = 2000;
    let (mut decoder, mut fields) = (HpackDecoder::new(), FieldList::new(LIST_BYTES_MAX));
    let (mut rest, mut blocks) = (bytes, 0);
    while let Some((len, behind)) = rest.split_first_chunk::<2>() {
        let (block, behind) = behind.split_at(behind.len().min(usize::from(u16::from_be_bytes(*len))));
        rest = behind;
        if decoder.decode(block, &mut fields).is_err() {
            break;
        }
        blocks += 1;
        let size: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        assert!(size <= LIST_BYTES_MAX);
        let mut literals = Vec::new();
        fields.iter().for_each(|(name, value)| encode::literal(&mut literals, name, value));
        let mut again = FieldList::new(LIST_BYTES_MAX);
        HpackDecoder::new().decode(&literals, &mut again).expect("literals are a valid block");
        assert!(fields.iter().eq(again.iter()));
        assert_eq!(fields.content_length(), again.content_length());
        if !fields.is_too_long() {
            assert_eq!((fields.is_request(), fields.is_trailers()), (again.is_request(), again.is_trailers()));
        }
        assert!(decoder.heap_bytes() <= 20 * 1024);
        if blocks % 8 == 0 {
            decoder.shrink();
        }
    }
    blocks
}
