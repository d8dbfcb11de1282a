//! Frames and their codes (RFC 9113, 4 and 6), for servers and clients.
//!
//! ```text
//!  offset 0            3      4       5                9
//!         | length     | type | flags | R | stream id  | payload: length bytes
//! ```

use crate::sink::Sink;

/// The bytes with which a client begins a connection (RFC 9113, 3.4). A SETTINGS frame follows.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The length of a frame's header in bytes.
pub const FRAME_HEADER_BYTES: usize = 9;

/// The greatest length of a payload that this side receives: the default and smallest of SETTINGS_MAX_FRAME_SIZE.
pub const PAYLOAD_BYTES_MAX: usize = 16_384;

/// The greatest stream identifier.
pub const STREAM_ID_MAX: u32 = (1 << 31) - 1;

/// The greatest flow-control window in bytes (RFC 9113, 6.9.1).
pub const WINDOW_BYTES_MAX: i32 = i32::MAX;

/// The flow-control window in bytes that each connection and stream begins with (RFC 9113, 6.9.2).
pub const WINDOW_BYTES_DEFAULT: i32 = 65_535;

/// The types of frames (RFC 9113, 6).
#[allow(missing_docs)]
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// The flags of frames (RFC 9113, 6).
#[allow(missing_docs)]
pub mod flag {
    pub const ACK: u8 = 0x1;
    pub const END_STREAM: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// The identifiers of settings (RFC 9113, 6.5.2).
#[allow(missing_docs)]
pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// An error code of RST_STREAM and GOAWAY (RFC 9113, 7). A peer may send any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

#[allow(missing_docs)]
impl ErrorCode {
    pub const NO_ERROR: Self = Self(0);
    pub const PROTOCOL_ERROR: Self = Self(1);
    pub const INTERNAL_ERROR: Self = Self(2);
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    pub const SETTINGS_TIMEOUT: Self = Self(4);
    pub const STREAM_CLOSED: Self = Self(5);
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    pub const REFUSED_STREAM: Self = Self(7);
    pub const CANCEL: Self = Self(8);
    pub const COMPRESSION_ERROR: Self = Self(9);
    pub const CONNECT_ERROR: Self = Self(10);
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
    pub const INADEQUATE_SECURITY: Self = Self(12);
    pub const HTTP_1_1_REQUIRED: Self = Self(13);
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The payload's length in bytes.
    pub len: usize,
    /// The type, of [`kind`] or unknown.
    pub kind: u8,
    /// The flags, of [`flag`] or unknown.
    pub flags: u8,
    /// The stream, or 0 for the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Parses the header at the start of `bytes`; `None` if it is incomplete.
    #[inline(always)]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; FRAME_HEADER_BYTES] = bytes.first_chunk()?;
        let [len_2, len_1, len_0, kind, flags, id_3, id_2, id_1, id_0] = *header;
        let len = u32::from_be_bytes([0, len_2, len_1, len_0]) as usize;
        // The reserved bit is ignored (RFC 9113, 4.1).
        let stream = u32::from_be_bytes([id_3, id_2, id_1, id_0]) & STREAM_ID_MAX;
        Some(Self { len, kind, flags, stream })
    }

    /// Returns the encoded header.
    #[inline(always)]
    pub const fn encode(self) -> [u8; FRAME_HEADER_BYTES] {
        let [_, len_2, len_1, len_0] = (self.len as u32).to_be_bytes();
        let [id_3, id_2, id_1, id_0] = self.stream.to_be_bytes();
        [len_2, len_1, len_0, self.kind, self.flags, id_3, id_2, id_1, id_0]
    }

    /// Returns true if the frame has the flag.
    #[inline(always)]
    pub const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame's header.
#[inline]
pub fn put_header(sink: &mut impl Sink, kind: u8, flags: u8, stream: u32, len: usize) {
    sink.put(&FrameHeader { len, kind, flags, stream }.encode());
}

/// The length of an RST_STREAM frame in bytes.
pub const RST_STREAM_BYTES: usize = FRAME_HEADER_BYTES + 4;

/// Appends an RST_STREAM frame.
pub fn put_rst_stream(sink: &mut impl Sink, stream: u32, code: ErrorCode) {
    put_header(sink, kind::RST_STREAM, 0, stream, 4);
    sink.put(&code.0.to_be_bytes());
}

/// The length of a WINDOW_UPDATE frame in bytes.
pub const WINDOW_UPDATE_BYTES: usize = FRAME_HEADER_BYTES + 4;

/// Appends a WINDOW_UPDATE frame; stream 0 means the connection.
pub fn put_window_update(sink: &mut impl Sink, stream: u32, bytes: u32) {
    debug_assert!((1..=WINDOW_BYTES_MAX as u32).contains(&bytes));
    put_header(sink, kind::WINDOW_UPDATE, 0, stream, 4);
    sink.put(&bytes.to_be_bytes());
}

/// The maximum length of the debug text of a GOAWAY frame in bytes.
pub const GOAWAY_TEXT_BYTES_MAX: usize = 64;

/// The maximum length of a GOAWAY frame in bytes.
pub const GOAWAY_BYTES_MAX: usize = FRAME_HEADER_BYTES + 8 + GOAWAY_TEXT_BYTES_MAX;

/// Appends a GOAWAY frame. `text` is debug data for the peer's operator.
pub fn put_goaway(sink: &mut impl Sink, last_stream: u32, code: ErrorCode, text: &str) {
    debug_assert!(text.len() <= GOAWAY_TEXT_BYTES_MAX);
    put_header(sink, kind::GOAWAY, 0, 0, 8 + text.len());
    sink.put(&last_stream.to_be_bytes());
    sink.put(&code.0.to_be_bytes());
    sink.put(text.as_bytes());
}

/// Appends a SETTINGS frame.
pub fn put_settings(sink: &mut impl Sink, settings: &[(u16, u32)]) {
    put_header(sink, kind::SETTINGS, 0, 0, 6 * settings.len());
    for (id, value) in settings {
        sink.put(&id.to_be_bytes());
        sink.put(&value.to_be_bytes());
    }
}
