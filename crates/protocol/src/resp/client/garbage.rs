//! The errors of bytes that are not a valid reply.

/// The reason why bytes are not a valid reply. The rest of the stream cannot be decoded, so the caller must close the
/// connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Garbage {
    /// The first byte does not belong to any type.
    UnknownType,
    /// No line end within [`crate::resp::LINE_BYTES_MAX`].
    LineTooLong,
    /// A line that ends in `\n` without `\r`, or contains a `\r` elsewhere.
    LineEnd,
    /// A line that should be a number and is not.
    Number,
    /// An invalid count or length.
    Length,
    /// A bulk string longer than 4 GiB.
    BulkTooLong,
    /// More outstanding replies within one reply than [`super::VALUES_MAX`].
    TooManyValues,
    /// Replies nested deeper than [`super::DEPTH_MAX`].
    TooDeep,
    /// A string or array without a stated length.
    Streamed,
    /// A bulk string without `\r\n` after it.
    BulkEnd,
    /// A push message within a reply.
    NestedPush,
    /// A verbatim string without the letters of its format.
    Verbatim,
}

impl Garbage {
    /// All variants, for tests and documentation.
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
            Self::UnknownType => "a reply whose first byte is no RESP type",
            Self::LineTooLong => "a RESP line without a line end within 64 KiB",
            Self::LineEnd => "a RESP line that does not end in \\r\\n",
            Self::Number => "an invalid RESP number",
            Self::Length => "an invalid RESP count or length",
            Self::BulkTooLong => "a RESP string of 4 GiB or more",
            Self::TooManyValues => "a RESP reply of 2^31 parts or more",
            Self::TooDeep => "RESP replies nested deeper than 32 levels",
            Self::Streamed => "a streamed RESP string or array, which is not supported",
            Self::BulkEnd => "a RESP string without \\r\\n after it",
            Self::NestedPush => "a RESP push message within a reply",
            Self::Verbatim => "a RESP verbatim string without a format",
        }
    }
}

impl std::fmt::Display for Garbage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Garbage {}
