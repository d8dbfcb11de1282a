//! Walks of the bytes that a server sends to an HTTP/2 client, for tests and fuzz targets.
#![allow(dead_code)]

use std::collections::BTreeSet;

use gannet_protocol::grpc::client::CallFields;
use gannet_protocol::http2::client::{ClientConnection, ClientLimits, ReplyEvent, receive_reply};
use gannet_protocol::http2::frame::FRAME_HEADER_BYTES;
use gannet_protocol::http2::{CONTROL_BYTES_MAX, FieldList};

/// The number of streams that the client has open.
const STREAMS: usize = 8;

/// Plays the bytes of a server, cut into pieces at `cuts`, to a client that opens streams as soon as it may. Returns
/// the events and what the client sent.
pub fn session(bytes: &[u8], cuts: &[usize]) -> (Vec<String>, Vec<u8>) {
    let mut output = Vec::new();
    let mut connection = ClientConnection::begin(ClientLimits::DEFAULT, &mut output);
    let mut fields = FieldList::new(ClientLimits::DEFAULT.header_list_bytes_max as usize);
    let block = CallFields { path: "/gannet.v1.Cache/Get", authority: "a", ..CallFields::default() }.block();
    let (mut events, mut open, mut unread, mut from) = (Vec::new(), BTreeSet::new(), Vec::new(), 0);
    let mut body = Vec::new();
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        unread.extend_from_slice(&bytes[from..cut]);
        from = cut;
        let mut at = 0;
        loop {
            let before = output.len();
            let received = receive_reply(&mut connection, &unread[at..], &mut fields, &mut output);
            assert_eq!(received.consumed == 0, received.event == ReplyEvent::Incomplete);
            assert!(output.len() - before <= CONTROL_BYTES_MAX);
            at += received.consumed;
            let text = match received.event {
                ReplyEvent::Incomplete => break,
                ReplyEvent::Nothing => continue,
                ReplyEvent::Ready => "ready".to_owned(),
                ReplyEvent::Headers { stream, user, end_stream } => {
                    assert!(open.contains(&stream) && user == !stream);
                    if end_stream {
                        open.remove(&stream);
                    }
                    let field =
                        |(name, value): (&[u8], &[u8])| format!(" {}={}", name.escape_ascii(), value.escape_ascii());
                    format!("headers {stream} {end_stream}{}", fields.iter().map(field).collect::<String>())
                }
                ReplyEvent::Data { stream, user, bytes, end_stream } => {
                    assert!(open.contains(&stream) && user == !stream);
                    body.extend_from_slice(bytes);
                    if !end_stream {
                        continue;
                    }
                    open.remove(&stream);
                    format!("end {stream}")
                }
                ReplyEvent::Reset { stream, user, code } => {
                    assert!(open.remove(&stream) && user == !stream);
                    format!("reset {stream} {}", code.0)
                }
                ReplyEvent::WindowOpened { stream } => format!("window {stream:?}"),
                ReplyEvent::GoAway { last_stream, code } => {
                    open.retain(|stream| *stream <= last_stream || !connection.discard(*stream));
                    format!("goaway {last_stream} {}", code.0)
                }
                ReplyEvent::ConnectionError { code, text } => {
                    if !events.last().is_some_and(|last: &String| last.starts_with("error")) {
                        events.push(format!("error {}: {text}", code.0));
                    }
                    continue;
                }
            };
            events.push(text);
            while open.len() < STREAMS && connection.room() > 0 {
                let next = 2 * (events.len() + open.len()) as u32;
                let stream = match next % 4 {
                    0 => connection.open_whole(&block, 3, 0, &mut output).inspect(|_| output.extend_from_slice(b"abc")),
                    _ => connection.open(&block, false, 0, &mut output),
                };
                let Some(stream) = stream else { break };
                connection.set_user(stream, !stream);
                connection.send_data(stream, &[0; 30_000], false, &mut output);
                open.insert(stream);
            }
            assert_eq!(connection.open_streams(), open.len());
        }
        unread.drain(..at);
        assert!(unread.len() < FRAME_HEADER_BYTES + (1 << 14), "no more than a frame is buffered");
    }
    events.push(format!("{} bytes", body.len()));
    (events, output)
}

/// Asserts that cuts change neither the events nor the output.
pub fn assert_cut(bytes: &[u8], cuts: &[usize]) {
    assert_eq!(session(bytes, &[]), session(bytes, cuts), "cut at {cuts:?}");
}
