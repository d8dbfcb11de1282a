//! A gRPC client that executes one call after another on one connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use protocol::grpc::client::{CallFields, put_reply_message, reply_status};
use protocol::grpc::{MESSAGE_PREFIX_BYTES, Status, message_prefix};
use protocol::http2::client::{ClientConnection, ClientLimits, ReplyEvent, receive_reply};
use protocol::http2::hpack::encode;
use protocol::http2::{ErrorCode, FieldList};

/// Time limit for the server's first frame.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(5);

/// A call of a scenario.
#[derive(Debug)]
pub(super) struct CallRequest<'c> {
    /// `/package.Service/Method`.
    pub(super) path: &'c str,
    /// The cache.
    pub(super) cache: &'c str,
    /// The metadata by which the call asks for faults.
    pub(super) metadata: &'c [(String, String)],
    /// The request.
    pub(super) message: &'c [u8],
    /// The time after which the client cancels the call.
    pub(super) deadline: Duration,
}

/// The reply to a call.
#[derive(Debug)]
pub(super) struct CallReply {
    /// The status; `Status::Ok` if the messages are complete.
    pub(super) status: Status,
    /// The status's text.
    pub(super) text: String,
    /// The messages.
    pub(super) messages: Vec<Vec<u8>>,
}

/// A connection to the server.
pub(super) struct CallClient {
    stream: TcpStream,
    http2: ClientConnection,
    fields: FieldList,
    /// Bytes that are not handled yet.
    received: Vec<u8>,
    authority: String,
}

impl CallClient {
    /// Connects to the server, and waits until it accepts calls.
    ///
    /// # Errors
    /// If nothing listens at the address, or if it is not the gRPC port of a server.
    pub(super) fn connect(address: SocketAddr) -> Result<Self, String> {
        let failed = |cause: String| {
            format!("cannot connect to {address}: {cause}; pass the gRPC address of a server: --target HOST:PORT")
        };
        let stream = TcpStream::connect(address).map_err(|error| failed(error.to_string()))?;
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let mut out = Vec::new();
        let http2 = ClientConnection::begin(ClientLimits::DEFAULT, &mut out);
        let fields = FieldList::new(ClientLimits::DEFAULT.header_list_bytes_max as usize);
        let mut client = Self { stream, http2, fields, received: Vec::new(), authority: address.to_string() };
        client.write(&out).map_err(failed)?;
        let until = Instant::now() + CONNECT_WAIT_MAX;
        while client.http2.room() == 0 {
            if !client.read(until).map_err(failed)? {
                return Err(failed("the server sends no HTTP/2 settings".to_owned()));
            }
            while client.settle().map_err(failed)? {}
        }
        Ok(client)
    }

    /// Executes a call.
    ///
    /// # Errors
    /// If the connection ends, or the request does not fit into its windows.
    pub(super) fn call(&mut self, call: &CallRequest<'_>) -> Result<CallReply, String> {
        let fields = CallFields {
            path: call.path,
            authority: &self.authority,
            user_agent: "gannet-load",
            cache: call.cache,
            timeout_ns: Some(u64::try_from(call.deadline.as_nanos()).unwrap_or(u64::MAX)),
            ..CallFields::default()
        };
        let mut block = fields.block();
        for (name, value) in call.metadata {
            encode::literal(&mut block, name.as_bytes(), value.as_bytes());
        }
        let (mut out, until) = (Vec::new(), Instant::now() + call.deadline);
        let stream = self.http2.open(&block, false, 0, &mut out).ok_or("the server accepts no further call")?;
        let body = [&message_prefix(call.message.len() as u32)[..], call.message].concat();
        if self.http2.send_data(stream, &body, true, &mut out) < body.len() {
            return Err(format!("the request has {} bytes, more than the server's window", body.len()));
        }
        self.write(&out)?;
        let (mut text, mut bytes) = (String::new(), Vec::new());
        loop {
            let mut out = Vec::new();
            let received = receive_reply(&mut self.http2, &self.received, &mut self.fields, &mut out);
            let (consumed, mut end, mut is_incomplete) = (received.consumed, None, false);
            match received.event {
                ReplyEvent::Data { stream: of, bytes: part, end_stream, .. } if of == stream => {
                    bytes.extend_from_slice(part);
                    end = end_stream.then_some(Status::Unknown);
                }
                ReplyEvent::Headers { stream: of, end_stream: true, .. } if of == stream => {
                    let mut message = Vec::new();
                    put_reply_message(&self.fields, &mut message);
                    text = String::from_utf8_lossy(&message).into_owned();
                    end = Some(reply_status(&self.fields));
                }
                ReplyEvent::Reset { stream: of, code, .. } if of == stream => {
                    text = format!("the server reset the stream with code {}", code.0);
                    end = Some(match code {
                        ErrorCode::REFUSED_STREAM => Status::Unavailable,
                        ErrorCode::CANCEL => Status::Cancelled,
                        _ => Status::Internal,
                    });
                }
                ReplyEvent::ConnectionError { text: cause, .. } => return Err(cause.to_owned()),
                ReplyEvent::Incomplete => is_incomplete = true,
                _ => {}
            }
            self.received.drain(..consumed);
            if end.is_none() && is_incomplete && !self.read(until)? {
                self.http2.reset(stream, ErrorCode::CANCEL, &mut out);
                text = format!("no reply within {} ms", call.deadline.as_millis());
                end = Some(Status::DeadlineExceeded);
            }
            self.write(&out)?;
            if let Some(status) = end {
                return Ok(CallReply { status, text, messages: messages(&bytes)? });
            }
        }
    }

    /// Handles a frame that belongs to no call. Returns false if none is complete.
    fn settle(&mut self) -> Result<bool, String> {
        let mut out = Vec::new();
        let received = receive_reply(&mut self.http2, &self.received, &mut self.fields, &mut out);
        let (consumed, is_complete) = (received.consumed, received.event != ReplyEvent::Incomplete);
        if let ReplyEvent::ConnectionError { text, .. } = received.event {
            return Err(text.to_owned());
        }
        self.received.drain(..consumed);
        self.write(&out)?;
        Ok(is_complete)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| format!("cannot send to the server: {error}"))
    }

    /// Waits for bytes. Returns false if none have arrived by `until`.
    fn read(&mut self, until: Instant) -> Result<bool, String> {
        let mut buffer = [0; 16 << 10];
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
        match self.stream.read(&mut buffer) {
            Ok(0) => Err("the server closed the connection".to_owned()),
            Ok(len) => {
                self.received.extend_from_slice(&buffer[..len]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(format!("cannot receive from the server: {error}")),
        }
    }
}

/// Splits the body of a reply into its messages.
fn messages(mut body: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut all = Vec::new();
    while let Some((prefix, rest)) = body.split_first_chunk::<MESSAGE_PREFIX_BYTES>() {
        let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        let message = rest.get(..len).ok_or("the reply ends within a message")?;
        all.push(message.to_vec());
        body = &rest[len..];
    }
    if body.is_empty() { Ok(all) } else { Err("the reply ends within the prefix of a message".to_owned()) }
}
