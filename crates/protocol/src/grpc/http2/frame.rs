//! The layout of frames (RFC 9113, 4.1).
//!
//! ```text
//!   byte   0        3      4       5                    9
//!          | length | type | flags | 0, stream (31 bit) | payload, `length` bytes |
//! ```

use crate::sink::Sink;

/// The bytes that a client sends first (RFC 9113, 3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The length of a frame's header, in bytes.
pub(super) const HEAD_BYTES: usize = 9;
/// The maximum length of a received frame's payload, in bytes: the initial `SETTINGS_MAX_FRAME_SIZE`.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16_384;

/// Types of frames.
pub(super) mod kind {
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

/// Flags of frames.
pub(super) mod flag {
    pub const END_STREAM: u8 = 1;
    pub const ACK: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 32;
}

/// Error codes (RFC 9113, 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    /// A graceful end.
    NoError = 0,
    /// A violation of the protocol.
    ProtocolError = 1,
    /// A window beyond its maximum.
    FlowControlError = 3,
    /// A frame on a closed stream.
    StreamClosed = 5,
    /// A frame of an invalid length.
    FrameSizeError = 6,
    /// A stream that was not processed.
    RefusedStream = 7,
    /// A stream that is no longer needed.
    Cancel = 8,
    /// A header block that cannot be decoded.
    CompressionError = 9,
    /// A peer that causes excessive load.
    EnhanceYourCalm = 11,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHead {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHead {
    /// Reads the header at the start of `bytes`; `None` if it is incomplete.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, s0, s1, s2, s3] = *bytes.first_chunk::<HEAD_BYTES>()?;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        Some(Self { length, kind, flags, stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]) })
    }

    pub(super) const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Writes a frame's header.
pub(super) fn put_head(sink: &mut impl Sink, length: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    sink.put(&[a, b, c, kind, flags, s0, s1, s2, s3]);
}

/// Writes a frame whose payload is numbers of 32 bits.
pub(super) fn put_numbers(sink: &mut impl Sink, kind: u8, stream: u32, numbers: &[u32]) {
    put_head(sink, 4 * numbers.len(), kind, 0, stream);
    numbers.iter().for_each(|number| sink.put(&number.to_be_bytes()));
}
