//! Messages in the body of a request or reply.
//!
//! ```text
//!  offset 0      1                  5
//!         | flag | length           | message: length bytes
//! ```
//!
//! Flag 1 means that the message is compressed as `grpc-encoding` says.

/// The maximum length of a message in bytes.
pub const MESSAGE_BYTES_MAX: u32 = 10 * 1024 * 1024;

/// The length in bytes of what precedes each message.
pub const MESSAGE_PREFIX_BYTES: usize = 5;

/// Returns what precedes an uncompressed message of `len` bytes.
#[inline]
pub const fn message_prefix(len: u32) -> [u8; MESSAGE_PREFIX_BYTES] {
    let [b3, b2, b1, b0] = len.to_be_bytes();
    [0, b3, b2, b1, b0]
}

/// The causes by which a body cannot be split into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// A message longer than the maximum: RESOURCE_EXHAUSTED.
    TooLong,
    /// A flag other than 0 and 1: INTERNAL.
    Flag,
    /// The end of the body inside a message: INTERNAL.
    Truncated,
}

/// A part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagePart<'b> {
    /// All bytes are used.
    More,
    /// The start of a message.
    Start {
        /// True if the message is compressed.
        compressed: bool,
        /// The length of the message in bytes.
        len: u32,
    },
    /// The next bytes of the message.
    Bytes {
        /// The bytes.
        bytes: &'b [u8],
        /// True if the message is complete. An empty message has one empty part.
        last: bool,
    },
}

/// Returns the flag and the bytes of the only message of `body`; `None` unless it is exactly one message.
///
/// Most unary requests arrive so, and need no [`MessageReader`].
#[inline]
pub fn whole_message(body: &[u8]) -> Option<(bool, &[u8])> {
    let ([flag, length @ ..], message) = body.split_first_chunk::<MESSAGE_PREFIX_BYTES>()?;
    let is_whole = *flag <= 1 && message.len() == u32::from_be_bytes(*length) as usize;
    (is_whole && message.len() <= MESSAGE_BYTES_MAX as usize).then_some((*flag == 1, message))
}

/// A reader of messages that arrive in parts, cut anywhere. It buffers at most four bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageReader {
    prefix: [u8; MESSAGE_PREFIX_BYTES],
    /// The number of bytes in `prefix`.
    prefix_len: u8,
    /// The message's bytes are being read.
    inside: bool,
    left_bytes: u32,
}

impl MessageReader {
    /// Creates a reader at the start of a body.
    pub const fn new() -> Self {
        Self { prefix: [0; MESSAGE_PREFIX_BYTES], prefix_len: 0, inside: false, left_bytes: 0 }
    }

    /// Returns true if no byte of the body was read.
    pub fn is_new(&self) -> bool {
        !self.inside && self.prefix_len == 0
    }

    /// Removes the next part from the start of `body`.
    pub fn next<'b>(&mut self, body: &mut &'b [u8]) -> Result<MessagePart<'b>, MessageError> {
        if self.inside {
            if body.is_empty() && self.left_bytes > 0 {
                return Ok(MessagePart::More);
            }
            let (bytes, rest) = body.split_at(body.len().min(self.left_bytes as usize));
            *body = rest;
            self.left_bytes -= bytes.len() as u32;
            self.inside = self.left_bytes > 0;
            return Ok(MessagePart::Bytes { bytes, last: !self.inside });
        }
        let have = usize::from(self.prefix_len);
        let (part, rest) = body.split_at(body.len().min(MESSAGE_PREFIX_BYTES - have));
        self.prefix[have..have + part.len()].copy_from_slice(part);
        self.prefix_len += part.len() as u8;
        *body = rest;
        if usize::from(self.prefix_len) < MESSAGE_PREFIX_BYTES {
            return Ok(MessagePart::More);
        }
        let [flag, length @ ..] = self.prefix;
        let len = u32::from_be_bytes(length);
        if flag > 1 {
            return Err(MessageError::Flag);
        }
        if len > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLong);
        }
        *self = Self { inside: true, left_bytes: len, ..Self::new() };
        Ok(MessagePart::Start { compressed: flag == 1, len })
    }

    /// Checks that the body may end here.
    pub fn finish(&self) -> Result<(), MessageError> {
        if self.inside || self.prefix_len > 0 { Err(MessageError::Truncated) } else { Ok(()) }
    }
}
