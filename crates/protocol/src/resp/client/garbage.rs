//! Why bytes are no reply.

/// Why what came is no reply. The stream cannot be followed any more: close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Garbage {
    /// The first byte is that of no type.
    UnknownType,
    /// No line end within [`crate::resp::LINE_BYTES_MAX`].
    LineTooLong,
    /// A line that ends in a newline alone, or has a carriage return within.
    LineEnd,
    /// A line that is no number, where its type is one.
    Number,
    /// A count or a length that is none.
    Length,
    /// A bulk string longer than 4 GiB.
    BulkTooLong,
    /// More replies within one than [`super::VALUES_MAX`].
    TooManyValues,
    /// Replies within replies deeper than [`super::DEPTH_MAX`].
    TooDeep,
    /// A string or array of no stated length.
    Streamed,
    /// A bulk string without its `\r\n`.
    BulkEnd,
    /// A message out of band within a reply.
    NestedPush,
    /// A verbatim string without the letters of its format.
    Verbatim,
}

impl Garbage {
    /// All of them, for tests and documents.
    pub const ALL: [Self; 12] = [
        Self::UnknownType,
        Self::LineTooLong,
        Self::LineEnd,
        Self::Number,
        Self::Length,
        Self::BulkTooLong,
        Self::TooManyValues,
        Self::TooDeep,
        Self::Streamed,
        Self::BulkEnd,
        Self::NestedPush,
        Self::Verbatim,
    ];

    /// Returns a description in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::UnknownType => "a reply that begins with the byte of no RESP type",
            Self::LineTooLong => "a RESP line without an end in 64 KiB",
            Self::LineEnd => "a RESP line that does not end in \\r\\n",
            Self::Number => "a RESP number that is none",
            Self::Length => "a RESP count or length that is none",
            Self::BulkTooLong => "a RESP string of 4 GiB or more",
            Self::TooManyValues => "a RESP reply of 2^31 parts or more",
            Self::TooDeep => "RESP replies within replies, deeper than 32",
            Self::Streamed => "a RESP string or array of no stated length, which no server sends",
            Self::BulkEnd => "a RESP string without \\r\\n behind it",
            Self::NestedPush => "a RESP push message within a reply",
            Self::Verbatim => "a RESP verbatim string without its format",
        }
    }
}

impl std::fmt::Display for Garbage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Garbage {}
