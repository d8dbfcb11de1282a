//! Events that received frames cause.

use super::frame::ErrorCode;

/// The result of [`receive`](super::receive()).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'b> {
    /// The number of bytes to remove from the input's start; 0 with [`FrameEvent::Incomplete`] only.
    pub consumed: usize,
    /// The event.
    pub event: FrameEvent<'b>,
}

/// An event of a connection. A stream's `user` is the value that the caller has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEvent<'b> {
    /// The input has less than a frame. Pass it again with more bytes.
    Incomplete,
    /// Bytes were handled that need nothing of the caller.
    Nothing,
    /// A new request, whose fields are in the list.
    Headers {
        /// The stream.
        stream: u32,
        /// True if the request has no body.
        end_stream: bool,
    },
    /// A new request with more fields than the list may hold, which lacks some of them. The caller must reject it.
    HeadersTooLong {
        /// The stream.
        stream: u32,
        /// True if the request has no body.
        end_stream: bool,
    },
    /// A part of a request's body, possibly empty at the end. The caller calls
    /// [`consumed`](super::ServerConnection::consumed) when it has used the bytes.
    Data {
        /// The stream.
        stream: u32,
        /// The caller's value.
        user: u32,
        /// The bytes.
        bytes: &'b [u8],
        /// True if the body is complete.
        end_stream: bool,
    },
    /// The end of a request's body, with fields, which are in the list.
    Trailers {
        /// The stream.
        stream: u32,
        /// The caller's value.
        user: u32,
    },
    /// The end of a stream before its reply was complete: the client canceled it or violated the protocol.
    Reset {
        /// The stream.
        stream: u32,
        /// The caller's value.
        user: u32,
        /// The client's code, or that which was sent to the client.
        code: ErrorCode,
    },
    /// A larger window: more may be sent on one stream, or on all if there is none here.
    WindowOpened {
        /// The stream.
        stream: Option<u32>,
    },
    /// The client opens no more streams. Present ones continue.
    PeerGoAway {
        /// The client's reason.
        code: ErrorCode,
    },
    /// The end of the connection: a GOAWAY frame is in the control sink. Close the connection after it is sent.
    ConnectionError {
        /// The code in that frame.
        code: ErrorCode,
        /// The reason in that frame.
        text: &'static str,
    },
}
