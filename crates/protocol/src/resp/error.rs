//! Faults of the protocol that a server reports to the client before it closes the connection.

use crate::sink::Sink;

/// Why a client's bytes are no request. The texts are Redis's where Redis has the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline command without a line end within [`super::LINE_BYTES_MAX`].
    InlineTooLong,
    /// An inline command with a quote that does not end, or with something right behind one that does.
    UnbalancedQuotes,
    /// A count of arguments without a line end within [`super::LINE_BYTES_MAX`].
    CountTooLong,
    /// A count of arguments that is none, or above the maximum.
    Count,
    /// Such a count from a client that has not authenticated.
    UnauthenticatedCount,
    /// A length of an argument without a line end within [`super::LINE_BYTES_MAX`].
    LengthTooLong,
    /// Something else where an argument begins: its first byte.
    ExpectedBulk(u8),
    /// A length of an argument that is none, or above the maximum.
    Length,
    /// Such a length from a client that has not authenticated.
    UnauthenticatedLength,
    /// An argument without its `\r\n`.
    ArgumentEnd,
    /// All the arguments together take more than the maximum.
    RequestTooLong,
}

impl ProtocolError {
    /// One of each, for tests and documents.
    pub const ALL: [Self; 11] = [
        Self::InlineTooLong,
        Self::UnbalancedQuotes,
        Self::CountTooLong,
        Self::Count,
        Self::UnauthenticatedCount,
        Self::LengthTooLong,
        Self::ExpectedBulk(b'x'),
        Self::Length,
        Self::UnauthenticatedLength,
        Self::ArgumentEnd,
        Self::RequestTooLong,
    ];

    /// Returns a description of the fault, without the letter of [`ProtocolError::ExpectedBulk`].
    pub const fn text(self) -> &'static str {
        match self {
            Self::InlineTooLong => "too big inline request",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::CountTooLong => "too big mbulk count string",
            Self::Count => "invalid multibulk length",
            Self::UnauthenticatedCount => "unauthenticated multibulk length",
            Self::LengthTooLong => "too big bulk count string",
            Self::ExpectedBulk(_) => "expected '$', got '",
            Self::Length => "invalid bulk length",
            Self::UnauthenticatedLength => "unauthenticated bulk length",
            Self::ArgumentEnd => "expected CRLF behind an argument",
            Self::RequestTooLong => "too big request",
        }
    }

    /// Puts the error line that a client reads, its end included: at most 80 bytes.
    pub fn put(self, sink: &mut impl Sink) {
        sink.put(b"-ERR Protocol error: ");
        sink.put(self.text().as_bytes());
        if let Self::ExpectedBulk(byte) = self {
            // A line end in an error would end the line.
            sink.put(&[if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }, b'\'']);
        }
        sink.put(b"\r\n");
    }
}

impl std::fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ExpectedBulk(byte) => write!(f, "{}{}'", self.text(), byte.escape_ascii()),
            _ => f.write_str(self.text()),
        }
    }
}

impl std::error::Error for ProtocolError {}
