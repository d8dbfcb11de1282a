//! gRPC over HTTP/2: calls, messages and statuses.
//!
//! ```text
//!  request   HEADERS  :method POST  :path /package.Service/Method  content-type application/grpc  grpc-timeout ...
//!            DATA     | flag | length, 4 bytes | message |  one or several
//!  reply     HEADERS  :status 200  content-type application/grpc
//!            DATA     | flag | length | message |
//!            HEADERS  grpc-status  grpc-message             trailers
//! ```
//!
//! [`Call::of`] checks a request's fields. [`MessageReader`] finds messages in DATA, and [`protobuf`] reads and writes
//! them. [`reply`] writes answers: a unary one that fits the windows is a constant head, the message, and a constant
//! tail. [`client`] has the other side: the fields of a request and the status of a reply.
//!
//! # Example
//! ```
//! use gannet_protocol::grpc::{Call, reply, whole_message};
//! use gannet_protocol::http2::{ConnectionLimits, FieldList, FrameEvent, ServerConnection, receive};
//!
//! let limits = ConnectionLimits::DEFAULT;
//! let mut connection = ServerConnection::new(limits);
//! let mut fields = FieldList::new(limits.header_list_bytes_max as usize);
//! let mut received: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
//!     \0\0\x00\x04\x00\0\0\0\0\
//!     \0\0\x1d\x01\x04\0\0\0\x01\x83\x86\x04\x06/a.B/C\x0f\x10\x10application/grpc\
//!     \0\0\x09\x00\x01\0\0\0\x01\0\0\0\0\x04ping";
//! let (mut control, mut sent) = (Vec::new(), Vec::new());
//! loop {
//!     let step = receive(&mut connection, received, &mut fields, &mut control);
//!     received = &received[step.consumed..];
//!     match step.event {
//!         FrameEvent::Incomplete => break,
//!         FrameEvent::Headers { .. } => assert_eq!(Call::of(&fields).unwrap().method, b"C"),
//!         FrameEvent::Data { stream, bytes, end_stream: true, .. } => {
//!             let (compressed, message) = whole_message(bytes).unwrap();
//!             assert!(!compressed && reply::begin_unary(&mut connection, stream, message.len(), &mut sent));
//!             sent.extend_from_slice(message);
//!             reply::end_unary(stream, &mut sent);
//!         }
//!         _ => {}
//!     }
//! }
//! assert!(sent.ends_with(b"grpc-status\x010") && connection.open_streams() == 0);
//! ```

mod call;
pub mod client;
mod message;
pub mod percent;
pub mod protobuf;
pub mod reply;
mod status;
mod timeout;

pub use call::{Call, Refusal};
pub use message::{
    MESSAGE_BYTES_MAX, MESSAGE_PREFIX_BYTES, MessageError, MessagePart, MessageReader, message_prefix, whole_message,
};
pub use status::Status;
pub use timeout::parse_timeout_ns;

#[cfg(test)]
mod tests;
