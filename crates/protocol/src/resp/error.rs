//! Protocol errors. The server reports the error to the client, then closes the connection.

use crate::sink::Sink;

/// The reason why a client's bytes are not a valid request. If Redis has the same error, the text is Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline command without a line end within [`super::LINE_BYTES_MAX`].
    InlineTooLong,
    /// An inline command with an unclosed quote, or with text directly after a closing quote.
    UnbalancedQuotes,
    /// A line of an HTTP request ([`crate::http`]).
    Http,
    /// A count of arguments without a line end within [`super::LINE_BYTES_MAX`].
    CountTooLong,
    /// An argument count that is invalid or above the maximum.
    Count,
    /// A count above the lower maximum for clients that have not authenticated.
    UnauthenticatedCount,
    /// An argument length without a line end within [`super::LINE_BYTES_MAX`].
    LengthTooLong,
    /// The first byte of an argument is not `$` but this byte.
    ExpectedBulk(u8),
    /// An argument length that is invalid or above the maximum.
    Length,
    /// A length above the lower maximum for clients that have not authenticated.
    UnauthenticatedLength,
    /// An argument without `\r\n` after it.
    ArgumentEnd,
    /// All arguments together exceed the maximum request length.
    RequestTooLong,
}

impl ProtocolError {
    /// One value of each variant, for tests and documentation.
    pub const ALL: [Self; 12] = [
        Self::InlineTooLong,
        Self::UnbalancedQuotes,
        Self::Http,
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

    /// Returns a description of the error, without the received byte of [`ProtocolError::ExpectedBulk`].
    pub const fn text(self) -> &'static str {
        match self {
            Self::InlineTooLong => "too big inline request",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::Http => "this port does not serve HTTP",
            Self::CountTooLong => "too big mbulk count string",
            Self::Count => "invalid multibulk length",
            Self::UnauthenticatedCount => "unauthenticated multibulk length",
            Self::LengthTooLong => "too big bulk count string",
            Self::ExpectedBulk(_) => "expected '$', got '",
            Self::Length => "invalid bulk length",
            Self::UnauthenticatedLength => "unauthenticated bulk length",
            Self::ArgumentEnd => "expected CRLF after an argument",
            Self::RequestTooLong => "too big request",
        }
    }

    /// Writes the error line that the client receives, including its end: at most 80 bytes.
    pub fn put(self, sink: &mut impl Sink) {
        sink.put(b"-ERR Protocol error: ");
        sink.put(self.text().as_bytes());
        if let Self::ExpectedBulk(byte) = self {
            // A line end within an error would end the error line, so it is replaced by a space.
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
