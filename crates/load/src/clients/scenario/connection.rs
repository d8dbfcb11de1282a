//! A gRPC connection that several threads share: each call and each subscription is a stream of it.
//!
//! ```text
//!   calls ──> open ──> socket ──> server        the reader thread sorts the server's frames by their streams
//!   calls <── wait <── streams <── reader <──   and wakes the calls that wait
//! ```

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use protocol::grpc::client::{CallFields, put_reply_message, reply_status};
use protocol::grpc::{MESSAGE_PREFIX_BYTES, Status, message_prefix};
use protocol::http2::client::{ClientConnection, ClientLimits, ReplyEvent, receive_reply};
use protocol::http2::hpack::encode;
use protocol::http2::{ErrorCode, FieldList};

/// Time limit for opening a connection.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(5);

/// The time without a received byte after which a ping is sent, and the time that the server has for a byte after it:
/// those of the presets in `clients/presets.toml`.
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(1);

/// A PING frame: its length, type, flags and stream, and eight bytes that the server sends back.
const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The longest time in which a waiting call does not notice that it was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(10);

/// The end of a stream: its status and the text of the status.
pub(super) type StreamEnd = (Status, String);

/// A request, as it is sent.
#[derive(Debug)]
pub(super) struct StreamRequest<'c> {
    /// `/package.Service/Method`.
    pub(super) path: &'c str,
    /// The cache.
    pub(super) cache: &'c str,
    /// The metadata by which the call asks for faults.
    pub(super) metadata: &'c [(String, String)],
    /// The request.
    pub(super) message: &'c [u8],
}

/// The reply of a stream, so far as it was received.
#[derive(Debug, Default)]
struct PartialReply {
    bytes: Vec<u8>,
    end: Option<StreamEnd>,
}

struct State {
    socket: TcpStream,
    http2: ClientConnection,
    streams: HashMap<u32, PartialReply>,
    /// The reason for which the connection has ended.
    failure: Option<String>,
}

struct SharedConnection {
    state: Mutex<State>,
    changed: Condvar,
}

impl SharedConnection {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection to the server. It ends when it is dropped.
pub(super) struct CallConnection {
    shared: Arc<SharedConnection>,
    authority: String,
}

impl Drop for CallConnection {
    fn drop(&mut self) {
        // The reader then receives the end of the connection, and ends too. A socket that is closed is not an error.
        drop(self.shared.lock().socket.shutdown(Shutdown::Both));
    }
}

impl CallConnection {
    /// Connects to the server, and waits until it accepts calls, or until the instant `until`.
    ///
    /// # Errors
    /// If nothing listens at the address, or if it is not the gRPC port of a server.
    pub(super) fn open(address: SocketAddr, until: Instant) -> Result<Self, String> {
        let failed = |cause: String| {
            format!("cannot connect to {address}: {cause}; pass the gRPC address of a server: --target HOST:PORT")
        };
        let io_failed = |error: std::io::Error| failed(error.to_string());
        let left = until.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), CONNECT_WAIT_MAX);
        let socket = TcpStream::connect_timeout(&address, left).map_err(io_failed)?;
        socket.set_nodelay(true).map_err(io_failed)?;
        let reads = socket.try_clone().map_err(io_failed)?;
        let mut out = Vec::new();
        let http2 = ClientConnection::begin(ClientLimits::DEFAULT, &mut out);
        let mut state = State { socket, http2, streams: HashMap::new(), failure: None };
        state.socket.write_all(&out).map_err(io_failed)?;
        let shared = Arc::new(SharedConnection { state: Mutex::new(state), changed: Condvar::new() });
        let connection = Self { shared: Arc::clone(&shared), authority: address.to_string() };
        std::thread::spawn(move || receive_all(&shared, reads));
        let mut state = connection.shared.lock();
        let until = until.min(Instant::now() + CONNECT_WAIT_MAX);
        while state.http2.room() == 0 {
            if let Some(cause) = state.failure.clone() {
                return Err(failed(cause));
            }
            if Instant::now() >= until {
                return Err(failed("the server sends no HTTP/2 settings".to_owned()));
            }
            state = connection.wait(state, until);
        }
        drop(state);
        Ok(connection)
    }

    /// Returns true if the connection accepts no further streams.
    pub(super) fn is_ending(&self) -> bool {
        let state = self.shared.lock();
        state.failure.is_some() || state.http2.is_ending()
    }

    /// Opens a stream and sends its whole request.
    ///
    /// # Errors
    /// The status and text of the failure if the connection has ended, or if the request does not fit into its windows.
    pub(super) fn send(&self, request: &StreamRequest<'_>, timeout: Option<Duration>) -> Result<u32, StreamEnd> {
        let fields = CallFields {
            path: request.path,
            authority: &self.authority,
            user_agent: "gannet-load",
            cache: request.cache,
            timeout_ns: timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)),
            ..CallFields::default()
        };
        let mut block = fields.block();
        for (name, value) in request.metadata {
            encode::literal(&mut block, name.as_bytes(), value.as_bytes());
        }
        let body = [&message_prefix(request.message.len() as u32)[..], request.message].concat();
        let mut state = self.shared.lock();
        let unavailable = |cause: &str| (Status::Unavailable, format!("the connection has ended: {cause}; call again"));
        if let Some(cause) = &state.failure {
            return Err(unavailable(cause));
        }
        let mut out = Vec::new();
        let stream = state.http2.open(&block, false, 0, &mut out);
        let stream = stream.ok_or_else(|| unavailable("it accepts no further streams"))?;
        if state.http2.send_data(stream, &body, true, &mut out) < body.len() {
            let text = format!("the request has {} bytes, more than the server's window; send less", body.len());
            return Err((Status::ResourceExhausted, text));
        }
        state.streams.insert(stream, PartialReply::default());
        if let Err(error) = state.socket.write_all(&out) {
            state.streams.remove(&stream);
            return Err(unavailable(&error.to_string()));
        }
        Ok(stream)
    }

    /// Awaits the end of a stream. Returns its status, and all messages. A stream that has not ended by `until`, or for
    /// which `is_cancelled` is true, is reset.
    pub(super) fn finish(
        &self,
        stream: u32,
        until: Instant,
        is_cancelled: impl Fn() -> bool,
    ) -> (StreamEnd, Vec<Vec<u8>>) {
        let mut state = self.shared.lock();
        loop {
            let end = state.streams.get(&stream).and_then(|received| received.end.clone());
            let end = end.or_else(|| {
                let late = || (Status::DeadlineExceeded, "no reply within the deadline; raise it".to_owned());
                let cancelled = || (Status::Cancelled, "the call was cancelled; call again".to_owned());
                if is_cancelled() { Some(cancelled()) } else { (Instant::now() >= until).then(late) }
            });
            if let Some(end) = end {
                let bytes = state.close(stream);
                return match messages(&bytes) {
                    Ok((messages, _)) if end.0 == Status::Ok => (end, messages),
                    Ok(_) => (end, Vec::new()),
                    Err(cause) => ((Status::Internal, cause), Vec::new()),
                };
            }
            state = self.wait(state, until);
        }
    }

    /// Awaits the next messages of a stream, of which there is at least one.
    ///
    /// # Errors
    /// The end of the stream, if it has ended, or if `is_cancelled` is true.
    pub(super) fn next_messages(
        &self,
        stream: u32,
        is_cancelled: impl Fn() -> bool,
    ) -> Result<Vec<Vec<u8>>, StreamEnd> {
        let mut state = self.shared.lock();
        loop {
            if let Some(received) = state.streams.get_mut(&stream) {
                let (found, used) = messages(&received.bytes).map_err(|cause| (Status::Internal, cause))?;
                received.bytes.drain(..used);
                if !found.is_empty() {
                    return Ok(found);
                }
            }
            let end = state.streams.get(&stream).and_then(|received| received.end.clone());
            let end =
                end.or_else(|| is_cancelled().then(|| (Status::Cancelled, "the stream was cancelled".to_owned())));
            if let Some(end) = end {
                state.close(stream);
                return Err(end);
            }
            state = self.wait(state, Instant::now() + CANCEL_CHECK);
        }
    }

    fn wait<'s>(&'s self, state: MutexGuard<'s, State>, until: Instant) -> MutexGuard<'s, State> {
        let left = until.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), CANCEL_CHECK);
        self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl State {
    /// Removes a stream, and resets it if it has not ended. Returns the bytes of its reply.
    fn close(&mut self, stream: u32) -> Vec<u8> {
        let received = self.streams.remove(&stream).unwrap_or_default();
        if received.end.is_none() {
            let mut out = Vec::new();
            self.http2.reset(stream, ErrorCode::CANCEL, &mut out);
            // The reader notices a connection that has ended.
            drop(self.socket.write_all(&out));
        }
        received.bytes
    }

    fn end(&mut self, stream: u32, status: Status, text: String) {
        if let Some(received) = self.streams.get_mut(&stream)
            && received.end.is_none()
        {
            received.end = Some((status, text));
        }
    }

    /// Handles all complete frames at the start of `bytes`, and removes them.
    fn handle(&mut self, bytes: &mut Vec<u8>, fields: &mut FieldList) -> Result<(), String> {
        let (mut out, mut at) = (Vec::new(), 0);
        let result = loop {
            let received = receive_reply(&mut self.http2, &bytes[at..], fields, &mut out);
            at += received.consumed;
            match received.event {
                ReplyEvent::Incomplete => break Ok(()),
                ReplyEvent::ConnectionError { text, .. } => break Err(text.to_owned()),
                ReplyEvent::Data { stream, bytes: part, end_stream, .. } => {
                    if let Some(received) = self.streams.get_mut(&stream) {
                        received.bytes.extend_from_slice(part);
                    }
                    if end_stream {
                        self.end(stream, Status::Unknown, "the reply has no status".to_owned());
                    }
                }
                ReplyEvent::Headers { stream, end_stream: true, .. } => {
                    let mut text = Vec::new();
                    put_reply_message(fields, &mut text);
                    self.end(stream, reply_status(fields), String::from_utf8_lossy(&text).into_owned());
                }
                ReplyEvent::Reset { stream, code, .. } => {
                    let status = match code {
                        ErrorCode::REFUSED_STREAM => Status::Unavailable,
                        ErrorCode::CANCEL => Status::Cancelled,
                        _ => Status::Internal,
                    };
                    self.end(stream, status, format!("the server reset the stream with code {}; call again", code.0));
                }
                ReplyEvent::GoAway { last_stream, .. } => {
                    let unprocessed: Vec<u32> = self.streams.keys().copied().filter(|id| *id > last_stream).collect();
                    for stream in unprocessed {
                        self.http2.discard(stream);
                        self.end(stream, Status::Unavailable, "the server stops; call again".to_owned());
                    }
                }
                _ => {}
            }
        };
        bytes.drain(..at);
        self.socket.write_all(&out).map_err(|error| format!("cannot send to the server: {error}"))?;
        result
    }
}

/// Receives from the server until the connection ends, and then ends all streams.
fn receive_all(shared: &SharedConnection, mut socket: TcpStream) {
    let mut fields = FieldList::new(ClientLimits::DEFAULT.header_list_bytes_max as usize);
    let (mut received, mut buffer) = (Vec::new(), [0; 16 << 10]);
    let mut has_pinged = false;
    let cause = loop {
        let wait = if has_pinged { KEEPALIVE_TIMEOUT } else { KEEPALIVE };
        let read = socket.set_read_timeout(Some(wait)).and_then(|()| socket.read(&mut buffer));
        match read {
            Ok(0) => break "the server closed the connection".to_owned(),
            Ok(len) => received.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if std::mem::replace(&mut has_pinged, true) {
                    break format!("no reply to a ping within {} ms", KEEPALIVE_TIMEOUT.as_millis());
                }
                match shared.lock().socket.write_all(&PING) {
                    Ok(()) => continue,
                    Err(error) => break format!("cannot send to the server: {error}"),
                }
            }
            Err(error) => break format!("cannot receive from the server: {error}"),
        }
        has_pinged = false;
        let handled = shared.lock().handle(&mut received, &mut fields);
        shared.changed.notify_all();
        if let Err(cause) = handled {
            break cause;
        }
    };
    let mut state = shared.lock();
    let open: Vec<u32> = state.streams.keys().copied().collect();
    for stream in open {
        state.end(stream, Status::Unavailable, format!("{cause}; call again"));
    }
    state.failure = Some(cause);
    shared.changed.notify_all();
}

/// Returns the complete messages at the start of a reply's body, and their length in bytes.
fn messages(body: &[u8]) -> Result<(Vec<Vec<u8>>, usize), String> {
    let (mut all, mut used) = (Vec::new(), 0);
    while let Some((prefix, rest)) = body[used..].split_first_chunk::<MESSAGE_PREFIX_BYTES>() {
        if prefix[0] != 0 {
            return Err("a message of the reply is compressed, which the request did not permit".to_owned());
        }
        let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        let Some(message) = rest.get(..len) else { break };
        all.push(message.to_vec());
        used += MESSAGE_PREFIX_BYTES + len;
    }
    Ok((all, used))
}
