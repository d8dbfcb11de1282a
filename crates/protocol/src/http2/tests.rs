//! Tests of a server's connection: each requirement of RFC 9113 by the hazard that it prevents, floods, and windows.

use base::prng::Prng;

use super::connection::{CONTROL_BYTES_MAX, ConnectionLimits, IDLE_BYTES_MAX, ServerConnection};
use super::event::FrameEvent;
use super::frame::{
    ErrorCode, FRAME_HEADER_BYTES, FrameHeader, PAYLOAD_BYTES_MAX, PREFACE, STREAM_ID_MAX, flag, kind, put_header,
    put_rst_stream, put_settings, put_window_update, setting,
};
use super::hpack::{FieldList, FieldName, encode};
use super::streams::Stream;
use super::{data_frames_bytes, headers_frames_bytes, receive};

/// The bytes that a client sends.
#[derive(Clone, Default)]
struct Sent(Vec<u8>);

impl Sent {
    fn frame(mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        put_header(&mut self.0, kind, flags, stream, payload.len());
        self.0.extend_from_slice(payload);
        self
    }

    fn headers(self, stream: u32, flags: u8) -> Self {
        self.frame(kind::HEADERS, flags | flag::END_HEADERS, stream, &request_block())
    }

    fn data(self, stream: u32, flags: u8, payload: &[u8]) -> Self {
        self.frame(kind::DATA, flags, stream, payload)
    }

    fn settings(mut self, settings: &[(u16, u32)]) -> Self {
        put_settings(&mut self.0, settings);
        self
    }

    fn window_update(self, stream: u32, increment: u32) -> Self {
        self.frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
    }

    fn reset(mut self, stream: u32) -> Self {
        put_rst_stream(&mut self.0, stream, ErrorCode::CANCEL);
        self
    }
}

fn request_block() -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    encode::with_indexed_name(&mut block, 4, b"/gannet.v1.Cache/Get");
    encode::with_indexed_name(&mut block, 31, b"application/grpc");
    block
}

/// A connection, with what the caller has seen of it.
struct Server {
    connection: ServerConnection,
    fields: FieldList,
    control: Vec<u8>,
    events: Vec<String>,
    /// The bytes that the connection has not consumed.
    unread: Vec<u8>,
    last_control_bytes: usize,
}

impl Server {
    fn new(limits: ConnectionLimits) -> Self {
        let fields = FieldList::new(limits.header_list_bytes_max as usize);
        let (control, events, unread) = (Vec::new(), Vec::new(), Vec::new());
        Self { connection: ServerConnection::new(limits), fields, control, events, unread, last_control_bytes: 0 }
    }

    /// Creates a server that has received a client's preface and SETTINGS.
    fn open(limits: ConnectionLimits) -> Self {
        let mut server = Self::new(limits);
        server.receive(&Sent(PREFACE.to_vec()).settings(&[]).0);
        server.control.clear();
        server
    }

    fn default() -> Self {
        Self::open(ConnectionLimits::DEFAULT)
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        let unread = std::mem::take(&mut self.unread);
        let mut rest = &unread[..];
        loop {
            let before = self.control.len();
            let received = receive(&mut self.connection, rest, &mut self.fields, &mut self.control);
            self.last_control_bytes = self.last_control_bytes.max(self.control.len() - before);
            assert!(self.control.len() - before <= CONTROL_BYTES_MAX);
            rest = &rest[received.consumed..];
            match received.event {
                FrameEvent::Incomplete => {
                    assert_eq!(received.consumed, 0);
                    break;
                }
                FrameEvent::Nothing => {}
                FrameEvent::ConnectionError { code, text } => {
                    self.events.push(format!("error {}: {text}", code.0));
                    break;
                }
                FrameEvent::Data { stream, bytes, end_stream, user } => {
                    // Parts of one frame are one event here.
                    let end = if end_stream { " end" } else { "" };
                    let text = bytes.escape_ascii();
                    match self.events.last_mut().filter(|last| last.starts_with(&format!("data {stream}/{user}:"))) {
                        Some(last) => last.push_str(&format!("{text}{end}")),
                        None => self.events.push(format!("data {stream}/{user}: {text}{end}")),
                    }
                }
                event => self.events.push(format!("{event:?}")),
            }
        }
        self.unread = rest.to_vec();
    }

    fn got(&mut self, sent: Sent) -> Vec<String> {
        self.receive(&sent.0);
        std::mem::take(&mut self.events)
    }

    /// Returns the control frames written since the last call: kind, stream and the payload's first word, or that of
    /// the error code in GOAWAY.
    fn control(&mut self) -> Vec<(u8, u32, u32)> {
        let bytes = std::mem::take(&mut self.control);
        let frames = frames(&bytes);
        let word =
            |bytes: &[u8], at| bytes.get(at..at + 4).map_or(0, |word| u32::from_be_bytes(word.try_into().unwrap()));
        let summary = |(header, payload): &(FrameHeader, Vec<u8>)| {
            (header.kind, header.stream, word(payload, if header.kind == kind::GOAWAY { 4 } else { 0 }))
        };
        frames.iter().map(summary).collect()
    }

    /// Returns the code of the connection error that `sent` causes.
    fn failure(sent: Sent) -> u32 {
        let mut server = Self::default();
        let events = server.got(sent);
        let last = events.last().cloned().unwrap_or_default();
        let control = server.control();
        let (kind, _, code) = *control.last().unwrap_or_else(|| panic!("no GOAWAY after {events:?}"));
        assert!(kind == kind::GOAWAY && last.starts_with(&format!("error {code}: ")), "{last}");
        assert!(
            server.got(Sent::default().headers(99, 0)).iter().all(|event| event == &last),
            "a failed connection ends"
        );
        assert!(server.control().is_empty(), "GOAWAY is sent once");
        code
    }

    /// Returns the stream and code of the stream error that `sent` causes.
    fn stream_failure(sent: Sent) -> (u32, u32) {
        let mut server = Self::default();
        server.receive(&sent.0);
        let control = server.control();
        let resets: Vec<_> = control.iter().filter(|(kind, ..)| *kind == kind::RST_STREAM).collect();
        assert_eq!((resets.len(), control.len()), (1, 1), "{control:?}");
        // The connection goes on.
        server.events.clear();
        assert_eq!(server.got(Sent::default().headers(99, 0)).len(), 1);
        (resets[0].1, resets[0].2)
    }
}

fn frames(bytes: &[u8]) -> Vec<(FrameHeader, Vec<u8>)> {
    let (mut rest, mut frames) = (bytes, Vec::new());
    while let Some(header) = FrameHeader::parse(rest) {
        let end = FRAME_HEADER_BYTES + header.len;
        frames.push((header, rest[FRAME_HEADER_BYTES..end].to_vec()));
        rest = &rest[end..];
    }
    assert!(rest.is_empty());
    frames
}

fn client() -> Sent {
    Sent::default()
}

const END: u8 = flag::END_STREAM;
const PROTOCOL_ERROR: u32 = ErrorCode::PROTOCOL_ERROR.0;
const FRAME_SIZE_ERROR: u32 = ErrorCode::FRAME_SIZE_ERROR.0;
const FLOW_CONTROL_ERROR: u32 = ErrorCode::FLOW_CONTROL_ERROR.0;
const STREAM_CLOSED: u32 = ErrorCode::STREAM_CLOSED.0;
const REFUSED_STREAM: u32 = ErrorCode::REFUSED_STREAM.0;
const CALM: u32 = ErrorCode::ENHANCE_YOUR_CALM.0;

#[test]
fn start_announces_limits_and_a_unary_call_ends_its_stream() {
    let mut server = Server::new(ConnectionLimits::DEFAULT);
    let start = Sent(PREFACE.to_vec()).settings(&[]);
    assert_eq!(server.got(start), Vec::<String>::new());
    let written = frames(&server.control);
    let settings = [0, 3, 0, 0, 0, 100, 0, 4, 0, 4, 0, 0, 0, 6, 0, 0, 0x40, 0];
    assert_eq!(written[0].1, settings);
    assert_eq!(written[1].1, (1024 * 1024 - 65_535u32).to_be_bytes());
    assert_eq!((written[2].0.kind, written[2].0.flags), (kind::SETTINGS, flag::ACK));
    server.control.clear();

    let call = client().headers(1, 0).data(1, END, b"hello");
    server.receive(&call.0[..FRAME_HEADER_BYTES + request_block().len()]);
    assert_eq!(server.fields.value(FieldName::Path), Some(&b"/gannet.v1.Cache/Get"[..]));
    server.connection.set_user(1, 77);
    server.receive(&call.0[FRAME_HEADER_BYTES + request_block().len()..]);
    assert_eq!(server.events, ["Headers { stream: 1, end_stream: false }", "data 1/77: hello end"]);
    assert_eq!((server.connection.user(1), server.connection.open_streams()), (Some(77), 1));
    assert!(server.connection.claim_whole_reply(1, 10, &mut server.control));
    assert_eq!((server.connection.open_streams(), server.connection.window(1)), (0, None));
    assert!(server.control().is_empty(), "no WINDOW_UPDATE before half a window is used");
}

fn long_session() -> Sent {
    let block = request_block();
    let padded = [&[3][..], b"padded", &[0; 3]].concat();
    let with_priority = [&[2, 0, 0, 0, 0, 9][..], &block, &[0; 2]].concat();
    Sent(PREFACE.to_vec())
        .settings(&[(setting::INITIAL_WINDOW_SIZE, 100_000), (99, 1)])
        .window_update(0, 1000)
        .headers(1, 0)
        .data(1, 0, b"one")
        .frame(kind::PING, 0, 0, b"12345678")
        .data(1, flag::PADDED, &padded)
        .frame(kind::HEADERS, END, 3, &block[..5])
        .frame(kind::CONTINUATION, 0, 3, &block[5..6])
        .frame(kind::CONTINUATION, flag::END_HEADERS, 3, &block[6..])
        .data(1, 0, b"")
        .frame(kind::HEADERS, flag::END_HEADERS | flag::PADDED | flag::PRIORITY, 5, &with_priority)
        .frame(0xbe, 0xff, 5, b"a frame of an unknown type")
        .frame(kind::PRIORITY, 0, 7, &[0, 0, 0, 1, 4])
        .data(5, END | flag::PADDED, &[4, 0, 0, 0, 0])
        .frame(kind::HEADERS, END | flag::END_HEADERS, 1, b"\0\x01x\x01y")
        .headers(7, 0)
        .reset(7)
        .window_update(3, 5)
        .frame(kind::GOAWAY, 0, 0, &[0; 8])
}

#[test]
fn frames_cut_anywhere_are_the_same_events() {
    let session = long_session().0;
    let mut whole = Server::new(ConnectionLimits::DEFAULT);
    whole.receive(&session);
    assert_eq!(
        whole.events,
        [
            "WindowOpened { stream: None }",
            "WindowOpened { stream: None }",
            "Headers { stream: 1, end_stream: false }",
            "data 1/0: onepadded",
            "Headers { stream: 3, end_stream: true }",
            "Headers { stream: 5, end_stream: false }",
            "data 5/0:  end",
            "Trailers { stream: 1, user: 0 }",
            "Headers { stream: 7, end_stream: false }",
            "Reset { stream: 7, user: 0, code: ErrorCode(8) }",
            "WindowOpened { stream: Some(3) }",
            "PeerGoAway { code: ErrorCode(0) }",
        ]
    );
    for cut in 0..session.len() {
        let mut server = Server::new(ConnectionLimits::DEFAULT);
        server.receive(&session[..cut]);
        server.receive(&session[cut..]);
        assert_eq!((&server.events, &server.control), (&whole.events, &whole.control), "cut at {cut}");
    }
    let mut server = Server::new(ConnectionLimits::DEFAULT);
    session.iter().for_each(|byte| server.receive(&[*byte]));
    assert_eq!((&server.events, &server.control), (&whole.events, &whole.control));
}

#[test]
fn damaged_sessions_never_panic_and_never_exceed_the_control_sink() {
    let seed = std::env::var("GANNET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("repeat: GANNET_SEED={seed} cargo test -p gannet-protocol damaged_sessions");
    let mut prng = Prng::new(seed);
    let session = long_session().0;
    let (mut failed, mut events) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = session.clone();
        for _ in 0..1 + prng.below(4) {
            // The preface is spared, because no session begins without it.
            let at = PREFACE.len() + prng.below((bytes.len() - PREFACE.len()) as u64) as usize;
            match prng.below(4) {
                0 => bytes[at] ^= 1 << prng.below(8),
                1 => bytes[at] = prng.next_u64() as u8,
                2 => bytes.insert(at, prng.next_u64() as u8),
                _ => drop(bytes.remove(at)),
            }
        }
        let cut = prng.below(bytes.len() as u64) as usize;
        let (mut whole, mut parts) = (Server::new(ConnectionLimits::DEFAULT), Server::new(ConnectionLimits::DEFAULT));
        whole.receive(&bytes);
        parts.receive(&bytes[..cut]);
        if !parts.events.last().is_some_and(|last| last.starts_with("error")) {
            parts.receive(&bytes[cut..]);
        }
        assert_eq!((&whole.events, &whole.control), (&parts.events, &parts.control));
        failed += u32::from(whole.events.last().is_some_and(|last| last.starts_with("error")));
        events += whole.events.len();
    }
    assert!(failed > 5000 && events > 50_000, "{failed} and {events} are too few to prove anything");
}

#[test]
fn other_protocol_is_refused_at_its_first_wrong_byte() {
    for (bytes, text) in [
        ("GET / HTTP/1.1\r\n", "HTTP/1 on a port for gRPC"),
        ("PRI * HTTP/1.1", "HTTP/1 on a port for gRPC"),
        ("*1\r\n$4\r\nPING\r\n", "invalid connection preface"),
        ("\x16\x03\x01", "TLS on a plaintext port: use no TLS"),
    ] {
        let mut server = Server::new(ConnectionLimits::DEFAULT);
        let events = server.got(Sent(bytes.into()));
        assert!(events.len() == 1 && events[0].starts_with(&format!("error 1: {text}")), "{events:?}");
        assert_eq!(server.control(), [(kind::GOAWAY, 0, PROTOCOL_ERROR)]);
    }
    let mut server = Server::new(ConnectionLimits::DEFAULT);
    let first_is_ping = Sent(PREFACE.to_vec()).frame(kind::PING, 0, 0, &[0; 8]);
    assert_eq!(server.got(first_is_ping), ["error 1: the first frame is not SETTINGS"]);
}

#[test]
fn frame_of_a_wrong_length_ends_the_connection() {
    for (hazard, sent) in [
        ("DATA", client().headers(1, 0).frame(kind::DATA, 0, 1, &[0; PAYLOAD_BYTES_MAX + 1])),
        ("unknown", client().frame(0x77, 0, 0, &[0; PAYLOAD_BYTES_MAX + 1])),
        ("SETTINGS", client().frame(kind::SETTINGS, 0, 0, &[0; 5])),
        ("SETTINGS ACK", client().frame(kind::SETTINGS, flag::ACK, 0, &[0; 6])),
        ("PING", client().frame(kind::PING, 0, 0, &[0; 7])),
        ("WINDOW_UPDATE", client().frame(kind::WINDOW_UPDATE, 0, 0, &[0; 5])),
        ("RST_STREAM", client().headers(1, 0).frame(kind::RST_STREAM, 0, 1, &[0; 3])),
        ("GOAWAY", client().frame(kind::GOAWAY, 0, 0, &[0; 7])),
        ("padded HEADERS", client().frame(kind::HEADERS, flag::PADDED, 1, &[])),
        ("padded DATA", client().headers(1, 0).data(1, flag::PADDED, &[])),
        ("HEADERS with priority", client().frame(kind::HEADERS, flag::PRIORITY, 1, &[0; 4])),
    ] {
        assert_eq!(Server::failure(sent), FRAME_SIZE_ERROR, "{hazard}");
    }
    assert_eq!(
        Server::stream_failure(client().headers(1, 0).frame(kind::PRIORITY, 0, 1, &[0; 4])),
        (1, FRAME_SIZE_ERROR)
    );
}

#[test]
fn frame_on_a_stream_where_it_must_not_be_ends_the_connection() {
    let open = || client().headers(5, 0);
    for (hazard, sent) in [
        ("DATA on stream 0", client().data(0, 0, b"x")),
        ("DATA on an idle stream", open().data(7, 0, b"x")),
        ("DATA on an even stream", open().data(2, 0, b"x")),
        ("HEADERS on stream 0", client().headers(0, 0)),
        ("HEADERS on an even stream", client().headers(2, 0)),
        ("HEADERS on a skipped stream", open().headers(3, END)),
        ("PRIORITY on stream 0", client().frame(kind::PRIORITY, 0, 0, &[0; 5])),
        ("RST_STREAM on stream 0", client().reset(0)),
        ("RST_STREAM on an idle stream", open().reset(7)),
        ("SETTINGS on a stream", client().frame(kind::SETTINGS, 0, 1, &[])),
        ("PING on a stream", client().frame(kind::PING, 0, 1, &[0; 8])),
        ("GOAWAY on a stream", client().frame(kind::GOAWAY, 0, 1, &[0; 8])),
        ("WINDOW_UPDATE on an idle stream", open().window_update(7, 1)),
        ("WINDOW_UPDATE of 0", client().window_update(0, 0)),
        ("CONTINUATION without HEADERS", client().frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[])),
        ("CONTINUATION after END_HEADERS", open().frame(kind::CONTINUATION, flag::END_HEADERS, 5, &[])),
        ("PUSH_PROMISE", open().frame(kind::PUSH_PROMISE, flag::END_HEADERS, 5, &[0; 4])),
        ("padding longer than DATA", open().data(5, flag::PADDED, &[4, 0, 0, 0])),
        ("padding longer than HEADERS", client().frame(kind::HEADERS, flag::PADDED, 1, &[2, 0])),
    ] {
        assert_eq!(Server::failure(sent), PROTOCOL_ERROR, "{hazard}");
    }
}

#[test]
fn header_block_is_not_interleaved_with_any_frame() {
    let begun = || client().headers(1, 0).frame(kind::HEADERS, END, 3, &request_block()[..4]);
    for (hazard, sent) in [
        ("DATA of another stream", begun().data(1, 0, b"x")),
        ("HEADERS", begun().headers(5, 0)),
        ("PING", begun().frame(kind::PING, 0, 0, &[0; 8])),
        ("SETTINGS", begun().settings(&[])),
        ("an unknown frame", begun().frame(0x99, 0, 3, &[])),
        ("CONTINUATION of another stream", begun().frame(kind::CONTINUATION, 0, 1, &[])),
    ] {
        assert_eq!(Server::failure(sent), PROTOCOL_ERROR, "{hazard}");
    }
}

#[test]
fn invalid_setting_ends_the_connection() {
    for (id, value, code) in [
        (setting::ENABLE_PUSH, 2, PROTOCOL_ERROR),
        (setting::INITIAL_WINDOW_SIZE, 1 << 31, FLOW_CONTROL_ERROR),
        (setting::MAX_FRAME_SIZE, 16_383, PROTOCOL_ERROR),
        (setting::MAX_FRAME_SIZE, 1 << 24, PROTOCOL_ERROR),
    ] {
        assert_eq!(Server::failure(client().settings(&[(id, value)])), code, "{id} = {value}");
    }
    let mut server = Server::default();
    let valid = [(setting::ENABLE_PUSH, 1), (setting::MAX_FRAME_SIZE, (1 << 24) - 1), (0, 9), (0xffff, 9)];
    assert!(server.got(client().settings(&valid)).is_empty());
    assert_eq!(server.control(), [(kind::SETTINGS, 0, 0)]);
}

#[test]
fn frame_after_the_end_of_its_stream_is_stream_closed() {
    let ended = || client().headers(1, END);
    assert_eq!(Server::stream_failure(ended().data(1, 0, b"x")), (1, STREAM_CLOSED), "half-closed");
    assert_eq!(Server::stream_failure(ended().headers(1, END)), (1, STREAM_CLOSED), "half-closed");
    assert_eq!(Server::stream_failure(ended().reset(1).data(1, 0, b"x")), (1, STREAM_CLOSED), "closed");
    assert_eq!(Server::failure(ended().reset(1).headers(1, END)), STREAM_CLOSED, "closed");
    // These may have crossed with the end.
    let mut server = Server::default();
    let late = ended().reset(1).reset(1).window_update(1, 5).frame(kind::PRIORITY, 0, 1, &[0; 5]);
    assert_eq!(server.got(late).len(), 2);
    assert!(server.control().is_empty());
}

#[test]
fn frames_sent_before_the_client_learned_of_a_reset_are_ignored() {
    let mut server = Server::default();
    server.got(client().headers(1, 0).data(1, 0, b"first"));
    server.connection.reset(1, ErrorCode::CANCEL, &mut server.control);
    assert_eq!(server.control(), [(kind::RST_STREAM, 1, ErrorCode::CANCEL.0)]);
    let window = server.connection.receive_window;
    let late = client().data(1, 0, b"late").window_update(1, 0).headers(1, END).data(1, END, b"x").reset(1);
    assert!(server.got(late).is_empty() && server.control().is_empty());
    assert_eq!(server.connection.receive_window, window - 5);
    // All bytes return to the connection's window.
    assert_eq!(server.connection.unannounced, 5 + 5);
    server.connection.reset(1, ErrorCode::CANCEL, &mut server.control);
    assert!(server.control().is_empty(), "a stream is reset once");
}

#[test]
fn reset_inside_a_data_frame_drops_its_rest() {
    let mut server = Server::default();
    let sent = client().headers(1, 0).data(1, END, b"first and last").headers(3, 0).0;
    let at = sent.len() - (FRAME_HEADER_BYTES + request_block().len()) - 4;
    server.receive(&sent[..at]);
    server.connection.reset(1, ErrorCode::CANCEL, &mut server.control);
    server.receive(&sent[at..]);
    let headers = |stream| format!("Headers {{ stream: {stream}, end_stream: false }}");
    assert_eq!(server.events, [headers(1), "data 1/0: first and ".to_owned(), headers(3)]);
    assert_eq!(server.connection.unannounced, 14);
}

#[test]
fn malformed_request_resets_its_stream_only() {
    let block = |fields: &[(&str, &str)]| {
        let mut block = request_block();
        fields.iter().for_each(|(name, value)| encode::literal(&mut block, name.as_bytes(), value.as_bytes()));
        block
    };
    let headers =
        |flags, fields: &[(&str, &str)]| client().frame(kind::HEADERS, flags | flag::END_HEADERS, 1, &block(fields));
    let length = [("content-length", "5")];
    let depends_on_itself = [&[0, 0, 0, 1, 0][..], &request_block()].concat();
    for (hazard, sent) in [
        ("uppercase name", headers(0, &[("Te", "trailers")])),
        ("connection-specific field", headers(0, &[("connection", "close")])),
        ("pseudo-header after others", headers(0, &[(":authority", "a")])),
        ("no pseudo-headers", client().frame(kind::HEADERS, flag::END_HEADERS, 1, &[])),
        ("promised body that is missing", headers(END, &length)),
        ("body longer than promised", headers(0, &length).data(1, 0, b"123456")),
        ("body shorter than promised", headers(0, &length).data(1, 0, b"12").data(1, END, b"34")),
        (
            "body that ends early by trailers",
            headers(0, &length).data(1, 0, b"12").frame(kind::HEADERS, END | flag::END_HEADERS, 1, &[]),
        ),
        ("trailers without END_STREAM", headers(0, &[]).frame(kind::HEADERS, flag::END_HEADERS, 1, b"\0\x01x\x01y")),
        ("trailers with a pseudo-header", headers(0, &[]).frame(kind::HEADERS, END | flag::END_HEADERS, 1, b"\x83")),
        (
            "a stream that depends on itself",
            client().frame(kind::HEADERS, flag::END_HEADERS | flag::PRIORITY, 1, &depends_on_itself),
        ),
        ("PRIORITY on itself", headers(0, &[]).frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 0])),
        ("WINDOW_UPDATE of 0", headers(0, &[]).window_update(1, 0)),
    ] {
        assert_eq!(Server::stream_failure(sent), (1, PROTOCOL_ERROR), "{hazard}");
    }
    let mut server = Server::default();
    let exact = headers(0, &length).data(1, flag::PADDED, b"\x02123\0\0").data(1, END, b"45");
    assert_eq!(server.got(exact)[1..], ["data 1/0: 12345 end"]);
}

#[test]
fn invalid_header_block_ends_the_connection() {
    let sent = client().frame(kind::HEADERS, flag::END_HEADERS, 1, &[0xbe]);
    assert_eq!(Server::failure(sent), ErrorCode::COMPRESSION_ERROR.0);
}

#[test]
fn block_of_a_refused_stream_still_reaches_the_table() {
    let limits = ConnectionLimits { concurrent_streams_max: 1, ..ConnectionLimits::DEFAULT };
    let mut server = Server::open(limits);
    let insert = [&request_block()[..], b"\x40\x01x\x01y"].concat();
    let repeat = [&request_block()[..], b"\xbe"].concat();
    server.got(client().headers(1, END).frame(kind::HEADERS, END | flag::END_HEADERS, 3, &insert));
    assert_eq!(server.control(), [(kind::RST_STREAM, 3, REFUSED_STREAM)]);
    assert!(server.connection.claim_whole_reply(1, 0, &mut server.control));
    assert_eq!(server.got(client().frame(kind::HEADERS, END | flag::END_HEADERS, 5, &repeat)).len(), 1);
    assert_eq!(server.fields.others().collect::<Vec<_>>(), [(&b"x"[..], &b"y"[..])]);
}

#[test]
fn streams_beyond_the_cap_are_refused_and_never_end_the_connection() {
    let mut server = Server::default();
    let mut sent = client();
    for stream in 0..3000 {
        sent = sent.headers(2 * stream + 1, 0).data(2 * stream + 1, END, b"12345");
    }
    let events = server.got(sent);
    assert_eq!(events.len(), 200);
    let control = server.control();
    assert_eq!(control.len(), 2900);
    assert!(control.iter().all(|(kind, _, code)| (*kind, *code) == (kind::RST_STREAM, REFUSED_STREAM)));
    assert_eq!(server.connection.open_streams(), 100);
}

#[test]
fn list_that_is_too_long_is_an_event_and_the_connection_goes_on() {
    let mut server = Server::default();
    let mut block = request_block();
    for _ in 0..5 {
        encode::literal(&mut block, b"x", &[b'y'; 4000]);
    }
    let sent = client()
        .frame(kind::HEADERS, END, 1, &block[..PAYLOAD_BYTES_MAX])
        .frame(kind::CONTINUATION, flag::END_HEADERS, 1, &block[PAYLOAD_BYTES_MAX..])
        .headers(3, END);
    let events = ["HeadersTooLong { stream: 1, end_stream: true }", "Headers { stream: 3, end_stream: true }"];
    assert_eq!(server.got(sent), events);
    assert!(server.connection.block.is_none());
}

#[test]
fn floods_end_the_connection_within_their_budgets() {
    let begun = client().headers(1, 0);
    let malformed = |stream| client().frame(kind::HEADERS, flag::END_HEADERS, stream, &[0x83]);
    let ended = || client().headers(3, END).reset(3);
    type Flood<'f> = (&'f str, usize, &'f dyn Fn(u32) -> Sent);
    let floods: [Flood<'_>; 10] = [
        ("rapid reset", 10_101, &|n| client().headers(2 * n + 3, 0).reset(2 * n + 3)),
        ("malformed requests", 1025, &|n| malformed(2 * n + 3)),
        ("empty DATA", 101, &|_| client().data(1, 0, b"")),
        ("DATA on a closed stream", 9992, &|n| if n == 0 { ended() } else { client() }.data(3, 0, b"x")),
        ("PING", 1001, &|_| client().frame(kind::PING, 0, 0, &[0; 8])),
        ("SETTINGS", 101, &|_| client().settings(&[])),
        ("SETTINGS ACK", 101, &|_| client().frame(kind::SETTINGS, flag::ACK, 0, &[])),
        ("WINDOW_UPDATE", 10_001, &|_| client().window_update(1, 1)),
        ("unknown frames", 10_001, &|_| client().frame(0x70, 0, 0, &[])),
        ("PRIORITY", 10_001, &|_| client().frame(kind::PRIORITY, 0, 1, &[0; 5])),
    ];
    for (hazard, most, frame) in floods {
        let mut server = Server::default();
        server.connection.tick();
        server.got(begun.clone());
        let failed = (0..).position(|n| {
            server.receive(&frame(n).0);
            server.events.last().is_some_and(|last| last.starts_with(&format!("error {CALM}")))
        });
        assert_eq!(failed.map(|n| n + 1), Some(most), "{hazard}");
        // A tick between renews the budget.
        let mut server = Server::default();
        server.got(begun.clone());
        for n in 0..2 * most as u32 {
            if n.is_multiple_of(most as u32 / 2 - 1) {
                server.connection.tick();
                server.connection.elapse(1000);
            }
            server.receive(&frame(n).0);
        }
        assert!(!server.events.iter().any(|event| event.starts_with("error")), "{hazard}");
    }
}

#[test]
fn continuation_flood_is_bounded_in_frames_and_bytes() {
    let begun = || client().frame(kind::HEADERS, 0, 1, b"");
    let empty = (0..17).fold(begun(), |sent, _| sent.frame(kind::CONTINUATION, 0, 1, b""));
    assert_eq!(Server::failure(empty), CALM);
    let long = (0..3).fold(begun(), |sent, _| sent.frame(kind::CONTINUATION, 0, 1, &[0; PAYLOAD_BYTES_MAX]));
    assert_eq!(Server::failure(long), CALM);
}

#[test]
fn client_that_pings_or_updates_its_window_for_each_reply_is_not_a_flood() {
    let mut server = Server::default();
    for n in 0..20_000 {
        let stream = 2 * n + 1;
        let call = client().headers(stream, 0).data(stream, END, b"12345").frame(kind::PING, 0, 0, &[0; 8]);
        server.got(call.window_update(0, 10).window_update(stream, 10));
        assert!(server.connection.claim_whole_reply(stream, 10, &mut server.control));
    }
    assert!(server.events.is_empty());
    assert_eq!(server.connection.open_streams(), 0);
}

#[test]
fn client_that_cancels_all_it_has_in_flight_is_not_an_attack() {
    let mut server = Server::default();
    for round in 0..20 {
        let streams = (0..100).map(|n| 2 * (100 * round + n) + 1);
        let opened = streams.clone().fold(client(), |sent, stream| sent.headers(stream, END));
        let canceled = streams.fold(opened, |sent, stream| sent.reset(stream));
        let events = server.got(canceled);
        assert!(events.len() == 200 && events.iter().all(|event| !event.starts_with("error")));
        server.connection.tick();
        server.connection.tick();
        server.connection.tick();
    }
}

#[test]
fn client_whose_calls_all_end_at_short_deadlines_is_not_an_attack() {
    let mut server = Server::default();
    for round in 0..1_000 {
        let streams = (0..100).map(|n| 2 * (100 * round + n) + 1);
        server.got(streams.clone().fold(client(), |sent, stream| sent.headers(stream, END)));
        server.connection.elapse(10);
        let events = server.got(streams.fold(client(), |sent, stream| sent.reset(stream)));
        assert!(events.iter().all(|event| event.starts_with("Reset")), "round {round}");
    }
    // Those of a second may be received at once.
    for round in 1_000..1_100 {
        let streams = (0..100).map(|n| 2 * (100 * round + n) + 1);
        let calls = streams.clone().fold(client(), |sent, stream| sent.headers(stream, END));
        let events = server.got(streams.fold(calls, |sent, stream| sent.reset(stream)));
        assert!(events.iter().all(|event| !event.starts_with("error")), "round {round}");
    }
}

#[test]
fn data_beyond_a_window_is_a_flow_control_error() {
    let limits =
        ConnectionLimits { stream_window_bytes: 65_535, connection_window_bytes: 100_000, ..ConnectionLimits::DEFAULT };
    let full =
        |sent: Sent, stream| (0..4).fold(sent, |sent, _| sent.data(stream, 0, &[0; 16_383])).data(stream, 0, b"123");
    let mut server = Server::open(limits);
    server.got(full(client().headers(1, 0).headers(3, 0), 1));
    assert!(server.control().is_empty());
    server.got(client().data(1, 0, b"4"));
    assert_eq!(server.control(), [(kind::RST_STREAM, 1, FLOW_CONTROL_ERROR), (kind::WINDOW_UPDATE, 0, 65_535)]);
    // What the reset returned may be sent again.
    server.got(full(client(), 3).headers(5, 0));
    assert!(server.control().is_empty());
    let events = server.got((0..3).fold(client(), |sent, _| sent.data(5, 0, &[0; 16_384])));
    assert_eq!(events.last().unwrap(), "error 3: DATA beyond the connection's window");
}

#[test]
fn window_that_overflows_is_a_flow_control_error() {
    let most = STREAM_ID_MAX;
    assert_eq!(Server::failure(client().window_update(0, most)), FLOW_CONTROL_ERROR);
    let open = || client().headers(1, 0);
    assert_eq!(Server::stream_failure(open().window_update(1, most)), (1, FLOW_CONTROL_ERROR));
    let grown = open().window_update(1, 1000).settings(&[(setting::INITIAL_WINDOW_SIZE, most)]);
    assert_eq!(Server::failure(grown), FLOW_CONTROL_ERROR);
}

#[test]
fn lower_initial_window_makes_windows_negative() {
    let mut server = Server::default();
    server.got(client().headers(1, END));
    assert_eq!(server.connection.send_data(1, &[0; 60_000], false, &mut server.control), 60_000);
    server.control.clear();
    server.got(client().settings(&[(setting::INITIAL_WINDOW_SIZE, 10_000)]).window_update(0, 1 << 20));
    assert_eq!(server.connection.window(1), Some(0));
    assert_eq!(server.connection.send_data(1, b"x", true, &mut server.control), 0);
    server.got(client().window_update(1, 50_000));
    assert_eq!(server.connection.window(1), Some(0), "-50,000 + 50,000");
    let opened = server.got(client().settings(&[(setting::INITIAL_WINDOW_SIZE, 10_001)]));
    assert_eq!(opened, ["WindowOpened { stream: None }"]);
    assert_eq!(server.connection.window(1), Some(1));
}

#[test]
fn long_data_is_sent_in_frames_and_only_within_the_window() {
    let mut server = Server::default();
    server.got(client().headers(1, END));
    let body: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
    let mut sent = Vec::new();
    assert!(server.connection.send_headers(1, b"\x88", false, &mut sent));
    let mut at = server.connection.send_data(1, &body, true, &mut sent);
    assert_eq!(at, 65_535);
    server.got(client().window_update(1, 50_000).window_update(0, 40_000));
    at += server.connection.send_data(1, &body[at..], true, &mut sent);
    assert!(
        at == body.len()
            && sent.len() <= headers_frames_bytes(1) + data_frames_bytes(65_535) + data_frames_bytes(34_465)
    );
    let frames = frames(&sent);
    let data: Vec<u8> = frames[1..].iter().flat_map(|(_, payload)| payload.clone()).collect();
    assert_eq!(data, body);
    assert!(frames.iter().all(|(header, _)| header.len <= PAYLOAD_BYTES_MAX));
    let ends = |header: &FrameHeader| header.kind == kind::DATA && header.has(END);
    assert_eq!(frames.iter().position(|(header, _)| ends(header)), Some(frames.len() - 1));
    assert_eq!(server.connection.open_streams(), 0);
    assert_eq!(server.connection.send_data(1, b"x", true, &mut sent), 0);
    assert!(!server.connection.send_headers(1, b"\x88", true, &mut sent));
}

#[test]
fn long_header_block_is_continued() {
    let mut server = Server::default();
    server.got(client().headers(1, END));
    let block = [0x88; 40_000];
    let mut sent = Vec::new();
    assert!(server.connection.send_headers(1, &block, true, &mut sent));
    assert!(sent.len() <= headers_frames_bytes(block.len()));
    let frames = frames(&sent);
    let summary: Vec<_> = frames.iter().map(|(header, _)| (header.kind, header.flags)).collect();
    let last = (kind::CONTINUATION, flag::END_HEADERS);
    assert_eq!(summary, [(kind::HEADERS, END), (kind::CONTINUATION, 0), last]);
    assert_eq!(frames.iter().map(|(_, payload)| payload.len()).sum::<usize>(), 40_000);
}

#[test]
fn lowered_header_table_is_acknowledged_once() {
    let mut server = Server::default();
    server.got(client().settings(&[(setting::HEADER_TABLE_SIZE, 0)]).headers(1, END).headers(3, END));
    server.control.clear();
    assert!(!server.connection.claim_whole_reply(1, 0, &mut server.control), "a constant lacks the size update");
    server.connection.send_headers(1, b"\x88", true, &mut server.control);
    server.connection.send_headers(3, b"\x88", true, &mut server.control);
    let payloads: Vec<_> = frames(&server.control).into_iter().map(|(_, payload)| payload).collect();
    assert_eq!(payloads, [vec![0x20, 0x88], vec![0x88]]);
}

#[test]
fn early_reply_leaves_the_request_half_closed_until_its_end() {
    let mut server = Server::default();
    server.got(client().headers(1, 0).headers(3, 0));
    for stream in [1, 3] {
        assert!(server.connection.send_headers(stream, b"\x88", true, &mut server.control));
    }
    assert_eq!((server.connection.open_streams(), server.connection.window(1)), (2, None));
    assert_eq!(server.got(client().data(1, END, b"x")), ["data 1/0: x end"]);
    assert_eq!(server.connection.open_streams(), 1);
    server.control.clear();
    server.connection.reset(3, ErrorCode::NO_ERROR, &mut server.control);
    assert_eq!(server.control(), [(kind::RST_STREAM, 3, 0)]);
}

#[test]
fn stop_accepts_streams_until_it_is_final_and_then_refuses() {
    let mut server = Server::default();
    server.got(client().headers(1, END));
    server.connection.shut_down(&mut server.control);
    assert_eq!(frames(&server.control)[0].1, [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    assert_eq!(server.got(client().headers(3, END)).len(), 1);
    server.control.clear();
    server.connection.finish(&mut server.control);
    assert_eq!(frames(&server.control)[0].1, [0, 0, 0, 3, 0, 0, 0, 0]);
    server.control.clear();
    assert!(server.got(client().headers(5, END)).is_empty());
    assert_eq!(server.control(), [(kind::RST_STREAM, 5, REFUSED_STREAM)]);
    assert!(server.connection.claim_whole_reply(1, 1, &mut server.control), "present streams continue");
}

#[test]
fn ten_megabytes_arrive_within_the_windows() {
    let mut server = Server::default();
    server.got(client().headers(1, 0));
    let (mut stream, mut connection) = (256 * 1024i64, 1024 * 1024i64);
    let (mut updates, payload) = (0, [0; PAYLOAD_BYTES_MAX]);
    for _ in 0..640 {
        assert!(stream >= payload.len() as i64 && connection >= payload.len() as i64, "the client must never wait");
        (stream, connection) = (stream - payload.len() as i64, connection - payload.len() as i64);
        server.got(client().data(1, 0, &payload));
        server.connection.consumed(1, payload.len(), &mut server.control);
        for (kind, id, bytes) in server.control() {
            assert_eq!(kind, kind::WINDOW_UPDATE);
            if id == 0 {
                connection += i64::from(bytes)
            } else {
                stream += i64::from(bytes)
            }
            updates += 1;
        }
    }
    assert!((60..=100).contains(&updates), "{updates} updates");
}

#[test]
fn padding_alone_never_exhausts_a_window() {
    let mut server = Server::default();
    server.got(client().headers(1, 0));
    let padded = [&[255][..], b"x", &[0; 255]].concat();
    for _ in 0..10_000 {
        server.receive(&client().data(1, flag::PADDED, &padded).0);
        server.connection.consumed(1, 1, &mut server.control);
    }
    assert!(!server.events.iter().any(|event| event.starts_with("error") || event.starts_with("Reset")));
}

#[test]
fn no_byte_of_the_receive_window_is_lost() {
    let seed = std::env::var("GANNET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("repeat: GANNET_SEED={seed} cargo test -p gannet-protocol no_byte_of_the_receive_window_is_lost");
    let mut prng = Prng::new(seed);
    let mut server = Server::default();
    let mut open: Vec<u32> = Vec::new();
    let (mut next, mut late, mut failed) = (1, 0, 0);
    for step in 0..30_000 {
        if step % 100 == 0 {
            server.connection.tick();
        }
        let any = |prng: &mut Prng, open: &[u32]| open[prng.below(open.len() as u64) as usize];
        match prng.below(8) {
            0 | 1 if open.len() < 50 => {
                let block = match prng.below(3) {
                    0 => [&request_block()[..], b"\x0f\x0d\x041000"].concat(),
                    _ => request_block(),
                };
                server.got(client().frame(kind::HEADERS, flag::END_HEADERS, next, &block));
                open.push(next);
                next += 2;
            }
            2 if !open.is_empty() => {
                server.connection.consumed(any(&mut prng, &open), prng.below(40_000) as usize, &mut server.control)
            }
            3 if !open.is_empty() => {
                server.connection.reset(any(&mut prng, &open), ErrorCode::CANCEL, &mut server.control)
            }
            4 if !open.is_empty() => drop(server.got(client().reset(any(&mut prng, &open)))),
            5 if !open.is_empty() => {
                server.connection.send_headers(any(&mut prng, &open), b"\x88", true, &mut server.control);
            }
            _ if next > 1 => {
                // Also on streams that are closed.
                let id = next - 2 * (1 + prng.below(40).min(u64::from(next) / 2 - 1) as u32);
                let mut payload = vec![0; prng.below(3000) as usize + 1];
                payload[0] = prng.below(payload.len() as u64).min(255) as u8;
                let flags = if prng.chance(1, 3) { flag::PADDED } else { 0 } | u8::from(prng.chance(1, 4));
                late += u32::from(!open.contains(&id));
                let sent = client().data(id, flags, &payload).0;
                let cut = prng.below(sent.len() as u64) as usize;
                server.receive(&sent[..cut]);
                if prng.chance(1, 8) {
                    server.connection.reset(id, ErrorCode::CANCEL, &mut server.control);
                }
                server.receive(&sent[cut..]);
            }
            _ => {}
        }
        failed += server.events.iter().filter(|event| event.starts_with("Reset")).count();
        assert!(!server.events.iter().any(|event| event.starts_with("error")), "{:?}", server.events);
        server.events.clear();
        server.control.clear();
        open.retain(|id| server.connection.user(*id).is_some());
        let streams: Vec<Stream> =
            open.iter().map(|id| *server.connection.streams.as_ref().unwrap().find(*id).unwrap()).collect();
        let held: u32 = streams.iter().map(|stream| stream.held).sum();
        let window = server.connection.receive_window + (server.connection.unannounced + held) as i32;
        assert_eq!(window, server.connection.limits.connection_window_bytes as i32);
        for stream in streams {
            let window = stream.receive_window + (stream.unannounced + stream.held) as i32;
            assert_eq!(window, server.connection.limits.stream_window_bytes as i32);
        }
    }
    assert!(late > 1000 && failed > 300, "{late} and {failed} are too few to prove anything");
}

#[test]
fn windows_follow_a_model() {
    let seed = std::env::var("GANNET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("repeat: GANNET_SEED={seed} cargo test -p gannet-protocol windows_follow_a_model");
    let mut prng = Prng::new(seed);
    let mut server = Server::default();
    let (mut initial, mut connection) = (65_535i64, 65_535i64);
    let mut streams: Vec<(u32, i64)> = Vec::new();
    let (mut next, mut blocked, mut negative) = (1, 0, 0);
    let body = vec![0; 80_000];
    for step in 0..50_000 {
        if step % 500 == 0 {
            server.connection.tick();
        }
        match prng.below(8) {
            0 if streams.len() < 60 => {
                server.got(client().headers(next, END));
                streams.push((next, initial));
                next += 2;
            }
            1 => {
                let more = prng.below(30_000) as u32 + 1;
                server.got(client().window_update(0, more));
                connection += i64::from(more);
            }
            2 if prng.chance(1, 8) => {
                let value = prng.below(100_000) as i64;
                server.got(client().settings(&[(setting::INITIAL_WINDOW_SIZE, value as u32)]));
                streams.iter_mut().for_each(|(_, window)| *window += value - initial);
                initial = value;
            }
            3 if !streams.is_empty() => {
                let at = prng.below(streams.len() as u64) as usize;
                let more = prng.below(30_000) as u32 + 1;
                server.got(client().window_update(streams[at].0, more));
                streams[at].1 += i64::from(more);
            }
            4 if !streams.is_empty() => {
                let at = prng.below(streams.len() as u64) as usize;
                let (id, _) = streams.swap_remove(at);
                if prng.chance(1, 2) {
                    server.connection.reset(id, ErrorCode::CANCEL, &mut server.control);
                } else {
                    assert!(server.connection.send_headers(id, b"\x88", true, &mut server.control));
                }
            }
            _ if !streams.is_empty() => {
                let at = prng.below(streams.len() as u64) as usize;
                let (id, window) = &mut streams[at];
                let len = prng.below(40_000) as usize;
                let accepted = server.connection.send_data(*id, &body[..len], false, &mut server.control);
                assert_eq!(accepted as i64, (len as i64).min(*window).min(connection).max(0));
                blocked += u32::from(accepted < len);
                *window -= accepted as i64;
                connection -= accepted as i64;
            }
            _ => {}
        }
        server.control.clear();
        negative += u32::from(streams.iter().any(|(_, window)| *window < 0));
        assert_eq!(server.connection.open_streams(), streams.len());
        for (id, window) in &streams {
            assert_eq!(server.connection.window(*id), Some((*window).min(connection).max(0) as usize));
        }
    }
    assert!(blocked > 100 && negative > 100, "{blocked} and {negative} are too few to prove anything");
}

#[test]
fn streams_that_live_long_are_found_among_later_ones() {
    let mut server = Server::default();
    let mut prng = Prng::new(3);
    let mut open: Vec<u32> = Vec::new();
    for n in 0..20_000u32 {
        let id = 2 * n + 1;
        server.got(client().headers(id, END));
        server.connection.set_user(id, !id);
        open.push(id);
        while open.len() > 99 || !open.is_empty() && prng.chance(1, 3) {
            // The first ones stay for long.
            let at = (prng.below(open.len() as u64) as usize).max(open.len() / 3);
            let id = open.remove(at.min(open.len() - 1));
            assert!(server.connection.claim_whole_reply(id, 0, &mut server.control));
            assert_eq!(server.connection.user(id), None);
        }
        if n % 50 == 0 {
            assert!(open.iter().all(|id| server.connection.user(*id) == Some(!id)));
            server.connection.tick();
        }
    }
    assert_eq!(server.connection.open_streams(), open.len());
}

#[test]
fn idle_connection_gives_back_its_memory() {
    let mut server = Server::default();
    assert_eq!(server.connection.heap_bytes(), 0, "nothing is allocated before the first request");
    let mut block = request_block();
    for n in 0..100 {
        block.extend_from_slice(b"\x40\x01x");
        encode::string(&mut block, format!("a value of some length, {n}").as_bytes());
    }
    for stream in 0..100 {
        server.got(client().frame(kind::HEADERS, END | flag::END_HEADERS, 2 * stream + 1, &block));
    }
    let active = server.connection.heap_bytes();
    for stream in 0..100 {
        assert!(server.connection.claim_whole_reply(2 * stream + 1, 0, &mut server.control));
    }
    server.connection.tick();
    assert_eq!(server.connection.heap_bytes(), active, "an active connection keeps its memory");
    server.connection.tick();
    let idle = size_of::<ServerConnection>() + server.connection.heap_bytes();
    assert!(idle <= IDLE_BYTES_MAX && active < 24 * 1024, "{idle} bytes idle, {active} active");
    server.got(client().headers(201, END));
    assert_eq!(server.connection.open_streams(), 1);
}

#[test]
fn control_bytes_of_a_frame_are_at_most_the_maximum_and_nearly_reach_it() {
    // The last permitted malformed stream has also used up half of the connection's window.
    let limits = ConnectionLimits { local_resets_max: 0, connection_window_bytes: 65_535, ..ConnectionLimits::DEFAULT };
    let mut server = Server::open(limits);
    server.got(client().headers(1, 0));
    let filled = (0..2).fold(client(), |sent, _| sent.data(1, 0, &[0; PAYLOAD_BYTES_MAX]));
    server.got(filled.headers(1, 0));
    let kinds: Vec<u8> = server.control().iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(kinds, [kind::RST_STREAM, kind::WINDOW_UPDATE, kind::GOAWAY]);
    assert!(server.last_control_bytes <= CONTROL_BYTES_MAX);
    let mut update = Vec::new();
    put_window_update(&mut update, 0, 1);
    assert_eq!(update.len(), 13);
}
